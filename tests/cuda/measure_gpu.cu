// Program measure_gpu from its command line to the files that it writes, on a stand-in for CUDA: no
// number here is of a device, and every output says so.

#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/cuda/memory.cuh>
#include <gpuplan/cuda/probes.cuh>
#include <gpuplan/io/measured_device.hpp>

#include <nlohmann/json.hpp>
#include <stand_in/nccl.hpp>
#include <stand_in/stand_in.hpp>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "check.hpp"
#include "json_answer.hpp"
#include "measure_gpu/command_line.hpp"
#include "played_matmuls.hpp"
#include "program_output.hpp"
#include "stream_rules.hpp"
#include "temporary_file.hpp"

namespace {

using namespace gpuplan;
using nlohmann::json;

constexpr const char* name = "NVIDIA H100 80GB HBM3";
constexpr double memory_rate = 1e6;  // so slow that few launches pass the time

measure_gpu_program::surroundings small_and_patient() {
  return {.now_s = stand_in::now_s,
          .sleep_s = stand_in::sleep_s,
          .shapes = {{32, 32, 64}, {64, 64, 64}},
          .grid = {{16, 16, 16}, {32, 32, 32}},
          .array_bytes = 32 << 10,
          .least_footprint = 1024,
          .cache_traffic = 1e5,
          .transfer_bytes = 64 << 10,
          .all_reduce_bytes = 8 << 10};
}

int run(int argc, char** argv) { return measure_gpu_program::run(argc, argv, small_and_patient()); }

outcome ran(std::vector<std::string> arguments) {
  arguments.emplace_back("--quiet");
  const outcome o = output_of(run, arguments, "measure_gpu");
  CHECK(stand_in::live().empty());
  CHECK(stand_in::current_device() == 0);
  return o;
}

// What a probe leaves, at 1000 FLOP per clock and SM and 1980 MHz.
template <cuda::instruction Which>
void play_probe() {
  using probe = cuda::detail::probe<Which>;
  using value = typename probe::value;
  constexpr bool fma = cuda::facts_of(Which).by == cuda::issuer::thread;
  const auto cycles = [](const stand_in::launch& l) {
    return static_cast<double>(l.argument<long long>(0) * probe::flop_per_pair) / 1000;
  };
  stand_in::current().kernels.push_back(
      {.name =
           "_probe<(gpuplan::cuda::instruction)" + std::to_string(static_cast<int>(Which)) + ">",
       .seconds = [=](const stand_in::launch& l) { return cycles(l) / 1980e6; },
       .body =
           [=, last = std::pair<long long, int>{-1, 0}](const stand_in::launch& l) mutable {
             auto* const clocks = l.argument<cuda::block_clock*>(fma ? 6 : 3);
             for (unsigned block = 0; block < l.grid.x; ++block)
               clocks[block] = {0, static_cast<long long>(cycles(l)), block};
             const std::pair now(l.argument<long long>(0), l.argument<int>(1));
             if (now == last) return;  // it is there already
             last = now;
             auto* const values = l.argument<value*>(fma ? 5 : 2);
             constexpr int count = probe::threads * probe::values;
             for (int i = 0; i < count; ++i)
               values[i] = probe::expected(
                   i / probe::values, i % probe::values, now.first, now.second != 0);
             for (unsigned block = 1; block < l.grid.x; ++block)
               std::copy(values, values + count, values + block * count);
           }});
}
template <std::size_t... Which>
void play_probes(std::index_sequence<Which...>) {
  (play_probe<cuda::all_instructions[Which]>(), ...);
}

template <class Body>
void play_stream(const char* of, double bytes_per_place) {
  stream_rules::add<Body>(of, [=](const stand_in::launch&, double places) {
    return places * bytes_per_place / memory_rate;
  });
}

void play_cache() {
  const auto bytes_of = [](const stand_in::launch& l) {
    return 16.0 * l.argument<unsigned>(1) * l.grid.x;
  };
  stand_in::current().kernels.push_back(
      {.name = "cache_kernel",
       .seconds =
           [=](const stand_in::launch& l) {
             const double rate = bytes_of(l) <= 16384 ? 40e6 : 10e6;
             return bytes_of(l) * l.argument<int>(2) / rate;
           },
       .body =
           [=](const stand_in::launch& l) {
             // The blocks together read all of it in each round.
             const unsigned count = l.argument<unsigned>(1) * l.grid.x;
             auto body = cuda::cache_body::of(l.argument<const uint4*>(0), count, 0, 1);
             cuda::run_share(body, {0, 1, count});
             *l.argument<std::uint32_t*>(3) +=
                 body.sum * static_cast<std::uint32_t>(l.argument<int>(2));
           }});
}

// A device with the counts of an H100, most of whose memory is in use.
void stand_in_for_h100(int devices = 1) {
  played::reset<number_format::bf16,
                number_format::fp16,
                number_format::tf32,
                number_format::fp8,
                number_format::int8,
                number_format::fp32,
                number_format::fp64>();
  played::play_own_kernel<__nv_bfloat16>(80e-3);
  played::play_own_kernel<__half>(80e-3);
  play_probes(std::make_index_sequence<std::size(cuda::all_instructions)>());
  stream_rules::add_checks();
  play_stream<cuda::copy_body>("copy_body", 32);
  play_stream<cuda::triad_body<double>>("triad_body<double>", 48);
  play_stream<cuda::read_body>("read_body", 16);
  play_stream<cuda::write_body>("write_body", 16);
  play_cache();
  stand_in::script& script = stand_in::current();
  stand_in::device like = stand_in::plain_device();
  std::snprintf(like.properties.name, sizeof like.properties.name, "%s", name);
  like.properties.multiProcessorCount = 132;
  like.properties.totalGlobalMem = 85'017'755'648;
  like.properties.l2CacheSize = 16 << 10;
  like.context_bytes = like.properties.totalGlobalMem - (std::size_t{1} << 30);
  script.devices.assign(static_cast<std::size_t>(devices), like);
  script.touched_bytes = 64 << 20;  // of a copy: all that 132 SMs leave
  script.pinned_bytes_per_s = 50e6;
  script.pageable_bytes_per_s = 20e6;
  script.peer_bytes_per_s = 4e6;
  for (int device = 0; device < devices; ++device)
    for (int peer = 0; peer < devices; ++peer)
      if (peer != device) script.devices[static_cast<std::size_t>(device)].peers.push_back(peer);
}

void call_it(const char* other) {
  auto& properties = stand_in::current().devices[0].properties;
  std::snprintf(properties.name, sizeof properties.name, "%s", other);
}

// The row of a measurement; null where there is none.
json row_of(const json& rows, const std::string& what) {
  for (const json& row : rows)
    if (row["measured"] == what) return row;
  return nullptr;
}

double reached(const json& rows, const std::string& what) {
  const json row = row_of(rows, what);
  return row.is_null() ? -1 : row["reached"].get<double>();
}

// Within 1 %: the stand-in counts clocks in whole cycles.
doctest::Approx nearly(double value) { return doctest::Approx(value).epsilon(0.01); }

}  // namespace

