// The shapes of a model's products against the counts of operations, which another visitor makes.

#include <gpuplan/catalog/models.hpp>
#include <gpuplan/cuda/matmul.cuh>

#include <algorithm>

#include <doctest/doctest.h>

namespace {

using namespace gpuplan;
using namespace gpuplan::cuda;

double flops_of_matmuls(const transformer& model,
                        std::int64_t sequences,
                        std::int64_t sequence_length) {
  double sum = 0;
  for (const model_matmul& one : matmuls_of(model, sequences, sequence_length))
    sum += static_cast<double>(one.count) * cuda::flops(one.shape).value();
  return sum;
}

double flops_of_linear_layers(const transformer& model,
                              std::int64_t sequences,
                              std::int64_t sequence_length) {
  const flop_counts counts = gpuplan::flops(model, {.sequence_length = sequence_length});
  double sum = counts.model().value();
  for (const operator_kind kind : {operator_kind::scores, operator_kind::weighted_values})
    sum -= counts[kind].forward + counts[kind].backward;
  return static_cast<double>(sequences) * sum;
}

bool has(const std::vector<model_matmul>& products, const model_matmul& wanted) {
  return std::any_of(products.begin(), products.end(), [&](const model_matmul& one) {
    return one.kind == wanted.kind && one.shape == wanted.shape && one.pass == wanted.pass &&
           one.count == wanted.count;
  });
}

TEST_CASE("a model's products take the operations of its linear layers") {
  for (const transformer* model : {&catalog::gpt2,
                                   &catalog::llama_3_8b,
                                   &catalog::bert_base_uncased,
                                   &catalog::mixtral_8x7b_v0_1,
                                   &catalog::deepseek_v3,
                                   &catalog::t5_base,
                                   &catalog::vit_base_patch16_224})
    for (const std::int64_t sequences : {1, 3, 8}) {
      const std::int64_t length = model->kind == model_kind::vision ? model->image.tokens() : 512;
      const double expected = flops_of_linear_layers(*model, sequences, length);
      CHECK(flops_of_matmuls(*model, sequences, length) ==
            doctest::Approx(expected).epsilon(1e-12));
    }
}

TEST_CASE("the products of Llama 3 8B") {
  const auto products = matmuls_of(catalog::llama_3_8b, 2, 4096);
  using enum operator_kind;
  CHECK(has(products, {query, {8192, 4096, 4096}, matmul_pass::forward, 64}));  // output as well
  CHECK(has(products, {key, {8192, 1024, 4096}, matmul_pass::forward, 64}));    // and value
  CHECK(has(products, {gate, {8192, 14336, 4096}, matmul_pass::forward, 64}));
  CHECK(has(products, {down, {8192, 4096, 14336}, matmul_pass::forward, 32}));
  CHECK(has(products, {head, {8192, 128256, 4096}, matmul_pass::forward, 1}));
  CHECK(has(products, {key, {8192, 4096, 1024}, matmul_pass::input_gradient, 64}));
  CHECK(has(products, {key, {1024, 4096, 8192}, matmul_pass::weight_gradient, 64}));
}

TEST_CASE("tensor parallelism divides the products") {
  const auto products = matmuls_of(catalog::llama_3_8b, 1, 4096, 4);
  using enum operator_kind;
  CHECK(has(products, {query, {4096, 1024, 4096}, matmul_pass::forward, 32}));
  CHECK(has(products, {key, {4096, 256, 4096}, matmul_pass::forward, 64}));
  CHECK(has(products, {attention_output, {4096, 4096, 1024}, matmul_pass::forward, 32}));
  CHECK(has(products, {down, {4096, 4096, 3584}, matmul_pass::forward, 32}));
  CHECK(has(products, {head, {4096, 32064, 4096}, matmul_pass::forward, 1}));
}

constexpr bool lies_as(number_format format, matmul_pass pass, bool a, bool b) {
  const matmul matmul{.format = format, .shape = {1, 1, 1}, .pass = pass};
  return matmul.a_is_transposed() == a && matmul.b_is_transposed() == b;
}
static_assert(lies_as(number_format::bf16, matmul_pass::forward, false, true));
static_assert(lies_as(number_format::bf16, matmul_pass::input_gradient, false, false));
static_assert(lies_as(number_format::bf16, matmul_pass::weight_gradient, true, false));
static_assert(lies_as(number_format::fp8, matmul_pass::weight_gradient, false, true));
static_assert(lies_as(number_format::int8, matmul_pass::input_gradient, false, true));
static_assert(cuda::flops({3, 5, 7}) == 210_FLOP);

}  // namespace
