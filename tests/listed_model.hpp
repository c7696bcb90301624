#pragma once

// A second count of parameters: every tensor of a model by name, one layer and one expert at a
// time, as the modules of a program would make them.

#include <gpuplan/parameters.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace listed {

using gpuplan::transformer;

enum class part { embedding, attention, mlp, router, experts, shared_experts, norms, head, other };

// How tensor-parallel ranks hold the pieces of a tensor.
enum class holders {
  all,    // each holds all pieces
  one,    // piece i is held by rank i, and so on around
  groups  // likewise, but a rank that got none holds a copy
};

constexpr std::int64_t at_the_front = -1;
constexpr std::int64_t at_the_end = 1'000'000;

struct tensor {
  std::string name;
  part where{};
  std::int64_t layer = 0;  // of all stacks; or one of the two constants
  std::int64_t pieces = 1;
  std::int64_t piece = 0;  // elements
  holders held_by = holders::all;
  std::int64_t expert = -1;
  bool is_bias = false;
  std::string module{};  // linear layer that it is of
};

// A linear layer that adapters may be for.
struct module {
  std::string name;
  std::string role;
  std::int64_t in = 0;
  std::int64_t out = 0;
};

struct split {
  std::int64_t pieces = 1;
  holders held_by = holders::all;
  bool inputs = false;  // else outputs are divided
};

class model {
 public:
  explicit model(const transformer& the_shape) : shape(the_shape) {
    list_tables();
    for (std::int64_t i = 0; i < shape.num_hidden_layers; ++i) {
      const std::string prefix = "layers." + std::to_string(i) + ".";
      list_layer(prefix, i, i, false);
    }
    for (std::int64_t i = 0; i < shape.num_decoder_layers; ++i)
      list_layer(
          "decoder.layers." + std::to_string(i) + ".", shape.num_hidden_layers + i, -1, true);
    list_end();
    for (std::int64_t i = 0; i < shape.mtp_layers; ++i) {
      const std::string prefix = "mtp." + std::to_string(i) + ".";
      norm(prefix + "enorm", at_the_end, shape.hidden_size);
      norm(prefix + "hnorm", at_the_end, shape.hidden_size);
      linear({prefix + "eh_proj", "other", 2 * shape.hidden_size, shape.hidden_size},
             part::other,
             at_the_end,
             false);
      list_layer(prefix, at_the_end, shape.num_hidden_layers - 1, false);
      norm(prefix + "norm", at_the_end, shape.hidden_size);
    }
  }

  transformer shape;
  std::vector<tensor> tensors;
  std::vector<module> modules;

 private:
  void add(tensor one) {
    if (one.pieces * one.piece != 0) tensors.push_back(std::move(one));
  }
  void vector(const std::string& name, part where, std::int64_t layer, std::int64_t size) {
    add({.name = name, .where = where, .layer = layer, .piece = size});
  }
  void linear(const module& of,
              part where,
              std::int64_t layer,
              bool bias,
              split divided = {},
              std::int64_t expert = -1) {
    modules.push_back(of);
    add({.name = of.name + ".weight",
         .where = where,
         .layer = layer,
         .pieces = divided.pieces,
         .piece = of.in * of.out / divided.pieces,
         .held_by = divided.held_by,
         .expert = expert,
         .module = of.name});
    if (!bias) return;
    const std::int64_t pieces = divided.inputs ? 1 : divided.pieces;
    add({.name = of.name + ".bias",
         .where = where,
         .layer = layer,
         .pieces = pieces,
         .piece = of.out / pieces,
         .held_by = divided.inputs ? holders::all : divided.held_by,
         .expert = expert,
         .is_bias = true,
         .module = of.name});
  }
  void norm(const std::string& name,
            std::int64_t layer,
            std::int64_t width,
            part where = part::norms) {
    if (!shape.norm_affine) return;
    vector(name + ".weight", where, layer, width);
    if (shape.norm_bias)
      add({.name = name + ".bias",
           .where = where,
           .layer = layer,
           .piece = width,
           .is_bias = true});
  }

