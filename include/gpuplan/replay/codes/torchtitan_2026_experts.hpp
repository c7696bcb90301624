#pragma once

// Mixtures of experts of torchtitan 0.3: Qwen3's and DeepSeek-V3's. Among ranks that share the
// experts each gets as many rows as it sends, as if tokens chose evenly; on ranks that have all, or
// a part of each, how tokens are routed changes no size. Private.

#include <gpuplan/replay/codes/torchtitan_2026.hpp>
#include <gpuplan/replay/eager/operators.hpp>
#include <gpuplan/replay/eager/operators/routing.hpp>
#include <gpuplan/replay/model_code.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

/// torchtitan::deterministic_scatter_add: a copy, to which rows are added by number. Keeps the
/// numbers.
constexpr void scattered_rows_backward(const node_backward& b) {
  b.out[0] = b.t.make(b.by.size[1], b.g.format);
  b.t.executes({&b.g, &b.kept(0), &*b.out[0]});
}
inline constexpr node_kind scattered_rows_node{"rows by number", &scattered_rows_backward};
constexpr value scatter_rows(tape& t,
                             const tensor& into,
                             const tensor& numbers,
                             const tensor& rows) {
  const std::int64_t count = numbers.count();
  const int by = t.add_node(scattered_rows_node, {&rows});
  if (node* made = t.at(by)) made->size[1] = rows.size;
  t.keep(by, numbers);
  value sums = t.make(into.size, into.format, {"rows added up"});
  t.executes({&into, &*sums}, work_of_copy(into, sums));
  {
    // numbers are held against the rows there are
    const value least = t.make(sizes{1}, element::int64);
    const value most = t.make(sizes{1}, element::int64);
    reduction_scratch pairs = scratch_of_reduction(t.device, count, 1, true);
    pairs.buffer *= 4;
    const device_work work = touch(t, pairs);
    t.executes({&numbers, &*least, &*most}, work);
    for (int which = 0; which < 2; ++which) t.touch(1);
    t.executes({&*least, &*most}, {.kernels = 2, .copies = 2});
  }
  add_rows(
      t, rows, numbers, sums, {.count = count, .rows = into.size[0], .is_deterministic = true});
  t.result_of(by, sums.get());
  return sums;
}

/// Rows sent to other ranks, and as many received: all_to_all_single of functional collectives, of
/// an overload that checkpoints which keep costly results do not name.
constexpr void exchanged_rows_backward(const node_backward& b);
inline constexpr node_kind exchanged_rows_node{"exchanged rows", &exchanged_rows_backward};
constexpr value exchange_rows(tape& t, argument given, std::int64_t ranks) {
  const held x(given);
  const int by = t.add_node(exchanged_rows_node, {&x});
  if (node* made = t.at(by)) made->size[1] = x.size;
  t.note(by, {ranks});
  value result = t.make(x.size, x.format, {"exchanged rows", none, &x});
  t.communicates({.what = collective::all_to_all, .bytes = x.bytes(), .ranks = ranks, .stride = 1});
  t.result_of(by, result.get());
  return result;
}
constexpr void exchanged_rows_backward(const node_backward& b) {
  b.out[0] = b.t.make(b.by.size[1], b.g.format);
  b.t.communicates({.what = collective::all_to_all,
                    .bytes = b.g.bytes(),
                    .ranks = b.by.argument[0],
                    .stride = 1});
}

/// Rows put where their numbers say, into new memory. Keeps the numbers.
constexpr void placed_rows_backward(const node_backward& b) {
  b.out[0] = b.t.make(b.by.size[1], b.g.format);
  b.t.executes({&b.g, &b.kept(0), &*b.out[0]});
}
inline constexpr node_kind placed_rows_node{"rows by number", &placed_rows_backward};
constexpr value place_rows(tape& t, argument given, const tensor& numbers) {
  const held rows(given);
  const int by = t.add_node(placed_rows_node, {&rows});
  if (node* made = t.at(by)) made->size[1] = rows.size;
  t.keep(by, numbers);
  value made = t.make(rows.size, rows.format, {"rows by number", none, &rows});
  t.executes({&rows, &numbers, &*made});
  t.result_of(by, made.get());
  return made;
}

