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
#include <gpuplan/time/step_breakdown.hpp>
#include <gpuplan/time_model.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>

namespace gpuplan {

/// The terms of the model: each can be switched off, to see what it is worth.
struct time_terms {
  bool waves = true;          // tiles of products come in whole waves over the SMs
  bool alignment = true;      // odd dimensions slow products down
  bool product_bytes = true;  // products take at least as long as their operands to move
  bool elements = true;       // element-wise kernels
  bool attention = true;
  bool ends = true;     // embedding, head and loss
  bool host = true;     // launches by the host
  bool latency = true;  // of communication, and its small messages
  bool tensor_exchange = true;
  bool context_exchange = true;
  bool expert_exchange = true;
  bool pipeline_exchange = true;
  bool gradient_exchange = true;
  bool parameter_exchange = true;
  bool contention = true;  // of communication with kernels
  bool recompute = true;
  bool bubble = true;
  bool optimizer = true;
};

/// One micro-batch on one stage, or through one layer, in seconds: what `step_breakdown` sums up.
struct micro_batch_time {
  double forward = 0;
  double backward = 0;
  double recompute = 0;
  double tensor = 0;
  double context = 0;
  double expert = 0;
  double parameter = 0;     // waiting for weights that ranks share, and for their gradients
  double host = 0;          // waiting for launches
  double forward_pass = 0;  // of all these, what the forward pass takes

  [[nodiscard]] constexpr double total() const {
    return forward + backward + recompute + tensor + context + expert + parameter + host;
  }
};

[[nodiscard]] constexpr micro_batch_time operator+(const micro_batch_time& a,
                                                   const micro_batch_time& b) {
  return {.forward = a.forward + b.forward,
          .backward = a.backward + b.backward,
          .recompute = a.recompute + b.recompute,
          .tensor = a.tensor + b.tensor,
          .context = a.context + b.context,
          .expert = a.expert + b.expert,
          .parameter = a.parameter + b.parameter,
          .host = a.host + b.host,
          .forward_pass = a.forward_pass + b.forward_pass};
}

[[nodiscard]] constexpr micro_batch_time operator*(double count, const micro_batch_time& a) {
  return {.forward = count * a.forward,
          .backward = count * a.backward,
          .recompute = count * a.recompute,
          .tensor = count * a.tensor,
          .context = count * a.context,
          .expert = count * a.expert,
          .parameter = count * a.parameter,
          .host = count * a.host,
          .forward_pass = count * a.forward_pass};
}

/// The rates of a cluster's device for a setup: what was measured of the device, and else peaks of
/// its formats times the shares reached. Attention is not measured apart.
/// Precondition: the device has a peak for the format of products.
[[nodiscard]] constexpr kernel_rates kernel_rates_of(const training_setup& setup,
                                                     const gpu_spec& gpu,
                                                     const device_efficiency& reached,
                                                     const time_terms& terms = {}) {
  const double clock = gpu.tdp ? clock_share(reached, *gpu.tdp) : 1;
  const auto products = [&](number_format format, double share) {
    const ceiling<compute_rate> most = *matmul_ceiling(gpu, format);
    const bool is_reached = most.origin == ceiling_origin::measured;
    return most.value.value() * (is_reached ? 1 : clock * share) *
           setup.framework.costs.product_rate;
  };
  kernel_rates rates;
  rates.half = products(setup.precision.compute, reached.products);
  rates.linear = rates.half;
  rates.linear_bytes = detail::is_half(setup.precision.compute) ? 2 : 4;
  if (setup.precision.fp8_linears) {
    rates.linear = products(number_format::fp8, reached.products_fp8);
    if (setup.precision.scales_by_row)
      rates.linear *= reached.products_fp8_by_row / reached.products_fp8;
    rates.linear_bytes = 1;
  }
  if (setup.precision.fp4_linears) {
    rates.linear = products(number_format::fp4, reached.products_fp4);
    rates.linear_bytes = 0.5;
  }
  const bool attends = terms.attention;
  const double half =
      peak(gpu, setup.precision.compute)->value() * clock * setup.framework.costs.product_rate;
  rates.attention_forward = attends ? half * reached.attention_forward : detail::infinity;
  rates.attention_backward = attends ? half * reached.attention_backward : detail::infinity;
  const ceiling<bandwidth> memory = memory_ceiling(gpu);
  const double moved =
      memory.value.value() * (memory.origin == ceiling_origin::measured ? 1 : reached.memory);
  rates.bytes = terms.product_bytes ? moved : detail::infinity;
  rates.elements = terms.elements ? moved : detail::infinity;
  rates.sms = gpu.sm_count;
  const auto kernel = launch_latency(gpu, launch_cost::kernel);
  rates.floor = (kernel ? kernel->value : reached.kernel_floor).value();
  rates.odd = terms.alignment ? reached.odd_products : 1;
  rates.unaligned = terms.alignment ? reached.unaligned_products : 1;
  rates.in_waves = terms.waves;
  return rates;
}

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

