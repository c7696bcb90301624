#pragma once

// The time of a step from what is trained, how, and on what: kernels by roofline, communication by
// link, and how they follow each other.

#include <gpuplan/batch.hpp>
#include <gpuplan/cluster.hpp>
#include <gpuplan/communication.hpp>
#include <gpuplan/device_efficiency.hpp>
#include <gpuplan/device_needs.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/measured_device.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/time/communication.hpp>
#include <gpuplan/time/kernels.hpp>
#include <gpuplan/time/layers.hpp>
#include <gpuplan/time/optimizer.hpp>
#include <gpuplan/time/rates.hpp>
#include <gpuplan/time/step_breakdown.hpp>
#include <gpuplan/time/step_line.hpp>
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

/// What reads the samples of a node's devices.
struct sample_loader {
  bytes per_sample{};      // as stored
  bandwidth per_node{};    // what storage and host deliver to a node
  bool prefetches = true;  // while the step before is computed
};

/// The time of one optimizer step on the slowest device, by roofline. A kernel takes the longer of
/// its FLOPs at the share of the dense peak that the efficiency states, in whole waves of tiles,
/// and of its bytes at that of the memory's bandwidth (time/kernels.hpp); collectives take what
/// `collective_time` says, less what runs beside kernels (time/communication.hpp); stages wait for
/// each other as their schedule has it (time/pipeline.hpp); an optimizer on the host is bound by
/// the host's memory and PCIe (`host_step_seconds`), as a part `optimizer`. Of 892 steps that
/// others published it is off by 2.5 to 10 % in the mean of a source and 1.1 to 7 % in the median,
/// and where nobody timed a source's software, by 3 to 18 %, nanotron's by 40; such stacks were 8
/// to 40 % slower (`step_range`). Valid for devices and frameworks with values of their own
/// (catalog/device_efficiencies.hpp, `framework::costs`).
struct roofline_time {
  training_setup setup{};
  cluster on{};
  device_efficiency efficiency{};
  known<sample_loader> loader{};  // absent: samples are there
  // How many times as long the slowest device's kernels take as the others', which wait for it
  double straggler_slowdown = 1;
  time_terms terms{};

  /// Precondition: `validate` accepts this, and the plan on it.
  [[nodiscard]] constexpr step_breakdown breakdown(const batch_plan& plan) const;
  [[nodiscard]] constexpr duration step(const batch_plan& plan) const {
    return breakdown(plan).total();
  }
  /// Precondition: `validate` accepts this.
  [[nodiscard]] constexpr ceiling_origins origins() const {
    const auto products = matmul_ceiling(on.gpu, format_of_linears(setup.precision));
    ceiling_origins from{.products = products->origin, .memory = memory_ceiling(on.gpu).origin};
    if (const auto link = inside_node_ceiling(on)) from.inside_node = link->origin;
    return from;
  }
};

