// The time of eager steps from their replay: the host's part and the device's, each against sums
// that need no order, and both together.

#include <gpuplan/catalog/framework_parts.hpp>
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/communication.hpp>
#include <gpuplan/memory/step_trace.hpp>
#include <gpuplan/replay/counts.hpp>
#include <gpuplan/replay/device_kernels.hpp>
#include <gpuplan/replay/step_time.hpp>
#include <gpuplan/require.hpp>
#include <gpuplan/time/layers.hpp>

#include <cmath>
#include <random>
#include <string>

#include "check.hpp"

using namespace gpuplan;

namespace {

constexpr transformer two_layers = [] {
  transformer model = catalog::gpt2;
  model.num_hidden_layers = 2;
  return model;
}();
constexpr training_setup gpt{.model = two_layers,
                             .sequence_length = 256,
                             .precision = bf16_mixed,
                             .framework = catalog::hugging_face_gpt2};
constexpr host_costs no_host{{}, {}, {}, {}, {}};
// Kernels that take no time at all.
constexpr kernel_shares at_once{.products = 1e12,
                                .fp32_products = 1e12,
                                .odd_products = 1,
                                .odd_gradients = 1,
                                .unaligned_products = 1,
                                .flash_forward = {1e12},
                                .flash_backward = {1e12},
                                .elements = 1e12,
                                .widening = 1e12,
                                .strided = 1e12,
                                .updates = {1e12, 1e12},
                                .norms = {1e12, 1e12},
                                .rms_norms = {1e12, 1e12},
                                .norm_gradients = {1e12, 1e12},
                                .softmaxes = {1e12, 1e12},
                                .softmax_gradients = {1e12, 1e12},
                                .sums = {1e12, 1e12},
                                .between = {},
                                .reduction = {},
                                .product = {},
                                .unfolding = {},
                                .idle = {},
                                .joules_per_flop = 0,
                                .joules_per_byte = 0};

double seconds(const replayed_time& model, const batch_plan& plan = {.micro_batch = 2}) {
  return model.step(plan)->value();
}

}  // namespace

TEST_CASE("a host without a device takes what its operators and launches cost") {
  const replayed_time model{
      .setup = gpt, .on = {.gpu = catalog::h100_sxm5_80gb}, .kernels = at_once};
  const step_work work = *counts_of(gpt, {.micro_batch = 2})->work;
  double expected = 0;
  const auto add = [&](const work_counts& part, duration each) {
    const std::int64_t calls = part.launches + part.products + part.fills + part.copies;
    expected += static_cast<double>(part.operators) * each.value() +
                static_cast<double>(calls - part.operators) * model.host.launch.value();
  };
  add(work.forward, model.host.forward);
  add(work.backward, model.host.backward);
  add(work.optimizer, model.host.optimizer);
  CHECK(seconds(model) == doctest::Approx(expected).epsilon(1e-6));
  const auto parts = model.breakdown({.micro_batch = 2});
  CHECK(parts->host.value() == doctest::Approx(expected).epsilon(1e-6));
  CHECK(parts->total().value() == doctest::Approx(seconds(model)));
}

TEST_CASE("a device that never waits takes its kernels, one after the other") {
  kernel_shares all;  // of the data sheet
  all.products = all.fp32_products = all.odd_products = all.odd_gradients = 1;
  all.unaligned_products = all.elements = all.widening = all.strided = 1;
  all.updates = all.norms = all.rms_norms = all.norm_gradients = all.softmaxes =
      all.softmax_gradients = all.sums = {};
  all.flash_forward = all.flash_backward = {1};
  all.between = all.reduction = all.product = {};
  all.joules_per_flop = all.joules_per_byte = 0;
  const replayed_time model{
      .setup = gpt, .on = {.gpu = catalog::h100_sxm5_80gb}, .kernels = all, .host = no_host};
  const step_counts counts = *counts_of(gpt, {.micro_batch = 2});
  const step_work& work = *counts.work;
  const double flops = work.forward.product_flops.value() + work.backward.product_flops.value();
  const double bytes =
      (work.forward.traffic + work.backward.traffic + work.optimizer.traffic).value();
  const double computing = flops / peak(model.on.gpu, number_format::bf16)->value();
  const double moving = bytes / model.on.gpu.memory_bandwidth.value();
  CHECK(model.breakdown({.micro_batch = 2})->host == duration{});
  CHECK(seconds(model) > computing);
  // Tiles that are not full, and what is changed in place, take less than as long again.
  CHECK(seconds(model) < 2 * (computing + moving));
  // Each operator takes longer between kernels.
  replayed_time apart = model;
  apart.kernels.between = 1_us;
  std::int64_t calls = 0;
  for (const work_counts* part : {&work.forward, &work.backward, &work.optimizer})
    calls += part->launches + part->products + part->fills + part->copies;
  CHECK(seconds(apart) - seconds(model) ==
        doctest::Approx(1e-6 * static_cast<double>(calls)).epsilon(1e-6));
}

