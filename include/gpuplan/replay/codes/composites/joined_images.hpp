#pragma once

// DeepseekVLForConditionalGeneration and Cohere2VisionForConditionalGeneration. Transcribed from
// transformers 5.23. Private.

#include <gpuplan/replay/codes/composites/composite.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

/// All patches go through two linear layers.
class deepseek_vl_code : public image_text_code {
 public:
  using image_text_code::image_text_code;
  constexpr ~deepseek_vl_code() override {}  // NOLINT(modernize-use-equals-default)

  constexpr void construct() override {
    add_parts({&tower_.code, &language_.code});
    construct_tower_and_head();
    build_connector(part(0).next);
    language_.code.construct_stack();
    language_.code.construct_head();
  }

 protected:
  constexpr value run_model(value& features) override {
    value embeds = language_.code.embed(ids_);
    auto seen = see();
    const value projected = project_images(seen.states);
    drop_pooled(seen);
    features = cast(t, projected, embeds->format);
    const value placed = placeholders(ids_);
    embeds = masked_scatter(t, embeds, placed, features);
    return language_.code.run_embedded(t.share(embeds));
  }
  constexpr virtual value project_images(const tensor& states) {
    return connect(part(0).next, states);
  }
};

/// Patches beside each other are joined; one half of what a linear layer makes of them gates the
/// other.
class cohere2_vision_code final : public deepseek_vl_code {
 public:
  using deepseek_vl_code::deepseek_vl_code;
  constexpr ~cohere2_vision_code() override {}  // NOLINT(modernize-use-equals-default)

  constexpr void construct() override {
    add_parts({&tower_.code, &language_.code});
    construct_tower_and_head();
    const connector& next = part(0).next;
    joined_ = linear_module(next.widths[1], next.widths[0], true, next.trains);
    projected_ = linear_module(part(1).model.hidden_size, next.widths[1] / 2, true, next.trains);
    language_.code.construct_stack();
    language_.code.construct_head();
  }

 protected:
  // Cohere2VisionMultiModalProjector
  constexpr value project_images(const tensor& states) override {
    const image_input& image = part(0).model.image;
    const std::int64_t side = image.image_size / image.patch_size;
    const std::int64_t factor = side_of_joined();
    const std::int64_t fewer = side / factor;
    const std::int64_t width = states.size[2];
    const std::int64_t half = part(0).next.widths[1] / 2;
    value x = view(t, states, {images(), side, fewer, width * factor});
    x = transpose(t, std::move(x), 1, 2);
    x = reshape(t, std::move(x), {images(), fewer, fewer, width * factor * factor});
    x = transpose(t, std::move(x), 1, 2);
    value hidden = linear(x, joined_);
    {
      const int parts = split(t, hidden);
      const value up = eager::part(t, parts, hidden, 3, half, 0);
      const value gate = eager::part(t, parts, hidden, 3, half, 1);
      hidden = multiply(t, silu(t, gate), up);
    }
    hidden = linear(hidden, projected_);
    return view(t, hidden, {images(), fewer * fewer, hidden->size[3]});
  }

  constexpr value logits_of(const tensor& hidden) override {
    return language_.code.unscaled_logits(hidden);
  }

  nn_module joined_{}, projected_{};
};

}  // namespace gpuplan::eager
