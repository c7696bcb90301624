#pragma once

// What is trained, and how: all but the batch; and which frameworks have code for it.

#include <gpuplan/batch.hpp>
#include <gpuplan/detail/integer.hpp>
#include <gpuplan/training_setup/computation.hpp>
#include <gpuplan/training_setup/description.hpp>
#include <gpuplan/training_setup/layout.hpp>
#include <gpuplan/training_setup/precision.hpp>
#include <gpuplan/training_setup/training.hpp>

#include <cstdint>

namespace gpuplan {

namespace detail {

// What any estimate of a setup reads, whoever's code it is: lengths, counts of recomputation, a
// probability.
constexpr failure flaw_of_lengths(const training_setup& setup) {
  const named_fact frozen{fact::frozen_parameters, setup.frozen_parameters};
  if (frozen.value < 0 || frozen.value > most_of_a_dimension)
    return failure(errc::out_of_bounds,
                   {frozen, {fact::at_least, 0}, {fact::at_most, most_of_a_dimension}});
  const std::int64_t longest = std::int64_t{1} << 32;
  const bool reads_tokens = setup.model.kind != model_kind::vision;
  for (const named_fact count :
       {named_fact{fact::sequence_length, reads_tokens ? setup.sequence_length : 1},
        named_fact{fact::decoder_sequence_length,
                   setup.target_length != 0 ? setup.target_length : 1},
        named_fact{fact::encodings, setup.encodings}})
    if (count.value < 1 || count.value > longest)
      return failure(errc::out_of_bounds,
                     count,
                     named_fact{fact::at_least, 1},
                     named_fact{fact::at_most, longest});
  // Whisper's encoder reads as many frames as it has positions for.
  const std::int64_t frames = setup.model.audio.num_mel_bins != 0 ? setup.model.position_rows : 0;
  if (frames != 0 && setup.sequence_length != frames)
    return failure(errc::out_of_bounds,
                   {{fact::sequence_length, setup.sequence_length},
                    {fact::at_least, frames},
                    {fact::at_most, frames}});
  if (const std::int64_t least = setup.model.audio.least_samples(); setup.sequence_length < least)
    return failure(errc::out_of_bounds,
                   named_fact{fact::sequence_length, setup.sequence_length},
                   named_fact{fact::at_least, least});
  // Layers: a model has no more.
  const auto flaw_of_layers = [](named_fact count, std::int64_t least) -> failure {
    if (count.value >= least && count.value <= most_layers) return {};
    return failure(errc::out_of_bounds,
                   {count, {fact::at_least, least}, {fact::at_most, most_layers}});
  };
  for (const failure& why : {flaw_of_layers({fact::recompute_span, setup.recompute_span}, 1),
                             flaw_of_layers({fact::recompute_period, setup.recompute_period}, 1),
                             flaw_of_layers({fact::recompute_layers, setup.recompute_layers}, 0)})
    if (failed(why)) return why;
  const auto flaw_of_dropout = [](auto field, double probability) -> failure {
    if (probability >= 0 && probability <= 1) return {};
    return failure(errc::out_of_bounds,
                   {{field, probability}, {fact::at_least, 0}, {fact::at_most, 1}});
  };
  for (const failure& why :
       {flaw_of_dropout(fact::dropout, setup.dropout),
        flaw_of_dropout(fact::adapter_dropout, setup.trains.adapters.dropout),
        flaw_of_dropout(fact::attention_dropout,
                        setup.attention_dropout ? *setup.attention_dropout : 0),
        flaw_of_dropout(fact::activation_dropout,
                        setup.activation_dropout ? *setup.activation_dropout : 0),
        flaw_of_dropout(fact::classifier_dropout,
                        setup.classifier_dropout ? *setup.classifier_dropout : 0)})
    if (failed(why)) return why;
  // So many that integers hold the rows.
  if (!(setup.expert_capacity >= 0.001 && setup.expert_capacity <= 1000))
    return failure(errc::out_of_bounds,
                   {{fact::expert_capacity, setup.expert_capacity},
                    {fact::at_least, 0.001},
                    {fact::at_most, 1000}});
  return {};
}

constexpr failure flaw_of_combination(const training_setup& setup) {
  for (const failure& why : {flaw_of_properties(setup),
                             flaw_of_precision(setup),
                             flaw_of_fp8(setup),
                             flaw_of_sharding(setup),
                             flaw_of_layout(setup),
                             flaw_of_experts(setup),
                             flaw_of_recomputation(setup),
                             flaw_of_offloads(setup),
                             flaw_of_graphs(setup),
                             flaw_of_compilation(setup),
                             flaw_of_dropout(setup),
                             flaw_of_attention(setup),
                             flaw_of_fused_loss(setup),
                             flaw_of_chunked_loss(setup),
                             flaw_of_objective(setup),
                             flaw_of_optimizer(setup),
                             flaw_of_training(setup)})
    if (failed(why)) return why;
  return {};
}

constexpr failure flaw_of_parts(const training_setup& setup);

// Of a setup whose model is valid by itself.
constexpr failure flaw_around_model(const training_setup& setup) {
  if (const failure why = flaw_of_engine(setup.framework.engine); failed(why)) return why;
  // Before the layout's own: it says which stages this framework has, not which there are.
  if (const failure why = flaw_of_zero_stage(setup); failed(why)) return why;
  if (const auto valid = validate(setup.parallelism); !valid) return valid.why();
  if (const failure why = flaw_of_implementation(setup.model, setup.framework.implementation);
      failed(why))
    return why;
  // Its gradient would leave the layer that is computed again.
  if (setup.recompute == recompute_mode::full &&
      setup.framework.implementation.checkpoints_reenter &&
      setup.model.relative_attention_buckets != 0)
    return without_code({{fact::recompute, setup.recompute},
                         {fact::checkpoints_reenter, true},
                         {fact::relative_attention_buckets, setup.model.relative_attention_buckets},
                         {fact::takes, recompute_mode::none}});
  if (setup.recompute == recompute_mode::full && setup.framework.layers().has_gradients_beside)
    if (const failure why = flaw_if_any(
            {{fact::checkpoints_reenter, setup.framework.implementation.checkpoints_reenter}},
            {fact::layers, setup.framework.layers().name});
        failed(why))
      return why;
  if (setup.framework.layers().runs_composites && setup.composite == nullptr)
    return without_code({{fact::composite, false},
                         {fact::layers, setup.framework.layers().name},
                         {fact::takes, true}});
  if (setup.composite != nullptr)
    if (const failure why = flaw_of_parts(setup); failed(why)) return why;
  if (const failure why = flaw_of_lengths(setup); failed(why)) return why;
  // An encoder without a head trains on the texts of a sample beside each other.
  const named_fact texts{fact::encodings, setup.encodings};
  const bool compares_texts =
      setup.framework.layers().compares_texts && setup.model.head == head_kind::none;
  if (compares_texts && (texts.value < 2 || texts.value > most_texts_beside))
    return failure(errc::out_of_bounds,
                   texts,
                   named_fact{fact::at_least, 2},
                   named_fact{fact::at_most, most_texts_beside});
  const named_fact layers{fact::layers, setup.framework.layers().name};
  if (texts.value != 1 && !compares_texts)
    return without_code({texts, layers, {fact::head, setup.model.head}, {fact::takes, 1}});
  if (const failure why = flaw_of_combination(setup); failed(why)) return why;
  return {};
}

}  // namespace detail

/// The setup itself where its model and layout are valid, the framework has code for such models
/// and for what is done with them, lengths are from 1 to 2^32 (of a vision model they are not
/// read), counts of layers to 2^16, dropout is a probability, and experts' capacity is from 0.001
/// to 1000. Errors: those of the model and of
/// the layout; `no_such_code`, `does_not_divide` and `not_a_multiple` with the field, what it
/// stands beside and what would be taken; `out_of_bounds`.
[[nodiscard]] constexpr result<training_setup> validate(const training_setup& setup) {
  if (const auto valid = validate(setup.model); !valid) return valid.why();
  if (const failure why = detail::flaw_around_model(setup); detail::failed(why)) return why;
  return setup;
}

namespace detail {

// What an action head behind a context of this width lacks, or the classes cannot run.
constexpr failure flaw_of(const action_head& head,
                          const layer_class& classes,
                          std::int64_t context) {
  const named_fact layers{fact::layers, classes.name};
  const named_fact robots{fact::embodiments, head.embodiments};
  if (classes.has_robots && robots.value < 1) return failure(errc::not_positive, robots);
  if (const failure why =
          flaw_if_any({{fact::embodiments, !classes.has_robots ? robots.value : 0}}, layers);
      failed(why))
    return why;
  if (head.num_hidden_layers != 0)
    if (const failure why = flaw_if_not_positive({{fact::horizon, head.horizon}}); failed(why))
      return why;
  if (robots.value == 0) return {};
  for (const failure& why :
       {flaw_if_not_positive({{fact::num_hidden_layers, head.num_hidden_layers},
                              {fact::hidden_size, head.hidden_size},
                              {fact::num_attention_heads, head.num_attention_heads},
                              {fact::state_dim, head.state_dim},
                              {fact::action_dim, head.action_dim},
                              {fact::encoder_size, head.encoder_size},
                              {fact::future_tokens, head.future_tokens}}),
        flaw_of_dimensions({{fact::num_hidden_layers, head.num_hidden_layers},
                            {fact::context_layers, head.context_layers},
                            {fact::embodiments, head.embodiments}},
                           most_layers),
        flaw_of_dimensions({{fact::hidden_size, head.hidden_size},
                            {fact::state_dim, head.state_dim},
                            {fact::action_dim, head.action_dim},
                            {fact::encoder_size, head.encoder_size},
                            {fact::embodiments, head.embodiments},
                            {fact::future_tokens, head.future_tokens},
                            {fact::position_rows, head.position_rows}},
                           std::int64_t{1} << 20)})
    if (failed(why)) return why;
  if (head.position_rows < head.horizon)
    return failure(errc::out_of_bounds,
                   named_fact{fact::position_rows, head.position_rows},
                   named_fact{fact::at_least, head.horizon});
  if (head.hidden_size % 2 != 0)  // sines and cosines
    return failure(errc::does_not_divide,
                   named_fact{fact::takes, 2},
                   named_fact{fact::hidden_size, head.hidden_size});
  return flaw_if_indivisible({fact::num_attention_heads, head.num_attention_heads},
                             {{fact::hidden_size, head.hidden_size}, {fact::hidden_size, context}});
}

// What is wrong with images of any size.
constexpr failure flaw_of_grids(const component& tower) {
  const image_input& image = tower.model.image;
  if (image.grid_height == 0) return {};
  const named_fact joined{fact::joined_patches, tower.joined_patches};
  std::int64_t side = 1;
  while (side < 64 && side * side < joined.value) ++side;
  if (side * side != joined.value)
    return failure(errc::out_of_bounds,
                   joined,
                   named_fact{fact::at_least, 1},
                   named_fact{fact::at_most, 64 * 64});
  if (const failure why = flaw_if_indivisible(
          {fact::joined_patches, side},
          {{fact::grid_height, image.grid_height}, {fact::grid_width, image.grid_width}});
      failed(why))
    return why;
  if (image.window_size != 0 && image.window_size < side * image.patch_size)
    return failure(errc::out_of_bounds,
                   named_fact{fact::window_size, image.window_size},
                   named_fact{fact::at_least, side * image.patch_size});
  return {};
}
// What is wrong with a text of so many tokens, the images among them.
constexpr failure flaw_of_image_tokens(const component& tower,
                                       std::int64_t sequence_length,
                                       std::int64_t others) {
  const image_input& image = tower.model.image;
  if (const failure why = flaw_if_not_positive({{fact::joined_patches, tower.joined_patches}});
      failed(why))
    return why;
  const std::int64_t read = image.patches() + (tower.class_token_read ? image.class_tokens : 0);
  const std::int64_t least = tower.sequences * (read / tower.joined_patches) + others;
  if (sequence_length >= least) return {};
  return failure(errc::out_of_bounds,
                 named_fact{fact::sequence_length, sequence_length},
                 named_fact{fact::at_least, least});
}

// Both see one image of three colours, and what joins them is as wide as both.
constexpr failure flaw_of_joined_towers(const composite_model& model, const named_fact& layers) {
  const component& first = model.parts[0];
  const component& second = model.parts[1];
  const std::int64_t width = first.model.hidden_size + second.model.hidden_size;
  return flaw_unless(
      {{{fact::image_size, second.model.image.image_size}, first.model.image.image_size},
       {{fact::patch_size, second.model.image.patch_size}, first.model.image.patch_size},
       {{fact::num_channels, first.model.image.num_channels}, 3},
       {{fact::num_channels, second.model.image.num_channels}, 3},
       {{fact::sequences, first.sequences}, 1},
       {{fact::sequences, second.sequences}, 1},
       {{fact::joined_patches, first.joined_patches}, 1},
       {{fact::joined_patches, second.joined_patches}, 1},
       {{fact::connector, first.next.layers()}, 0},
       {{fact::connector, second.next.layers()}, 3},
       {{fact::joined_width, second.next.widths[0]}, width}},
      layers);
}

// Adapters between parts are low-rank ones in fp32 beside frozen layers, and nothing else; those of
// a tower of images of any size are its own.
constexpr failure flaw_of_adapted_connector(const component& part, const layer_class& classes) {
  const lora& adapters = part.next.adapters;
  const named_fact rank{fact::lora_rank, adapters.rank};
  if (rank.value == 0) return {};
  const named_fact layers{fact::layers, classes.name};
  if (!classes.adapts_connectors || part.next.layers() == 0)
    return without_code({rank, {fact::connector, part.next.layers()}, layers, {fact::takes, 0}});
  if (part.next.trains)
    return without_code({{fact::connector, true}, rank, layers, {fact::takes, false}});
  if (part.model.image.grid_height != 0 &&
      !(part.trains.what == training::adapters && part.trains.adapters.rank == rank.value &&
        part.trains.adapters.targets.other))
    return without_code({rank,
                         {fact::grid_height, part.model.image.grid_height},
                         layers,
                         {fact::takes, part.trains.adapters.rank}});
  if (!(adapters.dropout >= 0 && adapters.dropout <= 1))
    return failure(
        errc::out_of_bounds,
        {{fact::adapter_dropout, adapters.dropout}, {fact::at_least, 0}, {fact::at_most, 1}});
  const bool trains_biases = adapters.bias != lora_bias::none;
  return flaw_if_any({{fact::adapter_magnitudes, adapters.magnitudes},
                      {fact::adapter_base_block, adapters.base.block},
                      {fact::trainable_biases, trains_biases}},
                     layers);
}

// What keeps a composite's classes from running its parts, each as if it trained alone.
constexpr failure flaw_of_parts(const training_setup& setup) {
  const composite_model& model = *setup.composite;
  const layer_class& classes = setup.framework.layers();
  const named_fact layers{fact::layers, classes.name};
  if (const failure why = flaw_if_any({{fact::composite, !classes.runs_composites}}, layers);
      failed(why))
    return why;
  const engine_class& engine = *setup.framework.engine.is;
  const auto shares = [&](const engine_class& taken) {
    return taken.runs_others &&
           (!taken.gathers_weights || (classes.shards_parts && taken.shards_parts));
  };
  // Those whose time is known too
  if (engine.gathers_weights && !shares(engine))
    return with_engines(
        engine.shards_parts && classes.scalar_parameters != 0
            ? without_code({{fact::sharding, engine.name},
                            layers,
                            {fact::scalar_parameters, classes.scalar_parameters}})
            : without_code({{fact::sharding, engine.name}, layers}),
        [&](const engine_class& taken) { return shares(taken) && taken.counts_work; });
  int parts = 0;
  while (parts < composite_model::most_parts && classes.parts[parts] != nullptr) ++parts;
  if (const failure why = flaw_unless({{{fact::parts, model.size()}, parts}}, layers); failed(why))
    return why;
  if (const failure why = flaw_of(model.actions, classes, model.parts[1].model.hidden_size);
      failed(why))
    return why;
  for (int at = 0; at < parts; ++at) {
    const component& part = model.parts[at];
    const layer_class& by = *classes.parts[at];
    if (part.by == nullptr || part.by->layers != &by)
      return without_code({{fact::part, at}, layers, {fact::takes, by.name}});
    const std::int64_t most_sequences = std::int64_t{1} << 20;
    if (part.sequences < 1 || part.sequences > most_sequences)
      return failure(errc::out_of_bounds,
                     {{fact::sequences, part.sequences},
                      {fact::at_least, 1},
                      {fact::at_most, most_sequences}});
    if (part.unread_layers < 0 || part.unread_layers > part.model.num_hidden_layers)
      return failure(errc::out_of_bounds,
                     {{fact::unread_layers, part.unread_layers},
                      {fact::at_least, 0},
                      {fact::at_most, part.model.num_hidden_layers}});
    if (const failure why =
            flaw_if_any({{fact::attention_pooling,
                          part.model.attention_pooling && !classes.pools_by_attention}},
                        layers);
        failed(why))
      return why;
    if (const failure why = flaw_if_any({{fact::frozen_in_compute_format,
                                          part.frozen_in_compute_format && !classes.has_robots}},
                                        layers);
        failed(why))
      return why;
    const bool alike = model.parts[0].frozen_in_compute_format;
    if (classes.has_robots)
      for (const failure& why :
           {flaw_unless(
                {{{fact::trains, part.trains.what}, static_cast<std::int64_t>(training::frozen)},
                 {{fact::frozen_in_compute_format, part.frozen_in_compute_format}, alike}},
                layers),
            flaw_if_any({{fact::connector, part.next.layers() != 0 && part.next.trains}}, layers)})
        if (failed(why)) return why;
    training_setup alone = setup_of_part(setup, part);
    if (const failure why = flaw_of_adapted_connector(part, classes); failed(why)) return why;
    // A query that attends reads the matrix of its output past an adapter; timm's is in vain.
    if (part.model.attention_pooling && part.trains.what == training::adapters &&
        part.trains.adapters.targets.attention_out && !classes.joins_towers)
      return without_code({{fact::attention_pooling, true},
                           {fact::trains, part.trains.what},
                           layers,
                           {fact::takes, training::full}});
    // What is behind its layers is the composite's; what is frozen may be a part.
    alone.model.head =
        part.model.kind == model_kind::vision ? head_kind::classifier : head_kind::language_model;
    alone.model.num_classes = 1;
    alone.model.pooler = alone.model.attention_pooling = false;
    if (part.model.kind == model_kind::vision) alone.padding_mask = false;  // of the text alone
    alone.framework.implementation.images.counts_patches = false;
    alone.framework.implementation.is_part = false;
    if (alone.trains.what == training::frozen) alone.trains.what = training::full;
    if (const failure why =
            flaw_if_any({{fact::adapter_base_block, alone.trains.adapters.base.block}}, layers);
        failed(why))
      return why;
    if (const auto valid = validate(alone); !valid) return valid.why();
    if (engine.casts_adapters && part.trains.what == training::adapters)
      return without_code({{fact::trains, part.trains.what},
                           {fact::sharding, engine.name},
                           layers,
                           {fact::takes, training::full}});
    if (const failure why = flaw_of_grids(part); failed(why)) return why;
  }
  // Of the text one token stands before joined patches, and one or more behind them.
  if (classes.has_image_tokens)
    if (const failure why = flaw_of_image_tokens(
            model.parts[0], setup.sequence_length, classes.joins_towers ? 2 : 0);
        failed(why))
      return why;
  if (classes.joins_towers)
    if (const failure why = flaw_of_joined_towers(model, layers); failed(why)) return why;
  if (model.actions.num_hidden_layers == 0) return {};
  // Images stand before the text.
  const std::int64_t patches = model.parts[0].model.image.patches();
  const std::int64_t seen = model.parts[0].sequences * (classes.has_robots ? patches : patches / 4);
  if (setup.sequence_length > seen) return {};
  return failure(errc::out_of_bounds,
                 named_fact{fact::sequence_length, setup.sequence_length},
                 named_fact{fact::at_least, seen + 1});
}

// What is wrong with a valid batch on a valid setup's layout, or no failure.
constexpr failure flaw_of_batch(const training_setup& setup, const batch_plan& plan) {
  const parallelism& layout = setup.parallelism;
  const named_fact replicas{fact::data_parallel, plan.data_parallel};
  const checked_integer ranks = checked_product(plan.data_parallel, layout.context_parallel);
  if (!ranks.ok)
    return failure(errc::overflow, {replicas, {fact::context_parallel, layout.context_parallel}});
  const checked_integer tokens = checked_product(plan.micro_batch, setup.sequence_length);
  const bool scores = setup.objective != training_objective::next_token;
  if (scores && !checked_product(plan.micro_batch, std::int64_t{2}, setup.sequence_length).ok)
    return failure(
        errc::overflow,
        {{fact::micro_batch, plan.micro_batch}, {fact::sequence_length, setup.sequence_length}});
  if (setup.padding_free && !tokens.ok)
    return failure(
        errc::overflow,
        {{fact::micro_batch, plan.micro_batch}, {fact::sequence_length, setup.sequence_length}});
  const bool casts_tokens =
      setup.precision.fp8_linears && !setup.framework.layers().quantises_linears;
  if (casts_tokens && !tokens.ok)
    return failure(
        errc::overflow,
        {{fact::micro_batch, plan.micro_batch}, {fact::sequence_length, setup.sequence_length}});
  // Experts are shared by the ranks of data, context and tensor parallelism.
  const checked_integer of_stage = checked_product(ranks.value, layout.tensor_parallel);
  if (!of_stage.ok)
    return failure(errc::overflow, {replicas, {fact::tensor_parallel, layout.tensor_parallel}});
  const named_fact sharing_experts =
      layout.expert_tensor_parallel == 1
          ? named_fact{fact::expert_parallel, layout.expert_parallel}
          : named_fact{fact::ranks_of_experts, ranks_of_experts(layout)};
  if (const failure why =
          flaw_if_indivisible(sharing_experts, {{fact::context_ranks, of_stage.value}});
      failed(why))
    return why;
  if (layout.shard_group != 0)
    if (const failure why =
            flaw_if_indivisible({fact::shard_group, layout.shard_group}, {replicas});
        failed(why))
      return why;
  if (plan.data_parallel > 1 && layout.tensor_parallel > 1 &&
      !setup.framework.layers().divides_replicas)
    return without_code({replicas,
                         {fact::tensor_parallel, layout.tensor_parallel},
                         {fact::layers, setup.framework.layers().name},
                         {fact::takes, 1}});
  const std::int64_t sharing = layout.shard_group != 0 ? layout.shard_group : plan.data_parallel;
  // fully_shard takes no uneven parts but of the first dimension.
  const expert_mixture& moe = setup.model.moe;
  if (setup.framework.layers().parts_experts_by_width && setup.framework.engine.is->shards_parts &&
      moe.num_experts != 0 && plan.data_parallel > moe.num_experts)
    if (const failure why =
            flaw_if_no_multiple({{fact::moe_intermediate_size, moe.moe_intermediate_size},
                                 {fact::hidden_size, setup.model.hidden_size}},
                                {fact::data_parallel, sharing});
        failed(why))
      return why;
  const number_format gathered = setup.precision.compute;
  const bool casts = gathered != setup.precision.weights && gathered != number_format::tf32;
  const bool is_alone = sharing * layout.context_parallel == 1;
  // Of flat parameters the graph keeps what came uncast from the host.
  if (is_alone && !casts && layout.weights_on_host && setup.framework.engine.is->joins_parameters)
    return without_code({replicas,
                         {fact::weights_on_host, true},
                         {fact::sharding, setup.framework.engine.is->name},
                         {fact::at_least, 2}});
  // PyTorch's use_orig_params has no parameter to show a rank alone of a frozen table that the head
  // shares, where nothing is cast, and stops.
  if (wraps_adapters(setup) && setup.framework.engine.original_parameters &&
      setup.model.has_tied_head() && !casts && is_alone)
    return without_code({replicas,
                         {fact::original_parameters, true},
                         {fact::trains, setup.trains.what},
                         {fact::tied_embeddings, true},
                         {fact::at_least, 2}});
  if (casts_tokens)
    return flaw_if_no_multiple({{fact::tokens, tokens.value}}, {fact::fp8_block, 16});
  return {};
}

}  // namespace detail

/// The setup itself where it is valid, and so is its batch on that layout. Errors: those of the
/// setup and of the plan; `no_such_code`.
[[nodiscard]] constexpr result<training_setup> validate(const training_setup& setup,
                                                        const batch_plan& plan) {
  if (const auto valid = validate(setup); !valid) return valid.why();
  if (const auto valid = validate(plan); !valid) return valid.why();
  if (const failure why = detail::flaw_of_batch(setup, plan); detail::failed(why)) return why;
  if (const failure why = detail::flaw_of_micro_batches(
          setup.parallelism,
          plan.accumulation,
          micro_batches_of(setup.framework.layers(), setup.parallelism));
      detail::failed(why))
    return why;
  return setup;
}

}  // namespace gpuplan
