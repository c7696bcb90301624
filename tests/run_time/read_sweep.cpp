#include "guides/front_end.hpp"

#include <gpuplan/io/svg.hpp>
#include <gpuplan/io/sweep/advice.hpp>
#include <gpuplan/io/sweep/chart.hpp>
#include <gpuplan/io/sweep/report.hpp>
#include <gpuplan/io/sweep/rows.hpp>
#include <gpuplan/io/sweep/settings.hpp>
#include <gpuplan/io/text.hpp>
#include <gpuplan/measure/sweep.hpp>
#include <gpuplan/sweep.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "check.hpp"
#include "gpuplan_runs.hpp"
#include "guides/batch_sweep.hpp"
#include "json_answer.hpp"
#include "temporary_file.hpp"

using nlohmann::json;

namespace {

using namespace gpuplan;
using namespace gpuplan::literals;

const std::string sample = GPUPLAN_SAMPLE_SWEEP;

outcome ran(const std::vector<std::string>& arguments) {
  return output_of_command("sweep", arguments);
}

std::int64_t count_of(const std::string& text, const std::string& part) {
  std::int64_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

// The row of a table for programs whose column has this value.
json cell_of(const json& rows, const std::string& table, int row, const std::string& column) {
  for (const json& one : rows)
    if (one["table"] == table && one["row"] == row && one["column"] == column) return one["value"];
  return nullptr;
}

// Two series, one of which runs out; memory of 3 + n / 10 GB, throughput that saturates.
std::vector<sweep_row> made_rows() {
  std::vector<sweep_row> rows;
  for (const std::int64_t workers : {0, 4})
    for (const std::int64_t n : {1, 2, 4, 8, 16, 32, 64}) {
      sweep_row row{.micro_batch = n,
                    .workers = workers,
                    .data = workers == 0 ? 2_ms * n : 1_ms,
                    .forward = 10_ms + 1_ms * n,
                    .backward = 20_ms + 2_ms * n,
                    .gpu_utilisation = 0.9,
                    .memory = 3_GB + 0.1_GB * n};
      if (workers == 4 && n == 64) row.status = sweep_status::out_of_memory;
      rows.push_back(row);
    }
  return rows;
}

// The points of a picture's lines, in the order of the document.
struct point {
  double x, y;
};
std::vector<std::vector<point>> lines_of(const std::string& svg) {
  std::vector<std::vector<point>> lines;
  const std::string begin = " points=\"";
  for (std::size_t at = svg.find("<polyline"); at != std::string::npos;
       at = svg.find("<polyline", at + 1)) {
    const std::size_t first = svg.find(begin, at) + begin.size();
    std::istringstream text(svg.substr(first, svg.find('"', first) - first));
    auto& line = lines.emplace_back();
    char comma = ',';
    for (point p{}; text >> p.x >> comma >> p.y;) line.push_back(p);
  }
  return lines;
}

// Whether b = c + d a for all of them, to the hundredth that coordinates are written to.
bool on_one_line(const std::vector<double>& a, const std::vector<double>& b) {
  const double slope = (b.back() - b.front()) / (a.back() - a.front());
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::abs(b.front() + slope * (a[i] - a.front()) - b[i]) > 0.021) return false;
  return a.size() > 1;
}

}  // namespace

// ---- the program

TEST_CASE("the guide's table becomes its report") {
  const outcome o = ran({sample, "--memory", "80"});
  CHECK(o.err.empty());
  CHECK(o.status == 0);
  for (const char* part :
       {"What was measured\n\nBatch  Workers  AMP  I/O (ms)  Fwd (ms)  Bwd (ms)  Total (ms)  "
        "Samples/s  GPU (%)  Mem (GB)  Status\n",
        " 4096        4  yes     35.67    367.89    518.45      922.01     4442.5     93.8     "
        "27.85  ran\n",
        " 8192        4  yes ",
        "OOM\n",
        "throughput     4096        4  yes     4442.5     27.85  the highest of 13 rows that ran\n",
        "samples/s/GB     64        4  yes      895.6      0.72  1243.9 samples/s/GB, the most of",
        "recommended        ",
        "but 8192 ran out",
        "loading bound, compute bound, memory head-room",
        "more workers, pin_memory, a faster SSD",
        "Line 15: its times add up to 922.01 ms, and its total is 921.01 ms."})
    CHECK_MESSAGE(has(o.out, part), part);
  std::istringstream lines(o.out);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(io::display_width(line) <= 100);
    CHECK((line.empty() || line.back() != ' '));
  }
}

