// The planner against brute force: every plan of random small spaces, one by one.

#include "check.hpp"
#include "random_model.hpp"

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/planner.hpp>
#include <gpuplan/planner/front.hpp>
#include <gpuplan/planner/times.hpp>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <vector>

using namespace gpuplan;

namespace {

// Rises with micro-batch and accumulation, and differs from layout to layout.
struct rising_memory {
  double fixed = 0;
  double sample = 0;
  double micro_batch = 0;
  std::int64_t in_flight = 1;

  bytes required(const batch_plan& plan) const {
    const std::int64_t kept = std::min(plan.accumulation, in_flight);
    return bytes::from_value(fixed + static_cast<double>(plan.micro_batch) *
                                         (sample + static_cast<double>(kept) * micro_batch));
  }
};

// The most layers that a chunk of a setup's stages has.
std::int64_t longest_chunk(const training_setup& setup) {
  const parallelism& layout = setup.parallelism;
  std::int64_t most = 0;
  for (std::int64_t stage = 0; stage < layout.pipeline_parallel; ++stage)
    for (std::int64_t chunk = 0; chunk < layout.virtual_pipeline; ++chunk)
      most = std::max(most, layers_of_chunk(layout, setup.model.layers(), stage, chunk).size());
  return most;
}

struct memory_by_division {
  rising_memory operator()(const training_setup& setup) const {
    const parallelism& layout = setup.parallelism;
    const auto held = static_cast<double>(parameters(setup.model, layout, {}).total());
    const auto ranks = static_cast<double>(layout.tensor_parallel * layout.context_parallel);
    const double again = setup.recompute_layers == 0
                             ? 1
                             : std::min(1.0,
                                        static_cast<double>(setup.recompute_layers) /
                                            static_cast<double>(longest_chunk(setup)));
    const double kept[] = {30, 20, 30 - 28 * again};
    const auto tokens = static_cast<double>(setup.sequence_length * setup.model.hidden_size);
    return {.fixed = held * (18 - 3 * layout.zero_stage),
            .sample = 4 * tokens,
            .micro_batch = tokens * kept[static_cast<int>(setup.recompute)] / ranks,
            .in_flight = layout.pipeline_parallel};
  }
};
struct memory_with_floor : memory_by_division {
  bytes at_least(const training_setup& setup, const batch_plan& plan) const {
    const rising_memory memory = (*this)(setup);
    return std::max(bytes::from_value(memory.fixed), 0.9 * memory.required(plan));
  }
};

struct memory_known_before : memory_by_division {
  bytes at_least(const training_setup& setup, const batch_plan& plan) const {
    return (*this)(setup).required(plan);
  }
};

// A time model that the planner has to ask about each plan.
struct times_by_asking {
  roofline_times by{};
  device_efficiency efficiency{};

