#pragma once

// The time of a step from what is trained, how, and on what: kernels by roofline, communication by
// link, and how they follow each other.

#include <gpuplan/batch.hpp>
#include <gpuplan/cluster.hpp>
#include <gpuplan/communication.hpp>
#include <gpuplan/device_efficiency.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/measured_device.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/time/kernels.hpp>
#include <gpuplan/time/layers.hpp>
#include <gpuplan/time/optimizer.hpp>
#include <gpuplan/time/rates.hpp>
#include <gpuplan/time/step_breakdown.hpp>
#include <gpuplan/time_model.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>

namespace gpuplan {

/// Where the ceilings of a step's time come from.
struct ceiling_origins {
  ceiling_origin products = ceiling_origin::data_sheet;
  ceiling_origin memory = ceiling_origin::data_sheet;
  known<ceiling_origin> inside_node{};  // absent: no link is known
};

/// The time of a step by roofline.
struct roofline_time {
  training_setup setup{};
  cluster on{};
  device_efficiency efficiency{};
  time_terms terms{};

  /// Precondition: `validate` accepts this, and the plan.
  [[nodiscard]] constexpr step_breakdown breakdown(const batch_plan& plan) const;
  [[nodiscard]] constexpr duration step(const batch_plan& plan) const {
    return breakdown(plan).total();
  }
  /// Precondition: `validate` accepts this.
  [[nodiscard]] constexpr ceiling_origins origins() const {
    const number_format format = setup.precision.fp4_linears   ? number_format::fp4
                                 : setup.precision.fp8_linears ? number_format::fp8
                                                               : setup.precision.compute;
    ceiling_origins from{.products = matmul_ceiling(on.gpu, format)->origin,
                         .memory = memory_ceiling(on.gpu).origin};
    if (const auto link = inside_node_ceiling(on)) from.inside_node = link->origin;
    return from;
  }
};

namespace detail {

// What of a device and its links has to be known, and is not.
constexpr failure flaw_of_ceilings(const precision_recipe& precision, const cluster& on) {
  if (const auto rate = peak(on.gpu, precision.compute); !rate) return rate.why();
  if (precision.fp8_linears)
    if (const auto rate = peak(on.gpu, number_format::fp8); !rate) return rate.why();
  if (precision.fp4_linears)
    if (const auto rate = peak(on.gpu, number_format::fp4); !rate) return rate.why();
  if (total_gpus(on) == 1) return {};
  if (const auto links = interconnect_of(on); !links) return links.why();
  if (on.nodes == 1) return {};
  const auto link = link_between_nodes(on);
  return link ? failure() : link.why();
}

}  // namespace detail

/// The model itself where its shape, division and cluster are valid, the device has a peak for the
/// setup's formats, and the cluster's links are known where it has several devices or nodes. What
/// the framework has code for is no matter of time. Errors: those of the model, the division and
/// the cluster; `unsupported_format`, `not_known`.
[[nodiscard]] constexpr result<roofline_time> validate(const roofline_time& model) {
  if (const auto valid = validate(model.setup.model); !valid) return valid.why();
  if (const auto valid = validate(model.setup.parallelism); !valid) return valid.why();
  if (const auto valid = validate(model.on); !valid) return valid.why();
  const failure why = detail::flaw_of_ceilings(model.setup.precision, model.on);
  if (detail::failed(why)) return why;
  return model;
}

namespace detail {

// How much longer parts of a step take than the roofline says: what `composed_time` finds.
struct part_factors {
  double layer = 1;
  double input = 1;
  double output = 1;
  double hop = 1;
  double gradients = 1;
  double optimizer = 1;
};

// A step's time as a straight line of its micro-batches, in seconds.
struct step_line {
  micro_batch_time busy{};  // of one on the slowest stage
  double hops = 0;          // likewise
  // of the step
  double hops_of_one = 0;
  double bubble = 0;
  double gradients = 0;
  double parameters = 0;
  double optimizer = 0;
  double host = 0;

