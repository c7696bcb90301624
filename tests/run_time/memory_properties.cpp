// What holds of the memory of any training step.

#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/memory/profile.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/replay.hpp>
#include <gpuplan/solver.hpp>
#include <gpuplan/time/roofline.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "check.hpp"
#include "random_model.hpp"

using namespace gpuplan;

namespace {

struct named_setup {
  std::string name;
  training_setup setup;
  std::int64_t data_parallel = 1;
};

transformer small_gpt() {
  transformer model = catalog::gpt2;
  model.num_hidden_layers = 6;
  return model;
}
transformer small_llama() {
  transformer model = catalog::llama_3_2_1b;
  model.num_hidden_layers = 6;
  return model;
}
framework sharded(framework code, const engine_class* by) {
  code.engine.is = by;
  return code;
}

const training_setup gpt{.model = small_gpt(),
                         .sequence_length = 256,
                         .precision = bf16_mixed,
                         .framework = catalog::hugging_face_gpt2};
const training_setup llama{.model = small_llama(),
                           .sequence_length = 512,
                           .precision = bf16_pure,
                           .framework = catalog::hugging_face_llama};

training_setup with_zero(int stage, const engine_class* by) {
  training_setup setup = llama;
  setup.framework = sharded(setup.framework, by);
  setup.parallelism.zero_stage = stage;
  if (by == &engine_classes::fsdp2) setup.precision = bf16_mixed;
  if (by == &engine_classes::deepspeed) setup.precision = bf16_master;
  return setup;
}
training_setup eager_attention(recompute_mode recompute) {
  training_setup setup = gpt;
  setup.framework = catalog::torch_gpt;
  setup.attention = attention_kernel::eager;
  setup.recompute = recompute;
  return setup;
}

training_setup megatron(std::int64_t tensor, std::int64_t stages, std::int64_t stage) {
  training_setup setup{.model = small_gpt(),
                       .sequence_length = 512,
                       .precision = bf16_megatron,
                       .parallelism = {.tensor_parallel = tensor, .pipeline_parallel = stages},
                       .place = {.stage = stage},
                       .framework = catalog::megatron_core};
  setup.model.num_hidden_layers = 8;
  return setup;
}

std::vector<named_setup> setups() {
  training_setup recomputed = llama;
  recomputed.recompute = recompute_mode::full;
  training_setup encoder{.model = catalog::bert_base_uncased,
                         .sequence_length = 128,
                         .encodings = 2,
                         .precision = bf16_mixed,
                         .framework = catalog::hugging_face_bert};
  return {{"GPT-2", gpt},
          {"GPT, eager attention", eager_attention(recompute_mode::selective)},
          {"Llama", llama},
          {"Llama, recomputed", recomputed},
          {"BERT", encoder},
          {"DistributedDataParallel", with_zero(0, &engine_classes::ddp), 8},
          {"ZeroRedundancyOptimizer", with_zero(1, &engine_classes::ddp), 8},
          {"fully_shard", with_zero(3, &engine_classes::fsdp2), 8},
          {"DeepSpeed, stage 2", with_zero(2, &engine_classes::deepspeed), 8},
          {"Megatron-Core, first of two stages", megatron(2, 2, 0), 2}};
}

std::int64_t peak(const training_setup& setup, const batch_plan& plan) {
  return peaks_of(setup, plan).peak().total;
}

// Whether memory falls nowhere over these, each of which `with` puts into a setup or a plan.
template <class With>
void check_rises(const std::vector<std::int64_t>& values, With with) {
  std::int64_t last = 0;
  for (const std::int64_t value : values) {
    CAPTURE(value);
    training_setup setup;
    batch_plan plan;
    with(value, setup, plan);
    const std::int64_t now = peak(setup, plan);
    CHECK(now >= last);
    last = now;
  }
}

std::int64_t kept(const training_setup& setup, const batch_plan& plan) {
  const memory_sum& loss = peaks_of(setup, plan).at[static_cast<int>(step_moment::loss)];
  return loss.of[static_cast<int>(memory_part::activations)];
}

}  // namespace

// Every how many layers one is unlike the others, and how many are so in front.
TEST_CASE("few layers and micro-batches stand for many, whatever differs between them") {
  training_setup titan{.model = small_llama(),
                       .sequence_length = 256,
                       .precision = bf16_mixed,
                       .parallelism = {.zero_stage = 3},
                       .framework = catalog::torchtitan};
  titan.model.tied_embeddings = false;
  std::vector<named_setup> all = setups();
  for (const std::int64_t period : {1, 2, 3}) {
    titan.recompute = recompute_mode::full;
    titan.recompute_period = period;
    all.push_back({"torchtitan, some recomputed", titan, 4});
    titan.recompute = recompute_mode::none;
    all.push_back({"torchtitan", titan, 4});
  }
  training_setup windowed = llama;
  windowed.framework = catalog::hugging_face_gemma_3;
  windowed.model = catalog::gemma_3_1b;
  all.push_back({"Gemma 3", windowed});
  windowed.recompute = recompute_mode::full;
  all.push_back({"Gemma 3, recomputed", windowed});
  // Of two stacks, with as many layers each, and one more in the second.
  for (const std::int64_t more : {0, 1}) {
    training_setup t5 = gpt;
    t5.framework = catalog::hugging_face_t5;
    t5.model = catalog::t5_small;
    t5.model.num_decoder_layers = t5.model.num_hidden_layers + more;
    all.push_back({"T5", t5});
  }
  int compared = 0;
  for (named_setup& one : all)
    for (const std::int64_t layers : {2, 5, 8, 13, 14}) {
      transformer& model = one.setup.model;
      if (model.num_decoder_layers != 0)
        model.num_decoder_layers += layers - model.num_hidden_layers;
      model.num_hidden_layers = layers;
      for (const std::int64_t accumulation : {1, 2, 7}) {
        const batch_plan plan{2, one.data_parallel, accumulation};
        const transformer_memory memory{one.setup};
        if (!validate(memory) || !validate(memory, plan)) continue;
        CAPTURE(one.name);
        CAPTURE(layers);
        CAPTURE(accumulation);
        const step_peaks told = peaks_of(one.setup, plan);
        const step_peaks whole = detail::replayed_peaks(one.setup, plan, layers, {}).by_moment();
        for (int moment = 0; moment < step_moments; ++moment)
          // Of two layers none is between others.
          if (moment != static_cast<int>(step_moment::middle_layer))
            CHECK(told.at[moment].total == whole.at[moment].total);
        CHECK(told.peak() == whole.peak());
        ++compared;
      }
    }
  CHECK(compared > 150);
}