TEST_CASE("the slower of both decides, and clocks fall under a power limit") {
  replayed_time model{.setup = gpt, .on = {.gpu = catalog::h100_sxm5_80gb}};
  const double both = seconds(model);
  replayed_time device = model;
  device.host = no_host;
  replayed_time host = model;
  host.kernels = at_once;
  CHECK(both >= seconds(device));
  CHECK(both >= seconds(host));
  CHECK(both <= seconds(device) + seconds(host));
  // Small steps wait for the host, large ones do not.
  CHECK(model.breakdown({.micro_batch = 1})->host.value() > 0.2 * seconds(model, {}));
  model.setup.sequence_length = 1024;
  const batch_plan large{.micro_batch = 64};
  CHECK(model.breakdown(large)->host.value() < 0.02 * seconds(model, large));
  replayed_time cold = model;
  cold.on.gpu.tdp = 350_W;
  CHECK(seconds(cold, large) > 1.01 * seconds(model, large));
  cold.on.gpu.tdp = {};
  CHECK(seconds(cold, large) <= seconds(model, large));
  // What is computed again takes time of its own.
  replayed_time again = model;
  again.setup.recompute = recompute_mode::full;
  const auto parts = again.breakdown(large);
  CHECK(parts->recompute > 0.05 * parts->forward);
  CHECK(parts->forward.value() ==
        doctest::Approx(model.breakdown(large)->forward.value()).epsilon(0.05));
  const auto layer = model.layer(large);
  CHECK(layer->forward > duration{});
  CHECK(layer->backward > layer->forward);
}

TEST_CASE("one micro-batch between the first and the last stands for all of them") {
  training_setup shared = gpt;
  shared.framework.engine.is = &engine_classes::fsdp2;
  training_setup recomputed = gpt;
  recomputed.recompute = recompute_mode::full;
  int timed = 0;
  for (const training_setup& setup : {gpt, recomputed, shared})
    for (const int zero_stage : {0, 1, 2, 3}) {
      replayed_time model{
          .setup = setup,
          .on = {.gpu = catalog::h100_sxm5_80gb, .gpus_per_node = 4, .inside_node = 20_GBps}};
      model.setup.parallelism.zero_stage = zero_stage;
      if (!validate(model.setup)) continue;
      for (const std::int64_t replicas : {1, 4})
        for (const std::int64_t many : {4, 7}) {
          const batch_plan plan{.micro_batch = 8, .data_parallel = replicas, .accumulation = many};
          CAPTURE(zero_stage);
          CAPTURE(replicas);
          const auto all = trace_of(model, plan);  // replays each
          REQUIRE(all);
          const step_breakdown few = *model.breakdown(plan);
          const double whole = all->parts.total().value();
          for (const auto part : {&step_breakdown::forward,
                                  &step_breakdown::backward,
                                  &step_breakdown::recompute,
                                  &step_breakdown::gradient_communication,
                                  &step_breakdown::parameter_communication,
                                  &step_breakdown::optimizer,
                                  &step_breakdown::host})
            CHECK(std::abs((few.*part - all->parts.*part).value()) < 1e-9 * whole);
          CHECK(model.interval(plan)->median.value() == doctest::Approx(whole).epsilon(1e-9));
          ++timed;
        }
    }
  CHECK(timed == 4 * 6);  // DDP has two stages of ZeRO, and so has FSDP2
}

