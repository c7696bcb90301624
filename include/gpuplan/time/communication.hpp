#pragma once

// What communication takes in a layout of a model: of its layers, between its stages, and of what
// its ranks share. Private.

#include <gpuplan/batch.hpp>
#include <gpuplan/cluster.hpp>
#include <gpuplan/communication.hpp>
#include <gpuplan/detail/math.hpp>
#include <gpuplan/framework.hpp>
#include <gpuplan/measured_device.hpp>
#include <gpuplan/parallelism.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/time/kernels.hpp>
#include <gpuplan/time/overlap.hpp>
#include <gpuplan/time/rates.hpp>
#include <gpuplan/training_setup.hpp>
#include <gpuplan/training_setup/dispatch.hpp>

#include <cstdint>

namespace gpuplan::detail {

// Refers to a setup; its ZeRO stage is the setup's until another is set. Seconds and bytes.
class layout_communication {
 public:
  constexpr layout_communication(const training_setup& setup,
                                 const cluster& on,
                                 const time_terms& terms)
      : setup_(setup),
        layout_(setup.parallelism),
        costs_(setup.framework.costs),
        links_(links_of(on, terms, setup.framework.costs.network_share)),
        on_(on),
        contention_(terms.contention ? setup.framework.costs.contention : 0) {}

  batch_plan plan{};

  constexpr void set_zero_stage(int stage) { layout_.zero_stage = stage; }

  static constexpr double count(std::int64_t value) { return static_cast<double>(value); }

  constexpr double contention() const { return contention_; }
  constexpr double element_bytes() const { return is_half(setup_.precision.compute) ? 2 : 4; }
  // The result of a sublayer.
  constexpr double stream_bytes(bool in_decoder) const {
    const double tokens = count(plan.micro_batch) * count(setup_.encodings) *
                          count(tokens_of_sequence(setup_, in_decoder)) /
                          count(layout_.context_parallel);
    return tokens * count(setup_.model.hidden_size) * element_bytes();
  }
  // What a rank sends of it to the experts: each token to as many as it uses, and what it pads;
  // by kernels that send it once, to as many ranks, or nodes, as have any of these.
  constexpr double routed_bytes(bool in_decoder) const {
    const expert_mixture& moe = setup_.model.moe;
    const std::int64_t ranks = layout_.expert_parallel;
    double copies = count(moe.num_experts_per_tok);
    if (setup_.dispatcher != token_dispatcher::all_to_all) {
      const std::int64_t nodes = group_of(ranks, 1, linked_gpus(on_)).nodes();
      copies = groups_reached(moe, nodes > 1 ? nodes : ranks);
    }
    const double narrowed =
        moe.moe_latent_size == 0 ? 1 : count(moe.moe_latent_size) / count(setup_.model.hidden_size);
    return stream_bytes(in_decoder) / count(layout_.tensor_parallel) * copies *
           setup_.expert_capacity * narrowed;
  }
  // Of one routing among the ranks that share the experts, each as many ranks after the one before
  // as have parts of the same experts.
  constexpr double routing_time(bool in_decoder) const {
    return seconds(collective::all_to_all,
                   routed_bytes(in_decoder),
                   layout_.expert_parallel,
                   layout_.expert_tensor_parallel);
  }
  // And among those with parts of the same, which gather all their rows, or add them up.
  constexpr double gathered_bytes_of_parts(bool in_decoder) const {
    return routed_bytes(in_decoder) * count(layout_.expert_tensor_parallel);
  }
  constexpr double parts_time(bool in_decoder) const {
    return seconds(collective::all_gather,
                   gathered_bytes_of_parts(in_decoder),
                   layout_.expert_tensor_parallel,
                   1);
  }
  // Of a weight that is gathered: frozen ones may be in four bits, with a scale for each block.
  constexpr double gathered_bytes() const {
    const quantised_base& base = setup_.trains.adapters.base;
    if (setup_.trains.what != training::adapters || base.block == 0) return element_bytes();
    return 0.5 + (base.scale_block != 0 ? 1.0 : 4.0) / count(base.block);
  }
  // Of one as its rank holds it: the scales of blocks are whole on each.
  constexpr double held_bytes() const {
    if (is_quantised(setup_.trains)) return 0.5;
    return bits_per_element(setup_.precision.weights) / 8.0;
  }
  // Of a gradient's element on its way.
  constexpr double gradient_bytes() const {
    const precision_recipe& recipe = setup_.precision;
    if (recipe.fp32_gradients) return 4;
    return bits_per_element(layout_.zero_stage >= 2 ? recipe.reduced : recipe.weights) / 8.0;
  }
  // Of a stage.
  constexpr std::int64_t replicas() const {
    return ranks_with_chunk(layout_) * plan.data_parallel * layout_.context_parallel;
  }
  constexpr std::int64_t sharing_ranks() const {
    return layout_.shard_group != 0 ? layout_.shard_group * layout_.context_parallel : replicas();
  }
  // Of one expert: experts lie within tensor, context and data parallelism.
  constexpr std::int64_t expert_replicas() const {
    const std::int64_t ranks = replicas() * layout_.tensor_parallel / ranks_of_experts(layout_);
    return ranks < 1 ? 1 : ranks;
  }