/// A decoder some or all of whose layers have experts in place of the MLP. Beside its parameters
/// each has a bias of its router's choice and the number of tokens each expert saw, from which an
/// optimizer's step makes the bias anew.
class torchtitan_mixture : public torchtitan_decoder {
 public:
  using torchtitan_decoder::torchtitan_decoder;
  constexpr ~torchtitan_mixture() override {
    for (int at = 0; at < mixtures_.size(); ++at) {
      t.release(mixtures_[at].bias.storage);
      t.release(mixtures_[at].seen.storage);
    }
  }

  // register_moe_load_balancing_hook
  constexpr void before_update() override {
    const sizes all{model.moe.num_experts};
    held_tensors halves(t);  // what is computed again counts twice
    if (setup.recompute == recompute_mode::full)
      for (int at = 0; at < mixtures_.size(); ++at)
        halves.push(compute(t, mixtures_[at].seen, all, element::fp32));
    const value by_layer = full(t, {mixtures_.size(), all[0]}, element::fp32);
    value step;
    for (int at = 0; at < mixtures_.size(); ++at) {
      const auto centred = [&](const tensor& of) {
        const value mean = compute(t, of, sizes{1}, element::fp32);
        return compute(t, {&of, &*mean}, all, element::fp32);
      };
      tensor seen = by_layer;
      seen.size = all;
      value sign = centred(seen);
      sign = compute(t, sign, all, element::fp32);
      step = compute(t, sign, all, element::fp32);
      sign.drop();
      step = centred(step);
      t.executes({&*step, &mixtures_[at].bias});
      t.executes({&mixtures_[at].seen});
    }
  }

 protected:
  struct expert_modules {
    nn_module gate{}, down{}, up{}, router{};
    nn_module shared_gate{}, shared_down{}, shared_up{};
    tensor bias{}, seen{};
  };

  constexpr void build_feed_forward(layer_modules& made, std::int64_t at, bool trains) override {
    if (!model.has_experts(number_of(at)))
      return torchtitan_decoder::build_feed_forward(made, at, trains);
    const std::int64_t width = model.hidden_size;
    const std::int64_t shared = ranks_.part_of(model.moe.shared_expert_intermediate_size);
    expert_modules all;
    build_experts(all, trains);
    build_router(all.router, trains);
    if (shared != 0) {
      all.shared_gate = linear_module(operator_kind::shared_gate, shared, width, false, trains);
      all.shared_down = linear_module(operator_kind::shared_down, width, shared, false, trains);
      all.shared_up = linear_module(operator_kind::shared_up, shared, width, false, trains);
    }
    for (tensor* const table : {&all.bias, &all.seen}) {
      *table = number_of_each_expert();
      add_numbers(*table);
    }
    made.mixture = mixtures_.size();
    mixtures_.push(all);
  }
  constexpr virtual void build_router(nn_module& made, bool trains) {
    made.weight = parameter({model.moe.num_experts, model.hidden_size}, trains);
    name(made, "router");
  }
  [[nodiscard]] constexpr std::int64_t ranks_of_experts() const {
    return setup.parallelism.expert_parallel;
  }
  [[nodiscard]] constexpr std::int64_t local_experts() const {
    return model.moe.num_experts / ranks_of_experts();
  }
  /// A tensor-parallel rank has a part of each expert where none shares the experts, else whole
  /// ones for its own tokens.
  [[nodiscard]] constexpr bool has_parts_of_experts() const {
    return ranks_.is_on() && ranks_of_experts() == 1;
  }
  [[nodiscard]] constexpr std::int64_t own_expert_width() const {
    const std::int64_t all = model.moe.moe_intermediate_size;
    return has_parts_of_experts() ? ranks_.part_of(all) : all;
  }
  /// Those among which each of these has parts, or 0: all that share the rest.
  [[nodiscard]] constexpr std::int64_t ranks_with_experts() const {
    if (ranks_of_experts() == 1 || !t.gathers()) return 0;
    return t.gathering().ranks * setup.parallelism.tensor_parallel / ranks_of_experts();
  }
  /// More ranks than experts have parts of each; those of other groups count where none shares
  /// the experts.
  [[nodiscard]] constexpr int parted_along() const {
    const bool is_shared = t.gathers() && !t.gathering().are_flat;
    const std::int64_t all = plan.data_parallel * setup.parallelism.context_parallel;
    const std::int64_t ranks =
        ranks_of_experts() > 1 ? ranks_with_experts() * ranks_of_experts() : all;
    return is_shared && ranks > model.moe.num_experts ? 1 : 0;
  }
  constexpr virtual void build_experts(expert_modules& made, bool trains) {
    const auto parted = t.parting_along(parted_along());
    const auto apart = t.parting_apart(ranks_with_experts());
    const std::int64_t width = model.hidden_size;
    const std::int64_t inner = own_expert_width();
    const auto matrices = [&](std::int64_t to, std::int64_t from) {
      nn_module all;
      all.weight = parameter({local_experts(), to, from}, trains);
      name(all, "experts");
      return all;
    };
    made.gate = matrices(inner, width);
    made.down = matrices(width, inner);
    made.up = matrices(inner, width);
  }
  constexpr tensor number_of_each_expert() {
    return t.charge(purpose::buffers)->make(sizes{model.moe.num_experts}, element::fp32).take();
  }
  constexpr void renew_buffers(const layer_modules& of, int& at) override {
    if (of.mixture == none) return;
    expert_modules& by = mixtures_[of.mixture];
    const auto renew = [&](tensor& table, int place) {
      const int was = table.storage;
      table = t.buffers[place] = number_of_each_expert();
      t.release(was);
    };
    renew(by.seen, at + 1);
    renew(by.bias, at);
    at += 2;
  }

