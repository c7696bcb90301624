// Files of trainers with random faults, byte by byte: whatever is in them, reading ends with an
// answer or a reason. GPUPLAN_FAULTY_FILES in the environment says how many are tried.

#include <doctest/doctest.h>

#include <gpuplan/catalog/models.hpp>
#include <gpuplan/io/trainer/any_file.hpp>
#include <gpuplan/io/trainer/any_writer.hpp>
#include <gpuplan/io/trainer/configured_training.hpp>
#include <gpuplan/io/trainer/planned_config.hpp>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "random_numbers.hpp"

namespace {

using namespace gpuplan;

struct sample {
  std::string name;
  std::string text;
};

// What each writer makes of some plan, and what people write by hand.
std::vector<sample> samples() {
  std::vector<sample> all = {
      {"config.yml",
       "base_model: a/b\nadapter: qlora\nload_in_4bit: true\nsequence_len: 4096\n"
       "micro_batch_size: 2\ngradient_accumulation_steps: 4\nbf16: auto\nlora_r: 32\n"
       "lora_target_linear: true\nfsdp_config:\n  fsdp_version: 2\ndatasets:\n  - path: x\n"},
      {"job.sh",
       "#!/bin/bash\n#SBATCH --nodes=2 --gres=gpu:h100:8\nARGS=(--lr 1e-4 \"$X\")\n"
       "srun torchrun --nproc-per-node 8 train.py --per_device_train_batch_size 4 "
       "\"${ARGS[@]}\" --bf16 True\n"},
      {"train.toml",
       "[training]\nseq_len = 4096\nlocal_batch_size = 2\n[parallelism]\n"
       "tensor_parallel_degree = 2\n"}};
  for (const char* const name : {"llama", "megatron-te", "torchtitan"})
    for (const engine_class* const engine : engine_classes::all) {
      training_setup setup{.model = catalog::llama_3_8b,
                           .sequence_length = 4096,
                           .framework = catalog::find_framework(name)->framework};
      if (std::string(name) == "llama") setup.framework.engine.is = engine;
      setup.parallelism.zero_stage = setup.framework.engine.is->least_zero_stage;
      setup.precision = *io::recipe_of(io::training_precision::bf16, *setup.framework.engine.is);
      const io::training_config config =
          io::planned_config(setup, {1, 8, 4}, {.model = "a/b", .nodes = 1, .gpus_per_node = 8});
      for (const io::plan_writer& writer : io::plan_writers)
        for (const io::written_file& file : writer.write(config, {.gpu = "H100"}).files)
          all.push_back({file.name, file.text});
    }
  return all;
}

// One to eight faults: bytes changed, lost, doubled, moved, or put in from a list of odd ones.
std::string with_faults(std::string text, random_numbers& random) {
  static const std::string odd[] = {"\"",
                                    "'",
                                    "{",
                                    "[",
                                    "]",
                                    "}",
                                    ":",
                                    "-",
                                    "\n",
                                    "\0",
                                    "\x80",
                                    "&a",
                                    "*a",
                                    "<<",
                                    "1e999",
                                    "-1",
                                    "0",
                                    "\t",
                                    "#",
                                    "$(",
                                    "${a",
                                    "|",
                                    "99999999999999999999",
                                    "~",
                                    "\\",
                                    "!!x",
                                    "=",
                                    "%",
                                    "\xff",
                                    "nan",
                                    "inf"};
  const std::int64_t faults = 1 + random.below(8);
  for (std::int64_t fault = 0; fault < faults && !text.empty(); ++fault) {
    const auto at = static_cast<std::size_t>(random.below(static_cast<std::int64_t>(text.size())));
    const auto size = static_cast<std::size_t>(1 + random.below(8));
    switch (random.below(5)) {
      case 0:
        text[at] = static_cast<char>(random.below(256));
        break;
      case 1:
        text.erase(at, size);
        break;
      case 2:
        text.insert(at, text.substr(at, size));
        break;
      case 3:
        text.insert(at, odd[random.below(static_cast<std::int64_t>(std::size(odd)))]);
        break;
      default:
        text.resize(at);
        break;
    }
  }
  return text;
}

TEST_CASE("files with faults are read, or refused with a reason") {
  const char* const wanted = std::getenv("GPUPLAN_FAULTY_FILES");
  const std::int64_t cases = wanted != nullptr ? std::atoll(wanted) : 20'000;
  const std::vector<sample> all = samples();
  REQUIRE(all.size() > 10);
  random_numbers random(20'261'125);
  std::int64_t read_in_part = 0;
  std::int64_t refused = 0;
  for (std::int64_t at = 0; at < cases; ++at) {
    const sample& one =
        all[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(all.size())))];
    const io::read_config read = io::read_training_file(one.name, with_faults(one.text, random));
    if (!read) {
      ++refused;
      continue;
    }
    ++read_in_part;
    const io::configured_training made =
        io::configured(io::merged({read, read}), {.shape = catalog::llama_3_8b, .called = "llama"});
    if (made) CHECK(made.gpus >= 1);
  }
  // The faults are neither all fatal nor all without consequence.
  CHECK(read_in_part > cases / 10);
  CHECK(refused > cases / 100);
}

}  // namespace
