#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/io/measured_device.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "check.hpp"
#include "imaginary_device.hpp"

using namespace gpuplan;
using nlohmann::json;

namespace {

io::measurement_record full() { return io::record_of(imaginary_device::in_full); }

template <class Change>
failure flaw(Change change) {
  json changed = json::parse(to_json(full()));
  change(changed);
  return io::read_measurement(changed.dump()).why();
}

failure malformed(const char* key) { return failure(errc::malformed_measurement).about(key); }

}  // namespace

TEST_CASE("a measurement as JSON reads back as the same") {
  const std::string text = to_json(full());
  const auto back = io::read_measurement(text);
  REQUIRE(back);
  CHECK(to_json(*back) == text);
  const measured_device of = back->view();
  const measured_device& was = imaginary_device::in_full;
  CHECK(std::string(of.name) == was.name);
  CHECK(std::string(of.library) == was.library);
  CHECK(of.sm_count == 100);
  CHECK(*of.context_memory == *was.context_memory);
  CHECK(!*of.error_correction);
  REQUIRE(of.matmuls.size() == 3);
  CHECK(of.matmuls[0].sustained->median == 150_TFLOPS);
  CHECK(of.matmuls[0].shape == matmul_shape{8192, 8192, 8192});
  CHECK(!of.matmuls[0].own_kernel);
  CHECK(of.matmuls[1].own_kernel->upper_quartile == 81_TFLOPS);
  CHECK(of.matmuls[2].sum == accumulator::fp16);
  CHECK(of.issue[1].probe == issue_probe::fma);
  CHECK(of.surface[1].format == number_format::fp8);
  CHECK(of.footprints[1].footprint == 64_MiB);
  CHECK(*of.l2->clock_MHz == 1400);
  CHECK(*of.l2->draw == 300_W);
  CHECK(of.pinned.both_ways->median == 47.3_GBps);
  CHECK(!of.pageable.from_device);
  CHECK(of.kernel_launch->lower_quartile == 2.5_us);
  CHECK(of.all_reduces[1].latency == 30_us);
  CHECK(measured_as(imaginary_device::imaginary, of));
}

TEST_CASE("every recorded device reads back as it was written, and stands in for its data sheet") {
  int recorded = 0;
  for (const auto& entry : std::filesystem::directory_iterator(GPUPLAN_MEASURED_DEVICES)) {
    if (entry.path().extension() != ".json") continue;
    CAPTURE(entry.path().string());
    ++recorded;
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const auto record = io::read_measurement(text);
    REQUIRE(record);
    CHECK(json::parse(to_json(*record)) == json::parse(text));
    CHECK(record->id == entry.path().stem());
    CHECK(!record->driver.empty());
    CHECK(!record->library.empty());
    const auto found = catalog::find_gpu(record->id);
    REQUIRE(found);
    const measured_device measured = record->view();
    const auto device = measured_as(*found, measured);
    REQUIRE(device);
    // Nothing is faster than the data sheet, and little of it is out of reach.
    const auto products = matmul_ceiling(*device, number_format::bf16);
    REQUIRE(products);
    CHECK(products->origin == ceiling_origin::measured);
    const compute_rate sheet = *peak(*found, number_format::bf16);
    CHECK(products->value < sheet);
    CHECK(products->value > 0.6 * sheet);
    const auto memory = memory_ceiling(*device);
    CHECK(memory.origin == ceiling_origin::measured);
    CHECK(memory.value < found->memory_bandwidth);
    CHECK(memory.value > 0.85 * found->memory_bandwidth);
  }
  CHECK(recorded > 0);
}

TEST_CASE("JSON is in base units, with no key for what is absent") {
  const json full_one = json::parse(to_json(full()));
  CHECK(full_one["gpuplan_measured_device"] == 1);
  CHECK(full_one["copy"]["median"] == 1.8e12);
  CHECK(full_one["kernel_launch"]["median"] == 3e-6);
  CHECK(full_one["power_limit"] == 400);
  CHECK(full_one["issue"][0]["probe"] == "mma.sync");
  CHECK(full_one["matmuls"][0]["sum"] == "fp32");
  CHECK(!full_one["copy"].contains("draw"));
  CHECK(!full_one["pageable"].contains("both_ways"));

  const io::measurement_record least{.name = "a", .date = "2026-11-22"};
  CHECK(
      json::parse(to_json(least)) ==
      json{{"gpuplan_measured_device", 1}, {"name", "a"}, {"date", "2026-11-22"}, {"sm_count", 0}});
  CHECK(io::read_measurement(to_json(least)));
}

TEST_CASE("every format and accumulator has a name that is read back") {
  io::measurement_record all{.date = "2026-11-22"};
  for (const number_format format : io::detail::every_format)
    for (const accumulator sum : io::detail::every_accumulator)
      all.surface.push_back({format, sum, {1, 1, 1}, 1_TFLOPS});
  const auto back = io::read_measurement(to_json(all));
  REQUIRE(back);
  REQUIRE(back->surface.size() == 16);
  for (std::size_t i = 0; i < 16; ++i) {
    CHECK(back->surface[i].format == all.surface[i].format);
    CHECK(back->surface[i].sum == all.surface[i].sum);
  }
}

