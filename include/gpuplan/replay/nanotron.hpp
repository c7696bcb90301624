#pragma once

// What nanotron's training takes from a device, allocation by allocation. At run time.

#include <gpuplan/batch.hpp>
#include <gpuplan/catalog/frameworks/nanotron.hpp>
#include <gpuplan/detail/flaws.hpp>
#include <gpuplan/parallelism.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/replay/caching_allocator.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/training_setup.hpp>
#include <gpuplan/units.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

namespace gpuplan {

/// How many tensors that NCCL reads or writes wait for their exchange once nobody holds them:
/// `record_stream` keeps their blocks until the device is there, and the host runs ahead by 1,024
/// launches at most, which are about 12 layers of four exchanges each. A pipeline's host waits for
/// the device where it reads what the next stage sends, so how far it gets grows with the forward
/// passes between two backwards, and falls as a rank's part of the work does. Both numbers are
/// fitted to nanotron's 891 published steps, which are 5 % off in the middle with them, 11 with 0.
[[nodiscard]] constexpr std::int64_t nanotron_late_frees(const parallelism& ranks) {
  constexpr std::int64_t most = 48;
  constexpr std::int64_t of_pass = 96;  // among the ranks that divide a layer
  const std::int64_t passes = ranks.pipeline_parallel - 1;
  if (passes == 0 || passes > ranks.tensor_parallel) return most;
  const std::int64_t some = of_pass * passes / ranks.tensor_parallel;
  return some < most ? some : most;
}

namespace detail {

// nanotron's LLaMA is taken in bf16 with fp32 masters and sums of gradients, flash attention, no
// recomputation, and sequences divided where tensors are.
inline failure flaw_of_nanotron(const training_setup& setup, const batch_plan& plan) {
  const transformer& model = setup.model;
  const parallelism& ranks = setup.parallelism;
  const named_fact sharding{fact::sharding, &code_names::nanotron};
  if (const auto valid = validate(model); !valid) return valid.why();
  if (const auto valid = validate(plan); !valid) return valid.why();
  if (const auto valid = validate(ranks); !valid) return valid.why();
  const auto of = [](auto value) { return static_cast<std::int64_t>(value); };
  if (const failure why = flaw_unless(
          {{{fact::model_kind, model.kind}, of(model_kind::decoder)},
           {{fact::head, model.head}, of(head_kind::language_model)},
           {{fact::norm, model.norm}, of(norm_kind::rms_norm)},
           {{fact::norm_at, model.norm_at}, of(norm_position::before)},
           {{fact::final_norm, model.final_norm}, true},
           {{fact::gated_mlp, model.gated_mlp}, true},
           {{fact::precision_weights, setup.precision.weights}, of(number_format::bf16)},
           {{fact::master_weights, setup.precision.master_weights}, true},
           {{fact::fp32_gradients, setup.precision.fp32_gradients}, true},
           {{fact::attention, setup.attention}, of(attention_kernel::flash)},
           {{fact::optimizer_kind, setup.optimizer.kind}, of(optimizer_kind::adamw)}},
          sharding);
      failed(why))
    return why;
  if (const failure why =
          flaw_if_any({{fact::kv_lora_rank, model.mla.kv_lora_rank},
                       {fact::num_experts, model.moe.num_experts},
                       {fact::hybrid_pattern, model.hybrid_pattern.size()},
                       {fact::full_attention_interval, model.full_attention_interval},
                       {fact::mtp_layers, model.mtp_layers},
                       {fact::position_rows, model.position_rows},
                       {fact::attention_bias, model.attention_bias},
                       {fact::attention_out_bias, model.attention_out_bias},
                       {fact::mlp_bias, model.mlp_bias},
                       {fact::norm_bias, model.norm_bias},
                       {fact::lm_head_bias, model.lm_head_bias},
                       {fact::embedding_norm, model.embedding_norm},
                       {fact::parallel_attention, model.parallel_attention},
                       {fact::attention_sinks, model.attention_sinks},
                       {fact::qk_norm, model.qk_norm},
                       {fact::sliding_window, model.sliding_window},
                       {fact::trains, setup.trains.what},
                       {fact::recompute, setup.recompute},
                       {fact::padding_mask, setup.padding_mask}},
                      sharding);
      failed(why))
    return why;
  for (const named_fact& drops :
       {named_fact{fact::dropout, setup.dropout},
        named_fact{fact::attention_dropout,
                   setup.attention_dropout ? *setup.attention_dropout : 0}})
    if (drops.value != 0) return without_code({drops, sharding, {fact::takes, 0}});
  const std::int64_t tensor = ranks.tensor_parallel;
  const std::int64_t stages = ranks.pipeline_parallel;
  if (stages > model.num_hidden_layers)
    return without_code({{fact::pipeline_parallel, stages}, sharding});
  if (setup.place.stage != 0) return without_code({{fact::stage, setup.place.stage}, sharding});
  if (ranks.zero_stage < 0 || ranks.zero_stage > 1)
    return without_code({{fact::zero_stage, ranks.zero_stage}, sharding, {fact::at_most, 1}});
  if (const failure why =
          flaw_unless({{{fact::context_parallel, ranks.context_parallel}},
                       {{fact::expert_parallel, ranks.expert_parallel}},
                       {{fact::virtual_pipeline, ranks.virtual_pipeline}},
                       {{fact::sequence_parallel, ranks.sequence_parallel}, tensor > 1}},
                      sharding);
      failed(why))
    return why;
  if (const failure why =
          flaw_if_indivisible({fact::tensor_parallel, tensor},
                              {{fact::num_attention_heads, model.num_attention_heads},
                               {fact::num_key_value_heads, model.key_value_heads()},
                               {fact::intermediate_size, model.intermediate_size},
                               {fact::vocab_size, model.vocab_size},
                               {fact::sequence_length, setup.sequence_length}});
      failed(why))
    return why;
  // no size, and no sum of them, leaves 64 bits
  const auto number = [](std::int64_t size) { return static_cast<double>(size); };
  const double columns = number(model.intermediate_size) + number(model.vocab_size) +
                         number(model.hidden_size) +
                         number(model.num_attention_heads) * number(model.query_dim());
  const double rows =
      number(plan.micro_batch) * number(setup.sequence_length) + number(model.hidden_size);
  if (setup.sequence_length < 1)
    return failure(errc::not_positive, {{fact::sequence_length, setup.sequence_length}});
  if (!(columns * rows < 1e14))
    return failure(errc::overflow, {{fact::micro_batch, plan.micro_batch}});
  return {};
}

// The first rank of the first stage: a storage for each tensor, in the order of nanotron's code.
class nanotron_training {
 public:
  nanotron_training(const training_setup& setup,
                    const batch_plan& plan,
                    std::size_t late,
                    std::int64_t capacity)
      : model_(setup.model),
        plan_(plan),
        late_(late),
        ranks_(setup.parallelism.tensor_parallel),
        stages_(setup.parallelism.pipeline_parallel),
        shares_(setup.parallelism.zero_stage > 0 ? plan.data_parallel : 1),
        layers_(layers_of_chunk(setup.parallelism, model_.num_hidden_layers, 0).size()),
        // bytes of what a rank has of the tokens in bf16, a whole of these for each column
        whole_(2 * plan.micro_batch * setup.sequence_length),
        width_(model_.hidden_size),
        heads_(model_.num_attention_heads * model_.query_dim()),
        keys_(model_.key_value_heads() * model_.query_dim()),
        ffn_(model_.intermediate_size),
        allocator_(capacity) {
    build();
  }

