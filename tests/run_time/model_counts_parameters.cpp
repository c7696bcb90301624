// Parameters against a list of every tensor, for random models of every make.

#include "check.hpp"
#include "listed_model.hpp"
#include "random_model.hpp"

#include <gpuplan/catalog/models.hpp>
#include <gpuplan/parameters.hpp>

#include <cstdint>

using namespace gpuplan;

TEST_CASE("random models, part by part") {
  dice roll{std::mt19937_64(1)};
  int invalid = 0;
  int wrong = 0;
  for (int i = 0; i < 10'000; ++i) {
    const transformer shape = random_model(roll);
    invalid += !validate(shape);
    wrong += parameters(shape) != listed::parameters(listed::model(shape), {}, {});
  }
  CHECK(invalid == 0);
  CHECK(wrong == 0);
}

TEST_CASE("one layer, and one of multi-token prediction") {
  dice roll{std::mt19937_64(2)};
  int wrong = 0;
  for (int i = 0; i < 2'000; ++i) {
    const transformer shape = random_model(roll);
    const listed::model all(shape);
    const auto sum_of = [&](auto holds) {
      std::int64_t sum = 0;
      for (const listed::tensor& one : all.tensors)
        if (holds(one)) sum += listed::elements(one);
      return sum;
    };
    for (std::int64_t layer = 0; layer < shape.layers(); ++layer) {
      const layer_kind kind = layer >= shape.num_hidden_layers ? layer_kind::cross
                              : shape.has_experts(layer)       ? layer_kind::experts
                                                               : layer_kind::dense;
      wrong += layer_parameters(shape, kind).total() !=
               sum_of([&](const listed::tensor& one) { return one.layer == layer; });
    }
    if (shape.mtp_layers != 0)
      wrong += mtp_layer_parameters(shape).total() !=
               sum_of([](const listed::tensor& one) { return one.name.starts_with("mtp.0."); });
  }
  CHECK(wrong == 0);
}

TEST_CASE("every rank of random layouts, and all of them together") {
  dice roll{std::mt19937_64(3)};
  int wrong = 0;
  int wrong_sums = 0;
  int lone_groups = 0;  // layouts with more ranks than key-value heads
  for (int i = 0; i < 2'000; ++i) {
    const transformer shape = random_model(roll);
    parallelism layout{.tensor_parallel = roll.from(1, 7),
                       .pipeline_parallel = roll.from(1, 7),
                       .expert_parallel = roll.from(1, 6)};
    if (roll.coin()) layout.expert_tensor_parallel = layout.tensor_parallel;
    lone_groups += shape.key_value_heads() < layout.tensor_parallel;
    const listed::model all(shape);
    parameter_counts sum;
    for (std::int64_t stage = 0; stage < layout.pipeline_parallel; ++stage)
      for (std::int64_t tensor = 0; tensor < layout.tensor_parallel; ++tensor)
        for (std::int64_t expert = 0; expert < layout.expert_parallel; ++expert) {
          const model_rank rank{stage, tensor, expert};
          const parameter_counts counts = parameters(shape, layout, rank);
          wrong += counts != listed::parameters(all, layout, rank);
          sum = sum + counts;
        }

    // Each tensor as often as it is held.
    const auto copies = [&](const listed::tensor& one) {
      // Whole experts on every tensor-parallel rank, where ranks share them and no parts are asked
      // for.
      if (one.expert >= 0 && layout.expert_parallel > 1 && layout.expert_tensor_parallel == 1)
        return layout.tensor_parallel * listed::elements_on(one, 1, 0);
      std::int64_t elements = 0;
      for (std::int64_t rank = 0; rank < layout.tensor_parallel; ++rank)
        elements += listed::elements_on(one, layout.tensor_parallel, rank);
      return elements * (one.expert >= 0 ? 1 : layout.expert_parallel);
    };
    std::int64_t held = 0;
    std::int64_t tables = 0;
    for (const listed::tensor& one : all.tensors)
      (one.name == "embed_tokens.weight" ? tables : held) += copies(one);
    const std::int64_t more = sum.total() - held;
    wrong_sums +=
        tables == 0 ? more != 0 : more % tables != 0 || more / tables < 1 || more / tables > 3;
    if (layout.pipeline_parallel == 1) wrong_sums += sum.total() != held + tables;
  }
  CHECK(wrong == 0);
  CHECK(wrong_sums == 0);
  CHECK(lone_groups > 100);
}

