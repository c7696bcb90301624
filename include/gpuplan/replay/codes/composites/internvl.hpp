#pragma once

// InternVLForConditionalGeneration. Transcribed from transformers 5.23. Private.

#include <gpuplan/replay/codes/composites/composite.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

/// Patches beside each other are joined, and go through a norm and two linear layers.
class internvl_code final : public image_text_code {
 public:
  using image_text_code::image_text_code;
  constexpr ~internvl_code() override {}  // NOLINT(modernize-use-equals-default)

  constexpr void construct() override {
    add_parts({&tower_.code, &language_.code});
    tower_.code.construct_tower(layers_read());
    const sizes joined{part(0).joined_patches * part(0).model.hidden_size};
    joined_norm_.weight = parameter(joined, part(0).next.trains);
    joined_norm_.bias = parameter(joined, part(0).next.trains);
    build_connector(part(0).next);
    language_.code.construct_stack();
    language_.code.construct_head();
  }

 protected:
  // InternVLModel
  constexpr value run_model(value& features) override {
    value embeds = language_.code.embed(ids_);
    const auto seen = tower_.code.encode(given_input, layers_read());
    value projected;
    {
      const value patches = slice(t, seen.states, 1, part(0).model.image.patches());
      projected = shuffled(patches);
    }
    projected = layer_norm(t, projected, joined_norm_.weight, joined_norm_.bias);
    projected = connect(part(0).next, std::move(projected));
    features = cast(t, projected, embeds->format);
    const value placed = placeholders(ids_);
    embeds = masked_scatter(t, embeds, placed, features);
    return language_.code.run_embedded(t.share(embeds));
  }

  nn_module joined_norm_{};
};

}  // namespace gpuplan::eager
