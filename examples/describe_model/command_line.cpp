#include "describe_model/command_line.hpp"

#include <gpuplan/catalog/models.hpp>
#include <gpuplan/flops.hpp>
#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/hugging_face_config.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/result.hpp>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "describe_model/description.hpp"
#include "describe_model/render.hpp"
#include "guides/front_end.hpp"

namespace describe_model {
namespace {

using namespace gpuplan;
using guides::bad_request;

constexpr const char* about =
    "Describes a transformer by its shape: where its parameters are, and what its operators take.\n"
    "The shape is a model of the catalogue, a Hugging Face config.json, or given by options, "
    "which\n"
    "also change what the other two say.";
constexpr const char* examples =
    "Examples:\n"
    "  describe_model llama-3-8b --sequence-length 8192\n"
    "  describe_model --config config.json --lora-rank 16 --lora-targets q,k,v,o\n"
    "  describe_model --num-hidden-layers 12 --hidden-size 768 --intermediate-size 2048\n"
    "                 --num-attention-heads 12 --vocab-size 32000\n"
    "  describe_model --list";

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
};

template <class Enum>
using words = std::map<std::string, Enum>;

// `--kind encoder` and the like.
template <class Enum>
void add_words(CLI::App& app,
               const std::string& name,
               const std::string& what,
               const words<Enum>& meanings,
               std::function<void(Enum)> set) {
  std::vector<std::string> known;
  for (const auto& one : meanings) known.push_back(one.first);
  app.add_option_function<std::string>(
         name, [meanings, set](const std::string& word) { set(meanings.at(word)); }, what)
      ->check(CLI::IsMember(known))
      ->type_name("");
}

// Whether it fits the model is for `validate`.
CLI::Validator dimension() { return guides::whole_number(0, detail::most_of_a_dimension); }

using edit = std::function<void(transformer&)>;

// What is asked for, as far as the command line says it.
struct arguments {
  std::string name;
  std::string config_file;
  bool list = false;
  std::vector<edit> edits;           // of the shape, in the order given
  std::vector<std::string> changed;  // what they change
  training_pass pass{};
  bool has_length = false;
  bool trains_given = false;
  std::vector<std::string> targets;
  parallelism layout{};
};

void add_shape(CLI::App& app, arguments& to) {
  const char* group = "Shape, in Hugging Face's words";
  const auto change = [&to](const std::string& option, const std::string& value, edit by) {
    to.edits.push_back(std::move(by));
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
        ->type_name("");
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
    return
        [=](auto value) { change(option, "", [=](transformer& model) { model.*field = value; }); };
  };
  add_words<model_kind>(app,
                        "--kind",
                        "What the layers are",
                        {{"decoder", model_kind::decoder},
                         {"encoder", model_kind::encoder},
                         {"encoder-decoder", model_kind::encoder_decoder},
                         {"vision", model_kind::vision}},
                        set("--kind", &transformer::kind));
  add_words<norm_kind>(app,
                       "--norm",
                       "Which norms",
                       {{"rms", norm_kind::rms_norm}, {"layer", norm_kind::layer_norm}},
                       set("--norm", &transformer::norm));
  add_words<norm_position>(app,
                           "--norm-position",
                           "Where the norms are",
                           {{"before", norm_position::before},
                            {"after-residual", norm_position::after_residual},
                            {"after-sublayer", norm_position::after_sublayer},
                            {"around", norm_position::around}},
                           set("--norm-position", &transformer::norm_at));
  add_words<qk_norm_scope>(app,
                           "--qk-norm",
                           "Norms of query and key",
                           {{"none", qk_norm_scope::none},
                            {"head", qk_norm_scope::head},
                            {"full-width", qk_norm_scope::full_width}},
                           set("--qk-norm", &transformer::qk_norm));
  add_words<head_kind>(app,
                       "--head",
                       "What is behind the layers",
                       {{"none", head_kind::none},
                        {"language-model", head_kind::language_model},
                        {"classifier", head_kind::classifier}},
                       set("--head", &transformer::head));
  for (const char* name : {"--kind", "--norm", "--norm-position", "--qk-norm", "--head"})
    app.get_option(name)->group(group);
}

void add_training(CLI::App& app, arguments& to) {
  const char* group = "Training";
  const auto count = [&](const char* name, std::int64_t& value, const char* what) {
    return app.add_option(name, value, what)->transform(dimension())->group(group)->type_name("");
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
      ->type_name("");
  count("--decoder-sequence-length",
        to.pass.decoder_sequence_length,
        "Those of a decoder behind an encoder, if others");
  add_words<training>(
      app,
      "--train",
      "What trains (default: full)",
      {{"full", training::full}, {"frozen", training::frozen}, {"head", training::head}},
      [&to](training what) {
        to.pass.trains.what = what;
        to.trains_given = true;
      });
  app.add_option_function<std::int64_t>(
         "--last-layers",
         [&to](std::int64_t value) {
           to.pass.trains.what = training::last_layers;
           to.pass.trains.last_layers = value;
         },
         "So many of the last layers train")
      ->transform(dimension())
      ->group(group)
      ->type_name("")
      ->excludes("--train");
  app.add_option_function<std::int64_t>(
         "--lora-rank",
         [&to](std::int64_t value) {
           to.pass.trains.what = training::adapters;
           to.pass.trains.adapters.rank = value;
         },
         "Low-rank adapters train, of this rank")
      ->transform(dimension())
      ->group(group)
      ->type_name("")
      ->excludes("--train")
      ->excludes("--last-layers");
  app.add_option("--lora-targets",
                 to.targets,
                 "What has adapters: q, k, v, o, gate, up, down, experts, router, embedding, head, "
                 "names such as q_proj, or all-linear (default: q,v)")
      ->delimiter(',')
      ->group(group)
      ->type_name("")
      ->needs("--lora-rank");
  add_words<recompute_mode>(app,
                            "--recompute",
                            "What is computed again in the backward pass (default: none)",
                            {{"none", recompute_mode::none},
                             {"selective", recompute_mode::selective},
                             {"full", recompute_mode::full}},
                            [&to](recompute_mode mode) { to.pass.recompute = mode; });
  add_words<attention_pairs>(app,
                             "--attention",
                             "Which pairs of tokens count, by operator (default: full)",
                             {{"full", attention_pairs::full},
                              {"causal-half", attention_pairs::causal_half},
                              {"visible", attention_pairs::visible}},
                             [&to](attention_pairs pairs) { to.pass.pairs = pairs; });
  for (const char* name : {"--train", "--recompute", "--attention"})
    app.get_option(name)->group(group);
  count("--tensor-parallel", to.layout.tensor_parallel, "Ranks that share each layer");
  count("--pipeline-parallel", to.layout.pipeline_parallel, "Stages that share the layers");
  count("--expert-parallel", to.layout.expert_parallel, "Ranks that share routed experts");
}

// ---- from the command line to a request

void take_published(const catalog::published_model& model, request& to) {
  to.published_parameters = model.published_parameters;
  to.published_extra = model.published_extra;
  to.published_note = model.note;
  to.published_source = model.source;
}

void take_from_catalogue(const std::string& name, request& to) {
  const auto found = catalog::find_model(name);
  if (!found)
    throw bad_request("the catalogue has no model " + name + "; the nearest is " +
                      std::string(found.why().subject) + ", and --list prints all");
  to.name = found->id;
  if (found->shape == nullptr && found->parts == nullptr)
    throw bad_request(to.name + " has no shape in the catalogue: " + found->note);
  if (found->shape != nullptr) to.shape = *found->shape;
  to.parts = found->parts;
  take_published(*found, to);
}

void take_from_config(const std::string& file, request& to) {
  const auto read = io::read_hugging_face_config(guides::read_file("--config", file));
  if (!read.shape) throw bad_request("--config " + file + ": " + read.reason);
  to.shape = *read.shape;
  to.name = io::printable(file);
  to.remarks.push_back("a config.json of model type " + read.model_type);
  std::string unknown;
  for (const std::string& key : read.unknown_keys) unknown += (unknown.empty() ? "" : ", ") + key;
  if (!unknown.empty()) to.remarks.push_back("without these keys, which are not known: " + unknown);
}

void change_shape(const arguments& given, request& to) {
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
  take_published({}, to);
}

template <class T>
void check(const result<T>& valid) {
  if (!valid) throw bad_request(failure_text(valid.why()).c_str());
}

void take_training(const arguments& given, request& to) {
  to.pass = given.pass;
  lora_targets targets;
  for (const std::string& name : given.targets)
    if (!add_target(name, targets))
      throw bad_request("--lora-targets: no layers are called " + name);
  if (!given.targets.empty()) to.pass.trains.adapters.targets = targets;
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
    to.pass.sequence_length = to.parts != nullptr ? 512 : usual_sequence_length(to.shape);
}

void check_parts(const arguments& given, const request& asked) {
  if (given.trains_given || asked.pass.trains.what != training::full)
    throw bad_request("what trains of " + asked.name +
                      " belongs to its description; --train, --last-layers and --lora-rank are for "
                      "models of one part");
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
               "experts"}})
    if (one.value != 1 && one.value > one.most)
      throw bad_request(std::string(one.option) + " " + std::to_string(one.value) +
                        ": the model has " + std::to_string(one.most) + " " + one.of);
}