  /// Preconditions: `validate` accepts the model, its division and the plan; the device's peaks and
  /// the links that the division needs are known.
  [[nodiscard]] constexpr step_breakdown breakdown(const batch_plan& plan) const;
  [[nodiscard]] constexpr duration step(const batch_plan& plan) const {
    return breakdown(plan).total();
  }
  /// Preconditions: likewise.
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

// How much longer parts of a step take than the roofline says: what `measured_time` finds.
struct part_factors {
  double layer = 1;
  double input = 1;
  double output = 1;
  double hop = 1;
  double gradients = 1;
  double optimizer = 1;
};

// A setup on a cluster, with what follows from both worked out once. The time of a layer follows
// from the micro-batch and the tensor, context and expert degrees; that of a stage is a sum of
// layers, and that of the step a sum of stages: planners tabulate them by degree.
class step_composer {
 public:
  constexpr step_composer(const roofline_time& given,
                          const batch_plan& plan,
                          const part_factors& factors = {})
      : factors_(factors),
        setup_(given.setup),
        terms_(given.terms),
        division_(given.setup.parallelism),
        costs_(given.setup.framework.costs),
        plan_(plan),
        on_(kernel_rates_of(given.setup, given.on.gpu, given.efficiency, given.terms)),
        links_(links_of(given)),
        devices_per_node_(given.on.gpus_per_node) {
    if (setup_.recompute == recompute_mode::full) {
      const double layers = count(setup_.model.layers()) / count(division_.pipeline_parallel);
      const double first = count(setup_.recompute_layers);
      recomputed_share_ =
          (first > 0 ? smaller_of(1, first / layers) : 1) / count(setup_.recompute_period);
    }
  }

  constexpr step_breakdown compose() const {
    const std::int64_t stages = division_.pipeline_parallel;
    micro_batch_time slowest;
    double all = 0;
    for (std::int64_t stage = 0; stage < stages; ++stage) {
      const micro_batch_time here = of_stage(stage);
      all += here.total();
      if (here.total() >= slowest.total()) slowest = here;
    }
    const double micro_batches = count(plan_.accumulation);
    const double chunks = count(division_.virtual_pipeline);
    const double hop = stages > 1 && terms_.pipeline_exchange ? factors_.hop * hop_time() : 0;
    // Each micro-batch waits for two, the first one for all of them on its way and back.
    const double hops = 2 * hop * chunks * micro_batches * (1 - costs_.hidden_pipeline_exchange) +
                        2 * hop * count(stages - 1);
    const micro_batch_time busy = micro_batches * slowest;
    const end_of_step end = end_of(slowest);
    const auto seconds = [](double value) { return duration::from_value(value); };
    return {.forward = seconds(busy.forward),
            .backward = seconds(busy.backward),
            .recompute = seconds(busy.recompute),
            .tensor_exchange = seconds(busy.tensor),
            .context_exchange = seconds(busy.context),
            .expert_exchange = seconds(busy.expert),
            .pipeline_exchange = seconds(hops),
            .gradient_exchange = seconds(factors_.gradients * end.gradients),
            .parameter_exchange = seconds(busy.parameter + end.parameters),
            .bubble = seconds(terms_.bubble ? (all - slowest.total()) / chunks : 0),
            .optimizer = seconds(factors_.optimizer * end.optimizer),
            .host = seconds(busy.host) + (terms_.host ? costs_.host_per_step : duration())};
  }

