#include "timed_runs.hpp"

#include <gpuplan/catalog/gpus.hpp>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string_view>

#include "measured_rows.hpp"
#include "notes.hpp"
#include "published_bigscience.hpp"
#include "published_llm_foundry.hpp"
#include "published_megatron_lm.hpp"
#include "published_simumax.hpp"
#include "published_torchtitan.hpp"
#include "run_columns.hpp"

namespace accuracy {
namespace {

struct reader_of_source {
  std::string_view source;
  described_setup (*read)(const row&);
};
constexpr reader_of_source readers[] = {{"vtrain_single", read_megatron_lm},
                                        {"vtrain_multi", read_megatron_lm},
                                        {"megatron_2021", read_megatron_lm},
                                        {"megascale", read_megascale},
                                        {"bigscience", read_bigscience},
                                        {"llm_foundry_mpt", read_llm_foundry},
                                        {"llm_foundry_historic", read_llm_foundry},
                                        {"torchtitan", read_torchtitan},
                                        {"simumax_b200", read_simumax},
                                        {measured_source, describe_measured_run},
                                        {"nemo_megatron_bridge", read_megatron_bridge}};

described_setup read_run(const row& source) {
  for (const reader_of_source& reader : readers)
    if (reader.source == source.text("source")) return reader.read(source);
  return read_run_columns(source);
}

// Nodes with four V100 are Jean Zay's, where nothing else is said.
bool is_jean_zay(std::string_view gpu, std::int64_t gpus_per_node) {
  return gpu.starts_with("v100") && gpus_per_node <= 4;
}

// Of one GPU's adapter in GB/s, each direction: DGX-1 and Jean Zay's nodes with V100 have four
// links of 100 Gb/s for four or eight GPUs, DGX A100 eight of 200, DGX H100 and B200 eight of 400,
// GB200 one of 400 a GPU, B300 and GB300 one of 800.
double usual_adapter(std::string_view gpu, std::int64_t gpus_per_node) {
  if (is_jean_zay(gpu, gpus_per_node)) return 12.5;
  if (gpu.starts_with("v100")) return 6.25;
  if (gpu.starts_with("a100")) return 25;
  if (gpu.starts_with("rtx")) return 1.25;  // 10 Gb/s
  if (gpu == "b300_sxm" || gpu == "gb300") return 100;
  return 50;
}

// The GPUs that NVLink joins: of an NVLink domain that reaches beyond a node, so many that all
// domains of the run have equally many.
std::int64_t joined_gpus(const row& source, std::int64_t gpus) {
  const std::int64_t in_node = std::max<std::int64_t>(1, source.integer_or("gpus_per_node", 8));
  std::int64_t most = in_node;
  if (const std::string_view domain = value_in(source.text("notes"), "nvlink_domain");
      !domain.empty())
    std::from_chars(domain.data(), domain.data() + domain.size(), most);
  std::int64_t joined = std::min(most, gpus);
  while (joined > in_node && gpus % joined != 0) --joined;
  return joined;
}

gpuplan::cluster read_cluster(const row& source, const gpuplan::gpu_spec& gpu) {
  const std::int64_t gpus = source.integer_or("gpus", 1);
  gpuplan::cluster on{.gpu = gpu, .gpus_per_node = joined_gpus(source, gpus)};
  on.nodes = std::max<std::int64_t>(1, gpus / on.gpus_per_node);
  const double adapter =
      source.number("inter_node_GBps_per_gpu")
          .value_or(usual_adapter(gpu.id, source.integer_or("gpus_per_node", 8)));
  if (on.nodes > 1)
    on.between_nodes =
        gpuplan::bandwidth::from_value(adapter * 1e9 * static_cast<double>(on.gpus_per_node));
  if (source.text("notes").find("without NVLink") != std::string_view::npos) on.gpu.peers = {};
  if (source.text("notes").find("EFA") != std::string_view::npos)
    on.network = gpuplan::network_kind::efa;
  if (source.text("notes").find("Omni-Path") != std::string_view::npos ||
      (source.blank("inter_node_GBps_per_gpu") &&
       is_jean_zay(gpu.id, source.integer_or("gpus_per_node", 8))))
    on.network = gpuplan::network_kind::omni_path;
  // A part with more and slower memory, limited in power (torchtitan's README of its benchmarks).
  const std::string_view variant = value_in(source.text("notes"), "gpu_variant");
  if (variant.starts_with("H100-9")) {
    on.gpu.memory_label_GB = 96;
    on.gpu.memory = {};
    on.gpu.memory_bandwidth = gpuplan::bandwidth::from_value(2.4e12);
    if (variant.find("500W") != std::string_view::npos)
      on.gpu.tdp = gpuplan::power::from_value(500);
  }
  return on;
}

// What the row leaves out, or which of its numbers do not fit together; blank where all do.
std::string gap_in(const row& source, const timed_run& run) {
  const gpuplan::parallelism& layout = run.setup.parallelism;
  if (source.blank("dp") && source.blank("tp")) return "its layout is not stated";
  const auto ranks = gpuplan::detail::checked_product(
      run.plan.data_parallel,
      layout.tensor_parallel,
      gpuplan::detail::checked_product(layout.pipeline_parallel, layout.context_parallel).value);
  if (!ranks.ok || ranks.value != total_gpus(run.on))
    return "its degrees of parallelism do not multiply to its GPUs";
  const auto batch = source.integer("global_batch");
  if (!batch && source.blank("grad_accum") && source.blank("tokens_per_s_per_gpu"))
    return "its batch is not stated";
  if (batch && run.plan.effective_batch() != *batch)
    return "micro-batch, accumulation and data-parallel size do not multiply to its batch";
  return {};
}

}  // namespace

timed_run describe_timed_run(const row& source) {
  timed_run run;
  const described_setup described = read_run(source);
  run.why_not = described.why_not;
  if (!run.why_not.empty()) return run;
  run.setup = described.setup;
  run.plan = described.plan;
  const auto gpu = gpuplan::catalog::find_gpu(source.text("gpu"));
  if (!gpu) {
    run.why_not = gpuplan::failure_text(gpu.why()).c_str();
    return run;
  }
  run.on = read_cluster(source, *gpu);
  if (const auto valid = validate(run.plan); !valid) {
    run.why_not = gpuplan::failure_text(valid.why()).c_str();
    return run;
  }
  run.why_not = gap_in(source, run);
  return run;
}

std::optional<double> measured_step(const row& source) {
  if (const auto step = source.number("step_s")) return step;
  const auto tokens = source.number("tokens_per_s_per_gpu");
  const auto batch = source.number("global_batch");
  const auto length = source.number("seq_len");
  const auto gpus = source.number("gpus");
  if (!tokens || !batch || !length || !gpus || *tokens <= 0 || *gpus <= 0) return {};
  return *batch * *length / (*tokens * *gpus);
}

std::optional<double> measured_step(const row& source, const timed_run& run) {
  if (const auto step = measured_step(source)) return step;
  const auto tokens = source.number("tokens_per_s_per_gpu");
  if (!tokens || *tokens <= 0 || !run.why_not.empty()) return {};
  const gpuplan::training_setup& setup = run.setup;
  return static_cast<double>(run.plan.effective_batch() * setup.sequence_length) /
         (*tokens * static_cast<double>(total_gpus(run.on)));
}

std::string cell_of(const row& source) {
  std::string cell;
  for (const std::string_view column : {"source", "gpu", "hidden", "seq_len", "tp", "micro_batch"})
    cell += std::string(source.text(column)) + '/';
  return cell;
}

bool is_unseen(const row& source) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char letter : cell_of(source))
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  return (hash >> 32) % 4 == 0;
}

}  // namespace accuracy
