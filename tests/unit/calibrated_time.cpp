#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/time/calibrated.hpp>

#include "check.hpp"

namespace {

using namespace gpuplan;

// A small GPT on four nodes.
constexpr roofline_time model_of(std::int64_t stages) {
  roofline_time model{.setup = {.model = {.num_hidden_layers = 8,
                                          .hidden_size = 2048,
                                          .intermediate_size = 8192,
                                          .num_attention_heads = 16,
                                          .vocab_size = 51200,
                                          .gated_mlp = false},
                                .sequence_length = 1024,
                                .precision = fp16_master,
                                .parallelism = {.tensor_parallel = 2, .pipeline_parallel = stages},
                                .framework = catalog::megatron_lm},
                      .on = {.gpu = catalog::a100_sxm4_80gb,
                             .nodes = 4,
                             .gpus_per_node = 8,
                             .between_nodes = 100_GBps},
                      .efficiency = catalog::ampere};
  model.setup.framework.costs.host_per_step = 5_ms;
  return model;
}

constexpr bool near(double a, double b, double part) {
  return detail::abs(a - b) <= part * detail::abs(b);
}

// By factors of 1 it is the roofline, and each factor scales its own part alone.
constexpr bool parts_add_up() {
  for (const std::int64_t stages : {1, 4}) {
    const roofline_time model = model_of(stages);
    const batch_plan plan{2, 16 / stages, 8};
    if (!near(calibrated_time{model}.step(plan).value(), model.step(plan).value(), 1e-12))
      return false;
    time_factors twice{2, 2, 2, 2, 2, 2, 2};
    if (!near(
            calibrated_time{model, twice}.step(plan).value(), 2 * model.step(plan).value(), 1e-12))
      return false;
    const time_factors waits{.host = 3};
    const double more = calibrated_time{model, waits}.step(plan).value() - model.step(plan).value();
    if (!near(more, 2 * 5e-3, 1e-9)) return false;
  }
  return true;
}

// 2048 wide, sequences of 1024, micro-batches of 2 on one of 1, 2 or 4 stages: what vTrain composed
// of one profile.
struct profiled_step {
  std::int64_t stages, micro_batches, layers;
  double seconds;
};
constexpr profiled_step profiled_steps[] = {{2, 2, 20, 0.1934483},
                                            {2, 2, 24, 0.2240269},
                                            {2, 4, 12, 0.2263517},
                                            {2, 8, 12, 0.4144733},
                                            {4, 8, 20, 0.4207283},
                                            {4, 2, 24, 0.1919238},
                                            {4, 4, 24, 0.2859846}};
constexpr bool composes(const profiled_step& published) {
  roofline_time model = model_of(published.stages);
  model.setup.model.num_hidden_layers = published.layers;
  model.setup.model.vocab_size = 51200;
  model.setup.parallelism.tensor_parallel = 1;
  model.setup.framework = catalog::megatron_lm_profiled;
  model.setup.framework.costs.host_per_step = {};
  model.on.nodes = 1;
  const batch_plan plan{.micro_batch = 2, .accumulation = published.micro_batches};
  const auto stage_layers = static_cast<double>(published.layers / published.stages);
  // From the profile: the optimizer takes 1.006 ms a layer.
  const auto factors =
      calibrate(model,
                timed_parts{.at = plan,
                            .layer = 4.7610653_ms,
                            .input = 0.4_ms,
                            .output = 18.46399978_ms,
                            .point_to_point = 0.62502126_ms,
                            .optimizer = 1.97690052_ms + stage_layers * 1.00613642_ms});
  return factors &&
         near(calibrated_time{model, *factors}.step(plan).value(), published.seconds, 1e-5);
}
constexpr bool composes_all() {
  for (const profiled_step& one : profiled_steps)
    if (!composes(one)) return false;
  return true;
}

TEST_CASE("from timed parts, published steps come out") { STATIC_CHECK(composes_all()); }

// A part that was timed takes that long; what was not is the roofline's.
constexpr bool timed_parts_are_met() {
  const roofline_time model = model_of(4);
  const batch_plan plan{2, 4, 8};
  const auto factors = calibrate(model, {.at = plan, .sharing = 50_ms, .optimizer = 7_ms});
  if (!factors || factors->layer != 1 || factors->point_to_point != 1) return false;
  const step_breakdown step = calibrated_time{model, *factors}.breakdown(plan);
  return near(step.gradient_communication.value(), 50e-3, 1e-12) &&
         near(step.optimizer.value(), 7e-3, 1e-12);
}

// What `validate` says of each factor alone.
constexpr bool all_factors_are(double value, errc code) {
  for (double time_factors::*const factor : detail::time_parts) {
    calibrated_time time{.model = model_of(2)};
    time.factors.*factor = value;
    if (validate(time).why().code != code) return false;
  }
  return true;
}

TEST_CASE("factors are numbers from 0 on") {
  STATIC_CHECK(all_factors_are(0, errc::none));
  STATIC_CHECK(all_factors_are(0.5, errc::none));
  STATIC_CHECK(all_factors_are(-0.1, errc::negative));
  STATIC_CHECK(all_factors_are(detail::infinity, errc::not_finite));
}

TEST_CASE("parts that were timed take that long") {
  STATIC_CHECK(timed_parts_are_met());
  CONSTEXPR roofline_time model = model_of(2);
  STATIC_CHECK(*calibrate(model, timed_parts{}) == time_factors{});
  STATIC_CHECK(calibrate(model, {.layer = 0_s}).why().code == errc::not_positive);
  // One replica exchanges no gradients, and no factor makes time of that.
  STATIC_CHECK(calibrate(model_of(1), {.at = {1, 1, 1}, .sharing = 1_ms})->sharing == 1);
  STATIC_CHECK(calibrate(model, {.at = {.accumulation = 0}}).why().code == errc::not_positive);
  STATIC_CHECK(!calibrate({}, timed_parts{}));
}

TEST_CASE("parts of a step add up, and factors scale them") { STATIC_CHECK(parts_add_up()); }

constexpr calibrated_time with_stack(double logarithm) {
  stack_estimate stack;
  stack.logarithms[0] = logarithm;
  return {model_of(1), {}, stack};
}

TEST_CASE("factors are numbers, none below 0, of a roofline that can be asked") {
  STATIC_CHECK(validate(with_stack(-9)));
  STATIC_CHECK(validate(with_stack(detail::infinity)).why().code == errc::not_finite);
  STATIC_CHECK(validate(calibrated_time{model_of(1), {}}));
  STATIC_CHECK(validate(calibrated_time{model_of(1), {.host = -0.5}}).why().code == errc::negative);
  STATIC_CHECK(validate(calibrated_time{model_of(1), {.output = detail::infinity}}).why().code ==
               errc::not_finite);
  STATIC_CHECK(!validate(calibrated_time{{}, {}}));
}

}  // namespace
