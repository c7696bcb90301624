// gpuplan plan and report of models of several transformers: the best of all steps, each replayed.

#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/implementations.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/memory/layouts.hpp>
#include <gpuplan/replay/device_kernels.hpp>
#include <gpuplan/replay/step_time.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "check.hpp"
#include "gpuplan_runs.hpp"
#include "json_answer.hpp"
#include "temporary_file.hpp"

using namespace gpuplan;
using nlohmann::json;

namespace {

using words = std::vector<std::string>;

words with(words all, const words& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}
std::string refusal_of(const words& arguments) {
  const outcome o = planned(arguments);
  CHECK(o.status == 2);
  CHECK(o.out.empty());
  return o.err;
}
double number(const json& row, const char* column) { return row[column].get<double>(); }

// A text tower and one of images, on two cards that hold few samples.
const composite_model& clip() {
  static const composite_model parts = *catalog::as_trained(catalog::clip_vit_large_patch14);
  return parts;
}
training_setup of_clip() {
  const bool is_text_first = clip().parts[0].model.kind != model_kind::vision;
  return {.model = clip().parts[is_text_first ? 0 : 1].model,
          .composite = &clip(),
          .sequence_length = 77,
          .precision = bf16_mixed,
          .framework = catalog::hugging_face_clip_pairs};
}
const cluster two_cards{.gpu = catalog::rtx_4070, .gpus_per_node = 2};
const words clip_on_two_cards{"clip-vit-large-patch14",
                              "--gpu",
                              "rtx_4070",
                              "--gpus",
                              "2",
                              "--batch",
                              "34-36",
                              "--micro-batch",
                              "1-18"};
const words small_clip{"clip-vit-base-patch32",
                       "--gpu",
                       "rtx_4090",
                       "--gpus",
                       "2",
                       "--batch",
                       "64",
                       "--micro-batch",
                       "32"};

// Of all plans on the cards the fastest that fits.
struct best_of_all {
  training_setup setup{};
  batch_plan plan{};
  double per_sample = std::numeric_limits<double>::infinity();
  bytes required{};
  int fitting = 0;
  int too_large = 0;

  explicit best_of_all(range<std::int64_t> batch) {
    const std::int64_t gpus = total_gpus(two_cards);
    const transformer_memory_of memory_of = transformer_memory_of{}.on(two_cards.gpu);
    for (const int zero_stage : {0, 1, 2, 3})
      for (const recompute_mode again :
           {recompute_mode::none, recompute_mode::selective, recompute_mode::full}) {
        training_setup one = of_clip();
        one.parallelism.zero_stage = zero_stage;
        one.recompute = again;
        if (!validate(one)) continue;
        for (std::int64_t micro = 1; micro * gpus <= batch.high(); ++micro)
          for (std::int64_t many = 1; micro * many * gpus <= batch.high(); ++many)
            if (micro * many * gpus >= batch.low()) look_at(memory_of, one, {micro, gpus, many});
      }
  }

 private:
  void look_at(const transformer_memory_of& memory_of,
               const training_setup& one,
               const batch_plan& here) {
    const bytes needed = memory_of(one).required(here);
    const bool fits = needed <= usable_memory(two_cards.gpu);
    ++(fits ? fitting : too_large);
    if (!fits) return;
    const replayed_time times{
        .setup = one, .on = two_cards, .kernels = kernel_shares_of(two_cards.gpu)};
    const double takes = times.step(here)->value() / static_cast<double>(here.effective_batch());
    if (!(takes < per_sample)) return;
    setup = one;
    plan = here;
    per_sample = takes;
    required = needed;
  }
};

}  // namespace

TEST_CASE("the best plan of several transformers is the best of all steps") {
  const best_of_all expected({34, 36});
  REQUIRE(expected.fitting > 10);
  REQUIRE(expected.too_large > 1);
  const json rows = json_answer(planned, clip_on_two_cards);
  const json& best = rows[0];
  CHECK(best["plan"] == "best");
  CHECK(best["sharding"] == "ddp");
  CHECK(best["micro_batch"] == expected.plan.micro_batch);
  CHECK(best["accumulation"] == expected.plan.accumulation);
  CHECK(best["zero_stage"] == expected.setup.parallelism.zero_stage);
  CHECK(number(best, "memory_GiB") == doctest::Approx(in(expected.required, 1_GiB)));
  CHECK(
      number(best, "step_s") ==
      doctest::Approx(expected.per_sample * static_cast<double>(expected.plan.effective_batch())));
  // Its time is in doubt as that of the stated step is.
  const replayed_time by{
      .setup = expected.setup, .on = two_cards, .kernels = kernel_shares_of(two_cards.gpu)};
  const time_interval interval = *by.interval(expected.plan);
  CHECK(number(best, "step_s_low") == doctest::Approx(interval.low.value()));
  CHECK(number(best, "step_s_high") == doctest::Approx(interval.high.value()));
  CHECK(best["step_s_low_by_host"].is_null());
  // Others are no faster, and fit.
  for (const json& row : rows)
    if (row["plan"] == "2nd" || row["plan"] == "3rd") {
      CHECK(number(row, "slower_pct") >= 0);
      CHECK(row["fits"] == "yes");
    }
  const std::string text = planned(clip_on_two_cards).out;
  CHECK(has(text, "s a step; 80 % of such steps take"));
  CHECK(has(text, "exposed: gradients"));
}

