#pragma once

// Vision-language-action models: OpenVLA and GR00T N1.5.

#include <gpuplan/catalog/models/vision.hpp>
#include <gpuplan/model.hpp>

namespace gpuplan::catalog {

// Llama 2 7B with its vocabulary padded from 32000 to 32064.
inline constexpr transformer llama_2_7b_vocab32064{
    .name = "llama-2-7b-vocab32064",
    .num_hidden_layers = 32,
    .hidden_size = 4096,
    .intermediate_size = 11008,
    .num_attention_heads = 32,
    .vocab_size = 32064,
};

// OpenVLA (arXiv 2406.09246): openvla/openvla, prismatic/extern/hf/modeling_prismatic.py. The total
// agrees, and so do the adapters that its fine-tuning program prints. Both towers are timm 0.9's,
// which fuse query, key and value and take the exact GELU. Their 256 patches are joined and
// projected, those of the layer before the last: the last one, and SigLIP's pooling, are there but
// lead to nothing.
inline constexpr composite_model openvla_7b{
    .name = "openvla-7b",
    .parts = {{.model =
                   [] {
                     transformer tower = dinov2_large_reg4_224;
                     tower.name = "timm-vit-large-patch14-reg4-dinov2";
                     return tower;
                   }(),
               .unread_layers = 1,
               .class_token_read = false},
              {.model =
                   [] {
                     transformer tower = siglip_so400m_patch14_224_vision;
                     tower.name = "timm-vit-so400m-patch14-siglip-224";
                     tower.hidden_act = activation_function::gelu;
                     tower.fused_qkv = true;
                     return tower;
                   }(),
               .next = {.widths = {1024 + 1152, 8704, 4096, 4096}, .tokens = 256},
               .unread_layers = 1},
              {.model = llama_2_7b_vocab32064}},
};

// Qwen3 1.7B cut to 12 layers, as in GR00T N1.5's Eagle 2.5. Vocabulary and head were chosen to
// give the published total.
inline constexpr transformer qwen3_1_7b_first12{
    .name = "qwen3-1.7b-first12",
    .num_hidden_layers = 12,
    .hidden_size = 2048,
    .intermediate_size = 6144,
    .num_attention_heads = 16,
    .num_key_value_heads = 8,
    .vocab_size = 151680,
    .qk_norm = qk_norm_scope::head,
};

// What GR00T N1.5 keeps frozen: vision, one linear layer (2,361,344 parameters in print), language.
// That its total is the published one checks nothing, since the vocabulary was chosen for it.
inline constexpr composite_model gr00t_n1_5_3b_backbone{
    .name = "gr00t-n1.5-3b-backbone",
    .parts = {{.model = siglip_so400m_patch14_224_vision,
               .next = {.widths = {1152, 2048}, .tokens = 256}},
              {.model = qwen3_1_7b_first12}},
};

// What of it trains, and the whole. Isaac-GR00T's gr00t/model/action_head, recalled, not read: the
// check is that these shapes have the 1,068,806,144 parameters which fine-tunes print as trained.
inline constexpr composite_model gr00t_n1_5_3b = [] {
  composite_model model = gr00t_n1_5_3b_backbone;
  model.name = "gr00t-n1.5-3b";
  model.actions = {.num_hidden_layers = 16,
                   .hidden_size = 1536,
                   .num_attention_heads = 32,
                   .state_dim = 64,
                   .action_dim = 32,
                   .horizon = 16,
                   .embodiments = 32,
                   .encoder_size = 1024,
                   .context_layers = 4,
                   .future_tokens = 32,
                   .position_rows = 1024,
                   .drops = true};
  for (int at = 0; at < model.size(); ++at) {
    component& part = model.parts[at];
    part.trains.what = training::frozen;
    part.next.trains = false;
    part.frozen_in_compute_format = true;
  }
  model.other_parameters = model.actions.parameters(qwen3_1_7b_first12.hidden_size);
  return model;
}();
static_assert(gr00t_n1_5_3b.other_parameters == 1'068'806'144);

}  // namespace gpuplan::catalog
