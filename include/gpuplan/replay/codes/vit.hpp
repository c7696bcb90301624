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
    attended made = attend_to(by, norm(input, by.before_attention));
    value scaled = branch(std::move(made.output), by.attention_scale);
    const value x = add_residual(scaled, input);
    if (!code().scales_in_layer) scaled.drop();  // else a variable
    return add_residual(branch(feed_forward(by, norm(x, by.before_mlp)), by.mlp_scale), x);
  }
  /// Dropout, layer scale, and DropPath.
  constexpr value branch(value x, const nn_module& scale) {
    x = dropout(t, x, drops && code().drops_hidden);
    if (scale.weight != none) {
      const tensor factor = t.parameter(scale.weight);
      if (code().scales_in_layer)
        x = multiply(t, factor, x);
      else
        x = multiply(t, x, factor);
    }
    if (model.image.drop_path) x = drop_path(x);
    return x;
  }
  constexpr value feed_forward(const layer_modules& by, argument given) {
    const held x(given);
    if (model.gated_mlp) {  // Dinov2SwiGLUFFN, whatever the model's activation
      const value gate = silu(t, linear(x, by.gate));
      return linear(multiply(t, gate, linear(x, by.up)), by.down);
    }
    return linear(activation(linear(x, by.up)), by.down);
  }
  constexpr value add_residual(argument given, const tensor& residual) {
    const held x(given);
    if (code().adds_to_residual) return add(t, residual, x);
    return add(t, x, residual);
  }

  constexpr projections project_all(const layer_modules& by, const tensor& x) {
    if (model.qk_norm == qk_norm_scope::none)
      return project(by, x, code().views_behind_projections);
    // InternVLVisionAttention
    projections made{linear(x, by.query), linear(x, by.key), linear(x, by.value)};
    made.q = norm(made.q, by.query_norm);
    made.k = norm(made.k, by.key_norm);
    for (value* one : {&made.q, &made.k, &made.v})
      *one = heads_of(*one, model.num_attention_heads, model.query_dim());
    return made;
  }
  constexpr attended attend_to(const layer_modules& by, argument given) {
    const held x(given);
    const auto [q, k, v] = project_all(by, x);
    const eager_attention_options products{.softmax_in_fp32 = code().softmax_in_fp32,
                                           .casts_weights = false};
    return project_out(
        attend(q, k, v, beside[the_mask], model.kind == model_kind::decoder, products), by.out);
  }
};

}  // namespace gpuplan::eager
