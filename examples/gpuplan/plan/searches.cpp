#include "plan/searches.hpp"

#include <gpuplan/batch.hpp>
#include <gpuplan/cluster.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/io/progress.hpp>
#include <gpuplan/memory/layouts.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/replay/step_time.hpp>
#include <gpuplan/training_setup.hpp>
#include <gpuplan/units.hpp>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "guides/interruption.hpp"
#include "runs/stated_step.hpp"

namespace plan_program {

using namespace gpuplan;

// What was asked for so far, and how far the program is.
class asked_steps {
 public:
  void answered(std::size_t questions, std::size_t of_all) {
    share_ = static_cast<double>(questions) / static_cast<double>(of_all);
    show();
  }
  // A plan was looked at, of many that need no replay.
  void looked_at() {
    constexpr std::int64_t so_often = 256;
    if (++looked_at_ % so_often != 0) return;
    guides::end_if_stopped();
    show();
  }
  bytes required(const fullest_stage_memory& model, const batch_plan& plan) {
    std::vector<std::int64_t> key = key_of(model.of.setup, plan);
    key.push_back(model.of.channels);
    return remembered(memory_, std::move(key), [&] { return model.required(plan); });
  }
  // Without an end where it cannot be told.
  duration step(const replayed_time& model, const batch_plan& plan) {
    std::vector<std::int64_t> key = key_of(model.setup, plan);
    const cluster& on = model.on;
    const auto bits_of = [](const auto& rate) {
      return std::bit_cast<std::int64_t>(rate ? rate->value() : 0.0);
    };
    for (const std::int64_t one : {index_of(gpus_, std::string(on.gpu.id)),
                                   on.gpus_per_node,
                                   on.gpus_per_link_domain,
                                   bits_of(on.inside_node),
                                   bits_of(on.between_nodes),
                                   static_cast<std::int64_t>(on.network),
                                   bits_of(on.collective_launch),
                                   bits_of(on.hop_between)})
      key.push_back(one);
    return remembered(steps_, std::move(key), [&] {
      const auto found = model.step(plan);
      if (!found) why_no_time = found.why();
      return found ? *found : duration::from_value(std::numeric_limits<double>::infinity());
    });
  }

  failure why_no_time{};  // of the last step whose time cannot be told

 private:
  // In which the setups of one request differ beside their layouts.
  struct code_and_precision {
    const char* code = nullptr;
    const engine_class* engine = nullptr;
    precision_recipe precision{};

    friend bool operator==(const code_and_precision&, const code_and_precision&) = default;
  };
  template <class T>
  using answers = std::map<std::vector<std::int64_t>, T>;

  void show() {
    if (!line_.is_terminal() || std::chrono::steady_clock::now() - began_ < std::chrono::seconds(1))
      return;
    line_.show("looking for plans, " + std::to_string(replayed_) + " training steps replayed",
               share_);
  }
  template <class T>
  static std::int64_t index_of(std::vector<T>& seen, const T& one) {
    const auto found = std::find(seen.begin(), seen.end(), one);
    const auto at = found - seen.begin();
    if (found == seen.end()) seen.push_back(one);
    return at;
  }
  // All in which setups of one request differ that a step depends on.
  std::vector<std::int64_t> key_of(const training_setup& setup, const batch_plan& plan) {
    const parallelism& layout = setup.parallelism;
    return {plan.micro_batch,
            plan.data_parallel,
            plan.accumulation,
            layout.tensor_parallel,
            layout.pipeline_parallel,
            layout.virtual_pipeline,
            static_cast<std::int64_t>(layout.schedule),
            layout.split.embedding_layers,
            layout.split.head_layers,
            layout.split.first_stage_layers,
            layout.split.last_stage_layers,
            layout.context_parallel,
            layout.expert_parallel,
            layout.expert_tensor_parallel,
            layout.zero_stage,
            layout.sequence_parallel ? 1 : 0,
            static_cast<std::int64_t>(setup.recompute),
            setup.recompute_layers,
            setup.model.num_hidden_layers,
            index_of(setups_, {setup.framework.name, setup.framework.engine.is, setup.precision})};
  }
  template <class T, class Replay>
  T remembered(answers<T>& in, std::vector<std::int64_t> key, const Replay& replay) {
    const auto found = in.find(key);
    if (found != in.end()) return found->second;
    guides::end_if_stopped();
    ++replayed_;
    show();
    return in.emplace(std::move(key), replay()).first->second;
  }

