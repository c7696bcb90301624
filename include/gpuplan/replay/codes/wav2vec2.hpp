#pragma once

// wav2vec 2.0 of Hugging Face's transformers 5.23 and HuBERT: convolutions over a waveform before
// an encoder. Private.

#include <gpuplan/replay/codes/bart.hpp>
#include <gpuplan/replay/eager/operators/sound.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

class wav2vec2_code final : public bart_code {
 public:
  using bart_code::bart_code;
  constexpr ~wav2vec2_code() override {}  // NOLINT(modernize-use-equals-default)

  constexpr void construct() override {
    const std::int64_t width = model.hidden_size;
    const audio_input& audio = model.audio;
    std::int64_t channels = 1;
    for (int at = 0; at < audio.convolutions(); ++at) {
      convolution made;
      made.weights = weights_of(audio.conv_dim[at], channels, audio.conv_kernel[at]);
      if (audio.normalizes_all || at == 0)
        made.norm = norm_module(audio.conv_dim[at], trains_all());
      convolutions_.push(made);
      channels = audio.conv_dim[at];
    }
    projected_norm_ = norm_module(channels, trains_all());
    projection_ = linear_module(operator_kind::project_in, width, channels, true, trains_all());
    build_places();
    first_norm_ = norm_module(width, trains_all());
    for (std::int64_t at = 0; at < layers; ++at) {
      const auto being_built = t.building_unit(at);
      blocks_.push(build_block(false, trains_block(at)));
    }
    initialize_places();
    const std::int64_t narrow = model.projection_dim;
    if (narrow != 0)
      projector_ = linear_module(operator_kind::projection, narrow, width, true, trains_head());
    classes_ = linear_module(
        operator_kind::head, model.num_classes, narrow != 0 ? narrow : width, true, trains_head());
  }

  constexpr void make_batch() override {
    const auto charged = t.charge(purpose::buffers);
    // what autocast will cast is given as it was read
    const number_format given_in =
        setup.precision.under_autocast ? number_format::fp32 : setup.precision.weights;
    waves_ = t.make({plan.micro_batch, setup.sequence_length}, element_of(given_in), {"waveforms"});
    sizes wanted{plan.micro_batch};
    if (aligns()) wanted = {plan.micro_batch, target_length()};
    labels_ = t.make(wanted, element::int64, {"labels"});
  }

  constexpr value forward() override {
    t.begin(moment::forward);
    if (aligns()) {  // the largest label, read back
      const value most = full(t, sizes{1}, element::int64);
      t.touch(1);
    }
    value seen;  // by projection and losses
    const value hidden = run_model(seen);
    t.begin(moment::loss);
    if (aligns()) {
      const value dropped = dropout(t, hidden, drops_classifier);
      const value logits = linear(dropped, classes_);
      return alignment_loss(logits);
    }
    const value narrow = linear(hidden, projector_);
    const value pooled = mean_over(t, narrow, 1);
    const value logits = linear(pooled, classes_);
    return cross_entropy(t, logits, labels_);
  }

 protected:
  struct convolution {
    nn_module weights, norm;
  };
  [[nodiscard]] constexpr bool aligns() const {
    return model.classified == classified_kind::aligned;
  }

  // -- construction

  constexpr nn_module weights_of(std::int64_t out, std::int64_t in, std::int64_t kernel) {
    nn_module made;
    made.weight = parameter({out, in, kernel}, trains_all());
    if (model.audio.conv_bias) made.bias = parameter(sizes{out}, trains_all());
    return made;
  }
  /// A convolution for positions, whose weight is a direction times a length for each place.
  constexpr void build_places() {
    const std::int64_t width = model.hidden_size;
    const std::int64_t kernel = model.audio.num_conv_pos_embeddings;
    const sizes whole{width, width / model.audio.num_conv_pos_embedding_groups, kernel};
    const int first = t.parameters.size();
    directions_ = parameter(whole, trains_all());
    place_bias_ = parameter(sizes{width}, trains_all());
    lengths_ = parameter({1, 1, kernel}, trains_all());
    touch(t, scratch_of_reduction(t.device, whole[0] * whole[1], kernel, false));
    // bias, lengths, directions
    const parameter_record direction = t.parameters[first];
    t.parameters[first] = t.parameters[first + 1];
    t.parameters[first + 1] = t.parameters[first + 2];
    t.parameters[first + 2] = direction;
    place_bias_ = first;
    lengths_ = first + 1;
    directions_ = first + 2;
  }

  /// Whoever initialises the convolution looks at its weight, which is computed each time.
  constexpr void initialize_places() {
    for (int looks = 0; looks < 4; ++looks) {
      const value weight = t.make(t.parameters[directions_].data.size, element::fp32);
      t.touch(t.parameters[lengths_].data.bytes());
    }
  }

  // -- the model