namespace detail {

// Of FLOPs or bytes in a second: below it times would outgrow what doubles hold.
inline constexpr double least_rate = 1;

// What of a device and its links has to be known, and is not, or what the device has no kernels of.
constexpr failure flaw_of_ceilings(const training_setup& setup, const cluster& on) {
  if (const auto runs = runs_on(on.gpu, setup); !runs) return runs.why();
  const auto is_too_slow = [](bandwidth link) { return link.value() < least_rate; };
  if (total_gpus(on) == 1) return {};
  const auto inside = inside_node_ceiling(on);
  if (!inside) return inside.why();
  if (is_too_slow(inside->value)) return failure(errc::not_positive).about(fact::inside_node);
  if (total_gpus(on) <= linked_gpus(on)) return {};
  const auto link = link_between_nodes(on);
  if (!link) return link.why();
  if (is_too_slow(*link)) return failure(errc::not_positive).about(fact::between_nodes);
  return {};
}

// Of a share that a rate is multiplied by, likewise.
inline constexpr double least_share = 1e-9;

struct named_number {
  double value;
  fact name;
};

// How many times as long something takes, and s that something takes, at most.
inline constexpr std::int64_t most_times = 1'000'000'000;

// A share of a rate, or how many times as high it is.
constexpr failure flaw_of_share(const named_number& share) {
  if (const failure why = check_positive(share.value, share.name); failed(why)) return why;
  if (share.value >= least_share && share.value <= static_cast<double>(most_times)) return {};
  return failure(errc::out_of_bounds, {{share.name, share.value}, {fact::at_most, most_times}});
}

// What divides, multiplies or bounds times must be a positive number, or a share.
constexpr failure flaw_of_software(const framework& software) {
  const software_costs& costs = software.costs;
  for (const named_number& share :
       {named_number{costs.hidden_tensor_communication, fact::hidden_tensor_communication},
        named_number{costs.hidden_expert_communication, fact::hidden_expert_communication},
        named_number{costs.hidden_pipeline_communication, fact::hidden_pipeline_communication}})
    if (const failure why = check_between(share.value, 0, 1, share.name); failed(why)) return why;
  for (const named_number& cost :
       {named_number{costs.score_traffic, fact::score_traffic},
        named_number{costs.routed_moves, fact::routed_moves},
        named_number{costs.host_per_operator.value(), fact::host_per_operator},
        named_number{costs.host_of_backward, fact::host_of_backward},
        named_number{costs.host_per_step.value(), fact::host_per_step},
        named_number{costs.host_per_collective.value(), fact::host_per_collective},
        named_number{costs.host_per_rank.value(), fact::host_per_rank},
        named_number{costs.wait_per_node.value(), fact::wait_per_node},
        named_number{costs.stalled_send.value(), fact::stalled_send},
        named_number{costs.contention, fact::contention}})
    if (const failure why = check_between(cost.value, 0, most_times, cost.name); failed(why))
      return why;
  if (const failure why = flaw_of_share({costs.network_share, fact::network_share}); failed(why))
    return why;
  // of a logarithm
  if (const failure why = check_between(costs.scatter, 0, 10, fact::scatter); failed(why))
    return why;
  const double gathered = costs.gathered_at_most.value();
  if (!is_finite(gathered) || gathered < 0)
    return failure(is_finite(gathered) ? errc::negative : errc::not_finite)
        .about(fact::gathered_at_most);
  if (software.engine.bucket_bytes < 1)
    return failure(errc::not_positive,
                   named_fact{fact::bucket_bytes, software.engine.bucket_bytes});
  if (software.engine.zero.reduce_bucket < 1)
    return failure(errc::not_positive,
                   named_fact{fact::reduce_bucket, software.engine.zero.reduce_bucket});
  return {};
}

// Of a device's rates, those that a time is divided by. Precondition: it has the formats' peaks.
constexpr failure flaw_of_rates(const roofline_time& model) {
  const gpu_spec& gpu = model.on.gpu;
  if (gpu.sm_count < 1)
    return failure(errc::not_positive, named_fact{fact::sm_count, gpu.sm_count});
  const device_efficiency& reached = model.efficiency;
  const double floor = reached.kernel_floor.value();
  if (!is_finite(floor)) return failure(errc::not_finite, named_fact{fact::kernel_floor, floor});
  if (floor < 0) return failure(errc::negative).about(fact::kernel_floor);
  for (const named_number& times : {named_number{floor, fact::kernel_floor},
                                    named_number{reached.functions, fact::functions},
                                    named_number{reached.sums, fact::sums},
                                    named_number{reached.softmaxes, fact::softmaxes},
                                    named_number{reached.norms, fact::norms},
                                    named_number{reached.rms_norms, fact::rms_norms},
                                    named_number{reached.norm_gradients, fact::norm_gradients},
                                    named_number{reached.reorders, fact::reorders}})
    if (const failure why = check_between(times.value, 0, most_times, times.name); failed(why))
      return why;
  if (!is_finite(reached.board_power.value()))
    return failure(errc::not_finite, named_fact{fact::board_power, reached.board_power.value()});
  for (const named_number& share :
       {named_number{reached.products, fact::products},
        named_number{reached.products_fp32, fact::products_fp32},
        named_number{reached.products_fp8, fact::products_fp8},
        named_number{reached.products_fp4, fact::products_fp4},
        named_number{reached.products_fp8_by_row, fact::products_fp8_by_row},
        named_number{reached.odd_matmuls, fact::odd_matmuls},
        named_number{reached.unaligned_matmuls, fact::unaligned_matmuls},
        named_number{reached.attention_forward, fact::attention_forward},
        named_number{reached.attention_backward, fact::attention_backward},
        named_number{reached.memory, fact::memory},
        named_number{model.setup.framework.costs.matmul_rate, fact::matmul_rate},
        named_number{model.setup.framework.costs.element_rate, fact::element_rate}})
    if (const failure why = flaw_of_share(share); failed(why)) return why;
  const kernel_rates rates = kernel_rates_of(model.setup, gpu, reached);
  for (const named_number& rate : {named_number{rates.linear, fact::rate_of_matmuls},
                                   named_number{rates.half, fact::rate_of_matmuls},
                                   named_number{rates.attention_forward, fact::rate_of_attention},
                                   named_number{rates.attention_backward, fact::rate_of_attention},
                                   named_number{rates.bytes, fact::memory_bandwidth}}) {
    if (!is_finite(rate.value)) return failure(errc::not_finite).about(rate.name);
    if (rate.value < least_rate) return failure(errc::not_positive).about(rate.name);
  }
  return {};
}

}  // namespace detail

/// The model itself where its shape, layout, lengths and cluster are valid, the device has a
/// peak for the setup's formats, shares and costs of device and framework are positive numbers, the
/// cluster's links are known where it has several devices or nodes, the loader delivers and
/// stragglers are no faster. What the framework has code for is no matter of time. Errors: those of
/// the model, the layout and the cluster; `unsupported_format`, `not_known`, `not_positive`,
/// `not_finite`, `negative`, `out_of_bounds`.
[[nodiscard]] constexpr result<roofline_time> validate(const roofline_time& model) {
  if (const auto valid = validate(model.setup.model); !valid) return valid.why();
  if (const auto valid = validate(model.setup.parallelism, model.setup.model.layers()); !valid)
    return valid.why();
  if (const auto valid = validate(model.setup.trains, model.setup.model); !valid)
    return valid.why();
  const layer_class& layers = model.setup.framework.layers();
  if (const failure why = detail::flaw_if_any({{fact::composite, model.setup.composite != nullptr}},
                                              {fact::layers, layers.name});
      detail::failed(why))
    return why;
  if (layers.composes_recurrences && model.setup.model.hybrid_pattern.size() != 0)
    return failure(errc::not_known, {{fact::layers, layers.name}}).about(fact::step_time);
  // Of the losses of TRL's trainers nobody has timed a step.
  if (model.setup.objective != training_objective::next_token)
    return detail::without_code(
        {{fact::objective, model.setup.objective}, {fact::takes, training_objective::next_token}});
  if (const failure why = detail::flaw_of_lengths(model.setup); detail::failed(why)) return why;
  if (const failure why = detail::flaw_of_chunked_loss(model.setup); detail::failed(why))
    return why;
  if (const auto valid = validate(model.on); !valid) return valid.why();
  if (const failure why = detail::flaw_of_ceilings(model.setup, model.on); detail::failed(why))
    return why;
  if (const failure why = detail::flaw_of_software(model.setup.framework); detail::failed(why))
    return why;
  if (const failure why = detail::flaw_of_rates(model); detail::failed(why)) return why;
  const parallelism& layout = model.setup.parallelism;
  if ((layout.optimizer_on_host || layout.weights_on_host) && !model.on.gpu.pcie)
    return failure(errc::not_known).about("pcie");
  if (model.loader) {
    for (const failure& why : {detail::flaw(model.loader->per_sample, "per_sample"),
                               detail::flaw(model.loader->per_node, "per_node")})
      if (detail::failed(why)) return why;
    if (model.loader->per_node.value() < detail::least_rate)
      return failure(errc::not_positive).about(fact::per_node);
    if (!detail::to_int64(model.loader->per_sample.value()).ok)
      return failure(errc::overflow).about(fact::per_sample);
  }
  if (const failure why = detail::check_between(
          model.straggler_slowdown, 1, detail::most_times, fact::straggler_slowdown);
      detail::failed(why))
    return why;
  return model;
}

