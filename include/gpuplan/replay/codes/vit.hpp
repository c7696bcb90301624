#pragma once

// Encoders of images of Hugging Face's transformers 5.23 with a head for classes: ViT, CLIP and
// SigLIP. Private.

#include <gpuplan/replay/codes/hugging_face_image_encoder.hpp>

#include <utility>

namespace gpuplan::eager {

class vit_code : public image_encoder_code {
 public:
  using image_encoder_code::image_encoder_code;
  constexpr ~vit_code() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  constexpr value layer(int index, const tensor& input) override {
    const layer_modules& by = layers_[index];
    const bool drops_hidden = drops && code().drops_hidden;
    attended made = attend_to(by, norm(input, by.before_attention));
    value x = dropout(t, std::move(made.output), drops_hidden);
    x = add_residual(x, input);
    const value hidden = dropout(t, feed_forward(by, norm(x, by.before_mlp)), drops_hidden);
    return add_residual(hidden, x);
  }
  constexpr value feed_forward(const layer_modules& by, argument given) {
    const held x(given);
    return linear(activation(linear(x, by.up)), by.down);
  }
  constexpr value add_residual(const tensor& x, const tensor& residual) {
    if (code().adds_to_residual) return add(t, residual, x);
    return add(t, x, residual);
  }

  constexpr attended attend_to(const layer_modules& by, argument given) {
    const held x(given);
    const auto [q, k, v] = project(by, x, code().views_behind_projections);
    return project_out(attend(q, k, v, {}, false, {}), by.out);
  }
};

}  // namespace gpuplan::eager
