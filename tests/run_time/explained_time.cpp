// Why a step takes as long as it does: the pieces add up, their formulas can be worked out, and
// what is said to be saved is what the model says of a better device.

#include <gpuplan/flops.hpp>
#include <gpuplan/io/time_explanation.hpp>
#include <gpuplan/time/explanation.hpp>

#include <cctype>
#include <cmath>
#include <cstdlib>
#include <string>

#include "check.hpp"
#include "random_step.hpp"

using namespace gpuplan;

namespace {

duration step_breakdown::*const all_parts[] = {&step_breakdown::data,
                                               &step_breakdown::forward,
                                               &step_breakdown::backward,
                                               &step_breakdown::recompute,
                                               &step_breakdown::tensor_communication,
                                               &step_breakdown::context_communication,
                                               &step_breakdown::expert_communication,
                                               &step_breakdown::pipeline_communication,
                                               &step_breakdown::gradient_communication,
                                               &step_breakdown::parameter_communication,
                                               &step_breakdown::bubble,
                                               &step_breakdown::optimizer,
                                               &step_breakdown::host};

constexpr int last_schedule = static_cast<int>(pipeline_schedule::dual_pipe_v);

// Steps with all that the model knows: stragglers, loaders, costs of the host, kernels' floors,
// fp8, adapters, schedules of pipelines, experts in a latent space.
random_step roll_varied_step(dice& roll) {
  random_step step = roll_step(roll);
  training_setup& setup = step.model.setup;
  software_costs& costs = setup.framework.costs;
  if (roll.coin()) step.model.straggler_slowdown = 1 + 0.1 * static_cast<double>(roll.from(0, 5));
  if (roll.one_in(3))
    step.model.loader = sample_loader{.per_sample = 1_MB * static_cast<double>(roll.from(1, 4000)),
                                      .per_node = 4_GBps,
                                      .prefetches = roll.coin()};
  if (roll.coin()) costs.host_per_operator = static_cast<double>(roll.from(1, 300)) * 1_us;
  if (roll.coin()) costs.host_per_collective = 200_us;
  if (roll.one_in(3)) costs.host_per_rank = 20_us;
  if (roll.one_in(3)) costs.wait_per_node = 100_us;
  if (roll.one_in(3)) costs.stalled_send = 20_ms;
  if (roll.one_in(3)) costs.contention = 0.3;
  if (roll.one_in(4)) costs.hides_gradients = costs.hides_gathers = costs.hides_parameters = false;
  if (roll.one_in(4)) costs.gathered_at_most = 20_GBps;
  if (roll.coin()) costs.hidden_tensor_communication = 0.4;
  if (roll.coin()) step.model.efficiency.kernel_floor = 8_us;
  if (roll.one_in(4) && step.model.on.gpu.pcie)
    setup.parallelism.optimizer_on_host = setup.parallelism.weights_on_host = true;
  if (roll.one_in(4) && step.model.on.gpu.dense.fp8) setup.precision = bf16_mixed_with_fp8;
  if (roll.one_in(4)) {
    setup.trains = {.what = training::last_layers, .last_layers = 1};
  } else if (roll.one_in(4)) {
    setup.trains.what = training::adapters;
    setup.trains.adapters.targets = {.query = true, .key = true, .value = true};
    setup.trains.adapters.rank = 16;
  }
  if (roll.one_in(3)) setup.recompute = recompute_mode::selective;
  if (roll.one_in(4)) setup.recompute_period = 2;
  if (roll.one_in(3)) {
    setup.model.sliding_window = 256;
    setup.model.global_layer_step = 2;
  }
  parallelism& layout = setup.parallelism;
  if (layout.pipeline_parallel > 1 && step.plan.accumulation >= 2 * layout.pipeline_parallel)
    layout.schedule = static_cast<pipeline_schedule>(roll.from(0, last_schedule));
  if (traits_of(layout.schedule).folds) layout.virtual_pipeline = 2;
  if (roll.one_in(4)) setup.optimizer.kind = optimizer_kind::muon;
  if (roll.one_in(3)) setup.model.moe.moe_latent_size = setup.model.moe.num_experts != 0 ? 512 : 0;
  setup.framework.engine.reduces_every_micro_batch = roll.coin();
  return step;
}

// The value of "8 micro-batches x (61.705 GB / 366.16 GB/s + 99 x 216.04 us - 1 ms beside other
// work)" in base units: numbers, x and / before + and -, and one pair of brackets.
class worked_out {
 public:
  explicit worked_out(const std::string& formula) : at_(formula.c_str()) {}