/// The plan where it is valid, its ranks are no more than the cluster's devices, and it has as many
/// micro-batches as the schedule takes (`micro_batches_of`). Errors: those of the plan; `overflow`,
/// `out_of_bounds` of devices, `not_a_multiple`, `no_such_code`.
[[nodiscard]] constexpr result<batch_plan> validate(const roofline_time& model,
                                                    const batch_plan& plan) {
  if (const auto valid = validate(plan); !valid) return valid.why();
  const parallelism& layout = model.setup.parallelism;
  const auto inside = detail::checked_product(layout.tensor_parallel, layout.context_parallel);
  const auto ranks = detail::checked_product(inside, plan.data_parallel, layout.pipeline_parallel);
  const std::int64_t most = total_gpus(model.on);
  if (!ranks.ok)
    return failure(errc::overflow,
                   named_fact{fact::data_parallel, plan.data_parallel},
                   named_fact{fact::tensor_parallel, layout.tensor_parallel},
                   named_fact{fact::context_parallel, layout.context_parallel},
                   named_fact{fact::pipeline_parallel, layout.pipeline_parallel});
  if (ranks.value > most)
    return failure(errc::out_of_bounds,
                   named_fact{fact::devices, ranks.value},
                   named_fact{fact::at_most, most});
  if (const failure why = detail::flaw_of_micro_batches(
          layout, plan.accumulation, micro_batches_of(model.setup.framework.layers(), layout));
      detail::failed(why))
    return why;
  return plan;
}

namespace detail {

// A setup on a cluster, with what follows from both worked out once. The time of a layer follows
// from the micro-batch, the tensor, context and expert degrees and what is recomputed:
// `tabulate_layers` works it out. That of a stage is a sum of layers, and that of the step a sum of
// stages: `line` adds them up for the setup's layout, or for the one that a planner sets.
class step_composer {
 public:
  constexpr explicit step_composer(const roofline_time& given)
      : given_(given),
        setup_(given.setup),
        terms_(given.terms),
        layout_(given.setup.parallelism),
        costs_(given.setup.framework.costs),
        keeps_some_(recomputes_some(given.setup)),
        recompute_layers_(given.setup.recompute_layers),
        on_(kernel_rates_of(given.setup, given.on.gpu, given.efficiency, given.terms)
                .slowed(given.straggler_slowdown)),
        communication_(given.setup, given.on, given.terms) {
    const trainable& trains = setup_.trains;
    if (trains.what != training::full)
      trained_share_ = count(trainable_parameters(setup_.model, trains)) /
                       count(parameters(setup_.model).total());
  }
  constexpr step_composer(const roofline_time& given,
                          const batch_plan& plan,
                          const time_factors& factors = {})
      : step_composer(given) {
    factors_ = factors;
    communication_.plan = plan;
    tabulate_layers(plan.micro_batch);
  }

  // What was tabulated holds for all factors.
  constexpr void set_factors(const time_factors& factors) { factors_ = factors; }
  // A layout of the setup's tensor, context and expert degrees.
  constexpr void set_layout(std::int64_t pipeline, std::int64_t chunks, int zero_stage) {
    layout_.pipeline_parallel = pipeline;
    layout_.virtual_pipeline = chunks;
    layout_.zero_stage = zero_stage;
    communication_.set_zero_stage(zero_stage);
  }
  constexpr void set_split(const pipeline_split& split) { layout_.split = split; }
  // Of a setup that recomputes some layers: how many, as its `recompute_layers`.
  constexpr void set_recomputed(std::int64_t layers) { recompute_layers_ = layers; }
  constexpr void set_data_parallel(std::int64_t ranks) {
    communication_.plan.data_parallel = ranks;
  }

  constexpr step_line line() const { return line(parameters(setup_.trained_model(), layout_, {})); }
  // `held`: the parameters of the layout's first rank.
  constexpr step_line line(const parameter_counts& held) const {
    const std::int64_t stages = layout_.pipeline_parallel;
    const double chunks = count(layout_.virtual_pipeline);
    const double point_to_point = stages > 1 && terms_.pipeline_communication
                                      ? factors_.point_to_point * of_point_to_point()
                                      : 0;
    const double hidden = share_beside_passes(costs_.hidden_pipeline_communication);
    const double stops = (1 - hidden) * point_to_point;
    // Stages between the ends get and send in each pass.
    const double stall = point_to_point > 0 ? stalled_send() : 0;
    const double fill = 2 * point_to_point * count(stages - 1);
    step_line found{.hidden_point_to_point = terms_.bubble ? hidden * fill : fill,
                    .exposed_point_to_point = terms_.bubble ? fill - hidden * fill : 0,
                    .host = terms_.host ? factors_.host * costs_.host_per_step.value() : 0,
                    .loading = loading()};
    pipeline_seconds& line = found.work.stages;
    line.stages = terms_.bubble ? stages : 1;
    line.chunks = layout_.virtual_pipeline;
    found.work.schedule = layout_.schedule;
    double all_middle = 0;
    const bool crosses =
        costs_.host_per_rank > duration{} && communication_.stages_cross_nodes(stages);
    for (std::int64_t stage = 0; stage < stages;) {
      const std::int64_t alike = stages_alike(stage);
      const micro_batch_time here = of_rank(stage, crosses);
      const bool is_end = stage == 0 || stage == stages - 1;
      const double stopped = (stops + (is_end ? 1 : 2) * stall) * chunks;
      if (here.total() + 2 * stopped >= found.busy.total() + found.point_to_point) {
        found.busy = here;
        found.busy_stage = stage;
        found.point_to_point = 2 * stopped;
      }
      const stage_seconds both = passes_of(here, stopped);
      if (stage == 0) {
        line.first = both;
      } else if (stage == stages - 1) {
        line.last = both;
      } else {
        all_middle += count(alike) * both.both();
        if (both.both() >= line.middle.both()) line.middle = both;
      }
      stage += alike;
    }
    found.work.busiest = found.busy.total() + found.point_to_point;
    found.work.slack = (count(stages - 2) * line.middle.both() - all_middle) / chunks;
    if (stages <= 2) {
      found.work.slack = 0;
      // two interleaved stages: what one without ends takes, of as many layers as either has
      if (chunks > 1 && !traits_of(layout_.schedule).folds) {
        const std::int64_t all = setup_.model.layers();
        const bool is_second = layers_of_stage(layout_, all, 1) > layers_of_stage(layout_, all, 0);
        const layer_mix layers = mix_of_stage(is_second ? 1 : 0, false);
        line.middle = passes_of(of_stage(layers, false, false, crosses), stops * chunks);
      }
    }
    add_end(held, found);
    return found;
  }

