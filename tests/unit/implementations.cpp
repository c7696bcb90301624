#include <gpuplan/catalog/implementations.hpp>
#include <gpuplan/catalog/models.hpp>

#include <cstddef>
#include <string_view>

#include "check.hpp"

using namespace gpuplan;

namespace {

constexpr std::string_view framework_of(std::string_view model) {
  const auto known = catalog::implementation_of(model);
  return known ? known->name : "none";
}

constexpr training_setup tokens_of(const transformer& model) {
  return {.model = model, .sequence_length = 512};
}

// Whether it is among those that run the model, and how many there are.
constexpr bool runs_it(std::string_view name, const training_setup& setup) {
  for (const catalog::named_framework* known : catalog::frameworks_for(setup))
    if (known->name == name) return true;
  return false;
}

}  // namespace

TEST_CASE("a model has its implementation by name, by type and by class") {
  STATIC_CHECK(framework_of("gpt2-medium") == "gpt2");
  // A type is that of both towers; the tower of images alone has names of its own.
  STATIC_CHECK(framework_of("clip") == "clip_pairs");
  STATIC_CHECK(framework_of("CLIPModel") == "clip_pairs");
  STATIC_CHECK(framework_of("CLIPForImageClassification") == "clip");
  STATIC_CHECK(framework_of("clip-vit-large-patch14-vision") == "clip");
  STATIC_CHECK(framework_of("siglip") == "siglip_pairs");
  STATIC_CHECK(framework_of("siglip_vision_model") == "siglip");
  STATIC_CHECK(framework_of("gpt-neox-20b") == "gpt-neox");
  STATIC_CHECK(framework_of("gemma-2b") == "gemma");
  STATIC_CHECK(framework_of("gemma-2-2b") == "gemma-2");
  STATIC_CHECK(framework_of("gemma3_text") == "gemma-3");
  STATIC_CHECK(framework_of("phi-2") == "phi");
  STATIC_CHECK(framework_of("phi-4-mini") == "phi-3");
  STATIC_CHECK(framework_of("t5-v1.1-base") == "t5-1.1");
  STATIC_CHECK(framework_of("t5-base") == "t5");
  STATIC_CHECK(framework_of("Llama-3.1-8B") == "llama");
  STATIC_CHECK(framework_of("GPT2LMHeadModel") == "gpt2");
  STATIC_CHECK(framework_of("GPTJForCausalLM") == "gptj");
  STATIC_CHECK(framework_of("GPTNeoXForCausalLM") == "gpt-neox");
  STATIC_CHECK(framework_of("Qwen2ForCausalLM") == "qwen");
  STATIC_CHECK(framework_of("XLMRobertaForMaskedLM") == "xlm-roberta");
  STATIC_CHECK(framework_of("DistilBertModel") == "distilbert");
  STATIC_CHECK(framework_of("reformer") == "none");
  STATIC_CHECK(framework_of("") == "none");
  STATIC_CHECK(catalog::implementation_of("reformer").why() == failure(errc::no_implementation));
}

TEST_CASE("models of several parts of the catalogue are as their code trains them") {
  // Its classes have images before texts.
  constexpr auto pairs = catalog::as_trained(catalog::clip_vit_large_patch14);
  STATIC_CHECK(pairs->parts[0].model.kind == model_kind::vision);
  STATIC_CHECK(pairs->parts[1].model.vocab_size == 49408);
  STATIC_CHECK(pairs->parts[1].sequence_length == 77);
  constexpr auto robots = catalog::as_trained(catalog::gr00t_n1_5_3b);
  STATIC_CHECK(robots->parts[1].by->layers == &layer_classes::decoder);
  STATIC_CHECK([] {
    const auto parts = catalog::as_trained(catalog::gr00t_n1_5_3b);
    training_setup setup{.model = parts->parts[1].model, .sequence_length = 512};
    setup.composite = &*parts;
    return static_cast<bool>(catalog::runs(catalog::gr00t_n1_5, setup));
  }());
  // Nobody's head, and nobody's code.
  STATIC_CHECK(catalog::as_trained(catalog::gr00t_n1_5_3b_backbone).why().code ==
               errc::no_implementation);
  // Towers of one class stay in their order.
  constexpr auto joined = catalog::as_trained(catalog::openvla_7b);
  STATIC_CHECK(joined->parts[0].model.hidden_size == 1024 && joined->parts[0].next.layers() == 0);
  STATIC_CHECK(joined->parts[1].model.hidden_size == 1152 && joined->parts[1].next.layers() == 3);
  STATIC_CHECK([] {
    const auto parts = catalog::as_trained(catalog::openvla_7b);
    training_setup setup{.model = parts->parts[2].model, .sequence_length = 256 + 2};
    setup.composite = &*parts;
    return static_cast<bool>(catalog::runs(catalog::openvla, setup));
  }());
}