  constexpr value layer(int index, const tensor& input) override {
    const bool has_router = model.has_experts(number_of(index));
    t.never_stays = has_router ? sizes{model.hidden_size, model.moe.num_experts} : sizes{};
    return torchtitan_decoder::layer(index, input);
  }
  constexpr value feed_forward(const layer_modules& by, argument given) override {
    if (by.mixture == none) return torchtitan_decoder::feed_forward(by, given);
    return mixture(mixtures_[by.mixture], given);
  }
  // MoE
  constexpr value mixture(const expert_modules& by, argument given) {
    const held own(given);
    const value x = has_parts_of_experts() ? ranks_.gather(own) : t.share(own);
    value shared, counts, chosen;
    const routes to = route(by, x);
    chosen = compute(t, to.places, to.scores->size, element::boolean);
    counts = count_tokens(by, chosen);
    value out = run_experts(by, x, to, counts);
    if (has_parts_of_experts()) out = ranks_.scatter(out);
    if (by.shared_up.weight == none) return out;
    {
      const value all = has_parts_of_experts() ? t.share(x) : ranks_.gather(x);
      shared = gated(all, by.shared_gate, by.shared_up, by.shared_down);
    }
    return add(t, out, shared);
  }

  // -- the router

  struct routes {
    value weights{}, places{}, scores{};
  };
  // TokenChoiceTopKRouter: in fp32. No gradient comes back from a choice, which lives as long as
  // the router runs.
  constexpr routes route(const expert_modules& by, const tensor& x) {
    routes made;
    made.scores = scores_of(by, x);
    value wanted, hidden_groups;
    chosen_elements largest;
    {
      const auto unrecorded = t.without_graph();
      wanted = add(t, made.scores, by.bias);
      if (model.moe.n_group != 0) wanted = hide_groups(wanted, hidden_groups);
      largest = choose(wanted, model.moe.num_experts_per_tok);
    }
    made.places = std::move(largest.places);
    made.weights = take_along(t, made.scores, made.places);
    value divisor;
    if (normalizes()) {
      divisor = add_number(t, sum_of_rows(made.weights));
      made.weights = quotient(t, made.weights, divisor);
    }
    made.weights = scale(t, made.weights);
    wanted.drop();
    return made;
  }
  /// What DeepSeek-V3's does and DeepSeek-V2's does not: scores by sigmoid, whose weights sum to 1.
  [[nodiscard]] constexpr bool is_of_sigmoid() const {
    return model.is_latent() && (model.moe.router_bias || model.moe.norm_topk_prob);
  }
  [[nodiscard]] constexpr bool normalizes() const { return !model.is_latent() || is_of_sigmoid(); }
  // _get_node_limited_routing_scores: those of other groups than the best are none. The mask of
  // groups lives as long as they do.
  constexpr value hide_groups(const tensor& wanted, value& mask) {
    const std::int64_t groups = model.moe.n_group;
    const sizes all = wanted.size;
    const value apart = view(t, wanted, {all[0], all[1], groups, all[2] / groups});
    chosen_elements two = choose(apart, 2);
    const value of_groups = sum_over(t, two.elements, 3);
    const chosen_elements best = choose(of_groups, at_least(model.moe.topk_group, 1));
    mask = full(t, of_groups->size, element::boolean);
    t.executes({&*best.places, &*mask});
    const value seen = view(t, mask, {all[0], all[1], groups, 1});
    return view(t, masked_fill(t, apart, seen), all);
  }
  constexpr value scores_of(const expert_modules& by, const tensor& x) {
    value logits;
    {
      value bias;
      if (by.router.bias != none) bias = cast(t, t.parameter(by.router.bias), element::fp32);
      const value matrix = cast(t, t.parameter(by.router.weight), element::fp32);
      const value wide = cast(t, x, element::fp32);
      logits = multiplied(t, wide, matrix, bias, none);
    }
    return is_of_sigmoid() ? keeping_result(t, logits) : softmax(t, logits, element::fp32);
  }
  constexpr value sum_of_rows(const tensor& x) {
    sizes one = x.size;
    one[one.rank - 1] = 1;
    return view(t, sum_over(t, x, x.size.rank - 1), one);
  }
  /// A choice that no checkpoint makes again where it keeps costly results.
  constexpr chosen_elements choose(const tensor& of, std::int64_t count) {
    const bool stays = t.stays(false);
    if (!stays || !t.is_recomputing()) {
      chosen_elements made = top_k(t, of, count);
      if (stays) {
        t.save_result(made.elements);
        t.save_result(made.places);
      }
      return made;
    }
    value elements = t.saved_result();
    return {std::move(elements), t.saved_result()};
  }
  // How many tokens each expert has: a map of one byte for each of them, summed over integers.
  constexpr value count_tokens(const expert_modules& by, const tensor& chosen) {
    const sizes all{model.moe.num_experts};
    value counts = t.make(all, element::int64);
    {
      const value wide = compute(t, chosen, chosen.size, element::int64);
      const std::int64_t tokens = wide->count() / all[0];
      reduction_scratch scratch = scratch_of_reduction(t.device, tokens, all[0], false);
      scratch.buffer *= 2;
      const device_work work = touch(t, scratch);
      t.executes({&*wide, &*counts}, work);
    }
    t.executes({&*counts, &by.seen});
    return counts;
  }

