#pragma once

// SmolVLMForConditionalGeneration and Idefics3's. Transcribed from transformers 5.23. Private.

#include <gpuplan/replay/codes/composites/composite.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

/// Every image is one, and has all its patches.
class smolvlm_code final : public image_text_code {
 public:
  using image_text_code::image_text_code;
  constexpr ~smolvlm_code() override {}  // NOLINT(modernize-use-equals-default)

  constexpr void construct() override {
    add_parts({&tower_.code, &language_.code});
    tower_.code.construct_tower(layers_read());
    joined_ = linear_module(part(1).model.hidden_size,
                            part(0).joined_patches * part(0).model.hidden_size,
                            false,
                            part(0).next.trains);
    language_.code.construct_stack();
    language_.code.construct_head();
  }

 protected:
  // SmolVLMModel
  constexpr value run_model(value& features) override {
    value embeds = language_.code.embed(ids_);
    typename image_encoder_code::features seen;
    value projected;
    {
      const value all = cast(t, given_input, t.format_of(0));
      const value real = real_images(all);
      value chosen;
      {
        const value pieces = t.make(sizes{images()}, element::int64);
        chosen = compute(t, {&*all, &*pieces}, all->size, all->format);
      }
      const value patches = seen_patches(chosen);
      const value numbers = numbers_of_patches();
      tower_.code.patches_counted = *numbers;
      const value mask = tower_.code.read_mask_of_patches(images());
      seen = tower_.code.encode(chosen, layers_read());
      tower_.code.patches_counted = {};
      projected = linear(shuffled(seen.states), joined_);
      pixels_.drop();
    }
    features = cast(t, join_rows(t, projected), t.format_of(0));
    const value placed = placeholders(ids_);
    embeds = masked_scatter(t, embeds, placed, features);
    return language_.code.run_embedded(t.share(embeds));
  }
  /// Those of which not all numbers are 0, and how many of each sample there are.
  constexpr value real_images(const tensor& all) {
    value real;
    {
      value zero = compute(t, all, all.size, element::boolean);
      const value count = full(t, sizes{images()}, element::int64);
      {
        const value wide = compute(t, zero, all.size, element::int64);
        zero.drop();
      }
      real = compute(t, count, sizes{images()}, element::boolean);
    }
    return real;
  }
  /// The pixels that count, and where a patch has one.
  constexpr value seen_patches(const tensor& all) {
    const image_input& image = part(0).model.image;
    const std::int64_t side = image.image_size / image.patch_size;
    pixels_ = full(t, {images(), image.image_size, image.image_size}, element::boolean);
    const value sums = full(t, {images(), side, side}, element::int64);
    { const value wide = compute(t, all, pixels_->size, element::int64); }
    return compute(t, sums, sums->size, element::boolean);
  }
  constexpr value numbers_of_patches() {
    const sizes all{images(), part(0).model.image.patches()};
    const value none_yet = full(t, all, element::int64);
    const value counted = full(t, all, element::int64);
    return compute(t, {&*none_yet, &*counted}, all, element::int64);
  }
  nn_module joined_{};
  value pixels_{};
};

}  // namespace gpuplan::eager