namespace {

constexpr result<training_setup> shared_by(const engine_class& engine,
                                           const composite_model& published,
                                           int language,
                                           std::int64_t tokens,
                                           const framework& by) {
  const auto parts = catalog::as_trained(published);
  training_setup setup{.model = parts->parts[language].model,
                       .composite = &*parts,
                       .sequence_length = tokens,
                       .precision = bf16_mixed,
                       .parallelism = {.zero_stage = 3},
                       .framework = by};
  setup.framework.engine.is = &engine;
  const auto valid = validate(setup);
  if (!valid) return valid.why();
  setup.composite = nullptr;  // which goes
  return setup;
}

}  // namespace

TEST_CASE(
    "ranks share each layer of several transformers, where fully_shard takes what they have") {
  using namespace gpuplan::engine_classes;
  const auto& llava = catalog::llava_1_5_7b;
  STATIC_CHECK(shared_by(fsdp2, llava, 1, 1024, catalog::hugging_face_llava));
  STATIC_CHECK(!shared_by(fsdp1, llava, 1, 1024, catalog::hugging_face_llava));
  STATIC_CHECK(shared_by(fsdp2, catalog::openvla_7b, 2, 300, catalog::openvla));
  // A number is no parameter that ranks share.
  const auto& clip = catalog::clip_vit_base_patch32;
  STATIC_CHECK(shared_by(fsdp2, clip, 1, 77, catalog::hugging_face_clip_pairs).why().at_fault() ==
               fact::sharding);
  STATIC_CHECK(shared_by(fsdp2, clip, 1, 77, catalog::hugging_face_clip_pairs)
                   .why()[fact::scalar_parameters] == 1);
}

namespace {

// Those of one eighth of the list: what a compiler evaluates at once has a limit.
constexpr bool are_found(std::size_t eighth) {
  for (std::size_t at = eighth; at < catalog::listed_frameworks.size(); at += 8) {
    const catalog::listed_framework& known = catalog::listed_frameworks[at];
    if (*known.software->name == '\0') return false;
    const std::string_view name = known.name;
    if (!name.empty() && catalog::find_framework(name)->name != name) return false;
    for (const char* begins : known.models)
      if (begins != nullptr && framework_of(begins) != name) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("each framework is found by its name, and by how its models' names begin") {
  STATIC_CHECK(are_found(0));
  STATIC_CHECK(are_found(1));
  STATIC_CHECK(are_found(2));
  STATIC_CHECK(are_found(3));
  STATIC_CHECK(are_found(4));
  STATIC_CHECK(are_found(5));
  STATIC_CHECK(are_found(6));
  STATIC_CHECK(are_found(7));
  STATIC_CHECK(catalog::find_framework("Megatron_Core")->name == std::string_view("megatron-core"));
  STATIC_CHECK(catalog::find_framework("megatron-cor").why() ==
               failure(errc::unknown_framework).about("megatron-core"));
}

TEST_CASE("frameworks run what they have code for") {
  constexpr training_setup llama = tokens_of(catalog::llama_3_8b);
  STATIC_CHECK(runs_it("torch-llama", llama));
  STATIC_CHECK(runs_it("llama", llama));
  STATIC_CHECK(runs_it("litgpt", llama));
  STATIC_CHECK(runs_it("torchtitan", llama));
  STATIC_CHECK(runs_it("megatron-core", llama));
  STATIC_CHECK(!runs_it("bert", llama));
  STATIC_CHECK(!runs_it("gpt2", llama));
  STATIC_CHECK(runs_it("gpt2", tokens_of(catalog::gpt2)));
  STATIC_CHECK(!runs_it("llama", tokens_of(catalog::gpt2)));
  STATIC_CHECK(catalog::runs(catalog::torchtitan, llama));
  STATIC_CHECK(catalog::runs(catalog::hugging_face_llama, tokens_of(catalog::gpt2)).why().code ==
               errc::no_such_code);
}
