#include <gpuplan/io/hugging_face_config.hpp>
#include <gpuplan/io/measured_device.hpp>
#include <gpuplan/io/profiler_trace.hpp>
#include <gpuplan/io/sweep/report.hpp>
#include <gpuplan/io/sweep/rows.hpp>
#include <gpuplan/io/sweep/trials.hpp>
#include <gpuplan/parameters.hpp>

#include <cstddef>
#include <string>

#include "check.hpp"
#include "profiled_step.hpp"
#include "random_numbers.hpp"

using namespace gpuplan;

namespace {

// Copies of a text, each with a few characters or numbers changed.
class changed_text {
 public:
  explicit changed_text(std::string text) : text_(std::move(text)) {}

  std::string next() {
    static const std::string put[] = {"9223372036854775807",
                                      "-1",
                                      "0",
                                      "1e308",
                                      "1e-320",
                                      "0e-2147483648",
                                      "NaN",
                                      "4294967296",
                                      "\"",
                                      "[",
                                      "}",
                                      ",",
                                      "\n",
                                      "null",
                                      "\033[31m",
                                      "\xff",
                                      "\xc2\x9b"};
    std::string out = text_;
    for (std::int64_t changes = 1 + random_.below(3); changes > 0; --changes) {
      const std::size_t at = place(out);
      switch (random_.below(4)) {
        case 0:
          out[at] = static_cast<char>(random_.below(256));
          break;
        case 1:
          out.erase(at, 1 + place(out) % 20);
          break;
        case 2:
          out.insert(at, out.substr(place(out), 40));
          break;
        default: {
          const std::size_t digit = out.find_first_of("0123456789", at);
          const std::size_t from = digit == std::string::npos ? at : digit;
          const std::size_t end = out.find_first_not_of("0123456789.", from);
          out.replace(from,
                      end == std::string::npos ? std::string::npos : end - from,
                      put[random_.below(std::ssize(put))]);
        }
      }
      if (out.empty()) out = text_;
    }
    return out;
  }

 private:
  std::string text_;
  random_numbers random_{1};

  std::size_t place(const std::string& in) {
    return static_cast<std::size_t>(random_.below(std::ssize(in)));
  }
};

bool is_plain(const std::string& text) {
  for (const char c : text)
    if (static_cast<unsigned char>(c) < 0x20 && c != '\n') return false;
  return true;
}

}  // namespace

TEST_CASE("a sweep's table that was changed at random is read, reported on or refused") {
  int read_ones = 0;
  for (const char* text :
       {"batch,workers,amp,data_ms,forward_ms,backward_ms,step_ms,GPU%,memory_GB,status\n"
        "1,0,no,1.5,2,4,7.5,55,2.1,ok\n2,0,no,1.6,3,6,10.6,65,2.9,ok\n"
        "4,0,no,1.7,5,10,16.7,75,4.5,ok\n8,0,no,,,,,,,OOM\n",
        "{\"micro_batch\":1,\"step_s\":0.01,\"memory_bytes\":1e9}\n"
        "{\"micro_batch\":2,\"step_s\":0.02,\"memory_bytes\":2e9}\n"}) {
    changed_text changed{text};
    for (int i = 0; i < 700; ++i) {
      const std::string given = changed.next();
      CAPTURE(given);
      const auto read = io::read_sweep(given);
      if (!read || read->rows.empty()) continue;
      ++read_ones;
      for (const sweep_row& row : read->rows) CHECK(row.micro_batch <= std::int64_t{1} << 40);
      for (const io::bad_line& bad : read->bad) CHECK(is_plain(bad.reason));
      if (i % 10 == 0) CHECK(is_plain(to_text(io::report_on(read->rows, {}))));
    }
  }
  CHECK(read_ones > 500);
}

