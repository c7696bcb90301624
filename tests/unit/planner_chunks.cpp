// Searches in steps, each a constant expression of its own, find what one search of all finds. The
// spaces are small: a step is compiled again for each question about memory.

#include "check.hpp"

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/memory_model.hpp>
#include <gpuplan/planner.hpp>
#include <gpuplan/planner/chunks.hpp>

#include <cstdint>
#include <span>
#include <type_traits>

using namespace gpuplan;

namespace {

// What a rank holds, and some of each sample; to be asked for in chunks, or at once.
struct asked_memory {
  double fixed = 0;
  double per_sample = 0;

  constexpr bytes required(const batch_plan& plan) const {
    return bytes::from_value(fixed + per_sample * static_cast<double>(plan.micro_batch));
  }
  template <const asked_memory& Model, batch_plan Plan>
  static constexpr bytes required_in_chunks() {
    return Model.required(Plan);
  }
};
// Twice as much on GPUs of 40 GB.
template <int PerSampleGB>
struct asked_memory_of {
  double times = 1;

  constexpr asked_memory_of on(const gpu_spec& gpu) const {
    return {usable_memory(gpu) < 50_GB ? 2.0 : 1.0};
  }
  constexpr asked_memory operator()(const training_setup& setup) const {
    const auto held = static_cast<double>(parameters(setup.model, setup.parallelism, {}).total());
    const double kept = setup.recompute == recompute_mode::full ? 0.5 : 1;
    return {.fixed = times * held * (18 - 12 * setup.parallelism.zero_stage),
            .per_sample = times * kept * PerSampleGB * 1e9};
  }
};
constexpr auto small_memory = [] { return asked_memory_of<1>{}; };
constexpr auto large_memory = [] { return asked_memory_of<30>{}; };

constexpr cluster_choice others[] = {
    {{.gpu = catalog::a100_pcie_40gb,
      .gpus_per_node = 1,
      .price_per_gpu = dated_price{1_usd_per_hour, "2026-01-01", "a test"}},
     catalog::ampere}};

constexpr auto on_one = [] {
  plan_request asked;
  asked.setup = {.model = {.num_hidden_layers = 4,
                           .hidden_size = 1024,
                           .intermediate_size = 4096,
                           .num_attention_heads = 16,
                           .vocab_size = 32000,
                           .norm = norm_kind::layer_norm,
                           .norm_bias = true,
                           .position_rows = 1024},
                 .sequence_length = 1024,
                 .precision = bf16_megatron,
                 .framework = catalog::megatron_core};
  asked.on = {.gpu = catalog::a100_sxm4_80gb,
              .gpus_per_node = 1,
              .price_per_gpu = dated_price{5_usd_per_hour, "2026-01-01", "a test"}};
  asked.efficiency = catalog::ampere;
  asked.effective_batch = 8;
  asked.space.micro_batch = {2, 4};
  return asked;
};
constexpr auto of_two_clusters = [] {
  plan_request asked = on_one();
  asked.others = others;
  asked.goal = plan_goal::least_money;
  asked.space = {.tensor_parallel = range<std::int64_t>{1, 2}, .micro_batch = {1, 2}};
  return asked;
};

constexpr bool is_same(const training_plan& a, const training_plan& b) {
  return a.gpus == b.gpus && a.cluster == b.cluster && a.layout == b.layout &&
         a.recompute == b.recompute && a.batch == b.batch && a.required == b.required &&
         a.step == b.step;
}
constexpr bool is_same(const result<plan_answer>& a, const result<plan_answer>& b) {
  if (!a || !b || a->count != b->count) return false;
  for (int at = 0; at < a->count; ++at)
    if (!is_same(a->plans[at], b->plans[at])) return false;
  return a->evaluated + a->excluded == b->evaluated + b->excluded;
}

}  // namespace

