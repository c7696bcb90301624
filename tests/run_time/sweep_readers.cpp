#include <gpuplan/io/sweep/rows.hpp>
#include <gpuplan/sweep/rows.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "check.hpp"
#include "guides/batch_sweep.hpp"
#include "made_trials.hpp"
#include "program_output.hpp"

namespace {

using namespace gpuplan;
using namespace gpuplan::literals;
using made_trials::both;
using made_trials::lines_of;
using made_trials::some_trials;
using measure::trial;

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

}  // namespace

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
      "batch_size,num_workers,amp,pin_memory,io_us,fwd_ms,bwd_s,opt (ms),all-reduce (us),GPU util "
      "[%],max_memory_allocated_gb\n32,4,True,1,1000,2,0.004,0.5,250,75,2\n",
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
      {14, "a quotation mark is not closed within 100 lines"},
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

TEST_CASE("numbers beyond what anyone measures are refused by name") {
  const auto why = [](const std::string& row) {
    const io::sweep_file file = file_of("batch,forward_ms,step_ms,memory_GB\n" + row + "\n");
    return file.bad.size() == 1 ? file.bad[0].reason : std::string();
  };
  CHECK(why("9223372036854775807,1,1,1") == "micro_batch is above 2^40: 9223372036854775807");
  CHECK(why("1,1e308,1e308,1").find("its step takes") == 0);
  CHECK(why("1,1e-300,1e-300,1").find("its step takes") == 0);
  CHECK(why("1,1,1,1e15") == "memory is above 1e18 bytes: 1e15");
  // A sum rounded to any digit at all.
  CHECK(file_of("batch,forward_ms,step_ms,memory_GB\n1,1,0e-2147483648,1\n").rows.size() == 1);
}

TEST_CASE(
    "a quote is open over a hundred lines at most, so that reading takes a time in proportion") {
  std::string text = "batch,forward_ms,memory_GB,message\n";
  for (int line = 0; line < 20'000; ++line) text += "x\",\"\n";
  const io::sweep_file file = file_of(text + "1,2,3,\n");
  CHECK(file.bad.size() == 20'000);
  CHECK(file.rows.size() == 1);
}

TEST_CASE("a reason is a line that a terminal can show, however long a cell is") {
  const io::sweep_file file =
      file_of("batch,forward_ms,memory_GB\n1,\033[31m\a" + std::string(5000, 'x') + ",1\n");
  REQUIRE(file.bad.size() == 1);
  CHECK(file.bad[0].reason.rfind("forward is no number: \\u001b[31m\\u0007xxx", 0) == 0);
  CHECK(file.bad[0].reason.size() < 200);
}

TEST_CASE("what is no sweep is refused as a whole") {
  const auto refused = [](const std::string& text) { return io::read_sweep(text).why(); };
  CHECK(refused("").code == errc::malformed_sweep);
  CHECK(refused("a,b,c\n1,2,3\n").code == errc::malformed_sweep);
  CHECK(refused("hello\n").code == errc::malformed_sweep);
  CHECK(refused("batch,workers,memory_GB\n1,2,3\n") ==
        failure(errc::malformed_sweep).about("time"));
  CHECK(refused("batch,seconds\n1,2\n") == failure(errc::malformed_sweep).about("time"));
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

TEST_CASE("a batch and a time are a sweep, in a table too where all its columns are known") {
  for (const char* text :
       {"batch,step_ms\n4,10\n", "batch,step_ms,of\n4,10,x\n", "Batch Total(ms)\n4 10\n"}) {
    const io::sweep_file file = file_of(text);
    REQUIRE(file.rows.size() == 1);
    CHECK(file.rows[0].micro_batch == 4);
    CHECK(near(step_time(file.rows[0]).value(), 10e-3));
  }
}

TEST_CASE("a time or a memory that says so ran out of memory, without a column of outcomes") {
  const io::sweep_file file =
      file_of("batch,forward_ms,memory_GB\n4,10,2\n8,OOM,OOM\n16,,out of memory\n32,x,4\n");
  REQUIRE(file.rows.size() == 3);
  CHECK(file.rows[1].status == sweep_status::out_of_memory);
  CHECK(file.rows[1].micro_batch == 8);
  CHECK(file.rows[2].status == sweep_status::out_of_memory);
  REQUIRE(file.bad.size() == 1);
  CHECK(file.bad[0].reason == "forward is no number: x");
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
  std::vector<trial> trials = some_trials(20);
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
                                 lines_of(some_trials(6), io::sweep_format::csv),
                                 lines_of(some_trials(6), io::sweep_format::json_lines)};
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

TEST_CASE("the rows of a file of trials are the rows of the trials") {
  std::vector<trial> trials = some_trials(20);
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
