// Built with -fno-exceptions: every header can be used so.

#include <gpuplan/gpuplan.hpp>
#include <gpuplan/io/csv.hpp>
#include <gpuplan/io/json.hpp>
#include <gpuplan/io/markdown.hpp>
#include <gpuplan/io/measured_sweep.hpp>
#include <gpuplan/io/slurm.hpp>
#include <gpuplan/io/text.hpp>

#include <string>

std::string every_format(const gpuplan::io::table& t) {
  using namespace gpuplan::io;
  return to_text(t) + to_markdown(t) + to_csv(t) + to_json(t);
}
