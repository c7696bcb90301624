#include <gpuplan/parallelism.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "check.hpp"

namespace {

using namespace gpuplan;

constexpr bool rejects(const parallelism& layout, errc code, fact name, std::int64_t value) {
  const failure why = validate(layout).why();
  return why.code == code && why.count != 0 && why.facts[0] == named_fact{name, value};
}

constexpr parallelism of_stages(std::int64_t stages, bool ends_are_layers) {
  parallelism layout;
  layout.pipeline_parallel = stages;
  if (ends_are_layers) layout.split = {.embedding_layers = 1, .head_layers = 1};
  return layout;
}

constexpr std::int64_t most = std::int64_t{1} << 20;

}  // namespace

TEST_CASE("one device is a layout") {
  STATIC_CHECK(validate(parallelism{}));
  STATIC_CHECK(*validate(parallelism{8, 4, 2}) == parallelism{8, 4, 2});
  STATIC_CHECK(!(parallelism{8, 4, 2} == parallelism{8, 2, 4}));
  STATIC_CHECK(model_rank{} == model_rank{0, 0, 0});
}

TEST_CASE("the layers of pipeline stages") {
  STATIC_CHECK(layers_of_chunk(parallelism{}, 7, 0).size() == 7);
  // BigScience's first 12 stages of 78 layers: 7 each, and one layer on the last
  STATIC_CHECK(layers_of_stage(of_stages(12, false), 78, 0) == 7);
  STATIC_CHECK(layers_of_stage(of_stages(12, false), 78, 10) == 7);
  STATIC_CHECK(layers_of_stage(of_stages(12, false), 78, 11) == 1);
  // and of 106, where the embedding and the head are as long as a layer
  STATIC_CHECK(layers_of_stage(of_stages(12, true), 106, 0) == 8);
  STATIC_CHECK(layers_of_stage(of_stages(12, true), 106, 1) == 9);
  STATIC_CHECK(layers_of_stage(of_stages(12, true), 106, 11) == 8);
  CONSTEXPR std::int64_t sum = [] {
    std::int64_t layers = 0;
    for (std::int64_t stage = 0; stage < 12; ++stage)
      layers += layers_of_stage(of_stages(12, true), 106, stage);
    return layers;
  }();
  STATIC_CHECK(sum == 106);
}

TEST_CASE("degrees are from 1 to 2^20, and named where they are not") {
  STATIC_CHECK(validate(parallelism{most, most, most}));
  STATIC_CHECK(rejects({.tensor_parallel = 0}, errc::not_positive, fact::tensor_parallel, 0));
  STATIC_CHECK(rejects({.pipeline_parallel = -2}, errc::not_positive, fact::pipeline_parallel, -2));
  STATIC_CHECK(rejects({.expert_parallel = 0}, errc::not_positive, fact::expert_parallel, 0));
  STATIC_CHECK(
      rejects({.tensor_parallel = most + 1}, errc::out_of_bounds, fact::tensor_parallel, most + 1));
  STATIC_CHECK(rejects(
      {.pipeline_parallel = most + 1}, errc::out_of_bounds, fact::pipeline_parallel, most + 1));
  STATIC_CHECK(
      rejects({.expert_parallel = most + 1}, errc::out_of_bounds, fact::expert_parallel, most + 1));
  STATIC_CHECK(
      rejects({.expert_tensor_parallel = 0}, errc::not_positive, fact::expert_tensor_parallel, 0));
  STATIC_CHECK(rejects({.expert_tensor_parallel = most + 1},
                       errc::out_of_bounds,
                       fact::expert_tensor_parallel,
                       most + 1));
  STATIC_CHECK(rejects({.virtual_pipeline = 0}, errc::not_positive, fact::virtual_pipeline, 0));
  STATIC_CHECK(rejects({.virtual_pipeline = std::int64_t{1} << 62},
                       errc::out_of_bounds,
                       fact::virtual_pipeline,
                       std::int64_t{1} << 62));
  STATIC_CHECK(rejects({.context_parallel = 0}, errc::not_positive, fact::context_parallel, 0));
  STATIC_CHECK(rejects(
      {.context_parallel = most + 1}, errc::out_of_bounds, fact::context_parallel, most + 1));
}

TEST_CASE("stages of ZeRO are from 0 to 3, groups of ranks that share up to 2^20") {
  STATIC_CHECK(validate(parallelism{.zero_stage = 3, .shard_group = most}));
  STATIC_CHECK(rejects({.zero_stage = -1}, errc::out_of_bounds, fact::zero_stage, -1));
  STATIC_CHECK(rejects({.zero_stage = 4}, errc::out_of_bounds, fact::zero_stage, 4));
  STATIC_CHECK(rejects({.shard_group = -1}, errc::out_of_bounds, fact::shard_group, -1));
  STATIC_CHECK(
      rejects({.shard_group = most + 1}, errc::out_of_bounds, fact::shard_group, most + 1));
}