namespace {

bool has_unlike_layers(const transformer& model) {
  return model.sliding_window != 0 || model.no_rope_layer_interval > 1 ||
         model.num_decoder_layers != 0 ||
         (model.moe.num_experts != 0 &&
          (model.moe.moe_layer_step > 1 || model.moe.first_k_dense_layers != 0));
}
// Whether few layers are as all: at every moment as much, and at the peak of the same parts. Of
// layers between the ends those that are not replayed are not told, and have no more than those.
bool are_like_all(const training_setup& setup, const batch_plan& plan) {
  const step_peaks told = peaks_of(setup, plan);
  const std::int64_t layers = setup.model.num_hidden_layers;
  const step_peaks whole = detail::replayed_peaks(setup, plan, layers, {}).by_moment();
  const auto at = [](const step_peaks& of, step_moment moment) {
    return of.at[static_cast<int>(moment)].total;
  };
  for (int one = 0; one < step_moments; ++one) {
    const auto moment = static_cast<step_moment>(one);
    if (moment == step_moment::middle_layer && at(told, moment) < at(whole, moment)) {
      if (at(whole, moment) >
          std::max(at(whole, step_moment::last_layer), at(whole, step_moment::first_layer)))
        return false;
    } else if (at(told, moment) != at(whole, moment)) {
      return false;
    }
  }
  return told.peak() == whole.peak();
}

}  // namespace

// Of models whose layers differ all, of others a sample; some steps are recomputed or shared.
TEST_CASE("few layers stand for many of every code's models") {
  int at = 0;
  int compared = 0;
  int unlike = 0;
  for (const catalog::published_model& model : catalog::models) {
    if (!model.has_shape) continue;
    const bool differs = has_unlike_layers(*model.shape);
    for (const framework* by : catalog::all_frameworks) {
      if (++at % (differs ? 3 : 31) != 0) continue;
      training_setup setup{
          .model = *model.shape, .sequence_length = 64, .precision = bf16_mixed, .framework = *by};
      if (by->engine.is == &engine_classes::megatron) setup.precision = bf16_megatron;
      if (by->engine.is == &engine_classes::fsdp2) setup.parallelism.zero_stage = 3;
      if (by->engine.is == &engine_classes::ddp && at % 2 == 0) {
        setup.framework.engine.is = &engine_classes::fsdp2;
        setup.parallelism.zero_stage = 2 + at / 2 % 2;
      }
      if (at / 3 % 4 == 0) setup.recompute = recompute_mode::full;
      if (at / 3 % 5 == 0) setup.recompute_layers = 2;
      if (at / 3 % 5 == 1) setup.trains = {.what = training::last_layers, .last_layers = 2};
      transformer& of = setup.model;
      const std::int64_t layers = 5 + at % 12;
      if (of.num_decoder_layers != 0) of.num_decoder_layers = layers + at / 12 % 2;
      of.num_hidden_layers = layers;
      const batch_plan plan{1 + at % 2, at / 3 % 3 == 0 ? 1 : 4, 1 + at / 3 % 2};
      if (!validate(transformer_memory{setup}) || !validate(transformer_memory{setup}, plan))
        continue;
      CAPTURE(std::string(model.id));
      CAPTURE(std::string(by->name));
      CAPTURE(at);
      CHECK(are_like_all(setup, plan));
      ++compared;
      unlike += differs;
    }
  }
  MESSAGE(compared, " steps, ", unlike, " of layers that differ");
  CHECK(compared > 120);
  CHECK(unlike > 60);
}

// The first and the last, where weights are gathered or gradients sent one between, each kind of
// layer once more where they differ, and as many as the others leave of a period.
// Where the table's is made wide first, those of all layers are not; where its turn is last, they
// are.
TEST_CASE("few layers stand for many where gradients are widened for weights in fp32") {
  for (const std::int64_t ranks : {1, 4})
    for (const optimizer_kind kind : {optimizer_kind::sgd, optimizer_kind::adamw})
      for (const bool clips : {false, true})
        for (const std::int64_t layers : {5, 8}) {
          training_setup setup{.model = catalog::llama_3_8b,
                               .sequence_length = 256,
                               .precision = bf16_master,
                               .framework = catalog::torch_llama};
          setup.model.num_hidden_layers = layers;
          setup.optimizer = {.kind = kind, .loop = optimizer_loop::fused, .clips_gradients = clips};
          setup.parallelism.tensor_parallel = ranks;
          setup.parallelism.sequence_parallel = ranks > 1;
          const batch_plan plan{.micro_batch = 1, .data_parallel = 1};
          REQUIRE(validate(setup, plan));
          CHECK(peaks_of(setup, plan).peak().total == replay(setup, plan)->peak.requested);
        }
}

