#pragma once

// How a model is divided among GPUs, and what of its forward pass is computed twice. The
// data-parallel size is in the batch_plan alone.

#include <gpuplan/detail/integer.hpp>
#include <gpuplan/result.hpp>

#include <cstdint>
#include <initializer_list>

namespace gpuplan {

/// What is recomputed in the backward pass instead of kept (Korthikanti et al. 2022, arXiv
/// 2205.05198, sections 4 and 5).
enum class recompute_mode {
  none,
  selective,  // scores, softmax and weighted values
  full        // every layer, from its input
};

/// What layers keep that lies on the host from the forward until the backward comes to it, in
/// Megatron-Core: of the first layers of a stage all, or of each layer what a part reads.
struct offloaded_activations {
  std::int64_t layers = 0;        // cpu_offloading_num_layers
  bool core_attention = false;    // fine-grained, core_attn: query, key and value
  bool attention_output = false;  // attn_proj
  bool expert_input = false;      // expert_fc1

  friend constexpr bool operator==(const offloaded_activations&,
                                   const offloaded_activations&) = default;
};

/// Parts of a layer that `recompute_mode::selective` computes again, each alone: Megatron-Core's
/// recompute_modules. What a part gives is dropped once it was read, and made again just before the
/// backward reads it; of `mlp`, `experts` and `shared_experts` all but what they read and give.
struct recomputed_modules {
  bool core_attention = true;       // core_attn: scores, softmax and weighted values
  bool latent_projections = false;  // mla_up_proj: query, key and value of latent vectors
  bool norms = false;               // layernorm: where they are functions of their own
  bool mlp = false;                 // of layers without experts
  bool experts = false;             // moe: router and shared experts included
  bool expert_activation = false;   // moe_act
  bool shared_experts = false;

  friend constexpr bool operator==(const recomputed_modules&, const recomputed_modules&) = default;
};

/// What the host launches as CUDA graphs, recorded once: Megatron-Core's cuda_graph_impl and
/// cuda_graph_scope. Each replays with one launch.
struct captured_parts {
  bool iteration = false;     // full_iteration: all forwards and backwards of a step
  bool attention = false;     // attn: with the norm before it and the residual behind it
  bool state_spaces = false;  // mamba: likewise
  bool mlp = false;           // likewise, of layers without experts
  bool router = false;        // moe_router: with the norm before it and shared experts
  bool dispatch = false;      // moe_preprocess: what finds the places of tokens, with the router

  [[nodiscard]] constexpr bool any() const {
    return iteration || attention || state_spaces || mlp || router || dispatch;
  }
  friend constexpr bool operator==(const captured_parts&, const captured_parts&) = default;
};

/// In which order a pipeline's stages do their forwards and backwards.
enum class pipeline_schedule {
  one_f_one_b,  // a backward as soon as there is one (PipeDream-Flush, arXiv 2006.09503);
                // interleaved where a stage has several chunks (Narayanan et al. 2021, 2104.04473)
  gpipe,        // all forwards, then all backwards (Huang et al. 2018, arXiv 1811.06965)
  // ZB-H1: weights' gradients where it would wait (Qi et al. 2023, arXiv 2401.10241); of several
  // chunks in the order of PyTorch's ScheduleInterleavedZeroBubble.
  zero_bubble,
  // ZB-V, section 6 there: two chunks of a stage, of which the second are passed from the last
  // stage back to the first. In the order of PyTorch's ScheduleZBVZeroBubble.
  zero_bubble_v,
  // DeepSeek-V3's (arXiv 2412.19437, section 3.2.1): each stage is there twice, and half of the
  // micro-batches begin at the last rank. In the order of deepseek-ai/DualPipe.
  dual_pipe,
  dual_pipe_v  // half of it, folded: chunks as in ZB-V
};

/// What a schedule does with stages and their chunks.
struct schedule_traits {
  bool defers_weights = false;  // their gradients are a pass of its own
  bool interleaves = false;  // a stage may have several chunks, each behind all stages' one before
  bool folds = false;        // of two chunks: the second ones lie from the last stage to the first
  bool runs_both_ways = false;  // a rank has two stages, as far from either end
};
[[nodiscard]] constexpr schedule_traits traits_of(pipeline_schedule schedule) {
  switch (schedule) {
    case pipeline_schedule::one_f_one_b:
      return {.interleaves = true};
    case pipeline_schedule::zero_bubble:
      return {.defers_weights = true, .interleaves = true};
    case pipeline_schedule::zero_bubble_v:
    case pipeline_schedule::dual_pipe_v:
      return {.defers_weights = true, .folds = true};
    case pipeline_schedule::dual_pipe:
      return {.defers_weights = true, .runs_both_ways = true};
    default:
      return {};
  }
}

/// How many layers each chunk of a pipeline has, one by one: of chunk c on stage s at place c *
/// stages + s. What Megatron-Core's pipeline_model_parallel_layout says of decoder layers.
struct listed_chunks {
  static constexpr int most = 128;
  std::uint8_t layers[most]{};
  int count = 0;  // 0: none is listed

