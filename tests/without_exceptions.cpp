// Built with -fno-exceptions: every header can be used so.

#include <gpuplan/gpuplan.hpp>
#include <gpuplan/io/format.hpp>
#include <gpuplan/io/hugging_face_config.hpp>
#include <gpuplan/io/measured_sweep.hpp>
#include <gpuplan/io/slurm.hpp>

#include <string>

std::string every_format(const gpuplan::io::table& t) {
  using namespace gpuplan::io;
  std::string all;
  for (const format_traits& traits : formats) all += traits.write(t, {});
  return all;
}