TEST_CASE("what a plan of several transformers says, the stated step says too") {
  const words robots{"gr00t-n1.5-3b", "--gpu", "h100-sxm", "--sequence-length", "512"};
  const json plan = json_answer(
      planned,
      with(robots, {"--gpus", "4", "--batch", "256", "--micro-batch", "32-64", "--plans", "1"}))[0];
  const json step = json_answer([](const words& asked) { return output_of_command("time", asked); },
                                with(robots,
                                     {"--gpus",
                                      "4",
                                      "--zero",
                                      plan["zero_stage"].dump(),
                                      "--recompute",
                                      plan["recompute"].get<std::string>(),
                                      "--micro-batch",
                                      plan["micro_batch"].dump(),
                                      "--accumulation",
                                      plan["accumulation"].dump()}))[0];
  for (const char* same : {"step_s",
                           "step_s_low",
                           "step_s_high",
                           "memory_GiB",
                           "mfu_pct",
                           "tokens_per_s",
                           "forward_s",
                           "gradient_communication_s"})
    CHECK_MESSAGE(number(plan, same) == doctest::Approx(number(step, same)), same);
}

TEST_CASE("each number of GPUs that train several transformers has a row") {
  const json rows = json_answer(counted,
                                {"clip-vit-base-patch32",
                                 "--gpu",
                                 "rtx_4090",
                                 "--gpus",
                                 "4",
                                 "--batch",
                                 "64",
                                 "--samples",
                                 "640000",
                                 "--price",
                                 "0.5"});
  REQUIRE(rows.size() == 3);
  for (const json& row : rows) {
    CHECK(number(row, "hours") == doctest::Approx(10000 * number(row, "step_s") / 3600));
    CHECK(number(row, "usd") == doctest::Approx(0.5 * number(row, "hours") * number(row, "gpus")));
    CHECK(number(row, "hours_low") < number(row, "hours"));
    CHECK(number(row, "hours") < number(row, "hours_high"));
  }
}

TEST_CASE("adapters of several transformers are planned as they are trained") {
  const words asked{"openvla-7b",
                    "--gpu",
                    "a6000",
                    "--gpus",
                    "1",
                    "--sequence-length",
                    "300",
                    "--batch",
                    "4",
                    "--micro-batch",
                    "2-4"};
  const std::string without = refusal_of(asked);
  CHECK(has(without, "no plan fits into the memory of these GPUs"));
  CHECK(has(without, "each of these would do"));
  CHECK(has(without, "--lora 16"));
  const json plan = json_answer(planned, with(asked, {"--lora", "16"}))[0];
  CHECK(plan["fits"] == "yes");
  CHECK(plan["precision"] == "bf16-autocast");
  CHECK(has(planned(with(asked, {"--lora", "16"})).out, "LoRA of rank 16"));
}

TEST_CASE("what nobody replays of several transformers is refused by name") {
  for (const auto& [more, why] : std::vector<std::pair<words, std::string>>{
           {{"--tensor-parallel", "2"}, "tensor_parallel 2"},
           {{"--pipeline-parallel", "2"}, "pipeline_parallel 2"},
           {{"--context-parallel", "2"}, "context_parallel 2"},
           {{"--zero", "3"}, "zero_stage 3"},
           {{"--sharding", "fsdp2"},
            "sharding fsdp2 is not taken beside layers clip, scalar_parameters 1; ddp is"},
           {{"--stragglers", "1.5"}, "--stragglers: MODEL clip-vit-base-patch32 is made of"},
           {{"--expert-parallel", "2"},
            "--expert-parallel 2: clip-vit-base-patch32 has no experts"},
           {{"--expert-tensor-parallel", "2"},
            "--expert-tensor-parallel 2: clip-vit-base-patch32 has no experts, and 1 is taken"},
           {{"--sharding", "deepspeed"},
            "sharding deepspeed is not taken beside layers clip; ddp is"},
           {{"--write", "axolotl"}, "this plan is taken by accelerate, torchrun, slurm"}}) {
    const std::string refusal = refusal_of(with(small_clip, more));
    CHECK_MESSAGE(has(refusal, why), refusal);
  }
  // Where nothing ends in time or for so much money, what would do is said.
  const std::string hurried =
      refusal_of(with(small_clip, {"--samples", "1000000", "--days", "0.01"}));
  CHECK(has(hurried, "no plan ends the run in this time"));
  CHECK(has(hurried, " days"));
}

TEST_CASE("a report of several transformers has all that their steps say") {
  const temporary_file page("", "report.html");
  const outcome o = output_of_command(
      "report",
      with(small_clip,
           {"--samples", "100000", "--price", "0.3", "--plans", "2", "-o", page.name()}));
  INFO(o.err);
  REQUIRE(o.status == 0);
  const std::string html = page.text();
  for (const char* section :
       {"plans", "step", "memory", "stages", "money", "scaling", "request", "assumptions"})
    CHECK_MESSAGE(has(html, "<section id=\"" + std::string(section) + "\">"), section);
  CHECK(!has(html, "id=\"schedule\""));
  for (const char* none : {"nan<", ">inf"}) CHECK_MESSAGE(!has(html, none), none);
  CHECK(has(html, "80 % of such runs take"));
  CHECK(has(html, "the host issues an operator of the forward in"));
  CHECK(has(html, "each comes when the host issues its operator"));
}
