// The core against other ways to the same answer, on descriptions that the bytes choose: batches
// against brute force, counts against the model's code, memory against the replay of all layers and
// the allocator, times on faster devices, plans against the time of each. The first byte says
// which.

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/flops.hpp>
#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/planner.hpp>
#include <gpuplan/replay.hpp>
#include <gpuplan/replay/counts.hpp>
#include <gpuplan/solver.hpp>
#include <gpuplan/time/roofline.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <span>

#include "random_model.hpp"
#include "random_step.hpp"

using namespace gpuplan;

namespace {

// The numbers that the bytes are; behind the last, the least.
class bytes_as_dice {
 public:
  explicit bytes_as_dice(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  std::int64_t from(std::int64_t low, std::int64_t high) {
    const auto count = static_cast<std::uint64_t>(high - low) + 1;
    std::uint64_t number = 0;
    for (std::uint64_t rest = count - 1; rest != 0; rest >>= 8) number = number << 8 | byte();
    return low + static_cast<std::int64_t>(number % count);
  }
  bool one_in(std::int64_t count) { return from(1, count) == 1; }
  bool coin() { return one_in(2); }
  template <class List>
  const auto& one_of(const List& list) {
    return list[static_cast<std::size_t>(from(0, static_cast<std::int64_t>(std::size(list)) - 1))];
  }

 private:
  std::uint64_t byte() {
    if (bytes_.empty()) return 0;
    const std::uint8_t first = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return first;
  }

  std::span<const std::uint8_t> bytes_;
};

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "core: %s\n", what);
  std::abort();
}

void solve(bytes_as_dice& roll) {
  const std::int64_t low = roll.from(1, 600);
  const batch_request request{.effective_batch = {low, low + roll.from(0, 300)},
                              .data_parallel = roll.from(1, 70),
                              .gpu = bytes::from_value(static_cast<double>(roll.from(1, 4000)))};
  const affine_memory memory{bytes::from_value(static_cast<double>(roll.from(0, 2000))),
                             bytes::from_value(static_cast<double>(roll.from(1, 300)))};
  const auto found = solve_batch(request, memory);
  batch_plan best{0, request.data_parallel, 0};
  for (std::int64_t micro = 1; micro <= request.effective_batch.high(); ++micro) {
    if (memory.required({micro}) > request.gpu.size()) break;
    for (std::int64_t times = 1;
         micro * request.data_parallel * times <= request.effective_batch.high();
         ++times) {
      const batch_plan plan{micro, request.data_parallel, times};
      if (plan.effective_batch() < request.effective_batch.low()) continue;
      const bool is_better =
          best.micro_batch < micro || best.effective_batch() < plan.effective_batch();
      if (is_better) best = plan;
    }
  }
  require(static_cast<bool>(found) == (best.micro_batch != 0),
          "a batch is solved, or there is none");
  require(!found || *found == best, "the batch is the one that brute force finds");
}

void count(bytes_as_dice& roll) {
  const transformer model = random_model(roll);
  const training_pass pass = random_pass(roll, model);
  if (!validate(model) || !validate(pass, model)) return;
  const parameter_counts all = parameters(model);
  require(all.total() > 0, "a model has parameters");
  const flop_counts once = flops(model, pass);
  for (int at = 0; at < operator_kinds; ++at) {
    const operator_flops& of = once[static_cast<operator_kind>(at)];
    require(of.forward >= 0 && of.backward >= 0 && of.recomputed >= 0,
            "operations are not negative");
  }
  require(std::isfinite(once.hardware().value()), "operations are finite");
  const std::int64_t trains = trainable_parameters(model, pass.trains);
  require(trains >= 0, "trainable parameters are not negative");
  require(pass.trains.what != training::full || trains == all.total(), "all train where all do");
  // The layers of the stages of a pipeline are those of the model.
  // Those whose last stage has no copy of the token table.
  if (model.kind == model_kind::encoder_decoder || model.tied_embeddings || model.mtp_layers != 0)
    return;
  parallelism layout{.pipeline_parallel = roll.from(1, model.layers())};
  if (!validate(layout, model.layers())) return;
  std::int64_t sum = 0;
  for (std::int64_t stage = 0; stage < layout.pipeline_parallel; ++stage)
    sum += parameters(model, layout, {.stage = stage}).total();
  require(sum == all.total(), "stages have the model's parameters together");
}

