#pragma once

// What the dispatchers of Megatron-Core's flex send and hold, as their public source says: DeepEP's
// csrc/config.hpp and deep_ep/buffer.py, and its branch hybrid-ep, csrc/hybrid_ep/buffer. Private.

#include <gpuplan/training_setup/description.hpp>

#include <cstdint>

namespace gpuplan::detail {

// A domain of NVLink, of both: NUM_MAX_NVL_PEERS, NUM_OF_RANKS_PER_NVLINK_DOMAIN's default.
inline constexpr std::int64_t nvlink_peers = 8;

[[nodiscard]] constexpr std::int64_t nodes_of_experts(std::int64_t ranks) {
  return ranks > nvlink_peers ? ranks / nvlink_peers : 1;
}

// To how many of these groups of experts a token goes that chooses them evenly.
[[nodiscard]] constexpr double groups_reached(const expert_mixture& moe, std::int64_t groups) {
  const auto experts = static_cast<double>(moe.num_experts);
  const double others = experts - experts / static_cast<double>(groups);
  double missed = 1;  // no expert of a group
  for (std::int64_t choice = 0; choice < moe.num_experts_per_tok; ++choice) {
    const auto gone = static_cast<double>(choice);
    missed *= others > gone ? (others - gone) / (experts - gone) : 0;
  }
  return static_cast<double>(groups) * (1 - missed);
}

// How many tokens at once wait for a rank, by its peers of NVLink and by nodes: the larger of
// dispatch and combine, whole multiples of what is sent at once.
struct deepep_queue {
  std::int64_t ranks = 0;
  std::int64_t inside = 0;
  std::int64_t between = 0;
};
inline constexpr deepep_queue deepep_queues[] = {{2, 256, 0},
                                                 {4, 256, 0},
                                                 {8, 256, 0},
                                                 {16, 288, 140},
                                                 {24, 288, 128},
                                                 {32, 288, 128},
                                                 {64, 288, 140},
                                                 {128, 560, 132},
                                                 {144, 720, 132},
                                                 {160, 720, 132}};
inline constexpr std::int64_t deepep_channels = 10;  // two of moe_deepep_num_sms, 20, each

// That for so many ranks, or nothing.
[[nodiscard]] constexpr deepep_queue deepep_queue_of(std::int64_t ranks) {
  for (const deepep_queue& one : deepep_queues)
    if (one.ranks == ranks) return one;
  return {};
}

// get_nvl_buffer_size_hint and get_rdma_buffer_size_hint; NVSHMEM takes the latter from pieces of
// 512 MiB.
[[nodiscard]] constexpr double deepep_buffers(double hidden_bytes, std::int64_t ranks) {
  const deepep_queue queue = deepep_queue_of(ranks);
  const auto nodes = static_cast<double>(nodes_of_experts(ranks));
  const auto peers = static_cast<double>(ranks < nvlink_peers ? ranks : nvlink_peers);
  constexpr auto channels = static_cast<double>(deepep_channels);
  constexpr double beside = 8 + 128 * (8 + 4 + 4);  // a source, and 128 choices and scales
  const double inside =
      channels * peers *
      ((2 * nodes + 3) * 4 + static_cast<double>(queue.inside) * (hidden_bytes + beside));
  if (ranks <= nvlink_peers) return inside;
  const double between =
      channels * nodes *
          (2 * 4 * (2 * nvlink_peers + 2) +
           2 * static_cast<double>(queue.between) * (hidden_bytes + beside + 16)) +
      1048576;
  constexpr double piece = 512.0 * 1048576;
  const double pieces = between / piece;
  const auto whole = static_cast<std::int64_t>(pieces);
  return inside +
         piece * static_cast<double>(static_cast<double>(whole) < pieces ? whole + 1 : whole);
}

// HybridEPBuffer has room for no fewer tokens of a rank.
[[nodiscard]] constexpr double at_least_held(double tokens) { return tokens < 512 ? 512 : tokens; }

// Room for all tokens of all ranks, should they go to one, in bf16, with what each expert of the
// domain weighs them and a scale of 128 elements; across nodes what a rank sends there and gets
// from there, both ways.
[[nodiscard]] constexpr double hybridep_buffers(double width,
                                                double tokens,
                                                std::int64_t experts,
                                                std::int64_t ranks) {
  const auto nodes = static_cast<double>(nodes_of_experts(ranks));
  const double of_rank = at_least_held(tokens);
  const double in_domain = static_cast<double>(experts) / nodes;
  const double scales = width / 128;
  const double row = 2 * width + 4 * in_domain;
  double held = of_rank * static_cast<double>(ranks) * (row + 4 * scales);
  if (nodes > 1)
    held += of_rank * (2 * width + 4 * static_cast<double>(experts) + 4 * scales) +
            of_rank * (nodes - 1) * (3 * row + 4 * scales);
  return held;
}

// Tokens of a rank that are to be sent.
[[nodiscard]] constexpr double sent_tokens(const training_setup& setup, std::int64_t micro_batch) {
  return static_cast<double>(micro_batch) * static_cast<double>(setup.encodings) *
         static_cast<double>(tokens_of_sequence(setup, false)) /
         static_cast<double>(setup.parallelism.context_parallel) /
         static_cast<double>(setup.parallelism.tensor_parallel);
}

// What a dispatcher holds beside PyTorch's allocator.
[[nodiscard]] constexpr double dispatch_buffers(const training_setup& setup,
                                                std::int64_t micro_batch) {
  const expert_mixture& moe = setup.model.moe;
  const std::int64_t ranks = setup.parallelism.expert_parallel;
  const auto width =
      static_cast<double>(moe.moe_latent_size != 0 ? moe.moe_latent_size : setup.model.hidden_size);
  switch (setup.dispatcher) {
    case token_dispatcher::deepep:
      return deepep_buffers(width * (is_half(setup.precision.compute) ? 2 : 4), ranks);
    case token_dispatcher::hybridep:
      return hybridep_buffers(width, sent_tokens(setup, micro_batch), moe.num_experts, ranks);
    default:
      return 0;
  }
}

// The same of any micro-batch, without the setup.
struct dispatch_line {
  double fixed = 0;
  double of_token = 0;
  double sample = 0;  // tokens

  constexpr dispatch_line() = default;
  constexpr explicit dispatch_line(const training_setup& setup) : sample(sent_tokens(setup, 1)) {
    const double one = dispatch_buffers(setup, 1);
    if (setup.dispatcher == token_dispatcher::hybridep)
      of_token = one / at_least_held(sample);
    else
      fixed = one;
  }
  [[nodiscard]] constexpr double bytes_for(std::int64_t micro_batch) const {
    return fixed + of_token * at_least_held(sample * static_cast<double>(micro_batch));
  }
};

}  // namespace gpuplan::detail
