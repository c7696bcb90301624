#pragma once

// What the parts of a step's time are made of, each with its formula's numbers, and what a device,
// link or host that is a little better would bring.

#include <gpuplan/batch.hpp>
#include <gpuplan/communication.hpp>
#include <gpuplan/detail/math.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/time/layers.hpp>
#include <gpuplan/time/optimizer.hpp>
#include <gpuplan/time/rates.hpp>
#include <gpuplan/time/roofline.hpp>
#include <gpuplan/time/step_breakdown.hpp>
#include <gpuplan/units.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace gpuplan {

/// What bounds a piece of a step's time: what would have to be better to make it shorter.
enum class time_resource {
  matmuls,                // the rate of matmuls
  attention,              // the rate of fused attention
  memory,                 // the device's memory bandwidth
  kernel_floor,           // the least that any kernel takes
  stragglers,             // how much slower the slowest device is
  host,                   // what launching, and a step's other work, costs the host
  link_inside_node,       // bandwidth
  link_between_nodes,     // bandwidth
  communication_latency,  // of launches, steps and waiting of collectives
  loader,                 // samples that storage delivers
  stages                  // other stages of the pipeline
};
inline constexpr std::size_t time_resources = 11;

[[nodiscard]] constexpr const char* text(time_resource resource) {
  constexpr const char* names[] = {"matmul rate",
                                   "attention rate",
                                   "memory bandwidth",
                                   "least time of a kernel",
                                   "stragglers",
                                   "host",
                                   "link inside the node",
                                   "link between nodes",
                                   "latency of communication",
                                   "loader",
                                   "other stages"};
  return names[static_cast<std::size_t>(resource)];
}

/// What a piece of a step's time is spent on.
enum class time_cause {
  linear_layers,    // FLOPs, in the format of linear layers
  other_matmuls,    // FLOPs: head, router, adapters
  partial_tiles,    // of matmuls, beyond what their FLOPs take: tiles that do not fill the device
  matmul_bytes,     // results, and operands as far as computing does not hide them
  attention,        // FLOPs
  attention_tiles,  // beyond these
  attention_bytes,  // scores of eager attention; else keys, queries and values that nothing hides
  short_kernels,    // shorter than any kernel takes
  elements,         // bytes of element-wise kernels
  stragglers,       // what the slowest device's kernels take longer
  optimizer,        // bytes of states, gradients and weights; on the host s
  all_reduces,      // of tensor parallelism
  ring,             // of context parallelism, or its all-to-alls
  all_to_alls,      // of experts' tokens
  sends,            // between stages, of each micro-batch
  first_sends,      // likewise of the first micro-batch and the last
  gradients,
  weights,          // of ZeRO-1, gathered behind the optimizer
  sharded_weights,  // gathered for passes, and their gradients
  bubble,           // what the busiest stage waits for others
  launches,         // that the device waits for
  host_of_step,     // once
  samples
};

[[nodiscard]] constexpr const char* text(time_cause cause) {
  constexpr const char* names[] = {"linear layers",
                                   "other matmuls",
                                   "partly filled tiles",
                                   "operands and results of matmuls",
                                   "attention",
                                   "partly filled tiles of attention",
                                   "what attention moves",
                                   "short kernels",
                                   "element-wise kernels",
                                   "stragglers",
                                   "optimizer",
                                   "all-reduces of layers",
                                   "context-parallel exchange",
                                   "all-to-alls of tokens",
                                   "sends between stages",
                                   "first and last sends",
                                   "exchange of gradients",
                                   "gather of weights",
                                   "gathers and reductions of shards",
                                   "pipeline bubble",
                                   "launches",
                                   "host, once a step",
                                   "samples"};
  return names[static_cast<std::size_t>(cause)];
}

/// What `time_piece::amount` counts.
enum class amount_unit { flop, byte, second };

/// A piece of a step: `times` x (`amount` / `rate` + `calls` x `latency` - `hidden`).
struct time_piece {
  duration step_breakdown::*part = nullptr;  // of which it is
  time_cause cause{};
  time_resource bound_by{};
  amount_unit unit = amount_unit::second;
  double times = 1;  // micro-batches, or 1
  double amount = 0;
  double rate = 1;  // of the amount in a second
  double calls = 0;
  double latency = 0;  // s
  double hidden = 0;   // s beside other work, which is not in the step

