// What the planner is put together from, each beside brute force: numbers of GPUs, accumulations,
// splits of layers, halves of spaces, lists of the best, and limits of a run.

#include "check.hpp"
#include "random_model.hpp"

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/planner.hpp>
#include <gpuplan/planner/answer.hpp>
#include <gpuplan/planner/candidates.hpp>
#include <gpuplan/planner/domain.hpp>
#include <gpuplan/planner/limits.hpp>
#include <gpuplan/planner/request.hpp>
#include <gpuplan/planner/times.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

using namespace gpuplan;

namespace {

plan_request on_nodes(std::int64_t nodes, std::int64_t in_node) {
  plan_request request;
  request.setup = {.model = catalog::gpt2,
                   .sequence_length = 1024,
                   .precision = bf16_megatron,
                   .framework = catalog::megatron_lm};
  request.on = {.gpu = catalog::a100_sxm4_80gb,
                .nodes = nodes,
                .gpus_per_node = in_node,
                .between_nodes = 25_GBps,
                .price_per_gpu = dated_price{3_usd_per_hour, "2026-01-01", "a test"}};
  request.effective_batch = {1, 64};
  return request;
}

using numbers = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("numbers of GPUs are any in a node, and then whole nodes, that ranks divide") {
  for (const std::int64_t in_node : {1, 3, 4, 8})
    for (const std::int64_t ranks : {1, 2, 3, 4, 6, 8, 12})
      for (const std::int64_t least : {1, 2, 4, 9, 13}) {
        plan_request request = on_nodes(6, in_node);
        request.space.gpus = range<std::int64_t>{least, 6 * in_node + least};
        const detail::plan_domain domain(request);
        CHECK(domain.most_gpus() == 6 * in_node);
        numbers expected;
        for (std::int64_t many = least; many <= 6 * in_node; ++many)
          if (many % ranks == 0 && (many <= in_node || many % in_node == 0))
            expected.push_back(many);
        numbers found;
        for (std::int64_t many = domain.first_gpus(ranks); many <= domain.most_gpus();
             many = domain.next_gpus(many, ranks))
          found.push_back(many);
        CAPTURE(in_node);
        CAPTURE(ranks);
        CAPTURE(least);
        CHECK(found == expected);
        CHECK(domain.has_gpus_for(ranks) == !expected.empty());
      }
  const plan_request all = on_nodes(3, 8);
  CHECK(detail::plan_domain(all).first_gpus() == 24);
  CHECK(detail::plan_domain(all).most_gpus() == 24);
  CHECK(detail::plan_domain(on_nodes(1, 3)).first_gpus() == 3);
  // Replicas are no more than samples, nor than are asked for.
  CHECK(detail::plan_domain(all).most_gpus(2, 16) == 8);
  CHECK(detail::plan_domain(all).most_gpus(8, 1) == 24);
  plan_request few = all;
  few.space.data_parallel = range<std::int64_t>{1, 3};
  CHECK(detail::plan_domain(few).most_gpus(2, 16) == 6);
}

TEST_CASE("accumulations are those whose batch is within the range, in a space or in none") {
  for (const std::int64_t low : {1, 5, 12})
    for (const std::int64_t high : {12, 30, 61})
      for (const std::int64_t at_once : {1, 2, 5})
        for (const micro_batch_rule& rule :
             {micro_batch_rule{1, 1}, {1, 2}, {1, 3}, {5, 1}, {6, 2}, {7, 2}})
          for (const std::int64_t from : {0, 1, 4})
            for (const std::int64_t to : {4, 9}) {
              const std::int64_t unit = rule.multiple_of;
              known<range<std::int64_t>> space;
              if (from != 0) space = range<std::int64_t>{from, to};
              numbers expected;
              for (std::int64_t many = unit; many <= 100; many += unit) {
                const std::int64_t batch = many * at_once;
                if (many < rule.least) continue;
                if (batch >= low && batch <= high && (!space || (many >= from && many <= to)))
                  expected.push_back(many);
              }
              const detail::accumulations found =
                  detail::accumulations_for({low, high}, at_once, rule).in(space);
              REQUIRE(found.count() == static_cast<std::int64_t>(expected.size()));
              if (expected.empty()) continue;
              CHECK(found.low == expected.front());
              CHECK(found.high == expected.back());
              CHECK(found.unit == unit);
            }
}

TEST_CASE("what is not said of a plan is the request's own, and of accumulations none") {
  const plan_request request = on_nodes(2, 8);
  const training_plan plan;
  CHECK(setup_of(request, plan).framework.name == request.setup.framework.name);
  CHECK(&cluster_of(request, plan) == &request.on);
  CHECK(detail::accumulations{}.count() == 0);
  CHECK(detail::degree_span{}.high < detail::degree_span{}.low);
  // Of the whole cluster, one sample a step, in its own way, and nothing found yet.
  const plan_request nothing;
  CHECK(nothing.effective_batch.low() == 1);
  CHECK(nothing.effective_batch.high() == 1);
  CHECK(nothing.space.micro_batch.low() == 1);
  CHECK(nothing.space.micro_batch.high() == 64);
  CHECK(!(nothing.space.recompute || nothing.space.sequence_parallel || nothing.evaluates_all));
  CHECK(nothing.tensor_within_node);
  CHECK(nothing.samples == 0);
  CHECK(nothing.straggler_slowdown == 1);
  CHECK(roofline_times{}.straggler_slowdown == 1);
  const plan_answer none;
  CHECK((none.count == 0 && none.evaluated == 0 && none.excluded == 0 && none.asked == 0));
  CHECK(none.begin() == none.end());
  CHECK((plan_limits{}.count == 0 && lifted_limit{}.gain == 0 && lifted_limit{}.layers == 0));
}

TEST_CASE("plans are of one layout where all but the micro-batch is the same") {
  using group = detail::plan_group;
  const group one{.gpus = 8};
  group other = one;
  other.micro_batch = 2;
  CHECK(one.same_layout(other));
  for (std::int64_t group::*part : {&group::gpus,
                                    &group::tensor,
                                    &group::context,
                                    &group::expert,
                                    &group::recompute,
                                    &group::pipeline,
                                    &group::split,
                                    &group::chunks,
                                    &group::zero,
                                    &group::sequence,
                                    &group::setup}) {
    other = one;
    other.*part += 1;
    CHECK(!one.same_layout(other));
    CHECK(one < other);
  }
  const group divided{.gpus = 240, .tensor = 2, .context = 3, .pipeline = 4};
  CHECK(divided.model_ranks() == 24);
  CHECK(divided.data_parallel() == 10);
}

TEST_CASE("what a plan loses is the share that it takes more") {
  training_plan best{.gpus = 2, .batch = {1, 2, 4}, .step = 8_s, .required = 4_GB};
  training_plan plan{.gpus = 3, .batch = {1, 3, 4}, .step = 18_s, .required = 5_GB};
  CHECK(loss_of(plan, best) == doctest::Approx(0.5));
  plan_request request = on_nodes(1, 8);
  CHECK(loss_of(request, plan, best) == doctest::Approx(0.5));
  request.goal = plan_goal::least_money;
  CHECK(loss_of(request, plan, best) == doctest::Approx(1.5 * 1.5 - 1));
  request.goal = plan_goal::least_memory;
  CHECK(loss_of(request, plan, best) == doctest::Approx(0.25));
}

TEST_CASE("layers are alike where each is as the next") {
  const auto are_alike = [](const auto& change) {
    transformer model = catalog::gpt2;
    change(model);
    return detail::has_like_layers(model);
  };
  CHECK(are_alike([](transformer&) {}));
  CHECK(are_alike([](transformer& of) { of.moe.first_k_dense_layers = 1; }));  // without experts
  CHECK(are_alike([](transformer& of) { of.moe.num_experts = 8; }));
  CHECK(are_alike([](transformer& of) { of.sliding_window = 64; }));
  CHECK(are_alike([](transformer& of) { of.global_layer_step = of.max_window_layers = 3; }));
  for (const std::int64_t dense : {1, 2})
    CHECK(!are_alike([&](transformer& of) {
      of.moe.num_experts = 8;
      of.moe.first_k_dense_layers = dense;
    }));
  for (const std::int64_t step : {2, 3})
    CHECK(!are_alike([&](transformer& of) {
      of.moe.num_experts = 1;
      of.moe.moe_layer_step = step;
    }));
  for (const std::int64_t layers : {1, 2}) {
    CHECK(!are_alike([&](transformer& of) {
      of.sliding_window = 1;
      of.global_layer_step = layers;
    }));
    CHECK(!are_alike([&](transformer& of) {
      of.sliding_window = 64;
      of.max_window_layers = layers;
    }));
  }
  CHECK(!are_alike([](transformer& of) { of.kind = model_kind::encoder_decoder; }));
}

// Of the layers of each stage, the embedding and the head where they count as one.
TEST_CASE("stages may be cut into chunks of which each has as many layers") {
  training_setup setup = on_nodes(1, 8).setup;
  for (std::int64_t layers = 2; layers <= 24; ++layers)
    for (std::int64_t stages = 2; stages <= 6; ++stages) {
      setup.model.num_hidden_layers = layers;
      const detail::split_choices splits(setup, setup.parallelism, stages);
      for (std::int64_t which = 0; which < detail::split_choices::most; ++which) {
        if (!splits.has(which)) continue;
        const detail::pipeline_layouts here{
            .stages = stages, .split_choice = which, .split = splits[which]};
        const detail::stated_split& split = here.split;
        for (std::int64_t chunks = 1; chunks <= 4; ++chunks) {
          bool are_cut = false;
          if (split.first == 0 && split.last == 0) {
            for (std::int64_t each = 1; each * stages * chunks <= layers + 2; ++each)
              are_cut = are_cut || each * stages * chunks == layers + split.embedding + split.head;
          } else {
            // What is neither of the first nor of the last stage, too.
            const std::int64_t others = layers - split.first - split.last;
            are_cut = true;
            for (const std::int64_t part : {split.first, split.last, others})
              are_cut = are_cut && part / chunks * chunks == part;
          }
          CAPTURE(layers);
          CAPTURE(stages);
          CAPTURE(which);
          CAPTURE(chunks);
          CHECK(detail::family_layouts::may_interleave(setup, here, chunks) == are_cut);
        }
      }
    }
  setup.parallelism.split.listed.count = 1;  // listed one by one they are looked at
  CHECK(detail::family_layouts::may_interleave(setup, {.stages = 5}, 7));
}

TEST_CASE("degrees are as set, or as many as are searched, of those that there are") {
  const auto searched = detail::plan_domain::searched;
  const auto is = [](const detail::degree_span& span, std::int64_t low, std::int64_t high) {
    return span.low == low && span.high == high;
  };
  CHECK(is(searched({}, 4, 8), 4, 4));
  CHECK(is(searched({}, 8, 4), 8, 4));  // none
  CHECK(is(searched(range<std::int64_t>{2, 6}, 4, 8), 2, 6));
  CHECK(is(searched(range<std::int64_t>{2, 16}, 4, 8), 2, 8));
  plan_request request = on_nodes(2, 8);
  request.space.tensor_parallel = range<std::int64_t>{1, 64};
  CHECK(detail::plan_domain(request).tensor_degrees(request.setup).high == 8);
  request.tensor_within_node = false;
  CHECK(detail::plan_domain(request).tensor_degrees(request.setup).high == 16);
  request.space.expert_parallel = range<std::int64_t>{1, 64};
  CHECK(detail::plan_domain(request).expert_degrees(request.setup).high == 1);
  request.setup.model.moe.num_experts = 16;
  CHECK(detail::plan_domain(request).expert_degrees(request.setup).high == 16);
  request.space.pipeline_parallel = range<std::int64_t>{1, 64};
  CHECK(detail::plan_domain(request).pipeline_degrees(request.setup).high == 12);
  request.space.micro_batch = {3, 100};
  CHECK(detail::plan_domain(request).least_micro_batch() == 3);
  CHECK(detail::plan_domain(request).largest_micro_batch() == 64);
  request.effective_batch = {1, 500};
  CHECK(detail::plan_domain(request).largest_micro_batch() == 100);
}

// Every way to take layers from the ends that the space says, and which of them comes first.
TEST_CASE("layers that stages do not divide are split in the ways of Megatron-Core") {
  for (std::int64_t layers = 2; layers <= 40; ++layers)
    for (std::int64_t stages = 1; stages <= 9; ++stages) {
      training_setup setup = on_nodes(1, 8).setup;
      setup.model.num_hidden_layers = layers;
      const detail::split_choices splits(setup, setup.parallelism, stages);
      const std::int64_t each = (layers + stages - 1) / stages;
      const std::int64_t missing = each * stages - layers;
      std::vector<std::vector<std::int64_t>> expected{{0, 0, 0, 0}};
      if (missing == 1) expected.insert(expected.end(), {{1, 0, 0, 0}, {0, 1, 0, 0}});
      if (missing == 2 && stages > 2) expected.push_back({1, 1, 0, 0});
      // Of two stages both ends are all: 2 missing divide too, as whole stages.
      if (missing > 2) {
        // Of the missing layers the last stage lacks as many as the first, or one more.
        const std::int64_t of_first = missing / 2;
        const std::int64_t first = each - of_first;
        const std::int64_t last = each - (missing - of_first);
        if (first > 0 && last > 0) expected.push_back({0, 0, first, last});
        if (each - missing > 0) expected.push_back({0, 0, 0, each - missing});
      }
      std::vector<std::vector<std::int64_t>> found;
      for (std::int64_t which = 0; which < detail::split_choices::most; ++which) {
        if (!splits.has(which)) continue;
        const detail::stated_split split = splits[which];
        found.push_back({split.embedding, split.head, split.first, split.last});
      }
      CAPTURE(layers);
      CAPTURE(stages);
      CHECK(found == expected);
    }
  // Beside one that is set there is no other, nor by an engine that cuts where it likes.
  training_setup setup = on_nodes(1, 8).setup;
  setup.model.num_hidden_layers = 7;
  setup.parallelism.split.head_layers = 1;
  CHECK(!detail::split_choices(setup, setup.parallelism, 4).has(1));
  CHECK(detail::split_choices(setup, setup.parallelism, 4)[0].head == 1);
  setup.parallelism.split = {};
  CHECK(detail::split_choices(setup, setup.parallelism, 4).has(1));
  setup.framework = catalog::megatron_deepspeed;
  CHECK(!detail::split_choices(setup, setup.parallelism, 4).has(1));
}

TEST_CASE("a space is halved by the ratio of its degrees, and where none is searched not at all") {
  for (std::int64_t low = 1; low <= 20; ++low)
    for (std::int64_t high = low; high <= 64; ++high) {
      known<range<std::int64_t>> first = range<std::int64_t>{low, high};
      known<range<std::int64_t>> second = first;
      const bool is_halved = detail::halve({low, high}, first, second);
      CHECK(is_halved == (low < high));
      if (!is_halved) continue;
      CHECK(first->low() == low);
      CHECK(second->high() == high);
      CHECK(second->low() == first->high() + 1);
      const double middle = std::sqrt(static_cast<double>(low * high));
      CHECK(static_cast<double>(first->high()) <= middle);
      CHECK(static_cast<double>(second->low()) > middle);
    }
  known<range<std::int64_t>> none;
  known<range<std::int64_t>> other;
  CHECK(!detail::halve({1, 8}, none, other));
  // Tensor parallelism first, then context, then experts; stages where it is asked for.
  plan_request low = on_nodes(2, 8);
  low.setup.model.moe.num_experts = 16;
  const range<std::int64_t> any{1, 16};
  low.space = {.pipeline_parallel = any, .context_parallel = any, .expert_parallel = any};
  plan_request high = low;
  CHECK(detail::halve(low, high, false));
  CHECK(low.space.context_parallel->high() == 4);
  CHECK(high.space.context_parallel->low() == 5);
  CHECK(high.space.expert_parallel->low() == 1);
  CHECK(detail::halve(low, high, true));
  CHECK(low.space.pipeline_parallel->high() == 3);  // of at most 12 layers
  CHECK(high.space.pipeline_parallel->low() == 4);
  // Of several setups the widest counts, wherever it stands.
  for (std::size_t widest = 0; widest < 3; ++widest) {
    plan_request request = on_nodes(2, 8);
    request.space.expert_parallel = any;
    std::vector<training_setup> setups(3, request.setup);
    for (std::size_t at = 0; at < 3; ++at) setups[at].model.moe.num_experts = at == widest ? 16 : 1;
    request.setup = setups[0];
    request.setups = std::span(setups).subspan(1);
    plan_request upper = request;
    CHECK(detail::halve(request, upper, false));
    CHECK(request.space.expert_parallel->high() == 4);
    CHECK(upper.space.expert_parallel->low() == 5);
  }
}

TEST_CASE("the list of candidates has the lowest, in order") {
  dice roll{std::mt19937_64(3)};
  for (int round = 0; round < 200; ++round) {
    const int most = static_cast<int>(roll.from(1, detail::candidate_list::capacity));
    detail::candidate_list list(most);
    std::vector<detail::plan_candidate> all;
    const auto count = static_cast<int>(roll.from(0, 40));
    for (int at = 0; at < count; ++at) {
      detail::plan_candidate one;
      one.bound = static_cast<double>(roll.from(1, 12));
      one.group.gpus = roll.from(1, 3);
      one.group.tensor = roll.from(1, 2);
      one.group.micro_batch = roll.from(1, 2);
      one.allowed.high = roll.from(1, 3);
      list.insert(one);
      all.push_back(one);
      std::sort(all.begin(), all.end());
      const std::size_t kept = std::min(all.size(), static_cast<std::size_t>(most));
      REQUIRE(list.size() == static_cast<int>(kept));
      CHECK(list.is_full() == (all.size() >= static_cast<std::size_t>(most)));
      CHECK(list.limit() ==
            (list.is_full() ? all[kept - 1].bound : std::numeric_limits<double>::infinity()));
      for (std::size_t place = 0; place < kept; ++place) {
        const detail::plan_candidate& there = list[static_cast<int>(place)];
        CHECK(there.bound == all[place].bound);
        CHECK(there.group == all[place].group);
        CHECK(there.allowed.high == all[place].allowed.high);
      }
    }
  }
}

TEST_CASE("a run of whole steps keeps to its time and money with the accumulations that do") {
  dice roll{std::mt19937_64(4)};
  int met = 0;
  int missed = 0;
  for (int round = 0; round < 500; ++round) {
    plan_request request = on_nodes(1, 8);
    request.samples = roll.from(1, 1000);
    if (roll.coin()) request.finish_in = static_cast<double>(roll.from(1, 300)) * 1_s;
    if (roll.coin())
      request.at_most = (static_cast<double>(roll.from(1, 200)) + 0.37) * 0.01_usd;  // no tie
    detail::plan_candidate one;
    one.group = {.gpus = roll.from(1, 4) * 2, .tensor = 2, .micro_batch = roll.from(1, 3)};
    one.allowed = {.low = 2, .high = 2 * roll.from(1, 20), .unit = 2};
    one.step = detail::step_curve(0.5, 2, {}, {});
    const std::int64_t replicas = one.group.gpus / 2;
    CHECK(one.group.data_parallel() == replicas);
    const auto are_kept = [&](std::int64_t many) {
      const std::int64_t batch = one.group.micro_batch * replicas * many;
      const double run = static_cast<double>((request.samples + batch - 1) / batch) *
                         (0.5 * static_cast<double>(many) + 2);
      const double money = run * static_cast<double>(one.group.gpus) * 3 / 3600;
      return (!request.finish_in || run <= request.finish_in->value()) &&
             (!request.at_most || money <= *request.at_most / 1_usd);
    };
    std::int64_t least = 0;
    std::int64_t most = 0;
    for (std::int64_t many = one.allowed.low; many <= one.allowed.high; many += 2) {
      const detail::run_limits limits(request);
      CHECK(limits.are_met_by(one, many) == are_kept(many));
      if (!are_kept(many)) continue;
      most = many;
      if (least == 0) least = many;
    }
    const detail::run_limits limits(request);
    CHECK(limits.most_accumulation(one) == most);
    CHECK(limits.least_accumulation(one) == least);
    if (most != 0) CHECK(limits.may_be_met_by(one));
    ++(most != 0 ? met : missed);
    const double per_sample =
        (0.5 * 4 + 2) / static_cast<double>(one.group.micro_batch * replicas * 4);
    CHECK(one.per_sample(4) == doctest::Approx(per_sample));
  }
  CHECK(met > 100);
  CHECK(missed > 100);
  // In less than any part of a step nothing is done.
  plan_request at_once = on_nodes(1, 8);
  at_once.samples = 1000;
  at_once.finish_in = 1e-6_s;
  detail::plan_candidate slow;
  slow.group = {.gpus = 8};
  slow.allowed = {.low = 1, .high = 4};
  slow.step = detail::step_curve(1, 1, {}, {});
  CHECK(!detail::run_limits(at_once).may_be_met_by(slow));
}

TEST_CASE("a run that takes just its time and money keeps to them") {
  plan_request request = on_nodes(1, 8);
  request.samples = 1000;
  detail::plan_candidate one;
  one.group = {.gpus = 8, .tensor = 2, .micro_batch = 3};
  one.allowed = {.low = 1, .high = 7, .unit = 1};
  one.step = detail::step_curve(0.3, 0.7, {}, {});
  for (std::int64_t many = 1; many <= 7; ++many) {
    const training_plan plan{
        .gpus = 8, .batch = {3, 4, many}, .step = duration::from_value(one.step(many))};
    const planned_run run = run_of(request, plan);
    const auto is_kept = [&](known<duration> time, known<money> cost) {
      plan_request limited = request;
      limited.finish_in = time;
      limited.at_most = cost;
      return detail::run_limits(limited).are_met_by(one, many);
    };
    const duration less_time = duration::from_value(std::nextafter(run.time.value(), 0.0));
    const money less_money = money::from_value(std::nextafter(run.cost->value(), 0.0));
    CHECK(is_kept(run.time, run.cost));
    CHECK(is_kept(run.time, {}));
    CHECK(is_kept({}, run.cost));
    CHECK(!is_kept(less_time, run.cost));
    CHECK(!is_kept(run.time, less_money));
    CHECK(!is_kept(less_time, {}));
    CHECK(!is_kept({}, less_money));
    CHECK(is_kept({}, {}));
  }
  // Whole steps alone: what the run takes in parts of steps is the same.
  request.samples = 12 * 7 * 20;
  one.allowed.low = one.allowed.high = 7;
  const training_plan plan{
      .gpus = 8, .batch = {3, 4, 7}, .step = duration::from_value(one.step(7))};
  const planned_run run = run_of(request, plan);
  const auto may_be_kept = [&](double time, double cost) {
    plan_request limited = request;
    limited.finish_in = time * run.time;
    limited.at_most = cost * *run.cost;
    return detail::run_limits(limited).may_be_met_by(one);
  };
  CHECK(may_be_kept(1, 1));
  CHECK(!may_be_kept(1 - 1e-9, 1));
  CHECK(!may_be_kept(1, 1 - 1e-9));
}

TEST_CASE("plans of several searches are the best of all, the first search's before as good ones") {
  dice roll{std::mt19937_64(6)};
  for (int round = 0; round < 300; ++round) {
    plan_request request = on_nodes(1, 8);
    request.goal = static_cast<plan_goal>(roll.from(0, 2));
    const cluster_choice other{request.on, request.efficiency};
    request.others = std::span(&other, 1);
    const int wanted = static_cast<int>(roll.from(1, plan_answer::most_plans));
    detail::gathered_plans gathered;
    std::vector<training_plan> all;
    std::int64_t evaluated = 0;
    for (const std::size_t cluster : {std::size_t{0}, std::size_t{1}}) {
      plan_answer here;
      here.count = static_cast<int>(roll.from(1, wanted));
      for (int at = 0; at < here.count; ++at) {
        training_plan& plan = here.plans[at];
        plan.setup = static_cast<std::size_t>(at);
        plan.gpus = roll.from(1, 3);
        plan.batch = {roll.from(1, 2), 1, 1};
        plan.step = static_cast<double>(roll.from(1, 3)) * 1_s;
        plan.required = static_cast<double>(roll.from(1, 3)) * 1_GB;
      }
      here.evaluated = roll.from(1, 9);
      here.excluded = here.asked = here.evaluated;
      evaluated += here.evaluated;
      for (int at = 0; at < here.count; ++at) {
        all.push_back(here.plans[at]);
        all.back().cluster = cluster;
      }
      gathered.add(request, here, cluster, wanted);
    }
    const auto value = [&](const training_plan& plan) -> double {
      const double time = plan.step / 1_s / static_cast<double>(plan.batch.micro_batch);
      if (request.goal == plan_goal::least_memory) return plan.required / 1_GB;
      return request.goal == plan_goal::least_money ? time * static_cast<double>(plan.gpus) : time;
    };
    const auto keys = [&](const training_plan& plan) {
      const double time = plan.step / 1_s / static_cast<double>(plan.batch.micro_batch);
      return std::vector<double>{value(plan), time, plan.required / 1_GB};
    };
    std::sort(all.begin(), all.end(), [&](const training_plan& a, const training_plan& b) {
      return keys(a) < keys(b);
    });
    const auto answer = gathered.answer();
    REQUIRE(answer);
    REQUIRE(answer->count == std::min(wanted, static_cast<int>(all.size())));
    CHECK(answer->evaluated == evaluated);
    CHECK(answer->excluded == evaluated);
    CHECK(answer->asked == evaluated);
    for (int at = 1; at < answer->count; ++at) {
      const training_plan& plan = answer->plans[at];
      const training_plan& before = answer->plans[at - 1];
      if (keys(plan) != keys(before)) continue;
      CHECK(before.cluster <= plan.cluster);
      if (before.cluster == plan.cluster && before.gpus == plan.gpus)
        CHECK(before.setup < plan.setup);
      else if (before.cluster == plan.cluster)
        CHECK(before.gpus < plan.gpus);
    }
    for (int at = 0; at < answer->count; ++at) {
      CHECK(keys(answer->plans[at]) == keys(all[static_cast<std::size_t>(at)]));
      CHECK(loss_of(request, answer->plans[at], answer->best()) ==
            doctest::Approx(value(answer->plans[at]) / value(answer->best()) - 1));
    }
    const double ceiling = gathered.ceiling(request, request.on, wanted);
    if (answer->count < wanted) {
      CHECK(ceiling == std::numeric_limits<double>::infinity());
    } else {
      // In what a search counts, without the price.
      const training_plan& last = answer->plans[wanted - 1];
      const double counted = request.goal == plan_goal::least_memory  ? last.required.value()
                             : request.goal == plan_goal::least_money ? value(last)
                                                                      : value(last);
      CHECK(ceiling >= counted);
      CHECK(ceiling == doctest::Approx(counted));
    }
  }
}

TEST_CASE("of searches without a plan the one that misses least is told") {
  const plan_request request = on_nodes(1, 8);
  const failure far(
      errc::no_plan_in_memory, named_fact{fact::needed_MB, 300}, named_fact{fact::gpu_has_MB, 100});
  const failure near_time(
      errc::no_plan_in_time, named_fact{fact::minutes, 20}, named_fact{fact::at_most_minutes, 10});
  const failure near_money(
      errc::no_plan_for_money, named_fact{fact::cents, 15}, named_fact{fact::at_most_cents, 10});
  const failure none(errc::no_such_layout);
  const auto told = [&](std::vector<failure> all) {
    detail::gathered_plans gathered;
    for (const failure& why : all) gathered.add(request, why, 0, 1);
    return gathered.answer().why().code;
  };
  CHECK(told({far, near_time}) == errc::no_plan_in_time);
  CHECK(told({near_time, far}) == errc::no_plan_in_time);
  CHECK(told({near_time, near_money, far}) == errc::no_plan_for_money);
  CHECK(told({none, far}) == errc::no_plan_in_memory);
  CHECK(told({far, none}) == errc::no_plan_in_memory);
  CHECK(told({}) == errc::no_runs);
  CHECK(detail::distance_of(far) == 3);
  CHECK(detail::distance_of(failure(errc::no_plan_in_memory,
                                    named_fact{fact::needed_MB, 300},
                                    named_fact{fact::gpu_has_MB, 0})) == 300);
}

TEST_CASE("the shortest run has fewest whole steps' time, whatever a sample takes") {
  plan_request request = on_nodes(1, 8);
  request.samples = 100;
  // A sample takes 0.5 s and a run 2 steps of 45 s; 0.55 s, and one step of 55 s.
  std::vector<training_plan> plans(2);
  plans[0].batch = {90, 1, 1};
  plans[0].step = 45_s;
  plans[0].gpus = 1;
  plans[1].batch = {100, 1, 1};
  plans[1].step = 55_s;
  plans[1].gpus = 1;
  const auto best_of = [&](const plan_request& asked) {
    known<training_plan> best;
    for (const training_plan& plan : plans) {
      const planned_run run = run_of(asked, plan);
      if (asked.finish_in && run.time > *asked.finish_in) continue;
      if (asked.at_most && *run.cost > *asked.at_most) continue;
      if (!best || plan.per_sample() < best->per_sample()) best = plan;
    }
    return best;
  };
  CHECK(best_of(request)->step == 45_s);
  CHECK(detail::shortest_run(request, best_of)->step == 55_s);
  request.goal = plan_goal::least_money;
  CHECK(detail::shortest_run(request, best_of)->step == 55_s);
  plans.clear();
  CHECK(!detail::shortest_run(request, best_of));
}

namespace {

// Rises with samples and, by less, with accumulation.
struct stepped_memory {
  constexpr bytes required(const batch_plan& plan) const {
    return bytes::from_value(5e9 + 3e8 * static_cast<double>(plan.micro_batch) +
                             1e7 * static_cast<double>(plan.accumulation));
  }
};

}  // namespace

namespace {

// The same, of which all is known before it is asked for, or nothing.
struct stepped_memory_of {
  constexpr stepped_memory operator()(const training_setup&) const { return {}; }
};
struct known_memory_of : stepped_memory_of {
  constexpr bytes at_least(const training_setup&, const batch_plan& plan) const {
    return stepped_memory{}.required(plan);
  }
};

}  // namespace

TEST_CASE("what a plan needs exactly is enough for it, and a byte less is not") {
  plan_request request = on_nodes(1, 4);
  request.space = {.gpus = range<std::int64_t>{4, 4}, .micro_batch = {1, 4}};
  request.effective_batch = {12, 40};
  struct one {
    batch_plan batch;
    double required;
    double per_sample;
  };
  std::vector<one> all;
  for (std::int64_t b = 1; b <= 4; ++b)
    for (std::int64_t times = 1; times <= 40; ++times) {
      const batch_plan batch{b, 4, times};
      if (!request.effective_batch.contains(batch.effective_batch())) continue;
      const training_plan plan{.gpus = 4, .batch = batch};
      const double step = time_of(request, plan).step(batch).value();
      all.push_back({batch,
                     stepped_memory{}.required(batch).value(),
                     step / static_cast<double>(batch.effective_batch())});
    }
  REQUIRE(all.size() == 17);
  for (const plan_goal goal : {plan_goal::least_time, plan_goal::least_memory})
    for (const one& limit : all)
      for (const double less : {0.0, 1.0}) {
        request.goal = goal;
        const double budget = limit.required - less;
        const one* best = nullptr;
        const auto key = [&](const one& of) {
          return goal == plan_goal::least_time ? std::pair{of.per_sample, of.required}
                                               : std::pair{of.required, of.per_sample};
        };
        for (const one& plan : all)
          if (plan.required <= budget && (best == nullptr || key(plan) < key(*best))) best = &plan;
        for (const bool evaluates_all : {false, true})
          for (const bool is_known : {false, true}) {
            request.evaluates_all = evaluates_all;
            const memory_budget given(bytes::from_value(budget));
            const auto found = is_known ? plan_training(request, given, known_memory_of{}, 1)
                                        : plan_training(request, given, stepped_memory_of{}, 1);
            REQUIRE(static_cast<bool>(found) == (best != nullptr));
            if (!found) continue;
            CHECK(found->best().batch == best->batch);
            CHECK(found->best().required.value() == best->required);
          }
      }
}

TEST_CASE("times are those of the roofline with what is said of the cluster and its software") {
  plan_request request = on_nodes(2, 8);
  request.setup.parallelism.tensor_parallel = 2;
  request.efficiency = catalog::ampere;
  request.setup.framework.costs.host_per_operator = {};  // which hides exchanges
  const batch_plan plan{1, 8, 2};
  roofline_time plain{.setup = request.setup, .on = request.on, .efficiency = request.efficiency};
  const auto step_of = [&](const roofline_times& times) {
    return times(request.setup, request.on, request.efficiency).step(plan);
  };
  CHECK(step_of({}) == plain.step(plan));
  roofline_time slowed = plain;
  slowed.straggler_slowdown = 1.5;
  CHECK(step_of({.straggler_slowdown = 1.5}) == slowed.step(plan));
  CHECK(slowed.step(plan) > plain.step(plan));
  roofline_time loading = plain;
  loading.loader = sample_loader{.per_sample = 1_GB, .per_node = 1_GBps};
  CHECK(step_of({.loader = loading.loader}) == loading.step(plan));
  CHECK(loading.step(plan) > plain.step(plan));
  roofline_time without = plain;
  without.terms.tensor_communication = false;
  CHECK(step_of({.terms = without.terms}) == without.step(plan));
  CHECK(without.step(plan) < plain.step(plan));
  const time_factors factors{.layer = 2, .optimizer = 3};
  CHECK(step_of({.factors = factors}) == calibrated_time{plain, factors}.step(plan));
  stack_estimate stack = untimed_estimate(plain);
  for (bool& is_set : stack.is_set) is_set = true;
  stack.logarithms[static_cast<std::size_t>(stack_number::matmul_rate)] -= 0.5;
  CHECK(step_of({.stack = stack}) == stack.applied_to(plain).step(plan));
  CHECK(step_of({.stack = stack}) > plain.step(plan));
  // They are valid where those are, of this setup on this cluster.
  CHECK(validate(roofline_times{}, request.setup, request.on));
  CHECK(!validate(roofline_times{.straggler_slowdown = 0.5}, request.setup, request.on));
  CHECK(!validate(roofline_times{.factors = {.layer = -1}}, request.setup, request.on));
}

TEST_CASE("a plan's setup, cluster and efficiency are those of the number that it has") {
  plan_request request = on_nodes(1, 4);
  request.efficiency.products = 0.31;
  cluster_choice others[3];
  for (int which = 0; which < 3; ++which) {
    others[which] = {request.on, request.efficiency};
    others[which].on.nodes = 2 + which;
    others[which].efficiency.products = 0.32 + 0.01 * which;
  }
  training_setup setups[3];
  for (int which = 0; which < 3; ++which) {
    setups[which] = request.setup;
    setups[which].sequence_length = 512 + which;
  }
  request.others = others;
  request.setups = setups;
  for (std::size_t cluster = 0; cluster < 4; ++cluster)
    for (std::size_t setup = 0; setup < 4; ++setup) {
      training_plan plan;
      plan.cluster = cluster;
      plan.setup = setup;
      const roofline_time time = time_of(request, plan);
      const auto number = static_cast<double>(cluster);
      CHECK(time.efficiency.products == doctest::Approx(0.31 + 0.01 * number));
      CHECK(time.on.nodes == static_cast<std::int64_t>(cluster) + 1);
      CHECK(cluster_of(request, plan).nodes == time.on.nodes);
      CHECK(time.setup.sequence_length ==
            (setup == 0 ? 1024 : 511 + static_cast<std::int64_t>(setup)));
    }
}

TEST_CASE("limits of a run need to know its samples") {
  plan_request request = on_nodes(1, 4);
  CHECK(validate(request));
  request.finish_in = 1_h;
  CHECK(validate(request).why() == failure(errc::not_known).about(fact::samples));
  request.finish_in = {};
  request.at_most = 10_usd;
  CHECK(validate(request).why() == failure(errc::not_known).about(fact::samples));
  request.samples = 1;
  CHECK(validate(request));
  request.samples = -1;
  CHECK(validate(request).why().code == errc::negative);
}

namespace {

// A second a micro-batch, and without end from four on.
struct endless_times {
  struct model {
    constexpr duration step(const batch_plan& plan) const {
      return plan.accumulation < 4 ? duration::from_value(static_cast<double>(plan.accumulation))
                                   : duration::from_value(std::numeric_limits<double>::infinity());
    }
  };
  constexpr model operator()(const training_setup&, const cluster&) const { return {}; }
};

}  // namespace

TEST_CASE("plans that never end are none, and not counted as worked out") {
  plan_request request = on_nodes(1, 4);
  request.space = {.gpus = range<std::int64_t>{4, 4}, .micro_batch = {1, 4}};
  request.effective_batch = {4, 64};
  request.evaluates_all = true;
  const auto memory_of = [](const training_setup&) { return stepped_memory{}; };
  const memory_budget budget = 100_GB;
  const auto found = plan_training(request, budget, memory_of, 8, endless_times{});
  REQUIRE(found);
  // Of each micro-batch three accumulations, as many samples in a second.
  CHECK(found->evaluated == 4 * 3);
  CHECK(found->best().batch.micro_batch == 4);
  for (const training_plan& plan : *found) CHECK(plan.batch.accumulation < 4);
}

// Tensor-parallel ranks share 40 GB.
TEST_CASE("of clusters that would need as many GPUs more, the first is said") {
  plan_request request = on_nodes(1, 1);
  request.on.gpus_per_node = 8;
  request.space = {.gpus = range<std::int64_t>{1, 1},
                   .tensor_parallel = range<std::int64_t>{1, 8},
                   .micro_batch = {1, 1}};
  const auto memory_of = [](const training_setup& setup) {
    return affine_memory{.fixed =
                             40e9 / static_cast<double>(setup.parallelism.tensor_parallel) * 1_B};
  };
  cluster_choice others[2] = {{request.on, request.efficiency}, {request.on, request.efficiency}};
  for (const std::int64_t ranks : {2, 4}) {
    const memory_budget budget = 40e9 / static_cast<double>(ranks) * 1_B;
    for (const int clusters : {0, 1, 2}) {
      request.others = std::span(others).first(static_cast<std::size_t>(clusters));
      const auto limits = limits_of(request, budget, memory_of);
      REQUIRE(limits);
      CHECK(!limits->best);
      const lifted_limit* gpus = limits->find(plan_limit::gpus);
      REQUIRE(gpus != nullptr);
      CHECK(gpus->plan.gpus == ranks);
      CHECK(gpus->plan.cluster == 0);
      CHECK(gpus->plan.layout.tensor_parallel == ranks);
    }
  }
}

TEST_CASE("of clusters that cost nothing the faster one is told") {
  plan_request request = on_nodes(1, 8);
  request.goal = plan_goal::least_money;
  request.on.price_per_gpu = dated_price{price{}, "2026-01-01", "a test"};
  cluster_choice faster{request.on, catalog::hopper};
  faster.on.gpu = catalog::h100_sxm5_80gb;
  request.others = std::span(&faster, 1);
  request.efficiency = catalog::ampere;
  for (const int plans : {1, 2}) {
    const auto found = plan_training(request, 60_GB, stepped_memory_of{}, plans);
    REQUIRE(found);
    CHECK(found->count == plans);
    CHECK(found->best().cluster == 1);
  }
}

TEST_CASE("where nothing is said of micro-batches, one sample is a micro-batch too") {
  plan_request request = on_nodes(1, 1);
  request.effective_batch = {8, 8};
  const double one = stepped_memory{}.required({1, 1, 8}).value();
  const auto found =
      plan_training(request, memory_budget(bytes::from_value(one)), stepped_memory_of{}, 1);
  REQUIRE(found);
  CHECK(found->best().batch == batch_plan{1, 1, 8});
}

namespace {

// Little where there are so many replicas, else too much.
struct memory_of_replicas {
  std::int64_t least = 1;

