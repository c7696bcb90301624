#pragma once

// The rate of matrix products that training gets: by cuBLASLt, where the macro
// GPUPLAN_CUDA_CUBLASLT is defined, with the fastest of the algorithms that it proposes; and by the
// kernel of own_gemm.cuh, a lower bound. Every product that is timed is checked as well.

#ifdef GPUPLAN_CUDA_CUBLASLT
#include <gpuplan/cuda/cublaslt.cuh>
#endif
#include <gpuplan/cuda/matmul.cuh>
#include <gpuplan/cuda/matmul_check.cuh>
#include <gpuplan/cuda/own_gemm.cuh>
#include <gpuplan/cuda/random_data.cuh>
#include <gpuplan/cuda/readings.cuh>
#include <gpuplan/cuda/runtime.cuh>
#include <gpuplan/cuda/sampling.cuh>
#include <gpuplan/cuda/session.cuh>
#include <gpuplan/measured_device.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/units.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuplan::cuda {

/// What to measure of a product, and how. Operands are of normal numbers, but where zeros are
/// asked.
struct gemm_options {
  sampling_options sampling{};  // of each reading; its name and its state are filled in
  bool burst = true;
  bool zeros =
      true;  // which take less power, so that the clock stays higher: no ceiling of training
  bool own_kernel = true;
  int proposals = 32;       // asked of cuBLASLt
  int timed_proposals = 8;  // of these, the first
  /// Each proposal runs for so long before it is timed, and while it is, on a hot device: what is
  /// the fastest in a rested device's first milliseconds may take more power, and then be the
  /// slower under load. 0: a few milliseconds each, on the device as it is.
  double choice_s = 0.1;
  bool fast_sums = false;  // of fp8: without promoting sums to fp32 on the way
};

/// One reading of a product's rate.
struct gemm_reading {
  compute_rate rate{};  // operations over the median time
  sampled timing{};
};

/// What was measured of one product. Where a reading is missing that was asked for, the texts say
/// why; they are empty otherwise.
struct gemm_result {
  matmul matmul{};
  std::optional<gemm_reading> sustained{};
  std::optional<gemm_reading> burst{};
  std::optional<gemm_reading> zeros{};  // sustained
  std::optional<gemm_reading> own_kernel{};
  std::string why_not{};            // of cuBLASLt
  std::string why_no_own_kernel{};  // "" where it was not asked for
  int proposals = 0;                // of cuBLASLt that ran
  /// The time of the chosen algorithm over that of cuBLASLt's first proposal, which frameworks take
  /// unless they are told to try: at most 1.
  double gain_of_choice = 1;
  matmul_errors errors{};  // of cuBLASLt's matmul of normal numbers, over what is allowed
};

/// Why this product cannot be measured on a device of this compute capability (89 for 8.9), before
/// anything is tried; empty where it can.
[[nodiscard]] inline std::string why_unsupported(const matmul& matmul, int compute_capability) {
  const auto needs = [&](int least) {
    return compute_capability >= least
               ? std::string()
               : std::string(text(matmul.format)) + " needs compute capability " +
                     std::to_string(least / 10) + '.' + std::to_string(least % 10);
  };
  const auto divisible = [&](std::int64_t by) {
    return matmul.shape.n % by == 0 && matmul.shape.k % by == 0
               ? std::string()
               : std::string(text(matmul.format)) + " needs n and k that are multiples of " +
                     std::to_string(by);
  };
  switch (matmul.format) {
    case number_format::fp4:
      return "fp4 has scales for blocks, which are not measured";
    case number_format::fp8: {
      const std::string why = needs(89);
      return why.empty() ? divisible(16) : why;
    }
    case number_format::bf16:
    case number_format::tf32:
      return needs(80);
    case number_format::int8:
      return divisible(4);
    case number_format::fp16:
    case number_format::fp32:
    case number_format::fp64:
      break;
  }
  return "";
}

/// Why the own kernel cannot make this product; empty where it can.
[[nodiscard]] inline std::string why_no_own_kernel(const matmul& matmul, int compute_capability) {
  if (matmul.format != number_format::bf16 && matmul.format != number_format::fp16)
    return "the own kernel is of bf16 and fp16";
  if (matmul.pass != matmul_pass::forward) return "the own kernel is of the forward pass";
  if (matmul.shape.k % own_gemm::chunk != 0) return "the own kernel needs k in multiples of 8";
  if (!own_gemm::runs_on(compute_capability)) return "the own kernel needs compute capability 8.0";
  return "";
}

