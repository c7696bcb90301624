// Guide 001: the hours on H100s by what a step takes on either card.

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/time/stack_numbers.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

#include "guides/a6000_to_h100/tables.hpp"

namespace guides::a6000_to_h100 {
namespace {

using gpuplan::roofline_time;

roofline_time step_on(const inputs& in, const gpu_spec& gpu, std::int64_t gpus) {
  return {.setup = lora_of(in, (in.text_tokens.low() + in.text_tokens.high()) / 2),
          .on = {.gpu = gpu, .gpus_per_node = gpus},
          .efficiency = gpuplan::catalog::efficiency_of(gpu)};
}

// What one GPU runs, whatever number of them it is said to be.
batch_plan on_one(const inputs& in) {
  return {.micro_batch = in.on_1.micro_batch, .accumulation = in.on_1.accumulation};
}

// As the guide has it, else with the batch of one GPU.
batch_plan plan_on(const inputs& in, std::int64_t gpus) {
  for (const batch_plan& plan : {on_one(in), in.on_2, in.on_4})
    if (plan.data_parallel == gpus) return plan;
  const std::int64_t each = on_one(in).effective_batch() / gpus;
  return {.micro_batch = each > 1 ? each : 1, .data_parallel = gpus};
}

std::size_t place_of(std::int64_t gpus) {
  std::size_t at = 0;
  while (counts[at] != gpus) ++at;
  return at;
}

}  // namespace

likely_runs::likely_runs(const inputs& in) : per_gpu_(in.per_gpu) {
  const roofline_time measured = step_on(in, in.a6000_device, 1);
  for (const h100_card card : h100_cards)
    for (const std::int64_t gpus : counts) {
      const batch_plan plan = plan_on(in, gpus);
      const auto longer = step_ratio(
          measured, on_one(in), step_on(in, card == sxm5 ? in.h100_sxm : in.h100_pcie, gpus), plan);
      const double batches = static_cast<double>(plan.effective_batch()) /
                             static_cast<double>(on_one(in).effective_batch());
      times_as_long_[card][place_of(gpus)] = {longer.low / batches, longer.high / batches};
    }
}

range<duration> likely_runs::time(h100_card card, duration reference, std::int64_t gpus) const {
  const range<double> times = times_as_long_[card][place_of(gpus)];
  return {times.low() * reference, times.high() * reference};
}

range<gpuplan::money> likely_runs::cost(h100_card card,
                                        duration reference,
                                        std::int64_t gpus) const {
  return *gpuplan::cost(time(card, reference, gpus), gpus, per_gpu_);
}

std::string finding_of_the_hours(const inputs& in, const likely_runs& likely) {
  std::string all =
      "By a step of its language model on either card, and of the guide the A6000's hours alone, "
      "80 % of such runs take ";
  for (const h100_card card : h100_cards) {
    std::string outside;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const shown hours =
          span_of(in_hours(likely.time(card, on_a6000(in), counts[i])), i < 2 ? 0 : 1);
      all += (i == 0 ? "" : i + 1 < counts.size() ? ", " : " and ") + text(hours);
      if (judge(number(documented_hours[i], 0), hours) == verdict::agrees) continue;
      outside += (outside.empty() ? "" : ", ") + decimal(documented_hours[i], 0);
    }
    all += std::string(" h on 1, 2, 4 and 8 ") + name(card) + " cards" +
           (outside.empty() ? ", where the guide's lie"
                            : ", of which the guide's " + outside + " h are outside") +
           (card == sxm5 ? ", and " : ".");
  }
  const range<duration> one = likely.time(pcie, on_a6000(in), 1);
  const auto gain = [](double times) { return decimal(times, 1); };
  return all + " A PCIe card is " + gain(on_a6000(in) / one.high()) + " to " +
         gain(on_a6000(in) / one.low()) + " times as fast as an A6000, not " +
         decimal(in.speedup, 0) + ".";
}

}  // namespace guides::a6000_to_h100
