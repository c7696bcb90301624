#include <gpuplan/operators.hpp>

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "check.hpp"

namespace {

using namespace gpuplan;

constexpr transformer gpt{.num_hidden_layers = 2,
                          .hidden_size = 8,
                          .intermediate_size = 32,
                          .num_attention_heads = 2,
                          .vocab_size = 50,
                          .attention_bias = true,
                          .attention_out_bias = true,
                          .fused_qkv = true,
                          .gated_mlp = false,
                          .mlp_bias = true,
                          .norm_bias = true,
                          .position_rows = 16,
                          .tied_embeddings = true};
constexpr transformer llama{.num_hidden_layers = 5,
                            .hidden_size = 12,
                            .intermediate_size = 20,
                            .num_attention_heads = 6,
                            .num_key_value_heads = 2,
                            .vocab_size = 50};

template <class Change>
constexpr transformer with(transformer model, Change change) {
  change(model);
  return model;
}

// Writes down what it visits, a letter each; capitals are linear layers.
struct recorder {
  char text[256]{};
  int size = 0;
  std::int64_t times = 1;
  std::int64_t in_by_out = 0;  // of all linear layers, as often as they are there

  constexpr void write(std::string_view more) {
    for (const char letter : more) text[size++] = letter;
  }
  constexpr std::string_view seen() const {
    return {text, static_cast<std::string_view::size_type>(size)};
  }

  constexpr void repeat(std::int64_t count) { times = count; }
  constexpr void begin_sublayer() { write("("); }
  constexpr void norm(slot, std::int64_t) { write("n"); }
  constexpr void latent_norm(slot, std::int64_t) { write("l"); }
  constexpr void head_norm(slot, std::int64_t) { write("h"); }
  constexpr void output_norm(slot, std::int64_t) { write("o"); }
  constexpr void share(slot, slot) {}
  constexpr void sinks(std::int64_t) { write("s"); }
  constexpr void attention(const attention_operator&) { write("a"); }
  constexpr void recur(const recurrent_operator&) { write("r"); }
  constexpr void weigh(slot, slot) { write("w"); }
  constexpr void scale(std::int64_t) { write("x"); }
  constexpr void add_residual() { write(")"); }
  constexpr void linear(const linear_operator& op) {
    in_by_out += times * op.in * op.out * op.copies;
    switch (op.kind) {
      case operator_kind::query:
        return write("Q");
      case operator_kind::key:
        return write("K");
      case operator_kind::value:
        return write("V");
      case operator_kind::query_key_value:
        return write("F");
      case operator_kind::query_down:
      case operator_kind::key_value_down:
        return write("L");
      case operator_kind::key_value_up:
        return write("B");
      case operator_kind::attention_output:
        return write("O");
      case operator_kind::gate:
      case operator_kind::expert_gate:
      case operator_kind::shared_gate:
        return write("G");
      case operator_kind::up:
      case operator_kind::expert_up:
      case operator_kind::shared_up:
        return write("U");
      case operator_kind::down:
      case operator_kind::expert_down:
      case operator_kind::shared_down:
        return write("D");
      case operator_kind::router:
      case operator_kind::shared_expert_gate:
        return write("R");
      case operator_kind::head:
        return write("H");
      default:
        return write("?");
    }
  }
};

constexpr recorder layer_of(const transformer& model, layer_kind kind) {
  recorder visitor;
  visit_layer(model, kind, visitor);
  return visitor;
}
template <class Change>
constexpr bool layer_reads(const transformer& model,
                           Change change,
                           layer_kind kind,
                           std::string_view expected) {
  return layer_of(with(model, change), kind).seen() == expected;
}

constexpr bool names_differ() {
  for (int i = 0; i < operator_kinds; ++i)
    for (int k = 0; k < i; ++k)
      if (std::string_view(text(static_cast<operator_kind>(i))) ==
          std::string_view(text(static_cast<operator_kind>(k))))
        return false;
  return true;
}

// Many layers at once hold what they hold one by one.
constexpr bool layers_add_up(const transformer& model) {
  for (std::int64_t first = 0; first <= model.layers(); ++first)
    for (std::int64_t last = first; last <= model.layers(); ++last) {
      std::int64_t one_by_one = 0;
      layer_counts expected;
      for (std::int64_t layer = first; layer < last; ++layer) {
        const layer_kind kind =
            layer >= model.num_hidden_layers ? layer_kind::cross : model.kind_of(layer);
        one_by_one += layer_of(model, kind).in_by_out;
        expected.add(kind, 1);
      }
      const layer_counts layers = layers_between(model, first, last);
      for (int kind = 0; kind < layer_kinds; ++kind)
        if (layers.of[kind] != expected.of[kind]) return false;
      recorder visitor;
      visit_layers(model, layers, visitor);
      if (visitor.in_by_out != one_by_one || visitor.times != 1) return false;
    }
  return true;
}

}  // namespace

