#include "command_line.hpp"

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "calibrated_rows.hpp"
#include "compare.hpp"
#include "csv.hpp"
#include "guides/front_end.hpp"
#include "report.hpp"
#include "time_reports.hpp"

namespace accuracy {
namespace {

std::string about() {
  std::string text =
      "Predicts what the rows of CSV files measured, and prints by how much each prediction is "
      "off.\nA file's kind is known by its columns; rows find the models that they name in the "
      "other files, in any order. Predicted are, where a row has a measurement of them:";
  for (const quantity_text& quantity : quantities)
    text += std::string("\n  ") + quantity.name + " (" + quantity.unit + "): " + quantity.meaning;
  return text;
}

std::vector<csv_file> read_files(const std::vector<std::string>& paths) {
  std::vector<csv_file> files;
  for (const std::string& path : paths) files.push_back(read_csv(path));
  return files;
}

std::vector<file_comparison> compare_files(const std::vector<csv_file>& files,
                                           const comparison_options& options) {
  std::vector<file_comparison> compared = compare(files, options);
  std::string unknown;
  bool knows_any = false;
  for (const file_comparison& file : compared) {
    if (file.kind.empty()) unknown += file.path + ":1: its columns are those of no known kind\n";
    knows_any = knows_any || !file.kind.empty();
  }
  if (!knows_any) throw guides::bad_request(unknown.substr(0, unknown.size() - 1));
  std::fputs(unknown.c_str(), stderr);
  return compared;
}

}  // namespace

int run(int argc, char** argv) {
  std::vector<std::string> paths;
  bool rows = false;
  bool plans = false;
  bool ablation = false;
  bool by_source = false;
  std::size_t calibrates = 0;
  std::uint32_t seed = 1;
  comparison_options options;
  return guides::run_program(
      argc,
      argv,
      {"accuracy",
       about(),
       "",
       [&](CLI::App& app) {
         app.add_option("file", paths, "Files of measurements")->required();
         app.add_flag("--rows", rows, "One line per row and quantity, instead of summaries");
         app.add_flag_callback(
             "--closed-form",
             [&] { options.memory = memory_method::closed_form; },
             "Memory by lines of the micro-batch instead of replayed steps");
         app.add_flag("--time", options.time_only, "Of runs nothing but their time");
         app.add_flag_callback(
             "--seen", [&] { options.unseen = false; }, "Runs whose cells fit_time fits to");
         app.add_flag_callback(
             "--unseen",
             [&] { options.unseen = true; },
             "Runs whose cells fit_time holds out: a quarter of them");
         app.add_flag("--plans",
                      plans,
                      "Of runs that differ in the plan alone: is the fastest chosen, and what is "
                      "lost else");
         app.add_flag(
             "--ablation", ablation, "Errors of step times without each of the model's terms");
         app.add_flag("--by-source",
                      by_source,
                      "Step times: each source's rows, why some are refused, errors, and how many "
                      "lie in their range");
         app.add_flag(
             "--leave-out",
             options.leaves_out,
             "Step times by costs of software that nobody timed, whoever ran, and whole runs "
             "by those of other sources: what to expect of a new one");
         auto* const few = app.add_option("--calibrate",
                                          calibrates,
                                          "Step times with the numbers that so many rows of each "
                                          "source and GPU give, of the others")
                               ->check(CLI::Range(3, 1000));
         app.add_option("--seed", seed, "Which rows")->needs(few)->capture_default_str();
         app.footer(
             "Errors are (predicted - measured) / measured. A summary counts the rows that are\n"
             "compared and of these the exact ones; mean, median and the 90th percentile are of\n"
             "absolute errors, the bias is the mean of signed ones. Rows that repeat one\n"
             "configuration count once, by their means. Rows that cannot be predicted are "
             "skipped,\n"
             "with the reason; rows whose notes have a flag are predicted, and left out of the\n"
             "errors. Exit status: 0; 2 for a bad file or command line; 1 where printing fails.");
       },
       [&](const guides::output& as) {
         try {
           const std::vector<csv_file> read = read_files(paths);
           if (plans) return plans_report(timed_rows(read), rows, as);
           if (ablation) return ablation_report(timed_rows(read), as);
           if (calibrates != 0)
             return calibration_report(
                 calibrated_groups(timed_rows(read), calibrates, seed), rows, as);
           options.time_only = options.time_only || by_source;
           const auto files = compare_files(read, options);
           if (by_source) return sources_report(files, as);
           return rows ? rows_report(files, as) : summary_report(files, as);
         } catch (const bad_file& error) {
           throw guides::bad_request(error.what());
         }
       }});
}

}  // namespace accuracy
