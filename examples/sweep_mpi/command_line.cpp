#include "sweep_mpi/command_line.hpp"

#include <gpuplan/communication.hpp>
#include <gpuplan/io/sweep/trials.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/measure/sweep/options.hpp>
#include <gpuplan/measure/sweep/ranks.hpp>
#include <gpuplan/measure/sweep/trial.hpp>
#include <gpuplan/units.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "guides/front_end.hpp"
#include "sweep/data_set.hpp"
#include "sweep/program.hpp"
#include "sweep_cpu/description.hpp"
#include "sweep_cpu/training.hpp"
#include "sweep_mpi/all_reduce.hpp"
#include "sweep_mpi/ranks.hpp"
#include "sweep_mpi/sweep.hpp"

namespace sweep_mpi {
namespace {

using namespace gpuplan;

constexpr const char* about =
    "Which batch, and how many loading threads, train a network fastest on several ranks: each\n"
    "reads its own samples, and all train one multilayer perceptron by the mean of their\n"
    "gradients. Exchanging these is a phase of its own, and is compared with what the ranks'\n"
    "links are measured to have.";
constexpr const char* examples =
    "Examples:\n"
    "  mpirun -np 2 sweep_mpi --micro-batch 16,64,256 --workers 0,1\n"
    "  mpirun -np 1 sweep_mpi : -np 1 sweep_mpi --memory-limit 60   # one rank has less memory\n"
    "Exit status: 0; 1 where something could not be measured or written; 2 for a wrong command\n"
    "line; 4 where a step hung; 130 where it was interrupted, once what was measured is printed.";

// Parts of a program that all ranks go through one after the other. One that leaves between two of
// them tells the others at the next, and none waits for it.
class procession {
 public:
  explicit procession(measure::agreement agree) : agree_(std::move(agree)) {}

  /// As `measure::together`.
  template <class Part>
  void next(Part&& part) {
    ends_ = true;
    measure::together(agree_, std::forward<Part>(part));
    ends_ = false;
  }
  /// For a rank that goes no further.
  void leave() {
    if (!ends_) static_cast<void>(agree_(1));
    ends_ = true;
  }
  /// For ranks that agree in another way from now on.
  void end() { ends_ = true; }

 private:
  measure::agreement agree_;
  bool ends_ = false;
};

// What must be the same on all ranks, as a text to compare.
std::string settings_of(const sweep_examples::sweep_request& asked) {
  std::string text;
  const auto add = [&](const auto& values) {
    for (const auto value : values) text += std::to_string(value) + ',';
    text += ';';
  };
  add(asked.micro_batches);
  add(asked.workers);
  add(asked.hidden);
  add(std::initializer_list<std::int64_t>{asked.largest_micro_batch, asked.samples});
  return text + std::to_string(asked.seconds) + asked.order;
}

// Trials as the first rank has them.
std::vector<measure::trial> of_first(const ranks& among,
                                     const std::vector<measure::trial>& trials) {
  std::string lines;
  for (const measure::trial& one : trials) lines += line_of(one, io::sweep_format::json_lines);
  lines = among.of_first(std::move(lines));
  return read_trials(lines, io::sweep_format::json_lines).value_or_throw().trials;
}

std::string microseconds(duration time) { return io::decimal(in(time, 1_us), 1) + " us"; }

std::string remark_on_line(const all_reduce_reading& measured) {
  const auto kilobytes = [](bytes size) { return io::decimal(in(size, 1_KiB), 0) + " KiB"; };
  std::string words = "All-reduces of " + kilobytes(measured.times.front().size) + " to " +
                      kilobytes(measured.times.back().size) + " among " +
                      std::to_string(measured.ranks) + " ranks took " +
                      microseconds(measured.times.front().time) + " to " +
                      microseconds(measured.times.back().time);
  if (!measured.line) return words + ", which is on no line.";
  return words + ": by the line of least relative squares " + microseconds(measured.line->latency) +
         " and the size by " + io::decimal(in(measured.line->rate, 1_GBps), 2) +
         " GB/s, which the farthest misses by " + io::decimal(100 * measured.line->farthest, 0) +
         " %.";
}

std::string remark_on_gradients(const all_reduce_reading& measured,
                                const training_on_ranks& trained) {
  const bytes size = bytes::from_value(static_cast<double>(trained.gradient_bytes()));
  std::string words = "The gradients of a step are " + io::decimal(in(size, 1_KiB), 0) + " KiB";
  duration of_line{};
  if (measured.line) {
    of_line = collective_time(collective::all_reduce,
                              size,
                              {measured.ranks, measured.ranks},
                              links_of(*measured.line, measured.ranks));
    words += "; links of this line take " + microseconds(of_line) + " for them in a ring";
  }
  std::vector<double> medians;
  for (const training_on_ranks::exchange& one : trained.exchanges())
    medians.push_back(one.median_s);
  if (medians.empty()) return words + '.';
  const auto [least, most] = std::minmax_element(medians.begin(), medians.end());
  return words + ". In the steps of the settings they took " +
         microseconds(duration::from_value(*least)) + " to " +
         microseconds(duration::from_value(*most)) + " in the median" +
         (of_line > duration{}
              ? ", " + io::decimal(*least / of_line.value(), 1) + " to " +
                    io::decimal(*most / of_line.value(), 1) + " times what the line says"
              : "") +
         ", from when all ranks had come to it; what communication takes beside that is waiting "
         "for the slowest of them.";
}

class program {
 public:
  explicit program(const ranks& among) : among_(among), procession_(agree()) {}

