#include "check.hpp"

#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/memory/step_peaks.hpp>

#include <cstdint>

using namespace gpuplan;

// One step of each code: 2 sequences of 64 tokens, autocast to bf16, fused AdamW, and what PyTorch
// 2.15 and transformers 5.23, of GPT-J 5.24, asked for at once.

namespace {

// GPT-2's kind.
constexpr transformer model{.num_hidden_layers = 3,
                            .hidden_size = 256,
                            .intermediate_size = 512,
                            .num_attention_heads = 4,
                            .vocab_size = 1024,
                            .attention_bias = true,
                            .attention_out_bias = true,
                            .gated_mlp = false,
                            .hidden_act = activation_function::gelu,
                            .mlp_bias = true,
                            .norm = norm_kind::layer_norm,
                            .norm_bias = true,
                            .tied_embeddings = true};

template <class Change>
constexpr transformer with(Change change) {
  transformer changed = model;
  change(changed);
  return changed;
}

constexpr transformer llama{.num_hidden_layers = 3,
                            .hidden_size = 256,
                            .intermediate_size = 512,
                            .num_attention_heads = 4,
                            .num_key_value_heads = 2,
                            .vocab_size = 1024};

constexpr std::int64_t peak(const transformer& shape,
                            const framework& code,
                            attention_kernel kernel = attention_kernel::flash) {
  const training_setup setup{.model = shape,
                             .sequence_length = 64,
                             .target_length = 32,
                             .precision = bf16_mixed,
                             .optimizer = {.loop = optimizer_loop::fused},
                             .attention = kernel,
                             .framework = code};
  return peaks_of(setup, {.micro_batch = 2}).peak().total;
}

TEST_CASE("plain decoders") {
  CONSTEXPR std::int64_t of_gpt = peak(with([](transformer& gpt) {
                                         gpt.fused_qkv = true;
                                         gpt.position_rows = 64;
                                       }),
                                       catalog::torch_gpt);
  STATIC_CHECK(of_gpt == 63'842'984);
  CONSTEXPR std::int64_t of_llama = peak(llama, catalog::torch_llama);
  STATIC_CHECK(of_llama == 70'354'120);
}

TEST_CASE("decoders of transformers") {
  CONSTEXPR std::int64_t of_llama = peak(llama, catalog::hugging_face_llama);
  STATIC_CHECK(of_llama == 71'108'040);
  CONSTEXPR std::int64_t of_gpt2 = peak(with([](transformer& gpt2) {
                                          gpt2.fused_qkv = true;
                                          gpt2.position_rows = 64;
                                          gpt2.hidden_act = activation_function::gelu_new;
                                        }),
                                        catalog::hugging_face_gpt2);
  STATIC_CHECK(of_gpt2 == 65'791'728);
  CONSTEXPR std::int64_t of_opt = peak(with([](transformer& opt) {
                                         opt.position_rows = 66;
                                         opt.hidden_act = activation_function::relu;
                                       }),
                                       catalog::hugging_face_opt);
  STATIC_CHECK(of_opt == 63'851'736);
  CONSTEXPR std::int64_t of_gpt_neox = peak(with([](transformer& neox) {
                                              neox.fused_qkv = true;
                                              neox.parallel_attention = true;
                                              neox.tied_embeddings = false;
                                            }),
                                            catalog::hugging_face_gpt_neox);
  STATIC_CHECK(of_gpt_neox == 66'797'824);
  CONSTEXPR std::int64_t of_gptj = peak(with([](transformer& gptj) {
                                          gptj.attention_bias = gptj.attention_out_bias = false;
                                          gptj.parallel_attention = true;
                                          gptj.norms_per_layer = 1;
                                          gptj.lm_head_bias = true;
                                          gptj.tied_embeddings = false;
                                          gptj.hidden_act = activation_function::gelu_new;
                                        }),
                                        catalog::hugging_face_gptj,
                                        attention_kernel::eager);
  STATIC_CHECK(of_gptj == 69'494'932);
}

TEST_CASE("encoders of transformers") {
  CONSTEXPR std::int64_t of_bert = peak(with([](transformer& bert) {
                                          bert.kind = model_kind::encoder;
                                          bert.norm_at = norm_position::after_residual;
                                          bert.final_norm = false;
                                          bert.embedding_norm = true;
                                          bert.type_vocab_size = 2;
                                          bert.position_rows = 64;
                                          bert.head_dense = true;
                                          bert.head_norm = true;
                                          bert.lm_head_bias = true;
                                        }),
                                        catalog::hugging_face_bert);
  STATIC_CHECK(of_bert == 64'968'504);
  CONSTEXPR std::int64_t of_vit = peak(with([](transformer& vit) {
                                         vit.kind = model_kind::vision;
                                         vit.image = {.image_size = 64, .patch_size = 8};
                                         vit.position_rows = 65;
                                         vit.vocab_size = 0;
                                         vit.tied_embeddings = false;
                                         vit.head = head_kind::classifier;
                                         vit.num_classes = 10;
                                       }),
                                       catalog::hugging_face_vit);
  STATIC_CHECK(of_vit == 60'569'248);
}

TEST_CASE("an encoder with a decoder") {
  CONSTEXPR std::int64_t of_t5 = peak(with([](transformer& t5) {
                                        t5.kind = model_kind::encoder_decoder;
                                        t5.num_decoder_layers = 3;
                                        t5.attention_bias = t5.attention_out_bias = false;
                                        t5.mlp_bias = false;
                                        t5.norm = norm_kind::rms_norm;
                                        t5.norm_bias = false;
                                        t5.relative_attention_buckets = 32;
                                        t5.hidden_act = activation_function::relu;
                                      }),
                                      catalog::hugging_face_t5,
                                      attention_kernel::eager);
  STATIC_CHECK(of_t5 == 102'897'176);
}

// What PyTorch asked for is in the files of measured steps; this is what the replay says of the
// same at run time.
TEST_CASE("adapters beside a base in 4 bits") {
  CONSTEXPR std::int64_t of_both = [] {
    const training_setup setup{.model = llama,
                               .trains = {.what = training::adapters,
                                          .adapters = {.rank = 8,
                                                       .weights = number_format::bf16,
                                                       .targets = all_linear,
                                                       .magnitudes = true,
                                                       .base = four_bit_base}},
                               .sequence_length = 64,
                               .precision = bf16_pure,
                               .optimizer = {.loop = optimizer_loop::fused},
                               .attention = attention_kernel::flash,
                               .framework = catalog::hugging_face_llama};
    return peaks_of(setup, {.micro_batch = 2}).peak().total;
  }();
  STATIC_CHECK(of_both == 43'946'884);
}

}  // namespace
