#pragma once

// What a request allows: families of plans, the layouts of a family, and the GPUs and batches of a
// layout. Private.

#include <gpuplan/parameters.hpp>
#include <gpuplan/planner/candidates.hpp>
#include <gpuplan/planner/request.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>
#include <numeric>

namespace gpuplan::detail {

// The time of a layer is one for all plans of a family with the same micro-batch.
struct plan_family {
  double bound = 0;
  std::int64_t tensor = 1, context = 1, expert = 1, recompute = 0, sequence = 0, setup = 0;
  int first_bound = 0;  // of its micro-batches, in order; below 0: there was no room
  int bounds = 0;
};

// Functions of a request.
class plan_domain {
 public:
  constexpr explicit plan_domain(const plan_request& request) : request_(request) {}

  constexpr const plan_request& request() const { return request_; }

  constexpr std::int64_t setups() const {
    return static_cast<std::int64_t>(request_.setups.size()) + 1;
  }
  constexpr const training_setup& setup_at(std::int64_t which) const {
    return which == 0 ? request_.setup : request_.setups[static_cast<std::size_t>(which - 1)];
  }
  // With the degrees of a family, and what it recomputes.
  constexpr training_setup setup_of(const plan_family& family) const {
    training_setup setup = setup_at(family.setup);
    parallelism& degrees = setup.parallelism;
    degrees.tensor_parallel = family.tensor;
    degrees.context_parallel = family.context;
    degrees.expert_parallel = family.expert;
    // Parts that are asked for are as many as of other weights where none shares the experts.
    if (degrees.expert_tensor_parallel > 1 && family.expert == 1)
      degrees.expert_tensor_parallel = family.tensor;
    if (request_.space.sequence_parallel) degrees.sequence_parallel = family.sequence != 0;
    setup.recompute = static_cast<recompute_mode>(family.recompute);
    if (chooses_layers(family)) setup.recompute_layers = 1;
    return setup;
  }
  // Whether how many layers are recomputed is chosen: of code that can leave some out. DeepSpeed's
  // pipelines compute spans of all again.
  constexpr bool chooses_layers(const plan_family& family) const {
    const training_setup& setup = setup_at(family.setup);
    const layer_class& code = setup.framework.layers();
    return request_.space.recompute_layers &&
           static_cast<recompute_mode>(family.recompute) == recompute_mode::full &&
           code.chooses_recomputed_layers && setup.recompute_span == 1 &&
           setup.recompute_period == 1 && !setup.framework.engine.is->recomputes_whole_stages;
  }

  // What the goal counts, of so many seconds a sample.
  constexpr double value_of(const plan_group& group, double per_sample) const {
    return request_.goal == plan_goal::least_money ? per_sample * static_cast<double>(group.gpus)
                                                   : per_sample;
  }
  constexpr std::int64_t most_gpus() const {
    const std::int64_t all = total_gpus(request_.on);
    return searched(request_.space.gpus, all, all).high;
  }
  // Beyond these, micro-batches of all replicas are more than a batch, or replicas than asked for.
  constexpr std::int64_t most_gpus(std::int64_t ranks, std::int64_t b) const {
    const std::int64_t replicas = request_.effective_batch.high() / b;
    const std::int64_t most =
        searched(request_.space.data_parallel, replicas, replicas).high * ranks;
    return most < most_gpus() ? most : most_gpus();
  }
  // The next number of GPUs that so many ranks of a model divide: of a node any, then whole nodes.
  constexpr std::int64_t next_gpus(std::int64_t after, std::int64_t ranks) const {
    const std::int64_t in_node = request_.on.gpus_per_node;
    const std::int64_t next = (after / ranks + 1) * ranks;
    if (next <= in_node) return next;
    const std::int64_t nodes = std::lcm(ranks, in_node);
    return ((after < in_node ? in_node : after) / nodes + 1) * nodes;
  }
  constexpr std::int64_t first_gpus(std::int64_t ranks = 1) const {
    const std::int64_t all = total_gpus(request_.on);
    return next_gpus(searched(request_.space.gpus, all, all).low - 1, ranks);
  }
  constexpr bool has_gpus_for(std::int64_t ranks) const { return first_gpus(ranks) <= most_gpus(); }

