#pragma once

// Kernels on one stream and collectives on another, in plain seconds: closed forms of what both
// take. Private.

#include <gpuplan/detail/pipeline.hpp>

#include <cstdint>

namespace gpuplan::detail {

// What two streams take where each second in which both run takes 1 + contention, if without that
// they take `alone`. One of them always runs, so both do for kernels + exchanges - alone.
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

// From the start of backward to the end of the last exchange. Bucket k is ready after k backwards,
// and those from it on follow one another: the longest of such paths begins at the first, the last
// or the one before.
[[nodiscard]] constexpr double bucketed(const bucket_seconds& given) {
  const auto whole = static_cast<double>(given.buckets - 1);
  const double kernels = whole * given.backward + given.last_backward;
  const double communication = whole * given.communication + given.last_communication;
  double alone = kernels + given.last_communication;
  if (given.buckets > 1) {
    alone = longer_of(alone, given.backward + communication);
    alone =
        longer_of(alone, whole * given.backward + given.communication + given.last_communication);
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
    alone = longer_of(alone,
                      first + longer_of(given.gather, given.kernels) +
                          (n - 2) * (given.gather + given.reduce) +
                          longer_of(given.kernels, given.reduce) + given.reduce);
  return contended(alone, kernels, communication, given.contention);
}

// A ring in which each of `steps` kernels needs what arrived while the one before ran: attention of
// context parallelism.
[[nodiscard]] constexpr double ring_pass(std::int64_t steps,
                                         double kernel,
                                         double send,
                                         double contention) {
  const auto others = static_cast<double>(steps - 1);
  const double alone = kernel + others * longer_of(kernel, send);
  return contended(alone, (others + 1) * kernel, others * send, contention);
}

}  // namespace gpuplan::detail
