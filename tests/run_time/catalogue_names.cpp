#include "check.hpp"

#include <gpuplan/catalog/gpu_names.hpp>
#include <gpuplan/catalog/model_names.hpp>

#include <initializer_list>
#include <string_view>

namespace {

using namespace gpuplan;
using std::string_view;
using namespace std::string_view_literals;

// Whether a name means these devices, in the order of the catalogue.
constexpr bool means_gpus(string_view name, std::initializer_list<string_view> ids) {
  const catalog::gpu_list meant = catalog::gpus_named(name);
  if (meant.count != ids.size()) return false;
  const string_view* id = ids.begin();
  for (const gpu_spec* gpu : meant)
    if (gpu->id != *id++) return false;
  return true;
}

constexpr bool means_models(string_view name, std::initializer_list<string_view> ids) {
  const catalog::model_list meant = catalog::models_named(name);
  if (meant.count != ids.size()) return false;
  const string_view* id = ids.begin();
  for (const catalog::published_model* model : meant)
    if (model->id != *id++) return false;
  return true;
}

// While compiling too.
static_assert(means_gpus("4090", {"rtx_4090"}));
static_assert(means_models("mixtral-8x7b", {"mixtral-8x7b-v0.1"}));

TEST_CASE("a device is known by any name that people write") {
  CHECK(means_gpus("4090", {"rtx_4090"}));
  CHECK(means_gpus("NVIDIA GeForce RTX 4090", {"rtx_4090"}));
  CHECK(means_gpus("a6000", {"rtx_a6000"}));
  CHECK(means_gpus("h100", {"h100_sxm5_80gb", "h100_pcie_80gb", "h100_nvl"}));
  CHECK(means_gpus("A100-80GB", {"a100_sxm4_80gb", "a100_pcie_80gb"}));
  CHECK(means_gpus("rtx_4090", {"rtx_4090"}));
  CHECK(means_gpus("RTX4090", {"rtx_4090"}));
  CHECK(means_gpus("rtx 4080", {"rtx_4080"}));
  CHECK(means_gpus("4080 super", {"rtx_4080_super"}));
  CHECK(means_gpus("3090ti", {"rtx_3090_ti"}));
  CHECK(means_gpus("3080", {"rtx_3080_10gb", "rtx_3080_12gb"}));
  CHECK(means_gpus("h100sxm", {"h100_sxm5_80gb"}));
  CHECK(means_gpus("H100 80GB HBM3", {"h100_sxm5_80gb"}));
  CHECK(means_gpus("h100 94 GB", {"h100_nvl"}));
  CHECK(means_gpus("NVIDIA H100 Tensor Core GPU PCIe", {"h100_pcie_80gb"}));
  CHECK(means_gpus("a100-pcie-40g", {"a100_pcie_40gb"}));
  CHECK(means_gpus("V100 32GB SXM", {"v100_sxm2_32gb"}));
  CHECK(
      means_gpus("v100", {"v100_sxm2_16gb", "v100_sxm2_32gb", "v100_pcie_16gb", "v100_pcie_32gb"}));
  CHECK(means_gpus("v100s", {"v100s_pcie_32gb"}));
  CHECK(means_gpus("l40", {"l40"}));
  CHECK(means_gpus("a10", {"a10"}));
  CHECK(means_gpus("Tesla T4", {"t4"}));
  CHECK(means_gpus("6000 ada", {"rtx_6000_ada"}));
  CHECK(means_gpus("rtx 8000", {"quadro_rtx_8000"}));
  CHECK(means_gpus("b200", {"b200_sxm"}));
  CHECK(means_gpus("gh200", {"gh200_96gb", "gh200_144gb"}));
  CHECK(means_gpus("AMD Instinct MI300X", {"mi300x"}));
  CHECK(means_gpus("mi250", {"mi250"}));
  CHECK(means_gpus("Gaudi 3", {"gaudi3"}));
  CHECK(means_gpus("TPU v5e", {"tpu_v5e"}));
  CHECK(means_gpus("trainium", {"trainium3", "trainium2", "trainium1"}));
}

TEST_CASE("what is no name of a device means none") {
  for (const char* name : {"", "-", "h900", "a80", "h100 40gb", "4070 gt super", "k80", "nvidia"}) {
    CAPTURE(name);
    CHECK(means_gpus(name, {}));
  }
}

TEST_CASE("each name of each device means it") {
  for (const gpu_spec* gpu : catalog::gpus)
    for (const char* name :
         {gpu->id, gpu->name, gpu->driver_names[0], gpu->driver_names[1], gpu->driver_names[2]}) {
      if (name == nullptr) continue;
      CAPTURE(name);
      bool is_among = false;
      for (const gpu_spec* meant : catalog::gpus_named(name)) is_among = is_among || meant == gpu;
      CHECK(is_among);
      if (name == gpu->id) CHECK(catalog::gpus_named(name).count == 1);
    }
}

TEST_CASE("a model is known by a part of its name and by its names elsewhere") {
  CHECK(means_models("meta-llama/Meta-Llama-3-8B", {"meta-llama-3-8b"}));
  CHECK(means_models("mixtral-8x7b", {"mixtral-8x7b-v0.1"}));
  CHECK(means_models("8x22b", {"mixtral-8x22b-v0.1"}));
  CHECK(means_models("llama 3 8b", {"meta-llama-3-8b"}));
  CHECK(means_models("llama3-8b", {"meta-llama-3-8b"}));
  CHECK(means_models("Llama-3.1-8B-Instruct", {"llama-3.1-8b"}));
  CHECK(means_models("llama3.1:8b", {"llama-3.1-8b"}));
  CHECK(means_models("unsloth/Meta-Llama-3.1-8B-bnb-4bit", {"llama-3.1-8b"}));
  CHECK(means_models("llama-2-7b-chat-hf", {"llama-2-7b"}));
  CHECK(means_models("mistralai/Mixtral-8x7B-Instruct-v0.1", {"mixtral-8x7b-v0.1"}));
  CHECK(means_models("mistral-7b", {"mistral-7b-v0.1", "mistral-7b-v0.2", "mistral-7b-v0.3"}));
  CHECK(means_models("google/gemma-2-2b-it", {"gemma-2-2b"}));  // not gemma-2b: each 2 counts
  CHECK(means_models("Qwen/Qwen3-30B-A3B-Thinking-2507", {"qwen3-30b-a3b"}));
  CHECK(means_models("mistral-7b-instruct-v0.3", {"mistral-7b-v0.3"}));
  CHECK(means_models("google/gemma-2-9b-it", {"gemma-2-9b"}));
  CHECK(means_models("Qwen/Qwen3-30B-A3B-Instruct-2507", {"qwen3-30b-a3b"}));
  CHECK(means_models("TinyLlama-1.1B-Chat-v1.0", {"tinyllama-1.1b"}));
  CHECK(means_models("bert-base", {"bert-base-uncased"}));
  CHECK(means_models("opt13b", {"opt-13b"}));
  CHECK(means_models("gpt2 xl", {"gpt2-xl"}));
  CHECK(means_models("gpt2", {"gpt2"}));
  CHECK(means_models("openai/whisper-large-v3", {"whisper-large-v3"}));
  CHECK(means_models("Qwen/Qwen2.5-VL-7B-Instruct", {"qwen2.5-vl-7b"}));
  CHECK(means_models("llava-hf/llava-1.5-7b-hf", {"llava-1.5-7b"}));
  CHECK(means_models("answerdotai/ModernBERT-base", {"modernbert-base"}));
  CHECK(means_models("google/paligemma-3b-pt-224", {"paligemma-3b-pt-224"}));
  CHECK(means_models("facebook/dinov2-base", {"dinov2-base-imagenet1k-1-layer"}));
  CHECK(means_models("google/gemma-3-4b-it", {"gemma-3-4b-it"}));
  CHECK(means_models("gemma-3-4b", {"gemma-3-4b-text", "gemma-3-4b-it"}));
  CHECK(means_models("meta-llama/Llama-4-Scout-17B-16E-Instruct", {"llama-4-scout-17b-16e"}));
  CHECK(means_models("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", {"nemotron-3-nano-30b-a3b"}));
  CHECK(means_models("nvidia/Nemotron-H-8B-Base-8K", {"nemotron-h-8b"}));
  CHECK(means_models("Qwen/Qwen3-Next-80B-A3B-Instruct", {"qwen3-next-80b-a3b"}));
  CHECK(means_models("llama 70b", {"llama-2-70b", "meta-llama-3-70b", "llama-3.1-70b"}));
}

struct published_name {
  const char* name;
  const char* id;
};

TEST_CASE("published models of the shape of another one are known by their names") {
  for (const published_name& one : std::initializer_list<published_name>{
           {"meta-llama/Llama-3.3-70B-Instruct", "llama-3.1-70b"},
           {"unsloth/Llama-3.3-70B-Instruct-bnb-4bit", "llama-3.1-70b"},
           {"nvidia/Llama-3.1-Nemotron-70B-Instruct-HF", "llama-3.1-70b"},
           {"deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", "deepseek-r1-distill-qwen-1.5b"},
           {"deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "qwen2.5-7b"},
           {"deepseek-ai/DeepSeek-R1-Distill-Qwen-14B", "qwen2.5-14b"},
           {"deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", "qwen2.5-32b"},
           {"DeepSeek-R1-Distill-Llama-8B", "llama-3.1-8b"},
           {"deepseek-ai/DeepSeek-R1-Distill-Llama-70B", "llama-3.1-70b"},
           {"deepseek-ai/DeepSeek-R1-0528", "deepseek-r1"},
           {"deepseek-ai/DeepSeek-R1-0528-Qwen3-8B", "qwen3-8b"},
           {"deepseek-ai/DeepSeek-V3.1-Base", "deepseek-v3"},
           {"Qwen/Qwen2.5-Coder-0.5B", "qwen2.5-0.5b"},
           {"Qwen/Qwen2.5-Coder-1.5B-Instruct", "qwen2.5-1.5b"},
           {"Qwen/Qwen2.5-Coder-3B", "qwen2.5-3b"},
           {"Qwen/Qwen2.5-Coder-7B-Instruct", "qwen2.5-7b"},
           {"Qwen/Qwen2.5-Coder-14B-Instruct", "qwen2.5-14b"},
           {"Qwen/Qwen2.5-Coder-32B-Instruct", "qwen2.5-32b"},
           {"Qwen/Qwen2.5-Math-1.5B", "qwen2.5-1.5b"},
           {"Qwen/Qwen2.5-Math-7B-Instruct", "qwen2.5-7b"},
           {"Qwen/QwQ-32B", "qwen2.5-32b"},
           {"Qwen/QwQ-32B-Preview", "qwen2.5-32b"},
           {"Qwen/Qwen3-Coder-30B-A3B-Instruct", "qwen3-30b-a3b"},
           {"Qwen/Qwen3.5-4B", "qwen3.5-4b"},
           {"Qwen/Qwen3.5-9B-Base", "qwen3.5-9b"},
           {"Qwen/Qwen3.6-27B", "qwen3.5-27b"},
           {"HuggingFaceH4/zephyr-7b-beta", "mistral-7b-v0.1"},
           {"mistralai/Mistral-7B-Instruct-v0.1", "mistral-7b-v0.1"},
           {"mistralai/Mistral-7B-Instruct-v0.2", "mistral-7b-v0.2"},
           {"mistralai/Mistral-Nemo-Instruct-2407", "mistral-nemo-12b"},
           {"mistralai/Mistral-Nemo-Base-2407", "mistral-nemo-12b"},
           {"lmsys/vicuna-7b-v1.5", "llama-2-7b"},
           {"lmsys/vicuna-13b-v1.5", "llama-2-13b"},
           {"codellama/CodeLlama-7b-Instruct-hf", "codellama-7b"},
           {"codellama/CodeLlama-7b-Python-hf", "llama-2-7b"},  // of 16 rows fewer
           {"codellama/CodeLlama-13b-hf", "codellama-13b"},
           {"codellama/CodeLlama-34b-Instruct-hf", "codellama-34b"},
           {"codellama/CodeLlama-70b-hf", "codellama-70b"},
           {"EleutherAI/pythia-1.4b-deduped", "pythia-1.4b"},
           {"bigscience/bloomz-560m", "bloom-560m"},
           {"bigscience/bloomz-7b1-mt", "bloom-7b1"},
           {"bigscience/bloomz", "bloom"},
           {"tiiuae/Falcon3-7B-Instruct", "falcon3-7b"},
           {"tiiuae/Falcon3-10B-Base", "falcon3-10b"},
           {"01-ai/Yi-1.5-9B-Chat", "yi-9b"},
           {"01-ai/Yi-1.5-34B", "yi-34b"},
           {"google/gemma-3-12b-pt", "gemma-3-12b-it"},
           {"google/codegemma-7b-it", "gemma-7b"},
           {"microsoft/Phi-4-reasoning-plus", "phi-4"},
       }) {
    CAPTURE(one.name);
    CHECK(means_models(one.name, {one.id}));
    CHECK(!catalog::models_named(one.name).is_base);
  }
  // Distillates are meant where their family is named.
  CHECK(means_models("qwen 14b", {"qwen2.5-14b", "qwen3-14b"}));
  CHECK(means_models("vicuna", {"llama-2-7b", "llama-2-13b"}));
}

TEST_CASE("other names are none of the catalogue's, and of models that it has") {
  for (const catalog::other_name& other : catalog::other_names) {
    CAPTURE(other.name);
    CHECK(!catalog::find_model(other.name));
    CHECK(detail::model_of_id(other.id) != nullptr);
    CHECK(means_models(other.name, {other.id}));
  }
}

TEST_CASE("a fine-tune that says its base has its shape") {
  for (const published_name& one : std::initializer_list<published_name>{
           {"NousResearch/Hermes-3-Llama-3.1-8B", "llama-3.1-8b"},
           {"NousResearch/Hermes-3-Llama-3.1-70B", "llama-3.1-70b"},
           {"NousResearch/DeepHermes-3-Llama-3-8B-Preview", "meta-llama-3-8b"},
           {"princeton-nlp/gemma-2-9b-it-SimPO", "gemma-2-9b"},
           {"huihui-ai/DeepSeek-R1-Distill-Qwen-7B-abliterated-v2", "qwen2.5-7b"},
           {"somebody/Mistral-7B-Instruct-v0.2-medicine", "mistral-7b-v0.2"},
           {"somebody/llama3.2-1b-support-tickets", "llama-3.2-1b"},
       }) {
    CAPTURE(one.name);
    CHECK(means_models(one.name, {one.id}));
    CHECK(catalog::models_named(one.name).is_base);
  }
}

TEST_CASE("what is no name of a model means none") {
  for (const char* name : {"",
                           "/",
                           "instruct",
                           "bert-base-cased",
                           "Salesforce/xgen-7b-8k-base",
                           "google/gemma-3n-E4B-it",
                           "google/gemma-4-31B-it",
                           "openchat/openchat-3.5-0106",
                           "teknium/OpenHermes-2.5-Mistral-7B",  // of which version is not said
                           "allenai/Llama-3.1-Tulu-3-8B",        // nor is a whole name there
                           "mlabonne/TwinLlama-3.1-8B",
                           "somebody/Llama-3.1-8B-vision",  // of two parts
                           "nvidia/Llama-3.1-Minitron-4B-Width-Base",
                           "z-lab/Qwen3-8B-DFlash-b16",  // a draft
                           "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B",
                           "somebody/Llama-3.1-8B-to-4B",  // another size
                           "llava-hf/llama3-llava-next-8b-hf",
                           "Qwen/Qwen3-Embedding-8B",
                           "microsoft/Phi-3.5-vision-instruct",
                           "meta-llama/Llama-3.2-11B-Vision-Instruct"}) {
    CAPTURE(name);
    CHECK(means_models(name, {}));
  }
}

TEST_CASE("a model is near to a name of its family, or to one that is mistyped") {
  CHECK(catalog::nearest_model("gpt9") == "gpt2");
  CHECK(catalog::nearest_model("lama-2-7b") == "llama-2-7b");
  CHECK(catalog::nearest_model("meta-llama/Meta-Lama-3-8B") == "meta-llama-3-8b");
  CHECK(catalog::nearest_model("google/gemma-4-31B-it") == "gemma-3-4b-it");
  for (const char* name : {"", "/", "xgen-7b", "Salesforce/xgen-7b-8k-base", "openchat-3.5-0106"}) {
    CAPTURE(name);
    CHECK(catalog::nearest_model(name).empty());
  }
}

TEST_CASE("each model's id means it alone") {
  for (const catalog::published_model& model : catalog::models) {
    CAPTURE(model.id);
    CHECK(means_models(model.id, {model.id}));
  }
}

}  // namespace