  constexpr std::int64_t least_micro_batch() const { return request_.space.micro_batch.low(); }
  constexpr std::int64_t largest_micro_batch() const {
    const std::int64_t asked = request_.space.micro_batch.high();
    const std::int64_t most = request_.effective_batch.high();
    return asked < most ? asked : most;
  }
  // Of the families of a setup.
  constexpr degree_span tensor_degrees(const training_setup& setup) const {
    const std::int64_t linked = linked_gpus(request_.on);
    const std::int64_t most = most_gpus();
    return searched(request_.space.tensor_parallel,
                    setup.parallelism.tensor_parallel,
                    request_.tensor_within_node && linked < most ? linked : most);
  }
  constexpr degree_span context_degrees(const training_setup& setup) const {
    return searched(
        request_.space.context_parallel, setup.parallelism.context_parallel, most_gpus());
  }
  constexpr degree_span expert_degrees(const training_setup& setup) const {
    const std::int64_t experts = setup.model.moe.num_experts;
    return searched(request_.space.expert_parallel,
                    setup.parallelism.expert_parallel,
                    experts == 0 ? 1 : experts);
  }
  // Of a family, and of its stages.
  constexpr degree_span pipeline_degrees(const training_setup& setup) const {
    return searched(request_.space.pipeline_parallel,
                    setup.parallelism.pipeline_parallel,
                    setup.model.layers());
  }
  // Degrees asked for, or the one that is set.
  static constexpr degree_span searched(const known<range<std::int64_t>>& degrees,
                                        std::int64_t as_set,
                                        std::int64_t most) {
    if (!degrees) return {as_set, as_set < most ? as_set : most};
    return {degrees->low(), degrees->high() < most ? degrees->high() : most};
  }

 private:
  const plan_request& request_;
};

// What a plan states of its stages where layers do not divide by them: the numbers of a
// `pipeline_split` that Megatron-Core has for that, in the order in which plans that are as good
// come.
struct stated_split {
  std::int64_t embedding = 0, head = 0, first = 0, last = 0;

  static constexpr stated_split of(const pipeline_split& split) {
    return {split.embedding_layers,
            split.head_layers,
            split.first_stage_layers,
            split.last_stage_layers};
  }
  constexpr void set(pipeline_split& split) const {
    split.embedding_layers = embedding;
    split.head_layers = head;
    split.first_stage_layers = first;
    split.last_stage_layers = last;
  }
};

// The splits that are tried on so many stages, number 0 as it is set. Where layers do not divide by
// stages: the embedding, the head or both count as a layer; where none of these divides either, the
// first and the last stage have fewer than the others, as many fewer each or the last one more, or
// the last one alone. Beside a split that is set there is no other.
class split_choices {
 public:
  static constexpr std::int64_t most = 6;

  constexpr split_choices(const training_setup& setup, const parallelism& as_set, std::int64_t p)
      : layers_(setup.model.layers()),
        stages_(p),
        as_set_(stated_split::of(as_set.split)),
        has_others_(setup.framework.engine.is->divides_equally && as_set.split.is_even() && p > 1 &&
                    layers_ % p != 0) {}

  constexpr bool has(std::int64_t which) const {
    if (which == 0) return true;
    if (!has_others_) return false;
    const bool one_divides = (layers_ + 1) % stages_ == 0;
    const bool both_divide = (layers_ + 2) % stages_ == 0;
    if (which <= 2) return one_divides;
    if (which == 3) return both_divide;
    if (one_divides || both_divide) return false;
    const stated_split made = (*this)[which];
    return made.last > 0 && (which == 5 || made.first > 0);
  }
  constexpr stated_split operator[](std::int64_t which) const {
    const std::int64_t each = ceil_div(layers_, stages_);
    const std::int64_t missing = each * stages_ - layers_;
    switch (which) {
      case 0:
        return as_set_;
      case 1:
        return {.embedding = 1};
      case 2:
        return {.head = 1};
      case 3:
        return {.embedding = 1, .head = 1};
      case 4:
        return {.first = each - missing / 2, .last = each - (missing - missing / 2)};
      default:
        return {.last = each - missing};
    }
  }

