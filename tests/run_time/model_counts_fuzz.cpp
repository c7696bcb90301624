// Any numbers at all: `validate` rejects them, or every count of them fits into 64 bits. What
// overflows or divides by zero on the way stops a build with sanitizers; without them, counts are
// compared with sums of doubles.

#include "check.hpp"
#include "random_model.hpp"

#include <gpuplan/flops.hpp>

#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>

using namespace gpuplan;

namespace {

constexpr std::int64_t power(int exponent) { return std::int64_t{1} << exponent; }

constexpr std::int64_t extremes[] = {0,
                                     1,
                                     -1,
                                     2,
                                     3,
                                     8,
                                     96,
                                     4096,
                                     65'536,
                                     65'537,
                                     power(20),
                                     power(20) + 1,
                                     power(26),
                                     power(31),
                                     power(32),
                                     power(32) + 1,
                                     power(40) - 1,
                                     power(40),
                                     power(40) + 1,
                                     power(62),
                                     std::numeric_limits<std::int64_t>::max(),
                                     std::numeric_limits<std::int64_t>::min()};

std::int64_t extreme(dice& roll) {
  return extremes[roll.from(0, static_cast<std::int64_t>(std::size(extremes)) - 1)];
}

void disturb(dice& roll, transformer& m) {
  std::int64_t* const fields[] = {&m.num_hidden_layers,
                                  &m.num_decoder_layers,
                                  &m.hidden_size,
                                  &m.intermediate_size,
                                  &m.num_attention_heads,
                                  &m.num_key_value_heads,
                                  &m.head_dim,
                                  &m.vocab_size,
                                  &m.mla.q_lora_rank,
                                  &m.mla.kv_lora_rank,
                                  &m.mla.qk_nope_head_dim,
                                  &m.mla.qk_rope_head_dim,
                                  &m.mla.v_head_dim,
                                  &m.sliding_window,
                                  &m.global_layer_step,
                                  &m.moe.num_experts,
                                  &m.moe.num_experts_per_tok,
                                  &m.moe.moe_intermediate_size,
                                  &m.moe.shared_expert_intermediate_size,
                                  &m.moe.first_k_dense_layers,
                                  &m.moe.moe_layer_step,
                                  &m.norms_per_layer,
                                  &m.position_rows,
                                  &m.relative_attention_buckets,
                                  &m.type_vocab_size,
                                  &m.embedding_dim,
                                  &m.image.image_size,
                                  &m.image.patch_size,
                                  &m.image.num_channels,
                                  &m.image.class_tokens,
                                  &m.image.register_tokens,
                                  &m.num_classes,
                                  &m.classifier_inputs,
                                  &m.projection_dim,
                                  &m.mtp_layers,
                                  &m.other_parameters};
  for (std::int64_t i = roll.from(1, 4); i > 0; --i)
    *fields[roll.from(0, static_cast<std::int64_t>(std::size(fields)) - 1)] = extreme(roll);
}

// The parameters of a valid model, as a sum of doubles.
double roughly(const transformer& m) {
  const auto d = [](std::int64_t count) { return static_cast<double>(count); };
  const auto bias = [](bool has) { return has ? 1.0 : 0.0; };
  const double width = d(m.hidden_size);
  const double narrow = m.embedding_dim != 0 ? d(m.embedding_dim) : width;
  const double heads = d(m.num_attention_heads);
  const bool grouped = m.num_key_value_heads != 0 && m.mla.kv_lora_rank == 0;
  const double groups = grouped ? d(m.num_key_value_heads) : heads;
  const double stacks = m.kind == model_kind::encoder_decoder ? 2 : 1;
  const auto norm = [&](double of) { return m.norm_affine ? of * (m.norm_bias ? 2 : 1) : 0; };
  double query = m.head_dim != 0 ? d(m.head_dim) : width / heads;
  double attention = m.attention_sinks ? heads : 0;
  double value = query;
  if (m.mla.kv_lora_rank != 0) {
    query = d(m.mla.qk_nope_head_dim) + d(m.mla.qk_rope_head_dim);
    value = d(m.mla.v_head_dim);
    const double latent = d(m.mla.q_lora_rank);
    const double from = latent != 0 ? latent : width;
    const double down = d(m.mla.kv_lora_rank) + d(m.mla.qk_rope_head_dim);
    attention += latent * (width + bias(m.attention_bias) + 1) + from * heads * query +
                 down * (width + bias(m.attention_bias)) + d(m.mla.kv_lora_rank) +
                 d(m.mla.kv_lora_rank) * heads * (d(m.mla.qk_nope_head_dim) + value);
  } else {
    attention += (width + bias(m.attention_bias)) * query * (heads + 2 * groups);
    attention -= m.attention_bias && !m.key_bias ? query * groups : 0;
  }
  attention += heads * value * width + bias(m.attention_out_bias) * width;
  if (m.qk_norm != qk_norm_scope::none && m.norm_affine)
    attention +=
        (m.qk_norm_bias ? 2 : 1) * query * (m.qk_norm == qk_norm_scope::head ? 2 : heads + groups);
  const auto mlp = [&](double inner) {
    return inner * (width + bias(m.mlp_bias)) * (m.gated_mlp ? 2 : 1) +
           width * (inner + bias(m.mlp_bias));
  };
  const expert_mixture& moe = m.moe;
  double experts = 0;
  if (moe.num_experts != 0) {
    const double shared = d(moe.shared_expert_intermediate_size);
    experts =
        d(moe.num_experts) * (width + bias(moe.router_bias) + mlp(d(moe.moe_intermediate_size))) +
        (shared != 0 ? mlp(shared) : 0) + bias(moe.shared_expert_gate) * width;
  }
  double with_experts = 0;
  for (std::int64_t i = 0; moe.num_experts != 0 && i < m.num_hidden_layers; ++i)
    with_experts +=
        i >= moe.first_k_dense_layers && i % moe.moe_layer_step == moe.moe_layer_step - 1;
  const bool last_has = moe.num_experts != 0 && m.num_hidden_layers > moe.first_k_dense_layers &&
                        m.num_hidden_layers % moe.moe_layer_step == 0;
  const double mtp = d(m.mtp_layers);
  const double layers = d(m.num_hidden_layers) + mtp;
  const double crossed = d(m.num_decoder_layers);
  if (last_has) with_experts += mtp;
  const double scales = m.layer_scale ? width : 0;
  const double norms = d(m.norms_per_layer) * norm(width);
  double total = layers * (attention + norms + 2 * scales) + with_experts * experts +
                 (layers + crossed - with_experts) * mlp(d(m.intermediate_size)) +
                 crossed * (2 * attention + norms * 1.5 + 3 * scales) +
                 mtp * (3 * norm(width) + 2 * width * width);

  total += narrow * (d(m.vocab_size) + d(m.type_vocab_size)) +
           stacks * d(m.position_rows) * (m.kind == model_kind::decoder ? width : narrow) +
           stacks * heads * d(m.relative_attention_buckets) + d(m.other_parameters);
  if (m.embedding_norm) total += stacks * norm(narrow);
  if (m.final_norm) total += stacks * norm(width);
  const double projection_bias = bias(m.embedding_projection_bias);
  if (m.embedding_dim != 0) total += width * (narrow + projection_bias);
  if (m.kind == model_kind::vision) {
    const double patch = d(m.image.patch_size) * d(m.image.patch_size);
    total +=
        width * (d(m.image.num_channels) * patch + bias(m.image.patch_bias) +
                 d(m.image.class_tokens) + d(m.image.register_tokens) + bias(m.image.mask_token));
  }
  if (m.attention_pooling)
    total += width + 4 * (width + 1) * width + norm(width) + 2 * width * d(m.intermediate_size) +
             d(m.intermediate_size) + width;
  if (m.pooler) total += (width + 1) * width;
  total += (width + bias(m.projection_bias)) * d(m.projection_dim);
  const bool of_words = m.head == head_kind::language_model;
  const double head_width = of_words ? narrow : width;
  if (m.head_dense)
    total += (width + bias(m.head_dense_bias)) * head_width;
  else if (head_width != width)
    total += (width + projection_bias) * head_width;
  if (m.head_norm) total += norm(head_width);
  if (of_words)
    total += d(m.vocab_size) * ((m.tied_embeddings ? 0 : narrow) + bias(m.lm_head_bias));
  if (m.head == head_kind::classifier)
    total += d(m.num_classes) * (d(m.classifier_inputs) * width + bias(m.classifier_bias));
  return total;
}

bool near(double a, double b) { return std::abs(a - b) <= 1e-9 * std::abs(b); }

bool all_positive(const parameter_counts& counts) {
  for (const std::int64_t part : {counts.embedding,
                                  counts.attention,
                                  counts.recurrent,
                                  counts.mlp,
                                  counts.router,
                                  counts.experts,
                                  counts.shared_experts,
                                  counts.norms,
                                  counts.head,
                                  counts.other,
                                  counts.idle})
    if (part < 0) return false;
  return counts.idle <= counts.experts;
}

bool all_finite(const flop_counts& counts) {
  for (const operator_flops& one : counts.by_operator)
    for (const double part : {one.forward, one.backward, one.recomputed})
      if (!(part >= 0) || !std::isfinite(part)) return false;
  return true;
}

}  // namespace