  void list_tables() {
    const std::int64_t width = shape.embedding_dim != 0 ? shape.embedding_dim : shape.hidden_size;
    add({.name = "embed_tokens.weight",
         .where = part::embedding,
         .layer = at_the_front,
         .pieces = shape.vocab_size,
         .piece = width,
         .held_by = holders::one});
    const bool is_decoder = shape.kind == gpuplan::model_kind::decoder;
    const bool has_two = shape.kind == gpuplan::model_kind::encoder_decoder;
    for (const std::string prefix : {"", "decoder."}) {
      if (!prefix.empty() && !has_two) continue;
      vector(prefix + "embed_positions.weight",
             part::embedding,
             at_the_front,
             shape.position_rows * (is_decoder ? shape.hidden_size : width));
      add({.name = prefix + "relative_attention_bias.weight",
           .where = part::other,
           .layer = at_the_front,
           .pieces = shape.num_attention_heads,
           .piece = shape.relative_attention_buckets,
           .held_by = holders::one});
      // The second stack's is listed where it is kept: at the end.
      if (shape.embedding_norm)
        norm(prefix + "embed_norm", prefix.empty() ? at_the_front : at_the_end, width);
    }
    vector("embed_types.weight", part::embedding, at_the_front, shape.type_vocab_size * width);
    if (shape.kind == gpuplan::model_kind::vision) {
      const gpuplan::image_input& image = shape.image;
      linear({"patches",
              "patches",
              image.num_channels * image.patch_size * image.patch_size,
              shape.hidden_size},
             part::embedding,
             at_the_front,
             image.patch_bias);
      for (std::int64_t i = 0; i < image.class_tokens; ++i)
        vector("class_token", part::embedding, at_the_front, shape.hidden_size);
      for (std::int64_t i = 0; i < image.register_tokens; ++i)
        vector("register_token", part::embedding, at_the_front, shape.hidden_size);
      if (image.mask_token) vector("mask_token", part::embedding, at_the_front, shape.hidden_size);
    }
    if (shape.embedding_dim != 0)
      linear({"project_in", "other", width, shape.hidden_size},
             part::other,
             at_the_front,
             shape.embedding_projection_bias);
  }