  [[nodiscard]] constexpr duration time() const {
    return duration::from_value(times * (amount / rate + calls * latency - hidden));
  }
};

/// What the step takes less where something is better.
struct time_saving {
  time_resource of{};
  duration bound{};  // of the step, what it bounds
  duration saved{};
};

/// How many times as good `explain_time` takes each resource to be.
inline constexpr double a_little_better = 1.1;

/// The pieces of one step, which add up to its parts but for rounding (1e-12).
struct time_explanation {
  static constexpr std::size_t most_pieces = 3 * 10 + 15;  // of a pass, and others

  duration step{};
  step_breakdown parts{};
  std::int64_t stage = 0;  // the busiest one, whose pieces they are
  time_saving savings[time_resources]{};

  [[nodiscard]] constexpr std::span<const time_piece> pieces() const& { return {all, count}; }
  /// Not of a temporary: a loop over them would outlive it.
  std::span<const time_piece> pieces() const&& = delete;
  /// What bounds most of the step.
  [[nodiscard]] constexpr time_resource bound_by() const {
    time_resource most{};
    for (const time_saving& one : savings)
      if (one.bound > savings[static_cast<std::size_t>(most)].bound) most = one.of;
    return most;
  }

  time_piece all[most_pieces]{};
  std::size_t count = 0;
};

namespace detail {

// A composer on whose cluster one thing is so many times as good.
class improved_composer : public step_composer {
 public:
  constexpr improved_composer(const roofline_time& given,
                              const batch_plan& plan,
                              time_resource better,
                              double times)
      : step_composer(given) {
    switch (better) {
      case time_resource::matmuls:
        on_.linear *= times;
        on_.half *= times;
        on_.scalar *= times;
        break;
      case time_resource::attention:
        on_.attention_forward *= times;
        on_.attention_backward *= times;
        break;
      case time_resource::memory:
        on_.bytes *= times;
        on_.elements *= times;
        on_.functions *= times;  // which arithmetic bounds
        on_.sums *= times;
        on_.softmaxes *= times;
        on_.norms *= times;
        on_.rms_norms *= times;
        on_.norm_gradients *= times;
        on_.reorders *= times;
        break;
      case time_resource::kernel_floor:
        on_.floor /= times;
        break;
      case time_resource::link_inside_node:
        communication_.improve(times, 1, 1);
        break;
      case time_resource::link_between_nodes:
        communication_.improve(1, times, 1);
        break;
      case time_resource::communication_latency:
        communication_.improve(1, 1, times);
        break;
      default:
        break;  // not of device or links
    }
    communication_.plan = plan;
    tabulate_layers(plan.micro_batch);
  }
};

// Communication of one kind, of a micro-batch or of a step.
struct communication_sum {
  double bytes = 0;
  double calls = 0;
  double latency = 0;  // s of all calls
  double whole = 0;    // s, latency included
  double exposed = 0;
  double between = 0;  // of `whole`, what links between nodes bound
};

class step_explainer : step_composer {
 public:
  constexpr step_explainer(const roofline_time& given, const batch_plan& plan)
      : step_composer(given, plan),
        own_(kernel_rates_of(given.setup, given.on.gpu, given.efficiency, given.terms)) {}

  constexpr time_explanation explain() {
    const batch_plan& plan = communication_.plan;
    const parameter_counts held = parameters(setup_.trained_model(), layout_, {});
    const step_line step = line(held);
    found_.parts = step.at(plan.accumulation);
    found_.step = found_.parts.total();
    found_.stage = step.busy_stage;
    micro_batches_ = count(plan.accumulation);
    add_rank(step);
    add_pipeline(step);
    add_end(step, held);
    return found_;
  }

 private:
  struct pass_sum {
    pass_kernels kernels{};  // of a device that is as fast as others
    double elements = 0;
  };