  // One collective among ranks of which each is `stride` ranks after the one before.
  constexpr double seconds(collective what,
                           double size,
                           std::int64_t ranks,
                           std::int64_t stride) const {
    if (ranks <= 1 || size <= 0) return 0;
    const device_group group = group_of(ranks, stride, linked_gpus(on_));
    if (what == collective::all_reduce && on_.gpu.measured && group.nodes() == 1)
      if (const auto measured = all_reduce_of(on_.gpu, ranks))
        return measured->latency.value() / shorter_latency_ +
               size / (measured->rate.value() * faster_inside_);
    return communication_of(what, links_, {group.ranks, group.per_node}).seconds(size);
  }
  // Of `seconds`, what does not grow with the size.
  constexpr double latency(collective what,
                           double size,
                           std::int64_t ranks,
                           std::int64_t stride) const {
    if (ranks <= 1 || size <= 0) return 0;
    const device_group group = group_of(ranks, stride, linked_gpus(on_));
    if (what == collective::all_reduce && on_.gpu.measured && group.nodes() == 1)
      if (const auto measured = all_reduce_of(on_.gpu, ranks))
        return measured->latency.value() / shorter_latency_;
    const communication found = communication_of(what, links_, {group.ranks, group.per_node});
    const bool by_other = found.has_other && found.other.seconds(size) < found.ring.seconds(size);
    return (by_other ? found.other : found.ring).latency;
  }
  // Whether links between nodes, and not those inside, bound its rate.
  constexpr bool is_between_nodes(collective what,
                                  double size,
                                  std::int64_t ranks,
                                  std::int64_t stride) const {
    if (group_of(ranks, stride, linked_gpus(on_)).nodes() == 1) return false;
    layout_communication inside = *this;
    layout_communication between = *this;
    inside.improve(2, 1, 1);
    between.improve(1, 2, 1);
    return between.seconds(what, size, ranks, stride) <= inside.seconds(what, size, ranks, stride);
  }
  // Links that are so many times as fast, and latencies that are so many times shorter.
  constexpr void improve(double inside, double between, double latency) {
    links_.inside.rate *= inside;
    links_.inside.in_switch *= inside;
    links_.between.rate *= between;
    links_.launch /= latency;
    links_.inside.hop /= latency;
    links_.between.hop /= latency;
    faster_inside_ *= inside;
    shorter_latency_ *= latency;
  }
  // To gather what ranks share, or to add it up in shares.
  constexpr double sharing_time(double size) const {
    const std::int64_t ranks = sharing_ranks();
    const double time = seconds(collective::all_gather, size, ranks, layout_.tensor_parallel);
    const double most = costs_.gathered_at_most.value();
    return most > 0 ? larger_of(time, size * count(ranks - 1) / count(ranks) / most) : time;
  }
  // Likewise of gradients, which groups of such ranks add up among each other (hybrid shard).
  constexpr double scatter_time(double size) const {
    const std::int64_t ranks = sharing_ranks();
    return sharing_time(size) + seconds(collective::all_reduce,
                                        size / count(ranks),
                                        replicas() / ranks,
                                        layout_.tensor_parallel * ranks);
  }
  // Ranks of Megatron's and DeepSpeed's stages send each a part of the stream, and gather it where
  // it arrives.
  constexpr double point_to_point_bytes() const {
    return larger_of(stream_bytes(false), stream_bytes(true)) / count(layout_.tensor_parallel);
  }
  constexpr std::int64_t ranks_of_stage() const {
    return layout_.tensor_parallel * layout_.context_parallel * plan.data_parallel;
  }
  constexpr double point_to_point_time() const {
    return seconds(collective::send, point_to_point_bytes(), 2, ranks_of_stage());
  }
  // Whether the layout's stages are in several nodes.
  constexpr bool stages_cross_nodes(std::int64_t stages) const {
    const std::int64_t ranks =
        layout_.tensor_parallel * layout_.context_parallel * plan.data_parallel * stages;
    return stages > 1 && ranks > linked_gpus(on_);
  }
  // A ring of context parallelism, beside attention in as many parts.
  constexpr double ring_time(double attention, double passed_on) const {
    const std::int64_t ranks = layout_.context_parallel;
    if (ranks == 1) return 0;
    const double send =
        seconds(collective::send, passed_on / count(ranks - 1), ranks, layout_.tensor_parallel);
    // parts of attention add up to it but for rounding
    return larger_of(0, ring_pass(ranks, attention / count(ranks), send, contention_) - attention);
  }
  // So many all-to-alls of context-parallel ranks, to which one gives so many bytes.
  constexpr double exchange_time(double exchanges, double bytes) const {
    if (exchanges == 0) return 0;
    return exchanges * seconds(collective::all_to_all,
                               bytes / exchanges,
                               layout_.context_parallel,
                               layout_.tensor_parallel);
  }
  // Of gradients, or of weights that ranks share: `each` bytes of all that a rank holds.
  constexpr double of_all(collective what, const parameter_counts& held, double each) const {
    const double experts = count(held.experts);
    const double others = count(held.total()) - experts;
    return seconds(what, others * each, replicas(), layout_.tensor_parallel) +
           seconds(what, experts * each, expert_replicas(), ranks_of_experts(layout_));
  }
  // Buckets of gradients, or of weights: their number, and what share of all one is, and the last.
  struct bucket_shares {
    double buckets, share, last;
  };
  constexpr bucket_shares buckets_of(const parameter_counts& held, double each) const {
    const double share = smaller_of(1, bucket_bytes() / (count(held.total()) * each));
    const double buckets = ceil(1 / share);
    return {buckets, share, 1 - (buckets - 1) * share};
  }
  // How much longer `work` takes with such a collective beside it, bucket by bucket, which takes
  // `slowed` times as long as links say.
  constexpr double exposed_of_buckets(double work,
                                      collective what,
                                      const parameter_counts& held,
                                      double each,
                                      double slowed) const {
    const auto [buckets, share, last] = buckets_of(held, each);
    const auto communication = [&](double part) {
      return slowed * of_all(what, held, part * each);
    };
    const double of_bucket = communication(share);
    if (of_bucket == 0) return 0;
    const double beside = bucketed({static_cast<std::int64_t>(buckets),
                                    share * work,
                                    of_bucket,
                                    last * work,
                                    communication(last),
                                    contention_});
    return larger_of(0, beside - work);  // shares of the work add up to it but for rounding
  }
  // Likewise beside all of it.
  constexpr double exposed(double work, double communication) const {
    return larger_of(0, communication - work) + contention_ * smaller_of(work, communication);
  }

