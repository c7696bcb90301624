// Every model of the catalogue with every framework, in several divisions, formats and ways to
// recompute, on several devices: memory and time, or a refusal; never an abort, never a number that
// is none. One product of 97 on every change, all of them with GPUPLAN_EFFORT=10.

#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/implementations.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/memory/explanation.hpp>
#include <gpuplan/memory/layouts.hpp>
#include <gpuplan/planner.hpp>
#include <gpuplan/replay/counts.hpp>
#include <gpuplan/time/roofline.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <string>

#include "asked_doors.hpp"

using namespace gpuplan;

namespace {

struct division {
  const char* name;
  parallelism layout;
  batch_plan plan;
};
const division divisions[] = {
    {"one GPU", {}, {.micro_batch = 2, .accumulation = 2}},
    {"8 copies", {}, {.micro_batch = 1, .data_parallel = 8}},
    {"ZeRO-1", {.zero_stage = 1}, {.micro_batch = 1, .data_parallel = 8}},
    {"ZeRO-3", {.zero_stage = 3}, {.micro_batch = 1, .data_parallel = 8}},
    {"tensor 2", {.tensor_parallel = 2}, {.micro_batch = 1, .data_parallel = 4}},
    {"tensor 2, 2 stages, experts 2",
     {.tensor_parallel = 2,
      .pipeline_parallel = 2,
      .expert_parallel = 2,
      .sequence_parallel = true,
      .zero_stage = 1},
     {.micro_batch = 1, .data_parallel = 2, .accumulation = 4}},
    {"context 2", {.context_parallel = 2}, {.micro_batch = 1, .data_parallel = 4}},
};
const precision_recipe recipes[] = {fp32_precision, bf16_mixed, bf16_master, bf16_megatron};
const gpu_spec gpus[] = {catalog::a100_sxm4_80gb, catalog::h100_sxm5_80gb, catalog::rtx_4090};

struct tally {
  std::int64_t products = 0;
  std::int64_t with_memory = 0;
  std::int64_t with_time = 0;
  std::int64_t refused = 0;
  double longest = 0;
  std::string slowest;
};

// The part whose tokens count: the first that is no tower of images.
const transformer& main_part_of(const composite_model& model) {
  for (int at = 0; at < model.size(); ++at)
    if (model.parts[at].model.kind != model_kind::vision) return model.parts[at].model;
  return model.parts[0].model;
}

bool is_number(double value) { return std::isfinite(value) && value > 0; }

// What commands fits, memory, time and model ask of a setup.
std::string complaint_about(const training_setup& setup, const division& by, tally& found) {
  const fullest_stage_memory memory{{.setup = setup}};
  auto valid = validate(memory);
  const auto valid_plan = validate(memory, by.plan);
  bool answers = false;
  if (valid && valid_plan) {
    if (!is_number(memory.required(by.plan).value())) return "memory is no number";
    if (const auto counts = counts_of(setup, by.plan); counts && counts->parameters < 1)
      return "code has no parameters";
    ++found.with_memory;
    answers = true;
  } else if (valid_plan && !valid) {
    return "a plan is taken of a setup that is refused";
  } else if (std::string(failure_text(valid ? valid_plan.why() : valid.why()).c_str()).empty()) {
    return "refuses without a sentence";
  }
  for (const gpu_spec& gpu : gpus) {
    const roofline_time time{
        .setup = setup,
        .on = {.gpu = gpu, .gpus_per_node = 8, .inside_node = 100_GBps, .between_nodes = 50_GBps},
        .efficiency = catalog::efficiency_of(gpu)};
    const auto valid_time = validate(time);
    if (!valid_time || !validate(time, by.plan)) continue;
    const step_breakdown parts = time.breakdown(by.plan);
    if (!is_number(parts.total().value()) || !fields::is_sound(parts)) return "time is no number";
    ++found.with_time;
    answers = true;
  }
  if (!answers) ++found.refused;
  return {};
}

}  // namespace

TEST_CASE("every model by every framework has a memory and a time, or is refused") {
  const std::int64_t share = std::max<std::int64_t>(97 / (doors_effort() * doors_effort()), 1);
  tally of_division[std::size(divisions)];
  std::int64_t at = 0;
  for (const catalog::published_model& model : catalog::models) {
    if (!model.has_shape && !model.has_parts) continue;
    for (const framework* software : catalog::all_frameworks)
      for (const division& by : divisions)
        for (const precision_recipe& recipe : recipes)
          for (const recompute_mode recompute : {recompute_mode::none, recompute_mode::full}) {
            if (++at % share != 0) continue;
            training_setup setup{
                .model = model.has_shape ? *model.shape : main_part_of(*model.parts),
                .composite = model.has_parts ? model.parts : nullptr,
                .sequence_length = 512,
                .precision = recipe,
                .parallelism = by.layout,
                .recompute = recompute,
                .framework = *software};
            const auto start = std::chrono::steady_clock::now();
            tally& found = of_division[&by - divisions];
            const std::string complaint = complaint_about(setup, by, found);
            const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
            const std::string name = std::string(model.id) + ", " + software->name + ", " + by.name;
            if (took.count() > found.longest) {
              found.longest = took.count();
              found.slowest = name;
            }
            ++found.products;
            CHECK_MESSAGE(complaint.empty(), name << ": " << complaint);
          }
  }
  std::printf(
      "| division | products | have a memory | times on 3 devices | have neither |\n"
      "|---|---|---|---|---|\n");
  for (std::size_t which = 0; which < std::size(divisions); ++which) {
    const tally& found = of_division[which];
    CHECK(found.with_memory > 0);
    CHECK(found.with_time > 0);
    std::printf("| %s | %lld | %lld | %lld | %lld |\n",
                divisions[which].name,
                static_cast<long long>(found.products),
                static_cast<long long>(found.with_memory),
                static_cast<long long>(found.with_time),
                static_cast<long long>(found.refused));
    MESSAGE("the slowest took " << found.longest << " s: " << found.slowest);
  }
}
