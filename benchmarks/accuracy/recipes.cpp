#include "recipes.hpp"

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/frameworks/megatron.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/detail/integer.hpp>
#include <gpuplan/io/module_names.hpp>
#include <gpuplan/io/trainer/pipeline_layout.hpp>
#include <gpuplan/memory/layouts.hpp>
#include <gpuplan/planner.hpp>
#include <gpuplan/time/roofline.hpp>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <system_error>

namespace accuracy {
namespace {

using gpuplan::transformer;

std::string sentence_of(const gpuplan::failure& why) { return gpuplan::failure_text(why).c_str(); }

// ---- the model

// ---- layers of several kinds, in words

// Whether all are letters of layers.
bool is_pattern(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), gpuplan::layer_pattern::is_letter);
}
// The number behind some words, or 0.
std::int64_t number_behind(std::string_view text, std::string_view words) {
  const std::size_t at = text.find(words);
  if (at == std::string_view::npos) return 0;
  std::int64_t number = 0;
  for (const char digit : text.substr(at + words.size())) {
    if (digit < '0' || digit > '9') break;
    number = 10 * number + (digit - '0');
  }
  return number;
}
// Of "(GGGA)*10" four: each G has linear attention, and the last one of the bracket attention.
std::int64_t interval_of(std::string_view pattern) {
  const std::size_t end = pattern.find(')');
  if (!pattern.starts_with('(') || end == std::string_view::npos || end < 3) return 0;
  const std::string_view within = pattern.substr(1, end - 1);
  const bool is_so = within.find_first_not_of('G') == within.size() - 1 && within.back() == 'A';
  return is_so ? static_cast<std::int64_t>(within.size()) : 0;
}

// What of a model no member of `transformer` describes.
std::string undescribed_part(const row& model) {
  const std::string_view pattern = model.text("hybrid_pattern");
  if (model.text("kind") == "diffusion") return "it is a diffusion transformer";
  if (model.integer_or("mla_q_rank", 0) != 0 && model.blank("mla_kv_rank"))
    return "its keys and values share one head (mla_kv_rank is blank)";
  if (pattern.empty() || is_pattern(pattern) || interval_of(pattern) != 0 ||
      number_behind(pattern, "sliding window ") != 0)
    return {};
  return "its layers are of kinds that are not understood: " + std::string(pattern);
}

// Adds what the columns of layers say.
void read_layers(const row& model, transformer& shape) {
  const std::string_view pattern = model.text("hybrid_pattern");
  const std::string_view notes = model.text("notes");
  if (const std::int64_t window = number_behind(pattern, "sliding window "); window != 0) {
    shape.sliding_window = window;
    shape.global_layer_step = number_behind(pattern, "every ");
    // gpt-oss, whose attention has sinks
    shape.attention_sinks = shape.moe.router_bias = shape.clamped_gate_up = shape.mlp_bias;
    return;
  }
  if (is_pattern(pattern)) {
    shape.hybrid_pattern = {pattern.data()};
    shape.mamba = {.num_heads = model.integer_or("mamba_heads", 0),
                   .head_dim = model.integer_or("mamba_head_dim", 0),
                   .state_size = model.integer_or("mamba_state", 0),
                   .n_groups = model.integer_or("mamba_groups", 1),
                   .conv_kernel = model.integer_or("mamba_conv", 4),
                   .chunk_size = model.integer_or("mamba_chunk", 128)};
  }
  if (const std::int64_t interval = interval_of(pattern); interval != 0) {
    shape.full_attention_interval = interval;
    // "16 key heads x128, 32 value heads x128, conv 4"
    const auto heads_before = [&](std::string_view words) {
      const std::size_t at = notes.find(words);
      if (at == std::string_view::npos) return std::int64_t{0};
      const std::size_t first = notes.find_last_not_of("0123456789", at - 1) + 1;
      return number_behind(notes.substr(first), "");
    };
    shape.linear = {.num_key_heads = heads_before(" key heads"),
                    .key_head_dim = number_behind(notes, " key heads x"),
                    .num_value_heads = heads_before(" value heads"),
                    .value_head_dim = number_behind(notes, " value heads x"),
                    .conv_kernel_dim = number_behind(notes, "conv ")};
    shape.attention_gate = notes.find("output gate") != std::string_view::npos;
    shape.moe.shared_expert_gate = shape.moe.shared_expert_intermediate_size != 0;
  }
}