  double sum() {
    double value = product();
    while (*at_ == '+' || *at_ == '-') {
      const bool adds = *at_++ == '+';
      const double next = product();
      value += adds ? next : -next;
    }
    return value;
  }

 private:
  double product() {
    double value = factor();
    while (*at_ == 'x' || *at_ == '/') {
      const bool times = *at_++ == 'x';
      const double next = factor();
      value = times ? value * next : value / next;
    }
    return value;
  }
  double factor() {
    skip();
    if (*at_ == '(') {
      ++at_;
      const double value = sum();
      REQUIRE(*at_ == ')');
      ++at_;
      skip();
      return value;
    }
    char* end = nullptr;
    const double value = std::strtod(at_, &end);
    REQUIRE(end != at_);
    at_ = end;
    skip();
    std::string words;
    while (*at_ != '\0' && (*at_ != 'x' || words.empty() || words.back() != ' ') && *at_ != ')' &&
           *at_ != '+' && !(*at_ == '/' && at_[1] == ' ') && !(*at_ == '-' && at_[1] == ' ') &&
           !(words.empty() && *at_ == 'x'))
      words += *at_++;
    const std::string unit = words.substr(0, words.find(' '));
    if (unit.empty() || unit == "micro-batches") return value;
    for (const char* base : {"FLOP/s", "FLOP", "B/s", "B", "s"}) {
      const std::size_t length = std::string(base).size();
      if (unit.size() < length || unit.substr(unit.size() - length) != base) continue;
      return value * prefix(unit.substr(0, unit.size() - length));
    }
    FAIL("no unit: " << unit);
    return value;
  }
  static double prefix(const std::string& text) {
    if (text.empty()) return 1;
    for (const auto& [letter, times] : {std::pair{"n", 1e-9},
                                        {"u", 1e-6},
                                        {"m", 1e-3},
                                        {"k", 1e3},
                                        {"M", 1e6},
                                        {"G", 1e9},
                                        {"T", 1e12},
                                        {"P", 1e15},
                                        {"E", 1e18}})
      if (text == letter) return times;
    FAIL("no prefix: " << text);
    return 0;
  }
  void skip() {
    while (*at_ == ' ') ++at_;
  }

  const char* at_;
};

double saved(const time_explanation& of, time_resource resource) {
  return of.savings[static_cast<std::size_t>(resource)].saved.value();
}

constexpr roofline_time gpt2_on_one{.setup = {.model = catalog::gpt2,
                                              .sequence_length = 1024,
                                              .precision = bf16_mixed,
                                              .framework = catalog::torchtitan},
                                    .on = {.gpu = catalog::a100_sxm4_80gb},
                                    .efficiency = catalog::ampere};
constexpr time_explanation of_gpt2 = explain_time(gpt2_on_one, {.micro_batch = 8});

}  // namespace

