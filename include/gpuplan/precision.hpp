#pragma once

// The number formats that devices compute in and tensors are stored in.

namespace gpuplan {

/// A number format. `tf32` is a way to multiply `fp32` tensors, and is stored like them.
enum class number_format { fp64, fp32, tf32, bf16, fp16, fp8, fp4, int8 };

/// What a matrix unit adds its products up in. `fp32` stands for the format's usual accumulator,
/// which is int32 for `int8` and fp64 for `fp64`; consumer GPUs are twice as fast with `fp16`.
enum class accumulator { fp32, fp16 };

/// Bits of one element as stored, without the scales of block formats.
[[nodiscard]] constexpr int bits_per_element(number_format format) {
  switch (format) {
    case number_format::fp64:
      return 64;
    case number_format::fp32:
    case number_format::tf32:
      return 32;
    case number_format::bf16:
    case number_format::fp16:
      return 16;
    case number_format::fp8:
    case number_format::int8:
      return 8;
    case number_format::fp4:
      return 4;
  }
  return 0;
}

/// The name, as the enumerator is spelled.
[[nodiscard]] constexpr const char* text(number_format format) {
  switch (format) {
    case number_format::fp64:
      return "fp64";
    case number_format::fp32:
      return "fp32";
    case number_format::tf32:
      return "tf32";
    case number_format::bf16:
      return "bf16";
    case number_format::fp16:
      return "fp16";
    case number_format::fp8:
      return "fp8";
    case number_format::fp4:
      return "fp4";
    case number_format::int8:
      return "int8";
  }
  return "";
}

/// The name, as the enumerator is spelled.
[[nodiscard]] constexpr const char* text(accumulator sum) {
  return sum == accumulator::fp16 ? "fp16" : "fp32";
}

/// How a training step mixes number formats.
/// What the numbers of products in fp8 and fp4 are scaled by.
enum class scaling_kind {
  tensor,   // one scale a tensor, found each time: torchao's default, Transformer Engine's current
  row,      // one a row: torchao's
  delayed,  // one a tensor, from steps before
  blocks,   // one of fp32 for 128 numbers, of weights for 128 x 128 (DeepSeek-V3)
  micro     // one of 8 bits for 32 numbers, MXFP8; for 16, and one a tensor besides, NVFP4
};

struct precision_recipe {
  number_format weights = number_format::fp32;  // as the model holds them, and its gradients
  number_format compute = number_format::fp32;  // of matrix products
  bool master_weights = false;                  // the optimizer has an fp32 copy of the weights
  bool fp32_gradients = false;                  // are summed in fp32, whatever the weights' format
  bool under_autocast = false;  // torch.autocast, though the weights have the format of products
  number_format reduced = number_format::fp32;  // gradients, while fully_shard reduces them
  // Linear layers, all but heads, cast what they multiply to fp8: torchao's Float8Linear, which
  // keeps what it is given; Transformer Engine's layers, which keep what they cast.
  bool fp8_linears = false;
  bool fp4_linears = false;                     // likewise to fp4 (NVFP4 of Transformer Engine)
  scaling_kind scaling = scaling_kind::tensor;  // of these casts
  // Linear layers' weights are stored as products read them, and gathered so (Megatron-Core's
  // fp8_param_gather); else they are cast once a step, and the casts stay beside them.
  bool quantised_weights = false;
  // Products read one cast along its rows and along its columns: of one scale a tensor, on devices
  // from Blackwell on. Else there is a copy for each.
  bool reads_casts_both_ways = false;

  /// Whether each operator casts what it reads (torch.autocast), as opposed to a model whose
  /// weights have the format of its products.
  [[nodiscard]] constexpr bool autocast() const {
    const bool is_stored_alike = compute == number_format::tf32 && weights == number_format::fp32;
    return (compute != weights && !is_stored_alike) || under_autocast;
  }

  friend constexpr bool operator==(const precision_recipe&, const precision_recipe&) = default;
};

/// What linear layers but heads multiply in.
[[nodiscard]] constexpr number_format format_of_linears(const precision_recipe& recipe) {
  if (recipe.fp4_linears) return number_format::fp4;
  return recipe.fp8_linears ? number_format::fp8 : recipe.compute;
}

/// Whether products of linear layers read fp8 or fp4.
[[nodiscard]] constexpr bool quantises_linears(const precision_recipe& recipe) {
  return recipe.fp8_linears || recipe.fp4_linears;
}

/// The bytes of a number as such a product reads it, with its part of the scales. A product reads
/// its operands along their rows; of what another one reads along the columns there is a second
/// copy, unless one scale holds for all and the device takes both ways.
[[nodiscard]] constexpr double quantised_bytes(const precision_recipe& recipe, bool is_weight) {
  if (recipe.fp4_linears) return 0.5 + 1.0 / 16;
  if (recipe.scaling == scaling_kind::micro) return 1 + 1.0 / 32;
  if (recipe.scaling == scaling_kind::blocks) return 1 + 4.0 / (is_weight ? 128.0 * 128 : 128.0);
  return 1;
}
/// The copies of a cast that products read along both directions.
[[nodiscard]] constexpr int copies_of_cast(const precision_recipe& recipe) {
  const bool has_one_scale = !recipe.fp4_linears && (recipe.scaling == scaling_kind::tensor ||
                                                     recipe.scaling == scaling_kind::delayed);
  return has_one_scale && recipe.reads_casts_both_ways ? 1 : 2;
}

inline constexpr precision_recipe fp32_precision{};
/// torch.autocast over fp32 weights.
inline constexpr precision_recipe bf16_mixed{.compute = number_format::bf16};
inline constexpr precision_recipe fp16_mixed{.compute = number_format::fp16};
/// Everything in bf16, states included.
inline constexpr precision_recipe bf16_pure{.weights = number_format::bf16,
                                            .compute = number_format::bf16};
/// torch.autocast over bf16 weights: what else is in fp32, like adapters, is cast.
inline constexpr precision_recipe bf16_under_autocast{
    .weights = number_format::bf16, .compute = number_format::bf16, .under_autocast = true};
/// Everything in bf16, and fp8 in linear layers.
inline constexpr precision_recipe bf16_with_fp8{
    .weights = number_format::bf16, .compute = number_format::bf16, .fp8_linears = true};
/// torch.autocast over fp32 weights, and fp8 in linear layers.
inline constexpr precision_recipe bf16_mixed_with_fp8{.compute = number_format::bf16,
                                                      .fp8_linears = true};
/// bf16 weights and gradients, fp32 copies and states in the optimizer.
inline constexpr precision_recipe bf16_master{
    .weights = number_format::bf16, .compute = number_format::bf16, .master_weights = true};
/// Likewise, and gradients are summed in fp32: Megatron-LM's recipe.
inline constexpr precision_recipe bf16_megatron{.weights = number_format::bf16,
                                                .compute = number_format::bf16,
                                                .master_weights = true,
                                                .fp32_gradients = true};
/// `bf16_master` in fp16, with a scaled loss.
inline constexpr precision_recipe fp16_master{
    .weights = number_format::fp16, .compute = number_format::fp16, .master_weights = true};

}  // namespace gpuplan
