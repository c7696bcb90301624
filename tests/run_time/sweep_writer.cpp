#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <gpuplan/io/progress.hpp>
#include <gpuplan/io/sweep/display.hpp>
#include <gpuplan/io/sweep/trials.hpp>
#include <gpuplan/io/sweep/writer.hpp>
#include <gpuplan/measure/sweep.hpp>

#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <new>
#include <string>
#include <vector>

#include "check.hpp"
#include "made_trials.hpp"
#include "program_output.hpp"
#include "temporary_file.hpp"

namespace {

using namespace gpuplan;
using made_trials::both;
using made_trials::lines_of;
using made_trials::same;
using made_trials::some_trials;
using measure::trial;
using measure::trial_outcome;

const measure::sweep_progress some_progress{};

void write(io::sweep_writer& to, const std::vector<trial>& trials) {
  for (const trial& t : trials) to.ends(t, some_progress);
}

}  // namespace

TEST_CASE("trials are read back as they were, bit for bit") {
  const std::vector<trial> trials = some_trials(40);
  for (const io::sweep_format format : both) {
    const auto read = io::read_trials(lines_of(trials, format), format);
    REQUIRE(read);
    CHECK(read->bad.empty());
    CHECK(!read->is_cut);
    REQUIRE(read->trials.size() == trials.size());
    for (std::size_t i = 0; i < trials.size(); ++i) CHECK(same(read->trials[i], trials[i]));
  }
}

TEST_CASE("a file that ends anywhere holds the trials that were written whole") {
  const std::vector<trial> trials = some_trials(3);
  for (const io::sweep_format format : both) {
    const std::string text = lines_of(trials, format);
    std::vector<std::size_t> ends;
    std::string so_far = format == io::sweep_format::csv ? io::csv_head_of_trials() : "";
    for (const trial& t : trials) ends.push_back((so_far += io::line_of(t, format)).size());
    for (std::size_t size = 0; size <= text.size(); ++size) {
      const auto read = io::read_trials(text.substr(0, size), format);
      REQUIRE(read);
      std::size_t whole = 0;
      while (whole < ends.size() && ends[whole] <= size) ++whole;
      REQUIRE(read->bad.empty());
      REQUIRE(read->trials.size() == whole);
      for (std::size_t i = 0; i < whole; ++i) REQUIRE(same(read->trials[i], trials[i]));
    }
  }
}

TEST_CASE("of a setting that was measured again, the last trial counts") {
  std::vector<trial> trials = some_trials(2);
  trial again = trials[0];
  again.outcome = trial_outcome::failed;
  again.steps = 0;
  again.message = "again";
  trials.push_back(again);
  const auto read = io::read_trials(lines_of(trials, io::sweep_format::csv), io::sweep_format::csv);
  REQUIRE(read->trials.size() == 2);
  CHECK(read->trials[0].message == "again");
}

TEST_CASE("each trial is in the file when it has ended") {
  const std::vector<trial> trials = some_trials(5);
  for (const io::sweep_format format : both) {
    const temporary_file file("an earlier sweep, longer than the new one is at first\n");
    io::sweep_writer writer(file.name(), format, io::sweep_writer::earlier::replaced);
    std::string expected = format == io::sweep_format::csv ? io::csv_head_of_trials() : "";
    for (const trial& t : trials) {
      writer.ends(t, some_progress);
      CHECK(file.text() == (expected += io::line_of(t, format)));
    }
    CHECK(writer.problem().empty());
    CHECK(writer.trials().empty());
  }
}

TEST_CASE("a sweep goes on behind half a line, and without the head that is there") {
  const std::vector<trial> trials = some_trials(4);
  for (const io::sweep_format format : both) {
    const std::string whole = lines_of(trials, format);
    const std::string two = lines_of({trials[0], trials[1]}, format);
    // Cut within the third line, after the second one, within the head, and before it.
    for (const std::size_t size : {two.size() + 20, two.size(), std::size_t{7}, std::size_t{0}}) {
      const temporary_file file(whole.substr(0, size));
      io::sweep_writer writer(file.name(), format, io::sweep_writer::earlier::kept);
      const std::size_t kept = size >= two.size() ? 2 : 0;
      REQUIRE(writer.trials().size() == kept);
      write(writer, {trials.begin() + static_cast<std::ptrdiff_t>(kept), trials.end()});
      CHECK(file.text() == whole);
    }
  }
}

TEST_CASE("what is no file of trials is left as it is") {
  using io::sweep_writer;
  for (const char* others :
       {"dear diary,\ntoday\n", "dear diary", "{\"a\": 1}\n", "micro-batches"}) {
    const temporary_file file(others);
    for (const io::sweep_format format : both)
      CHECK_THROWS_AS(sweep_writer(file.name(), format, sweep_writer::earlier::kept),
                      io::file_error);
    CHECK(file.text() == others);
  }
  CHECK_THROWS_WITH_AS(
      sweep_writer("/nowhere/s.csv", io::sweep_format::csv, sweep_writer::earlier::kept),
      "cannot open /nowhere/s.csv: No such file or directory",
      io::file_error);
  const temporary_file busy("");
  const sweep_writer first(busy.name(), io::sweep_format::csv, sweep_writer::earlier::replaced);
  CHECK_THROWS_AS(sweep_writer(busy.name(), io::sweep_format::csv, sweep_writer::earlier::replaced),
                  io::file_error);
  CHECK(io::format_of_file("a.csv") == io::sweep_format::csv);
  CHECK(io::format_of_file("a.jsonl") == io::sweep_format::json_lines);
}