transformer cut(transformer model, std::int64_t layers) {
  if (model.num_decoder_layers != 0) model.num_decoder_layers = layers;
  model.num_hidden_layers = layers;
  return model;
}

training_setup random_setup(bytes_as_dice& roll) {
  static const transformer models[] = {catalog::gpt2,
                                       catalog::llama_3_8b,
                                       catalog::mixtral_8x7b_v0_1,
                                       catalog::bert_base_uncased,
                                       catalog::t5_small,
                                       catalog::vit_base_patch16_224,
                                       catalog::deepseek_v3};
  static const precision_recipe recipes[] = {
      fp32_precision, bf16_mixed, bf16_megatron, bf16_master};
  training_setup setup{.model = cut(roll.one_of(models), roll.from(1, 5)),
                       .sequence_length = 16 * roll.from(1, 40),
                       .encodings = roll.from(1, 3),
                       .precision = roll.one_of(recipes),
                       .framework = *roll.one_of(catalog::all_frameworks)};
  if (setup.model.kind == model_kind::vision) setup.sequence_length = 0;
  if (roll.one_in(3)) setup.target_length = roll.from(1, 200);
  setup.optimizer.kind = static_cast<optimizer_kind>(roll.from(0, 7));
  setup.optimizer.loop = static_cast<optimizer_loop>(roll.from(0, 2));
  setup.optimizer.clips_gradients = roll.coin();
  setup.recompute = static_cast<recompute_mode>(roll.from(0, 2));
  setup.attention = static_cast<attention_kernel>(roll.from(0, 4));
  setup.parallelism = {.tensor_parallel = roll.from(1, 4),
                       .pipeline_parallel = roll.from(1, 3),
                       .expert_parallel = roll.from(1, 2),
                       .context_parallel = roll.from(1, 2),
                       .sequence_parallel = roll.coin(),
                       .zero_stage = static_cast<int>(roll.from(0, 3))};
  if (roll.coin()) setup.parallelism.tensor_parallel = setup.parallelism.pipeline_parallel = 1;
  if (roll.coin()) setup.parallelism.context_parallel = setup.parallelism.expert_parallel = 1;
  if (roll.one_in(3)) setup.dropout = 0.1;
  return setup;
}

void remember(bytes_as_dice& roll) {
  const training_setup setup = random_setup(roll);
  const batch_plan plan{roll.from(1, 6), roll.from(1, 8), roll.from(1, 4)};
  const transformer_memory memory{setup};
  const bool is_valid = validate(memory) && validate(memory, plan);
  const auto step = replay(setup, plan, 3);
  require(static_cast<bool>(step) == is_valid, "what is valid is replayed");
  if (!is_valid) return;
  const step_peaks peaks = peaks_of(setup, plan);
  require(peaks.peak().total > 0, "a step takes memory");
  const engine_class* const engine = setup.framework.engine.is;
  const bool repeats =
      engine == &engine_classes::ddp || engine == &engine_classes::fsdp2;  // exactly, as it says
  require(!repeats || setup.graphs.any() || peaks.peak().total == step->peak.requested,
          "a few layers tell what all ask for");
  batch_plan more = plan;
  ++more.micro_batch;
  if (validate(memory, more))
    require(memory.required(plan) <= memory.required(more), "memory rises with the batch");
  const auto again = replay(setup, plan, 3, step->peak.reserved);
  require(again->fits, "a step fits into what it reserved");
  require(!replay(setup, plan, 3, step->peak.allocated - 1)->fits,
          "a step does not fit into less than it was given");
  transformer trained = setup.trained_model();
  // DeepSeek's correction of what routers choose is a buffer in transformers.
  if (setup.framework.implementation.experts.corrects_choice && !trained.attention_sinks)
    trained.moe.router_bias = false;
  if (const auto counts = counts_of(setup, plan);
      counts && setup.parallelism.tensor_parallel == 1 &&
      setup.parallelism.pipeline_parallel == 1 && setup.parallelism.expert_parallel == 1)
    require(counts->parameters == parameters(trained).total(), "the code has the parameters");
}

