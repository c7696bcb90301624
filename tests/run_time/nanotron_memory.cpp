// What nanotron reserves: sums worked out by hand, published steps, and what is refused.

#include "check.hpp"

#include <gpuplan/catalog/frameworks/nanotron.hpp>
#include <gpuplan/replay/nanotron.hpp>

#include <cstdint>
#include <initializer_list>
#include <string>

using namespace gpuplan;

namespace {

constexpr double GiB = 1024.0 * 1024 * 1024;

// The 1.3-billion model of the published steps.
training_setup of_ranks(std::int64_t tensor, std::int64_t stages, int zero_stage) {
  training_setup setup{.model = {.num_hidden_layers = 16,
                                 .hidden_size = 2048,
                                 .intermediate_size = 8192,
                                 .num_attention_heads = 32,
                                 .vocab_size = 131072,
                                 .tied_embeddings = true},
                       .sequence_length = 4096,
                       .precision = bf16_master,
                       .attention = attention_kernel::flash,
                       .framework = catalog::nanotron};
  setup.precision.fp32_gradients = true;
  setup.parallelism.tensor_parallel = tensor;
  setup.parallelism.sequence_parallel = tensor > 1;
  setup.parallelism.pipeline_parallel = stages;
  setup.parallelism.zero_stage = zero_stage;
  if (stages > 1) setup.parallelism.split.head_cost = 4;
  return setup;
}
double gibibytes(const training_setup& setup, const batch_plan& plan) {
  const auto reserved = nanotron_reserved(setup, plan);
  REQUIRE(reserved);
  return reserved->value() / GiB;
}
void check_refused(const training_setup& setup, const batch_plan& plan, errc code) {
  const auto reserved = nanotron_reserved(setup, plan);
  REQUIRE(!reserved);
  CHECK(reserved.why().code == code);
}

}  // namespace

TEST_CASE("nanotron reserves what is alive behind the forward, and little more") {
  const double hidden = 2048, ffn = 8192, tokens = 4096, vocabulary = 131072;
  const double parameters =
      16 * (4 * hidden * hidden + 3 * hidden * ffn + 2 * hidden) + hidden + vocabulary * hidden;
  // weights, sums of gradients, masters, moments, buckets; the head's table before it is tied
  const double at_rest = (2 + 4 + 4 + 8 + 2) * parameters + 2 * vocabulary * hidden;
  // both norms and what they read, query, keys and values, context; gate and up, activated, product
  const double layers = 16 * tokens * 2 * (8 * hidden + 4 * ffn);
  const double logits = (2 + 4 + 4) * vocabulary * tokens;
  const double alive = (at_rest + layers + logits) / GiB;
  CHECK(alive > 36.5);
  const double reserved = gibibytes(of_ranks(1, 1, 0), {.data_parallel = 8, .accumulation = 32});
  CHECK(reserved > alive);
  CHECK(reserved < 1.01 * alive);
  // without other ranks no buckets
  const double alone = gibibytes(of_ranks(1, 1, 0), {.accumulation = 32});
  CHECK(reserved - alone > 0.95 * 2 * parameters / GiB);
  CHECK(reserved - alone < 1.05 * 2 * parameters / GiB);
}

TEST_CASE("published steps of nanotron without tensor parallelism") {
  struct published {
    std::int64_t micro_batch, data_parallel, accumulation;
    int zero_stage;
    double gibibytes;
  };
  for (const published& step : {published{1, 8, 32, 0, 36.67},
                                published{2, 8, 16, 0, 50.18},
                                published{1, 8, 32, 1, 24.24},
                                published{1, 16, 16, 1, 23.96}}) {
    const double reserved = gibibytes(of_ranks(1, 1, step.zero_stage),
                                      {.micro_batch = step.micro_batch,
                                       .data_parallel = step.data_parallel,
                                       .accumulation = step.accumulation});
    CHECK(reserved > 0.99 * step.gibibytes);
    CHECK(reserved < 1.01 * step.gibibytes);
  }
}