// "depth 27; hidden 1152; ffn 4304; heads 16; patch 16; merge 2; deepstack 3": a tower of layers,
// and mergers of merge x merge patches to the model's width, one more for each layer read deeper.
std::int64_t parameters_of_tower(std::string_view tower, std::int64_t width) {
  const std::int64_t hidden = number_behind(tower, "hidden ");
  const std::int64_t merged =
      hidden * number_behind(tower, "merge ") * number_behind(tower, "merge ");
  const std::int64_t ffn = number_behind(tower, "ffn ");
  const std::int64_t patch = number_behind(tower, "patch ");
  const std::int64_t layer = 4 * hidden * (hidden + 1) + 2 * hidden * ffn + ffn + 5 * hidden;
  const std::int64_t merger = merged * (merged + 1) + merged * width + width + 2 * merged;
  return number_behind(tower, "depth ") * layer + 2 * 3 * patch * patch * hidden +
         (1 + number_behind(tower, "deepstack ")) * merger;
}

// "repeated shared layer, pattern *E"
void read_prediction(const row& model, std::string& letters, transformer& shape) {
  const std::string_view note = model.text("mtp_note");
  shape.repeats_mtp_layer = note.find("shared") != std::string_view::npos;
  constexpr std::string_view word = "pattern ";
  const std::size_t at = note.find(word);
  if (at == std::string_view::npos) return;
  letters = note.substr(at + word.size());
  letters.resize(std::min(letters.find_first_not_of("MG*-E"), letters.size()));
  if (!letters.empty()) shape.mtp_pattern = {letters.c_str()};
}

transformer shape_of(const row& model, const row& recipe) {
  const std::int64_t experts = model.integer_or("experts", 0);
  const bool bias = model.text("linear_bias") == "true";
  const std::int64_t vocabulary = number_behind(model.text("notes"), "vocabulary in recipes: ");
  transformer shape{.num_hidden_layers = model.integer_or("layers", 0),
                    .hidden_size = model.integer_or("hidden", 0),
                    .intermediate_size = model.integer_or("ffn", 0),
                    .num_attention_heads = model.integer_or("heads", 1),
                    .num_key_value_heads = model.integer_or("kv_heads", 0),
                    .head_dim = model.integer_or("head_dim", 0),
                    .vocab_size = vocabulary != 0 ? vocabulary : model.integer_or("vocab", 0),
                    .attention_bias = bias,
                    .attention_out_bias = bias,
                    .gated_mlp = model.text("gated_mlp") != "false",
                    .mlp_bias = bias,
                    .tied_embeddings = model.text("tied_embeddings") == "true",
                    .mtp_layers = recipe.integer_or("mtp_layers", 0)};
  if (experts != 0)
    shape.moe = {.num_experts = experts,
                 .num_experts_per_tok = model.integer_or("topk", 0),
                 .moe_intermediate_size = model.integer_or("expert_ffn", 0),
                 .shared_expert_intermediate_size = model.integer_or("shared_expert_ffn", 0),
                 .first_k_dense_layers = model.integer_or("first_dense_layers", 0),
                 .moe_latent_size = model.integer_or("moe_latent", 0)};
  if (!model.blank("mla_kv_rank"))
    shape.mla = {.q_lora_rank = model.integer_or("mla_q_rank", 0),
                 .kv_lora_rank = model.integer_or("mla_kv_rank", 0),
                 .qk_nope_head_dim = model.integer_or("mla_qk_nope_dim", 0),
                 .qk_rope_head_dim = model.integer_or("mla_qk_rope_dim", 0),
                 .v_head_dim = model.integer_or("mla_v_dim", 0)};
  read_layers(model, shape);
  return shape;
}

// ---- the plan