  void list_attention(const std::string& prefix, std::int64_t layer, bool cross) {
    const std::int64_t width = shape.hidden_size;
    const std::int64_t heads = shape.num_attention_heads;
    const bool grouped = shape.num_key_value_heads != 0 && shape.mla.kv_lora_rank == 0;
    const std::int64_t groups = grouped ? shape.num_key_value_heads : heads;
    const bool bias = shape.attention_bias;
    const split by_heads{heads, holders::one};
    std::int64_t query = shape.head_dim != 0 ? shape.head_dim : width / heads;
    std::int64_t value = query;
    if (shape.mla.kv_lora_rank != 0) {
      const gpuplan::latent_attention& mla = shape.mla;
      query = mla.qk_nope_head_dim + mla.qk_rope_head_dim;
      value = mla.v_head_dim;
      std::int64_t query_in = width;
      if (mla.q_lora_rank != 0) {
        query_in = mla.q_lora_rank;
        linear({prefix + "q_a_proj", "query_down", width, query_in}, part::attention, layer, bias);
        vector(prefix + "q_a_norm.weight", part::attention, layer, query_in);
      }
      linear({prefix + "q_b_proj", "query", query_in, heads * query},
             part::attention,
             layer,
             false,
             by_heads);
      linear(
          {prefix + "kv_a_proj", "key_value_down", width, mla.kv_lora_rank + mla.qk_rope_head_dim},
          part::attention,
          layer,
          bias);
      vector(prefix + "kv_a_norm.weight", part::attention, layer, mla.kv_lora_rank);
      linear({prefix + "kv_b_proj",
              "key_value_up",
              mla.kv_lora_rank,
              heads * (mla.qk_nope_head_dim + mla.v_head_dim)},
             part::attention,
             layer,
             false,
             by_heads);
    } else {
      const split by_groups{groups, holders::groups};
      if (shape.fused_qkv && !cross) {
        // One module; its tensor is listed as what the ranks divide each way.
        const std::string name = prefix + "qkv_proj";
        modules.push_back({name, "query_key_value", width, (heads + 2 * groups) * query});
        for (const bool is_bias : {false, true}) {
          if (is_bias && !bias) continue;
          const std::int64_t rows = is_bias ? 1 : width;
          add({.name = name + "[q]",
               .where = part::attention,
               .layer = layer,
               .pieces = heads,
               .piece = rows * query,
               .held_by = holders::one,
               .is_bias = is_bias,
               .module = name});
          add({.name = name + "[kv]",
               .where = part::attention,
               .layer = layer,
               .pieces = groups,
               .piece = 2 * rows * query,
               .held_by = holders::groups,
               .is_bias = is_bias,
               .module = name});
        }
      } else {
        linear({prefix + "q_proj", "query", width, heads * query},
               part::attention,
               layer,
               bias,
               by_heads);
        linear({prefix + "k_proj", "key", width, groups * query},
               part::attention,
               layer,
               bias && shape.key_bias,
               by_groups);
        linear({prefix + "v_proj", "value", width, groups * query},
               part::attention,
               layer,
               bias,
               by_groups);
      }
    }
    if (shape.qk_norm != gpuplan::qk_norm_scope::none && shape.norm_affine) {
      const bool head = shape.qk_norm == gpuplan::qk_norm_scope::head;
      for (const std::string name : {"q_norm", "k_norm"}) {
        const std::int64_t size = head ? query : query * (name == "q_norm" ? heads : groups);
        vector(prefix + name + ".weight", part::attention, layer, size);
        if (shape.qk_norm_bias)
          add({.name = prefix + name + ".bias",
               .where = part::attention,
               .layer = layer,
               .piece = size,
               .is_bias = true});
      }
    }
    if (shape.attention_sinks)
      add({.name = prefix + "sinks",
           .where = part::attention,
           .layer = layer,
           .pieces = heads,
           .piece = 1,
           .held_by = holders::one});
    linear({prefix + "o_proj", "attention_out", heads * value, width},
           part::attention,
           layer,
           shape.attention_out_bias,
           {heads, holders::one, true});
  }

  void list_mlp(const std::string& prefix,
                const std::string& role,
                part where,
                std::int64_t layer,
                std::int64_t inner,
                std::int64_t expert = -1) {
    const std::int64_t width = shape.hidden_size;
    const bool bias = shape.mlp_bias;
    const split columns{inner, holders::one};
    if (shape.gated_mlp && shape.fused_gate_up) {
      linear({prefix + "gate_up_proj", role + "gate_up", width, 2 * inner},
             where,
             layer,
             bias,
             columns,
             expert);
    } else {
      if (shape.gated_mlp)
        linear({prefix + "gate_proj", role + "gate", width, inner},
               where,
               layer,
               bias,
               columns,
               expert);
      linear({prefix + "up_proj", role + "up", width, inner}, where, layer, bias, columns, expert);
    }
    linear({prefix + "down_proj", role + "down", inner, width},
           where,
           layer,
           bias,
           {inner, holders::one, true},
           expert);
  }

