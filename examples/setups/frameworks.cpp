#include "setups/frameworks.hpp"

#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/training_setup.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace setups {
namespace {

namespace catalog = gpuplan::catalog;

struct named_framework {
  const char* name;
  const gpuplan::framework& is;
};
constexpr named_framework frameworks[] = {
    {"torch-gpt", catalog::torch_gpt},
    {"torch-llama", catalog::torch_llama},
    {"torch-llama-fp32", catalog::torch_llama_fp32},
    {"gpt2", catalog::hugging_face_gpt2},
    {"opt", catalog::hugging_face_opt},
    {"gpt-neox", catalog::hugging_face_gpt_neox},
    {"gptj", catalog::hugging_face_gptj},
    {"t5", catalog::hugging_face_t5},
    {"t5-1.1", catalog::hugging_face_t5_1_1},
    {"llama", catalog::hugging_face_llama},
    {"qwen", catalog::hugging_face_qwen},
    {"gemma", catalog::hugging_face_gemma},
    {"gemma-2", catalog::hugging_face_gemma_2},
    {"gemma-3", catalog::hugging_face_gemma_3},
    {"phi", catalog::hugging_face_phi},
    {"phi-3", catalog::hugging_face_phi_3},
    {"olmo", catalog::hugging_face_olmo},
    {"bert", catalog::hugging_face_bert},
    {"roberta", catalog::hugging_face_roberta},
    {"mpnet", catalog::hugging_face_mpnet},
    {"distilbert", catalog::hugging_face_distilbert},
    {"vit", catalog::hugging_face_vit},
    {"clip", catalog::hugging_face_clip},
    {"siglip", catalog::hugging_face_siglip},
    {"litgpt", catalog::lit_gpt},
    {"litgpt-gemma", catalog::lit_gpt_gemma},
    {"torchtitan", catalog::torchtitan},
    {"megatron-core", catalog::megatron_core},
    {"megatron-te", catalog::megatron_transformer_engine},
    {"megatron-deepspeed", catalog::megatron_deepspeed},
};

// How names of models begin, and types of models; the first that fits.
struct known_model {
  std::string_view begins;
  const char* framework;
};
constexpr known_model known_models[] = {
    {"gpt2", "gpt2"},
    {"gpt3-", "gpt2"},
    {"gpt-j", "gptj"},
    {"gptj", "gptj"},
    {"gpt-neox", "gpt-neox"},
    {"gpt_neox", "gpt-neox"},
    {"pythia", "gpt-neox"},
    {"opt", "opt"},
    {"meta-llama", "llama"},
    {"llama", "llama"},
    {"codellama", "llama"},
    {"tinyllama", "llama"},
    {"smollm2", "llama"},
    {"mistral", "llama"},
    {"yi-", "llama"},
    {"qwen", "qwen"},
    {"gemma-2-", "gemma-2"},
    {"gemma2", "gemma-2"},
    {"gemma-3", "gemma-3"},
    {"gemma3", "gemma-3"},
    {"gemma", "gemma"},
    {"phi-3", "phi-3"},
    {"phi-4", "phi-3"},
    {"phi3", "phi-3"},
    {"phi", "phi"},
    {"olmo", "olmo"},
    {"bert", "bert"},
    {"all-minilm", "bert"},
    {"roberta", "roberta"},
    {"xlm-roberta", "roberta"},
    {"distilbert", "distilbert"},
    {"all-mpnet", "mpnet"},
    {"mpnet", "mpnet"},
    {"t5-v1.1", "t5-1.1"},
    {"t5", "t5"},
    {"vit", "vit"},
    {"clip", "clip"},
    {"siglip", "siglip"},
};

}  // namespace

std::vector<std::string> framework_names() {
  std::vector<std::string> names;
  for (const named_framework& one : frameworks) names.emplace_back(one.name);
  return names;
}

gpuplan::framework framework_named(const std::string& name) {
  for (const named_framework& one : frameworks)
    if (name == one.name) return one.is;
  return {};
}

std::string framework_of(const std::string& model) {
  for (const known_model& one : known_models)
    if (model.compare(0, one.begins.size(), one.begins) == 0) return one.framework;
  return {};
}

gpuplan::result<bool> runs(const gpuplan::framework& by, const gpuplan::training_setup& given) {
  using namespace gpuplan;
  training_setup setup{.model = given.model,
                       .sequence_length = given.sequence_length,
                       .target_length = given.target_length,
                       .encodings = given.encodings,
                       .framework = by};
  if (by.sharding == sharding_code::fsdp2) setup.parallelism.zero_stage = 3;
  failure why;
  for (const precision_recipe& recipe : {bf16_mixed, bf16_master, bf16_megatron, fp32_precision}) {
    setup.precision = recipe;
    const auto valid = validate(setup);
    if (valid) return true;
    if (!detail::failed(why)) why = valid.why();
  }
  return why;
}

std::vector<std::string> frameworks_for(const gpuplan::training_setup& setup) {
  std::vector<std::string> names;
  for (const named_framework& one : frameworks)
    if (runs(one.is, setup)) names.emplace_back(one.name);
  return names;
}

}  // namespace setups