TEST_CASE("operators have names") {
  STATIC_CHECK(std::string_view(text(operator_kind::patch_embedding)) == "patch_embedding");
  STATIC_CHECK(std::string_view(text(operator_kind::scores)) == "scores");
  STATIC_CHECK(std::string_view(text(operator_kind::shared_expert_gate)) == "shared_expert_gate");
  STATIC_CHECK(std::string_view(text(operator_kind::adapters)) == "adapters");
  STATIC_CHECK(names_differ());
}

TEST_CASE("which operators are of routed experts") {
  STATIC_CHECK(is_of_expert(operator_kind::expert_gate));
  STATIC_CHECK(is_of_expert(operator_kind::expert_gate_up));
  STATIC_CHECK(is_of_expert(operator_kind::expert_up));
  STATIC_CHECK(is_of_expert(operator_kind::expert_down));
  STATIC_CHECK(!is_of_expert(operator_kind::router));
  STATIC_CHECK(!is_of_expert(operator_kind::shared_up));
  STATIC_CHECK(!is_of_expert(operator_kind::up));
}

TEST_CASE("a layer is visited in the order of its forward pass") {
  constexpr auto as_is = [](transformer&) {};
  STATIC_CHECK(layer_reads(gpt, as_is, layer_kind::dense, "(nFaO)(nUD)"));
  STATIC_CHECK(layer_reads(llama, as_is, layer_kind::dense, "(nQKVaO)(nGUD)"));
  STATIC_CHECK(layer_reads(
      llama,
      [](transformer& m) { m.norm_at = norm_position::after_residual; },
      layer_kind::dense,
      "(QKVaO)n(GUD)n"));
  STATIC_CHECK(layer_reads(
      llama,
      [](transformer& m) { m.norm_at = norm_position::after_sublayer; },
      layer_kind::dense,
      "(QKVaOn)(GUDn)"));
  STATIC_CHECK(layer_reads(
      llama,
      [](transformer& m) { m.norm_at = norm_position::around; },
      layer_kind::dense,
      "(nQKVaOn)(nGUDn)"));
  STATIC_CHECK(layer_reads(
      llama,
      [](transformer& m) {
        m.qk_norm = qk_norm_scope::head;
        m.attention_sinks = true;
        m.layer_scale = true;
      },
      layer_kind::dense,
      "(nQKVhhsaOx)(nGUDx)"));
  STATIC_CHECK(layer_reads(llama, as_is, layer_kind::cross, "(nQKVaO)(nQKVaO)(nGUD)"));
  // A fused layer reads one input: cross-attention has two.
  STATIC_CHECK(layer_reads(gpt, as_is, layer_kind::cross, "(nFaO)(nQKVaO)(nUD)"));
}

TEST_CASE("attention in parallel with the MLP") {
  constexpr auto parallel = [](transformer& m) {
    m.parallel_attention = true;
    m.norms_per_layer = 1;
  };
  STATIC_CHECK(layer_reads(llama, parallel, layer_kind::dense, "(nQKVaOGUD)"));
  STATIC_CHECK(layer_reads(
      llama,
      [](transformer& m) { m.parallel_attention = true; },
      layer_kind::dense,
      "(nQKVaO(nGUD)"));
  STATIC_CHECK(layer_reads(
      llama,
      [](transformer& m) { m.parallel_attention = m.layer_scale = true; },
      layer_kind::dense,
      "(nQKVaOx(nGUDx)"));
}

TEST_CASE("latent attention") {
  constexpr auto latent = [](transformer& m) {
    m.mla = {.q_lora_rank = 3,
             .kv_lora_rank = 2,
             .qk_nope_head_dim = 4,
             .qk_rope_head_dim = 2,
             .v_head_dim = 4};
  };
  STATIC_CHECK(layer_reads(llama, latent, layer_kind::dense, "(nLlQLlBaO)(nGUD)"));
  STATIC_CHECK(layer_reads(
      llama,
      [](transformer& m) {
        m.mla = {.kv_lora_rank = 2, .qk_nope_head_dim = 4, .qk_rope_head_dim = 2, .v_head_dim = 4};
      },
      layer_kind::dense,
      "(nQLlBaO)(nGUD)"));
}

TEST_CASE("experts, shared ones behind them, gated ones before") {
  STATIC_CHECK(layer_reads(
      llama,
      [](transformer& m) { m.moe = {.num_experts = 4}; },
      layer_kind::experts,
      "(nQKVaO)(nRGUDw)"));
  STATIC_CHECK(layer_reads(
      llama,
      [](transformer& m) { m.moe = {.num_experts = 4, .shared_expert_intermediate_size = 3}; },
      layer_kind::experts,
      "(nQKVaO)(nRGUDwGUD)"));
  STATIC_CHECK(layer_reads(
      llama,
      [](transformer& m) {
        m.moe = {
            .num_experts = 4, .shared_expert_intermediate_size = 3, .shared_expert_gate = true};
      },
      layer_kind::experts,
      "(nQKVaO)(nGUDRGUDwRw)"));
}

