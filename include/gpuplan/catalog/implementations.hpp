#pragma once

// Which frameworks of the catalogue run a model: by its name, the `model_type` of its config.json
// or its class, and by what `validate` says of a setup.

#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/detail/text.hpp>
#include <gpuplan/framework.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstddef>
#include <iterator>
#include <string_view>

namespace gpuplan::catalog {

/// A framework by a short name, as `--framework` of the programs takes it.
struct named_framework {
  const char* name = "";
  gpuplan::framework framework{};
};

/// Those that train a model as they stand, each implementation once; those of frameworks.hpp that
/// are missing here change one of these.
inline constexpr named_framework frameworks[] = {
    {"torch-gpt", torch_gpt},
    {"torch-llama", torch_llama},
    {"torch-llama-fp32", torch_llama_fp32},
    {"gpt2", hugging_face_gpt2},
    {"opt", hugging_face_opt},
    {"gpt-neox", hugging_face_gpt_neox},
    {"gptj", hugging_face_gptj},
    {"t5", hugging_face_t5},
    {"t5-1.1", hugging_face_t5_1_1},
    {"llama", hugging_face_llama},
    {"qwen", hugging_face_qwen},
    {"gemma", hugging_face_gemma},
    {"gemma-2", hugging_face_gemma_2},
    {"gemma-3", hugging_face_gemma_3},
    {"phi", hugging_face_phi},
    {"phi-3", hugging_face_phi_3},
    {"olmo", hugging_face_olmo},
    {"bert", hugging_face_bert},
    {"roberta", hugging_face_roberta},
    {"mpnet", hugging_face_mpnet},
    {"distilbert", hugging_face_distilbert},
    {"vit", hugging_face_vit},
    {"clip", hugging_face_clip},
    {"siglip", hugging_face_siglip},
    {"litgpt", lit_gpt},
    {"litgpt-gemma", lit_gpt_gemma},
    {"torchtitan", torchtitan},
    {"megatron-core", megatron_core},
    {"megatron-te", megatron_transformer_engine},
    {"megatron-deepspeed", megatron_deepspeed},
};

/// How names, types and classes of models begin, in lower case, and the name of transformers'
/// implementation of them; the first that fits counts.
struct model_family {
  std::string_view begins;
  const char* framework;
};
inline constexpr model_family model_families[] = {
    {"gpt2", "gpt2"},
    {"gpt3-", "gpt2"},
    {"gpt-j", "gptj"},
    {"gptj", "gptj"},
    {"gpt-neox", "gpt-neox"},
    {"gpt_neox", "gpt-neox"},
    {"gptneox", "gpt-neox"},
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
    {"xlmroberta", "roberta"},
    {"distilbert", "distilbert"},
    {"all-mpnet", "mpnet"},
    {"mpnet", "mpnet"},
    {"t5-v1.1", "t5-1.1"},
    {"t5", "t5"},
    {"vit", "vit"},
    {"clip", "clip"},
    {"siglip", "siglip"},
};

/// The framework of this name. Case does not matter, nor which punctuation there is. Errors:
/// `unknown_framework` with the nearest name.
[[nodiscard]] constexpr result<named_framework> find_framework(std::string_view name) {
  for (const named_framework& known : frameworks)
    if (gpuplan::detail::same_but_for_marks(name, known.name)) return known;
  using gpuplan::detail::plain_name;
  gpuplan::detail::nearest_name nearest(name, plain_name(name));
  for (const named_framework& known : frameworks)
    nearest.offer(known.name, plain_name(known.name), known.name);
  return failure(errc::unknown_framework).about(nearest.id());
}

/// Transformers' implementation of a model that is called so: by its id in the catalogue
/// ("llama-3-8b"), the `model_type` of its config.json ("gemma3_text"), or its class among the
/// `architectures` ("Qwen2ForCausalLM"). Case does not matter. Whether it has what this model has
/// is for `runs`. Errors: `no_implementation`.
[[nodiscard]] constexpr result<named_framework> implementation_of(std::string_view model) {
  const auto begins = [&](std::string_view with) {
    if (model.size() < with.size()) return false;
    for (std::size_t at = 0; at < with.size(); ++at)
      if (gpuplan::detail::lower(model[at]) != with[at]) return false;
    return true;
  };
  for (const model_family& family : model_families)
    if (begins(family.begins)) return find_framework(family.framework);
  return failure(errc::no_implementation);
}

/// Whether the framework trains the setup's model, undivided and whole, in one of its usual
/// formats: of the setup, the model, its lengths and its encodings count. Errors: those of the
/// first format.
[[nodiscard]] constexpr result<bool> runs(const framework& software, const training_setup& given) {
  training_setup setup{.model = given.model,
                       .sequence_length = given.sequence_length,
                       .target_length = given.target_length,
                       .encodings = given.encodings,
                       .framework = software};
  failure why;
  for (const precision_recipe& recipe : {bf16_mixed, bf16_master, bf16_megatron, fp32_precision}) {
    setup.precision = recipe;
    auto valid = validate(setup);
    if (!valid && valid.why().at_fault() == fact::zero_stage) {
      setup.parallelism.zero_stage = 3;  // what shares weights has no other
      valid = validate(setup);
    }
    if (valid) return true;
    if (!gpuplan::detail::failed(why)) why = valid.why();
  }
  return why;
}

/// Frameworks of the catalogue, in its order.
struct framework_list {
  const named_framework* entries[std::size(frameworks)]{};
  std::size_t count = 0;

  [[nodiscard]] constexpr const named_framework* const* begin() const { return entries; }
  [[nodiscard]] constexpr const named_framework* const* end() const { return entries + count; }
};

/// Those that run the setup's model, as `runs` says.
[[nodiscard]] constexpr framework_list frameworks_for(const training_setup& setup) {
  framework_list all;
  for (const named_framework& known : frameworks)
    if (runs(known.framework, setup)) all.entries[all.count++] = &known;
  return all;
}

}  // namespace gpuplan::catalog