  constexpr void tabulate_layers(std::int64_t micro_batch) {
    const transformer& model = setup_.model;
    communication_.plan.micro_batch = micro_batch;
    if (setup_.optimizer.kind == optimizer_kind::muon)
      orthogonalising_flops_ = orthogonalising_flops(model) / count(parameters(model).total());
    layer_counts all = layers_between(model, 0, model.layers());
    all.add(mtp_layers_of(model), setup_.trained_mtp_layers());
    layers_are_alike_ = setup_.trains.what != training::last_layers;
    for (int kind = 0; kind < layer_kinds; ++kind)
      tabulate(static_cast<layer_kind>(kind), all.of[kind]);
    if (!terms_.ends) return;
    const double table =
        count(model.token_width()) * count(model.vocab_size) / count(layout_.tensor_parallel);
    const double head = model.has_tied_head() ? 0 : table;
    input_ = time_of(
        cost_of_input(setup_, on_, micro_batch), table, gradients_before_layers(setup_), false);
    output_ = time_of(
        cost_of_output(setup_, on_, micro_batch), head, gradients_behind_layers(setup_), true);
  }

  // One micro-batch on all stages one after another, whatever their number; of what is recomputed,
  // no more than on any.
  constexpr double of_all_stages() const {
    layer_mix all;
    if (keeps_some_ && setup_.recompute_period > 1)
      add({0, setup_.model.layers()}, true, true, all);
    else
      add_layers({0, setup_.model.layers()}, 0, true, all);
    return of_stage(all, true, true).total();
  }

  // Likewise on the busiest stage.
  constexpr double of_busiest_stage() const {
    const std::int64_t stages = layout_.pipeline_parallel;
    double most = 0;
    for (std::int64_t stage = 0; stage < stages;) {
      most = larger_of(most, of_rank(stage).total());
      stage += stages_alike(stage);
    }
    return most;
  }

  // Of one micro-batch, without what sharing of weights takes.
  constexpr double of_input() const { return input_.time.total(); }
  constexpr double of_output() const {
    return count(1 + setup_.trained_mtp_layers()) * output_.time.total();
  }
  // The model's last layer.
  constexpr double of_layer() const {
    const layer_kind kind = setup_.model.kind == model_kind::encoder_decoder
                                ? layer_kind::cross
                                : setup_.model.kind_of(setup_.model.num_hidden_layers - 1);
    return layers_[0][0][static_cast<int>(kind)][0][0].time.total();
  }
  // Of one send between stages.
  constexpr double of_point_to_point() const { return communication_.point_to_point_time(); }
  // Of gradients, by themselves.
  constexpr double of_gradients(const parameter_counts& held) const {
    return communication_.of_all(
        layout_.zero_stage == 0 ? collective::all_reduce : collective::reduce_scatter,
        held,
        communication_.gradient_bytes());
  }

 protected:
  // One pass: kernels, what of its communication is exposed, and what the host adds.
  struct pass_time {
    double kernels = 0, tensor = 0, context = 0, expert = 0, host = 0;
    constexpr double total() const { return kernels + tensor + context + expert + host; }
  };
  // One micro-batch through something, and the parameters of it that ranks may share.
  struct shared_time {
    micro_batch_time time{};  // without what sharing takes
    double parameters = 0;
    double trained = 0;   // of these, or of adapters beside them
    double matrices = 0;  // in which these are, each shared by itself; 0: all in one

    constexpr void add(std::int64_t times, const shared_time& added) {
      if (times == 0) return;
      time = time + count(times) * added.time;
      parameters += count(times) * added.parameters;
      trained += count(times) * added.trained;
      matrices += count(times) * added.matrices;
    }
  };

  time_factors factors_{};
  const roofline_time& given_;
  const training_setup& setup_;
  const time_terms& terms_;
  parallelism layout_;
  const software_costs& costs_;
  bool keeps_some_;                // of the layers, where others are recomputed
  std::int64_t recompute_layers_;  // of these, as the setup's
  kernel_rates on_;
  layout_communication communication_;
  bool layers_are_alike_ = true;
  layer_kind kind_of_all_ = layer_kind::dense;  // where they are
  bool all_have_windows_ = false;
  double trained_share_ = 1;          // of the parameters
  double orthogonalising_flops_ = 0;  // of each parameter that trains
  // By kind, without a window and with one, training and before; in a pipeline through several
  // nodes, and else; recomputed, and where some are not, kept.
  shared_time layers_[2][2][layer_kinds][2][2]{};
  shared_time input_{};
  shared_time output_{};

  static constexpr double count(std::int64_t value) { return static_cast<double>(value); }

