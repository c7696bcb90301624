#include <gpuplan/io/slurm.hpp>

#include <limits>
#include <string>

#include "check.hpp"

using namespace gpuplan;
using namespace gpuplan::io;

namespace {

slurm_job four_gpus() {
  return {.gres = "gpu4090",
          .gpus_per_node = 4,
          .node_list = "classt25",
          .wall_time = 12_h,
          .script = "finetune.slurm",
          .log = "logs/finetune_%j.out",
          .command = "python train.py --data 'my set'"};
}

constexpr batch_plan ten_by_three{.micro_batch = 10, .data_parallel = 4, .accumulation = 3};

errc why(const slurm_job& job) { return slurm_script(ten_by_three, job).why().code; }

}  // namespace

TEST_CASE("a job script holds the options, then the command with the batch") {
  CHECK(slurm_script(ten_by_three, four_gpus()).value_or_throw() ==
        "#!/bin/bash\n"
        "#SBATCH --nodes=1\n"
        "#SBATCH --gres=gpu:gpu4090:4\n"
        "#SBATCH --nodelist=classt25\n"
        "#SBATCH --time=0-12:00:00\n"
        "#SBATCH --output=logs/finetune_%j.out\n"
        "\n"
        "python train.py --data 'my set' --batch-size 10 --gradient-accumulation-steps 3\n");
  CHECK(slurm_submit(four_gpus()).value_or_throw() == "sbatch finetune.slurm");
}

TEST_CASE("what is not asked for is left to Slurm") {
  slurm_job job = four_gpus();
  job.gres = job.node_list = job.log = "";
  job.nodes = 2;
  CHECK(slurm_script(ten_by_three, job).value_or_throw() ==
        "#!/bin/bash\n"
        "#SBATCH --nodes=2\n"
        "#SBATCH --gres=gpu:4\n"
        "#SBATCH --time=0-12:00:00\n"
        "\n"
        "python train.py --data 'my set' --batch-size 10 --gradient-accumulation-steps 3\n");
}

TEST_CASE("a time limit is rounded up to seconds") {
  CHECK(*slurm_time(1_s) == "0-00:00:01");
  CHECK(*slurm_time(59.002_s) == "0-00:01:00");
  CHECK(*slurm_time(86399.5_s) == "1-00:00:00");
  CHECK(*slurm_time(14.4_h) == "0-14:24:00");
  CHECK(*slurm_time(12_h * 1.2) == "0-14:24:00");  // not a second more for the rounding of 1.2
  CHECK(*slurm_time(2_d + 3_h + 4_min + 5_s) == "2-03:04:05");
  CHECK(*slurm_time(24854_d) == "24854-00:00:00");
  CHECK(*slurm_time(0.1_ms) == "0-00:00:01");  // 0 would be without limit
}

TEST_CASE("every second of two days reads back as itself") {
  for (std::int64_t s = 1; s <= 2 * 86400; ++s) {
    const std::string text = *slurm_time(static_cast<double>(s) * 1_s);
    REQUIRE(text.size() == 10);
    const std::int64_t back = std::stoi(text.substr(0, 1)) * 86400 +
                              std::stoi(text.substr(2, 2)) * 3600 +
                              std::stoi(text.substr(5, 2)) * 60 + std::stoi(text.substr(8, 2));
    REQUIRE(back == s);
    REQUIRE(std::stoi(text.substr(2, 2)) < 24);
    REQUIRE(std::stoi(text.substr(5, 2)) < 60);
  }
}

TEST_CASE("a time limit that is none is refused") {
  CHECK(slurm_time(0_s).why().code == errc::not_positive);
  CHECK(slurm_time(-1_h).why().code == errc::not_positive);
  CHECK(slurm_time(1_s * std::numeric_limits<double>::quiet_NaN()).why().code == errc::not_finite);
  CHECK(slurm_time(1_s * std::numeric_limits<double>::infinity()).why().code == errc::not_finite);
  CHECK(slurm_time(24855_d).why().code == errc::out_of_bounds);
  CHECK(slurm_time(24855_d).why()[fact::at_most_days] == 24854);
  slurm_job job = four_gpus();
  job.wall_time = 0_s;
  CHECK(why(job) == errc::not_positive);
  CHECK(slurm_submit(job).why().code == errc::not_positive);
}

TEST_CASE("a name cannot smuggle in a line, an option or a command") {
  std::string slurm_job::*const names[] = {
      &slurm_job::gres, &slurm_job::node_list, &slurm_job::script, &slurm_job::log};
  for (const auto name : names) {
    for (const char* bad : {"a\n#SBATCH --exclusive",
                            "a b",
                            "a;b",
                            "a$b",
                            "`a`",
                            "a\"",
                            "a'",
                            "a#",
                            "a\\",
                            "a\tb",
                            "a\rb",
                            "-a",
                            "a&",
                            "a|b",
                            "a>b",
                            "a*",
                            "\xed\x95\x9c"}) {
      slurm_job job = four_gpus();
      job.*name = bad;
      CHECK(why(job) == errc::malformed_name);
    }
    slurm_job job = four_gpus();
    job.*name = std::string("a\0b", 3);
    CHECK(why(job) == errc::malformed_name);
    job.*name = "a-1_b.c";
    CHECK(why(job) == errc::none);
  }
  slurm_job job = four_gpus();
  job.gres = "gpu4090:4,license";
  CHECK(why(job) == errc::malformed_name);
  job.gres = "1g.11gb";
  job.node_list = "classt[21-22],classt25";
  CHECK(why(job) == errc::none);
}

TEST_CASE("a refusal names the field and the place") {
  slurm_job job = four_gpus();
  job.log = "logs/my run.out";
  CHECK(slurm_script(ten_by_three, job).why().at_fault() == fact::log);
  CHECK(slurm_script(ten_by_three, job).why()[fact::position] == 7);
  job = four_gpus();
  job.command = "python train.py\nrm -r data";
  CHECK(why(job) == errc::malformed_name);
  CHECK(slurm_script(ten_by_three, job).why()[fact::position] == 15);
  job.command = "";
  CHECK(why(job) == errc::malformed_name);
  job = four_gpus();
  job.script = "";
  CHECK(why(job) == errc::malformed_name);
}

TEST_CASE("counts are at least 1, and the plan's GPUs are the job's") {
  slurm_job job = four_gpus();
  job.gpus_per_node = 0;
  CHECK(why(job) == errc::not_positive);
  job.gpus_per_node = 4;
  job.nodes = -1;
  CHECK(why(job) == errc::not_positive);
  job.nodes = std::numeric_limits<std::int64_t>::max();
  CHECK(why(job) == errc::overflow);
  job.nodes = 1;
  job.gpus_per_node = 6;
  CHECK(why(job) == errc::gpus_left_over);
  job.gpus_per_node = 8;  // two GPUs for each replica of the model
  CHECK(why(job) == errc::none);
  CHECK(slurm_script({.micro_batch = 0}, four_gpus()).why().code == errc::not_positive);
}