  kernel_rates own_;
  time_explanation found_{};
  double micro_batches_ = 1;
  pass_sum forward_{}, backward_{}, again_{};
  communication_sum tensor_{}, context_{}, expert_{}, sharing_{}, reducing_{};
  double launches_ = 0, issued_ = 0, beside_ = 0;  // where the device waits for the host

  constexpr void add(const time_piece& piece) {
    if (piece.amount == 0 && piece.calls == 0) return;
    found_.all[found_.count++] = piece;
    found_.savings[static_cast<std::size_t>(piece.bound_by)].bound += piece.time();
  }
  constexpr void add(duration step_breakdown::*part,
                     time_cause cause,
                     double times,
                     const communication_sum& sum) {
    if (sum.whole == 0) return;
    const double moving = sum.whole - sum.latency;
    time_resource by = sum.between > sum.whole / 2 ? time_resource::link_between_nodes
                                                   : time_resource::link_inside_node;
    if (sum.latency > moving) by = time_resource::communication_latency;
    add({.part = part,
         .cause = cause,
         .bound_by = by,
         .unit = amount_unit::byte,
         .times = times,
         .amount = sum.bytes,
         .rate = moving > 0 ? sum.bytes / moving : infinity,
         .calls = sum.calls,
         .latency = sum.calls > 0 ? sum.latency / sum.calls : 0,
         .hidden = sum.whole - sum.exposed});
  }
  // `calls` collectives of `size` bytes each.
  constexpr double collect(communication_sum& to,
                           collective what,
                           double calls,
                           double size,
                           std::int64_t ranks,
                           std::int64_t stride) const {
    const double whole = calls * communication_.seconds(what, size, ranks, stride);
    if (whole == 0) return 0;
    to.bytes += calls * size;
    to.calls += calls;
    to.latency += calls * communication_.latency(what, size, ranks, stride);
    to.whole += whole;
    if (communication_.is_between_nodes(what, size, ranks, stride)) to.between += whole;
    return whole;
  }

  // ---- one micro-batch on the busiest stage

