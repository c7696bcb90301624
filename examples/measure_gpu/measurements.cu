#include "measure_gpu/measurements.hpp"

#include <gpuplan/catalog/models.hpp>
#include <gpuplan/cuda/device_query.cuh>
#include <gpuplan/cuda/gemm.cuh>
#include <gpuplan/cuda/gemm_surface.cuh>
#include <gpuplan/cuda/launch.cuh>
#include <gpuplan/cuda/memory.cuh>
#include <gpuplan/cuda/peers.cuh>
#include <gpuplan/cuda/probes.cuh>
#include <gpuplan/cuda/readings.cuh>
#include <gpuplan/cuda/session.cuh>
#include <gpuplan/cuda/transfer.cuh>
#include <gpuplan/io/table.hpp>
#include <gpuplan/measure/recognise.hpp>
#include <gpuplan/measure/statistics.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <exception>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "guides/front_end.hpp"

namespace measure_gpu_program {
namespace {

using namespace gpuplan;

// What the device draws while something is measured, from the management library.
class power_meter {
 public:
  explicit power_meter(cuda::managed_device device) : device_(std::move(device)) {}

  void forget() { drawn_W_.clear(); }
  void note(std::string_view what) {
    if (const known<power> now = device_.draw())
      drawn_W_[std::string(what)].push_back(in(*now, 1_W));
  }
  // The median of the later half of what was noted while this was measured: the device was warming
  // up before, and its own average lags by a second.
  [[nodiscard]] known<power> during(const std::string& what) const {
    const auto found = drawn_W_.find(what);
    if (found == drawn_W_.end()) return {};
    std::vector<double> later(
        found->second.begin() + static_cast<std::ptrdiff_t>(found->second.size() / 2),
        found->second.end());
    return power::from_value(measure::sort_into_quartiles(later).median);
  }

 private:
  cuda::managed_device device_;
  std::map<std::string, std::vector<double>> drawn_W_;
};

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[16];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d", &utc)};
}

std::string library_version() {
#ifdef GPUPLAN_CUDA_CUBLASLT
  const std::size_t version = cublasLtGetVersion();
  return "cuBLASLt " + std::to_string(version / 10000) + '.' +
         std::to_string(version % 10000 / 100) + '.' + std::to_string(version % 100);
#else
  return "";
#endif
}

std::vector<std::string> warnings_of(const measure::recognised_device& found,
                                     const cuda::queried_device& device) {
  std::vector<std::string> said;
  if (found.why.code == errc::none && !found.by_name)
    said.push_back(std::string("the catalogue does not know the name; taken for ") +
                   found.spec.name + " by compute capability, SMs and memory");
  for (const measure::disagreement& one : found.disagreements()) {
    const auto number = [&](double value) {
      const int digits = value == std::floor(value) ? 0 : 2;
      return io::decimal(value, digits) + (*one.unit == '\0' ? "" : " ") + one.unit;
    };
    said.push_back(std::string(one.what) + ": " + number(one.catalogue) + " in the catalogue, " +
                   number(one.device) + " here");
  }
  const bytes in_use =
      bytes::from_value(static_cast<double>(device.raw.totalGlobalMem)) - *device.free_memory;
  if (in_use > 1.5_GiB)
    said.push_back(io::decimal(in(in_use, 1_GiB), 1) +
                   " GiB of its memory are in use: is another program running on it?");
  return said;
}

class run_of_parts {
 public:
  run_of_parts(const request& asked, const progress_listener& listener, const surroundings& around)
      : asked_(asked),
        listener_(listener),
        around_(around),
        device_(cuda::query_device(asked.device, management_)),
        meter_(cuda::managed_device(management_, device_.pci_bus_id)) {
    const measure::device_properties properties = device_.properties();
    const measure::recognised_device found = measure::recognise(properties);
    io::measurement_record& record = made_.made.measured;
    record.id = found.spec.id;
    record.slice = found.spec.slice;
    record.name = device_.raw.name;
    record.date = today();
    record.driver = device_.driver;
    record.runtime = device_.runtime;
    record.library = library_version();
    record.values.sm_count = properties.sm_count;
    record.values.memory = properties.memory;
    record.values.free_memory = device_.free_memory;
    record.values.context_memory = device_.context_memory;
    record.values.power_limit = device_.power_limit;
    record.values.error_correction = properties.error_correction;
    made_.made.spec = found.spec;
    made_.made.spec.name = *found.spec.id == '\0' ? "" : found.spec.name;
    made_.made.warnings = warnings_of(found, device_);
  }

