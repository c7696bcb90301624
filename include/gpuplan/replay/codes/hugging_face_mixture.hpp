#pragma once

// Mixtures of experts of Hugging Face's transformers 5.23: routers, and experts whose rows are
// sorted for products of groups (integrations/moe.py, `grouped_mm`). What is chosen, routing is
// balanced or not, changes no size: every row of every expert is there. Private.

#include <gpuplan/catalog/frameworks/hugging_face_experts.hpp>
#include <gpuplan/replay/codes/hugging_face.hpp>
#include <gpuplan/replay/eager/operators/routing.hpp>

#include <cstdint>
#include <utility>

namespace gpuplan::eager {

/// A decoder whose layers, or some of them, have experts in place of the MLP.
class hugging_face_mixture : public hugging_face_decoder {
 public:
  using hugging_face_decoder::hugging_face_decoder;
  constexpr ~hugging_face_mixture() override {
    for (int at = 0; at < mixtures_.size(); ++at) t.release(mixtures_[at].correction.storage);
  }

 protected:
  /// The experts of a layer: parameters of all of them in one.
  struct expert_modules {
    nn_module router{};
    tensor correction{};  // of the router's choice: a buffer
    nn_module up{}, down{};
    nn_module shared_gate{}, shared_up{}, shared_down{}, weight_of_shared{};
  };
  [[nodiscard]] constexpr const expert_options& experts() const {
    return setup.framework.implementation.experts;
  }

  // -- the loss

 public:
  constexpr value forward() override {
    t.begin(moment::forward);
    const value hidden = run_model();
    t.begin(moment::loss);
    const value logits = logits_of(hidden);
    value loss = causal_lm_loss(logits, labels_);
    if (experts().balances && handed_out_.size() != 0)
      loss = add_in_place(t, loss, scale(t, balancing_loss()));
    for (int at = 0; at < handed_out_.size(); ++at) t.release(handed_out_[at].storage);
    handed_out_.resize_down(0);
    return loss;
  }

 protected:
  // load_balancing_loss_func
  constexpr value balancing_loss() {
    const sizes all{model.moe.num_experts};
    value chosen_of = full(t, all, element::fp32);
    value weights_of = full(t, all, element::fp32);
    value seen, rows;
    if (setup.padding_mask) {
      seen = compute(t, padding_, sizes{padding_->count()}, element::fp32);
    }
    value weights;
    chosen_elements chosen;
    for (int at = 0; at < handed_out_.size(); ++at) {
      weights = softmax_under_autocast(t, handed_out_[at]);
      {
        const auto unrecorded = t.without_graph();
        chosen = top_k(t, weights, model.moe.num_experts_per_tok);
      }
      const sizes flat{chosen.places->count()};
      if (!setup.padding_mask) {
        value counts;
        {
          const value numbers = compute(t, chosen.places, flat, element::int32);
          counts = compute(t, numbers, all, element::int32);
        }
        chosen_of = compute(t, {&*chosen_of, &*counts}, all, element::fp32);
        weights_of = add(t, weights_of, sum_over(t, cast(t, weights, element::fp32), 0));
        continue;
      }
      {
        const value counts = full(t, all, element::fp32);
        const value repeated = compute(t, seen, flat, element::fp32);
        chosen_of = compute(t, {&*chosen_of, &*counts}, all, element::fp32);
      }
      {
        const value wide = cast(t, weights, element::fp32);
        const value hidden = multiply(t, wide, view(t, seen, {seen->count(), 1}));
        weights_of = add(t, weights_of, sum_over(t, hidden, 0));
      }
      const value more = compute(t, seen, sizes{1}, element::fp32);
      rows = compute(t, more, sizes{1}, element::fp32);
    }
    const value share = compute(t, chosen_of, all, element::fp32);
    value weight;
    if (setup.padding_mask)
      weight = divide(t, weights_of, rows);
    else
      weight = scale(t, weights_of);
    value product = multiply(t, share, view(t, weight, {1, all[0]}));
    value sum = sum_over(t, view(t, product, all), 0);
    return scale(t, sum);
  }

  // -- construction