TEST_CASE("of many micro-batches most are passed over, and the sums stay those of all") {
  for (const std::int64_t micro_batch : {1, 8})
    for (const double link : {1e8, 5e9, 2e10})
      for (const double between : {0.0, 2e-6})
        for (const int zero_stage : {0, 2, 3}) {
          replayed_time model{.setup = gpt,
                              .on = {.gpu = catalog::h100_sxm5_80gb,
                                     .gpus_per_node = 4,
                                     .inside_node = bandwidth::from_value(link)}};
          if (zero_stage != 0) model.setup.framework.engine.is = &engine_classes::fsdp2;
          model.setup.parallelism.zero_stage = zero_stage;
          model.kernels.between = duration::from_value(between);
          const batch_plan plan{.micro_batch = micro_batch, .data_parallel = 4, .accumulation = 77};
          CAPTURE(micro_batch);
          CAPTURE(link);
          CAPTURE(zero_stage);
          const auto all = trace_of(model, plan);
          REQUIRE(all);
          const step_breakdown few = *model.breakdown(plan);
          const double whole = all->parts.total().value();
          CHECK(few.total().value() == doctest::Approx(whole).epsilon(1e-8));
          CHECK(std::abs((few.host - all->parts.host).value()) < 1e-8 * whole);
          CHECK(std::abs((few.communication() - all->parts.communication()).value()) <
                1e-8 * whole);
          // As many as a replay may have are worked out too, and each takes as long as the others.
          const auto takes = [&](std::int64_t many) {
            return seconds(model,
                           {.micro_batch = micro_batch, .data_parallel = 4, .accumulation = many});
          };
          const std::int64_t many = std::int64_t{1} << 16;
          CHECK(takes(4 * many) - takes(2 * many) ==
                doctest::Approx(2 * (takes(2 * many) - takes(many))).epsilon(1e-6));
        }
}

namespace {

// Two layers, on eight devices of a node whose links are as fast as said.
replayed_time on_a_node(bandwidth link, const framework& software, int zero_stage) {
  replayed_time model{
      .setup = gpt,
      .on = {.gpu = catalog::h100_sxm5_80gb, .gpus_per_node = 8, .inside_node = link},
      .host = no_host};
  model.setup.framework = software;
  model.setup.framework.costs.contention = 0;
  model.setup.parallelism.zero_stage = zero_stage;
  return model;
}
constexpr batch_plan on_eight{.micro_batch = 2, .data_parallel = 8};
double communication(const replayed_time& model, const batch_plan& plan = on_eight) {
  return model.breakdown(plan)->communication().value();
}
framework fully_sharded() {
  framework software = catalog::hugging_face_gpt2;
  software.engine = catalog::engines::fsdp2;
  return software;
}

}  // namespace

TEST_CASE("ranks exchange gradients beside the backward, but for the last bucket") {
  const replayed_time fast = on_a_node(450_GBps, catalog::hugging_face_gpt2, 0);
  const replayed_time slow = on_a_node(1_GBps, catalog::hugging_face_gpt2, 0);
  // No link hides the last bucket, no kernels hide a link that is much slower than they.
  const double gradients = 4.0 * static_cast<double>(counts_of(gpt, {.micro_batch = 2})->trainable);
  const double all = collective_time(collective::all_reduce,
                                     bytes::from_value(gradients),
                                     group_of(8, 1, 8),
                                     *interconnect_of(slow.on))
                         .value();
  CHECK(communication(fast) > 0);
  CHECK(communication(fast) < 0.3 * fast.breakdown(on_eight)->backward.value());
  CHECK(communication(slow) < 1.2 * all);
  CHECK(communication(slow) + slow.breakdown(on_eight)->backward.value() > all);
  // Micro-batches that are added up do not exchange, and contention costs what is hidden.
  const double twice =
      communication(slow, {.micro_batch = 2, .data_parallel = 8, .accumulation = 2});
  CHECK(twice == doctest::Approx(communication(slow)).epsilon(0.01));
  replayed_time contended = fast;
  contended.setup.framework.costs.contention = 0.5;
  CHECK(seconds(contended, on_eight) > seconds(fast, on_eight));
}