// "LoRA dim=16 alpha=32 targets=linear_qkv" of the notes.
std::string read_adapters(const row& source, gpuplan::training_setup& setup) {
  if (source.text("task") != "lora") return {};
  const std::string_view notes = source.text("notes");
  const auto value_of = [&](std::string_view key) {
    const std::size_t at = notes.find(key);
    if (at == std::string_view::npos) return std::string_view();
    const std::string_view rest = notes.substr(at + key.size());
    return rest.substr(0, rest.find_first_of(" ;"));
  };
  const std::string_view rank = value_of("LoRA dim=");
  std::string_view targets = value_of("targets=");
  gpuplan::lora& adapters = setup.trains.adapters;
  if (std::from_chars(rank.data(), rank.data() + rank.size(), adapters.rank).ec != std::errc{})
    return "its notes do not say the rank of its adapters";
  setup.trains.what = gpuplan::training::adapters;
  setup.model.fused_qkv = setup.model.fused_gate_up = true;
  adapters.weights = gpuplan::number_format::bf16;
  adapters.targets = {};
  gpuplan::lora_targets& to = adapters.targets;
  while (!targets.empty()) {
    const std::string_view name = targets.substr(0, targets.find_first_of("+,"));
    targets.remove_prefix(std::min(name.size() + 1, targets.size()));
    if (name == "linear_qkv")
      to.query = to.key = to.value = true;
    else if (name == "linear_proj")
      to.attention_out = true;
    else if (name == "linear_fc1")
      to.gate = to.up = true;
    else if (name == "linear_fc2")
      to.down = true;
    else
      return "adapters beside '" + std::string(name) + "'";
  }
  return {};
}

}  // namespace

std::string read_casts(std::string_view precision, bool stores, gpuplan::training_setup& setup) {
  if (precision == "bf16") return {};
  struct named_recipe {
    std::string_view name;
    gpuplan::scaling_kind scaling;
  };
  using gpuplan::scaling_kind;
  constexpr named_recipe known[] = {{"fp8_cs", scaling_kind::tensor},
                                    {"fp8_ds", scaling_kind::delayed},
                                    {"fp8_sc", scaling_kind::blocks},
                                    {"mxfp8", scaling_kind::micro},
                                    {"nvfp4", scaling_kind::micro}};
  for (const named_recipe& one : known) {
    if (one.name != precision) continue;
    setup.precision.scaling = one.scaling;
    setup.precision.fp4_linears = precision == "nvfp4";
    setup.precision.fp8_linears = !setup.precision.fp4_linears;
    setup.precision.quantised_weights = stores;
    return {};
  }
  return "precision '" + std::string(precision) +
         "' is none of bf16, fp8_cs, fp8_ds, fp8_sc, mxfp8 and nvfp4";
}

std::string read_modules(std::string_view modules, gpuplan::training_setup& setup) {
  setup.recompute = gpuplan::recompute_mode::selective;
  if (modules.empty()) return {};  // core_attn, which is Megatron-Core's own choice too
  setup.modules.core_attention = false;
  while (!modules.empty()) {
    const std::string_view name = modules.substr(0, modules.find('+'));
    modules.remove_prefix(std::min(name.size() + 1, modules.size()));
    if (!gpuplan::io::add_module(name, setup.modules))
      return "module '" + std::string(name) + "' is computed again";
  }
  return {};
}

// NVLink joins 72 GPUs of the racks, whose nodes are trays of 4, and 8 of the others.
std::string read_cluster(const row& source, gpuplan::cluster& on) {
  std::string_view name = source.text("gpu");
  if (name.empty()) name = source.text("gpu_name");
  const auto gpu = gpuplan::catalog::find_gpu(name);
  if (!gpu) return sentence_of(gpu.why());
  const std::int64_t gpus = source.integer_or("gpus", 1);
  const std::string_view id = gpu->id;
  const bool is_rack = id.starts_with("gb") || id.starts_with("vr");
  std::int64_t in_node = std::clamp<std::int64_t>(gpus, 1, is_rack ? 4 : 8);
  while (gpus % in_node != 0) --in_node;
  const double adapter = id.starts_with("vr")                      ? 200e9
                         : id.starts_with("b300") || id == "gb300" ? 100e9
                                                                   : 50e9;
  on = {.gpu = *gpu, .nodes = gpus / in_node, .gpus_per_node = in_node};
  if (is_rack && in_node == 4) on.gpus_per_link_domain = 72;
  if (on.nodes > 1)
    on.between_nodes = gpuplan::bandwidth::from_value(adapter * static_cast<double>(in_node));
  return {};
}