  constexpr void build_mlp(layer_modules& made, bool trains) override {
    if (!model.has_experts(layers_.size())) return hugging_face_decoder::build_mlp(made, trains);
    made.mixture = mixtures_.size();
    expert_modules all;
    if (experts().builds_experts_first) build_experts(all, trains);
    build_router(all, trains);
    if (!experts().builds_experts_first) build_experts(all, trains);
    build_shared(all, trains);
    mixtures_.push(all);
  }
  constexpr virtual void build_router(expert_modules& made, bool trains) {
    const std::int64_t count = model.moe.num_experts;
    made.router.weight = parameter({count, model.hidden_size}, trains);
    if (model.moe.router_bias && !experts().corrects_choice)
      made.router.bias = parameter(sizes{count}, trains);
    name(made.router, "router");
    if (!experts().corrects_choice) return;
    made.correction = t.charge(purpose::buffers)->make(sizes{count}, element::fp32).take();
  }
  constexpr void build_experts(expert_modules& made, bool trains) {
    const std::int64_t width = model.hidden_size;
    const std::int64_t inner = model.moe.moe_intermediate_size;
    made.up = matrices(2 * inner, width, trains);
    made.down = matrices(width, inner, trains);
    name(made.up, "experts");
    name(made.down, "experts");
    const bool is_transposed = experts().is_transposed;
    made.up.adapter = adapters.add_experts(
        operator_kind::expert_gate_up, width, 2 * inner, made.up.weight, is_transposed);
    made.down.adapter = adapters.add_experts(
        operator_kind::expert_down, inner, width, made.down.weight, is_transposed);
  }
  constexpr nn_module matrices(std::int64_t to, std::int64_t from, bool trains) {
    const std::int64_t count = model.moe.num_experts;
    nn_module made;
    if (experts().is_transposed)
      made.weight = parameter({count, from, to}, trains);
    else
      made.weight = parameter({count, to, from}, trains);
    if (model.mlp_bias) made.bias = parameter({count, to}, trains);
    return made;
  }
  constexpr virtual void build_shared(expert_modules& made, bool trains) {
    const std::int64_t width = model.hidden_size;
    const std::int64_t inner = model.moe.shared_expert_intermediate_size;
    if (inner == 0) return;
    made.shared_gate = linear_module(operator_kind::shared_gate, inner, width, false, trains);
    made.shared_up = linear_module(operator_kind::shared_up, inner, width, false, trains);
    made.shared_down = linear_module(operator_kind::shared_down, width, inner, false, trains);
    if (model.moe.shared_expert_gate)
      made.weight_of_shared =
          linear_module(operator_kind::shared_expert_gate, 1, width, false, trains);
  }
  constexpr void build_behind_layers() override {
    hugging_face_decoder::build_behind_layers();
    for (int at = 0; at < mixtures_.size(); ++at)
      if (mixtures_[at].correction.defined())
        add_buffer(mixtures_[at].correction, mixtures_[at].router.weight + 1);
  }

  // -- the layer

  constexpr value feed_forward(const layer_modules& by, argument given) override {
    if (by.mixture == none) return hugging_face_decoder::feed_forward(by, given);
    return mixture(mixtures_[by.mixture], given);
  }
  // ...SparseMoeBlock, ...MoE
  constexpr virtual value mixture(const expert_modules& by, argument given) {
    const held x(given);
    const sizes flat{x.size[0] * x.size[1], x.size[2]};
    const bool has_shared = by.shared_up.weight != none;
    if (experts().shared == shared_kind::last) {
      const routes to = route(by, view(t, x, flat));
      value out = view(t, run_experts(by, view(t, x, flat), to), x.size);
      if (!has_shared) return out;
      return add(t, out, shared_experts(by, x));
    }
    const value rows = view(t, x, flat);
    value shared;
    if (has_shared) shared = shared_experts(by, rows);
    const routes to = route(by, rows);
    value out = run_experts(by, rows, to);
    if (has_shared) {
      if (by.weight_of_shared.weight != none)
        shared = multiply(t, keeping_result(t, linear(rows, by.weight_of_shared)), shared);
      out = add(t, out, shared);
    }
    return view(t, out, x.size);
  }
  constexpr value shared_experts(const expert_modules& by, const tensor& x) {
    value hidden = activation(linear(x, by.shared_gate));
    hidden = multiply(t, hidden, linear(x, by.shared_up));
    return linear(hidden, by.shared_down);
  }

  constexpr void hand_out(const tensor& logits) {
    if (!model.moe.output_router_logits || t.is_recomputing()) return;
    t.hold(logits.storage);
    handed_out_.push(logits);
  }

  // -- routers

