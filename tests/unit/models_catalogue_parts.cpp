#include "check.hpp"

#include <gpuplan/catalog/models.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/trainable.hpp>

#include <cstdint>

// What is published of a model besides its total: what is active, what is embedding, what trains.
namespace {

using namespace gpuplan;

// Whether a count is what is printed, in units of 10^9 divided by `steps`.
constexpr bool prints_as(std::int64_t count, double billions, double steps = 1) {
  const double off = static_cast<double>(count) / 1e9 - billions;
  return off * steps <= 0.5 && off * steps >= -0.5;
}
constexpr std::int64_t active(const transformer& model) { return parameters(model).active(); }

TEST_CASE("active parameters as published") {
  // Mistral AI, "Mixtral of experts", 2023-12-11; arXiv 2401.04088.
  STATIC_CHECK(prints_as(active(catalog::mixtral_8x7b_v0_1), 12.9, 10));
  STATIC_CHECK(prints_as(active(catalog::mixtral_8x22b_v0_1), 39));
  // arXiv 2401.06066, 2405.04434.
  STATIC_CHECK(prints_as(active(catalog::deepseek_moe_16b), 2.8, 10));
  STATIC_CHECK(prints_as(active(catalog::deepseek_v2), 21));
  // arXiv 2505.09388.
  STATIC_CHECK(prints_as(active(catalog::qwen3_235b_a22b), 22));
  // arXiv 2409.02060, 2502.16982; model cards of DBRX and Qwen1.5-MoE.
  STATIC_CHECK(prints_as(active(catalog::olmoe_1b_7b), 1.3, 10));
  STATIC_CHECK(prints_as(active(catalog::moonlight_16b_a3b), 3));
  STATIC_CHECK(prints_as(active(catalog::dbrx), 36));
  STATIC_CHECK(prints_as(active(catalog::qwen1_5_moe_a2_7b), 2.7, 10));
  // Grok-1's 86 B are not what 2 of 8 experts make.
  STATIC_CHECK(prints_as(active(catalog::grok_1), 83.8, 10));
}

TEST_CASE("gpt-oss: active parameters without the token table") {
  // arXiv 2508.10925, table 1.
  CONSTEXPR auto small = parameters(catalog::gpt_oss_20b);
  STATIC_CHECK(prints_as(small.total(), 20.91, 100));
  STATIC_CHECK(prints_as(small.active() - small.embedding, 3.61, 100));
  CONSTEXPR auto large = parameters(catalog::gpt_oss_120b);
  STATIC_CHECK(prints_as(large.total(), 116.83, 100));
  STATIC_CHECK(prints_as(large.active() - large.embedding, 5.13, 100));
  STATIC_CHECK(prints_as(large.mlp + large.router + large.experts, 114.71, 100));
  STATIC_CHECK(prints_as(large.attention, 0.96, 100));
  STATIC_CHECK(prints_as(large.embedding + large.head, 1.16, 100));
}

TEST_CASE("DeepSeek-V3 without its layer of multi-token prediction") {
  CONSTEXPR auto main = [] {
    transformer model = catalog::deepseek_v3;
    model.mtp_layers = 0;
    return parameters(model);
  }();
  STATIC_CHECK(main.total() == 671'026'419'200);
  // arXiv 2412.19437: 37 B are activated.
  STATIC_CHECK(prints_as(main.active() - main.embedding, 37));
}

TEST_CASE("Nemotron: what is token table and head, and what is not") {
  // arXiv 2402.16819 and 2406.11704.
  CONSTEXPR auto small = parameters(catalog::nemotron_4_15b);
  STATIC_CHECK(prints_as(small.total() - small.embedding - small.head, 12.5, 10));
  CONSTEXPR auto large = parameters(catalog::nemotron_4_340b);
  STATIC_CHECK(prints_as(large.embedding + large.head, 9.4, 10));
  STATIC_CHECK(prints_as(large.total() - large.embedding - large.head, 331.6, 10));
}

TEST_CASE("totals that are published rounded") {
  STATIC_CHECK(prints_as(parameters(catalog::mixtral_8x7b_v0_1).total(), 46.7, 10));
  STATIC_CHECK(prints_as(parameters(catalog::deepseek_v2).total(), 236));
  STATIC_CHECK(prints_as(parameters(catalog::qwen3_235b_a22b).total(), 235));
  STATIC_CHECK(prints_as(parameters(catalog::dbrx).total(), 132));
  STATIC_CHECK(prints_as(parameters(catalog::qwen1_5_moe_a2_7b).total(), 14.3, 10));
  // mlfoundations/open_clip docs/model_profile.csv.
  STATIC_CHECK(
      prints_as(parameters(catalog::clip_vit_large_patch14_vision).total(), 0.30397, 100'000));
  STATIC_CHECK(
      prints_as(parameters(catalog::clip_vit_large_patch14_text).total(), 0.12365, 100'000));
}

TEST_CASE("parts of composite models as published") {
  STATIC_CHECK(parameters(catalog::gr00t_n1_5_3b_backbone.parts[0].next) == 2'361'344);
  STATIC_CHECK(catalog::openvla_7b.size() == 3 && catalog::gr00t_n1_5_3b_backbone.size() == 2);
}

// What openvla/openvla vla-scripts/finetune.py prints for its default, rank 32 beside every linear
// layer: head and patches too, and the projector.
TEST_CASE("OpenVLA under LoRA trains 110,828,288 parameters") {
  CONSTEXPR auto adapters_of = [](const transformer& model) {
    lora_targets targets = all_linear;
    targets.patches = true;
    targets.head = true;
    const trainable trains{.what = training::adapters,
                           .adapters = {.rank = 32, .targets = targets}};
    return trainable_parameters(model, trains);
  };
  CONSTEXPR auto& parts = catalog::openvla_7b.parts;
  CONSTEXPR std::int64_t vision = adapters_of(parts[0].model) + adapters_of(parts[1].model);
  STATIC_CHECK(vision == 28'697'344);
  CONSTEXPR std::int64_t projector = 32 * ((2176 + 8704) + (8704 + 4096) + (4096 + 4096));
  STATIC_CHECK(vision + projector + adapters_of(parts[2].model) == 110'828'288);
  CONSTEXPR composite_model adapted = [] {
    lora_targets targets = all_linear;
    targets.patches = true;
    targets.head = true;
    return with_adapters(catalog::openvla_7b, {.rank = 32, .targets = targets});
  }();
  STATIC_CHECK(adapter_parameters(adapted.parts[1]) == projector);
  STATIC_CHECK(trainable_parameters(adapted) == 110'828'288);
  STATIC_CHECK(parameters(catalog::openvla_7b).total() + 110'828'288 == 7'652'065'472);
}

}  // namespace
