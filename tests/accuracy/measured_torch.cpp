// What measure_torch.py wrote: kept rows of memory, and rows of times as it would write them.

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "check.hpp"
#include "compare.hpp"
#include "csv.hpp"
#include "files.hpp"

using namespace accuracy;

namespace {

std::vector<comparison> compare_file(const std::string& path) {
  return compare({read_csv(path)}).at(0).comparisons;
}
std::vector<comparison> compare_text(const std::string& text) {
  return compare_file(short_file(text).path());
}

std::size_t count_exact(const std::vector<comparison>& all, quantity what) {
  std::size_t count = 0;
  for (const comparison& one : all) {
    if (one.what != what) continue;
    CAPTURE(one.id);
    CAPTURE(one.predicted.why_not);
    REQUIRE(one.predicted.value);
    CHECK(one.predicted.value->value() == one.measured.value());
    ++count;
  }
  return count;
}

const comparison& find(const std::vector<comparison>& all, quantity what) {
  const auto found = std::find_if(
      all.begin(), all.end(), [what](const comparison& one) { return one.what == what; });
  REQUIRE(found != all.end());
  return *found;
}

// The header of the kept steps and the first row, some of whose cells are replaced.
std::string first_step_with(const std::vector<std::pair<std::string, std::string>>& cells) {
  csv_file file = read_csv(data("measured_steps.csv"));
  for (const auto& [column, cell] : cells) file.rows[0].cells[file.places.at(column)] = cell;
  std::string text;
  for (const auto* line : {&file.columns, &file.rows[0].cells}) {
    for (const std::string& cell : *line) text += (cell == line->front() ? "" : ",") + cell;
    text += '\n';
  }
  return text;
}

constexpr const char* h100 = "NVIDIA H100 80GB HBM3";
constexpr const char* layer_columns =
    "id,code,hidden,heads,kv_heads,head_dim,ffn,gated_mlp,activation,linear_bias,norm,seq_len,"
    "micro_batch,precision,attention,dropout,fits,forward_s,forward_q1_s,forward_q3_s,backward_s,"
    "backward_q1_s,backward_q3_s,samples,gpu\n";
std::string llama_layer(const std::string& gpu) {
  return std::string(layer_columns) +
         "l,plain_llama,4096,32,8,128,14336,1,silu,0,rmsnorm,2048,4,bf16,flash,0.0,1,"
         "0.02,0.02,0.02,0.04,0.04,0.04,64," +
         gpu + '\n';
}

}  // namespace

TEST_CASE("steps that measure_torch.py measured, to the byte") {
  const auto all = compare_file(data("measured_steps.csv"));
  for (const quantity what :
       {quantity::peak_requested, quantity::peak_allocated, quantity::peak_reserved})
    CHECK(count_exact(all, what) == 23);
  for (const quantity what : {quantity::flops_forward, quantity::flops_total})
    CHECK(count_exact(all, what) == 23);
  for (const quantity what : {quantity::parameters, quantity::trainable_parameters})
    CHECK(count_exact(all, what) == 27);
  CHECK(count_exact(all, quantity::fits) == 27);
  CHECK(std::count_if(all.begin(), all.end(), [](const comparison& one) {
          return one.what == quantity::fits && one.measured.value() == 0;
        }) == 4);
}

TEST_CASE("steps of models that a configuration describes, to the byte") {
  const auto all_are_exact = [](const char* file, int rows) {
    const auto all = compare_file(data(file));
    for (const quantity what : {quantity::parameters,
                                quantity::trainable_parameters,
                                quantity::flops_total,
                                quantity::peak_requested,
                                quantity::peak_allocated})
      CHECK(count_exact(all, what) == rows);
  };
  all_are_exact("configured_images.csv", 61);
  all_are_exact("configured_composites.csv", 96);
  all_are_exact("sharded_composites.csv", 43);
}

TEST_CASE("steps of small models of random shapes, to the byte") {
  const auto all = compare_file(data("random_families.csv"));
  for (const quantity what :
       {quantity::parameters, quantity::peak_requested, quantity::peak_allocated})
    CHECK(count_exact(all, what) == 106);
}

TEST_CASE("steps of classes with adapters, shared by fully_shard or both, to the byte") {
  const auto all = compare_file(data("sharded_families.csv"));
  for (const quantity what : {quantity::parameters,
                              quantity::trainable_parameters,
                              quantity::peak_requested,
                              quantity::peak_allocated})
    CHECK(count_exact(all, what) == 61);
}

TEST_CASE("what steps ask of a device, to the last kernel and byte") {
  const auto all = compare_file(data("launched_steps.csv"));
  for (const quantity_text& of : quantities)
    if (of.what >= quantity::launches_forward) CHECK(count_exact(all, of.what) == 65);
}

