#pragma once

#include <gpuplan/io/trainer/members.hpp>
#include <gpuplan/io/trainer/training_config.hpp>

#include <string>
#include <type_traits>

inline bool same_member(const std::string& a, const std::string& b) { return a == b; }
inline bool same_member(const gpuplan::transformer& a, const gpuplan::transformer& b) {
  using t = gpuplan::transformer;
  for (const auto member : {&t::num_hidden_layers,
                            &t::hidden_size,
                            &t::intermediate_size,
                            &t::num_attention_heads,
                            &t::num_key_value_heads,
                            &t::head_dim,
                            &t::vocab_size,
                            &t::sliding_window,
                            &t::global_layer_step,
                            &t::position_rows,
                            &t::mtp_layers})
    if (a.*member != b.*member) return false;
  for (const auto member : {&t::attention_bias,
                            &t::attention_out_bias,
                            &t::fused_qkv,
                            &t::attention_sinks,
                            &t::gated_mlp,
                            &t::mlp_bias,
                            &t::clamped_gate_up,
                            &t::norm_bias,
                            &t::tied_embeddings})
    if (a.*member != b.*member) return false;
  return a.mla == b.mla && a.moe == b.moe && a.hidden_act == b.hidden_act && a.norm == b.norm &&
         a.qk_norm == b.qk_norm;
}
template <class T>
bool same_member(const T& a, const T& b) {
  return a == b;
}
template <class T>
bool same_member(const gpuplan::known<T>& a, const gpuplan::known<T>& b) {
  return static_cast<bool>(a) == static_cast<bool>(b) && (!a || same_member(*a, *b));
}

/// The names of the members in which two configs differ, with a blank behind each.
inline std::string differences(const gpuplan::io::training_config& a,
                               const gpuplan::io::training_config& b) {
  std::string names;
  gpuplan::io::detail::for_each_member([&](const char* name, auto member) {
    if (!same_member(a.*member, b.*member)) names += std::string(name) + " ";
  });
  return names;
}
