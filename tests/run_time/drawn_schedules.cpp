// What is drawn of a pipeline's schedule: passes in the order of the replay, none before what it
// needs, none beside another, and all of a stage's work; and its picture.

#include <doctest/doctest.h>

#include <gpuplan/parallelism.hpp>
#include <gpuplan/replay/sharding/pass_order.hpp>
#include <gpuplan/time/pipeline.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "report/schedule.hpp"

using namespace gpuplan;
using detail::pipeline_seconds;
using detail::stage_seconds;
using eager::pass_kind;
using report_program::pipeline_task;

namespace {

constexpr pipeline_schedule every_schedule[] = {pipeline_schedule::gpipe,
                                                pipeline_schedule::one_f_one_b,
                                                pipeline_schedule::zero_bubble,
                                                pipeline_schedule::zero_bubble_v,
                                                pipeline_schedule::dual_pipe,
                                                pipeline_schedule::dual_pipe_v};

parallelism layout_of(const pipeline_seconds& line, pipeline_schedule schedule) {
  parallelism layout;
  layout.pipeline_parallel = line.stages;
  layout.virtual_pipeline = line.chunks;
  layout.schedule = schedule;
  return layout;
}

pipeline_seconds random_line(std::mt19937& random, pipeline_schedule schedule, bool interleaved) {
  const auto whole = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  const auto real = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  const schedule_traits by = traits_of(schedule);
  pipeline_seconds line{.stages = whole(1, 4), .micro_batches = whole(1, 12)};
  if (interleaved) line.stages = 1 + whole(1, 4);
  if (by.defers_weights) line.stages = 2 * line.stages;
  if (by.folds) line.chunks = 2;
  if (interleaved) line.chunks = whole(2, 4);
  if (by.folds || by.runs_both_ways) line.micro_batches = 2 * (line.stages + whole(0, 6));
  if (interleaved) line.micro_batches = line.stages * whole(1, 4);
  const double weights = real(0.6, 1);
  line.middle = {1, weights + real(0.9, 1.3), weights};
  const auto end = [&] {
    const double times = real(0.8, 1.4);
    return stage_seconds{times, times * line.middle.backward, times * line.middle.weights};
  };
  line.first = end();
  line.last = by.runs_both_ways ? line.first : by.folds ? line.middle : end();
  line.send = real(0, 0.2);
  return line;
}

// Each pass once, in the replay's order; each stage works as long as the line says.
void check_passes(const pipeline_seconds& line,
                  pipeline_schedule schedule,
                  const std::vector<pipeline_task>& tasks) {
  const parallelism layout = layout_of(line, schedule);
  const bool both_ways = traits_of(schedule).runs_both_ways;
  std::size_t at = 0;
  for (std::int64_t stage = 0; stage < line.stages; ++stage) {
    const eager::pass_order replayed(layout, stage, line.micro_batches);
    double work = 0;
    double before = 0;
    for (int pass = 0; pass < replayed.size(); ++pass) {
      REQUIRE(at < tasks.size());
      const pipeline_task& drawn = tasks[at++];
      CHECK(drawn.stage == stage);
      CHECK(drawn.what == replayed[pass].what);
      CHECK(drawn.chunk == replayed[pass].chunk);
      const std::int64_t first = both_ways ? drawn.chunk * line.micro_batches / 2 : 0;
      CHECK(drawn.micro_batch == first + replayed[pass].micro_batch);
      CHECK(drawn.begin >= before);
      CHECK(drawn.end >= drawn.begin);
      before = drawn.end;
      work += drawn.end - drawn.begin;
    }
    const double wanted = static_cast<double>(line.micro_batches) * line.stage(stage).both();
    CHECK(work == doctest::Approx(wanted).epsilon(1e-12));
  }
  CHECK(at == tasks.size());
}

// Along the chunks one behind the other, by what a picture shows alone.
void check_dependencies(const pipeline_seconds& line,
                        pipeline_schedule schedule,
                        const std::vector<pipeline_task>& tasks) {
  const parallelism layout = layout_of(line, schedule);
  std::map<std::tuple<int, std::int64_t, int>, const pipeline_task*> found;
  for (const pipeline_task& one : tasks) {
    const int what = one.what == pass_kind::backward ? 1 : static_cast<int>(one.what);
    const int key = what == 2 ? 1 : what;  // of inputs alone too
    const std::int64_t place = place_of_chunk(layout, one.stage, one.chunk);
    CHECK(found.emplace(std::tuple{key, place, one.micro_batch}, &one).second);
  }
  const std::int64_t last = chunks_in_all(layout) - 1;
  const double little = 1e-12;
  for (const auto& entry : found) {
    const pipeline_task& task = *entry.second;
    const int what = std::get<0>(entry.first);
    const std::int64_t place = std::get<1>(entry.first);
    const auto follows = [&](int kind, std::int64_t at) {
      const pipeline_task& given = *found.at({kind, at, task.micro_batch});
      const double send = given.stage == task.stage ? 0 : line.send;
      CHECK(task.begin >= given.end + send - little);
    };
    if (what == 0 && place > 0) follows(0, place - 1);
    if (what == 1) follows(0, place);
    if (what == 1 && place < last) follows(1, place + 1);
    if (what == 3) follows(1, place);
  }
}

}  // namespace

