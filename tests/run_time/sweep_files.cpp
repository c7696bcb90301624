#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <gpuplan/io/sweep/rows.hpp>
#include <gpuplan/io/sweep/trials.hpp>
#include <gpuplan/io/sweep/writer.hpp>
#include <gpuplan/measure/sweep.hpp>
#include <gpuplan/sweep/rows.hpp>

#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "check.hpp"
#include "guides/batch_sweep.hpp"
#include "program_output.hpp"
#include "temporary_file.hpp"

namespace {

using namespace gpuplan;
using namespace gpuplan::literals;
using measure::trial;
using measure::trial_outcome;

std::string sample_table() {
  std::ifstream file(GPUPLAN_SAMPLE_SWEEP, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool near(double a, double b) { return std::abs(a - b) <= 1e-12 * std::abs(b); }

void check_same(const sweep_row& a, const sweep_row& b) {
  CHECK(setting_of(a) == setting_of(b));
  CHECK(a.status == b.status);
  CHECK(near(a.data.value(), b.data.value()));
  CHECK(near(a.forward.value(), b.forward.value()));
  CHECK(near(a.backward.value(), b.backward.value()));
  CHECK(near(a.optimizer.value(), b.optimizer.value()));
  CHECK(near(a.communication.value(), b.communication.value()));
  CHECK(near(a.gpu_utilisation, b.gpu_utilisation));
  CHECK(near(a.memory.value(), b.memory.value()));
}

io::sweep_file file_of(const std::string& text) {
  const auto read = io::read_sweep(text);
  CAPTURE(failure_text(read.why()).c_str());
  REQUIRE(read);
  return *read;
}

// A trial of some numbers that no format may round.
trial made_trial(std::mt19937_64& random, std::int64_t batch) {
  const auto number = [&] {
    return std::uniform_real_distribution(0.0, 1.0)(random) *
           std::pow(10.0, std::uniform_real_distribution(-9.0, 3.0)(random));
  };
  trial t{.setting = {.micro_batch = batch,
                      .workers = static_cast<std::int64_t>(random() % 9),
                      .mixed_precision = random() % 2 == 0,
                      .pinned_memory = random() % 2 == 0},
          .outcome = static_cast<trial_outcome>(random() % 5),
          .set_up_s = number(),
          .warm_up_steps = static_cast<std::int64_t>(random() % 10)};
  if (t.outcome != trial_outcome::ran)
    t.message = "a, \"quoted\" message of batch " + std::to_string(batch);
  if (t.outcome != trial_outcome::ran) return t;
  t.steps = 1 + static_cast<std::int64_t>(random() % 100);
  t.outliers = static_cast<std::int64_t>(random() % 7);
  t.discarded = static_cast<std::int64_t>(random() % 3);
  t.why_ended = static_cast<measure::stop_reason>(random() % 4);
  for (measure::quartiles* one :
       {&t.data, &t.forward, &t.backward, &t.optimizer, &t.communication, &t.other, &t.step})
    *one = {number(), number(), number()};
  if (random() % 2 == 0) t.utilisation = number() / 1000;
  t.memory_bytes = 1 + std::floor(number() * 1e9);
  return t;
}

bool same(const measure::quartiles& a, const measure::quartiles& b) {
  return a.lower == b.lower && a.median == b.median && a.upper == b.upper;
}
bool same(const trial& a, const trial& b) {
  return a.setting == b.setting && a.outcome == b.outcome && a.message == b.message &&
         a.set_up_s == b.set_up_s && a.warm_up_steps == b.warm_up_steps && a.steps == b.steps &&
         a.outliers == b.outliers && a.discarded == b.discarded && a.why_ended == b.why_ended &&
         same(a.data, b.data) && same(a.forward, b.forward) && same(a.backward, b.backward) &&
         same(a.optimizer, b.optimizer) && same(a.communication, b.communication) &&
         same(a.other, b.other) && same(a.step, b.step) && a.utilisation == b.utilisation &&
         a.memory_bytes == b.memory_bytes;
}

std::vector<trial> made_trials(int count) {
  std::mt19937_64 random(20261122);
  std::vector<trial> trials;
  for (int i = 0; i < count; ++i) trials.push_back(made_trial(random, std::int64_t{1} << i));
  return trials;
}

std::string lines_of(const std::vector<trial>& trials, io::sweep_format format) {
  std::string text = format == io::sweep_format::csv ? io::csv_head_of_trials() : "";
  for (const trial& t : trials) text += io::line_of(t, format);
  return text;
}

constexpr io::sweep_format both[] = {io::sweep_format::csv, io::sweep_format::json_lines};

}  // namespace

// ---- sweeps made elsewhere

TEST_CASE("the guide's printed table is its rows") {
  const io::sweep_file file = file_of(sample_table());
  CHECK(file.format == io::sweep_format::printed_table);
  CHECK(file.bad.empty());
  CHECK(file.has_utilisation);
  const auto rows = guides::batch_sweep::sweep({});
  REQUIRE(file.rows.size() == rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) check_same(file.rows[i], rows[i]);
  // Its last total is a millisecond short.
  REQUIRE(file.remarks.size() == 1);
  CHECK(file.remarks[0].line == 15);
  CHECK(file.remarks[0].reason == "its times add up to 922.01 ms, and its total is 921.01 ms");
  CHECK(io::all_rows(file)->size() == rows.size());
}

TEST_CASE("a table ends with a rule or a blank line, and begins with its head") {
  const io::sweep_file file = file_of(
      "=====\nSUMMARY of the sweep: Batch 1\n=====\n\n"
      "Batch  Fwd (ms)  Mem [MiB]\n─────  ────────  ─────────\n"
      "    1      2.5        512\n    2      3.5        600\n\n    3      4.5        700\n");
  REQUIRE(file.rows.size() == 2);
  CHECK(file.rows[1].micro_batch == 2);
  CHECK(near(file.rows[1].memory.value(), 600.0 * 1024 * 1024));
  CHECK(near(file.rows[1].forward.value(), 3.5e-3));
  CHECK(!file.has_utilisation);
}

TEST_CASE("columns are found by the names and units of other programs") {
  const sweep_row expected{.micro_batch = 32,
                           .workers = 4,
                           .mixed_precision = true,
                           .pinned_memory = true,
                           .data = 1_ms,
                           .forward = 2_ms,
                           .backward = 4_ms,
                           .optimizer = 0.5_ms,
                           .communication = 0.25_ms,
                           .gpu_utilisation = 0.75,
                           .memory = 2_GB};
  const std::string texts[] = {
      "\xef\xbb\xbf"
      "batch_size,num_workers,amp,pin_memory,io_us,fwd_ms,bwd_s,opt (ms),all-reduce (us),GPU util "
      "[%],Peak memory (MB),lr\r\n"
      "32,4,True,1,1000,2,0.004,0.5,250,75,2000,0.001\r\n",
      "{\"BatchSize\": 32, \"workers\": 4, \"use_amp\": true, \"pinned\": \"yes\", \"data_s\": "
      "0.001, \"forward_s\": 2e-3, \"backward_us\": 4000, \"optimizer_ms\": 0.5, \"comm_ms\": "
      "0.25, "
      "\"utilization\": 0.75, \"memory_bytes\": 2000000000, \"notes\": null, \"more\": [1]}\n",
      "Batch Workers AMP Pin I/O(ms) Fwd(ms) Bwd(ms) Opt(ms) Comm(ms) Total(ms) Samples/s GPU% "
      "Mem(GB)\n32 4 yes yes 1 2 4 0.5 0.25 7.75 4129 75 2\n"};
  for (const std::string& text : texts) {
    CAPTURE(text);
    const io::sweep_file file = file_of(text);
    for (const io::bad_line& bad : file.bad) CHECK_MESSAGE(false, bad.reason);
    CHECK(file.remarks.empty());
    REQUIRE(file.rows.size() == 1);
    check_same(file.rows[0], expected);
  }
}

TEST_CASE("a line that cannot be used has its number and its reason") {
  const std::string csv =
      "micro_batch,workers,amp,forward_ms,memory_GB,status\n"  // 1
      "1,0,yes,1,1,ok\n"
      "x,0,yes,1,1,ok\n"  // 3
      "2,0,maybe,1,1,ok\n"
      "2,0,yes,,1,ok\n"
      "2,0,yes,-1,1,ok\n"
      "2,0,yes,nan,1,ok\n"
      "2,0,yes,1,0,ok\n"
      "0,0,yes,1,1,ok\n"
      "2,-1,yes,1,1,ok\n"
      "2,0,yes,1,1\n"
      "2,0,yes,1,1,melted\n"
      "2,0,yes,1.5x,1,ok\n"
      "2,0,yes,\"1,1,ok\n"  // 14
      "2,0,yes,1,1,failed\n"
      "4,0,yes,,,OOM\n"
      "8,0,yes,1,1,\n";
  const io::sweep_file file = file_of(csv);
  REQUIRE(file.rows.size() == 3);
  CHECK(file.rows[1].status == sweep_status::out_of_memory);
  CHECK(file.rows[2].micro_batch == 8);
  REQUIRE(file.remarks.size() == 1);
  CHECK(file.remarks[0].line == 15);
  const io::bad_line expected[] = {
      {3, "micro_batch is no whole number: x"},
      {4, "mixed_precision is neither yes nor no: maybe"},
      {5, "there is no time"},
      {6, "forward: this value must not be negative"},
      {7, "forward: this value must be a finite number"},
      {8, "memory: this value must be greater than zero"},
      {9, "micro_batch: this value must be greater than zero"},
      {10, "workers: this value must not be negative"},
      {11, "has 5 cells, and its head 6"},
      {12, "outcome is not known: melted"},
      {13, "forward is no number: 1.5x"},
      {14, "a quotation mark is not closed"},
  };
  REQUIRE(file.bad.size() == std::size(expected));
  for (std::size_t i = 0; i < file.bad.size(); ++i) {
    CHECK(file.bad[i].line == expected[i].line);
    CHECK(file.bad[i].reason == expected[i].reason);
  }
  const failure refused = io::all_rows(file).why();
  CHECK(refused.code == errc::bad_sweep_lines);
  CHECK(refused[fact::line] == 3);
  CHECK(refused[fact::bad_lines] == 12);
}

TEST_CASE("bad lines of other formats") {
  const io::sweep_file json = file_of(
      "{\"micro_batch\": 1, \"forward_ms\": 1, \"memory_GB\": 1}\n\n"
      "{\"micro_batch\": 2, \"forward_ms\": 1, \"memory_GB\": }\n"
      "{\"micro_batch\": 2, \"forward_ms\": [1], \"memory_GB\": 1}\n"
      "{\"micro_batch\": 2, \"forward\": 1, \"memory_GB\": 1}\n"
      "{\"forward_ms\": 1, \"memory_GB\": 1}\n"
      "{\"micro_batch\": 3, \"forw");
  CHECK(json.rows.size() == 1);
  const std::int64_t lines[] = {3, 4, 5, 6, 7};
  REQUIRE(json.bad.size() == std::size(lines));
  for (std::size_t i = 0; i < json.bad.size(); ++i) CHECK(json.bad[i].line == lines[i]);
  CHECK(json.bad[1].reason == "forward_ms is no plain value");
  CHECK(json.bad[2].reason == "column \"forward\" states no unit, such as forward_ms");
  CHECK(json.bad[3].reason == "micro_batch is missing");

  const io::sweep_file table =
      file_of("Batch Fwd(ms) Mem(GB) Status\n1 2 3 ok\n2 2 ok\n3 OOM\n4 5 6 7 8\nnot a row\n");
  CHECK(table.rows.size() == 2);
  REQUIRE(table.bad.size() == 3);
  CHECK(table.bad[0].line == 3);
  CHECK(table.bad[1].reason == "has 5 cells, and its head 4");
}

TEST_CASE("a reason is a line that a terminal can show, however long a cell is") {
  const io::sweep_file file =
      file_of("batch,forward_ms,memory_GB\n1,\033[31m\a" + std::string(5000, 'x') + ",1\n");
  REQUIRE(file.bad.size() == 1);
  CHECK(file.bad[0].reason.rfind("forward is no number:  [31m xxx", 0) == 0);
  CHECK(file.bad[0].reason.size() < 200);
}

TEST_CASE("what is no sweep is refused as a whole") {
  const auto refused = [](const std::string& text) { return io::read_sweep(text).why(); };
  CHECK(refused("").code == errc::malformed_sweep);
  CHECK(refused("a,b,c\n1,2,3\n").code == errc::malformed_sweep);
  CHECK(refused("hello\n").code == errc::malformed_sweep);
  CHECK(refused("batch,workers,memory_GB\n1,2,3\n") ==
        failure(errc::malformed_sweep).about("time"));
  CHECK(refused("batch,forward,memory_GB\n1,2,3\n") ==
        failure(errc::sweep_column_without_unit).about("forward"));
  CHECK(refused("batch,forward_ms,memory\n1,2,3\n") ==
        failure(errc::sweep_column_without_unit).about("memory"));
}

TEST_CASE("a sweep with the time of whole steps alone is read, and says so") {
  const io::sweep_file file = file_of("batch,step_ms,memory_GB\n4,10,2\n");
  REQUIRE(file.rows.size() == 1);
  CHECK(near(step_time(file.rows[0]).value(), 10e-3));
  CHECK(file.remarks.size() == 1);
  // Once, however many lines are so.
  CHECK(file_of("batch,step_ms,memory_GB\n4,10,2\n8,12,2\n16,15,2\n").remarks.size() == 1);
}

TEST_CASE("a total that its times do not add up to is no silent loss") {
  const std::string head = "batch,workers,amp,data_ms,forward_ms,backward_ms,total_ms,memory_GB\n";
  const io::sweep_file more = file_of(head + "8,4,yes,1,2,3,60,1\n16,4,yes,1,2,3,80,1\n");
  REQUIRE(more.rows.size() == 2);
  CHECK(near(step_time(more.rows[0]).value(), 60e-3));
  CHECK(near(more.rows[0].forward.value(), 56e-3));
  CHECK(near(more.rows[0].data.value(), 1e-3));
  CHECK(near(step_time(more.rows[1]).value(), 80e-3));
  CHECK(more.remarks.size() == 1);
  const io::sweep_file less = file_of(head + "8,4,yes,10,20,30,6,1\n");
  CHECK(near(step_time(less.rows[0]).value(), 60e-3));
  REQUIRE(less.remarks.size() == 1);
  CHECK(less.remarks[0].reason == "its times add up to 60.00 ms, and its total is 6.00 ms");
  const io::sweep_file in_json = file_of(
      "{\"batch\": 8, \"forward_s\": 0.001, \"backward_s\": 0.002, \"step_s\": 6e-2, "
      "\"memory_GB\": 1}\n");
  CHECK(near(in_json.rows[0].forward.value(), 58e-3));
  // What rounding alone explains stays as it is.
  const io::sweep_file rounded = file_of(head + "8,4,yes,1.4,2.4,3.4,7,1\n");
  CHECK(near(step_time(rounded.rows[0]).value(), 7.2e-3));
  CHECK(rounded.remarks.empty());
  const io::sweep_file power = file_of(
      "{\"batch\": 8, \"forward_s\": 1.1e-3, \"backward_s\": 2.1e-3, \"step_s\": 3.1e-3, "
      "\"memory_GB\": 1}\n");
  CHECK(power.remarks.empty());
  const io::sweep_file beyond = file_of(
      "{\"batch\": 8, \"forward_s\": 1.1e-3, \"backward_s\": 2.1e-3, \"step_s\": 9.5e-4, "
      "\"memory_GB\": 1}\n");
  CHECK(beyond.remarks.size() == 1);
}

TEST_CASE("the step of a file of medians is the median of the steps") {
  const io::sweep_file file = file_of(
      "{\"batch\": 8, \"data_s\": 0.001, \"forward_s\": 0.002, \"other_s\": 0.001, "
      "\"step_s\": 0.006, \"step_lower_s\": 0.005, \"step_upper_s\": 0.007, "
      "\"memory_GB\": 1}\n");
  REQUIRE(file.rows.size() == 1);
  CHECK(near(step_time(file.rows[0]).value(), 6e-3));
  CHECK(near(file.rows[0].data.value(), 1.5e-3));
  CHECK(near(file.rows[0].forward.value(), 4.5e-3));
  CHECK(file.remarks.empty());
}

TEST_CASE("a sweep without a memory probe is read, with a memory of 0") {
  std::vector<trial> trials = made_trials(20);
  for (trial& t : trials) t.memory_bytes.reset();
  const std::size_t rows = measure::rows_of(trials).size();
  REQUIRE(rows > 1);
  for (const io::sweep_format format : both) {
    std::vector<trial> of = trials;
    for (trial& t : of)
      if (t.utilisation) t.utilisation = 0.5;
    const io::sweep_file file = file_of(lines_of(of, format));
    CHECK(file.bad.empty());
    CHECK(!file.has_memory);
    CHECK(file.rows.size() == rows);
    for (const sweep_row& row : file.rows) CHECK(row.memory == bytes{});
    std::size_t said = 0;
    for (const io::bad_line& one : file.remarks) said += has(one.reason, "has no memory");
    CHECK(said == 1);
  }
  CHECK(file_of("batch,workers,forward_ms\n1,2,3\n").rows.size() == 1);
  // Beside lines with memory, one without is bad.
  const io::sweep_file mixed = file_of("batch,forward_ms,memory_GB\n1,2,3\n2,3,\n4,x,1\n8,2,5\n");
  CHECK(mixed.has_memory);
  REQUIRE(mixed.rows.size() == 2);
  CHECK(mixed.lines == std::vector<std::int64_t>{2, 5});
  REQUIRE(mixed.bad.size() == 2);
  CHECK(mixed.bad[0] == io::bad_line{3, "memory is missing"});
  CHECK(mixed.bad[1].line == 4);
}

TEST_CASE("reasons say what would be right") {
  const io::sweep_file share = file_of("batch,forward_ms,memory_GB,utilisation\n1,2,3,85\n");
  REQUIRE(share.bad.size() == 1);
  CHECK(share.bad[0].reason ==
        "utilisation is 8500 %, not from 0 to 100 %; a head such as GPU% says that it is in per "
        "cent");
  const io::sweep_file nan =
      file_of("{\"batch\": 1, \"forward_ms\": NaN, \"memory_GB\": 1}\n[1]\n");
  REQUIRE(nan.bad.size() == 2);
  CHECK(nan.bad[0].reason == "is no JSON, which has no NaN or Infinity: write null instead");
  CHECK(nan.bad[1].reason == "is no JSON object");
}

TEST_CASE("whatever a file holds, the rows that are read are valid") {
  std::mt19937_64 random(1);
  const std::string sources[] = {sample_table(),
                                 lines_of(made_trials(6), io::sweep_format::csv),
                                 lines_of(made_trials(6), io::sweep_format::json_lines)};
  const std::string signs = ",\"\n{}[]:.-+e0918 \txNaN%()\x80\xff";
  std::int64_t read_rows = 0;
  for (int round = 0; round < 600; ++round) {
    std::string text = sources[round % 3];
    const std::size_t changes = 1 + random() % 12;
    for (std::size_t i = 0; i < changes; ++i) {
      const std::size_t at = random() % text.size();
      if (random() % 4 == 0)
        text.erase(at, random() % 9);
      else
        text[at] = signs[random() % signs.size()];
      if (text.empty()) text = " ";
    }
    const auto read = io::read_sweep(text);
    if (!read) continue;
    std::vector<sweep_row> rows = read->rows;
    for (sweep_row& row : rows)
      if (!read->has_memory) row.memory = 1_B;
    CHECK(validate(sweep_rows(rows)));
    CHECK(read->lines.size() == rows.size());
    read_rows += static_cast<std::int64_t>(read->rows.size());
  }
  CHECK(read_rows > 600);
}

// ---- trials

TEST_CASE("trials are read back as they were, bit for bit") {
  const std::vector<trial> trials = made_trials(40);
  for (const io::sweep_format format : both) {
    const auto read = io::read_trials(lines_of(trials, format), format);
    REQUIRE(read);
    CHECK(read->bad.empty());
    CHECK(!read->is_cut);
    REQUIRE(read->trials.size() == trials.size());
    for (std::size_t i = 0; i < trials.size(); ++i) CHECK(same(read->trials[i], trials[i]));
  }
}

TEST_CASE("the rows of a file of trials are the rows of the trials") {
  std::vector<trial> trials = made_trials(20);
  for (trial& t : trials)
    if (t.utilisation) t.utilisation = 0.5;
  const std::vector<sweep_row> rows = measure::rows_of(trials);
  for (const io::sweep_format format : both) {
    const io::sweep_file file = file_of(lines_of(trials, format));
    CHECK(file.bad.empty());
    CHECK(file.format == format);
    REQUIRE(file.rows.size() == rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      check_same(file.rows[i], rows[i]);
      CHECK(step_time(file.rows[i]) == step_time(rows[i]));
    }
    CHECK(file.remarks.size() + rows.size() == trials.size());
  }
}

TEST_CASE("a file that ends anywhere holds the trials that were written whole") {
  const std::vector<trial> trials = made_trials(3);
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
  std::vector<trial> trials = made_trials(2);
  trial again = trials[0];
  again.outcome = trial_outcome::failed;
  again.steps = 0;
  again.message = "again";
  trials.push_back(again);
  const auto read = io::read_trials(lines_of(trials, io::sweep_format::csv), io::sweep_format::csv);
  REQUIRE(read->trials.size() == 2);
  CHECK(read->trials[0].message == "again");
}

// ---- the writer

namespace {

const measure::sweep_progress some_progress{};

void write(io::sweep_writer& to, const std::vector<trial>& trials) {
  for (const trial& t : trials) to.ends(t, some_progress);
}

}  // namespace

TEST_CASE("each trial is in the file when it has ended") {
  const std::vector<trial> trials = made_trials(5);
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
  const std::vector<trial> trials = made_trials(4);
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
  const std::vector<trial> trials = made_trials(2);
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

TEST_CASE("a disk that was full for a while has every trial once in the end") {
  const std::vector<trial> trials = made_trials(6);
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