  constexpr void note(
      const pass_cost& pass, double times, bool in_decoder, bool crosses, double launch = 1) {
    const pass_time time = time_of(pass, in_decoder, crosses, launch);
    const std::int64_t tensor_ranks = layout_.tensor_parallel;
    const double stream = communication_.stream_bytes(in_decoder);
    if (terms_.tensor_communication && tensor_ranks > 1) {
      collect(tensor_, collective::all_reduce, times * pass.reductions, stream, tensor_ranks, 1);
      const double waits = times * exchanges_of(pass) * waiting();
      tensor_.latency += waits;
      tensor_.whole += waits;
      tensor_.exposed += times * time.tensor;
    }
    if (terms_.context_communication && layout_.context_parallel > 1) {
      const std::int64_t ranks = layout_.context_parallel;
      const double sends = count(ranks - 1);
      if (pass.passed_on != 0)
        collect(
            context_, collective::send, times * sends, pass.passed_on / sends, ranks, tensor_ranks);
      if (pass.exchanges != 0)
        collect(context_,
                collective::all_to_all,
                times * pass.exchanges,
                pass.exchanged / pass.exchanges,
                ranks,
                tensor_ranks);
      context_.exposed += times * time.context;
    }
    if (terms_.expert_communication && pass.routings != 0) {
      const std::int64_t parts = layout_.expert_tensor_parallel;
      collect(expert_,
              collective::all_to_all,
              times * pass.routings,
              communication_.routed_bytes(in_decoder),
              layout_.expert_parallel,
              parts);
      collect(expert_,
              collective::all_gather,
              times * pass.routings,
              communication_.gathered_bytes_of_parts(in_decoder),
              parts,
              1);
      expert_.exposed += times * time.expert;
    }
    if (time.host == 0) return;
    const double issued = pass.operators * launch * costs_.host_per_operator.value() +
                          host_of_exchanges(pass, crosses);
    launches_ += times * pass.operators;
    issued_ += times * issued;
    beside_ += times * (issued - time.host);
  }
  constexpr void note(const layer_cost& cost,
                      const layer_cost& own,
                      const layer_kernels& kernels,
                      double times,
                      bool in_decoder,
                      bool crosses) {
    note(cost.forward, times, in_decoder, crosses);
    note(cost.backward, times, in_decoder, crosses, costs_.host_of_backward);
    if (terms_.recompute) note(cost.again, times, in_decoder, crosses);
    const auto sum = [&](pass_sum& to, const pass_kernels& by, const pass_cost& pass) {
      to.kernels = to.kernels + times * by;
      to.elements += times * pass.elements;
    };
    sum(forward_, kernels.forward, own.forward);
    sum(backward_, kernels.backward, own.backward);
    if (terms_.recompute) sum(again_, kernels.again, own.again);
  }
  // Weights that are gathered for a pass, in `calls` parts, and gradients that are reduced after
  // it.
  constexpr void gather(double parameters, double calls) {
    if (!gathers_in_passes()) return;
    share(sharing_, calls, parameters * communication_.gathered_bytes());
    copy(sharing_, calls, parameters, communication_.held_bytes());
  }
  // Beside them, where weights are on the host.
  constexpr void copy(communication_sum& to, double calls, double parameters, double each) const {
    const double seconds = calls * host_copy_time(parameters, each);
    if (seconds == 0) return;
    to.whole += seconds;
    to.bytes += calls * parameters * each / count(communication_.sharing_ranks());
  }
  constexpr void scatter(double parameters, double calls) {
    communication_sum& to = reduces_once() ? reducing_ : sharing_;
    const double size = parameters * communication_.gradient_bytes();
    share(to, calls, size);
    copy(to, calls, parameters, communication_.gradient_bytes());
    const std::int64_t ranks = communication_.sharing_ranks();
    collect(to,
            collective::all_reduce,
            calls,
            size / count(ranks),
            communication_.replicas() / ranks,
            layout_.tensor_parallel * ranks);
  }
  constexpr void share(communication_sum& to, double calls, double size) const {
    const double links = collect(to,
                                 collective::all_gather,
                                 calls,
                                 size,
                                 communication_.sharing_ranks(),
                                 layout_.tensor_parallel);
    to.whole += calls * communication_.sharing_time(size) - links;
  }
  constexpr void gather_matrices(const shared_time& of, double times) {
    if (of.matrices != 0) gather(of.trained / of.matrices, times * of.matrices);
  }
  constexpr void scatter_trained(const shared_time& of, std::int64_t layers, double times) {
    const double pieces = of.matrices == 0 ? count(layers) : of.matrices;
    scatter(of.trained / pieces, times * pieces);
  }
  constexpr void share_of_end(const shared_time& end, double times) {
    if (!shares_in_passes()) return;
    gather(end.parameters, times);
    gather_matrices(end, times);
    scatter_trained(end, 1, times);
  }
  constexpr void share_of_layers(const shared_time& sum,
                                 const layer_mix& mix,
                                 bool is_below_head,
                                 double share) {
    const std::int64_t layers = mix.all;
    if (!shares_in_passes() || layers == 0) return;
    const double each = sum.parameters / count(layers);
    gather(each, share * count(layers));
    gather_matrices(sum, share);
    if (layout_.zero_stage == 3 && sum.time.backward > 0) {
      const bool first_is_there = costs_.hides_gathers && is_below_head;
      const double again = share * count(layers - (first_is_there ? 1 : 0));
      gather(each, again);
      const double recomputed = sum.time.recompute > 0 ? mix.share_again() : 0;
      gather_matrices(sum, again / count(layers) * (1 + recomputed));
    }
    scatter_trained(sum, layers, share);
  }

