// What holds of the time of any training step.

#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/time/explanation.hpp>
#include <gpuplan/time/roofline.hpp>
#include <gpuplan/time/stack_range.hpp>
#include <gpuplan/time/step_rates.hpp>

#include <cmath>
#include <cstdint>
#include <utility>

#include "check.hpp"
#include "random_step.hpp"

using namespace gpuplan;

TEST_CASE("a faster device or link never makes a step longer") {
  dice roll{std::mt19937_64{17}};
  for (int i = 0; i < 2000; ++i) {
    const random_step step = roll_step(roll);
    const duration before = step.model.step(step.plan);
    REQUIRE(before > 0_s);
    const auto longest = before * (1 + 1e-12);
    roofline_time faster = step.model;
    faster.on.gpu.dense.bf16 = *faster.on.gpu.dense.bf16 * 1.3;
    CHECK(static_cast<bool>(faster.step(step.plan) <= longest));
    faster = step.model;
    faster.on.gpu.memory_bandwidth = faster.on.gpu.memory_bandwidth * 1.3;
    CHECK(static_cast<bool>(faster.step(step.plan) <= longest));
    faster = step.model;
    faster.on.inside_node = 300_GBps;
    CHECK(static_cast<bool>(faster.step(step.plan) <= longest));
    faster = step.model;
    faster.on.between_nodes = 400_GBps;
    CHECK(static_cast<bool>(faster.step(step.plan) <= longest));
  }
}

TEST_CASE("weights that are kept until the backward pass are no slower than those gathered again") {
  dice roll{std::mt19937_64{19}};
  int faster = 0;
  int rounds = 0;
  while (rounds < 1000) {
    random_step step = roll_step(roll);
    if (step.model.setup.framework.engine.is != &engine_classes::fsdp2) continue;
    // Stages reduce once, behind the last backward pass, and nothing hides that.
    if (step.model.setup.parallelism.pipeline_parallel > 1) continue;
    ++rounds;
    step.model.setup.parallelism.zero_stage = 3;
    const duration gathered_again = step.model.step(step.plan);
    step.model.setup.parallelism.zero_stage = 2;
    const duration kept = step.model.step(step.plan);
    CHECK(static_cast<bool>(kept <= gathered_again * (1 + 1e-12)));
    faster += kept < 0.999 * gathered_again ? 1 : 0;
  }
  CHECK(faster > 300);
}

TEST_CASE(
    "the busiest stage takes a stage's share of all at least, and the head where it is alone") {
  dice roll{std::mt19937_64{23}};
  int pipelines = 0;
  for (int i = 0; i < 1000; ++i) {
    const random_step step = roll_step(roll);
    const detail::step_composer composer(step.model, step.plan);
    const auto stages = static_cast<double>(step.model.setup.parallelism.pipeline_parallel);
    const double all = composer.of_all_stages();
    CHECK(composer.of_busiest_stage() >= all / stages * (1 - 1e-12));
    CHECK(composer.of_busiest_stage() <= all * (1 + 1e-12));
    pipelines += stages > 1;
  }
  CHECK(pipelines > 100);
  // More stages than layers: the last one has the head.
  roofline_time model{.setup = {.model = catalog::gpt2,
                                .sequence_length = 1024,
                                .precision = bf16_master,
                                .framework = catalog::megatron_deepspeed},
                      .on = {.gpu = catalog::a100_sxm4_80gb, .gpus_per_node = 8}};
  for (const std::int64_t layers : {1, 2, 3, 5}) {
    model.setup.model.num_hidden_layers = layers;
    model.setup.parallelism.pipeline_parallel = 8;
    const detail::step_composer composer(model, {4, 1, 8});
    CHECK(composer.of_busiest_stage() >= composer.of_output());
  }
}

TEST_CASE("stages take as long where their layers are listed, one by one") {
  roofline_time model{.setup = {.model = catalog::gpt2,
                                .sequence_length = 1024,
                                .precision = bf16_master,
                                .framework = catalog::torch_gpt},
                      .on = {.gpu = catalog::a100_sxm4_80gb, .gpus_per_node = 8}};
  for (std::int64_t stages = 2; stages <= 8; ++stages)
    for (std::int64_t layers = 1; layers <= 20; ++layers) {
      model.setup.model.num_hidden_layers = layers;
      model.setup.parallelism = {.pipeline_parallel = stages};
      roofline_time listed = model;
      listed_chunks& chunks = listed.setup.parallelism.split.listed;
      for (; chunks.count < stages; ++chunks.count)
        chunks.layers[chunks.count] = static_cast<std::uint8_t>(
            layers_of_chunk(model.setup.parallelism, layers, chunks.count).size());
      CAPTURE(stages);
      CAPTURE(layers);
      CHECK(listed.step({4, 1, 8}) == model.step({4, 1, 8}));
    }
}