  std::vector<code_and_precision> setups_{};
  std::vector<std::string> gpus_{};
  answers<bytes> memory_{};
  answers<duration> steps_{};
  std::int64_t replayed_ = 0;
  std::int64_t looked_at_ = 0;
  double share_ = 0;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  io::progress_line line_{stderr};
};

namespace {

// `transformer_memory_of` that works out no plan twice, of one model.
struct remembered_memory {
  struct model {
    fullest_stage_memory of{};
    asked_steps* asked = nullptr;

    [[nodiscard]] bytes required(const batch_plan& plan) const { return asked->required(of, plan); }
    friend result<fullest_stage_memory> validate(const model& memory) {
      return gpuplan::validate(memory.of);
    }
    friend result<batch_plan> validate(const model& memory, const batch_plan& plan) {
      return gpuplan::validate(memory.of, plan);
    }
  };

  transformer_memory_of of{};
  asked_steps* asked = nullptr;

  [[nodiscard]] remembered_memory on(const gpu_spec& gpu) const { return {of.on(gpu), asked}; }
  [[nodiscard]] model operator()(const training_setup& setup) const { return {of(setup), asked}; }
  [[nodiscard]] bytes at_least(const training_setup& setup,
                               const batch_plan& plan,
                               const parameter_counts& of_rank) const {
    asked->looked_at();
    // That is a replay too.
    if (setup.composite != nullptr) return (*this)(setup).required(plan);
    return of.at_least(setup, plan, of_rank);
  }
  [[nodiscard]] bytes at_least(const training_setup& setup, const batch_plan& plan) const {
    return at_least(setup, plan, parameters(setup.model, setup.parallelism, {}));
  }
};

// The times of `replayed_time`, of which no plan's is worked out twice.
struct remembered_times {
  struct model {
    // Micro-batches between the first and the last do all the same, and the optimizer is one.
    static constexpr bool sample_time_falls = true;

    replayed_time of{};
    asked_steps* asked = nullptr;

    [[nodiscard]] duration step(const batch_plan& plan) const { return asked->step(of, plan); }
  };

  asked_steps* asked = nullptr;

  [[nodiscard]] model operator()(const training_setup& setup, const cluster& on) const {
    return {runs::time_by_replay(setup, on), asked};
  }
};

// `answer(memory, times)` with those that the request's plans go by.
template <class Answer>
auto answer_of(asked_steps& asked,
               double fragmentation,
               const plan_request& request,
               const Answer& answer) {
  const remembered_memory memory{{.fragmentation = fragmentation}, &asked};
  if (request.setup.composite == nullptr) return answer(memory, roofline_times{});
  const auto found = answer(memory, remembered_times{&asked});
  if (!found && found.why().code == errc::not_finite && detail::failed(asked.why_no_time))
    return decltype(found)(asked.why_no_time);
  return found;
}

}  // namespace

searches::searches(double fragmentation_percent)
    : asked_(std::make_shared<asked_steps>()), fragmentation_(fragmentation_percent / 100) {}

void searches::answered(std::size_t questions, std::size_t of_all) const {
  asked_->answered(questions, of_all);
}

result<plan_answer> searches::plans_of(const plan_request& request, int plans) const {
  return answer_of(*asked_, fragmentation_, request, [&](const auto& memory, const auto& times) {
    return plan_training(request, memory, plans, times);
  });
}

result<plan_limits> searches::limits_of(const plan_request& request) const {
  return answer_of(*asked_, fragmentation_, request, [&](const auto& memory, const auto& times) {
    return gpuplan::limits_of(request, memory, times);
  });
}

result<plan_front> searches::front_of(const plan_request& request, double step) const {
  return answer_of(*asked_, fragmentation_, request, [&](const auto& memory, const auto& times) {
    return gpuplan::front_of(request, request.on.gpu, memory, step, times);
  });
}

}  // namespace plan_program
