#pragma once

// What a memory model is, what it is compared with, the comparison, and the simplest model: a line.

#include <gpuplan/batch.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/units.hpp>

#include <concepts>
#include <cstdint>
#include <limits>

namespace gpuplan {

/// Answers "how much memory does one GPU need for this plan?". `required` must not fall as the
/// micro-batch or the accumulation grows: the solvers rely on it. Where `validate(model)` exists,
/// decisions call it first; where `validate(model, plan)` does, `check` calls it for its plan.
template <class Model>
concept memory_model = requires(const Model& model, const batch_plan& plan) {
  { model.required(plan) } -> std::same_as<bytes>;
};

/// The memory that a plan may take from one GPU: of a catalogued device or a MIG slice its
/// `usable_memory`, or any other figure that the caller passes.
class memory_budget {
 public:
  constexpr memory_budget() = default;                  // nothing: decisions refuse it
  constexpr memory_budget(bytes size) : size_(size) {}  // NOLINT(google-explicit-constructor)
  constexpr memory_budget(const gpu_spec& gpu)
      : size_(usable_memory(gpu)) {}  // NOLINT(google-explicit-constructor)
  constexpr memory_budget(const mig_slice& slice)
      : size_(usable_memory(slice)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] constexpr bytes size() const { return size_; }

 private:
  bytes size_{};
};

namespace detail {

constexpr failure share_out_of_bounds(fact name) {
  return failure(errc::out_of_bounds, named_fact{fact::at_least, 0}, named_fact{fact::at_most, 1})
      .about(name);
}

}  // namespace detail

/// The share of a memory budget to leave free: for what a model leaves out (fragmentation, a longer
/// batch than usual, another process).
struct head_room {
  double share = 0;  // 0 to 1
};

/// Head-rooms by name. Conventions of this library, not measurements: take your own where you know
/// better.
inline constexpr head_room conservative{.share = 0.30};
inline constexpr head_room recommended{.share = 0.15};
inline constexpr head_room aggressive{.share = 0.00};

/// What is left of a budget after the head-room: `size * (1 - share)`. Precondition: a share from 0
/// to 1.
[[nodiscard]] constexpr memory_budget keep_free(head_room room, memory_budget gpu) {
  if (!(room.share >= 0 && room.share <= 1))
    detail::precondition_violated(detail::share_out_of_bounds(fact::head_room));
  return gpu.size() * (1 - room.share);
}

namespace detail {

// Facts in MB, rounded away from each other, so that what does not fit is seen not to fit. Memory
// beyond 2^62 bytes is not representable and shows as that.
constexpr std::int64_t MB_at_least(bytes memory) {
  const double MB = in(memory, 1_MB);
  if (!(MB < 4.6e12)) return std::int64_t{4'600'000'000'000};
  const auto below = static_cast<std::int64_t>(MB);
  return static_cast<double>(below) < MB ? below + 1 : below;
}
constexpr std::int64_t MB_at_most(bytes memory) {
  const double MB = in(memory, 1_MB);
  return MB < 4.6e12 ? static_cast<std::int64_t>(MB) : std::int64_t{4'600'000'000'000};
}

constexpr failure exceeds_gpu_memory(const batch_plan& plan,
                                     bytes required,
                                     memory_budget gpu,
                                     errc code = errc::exceeds_gpu_memory) {
  return failure(code,
                 named_fact{fact::micro_batch, plan.micro_batch},
                 named_fact{fact::data_parallel, plan.data_parallel},
                 named_fact{fact::accumulation, plan.accumulation},
                 named_fact{fact::needed_MB, MB_at_least(required)},
                 named_fact{fact::gpu_has_MB, MB_at_most(gpu.size())});
}

// What is wrong with a memory figure of this name, or no failure.
constexpr failure flaw_of_memory(fact name, bytes memory) {
  if (memory < bytes{})
    return failure(errc::negative, named_fact{fact::needed_MB, -MB_at_least(-memory)}).about(name);
  if (!(memory.value() < std::numeric_limits<double>::infinity()))
    return failure(errc::not_finite).about(name);
  return {};
}

// What is wrong with a budget, or no failure.
constexpr failure flaw_of_budget(memory_budget gpu) {
  if (gpu.size() <= bytes{})
    return failure(errc::not_positive, named_fact{fact::gpu_has_MB, -MB_at_least(-gpu.size())});
  return flaw_of_memory(fact::gpu, gpu.size());
}

// The first thing wrong with a budget or a model, or no failure.
template <memory_model Model>
constexpr failure first_flaw(memory_budget gpu, const Model& model) {
  if (const failure flaw = flaw_of_budget(gpu); failed(flaw)) return flaw;
  if constexpr (requires { validate(model); }) {
    return validate(model).why();
  } else {
    return {};
  }
}

}  // namespace detail

/// Whether memory within this range fits: `yes` where its upper end does, `no` where its lower end
/// does not, else `perhaps`.
enum class fit { no, perhaps, yes };
[[nodiscard]] constexpr fit fits(range<bytes> required, memory_budget gpu) {
  if (required.high() <= gpu.size()) return fit::yes;
  return required.low() <= gpu.size() ? fit::perhaps : fit::no;
}

/// Whether the plan fits: `model.required(plan) <= gpu.size()`. Precondition: `check` finds no flaw
/// other than the memory itself.
template <memory_model Model>
[[nodiscard]] constexpr bool fits(const batch_plan& plan, memory_budget gpu, const Model& model) {
  return model.required(plan) <= gpu.size();
}

/// The plan itself where it is valid and fits; else the reason: `errc::exceeds_gpu_memory` with
/// what it needs and what there is, or what is wrong with the plan, the budget, the model or its
/// answer.
template <memory_model Model>
[[nodiscard]] constexpr result<batch_plan> check(const batch_plan& plan,
                                                 memory_budget gpu,
                                                 const Model& model) {
  if (const auto valid = validate(plan); !valid) return valid.why();
  if (const failure flaw = detail::first_flaw(gpu, model); detail::failed(flaw)) return flaw;
  if constexpr (requires { validate(model, plan); })
    if (const auto valid = validate(model, plan); !valid) return valid.why();
  const bytes required = model.required(plan);
  if (const failure flaw = detail::flaw_of_memory(fact::required, required); detail::failed(flaw))
    return flaw;
  if (!(required <= gpu.size())) return detail::exceeds_gpu_memory(plan, required, gpu);
  return plan;
}

/// `required = fixed + per_sample * micro_batch`. `fixed` holds what does not depend on the batch:
/// weights, gradients, optimizer states, library workspaces; `per_sample` the activations of one
/// sample. Such a line is a fit: trust it between the batches that it came from.
struct affine_memory {
  bytes fixed{};
  bytes per_sample{};

