#include "model/description.hpp"

#include <gpuplan/catalog/models.hpp>
#include <gpuplan/operators.hpp>
#include <gpuplan/parameters.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace describe_model {
namespace {

using namespace gpuplan;
using io::cell;

std::string count(std::int64_t n) { return std::to_string(n); }

// "1 layer", "2 layers".
std::string count_of(std::int64_t n, const std::string& thing) {
  return count(n) + " " + thing + (n == 1 ? "" : "s");
}

// ---- what it is, in words

std::string layers_of(const transformer& model) {
  std::string out = count_of(model.num_hidden_layers, "layer");
  if (model.kind == model_kind::encoder_decoder)
    out = count(model.num_hidden_layers) + " + " + count_of(model.num_decoder_layers, "layer");
  out += ", hidden size " + count(model.hidden_size);
  if (model.mtp_layers != 0)
    out += ", and " + count_of(model.mtp_layers, "layer") + " of multi-token prediction";
  return out;
}

std::string attention_of(const transformer& model) {
  std::string out = count_of(model.num_attention_heads, "head") + " of " + count(model.query_dim());
  if (model.is_latent())
    out += " (values " + count(model.value_dim()) + "), latent vectors of " +
           (model.mla.q_lora_rank != 0 ? count(model.mla.q_lora_rank) + " and " : "") +
           count(model.mla.kv_lora_rank);
  else if (model.key_value_heads() != model.num_attention_heads)
    out += ", " + count_of(model.key_value_heads(), "key-value head");
  if (model.attention_bias) out += ", biases";
  if (model.qk_norm != qk_norm_scope::none) out += ", norms of query and key";
  if (model.attention_sinks) out += ", sinks";
  if (model.sliding_window != 0) {
    out += ", window of " + count(model.sliding_window);
    if (model.global_layer_step != 0)
      out += " but in each " + count(model.global_layer_step) + ". layer";
  }
  if (model.clip_qkv) out += ", bounded";
  if (model.parallel_attention) out += ", beside the MLP";
  return out;
}

std::string mlp_of(const transformer& model) {
  return std::string(model.gated_mlp ? "gated, " : "") + count(model.intermediate_size) + " wide" +
         (model.mlp_bias ? ", biases" : "") + (model.clamped_gate_up ? ", clamped" : "");
}

std::string experts_of(const transformer& model) {
  const expert_mixture& moe = model.moe;
  std::string out = count(moe.num_experts) + " of " + count(moe.moe_intermediate_size) + ", " +
                    count(moe.num_experts_per_tok) + " a token";
  if (moe.shared_expert_intermediate_size != 0)
    out += ", and " + count(moe.shared_expert_intermediate_size) + " shared";
  out += "; " + count_of(model.moe_layers_before(model.num_hidden_layers), "layer");
  return out;
}

std::string norms_of(const transformer& model) {
  std::string out = model.norm == norm_kind::rms_norm ? "RMS norms" : "layer norms";
  if (!model.norm_affine) out += " without weights";
  switch (model.norm_at) {
    case norm_position::before:
      return out + " before attention and MLP";
    case norm_position::after_residual:
      return out + " after each residual";
    case norm_position::after_sublayer:
      return out + " after attention and MLP";
    case norm_position::around:
      break;
  }
  return out + " before and after attention and MLP";
}

std::string input_of(const transformer& model) {
  if (model.kind == model_kind::vision) {
    const image_input& image = model.image;
    return "images of " + count(image.image_size) + " x " + count(image.image_size) + ": " +
           count(image.patches()) + " patches, " + count(image.tokens()) + " tokens";
  }
  std::string out = "vocabulary of " + count(model.vocab_size);
  if (model.embedding_dim != 0) out += ", " + count(model.embedding_dim) + " wide";
  if (model.position_rows != 0) out += ", " + count(model.position_rows) + " learned positions";
  if (model.relative_attention_buckets != 0) out += ", relative positions";
  if (model.type_vocab_size != 0) out += ", " + count_of(model.type_vocab_size, "token type");
  return out;
}

std::string output_of(const transformer& model) {
  std::string out;
  if (model.pooler || model.attention_pooling) out = "a pooled vector";
  if (model.projection_dim != 0) out = "a vector of " + count(model.projection_dim);
  if (model.head == head_kind::classifier)
    out = (out.empty() ? "" : out + ", ") + "scores of " + count(model.num_classes) + " classes";
  if (model.head == head_kind::language_model)
    out = model.tied_embeddings ? "logits, by the token table" : "logits, by a matrix of its own";
  return out.empty() ? "the last hidden states" : out;
}

section facts_about(const request& asked) {
  section facts{.id = "model", .title = asked.name, .columns = {{"what"}, {"it is"}}};
  const auto say = [&](const char* what, std::string is) {
    facts.rows.push_back({what, std::move(is)});
  };
  if (asked.parts != nullptr) {
    say("kind", count_of(asked.parts->size(), "part") + ", in the order in which data flows");
  } else {
    const transformer& model = asked.shape;
    say("kind", kind_of(model));
    say("layers", layers_of(model));
    say("attention", attention_of(model));
    if (model.moe.num_experts != 0) say("experts", experts_of(model));
    if (model.moe_layers_before(model.num_hidden_layers) != model.num_hidden_layers)
      say("MLP", mlp_of(model));
    say("norms", norms_of(model));
    say("input", input_of(model));
    say("output", output_of(model));
  }
  for (const std::string& remark : asked.remarks) say("shape", remark);
  if (!asked.published_note.empty())
    say(asked.published_extra != 0 ? "published besides" : "published", asked.published_note);
  if (!asked.published_source.empty()) say("published by", asked.published_source);
  return facts;
}

// ---- parameters

struct part_of_counts {
  const char* name;
  std::int64_t parameter_counts::*count;
};
constexpr part_of_counts parts_of_counts[] = {
    {"embedding", &parameter_counts::embedding},
    {"attention", &parameter_counts::attention},
    {"recurrent", &parameter_counts::recurrent},
    {"MLP", &parameter_counts::mlp},
    {"router", &parameter_counts::router},
    {"experts", &parameter_counts::experts},
    {"shared experts", &parameter_counts::shared_experts},
    {"norms", &parameter_counts::norms},
    {"head", &parameter_counts::head},
    {"other", &parameter_counts::other},
};

double share(double part, double all) { return all == 0 ? 0 : 100 * part / all; }
double share(std::int64_t part, std::int64_t all) {
  return share(static_cast<double>(part), static_cast<double>(all));
}

parameter_counts parameters_of(const request& asked) {
  return asked.parts != nullptr ? parameters(*asked.parts) : parameters(asked.shape);
}

std::int64_t trained_by(const request& asked) {
  return asked.parts != nullptr ? trainable_parameters(*asked.parts)
                                : trainable_parameters(asked.shape, asked.pass.trains);
}

section where_parameters_are(const request& asked) {
  const parameter_counts counts = parameters_of(asked);
  section table{
      .id = "parameters",
      .title = "Parameters",
      .columns = {{"where"}, {"parameters", measure::parameters}, {"share", measure::percent}},
      .has_bars = true};
  for (const part_of_counts& part : parts_of_counts)
    if (counts.*part.count != 0)
      table.rows.push_back(
          {part.name, counts.*part.count, share(counts.*part.count, counts.total())});
  return table;
}

section parameter_totals(const request& asked) {
  const parameter_counts counts = parameters_of(asked);
  const std::int64_t trained = trained_by(asked);
  section table{
      .id = "totals",
      .title = "Parameters in all",
      .columns = {{"which"}, {"parameters", measure::parameters}, {"share", measure::percent}}};
  const auto add = [&](const char* which, std::int64_t n) {
    table.rows.push_back({which, n, share(n, counts.total())});
  };
  add("total", counts.total());
  if (counts.idle != 0) add("active for a token", counts.active());
  add("without embedding", counts.non_embedding());
  add("trainable", trained);
  if (asked.published_parameters != 0) {
    add("published", asked.published_parameters);
    if (asked.published_extra != 0)
      add("published, of the shape", asked.published_parameters - asked.published_extra);
  }
  return table;
}

// ---- layers

struct layers_of_a_kind {
  const char* name;
  std::int64_t count;
  parameter_counts each;
};

std::vector<layers_of_a_kind> kinds_of_layers(const transformer& model) {
  const layer_counts layers = layers_between(model, 0, model.layers());
  const bool both = model.kind == model_kind::encoder_decoder;
  const bool differ = layers[layer_kind::dense] != model.num_hidden_layers;
  struct named_kind {
    layer_kind kind;
    const char* name;
  };
  std::vector<layers_of_a_kind> kinds;
  for (const named_kind& one : {named_kind{layer_kind::dense,
                                           both     ? "encoder"
                                           : differ ? "with MLP"
                                                    : "layer"},
                                named_kind{layer_kind::experts, "with experts"},
                                named_kind{layer_kind::linear_dense, "linear attention, MLP"},
                                named_kind{layer_kind::linear_experts, "linear attention, experts"},
                                named_kind{layer_kind::state_space_alone, "Mamba-2"},
                                named_kind{layer_kind::linear_alone, "linear attention"},
                                named_kind{layer_kind::attention_alone, "attention"},
                                named_kind{layer_kind::mlp_alone, "MLP"},
                                named_kind{layer_kind::experts_alone, "experts"},
                                named_kind{layer_kind::cross, "decoder"}})
    if (layers[one.kind] != 0)
      kinds.push_back({one.name, layers[one.kind], layer_parameters(model, one.kind)});
  if (model.mtp_layers != 0)
    kinds.push_back({"multi-token prediction", own_mtp_layers(model), mtp_layer_parameters(model)});
  return kinds;
}

section what_layers_hold(const transformer& model) {
  section table{.id = "layers", .title = "Layers", .columns = {{"what"}}};
  const std::vector<layers_of_a_kind> kinds = kinds_of_layers(model);
  for (const layers_of_a_kind& kind : kinds)
    table.columns.push_back({kinds.size() == 1 ? "parameters" : kind.name, measure::integer});
  const auto add = [&](const char* name, auto value_of) {
    std::vector<cell> row{name};
    bool any = false;
    for (const layers_of_a_kind& kind : kinds) {
      row.emplace_back(value_of(kind));
      any = any || value_of(kind) != 0;
    }
    if (any) table.rows.push_back(std::move(row));
  };
  add("layers", [](const layers_of_a_kind& kind) { return kind.count; });
  for (const part_of_counts& part : parts_of_counts)
    add(part.name, [&](const layers_of_a_kind& kind) { return kind.each.*part.count; });
  add("one layer", [](const layers_of_a_kind& kind) { return kind.each.total(); });
  add("all layers", [](const layers_of_a_kind& kind) { return kind.count * kind.each.total(); });
  return table;
}

// ---- parts of a composite model

// What belongs to no part.
std::string name_of_others(const composite_model& model) {
  if (model.actions.action_dim != 0) return "what makes actions";
  const std::int64_t tapped = model.parts[0].model.image.tapped.count;
  if (tapped != 0) return count_of(tapped, "deepstack merger") + " and norms";
  return "beside the parts";
}

section what_parts_hold(const request& asked) {
  const composite_model& model = *asked.parts;
  section table{.id = "parts",
                .title = "Parts",
                .columns = {{"part"},
                            {"sequences", measure::integer},
                            {"tokens of one", measure::integer},
                            {"parameters", measure::parameters},
                            {"share", measure::percent}},
                .has_bars = true};
  const std::int64_t all = parameters(model).total();
  table.columns[1].in_text = false;
  for (int i = 0; i < model.size(); ++i) {
    const component& part = model.parts[i];
    if (part.sequences != 1) table.columns[1].in_text = true;
    const std::int64_t n = parameters(part.model).total();
    table.rows.push_back({name_of_part(model, i),
                          part.sequences,
                          tokens_of(part, asked.pass.sequence_length),
                          n,
                          share(n, all)});
    if (part.next.layers() == 0) continue;
    const std::int64_t between = parameters(part.next);
    table.rows.push_back({"connector of " + count_of(part.next.layers(), "layer"),
                          1,
                          part.next.tokens,
                          between,
                          share(between, all)});
  }
  if (model.other_parameters != 0)
    table.rows.push_back({name_of_others(model),
                          cell(),
                          cell(),
                          model.other_parameters,
                          share(model.other_parameters, all)});
  return table;
}

// ---- FLOPs

// Whole, as long as a double can say so.
cell flop(double value) {
  return value < 0x1p53 && value == static_cast<double>(static_cast<std::int64_t>(value))
             ? cell(value, 0)
             : cell(value);
}

// What FLOPs are counted for: "token" is the smallest thing that all operators are counted by.
struct basis {
  std::string name;     // "token", "image", "pair of sequences", "sample"
  double units = 1;     // in what a pass counts
  std::string of_pass;  // what a pass counts
};

basis basis_of(const request& asked) {
  if (asked.parts != nullptr) return {"sample", 1, "sample"};
  const transformer& model = asked.shape;
  if (model.kind == model_kind::vision) return {"image", 1, "image"};
  if (model.kind == model_kind::encoder_decoder)
    return {"pair of sequences", 1, "pair of sequences"};
  return {"token", static_cast<double>(tokens_of(model, asked.pass)), "sequence"};
}

flop_counts flops_of(const request& asked, const training_pass& pass) {
  return asked.parts != nullptr ? flops(*asked.parts, pass) : flops(asked.shape, pass);
}

const char* text(attention_pairs pairs) {
  switch (pairs) {
    case attention_pairs::full:
      return "attention in full";
    case attention_pairs::causal_half:
      return "half of causal attention";
    case attention_pairs::visible:
      break;
  }
  return "the attention that masks let through";
}

const char* text(recompute_mode mode) {
  switch (mode) {
    case recompute_mode::none:
      return "fused attention";
    case recompute_mode::selective:
      return "attention recomputed";
    case recompute_mode::full:
      break;
  }
  return "layers recomputed";
}

std::string length_of(const request& asked) {
  const training_pass& pass = asked.pass;
  if (asked.parts == nullptr && asked.shape.kind == model_kind::vision) return "one image";
  std::string out = "a sequence of " + count(pass.sequence_length);
  if (asked.parts == nullptr && asked.shape.kind == model_kind::encoder_decoder)
    out = count(pass.sequence_length) + " tokens in, " +
          count(pass.decoder_sequence_length != 0 ? pass.decoder_sequence_length
                                                  : pass.sequence_length) +
          " out";
  return out;
}

section what_operators_take(const request& asked) {
  const basis by = basis_of(asked);
  const flop_counts counts = flops_of(asked, asked.pass);
  const double all = counts.model().value();
  section table{.id = "flops",
                .title = "FLOP per " + by.name + " by operator: " + length_of(asked) + ", " +
                         text(asked.pass.pairs) +
                         (asked.pass.recompute == recompute_mode::none
                              ? std::string()
                              : std::string(", ") + text(asked.pass.recompute)),
                .columns = {{"operator"},
                            {"forward", measure::flop},
                            {"backward", measure::flop},
                            {"recomputed", measure::flop},
                            {"share", measure::percent}},
                .has_bars = true};
  for (int i = 0; i < operator_kinds; ++i) {
    const operator_flops& of = counts.by_operator[i];
    if (of.forward == 0) continue;
    std::string name = gpuplan::text(static_cast<operator_kind>(i));
    std::replace(name.begin(), name.end(), '_', ' ');
    table.rows.push_back({name,
                          flop(of.forward / by.units),
                          flop(of.backward / by.units),
                          flop(of.recomputed / by.units),
                          share(of.forward + of.backward, all)});
  }
  table.rows.push_back({"all",
                        flop(counts.forward().value() / by.units),
                        flop(counts.backward().value() / by.units),
                        flop(counts.recomputed().value() / by.units),
                        100.0});
  table.sums = 1;
  table.one_unit = true;
  return table;
}

section in_every_convention(const request& asked) {
  const basis by = basis_of(asked);
  training_pass pass = asked.pass;
  pass.recompute = recompute_mode::none;
  pass.pairs = attention_pairs::full;
  const double whole = flops_of(asked, pass).model().value();
  section table{.id = "conventions",
                .title = "FLOP of training, forward and backward, as it is counted",
                .columns = {{"convention"}, {"per " + by.name, measure::flop}}};
  const bool by_token = by.name != by.of_pass;
  if (by_token) table.columns.push_back({"per " + by.of_pass, measure::flop});
  table.columns.push_back({"of the first", measure::percent});
  const auto add = [&](const std::string& name, double counted) {
    std::vector<cell> row{name, flop(counted / by.units)};
    if (by_token) row.push_back(flop(counted));
    row.emplace_back(share(counted, whole));
    table.rows.push_back(std::move(row));
  };
  add("model FLOP, attention in full", whole);
  const bool is_causal = asked.parts != nullptr || asked.shape.kind == model_kind::decoder ||
                         asked.shape.kind == model_kind::encoder_decoder;
  if (is_causal) {
    pass.pairs = attention_pairs::causal_half;
    add("model FLOP, half of causal attention", flops_of(asked, pass).model().value());
    pass.pairs = attention_pairs::visible;
    add("model FLOP, what masks let through", flops_of(asked, pass).model().value());
    pass.pairs = attention_pairs::full;
  }
  if (asked.parts == nullptr && by_token) {
    pass.trains = {};
    const double tokens = static_cast<double>(tokens_of(asked.shape, pass));
    add("6 N: per active parameter, if all train",
        6 * static_cast<double>(parameters(asked.shape).active()) * tokens);
    add("6 N, and attention in full", rule_of_thumb_flops(asked.shape, pass).value());
    pass.trains = asked.pass.trains;
  }
  for (const recompute_mode mode :
       {recompute_mode::none, recompute_mode::selective, recompute_mode::full}) {
    pass.recompute = mode;
    add(std::string("hardware FLOP, ") + text(mode), flops_of(asked, pass).hardware().value());
  }
  return table;
}

// ---- ranks

section what_ranks_hold(const request& asked) {
  const transformer& model = asked.shape;
  const parallelism& layout = asked.layout;
  section table{.id = "ranks",
                .title = "Parameters of a rank: tensor parallel " + count(layout.tensor_parallel) +
                         ", pipeline parallel " + count(layout.pipeline_parallel) +
                         ", expert parallel " + count(layout.expert_parallel) +
                         (layout.expert_tensor_parallel > 1
                              ? ", parts of experts " + count(layout.expert_tensor_parallel)
                              : std::string()),
                .columns = {{"stage"},
                            {"first layer", measure::integer},
                            {"last layer", measure::integer},
                            {"smallest rank", measure::integer},
                            {"largest rank", measure::parameters},
                            {"of the model", measure::percent}},
                .has_bars = true};
  const std::int64_t all = parameters(model).total();
  for (std::int64_t stage = 0; stage < layout.pipeline_parallel; ++stage) {
    std::int64_t least = 0;
    std::int64_t most = 0;
    for (std::int64_t tensor = 0; tensor < layout.tensor_parallel; ++tensor)
      for (std::int64_t expert = 0; expert < layout.expert_parallel; ++expert) {
        const std::int64_t held =
            parameters(
                model, layout, {.stage = stage, .tensor_rank = tensor, .expert_rank = expert})
                .total();
        least = tensor + expert == 0 ? held : std::min(least, held);
        most = std::max(most, held);
      }
    const layer_range range = layers_of_chunk(layout, model.layers(), stage);
    table.rows.push_back(
        {count(stage), range.first, range.last - 1, least, most, share(most, all)});
  }
  return table;
}

}  // namespace