 private:
  const training_setup& setup_;
  parallelism layout_;
  const software_costs& costs_;
  interconnect_numbers links_;
  const cluster& on_;
  double contention_;
  double faster_inside_ = 1;
  double shorter_latency_ = 1;

  static constexpr interconnect_numbers links_of(const cluster& on,
                                                 const time_terms& terms,
                                                 double network_share) {
    const auto links = interconnect_of(on);
    if (!links) return {};  // of a device alone
    interconnect_numbers numbers = numbers_of(*links);
    numbers.between.rate *= network_share;
    if (terms.latency) return numbers;
    numbers.launch = 0;
    for (link_numbers* link : {&numbers.inside, &numbers.between}) link->hop = link->ramp = 0;
    return numbers;
  }
  // DistributedDataParallel's are of bytes, DeepSpeed's of elements, and so are Megatron-Core's: 40
  // million, or a million for each rank.
  constexpr double bucket_bytes() const {
    const engine& engine = setup_.framework.engine;
    switch (engine.is->buckets) {
      case bucket_unit::of_elements:
        return count(engine.zero.reduce_bucket) * gradient_bytes();
      case bucket_unit::of_ranks:
        return larger_of(40e6, 1e6 * count(replicas())) * gradient_bytes();
      case bucket_unit::of_bytes:
        break;
    }
    return count(engine.bucket_bytes);
  }
};

}  // namespace gpuplan::detail
