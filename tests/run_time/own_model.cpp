// A model of a user's own, against its steps in PyTorch.

#include <gpuplan/memory/explanation.hpp>
#include <gpuplan/memory/timeline.hpp>
#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/replay.hpp>
#include <gpuplan/replay/counts.hpp>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "check.hpp"
#include "own_model/action_head.hpp"

using namespace gpuplan;

namespace {

training_setup setup_of(std::int64_t layers, std::int64_t width) {
  return {.model = ::action_head::shape(layers, width),
          .sequence_length = ::action_head::tokens,
          .precision = bf16_mixed,
          .framework = ::action_head::torch};
}

bool is_valid(const training_setup& setup, const batch_plan& plan) {
  return validate(transformer_memory{setup}) && validate(transformer_memory{setup}, plan);
}

}  // namespace

// By PyTorch 2.15 on a CUDA device without kernels: action_head.py, the third step.
TEST_CASE("the steps of a model of one's own, to the byte") {
  std::ifstream file(GPUPLAN_OWN_MODEL);
  std::string line;
  REQUIRE(std::getline(file, line));
  REQUIRE(line ==
          "pytorch,batch,layers,width,dropout,autocast,recompute,ranks,zero,accumulation,"
          "parameters,forward,backward,requested,allocated,reserved");
  int rows = 0;
  while (std::getline(file, line)) {
    CAPTURE(line);
    std::istringstream cells(line.substr(line.find(',') + 1));
    std::vector<std::int64_t> numbers;
    double dropout = 0;
    for (std::string cell; std::getline(cells, cell, ',');)
      if (numbers.size() == 3 && dropout == 0 && cell.find('.') != std::string::npos)
        dropout = std::stod(cell);
      else
        numbers.push_back(std::stoll(cell));
    REQUIRE(numbers.size() == 14);
    training_setup setup = setup_of(numbers[1], numbers[2]);
    setup.dropout = dropout;
    if (numbers[3] == 0) setup.precision = fp32_precision;
    if (numbers[4] == 1) setup.recompute = recompute_mode::full;
    setup.parallelism.zero_stage = static_cast<int>(numbers[6]);
    const batch_plan plan{numbers[0], numbers[5], numbers[7]};
    REQUIRE(is_valid(setup, plan));
    const step_memory replayed = *replay(setup, plan);
    CHECK(replayed.peak.requested == numbers[11]);
    CHECK(replayed.peak.allocated == numbers[12]);
    CHECK(replayed.peak.reserved == numbers[13]);
    CHECK(peaks_of(setup, plan).peak().total == numbers[11]);
    const result<step_counts> counted = counts_of(setup, plan);
    REQUIRE(counted);
    CHECK(counted->parameters == numbers[8]);
    CHECK(counted->trainable == numbers[8]);
    CHECK(counted->forward.value() == static_cast<double>(numbers[9]));
    CHECK((counted->backward + counted->recomputed).value() == static_cast<double>(numbers[10]));
    ++rows;
  }
  CHECK(rows == 18);
}

TEST_CASE("a few of its layers tell of all") {
  for (std::int64_t layers = 1; layers <= 12; ++layers)
    for (const std::int64_t ranks : {1, 4})
      for (const recompute_mode mode : {recompute_mode::none, recompute_mode::full})
        for (const attention_kernel kernel : {attention_kernel::automatic,
                                              attention_kernel::efficient,
                                              attention_kernel::math,
                                              attention_kernel::eager}) {
          training_setup setup = setup_of(layers, 128);
          setup.dropout = 0.1;
          setup.recompute = mode;
          setup.attention = kernel;
          const batch_plan plan{24, ranks, 1};
          CAPTURE(layers);
          CAPTURE(ranks);
          REQUIRE(is_valid(setup, plan));
          CHECK(peaks_of(setup, plan).peak().total == replay(setup, plan)->peak.requested);
        }
}

TEST_CASE("every question about memory takes it") {
  const training_setup setup = setup_of(4, 256);
  const batch_plan plan{64, 1, 1};
  const std::int64_t peak = peaks_of(setup, plan).peak().total;
  const memory_explanation explained = *explain(setup, plan);
  CHECK(explained.peak.total == peak);
  std::int64_t pieces = 0;
  for (const memory_piece& piece : explained.pieces) pieces += piece.total();
  CHECK(pieces == peak);
  std::int64_t most = 0;
  const std::vector<memory_point> points = *timeline_of(setup, plan);
  for (const memory_point& point : points)
    if (point.in_use.total > most) most = point.in_use.total;
  CHECK(most == peak);
  const memory_breakdown parts = transformer_memory{setup}.breakdown(plan);
  CHECK(parts.activations.value() > 0);
}

TEST_CASE("what it has no code for is refused") {
  training_setup setup = setup_of(4, 256);
  setup.trains = {.what = training::last_layers, .last_layers = 1};
  CHECK_FALSE(validate(setup));
  setup.trains = {};
  setup.parallelism.tensor_parallel = 2;
  CHECK(std::string(failure_text(validate(setup).why()).c_str()) ==
        "tensor_parallel 2 is not taken beside layers action_head; 1 is");
  setup.parallelism = {};
  setup.recompute = recompute_mode::full;
  setup.framework.implementation.checkpoints_reenter = true;
  CHECK(std::string(failure_text(validate(setup).why()).c_str()) ==
        "checkpoints_reenter true is not taken beside layers action_head; false is");
  setup.recompute = recompute_mode::none;
  const auto refusal = [&](const layer_class& layers) {
    setup.framework.implementation.layers = &layers;
    return std::string(failure_text(validate(setup).why()).c_str());
  };
  layer_class changed = ::action_head::classes;
  CHECK(refusal(changed) == "no error");
  changed.layer_period = 0;
  CHECK(refusal(changed) ==
        "this value must be greater than zero: layer_period 0, layers action_head");
  changed = ::action_head::classes;
  changed.code = nullptr;
  CHECK(refusal(changed) == "layers of nobody is not taken");
  CHECK(refusal({}) == "layers of nobody is not taken");
}

TEST_CASE("an outer product takes no workspace") {
  class largest_block final : public eager::memory_events {
   public:
    int allocate(std::int64_t bytes, int /*stream*/) override {
      if (bytes > largest) largest = bytes;
      return 0;
    }
    void release(int /*block*/) override {}
    std::int64_t largest = 0;
  };
  for (const std::int64_t inner : {1, 2}) {
    largest_block memory;
    eager::tape t(memory);
    const eager::value a = t.make({4, 64, inner}, eager::element::fp32);
    const eager::value b = t.make({4, inner, 32}, eager::element::fp32);
    const eager::value product = matmul(t, a, b);
    CHECK(memory.largest == (inner == 1 ? product->bytes() : t.device.matrix_workspace));
  }
}