std::string answer(const arguments& given, const guides::output& as) {
  if (given.list) return render({list_catalogue()}, as);
  if (given.name.empty() && given.config_file.empty() && given.edits.empty())
    throw bad_request(
        "which model? Give a name of the catalogue (--list prints them), --config "
        "FILE, or a shape (--help)");
  if (!given.name.empty() && !given.config_file.empty())
    throw bad_request("--config " + given.config_file + ": the model is " + given.name +
                      " already");
  request asked;
  if (!given.name.empty()) take_from_catalogue(given.name, asked);
  if (!given.config_file.empty()) take_from_config(given.config_file, asked);
  change_shape(given, asked);
  if (asked.parts == nullptr) check(validate(asked.shape));
  take_training(given, asked);
  asked.layout = given.layout;
  if (asked.parts != nullptr) {
    check_parts(given, asked);
  } else {
    check(validate(asked.pass, asked.shape));
    check_division(asked);
  }
  return render(describe(asked), as);
}

}  // namespace

bool add_target(std::string_view name, lora_targets& targets) {
  struct target {
    std::string_view names;  // with spaces around each
    lora_targets layers;
  };
  static constexpr target known[] = {
      {" q q_proj query wq q_lin ", {.query = true}},
      {" k k_proj key wk k_lin ", {.key = true}},
      {" v v_proj value wv v_lin ", {.value = true}},
      {" qkv qkv_proj query_key_value c_attn Wqkv ", {.query = true, .key = true, .value = true}},
      {" o o_proj out_proj wo out_lin ", {.attention_out = true}},
      {" q_a_proj ", {.query_down = true}},
      {" q_b_proj ", {.query = true}},
      {" kv_a_proj_with_mqa ", {.key_value_down = true}},
      {" kv_b_proj ", {.key_value_up = true}},
      {" gate gate_proj w1 ", {.gate = true}},
      {" up up_proj w3 fc1 c_fc fc_in lin1 dense_h_to_4h ", {.up = true}},
      {" gate_up_proj ", {.gate = true, .up = true}},
      {" down down_proj w2 fc2 fc_out lin2 dense_4h_to_h ", {.down = true}},
      {" experts ", {.experts = true}},
      {" router ", {.router = true}},
      {" embedding embed_tokens wte ", {.embedding = true}},
      {" head lm_head ", {.head = true}},
      {" attention ", attention_layers},
      {" all-linear ", all_linear},
  };
  for (const target& one : known) {
    if (one.names.find(" " + std::string(name) + " ") == std::string_view::npos) continue;
    for (bool lora_targets::*layers : {&lora_targets::query,
                                       &lora_targets::key,
                                       &lora_targets::value,
                                       &lora_targets::attention_out,
                                       &lora_targets::query_down,
                                       &lora_targets::key_value_down,
                                       &lora_targets::key_value_up,
                                       &lora_targets::gate,
                                       &lora_targets::up,
                                       &lora_targets::down,
                                       &lora_targets::experts,
                                       &lora_targets::router,
                                       &lora_targets::shared_expert_gate,
                                       &lora_targets::other,
                                       &lora_targets::embedding,
                                       &lora_targets::head})
      targets.*layers = targets.*layers || one.layers.*layers;
    return true;
  }
  return false;
}

int run(int argc, char** argv) {
  arguments given;
  return guides::run_program(
      argc,
      argv,
      "describe_model",
      about,
      [&](CLI::App& app) {
        app.footer(examples);
        app.add_option("model", given.name, "A model of the catalogue, such as llama-3-8b");
        app.add_option("--config", given.config_file, "A Hugging Face config.json")
            ->type_name("FILE");
        app.add_flag("--list", given.list, "Print the models of the catalogue");
        add_shape(app, given);
        add_training(app, given);
      },
      [&](const guides::output& as) { return answer(given, as); });
}

}  // namespace describe_model
