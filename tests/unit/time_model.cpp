#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/speedup.hpp>
#include <gpuplan/time/documented.hpp>
#include <gpuplan/time/optimizer.hpp>
#include <gpuplan/time/stack_range.hpp>
#include <gpuplan/time/step_breakdown.hpp>
#include <gpuplan/time/step_rates.hpp>
#include <gpuplan/time/time_interval.hpp>
#include <gpuplan/time_model.hpp>

#include <cstdint>

#include "check.hpp"

namespace {

using namespace gpuplan;

constexpr bool near(double a, double b) { return detail::abs(a - b) <= 1e-12 * detail::abs(b); }

// Anything with a step is a time model.
struct one_second_per_micro_batch {
  constexpr duration step(const batch_plan& plan) const { return plan.accumulation * 1_s; }
};
struct no_duration {
  constexpr double step(const batch_plan&) const { return 1; }
};

constexpr documented_time measured{
    .step_time = 1.5_s, .measured_at = {32, 4, 2}, .serial_fraction = 0.02};

// One GPU's share of a step: as many times the reference as there are samples in it.
constexpr bool time_follows_the_samples_of_a_gpu() {
  const documented_time one{.step_time = 1.5_s, .measured_at = {32, 1, 1}};
  for (std::int64_t micro_batch : {1, 8, 32, 96})
    for (std::int64_t accumulation : {1, 2, 7}) {
      double seconds = 0;
      for (std::int64_t sample = 0; sample < micro_batch * accumulation; ++sample)
        seconds += 1.5 / 32;
      if (!near(one.step({micro_batch, 1, accumulation}).value(), seconds)) return false;
    }
  return true;
}

// More GPUs: the throughput is that of one GPU times Amdahl's speed-up.
constexpr bool throughput_follows_amdahl() {
  const documented_time one{
      .step_time = 2_s, .measured_at = {16, 1, 1}, .serial_fraction = 1.0 / 19};
  const amdahl_scaling law{.serial_fraction = 1.0 / 19};
  const double single = throughput({16, 1, 1}, one).value();
  for (std::int64_t n = 1; n <= 64; ++n)
    if (!near(throughput({16, n, 1}, one).value(), single * law.speedup(n)->low())) return false;
  return true;
}

// Any plan may be the reference: carried to another plan and back, a step takes what it took.
constexpr bool the_reference_does_not_matter() {
  for (const batch_plan& plan : {batch_plan{1, 1, 1}, batch_plan{8, 2, 3}, batch_plan{5, 64, 6}}) {
    const documented_time there{measured.step(plan), plan, measured.serial_fraction};
    if (!near(there.step(measured.measured_at).value(), 1.5)) return false;
  }
  return true;
}

constexpr documented_time with_step(duration step) {
  documented_time model = measured;
  model.step_time = step;
  return model;
}
constexpr documented_time with_fraction(double fraction) {
  documented_time model = measured;
  model.serial_fraction = fraction;
  return model;
}

TEST_CASE("every part of a step counts once, and is scaled") {
  STATIC_CHECK([] {
    step_breakdown parts;
    const auto each = {&step_breakdown::data,
                       &step_breakdown::forward,
                       &step_breakdown::backward,
                       &step_breakdown::recompute,
                       &step_breakdown::optimizer,
                       &step_breakdown::tensor_communication,
                       &step_breakdown::context_communication,
                       &step_breakdown::expert_communication,
                       &step_breakdown::pipeline_communication,
                       &step_breakdown::gradient_communication,
                       &step_breakdown::parameter_communication,
                       &step_breakdown::bubble,
                       &step_breakdown::host};
    double bit = 1;
    for (const auto part : each) {
      parts.*part = duration::from_value(bit);
      bit *= 2;
    }
    const step_breakdown thrice = 3 * parts;
    for (const auto part : each)
      if (thrice.*part != 3 * (parts.*part)) return false;
    return parts.total().value() == bit - 1 && parts.compute().value() == 2 + 4 + 8 + 16 &&
           parts.communication().value() == 32 + 64 + 128 + 256 + 512 + 1024;
  }());
}

// Of tables of the normal distribution.
TEST_CASE("so many deviations hold their part of a normal distribution") {
  struct held {
    double part;
    double deviations;
  };
  constexpr held known_parts[] = {{0.1, 0.125661},
                                  {0.382925, 0.5},
                                  {0.5, 0.674490},
                                  {0.682689, 1},
                                  {0.8, 1.281552},
                                  {0.9, 1.644854},
                                  {0.954500, 2},
                                  {0.99, 2.575829},
                                  {0.997300, 3}};
  STATIC_CHECK([=] {
    for (const held& one : known_parts) {
      const double ratio = detail::deviations_of(one.part) / one.deviations;
      if (!(ratio > 0.996 && ratio < 1.004)) return false;
    }
    return true;
  }());
}

#ifndef GPUPLAN_TEST_AT_COMPILE_TIME
TEST_CASE("a coverage is from 0 to less than 1") {
  for (const double coverage : {-0.1, 1.0, 1.5, detail::not_a_number})
    CHECK_THROWS_AS(static_cast<void>(detail::deviations_of(coverage)), plan_error);
  CHECK(detail::abs(detail::deviations_of(0)) < 1e-9);
}
#endif

constexpr double bytes_of(optimizer_kind kind,
                          optimizer_loop loop,
                          const precision_recipe& precision = {}) {
  return optimizer_bytes({.precision = precision, .optimizer = {.kind = kind, .loop = loop}});
}

TEST_CASE("an optimizer reads and writes its states and the weights, and operators do more") {
  constexpr auto fused = optimizer_loop::fused;
  constexpr auto foreach = optimizer_loop::foreach;
  // In fp32 the gradient once, and the weight and each state both ways.
  STATIC_CHECK(bytes_of(optimizer_kind::adamw, fused) == 4 + 8 + 16);
  STATIC_CHECK(bytes_of(optimizer_kind::sgd, fused) == 4 + 8);
  STATIC_CHECK(bytes_of(optimizer_kind::sgd_momentum, fused) == 4 + 8 + 8);
  STATIC_CHECK(bytes_of(optimizer_kind::adagrad, fused) == 4 + 8 + 8);
  // Measured on an H100; the values of a loop by operators that update in bf16 are half as wide.
  STATIC_CHECK(bytes_of(optimizer_kind::adamw, foreach) == 80);
  STATIC_CHECK(bytes_of(optimizer_kind::sgd, foreach) == 12);
  STATIC_CHECK(bytes_of(optimizer_kind::sgd_momentum, foreach) == 32);
  STATIC_CHECK(bytes_of(optimizer_kind::rmsprop, foreach) == 52);
  STATIC_CHECK(bytes_of(optimizer_kind::adafactor, foreach) > 107 - 1);
  STATIC_CHECK(bytes_of(optimizer_kind::adamw, foreach, bf16_pure) == 40);
  // Masters in fp32 and moments, a gradient in fp32, and the weight cast.
  STATIC_CHECK(bytes_of(optimizer_kind::adamw, fused, bf16_megatron) == 4 + 8 + 16 + 2);
  STATIC_CHECK(bytes_of(optimizer_kind::adamw, fused, bf16_master) == 2 + 8 + 16 + 2);
  // To clip reads the gradient twice more, and writes it.
  constexpr training_setup clipped{.optimizer = {.loop = fused, .clips_gradients = true}};
  STATIC_CHECK(optimizer_bytes(clipped) == 28 + 12);
  constexpr training_setup by_operators{.optimizer = {.loop = foreach}};
  STATIC_CHECK(optimizer_bytes(by_operators, true) == 28);
  // Moments in bf16.
  constexpr training_setup narrow{.precision = bf16_megatron,
                                  .optimizer = {.loop = fused, .states = number_format::bf16}};
  STATIC_CHECK(optimizer_bytes(narrow) == 4 + 8 + 8 + 2);
}

TEST_CASE("a step on the host moves the gradient there and the weight back, unless weights stay") {
  constexpr training_setup setup{

      .optimizer = {.loop = optimizer_loop::fused}};
  constexpr double host = 28 / 40e9;
  constexpr double copied = 8 / host_copy_rate(catalog::a100_sxm4_80gb);
  STATIC_CHECK(near(host_step_seconds(setup, catalog::a100_sxm4_80gb, 4), host + copied));
  STATIC_CHECK(near(host_copy_rate(catalog::a100_sxm4_80gb),
                    catalog::a100_sxm4_80gb.pcie->each_direction().value() * 0.877));
  STATIC_CHECK([=] {
    training_setup stays = setup;
    stays.parallelism.weights_on_host = true;
    return near(host_step_seconds(stays, catalog::a100_sxm4_80gb, 4), host);
  }());
}

// 24 samples of 4,096 tokens in 10 s on 32 devices.
constexpr training_setup on_ranks{
    .model = catalog::llama_3_8b,
    .sequence_length = 4096,
    .precision = bf16_mixed,
    .parallelism = {.tensor_parallel = 2, .pipeline_parallel = 2, .context_parallel = 2},
    .framework = catalog::megatron_core};
constexpr batch_plan of_24{2, 4, 3};

TEST_CASE("rates are what all samples take of each device, over its dense peak") {
  CONSTEXPR step_rates rates = rates_of(on_ranks, catalog::h100_sxm5_80gb, of_24, 10_s);
  STATIC_CHECK(near(rates.tokens.value(), 24 * 4096 / 10.0));
  CONSTEXPR flop_counts sample =
      flops(catalog::llama_3_8b, {.sequence_length = 4096, .fused_attention = false});
  CONSTEXPR double of_device = 24 * sample.model().value() / 10 / 32;
  STATIC_CHECK(near(rates.model.value(), of_device));
  STATIC_CHECK(near(rates.hardware.value(), of_device));
  CONSTEXPR compute_rate dense = *peak(catalog::h100_sxm5_80gb, number_format::bf16);
  STATIC_CHECK(near(rates.mfu, of_device / dense.value()));
  STATIC_CHECK(rates.hfu == rates.mfu);
  // 6 operations for each parameter and token, and attention's: some tenths more.
  STATIC_CHECK(rates.model.value() > 6 * 7.5e9 * 24 * 4096 / 10 / 32);
  STATIC_CHECK(rates.model.value() < 1.3 * 6 * 8.03e9 * 24 * 4096 / 10 / 32);
}

TEST_CASE("what is computed again counts for the hardware alone, of the layers that are") {
  const auto with = [](recompute_mode mode, std::int64_t encodings) {
    training_setup setup = on_ranks;
    setup.recompute = mode;
    setup.encodings = encodings;
    return rates_of(setup, catalog::h100_sxm5_80gb, of_24, 10_s);
  };
  CONSTEXPR step_rates none = with(recompute_mode::none, 1);
  CONSTEXPR step_rates full = with(recompute_mode::full, 1);
  STATIC_CHECK(full.model.value() == none.model.value() && full.mfu == none.mfu);
  // Of three passes one more, without the head's.
  STATIC_CHECK(full.hfu > 1.25 * none.hfu && full.hfu < 1.334 * none.hfu);
  STATIC_CHECK(near(full.hfu / full.mfu, full.hardware.value() / full.model.value()));
  CONSTEXPR step_rates twice = with(recompute_mode::full, 2);
  STATIC_CHECK(near(twice.hfu, 2 * full.hfu) && near(twice.mfu, 2 * full.mfu));
  STATIC_CHECK(near(twice.tokens.value(), 2 * full.tokens.value()));
}

// What the ends of a stack do to a step, one by one.
constexpr roofline_time timed_on(const framework& by, const device_efficiency& reached) {
  roofline_time model{.setup = on_ranks,
                      .on = {.gpu = catalog::h100_sxm5_80gb,
                             .nodes = 4,
                             .gpus_per_node = 8,
                             .between_nodes = 400_GBps},
                      .efficiency = reached};
  model.setup.parallelism = {.tensor_parallel = 8};
  model.setup.framework.costs = by.costs;
  return model;
}
constexpr duration step_with(roofline_time model, const software_costs& costs) {
  model.setup.framework.costs = costs;
  return model.step({1, 4, 2});
}
constexpr bool spans(const range<duration>& found, duration low, duration high) {
  return near(found.low().value(), low.value()) && near(found.high().value(), high.value());
}

TEST_CASE("a stack's range is the step at the ends of its costs") {
  STATIC_CHECK([] {
    const stack_range stack{
        .matmul_rate = {0.5, 2}, .element_rate = {0.25, 4}, .host = {0, 3}, .contention = {0, 5}};
    roofline_time model = timed_on(catalog::megatron_core, catalog::hopper);
    software_costs& own = model.setup.framework.costs;
    own = {.matmul_rate = 0.9,
           .element_rate = 1.2,
           .host_per_operator = 400_us,
           .host_per_step = 10_ms,
           .contention = 0.1,
           .timed = true};
    const step_ranges found = step_ranges_of(model, {1, 4, 2}, stack);
    const auto with = [&](auto change) {
      software_costs costs = own;
      change(costs);
      return step_with(model, costs);
    };
    const bool is_of_matmuls = spans(found.matmul_rate,
                                     with([](software_costs& costs) { costs.matmul_rate = 1.8; }),
                                     with([](software_costs& costs) { costs.matmul_rate = 0.45; }));
    const bool is_of_elements =
        spans(found.element_rate,
              with([](software_costs& costs) { costs.element_rate = 4.8; }),
              with([](software_costs& costs) { costs.element_rate = 0.3; }));
    const bool is_of_host = spans(found.host,
                                  with([](software_costs& costs) {
                                    costs.host_per_operator = 0_us;
                                    costs.host_per_step = 0_us;
                                  }),
                                  with([](software_costs& costs) {
                                    costs.host_per_operator = 1200_us;
                                    costs.host_per_step = 30_ms;
                                  }));
    const bool is_of_contention =
        spans(found.contention,
              with([](software_costs& costs) { costs.contention = 0; }),
              with([](software_costs& costs) { costs.contention = 0.5; }));
    const bool is_of_all = spans(found.all,
                                 step_with(model,
                                           {.matmul_rate = 1.8,
                                            .element_rate = 4.8,
                                            .host_per_operator = 0_us,
                                            .host_per_step = 0_us,
                                            .contention = 0,
                                            .timed = true}),
                                 step_with(model,
                                           {.matmul_rate = 0.45,
                                            .element_rate = 0.3,
                                            .host_per_operator = 1200_us,
                                            .host_per_step = 30_ms,
                                            .contention = 0.5,
                                            .timed = true}));
    return is_of_matmuls && is_of_elements && is_of_host && is_of_contention && is_of_all;
  }());
  // By itself, the host takes half to twice as long, kernels move their bytes 0.67 to 1.33 times as
  // fast, and communication contends with them not at all, or twice as much.
  STATIC_CHECK([] {
    roofline_time model = timed_on(catalog::megatron_core, catalog::hopper);
    software_costs& own = model.setup.framework.costs;
    own = {.matmul_rate = 1,
           .element_rate = 1,
           .host_per_operator = 400_us,
           .host_per_step = 10_ms,
           .contention = 0.2,
           .timed = true};
    const auto with = [&](auto change) {
      software_costs costs = own;
      change(costs);
      return step_with(model, costs);
    };
    const auto host = [&](double times) {
      return with([&](software_costs& costs) {
        costs.host_per_operator = times * costs.host_per_operator;
        costs.host_per_step = times * costs.host_per_step;
      });
    };
    const auto number = [&](double software_costs::*which, double value) {
      return with([&](software_costs& costs) { costs.*which = value; });
    };
    const step_ranges found = step_ranges_of(model, {1, 4, 2});
    return spans(found.host, host(0.5), host(2)) &&
           spans(found.contention,
                 number(&software_costs::contention, 0),
                 number(&software_costs::contention, 0.4)) &&
           spans(found.element_rate,
                 number(&software_costs::element_rate, 1.33),
                 number(&software_costs::element_rate, 0.67)) &&
           spans(found.matmul_rate,
                 number(&software_costs::matmul_rate, 1.06),
                 number(&software_costs::matmul_rate, 0.94));
  }());
  // Software that nobody timed takes at most what others' does, and such a device's share varies.
  STATIC_CHECK([] {
    roofline_time model = timed_on(catalog::megatron_core, {});
    model.setup.framework.costs = {};
    const stack_range stack{};
    const step_ranges found = step_ranges_of(model, {1, 4, 2}, stack);
    software_costs host{};
    host.host_per_operator = 97_us;
    host.host_per_step = 60_ms;
    software_costs fast{};
    fast.matmul_rate *= stack.matmul_rate.high();
    software_costs slow{};
    slow.matmul_rate *= stack.matmul_rate.low();
    roofline_time slower = model;
    slower.efficiency.products = stack.untimed_matmuls.low();
    return !is_timed(model.setup.framework) && !is_timed(model.efficiency) &&
           near(found.host.high().value(), step_with(model, host).value()) &&
           spans(found.matmul_rate, step_with(model, fast), step_with(slower, slow));
  }());
  // It moves as much as any software may, or as much as others' at most, whichever is more.
  STATIC_CHECK([] {
    roofline_time model = timed_on(catalog::megatron_core, catalog::hopper);
    model.setup.framework.costs = {};
    const auto with_rate = [&](double times) {
      software_costs costs{};
      costs.element_rate *= times;
      return step_with(model, costs);
    };
    stack_range much{};
    much.untimed.element_rate = 0.25 * software_costs{}.element_rate;
    return spans(step_ranges_of(model, {1, 4, 2}).element_rate, with_rate(1.33), with_rate(0.67)) &&
           spans(step_ranges_of(model, {1, 4, 2}, much).element_rate,
                 with_rate(1.33),
                 with_rate(0.25));
  }());
}

}  // namespace

