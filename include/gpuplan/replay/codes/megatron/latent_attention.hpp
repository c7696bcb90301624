#pragma once

// Megatron-Core's latent attention (MLASelfAttention) by Transformer Engine, with rotary positions
// in fused kernels. Private.

#include <gpuplan/replay/codes/megatron/attention.hpp>

#include <cstdint>

namespace gpuplan::eager {

class megatron_latent_attention : public megatron_attention {
 public:
  constexpr megatron_latent_attention(tape& on, const training_setup& of, const batch_plan& with)
      : megatron_attention(on, of, with) {
    gather_rows_backward_.code = this;
  }
  constexpr ~megatron_latent_attention() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  struct latent_modules {
    nn_module norm{}, proj{}, query_down{}, query_norm{}, query_up{}, down{}, up_norm{}, up{};
    int table = none;
  };

  constexpr void make_latent_attention(latent_modules& made) {
    const latent_attention& latent = model.mla;
    const std::int64_t width = model.hidden_size;
    const std::int64_t own_heads = model.num_attention_heads / tp_;
    made.norm = norm_of(width);
    {
      // what every attention builds, for heads of the model's width
      const std::int64_t plain = model.hidden_size / model.num_attention_heads;
      const value of_any = t.charge(purpose::weights)->make({width, own_heads * plain}, half_);
      made.table = make_tables();
      made.proj = parallel_linear(width, own_heads * model.value_dim(), model.attention_out_bias);
    }
    const std::int64_t queries = own_heads * model.query_dim();
    if (latent.q_lora_rank != 0) {
      made.query_down = parallel_linear(latent.q_lora_rank, width, false);
      made.query_norm = norm_of(latent.q_lora_rank);
      made.query_up = parallel_linear(queries, latent.q_lora_rank, false);
    } else {
      made.query_up = parallel_linear(queries, width, false);
    }
    made.down = parallel_linear(latent.kv_lora_rank + latent.qk_rope_head_dim, width, false);
    made.up_norm = norm_of(latent.kv_lora_rank);
    made.up = parallel_linear(
        own_heads * (latent.qk_nope_head_dim + latent.v_head_dim), latent.kv_lora_rank, false);
    for (const nn_module* each : {&made.norm,
                                  &made.proj,
                                  &made.query_down,
                                  &made.query_norm,
                                  &made.query_up,
                                  &made.down,
                                  &made.up_norm,
                                  &made.up})
      list(*each);
  }
  /// The tables follow the model into its format.
  constexpr void cast_tables() {
    for (int at = 0; at < tables_.size(); ++at) {
      t.convert(tables_[at].cosines, half_);
      t.convert(tables_[at].sines, half_);
    }
  }

  constexpr value latent_attention_of(const tensor& x,
                                      const latent_modules& by,
                                      const tensor& mask) {
    const latent_attention& latent = model.mla;
    const std::int64_t own_heads = model.num_attention_heads / tp_;
    fit_tables(tables_[by.table]);
    value query;
    value latent_query;
    if (by.query_down.weight != none)
      latent_query = engine_matmul(x, {}, by.query_down, false, {});
    else
      latent_query = t.share(x);
    const value both = engine_matmul(x, {}, by.down, false, {});
    const int parts = split(t, both);
    const value narrow = part(t, parts, both, 2, latent.kv_lora_rank, 0);
    value positions = part(t, parts, both, 2, latent.qk_rope_head_dim, 1);
    if (splits_) positions = gather_rows(positions);
    growing_array<int> made;
    const bool is_again = recomputes(&recomputed_modules::latent_projections);
    value key, val;
    {
      const auto listed = t.list_made(made, is_again);
      query = engine_matmul(latent_query, by.query_norm, by.query_up, false, {splits_, false});
      latent_query.drop();
      const std::int64_t sequence = query->size[0];
      const std::int64_t batch = query->size[1];
      query = view(t, query, {sequence, batch, own_heads, model.query_dim()});
      value wide;
      {
        const value copy = contiguous(t, narrow);
        wide = engine_matmul(copy, by.up_norm, by.up, false, {splits_, false});
      }
      query = pass_through(query);  // rotated in place
      rotate_keys(wide, positions, {sequence, batch, own_heads, 0}, key, val);
    }
    value context;
    if (recomputes(&recomputed_modules::core_attention)) {
      const tensor inputs[] = {*query, *key, *val, mask};
      context = checkpoint(inputs, 4, core_region, core_region);
    } else {
      context = attend(query, key, val, mask);
    }
    if (is_again) context = drop_until_backward(made, context);
    if (setup.offloads.core_attention) {
      growing_array<int> read;
      for (const int one : {query->storage, key->storage, val->storage}) list_once(read, one);
      context = drop_until_backward(read, context);
    }
    return project_out(context, by.proj);
  }