  [[nodiscard]] constexpr std::int64_t layers_before(std::int64_t place) const {
    std::int64_t before = 0;
    for (int at = 0; at < place && at < count; ++at) before += layers[at];
    return before;
  }
  friend constexpr bool operator==(const listed_chunks&, const listed_chunks&) = default;
};

/// How a model's layers lie on the stages of its pipeline, and on their chunks. As it is made: all
/// have as many; where that cannot be, the last ones have fewer, or none (DeepSpeed's partition by
/// layers), and Megatron-Core has no code for it. The layers of the first and last stage, and a
/// list, stand alone.
struct pipeline_split {
  // The embedding, and the head with its loss, count as so many layers of the first and of the last
  // chunk. Megatron-Core: 1, account_for_embedding_in_pipeline_split and
  // account_for_loss_in_pipeline_split. torchtitan: any, pipeline_parallel_first_stage_less_layers
  // and pipeline_parallel_last_stage_less_layers.
  std::int64_t embedding_layers = 0;
  std::int64_t head_layers = 0;
  // What is left over goes to the first chunks, one layer each (torchtitan).
  bool first_have_more = false;
  // Of all chunks of the stage; the others have as many each. 0: as the others.
  std::int64_t first_stage_layers = 0;  // num_layers_in_first_pipeline_stage
  std::int64_t last_stage_layers = 0;   // num_layers_in_last_pipeline_stage
  // Stages are equally long by what they compute, where the head costs so many layers: each ends
  // with the layer that takes it beyond its share (nanotron). 0: by the number of layers.
  double head_cost = 0;
  listed_chunks listed{};

  [[nodiscard]] constexpr bool states_ends() const {
    return first_stage_layers != 0 || last_stage_layers != 0;
  }
  /// Whether nothing is stated: all stages have as many, or the last ones fewer.
  [[nodiscard]] constexpr bool is_even() const {
    return embedding_layers == 0 && head_layers == 0 && !first_have_more && !states_ends() &&
           !(head_cost > 0) && listed.count == 0;
  }
  friend constexpr bool operator==(const pipeline_split&, const pipeline_split&) = default;
};

/// The degrees of model parallelism. Comments name Megatron-Core's options where they are called
/// otherwise.
struct parallelism {
  std::int64_t tensor_parallel = 1;    // tensor_model_parallel_size
  std::int64_t pipeline_parallel = 1;  // pipeline_model_parallel_size
  // Of the routed experts; inside data parallelism: expert_model_parallel_size.
  std::int64_t expert_parallel = 1;
  // Parts of the width of each routed expert, on ranks beside each other:
  // expert_tensor_parallel_size. torchtitan's tensor-parallel ranks have parts by themselves.
  std::int64_t expert_tensor_parallel = 1;
  // Model chunks of a stage, interleaved: virtual_pipeline_model_parallel_size.
  std::int64_t virtual_pipeline = 1;
  pipeline_schedule schedule = pipeline_schedule::one_f_one_b;
  std::int64_t context_parallel = 1;  // parts of a sequence: context_parallel_size
  pipeline_split split{};             // which layers are where
  bool sequence_parallel =
      false;  // norms and residuals along the sequence, within tensor parallelism
  // Tensor-parallel ranks keep a part each of recomputed inputs: distribute_saved_activations.
  bool shares_kept_inputs = false;
  // What data-parallel ranks share (ZeRO): 1 optimizer states, 2 gradients too (FSDP's
  // SHARD_GRAD_OP), 3 weights too (FSDP's full shard).
  int zero_stage = 0;
  // Data-parallel ranks that share, with their context-parallel ones; 0: all (else hybrid shard).
  std::int64_t shard_group = 0;
  // Its states, its weights and its step: DeepSpeed's offload_optimizer (ZeRO-Offload).
  bool optimizer_on_host = false;
  // And the model's weights, which come for their layers alone; gradients go there as they are
  // reduced (fully_shard's CPUOffloadPolicy).
  bool weights_on_host = false;

