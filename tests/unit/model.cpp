#include <gpuplan/model.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "check.hpp"

namespace {

using namespace gpuplan;

constexpr transformer decoder{.name = "decoder",
                              .num_hidden_layers = 6,
                              .hidden_size = 64,
                              .intermediate_size = 96,
                              .num_attention_heads = 8,
                              .num_key_value_heads = 2,
                              .vocab_size = 100};
constexpr transformer latent = [] {
  transformer model = decoder;
  model.mla = {.q_lora_rank = 12,
               .kv_lora_rank = 10,
               .qk_nope_head_dim = 6,
               .qk_rope_head_dim = 4,
               .v_head_dim = 5};
  return model;
}();
constexpr transformer mixture = [] {
  transformer model = decoder;
  model.moe = {.num_experts = 4, .num_experts_per_tok = 2, .moe_intermediate_size = 16};
  return model;
}();
constexpr transformer vision{.name = "vision",
                             .kind = model_kind::vision,
                             .num_hidden_layers = 2,
                             .hidden_size = 32,
                             .intermediate_size = 48,
                             .num_attention_heads = 4,
                             .image = {.image_size = 224, .patch_size = 14},
                             .head = head_kind::classifier,
                             .num_classes = 10};
constexpr transformer encoder_decoder{.name = "both",
                                      .kind = model_kind::encoder_decoder,
                                      .num_hidden_layers = 2,
                                      .num_decoder_layers = 3,
                                      .hidden_size = 32,
                                      .intermediate_size = 48,
                                      .num_attention_heads = 4,
                                      .vocab_size = 50};

// The model with a change.
template <class Change>
constexpr transformer with(transformer model, Change change) {
  change(model);
  return model;
}

constexpr bool rejects(const transformer& model, errc code, fact name, std::int64_t value) {
  const failure why = validate(model).why();
  if (why.code != code) return false;
  for (unsigned i = 0; i < why.count; ++i)
    if (why.facts[i] == named_fact{name, value}) return true;
  return false;
}
template <class Change>
constexpr bool rejects(
    const transformer& model, Change change, errc code, fact name, std::int64_t value) {
  return rejects(with(model, change), code, name, value);
}

struct dimension {
  fact name;
  std::int64_t& (*of)(transformer&);
  std::int64_t most = std::int64_t{1} << 40;
};

#define GPUPLAN_TEST_DIMENSION(name, member)                             \
  {                                                                      \
    fact::name, [](transformer& m) -> std::int64_t& { return m.member; } \
  }
#define GPUPLAN_TEST_LAYERS(name, member)                                        \
  {                                                                              \
    fact::name, [](transformer& m) -> std::int64_t& { return m.member; }, 65'536 \
  }
constexpr dimension dimensions[] = {
    GPUPLAN_TEST_LAYERS(num_hidden_layers, num_hidden_layers),
    GPUPLAN_TEST_LAYERS(num_decoder_layers, num_decoder_layers),
    GPUPLAN_TEST_LAYERS(mtp_layers, mtp_layers),
    GPUPLAN_TEST_DIMENSION(hidden_size, hidden_size),
    GPUPLAN_TEST_DIMENSION(intermediate_size, intermediate_size),
    GPUPLAN_TEST_DIMENSION(num_attention_heads, num_attention_heads),
    GPUPLAN_TEST_DIMENSION(num_key_value_heads, num_key_value_heads),
    GPUPLAN_TEST_DIMENSION(head_dim, head_dim),
    GPUPLAN_TEST_DIMENSION(vocab_size, vocab_size),
    GPUPLAN_TEST_DIMENSION(q_lora_rank, mla.q_lora_rank),
    GPUPLAN_TEST_DIMENSION(kv_lora_rank, mla.kv_lora_rank),
    GPUPLAN_TEST_DIMENSION(qk_nope_head_dim, mla.qk_nope_head_dim),
    GPUPLAN_TEST_DIMENSION(qk_rope_head_dim, mla.qk_rope_head_dim),
    GPUPLAN_TEST_DIMENSION(v_head_dim, mla.v_head_dim),
    GPUPLAN_TEST_DIMENSION(num_experts, moe.num_experts),
    GPUPLAN_TEST_DIMENSION(num_experts_per_tok, moe.num_experts_per_tok),
    GPUPLAN_TEST_DIMENSION(moe_intermediate_size, moe.moe_intermediate_size),
    GPUPLAN_TEST_DIMENSION(shared_expert_intermediate_size, moe.shared_expert_intermediate_size),
    GPUPLAN_TEST_DIMENSION(first_k_dense_layers, moe.first_k_dense_layers),
    GPUPLAN_TEST_DIMENSION(sliding_window, sliding_window),
    GPUPLAN_TEST_DIMENSION(global_layer_step, global_layer_step),
    GPUPLAN_TEST_DIMENSION(position_rows, position_rows),
    GPUPLAN_TEST_DIMENSION(relative_attention_buckets, relative_attention_buckets),
    GPUPLAN_TEST_DIMENSION(type_vocab_size, type_vocab_size),
    GPUPLAN_TEST_DIMENSION(embedding_dim, embedding_dim),
    GPUPLAN_TEST_DIMENSION(image_size, image.image_size),
    GPUPLAN_TEST_DIMENSION(patch_size, image.patch_size),
    GPUPLAN_TEST_DIMENSION(num_channels, image.num_channels),
    GPUPLAN_TEST_DIMENSION(class_tokens, image.class_tokens),
    GPUPLAN_TEST_DIMENSION(register_tokens, image.register_tokens),
    GPUPLAN_TEST_DIMENSION(num_classes, num_classes),
    GPUPLAN_TEST_DIMENSION(classifier_inputs, classifier_inputs),
    GPUPLAN_TEST_DIMENSION(projection_dim, projection_dim),
    GPUPLAN_TEST_DIMENSION(other_parameters, other_parameters),
};
#undef GPUPLAN_TEST_DIMENSION
#undef GPUPLAN_TEST_LAYERS

constexpr bool every_dimension_has_bounds() {
  for (const dimension& one : dimensions) {
    transformer model = decoder;
    one.of(model) = -3;
    if (!rejects(model, errc::negative, one.name, -3)) return false;
    one.of(model) = one.most + 1;
    if (!rejects(model, errc::out_of_bounds, one.name, one.most + 1) ||
        !rejects(model, errc::out_of_bounds, fact::at_most, one.most))
      return false;
  }
  return true;
}

// The field that makes most of the parameters is named.
constexpr bool overflow_names_the_field() {
  constexpr std::int64_t large = std::int64_t{1} << 40;
  struct culprit {
    transformer model;
    dimension field;
  };
  const auto overflows = [&](const transformer& from, fact name) {
    for (const dimension& one : dimensions)
      if (one.name == name) {
        transformer model = from;
        model.hidden_size = 1 << 24;
        model.head_dim = 1;
        one.of(model) = large;
        return rejects(model, errc::overflow, name, large) &&
               rejects(model, errc::overflow, fact::hidden_size, 1 << 24) &&
               std::string_view(validate(model).why().subject) == model.name;
      }
    return false;
  };
  return overflows(decoder, fact::vocab_size) && overflows(decoder, fact::intermediate_size) &&
         overflows(decoder, fact::position_rows) && overflows(decoder, fact::type_vocab_size) &&
         overflows(decoder, fact::projection_dim) && overflows(mixture, fact::num_experts) &&
         overflows(mixture, fact::shared_expert_intermediate_size) &&
         overflows(vision, fact::num_classes) && overflows(vision, fact::class_tokens) &&
         overflows(vision, fact::register_tokens);
}

}  // namespace

TEST_CASE("what is left out is derived") {
  STATIC_CHECK(decoder.key_value_heads() == 2);
  STATIC_CHECK(decoder.query_dim() == 8);
  STATIC_CHECK(decoder.value_dim() == 8);
  STATIC_CHECK(decoder.token_width() == 64);
  STATIC_CHECK(!decoder.is_latent());
  CONSTEXPR auto wide = with(decoder, [](transformer& m) {
    m.num_key_value_heads = 0;
    m.head_dim = 20;
    m.embedding_dim = 16;
  });
  STATIC_CHECK(wide.key_value_heads() == 8);
  STATIC_CHECK(wide.query_dim() == 20);
  STATIC_CHECK(wide.token_width() == 16);
  STATIC_CHECK(latent.is_latent());
  STATIC_CHECK(latent.query_dim() == 10);
  STATIC_CHECK(latent.value_dim() == 5);
  STATIC_CHECK(latent.key_value_heads() == 8);
  STATIC_CHECK(decoder.layers() == 6);
  STATIC_CHECK(encoder_decoder.layers() == 5);
}

TEST_CASE("a head is tied where it makes logits of tokens") {
  STATIC_CHECK(!decoder.has_tied_head());
  STATIC_CHECK(with(decoder, [](transformer& m) { m.tied_embeddings = true; }).has_tied_head());
  STATIC_CHECK(!with(vision, [](transformer& m) { m.tied_embeddings = true; }).has_tied_head());
}

TEST_CASE("an image becomes patches and tokens") {
  STATIC_CHECK(vision.image.patches() == 256);
  STATIC_CHECK(vision.image.tokens() == 257);
  // What does not fill a patch is left out, as a convolution does.
  CONSTEXPR image_input odd{
      .image_size = 384, .patch_size = 14, .class_tokens = 0, .register_tokens = 4};
  STATIC_CHECK(odd.patches() == 27 * 27);
  STATIC_CHECK(odd.tokens() == 27 * 27 + 4);
}

TEST_CASE("which layers have experts") {
  constexpr auto layers_are = [](expert_mixture moe, std::string_view expected) {
    transformer model = mixture;
    model.moe = moe;
    std::int64_t before = 0;
    for (std::int64_t layer = 0; layer < 6; ++layer) {
      if (model.moe_layers_before(layer) != before) return false;
      if (model.has_experts(layer) != (expected[static_cast<std::size_t>(layer)] == 'x'))
        return false;
      before += model.has_experts(layer);
    }
    return model.moe_layers_before(6) == before;
  };
  STATIC_CHECK(layers_are({}, "......"));
  STATIC_CHECK(layers_are({.num_experts = 4}, "xxxxxx"));
  STATIC_CHECK(layers_are({.num_experts = 4, .first_k_dense_layers = 3}, "...xxx"));
  STATIC_CHECK(layers_are({.num_experts = 4, .first_k_dense_layers = 6}, "......"));
  STATIC_CHECK(layers_are({.num_experts = 4, .moe_layer_step = 2}, ".x.x.x"));
  STATIC_CHECK(
      layers_are({.num_experts = 4, .first_k_dense_layers = 2, .moe_layer_step = 2}, "...x.x"));
  STATIC_CHECK(
      layers_are({.num_experts = 4, .first_k_dense_layers = 1, .moe_layer_step = 3}, "..x..x"));
}

TEST_CASE("which layers have a window") {
  constexpr auto layers_are =
      [](std::int64_t window, std::int64_t step, std::string_view expected) {
        transformer model = decoder;
        model.sliding_window = window;
        model.global_layer_step = step;
        std::int64_t before = 0;
        for (std::int64_t layer = 0; layer < 6; ++layer) {
          if (model.windowed_layers_before(layer) != before) return false;
          if (model.is_windowed(layer) != (expected[static_cast<std::size_t>(layer)] == 'x'))
            return false;
          before += model.is_windowed(layer);
        }
        return model.windowed_layers_before(6) == before;
      };
  STATIC_CHECK(layers_are(0, 0, "......"));
  STATIC_CHECK(layers_are(0, 2, "......"));
  STATIC_CHECK(layers_are(4, 0, "xxxxxx"));
  STATIC_CHECK(layers_are(4, 1, "......"));
  STATIC_CHECK(layers_are(4, 2, "x.x.x."));
  STATIC_CHECK(layers_are(4, 6, "xxxxx."));
}

TEST_CASE("models are models") {
  STATIC_CHECK(validate(decoder));
  STATIC_CHECK(validate(latent));
  STATIC_CHECK(validate(mixture));
  STATIC_CHECK(validate(vision));
  STATIC_CHECK(validate(encoder_decoder));
  STATIC_CHECK(validate(decoder)->hidden_size == 64);
}

TEST_CASE("every dimension is named where it is negative or too large") {
  STATIC_CHECK(every_dimension_has_bounds());
}

TEST_CASE("what a model must have") {
  STATIC_CHECK(rejects({}, errc::not_positive, fact::num_hidden_layers, 0));
  STATIC_CHECK(rejects(
      decoder,
      [](transformer& m) { m.hidden_size = 0; },
      errc::not_positive,
      fact::hidden_size,
      0));
  STATIC_CHECK(rejects(
      decoder,
      [](transformer& m) { m.num_attention_heads = 0; },
      errc::not_positive,
      fact::num_attention_heads,
      0));
  STATIC_CHECK(rejects(
      decoder,
      [](transformer& m) { m.intermediate_size = 0; },
      errc::not_positive,
      fact::intermediate_size,
      0));
  // None is needed where every layer has experts.
  STATIC_CHECK(validate(with(mixture, [](transformer& m) { m.intermediate_size = 0; })));
  STATIC_CHECK(rejects(
      mixture,
      [](transformer& m) {
        m.intermediate_size = 0;
        m.moe.moe_layer_step = 2;
      },
      errc::not_positive,
      fact::intermediate_size,
      0));
  STATIC_CHECK(rejects(
      decoder, [](transformer& m) { m.vocab_size = 0; }, errc::not_positive, fact::vocab_size, 0));
  STATIC_CHECK(rejects(
      vision, [](transformer& m) { m.num_classes = 0; }, errc::not_positive, fact::num_classes, 0));
  STATIC_CHECK(rejects(
      vision,
      [](transformer& m) { m.classifier_inputs = 0; },
      errc::not_positive,
      fact::classifier_inputs,
      0));
}

TEST_CASE("heads divide") {
  STATIC_CHECK(rejects(
      decoder,
      [](transformer& m) { m.num_key_value_heads = 3; },
      errc::heads_do_not_divide,
      fact::num_key_value_heads,
      3));
  STATIC_CHECK(rejects(
      decoder,
      [](transformer& m) { m.num_key_value_heads = 16; },
      errc::heads_do_not_divide,
      fact::num_attention_heads,
      8));
  STATIC_CHECK(rejects(
      decoder,
      [](transformer& m) { m.hidden_size = 60; },
      errc::heads_do_not_divide,
      fact::hidden_size,
      60));
  STATIC_CHECK(validate(with(decoder, [](transformer& m) {
    m.hidden_size = 60;
    m.head_dim = 8;
  })));
  // Latent attention states its dimensions.
  STATIC_CHECK(validate(with(latent, [](transformer& m) { m.hidden_size = 60; })));
}

TEST_CASE("latent attention has all its dimensions but the query's rank") {
  STATIC_CHECK(validate(with(latent, [](transformer& m) { m.mla.q_lora_rank = 0; })));
  STATIC_CHECK(rejects(
      latent,
      [](transformer& m) { m.mla.qk_nope_head_dim = 0; },
      errc::not_positive,
      fact::qk_nope_head_dim,
      0));
  STATIC_CHECK(rejects(
      latent,
      [](transformer& m) { m.mla.qk_rope_head_dim = 0; },
      errc::not_positive,
      fact::qk_rope_head_dim,
      0));
  STATIC_CHECK(rejects(
      latent,
      [](transformer& m) { m.mla.v_head_dim = 0; },
      errc::not_positive,
      fact::v_head_dim,
      0));
}

TEST_CASE("experts are as many as are used, and a decoder's") {
  STATIC_CHECK(rejects(
      mixture,
      [](transformer& m) { m.moe.num_experts_per_tok = 5; },
      errc::too_many_experts_per_token,
      fact::num_experts_per_tok,
      5));
  STATIC_CHECK(rejects(
      mixture,
      [](transformer& m) { m.moe.num_experts_per_tok = 5; },
      errc::too_many_experts_per_token,
      fact::num_experts,
      4));
  STATIC_CHECK(rejects(
      mixture,
      [](transformer& m) { m.moe.num_experts_per_tok = 0; },
      errc::not_positive,
      fact::num_experts_per_tok,
      0));
  STATIC_CHECK(rejects(
      mixture,
      [](transformer& m) { m.moe.moe_intermediate_size = 0; },
      errc::not_positive,
      fact::moe_intermediate_size,
      0));
  STATIC_CHECK(rejects(
      mixture,
      [](transformer& m) { m.moe.moe_layer_step = 0; },
      errc::not_positive,
      fact::moe_layer_step,
      0));
  STATIC_CHECK(rejects(
      mixture,
      [](transformer& m) { m.moe.first_k_dense_layers = 7; },
      errc::out_of_bounds,
      fact::first_k_dense_layers,
      7));
  STATIC_CHECK(rejects(
      mixture,
      [](transformer& m) { m.moe.shared_expert_gate = true; },
      errc::not_positive,
      fact::shared_expert_intermediate_size,
      0));
  STATIC_CHECK(rejects(
      mixture,
      [](transformer& m) { m.kind = model_kind::encoder; },
      errc::out_of_bounds,
      fact::num_experts,
      4));
}

TEST_CASE("a second stack is an encoder-decoder's") {
  STATIC_CHECK(rejects(
      decoder,
      [](transformer& m) { m.num_decoder_layers = 1; },
      errc::out_of_bounds,
      fact::num_decoder_layers,
      1));
  STATIC_CHECK(rejects(
      encoder_decoder,
      [](transformer& m) { m.num_decoder_layers = 0; },
      errc::not_positive,
      fact::num_decoder_layers,
      0));
  // Attention in parallel with the MLP has no place for a second attention.
  STATIC_CHECK(rejects(
      encoder_decoder,
      [](transformer& m) { m.parallel_attention = true; },
      errc::out_of_bounds,
      fact::num_decoder_layers,
      3));
}

TEST_CASE("multi-token prediction is a decoder's that predicts tokens") {
  STATIC_CHECK(validate(with(decoder, [](transformer& m) { m.mtp_layers = 2; })));
  STATIC_CHECK(rejects(
      encoder_decoder,
      [](transformer& m) { m.mtp_layers = 2; },
      errc::out_of_bounds,
      fact::mtp_layers,
      2));
  STATIC_CHECK(rejects(
      decoder,
      [](transformer& m) {
        m.mtp_layers = 2;
        m.head = head_kind::none;
      },
      errc::out_of_bounds,
      fact::mtp_layers,
      2));
}

TEST_CASE("norms match their place") {
  constexpr auto norms = [](norm_position at, std::int64_t count, bool parallel) {
    return with(decoder, [&](transformer& m) {
      m.norm_at = at;
      m.norms_per_layer = count;
      m.parallel_attention = parallel;
    });
  };
  STATIC_CHECK(validate(norms(norm_position::around, 4, false)));
  STATIC_CHECK(validate(norms(norm_position::before, 1, true)));
  STATIC_CHECK(validate(norms(norm_position::before, 2, true)));
  STATIC_CHECK(rejects(
      norms(norm_position::around, 2, false), errc::norms_do_not_match, fact::norms_per_layer, 2));
  STATIC_CHECK(rejects(
      norms(norm_position::before, 4, false), errc::norms_do_not_match, fact::norms_per_layer, 4));
  STATIC_CHECK(rejects(norms(norm_position::after_residual, 1, false),
                       errc::norms_do_not_match,
                       fact::norms_per_layer,
                       1));
  STATIC_CHECK(rejects(
      norms(norm_position::before, 3, true), errc::norms_do_not_match, fact::norms_per_layer, 3));
  STATIC_CHECK(rejects(norms(norm_position::after_residual, 2, true),
                       errc::norms_do_not_match,
                       fact::norms_per_layer,
                       2));
}

TEST_CASE("an image has a patch at least, and at most 2^16 x 2^16") {
  STATIC_CHECK(rejects(
      vision,
      [](transformer& m) { m.image.patch_size = 0; },
      errc::not_positive,
      fact::patch_size,
      0));
  STATIC_CHECK(rejects(
      vision,
      [](transformer& m) { m.image.num_channels = 0; },
      errc::not_positive,
      fact::num_channels,
      0));
  STATIC_CHECK(rejects(
      vision,
      [](transformer& m) { m.image.image_size = 13; },
      errc::out_of_bounds,
      fact::at_least,
      14));
  STATIC_CHECK(rejects(
      vision,
      [](transformer& m) { m.image.image_size = 14 * 65'537; },
      errc::out_of_bounds,
      fact::at_most,
      14 * 65'536));
  STATIC_CHECK(validate(with(vision, [](transformer& m) { m.image.image_size = 14 * 65'536; })));
  // Of others it says nothing.
  STATIC_CHECK(validate(with(decoder, [](transformer& m) { m.image.image_size = 13; })));
}

TEST_CASE("parameters that do not fit into 64 bits name the field that makes most of them") {
  STATIC_CHECK(overflow_names_the_field());
  STATIC_CHECK(rejects(
      decoder,
      [](transformer& m) {
        m.hidden_size = std::int64_t{1} << 36;
        m.head_dim = 1;
      },
      errc::overflow,
      fact::hidden_size,
      std::int64_t{1} << 36));
  STATIC_CHECK(rejects(
      decoder,
      [](transformer& m) {
        m.head_dim = std::int64_t{1} << 40;
        m.hidden_size = 1 << 20;
      },
      errc::overflow,
      fact::num_attention_heads,
      8));
  STATIC_CHECK(rejects(
      decoder,
      [](transformer& m) {
        m.relative_attention_buckets = std::int64_t{1} << 40;
        m.num_attention_heads = 1 << 24;
        m.num_key_value_heads = 1;
        m.head_dim = 1;
      },
      errc::overflow,
      fact::relative_attention_buckets,
      std::int64_t{1} << 40));
  STATIC_CHECK(rejects(
      vision,
      [](transformer& m) {
        m.image.patch_size = std::int64_t{1} << 30;
        m.image.image_size = std::int64_t{1} << 30;
      },
      errc::overflow,
      fact::patch_size,
      std::int64_t{1} << 30));
}
