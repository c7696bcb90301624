#pragma once

// What the sizes of a step's tensors are called. Private.

#include <gpuplan/batch.hpp>
#include <gpuplan/catalog/frameworks/megatron.hpp>
#include <gpuplan/replay/eager/tensor.hpp>
#include <gpuplan/training_setup.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace gpuplan {

/// One factor of a tensor's size.
struct dimension {
  std::int64_t size = 1;
  std::string name{};  // "tokens"; empty where the size alone does not tell

  friend bool operator==(const dimension&, const dimension&) = default;
};

namespace eager {

/// What a row of a tensor is as wide as.
enum class width : unsigned char {
  unknown,
  hidden,
  intermediate,
  gate_and_up,
  query,
  key_value,
  query_key_value,
  head,
  half_head,
  vocabulary,
  classes,
  tokens,
  target_tokens,
  adapter
};
inline constexpr int widths = static_cast<int>(width::adapter) + 1;

/// What a linear layer, a table or a norm reads and makes; unknown where that has no name.
struct module_widths {
  width in = width::unknown;
  width out = width::unknown;
};
[[nodiscard]] inline module_widths widths_of(const std::string& module) {
  struct known {
    const char* module;
    module_widths is;
  };
  static constexpr known all[] = {
      {"query", {width::hidden, width::query}},
      {"key", {width::hidden, width::key_value}},
      {"value", {width::hidden, width::key_value}},
      {"query_key_value", {width::hidden, width::query_key_value}},
      {"attention_output", {width::query, width::hidden}},
      {"gate", {width::hidden, width::intermediate}},
      {"up", {width::hidden, width::intermediate}},
      {"gate_up", {width::hidden, width::gate_and_up}},
      {"down", {width::intermediate, width::hidden}},
      {"pooler", {width::hidden, width::hidden}},
      {"norm", {width::hidden, width::hidden}},
      {"table", {width::hidden, width::hidden}},
      {"head_dense", {width::hidden, width::hidden}},
      {"token table", {width::hidden, width::vocabulary}},  // (out, in), as of a head
  };
  for (const known& one : all)
    if (module == one.module) return one.is;
  return {};
}

/// The named sizes of a setup, and which of them a tensor's are. Sizes that several names fit are
/// left without one, unless it is known whose they are.
class named_dimensions {
 public:
  named_dimensions(const training_setup& setup, const batch_plan& plan) {
    const transformer& model = setup.model;
    const std::int64_t heads = model.num_attention_heads;
    const std::int64_t groups = model.key_value_heads();
    const std::int64_t head = model.query_dim();
    const bool is_vision = model.kind == model_kind::vision;
    const std::int64_t tokens = is_vision ? model.image.tokens() : setup.sequence_length;
    const std::int64_t target = setup.target_length != 0 ? setup.target_length : tokens;
    ranks_ = {
        setup.parallelism.tensor_parallel, setup.parallelism.context_parallel, plan.data_parallel};
    const dimension of_head{head, "head width"};
    set(width::hidden, {{model.hidden_size, "hidden"}});
    set(width::intermediate, {{model.intermediate_size, "intermediate"}});
    set(width::gate_and_up, {{2, ""}, {model.intermediate_size, "intermediate"}});
    set(width::query, {{heads, "heads"}, of_head});
    set(width::key_value, {{groups, groups == heads ? "heads" : "key-value heads"}, of_head});
    set(width::query_key_value, {{heads + 2 * groups, "query, key and value heads"}, of_head});
    set(width::head, {of_head});
    set(width::half_head, {{head / 2, "half a head's width"}});
    const bool is_megatron = setup.framework.layers().name == &code_names::megatron_core;
    const std::int64_t tensor = setup.parallelism.tensor_parallel;
    set(width::vocabulary,
        {{is_megatron ? detail::padded_rows_of_rank(model.vocab_size, tensor) * tensor
                      : model.vocab_size,
          "vocabulary"}});
    set(width::classes, {{model.num_classes, "classes"}});
    set(width::tokens, {{tokens, "tokens"}});
    set(width::target_tokens, {{target, target == tokens ? "tokens" : "target tokens"}});
    set(width::adapter, {{setup.trains.adapters.rank, "adapter rank"}});

    const dimension samples{plan.micro_batch, "samples"};
    const dimension texts{plan.micro_batch * setup.encodings, "texts"};
    const std::vector<dimension> lengths[] = {of(width::tokens), of(width::target_tokens)};
    const std::vector<dimension> stacks[] = {{{heads, "heads"}},
                                             {{groups, of(width::key_value)[0].name}}};
    outer_ = {{samples}};
    if (setup.encodings > 1) outer_.push_back({texts});
    if (is_megatron) inner_ = outer_;
    for (const auto& more : lengths) {
      outer_.push_back({samples, more[0]});
      if (setup.encodings > 1) outer_.push_back({texts, more[0]});
      outer_.push_back(more);
      inner_.push_back(more);
    }
    for (const auto& more : stacks) {
      outer_.push_back({samples, more[0]});
      inner_.push_back(more);
    }
    rows_ = {of(width::vocabulary),
             {{model.position_rows, "positions"}},
             {{model.type_vocab_size, "token types"}},
             of(width::classes)};
  }

