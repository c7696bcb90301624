#include "model/command_line.hpp"

#include <gpuplan/flops.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/training_setup.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "guides/front_end.hpp"
#include "model/description.hpp"
#include "model/render.hpp"
#include "setups/choices.hpp"
#include "setups/model_words.hpp"
#include "setups/options.hpp"

namespace describe_model {
namespace {

using namespace gpuplan;
using guides::bad_request;

constexpr const char* about =
    "Describes a transformer by its shape: where its parameters are, and what its operators take.\n"
    "The shape is what MODEL names, or is given by options, which also change what is named.";
constexpr const char* examples =
    "Examples:\n"
    "  gpuplan model llama-3-8b --sequence-length 8192\n"
    "  gpuplan model folder/config.json --lora 16 --lora-targets q,k,v,o\n"
    "  gpuplan model --num-hidden-layers 12 --hidden-size 768 --intermediate-size 2048\n"
    "                 --num-attention-heads 12 --vocab-size 32000";

// What is asked for, as far as the command line says it.
struct arguments {
  setups::arguments what{};  // the model and what trains
  training_pass pass{};
  bool has_length = false;
  parallelism layout{};
};

// Whether it fits the model is for `validate`.
CLI::Validator dimension() { return guides::whole_number(0, detail::most_of_a_dimension); }

void add_training(CLI::App& app, arguments& to) {
  const char* group = "Training";
  const auto count = [&](const char* name, std::int64_t& value, const char* what) {
    return app.add_option(name, value, what)->transform(dimension())->group(group)->type_name("N");
  };
  app.add_option_function<std::int64_t>(
         "--sequence-length",
         [&to](std::int64_t value) {
           to.pass.sequence_length = value;
           to.has_length = true;
         },
         "Tokens of a sequence")
      ->transform(dimension())
      ->group(group)
      ->type_name("N");
  count("--decoder-sequence-length",
        to.pass.decoder_sequence_length,
        "Those of a decoder behind an encoder, if others");
  setups::add_trained_options(app, to.what);
  setups::add_choice<recompute_mode>(
      app,
      "--recompute",
      "What is computed again in the backward pass (default: none)",
      {{"none", recompute_mode::none},
       {"selective", recompute_mode::selective},
       {"full", recompute_mode::full}},
      [&to](const recompute_mode& mode) { to.pass.recompute = mode; })
      ->group(group);
  setups::add_choice<attention_pairs>(
      app,
      "--attention-flops",
      "Which pairs of tokens count, by operator (default: full)",
      {{"full", attention_pairs::full},
       {"causal-half", attention_pairs::causal_half},
       {"visible", attention_pairs::visible}},
      [&to](const attention_pairs& pairs) { to.pass.pairs = pairs; })
      ->group(group);
  count("--tensor-parallel", to.layout.tensor_parallel, "Ranks that share each layer");
  count("--pipeline-parallel", to.layout.pipeline_parallel, "Stages that share the layers");
  count("--expert-parallel", to.layout.expert_parallel, "Ranks that share routed experts");
  count("--expert-tensor-parallel",
        to.layout.expert_tensor_parallel,
        "Parts of each routed expert that is shared so (default: 1)");
}

// ---- from the command line to a request

void take_model(const setups::model_words& given, request& to) {
  const setups::named_model model = setups::model_named(given);
  to.name = model.name;
  to.shape = model.shape;
  to.parts = model.parts;
  to.remarks = model.remarks;
  to.published_parameters = model.published.published_parameters;
  to.published_extra = model.published.published_extra;
  to.published_note = model.published.note;
  to.published_source = model.published.source;
}

template <class T>
void check(const result<T>& valid) {
  if (!valid) throw bad_request(valid.why());
}

void take_training(const arguments& given, request& to) {
  to.pass = given.pass;
  training_setup trained = given.what.setup;
  setups::choose_trained(given.what, trained);
  to.pass.trains = trained.trains;
  const bool is_vision = to.parts == nullptr && to.shape.kind == model_kind::vision;
  if (given.has_length && is_vision)
    throw bad_request("--sequence-length " + std::to_string(to.pass.sequence_length) + ": " +
                      to.name + " reads images, of " + std::to_string(to.shape.image.tokens()) +
                      " tokens");
  if (to.pass.decoder_sequence_length != 0 &&
      (to.parts != nullptr || to.shape.kind != model_kind::encoder_decoder))
    throw bad_request("--decoder-sequence-length " +
                      std::to_string(to.pass.decoder_sequence_length) + ": " + to.name +
                      " has no decoder behind an encoder");
  if (!given.has_length)
    to.pass.sequence_length = to.parts != nullptr
                                  ? std::min<std::int64_t>(512, usual_sequence_length(to.shape))
                                  : usual_sequence_length(to.shape);
}

void check_parts(const arguments& given, const request& asked) {
  if (asked.pass.trains.what != training::full)
    throw bad_request("what trains of " + asked.name +
                      " belongs to its description; --train, --last-layers, --lora, --qlora and "
                      "--dora are for models of one part");
  if (!(given.layout == parallelism{}))
    throw bad_request(
        "--tensor-parallel, --pipeline-parallel and --expert-parallel divide models "
        "of one part, not " +
        asked.name);
  check(validate(*asked.parts));
  for (int i = 0; i < asked.parts->size(); ++i) {
    training_pass pass = asked.pass;
    pass.sequence_length = tokens_of(asked.parts->parts[i], asked.pass.sequence_length);
    check(validate(pass, asked.parts->parts[i].model));
  }
}

void check_division(const request& asked) {
  check(validate(asked.layout));
  struct degree {
    const char* option;
    std::int64_t value;
    std::int64_t most;
    const char* of;
  };
  for (const degree& one :
       {degree{"--tensor-parallel",
               asked.layout.tensor_parallel,
               asked.shape.num_attention_heads,
               "attention heads"},
        degree{
            "--pipeline-parallel", asked.layout.pipeline_parallel, asked.shape.layers(), "layers"},
        degree{"--expert-parallel",
               asked.layout.expert_parallel,
               asked.shape.moe.num_experts,
               "experts"},
        degree{"--expert-tensor-parallel",
               asked.layout.expert_tensor_parallel,
               asked.shape.moe.moe_intermediate_size,
               "columns of an expert"}})
    if (one.value != 1 && one.value > one.most)
      throw bad_request(std::string(one.option) + " " + std::to_string(one.value) +
                        ": the model has " + std::to_string(one.most) + " " + one.of);
  if (asked.layout.expert_tensor_parallel > 1 && asked.layout.expert_parallel == 1 &&
      asked.layout.expert_tensor_parallel != asked.layout.tensor_parallel)
    throw bad_request("--expert-tensor-parallel " +
                      std::to_string(asked.layout.expert_tensor_parallel) +
                      ": experts that no ranks share are in as many parts as other weights, " +
                      std::to_string(asked.layout.tensor_parallel));
}

std::string answer(const arguments& given, const guides::output& as) {
  request asked;
  take_model(given.what.model, asked);
  take_training(given, asked);
  asked.layout = given.layout;
  if (asked.parts != nullptr) {
    check_parts(given, asked);
  } else {
    if (asked.shape.stages.size() == 0 || !(given.layout == parallelism{}))
      check(validate(asked.pass, asked.shape));
    check_division(asked);
  }
  return render(describe(asked), as);
}

}  // namespace

guides::program command() {
  const auto given = std::make_shared<arguments>();
  return {.name = "gpuplan model",
          .about = about,
          .examples = examples,
          .add =
              [=](CLI::App& app) {
                setups::add_model_argument(app, given->what.model, setups::shape_help::shown);
                add_training(app, *given);
              },
          .make = [=](const guides::output& as) { return answer(*given, as); }};
}

}  // namespace describe_model