// Each stage ends with the layer that takes it beyond its share of layers and head, as nanotron
// divides its models; none is left out or there twice.
constexpr bool divides_by_cost() {
  parallelism layout{.split = {.head_cost = 4}};
  layout.pipeline_parallel = 2;
  if (layers_of_stage(layout, 16, 0) != 11 || layers_of_stage(layout, 16, 1) != 5) return false;
  layout.pipeline_parallel = 4;
  const std::int64_t sizes[] = {6, 5, 5, 0};
  std::int64_t last = 0;
  for (std::int64_t stage = 0; stage < 4; ++stage) {
    const layer_range layers = layers_of_chunk(layout, 16, stage);
    if (layers.first != last || layers.size() != sizes[stage]) return false;
    last = layers.last;
  }
  return last == 16;
}

TEST_CASE("stages of equal cost where the head counts as layers") {
  STATIC_CHECK(divides_by_cost());
}

namespace {

// Whether the chunks of a pipeline, in the order in which a micro-batch goes through them, have
// these layers, each where the one before ends; and the stages their sums.
template <std::size_t Size>
constexpr bool has_chunks(const parallelism& layout,
                          std::int64_t layers,
                          const std::int64_t (&sizes)[Size]) {
  if (!validate(layout, layers)) return false;
  std::int64_t next = 0;
  const std::int64_t stages = layout.pipeline_parallel;
  if (stages * layout.virtual_pipeline != static_cast<std::int64_t>(Size)) return false;
  for (std::size_t place = 0; place < Size; ++place) {
    const auto at = static_cast<std::int64_t>(place);
    const layer_range range = layers_of_chunk(layout, layers, at % stages, at / stages);
    if (range.first != next || range.size() != sizes[place]) return false;
    next = range.last;
  }
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    std::int64_t sum = 0;
    for (auto place = static_cast<std::size_t>(stage); place < Size;
         place += static_cast<std::size_t>(stages))
      sum += sizes[place];
    if (layers_of_stage(layout, layers, stage) != sum) return false;
  }
  return next == layers;
}

constexpr parallelism split_as(std::int64_t stages,
                               std::int64_t chunks,
                               const pipeline_split& split) {
  parallelism layout;
  layout.pipeline_parallel = stages;
  layout.virtual_pipeline = chunks;
  layout.split = split;
  return layout;
}

constexpr bool refuses(const parallelism& layout, std::int64_t layers, fact name, fact at) {
  const failure why = validate(layout, layers).why();
  return why.code != errc::none && why.facts[0].name == name && why[at] != 0;
}

}  // namespace

// Llama Team 2024, arXiv 2407.21783, section 3.3.2: of 128 places on 16 stages one layer each is
// left out of the first and of the last: "the first model chunk on the first stage has only the
// embedding, and the last model chunk on the last stage has only output projection and loss".
TEST_CASE("Llama 3.1 405B: 126 layers on 16 stages") {
  STATIC_CHECK(has_chunks(split_as(16, 1, {.embedding_layers = 1, .head_layers = 1}),
                          126,
                          {7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7}));
  STATIC_CHECK(has_chunks(split_as(16, 1, {.first_stage_layers = 7, .last_stage_layers = 7}),
                          126,
                          {7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7}));
  STATIC_CHECK(has_chunks(
      split_as(2, 4, {.embedding_layers = 1, .head_layers = 1}), 6, {0, 1, 1, 1, 1, 1, 1, 0}));
  CONSTEXPR parallelism in_eight = split_as(16, 8, {.embedding_layers = 1, .head_layers = 1});
  STATIC_CHECK(layers_of_chunk(in_eight, 126, 0, 0).size() == 0);
  STATIC_CHECK(layers_of_chunk(in_eight, 126, 0, 1) == layer_range{15, 16});
  STATIC_CHECK(layers_of_chunk(in_eight, 126, 14, 7) == layer_range{125, 126});
  STATIC_CHECK(layers_of_chunk(in_eight, 126, 15, 7).size() == 0);
}

TEST_CASE("the embedding alone, or the head, counts as a layer") {
  STATIC_CHECK(has_chunks(split_as(4, 1, {.embedding_layers = 1}), 7, {1, 2, 2, 2}));
  STATIC_CHECK(has_chunks(split_as(4, 1, {.head_layers = 1}), 7, {2, 2, 2, 1}));
  STATIC_CHECK(
      has_chunks(split_as(2, 2, {.embedding_layers = 1, .head_layers = 1}), 6, {1, 2, 2, 1}));
}

