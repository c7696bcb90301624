#pragma once

// The most memory that a training step asks for, from a few of its layers. Constexpr.

#include <gpuplan/batch.hpp>
#include <gpuplan/detail/integer.hpp>
#include <gpuplan/replay/eager/tape.hpp>
#include <gpuplan/replay/training_job.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>

namespace gpuplan {

/// The moments of a step at which memory may be at its most.
enum class step_moment {
  forward,        // layers, and what is before them
  loss,           // behind the last layer
  loss_backward,  // to the last layer
  last_layer,     // its backward
  middle_layer,   // that of any between
  first_layer,    // that of the first
  embedding,      // what is before it
  optimizer       // clipping included
};
inline constexpr int step_moments = static_cast<int>(step_moment::optimizer) + 1;

[[nodiscard]] constexpr const char* text(step_moment moment) {
  constexpr const char* names[step_moments] = {"forward",
                                               "loss",
                                               "loss backward",
                                               "last layer's backward",
                                               "a layer's backward",
                                               "first layer's backward",
                                               "embedding's backward",
                                               "optimizer"};
  return names[static_cast<int>(moment)];
}

/// What memory is asked for.
enum class memory_part {
  weights,
  gradients,
  optimizer_states,
  buffers,      // the batch, tables, communication
  activations,  // kept for backward
  working,      // dies with the operator or the function that made it
  workspace     // of library calls
};
inline constexpr int memory_parts = static_cast<int>(memory_part::workspace) + 1;

[[nodiscard]] constexpr const char* text(memory_part part) {
  constexpr const char* names[memory_parts] = {"weights",
                                               "gradients",
                                               "optimizer states",
                                               "buffers",
                                               "activations",
                                               "working memory",
                                               "workspace"};
  return names[static_cast<int>(part)];
}

/// Bytes in all and by part.
struct memory_sum {
  std::int64_t total = 0;
  std::int64_t of[memory_parts]{};

  friend constexpr bool operator==(const memory_sum&, const memory_sum&) = default;

  /// Of as many parts as there are.
  [[nodiscard]] static constexpr memory_sum by(std::int64_t total, const std::int64_t* parts) {
    memory_sum sum{.total = total};
    for (std::int64_t& part : sum.of) part = *parts++;
    return sum;
  }
};

/// The most at each moment.
struct step_peaks {
  memory_sum at[step_moments]{};

  /// The moment of the peak.
  [[nodiscard]] constexpr step_moment when() const {
    int most = 0;
    for (int moment = 1; moment < step_moments; ++moment)
      if (at[moment].total > at[most].total) most = moment;
    return static_cast<step_moment>(most);
  }
  [[nodiscard]] constexpr const memory_sum& peak() const { return at[static_cast<int>(when())]; }
};

namespace eager {

/// Parts of moments. Of stacks that have one layer more, all that is in use at one place is more by
/// the same: what layers in front keep is not there yet in the forward, gradients of those behind
/// are there in the backward.
enum class step_place {
  forward_front,    // up to layers in front,
  forward_between,  // of two stacks, the others of the first and those in front of the second
  forward_back,
  loss,
  loss_backward,
  last_layer,
  layers_back,
  layers_between,
  layers_front,
  first_layer,
  embedding,
  widen_front,  // gradients in front of layers'
  widen,
  clip,
  optimizer
};
inline constexpr int step_places = static_cast<int>(step_place::optimizer) + 1;

[[nodiscard]] constexpr step_moment moment_of(step_place place) {
  switch (place) {
    case step_place::forward_front:
    case step_place::forward_between:
    case step_place::forward_back:
      return step_moment::forward;
    case step_place::loss:
      return step_moment::loss;
    case step_place::loss_backward:
      return step_moment::loss_backward;
    case step_place::last_layer:
      return step_moment::last_layer;
    case step_place::layers_back:
    case step_place::layers_between:
    case step_place::layers_front:
      return step_moment::middle_layer;
    case step_place::first_layer:
      return step_moment::first_layer;
    case step_place::embedding:
      return step_moment::embedding;
    case step_place::widen_front:
    case step_place::widen:
    case step_place::clip:
    case step_place::optimizer:
      break;
  }
  return step_moment::optimizer;
}

/// The most at each place.
struct place_peaks {
  memory_sum at[step_places]{};