  // Of one micro-batch.
  constexpr micro_batch_time of_input() const {
    return time_of(cost_of_input(setup_, on_, plan_.micro_batch), 0);
  }
  constexpr micro_batch_time of_output() const {
    const transformer& model = setup_.model;
    const double matrix =
        count(model.token_width()) * count(model.vocab_size) / count(division_.tensor_parallel);
    return time_of(cost_of_output(setup_, on_, plan_.micro_batch), matrix);
  }
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

  // `parameters`: of what is shared among ranks and gathered for the passes.
  constexpr micro_batch_time time_of(const layer_cost& cost, double parameters) const {
    const pass_time forward = time_of(cost.forward);
    const pass_time backward = time_of(cost.backward);
    const pass_time again = terms_.recompute ? time_of(cost.again) : pass_time{};
    micro_batch_time time{.forward = forward.kernels,
                          .backward = backward.kernels,
                          .recompute = again.kernels,
                          .tensor = forward.tensor + backward.tensor + again.tensor,
                          .context = forward.context + backward.context + again.context,
                          .expert = forward.expert + backward.expert + again.expert,
                          .host = forward.host + backward.host + again.host,
                          .forward_pass = forward.total()};
    if (division_.zero_stage < 2 || !terms_.parameter_exchange) return time;
    const double gather =
        division_.zero_stage == 3 ? sharing_time(parameters * element_bytes()) : 0;
    const double scatter = sharing_time(parameters * gradient_bytes());
    const double before = costs_.hides_gathers ? waits(forward.total(), gather) : gather;
    time.parameter =
        before + (costs_.hides_gathers ? waits(backward.total() + again.total(), gather + scatter)
                                       : gather + scatter);
    time.forward_pass += before;
    return time;
  }
  // Of a gradient's element on its way.
  constexpr double gradient_bytes() const {
    const precision_recipe& recipe = setup_.precision;
    if (recipe.fp32_gradients) return 4;
    return bits_per_element(division_.zero_stage >= 2 ? recipe.reduced : recipe.weights) / 8.0;
  }

  constexpr micro_batch_time of_layers(layer_kind kind,
                                       std::int64_t all,
                                       std::int64_t windowed) const {
    micro_batch_time time;
    if (all == 0) return time;
    const parameter_counts each = layer_parameters(setup_.model, kind);
    const double parameters =
        count(each.total() - each.experts) / count(division_.tensor_parallel) +
        count(each.experts) / count(division_.expert_parallel);
    for (const bool has_window : {false, true}) {
      const std::int64_t layers = has_window ? windowed : all - windowed;
      if (layers == 0) continue;
      layer_cost cost = cost_of_layer(setup_, on_, plan_.micro_batch, kind, has_window);
      cost.again = recomputed_share_ * cost.again;
      time = time + count(layers) * time_of(cost, parameters);
    }
    return time;
  }

  constexpr micro_batch_time of_stage(std::int64_t stage) const {
    const transformer& model = setup_.model;
    const std::int64_t stages = division_.pipeline_parallel;
    std::int64_t first = 0;
    for (std::int64_t before = 0; before < stage; ++before)
      first += layers_of_stage(division_, model.layers(), before);
    const std::int64_t last = first + layers_of_stage(division_, model.layers(), stage);
    layer_counts layers = layers_between(model, first, last);
    const bool is_last = stage == stages - 1;
    if (is_last) layers.add(mtp_layer_kind(model), model.mtp_layers);
    // Windows are dealt to the kinds of layers in proportion.
    const std::int64_t windowed =
        model.windowed_layers_before(last) - model.windowed_layers_before(first);
    const std::int64_t of_experts =
        layers.experts == 0 ? 0 : windowed * layers.experts / (layers.dense + layers.experts);
    micro_batch_time time =
        factors_.layer * (of_layers(layer_kind::dense, layers.dense, windowed - of_experts) +
                          of_layers(layer_kind::experts, layers.experts, of_experts) +
                          of_layers(layer_kind::cross, layers.cross, 0));
    if (!terms_.ends) return time;
    if (stage == 0) time = time + factors_.input * of_input();
    if (!is_last) return time;
    return time + count(1 + model.mtp_layers) * factors_.output * of_output();
  }

  constexpr end_of_step end_of(const micro_batch_time& slowest) const {
    const parameter_counts held = parameters(setup_.model, division_, {});
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