  void matmul() {
    for (const number_format format : {number_format::bf16,
                                       number_format::fp16,
                                       number_format::tf32,
                                       number_format::fp8,
                                       number_format::int8,
                                       number_format::fp32,
                                       number_format::fp64}) {
      if (!cuda::why_unsupported({.format = format, .shape = {64, 64, 64}}, capability()).empty())
        continue;
      attempt(text(format), [&](cuda::session& s) {
        const cuda::gemm_of_format found = cuda::measure_fastest_gemm(
            s, format, around_.shapes, {.sampling = sampling(text(format))});
        const cuda::gemm_result& best = found.fastest;
        measured_matmul kept = cuda::measured_matmul_of(best);
        const auto add_draw = [&](known<reading<compute_rate>>& to, const char* state) {
          if (!to) return;
          reading<compute_rate> with = *to;
          with.draw = meter_.during(cuda::detail::name_of(best.matmul) + ", " + state);
          to = with;
        };
        add_draw(kept.sustained, "sustained");
        add_draw(kept.zeros, "zeros");
        add_draw(kept.own_kernel, "own kernel");
        if (kept.sustained || kept.own_kernel) record().matmuls.push_back(kept);
#ifdef GPUPLAN_CUDA_CUBLASLT
        if (!best.why_not.empty()) throw cuda::measurement_error(best.why_not);
#endif
      });
    }
  }

  void surface() {
    surface_of("", around_.grid.empty() ? cuda::shapes_of(cuda::surface_grid{}) : around_.grid);
  }
  void model() {
    if (asked_.model.empty()) return;
    surface_of(asked_.model,
               cuda::shapes_of(cuda::matmuls_of(*catalog::find_model(asked_.model)->shape,
                                                asked_.micro_batch,
                                                asked_.sequence_length)));
  }

  void issue() {
    for (const cuda::instruction which : cuda::all_instructions) {
      const cuda::instruction_facts facts = cuda::facts_of(which);
      if (!cuda::exists_on(facts, capability())) continue;
      attempt(facts.name, [&](cuda::session& s) {
        const auto found = cuda::measure_issue_rate(s, which, {.sampling = sampling(facts.name)});
        if (!found) return;
        keep({.probe = facts.by == cuda::issuer::thread ? issue_probe::fma
                       : facts.by == cuda::issuer::warp ? issue_probe::mma_sync
                                                        : issue_probe::wgmma,
              .format = facts.format,
              .sum = facts.sum,
              .rate = with_draw(reading_of(found->rate, found->timing), facts.name),
              .flop_per_clock_per_sm = found->flop_per_clock});
      });
    }
  }

  void memory() {
    const auto measure = [&](cuda::stream_operation which, known<reading<bandwidth>>& to) {
      attempt(name(which), [&](cuda::session& s) {
        const cuda::bandwidth_reading found = cuda::measure_bandwidth(
            s, which, {.sampling = sampling(name(which)), .array_bytes = around_.array_bytes});
        to = with_draw(reading_of(found.rate, found.timing), name(which));
      });
    };
    measure(cuda::stream_operation::copy, record().values.copy);
    measure(cuda::stream_operation::triad_fp64, record().values.triad);
    measure(cuda::stream_operation::read, record().values.read);
    measure(cuda::stream_operation::write, record().values.write);
  }

  void l2() {
    attempt("", [&](cuda::session& s) {
      const cuda::cache_reading found =
          cuda::measure_cache(s,
                              {.sampling = sampling("L2 cache"),
                               .least_footprint = around_.least_footprint,
                               .least_traffic = around_.cache_traffic});
      for (const measure::footprint_rate& one : found.curve)
        record().footprints.push_back({one.footprint, one.rate});
      if (!found.knee) return;
      record().values.l2_knee = found.knee->footprint;
      // The largest that the cache holds for sure.
      for (std::size_t i = 0; i < found.curve.size(); ++i)
        if (found.curve[i].footprint <= found.knee->footprint / 2)
          record().values.l2 = reading_of(found.curve[i].rate, found.timings[i]);
    });
  }

