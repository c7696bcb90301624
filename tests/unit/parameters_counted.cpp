// Parameters against those of models that were built.

#include "counted_models.hpp"

#include <gpuplan/catalog/models/classic.hpp>
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

// Swin Transformer (Liu et al. 2021, arXiv 2103.14030): windows of 7 points, heads of 32.
constexpr transformer swin(std::int64_t width, std::int64_t third_depth) {
  transformer model =
      catalog::classic({.kind = model_kind::vision,
                        .num_hidden_layers = 6 + third_depth,
                        .hidden_size = 8 * width,
                        .intermediate_size = 32 * width,
                        .num_attention_heads = width / 4,
                        .embedding_norm = true,
                        .image = {.image_size = 224, .patch_size = 4, .class_tokens = 0},
                        .head = head_kind::classifier,
                        .num_classes = 1000});
  const std::int64_t depths[] = {2, 2, third_depth, 2};
  for (int at = 0; at < 4; ++at) {
    model.stages.depths[at] = depths[at];
    model.stages.widths[at] = width << at;
    model.stages.heads[at] = (width << at) / 32;
    model.stages.inner[at] = 4 * (width << at);
  }
  model.stages.window_size = 7;
  return model;
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

// `num_params` of the weights that torchvision 0.15 publishes for each.
TEST_CASE("encoders of images in stages have the published parameters") {
  STATIC_CHECK(validate(swin(96, 6)));
  STATIC_CHECK(parameters(swin(96, 6)).total() == 28'288'354);
  STATIC_CHECK(parameters(swin(96, 18)).total() == 49'606'258);
  STATIC_CHECK(parameters(swin(128, 18)).total() == 87'768'224);
}

TEST_CASE("so many layers have so many times the parameters of one, part by part") {
  CONSTEXPR parameter_counts one{.embedding = 2,
                                 .attention = 3,
                                 .recurrent = 5,
                                 .mlp = 7,
                                 .router = 11,
                                 .experts = 13,
                                 .shared_experts = 17,
                                 .norms = 19,
                                 .head = 23,
                                 .other = 29,
                                 .idle = 6};
  STATIC_CHECK(3 * one == one + one + one);
  STATIC_CHECK((3 * one).total() == 3 * (2 + 3 + 5 + 7 + 11 + 13 + 17 + 19 + 23 + 29));
  STATIC_CHECK((3 * one).active() == (3 * one).total() - 18);
}
