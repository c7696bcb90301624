#include "compare.hpp"

#include <gpuplan/detail/integer.hpp>
#include <gpuplan/flops.hpp>
#include <gpuplan/parameters.hpp>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

#include "adapters.hpp"
#include "collectives.hpp"
#include "compare_runs.hpp"
#include "compare_steps.hpp"
#include "configured_steps.hpp"
#include "kernels.hpp"
#include "memory.hpp"
#include "model_index.hpp"
#include "notes.hpp"
#include "published_kernels.hpp"
#include "row_comparisons.hpp"
#include "steps.hpp"
#include "tuning_setups.hpp"
#include "whole_runs.hpp"

namespace accuracy {
namespace {

using gpuplan::flop_count;
using gpuplan::flop_counts;

const std::string too_many = "its parameters are too many for 64 bits";

// ---- models.csv, torch_models.csv

void compare_model(const model_index& models, row_comparisons& row) {
  counted_model counted;
  const bool has_any =
      !row.source.blank("params_total_exact") || !row.source.blank("params_active");
  if (has_any) counted = models.count(row.source);
  const auto predicted = [&](std::int64_t count) -> prediction {
    if (!counted.why_not.empty()) return counted.why_not;
    const auto sum =
        gpuplan::detail::checked_sum(count, row.source.integer_or("published_extra", 0));
    if (!sum.ok) return too_many;
    return number(sum.value);
  };
  row.count(quantity::parameters, "params_total_exact", [&] { return predicted(counted.total); });
  row.count(
      quantity::active_parameters, "params_active", [&] { return predicted(counted.active); });
}

// ---- torch_flops.csv

struct pass_of_row {
  gpuplan::transformer shape{};
  gpuplan::training_pass pass{};
  std::int64_t sequences = 0;
  std::string why_not;
};

pass_of_row describe_pass(const row& source, const model_index& models) {
  pass_of_row described;
  const found_model found = models.find(source.text("model_id"));
  described.why_not = found.why_not;
  if (!described.why_not.empty()) return described;
  if (!found.model.unknown_matmuls.empty()) {
    described.why_not = "no column describes: " + found.model.unknown_matmuls;
    return described;
  }
  gpuplan::transformer& shape = described.shape = found.model.shape;
  gpuplan::training_pass& pass = described.pass;
  const bool is_vision = shape.kind == gpuplan::model_kind::vision;
  pass.sequence_length = is_vision ? 0 : source.integer_or("seq_len", 0);
  pass.decoder_sequence_length = source.integer_or("decoder_seq_len", 0);
  pass.fused_attention = source.text("attn_implementation") != "eager";
  pass.input_requires_grad = source.flag("input_requires_grad");
  described.sequences = source.integer_or("batch", 1);
  const std::string_view recompute = source.text("recompute");
  if (recompute == "full") {
    pass.recompute = gpuplan::recompute_mode::full;
    pass.recompute_stops_early = !source.flag("checkpoint_reentrant");
  } else if (recompute != "none" && !recompute.empty()) {
    described.why_not = "what recomputation '" + std::string(recompute) + "' repeats is not known";
  }
  const std::string_view frozen = source.text("frozen");
  if (frozen == "all_but_head") {
    pass.trains.what = gpuplan::training::head;
  } else if (frozen == "lora") {
    const described_adapters adapters = describe_adapters(
        frozen, source.integer_or("lora_rank", 0), source.text("lora_targets"), shape);
    pass.trains = adapters.trains;
    if (!adapters.why_not.empty()) described.why_not = adapters.why_not;
  } else if (frozen != "none" && !frozen.empty()) {
    described.why_not = "what trains with '" + std::string(frozen) + "' frozen is not known";
  }
  if (described.why_not.empty())
    if (const auto valid = validate(pass, shape); !valid)
      described.why_not = gpuplan::failure_text(valid.why()).c_str();
  return described;
}

void compare_pass(const model_index& models, row_comparisons& row) {
  const pass_of_row described = describe_pass(row.source, models);
  const auto predicted = [&](auto predict) -> prediction {
    if (!described.why_not.empty()) return described.why_not;
    return number(predict());
  };
  flop_counts counts;
  if (described.why_not.empty()) counts = flops(described.shape, described.pass);
  row.count(quantity::trainable_parameters, "trainable", [&] {
    return predicted([&] { return trainable_parameters(described.shape, described.pass.trains); });
  });
  row.count(quantity::flops_forward, "flops_forward", [&] {
    return predicted([&] { return times(described.sequences, counts.forward(), 0); });
  });
  row.count(quantity::flops_total, "flops_total", [&] {
    return predicted([&] { return times(described.sequences, counts.hardware(), 0); });
  });
}

// ---- torch_fits.csv

void compare_fit(const model_index&, row_comparisons& row) {
  row.count(quantity::max_micro_batch, "max_micro_batch", [&]() -> prediction {
    const predicted_batch predicted = largest_micro_batch_of(row.source, row.options.memory);
    if (!predicted.why_not.empty()) return predicted.why_not;
    return number(predicted.micro_batch);
  });
}

// ---- lora_counts.csv, torch_lora.csv

prediction trainable_parameters_of(const row& source, const model_index& models) {
  const std::int64_t rank = source.integer_or("rank", 0);
  const std::string_view id =
      source.blank("model_id") ? source.text("models_csv_id") : source.text("model_id");
  std::string why_not = "the row names no model and no shapes";
  if (!id.empty()) {
    found_model found = models.find(id);
    why_not = found.why_not;
    if (why_not.empty()) {
      gpuplan::transformer& shape = found.model.shape;
      described_adapters described =
          describe_adapters(source.text("method"), rank, source.text("target_modules"), shape);
      const std::string_view bias = source.text("bias");
      if (bias == "all") described.trains.adapters.bias = gpuplan::lora_bias::all;
      if (bias == "lora_only") described.trains.adapters.bias = gpuplan::lora_bias::adapted;
      add_copies(source.text("modules_to_save"), described);
      why_not = described.why_not;
      if (why_not.empty())
        if (const auto valid = validate(described.trains, shape); !valid)
          why_not = gpuplan::failure_text(valid.why()).c_str();
      if (why_not.empty()) return number(trainable_parameters(shape, described.trains));
    }
  }
  // The row's own shapes stand in for a model that is not there.
  if (!source.blank("target_shapes") && rank > 0) {
    const auto adapters = trainable_parameters_of_shapes(source, "target_shapes", rank);
    const auto sum =
        gpuplan::detail::checked_sum(adapters.value_or(0), source.integer_or("extra_trained", 0));
    if (!adapters || !sum.ok) return too_many;
    return number(sum.value);
  }
  return why_not;
}

void compare_adapters(const model_index& models, row_comparisons& row) {
  row.count(quantity::trainable_parameters, "trainable_params_exact", [&] {
    return trainable_parameters_of(row.source, models);
  });
}

// ---- finetune.csv

prediction trainable_parameters_of_tuning(const row& source, const model_index& models) {
  const std::string_view method = source.text("method");
  found_model found =
      models.find_by_name(source.text("model"), source.number("params_printed").value_or(0));
  if (!found.why_not.empty()) return found.why_not;
  gpuplan::transformer& shape = found.model.shape;
  if (method == "full") return number(gpuplan::parameters(shape).total());
  const described_adapters described = describe_adapters(
      method, source.integer_or("lora_rank", 0), source.text("lora_targets"), shape);
  if (!described.why_not.empty()) return described.why_not;
  if (const auto valid = validate(described.trains, shape); !valid)
    return std::string(gpuplan::failure_text(valid.why()).c_str());
  return number(trainable_parameters(shape, described.trains));
}

void compare_tuning(const model_index& models, row_comparisons& row) {
  row.count(quantity::trainable_parameters, "trainable_params", [&] {
    return trainable_parameters_of_tuning(row.source, models);
  });
  const bool has_peak = row.source.number("peak_GiB").has_value();
  if (!has_peak && row.source.blank("fits")) return;
  const described_setup described = describe_tuning(row.source, models);
  if (has_peak) {
    const predicted_memory memory = device_memory_of(row.source, described);
    const gpuplan::memory_counts& peak = memory.step.peak;
    const std::string_view kind = row.source.text("peak_kind");
    if (kind == "nvidia_smi")
      compare_gibibytes(
          row, quantity::peak_memory, "peak_GiB", memory, peak.reserved + memory.beside);
    else if (kind == "reserved")
      compare_gibibytes(row, quantity::peak_reserved, "peak_GiB", memory, peak.reserved);
    else
      compare_gibibytes(row, quantity::peak_allocated, "peak_GiB", memory, peak.allocated);
  }
  if (!row.source.blank("fits")) compare_fitting(row, fit_of(row.source, described));
}

// ---- kinds of files

void compare_kernel(const model_index&, row_comparisons& row) {
  row.value(quantity::kernel_time, "kernel_s", [&] { return kernel_time_of(row.source); });
}

void compare_published_kernel(const model_index&, row_comparisons& row) {
  row.value(quantity::kernel_rate, "achieved", [&] { return published_rate_of(row.source); });
}

void compare_collective(const model_index&, row_comparisons& row) {
  row.value(quantity::bus_bandwidth, "busbw_GBps", [&] { return bus_bandwidth_of(row.source); });
}

void compare_nothing(const model_index&, row_comparisons&) {}

struct file_kind {
  const char* name;
  void (*compare)(const model_index&, row_comparisons&);
  // The columns without which a file is none of this kind: of words, and of numbers.
  std::vector<std::string_view> words;
  std::vector<std::string_view> numbers;
  // And those of numbers that it may have besides.
  std::vector<std::string_view> more_numbers{};
};

const std::vector<file_kind>& kinds() {
  static const std::vector<file_kind> all{
      {"models",
       compare_model,
       {"id", "architecture", "norm", "norms_per_layer"},
       {"layers",
        "hidden_size",
        "intermediate_size",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "vocab_size",
        "tied_embeddings",
        "gated_mlp",
        "mlp_bias",
        "attention_bias",
        "attention_out_bias",
        "norm_bias",
        "final_norm",
        "qk_norm",
        "parallel_attention",
        "num_experts",
        "experts_per_token",
        "moe_intermediate_size",
        "params_total_exact"},
       {"params_active", "published_extra", "extra_params"}},
      {"passes",
       compare_pass,
       {"id", "model_id", "attn_implementation", "recompute", "frozen", "lora_targets"},
       {"seq_len",
        "batch",
        "checkpoint_reentrant",
        "lora_rank",
        "input_requires_grad",
        "flops_forward",
        "flops_total"},
       {"decoder_seq_len", "trainable"}},
      {"steps",
       [](const model_index&, row_comparisons& row) { compare_step(row); },
       {"id",
        "code",
        "norm",
        "attention",
        "recompute",
        "loss",
        "trainable",
        "peft",
        "lora_targets"},
       {"layers",        "hidden",          "heads",       "kv_heads",         "head_dim",
        "ffn",           "gated_mlp",       "vocab",       "tied_embeddings",  "learned_positions",
        "linear_bias",   "qk_norm",         "image_size",  "patch_size",       "num_classes",
        "seq_len",       "decoder_seq_len", "micro_batch", "encodings",        "accumulation",
        "dropout",       "lora_rank",       "params",      "trainable_params", "flops_forward",
        "flops_backward"},
       {"experts",
        "lora_dropout",
        "peak_requested",
        "peak_allocated",
        "peak_reserved",
        "usable_bytes",
        "workspace_bytes",
        "multiprocessors",
        "fits",
        "step_s",
        "forward_s",
        "backward_s",
        "optimizer_s",
        "launch_s",
        "samples",
        "sm_clock_MHz"}},
      {"configured steps",
       [](const model_index&, row_comparisons& row) { compare_configured_step(row); },
       {"id", "model_type", "config_file", "precision", "optimizer", "recompute", "lora"},
       {"micro_batch",
        "sequence_length",
        "params_total",
        "params_trainable",
        "matmul_flops_forward_backward",
        "peak_requested",
        "peak_allocated",
        "peak_reserved"},
       {"decoder_seq_len", "accumulation", "grad_clip", "padding_mask", "workspace_bytes"}},
      {"launches",
       [](const model_index&, row_comparisons& row) { compare_work(row); },
       {"id", "code", "norm", "attention", "recompute", "loss", "trainable", "peft"},
       {"layers",
        "hidden",
        "heads",
        "seq_len",
        "micro_batch",
        "accumulation",
        "launches_forward",
        "products_forward",
        "copies_forward",
        "fills_forward",
        "operators_forward",
        "bytes_forward",
        "launches_backward",
        "products_backward",
        "copies_backward",
        "fills_backward",
        "operators_backward",
        "bytes_backward",
        "launches_optimizer",
        "products_optimizer",
        "copies_optimizer",
        "fills_optimizer",
        "operators_optimizer",
        "bytes_optimizer",
        "product_flops"}},
      {"layers",
       [](const model_index&, row_comparisons& row) { compare_layer(row); },
       {"id", "gpu", "code", "activation", "norm", "precision", "attention"},
       {"hidden",
        "heads",
        "kv_heads",
        "head_dim",
        "ffn",
        "gated_mlp",
        "linear_bias",
        "seq_len",
        "micro_batch",
        "fits",
        "forward_s",
        "forward_q1_s",
        "forward_q3_s",
        "backward_s",
        "backward_q1_s",
        "backward_q3_s",
        "samples"},
       {"dropout", "launch_s", "sm_clock_MHz"}},
      {"products",
       [](const model_index&, row_comparisons& row) { compare_matmul(row); },
       {"id", "gpu", "precision"},
       {"m", "n", "k", "fits", "matmul_s", "matmul_q1_s", "matmul_q3_s", "samples"},
       {"tflops", "sm_clock_MHz"}},
      {"largest batches",
       compare_fit,
       {"id", "code"},
       {"layers", "hidden", "usable_bytes", "max_micro_batch"}},
      {"adapters",
       compare_adapters,
       {"id", "method", "target_modules", "target_shapes"},
       {"rank", "extra_trained", "trainable_params_exact"}},
      {"runs",
       [](const model_index&, row_comparisons& row) { compare_run(row); },
       {"id",
        "source",
        "gpu",
        "norm",
        "attention",
        "precision",
        "recompute",
        "tflops_kind",
        "flops_convention",
        "notes"},
       {"gpus",
        "layers",
        "hidden",
        "heads",
        "kv_heads",
        "head_dim",
        "ffn",
        "gated_mlp",
        "vocab",
        "tied_embeddings",
        "learned_positions",
        "linear_bias",
        "experts",
        "experts_per_token",
        "shared_experts",
        "expert_ffn",
        "dense_layers",
        "params_printed",
        "seq_len",
        "global_batch",
        "step_s",
        "tokens_per_s_per_gpu",
        "model_tflops_per_gpu",
        "mfu_pct",
        "hfu_pct"},
       {"q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"}},
      {"fine-tuning",
       compare_tuning,
       {"id", "model", "method", "lora_targets", "notes"},
       {"params_printed", "lora_rank", "trainable_params"}},
      {"scaling",
       compare_nothing,
       {"id"},
       {"gpus", "throughput", "baseline_gpus", "baseline_throughput", "efficiency"}},
      {"models of recipes",
       compare_nothing,
       {"model", "hf_id", "kind", "hybrid_pattern", "gated_mlp", "vision_tower"},
       {"layers", "hidden", "heads", "kv_heads", "head_dim", "vocab", "experts", "topk"}},
      {"recipes",
       [](const model_index& models, row_comparisons& row) {
         compare_recipe(models.of_recipes, row);
       },
       {"id", "model", "task", "gpu", "precision", "pipeline_layout", "recompute_granularity"},
       {"gpus", "seq_len", "micro_batch", "global_batch", "tp", "pp", "vpp", "cp", "ep"}},
      {"whole runs",
       [](const model_index&, row_comparisons& row) { compare_whole_run(row); },
       // a batch may be one of images, a number of GPUs a range: what is no number is not known
       {"id",
        "gpu",
        "framework",
        "precision",
        "what_hours_count",
        "gated_mlp",
        "year",
        "params_active",
        "layers",
        "hidden",
        "heads",
        "kv_heads",
        "ffn",
        "vocab",
        "experts",
        "seq_len",
        "tokens",
        "gpus",
        "gpu_hours",
        "days",
        "global_batch_tokens",
        "energy_MWh",
        "pue"},
       {}},
      {"kernels",
       compare_kernel,
       {"kind", "op", "format", "gpu"},
       {"m", "n", "k", "batch", "heads", "kv_heads", "seq", "head_dim", "causal", "kernel_s"},
       {"bytes", "sustained"}},
      {"published kernels",
       compare_published_kernel,
       {"kind", "dtype", "gpu", "unit"},
       {"m", "n", "k", "batch", "heads", "seq", "head_dim", "ranks", "bytes", "achieved"},
       {"causal"}},
      {"collectives",
       compare_collective,
       {"gpu", "link", "collective", "algo"},
       {"nodes", "gpus", "bytes", "busbw_GBps"}},
  };
  return all;
}

// The kind that has all of its columns in the file; none where no kind comes near.
const file_kind* kind_of(const csv_file& file) {
  const file_kind* nearest = nullptr;
  double best = 0;
  const auto missing_in = [&](const std::vector<std::string_view>& columns) {
    return std::count_if(
        columns.begin(), columns.end(), [&](auto column) { return !file.has(column); });
  };
  for (const file_kind& kind : kinds()) {
    const auto missing = missing_in(kind.words) + missing_in(kind.numbers);
    const double share = 1 - static_cast<double>(missing) /
                                 static_cast<double>(kind.words.size() + kind.numbers.size());
    if (share <= best) continue;
    best = share;
    nearest = &kind;
  }
  if (best < 0.75) return nullptr;
  for (const auto* columns : {&nearest->words, &nearest->numbers})
    for (const std::string_view column : *columns)
      if (!file.has(column))
        throw bad_file(file.path,
                       1,
                       0,
                       "there is no column " + std::string(column) + ", as in other files of " +
                           nearest->name);
  return nearest;
}

void check_numbers(const row& source, const file_kind& kind) {
  for (const auto* columns : {&kind.numbers, &kind.more_numbers})
    for (const std::string_view column : *columns) static_cast<void>(source.number(column));
}

}  // namespace

std::vector<file_comparison> compare(const std::vector<csv_file>& files,
                                     const comparison_options& options) {
  std::vector<const file_kind*> kinds_of_files;
  model_index models;
  for (const csv_file& file : files) {
    const file_kind* const kind = kind_of(file);
    kinds_of_files.push_back(kind);
    if (kind == nullptr) continue;
    for (const csv_file::row_of_cells& cells : file.rows) check_numbers(row(file, cells), *kind);
    if (kind->compare == compare_model) models.add(file);
    if (std::string_view(kind->name) == "models of recipes") models.of_recipes.add(file);
  }
  std::vector<file_comparison> compared;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const csv_file& file = files[i];
    const file_kind* const kind = kinds_of_files[i];
    file_comparison& one = compared.emplace_back();
    one.path = file.path;
    one.rows = file.rows.size();
    if (kind == nullptr) continue;
    one.kind = kind->name;
    for (const csv_file::row_of_cells& cells : file.rows) {
      const row source(file, cells);
      row_comparisons comparisons(source, options, one.comparisons);
      kind->compare(models, comparisons);
    }
    if (options.leaves_out && one.kind == "whole runs") by_other_sources(file, one.comparisons);
  }
  return compared;
}

}  // namespace accuracy