  void step() {
    const std::int64_t count = plan_.accumulation;
    const std::int64_t ahead = stages_ - 1 < count ? stages_ - 1 : count;
    std::deque<pass> flights;
    for (std::int64_t at = 0; at < ahead; ++at) flights.push_back(forward());
    for (std::int64_t at = ahead; at < count; ++at) {
      flights.push_back(forward());
      backward(flights.front());
      flights.pop_front();
    }
    for (; !flights.empty(); flights.pop_front()) backward(flights.front());
    catch_up(0);
    if (has_states_) return;
    has_states_ = true;
    for (const std::int64_t count_of : parameters_)
      for (int moment = 0; moment < 2; ++moment) make(4 * share(count_of));
    make_buckets();  // in the order in which gradients came
  }
  [[nodiscard]] bool fits() const { return fits_; }
  [[nodiscard]] std::int64_t reserved() const { return allocator_.peak().reserved; }

 private:
  struct layer_kept {
    int input, norm, rstd, keys_values, query, context, sums, middle, norm2, rstd2, gate_up,
        activated, product;
  };
  struct pass {
    std::vector<layer_kept> layers{};
    int last = 0;  // the last layer's result,
    int norm = 0;  // its norm, and the softmax in fp32
    int softmax = 0;
  };

  // -- storages

