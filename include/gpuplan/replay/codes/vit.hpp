#pragma once

// Encoders of images of Hugging Face's transformers 5.23 with a head for classes: ViT, CLIP,
// SigLIP, DINOv2 and DINOv3. Private.

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
  /// Dropout and layer scale.
  constexpr value branch(value x, const nn_module& scale) {
    x = dropout(t, x, drops && code().drops_hidden);
    if (scale.weight != none) {
      const tensor factor = t.parameter(scale.weight);
      if (code().scales_in_layer)
        x = multiply(t, factor, x);
      else
        x = multiply(t, x, factor);
    }
    return x;
  }
  constexpr virtual value feed_forward(const layer_modules& by, argument given) {
    const held x(given);
    if (model.gated_mlp) {  // Dinov2SwiGLUFFN, whatever the model's activation
      const value gate = silu(t, linear(x, by.gate));
      return linear(multiply(t, gate, linear(x, by.up)), by.down);
    }
    return linear(activation(linear(x, by.up)), by.down);
  }
  /// DropPath, and the sum.
  constexpr value add_residual(argument given, const tensor& residual) {
    const held branched(given);
    const value x = model.image.drop_path ? drop_path(branched) : t.share(branched);
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
  /// Rotates query and key by their positions, where the class does.
  constexpr virtual void rotate(value& /*q*/, value& /*k*/) {}
  constexpr attended attend_to(const layer_modules& by, argument given) {
    const held x(given);
    auto [q, k, v] = project_all(by, x);
    rotate(q, k);
    const eager_attention_options products{.softmax_in_fp32 = code().softmax_in_fp32,
                                           .casts_weights = false};
    return project_out(
        attend(q, k, v, beside[the_mask], model.kind == model_kind::decoder, products), by.out);
  }
};

/// Rotates patches alone, by where their centres lie.
class dinov3_code final : public vit_code {
 public:
  using vit_code::vit_code;
  constexpr ~dinov3_code() override {}  // NOLINT(modernize-use-equals-default)

  constexpr features encode(const tensor& given, std::int64_t read) override {
    features made = vit_code::encode(given, read);
    for (value& table : tables_) table.drop();
    return made;
  }

 protected:
  // Of what layers read beside their input.
  static constexpr int the_cosines = 1;
  static constexpr int the_sines = 2;

  constexpr void build_embeddings() override {
    vit_code::build_embeddings();
    const auto charged = t.charge(purpose::buffers);
    frequencies_ = t.make(sizes{model.query_dim() / 4}, element::fp32);
    add_buffer(frequencies_);
    // get_patches_center_coordinates: kept for images of a size, from the first on
    coordinates_ = hold(t.make({model.image.patches(), 2}, element::fp32));
  }
  // DINOv3ViTRopePositionEmbedding
  constexpr void read_positions() override {
    const element format = t.format_of(patches_.weight);
    const std::int64_t patches = model.image.patches();
    const std::int64_t head = model.query_dim();
    const sizes table{patches, head};
    const value rescaled = compute(t, coordinates_, coordinates_.size, element::fp32);
    value angles = compute(t, {&*rescaled, &*frequencies_}, {patches, 2, head / 4}, element::fp32);
    angles = compute(t, angles, table, element::fp32, {"rotary angles"});
    const auto made = [&] { return compute(t, angles, table, element::fp32, {"rotary table"}); };
    const value cosines = made();
    const value sines = made();
    tables_[0] = cast(t, cosines, format);
    tables_[1] = cast(t, sines, format);
    beside[the_cosines] = *tables_[0];
    beside[the_sines] = *tables_[1];
  }
  constexpr value feed_forward(const layer_modules& by, argument given) override {
    return mlp(by, given);
  }
  // apply_rotary_pos_emb
  constexpr void rotate(value& q, value& k) override {
    const std::int64_t patches = model.image.patches();
    struct pieces {
      value first, patches;
    };
    const auto cut = [&](const tensor& of) {
      const int by = split(t, of);
      return pieces{part(t, by, of, 2, of.size[2] - patches, 0), part(t, by, of, 2, patches, 1)};
    };
    pieces of_q = cut(q);
    pieces of_k = cut(k);
    of_q.patches = turned(of_q.patches);
    of_k.patches = turned(of_k.patches);
    q = concatenate(t, of_q.first, of_q.patches, 2);
    k = concatenate(t, of_k.first, of_k.patches, 2);
  }
  constexpr value turned(const tensor& x) {
    const auto table = [&](int which) {
      tensor seen = beside[which];
      set_contiguous(seen, {1, 1, seen.size[0], seen.size[1]});
      return seen;
    };
    const value straight = multiply(t, x, table(the_cosines));
    return add(t, straight, multiply(t, rotate_half(x), table(the_sines)));
  }

 private:
  value frequencies_{}, tables_[2]{};
  tensor coordinates_{};
};

}  // namespace gpuplan::eager