TEST_CASE("the best plans of a search in steps are those of one of all") {
  CONSTEXPR auto fastest = plan_training(on_one, large_memory);
  STATIC_CHECK(is_same(fastest, plan_training(on_one(), large_memory(), 1)));
  STATIC_CHECK(fastest->best().batch.micro_batch == 2);  // four samples are too many
}

TEST_CASE("a search in steps looks at every cluster, in the memory of its GPUs") {
  CONSTEXPR auto cheapest = plan_training(of_two_clusters, small_memory);
  STATIC_CHECK(is_same(cheapest, plan_training(of_two_clusters(), small_memory(), 1)));
  STATIC_CHECK(cheapest->best().cluster == 1);
}

namespace {

// How far a search has come after a step.
template <auto& Request, auto& Memory, int Step>
constexpr const detail::search_progress& after =
    detail::progress_after<std::remove_cvref_t<decltype(Request)>,
                           std::remove_cvref_t<decltype(Memory)>,
                           1,
                           Step>;

// Whether a step knows what was asked before it, of its own part alone.
constexpr bool follows(const detail::search_progress& last, const detail::search_progress& now) {
  if (!now.asks) return now.part == last.part + 1 && now.answered == 0;
  if (!last.asks) return now.part == last.part && now.answered == 0;
  return now.part == last.part && now.answered == last.answered + 1 &&
         now.questions[last.answered].is_of(last.setup, last.plan);
}

}  // namespace

TEST_CASE("each step of a search ends a part, or asks with one more answer") {
  STATIC_CHECK(after<on_one, large_memory, 0>.answered == 0);
  STATIC_CHECK(after<on_one, large_memory, 1>.answered == 1);
  STATIC_CHECK(follows(after<on_one, large_memory, 0>, after<on_one, large_memory, 1>));
  STATIC_CHECK(follows(after<on_one, large_memory, 1>, after<on_one, large_memory, 2>));
  STATIC_CHECK(after<on_one, large_memory, 2>.is_done);
  // Of two parts each asks once.
  STATIC_CHECK(after<of_two_clusters, small_memory, 0>.asks);
  STATIC_CHECK(
      follows(after<of_two_clusters, small_memory, 0>, after<of_two_clusters, small_memory, 1>));
  STATIC_CHECK(
      follows(after<of_two_clusters, small_memory, 1>, after<of_two_clusters, small_memory, 2>));
  STATIC_CHECK(after<of_two_clusters, small_memory, 2>.asks);
  STATIC_CHECK(after<of_two_clusters, small_memory, 3>.is_done);
}

namespace {

// A request that has had so many answers before it asks its first question.
template <int Answered>
struct after_answers {
  constexpr plan_request operator()() const { return on_one(); }
};

}  // namespace

template <int Answered, class Memory>
inline constexpr detail::search_progress
    detail::progress_after<after_answers<Answered>, Memory, 1, 0> = [] {
      search_progress begun = after<on_one, small_memory, 0>;
      begun.answered = Answered;
      return begun;
    }();

TEST_CASE("a part of a search has 32 answers about memory, and no more") {
  STATIC_CHECK(is_same(plan_training(after_answers<31>{}, small_memory),
                       plan_training(on_one(), small_memory(), 1)));
  STATIC_CHECK(plan_training(after_answers<32>{}, small_memory).why() ==
               failure(errc::out_of_bounds, named_fact{fact::at_most, 32}).about(fact::questions));
}