  /// What a router returns, its logits too, which its callers hold.
  struct routes {
    value logits{}, weights{}, places{};
  };
  constexpr routes route(const expert_modules& by, argument given) {
    const held rows(given);
    routes made = routes_of(by, rows);
    hand_out(made.logits);
    return made;
  }
  constexpr virtual routes routes_of(const expert_modules& by, const tensor& rows) {
    const std::int64_t chosen = model.moe.num_experts_per_tok;
    routes made;
    if (experts().router == router_kind::sigmoid_in_groups) {
      made.logits = fp32_logits(by, rows);
      return route_in_groups(by, std::move(made));
    }
    if (experts().router == router_kind::softmax_in_fp32) {
      made.logits = fp32_logits(by, rows);
      return route_greedily(std::move(made));
    }
    made.logits = eager::linear(t, rows, by.router.weight, by.router.bias);
    if (experts().router == router_kind::sigmoid) return route_by_sigmoid(by, std::move(made));
    if (experts().router == router_kind::softmax_of_chosen) {
      if (experts().casts_logits) made.logits = cast(t, made.logits, element::fp32);
      chosen_elements largest = top_k(t, made.logits, chosen);
      made.places = std::move(largest.places);
      made.weights = softmax(t, largest.elements, largest.elements->format);
      if (experts().casts_weights) made.weights = cast(t, made.weights, rows.format);
      return made;
    }
    value scores;
    if (experts().casts_logits)
      scores = softmax(t, cast(t, made.logits, element::fp32), element::fp32);
    else
      scores = softmax_in_fp32(made.logits);
    chosen_elements largest = top_k(t, scores, chosen);
    made.places = std::move(largest.places);
    made.weights = std::move(largest.elements);
    if (model.moe.norm_topk_prob || experts().normalizes)
      made.weights = divide_in_place(t, made.weights, sum_of_rows(made.weights));
    if (experts().casts_weights) made.weights = cast(t, made.weights, made.logits->format);
    return made;
  }
  // DeepseekV2TopkRouter
  constexpr routes route_greedily(routes made) {
    value scores = softmax_in_fp32(made.logits);
    chosen_elements of_groups, best;
    value mask, masks;
    if (model.moe.n_group != 0) {
      const std::int64_t groups = model.moe.n_group;
      const std::int64_t count = model.moe.num_experts;
      const sizes all = scores->size;
      value hidden;
      {
        const auto unrecorded = t.without_graph();
        of_groups = top_k(t, view(t, scores, {all[0], groups, count / groups}), 1);
        const value of_group = view(t, of_groups.elements, {all[0], groups});
        best = top_k(t, of_group, at_least(model.moe.topk_group, 1));
        best.elements.drop();
        mask = full(t, {all[0], groups}, element::fp32);
        if (groups > 1) masks = compute(t, mask, all, element::fp32);  // else a view
        hidden = compute(t, mask, all, element::boolean);
        hidden = compute(t, std::move(hidden), all, element::boolean);
      }
      scores = masked_fill(t, scores, hidden);
    }
    chosen_elements largest = top_k(t, scores, model.moe.num_experts_per_tok);
    made.places = std::move(largest.places);
    made.weights = scale(t, std::move(largest.elements));
    return made;
  }
  // MiniMaxM2TopKRouter
  constexpr routes route_by_sigmoid(const expert_modules& by, routes made) {
    const value scores = keeping_result(t, cast(t, made.logits, element::fp32));
    value wanted;
    {
      const auto unrecorded = t.without_graph();
      wanted = add(t, scores, by.correction);
      made.places = std::move(top_k(t, wanted, model.moe.num_experts_per_tok).places);
    }
    made.weights = take_along(t, scores, made.places);
    made.weights = divide_in_place(t, made.weights, sum_of_rows(made.weights));
    return made;
  }
  /// x.sum(-1, keepdim=True)
  constexpr value sum_of_rows(argument given) {
    const held x(given);
    sizes one = x.size;
    one[one.rank - 1] = 1;
    return view(t, sum_over(t, x, x.size.rank - 1), one);
  }
  /// F.linear(x.type(torch.float32), weight.type(torch.float32))
  constexpr value fp32_logits(const expert_modules& by, const tensor& rows) {
    const value x = cast(t, rows, element::fp32);
    const tensor stored = t.parameter(by.router.weight);
    if (stored.format == element::fp32) return eager::linear(t, x, by.router.weight, none);
    return product(t, x, transpose(t, cast(t, stored, element::fp32), 0, 1));
  }
  // DeepseekV3TopkRouter: no gradient comes back from a choice, which lives as long as the router
  // runs.
  constexpr routes route_in_groups(const expert_modules& by, routes made) {
    const std::int64_t rows = made.logits->size[0];
    const std::int64_t groups = at_least(model.moe.n_group, 1);
    const std::int64_t count = model.moe.num_experts;
    const value scores = keeping_result(t, made.logits);
    value wanted, of_groups, mask, masks;
    chosen_elements best, largest;
    {
      const auto unrecorded = t.without_graph();
      wanted = add(t, scores, by.correction);
      const sizes apart{rows, groups, count / groups};
      of_groups = sum_over(t, std::move(top_k(t, view(t, wanted, apart), 2).elements), 2);
      best = top_k(t, of_groups, at_least(model.moe.topk_group, 1));
      best.elements.drop();
      mask = full(t, of_groups->size, element::fp32);
      const sizes all{rows, count};
      if (groups > 1) masks = compute(t, mask, all, element::fp32);  // else a view
      value hidden = compute(t, mask, all, element::boolean);
      hidden = compute(t, std::move(hidden), all, element::boolean);
      wanted = masked_fill(t, wanted, hidden);
      largest = top_k(t, wanted, model.moe.num_experts_per_tok);
      largest.elements.drop();
    }
    made.places = std::move(largest.places);
    made.weights = take_along(t, scores, made.places);
    if (model.moe.norm_topk_prob)
      made.weights = divide_in_place(t, made.weights, add_number(t, sum_of_rows(made.weights)));
    made.weights = scale(t, made.weights);
    return made;
  }