  int make(std::int64_t bytes) {
    int made = allocator_.allocate(bytes);
    if (made == caching_allocator::out_of_memory) {
      catch_up(0);  // the allocator waits for the device
      made = allocator_.allocate(bytes);
    }
    if (made != caching_allocator::out_of_memory) return made;
    fits_ = false;
    return 0;
  }
  int divided(std::int64_t columns) { return make(whole_ * columns / ranks_); }
  int gathered() { return ranks_ > 1 ? make(whole_ * width_) : 0; }
  void drop(int one) { allocator_.release(one); }
  // what NCCL's stream reads or writes
  void drop_late(int one) {
    if (one == 0) return;
    waiting_.push_back(one);
    catch_up(late_);
  }
  void catch_up(std::size_t most) {
    for (; waiting_.size() > most; waiting_.pop_front()) drop(waiting_.front());
  }
  void replace(int& one, int by) {
    drop(one);
    one = by;
  }
  [[nodiscard]] std::int64_t share(std::int64_t count) const {
    return count / shares_ + (count % shares_ != 0);
  }

  // -- what stays

  void parameter(std::int64_t count) {
    parameters_.push_back(count);
    elements_ += count;
    make(2 * count);
  }
  void build() {
    const std::int64_t table = model_.vocab_size * width_ / ranks_;
    parameter(table);
    for (std::int64_t at = 0; at < layers_; ++at) {
      parameter(width_);
      parameter((heads_ + 2 * keys_) * width_ / ranks_);
      parameter(heads_ * width_ / ranks_);
      parameter(width_);
      parameter(2 * ffn_ * width_ / ranks_);
      parameter(ffn_ * width_ / ranks_);
    }
    if (stages_ == 1) {
      parameter(width_);
      if (model_.has_tied_head())
        make(2 * table);  // a table of its own, before it is tied
      else
        parameter(table);
    }
    make_buckets();
    for (int thread = 0; thread < 2; ++thread) make(32 << 20);  // cuBLAS, on H100
    make(4 * elements_);                                        // sums of gradients
    std::int64_t masters = 0;
    for (const std::int64_t count : parameters_) masters += share(count);
    make(4 * masters);
  }
  // DistributedDataParallel's, from the last parameter on: 1 MiB, then ddp_bucket_cap_mb
  void make_buckets() {
    if (plan_.data_parallel == 1) return;
    for (const int one : buckets_) drop(one);
    buckets_.clear();
    std::int64_t bytes = 0;
    for (std::size_t at = parameters_.size(); at-- > 0;) {
      bytes += 2 * parameters_[at];
      if (at != 0 && bytes < (buckets_.empty() ? 1 : 25) * (std::int64_t{1} << 20)) continue;
      buckets_.push_back(make(bytes));
      bytes = 0;
    }
  }

  // -- forward