  // `own`: the number of the layer in a decoder, which says whether it has experts.
  void list_layer(const std::string& prefix, std::int64_t layer, std::int64_t own, bool cross) {
    const std::int64_t width = shape.hidden_size;
    list_attention(prefix + "self_attn.", layer, false);
    if (cross) list_attention(prefix + "cross_attn.", layer, true);
    const gpuplan::expert_mixture& moe = shape.moe;
    bool experts = false;
    if (own >= 0 && moe.num_experts != 0)
      experts =
          own >= moe.first_k_dense_layers && own % moe.moe_layer_step == moe.moe_layer_step - 1;
    if (experts) {
      linear({prefix + "router", "router", width, moe.num_experts},
             part::router,
             layer,
             moe.router_bias);
      for (std::int64_t expert = 0; expert < moe.num_experts; ++expert)
        list_mlp(prefix + "experts." + std::to_string(expert) + ".",
                 "expert_",
                 part::experts,
                 layer,
                 moe.moe_intermediate_size,
                 expert);
      if (moe.shared_expert_intermediate_size != 0)
        list_mlp(prefix + "shared_experts.",
                 "",
                 part::shared_experts,
                 layer,
                 moe.shared_expert_intermediate_size);
      if (moe.shared_expert_gate)
        linear({prefix + "shared_expert_gate", "shared_expert_gate", width, 1},
               part::router,
               layer,
               false);
    } else {
      list_mlp(prefix + "mlp.", "", part::mlp, layer, shape.intermediate_size);
    }
    const std::int64_t sublayers = cross ? 3 : 2;
    const std::int64_t norms =
        shape.parallel_attention ? shape.norms_per_layer : shape.norms_per_layer / 2 * sublayers;
    for (std::int64_t i = 0; i < norms; ++i)
      norm(prefix + "norm" + std::to_string(i), layer, width);
    for (std::int64_t i = 0; shape.layer_scale && i < sublayers; ++i)
      vector(prefix + "layer_scale", part::norms, layer, width);
  }

  void list_end() {
    const std::int64_t width = shape.hidden_size;
    const std::int64_t narrow = shape.embedding_dim != 0 ? shape.embedding_dim : width;
    const bool has_two = shape.kind == gpuplan::model_kind::encoder_decoder;
    if (shape.final_norm) norm("norm", at_the_end, width);
    if (shape.final_norm && has_two) norm("encoder.norm", at_the_end, width);
    if (shape.attention_pooling) {
      vector("pooling.probe", part::other, at_the_end, width);
      for (const std::string name : {"key", "value", "query", "out"})
        linear({"pooling." + name, "other", width, width}, part::other, at_the_end, true);
      if (shape.fused_qkv) {  // key and value are one module
        modules.resize(modules.size() - 4);
        modules.push_back({"pooling.kv", "other", width, 2 * width});
        modules.push_back({"pooling.query", "other", width, width});
        modules.push_back({"pooling.out", "other", width, width});
      }
      norm("pooling.norm", at_the_end, width);
      linear(
          {"pooling.up", "other", width, shape.intermediate_size}, part::other, at_the_end, true);
      linear(
          {"pooling.down", "other", shape.intermediate_size, width}, part::other, at_the_end, true);
    }
    if (shape.pooler) linear({"pooler", "other", width, width}, part::other, at_the_end, true);
    if (shape.projection_dim != 0)
      linear({"projection", "other", width, shape.projection_dim},
             part::other,
             at_the_end,
             shape.projection_bias);
    const bool of_words = shape.head == gpuplan::head_kind::language_model;
    const std::int64_t head_width = of_words ? narrow : width;
    if (shape.head_dense)
      linear({"head.dense", "head_dense", width, head_width},
             part::head,
             at_the_end,
             shape.head_dense_bias);
    else if (head_width != width)
      linear({"project_out", "other", width, head_width},
             part::other,
             at_the_end,
             shape.embedding_projection_bias);
    if (shape.head_norm) norm("head.norm", at_the_end, head_width, part::head);
    if (of_words) {
      modules.push_back({"lm_head", "head", narrow, shape.vocab_size});
      if (!shape.tied_embeddings)
        add({.name = "lm_head.weight",
             .where = part::head,
             .layer = at_the_end,
             .pieces = shape.vocab_size,
             .piece = narrow,
             .held_by = holders::one,
             .module = "lm_head"});
      if (shape.lm_head_bias)
        add({.name = "lm_head.bias",
             .where = part::head,
             .layer = at_the_end,
             .pieces = shape.vocab_size,
             .piece = 1,
             .held_by = holders::one,
             .is_bias = true,
             .module = "lm_head"});
    }
    if (shape.head == gpuplan::head_kind::classifier)
      linear({"classifier", "head", shape.classifier_inputs * width, shape.num_classes},
             part::head,
             at_the_end,
             shape.classifier_bias);
    vector("other", part::other, at_the_end, shape.other_parameters);
  }
};