  // -- experts

  // grouped_mm_experts_forward
  constexpr value run_experts(const expert_modules& by, argument given, const routes& to) {
    const held rows(given);
    auto downs = adapters.prepare_experts(by.down.adapter);
    auto ups = adapters.prepare_experts(by.up.adapter);
    const std::int64_t chosen = model.moe.num_experts_per_tok;
    const std::int64_t count = rows.size[0] * chosen;
    const value weights = view(t, to.weights, sizes{count});
    const value places = view(t, to.places, sizes{count});
    const sorted_numbers sorted = sort_numbers(t, places);
    const value selected = rows_at(t, rows, compute(t, sorted.order, sizes{count}, element::int64));
    const value sorted_weights = rows_at(t, weights, sorted.order);
    const value as_integers = cast(t, sorted.numbers, element::int32);
    const value counts = compute(t, as_integers, sizes{model.moe.num_experts}, element::int32);
    const value ends = running_sum(t, counts);
    const auto biases = [&](const nn_module& of) -> value {
      if (of.bias == none) return {};
      return rows_at(t, t.parameter(of.bias), sorted.numbers);
    };
    const tensor up = adapters.matrices_of(by.up.weight, ups);
    value bias = biases(by.up);
    value out = gate(grouped_linear(selected, up, bias, ends));
    const tensor down = adapters.matrices_of(by.down.weight, downs);
    bias = biases(by.down);
    out = grouped_linear(std::move(out), down, bias, ends);
    const sizes column{count, 1};
    value weighted = multiply(t, out, view(t, sorted_weights, column));
    const value inverse = t.make(sizes{count}, element::int64);
    {
      const value range = full(t, sizes{count}, element::int64);
      t.executes({&*range, &*sorted.order, &*inverse});
    }
    weighted = rows_at(t, weighted, inverse);
    const value apart = view(t, weighted, {rows.size[0], chosen, rows.size[1]});
    return cast(t, sum_over(t, apart, 1), rows.format);
  }
  constexpr value grouped_linear(argument given,
                                 const tensor& weight,
                                 const tensor& bias,
                                 const tensor& ends) {
    const held x(given);
    const value input = cast(t, x, weight.format);
    value out;
    if (experts().is_transposed)
      out = grouped_product(t, input, weight, ends);
    else
      out = grouped_product(t, input, transpose(t, weight, 1, 2), ends);
    if (bias.defined()) out = add_in_place(t, out, bias);
    return out;
  }
  // _default_apply_gate
  constexpr virtual value gate(argument given) {
    const held both(given);
    const std::int64_t inner = both.size[1] / 2;
    const int parts = split(t, both);
    const value front = part(t, parts, both, 1, inner, 0);
    const value up = part(t, parts, both, 1, inner, 1);
    return multiply(t, activation(front), up);
  }

  growing_array<expert_modules> mixtures_{};
  growing_array<tensor> handed_out_{};  // logits of routers, as long as the forward runs
};

}  // namespace gpuplan::eager