namespace {

std::string read_precision(const row& source, gpuplan::training_setup& setup) {
  const std::string_view precision = source.text("precision");
  setup.precision = gpuplan::bf16_megatron;
  setup.precision.fp32_gradients = source.text("grad_dtype") == "fp32";
  if (source.text("exp_avg_dtype") == "bf16") setup.optimizer.states = gpuplan::number_format::bf16;
  setup.optimizer.reads_narrow_gradients = source.text("precision_aware_optimizer") == "true";
  return read_casts(precision, source.text("weight_storage") != "bf16", setup);
}

std::string read_recomputation(const row& source, gpuplan::training_setup& setup) {
  const std::string_view what = source.text("recompute_granularity");
  if (what == "full") {
    setup.recompute = gpuplan::recompute_mode::full;
    if (source.text("recompute_method") == "block")
      setup.recompute_layers = source.integer_or("recompute_num_layers", 0);
    else
      setup.recompute_span = source.integer_or("recompute_num_layers", 1);
    return {};
  }
  if (what != "selective") return {};
  return read_modules(source.text("recompute_modules"), setup);
}

std::string read_graphs(const row& source, gpuplan::captured_parts& to) {
  std::string_view what = source.text("cuda_graph");
  if (what.empty() || what == "none") return {};
  if (what == "full_iteration") {
    to.iteration = true;
    return {};
  }
  what.remove_prefix(std::min(what.find(':') + 1, what.size()));
  using gpuplan::captured_parts;
  struct named_part {
    std::string_view name;
    bool captured_parts::*is;
  };
  constexpr named_part known[] = {{"attn", &captured_parts::attention},
                                  {"mamba", &captured_parts::state_spaces},
                                  {"mlp", &captured_parts::mlp},
                                  {"moe_router", &captured_parts::router},
                                  {"moe_preprocess", &captured_parts::dispatch}};
  if (what == "whole_layer") to.attention = to.mlp = true;
  while (!what.empty() && what != "whole_layer") {
    const std::string_view name = what.substr(0, what.find('+'));
    what.remove_prefix(std::min(name.size() + 1, what.size()));
    const auto* const found = std::find_if(
        std::begin(known), std::end(known), [&](const auto& one) { return one.name == name; });
    if (found == std::end(known)) return "a graph of '" + std::string(name) + "' is captured";
    to.*found->is = true;
  }
  return {};
}

std::string read_split(const row& source, gpuplan::parallelism& layout) {
  layout.split.first_stage_layers = source.integer_or("first_stage_layers", 0);
  layout.split.last_stage_layers = source.integer_or("last_stage_layers", 0);
  if (source.text("embed_loss_as_layers") == "true")
    layout.split.embedding_layers = layout.split.head_layers = 1;
  if (source.blank("pipeline_layout")) return {};
  const auto read = gpuplan::io::pipeline_layout_of(std::string(source.text("pipeline_layout")));
  if (!read) return "pipeline_layout " + read.why;
  layout.split.listed = read.chunks;
  return {};
}

// "layers:20", or "modules:core_attn+attn_proj".
std::string read_offloads(const row& source, gpuplan::offloaded_activations& to) {
  const std::string_view what = source.text("offload_activations");
  constexpr std::string_view of_layers = "layers:", of_modules = "modules:";
  if (what.empty()) return {};
  if (what.starts_with(of_layers)) {
    const std::string_view count = what.substr(of_layers.size());
    if (std::from_chars(count.data(), count.data() + count.size(), to.layers).ec == std::errc{})
      return {};
  }
  std::string_view rest = what.starts_with(of_modules) ? what.substr(of_modules.size()) : "";
  bool any = false;
  while (!rest.empty()) {
    const std::string_view name = rest.substr(0, rest.find('+'));
    rest.remove_prefix(std::min(name.size() + 1, rest.size()));
    bool* const module = name == "core_attn"    ? &to.core_attention
                         : name == "attn_proj"  ? &to.attention_output
                         : name == "expert_fc1" ? &to.expert_input
                                                : nullptr;
    if (module == nullptr) break;
    *module = any = true;
  }
  if (any && rest.empty()) return {};
  return "activations of '" + std::string(what) + "' are moved to the host";
}

std::string read_plan(const row& source, described_recipe& recipe) {
  gpuplan::parallelism& layout = recipe.setup.parallelism;
  layout.tensor_parallel = source.integer_or("tp", 1);
  layout.pipeline_parallel = source.integer_or("pp", 1);
  layout.virtual_pipeline = source.integer_or("vpp", 1);
  layout.context_parallel = source.integer_or("cp", 1);
  layout.expert_parallel = source.integer_or("ep", 1);
  layout.sequence_parallel = source.text("sequence_parallel") == "true";
  layout.zero_stage = source.text("use_distributed_optimizer") == "true" ? 1 : 0;
  if (source.text("megatron_fsdp") == "true") {
    if (source.text("fsdp_strategy") != "optim_grads_params")
      return "Megatron-FSDP shards '" + std::string(source.text("fsdp_strategy")) + "'";
    if (source.text("fsdp_outer") != "no_shard")
      return "groups of ranks shard '" + std::string(source.text("fsdp_outer")) +
             "' among each other";
    recipe.setup.framework = gpuplan::catalog::megatron_bridge_fsdp;
    layout.zero_stage = 3;
  }
  if (source.integer_or("etp", 1) != 1) return "experts are divided by tensor parallelism (etp)";
  if (const std::string why = read_graphs(source, recipe.setup.graphs); !why.empty()) return why;
  if (const std::string why = read_offloads(source, recipe.setup.offloads); !why.empty())
    return why;
  if (const std::string why = read_split(source, layout); !why.empty()) return why;
  const std::int64_t ranks =
      layout.tensor_parallel * layout.pipeline_parallel * layout.context_parallel;
  const std::int64_t gpus = source.integer_or("gpus", 1);
  const std::int64_t micro_batch = source.integer_or("micro_batch", 1);
  if (ranks < 1 || gpus % ranks != 0) return "tp, pp and cp do not divide its GPUs";
  const std::int64_t replicas = gpus / ranks;
  const std::int64_t batch = source.integer_or("global_batch", 1);
  if (micro_batch < 1 || batch % (micro_batch * replicas) != 0)
    return "micro_batch and replicas do not divide global_batch";
  recipe.plan = {.micro_batch = micro_batch,
                 .data_parallel = replicas,
                 .accumulation = batch / (micro_batch * replicas)};
  return {};
}

gpuplan::plan_request question_of(const described_recipe& recipe) {
  gpuplan::plan_request asked;
  asked.setup = recipe.setup;
  asked.setup.recompute = gpuplan::recompute_mode::none;
  asked.setup.recompute_layers = 0;
  asked.setup.recompute_span = 1;
  asked.setup.parallelism = {.zero_stage = recipe.setup.parallelism.zero_stage};
  asked.on = recipe.on;
  asked.efficiency = gpuplan::catalog::efficiency_of(recipe.on.gpu);
  const std::int64_t gpus = total_gpus(recipe.on);
  const std::int64_t batch = recipe.plan.effective_batch();
  asked.effective_batch = gpuplan::range<std::int64_t>{batch, batch};
  const auto up_to = [](std::int64_t most) { return gpuplan::range<std::int64_t>{1, most}; };
  asked.space.gpus = gpuplan::range<std::int64_t>{gpus, gpus};
  asked.space.tensor_parallel = up_to(8);
  if (recipe.setup.parallelism.zero_stage < 2) {
    asked.space.pipeline_parallel = up_to(std::min<std::int64_t>(gpus, 64));
    asked.space.virtual_pipeline = up_to(8);
  }
  asked.space.context_parallel = up_to(8);
  if (recipe.setup.model.moe.num_experts != 0)
    asked.space.expert_parallel = up_to(recipe.setup.model.moe.num_experts);
  asked.space.recompute = asked.space.recompute_layers = true;
  asked.space.sequence_parallel = true;
  return asked;
}

// Seconds of a step of the recipe, or why there are none.
prediction step_of(const described_recipe& recipe) {
  const gpuplan::roofline_time time{.setup = recipe.setup,
                                    .on = recipe.on,
                                    .efficiency = gpuplan::catalog::efficiency_of(recipe.on.gpu)};
  if (const auto valid = validate(time, recipe.plan); !valid) return sentence_of(valid.why());
  return number(time.step(recipe.plan).value());
}

// Megatron-Bridge sets expandable segments, which leave no gaps between what lies in them but for
// pages of 2 MiB.
gpuplan::transformer_memory_of memory_on(const gpuplan::gpu_spec& gpu) {
  return gpuplan::transformer_memory_of{.fragmentation = 0.02}.on(gpu);
}

}  // namespace

