#pragma once

// Swin of Hugging Face's transformers 5.23 with a head for classes: attention within windows, which
// every second layer shifts, in stages of ever fewer and wider tokens. Private.

#include <gpuplan/replay/codes/hugging_face_image_encoder.hpp>
#include <gpuplan/replay/eager/operators/images.hpp>
#include <gpuplan/replay/eager/operators/routing.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

class swin_code : public image_encoder_code {
 public:
  using image_encoder_code::image_encoder_code;
  constexpr ~swin_code() override {}  // NOLINT(modernize-use-equals-default)

  constexpr void construct() override {
    const image_input& image = model.image;
    const std::int64_t width = model.stages.widths[0];
    patches_ = patches_module(width);
    if (model.position_rows != 0) positions_ = place_before_patches({1, image.patches(), width});
    embedding_norm_ = norm_module(width, trains_all());
    int at = 0;
    for (int stage = 0; stage < model.stages.size(); ++stage) {
      for (std::int64_t depth = 0; depth < model.stages.depths[stage]; ++depth, ++at) {
        const auto being_built = t.building_unit(at);
        build_block(stage, trains_layer(at));
      }
      if (stage + 1 < model.stages.size()) build_merging(model.stages.widths[stage]);
    }
    norm_ = norm_module(model.hidden_size, trains_final_norm());
    classes_ = linear_module(
        operator_kind::head, model.num_classes, model.hidden_size, true, trains_head());
  }

 protected:
  struct block {
    layer_modules modules{};
    int table = none;  // of biases by distance
    tensor numbers{};  // its rows, for each pair of tokens of a window
    int stage = 0;
  };

  constexpr void build_block(int stage, bool trains) {
    const std::int64_t width = model.stages.widths[stage];
    const std::int64_t window = model.stages.window_size;
    block made{.stage = stage};
    const auto dense = [&](operator_kind kind, std::int64_t to, std::int64_t from, bool bias) {
      return linear_module(kind, to, from, bias, trains);
    };
    layer_modules& by = made.modules;
    by.query = dense(operator_kind::query, width, width, model.attention_bias);
    by.key = dense(operator_kind::key, width, width, model.attention_bias);
    by.value = dense(operator_kind::value, width, width, model.attention_bias);
    by.out = dense(operator_kind::attention_output, width, width, true);
    made.table =
        parameter({(2 * window - 1) * (2 * window - 1), model.stages.heads[stage]}, trains);
    made.numbers = hold(
        t.charge(purpose::buffers)->make(sizes{window * window * window * window}, element::int64));
    add_numbers(made.numbers);
    by.before_attention = norm_module(width, trains);
    by.before_mlp = norm_module(width, trains);
    by.up = dense(operator_kind::up, model.stages.inner[stage], width, true);
    by.down = dense(operator_kind::down, width, model.stages.inner[stage], true);
    blocks_.push(made);
  }
  constexpr void build_merging(std::int64_t width) {
    layer_modules made;
    made.down = linear_module(operator_kind::projection, 2 * width, 4 * width, false, trains_all());
    made.before_mlp = norm_module(4 * width, trains_all());
    merging_.push(made);
  }

  // -- the model

 public:
  constexpr features encode(const tensor& given, std::int64_t /*read*/) override {
    const value embedded = embed_patches(given);
    value hidden = t.share(embedded);
    std::int64_t side = model.image.image_size / model.image.patch_size;
    value reshaped;
    int at = 0;
    for (int stage = 0; stage < model.stages.size(); ++stage) {
      side_ = side;
      const value entered = t.share(hidden);  // the encoder's, until the stage returns
      for (std::int64_t depth = 0; depth < model.stages.depths[stage]; ++depth)
        hidden = run_layer(at++, hidden);
      const value before = t.share(hidden);
      if (stage + 1 < model.stages.size()) {
        hidden = merge(merging_[stage], before, side);
        side = (side + 1) / 2;
      }
      value seen = view(t, hidden, {hidden->size[0], side, side, hidden->size[2]});
      seen = transpose(t, transpose(t, seen, 2, 3), 1, 2);
      reshaped = contiguous(t, seen);
    }
    reshaped.drop();
    last_ = t.share(hidden);
    features made;
    made.states = norm(hidden, norm_);
    return made;
  }

 protected:
  constexpr value pool(const tensor& hidden) override {
    value pooled = average_of_points(t, hidden);
    last_.drop();
    return pooled;
  }
  constexpr value embed_patches(const tensor& given) {
    value x;
    {
      const value maps = convolve(t, given, patches_.weight, patches_.bias);
      x = view(t, maps, {maps->size[0], maps->size[1], model.image.patches()});
    }
    x = transpose(t, x, 1, 2);
    x = norm(x, embedding_norm_);
    if (positions_ != none) x = add(t, x, t.parameter(positions_));
    return dropout(t, x, drops);
  }
  constexpr value merge(const layer_modules& by, const tensor& input, std::int64_t side) {
    const std::int64_t width = input.size[2];
    value x = view(t, input, {input.size[0], side, side, width});
    if (side % 2 == 1) x = pad_to(t, x, {input.size[0], side + 1, side + 1, width});
    {
      value part[4];
      for (value& one : part) one = every_second(t, every_second(t, x, 1), 2);
      x = concatenate(t, {&*part[0], &*part[1], &*part[2], &*part[3]}, 3);
    }
    x = view(t, x, {input.size[0], x->size[1] * x->size[2], 4 * width});
    x = norm(x, by.before_mlp);
    return linear(x, by.down);
  }