  calibrated_time operator()(const training_setup& setup, const cluster& on) const {
    return by(setup, on, efficiency);
  }
};

template <class T>
T one_of(dice& roll, std::initializer_list<T> of) {
  return of.begin()[roll.from(0, static_cast<std::int64_t>(of.size()) - 1)];
}

plan_request random_request(dice& roll, std::vector<training_setup>& setups) {
  plan_request request;
  training_setup& setup = request.setup;
  setup.framework = *one_of(roll,
                            {&catalog::megatron_core,
                             &catalog::megatron_lm,
                             &catalog::megatron_transformer_engine,
                             &catalog::megatron_deepspeed,
                             &catalog::llm_foundry,
                             &catalog::torch_gpt});
  transformer& model = setup.model;
  model.num_hidden_layers = one_of<std::int64_t>(roll, {1, 2, 4, 4, 6, 7, 8, 9, 13});
  model.num_attention_heads = one_of<std::int64_t>(roll, {2, 4, 6});
  model.hidden_size = model.num_attention_heads * 64;
  model.intermediate_size = 4 * model.hidden_size;
  model.vocab_size = 1000;
  model.position_rows = 512;
  model.norm = norm_kind::layer_norm;
  model.norm_bias = true;
  if (setup.framework.implementation.transformer_engine && roll.coin())
    model.moe = {.num_experts = 4,
                 .num_experts_per_tok = 2,
                 .moe_intermediate_size = 256,
                 .first_k_dense_layers = roll.from(0, 1)};
  setup.sequence_length = 512;
  setup.precision = bf16_master;
  if (setup.framework.implementation.layers == &layer_classes::gpt) setup.precision = bf16_mixed;
  setup.parallelism.zero_stage = setup.framework.engine.is == &engine_classes::fsdp2 ? 3 : 0;
  if (setup.framework.engine.is == &engine_classes::deepspeed && roll.coin())
    setup.parallelism.split = {.embedding_layers = 1, .head_layers = 1};
  setup.recompute_layers = roll.one_in(4) ? roll.from(1, 3) : 0;

  request.on = {.gpu = catalog::a100_sxm4_80gb,
                .nodes = one_of<std::int64_t>(roll, {1, 2, 4}),
                .gpus_per_node = one_of<std::int64_t>(roll, {1, 2, 3, 4}),
                .between_nodes = 25_GBps,
                .price_per_gpu = dated_price{2_usd_per_hour, "2026-01-01", "a test"}};
  request.efficiency = catalog::ampere;
  const std::int64_t low = roll.from(1, 24);
  request.effective_batch = {low, low + (roll.one_in(3) ? 0 : roll.from(0, 12))};
  plan_space& space = request.space;
  const auto some = [&](std::int64_t most) {
    const std::int64_t first = roll.one_in(8) ? 2 : 1;
    return range<std::int64_t>{first, std::max(first, roll.from(1, most))};
  };
  if (roll.coin()) space.gpus = some(12);
  if (!roll.one_in(4)) space.tensor_parallel = some(4);
  if (!roll.one_in(4)) space.pipeline_parallel = some(8);
  if (!roll.one_in(4)) space.virtual_pipeline = some(4);
  if (!roll.one_in(4)) space.context_parallel = some(2);
  if (!roll.one_in(4)) space.expert_parallel = some(4);
  if (!roll.one_in(4)) space.zero_stage = range<std::int64_t>{roll.from(0, 1), roll.from(1, 3)};
  space.recompute = roll.coin();
  space.sequence_parallel = roll.one_in(3);
  setups.clear();
  if (roll.one_in(4)) {
    setups.push_back(setup);
    setups.back().precision.fp32_gradients = !setup.precision.fp32_gradients;
    setups.back().framework.costs.hides_gradients = false;
  }
  if (roll.one_in(4)) {
    setups.push_back(setup);
    setups.back().framework = catalog::megatron_core;
    setups.back().framework.costs.hidden_tensor_communication = 0.5;
    setups.back().parallelism.zero_stage = 1;
    setups.back().recompute_layers = 0;
  }
  if (roll.one_in(2)) {
    setups.push_back(setup);
    setups.back().framework = catalog::megatron_transformer_engine;
    setups.back().framework.engine.schedules = {true, true, true, true};
    setups.back().parallelism.zero_stage = 1;
    setups.back().parallelism.split = {};
    setups.back().parallelism.schedule = one_of(roll,
                                                {pipeline_schedule::zero_bubble,
                                                 pipeline_schedule::zero_bubble_v,
                                                 pipeline_schedule::dual_pipe,
                                                 pipeline_schedule::dual_pipe_v});
    if (traits_of(setups.back().parallelism.schedule).folds)
      setups.back().parallelism.virtual_pipeline = 2;
  }
  request.setups = setups;
  space.micro_batch = some(6);
  request.tensor_within_node = !roll.one_in(3);
  request.goal = static_cast<plan_goal>(roll.from(0, 2));
  return request;
}

std::vector<std::int64_t> degrees(const known<range<std::int64_t>>& searched,
                                  std::int64_t as_set,
                                  std::int64_t most) {
  std::vector<std::int64_t> all;
  for (std::int64_t degree = 0; degree <= most; ++degree)
    if (searched ? searched->contains(degree) : degree == as_set) all.push_back(degree);
  return all;
}

// The splits of so many layers that a request stands for: the one that is set; where the stages do
// not divide them, every way to count the ends as layers with which they do; where none is, those
// of all lengths of first and last stage that leave the others as long as the longest must be, and
// of which the first is as long as those, or as long as the last or longer by one.
std::vector<pipeline_split> splits(const training_setup& setup, std::int64_t stages) {
  const std::int64_t layers = setup.model.num_hidden_layers;
  if (stages > layers) return {};
  std::vector<pipeline_split> all{setup.parallelism.split};
  if (setup.framework.engine.is != &engine_classes::megatron || layers % stages == 0 ||
      !(all[0] == pipeline_split{}))
    return all;
  for (const std::int64_t embedding : {0, 1})
    for (const std::int64_t head : {0, 1})
      if (embedding + head > 0 && (layers + embedding + head) % stages == 0)
        all.push_back({.embedding_layers = embedding, .head_layers = head});
  if (all.size() > 1) return all;
  std::int64_t longest = 1;
  while (longest * stages < layers) ++longest;
  for (std::int64_t first = 1; first <= longest; ++first)
    for (std::int64_t last = 1; last <= longest; ++last) {
      if (first + (stages - 2) * longest + last != layers) continue;
      if (first == longest)
        all.push_back({.last_stage_layers = last});
      else if (first == last || first == last + 1)
        all.push_back({.first_stage_layers = first, .last_stage_layers = last});
    }
  return all;
}

bool chooses_layers(const plan_request& request, const training_setup& setup) {
  return request.space.recompute_layers && setup.recompute == recompute_mode::full &&
         setup.framework.layers().chooses_recomputed_layers &&
         setup.framework.engine.is != &engine_classes::deepspeed;
}
// How many layers may be recomputed of each chunk, as a setup says it.
std::vector<std::int64_t> recomputed_layers(const plan_request& request,
                                            const training_setup& setup) {
  std::vector<std::int64_t> all{setup.recompute_layers};
  if (!chooses_layers(request, setup)) return all;
  all = {0};
  for (std::int64_t layers = 1; layers < longest_chunk(setup); ++layers) all.push_back(layers);
  return all;
}

// The plans of one setup that are valid, whatever their time and memory.
void add_plans(const plan_request& request,
               std::size_t which,
               bool along,
               std::vector<training_plan>& plans,
               std::int64_t& count) {
  const plan_space& space = request.space;
  if (along && !space.sequence_parallel) return;
  const training_setup& setup_as_set = which == 0 ? request.setup : request.setups[which - 1];
  const parallelism& as_set = setup_as_set.parallelism;
  const std::int64_t all = total_gpus(request.on);
  for (const std::int64_t gpus : degrees(space.gpus, all, all)) {
    if (gpus == 0 || (gpus > request.on.gpus_per_node && gpus % request.on.gpus_per_node != 0))
      continue;
    for (const std::int64_t t : degrees(space.tensor_parallel, as_set.tensor_parallel, 16))
      for (const std::int64_t p : degrees(space.pipeline_parallel, as_set.pipeline_parallel, 16))
        for (const pipeline_split& split : splits(setup_as_set, p))
          for (const std::int64_t v : degrees(space.virtual_pipeline, as_set.virtual_pipeline, 16))
            for (const std::int64_t c :
                 degrees(space.context_parallel, as_set.context_parallel, 16))
              for (const std::int64_t e : degrees(space.expert_parallel, as_set.expert_parallel, 4))
                for (const std::int64_t z : degrees(space.zero_stage, as_set.zero_stage, 3))
                  for (int mode = 0; mode < 3; ++mode) {
                    const auto recompute = static_cast<recompute_mode>(mode);
                    if (!space.recompute && recompute != setup_as_set.recompute) continue;
                    if (gpus % (t * p * c) != 0) continue;
                    if (request.tensor_within_node && t > request.on.gpus_per_node) continue;
                    if (setup_as_set.model.moe.num_experts == 0 && e > 1) continue;
                    if (space.sequence_parallel && along && t == 1) continue;
                    training_plan plan{
                        .setup = which, .gpus = gpus, .layout = as_set, .recompute = recompute};
                    if (space.sequence_parallel) plan.layout.sequence_parallel = along;
                    plan.layout.tensor_parallel = t;
                    plan.layout.pipeline_parallel = p;
                    plan.layout.split = split;
                    plan.layout.virtual_pipeline = v;
                    plan.layout.context_parallel = c;
                    plan.layout.expert_parallel = e;
                    plan.layout.zero_stage = static_cast<int>(z);
                    plan.recompute_layers = setup_as_set.recompute_layers;
                    const training_setup setup = setup_of(request, plan);
                    if (!validate(setup)) continue;
                    const std::vector<std::int64_t> again = recomputed_layers(request, setup);
                    for (const std::int64_t b : degrees(space.micro_batch, 0, 64))
                      for (std::int64_t m = 1; m <= request.effective_batch.high(); ++m) {
                        plan.batch = {b, gpus / (t * p * c), m};
                        if (!request.effective_batch.contains(plan.batch.effective_batch()))
                          continue;
                        const bool folds = traits_of(as_set.schedule).folds;
                        if (v > 1 && !folds && m % p != 0) continue;
                        if (space.data_parallel &&
                            !space.data_parallel->contains(plan.batch.data_parallel))
                          continue;
                        if (space.accumulation && !space.accumulation->contains(m)) continue;
                        if (!validate(setup, plan.batch)) continue;
                        for (const std::int64_t layers : again) {
                          plans.push_back(plan);
                          plans.back().recompute_layers = layers;
                        }
                        count += 1;
                      }
                  }
  }
}

// `count`: of them, where those that differ in how many layers they recompute are one.
std::vector<training_plan> every_plan(const plan_request& request, std::int64_t& count) {
  std::vector<training_plan> plans;
  for (std::size_t which = 0; which <= request.setups.size(); ++which)
    for (const bool along : {false, true}) add_plans(request, which, along, plans, count);
  return plans;
}

double value_of(const plan_request& request, const training_plan& plan) {
  const double time = plan.per_sample().value();
  if (request.goal == plan_goal::least_memory) return plan.required.value();
  return request.goal == plan_goal::least_money ? time * static_cast<double>(plan.gpus) : time;
}

bool near(double a, double b) { return std::abs(a - b) <= 1e-12 * std::abs(b); }

// Where it is chosen how many layers are recomputed, none is one of the numbers.
bool same_layout(const plan_request& request, const training_plan& a, const training_plan& b) {
  const auto is_number = [&](const training_plan& plan) {
    training_plan full = plan;
    full.recompute = recompute_mode::full;
    return plan.recompute != recompute_mode::selective &&
           chooses_layers(request, setup_of(request, full));
  };
  return a.setup == b.setup && a.gpus == b.gpus && a.layout == b.layout &&
         (a.recompute == b.recompute || (is_number(a) && is_number(b)));
}

// The best value of each layout, in order.
std::vector<double> best_values(const plan_request& request,
                                const std::vector<training_plan>& plans) {
  std::vector<training_plan> best;
  for (const training_plan& plan : plans) {
    const auto found = std::find_if(best.begin(), best.end(), [&](const training_plan& other) {
      return same_layout(request, plan, other);
    });
    if (found == best.end())
      best.push_back(plan);
    else if (value_of(request, plan) < value_of(request, *found))
      *found = plan;
  }
  std::vector<double> values;
  for (const training_plan& plan : best) values.push_back(value_of(request, plan));
  std::sort(values.begin(), values.end());
  return values;
}

struct tally {
  std::int64_t plans = 0;
  std::int64_t with_answer = 0;
  std::int64_t infeasible = 0;
  std::int64_t excluded = 0;
  std::int64_t wrong = 0;
  std::int64_t memory_binds = 0;
  std::int64_t fronts = 0;  // of several plans
  std::int64_t of_setups = 0;
  std::int64_t uneven = 0;       // plans of stages that are split otherwise than is set
  std::int64_t some_layers = 0;  // plans that recompute some of their layers
  std::int64_t ties = 0;         // answers of which another plan is as fast and takes more memory
};

// Whether the answer's order is the one that is stated: what the goal counts, time, memory.
bool is_in_order(const plan_request& request, const training_plan& a, const training_plan& b) {
  const double first = value_of(request, a);
  const double second = value_of(request, b);
  if (first != second) return first < second;
  if (a.per_sample() != b.per_sample()) return a.per_sample() < b.per_sample();
  return a.required <= b.required;
}

// Whether a front has, for every feasible plan, one that is as good and needs no more, and nothing
// that is not feasible.
bool is_front(const plan_request& request,
              const plan_front& front,
              const std::vector<training_plan>& feasible) {
  for (const training_plan& plan : feasible)
    if (front.is_whole && std::none_of(front.begin(), front.end(), [&](const training_plan& of) {
          return value_of(request, of) <= value_of(request, plan) * (1 + 1e-12) &&
                 of.required <= plan.required;
        }))
      return false;
  for (int at = 0; at < front.count; ++at) {
    const training_plan& here = front.plans[at];
    for (const training_plan& plan : feasible)
      if (value_of(request, plan) < value_of(request, here) * (1 - 1e-12) &&
          plan.required <= here.required)
        return false;
    if (at > 0 && !(here.required < front.plans[at - 1].required)) return false;
  }
  return true;
}

template <class MemoryOf, class TimesOf>
void compare(plan_request request,
             dice& roll,
             const MemoryOf& memory_of,
             const roofline_times& times,
             const TimesOf& times_of,
             tally& sums) {
  const bool is_roofline =
      std::same_as<TimesOf, roofline_times> && times.factors == time_factors{} && !times.stack;
  const auto time_of = [&](const training_plan& plan) {
    return times(setup_of(request, plan), request.on, request.efficiency).step(plan.batch);
  };
  std::int64_t count = 0;
  std::vector<training_plan> plans = every_plan(request, count);
  sums.plans += static_cast<std::int64_t>(plans.size());
  std::vector<double> needed;
  std::vector<double> per_samples;
  for (training_plan& plan : plans) {
    plan.step = time_of(plan);
    plan.required = memory_of(setup_of(request, plan)).required(plan.batch);
    needed.push_back(plan.required.value());
    per_samples.push_back(plan.per_sample().value());
  }
  // Memory and limits that some plans meet, and now and then none.
  bytes budget = 1_GB;
  double per_sample = 0;
  if (!plans.empty()) {
    std::sort(needed.begin(), needed.end());
    std::sort(per_samples.begin(), per_samples.end());
    const auto place = [&](std::size_t size) {
      return static_cast<std::size_t>(roll.from(0, static_cast<std::int64_t>(size) - 1));
    };
    budget = bytes::from_value(needed[place(needed.size())] * (roll.one_in(10) ? 0.5 : 1.0001));
    per_sample = per_samples[place(per_samples.size())] * (roll.one_in(10) ? 0.5 : 1.0001);
  }
  request.samples = 1000;
  if (per_sample > 0 && roll.one_in(3)) request.finish_in = duration::from_value(1000 * per_sample);
  if (per_sample > 0 && roll.one_in(3))
    request.at_most = 1000 * per_sample * (1_s * request.on.price_per_gpu->each) *
                      static_cast<double>(total_gpus(request.on)) * 0.7;
  // In whole steps.
  const auto is_in_limits = [&](const training_plan& plan) {
    const std::int64_t batch = plan.batch.effective_batch();
    const auto steps = static_cast<double>((1000 + batch - 1) / batch);
    const double seconds = steps * plan.step.value();
    const double each = request.on.price_per_gpu->each.value();
    return (!request.finish_in || seconds <= request.finish_in->value()) &&
           (!request.at_most ||
            static_cast<double>(plan.gpus) * seconds * each <= request.at_most->value());
  };
  const auto meets = [&](const training_plan& plan) {
    return plan.required <= budget && is_in_limits(plan);
  };
  std::vector<training_plan> feasible;
  for (const training_plan& plan : plans)
    if (meets(plan)) feasible.push_back(plan);
  const std::vector<double> best = best_values(request, feasible);

  const int wanted = static_cast<int>(roll.from(1, plan_answer::most_plans));
  const auto answer = plan_training(request, budget, memory_of, wanted, times_of);
  if (!answer) {
    sums.infeasible += 1;
    sums.wrong += !feasible.empty();
    return;
  }
  sums.with_answer += 1;
  sums.excluded += answer->excluded;
  sums.memory_binds += std::ranges::any_of(plans, [&](const training_plan& plan) {
    return is_in_limits(plan) && value_of(request, plan) < best[0];
  });
  const auto expected = std::min(best.size(), static_cast<std::size_t>(wanted));
  sums.wrong += static_cast<std::size_t>(answer->count) != expected;
  sums.wrong += answer->evaluated + answer->excluded != count;
  for (int at = 0; at < answer->count && static_cast<std::size_t>(at) < expected; ++at) {
    const training_plan& plan = answer->plans[at];
    sums.wrong += !near(value_of(request, plan), best[static_cast<std::size_t>(at)]);
    sums.wrong += !meets(plan);
    const parallelism& as_set =
        plan.setup == 0 ? request.setup.parallelism : request.setups[plan.setup - 1].parallelism;
    sums.uneven += !(plan.layout.split == as_set.split);
    sums.some_layers += request.space.recompute_layers && plan.recompute == recompute_mode::full &&
                        plan.recompute_layers != 0;
    sums.wrong += !near(plan.step.value(), time_of(plan).value());
    sums.wrong += !(plan.required == memory_of(setup_of(request, plan)).required(plan.batch));
    for (int other = 0; other < at; ++other)
      sums.wrong += same_layout(request, plan, answer->plans[other]);
    if (at > 0) sums.wrong += !is_in_order(request, answer->plans[at - 1], plan);
  }
  // Of plans that take the same time, none takes less memory than the best.
  for (training_plan plan : feasible) {
    const training_plan& first = answer->best();
    if (request.goal == plan_goal::least_memory || plan.gpus != first.gpus ||
        !(plan.per_sample() ==
          time_of(first) * (1.0 / static_cast<double>(first.batch.effective_batch()))))
      continue;
    sums.wrong += plan.required < first.required;
    sums.ties += first.required < plan.required;
  }
  if (is_roofline && request.goal != plan_goal::least_memory && roll.one_in(4)) {
    const auto front = front_of(request, budget, memory_of, 0);
    sums.wrong += !front || !is_front(request, *front, feasible);
    sums.fronts += front && front->count > 1;
  }
  // All plans' times worked out: the same answer.
  request.evaluates_all = true;
  const auto all = plan_training(request, budget, memory_of, wanted, times_of);
  sums.wrong += !all || all->count != answer->count || all->excluded != 0;
  for (int at = 0; all && at < all->count; ++at)
    sums.wrong += !(all->plans[at].batch == answer->plans[at].batch &&
                    all->plans[at].recompute_layers == answer->plans[at].recompute_layers &&
                    same_layout(request, all->plans[at], answer->plans[at]) &&
                    all->plans[at].recompute == answer->plans[at].recompute);
}

// Not all layers have experts, or see the whole sequence.
void differ_by_layer(plan_request& request, std::vector<training_setup>& setups) {
  const auto change = [&](transformer& model) {
    if (model.moe.num_experts != 0) {
      model.moe.moe_layer_step = 2;
    } else {
      model.sliding_window = 64;
      model.global_layer_step = 3;
    }
  };
  change(request.setup.model);
  for (training_setup& setup : setups) change(setup.model);
  request.setups = setups;
}

// Whose hosts take long, and the longer the more nodes a pipeline or a group is in.
stack_estimate slow_stack() {
  stack_estimate stack;
  for (const stack_number slow : {stack_number::host_per_collective,
                                  stack_number::host_per_rank,
                                  stack_number::wait_per_node}) {
    stack.logarithms[static_cast<std::size_t>(slow)] = detail::natural_log(1e-3);
    stack.is_set[static_cast<std::size_t>(slow)] = true;
  }
  return stack;
}

}  // namespace