TEST_CASE("shapes of any numbers") {
  dice roll{std::mt19937_64(1)};
  int accepted = 0;
  int wrong = 0;
  int overflows = 0;
  for (int i = 0; i < 30'000; ++i) {
    transformer shape = random_model(roll);
    if (roll.one_in(50)) shape = {};
    disturb(roll, shape);
    const auto valid = validate(shape);
    if (!valid) {
      overflows += valid.why().code == errc::overflow;
      wrong += valid.why().count == 0;
      continue;
    }
    ++accepted;
    const parameter_counts counts = parameters(shape);
    wrong += !all_positive(counts) || counts.total() < 1 || counts.active() < 1 ||
             !near(static_cast<double>(counts.total()), roughly(shape));
    wrong += layer_parameters(shape, layer_kind::dense).total() < 0;

    const parallelism layout{extreme(roll), extreme(roll), extreme(roll)};
    if (validate(layout)) {
      const model_rank rank{roll.from(0, layout.pipeline_parallel - 1),
                            roll.from(0, layout.tensor_parallel - 1),
                            roll.from(0, layout.expert_parallel - 1)};
      const parameter_counts here = parameters(shape, layout, rank);
      wrong += !all_positive(here) || here.total() > counts.total() + counts.embedding;
    }

    trainable trains = random_training(roll, shape);
    if (roll.coin()) trains.adapters.rank = extreme(roll);
    if (roll.coin()) trains.last_layers = extreme(roll);
    if (!validate(trains, shape)) continue;
    const std::int64_t trained = trainable_parameters(shape, trains);
    wrong += trained < 0;
    if (trains.what != training::adapters) wrong += trained > counts.total();

    // Long stacks that alternate are walked layer by layer: a few of them are enough.
    if (shape.layers() > 4096 && !roll.one_in(20)) continue;
    training_pass pass = random_pass(roll, shape);
    pass.trains = trains;
    if (roll.coin()) pass.sequence_length = extreme(roll);
    if (roll.coin()) pass.decoder_sequence_length = extreme(roll);
    if (validate(pass, shape)) wrong += !all_finite(flops(shape, pass));
  }
  CHECK(wrong == 0);
  CHECK(accepted > 5'000);
  CHECK(overflows > 100);
}

TEST_CASE("the count in doubles agrees with the library's for random models") {
  dice roll{std::mt19937_64(2)};
  int wrong = 0;
  for (int i = 0; i < 5'000; ++i) {
    const transformer shape = random_model(roll);
    wrong += roughly(shape) != static_cast<double>(parameters(shape).total());
  }
  CHECK(wrong == 0);
}

TEST_CASE("composite models of any numbers") {
  dice roll{std::mt19937_64(3)};
  int accepted = 0;
  int wrong = 0;
  for (int i = 0; i < 10'000; ++i) {
    composite_model model;
    const std::int64_t parts = roll.from(0, composite_model::most_parts);
    for (std::int64_t k = 0; k < parts; ++k) {
      component& part = model.parts[k];
      part.model = random_model(roll);
      part.trains = random_training(roll, part.model);
      if (roll.coin()) part.trains = {};
      if (roll.one_in(12)) disturb(roll, part.model);
      if (roll.coin())
        part.next = {.widths = {roll.from(1, 9), roll.from(1, 9), roll.from(0, 9)}, .tokens = 5};
      if (roll.one_in(12)) part.next.widths[roll.from(0, 5)] = extreme(roll);
      if (roll.one_in(12)) part.next.tokens = extreme(roll);
      if (roll.one_in(12)) part.sequences = extreme(roll);
      if (roll.one_in(12)) part.sequence_length = extreme(roll);
    }
    if (roll.one_in(12)) model.other_parameters = extreme(roll);
    if (!validate(model)) continue;
    ++accepted;
    const parameter_counts counts = parameters(model);
    wrong += model.size() != parts || !all_positive(counts) || counts.total() < 1;
    wrong += trainable_parameters(model) < 0;
    training_pass pass = random_pass(roll, model.parts[0].model);
    pass.sequence_length = roll.coin() ? extreme(roll) : 7;
    if (validate(pass, model)) wrong += !all_finite(flops(model, pass));
  }
  CHECK(wrong == 0);
  CHECK(accepted > 1'000);
}