namespace detail {

/// "bf16 8192 x 8192 x 4096 forward".
inline std::string name_of(const matmul& matmul) {
  const auto [m, n, k] = matmul.shape;
  return std::string(text(matmul.format)) + ' ' + std::to_string(m) + " x " + std::to_string(n) +
         " x " + std::to_string(k) + ' ' + name(matmul.pass);
}

// Whether an error is of this product alone: there is no room for it, or cuBLASLt refuses it. Any
// other says that the device is not usable.
inline bool is_refusal(const call_error& error) {
  return std::string_view(error.status().library) == "cuBLASLt" ||
         (std::string_view(error.status().library) == "CUDA" &&
          error.status().code == cudaErrorMemoryAllocation);
}

// What `measure` cannot measure is told, not thrown.
template <class Measure>
std::string reason_where_it_fails(Measure measure) {
  try {
    measure();
  } catch (const call_error& error) {
    if (!is_refusal(error)) throw;
    return error.what();
  } catch (const measurement_error& error) {
    return error.what();
  }
  return "";
}

// The seconds of one launch, for a choice: a few milliseconds of launches behind a warm one.
inline double seconds_of_one(session& s, const work& launch) {
  const one_launch one = time_one(s, launch);
  const std::int64_t count = launches_lasting(5e-3, one.device_s);
  const event start;
  const event stop;
  const waits_at_end waits(s.stream());
  // Else small products would be told apart by what the host takes to enqueue them.
  hold(s.stream(), one.enqueue_s * static_cast<double>(count));
  start.record(s.stream());
  launch_times(launch, count, s.stream());
  stop.record(s.stream());
  s.stream().synchronize();
  return seconds_between(start, stop) / static_cast<double>(count);
}

// The same of `count` launches behind as many others, for a choice on a hot device whose clock has
// to settle.
inline double seconds_of_one_settled(session& s, const work& launch, std::int64_t count) {
  const event start;
  const event stop;
  const waits_at_end waits(s.stream());
  launch_times(launch, count, s.stream());
  start.record(s.stream());
  launch_times(launch, count, s.stream());
  stop.record(s.stream());
  s.stream().synchronize();
  return seconds_between(start, stop) / static_cast<double>(count);
}

// Operands and result of one product on the device.
template <number_format Format>
class matmul_data {
 public:
  explicit matmul_data(const matmul_shape& shape)
      : a_(size(shape.m, shape.k)),
        b_(size(shape.k, shape.n)),
        c_(size(shape.m, shape.n)),
        checker_(shape) {}

  [[nodiscard]] const stored_t<Format>* a() const { return a_.data(); }
  [[nodiscard]] const stored_t<Format>* b() const { return b_.data(); }
  [[nodiscard]] result_t<Format>* c() const { return c_.data(); }

  void fill_with_normal_numbers(cudaStream_t on) {
    fill_normal<Format>(a_.data(), static_cast<std::int64_t>(a_.size()), 1, on);
    fill_normal<Format>(b_.data(), static_cast<std::int64_t>(b_.size()), 2, on);
  }
  void fill_with_zeros(cudaStream_t on) {
    GPUPLAN_CUDA_CALL(cudaMemsetAsync(a_.data(), 0, a_.bytes(), on));
    GPUPLAN_CUDA_CALL(cudaMemsetAsync(b_.data(), 0, b_.bytes(), on));
  }
  // Runs a product once and checks what it leaves. Throws measurement_error where that is wrong.
  matmul_errors check(session& s, const matmul& matmul, const work& launch) {
    // No number in all floating-point formats, and -1: neither is the product.
    GPUPLAN_CUDA_CALL(cudaMemsetAsync(c_.data(), 0xFF, c_.bytes(), s.stream()));
    launch(s.stream());
    const matmul_errors errors = checker_.check<Format>(matmul, a(), b(), c_.data(), 3, s.stream());
    if (!errors.are_within_bounds())
      throw measurement_error(
          name_of(matmul) + ": the matmul is wrong: the largest error of an element is " +
          std::to_string(errors.elements) + " of what rounding explains, of a row's sum " +
          std::to_string(errors.rows));
    return errors;
  }

