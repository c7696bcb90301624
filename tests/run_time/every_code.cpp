// Every model of the catalogue under every framework: the replay of a step answers, or the setup is
// refused, and nothing else. Under sanitizers too, which see what is read outside of an array.

#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/replay.hpp>

#include <cstdint>
#include <string>

#include "check.hpp"

using namespace gpuplan;

namespace {

constexpr const framework* frameworks[] = {&catalog::torch_gpt,
                                           &catalog::torch_llama,
                                           &catalog::torch_llama_fp32,
                                           &catalog::torch_bert,
                                           &catalog::torch_vit,
                                           &catalog::hugging_face_gpt2,
                                           &catalog::hugging_face_opt,
                                           &catalog::hugging_face_gpt_neox,
                                           &catalog::hugging_face_gptj,
                                           &catalog::hugging_face_t5,
                                           &catalog::hugging_face_t5_1_1,
                                           &catalog::hugging_face_llama,
                                           &catalog::hugging_face_qwen,
                                           &catalog::hugging_face_gemma,
                                           &catalog::hugging_face_gemma_2,
                                           &catalog::hugging_face_gemma_3,
                                           &catalog::hugging_face_phi,
                                           &catalog::hugging_face_phi_3,
                                           &catalog::hugging_face_olmo,
                                           &catalog::hugging_face_bert,
                                           &catalog::hugging_face_roberta,
                                           &catalog::hugging_face_mpnet,
                                           &catalog::hugging_face_distilbert,
                                           &catalog::hugging_face_vit,
                                           &catalog::hugging_face_clip,
                                           &catalog::hugging_face_siglip,
                                           &catalog::lit_gpt,
                                           &catalog::lit_gpt_gemma,
                                           &catalog::megatron_core,
                                           &catalog::megatron_transformer_engine,
                                           &catalog::torchtitan,
                                           &catalog::torchtitan_2025,
                                           &catalog::torchtitan_async,
                                           &catalog::megatron_deepspeed,
                                           &catalog::megatron_deepspeed_zero_3,
                                           &catalog::hugging_face_gpt2_zero_3,
                                           &catalog::llm_foundry,
                                           &catalog::megatron_lm,
                                           &catalog::megatron_lm_profiled,
                                           &catalog::megatron_zero_3,
                                           &catalog::megatron_bridge,
                                           &catalog::megatron_bridge_2606};

// With its own widths, cut to layers that a replay soon passes, more than the closed form replays.
transformer cut(transformer model) {
  const std::int64_t layers = 5;
  if (model.num_hidden_layers > layers) model.num_hidden_layers = layers;
  if (model.num_decoder_layers > layers) model.num_decoder_layers = layers;
  if (model.moe.first_k_dense_layers > 1) model.moe.first_k_dense_layers = 1;
  return model;
}

constexpr trainable parts[] = {
    {},
    {.what = training::adapters,
     .adapters = {.rank = 8, .weights = number_format::bf16, .targets = all_linear}},
    {.what = training::head},
    {.what = training::last_layers, .last_layers = 2},
    {.what = training::last_layers, .last_layers = 1, .tied_head = true, .final_norm = false},
    {.what = training::frozen}};
constexpr int kinds_of_parts = static_cast<int>(std::size(parts));
constexpr recompute_mode modes[] = {
    recompute_mode::none, recompute_mode::full, recompute_mode::selective};

struct case_of_code {
  training_setup setup{};
  batch_plan plan{};
};

precision_recipe precision_of(const framework& code) {
  if (code.sharding == sharding_code::deepspeed) return bf16_master;
  if (code.layers == layer_code::megatron_core) return bf16_megatron;
  return code.layers == layer_code::lit_gpt ? bf16_pure : bf16_mixed;
}

// On one rank, on two of data parallelism, and divided as far as the framework divides.
case_of_code case_for(const transformer& model, const framework& code, int division) {
  case_of_code made;
  training_setup& setup = made.setup;
  setup.model = cut(model);
  setup.framework = code;
  setup.sequence_length = 32;
  setup.precision = precision_of(code);
  const bool compares = code.layers == layer_code::bert && model.head == head_kind::none;
  setup.encodings = compares ? 2 : 1;
  const bool gathers = code.sharding == sharding_code::fsdp2;
  parallelism& ranks = setup.parallelism;
  ranks.zero_stage = gathers || &code == &catalog::hugging_face_gpt2_zero_3 ? 3 : 0;
  if (division == 0) return made;
  made.plan = {2, 2, 2};
  const bool is_of_megatron = code.layers == layer_code::megatron_core;
  if (is_of_megatron) ranks.tensor_parallel = 2;
  if (division == 1) return made;
  made.plan = {3, 4, 3};
  if (code.layers == layer_code::torchtitan) ranks.tensor_parallel = 2;
  if (!is_of_megatron) return made;
  ranks.tensor_parallel = 4;
  ranks.pipeline_parallel = setup.model.num_hidden_layers;
  ranks.sequence_parallel = code.sharding != sharding_code::deepspeed;
  return made;
}

bool is_valid(const case_of_code& of) {
  return validate(transformer_memory{of.setup}) && validate(transformer_memory{of.setup}, of.plan);
}

// The answer of the closed form, and why there is none.
std::string answer(const case_of_code& of) {
  try {
    return peaks_of(of.setup, of.plan).peak().total > 0 ? "" : "no bytes";
  } catch (const plan_error& error) {
    return error.what();
  }
}

}  // namespace