TEST_CASE("pieces add up to each part of the step, and what is bound to all of it") {
  dice roll{std::mt19937_64{41}};
  int with[time_resources] = {};
  for (int i = 0; i < 3000; ++i) {
    const random_step step = roll_varied_step(roll);
    REQUIRE_MESSAGE(validate(step.model),
                    std::string(failure_text(validate(step.model).why()).c_str()));
    const time_explanation why = explain_time(step.model, step.plan);
    const step_breakdown parts = step.model.breakdown(step.plan);
    CHECK(why.step == parts.total());
    for (duration step_breakdown::*const part : all_parts) {
      double sum = 0;
      for (const time_piece& piece : why.pieces())
        if (piece.part == part) sum += piece.time().value();
      CHECK(std::fabs(sum - (parts.*part).value()) <= 1e-9 * why.step.value());
    }
    double bound = 0;
    for (const time_saving& one : why.savings) {
      bound += one.bound.value();
      with[static_cast<int>(one.of)] += one.bound > 0_s ? 1 : 0;
    }
    CHECK(bound == doctest::Approx(why.step.value()).epsilon(1e-9));
    const int zero_stage = step.model.setup.parallelism.zero_stage;
    for (const time_piece& piece : why.pieces()) {
      // Ranks that share nothing gather no weights, be it behind other work.
      if (piece.cause == time_cause::weights) CHECK(zero_stage > 0);
      CHECK(piece.time().value() >= -1e-9 * why.step.value());
      CHECK(piece.amount >= 0);
      if (piece.calls == 0) CHECK(piece.latency == 0);
      CHECK(piece.hidden >= -1e-9 * why.step.value());
    }
  }
  for (const int steps : with) CHECK(steps > 50);
}

TEST_CASE("formulas can be worked out by hand") {
  dice roll{std::mt19937_64{42}};
  for (int i = 0; i < 300; ++i) {
    const random_step step = roll_varied_step(roll);
    const time_explanation why = explain_time(step.model, step.plan);
    for (const time_piece& piece : why.pieces()) {
      const std::string text = io::formula(piece);
      CAPTURE(text);
      // five figures of each number, two of which are divided; of what is subtracted too
      const double figures =
          1e-4 * (piece.time().value() + 1.5 * piece.times * std::fabs(piece.hidden));
      CHECK(std::fabs(worked_out(text).sum() - piece.time().value()) <= figures + 1e-12);
    }
  }
}

TEST_CASE("what is saved is what a better device or link takes less") {
  dice roll{std::mt19937_64{43}};
  const auto same = [](double a, double b, double step) { return std::fabs(a - b) < 1e-9 * step; };
  int helped[time_resources] = {};
  for (int i = 0; i < 400; ++i) {
    const random_step given = roll_varied_step(roll);
    const roofline_time& model = given.model;
    const time_explanation why = explain_time(model, given.plan);
    const auto check = [&](time_resource resource, const roofline_time& better) {
      const double less = (why.step - better.step(given.plan)).value();
      CHECK(same(saved(why, resource), less, why.step.value()));
      helped[static_cast<int>(resource)] += less > 0 ? 1 : 0;
    };
    roofline_time better = model;
    better.on.gpu.memory_bandwidth = 1.1 * better.on.gpu.memory_bandwidth;
    check(time_resource::memory, better);
    better = model;
    better.on.inside_node = 1.1 * *better.on.inside_node;
    check(time_resource::link_inside_node, better);
    better = model;
    better.on.between_nodes = 1.1 * *better.on.between_nodes;
    check(time_resource::link_between_nodes, better);
    better = model;
    for (double device_efficiency::*const share : {&device_efficiency::products,
                                                   &device_efficiency::products_fp32,
                                                   &device_efficiency::products_fp8,
                                                   &device_efficiency::products_fp8_by_row})
      better.efficiency.*share *= 1.1;
    check(time_resource::matmuls, better);
    better = model;
    better.efficiency.attention_forward *= 1.1;
    better.efficiency.attention_backward *= 1.1;
    check(time_resource::attention, better);
    better = model;
    better.efficiency.kernel_floor = better.efficiency.kernel_floor / 1.1;
    check(time_resource::kernel_floor, better);
    better = model;
    software_costs& costs = better.setup.framework.costs;
    for (duration software_costs::*const cost : {&software_costs::host_per_operator,
                                                 &software_costs::host_per_collective,
                                                 &software_costs::host_per_rank,
                                                 &software_costs::host_per_step})
      costs.*cost = costs.*cost / 1.1;
    check(time_resource::host, better);
    better = model;
    better.straggler_slowdown = 1 + (model.straggler_slowdown - 1) / 1.1;
    check(time_resource::stragglers, better);
    // one GPU a node, so that no step is inside one
    roofline_time apart = model;
    apart.on.nodes = 512;
    apart.on.gpus_per_node = 1;
    better = apart;
    better.on.collective_launch = collective_launch / 1.1;
    better.on.hop_between = link_data::infiniband.hop / 1.1;
    better.setup.framework.costs.wait_per_node = better.setup.framework.costs.wait_per_node / 1.1;
    better.setup.framework.costs.stalled_send = better.setup.framework.costs.stalled_send / 1.1;
    const time_explanation far = explain_time(apart, given.plan);
    const double less = (far.step - better.step(given.plan)).value();
    CHECK(same(saved(far, time_resource::communication_latency), less, far.step.value()));
  }
  for (const time_resource resource : {time_resource::memory,
                                       time_resource::matmuls,
                                       time_resource::attention,
                                       time_resource::kernel_floor,
                                       time_resource::host,
                                       time_resource::stragglers,
                                       time_resource::link_inside_node,
                                       time_resource::link_between_nodes})
    CHECK(helped[static_cast<int>(resource)] > 50);
}

