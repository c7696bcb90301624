// The fastest plan of a model on eight GPUs, as Accelerate's file and as arguments of transformers.

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/implementations.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/io/trainer/accelerate.hpp>
#include <gpuplan/io/trainer/hugging_face_arguments.hpp>
#include <gpuplan/io/trainer/planned_config.hpp>
#include <gpuplan/memory/layouts.hpp>
#include <gpuplan/planner.hpp>

#include <cstdio>

using namespace gpuplan;

int main() {
  plan_request request{.setup = {.model = catalog::llama_3_8b,
                                 .sequence_length = 4096,
                                 .precision = bf16_mixed,
                                 .framework = catalog::implementation_of("llama")->framework},
                       .on = {.gpu = catalog::h100_sxm5_80gb, .gpus_per_node = 8},
                       .efficiency = catalog::efficiency_of(catalog::h100_sxm5_80gb),
                       .effective_batch = {64},
                       .space = {.zero_stage = range<std::int64_t>{2, 3}, .recompute = true}};
  request.setup.framework.engine.is = &engine_classes::fsdp2;
  request.setup.parallelism.zero_stage = 3;
  const auto found = plan_training(request, transformer_memory_of{});
  if (!found) {
    std::fprintf(stderr, "%s\n", failure_text(found.why()).c_str());
    return 1;
  }
  const io::training_config config = io::planned_config(setup_of(request, found->best()),
                                                        found->best().batch,
                                                        {.model = "meta-llama/Meta-Llama-3-8B",
                                                         .nodes = 1,
                                                         .gpus_per_node = 8,
                                                         .learning_rate = 1e-5});
  for (const io::written_config& written :
       {io::write_accelerate(config), io::write_hugging_face_arguments(config)}) {
    if (!written) std::fprintf(stderr, "%s\n", written.why.c_str());
    for (const io::written_file& file : written.files)
      std::printf("--- %s\n%s", file.name.c_str(), file.text.c_str());
  }
}
