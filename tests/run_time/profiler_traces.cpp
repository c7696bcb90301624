// Traces of PyTorch's profiler: which operators there are, and whose the kernels are.

#include <gpuplan/io/profiler_trace.hpp>

#include <string>
#include <vector>

#include "check.hpp"
#include "profiled_step.hpp"

using namespace gpuplan;
using io::operator_group;

namespace {

std::string document_of(const std::string& events) {
  return R"({"schemaVersion":1,"traceEvents":[)" + events + "]}";
}
std::string event(const std::string& cat,
                  const std::string& name,
                  double begin,
                  double microseconds,
                  const std::string& args = "") {
  return ",{\"ph\":\"X\",\"cat\":\"" + cat + "\",\"name\":\"" + name +
         "\",\"pid\":0,\"tid\":7,\"ts\":" + std::to_string(begin) +
         ",\"dur\":" + std::to_string(microseconds) + ",\"args\":{" + args + "}}";
}
io::profiled_step step_of(const std::string& events) {
  const io::parsed_profile read = io::read_profiler_trace(document_of(events));
  CAPTURE(read.why);
  REQUIRE(read);
  return read.step;
}
double microseconds(double seconds) { return 1e6 * seconds; }

}  // namespace

TEST_CASE("without kernels, operators are the innermost that compute") {
  const io::profiled_step step = step_of(profiled_events);
  CHECK_FALSE(step.has_kernels);
  CHECK(step.has_shapes);
  struct expected {
    const char* name;
    operator_group group;
    double microseconds;
  };
  // autocast's wrapper of addmm is none, its casts are
  const std::vector<expected> all{
      {"aten::copy_", operator_group::elements, 17.122},
      {"aten::copy_", operator_group::elements, 3.126},
      {"aten::copy_", operator_group::elements, 3.136},
      {"aten::addmm", operator_group::matmul, 45.966},
      {"aten::_flash_attention_forward", operator_group::attention, 61.374},
      {"aten::mm", operator_group::matmul, 13.265},
      {"aten::mm", operator_group::matmul, 3.116},
      {"aten::sum", operator_group::sum, 34.124},
      {"aten::_foreach_add_", operator_group::optimizer, 79.659}};
  REQUIRE(step.operators.size() == all.size());
  for (std::size_t at = 0; at < all.size(); ++at) {
    const io::profiled_operator& one = step.operators[at];
    CHECK(one.name == all[at].name);
    CHECK(one.group == all[at].group);
    CHECK(microseconds(one.seconds) == doctest::Approx(all[at].microseconds).epsilon(1e-6));
  }
  CHECK(step.operators[3].sizes == io::matmul_sizes{.rows = 192, .inner = 64, .columns = 64});
  CHECK(step.operators[5].sizes == io::matmul_sizes{.rows = 256, .inner = 64, .columns = 64});
  CHECK(microseconds(step.host) == doctest::Approx(75585.681 + 79.659 - 1414.958).epsilon(1e-6));
}

TEST_CASE("what a matmul copies within itself is its part") {
  // on a CPU addmm begins with its bias
  const std::string dims = R"("Input Dims":[[4],[2,3],[3,4],[],[]])";
  std::string events =
      event("cpu_op", "aten::addmm", 10, 100, dims) + event("cpu_op", "aten::expand", 20, 5) +
      event("cpu_op", "aten::copy_", 30, 40) + event("cpu_op", "aten::copy_", 120, 7);
  const io::profiled_step step = step_of(events.substr(1));
  REQUIRE(step.operators.size() == 2);
  CHECK(step.operators[0].group == operator_group::matmul);
  CHECK(microseconds(step.operators[0].seconds) == doctest::Approx(100));
  CHECK(step.operators[1].group == operator_group::elements);
  CHECK(microseconds(step.operators[1].seconds) == doctest::Approx(7));
}

TEST_CASE("kernels are of the operator of their id, or of the call that launched them") {
  const io::profiled_step step = step_of(
      std::string(profiled_events) +
      event("kernel", "ampere_bf16_gemm", 2000, 10, "\"External id\":65,\"correlation\":1") +
      event("cuda_runtime", "cudaLaunchKernel", 1600, 4, "\"External id\":56,\"correlation\":2") +
      event("kernel", "copy", 1700, 5, "\"correlation\":2") +
      event("gpu_memcpy", "Memcpy DtoD", 1703, 4, "\"External id\":56,\"correlation\":3") +
      event("kernel", "of another step", 9000, 5, "\"External id\":99999,\"correlation\":4"));
  REQUIRE(step.has_kernels);
  CHECK(step.launches == 3);
  REQUIRE(step.operators.size() == 2);
  CHECK(step.operators[0].name == "aten::copy_");
  CHECK(step.operators[0].launches == 2);
  CHECK(microseconds(step.operators[0].seconds) == doctest::Approx(9));
  CHECK(step.operators[1].group == operator_group::matmul);
  CHECK(microseconds(step.device) == doctest::Approx(2010 - 1700));
  CHECK(microseconds(step.idle) == doctest::Approx(2000 - 1707));
}