 private:
  // Of YaRN: angles of the first positions, then of the sequence's own.
  struct table {
    tensor frequencies[3]{tensor{}, tensor{}, tensor{}};
    tensor angles{};  // of the sequence's positions, once they are there
    tensor cosines{}, sines{};
  };
  static constexpr std::int64_t first_positions = 4096;

  constexpr int make_tables() {
    const auto charged = t.charge(purpose::buffers);
    table made;
    const sizes half{model.mla.qk_rope_head_dim / 2};
    for (tensor& one : made.frequencies) one = t.make(half, element::fp32).take();
    static_cast<void>(make_tables(made, first_positions, element::fp32));
    return tables_.push(made);
  }
  constexpr value make_tables(table& of, std::int64_t positions, element format) {
    const sizes all{positions, model.mla.qk_rope_head_dim};
    value angles;
    {
      const value numbers = t.make(sizes{positions}, element::fp32);
      const value products = t.make({positions, all[1] / 2}, element::fp32);
      angles = t.make(all, element::fp32);
    }
    for (tensor* one : {&of.cosines, &of.sines}) {
      value made = cast(t, compute(t, t.make(all, element::fp32), all, element::fp32), format);
      t.release(one->storage);
      *one = made.take();
    }
    return angles;
  }
  constexpr void fit_tables(table& of) {
    if (of.angles.defined()) return;
    const auto charged = t.charge(purpose::buffers);
    of.angles = make_tables(of, setup.sequence_length, half_).take();
  }

  constexpr value gather_rows(const tensor& part_of_rows) {
    const int index = t.add_node(gather_rows_backward_, {&part_of_rows});
    sizes whole = part_of_rows.size;
    whole[0] *= tp_;
    const value together = contiguous_copy(part_of_rows);
    value result = t.make(whole, half_);
    t.result_of(index, result.get());
    return result;
  }
  // Without a place in the graph.
  constexpr value contiguous_copy(const tensor& of) {
    if (of.is_contiguous()) return t.detach(of);
    return t.make(of.size, of.format);
  }
  struct gather_rows_backward final : own_backward {
    megatron_latent_attention* code = nullptr;
    constexpr void run(tape& on, int, const value* incoming, gradients& out) const override {
      sizes rows = incoming[0]->size;
      rows[0] /= code->tp_;
      out.of[0] = on.make(rows, incoming[0]->format);
    }
  };
  // Keys of the wide part and the rotated positions; the values.
  constexpr void rotate_keys(
      const tensor& wide, const tensor& positions, const sizes& like, value& key, value& val) {
    const int index = t.add_node(rotate_keys_backward_, {&wide, &positions});
    sizes wanted = like;
    wanted[3] = model.query_dim();
    key = t.make(wanted, half_);
    wanted[3] = model.value_dim();
    val = t.make(wanted, half_);
    t.result_of(index, key.get(), 0);
    t.result_of(index, val.get(), 1);
  }
  struct rotate_keys_backward final : own_backward {
    constexpr void run(tape& on, int index, const value* incoming, gradients& out) const override {
      for (int which = 0; which < 2; ++which) {
        const edge to = on.nodes[index].input[which];
        out.of[which] = on.make(on.nodes[to.node].size[to.output], incoming[0]->format);
      }
    }
  };

  growing_array<table> tables_{};
  gather_rows_backward gather_rows_backward_{};
  rotate_keys_backward rotate_keys_backward_{};
};

}  // namespace gpuplan::eager