TEST_CASE("a time model is what has a step") {
  STATIC_CHECK(time_model<documented_time>);
  STATIC_CHECK(time_model<one_second_per_micro_batch>);
  STATIC_CHECK(!time_model<no_duration>);
  STATIC_CHECK(throughput({10, 3, 2}, one_second_per_micro_batch{}) == 30_samples_per_s);
}

TEST_CASE("a documented step time, carried to other plans") {
  STATIC_CHECK(measured.step(measured.measured_at) == 1.5_s);
  STATIC_CHECK(time_follows_the_samples_of_a_gpu());
  STATIC_CHECK(throughput_follows_amdahl());
  STATIC_CHECK(the_reference_does_not_matter());
  // Where nothing is said of them, more GPUs take as long for as many samples each.
  CONSTEXPR documented_time alike{.step_time = 1_s, .measured_at = {16, 1, 1}};
  STATIC_CHECK(alike.step({16, 8, 1}) == 1_s);
}

TEST_CASE("a stated efficiency comes out again") {
  // 95 % on two GPUs.
  CONSTEXPR auto fraction = karp_flatt(1.9, 2)->low();
  CONSTEXPR documented_time model{
      .step_time = 1_s, .measured_at = {16, 1, 1}, .serial_fraction = fraction};
  STATIC_CHECK(near(throughput({16, 2, 1}, model).value(), 1.9 * 16));
}

