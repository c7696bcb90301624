#pragma once

// Qwen2-VL, Qwen2.5-VL and Qwen3-VL. Transcribed from transformers 5.23, models/qwen2_vl,
// qwen2_5_vl, qwen3_vl and vision_utils.py. Private.

#include <gpuplan/replay/codes/composites/composite.hpp>
#include <gpuplan/replay/eager/operators/pieces.hpp>
#include <gpuplan/replay/eager/operators/recurrences.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

/// A tower of images of any size, whose patches are rows beneath each other: (patches, width).
class qwen_vl_tower_code final : public hugging_face_code {
 public:
  using hugging_face_code::hugging_face_code;
  constexpr ~qwen_vl_tower_code() override {}  // NOLINT(modernize-use-equals-default)

  constexpr void construct() override {}  // a part builds `construct_tower`
  constexpr void make_batch() override {}
  constexpr value forward() override { return {}; }

  /// The patches of `joined` neighbours become one token, through two layers as wide as `to` says.
  constexpr void construct_tower(const connector& to, std::int64_t joined) {
    const image_input& image = model.image;
    const std::int64_t width = model.hidden_size;
    joined_ = joined;
    patches_.weight =
        parameter({width, image.num_channels, image.patch_size, image.patch_size}, trains_all());
    if (image.patch_bias) patches_.bias = parameter(sizes{width}, trains_all());
    if (model.position_rows != 0)
      positions_ = table_module(model.position_rows, width, trains_all()).weight;
    const auto charged = t.charge(purpose::buffers);
    for (value& table : frequencies_) {
      table = t.make(sizes{model.query_dim() / 4}, element::fp32);
      add_buffer(table);
    }
    build_layers();
    mergers_.push(build_merger(to, width));
    for (std::int64_t at = 0; at < image.tapped.count; ++at)
      mergers_.push(build_merger(to, joined * width));
  }

  /// What a tower makes: the states behind its layers, tokens of them, and those of other layers.
  struct features {  // NOLINT(readability-identifier-naming): the index of an implicit move
    value states{};
    value tokens{};
    held_tensors tapped;

    constexpr explicit features(tape& t) : tapped(t) {}
  };
  constexpr void see(const tensor& pixels, features& made) {
    const std::int64_t patches = pixels.size[0];
    const std::int64_t images = plan.micro_batch;
    value shares, numbers;  // of the table of positions, for each patch the four nearest
    if (positions_ != none) {
      numbers = full(t, {patches, 4}, element::int64);
      shares = full(t, {patches, 4}, element::fp32);
    }
    const value places = full(t, {patches, 2}, element::int64);
    const value ends = full(t, sizes{images + 1}, element::int32);
    value window_ends;
    list_pieces();
    if (windows_.size() != 0)
      window_ends = full(t, sizes{1 + images * all_windows()}, element::int32);
    value hidden = embed(pixels, patches);
    value from_table;
    if (positions_ != none) {
      from_table = interpolated(numbers, shares);
      hidden = add(t, hidden, cast(t, from_table, hidden->format));
    } else if (windows_.size() != 0) {
      hidden = in_order_of_windows(std::move(hidden));
    }
    value cosines, sines;
    rotary_tables(places, cosines, sines);
    if (windows_.size() != 0) {
      value turned = in_order_of_windows(cosines);
      value other = in_order_of_windows(sines);
      cosines = std::move(turned);
      sines = std::move(other);
    }
    for (std::int64_t at = 0; at < layers; ++at) {
      beside[the_cosines] = cosines;
      beside[the_sines] = sines;
      beside[the_ends] = in_windows(at) ? window_ends : ends;
      hidden = run_layer(at, hidden);
      for (std::int64_t which = 0; which < model.image.tapped.count; ++which)
        if (model.image.tapped.of[which] == at)
          made.tapped.push(merge(hidden, mergers_[static_cast<int>(1 + which)], true));
    }
    made.tokens = merge(hidden, mergers_[0], false);
    if (windows_.size() != 0) made.tokens = reordered(t, made.tokens);
    made.states = std::move(hidden);
  }