 private:
  std::int64_t layers_;
  std::int64_t stages_;
  stated_split as_set_;
  bool has_others_;
};

// Whether a stage's time and parameters follow from the number of its layers, so that it is no
// matter which of them interleaved chunks have.
constexpr bool has_like_layers(const transformer& model) {
  const expert_mixture& moe = model.moe;
  return model.kind != model_kind::encoder_decoder &&
         (moe.num_experts == 0 || (moe.first_k_dense_layers == 0 && moe.moe_layer_step == 1)) &&
         !model.mixes_kinds() &&
         (model.sliding_window == 0 ||
          (model.global_layer_step == 0 && model.max_window_layers == 0));
}

// The most layers that code counts those in that it recomputes: of a chunk, or of PyTorch's stages.
constexpr std::int64_t most_to_recompute(const training_setup& setup) {
  const parallelism& layout = setup.parallelism;
  const std::int64_t layers = setup.model.layers();
  const bool counts_ranks = setup.framework.layers().divides_stages;
  std::int64_t most = 1;
  for (std::int64_t stage = 0; stage < layout.pipeline_parallel; ++stage)
    for (std::int64_t chunk = 0; chunk < (counts_ranks ? 1 : layout.virtual_pipeline); ++chunk) {
      const std::int64_t here = counts_ranks ? layers_of_stage(layout, layers, stage)
                                             : layers_of_chunk(layout, layers, stage, chunk).size();
      if (here > most) most = here;
    }
  return most;
}
// So many of them; all are what is recomputed by itself.
constexpr void set_recomputed(training_setup& setup, std::int64_t layers, std::int64_t most) {
  setup.recompute_layers = layers < most ? layers : 0;
}

struct stage_layout {
  std::int64_t pipeline = 1, chunks = 1, zero = 0;
};
constexpr void set_stages(parallelism& degrees, const stage_layout& stages) {
  degrees.pipeline_parallel = stages.pipeline;
  degrees.virtual_pipeline = stages.chunks;
  degrees.zero_stage = static_cast<int>(stages.zero);
}

// Layouts with as many stages, split alike; where layers differ, of as many chunks too.
struct pipeline_layouts {
  std::int64_t stages = 1;
  std::int64_t chunks = 1;
  std::int64_t split_choice = 0;
  stated_split split{};
  std::int64_t ranks = 1;  // of a model
  int first = 0;           // those of one chunk come first
  int count = 0;
  int in_chunks = 0;
  parameter_counts held{};  // by the first rank
};

// The lower half of degrees by their ratio, and the others; false where none or one is searched.
constexpr bool halve(const degree_span& degrees,
                     known<range<std::int64_t>>& low,
                     known<range<std::int64_t>>& high) {
  if (!low || degrees.low >= degrees.high) return false;
  std::int64_t middle = degrees.low;
  while ((middle + 1) * (middle + 1) <= degrees.low * degrees.high) ++middle;
  low = range<std::int64_t>{degrees.low, middle};
  high = range<std::int64_t>{middle + 1, degrees.high};
  return true;
}
// Two requests for plans of half as many layouts, together those of the one that both were: in the
// order in which plans that are as good come. False where a family has too many by itself.
constexpr bool halve(plan_request& low, plan_request& high, bool by_stages) {
  const plan_request both = low;
  const plan_domain domain(both);
  const auto widest = [&](auto degrees_of) {
    degree_span all = (domain.*degrees_of)(domain.setup_at(0));
    for (std::int64_t which = 1; which < domain.setups(); ++which) {
      const degree_span more = (domain.*degrees_of)(domain.setup_at(which));
      if (more.low < all.low) all.low = more.low;
      if (more.high > all.high) all.high = more.high;
    }
    return all;
  };
  plan_space& first = low.space;
  plan_space& second = high.space;
  if (by_stages)
    return halve(
        widest(&plan_domain::pipeline_degrees), first.pipeline_parallel, second.pipeline_parallel);
  return halve(
             widest(&plan_domain::tensor_degrees), first.tensor_parallel, second.tensor_parallel) ||
         halve(widest(&plan_domain::context_degrees),
               first.context_parallel,
               second.context_parallel) ||
         halve(widest(&plan_domain::expert_degrees), first.expert_parallel, second.expert_parallel);
}

// What a pipeline's layouts may do on so many GPUs: none where there are no such plans.
struct allowed_batches {
  accumulations plain{};
  accumulations in_chunks{};  // go through as many micro-batches as stages at a time

