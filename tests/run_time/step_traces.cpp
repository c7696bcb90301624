// Traces of steps, of memory and of operators: sums of what they note, times by hand, and the peaks
// that are worked out without them.

#include "check.hpp"

#include <gpuplan/catalog/framework_parts.hpp>
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/memory/explanation.hpp>
#include <gpuplan/memory/step_trace.hpp>
#include <gpuplan/memory/timeline.hpp>
#include <gpuplan/memory/trace.hpp>
#include <gpuplan/replay/counts.hpp>
#include <gpuplan/replay/step_time.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

using namespace gpuplan;

namespace {

training_setup of_layers(std::int64_t layers, const framework& by) {
  training_setup setup{
      .model = catalog::gpt2, .sequence_length = 256, .precision = bf16_mixed, .framework = by};
  setup.model.num_hidden_layers = layers;
  return setup;
}
training_setup of_stage(std::int64_t stage) {
  training_setup setup = of_layers(4, catalog::megatron_core);
  setup.precision = bf16_megatron;
  setup.parallelism.pipeline_parallel = 2;
  setup.place.stage = stage;
  return setup;
}

training_setup of_two_stacks() {
  training_setup setup{.model = catalog::t5_small,
                       .sequence_length = 128,
                       .target_length = 64,
                       .precision = bf16_mixed,
                       .framework = catalog::hugging_face_t5};
  return setup;
}

struct traced_step {
  std::string name;
  training_setup setup;
  batch_plan plan;
};
std::vector<traced_step> steps() {
  training_setup sharded = of_layers(3, catalog::torchtitan);
  sharded.model = catalog::llama_3_2_1b;
  sharded.model.num_hidden_layers = 3;
  sharded.model.tied_embeddings = false;
  sharded.parallelism.zero_stage = 3;
  return {{"alone", of_layers(3, catalog::hugging_face_gpt2), {2, 1, 2}},
          {"replicas", of_layers(3, catalog::hugging_face_gpt2), {1, 8, 1}},
          {"fully_shard", sharded, {1, 8, 1}},
          {"two stacks", of_two_stacks(), {1, 1, 1}},
          {"first stage", of_stage(0), {1, 2, 4}},
          {"last stage", of_stage(1), {1, 2, 4}}};
}

}  // namespace

TEST_CASE("a trace's blocks add up to what is in use, whose most is the peak, at its moment") {
  for (const traced_step& one : steps()) {
    CAPTURE(one.name);
    const auto traced = trace_of(one.setup, one.plan);
    REQUIRE(traced);
    const memory_trace& trace = *traced;
    const std::vector<memory_point> points = *timeline_of(one.setup, one.plan);
    const memory_explanation explained = *explain(one.setup, one.plan);
    std::vector<bool> is_there(trace.blocks.size(), false);
    std::fill_n(is_there.begin(), trace.before, true);
    std::int64_t in_use = 0;
    for (std::size_t at = 0; at < trace.before; ++at) in_use += trace.blocks[at].bytes;
    CHECK(trace.before > 0);
    CHECK(trace.at_first.total == in_use);
    memory_change most{.in_use = trace.at_first};
    double flops = 0;
    std::size_t point = 0;
    bool saw_second = false;
    bool saw_no_layer = false;
    bool saw_first_backward = false;
    const bool is_pipelined = one.setup.framework.engine.is == &engine_classes::megatron;
    for (const memory_change& change : trace.changes) {
      const memory_block& block = trace.blocks[change.block];
      REQUIRE(is_there[change.block] != change.comes);
      is_there[change.block] = change.comes;
      in_use += (change.comes ? 1 : -1) * block.bytes;
      REQUIRE(change.in_use.total == in_use);
      std::int64_t parts = 0;
      for (const std::int64_t part : change.in_use.of) parts += part;
      REQUIRE(parts == in_use);
      REQUIRE(change.flops >= flops);
      flops = change.flops;
      if (in_use > most.in_use.total) most = change;
      // Behind the first layer's backward is that of the embedding.
      if (pass_of(change.when) != step_pass::backward) saw_first_backward = false;
      if (change.when == step_moment::first_layer) saw_first_backward = true;
      if (saw_first_backward && change.layer == eager::none && !is_pipelined)
        REQUIRE(change.when == step_moment::embedding);
      if (!change.comes) continue;
      REQUIRE(point < points.size());
      REQUIRE(points[point].in_use == change.in_use);
      REQUIRE(points[point].when == change.when);
      REQUIRE(points[point].layer == change.layer);
      REQUIRE(block.when == change.when);
      REQUIRE(block.layer == change.layer);
      REQUIRE(block.layer < one.setup.model.layers());
      saw_second = saw_second || block.layer == 1;
      saw_no_layer = saw_no_layer || block.layer == eager::none;
      ++point;
    }
    CHECK(point == points.size());
    CHECK(saw_second);
    CHECK(saw_no_layer);
    if (one.setup.framework.engine.is != &engine_classes::megatron)  // of which none are counted
      CHECK(flops == counts_of(one.setup, one.plan)->hardware().value());
    const step_peaks peaks = peaks_of(one.setup, one.plan);
    CHECK(most.in_use == peaks.peak());
    CHECK(most.when == peaks.when());
    CHECK(explained.peak == peaks.peak());
    CHECK(explained.when == peaks.when());
    CHECK(explained.layer == most.layer);
    std::int64_t pieces = 0;
    std::int64_t of_parts[memory_parts]{};
    for (const memory_piece& piece : explained.pieces) {
      pieces += piece.total();
      of_parts[static_cast<int>(piece.part)] += piece.total();
      CHECK(piece.count % (piece.layers * piece.micro_batches) == 0);
      CHECK(piece.layers <= one.setup.model.layers());
      CHECK(piece.micro_batches <= one.plan.accumulation);
    }
    CHECK(pieces == peaks.peak().total);
    for (int part = 0; part < memory_parts; ++part) CHECK(of_parts[part] == peaks.peak().of[part]);
    // Each moment's most is what few layers tell.
    for (int moment = 0; moment < step_moments; ++moment) {
      std::int64_t seen = 0;
      for (const memory_point& here : points)
        if (static_cast<int>(here.when) == moment) seen = std::max(seen, here.in_use.total);
      CHECK(seen <= peaks.at[moment].total);
    }
  }
}

