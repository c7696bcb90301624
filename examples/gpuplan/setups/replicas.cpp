#include "setups/replicas.hpp"

#include <gpuplan/detail/integer.hpp>
#include <gpuplan/io/trainer/configured_training.hpp>
#include <gpuplan/parallelism.hpp>

#include <cstdint>
#include <string>

#include "guides/front_end.hpp"
#include "setups/numbers.hpp"

namespace setups {
namespace {

using namespace gpuplan;
using guides::bad_request;

// "4 or 8": the multiples of `of` around a number.
std::string multiples_around(std::int64_t number, std::int64_t of) {
  const std::int64_t below = number / of * of;
  return (below > 0 ? grouped(below) + " or " : "") + grouped(below + of);
}

// The samples of a step that files say, unless their own parts of it make another number.
known<std::int64_t> batch_of_files(const io::training_config& said) {
  if (!said.global_batch || !said.accumulation) return said.global_batch;
  const parallelism layout = io::layout_of(said);
  const auto ranks = detail::checked_product(
      layout.tensor_parallel, layout.pipeline_parallel, layout.context_parallel);
  if (!ranks.ok) return {};
  const io::said_gpus gpus = io::gpus_of(said, ranks.value);
  if (!gpus.count) return {};
  const auto samples = detail::checked_product(
      *gpus.count / ranks.value, said.micro_batch ? *said.micro_batch : 1, *said.accumulation);
  return samples.ok && samples.value == *said.global_batch ? said.global_batch
                                                           : known<std::int64_t>{};
}

}  // namespace

std::int64_t gpus_of_replica(const arguments& given) {
  const parallelism& layout = given.setup.parallelism;
  const auto gpus = detail::checked_product(
      layout.tensor_parallel, layout.pipeline_parallel, layout.context_parallel);
  constexpr std::int64_t most = std::int64_t{1} << 20;
  if (!gpus.ok || gpus.value > most)
    throw bad_request("--tensor-parallel " + std::to_string(layout.tensor_parallel) +
                      ", --pipeline-parallel " + std::to_string(layout.pipeline_parallel) +
                      " and --context-parallel " + std::to_string(layout.context_parallel) +
                      " make more than " + std::to_string(most) + " GPUs");
  return gpus.value;
}

std::int64_t gpus_of_files(const arguments& given) {
  const io::said_gpus said = io::gpus_of(given.files.config, gpus_of_replica(given));
  if (!said.why.empty()) throw bad_request("--from: " + said.why);
  return said.count ? *said.count : 0;
}

std::int64_t gpus_of(const arguments& given) {
  const std::int64_t said = given.has_replicas ? 0 : gpus_of_files(given);
  return said != 0 ? said : gpus_of_replica(given) * given.plan.data_parallel;
}

std::int64_t gpus_per_node_of(const io::training_config& said) {
  if (said.gpus_per_node) return *said.gpus_per_node;
  return said.gpus && said.nodes && *said.gpus % *said.nodes == 0 ? *said.gpus / *said.nodes : 0;
}

arguments on_gpus(arguments given, std::int64_t gpus, std::int64_t batch) {
  const std::int64_t in_replica = gpus_of_replica(given);
  if (gpus % in_replica != 0)
    throw bad_request("--gpus " + std::to_string(gpus) + ": a replica of the model has " +
                      std::to_string(in_replica) +
                      " by its tensor, pipeline and context degrees, so " +
                      multiples_around(gpus, in_replica) + " are taken");
  const std::int64_t replicas = gpus / in_replica;
  if (given.has_replicas && given.plan.data_parallel != replicas)
    throw bad_request("--data-parallel " + std::to_string(given.plan.data_parallel) + ": " +
                      std::to_string(gpus) + " GPUs are " + std::to_string(replicas) +
                      (replicas == 1 ? " replica" : " replicas") + " of " +
                      std::to_string(in_replica));
  given.plan.data_parallel = replicas;
  const io::training_config& said = given.files.config;
  if (said.shard_group && *said.shard_group < replicas)
    given.setup.parallelism.shard_group = *said.shard_group;
  // As DeepSpeed shares train_batch_size out
  const auto others = detail::checked_product(replicas, given.plan.accumulation);
  const bool is_shared = batch == 0 && said.global_batch && !said.micro_batch &&
                         !given.has_micro_batch && said.engine == "deepspeed" && others.ok;
  if (is_shared && *said.global_batch % others.value == 0) {
    given.plan.micro_batch = *said.global_batch / others.value;
    return given;
  }
  if (batch == 0) {
    const known<std::int64_t> of_files = batch_of_files(said);
    if (!of_files) return given;
    batch = *of_files;
  }
  const auto at_once = detail::checked_product(replicas, given.plan.micro_batch);
  const std::string parts = "--batch " + std::to_string(batch) + ": " + grouped(replicas) +
                            (replicas == 1 ? " replica" : " replicas") + " with a micro-batch of " +
                            grouped(given.plan.micro_batch) + " make ";
  if (!at_once.ok) throw bad_request(parts + "more than fit into 64 bits");
  if (batch % at_once.value != 0)
    throw bad_request(parts + multiples_around(batch, at_once.value) +
                      "; gpuplan batch finds other micro-batches");
  given.plan.accumulation = batch / at_once.value;
  return given;
}

}  // namespace setups