std::string name_of_part(const composite_model& model, int which) {
  const component& part = model.parts[which];
  if (*part.model.name != '\0') return part.model.name;
  if (part.model.kind == model_kind::vision) return "vision tower";
  if (which >= 2) return "action expert";
  const bool pairs_texts =
      part.model.head == head_kind::none && model.actions.action_dim == 0 && which == 1;
  return pairs_texts ? "text tower" : "language model";
}

std::int64_t usual_sequence_length(const transformer& model) {
  if (model.kind == model_kind::vision) return 0;
  if (model.audio.num_mel_bins != 0) return model.position_rows;  // it takes no other
  const std::int64_t usual = model.kind == model_kind::decoder ? 4096 : 512;
  return model.position_rows != 0 ? std::min(usual, model.position_rows) : usual;
}

std::vector<section> describe(const request& asked) {
  std::vector<section> all{facts_about(asked)};
  if (asked.parts != nullptr) all.push_back(what_parts_hold(asked));
  all.push_back(where_parameters_are(asked));
  all.push_back(parameter_totals(asked));
  // Layers of stages differ, and their operators are not counted.
  if (asked.parts == nullptr && asked.shape.stages.size() != 0) return all;
  if (asked.parts == nullptr) all.push_back(what_layers_hold(asked.shape));
  if (!(asked.layout == parallelism{})) all.push_back(what_ranks_hold(asked));
  all.push_back(what_operators_take(asked));
  all.push_back(in_every_convention(asked));
  return all;
}