TEST_CASE("a documented throughput") {
  CONSTEXPR auto model = documented_throughput(4000_samples_per_s, {1024, 4, 1}, 0.1);
  STATIC_CHECK(near(model.step_time.value(), 1.024));
  STATIC_CHECK(near(throughput({1024, 4, 1}, model).value(), 4000));
  // Where nothing is said of them, more GPUs are as many times as fast.
  CONSTEXPR auto alike = documented_throughput(4000_samples_per_s, {1024, 4, 1});
  STATIC_CHECK(near(throughput({1024, 12, 1}, alike).value(), 12'000));
}

TEST_CASE("bad time models are named") {
  STATIC_CHECK(validate(measured).why() == failure());
  STATIC_CHECK(validate(with_step(0_s)).why() ==
               failure(errc::not_positive, named_fact{fact::time_us, 0}).about(fact::step_time));
  STATIC_CHECK(
      validate(with_step(-1.5_ms)).why() ==
      failure(errc::not_positive, named_fact{fact::time_us, -1500}).about(fact::step_time));
  STATIC_CHECK(validate(with_step(duration::from_value(detail::not_a_number))).why() ==
               failure(errc::not_finite, named_fact{fact::step_time, detail::not_a_number}));
  STATIC_CHECK(validate(with_step(duration::from_value(detail::infinity))).why() ==
               failure(errc::not_finite, named_fact{fact::step_time, detail::infinity}));
  STATIC_CHECK(validate(documented_time{.step_time = 1_s, .measured_at = {0, 1, 1}}).why() ==
               failure(errc::not_positive, named_fact{fact::micro_batch, 0}));
  STATIC_CHECK(validate(with_fraction(1.5)).why() ==
               failure(errc::out_of_bounds,
                       named_fact{fact::low_thousandths, 1500},
                       named_fact{fact::high_thousandths, 1500},
                       named_fact{fact::at_least, 0},
                       named_fact{fact::at_most, 1})
                   .about(fact::serial_fraction));
  STATIC_CHECK(validate(with_fraction(-0.1)).why().code == errc::out_of_bounds);
  STATIC_CHECK(validate(with_fraction(detail::not_a_number)).why() ==
               failure(errc::not_finite, named_fact{fact::serial_fraction, detail::not_a_number}));
}