  constexpr void add_rank(const step_line& step) {
    visit_stages(step.busy_stage,
                 [&](std::int64_t stage, double share) { add_stage(stage, share); });
    sharing_.exposed = step.busy.parameter;
    reducing_.exposed = step.busy.reductions;

    add_pass(&step_breakdown::forward, forward_, own_.attention_forward);
    add_pass(&step_breakdown::backward, backward_, own_.attention_backward);
    add_pass(&step_breakdown::recompute, again_, own_.attention_forward);
    using parts = step_breakdown;
    add(&parts::tensor_communication, time_cause::all_reduces, micro_batches_, tensor_);
    add(&parts::context_communication, time_cause::ring, micro_batches_, context_);
    add(&parts::expert_communication, time_cause::all_to_alls, micro_batches_, expert_);
    add(&parts::parameter_communication, time_cause::sharded_weights, micro_batches_, sharing_);
    add(&parts::gradient_communication, time_cause::gradients, 1, reducing_);
    if (launches_ + issued_ > 0)
      add({.part = &parts::host,
           .cause = time_cause::launches,
           .bound_by = time_resource::host,
           .times = micro_batches_,
           .calls = launches_ > 0 ? launches_ : 1,
           .latency = issued_ / (launches_ > 0 ? launches_ : 1),
           .hidden = beside_});
  }
  // `share`: of the rank's micro-batches.
  constexpr void add_stage(std::int64_t stage, double share) {
    const std::int64_t stages = layout_.pipeline_parallel;
    const std::int64_t micro_batch = communication_.plan.micro_batch;
    const layer_mix mix = mix_of_stage(stage);
    const bool is_last = has_head(stage);
    const bool crosses =
        costs_.host_per_rank > duration{} && communication_.stages_cross_nodes(stages);
    shared_time sum;
    const auto add_layers =
        [&](layer_kind kind, bool windowed, bool before, bool kept, std::int64_t times) {
          sum.add(times, table_of(kind, windowed, before, kept, crosses));
          layer_kernels kernels;
          layer_cost cost = cost_of_layer(setup_, on_, micro_batch, kind, windowed, !before);
          layer_cost own =
              cost_of_layer(setup_, own_, micro_batch, kind, windowed, !before, &kernels);
          if (kept) {
            cost.again = own.again = {};
            kernels.again = {};
          }
          note(cost, own, kernels, share * count(times), kind == layer_kind::cross, crosses);
        };
    visit_layers(mix, add_layers);
    share_of_layers(sum, mix, is_last && terms_.ends, share);
    if (terms_.ends && stage == 0) {
      layer_kernels kernels;
      const layer_cost own = cost_of_input(setup_, own_, micro_batch, &kernels);
      note(cost_of_input(setup_, on_, micro_batch), own, kernels, share, false, false);
      share_of_end(input_, share);
    }
    if (terms_.ends && is_last) {
      layer_kernels kernels;
      const layer_cost own = cost_of_output(setup_, own_, micro_batch, &kernels);
      const double times = share * count(1 + setup_.trained_mtp_layers());
      note(cost_of_output(setup_, on_, micro_batch), own, kernels, times, true, false);
      share_of_end(output_, times);
    }
  }

  constexpr void add_pass(duration step_breakdown::*part, const pass_sum& sum, double fused) {
    const attention_kernel by_kernel = setup_.chosen_attention();
    const bool is_eager =
        by_kernel == attention_kernel::eager || by_kernel == attention_kernel::math;
    const double of_attention = is_eager ? own_.half : fused;
    const pass_kernels& by = sum.kernels;
    const auto piece = [&](time_cause cause,
                           time_resource resource,
                           amount_unit unit,
                           double amount,
                           double rate) {
      add({.part = part,
           .cause = cause,
           .bound_by = resource,
           .unit = unit,
           .times = micro_batches_,
           .amount = amount,
           .rate = rate});
    };
    using enum time_cause;
    const time_resource scores = is_eager ? time_resource::matmuls : time_resource::attention;
    piece(linear_layers, time_resource::matmuls, amount_unit::flop, by.linear.flops, own_.linear);
    piece(other_matmuls, time_resource::matmuls, amount_unit::flop, by.others.flops, own_.half);
    piece(partial_tiles,
          time_resource::matmuls,
          amount_unit::second,
          by.linear.tiles + by.others.tiles,
          1);
    piece(matmul_bytes,
          time_resource::memory,
          amount_unit::byte,
          by.linear.bytes + by.others.bytes,
          own_.bytes);
    piece(attention, scores, amount_unit::flop, by.attention.flops, of_attention);
    piece(attention_tiles, scores, amount_unit::second, by.attention.tiles, 1);
    piece(attention_bytes,
          time_resource::memory,
          amount_unit::byte,
          by.attention.bytes + by.score_bytes,
          own_.bytes);
    piece(short_kernels,
          time_resource::kernel_floor,
          amount_unit::second,
          by.linear.floor + by.others.floor + by.attention.floor,
          1);
    piece(elements, time_resource::memory, amount_unit::byte, sum.elements, own_.elements);
    if (given_.straggler_slowdown == 1) return;
    piece(time_cause::stragglers,
          time_resource::stragglers,
          amount_unit::second,
          by.linear.seconds(own_.linear, own_.bytes) + by.others.seconds(own_.half, own_.bytes) +
              by.attention.seconds(of_attention, own_.bytes) + by.score_bytes / own_.bytes +
              sum.elements / own_.elements,
          1 / (given_.straggler_slowdown - 1));
  }