TEST_CASE("what classes of transformers ask of a device, likewise") {
  const auto all = compare_file(data("launched_families.csv"));
  for (const quantity_text& of : quantities)
    if (of.what >= quantity::launches_forward && !std::string_view(of.name).starts_with("bytes"))
      CHECK(count_exact(all, of.what) == 11);
  for (const comparison& one : all)
    if (one.what >= quantity::launches_forward) CHECK(std::abs(one.error()) < 0.01);  // %
}

// Caches of keys are off, which a configuration has on unless it says otherwise.
TEST_CASE("what several models in one step ask of a device") {
  const auto all = compare_file(data("launched_composites.csv"));
  for (const quantity_text& of : quantities)
    if (of.what >= quantity::launches_optimizer && of.what <= quantity::bytes_optimizer)
      CHECK(count_exact(all, of.what) == 50);
  CHECK(count_exact(all, quantity::products_forward) == 50);
  for (const comparison& one : all) {
    const std::string_view what = text_of(one.what).name;
    // SigLIP's one query attends by other products backward.
    if (what.starts_with("product") && !one.id.starts_with("siglip")) CHECK(one.error() == 0);
    CAPTURE(one.id);
    CAPTURE(what);
    if (what.starts_with("launches")) CHECK(std::abs(one.error()) < 3);  // %
    if (what.starts_with("operators")) CHECK(std::abs(one.error()) < 1);
    if (what.starts_with("bytes")) CHECK(std::abs(one.error()) < 1);
    if (what.starts_with("product")) CHECK(std::abs(one.error()) < 2);
  }
}

// Kernels timed one by one, none of which gave more to the library than the share of its kind.
TEST_CASE("single kernels on two devices") {
  for (const char* file : {"h100_sxm5_80gb_kernels.csv", "h200_sxm_kernels.csv"}) {
    CAPTURE(file);
    const csv_file kernels = read_csv(std::string(GPUPLAN_RESULTS) + file);
    const auto all = compare({kernels}).at(0).comparisons;
    constexpr const char* formats[] = {"bf16", "fp16", "fp8", "tf32"};
    double products[4] = {}, attention = 0;
    int large[4] = {}, passes = 0;
    std::size_t at = 0;
    for (const comparison& one : all) {
      if (one.what != quantity::kernel_time || !one.predicted.value) continue;
      while (row(kernels, kernels.rows[at]).text("id") != one.id) ++at;
      const row source(kernels, kernels.rows[at]);
      const double error = std::abs(one.error());
      if (source.text("kind") == "product" && *source.number("flops") > 3e10)
        for (int format = 0; format < 4; ++format)
          if (source.text("format") == formats[format]) products[format] += error, ++large[format];
      if (source.text("kind") == "attention" && source.text("format") == "bf16")
        attention += error, ++passes;
    }
    CHECK(large[0] > 500);
    for (int format = 0; format < 4; ++format) {
      CAPTURE(formats[format]);
      CHECK(large[format] > 150);
      CHECK(products[format] / large[format] < 9);  // %
    }
    CHECK(passes == 132);
    CHECK(attention / passes < 10);
  }
}

TEST_CASE("steps of transformers on two devices") {
  for (const char* file : {"h100_sxm5_80gb_families.csv", "h200_sxm_families.csv"}) {
    CAPTURE(file);
    const auto all = compare_file(std::string(GPUPLAN_RESULTS) + file);
    int exact = 0, others = 0;
    for (const comparison& one : all) {
      if (one.what != quantity::peak_requested) continue;
      CAPTURE(one.id);
      REQUIRE(one.predicted.value);
      const bool same = one.predicted.value->value() == one.measured.value();
      ++(same ? exact : others);
      CHECK((same || one.id.starts_with("t5-base")));  // whose code is a later one's
    }
    CHECK(exact >= 46);
    CHECK(others == 2);
  }
}

TEST_CASE("steps with Liger's kernels on an H200") {
  const auto all = compare_file(std::string(GPUPLAN_RESULTS) + "h200_sxm_liger.csv");
  CHECK(count_exact(all, quantity::peak_requested) == 12);
  for (const comparison& one : all)
    if (one.what == quantity::peak_allocated) CHECK(std::abs(one.error()) < 0.03);
}

