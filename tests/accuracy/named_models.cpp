// Names of the catalogue, and the published configurations that they stand for.

#include <gpuplan/catalog/implementations.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/io/hugging_face_config.hpp>
#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>
#include <string>

#include "check.hpp"
#include "csv.hpp"
#include "files.hpp"

using namespace gpuplan;

namespace {

// A step that tells a model's shapes from others.
training_setup step_of(const transformer& model,
                       const composite_model* parts,
                       const framework& software) {
  training_setup setup{.model = model,
                       .composite = parts,
                       .sequence_length = 512,
                       .precision = bf16_mixed,
                       .framework = software};
  if (parts != nullptr && parts->parts[0].model.image.image_size != 0)
    setup.sequence_length += parts->parts[0].model.image.patches();
  if (model.position_rows != 0 && model.position_rows < setup.sequence_length)
    setup.sequence_length = model.position_rows;
  if (model.audio.num_mel_bins != 0) {
    setup.sequence_length = model.position_rows;
    setup.target_length = 100;
  }
  if (model.audio.convolutions() != 0) {
    setup.sequence_length = 16'000;
    setup.target_length = 20;
  }
  if (model.kind == model_kind::vision) {
    setup.sequence_length = 0;
    if (model.head == head_kind::none) {
      setup.model.head = head_kind::classifier;
      setup.model.num_classes = 1000;
    }
  }
  if (parts == nullptr && model.kind == model_kind::encoder && model.head == head_kind::none)
    setup.encodings = 2;
  return setup;
}

}  // namespace

TEST_CASE("a name of the catalogue is the model of its configuration, in parameters and bytes") {
  const accuracy::csv_file file = accuracy::read_csv(data("named_models.csv"));
  const batch_plan plan{.micro_batch = 2};
  int trained = 0;
  for (const auto& line : file.rows) {
    const accuracy::row source(file, line);
    const std::string id(source.text("id"));
    CAPTURE(id);
    const auto read = io::read_hugging_face_config(source.text("config_file"));
    CAPTURE(read.reason);
    REQUIRE(read.shape);
    CHECK(read.unknown_keys.empty());
    const auto named = catalog::find_model(id);
    REQUIRE(named);
    CHECK(named->id == id);
    CHECK(named->has_parts == (read.composite.size() != 0));
    const auto counted = source.integer_or("params_total", 0);
    const auto by_name = catalog::implementation_of(id);
    const auto by_type = catalog::implementation_of(read.model_type);
    REQUIRE(by_name);
    REQUIRE(by_type);
    CHECK(std::string(by_name->framework.name) == by_type->framework.name);

    const auto parts = named->has_parts ? catalog::as_trained(*named->parts)
                                        : result<composite_model>(composite_model());
    REQUIRE(parts);
    if (named->has_parts) {
      CHECK(parameters(read.composite).total() == counted);
      CHECK(parameters(*parts) == parameters(read.composite));
    } else {
      CHECK(parameters(*read.shape).total() == counted);
      CHECK(parameters(*named->shape) == parameters(*read.shape));
    }
    const composite_model* const of_name = named->has_parts ? &*parts : nullptr;
    const composite_model* const of_file = named->has_parts ? &read.composite : nullptr;
    const transformer& language = named->has_parts ? parts->parts[1].model : *named->shape;
    const training_setup step = step_of(language, of_name, by_name->framework);
    REQUIRE(validate(step, plan));
    const training_setup same = step_of(*read.shape, of_file, by_type->framework);
    REQUIRE(validate(same, plan));
    CHECK(peaks_of(step, plan).peak().total == peaks_of(same, plan).peak().total);
    ++trained;
  }
  CHECK(trained == 92);
}
