// A search in steps, as a compiler takes them, finds what one of all finds; here the steps are
// taken at run time, in random spaces.

#include "check.hpp"
#include "random_model.hpp"

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/memory_model.hpp>
#include <gpuplan/planner.hpp>
#include <gpuplan/planner/chunks.hpp>
#include <gpuplan/time/roofline.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

using namespace gpuplan;

namespace {

bool same_plan(const training_plan& a, const training_plan& b) {
  return a.gpus == b.gpus && a.cluster == b.cluster && a.layout == b.layout &&
         a.recompute == b.recompute && a.batch == b.batch && a.required == b.required;
}

// What a rank holds, and samples in flight; more on GPUs of 40 GB. Asked for in chunks, or at once.
struct asked_memory {
  double fixed = 0;
  double micro_batch = 0;
  std::int64_t in_flight = 1;

  constexpr bytes required(const batch_plan& plan) const {
    const std::int64_t kept = plan.accumulation < in_flight ? plan.accumulation : in_flight;
    return bytes::from_value(fixed + micro_batch * static_cast<double>(plan.micro_batch) *
                                         static_cast<double>(kept));
  }
  template <const asked_memory& Model, batch_plan Plan>
  static constexpr bytes required_in_chunks() {
    return Model.required(Plan);
  }
};
struct asked_memory_of {
  double times = 1;

  asked_memory_of on(const gpu_spec& gpu) const {
    return {usable_memory(gpu) < 50_GB ? 1.5 * times : times};
  }
  asked_memory operator()(const training_setup& setup) const {
    const auto held = static_cast<double>(parameters(setup.model, setup.parallelism, {}).total());
    const double kept[] = {30, 20, 2};
    return {.fixed = times * held * (18 - 3 * setup.parallelism.zero_stage),
            .micro_batch = times * kept[static_cast<int>(setup.recompute)] * 512 * 256,
            .in_flight = setup.parallelism.pipeline_parallel};
  }
};

plan_request random_small_request(dice& roll, std::vector<cluster_choice>& clusters) {
  plan_request asked;
  transformer& model = asked.setup.model;
  model = {.num_hidden_layers = roll.from(2, 6),
           .hidden_size = 256,
           .intermediate_size = 1024,
           .num_attention_heads = 4,
           .vocab_size = 1000,
           .norm = norm_kind::layer_norm,
           .norm_bias = true,
           .position_rows = 512};
  asked.setup.sequence_length = 512;
  asked.setup.precision = bf16_megatron;
  asked.setup.framework = catalog::megatron_core;
  const auto rolled = [&](const gpu_spec& gpu) {
    return cluster{
        .gpu = gpu,
        .nodes = roll.from(1, 2),
        .gpus_per_node = roll.from(1, 4),
        .between_nodes = 25_GBps,
        .price_per_gpu = dated_price{
            static_cast<double>(roll.from(1, 4)) * 1_usd_per_hour, "2026-01-01", "a test"}};
  };
  asked.on = rolled(catalog::a100_sxm4_80gb);
  asked.efficiency = catalog::ampere;
  clusters.clear();
  if (roll.coin()) clusters.push_back({rolled(catalog::a100_pcie_40gb), catalog::ampere});
  if (roll.one_in(3)) clusters.push_back({rolled(catalog::h100_sxm5_80gb), catalog::hopper});
  asked.others = clusters;
  asked.effective_batch = {roll.from(1, 8), 8};
  if (!roll.one_in(4)) {
    const std::int64_t least = roll.from(1, 3);
    asked.space.tensor_parallel = range<std::int64_t>{least, roll.from(least, 6)};
  }
  if (roll.coin()) asked.space.pipeline_parallel = range<std::int64_t>{1, 2};
  asked.space.micro_batch = {1, roll.from(1, 4)};
  asked.space.recompute = roll.one_in(3);
  asked.tensor_within_node = roll.coin();
  asked.goal = static_cast<plan_goal>(roll.from(0, 2));
  if (roll.one_in(8)) {
    asked.samples = 1'000'000;
    asked.finish_in = static_cast<double>(roll.from(1, 5000)) * 1_s;
  }
  return asked;
}

// Whether what was found leaves room for a better plan of these parts.
bool may_be_better(const plan_request& request, const detail::search_progress& at, int wanted) {
  const plan_answer& found = at.found.plans();
  if (found.count < wanted || request.goal == plan_goal::least_memory) return true;
  const std::size_t cluster = detail::request_parts(request).cluster_of_part(at.part);
  const cluster_choice here =
      cluster == 0 ? cluster_choice{request.on, request.efficiency} : request.others[cluster - 1];
  const roofline_time time{.setup = at.setup, .on = here.on, .efficiency = here.efficiency};
  const parallelism& layout = at.setup.parallelism;
  const training_plan asked{
      .cluster = cluster,
      .gpus = at.plan.data_parallel * layout.tensor_parallel * layout.pipeline_parallel,
      .batch = at.plan,
      .step = time.step(at.plan)};
  const double value = detail::goal_value(request, asked);
  return value <= detail::goal_value(request, found.plans[wanted - 1]) * (1 + 1e-9);
}

// All plans of all parts: where any fits, each is evaluated or excluded.
std::int64_t plans_of_parts(const plan_request& request, const asked_memory_of& memory_of) {
  const detail::request_parts parts(request);
  std::int64_t all = 0;
  for (std::int64_t part = 0; part < parts.count(); ++part)
    if (const auto found = plan_training(parts[part], 1e9 * 1_GB, memory_of, 1))
      all += found->evaluated + found->excluded;
  return all;
}

struct search_in_steps {
  detail::search_progress at{};
  bool has_room = true;  // for its questions
  int asked = 0;         // in all
};
// What the compiler does: a step, then the memory that it asked for.
template <class MemoryOf>
search_in_steps searched_in_steps(const plan_request& request,
                                  const MemoryOf& memory_of,
                                  int wanted) {
  const detail::request_parts parts(request);
  search_in_steps search;
  for (detail::search_progress& at = search.at;;) {
    at = detail::advanced(request, memory_of, wanted, at);
    if (at.is_done) return search;
    if (!at.asks) continue;
    search.has_room = at.answered < detail::search_progress::most_questions;
    if (!search.has_room) return search;
    if (!at.is_for_least_memory) CHECK(may_be_better(request, at, wanted));
    const plan_request here = parts[at.part];
    const bytes needed = detail::memory_on(memory_of, here.on.gpu)(at.setup).required(at.plan);
    // Nothing is asked twice.
    for (int before = 0; before < at.answered; ++before)
      CHECK(!at.questions[before].is_of(at.setup, at.plan));
    at.questions[at.answered++] = {
        at.setup.parallelism, at.setup.recompute, at.setup.recompute_layers, at.plan, needed};
    at.asks = false;
    ++search.asked;
  }
}

}  // namespace

