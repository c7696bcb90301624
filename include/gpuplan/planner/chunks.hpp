#pragma once

// The planner while a program compiles: of a request that is a type, in steps each of which is a
// constant expression of its own, so that no search meets a compiler's limit.

#include <gpuplan/batch.hpp>
#include <gpuplan/memory_model.hpp>
#include <gpuplan/planner.hpp>
#include <gpuplan/planner/request.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/training_setup.hpp>
#include <gpuplan/units.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace gpuplan {

namespace detail {

// A lambda without captures.
template <class Function, class Value>
concept returns_constant =
    std::is_empty_v<Function> && std::is_default_constructible_v<Function> && requires {
  { Function{}() } -> std::convertible_to<Value>;
};
template <class Function>
concept returns_memory_of_setups =
    std::is_empty_v<Function> && std::is_default_constructible_v<Function> && requires {
  requires memory_of_setups<decltype(Function{}())>;
};

// A memory model whose replays are constant expressions of their own.
template <class Model>
inline constexpr Model any_model{};
template <class Model>
concept asked_in_chunks = requires {
  { Model::template required_in_chunks<any_model<Model>, batch_plan{}>() } -> std::same_as<bytes>;
};

// What memory was asked for.
struct memory_question {
  parallelism layout{};
  recompute_mode recompute = recompute_mode::none;
  std::int64_t recompute_layers = 0;
  batch_plan batch{};
  bytes answer{};

  constexpr bool is_of(const training_setup& setup, const batch_plan& plan) const {
    return batch == plan && recompute == setup.recompute &&
           recompute_layers == setup.recompute_layers && layout == setup.parallelism;
  }
};

// How far a search has come.
// NOLINTNEXTLINE(readability-identifier-naming): clang-tidy 14 names what copies the arrays
struct search_progress {
  static constexpr int most_questions = 32;

  gathered_plans found{};
  bool is_for_least_memory = false;  // the second time through, where there is no plan
  bool is_done = false;
  std::int64_t part = 0;  // that is searched
  int answered = 0;       // of this part's questions
  memory_question questions[most_questions]{};
  bool asks = false;  // for memory of this setup:
  training_setup setup{};
  batch_plan plan{};
};

// Memory as far as it was asked for. The first plan of which it is not is noted; the search then
// comes to nothing, soonest where all fits.
template <class MemoryOf>
class answered_memory_of {
 public:
  struct model {
    const answered_memory_of* from = nullptr;
    training_setup setup{};

    constexpr bytes required(const batch_plan& plan) const { return from->answer(setup, plan); }
    friend constexpr result<bool> validate(const model& asked) {
      if constexpr (requires { validate(asked.from->memory_of_(asked.setup)); })
        if (const auto valid = validate(asked.from->memory_of_(asked.setup)); !valid)
          return valid.why();
      return true;
    }
    friend constexpr result<bool> validate(const model& asked, const batch_plan& plan) {
      if constexpr (requires { validate(asked.from->memory_of_(asked.setup), plan); })
        if (const auto valid = validate(asked.from->memory_of_(asked.setup), plan); !valid)
          return valid.why();
      return true;
    }
  };

  constexpr answered_memory_of(const MemoryOf& memory_of, search_progress& progress)
      : memory_of_(memory_of), progress_(progress) {}

  constexpr model operator()(const training_setup& setup) const { return {this, setup}; }
  constexpr bytes at_least(const training_setup& setup, const batch_plan& plan) const requires
      requires(const MemoryOf& memory_of) {
    memory_of.at_least(setup, plan);
  }
  { return memory_of_.at_least(setup, plan); }

 private:
  const MemoryOf& memory_of_;
  search_progress& progress_;

  constexpr bytes answer(const training_setup& setup, const batch_plan& plan) const {
    for (int at = 0; at < progress_.answered; ++at)
      if (progress_.questions[at].is_of(setup, plan)) return progress_.questions[at].answer;
    if (!progress_.asks) {
      progress_.asks = true;
      progress_.setup = setup;
      progress_.plan = plan;
    }
    return {};
  }
};

// The parts of a request: each cluster with each of its tensor-parallel degrees.
class request_parts {
 public:
  constexpr explicit request_parts(const plan_request& request) : request_(request) {}

  constexpr std::int64_t count() const {
    std::int64_t all = 0;
    for (std::size_t at = 0; at <= request_.others.size(); ++at) all += degrees_on(at);
    return all;
  }
  constexpr std::size_t cluster_of_part(std::int64_t part) const {
    std::size_t at = 0;
    for (; part >= degrees_on(at); ++at) part -= degrees_on(at);
    return at;
  }
  constexpr plan_request operator[](std::int64_t part) const {
    std::size_t at = 0;
    for (; part >= degrees_on(at); ++at) part -= degrees_on(at);
    plan_request here = request_on(request_, at);
    if (!here.space.tensor_parallel) return here;
    const std::int64_t degree = here.space.tensor_parallel->low() + part;
    here.space.tensor_parallel = range<std::int64_t>{degree, degree};
    return here;
  }

 private:
  const plan_request& request_;