 protected:
  static constexpr int the_cosines = 1;
  static constexpr int the_sines = 2;
  static constexpr int the_ends = 3;  // of the pieces of attention
  struct merger {
    nn_module norm, first, second;
  };

  // -- construction

  constexpr void build_layers() {
    for (std::int64_t at = 0; at < layers; ++at) {
      const auto being_built = building_layer(at);
      const bool trains = trains_layer(at);
      layer_modules made =
          built(trains, {&its::before_attention, &its::before_mlp, &its::qkv, &its::out});
      if (model.gated_mlp) build(made, trains, {&its::gate});
      build(made, trains, {&its::up, &its::down});
      layers_.push(made);
    }
  }
  constexpr merger build_merger(const connector& to, std::int64_t normed_width) {
    merger made;
    made.norm.weight = parameter(sizes{normed_width}, to.trains);
    if (model.norm_bias) made.norm.bias = parameter(sizes{normed_width}, to.trains);
    const auto layer = [&](int at) {
      const std::int64_t out = to.widths[at + 1];
      if (to.adapters.rank == 0) return linear_module(out, to.widths[at], true, to.trains);
      return linear_module(operator_kind::projection, out, to.widths[at], true, to.trains);
    };
    made.first = layer(0);
    made.second = layer(1);
    return made;
  }
  constexpr value normed(argument given, const nn_module& by) override {
    if (model.norm == norm_kind::layer_norm) return hugging_face_code::normed(given, by);
    const held x(given);
    return eager_rms_norm(x, by, true);
  }

  // -- how patches see each other

  /// Of a side, joined patches that a window has.
  [[nodiscard]] constexpr std::int64_t window_side(std::int64_t side_of_joined) const {
    return model.image.window_size / side_of_joined / model.image.patch_size;
  }
  [[nodiscard]] constexpr std::int64_t side_of_joined() const {
    std::int64_t side = 1;
    while (side * side < joined_) ++side;
    return side;
  }
  [[nodiscard]] constexpr bool in_windows(std::int64_t layer) const {
    return model.image.window_size != 0 && !model.image.whole.has(layer);
  }
  /// get_vision_window_index: an image's windows, those without patches too.
  [[nodiscard]] constexpr std::int64_t all_windows() const {
    const std::int64_t side = side_of_joined();
    const std::int64_t window = window_side(side);
    return (model.image.grid_height / side / window + 1) *
           (model.image.grid_width / side / window + 1);
  }
  constexpr void list_pieces() {
    const image_input& image = model.image;
    whole_.resize_down(0);
    windows_.resize_down(0);
    for (std::int64_t at = 0; at < plan.micro_batch; ++at) whole_.push(image.patches());
    if (image.window_size == 0) return;
    const std::int64_t side = side_of_joined();
    const std::int64_t window = window_side(side);
    const auto part = [&](std::int64_t all, std::int64_t from) {
      return at_most(window, all / side - from);
    };
    for (std::int64_t at = 0; at < plan.micro_batch; ++at)
      for (std::int64_t y = 0; y < image.grid_height / side; y += window)
        for (std::int64_t x = 0; x < image.grid_width / side; x += window)
          windows_.push(joined_ * part(image.grid_height, y) * part(image.grid_width, x));
  }

  // -- the model