TEST_CASE("branch and bound finds what brute force finds, in 2,500 random spaces") {
  dice roll{std::mt19937_64(1)};
  dice stacks{std::mt19937_64(2)};
  dice batches{std::mt19937_64(3)};
  dice layers{std::mt19937_64(4)};
  dice again{std::mt19937_64(6)};
  tally sums;
  std::vector<training_setup> setups;
  for (int space = 0; space < 2500; ++space) {
    plan_request request = random_request(roll, setups);
    if (layers.one_in(4)) differ_by_layer(request, setups);
    for (auto* of_batch : {&request.space.data_parallel, &request.space.accumulation})
      if (batches.one_in(8)) {
        const std::int64_t least = batches.from(1, 3);
        *of_batch = range<std::int64_t>{least, batches.from(least, 8)};
      }
    request.space.recompute_layers = again.coin();
    sums.of_setups += !setups.empty();
    roofline_times times;
    if (roll.one_in(3)) {
      times.factors = {.layer = 1.2, .output = 0.7, .point_to_point = 3, .sharing = 1.5};
      if (stacks.coin()) times.stack = slow_stack();
    }
    const auto against = [&](const auto& memory_of) {
      if (roll.one_in(3))
        compare(request, roll, memory_of, times, times_by_asking{times, request.efficiency}, sums);
      else
        compare(request, roll, memory_of, times, times, sums);
    };
    if (roll.coin())
      against(memory_with_floor{});
    else
      against(memory_by_division{});
  }
  MESSAGE(sums.plans,
          " plans, of which ",
          sums.excluded,
          " excluded; ",
          sums.with_answer,
          " answers, memory binds ",
          sums.memory_binds,
          ", ",
          sums.infeasible,
          " without; stages split unevenly in ",
          sums.uneven);
  CHECK(sums.wrong == 0);
  CHECK(sums.with_answer > 800);
  CHECK(sums.infeasible > 1000);
  CHECK(sums.memory_binds > 300);
  CHECK(sums.fronts > 40);
  CHECK(sums.uneven > 50);
  CHECK(sums.of_setups > 1000);
  CHECK(sums.some_layers > 60);
  CHECK(sums.ties > 20);
  CHECK(sums.excluded > 20000);
}