TEST_CASE("what is before the layers and behind them") {
  constexpr auto input_reads = [](const transformer& model, std::string_view expected) {
    recorder visitor;
    visit_input(model, visitor);
    return visitor.seen() == expected;
  };
  constexpr auto output_reads = [](const transformer& model, std::string_view expected) {
    recorder visitor;
    visit_output(model, visitor);
    return visitor.seen() == expected;
  };
  STATIC_CHECK(input_reads(llama, ""));
  STATIC_CHECK(input_reads(with(llama,
                                [](transformer& m) {
                                  m.embedding_dim = 4;
                                  m.embedding_norm = true;
                                }),
                           "n?"));
  STATIC_CHECK(input_reads(with(llama, [](transformer& m) { m.kind = model_kind::vision; }), "?"));
  STATIC_CHECK(output_reads(llama, "nH"));
  STATIC_CHECK(output_reads(with(llama, [](transformer& m) { m.embedding_dim = 4; }), "n?H"));
  STATIC_CHECK(output_reads(with(llama,
                                 [](transformer& m) {
                                   m.final_norm = false;
                                   m.head_dense = m.head_norm = true;
                                 }),
                            "?oH"));
  STATIC_CHECK(output_reads(with(llama, [](transformer& m) { m.head = head_kind::none; }), "n"));
  STATIC_CHECK(output_reads(with(llama,
                                 [](transformer& m) {
                                   m.head = head_kind::classifier;
                                   m.pooler = true;
                                 }),
                            "n?H"));
  // Key, value, query of the pooling attention, its output, and the MLP behind it.
  STATIC_CHECK(output_reads(with(llama,
                                 [](transformer& m) {
                                   m.head = head_kind::none;
                                   m.attention_pooling = true;
                                 }),
                            "n???a?n??"));
  constexpr auto mtp_reads = [](std::string_view before, std::string_view behind) {
    recorder input;
    recorder output;
    visit_mtp_input(llama, input);
    visit_mtp_output(llama, output);
    return input.seen() == before && output.seen() == behind;
  };
  STATIC_CHECK(mtp_reads("nn?", "nH"));
}

TEST_CASE("multi-token prediction repeats the model's last layer") {
  constexpr auto kind_with = [](expert_mixture moe) {
    transformer model = llama;
    model.moe = moe;
    return mtp_layers_of(model)[layer_kind::experts] == 1;
  };
  STATIC_CHECK(!kind_with({}));
  STATIC_CHECK(kind_with({.num_experts = 4}));
  STATIC_CHECK(!kind_with({.num_experts = 4, .moe_layer_step = 2}));
  STATIC_CHECK(!kind_with({.num_experts = 4, .first_k_dense_layers = 5}));
}

namespace {
constexpr transformer hybrid = with(llama, [](transformer& m) {
  m.mamba = {.num_heads = 4, .head_dim = 6, .state_size = 8, .n_groups = 2};
  m.linear = {.num_key_heads = 2, .key_head_dim = 3, .num_value_heads = 4, .value_head_dim = 5};
  m.moe = {.num_experts = 3, .num_experts_per_tok = 1, .moe_intermediate_size = 7};
  m.num_hidden_layers = 6;
  m.hybrid_pattern = {"M-*EGM"};
});
}  // namespace

TEST_CASE("layers of hybrids are of one part each") {
  constexpr auto reads = [](std::int64_t layer, std::string_view expected) {
    return layer_of(hybrid, hybrid.kind_of(layer)).seen() == expected;
  };
  STATIC_CHECK(bool(validate(hybrid)));
  STATIC_CHECK(reads(0, "(n?r?)"));
  STATIC_CHECK(reads(1, "(nGUD)"));
  STATIC_CHECK(reads(2, "(nQKVaO)"));
  STATIC_CHECK(reads(4, "(n?r?)"));
  STATIC_CHECK(layers_add_up(hybrid));
  STATIC_CHECK(layers_add_up(with(hybrid, [](transformer& m) {
    m.hybrid_pattern = {};
    m.full_attention_interval = 4;
  })));
  STATIC_CHECK(!validate(with(hybrid, [](transformer& m) { m.hybrid_pattern = {"M-*EG"}; })));
  STATIC_CHECK(!validate(with(hybrid, [](transformer& m) { m.hybrid_pattern = {"M-*EGX"}; })));
  STATIC_CHECK(!validate(with(hybrid, [](transformer& m) { m.mamba.state_size = 0; })));
}

TEST_CASE("layers at once hold what they hold one by one") {
  STATIC_CHECK(layers_add_up(llama));
  STATIC_CHECK(layers_add_up(with(llama, [](transformer& m) {
    m.moe = {.num_experts = 3,
             .num_experts_per_tok = 1,
             .moe_intermediate_size = 2,
             .shared_expert_intermediate_size = 5,
             .first_k_dense_layers = 1,
             .moe_layer_step = 2};
  })));
  STATIC_CHECK(layers_add_up(with(llama, [](transformer& m) {
    m.kind = model_kind::encoder_decoder;
    m.num_decoder_layers = 3;
  })));
}