TEST_CASE("the report can be read again, and is the same") {
  const outcome first = ran({sample, "--memory", "40"});
  const temporary_file file(first.out);
  const outcome second = ran({file.name(), "--memory", "40"});
  const std::string remark = "• Line 15";
  CHECK(second.out == first.out.substr(0, first.out.find(remark)));
}

TEST_CASE("the tables for programs have the picks of the library") {
  const json rows = json_answer(ran, {sample, "--memory", "40"});
  const std::string optimal = "The setting to take";
  const auto sweep = guides::batch_sweep::sweep({});
  CHECK(cell_of(rows, optimal, 1, "Batch") ==
        sweep[pick_highest_throughput(sweep)->row].micro_batch);
  CHECK(cell_of(rows, optimal, 2, "Batch") == sweep[pick_best_efficiency(sweep)->row].micro_batch);
  const guides::batch_sweep::inputs guide;
  const auto in_bands =
      pick_recommended(sweep, 40_GB, guides::batch_sweep::thresholds(guide, guide.good_memory));
  CHECK(cell_of(rows, optimal, 3, "Batch") == sweep[in_bands->row].micro_batch);
  CHECK(cell_of(rows, "What was measured", 14, "Status") == "OOM");
  CHECK(cell_of(rows, "What was measured", 14, "Samples/s").is_null());
  CHECK(cell_of(rows, "What was measured", 13, "Samples/s").get<double>() ==
        doctest::Approx(4096 / 0.92201).epsilon(1e-9));
  CHECK(has(ran({sample, "--format", "csv"}).out, "The setting to take,1,Batch,4096,\r\n"));
  CHECK(
      has(ran({sample, "--format", "markdown"}).out, "### The setting to take\n\n| by | Batch |"));
}

TEST_CASE("bands and devices are the caller's") {
  const auto picked = [](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{sample};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return cell_of(json_answer(ran, arguments), "The setting to take", 3, "Batch");
  };
  CHECK(picked({}).is_null());
  CHECK(picked({"--gpu", "a100_sxm4_80gb"}).is_null());
  CHECK(picked({"--gpu", "a100_sxm4_80gb", "--memory-share", "0", "80"}) == 4096);
  CHECK(picked({"--memory", "20"}) == 2048);
  CHECK(picked({"--memory", "20", "--utilisation", "70", "90"}).is_null());
  // What fills the memory was measured, so no other batches are proposed.
  CHECK(!has(ran({sample, "--memory", "20", "--utilisation", "70", "90"}).out, "would fill"));
  CHECK(
      has(ran({sample, "--data-time", "20"}).out, " 2048        4  yes       4.5  loading bound"));
  CHECK(ran({sample, "--data-time", "0.02s"}).out == ran({sample, "--data-time", "20"}).out);
}

TEST_CASE("lines that cannot be read are refused with their reasons, or left out") {
  const temporary_file file("batch,forward_ms,memory_GB\n1,2,3\n2,x,4\n4,5\n");
  const outcome refused = ran({file.name()});
  CHECK(refused.status == 2);
  CHECK(refused.out.empty());
  CHECK(has(refused.err, file.name() + ":3: forward is no number: x\n"));
  CHECK(has(refused.err, file.name() + ":4: has 2 cells, and its head 3\n"));
  const outcome used = ran({file.name(), "--bad-lines", "skip"});
  CHECK(used.status == 0);
  CHECK(has(used.out, "Line 3 is left out: forward is no number: x.\n"));
}