  constexpr value embed(const tensor& pixels, std::int64_t patches) {
    const image_input& image = model.image;
    const value images = cast(t, pixels, t.format_of(patches_.weight));
    const value apart =
        view(t, images, {patches, image.num_channels, image.patch_size, image.patch_size});
    value rows = convolve(t, apart, patches_.weight, patches_.bias);
    rows = view(t, rows, {patches, model.hidden_size});
    // Layers that are computed again want a gradient of what the module of the patches returns.
    if (setup.recompute == recompute_mode::full && setup.trains.what != training::full &&
        positions_ == none)
      t.require_gradient(rows.get());
    return rows;
  }
  constexpr value interpolated(const tensor& numbers, const tensor& shares) {
    const value each = view(t, shares, {shares.size[0], 4, 1});
    return sum_over(t, multiply(t, embedding(t, numbers, positions_), each), 1);
  }
  constexpr value in_order_of_windows(argument given) {
    const held x(given);
    const value joined = view(t, x, {x.size[0] / joined_, joined_ * x.size[1]});
    return view(t, reordered(t, joined), x.size);
  }
  /// Of height and width a quarter of a head's angles each, twice.
  constexpr void rotary_tables(const tensor& places, value& cosines, value& sines) {
    const std::int64_t patches = places.size[0];
    const std::int64_t quarter = model.query_dim() / 4;
    value angles;
    {
      const value numbers = compute(t, places, {patches, 2, 1}, element::fp32);
      const value inverse = cast(t, frequencies_[0], element::fp32);
      angles = compute(t, {&*numbers, &*inverse}, {patches, 2, quarter}, element::fp32);
    }
    const auto of_angles = [&] {
      value made = compute(t, angles, angles->size, element::fp32);
      return compute(t, std::move(made), angles->size, element::fp32);
    };
    const auto recomposed = [&](const tensor& of) {
      const value both = compute(t, of, {patches, 2 * quarter}, element::fp32);
      return compute(t, both, {patches, 4 * quarter}, element::fp32, {"rotary table"});
    };
    const value cosine = of_angles();
    const value sine = of_angles();
    cosines = recomposed(cosine);
    sines = recomposed(sine);
  }
  constexpr value merge(const tensor& hidden, const merger& by, bool norms_joined) {
    const std::int64_t width = joined_ * hidden.size[1];
    const sizes joined{hidden.count() / width, width};
    value x;
    if (norms_joined)
      x = norm(view(t, hidden, joined), by.norm);
    else
      x = view(t, norm(hidden, by.norm), joined);
    return linear(gelu(t, linear(x, by.first)), by.second);
  }
  constexpr value layer(int index, const tensor& input) override {
    const layer_modules& by = layers_[index];
    value x =
        add(t,
            input,
            attend_to(by, norm(input, by.before_attention), in_windows(index) ? windows_ : whole_));
    value fed;
    {
      const value normed_x = norm(x, by.before_mlp);
      fed = mlp(by, normed_x);
    }
    return add(t, x, fed);
  }
  constexpr value attend_to(const layer_modules& by,
                            argument given,
                            const growing_array<std::int64_t>& lengths) {
    const held x(given);
    const std::int64_t patches = x.size[0];
    const std::int64_t heads = model.num_attention_heads;
    const std::int64_t head = model.query_dim();
    value q, k, v;
    {
      const value all =
          permute(t, view(t, linear(x, by.qkv), {patches, 3, heads, head}), 1, 0, 2, 3);
      const int parts = split(t, all);
      q = part_at(t, parts, all, 0, 0);
      k = part_at(t, parts, all, 0, 1);
      v = part_at(t, parts, all, 0, 2);
    }
    rotate(q, k);
    for (value* one : {&q, &k, &v}) {
      *one = transpose(t, *one, 0, 1);
      *one = view_with_batch(*one);
    }
    const value counted = full(t, sizes{lengths.size()}, element::int32);
    held_tensors of_q(t), of_k(t), of_v(t), made(t);
    cut(t, q, 2, lengths, of_q);
    cut(t, k, 2, lengths, of_k);
    cut(t, v, 2, lengths, of_v);
    for (int at = 0; at < lengths.size(); ++at)
      made.push(std::move(attend(of_q[at], of_k[at], of_v[at], {}, false, {}).output));
    value joined = join(t, made, 1);
    joined = view(t, std::move(joined), {patches, heads * head});
    return linear(joined, by.out);
  }
  /// unsqueeze(0)
  constexpr value view_with_batch(argument given) {
    const held of(given);
    tensor seen = of;
    seen.size = {1, of.size[0], of.size[1], of.size[2]};
    seen.stride[0] = of.size[0] * of.stride[0];
    for (int at = 0; at < 3; ++at) seen.stride[at + 1] = of.stride[at];
    const int by = t.add_node(unsqueeze_node, {&of});
    return seen_by(t, by, seen);
  }
  static constexpr void unsqueeze_backward(const node_backward& b) {
    tensor seen = b.g;
    seen.size = {b.g.size[1], b.g.size[2], b.g.size[3]};
    for (int at = 0; at < 3; ++at) seen.stride[at] = b.g.stride[at + 1];
    seen.is_view = true;
    b.out[0] = b.t.share(seen);
  }
  static constexpr node_kind unsqueeze_node{"view", &unsqueeze_backward};