TEST_CASE("parts add up, and none is below nothing") {
  dice roll{std::mt19937_64{18}};
  for (int i = 0; i < 2000; ++i) {
    const random_step step = roll_step(roll);
    const step_breakdown parts = step.model.breakdown(step.plan);
    double sum = 0;
    for (const duration& part : {parts.data,
                                 parts.forward,
                                 parts.backward,
                                 parts.recompute,
                                 parts.tensor_communication,
                                 parts.context_communication,
                                 parts.expert_communication,
                                 parts.pipeline_communication,
                                 parts.gradient_communication,
                                 parts.parameter_communication,
                                 parts.bubble,
                                 parts.optimizer,
                                 parts.host}) {
      REQUIRE(part >= 0_s);
      sum += part.value();
    }
    CHECK(detail::abs(sum - parts.total().value()) <= 1e-12 * sum);
    const range<duration> around = step_range(step.model, step.plan);
    CHECK(static_cast<bool>(around.low() <= parts.total()));
    CHECK(static_cast<bool>(parts.total() <= around.high()));
  }
}

TEST_CASE("a step's curve by its accumulation is the sum of its parts, and never below its bound") {
  dice roll{std::mt19937_64{21}};
  int waits = 0;
  int waits_for_samples = 0;
  for (int i = 0; i < 500; ++i) {
    random_step step = roll_step(roll);
    if (roll.coin())
      step.model.loader =
          sample_loader{.per_sample = 1_MB * static_cast<double>(roll.from(1, 4000)),
                        .per_node = 4_GBps,
                        .prefetches = roll.coin()};
    if (roll.coin()) step.model.setup.parallelism.virtual_pipeline = 2;
    const detail::step_line line = detail::step_composer(step.model, step.plan).line();
    detail::step_curve settled = line.curve();
    settled.settle();
    const std::int64_t stages = step.model.setup.parallelism.pipeline_parallel;
    for (const std::int64_t many : {stages, 2 * stages, 4 * stages, 64 * stages}) {
      const step_breakdown parts = line.at(many);
      const double total = parts.total().value();
      const auto is_total = [&](double time) { return detail::abs(time - total) <= 1e-11 * total; };
      CHECK(is_total(line.curve()(many)));
      CHECK(is_total(line.curve_at(many)(many)));
      CHECK(is_total(settled(many)));
      CHECK(static_cast<double>(many) * line.at_least(many) <= total * (1 + 1e-12));
      waits += parts.bubble > 0_s ? 1 : 0;
      waits_for_samples += parts.data > 0_s ? 1 : 0;
    }
  }
  CHECK(waits > 300);
  CHECK(waits_for_samples > 300);
}

TEST_CASE("one GPU alone exchanges nothing") {
  dice roll{std::mt19937_64{20}};
  for (int i = 0; i < 1000; ++i) {
    random_step step = roll_step(roll);
    step.model.setup.parallelism = {.zero_stage = step.model.setup.parallelism.zero_stage};
    step.plan.data_parallel = 1;
    const step_breakdown parts = step.model.breakdown(step.plan);
    CHECK(parts.gradient_communication == 0_s);
    CHECK(parts.parameter_communication == 0_s);
    CHECK(parts.tensor_communication + parts.pipeline_communication == 0_s);
    CHECK(parts.context_communication + parts.expert_communication == 0_s);
  }
}