  constexpr const accumulations& with(const stage_layout& layout) const {
    return layout.chunks > 1 ? in_chunks : plain;
  }
  constexpr std::int64_t plans(const pipeline_layouts& pipeline) const {
    return (pipeline.count - pipeline.in_chunks) * plain.count() +
           pipeline.in_chunks * in_chunks.count();
  }
};

// The layouts of a family, those that `validate` accepts.
class family_layouts {
 public:
  static constexpr int most_layouts = 2048;
  static constexpr int most_pipelines = 1024;

  // Those of the setup of a family. The failure stays that of the first that ever was refused, but
  // for one of a ZeRO stage where another stage has another.
  constexpr void find(const plan_domain& domain, const plan_family& family) {
    count_ = pipeline_count_ = 0;
    training_setup setup = domain.setup_of(family);
    const auto model = validate(setup.model);  // one for all layouts
    flaw_of_model_ = model ? failure() : model.why();
    const parallelism& as_set = domain.setup_at(family.setup).parallelism;
    const plan_space& space = domain.request().space;
    const std::int64_t layers = setup.model.layers();
    const degree_span pipeline = domain.pipeline_degrees(domain.setup_at(family.setup));
    const degree_span zero = domain.searched(space.zero_stage, as_set.zero_stage, 3);
    for (std::int64_t p = pipeline.low; p <= pipeline.high; ++p) {
      const std::int64_t ranks = family.tensor * family.context * p;
      if (!domain.has_gpus_for(ranks)) continue;
      // Of layouts whose replicas are more than a batch one tells that there are any.
      if (accepts_some_ &&
          domain.first_gpus(ranks) > domain.most_gpus(ranks, domain.least_micro_batch()))
        continue;
      degree_span chunks = domain.searched(
          space.virtual_pipeline, as_set.virtual_pipeline, p > 1 ? ceil_div(layers + 2, p) : 1);
      // PyTorch's schedule of several keeps more, and is tried where one is not taken.
      if (setup.framework.layers().divides_stages && !traits_of(as_set.schedule).folds &&
          chunks.low == 1)
        chunks.high = 1;
      const split_choices splits(setup, as_set, p);
      for (std::int64_t which = 0; which < split_choices::most; ++which) {
        if (!splits.has(which)) continue;
        const pipeline_layouts split{
            .stages = p, .split_choice = which, .split = splits[which], .ranks = ranks};
        split.split.set(setup.parallelism.split);
        if (!find(setup, split, chunks, zero)) {
          has_too_many_ = true;
          return;
        }
      }
    }
  }

