#include <gpuplan/parallelism.hpp>

#include <cstdint>

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
  layout.ends_are_layers = ends_are_layers;
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
  STATIC_CHECK(layers_of_stage(parallelism{}, 7, 0).size() == 7);
  // BigScience's first 12 stages of 78 layers: 7 each, and one layer on the last
  STATIC_CHECK(layers_of_stage(of_stages(12, false), 78, 0).size() == 7);
  STATIC_CHECK(layers_of_stage(of_stages(12, false), 78, 10).size() == 7);
  STATIC_CHECK(layers_of_stage(of_stages(12, false), 78, 11).size() == 1);
  // and of 106, where the embedding and the head are as long as a layer
  STATIC_CHECK(layers_of_stage(of_stages(12, true), 106, 0).size() == 8);
  STATIC_CHECK(layers_of_stage(of_stages(12, true), 106, 1).size() == 9);
  STATIC_CHECK(layers_of_stage(of_stages(12, true), 106, 11).size() == 8);
  CONSTEXPR std::int64_t sum = [] {
    std::int64_t layers = 0;
    for (std::int64_t stage = 0; stage < 12; ++stage)
      layers += layers_of_stage(of_stages(12, true), 106, stage).size();
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
  parallelism layout{.head_in_layers = 4};
  layout.pipeline_parallel = 2;
  if (layers_of_stage(layout, 16, 0).size() != 11 || layers_of_stage(layout, 16, 1).size() != 5)
    return false;
  layout.pipeline_parallel = 4;
  const std::int64_t sizes[] = {6, 5, 5, 0};
  std::int64_t last = 0;
  for (std::int64_t stage = 0; stage < 4; ++stage) {
    const layer_range layers = layers_of_stage(layout, 16, stage);
    if (layers.first != last || layers.size() != sizes[stage]) return false;
    last = layers.last;
  }
  return last == 16;
}

TEST_CASE("stages of equal cost where the head counts as layers") {
  STATIC_CHECK(divides_by_cost());
}