void time(bytes_as_dice& roll) {
  random_step step = roll_step(roll);
  if (!validate(step.model) || !validate(step.model, step.plan)) return;
  const duration before = step.model.step(step.plan);
  require(std::isfinite(before.value()) && before > duration{}, "a step takes a time");
  const auto longest = before * (1 + 1e-12);
  roofline_time faster = step.model;
  faster.on.gpu.dense.bf16 = *faster.on.gpu.dense.bf16 * 1.3;
  require(faster.step(step.plan) <= longest, "no step is longer with faster products");
  faster = step.model;
  faster.on.gpu.memory_bandwidth = faster.on.gpu.memory_bandwidth * 1.3;
  require(faster.step(step.plan) <= longest, "no step is longer with faster memory");
  faster = step.model;
  faster.on.inside_node = *faster.on.inside_node * 1.5;
  require(faster.step(step.plan) <= longest, "no step is longer with a faster link");
  step.model.straggler_slowdown = 1.2;
  require(step.model.step(step.plan) >= before, "no step is shorter behind stragglers");
}

void plan(bytes_as_dice& roll) {
  static const framework* const frameworks[] = {&catalog::megatron_lm,
                                                &catalog::megatron_transformer_engine,
                                                &catalog::megatron_deepspeed,
                                                &catalog::torchtitan};
  const auto some = [&](std::int64_t most) {
    const std::int64_t first = roll.from(1, 2);
    return range<std::int64_t>{first, first + roll.from(0, most)};
  };
  plan_request request{
      .setup = {.model = cut(roll.coin() ? catalog::gpt2 : catalog::llama_3_8b, roll.from(1, 8)),
                .sequence_length = 512,
                .precision = bf16_megatron,
                .framework = *roll.one_of(frameworks)},
      .on = {.gpu = catalog::a100_sxm4_80gb,
             .nodes = roll.from(1, 3),
             .gpus_per_node = roll.from(1, 4),
             .between_nodes = 25_GBps},
      .efficiency = catalog::ampere,
      .effective_batch = some(24),
      .space = {.tensor_parallel = some(3),
                .pipeline_parallel = some(4),
                .virtual_pipeline = some(2),
                .zero_stage = range<std::int64_t>{0, roll.from(0, 3)},
                .recompute = roll.coin(),
                .micro_batch = some(4)},
      .goal = static_cast<plan_goal>(roll.from(0, 2))};
  if (roll.coin()) request.space.gpus = some(8);
  const auto memory_of = [](const training_setup& setup) {
    const auto held = static_cast<double>(parameters(setup.model, setup.parallelism, {}).total());
    const auto kept = static_cast<double>(setup.sequence_length * setup.model.hidden_size * 30);
    return affine_memory{bytes::from_value(16 * held), bytes::from_value(kept)};
  };
  const memory_budget budget(static_cast<double>(roll.from(1, 160)) * 1_GB);
  const auto found = plan_training(request, budget, memory_of, 1);
  request.evaluates_all = true;
  const auto all = plan_training(request, budget, memory_of, 1);
  require(static_cast<bool>(found) == static_cast<bool>(all), "bounds exclude no only plan");
  if (!found) return;
  const training_plan& best = found->best();
  const training_plan& other = all->best();
  require(best.gpus == other.gpus && best.layout == other.layout && best.batch == other.batch &&
              best.recompute == other.recompute,
          "bounds exclude no better plan");
  require(best.required <= budget.size(), "a plan fits");
  require(request.effective_batch.contains(best.batch.effective_batch()), "a plan has the batch");
  const duration step = time_of(request, best).step(best.batch);
  require(std::abs(step / best.step - 1) < 1e-12, "a plan takes its time");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static constexpr void (*all[])(bytes_as_dice&) = {solve, count, remember, time, plan};
  bytes_as_dice roll(std::span(data + 1, size - 1));
  all[data[0] % std::size(all)](roll);
  return 0;
}
