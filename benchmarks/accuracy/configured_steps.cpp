#include "configured_steps.hpp"

#include <gpuplan/catalog/implementations.hpp>
#include <gpuplan/io/hugging_face_config.hpp>
#include <gpuplan/replay/counts.hpp>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "adapters.hpp"
#include "compare_steps.hpp"

namespace accuracy {
namespace {

using nlohmann::json;

std::string config_of(const row& source) {
  const std::filesystem::path name(source.text("config_file"));
  const bool leads_away =
      name.is_absolute() || std::find(name.begin(), name.end(), "..") != name.end();
  if (leads_away) source.fail("config_file", "is not beside the table");
  std::ifstream file(std::filesystem::path(source.file().path).parent_path() / name);
  if (!file) source.fail("config_file", "cannot be read");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

json inputs_of(const row& source) {
  json inputs = json::parse(source.text("inputs"), nullptr, false);
  if (!inputs.is_object()) source.fail("inputs", "is not a JSON object");
  return inputs;
}

// "none", or "r=4;targets=query_key_value".
std::string read_adapters(const row& source, gpuplan::training_setup& setup) {
  const std::string_view text = source.text("lora");
  if (text.empty() || text == "none") return {};
  constexpr std::string_view rank_is = "r=", targets_are = ";targets=";
  const std::size_t end = text.find(targets_are);
  std::int64_t rank = 0;
  if (!text.starts_with(rank_is) || end == std::string_view::npos ||
      std::from_chars(text.data() + rank_is.size(), text.data() + end, rank).ptr !=
          text.data() + end)
    source.fail("lora", "is not like r=4;targets=q_proj,v_proj: " + std::string(text));
  const described_adapters adapters =
      describe_adapters("lora", rank, text.substr(end + targets_are.size()), setup.model);
  setup.trains = adapters.trains;
  return adapters.why_not;
}

std::string read_model(const row& source, const std::string& config, described_setup& described) {
  gpuplan::training_setup& setup = described.setup;
  const auto read = gpuplan::io::read_hugging_face_config(config);
  if (!read.shape) return read.reason;
  setup.model = *read.shape;
  setup.dropout = std::max(read.hidden_dropout, read.attention_dropout);
  auto by = gpuplan::catalog::implementation_of(source.text("model_class"));
  if (!by) by = gpuplan::catalog::implementation_of(read.model_type);
  if (!by) return gpuplan::failure_text(by.why()).c_str();
  setup.framework = by->framework;
  return {};
}

std::string read_recomputation(const row& source, gpuplan::training_setup& setup) {
  const std::string_view recompute = source.text("recompute");
  if (recompute == "full")
    setup.recompute = gpuplan::recompute_mode::full;
  else if (recompute != "none" && !recompute.empty())
    return "what recomputation '" + std::string(recompute) + "' repeats is not known";
  return {};
}

}  // namespace

described_setup describe_configured_step(const row& source) {
  described_setup described;
  gpuplan::training_setup& setup = described.setup;
  described.why_not = read_model(source, config_of(source), described);
  if (!described.why_not.empty()) return described;
  const std::string_view wrap = source.text("wrap");
  if (!wrap.empty() && wrap != "MeanPool") {
    described.why_not = "what loss '" + std::string(wrap) + "' puts around the model is not known";
    return described;
  }
  setup.sequence_length = source.integer_or("sequence_length", 0);
  setup.target_length = source.integer_or("decoder_seq_len", 0);
  if (wrap == "MeanPool") {  // ids0, mask0, ids1, ...
    setup.encodings = static_cast<std::int64_t>(inputs_of(source).size() / 2);
    setup.model.head = gpuplan::head_kind::none;
  }
  setup.padding_mask = source.flag("padding_mask");
  if (source.text("attention") == "eager") setup.attention = gpuplan::attention_kernel::eager;
  if (source.text("attention") == "math") setup.attention = gpuplan::attention_kernel::math;
  for (const auto& read : {read_numerics(source, setup),
                           read_recomputation(source, setup),
                           read_adapters(source, setup)})
    if (!read.empty()) {
      described.why_not = read;
      return described;
    }
  described.plan = {.micro_batch = source.integer_or("micro_batch", 1),
                    .accumulation = source.integer_or("accumulation", 1)};
  if (const auto valid = validate(setup, described.plan); !valid)
    described.why_not = gpuplan::failure_text(valid.why()).c_str();
  return described;
}

void compare_configured_step(row_comparisons& row) {
  const described_setup described = describe_configured_step(row.source);
  std::string why_not = described.why_not;
  gpuplan::step_counts counts;
  if (why_not.empty()) {
    const auto counted = gpuplan::counts_of(described.setup, described.plan);
    if (counted)
      counts = *counted;
    else
      why_not = gpuplan::failure_text(counted.why()).c_str();
  }
  const auto compare = [&](quantity what, const char* column, std::int64_t counted) {
    row.count(what, column, [&]() -> prediction {
      if (!why_not.empty()) return why_not;
      return number(counted);
    });
  };
  compare(quantity::parameters, "params_total", counts.parameters);
  compare(quantity::trainable_parameters, "params_trainable", counts.trainable);
  compare(quantity::flops_total,
          "matmul_flops_forward_backward",
          static_cast<std::int64_t>(counts.hardware().value()));
  compare_step_memory(row);
}

}  // namespace accuracy