  [[nodiscard]] constexpr double of_each() const { return busy.total() + hops; }
  [[nodiscard]] constexpr double of_step() const {
    return hops_of_one + bubble + gradients + parameters + optimizer + host;
  }
  [[nodiscard]] constexpr step_breakdown at(std::int64_t micro_batches) const {
    const auto each = static_cast<double>(micro_batches);
    const auto seconds = [](double value) { return duration::from_value(value); };
    return {.forward = seconds(each * busy.forward),
            .backward = seconds(each * busy.backward),
            .recompute = seconds(each * busy.recompute),
            .tensor_exchange = seconds(each * busy.tensor),
            .context_exchange = seconds(each * busy.context),
            .expert_exchange = seconds(each * busy.expert),
            .pipeline_exchange = seconds(each * hops + hops_of_one),
            .gradient_exchange = seconds(gradients),
            .parameter_exchange = seconds(each * busy.parameter + parameters),
            .bubble = seconds(bubble),
            .optimizer = seconds(optimizer),
            .host = seconds(each * busy.host + host)};
  }
};

// A setup on a cluster, with what follows from both worked out once. The time of a layer follows
// from the micro-batch, the tensor, context and expert degrees and what is recomputed:
// `tabulate_layers` works it out. That of a stage is a sum of layers, and that of the step a sum of
// stages: `line` adds them up for the setup's division as it is then, which a planner changes.
class step_composer {
 public:
  constexpr step_composer(const roofline_time& given, const part_factors& factors = {})
      : factors_(factors),
        setup_(given.setup),
        terms_(given.terms),
        division_(given.setup.parallelism),
        costs_(given.setup.framework.costs),
        on_(kernel_rates_of(given.setup, given.on.gpu, given.efficiency, given.terms)),
        links_(links_of(given)),
        devices_per_node_(given.on.gpus_per_node) {}
  constexpr step_composer(const roofline_time& given,
                          const batch_plan& plan,
                          const part_factors& factors = {})
      : step_composer(given, factors) {
    tabulate_layers(plan.micro_batch);
    plan_ = plan;
  }

  constexpr step_breakdown compose() const {
    return line(parameters(setup_.model, division_, {})).at(plan_.accumulation);
  }

  // `held`: the parameters of the division's first rank.
  constexpr step_line line(const parameter_counts& held) const {
    const std::int64_t stages = division_.pipeline_parallel;
    micro_batch_time slowest;
    double all = 0;
    std::int64_t first = 0;
    for (std::int64_t stage = 0; stage < stages;) {
      const std::int64_t last = first + layers_of_stage(division_, setup_.model.layers(), stage);
      const std::int64_t alike = stages_alike(stage, last - first);
      const micro_batch_time here = of_stage(first, last, stage == 0, stage == stages - 1);
      const double total = here.total();
      all += count(alike) * total;
      if (total >= slowest.total()) slowest = here;
      first += alike * (last - first);
      stage += alike;
    }
    const double chunks = count(division_.virtual_pipeline);
    const double hop = stages > 1 && terms_.pipeline_exchange ? factors_.hop * hop_time() : 0;
    const end_of_step end = end_of(slowest, held);
    return {.busy = slowest,
            // Each micro-batch waits for two, the first one for all of them on its way and back.
            .hops = 2 * hop * chunks * (1 - costs_.hidden_pipeline_exchange),
            .hops_of_one = 2 * hop * count(stages - 1),
            .bubble = terms_.bubble ? (all - slowest.total()) / chunks : 0,
            .gradients = factors_.gradients * end.gradients,
            .parameters = end.parameters,
            .optimizer = factors_.optimizer * end.optimizer,
            .host = terms_.host ? costs_.host_per_step.value() : 0};
  }

  constexpr void tabulate_layers(std::int64_t micro_batch) {
    const transformer& model = setup_.model;
    plan_.micro_batch = micro_batch;
    recomputed_share_ = 1;
    if (setup_.recompute == recompute_mode::full) {
      const double layers = count(model.layers()) / count(division_.pipeline_parallel);
      const double first = count(setup_.recompute_layers);
      recomputed_share_ =
          (first > 0 ? smaller_of(1, first / layers) : 1) / count(setup_.recompute_period);
    }
    layer_counts all = layers_between(model, 0, model.layers());
    all.add(mtp_layer_kind(model), model.mtp_layers);
    layers_are_alike_ = true;
    tabulate(layer_kind::dense, all.dense);
    tabulate(layer_kind::experts, all.experts);
    tabulate(layer_kind::cross, all.cross);
    if (!terms_.ends) return;
    const double matrix =
        count(model.token_width()) * count(model.vocab_size) / count(division_.tensor_parallel);
    input_ = time_of(cost_of_input(setup_, on_, micro_batch), 0);
    output_ = time_of(cost_of_output(setup_, on_, micro_batch), matrix);
  }
  constexpr void set_data_parallel(std::int64_t ranks) { plan_.data_parallel = ranks; }