  /// The factors of a tensor's sizes. `last` is the last one's, where it is known; `first` that of
  /// a parameter's matrix.
  [[nodiscard]] std::vector<dimension> factors(const sizes& size,
                                               width last,
                                               width first,
                                               bool is_parameter) const {
    std::vector<dimension> all;
    for (int at = 0; at < size.rank; ++at) {
      if (size[at] == 1) continue;
      const bool is_last = at + 1 == size.rank;
      std::vector<std::vector<dimension>> known;
      if (is_last) {
        known = candidates(last);
      } else if (first != width::unknown && fits(size[at], first)) {
        known = candidates(first);
      } else {
        known = is_parameter ? rows_ : at == 0 ? outer_ : inner_;
      }
      for (const dimension& one : match(size[at], known)) all.push_back(one);
    }
    return all;
  }
  /// Which width a size is, of these; unknown where several fit, or none.
  [[nodiscard]] width which(std::int64_t size, const std::vector<width>& known) const {
    width found = width::unknown;
    for (const width one : known) {
      if (product(of(one)) != size && !is_part(size, product(of(one)))) continue;
      if (found != width::unknown && of(found) != of(one)) return width::unknown;
      found = one;
    }
    return found;
  }
  [[nodiscard]] bool fits(std::int64_t size, width one) const {
    return one != width::unknown && which(size, {one}) == one;
  }
  [[nodiscard]] static std::vector<width> all() {
    std::vector<width> known;
    for (int at = 1; at < widths; ++at) known.push_back(static_cast<width>(at));
    return known;
  }

 private:
  void set(width of, const std::vector<dimension>& is) { of_[static_cast<int>(of)] = is; }
  [[nodiscard]] const std::vector<dimension>& of(width one) const {
    return of_[static_cast<int>(one)];
  }
  [[nodiscard]] std::vector<std::vector<dimension>> candidates(width one) const {
    if (one != width::unknown) return {of(one)};
    std::vector<std::vector<dimension>> known;
    for (const width each : all()) known.push_back(of(each));
    return known;
  }
  [[nodiscard]] static std::int64_t product(const std::vector<dimension>& factors) {
    std::int64_t all = 1;
    for (const dimension& one : factors) all *= one.size;
    return all;
  }
  [[nodiscard]] bool is_part(std::int64_t size, std::int64_t whole) const {
    for (const std::int64_t ranks : ranks_)
      if (ranks > 1 && size == (whole + ranks - 1) / ranks) return true;
    return false;
  }
  // The one that has this size; else the one whose part has it; else the bare number.
  [[nodiscard]] std::vector<dimension> match(
      std::int64_t size, const std::vector<std::vector<dimension>>& known) const {
    std::vector<std::vector<dimension>> found;
    const auto note = [&](std::vector<dimension> one) {
      one.erase(
          std::remove_if(
              one.begin(), one.end(), [](const dimension& factor) { return factor.size == 1; }),
          one.end());
      if (std::find(found.begin(), found.end(), one) == found.end()) found.push_back(one);
    };
    for (const auto& one : known)
      if (product(one) == size) note(one);
    for (const std::int64_t ranks : ranks_) {
      if (ranks <= 1 || !found.empty()) continue;
      for (const auto& one : known) {
        if (size != (product(one) + ranks - 1) / ranks || one.empty()) continue;
        std::string name;
        for (const dimension& factor : one)
          name += (name.empty() ? "" : " x ") + std::to_string(factor.size) + " " + factor.name;
        note({{size, "(" + name + " / " + std::to_string(ranks) + " ranks)"}});
      }
    }
    if (found.size() == 1) return found[0];
    return {{size, ""}};
  }

  std::vector<dimension> of_[widths]{};
  std::vector<std::vector<dimension>> outer_{};  // what the first of several sizes may be,
  std::vector<std::vector<dimension>> inner_{};  // one between,
  std::vector<std::vector<dimension>> rows_{};   // and the first of two
  std::vector<std::int64_t> ranks_{};
};

}  // namespace eager
}  // namespace gpuplan