TEST_CASE("the FLOPs of pieces are those that the model's shape has") {
  const auto flops_of = [](duration step_breakdown::*part, bool of_attention) {
    double sum = 0;
    for (const time_piece& piece : of_gpt2.pieces())
      if (piece.part == part && piece.unit == amount_unit::flop &&
          (piece.cause == time_cause::attention) == of_attention)
        sum += piece.amount;
    return doctest::Approx(sum).epsilon(1e-9);
  };
  const flop_counts counted =
      flops(catalog::gpt2, {.sequence_length = 1024, .pairs = attention_pairs::visible});
  const operator_flops& scores = counted[operator_kind::scores];
  const operator_flops& values = counted[operator_kind::weighted_values];
  const double forward = scores.forward + values.forward;
  const double backward = scores.backward + values.backward;
  CHECK(8 * forward == flops_of(&step_breakdown::forward, true));
  CHECK(8 * 2.5 * forward == flops_of(&step_breakdown::backward, true));
  CHECK(8 * (counted.forward().value() - forward) == flops_of(&step_breakdown::forward, false));
  CHECK(8 * (counted.backward().value() - backward) == flops_of(&step_breakdown::backward, false));
}

template <class T>
concept lends_pieces = requires(T explained) {
  static_cast<T&&>(explained).pieces();
};

TEST_CASE("a temporary explanation does not lend its pieces, which a loop would outlive") {
  static_assert(lends_pieces<const time_explanation&>);
  static_assert(!lends_pieces<time_explanation>);
}

TEST_CASE("Muon multiplies each matrix of the layers with itself in each step") {
  roofline_time time = gpt2_on_one;
  time.setup.optimizer.kind = optimizer_kind::muon;
  double flops = 0;
  const time_explanation explained = explain_time(time, {.micro_batch = 8});
  for (const time_piece& piece : explained.pieces())
    if (piece.part == &step_breakdown::optimizer && piece.unit == amount_unit::flop)
      flops += piece.times * piece.amount;
  // query, key and value, the output, and both of the MLP, in five iterations
  const auto iterated = [](double shorter, double longer) {
    return 5 * (4 * shorter * shorter * longer + 2 * shorter * shorter * shorter);
  };
  const double layer = iterated(768, 3 * 768) + iterated(768, 768) + 2 * iterated(768, 4 * 768);
  CHECK(flops == doctest::Approx(12 * layer).epsilon(1e-9));
  CHECK(time.breakdown({.micro_batch = 8}).optimizer.value() > flops / 312e12);
}