TEST_CASE("every part is measured, printed and written") {
  stand_in_for_h100();
  const temporary_file as_json("");
  const temporary_file as_header("");
  const outcome o = ran({"--quick",
                         "--format",
                         "json",
                         "--json",
                         as_json.name(),
                         "--header",
                         as_header.name(),
                         "--name",
                         "nothing_real"});

  CHECK(o.err == "");
  CHECK(o.status == 0);
  const json rows = json::parse(o.out, nullptr, false);
  REQUIRE(rows.is_array());
  for (const json& row : rows) {
    CHECK(row["device"] == name);
    CHECK(std::regex_match(row["date"].get<std::string>(), std::regex("20\\d\\d-\\d\\d-\\d\\d")));
  }

  // 132 SMs x 1000 FLOP x 1980 MHz.
  CHECK(reached(rows, "mma.sync bf16") == nearly(261.36));
  CHECK(reached(rows, "wgmma fp8") == nearly(261.36));
  CHECK(reached(rows, "fma fp32") == nearly(261.36));
  CHECK(row_of(rows, "mma.sync bf16")["note"] == "1000 FLOP per clock and SM");
  CHECK(row_of(rows, "mma.sync bf16")["data_sheet"] == 989.4);
  CHECK(row_of(rows, "mma.sync bf16")["percent"].get<double>() == nearly(26.4));
  CHECK(row_of(rows, "fma fp64")["data_sheet"] == 34);
  CHECK(row_of(rows, "mma.sync fp64")["data_sheet"] == 67);
  // The larger shape by the third algorithm, in 40 ms.
  for (const char* format : {"bf16", "fp16", "tf32", "fp8", "int8", "fp32", "fp64"})
    for (const char* state : {"sustained", "burst", "zeros"})
      CHECK(reached(rows, std::string("matmul ") + format + ", " + state) ==
            nearly(2.0 * 64 * 64 * 64 / 40e-3 / 1e12));
  CHECK(reached(rows, "matmul bf16, own kernel") == nearly(2.0 * 64 * 64 * 64 / 80e-3 / 1e12));
  CHECK(row_of(rows, "matmul bf16, sustained")["note"] == "64 x 64 x 64");
  CHECK(row_of(rows, "matmul bf16, sustained")["clock_MHz"] == 1980);
  for (const char* what : {"memory copy", "memory triad", "memory read", "memory write"}) {
    CHECK(reached(rows, what) == nearly(0.001));
    CHECK(row_of(rows, what)["data_sheet"] == 3350);
  }
  CHECK(reached(rows, "L2 cache read") == nearly(0.04));
  CHECK(reached(rows, "host to device, pinned") == nearly(0.05));
  CHECK(reached(rows, "device to host, pinned") == nearly(0.05));
  CHECK(reached(rows, "both ways, pinned") == nearly(0.1));
  CHECK(reached(rows, "host to device, pageable") == nearly(0.02));
  CHECK(reached(rows, "device to host, pageable") == nearly(0.02));
  CHECK(reached(rows, "empty kernel, of the device") > 0);
  CHECK(reached(rows, "empty kernel in a graph") > 0);
  CHECK(row_of(rows, "copy to a peer").is_null());
  CHECK(row_of(rows, "matmul bf16").is_null());  // the surface takes minutes
  // Power and contexts are NVML's to know, which is not there.
  CHECK(row_of(rows, "memory copy")["power_W"].is_null());

  const auto record = io::read_measurement(as_json.text());
  REQUIRE(record);
  CHECK(record->name == name);
  CHECK(record->id == "h100_sxm5_80gb");
  CHECK(record->driver == "CUDA 13.0");
  CHECK(record->values.sm_count == 132);
  CHECK(*record->values.memory == 85'017'755'648_B);
  CHECK(*record->values.free_memory == 1_GiB);
  CHECK(record->footprints.size() == 9);
  const measured_device measured = record->view();
  const auto stands_in = measured_as(catalog::h100_sxm5_80gb, measured);
  REQUIRE(stands_in);
  CHECK(memory_ceiling(*stands_in).origin == ceiling_origin::measured);
  CHECK(in(memory_ceiling(*stands_in).value, 1_MBps) == nearly(1));
  CHECK(has(as_header.text(), "inline constexpr gpuplan::measured_device nothing_real{"));
  CHECK(has(as_header.text(), "NVIDIA H100 80GB HBM3"));
  CHECK(as_header.text() == to_header(*record, "nothing_real"));
}

TEST_CASE("text and Markdown have the device, its warnings and a table") {
  stand_in_for_h100();
  const outcome text = ran({"--only", "host", "--quick"});
  CHECK(text.status == 0);
  CHECK(text.out.find("NVIDIA H100 80GB HBM3, measured 20") == 0);
  CHECK(has(text.out, "132 SMs, 79.18 GiB of which 1.00 GiB are free"));
  CHECK(has(text.out, "Data sheet: H100 SXM5 80 GB, dense peaks."));
  CHECK(has(text.out, "78.2 GiB of its memory are in use"));
  CHECK(has(text.out, "host to device, pinned"));
  CHECK(has(text.out, "63.0"));
  CHECK(!has(text.out, "memory copy"));

  stand_in_for_h100();
  const outcome markdown = ran({"--only", "launch", "--quick", "--format", "markdown"});
  CHECK(has(markdown.out, "NVIDIA H100 80GB HBM3, measured 20"));
  CHECK(has(markdown.out, "| empty kernel in a graph"));
  CHECK(has(markdown.out, "Warning: "));
  stand_in_for_h100();
  const outcome csv = ran({"--only", "launch", "--quick", "--format", "csv"});
  CHECK(csv.out.find("device,date,measured,unit,reached,") == 0);
  CHECK(has(csv.out, "\r\nNVIDIA H100 80GB HBM3,20"));
}

TEST_CASE("what contradicts the catalogue is said") {
  stand_in_for_h100();
  stand_in::current().devices[0].attributes[cudaDevAttrMemoryClockRate] = 2'000'000;
  const outcome o = ran({"--only", "launch", "--quick"});
  CHECK(has(o.out, "memory bandwidth: 3350 GB/s in the catalogue, 2560 GB/s here"));

  stand_in_for_h100();
  call_it("a device of another name");
  stand_in::current().devices[0].properties.multiProcessorCount = 114;
  CHECK(has(ran({"--only", "host", "--quick"}).out,
            "taken for H100 PCIe 80 GB by compute capability"));

  // An H800 is like it.
  stand_in_for_h100();
  call_it("a device of another name");
  CHECK(has(ran({"--only", "host", "--quick"}).out, "Not in the catalogue"));

  stand_in_for_h100();
  call_it("a device of another name");
  stand_in::current().devices[0].properties.multiProcessorCount = 100;
  const outcome unknown = ran({"--only", "host", "--quick"});
  CHECK(unknown.status == 0);
  CHECK(has(unknown.out, "Not in the catalogue: no data sheet to compare with."));
}

TEST_CASE("a measurement that fails is reported, and the rest is measured") {
  stand_in_for_h100();
  stand_in::fail("cudaHostAlloc", 1, cudaErrorMemoryAllocation);
  const outcome o = ran({"--only", "host", "--only", "launch", "--quick", "--format", "json"});
  CHECK(o.status == 1);
  CHECK(o.err.find("measure_gpu: host, to the device, pinned: ") == 0);
  CHECK(has(o.err, "cudaErrorMemoryAllocation"));
  const json rows = json::parse(o.out, nullptr, false);
  CHECK(row_of(rows, "host to device, pinned").is_null());
  CHECK(!row_of(rows, "device to host, pinned").is_null());
  CHECK(!row_of(rows, "empty kernel in a graph").is_null());

  // A wrong product is no rate, and the next format is measured.
  stand_in_for_h100();
  stand_in::current_matmul().body = [](const stand_in::matmul& m) {
    if (m.a.type != CUDA_R_16BF) played::multiply(m);
  };
  const outcome wrong = ran({"--only", "matmul", "--quick", "--format", "json"});
  CHECK(wrong.status == 1);
  CHECK(wrong.err.find("measure_gpu: matmul, bf16: ") == 0);
  CHECK(has(wrong.err, "the matmul is wrong"));
  const json products = json::parse(wrong.out, nullptr, false);
  CHECK(row_of(products, "matmul bf16, sustained").is_null());
  CHECK(!row_of(products, "matmul fp16, sustained").is_null());

  stand_in_for_h100();
  stand_in::fail_always("cudaStreamCreateWithFlags", cudaErrorLaunchFailure);
  const outcome broken = ran({"--only", "launch", "--only", "l2", "--quick", "--format", "json"});
  CHECK(broken.status == 1);
  CHECK(json::parse(broken.out, nullptr, false).empty());
  CHECK(has(broken.err, "measure_gpu: launch: "));
  CHECK(has(broken.err, "measure_gpu: l2: "));
}

TEST_CASE("shapes of a grid and of a model are asked for") {
  stand_in_for_h100();
  const outcome o = ran({"--only", "surface", "--quick", "--format", "json"});
  CHECK(o.err.empty());
  const json rows = json::parse(o.out, nullptr, false);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0]["measured"] == "matmul bf16");
  CHECK(rows[0]["note"] == "16 x 16 x 16");
  CHECK(rows[1]["reached"].get<double>() == nearly(2.0 * 32 * 32 * 32 / 40e-3 / 1e12));

  // A model's layers would take the stand-in long: there is no room for them.
  stand_in_for_h100();
  stand_in::fail_always("cudaMalloc", cudaErrorMemoryAllocation);
  const outcome model =
      ran({"--only", "model", "--model", "gpt2", "--sequence-length", "8", "--quick"});
  CHECK(model.status == 1);
  CHECK(model.err.find("measure_gpu: model, bf16 8 x 2304 x 768 forward: ") == 0);
  CHECK(std::count(model.err.begin(), model.err.end(), '\n') == 12);

  CHECK(ran({"--model", "gpt-7-tiny"}).status == 2);
  CHECK(ran({"--model", "vit-base-patch16-224"}).status == 2);
}