  [[nodiscard]] constexpr step_peaks by_moment() const {
    step_peaks peaks;
    for (int place = 0; place < step_places; ++place) {
      memory_sum& most = peaks.at[static_cast<int>(moment_of(static_cast<step_place>(place)))];
      if (at[place].total > most.total) most = at[place];
    }
    return peaks;
  }
  [[nodiscard]] constexpr memory_sum peak() const { return by_moment().peak(); }
};

/// Which layers are where: the first `front` of a stack are in front, all of those in the second
/// stack come behind `first_stack` ones, which are all where there is one.
struct stack_places {
  std::int64_t layers = 0;
  std::int64_t front = 1;
  std::int64_t first_stack = 0;
};

[[nodiscard]] constexpr stack_places stacks_of(const transformer& model, std::int64_t front = 1) {
  return {.layers = model.layers(), .front = front, .first_stack = model.num_hidden_layers};
}

/// Adds up what is asked for, and notes the most at each place.
class summed_memory final : public memory_events {
 public:
  constexpr explicit summed_memory(const stack_places& stacks) : stacks_(stacks) {}

  constexpr int allocate(std::int64_t bytes, int /*stream*/) override {
    now_ += bytes;
    note_now();
    if (free_ != none) {
      const int block = free_;
      free_ = static_cast<int>(size_[block]);
      size_[block] = bytes;
      return block;
    }
    return size_.push(bytes);
  }
  constexpr void release(int block) override {
    now_ -= size_[block];
    size_[block] = free_;
    free_ = block;
  }
  constexpr void begin(moment now, int layer) override {
    place_ = place_of(now, layer);
    note_now();  // what is there already counts
  }

  [[nodiscard]] constexpr bool adds_up() const override { return repeats_; }
  constexpr void begin_stretch() override {
    before_stretch_ = peaks_;
    peaks_ = {};
    for (int part = 0; part < memory_parts; ++part) alive_before_[part] = parts_[part];
  }
  constexpr stretch_peaks end_stretch() override {
    stretch_peaks stretch;
    for (int place = 0; place < step_places; ++place) {
      const memory_sum& most = peaks_.at[place];
      stretch.came_by[place] = most.total != 0;
      for (int part = 0; part < memory_parts; ++part)
        stretch.beyond[place][part] = most.of[part] - alive_before_[part];
    }
    stretch.last_place = static_cast<int>(place_);
    const place_peaks within = peaks_;
    peaks_ = before_stretch_;
    for (int place = 0; place < step_places; ++place) note(place, within.at[place]);
    return stretch;
  }
  constexpr void repeat(const stretch_peaks& as_before) override {
    for (int place = 0; place < step_places; ++place) {
      if (!as_before.came_by[place]) continue;
      memory_sum most;
      for (int part = 0; part < memory_parts; ++part) {
        most.of[part] = parts_[part] + as_before.beyond[place][part];
        most.total += most.of[part];
      }
      note(place, most);
    }
    place_ = static_cast<step_place>(as_before.last_place);
  }
  /// Whether stretches that do as one before are told from here on.
  constexpr void set_repeats(bool repeats) { repeats_ = repeats; }

  /// From here on the peaks count, and the parts are read here.
  constexpr void start(const std::int64_t* parts) {
    peaks_ = {};
    parts_ = parts;
  }
  [[nodiscard]] constexpr const place_peaks& by_place() const { return peaks_; }
  [[nodiscard]] constexpr step_peaks peaks() const { return peaks_.by_moment(); }
  /// What is in use, and the moment that is.
  [[nodiscard]] constexpr std::int64_t now() const { return now_; }
  [[nodiscard]] constexpr step_moment moment_now() const { return moment_of(place_); }