 private:
  device_buffer<stored_t<Format>> a_;
  device_buffer<stored_t<Format>> b_;
  device_buffer<result_t<Format>> c_;
  matmul_checker checker_;

  static std::size_t size(std::int64_t rows, std::int64_t columns) {
    return checked_bytes(static_cast<std::size_t>(rows), static_cast<std::size_t>(columns));
  }
};

inline gemm_reading read_rate(session& s,
                              const matmul& matmul,
                              const work& launch,
                              sampling_options how,
                              load state,
                              std::string_view by) {
  const std::string what = name_of(matmul) + ", " + std::string(by);
  how.what = what;
  how.state = state;
  const sampled timing = sample(s, launch, how);
  return {flops(matmul.shape) / timing.median, timing};
}

#ifdef GPUPLAN_CUDA_CUBLASLT

// PyTorch gives cuBLASLt 32 MiB on Hopper; larger ones let it split sums further.
[[nodiscard]] constexpr std::size_t workspace_bytes(int compute_capability) {
  return std::size_t{compute_capability >= 90 ? 64U : 32U} << 20;
}

// cuBLASLt with the algorithm that is the fastest for a product here.
template <number_format Format>
class chosen_cublaslt {
 public:
  // Throws measurement_error where no algorithm runs. The operands are filled.
  chosen_cublaslt(session& s,
                  const matmul& matmul,
                  const matmul_data<Format>& data,
                  const gemm_options& options,
                  gemm_result& told)
      : one_(1),
        workspace_(workspace_bytes(10 * s.properties().major + s.properties().minor)),
        described_(matmul, one_.data(), options.fast_sums),
        a_(data.a()),
        b_(data.b()),
        c_(data.c()) {
    const float one = 1;
    GPUPLAN_CUDA_CALL(
        cudaMemcpyAsync(one_.data(), &one, sizeof one, cudaMemcpyHostToDevice, s.stream()));
    s.stream().synchronize();
    const std::vector<cublaslt_algorithm> proposed =
        described_.algorithms(library_, options.proposals, workspace_.bytes());
    if (proposed.empty())
      throw measurement_error(name_of(matmul) + ": cuBLASLt has no algorithm for it");
    const auto most = static_cast<std::size_t>(std::max(options.timed_proposals, 1));
    std::vector<candidate> running;
    std::string refused;
    for (std::size_t i = 0; i < std::min(proposed.size(), most); ++i) {
      const std::string why = reason_where_it_fails([&] {
        const double seconds = seconds_of_one(s, [&](cudaStream_t on) { launch(proposed[i], on); });
        running.push_back({i, proposed[i], seconds});
      });
      if (!why.empty()) refused = why;
    }
    if (running.empty()) throw measurement_error(refused);
    told.proposals = static_cast<int>(running.size());
    if (options.choice_s > 0 && running.size() > 1) settle(s, running, options);
    const auto least = std::ranges::min_element(running, {}, &candidate::seconds);
    algorithm_ = least->algorithm;
    const candidate& first = running.front();
    told.gain_of_choice = first.proposal == 0 ? least->seconds / first.seconds : 1;
  }

  void operator()(cudaStream_t on) const { launch(algorithm_, on); }

 private:
  struct candidate {
    std::size_t proposal;
    cublaslt_algorithm algorithm;
    double seconds;  // of one launch
  };

  cublaslt library_;
  device_buffer<float> one_;
  device_buffer<std::byte> workspace_;
  cublaslt_matmul described_;
  cublaslt_algorithm algorithm_{};
  const stored_t<Format>* a_;
  const stored_t<Format>* b_;
  result_t<Format>* c_;

  // Times the candidates on a hot device, twice round, since what one leaves of heat and power is
  // there when the next begins. Products so short that thousands of them pass in `choice_s` load no
  // device: the host is hardly done with the launch of one before it ends.
  void settle(session& s, std::vector<candidate>& running, const gemm_options& options) const {
    constexpr double most_launches = 2000;
    constexpr int rounds = 2;
    if (running.front().seconds * most_launches < options.choice_s) return;
    const auto launch_of = [this](const candidate& one) {
      return [this, &one](cudaStream_t on) { launch(one.algorithm, on); };
    };
    static_cast<void>(warm_up(s, launch_of(running.front()), options.sampling.warm_up));
    std::vector<double> sums(running.size());
    for (int round = 0; round < rounds; ++round)
      for (std::size_t i = 0; i < running.size(); ++i) {
        const double count = std::min(options.choice_s / running[i].seconds + 1, most_launches);
        sums[i] +=
            seconds_of_one_settled(s, launch_of(running[i]), static_cast<std::int64_t>(count));
      }
    for (std::size_t i = 0; i < running.size(); ++i) running[i].seconds = sums[i] / rounds;
  }