TEST_CASE("several devices exchange data") {
  stand_in_for_h100(2);
#ifdef GPUPLAN_CUDA_NCCL
  stand_in::current_nccl().all_reduce_s = [](std::size_t bytes, int) {
    return 20e-6 + static_cast<double>(bytes) / 1e9;
  };
#endif
  const outcome o = ran({"--only", "peers", "--device", "1", "--quick", "--format", "json"});
  CHECK(o.err.empty());
  CHECK(o.status == 0);
  const json rows = json::parse(o.out, nullptr, false);
  CHECK(reached(rows, "copy to a peer") == nearly(0.004));
  CHECK(row_of(rows, "copy to a peer")["data_sheet"] == 450);
#ifdef GPUPLAN_CUDA_NCCL
  CHECK(reached(rows, "all-reduce of 2") == nearly(1));
#endif
}

TEST_CASE("power, context and link are the management library's to say") {
  stand_in_for_h100();
  setenv("STAND_IN_NVML", "85520809984 85000000000 500000 321000 4 16", 1);
  const temporary_file written("");
  const outcome o =
      ran({"--only", "memory", "--quick", "--format", "json", "--json", written.name()});
  const outcome text = [] {
    stand_in_for_h100();
    return ran({"--only", "launch", "--quick"});
  }();
  unsetenv("STAND_IN_NVML");
  CHECK(o.status == 0);
  const json rows = json::parse(o.out, nullptr, false);
  REQUIRE(!row_of(rows, "memory copy").is_null());
  CHECK(row_of(rows, "memory copy")["power_W"] == 321);
  const auto record = io::read_measurement(written.text());
  REQUIRE(record);
  CHECK(*record->values.context_memory == 512_MiB);
  CHECK(*record->values.power_limit == 500_W);
  CHECK(*record->values.copy->draw == 321_W);
  CHECK(has(text.out, "power limit: 700 W in the catalogue, 500 W here"));
  CHECK(has(text.out, "PCIe generation: 5 in the catalogue, 4 here"));
  CHECK(has(text.out, "context 512 MiB"));
}

