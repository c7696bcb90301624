// A plan written for each tool, and read again, is the same plan.

#include <doctest/doctest.h>

#include <gpuplan/catalog/implementations.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/framework.hpp>
#include <gpuplan/io/trainer/any_file.hpp>
#include <gpuplan/io/trainer/any_writer.hpp>
#include <gpuplan/io/trainer/configured_training.hpp>
#include <gpuplan/io/trainer/planned_config.hpp>
#include <gpuplan/training_setup.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "random_numbers.hpp"

namespace {

using namespace gpuplan;

struct random_plan {
  training_setup setup{};
  batch_plan plan{};
  io::planned_run_words run{};
};

std::int64_t power(random_numbers& random, std::int64_t most) {
  return std::int64_t{1} << random.below(most + 1);
}

// Of whatever validates; by transformers' code under each engine, Megatron's and torchtitan's.
random_plan any_plan(random_numbers& random) {
  for (;;) {
    random_plan made;
    training_setup& setup = made.setup;
    parallelism& layout = setup.parallelism;
    setup.model = catalog::llama_3_8b;
    setup.sequence_length = 1024 * power(random, 3);
    const char* const names[] = {"llama", "megatron-te", "torchtitan"};
    setup.framework = catalog::find_framework(names[random.below(3)])->framework;
    if (setup.framework.layers().name == catalog::find_framework("llama")->framework.layers().name)
      setup.framework.engine.is = engine_classes::all[random.below(4)];
    if (setup.framework.layers().has_liger_kernels)
      setup.framework.implementation.liger_kernels = random.below(4) == 0;
    setup.padding_free = setup.framework.layers().joins_samples && random.below(4) == 0;
    const engine_class& engine = *setup.framework.engine.is;
    layout.zero_stage =
        engine.least_zero_stage +
        static_cast<int>(random.below(engine.most_zero_stage - engine.least_zero_stage + 1));
    layout.tensor_parallel = power(random, 2);
    layout.pipeline_parallel = power(random, 1);
    layout.sequence_parallel = layout.tensor_parallel > 1 && random.below(2) == 0;
    const io::training_precision precisions[] = {io::training_precision::bf16,
                                                 io::training_precision::bf16,
                                                 io::training_precision::fp16,
                                                 io::training_precision::fp32};
    const auto recipe = io::recipe_of(precisions[random.below(4)], engine);
    if (!recipe) continue;
    setup.precision = *recipe;
    setup.optimizer.clips_gradients = random.below(2) == 0;
    // Megatron-Core's own is fused.
    if (random.below(2) == 0 || (engine.runs_pipelines && engine.runs_chunks))
      setup.optimizer.loop = optimizer_loop::fused;
    if (random.below(3) == 0) setup.recompute = recompute_mode::full;
    if (random.below(6) == 0 && &engine == &engine_classes::ddp) {
      setup.trains.what = training::adapters;
      setup.trains.adapters = {.rank = 16, .targets = all_linear};
      setup.precision = bf16_under_autocast;
    }
    made.plan = {.micro_batch = 1 + random.below(4),
                 .data_parallel = power(random, 3),
                 .accumulation = 1 + random.below(16)};
    if (!validate(setup, made.plan)) continue;
    const std::int64_t gpus =
        layout.tensor_parallel * layout.pipeline_parallel * made.plan.data_parallel;
    made.run.gpus_per_node = std::min<std::int64_t>(gpus, 8);
    made.run.nodes = gpus / made.run.gpus_per_node;
    made.run.model = "meta-llama/Llama-3.1-8B";
    made.run.learning_rate = 1e-5 * static_cast<double>(1 + random.below(100));
    made.run.steps = 1000;
    made.run.never_clips = true;  // where the setup does not
    return made;
  }
}

std::string tool_of(const training_setup& setup) {
  const std::string layers = setup.framework.layers().name->text;
  return layers == "megatron_core" ? "megatron-lm" : layers;
}

void check_same(const io::configured_training& again, const random_plan& made) {
  REQUIRE_MESSAGE(again, again.why);
  CHECK(again.plan == made.plan);
  CHECK(again.setup.parallelism == made.setup.parallelism);
  const engine& shares = made.setup.framework.engine;
  precision_recipe precision = made.setup.precision;
  if (shares.is->gathers_weights && tool_of(made.setup) != "torchtitan" && precision.autocast())
    precision.reduced = precision.compute;  // Accelerate's policy names one format
  CHECK(again.setup.precision == precision);
  if (made.plan.accumulation > 1)
    CHECK(again.setup.framework.engine.reduces_every_micro_batch ==
          shares.reduces_every_micro_batch);
  CHECK(again.setup.optimizer == made.setup.optimizer);
  CHECK(again.setup.recompute == made.setup.recompute);
  CHECK(again.setup.framework.implementation.liger_kernels ==
        made.setup.framework.implementation.liger_kernels);
  CHECK(again.setup.padding_free == made.setup.padding_free);
  CHECK(again.setup.sequence_length == made.setup.sequence_length);
  CHECK(again.setup.trains == made.setup.trains);
  CHECK(again.setup.framework.engine.is == made.setup.framework.engine.is);
}

// What a format has no word for, or leaves to the command that starts it, is taken from the plan:
// what the file says otherwise would be a contradiction.
TEST_CASE("what is written of a random plan reads as the same plan") {
  random_numbers random(20'261'123);
  std::map<std::string, int> written_by;
  for (int round = 0; round < 1'500; ++round) {
    const random_plan made = any_plan(random);
    const io::training_config config = io::planned_config(made.setup, made.plan, made.run);
    for (const io::plan_writer& writer : io::plan_writers) {
      const io::written_config written = writer.write(config, {.gpu = "H100"});
      if (!written) continue;
      ++written_by[writer.name];
      const std::string name = writer.name;
      CAPTURE(name);
      std::vector<io::read_config> files;
      for (const io::written_file& file : written.files) {
        if (file.name.ends_with(".py")) continue;
        CAPTURE(file.text);
        files.push_back(io::read_training_file(file.name, file.text));
        REQUIRE_MESSAGE(files.back(), files.back().why);
        CHECK(files.back().not_understood.empty());
      }
      files.push_back({.tool = "plan", .config = config});
      io::read_config all = io::merged(files);
      all.tool = tool_of(made.setup);
      const std::string text = written.files.front().text;
      CAPTURE(text);
      check_same(io::configured(all, {.called = "llama"}), made);
      for (const io::remark& one : all.remarks) {
        const std::string said = one.key + " " + one.text;
        CAPTURE(said);
        CHECK(one.is != io::remark::kind::contradicts);
      }
    }
  }
  for (const io::plan_writer& writer : io::plan_writers) {
    const std::string name = writer.name;
    CAPTURE(name);
    CHECK(written_by[writer.name] > 20);
  }
}

TEST_CASE("a config of a plan means that plan again") {
  random_numbers random(20'261'124);
  for (int round = 0; round < 2'000; ++round) {
    const random_plan made = any_plan(random);
    io::read_config read{.config = io::planned_config(made.setup, made.plan, made.run)};
    read.tool = tool_of(made.setup);
    const io::configured_training again = io::configured(read, {.called = "llama"});
    check_same(again, made);
    CHECK(again.remarks.empty());
  }
}

TEST_CASE(
    "Megatron's plans in nvfp4, with layers on the host, and of DeepSeek are read as written") {
  training_setup setup;
  setup.model = catalog::llama_3_8b;
  setup.sequence_length = 1024;
  setup.framework = catalog::find_framework("megatron-te")->framework;
  setup.parallelism.zero_stage = 1;
  setup.optimizer.loop = optimizer_loop::fused;
  setup.precision = bf16_megatron;
  const batch_plan plan{.micro_batch = 1, .data_parallel = 8, .accumulation = 2};
  const auto again = [&](const training_setup& of) {
    REQUIRE(validate(of, plan));
    const io::written_config written =
        io::write_megatron_lm(io::planned_config(of, plan, {.gpus_per_node = 8}));
    REQUIRE_MESSAGE(written, written.why);
    const io::configured_training made =
        io::configured(io::read_megatron_lm(written.files[0].text), {});
    REQUIRE_MESSAGE(made, made.why);
    return made.setup;
  };
  training_setup in_fp4 = setup;
  in_fp4.precision.fp4_linears = in_fp4.precision.quantised_weights = true;
  in_fp4.precision.scaling = scaling_kind::micro;
  CHECK(again(in_fp4).precision == in_fp4.precision);
  training_setup on_host = setup;
  on_host.offloads.layers = 4;
  CHECK(again(on_host).offloads == on_host.offloads);
  setup.model = catalog::deepseek_v3;
  setup.model.moe.n_group = 8;
  setup.model.moe.topk_group = 4;
  CHECK(again(setup).model.moe == setup.model.moe);
  setup.model = catalog::gpt_oss_20b;  // whose router's bias is one of its products
  CHECK_FALSE(io::write_megatron_lm(io::planned_config(setup, plan, {.gpus_per_node = 8})));
}

}  // namespace