TEST_CASE("of several steps the last is read") {
  std::string events = profiled_events;
  const auto add = [&](double at, const char* step) {
    events += event("user_annotation", step, at, 100) +
              event("cpu_op", "aten::mm", at + 10, 5, R"("Input Dims":[[2,3],[3,4]])");
  };
  add(100'000, "ProfilerStep#1");
  add(100'200, "ProfilerStep#2");
  events += event("user_annotation", "ProfilerStep#3", 100'400, 100);
  const io::profiled_step step = step_of(events);
  REQUIRE(step.operators.size() == 1);
  CHECK(step.operators[0].sizes == io::matmul_sizes{.rows = 4, .inner = 3, .columns = 2});
  CHECK(microseconds(step.host) == doctest::Approx(5));
}

TEST_CASE("a list of events alone is a trace too") {
  const io::parsed_profile read = io::read_profiler_trace("[" + std::string(profiled_events) + "]");
  REQUIRE(read);
  CHECK(read.step.operators.size() == 9);
  CHECK(read.step.has_shapes);
  const io::parsed_profile with_kernel = io::read_profiler_trace(
      "[" + std::string(profiled_events) +
      event("kernel", "ampere_bf16_gemm", 2000, 10, "\"External id\":65") + "]");
  REQUIRE(with_kernel);
  CHECK(with_kernel.step.launches == 1);
  CHECK(with_kernel.step.operators[0].sizes ==
        io::matmul_sizes{.rows = 192, .inner = 64, .columns = 64});
}

TEST_CASE("attention of older PyTorch launches kernels by itself") {
  std::string events;
  for (const char* name : {"flash", "efficient", "cudnn"})
    for (const char* pass : {"", "_backward"})
      events += event("cpu_op",
                      std::string("aten::_scaled_dot_product_") + name + "_attention" + pass,
                      static_cast<double>(events.size()),
                      10,
                      "\"External id\":" + std::to_string(events.size())) +
                event("kernel", "k", 9000, 5, "\"External id\":" + std::to_string(events.size()));
  const io::profiled_step step = step_of(events.substr(1));
  REQUIRE(step.operators.size() == 6);
  for (const io::profiled_operator& one : step.operators)
    CHECK(one.group == operator_group::attention);
}

TEST_CASE("a trace says which devices the machine has") {
  const io::parsed_profile read = io::read_profiler_trace(
      R"({"deviceProperties":[{"id":0,"name":"NVIDIA A"},{"name":7},{"name":"B"}],"traceEvents":[)" +
      std::string(profiled_events) + "]}");
  REQUIRE(read);
  CHECK(read.step.devices == std::vector<std::string>{"NVIDIA A", "B"});
}

TEST_CASE("a time that cannot be is refused with its event") {
  const auto why = [](const char* key, const char* is) {
    const std::string other = std::string(key) == "ts" ? R"("dur":1)" : R"("ts":1)";
    return io::read_profiler_trace(document_of(std::string(profiled_events) +
                                               R"(,{"ph":"X","cat":"kernel","name":"gemm",")" +
                                               key + "\":" + is + "," + other + "}"))
        .why;
  };
  const std::string taken = "; a number of microseconds from 0 to 31536000000000 is taken";
  CHECK(why("dur", "-5") == "event 29, gemm: dur is -5" + taken);
  CHECK(why("dur", "\"25\"") == "event 29, gemm: dur is \"25\"" + taken);
  CHECK(why("dur", "1e308") == "event 29, gemm: dur is 1e+308" + taken);
  CHECK(why("ts", "null").starts_with("event 29, gemm: ts is null; a number of microseconds"));
  CHECK(why("ts", "1e300").starts_with("event 29, gemm: ts is 1e+300; "));
}

TEST_CASE("what is no trace is refused in a sentence") {
  const auto why = [](const std::string& text) { return io::read_profiler_trace(text).why; };
  CHECK(why("\x1f\x8b\x08") == "it is compressed (gzip); decompress it first: gunzip -k FILE");
  CHECK(why("") == "it is not whole JSON");
  CHECK(why("{\"traceEvents\":[") == "it is not whole JSON");
  CHECK(why("{}") == "it has no traceEvents: not a trace of PyTorch's profiler");
  CHECK(why("3") == "it has no traceEvents: not a trace of PyTorch's profiler");
  CHECK(why(std::string(100, '[')) == "it nests lists and objects too deeply to be a trace");
  CHECK(why(document_of("{\"ph\":\"M\"}")).find("it has no operators") == 0);
  for (const char* id : {"\"External id\":99999", "\"External id\":\"65\""})
    CHECK(why(document_of(profiled_events + event("kernel", "k", 2000, 10, id)))
              .starts_with("no kernel has the External id of an operator of its last step"));
}