  // apply_rotary_pos_emb_vision: in fp32
  constexpr void rotate(value& q, value& k) {
    const value own_q = cast(t, q, element::fp32);
    const value own_k = cast(t, k, element::fp32);
    const auto turned = [&](const tensor& x) {
      const auto table = [&](int which) {
        tensor seen = beside[which];
        set_contiguous(seen, {seen.size[0], 1, seen.size[1]});
        return seen;
      };
      const value straight = multiply(t, x, table(the_cosines));
      return add(t, straight, multiply(t, rotate_half(x), table(the_sines)));
    };
    value turned_q = turned(own_q);
    const value turned_k = turned(own_k);
    turned_q = cast(t, turned_q, q->format);
    k = cast(t, turned_k, k->format);
    q = std::move(turned_q);
  }

  nn_module patches_{};
  int positions_ = none;
  std::int64_t joined_ = 1;
  value frequencies_[2]{};
  growing_array<layer_modules> layers_{};
  growing_array<merger> mergers_{};
  growing_array<std::int64_t> whole_{}, windows_{};  // patches of each piece of attention
};

/// The language model, whose tokens have a place in time, height and width.
class qwen_vl_language_code final : public hugging_face_decoder {
 public:
  constexpr qwen_vl_language_code(tape& on, const training_setup& of, const batch_plan& with)
      : hugging_face_decoder(on, of, with) {}
  constexpr ~qwen_vl_language_code() override {}  // NOLINT(modernize-use-equals-default)

  const held_tensors* tapped = nullptr;  // what the first layers' results get added,
  tensor places{};                       // there

  /// No layer comes any more.
  constexpr void end_layers() {
    tapped = nullptr;
    places = {};
    before_.drop();
  }

 protected:
  constexpr void rotary_tables(const tensor& inverse,
                               element format,
                               value& cosines,
                               value& sines) override {
    const std::int64_t rows = plan.micro_batch;
    const std::int64_t tokens = setup.sequence_length;
    const std::int64_t half = rotary_width() / 2;
    const sizes all{3, rows, tokens, half};
    value angles;
    {
      const value positions = full(t, {3, rows, tokens, 1}, element::fp32);
      const value own = cast(t, inverse, element::fp32);
      angles = compute(t, {&*positions, &*own}, all, element::fp32);
    }
    const auto of_angles = [&] {
      value made = compute(t, angles, all, element::fp32);
      return compute(t, std::move(made), all, element::fp32);
    };
    value cosine = of_angles();
    value sine = of_angles();
    const auto recomposed = [&](value& of) {
      value chosen;
      if (setup.model.qk_norm == qk_norm_scope::none)  // Qwen3-VL's are chosen in place
        chosen = compute(t, of, {rows, tokens, half}, element::fp32);
      of = compute(t, of, {rows, tokens, 2 * half}, element::fp32, {"rotary table"});
    };
    recomposed(sine);
    recomposed(cosine);
    cosines = cast(t, cosine, format);
    sines = cast(t, sine, format);
  }
  // _deepstack_process; the layer's result stays until the next one's
  constexpr void add_behind(std::int64_t at, value& hidden) override {
    before_.drop();
    if (tapped == nullptr || at >= tapped->size()) return;
    before_ = t.share(hidden);
    const tensor& seen = (*tapped)[static_cast<int>(at)];
    const value more = cast(t, seen, hidden->format);
    value all = clone(t, hidden);
    const value local = add(t, rows_of_mask(t, all, places, more->size[0]), more);
    hidden = put_rows(t, all, places, local);
  }