TEST_CASE("a sweep goes on with results of its own subject alone") {
  using io::sweep_writer;
  const std::vector<trial> trials = some_trials(2);
  const io::trial_origin mine{.subject = "a network of 256, \"fast\"\n", .date = "2026-11-21"};
  for (const io::sweep_format format : both) {
    const temporary_file file("");
    {
      sweep_writer writer(file.name(), format, sweep_writer::earlier::replaced, {}, mine);
      write(writer, trials);
    }
    const std::string before = file.text();
    for (const char* other : {"a network of 1024", ""})
      CHECK_THROWS_WITH_AS(
          sweep_writer(file.name(), format, sweep_writer::earlier::kept, {}, {.subject = other}),
          doctest::Contains("its results are of a network of 256, \"fast\" , and this sweep"),
          io::file_error);
    CHECK(file.text() == before);
    // On another day too.
    io::trial_origin later = mine;
    later.date = "2026-11-22";
    const sweep_writer writer(file.name(), format, sweep_writer::earlier::kept, {}, later);
    REQUIRE(writer.trials().size() == 2);
    REQUIRE(writer.origins().size() == 2);
    CHECK(writer.origins()[1].date == "2026-11-21");
    CHECK(same(writer.trials()[1], trials[1]));
  }
}

TEST_CASE("a full disk is told of once, and the sweep goes on") {
  std::vector<std::string> told;
  io::sweep_writer writer("/dev/full",
                          io::sweep_format::csv,
                          io::sweep_writer::earlier::replaced,
                          [&](const std::string& what) { told.push_back(what); });
  measure::sweep_options options;
  options.micro_batches = {1, 2, 4};
  options.warm_up_steps = 0;
  options.stop.most_samples = 16;
  options.observers = {&writer};
  int steps = 0;
  const measure::sweep_result result = measure::run_sweep(
      [&](const sweep_setting&, auto& recorder) {
        const auto scope = recorder.phase(phase::forward);
        ++steps;
      },
      options);
  CHECK(result.trials.size() == 3);
  CHECK(result.stopped_by.empty());
  CHECK(steps >= 3);
  REQUIRE(told.size() == 1);
  CHECK(told[0] == "cannot write /dev/full: No space left on device");
  CHECK(writer.problem() == told[0]);
}

TEST_CASE("a file that was removed or replaced meanwhile is a failure to write") {
  const std::vector<trial> trials = some_trials(3);
  for (const bool is_replaced : {false, true})
    for (const bool is_last : {false, true}) {
      const temporary_file file("");
      std::vector<std::string> told;
      io::sweep_writer writer(file.name(),
                              io::sweep_format::json_lines,
                              io::sweep_writer::earlier::replaced,
                              [&](const std::string& problem) { told.push_back(problem); });
      write(writer, {trials[0]});
      CHECK(writer.problem().empty());
      std::remove(file.name().c_str());
      if (is_replaced) std::ofstream(file.name()) << "of another program";
      if (!is_last) write(writer, {trials[1], trials[2]});
      CHECK(writer.problem() ==
            "cannot write " + file.name() + ": it was removed or replaced while the sweep ran");
      CHECK(told.size() == (is_last ? 0 : 1));
      if (is_replaced) CHECK(file.text() == "of another program");
    }
}

TEST_CASE("a disk that was full for a while has every trial once in the end") {
  const std::vector<trial> trials = some_trials(6);
  const std::string whole = lines_of(trials, io::sweep_format::json_lines);
  const temporary_file file("");
  int told = 0;
  io::sweep_writer writer(file.name(),
                          io::sweep_format::json_lines,
                          io::sweep_writer::earlier::replaced,
                          [&](const std::string&) { ++told; });
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  // Room for two and a half trials, as a disk writes what it has room for.
  const std::string two = lines_of({trials[0], trials[1]}, io::sweep_format::json_lines);
  rlimit small = before;
  small.rlim_cur = two.size() + 50;
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  write(writer, {trials.begin(), trials.begin() + 4});
  const std::string meanwhile = file.text();
  const std::string problem = writer.problem();
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_handler);
  CHECK(told == 1);
  CHECK(!problem.empty());
  CHECK(meanwhile == whole.substr(0, two.size() + 50));
  CHECK(io::read_trials(meanwhile, io::sweep_format::json_lines)->trials.size() == 2);
  write(writer, {trials.begin() + 4, trials.end()});
  CHECK(writer.problem().empty());
  CHECK(file.text() == whole);
}