  // Whether a stage's layers may be those of so many chunks: before all is looked at.
  static constexpr bool may_interleave(const training_setup& setup,
                                       const pipeline_layouts& here,
                                       std::int64_t v) {
    const stated_split& split = here.split;
    const std::int64_t layers = setup.model.layers();
    if (setup.parallelism.split.listed.count != 0 || setup.framework.layers().divides_stages)
      return true;
    if (split.first == 0 && split.last == 0)
      return (layers + split.embedding + split.head) % (here.stages * v) == 0;
    return split.first % v == 0 && split.last % v == 0 &&
           (layers - split.first - split.last) % v == 0;
  }
  static constexpr bool is_of_stage_alone(const failure& first, const failure& later) {
    return first.at_fault() == fact::zero_stage && later.at_fault() != fact::zero_stage;
  }
  // Those of a split; false where there is no room for them.
  constexpr bool find(training_setup& setup,
                      pipeline_layouts here,
                      const degree_span& chunks,
                      const degree_span& zero) {
    // Dealt one by one, a stage has as many layers in any number of chunks.
    const bool are_alike =
        has_like_layers(setup.model) &&
        (!setup.framework.layers().divides_stages || setup.parallelism.split.first_have_more);
    const auto add = [&] {
      here.count = count_ - here.first;
      if (here.count == 0) return;
      here.chunks = layouts_[here.first].chunks;
      set_stages(setup.parallelism, {.pipeline = here.stages, .chunks = here.chunks});
      here.held = parameters(setup.trained_model(), setup.parallelism, {});
      pipelines_[pipeline_count_++] = here;
    };
    here.first = count_;
    for (std::int64_t v = chunks.low; v <= chunks.high; ++v) {
      if (v > 1 && !may_interleave(setup, here, v)) continue;
      if (!are_alike) {
        here.first = count_;
        here.in_chunks = 0;
      }
      for (std::int64_t z = zero.low; z <= zero.high; ++z) {
        const stage_layout layout{.pipeline = here.stages, .chunks = v, .zero = z};
        set_stages(setup.parallelism, layout);
        // Every stage is one of the layout.
        const failure why = failed(flaw_of_model_) ? flaw_of_model_ : flaw_around_model(setup);
        if (failed(why)) {
          if (!failed(flaw_) || (zero.low != zero.high && is_of_stage_alone(flaw_, why)))
            flaw_ = why;
          continue;
        }
        if (count_ == most_layouts || pipeline_count_ == most_pipelines) return false;
        layouts_[count_++] = layout;
        accepts_some_ = true;
        here.in_chunks += v > 1 ? 1 : 0;
      }
      if (!are_alike) add();
    }
    if (are_alike) add();
    return true;
  }

  constexpr int size() const { return count_; }
  constexpr const stage_layout& operator[](int at) const { return layouts_[at]; }
  constexpr const pipeline_layouts* begin() const { return pipelines_; }
  constexpr const pipeline_layouts* end() const { return pipelines_ + pipeline_count_; }
  constexpr const failure& flaw() const { return flaw_; }
  constexpr bool has_too_many() const { return has_too_many_; }

 private:
  stage_layout layouts_[most_layouts]{};
  int count_ = 0;
  pipeline_layouts pipelines_[most_pipelines]{};
  int pipeline_count_ = 0;
  failure flaw_{};
  failure flaw_of_model_{};    // of the family that is looked at
  bool accepts_some_ = false;  // of all families
  bool has_too_many_ = false;
};

// Calls `visit(GPUs, batches)` for each number of GPUs on which a pipeline has plans.
template <class Visit>
constexpr void for_each_size(const plan_domain& domain,
                             const training_setup& setup,
                             const pipeline_layouts& pipeline,
                             std::int64_t b,
                             const Visit& visit) {
  const range<std::int64_t>& batch = domain.request().effective_batch;
  const plan_space& space = domain.request().space;
  const std::int64_t high = domain.most_gpus(pipeline.ranks, b);
  for (std::int64_t many = domain.first_gpus(pipeline.ranks); many <= high;
       many = domain.next_gpus(many, pipeline.ranks)) {
    const std::int64_t data_parallel = many / pipeline.ranks;
    if (space.data_parallel && data_parallel < space.data_parallel->low()) continue;
    if (failed(flaw_of_batch(setup, {b, data_parallel, 1}))) continue;
    const std::int64_t samples = b * data_parallel;
    const auto allowed = [&](std::int64_t chunks) {
      parallelism ranks = setup.parallelism;
      ranks.pipeline_parallel = pipeline.stages;
      ranks.virtual_pipeline = chunks;
      return accumulations_for(batch, samples, micro_batches_of(setup.framework.layers(), ranks))
          .in(space.accumulation);
    };
    allowed_batches batches{.plain = allowed(1)};
    if (pipeline.in_chunks != 0) batches.in_chunks = allowed(2);
    if (batches.plans(pipeline) != 0) visit(many, batches);
  }
}

}  // namespace gpuplan::detail
