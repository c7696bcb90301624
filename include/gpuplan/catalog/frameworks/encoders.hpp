#pragma once

// Encoders of text and of images of Hugging Face's transformers 5.23, and those that a person
// writes like them with torch.nn.

#include <gpuplan/catalog/framework_parts.hpp>
#include <gpuplan/detail/flaws.hpp>
#include <gpuplan/framework.hpp>
#include <gpuplan/implementation.hpp>
#include <gpuplan/layer_classes.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/result.hpp>

#include <cstdint>

namespace gpuplan {
namespace code_names {
inline constexpr code_name bert{"bert"};
inline constexpr code_name albert{"albert"};
inline constexpr code_name deberta{"deberta"};
inline constexpr code_name modernbert{"modernbert"};
inline constexpr code_name vit{"vit"};
}  // namespace code_names

namespace detail {

// Encoders of text, norms behind residuals, and of images, before: with all biases.
constexpr failure flaw_of_encoders(const transformer& model,
                                   const implementation& as,
                                   norm_position at,
                                   bool shares_layers = false) {
  const named_fact layers{fact::layers, as.layers->name};
  if (model.gated_mlp) return without_code({{fact::gated_mlp, true}, layers, {fact::takes, false}});
  if (model.norm != norm_kind::layer_norm)
    return without_code({{fact::norm, model.norm}, layers, {fact::takes, norm_kind::layer_norm}});
  const std::int64_t heads = model.key_value_heads();
  if (heads * model.query_dim() != model.hidden_size)
    return without_code({{fact::hidden_size, model.hidden_size},
                         {fact::num_key_value_heads, heads},
                         {fact::head_dim, model.query_dim()},
                         layers,
                         {fact::takes, heads * model.query_dim()}});
  if (const failure why =
          flaw_unless({{{fact::norm_at, model.norm_at}, static_cast<std::int64_t>(at)},
                       {{fact::norm_bias, model.norm_bias}, true},
                       {{fact::norm_affine, model.norm_affine}, true},
                       {{fact::attention_bias, model.attention_bias},
                        model.kind != model_kind::vision || model.attention_bias},
                       {{fact::attention_out_bias, model.attention_out_bias}, true},
                       {{fact::mlp_bias, model.mlp_bias}, true}},
                      layers);
      failed(why))
    return why;
  if (const failure why = flaw_if_any({{fact::qk_norm, model.qk_norm},
                                       {fact::parallel_attention, model.parallel_attention},
                                       {fact::sliding_window, model.sliding_window}},
                                      layers);
      failed(why))
    return why;
  return flaw_of_most(model, as, model.kind == model_kind::encoder, shares_layers);
}
// What stands before the matrix of a head: of masked tokens a dense layer and a norm, of a
// classifier of sequences or of replaced tokens a dense layer, which may be the class's pooler.
constexpr failure flaw_of_text_head(const transformer& model, const implementation& as) {
  const bool is_masked = model.head == head_kind::language_model;
  const bool classifies = model.head == head_kind::classifier;
  const bool of_sequences = classifies && model.classified == classified_kind::sequences;
  const bool of_replaced = classifies && model.classified == classified_kind::replaced;
  const bool may_pool = model.head == head_kind::none || (of_sequences && as.encoder.pools);
  return flaw_unless({{{fact::pooler, model.pooler}, may_pool && model.pooler},
                      {{fact::head_dense, model.head_dense},
                       is_masked || of_replaced || (of_sequences && !model.pooler)},
                      {{fact::head_norm, model.head_norm}, is_masked},
                      {{fact::classifier_reads_mean, model.classifier_reads_mean}, false}},
                     {fact::layers, as.layers->name});
}
// An encoder of text, with a norm behind its embedding and none behind its layers.
constexpr failure flaw_of_text_encoders(const transformer& model,
                                        const implementation& as,
                                        bool shares_layers = false) {
  if (const failure why = flaw_of_encoders(model, as, norm_position::after_residual, shares_layers);
      failed(why))
    return why;
  if (const failure why = flaw_unless({{{fact::embedding_norm, model.embedding_norm}, true},
                                       {{fact::final_norm, model.final_norm}, false}},
                                      {fact::layers, as.layers->name});
      failed(why))
    return why;
  return flaw_of_text_head(model, as);
}
constexpr failure flaw_of_bert(const transformer& model, const implementation& as) {
  if (model.position_rows == 0 && model.sinusoid_rows == 0)
    return without_code(
        {{fact::position_rows, 0}, {fact::layers, as.layers->name}, {fact::at_least, 1}});
  return flaw_of_text_encoders(model, as);
}
constexpr failure flaw_of_albert(const transformer& model, const implementation& as) {
  const std::int64_t groups = model.shared.num_hidden_groups;
  if (groups == 0)
    return without_code(
        {{fact::num_hidden_groups, 0}, {fact::layers, as.layers->name}, {fact::at_least, 1}});
  if (model.position_rows == 0)
    return without_code(
        {{fact::position_rows, 0}, {fact::layers, as.layers->name}, {fact::at_least, 1}});
  return flaw_of_text_encoders(model, as, true);
}
constexpr failure flaw_of_deberta(const transformer& model, const implementation& as) {
  if (model.disentangled.distances == 0)
    return without_code(
        {{fact::attention_distances, 0}, {fact::layers, as.layers->name}, {fact::at_least, 1}});
  return flaw_of_text_encoders(model, as);
}
constexpr failure flaw_of_modernbert(const transformer& model, const implementation& as) {
  const named_fact layers{fact::layers, as.layers->name};
  const auto number = [](auto value) { return static_cast<std::int64_t>(value); };
  if (const failure why = flaw_unless(
          {{{fact::norm, model.norm}, number(norm_kind::layer_norm)},
           {{fact::norm_at, model.norm_at}, number(norm_position::before)},
           {{fact::norm_affine, model.norm_affine}, true},
           {{fact::gated_mlp, model.gated_mlp}, true},
           {{fact::fused_qkv, model.fused_qkv}, true},
           {{fact::fused_gate_up, model.fused_gate_up}, true},
           {{fact::embedding_norm, model.embedding_norm}, true},
           {{fact::final_norm, model.final_norm}, true},
           {{fact::head_dense, model.head_dense}, model.head != head_kind::none},
           {{fact::head_norm, model.head_norm}, model.head != head_kind::none},
           {{fact::num_key_value_heads, model.key_value_heads()}, model.num_attention_heads}},
          layers);
      failed(why))
    return why;
  if (const failure why = flaw_if_any({{fact::position_rows, model.position_rows},
                                       {fact::type_vocab_size, model.type_vocab_size},
                                       {fact::qk_norm, model.qk_norm},
                                       {fact::parallel_attention, model.parallel_attention},
                                       {fact::pooler, model.pooler}},
                                      layers);
      failed(why))
    return why;
  if (const failure why = flaw_of_heads(model, as); failed(why)) return why;
  if (const failure why = flaw_of_rotation(model, as, true); failed(why)) return why;
  return flaw_of_all(model, as);
}
constexpr failure flaw_of_image_classifiers(const transformer& model, const implementation& as) {
  if (model.head != head_kind::classifier)
    return without_code({{fact::head, model.head},
                         {fact::layers, as.layers->name},
                         {fact::takes, head_kind::classifier}});
  if (const failure why = flaw_if_any({{fact::type_vocab_size, model.type_vocab_size},
                                       {fact::pooler, model.pooler},
                                       {fact::head_dense, model.head_dense},
                                       {fact::head_norm, model.head_norm},
                                       {fact::classifier_reads_mean, model.classifier_reads_mean}},
                                      {fact::layers, as.layers->name});
      failed(why))
    return why;
  return flaw_of_encoders(model, as, norm_position::before);
}
// A row for each token, but for registers that come behind the positions.
constexpr failure flaw_of_image_positions(const transformer& model, const implementation& as) {
  const image_input& image = model.image;
  const std::int64_t rows =
      image.tokens() - (as.images.registers_behind_positions ? image.register_tokens : 0);
  return flaw_unless({{{fact::position_rows, model.position_rows}, rows}},
                     {fact::layers, as.layers->name});
}
constexpr failure flaw_of_vit(const transformer& model, const implementation& as) {
  // A larger model counts them.
  if (const failure why = flaw_if_any({{fact::counts_patches, as.images.counts_patches}},
                                      {fact::layers, as.layers->name});
      failed(why))
    return why;
  if (const failure why = flaw_of_image_classifiers(model, as); failed(why)) return why;
  if (const failure why = flaw_of_image_positions(model, as); failed(why)) return why;
  const named_fact layers{fact::layers, as.layers->name};
  if (const failure why = flaw_if_any({{fact::attention_pooling, model.attention_pooling}}, layers);
      failed(why))
    return why;
  return flaw_unless({{{fact::classifier_inputs, model.classifier_inputs}, 1}}, layers);
}

}  // namespace detail

namespace layer_classes {
/// Hugging Face's BERT and what was copied from it.
inline constexpr layer_class bert{.name = &code_names::bert,
                                  .kind = model_kind::encoder,
                                  .flaw_of = detail::flaw_of_bert,
                                  .code = &eager::library_code,
                                  .has_module_hooks = true,
                                  .compares_texts = true,
                                  .counts_work = true};
/// Hugging Face's ALBERT.
inline constexpr layer_class albert{.name = &code_names::albert,
                                    .kind = model_kind::encoder,
                                    .flaw_of = detail::flaw_of_albert,
                                    .code = &eager::library_code,
                                    .compares_texts = true,
                                    .repeats_layers = false,
                                    .counts_work = true};
/// Hugging Face's DeBERTa-v2.
inline constexpr layer_class deberta{.name = &code_names::deberta,
                                     .kind = model_kind::encoder,
                                     .flaw_of = detail::flaw_of_deberta,
                                     .code = &eager::library_code,
                                     .recomputes_periodically = false,
                                     .recomputes_first_layers = false,
                                     .has_gradients_beside = true,
                                     .has_flash = false,
                                     .compares_texts = true,
                                     .repeats_layers = false,
                                     .counts_work = true};
/// Hugging Face's ModernBERT.
inline constexpr layer_class modernbert{.name = &code_names::modernbert,
                                        .kind = model_kind::encoder,
                                        .flaw_of = detail::flaw_of_modernbert,
                                        .code = &eager::library_code,
                                        .compares_texts = true,
                                        .repeats_layers = false,
                                        .counts_work = true};
/// Hugging Face's ViT, CLIP's and SigLIP's towers.
inline constexpr layer_class vit{.name = &code_names::vit,
                                 .kind = model_kind::vision,
                                 .flaw_of = detail::flaw_of_vit,
                                 .code = &eager::library_code,
                                 .reads_padding = false,
                                 .counts_work = true};
}  // namespace layer_classes

namespace catalog {

/// BertForMaskedLM, BertForSequenceClassification, BertModel.
inline constexpr framework hugging_face_bert{
    .name = "transformers, BERT",
    .implementation = {.layers = &layer_classes::bert, .encoder = {.pools = true}},
    .costs = eager_costs};

/// Likewise RoBERTa.
inline constexpr framework hugging_face_roberta{
    .name = "transformers, RoBERTa",
    .implementation = {.layers = &layer_classes::bert,
                       .encoder = {.positions = position_numbers::counted_after_cache,
                                   .positions_behind_norm = true,
                                   .drops_before_dense = true,
                                   .gelu_in_head = true}},
    .costs = eager_costs};

/// Likewise Data2Vec's, ERNIE, which is BERT,
/// XLM-RoBERTa and CamemBERT, whose heads stand before the encoder,
inline constexpr framework hugging_face_xlm_roberta = [] {
  framework changed = hugging_face_roberta;
  changed.name = "transformers, XLM-RoBERTa";
  changed.implementation.encoder.builds_head_first = true;
  return changed;
}();

/// ELECTRA,
inline constexpr framework hugging_face_electra{
    .name = "transformers, ELECTRA",
    .implementation = {.layers = &layer_classes::bert,
                       .encoder = {.drops_before_dense = true,
                                   .shares_head_bias = false,
                                   .gelu_in_head = true,
                                   .builds_head_norm_first = true}},
    .costs = eager_costs};

/// ALBERT, whose layers run more than once,
inline constexpr framework hugging_face_albert{
    .name = "transformers, ALBERT",
    .implementation = {.layers = &layer_classes::albert,
                       .encoder = {.pools = true, .builds_head_norm_first = true}},
    .costs = eager_costs};

/// DeBERTa-v2 and v3, whose attention is eager,
inline constexpr framework hugging_face_deberta{
    .name = "transformers, DeBERTa-v2",
    .implementation = {.layers = &layer_classes::deberta,
                       .has_sdpa = false,
                       .encoder = {.gelu_in_classifier = true, .reads_labelled = true}},
    .costs = eager_costs};

/// ModernBERT, which rotates in fp32, with windows,
inline constexpr framework hugging_face_modernbert{
    .name = "transformers, ModernBERT",
    .implementation = {.layers = &layer_classes::modernbert,
                       .logits = logits_kind::to_fp32,
                       .encoder = {.shares_head_bias = false}},
    .costs = eager_costs};

/// Likewise MPNet, whose attention is eager, with a bias by distance.
inline constexpr framework hugging_face_mpnet{
    .name = "transformers, MPNet",
    .implementation = {.layers = &layer_classes::bert,
                       .has_sdpa = false,
                       .encoder = {.positions = position_numbers::counted,
                                   .drops_before_dense = true,
                                   .gelu_in_head = true}},
    .costs = eager_costs};

/// Likewise DistilBERT.
inline constexpr framework hugging_face_distilbert{
    .name = "transformers, DistilBERT",
    .implementation = {.layers = &layer_classes::bert,
                       .encoder = {.outputs_inside = true,
                                   .shares_head_bias = false,
                                   .drops_before_spans = true}},
    .costs = eager_costs};

/// ViTForImageClassification.
inline constexpr framework hugging_face_vit{.name = "transformers, ViT",
                                            .implementation = {.layers = &layer_classes::vit},
                                            .costs = eager_costs};

/// CLIPForImageClassification.
inline constexpr framework hugging_face_clip{
    .name = "transformers, CLIP",
    .implementation = {.layers = &layer_classes::vit,
                       .images = {.built = layer_construction::attention_norm_mlp_norm,
                                  .positions_in_table = true,
                                  .builds_key_first = true,
                                  .views_behind_projections = true,
                                  .adds_to_residual = true,
                                  .drops_embedding = false,
                                  .drops_hidden = false,
                                  .means_patches = true,
                                  .norms_first_token = true}},
    .costs = eager_costs};

/// SiglipForImageClassification.
inline constexpr framework hugging_face_siglip{
    .name = "transformers, SigLIP",
    .implementation = {.layers = &layer_classes::vit,
                       .images = {.built = layer_construction::norm_attention_norm_mlp,
                                  .positions_in_table = true,
                                  .builds_key_first = true,
                                  .adds_to_residual = true,
                                  .drops_embedding = false,
                                  .drops_hidden = false,
                                  .means_patches = true,
                                  .truncates_weights = true}},
    .costs = eager_costs};

/// A BERT likewise, with the head for masked tokens.
inline constexpr framework torch_bert{
    .name = "torch.nn, BERT",
    .implementation = {.layers = &layer_classes::bert, .encoder = {.shares_head_bias = false}},
    .costs = eager_torch};

/// A ViT likewise, which classifies by the first token.
inline constexpr framework torch_vit{.name = "torch.nn, ViT",
                                     .implementation = {.layers = &layer_classes::vit},
                                     .costs = eager_torch};

inline constexpr listed_framework encoder_frameworks[] = {
    {&hugging_face_bert, "bert", {"bert", "ernie", "all-minilm", "bge-"}},
    {&hugging_face_roberta, "roberta", {"roberta", "data2vec-text", "data2vectext"}},
    {&hugging_face_xlm_roberta,
     "xlm-roberta",
     {"xlm-roberta", "xlmroberta", "camembert", "bge-m3"}},
    {&hugging_face_electra, "electra", {"electra"}},
    {&hugging_face_albert, "albert", {"albert"}},
    {&hugging_face_deberta, "deberta-v2", {"deberta-v2", "debertav2", "deberta-v3"}},
    {&hugging_face_modernbert, "modernbert", {"modernbert"}},
    {&hugging_face_mpnet, "mpnet", {"all-mpnet", "mpnet"}},
    {&hugging_face_distilbert, "distilbert", {"distilbert"}},
    {&hugging_face_vit, "vit", {"vit"}},
    {&hugging_face_clip,
     "clip",
     {"clip-", "clip-vit-large-patch14-vision", "clip_vision", "clipvision", "clipfor"}},
    {&hugging_face_siglip,
     "siglip",
     {"siglip-", "siglip-so400m-patch14-224-vision", "siglip_vision", "siglipvision", "siglipfor"}},
    {&torch_bert},
    {&torch_vit},
};

}  // namespace catalog
}  // namespace gpuplan
