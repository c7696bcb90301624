// Every model of the catalogue under every framework: the replay of a step answers, or the setup is
// refused, and nothing else. Under sanitizers too, which see what is read outside of an array.

#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/implementations.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/replay.hpp>

#include <cstdint>
#include <iterator>
#include <string>

#include "check.hpp"
#include "random_numbers.hpp"

using namespace gpuplan;

namespace {

constexpr const auto& every_framework = catalog::all_frameworks;

// With its own widths, cut to layers that a replay soon passes, more than the closed form replays.
transformer cut(transformer model) {
  const std::int64_t layers = 4;
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
  if (code.engine.is == &engine_classes::deepspeed) return bf16_master;
  if (code.implementation.layers == &layer_classes::megatron_core) return bf16_megatron;
  return code.implementation.layers == &layer_classes::lit_gpt ? bf16_pure : bf16_mixed;
}

// On one rank, on two of data parallelism, and divided as far as the framework divides.
case_of_code case_for(const transformer& model, const framework& code, int layout) {
  case_of_code made;
  training_setup& setup = made.setup;
  setup.model = cut(model);
  setup.framework = code;
  setup.sequence_length = 32;
  setup.precision = precision_of(code);
  const bool compares =
      code.implementation.layers == &layer_classes::bert && model.head == head_kind::none;
  setup.encodings = compares ? 2 : 1;
  const bool gathers = code.engine.is == &engine_classes::fsdp2;
  parallelism& ranks = setup.parallelism;
  ranks.zero_stage = gathers || &code == &catalog::hugging_face_gpt2_zero_3 ? 3 : 0;
  if (layout == 0) return made;
  made.plan = {2, 2, 2};
  const bool is_of_megatron = code.implementation.layers == &layer_classes::megatron_core;
  if (is_of_megatron) ranks.tensor_parallel = 2;
  if (layout == 1) return made;
  made.plan = {3, 4, 3};
  if (code.implementation.layers == &layer_classes::torchtitan) ranks.tensor_parallel = 2;
  if (!is_of_megatron) return made;
  ranks.tensor_parallel = 4;
  ranks.pipeline_parallel = setup.model.num_hidden_layers;
  ranks.sequence_parallel = code.engine.is != &engine_classes::deepspeed;
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

// Hugging Face's classes have no layers that predict further tokens, and keep the biases that
// choose experts as buffers.
std::int64_t parameters_of_class(const case_of_code& of) {
  transformer model = of.setup.model;
  const implementation& as = of.setup.framework.implementation;
  if (as.layers->name == layer_classes::megatron_core.name) return parameters(model).total();
  model.mtp_layers = 0;
  if (as.experts.corrects_choice && !model.attention_sinks) model.moe.router_bias = false;
  return parameters(model).total();
}

}  // namespace

// Of what trains and what is computed again each pair has one choice at each layout; its
// neighbours have the others.
TEST_CASE("every model under every framework has an answer, or is refused") {
  int answers = 0;
  int turn = 0;
  for (const catalog::published_model& model : catalog::models) {
    if (!model.has_shape) continue;
    for (const framework* code : every_framework)
      for (int layout = 0; layout < 3; ++layout) {
        ++turn;
        for (const bool is_whole : {true, false}) {
          case_of_code one = case_for(*model.shape, *code, layout);
          if (!is_whole) one.setup.trains = parts[turn % kinds_of_parts];
          one.setup.recompute = modes[turn / (kinds_of_parts + 1) % 3];
          if (!is_valid(one)) continue;
          ++answers;
          CAPTURE(std::string(model.id));
          CAPTURE(std::string(code->name));
          CAPTURE(turn);
          CHECK(answer(one) == "");
        }
      }
  }
  CHECK(answers > 1000);
}

TEST_CASE("Megatron-Core's activation stays as it is where an MLP has neither gate nor bias") {
  case_of_code one = case_for(catalog::nemotron_3_8b, catalog::megatron_transformer_engine, 0);
  REQUIRE(is_valid(one));
  const std::int64_t fused = peaks_of(one.setup, one.plan).peak().total;
  one.setup.framework.implementation.fuses_bias_activation = false;
  CHECK(peaks_of(one.setup, one.plan).peak().total == fused);
  CHECK(replay(one.setup, one.plan)->peak.requested == fused);
}

TEST_CASE("models of other architectures are refused by field") {
  const auto refusal = [](const transformer& model, const framework& code) {
    const case_of_code one = case_for(model, code, 0);
    return std::string(failure_text(validate(one.setup).why()).c_str());
  };
  using namespace catalog;
  CHECK(refusal(gpt2, hugging_face_llama) ==
        "position_rows 1024 is not taken beside layers decoder; 0 is");
  CHECK(refusal(llama_3_8b, hugging_face_gpt2) ==
        "position_rows 0 is not taken beside layers gpt2; at least 1 is");
  CHECK(refusal(llama_3_8b, hugging_face_phi) ==
        "norm rms_norm is not taken beside layers decoder; layer_norm is");
  CHECK(refusal(falcon_7b, hugging_face_gptj) ==
        "fused_qkv true is not taken beside layers gptj; false is");
  CHECK(refusal(falcon_7b, megatron_core) ==
        "parallel_attention true is not taken beside layers megatron_core; false is");
  transformer bounded = mixtral_8x7b_v0_1;
  bounded.clip_qkv = true;
  CHECK(refusal(bounded, hugging_face_mixtral) ==
        "clip_qkv true is not taken beside layers mixture; false is");
  transformer clamped = mixtral_8x7b_v0_1;
  clamped.clamped_gate_up = true;
  CHECK(refusal(clamped, hugging_face_mixtral) ==
        "clamped_gate_up true is not taken beside layers mixture; false is");
  CHECK(refusal(clamped, megatron_transformer_engine) == "no error");
  clamped = llama_3_8b;
  clamped.clamped_gate_up = true;
  CHECK(refusal(clamped, megatron_transformer_engine) ==
        "clamped_gate_up true is not taken beside num_experts 0, layers megatron_core; false is");
  transformer open = gpt_oss_20b;
  open.clamped_gate_up = false;
  for (const framework& code : {hugging_face_gpt_oss, torchtitan_2026})
    CHECK(refusal(open, code).find("clamped_gate_up false is not taken") == 0);
  CHECK(refusal(gpt_oss_20b, torchtitan_2026) == "no error");
  CHECK(refusal(gpt_oss_20b, hugging_face_gpt_oss) == "no error");
  CHECK(refusal(gpt2, lit_gpt) == "position_rows 1024 is not taken beside layers lit_gpt; 0 is");
  for (const framework* code : {&hugging_face_gpt2, &hugging_face_opt, &hugging_face_gpt_neox})
    CHECK_FALSE(is_valid(case_for(falcon_7b, *code, 0)));
  // RMS norms have weights.
  transformer bare = llama_7b;
  bare.norm_affine = false;
  for (const framework* code : every_framework) CHECK_FALSE(is_valid(case_for(bare, *code, 0)));
}

// What a code builds is what the description says. Not so of what their authors do otherwise:
// Megatron's layers pass over norms of query and key and behind the embedding, T5 shares its head,
// LitGPT does not.
TEST_CASE("each code has the parameters of the models that it takes") {
  int compared = 0;
  for (const catalog::published_model& model : catalog::models) {
    if (!model.has_shape) continue;
    const transformer& shape = *model.shape;
    for (const framework* code : every_framework) {
      const bool is_deepspeed = code->engine.is == &engine_classes::deepspeed;
      const bool is_of_megatron = code->implementation.layers == &layer_classes::megatron_core;
      const bool passes_over =
          is_of_megatron && (shape.qk_norm != qk_norm_scope::none || shape.embedding_norm);
      const bool shares_otherwise =
          (code->implementation.layers == &layer_classes::t5 && !shape.has_tied_head()) ||
          (code->implementation.layers == &layer_classes::lit_gpt && shape.has_tied_head());
      if (is_deepspeed || passes_over || shares_otherwise) continue;
      case_of_code one = case_for(shape, *code, 0);
      if (!is_of_megatron) one.setup.precision = bf16_pure;
      if (!is_valid(one)) continue;
      const step_peaks peaks = peaks_of(one.setup, one.plan);
      const memory_sum& step = peaks.at[static_cast<int>(step_moment::optimizer)];
      CAPTURE(std::string(model.id));
      CAPTURE(std::string(code->name));
      CHECK(step.of[static_cast<int>(memory_part::weights)] == 2 * parameters_of_class(one));
      ++compared;
    }
  }
  CHECK(compared > 500);
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
    CHECK(peaks_of(one.setup, one.plan).peak().total ==
          replay(one.setup, one.plan)->peak.requested);
}

TEST_CASE("LitGPT's logits of the step before are there while the next are made") {
  case_of_code one = case_for(catalog::llama_7b, catalog::lit_gpt, 0);
  one.setup.trains = parts[1];
  CHECK(peaks_of(one.setup, one.plan).peak().total == replay(one.setup, one.plan)->peak.requested);
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

namespace {

// What was asked for in the second step of all layers.
std::int64_t replayed(const training_setup& setup, const batch_plan& plan) {
  return replay(setup, plan, 2)->peak.requested;
}

constexpr transformer dinov3_base = [] {
  transformer model = catalog::dinov2_base_imagenet1k_1_layer;
  model.position_rows = 0;
  model.key_bias = false;
  model.classifier_inputs = 1;
  return model;
}();

struct pair_of_code {
  const transformer& model;
  const framework& code;
};
const pair_of_code pairs[] = {{catalog::gpt2, catalog::torch_gpt},
                              {catalog::llama_3_2_1b, catalog::torch_llama},
                              {catalog::llama_3_2_1b, catalog::torch_llama_fp32},
                              {catalog::gpt2, catalog::hugging_face_gpt2},
                              {catalog::opt_125m, catalog::hugging_face_opt},
                              {catalog::pythia_160m, catalog::hugging_face_gpt_neox},
                              {catalog::gpt_j_6b, catalog::hugging_face_gptj},
                              {catalog::t5_small, catalog::hugging_face_t5},
                              {catalog::llama_3_2_1b, catalog::hugging_face_llama},
                              {catalog::qwen2_5_0_5b, catalog::hugging_face_qwen},
                              {catalog::gemma_2_2b, catalog::hugging_face_gemma_2},
                              {catalog::phi_1_5, catalog::hugging_face_phi},
                              {catalog::olmo_1b, catalog::hugging_face_olmo},
                              {catalog::bert_base_uncased, catalog::hugging_face_bert},
                              {catalog::vit_base_patch16_224, catalog::hugging_face_clip},
                              {dinov3_base, catalog::hugging_face_dinov3},
                              {catalog::llama_3_2_1b, catalog::lit_gpt},
                              {catalog::llama_3_8b, catalog::torchtitan}};

// Shapes that nobody would train.
case_of_code odd_case(random_numbers& from) {
  const auto within = [&](std::int64_t low, std::int64_t high) {
    return low + from.below(high - low + 1);
  };
  const pair_of_code& pair = pairs[from.below(static_cast<std::int64_t>(std::size(pairs)))];
  case_of_code made;
  training_setup& setup = made.setup;
  transformer& model = setup.model;
  model = pair.model;
  setup.framework = pair.code;
  model.num_attention_heads = std::int64_t{1} << within(0, 3);
  if (model.num_key_value_heads != 0) model.num_key_value_heads = 1;
  model.hidden_size = model.num_attention_heads * 4 * within(1, 16);
  model.head_dim = 0;
  model.intermediate_size = within(8, 2000);
  if (model.vocab_size != 0) model.vocab_size = within(10, from.below(2) == 0 ? 1000 : 40000);
  model.num_hidden_layers = within(5, 24);
  if (model.num_decoder_layers != 0) model.num_decoder_layers = model.num_hidden_layers;
  setup.sequence_length = within(1, 300);
  if (model.kind == model_kind::encoder) setup.encodings = within(2, 3);
  setup.precision = from.below(2) == 0 ? bf16_mixed : bf16_pure;
  made.plan = {within(1, 6), std::int64_t{1} << within(0, 3), within(1, 3)};
  if (from.below(3) == 0) setup.framework.engine.is = &engine_classes::fsdp2;
  if (setup.framework.engine.is == &engine_classes::fsdp2)
    setup.parallelism.zero_stage = static_cast<int>(within(2, 3));
  setup.trains = parts[from.below(kinds_of_parts)];
  setup.trains.adapters.weights = setup.precision.weights;
  setup.recompute = modes[from.below(2)];
  setup.optimizer.clips_gradients = from.below(2) == 0;
  setup.optimizer.loop = static_cast<optimizer_loop>(from.below(3));
  return made;
}

}  // namespace

TEST_CASE("the closed form is what all layers ask for, of odd shapes too") {
  random_numbers from(20);
  int compared = 0;
  for (int draw = 0; draw < 100; ++draw) {
    const case_of_code one = odd_case(from);
    if (!is_valid(one)) continue;
    ++compared;
    CAPTURE(draw);
    CAPTURE(one.setup.framework.name);
    CHECK(peaks_of(one.setup, one.plan).peak().total == replayed(one.setup, one.plan));
  }
  CHECK(compared > 50);
}

TEST_CASE("the closed form of T5's two stacks") {
  training_setup large{.model = catalog::t5_large,
                       .sequence_length = 128,
                       .precision = bf16_pure,
                       .framework = catalog::hugging_face_t5};
  CHECK(peaks_of(large, {1, 1, 1}).peak().total == replayed(large, {1, 1, 1}));
  training_setup narrow = large;
  narrow.model.hidden_size = 4;
  narrow.model.num_attention_heads = 1;
  narrow.model.intermediate_size = 16;
  narrow.model.num_hidden_layers = narrow.model.num_decoder_layers = 39;
  narrow.framework.engine.is = &engine_classes::fsdp2;
  narrow.parallelism.zero_stage = 3;
  const batch_plan plan{2, 4, 1};
  REQUIRE(validate(transformer_memory{narrow}, plan));
  CHECK(peaks_of(narrow, plan).peak().total == replayed(narrow, plan));
}

TEST_CASE("what a class would leave its arrays or divide by nothing for is refused") {
  const auto why_not = [](const training_setup& setup) { return validate(setup).why(); };
  const training_setup albert{.model = catalog::albert_base_v2,
                              .sequence_length = 64,
                              .framework = catalog::hugging_face_albert};
  CHECK(validate(albert));
  for (const engine_class* by : {&engine_classes::fsdp1, &engine_classes::fsdp2}) {
    training_setup shared = albert;
    shared.framework.engine.is = by;
    shared.parallelism.zero_stage = 3;
    CHECK(why_not(shared)[fact::num_hidden_groups] == 1);
  }
  training_setup last = albert;
  last.trains = {.what = training::last_layers, .last_layers = 2};
  CHECK(why_not(last)[fact::num_hidden_groups] == 1);
  training_setup sound{.model = catalog::wav2vec2_base_960h,
                       .sequence_length = 399,
                       .framework = catalog::hugging_face_wav2vec2};
  CHECK(why_not(sound)[fact::at_least] == 400);
  sound.sequence_length = 400;
  CHECK(replay(sound, {.micro_batch = 1})->peak.requested > 0);
  const training_setup rows{
      .model = catalog::bart_base, .sequence_length = 64, .framework = catalog::hugging_face_t5};
  CHECK(why_not(rows)[fact::at_least] == 1);
  training_setup reenters{.model = catalog::bart_base,
                          .sequence_length = 64,
                          .recompute = recompute_mode::full,
                          .framework = catalog::hugging_face_bart};
  CHECK(validate(reenters));
  reenters.framework.implementation.checkpoints_reenter = true;
  CHECK(why_not(reenters)[fact::checkpoints_reenter] == 1);
}

// In place of attention they have what the classes of mixtures know nothing of.
TEST_CASE("hybrids are no mixtures of transformers") {
  for (const transformer* model :
       {&catalog::qwen3_next_80b_a3b, &catalog::nemotron_3_nano_30b_a3b, &catalog::nemotron_h_8b}) {
    CAPTURE(model->name);
    int run_it = 0;
    for (const framework* each : every_framework) {
      CAPTURE(each->name);
      if (!catalog::runs(*each, {.model = *model, .sequence_length = 4096, .framework = *each}))
        continue;
      CHECK(each->layers().has_every_part);
      ++run_it;
    }
    CHECK(run_it > 0);
  }
}

namespace {

using change_of_setup = void (*)(training_setup&);
struct refused_setup {
  const transformer& model;
  const framework& code;
  change_of_setup change;
  const char* why;
};

training_setup changed_setup(const refused_setup& of) {
  training_setup setup = case_for(of.model, of.code, 0).setup;
  if (of.model.stages.size() != 0) setup.model = of.model;
  if (of.code.layers().compares_texts && of.model.head == head_kind::none) setup.encodings = 2;
  if (of.model.audio.convolutions() != 0) setup.sequence_length = 400;
  if (of.model.audio.num_mel_bins != 0) setup.sequence_length = of.model.position_rows;
  return setup;
}
void make_classifier(training_setup& of) {
  of.model.head = head_kind::classifier;
  of.model.num_classes = 2;
  of.encodings = 1;
}
const refused_setup refused_setups[] = {
    // heads that do not make up the width, and such as cannot be rotated in pairs
    {catalog::mpt_7b,
     catalog::hugging_face_mpt,
     [](training_setup& of) { of.model.head_dim = 7; },
     "head_dim 7 is not taken beside num_attention_heads 32, hidden_size 4096, layers mpt; 128 is"},
    {catalog::starcoder,
     catalog::hugging_face_gpt_bigcode,
     [](training_setup& of) { of.model.head_dim = 33; },
     "head_dim 33 is not taken beside num_attention_heads 48, hidden_size 6144, layers "
     "gpt_bigcode; 128 is"},
    {catalog::gpt2,
     catalog::hugging_face_gpt2,
     [](training_setup& of) { of.model.head_dim = 32; },
     "head_dim 32 is not taken beside num_attention_heads 12, hidden_size 768, layers gpt2; 64 is"},
    {catalog::bart_base,
     catalog::hugging_face_bart,
     [](training_setup& of) { of.model.head_dim = 32; },
     "head_dim 32 is not taken beside num_attention_heads 12, hidden_size 768, layers bart; 64 is"},
    {catalog::whisper_tiny,
     catalog::hugging_face_whisper,
     [](training_setup& of) { of.model.head_dim = 32; },
     "head_dim 32 is not taken beside num_attention_heads 6, hidden_size 384, layers whisper; 64 "
     "is"},
    {catalog::llama_3_8b,
     catalog::hugging_face_llama,
     [](training_setup& of) { of.model.head_dim = 7; },
     "head_dim 7 is not taken beside layers decoder; 6 or 8 is"},
    {catalog::llama_3_8b,
     catalog::torch_llama,
     [](training_setup& of) { of.model.head_dim = 1; },
     "head_dim 1 is not taken beside layers llama; 2 is"},
    {catalog::llama_3_8b,
     catalog::hugging_face_llama,
     [](training_setup& of) { of.model.rotary_dim = 64; },
     "rotary_dim 64 is not taken beside head_dim 128, layers decoder; 128 is"},
    {catalog::deepseek_v2_lite,
     catalog::hugging_face_deepseek_v2,
     [](training_setup& of) { of.model.mla.qk_rope_head_dim = 3; },
     "qk_rope_head_dim 3 is not taken beside layers deepseek_v2; 2 or 4 is"},
    // heads of encoders
    {catalog::roberta_base,
     catalog::hugging_face_roberta,
     make_classifier,
     "head_dense false is not taken beside layers bert; true is"},
    {catalog::distilbert_base_uncased,
     catalog::hugging_face_distilbert,
     make_classifier,
     "head_dense false is not taken beside layers bert; true is"},
    {catalog::deberta_v3_small,
     catalog::hugging_face_deberta,
     make_classifier,
     "head_dense false is not taken beside layers deberta; true is"},
    {catalog::bert_base_uncased,
     catalog::hugging_face_bert,
     [](training_setup& of) {
       make_classifier(of);
       of.model.pooler = false;
     },
     "head_dense false is not taken beside layers bert; true is"},
    {catalog::bert_base_uncased,
     catalog::hugging_face_bert,
     [](training_setup& of) {
       of.model.head = head_kind::language_model;
       of.encodings = 1;
       of.model.pooler = false;
     },
     "head_dense false is not taken beside layers bert; true is"},
    {catalog::bert_base_uncased,
     catalog::hugging_face_bert,
     [](training_setup& of) {
       of.model.head = head_kind::language_model;
       of.encodings = 1;
     },
     "pooler true is not taken beside layers bert; false is"},
    {catalog::albert_base_v2,
     catalog::hugging_face_albert,
     [](training_setup& of) { of.model.position_rows = 0; },
     "position_rows 0 is not taken beside layers albert; at least 1 is"},
    // what encoders, images and sound have not
    {catalog::bert_base_uncased,
     catalog::hugging_face_bert,
     [](training_setup& of) { of.model.qk_norm = qk_norm_scope::head; },
     "qk_norm head is not taken beside layers bert; none is"},
    {catalog::bert_base_uncased,
     catalog::hugging_face_bert,
     [](training_setup& of) { of.model.final_norm = true; },
     "final_norm true is not taken beside layers bert; false is"},
    {catalog::roberta_base,
     catalog::hugging_face_roberta,
     [](training_setup& of) { of.model.embedding_norm = false; },
     "embedding_norm false is not taken beside layers bert; true is"},
    {catalog::modernbert_base,
     catalog::hugging_face_modernbert,
     [](training_setup& of) { of.model.final_norm = false; },
     "final_norm false is not taken beside layers modernbert; true is"},
    {catalog::modernbert_base,
     catalog::hugging_face_modernbert,
     [](training_setup& of) {
       of.model.parallel_attention = true;
       of.model.norms_per_layer = 1;
     },
     "parallel_attention true is not taken beside layers modernbert; false is"},
    {catalog::vit_base_patch16_224,
     catalog::hugging_face_vit,
     [](training_setup& of) { of.model.position_rows = 5; },
     "position_rows 5 is not taken beside layers vit; 197 is"},
    {catalog::vit_base_patch16_224,
     catalog::hugging_face_vit,
     [](training_setup& of) { of.model.type_vocab_size = 2; },
     "type_vocab_size 2 is not taken beside layers vit; 0 is"},
    {catalog::dinov2_base_imagenet1k_1_layer,
     catalog::hugging_face_dinov2,
     [](training_setup& of) { of.model.pooler = true; },
     "pooler true is not taken beside layers dinov2; false is"},
    {catalog::dinov2_base_imagenet1k_1_layer,
     catalog::hugging_face_dinov2,
     [](training_setup& of) { of.model.key_bias = false; },
     "key_bias false is not taken beside layers dinov2; true is"},
    {dinov3_base,
     catalog::hugging_face_dinov3,
     [](training_setup& of) { of.model.position_rows = 196; },
     "position_rows 196 is not taken beside layers dinov3; 0 is"},
    {dinov3_base,
     catalog::hugging_face_dinov3,
     [](training_setup& of) { of.model.hidden_size = 792; },
     "head_dim 66 is not taken beside layers dinov3; 64 or 68 is"},
    {catalog::whisper_tiny,
     catalog::hugging_face_whisper,
     [](training_setup& of) { of.model.key_bias = true; },
     "key_bias true is not taken beside layers whisper; false is"},
    {catalog::swin_tiny_patch4_window7_224,
     catalog::hugging_face_swin,
     [](training_setup& of) { of.model.position_rows = 5; },
     "position_rows 5 is not taken beside layers swin; 3136 is"},
    {catalog::swin_tiny_patch4_window7_224,
     catalog::hugging_face_swin,
     [](training_setup& of) { of.model.qk_norm = qk_norm_scope::head; },
     "qk_norm head is not taken beside layers swin; none is"},
    {catalog::bart_base,
     catalog::hugging_face_bart,
     [](training_setup& of) { of.model.qk_norm = qk_norm_scope::head; },
     "qk_norm head is not taken beside layers bart; none is"},
    {catalog::whisper_tiny,
     catalog::hugging_face_whisper,
     [](training_setup& of) { of.model.pooler = true; },
     "pooler true is not taken beside layers whisper; false is"},
    {catalog::wav2vec2_base_960h,
     catalog::hugging_face_wav2vec2,
     [](training_setup& of) { of.model.norm = norm_kind::rms_norm; },
     "norm rms_norm is not taken beside layers wav2vec2; layer_norm is"},
    {catalog::wav2vec2_base_960h,
     catalog::hugging_face_wav2vec2,
     [](training_setup& of) { of.model.norm_bias = false; },
     "norm_bias false is not taken beside layers wav2vec2; true is"},
    {catalog::wav2vec2_base_960h,
     catalog::hugging_face_wav2vec2,
     [](training_setup& of) { of.padding_mask = true; },
     "padding_mask true is not taken beside layers wav2vec2; false is"},
    // T5
    {catalog::t5_small,
     catalog::hugging_face_t5,
     make_classifier,
     "head classifier is not taken beside layers t5; language_model is"},
    {catalog::t5_small,
     catalog::hugging_face_t5,
     [](training_setup& of) { of.model.type_vocab_size = 2; },
     "type_vocab_size 2 is not taken beside layers t5; 0 is"},
    {catalog::t5_small,
     catalog::hugging_face_t5,
     [](training_setup& of) { of.model.final_norm = false; },
     "final_norm false is not taken beside layers t5; true is"},
    {catalog::t5_small,
     catalog::hugging_face_t5,
     [](training_setup& of) { of.model.attention_bias = true; },
     "attention_bias true is not taken beside layers t5; false is"},
    {catalog::t5_small,
     catalog::hugging_face_t5,
     [](training_setup& of) { of.model.norm_bias = true; },
     "norm_bias true is not taken beside norm rms_norm; false is"},
    // decoders
    {catalog::llama_3_8b,
     catalog::hugging_face_llama,
     [](training_setup& of) { of.model.pooler = true; },
     "pooler true is not taken beside layers decoder; false is"},
    {catalog::llama_3_8b,
     catalog::torch_llama,
     [](training_setup& of) { of.model.pooler = true; },
     "pooler true is not taken beside layers llama; false is"},
    {catalog::mixtral_8x7b_v0_1,
     catalog::hugging_face_mixtral,
     [](training_setup& of) { of.model.pooler = true; },
     "pooler true is not taken beside layers mixture; false is"},
    {catalog::llama_3_8b,
     catalog::hugging_face_llama,
     [](training_setup& of) { of.model.norm_bias = true; },
     "norm_bias true is not taken beside norm rms_norm; false is"},
    {catalog::deepseek_v2_lite,
     catalog::hugging_face_deepseek_v2,
     [](training_setup& of) { of.model.attention_bias = true; },
     "attention_out_bias false is not taken beside layers deepseek_v2; true is"},
    {catalog::deepseek_v2_lite,
     catalog::hugging_face_deepseek_v2,
     [](training_setup& of) { of.model.qk_norm = qk_norm_scope::head; },
     "qk_norm head is not taken beside layers deepseek_v2; none is"},
    {catalog::phi_1_5,
     catalog::hugging_face_phi,
     [](training_setup& of) { of.model.norms_per_layer = 2; },
     "norms_per_layer 2 is not taken beside layers decoder; 1 is"},
    {catalog::llama_3_8b,
     catalog::torch_llama,
     [](training_setup& of) { of.model.qk_norm = qk_norm_scope::full_width; },
     "qk_norm full_width is not taken beside layers llama; none or head is"},
    {catalog::llama_3_8b,
     catalog::megatron_transformer_engine,
     [](training_setup& of) { of.model.qk_norm = qk_norm_scope::full_width; },
     "qk_norm full_width is not taken beside layers megatron_core; none or head is"},
    // kernels, masks and dropout
    {catalog::llama_3_8b,
     catalog::megatron_transformer_engine,
     [](training_setup& of) { of.precision = fp32_precision; },
     "precision_compute fp32 is not taken beside attention automatic, layers megatron_core; bf16 "
     "or fp16 is"},
    {catalog::llama_3_8b,
     catalog::lit_gpt,
     [](training_setup& of) { of.precision = fp32_precision; },
     "precision_compute fp32 is not taken beside attention automatic, layers lit_gpt; bf16 or fp16 "
     "is"},
    {catalog::llama_3_8b,
     catalog::lit_gpt,
     [](training_setup& of) { of.attention = attention_kernel::eager; },
     "attention eager is not taken beside layers lit_gpt; automatic or flash is"},
    {catalog::llama_3_8b,
     catalog::lit_gpt,
     [](training_setup& of) { of.padding_mask = true; },
     "padding_mask true is not taken beside attention automatic; false is"},
    {catalog::gpt2,
     catalog::torch_gpt,
     [](training_setup& of) { of.padding_mask = true; },
     "padding_mask true is not taken beside layers gpt; false is"},
    {catalog::llama_3_8b,
     catalog::torch_llama,
     [](training_setup& of) { of.padding_mask = true; },
     "padding_mask true is not taken beside layers llama; false is"},
    {catalog::llama_3_8b,
     catalog::torchtitan,
     [](training_setup& of) { of.dropout = 0.1; },
     "dropout 0.1 is not taken beside layers torchtitan; 0 is"},
    {catalog::llama_3_8b,
     catalog::torchtitan,
     [](training_setup& of) { of.attention_dropout = 0.1; },
     "attention_dropout 0.1 is not taken beside layers torchtitan; 0 is"},
};

std::int64_t weights_of(const training_setup& setup, const batch_plan& plan) {
  const memory_sum& step = peaks_of(setup, plan).at[static_cast<int>(step_moment::optimizer)];
  return step.of[static_cast<int>(memory_part::weights)];
}

}  // namespace

TEST_CASE("what a class does not build is refused with what it takes") {
  for (const refused_setup& one : refused_setups) {
    CAPTURE(one.code.name);
    training_setup setup = changed_setup(one);
    const auto whole = validate(setup);
    CAPTURE(std::string(failure_text(whole.why()).c_str()));
    CHECK(whole);
    one.change(setup);
    CHECK(std::string(failure_text(validate(setup).why()).c_str()) == one.why);
  }
}

TEST_CASE("classifiers of sequences have the dense layer of their class") {
  const struct {
    const transformer& model;
    const framework& code;
  } all[] = {{catalog::roberta_base, catalog::hugging_face_roberta},
             {catalog::distilbert_base_uncased, catalog::hugging_face_distilbert},
             {catalog::deberta_v3_small, catalog::hugging_face_deberta}};
  for (const auto& one : all) {
    training_setup setup = case_for(one.model, one.code, 0).setup;
    setup.precision = bf16_pure;
    make_classifier(setup);
    setup.model.head_dense = true;
    CAPTURE(one.code.name);
    REQUIRE(validate(setup));
    CHECK(weights_of(setup, {1, 1, 1}) == 2 * parameters(setup.model).total());
  }
}

TEST_CASE("latent attention has one flag for the biases of what leads down and of its output") {
  training_setup setup =
      case_for(catalog::deepseek_v2_lite, catalog::hugging_face_deepseek_v2, 0).setup;
  setup.precision = bf16_pure;
  setup.model.attention_bias = setup.model.attention_out_bias = true;
  REQUIRE(validate(setup));
  CHECK(weights_of(setup, {1, 1, 1}) == 2 * parameters(setup.model).total());
}

// As Megatron-LM's _vocab_size_with_padding: 50257 for two ranks are 50432.
TEST_CASE("tensor ranks that do not divide the vocabulary have rows more, not fewer") {
  training_setup setup = case_for(catalog::gpt2, catalog::megatron_core, 0).setup;
  setup.model.vocab_size = 50'432;
  training_setup given = setup;
  given.model.vocab_size = 50'257;
  for (training_setup* one : {&setup, &given}) one->parallelism.tensor_parallel = 2;
  const batch_plan plan{1, 1, 1};
  CHECK(peaks_of(given, plan).peak().total == peaks_of(setup, plan).peak().total);
  setup.model.vocab_size = 50'258;  // divided as it is
  CHECK(weights_of(setup, plan) < weights_of(given, plan));
  CHECK(detail::padded_rows_of_rank(50'258, 2) == 25'129);
  CHECK(detail::padded_rows_of_rank(50'257, 8) == 51'200 / 8);
}

// A sink for each of a rank's query heads, of which gpt-oss has 64 and 8 of keys and values.
TEST_CASE("sinks are as many as the query heads of a tensor rank") {
  training_setup setup =
      case_for(catalog::gpt_oss_20b, catalog::megatron_transformer_engine, 0).setup;
  parallelism& ranks = setup.parallelism;
  ranks.tensor_parallel = ranks.expert_parallel = 16;
  ranks.sequence_parallel = true;
  REQUIRE(validate(setup));
  const std::int64_t with = weights_of(setup, {1, 1, 1});
  setup.model.attention_sinks = false;
  CHECK(with - weights_of(setup, {1, 1, 1}) == 2 * setup.model.num_hidden_layers * (64 / 16));
}

TEST_CASE("dropout of attention is the one that is stated for it") {
  const auto step = [](const transformer& model,
                       const framework& code,
                       attention_kernel kernel,
                       double of_attention,
                       double of_others) {
    training_setup setup = case_for(model, code, 0).setup;
    setup.sequence_length = 256;
    setup.attention = kernel;
    setup.dropout = of_others;
    setup.attention_dropout = of_attention;
    REQUIRE(validate(setup));
    return peaks_of(setup, {1, 1, 1}).at[static_cast<int>(step_moment::loss)].total;
  };
  using enum attention_kernel;
  using namespace catalog;
  CHECK(step(gpt_oss_20b, hugging_face_gpt_oss, eager, 0.1, 0) >
        step(gpt_oss_20b, hugging_face_gpt_oss, eager, 0, 0));
  CHECK(step(gpt_oss_20b, hugging_face_gpt_oss, eager, 0, 0.1) ==
        step(gpt_oss_20b, hugging_face_gpt_oss, eager, 0, 0));
  CHECK(step(gpt2, megatron_core, eager, 0.1, 0) > step(gpt2, megatron_core, eager, 0, 0));
  CHECK(step(gpt2, megatron_core, eager, 0.1, 0.1) > step(gpt2, megatron_core, eager, 0, 0.1));
}

// PEFT 0.21 of 48 linear layers and three that reduce, each of rank 8; of wav2vec 2.0 the layer
// that leads in too.
TEST_CASE("adapters beside all linear layers of stages, and of sound") {
  const trainable all{.what = training::adapters, .adapters = {.rank = 8, .targets = all_linear}};
  const struct {
    const transformer& model;
    const framework& code;
    std::int64_t count;
  } counted[] = {{catalog::swin_tiny_patch4_window7_224, catalog::hugging_face_swin, 682'304},
                 {catalog::wav2vec2_base_960h, catalog::hugging_face_wav2vec2, 1'343'744}};
  for (const auto& one : counted) {
    training_setup setup{.model = one.model,
                         .trains = all,
                         .sequence_length = 16'000,
                         .precision = bf16_mixed,
                         .framework = one.code};
    CHECK(trainable_parameters(setup.model, setup.trains) == one.count);
    REQUIRE(validate(setup));
    const memory_sum& step =
        peaks_of(setup, {1, 1, 1}).at[static_cast<int>(step_moment::optimizer)];
    CHECK(step.of[static_cast<int>(memory_part::gradients)] == 4 * one.count);
  }
}