TEST_CASE("pieces are told by layers and micro-batches where these have as many each") {
  using places = std::vector<std::pair<int, int>>;  // layer and micro-batch
  const auto told = [](const places& all) {
    std::vector<eager::live_storage> storages;
    for (const auto& [layer, forward] : all) {
      eager::live_storage one{};
      one.name = "up: output";
      one.layer = layer;
      one.forward = forward;
      one.bytes = 8;
      one.element_bytes = 8;
      storages.push_back(one);
    }
    const std::vector<memory_piece> pieces = detail::pieces_of(storages);
    REQUIRE(pieces.size() == 1);
    CHECK(pieces[0].total() == 8 * static_cast<std::int64_t>(all.size()));
    return formula(pieces[0]);
  };
  CHECK(told({{0, 0}}) == "8 B");
  CHECK(told({{0, 0}, {0, 0}}) == "2 x 8 B");
  CHECK(told({{0, 0}, {1, 0}, {2, 0}}) == "3 layers x 8 B");
  CHECK(told({{0, 0}, {0, 1}}) == "2 micro-batches x 8 B");
  CHECK(told({{0, 0}, {1, 0}, {0, 1}, {1, 1}}) == "2 layers x 2 micro-batches x 8 B");
  CHECK(told({{0, 0}, {1, 0}, {0, 0}, {1, 0}}) == "2 layers x 2 x 8 B");
  CHECK(told({{0, 0}, {1, 0}, {1, 1}}) == "3 x 8 B");
  CHECK(told({{0, 0}, {1, 0}, {0, 1}, {1, 1}, {0, 2}, {1, 3}}) == "2 layers x 3 x 8 B");
  CHECK(told({{eager::none, 0}, {eager::none, 1}}) == "2 micro-batches x 8 B");
}

TEST_CASE("changes of a trace come after what is done before them, pass by pass") {
  memory_trace trace;
  trace.blocks = {{.bytes = 100}, {.bytes = 300}, {.bytes = 200}};
  const auto change = [&](std::size_t block, bool comes, step_moment when, double flops) {
    trace.changes.push_back({.block = block, .comes = comes, .when = when, .flops = flops});
  };
  change(0, true, step_moment::forward, 5);          // 0.5 s of products and 2 s of bytes,
  change(1, true, step_moment::loss, 10);            // 0.5 s and 6 s
  change(0, false, step_moment::loss_backward, 30);  // 2 s of products
  change(2, true, step_moment::first_layer, 50);     // 2 s and 4 s
  change(2, true, step_moment::embedding, 50);       // 4 s
  change(1, false, step_moment::optimizer, 50);      // nothing,
  change(2, false, step_moment::optimizer, 50);      // in the whole pass
  change(0, true, step_moment::forward, 50);         // and another step's
  const std::vector<double> times = times_of(
      trace,
      {.forward = 18_s, .backward = 24_s, .optimizer = 5_s, .flops_per_s = 10, .bytes_per_s = 100});
  const std::vector<double> by_hand{0, 5, 18, 22, 34, 47, 47, 47, 65};
  REQUIRE(times.size() == by_hand.size());
  for (std::size_t at = 0; at < times.size(); ++at)
    CHECK(times[at] == doctest::Approx(by_hand[at]));
  CHECK(times_of({}, {}) == std::vector<double>{0});
  CHECK(pass_of(step_moment::last_layer) == step_pass::backward);
  CHECK(pass_of(step_moment::middle_layer) == step_pass::backward);
}