TEST_CASE("optimizers wait for a straggler, however slow it is, and for none that is as fast") {
  for (const double slowdown : {1.0, 1.5, 2.0, 3.0}) {
    roofline_time time = gpt2_on_one;
    time.straggler_slowdown = slowdown;
    double waits = 0;
    double all = 0;
    int named = 0;
    const time_explanation explained = explain_time(time, {.micro_batch = 8});
    for (const time_piece& piece : explained.pieces()) {
      if (piece.part != &step_breakdown::optimizer) continue;
      all += piece.time().value();
      if (piece.cause != time_cause::stragglers) continue;
      waits += piece.time().value();
      ++named;
    }
    CAPTURE(slowdown);
    CHECK(named == (slowdown == 1 ? 0 : 1));
    // Kernels' part of the passes is longer by as much.
    double passes = 0, slower = 0;
    for (const time_piece& piece : explained.pieces()) {
      if (piece.part != &step_breakdown::forward) continue;
      passes += piece.time().value();
      if (piece.cause == time_cause::stragglers) slower += piece.time().value();
    }
    CHECK((slower > 0) == (slowdown > 1));
    CHECK(slower <= passes * (slowdown - 1) / slowdown * (1 + 1e-9));
    CHECK(waits == doctest::Approx(all * (slowdown - 1) / slowdown).epsilon(1e-9));
  }
}

// By `collective_time`, of ranks that lie as far apart as those of the other dimensions are many.
TEST_CASE("messages take what a collective of their ranks, so far apart, does") {
  dice roll{std::mt19937_64{44}};
  int compared[static_cast<int>(time_cause::samples) + 1] = {};
  for (int i = 0; i < 1000; ++i) {
    random_step step = roll_step(roll);
    roofline_time& model = step.model;
    const parallelism& layout = model.setup.parallelism;
    software_costs& costs = model.setup.framework.costs;
    costs.wait_per_node = costs.stalled_send = {};
    costs.network_share = 1;
    costs.hides_gradients = costs.hides_parameters = false;  // one message of each
    if (!validate(model) || !validate(model, step.plan)) continue;
    const interconnect links = *interconnect_of(model.on);
    const std::int64_t tensor = layout.tensor_parallel;
    const std::int64_t context = layout.context_parallel;
    const std::int64_t replicas = step.plan.data_parallel * context;
    const bool has_experts = model.setup.model.moe.num_experts != 0;
    const time_explanation why = explain_time(model, step.plan);
    for (const time_piece& piece : why.pieces()) {
      const auto takes = [&](collective what, std::int64_t ranks, std::int64_t stride) {
        const double moving = piece.rate < detail::infinity ? piece.amount / piece.rate : 0;
        const bytes each = bytes::from_value(piece.amount / piece.calls);
        const double one =
            collective_time(what, each, group_of(ranks, stride, linked_gpus(model.on)), links)
                .value();
        CAPTURE(text(piece.cause));
        const double share = (moving + piece.calls * piece.latency) / (piece.calls * one);
        // Rings pass on twice as much in the backward, and two of unlike messages gain a little.
        const bool are_unlike = piece.cause == time_cause::ring;
        CHECK(share >= (are_unlike ? 0.98 : 1 - 1e-9));
        CHECK(share <= 1 + 1e-9);
        ++compared[static_cast<int>(piece.cause)];
      };
      switch (piece.cause) {
        case time_cause::all_reduces:
          takes(collective::all_reduce, tensor, 1);
          break;
        case time_cause::ring:
          takes(collective::send, context, tensor);
          break;
        case time_cause::all_to_alls:
          if (layout.expert_tensor_parallel > 1) break;  // two messages
          takes(collective::all_to_all, layout.expert_parallel, 1);
          break;
        case time_cause::sends:
        case time_cause::first_sends:
          takes(collective::send, 2, tensor * replicas);
          break;
        case time_cause::gradients:
          if (has_experts) break;  // two messages
          takes(layout.zero_stage == 0 ? collective::all_reduce : collective::reduce_scatter,
                replicas,
                tensor);
          break;
        case time_cause::weights:
          if (!has_experts) takes(collective::all_gather, replicas, tensor);
          break;
        default:
          break;
      }
    }
  }
  for (const time_cause cause : {time_cause::all_reduces,
                                 time_cause::ring,
                                 time_cause::all_to_alls,
                                 time_cause::sends,
                                 time_cause::first_sends,
                                 time_cause::gradients,
                                 time_cause::weights})
    CHECK(compared[static_cast<int>(cause)] > 50);
}