  constexpr value run_model(value& seen) {
    value hidden;
    {
      const sizes column{waves_->size[0], 1, waves_->size[1]};
      tensor leaf = waves_;
      set_contiguous(leaf, column);
      leaf.is_view = true;
      t.require_gradient(leaf);
      hidden = t.share(leaf);
    }
    for (int at = 0; at < convolutions_.size(); ++at) {
      for (tensor& none_there : beside) none_there = {};
      hidden = run_layer(layers + at, hidden);
    }
    {
      const value features = transpose(t, std::move(hidden), 1, 2);
      seen = norm(features, projected_norm_);
    }
    const value projected = linear(seen, projection_);
    if (model.audio.forgets_features) seen.drop();
    const value places = places_of(projected);
    hidden = add(t, projected, places);
    if (!norms_before()) hidden = norm(hidden, first_norm_);
    hidden = dropout(t, hidden, drops);
    for (std::int64_t at = 0; at < layers; ++at) {
      for (tensor& none_there : beside) none_there = {};
      hidden = run_layer(at, hidden);
    }
    if (norms_before()) hidden = norm(hidden, first_norm_);
    return hidden;
  }
  constexpr value places_of(const tensor& x) {
    const std::int64_t kernel = model.audio.num_conv_pos_embeddings;
    value hidden = transpose(t, x, 1, 2);
    {
      const value weight = weight_norm(t, t.parameter(directions_), t.parameter(lengths_));
      hidden = convolve_in_groups(
          t, hidden, weight, place_bias_, kernel / 2, model.audio.num_conv_pos_embedding_groups);
    }
    if (kernel % 2 == 0) hidden = slice(t, hidden, 2, hidden->size[2] - 1);
    hidden = keeping_input(t, hidden);
    return transpose(t, hidden, 1, 2);
  }

  [[nodiscard]] constexpr bool is_unit(int index) const override { return index < layers; }
  constexpr value layer(int index, const tensor& input) override {
    if (index >= layers) return convolution_layer(index - static_cast<int>(layers), input);
    const block& by = blocks_[index];
    attended made = attend_to(by.self, by.self.before_attention, input, {}, {});
    value hidden = std::move(made.output);
    if (norms_before()) {
      const value normed = norm(hidden, by.self.before_mlp);
      const value fed = fed_forward(by.self, normed);
      return add(t, hidden, fed);
    }
    const value fed = fed_forward(by.self, hidden);
    return norm(add(t, hidden, fed), by.self.before_mlp);
  }
  constexpr value fed_forward(const layer_modules& by, const tensor& x) {
    value hidden = linear(x, by.up);
    hidden = act(hidden);
    hidden = dropout(t, hidden, drops_activation);
    hidden = linear(hidden, by.down);
    return dropout(t, hidden, drops);
  }
  constexpr value convolution_layer(int at, const tensor& x) {
    const convolution& by = convolutions_[at];
    value hidden =
        convolve_1d(t, x, by.weights.weight, by.weights.bias, model.audio.conv_stride[at], 0);
    if (model.audio.normalizes_all) {
      hidden = transpose(t, hidden, 1, 2);
      hidden = norm(hidden, by.norm);
      hidden = transpose(t, hidden, 1, 2);
    } else if (at == 0) {
      hidden = channel_norm(t, hidden, by.norm.weight, by.norm.bias);
    }
    return keeping_input(t, hidden);
  }

  /// Connectionist temporal classification, of labels that are all there.
  constexpr value alignment_loss(const tensor& logits) {
    const std::int64_t batch = labels_->size[0];
    const sizes all = labels_->size;
    const sizes each{batch};
    const value attended = full(t, {batch, setup.sequence_length}, element::int64);
    value lengths = compute(t, attended, each, element::int64);
    for (int at = 0; at < model.audio.convolutions(); ++at) {
      value one = compute(t, lengths, each, element::int64);
      one = compute(t, one, each, element::int64);
      lengths = compute(t, one, each, element::int64);
    }
    value are_there;
    {
      const value one = full(t, all, element::boolean);
      const value other = full(t, all, element::boolean);
      are_there = full(t, all, element::boolean);
    }
    const value counts = compute(t, are_there, each, element::int64);
    t.touch(8 * all.count());
    value targets;
    {
      const int count = t.new_storage(4, {"number of labels"});
      t.touch(1);
      const value where = t.make({all.count(), 2}, element::int64);
      t.touch(tile_states(all.count(), 1024, 16));
      t.release(count);
      targets = t.make(sizes{all.count()}, element::int64);
    }
    const value logarithms = log_softmax_in_fp32(logits);
    const value turned = transpose(t, logarithms, 0, 1);
    return ctc_loss(t, turned, targets, counts, all[1]);
  }
  constexpr value log_softmax_in_fp32(const tensor& logits) {
    const value wide = cast(t, logits, element::fp32);
    return log_softmax(t, wide);
  }

  growing_array<convolution> convolutions_{};
  nn_module projected_norm_{}, projection_{}, first_norm_{}, projector_{}, classes_{};
  int directions_ = none;
  int lengths_ = none;
  int place_bias_ = none;
  value waves_{};
};

}  // namespace gpuplan::eager