  // -- experts

  // RoutedExperts, by LocalTokenDispatcher, or among ranks by AllToAllTokenDispatcher
  constexpr value run_experts(const expert_modules& by,
                              const tensor& x,
                              const routes& to,
                              const tensor& counts) {
    const std::int64_t tokens = x.size[0] * x.size[1];
    const std::int64_t chosen = model.moe.num_experts_per_tok;
    const sizes all{tokens * chosen};
    const value rows = view(t, x, {tokens, x.size[2]});
    value weights = view(t, to.weights, all);
    value numbers;
    {
      sorted_numbers sorted = sort_numbers(t, view(t, to.places, all));
      sorted.numbers.drop();
      weights = rows_at(t, weights, sorted.order);
      numbers = compute(t, sorted.order, all, element::int64);
    }
    value routed = rows_at(t, rows, numbers);
    value out, returned, places;
    if (ranks_of_experts() == 1) {
      out = inner_experts(by, routed, counts);
      returned = t.share(out);
    } else {
      value counts_here;
      routed = send_to_experts(routed, counts, places, counts_here);
      out = inner_experts(by, routed, counts_here);
      returned = place_rows(t, out, places);
      returned = exchange(returned);
    }
    value sums = full(t, rows->size, rows->format);
    value weighted;
    {
      value product;
      {
        const value wide = cast(t, returned, element::fp32);
        product = multiply(t, wide, view(t, weights, {all[0], 1}));
      }
      weighted = cast(t, product, out->format);
    }
    returned.drop();
    sums = scatter_rows(t, sums, numbers, weighted);
    weighted.drop();
    routed.drop();
    numbers.drop();
    weights.drop();
    out.drop();
    return view(t, sums, x.size);
  }
  constexpr value exchange(const tensor& rows) {
    return exchange_rows(t, rows, ranks_of_experts());
  }
  // AllToAllTokenDispatcher.dispatch: rows, sorted by expert, go to the ranks that have these, and
  // are sorted by expert again. `places` says where each came to lie, `counts_here` how many each
  // of this rank's experts has.
  constexpr value send_to_experts(const tensor& sorted,
                                  const tensor& counts,
                                  value& places,
                                  value& counts_here) {
    const sizes segments{model.moe.num_experts};
    const sizes all{sorted.size[0]};
    const auto numbers = [&](const sizes& size) { return t.make(size, element::int64); };
    value arriving;
    {
      const auto unrecorded = t.without_graph();
      arriving = exchange(counts);
      for (const tensor* of : {&counts, &*arriving}) {
        const value sums = numbers(sizes{ranks_of_experts()});
        t.executes({of, &*sums}, {.kernels = 1, .copies = 1});
      }
    }
    const value received = exchange(sorted);
    {
      const auto unrecorded = t.without_graph();
      const auto running_sums = [&](const tensor& of) {
        const value sums = running_sum(t, of);
        return compute(t, {&*sums, &of}, of.size, element::int64);
      };
      value starts = running_sums(arriving);
      const value lengths = compute(t, arriving, segments, element::int64);
      starts = compute(t, starts, segments, element::int64);
      value segment;
      {
        const value each = compute(t, lengths, segments, element::int64);
        const value ends = running_sum(t, lengths);
        const value which = compute(t, {&*ends, &*lengths}, all, element::int64);
        segment = compute(t, {&*each, &*which}, all, element::int64);
      }
      const value starts_here = running_sums(lengths);
      {
        value from;
        {
          const value begin = rows_at(t, starts, segment);
          const value place = numbers(all);
          from = compute(t, {&*begin, &*place}, all, element::int64);
        }
        const value begin = rows_at(t, starts_here, segment);
        places = compute(t, {&*from, &*begin}, all, element::int64);
      }
      counts_here = compute(t, arriving, sizes{local_experts()}, element::int64);
    }
    return rows_at(t, received, places);
  }
  constexpr value ends_of_groups(const tensor& counts) {
    value ends = t.make(counts.size, element::int32);
    const value narrow = compute(t, counts, counts.size, element::int32);
    t.touch(tile_states(counts.count(), 2464, 16));
    t.executes({&*narrow, &*ends}, device_work{});
    return ends;
  }
  // GroupedExperts: in bf16, whatever the rest is in.
  constexpr virtual value inner_experts(const expert_modules& by,
                                        const tensor& routed,
                                        const tensor& counts) {
    const value ends = ends_of_groups(counts);
    const auto times = [&](const tensor& rows, const nn_module& of) {
      const value in = cast(t, rows, element::bf16);
      const value matrix = cast(t, t.parameter(of.weight), element::bf16);
      return grouped_product(t, in, transpose(t, matrix, 1, 2), ends);
    };
    value hidden = activation(times(routed, by.gate));
    hidden = multiply(t, hidden, times(routed, by.up));
    return cast(t, times(hidden, by.down), routed.format);
  }