  // One micro-batch on all stages one after another, whatever their number.
  constexpr double of_all_stages() const {
    return of_stage(0, setup_.model.layers(), true, true).total();
  }

  // Likewise on the busiest stage.
  constexpr double of_busiest_stage() const {
    const std::int64_t stages = division_.pipeline_parallel;
    double most = 0;
    std::int64_t first = 0;
    for (std::int64_t stage = 0; stage < stages;) {
      const std::int64_t last = first + layers_of_stage(division_, setup_.model.layers(), stage);
      const std::int64_t alike = stages_alike(stage, last - first);
      most = larger_of(most, of_stage(first, last, stage == 0, stage == stages - 1).total());
      first += alike * (last - first);
      stage += alike;
    }
    return most;
  }

  // Of one micro-batch.
  constexpr micro_batch_time of_input() const { return shared(input_); }
  constexpr micro_batch_time of_output() const { return shared(output_); }
  // The model's last layer.
  constexpr micro_batch_time of_layer() const {
    return of_layers(setup_.model.kind == model_kind::encoder_decoder
                         ? layer_kind::cross
                         : mtp_layer_kind(setup_.model),
                     1,
                     0);
  }
  // Of one send between stages.
  constexpr double of_hop() const { return hop_time(); }

 private:
  struct end_of_step {
    double gradients = 0, parameters = 0, optimizer = 0;
  };
  // One pass: kernels, what of its exchanges is exposed, and what the host adds.
  struct pass_time {
    double kernels = 0, tensor = 0, context = 0, expert = 0, host = 0;
    constexpr double total() const { return kernels + tensor + context + expert + host; }
  };
  // One micro-batch through something, and what its ranks' sharing of weights asks.
  struct shared_time {
    micro_batch_time time{};  // without it
    double backward = 0;      // of it, with what is recomputed
    double parameters = 0;    // that are shared and gathered for the passes
  };

  part_factors factors_;
  const training_setup& setup_;
  const time_terms& terms_;
  const parallelism& division_;
  const software_costs& costs_;
  batch_plan plan_;
  kernel_rates on_;
  interconnect_numbers links_;
  std::int64_t devices_per_node_;
  double recomputed_share_ = 1;  // of a stage's layers
  bool layers_are_alike_ = true;
  shared_time layers_[3][2]{};  // by kind, without a window and with one
  shared_time input_{};
  shared_time output_{};

  static constexpr double count(std::int64_t value) { return static_cast<double>(value); }
  static constexpr interconnect_numbers links_of(const roofline_time& given) {
    const auto links = interconnect_of(given.on);
    if (!links) return {};  // of a device alone
    interconnect_numbers numbers = numbers_of(*links);
    if (given.terms.latency) return numbers;
    numbers.launch = 0;
    for (link_numbers* link : {&numbers.inside, &numbers.between}) link->hop = link->ramp = 0;
    return numbers;
  }

  constexpr double element_bytes() const { return is_half(setup_.precision.compute) ? 2 : 4; }
  // The result of a sublayer.
  constexpr double stream_bytes() const {
    const double tokens = count(plan_.micro_batch) * count(setup_.sequence_length) /
                          count(division_.context_parallel);
    return tokens * count(setup_.model.hidden_size) * element_bytes();
  }
  constexpr std::int64_t replicas() const {
    return plan_.data_parallel * division_.context_parallel;
  }
  constexpr std::int64_t sharing_ranks() const {
    return division_.shard_group != 0 ? division_.shard_group : replicas();
  }
  // Of one expert: experts lie within tensor, context and data parallelism.
  constexpr std::int64_t expert_replicas() const {
    const std::int64_t ranks = replicas() * division_.tensor_parallel / division_.expert_parallel;
    return ranks < 1 ? 1 : ranks;
  }