TEST_CASE("so it does of PyTorch's pipelines of several chunks") {
  dice roll{std::mt19937_64(5)};
  tally sums;
  std::vector<training_setup> none;
  for (int space = 0; space < 300; ++space) {
    plan_request request = random_request(roll, none);
    training_setup& setup = request.setup;
    setup = {};
    setup.framework = catalog::torchtitan;
    setup.model = {.num_hidden_layers = one_of<std::int64_t>(roll, {8, 12, 13, 16}),
                   .hidden_size = 256,
                   .intermediate_size = 768,
                   .num_attention_heads = 4,
                   .num_key_value_heads = 4,
                   .vocab_size = 1000};
    setup.sequence_length = 512;
    setup.precision.compute = number_format::bf16;
    setup.parallelism.zero_stage = 2;
    setup.parallelism.schedule =
        one_of(roll, {pipeline_schedule::one_f_one_b, pipeline_schedule::zero_bubble});
    setup.parallelism.split.first_have_more = roll.coin();
    request.setups = {};
    plan_space& searched = request.space;
    searched = {.pipeline_parallel = range<std::int64_t>{2, roll.from(2, 4)},
                .virtual_pipeline = range<std::int64_t>{2, roll.from(2, 4)},
                .micro_batch = {1, roll.from(1, 4)}};
    if (roll.coin()) searched.gpus = range<std::int64_t>{1, 16};
    compare(request, roll, memory_by_division{}, roofline_times{}, roofline_times{}, sums);
  }
  CHECK(sums.wrong == 0);
  CHECK(sums.with_answer > 100);
  CHECK(sums.memory_binds > 30);
}

