#pragma once

// Frozen matrices stored in blocks of four-bit elements, as bitsandbytes 0.50 stores and multiplies
// them. Private.

#include <gpuplan/operators.hpp>
#include <gpuplan/replay/eager/node_backward.hpp>
#include <gpuplan/replay/eager/operators.hpp>
#include <gpuplan/replay/eager/tape.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>

namespace gpuplan::eager {

[[nodiscard]] constexpr element element_of(number_format format) {
  return format == number_format::bf16   ? element::bf16
         : format == number_format::fp16 ? element::fp16
                                         : element::fp32;
}

class quantised_weights {
 public:
  constexpr quantised_weights(tape& on, const training_setup& of) : t_(on), setup_(of) {
    backward_.owner = this;
  }
  quantised_weights(const quantised_weights&) = delete;
  quantised_weights& operator=(const quantised_weights&) = delete;

  [[nodiscard]] constexpr bool is_on() const {
    return setup_.trains.what == training::adapters && base().block != 0;
  }
  /// All linear layers but heads.
  [[nodiscard]] constexpr bool hold(operator_kind kind) const {
    return is_on() && kind != operator_kind::head && kind != operator_kind::head_dense;
  }

  /// Whether a parameter on the device is stored in blocks,
  [[nodiscard]] constexpr bool is_in_blocks(const tensor& data) const {
    return t_.storages[data.storage].bytes != data.bytes();
  }
  /// as elements that hold no numbers.
  [[nodiscard]] constexpr element stored_as() const {
    return base().in_weights_format ? element_of(setup_.precision.weights) : element::uint8;
  }

  /// Stores a matrix of `out x in` in blocks: a parameter.
  constexpr int add(std::int64_t out, std::int64_t in) {
    const int place = t_.reserve_parameter(false);
    const std::int64_t count = out * in;
    const std::int64_t blocks = ceil_div(count, base().block);
    const element format = element_of(setup_.precision.weights);
    t_.parameters[place].matrix = {out, in};
    // Ranks share elements in the weights' format, each of which holds several; scales are whole.
    const bool is_shared = t_.gathers();
    if (is_shared) t_.build_parameter(place, {(count + 1) / (2 * bytes_of(format)), 1}, format);
    const auto charged = t_.charge(purpose::weights);
    const value whole = t_.make({out, in}, format);
    value scales = t_.make({blocks}, element::fp32, {"scales of blocks"});
    if (!is_shared) {
      tensor& data = t_.parameters[place].data;
      data = *whole;
      data.storage = t_.new_storage(ceil_div(count, 2), {"weight in 4 bits", place});
    }
    keep(64);  // the values of the 16 codes
    {
      const value sizes_of_values = t_.make({16}, element::fp32);
      const value largest = t_.make({1}, element::fp32);
    }
    if (base().scale_block == 0) {
      if (const int kept = scales.take().storage; !t_.has_memory(kept)) t_.take_again(kept);
    } else {
      keep(4);  // the scales' mean
      touch(t_, scratch_of_reduction(t_.device, blocks, 1, true));
      const value shifted = t_.make({blocks}, element::fp32);
      if (!has_values_of_scales_ && !is_shared) keep(1024);
      has_values_of_scales_ = true;
      keep(4 * ceil_div(blocks, base().scale_block), "scales of scales");
      keep(blocks, "scales of blocks in 8 bits");
      keep(1024);  // the values of the scales' 256 codes
    }
    return place;
  }

  /// Casts what is not in blocks to fp32 (prepare_model_for_kbit_training), but where ranks share
  /// it.
  constexpr void cast_rest() {
    if (!is_on() || !base().rest_in_fp32 || t_.gathers()) return;
    for (int at = 0; at < t_.parameters.size(); ++at) {
      parameter_record& parameter = t_.parameters[at];
      if (parameter.data.defined() && parameter.matrix.rank == 0)
        t_.convert(parameter.data, element::fp32);
    }
    t_.empty_cache();
  }

  /// As a layer multiplies: by the matrix in full, for as long as that takes.
  constexpr value linear(const tensor& input, int weight, int bias) {
    const element compute = element_of(setup_.precision.compute);
    const sizes matrix = t_.parameters[weight].matrix;
    const value x = cast(t_, input, compute);
    if (bias != none && t_.parameters[bias].data.format != compute)
      t_.convert(t_.parameters[bias].data, compute);
    const tensor added = bias == none ? tensor{} : t_.parameter(bias);
    const int by = t_.add_node(backward_, {&*x, &added});
    if (node* made = t_.at(by)) made->parameter = weight;
    t_.note(by, {weight});
    value result;
    {
      value scales, shifted;
      if (base().scale_block != 0) {
        scales = t_.make({blocks_of(matrix)}, element::fp32);
        shifted = t_.make({blocks_of(matrix)}, element::fp32);
      }
      const value whole = t_.make(matrix, compute, {"weight in full", weight});
      sizes wanted = x->size;
      wanted[wanted.rank - 1] = matrix[0];
      result = t_.make(wanted, compute, {"output", weight});
      t_.touch_workspace(bias != none);
      t_.count_product({x->count() / matrix[1], matrix[1], matrix[0]},
                       {&*x, &*whole, &added, &*result});
    }
    t_.result_of(by, result.get());
    return cast(t_, result, input.format);
  }
  /// dequantize_4bit
  [[nodiscard]] constexpr value whole(int weight) const {
    const parameter_record& stored = t_.parameters[weight];
    value scales;
    if (base().scale_block != 0) scales = t_.make({blocks_of(stored.matrix)}, element::fp32);
    return t_.make(stored.matrix, stored.data.format, {"weight in full", weight});
  }

 private:
  struct matmul_backward final : own_backward {
    const quantised_weights* owner = nullptr;

    constexpr void run(tape& t, int by, const value* incoming, gradients& out) const override {
      const tensor& g = *incoming[0];
      if (t.nodes[by].input[1].node != none) {
        sizes rest = g.size;
        for (int at = 0; at + 1 < rest.rank; ++at) rest[at] = rest[at + 1];
        --rest.rank;
        out.of[1] = t.make(rest, g.format);
        const device_work work =
            touch(t, scratch_of_reduction(t.device, g.size[0], rest.count(), false));
        t.executes({&g, &*out.of[1]}, work);
      }
      if (t.nodes[by].input[0].node == none) return;
      const int weight = static_cast<int>(t.nodes[by].argument[0]);
      const value matrix = owner->whole(weight);
      const value cast_matrix = cast(t, matrix, g.format);
      sizes wanted = g.size;
      wanted[wanted.rank - 1] = matrix->size[1];
      out.of[0] = t.make(wanted, g.format);
      t.touch_workspace();
      t.count_backward({g.count() / matrix->size[0], matrix->size[0], matrix->size[1]},
                       {&g, &*cast_matrix, &*out.of[0]});
    }
  };

  [[nodiscard]] constexpr const quantised_base& base() const { return setup_.trains.adapters.base; }
  [[nodiscard]] constexpr std::int64_t blocks_of(const sizes& matrix) const {
    return ceil_div(matrix.count(), base().block);
  }
  // To the end, and whole on each rank.
  constexpr void keep(std::int64_t bytes, const char* as = "code values") {
    const auto here = t_.with_memory();
    static_cast<void>(t_.new_storage(bytes, {as}));
  }

  tape& t_;
  const training_setup& setup_;
  matmul_backward backward_{};
  bool has_values_of_scales_ = false;
};

}  // namespace gpuplan::eager