TEST_CASE("each schedule is drawn in the order of the replay, and no pass before what it needs") {
  std::mt19937 random(20261127);
  for (const pipeline_schedule schedule : every_schedule)
    for (const bool interleaved : {false, true}) {
      if (interleaved && !traits_of(schedule).interleaves) continue;
      for (int round = 0; round < 40; ++round) {
        const pipeline_seconds line = random_line(random, schedule, interleaved);
        CAPTURE(static_cast<int>(schedule));
        CAPTURE(line.stages);
        CAPTURE(line.micro_batches);
        const std::vector<pipeline_task> tasks = report_program::tasks_of(line, schedule);
        check_passes(line, schedule, tasks);
        check_dependencies(line, schedule, tasks);
      }
    }
}

TEST_CASE("drawn schedules end when their closed forms say") {
  std::mt19937 random(20261123);
  for (const pipeline_schedule schedule : every_schedule)
    for (const bool interleaved : {false, true}) {
      if (interleaved && !traits_of(schedule).interleaves) continue;
      double worst = 0;
      for (int round = 0; round < 100; ++round) {
        pipeline_seconds line = random_line(random, schedule, interleaved);
        if (schedule != pipeline_schedule::gpipe) line.send = 0;
        if (interleaved) line.first = line.last = line.middle;
        // What the closed form of ZB-H1 is of: enough micro-batches, and weights no longer than the
        // rest of a backward.
        if (schedule == pipeline_schedule::zero_bubble) {
          line.micro_batches = std::max(line.micro_batches, 2 * line.stages);
          line.middle.weights = std::min(line.middle.weights, 0.45 * line.middle.backward);
          line.first = line.last = line.middle;
        }
        double end = 0;
        for (const pipeline_task& one : report_program::tasks_of(line, schedule))
          end = std::max(end, one.end);
        worst = std::max(worst, std::abs(1 - detail::pipeline_time(line, schedule) / end));
      }
      CAPTURE(static_cast<int>(schedule));
      CAPTURE(worst);
      // ZB-V, DualPipe and DualPipeV have forms of a few paths alone
      const schedule_traits by = traits_of(schedule);
      CHECK(worst < (by.folds || by.runs_both_ways ? 0.04 : 1e-9));
    }
}

TEST_CASE("stages are named with what they wait") {
  const pipeline_seconds line{
      .stages = 2, .micro_batches = 2, .first = {1, 2, 1}, .middle = {1, 2, 1}, .last = {1, 2, 1}};
  // (2 + 1) 3 s, of which each works 6
  CHECK(report_program::names_of_stages(report_program::tasks_of(line, pipeline_schedule::gpipe)) ==
        std::vector<std::string>{"stage 0, waits 33 %", "stage 1, waits 33 %"});
  parallelism layout;
  CHECK(report_program::mark_of(layout) == "second chunk");
  layout.virtual_pipeline = 3;
  CHECK(report_program::mark_of(layout) == "odd chunks");
  layout = {.schedule = pipeline_schedule::dual_pipe};
  CHECK(report_program::mark_of(layout) == "from the last stage on");
}

namespace {

// Of a colour, what who has no cones of one kind sees of it (Machado, Oliveira and Fernandes 2009,
// severity 1), as CIELAB.
struct lab_colour {
  double l, a, b;
};
using cones = double[3][3];
constexpr cones all_eyes[] = {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
                              {{0.152286, 1.052583, -0.204868},
                               {0.114503, 0.786281, 0.099216},
                               {-0.003882, -0.048116, 1.051998}},
                              {{0.367322, 0.860646, -0.227968},
                               {0.280085, 0.672501, 0.047413},
                               {-0.011820, 0.042940, 0.968881}},
                              {{1.255528, -0.076749, -0.178779},
                               {-0.078411, 0.930809, 0.147602},
                               {0.004733, 0.691367, 0.303900}}};

lab_colour seen(const std::string& colour, const cones& by) {
  double linear[3];
  for (std::size_t at = 0; at < 3; ++at) {
    const double share = std::stoi(colour.substr(1 + 2 * at, 2), nullptr, 16) / 255.0;
    linear[at] = share <= 0.04045 ? share / 12.92 : std::pow((share + 0.055) / 1.055, 2.4);
  }
  double rgb[3];
  for (std::size_t at = 0; at < 3; ++at)
    rgb[at] = std::max(0.0, by[at][0] * linear[0] + by[at][1] * linear[1] + by[at][2] * linear[2]);
  const auto curve = [](double t) { return t > 0.008856 ? std::cbrt(t) : 7.787 * t + 16.0 / 116; };
  const double x = curve((0.4124 * rgb[0] + 0.3576 * rgb[1] + 0.1805 * rgb[2]) / 0.9505);
  const double y = curve(0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2]);
  const double z = curve((0.0193 * rgb[0] + 0.1192 * rgb[1] + 0.9505 * rgb[2]) / 1.089);
  return {116 * y - 16, 500 * (x - y), 200 * (y - z)};
}

}  // namespace

TEST_CASE("who sees fewer colours tells passes apart") {
  for (const cones& by : all_eyes)
    for (const auto& one : report_program::pass_looks)
      for (const auto& other : report_program::pass_looks) {
        if (&one == &other) continue;
        const lab_colour a = seen(one.fill, by);
        const lab_colour b = seen(other.fill, by);
        INFO(one.name, " and ", other.name);
        // 2.3 is what can just be told
        CHECK(std::hypot(a.l - b.l, a.a - b.a, a.b - b.b) > 20);
      }
}