TEST_CASE("what cannot be done is said in a sentence") {
  const auto fails = [](const std::vector<std::string>& arguments, const std::string& words) {
    const outcome o = ran(arguments);
    CAPTURE(o.err);
    CHECK(o.status == 2);
    CHECK(o.out.empty());
    CHECK(has(o.err, words));
  };
  fails({}, "FILE is required");
  fails({"/nowhere"}, "cannot read /nowhere");
  const temporary_file other("nothing of the kind\n");
  fails({other.name()}, "this is no sweep");
  fails({sample, "--gpu", "rtx_9999"}, "the nearest");
  fails({sample, "--gpu", "rtx_4090", "--memory", "3"}, "--memory");
  fails({sample, "--memory", "-3"}, "--memory: -3 is no finite number above 0");
  fails({sample, "--memory", "nan"}, "nan is no finite number above 0");
  fails({sample, "--memory", "much"}, "--memory");
  fails({sample, "--utilisation", "90", "70"}, "--utilisation: from the lower end");
  fails({sample, "--data-time", "nan"}, "--data-time: nan is no duration from ");
  fails({sample, "--data-time", "20x"},
        "--data-time: 20x is no duration, such as 3d12h, 90m, or milliseconds alone");
  fails({"/dev/zero"}, "/dev/zero holds more than 4194304 bytes");
  {
    const temporary_file large(std::string(guides::most_of_a_file + 1, '1'));
    fails({large.name()}, large.name() + " holds 4194305 bytes, and at most 4194304 are read");
  }
  fails({"/tmp/\033[31m\xc2\x9b"}, "/tmp/\\u001b[31m\\u009b: No such file");
  fails({sample, "--name", "class"}, "class is no identifier of C++, or one that it keeps");
  fails({sample, "--memory-share", "0", "120"}, "--memory-share: 120 is no number from 0 to 100");
  fails({sample, "--header", "x.hpp", "--model", "m"}, "--date");
  fails({sample, "--header", "x.hpp", "--date", "2026-11-23"}, "--model");
  fails({sample, "--header", "x.hpp", "--date", "2026-02-29", "--model", "m"}, "no day");
  fails({sample, "--header", "x.hpp", "--date", "2024-02-29", "--model", "m", "--memory", "80"},
        "the device has no name");
  fails({sample, "--header", "x.hpp", "--date", "2026-11-23", "--model", "m", "--name", "a b"},
        "identifier");
  const temporary_file empty("");
  fails({empty.name()}, "this is no sweep");
  const outcome o = ran({sample, "--svg", "/nowhere/sweep.svg"});
  CHECK(o.status == 1);
  CHECK(has(o.err, "--svg: cannot write /nowhere/sweep.svg: No such file"));
}

TEST_CASE("a header that cannot be made does not lose the report") {
  const temporary_file file("batch,forward_ms,memory_GB\n1,2,3\n2,3,4\n");
  const temporary_file header("");
  const outcome o = ran({file.name(),
                         "--memory",
                         "80",
                         "--device",
                         "a card",
                         "--header",
                         header.name(),
                         "--date",
                         "2026-11-23",
                         "--model",
                         "m"});
  CHECK(o.status == 1);
  CHECK(has(o.out, "The setting to take"));
  CHECK(has(o.out, "(a card)"));
  CHECK(has(o.out, "No model of time with 0 workers, full precision: too few rows"));
  CHECK(has(o.out, "No model of memory with 0 workers, full precision: too few rows"));
  CHECK(has(o.err, "gpuplan sweep: --header: too few rows"));
  CHECK(header.text().empty());
}

