#pragma once

// What several ranks that run one sweep decide together.

#include <exception>
#include <functional>
#include <utility>

namespace gpuplan::measure {

/// Returns the largest of the numbers that all ranks pass to it, as one MPI_Allreduce with MPI_MAX.
/// Every rank calls it equally often.
using agreement = std::function<int(int)>;

/// Thrown on a rank that could go on where another could not.
class other_rank_failed : public std::exception {
 public:
  [[nodiscard]] const char* what() const noexcept override {
    return "another rank could not go on";
  }
};

/// Runs a part of a step that may throw on one rank alone, as where its memory runs out, before all
/// ranks exchange what it made: where it throws on one, it throws on all, and none waits for
/// another in the exchange. Throws what `part` threw, on the other ranks other_rank_failed. Without
/// other ranks (an empty `agree`), it runs the part.
template <class Part>
void together(const agreement& agree, Part&& part) {
  if (!agree) {
    std::forward<Part>(part)();
    return;
  }
  std::exception_ptr thrown;
  try {
    std::forward<Part>(part)();
  } catch (...) {
    thrown = std::current_exception();
  }
  const bool all_did = agree(thrown ? 1 : 0) == 0;
  if (thrown) std::rethrow_exception(thrown);
  if (!all_did) throw other_rank_failed();
}

}  // namespace gpuplan::measure