TEST_CASE("the parts of a request are each cluster with each degree that it has") {
  dice roll{std::mt19937_64(2)};
  std::vector<cluster_choice> clusters;
  for (int round = 0; round < 300; ++round) {
    const plan_request request = random_small_request(roll, clusters);
    const detail::request_parts parts(request);
    std::int64_t part = 0;
    for (std::size_t cluster = 0; cluster <= clusters.size(); ++cluster) {
      const auto& on = cluster == 0 ? request.on : clusters[cluster - 1].on;
      const std::int64_t most = request.tensor_within_node ? on.gpus_per_node : total_gpus(on);
      const auto& degrees = request.space.tensor_parallel;
      const std::int64_t low = degrees ? degrees->low() : 1;
      const std::int64_t high = degrees ? degrees->high() : 1;
      for (std::int64_t degree = low; degree <= high; ++degree) {
        if (degree > low && degree > most) break;  // the first stands for none
        CHECK(parts.cluster_of_part(part) == cluster);
        const plan_request here = parts[part];
        CHECK(here.on.gpus_per_node == on.gpus_per_node);
        CHECK(here.on.gpu.name == on.gpu.name);
        CHECK(here.others.empty());
        CHECK(static_cast<bool>(here.space.tensor_parallel) == static_cast<bool>(degrees));
        if (degrees) CHECK(here.space.tensor_parallel->low() == degree);
        if (degrees) CHECK(here.space.tensor_parallel->high() == degree);
        ++part;
      }
    }
    CHECK(parts.count() == part);
  }
}

TEST_CASE("a search in steps finds what one of all finds, in random spaces") {
  dice roll{std::mt19937_64(3)};
  std::vector<cluster_choice> clusters;
  int found_any = 0;
  int none = 0;
  int too_late = 0;
  for (int round = 0; round < 400; ++round) {
    const plan_request request = random_small_request(roll, clusters);
    const asked_memory_of memory_of{std::exp2(static_cast<double>(roll.from(0, 13)))};
    const int wanted = static_cast<int>(roll.from(1, 3));
    const search_in_steps search = searched_in_steps(request, memory_of, wanted);
    if (!search.has_room) continue;
    const auto at_once = plan_training(request, memory_of, wanted);
    const auto in_steps = search.at.found.answer();
    CAPTURE(round);
    if (at_once) {
      ++found_any;
      CHECK(!search.at.is_for_least_memory);
      REQUIRE(in_steps);
      REQUIRE(in_steps->count == at_once->count);
      CHECK(in_steps->evaluated + in_steps->excluded == plans_of_parts(request, memory_of));
      for (int plan = 0; plan < at_once->count; ++plan) {
        const training_plan& there = in_steps->plans[plan];
        const training_plan& here = at_once->plans[plan];
        CHECK(there.required.value() ==
              detail::memory_on(memory_of, cluster_of(request, there).gpu)(setup_of(request, there))
                  .required(there.batch)
                  .value());
        // Of plans that are as good those of less tensor parallelism come first.
        if (!same_plan(there, here)) {
          CHECK(detail::goal_value(request, there) ==
                doctest::Approx(detail::goal_value(request, here)).epsilon(1e-12));
        }
      }
    } else if (at_once.why().code == errc::no_plan_in_memory) {
      ++none;
      // Of all plans in any memory the one that needs least.
      CHECK(search.at.is_for_least_memory);
      REQUIRE(in_steps);
      plan_request least = request;
      least.goal = plan_goal::least_memory;
      const auto smallest = plan_training(least, 1e9 * 1_GB, memory_of, 1);
      REQUIRE(smallest);
      CHECK(in_steps->best().required == smallest->best().required);
    } else {
      // Why may be that of another part: one degree may have no layout, another no batch.
      REQUIRE(!in_steps);
      if (at_once.why().code != errc::no_plan_in_time) continue;
      ++too_late;
      CHECK(in_steps.why() == plan_training(request, 1e9 * 1_GB, memory_of, 1).why());
    }
  }
  MESSAGE(found_any, " with plans, ", none, " without, ", too_late, " too late");
  CHECK(found_any > 100);
  CHECK(none > 30);
  CHECK(too_late > 10);
}