namespace {

roofline_time on_one_node(const transformer& model, const parallelism& layout = {}) {
  roofline_time made{.setup = {.model = model,
                               .sequence_length = 1024,
                               .precision = bf16_megatron,
                               .parallelism = layout,
                               .framework = catalog::megatron_transformer_engine},
                     .on = {.gpu = catalog::h100_sxm5_80gb, .gpus_per_node = 8},
                     .efficiency = catalog::hopper};
  REQUIRE(static_cast<bool>(validate(made)));
  return made;
}

TEST_CASE("twice as many rows of each expert take as long as twice as many experts of each token") {
  const auto step = [](std::int64_t experts, double capacity) {
    training_setup setup{.model = catalog::deepseek_v3,
                         .sequence_length = 1024,
                         .precision = bf16_megatron,
                         .framework = catalog::megatron_transformer_engine};
    setup.model.num_hidden_layers = 5;
    setup.model.moe.num_experts_per_tok = experts;
    setup.parallelism.expert_parallel = 8;
    setup.expert_capacity = capacity;
    const roofline_time time{.setup = setup, .on = {.gpu = catalog::h200_sxm, .gpus_per_node = 8}};
    const batch_plan plan{.data_parallel = 8};
    REQUIRE(validate(time, plan));
    return time.breakdown(plan);
  };
  const step_breakdown more = step(4, 2);
  const step_breakdown other = step(8, 1);
  const auto near = [](duration one, duration other) { return std::abs(one / other - 1) < 1e-12; };
  CHECK(near(more.total(), other.total()));
  CHECK(near(more.expert_communication, other.expert_communication));
  CHECK(step(4, 1).expert_communication < more.expert_communication);
  CHECK(step(4, 1).forward < more.forward);
}

TEST_CASE("kernels that send a token once to a rank, or a node, send as much less") {
  const auto exchanges = [](token_dispatcher dispatcher, std::int64_t ranks) {
    training_setup setup{.model = catalog::deepseek_v3,
                         .sequence_length = 4096,
                         .precision = bf16_megatron,
                         .framework = catalog::megatron_transformer_engine};
    setup.model.num_hidden_layers = 5;
    setup.parallelism.expert_parallel = ranks;
    setup.dispatcher = dispatcher;
    const roofline_time time{.setup = setup,
                             .on = {.gpu = catalog::h200_sxm,
                                    .nodes = ranks / 8,
                                    .gpus_per_node = 8,
                                    .between_nodes = 400_GBps}};
    const batch_plan plan{.micro_batch = 4, .data_parallel = ranks};
    REQUIRE(validate(time, plan));
    return time.breakdown(plan).expert_communication;
  };
  using enum token_dispatcher;
  // Of 8 experts of 256 a token finds those in 5.295 of 8 eighths, ranks or nodes.
  for (const std::int64_t ranks : {8, 64}) {
    CHECK(exchanges(deepep, ranks) == exchanges(hybridep, ranks));
    const double less = exchanges(deepep, ranks) / exchanges(all_to_all, ranks);
    CHECK(std::abs(less - 5.2947 / 8) < 0.02);
  }
}

}  // namespace

TEST_CASE("a layer that predicts a further token takes a layer and a head") {
  transformer model = catalog::llama_3_8b;
  model.num_hidden_layers = 4;
  const duration four = on_one_node(model).step({});
  model.mtp_layers = 1;
  const duration predicting = on_one_node(model).step({});
  model.mtp_layers = 0;
  model.num_hidden_layers = 5;
  const duration five = on_one_node(model).step({});
  CHECK(static_cast<bool>(four < five));
  CHECK(static_cast<bool>(five < predicting));
  // Wider layers cost it as much as they cost a model of one layer more.
  const auto widened = [](transformer of) {
    const duration before = on_one_node(of).breakdown({.micro_batch = 4}).forward;
    of.intermediate_size *= 2;
    return on_one_node(of).breakdown({.micro_batch = 4}).forward - before;
  };
  const duration of_five = widened(model);
  model.mtp_layers = 1;
  model.num_hidden_layers = 4;
  const double off = widened(model) / of_five - 1;
  CHECK(off > -1e-6);
  CHECK(off < 1e-6);
}

TEST_CASE("a rank of expert parallelism steps over its experts alone") {
  transformer model = catalog::mixtral_8x7b_v0_1;
  model.num_hidden_layers = 4;
  const batch_plan plan{.data_parallel = 8};
  const duration whole = on_one_node(model).breakdown(plan).optimizer;
  const duration part = on_one_node(model, {.expert_parallel = 8}).breakdown(plan).optimizer;
  const auto all = static_cast<double>(parameters(model).total());
  const auto held = static_cast<double>(parameters(model, {.expert_parallel = 8}, {}).total());
  const double off = part / whole / (held / all) - 1;
  CHECK(off > -0.05);
  CHECK(off < 0.05);
}