TEST_CASE("a step of several ranks is that of one and what it waits for") {
  for (const int zero_stage : {0, 1, 2, 3}) {
    CAPTURE(zero_stage);
    const framework software = zero_stage < 2 ? catalog::hugging_face_gpt2 : fully_sharded();
    const replayed_time model = on_a_node(100_GBps, software, zero_stage);
    const auto parts = model.breakdown(on_eight);
    REQUIRE(parts);
    const double whole = parts->total().value();
    CHECK(whole == doctest::Approx(seconds(model, on_eight)));
    CHECK(parts->communication() > duration{});
    CHECK((parts->parameter_communication > duration{}) == (zero_stage > 0));
    // Faster links never cost, and slower ones cost no more than the bytes that they carry.
    double before = 1e9;
    for (const bandwidth& link : {1_GBps, 10_GBps, 100_GBps, 1000_GBps}) {
      const double now = seconds(on_a_node(link, software, zero_stage), on_eight);
      CHECK(now <= before * 1.0000001);
      before = now;
    }
    // Parts are never negative.
    for (const duration& part : {parts->forward, parts->backward, parts->optimizer, parts->host})
      CHECK(part >= duration{});
  }
  // ZeRO-3 gathers twice, ZeRO-2 once.
  CHECK(communication(on_a_node(1_GBps, fully_sharded(), 3)) >
        1.2 * communication(on_a_node(1_GBps, fully_sharded(), 2)));
}

TEST_CASE("an interval holds what hosts, links and kernels leave open") {
  // Of the host alone: as far as machines differ, and kernels scatter.
  replayed_time of_host{.setup = gpt, .on = {.gpu = catalog::h100_sxm5_80gb}, .kernels = at_once};
  const batch_plan plan{.micro_batch = 2};
  const double deviations = 1.2816;
  const double both = std::hypot(of_host.host.spread, of_host.kernels.scatter);
  const time_interval open = *of_host.interval(plan);
  CHECK(open.median.value() == doctest::Approx(seconds(of_host)));
  CHECK(open.high / open.median == doctest::Approx(std::exp(deviations * both)).epsilon(0.002));
  CHECK(open.median / open.low == doctest::Approx(std::exp(deviations * both)).epsilon(0.002));
  // Of the device alone, what its kernels scatter.
  const replayed_time of_device{
      .setup = gpt, .on = {.gpu = catalog::h100_sxm5_80gb}, .host = no_host};
  const time_interval device = *of_device.interval(plan);
  CHECK(device.high / device.low ==
        doctest::Approx(std::exp(2 * deviations * of_device.kernels.scatter)).epsilon(0.002));
  // Wider for more of the steps, and where links are waited for.
  CHECK(of_host.interval(plan, 0.95)->high > open.high);
  CHECK(of_host.interval(plan, 0.5)->high < open.high);
  replayed_time linked = on_a_node(1_GBps, catalog::hugging_face_gpt2, 0);
  linked.host = no_host;
  const time_interval waits = *linked.interval(on_eight);
  CHECK(waits.high / waits.low > 1.2 * (device.high / device.low));
  CHECK(!linked.interval({.data_parallel = 1024}));
}

TEST_CASE("what is not counted is refused") {
  const auto refusal = [](const replayed_time& model, const batch_plan& plan) {
    return std::string(failure_text(model.step(plan).why()).c_str());
  };
  replayed_time model{.setup = gpt, .on = {.gpu = catalog::h100_sxm5_80gb}};
  CHECK(refusal(model, {.data_parallel = 2}).find("data_parallel 2") != std::string::npos);
  model.on.gpus_per_node = 2;
  model.on.gpu.peers = {};
  model.on.gpu.pcie = {};
  CHECK(!refusal(model, {.data_parallel = 2}).empty());  // no link is known
  model.on.gpu = catalog::rtx_2080_ti;
  CHECK(!refusal(model, {}).empty());  // it has no bf16
  model = {.setup = gpt, .on = {.gpu = catalog::h100_sxm5_80gb}};
  model.setup.framework = catalog::lit_gpt;
  CHECK(!model.step({}));
}

namespace {
constexpr duration of_two_layers = require([] {
  return replayed_time{.setup = gpt, .on = {.gpu = catalog::h100_sxm5_80gb}}.step(
      {.micro_batch = 2});
});
static_assert(of_two_layers > 1_ms && of_two_layers < 20_ms);
}  // namespace

namespace {

// What the operators of the model's second layer move beside products and fused attention.
class moved_by_layer final : public eager::memory_events {
 public:
  int allocate(std::int64_t, int) override { return 0; }
  void release(int) override {}
  [[nodiscard]] bool counts_work() const override { return true; }
  void begin(eager::moment now, int layer) override { in_layer_ = layer == 1 && !is_update(now); }
  void execute(const eager::device_work& work, bool in_backward) override {
    if (!is_on || !in_layer_ || work.is_shared) return;
    pass& to = in_backward ? backward : forward;
    ++to.operators;
    if (work.products == 0 && work.attention_flops == 0)
      to.bytes += static_cast<double>(work.bytes - work.elsewhere + work.in_place);
  }

