#include "check.hpp"

#include <gpuplan/replay/eager/backward.hpp>
#include <gpuplan/replay/eager/operators.hpp>
#include <gpuplan/replay/eager/tape.hpp>

#include <cstdint>
#include <utility>

using namespace gpuplan::eager;

// How long operators hold what they read, and tapes a mode; an operator from outside.

namespace {

constexpr std::int64_t row = 1024;  // bytes of each tensor here

class counted_memory final : public memory_events {
 public:
  constexpr int allocate(std::int64_t bytes, int stream) override {
    in_use_ += bytes;
    if (in_use_ > most) most = in_use_;
    last_stream = stream;
    const int block = blocks_.push(bytes);
    return block;
  }
  constexpr void release(int block) override { in_use_ -= blocks_[block]; }
  [[nodiscard]] constexpr std::int64_t in_use() const { return in_use_; }

  std::int64_t most = 0;
  int last_stream = 0;

 private:
  growing_array<std::int64_t> blocks_{};
  std::int64_t in_use_ = 0;
};

// The most rows in use at once while `run` makes something of one.
template <class Run>
constexpr std::int64_t most_rows(Run run) {
  counted_memory memory;
  tape t(memory);
  {
    const value x = t.make(sizes{row / 4}, element::fp32);
    const value result = run(t, *x);
  }
  return memory.in_use() == 0 ? memory.most / row : -1;
}

constexpr value handed_on(tape& t, argument x) { return scale(t, x); }
constexpr value held_to_the_end(tape& t, argument given) {
  const held x(given);
  return scale(t, scale(t, x));
}

template <class Operand>
concept adds_two_calls = requires(tape& t, Operand&& first, Operand&& second) {
  add(t, std::forward<Operand>(first), std::forward<Operand>(second));
};

TEST_CASE("a temporary goes when the operator that reads it is done") {
  // the operand, what is made of it, and what is made of that
  CONSTEXPR std::int64_t nested =
      most_rows([](tape& t, const tensor& x) { return scale(t, scale(t, scale(t, scale(t, x)))); });
  STATIC_CHECK(nested == 3);
  CONSTEXPR std::int64_t rebound = most_rows([](tape& t, const tensor& x) {
    value y = scale(t, x);
    for (int time = 0; time < 3; ++time) y = scale(t, y);
    return y;
  });
  STATIC_CHECK(rebound == nested);
  CONSTEXPR std::int64_t named = most_rows([](tape& t, const tensor& x) {
    const value first = scale(t, x);
    const value second = scale(t, first);
    return scale(t, second);
  });
  STATIC_CHECK(named == 4);
  CONSTEXPR std::int64_t second_of_two = most_rows(
      [](tape& t, const tensor& x) { return add(t, x, scale(t, add(t, x, scale(t, x)))); });
  STATIC_CHECK(second_of_two == 3);
}

TEST_CASE("a function holds its argument to its end, or hands it on") {
  CONSTEXPR std::int64_t held_rows =
      most_rows([](tape& t, const tensor& x) { return held_to_the_end(t, scale(t, x)); });
  STATIC_CHECK(held_rows == 4);
  CONSTEXPR std::int64_t handed_on_rows =
      most_rows([](tape& t, const tensor& x) { return scale(t, handed_on(t, scale(t, x))); });
  STATIC_CHECK(handed_on_rows == 3);
  CONSTEXPR std::int64_t given_away = most_rows([](tape& t, const tensor& x) {
    value y = scale(t, x);
    return scale(t, scale(t, std::move(y)));
  });
  STATIC_CHECK(given_away == 3);
}

TEST_CASE("of the arguments of an operator one at most is a call") {
  STATIC_CHECK(adds_two_calls<const value&>);
  STATIC_CHECK(!adds_two_calls<value>);
}

constexpr bool modes_end() {
  counted_memory memory;
  tape t(memory);
  const auto charged = [&](purpose to) { return t.alive[static_cast<int>(to)]; };
  {
    const auto for_weights = t.charge(purpose::weights);
    const auto aside = t.on_stream(2);
    const auto unrecorded = t.without_graph();
    static_cast<void>(t.new_storage(1));
    static_cast<void>(t.charge(purpose::buffers)->new_storage(10));
    static_cast<void>(t.new_storage(100));
    if (memory.last_stream != 2 || t.charges() != purpose::weights) return false;
  }
  static_cast<void>(t.new_storage(1000));
  return memory.last_stream == 0 && charged(purpose::weights) == 101 &&
         charged(purpose::buffers) == 10 && charged(purpose::working) == 1000;
}

TEST_CASE("a mode ends with its scope, and that around it is as before") {
  STATIC_CHECK(modes_end());
}

constexpr bool casts_end() {
  counted_memory memory;
  tape t(memory);
  const int weight = t.add_parameter({4, 4}, element::fp32, true);
  const std::int64_t before = memory.in_use();
  {
    const auto autocast = t.autocast(true, element::bf16);
    { const value copy = lowered_parameter(t, weight); }
    if (memory.in_use() != before + 2 * 16) return false;  // the copy serves the whole forward
    const auto as_given = t.without_autocast();
    if (t.computes_in(element::fp32) != element::fp32) return false;
  }
  return memory.in_use() == before && t.computes_in(element::fp32) == element::fp32;
}

TEST_CASE("copies of parameters go where autocast ends") { STATIC_CHECK(casts_end()); }

// Two rows that go, and the gradient.
constexpr void threefold_backward(const node_backward& b) {
  const value first = b.like_gradient();
  const value second = b.like_gradient();
  b.out[0] = b.like_gradient();
}
constexpr node_kind threefold_kind{"threefold", &threefold_backward};
constexpr value threefold(tape& t, argument given) {
  const held of(given);
  return result_like(t, t.add_node(threefold_kind, {&of}), of, "three times");
}

constexpr bool own_backward_runs() {
  counted_memory memory;
  tape t(memory);
  const int weight = t.add_parameter(sizes{row / 4}, element::fp32, true);
  {
    const value loss = threefold(t, t.parameter(weight));
    if (memory.in_use() != 2 * row) return false;
    t.backward(loss);
  }
  // the weight, the loss, its gradient; the weight and its gradient stay
  return memory.most == (3 + 3) * row && memory.in_use() == 2 * row;
}

TEST_CASE("an operator may stand with its backward outside the library") {
  STATIC_CHECK(own_backward_runs());
}

}  // namespace