 private:
  constexpr void note_now() {
    memory_sum& most = peaks_.at[static_cast<int>(place_)];
    if (parts_ != nullptr && now_ > most.total) most = memory_sum::by(now_, parts_);
  }
  constexpr void note(int place, const memory_sum& seen) {
    if (seen.total > peaks_.at[place].total) peaks_.at[place] = seen;
  }
  [[nodiscard]] constexpr step_place place_of(moment now, int layer) {
    switch (now) {
      case moment::construct:
      case moment::forward:
        saw_layer_ = saw_first_layer_ = widens_layers_ = false;
        return place_of_forward(now, layer);
      case moment::loss:
        return step_place::loss;
      case moment::backward:
        return place_of_backward(layer);
      case moment::widen:
        widens_layers_ = widens_layers_ || layer != none;
        return widens_layers_ ? step_place::widen : step_place::widen_front;
      case moment::clip:
        return step_place::clip;
      case moment::optimizer:
        break;
    }
    return step_place::optimizer;
  }
  [[nodiscard]] constexpr step_place place_of_forward(moment now, int layer) const {
    if (layer == none) {
      // between layers and behind them as in the one before
      const bool goes_on = now == moment::forward && moment_of(place_) == step_moment::forward;
      return goes_on ? place_ : step_place::forward_front;
    }
    const bool is_first_stack = layer < stacks_.first_stack;
    if (is_first_stack && layer < stacks_.front) return step_place::forward_front;
    const std::int64_t in_second = layer - stacks_.first_stack;
    const bool is_between =
        is_first_stack ? stacks_.first_stack < stacks_.layers : in_second < stacks_.front;
    return is_between ? step_place::forward_between : step_place::forward_back;
  }
  [[nodiscard]] constexpr step_place place_of_backward(int layer) {
    const bool has_two = stacks_.first_stack < stacks_.layers;
    if (layer == none) {
      if (!saw_layer_) return step_place::loss_backward;
      return has_two && !saw_first_layer_ ? step_place::layers_between : step_place::embedding;
    }
    saw_layer_ = true;
    if (layer == stacks_.layers - 1) return step_place::last_layer;
    if (layer == 0) {
      saw_first_layer_ = true;
      return step_place::first_layer;
    }
    const bool is_first_stack = layer < stacks_.first_stack;
    if (is_first_stack && layer < stacks_.front) return step_place::layers_front;
    const std::int64_t in_second = layer - stacks_.first_stack;
    const bool is_between = is_first_stack ? has_two : in_second < stacks_.front;
    return is_between ? step_place::layers_between : step_place::layers_back;
  }