TEST_CASE("stages hold all layers in order, none more than an equal layout rounded up") {
  int wrong = 0;
  for (std::int64_t layers = 1; layers <= 40; ++layers)
    for (std::int64_t stages = 1; stages <= 50; ++stages) {
      const std::int64_t most = (layers + stages - 1) / stages;
      std::int64_t next = 0;
      std::int64_t before = most;
      for (std::int64_t stage = 0; stage < stages; ++stage) {
        const layer_range range = layers_of_chunk({.pipeline_parallel = stages}, layers, stage);
        wrong += range.first != next || range.size() < 0 || range.size() > before;
        next = range.last;
        before = range.size();
      }
      wrong += next != layers;
    }
  CHECK(wrong == 0);
}

TEST_CASE("stages that are split unevenly, or interleaved, hold the whole model") {
  const auto sum_of_stages = [](const transformer& model, const parallelism& layout) {
    REQUIRE(validate(layout, model.layers()));
    std::int64_t sum = 0;
    for (std::int64_t stage = 0; stage < layout.pipeline_parallel; ++stage)
      sum += parameters(model, layout, {.stage = stage}).total();
    return sum;
  };
  const auto on = [](std::int64_t stages, std::int64_t chunks, const pipeline_split& split) {
    parallelism layout;
    layout.pipeline_parallel = stages;
    layout.virtual_pipeline = chunks;
    layout.split = split;
    return layout;
  };
  const pipeline_split ends{.embedding_layers = 1, .head_layers = 1};
  const transformer& llama = catalog::llama_3_1_405b;
  const std::int64_t all = parameters(llama).total();
  for (const std::int64_t chunks : {1, 2, 4, 8})
    CHECK(sum_of_stages(llama, on(16, chunks, ends)) == all);
  CHECK(sum_of_stages(llama, on(16, 1, {.first_stage_layers = 9, .last_stage_layers = 5})) == all);
  CHECK(sum_of_stages(
            llama, on(7, 3, {.embedding_layers = 1, .head_layers = 1, .first_have_more = true})) ==
        all);
  // DeepSeek-V3: 61 layers of which three have no experts; its layer of multi-token prediction
  // needs a copy of the table
  transformer deepseek = catalog::deepseek_v3;
  deepseek.mtp_layers = 0;
  const std::int64_t whole = parameters(deepseek).total();
  for (const std::int64_t chunks : {1, 2, 4}) {
    pipeline_split listed;
    listed.listed.count = 16;
    for (int at = 0; at < 16; ++at) listed.listed.layers[at] = at < 15 ? 4 : 1;
    CHECK(sum_of_stages(deepseek, on(16 / chunks, chunks, listed)) == whole);
  }
  // experts in every second of 12 layers: of chunks of 3 the first and third have one such layer,
  // the others two
  transformer mixed = catalog::llama_3_8b;
  mixed.num_hidden_layers = 12;
  mixed.moe = {
      .num_experts = 4, .num_experts_per_tok = 1, .moe_intermediate_size = 64, .moe_layer_step = 2};
  const auto experts = [&](std::int64_t stage) {
    return parameters(mixed, on(2, 2, {}), {.stage = stage}).experts /
           layer_parameters(mixed, layer_kind::experts).experts;
  };
  CHECK(experts(0) == 2);
  CHECK(experts(1) == 4);
  CHECK(sum_of_stages(mixed, on(2, 2, {})) == parameters(mixed).total());
}

TEST_CASE("what trains of random models") {
  dice roll{std::mt19937_64(4)};
  int wrong = 0;
  int checked[5] = {};
  for (int i = 0; i < 20'000; ++i) {
    const transformer shape = random_model(roll);
    const trainable trains = random_training(roll, shape);
    if (!validate(trains, shape)) continue;
    ++checked[static_cast<int>(trains.what)];
    wrong += trainable_parameters(shape, trains) != listed::trainable(listed::model(shape), trains);
  }
  CHECK(wrong == 0);
  for (const int count : checked) CHECK(count > 500);
}

TEST_CASE("a head that trains is refused where there is none") {
  dice roll{std::mt19937_64(5)};
  int wrong = 0;
  for (int i = 0; i < 2'000; ++i) {
    const transformer shape = random_model(roll);
    const trainable trains{.what = training::head};
    wrong += static_cast<bool>(validate(trains, shape)) !=
             (listed::trainable(listed::model(shape), trains) != 0);
  }
  CHECK(wrong == 0);
}
