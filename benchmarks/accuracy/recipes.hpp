#pragma once

// Tuned plans of others as questions: would the planner take the model, does their plan fit, and
// how long does the planner's own best one take beside it?

#include <gpuplan/batch.hpp>
#include <gpuplan/cluster.hpp>
#include <gpuplan/training_setup.hpp>

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "csv.hpp"
#include "row_comparisons.hpp"

namespace accuracy {

/// The models that recipes name, by the column `model` of their file.
class recipe_models {
 public:
  /// Takes in the models of a file, which must live as long.
  void add(const csv_file& file);

  /// The row of this model; none where no file has it.
  [[nodiscard]] const row* find(std::string_view name) const;

 private:
  std::map<std::string, row, std::less<>> models_;
};

/// A recipe as a question and as an answer to it.
struct described_recipe {
  gpuplan::training_setup setup{};  // with the recipe's layout
  gpuplan::batch_plan plan{};
  gpuplan::cluster on{};
  std::shared_ptr<std::string> mtp_letters;  // which the setup reads
  std::string why_not;  // what of it the library has no words for; blank: nothing
};

/// Throws `bad_file` for a cell that no recipe can have.
described_recipe describe_recipe(const row& source, const recipe_models& models);

/// How linear layers cast what they multiply, of bf16, fp8_cs, fp8_ds, fp8_sc, mxfp8 and nvfp4, and
/// whether weights lie so too; why it is not known, or nothing.
std::string read_casts(std::string_view precision, bool stores, gpuplan::training_setup& setup);
/// What is computed again, "core_attn+layernorm"; likewise.
std::string read_modules(std::string_view modules, gpuplan::training_setup& setup);
/// The GPUs of a row; likewise.
std::string read_cluster(const row& source, gpuplan::cluster& on);

/// Whether a recipe that can be described fits its devices, or why that is not known.
prediction fits_of(const described_recipe& recipe);

/// `accepted`, `fits` and `best_over_recipe` of a row.
void compare_recipe(const recipe_models& models, row_comparisons& row);

}  // namespace accuracy
