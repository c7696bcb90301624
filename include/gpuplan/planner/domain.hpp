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
    if (request_.space.sequence_parallel) degrees.sequence_parallel = family.sequence != 0;
    setup.recompute = static_cast<recompute_mode>(family.recompute);
    return setup;
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

struct stage_layout {
  std::int64_t pipeline = 1, chunks = 1, zero = 0;
};
constexpr void set_stages(parallelism& degrees, const stage_layout& stages) {
  degrees.pipeline_parallel = stages.pipeline;
  degrees.virtual_pipeline = stages.chunks;
  degrees.zero_stage = static_cast<int>(stages.zero);
}

// Layouts with as many stages.
struct pipeline_layouts {
  std::int64_t stages = 1;
  std::int64_t ranks = 1;  // of a model
  int first = 0;           // those of one chunk come first
  int count = 0;
  int in_chunks = 0;
  parameter_counts held{};  // by the first rank
};

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
  static constexpr int most_layouts = 1024;
  static constexpr int most_pipelines = 256;

  // Those of the setup of a family. The failure stays that of the first that ever was refused.
  constexpr void find(const plan_domain& domain, const plan_family& family) {
    count_ = pipeline_count_ = 0;
    training_setup setup = domain.setup_of(family);
    const parallelism& as_set = domain.setup_at(family.setup).parallelism;
    const plan_space& space = domain.request().space;
    const std::int64_t layers = setup.model.layers();
    const degree_span pipeline =
        domain.searched(space.pipeline_parallel, as_set.pipeline_parallel, layers);
    const degree_span zero = domain.searched(space.zero_stage, as_set.zero_stage, 3);
    for (std::int64_t p = pipeline.low; p <= pipeline.high; ++p) {
      const std::int64_t ranks = family.tensor * family.context * p;
      if (!domain.has_gpus_for(ranks)) continue;
      pipeline_layouts here{.stages = p, .ranks = ranks, .first = count_};
      const degree_span chunks =
          domain.searched(space.virtual_pipeline, as_set.virtual_pipeline, p > 1 ? layers / p : 1);
      for (std::int64_t v = chunks.low; v <= chunks.high; ++v) {
        if (v > 1 && layers % (p * v) != 0) continue;
        for (std::int64_t z = zero.low; z <= zero.high; ++z) {
          const stage_layout layout{.pipeline = p, .chunks = v, .zero = z};
          set_stages(setup.parallelism, layout);
          // Every stage is one of the layout.
          const auto valid = validate(setup);
          if (!valid && !failed(flaw_)) flaw_ = valid.why();
          if (!valid) continue;
          if (count_ == most_layouts || pipeline_count_ == most_pipelines) {
            has_too_many_ = true;
            return;
          }
          layouts_[count_++] = layout;
          here.in_chunks += v > 1 ? 1 : 0;
        }
      }
      here.count = count_ - here.first;
      if (here.count == 0) continue;
      here.held = parameters(setup.model, setup.parallelism, {});
      pipelines_[pipeline_count_++] = here;
    }
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
    allowed_batches batches{.plain = accumulations_for(batch, samples, 1).in(space.accumulation)};
    if (pipeline.in_chunks != 0)
      batches.in_chunks = accumulations_for(batch, samples, pipeline.stages).in(space.accumulation);
    if (batches.plans(pipeline) != 0) visit(many, batches);
  }
}

}  // namespace gpuplan::detail