  // Each rank's product of all tokens, summed, of which it keeps a part.
  int scattered() {
    if (ranks_ == 1) return divided(width_);
    const int product = make(whole_ * width_);
    const int part = divided(width_);
    drop_late(product);
    return part;
  }
  layer_kept run_layer(int input, int& result) {
    layer_kept kept{};
    kept.input = input;
    kept.norm = divided(width_);
    kept.rstd = make(2 * whole_ / ranks_);
    int all = gathered();
    const int mixed = divided(heads_ + 2 * keys_);
    drop_late(all);
    const int turned = divided(heads_ + 2 * keys_);
    const int joined = divided(2 * keys_);
    kept.keys_values = divided(2 * keys_);
    drop(joined);
    kept.query = divided(heads_);
    drop(turned);
    kept.context = divided(heads_);
    kept.sums = make(2 * whole_ * model_.num_attention_heads / ranks_);
    int added = scattered();
    drop(mixed);
    kept.middle = divided(width_);
    drop(added);
    kept.norm2 = divided(width_);
    kept.rstd2 = make(2 * whole_ / ranks_);
    all = gathered();
    kept.gate_up = divided(2 * ffn_);
    drop_late(all);
    kept.activated = divided(ffn_);
    kept.product = divided(ffn_);
    added = scattered();
    result = divided(width_);
    drop(added);
    return kept;
  }
  pass forward() {
    pass made;
    int x = make(whole_ * width_);
    if (ranks_ > 1) replace(x, divided(width_));
    for (std::int64_t at = 0; at < layers_; ++at) {
      int result = 0;
      made.layers.push_back(run_layer(x, result));
      x = result;
    }
    made.last = x;
    if (stages_ > 1) return made;
    made.norm = divided(width_);
    const int all = gathered();
    const int logits = divided(model_.vocab_size);
    drop_late(all);
    const int wide = divided(2 * model_.vocab_size);
    made.softmax = divided(2 * model_.vocab_size);
    drop(wide);
    drop(logits);
    return made;
  }

  // -- backward

  // Of a product whose input was gathered: the gradient of a rank's part, and of the weight.
  int through_column(int weight_gradient_of, std::int64_t rows) {
    const int all = gathered();
    int gradient = make(whole_ * width_);
    const int part = ranks_ > 1 ? divided(width_) : 0;
    gradients_.push_back(make(2 * rows * width_ / ranks_));
    drop(weight_gradient_of);
    drop_late(all);
    if (ranks_ > 1) replace(gradient, part);
    return gradient;
  }
  // Of a norm, and the gradient that goes past it.
  int through_norm(int gradient, int past) {
    const int of_input = divided(width_);
    drop(gradient);
    gradients_.push_back(make(2 * width_));
    const int sum = divided(width_);
    drop(of_input);
    drop(past);
    return sum;
  }
  int through_layer(const layer_kept& kept, int gradient) {
    int all = gathered();
    const int of_product = divided(ffn_);
    gradients_.push_back(make(2 * ffn_ * width_ / ranks_));
    drop_late(all);
    drop(kept.product);
    const int of_activated = divided(ffn_);
    const int of_up = divided(ffn_);
    drop(of_product);
    drop(kept.activated);
    const int of_gate = divided(ffn_);
    drop(of_activated);
    const int of_both = divided(2 * ffn_);
    for (const int one : {of_gate, of_up, kept.gate_up}) drop(one);
    int of_norm = through_column(of_both, 2 * ffn_);
    drop(kept.norm2);
    gradient = through_norm(of_norm, gradient);
    drop(kept.rstd2);
    drop(kept.middle);

    all = gathered();
    const int of_context = divided(heads_);
    gradients_.push_back(make(2 * heads_ * width_ / ranks_));
    drop_late(all);
    int of_query = divided(heads_);
    const int of_key = divided(keys_);
    const int of_value = divided(keys_);
    drop(divided(2 * heads_));  // the query's gradient in fp32
    for (const int one : {of_context, kept.context, kept.sums, kept.query, kept.keys_values})
      drop(one);
    int of_pair = divided(2 * keys_);
    drop(of_key);
    drop(of_value);
    replace(of_query, divided(heads_));
    replace(of_pair, divided(2 * keys_));
    int of_mixed = divided(heads_ + 2 * keys_);
    drop(of_pair);
    drop(of_query);
    replace(of_mixed, divided(heads_ + 2 * keys_));
    of_norm = through_column(of_mixed, heads_ + 2 * keys_);
    drop(kept.norm);
    gradient = through_norm(of_norm, gradient);
    drop(kept.rstd);
    drop(kept.input);
    return gradient;
  }
  // Gradients in bf16 are whole until all are there; then they are added to the sums.
  void backward(pass& of) {
    if (stages_ > 1) catch_up(0);  // the host reads what the next stage sends
    int gradient = 0;
    if (stages_ == 1) {
      const int of_logits = divided(model_.vocab_size);
      drop(of.softmax);
      gradient = through_column(of_logits, model_.vocab_size);
      replace(gradient, divided(width_));
      drop(of.norm);
    } else {
      gradient = divided(width_);
    }
    drop(of.last);
    for (std::size_t at = of.layers.size(); at-- > 0;)
      gradient = through_layer(of.layers[at], gradient);
    if (ranks_ > 1) replace(gradient, make(whole_ * width_));
    const int of_table = make(2 * model_.vocab_size * width_ / ranks_);
    drop(gradient);
    drop(of_table);
    for (const int one : gradients_) drop(one);
    gradients_.clear();
  }