  void launch(const cublaslt_algorithm& by, cudaStream_t on) const {
    described_.launch(library_, by, a_, b_, c_, workspace_.data(), workspace_.bytes(), on);
  }
};

template <number_format Format>
void measure_by_cublaslt(session& s,
                         matmul_data<Format>& data,
                         const gemm_options& options,
                         gemm_result& result) {
  const matmul& matmul = result.matmul;
  data.fill_with_normal_numbers(s.stream());
  const chosen_cublaslt<Format> chosen(s, matmul, data, options, result);
  const work launch = [&](cudaStream_t on) { chosen(on); };
  result.errors = data.check(s, matmul, launch);
  const auto read = [&](load state, std::string_view by) {
    return read_rate(s, matmul, launch, options.sampling, state, by);
  };
  // A device that slept may take longer to wake than a burst lasts. It is no reason to go without
  // the readings of the device at work.
  std::string why_no_burst;
  if (options.burst) {
    try {
      result.burst = read(load::burst, "burst");
    } catch (const measurement_error& error) {
      why_no_burst = error.what();
    }
  }
  result.sustained = read(load::sustained, "sustained");
  if (options.zeros) {
    data.fill_with_zeros(s.stream());
    static_cast<void>(data.check(s, matmul, launch));
    result.zeros = read(load::sustained, "zeros");
  }
  if (!why_no_burst.empty()) throw measurement_error(why_no_burst);
}

#endif

template <number_format Format>
void measure_own_kernel(session& s,
                        matmul_data<Format>& data,
                        const gemm_options& options,
                        gemm_result& result) {
  const auto [m, n, k] = result.matmul.shape;
  data.fill_with_normal_numbers(s.stream());
  const own_gemm_call<stored_t<Format>> matmul{data.a(), data.b(), data.c(), m, n, k, k, k, n};
  const auto tiles = [](std::int64_t of, int tile) {
    return static_cast<unsigned>((of + tile - 1) / tile);
  };
  const dim3 blocks(tiles(n, own_gemm::tile_n), tiles(m, own_gemm::tile_m));
  const work launch = [&](cudaStream_t on) {
    GPUPLAN_CUDA_LAUNCH(own_gemm::kernel<<<blocks, own_gemm::threads, 0, on>>>(matmul));
  };
  static_cast<void>(data.check(s, result.matmul, launch));
  result.own_kernel =
      read_rate(s, result.matmul, launch, options.sampling, load::sustained, "own kernel");
}

template <number_format Format>
void measure_gemm_in(session& s, const gemm_options& options, gemm_result& result) {
  const int capability = 10 * s.properties().major + s.properties().minor;
  std::optional<matmul_data<Format>> data;
  const std::string no_room = reason_where_it_fails([&] { data.emplace(result.matmul.shape); });
#ifdef GPUPLAN_CUDA_CUBLASLT
  result.why_not =
      data ? reason_where_it_fails([&] { measure_by_cublaslt<Format>(s, *data, options, result); })
           : no_room;
#else
  result.why_not = "built without cuBLASLt";
#endif
  if (!options.own_kernel) return;
  result.why_no_own_kernel = why_no_own_kernel(result.matmul, capability);
  if (!result.why_no_own_kernel.empty()) return;
  if constexpr (Format == number_format::bf16 || Format == number_format::fp16)
    result.why_no_own_kernel =
        data ? reason_where_it_fails([&] { measure_own_kernel<Format>(s, *data, options, result); })
             : no_room;
}

}  // namespace detail