TEST_CASE("what ranks share moves at the rate of their links, or as fast as the software does") {
  dice roll{std::mt19937_64{45}};
  int compared = 0;
  for (int i = 0; i < 600; ++i) {
    random_step step = roll_step(roll);
    roofline_time& model = step.model;
    model.setup.framework = catalog::torchtitan;
    parallelism& layout = model.setup.parallelism;
    layout.pipeline_parallel = layout.expert_parallel = 1;
    layout.zero_stage = static_cast<int>(roll.from(2, 3));
    model.terms.latency = false;  // so that all are as fast
    software_costs& costs = model.setup.framework.costs;
    costs.network_share = 1;
    costs.gathered_at_most = roll.coin() ? 1_GBps : bandwidth{};
    if (!validate(model) || !validate(model, step.plan)) continue;
    interconnect links = *interconnect_of(model.on);
    links.launch = links.inside.hop = links.between.hop = {};
    links.inside.ramp = links.between.ramp = {};
    const std::int64_t ranks = step.plan.data_parallel * layout.context_parallel;
    const device_group group = group_of(ranks, layout.tensor_parallel, linked_gpus(model.on));
    const time_explanation explained = explain_time(model, step.plan);
    for (const time_piece& piece : explained.pieces()) {
      if (piece.cause != time_cause::sharded_weights) continue;
      const bytes all = bytes::from_value(piece.amount);
      const double sent =
          piece.amount * static_cast<double>(ranks - 1) / static_cast<double>(ranks);
      const double takes = costs.gathered_at_most > bandwidth{}
                               ? sent / costs.gathered_at_most.value()
                               : collective_time(collective::all_gather, all, group, links).value();
      CHECK(piece.amount / piece.rate + piece.calls * piece.latency == doctest::Approx(takes));
      ++compared;
    }
  }
  CHECK(compared > 100);
}

TEST_CASE("gradients that are reduced once a step are exchanged once, whatever its micro-batches") {
  for (const bool hides : {false, true})
    for (const std::int64_t nodes : {1, 4}) {
      roofline_time each{.setup = {.model = catalog::qwen3_8b,
                                   .sequence_length = 1024,
                                   .precision = bf16_mixed,
                                   .parallelism = {.zero_stage = 3},
                                   .framework = catalog::torchtitan},
                         .on = {.gpu = catalog::h100_sxm5_80gb, .nodes = nodes, .gpus_per_node = 8},
                         .efficiency = catalog::hopper};
      if (nodes > 1) each.on.between_nodes = 5_GBps;
      each.setup.framework.costs.hides_gathers = hides;
      roofline_time once = each;
      once.setup.framework.engine.reduces_every_micro_batch = false;
      const auto step = [&](const roofline_time& of, std::int64_t accumulation) {
        return of.step({.micro_batch = 1, .data_parallel = 8 * nodes, .accumulation = accumulation})
            .value();
      };
      CHECK(step(once, 1) == doctest::Approx(step(each, 1)));
      // what a micro-batch takes more where it reduces
      const double reduction = (step(each, 2) - step(each, 1)) - (step(once, 2) - step(once, 1));
      CHECK(reduction > 0);
      CHECK(step(each, 7) - step(once, 7) == doctest::Approx(6 * reduction));
      const auto sent = [](const roofline_time& of, const batch_plan& plan) {
        double bytes = 0;
        const time_explanation why = explain_time(of, plan);
        for (const time_piece& piece : why.pieces())
          if (piece.unit == amount_unit::byte &&
              (piece.cause == time_cause::gradients || piece.cause == time_cause::sharded_weights))
            bytes += piece.times * piece.amount;
        return bytes;
      };
      const batch_plan plan{.micro_batch = 1, .data_parallel = 8 * nodes, .accumulation = 4};
      const double gradients = bits_per_element(once.setup.precision.reduced) / 8.0;
      const auto parameters_of_all = static_cast<double>(parameters(catalog::qwen3_8b).total());
      CHECK(sent(each, plan) - sent(once, plan) ==
            doctest::Approx(3 * gradients * parameters_of_all).epsilon(0.01));
    }
}