// Of what trains and what is computed again each pair has one choice at each division; its
// neighbours have the others.
TEST_CASE("every model under every framework has an answer, or is refused") {
  int answers = 0;
  int turn = 0;
  for (const catalog::published_model& model : catalog::models) {
    if (!model.has_shape) continue;
    for (const framework* code : frameworks)
      for (int division = 0; division < 3; ++division) {
        ++turn;
        for (const bool is_whole : {true, false}) {
          case_of_code one = case_for(*model.shape, *code, division);
          if (!is_whole) one.setup.trains = parts[turn % kinds_of_parts];
          one.setup.recompute = modes[turn / (kinds_of_parts + 1) % 3];
          if (!is_valid(one)) continue;
          ++answers;
          CAPTURE(model.id);
          CAPTURE(code->name);
          CAPTURE(turn);
          CHECK(answer(one) == "");
        }
      }
  }
  CHECK(answers > 1000);
}

TEST_CASE("Megatron-Core's activation stays as it is where an MLP has neither gate nor bias") {
  training_setup setup =
      case_for(catalog::falcon_7b, catalog::megatron_transformer_engine, 0).setup;
  const batch_plan plan{2, 1, 1};
  const std::int64_t fused = peaks_of(setup, plan).peak().total;
  setup.framework.fuses_bias_activation = false;
  CHECK(peaks_of(setup, plan).peak().total == fused);
  CHECK(replay(setup, plan).peak.requested == fused);
}

TEST_CASE("an index that is none of an array's own is refused in every build") {
  eager::growing_array<int> array;
  CHECK_THROWS_AS(static_cast<void>(array.back()), plan_error);
  array.push(1);
  CHECK(array[0] == 1);
  CHECK_THROWS_AS(static_cast<void>(array[eager::none]), plan_error);
  CHECK_THROWS_AS(static_cast<void>(array[1]), plan_error);
}

TEST_CASE("what has no gradient has no states in the optimizer, nor has the closed form") {
  // Sentences' encoders leave their pooler idle, CLIP's classifier its last norm.
  for (const case_of_code& one :
       {case_for(catalog::bert_base_uncased, catalog::hugging_face_bert, 0),
        case_for(catalog::vit_base_patch16_224, catalog::hugging_face_clip, 0)})
    CHECK(peaks_of(one.setup, one.plan).peak().total == replay(one.setup, one.plan).peak.requested);
}

TEST_CASE("LitGPT's logits of the step before are there while the next are made") {
  case_of_code one = case_for(catalog::llama_7b, catalog::lit_gpt, 0);
  one.setup.trains = parts[1];
  CHECK(peaks_of(one.setup, one.plan).peak().total == replay(one.setup, one.plan).peak.requested);
}

TEST_CASE("the head alone is the token table where they are one") {
  for (const framework* code : {&catalog::torch_gpt, &catalog::hugging_face_gpt2}) {
    training_setup setup = case_for(catalog::gpt2, *code, 0).setup;
    setup.precision = bf16_pure;
    setup.trains = {.what = training::head};
    const step_peaks peaks = peaks_of(setup, {1, 1, 1});
    const memory_sum& optimizer = peaks.at[static_cast<int>(step_moment::optimizer)];
    CHECK(optimizer.of[static_cast<int>(memory_part::gradients)] ==
          2 * trainable_parameters(setup.model, setup.trains));
  }
}