  growing_array<expert_modules> mixtures_{};
};

/// DeepSeek-V3's: query, and key and value together, pass through narrow latent vectors, and a
/// token's experts may be of some groups alone.
class torchtitan_latent final : public torchtitan_mixture {
 public:
  using torchtitan_mixture::torchtitan_mixture;
  constexpr ~torchtitan_latent() override {}  // NOLINT(modernize-use-equals-default)

 protected:
  constexpr void build_layer(layer_modules& made, std::int64_t at, bool trains) override {
    build_attention(made, trains);
    build_angles(at);
    build_norms(made, trains);
    build_feed_forward(made, at, trains);
  }
  constexpr void build_attention(layer_modules& made, bool trains) override {
    const latent_attention& mla = model.mla;
    const std::int64_t width = model.hidden_size;
    const std::int64_t heads = own_heads();
    const std::int64_t queries = heads * model.query_dim();
    const std::int64_t from = mla.q_lora_rank != 0 ? mla.q_lora_rank : width;
    if (mla.q_lora_rank != 0) {
      made.query_down =
          linear_module(operator_kind::query_down, mla.q_lora_rank, width, false, trains);
      made.query_norm = norm_module(mla.q_lora_rank, trains);
    }
    made.qkv = linear_module(operator_kind::query, queries, from, false, trains);
    made.key_value_down = linear_module(operator_kind::key_value_down,
                                        mla.kv_lora_rank + mla.qk_rope_head_dim,
                                        width,
                                        false,
                                        trains);
    made.key_norm = norm_module(mla.kv_lora_rank, trains);
    made.key_value_up = linear_module(operator_kind::key_value_up,
                                      heads * (mla.qk_nope_head_dim + mla.v_head_dim),
                                      mla.kv_lora_rank,
                                      false,
                                      trains);
    made.out = linear_module(
        operator_kind::attention_output, width, heads * mla.v_head_dim, false, trains);
  }