  // `launch`: over what the host takes for an operator of the forward pass.
  constexpr pass_time time_of(const pass_cost& pass,
                              bool in_decoder,
                              bool crosses,
                              double launch = 1) const {
    pass_time time{.kernels = pass.kernels(on_)};
    const std::int64_t tensor_ranks = layout_.tensor_parallel;
    const double stream = communication_.stream_bytes(in_decoder);
    const bool exchanges = terms_.tensor_communication && tensor_ranks > 1;
    const double waits = exchanges ? exchanges_of(pass) * waiting() : 0;
    if (exchanges)
      time.tensor = pass.reductions * (1 - costs_.hidden_tensor_communication) *
                        communication_.seconds(collective::all_reduce, stream, tensor_ranks, 1) +
                    waits;
    if (terms_.context_communication && layout_.context_parallel > 1)
      time.context = communication_.ring_time(pass.attention, pass.passed_on) +
                     communication_.exchange_time(pass.exchanges, pass.exchanged);
    if (terms_.expert_communication && pass.routings != 0) {
      // What ranks with parts of an expert gather, its products wait for.
      const double all = pass.routings * communication_.routing_time(in_decoder);
      const double hidden = share_beside_passes(costs_.hidden_expert_communication) * all;
      time.expert = all - (hidden < time.kernels ? hidden : time.kernels) +
                    pass.routings * communication_.parts_time(in_decoder);
    }
    // Who waits for another's host gets no further ahead of its own meanwhile.
    if (terms_.host && !setup_.graphs.iteration)
      time.host = larger_of(0,
                            pass.operators * launch * costs_.host_per_operator.value() +
                                host_of_exchanges(pass, crosses) -
                                (costs_.launches_ahead ? time.total() - waits : time.kernels));
    return time;
  }
  constexpr double share_beside_passes(double share) const {
    const bool has_other_direction = layout_.schedule == pipeline_schedule::dual_pipe ||
                                     layout_.schedule == pipeline_schedule::dual_pipe_v;
    return costs_.hides_by_dual_pipe && !has_other_direction ? 0 : share;
  }
  // Of ranks that divide a layer; an all-reduce is two where they divide the sequence too.
  constexpr double exchanges_of(const pass_cost& pass) const {
    if (layout_.tensor_parallel == 1) return 0;
    return pass.reductions * (layout_.sequence_parallel ? 2 : 1);
  }
  constexpr std::int64_t nodes_of_tensor_group() const {
    return group_of(layout_.tensor_parallel, 1, linked_gpus(given_.on)).nodes();
  }
  // Of each of them.
  constexpr double waiting() const {
    const std::int64_t nodes = nodes_of_tensor_group();
    return nodes == 1 ? 0 : count(nodes) * costs_.wait_per_node.value();
  }
  constexpr double stalled_send() const {
    return nodes_of_tensor_group() > 2 ? costs_.stalled_send.value() : 0;
  }
  constexpr double host_of_exchanges(const pass_cost& pass, bool crosses) const {
    const double more = crosses ? count(layout_.tensor_parallel) * costs_.host_per_rank.value() : 0;
    return exchanges_of(pass) * (costs_.host_per_collective.value() + more) +
           pass.routings *
               (count(layout_.expert_parallel > 1 ? 1 : 0) +
                count(layout_.expert_tensor_parallel > 1 ? 1 : 0)) *
               costs_.host_per_collective.value();
  }
  constexpr shared_time time_of(const layer_cost& cost,
                                double parameters,
                                const gradients_wanted& wanted,
                                bool in_decoder,
                                bool crosses = false) const {
    const pass_time forward = time_of(cost.forward, in_decoder, crosses);
    const pass_time backward = time_of(cost.backward, in_decoder, crosses, costs_.host_of_backward);
    const pass_time again =
        terms_.recompute ? time_of(cost.again, in_decoder, crosses) : pass_time{};
    return {.time = {.forward = forward.kernels,
                     .backward = backward.kernels,
                     .recompute = again.kernels,
                     .tensor = forward.tensor + backward.tensor + again.tensor,
                     .context = forward.context + backward.context + again.context,
                     .expert = forward.expert + backward.expert + again.expert,
                     .host = forward.host + backward.host + again.host,
                     .forward_pass = forward.total(),
                     .weights = cost.backward.weights},
            .parameters = parameters,
            .trained = (wanted.weights ? parameters : 0) + cost.adapters,
            .matrices = wraps_adapters(setup_) ? cost.matrices : 0};
  }

  constexpr void tabulate(layer_kind kind, std::int64_t layers) {
    if (layers == 0) return;
    const transformer& model = setup_.model;
    const parameter_counts each = layer_parameters(model, kind);
    const double parameters = count(each.total() - each.experts) / count(layout_.tensor_parallel) +
                              count(each.experts) / count(ranks_of_experts(layout_));
    const std::int64_t windowed = kind == layer_kind::cross || !has_attention(kind)
                                      ? 0
                                      : model.windowed_layers_before(model.layers());
    layers_are_alike_ = layers_are_alike_ &&
                        layers == model.layers() + setup_.trained_mtp_layers() &&
                        (windowed == 0 || windowed == model.layers());
    kind_of_all_ = kind;
    all_have_windows_ = windowed != 0;
    const bool some_before = setup_.trains.what == training::last_layers;
    for (const bool has_window : {false, true}) {
      if (has_window && windowed == 0) continue;
      for (const bool trains : {true, false}) {
        if (!trains && !some_before) continue;
        layer_cost cost =
            cost_of_layer(setup_, on_, communication_.plan.micro_batch, kind, has_window, trains);
        for (const bool kept : {false, true}) {
          if (kept && !keeps_some_) continue;
          if (kept) cost.again = {};
          for (const bool crosses : {false, true})
            if (!crosses || costs_.host_per_rank > duration{})
              layers_[kept ? 1 : 0][crosses ? 1 : 0][static_cast<int>(kind)][has_window ? 1 : 0]
                     [trains ? 0 : 1] = time_of(cost,
                                                parameters,
                                                gradients_in_layers(setup_, trains),
                                                kind == layer_kind::cross,
                                                crosses);
        }
      }
    }
  }

  // How many stages from this one on, the last one apart, have as many layers, all alike: those
  // that the layers left are enough for.
  constexpr std::int64_t stages_alike(std::int64_t stage) const {
    const pipeline_split& split = layout_.split;
    const std::int64_t last = layout_.pipeline_parallel - 1;
    if (stage == 0 || stage == last || !layers_are_alike_) return 1;
    if (split.states_ends()) return last - stage;
    if (split.listed.count != 0 || split.head_cost > 0) return 1;
    const std::int64_t all = setup_.model.layers() + split.embedding_layers + split.head_layers;
    const std::int64_t left = all % (layout_.pipeline_parallel * layout_.virtual_pipeline);
    if (left == 0) return last - stage;
    if (layout_.virtual_pipeline > 1 || ranks_with_chunk(layout_) > 1) return 1;
    if (split.first_have_more) return (stage < left && left < last ? left : last) - stage;
    const layer_range layers = layers_of_chunk(layout_, setup_.model.layers(), stage);
    if (layers.size() == 0) return last - stage;
    const std::int64_t enough = (setup_.model.layers() - layers.first) / layers.size();
    return enough < last - stage ? enough : last - stage;
  }

