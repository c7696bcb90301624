#include "setups/numbers.hpp"

#include <gpuplan/io/table.hpp>
#include <gpuplan/result.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "model/render.hpp"

namespace setups {

std::string grouped(std::int64_t value) { return describe_model::grouped(value); }

std::string readable_bytes(std::int64_t bytes) {
  struct unit {
    double size;
    const char* name;
  };
  static constexpr unit units[] = {{gibibyte, " GiB"}, {gibibyte / 1024, " MiB"}, {1024, " KiB"}};
  const auto number = static_cast<double>(bytes);
  for (const unit& one : units) {
    // what rounds to 1,000 of a smaller unit is read in this
    if (number < 0.9765 * one.size) continue;
    const double scaled = number / one.size;
    return gpuplan::io::decimal(scaled, scaled < 9.995 ? 2 : scaled < 99.95 ? 1 : 0) + one.name;
  }
  return std::to_string(bytes) + " B";
}

namespace {

// What people say of a field that no option and no key is called by.
struct plain_words {
  gpuplan::fact field;
  const char* words;
};
constexpr plain_words said[] = {
    {gpuplan::fact::adapter_base_block, "a base in four bits: --qlora, load_in_4bit"},
    {gpuplan::fact::adapter_experts, "adapters beside experts, which all-linear has too"},
    {gpuplan::fact::adapter_dropout, "--lora-dropout, lora_dropout"},
    {gpuplan::fact::under_autocast, "--precision bf16-autocast"},
    {gpuplan::fact::objective,
     "--objective, of which gpuplan memory and gpuplan fits alone have sft, dpo and grpo"},
    {gpuplan::fact::mtp_layers, "layers that predict further tokens, --mtp-layers"},
    {gpuplan::fact::mean_time_between_failures, "--between-failures; here in microseconds"},
    {gpuplan::fact::graph_of_iteration, "--cuda-graphs"},
    {gpuplan::fact::context_exchange, "--cp-comm-type, cp_comm_type"},
    {gpuplan::fact::ranks_of_experts, "expert_parallel times expert_tensor_parallel"},
    {gpuplan::fact::context_ranks, "GPUs that share experts; --data-parallel gives more"},
    {gpuplan::fact::compute_capability, "of the GPU, 80 for 8.0"},
};

}  // namespace

std::string sentence_of(const gpuplan::failure& why) {
  std::string sentence = gpuplan::failure_text(why).c_str();
  for (unsigned at = 0; at < why.count; ++at)
    for (const plain_words& one : said)
      if (one.field == why.facts[at].name)
        sentence += std::string(" (") + text(one.field) + ": " + one.words + ")";
  for (unsigned at = 0; at < why.count; ++at) {
    const gpuplan::named_fact& fact = why.facts[at];
    const std::string name = text(fact.name);
    if (!name.ends_with("_MB")) continue;
    const std::string in_MB = name + " " + std::to_string(fact.value);
    const std::size_t begin = sentence.find(in_MB);
    if (begin == std::string::npos) continue;
    // What is needed is no less, and what there is no more.
    const bool is_needed = name.starts_with("needed") || name.starts_with("checkpoint");
    const double hundredths = static_cast<double>(fact.value) * 1e8 / gibibyte;
    const double rounded = is_needed ? std::ceil(hundredths) : std::floor(hundredths);
    sentence.replace(
        begin,
        in_MB.size(),
        name.substr(0, name.size() - 3) + " " + gpuplan::io::decimal(rounded / 100, 2) + " GiB");
  }
  return sentence;
}

}  // namespace setups