  struct pass {
    double bytes = 0;
    double operators = 0;
  };
  pass forward, backward;
  bool is_on = false;

 private:
  bool in_layer_ = false;
};

moved_by_layer moved(const training_setup& setup, std::int64_t micro_batch) {
  moved_by_layer events;
  eager::train(events, setup, {micro_batch, 1, 1}, {}, nullptr, [&](eager::training_job& job) {
    job.settle();
    events.is_on = true;
    job.step();
  });
  return events;
}

double off(double value, double expected) { return std::abs(value / expected - 1); }

}  // namespace

TEST_CASE("bytes of a layer's operators by closed form are those of its events") {
  std::mt19937 random(7);
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  kernel_rates alike{.linear = 1, .linear_bytes = 4, .half = 1, .bytes = 1, .elements = 1};
  alike.attention_forward = alike.attention_backward = 1;
  for (int round = 0; round < 60; ++round) {
    training_setup setup{.model = catalog::bert_base_uncased,
                         .sequence_length = 8 * pick(4, 64),
                         .framework = catalog::torch_bert};
    const bool is_gpt = round % 2 == 0;
    if (is_gpt) {
      setup.model = catalog::gpt2;
      setup.framework = catalog::torch_gpt;
    }
    transformer& model = setup.model;
    model.head = transformer{}.head;
    model.num_hidden_layers = 3;
    model.num_attention_heads = pick(2, 16);
    model.hidden_size = 64 * model.num_attention_heads;
    model.intermediate_size = 8 * pick(64, 512);
    constexpr precision_recipe fp16_pure{.weights = number_format::fp16,
                                         .compute = number_format::fp16};
    setup.precision = pick(0, 2) == 0 ? fp32_precision : pick(0, 1) == 0 ? fp16_pure : bf16_mixed;
    const bool is_fused = pick(0, 1) == 0 && setup.precision.compute != number_format::fp32;
    setup.attention = is_fused ? attention_kernel::flash : attention_kernel::eager;
    setup.dropout = pick(0, 1) == 0 ? 0.1 : 0;
    const std::int64_t micro_batch = pick(2, 16);  // one needs fewer copies
    const moved_by_layer events = moved(setup, micro_batch);
    layer_kernels kernels;
    const layer_cost cost =
        cost_of_layer(setup, alike, micro_batch, layer_kind::dense, false, true, &kernels);
    const double again = setup.framework.costs.element_rate;
    CAPTURE(round);
    CAPTURE(is_gpt);
    CAPTURE(is_fused);
    CAPTURE(setup.dropout);
    CAPTURE(setup.precision.autocast());
    CHECK(again == 1);
    CHECK(off(cost.forward.elements + kernels.forward.score_bytes, events.forward.bytes) < 0.005);
    CHECK(off(cost.backward.elements + kernels.backward.score_bytes, events.backward.bytes) < 0.04);
    CHECK(std::abs(cost.forward.operators - events.forward.operators) <= (is_fused ? 0 : 1));
    CHECK(std::abs(cost.backward.operators - events.backward.operators) <= 1);
  }
}

