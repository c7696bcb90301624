#include "sweep/program.hpp"

#include <gpuplan/io/header.hpp>
#include <gpuplan/io/measured_sweep.hpp>
#include <gpuplan/io/sweep/chart.hpp>
#include <gpuplan/io/sweep/display.hpp>
#include <gpuplan/io/sweep/report.hpp>
#include <gpuplan/io/sweep/settings.hpp>
#include <gpuplan/io/sweep/writer.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/measure/sweep/interrupt.hpp>
#include <gpuplan/measure/sweep/options.hpp>
#include <gpuplan/measure/sweep/trial.hpp>
#include <gpuplan/memory_model.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/sweep.hpp>
#include <gpuplan/sweep/measured.hpp>
#include <gpuplan/units.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "guides/front_end.hpp"
#include "guides/render.hpp"

namespace sweep_examples {
namespace {

namespace io = gpuplan::io;
namespace measure = gpuplan::measure;

constexpr std::int64_t most = std::int64_t{1} << 30;
constexpr std::uint64_t seed = 1;

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[sizeof "2026-11-22"]{};
  std::tm parts{};
  std::strftime(text, sizeof text, "%Y-%m-%d", gmtime_r(&now, &parts));
  return text;
}

// The series with the highest throughput as a header. Throws plan_error where none can be planned
// from.
std::string header_of(const std::vector<gpuplan::sweep_row>& rows,
                      const sweep_subject& subject,
                      const std::string& date,
                      const std::string& name) {
  const gpuplan::sweep_origin origin{
      .device = subject.device.c_str(),
      .model = subject.model.c_str(),
      .date = date.c_str(),
      .gpu_memory = gpuplan::bytes::from_value(subject.memory_bytes)};
  const io::sweep_series fastest = io::fastest_series(rows).value_or_throw();
  return io::to_header(measured_sweep_of(fastest.rows, origin).value_or_throw(), name);
}

struct answer {
  std::string text{};
  std::vector<std::string> problems{};
  bool is_interrupted = false;
};

// What results must have in common to be of one sweep.
std::string text_of(const sweep_subject& subject) {
  return subject.model + " on " + subject.device + ", " + subject.conditions;
}

// What of a sweep was measured before it, and the first day of that.
struct earlier_results {
  std::int64_t settings = 0;
  std::string since{};
};
earlier_results earlier_in(const measure::sweep_result& sweep, const io::sweep_writer& writer) {
  earlier_results found;
  for (std::size_t i = 0; i < writer.trials().size(); ++i) {
    const measure::trial& kept = writer.trials()[i];
    const bool is_used =
        kept.outcome != measure::trial_outcome::failed &&
        std::any_of(sweep.trials.begin(), sweep.trials.end(), [&](const measure::trial& t) {
          return t.setting == kept.setting;
        });
    if (!is_used) continue;
    const std::string& date = writer.origins()[i].date;
    if (++found.settings == 1 || date < found.since) found.since = date;
  }
  return found;
}

// Nothing can stop what hangs, and nothing that waits for it, such as a destructor, may run.
[[noreturn]] void end_hanging(const sweep_request& asked, const gpuplan::sweep_setting& setting) {
  std::fprintf(stderr,
               "\nbatch %lld, %s: a step, set-up or tear-down has not ended in %s s; --hangs-after "
               "states this limit. %s\n",
               static_cast<long long>(setting.micro_batch),
               io::in_words(setting).c_str(),
               io::decimal(asked.hangs_after_s, -1).c_str(),
               asked.output.empty() ? "What was measured before it is lost: --output keeps it."
                                    : "What was measured before it is in the file of --output.");
  std::_Exit(4);
}

answer answer_to(const sweep_request& asked,
                 const sweep_subject& subject,
                 const guides::output& as) {
  const measure::interrupt_signal ctrl_c;
  io::sweep_display display(asked.is_quiet || !subject.is_reported ? nullptr : stderr);
  measure::sweep_options options = options_of(asked);
  options.interrupted = [&] { return ctrl_c.received(); };
  options.hangs = [&](const gpuplan::sweep_setting& setting) { end_hanging(asked, setting); };
  std::optional<io::sweep_writer> writer;
  std::vector<std::string> measured_again;
  if (!asked.output.empty() && subject.is_reported) {
    writer.emplace(
        asked.output,
        io::format_of_file(asked.output),
        asked.resumes ? io::sweep_writer::earlier::kept : io::sweep_writer::earlier::replaced,
        [&](const std::string& problem) { display.say(problem); },
        io::trial_origin{.subject = text_of(subject), .date = today()});
    options.already_measured = writer->trials();
    for (const io::bad_line& bad : writer->bad_lines()) {
      measured_again.push_back(asked.output + ':' + std::to_string(bad.line) + ": " + bad.reason +
                               "; measured again");
      display.say(measured_again.back());
    }
    options.observers.push_back(&*writer);
  }
  options.observers.push_back(&display);
  const measure::sweep_result sweep = subject.run(std::move(options));
  display.clear();
  if (!subject.is_reported) return {.is_interrupted = sweep.interrupted};

  answer made{.is_interrupted = sweep.interrupted && sweep.stopped_by.empty()};
  if (!sweep.stopped_by.empty()) made.problems.push_back(sweep.stopped_by);
  if (writer && !writer->problem().empty()) made.problems.push_back(writer->problem());
  const gpuplan::bytes memory = gpuplan::bytes::from_value(subject.memory_bytes);
  io::sweep_report report = io::report_on(sweep,
                                          {.device = memory,
                                           .device_name = subject.device,
                                           .thresholds = subject.thresholds,
                                           .offers = subject.offers});
  if (subject.remarks)
    for (std::string& remark : subject.remarks()) report.notes.push_back(std::move(remark));
  for (const std::string& line : measured_again) report.notes.push_back(line + '.');
  const earlier_results earlier = writer ? earlier_in(sweep, *writer) : earlier_results();
  if (earlier.settings > 0)
    report.notes.push_back(std::to_string(earlier.settings) +
                           (earlier.settings == 1 ? " setting is" : " settings are") + " from " +
                           asked.output + ", where they were measured from " + earlier.since +
                           " on.");
  made.text = guides::render(report, as);

  const std::vector<gpuplan::sweep_row> rows = rows_of(sweep.trials);
  const auto keep = [&](const char* option, const std::string& file, auto text) {
    if (file.empty()) return;
    try {
      guides::write_file(option, file, text());
    } catch (const gpuplan::plan_error& error) {
      made.problems.push_back(std::string(option) + ": " + error.what());
    } catch (const std::exception& error) {
      made.problems.push_back(error.what());
    }
  };
  const std::string date = earlier.settings > 0 ? earlier.since : today();
  keep("--svg", asked.svg, [&] {
    return io::to_svg({.title = subject.model,
                       .subtitle = "on " + subject.device + ", " + date,
                       .rows = rows,
                       .device = subject.device,
                       .capacity = memory});
  });
  keep("--header", asked.header, [&] { return header_of(rows, subject, date, asked.name); });
  return made;
}

}  // namespace

