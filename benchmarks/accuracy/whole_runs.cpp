#include "whole_runs.hpp"

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/interruptions.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/energy.hpp>
#include <gpuplan/goodput.hpp>
#include <gpuplan/memory/layouts.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/planner.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "notes.hpp"

namespace accuracy {
namespace {

namespace catalog = gpuplan::catalog;
using gpuplan::transformer;

// What is no number, such as "4096 images", is not known.
std::optional<double> number_in(const row& source, std::string_view column) {
  const std::string_view text = source.text(column);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() ||
      !(std::abs(value) < 1e30))
    return {};
  return value;
}
std::int64_t count_in(const row& source, std::string_view column, std::int64_t otherwise) {
  const auto value = number_in(source, column);
  return value && *value >= 1 && *value < 1e15 ? static_cast<std::int64_t>(*value) : otherwise;
}

// ---- the model

transformer shape_of(const row& source) {
  transformer model{.kind = gpuplan::model_kind::decoder};
  model.num_hidden_layers = count_in(source, "layers", 0);
  model.hidden_size = count_in(source, "hidden", 0);
  model.num_attention_heads = count_in(source, "heads", 0);
  model.num_key_value_heads = count_in(source, "kv_heads", model.num_attention_heads);
  model.intermediate_size = count_in(source, "ffn", 0);
  model.vocab_size = count_in(source, "vocab", 0);
  model.gated_mlp = source.text("gated_mlp") == "yes";
  if (model.gated_mlp) model.norm = gpuplan::norm_kind::rms_norm;
  if (model.num_attention_heads > 0) model.head_dim = model.hidden_size / model.num_attention_heads;
  return model;
}

// Of the catalogue's decoders without experts the one nearest in parameters.
const transformer& nearest_shape(double parameters) {
  const transformer* nearest = &catalog::llama_3_8b;
  double apart = std::numeric_limits<double>::infinity();
  for (const catalog::published_model& known : catalog::models) {
    if (!known.has_shape || known.shape->kind != gpuplan::model_kind::decoder ||
        known.shape->moe.num_experts != 0 || known.shape->norm != gpuplan::norm_kind::rms_norm ||
        known.shape->norm_at != gpuplan::norm_position::before)
      continue;
    const auto total = static_cast<double>(gpuplan::parameters(*known.shape).total());
    const double distance = std::abs(std::log(total / parameters));
    if (distance < apart) {
      apart = distance;
      nearest = known.shape;
    }
  }
  return *nearest;
}

// Where a row does not say so: what was usual for such a model.
std::int64_t usual_sequence(const row& source) {
  return count_in(source, "year", 2024) < 2023 ? 2048 : 4096;
}
double usual_batch_tokens(double parameters, std::int64_t gpus) {
  const double by_size = parameters < 5e8   ? 0.5e6
                         : parameters < 2e9 ? 1e6
                         : parameters < 5e9 ? 2e6
                                            : 4e6;
  return std::max(by_size, 1500.0 * static_cast<double>(gpus));
}
std::int64_t usual_gpus(double parameters) {
  std::int64_t gpus = 8;
  while (gpus < 8192 && static_cast<double>(gpus) * 35e6 < parameters) gpus *= 2;
  return gpus;
}

// ---- who ran it

// Megatron's code where nothing else is said, without FlashAttention before it was there (2023).
void choose_software(const row& source, bool has_bf16, gpuplan::training_setup& setup) {
  const std::string who = lower(source.text("framework"));
  const auto says = [&](std::string_view word) { return who.find(word) != std::string::npos; };
  const bool is_half = source.text("precision") == "fp16" || !has_bf16;
  if (says("llm.c")) {  // CUDA by hand: fused kernels, weights in bf16 with a copy in fp32
    setup.framework = catalog::megatron_transformer_engine;
    setup.model.fused_qkv = true;
    setup.precision = is_half ? gpuplan::fp16_master : gpuplan::bf16_master;
    setup.attention = gpuplan::attention_kernel::flash;
    return;
  }
  if (says("nanogpt")) {
    setup.framework = catalog::torch_gpt;
    setup.model.fused_qkv = true;
    setup.framework.costs = catalog::untimed_compiled;
    setup.precision = is_half ? gpuplan::fp16_mixed : gpuplan::bf16_mixed;
    setup.attention = gpuplan::attention_kernel::flash;
    return;
  }
  const bool is_old =
      says("neox") || says("megatron-deepspeed") || count_in(source, "year", 2024) < 2023;
  setup.framework = is_old ? catalog::megatron_lm : catalog::megatron_transformer_engine;
  setup.model.fused_qkv = true;
  setup.precision = is_half ? gpuplan::fp16_master : gpuplan::bf16_master;
  setup.precision.fp32_gradients = true;
  setup.attention = is_old ? gpuplan::attention_kernel::eager : gpuplan::attention_kernel::flash;
  setup.precision.fp8_linears = source.text("precision") == "fp8";
  if (!setup.model.gated_mlp) setup.model.hidden_act = gpuplan::activation_function::gelu;
}

}  // namespace