TEST_CASE("without a device the program says so and exits with 3") {
  stand_in::reset();
  stand_in::current().devices.clear();
  const outcome o = ran({});
  CHECK(o.status == 3);
  CHECK(o.out.empty());
  CHECK(o.err ==
        "measure_gpu: there is no device to measure: CUDA finds no GPU, or no driver for one\n");
  stand_in::fail("cudaGetDeviceCount", 1, cudaErrorInsufficientDriver);
  CHECK(ran({}).status == 3);
}

TEST_CASE("errors of the command line exit with 2, others with 1") {
  stand_in_for_h100();
  const outcome far = ran({"--device", "3"});
  CHECK(far.status == 2);
  CHECK(far.err == "measure_gpu: --device 3: there is 1 device, counted from 0\n");
  CHECK(ran({"--only", "everything"}).status == 2);
  CHECK(ran({"--name", "2x"}).status == 2);
  CHECK(ran({"--micro-batch", "0"}).status == 2);

  stand_in::fail("cudaGetDeviceProperties", 1, cudaErrorLaunchFailure);
  const outcome mute = ran({});
  CHECK(mute.status == 1);
  CHECK(mute.out.empty());
  CHECK(has(mute.err, "cudaGetDeviceProperties"));

  const outcome unwritten = ran({"--only", "launch", "--quick", "--json", "/nowhere/gpu.json"});
  CHECK(unwritten.status == 1);
  CHECK(has(unwritten.out, "empty kernel in a graph"));
  CHECK(has(unwritten.err, "measure_gpu: --json: cannot write /nowhere/gpu.json: No such file"));
}

TEST_CASE("help names the parts and the exit status, and needs no device") {
  stand_in::reset();
  stand_in::current().devices.clear();
  const outcome o = ran({"--help"});
  CHECK(o.status == 0);
  for (const measure_gpu_program::part& one : measure_gpu_program::parts())
    CHECK(has(o.out, std::string("\n  ") + one.name + " "));
  CHECK(has(o.out, "3 where there is no device"));
}

TEST_CASE("how far it is shows in lines") {
  stand_in_for_h100();
  const outcome o = output_of(run, {"--only", "host", "--quick"}, "measure_gpu");
  CHECK(o.err.find("host: to the device, pinned\n") == 0);
  CHECK(has(o.err, "host: both ways, pinned\n"));
}