measure::sweep_options options_of(const sweep_request& asked) {
  measure::sweep_options options{.micro_batches = asked.micro_batches, .workers = asked.workers};
  if (asked.order == "doubling") options.order = measure::search_order::doubling;
  if (asked.order == "largest") options.order = measure::search_order::largest_that_fits;
  options.largest_micro_batch = asked.largest_micro_batch;
  options.stop.least_s = 0.1;  // a few steps of less than a millisecond say little
  options.stop.cap_s = asked.seconds;
  options.step_cap_s = asked.hangs_after_s / 2;
  options.set_up_cap_s = asked.hangs_after_s;
  return options;
}

std::vector<std::int64_t> widths_of(const sweep_request& asked) {
  std::vector<std::int64_t> widths{pixels};
  widths.insert(widths.end(), asked.hidden.begin(), asked.hidden.end());
  widths.push_back(digits);
  return widths;
}

std::string name_of_network(const std::vector<std::int64_t>& widths) {
  std::string name = "Multilayer perceptron ";
  for (std::size_t i = 0; i < widths.size(); ++i)
    name += (i > 0 ? "-" : "") + std::to_string(widths[i]);
  return name;
}

std::string conditions_of(const sweep_request& asked, int threads) {
  std::string text;
  if (threads > 0)
    text +=
        std::to_string(threads) + (threads == 1 ? " computing thread, " : " computing threads, ");
  text += std::to_string(asked.samples) + " samples, " + io::decimal(asked.seconds, -1) +
          " s for a setting, ";
  if (asked.memory_limit_MB > 0)
    return text + "a memory limit of " + io::decimal(asked.memory_limit_MB, -1) + " MB";
  return text + "no memory limit";
}

