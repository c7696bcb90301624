// Peaks of PyTorch 2.15's steps with other optimizers, shardings and recomputation, as its
// allocator counted them over a device whose kernels do nothing, of capability 9.0: two sequences
// of 256 tokens through models of width 256.

#include <doctest/doctest.h>

#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/memory/step_peaks.hpp>
#include <gpuplan/replay.hpp>

#include <cstdint>

using namespace gpuplan;

namespace {

constexpr training_setup gpt{.model = {.num_hidden_layers = 4,
                                       .hidden_size = 256,
                                       .intermediate_size = 1024,
                                       .num_attention_heads = 8,
                                       .vocab_size = 4000,
                                       .attention_bias = true,
                                       .attention_out_bias = true,
                                       .fused_qkv = true,
                                       .gated_mlp = false,
                                       .hidden_act = activation_function::gelu,
                                       .mlp_bias = true,
                                       .norm = norm_kind::layer_norm,
                                       .norm_bias = true,
                                       .position_rows = 512,
                                       .tied_embeddings = true},
                             .sequence_length = 256,
                             .precision = bf16_mixed,
                             .attention = attention_kernel::flash,
                             .framework = catalog::torch_gpt};

constexpr training_setup llama{.model = {.num_hidden_layers = 4,
                                         .hidden_size = 256,
                                         .intermediate_size = 704,
                                         .num_attention_heads = 8,
                                         .num_key_value_heads = 4,
                                         .vocab_size = 4000},
                               .sequence_length = 256,
                               .precision = bf16_mixed,
                               .attention = attention_kernel::flash,
                               .framework = catalog::torch_llama};

training_setup with(training_setup setup, const optimizer& by) {
  setup.optimizer = by;
  return setup;
}
training_setup in_bf16(training_setup setup) {
  setup.precision = bf16_pure;
  return setup;
}
// bf16 gathers, fp32 reduction.
training_setup fully_sharded(training_setup setup, int zero_stage = 3) {
  setup.framework.engine.is = &engine_classes::fsdp2;
  setup.parallelism.zero_stage = zero_stage;
  return setup;
}
training_setup in_groups(training_setup setup, std::int64_t ranks) {
  setup.parallelism.shard_group = ranks;
  return setup;
}
training_setup offloaded(training_setup setup) {
  setup.parallelism.optimizer_on_host = setup.parallelism.weights_on_host = true;
  return setup;
}
training_setup reducing_late(training_setup setup) {
  setup.framework.engine.reduces_every_micro_batch = false;
  return setup;
}
training_setup recomputing(training_setup setup) {
  setup.recompute = recompute_mode::full;
  return setup;
}
// Of five layers.
training_setup recomputing(training_setup setup, std::int64_t period, std::int64_t layers = 0) {
  setup.model.num_hidden_layers = 5;
  setup.recompute = recompute_mode::full;
  setup.recompute_period = period;
  setup.recompute_layers = layers;
  return setup;
}
training_setup with_adapters(training_setup setup) {
  setup.framework = catalog::hugging_face_llama;
  setup.trains = {.what = training::adapters, .adapters = {.rank = 16}};
  return setup;
}

void check(const training_setup& setup,
           std::int64_t requested,
           std::int64_t allocated,
           std::int64_t reserved,
           std::int64_t data_parallel = 1,
           std::int64_t accumulation = 1) {
  const batch_plan plan{
      .micro_batch = 2, .data_parallel = data_parallel, .accumulation = accumulation};
  const auto valid = validate(setup, plan);
  CHECK(static_cast<bool>(valid));
  const memory_counts peak = replay(setup, plan)->peak;
  CHECK(peak.requested == requested);
  CHECK(peak.allocated == allocated);
  CHECK(peak.reserved == reserved);
  CHECK(peaks_of(setup, plan).peak().total == requested);
}

constexpr optimizer lion{.kind = optimizer_kind::lion};
constexpr optimizer any_precision{.loop = optimizer_loop::parameter, .states = number_format::bf16};
constexpr optimizer bnb_adamw{.library = optimizer_library::bitsandbytes};
constexpr optimizer bnb_adamw_8_bits{.library = optimizer_library::bitsandbytes,
                                     .states = number_format::int8};
constexpr optimizer bnb_lion_8_bits{.kind = optimizer_kind::lion,
                                    .library = optimizer_library::bitsandbytes,
                                    .states = number_format::int8};
constexpr optimizer torchao_adamw_8_bits{.library = optimizer_library::torchao,
                                         .states = number_format::int8};

optimizer paged(optimizer by) {
  by.pages_states = true;
  return by;
}

TEST_CASE("Lion, and AdamW with bf16 states") {
  check(with(gpt, lion), 102'590'568, 102'595'584, 144'703'488);
  check(with(in_bf16(gpt), lion), 74'633'316, 74'638'336, 88'080'384);
  check(with(gpt, any_precision), 102'590'568, 102'595'584, 144'703'488);
  check(with(in_bf16(gpt), any_precision), 83'262'564, 83'759'104, 94'371'840);
}

TEST_CASE("bitsandbytes' states are fp32 or in blocks, or paged, whatever the weights' format") {
  check(with(gpt, bnb_adamw), 119'849'064, 119'854'080, 157'286'400);
  check(with(in_bf16(gpt), bnb_adamw), 100'521'060, 100'526'080, 140'509'184);
  check(with(gpt, bnb_adamw_8_bits), 94'180'712, 94'678'016, 106'954'752);
  check(with(in_bf16(gpt), bnb_adamw_8_bits), 74'852'708, 74'858'496, 90'177'536);
  check(with(in_bf16(gpt), bnb_lion_8_bits), 70'428'388, 70'433'792, 85'983'232);
  check(with(gpt, paged(bnb_adamw)), 87'539'816, 88'036'352, 98'566'144);
  check(with(gpt, paged(bnb_adamw_8_bits)), 86'103'400, 86'600'704, 98'566'144);
  check(with(gpt, paged(bnb_lion_8_bits)), 85'717'736, 86'214'656, 98'566'144);
}

TEST_CASE("torchao's 8-bit states: what is no multiple of a block has the weights' format") {
  check(with(gpt, torchao_adamw_8_bits), 94'215'528, 94'712'832, 106'954'752);
  check(with(in_bf16(gpt), torchao_adamw_8_bits), 74'832'228, 74'838'016, 90'177'536);
  training_setup odd = in_bf16(gpt);
  odd.model.hidden_size = 192;
  odd.model.intermediate_size = 1024;
  odd.model.num_attention_heads = 6;
  odd.model.vocab_size = 4001;
  check(with(odd, torchao_adamw_8_bits), 68'381'028, 68'407'296, 81'788'928);
  check(with(odd, bnb_adamw_8_bits), 66'881'452, 66'914'304, 83'886'080);
}

TEST_CASE("hybrid shard: sums of groups stay until the backward is done") {
  const training_setup whole = fully_sharded(llama);
  check(in_groups(whole, 2), 95'183'972, 95'188'992, 174'063'616, 8);
  check(in_groups(whole, 4), 80'185'700, 80'197'632, 142'606'336, 8);
  check(in_groups(recomputing(whole), 4), 68'494'108, 68'503'040, 130'023'424, 8);
  check(in_groups(recomputing(fully_sharded(llama, 2)), 4), 69'494'044, 69'502'976, 134'217'728, 8);
  training_setup in_half = whole;
  in_half.precision.reduced = number_format::bf16;
  check(in_groups(in_half, 4), 80'185'700, 80'197'632, 146'800'640, 8);
  check(in_groups(recomputing(in_half), 4), 67'756'316, 67'765'760, 134'217'728, 8);
  check(in_groups(whole, 4), 85'185'124, 85'197'312, 146'800'640, 8, 2);
  check(in_groups(whole, 1), 123'704'932, 124'201'472, 169'869'312, 8);
}

TEST_CASE("fully_shard on one rank copies each parameter") {
  check(fully_sharded(llama), 123'704'932, 124'201'472, 169'869'312);
  check(fully_sharded(llama, 2), 129'607'268, 130'103'808, 174'063'616);
}

TEST_CASE("fully_shard with weights and optimizer on the host") {
  check(offloaded(fully_sharded(llama)), 65'187'428, 65'192'448, 104'857'600, 8);
  check(offloaded(fully_sharded(llama, 2)), 69'614'180, 69'619'200, 109'051'904, 8);
  check(offloaded(recomputing(fully_sharded(llama))), 52'282'396, 52'284'416, 90'177'536, 8);
  check(offloaded(fully_sharded(gpt)), 61'265'508, 61'270'528, 100'663'296, 8, 2);
}

TEST_CASE("gradients that are reduced with the last micro-batch wait whole, in fp32") {
  const training_setup late = reducing_late(fully_sharded(llama));
  check(late, 92'684'260, 92'699'648, 159'383'552, 8, 2);
  check(late, 92'684'260, 92'699'648, 159'383'552, 8, 3);
  check(in_groups(late, 4), 100'183'396, 100'195'328, 188'743'680, 8, 2);
  training_setup half = late;
  half.precision = bf16_pure;
  half.precision.reduced = number_format::bf16;
  check(half, 78'788'388, 79'297'024, 113'246'208, 8, 2);
}

TEST_CASE("some layers are computed again: every second, every third, the first two") {
  check(recomputing(gpt, 2), 125'441'608, 125'936'128, 174'063'616);
  check(recomputing(gpt, 3), 129'850'472, 130'156'032, 171'966'464);
  check(recomputing(gpt, 1, 2), 125'441'608, 125'936'128, 171'966'464);
  check(recomputing(gpt, 2, 3), 129'850'472, 130'156'032, 171'966'464);
  training_setup hugging_face = in_bf16(llama);
  hugging_face.framework = catalog::hugging_face_llama;
  check(recomputing(hugging_face, 2), 93'364'880, 93'861'376, 102'760'448);
  check(recomputing(hugging_face, 1, 2), 93'364'880, 93'861'376, 100'663'296);
}

TEST_CASE("adapters under fully_shard, whose frozen base is shared too, and under DDP and ZeRO-1") {
  const training_setup adapted = with_adapters(llama);
  check(fully_sharded(adapted), 63'392'616, 63'401'984, 106'954'752, 8);
  check(recomputing(fully_sharded(adapted)), 49'633'056, 49'639'424, 94'371'840, 8);
  check(fully_sharded(adapted, 2), 69'409'632, 69'417'984, 111'149'056, 8);
  training_setup replicated = adapted;
  replicated.precision = bf16_under_autocast;
  check(replicated, 67'285'664, 67'290'624, 85'983'232, 4);
  replicated.parallelism.zero_stage = 1;
  check(replicated, 66'941'600, 66'946'560, 85'983'232, 4);
}

TEST_CASE("ZeRO-1 with other optimizers") {
  training_setup shared = llama;
  shared.precision = fp32_precision;
  shared.attention = attention_kernel::efficient;
  shared.parallelism.zero_stage = 1;
  check(with(shared, {.kind = optimizer_kind::sgd_momentum}),
        130'297'928,
        131'670'016,
        171'966'464,
        4);
  check(with(shared, {.kind = optimizer_kind::adagrad, .loop = optimizer_loop::fused}),
        130'297'952,
        131'443'712,
        171'966'464,
        4);
  check(
      with(shared, {.kind = optimizer_kind::adafactor}), 125'310'152, 126'223'872, 171'966'464, 4);
}

TEST_CASE("linear layers in fp8 keep what they are given, and cast it where they multiply") {
  const auto in_fp8 = [](training_setup setup) {
    setup.precision.fp8_linears = true;
    return setup;
  };
  check(in_fp8(llama), 127'161'448, 127'657'984, 155'189'248);
  check(in_fp8(recomputing(llama)), 104'928'264, 105'420'800, 153'092'096);
  check(in_fp8(in_bf16(llama)), 89'464'420, 89'469'440, 132'120'576);
  check(in_fp8(gpt), 113'557'608, 113'562'624, 157'286'400);
  check(in_fp8(recomputing(in_bf16(gpt))), 67'435'524, 67'928'064, 90'177'536);
  check(in_fp8(fully_sharded(gpt)), 67'737'444, 67'773'952, 113'246'208, 8);
  training_setup hugging_face = llama;
  hugging_face.framework = catalog::hugging_face_llama;
  check(in_fp8(recomputing(hugging_face)), 105'487'496, 105'980'928, 155'189'248);
}

// sdp_utils.cpp: check_head_dim_size_flash, max_size 256.
TEST_CASE("heads wider than 256 take the efficient kernel where none is named") {
  const auto forward = [](training_setup setup, std::int64_t head_dim, attention_kernel kernel) {
    setup.model.head_dim = head_dim;
    setup.model.vocab_size = 64;  // so that the layers are most of it
    setup.attention = kernel;
    REQUIRE(validate(setup, {.micro_batch = 2}));
    return replay(setup, {.micro_batch = 2}, 2)->forward.requested;
  };
  training_setup hugging_face = llama;
  hugging_face.framework = catalog::hugging_face_llama;
  training_setup qwen = llama;
  qwen.framework = catalog::hugging_face_qwen;
  for (const training_setup& setup : {llama, hugging_face, qwen}) {
    const auto automatic = [&](std::int64_t head_dim) {
      return forward(setup, head_dim, attention_kernel::automatic);
    };
    CHECK(automatic(264) == forward(setup, 264, attention_kernel::efficient));
    CHECK(automatic(256) == forward(setup, 256, attention_kernel::flash));
    CHECK(automatic(256) != forward(setup, 256, attention_kernel::efficient));
  }
}

}  // namespace