TEST_CASE("a report says how sure it is, and what its words mean") {
  std::string csv = "batch,forward_ms,memory_GB\n";
  for (int n = 1; n <= 40; ++n)
    csv += std::to_string(n) + ',' + std::to_string(10 + n) + ',' + std::to_string(n) + '\n';
  const temporary_file many(csv);
  const std::string refused = ran({many.name(), "--memory", "80"}).out;
  CHECK(has(refused, "No model of time with"));
  CHECK(has(refused, "No model of memory with"));
  const temporary_file three("batch,forward_ms,memory_GB\n1,11,1.5\n2,12,2\n4,14,3\n");
  const std::string sure = ran({three.name(), "--memory", "80", "--memory-share", "0", "100"}).out;
  CHECK(has(sure, "throughput tends to 1000.0 samples/s with a confidence of 50 %"));
  CHECK(has(sure, "39 times what was measured"));
  CHECK(has(sure, "the highest throughput of 3 rows that fit 80"));
  CHECK(!has(sure, "0–100 %"));
  CHECK(!has(sure, "AMP, "));  // whether it was on is not said
  CHECK(has(sure, "Loading bound: a step waits for data longer than 30 ms; compute bound"));
}

TEST_CASE("the header has the rows of the fastest setting") {
  const temporary_file file("");
  const outcome o = ran({sample,
                         "--gpu",
                         "a100_sxm4_80gb",
                         "--header",
                         file.name(),
                         "--date",
                         "2026-11-23",
                         "--name",
                         "monday",
                         "--model",
                         "a \"model\""});
  CHECK(o.status == 0);
  const std::string header = file.text();
  for (const char* part : {"inline constexpr gpuplan::measured_sweep monday{",
                           ".device = \"A100 SXM4 80 GB\"",
                           ".model = \"a \\\"model\\\"\"",
                           ".date = \"2026-11-23\"",
                           ".workers = 4",
                           ".ran_out_at = 8192",
                           "gpuplan::bytes::from_value(2.05e+09)"})
    CHECK_MESSAGE(has(header, part), part);
}

// ---- the picture

TEST_CASE("the picture has every row where its values are") {
  const std::vector<sweep_row> rows = made_rows();
  const std::string svg =
      io::to_svg({.title = "a<b&c\"d", .rows = rows, .device = "a device", .capacity = 10_GB});
  CHECK(svg.rfind("<svg xmlns=\"http://www.w3.org/2000/svg\"", 0) == 0);
  CHECK(svg.substr(svg.size() - 7) == "</svg>\n");
  CHECK(count_of(svg, "<text ") == count_of(svg, "</text>"));
  CHECK(count_of(svg, "\"") % 2 == 0);
  const auto lines = lines_of(svg);
  REQUIRE(lines.size() == 4);  // throughput, then memory, of each series
  const std::size_t counts[] = {7, 6, 7, 6};
  for (std::size_t l = 0; l < 4; ++l) {
    REQUIRE(lines[l].size() == counts[l]);
    std::vector<double> x, y, doublings, values;
    for (std::size_t i = 0; i < lines[l].size(); ++i) {
      const sweep_row& row = rows[(l % 2) * 7 + i];
      x.push_back(lines[l][i].x);
      y.push_back(lines[l][i].y);
      doublings.push_back(std::log2(static_cast<double>(row.micro_batch)));
      values.push_back(l < 2 ? throughput(row).value() : row.memory.value());
    }
    CHECK(on_one_line(doublings, x));
    CHECK(on_one_line(values, y));
    CHECK(y.back() < y.front());
  }
  CHECK(lines[0][0].x == lines[3][0].x);
  for (const char* part : {">a&lt;b&amp;c&quot;d<",
                           ">a device: 10 GB<",
                           ">out of memory<",
                           ">0 workers, full precision<",
                           ">4 workers, full precision<",
                           ">Shares of the step (%), 4 workers, full precision<",
                           ">backward<"})
    CHECK_MESSAGE(has(svg, part), part);
  for (const char* none : {"<script", "href", "nan", "inf", "optimizer", "a<b"})
    CHECK_MESSAGE(!has(svg, none), none);
  CHECK(count_of(svg, "<rect ") == 1 + 3 * 6 + 3);  // paper, bars of six batches, legend
}

