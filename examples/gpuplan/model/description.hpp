#pragma once

// What there is to say about a model, as tables.

#include <gpuplan/catalog/models.hpp>
#include <gpuplan/flops.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/parallelism.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace describe_model {

/// A model, and what is asked about it.
struct request {
  std::string name;
  gpuplan::transformer shape{};                             // where there are no parts
  std::shared_ptr<const gpuplan::composite_model> parts{};  // of a model of several
  std::vector<std::string> remarks{};                       // on where the shape comes from
  std::int64_t published_parameters = 0;                    // 0: unknown
  std::int64_t published_extra = 0;  // what of it are no parameters of the shape
  std::string published_note{};
  std::string published_source{};
  gpuplan::training_pass pass{};
  gpuplan::parallelism layout{};
};

/// What a part of a composite model is called: by its own name, else by what it does.
[[nodiscard]] std::string name_of_part(const gpuplan::composite_model& model, int which);

/// How the numbers of a column are to be read.
enum class measure {
  text,
  integer,
  parameters,  // integers, which people also read in billions
  flop,
  percent
};

struct column {
  std::string name;
  measure what = measure::text;
  bool in_text = true;  // false: for programs, which have no end of a line
};

/// One table: rows of as many cells as there are columns, the first of them the row's name. Cells
/// hold full numbers; a renderer makes them readable.
struct section {
  std::string id;  // for programs: "parameters"
  std::string title;
  std::vector<column> columns;
  std::vector<std::vector<gpuplan::io::cell>> rows{};
  bool has_bars = false;  // of the last column, which holds shares,
  int sums = 0;           // but for as many last rows, which sum up the others
  bool one_unit = false;  // for all columns of FLOP
};

/// All tables of a model. Precondition: `gpuplan::validate` accepts the shape, the pass and the
/// layout.
[[nodiscard]] std::vector<section> describe(const request& asked);

/// These models of the catalogue with their parameters.
[[nodiscard]] section list_catalogue(
    const std::vector<const gpuplan::catalog::published_model*>& models);

/// "decoder", "vision encoder".
[[nodiscard]] std::string kind_of(const gpuplan::transformer& model);

/// A sequence length for a model of which none is stated: 4096 tokens for a decoder and 512 for
/// others, as far as the model has positions; 0 for images.
[[nodiscard]] std::int64_t usual_sequence_length(const gpuplan::transformer& model);

}  // namespace describe_model
