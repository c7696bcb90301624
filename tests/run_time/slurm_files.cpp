// Slurm's scripts that start a training, read and written.

#include <doctest/doctest.h>

#include <gpuplan/io/trainer/megatron_lm.hpp>
#include <gpuplan/io/trainer/slurm.hpp>

#include <mutated_text.hpp>
#include <random_numbers.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace {

using namespace gpuplan;
using namespace gpuplan::io;

const char* const slurm_sample = R"(#!/bin/bash
#SBATCH --job-name=pretrain
#SBATCH -N 4
#SBATCH --gres=gpu:h100:8   # all of a node
#SBATCH --ntasks-per-node=1
#SBATCH --time=1-12:30:00
#SBATCH --mem=0 --exclusive
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)
srun torchrun --nnodes $SLURM_NNODES --nproc-per-node 8 --rdzv-endpoint $head:29500 \
  pretrain_gpt.py --micro-batch-size 2 --tensor-model-parallel-size 4
)";

TEST_CASE("a job script says its GPUs, and gives back the trainer's words") {
  CHECK(looks_like_slurm(slurm_sample));
  const read_launch job = read_slurm_script(slurm_sample);
  REQUIRE(job.read);
  CHECK(*job.read.config.nodes == 4);
  CHECK(*job.read.config.gpus_per_node == 8);
  CHECK(*job.read.config.gpus == 32);
  CHECK(job.how.gpu == "h100");
  CHECK(job.how.name == "pretrain");
  CHECK(job.how.wall_time == 131'400_s);
  const read_config inside = read_megatron_lm_words(job.words, job.read);
  CHECK(*inside.config.data_parallel == 8);
}

TEST_CASE("Slurm's times and GPUs are read in all their forms") {
  using io::detail::seconds_of_slurm;
  CHECK(*seconds_of_slurm("90") == 5400);
  CHECK(*seconds_of_slurm("1:30") == 90);
  CHECK(*seconds_of_slurm("2:00:00") == 7200);
  CHECK(*seconds_of_slurm("1-2") == 93'600);
  CHECK(*seconds_of_slurm("1-2:03:04") == 93'784);
  for (const char* const wrong : {"", "x", "1:", "1:2:3:4", "-1", "1-", "99999999", "1-2-3"})
    CHECK_FALSE(seconds_of_slurm(wrong));
  const auto of = [](const std::string& line) {
    return read_slurm("#SBATCH --nodes=2\n#SBATCH " + line + "\nsrun python t.py\n").config;
  };
  CHECK(*of("--gpus-per-node=a100:4").gpus == 8);
  CHECK(*of("--gpus=16").gpus_per_node == 8);
  CHECK(*of("--gres=gpu:2").gpus == 4);
  CHECK(*of("--gres gpu:h100").gpus == 2);
  CHECK(*of("--gres=gpu:4,nvme:1").gpus == 8);
  CHECK(*of("--gres=nvme:1,gpu:4").gpus == 8);
  CHECK(*of("--gres=gpu:a100:4(S:0-1)").gpus == 8);
  CHECK_FALSE(of("--gres=nvme:2").gpus);
  CHECK(*of("--gpus-per-task=4").gpus == 8);
  CHECK(*of("--ntasks-per-node=4 --gpus-per-task=a100:2").gpus_per_node == 8);
  CHECK(*of("-n 8 --gpus-per-task=1").gpus_per_node == 4);
  CHECK(*of("--ntasks=8 --gpus-per-task=1 --gpus=2").gpus_per_node == 1);
  CHECK_FALSE(of("--ntasks=3 --gpus-per-task=1").gpus_per_node);
  CHECK_FALSE(of("--mem=3").gpus);
  const auto remark_on = [](const std::string& line) {
    const read_config read = read_slurm("#SBATCH --nodes=2\n#SBATCH " + line + "\n");
    REQUIRE(read.remarks.size() == 1);
    return read.remarks[0].key + " " + read.remarks[0].text;
  };
  CHECK(remark_on("--ntasks=3 --gpus-per-task=1") ==
        "--gpus-per-task is 1; with it --nodes and as many tasks on each of them are taken");
  for (const char* const odd : {"gpu:a100:x", "gpu:0", "gpu:a100:2,gpu:v100:1"})
    CHECK(remark_on("--gres=" + std::string(odd)) ==
          "--gres is \"" + std::string(odd) + "\"; gpu:TYPE:COUNT is taken, of one type");
  CHECK(read_slurm("#SBATCH --ntasks-per-node=8\ntorchrun t.py").remarks[0].key ==
        "--ntasks-per-node");
  CHECK(read_slurm("#SBATCH --gres=gpu:4\ntorchrun --nproc-per-node 8 t.py").remarks[0].is ==
        remark::kind::contradicts);
  CHECK(read_slurm("#SBATCH --time=x\n").remarks[0].is == remark::kind::contradicts);
  CHECK_FALSE(read_slurm("echo"));
}

TEST_CASE("what Slurm sets in a job's environment is known") {
  const std::string lines =
      "#!/bin/bash\n#SBATCH --nodes=4 --gpus-per-node=8\n#SBATCH --ntasks-per-node=1\n";
  const read_launch job =
      read_slurm_script(lines +
                        "GPUS=${SLURM_GPUS_ON_NODE}\nsrun torchrun --nnodes=$SLURM_NNODES "
                        "--nproc-per-node $GPUS t.py "
                        "--world $((SLURM_JOB_NUM_NODES * GPUS)) --tasks $SLURM_NTASKS\n");
  REQUIRE(job.read);
  CHECK(job.read.remarks.empty());
  CHECK(*job.read.config.gpus == 32);
  CHECK(job.words == std::vector<std::string>{"--world", "32", "--tasks", "4"});
  const read_config launched = read_slurm(
      lines + "accelerate launch --num_processes $((SLURM_NNODES * 8)) --num_machines 4 t.py\n");
  CHECK(launched.remarks.empty());
  CHECK(*launched.config.gpus == 32);
  const read_config fewer =
      read_slurm(lines + "accelerate launch --num_processes 8 --num_machines 1 t.py\n");
  REQUIRE(fewer.remarks.size() == 1);
  CHECK(fewer.remarks[0].text == "is 8; the job has 32 GPUs");
  const read_config alone = read_slurm(lines + "srun torchrun --nproc-per-node 8 t.py\n");
  REQUIRE(alone.remarks.size() == 1);
  CHECK(alone.remarks[0].key == "--nnodes");
  CHECK(alone.remarks[0].text == "is 1; the job has 4 nodes");
}

TEST_CASE("a job script says what was written into it") {
  random_numbers random(31);
  for (int round = 0; round < 3000; ++round) {
    training_config config;
    config.nodes = 1 + random.below(100);
    config.gpus_per_node = 1 + random.below(16);
    config.gpus = *config.nodes * *config.gpus_per_node;
    launch how;
    how.gpu = random.below(2) == 0 ? "h100" : "";
    how.wall_time = static_cast<double>(random.below(1'000'000)) * 1_s;
    how.command = "t.py --lr 1e-4";
    const written_config written = write_slurm(config, how);
    REQUIRE_MESSAGE(written, written.why);
    const read_launch again = read_slurm_script(written.files[0].text);
    REQUIRE(again.read);
    CHECK(*again.read.config.nodes == *config.nodes);
    CHECK(*again.read.config.gpus_per_node == *config.gpus_per_node);
    CHECK(*again.read.config.gpus == *config.gpus);
    CHECK(again.how.gpu == how.gpu);
    CHECK(again.how.wall_time == how.wall_time);
    CHECK(again.how.command == how.command);
    CHECK(again.read.remarks.empty());
  }
  training_config one;
  one.gpus = 8;
  CHECK_FALSE(write_slurm(one, {.gpu = "a:b"}));
  CHECK_FALSE(write_slurm(one, {.wall_time = -1.0 * 1_s}));
  CHECK_FALSE(write_slurm(one, {.command = "t.py; rm"}));
}

TEST_CASE("mutated job scripts are read without a fault") {
  random_numbers random(37);
  const std::string sample = slurm_sample;
  const std::string pieces = "'\"$`(){}#=:- \n09eGNt\xff";
  std::size_t read = 0;
  for (int round = 0; round < 10'000; ++round) {
    const std::string text = mutated_text(sample, pieces, 6, random);
    if (read_slurm(text)) ++read;
  }
  CHECK(read > 5'000);
}

}  // namespace