TEST_CASE("the bars of a picture are as high as their shares, and fill its panel") {
  const std::vector<sweep_row> rows{{.micro_batch = 4,
                                     .data = 1_ms,
                                     .forward = 2_ms,
                                     .backward = 5_ms,
                                     .optimizer = 1_ms,
                                     .communication = 1_ms,
                                     .memory = 1_GB}};
  const std::string svg = io::to_svg({.rows = rows});
  const double heights[] = {16.6, 33.2, 83, 16.6, 16.6};  // of 166
  for (const double height : heights)
    CHECK(has(svg, " height=\"" + io::svg_number(height) + "\" fill="));
  for (const char* share : {">10<", ">20<", ">50<"}) CHECK(has(svg, share));
}

TEST_CASE("a picture has room for long names, and says once what its crosses are") {
  std::vector<sweep_row> rows = made_rows();
  const auto width_of = [](const std::string& svg) {
    const std::string begin = " width=\"";
    return std::stod(svg.substr(svg.find(begin) + begin.size()));
  };
  const double narrow = width_of(io::to_svg({.rows = rows}));
  for (sweep_row& row : rows) {
    row.pinned_memory = row.mixed_precision = true;
    if (row.micro_batch >= 32) row.status = sweep_status::out_of_memory;
  }
  const std::string svg = io::to_svg({.rows = rows});
  CHECK(narrow == 960);
  CHECK(width_of(svg) > 1000);
  CHECK(count_of(svg, "l10 10m-10 0l10 -10") == 4);
  CHECK(count_of(svg, ">out of memory<") == 2);  // and the margin below it
}

TEST_CASE("pictures of little") {
  const std::vector<sweep_row> none{{.micro_batch = 8, .status = sweep_status::out_of_memory}};
  CHECK(has(io::to_svg({.title = "t", .rows = none}), "No setting of this sweep ran."));
  CHECK(has(io::to_svg({.title = "t"}), "No setting of this sweep ran."));
  const std::vector<sweep_row> without{{.micro_batch = 8, .forward = 3_ms}};
  const std::string svg = io::to_svg({.title = "t", .rows = without, .capacity = 8_GB});
  CHECK(has(svg, "Memory was not measured."));
  CHECK(lines_of(svg).size() == 1);
  CHECK(!has(svg, "nan"));
  const std::vector<sweep_row> wrong{{.micro_batch = 0, .forward = 3_ms, .memory = 1_GB}};
  CHECK_THROWS_AS(static_cast<void>(io::to_svg({.rows = wrong})), plan_error);
}

TEST_CASE("the lines of a grid") {
  CHECK(io::grid_step(0.9) == doctest::Approx(1));
  CHECK(io::grid_step(1.1) == doctest::Approx(2));
  CHECK(io::grid_step(2.1) == doctest::Approx(5));
  CHECK(io::grid_step(51) == doctest::Approx(100));
  CHECK(io::grid_step(0.003) == doctest::Approx(0.005));
  CHECK(io::grid_digits(0.005) == 3);
  CHECK(io::grid_digits(0.1) == 1);
  CHECK(io::grid_digits(20) == 0);
}

// ---- what a sweep that ran shows