  constexpr const shared_time& table_of(
      layer_kind kind, bool windowed, bool before, bool kept, bool crosses) const {
    return layers_[kept ? 1 : 0][crosses ? 1 : 0][static_cast<int>(kind)][windowed ? 1 : 0]
                  [before ? 1 : 0];
  }
  // How many layers there are, recomputed and kept, by kind, without a window and with one,
  // training and before.
  struct layer_mix {
    std::int64_t of[2][layer_kinds][2][2]{};
    std::int64_t all = 0;
    std::int64_t kept = 0;  // where some are recomputed

    constexpr void add(
        layer_kind kind, bool before, bool are_kept, std::int64_t count, std::int64_t windowed) {
      auto& here = of[are_kept ? 1 : 0][static_cast<int>(kind)];
      here[0][before ? 1 : 0] += count - windowed;
      here[1][before ? 1 : 0] += windowed;
      all += count;
      if (are_kept) kept += count;
    }
    // What is recomputed, of all.
    constexpr double share_again() const {
      return kept == 0 ? 1 : static_cast<double>(all - kept) / static_cast<double>(all);
    }
  };
  // Adds layers that follow each other, `before` others of which recomputed ones are counted, and
  // where they are the last those behind them, which are recomputed with any.
  constexpr void add_layers(const layer_range& range,
                            std::int64_t before,
                            bool is_last,
                            layer_mix& mix) const {
    if (!keeps_some_) return add(range, false, is_last, mix);
    const std::int64_t most = recompute_layers_ == 0 ? before + range.size() : recompute_layers_;
    const std::int64_t period = setup_.recompute_period;
    for (std::int64_t first = range.first; first < range.last;) {
      const std::int64_t at = before + first - range.first;
      const bool kept = at >= most || (at + 1) % period != 0;
      // To the end of those alike.
      std::int64_t last = kept ? range.last : range.first + most - before;
      if (period != 1 && at < most) last = first + 1;
      if (last > range.last) last = range.last;
      add({first, last}, kept, false, mix);
      first = last;
    }
    if (is_last) add({range.last, range.last}, false, true, mix);
  }
  constexpr void add(const layer_range& range, bool kept, bool is_last, layer_mix& mix) const {
    const transformer& model = setup_.model;
    const std::int64_t frozen = setup_.trains.what == training::last_layers
                                    ? model.layers() - setup_.trains.last_layers
                                    : 0;
    const std::int64_t split = frozen < range.first  ? range.first
                               : frozen > range.last ? range.last
                                                     : frozen;
    for (const bool before : {true, false}) {
      const std::int64_t first = before ? range.first : split;
      const std::int64_t last = before ? split : range.last;
      if (before && last <= first) continue;
      layer_counts layers = layers_between(model, first, last);
      if (!before && is_last) layers.add(mtp_layers_of(model), setup_.trained_mtp_layers());
      // Windows are dealt to the kinds of layers in proportion.
      std::int64_t windowed =
          model.windowed_layers_before(last) - model.windowed_layers_before(first);
      std::int64_t attend = layers.all(has_attention) - layers[layer_kind::cross];
      for (int at = 0; at < layer_kinds; ++at) {
        const auto kind = static_cast<layer_kind>(at);
        const bool sees = has_attention(kind) && kind != layer_kind::cross;
        const std::int64_t here = sees && attend != 0 ? windowed * layers.of[at] / attend : 0;
        mix.add(kind, before, kept, layers.of[at], here);
        if (!sees) continue;
        windowed -= here;
        attend -= layers.of[at];
      }
    }
  }
  // Of all chunks of a stage; `has_end`: with what is behind the last one's.
  constexpr layer_mix mix_of_stage(std::int64_t stage, bool has_end = true) const {
    const std::int64_t layers = setup_.model.layers();
    const bool is_last = has_end && has_head(stage);
    layer_mix mix;
    if (layers_are_alike_ && setup_.trained_mtp_layers() == 0) {
      const std::int64_t here = layers_of_stage(layout_, layers, stage);
      const std::int64_t again = keeps_some_ ? recomputed_of_stage(stage, here) : here;
      mix.add(kind_of_all_, false, false, again, all_have_windows_ ? again : 0);
      const std::int64_t kept = here - again;
      if (kept != 0) mix.add(kind_of_all_, false, true, kept, all_have_windows_ ? kept : 0);
      return mix;
    }
    std::int64_t before = 0;
    for (std::int64_t chunk = 0; chunk < layout_.virtual_pipeline; ++chunk) {
      const layer_range range = layers_of_chunk(layout_, layers, stage, chunk);
      add_layers(range, before, is_last && chunk == layout_.virtual_pipeline - 1, mix);
      if (counts_ranks()) before += range.size();
    }
    return mix;
  }
  // Whether layers to recompute are counted on a rank, by PyTorch's schedules; else in each chunk.
  constexpr bool counts_ranks() const { return setup_.framework.layers().divides_stages; }
  // Of a stage's layers, `all` of them.
  constexpr std::int64_t recomputed_of_stage(std::int64_t stage, std::int64_t all) const {
    const std::int64_t period = setup_.recompute_period;
    if (layout_.virtual_pipeline == 1 || counts_ranks())
      return recomputed_of(all, recompute_layers_, period);
    std::int64_t sum = 0;
    for (std::int64_t chunk = 0; chunk < layout_.virtual_pipeline; ++chunk)
      sum += recomputed_of(layers_of_chunk(layout_, setup_.model.layers(), stage, chunk).size(),
                           recompute_layers_,
                           period);
    return sum;
  }
  constexpr bool has_head(std::int64_t stage) const {
    return stage == (traits_of(layout_.schedule).folds ? 0 : layout_.pipeline_parallel - 1);
  }
  // `visit(stage, share)` of the stages of a pipeline's rank, and the share of micro-batches that
  // each of them has.
  template <class Visit>
  constexpr void visit_stages(std::int64_t rank, const Visit& visit) const {
    const std::int64_t directions = ranks_with_chunk(layout_);
    visit(rank, 1 / count(directions));
    if (directions == 2) visit(layout_.pipeline_parallel - 1 - rank, 0.5);
  }
  // A micro-batch on a pipeline's rank, in the mean.
  constexpr micro_batch_time of_rank(std::int64_t rank, bool crosses = false) const {
    micro_batch_time time{};
    visit_stages(rank, [&](std::int64_t stage, double share) {
      time = time + share * of_stage(mix_of_stage(stage), stage == 0, has_head(stage), crosses);
    });
    return time;
  }
  // `visit(kind, windowed, before, kept, layers)` of those that there are.
  template <class Visit>
  static constexpr void visit_layers(const layer_mix& mix, const Visit& visit) {
    for (const bool kept : {false, true}) {
      if (kept && mix.kept == 0) break;
      for (const bool before : {true, false})
        for (int at = 0; at < layer_kinds; ++at)
          for (const bool windowed : {false, true})
            if (const std::int64_t many =
                    mix.of[kept ? 1 : 0][at][windowed ? 1 : 0][before ? 1 : 0];
                many != 0)
              visit(static_cast<layer_kind>(at), windowed, before, kept, many);
    }
  }