  // ---- once a step

  constexpr void add_pipeline(const step_line& step) {
    if (layout_.pipeline_parallel == 1) return;
    const double waits = step.work.waits(communication_.plan.accumulation);
    const double exposed = smaller_of(waits, step.exposed_point_to_point);
    if (terms_.pipeline_communication) {
      const auto sends = [&](double calls, double stalled, double left) {
        communication_sum sum;
        collect(sum,
                collective::send,
                calls,
                communication_.point_to_point_bytes(),
                2,
                communication_.ranks_of_stage());
        sum.latency += stalled;
        sum.whole += stalled;
        sum.exposed = left;
        return sum;
      };
      const double chunks = count(layout_.virtual_pipeline);
      const bool is_end = step.busy_stage == 0 || step.busy_stage == layout_.pipeline_parallel - 1;
      const double stalled = 2 * chunks * (is_end ? 1 : 2) * stalled_send();
      add(&step_breakdown::pipeline_communication,
          time_cause::sends,
          micro_batches_,
          sends(2 * chunks, stalled, step.point_to_point));
      add(&step_breakdown::pipeline_communication,
          time_cause::first_sends,
          1,
          sends(2 * count(layout_.pipeline_parallel - 1), 0, step.hidden_point_to_point + exposed));
    }
    const double own = micro_batches_ * step.work.busiest;
    if (waits > 0)
      add({.part = &step_breakdown::bubble,
           .cause = time_cause::bubble,
           .bound_by = time_resource::stages,
           .amount = own + waits,
           .hidden = own + exposed});
  }