// Of a pipeline that is not full memory rises with accumulation, so that with less of it fewer
// layers are recomputed.
TEST_CASE("so it does where fewer layers are recomputed with less accumulation") {
  dice roll{std::mt19937_64(7)};
  tally sums;
  for (int space = 0; space < 300; ++space) {
    plan_request request;
    training_setup& setup = request.setup;
    setup.framework = catalog::megatron_transformer_engine;
    setup.model = {.num_hidden_layers = one_of<std::int64_t>(roll, {16, 24, 32}),
                   .hidden_size = 256,
                   .intermediate_size = 1024,
                   .num_attention_heads = 4,
                   .num_key_value_heads = 4,
                   .vocab_size = 1000};
    setup.sequence_length = one_of<std::int64_t>(roll, {512, 4096});
    setup.precision = bf16_megatron;
    request.on = {.gpu = catalog::a100_sxm4_80gb,
                  .nodes = 2,
                  .gpus_per_node = 4,
                  .between_nodes = 25_GBps,
                  .price_per_gpu = dated_price{2_usd_per_hour, "2026-01-01", "a test"}};
    request.efficiency = catalog::ampere;
    request.effective_batch = {roll.from(1, 4), roll.from(5, 12)};
    request.space = {.pipeline_parallel = range<std::int64_t>{roll.coin() ? 8 : 4, 8},
                     .recompute = true,
                     .recompute_layers = true,
                     .micro_batch = {1, roll.from(1, 2)}};
    if (roll.coin()) request.space.virtual_pipeline = range<std::int64_t>{1, 2};
    if (roll.coin())
      compare(request, roll, memory_known_before{}, roofline_times{}, roofline_times{}, sums);
    else
      compare(request, roll, memory_by_division{}, roofline_times{}, roofline_times{}, sums);
  }
  CHECK(sums.wrong == 0);
  CHECK(sums.with_answer > 80);
  CHECK(sums.some_layers > 60);
}