  // One exchange among ranks of which each is `stride` ranks after the one before.
  constexpr double exchange_time(collective what,
                                 double size,
                                 std::int64_t ranks,
                                 std::int64_t stride) const {
    if (ranks <= 1 || size <= 0) return 0;
    const device_group group = group_of(ranks, stride, devices_per_node_);
    return exchange_of(what, links_, {group.ranks, group.per_node}).seconds(size);
  }
  // To gather what ranks share, or to add it up in shares.
  constexpr double sharing_time(double size) const {
    const std::int64_t ranks = sharing_ranks();
    const double time =
        exchange_time(collective::all_gather, size, ranks, division_.tensor_parallel);
    const double most = costs_.gathered_at_most.value();
    return most > 0 ? larger_of(time, size * count(ranks - 1) / count(ranks) / most) : time;
  }
  // Megatron's ranks send each a part of the stream, and gather it where it arrives; DeepSpeed's
  // send all of it.
  constexpr double hop_time() const {
    const std::int64_t ranks_between =
        division_.tensor_parallel * division_.context_parallel * plan_.data_parallel;
    const bool scatters = setup_.framework.sharding != sharding_code::deepspeed;
    const double parts = scatters ? count(division_.tensor_parallel) : 1;
    return exchange_time(collective::send, stream_bytes() / parts, 2, ranks_between);
  }
  // How much longer `work` takes with communication beside it.
  constexpr double waits(double work, double communication) const {
    const double contention = terms_.contention ? costs_.contention : 0;
    return larger_of(0, communication - work) + contention * smaller_of(work, communication);
  }

  constexpr pass_time time_of(const pass_cost& pass) const {
    pass_time time{.kernels = pass.kernels(on_)};
    const std::int64_t tensor_ranks = division_.tensor_parallel;
    if (terms_.tensor_exchange)
      time.tensor = pass.reductions * (1 - costs_.hidden_tensor_exchange) *
                    exchange_time(collective::all_reduce, stream_bytes(), tensor_ranks, 1);
    if (const std::int64_t ranks = division_.context_parallel;
        ranks > 1 && terms_.context_exchange) {
      const double each = pass.passed_on / count(ranks - 1);
      const double ring =
          count(ranks - 1) * exchange_time(collective::send, each, ranks, tensor_ranks);
      time.context = larger_of(0, ring - pass.attention);
    }
    if (terms_.expert_exchange) {
      const double sent =
          stream_bytes() / count(tensor_ranks) * count(setup_.model.moe.num_experts_per_tok);
      time.expert = pass.routings * (1 - costs_.hidden_expert_exchange) *
                    exchange_time(collective::all_to_all, sent, division_.expert_parallel, 1);
    }
    if (terms_.host)
      time.host = larger_of(0, pass.operators * costs_.host_per_operator.value() - time.total());
    return time;
  }

  constexpr shared_time time_of(const layer_cost& cost, double parameters) const {
    const pass_time forward = time_of(cost.forward);
    const pass_time backward = time_of(cost.backward);
    const pass_time again = terms_.recompute ? time_of(cost.again) : pass_time{};
    return {.time = {.forward = forward.kernels,
                     .backward = backward.kernels,
                     .recompute = again.kernels,
                     .tensor = forward.tensor + backward.tensor + again.tensor,
                     .context = forward.context + backward.context + again.context,
                     .expert = forward.expert + backward.expert + again.expert,
                     .host = forward.host + backward.host + again.host,
                     .forward_pass = forward.total()},
            .backward = backward.total() + again.total(),
            .parameters = parameters};
  }
  constexpr micro_batch_time shared(const shared_time& of) const {
    if (division_.zero_stage < 2 || !terms_.parameter_exchange) return of.time;
    micro_batch_time time = of.time;
    const double gather =
        division_.zero_stage == 3 ? sharing_time(of.parameters * element_bytes()) : 0;
    const double scatter = sharing_time(of.parameters * gradient_bytes());
    const double before = costs_.hides_gathers ? waits(time.forward_pass, gather) : gather;
    time.parameter =
        before + (costs_.hides_gathers ? waits(of.backward, gather + scatter) : gather + scatter);
    time.forward_pass += before;
    return time;
  }
  // Of a gradient's element on its way.
  constexpr double gradient_bytes() const {
    const precision_recipe& recipe = setup_.precision;
    if (recipe.fp32_gradients) return 4;
    return bits_per_element(division_.zero_stage >= 2 ? recipe.reduced : recipe.weights) / 8.0;
  }

