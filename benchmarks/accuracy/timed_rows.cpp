#include "timed_rows.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "notes.hpp"
#include "step_predictions.hpp"
#include "timed_runs.hpp"

namespace accuracy {
namespace {

// The columns and remarks that plans of one question share.
std::string question_of(const row& source) {
  std::string question;
  for (const std::string_view column : {"source",
                                        "gpu",
                                        "gpus",
                                        "inter_node_GBps_per_gpu",
                                        "layers",
                                        "hidden",
                                        "heads",
                                        "ffn",
                                        "vocab",
                                        "experts",
                                        "seq_len",
                                        "global_batch",
                                        "precision",
                                        "flash_attention",
                                        "compile"})
    question += std::string(source.text(column)) + '/';
  for (const std::string_view remark : {"container", "model", "gpu_variant", "async_tp", "float8"})
    question += std::string(value_in(source.text("notes"), remark)) + '/';
  return question;
}

std::string plan_text(const timed_run& run) {
  const gpuplan::parallelism& layout = run.setup.parallelism;
  std::string text = "dp " + std::to_string(run.plan.data_parallel);
  const auto add = [&](const char* name, std::int64_t value) {
    if (value != 1) text += std::string(" ") + name + " " + std::to_string(value);
  };
  add("tp", layout.tensor_parallel);
  add("pp", layout.pipeline_parallel);
  add("vpp", layout.virtual_pipeline);
  add("cp", layout.context_parallel);
  add("ep", layout.expert_parallel);
  if (layout.zero_stage != 0) text += " zero " + std::to_string(layout.zero_stage);
  if (run.setup.recompute != gpuplan::recompute_mode::none) text += " recomputed";
  return text + ", " + std::to_string(run.plan.micro_batch) + " x " +
         std::to_string(run.plan.accumulation);
}

}  // namespace

double timed_row::log_error(const gpuplan::roofline_time& by) const {
  return std::log(by.step(batch).value() / seconds);
}

std::vector<timed_row> timed_rows(const std::vector<csv_file>& files) {
  std::vector<timed_row> rows;
  std::map<std::string, std::pair<std::size_t, std::size_t>> repeats;  // place, count
  for (const csv_file& file : files)
    for (const csv_file::row_of_cells& cells : file.rows) {
      const row source(file, cells);
      const std::string_view notes = source.text("notes");
      if (is_flagged(notes)) continue;
      const timed_run run = describe_timed_run(source);
      const auto seconds = measured_step(source, run);
      if (!seconds || !run.why_not.empty()) continue;
      if (const std::string repeated(repeated_id(notes)); !repeated.empty()) {
        const auto [known, is_first] = repeats.try_emplace(repeated, rows.size(), 0);
        auto& [place, count] = known->second;
        ++count;
        if (!is_first) {
          rows[place].seconds += (*seconds - rows[place].seconds) / static_cast<double>(count);
          continue;
        }
      }
      rows.push_back({.id = std::string(source.text("id")),
                      .source = std::string(source.text("source")),
                      .cell = cell_of(source),
                      .question = question_of(source),
                      .plan = plan_text(run),
                      .is_unseen = is_unseen(source),
                      .is_composed = notes.find("composed by its source") != notes.npos,
                      .seconds = *seconds,
                      .model = time_model_of(run),
                      .batch = run.plan});
    }
  return rows;
}

double percent_of_log(double log_error) { return 100 * std::abs(std::expm1(log_error)); }

error_size size_of(const std::vector<double>& log_errors) {
  std::vector<double> errors;
  for (const double error : log_errors) errors.push_back(percent_of_log(error));
  return size_of_percents(errors);
}

error_size size_of_percents(std::vector<double> errors) {
  error_size size{.rows = errors.size()};
  if (errors.empty()) return size;
  std::sort(errors.begin(), errors.end());
  for (const double error : errors) size.mean += error / static_cast<double>(errors.size());
  size.median = (errors[(errors.size() - 1) / 2] + errors[errors.size() / 2]) / 2;
  return size;
}

}  // namespace accuracy
