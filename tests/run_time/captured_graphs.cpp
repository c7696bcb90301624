#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/memory/layouts.hpp>
#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/time/roofline.hpp>

#include <cstdint>
#include <string_view>

#include "check.hpp"

using namespace gpuplan;

namespace {

constexpr std::int64_t read_tokens = 512;

// So narrow that kernels wait for the host.
training_setup launched(bool has_experts) {
  training_setup setup{.model = {.num_hidden_layers = 4,
                                 .hidden_size = 256,
                                 .intermediate_size = 512,
                                 .num_attention_heads = 4,
                                 .vocab_size = 512},
                       .sequence_length = read_tokens,
                       .precision = bf16_megatron,
                       .parallelism = {.zero_stage = 1},
                       .framework = catalog::megatron_transformer_engine};
  setup.framework.costs.host_per_step = duration{};
  if (has_experts)
    setup.model.moe = {.num_experts = 4, .num_experts_per_tok = 2, .moe_intermediate_size = 256};
  return setup;
}
double host_of(const training_setup& setup) {
  const roofline_time time{.setup = setup,
                           .on = {.gpu = catalog::h100_sxm5_80gb, .nodes = 1, .gpus_per_node = 1},
                           .efficiency = catalog::efficiency_of(catalog::h100_sxm5_80gb)};
  CHECK(validate(time));
  return time.breakdown({.micro_batch = 1, .accumulation = 2}).host.value();
}
bool refuses(const training_setup& setup, std::string_view what) {
  const auto valid = validate(setup);
  return !valid && std::string_view(failure_text(valid.why()).c_str()) == what;
}

}  // namespace

TEST_CASE("graphs take launches off the host") {
  for (const bool has_experts : {false, true}) {
    training_setup setup = launched(has_experts);
    const double whole = host_of(setup);
    CHECK(whole > 0);
    setup.graphs = {.attention = true};
    const double without_attention = host_of(setup);
    CHECK(without_attention < whole);
    (has_experts ? setup.graphs.router : setup.graphs.mlp) = true;
    CHECK(host_of(setup) < without_attention);
    // what routes tokens to experts, and these, stay outside
    CHECK(has_experts == (host_of(setup) > 0.2 * whole));
    setup.graphs = {.iteration = true};
    CHECK(host_of(setup) == 0);
  }
}

TEST_CASE("the host launches the passes of torchtitan 0.3 at once") {
  training_setup setup = launched(false);
  setup.precision = bf16_mixed;
  setup.model.gated_mlp = true;
  setup.parallelism.zero_stage = 3;
  setup.framework = catalog::torchtitan_2026;
  setup.framework.costs.host_per_step = duration{};
  const double whole = host_of(setup);
  setup.graphs = {.iteration = true};
  CHECK(host_of(setup) < whole);
  setup.graphs = {.mlp = true};
  CHECK(refuses(setup, "graph_of_mlp true is not taken beside layers torchtitan_2026; false is"));
}

TEST_CASE("graphs of layers that have one part each") {
  training_setup setup = launched(true);
  setup.model.hybrid_pattern = {"MEM*"};
  setup.model.mamba = {.num_heads = 8, .head_dim = 64, .state_size = 64};
  CHECK(validate(setup.model));
  double last = host_of(setup);
  for (bool captured_parts::*part :
       {&captured_parts::state_spaces, &captured_parts::attention, &captured_parts::router}) {
    setup.graphs.*part = true;
    CHECK(validate(setup));
    CHECK(host_of(setup) < last);
    last = host_of(setup);
  }
  CHECK(last > 0);
  setup.model.hybrid_pattern = {};
  setup.model.mamba = {};
  CHECK(
      refuses(setup, "graph_of_state_spaces true is not taken beside mamba_num_heads 0; false is"));
}

TEST_CASE("graphs have pools of their own") {
  for (const std::int64_t micro_batch : {1, 4}) {
    const batch_plan plan{.micro_batch = micro_batch, .accumulation = 3};
    training_setup setup = launched(false);
    const step_peaks before = peaks_of(setup, plan);
    const auto working = [](const step_peaks& of, step_moment at) {
      return of.at[static_cast<int>(at)].of[static_cast<int>(memory_part::working)];
    };
    setup.graphs = {.iteration = true};
    const step_peaks peaks = peaks_of(setup, plan);
    const std::int64_t batches = 2 * micro_batch * read_tokens * 28;
    for (int at = 0; at < step_moments; ++at) {
      if (before.at[at].total == 0) continue;
      const bool is_last = static_cast<step_moment>(at) == step_moment::optimizer;
      const std::int64_t more = is_last ? 0 : working(before, step_moment::optimizer);
      CHECK(peaks.at[at].total == before.at[at].total + batches + more);
    }
    const transformer_memory_of ask{};
    CHECK(ask.at_least(setup, plan) <= ask(setup).required(plan));
    // Of layers' parts, at most the working memory once more, but where the optimizer runs.
    setup.graphs = {.attention = true};
    const step_peaks beside = peaks_of(setup, plan);
    for (int at = 0; at < step_moments; ++at) {
      if (before.at[at].total == 0) continue;
      const bool is_last = static_cast<step_moment>(at) == step_moment::optimizer;
      const std::int64_t more = is_last ? 0 : working(before, static_cast<step_moment>(at));
      CHECK(beside.at[at].total == before.at[at].total + more);
      CHECK(working(beside, static_cast<step_moment>(at)) ==
            working(before, static_cast<step_moment>(at)) + more);
    }
  }
}

TEST_CASE("which graphs there are") {
  training_setup dense = launched(false), experts = launched(true);
  dense.graphs = {.router = true};
  CHECK(refuses(dense, "graph_of_router true is not taken beside num_experts 0; false is"));
  experts.graphs = {.mlp = true};
  CHECK(refuses(experts, "graph_of_mlp true is not taken beside num_experts 4; false is"));
  experts.graphs = {.dispatch = true};
  CHECK(refuses(experts,
                "graph_of_dispatch true is not taken beside graph_of_router false; false is"));
  experts.graphs = {.attention = true, .router = true, .dispatch = true};
  CHECK(validate(experts));
  experts.recompute = recompute_mode::full;
  CHECK(refuses(experts,
                "recompute full is not taken beside graph_of_attention true; none or selective "
                "is"));
  experts.graphs = {.iteration = true};
  CHECK(validate(experts));
  experts.graphs.attention = true;
  CHECK(refuses(experts,
                "graph_of_attention true is not taken beside graph_of_iteration true; false is"));
  dense.graphs = {.attention = true};
  dense.framework = catalog::torch_llama;
  dense.precision = bf16_mixed;
  dense.parallelism.zero_stage = 0;
  CHECK(refuses(dense, "graph_of_attention true is not taken beside layers llama; false is"));
}