std::string kind_of(const transformer& model) {
  switch (model.kind) {
    case model_kind::decoder:
      return "decoder";
    case model_kind::encoder:
      return "encoder";
    case model_kind::encoder_decoder:
      return "encoder-decoder";
    case model_kind::vision:
      break;
  }
  return "vision encoder";
}

section list_catalogue(const std::vector<const catalog::published_model*>& models) {
  section table{.id = "catalogue",
                .title = "The catalogue",
                .columns = {{"model"},
                            {"kind"},
                            {"layers", measure::integer, false},
                            {"hidden size", measure::integer, false},
                            {"parameters", measure::parameters},
                            {"active", measure::integer, false},
                            {"published", measure::integer},
                            {"published extra", measure::integer, false},
                            {"note", measure::text, false},
                            {"source", measure::text, false}}};
  for (const catalog::published_model* listed : models) {
    const catalog::published_model& model = *listed;
    std::vector<cell> row{model.id};
    if (model.shape != nullptr) {
      const parameter_counts counts = parameters(*model.shape);
      row.insert(row.end(),
                 {kind_of(*model.shape),
                  model.shape->layers(),
                  model.shape->hidden_size,
                  counts.total(),
                  counts.active()});
    } else if (model.parts != nullptr) {
      const parameter_counts counts = parameters(*model.parts);
      row.insert(row.end(),
                 {count_of(model.parts->size(), "part"), {}, {}, counts.total(), counts.active()});
    } else {
      row.insert(row.end(), {"no shape", {}, {}, {}, {}});
    }
    if (model.published_parameters != 0)
      row.insert(row.end(), {model.published_parameters, model.published_extra});
    else
      row.insert(row.end(), {cell(), cell()});
    for (const char* words : {model.note, model.source})
      row.push_back(*words == '\0' ? cell() : cell(words));
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace describe_model
