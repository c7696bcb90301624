#include "check.hpp"

#include <gpuplan/batch.hpp>

#include <cstdint>
#include <limits>

using namespace gpuplan;

TEST_CASE("the effective batch is the product of its parts") {
  STATIC_CHECK(batch_plan{10, 4, 3}.effective_batch() == 120);
  STATIC_CHECK(batch_plan{12, 6, 2}.effective_batch() == 144);
  STATIC_CHECK(batch_plan{}.effective_batch() == 1);
  STATIC_CHECK(validate(batch_plan{32, 4, 4})->effective_batch() == 512);
}

TEST_CASE("each part is at least 1, and their product fits") {
  STATIC_CHECK(validate(batch_plan{0, 4, 3}).why() ==
               failure(errc::not_positive, named_fact{fact::micro_batch, 0}));
  STATIC_CHECK(validate(batch_plan{10, -4, 3}).why() ==
               failure(errc::not_positive, named_fact{fact::data_parallel, -4}));
  STATIC_CHECK(validate(batch_plan{10, 4, 0}).why() ==
               failure(errc::not_positive, named_fact{fact::accumulation, 0}));
  CONSTEXPR std::int64_t large = std::int64_t{1} << 31;
  STATIC_CHECK(validate(batch_plan{large, large, 1}));
  STATIC_CHECK(validate(batch_plan{large, large, 2}).why().code == errc::overflow);
  STATIC_CHECK(validate(batch_plan{std::numeric_limits<std::int64_t>::max(), 1, 1}));
}