TEST_CASE("each matrix of adapters is a message of its own where FSDP 1 wraps it") {
  constexpr std::int64_t layers = 16;   // of Llama 3.2 1B
  constexpr std::int64_t matrices = 4;  // of adapters of queries and values
  roofline_time model{
      .setup = {.model = catalog::llama_3_2_1b,
                .sequence_length = 1024,
                .parallelism = {.zero_stage = 3},
                .framework = catalog::hugging_face_llama},
      .on = {.gpu = catalog::h100_sxm5_80gb, .gpus_per_node = 8, .inside_node = 450_GBps}};
  model.setup.trains.what = training::adapters;
  model.setup.trains.adapters.rank = 16;
  const batch_plan plan{.micro_batch = 1, .data_parallel = 8};
  const auto calls = [&](const engine_class& by, recompute_mode recompute) {
    model.setup.framework.engine.is = &by;
    model.setup.precision = &by == &engine_classes::fsdp1 ? bf16_under_autocast : bf16_pure;
    model.setup.recompute = recompute;
    REQUIRE(validate(model, plan));
    double sum = 0;
    const time_explanation explained = explain_time(model, plan);
    for (const time_piece& piece : explained.pieces())
      if (piece.cause == time_cause::sharded_weights) sum += piece.calls;
    return sum;
  };
  // For the forward, for the backward, where the last layer is still there, and in the place of one
  // message of a layer's gradients; where layers are computed again, for that too.
  const double more = matrices * (layers + layers - 1) + (matrices - 1) * layers;
  CHECK(calls(engine_classes::fsdp1, recompute_mode::none) ==
        doctest::Approx(calls(engine_classes::fsdp2, recompute_mode::none) + more));
  CHECK(calls(engine_classes::fsdp1, recompute_mode::full) ==
        doctest::Approx(calls(engine_classes::fsdp2, recompute_mode::full) + more +
                        matrices * (layers - 1)));
}

TEST_CASE("weights are waited for where the adapters' own messages are all that is ahead") {
  roofline_time model{.setup = {.model = catalog::llama_3_2_1b,
                                .sequence_length = 2048,
                                .parallelism = {.zero_stage = 3},
                                .framework = catalog::hugging_face_llama},
                      .on = {.gpu = catalog::rtx_3090, .gpus_per_node = 2, .inside_node = 6_GBps}};
  model.setup.trains.what = training::adapters;
  model.setup.trains.adapters.rank = 16;
  const auto waiting = [&](const engine_class& by, std::int64_t micro_batch) {
    model.setup.framework.engine.is = &by;
    model.setup.precision = &by == &engine_classes::fsdp1 ? bf16_under_autocast : bf16_pure;
    const batch_plan plan{.micro_batch = micro_batch, .data_parallel = 2};
    REQUIRE(validate(model, plan));
    return model.breakdown(plan).parameter_communication.value();
  };
  // The 16 layers' 60,821,504 weights in bf16 each, half of them from the other, in the forward
  // pass and but for the last layer in the backward pass.
  const interconnect links = *interconnect_of(model.on);
  const double each = 60821504.0 * 2 / 2 / (links.inside_node.value() * links.inside.ring_share);
  for (const std::int64_t micro_batch : {4, 16}) {
    CAPTURE(micro_batch);
    CHECK(waiting(engine_classes::fsdp1, micro_batch) > (16 + 15) * each);
    CHECK(waiting(engine_classes::fsdp2, micro_batch) < 0.5 * (16 + 15) * each);
  }
}

