#include "sweep_cuda/training.hpp"

#include <gpuplan/cuda/device_query.cuh>
#include <gpuplan/cuda/event_clock.cuh>
#include <gpuplan/cuda/nvml.cuh>
#include <gpuplan/cuda/runtime.cuh>
#include <gpuplan/measure/sweep.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <limits>
#include <memory_resource>
#include <new>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "measure_gpu/devices.hpp"
#include "sweep/loader.hpp"
#include "sweep_cuda/network.cuh"

namespace sweep_cuda {
namespace {

using namespace gpuplan;

// Memory of the host that the device copies from by itself.
class pinned_memory final : public std::pmr::memory_resource {
 private:
  void* do_allocate(std::size_t size, std::size_t) override {  // aligned to pages
    void* made = nullptr;
    const cudaError_t status = cudaHostAlloc(&made, size, cudaHostAllocDefault);
    if (status != cudaSuccess) static_cast<void>(cudaGetLastError());
    if (status == cudaErrorMemoryAllocation) throw std::bad_alloc();
    GPUPLAN_CUDA_CALL(status);
    return made;
  }
  void do_deallocate(void* data, std::size_t, std::size_t) override {
    if (cudaFreeHost(data) != cudaSuccess) static_cast<void>(cudaGetLastError());
  }
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override {
    return dynamic_cast<const pinned_memory*>(&other) != nullptr;
  }
};

std::size_t free_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  GPUPLAN_CUDA_CALL(cudaMemGetInfo(&free, &total));
  return free;
}

bool is_out_of_memory(const std::exception& thrown) {
  const auto* const error = dynamic_cast<const cuda::call_error*>(&thrown);
  if (error == nullptr) return false;
  const cuda::status_text& status = error->status();
  return (std::strcmp(status.library, "CUDA") == 0 && status.code == cudaErrorMemoryAllocation) ||
         (std::strcmp(status.library, "cuBLASLt") == 0 &&
          status.code == CUBLAS_STATUS_ALLOC_FAILED);
}

class trainer {
 public:
  trainer(const sweep_examples::data_set& samples, const training_options& options)
      : samples_(samples),
        options_(options),
        device_(options.device),
        managed_(cuda::nvml(), cuda::query_device(options.device).pci_bus_id),
        layers_(initial_layers(options.widths, options.seed)) {
    const std::size_t free = free_bytes();
    if (options.memory_limit > 0 && options.memory_limit < free)
      taken_away_.emplace(free - options.memory_limit);
    free_before_ = free_bytes();
  }

  measure::sweep_result run(measure::sweep_options asked) {
    asked.set_up = [this](const sweep_setting& setting) { set_up(setting); };
    asked.tear_down = [this](const sweep_setting&) { tear_down(); };
    asked.memory = [this] { return static_cast<double>(free_before_ - free_bytes()); };
    if (managed_.utilisation())
      asked.utilisation = [this] {
        const known<double> now = managed_.utilisation();
        return now ? *now : std::numeric_limits<double>::quiet_NaN();
      };
    asked.is_out_of_memory = is_out_of_memory;
    cuda::event_clock clock(stream_);
    return measure::run_sweep(
        [this](const sweep_setting&, measure::phase_recorder<cuda::event_clock>& recorder) {
          std::visit([&](auto& network) { step(network, recorder); }, network_);
        },
        asked,
        clock);
  }

 private:
  const sweep_examples::data_set& samples_;
  const training_options& options_;
  cuda::device_scope device_;
  cuda::managed_device managed_;
  std::vector<initial_layer> layers_;
  std::optional<cuda::device_buffer<std::byte>> taken_away_{};
  std::size_t free_before_ = 0;
  cuda::stream stream_{};
  pinned_memory pinned_{};
  std::optional<sweep_examples::loader> loader_{};
  std::variant<std::monostate, network<number_format::fp32>, network<number_format::bf16>>
      network_{};

  void set_up(const sweep_setting& setting) {
    if (setting.mixed_precision)
      network_.emplace<network<number_format::bf16>>(layers_, setting.micro_batch, stream_);
    else
      network_.emplace<network<number_format::fp32>>(layers_, setting.micro_batch, stream_);
    loader_.emplace(
        samples_,
        sweep_examples::loader_options{
            .micro_batch = setting.micro_batch, .workers = setting.workers, .seed = options_.seed},
        setting.pinned_memory ? &pinned_ : std::pmr::get_default_resource());
  }
  // The network first: what it copies from is the loader's.
  void tear_down() {
    network_.emplace<std::monostate>();
    loader_.reset();
  }

  template <number_format Format>
  void step(network<Format>& on_gpu, measure::phase_recorder<cuda::event_clock>& recorder) {
    {
      const auto scope = recorder.phase(phase::data);
      const sweep_examples::sample_batch batch = loader_->next();
      on_gpu.load(batch.inputs, batch.labels);
    }
    {
      const auto scope = recorder.phase(phase::forward);
      on_gpu.forward();
    }
    {
      const auto scope = recorder.phase(phase::backward);
      on_gpu.backward();
    }
    const auto scope = recorder.phase(phase::optimizer);
    on_gpu.update();
  }
  void step(std::monostate, measure::phase_recorder<cuda::event_clock>&) {}
};

}  // namespace

trained_on device_of(const training_options& training) {
  measure_gpu_program::require_device(training.device, cuda::device_count());
  const cuda::queried_device found = cuda::query_device(training.device);
  const double free = found.free_memory->value();
  const auto limit = static_cast<double>(training.memory_limit);
  return {.name = found.raw.name, .memory_bytes = limit > 0 && limit < free ? limit : free};
}

measure::sweep_result run_sweep(const sweep_examples::data_set& samples,
                                const training_options& training,
                                measure::sweep_options asked) {
  return trainer(samples, training).run(std::move(asked));
}

}  // namespace sweep_cuda
