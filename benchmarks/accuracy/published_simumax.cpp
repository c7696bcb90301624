#include "published_simumax.hpp"

#include <gpuplan/catalog/frameworks.hpp>

#include <string_view>

#include "runs.hpp"

namespace accuracy {

described_setup read_simumax(const row& source) {
  described_setup described;
  const described_run run = describe_run(source);
  described.why_not = run.why_not;
  if (!described.why_not.empty()) return described;
  gpuplan::training_setup& setup = described.setup;
  setup.framework = gpuplan::catalog::megatron_transformer_engine;
  setup.model = run.shape;
  setup.model.fused_qkv = true;
  setup.sequence_length = source.integer_or("seq_len", 0);
  setup.precision = gpuplan::bf16_master;
  setup.precision.fp32_gradients = source.integer_or("grad_bytes", 4) == 4;
  setup.attention = gpuplan::attention_kernel::flash;
  setup.framework.implementation.fuses_loss = source.flag("fused_cross_entropy");
  setup.framework.costs.hides_gradients = false;  // as its notes say of communication
  setup.framework.costs.hides_parameters = false;
  setup.optimizer.loop = gpuplan::optimizer_loop::fused;
  setup.optimizer.clips_gradients = true;
  setup.parallelism = layout_in(source);
  setup.context_exchange = gpuplan::context_exchange::a2a;  // as its benchmarks are run
  const std::string_view rank = source.text("memory_rank");
  if (rank == "last") setup.place.stage = setup.parallelism.pipeline_parallel - 1;
  described.plan = batch_in(source);
  return described;
}

described_setup describe_simumax(const row& source) {
  described_setup described = read_simumax(source);
  refuse_invalid(described);
  return described;
}

}  // namespace accuracy
