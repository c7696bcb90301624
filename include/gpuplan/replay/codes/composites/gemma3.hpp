#pragma once

// Gemma3ForConditionalGeneration. Transcribed from transformers 5.23. Private.

#include <gpuplan/replay/codes/composites/composite.hpp>
#include <gpuplan/replay/eager/operators/images.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

/// Means of squares of patches go through a norm and a matrix; tokens of an image see each other.
class gemma3_code final : public image_text_code {
 public:
  using image_text_code::image_text_code;
  constexpr ~gemma3_code() override {}  // NOLINT(modernize-use-equals-default)

  constexpr void construct() override {
    add_parts({&tower_.code, &language_.code});
    construct_tower_and_head();
    const std::int64_t width = part(0).model.hidden_size;
    projection_ = parameter({width, part(1).model.hidden_size}, part(0).next.trains);
    pooled_norm_.weight = parameter(sizes{width}, part(0).next.trains);
    language_.code.construct_stack();
    language_.code.construct_head();
  }
  constexpr void make_batch() override {
    image_text_code::make_batch();
    make_token_numbers();
  }

 protected:
  // Gemma3Model
  constexpr value run_model(value& features) override {
    value embeds = language_.code.embed(ids_);
    auto seen = see();
    const value projected = project_images(seen.states);
    drop_pooled(seen);
    features = cast(t, projected, embeds->format);
    const value placed = placeholders(ids_);
    embeds = masked_scatter(t, embeds, placed, features);
    const value blocks = blocks_of_images(ids_->size);
    const value mask = language_.code.mask_of_blocks(embeds, blocks);
    const value padding = language_.code.seen_padding(ids_->size);
    const value near_mask =
        language_.code.mask_of_blocks(embeds, blocks, part(1).model.sliding_window);
    return language_.code.run_embedded(t.share(embeds), mask, {}, near_mask);
  }
  // Gemma3MultiModalProjector
  constexpr value project_images(const tensor& states) {
    const image_input& image = part(0).model.image;
    const std::int64_t side = image.image_size / image.patch_size;
    const std::int64_t width = part(0).model.hidden_size;
    const std::int64_t out = part(1).model.hidden_size;
    std::int64_t pooled_side = side;
    while (pooled_side * pooled_side * part(0).joined_patches > side * side) --pooled_side;
    const std::int64_t tokens = pooled_side * pooled_side;
    const value maps =
        contiguous(t, view(t, transpose(t, states, 1, 2), {images(), width, side, side}));
    value pooled = average_of_squares(t, maps, {images(), width, pooled_side, pooled_side});
    pooled = transpose(t, view(t, std::move(pooled), {images(), width, tokens}), 1, 2);
    const value normed = language_.code.norm_of_images(pooled, pooled_norm_);
    value projected;
    {
      const value by = lowered_parameter(t, projection_);
      const value x = lowered(t, normed);
      if (by->needs_gradient())
        projected = view(
            t, product(t, reshape(t, x, {images() * tokens, width}), by), {images(), tokens, out});
      else
        projected = matmul(t, x, expand(t, by, {images(), width, out}));
    }
    return cast(t, projected, states.format);
  }
  // get_block_sequence_ids_for_mask
  constexpr value blocks_of_images(const sizes& all) {
    const value is_image = full(t, all, element::boolean);
    value padded;
    { padded = full(t, {all[0], all[1] + 1}, element::boolean); }
    value starts;
    {
      const value is_not_behind = compute(t, is_image, all, element::boolean);
      starts = compute(t, {&*is_image, &*is_not_behind}, all, element::boolean);
    }
    value groups;
    {
      value sums;
      {
        const value numbers = compute(t, starts, all, element::int32);
        sums = t.make(all, element::int64);
        const value wide = compute(t, numbers, all, element::int64);
        t.executes({&*wide, &*sums});
      }
      groups = compute(t, sums, all, element::int64);
    }
    const value none_of_them = full(t, sizes{1}, element::int64);
    return compute(t, {&*is_image, &*groups, &*none_of_them}, all, element::int64);
  }

  nn_module pooled_norm_{};
  int projection_ = none;
};

}  // namespace gpuplan::eager
