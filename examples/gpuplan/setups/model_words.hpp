#pragma once

// Which model a command line means: the same words in all commands.

#include <gpuplan/catalog/models.hpp>
#include <gpuplan/known.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/training_setup.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace setups {

/// What the command line gives, before it is looked up.
struct model_words {
  std::string text;  // a name, a part of one, a config.json, its folder or its text; empty: none
  std::vector<std::function<void(gpuplan::transformer&)>> edits{};  // of the shape, as given
  std::vector<std::string> changed{};                               // what they change
  gpuplan::known<gpuplan::transformer> shape{};  // of trainers' files; counts where `text` is empty
  bool is_of_file = false;                       // `text` is a file's: a path in it is not followed

  [[nodiscard]] bool is_given() const { return !text.empty() || !edits.empty() || shape; }
};

enum class shape_help { shown, hidden };

/// The argument MODEL, and the options of a shape, which change what MODEL names or stand for it.
void add_model_argument(CLI::App& app, model_words& to, shape_help help = shape_help::hidden);

struct named_model {
  std::string name;
  std::string known_as;          // its id or `model_type`; empty: only options say it
  gpuplan::transformer shape{};  // of parts, that whose tokens are counted
  std::shared_ptr<const gpuplan::composite_model> parts{};  // of a model of several
  gpuplan::catalog::published_model published{};  // empty where it is none of the catalogue's
  gpuplan::layer_dropouts dropouts{};             // of a config.json, in its class's own code
  std::vector<std::string> remarks{};             // on where the shape comes from
  std::string assumed{};  // that a fine-tune has the shape of its base; empty: nothing is
};

/// The model meant, with a shape that `validate` accepts. Throws `guides::bad_request`: where
/// several models are meant, with a line for each of them; where none is, with one near.
[[nodiscard]] named_model model_named(const model_words& given);
/// Likewise, that trainers' files configure: throws too where the model is made of several.
[[nodiscard]] named_model configured_model_named(const model_words& given);
/// Likewise, that trains: throws too where the model is made of several which no class of the
/// catalogue runs together.
[[nodiscard]] named_model trained_model_named(const model_words& given);

}  // namespace setups