  [[nodiscard]] constexpr bytes required(const batch_plan& plan) const {
    return fixed + per_sample * plan.micro_batch;
  }

  friend constexpr bool operator==(const affine_memory& a, const affine_memory& b) {
    return a.fixed == b.fixed && a.per_sample == b.per_sample;
  }
};

/// The model itself where both parts are finite and not negative.
[[nodiscard]] constexpr result<affine_memory> validate(const affine_memory& model) {
  if (const failure flaw = detail::flaw_of_memory(fact::fixed, model.fixed); detail::failed(flaw))
    return flaw;
  if (const failure flaw = detail::flaw_of_memory(fact::per_sample, model.per_sample);
      detail::failed(flaw))
    return flaw;
  return model;
}

/// The shares of an affine model's parts that an optimisation saves, each from 0 to 1.
struct memory_saving {
  double fixed = 0;
  double per_sample = 0;
};

/// Activation checkpointing (recomputation): activations are computed again instead of kept, so a
/// share of the per-sample part goes; weights, gradients and optimizer states stay.
[[nodiscard]] constexpr memory_saving checkpointing(double share_saved) {
  return {.per_sample = share_saved};
}

/// Mixed precision under autocast: activations shrink; the fixed part does not, since the weights,
/// their gradients and the optimizer states stay in fp32 (Micikevicius et al. 2018, section 3.1).
[[nodiscard]] constexpr memory_saving mixed_precision(double share_saved) {
  return {.per_sample = share_saved};
}

/// The model after the saving: `with(groot, checkpointing(0.5))`. Savings one after another
/// multiply: half of a half is a quarter. Precondition: shares from 0 to 1.
[[nodiscard]] constexpr affine_memory with(const affine_memory& model,
                                           const memory_saving& saving) {
  for (const double share : {saving.fixed, saving.per_sample})
    if (!(share >= 0 && share <= 1))
      detail::precondition_violated(detail::share_out_of_bounds(fact::memory_saving));
  return {.fixed = model.fixed * (1 - saving.fixed),
          .per_sample = model.per_sample * (1 - saving.per_sample)};
}

}  // namespace gpuplan