whole_run describe_whole_run(const row& source) {
  whole_run run;
  gpuplan::plan_request& asked = run.asked;
  const auto tokens = number_in(source, "tokens");
  const auto active = number_in(source, "params_active");
  if (!tokens || !(*tokens > 0)) return run.why_not = "its tokens are not stated", run;
  if (!active || !(*active > 0)) return run.why_not = "its parameters are not stated", run;

  std::string device = lower(source.text("gpu"));
  if (device.starts_with("other:")) device.erase(0, 6);
  const auto gpu = catalog::find_gpu(device);
  if (!gpu) return run.why_not = gpuplan::failure_text(gpu.why()).c_str(), run;

  // A mixture of experts is one of its active parameters. None of the four that state all is in the
  // catalogue, and by the nearest mixture there they are further off, 37 % in the mean and not 18.
  const bool has_shape = !source.blank("layers") && !source.blank("hidden") &&
                         !source.blank("heads") && !source.blank("ffn") && !source.blank("vocab") &&
                         source.blank("experts");
  const transformer shape = has_shape ? shape_of(source) : nearest_shape(*active);
  const auto valid = validate(shape);
  if (!valid) return run.why_not = gpuplan::failure_text(valid.why()).c_str(), run;
  asked.setup.model = shape;
  if (!has_shape) run.work = *active / static_cast<double>(gpuplan::parameters(shape).total());

  choose_software(source, static_cast<bool>(peak(*gpu, gpuplan::number_format::bf16)), asked.setup);
  asked.setup.optimizer.clips_gradients = true;
  asked.setup.sequence_length =
      std::max<std::int64_t>(1, count_in(source, "seq_len", usual_sequence(source)));
  asked.efficiency = catalog::efficiency_of(*gpu);

  const auto length = static_cast<double>(asked.setup.sequence_length);
  const double samples = *tokens / length;
  const std::int64_t gpus = count_in(source, "gpus", usual_gpus(*active));
  const double batch =
      number_in(source, "global_batch_tokens").value_or(usual_batch_tokens(*active, gpus)) / length;
  if (gpus < 1 || gpus > 10'000'000 || !(batch >= 1) || !(batch < 1e12) || !(samples < 1e15))
    return run.why_not = "no run has so many GPUs, tokens or samples", run;
  std::int64_t in_node = std::min<std::int64_t>(gpus, 8);
  while (gpus % in_node != 0) --in_node;
  asked.on = {.gpu = *gpu, .nodes = gpus / in_node, .gpus_per_node = in_node};
  const bool is_old = gpu->id[0] == 'v';
  if (asked.on.nodes > 1)
    asked.on.between_nodes = gpuplan::bandwidth::from_value(
        (is_old ? 12.5e9 : 25e9) * static_cast<double>(asked.on.gpus_per_node) *
        (gpu->id[0] == 'h' ? 2 : 1));
  const std::int64_t whole = total_gpus(asked.on);
  asked.space.gpus = gpuplan::range<std::int64_t>{whole, whole};
  asked.samples = static_cast<std::int64_t>(std::ceil(samples));
  // A batch that the GPUs divide, near the stated one.
  asked.effective_batch = gpuplan::range<std::int64_t>{
      std::max<std::int64_t>(1, static_cast<std::int64_t>(batch * 0.75)),
      std::max<std::int64_t>(whole, static_cast<std::int64_t>(batch * 1.35))};
  const auto up_to = [](std::int64_t most) { return gpuplan::range<std::int64_t>{1, most}; };
  asked.space.tensor_parallel = up_to(8);
  asked.space.pipeline_parallel = up_to(std::min<std::int64_t>(whole, 32));
  asked.space.virtual_pipeline = up_to(4);
  asked.space.micro_batch = up_to(64);
  asked.space.recompute = true;
  asked.space.sequence_parallel = true;

  const std::string counted = lower(source.text("what_hours_count"));
  run.counts_interruptions = counted.find("step") == std::string::npos &&
                             counted.find("no downtime") == std::string::npos &&
                             counted.find("throughput") == std::string::npos;
  run.power_usage = std::max(1.0, number_in(source, "pue").value_or(run.power_usage));
  return run;
}

namespace {

// Of published runs over the planner's best plan with its interruptions: the median, and the
// factors of it between which four of five lie; of 15 runs that count steps alone, and of 49. Hours
// of steps alone hold what software nobody planned for adds, or saves; those of everything also
// evaluation, restarts of which nobody wrote, and what went wrong.
struct beyond_the_plan {
  double median = 1;
  double low = 1;
  double high = 1;
};
constexpr beyond_the_plan beyond_steps{1.0, 0.55, 1.4};
constexpr beyond_the_plan beyond_everything{1.13, 0.65, 1.9};

// How often a run of so long on so many GPUs is interrupted, with what is usual: ten minutes until
// somebody acts, ten until it trains again, a minute for a checkpoint.
double with_interruptions(gpuplan::duration work, std::int64_t gpus) {
  gpuplan::interrupted_run run{.work = work};
  const auto between =
      mean_time_between_failures(catalog::usual_time_between_failures().median, gpus);
  if (!between) return 1;
  run.mean_time_between_failures = *between;
  run.stall = gpuplan::duration::from_value(60);
  run.detection = gpuplan::duration::from_value(600);
  run.restart = gpuplan::duration::from_value(600);
  const auto interval = best_interval(run);
  if (!interval) return 1;
  run.interval = *interval;
  const auto parts = expected_time(run);
  return parts ? 1 / parts->goodput() : 1;
}

}  // namespace