  constexpr value attention(const layer_modules& by, argument given, int index) override {
    const held normed(given);
    const value x = ranks_.gather(normed);
    const latent_attention& mla = model.mla;
    const std::int64_t batch = x->size[0];
    const std::int64_t tokens = x->size[1];
    const std::int64_t heads = own_heads();
    value q;
    if (mla.q_lora_rank != 0)
      q = linear(norm(linear(x, by.query_down), by.query_norm), by.qkv);
    else
      q = linear(x, by.qkv);
    q = view(t, q, {batch, tokens, heads, model.query_dim()});
    value straight_q, turned_q;
    cut_in_two(q, mla.qk_nope_head_dim, straight_q, turned_q);
    q.drop();
    value latent, turned_k;
    {
      const value both = linear(x, by.key_value_down);
      cut_in_two(both, mla.kv_lora_rank, latent, turned_k);
    }
    turned_k = view(t, turned_k, {batch, tokens, 1, mla.qk_rope_head_dim});
    rotate(turned_q, turned_k, index);
    q = concatenate(t, straight_q, turned_q, 3);
    value both = linear(norm(latent, by.key_norm), by.key_value_up);
    latent.drop();
    both = view(t, both, {batch, tokens, heads, mla.qk_nope_head_dim + mla.v_head_dim});
    value straight_k, v;
    cut_in_two(both, mla.qk_nope_head_dim, straight_k, v);
    both.drop();
    value k;
    {
      const value of_all = expand(t, turned_k, {batch, tokens, heads, mla.qk_rope_head_dim});
      k = concatenate(t, straight_k, of_all, 3);
    }
    const value all_k = context_.gather(k);
    const value all_v = context_.gather(v);
    const value seen_q = transpose(t, q, 1, 2);
    const value seen_k = transpose(t, all_k, 1, 2);
    const value seen_v = transpose(t, all_v, 1, 2);
    return summed(attend(seen_q, seen_k, seen_v), by.out);
  }
  constexpr void cut_in_two(const tensor& of, std::int64_t length, value& first, value& second) {
    const int last = of.size.rank - 1;
    const int parts = split(t, of);
    first = part(t, parts, of, last, length, 0);
    second = part(t, parts, of, last, of.size[last] - length, 1);
  }
};

}  // namespace gpuplan::eager
