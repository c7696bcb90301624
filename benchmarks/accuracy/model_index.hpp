#pragma once

// The models of all files given, which rows of other files name.

#include <gpuplan/parameters.hpp>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "csv.hpp"
#include "models.hpp"
#include "recipes.hpp"

namespace accuracy {

/// The parameters of a row's model, or why they cannot be counted.
struct counted_model {
  std::int64_t total = 0;
  std::int64_t active = 0;
  std::string why_not;
};

/// What a name stands for: a model, or why there is none.
struct found_model {
  described_model model{};
  std::string why_not;
};

class model_index {
 public:
  recipe_models of_recipes{};

  /// Takes in the models of a file, which the index refers to from then on. Throws `bad_file` for a
  /// cell that no model can have.
  void add(const csv_file& file);

  /// The parameters of one model, which may be a sum of others.
  [[nodiscard]] counted_model count(const row& source) const;

  /// The model of this id.
  [[nodiscard]] found_model find(std::string_view id) const;

  /// The model that people call so ("phi-1.5", or "Falcon" with about 40 billion parameters):
  /// letters and digits alone count, and where they begin several ids, the printed size decides.
  [[nodiscard]] found_model find_by_name(std::string_view name, double printed_parameters) const;

 private:
  std::map<std::string, std::vector<row>, std::less<>> models_;

  [[nodiscard]] const row* only_one(std::string_view id, std::string& why_not) const;
  [[nodiscard]] counted_model count(const row& source, int depth) const;
};

}  // namespace accuracy
