// Steps of Megatron-Core 0.16.1 on a device whose kernels do nothing, replayed: on its own layers,
// and on those of Transformer Engine 2.11, of which the functions in C++ were replaced by what they
// allocate. Bytes are those of PyTorch 2.15's allocator in the third step.

#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/device_needs.hpp>
#include <gpuplan/memory/layouts.hpp>
#include <gpuplan/memory/profile.hpp>
#include <gpuplan/memory/step_peaks.hpp>
#include <gpuplan/replay.hpp>

#include <cmath>
#include <cstdint>

#include "check.hpp"

using namespace gpuplan;

namespace {

struct measured_step {
  const char* what = "";
  training_setup setup{};
  batch_plan plan{};
  std::int64_t before = 0;  // allocated
  std::int64_t requested = 0;
  std::int64_t allocated = 0;
  std::int64_t reserved = 0;
};

// A decoder of width 512 with 8 heads, 256 tokens.
training_setup small(const framework& by, std::int64_t layers, std::int64_t key_value_heads) {
  training_setup setup;
  setup.framework = by;
  setup.model = {.num_hidden_layers = layers,
                 .hidden_size = 512,
                 .intermediate_size = 1024,
                 .num_attention_heads = 8,
                 .num_key_value_heads = key_value_heads,
                 .vocab_size = 2048,
                 .fused_qkv = true};
  setup.sequence_length = 256;
  setup.precision = bf16_megatron;
  setup.optimizer.loop = optimizer_loop::fused;
  setup.optimizer.clips_gradients = true;
  setup.attention = attention_kernel::flash;
  setup.parallelism.zero_stage = 1;
  return setup;
}
training_setup own_layers(std::int64_t layers, std::int64_t key_value_heads) {
  return small(catalog::megatron_core, layers, key_value_heads);
}
training_setup engine(std::int64_t layers, std::int64_t key_value_heads) {
  return small(catalog::megatron_transformer_engine, layers, key_value_heads);
}
training_setup by_heads(training_setup setup) {
  setup.context_exchange = context_exchange::a2a;
  return setup;
}
training_setup divided(training_setup setup, parallelism by, std::int64_t stage = 0) {
  by.zero_stage = 1;
  setup.parallelism = by;
  setup.place.stage = stage;
  return setup;
}
training_setup with_experts(training_setup setup, const expert_mixture& experts) {
  setup.model.moe = experts;
  return setup;
}
training_setup with_latent(training_setup setup, const latent_attention& latent) {
  setup.model.mla = latent;
  return setup;
}
training_setup with_tokens(training_setup setup, std::int64_t tokens) {
  setup.sequence_length = tokens;
  return setup;
}

// The plans: micro-batch, data-parallel ranks, micro-batches.
const measured_step steps[] = {
    {"own layers", own_layers(2, 2), {2, 2, 2}, 80308224, 132788488, 134362624, 148897792},
    {"own layers, last of two stages, tensors and sequence in two",
     divided(own_layers(4, 4),
             {.tensor_parallel = 2, .pipeline_parallel = 2, .sequence_parallel = true},
             1),
     {1, 1, 4},
     52550656,
     92266300,
     92282368,
     100663296},
    {"own layers, interleaved",
     divided(own_layers(8, 4), {.pipeline_parallel = 2, .virtual_pipeline = 2}),
     {1, 2, 4},
     128630784,
     201617972,
     203727360,
     218103808},
    {"engine, tensors and sequence in two",
     divided(engine(2, 2), {.tensor_parallel = 2, .sequence_parallel = true}),
     {2, 2, 2},
     75728896,
     117957352,
     117964800,
     132120576},
    {"engine, last of two stages",
     divided(engine(4, 4), {.pipeline_parallel = 2}, 1),
     {1, 2, 4},
     111232000,
     150072564,
     153207808,
     182452224},
    {"engine, interleaved",
     divided(engine(8, 4), {.pipeline_parallel = 2, .virtual_pipeline = 2}),
     {1, 2, 4},
     166899200,
     200308156,
     202406912,
     224395264},
    {"engine, sequences in four",
     divided(by_heads(with_tokens(engine(2, 4), 1024)), {.context_parallel = 4}),
     {1, 2, 2},
     90525184,
     132230180,
     133282816,
     148897792},
    {"experts on four ranks, first of two stages",
     divided(with_experts(engine(4, 4),
                          {.num_experts = 8,
                           .num_experts_per_tok = 2,
                           .moe_intermediate_size = 256,
                           .shared_expert_intermediate_size = 512,
                           .first_k_dense_layers = 1}),
             {.pipeline_parallel = 2, .expert_parallel = 4}),
     {1, 4, 4},
     233723904,
     279659940,
     281502208,
     320864256},
    {"latent attention and experts on two ranks",
     divided(with_experts(with_latent(engine(3, 0), {128, 64, 64, 32, 64}),
                          {.num_experts = 8,
                           .num_experts_per_tok = 3,
                           .moe_intermediate_size = 256,
                           .shared_expert_intermediate_size = 256,
                           .first_k_dense_layers = 1}),
             {.expert_parallel = 2}),
     {1, 2, 2},
     303441408,
     351635008,
     352856576,
     375390208},
    {"latent attention without a latent query, tensors and sequence in two",
     divided(with_latent(engine(2, 0), {0, 64, 64, 32, 64}),
             {.tensor_parallel = 2, .sequence_parallel = true}),
     {1, 2, 2},
     77978624,
     116275940,
     116598272,
     127926272},
};

TEST_CASE("Megatron-Core's steps are replayed to the byte") {
  for (const measured_step& measured : steps) {
    CAPTURE(measured.what);
    REQUIRE(validate(measured.setup));
    const step_memory step = *replay(measured.setup, measured.plan);
    CHECK(step.before.allocated == measured.before);
    CHECK(step.peak.requested == measured.requested);
    CHECK(step.peak.allocated == measured.allocated);
    CHECK(step.peak.reserved == measured.reserved);
  }
}

TEST_CASE("the sum of a step's requests is the replay's") {
  for (const measured_step& measured : steps) {
    CAPTURE(measured.what);
    CHECK(peaks_of(measured.setup, measured.plan).peak().total == measured.requested);
  }
}

TEST_CASE("a chunk of the frozen token table alone has nothing to go back through") {
  const training_setup whole = engine(6, 8);
  for (const std::int64_t chunks : {1, 2, 4})  // of four the first is the token table's
    for (const std::int64_t stage : {0, 1}) {
      training_setup setup =
          divided(whole, {.pipeline_parallel = 2, .virtual_pipeline = chunks}, stage);
      setup.parallelism.split = {.embedding_layers = 1, .head_layers = 1};
      setup.trains = {
          .what = training::adapters,
          .adapters = {.rank = 8, .targets = {.query = true, .key = true, .value = true}}};
      CAPTURE(chunks);
      CAPTURE(stage);
      REQUIRE(validate(setup));
      const batch_plan plan{.micro_batch = 1, .data_parallel = 1, .accumulation = 8};
      const auto step = replay(setup, plan);
      REQUIRE(step);
      CHECK(step->peak.requested > step->before.allocated);
      CHECK(peaks_of(setup, plan).peak().total == step->peak.requested);
    }
}

TEST_CASE("what Megatron-Core's code does not have is refused") {
  const expert_mixture experts{
      .num_experts = 8, .num_experts_per_tok = 2, .moe_intermediate_size = 256};
  const latent_attention latent{128, 64, 64, 32, 64};
  for (const training_setup& setup : {
           with_experts(own_layers(2, 4), experts),
           with_latent(own_layers(2, 0), latent),
           divided(own_layers(2, 4), {.context_parallel = 2}),
           divided(with_experts(engine(2, 4), experts), {.tensor_parallel = 2}),
           divided(with_experts(engine(2, 4), experts), {.expert_parallel = 3}),
       }) {
    const auto valid = validate(setup);
    REQUIRE_FALSE(valid);
    const errc code = valid.why().code;
    CHECK((code == errc::no_such_code || code == errc::does_not_divide));
  }
  const training_setup on_two =
      divided(with_experts(engine(2, 4), experts), {.expert_parallel = 2});
  CHECK(validate(on_two, batch_plan{.micro_batch = 1, .data_parallel = 2}));
  CHECK_FALSE(validate(on_two, batch_plan{.micro_batch = 1, .data_parallel = 3}));
}

TEST_CASE("the last rank of a ring holds keys, values and results of all parts at once") {
  constexpr std::int64_t tokens = 131'072;
  for (const std::int64_t ranks : {2, 4, 8}) {
    CAPTURE(ranks);
    // So narrow behind attention that this is where most is held.
    training_setup setup = divided(with_tokens(engine(1, 8), tokens), {.context_parallel = ranks});
    setup.model.intermediate_size = 8;
    setup.model.vocab_size = 8;
    const auto peak_of = [&](context_exchange by) {
      setup.context_exchange = by;
      REQUIRE(validate(setup));
      const batch_plan plan{.micro_batch = 1, .data_parallel = 1, .accumulation = 1};
      const step_memory step = *replay(setup, plan);
      CHECK(peaks_of(setup, plan).peak().total == step.peak.requested);
      return step.forward.requested;
    };
    const std::int64_t part = 2 * tokens / ranks * 512;  // bytes of queries, as of keys or values
    const std::int64_t sums = 4 * tokens / ranks * 8;
    const std::int64_t by_heads = peak_of(context_exchange::a2a);
    const std::int64_t ring = peak_of(context_exchange::p2p);
    // Beside query, key and value: of the ring as many keys and values and as many results as
    // ranks, and their sum; of exchanged heads these three, the result, what is sent of it, what
    // has arrived, and that put in order. Seeds and numbers of sequences are as many bytes.
    const std::int64_t of_ring = (2 * ranks + ranks + 1) * part + (ranks + 1) * sums;
    const std::int64_t of_heads = 7 * part + sums;
    CHECK(ring - by_heads == of_ring - of_heads);
  }
}

TEST_CASE("experts hold as many rows as their capacity says") {
  const auto peak = [](std::int64_t chosen, double capacity) {
    training_setup setup = divided(
        with_experts(
            engine(2, 4),
            {.num_experts = 8, .num_experts_per_tok = chosen, .moe_intermediate_size = 2048}),
        {.expert_parallel = 2});
    setup.expert_capacity = capacity;
    REQUIRE(validate(setup));
    const auto requested = replay(setup, {1, 2, 1})->peak.requested;
    return static_cast<double>(requested);
  };
  // Rows are those of twice as many experts of each token, and the router's are not.
  CHECK(peak(2, 2) > 1.01 * peak(2, 1));
  CHECK(std::abs(peak(2, 2) / peak(4, 1) - 1) < 0.01);
  // What does not divide is rounded up.
  CHECK(peak(2, 1.0000001) > peak(2, 1));
  CHECK(peak(2, 0.5) < peak(2, 1));
  training_setup dense = engine(2, 4);
  dense.expert_capacity = 2;
  CHECK(validate(dense).why().code == errc::no_such_code);
  dense.expert_capacity = 0;
  CHECK(validate(dense).why().code == errc::out_of_bounds);
}

// DeepSeek-V3's experts among 64 ranks, a layer of them.
training_setup dispatched_by(token_dispatcher dispatcher, std::int64_t ranks = 64) {
  training_setup setup = divided(
      with_experts(engine(1, 8),
                   {.num_experts = 256, .num_experts_per_tok = 8, .moe_intermediate_size = 256}),
      {.expert_parallel = ranks});
  setup.dispatcher = dispatcher;
  return setup;
}

TEST_CASE("kernels that send a token once to a rank hold fewer rows than an all-to-all") {
  const auto peak = [](token_dispatcher dispatcher, std::int64_t ranks) {
    const training_setup setup = dispatched_by(dispatcher, ranks);
    REQUIRE(validate(setup));
    return replay(setup, {64, ranks, 1})->peak.requested;
  };
  using enum token_dispatcher;
  for (const std::int64_t ranks : {2, 8, 64}) {
    // Of HybridEP all that is not in rows of experts lies in its buffers.
    CHECK(peak(deepep, ranks) < peak(all_to_all, ranks));
    CHECK(peak(hybridep, ranks) < peak(deepep, ranks));
  }
}

TEST_CASE("the buffers of DeepEP and HybridEP, as their sources work them out") {
  const auto held =
      [](token_dispatcher dispatcher, std::int64_t ranks, std::int64_t micro_batch = 1) {
        training_setup setup = dispatched_by(dispatcher, ranks);
        setup.model.hidden_size = 7168;
        setup.sequence_length = 4096;
        const batch_plan plan{.micro_batch = micro_batch, .data_parallel = ranks};
        training_setup by_nccl = setup;
        by_nccl.dispatcher = token_dispatcher::all_to_all;
        return (needs_of(setup, plan, 24).communication - needs_of(by_nccl, plan, 24).communication)
            .value();
      };
  // 10 channels x 8 ranks x (5 x 4 + 256 x (2 x 7168 + 8 + 1024 + 512 + 512)).
  CHECK(held(token_dispatcher::deepep, 8) == 80 * (20 + 256 * 16392.0));
  // 10 x 8 x (19 x 4 + 288 x 16392), and 512 MiB, as 10 x 8 x (144 + 280 x 16408) and a MiB fit.
  CHECK(held(token_dispatcher::deepep, 64) == 80 * (76 + 288 * 16392.0) + 512 * 1048576.0);
  CHECK(held(token_dispatcher::deepep, 64, 2) == held(token_dispatcher::deepep, 64));
  // 4,096 tokens of 8 ranks: 7,168 elements, the weights of 256 experts, 56 scales.
  CHECK(held(token_dispatcher::hybridep, 8) == 8 * 4096 * (2 * 7168 + 4 * 256 + 4 * 56.0));
  CHECK(held(token_dispatcher::hybridep, 8, 2) == 2 * held(token_dispatcher::hybridep, 8));
  // Of 64 the same for 32 experts of a domain, a copy to send from, and 7 domains' four times.
  CHECK(held(token_dispatcher::hybridep, 64) ==
        4096 * (64 * (14336 + 128 + 224.0) + (14336 + 1024 + 224.0) +
                7 * (3 * (14336 + 128.0) + 224)));
}

TEST_CASE("a profile and the planner's bound have dispatchers too") {
  for (const token_dispatcher dispatcher : {token_dispatcher::deepep, token_dispatcher::hybridep}) {
    const transformer_memory memory{.setup = dispatched_by(dispatcher, 8)};
    const memory_profile profile(memory, 8);
    for (const std::int64_t micro_batch : {1, 2, 3, 16}) {
      CAPTURE(micro_batch);
      const batch_plan plan{.micro_batch = micro_batch, .data_parallel = 8};
      CHECK(std::abs(profile.required(plan) / memory.required(plan) - 1) < 1e-6);
      CHECK(transformer_memory_of{}.at_least(memory.setup, plan) <=
            transformer_memory_of{}(memory.setup).required(plan));
    }
  }
}

TEST_CASE("dispatchers are refused beside what they do not take") {
  const auto why = [](const training_setup& setup) { return validate(setup).why(); };
  CHECK(failure_text(why(dispatched_by(token_dispatcher::deepep, 1))).c_str() ==
        std::string("dispatcher deepep is not taken beside expert_parallel 1; all_to_all is"));
  CHECK(failure_text(why(dispatched_by(token_dispatcher::deepep, 256))).c_str() ==
        std::string("dispatcher deepep is not taken beside expert_parallel 256; all_to_all is"));
  CHECK(validate(dispatched_by(token_dispatcher::hybridep, 256)));
  training_setup dense = engine(2, 4);
  dense.dispatcher = token_dispatcher::hybridep;
  CHECK(why(dense).code == errc::no_such_code);
}

}  // namespace