TEST_CASE("as many layers are replayed as differ") {
  const auto replayed_of = [](const training_setup& setup, std::int64_t ranks) {
    return detail::repeated_layers(setup, {1, ranks, 1});
  };
  training_setup of_100 = llama;
  of_100.model.num_hidden_layers = 100;
  const auto is = [](const detail::repetition& of, std::int64_t fewer, std::int64_t period) {
    return of.fewer == fewer && of.period == period && of.fewer + of.period * of.steps == 100;
  };
  CHECK(is(replayed_of(of_100, 1), 2, 1));
  CHECK(is(replayed_of(of_100, 2), 3, 1));
  training_setup gathered = of_100;
  gathered.framework.engine.is = &engine_classes::fsdp2;
  gathered.parallelism.zero_stage = 3;
  CHECK(is(replayed_of(gathered, 1), 3, 1));
  CHECK(is(replayed_of(gathered, 2), 3, 1));
  // Of four kinds in turns: 100 layers are 12, and 22 times four.
  training_setup windowed = of_100;
  windowed.model.sliding_window = 16;
  windowed.model.global_layer_step = 4;
  CHECK(is(replayed_of(windowed, 1), 12, 4));
  CHECK(is(replayed_of(windowed, 2), 16, 4));
  // Of six 18 and 4 that are left.
  windowed.model.global_layer_step = 6;
  CHECK(is(replayed_of(windowed, 1), 22, 6));
  windowed.model.global_layer_step = 1;
  CHECK(is(replayed_of(windowed, 1), 2, 1));
  // Without windows nothing is in turns; one may be as short as one token.
  windowed.model.global_layer_step = 4;
  windowed.model.sliding_window = 0;
  CHECK(is(replayed_of(windowed, 1), 2, 1));
  windowed.model.sliding_window = 1;
  CHECK(is(replayed_of(windowed, 1), 12, 4));
  // A window each 2 layers, positions each 3: in turns after 6; alike after 2.
  windowed.model.global_layer_step = 2;
  windowed.model.no_rope_layer_interval = 3;
  CHECK(is(replayed_of(windowed, 1), 22, 6));
  windowed.model.no_rope_layer_interval = 2;
  CHECK(is(replayed_of(windowed, 1), 6, 2));
  training_setup experts = of_100;
  experts.model.moe = {.num_experts = 4, .first_k_dense_layers = 3};
  CHECK(is(replayed_of(experts, 1), 5, 1));
  experts.model.moe.moe_layer_step = 2;
  CHECK(is(replayed_of(experts, 1), 10, 2));  // 3 and 6, and one that is left
  training_setup again = of_100;
  again.recompute_layers = 7;
  CHECK(is(replayed_of(again, 1), 9, 1));
  again = of_100;
  again.recompute = recompute_mode::full;
  again.recompute_period = 2;
  CHECK(is(replayed_of(again, 1), 6, 2));
  again.recompute = recompute_mode::none;
  CHECK(is(replayed_of(again, 1), 2, 1));
  training_setup last = of_100;
  last.trains = {.what = training::last_layers, .last_layers = 6};
  CHECK(is(replayed_of(last, 1), 8, 1));
  // All: of matrices one by one, of several texts, of stages.
  training_setup all = of_100;
  all.optimizer.kind = optimizer_kind::muon;
  CHECK(is(replayed_of(all, 1), 100, 1));
  all.optimizer.kind = optimizer_kind::adafactor;
  CHECK(is(replayed_of(all, 1), 100, 1));
  all = of_100;
  all.encodings = 2;
  CHECK(is(replayed_of(all, 1), 100, 1));
  all = of_100;
  all.parallelism.pipeline_parallel = 2;
  CHECK(is(replayed_of(all, 1), 100, 1));
  // ZeroRedundancyOptimizer's ranks have whole parameters' states; of one rank there is no sharing.
  all = of_100;
  all.parallelism.zero_stage = 1;
  CHECK(is(replayed_of(all, 2), 100, 1));
  CHECK(is(replayed_of(all, 1), 2, 1));
  all.framework.engine.is = &engine_classes::deepspeed;
  CHECK(is(replayed_of(all, 1), 100, 1));
  // T5's first layers gather gradients of all others' biases, where they are computed again.
  training_setup t5 = gpt;
  t5.framework = catalog::hugging_face_t5;
  t5.model = catalog::t5_small;
  t5.model.num_hidden_layers = t5.model.num_decoder_layers = 100;
  CHECK(is(replayed_of(t5, 1), 2, 1));
  t5.recompute = recompute_mode::full;
  CHECK(is(replayed_of(t5, 1), 100, 1));
  t5.recompute = recompute_mode::none;
  t5.framework.engine.is = &engine_classes::fsdp2;
  CHECK(is(replayed_of(t5, 1), 100, 1));
}

// Without stages: the first, one between and the last. With them: those on their way at a stage,
// and two; a period of turns for each chunk. What each adds goes on.
TEST_CASE("as many micro-batches are replayed as differ") {
  const auto is = [](const training_setup& setup,
                     std::int64_t all,
                     std::int64_t fewer,
                     std::int64_t period,
                     std::int64_t steps) {
    const detail::repetition of = detail::repeated_micro_batches(setup, {1, 1, all});
    return of.fewer == fewer && of.period == period && of.steps == steps;
  };
  for (const std::int64_t few : {1, 2, 3}) CHECK(is(llama, few, few, 1, 0));
  CHECK(is(llama, 50, 3, 1, 0));
  training_setup scored = llama;
  scored.objective = training_objective::group_relative;
  CHECK(is(scored, 3, 3, 1, 0));
  CHECK(is(scored, 50, 3, 1, 47));
  for (const std::int64_t stage : {0, 1, 2, 3}) {
    training_setup staged = megatron(1, 4, stage);
    const std::int64_t apart = 4 - stage + 2;
    for (const std::int64_t few : {std::int64_t{1}, apart, apart + 1})
      CHECK(is(staged, few, few, 1, 0));
    CHECK(is(staged, 50, apart, 1, stage == 3 ? 50 - apart : 0));
    staged.parallelism.virtual_pipeline = 2;
    CHECK(is(staged, 16, 16, 4, 0));
    CHECK(is(staged, 48, 12, 4, stage == 3 ? 9 : 0));
  }
  // By torchtitan's, each adds; GPipe's has one, and as many as there are stages at least.
  training_setup titan = megatron(1, 4, 1);
  titan.framework = catalog::torchtitan;
  CHECK(is(titan, 50, 5, 1, 45));
  titan.parallelism.schedule = pipeline_schedule::gpipe;
  const std::int64_t least = micro_batches_of(titan.framework.layers(), titan.parallelism).least;
  CHECK(is(titan, 50, std::max(std::int64_t{3}, least), 1, 50 - std::max(std::int64_t{3}, least)));
}

TEST_CASE("memory never falls as batch, sequence or layers grow") {
  for (const named_setup& one : setups()) {
    CAPTURE(one.name);
    REQUIRE(validate(transformer_memory{one.setup}).why() == failure());
    check_rises({1, 2, 3, 4, 5, 7, 8, 11, 16, 24},
                [&](std::int64_t batch, training_setup& setup, batch_plan& plan) {
                  setup = one.setup;
                  plan = {batch, one.data_parallel, 1};
                });
    check_rises({1, 2, 3, 4, 8}, [&](std::int64_t count, training_setup& setup, batch_plan& plan) {
      setup = one.setup;
      plan = {2, one.data_parallel, count};
    });
    check_rises({64, 128, 192, 256, 320, 512},
                [&](std::int64_t tokens, training_setup& setup, batch_plan& plan) {
                  setup = one.setup;
                  setup.sequence_length = tokens;
                  plan = {2, one.data_parallel, 1};
                });
    check_rises({4, 6, 8, 10, 12},
                [&](std::int64_t layers, training_setup& setup, batch_plan& plan) {
                  setup = one.setup;
                  setup.model.num_hidden_layers = layers;
                  plan = {2, one.data_parallel, 1};
                });
  }
}

