#pragma once

// What passes between the tokens of a sequence in place of attention: state spaces and linear
// attention, whose cost rises with the tokens and not with their square.

#include <cstdint>

namespace gpuplan {

/// Mamba-2 (Dao and Gu 2024, arXiv 2405.21060), in the words of its configuration in Hugging Face.
struct state_space {
  std::int64_t num_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t state_size = 0;
  std::int64_t n_groups = 1;     // of heads that share what the state reads and is read by
  std::int64_t conv_kernel = 4;  // tokens of the convolution before it
  bool conv_bias = true;
  std::int64_t chunk_size = 128;  // tokens whose pairs are multiplied, as attention does
  bool proj_bias = false;         // of the linear layers that lead in and out
  bool residual_in_fp32 = false;  // beside it

  /// Elements of a token's values.
  [[nodiscard]] constexpr std::int64_t inner() const { return num_heads * head_dim; }
  /// And of what is convolved.
  [[nodiscard]] constexpr std::int64_t channels() const {
    return inner() + 2 * n_groups * state_size;
  }

  friend constexpr bool operator==(const state_space&, const state_space&) = default;
};

/// The gated delta rule (Yang et al. 2024, arXiv 2412.06464), in the words of Qwen3-Next's
/// configuration: `linear_num_key_heads` and so on.
struct linear_attention {
  std::int64_t num_key_heads = 0;  // of queries too
  std::int64_t key_head_dim = 0;
  std::int64_t num_value_heads = 0;
  std::int64_t value_head_dim = 0;
  std::int64_t conv_kernel_dim = 4;
  std::int64_t chunk_size = 64;

  [[nodiscard]] constexpr std::int64_t keys() const { return num_key_heads * key_head_dim; }
  [[nodiscard]] constexpr std::int64_t values() const { return num_value_heads * value_head_dim; }
  [[nodiscard]] constexpr std::int64_t channels() const { return 2 * keys() + values(); }

  friend constexpr bool operator==(const linear_attention&, const linear_attention&) = default;
};

/// A layer's make-up: what passes between tokens, and behind it what does not.
enum class layer_kind {
  dense,              // attention and an MLP
  experts,            // attention and a mixture of experts
  cross,              // attention, cross-attention and an MLP: an encoder-decoder's decoder
  linear_dense,       // linear attention and an MLP
  linear_experts,     // linear attention and a mixture of experts
  attention_alone,    // the rest are layers of hybrids, of one part each
  state_space_alone,  // Mamba-2
  linear_alone,
  mlp_alone,
  experts_alone
};
inline constexpr int layer_kinds = static_cast<int>(layer_kind::experts_alone) + 1;

[[nodiscard]] constexpr bool has_attention(layer_kind kind) {
  return kind == layer_kind::dense || kind == layer_kind::experts || kind == layer_kind::cross ||
         kind == layer_kind::attention_alone;
}
[[nodiscard]] constexpr bool has_linear_attention(layer_kind kind) {
  return kind == layer_kind::linear_dense || kind == layer_kind::linear_experts ||
         kind == layer_kind::linear_alone;
}
[[nodiscard]] constexpr bool has_mixture(layer_kind kind) {
  return kind == layer_kind::experts || kind == layer_kind::linear_experts ||
         kind == layer_kind::experts_alone;
}
[[nodiscard]] constexpr bool has_mlp(layer_kind kind) {
  return kind == layer_kind::dense || kind == layer_kind::cross ||
         kind == layer_kind::linear_dense || kind == layer_kind::mlp_alone;
}

/// The layers of a stack, a letter each, as Megatron-Core's `hybrid_layer_pattern` and Nemotron-H's
/// `hybrid_override_pattern` write them: `M` Mamba-2, `G` linear attention, `*` attention, `-` an
/// MLP, `E` a mixture of experts. Whoever says so keeps the letters.
struct layer_pattern {
  const char* letters = nullptr;  // none: the model's other words say how layers are made

  [[nodiscard]] constexpr explicit operator bool() const { return letters != nullptr; }
  [[nodiscard]] constexpr std::int64_t size() const {
    std::int64_t count = 0;
    while (letters != nullptr && letters[count] != '\0') ++count;
    return count;
  }
  [[nodiscard]] static constexpr bool is_letter(char letter) {
    return letter == 'M' || letter == 'G' || letter == '*' || letter == '-' || letter == 'E';
  }
  /// Precondition: there is such a layer, and it is one of those letters.
  [[nodiscard]] constexpr layer_kind kind_of(std::int64_t layer) const {
    switch (letters[layer]) {
      case 'M':
        return layer_kind::state_space_alone;
      case 'G':
        return layer_kind::linear_alone;
      case '-':
        return layer_kind::mlp_alone;
      case 'E':
        return layer_kind::experts_alone;
      default:
        break;
    }
    return layer_kind::attention_alone;
  }
  /// How many of the first `count` letters are this one.
  [[nodiscard]] constexpr std::int64_t before(std::int64_t count, char letter) const {
    std::int64_t found = 0;
    for (std::int64_t at = 0; at < count; ++at) found += letters[at] == letter ? 1 : 0;
    return found;
  }
  [[nodiscard]] constexpr bool has(char letter) const { return before(size(), letter) != 0; }
};

namespace detail {
inline constexpr int most_state_spaces = 1024;
struct state_space_letters {
  char of[most_state_spaces + 1]{};
  constexpr state_space_letters() {
    for (int at = 0; at < most_state_spaces; ++at) of[at] = 'M';
  }
};
inline constexpr state_space_letters all_state_spaces{};
}  // namespace detail

/// So many layers of Mamba-2 and no others. Precondition: 0 to 1024.
[[nodiscard]] constexpr layer_pattern state_spaces_alone(std::int64_t layers) {
  return {detail::all_state_spaces.of + (detail::most_state_spaces - layers)};
}

}  // namespace gpuplan
