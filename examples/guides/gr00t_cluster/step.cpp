// Guide 000: the step as PyTorch takes it, by replay.

#include <gpuplan/catalog/frameworks/hugging_face.hpp>
#include <gpuplan/catalog/frameworks/hugging_face_composites.hpp>
#include <gpuplan/catalog/models/vla.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/replay/counts.hpp>
#include <gpuplan/training_setup.hpp>

#include <array>
#include <cstdint>
#include <map>

#include "guides/gr00t_cluster/tables.hpp"
#include "guides/memory.hpp"

namespace guides::gr00t_cluster {
namespace {

/// The action head in fp32 under autocast, Trainer's AdamW and clipping; vision and language
/// frozen, in bf16. On one GPU: what data parallelism adds is not in it.
struct step {
  composite_model model = catalog::gr00t_n1_5_3b;
  training_setup setup{};
  bytes idle{};  // SigLIP's pooling and the head of the language model, which lead to nothing

  step(const inputs& given, std::int64_t cameras) {
    const std::int64_t all = parameters(model).total();
    component& vision = model.parts[0];
    component& language = model.parts[1];
    vision.sequences = cameras;
    vision.next.tokens *= cameras;
    vision.model.attention_pooling = false;
    language.model.head = head_kind::none;
    vision.by = &catalog::hugging_face_siglip.implementation;
    language.by = &catalog::hugging_face_qwen.implementation;
    idle = (all - parameters(model).total()) * given.model.frozen_bytes * 1_B;
    setup.model = language.model;
    setup.framework = catalog::gr00t_n1_5;
    setup.precision = bf16_mixed;
    setup.optimizer.clips_gradients = true;
    setup.sequence_length = vision.next.tokens + given.model.text_tokens;
    setup.composite = &model;
  }
  step(const step&) = delete;
  step& operator=(const step&) = delete;
};

/// Each question is answered once: a report of other inputs asks most of them again.
enum question { memory_in_bytes, work_in_flops, most_samples };
double answer(question which,
              const inputs& given,
              std::int64_t cameras,
              const batch_plan& plan,
              card gpu = rtx_4090) {
  static std::map<std::array<std::int64_t, 7>, double> known;
  const auto [place, is_new] = known.try_emplace({which,
                                                  given.model.frozen_bytes,
                                                  given.model.text_tokens,
                                                  cameras,
                                                  plan.micro_batch,
                                                  plan.accumulation,
                                                  gpu});
  if (!is_new) return place->second;
  const step of(given, cameras);
  if (which == memory_in_bytes) {
    place->second = (peak_memory(of.setup, plan) + of.idle).value();
  } else if (which == work_in_flops) {
    place->second = counts_of(of.setup, plan).value_or_throw().model().value();
  } else {
    gpu_spec left = whole_card(gpu);
    left.memory = *left.memory - of.idle;
    place->second = static_cast<double>(largest_micro_batch(of.setup, plan, left));
  }
  return place->second;
}

range<bytes> over_cameras(const inputs& given, const batch_plan& plan) {
  const auto with = [&](std::int64_t cameras) {
    return bytes::from_value(answer(memory_in_bytes, given, cameras, plan));
  };
  return {with(given.model.cameras.low()), with(given.model.cameras.high())};
}

// On one GPU.
batch_plan alone(const strategy& s) {
  return {.micro_batch = s.micro_batch, .accumulation = s.accumulation};
}

}  // namespace

range<bytes> step_memory(const inputs& given, const strategy& s) {
  return over_cameras(given, alone(s));
}

range<bytes> sample_memory(const inputs& given) {
  const std::int64_t many = 32;  // with fewer the optimizer makes the peak
  const auto of = [&](std::int64_t samples) {
    return over_cameras(given, {.micro_batch = samples, .accumulation = 2});
  };
  const range<bytes> few = of(many);
  const range<bytes> more = of(2 * many);
  return {(more.low() - few.low()) / static_cast<double>(many),
          (more.high() - few.high()) / static_cast<double>(many)};
}

shown largest_step(const inputs& given, const strategy& s) {
  const auto with = [&](std::int64_t cameras) {
    const batch_plan plan{.accumulation = s.accumulation};
    return static_cast<std::int64_t>(answer(most_samples, given, cameras, plan, s.gpu));
  };
  const std::int64_t most = with(given.model.cameras.low());
  if (most == 0) return word("none fits");
  return span_of(range<std::int64_t>(with(given.model.cameras.high()), most));
}

range<flop_count> sample_work(const inputs& given) {
  const auto with = [&](std::int64_t cameras) {
    return flop_count::from_value(answer(work_in_flops, given, cameras, {}));
  };
  return {with(given.model.cameras.low()), with(given.model.cameras.high())};
}

}  // namespace guides::gr00t_cluster