TEST_CASE("the peak is at the moment that has most, of as much at the first") {
  for (int most = 0; most < step_moments; ++most) {
    step_peaks peaks;
    for (int moment = 0; moment < step_moments; ++moment)
      peaks.at[moment].total = moment == most ? 20 : 10 + (moment < most ? 1 : 0);
    CHECK(static_cast<int>(peaks.when()) == most);
    CHECK(peaks.peak().total == 20);
    for (int later = most; later < step_moments; ++later) peaks.at[later].total = 20;
    CHECK(static_cast<int>(peaks.when()) == most);
  }
}

namespace {

// The higher one of lines.
struct kinked {
  std::vector<std::pair<std::int64_t, std::int64_t>> lines;  // at zero, and by how much each rises
  std::int64_t* asked = nullptr;

  std::int64_t at(std::int64_t micro_batch) const {
    std::int64_t most = 0;
    for (const auto& [from, rise] : lines) most = std::max(most, from + rise * micro_batch);
    return most;
  }
  std::int64_t operator()(std::int64_t micro_batch) const {
    ++*asked;
    return at(micro_batch);
  }
};

}  // namespace

TEST_CASE("lines go through their points, straight between them, and on as the last two go") {
  dice roll{std::mt19937_64(7)};
  for (int count = 1; count <= detail::rising_lines::most_points; ++count)
    for (int round = 0; round < 20; ++round) {
      // Of one point in four less is told than of the one before: lines fall nowhere.
      std::vector<std::pair<std::int64_t, std::int64_t>> points;
      detail::rising_lines lines;
      for (int at = 0; at < count; ++at) {
        const bool is_first = points.empty();
        const std::int64_t from = is_first ? 1 : points.back().first + roll.from(1, 9);
        const std::int64_t before = is_first ? roll.from(1, 1'000'000) : points.back().second;
        const std::int64_t told = roll.one_in(4) ? before / 2 : before + roll.from(0, 1'000'000);
        lines.add({from, told});
        points.emplace_back(from, is_first ? told : std::max(before, told));
      }
      for (const auto& [from, is] : points)
        CHECK(lines.at(static_cast<double>(from)) == static_cast<double>(is));
      // Of one alone the line goes through nothing for no sample.
      if (count == 1) points.insert(points.begin(), {0, 0});
      for (std::int64_t twice = 2; twice <= 2 * points.back().first + 40; ++twice) {
        std::size_t high = 1;
        while (high + 1 < points.size() && 2 * points[high].first < twice) ++high;
        const auto [from, low] = points[high - 1];
        const auto [to, top] = points[high];
        const double there = static_cast<double>(twice) / 2;
        const double expected = static_cast<double>(low) + static_cast<double>(top - low) *
                                                               (there - static_cast<double>(from)) /
                                                               static_cast<double>(to - from);
        CHECK(lines.at(there) == doctest::Approx(expected).epsilon(1e-12));
      }
    }
}

