#include <gpuplan/parallelism.hpp>

#include <cstdint>

#include "check.hpp"

namespace {

using namespace gpuplan;

constexpr bool rejects(const parallelism& division, errc code, fact name, std::int64_t value) {
  const failure why = validate(division).why();
  return why.code == code && why.count != 0 && why.facts[0] == named_fact{name, value};
}

constexpr std::int64_t most = std::int64_t{1} << 20;

}  // namespace

TEST_CASE("one device is a division") {
  STATIC_CHECK(validate(parallelism{}));
  STATIC_CHECK(*validate(parallelism{8, 4, 2}) == parallelism{8, 4, 2});
  STATIC_CHECK(!(parallelism{8, 4, 2} == parallelism{8, 2, 4}));
  STATIC_CHECK(model_rank{} == model_rank{0, 0, 0});
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
}
