#pragma once

// Images and texts in pairs: two towers, whose results are compared with all of the batch. Private.
// Transcribed from transformers 5.23, models/clip/modeling_clip.py and
// models/siglip/modeling_siglip.py.

#include <gpuplan/replay/codes/composites/composite.hpp>
#include <gpuplan/replay/codes/vit.hpp>
#include <gpuplan/replay/eager/operators/images.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

// Zeros, and each row where it belongs: index_put_, which sorts the places.
constexpr void chosen_tokens_backward(const node_backward& b) {
  tape& t = b.t;
  b.out[0] = t.make(b.by.size[1], b.g.format);
  value sorted[4];
  for (value& one : sorted) one = t.make(b.kept(0).size, element::int64);
  t.executes(b.out[0]->bytes() + b.g.bytes(), {.kernels = 0, .fills = 1});
  t.executes({&*b.out[0], &b.g, &b.kept(0), &b.kept(1), &*b.out[0]}, {.kernels = 9});
}
inline constexpr node_kind chosen_tokens{"one token of each text", &chosen_tokens_backward};

/// CLIPTextModel, SiglipTextModel, whose layers are those of their images.
class text_tower_code final : public vit_code {
 public:
  using vit_code::vit_code;
  constexpr ~text_tower_code() override {}  // NOLINT(modernize-use-equals-default)

  constexpr void construct_texts() {
    const std::int64_t width = model.hidden_size;
    tokens_ = token_table(model.vocab_size, width, trains_all());
    positions_ = table_module(model.position_rows, width, trains_all()).weight;
    numbers_ = hold(t.charge(purpose::buffers)->make({1, model.position_rows}, element::int64));
    add_numbers(numbers_);
    for (std::int64_t at = 0; at < layers; ++at) {
      const auto being_built = building_layer(at);
      layers_.push(build_layer(trains_layer(at)));
    }
    norm_ = norm_module(width, trains_final_norm());
  }
  /// From the numbers of tokens to the norm.
  constexpr value run_texts(const tensor& ids) {
    const std::int64_t batch = ids.size[0];
    const std::int64_t tokens = ids.size[1];
    const bool is_causal = model.kind == model_kind::decoder;
    value hidden = embed(ids);
    const value mask = mask_of(batch, tokens, tokens, hidden->format, is_causal);
    for (std::int64_t at = 0; at < layers; ++at) {
      beside[the_mask] = *mask;
      hidden = run_layer(at, hidden);
    }
    return norm(hidden, norm_);
  }
  /// The state of each text's last token.
  constexpr value last_token(const tensor& states, const tensor& ids) {
    const sizes texts{states.size[0]};
    const value rows = full(t, texts, element::int64);
    value ends = compute(t, ids, ids.size, element::int32);
    ends = compute(t, ends, ids.size, element::boolean);
    ends = compute(t, ends, ids.size, element::int32);
    ends = compute(t, ends, texts, element::int64);
    const int by = t.add_node(chosen_tokens, {&states});
    if (node* made = t.at(by)) made->size[1] = states.size;
    t.keep(by, rows);
    t.keep(by, ends);
    value made =
        t.make({states.size[0], states.size[2]}, states.format, {"last tokens", none, &states});
    t.executes({&states, &*rows, &*ends, &*made});
    t.result_of(by, made.get());
    return made;
  }

 private:
  constexpr value embed(const tensor& ids) {
    const value rows = embed_tokens(ids, tokens_);
    const value at = embedding(t, slice(t, numbers_, 1, ids.size[1]), positions_);
    return add(t, rows, at);
  }

  nn_module tokens_{};
};

/// What CLIPModel and SiglipModel have in common.
template <class Images>
class two_towers_code : public composite_code {
 public:
  constexpr two_towers_code(tape& on, const training_setup& of, const batch_plan& with)
      : composite_code(on, of, with), images_of_(on, of, with, 0), texts_of_(on, of, with, 1) {}
  constexpr ~two_towers_code() override {}  // NOLINT(modernize-use-equals-default)

  constexpr void cast_model() override {
    for (int at = own_; at < behind_texts_; ++at) move(at);
    images_of_.code.move_patches();
    for (int at = own_; at < t.parameters.size(); ++at) move(at);
    move_model();
  }
  constexpr void make_batch() override {
    const sizes all{plan.micro_batch, setup.sequence_length};
    {
      const auto charged = t.charge(purpose::buffers);
      ids_ = t.make(all, element::int64, {"token ids"});
      if (setup.padding_mask) padding_ = t.make(all, element::int64, {"padding"});
    }
    make_image_batch(part(0));
  }

 protected:
  /// What the module has itself stands before its layers', and is built behind them.
  [[nodiscard]] constexpr int reserve_number() {
    ++own_;
    return t.reserve_parameter(trains_beside());
  }
  constexpr void build_number(int place, const sizes& size) {
    const bool in_fp32 = setup.framework.implementation.builds_in_fp32;
    t.build_parameter(place, size, in_fp32 ? element::fp32 : weight_format);
  }
  [[nodiscard]] constexpr bool trains_beside() const { return part(0).next.trains; }
  constexpr value layer(int, const tensor&) override { return {}; }
  constexpr value see() {
    return images_of_.code.run_layers(given_input, part(0).model.num_hidden_layers);
  }

  part_code<Images> images_of_;
  part_code<text_tower_code> texts_of_;
  int own_ = 0;
  int behind_texts_ = 0;
};

class clip_code final : public two_towers_code<vit_code> {
 public:
  using two_towers_code::two_towers_code;
  constexpr ~clip_code() override {}  // NOLINT(modernize-use-equals-default)