TEST_CASE("lines are found where there are one, two or more of them, by few questions") {
  dice roll{std::mt19937_64(5)};
  for (int round = 0; round < 3000; ++round) {
    std::int64_t asked = 0;
    kinked memory{{{roll.from(1, 1'000'000), roll.from(0, 100'000)}}, &asked};
    const std::int64_t last = roll.one_in(4) ? roll.from(2, 70) : roll.from(70, 100'000);
    const auto count = static_cast<int>(roll.from(1, 4));
    for (int line = 1; line < count; ++line) {
      // Meets the one before it somewhere, and rises more.
      const auto [from, rise] = memory.lines.back();
      const std::int64_t meets = roll.from(1, last);
      const std::int64_t more = roll.from(1, 100'000);
      memory.lines.emplace_back(from - more * meets, rise + more);
    }
    const detail::rising_lines found = detail::line_finder<kinked>(memory).find(last);
    CAPTURE(round);
    CAPTURE(last);
    CHECK(asked <= (count == 1 ? 15 : count == 2 ? 30 : 120));
    double worst = 0;
    for (std::int64_t at = 1; at <= last; at += at < 100 ? 1 : roll.from(1, last / 50 + 1)) {
      const auto is = static_cast<double>(memory.at(at));
      worst = std::max(worst, std::abs(found.at(static_cast<double>(at)) / is - 1));
    }
    // One line in full, others within what a profile is known to be off.
    CHECK(worst <= (count == 1 ? 1e-12 : 0x1p-9));
    CHECK(found.at(static_cast<double>(last)) == static_cast<double>(memory.at(last)));
  }
}

TEST_CASE("one line is asked for at powers of two up to 64, at its end, and once between each") {
  for (const std::int64_t last :
       {4, 5, 7, 8, 12, 63, 64, 65, 66, 70, 255, 256, 300, 5000, 100'000}) {
    std::vector<std::int64_t> asked;
    const auto line = [&](std::int64_t micro_batch) {
      asked.push_back(micro_batch);
      return 1000 + 10 * micro_batch;
    };
    static_cast<void>(detail::line_finder<decltype(line)>(line).find(last));
    std::sort(asked.begin(), asked.end());
    std::vector<std::int64_t> ends;
    for (std::int64_t end = 1; end < last && end <= 64; end *= 2) ends.push_back(end);
    ends.push_back(last);
    CAPTURE(last);
    std::size_t at = 0;
    for (std::size_t end = 0; end < ends.size(); ++end) {
      REQUIRE(at < asked.size());
      CHECK(asked[at++] == ends[end]);
      if (end + 1 == ends.size() || ends[end + 1] - ends[end] < 2) continue;
      REQUIRE(at < asked.size());
      const auto inside = static_cast<double>(asked[at++]);
      const auto low = static_cast<double>(ends[end]);
      const auto high = static_cast<double>(ends[end + 1]);
      CHECK((inside > low && inside < high));
      // Near the geometric mean where that is far from the ends, else in the middle.
      if (high / low >= 4)
        CHECK((inside <= std::sqrt(low * high) && 2 * inside > std::sqrt(low * high)));
      else
        CHECK(inside == std::floor((low + high) / 2));
    }
    CHECK(at == asked.size());
  }
}

TEST_CASE("where two lines meet is found by as few questions, wherever that is") {
  for (const std::int64_t last : {std::int64_t{100}, std::int64_t{4096}, std::int64_t{100'000}})
    for (std::int64_t at = 2; at < last; at = at < 150 ? at + 1 : at * 2)
      for (const std::int64_t quarters : {0, 1, 2, 3}) {  // behind `at`
        std::int64_t asked = 0;
        const std::int64_t more = 4 * 50'000;
        const std::int64_t meets = 4 * at + quarters;
        kinked memory{{{1'000'000'000, 1'000}, {1'000'000'000 - more / 4 * meets, 1'000 + more}},
                      &asked};
        const detail::rising_lines found = detail::line_finder<kinked>(memory).find(last);
        CAPTURE(last);
        CAPTURE(meets);
        double worst = 0;
        for (std::int64_t batch = 1; batch <= last; batch += 1 + batch / 64) {
          const auto is = static_cast<double>(memory.at(batch));
          worst = std::max(worst, std::abs(found.at(static_cast<double>(batch)) / is - 1));
        }
        CHECK(worst <= 0x1p-13);
        CHECK(asked <= 20);
      }
}

// The second line rises as much, or more, and they do not meet where the step is.
TEST_CASE("lines go on behind a step up between them") {
  for (const std::int64_t last : {100, 4096, 100'000})
    for (const std::int64_t step : {5, 33, 65, 80, 99})
      for (const std::int64_t higher : {1'000, 300'000, 100'000'000})
        for (const std::int64_t rise : {10, 11}) {
          const auto memory = [&](std::int64_t batch) {
            return 1'000'000 + (batch <= step ? 10 * batch : higher + rise * batch);
          };
          const detail::rising_lines found =
              detail::line_finder<decltype(memory)>(memory).find(last);
          CAPTURE(last);
          CAPTURE(step);
          CAPTURE(higher);
          CAPTURE(rise);
          for (std::int64_t end = 1; end < last && end <= 64; end *= 2)
            CHECK(found.at(static_cast<double>(end)) == static_cast<double>(memory(end)));
          CHECK(found.at(static_cast<double>(last)) == static_cast<double>(memory(last)));
          // Between what there would be without the step and with it.
          for (std::int64_t at = 1; at <= last; at += 1 + at / 16) {
            const double told = found.at(static_cast<double>(at));
            CHECK(told >= static_cast<double>(1'000'000 + 10 * at) * (1 - 0x1p-13));
            CHECK(told <= static_cast<double>(1'000'000 + higher + rise * at) * (1 + 0x1p-13));
          }
        }
}

TEST_CASE("a profile is what it was made from, between its points too") {
  for (const named_setup& one : setups()) {
    CAPTURE(one.name);
    const memory_profile profile(transformer_memory{one.setup}, one.data_parallel);
    REQUIRE(validate(profile));
    for (const std::int64_t batch : {1, 3, 7, 13, 23, 61, 150})
      for (const std::int64_t count : {1, 2, 3, 7}) {
        const batch_plan plan{batch, one.data_parallel, count};
        CAPTURE(batch);
        CAPTURE(count);
        const auto replayed = static_cast<double>(peak(one.setup, plan));
        const double off = profile.requested(plan).value() - replayed;
        CHECK((off < 0 ? -off : off) <= 0x1p-9 * replayed);
      }
  }
}

TEST_CASE("as few micro-batches are replayed as fill a pipeline twice, and two") {
  for (const pipeline_schedule schedule :
       {pipeline_schedule::zero_bubble, pipeline_schedule::zero_bubble_v})
    for (const std::int64_t stages : {2, 4, 8})
      for (const std::int64_t count : {1, 5, 12, 40, 41, 96}) {
        training_setup setup = megatron(1, stages, 0);
        setup.framework = catalog::megatron_zero_bubble;
        setup.parallelism.schedule = schedule;
        if (traits_of(schedule).folds) setup.parallelism.virtual_pipeline = 2;
        const micro_batch_rule taken = micro_batches_of(setup.parallelism);
        const std::int64_t all = count * taken.multiple_of;
        const detail::repetition few = detail::repeated_micro_batches(setup, {1, 1, all});
        CHECK(few.fewer <= all);
        CHECK(few.fewer <= 2 * stages + 2 + 2 * taken.multiple_of);
        CHECK((all - few.fewer) % few.period == 0);
      }
}

// At a micro-batch that is a point of the lines. Where fewer are on their way than the stage holds,
// the peak may change its moment between two counts, and the line between them is above.
TEST_CASE("a profile of a pipeline's stage is what each number of micro-batches takes, or above") {
  int compared = 0;
  for (const framework* by : {&catalog::megatron_core, &catalog::megatron_deepspeed})
    for (const std::int64_t stages : {1, 2, 4})
      for (const std::int64_t chunks : {1, 2})
        for (std::int64_t stage = 0; stage < stages; ++stage) {
          training_setup setup = megatron(1, stages, stage);
          setup.framework = *by;
          setup.parallelism.virtual_pipeline = chunks;
          if (!validate(transformer_memory{setup})) continue;
          const memory_profile profile(transformer_memory{setup});
          REQUIRE(validate(profile));
          CAPTURE(by->name);
          CAPTURE(stages);
          CAPTURE(chunks);
          CAPTURE(stage);
          for (std::int64_t count = 1; count <= 10; ++count) {
            const batch_plan plan{2, 1, count * (chunks > 1 ? stages : 1)};
            if (!validate(transformer_memory{setup}, plan)) continue;
            const auto replayed = static_cast<double>(peak(setup, plan));
            const double off = profile.requested(plan).value() / replayed - 1;
            CHECK(off >= -1e-12);
            CHECK(off <= (chunks == 1 && count < stages - stage ? 0.03 : 1e-12));
            ++compared;
          }
        }
  CHECK(compared > 150);
}

TEST_CASE("a profile of torchtitan's stage is what each number of micro-batches takes, or above") {
  int compared = 0;
  for (const pipeline_schedule schedule :
       {pipeline_schedule::one_f_one_b, pipeline_schedule::gpipe})
    for (const std::int64_t stages : {2, 4})
      for (std::int64_t stage = 0; stage < stages; ++stage) {
        training_setup setup{
            .model = small_llama(),
            .sequence_length = 256,
            .precision = bf16_mixed,
            .parallelism = {.pipeline_parallel = stages, .schedule = schedule, .zero_stage = 2},
            .place = {.stage = stage},
            .framework = catalog::torchtitan};
        setup.model.tied_embeddings = false;
        setup.model.num_hidden_layers = 8;
        REQUIRE(validate(transformer_memory{setup}).why() == failure());
        const memory_profile profile(transformer_memory{setup}, 2);
        CAPTURE(static_cast<int>(schedule));
        CAPTURE(stages);
        CAPTURE(stage);
        for (std::int64_t count = 1; count <= 10; ++count) {
          const batch_plan plan{2, 2, count};
          if (!validate(transformer_memory{setup}, plan)) continue;
          const step_peaks whole =
              detail::replayed_peaks(setup, plan, setup.model.num_hidden_layers, {}).by_moment();
          CHECK(peaks_of(setup, plan).peak() == whole.peak());
          const double off =
              profile.requested(plan).value() / static_cast<double>(whole.peak().total) - 1;
          const bool is_full =
              schedule == pipeline_schedule::gpipe ? count >= 3 : count >= stages - stage;
          CHECK(off >= -1e-12);
          CHECK(off <= (is_full ? 1e-12 : 0.03));
          ++compared;
        }
      }
  CHECK(compared > 80);
}

// Where they fill the pipeline; of fewer it is near.
TEST_CASE("a profile of passes of weights is what each number of micro-batches takes") {
  int compared = 0;
  for (const framework* by : {&catalog::megatron_zero_bubble, &catalog::megatron_dual_pipe})
    for (const pipeline_schedule schedule : {pipeline_schedule::zero_bubble,
                                             pipeline_schedule::zero_bubble_v,
                                             pipeline_schedule::dual_pipe,
                                             pipeline_schedule::dual_pipe_v})
      for (const std::int64_t stages : {2, 4})
        for (std::int64_t stage = 0; stage < stages; ++stage) {
          training_setup setup = megatron(1, stages, stage);
          setup.framework = *by;
          setup.parallelism.schedule = schedule;
          if (!validate(transformer_memory{setup})) continue;
          const memory_profile profile(transformer_memory{setup});
          REQUIRE(validate(profile));
          CAPTURE(static_cast<int>(schedule));
          CAPTURE(stages);
          CAPTURE(stage);
          for (std::int64_t count = 1; count <= 3 * stages + 6; ++count) {
            const batch_plan plan{2, 1, count};
            if (!validate(transformer_memory{setup}, plan)) continue;
            const step_peaks told = peaks_of(setup, plan);
            const std::int64_t replayed =
                detail::replayed_peaks(setup, plan, setup.model.num_hidden_layers, {}).peak().total;
            CHECK(told.peak().total == replayed);
            const double off = profile.requested(plan).value() / static_cast<double>(replayed) - 1;
            CHECK(off >= (count < 2 * stages ? -0.0025 : -1e-12));
            CHECK(off <= (count < 2 * stages ? 0.1 : 1e-12));
            ++compared;
          }
        }
  CHECK(compared > 100);
}

TEST_CASE("replicas' gradients in buckets are told for one, two and more micro-batches") {
  for (const std::int64_t ranks : {1, 2, 8}) {
    const training_setup setup = with_zero(0, &engine_classes::ddp);
    const memory_profile profile(transformer_memory{setup}, ranks);
    for (std::int64_t count = 1; count <= 5; ++count) {
      const batch_plan plan{1, ranks, count};
      CHECK(profile.requested(plan).value() == static_cast<double>(peak(setup, plan)));
    }
  }
}

// Powers of two up to 64 are points of the lines.
TEST_CASE("a profile of one stage is what every number of micro-batches takes, to the byte") {
  std::vector<named_setup> all = setups();
  for (const bool is_scored : {false, true}) {
    training_setup scored = llama;
    scored.objective =
        is_scored ? training_objective::group_relative : training_objective::preference;
    all.push_back({"scored completions", scored, 1});
    all.push_back({"scored completions of two ranks", scored, 2});
  }
  for (const named_setup& one : all) {
    if (one.setup.parallelism.pipeline_parallel > 1) continue;
    CAPTURE(one.name);
    REQUIRE(validate(transformer_memory{one.setup}).why() == failure());
    const memory_profile profile(transformer_memory{one.setup}, one.data_parallel);
    for (const std::int64_t batch : {1, 2, 16, 64})
      for (const std::int64_t count : {1, 2, 3, 4, 5, 9}) {
        const batch_plan plan{batch, one.data_parallel, count};
        CAPTURE(batch);
        CAPTURE(count);
        const std::int64_t layers = one.setup.model.num_hidden_layers;
        const memory_sum whole = detail::replayed_peaks(one.setup, plan, layers, {}).peak();
        CHECK(profile.requested(plan).value() ==
              doctest::Approx(static_cast<double>(whole.total)).epsilon(1e-13));
      }
  }
}

TEST_CASE("a profile is of one number of ranks, and of none says what it takes") {
  const memory_profile profile(transformer_memory{with_zero(3, &engine_classes::fsdp2)}, 8);
  CHECK(validate(profile, {1, 8, 1}));
  CHECK(validate(profile, {1, 4, 1}).why() == failure(errc::out_of_bounds,
                                                      named_fact{fact::data_parallel, 4},
                                                      named_fact{fact::at_least, 8},
                                                      named_fact{fact::at_most, 8}));
  CHECK(validate(memory_profile(transformer_memory{gpt}), {1, 1, 1}));
  CHECK(validate(memory_profile(transformer_memory{gpt}, 0)).why().code == errc::not_positive);
  CHECK(validate(memory_profile(transformer_memory{gpt}, std::int64_t{1} << 60)).why().code ==
        errc::overflow);
  CHECK(validate(memory_profile()).why() == failure(errc::not_positive));
}

TEST_CASE("a profile has beside its lines what the memory has beside tensors, and its share") {
  const transformer_memory memory{.setup = with_zero(3, &engine_classes::fsdp2),
                                  .fragmentation = 0.25};
  const memory_profile profile(memory, 8);
  const batch_plan plan{4, 8, 1};
  const memory_breakdown parts = memory.breakdown(plan);
  CHECK(profile.required(plan).value() == doctest::Approx(parts.total().value()).epsilon(1e-12));
  const bytes tensors = profile.requested(plan);
  CHECK(tensors.value() ==
        doctest::Approx(
            (parts.total() - parts.fragmentation - parts.kernels - parts.communication).value()));
  CHECK(parts.fragmentation.value() == doctest::Approx(0.25 * tensors.value()));
  CHECK(parts.communication > bytes{});
}

TEST_CASE("a profile at chosen points, made while compiling, is the one made at run time there") {
  static constexpr transformer_memory memory{{.model = {.num_hidden_layers = 3,
                                                        .hidden_size = 64,
                                                        .intermediate_size = 256,
                                                        .num_attention_heads = 2,
                                                        .vocab_size = 512},
                                              .sequence_length = 32,
                                              .framework = catalog::torch_llama}};
  constexpr memory_profile compiled = profile_at<memory, 1, 1, 8>;
  const memory_profile profile(memory);
  for (const std::int64_t batch : {1, 8})
    for (const std::int64_t count : {1, 2, 5}) {
      const batch_plan plan{batch, 1, count};
      CHECK(compiled.required(plan) == profile.required(plan));
      CHECK(compiled.required(plan) == memory.required(plan));
    }
  // the same at both times, part by part
  constexpr step_peaks then = peaks_of(memory.setup, {3, 1, 1});
  const step_peaks now = peaks_of(memory.setup, {3, 1, 1});
  for (int moment = 0; moment < step_moments; ++moment) CHECK(then.at[moment] == now.at[moment]);
}

TEST_CASE("solvers take a profile, and refuse what it is not for") {
  const memory_profile profile(transformer_memory{with_zero(3, &engine_classes::fsdp2)}, 8);
  const auto plan =
      solve_batch({.effective_batch = {256, 512}, .data_parallel = 8, .gpu = 24_GB}, profile);
  REQUIRE(plan);
  CHECK(profile.required(*plan) <= 24_GB);
  batch_plan more = *plan;
  ++more.micro_batch;
  CHECK(profile.required(more) > 24_GB);
  CHECK(check({.data_parallel = 4}, 24_GB, profile).why().code == errc::out_of_bounds);
  CHECK(validate(memory_profile()).why().code != errc::none);
  training_setup invalid = llama;
  invalid.sequence_length = 0;
  CHECK(validate(memory_profile(transformer_memory{invalid})).why() ==
        validate(transformer_memory{invalid}).why());
}

TEST_CASE("states fall as more of them are shared, and the whole where nothing is gathered") {
  // Of gradients and states; weights are gathered layer by layer, with room for padding.
  const auto states = [](const training_setup& setup) {
    const memory_sum& end = peaks_of(setup, {1, 8, 1}).at[static_cast<int>(step_moment::optimizer)];
    return end.of[static_cast<int>(memory_part::weights)] +
           end.of[static_cast<int>(memory_part::gradients)] +
           end.of[static_cast<int>(memory_part::optimizer_states)];
  };
  CHECK(states(with_zero(1, &engine_classes::ddp)) < states(with_zero(0, &engine_classes::ddp)));
  CHECK(states(with_zero(3, &engine_classes::fsdp2)) <=
        states(with_zero(2, &engine_classes::fsdp2)));
  CHECK(states(with_zero(2, &engine_classes::fsdp2)) < states(with_zero(0, &engine_classes::ddp)));
  for (int stage = 1; stage <= 3; ++stage) {
    CAPTURE(stage);
    CHECK(states(with_zero(stage, &engine_classes::deepspeed)) <=
          states(with_zero(stage - 1, &engine_classes::deepspeed)));
  }
  // The peak: of fully_shard, since weights of all layers are whole between stage 2's passes. Of
  // DeepSpeed not always: stage 2 and 3 have buckets of half a billion elements, whatever the
  // model.
  for (const std::int64_t batch : {1, 4, 16}) {
    const batch_plan plan{batch, 8, 1};
    CHECK(peak(with_zero(3, &engine_classes::fsdp2), plan) <=
          peak(with_zero(2, &engine_classes::fsdp2), plan));
    CHECK(peak(with_zero(1, &engine_classes::ddp), plan) <=
          peak(with_zero(0, &engine_classes::ddp), plan));
  }
}

TEST_CASE("memory of kernels that write no scores is a line through millions of tokens") {
  const auto of_tokens = [](std::int64_t tokens, std::int64_t context, attention_kernel kernel) {
    training_setup setup{
        .model = catalog::llama_3_8b, .sequence_length = tokens, .precision = bf16_mixed};
    setup.framework = context > 1 ? catalog::torchtitan : catalog::torch_llama;
    setup.framework.engine.is = &engine_classes::fsdp2;
    setup.attention = kernel;
    setup.parallelism.context_parallel = context;
    setup.parallelism.zero_stage = 3;
    return transformer_memory{setup};
  };
  const batch_plan plan{1, 8, 1};
  const auto needed = [&](std::int64_t tokens, std::int64_t context) {
    const auto memory = of_tokens(tokens, context, attention_kernel::automatic);
    REQUIRE(validate(memory));
    REQUIRE(validate(memory, plan));
    return memory.required(plan).value();
  };
  for (const std::int64_t context : {1, 8}) {
    const std::int64_t most = context * (std::int64_t{1} << 20);
    const double all = needed(most, context);
    const double half = needed(most / 2, context);
    CHECK(all - half == doctest::Approx(2 * (half - needed(most / 4, context))).epsilon(1e-3));
  }
  for (const attention_kernel kernel : {attention_kernel::math, attention_kernel::eager})
    CHECK(validate(of_tokens(1 << 20, 1, kernel), plan).why().code == errc::overflow);
}

// transformers' classes without `_supports_sdpa`: eager where nobody says which.
TEST_CASE("classes that have no kernel of PyTorch's write out their scores") {
  const std::pair<transformer, framework> classes[] = {
      {catalog::gemma_2_2b, catalog::hugging_face_gemma_2},
      {catalog::bloom_560m, catalog::hugging_face_bloom},
      {catalog::mpt_7b, catalog::hugging_face_mpt},
      {catalog::deberta_v3_small, catalog::hugging_face_deberta},
      {catalog::all_mpnet_base_v2, catalog::hugging_face_mpnet},
      {catalog::gemma_3_1b, catalog::hugging_face_gemma_3}};  // which has one
  for (const auto& [model, code] : classes) {
    CAPTURE(code.name);
    training_setup setup{.model = model, .sequence_length = 512, .framework = code};
    setup.model.num_hidden_layers = 3;
    setup.model.vocab_size = 1000;
    if (model.head == head_kind::none) setup.encodings = 2;
    REQUIRE(validate(setup));
    const bool has_kernel = code.name == catalog::hugging_face_gemma_3.name;
    const auto required = [&] { return transformer_memory{setup}.required({.micro_batch = 2}); };
    const roofline_time on_h100{.setup = setup, .on = {.gpu = catalog::h100_sxm5_80gb}};
    REQUIRE(validate(on_h100));
    const bytes by_default = required();
    setup.attention = attention_kernel::eager;
    REQUIRE(validate(setup));
    CHECK((required() == by_default) == !has_kernel);
    roofline_time by_eager = on_h100;
    by_eager.setup = setup;
    CHECK((by_eager.step({.micro_batch = 2}) == on_h100.step({.micro_batch = 2})) == !has_kernel);
    for (const attention_kernel kernel : {attention_kernel::efficient, attention_kernel::math}) {
      setup.attention = kernel;
      CHECK(static_cast<bool>(validate(setup)) == has_kernel);
    }
  }
}

TEST_CASE("context-parallel ranks share with those of their group") {
  training_setup setup{.model = small_llama(),
                       .sequence_length = 512,
                       .precision = bf16_mixed,
                       .parallelism = {.context_parallel = 2, .zero_stage = 3},
                       .framework = catalog::torchtitan};
  setup.model.tied_embeddings = false;
  const auto required = [&](std::int64_t group, std::int64_t replicas) {
    setup.parallelism.shard_group = group;
    REQUIRE(validate(setup));
    return transformer_memory{setup}.required({.micro_batch = 1, .data_parallel = replicas});
  };
  CHECK(required(4, 4) == required(0, 4));
  CHECK(required(2, 4) > required(4, 4));
  const double states = 16.0 * static_cast<double>(parameters(setup.model).total());
  const double saved = (required(1, 4) - required(2, 4)).value();
  CHECK(saved == doctest::Approx(states / 4).epsilon(0.05));  // a half of them, and a quarter
}

TEST_CASE("convolutions before the layers are of the root that fully_shard wraps") {
  training_setup setup{
      .model = catalog::wav2vec2_base_960h,
      .sequence_length = 16000,
      .precision = bf16_mixed,
      .framework = sharded(catalog::hugging_face_wav2vec2, &engine_classes::fsdp2)};
  setup.model.num_hidden_layers = 2;
  setup.parallelism.zero_stage = 3;
  REQUIRE(validate(setup));
  const auto of = [&](std::int64_t ranks) {
    return transformer_memory{setup}.required({.micro_batch = 1, .data_parallel = ranks}).value();
  };
  const double states = 16.0 * static_cast<double>(parameters(setup.model).total());
  CHECK(of(2) - of(4) == doctest::Approx(states / 4).epsilon(0.15));
}

TEST_CASE("a step takes less with more tensor parallelism") {
  for (const std::int64_t batch : {1, 4})
    for (const std::int64_t stage : {0, 1}) {
      const batch_plan plan{batch, 2, 4};
      CHECK(peak(megatron(2, 2, stage), plan) < peak(megatron(1, 2, stage), plan));
      CHECK(peak(megatron(4, 2, stage), plan) < peak(megatron(2, 2, stage), plan));
    }
}

TEST_CASE("the stages of a pipeline have together at least what one device would have") {
  const batch_plan plan{2, 1, 4};
  for (const std::int64_t stages : {2, 4}) {
    std::int64_t sum = 0;
    for (std::int64_t stage = 0; stage < stages; ++stage)
      sum += peak(megatron(1, stages, stage), plan);
    CHECK(sum >= peak(megatron(1, 1, 0), plan));
  }
}

TEST_CASE("recomputation keeps less") {
  // Of a kernel that keeps its inputs and nothing large, selective recomputation may keep more: the
  // inputs as they are before the kernel copies them.
  for (const std::int64_t batch : {1, 4}) {
    const batch_plan plan{batch, 1, 1};
    const std::int64_t none = kept(eager_attention(recompute_mode::none), plan);
    const std::int64_t selective = kept(eager_attention(recompute_mode::selective), plan);
    const std::int64_t full = kept(eager_attention(recompute_mode::full), plan);
    CHECK(selective < none);
    CHECK(full < selective);
    CHECK(peak(eager_attention(recompute_mode::full), plan) <=
          peak(eager_attention(recompute_mode::none), plan));
  }
}

TEST_CASE("what 64 bits do not hold is an error, at once") {
  const transformer_memory memory{llama};
  const std::int64_t huge = std::int64_t{1} << 40;
  const auto why = [&](const batch_plan& plan) { return check(plan, 80_GB, memory).why(); };
  CHECK(why({.micro_batch = huge}).code == errc::overflow);
  CHECK(why({.micro_batch = huge})[fact::micro_batch] == huge);
  CHECK(why({.data_parallel = huge}).code == errc::out_of_bounds);
  CHECK(why({.data_parallel = huge})[fact::data_parallel] == huge);
  CHECK(why({.accumulation = 2 * huge}).code == errc::out_of_bounds);
  CHECK(!fits({.micro_batch = huge}, 80_GB, memory));

  training_setup longest = llama;
  longest.sequence_length = std::int64_t{1} << 32;
  const failure too_long = check({}, 80_GB, transformer_memory{longest}).why();
  CHECK(too_long.code == errc::overflow);
  CHECK(too_long[fact::sequence_length] == longest.sequence_length);

  training_setup wide = llama;
  wide.model.vocab_size = huge;
  CHECK(check({.micro_batch = 1024}, 80_GB, transformer_memory{wide}).why().code == errc::overflow);
  // Far beyond any device, and still exact.
  CHECK(memory.required({.micro_batch = 1 << 20}) > bytes::from_value(1e15));
}