TEST_CASE("the report of a sweep has its spreads, and what was not measured") {
  using measure::trial_outcome;
  measure::sweep_result sweep;
  sweep.clock_cost_s = 25e-9;
  sweep.interrupted = true;
  sweep.trials = {
      {.setting = {.micro_batch = 4}, .set_up_s = 0.25, .steps = 9, .outliers = 1},
      {.setting = {.micro_batch = 8}, .outcome = trial_outcome::failed, .message = "a bad day"},
      {.setting = {.micro_batch = 16}, .outcome = trial_outcome::out_of_memory},
      {.setting = {.micro_batch = 32}, .outcome = trial_outcome::skipped}};
  measure::trial& first = sweep.trials[0];
  first.forward = {0.009, 0.010, 0.012};
  first.step = {0.019, 0.020, 0.025};
  first.other = {0.009, 0.010, 0.011};
  const std::string text = to_text(io::report_on(sweep, {}));
  for (const char* part : {"200.0",  // samples/s
                           "19.000–25.000",
                           "a bad day",
                           "skipped",
                           "no memory was measured",
                           "takes 25 ns",
                           "The sweep was interrupted"})
    CHECK_MESSAGE(has(text, part), part);
  std::istringstream lines(to_text(io::report_on(sweep, {}), {.width = 60}));
  bool is_one_line = false;
  for (std::string line; std::getline(lines, line);)
    is_one_line = is_one_line || (has(line, "19.000–25.000") && has(line, "median known"));
  CHECK(is_one_line);
  CHECK(!has(text, "GPU (%)"));
  CHECK(!has(text, "Mem ("));
  first.why_ended = measure::stop_reason::out_of_time;
  CHECK(has(to_text(io::report_on(sweep, {})), "time was up"));
  CHECK(!has(to_text(io::report_on(sweep, {})), "out of time"));
  CHECK(!has(text, "1.5 times"));  // 0.025 s is not 1.5 times 0.019 s
  first.step.upper = 0.0286;
  CHECK(has(to_text(io::report_on(sweep, {}), {.width = 0}),
            "In 1 of 1 setting a quarter of the steps took over 1.5 times as long"));
  sweep.stopped_by = "the observer fell over";
  CHECK(has(to_text(io::report_on(sweep, {})), "the observer fell over"));
}

TEST_CASE("the report of a sweep of which nothing ran") {
  const std::string text =
      to_text(io::report_on(measure::sweep_result{.interrupted = true},
                            {.device = memory_budget(8_GB), .device_name = "a card"}),
              {.width = 0});
  CHECK(count_of(text, "no row ran") == 3);
  CHECK(has(text, "The sweep was interrupted"));
}

TEST_CASE("the report of a search says what ended it") {
  using measure::trial_outcome;
  const auto trial_of = [](std::int64_t batch, trial_outcome outcome, double step_s = 0) {
    measure::trial t{.setting = {.micro_batch = batch}, .outcome = outcome};
    t.forward = t.step = {step_s, step_s, step_s};
    return t;
  };
  const auto says = [&](std::vector<measure::trial> more, const char* words) {
    measure::sweep_result sweep;
    sweep.trials = {trial_of(4, trial_outcome::ran, 0.01), trial_of(8, trial_outcome::ran, 0.02)};
    sweep.trials.insert(sweep.trials.end(), more.begin(), more.end());
    // Of other workers, which say nothing of these.
    sweep.trials.push_back(trial_of(9, trial_outcome::out_of_memory));
    sweep.trials.back().setting.workers = 2;
    sweep.largest_that_fits = {{.micro_batch = 8}};
    const std::string text = to_text(io::report_on(sweep, {}), {.width = 0});
    CAPTURE(text);
    CHECK(has(text, "The largest micro-batch that ran with 0 workers, full precision is 8; "));
    CHECK(has(text, words));
  };
  says({}, "is 8; the search was not to try larger ones.\n");
  says({trial_of(16, trial_outcome::out_of_memory), trial_of(9, trial_outcome::out_of_memory)},
       "is 8; 9 ran out of memory.\n");
  says({trial_of(16, trial_outcome::out_of_memory), trial_of(12, trial_outcome::out_of_time)},
       "is 8; the search ended by time, not by memory: no step of 12 ended in its time.\n");
  says({trial_of(16, trial_outcome::failed)},
       "is 8; 16 failed, which says nothing of its memory.\n");
}