TEST_CASE("first and last stages of their own length, the others alike") {
  // NVIDIA's recipes: Qwen3-VL-235B, 94 layers on 8 stages; GLM-5.1, 78 on 6
  STATIC_CHECK(has_chunks(split_as(8, 1, {.first_stage_layers = 10, .last_stage_layers = 12}),
                          94,
                          {10, 12, 12, 12, 12, 12, 12, 12}));
  STATIC_CHECK(has_chunks(split_as(6, 1, {.first_stage_layers = 14, .last_stage_layers = 16}),
                          78,
                          {14, 12, 12, 12, 12, 16}));
  STATIC_CHECK(has_chunks(split_as(4, 1, {.last_stage_layers = 1}), 13, {4, 4, 4, 1}));
  STATIC_CHECK(has_chunks(
      split_as(3, 2, {.first_stage_layers = 2, .last_stage_layers = 4}), 12, {1, 3, 2, 1, 3, 2}));
  STATIC_CHECK(has_chunks(
      split_as(2, 1, {.first_stage_layers = 17, .last_stage_layers = 23}), 40, {17, 23}));
  // what does not add up, with what would
  STATIC_CHECK(validate(split_as(16, 1, {.last_stage_layers = 5}), 126).why() ==
               failure(errc::no_such_code,
                       {{fact::last_stage_layers, 5},
                        {fact::num_hidden_layers, 126},
                        {fact::pipeline_parallel, 16},
                        {fact::takes, 6}}));
  STATIC_CHECK(refuses(split_as(4, 2, {.first_stage_layers = 3, .last_stage_layers = 2}),
                       17,
                       fact::first_stage_layers,
                       fact::takes));
  STATIC_CHECK(!validate(split_as(1, 1, {.first_stage_layers = 3})));
  STATIC_CHECK(!validate(split_as(2, 1, {.head_layers = 1, .first_stage_layers = 3})));
}

namespace {

constexpr pipeline_split listed(std::initializer_list<int> sizes) {
  pipeline_split split;
  for (const int size : sizes)
    split.listed.layers[split.listed.count++] = static_cast<std::uint8_t>(size);
  return split;
}

}  // namespace

TEST_CASE("chunks that are listed one by one") {
  STATIC_CHECK(has_chunks(split_as(2, 2, listed({1, 2, 2, 0})), 5, {1, 2, 2, 0}));
  STATIC_CHECK(refuses(
      split_as(2, 2, listed({1, 2, 2, 0})), 6, fact::listed_layers, fact::num_hidden_layers));
  STATIC_CHECK(rejects(split_as(3, 1, listed({1, 2})), errc::no_such_code, fact::listed_chunks, 2));
}

// torchtitan's generate_llm_fqn_per_model_part by hand: of layers, embedding and head each stage
// has the quotient, the first ones what is left over one by one.
TEST_CASE("torchtitan's stages") {
  CONSTEXPR pipeline_split usual{.embedding_layers = 1, .head_layers = 1, .first_have_more = true};
  STATIC_CHECK(has_chunks(split_as(4, 1, usual), 16, {4, 5, 4, 3}));
  STATIC_CHECK(has_chunks(split_as(4, 1, usual), 32, {8, 9, 8, 7}));
  STATIC_CHECK(has_chunks(split_as(4, 2, usual), 32, {4, 5, 4, 4, 4, 4, 4, 3}));
  STATIC_CHECK(has_chunks(split_as(3, 1, usual), 4, {1, 2, 1}));
  STATIC_CHECK(has_chunks(split_as(4, 1, {.first_have_more = true}), 6, {2, 2, 1, 1}));
  STATIC_CHECK(has_chunks(
      split_as(4, 1, {.embedding_layers = 2, .first_have_more = true}), 10, {1, 3, 3, 3}));
  STATIC_CHECK(
      has_chunks(split_as(16, 1, usual), 126, {7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7}));
  // it wants a layer's worth of each chunk, and room for the ends
  STATIC_CHECK(refuses(split_as(7, 1, usual), 4, fact::pipeline_parallel, fact::num_hidden_layers));
  STATIC_CHECK(refuses(split_as(4, 1, {.embedding_layers = 3, .first_have_more = true}),
                       5,
                       fact::pipeline_parallel,
                       fact::embedding_layers));
}

TEST_CASE("rules of stages that contradict each other are refused") {
  STATIC_CHECK(rejects(
      split_as(2, 1, {.embedding_layers = -1}), errc::out_of_bounds, fact::embedding_layers, -1));
  STATIC_CHECK(!validate(split_as(2, 1, {.head_cost = -1})));
  STATIC_CHECK(!validate(split_as(2, 1, {.embedding_layers = 9}), 4));
}
