#include "frameworks/command_line.hpp"

#include <gpuplan/catalog/implementations.hpp>
#include <gpuplan/framework.hpp>
#include <gpuplan/io/framework_words.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/parallelism.hpp>
#include <gpuplan/planner/domain.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/training_setup.hpp>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "guides/front_end.hpp"
#include "guides/render.hpp"
#include "model/description.hpp"
#include "setups/options.hpp"

namespace list_frameworks {
namespace {

using namespace gpuplan;
using io::cell;

constexpr const char* about =
    "The frameworks whose code gpuplan knows. Of a MODEL: which can train it, with which engines,\n"
    "number formats, parallelism, recomputation and adapters; and why the others cannot.";
constexpr const char* examples =
    "Examples:\n"
    "  gpuplan frameworks\n"
    "  gpuplan frameworks mixtral-8x7b\n"
    "Each word of a row is a word of --framework, --sharding, --precision, --recompute.";

struct request {
  setups::model_words model{};
};

bool is_valid(const training_setup& setup) { return static_cast<bool>(validate(setup)); }

// A setup of the model by a framework and an engine, in its mixed format. Nothing where they do not
// go together.
known<training_setup> with_engine(training_setup setup, const engine_class* engine) {
  // Megatron's code has its own, and they run no other.
  const auto is_own = [](const engine_class* one) {
    return one == &engine_classes::megatron || one == &engine_classes::megatron_fsdp;
  };
  const engine_class* usual = setup.framework.engine.is;
  if (is_own(usual) || is_own(engine) ? engine != usual : false) return {};
  setup.framework.engine.is = engine;
  setup.parallelism.zero_stage = setups::usual_zero_stage(*engine);
  setup.precision = *setups::recipe_named("bf16", engine);
  return is_valid(setup) ? known<training_setup>(setup) : known<training_setup>{};
}

std::vector<training_setup> by_engines(const training_setup& setup) {
  std::vector<training_setup> all;
  for (const engine_class* engine : engine_classes::all)
    if (const auto found = with_engine(setup, engine)) all.push_back(*found);
  return all;
}

using change = std::function<bool(training_setup&)>;

// Whether it is so with one of the engines at least.
bool does_any(const std::vector<training_setup>& setups, const change& to) {
  for (training_setup setup : setups)
    if (to(setup) && is_valid(setup)) return true;
  return false;
}

void add(std::string& words, const std::string& more) {
  words += (words.empty() ? "" : ", ") + more;
}

std::string engines_of(const std::vector<training_setup>& setups) {
  std::string words;
  for (const training_setup& setup : setups) add(words, setup.framework.engine.is->name->text);
  return words;
}

std::string precisions_of(const std::vector<training_setup>& setups) {
  std::string words;
  for (const std::string& name : setups::precision_names())
    if (does_any(setups, [&](training_setup& setup) {
          const auto recipe = setups::recipe_named(name, setup.framework.engine.is);
          if (recipe) setup.precision = *recipe;
          return static_cast<bool>(recipe);
        }))
      add(words, name);
  return words;
}

std::string parallelism_of(const std::vector<training_setup>& setups) {
  struct degree {
    const char* name;
    std::int64_t parallelism::*field;
  };
  constexpr std::int64_t most = 64;
  // Megatron-Core divides tensors beside experts where it divides these and the sequence too.
  const auto divides = [&](const degree& one, std::int64_t by, bool beside_others) {
    return does_any(setups, [&](training_setup& setup) {
      if (beside_others) {
        setup.parallelism.sequence_parallel = true;
        if (setup.model.moe.num_experts != 0) setup.parallelism.expert_parallel = by;
      }
      setup.parallelism.*one.field = by;
      // PyTorch's stages keep their weights between micro-batches
      const bool is_stages = one.field == &parallelism::pipeline_parallel;
      if (is_stages && setup.framework.engine.is->gathers_weights) setup.parallelism.zero_stage = 2;
      if (one.field != &parallelism::pipeline_parallel) return true;
      // In one of the ways that the planner splits layers which stages do not divide.
      const parallelism as_set = setup.parallelism;
      const detail::split_choices splits(setup, as_set, by);
      for (std::int64_t which = 0; which < detail::split_choices::most; ++which) {
        if (!splits.has(which)) continue;
        splits[which].set(setup.parallelism.split);
        if (is_valid(setup)) return true;
      }
      return false;
    });
  };
  std::string words;
  for (const degree& one : {degree{"tensor", &parallelism::tensor_parallel},
                            degree{"pipeline", &parallelism::pipeline_parallel},
                            degree{"context", &parallelism::context_parallel},
                            degree{"expert", &parallelism::expert_parallel}})
    for (std::int64_t by = 2; by <= most; ++by)
      if (divides(one, by, false) || divides(one, by, true)) {
        add(words, one.name);
        break;
      }
  return words;
}

std::string recomputation_of(const std::vector<training_setup>& setups) {
  std::string words;
  for (const std::string& name : setups::recompute_names())
    if (does_any(setups, [&](training_setup& setup) {
          setups::recompute_named(name).set(setup);
          return true;
        }))
      add(words, name);
  return words;
}

std::string adapters_of(const std::vector<training_setup>& setups) {
  std::string words;
  for (const auto& [name, four_bits, magnitudes] :
       {std::tuple{"LoRA", false, false}, {"QLoRA", true, false}, {"DoRA", false, true}})
    if (does_any(setups, [&, bits = four_bits, sizes = magnitudes](training_setup& setup) {
          setup.precision = bf16_under_autocast;
          setups::train_adapters(setup, 8, bits);
          setup.trains.adapters.targets.key = setup.model.fused_qkv;
          setup.trains.adapters.magnitudes = sizes;
          return true;
        }))
      add(words, name);
  return words;
}

std::vector<io::column> columns_of(std::initializer_list<const char*> names) {
  std::vector<io::column> columns;
  for (const char* name : names) columns.push_back({.name = name});
  return columns;
}

io::table all_frameworks() {
  io::table table{.title = "Frameworks"};
  table.columns = columns_of({"framework", "what", "engine", "steps_were_timed"});
  for (const catalog::named_framework& known : catalog::frameworks)
    table.rows.push_back({known.name,
                          known.framework.name,
                          known.framework.engine.is->name->text,
                          known.framework.costs.timed ? "yes" : "no"});
  return table;
}

// ---- of a model

struct answer {
  io::table can{};
  io::table cannot{};
};

answer frameworks_of(const setups::named_model& model) {
  answer made;
  made.can.title = model.name + ": frameworks that train it";
  made.can.columns = columns_of(
      {"framework", "engines", "precisions", "parallelism", "recomputation", "adapters"});
  made.cannot.title = "And why the others do not";
  made.cannot.columns = columns_of({"framework", "why_not"});
  training_setup setup{.model = model.shape, .composite = model.parts.get()};
  setup.sequence_length = describe_model::usual_sequence_length(model.shape);
  if (model.parts == nullptr && model.shape.kind == model_kind::encoder &&
      model.shape.head == head_kind::none)
    setup.encodings = 2;
  // The classes of other models of several parts would put them together in another way.
  const auto own = catalog::implementation_of(model.known_as);
  for (const catalog::named_framework& known : catalog::frameworks) {
    const layer_class& classes = known.framework.layers();
    if (model.parts != nullptr && classes.runs_composites &&
        (!own || own->framework.layers().name != classes.name))
      continue;
    setup.framework = known.framework;
    const auto can = catalog::runs(known.framework, setup);
    if (!can) {
      made.cannot.rows.push_back({known.name, failure_text(can.why()).c_str()});
      continue;
    }
    const std::vector<training_setup> by = by_engines(setup);
    made.can.rows.push_back({known.name,
                             engines_of(by),
                             precisions_of(by),
                             parallelism_of(by),
                             recomputation_of(by),
                             adapters_of(by)});
  }
  if (made.can.rows.empty()) made.cannot.title = model.name + ": " + io::who_runs(setup);
  return made;
}

// One table for programs: those that cannot have an error and nothing else.
io::table joined(const answer& of) {
  io::table all = of.can;
  all.columns.push_back({.name = "why_not"});
  for (auto& row : all.rows) row.emplace_back();
  for (const auto& row : of.cannot.rows) {
    std::vector<cell> wide(all.columns.size());
    wide.front() = row[0];
    wide.back() = row[1];
    all.rows.push_back(std::move(wide));
  }
  return all;
}

std::string answer_to(const request& asked, const guides::output& as) {
  const bool is_for_people = traits_of(as.format).for_people;
  if (asked.model.text.empty() && asked.model.edits.empty())
    return guides::render(all_frameworks(), as);
  const setups::named_model model = setups::trained_model_named(asked.model);
  if (!model.assumed.empty()) guides::remark(model.assumed);
  const answer made = frameworks_of(model);
  if (!is_for_people) return guides::render(joined(made), as);
  std::string text;
  if (!made.can.rows.empty()) text = guides::render(made.can, as) + "\n";
  return text + (made.cannot.rows.empty() ? "" : guides::render(made.cannot, as));
}

}  // namespace

guides::program command() {
  const auto asked = std::make_shared<request>();
  return {.name = "gpuplan frameworks",
          .about = about,
          .examples = examples,
          .add = [=](CLI::App& app) { setups::add_model_argument(app, asked->model); },
          .make = [=](const guides::output& as) { return answer_to(*asked, as); }};
}

}  // namespace list_frameworks