inline std::int64_t elements(const tensor& one) { return one.pieces * one.piece; }

// Those on one of `ways` tensor-parallel ranks, dealt like cards.
inline std::int64_t elements_on(const tensor& one, std::int64_t ways, std::int64_t rank) {
  if (one.held_by == holders::all) return elements(one);
  std::int64_t held = 0;
  for (std::int64_t piece = rank; piece < one.pieces; piece += ways) ++held;
  if (one.held_by == holders::groups && held == 0) held = 1;
  return held * one.piece;
}

inline std::int64_t& of_part(gpuplan::parameter_counts& counts, part where) {
  switch (where) {
    case part::embedding:
      return counts.embedding;
    case part::attention:
      return counts.attention;
    case part::mlp:
      return counts.mlp;
    case part::router:
      return counts.router;
    case part::experts:
      return counts.experts;
    case part::shared_experts:
      return counts.shared_experts;
    case part::norms:
      return counts.norms;
    case part::head:
      return counts.head;
    case part::other:
      break;
  }
  return counts.other;
}

// What one rank holds. A token uses the experts with the lowest numbers.
inline gpuplan::parameter_counts parameters(const model& all,
                                            const gpuplan::parallelism& layout,
                                            const gpuplan::model_rank& rank) {
  const std::int64_t layers = all.shape.layers();
  const std::int64_t last_stage = layout.pipeline_parallel - 1;
  const auto stage_of = [&](std::int64_t layer) {
    if (layer == at_the_front) return std::int64_t{0};
    if (layer == at_the_end) return last_stage;
    std::int64_t stage = 0;
    while (gpuplan::layers_of_chunk(layout, layers, stage).last <= layer) ++stage;
    return stage;
  };
  gpuplan::parameter_counts counts;
  for (const tensor& one : all.tensors) {
    bool here = stage_of(one.layer) == rank.stage;
    if (one.name == "embed_tokens.weight") {
      const bool head =
          all.shape.tied_embeddings && all.shape.head == gpuplan::head_kind::language_model;
      here = here || ((head || all.shape.mtp_layers != 0) && rank.stage == last_stage);
      if (all.shape.num_decoder_layers != 0)
        here = here || stage_of(all.shape.num_hidden_layers) == rank.stage;
    }
    if (one.expert >= 0) here = here && one.expert % layout.expert_parallel == rank.expert_rank;
    if (!here || layers == 0) continue;
    // experts that ranks share are whole, or in parts of their own
    const bool is_shared = one.expert >= 0 && layout.expert_parallel > 1;
    const std::int64_t ways = is_shared ? layout.expert_tensor_parallel : layout.tensor_parallel;
    const std::int64_t size = elements_on(one, ways, rank.tensor_rank % ways);
    of_part(counts, one.where) += size;
    if (one.expert >= all.shape.moe.num_experts_per_tok) counts.idle += size;
  }
  return counts;
}