  constexpr void construct() override {
    add_parts({&images_of_.code, &texts_of_.code});
    scale_ = reserve_number();
    texts_of_.code.construct_texts();
    behind_texts_ = t.parameters.size();
    images_of_.code.construct_tower(part(0).model.num_hidden_layers);
    images_of_.code.train_norm();
    for (int which = 0; which < 2; ++which)
      projections_[which] = linear_module(
          part(which).model.projection_dim, part(which).model.hidden_size, false, trains_beside());
    build_number(scale_, sizes{});
  }
  constexpr value forward() override {
    t.begin(moment::forward);
    const value seen = see();
    value image = linear(images_of_.code.first_token(seen), projections_[0]);
    const value read = texts_of_.code.run_texts(ids_);
    value text = linear(texts_of_.code.last_token(read, ids_), projections_[1]);
    t.begin(moment::loss);
    image = of_length_1(image);
    text = of_length_1(text);
    value logits = product(t, text, transpose(t, image, 0, 1));
    logits = multiply_by_number(logits, keeping_result(t, t.parameter(scale_)));
    const value of_texts = pair_loss(logits);
    const value of_images = pair_loss(transpose(t, logits, 0, 1));
    return eager::scale(t, add(t, of_texts, of_images));
  }

 private:
  // x / x.pow(2).sum(-1, keepdim=True).pow(0.5)
  constexpr value of_length_1(const tensor& x) {
    value length = sum_over(t, power(t, raised(t, x)), 1);
    length = power(t, view(t, length, {x.size[0], 1}), 1);
    const int by = t.add_node(node_kind::quotient, {&x, &*length});
    t.keep(by, x);
    t.keep(by, length);
    value result = t.make(x.size, wider(x.format, length->format), {"rows of length 1", none, &x});
    t.executes({&x, &*length, &*result});
    t.result_of(by, result.get());
    return result;
  }
  // A number does not widen what it multiplies.
  constexpr value multiply_by_number(argument given, argument given_number) {
    const held x(given), number(given_number);
    const int by = t.add_node(node_kind::product, {&x, &number});
    if (number.needs_gradient()) t.keep(by, x);
    if (x.needs_gradient()) t.keep(by, number);
    value result = t.make(x.size, x.format, {"product", none, &x});
    t.executes({&x, &number, &*result});
    t.result_of(by, result.get());
    return result;
  }
  // cross_entropy(logits, arange(len(logits)))
  constexpr value pair_loss(argument given) {
    const held logits(given);
    return cross_entropy(t, logits, full(t, sizes{logits.size[0]}, element::int64));
  }

  nn_module projections_[2]{};
  int scale_ = none;
};

// Each pair of an image and a text is right or wrong by itself.
class siglip_code final : public two_towers_code<pooled_images_code> {
 public:
  using two_towers_code::two_towers_code;
  constexpr ~siglip_code() override {}  // NOLINT(modernize-use-equals-default)

  constexpr void construct() override {
    add_parts({&images_of_.code, &texts_of_.code});
    scale_ = reserve_number();
    bias_ = reserve_number();
    texts_of_.code.construct_texts();
    const transformer& texts = part(1).model;
    head_ = linear_module(texts.projection_dim, texts.hidden_size, true, trains_beside());
    behind_texts_ = t.parameters.size();
    images_of_.code.construct_tower(part(0).model.num_hidden_layers);
    images_of_.code.construct_pooling();
    build_number(scale_, sizes{1});
    build_number(bias_, sizes{1});
  }
  constexpr value forward() override {
    t.begin(moment::forward);
    const value seen = images_of_.code.encode(given_input, part(0).model.num_hidden_layers).states;
    value image = images_of_.code.pool_by_query(seen);
    const value read = texts_of_.code.run_texts(ids_);
    value text = linear(select(t, read, 1), head_);
    t.begin(moment::loss);
    image = of_length_1(image);
    text = of_length_1(text);
    value logits = product(t, text, transpose(t, image, 0, 1));
    logits = multiply(t, logits, keeping_result(t, t.parameter(scale_)));
    logits = add(t, logits, t.parameter(bias_));
    const sizes& square = logits->size;
    const value same = t.make(square, element::fp32);
    t.executes({&*same}, {.kernels = 1, .fills = 1});  // torch.eye
    value signs;
    {
      const value wrong = compute(t, full(t, square, logits->format), square, logits->format);
      const value right = compute(t, same, square, element::fp32);
      signs = compute(t, {&*wrong, &*right}, square, element::fp32);
    }
    const value likelihood = keeping_input(t, multiply(t, signs, logits));
    const value sums = eager::scale(t, sum_over(t, likelihood, 1));
    return mean_over(t, sums, 0);
  }

 private:
  // x / x.norm(p=2, dim=-1, keepdim=True)
  constexpr value of_length_1(const tensor& x) {
    int by = t.add_node(node_kind::vector_norm, {&x});
    t.keep(by, x);
    // autocast asks the kernel for fp32, and casts nothing before
    value length =
        t.make({x.size[0], 1}, t.autocasts() ? element::fp32 : x.format, {"lengths of rows"});
    t.executes({&x, &*length}, device_work{});
    t.keep(by, length);
    t.result_of(by, length.get());
    by = t.add_node(node_kind::quotient, {&x, &*length});
    t.keep(by, x);
    t.keep(by, length);
    value result = t.make(x.size, wider(x.format, length->format), {"rows of length 1", none, &x});
    t.executes({&x, &*length, &*result});
    t.result_of(by, result.get());
    return result;
  }

  nn_module head_{};
  int scale_ = none;
  int bias_ = none;
};

}  // namespace gpuplan::eager