TEST_CASE("each layer without experts changes the forward by as much") {
  transformer model = catalog::mixtral_8x7b_v0_1;
  model.num_hidden_layers = 5;
  model.intermediate_size = 8192;
  const auto forward = [&](std::int64_t dense) {
    model.moe.first_k_dense_layers = dense;
    return in(on_one_node(model).breakdown({.micro_batch = 2}).forward, 1_us);
  };
  const double change = forward(1) - forward(0);
  CHECK(change != 0);
  for (std::int64_t dense = 1; dense < 5; ++dense) {
    const double off = (forward(dense + 1) - forward(dense)) / change - 1;
    CHECK(off > -1e-6);
    CHECK(off < 1e-6);
  }
}

TEST_CASE("accumulations need the stages as a divisor where chunks take turns, and else do not") {
  transformer model = catalog::mixtral_8x7b_v0_1;
  model.num_hidden_layers = 8;
  const auto with = [&](std::int64_t chunks) {
    return on_one_node(model, {.pipeline_parallel = 2, .virtual_pipeline = chunks});
  };
  CHECK(static_cast<bool>(validate(with(1), {.accumulation = 3})));
  CHECK(static_cast<bool>(validate(with(2), {.accumulation = 4})));
  CHECK(validate(with(2), {.accumulation = 3}).why().code == errc::not_a_multiple);
}

TEST_CASE("a step takes the devices of the cluster at most") {
  const roofline_time model = on_one_node(catalog::llama_3_8b, {.tensor_parallel = 2});
  CHECK(static_cast<bool>(validate(model, {.data_parallel = 4})));
  const failure why = validate(model, {.data_parallel = 5}).why();
  CHECK(why.code == errc::out_of_bounds);
  CHECK((why[fact::devices] == 10 && why[fact::at_most] == 8));
  CHECK(validate(model, {.data_parallel = std::int64_t{1} << 62}).why().code == errc::overflow);
}

TEST_CASE(
    "further tokens are predicted where the code has layers for that, and else take no time") {
  const auto step = [](const framework& code, std::int64_t layers) {
    training_setup setup{.model = catalog::deepseek_v3, .sequence_length = 1024, .framework = code};
    setup.model.num_hidden_layers = 4;
    setup.model.mtp_layers = layers;
    const roofline_time time{.setup = setup, .on = {.gpu = catalog::h200_sxm}};
    const duration takes = time.step({});
    CHECK(explain_time(time, {}).step == takes);
    return std::pair{takes, rates_of(setup, catalog::h200_sxm, {}, 1_s).model};
  };
  CHECK(step(catalog::hugging_face_deepseek_v3, 0) == step(catalog::hugging_face_deepseek_v3, 2));
  const framework& megatron = catalog::megatron_transformer_engine;
  CHECK(step(megatron, 2).first > step(megatron, 0).first);
  CHECK(step(megatron, 2).second > step(megatron, 0).second);
}

TEST_CASE("a loss in chunks takes longer, the more so the more chunks, and has as many as tokens") {
  const auto with = [](std::int64_t chunks) {
    roofline_time time{
        .setup = {.model = catalog::llama_3_8b, .sequence_length = 8192},
        .on = {.gpu = catalog::h100_sxm5_80gb, .nodes = 8, .between_nodes = 400_GBps}};
    time.setup.precision = bf16_mixed;
    time.setup.parallelism.zero_stage = 3;
    time.setup.framework = catalog::torchtitan_2026;
    time.setup.framework.implementation.loss_chunks = chunks;
    return time;
  };
  const batch_plan plan{.data_parallel = 8};
  duration before{};
  for (const std::int64_t chunks : {0, 1, 8, 64}) {
    const roofline_time time = with(chunks);
    REQUIRE(validate(time, plan));
    const duration step = time.step(plan);
    CHECK(explain_time(time, plan).step == step);
    CHECK(step > before);
    before = step;
  }
  CHECK(with(8).step(plan) < 1.1 * with(0).step(plan));
  for (const std::int64_t chunks : {std::int64_t{-1}, std::int64_t{3}, std::int64_t{1} << 31})
    CHECK(validate(with(chunks)).why()[fact::loss_chunks] == chunks);
}
