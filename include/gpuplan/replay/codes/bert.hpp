#pragma once

// Encoders of Hugging Face's transformers 5.23: BERT, and what was copied from it. Private.

#include <gpuplan/replay/codes/hugging_face_encoder.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

class bert_code : public text_encoder_code {
 public:
  using text_encoder_code::text_encoder_code;
  constexpr ~bert_code() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  // What layers read beside their input, behind the mask.
  static constexpr int the_distances = 1;

  constexpr layer_modules build_layer(bool trains) override {
    return built(trains,
                 {&its::query,
                  &its::key,
                  &its::value,
                  &its::out,
                  &its::behind_attention,
                  &its::up,
                  &its::down,
                  &its::behind_mlp});
  }
  constexpr void build_behind_layers() override {
    if (model.relative_attention_buckets != 0)
      distances_ =
          table_module(model.relative_attention_buckets, model.num_attention_heads, trains_all());
  }

  constexpr value run_layers(value hidden, const tensor& mask) override {
    value distances;
    if (distances_.weight != none) distances = biases_of_distances(distances_, hidden->size[0]);
    for (std::int64_t at = 0; at < layers; ++at) {
      beside[the_mask] = mask;
      beside[the_distances] = *distances;
      hidden = run_layer(at, hidden);
    }
    return hidden;
  }
  constexpr value layer(int index, const tensor& input) override {
    const layer_modules& by = layers_[index];
    attended made;
    enter();
    if (model.relative_attention_buckets != 0)
      made = attend_by_distance(by, input);
    else
      made = attend_to(by, input);
    leave(made.output);
    const value& attention = made.output;
    value hidden;
    if (code().outputs_inside) {
      hidden = act(linear(attention, by.up));
      hidden = dropout(t, linear(std::move(hidden), by.down), drops);
      return norm(add(t, hidden, attention), by.behind_mlp);
    }
    enter();
    hidden = act(linear(attention, by.up));
    leave(hidden);
    return add_and_norm(hidden, by.down, by.behind_mlp, attention);
  }
  /// dense, dropout, norm(x + residual)
  constexpr value add_and_norm(const tensor& x,
                               const nn_module& dense,
                               const nn_module& norm_by,
                               const tensor& residual) {
    enter();
    value hidden = drop_out(linear(x, dense));
    hidden = norm(add(t, hidden, residual), norm_by);
    leave(hidden);
    return hidden;
  }

  constexpr virtual attended attend_to(const layer_modules& by, const tensor& x) {
    attended made;
    enter();
    {
      const auto [q, k, v] = project(by, x, false);
      constexpr eager_attention_options products{.softmax_in_fp32 = false, .casts_weights = false};
      made = attend(q, k, v, beside[the_mask], false, products);
      made.output = view(t, made.output, x.size);
      if (code().outputs_inside) made.output = linear(made.output, by.out);
    }
    leave(made.output);
    if (code().outputs_inside)
      made.output = norm(add(t, made.output, x), by.behind_attention);
    else
      made.output = add_and_norm(made.output, by.out, by.behind_attention, x);
    return made;
  }
  /// MPNet's, whose scores get a bias by distance.
  constexpr attended attend_by_distance(const layer_modules& by, const tensor& x) {
    value out;
    {
      const auto [q, k, v] = project(by, x, false);
      value scores = scale(t, matmul(t, q, transpose(t, k, 2, 3)));
      scores = add_in_place(t, scores, beside[the_distances]);
      if (beside[the_mask].defined()) scores = add(t, scores, beside[the_mask]);
      const value weights = dropout(t, softmax_under_autocast(t, scores), drops_attention);
      value result = matmul(t, weights, v);
      result = contiguous(t, transpose(t, result, 1, 2));
      out = linear(view(t, std::move(result), x.size), by.out);
    }
    return {norm(add(t, dropout(t, out, drops), x), by.behind_attention), {}};
  }

  nn_module distances_{};
};

// AlbertLayer: one residual order further, and its parameters serve several runs.
class albert_code final : public bert_code {
 public:
  using bert_code::bert_code;
  constexpr ~albert_code() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  [[nodiscard]] constexpr std::int64_t built_layers() const override {
    return model.built_layers();
  }
  [[nodiscard]] constexpr bool holds_embeddings() const override { return true; }  // AlbertModel
  constexpr layer_modules build_layer(bool trains) override {
    return built(trains,
                 {&its::behind_mlp,
                  &its::query,
                  &its::key,
                  &its::value,
                  &its::out,
                  &its::behind_attention,
                  &its::up,
                  &its::down});
  }
  constexpr value layer(int index, const tensor& input) override {
    const std::int64_t inner = model.shared.inner_group_num;
    const std::int64_t run = index / inner;
    const std::int64_t runs = layers / inner;
    const std::int64_t group = run * model.shared.num_hidden_groups / runs;
    const layer_modules& by = layers_[static_cast<int>(group * inner + index % inner)];
    attended made;
    {
      const auto [q, k, v] = project(by, input, false);
      constexpr eager_attention_options products{.softmax_in_fp32 = false, .casts_weights = false};
      made = attend(q, k, v, beside[the_mask], false, products);
      made.output = view(t, made.output, input.size);
      made.output = dropout(t, linear(made.output, by.out), drops);
      made.output = norm(add(t, input, made.output), by.behind_attention);
    }
    value fed = linear(act(linear(made.output, by.up)), by.down);
    value hidden = norm(add(t, fed, made.output), by.behind_mlp);
    for (value* one : {&made.output, &fed}) one->drop();
    return hidden;
  }
};

}  // namespace gpuplan::eager
