#pragma once

// The nodes of the graph that backward follows. Private.

#include <gpuplan/replay/eager/tensor.hpp>

#include <cstdint>

namespace gpuplan::eager {

class own_backward;
struct node_backward;
struct gradients;

/// What makes a node: whose backward it is, as people call it, and that backward, which makes the
/// gradients of the inputs. An operator's stands beside it; one of your own is another constant.
struct node_kind {
  const char* name;
  void (*backward)(const node_backward&);

  static const node_kind accumulate;  // of a parameter or a leaf: gradients arrive
  static const node_kind function;    // with a backward of its own (torch.autograd.Function)
  static const node_kind pass, unit, scale, keeps_one, mask_fill, product, power, reciprocal_root;
  static const node_kind cast, view, transpose, expand, slice, split, concatenate, pad;
  static const node_kind mean, sum, softmax, log_softmax, nll, mean_square;
  static const node_kind binary_cross_entropy, repeat, gather;
  static const node_kind convolution_in_groups, channel_norm, weight_norm, alignment;
  static const node_kind mm, addmm, bmm, convolution, flash, efficient, embedding;
  static const node_kind rearranged, masked_scatter, rows_by_number, choice;
  static const node_kind layer_norm, rms_norm, vector_norm, clamp, quotient;
  static const node_kind chosen, rows_at, grouped, copied, as_complex;
  static const node_kind scattered, repeated;
};
inline constexpr node_kind node_kind::accumulate{"parameter", nullptr};
inline constexpr node_kind node_kind::function{"function of its own", nullptr};

struct edge {
  int node = none;
  int output = 0;
};

inline constexpr int most_inputs = 4;
inline constexpr int most_outputs = 3;

struct node {
  // Elements are spelled out: of `{}` g++ 12 makes one constant, which evaluations while compiling
  // change for those at run time.
  const node_kind* kind = nullptr;
  int inputs = 0;
  int outputs = 1;
  int first_kept = 0;
  int kept = 0;
  int region = none;  // of recomputation
  int pending = 0;
  int parameter = none;  // of an accumulate node; of others, that they read
  int layer = none;
  int unit = none;                // whose backward begins here
  bool takes_any_format = false;  // of gradients
  bool distributed = false;       // its results are parts of tensors
  unsigned char left_out = 0;     // inputs, a bit each, whose gradients are not made now
  edge input[most_inputs]{edge{}, edge{}, edge{}, edge{}};
  tensor gradient[most_outputs]{tensor{}, tensor{}, tensor{}};  // as far as it has arrived
  sizes size[most_outputs]{sizes{}, sizes{}, sizes{}};          // of the results,
  element format[most_outputs]{};                               // likewise
  std::int64_t argument[6]{};
  const own_backward* own = nullptr;  // of a function

  [[nodiscard]] constexpr bool leads_back(int which) const { return input[which].node != none; }
  /// Whether a backward goes on to the input.
  [[nodiscard]] constexpr bool goes_to(int which) const {
    return leads_back(which) && (left_out >> which & 1) == 0;
  }
};

}  // namespace gpuplan::eager