  void host() {
    using cuda::host_memory;
    using cuda::transfer_direction;
    const auto measure = [&](const char* what,
                             transfer_direction direction,
                             host_memory kind,
                             known<reading<bandwidth>>& to) {
      attempt(what, [&](cuda::session& s) {
        const cuda::transfer_reading found = cuda::measure_transfer(
            s, direction, kind, {.sampling = sampling(what), .bytes = around_.transfer_bytes});
        to = reading_of(found.rate, found.timing);
      });
    };
    measured_host_link& pinned = record().values.pinned;
    measured_host_link& pageable = record().values.pageable;
    measure("to the device, pinned",
            transfer_direction::to_device,
            host_memory::pinned,
            pinned.to_device);
    measure("to the host, pinned",
            transfer_direction::to_host,
            host_memory::pinned,
            pinned.from_device);
    measure("both ways, pinned", transfer_direction::both, host_memory::pinned, pinned.both_ways);
    measure("to the device, pageable",
            transfer_direction::to_device,
            host_memory::pageable,
            pageable.to_device);
    measure("to the host, pageable",
            transfer_direction::to_host,
            host_memory::pageable,
            pageable.from_device);
  }

  void launch() {
    attempt("", [&](cuda::session& s) {
      const cuda::launch_costs found = cuda::measure_launch(s, {.sampling = sampling("launch")});
      record().values.kernel_launch = reading_of(found.round_trip);
      record().values.kernel_enqueue = reading_of(found.enqueue);
      record().values.empty_kernel = reading_of(found.kernel);
      record().values.graph_node = reading_of(found.graph_node);
    });
  }

  // Where there is one device, there is nothing to measure.
  void peers() {
    const int count = cuda::device_count();
    if (count < 2) return;
    const int other = asked_.device == 0 ? 1 : 0;
    attempt("copy", [&](cuda::session& s) {
      const cuda::peer_reading found = cuda::measure_peer(
          s, other, {.sampling = sampling("copy"), .bytes = around_.transfer_bytes});
      record().values.peer_copy = reading_of(found.one_way, found.one_way_timing);
    });
#ifdef GPUPLAN_CUDA_NCCL
    attempt("all-reduce", [&](cuda::session& s) {
      std::vector<int> devices{asked_.device};
      for (int one = 0; one < count; ++one)
        if (one != asked_.device) devices.push_back(one);
      const cuda::all_reduce_reading found = cuda::measure_all_reduce(
          s, devices, {.sampling = sampling("all-reduce"), .most_bytes = around_.all_reduce_bytes});
      if (!found.line) throw cuda::measurement_error("its times are on no line");
      record().all_reduces.push_back({found.devices, found.line->latency, found.line->rate});
    });
#endif
  }

  [[nodiscard]] outcome finish() && { return std::move(made_); }

  void begin(const char* part) { part_ = part; }

 private:
  const request& asked_;
  const progress_listener& listener_;
  const surroundings& around_;
  cuda::nvml management_{};
  cuda::queried_device device_;
  power_meter meter_;
  outcome made_{};
  std::string part_{};

  [[nodiscard]] io::measurement_record& record() { return made_.made.measured; }
  [[nodiscard]] int capability() const { return 10 * device_.raw.major + device_.raw.minor; }

  [[nodiscard]] cuda::sampling_options sampling(std::string_view what) const {
    cuda::sampling_options how{.what = what};
    if (!asked_.quick) return how;
    how.warm_up = {.window_s = 0.25, .windows = 2, .steady_within = 0.02, .cap_s = 3};
    how.stop = {.spread = 0.02, .window = 16, .least_samples = 16, .least_s = 0.2, .cap_s = 2};
    how.rest_s = 1;
    return how;
  }
  template <any_quantity Quantity>
  [[nodiscard]] reading<Quantity> with_draw(reading<Quantity> of, const std::string& what) const {
    of.draw = meter_.during(what);
    return of;
  }