// Workspaces of cuBLAS live on there, unlike those of the rows above.
TEST_CASE("steps on an H100 with PyTorch 2.11, to the byte") {
  const auto all = compare_file(data("measured_on_h100.csv"));
  for (const quantity what :
       {quantity::peak_requested, quantity::peak_allocated, quantity::peak_reserved})
    CHECK(count_exact(all, what) == 12);
  for (const quantity what : {quantity::flops_forward, quantity::flops_total})
    CHECK(count_exact(all, what) == 12);
  CHECK(count_exact(all, quantity::fits) == 14);
  // Published steps say nothing of these frameworks: these do.
  for (const comparison& one : all)
    if (one.what == quantity::step_time && one.id.find("fp32") == std::string::npos)
      CHECK((one.error() > -50 && one.error() < 50));
}

TEST_CASE("the same steps in the columns of runs") {
  const auto all = compare_file(data("measured_runs.csv"));
  CHECK(count_exact(all, quantity::parameters) == 21);
  CHECK(count_exact(all, quantity::peak_allocated) == 18);
  CHECK(count_exact(all, quantity::peak_reserved) == 18);
  CHECK(count_exact(all, quantity::fits) == 21);
}

TEST_CASE("a step is replayed on the device that its row names") {
  const auto on_less = compare_text(first_step_with({{"usable_bytes", "3000000000"}}));
  CHECK(find(on_less, quantity::fits).predicted.value->value() == 0);
  const auto barely = compare_text(first_step_with({{"usable_bytes", "3900000000"}}));
  const comparison& fits = find(barely, quantity::fits);
  CHECK(fits.predicted.value->value() == 1);
  CHECK(!fits.by_a_margin);
  const auto another = compare_text(first_step_with({{"workspace_bytes", "8519680"}}));
  CHECK(find(another, quantity::peak_reserved).error() < 0);
}

TEST_CASE("the time of a step, beside the roofline") {
  const auto untimed = compare_file(data("measured_steps.csv"));
  CHECK(std::none_of(untimed.begin(), untimed.end(), [](const comparison& one) {
    return one.what == quantity::step_time;
  }));
  const auto timed = compare_text(first_step_with({{"step_s", "0.25"}, {"gpu", h100}}));
  const comparison& step = find(timed, quantity::step_time);
  REQUIRE(step.predicted.value);
  CHECK(step.measured.value() == 0.25);
  // No device multiplies faster than its peak, and no step is nothing but launches.
  const double peak = 989.4e12;
  const double flops = find(timed, quantity::flops_total).measured.value();
  CHECK(step.predicted.value->value() > flops / peak);
  CHECK(step.predicted.value->value() < 20 * flops / peak);
  const auto elsewhere = compare_text(first_step_with({{"step_s", "0.25"}}));
  CHECK(find(elsewhere, quantity::step_time).predicted.why_not.starts_with("the catalogue has no"));
}

TEST_CASE("the time of a layer, beside the roofline") {
  const auto all = compare_text(llama_layer(h100));
  const comparison& forward = find(all, quantity::layer_forward);
  const comparison& backward = find(all, quantity::layer_backward);
  REQUIRE((forward.predicted.value && backward.predicted.value));
  CHECK((forward.measured.value() == 0.02 && backward.measured.value() == 0.04));
  // 8,192 tokens times the layer's linear weights, and half of the scores.
  const double weights = 4096.0 * (2 * 4096 + 2 * 1024 + 3 * 14336);
  const double flops = 2 * 8192 * weights + 2 * 8192.0 * 2048 * 4096;
  CHECK(forward.predicted.value->value() > flops / 989.4e12);
  CHECK(forward.predicted.value->value() < 3 * flops / 989.4e12);
  CHECK(backward.predicted.value->value() > 2 * flops / 989.4e12);
  const auto unknown = compare_text(llama_layer("null device"));
  CHECK(!find(unknown, quantity::layer_forward).predicted.value);
}

TEST_CASE("the time of a product, beside the roofline") {
  const std::string columns =
      "id,m,n,k,precision,fits,matmul_s,matmul_q1_s,matmul_q3_s,tflops,samples,gpu\n";
  const std::string shape = ",8192,8192,8192,";
  const auto all =
      compare_text(columns + "p" + shape + "bf16,1,0.0015,0.0015,0.0016,733,64," + h100 + "\nq" +
                   shape + "fp32,1,0.0015,0.0015,0.0016,733,64," + h100 + '\n');
  REQUIRE(all.size() == 2);
  CHECK(all[0].what == quantity::matmul_time);
  CHECK(all[0].predicted.value->value() > 2 * 8192.0 * 8192 * 8192 / 989.4e12);
  CHECK(all[0].predicted.value->value() < 2 * 2 * 8192.0 * 8192 * 8192 / 989.4e12);
  CHECK(all[1].predicted.why_not == "products in fp32 are not timed");
}
