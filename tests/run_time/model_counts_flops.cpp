// Operations against a recorded pass and a sweep back over it, for random models of every make.

#include "check.hpp"
#include "graph_of_model.hpp"
#include "random_model.hpp"

#include <gpuplan/flops.hpp>

#include <cstdint>

using namespace gpuplan;

namespace {

bool same(const flop_counts& a, const flop_counts& b) {
  for (int i = 0; i < operator_kinds; ++i)
    if (a.by_operator[i].forward != b.by_operator[i].forward ||
        a.by_operator[i].backward != b.by_operator[i].backward ||
        a.by_operator[i].recomputed != b.by_operator[i].recomputed)
      return false;
  return true;
}

}  // namespace

TEST_CASE("random models, trained in random ways, operator by operator") {
  dice roll{std::mt19937_64(1)};
  int wrong = 0;
  int checked[5] = {};
  for (int i = 0; i < 20'000; ++i) {
    const transformer shape = random_model(roll);
    const training_pass pass = random_pass(roll, shape);
    if (!validate(pass, shape)) continue;
    ++checked[static_cast<int>(pass.trains.what)];
    wrong += !same(flops(shape, pass), graph::flops(shape, pass));
  }
  CHECK(wrong == 0);
  for (const int count : checked) CHECK(count > 500);
}
