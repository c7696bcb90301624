// What ranks of a layout exchange: bytes and seconds that are worked out by hand, for links whose
// rate alone counts, and by the collectives of their groups.

#include <gpuplan/catalog/framework_parts.hpp>
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/communication.hpp>
#include <gpuplan/time/communication.hpp>

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>

#include "check.hpp"
#include "imaginary_device.hpp"

using namespace gpuplan;
using detail::layout_communication;

namespace {

constexpr double layers_and_head = 1e9;  // parameters
constexpr parameter_counts dense{.embedding = std::int64_t{1'000'000'000}};

struct traffic {
  training_setup setup{.model = catalog::llama_3_8b,
                       .sequence_length = 4096,
                       .precision = bf16_pure,
                       .framework = catalog::megatron_core};
  cluster on{.gpu = catalog::a100_sxm4_80gb,
             .nodes = 8,
             .gpus_per_node = 8,
             .inside_node = 200_GBps,
             .between_nodes = 25_GBps};
  batch_plan plan{.micro_batch = 2, .data_parallel = 4};
  time_terms terms{};

  // What is made refers to this.
  layout_communication made() const&& = delete;
  layout_communication made() const& {
    layout_communication of(setup, on, terms);
    of.plan = plan;
    return of;
  }
};

bool near(double a, double b, double within = 1e-9) {
  return detail::abs(a - b) <= within * detail::abs(b);
}
double seconds_of(
    const traffic& of, collective what, double size, std::int64_t ranks, std::int64_t stride) {
  return collective_time(
             what, bytes::from_value(size), group_of(ranks, stride, 8), *interconnect_of(of.on))
      .value();
}

}  // namespace

TEST_CASE("bytes of the stream, of gradients, and of weights on their way") {
  traffic of;
  of.setup.parallelism = {.tensor_parallel = 4, .context_parallel = 2};
  const double stream = 2.0 * 4096 / 2 * 4096 * 2;
  CHECK(of.made().stream_bytes(false) == stream);
  // Megatron's ranks send each a part between stages, as DeepSpeed's do.
  CHECK(of.made().point_to_point_bytes() == stream / 4);
  of.setup.framework = catalog::megatron_deepspeed;
  CHECK(of.made().point_to_point_bytes() == stream / 4);
  of.setup.precision = fp32_precision;
  CHECK(of.made().stream_bytes(false) == 2 * stream);
  CHECK(of.made().gradient_bytes() == 4);
  of.setup.precision = bf16_mixed;
  of.setup.precision.fp32_gradients = false;
  of.setup.precision.reduced = number_format::bf16;
  for (const int zero : {0, 1, 2, 3}) {
    of.setup.parallelism.zero_stage = zero;
    CHECK(of.made().gradient_bytes() == (zero >= 2 ? 2 : 4));
  }
  of.setup.precision.fp32_gradients = true;
  CHECK(of.made().gradient_bytes() == 4);

  CHECK(of.made().gathered_bytes() == 2);
  of.setup.trains.what = training::adapters;
  CHECK(of.made().gathered_bytes() == 2);
  of.setup.trains.adapters.base = {.block = 64};
  CHECK(of.made().gathered_bytes() == 0.5 + 4.0 / 64);
  of.setup.trains.adapters.base.scale_block = 256;
  CHECK(of.made().gathered_bytes() == 0.5 + 1.0 / 64);
  of.setup.trains.what = training::full;
  CHECK(of.made().gathered_bytes() == 2);
}

TEST_CASE("ranks that share, in a group of them or all") {
  traffic of;
  of.setup.parallelism = {.tensor_parallel = 2, .context_parallel = 2, .zero_stage = 3};
  CHECK(of.made().replicas() == 8);
  CHECK(of.made().sharing_ranks() == 8);
  CHECK(near(of.made().sharing_time(1e9), seconds_of(of, collective::all_gather, 1e9, 8, 2)));
  CHECK(near(of.made().scatter_time(1e9), of.made().sharing_time(1e9)));
  of.setup.parallelism.shard_group = 2;
  // with those of the same context
  CHECK(of.made().sharing_ranks() == 4);
  CHECK(near(of.made().sharing_time(1e9), seconds_of(of, collective::all_gather, 1e9, 4, 2)));
  // Two such groups add up a quarter each.
  CHECK(near(of.made().scatter_time(1e9),
             of.made().sharing_time(1e9) + seconds_of(of, collective::all_reduce, 2.5e8, 2, 8)));
  // Of eight, seven parts are gathered, no faster than that.
  of.setup.parallelism.shard_group = 0;
  of.setup.framework.costs.gathered_at_most = 1_GBps;
  CHECK(near(of.made().sharing_time(1e9), 7.0 / 8));
  of.setup.framework.costs.gathered_at_most = 1000_GBps;
  CHECK(near(of.made().sharing_time(1e9), seconds_of(of, collective::all_gather, 1e9, 8, 2)));
}

TEST_CASE("experts have replicas of their own") {
  traffic of;
  of.plan.data_parallel = 8;
  parameter_counts held = dense;
  for (const std::int64_t tensor : {1, 2})
    for (const std::int64_t expert : {1, 2, 8, 32}) {
      of.setup.parallelism = {.tensor_parallel = tensor, .expert_parallel = expert};
      const std::int64_t replicas = std::max<std::int64_t>(1, 8 * tensor / expert);
      CHECK(of.made().expert_replicas() == replicas);
      held.experts = 3'000'000'000;
      held.embedding = 1'000'000'000;
      CHECK(near(
          of.made().of_all(collective::all_reduce, held, 2),
          seconds_of(of, collective::all_reduce, 2e9, 8, tensor) +
              (replicas == 1 ? 0 : seconds_of(of, collective::all_reduce, 6e9, replicas, expert))));
    }
}

TEST_CASE("experts in parts have fewer replicas, and routings gather what ranks with parts have") {
  traffic of;
  of.setup.model.moe = {.num_experts = 8, .num_experts_per_tok = 2, .moe_intermediate_size = 64};
  of.plan.data_parallel = 8;
  of.setup.parallelism = {.tensor_parallel = 4, .expert_parallel = 4, .expert_tensor_parallel = 2};
  CHECK(of.made().expert_replicas() == 4);
  parameter_counts held = dense;
  held.experts = 3'000'000'000;
  held.embedding = 1'000'000'000;
  CHECK(near(of.made().of_all(collective::all_reduce, held, 2),
             seconds_of(of, collective::all_reduce, 2e9, 8, 4) +
                 seconds_of(of, collective::all_reduce, 6e9, 4, 8)));
  const double sent = of.made().routed_bytes(false);
  CHECK(near(of.made().routing_time(false), seconds_of(of, collective::all_to_all, sent, 4, 2)));
  CHECK(near(of.made().parts_time(false), seconds_of(of, collective::all_gather, 2 * sent, 2, 1)));
  of.setup.parallelism.expert_tensor_parallel = 1;
  CHECK(of.made().parts_time(false) == 0);
  CHECK(near(of.made().routing_time(false), seconds_of(of, collective::all_to_all, sent, 4, 1)));
}

TEST_CASE("one rank alone exchanges nothing, nor do many that have nothing") {
  const traffic of;
  const layout_communication made = of.made();
  for (const collective what : {collective::all_reduce, collective::all_to_all}) {
    CHECK(made.seconds(what, 1e9, 1, 1) == 0);
    CHECK(made.latency(what, 1e9, 1, 1) == 0);
    CHECK(made.seconds(what, 0, 8, 1) == 0);
    CHECK(made.latency(what, 0, 8, 1) == 0);
    CHECK(made.seconds(what, 1, 8, 1) > 0);
    CHECK(made.seconds(what, 1e9, 2, 1) > 0);
  }
}

TEST_CASE("latency is what a message takes beside its bytes") {
  traffic of;
  const layout_communication made = of.made();
  for (const auto& [ranks, stride] :
       {std::pair{8, 1}, std::pair{2, 1}, std::pair{4, 8}, std::pair{16, 1}}) {
    const double latency = made.latency(collective::all_gather, 1e9, ranks, stride);
    CHECK(latency > 0);
    CHECK(latency < 0.1 * made.seconds(collective::all_gather, 1e9, ranks, stride));
    CHECK(made.latency(collective::all_gather, 1, ranks, stride) == latency);
    CHECK(near(made.seconds(collective::all_gather, 1, ranks, stride), latency, 1e-3));
    // Links twice as fast, and then latencies half as long.
    layout_communication faster = made;
    faster.improve(2, 2, 1);
    CHECK(faster.latency(collective::all_gather, 1e9, ranks, stride) == latency);
    CHECK(faster.seconds(collective::all_gather, 1e9, ranks, stride) <
          0.6 * made.seconds(collective::all_gather, 1e9, ranks, stride));
    faster.improve(1, 1, 2);
    CHECK(near(faster.latency(collective::all_gather, 1e9, ranks, stride), latency / 2));
  }
  of.terms.latency = false;
  CHECK(of.made().latency(collective::all_gather, 1e9, 8, 1) == 0);
}

TEST_CASE(
    "measured all-reduces of a device are taken in its node, with better links and latencies") {
  traffic of;
  of.on.gpu = *measured_as(imaginary_device::imaginary, imaginary_device::in_full);
  layout_communication made = of.made();
  // 8 took 30 us and 120 GB/s; 4 were not measured, nor were other collectives or nodes.
  CHECK(near(made.seconds(collective::all_reduce, 1.2e9, 8, 1), 30e-6 + 0.01));
  CHECK(near(made.latency(collective::all_reduce, 1.2e9, 8, 1), 30e-6));
  CHECK(near(made.seconds(collective::all_reduce, 1e9, 2, 1), 20e-6 + 0.005));
  for (const auto& [what, ranks, stride] : {std::tuple{collective::all_reduce, 4, 1},
                                            std::tuple{collective::all_gather, 8, 1},
                                            std::tuple{collective::all_reduce, 8, 8}})
    CHECK(near(made.seconds(what, 1e9, ranks, stride), seconds_of(of, what, 1e9, ranks, stride)));
  made.improve(3, 5, 2);
  CHECK(near(made.seconds(collective::all_reduce, 1.2e9, 8, 1), 15e-6 + 0.01 / 3));
  CHECK(near(made.latency(collective::all_reduce, 1.2e9, 8, 1), 15e-6));
}

TEST_CASE("the link that bounds a group is the slower one of those it has") {
  traffic of;
  const auto is_between = [&](std::int64_t ranks, std::int64_t stride) {
    return of.made().is_between_nodes(collective::all_reduce, 1e9, ranks, stride);
  };
  CHECK(!is_between(8, 1));
  CHECK(is_between(16, 1));
  CHECK(is_between(2, 8));
  of.on.between_nodes = 10'000_GBps;
  CHECK(!is_between(16, 1));
}

TEST_CASE("stages are in several nodes where their ranks are more than a node's") {
  traffic of;
  of.setup.parallelism = {.tensor_parallel = 2, .context_parallel = 2};
  for (const auto& [data, stages, crosses] : {std::tuple{1, 2, false},
                                              std::tuple{2, 1, false},
                                              std::tuple{4, 1, false},
                                              std::tuple{1, 3, true},
                                              std::tuple{2, 2, true}}) {
    of.plan.data_parallel = data;
    CAPTURE(stages);
    CHECK(of.made().stages_cross_nodes(stages) == crosses);
    CHECK(of.made().ranks_of_stage() == 4 * data);
  }
}

TEST_CASE("a ring is as long as its messages where attention takes no time, and hidden behind it") {
  traffic of;
  for (const std::int64_t ranks : {1, 2, 4}) {
    of.setup.parallelism.context_parallel = ranks;
    of.setup.framework.costs.contention = 0;
    const auto others = static_cast<double>(ranks - 1);
    const double passed_on = 1e9 * others;
    CHECK(near(of.made().ring_time(0, passed_on),
               ranks == 1 ? 0 : others * seconds_of(of, collective::send, 1e9, ranks, 1)));
    CHECK(of.made().ring_time(1000, passed_on) <= 1e-9);
    of.setup.framework.costs.contention = 0.5;
    CHECK((of.made().ring_time(1000, passed_on) > 1e-6) == (ranks > 1));
  }
}

TEST_CASE("buckets hold all, and the last one what is left") {
  traffic of;
  of.terms.latency = of.terms.contention = false;
  for (const framework* software :
       {&catalog::megatron_core, &catalog::megatron_deepspeed, &catalog::torch_gpt}) {
    of.setup.framework = *software;
    const double each = of.made().gradient_bytes();
    const double bucket = software == &catalog::megatron_core ? 40e6 * each
                          : software == &catalog::megatron_deepspeed
                              ? static_cast<double>(software->engine.zero.reduce_bucket) * each
                              : static_cast<double>(software->engine.bucket_bytes);
    const auto [buckets, share, last] = of.made().buckets_of(dense, each);
    CHECK(near(share, std::min(1.0, bucket / (layers_and_head * each))));
    CHECK((buckets - 1) * share < 1);
    CHECK(buckets * share >= 1 - 1e-9);
    CHECK(near((buckets - 1) * share + last, 1));
    // Beside no work all of it is waited for, beside much the last one.
    const double all = of.made().of_all(collective::all_reduce, dense, each);
    const auto exposed = [&](double work, double slowed) {
      return of.made().exposed_of_buckets(work, collective::all_reduce, dense, each, slowed);
    };
    CHECK(near(exposed(0, 1), all));
    CHECK(near(exposed(0, 3), 3 * all));
    CHECK(near(exposed(1e6, 1), last * all, 1e-3));
  }
  // A million elements for each of many ranks.
  of.setup.framework = catalog::megatron_core;
  of.plan.data_parallel = 100;
  CHECK(near(of.made().buckets_of(dense, of.made().gradient_bytes()).share, 0.1));
  of.plan.data_parallel = 1;
  CHECK(of.made().exposed_of_buckets(0, collective::all_reduce, dense, 2, 1) == 0);
}

TEST_CASE("what is beside all work shows where it is longer, and contends") {
  traffic of;
  of.setup.framework.costs.contention = 0.25;
  CHECK(of.made().exposed(2, 3) == 1 + 0.25 * 2);
  CHECK(of.made().exposed(3, 2) == 0.25 * 2);
  of.terms.contention = false;
  CHECK(of.made().exposed(2, 3) == 1);
  CHECK(of.made().exposed(3, 2) == 0);
}
