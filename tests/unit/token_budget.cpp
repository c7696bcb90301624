#include <gpuplan/token_budget.hpp>

#include "check.hpp"

namespace {

using namespace gpuplan;

constexpr bool near(double a, double b, double by = 1e-9) {
  return detail::abs(a - b) <= by * detail::abs(b);
}

// No model of as much computation has a lower loss.
constexpr bool is_least(const loss_law& law) {
  for (const double computation : {1e18, 1e21, 5.76e23, 1e26}) {
    const auto best = *law.bought_by(flop_count::from_value(computation));
    const double loss = *law.loss(best);
    if (!near(6 * best.parameters * best.tokens, computation)) return false;
    for (const double by : {0.5, 0.9, 1.1, 2.0})
      if (*law.loss({best.parameters * by, best.tokens / by}) <= loss) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("a budget buys computation, and that a model with its tokens") {
  // 1,024 devices at 400 TFLOPS for 30 days.
  CONSTEXPR flop_count all = *computation_in(30_d, 1024, 400_TFLOPS);
  STATIC_CHECK(near(all.value(), 1024 * 400e12 * 30 * 86400));
  // What it costs at 2 dollars an hour buys it.
  STATIC_CHECK(near(computation_for(1024 * 30 * 24 * 2_usd, 2_usd_per_hour, 400_TFLOPS)->value(),
                    all.value()));
  CONSTEXPR model_and_tokens bought = *bought_by(all);
  STATIC_CHECK(near(bought.tokens / bought.parameters, 20));
  STATIC_CHECK(near(training_flops(bought)->value(), all.value()));
  // Chinchilla itself: 70 billion parameters, 1.4 trillion tokens.
  STATIC_CHECK(near(bought_by(*training_flops({70e9, 1.4e12}))->parameters, 70e9));
  STATIC_CHECK(computation_in(0_s, 1, 1_TFLOPS).why().at_fault() == fact::time);
  STATIC_CHECK(computation_in(1_s, 0, 1_TFLOPS).why().at_fault() == fact::devices);
  STATIC_CHECK(!computation_for(1_usd, 0_usd_per_hour, 1_TFLOPS));
  STATIC_CHECK(!bought_by(0_FLOP));
}

TEST_CASE("the law of losses has its least where its closed form says") {
  STATIC_CHECK(is_least(hoffmann_2022));
  STATIC_CHECK(is_least(besiroglu_2024));
  // Besiroglu et al. 2024: about 20 tokens a parameter at Chinchilla's computation; the constants
  // of 2022 have more than 90.
  CONSTEXPR flop_count chinchilla = *training_flops({70e9, 1.4e12});
  CONSTEXPR model_and_tokens again = *besiroglu_2024.bought_by(chinchilla);
  STATIC_CHECK(near(again.tokens / again.parameters, 20, 0.2));
  CONSTEXPR model_and_tokens first = *hoffmann_2022.bought_by(chinchilla);
  STATIC_CHECK(first.tokens / first.parameters > 90);
  STATIC_CHECK(!loss_law{}.loss({1, 1}));
}

TEST_CASE("repeated tokens are worth less") {
  STATIC_CHECK(*worth_of_tokens(1e9, 2e9) == 1e9);
  STATIC_CHECK(near(*worth_of_tokens(4e9, 1e9), 3.7e9, 0.01));
  STATIC_CHECK(near(*worth_of_tokens(40e9, 1e9), 15e9, 0.02));
  STATIC_CHECK(*worth_of_tokens(1e13, 1e9) < 16.4e9);
  STATIC_CHECK(!worth_of_tokens(0, 1));
}

TEST_CASE("a larger batch takes fewer steps and more tokens") {
  CONSTEXPR batch_price at_critical = *price_of_batch(100, 100);
  STATIC_CHECK(at_critical.steps == 2 && at_critical.samples == 2);
  // (S / S_min - 1) (E / E_min - 1) = 1
  CONSTEXPR batch_price beyond = *price_of_batch(700, 100);
  STATIC_CHECK(near((beyond.steps - 1) * (beyond.samples - 1), 1));
  STATIC_CHECK(near(*tokens_at_batch(1e12, 100, 300, 100), 2e12));
  STATIC_CHECK(near(*critical_batch_at(1), 2.1e8));
  STATIC_CHECK(*critical_batch_at(2) > *critical_batch_at(3));
  STATIC_CHECK(!price_of_batch(0, 1));
  STATIC_CHECK(!tokens_at_batch(1, 1, 1, 0));
  STATIC_CHECK(!critical_batch_at(-1));
}