  // Runs one measurement in a session of its own; where it fails, the rest goes on.
  template <class Measure>
  void attempt(const std::string& what, Measure measure) {
    meter_.forget();
    listener_(part_, what, 0);
    try {
      cuda::session s({.device = asked_.device,
                       .progress =
                           [&](std::string_view now, double share) {
                             meter_.note(now);
                             listener_(part_, now, share);
                           },
                       .now_s = around_.now_s,
                       .sleep_s = around_.sleep_s});
      measure(s);
    } catch (const std::exception& error) {
      made_.failed.push_back(part_ + (what.empty() ? "" : ", " + what) + ": " + error.what());
    }
  }

  // Those of them that are not measured yet.
  void surface_of(const std::string& what, std::vector<matmul_shape> shapes) {
    std::erase_if(shapes, [&](const matmul_shape& shape) {
      return std::ranges::any_of(record().surface,
                                 [&](const measured_point& one) { return one.shape == shape; });
    });
    attempt(what, [&](cuda::session& s) {
      cuda::surface_options options;
      if (asked_.quick) options.heat = sampling("").warm_up;
      const cuda::gemm_surface found =
          cuda::measure_gemm_surface(s, number_format::bf16, shapes, options);
      record().surface.insert(record().surface.end(), found.points.begin(), found.points.end());
      for (const cuda::missing_point& one : found.missing)
        made_.failed.push_back(part_ + ", " +
                               cuda::detail::name_of({.format = found.format, .shape = one.shape}) +
                               ": " + one.why);
    });
  }

  // A format may have instructions of several sizes: the fastest counts.
  void keep(const measured_issue& one) {
    for (measured_issue& other : record().issue)
      if (other.probe == one.probe && other.format == one.format && other.sum == one.sum) {
        if (one.rate.median > other.rate.median) other = one;
        return;
      }
    record().issue.push_back(one);
  }
};

struct measured_part {
  part what;
  void (run_of_parts::*measure)();
};

constexpr measured_part all_parts[] = {
    {{"issue", "what the SMs issue of each instruction", true}, &run_of_parts::issue},
    {{"matmul", "matrix products by format", true}, &run_of_parts::matmul},
    {{"surface", "bf16 matrix products over a grid of shapes (minutes)", false},
     &run_of_parts::surface},
    {{"model", "those of the layers of --model, where one is given", true}, &run_of_parts::model},
    {{"memory", "copy, triad, read and write", true}, &run_of_parts::memory},
    {{"l2", "reading what the L2 cache holds, and where it ends", true}, &run_of_parts::l2},
    {{"host", "copies from and to the host", true}, &run_of_parts::host},
    {{"peers", "copies to another device, and all-reduce of all of them", true},
     &run_of_parts::peers},
    {{"launch", "what an empty kernel costs", true}, &run_of_parts::launch},
};

bool is_wanted(const request& asked, const part& one) {
  if (asked.only.empty()) return one.usual;
  return std::find(asked.only.begin(), asked.only.end(), one.name) != asked.only.end();
}

}  // namespace

const std::vector<part>& parts() {
  static const std::vector<part> all = [] {
    std::vector<part> made;
    for (const measured_part& one : all_parts) made.push_back(one.what);
    return made;
  }();
  return all;
}

outcome measure(const request& asked,
                const progress_listener& listener,
                const surroundings& around) {
  require_device(asked.device, cuda::device_count());
  if (!asked.model.empty()) {
    const auto model = catalog::find_model(asked.model);
    if (!model)
      throw guides::bad_request("--model " + asked.model + ": " +
                                failure_text(model.why()).c_str());
    if (!model->has_shape || model->shape->kind == model_kind::vision)
      throw guides::bad_request("--model " + asked.model + ": take a model of texts alone");
  }
  run_of_parts run(asked, listener, around);
  for (const measured_part& one : all_parts) {
    if (!is_wanted(asked, one.what)) continue;
    run.begin(one.what.name);
    (run.*one.measure)();
  }
  return std::move(run).finish();
}

}  // namespace measure_gpu_program
