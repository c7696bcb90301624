// Steps of Hugging Face's state spaces, held to the byte, and what is not taken of them.

#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/time/roofline.hpp>

#include <string>

#include "check.hpp"
#include "configured_step.hpp"

using namespace gpuplan;

namespace {
#include "replayed_state_spaces_rows.inc"

training_setup setup_of(const configured::measured_step& step) {
  training_setup setup = step.with;
  setup.model = *io::read_hugging_face_config(step.config).shape;
  setup.framework = catalog::hugging_face_mamba_2;
  return setup;
}
failure why(const training_setup& setup) { return validate(setup).why(); }
}  // namespace

TEST_CASE("steps of state spaces take what PyTorch reports") {
  for (const configured::measured_step& step : steps) {
    configured::check(step);
    const training_setup setup = setup_of(step);
    CHECK(trainable_parameters(setup.model, setup.trains) == step.trainable);
  }
}

TEST_CASE("of state spaces only what was written down is taken") {
  const training_setup taken = setup_of(steps[0]);
  CHECK(validate(taken));
  training_setup setup = taken;
  setup.trains = {.what = training::last_layers, .last_layers = 1};
  CHECK(!validate(setup));
  // PEFT 0.21 refuses out_proj, and so all-linear; in_proj it takes.
  setup = taken;
  setup.precision = bf16_under_autocast;
  setup.trains = {.what = training::adapters, .adapters = {.rank = 8, .targets = all_linear}};
  CHECK(why(setup).at_fault() == fact::adapter_mixer_out);
  setup.trains.adapters.targets = {.mixer_in = true};
  CHECK(validate(setup));
  setup = taken;
  setup.model.mamba.n_groups = setup.model.mamba.num_heads + 1;
  CHECK(why(setup).at_fault() == fact::mamba_groups);
  setup = taken;
  setup.model.mamba.chunk_size = 1;
  CHECK(why(setup).at_fault() == fact::chunk_size);
  setup = taken;
  setup.model.hybrid_pattern = {};
  setup.model.intermediate_size = 64;
  CHECK(why(setup).at_fault() == fact::mamba_layers);
  setup = taken;
  setup.framework = catalog::megatron_bridge;
  setup.model.mamba.residual_in_fp32 = true;
  CHECK(why(setup).at_fault() == fact::residual_in_fp32);
  setup.framework = catalog::hugging_face_llama;
  CHECK(why(setup).at_fault() == fact::hybrid_pattern);
}

TEST_CASE("the time of state spaces of operators is not known") {
  const roofline_time time{.setup = setup_of(steps[0]),
                           .on = {.gpu = catalog::h100_sxm5_80gb, .nodes = 1, .gpus_per_node = 1}};
  CHECK(validate(time).why().code == errc::not_known);
  CHECK(validate(time).why().at_fault() == fact::step_time);
}

TEST_CASE("a configuration of Mamba-2 whose widths do not fit is not read") {
  const auto read = [](const std::string& sizes) {
    return io::read_hugging_face_config(R"({"model_type":"mamba2","num_hidden_layers":2,)" + sizes +
                                        R"("vocab_size":100})");
  };
  CHECK(read(R"("hidden_size":64,"num_heads":4,"head_dim":32,)").shape);
  CHECK(!read(R"("hidden_size":64,"num_heads":4,"head_dim":16,)").shape);
  CHECK(!read(R"("hidden_size":64,"num_heads":4,"head_dim":32,"num_hidden_layers":2000,)").shape);
}