TEST_CASE("what is no measurement is refused with the key at which it is wrong") {
  CHECK(io::read_measurement("").why() == failure(errc::malformed_measurement));
  CHECK(io::read_measurement("[1]").why() == failure(errc::malformed_measurement));
  CHECK(io::read_measurement("{\"a\": ").why() == failure(errc::malformed_measurement));
  CHECK(io::read_measurement("{}").why() == malformed("gpuplan_measured_device"));
  CHECK(flaw([](json& of) { of["gpuplan_measured_device"] = 2; }) ==
        malformed("gpuplan_measured_device"));
  CHECK(flaw([](json& of) { of["speed"] = 2; }) == malformed("speed"));
  CHECK(flaw([](json& of) { of["copy"]["mode"] = 2; }) == malformed("mode"));
  CHECK(flaw([](json& of) { of["copy"].erase("samples"); }) == malformed("samples"));
  CHECK(flaw([](json& of) { of["issue"][0].erase("rate"); }) == malformed("rate"));
  CHECK(flaw([](json& of) { of.erase("sm_count"); }) == malformed("sm_count"));
  CHECK(flaw([](json& of) { of["name"] = 2; }) == malformed("name"));
  CHECK(flaw([](json& of) { of["copy"] = nullptr; }) == malformed("copy"));
  CHECK(flaw([](json& of) { of["copy"]["median"] = "fast"; }) == malformed("median"));
  CHECK(flaw([](json& of) { of["copy"]["samples"] = 2.5; }) == malformed("samples"));
  CHECK(flaw([](json& of) { of["copy"]["clock_MHz"] = 5'000'000'000; }) == malformed("clock_MHz"));
  CHECK(flaw([](json& of) { of["sm_count"] = 18'446'744'073'709'551'484U; }) ==
        malformed("sm_count"));
  CHECK(io::read_measurement(std::string(100'000, '[')).why() == malformed("its nesting"));
  CHECK(flaw([](json& of) { of["error_correction"] = 1; }) == malformed("error_correction"));
  CHECK(flaw([](json& of) { of["matmuls"] = 1; }) == malformed("matmuls"));
  CHECK(flaw([](json& of) { of["matmuls"][0]["format"] = "fp12"; }) == malformed("format"));
  CHECK(flaw([](json& of) { of["matmuls"][0]["shape"]["m"] = "many"; }) == malformed("m"));
  CHECK(flaw([](json& of) { of["issue"][0]["flop_per_clock_per_sm"] = true; }) ==
        malformed("flop_per_clock_per_sm"));
}

TEST_CASE("what is read is a measurement that makes sense, or is refused") {
  CHECK(flaw([](json& of) { of.erase("date"); }).code == errc::undated_measurement);
  CHECK(flaw([](json& of) { of["copy"]["median"] = -1; }) ==
        failure(errc::not_positive).about("copy"));
  CHECK(flaw([](json& of) { of["matmuls"][1] = of["matmuls"][0]; }).code == errc::measured_twice);
  const failure sms = flaw([](json& of) { of["sm_count"] = -132; });
  CHECK(sms.code == errc::out_of_bounds);
  CHECK(sms.subject == std::string_view("sm_count"));
  const failure memory = flaw([](json& of) { of["free_memory"] = 1e15; });
  CHECK(memory.code == errc::out_of_bounds);
  CHECK(memory.subject == std::string_view("free_memory"));
  io::measurement_record undated = full();
  undated.date.clear();
  CHECK_THROWS_AS(static_cast<void>(to_json(undated)), plan_error);
  CHECK_THROWS_AS(static_cast<void>(to_header(undated, "a")), plan_error);
}

// That the compiler reads the same numbers in it: tests/measured_header.
TEST_CASE("a header is named as C++ can") {
  const auto refused_at = [](const std::string& name) {
    try {
      static_cast<void>(to_header(full(), name));
    } catch (const plan_error& error) {
      CHECK(error.why().code == errc::malformed_name);
      return error.why()[fact::position];
    }
    return std::int64_t{-1};
  };
  CHECK(refused_at("h100_2") == -1);
  CHECK(refused_at("a_") == -1);
  for (const char* reserved : {"_A", "_a", "a__b", "class", "co_yield", "std", "gpuplan", "xor_eq"})
    CHECK(refused_at(reserved) == 0);
  CHECK(refused_at("classes") == -1);
  CHECK(refused_at("") == 0);
  CHECK(refused_at("2_h100") == 0);
  CHECK(refused_at("h100-2") == 4);
  CHECK(refused_at("h100\xc3\xa9") == 4);
}

TEST_CASE("a header defines only what was measured") {
  io::measurement_record copied{.name = "a", .date = "2026-11-22"};
  copied.values.copy = reading<bandwidth>{1_GBps, 1_GBps, 1_GBps, 1};
  const std::string text = to_header(copied, "least");
  CHECK(text.find("inline constexpr gpuplan::measured_device least{\n") != std::string::npos);
  CHECK(text.find("least_") == std::string::npos);
  CHECK(text.find("from_value(1e+09)") != std::string::npos);
  CHECK(text.find("triad") == std::string::npos);
}