/// Measures one product on the session's device. A format that the device has not, a shape that has
/// no room, a refusal of cuBLASLt and a wrong product are told in the result, whose reading is then
/// missing; all other errors of CUDA are thrown as call_error, for the device is not usable then.
/// Precondition: the shape's numbers are positive.
[[nodiscard]] inline gemm_result measure_gemm(session& s,
                                              const matmul& matmul,
                                              const gemm_options& options = {}) {
  gemm_result result{.matmul = matmul};
  const int capability = 10 * s.properties().major + s.properties().minor;
  if (std::string why = why_unsupported(matmul, capability); !why.empty()) {
    if (options.own_kernel) result.why_no_own_kernel = why;
    result.why_not = std::move(why);
    return result;
  }
  switch (matmul.format) {
#define GPUPLAN_CASE(format)                                            \
  case number_format::format:                                           \
    detail::measure_gemm_in<number_format::format>(s, options, result); \
    break
    GPUPLAN_CASE(fp64);
    GPUPLAN_CASE(fp32);
    GPUPLAN_CASE(tf32);
    GPUPLAN_CASE(bf16);
    GPUPLAN_CASE(fp16);
    GPUPLAN_CASE(fp8);
    GPUPLAN_CASE(int8);
#undef GPUPLAN_CASE
    case number_format::fp4:
      break;  // refused above
  }
  return result;
}

/// The shapes that a device is measured with where no others are asked for: two squares, and a wide
/// one with short sums.
inline constexpr matmul_shape usual_shapes[] = {
    {4096, 4096, 4096}, {8192, 8192, 8192}, {16384, 8192, 1280}};

/// The products of a format that were measured, and the fastest of them measured again.
struct gemm_of_format {
  std::vector<gemm_result> tried{};  // sustained readings alone, each of a second or two
  /// With all the readings asked for. Measured again, because the best of several readings is
  /// partly the luckiest. Where no shape could be measured, it is the last one's, and says why.
  gemm_result fastest{};
};

/// Measures forward products of these shapes in one format. Throws as measure_gemm. Precondition:
/// there is a shape.
[[nodiscard]] inline gemm_of_format measure_fastest_gemm(
    session& s,
    number_format format,
    std::span<const matmul_shape> shapes = usual_shapes,
    const gemm_options& options = {}) {
  gemm_options first = options;
  first.burst = first.zeros = false;
  first.choice_s = 0;
  first.sampling.warm_up = {.window_s = 0.25, .windows = 2, .cap_s = 3};
  first.sampling.stop = {
      .spread = 0.02, .window = 16, .least_samples = 16, .least_s = 0.2, .cap_s = 2};
  // Without cuBLASLt, shapes are told apart by the own kernel.
  const auto rate = [](const gemm_result& of) {
    return of.sustained ? of.sustained->rate : of.own_kernel ? of.own_kernel->rate : compute_rate();
  };
#ifdef GPUPLAN_CUDA_CUBLASLT
  first.own_kernel = false;
#endif
  gemm_of_format all;
  for (const matmul_shape& shape : shapes)
    all.tried.push_back(measure_gemm(s, {.format = format, .shape = shape}, first));
  const auto best =
      std::max_element(all.tried.begin(), all.tried.end(), [&](const auto& a, const auto& b) {
        return rate(a) < rate(b);
      });
  all.fastest =
      rate(*best) > compute_rate() ? measure_gemm(s, best->matmul, options) : all.tried.back();
  return all;
}

/// A model's product, measured.
struct model_gemm {
  model_matmul of{};
  gemm_result measured{};
};

/// Measures products of a model (matmuls_of), in their order. Throws as measure_gemm.
[[nodiscard]] inline std::vector<model_gemm> measure_gemms(session& s,
                                                           number_format format,
                                                           std::span<const model_matmul> products,
                                                           const gemm_options& options = {}) {
  std::vector<model_gemm> all;
  for (const model_matmul& one : products)
    all.push_back(
        {one, measure_gemm(s, {.format = format, .shape = one.shape, .pass = one.pass}, options)});
  return all;
}

/// What measured_device.hpp keeps of a product.
[[nodiscard]] inline measured_matmul measured_matmul_of(const gemm_result& from) {
  measured_matmul to{.format = from.matmul.format, .shape = from.matmul.shape};
  const auto keep = [&](const std::optional<gemm_reading>& one, known<reading<compute_rate>>& as) {
    if (one) as = reading_of(one->rate, one->timing);
  };
  keep(from.sustained, to.sustained);
  keep(from.burst, to.burst);
  keep(from.zeros, to.zeros);
  keep(from.own_kernel, to.own_kernel);
  return to;
}

}  // namespace gpuplan::cuda
