// Experts whose width ranks divide (expert_tensor_parallel_size): the mixture of Megatron-Core
// 0.16.1 alone, its all-to-all dispatcher on a device whose kernels do nothing, replayed. What
// Transformer Engine's permutations, grouped products and activation allocate stood in for them.
// Bytes are requests to PyTorch 2.15's allocator, over those before the forward.

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/memory/layouts.hpp>
#include <gpuplan/memory/profile.hpp>
#include <gpuplan/planner.hpp>
#include <gpuplan/replay.hpp>
#include <gpuplan/time/roofline.hpp>

#include <cmath>
#include <cstdint>
#include <string>

#include "check.hpp"

using namespace gpuplan;

namespace {

struct ranks_of_layer {
  std::int64_t tensor = 1, expert = 1, parts = 1;
};
struct mixture_size {
  std::int64_t hidden = 0, inner = 0, experts = 0, chosen = 0;
};
struct measured_mixture {
  ranks_of_layer ranks{};
  mixture_size size{};
  std::int64_t tokens = 0;
  double capacity = 1;
  std::int64_t micro_batch = 1;
  std::int64_t in_forward = 0, behind_forward = 0, in_backward = 0, behind_backward = 0;
};

training_setup setup_of(const ranks_of_layer& ranks,
                        const mixture_size& size,
                        std::int64_t tokens,
                        double capacity = 1) {
  training_setup setup;
  setup.framework = catalog::megatron_transformer_engine;
  setup.model = {.num_hidden_layers = 2,
                 .hidden_size = size.hidden,
                 .intermediate_size = 1024,
                 .num_attention_heads = 8,
                 .num_key_value_heads = 8,
                 .vocab_size = 2048,
                 .fused_qkv = true,
                 .moe = {.num_experts = size.experts,
                         .num_experts_per_tok = size.chosen,
                         .moe_intermediate_size = size.inner}};
  setup.sequence_length = tokens;
  setup.expert_capacity = capacity;
  setup.precision = bf16_megatron;
  setup.optimizer.loop = optimizer_loop::fused;
  setup.optimizer.clips_gradients = true;
  setup.attention = attention_kernel::flash;
  setup.parallelism = {.tensor_parallel = ranks.tensor,
                       .expert_parallel = ranks.expert,
                       .expert_tensor_parallel = ranks.parts,
                       .sequence_parallel = ranks.tensor > 1,
                       .zero_stage = 1};
  return setup;
}

// Adds up what is asked for.
class sums final : public eager::memory_events {
 public:
  int allocate(std::int64_t bytes, int /*stream*/) override {
    now += bytes;
    if (now > most) most = now;
    return sizes_.push(bytes);
  }
  void release(int block) override { now -= sizes_[block]; }

  std::int64_t now = 0;
  std::int64_t most = 0;

 private:
  eager::growing_array<std::int64_t> sizes_{};
};

// A router, its dispatcher and experts.
class mixture_alone final : public eager::megatron_experts {
 public:
  using megatron_experts::megatron_experts;

  void construct() override {
    modules_ = make_experts();
    given_ = on_device({own_tokens() / tp_, plan.micro_batch, model.hidden_size});
    for (int at = 0; at < t.parameters.size(); ++at) {
      eager::tensor& data = t.parameters[at].data;
      if (!data.defined()) data.storage = t.new_storage(data.bytes());
      t.convert(data, eager::element::bf16);
    }
  }
  void make_batch() override {}
  eager::value forward() override { return mixture(t.parameter(given_), modules_); }

 protected:
  eager::value layer(int /*index*/, const eager::tensor& /*x*/) override { return {}; }
  eager::value run_region(const eager::tensor* /*inputs*/,
                          int /*count*/,
                          int /*first*/,
                          int /*last*/) override {
    return {};
  }

