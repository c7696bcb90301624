#pragma once

// What is trained, and how: all but the batch.

#include <gpuplan/framework.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/optimizer.hpp>
#include <gpuplan/parallelism.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/trainable.hpp>

#include <cstdint>

namespace gpuplan {

/// What computes softmax(query x key) x value.
enum class attention_kernel {
  automatic,   // as PyTorch chooses: flash where it can, else efficient
  flash,       // FlashAttention-2
  efficient,   // xFormers' memory-efficient attention
  math,        // PyTorch's own products, in fp32
  written_out  // the model's own products
};

struct training_setup {
  transformer model{};
  trainable trains{};
  std::int64_t sequence_length = 0;  // vision: the image's own
  std::int64_t target_length = 0;    // of an encoder-decoder's decoder; 0: the same
  std::int64_t encodings = 1;        // texts of a sample, of one graph
  precision_recipe precision{};
  gpuplan::optimizer optimizer{};
  gpuplan::parallelism parallelism{};
  model_rank place{};  // whose memory it is
  recompute_mode recompute = recompute_mode::none;
  std::int64_t recompute_span = 1;    // full: layers between two inputs that are kept
  std::int64_t recompute_layers = 0;  // full: so many of each stage, from the first; 0: all
  attention_kernel attention = attention_kernel::automatic;
  double dropout = 0;
  bool padding_mask = false;
  gpuplan::framework framework{};
};

}  // namespace gpuplan