// Of large messages on a slow link all is its rate, and of small ones all is latency.
TEST_CASE("a link that is a little better saves its own part of the step alone") {
  for (const bool in_node : {true, false})
    for (const bool is_slow : {true, false}) {
      CAPTURE(in_node);
      CAPTURE(is_slow);
      roofline_time model = gpt2_on_one;
      model.setup.framework = catalog::megatron_lm;
      model.setup.framework.costs = {};
      model.setup.precision = bf16_megatron;
      model.setup.parallelism = {.tensor_parallel = 4};
      model.setup.sequence_length = is_slow ? 1024 : 4;
      const bandwidth rate = is_slow ? 100_MBps : 1e6 * 1_GBps;
      model.on = {.gpu = catalog::a100_sxm4_80gb,
                  .nodes = in_node ? 1 : 4,
                  .gpus_per_node = in_node ? 4 : 1,
                  .inside_node = rate,
                  .between_nodes = rate};
      const batch_plan plan{1, 1, 1};
      REQUIRE(validate(model));
      REQUIRE(validate(model, plan));
      const time_explanation why = explain_time(model, plan);
      const double of_links = model.breakdown(plan).tensor_communication.value();
      const time_resource link =
          in_node ? time_resource::link_inside_node : time_resource::link_between_nodes;
      const time_resource other =
          in_node ? time_resource::link_between_nodes : time_resource::link_inside_node;
      // A tenth better saves an eleventh of it.
      const double all = of_links / 11;
      CHECK(of_links > 0);
      CHECK(saved(why, link) == doctest::Approx(is_slow ? all : 0).epsilon(0.02).scale(all));
      CHECK(saved(why, time_resource::communication_latency) ==
            doctest::Approx(is_slow ? 0 : all).epsilon(0.02).scale(all));
      CHECK(saved(why, other) == doctest::Approx(0).scale(all));
      const auto bound = [&](time_resource by) {
        return why.savings[static_cast<std::size_t>(by)].bound.value();
      };
      CHECK(bound(is_slow ? link : time_resource::communication_latency) ==
            doctest::Approx(of_links));
      CHECK(bound(other) == 0);
    }
}

// Weights are shared inside a node and gradients added up between nodes too, which takes the longer
// the slower these links are: how long, two rates tell.
TEST_CASE("what is shared waits for links between nodes where these take more than half of it") {
  int between = 0;
  int inside = 0;
  for (const double link : {50, 150, 300}) {
    const auto at = [&](double rate) {
      roofline_time model = gpt2_on_one;
      model.setup.framework.costs = {};
      model.setup.parallelism = {.zero_stage = 3, .shard_group = 8};
      model.terms.latency = false;
      model.on.nodes = 2;
      model.on.gpus_per_node = 8;
      model.on.inside_node = link * 1_GBps;
      model.on.between_nodes = rate * 1_GBps;
      const batch_plan plan{8, 16, 1};
      REQUIRE(validate(model));
      REQUIRE(validate(model, plan));
      const time_explanation why = explain_time(model, plan);
      for (const time_piece& piece : why.pieces())
        if (piece.cause == time_cause::sharded_weights) return piece;
      return time_piece{};
    };
    const auto takes = [&](double rate) { return at(rate).amount / at(rate).rate; };
    const double of_slowest = 2 * (takes(1) - takes(2));  // of these links alone, at 1 GB/s
    REQUIRE(of_slowest > 0);
    for (const double rate : {2, 5, 10, 15, 20, 30, 40, 60, 80, 120}) {
      const double share = of_slowest / rate / takes(rate);
      if (std::abs(share - 0.5) < 0.01) continue;
      CAPTURE(link);
      CAPTURE(rate);
      CAPTURE(share);
      CHECK((at(rate).bound_by == time_resource::link_between_nodes) == (share > 0.5));
      (share > 0.5 ? between : inside) += 1;
    }
  }
  CHECK(between > 5);
  CHECK(inside > 5);
}