// Whose weights are gathered, which those of other stages of ZeRO are not.
TEST_CASE("so it does where the layout that is set shares more than others") {
  dice roll{std::mt19937_64(8)};
  tally sums;
  for (int space = 0; space < 400; ++space) {
    plan_request request;
    training_setup& setup = request.setup;
    setup.framework = catalog::hugging_face_llama;
    setup.framework.engine.is = &engine_classes::deepspeed;
    setup.model = {.num_hidden_layers = roll.from(2, 12),
                   .hidden_size = 256,
                   .intermediate_size = 1024,
                   .num_attention_heads = 4,
                   .num_key_value_heads = 4,
                   .vocab_size = 1000};
    setup.sequence_length = 4096;
    setup.precision = bf16_master;
    setup.parallelism.zero_stage = 3;
    request.on = {.gpu = catalog::a100_sxm4_80gb,
                  .nodes = 2,
                  .gpus_per_node = 2,
                  .between_nodes = 1_GBps,
                  .price_per_gpu = dated_price{2_usd_per_hour, "2026-01-01", "a test"}};
    request.efficiency = catalog::ampere;
    request.effective_batch = {roll.from(4, 16), roll.from(16, 40)};
    request.space = {.zero_stage = range<std::int64_t>{1, 3},
                     .recompute = roll.coin(),
                     .recompute_layers = true,
                     .micro_batch = {1, roll.from(1, 8)}};
    compare(request, roll, memory_with_floor{}, roofline_times{}, roofline_times{}, sums);
  }
  CHECK(sums.wrong == 0);
  CHECK(sums.with_answer > 60);
}