  value before_{};
};

// Qwen2VLForConditionalGeneration, Qwen2_5_VLForConditionalGeneration,
// Qwen3VLForConditionalGeneration
class qwen_vl_code final : public composite_code {
 public:
  constexpr qwen_vl_code(tape& on, const training_setup& of, const batch_plan& with)
      : composite_code(on, of, with), tower_(on, of, with, 0), language_(on, of, with, 1) {}
  constexpr ~qwen_vl_code() override {}  // NOLINT(modernize-use-equals-default)

  constexpr void construct() override {
    add_parts({&tower_.code, &language_.code});
    tower_.code.construct_tower(part(0).next, part(0).joined_patches);
    language_.code.construct_stack();
    language_.code.construct_head();
  }
  constexpr void make_batch() override {
    make_token_batch();
    const image_input& image = part(0).model.image;
    const auto charged = t.charge(purpose::buffers);
    const number_format given_in =
        setup.precision.under_autocast ? number_format::fp32 : setup.precision.weights;
    const std::int64_t row = image.num_channels * image.patch_size * image.patch_size;
    images_ = t.make({images() * image.patches(), row}, element_of(given_in), {"images"});
    grids_ = t.make({images(), 3}, element::int64);
    make_token_numbers();  // which tokens are images'
    if (part(0).masks_text) make_token_numbers();
    shifts_ = t.make({plan.micro_batch, 1}, element::int64);  // of a step before
    language_.code.reads_whole_mask = part(0).masks_text;
    language_.code.counts_positions = false;
  }
  constexpr value forward() override {
    t.begin(moment::forward);
    const value hidden = run_model();
    t.begin(moment::loss);
    const value logits = language_.code.logits_of(hidden);
    return causal_lm_loss(logits, labels_);
  }

 protected:
  [[nodiscard]] constexpr std::int64_t images() const {
    return plan.micro_batch * part(0).sequences;
  }
  // Qwen2VLModel
  constexpr value run_model() {
    qwen_vl_tower_code::features seen(t);
    value embeds = language_.code.embed(ids_);
    tower_.code.see(given_input, seen);
    const value tokens = cast(t, rearranged(t, seen.tokens, seen.tokens->size), embeds->format);
    const value of_videos = full(t, ids_->size, element::boolean);
    const value mask = placeholders(ids_);
    embeds = masked_scatter(t, embeds, mask, tokens);
    held_tensors tapped(t);
    for (int at = 0; at < seen.tapped.size(); ++at)
      tapped.push(rearranged(t, seen.tapped[at], seen.tapped[at].size));
    const value positions = full(t, {3, plan.micro_batch, setup.sequence_length}, element::int64);
    {
      value shifts = t.charge(purpose::buffers)->make({plan.micro_batch, 1}, element::int64);
      shifts_ = std::move(shifts);
    }
    language_.code.tapped = &tapped;
    language_.code.places = mask;
    value hidden = language_.code.run_embedded(t.share(embeds));
    language_.code.end_layers();
    return hidden;
  }
  constexpr value layer(int, const tensor&) override { return {}; }

  part_code<qwen_vl_tower_code> tower_;
  part_code<qwen_vl_language_code> language_;
  value grids_{}, shifts_{};
};

}  // namespace gpuplan::eager