inline bool is_target(const module& one, const gpuplan::lora& adapters, const transformer& shape) {
  const gpuplan::lora_targets& t = adapters.targets;
  const bool classifies = shape.head == gpuplan::head_kind::classifier;
  const std::string& role = one.role;
  if (role == "query") return t.query;
  if (role == "key") return t.key;
  if (role == "value") return t.value;
  if (role == "query_key_value") return t.query && t.key && t.value;
  if (role == "attention_out") return t.attention_out;
  if (role == "query_down") return t.query_down;
  if (role == "key_value_down") return t.key_value_down;
  if (role == "key_value_up") return t.key_value_up;
  if (role == "gate") return t.gate;
  if (role == "up") return t.up;
  if (role == "gate_up") return t.gate && t.up;
  if (role == "down") return t.down;
  if (role == "expert_gate") return t.experts && t.gate;
  if (role == "expert_up") return t.experts && t.up;
  if (role == "expert_gate_up") return t.experts && t.gate && t.up;
  if (role == "expert_down") return t.experts && t.down;
  if (role == "router") return t.router;
  if (role == "shared_expert_gate") return t.shared_expert_gate;
  if (role == "patches") return t.patches;
  if (role == "head_dense")
    return t.other && (!adapters.copy_head || shape.head == gpuplan::head_kind::language_model);
  if (role == "head") return !adapters.copy_head && (t.head || (t.classifier && classifies));
  return t.other;
}

// Whether a tensor is of the head: of a classifier, all that `head` holds.
inline bool is_of_head(const tensor& one, const transformer& shape) {
  if (shape.head == gpuplan::head_kind::language_model) return one.module == "lm_head";
  return one.where == part::head;
}

inline std::int64_t trainable(const model& all, const gpuplan::trainable& trains) {
  using gpuplan::training;
  const transformer& shape = all.shape;
  const bool of_words = shape.head == gpuplan::head_kind::language_model;
  const bool is_tied = shape.tied_embeddings && of_words;
  const gpuplan::lora& adapters = trains.adapters;
  std::int64_t sum = 0;
  const auto count = [&](auto holds) {
    for (const tensor& one : all.tensors)
      if (holds(one)) sum += elements(one);
  };
  const auto is_table = [](const tensor& one) { return one.name == "embed_tokens.weight"; };
  switch (trains.what) {
    case training::full:
      count([](const tensor&) { return true; });
      break;
    case training::frozen:
      break;
    case training::head:
      count(
          [&](const tensor& one) { return is_of_head(one, shape) || (is_tied && is_table(one)); });
      break;
    case training::last_layers:
      count([&](const tensor& one) {
        const bool has_head = !is_tied || trains.tied_head;
        return (one.layer >= shape.layers() - trains.last_layers && one.layer < shape.layers()) ||
               one.name == "norm.weight" || one.name == "norm.bias" ||
               one.name.starts_with("pool") || (has_head && is_of_head(one, shape)) ||
               (is_tied && trains.tied_head && is_table(one));
      });
      break;
    case training::adapters: {
      for (const module& one : all.modules)
        if (is_target(one, adapters, shape))
          sum += adapters.rank * one.in + adapters.rank * one.out +
                 (adapters.magnitudes ? one.out : 0);
      const auto is_adapted = [&](const std::string& name) {
        for (const module& one : all.modules)
          if (one.name == name) return is_target(one, adapters, shape);
        return false;
      };
      count([&](const tensor& one) {
        if (adapters.copy_head && is_of_head(one, shape)) return true;
        if (adapters.copy_head && is_tied && is_table(one)) return true;
        if (!one.is_bias || adapters.bias == gpuplan::lora_bias::none) return false;
        if (adapters.bias == gpuplan::lora_bias::all) return true;
        // timm's key and value are listed apart.
        const bool of_pair =
            shape.fused_qkv && (one.module == "pooling.key" || one.module == "pooling.value");
        return is_adapted(of_pair ? "pooling.kv" : one.module);
      });
      count([&](const tensor& one) { return adapters.copy_embedding && is_table(one); });
      if (adapters.targets.embedding && shape.vocab_size != 0)
        sum += adapters.rank * (shape.vocab_size + (shape.embedding_dim != 0 ? shape.embedding_dim
                                                                             : shape.hidden_size));
      break;
    }
  }
  return sum;
}

}  // namespace listed