TEST_CASE(
    "what transformers composes of GELU moves as many bytes by closed form as by its events") {
  kernel_rates alike{.linear = 1, .linear_bytes = 4, .half = 1, .bytes = 1, .elements = 1};
  alike.attention_forward = alike.attention_backward = 1;
  for (const precision_recipe& precision :
       {fp32_precision, bf16_pure, bf16_mixed, bf16_under_autocast}) {
    training_setup setup{.model = catalog::gpt2,
                         .sequence_length = 128,
                         .precision = precision,
                         .framework = catalog::hugging_face_gpt2};
    setup.model.num_hidden_layers = 3;
    const auto cost = [&] {
      return cost_of_layer(setup, alike, 4, layer_kind::dense, false, true);
    };
    const layer_cost composed = cost();
    const moved_by_layer events = moved(setup, 4);
    setup.model.hidden_act = activation_function::gelu_tanh;
    const layer_cost called = cost();
    const moved_by_layer of_one = moved(setup, 4);
    for (const auto& [pass, moves] :
         {std::pair{&layer_cost::forward, &moved_by_layer::forward},
          std::pair{&layer_cost::backward, &moved_by_layer::backward}}) {
      CHECK((composed.*pass).elements - (called.*pass).elements ==
            doctest::Approx((events.*moves).bytes - (of_one.*moves).bytes));
      CHECK((composed.*pass).operators - (called.*pass).operators ==
            (events.*moves).operators - (of_one.*moves).operators);
    }
    // An engine whose work is not counted runs the same operators, a person's code calls one.
    const auto added = [&](const framework& by) {
      setup.framework = by;
      setup.model.hidden_act = activation_function::gelu_new;
      const double with = cost().forward.elements;
      setup.model.hidden_act = activation_function::gelu_tanh;
      return with - cost().forward.elements;
    };
    framework sharded = catalog::hugging_face_gpt2;
    sharded.engine.is = &engine_classes::deepspeed;
    CHECK(added(sharded) == doctest::Approx(added(catalog::hugging_face_gpt2)));
    framework unfused = catalog::megatron_core;
    unfused.implementation.fuses_bias_activation = false;
    for (const framework& by : {catalog::torch_gpt,
                                catalog::torch_llama,
                                catalog::lit_gpt,
                                catalog::torchtitan,
                                catalog::torchtitan_2026,
                                catalog::megatron_core,
                                unfused})
      CHECK(added(by) == 0);
  }
}

TEST_CASE("layers that others measured take what published kernels of the device give") {
  // TFLOP/s of a layer of BERT-large in fp16 by 24 b s h^2 + 4 b s^2 h, of the forward pass and of
  // both: mli/transformers-benchmarks.
  struct published_layer {
    const gpu_spec& gpu;
    std::int64_t micro_batch, length;
    double forward, both;
  };
  const published_layer layers[] = {{catalog::rtx_a6000, 128, 128, 60, 70},
                                    {catalog::v100_sxm2_32gb, 128, 128, 53, 64},
                                    {catalog::rtx_4090, 128, 128, 99, 109},
                                    {catalog::rtx_3090_ti, 8, 128, 45.127, 45.81},
                                    {catalog::rtx_3090_ti, 32, 128, 50.962, 55.816},
                                    {catalog::rtx_3090_ti, 128, 128, 56.488, 61.768},
                                    {catalog::rtx_3090_ti, 2, 512, 39.007, 40.18},
                                    {catalog::rtx_3090_ti, 8, 512, 43.847, 48.017},
                                    {catalog::rtx_3090_ti, 32, 512, 47.698, 52.374},
                                    {catalog::rtx_3090_ti, 128, 512, 46.998, 52.613},
                                    {catalog::a100_sxm4_80gb, 128, 128, 110, 136}};
  double sum = 0;
  for (const published_layer& one : layers) {
    training_setup setup{.model = catalog::bert_large_uncased,
                         .sequence_length = one.length,
                         .framework = catalog::torch_bert};
    setup.model.head = transformer{}.head;
    setup.model.head_dense = setup.model.head_norm = true;
    setup.model.pooler = false;
    setup.model.num_hidden_layers = 3;
    setup.precision = {.weights = number_format::fp16, .compute = number_format::fp16};
    setup.attention = attention_kernel::eager;
    const replayed_time model{
        .setup = setup, .on = {.gpu = one.gpu}, .kernels = kernel_shares_of(one.gpu)};
    const layer_time takes = *model.layer({.micro_batch = one.micro_batch}, 1);
    const auto tokens = static_cast<double>(one.micro_batch * one.length);
    const double flops = tokens * (24 * 1024.0 * 1024 + 4 * static_cast<double>(one.length) * 1024);
    const double forward = takes.forward.value() * one.forward * 1e12 / flops;
    const double both = (takes.forward + takes.backward).value() * one.both * 1e12 / (3 * flops);
    const std::string gpu = one.gpu.id;
    CAPTURE(gpu);
    CAPTURE(one.micro_batch);
    CAPTURE(one.length);
    const bool is_a100 = gpu == catalog::a100_sxm4_80gb.id;
    CHECK((forward > (is_a100 ? 0.72 : 0.86) && forward < 1.07));
    CHECK((both > (is_a100 ? 0.92 : 0.96) && both < 1.24));
    if (!is_a100) sum += std::abs(forward - 1);
  }
  CHECK(sum / 10 < 0.055);
}