  constexpr std::int64_t degrees_on(std::size_t at) const {
    if (!request_.space.tensor_parallel) return 1;
    const cluster& on = at == 0 ? request_.on : request_.others[at - 1].on;
    const std::int64_t most = request_.tensor_within_node ? linked_gpus(on) : total_gpus(on);
    const std::int64_t low = request_.space.tensor_parallel->low();
    const std::int64_t high = request_.space.tensor_parallel->high();
    const std::int64_t last = high < most ? high : most;
    return last > low ? last - low + 1 : 1;
  }
};

// The next step of a search: one part, or what of it can be said before memory is asked for again.
template <class MemoryOf>
constexpr search_progress advanced(const plan_request& request,
                                   const MemoryOf& memory_of,
                                   int wanted,
                                   search_progress progress) {
  const request_parts parts(request);
  const std::size_t at = parts.cluster_of_part(progress.part);
  plan_request here = parts[progress.part];
  plan_request counted = request;
  if (progress.is_for_least_memory) counted.goal = here.goal = plan_goal::least_memory;
  const memory_budget budget = progress.is_for_least_memory
                                   ? memory_budget(bytes::from_value(0x1p62))
                                   : memory_budget(here.on.gpu);
  const double known = progress.found.ceiling(counted, here.on, wanted);
  const double boundless = std::numeric_limits<double>::infinity();
  // Beneath a ceiling a search does not look for reasons.
  const double most = std::numeric_limits<double>::max();
  const double ceiling = known < boundless || progress.is_for_least_memory ? known : most;
  const auto there = memory_on(memory_of, here.on.gpu);
  result<plan_answer> found = failure(errc::no_runs);
  if constexpr (asked_in_chunks<decltype(there(training_setup{}))>) {
    found = planner(here, budget, answered_memory_of(there, progress), roofline_times{})
                .run(wanted, ceiling);
    if (progress.asks) return progress;
  } else {
    found = planner(here, budget, there, roofline_times{}).run(wanted, ceiling);
  }
  progress.found.add(counted, found, at, wanted);
  progress.answered = 0;
  if (++progress.part < parts.count()) return progress;
  progress.is_done = progress.is_for_least_memory || progress.found.plans().count != 0;
  if (!progress.is_done) {
    progress = search_progress();
    progress.is_for_least_memory = true;
  }
  return progress;
}

template <class Request, class Memory, int Plans, int Step>
constexpr search_progress progress_at();
template <class Request, class Memory, int Plans, int Step>
inline constexpr search_progress progress_after = progress_at<Request, Memory, Plans, Step>();

// The memory that a step asks for.
template <class Request, class Memory, int Plans, int Step>
inline constexpr auto asked_model = [] {
  const search_progress& now = progress_after<Request, Memory, Plans, Step>;
  const plan_request request = Request{}();
  const std::size_t at = request_parts(request).cluster_of_part(now.part);
  return memory_on(Memory{}(), request_on(request, at).on.gpu)(now.setup);
}();
template <class Request, class Memory, int Plans, int Step>
inline constexpr bytes asked_memory =
    std::remove_cvref_t<decltype(asked_model<Request, Memory, Plans, Step>)>::
        template required_in_chunks<asked_model<Request, Memory, Plans, Step>,
                                    progress_after<Request, Memory, Plans, Step>.plan>();

template <class Request, class Memory, int Plans, int Step>
constexpr search_progress progress_at() {
  search_progress progress;
  if constexpr (Step > 0) {
    progress = progress_after<Request, Memory, Plans, Step - 1>;
    if constexpr (progress_after<Request, Memory, Plans, Step - 1>.asks) {
      progress.questions[progress.answered++] = {progress.setup.parallelism,
                                                 progress.setup.recompute,
                                                 progress.setup.recompute_layers,
                                                 progress.plan,
                                                 asked_memory<Request, Memory, Plans, Step - 1>};
      progress.asks = false;
    }
  }
  return advanced(Request{}(), Memory{}(), Plans, progress);
}

template <class Request, class Memory, int Plans, int Step>
constexpr result<plan_answer> answer_after() {
  constexpr const search_progress& now = progress_after<Request, Memory, Plans, Step>;
  if constexpr (!now.is_done && now.answered < search_progress::most_questions) {
    return answer_after<Request, Memory, Plans, Step + 1>();
  } else {
    if (!now.is_done)
      return failure(errc::out_of_bounds, named_fact{fact::at_most, now.answered})
          .about(fact::questions);
    const plan_request request = Request{}();
    const auto found = now.found.answer();
    if (!found || !now.is_for_least_memory) return found;
    const training_plan& least = found->best();
    return exceeds_gpu_memory(
        least.batch, least.required, cluster_of(request, least).gpu, errc::no_plan_in_memory);
  }
}

// Answers of a memory are told apart by the layout and the batch alone.
constexpr failure flaw_of_constant(const plan_request& request) {
  if (!request.setups.empty())
    return failure(errc::out_of_bounds, named_fact{fact::at_most, 0}).about(fact::setups);
  return validate(request).why();
}

}  // namespace detail

/// The answer of `plan_training` where request and memory are types, lambdas without captures, and
/// the search is a constant expression: `plan_training([] { return request; }, [] { return
/// transformer_memory_of{}; })`. Each cluster with each tensor-parallel degree is searched in a
/// constant expression of its own, and each replay of a memory that can be asked in chunks, so that
/// none meets a compiler's limit; a space without tensor-parallel degrees is one part. Where
/// several plans are as good, those of less tensor parallelism come first. Where there is no plan,
/// the error is `no_plan_in_memory` of the plan that needs least of those that keep to the other
/// limits, or as of `plan_training`, though with the time or money that the best plan in any memory
/// would take; `out_of_bounds` of more than 32 questions for memory in a part, and of other setups
/// to choose.
template <int Plans = 1,
          detail::returns_constant<plan_request> Request,
          detail::returns_memory_of_setups Memory>
[[nodiscard]] constexpr result<plan_answer> plan_training(Request, Memory) {
  constexpr failure flaw = detail::flaw_of_count(Plans);
  constexpr failure why = detail::flaw_of_constant(Request{}());
  if constexpr (detail::failed(flaw)) {
    return flaw;
  } else if constexpr (detail::failed(why)) {
    return why;
  } else {
    return detail::answer_after<Request, Memory, Plans, 0>();
  }
}

}  // namespace gpuplan