  const transformer model_;
  const batch_plan plan_;
  std::size_t late_;
  std::int64_t ranks_;
  std::int64_t stages_;
  std::int64_t shares_;
  std::int64_t layers_;
  std::int64_t whole_;
  std::int64_t width_;
  std::int64_t heads_;
  std::int64_t keys_;
  std::int64_t ffn_;
  caching_allocator allocator_;
  std::deque<int> waiting_{};
  std::vector<int> buckets_{};
  std::vector<int> gradients_{};
  std::vector<std::int64_t> parameters_{};
  std::int64_t elements_ = 0;
  bool has_states_ = false;
  bool fits_ = true;
};

}  // namespace detail

/// What PyTorch's allocator reserves (`max_memory_reserved`) on rank 0 of nanotron's training, on a
/// device that has `capacity` bytes for PyTorch: bf16 weights, their gradients whole until a
/// micro-batch's backward is done and again in DistributedDataParallel's buckets, fp32 sums of
/// them, fp32 masters and moments divided by ZeRO-1, logits in bf16 and twice in fp32, all three of
/// the MLP's intermediate tensors, the flash kernel's, and blocks that wait for NCCL. Of 891
/// published steps 5.2 % off in the middle, 17 at nine in ten: how far hosts were ahead differs
/// between runs of one setting. Errors: those of model and plan; `no_such_code`, `does_not_divide`,
/// `overflow`, `not_positive` with the field; `exceeds_gpu_memory`. At run time some milliseconds.
[[nodiscard]] inline result<bytes> nanotron_reserved(const training_setup& setup,
                                                     const batch_plan& plan,
                                                     bytes capacity = bytes::from_value(1e18)) {
  if (!(capacity.value() > 0 && capacity.value() <= 1e18))
    return failure(errc::not_positive, {{fact::memory, 0}});
  if (const failure why = detail::flaw_of_nanotron(setup, plan); detail::failed(why)) return why;
  batch_plan shorter = plan;  // more micro-batches do as those before
  const std::int64_t most = setup.parallelism.pipeline_parallel + 1;
  if (shorter.accumulation > most) shorter.accumulation = most;
  const auto late = static_cast<std::size_t>(nanotron_late_frees(setup.parallelism));
  detail::nanotron_training training(
      setup, shorter, late, static_cast<std::int64_t>(capacity.value()));
  // the first makes the states, the second is as all others
  for (int step = 0; step < 2; ++step) training.step();
  if (!training.fits()) return failure(errc::exceeds_gpu_memory, {});
  return bytes::from_value(static_cast<double>(training.reserved()));
}

}  // namespace gpuplan
