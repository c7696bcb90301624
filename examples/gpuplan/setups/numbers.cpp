#include "setups/numbers.hpp"

#include <gpuplan/io/table.hpp>
#include <gpuplan/result.hpp>

#include <cctype>
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
     "--objective: memory and fits have sft, dpo and grpo, check has dpo, what tells time has "
     "none"},
    {gpuplan::fact::mtp_layers, "layers that predict further tokens, --mtp-layers"},
    {gpuplan::fact::mean_time_between_failures, "--between-failures; here in microseconds"},
    {gpuplan::fact::graph_of_iteration, "--cuda-graphs"},
    {gpuplan::fact::context_exchange, "--cp-comm-type, cp_comm_type"},
    {gpuplan::fact::ranks_of_experts, "expert_parallel times expert_tensor_parallel"},
    {gpuplan::fact::context_ranks, "GPUs that share experts; --data-parallel gives more"},
    {gpuplan::fact::compute_capability, "of the GPU, 80 for 8.0"},
};

// What options call values that the library has other words for.
struct option_words {
  gpuplan::fact_kind kind;
  const char* value;
  const char* option;
};
constexpr option_words called[] = {
    {gpuplan::fact_kind::pipeline_schedule, "one_f_one_b", "1f1b"},
    {gpuplan::fact_kind::pipeline_schedule, "zero_bubble", "zero-bubble"},
    {gpuplan::fact_kind::pipeline_schedule, "zero_bubble_v", "zero-bubble-v"},
    {gpuplan::fact_kind::pipeline_schedule, "dual_pipe", "dualpipe"},
    {gpuplan::fact_kind::pipeline_schedule, "dual_pipe_v", "dualpipev"},
    {gpuplan::fact_kind::training_objective, "supervised", "sft"},
    {gpuplan::fact_kind::training_objective, "preference", "dpo"},
    {gpuplan::fact_kind::training_objective, "group_relative", "grpo"},
};
// The word wherever it is not a part of a longer one.
void replace_word(std::string& in, const std::string& word, const std::string& with) {
  const auto is_of_word = [&](std::size_t at) {
    return at < in.size() && (std::isalnum(static_cast<unsigned char>(in[at])) || in[at] == '_');
  };
  for (std::size_t at = in.find(word); at != std::string::npos; at = in.find(word, at)) {
    if ((at == 0 || !is_of_word(at - 1)) && !is_of_word(at + word.size())) {
      in.replace(at, word.size(), with);
      at += with.size();
    } else {
      at += word.size();
    }
  }
}

}  // namespace

std::string sentence_of(const gpuplan::failure& why) {
  std::string sentence = gpuplan::failure_text(why).c_str();
  for (unsigned at = 0; at < why.count; ++at)
    for (const option_words& one : called)
      if (one.kind == why.facts[at].kind && one.value == std::string(word_of(why.facts[at])))
        replace_word(sentence, one.value, one.option);
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
