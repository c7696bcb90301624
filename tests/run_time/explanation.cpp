// The pieces of a peak against the peak itself, for the code of every framework.

#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/memory/explanation.hpp>
#include <gpuplan/memory/step_peaks.hpp>
#include <gpuplan/memory/timeline.hpp>
#include <gpuplan/replay.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "check.hpp"

using namespace gpuplan;

namespace {

// What a formula comes to: the product of the numbers that its factors begin with.
std::int64_t value_of(const std::string& formula) {
  std::int64_t product = 1;
  int depth = 0;
  bool begins = true;
  for (std::size_t at = 0; at < formula.size(); ++at) {
    const char c = formula[at];
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (depth > 0) continue;
    if (begins) product *= std::strtoll(formula.c_str() + at, nullptr, 10);
    begins = at > 1 && formula.compare(at - 2, 3, " x ") == 0;
  }
  return product;
}

void check_pieces(const training_setup& setup, const batch_plan& plan) {
  const std::string code = setup.framework.name;
  CAPTURE(code);
  CAPTURE(plan.data_parallel);
  CAPTURE(setup.parallelism.zero_stage);
  REQUIRE(validate(setup));
  const memory_explanation why = *explain(setup, plan);
  const step_peaks peaks = peaks_of(setup, plan);
  CHECK(why.peak.total == peaks.peak().total);
  CHECK(why.when == peaks.when());
  memory_sum sum;
  for (const memory_piece& piece : why.pieces) {
    CAPTURE(piece.name);
    const std::string text = formula(piece);
    CAPTURE(text);
    CHECK_FALSE(piece.name.empty());
    CHECK(value_of(text) == piece.total());
    CHECK(piece.count % (piece.layers * piece.micro_batches) == 0);
    sum.total += piece.total();
    sum.of[static_cast<int>(piece.part)] += piece.total();
  }
  CHECK(sum == why.peak);
  std::int64_t of_parts = 0;
  for (const std::int64_t part : why.peak.of) of_parts += part;
  CHECK(of_parts == why.peak.total);
  const bool is_largest_first =
      std::is_sorted(why.pieces.begin(), why.pieces.end(), [](const auto& a, const auto& b) {
        if (a.total() != b.total()) return a.total() > b.total();
        return std::pair{a.name, a.kept_for} < std::pair{b.name, b.kept_for};
      });
  CHECK(is_largest_first);
}

training_setup small(const transformer& model, const framework& code) {
  training_setup setup{.model = model,
                       .sequence_length = 96,
                       .precision = bf16_mixed,
                       .attention = attention_kernel::efficient,
                       .framework = code};
  setup.model.num_hidden_layers = 3;
  if (model.relative_attention_buckets != 0) setup.attention = attention_kernel::automatic;
  if (code.layers().has_flash_alone) setup.attention = attention_kernel::flash;
  if (setup.model.num_decoder_layers != 0) setup.model.num_decoder_layers = 3;
  if (model.kind == model_kind::encoder && model.head == head_kind::none) setup.encodings = 2;
  return setup;
}

// Every framework of the catalogue, on one device, with the first model that it has code for.
std::vector<training_setup> of_every_code() {
  std::vector<training_setup> all;
  for (const framework* code : catalog::all_frameworks)
    for (const catalog::published_model& model : catalog::models) {
      if (!model.has_shape) continue;
      const training_setup setup = small(*model.shape, *code);
      if (!validate(setup, {.micro_batch = 2})) continue;
      all.push_back(setup);
      break;
    }
  return all;
}

training_setup divided(training_setup setup, const engine_class* by, int zero_stage) {
  setup.framework.engine.is = by;
  setup.parallelism.zero_stage = zero_stage;
  return setup;
}

// The piece of this name that is kept for this; the first.
const memory_piece& piece_of(const memory_explanation& why,
                             const std::string& name,
                             const std::string& kept_for = "") {
  const auto found =
      std::find_if(why.pieces.begin(), why.pieces.end(), [&](const memory_piece& piece) {
        return piece.name == name && piece.kept_for == kept_for;
      });
  REQUIRE(found != why.pieces.end());
  return *found;
}

constexpr training_setup plain_gpt2{.model = catalog::gpt2,
                                    .sequence_length = 1024,
                                    .precision = bf16_mixed,
                                    .attention = attention_kernel::flash,
                                    .framework = catalog::torch_gpt};

}  // namespace

TEST_CASE("the pieces of every code add up to its peak, part by part") {
  const std::vector<training_setup> setups = of_every_code();
  CHECK(setups.size() >= 30);
  for (const training_setup& setup : setups) check_pieces(setup, {.micro_batch = 2});
}

TEST_CASE("likewise with dropout, a padding mask and layers computed again") {
  for (training_setup setup : of_every_code()) {
    const layer_class& layers = setup.framework.layers();
    setup.dropout = layers.has_dropout ? 0.1 : 0;
    setup.padding_mask = layers.reads_padding && !layers.has_flash_alone;
    setup.recompute = recompute_mode::full;
    check_pieces(setup, {.micro_batch = 2, .accumulation = 2});
    setup.framework.implementation.checkpoints_reenter = true;
    if (validate(setup))
      check_pieces(setup, {.micro_batch = 2});
    else
      CHECK((setup.model.relative_attention_buckets != 0 ||
             setup.framework.layers().has_gradients_beside));
  }
}