TEST_CASE("a sweep that was killed goes on where it was, and loses the setting in flight") {
  const std::vector<std::int64_t> batches{1, 2, 4, 8};
  for (const io::sweep_format format : both) {
    const temporary_file file("");
    const auto run = [&](io::sweep_writer::earlier results, std::int64_t killed_at, auto count) {
      io::sweep_writer writer(file.name(), format, results);
      measure::sweep_options options;
      options.micro_batches = batches;
      options.warm_up_steps = 0;
      options.stop.most_samples = 16;
      options.already_measured = writer.trials();
      options.observers = {&writer};
      return measure::run_sweep(
          [&](const sweep_setting& setting, auto& recorder) {
            const auto scope = recorder.phase(phase::forward);
            if (setting.micro_batch == killed_at) std::raise(SIGKILL);
            count(setting.micro_batch);
          },
          options);
    };
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      run(io::sweep_writer::earlier::replaced, 4, [](std::int64_t) {});
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGKILL);
    const auto left = io::read_trials(file.text(), format);
    REQUIRE(left->trials.size() == 2);
    CHECK(left->trials[1].setting.micro_batch == 2);

    std::vector<std::int64_t> measured;
    const measure::sweep_result result =
        run(io::sweep_writer::earlier::kept, 0, [&](std::int64_t batch) {
          if (measured.empty() || measured.back() != batch) measured.push_back(batch);
        });
    CHECK(measured == std::vector<std::int64_t>{4, 8});
    REQUIRE(result.trials.size() == batches.size());
    const auto all = io::read_trials(file.text(), format);
    REQUIRE(all->trials.size() == batches.size());
    for (std::size_t i = 0; i < batches.size(); ++i) {
      CHECK(all->trials[i].setting.micro_batch == batches[i]);
      CHECK(same(all->trials[i], result.trials[i]));
    }
  }
}

// ---- what shows it

TEST_CASE("a bar has room for its words") {
  CHECK(io::bar("host", 0.5, 24) == "[#####.....]  50 %  host");
  CHECK(io::bar("host", 0, 24) == "[..........]   0 %  host");
  CHECK(io::bar("host", 2, 24) == "[##########] 100 %  host");
  CHECK(io::bar("a name without room", 1, 10) == "[] 100 %  a name without room");
}

TEST_CASE("times are as people read them") {
  CHECK(io::readable_time(0) == "0.0 s");
  CHECK(io::readable_time(9.94) == "9.9 s");
  CHECK(io::readable_time(9.96) == "10 s");
  CHECK(io::readable_time(59.6) == "1 min 00 s");
  CHECK(io::readable_time(3599.4) == "59 min 59 s");
  CHECK(io::readable_time(3599.6) == "1 h 00 min");
  CHECK(io::readable_time(7620) == "2 h 07 min");
  CHECK(io::readable_time(INFINITY) == "years");
}

namespace {

// A sweep of which the second batch runs out, seen by a display that writes to `out`.
void show_a_sweep(std::FILE* out) {
  io::sweep_display display(out);
  measure::sweep_options options;
  options.micro_batches = {1, 2};
  options.warm_up_steps = 0;
  options.stop.most_samples = 16;
  options.observers = {&display};
  const measure::sweep_result result = measure::run_sweep(
      [](const sweep_setting& setting, auto& recorder) {
        const auto scope = recorder.phase(phase::forward);
        if (setting.micro_batch == 2) throw std::bad_alloc();
      },
      options);
  REQUIRE(result.trials.size() == 2);
  display.say("a word");
}

}  // namespace

TEST_CASE("how far a sweep is shows in plain lines where there is no terminal") {
  std::FILE* file = std::tmpfile();
  show_a_sweep(file);
  const std::string text = text_of(file);
  std::fclose(file);
  CHECK(text.rfind("1 of 2: batch 1, 0 workers, full precision: ", 0) == 0);
  CHECK(has(text, " samples/s, "));
  CHECK(has(text, "\n2 of 2: batch 2, 0 workers, full precision: out of memory"));
  CHECK(has(text, "\na word\n"));
  CHECK(!has(text, "\033"));
  show_a_sweep(nullptr);
}

TEST_CASE("how far a sweep is shows as a bar on a terminal") {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  REQUIRE(terminal >= 0);
  REQUIRE(grantpt(terminal) == 0);
  REQUIRE(unlockpt(terminal) == 0);
  std::FILE* screen = std::fopen(ptsname(terminal), "w");
  REQUIRE(screen != nullptr);
  show_a_sweep(screen);
  std::fclose(screen);
  std::string text;
  char seen[4096];
  for (ssize_t count = 0; (count = read(terminal, seen, sizeof seen)) > 0;)
    text.append(seen, static_cast<std::size_t>(count));
  close(terminal);
  CHECK(has(text, "\r\033[K["));
  CHECK(has(text, " 0 %  1 of 2: batch 1, 0 workers, full precision; 0.0 s"));
  CHECK(has(text, "2 of 2: batch 2"));
  CHECK(has(text, "\r\033[Ka word\r\n"));  // in place of the bar
}
