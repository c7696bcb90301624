#include "memory.hpp"

#include "framework_setups.hpp"

namespace accuracy {
namespace {

constexpr int steps = 3;  // as were measured

// The largest count from 0 to 2^20 for which `holds`, which stays false once it is.
template <class Predicate>
std::int64_t largest_count(Predicate holds) {
  const std::int64_t most = std::int64_t{1} << 20;
  std::int64_t works = 0;
  std::int64_t fails = 1;
  while (fails < most && holds(fails)) {
    works = fails;
    fails *= 2;
  }
  while (fails - works > 1) {
    const std::int64_t middle = works + (fails - works) / 2;
    (holds(middle) ? works : fails) = middle;
  }
  return works;
}

predicted_memory replayed(const described_setup& described) {
  predicted_memory predicted;
  predicted.why_not = described.why_not;
  if (predicted.why_not.empty())
    predicted.step = gpuplan::replay(described.setup, described.plan, steps);
  return predicted;
}

}  // namespace

predicted_memory step_memory_of(const row& source) { return replayed(describe_setup(source)); }

predicted_memory framework_memory_of(const row& source) {
  return replayed(describe_framework_setup(source));
}

predicted_batch largest_micro_batch_of(const row& source) {
  predicted_batch predicted;
  described_setup described = describe_setup(source);
  predicted.why_not = described.why_not;
  if (!predicted.why_not.empty()) return predicted;
  const std::int64_t usable = source.integer_or("usable_bytes", 0);
  if (usable < 0) source.fail("usable_bytes", "is negative");
  predicted.micro_batch = largest_count([&](std::int64_t batch) {
    described.plan.micro_batch = batch;
    return gpuplan::replay(described.setup, described.plan, steps, usable).fits;
  });
  return predicted;
}

}  // namespace accuracy