TEST_CASE("a pace is a micro-batch's part of the step, without what waits") {
  const step_breakdown parts{.data = 100_s,
                             .forward = 2_s,
                             .backward = 3_s,
                             .recompute = 1_s,
                             .tensor_communication = 4_s,
                             .gradient_communication = 7_s,
                             .parameter_communication = 5_s,
                             .bubble = 100_s,
                             .optimizer = 6_s,
                             .host = 9_s};
  // Of 18 s a third goes to the forward.
  const step_pace pace = pace_of(parts, 2, 10, 20);
  CHECK(pace.forward.value() == doctest::Approx(4));
  CHECK(pace.backward.value() == doctest::Approx((4 + 12 + 7) / 2.0));
  CHECK(pace.optimizer == 6_s);
  CHECK(pace.flops_per_s == 10);
  CHECK(pace.bytes_per_s == 20);
  // Without kernels half of it.
  const step_pace waits = pace_of({.host = 3_s}, 1, 1, 1);
  CHECK(waits.forward == 1.5_s);
  CHECK(waits.backward == 1.5_s);
}

TEST_CASE("operators follow each other on the host and on each stream, and add up to the parts") {
  replayed_time alone{.setup = of_layers(2, catalog::hugging_face_gpt2),
                      .on = {.gpu = catalog::h100_sxm5_80gb}};
  replayed_time several = alone;
  several.on.gpus_per_node = 8;
  several.on.inside_node = 450_GBps;
  several.setup.framework.engine = catalog::engines::fsdp2;
  several.setup.parallelism.zero_stage = 3;
  for (const auto& [model, plan] :
       {std::pair{alone, batch_plan{2, 1, 2}}, std::pair{several, batch_plan{1, 8, 1}}}) {
    const auto traced = trace_of(model, plan);
    REQUIRE(traced);
    const step_trace& trace = *traced;
    double issued = 0;
    double device[eager::streams::count] = {};
    double of_pass[4] = {};
    int collectives = 0;
    bool saw_last_layer = false;
    std::vector<double> ends{0};
    for (const traced_operator& one : trace.operators) {
      REQUIRE(one.issue_begin >= issued - 1e-12);
      REQUIRE(one.issue_end >= one.issue_begin);
      REQUIRE(one.begin >= one.issue_end);
      REQUIRE(one.begin >= device[one.stream] - 1e-12);
      REQUIRE(one.end >= one.begin);
      issued = one.issue_end;
      device[one.stream] = one.end;
      ends.push_back(one.issue_end);
      collectives += one.is_collective;
      CHECK((one.is_collective ? one.exchanged.ranks > 1 : one.exchanged.ranks <= 1));
      saw_last_layer = saw_last_layer || one.layer == 1;
      if (one.stream == eager::streams::operators)
        of_pass[static_cast<int>(one.pass)] += one.end - one.begin;
    }
    CHECK(saw_last_layer);
    CHECK((collectives > 0) == (plan.data_parallel > 1));
    const step_breakdown parts = *model.breakdown(plan);
    CHECK(trace.parts.total() == parts.total());
    CHECK(of_pass[0] == doctest::Approx(parts.forward.value()));
    CHECK(of_pass[2] == doctest::Approx(parts.recompute.value()));
    CHECK(of_pass[3] == doctest::Approx(parts.optimizer.value()));
    CHECK(device[eager::streams::operators] <= parts.total().value() * (1 + 1e-9));
    if (plan.data_parallel == 1)
      CHECK(device[eager::streams::operators] == doctest::Approx(parts.total().value()));
    // Each change of memory is where the host is.
    CHECK(trace.memory_times.size() == trace.memory.changes.size());
    CHECK(std::is_sorted(trace.memory_times.begin(), trace.memory_times.end()));
    for (const double at : trace.memory_times)
      REQUIRE(std::binary_search(ends.begin(), ends.end(), at));
    // Something goes behind the last operator; of one device something comes before the first.
    CHECK(trace.memory_times.back() == trace.operators.back().issue_end);
    if (plan.data_parallel == 1) {
      CHECK(trace.memory_times.front() == 0);
      const auto first = std::find_if(
          trace.memory_times.begin(), trace.memory_times.end(), [](double at) { return at > 0; });
      CHECK(*first == trace.operators.front().issue_end);
    }
    std::int64_t most = 0;
    for (const memory_change& change : trace.memory.changes)
      most = std::max(most, change.in_use.total);
    CHECK(most == explain(model.setup, plan)->peak.total);
    if (plan.data_parallel > 1) continue;
    const work_counts forward = counts_of(model.setup, plan)->work->forward;
    const auto in_forward = [](const traced_operator& one) {
      return static_cast<int>(one.pass) == 0;
    };
    CHECK(std::count_if(trace.operators.begin(), trace.operators.end(), in_forward) ==
          forward.operators);
  }
}