  struct model {
    std::int64_t least = 1;
    constexpr bytes required(const batch_plan& plan) const {
      return plan.data_parallel >= least ? 1_GB : 100_GB;
    }
  };
  constexpr model operator()(const training_setup&) const { return {least}; }
};

// How many GPUs it is said that a request with so many would need, or 0.
std::int64_t gpus_that_do(std::int64_t now,
                          std::int64_t nodes,
                          std::int64_t in_node,
                          std::int64_t need) {
  plan_request request = on_nodes(nodes, in_node);
  request.effective_batch = {1, std::int64_t{1} << 20};
  request.space = {.gpus = range<std::int64_t>{now}, .micro_batch = {1, 1}};
  const auto limits = limits_of(request, 10_GB, memory_of_replicas{need});
  REQUIRE(limits);
  CHECK(!limits->best);
  const lifted_limit* const gpus = limits->find(plan_limit::gpus);
  return gpus == nullptr ? 0 : gpus->plan.gpus;
}

}  // namespace

TEST_CASE("the fewest GPUs are looked for up to 16 times as many, in whole nodes, and 2^20") {
  for (const std::int64_t in_node : {1, 3, 4})
    for (const std::int64_t now : {1, 2, 4}) {
      if (now > in_node && now % in_node != 0) continue;
      const std::int64_t nodes = (now + in_node - 1) / in_node;
      const std::int64_t most = (16 * now + in_node - 1) / in_node * in_node;
      for (const std::int64_t need :
           {now + 1, now + 2, now + 5, most - in_node, most - 1, most, most + 1}) {
        if (need <= now) continue;
        const std::int64_t whole = (need + in_node - 1) / in_node * in_node;
        const std::int64_t first = need <= in_node ? need : whole;
        CAPTURE(in_node);
        CAPTURE(now);
        CAPTURE(need);
        CHECK(gpus_that_do(now, nodes, in_node, need) == (first <= most ? first : 0));
      }
    }
  const std::int64_t all = std::int64_t{1} << 20;
  CHECK(gpus_that_do(all - 16, all / 8 - 2, 8, all) == all);
}

TEST_CASE("the nearest batches are looked for down to one sample and up to 16 times as many") {
  for (const std::int64_t replicas : {1, 3, 7, 8, 16, 17})
    for (std::int64_t low = 1; low <= 20; low += 3)
      for (const std::int64_t wide : {0, 1, 4}) {
        plan_request request = on_nodes(1, replicas);
        request.space.micro_batch = {1, 1};
        const std::int64_t high = low + wide;
        request.effective_batch = {low, high};
        const auto limits = limits_of(request, 10_GB, memory_of_replicas{});
        REQUIRE(limits);
        CAPTURE(replicas);
        CAPTURE(low);
        CAPTURE(high);
        const bool has_plan = high / replicas * replicas >= low;
        REQUIRE(static_cast<bool>(limits->best) == has_plan);
        if (has_plan) continue;
        const std::int64_t more = (high / replicas + 1) * replicas;
        const std::int64_t less = low / replicas * replicas;
        const auto found = [&](plan_limit limit) {
          const lifted_limit* const there = limits->find(limit);
          return there == nullptr ? 0 : there->plan.batch.effective_batch();
        };
        CHECK(found(plan_limit::larger_batch) == (more <= 16 * high ? more : 0));
        CHECK(found(plan_limit::smaller_batch) == less);
      }
}

namespace {

// A GB for each accumulation.
struct memory_of_accumulation {
  struct model {
    constexpr bytes required(const batch_plan& plan) const { return plan.accumulation * 1_GB; }
  };
  constexpr model operator()(const training_setup&) const { return {}; }
};

}  // namespace

TEST_CASE("of too large batches the largest that fits is told, one sample too") {
  for (std::int64_t low = 2; low <= 20; ++low)
    for (std::int64_t fitting = 1; fitting < low; ++fitting) {
      plan_request request = on_nodes(1, 1);
      request.space.micro_batch = {1, 1};
      request.effective_batch = {low, low + 3};
      const bytes budget = static_cast<double>(fitting) * 1_GB;
      const auto limits = limits_of(request, budget, memory_of_accumulation{});
      REQUIRE(limits);
      CHECK(!limits->best);
      CHECK(limits->find(plan_limit::larger_batch) == nullptr);
      const lifted_limit* const fewer = limits->find(plan_limit::smaller_batch);
      CAPTURE(low);
      CAPTURE(fitting);
      REQUIRE(fewer != nullptr);
      CHECK(fewer->plan.batch.effective_batch() == fitting);
      CHECK(limits->find(plan_limit::memory)->plan.required == static_cast<double>(low) * 1_GB);
    }
}

TEST_CASE("families and their micro-batches come by what none of their plans is below") {
  dice roll{std::mt19937_64(8)};
  int families = 0;
  for (int round = 0; round < 20; ++round) {
    plan_request request = on_nodes(roll.from(1, 2), 4);
    request.efficiency = catalog::ampere;
    request.effective_batch = {roll.from(1, 16), 16};
    request.space = {.gpus = range<std::int64_t>{1, 8},
                     .tensor_parallel = range<std::int64_t>{1, 4},
                     .pipeline_parallel = range<std::int64_t>{1, 3},
                     .recompute = roll.coin(),
                     .sequence_parallel = roll.coin(),
                     .micro_batch = {1, roll.from(1, 16)}};
    request.goal = static_cast<plan_goal>(roll.from(0, 2));
    request.evaluates_all = roll.one_in(4);
    const detail::plan_domain domain(request);
    const roofline_times times{};
    const detail::plan_tables<roofline_times> tables(domain, times);
    const bool prunes = request.goal != plan_goal::least_memory && !request.evaluates_all;
    CHECK(tables.prunes() == prunes);
    CHECK(tables.has_layouts());
    CHECK(!tables.has_too_many());
    double before = 0;
    std::int64_t bounds = 0;
    for (const detail::plan_family& family : tables) {
      ++families;
      CHECK(family.bound >= before);
      before = family.bound;
      REQUIRE(tables.bounds_of(family) != nullptr);
      double last = family.bound;
      std::vector<std::int64_t> micro_batches;
      for (int at = 0; at < family.bounds; ++at) {
        const detail::micro_batch_bound& one = tables.bounds_of(family)[at];
        CHECK((at == 0 ? one.bound == last : one.bound >= last));
        CHECK((one.bound > 0) == prunes);
        last = one.bound;
        micro_batches.push_back(one.micro_batch);
        // Little less than a step of one replica on one stage, of as many GPUs as there are.
        training_setup setup = domain.setup_of(family);
        const std::int64_t ranks = family.tensor * family.context;
        const roofline_time time{
            .setup = setup, .on = request.on, .efficiency = request.efficiency};
        const double of_sample = time.step({one.micro_batch, 1, 1}).value() *
                                 static_cast<double>(ranks) / static_cast<double>(one.micro_batch);
        const double each = request.goal == plan_goal::least_money
                                ? of_sample
                                : of_sample / static_cast<double>(domain.most_gpus());
        if (!prunes) continue;
        CHECK(one.bound <= each);
        CHECK(one.bound >= 0.25 * each);
      }
      std::sort(micro_batches.begin(), micro_batches.end());
      CHECK(std::adjacent_find(micro_batches.begin(), micro_batches.end()) == micro_batches.end());
      CHECK(micro_batches.front() >= 1);
      CHECK(micro_batches.back() <= request.space.micro_batch.high());
      bounds += family.bounds;
    }
    CHECK(bounds <= tables.plans());
    // Worked out one by one they are as many.
    request.evaluates_all = true;
    const auto all = plan_training(request, 1e6 * 1_GB, stepped_memory_of{}, 1);
    REQUIRE(all);
    CHECK(all->evaluated == tables.plans());
    CHECK(all->excluded == 0);
  }
  CHECK(families > 100);
}

TEST_CASE("a sequence of an odd number of tokens has the layouts that do not divide it") {
  plan_request request = on_nodes(1, 8);
  request.setup.framework = catalog::megatron_transformer_engine;
  request.space = {.tensor_parallel = range<std::int64_t>{1, 8},
                   .pipeline_parallel = range<std::int64_t>{1, 4},
                   .micro_batch = {1, 1}};
  const auto plans = [&](std::int64_t tokens, std::int64_t most) {
    request.setup.sequence_length = tokens;
    request.space.context_parallel = range<std::int64_t>{1, most};
    const auto found = plan_training(request, 1e6 * 1_GB, stepped_memory_of{}, 1);
    REQUIRE(found);
    return found->evaluated + found->excluded;
  };
  CHECK(plans(511, 4) == plans(511, 1));
  CHECK(plans(511, 1) == plans(512, 1));
  CHECK(plans(512, 4) > plans(512, 1));
}