  friend constexpr bool operator==(const parallelism&, const parallelism&) = default;
};

/// In how many parts each routed expert lies on as many ranks: where none shares the experts, in as
/// many as a layer's other weights.
[[nodiscard]] constexpr std::int64_t parts_of_expert(const parallelism& layout) {
  return layout.expert_parallel > 1 ? layout.expert_tensor_parallel : layout.tensor_parallel;
}
/// How many ranks hold all experts together, once.
[[nodiscard]] constexpr std::int64_t ranks_of_experts(const parallelism& layout) {
  return layout.expert_parallel * layout.expert_tensor_parallel;
}

/// One place in the layout, counted from 0.
struct model_rank {
  std::int64_t stage = 0;
  std::int64_t tensor_rank = 0;
  std::int64_t expert_rank = 0;

  friend constexpr bool operator==(const model_rank&, const model_rank&) = default;
};

/// Some of a model's layers, `first <= layer < last`: all layers, an encoder's before the
/// decoder's, in order.
struct layer_range {
  std::int64_t first = 0;
  std::int64_t last = 0;

  [[nodiscard]] constexpr std::int64_t size() const { return last - first; }
  friend constexpr bool operator==(const layer_range&, const layer_range&) = default;
};

namespace detail {

// Of a pipeline whose first and last stage's layers are stated: how many each chunk of the first,
// of those between and of the last one has.
struct stated_ends {
  std::int64_t first = 0;
  std::int64_t middle = 0;
  std::int64_t last = 0;
};
constexpr stated_ends chunks_of_stated(const parallelism& layout, std::int64_t layers) {
  const pipeline_split& split = layout.split;
  const bool has_first = split.first_stage_layers != 0;
  const bool has_last = split.last_stage_layers != 0;
  const std::int64_t others = layout.pipeline_parallel - (has_first ? 1 : 0) - (has_last ? 1 : 0);
  const std::int64_t left = layers - split.first_stage_layers - split.last_stage_layers;
  const std::int64_t middle = others > 0 ? left / others / layout.virtual_pipeline : 0;
  return {has_first ? split.first_stage_layers / layout.virtual_pipeline : middle,
          middle,
          has_last ? split.last_stage_layers / layout.virtual_pipeline : middle};
}

// The layers before chunk number `place` of all of a pipeline's.
constexpr std::int64_t layers_before(const parallelism& layout,
                                     std::int64_t layers,
                                     std::int64_t place) {
  const pipeline_split& split = layout.split;
  const std::int64_t stages = layout.pipeline_parallel;
  const std::int64_t chunks = stages * layout.virtual_pipeline;
  const auto at_most_all = [&](std::int64_t before) { return before < layers ? before : layers; };
  if (place == 0) return 0;
  if (split.listed.count != 0) return split.listed.layers_before(place);
  if (split.states_ends()) {
    const stated_ends each = chunks_of_stated(layout, layers);
    const std::int64_t stage = place % stages;
    const std::int64_t round = each.first + (stages - 2) * each.middle + each.last;
    return place / stages * round + (stage == 0 ? 0 : each.first + (stage - 1) * each.middle);
  }
  if (split.head_cost > 0) {
    if (place == chunks) return layers;
    const double share =
        (static_cast<double>(layers) + split.head_cost) / static_cast<double>(chunks);
    return at_most_all(static_cast<std::int64_t>(static_cast<double>(place) * share) + 1);
  }
  const std::int64_t all = layers + split.embedding_layers + split.head_layers;
  if (split.first_have_more) {
    const std::int64_t more = all % chunks < place ? all % chunks : place;
    return at_most_all(place * (all / chunks) + more - split.embedding_layers);
  }
  return at_most_all(place * ((all + chunks - 1) / chunks) - split.embedding_layers);
}

}  // namespace detail

/// How many chunks of a model's layers a pipeline's rank holds.
[[nodiscard]] constexpr std::int64_t chunks_held(const parallelism& layout) {
  return traits_of(layout.schedule).runs_both_ways ? 2 : layout.virtual_pipeline;
}
/// How many of a pipeline's ranks hold each chunk, and share its states.
[[nodiscard]] constexpr std::int64_t ranks_with_chunk(const parallelism& layout) {
  return traits_of(layout.schedule).runs_both_ways ? 2 : 1;
}
/// How many chunks a pipeline has, one behind the other.
[[nodiscard]] constexpr std::int64_t chunks_in_all(const parallelism& layout) {
  return layout.pipeline_parallel * layout.virtual_pipeline;
}
/// Which of all chunks a rank's is, counted from 0. Preconditions: the layout has the stage, and
/// the rank the chunk.
[[nodiscard]] constexpr std::int64_t place_of_chunk(const parallelism& layout,
                                                    std::int64_t stage,
                                                    std::int64_t chunk) {
  const schedule_traits by = traits_of(layout.schedule);
  if (chunk == 1 && (by.folds || by.runs_both_ways)) return chunks_in_all(layout) - 1 - stage;
  return chunk * layout.pipeline_parallel + stage;
}
/// Whether the model's last chunk is one of a rank's.
[[nodiscard]] constexpr bool holds_last_chunk(const parallelism& layout, std::int64_t stage) {
  for (std::int64_t chunk = 0; chunk < chunks_held(layout); ++chunk)
    if (place_of_chunk(layout, stage, chunk) == chunks_in_all(layout) - 1) return true;
  return false;
}

/// Which of a model's layers a chunk of a pipeline stage has: of an interleaved pipeline, chunk 0
/// of each stage lies before chunk 1 of all. Preconditions: the layout is valid, also for a model
/// of so many layers, and has the stage and the chunk.
[[nodiscard]] constexpr layer_range layers_of_chunk(const parallelism& layout,
                                                    std::int64_t layers,
                                                    std::int64_t stage,
                                                    std::int64_t chunk = 0) {
  const std::int64_t place = place_of_chunk(layout, stage, chunk);
  return {detail::layers_before(layout, layers, place),
          detail::layers_before(layout, layers, place + 1)};
}
/// How many layers a stage has in all its chunks; of two stages of a rank, those of one.
/// Preconditions: likewise.
[[nodiscard]] constexpr std::int64_t layers_of_stage(const parallelism& layout,
                                                     std::int64_t layers,
                                                     std::int64_t stage) {
  const pipeline_split& split = layout.split;
  const std::int64_t all = layers + split.embedding_layers + split.head_layers;
  const std::int64_t last = layout.pipeline_parallel - 1;
  const bool is_listed = split.listed.count != 0;
  if (split.states_ends() && !is_listed) {
    const detail::stated_ends each = detail::chunks_of_stated(layout, layers);
    return layout.virtual_pipeline * (stage == 0      ? each.first
                                      : stage == last ? each.last
                                                      : each.middle);
  }
  if (!is_listed && split.head_cost == 0 && !traits_of(layout.schedule).folds &&
      all % (layout.pipeline_parallel * layout.virtual_pipeline) == 0)
    return all / layout.pipeline_parallel - (stage == 0 ? split.embedding_layers : 0) -
           (stage == last ? split.head_layers : 0);
  std::int64_t sum = 0;
  for (std::int64_t chunk = 0; chunk < layout.virtual_pipeline; ++chunk)
    sum += layers_of_chunk(layout, layers, stage, chunk).size();
  return sum;
}

namespace detail {

// Rows of the token table on each rank of Megatron-LM. Where the ranks do not divide them it adds
// some until 128 times the ranks do (its --make-vocab-size-divisible-by).
constexpr std::int64_t padded_rows_of_rank(std::int64_t rows, std::int64_t ranks) {
  if (rows % ranks == 0) return rows / ranks;
  constexpr std::int64_t multiple = 128;
  return (rows + multiple * ranks - 1) / (multiple * ranks) * multiple;
}

// Of a split, what does not add up by itself.
constexpr failure flaw_of_split(const parallelism& layout) {
  const pipeline_split& split = layout.split;
  const std::int64_t most = std::int64_t{1} << 16;
  for (const named_fact layers : {named_fact{fact::embedding_layers, split.embedding_layers},
                                  named_fact{fact::head_layers, split.head_layers},
                                  named_fact{fact::first_stage_layers, split.first_stage_layers},
                                  named_fact{fact::last_stage_layers, split.last_stage_layers}})
    if (layers.value < 0 || layers.value > most)
      return failure(errc::out_of_bounds, {layers, {fact::at_least, 0}, {fact::at_most, most}});
  if (!(split.head_cost >= 0 && split.head_cost <= static_cast<double>(most)))
    return failure(
        errc::out_of_bounds,
        {{fact::head_cost, split.head_cost}, {fact::at_least, 0}, {fact::at_most, most}});
  const named_fact first{fact::first_stage_layers, split.first_stage_layers};
  const named_fact last{fact::last_stage_layers, split.last_stage_layers};
  const named_fact listed{fact::listed_chunks, split.listed.count};
  const named_fact none{fact::takes, 0};
  const named_fact stages{fact::pipeline_parallel, layout.pipeline_parallel};
  // The rules that stand alone, and what would stand beside them.
  for (const named_fact rule : {first, last, listed}) {
    if (rule.value == 0) continue;
    if (rule.name != fact::listed_chunks && layout.pipeline_parallel == 1)
      return failure(errc::no_such_code, {rule, stages, none});
    for (const named_fact beside : {named_fact{fact::embedding_layers, split.embedding_layers},
                                    named_fact{fact::head_layers, split.head_layers},
                                    named_fact{fact::first_have_more, split.first_have_more},
                                    named_fact{fact::head_cost, split.head_cost}})
      if (beside.value != 0) return failure(errc::no_such_code, {rule, beside, none});
    if (rule.name != fact::listed_chunks && split.listed.count != 0)
      return failure(errc::no_such_code, {rule, listed, none});
  }
  const std::int64_t chunks = layout.pipeline_parallel * layout.virtual_pipeline;
  if (split.listed.count != 0 && split.listed.count != chunks)
    return failure(errc::no_such_code,
                   {listed,
                    stages,
                    {fact::virtual_pipeline, layout.virtual_pipeline},
                    none,
                    {fact::takes, chunks}});
  return {};
}

// Of the stage whose layers are stated, what leaves the others as many each, and a multiple of
// their chunks: the nearest number that does, or 0.
constexpr std::int64_t nearest_stated(std::int64_t stated,
                                      std::int64_t left,
                                      std::int64_t others,
                                      std::int64_t chunks) {
  for (std::int64_t off = 0; off <= left; ++off)
    for (const std::int64_t there : {stated - off, stated + off}) {
      if (there < 1 || there > left || there % chunks != 0) continue;
      if (others == 0 ? there == left : (left - there) % (others * chunks) == 0) return there;
    }
  return 0;
}

// Of a split, what does not add up to a model's layers. The layout is valid.
constexpr failure flaw_of_split(const parallelism& layout, const named_fact& layers) {
  const pipeline_split& split = layout.split;
  const std::int64_t chunks = layout.virtual_pipeline;
  const named_fact stages{fact::pipeline_parallel, layout.pipeline_parallel};
  const named_fact interleaved{fact::virtual_pipeline, chunks};
  const auto refused = [&](named_fact what, std::int64_t taken) {
    failure why(errc::no_such_code, {what, layers, stages});
    if (chunks > 1) why.facts[why.count++] = interleaved;
    if (taken != 0) why.add(fact::takes, taken);
    return why;
  };
  if (split.listed.count != 0) {
    const std::int64_t sum = split.listed.layers_before(split.listed.count);
    return sum == layers.value ? failure{} : refused({fact::listed_layers, sum}, layers.value);
  }
  if (split.states_ends()) {
    const std::int64_t first = split.first_stage_layers;
    const std::int64_t last = split.last_stage_layers;
    const std::int64_t others =
        layout.pipeline_parallel - (first != 0 ? 1 : 0) - (last != 0 ? 1 : 0);
    if (first != 0 && last != 0 && first % chunks != 0)
      return refused({fact::first_stage_layers, first},
                     first < chunks ? chunks : first / chunks * chunks);
    const named_fact stated = last != 0 ? named_fact{fact::last_stage_layers, last}
                                        : named_fact{fact::first_stage_layers, first};
    const std::int64_t left = layers.value - (last != 0 ? first : 0);
    const std::int64_t taken = nearest_stated(stated.value, left, others, chunks);
    return taken == stated.value ? failure{} : refused(stated, taken);
  }
  const std::int64_t ends = split.embedding_layers + split.head_layers;
  if (!split.first_have_more) {
    // what counts as layers takes no more than its chunk's
    const std::int64_t all = layout.pipeline_parallel * chunks;
    const std::int64_t most = (layers.value + ends + all - 1) / all;
    for (const named_fact end : {named_fact{fact::embedding_layers, split.embedding_layers},
                                 named_fact{fact::head_layers, split.head_layers}})
      if (end.value > most && split.head_cost == 0)
        return failure(errc::no_such_code, {end, layers, stages, {fact::at_most, most}});
    return {};
  }
  const std::int64_t larger =
      split.embedding_layers > split.head_layers ? split.embedding_layers : split.head_layers;
  const std::int64_t least = larger > 1 ? larger : 1;  // layers of a chunk
  const std::int64_t each = (layers.value + ends) / (layout.pipeline_parallel * chunks);
  if (each >= least) return {};
  return failure(errc::no_such_code,
                 {stages,
                  layers,
                  interleaved,
                  {fact::embedding_layers, split.embedding_layers},
                  {fact::head_layers, split.head_layers},
                  {fact::at_most, (layers.value + ends) / least / chunks}});
}

}  // namespace detail

/// How many micro-batches of a step a pipeline's schedule goes through.
struct micro_batch_rule {
  std::int64_t least = 1;
  std::int64_t multiple_of = 1;
};
/// Interleaved in groups of as many as there are stages; half of them from either end; and as many
/// as fill a pipeline that folds (PyTorch's ScheduleDualPipeV and ScheduleZBVZeroBubble;
/// DualPipe.step).
[[nodiscard]] constexpr micro_batch_rule micro_batches_of(const parallelism& layout) {
  const std::int64_t stages = layout.pipeline_parallel;
  switch (layout.schedule) {
    case pipeline_schedule::zero_bubble_v:
      return {.least = 2 * stages - 1};
    case pipeline_schedule::dual_pipe:
      return {.least = 2 * stages, .multiple_of = 2};
    case pipeline_schedule::dual_pipe_v:
      return {.least = 2 * stages};
    default:
      return {.multiple_of = layout.virtual_pipeline > 1 ? stages : 1};
  }
}

namespace detail {

// What keeps a schedule from so many micro-batches.
constexpr failure flaw_of_micro_batches(const parallelism& layout,
                                        std::int64_t accumulation,
                                        const micro_batch_rule& taken) {
  const named_fact there{fact::accumulation, accumulation};
  const named_fact schedule{fact::schedule, layout.schedule};
  const std::int64_t least = ceil_div(taken.least, taken.multiple_of) * taken.multiple_of;
  const bool divides = accumulation % taken.multiple_of == 0;
  if (layout.schedule == pipeline_schedule::one_f_one_b && !divides)  // interleaved
    return failure(
        errc::not_a_multiple, there, named_fact{fact::pipeline_parallel, taken.multiple_of});
  if (accumulation < least)
    return failure(errc::no_such_code,
                   {there,
                    schedule,
                    {fact::pipeline_parallel, layout.pipeline_parallel},
                    {fact::at_least, least}});
  if (divides) return {};
  const std::int64_t below = accumulation / taken.multiple_of * taken.multiple_of;
  return failure(errc::no_such_code,
                 {there, schedule, {fact::takes, below}, {fact::takes, below + taken.multiple_of}});
}

}  // namespace detail

/// The layout itself where every degree and `virtual_pipeline` are from 1 to 2^20, `zero_stage`
/// from 0 to 3, `shard_group` from 0 to 2^20, chunks are as many as the schedule goes through (any
/// by 1F1B and ZB-H1, two where it folds, which states no stage's layers, else one), stages are
/// even where it runs both ways, and the rules of `split` do not contradict each other or the
/// number of chunks.
/// Errors: `not_positive`, `out_of_bounds`, `no_such_code`.
[[nodiscard]] constexpr result<parallelism> validate(const parallelism& layout) {
  const std::int64_t most = std::int64_t{1} << 20;
  for (const named_fact degree :
       {named_fact{fact::tensor_parallel, layout.tensor_parallel},
        named_fact{fact::pipeline_parallel, layout.pipeline_parallel},
        named_fact{fact::expert_parallel, layout.expert_parallel},
        named_fact{fact::expert_tensor_parallel, layout.expert_tensor_parallel},
        named_fact{fact::virtual_pipeline, layout.virtual_pipeline},
        named_fact{fact::context_parallel, layout.context_parallel}}) {
    if (degree.value < 1) return failure(errc::not_positive, degree);
    if (degree.value > most)
      return failure(errc::out_of_bounds, degree, named_fact{fact::at_most, most});
  }
  const auto is_from_0_to = [](std::int64_t last, std::int64_t value) {
    return value >= 0 && value <= last;
  };
  if (!is_from_0_to(3, layout.zero_stage))
    return failure(errc::out_of_bounds,
                   named_fact{fact::zero_stage, layout.zero_stage},
                   named_fact{fact::at_least, 0},
                   named_fact{fact::at_most, 3});
  if (!is_from_0_to(most, layout.shard_group))
    return failure(errc::out_of_bounds,
                   named_fact{fact::shard_group, layout.shard_group},
                   named_fact{fact::at_least, 0},
                   named_fact{fact::at_most, most});
  const named_fact schedule{fact::schedule, layout.schedule};
  const schedule_traits by = traits_of(layout.schedule);
  const std::int64_t chunks = by.folds ? 2 : 1;
  if (!by.interleaves && layout.virtual_pipeline != chunks)
    return failure(
        errc::no_such_code,
        {{fact::virtual_pipeline, layout.virtual_pipeline}, schedule, {fact::takes, chunks}});
  if (by.runs_both_ways && layout.pipeline_parallel % 2 != 0)
    return failure(errc::no_such_code,
                   {{fact::pipeline_parallel, layout.pipeline_parallel},
                    schedule,
                    {fact::takes, layout.pipeline_parallel + 1}});
  if (by.folds && layout.split.states_ends())
    return failure(errc::no_such_code,
                   {{fact::first_stage_layers, layout.split.first_stage_layers},
                    {fact::last_stage_layers, layout.split.last_stage_layers},
                    schedule,
                    {fact::takes, 0}});
  if (const failure why = detail::flaw_of_split(layout); detail::failed(why)) return why;
  return layout;
}
/// The layout itself where it is valid and its stages' layers add up to the model's: those of first
/// and last stage leave the others, and all chunks of a stage, as many each; what is listed is the
/// sum; what is dealt leaves each chunk one layer at least, and the ends what they count as.
/// Errors: those of the layout.
[[nodiscard]] constexpr result<parallelism> validate(const parallelism& layout,
                                                     std::int64_t layers) {
  if (const auto valid = validate(layout); !valid) return valid.why();
  if (const failure why = detail::flaw_of_split(layout, {fact::num_hidden_layers, layers});
      detail::failed(why))
    return why;
  return layout;
}

}  // namespace gpuplan
