#include "measure_gpu/command_line.hpp"

#include <gpuplan/io/measured_device.hpp>
#include <gpuplan/io/progress.hpp>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "guides/front_end.hpp"
#include "measure_gpu/measurements.hpp"
#include "measure_gpu/report.hpp"

namespace measure_gpu_program {
namespace {

constexpr const char* about =
    "What a GPU reaches, beside what its data sheet says: matrix products, the instructions\n"
    "beneath them, memory, the links to the host and to other GPUs, and the launching of kernels.\n"
    "What it writes stands in for the data sheet in gpuplan's estimates.";
constexpr const char* examples =
    "Examples:\n"
    "  measure_gpu --json h100.json --header h100.hpp --name h100\n"
    "  measure_gpu --only memory --only matmul --quick\n"
    "Exit status: 0; 1 where something could not be measured or written; 2 for a wrong command\n"
    "line; 3 where there is no device.";

struct files {
  std::string json{};
  std::string header{};
  std::string name = "measured_gpu";
};

std::vector<std::string> names_of_parts() {
  std::vector<std::string> names;
  for (const part& one : parts()) names.emplace_back(one.name);
  return names;
}

std::string list_of_parts() {
  std::string list = "Parts:\n";
  for (const part& one : parts()) {
    const std::string name = one.name;
    list += "  " + name + std::string(9 - name.size(), ' ') + one.about +
            (one.usual ? "\n" : "; only where it is asked for\n");
  }
  return list;
}

}  // namespace

int run(int argc, char** argv, const surroundings& around) {
  request asked;
  files to;
  bool quiet = false;
  bool nothing_there = false;
  std::vector<std::string> failed;
  const int status = guides::run_program(
      argc,
      argv,
      {.name = "measure_gpu",
       .about = about,
       .examples = list_of_parts() + examples,
       .add =
           [&](CLI::App& app) {
             app.add_option("--device", asked.device, "Which device, from 0, as CUDA counts them")
                 ->transform(guides::whole_number(0, 1 << 16))
                 ->type_name("")
                 ->capture_default_str();
             app.add_option("--only", asked.only, "Measure this part; may be given again")
                 ->check(CLI::IsMember(names_of_parts()))
                 ->allow_extra_args(false)
                 ->type_name("");
             app.add_option("--model",
                            asked.model,
                            "A model whose layers' matrix products are measured, such as "
                            "llama-3.1-8b")
                 ->type_name("");
             app.add_option("--micro-batch", asked.micro_batch, "Of that model")
                 ->transform(guides::whole_number(1, 1 << 20))
                 ->type_name("")
                 ->capture_default_str();
             app.add_option("--sequence-length", asked.sequence_length, "Of that model")
                 ->transform(guides::whole_number(1, 1 << 24))
                 ->type_name("")
                 ->capture_default_str();
             app.add_flag(
                 "--quick", asked.quick, "Seconds for each measurement; spreads are wider");
             app.add_option("--json", to.json, "Write the measurement to this file as JSON")
                 ->type_name("FILE");
             app.add_option("--header", to.header, "Write it to this file as a header of constants")
                 ->type_name("FILE");
             app.add_option("--name", to.name, "Of the constant in that header")
                 ->check(guides::identifier())
                 ->type_name("")
                 ->capture_default_str();
             app.add_flag("--quiet", quiet, "Do not show how far it is");
           },
       .make =
           [&](const guides::output& as) {
             gpuplan::io::progress_line shown(quiet ? nullptr : stderr);
             outcome made;
             try {
               made = measure(
                   asked,
                   [&](std::string_view part, std::string_view what, double share) {
                     shown.show(std::string(part) + (what.empty() ? "" : ": " + std::string(what)),
                                share);
                   },
                   around);
             } catch (const no_device&) {
               nothing_there = true;
               throw;
             }
             failed = made.failed;
             const auto keep = [&](const char* option, const std::string& file, auto text) {
               if (file.empty()) return;
               try {
                 guides::write_file(option, file, text());
               } catch (const std::runtime_error& why) {
                 failed.emplace_back(why.what());
               }
             };
             keep("--json", to.json, [&] { return to_json(made.made.measured); });
             keep("--header", to.header, [&] { return to_header(made.made.measured, to.name); });
             return render(made.made, as);
           }});
  if (nothing_there) return 3;
  if (status != 0) return status;
  for (const std::string& why : failed) std::fprintf(stderr, "measure_gpu: %s\n", why.c_str());
  return failed.empty() ? 0 : 1;
}

}  // namespace measure_gpu_program