  growing_array<std::int64_t> size_{};
  int free_ = none;
  std::int64_t now_ = 0;
  stack_places stacks_;
  step_place place_ = step_place::forward_front;
  bool saw_layer_ = false;        // in this backward,
  bool saw_first_layer_ = false;  // and the first
  bool widens_layers_ = false;    // gradients, and has begun those of layers
  const std::int64_t* parts_ = nullptr;
  place_peaks peaks_{};
  place_peaks before_stretch_{};
  std::int64_t alive_before_[memory_parts]{};
  bool repeats_ = false;
};
static_assert(step_places == stretch_peaks::most_places && memory_parts == purposes);

}  // namespace eager

namespace detail {

// Layers in front of those that repeat: they differ, or are the first of each kind.
constexpr std::int64_t layers_in_front(const training_setup& setup);

constexpr eager::place_peaks replayed_peaks(training_setup setup,
                                            const batch_plan& plan,
                                            std::int64_t layers,
                                            const eager::device_traits& device) {
  const std::int64_t front = layers_in_front(setup);
  const std::int64_t fewer = setup.model.num_hidden_layers - layers;
  setup.model.num_hidden_layers = layers;
  if (setup.model.num_decoder_layers != 0) setup.model.num_decoder_layers -= fewer;
  eager::summed_memory memory(eager::stacks_of(setup.model, front));
  eager::train(memory, setup, plan, device, nullptr, [&](eager::training_job& job) {
    memory.start(job.alive());
    memory.set_repeats(true);
    job.settle();
    memory.start(job.alive());
    job.step();
  });
  return memory.by_place();
}

// Layers that differ from each other repeat after so many; none do where that is more than all.
constexpr std::int64_t layer_period(const training_setup& setup) {
  const transformer& model = setup.model;
  const bool has_windows = model.sliding_window != 0 && model.global_layer_step > 1;
  const std::int64_t windows = has_windows ? model.global_layer_step : 1;
  const std::int64_t rope = model.no_rope_layer_interval;
  const checked_integer attention =
      checked_product(windows, rope > 1 && rope != windows ? rope : 1);
  const checked_integer period = checked_product(
      setup.framework.layers().layer_period,
      setup.recompute == recompute_mode::full ? setup.recompute_period : 1,
      checked_product(attention, model.moe.num_experts != 0 ? model.moe.moe_layer_step : 1));
  const std::int64_t all = model.layers();
  return period.ok && period.value < all ? period.value : all;
}

constexpr std::int64_t layers_in_front(const training_setup& setup) {
  const transformer& model = setup.model;
  const std::int64_t unlike = model.sliding_window != 0 ? model.max_window_layers : 0;
  return unlike + model.moe.first_k_dense_layers + setup.recompute_layers + layer_period(setup);
}

// Whether a layer more adds the same wherever it stands: not where parameters lie one behind the
// other in buckets of so many elements, nor where ranks take whole ones by size, nor where several
// texts pass the layers of one graph, nor in T5, whose first layers' biases gather gradients, where
// layers are computed again or gather their weights, nor in stages of a pipeline.
constexpr bool layers_repeat(const training_setup& setup, const batch_plan& plan) {
  const layer_class& code = setup.framework.layers();
  const engine_class& by = *setup.framework.engine.is;
  // Of matrices one after the other: another is the largest where there are more.
  const bool takes_matrices = setup.optimizer.kind == optimizer_kind::adafactor ||
                              setup.optimizer.kind == optimizer_kind::muon;
  if (!code.repeats_layers || setup.encodings > 1 || takes_matrices) return false;
  if (setup.parallelism.pipeline_parallel > 1) return false;
  if (!code.repeats_recomputed_layers &&
      (by.gathers_weights || setup.recompute != recompute_mode::none))
    return false;
  const bool shares = plan.data_parallel > 1 && setup.parallelism.zero_stage != 0;
  return by.repeats_layers && (!shares || by.repeats_shared_layers);
}

constexpr memory_sum extrapolated(const memory_sum& of_fewer,
                                  const memory_sum& of_more,
                                  std::int64_t steps) {
  memory_sum sum;
  sum.total = of_fewer.total + (of_more.total - of_fewer.total) * steps;
  for (int part = 0; part < memory_parts; ++part)
    sum.of[part] = of_fewer.of[part] + (of_more.of[part] - of_fewer.of[part]) * steps;
  return sum;
}
constexpr eager::place_peaks extrapolated(const eager::place_peaks& of_fewer,
                                          const eager::place_peaks& of_more,
                                          std::int64_t steps) {
  eager::place_peaks peaks;
  for (int place = 0; place < eager::step_places; ++place)
    if (of_fewer.at[place].total != 0)
      peaks.at[place] = extrapolated(of_fewer.at[place], of_more.at[place], steps);
  return peaks;
}

// Two counts of which what one of them takes more than the other tells what any further takes:
// `fewer`, `fewer + period`, and so on to `fewer + steps * period`. No steps: `fewer` is all.
struct repetition {
  std::int64_t fewer = 0;
  std::int64_t period = 1;
  std::int64_t steps = 0;
};

// Layers. Where weights are gathered, those between are unlike the first and the last.
constexpr repetition repeated_layers(const training_setup& setup, const batch_plan& plan) {
  const std::int64_t layers = setup.model.num_hidden_layers;
  const std::int64_t period = layer_period(setup);
  std::int64_t ends = setup.model.moe.first_k_dense_layers + setup.recompute_layers;
  if (setup.trains.what == training::last_layers) ends += setup.trains.last_layers;
  const bool gathers = plan.data_parallel > 1 || setup.framework.engine.is->gathers_weights;
  std::int64_t fewer = ends + (gathers ? 3 : 2) * period;
  if (period > 1) fewer += period;  // each kind also stands between the first and the last layers
  fewer += (layers - fewer) % period;
  if (layers <= fewer + period || !layers_repeat(setup, plan)) return {layers, period, 0};
  return {fewer, period, (layers - fewer) / period};
}

// Whether completions of all micro-batches are there from the first on.
constexpr bool keeps_all_micro_batches(const training_setup& setup) {
  return setup.objective == training_objective::group_relative;
}

// Micro-batches of a step. There is a first, one between, and a last; a stage holds one for each
// stage from it on. Megatron-Core's last stage notes the loss of each. Where gradients of weights
// wait, twice as many micro-batches as stages fill a pipeline, of several chunks three times. By
// PyTorch's schedules each adds its tokens and labels, by GPipe what it keeps, and what backwards
// of several chunks send.
constexpr repetition repeated_micro_batches(const training_setup& setup, const batch_plan& plan) {
  const std::int64_t all = plan.accumulation;
  const std::int64_t stages = setup.parallelism.pipeline_parallel;
  if (!setup.framework.layers().is_pipelined && stages == 1)
    return {all < 3 ? all : 3, 1, keeps_all_micro_batches(setup) && all > 3 ? all - 3 : 0};
  const bool in_turns = setup.parallelism.virtual_pipeline > 1;
  const std::int64_t period = in_turns ? stages : 1;
  const bool adds_each = setup.framework.layers().divides_stages;
  const micro_batch_rule taken = micro_batches_of(setup.framework.layers(), setup.parallelism);
  if (const schedule_traits by = traits_of(setup.parallelism.schedule); by.defers_weights) {
    const std::int64_t full = in_turns && by.interleaves ? 3 * stages : 2 * stages + 2;
    const std::int64_t few = full / taken.multiple_of * taken.multiple_of;
    if (all <= few + taken.multiple_of) return {all, taken.multiple_of, 0};
    const bool notes = adds_each || holds_last_chunk(setup.parallelism, setup.place.stage);
    return {few + (all - few) % taken.multiple_of,
            taken.multiple_of,
            notes ? (all - few) / taken.multiple_of : 0};
  }
  const bool all_are = setup.parallelism.schedule == pipeline_schedule::gpipe;
  const std::int64_t on_their_way = all_are ? 1 : stages - setup.place.stage;
  const std::int64_t apart = on_their_way + 2;
  const std::int64_t fewer = (in_turns              ? 3 * stages
                              : apart > taken.least ? apart
                                                    : taken.least) +
                             all % period;
  if (all <= fewer + period) return {all, period, 0};
  const bool notes_losses =
      setup.framework.engine.is->notes_losses && setup.place.stage == stages - 1;
  return {fewer, period, notes_losses || adds_each ? (all - fewer) / period : 0};
}

constexpr eager::place_peaks peaks_of_layers(const training_setup& setup,
                                             const batch_plan& plan,
                                             const eager::device_traits& device) {
  const repetition layers = repeated_layers(setup, plan);
  const eager::place_peaks peaks = replayed_peaks(setup, plan, layers.fewer, device);
  if (layers.steps == 0) return peaks;
  return extrapolated(
      peaks, replayed_peaks(setup, plan, layers.fewer + layers.period, device), layers.steps);
}

// Graphs have pools of their own. That of a step's passes stays while the optimizer runs, and of
// Megatron-Core so does the batch of every micro-batch, which graphs read from buffers
// (full_cuda_graph.py); what torchtitan's reads is replayed. Beside graphs of layers' parts the
// other operators have their temporaries outside: at most as many again.
constexpr step_peaks with_pools_of_graphs(const training_setup& setup,
                                          const batch_plan& plan,
                                          step_peaks peaks) {
  if (!setup.graphs.any()) return peaks;
  const bool of_iteration = setup.graphs.iteration;
  const int working = static_cast<int>(memory_part::working);
  const int buffers = static_cast<int>(memory_part::buffers);
  const memory_sum last = peaks.at[static_cast<int>(step_moment::optimizer)];
  // token, label and position in int64, the loss's mask in fp32
  const bool reads_all = setup.framework.layers().is_pipelined;
  const std::int64_t batch =
      reads_all
          ? (plan.accumulation - 1) * plan.micro_batch *
                ceil_div(setup.sequence_length, setup.parallelism.context_parallel) * (3 * 8 + 4)
          : 0;
  for (memory_sum& one : peaks.at) {
    if (one.total == 0) continue;
    const bool is_last = &one == &peaks.at[static_cast<int>(step_moment::optimizer)];
    const std::int64_t more = is_last ? 0 : of_iteration ? last.of[working] : one.of[working];
    one.of[working] += more;
    one.of[buffers] += of_iteration ? batch : 0;
    one.total += more + (of_iteration ? batch : 0);
  }
  return peaks;
}

}  // namespace detail

/// The most that one step asks for at each of its moments. Where layers repeat, every layer
/// allocates and frees the same, so that the peak of each place is a straight line of their number:
/// two models of few layers are replayed, or the whole one where layers do not repeat.
/// Micro-batches of a step likewise. `middle_layer` then has the layers that were replayed, and is
/// 0 where those are the first and the last: the others have no more than one of all these. Pools
/// of CUDA graphs (`training_setup::graphs`) come on top, which `replay` and timelines do not have.
/// Of 11,279 random shapes, settings and layouts without DeepSpeed and Megatron the peak is what
/// the replay of all layers asks for, to the byte. Precondition: `validate` accepts
/// `transformer_memory` of the setup, and it with the plan.
[[nodiscard]] constexpr step_peaks peaks_of(const training_setup& setup,
                                            batch_plan plan,
                                            const eager::device_traits& device = {}) {
  const batch_plan whole = plan;
  const detail::repetition micro_batches = detail::repeated_micro_batches(setup, plan);
  plan.accumulation = micro_batches.fewer;
  const eager::place_peaks peaks = detail::peaks_of_layers(setup, plan, device);
  if (micro_batches.steps == 0)
    return detail::with_pools_of_graphs(setup, whole, peaks.by_moment());
  plan.accumulation += micro_batches.period;
  const eager::place_peaks all = detail::extrapolated(
      peaks, detail::peaks_of_layers(setup, plan, device), micro_batches.steps);
  return detail::with_pools_of_graphs(setup, whole, all.by_moment());
}

}  // namespace gpuplan
