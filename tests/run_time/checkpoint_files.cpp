// Sizes of real checkpoints: what benchmarks/accuracy/measure_checkpoints.py saved, against what
// the replay says that weights and optimizer hold, of one device and of each rank.

#include <gpuplan/catalog/framework_parts.hpp>
#include <gpuplan/catalog/implementations.hpp>
#include <gpuplan/checkpoint.hpp>
#include <gpuplan/io/hugging_face_config.hpp>
#include <gpuplan/memory/transformer.hpp>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "check.hpp"

using namespace gpuplan;
using nlohmann::json;

namespace {

std::vector<json> rows() {
  std::ifstream file(GPUPLAN_CHECKPOINT_FILES);
  std::vector<json> all;
  for (std::string line; std::getline(file, line);) all.push_back(json::parse(line));
  REQUIRE(all.size() >= 20);
  return all;
}

training_setup setup_of(const json& row) {
  const auto read = io::read_hugging_face_config(row["config"].dump());
  REQUIRE_MESSAGE(read.shape, read.reason);
  const bool is_narrow = row["dtype"] == "bf16";
  return {.model = *read.shape,
          .sequence_length = 16,
          .precision = is_narrow ? bf16_pure : fp32_precision,
          .optimizer = {.kind = row["optimizer"] == "adamw" ? optimizer_kind::adamw
                                                            : optimizer_kind::sgd_momentum},
          .framework = catalog::implementation_of(read.architecture)->framework};
}

struct states {
  double weights = 0;
  double optimizer = 0;
};
states states_of(const training_setup& setup, std::int64_t ranks) {
  const transformer_memory memory{setup, 0};
  const batch_plan plan{.data_parallel = ranks};
  REQUIRE(validate(memory));
  REQUIRE(validate(memory, plan));
  const memory_breakdown parts = memory.breakdown(plan);
  return {parts.weights.value(), parts.optimizer_states.value()};
}

double size_of(double data, std::int64_t tensors, checkpoint_format format) {
  return file_size(bytes::from_value(data), tensors, format)->value();
}

// An optimizer counts the steps of each parameter, in fp32 on the host.
std::int64_t counts_of(const json& row) {
  return row["optimizer"] == "adamw" ? row["parameter_tensors"].get<std::int64_t>() : 0;
}
double bytes_of_counts(const json& row) { return 4 * static_cast<double>(counts_of(row)); }

}  // namespace

TEST_CASE("files of weights and of an optimizer") {
  for (const json& row : rows()) {
    INFO(row.dump());
    const states held = states_of(setup_of(row), 1);
    const double weights = size_of(held.weights,
                                   row["safetensors_tensors"].get<std::int64_t>(),
                                   checkpoint_format::safetensors);
    CHECK(weights == doctest::Approx(row["safetensors_bytes"].get<double>()).epsilon(1e-3));
    const double optimizer = size_of(held.optimizer + bytes_of_counts(row),
                                     row["optimizer_tensors"].get<std::int64_t>(),
                                     checkpoint_format::torch_save);
    CHECK(optimizer == doctest::Approx(row["optimizer_bytes"].get<double>()).epsilon(1e-3));
  }
}

TEST_CASE("folders of a distributed checkpoint, and the fullest rank's file in it") {
  for (const json& row : rows()) {
    INFO(row.dump());
    training_setup setup = setup_of(row);
    const auto ranks = row["ranks"].get<std::int64_t>();
    const states whole = states_of(setup, 1);
    // Embeddings that the head shares are written under both names.
    const double width = row["dtype"] == "bf16" ? 2 : 4;
    const double again = setup.model.has_tied_head()
                             ? width * static_cast<double>(setup.model.vocab_size) *
                                   static_cast<double>(setup.model.hidden_size)
                             : 0;
    double folder = row["metadata_bytes"].get<double>();
    double fullest = 0;
    for (const json& file : row["rank_bytes"]) {
      folder += file.get<double>();
      fullest = std::max(fullest, file.get<double>());
    }
    // Every rank writes its part of each tensor; counts are none's alone, and written once.
    const std::int64_t divided = row["together_tensors"].get<std::int64_t>() - counts_of(row);
    const double all = size_of(whole.weights + whole.optimizer + again + bytes_of_counts(row),
                               divided * ranks + counts_of(row),
                               checkpoint_format::distributed);
    // Of two models with less than 3 million parameters, headers are a tenth of a rank's file.
    const double off = row["parameters"].get<std::int64_t>() < 3'000'000 ? 6e-3 : 1e-3;
    CHECK(all == doctest::Approx(folder).epsilon(off));
    if (ranks == 1) continue;
    // What a rank's optimizer holds are its parts of the weights, once or twice.
    setup.parallelism.zero_stage = 3;
    setup.framework.engine = catalog::engines::fsdp2;
    const double copies = row["optimizer"] == "adamw" ? 2 : 1;
    const double part = states_of(setup, ranks).optimizer;
    const double of_rank = size_of(part + part / copies + again / static_cast<double>(ranks),
                                   divided,
                                   checkpoint_format::distributed);
    CHECK(of_rank == doctest::Approx(fullest).epsilon(off));
  }
}
