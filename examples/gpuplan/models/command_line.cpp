#include "models/command_line.hpp"

#include <gpuplan/catalog/model_names.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/detail/text.hpp>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "guides/front_end.hpp"
#include "model/description.hpp"
#include "model/render.hpp"

namespace list_models {
namespace {

using namespace gpuplan;

constexpr const char* about =
    "The models of the catalogue: their kinds, their parameters as the shape has them and as they "
    "are\npublished. In formats for programs also layers, width, notes and sources.";
constexpr const char* examples =
    "Examples:\n"
    "  gpuplan models qwen\n"
    "  gpuplan models --kind vision --format csv\n"
    "gpuplan model MODEL describes one of them.";

struct request {
  std::vector<std::string> words{};
  std::string kind{};
};

std::string kind_of(const catalog::published_model& model) {
  if (model.has_parts) return "parts";
  if (!model.has_shape) return "no-shape";
  switch (model.shape->kind) {
    case model_kind::decoder:
      return "decoder";
    case model_kind::encoder:
      return "encoder";
    case model_kind::encoder_decoder:
      return "encoder-decoder";
    case model_kind::vision:
      break;
  }
  return "vision";
}

// By what stands in ids, whatever marks are between, or by the words of ids.
std::vector<const catalog::published_model*> models_of(const request& asked) {
  std::string words;
  for (const std::string& word : asked.words) words += (words.empty() ? "" : " ") + word;
  std::vector<const catalog::published_model*> found;
  for (const catalog::published_model& model : catalog::models) found.push_back(&model);
  if (!words.empty()) {
    const detail::plain_name wanted(words);
    std::erase_if(found, [&](const auto* model) {
      const detail::plain_name id(model->id);
      return wanted.size == 0 || id.text().find(wanted.text()) == std::string_view::npos;
    });
    if (found.empty()) {
      const catalog::model_list meant = catalog::models_named(words);
      found.assign(meant.begin(), meant.end());
    }
    if (found.empty()) {
      const std::string nearest(catalog::nearest_model(words));
      throw guides::bad_request(
          "the catalogue has no model " + words +
          (nearest.empty() ? ", nor one like it" : "; the nearest is " + nearest));
    }
  }
  if (!asked.kind.empty())
    std::erase_if(found, [&](const auto* model) { return kind_of(*model) != asked.kind; });
  if (found.empty())
    throw guides::bad_request("--kind " + asked.kind + ": no model " + words + " is of this kind");
  return found;
}

}  // namespace

guides::program command() {
  const auto asked = std::make_shared<request>();
  return {.name = "gpuplan models",
          .about = about,
          .examples = examples,
          .add =
              [=](CLI::App& app) {
                app.add_option("NAME", asked->words, "Only those that have this in their names")
                    ->type_name("");
                app.add_option("--kind", asked->kind, "Only those of this kind")
                    ->check(CLI::IsMember(std::vector<std::string>{
                        "decoder", "encoder", "encoder-decoder", "vision", "parts", "no-shape"}));
              },
          .make =
              [=](const guides::output& as) {
                return describe_model::render({describe_model::list_catalogue(models_of(*asked))},
                                              as);
              }};
}

}  // namespace list_models