data_set samples_of(const sweep_request& asked) {
  const std::filesystem::path file = asked.data.empty()
                                         ? std::filesystem::temp_directory_path() /
                                               ("gpuplan-digits-" + std::to_string(asked.samples))
                                         : std::filesystem::path(asked.data);
  return open_or_write_data_set(file, asked.samples, seed);
}

void add_options(CLI::App& app, sweep_request& asked) {
  const auto counts =
      [&](const char* name, std::vector<std::int64_t>& into, const char* what, std::int64_t least) {
        app.add_option(name, into, what)
            ->delimiter(',')
            ->transform(guides::whole_number(least, most))
            ->type_name("N,N...")
            ->capture_default_str();
      };
  counts("--micro-batch", asked.micro_batches, "Which to try; a search starts at the first", 1);
  counts("--workers", asked.workers, "How many threads load data beside the training; 0: none", 0);
  counts("--hidden", asked.hidden, "The widths of the network's hidden layers", 1);
  app.add_option("--order",
                 asked.order,
                 "grid: all of these; doubling: until memory runs out; largest: the largest that "
                 "fits, by doubling, then halving what is left")
      ->check(CLI::IsMember(std::vector<std::string>{"grid", "doubling", "largest"}))
      ->type_name("")
      ->capture_default_str();
  app.add_option("--largest-micro-batch", asked.largest_micro_batch, "That a search tries")
      ->transform(guides::whole_number(1, most))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--seconds", asked.seconds, "For warm-up and measured steps of a setting, at most")
      ->transform(guides::time_span(guides::time_unit::seconds, 1e-3, 1e6))
      ->type_name("TIME")
      ->capture_default_str();
  app.add_option("--hangs-after",
                 asked.hangs_after_s,
                 "A step or set-up that lasts longer hangs, and ends the program with status 4; a "
                 "step is asked to stop after half of it")
      ->transform(guides::time_span(guides::time_unit::seconds, 1e-3, 1e6))
      ->type_name("TIME")
      ->capture_default_str();
  app.add_option("--memory-limit", asked.memory_limit_MB, "In MB: above it, memory runs out")
      ->transform(guides::positive_number())
      ->type_name("");
  app.add_option("--data", asked.data, "The data set; drawn and written where it is not there")
      ->type_name("FILE");
  app.add_option("--samples", asked.samples, "That it has")
      ->transform(guides::whole_number(1, most))
      ->type_name("N")
      ->capture_default_str();
  auto* output =
      app.add_option(
             "--output",
             asked.output,
             "Write results as they come: as CSV where its name says so, else as JSON lines")
          ->type_name("FILE.csv|FILE.jsonl");
  app.add_flag("--resume", asked.resumes, "Keep what that file has, and measure the rest")
      ->needs(output);
  app.add_option("--svg", asked.svg, "Draw throughput, memory and phases")->type_name("FILE");
  app.add_option("--header", asked.header, "Write the fastest setting's memory and time as C++")
      ->type_name("FILE");
  app.add_option("--name", asked.name, "Of the constant in that header")
      ->check(guides::identifier())
      ->type_name("")
      ->capture_default_str();
  app.add_flag("--quiet", asked.is_quiet, "Do not show how far it is");
}

int run_sweep_program(int argc,
                      char** argv,
                      const std::string& program,
                      const std::string& about,
                      const std::function<void(CLI::App&)>& add,
                      const std::function<sweep_subject(const sweep_request&)>& make) {
  sweep_request asked;
  answer made;
  const int status = guides::run_program(argc,
                                         argv,
                                         {.name = program,
                                          .about = about,
                                          .examples = "",
                                          .add =
                                              [&](CLI::App& app) {
                                                add_options(app, asked);
                                                add(app);
                                              },
                                          .make =
                                              [&](const guides::output& as) {
                                                made = answer_to(asked, make(asked), as);
                                                return made.text;
                                              }});
  for (const std::string& problem : made.problems)
    std::fprintf(stderr, "%s: %s\n", program.c_str(), problem.c_str());
  if (status != 0) return status;
  if (made.is_interrupted) return 130;
  return made.problems.empty() ? 0 : 1;
}

}  // namespace sweep_examples