namespace {

constexpr auto memory_too_large = [] { return asked_memory_of<100>{}; };
constexpr auto in_a_second = [] {
  plan_request asked = on_one();
  asked.samples = 1'000'000;
  asked.finish_in = 1_s;
  return asked;
};

constexpr training_setup another[] = {{}};
constexpr auto of_setups = [] {
  plan_request asked = on_one();
  asked.setups = another;
  return asked;
};
constexpr auto of_nothing = [] {
  plan_request asked = on_one();
  asked.effective_batch = 0;
  return asked;
};

// A model of memory that is asked at once.
struct memory_at_once {
  constexpr affine_memory operator()(const training_setup&) const { return {.fixed = 1_GB}; }
};
constexpr auto at_once = [] { return memory_at_once{}; };

// Types that are no lambdas without captures: with a member, without an answer, not made by {}.
struct with_member {
  int member = 0;
  constexpr plan_request operator()() const { return {}; }
};
struct without_answer {};
struct not_made {
  not_made() = delete;
  constexpr plan_request operator()() const { return {}; }
};
struct of_memory_with_member {
  int member = 0;
  constexpr memory_at_once operator()() const { return {}; }
};
struct of_memory_not_made {
  of_memory_not_made() = delete;
  constexpr memory_at_once operator()() const { return {}; }
};

}  // namespace

TEST_CASE("where a search in steps finds nothing, it says why") {
  CONSTEXPR auto too_large = plan_training(on_one, memory_too_large);
  STATIC_CHECK(too_large.why().code == errc::no_plan_in_memory);
  // 18 bytes of each parameter, and two samples.
  STATIC_CHECK(too_large.why()[fact::needed_MB] ==
               (18 * parameters(on_one().setup.model).total() + 200'000'000'000) / 1'000'000 + 1);
  STATIC_CHECK(too_large.why() == plan_training(on_one(), memory_too_large(), 1).why());
  CONSTEXPR auto too_late = plan_training(in_a_second, small_memory);
  STATIC_CHECK(too_late.why().code == errc::no_plan_in_time);
  STATIC_CHECK(too_late.why() == plan_training(in_a_second(), small_memory(), 1).why());
}

TEST_CASE("a search in steps ends with its last part") {
  CONSTEXPR auto of_one_part = plan_training(on_one, at_once);
  STATIC_CHECK(is_same(of_one_part, plan_training(on_one(), at_once(), 1)));
  CONSTEXPR auto of_two_parts = plan_training(
      [] {
        plan_request asked = on_one();
        asked.others = others;
        return asked;
      },
      at_once);
  STATIC_CHECK(of_two_parts->best().cluster == 0);
  STATIC_CHECK(of_two_parts->count == 1);
}

TEST_CASE("what is searched in steps is a lambda without captures") {
  STATIC_CHECK(detail::returns_constant<decltype(on_one), plan_request>);
  STATIC_CHECK(!detail::returns_constant<with_member, plan_request>);
  STATIC_CHECK(!detail::returns_constant<without_answer, plan_request>);
  STATIC_CHECK(!detail::returns_constant<not_made, plan_request>);
  STATIC_CHECK(detail::returns_memory_of_setups<decltype(at_once)>);
  STATIC_CHECK(!detail::returns_memory_of_setups<of_memory_with_member>);
  STATIC_CHECK(!detail::returns_memory_of_setups<without_answer>);
  STATIC_CHECK(!detail::returns_memory_of_setups<of_memory_not_made>);
  CONSTEXPR detail::search_progress begun;
  STATIC_CHECK((begun.part == 0 && begun.answered == 0));
  STATIC_CHECK(!(begun.is_done || begun.asks || begun.is_for_least_memory));
}

TEST_CASE("what a search in steps does not take is refused before it") {
  STATIC_CHECK(plan_training(of_setups, small_memory).why() ==
               failure(errc::out_of_bounds, named_fact{fact::at_most, 0}).about(fact::setups));
  STATIC_CHECK(plan_training(of_nothing, small_memory).why().code == errc::not_positive);
  STATIC_CHECK(plan_training<0>(on_one, small_memory).why()[fact::plans] == 0);
  STATIC_CHECK(plan_training<0>(on_one, small_memory).why()[fact::at_least] == 1);
  STATIC_CHECK(plan_training<9>(on_one, small_memory).why()[fact::at_most] == 8);
}