TEST_CASE("trials that were changed at random are read or refused") {
  measure::trial one{.setting = {.micro_batch = 4}, .set_up_s = 0.1, .steps = 9};
  one.step = {.lower = 0.1, .median = 0.2, .upper = 0.3};
  for (const io::sweep_format format : {io::sweep_format::csv, io::sweep_format::json_lines}) {
    const std::string head = format == io::sweep_format::csv ? io::csv_head_of_trials() : "";
    changed_text changed{line_of(one, format)};
    int read_ones = 0;
    for (int i = 0; i < 1500; ++i) {
      const auto read = io::read_trials(head + changed.next(), format);
      if (!read) continue;
      for (const measure::trial& t : read->trials) CHECK(!line_of(t, format).empty());
      read_ones += !read->trials.empty();
    }
    CHECK(read_ones > 30);
  }
}

TEST_CASE("a config.json that was changed at random is a model or refused") {
  changed_text changed{
      R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","num_hidden_layers":2,)"
      R"("hidden_size":64,"intermediate_size":128,"num_attention_heads":4,"head_dim":16,)"
      R"("num_key_value_heads":2,"vocab_size":100,"tie_word_embeddings":false})"};
  int models = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::string given = changed.next();
    CAPTURE(given);
    const auto read = io::read_hugging_face_config(given);
    CHECK(read.reason.empty() == static_cast<bool>(read.shape));
    if (!read.shape || !validate(*read.shape)) continue;
    CHECK(parameters(*read.shape).total() > 0);
    ++models;
  }
  CHECK(models > 100);
}

TEST_CASE("a measurement that was changed at random is one that makes sense, or refused") {
  io::measurement_record one{.name = "a", .date = "2026-11-22"};
  one.values.sm_count = 132;
  one.values.memory = 80_GB;
  one.surface.push_back({number_format::bf16, accumulator::fp32, {64, 64, 64}, 1_TFLOPS});
  changed_text changed{to_json(one)};
  int read_ones = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::string given = changed.next();
    CAPTURE(given);
    const auto read = io::read_measurement(given);
    if (!read) continue;
    ++read_ones;
    CHECK(read->values.sm_count >= 0);
    CHECK(io::read_measurement(to_json(*read)));
  }
  CHECK(read_ones > 30);
}

TEST_CASE("a profiler's trace that was changed at random is read or refused") {
  const std::string kernels =
      R"(,{"ph":"X","cat":"kernel","name":"gemm","tid":7,"ts":2000,"dur":10,)"
      R"("args":{"External id":65,"correlation":1}},)"
      R"({"ph":"X","cat":"cuda_runtime","name":"launch","tid":5,"ts":1600,"dur":4,)"
      R"("args":{"External id":56,"correlation":2}},)"
      R"({"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","tid":5,"ts":0,"dur":90000}]})";
  changed_text changed{"{\"traceEvents\":[" + std::string(profiled_events) + kernels};
  int read_ones = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::string given = changed.next();
    CAPTURE(given);
    const io::parsed_profile read = io::read_profiler_trace(given);
    CHECK(is_plain(read.why));
    if (!read) continue;
    ++read_ones;
    CHECK(!(read.step.host < 0));
    CHECK(!(read.step.device < 0));
    for (const io::profiled_operator& one : read.step.operators) {
      CHECK(one.seconds >= 0);
      CHECK(one.sizes.rows >= one.sizes.columns);
    }
  }
  CHECK(read_ones > 200);
}

TEST_CASE("a trace of many operators within each other is read in no time") {
  std::string events;
  for (int at = 0; at < 100'000; ++at) {
    events += at == 0 ? "{" : ",{";
    events += R"("ph":"X","cat":"cpu_op","name":"aten::mul","tid":1,"ts":)" + std::to_string(at) +
              ",\"dur\":" + std::to_string(200'000 - 2 * at) + "}";
    events +=
        R"(,{"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","tid":1,"ts":0,"dur":9})";
    events +=
        R"(,{"ph":"X","cat":"user_annotation","name":"Optimizer.step#A","tid":1,"ts":0,"dur":9})";
  }
  CHECK(io::read_profiler_trace("[" + events + "]"));
}