  sweep_examples::sweep_subject subject_of(const sweep_examples::sweep_request& asked,
                                           int threads) {
    training::options with{.widths = widths_of(asked),
                           .threads = threads,
                           .rank = among_.rank(),
                           .ranks = among_.size()};
    const double limit = asked.memory_limit_MB * 1e6;
    if (limit > 0) with.memory_limit = static_cast<std::size_t>(limit);
    procession_.next([&] {
      const std::string mine = settings_of(asked);
      if (among_.of_first(mine) != mine)
        throw guides::bad_request("the settings of rank " + std::to_string(among_.rank()) +
                                  " are not those of the first");
    });
    double memory = 0;  // of the rank that has the least
    procession_.next([&] {
      const double own =
          limit > 0 ? limit : sweep_cpu_program::memory_of_machine() / among_.on_this_machine();
      memory = -among_.largest(-own);
    });
    // On one machine the first rank draws the samples, and the others find them.
    procession_.next([&] {
      if (among_.is_first()) begin(asked, with);
    });
    procession_.next([&] {
      if (!among_.is_first()) begin(asked, with);
    });
    sweep_examples::sweep_subject subject{
        .device = sweep_cpu_program::name_of_processor() + ", " +
                  (among_.size() == 1 ? "1 rank" : std::to_string(among_.size()) + " ranks"),
        .memory_bytes = memory,
        .model = sweep_examples::name_of_network(with.widths),
        .conditions = sweep_examples::conditions_of(asked, threads),
        .is_reported = among_.is_first(),
        .offers = {.mixed_precision = false, .pinned_memory = false}};
    subject.thresholds.utilisation = {0, 1};  // other programs have their share of the processor
    subject.run = [this](measure::sweep_options options) { return run(std::move(options)); };
    subject.remarks = [this] { return remarks(); };
    return subject;
  }

  void leave() { procession_.leave(); }

 private:
  const ranks& among_;
  procession procession_;
  std::optional<sweep_examples::data_set> samples_{};
  std::optional<training> trained_{};
  std::optional<training_on_ranks> together_{};
  all_reduce_reading all_reduce_{};

  [[nodiscard]] measure::agreement agree() const {
    return [this](int own) { return among_.largest(own); };
  }

  void begin(const sweep_examples::sweep_request& asked, const training::options& with) {
    samples_.emplace(samples_of(asked));
    trained_.emplace(*samples_, with);
    together_.emplace(among_, *trained_);
  }

  measure::sweep_result run(measure::sweep_options options) {
    procession_.next([] {});
    procession_.end();
    options.already_measured = of_first(among_, options.already_measured);
    if (among_.size() > 1) all_reduce_ = measure_all_reduce(among_);
    return together_->run(std::move(options));
  }

  [[nodiscard]] std::vector<std::string> remarks() const {
    std::string of_numbers =
        "Memory is the peak of the resident set of the process, and utilisation is "
        "of all that its processor has.";
    if (among_.size() > 1)
      of_numbers =
          "Batches and samples are those of one rank: together they train " +
          std::to_string(among_.size()) +
          " times as many. Memory is the peak of the resident set of the rank where it is highest; "
          "utilisation is of the first rank, of all that its processor has.";
    std::vector<std::string> said{std::move(of_numbers)};
    if (among_.size() > 1) {
      said.push_back(remark_on_line(all_reduce_));
      if (together_->gradient_bytes() > 0)
        said.push_back(remark_on_gradients(all_reduce_, *together_));
    }
    if (std::string learned = remark_on_loss(*trained_); !learned.empty())
      said.push_back(std::move(learned));
    return said;
  }
};

}  // namespace

int run(int argc, char** argv) {
  const ranks among(argc, argv);
  // One answer is enough.
  if (!among.is_first() && std::freopen("/dev/null", "w", stdout) == nullptr) return 1;
  // By this mpirun passes Ctrl-C on.
  std::signal(SIGTERM, [](int) { std::raise(SIGINT); });
  int threads = std::max(
      1, static_cast<int>(std::thread::hardware_concurrency()) / 2 / among.on_this_machine());
  program all(among);
  const int status = sweep_examples::run_sweep_program(
      argc,
      argv,
      "sweep_mpi",
      about,
      [&](CLI::App& app) {
        app.footer(examples);
        // mpirun gives its ranks a terminal also where its own output goes into a file.
        app.get_option("--color")->run_callback_for_default()->default_val("never");
        app.add_option("--threads",
                       threads,
                       "That compute on each rank; by default half of the processor's, shared out")
            ->transform(guides::whole_number(1, 1024))
            ->type_name("")
            ->capture_default_str();
      },
      [&](const sweep_examples::sweep_request& asked) { return all.subject_of(asked, threads); });
  all.leave();
  return status;
}

}  // namespace sweep_mpi
