// Parameters against those of models that were built.

#include "counted_models.hpp"

#include <gpuplan/catalog/models/vla.hpp>
#include <gpuplan/parameters.hpp>

#include <string_view>

#include "check.hpp"

namespace {

using namespace gpuplan;

constexpr bool agrees(const counted_model& row) {
  if (!validate(row.shape)) return false;
  const parameter_counts counts = parameters(row.shape);
  const layer_kind kind = row.shape.moe.num_experts != 0 ? layer_kind::experts : layer_kind::dense;
  return counts.total() == row.total && counts.active() == row.active &&
         counts.embedding == row.embedding && counts.head == row.head &&
         (row.layer == 0 || layer_parameters(row.shape, kind).total() == row.layer);
}

// The name of the first row that disagrees.
constexpr std::string_view first_wrong(int first, int last) {
  for (int i = first; i < last; ++i)
    if (!agrees(counted_models.rows[i])) return counted_models.rows[i].name;
  return "";
}

// Whether OpenVLA is a model still once it is changed.
template <class Change>
constexpr bool is_model_where(Change change) {
  composite_model openvla = catalog::openvla_7b;
  change(openvla);
  return static_cast<bool>(validate(openvla));
}

constexpr int rows = static_cast<int>(std::size(counted_models.rows));

}  // namespace

// In parts, for clang's limit of steps.
TEST_CASE("parameters of 109 families, to the integer") {
  STATIC_CHECK(first_wrong(0, rows / 4) == "");
  STATIC_CHECK(first_wrong(rows / 4, rows / 2) == "");
  STATIC_CHECK(first_wrong(rows / 2, 3 * rows / 4) == "");
  STATIC_CHECK(first_wrong(3 * rows / 4, rows) == "");
}

TEST_CASE("of several parts none may be passed over") {
  STATIC_CHECK(is_model_where([](composite_model&) {}));
  STATIC_CHECK(!is_model_where([](composite_model& it) { it = composite_model{}; }));
  STATIC_CHECK(!is_model_where([](composite_model& it) { it.parts[0].model = {}; }));
  STATIC_CHECK(!is_model_where([](composite_model& it) {
    it.parts[composite_model::most_parts - 1].model.hidden_size = 8;
  }));
}

TEST_CASE("what joins two parts has at least a token") {
  STATIC_CHECK(catalog::openvla_7b.parts[1].next.layers() > 0);
  STATIC_CHECK(is_model_where([](composite_model& it) { it.parts[1].next.tokens = 1; }));
  STATIC_CHECK(!is_model_where([](composite_model& it) { it.parts[1].next.tokens = 0; }));
}
