#include "setups/model_words.hpp"

#include <gpuplan/catalog/implementations.hpp>
#include <gpuplan/catalog/model_names.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/detail/checks.hpp>
#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/hugging_face_config.hpp>
#include <gpuplan/io/json_value.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/result.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "guides/front_end.hpp"
#include "model/render.hpp"
#include "setups/choices.hpp"

namespace setups {
namespace {

using namespace gpuplan;
using guides::bad_request;
using edit = std::function<void(transformer&)>;

// ---- the shape, option by option

struct integer_option {
  const char* names;
  const char* about;
  std::int64_t& (*field)(transformer&);
};
#define FIELD(path) [](transformer& model) -> std::int64_t& { return model.path; }
constexpr integer_option integer_options[] = {
    {"--num-hidden-layers,--layers",
     "Layers; of the encoder where there is a decoder behind it",
     FIELD(num_hidden_layers)},
    {"--num-decoder-layers", "Layers of the decoder behind an encoder", FIELD(num_decoder_layers)},
    {"--hidden-size", "Width of the residual stream", FIELD(hidden_size)},
    {"--intermediate-size", "Width of the MLP", FIELD(intermediate_size)},
    {"--num-attention-heads", "Query heads", FIELD(num_attention_heads)},
    {"--num-key-value-heads", "Key-value heads; 0: as many", FIELD(num_key_value_heads)},
    {"--head-dim", "Width of a head; 0: hidden size / heads", FIELD(head_dim)},
    {"--vocab-size", "Rows of the token table", FIELD(vocab_size)},
    {"--sliding-window", "Tokens that a token sees; 0: all", FIELD(sliding_window)},
    {"--global-layer-step", "Each layer of this number has no window", FIELD(global_layer_step)},
    {"--num-experts", "Routed experts of a layer", FIELD(moe.num_experts)},
    {"--num-experts-per-tok", "Experts that a token is sent to", FIELD(moe.num_experts_per_tok)},
    {"--moe-intermediate-size", "Width of one expert", FIELD(moe.moe_intermediate_size)},
    {"--shared-expert-intermediate-size",
     "Width of all shared experts together",
     FIELD(moe.shared_expert_intermediate_size)},
    {"--first-k-dense-layers",
     "First layers with an MLP instead of experts",
     FIELD(moe.first_k_dense_layers)},
    {"--moe-layer-step",
     "Of the others, each of this number has experts",
     FIELD(moe.moe_layer_step)},
    {"--q-lora-rank", "Latent attention: the query's vector", FIELD(mla.q_lora_rank)},
    {"--kv-lora-rank", "Latent attention: that of key and value", FIELD(mla.kv_lora_rank)},
    {"--qk-nope-head-dim", "Latent attention: of a head, not rotated", FIELD(mla.qk_nope_head_dim)},
    {"--qk-rope-head-dim", "Latent attention: of a head, rotated", FIELD(mla.qk_rope_head_dim)},
    {"--v-head-dim", "Latent attention: of a head's value", FIELD(mla.v_head_dim)},
    {"--position-rows", "Rows of a table of learned positions", FIELD(position_rows)},
    {"--type-vocab-size", "Token types", FIELD(type_vocab_size)},
    {"--norms-per-layer", "Norms of a layer", FIELD(norms_per_layer)},
    {"--image-size", "Pixels of an image's side", FIELD(image.image_size)},
    {"--patch-size", "Pixels of a patch's side", FIELD(image.patch_size)},
    {"--num-classes", "Classes of a classifier", FIELD(num_classes)},
    {"--mtp-layers", "Layers of multi-token prediction", FIELD(mtp_layers)},
};
#undef FIELD

struct flag_option {
  const char* names;
  const char* about;
  bool transformer::*field;
};
constexpr flag_option flag_options[] = {
    {"--attention-bias,!--no-attention-bias",
     "Biases of query, key and value",
     &transformer::attention_bias},
    {"--attention-out-bias,!--no-attention-out-bias",
     "A bias of attention's output",
     &transformer::attention_out_bias},
    {"--gated-mlp,!--no-gated-mlp", "The MLP has a gate", &transformer::gated_mlp},
    {"--mlp-bias,!--no-mlp-bias", "Biases of the MLP", &transformer::mlp_bias},
    {"--clamped-gate-up,!--no-clamped-gate-up",
     "The MLP's gate and what it meets are clamped",
     &transformer::clamped_gate_up},
    {"--norm-bias,!--no-norm-bias", "Biases of norms", &transformer::norm_bias},
    {"--final-norm,!--no-final-norm", "A norm behind the layers", &transformer::final_norm},
    {"--embedding-norm,!--no-embedding-norm",
     "A norm of the embeddings",
     &transformer::embedding_norm},
    {"--parallel-attention,!--no-parallel-attention",
     "Attention beside the MLP",
     &transformer::parallel_attention},
    {"--attention-sinks,!--no-attention-sinks",
     "A sink for each head",
     &transformer::attention_sinks},
    {"--tie-word-embeddings,!--no-tie-word-embeddings",
     "The head's matrix is the token table",
     &transformer::tied_embeddings},
    {"--pooler,!--no-pooler", "A dense layer of one token", &transformer::pooler},
    {"--head-dense,!--no-head-dense",
     "A dense layer before the head's matrix",
     &transformer::head_dense},
    {"--head-norm,!--no-head-norm", "A norm behind that layer", &transformer::head_norm},
};

// Whether it fits the model is for `validate`.
CLI::Validator dimension() { return guides::whole_number(0, detail::most_of_a_dimension); }

void add_shape(CLI::App& app, model_words& to, const char* group) {
  const auto change = [&to](const std::string& option, const std::string& value, const edit& by) {
    to.edits.push_back(by);
    to.changed.push_back(option + value);
  };
  for (const integer_option& one : integer_options) {
    const std::string names = one.names;
    const std::string option = names.substr(0, names.find(','));
    app.add_option_function<std::int64_t>(
           names,
           [=, field = one.field](std::int64_t value) {
             change(option, " " + std::to_string(value), [=](transformer& model) {
               field(model) = value;
             });
           },
           one.about)
        ->transform(dimension())
        ->group(group)
        ->type_name("N");
  }
  for (const flag_option& one : flag_options) {
    const std::string names = one.names;
    const std::string option = names.substr(0, names.find(','));
    app.add_flag_function(
           names,
           [=, field = one.field](std::int64_t value) {
             const bool on = value > 0;
             change((on ? "" : "--no-") + (on ? option : option.substr(2)),
                    "",
                    [=](transformer& model) { model.*field = on; });
           },
           one.about)
        ->group(group);
  }
  const auto set = [change](const char* option, auto field) {
    return [=](const auto& value) {
      change(option, "", [=](transformer& model) { model.*field = value; });
    };
  };
  add_choice<model_kind>(app,
                         "--kind",
                         "What the layers are",
                         {{"decoder", model_kind::decoder},
                          {"encoder", model_kind::encoder},
                          {"encoder-decoder", model_kind::encoder_decoder},
                          {"vision", model_kind::vision}},
                         set("--kind", &transformer::kind));
  add_choice<norm_kind>(app,
                        "--norm",
                        "Which norms",
                        {{"rms", norm_kind::rms_norm}, {"layer", norm_kind::layer_norm}},
                        set("--norm", &transformer::norm));
  add_choice<norm_position>(app,
                            "--norm-position",
                            "Where the norms are",
                            {{"before", norm_position::before},
                             {"after-residual", norm_position::after_residual},
                             {"after-sublayer", norm_position::after_sublayer},
                             {"around", norm_position::around}},
                            set("--norm-position", &transformer::norm_at));
  add_choice<qk_norm_scope>(app,
                            "--qk-norm",
                            "Norms of query and key",
                            {{"none", qk_norm_scope::none},
                             {"head", qk_norm_scope::head},
                             {"full-width", qk_norm_scope::full_width}},
                            set("--qk-norm", &transformer::qk_norm));
  add_choice<head_kind>(app,
                        "--head",
                        "What is behind the layers",
                        {{"none", head_kind::none},
                         {"language-model", head_kind::language_model},
                         {"classifier", head_kind::classifier}},
                        set("--head", &transformer::head));
  for (const char* name : {"--kind", "--norm", "--norm-position", "--qk-norm", "--head"})
    app.get_option(name)->group(group);
}

// ---- names and files

void take_config(const std::string& text, const std::string& name, named_model& to) {
  const auto read = io::read_hugging_face_config(text);
  to.name = !name.empty()             ? name
            : read.model_type.empty() ? "of this text"
                                      : "a model of type " + read.model_type;
  if (!read.shape) throw bad_request("MODEL " + to.name + ": " + read.reason);
  to.shape = *read.shape;
  to.known_as = read.model_type;
  to.dropouts = read.dropouts;
  to.remarks.push_back("a config.json of model type " + read.model_type);
  if (read.composite.size() != 0)
    to.parts = std::make_shared<const composite_model>(read.composite);
  std::string unknown;
  for (const std::string& key : read.unknown_keys) unknown += (unknown.empty() ? "" : ", ") + key;
  if (!unknown.empty()) to.remarks.push_back("without these keys, which are not known: " + unknown);
}

// Where the text is stated in place of a file, it may say what it is the config of.
std::string name_in_config(const std::string& text) {
  const io::parsed_value parsed = io::parse_json(text);
  const io::value* const said = parsed ? parsed.is.find("_name_or_path") : nullptr;
  const std::string* const name = said != nullptr ? said->text() : nullptr;
  return name != nullptr ? io::printable(*name) : std::string();
}

// That whose tokens are counted: the first part that does not read images.
const transformer& language_of(const composite_model& model) {
  int at = 0;
  while (at + 1 < model.size() && model.parts[at].model.kind == model_kind::vision) ++at;
  return model.parts[at].model;
}

// The models of several parts whose training step is known by name.
std::string trained_composites() {
  std::string names;
  for (const catalog::published_model& model : catalog::models)
    if (model.has_parts && catalog::as_trained(*model.parts))
      names += (names.empty() ? "" : ", ") + std::string(model.id);
  return names;
}

void take_from_catalogue(const catalog::published_model& model, named_model& to) {
  to.name = model.id;
  to.known_as = model.id;
  if (!model.has_shape && !model.has_parts)
    throw bad_request("MODEL " + to.name + " has no shape in the catalogue: " + model.note);
  if (model.has_shape) to.shape = *model.shape;
  if (model.has_parts) {
    const auto trained = catalog::as_trained(*model.parts);
    to.parts = std::make_shared<const composite_model>(trained ? *trained : *model.parts);
    if (trained) to.shape = language_of(*trained);
  }
  to.published = model;
}

// "  llama-2-7b     6.74 B parameters"
std::string line_of(const catalog::published_model& model, std::size_t width) {
  std::string line = "  " + std::string(model.id);
  line.resize(2 + width, ' ');
  std::int64_t count = model.published_parameters;
  if (model.has_shape) count = parameters(*model.shape).total();
  if (model.has_parts) count = parameters(*model.parts).total();
  return count == 0 ? "  " + std::string(model.id)
                    : line + "  " + describe_model::rounded(count) + " parameters";
}

// What is not found, and what is near; its own shape does for any.
std::string not_found(const std::string& name, bool is_of_file) {
  const std::string nearest(catalog::nearest_model(name));
  return "MODEL " + name + ": neither a file or folder, nor a model of the catalogue" +
         (nearest.empty() ? "; " : "; the nearest is " + nearest + ", and ") +
         "gpuplan models lists all; a config.json of a known type is taken" +
         (is_of_file ? ", as one more file" : ", by its path");
}

void take_named(const std::string& name, bool is_of_file, named_model& to) {
  const catalog::model_list meant = catalog::models_named(name);
  if (meant.count == 1) {
    take_from_catalogue(**meant.begin(), to);
    if (!meant.is_base) return;
    to.assumed = io::printable(name) + " has the shape of " + to.name +
                 " by its name; its config.json would say it";
    to.remarks.push_back(to.assumed);
    return;
  }
  if (meant.count == 0) throw bad_request(not_found(name, is_of_file));
  std::size_t width = 0;
  for (const catalog::published_model* model : meant)
    width = std::max(width, std::string_view(model->id).size());
  std::string lines;
  for (const catalog::published_model* model : meant) lines += "\n" + line_of(*model, width);
  throw bad_request("MODEL " + name + " may mean " + std::to_string(meant.count) +
                    " models; name one of them:" + lines);
}

// The config.json that is meant, or nothing.
bool looks_like_path(const std::string& text) {
  return text.ends_with(".json") || text.starts_with('/') || text.starts_with("./") ||
         text.starts_with("../") || text.starts_with('~');
}

std::string file_meant(const std::string& text) {
  std::error_code none;
  const std::filesystem::path path(text);
  if (std::filesystem::is_directory(path, none)) {
    const std::filesystem::path inside = path / "config.json";
    if (std::filesystem::exists(inside, none)) return inside.string();
    if (text.find('/') != std::string::npos)
      throw bad_request("MODEL " + text + ": the folder has no config.json");
    return {};
  }
  return looks_like_path(text) || std::filesystem::exists(path, none) ? text : std::string();
}

bool is_id(const std::string& text) {
  return std::any_of(std::begin(catalog::models), std::end(catalog::models), [&](const auto& one) {
    return text == one.id;
  });
}

void change_shape(const model_words& given, named_model& to) {
  if (given.edits.empty()) return;
  if (to.parts != nullptr)
    throw bad_request(given.changed.front() + ": " + to.name +
                      " is made of several models, which options do not change");
  for (const edit& change : given.edits) change(to.shape);
  std::string list;
  for (const std::string& change : given.changed) list += (list.empty() ? "" : " ") + change;
  const bool changed = !to.name.empty();
  to.remarks.push_back((changed ? "changed by " : "given by ") + list);
  to.name = changed ? to.name + ", changed" : "a model of these options";
  to.published = {};
}

}  // namespace

void add_model_argument(CLI::App& app, model_words& to, shape_help help) {
  app.add_option("MODEL",
                 to.text,
                 "A name of the catalogue or a part of it (mixtral-8x7b), or a Hugging Face "
                 "config.json, its folder or its text; or else options of a shape, which gpuplan "
                 "model --help lists and which also change what is named")
      ->type_name("");
  add_shape(app, to, help == shape_help::shown ? "Shape, in Hugging Face's words" : "");
}

named_model model_named(const model_words& given) {
  if (!given.is_given())
    throw bad_request(
        "which MODEL? A name of the catalogue or a part of it (gpuplan models lists them), a "
        "config.json or its folder, or a shape by options (gpuplan model --help lists them)");
  named_model made;
  if (!given.text.empty()) {
    const bool is_config = given.text.starts_with('{');
    if (given.is_of_file && looks_like_path(given.text))
      throw bad_request("a file names the model by the path " + io::printable(given.text) +
                        ", and no path in a file is followed; one on the command line is");
    const bool is_name = is_config || is_id(given.text) || given.is_of_file;
    const std::string file = is_name ? std::string() : file_meant(given.text);
    if (is_config)
      take_config(given.text, name_in_config(given.text), made);
    else if (file.empty())
      take_named(given.text, given.is_of_file, made);
    else
      take_config(guides::read_file("MODEL", file), io::printable(file), made);
  } else if (given.shape) {
    made.shape = *given.shape;
    made.name = "a model of the files' own shape";
  }
  change_shape(given, made);
  if (made.parts != nullptr) return made;
  if (const auto valid = validate(made.shape); !valid) throw bad_request(valid.why());
  return made;
}

named_model configured_model_named(const model_words& given) {
  named_model model = model_named(given);
  if (model.parts != nullptr)
    throw bad_request("MODEL " + model.name +
                      " is made of several models, of which --from reads no trainer's file");
  return model;
}

named_model trained_model_named(const model_words& given) {
  named_model model = model_named(given);
  if (model.parts == nullptr) return model;
  const auto by = catalog::implementation_of(model.known_as);
  if (!by || !by->framework.layers().runs_composites || model.shape.num_hidden_layers == 0)
    throw bad_request("MODEL " + model.name +
                      " is made of several models, whose training step is not known; it is of " +
                      trained_composites() + ", and of a config.json of such a class");
  return model;
}

}  // namespace setups