  // `crosses`: in a pipeline through several nodes; without it no stage takes longer.
  constexpr micro_batch_time of_stage(const layer_mix& mix,
                                      bool is_first,
                                      bool is_last,
                                      bool crosses = false) const {
    shared_time sum;
    visit_layers(mix,
                 [&](layer_kind kind, bool windowed, bool before, bool kept, std::int64_t count) {
                   sum.add(count, table_of(kind, windowed, before, kept, crosses));
                 });
    sum.time = factors_.layer * sum.time;
    micro_batch_time time = shared(sum, mix, is_last && terms_.ends);
    if (!terms_.ends) return time;
    if (is_first) time = time + of_end(input_, factors_.input);
    if (!is_last) return time;
    micro_batch_time end = of_end(output_, factors_.output);
    // A head that runs in chunks is gathered for them, and for the norm's backward, while nothing
    // else runs.
    if (setup_.framework.implementation.loss_chunks != 0 && shares_in_passes())
      end.parameter += 2 * gather_time(output_.parameters);
    return time + count(1 + setup_.trained_mtp_layers()) * end;
  }

  // A stage of torchtitan's pipelines gathers in the first micro-batch's forward, and reduces
  // behind the last one's backward.
  constexpr bool shares_once() const {
    return layout_.pipeline_parallel > 1 && layout_.zero_stage == 2 &&
           setup_.framework.engine.is->gathers_weights;
  }
  constexpr bool shares_in_passes() const {
    return layout_.zero_stage >= 2 && terms_.parameter_communication && !shares_once();
  }
  // FSDP's ranks gather weights for each forward pass, and where they do not keep them until the
  // backward pass (ZeRO-3), for that again. DeepSpeed's keep those of ZeRO-2 from step to step.
  constexpr bool gathers_in_passes() const {
    const bool frees_them = setup_.framework.engine.is->gathers_weights && !shares_once();
    return layout_.zero_stage == 3 || (layout_.zero_stage == 2 && frees_them);
  }
  // Gradients stay whole until the last micro-batch's backward (no_sync).
  constexpr bool reduces_once() const {
    const engine& by = setup_.framework.engine;
    return shares_in_passes() && by.is->gathers_weights && !by.reduces_every_micro_batch;
  }
  // Of a rank's part, where weights are on the host.
  constexpr double host_copy_time(double parameters, double bytes) const {
    if (!layout_.weights_on_host) return 0;
    return parameters / count(communication_.sharing_ranks()) * bytes /
           host_copy_rate(given_.on.gpu);
  }
  // To gather weights for a pass, and to add their gradients up.
  constexpr double gather_time(double parameters) const {
    if (!gathers_in_passes()) return 0;
    return factors_.sharing *
           (communication_.sharing_time(parameters * communication_.gathered_bytes()) +
            host_copy_time(parameters, communication_.held_bytes()));
  }
  constexpr double scatter_time(double parameters) const {
    const double each = communication_.gradient_bytes();
    return factors_.sharing *
           (communication_.scatter_time(parameters * each) + host_copy_time(parameters, each));
  }
  // Of one of so many layers: of matrices that are shared each by itself, and of what trains.
  constexpr double gather_time_of_matrices(const shared_time& of, std::int64_t layers) const {
    if (of.matrices == 0) return 0;
    return of.matrices / count(layers) * gather_time(of.trained / of.matrices);
  }
  constexpr double scatter_time_of_trained(const shared_time& of, std::int64_t layers) const {
    if (of.matrices == 0) return scatter_time(of.trained / count(layers));
    return of.matrices / count(layers) * scatter_time(of.trained / of.matrices);
  }
  // How much longer a pass takes with a layer's communication beside each.
  constexpr double exposed_of_pass(
      std::int64_t layers, double work, double gather, double scatter, bool first_is_there) const {
    if (gather == 0 && scatter == 0) return 0;
    const double beside = sharded_pass({layers,
                                        work / count(layers),
                                        gather,
                                        scatter,
                                        communication_.contention(),
                                        first_is_there});
    return larger_of(0, beside - work);
  }
  // `behind` says what a backward pass takes longer by what gradients take to be reduced.
  template <class Behind>
  constexpr void add_sharing(micro_batch_time& time,
                             double before,
                             const Behind& behind,
                             double scatter) const {
    const double of_each = behind(reduces_once() ? 0 : scatter);
    time.parameter = before + of_each;
    if (reduces_once()) time.reductions = behind(scatter) - of_each;
    time.forward_pass += before;
  }
  // Layers, where ranks share their weights. The last one's are gathered for the backward pass
  // while the head is computed, where there is one.
  constexpr micro_batch_time shared(const shared_time& given,
                                    const layer_mix& mix,
                                    bool is_below_head) const {
    micro_batch_time time = given.time;
    const std::int64_t layers = mix.all;
    if (!shares_in_passes() || layers == 0) return time;
    const double within = gather_time_of_matrices(given, layers);
    const double whole = gather_time(given.parameters / count(layers));
    const bool returns = time.backward > 0;  // else nothing needs weights again
    const bool gathers_again = layout_.zero_stage == 3 && returns;
    // FSDP 1 is no more than two gathers ahead of the passes. Where each matrix of the adapters is
    // a unit, the layer's own are these two, and the next layer's weights are waited for.
    const bool waits = wraps_adapters(setup_);
    const double ahead = (waits ? 0 : whole) + within;
    const std::int64_t kept = costs_.hides_gathers && is_below_head ? 1 : 0;
    const double waited = waits ? count(layers) * whole : 0;
    const double waited_again = waits && gathers_again ? count(layers - kept) * whole : 0;
    // Within a layer that is computed again they are gathered for that too.
    const double again =
        gathers_again ? ahead + (time.recompute > 0 ? mix.share_again() * within : 0) : 0;
    const double scatter = scatter_time_of_trained(given, layers);
    double before = count(layers) * ahead;
    if (costs_.hides_gathers) before = exposed_of_pass(layers, time.forward_pass, ahead, 0, false);
    add_sharing(
        time,
        before + waited,
        [&](double reduced) {
          if (!costs_.hides_gathers) return count(layers) * (again + reduced) + waited_again;
          const double work = given.time.total() - given.time.forward_pass;
          return exposed_of_pass(layers, work, again, reduced, is_below_head) + waited_again;
        },
        scatter);
    return time;
  }
  // Likewise the tables before the layers, or the head behind them, which stay from one pass to the
  // other.
  constexpr micro_batch_time of_end(const shared_time& end, double factor) const {
    micro_batch_time time = factor * end.time;
    if (!shares_in_passes()) return time;
    double before = gather_time(end.parameters) + gather_time_of_matrices(end, 1);
    if (costs_.hides_gathers) before = communication_.exposed(time.forward_pass, before);
    const double work = time.total() - time.forward_pass;
    add_sharing(
        time,
        before,
        [&](double reduced) {
          return costs_.hides_gathers ? communication_.exposed(work, reduced) : reduced;
        },
        scatter_time_of_trained(end, 1));
    return time;
  }