TEST_CASE("tensors that NCCL reads wait as far as the host is ahead") {
  const auto late = [](std::int64_t tensor, std::int64_t stages) {
    parallelism ranks;
    ranks.tensor_parallel = tensor;
    ranks.pipeline_parallel = stages;
    return nanotron_late_frees(ranks);
  };
  CHECK(late(8, 1) == 48);
  CHECK(late(8, 2) == 12);
  CHECK(late(32, 2) == 3);
  CHECK(late(8, 4) == 36);
  CHECK(late(8, 8) == 48);
  CHECK(late(1, INT64_MAX) == 48);
  // a gathered tensor of 16 samples is 256 MiB; without other ranks none is gathered
  const batch_plan plan{.micro_batch = 16, .accumulation = 4};
  const training_setup of_8 = of_ranks(8, 1, 0);
  detail::nanotron_training at_once(of_8, plan, 0, std::int64_t{1} << 40);
  detail::nanotron_training later(of_8, plan, 48, std::int64_t{1} << 40);
  for (int step = 0; step < 2; ++step) {
    at_once.step();
    later.step();
  }
  const double more = static_cast<double>(later.reserved() - at_once.reserved()) / GiB;
  CHECK(more > 44 * 0.25);
  CHECK(more < 50 * 0.25);
}

TEST_CASE("a device of less memory makes the allocator wait, until it is too small") {
  const batch_plan plan{.micro_batch = 16, .accumulation = 4};
  const double whole = gibibytes(of_ranks(8, 1, 0), plan);
  const auto tight =
      nanotron_reserved(of_ranks(8, 1, 0), plan, bytes::from_value((whole - 2) * GiB));
  REQUIRE(tight);
  CHECK(tight->value() <= (whole - 2) * GiB);
  const auto none = nanotron_reserved(of_ranks(8, 1, 0), plan, bytes::from_value(8 * GiB));
  REQUIRE(!none);
  CHECK(none.why().code == errc::exceeds_gpu_memory);
  CHECK(!nanotron_reserved(of_ranks(8, 1, 0), plan, bytes::from_value(0)));
}

TEST_CASE("what nanotron's code is not known of is refused by field") {
  const auto why = [](auto change) {
    training_setup setup = of_ranks(1, 1, 0);
    change(setup);
    const auto reserved = nanotron_reserved(setup, {});
    return std::string(failure_text(reserved.why()).c_str());
  };
  CHECK(why([](training_setup& of) { of.model.qk_norm = qk_norm_scope::head; }) ==
        "qk_norm head is not taken beside sharding nanotron; none is");
  CHECK(why([](training_setup& of) { of.model.sliding_window = 128; }) ==
        "sliding_window 128 is not taken beside sharding nanotron; 0 is");
  CHECK(why([](training_setup& of) { of.model.attention_out_bias = true; }) ==
        "attention_out_bias true is not taken beside sharding nanotron; false is");
  CHECK(why([](training_setup& of) { of.padding_mask = true; }) ==
        "padding_mask true is not taken beside sharding nanotron; false is");
  CHECK(why([](training_setup& of) { of.attention_dropout = 0.1; }) ==
        "attention_dropout 0.1 is not taken beside sharding nanotron; 0 is");
  CHECK(why([](training_setup& of) { of.attention = attention_kernel::eager; }) ==
        "attention eager is not taken beside sharding nanotron; flash is");
}

TEST_CASE("what nanotron's code is not known of is refused") {
  training_setup setup = of_ranks(1, 1, 2);
  check_refused(setup, {}, errc::no_such_code);
  setup = of_ranks(1, 1, 0);
  setup.recompute = recompute_mode::full;
  check_refused(setup, {}, errc::no_such_code);
  setup = of_ranks(1, 1, 0);
  setup.model.norm = norm_kind::layer_norm;
  check_refused(setup, {}, errc::no_such_code);
  setup = of_ranks(2, 1, 0);
  setup.parallelism.sequence_parallel = false;
  check_refused(setup, {}, errc::no_such_code);
  setup = of_ranks(1, 2, 0);
  setup.place.stage = 1;
  check_refused(setup, {}, errc::no_such_code);
  check_refused(of_ranks(3, 1, 0), {}, errc::does_not_divide);
  check_refused(of_ranks(0, 1, 0), {}, errc::not_positive);
  check_refused(of_ranks(1, 17, 0), {}, errc::no_such_code);
  setup = of_ranks(1, 1, 0);
  setup.model.num_hidden_layers = INT64_MAX;
  CHECK(!nanotron_reserved(setup, {}));
  check_refused(of_ranks(1, 1, 0), {.micro_batch = std::int64_t{1} << 40}, errc::overflow);
}