  constexpr value layer(int index, const tensor& input) override {
    const block& by = blocks_[index];
    const std::int64_t batch = input.size[0];
    const std::int64_t width = input.size[2];
    const std::int64_t window = model.stages.window_size;
    const std::int64_t padded = round_up(side_, window);
    const std::int64_t windows = padded / window;
    const bool shifts = is_shifted(index);
    value hidden = view(t, norm(input, by.modules.before_attention), {batch, side_, side_, width});
    hidden = pad_to(t, hidden, {batch, padded, padded, width});
    value in_windows;
    {
      value shifted = t.share(hidden);
      if (shifts) shifted = roll(t, hidden);
      in_windows = regrouped(shifted, windows);
    }
    in_windows = view(t, in_windows, {batch * windows * windows, window * window, width});
    value mask;
    if (shifts) mask = mask_of_shift(padded, windows, hidden->format);
    attended made = attend_to(by, in_windows, mask);
    const value attention = dropout(t, made.output, drops);
    made.output.drop();
    value merged = view(t, attention, {batch, padded, padded, width});
    merged = regrouped(merged, windows);
    if (shifts) merged = roll(t, merged);
    if (padded != side_) {
      merged = slice(t, merged, 1, side_);
      merged = contiguous(t, slice(t, merged, 2, side_));
    }
    merged = view(t, merged, input.size);
    if (model.image.drop_path && index > 0)
      hidden = add(t, input, drop_path(merged));
    else
      hidden = add(t, input, merged);
    value x = norm(hidden, by.modules.before_mlp);
    x = linear(activation(linear(x, by.modules.up)), by.modules.down);
    return add(t, dropout(t, x, drops), hidden);
  }
  /// The second layer of each two, where the image has more than a window.
  [[nodiscard]] constexpr bool is_shifted(int index) const {
    int first = index;
    while (first > 0 && blocks_[first - 1].stage == blocks_[index].stage) --first;
    return (index - first) % 2 == 1 && side_ > model.stages.window_size &&
           model.stages.window_size > 1;
  }
  /// Points in the order of the windows, or back.
  constexpr value regrouped(const tensor& x, std::int64_t windows) {
    if (windows == 1 || model.stages.window_size == 1) return t.share(x);
    return rearrange(t, x, x.size);
  }

  // get_attn_mask: regions that the shift has brought together do not see each other
  constexpr value mask_of_shift(std::int64_t side, std::int64_t windows, element format) {
    const std::int64_t area = model.stages.window_size * model.stages.window_size;
    const sizes line{side};
    const value rows = full(t, line, element::int64);
    const value columns = full(t, line, element::int64);
    const auto regions = [&](const tensor& of) {
      const value one = compute(t, compute(t, of, line, element::boolean), line, element::int64);
      const value other = compute(t, compute(t, of, line, element::boolean), line, element::int64);
      return compute(t, {&*one, &*other}, line, element::int64);
    };
    const value of_row = regions(rows);
    const value of_column = regions(columns);
    const sizes square{1, side, side, 1};
    value image = compute(t, of_row, line, element::int64);
    image = compute(t, image, square, element::int64);
    image = compute(t, image, square, format);
    value in_windows = regrouped(image, windows);
    const sizes pairs{windows * windows, area, area};
    value mask = compute(t, in_windows, pairs, format);
    value hidden = compute(t, compute(t, mask, pairs, element::boolean), pairs, format);
    const value seen = compute(t, mask, pairs, element::boolean);
    mask = compute(t, {&*hidden, &*seen}, pairs, format);
    return mask;
  }
  constexpr attended attend_to(const block& by, const tensor& x, const tensor& given_mask) {
    const std::int64_t heads = model.stages.heads[by.stage];
    const std::int64_t width = x.size[2] / heads;
    const std::int64_t tokens = x.size[1];
    const auto through = [&](const nn_module& dense) {
      return heads_of(linear(x, dense), heads, width);
    };
    const value q = through(by.modules.query);
    const value k = through(by.modules.key);
    const value v = through(by.modules.value);
    const value bias = bias_of_pairs(by, tokens, heads);
    value mask, joined;
    if (given_mask.defined()) {
      const std::int64_t batch = x.size[0] / given_mask.size[0];
      const sizes all{x.size[0], 1, tokens, tokens};
      if (batch == 1)
        mask = view(t, given_mask, all);
      else
        mask = compute(t, given_mask, all, given_mask.format);
      joined = add(t, bias, mask);
    } else {
      joined = t.share(bias);
    }
    if (heads == 1 && !is_eager()) {
      joined = lowered(t, joined);
      joined.get().stride[1] = 1;
    }
    return project_out(attend(q, k, v, joined, false, {}), by.modules.out);
  }
  constexpr value bias_of_pairs(const block& by, std::int64_t tokens, std::int64_t heads) {
    value bias = rows_at(t, t.parameter(by.table), by.numbers);
    bias = view(t, bias, {tokens, tokens, heads});
    bias = transpose(t, transpose(t, bias, 1, 2), 0, 1);
    bias = view(t, contiguous(t, bias), {1, heads, tokens, tokens});
    // of one head no copy is made, which the kernel finds in no order that it reads
    if (heads == 1) bias.get().stride[1] = 1;
    return bias;
  }

  value last_{};  // what the last layer made, held by the model's function
  growing_array<block> blocks_{};
  growing_array<layer_modules> merging_{};
  std::int64_t side_ = 0;  // points of the present stage's images
};

}  // namespace gpuplan::eager