TEST_CASE("likewise of all ways to share states among ranks") {
  const training_setup llama = small(catalog::llama_3_2_1b, catalog::hugging_face_llama);
  for (const int stage : {0, 1})
    check_pieces(divided(llama, &engine_classes::ddp, stage),
                 {.micro_batch = 1, .data_parallel = 4});
  for (const int stage : {2, 3})
    check_pieces(divided(llama, &engine_classes::fsdp2, stage),
                 {.micro_batch = 1, .data_parallel = 4});
  check_pieces(divided(small(catalog::llama_3_8b, catalog::torchtitan), &engine_classes::fsdp2, 3),
               {.micro_batch = 1, .data_parallel = 4});
  for (const int stage : {0, 1, 2, 3}) {
    training_setup bf16 = divided(llama, &engine_classes::deepspeed, stage);
    bf16.precision = bf16_master;
    check_pieces(bf16, {.micro_batch = 1, .data_parallel = 4});
  }
}

TEST_CASE("likewise of adapters, whose base may be in four bits") {
  for (const quantised_base& base : {quantised_base{}, double_quantised_base}) {
    training_setup setup = small(catalog::llama_3_2_1b, catalog::hugging_face_llama);
    setup.precision = bf16_under_autocast;
    setup.trains.what = training::adapters;
    setup.trains.adapters.rank = 16;
    setup.trains.adapters.targets = all_linear;
    setup.trains.adapters.base = base;
    check_pieces(setup, {.micro_batch = 2});
    setup.precision = bf16_master;
    for (const int stage : {0, 2, 3})
      check_pieces(divided(setup, &engine_classes::deepspeed, stage),
                   {.micro_batch = 1, .data_parallel = 4});
  }
}

TEST_CASE("likewise of Megatron-Core's ranks and stages") {
  training_setup setup = small(catalog::gpt2, catalog::megatron_core);
  setup.model.num_hidden_layers = 4;
  setup.precision = bf16_master;
  setup.attention = attention_kernel::eager;
  for (const std::int64_t stages : {1, 2}) {
    setup.parallelism.pipeline_parallel = stages;
    setup.parallelism.tensor_parallel = 2;
    REQUIRE(validate(setup));
    const batch_plan plan{.micro_batch = 2, .data_parallel = 2, .accumulation = 4};
    const memory_explanation why = *explain(setup, plan);
    std::int64_t sum = 0;
    for (const memory_piece& piece : why.pieces) {
      sum += piece.total();
      CHECK(value_of(formula(piece)) == piece.total());
    }
    CHECK(sum == why.peak.total);
  }
}

TEST_CASE("the pieces are what the allocator was asked for") {
  const memory_explanation why = *explain(plain_gpt2, {.micro_batch = 8});
  CHECK(why.peak.total == 8'619'549'484);
  CHECK(replay(plain_gpt2, {.micro_batch = 8})->peak.requested == why.peak.total);
  std::int64_t sum = 0;
  for (const memory_piece& piece : why.pieces) sum += piece.total();
  CHECK(sum == 8'619'549'484);
}

TEST_CASE("a piece says what it is, how many there are, and what its sizes are") {
  const memory_explanation why = *explain(plain_gpt2, {.micro_batch = 8});
  CHECK(why.when == step_moment::loss_backward);
  const memory_piece& input_of_gelu = piece_of(why, "up: output", "activation");
  CHECK(input_of_gelu.in_layers);
  CHECK(input_of_gelu.count == 12);
  CHECK(input_of_gelu.total() == 603'979'776);
  CHECK(formula(input_of_gelu) == "12 layers x 8 samples x 1024 tokens x 3072 intermediate x 2 B");
  CHECK(formula(piece_of(why, "token table: weight")) == "50257 vocabulary x 768 hidden x 4 B");
  CHECK(formula(piece_of(why, "query key value: first moment")) ==
        "12 layers x 36 query, key and value heads x 64 head width x 768 hidden x 4 B");
  CHECK(formula(piece_of(why, "loss: gradient of input")) ==
        "8 samples x 1024 tokens x 50257 vocabulary x 4 B");
}

TEST_CASE("equal sizes have the name of what they are") {
  training_setup setup = plain_gpt2;
  setup.sequence_length = 768;  // the hidden size,
  setup.model.intermediate_size = 768;
  setup.model.vocab_size = 768;
  const memory_explanation why = *explain(setup, {.micro_batch = 12});  // and the heads
  CHECK(formula(piece_of(why, "up: output", "activation")) ==
        "12 layers x 12 samples x 768 tokens x 768 intermediate x 2 B");
  CHECK(formula(piece_of(why, "down: weight")) ==
        "12 layers x 768 hidden x 768 intermediate x 4 B");
  CHECK(formula(piece_of(why, "token table: weight")) == "768 vocabulary x 768 hidden x 4 B");
  CHECK(formula(piece_of(why, "attention output: weight")) ==
        "12 layers x 768 hidden x 12 heads x 64 head width x 4 B");
}

TEST_CASE("a timeline's largest point is the peak") {
  const std::vector<memory_point> points = *timeline_of(plain_gpt2, {.micro_batch = 8});
  const auto largest =
      std::max_element(points.begin(), points.end(), [](const auto& a, const auto& b) {
        return a.in_use.total < b.in_use.total;
      });
  REQUIRE(largest != points.end());
  CHECK(largest->in_use == peaks_of(plain_gpt2, {.micro_batch = 8}).peak());
  CHECK(largest->when == step_moment::loss_backward);
  CHECK(points.front().when == step_moment::forward);
  CHECK(points.back().when == step_moment::optimizer);
  for (const memory_point& point : points) {
    std::int64_t sum = 0;
    for (const std::int64_t part : point.in_use.of) sum += part;
    CHECK(sum == point.in_use.total);
  }
}
