#include "read_sweep/command_line.hpp"

#include <gpuplan/gpu.hpp>
#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/csv.hpp>
#include <gpuplan/io/measured_sweep.hpp>
#include <gpuplan/io/sweep/chart.hpp>
#include <gpuplan/io/sweep/report.hpp>
#include <gpuplan/io/sweep/rows.hpp>
#include <gpuplan/io/sweep/settings.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/memory_model.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/sweep.hpp>
#include <gpuplan/units.hpp>

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "guides/batch_sweep.hpp"
#include "guides/front_end.hpp"
#include "guides/render.hpp"
#include "runs/own_cluster.hpp"
#include "setups/options.hpp"

namespace read_sweep_program {
namespace {

namespace io = gpuplan::io;
using namespace gpuplan::literals;

constexpr const char* about =
    "What a batch-size sweep says: its table, the setting to take by each rule and why, and what\n"
    "holds each setting back. Reads a table as a benchmark prints it, CSV, or JSON lines.";
constexpr const char* examples =
    "Columns may be called as other programs have it; times and memory must state their unit.\n"
    "Examples:\n"
    "  gpuplan sweep examples/gpuplan/read_sweep/guide_004.txt --gpu a100_sxm4_80gb\n"
    "  gpuplan sweep sweep.csv --gpu rtx_4090 --svg sweep.svg --header sweep.hpp --date "
    "2026-11-23\\\n"
    "    --model \"ViT-B/16\"\n"
    "  gpuplan sweep sweep.csv --gpu rtx_4090 --model gpt2-medium --steps steps.csv \\\n"
    "    --step sequence-length=1024\n"
    "  benchmark | gpuplan sweep -";

constexpr guides::batch_sweep::inputs guide{};

struct request {
  std::string file{};
  std::string gpu{};
  std::string device{};  // its name, where that is not the catalogue's
  double memory_GB = 0;
  double data_ms = gpuplan::in(guide.slow_loading, 1_ms);
  std::pair<double, double> utilisation{100 * guide.good_utilisation.low(),
                                        100 * guide.good_utilisation.high()};
  std::pair<double, double> memory_share{100 * guide.good_memory.low(),
                                         100 * guide.good_memory.high()};
  std::string bad_lines = "refuse";
  std::string svg_file{};
  std::string header_file{};
  std::string name = "sweep";
  std::string model{};
  std::string date{};
  std::string steps_file{};
  std::vector<std::string> step_columns{};  // sequence-length=1024
};

gpuplan::range<double> band(const char* option, const std::pair<double, double>& percent) {
  if (!(percent.first <= percent.second))
    throw guides::bad_request(std::string(option) + ": from the lower end to the upper one");
  return {percent.first / 100, percent.second / 100};
}

std::string lines_in_words(const std::string& file, const std::vector<io::bad_line>& bad) {
  constexpr std::size_t most_shown = 20;
  std::string words;
  for (std::size_t at = 0; at < bad.size() && at < most_shown; ++at)
    words += "\n  " + file + ':' + std::to_string(bad[at].line) + ": " + bad[at].reason;
  if (bad.size() > most_shown)
    words += "\n  and " + std::to_string(bad.size() - most_shown) + " more";
  return words;
}

// The setting of the fastest row: the one whose models the report tells of.
std::string header(const request& asked,
                   const std::vector<gpuplan::sweep_row>& rows,
                   const io::sweep_judgement& by) {
  gpuplan::sweep_origin origin{
      .device = by.device_name.c_str(), .model = asked.model.c_str(), .date = asked.date.c_str()};
  if (by.device) origin.gpu_memory = by.device->size();
  const auto refuse = [](const gpuplan::failure& why) -> guides::bad_request {
    return guides::bad_request(std::string("--header: ") + gpuplan::failure_text(why).c_str());
  };
  const auto fastest = io::fastest_series(rows);
  if (!fastest) throw refuse(fastest.why());
  const auto measured = gpuplan::measured_sweep_of(fastest->rows, origin);
  if (!measured) throw refuse(measured.why());
  return io::to_header(*measured, asked.name);
}

// The rows that ran, for `gpuplan calibrate`, which must understand them.
std::string timed_steps(const request& asked, const io::sweep_file& file) {
  io::table table;
  for (const char* name : {"model", "gpu"}) table.columns.push_back({.name = name});
  std::vector<io::cell> alike{asked.model, asked.gpu};
  std::string precision;
  for (const std::string& column : asked.step_columns) {
    const std::size_t sign = column.find('=');
    if (sign == std::string::npos)
      throw guides::bad_request("--step: name=value, such as sequence-length=1024, and not " +
                                io::printable(column));
    const std::string name = column.substr(0, sign);
    const std::string value = column.substr(sign + 1);
    if (name == "precision") {
      precision = value;
      continue;
    }
    table.columns.push_back({.name = name});
    alike.emplace_back(value);
  }
  const bool has_precision = file.has_precision || !precision.empty();
  if (has_precision) table.columns.push_back({.name = "precision"});
  table.columns.push_back({.name = "micro-batch"});
  table.columns.push_back({.name = "step_s"});
  constexpr int microseconds = 6;
  for (const gpuplan::sweep_row& row : file.rows) {
    if (row.status != gpuplan::sweep_status::ran) continue;
    std::vector<io::cell> cells = alike;
    if (has_precision)
      cells.emplace_back(file.has_precision && !row.mixed_precision ? "fp32" : precision);
    cells.emplace_back(row.micro_batch);
    cells.emplace_back(io::decimal(in(step_time(row) - row.data, 1_s), microseconds));
    table.rows.push_back(cells);
  }
  const std::string text = io::to_csv(table);
  static_cast<void>(runs::own_cluster_in(text, "--steps", asked.steps_file));
  return text;
}

io::sweep_judgement judgement(const request& asked, const io::sweep_file& file) {
  io::sweep_judgement by{
      .thresholds = {.data_time = gpuplan::duration::from_value(asked.data_ms / 1e3),
                     .utilisation = band("--utilisation", asked.utilisation),
                     .memory_share = band("--memory-share", asked.memory_share)},
      .has_utilisation = file.has_utilisation,
      .offers = {.mixed_precision = file.has_precision}};
  if (const auto valid = validate(by.thresholds); !valid) throw guides::bad_request(valid.why());
  if (!asked.gpu.empty()) {
    const gpuplan::gpu_spec gpu = setups::gpu_named(asked.gpu);
    by.device = gpuplan::memory_budget(gpu);
    by.device_name = gpu.name;
  } else if (asked.memory_GB > 0) {
    by.device = gpuplan::memory_budget(asked.memory_GB * 1_GB);
  }
  if (!asked.device.empty()) by.device_name = io::printable(asked.device);
  return by;
}

// Its problems are those of the files that were not written.
guides::printed answer_to(const request& asked, const guides::output& as) {
  std::vector<std::string> problems;
  const bool is_standard_input = asked.file == "-";
  const std::string name = is_standard_input ? "standard input" : io::printable(asked.file);
  const std::string text = guides::read_file("FILE", is_standard_input ? "/dev/stdin" : asked.file);
  const auto read = io::read_sweep(text);
  if (!read) throw guides::bad_request(name + ": " + gpuplan::failure_text(read.why()).c_str());
  if (!read->bad.empty() && (asked.bad_lines == "refuse" || read->rows.empty()))
    throw guides::bad_request("lines that cannot be read; --bad-lines skip leaves them out" +
                              lines_in_words(name, read->bad));
  const io::sweep_judgement by = judgement(asked, *read);
  io::sweep_report report = report_on(read->rows, by);
  for (const io::bad_line& bad : read->bad)
    report.notes.push_back("Line " + std::to_string(bad.line) + " is left out: " + bad.reason +
                           '.');
  for (const io::bad_line& remark : read->remarks)
    report.notes.push_back("Line " + std::to_string(remark.line) + ": " + remark.reason + '.');
  if (!asked.header_file.empty() && by.device_name.empty())
    throw guides::bad_request("--header: the device has no name; state --gpu or --device");
  const auto keep = [&](const char* option, const std::string& file, auto text_of) {
    if (file.empty()) return;
    try {
      guides::write_file(option, file, text_of());
    } catch (const std::exception& error) {
      problems.emplace_back(error.what());
    }
  };
  keep("--svg", asked.svg_file, [&] {
    io::sweep_chart chart{.title = "Batch-size sweep",
                          .subtitle = name,
                          .rows = read->rows,
                          .device = by.device_name};
    if (by.device) chart.capacity = by.device->size();
    return to_svg(chart);
  });
  keep("--header", asked.header_file, [&] { return header(asked, read->rows, by); });
  keep("--steps", asked.steps_file, [&] { return timed_steps(asked, *read); });
  return {guides::render(report, as), problems};
}

}  // namespace

guides::program command() {
  const auto asked = std::make_shared<request>();
  return {
      .name = "gpuplan sweep",
      .about = about,
      .examples = examples,
      .add =
          [=](CLI::App& app) {
            app.add_option("FILE", asked->file, "The sweep; - is standard input")->required();
            auto* gpu =
                app.add_option("--gpu", asked->gpu, "The device it ran on, such as a100_sxm4_80gb")
                    ->type_name("");
            app.add_option("--memory", asked->memory_GB, "What the device has for tensors, in GB")
                ->transform(guides::positive_number())
                ->excludes(gpu)
                ->type_name("");
            app.add_option(
                   "--device", asked->device, "Its name, for the report, picture and header")
                ->type_name("");
            app.add_option(
                   "--data-time", asked->data_ms, "Loading bound above it; without a unit ms")
                ->transform(guides::time_span(guides::time_unit::milliseconds, 1e-6, 1e9))
                ->type_name("TIME")
                ->capture_default_str();
            const auto usual = [](const std::pair<double, double>& percent) {
              return "; default: " + io::decimal(percent.first, -1) + ' ' +
                     io::decimal(percent.second, -1);
            };
            app.add_option("--utilisation",
                           asked->utilisation,
                           "A device is well used from .. to .. %" + usual(asked->utilisation))
                ->transform(guides::finite_number(0, 100))
                ->type_name("");
            app.add_option("--memory-share",
                           asked->memory_share,
                           "Its memory is well filled from .. to .. %" + usual(asked->memory_share))
                ->transform(guides::finite_number(0, 100))
                ->type_name("");
            app.add_option(
                   "--bad-lines", asked->bad_lines, "Of lines that cannot be read: refuse, skip")
                ->check(CLI::IsMember(std::vector<std::string>{"refuse", "skip"}))
                ->type_name("")
                ->capture_default_str();
            app.add_option("--svg", asked->svg_file, "Also draw a picture")->type_name("FILE");
            auto* date =
                app.add_option("--date", asked->date, "The day of the sweep, such as 2026-11-23")
                    ->check(
                        [](const std::string& day) {
                          const bool is_fine = gpuplan::detail::is_date(day.c_str());
                          return is_fine ? std::string() : day + " is no day such as 2026-11-23";
                        },
                        "")
                    ->type_name("");
            auto* model =
                app.add_option(
                       "--model", asked->model, "What was trained, for the header and the steps")
                    ->check(
                        [](const std::string& name) {
                          return name.empty() ? std::string("it has no name") : std::string();
                        },
                        "")
                    ->type_name("");
            app.add_option("--header",
                           asked->header_file,
                           "Also write the fastest setting as a header of constants to plan from")
                ->needs(date)
                ->needs(model)
                ->type_name("FILE");
            auto* steps =
                app.add_option("--steps",
                               asked->steps_file,
                               "Also write the rows that ran as timed steps without what they "
                               "waited for samples, for gpuplan calibrate; MODEL as gpuplan time "
                               "has it")
                    ->needs(gpu)
                    ->needs(model)
                    ->type_name("FILE");
            app.add_option("--step",
                           asked->step_columns,
                           "What holds of all these steps, an option of gpuplan time without the "
                           "dashes, such as sequence-length=1024 gpus=8 zero=2")
                ->needs(steps)
                ->type_name("NAME=VALUE...");
            app.add_option("--name", asked->name, "Of the constant in that header")
                ->check(guides::identifier())
                ->type_name("")
                ->capture_default_str();
          },
      .make = [=](const guides::output& as) { return answer_to(*asked, as); }};
}

}  // namespace read_sweep_program