 private:
  expert_modules modules_{};
  int given_ = eager::none;
};

training_setup setup_of(const measured_mixture& like) {
  return setup_of(like.ranks, like.size, like.tokens, like.capacity);
}
measured_mixture replayed(const measured_mixture& like, const training_setup& setup) {
  measured_mixture made = like;
  sums memory;
  eager::tape t(memory, {.matrix_workspace = 0, .bias_workspace = 0});
  mixture_alone code(t, setup, {.micro_batch = like.micro_batch});
  code.construct();
  for (int step = 0; step < 2; ++step) {
    for (int at = 0; at < t.parameters.size(); ++at) {
      t.release(t.parameters[at].gradient.storage);
      t.parameters[at].gradient = {};
    }
    const std::int64_t before = memory.now;
    memory.most = before;
    const eager::value out = code.forward();
    made.in_forward = memory.most - before;
    made.behind_forward = memory.now - before;
    memory.most = memory.now;
    t.backward(out);
    made.in_backward = memory.most - before;
    made.behind_backward = memory.now - before;
    t.drop_leaves();
  }
  return made;
}

const measured_mixture measured[] = {
    {{1, 2, 1}, {512, 256, 8, 2}, 256, 1, 1, 3416064, 1580032, 2890752, 532480},
    {{2, 2, 1}, {512, 256, 8, 2}, 256, 1, 1, 1708032, 790016, 1445376, 270336},
    {{2, 2, 2}, {512, 256, 8, 2}, 256, 1, 1, 2757120, 1052672, 2232320, 270336},
    {{2, 1, 2}, {512, 256, 8, 2}, 256, 1, 1, 2494976, 1052672, 2232320, 270336},
    {{4, 2, 4}, {1024, 512, 8, 2}, 2048, 1, 1, 34625536, 12603392, 30429184, 2113536},
    {{4, 1, 4}, {1024, 512, 8, 2}, 2048, 1, 1, 32528384, 12603392, 30429184, 2113536},
    {{4, 8, 4}, {1024, 512, 8, 2}, 2048, 1, 1, 26236928, 12603392, 24137728, 2113536},
    {{4, 2, 2}, {1024, 512, 8, 2}, 2048, 1, 2, 44077056, 16809984, 35684352, 4210688},
    {{2, 2, 4}, {1024, 512, 8, 3}, 2048, 1.5, 1, 155796480, 54075392, 131670016, 4210688},
    {{1, 2, 2}, {1024, 64, 64, 6}, 1024, 2, 1, 231358464, 57270272, 160030720, 4325376},
    {{8, 4, 8}, {2048, 768, 128, 8}, 4096, 1, 2, 943964160, 310607872, 851673088, 8912896},
};

TEST_CASE("what ranks with parts of experts allocate is replayed to the byte") {
  for (const measured_mixture& one : measured) {
    const measured_mixture made = replayed(one, setup_of(one));
    CAPTURE(one.ranks.tensor);
    CAPTURE(one.ranks.expert);
    CAPTURE(one.ranks.parts);
    CHECK(made.in_forward == one.in_forward);
    CHECK(made.behind_forward == one.behind_forward);
    CHECK(made.in_backward == one.in_backward);
    CHECK(made.behind_backward == one.behind_backward);
  }
}

constexpr mixture_size of_eight{.hidden = 512, .inner = 1024, .experts = 8, .chosen = 2};

TEST_CASE("ranks have all parts of all experts together, once") {
  for (const transformer& model : {catalog::mixtral_8x7b_v0_1, catalog::deepseek_v2_lite}) {
    const std::int64_t all = parameters(model).experts;
    for (const std::int64_t tensor : {1, 2, 4})
      for (const std::int64_t expert : {1, 2, 8})
        for (const std::int64_t parts : {1, 2, 4}) {
          const parallelism layout{.tensor_parallel = tensor,
                                   .expert_parallel = expert,
                                   .expert_tensor_parallel = parts};
          if (expert == 1 && parts != tensor) continue;
          const parameter_counts held = parameters(model, layout, {});
          CHECK(held.experts * expert * parts == all);
          CHECK(held.total() - held.experts ==
                parameters(model, {.tensor_parallel = tensor}, {}).total() -
                    parameters(model, {.tensor_parallel = tensor}, {}).experts);
        }
  }
}

TEST_CASE("the sum of a step's requests is the replay's, and no less than is known of it") {
  const transformer_memory_of memory_of{.fragmentation = 0};
  for (const ranks_of_layer& ranks : {ranks_of_layer{2, 1, 2},
                                      ranks_of_layer{2, 2, 1},
                                      ranks_of_layer{2, 2, 2},
                                      ranks_of_layer{4, 2, 2},
                                      ranks_of_layer{2, 4, 4},
                                      ranks_of_layer{1, 2, 2}})
    for (const bool computes_again : {false, true}) {
      training_setup setup = setup_of(ranks, of_eight, 1024);
      if (computes_again) {
        setup.recompute = recompute_mode::selective;
        setup.modules = {.core_attention = false, .expert_activation = true};
      }
      const batch_plan plan{.micro_batch = 8, .data_parallel = 8, .accumulation = 2};
      CAPTURE(ranks.tensor);
      CAPTURE(ranks.expert);
      CAPTURE(ranks.parts);
      REQUIRE(validate(setup, plan));
      const std::int64_t requested = replay(setup, plan)->peak.requested;
      CHECK(peaks_of(setup, plan).peak().total == requested);
      const double needed = memory_of(setup).required(plan).value();
      const double known = memory_of.at_least(setup, plan).value();
      CHECK(known <= needed);
      CHECK(known > 0.85 * needed);
    }
}

TEST_CASE("experts that clamp gate and up keep both once more, unless they compute them again") {
  for (const bool computes_again : {false, true}) {
    CAPTURE(computes_again);
    measured_mixture one{.ranks = {2, 2, 2}, .size = of_eight, .tokens = 1024, .micro_batch = 4};
    training_setup setup = setup_of(one);
    if (computes_again) {
      setup.recompute = recompute_mode::selective;
      setup.modules = {.core_attention = false, .expert_activation = true};
    }
    const batch_plan plan{.micro_batch = one.micro_batch, .data_parallel = 8};
    const std::int64_t without = replayed(one, setup).behind_forward;
    setup.model.clamped_gate_up = true;
    REQUIRE(validate(setup, plan));
    const std::int64_t rows = one.micro_batch * 1024 * of_eight.chosen;
    const std::int64_t both = computes_again ? 0 : 2 * 2 * of_eight.inner / one.ranks.parts;
    CHECK(replayed(one, setup).behind_forward - without == rows * both);
  }
}

TEST_CASE("a profile has parts of experts too") {
  const transformer_memory memory{.setup = setup_of({2, 2, 2}, of_eight, 1024)};
  const memory_profile profile(memory, 8);
  for (const std::int64_t micro_batch : {1, 2, 3, 16}) {
    const batch_plan plan{.micro_batch = micro_batch, .data_parallel = 8};
    CHECK(std::abs(profile.required(plan) / memory.required(plan) - 1) < 1e-6);
  }
}

TEST_CASE("states of experts are shared by the ranks that have the same parts") {
  const batch_plan plan{.data_parallel = 8};
  const auto bytes_before = [&](std::int64_t parts) {
    training_setup setup = setup_of({4, 2, parts}, of_eight, 256);
    setup.model.moe.moe_intermediate_size = 1 << 16;
    REQUIRE(validate(setup, plan));
    return static_cast<double>(replay(setup, plan)->before.allocated);
  };
  // 16 ranks share whole experts, 4 each quarter: of weights, of gradients and of what autograd is
  // given for one of eight experts' a quarter is there, of masters and moments as many.
  training_setup setup = setup_of({4, 2, 1}, of_eight, 256);
  setup.model.moe.moe_intermediate_size = 1 << 16;
  const auto experts = static_cast<double>(parameters(setup.model, setup.parallelism, {}).experts);
  CHECK(std::abs((bytes_before(1) - bytes_before(4)) / (experts * (2 + 4 + 2.0 / 8) * 3 / 4) - 1) <
        1e-3);
}

TEST_CASE("rows of experts in parts are gathered and added up, and products are narrower") {
  const auto step = [](std::int64_t parts, std::int64_t expert = 4) {
    training_setup setup{.model = catalog::mixtral_8x7b_v0_1,
                         .sequence_length = 4096,
                         .precision = bf16_megatron,
                         .parallelism = {.tensor_parallel = 8,
                                         .expert_parallel = expert,
                                         .expert_tensor_parallel = parts,
                                         .sequence_parallel = true,
                                         .zero_stage = 1},
                         .framework = catalog::megatron_transformer_engine};
    setup.model.num_hidden_layers = 4;
    const roofline_time time{.setup = setup,
                             .on = {.gpu = catalog::h100_sxm5_80gb,
                                    .nodes = 8,
                                    .gpus_per_node = 8,
                                    .between_nodes = 400_GBps},
                             .efficiency = catalog::hopper};
    const batch_plan plan{.micro_batch = 2, .data_parallel = 8};
    REQUIRE(validate(time, plan));
    return time.breakdown(plan);
  };
  // Inside a node gathering eight parts is more than nothing; the products are as many.
  CHECK(step(8, 1).expert_communication > 0_s);
  CHECK(step(2).expert_communication > step(1).expert_communication);
  CHECK(step(2).forward > 0.95 * step(1).forward);
  CHECK(step(2).forward < 1.1 * step(1).forward);
  // Half as many of each expert's elements lie on a rank, and are stepped by half as many ranks.
  CHECK(step(8).optimizer > 0.9 * step(1).optimizer);
  CHECK(step(8).optimizer < 1.1 * step(1).optimizer);
}

std::string why(const training_setup& setup, const batch_plan& plan = {.data_parallel = 8}) {
  return failure_text(validate(setup, plan).why()).c_str();
}

TEST_CASE("parts of experts are refused beside what they are not taken with") {
  CHECK(validate(setup_of({2, 1, 2}, of_eight, 256)));
  CHECK(why(setup_of({2, 1, 1}, of_eight, 256)) ==
        "expert_tensor_parallel 1 is not taken beside tensor_parallel 2, expert_parallel 1; 2 is");
  CHECK(why(setup_of({2, 1, 4}, of_eight, 256)) ==
        "expert_tensor_parallel 4 is not taken beside tensor_parallel 2, expert_parallel 1; 2 is");
  training_setup dense = setup_of({1, 1, 2}, of_eight, 256);
  dense.model.moe = {};
  CHECK(why(dense) == "expert_tensor_parallel 2 is not taken beside num_experts 0; 1 is");
  training_setup biased = setup_of({2, 2, 2}, of_eight, 256);
  biased.model.mlp_bias = true;
  CHECK(why(biased) == "expert_tensor_parallel 2 is not taken beside mlp_bias true; 1 is");
  training_setup sent_by_deepep = setup_of({2, 2, 2}, of_eight, 256);
  sent_by_deepep.dispatcher = token_dispatcher::deepep;
  CHECK(why(sent_by_deepep) ==
        "expert_tensor_parallel 2 is not taken beside dispatcher deepep; 1 is");
  training_setup odd = setup_of({2, 2, 3}, of_eight, 256);
  CHECK(why(odd) ==
        "expert_tensor_parallel 3 does not divide moe_intermediate_size 1024; 1, 2, 4, 8, 16 or "
        "32 do");
  CHECK(why(setup_of({2, 8, 4}, of_eight, 256)) ==
        "ranks_of_experts 32 does not divide context_ranks 16; 2, 4, 8 or 16 do");
  training_setup by_torch{.model = catalog::qwen3_30b_a3b,
                          .sequence_length = 4096,
                          .precision = bf16_mixed,
                          .parallelism = {.expert_parallel = 2, .zero_stage = 3},
                          .framework = catalog::torchtitan_2026};
  CHECK(validate(by_torch));
  by_torch.parallelism.expert_tensor_parallel = 2;
  CHECK(failure_text(validate(by_torch).why()).c_str() ==
        std::string("expert_tensor_parallel 2 is not taken beside layers torchtitan_2026; 1 is"));
}

TEST_CASE("the planner keeps to the parts that are asked for") {
  training_setup setup{.model = catalog::mixtral_8x7b_v0_1,
                       .sequence_length = 4096,
                       .precision = bf16_megatron,
                       .parallelism = {.expert_tensor_parallel = 2, .zero_stage = 1},
                       .framework = catalog::megatron_transformer_engine};
  const auto layouts = [&](std::int64_t tensor, std::int64_t expert) {
    plan_request request{.setup = setup,
                         .on = {.gpu = catalog::h100_sxm5_80gb,
                                .nodes = 4,
                                .gpus_per_node = 8,
                                .between_nodes = 400_GBps},
                         .efficiency = catalog::hopper,
                         .effective_batch = {256},
                         .space = {.tensor_parallel = range<std::int64_t>(tensor),
                                   .expert_parallel = range<std::int64_t>(expert),
                                   .recompute = true,
                                   .sequence_parallel = true}};
    const auto found = plan_training(request, memory_budget(1000_TB), transformer_memory_of{}, 1);
    REQUIRE(found);
    return found->best().layout;
  };
  CHECK(layouts(4, 4).expert_tensor_parallel == 2);
  // Where none shares the experts, ranks have as many parts of them as of other weights.
  CHECK(layouts(8, 1).expert_tensor_parallel == 8);
}

}  // namespace