prediction fits_of(const described_recipe& recipe) {
  const auto memory = memory_on(recipe.on.gpu)(recipe.setup);
  if (const auto valid = validate(memory); !valid) return sentence_of(valid.why());
  if (const auto valid = validate(memory, recipe.plan); !valid) return sentence_of(valid.why());
  const gpuplan::bytes needed = memory.required(recipe.plan);
  return number(std::int64_t{needed <= usable_memory(recipe.on.gpu)});
}

void recipe_models::add(const csv_file& file) {
  for (const csv_file::row_of_cells& cells : file.rows) {
    const row one(file, cells);
    models_.insert_or_assign(std::string(one.text("model")), one);
  }
}

const row* recipe_models::find(std::string_view name) const {
  const auto found = models_.find(name);
  return found == models_.end() ? nullptr : &found->second;
}

described_recipe describe_recipe(const row& source, const recipe_models& models) {
  described_recipe recipe;
  const row* const model = models.find(source.text("model"));
  if (model == nullptr) {
    recipe.why_not = "no file given has its model";
    return recipe;
  }
  gpuplan::training_setup& setup = recipe.setup;
  recipe.why_not = undescribed_part(*model);
  if (!recipe.why_not.empty()) return recipe;
  setup.model = shape_of(*model, source);
  setup.frozen_parameters =
      parameters_of_tower(model->text("vision_tower"), setup.model.hidden_size);
  recipe.mtp_letters = std::make_shared<std::string>();
  read_prediction(*model, *recipe.mtp_letters, setup.model);
  setup.framework = gpuplan::catalog::megatron_bridge_2606;
  setup.sequence_length = source.integer_or("seq_len", 0);
  for (const auto& read : {read_adapters(source, setup),
                           read_precision(source, setup),
                           read_recomputation(source, setup),
                           read_plan(source, recipe),
                           read_cluster(source, recipe.on)}) {
    recipe.why_not = read;
    if (!read.empty()) return recipe;
  }
  return recipe;
}

void compare_recipe(const recipe_models& models, row_comparisons& row) {
  if (row.source.text("valid_at_pinned_core") == "false") return;
  const described_recipe recipe = describe_recipe(row.source, models);
  if (!recipe.why_not.empty()) {
    row.add(quantity::accepted, number(std::int64_t{1}), recipe.why_not);
    return;
  }
  const gpuplan::plan_request asked = question_of(recipe);
  const auto found = plan_training(asked, memory_on(recipe.on.gpu), 1);
  if (!found) {
    row.add(quantity::accepted, number(std::int64_t{1}), sentence_of(found.why()));
    return;
  }
  row.add(quantity::accepted, number(std::int64_t{1}), number(std::int64_t{1}));
  const prediction fits = fits_of(recipe);
  row.add(quantity::fits, number(std::int64_t{1}), fits);
  prediction ratio = step_of(recipe);
  if (ratio.value) {
    const double whole = found->best().step.value();
    ratio.value = number(whole / ratio.value->value());
  }
  row.add(quantity::best_over_recipe, number(1.0), ratio);
}

}  // namespace accuracy