  // A collective of all that a rank holds, in buckets or at once.
  constexpr communication_sum of_all(collective what,
                                     const parameter_counts& held,
                                     double each,
                                     bool in_buckets,
                                     double exposed) const {
    communication_sum sum;
    const auto part = [&](double calls, double share) {
      const double experts = count(held.experts) * share;
      const double others = count(held.total()) * share - experts;
      collect(sum, what, calls, others * each, communication_.replicas(), layout_.tensor_parallel);
      collect(sum,
              what,
              calls,
              experts * each,
              communication_.expert_replicas(),
              ranks_of_experts(layout_));
    };
    if (in_buckets) {
      const auto [buckets, share, last] = communication_.buckets_of(held, each);
      part(buckets - 1, share);
      part(1, last);
    } else {
      part(1, 1);
    }
    sum.exposed = exposed;
    return sum;
  }
  constexpr void add_end(const step_line& step, const parameter_counts& held_here) {
    const parameter_counts held = trained_of(held_here);
    const int stage = layout_.zero_stage;
    if (held.total() != 0 && terms_.gradient_communication && (stage < 2 || shares_once()))
      add(&step_breakdown::gradient_communication,
          time_cause::gradients,
          1,
          of_all(stage == 0 ? collective::all_reduce : collective::reduce_scatter,
                 held,
                 communication_.gradient_bytes(),
                 costs_.hides_gradients && !shares_once(),
                 step.gradients));
    if (held.total() != 0 && terms_.parameter_communication && stage != 0 && !gathers_in_passes())
      add(&step_breakdown::parameter_communication,
          time_cause::weights,
          1,
          of_all(collective::all_gather,
                 held,
                 bytes_of_updated(),
                 costs_.hides_parameters,
                 step.parameters));
    const double multiplied = step.optimizer_flops / on_.half;
    const double moved = (step.optimizer - factors_.optimizer * multiplied) * on_.elements;
    const bool on_host = layout_.optimizer_on_host;
    if (step.optimizer > 0 && on_host)
      add({.part = &step_breakdown::optimizer,
           .cause = time_cause::optimizer,
           .bound_by = time_resource::host,
           .amount = step.optimizer});
    if (step.optimizer > 0 && !on_host)
      add({.part = &step_breakdown::optimizer,
           .cause = time_cause::optimizer,
           .bound_by = time_resource::memory,
           .unit = amount_unit::byte,
           .amount = moved,
           .rate = own_.elements});
    if (multiplied > 0)
      add({.part = &step_breakdown::optimizer,
           .cause = time_cause::optimizer,
           .bound_by = time_resource::matmuls,
           .unit = amount_unit::flop,
           .amount = factors_.optimizer * step.optimizer_flops,
           .rate = own_.half});
    if (step.optimizer > 0 && !on_host && given_.straggler_slowdown != 1)
      add({.part = &step_breakdown::optimizer,
           .cause = time_cause::stragglers,
           .bound_by = time_resource::stragglers,
           .amount = moved / own_.elements + factors_.optimizer * step.optimizer_flops / own_.half,
           .rate = 1 / (given_.straggler_slowdown - 1)});
    if (step.host > 0)
      add({.part = &step_breakdown::host,
           .cause = time_cause::host_of_step,
           .bound_by = time_resource::host,
           .amount = step.host});
    if (step.loading.each == 0) return;
    const double loaded = micro_batches_ * step.loading.each;
    add({.part = &step_breakdown::data,
         .cause = time_cause::samples,
         .bound_by = time_resource::loader,
         .times = micro_batches_,
         .amount = step.loading.each,
         .hidden = (loaded - found_.parts.data.value()) / micro_batches_});
  }
};

}  // namespace detail

/// The step where one thing alone is `times` as good: a rate so many times as high; a latency, a
/// kernel's least time, what the host takes or what stragglers take more so many times shorter.
/// Better stages there are none: the step itself. Preconditions: those of `roofline_time`; `times`
/// is finite and above 0.
[[nodiscard]] constexpr duration step_with(const roofline_time& model,
                                           const batch_plan& plan,
                                           time_resource better,
                                           double times) {
  roofline_time with = model;
  software_costs& costs = with.setup.framework.costs;
  if (better == time_resource::host)
    for (duration* const cost : {&costs.host_per_operator,
                                 &costs.host_per_collective,
                                 &costs.host_per_rank,
                                 &costs.host_per_step})
      *cost = *cost / times;
  if (better == time_resource::communication_latency)
    for (duration* const wait : {&costs.wait_per_node, &costs.stalled_send}) *wait = *wait / times;
  if (better == time_resource::stragglers)
    with.straggler_slowdown = 1 + (model.straggler_slowdown - 1) / times;
  if (better == time_resource::loader && with.loader)
    with.loader = sample_loader{
        with.loader->per_sample, with.loader->per_node * times, with.loader->prefetches};
  return detail::improved_composer(with, plan, better, times).line().at(plan.accumulation).total();
}

/// Why a step takes as long as it does: what each part is made of, what bounds it, and what a
/// device whose matmuls, attention or memory, a link, a host or a loader that is `a_little_better`
/// would save, each alone and by the same model. Exact for what the model says, on the busiest
/// stage; pieces are of kernels and collectives added up, not one by one. Preconditions: those of
/// `roofline_time`.
[[nodiscard]] constexpr time_explanation explain_time(const roofline_time& model,
                                                      const batch_plan& plan) {
  time_explanation found = detail::step_explainer(model, plan).explain();
  for (std::size_t at = 0; at < time_resources; ++at) {
    time_saving& one = found.savings[at];
    one.of = static_cast<time_resource>(at);
    if (one.of != time_resource::stages)
      one.saved = found.step - step_with(model, plan, one.of, a_little_better);
  }
  return found;
}

}  // namespace gpuplan
