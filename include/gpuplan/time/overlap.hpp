#pragma once

// What kernels and collectives take together where they run side by side. Kernels follow one
// another on one stream and collectives on another; each waits for what it needs, and each second
// in which both run takes 1 + `contention` seconds. All closed forms here are exact for that: event
// simulations of thousands of random cases agree to 1e-12 (tests/run_time/overlap_schedules.cpp).

#include <gpuplan/detail/math.hpp>
#include <gpuplan/units.hpp>

#include <cstdint>

namespace gpuplan {
namespace detail {

// In plain seconds: kernels on one stream and collectives on another.

// What two streams take where each second in which both run takes 1 + contention, if without that
// they take `alone`. One of them always runs, so both do for kernels + communication - alone.
[[nodiscard]] constexpr double contended(double alone,
                                         double kernels,
                                         double communication,
                                         double contention) {
  return alone + contention * (kernels + communication - alone);
}

// Gradients in buckets of equal bytes but the last, whose backward is in proportion.
struct bucket_seconds {
  std::int64_t buckets = 1;
  double backward = 0;       // of a whole bucket's layers
  double communication = 0;  // of a whole bucket
  double last_backward = 0;  // of the last bucket
  double last_communication = 0;
  double contention = 0;
};

// From the start of backward to the end of the last bucket's communication. Bucket k is ready after
// k backwards, and those from it on follow one another: the longest of such paths begins at the
// first, the last or the one before.
[[nodiscard]] constexpr double bucketed(const bucket_seconds& given) {
  const auto whole = static_cast<double>(given.buckets - 1);
  const double kernels = whole * given.backward + given.last_backward;
  const double communication = whole * given.communication + given.last_communication;
  double alone = kernels + given.last_communication;
  if (given.buckets > 1) {
    alone = larger_of(alone, given.backward + communication);
    alone =
        larger_of(alone, whole * given.backward + given.communication + given.last_communication);
  }
  return contended(alone, kernels, communication, given.contention);
}

// Like layers whose weights ranks share. One collective at a time; the next layer's weights are
// gathered before this one's gradients are reduced.
struct sharded_seconds {
  std::int64_t layers = 1;
  double kernels = 0;  // of one layer's pass
  double gather = 0;   // of one layer's weights
  double reduce = 0;   // of one layer's gradients; 0 in the forward pass
  double contention = 0;
  bool first_is_there = false;  // no gather for the first layer: backward's, where it is kept
};

[[nodiscard]] constexpr double sharded_pass(const sharded_seconds& given) {
  const auto n = static_cast<double>(given.layers);
  const double first = given.first_is_there ? 0 : given.gather;
  const double kernels = n * given.kernels;
  const double communication = first + (n - 1) * given.gather + n * given.reduce;
  double alone = first + kernels + given.reduce;
  if (given.layers > 1)
    alone = larger_of(alone,
                      first + larger_of(given.gather, given.kernels) +
                          (n - 2) * (given.gather + given.reduce) +
                          larger_of(given.kernels, given.reduce) + given.reduce);
  return contended(alone, kernels, communication, given.contention);
}

// A ring in which each of `steps` kernels needs what arrived while the one before ran: attention of
// context parallelism.
[[nodiscard]] constexpr double ring_pass(std::int64_t steps,
                                         double kernel,
                                         double send,
                                         double contention) {
  const auto others = static_cast<double>(steps - 1);
  const double alone = kernel + others * larger_of(kernel, send);
  return contended(alone, (others + 1) * kernel, others * send, contention);
}

}  // namespace detail

/// A backward pass whose gradients are reduced in buckets as they come.
struct bucketed_backward {
  std::int64_t buckets = 1;
  duration backward{};       // of the layers of one whole bucket
  duration communication{};  // of one whole bucket
  duration last_backward{};  // of the last bucket, which need not be full
  duration last_communication{};
  double contention = 0;
};

/// From the start of backward to the end of the last bucket's communication. With n buckets of b
/// backward and c exchange all: max(n b + c, b + n c), without contention. Preconditions: at least
/// one bucket; the last one's times are not above the others'; nothing negative.
[[nodiscard]] constexpr duration overlapped_time(const bucketed_backward& given) {
  return duration::from_value(detail::bucketed({given.buckets,
                                                given.backward.value(),
                                                given.communication.value(),
                                                given.last_backward.value(),
                                                given.last_communication.value(),
                                                given.contention}));
}

/// A forward or backward pass through like layers whose weights ranks share (ZeRO-3, FSDP): weights
/// of the next layer are gathered while one is computed, and gradients of the one before reduced.
struct sharded_layers {
  std::int64_t layers = 1;
  duration kernels{};  // of one layer
  duration gather{};   // of its weights
  duration reduce{};   // of its gradients; none in the forward pass
  double contention = 0;
  bool first_is_there = false;  // its weights were kept: backward's first layer
};

/// From the first gather to the last reduction. With n layers of k kernels, g gather and r
/// reduction the longer of g + n k + r and g + max(g, k) + (n - 2) (g + r) + max(k, r) + r, without
/// contention. Preconditions: at least one layer; nothing negative.
[[nodiscard]] constexpr duration overlapped_time(const sharded_layers& given) {
  return duration::from_value(detail::sharded_pass({given.layers,
                                                    given.kernels.value(),
                                                    given.gather.value(),
                                                    given.reduce.value(),
                                                    given.contention,
                                                    given.first_is_there}));
}

/// Attention in a ring of ranks that have parts of a sequence (context parallelism): each kernel on
/// one part while the next arrives.
struct attention_ring {
  std::int64_t ranks = 1;
  duration kernel{};  // on one part
  duration send{};    // of one part
  double contention = 0;
};

/// From the first kernel to the last: k + (n - 1) max(k, s), without contention. Preconditions: at
/// least one rank; nothing negative.
[[nodiscard]] constexpr duration overlapped_time(const attention_ring& given) {
  return duration::from_value(
      detail::ring_pass(given.ranks, given.kernel.value(), given.send.value(), given.contention));
}

}  // namespace gpuplan