  constexpr void tabulate(layer_kind kind, std::int64_t layers) {
    if (layers == 0) return;
    const transformer& model = setup_.model;
    const parameter_counts each = layer_parameters(model, kind);
    const double parameters =
        count(each.total() - each.experts) / count(division_.tensor_parallel) +
        count(each.experts) / count(division_.expert_parallel);
    const std::int64_t windowed =
        kind == layer_kind::cross ? 0 : model.windowed_layers_before(model.layers());
    layers_are_alike_ = layers_are_alike_ && layers == model.layers() + model.mtp_layers &&
                        (windowed == 0 || windowed == model.layers());
    for (const bool has_window : {false, true}) {
      if (has_window && windowed == 0) continue;
      layer_cost cost = cost_of_layer(setup_, on_, plan_.micro_batch, kind, has_window);
      cost.again = recomputed_share_ * cost.again;
      layers_[static_cast<int>(kind)][has_window ? 1 : 0] = time_of(cost, parameters);
    }
  }
  constexpr micro_batch_time of_layers(layer_kind kind,
                                       std::int64_t all,
                                       std::int64_t windowed) const {
    micro_batch_time time;
    const shared_time* const each = layers_[static_cast<int>(kind)];
    if (all != windowed) time = count(all - windowed) * shared(each[0]);
    if (windowed != 0) time = time + count(windowed) * shared(each[1]);
    return time;
  }

  // How many stages from this one on, the last one apart, have as many layers, all alike.
  constexpr std::int64_t stages_alike(std::int64_t stage, std::int64_t layers) const {
    const std::int64_t last = division_.pipeline_parallel - 1;
    if (stage == 0 || stage == last || !layers_are_alike_) return 1;
    std::int64_t end = stage + 1;
    while (end < last && layers_of_stage(division_, setup_.model.layers(), end) == layers) ++end;
    return end - stage;
  }

  constexpr micro_batch_time of_stage(std::int64_t first,
                                      std::int64_t last,
                                      bool is_first,
                                      bool is_last) const {
    const transformer& model = setup_.model;
    layer_counts layers = layers_between(model, first, last);
    if (is_last) layers.add(mtp_layer_kind(model), model.mtp_layers);
    // Windows are dealt to the kinds of layers in proportion.
    const std::int64_t windowed =
        model.windowed_layers_before(last) - model.windowed_layers_before(first);
    const std::int64_t of_experts =
        layers.experts == 0 ? 0 : windowed * layers.experts / (layers.dense + layers.experts);
    micro_batch_time time = of_layers(layer_kind::dense, layers.dense, windowed - of_experts);
    if (layers.experts != 0)
      time = time + of_layers(layer_kind::experts, layers.experts, of_experts);
    if (layers.cross != 0) time = time + of_layers(layer_kind::cross, layers.cross, 0);
    time = factors_.layer * time;
    if (!terms_.ends) return time;
    if (is_first) time = time + factors_.input * shared(input_);
    if (!is_last) return time;
    return time + factors_.output * (count(1 + model.mtp_layers) * shared(output_));
  }

  constexpr end_of_step end_of(const micro_batch_time& slowest,
                               const parameter_counts& held) const {
    const double experts = count(held.experts);
    const double others = count(held.total()) - experts;
    const auto exchange = [&](collective what, double each) {
      return exchange_time(what, others * each, replicas(), division_.tensor_parallel) +
             exchange_time(what, experts * each, expert_replicas(), division_.expert_parallel);
    };
    end_of_step end{};
    const int stage = division_.zero_stage;
    if (terms_.gradient_exchange && stage < 2) {
      const double time = exchange(stage == 0 ? collective::all_reduce : collective::reduce_scatter,
                                   gradient_bytes());
      end.gradients =
          costs_.hides_gradients ? waits(slowest.total() - slowest.forward_pass, time) : time;
    }
    if (terms_.parameter_exchange && (stage == 1 || stage == 2)) {
      const double time =
          exchange(collective::all_gather, bits_per_element(setup_.precision.weights) / 8.0);
      end.parameters = costs_.hides_parameters ? waits(slowest.forward_pass, time) : time;
    }
    if (terms_.optimizer) {
      const double updated =
          stage == 0 ? others + experts
                     : others / count(sharing_ranks()) + experts / count(expert_replicas());
      end.optimizer = updated * optimizer_bytes(setup_) / on_.elements;
    }
    return end;
  }
};

}  // namespace detail

constexpr step_breakdown roofline_time::breakdown(const batch_plan& plan) const {
  return detail::step_composer(*this, plan).compose();
}

static_assert(time_model<roofline_time>);

}  // namespace gpuplan