void compare_whole_run(row_comparisons& row) {
  const auto hours = number_in(row.source, "gpu_hours");
  const auto days = number_in(row.source, "days");
  const auto energy = number_in(row.source, "energy_MWh");
  if (!hours && !days && !energy) return;
  const whole_run run = describe_whole_run(row.source);
  std::string why_not = run.why_not;
  double predicted = 0;
  double draw = 0;  // of the TDP
  if (why_not.empty()) {
    const auto found =
        plan_training(run.asked, gpuplan::transformer_memory_of{}.on(run.asked.on.gpu), 1);
    if (!found) {
      why_not = gpuplan::failure_text(found.why()).c_str();
    } else {
      const gpuplan::duration work = run_of(run.asked, found->best()).time * run.work;
      const std::int64_t gpus = total_gpus(run.asked.on);
      predicted = in(work, gpuplan::duration::from_value(3600)) * static_cast<double>(gpus);
      const auto drawn = average_draw(
          time_of(run.asked, found->best()).breakdown(found->best().batch), gpuplan::h100_draws);
      if (drawn) draw = *drawn;
      if (run.counts_interruptions) predicted *= with_interruptions(work, gpus);
    }
  }
  const beyond_the_plan& beyond = run.counts_interruptions ? beyond_everything : beyond_steps;
  const auto add = [&](quantity what, std::optional<double> measured, double times) {
    if (!measured) return;
    for (const auto& [end, factor] : {std::pair{0, beyond.median},
                                      std::pair{1, beyond.median * beyond.low},
                                      std::pair{2, beyond.median * beyond.high}})
      row.add(
          static_cast<quantity>(static_cast<int>(what) + end),
          *measured,
          why_not.empty() ? prediction(number(predicted * times * factor)) : prediction(why_not));
  };
  add(quantity::gpu_hours, hours, 1);
  const auto gpus = number_in(row.source, "gpus");
  const bool has_gpus = gpus && *gpus > 0;
  if (why_not.empty() && !has_gpus && days) {
    row.add(quantity::days, *days, std::string("its GPUs are not stated"));
  } else {
    add(quantity::days, days, has_gpus ? 1 / (24 * *gpus) : 0);
  }
  const double watts = run.asked.on.gpu.tdp ? run.asked.on.gpu.tdp->value() : 0;
  if (why_not.empty() && watts <= 0) why_not = "the TDP of its GPU is not known";
  add(quantity::energy, energy, draw * watts * run.power_usage / 1e6);
}

void by_other_sources(const csv_file& file, std::vector<comparison>& all) {
  struct published {
    std::string source;
    bool counts_everything = true;
    double over_the_plan = 1;
  };
  std::map<std::string, row, std::less<>> rows;
  for (const csv_file::row_of_cells& cells : file.rows) {
    const row one(file, cells);
    rows.emplace(std::string(one.text("id")), one);
  }
  // One page may have several models, and names its commit behind "@".
  const auto about = [&](const comparison& one) {
    published found;
    const auto at = rows.find(one.id);
    if (at == rows.end()) return found;
    found.source = at->second.text("source");
    found.source.resize(std::min(found.source.find('@'), found.source.size()));
    found.counts_everything = describe_whole_run(at->second).counts_interruptions;
    return found;
  };
  const auto beyond_of = [](const published& one) -> const beyond_the_plan& {
    return one.counts_everything ? beyond_everything : beyond_steps;
  };
  std::vector<published> known;
  for (const comparison& one : all) {
    if (one.what != quantity::gpu_hours || !one.predicted.value || one.flagged) continue;
    published found = about(one);
    found.over_the_plan =
        one.measured.value() / one.predicted.value->value() * beyond_of(found).median;
    known.push_back(found);
  }
  for (comparison& one : all) {
    if (!one.predicted.value) continue;
    const published own = about(one);
    std::vector<double> others;
    for (const published& other : known)
      if (other.source != own.source && other.counts_everything == own.counts_everything)
        others.push_back(other.over_the_plan);
    if (others.size() < 5) continue;
    std::sort(others.begin(), others.end());
    const auto quantile = [&](double share) {
      return others[static_cast<std::size_t>(
          std::round(share * static_cast<double>(others.size() - 1)))];
    };
    const int end = (static_cast<int>(one.what) - static_cast<int>(quantity::gpu_hours)) % 3;
    const beyond_the_plan& mine = beyond_of(own);
    const double was = mine.median * (end == 0 ? 1 : end == 1 ? mine.low : mine.high);
    one.predicted.value = number(one.predicted.value->value() / was *
                                 quantile(end == 0   ? 0.5
                                          : end == 1 ? 0.1
                                                     : 0.9));
  }
}

}  // namespace accuracy