  static constexpr stage_seconds passes_of(const micro_batch_time& time, double stops) {
    return {time.forward_pass + stops, time.total() - time.forward_pass + stops, time.weights};
  }

  constexpr loading_work loading() const {
    if (!given_.loader) return {};
    const batch_plan& plan = communication_.plan;
    // The first stage's ranks follow one another along the nodes.
    const std::int64_t ranks =
        layout_.tensor_parallel * layout_.context_parallel * plan.data_parallel;
    const double nodes = count(ceil_div(ranks, given_.on.gpus_per_node));
    const double samples = count(plan.micro_batch * plan.data_parallel);
    return {samples * given_.loader->per_sample.value() / (nodes * given_.loader->per_node.value()),
            given_.loader->prefetches};
  }

  // Of a rank's parameters, those that train: as many as of the model.
  constexpr parameter_counts trained_of(const parameter_counts& held) const {
    if (setup_.trains.what == training::full) return held;
    return {.other = static_cast<std::int64_t>(ceil(trained_share_ * count(held.total())))};
  }

  // A weight's, as ranks send it to those that did not update it.
  constexpr double bytes_of_updated() const {
    return shares_once() ? communication_.gathered_bytes()
                         : bits_per_element(setup_.precision.weights) / 8.0;
  }
  // What comes behind the last micro-batch, or with it.
  constexpr void add_end(const parameter_counts& held_here, step_line& step) const {
    const parameter_counts held = trained_of(held_here);
    if (held.total() == 0) return;
    const int stage = layout_.zero_stage;
    const double slowed = factors_.sharing;
    if (terms_.gradient_communication && (stage < 2 || shares_once())) {
      const collective what = stage == 0 ? collective::all_reduce : collective::reduce_scatter;
      const double each = communication_.gradient_bytes();
      const double backward = step.busy.total() - step.busy.forward_pass;
      step.gradients = costs_.hides_gradients && !shares_once()
                           ? communication_.exposed_of_buckets(backward, what, held, each, slowed)
                           : slowed * communication_.of_all(what, held, each);
    }
    if (reduces_once()) step.gradients = step.busy.reductions;
    if (terms_.parameter_communication && stage != 0 && !gathers_in_passes()) {
      const collective what = collective::all_gather;
      const double each = bytes_of_updated();
      step.parameters =
          costs_.hides_parameters
              ? communication_.exposed_of_buckets(step.busy.forward_pass, what, held, each, slowed)
              : slowed * communication_.of_all(what, held, each);
    }
    if (!terms_.optimizer) return;
    const double experts = count(held.experts);
    const double others = count(held.total()) - experts;
    const double updated = stage == 0 ? others + experts
                                      : others / count(communication_.sharing_ranks()) +
                                            experts / count(communication_.expert_replicas());
    if (!layout_.optimizer_on_host) step.optimizer_flops = updated * orthogonalising_flops_;
    step.optimizer =
        factors_.optimizer *
        (updated * (layout_.optimizer_on_host
                        ? host_step_seconds(setup_, given_.on.gpu, communication_.gradient_bytes())
                        : optimizer_bytes(setup_) / on_.elements) +
         step.optimizer_flops / on_.half);
  }
};

}  // namespace detail

constexpr step_breakdown roofline_time::breakdown(const batch_plan& plan) const {
  return detail::step_composer(*this, plan).line().at(plan.accumulation);
}

static_assert(time_model<roofline_time>);

}  // namespace gpuplan
