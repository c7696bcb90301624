#include "published_exemplar.hpp"

#include <gpuplan/catalog/frameworks/megatron.hpp>

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "notes.hpp"
#include "runs.hpp"

namespace accuracy {
namespace {

// "fp8mx" of "recompute/offload from recipe llama3_8b_pretrain_8gpu_gb300_fp8mx_config (...)";
// blank where none is of these GPUs.
std::string_view casts_of_recipe(std::string_view notes) {
  constexpr std::string_view before = " from recipe ", behind = "_config";
  const std::size_t at = notes.find(before);
  if (at == std::string_view::npos) return {};
  const std::string_view name = notes.substr(at, notes.find(behind, at) - at);
  return name.substr(name.rfind('_') + 1);
}

}  // namespace

described_recipe describe_exemplar(const row& source) {
  described_recipe recipe;
  const std::string_view notes = source.text("notes");
  if (source.blank("attention"))
    recipe.why_not = "its layers are of several kinds, which its columns do not say";
  else if (source.blank("recompute"))
    recipe.why_not = "no recipe of its GPUs says what is computed again";
  else if (source.text("optimizer") == "muon")
    recipe.why_not = "its optimizer is Muon, which ranks share by layers";
  if (!recipe.why_not.empty()) return recipe;
  const described_run run = describe_run(source);
  recipe.why_not = run.why_not;
  if (!run.why_not.empty()) return recipe;
  gpuplan::training_setup& setup = recipe.setup;
  setup.model = run.shape;
  add_unlisted_parts(source, setup.model);
  setup.framework = gpuplan::catalog::megatron_bridge_2606;
  setup.sequence_length = source.integer_or("seq_len", 0);
  setup.parallelism = layout_in(source);
  // Where layers do not divide by chunks, those recipes count the embedding and the loss as layers.
  const std::int64_t layers = setup.model.num_hidden_layers;
  const std::int64_t chunks =
      setup.parallelism.pipeline_parallel * setup.parallelism.virtual_pipeline;
  if (chunks > 0 && layers % chunks != 0 && (layers + 2) % chunks == 0)
    setup.parallelism.split.embedding_layers = setup.parallelism.split.head_layers = 1;
  if (setup.parallelism.zero_stage == 3) setup.framework = gpuplan::catalog::megatron_bridge_fsdp;
  recipe.plan = batch_in(source);
  setup.precision = gpuplan::bf16_megatron;
  setup.precision.fp32_gradients = source.integer_or("grad_bytes", 4) == 4;
  // The names of columns of recipes: fp8_cs, mxfp8 and nvfp4, all of which but fp8_sc keep casts.
  const std::string_view casts = casts_of_recipe(notes);
  recipe.why_not = read_casts(casts == "fp8mx"   ? "mxfp8"
                              : casts == "fp8cs" ? "fp8_cs"
                              : casts == "fp8sc" ? "fp8_sc"
                                                 : casts,
                              casts != "fp8sc",
                              setup);
  if (recipe.why_not.empty() && source.text("recompute") == "selective")
    recipe.why_not = read_modules(value_in(notes, "recompute_modules"), setup);
  const std::string_view offloaded = value_in(notes, "activation_cpu_offload_layers");
  std::from_chars(offloaded.data(), offloaded.data() + offloaded.size(), setup.offloads.layers);
  if (recipe.why_not.empty()) recipe.why_not = read_cluster(source, recipe.on);
  return recipe;
}

prediction exemplar_fits(const row& source) {
  const described_recipe recipe = describe_exemplar(source);
  return recipe.why_not.empty() ? fits_of(recipe) : prediction(recipe.why_not);
}

}  // namespace accuracy
