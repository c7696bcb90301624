// Guide 000: the hours that its GPUs would work, by a step's time.

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/frameworks/hugging_face.hpp>
#include <gpuplan/catalog/models/vla.hpp>
#include <gpuplan/flops.hpp>
#include <gpuplan/time/stack_numbers.hpp>

#include <cstdint>
#include <string>

#include "guides/gr00t_cluster/tables.hpp"

namespace guides::gr00t_cluster {
namespace {

/// The time of a step made of several models is not estimated. Training all of GR00T's language
/// model computes as much as GR00T's step, whose frozen parts go forward alone and whose action
/// head goes back, and exchanges nearly as many gradients.
training_setup stand_in(const inputs& given, std::int64_t cameras, const gpu_spec& gpu) {
  const component& vision = catalog::gr00t_n1_5_3b.parts[0];
  training_setup setup{
      .model = catalog::gr00t_n1_5_3b.parts[1].model,
      .sequence_length = vision.next.tokens * cameras + given.model.text_tokens,
      .precision = peak(gpu, number_format::bf16) ? bf16_mixed : fp16_mixed,
      .framework = catalog::hugging_face_qwen,
  };
  setup.model.head = head_kind::none;
  setup.optimizer.clips_gradients = true;
  return setup;
}

time_interval step_of(const inputs& given,
                      card kind,
                      const batch_plan& plan,
                      std::int64_t cameras) {
  const gpu_spec gpu = whole_card(kind);
  const roofline_time model{.setup = stand_in(given, cameras, gpu),
                            .on = {.gpu = gpu, .gpus_per_node = plan.data_parallel},
                            .efficiency = catalog::efficiency_of(gpu)};
  return step_interval(model, plan);
}

}  // namespace

double stand_in_works(const inputs& given) {
  const auto of = [&](std::int64_t cameras) {
    const training_setup setup = stand_in(given, cameras, catalog::rtx_4090);
    return flops(setup.model, {.sequence_length = setup.sequence_length}).model();
  };
  const range<flop_count> all = sample_work(given);
  return (of(given.model.cameras.low()) + of(given.model.cameras.high())) /
         (all.low() + all.high());
}

range<duration> gpus_work(const inputs& given,
                          card kind,
                          const batch_plan& plan,
                          std::int64_t steps) {
  const auto all = static_cast<double>(steps);
  return {all * step_of(given, kind, plan, given.model.cameras.low()).low,
          all * step_of(given, kind, plan, given.model.cameras.high()).high};
}

std::string finding_of_the_hours(const inputs& given) {
  std::string all = "The GPUs' own work of " + std::to_string(given.steps) + " steps takes ";
  std::string documented;
  bool may_be_theirs = true;
  for (int i = 0; i < 3; ++i) {
    const strategy& s = given.strategies[i];
    const char* between = i == 0 ? "" : i == 1 ? ", " : " and ";
    const range<duration> work = gpus_work(given, s.gpu, plan_of(given, s), given.steps);
    may_be_theirs = may_be_theirs && work.contains(s.hours);
    all += between + gr00t_cluster::between(hours(work), 1);
    documented += between + gr00t_cluster::between(hours(s.hours), 0);
  }
  if (may_be_theirs)
    return all + " h in 80 % of cases, and the guide's " + documented +
           " h lie therein: how fast these cards exchange gradients nobody says. Measure it with "
           "nccl-tests. Where the GPUs' utilisation is low, a step waits for its data instead, "
           "videos that the CPU decodes.";
  return all + " h in 80 % of cases, not " + documented +
         " h: the guide's hours, if measured, are of a step that waits for something else, most "
         "likely for its data, videos that the CPU decodes. Look at the GPUs' utilisation before "
         "you wait for faster ones.";
}

}  // namespace guides::gr00t_cluster
