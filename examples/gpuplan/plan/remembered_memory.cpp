#include "plan/remembered_memory.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "guides/interruption.hpp"

namespace plan_program {

using namespace gpuplan;

void asked_memory::answered(std::size_t questions, std::size_t of_all) {
  share_ = static_cast<double>(questions) / static_cast<double>(of_all);
  show();
}

void asked_memory::looked_at() {
  constexpr std::int64_t so_often = 256;
  if (++looked_at_ % so_often != 0) return;
  guides::end_if_stopped();
  show();
}

void asked_memory::show() {
  if (!line_.is_terminal() || std::chrono::steady_clock::now() - began_ < std::chrono::seconds(1))
    return;
  line_.show("looking for plans, " + std::to_string(replayed_) + " training steps replayed",
             share_);
}

std::int64_t asked_memory::index_of(const training_setup& setup) {
  const code_and_precision wanted{setup.framework.name, setup.framework.engine.is, setup.precision};
  const auto found = std::find(seen_.begin(), seen_.end(), wanted);
  if (found != seen_.end()) return found - seen_.begin();
  seen_.push_back(wanted);
  return static_cast<std::int64_t>(seen_.size()) - 1;
}

// All in which setups of one request differ that memory depends on.
bytes asked_memory::required(const fullest_stage_memory& model, const batch_plan& plan) {
  const training_setup& setup = model.of.setup;
  const parallelism& layout = setup.parallelism;
  std::vector<std::int64_t> key{plan.micro_batch,
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
                                layout.zero_stage,
                                layout.sequence_parallel ? 1 : 0,
                                static_cast<std::int64_t>(setup.recompute),
                                setup.model.num_hidden_layers,
                                index_of(setup),
                                model.of.channels};
  const auto found = answers_.find(key);
  if (found != answers_.end()) return found->second;
  guides::end_if_stopped();
  ++replayed_;
  show();
  return answers_.emplace(std::move(key), model.required(plan)).first->second;
}

}  // namespace plan_program