TEST_CASE("advice says nothing twice") {
  const sweep_row row{.micro_batch = 4, .data = 4_ms, .forward = 2_ms, .memory = 1_GB};
  const auto found =
      diagnose(row, 10_GB, {.data_share = 0.1, .utilisation = {0.7, 1}, .memory_share = {0.5, 1}});
  const auto [words, advice] = io::advice_on(row, *found);
  CHECK(words == "loading bound, under-utilised, memory head-room");
  CHECK(advice == "more workers, pin_memory, a faster SSD, a larger batch");
  const io::sweep_offers none{.mixed_precision = false, .pinned_memory = false};
  CHECK(io::advice_on(row, *found, none).advice == "more workers, a faster SSD, a larger batch");
  const sweep_row busy{.micro_batch = 4, .forward = 2_ms, .memory = 1_GB};
  const auto computes = diagnose(busy, 10_GB, {});
  CHECK(io::advice_on(busy, *computes).advice == "AMP, a larger batch, a lighter model");
  CHECK(io::advice_on(busy, *computes, none).advice == "a larger batch, a lighter model");
  const io::sweep_advice full = io::advice_on(busy, {.compute_bound = true, .memory_tight = true});
  CHECK(full.found == "compute bound, memory tight");
  CHECK(full.advice == "AMP, a lighter model, a smaller batch");
  const io::sweep_advice idle = io::advice_on(
      busy, {.loading_bound = true, .under_utilised = true, .memory_tight = true}, none);
  CHECK(idle.advice == "more workers, a faster SSD, a smaller batch");
}

TEST_CASE("a sweep becomes timed steps that calibrate reads") {
  const temporary_file sweep(
      "batch,data_ms,forward_ms,backward_ms,optimizer_ms,memory_GB,status\n"
      "1,5,20,40,12,7,ok\n2,5,38,76,12,9,ok\n4,5,74,150,12,13,ok\n8,,,,,,oom\n");
  const temporary_file steps("");
  const std::vector<std::string> asked{
      sweep.name(), "--gpu", "rtx_4090", "--model", "gpt2", "--steps", steps.name()};
  const auto written = [&] {
    std::string text = steps.text();
    std::erase(text, '\r');
    return text;
  };
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = asked;
    all.insert(all.end(), more.begin(), more.end());
    return ran(all);
  };
  // without what they waited for samples, and without the row that ran out of memory
  CHECK(with({"--step", "sequence-length=1024", "gpus=8", "zero=2"}).status == 0);
  CHECK(written() ==
        "model,gpu,sequence-length,gpus,zero,micro-batch,step_s\n"
        "gpt2,rtx_4090,1024,8,2,1,0.072000\n"
        "gpt2,rtx_4090,1024,8,2,2,0.126000\n"
        "gpt2,rtx_4090,1024,8,2,4,0.236000\n");
  const outcome found = output_of_command("calibrate", {steps.name()});
  CHECK(has(found.out, "3 steps of transformers, GPT2LMHeadModel on rtx_4090"));

  const std::string before = steps.text();
  const auto refuses = [&](const std::vector<std::string>& more, const std::string& why) {
    const outcome refused = with(more);
    CHECK(refused.status != 0);
    CAPTURE(refused.err);
    CHECK(has(refused.err, why));
    CHECK(steps.text() == before);
  };
  refuses({"--step", "sequence=1024"}, "the nearest that does is sequence_length");
  refuses({"--step", "zero"}, "--step: name=value, such as sequence-length=1024, and not zero");
  refuses({"--step", "micro-batch=4"}, "column micro-batch says again");
  refuses({"--step", "sequence-length=9999"}, "line 2");
  CHECK(has(ran({sweep.name(), "--gpu", "rtx_4090", "--steps", steps.name()}).err, "--model"));

  // What had no mixed precision is in fp32; what had it, as stated.
  const temporary_file both(
      "batch,amp,forward_ms,backward_ms,memory_GB\n"
      "1,no,30,60,7\n1,yes,20,40,6\n2,yes,30,60,8\n4,yes,50,100,9\n");
  CHECK(ran({both.name(),
             "--gpu",
             "rtx_4090",
             "--model",
             "gpt2",
             "--steps",
             steps.name(),
             "--step",
             "precision=fp16"})
            .status == 0);
  CHECK(has(written(), "gpt2,rtx_4090,fp32,1,0.090000\ngpt2,rtx_4090,fp16,1,0.060000\n"));
}
