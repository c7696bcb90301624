#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/flops.hpp>
#include <gpuplan/time/roofline.hpp>
#include <gpuplan/time/stack_range.hpp>
#include <gpuplan/time/step_rates.hpp>

#include <cstdint>
#include <string_view>

#include "check.hpp"
#include "imaginary_device.hpp"

namespace {

using namespace gpuplan;

constexpr bool near(double a, double b, double within = 1e-12) {
  return detail::abs(a - b) <= within * detail::abs(b);
}

// Nothing but FLOPs takes time, one second each.
constexpr kernel_rates flops_alone{.linear = 1,
                                   .half = 1,
                                   .attention_forward = 1,
                                   .attention_backward = 1,
                                   .bytes = detail::infinity,
                                   .elements = detail::infinity,
                                   .in_waves = false};

// Then a layer takes as long as flops.hpp counts operations, each in its own words.
constexpr bool layers_take_their_flops(const transformer& model, layer_kind kind) {
  const training_setup setup{.model = model, .sequence_length = 1024, .precision = bf16_pure};
  const layer_cost layer = cost_of_layer(setup, flops_alone, 3, kind, false);
  transformer shorter = model;
  transformer longer = model;
  shorter.num_hidden_layers = model.moe.first_k_dense_layers + 1;
  longer.num_hidden_layers = model.moe.first_k_dense_layers + 2;
  const training_pass pass{.sequence_length = 1024};
  const flop_counts less = flops(shorter, pass);
  const flop_counts more = flops(longer, pass);
  double forward = 0;
  double backward = 0;
  for (int i = 0; i < operator_kinds; ++i) {
    const auto of = static_cast<operator_kind>(i);
    if (of == operator_kind::scores || of == operator_kind::weighted_values) continue;
    forward += more[of].forward - less[of].forward;
    backward += more[of].backward - less[of].backward;
  }
  return near(layer.forward.products, 3 * forward) && near(layer.backward.products, 3 * backward);
}

constexpr bool tensor_ranks_share_matmuls() {
  training_setup setup{
      .model = catalog::llama_3_8b, .sequence_length = 2048, .precision = bf16_pure};
  const layer_cost whole = cost_of_layer(setup, flops_alone, 1, layer_kind::dense, false);
  setup.parallelism.tensor_parallel = 4;
  const layer_cost part = cost_of_layer(setup, flops_alone, 1, layer_kind::dense, false);
  return near(4 * part.forward.products, whole.forward.products) &&
         near(4 * part.backward.products, whole.backward.products) &&
         near(4 * part.forward.attention, whole.forward.attention) &&
         whole.forward.reductions == 0 && part.forward.reductions == 2 &&
         part.backward.reductions == 2;
}

// Megatron-LM's 3.6 billion parameters as vTrain timed them on 64 A100 (vtrain_multi_0001).
constexpr transformer gpt_3_6b{.num_hidden_layers = 30,
                               .hidden_size = 3072,
                               .intermediate_size = 12288,
                               .num_attention_heads = 32,
                               .vocab_size = 51200,
                               .attention_bias = true,
                               .attention_out_bias = true,
                               .fused_qkv = true,
                               .gated_mlp = false,
                               .mlp_bias = true,
                               .norm = norm_kind::layer_norm,
                               .norm_bias = true,
                               .position_rows = 2048,
                               .tied_embeddings = true};
constexpr roofline_time on_a100(parallelism layout, std::int64_t nodes) {
  return {.setup = {.model = gpt_3_6b,
                    .sequence_length = 2048,
                    .precision = fp16_master,
                    .optimizer = {.loop = optimizer_loop::fused, .clips_gradients = true},
                    .parallelism = layout,
                    .recompute = recompute_mode::full,
                    .attention = attention_kernel::eager,
                    .dropout = 0.1,
                    .framework = catalog::megatron_lm},
          .on = {.gpu = catalog::a100_sxm4_80gb,
                 .nodes = nodes,
                 .gpus_per_node = 8,
                 .between_nodes = 100_GBps},
          .efficiency = catalog::ampere};
}
constexpr roofline_time replicated = on_a100({}, 8);
constexpr batch_plan of_512{.micro_batch = 8, .data_parallel = 64};

// With equal stages and free ends, 1F1B of m micro-batches over p stages takes (m + p - 1) times a
// stage, and v chunks divide the p - 1.
constexpr bool bubbles_are_those_of_equal_stages() {
  for (const std::int64_t chunks : {1, 5}) {
    roofline_time model = on_a100({.pipeline_parallel = 3, .virtual_pipeline = chunks}, 3);
    model.terms = {.ends = false, .pipeline_communication = false};
    for (const std::int64_t m : {3, 12, 96}) {
      const step_breakdown step =
          model.breakdown({.micro_batch = 2, .data_parallel = 8, .accumulation = m});
      const duration busy = step.forward + step.backward + step.recompute;
      if (!near(step.bubble.value(), busy.value() * 2 / static_cast<double>(m * chunks)))
        return false;
    }
  }
  return true;
}

// What a stage recomputes where each chunk recomputes so many layers, of what it does of all.
constexpr double share_recomputed(parallelism layout, std::int64_t layers) {
  layout.zero_stage = 1;
  roofline_time model = on_a100(layout, 3);
  model.terms = {.ends = false};
  const batch_plan plan{.micro_batch = 2, .data_parallel = 2, .accumulation = 12};
  const double all = model.breakdown(plan).recompute.value();
  model.setup.recompute_layers = layers;
  return model.breakdown(plan).recompute.value() / all;
}

constexpr bool micro_batches_add_up() {
  const auto at = [](std::int64_t accumulation) {
    return replicated.step({8, 64, accumulation}).value();
  };
  return near(at(5) - at(4), at(2) - at(1), 1e-9) && at(5) > at(4);
}

// Without one of its terms a step is never longer.
constexpr bool every_term_takes_time() {
  roofline_time model = on_a100({.tensor_parallel = 2, .pipeline_parallel = 2, .zero_stage = 1}, 8);
  model.setup.framework.costs.contention = 0.5;
  const batch_plan plan{.micro_batch = 8, .data_parallel = 16, .accumulation = 4};
  const duration all = model.step(plan);
  for (bool time_terms::*term : {&time_terms::waves,
                                 &time_terms::matmul_bytes,
                                 &time_terms::elements,
                                 &time_terms::ends,
                                 &time_terms::latency,
                                 &time_terms::tensor_communication,
                                 &time_terms::pipeline_communication,
                                 &time_terms::gradient_communication,
                                 &time_terms::parameter_communication,
                                 &time_terms::recompute,
                                 &time_terms::bubble,
                                 &time_terms::optimizer}) {
    roofline_time without = model;
    without.terms.*term = false;
    if (!(without.step(plan) < all)) return false;
  }
  return true;
}

constexpr kernel_rates rates_of(const gpu_spec& gpu) {
  return kernel_rates_of({.precision = bf16_pure}, gpu, catalog::efficiency_of(gpu));
}

// Each share alone, of a device whose peaks are known: 100 TFLOP/s in half precision, 10 in fp32,
// twice and four times as much in fp8 and fp4, and 1 TB/s.
constexpr gpu_spec plain_device = [] {
  gpu_spec gpu = catalog::b200_sxm;
  gpu.dense.fp16 = gpu.dense.bf16 = 100_TFLOPS;
  gpu.dense.fp32 = 10_TFLOPS;
  gpu.dense.fp8 = 200_TFLOPS;
  gpu.dense.fp4 = 400_TFLOPS;
  gpu.memory_bandwidth = 1_TBps;
  gpu.sm_count = 66;
  gpu.clock_MHz = 915;
  return gpu;
}();
constexpr device_efficiency plain_shares{.products = 0.5,
                                         .products_fp32 = 0.25,
                                         .products_fp8 = 0.4,
                                         .products_fp4 = 0.2,
                                         .products_fp8_by_row = 0.3,
                                         .attention_forward = 0.125,
                                         .attention_backward = 0.0625,
                                         .memory = 0.8,
                                         .functions = 3,
                                         .sums = 5,
                                         .softmaxes = 7};
constexpr kernel_rates plain_rates(precision_recipe recipe,
                                   const gpu_spec& gpu = plain_device,
                                   double matmul_rate = 1) {
  training_setup setup{.precision = recipe};
  setup.framework.costs.matmul_rate = matmul_rate;
  return kernel_rates_of(setup, gpu, plain_shares);
}

constexpr precision_recipe fp8_scaled(scaling_kind scaling) {
  precision_recipe recipe = bf16_with_fp8;
  recipe.scaling = scaling;
  return recipe;
}

// Of GPT's layer of width 1200.
constexpr double attention_of_heads(std::int64_t heads) {
  training_setup setup{.model = catalog::gpt2,
                       .sequence_length = 1024,
                       .precision = bf16_pure,
                       .attention = attention_kernel::eager};
  setup.model.hidden_size = 1200;
  setup.model.num_attention_heads = heads;
  const kernel_rates on = kernel_rates_of(setup, catalog::a100_sxm4_80gb, catalog::ampere);
  return cost_of_layer(setup, on, 4, layer_kind::dense, false).forward.attention;
}

}  // namespace

TEST_CASE("a product takes whole waves of tiles, and writes its result behind them") {
  CONSTEXPR kernel_rates on{.bytes = detail::infinity, .sms = 100};
  // 100 tiles of 256 x 128 are one wave; one more are two.
  CONSTEXPR double wave = matmul_time({2560, 1280, 1000}, 1e12, 2, 2, on);
  STATIC_CHECK(near(wave, 2.0 * 2560 * 1280 * 1000 / 1e12));
  STATIC_CHECK(matmul_time({2561, 1280, 1000}, 1e12, 2, 2, on) > 1.2 * wave);
  // A batch of them likewise.
  STATIC_CHECK(near(matmul_time({256, 128, 1000, 100}, 1e12, 2, 2, on), wave));
  // However fast bytes are moved, so many are: of the results, behind the computing.
  STATIC_CHECK(bounds_of_matmul({2560, 1280, 1000}, 1e12, 1e12, 2, 2, on).bytes == 2 * 2560 * 1280);
  STATIC_CHECK(bounds_of_matmul({2560, 1280, 1000, 3}, 1e12, 1e12, 2, 2, on).flops ==
               2.0 * 2560 * 1280 * 1000 * 3);
  CONSTEXPR kernel_rates slow_memory{.bytes = 1e9, .sms = 100};
  STATIC_CHECK(
      near(matmul_time({2560, 1280, 1000}, 1e12, 2, 4, slow_memory),
           detail::larger_of(wave, (2560.0 + 1280) * 1000 * 2 / 1e9) + 2560.0 * 1280 * 4 / 1e9));
  CONSTEXPR kernel_rates floored{.bytes = 1e15, .sms = 100, .floor = 3e-6};
  STATIC_CHECK(matmul_time({8, 8, 8}, 1e15, 2, 2, floored) == 3e-6);
}

TEST_CASE("an SM that computes less than an A100's needs no large tiles") {
  // One tile of 128 x 64 on each of 100 SMs: 0.8 of an A100's rate, all of a slower SM's.
  CONSTEXPR kernel_rates fast{.bytes = detail::infinity, .sms = 100};
  CONSTEXPR kernel_rates slow{.bytes = detail::infinity, .reuse = 2, .sms = 100};
  CONSTEXPR double full = 2.0 * 1280 * 640 * 1000 / 1e12;
  STATIC_CHECK(near(matmul_time({1280, 640, 1000}, 1e12, 2, 2, fast), full / 0.8));
  STATIC_CHECK(near(matmul_time({1280, 640, 1000}, 1e12, 2, 2, slow), full));
  CONSTEXPR kernel_rates hopper = rates_of(catalog::h100_sxm5_80gb);
  CONSTEXPR kernel_rates geforce = rates_of(catalog::rtx_3090);
  STATIC_CHECK(hopper.reuse == 1);
  STATIC_CHECK(near(geforce.reuse, 3.33, 0.02));
}

TEST_CASE("heads that no load of 16 bytes fits leave the tensor cores in eager attention") {
  STATIC_CHECK(attention_of_heads(8) > 2 * attention_of_heads(10));  // of 150 and of 120
  STATIC_CHECK(attention_of_heads(15) < 2 * attention_of_heads(10));
}

TEST_CASE("arithmetic bounds activations where SMs are handed many bytes for a clock") {
  CONSTEXPR kernel_rates hopper = rates_of(catalog::h100_sxm5_80gb);
  CONSTEXPR kernel_rates geforce = rates_of(catalog::rtx_3090);
  CONSTEXPR kernel_rates blackwell = rates_of(catalog::b200_sxm);
  STATIC_CHECK(near(hopper.functions, catalog::hopper.functions));
  STATIC_CHECK(geforce.functions < 1.2);
  STATIC_CHECK(blackwell.functions > 4);
}

TEST_CASE("rates are peaks of the formats times the shares that are reached") {
  CONSTEXPR kernel_rates half = plain_rates(bf16_pure);
  STATIC_CHECK(near(half.half, 50e12) && near(half.scalar, 2.5e12) && near(half.linear, 50e12));
  STATIC_CHECK(half.linear_bytes == 2);
  STATIC_CHECK(near(half.attention_forward, 12.5e12) && near(half.attention_backward, 6.25e12));
  STATIC_CHECK(near(half.bytes, 0.8e12) && near(half.elements, 0.8e12) && half.sms == 66);
  CONSTEXPR kernel_rates full = plain_rates(fp32_precision);
  STATIC_CHECK(near(full.half, 2.5e12) && near(full.linear, 2.5e12) && full.linear_bytes == 4);
  CONSTEXPR kernel_rates slower = plain_rates(bf16_pure, plain_device, 0.5);
  STATIC_CHECK(near(slower.half, 25e12) && near(slower.attention_forward, 6.25e12));
  STATIC_CHECK(near(slower.bytes, 0.8e12));
  // Scales of rows are another kernel's, and the linear layers' alone.
  CONSTEXPR kernel_rates by_tensor = plain_rates(fp8_scaled(scaling_kind::tensor));
  STATIC_CHECK(near(by_tensor.linear, 80e12) && by_tensor.linear_bytes == 1);
  CONSTEXPR kernel_rates by_row = plain_rates(fp8_scaled(scaling_kind::row));
  STATIC_CHECK(near(by_row.linear, 60e12) && by_row.linear_bytes == 1 && near(by_row.half, 50e12));
  CONSTEXPR kernel_rates quarter = plain_rates([] {
    precision_recipe recipe = bf16_pure;
    recipe.fp4_linears = true;
    return recipe;
  }());
  STATIC_CHECK(near(quarter.linear, 80e12) && quarter.linear_bytes == 0.5);
}

TEST_CASE("a device that moves a byte a second is slow, and one that moves less is none") {
  const auto flaw_with = [](double bytes_per_s) {
    roofline_time model{.setup = {.model = catalog::gpt2, .sequence_length = 64},
                        .on = {.gpu = plain_device},
                        .efficiency = plain_shares};
    model.efficiency.memory = 1;
    model.on.gpu.memory_bandwidth = bandwidth::from_value(bytes_per_s);
    return validate(model).why().code;
  };
  STATIC_CHECK(flaw_with(1) == errc::none);
  STATIC_CHECK(flaw_with(0.999) == errc::not_positive);
}

TEST_CASE("functions, sums and softmaxes are as slow as a device's clocks are few for its bytes") {
  // Half of an H100's SMs at half of its clock, for 1 of its 3.35 TB/s.
  CONSTEXPR double times = 4 / 3.35;
  CONSTEXPR kernel_rates known = plain_rates(bf16_pure);
  STATIC_CHECK(near(known.functions, 3 * times) && near(known.sums, 5 * times));
  STATIC_CHECK(near(known.softmaxes, 7 * times));
  CONSTEXPR kernel_rates unknown = plain_rates(bf16_pure, [] {
    gpu_spec gpu = plain_device;
    gpu.clock_MHz = {};
    return gpu;
  }());
  STATIC_CHECK(unknown.functions == 3 && unknown.sums == 5 && unknown.softmaxes == 7);
}

TEST_CASE("a product that moves more than it computes reads its operands and writes its results") {
  CONSTEXPR kernel_rates on{.bytes = 1e12, .sms = 100};
  // Of 3 products of 64 x 32 by 32 x 16, in 2 bytes, with results of 4.
  CONSTEXPR double operands = 3 * (64 + 16) * 32 * 2;
  CONSTEXPR double results = 3 * 64 * 16 * 4;
  STATIC_CHECK(near(matmul_time({64, 16, 32, 3}, 1e30, 2, 4, on), (operands + results) / 1e12));
}

TEST_CASE("widths that no vector load divides") {
  CONSTEXPR kernel_rates on{.odd = 0.3, .unaligned = 0.5};
  STATIC_CHECK(alignment_share(4096, 50304, 2, on) == 1);
  STATIC_CHECK(alignment_share(4096, 50257, 2, on) == 0.3);
  STATIC_CHECK(alignment_share(4096, 50258, 2, on) == 0.5);
  STATIC_CHECK(alignment_share(4096, 50260, 2, on) == 0.5);
  STATIC_CHECK(alignment_share(4096, 50264, 2, on) == 1);
  STATIC_CHECK(alignment_share(4096, 50264, 1, on) == 0.5);  // fp8: of 16 elements
  // Without tensor cores nothing is lost.
  CONSTEXPR kernel_rates alone =
      kernel_rates_of({.model = catalog::gpt2, .precision = fp32_precision},
                      catalog::h100_sxm5_80gb,
                      catalog::hopper);
  STATIC_CHECK(alignment_share(768, 50257, 4, alone) == 1);
}

constexpr double update_bytes(optimizer_kind kind, optimizer_loop loop) {
  return optimizer_bytes(
      {.model = catalog::gpt2, .precision = bf16_mixed, .optimizer = {.kind = kind, .loop = loop}});
}

TEST_CASE("what an optimizer moves") {
  // By hand: weight, gradient and states of 4 bytes, each once each way but the gradient.
  STATIC_CHECK(update_bytes(optimizer_kind::adamw, optimizer_loop::fused) == 28);
  STATIC_CHECK(update_bytes(optimizer_kind::sgd_momentum, optimizer_loop::fused) == 20);
  // As timed on an H100 at 0.8 of its bandwidth, to a whole value: 80.3, 12.0, 32.1 and 51.9 bytes.
  STATIC_CHECK(update_bytes(optimizer_kind::adamw, optimizer_loop::foreach) == 80);
  STATIC_CHECK(update_bytes(optimizer_kind::sgd, optimizer_loop::foreach) == 12);
  STATIC_CHECK(update_bytes(optimizer_kind::sgd_momentum, optimizer_loop::foreach) == 32);
  STATIC_CHECK(update_bytes(optimizer_kind::rmsprop, optimizer_loop::foreach) == 52);
}

TEST_CASE("products of layers are those that flops counts") {
  STATIC_CHECK(layers_take_their_flops(catalog::gpt2, layer_kind::dense));
  STATIC_CHECK(layers_take_their_flops(catalog::llama_3_8b, layer_kind::dense));
  STATIC_CHECK(layers_take_their_flops(catalog::mixtral_8x7b_v0_1, layer_kind::experts));
  STATIC_CHECK(layers_take_their_flops(catalog::deepseek_v3, layer_kind::experts));
  STATIC_CHECK(tensor_ranks_share_matmuls());
}

TEST_CASE("a published step") {
  CONSTEXPR step_breakdown step = replicated.breakdown(of_512);
  STATIC_CHECK(near(step.total().value(), 3.5665, 0.05));
  STATIC_CHECK(near(step.total().value(), replicated.step(of_512).value()));
  STATIC_CHECK(
      near(step.total().value(),
           (step.compute() + step.communication() + step.bubble + step.host + step.data).value()));
  STATIC_CHECK(step.bubble == 0_s);
  STATIC_CHECK(step.tensor_communication == 0_s);
  STATIC_CHECK(step.gradient_communication > 0_s);
  // The backward pass does twice the forward's products, recomputation the layers' once more.
  STATIC_CHECK(step.backward > 1.6 * step.forward);
  STATIC_CHECK(step.recompute < step.forward);
}

TEST_CASE("pipelines, accumulation and terms") {
  STATIC_CHECK(bubbles_are_those_of_equal_stages());
  STATIC_CHECK(micro_batches_add_up());
  STATIC_CHECK(every_term_takes_time());
}

constexpr roofline_time on_imaginary(const gpu_spec& gpu) {
  return {.setup = {.model = catalog::gpt2, .sequence_length = 1024, .precision = bf16_pure},
          .on = {.gpu = gpu, .gpus_per_node = 8},
          .efficiency = catalog::ampere};
}

TEST_CASE("what was measured of a device stands in for shares of its data sheet") {
  using imaginary_device::imaginary;
  CONSTEXPR roofline_time published = on_imaginary(imaginary);
  CONSTEXPR roofline_time measured =
      on_imaginary(*measured_as(imaginary, imaginary_device::in_full));
  CONSTEXPR kernel_rates rates =
      kernel_rates_of(measured.setup, measured.on.gpu, measured.efficiency);
  STATIC_CHECK(near(rates.half, 150e12));
  STATIC_CHECK(near(rates.elements, 1800e9));
  STATIC_CHECK(near(rates.floor, 1.5e-6));
  // attention was not measured: a share of the peak, not of what products reach
  STATIC_CHECK(near(rates.attention_forward, 200e12 * catalog::ampere.attention_forward));
  CONSTEXPR kernel_rates shares =
      kernel_rates_of(published.setup, published.on.gpu, published.efficiency);
  STATIC_CHECK(near(shares.half, 200e12 * catalog::ampere.products));
  STATIC_CHECK(near(shares.elements, 2000e9 * catalog::ampere.memory));
  STATIC_CHECK(shares.attention_forward == rates.attention_forward);
  CONSTEXPR ceiling_origins from = measured.origins();
  STATIC_CHECK(from.products == ceiling_origin::measured);
  STATIC_CHECK(from.memory == ceiling_origin::measured);
  STATIC_CHECK(*from.inside_node == ceiling_origin::measured);
  CONSTEXPR ceiling_origins sheet = published.origins();
  STATIC_CHECK(sheet.products == ceiling_origin::data_sheet);
  STATIC_CHECK(sheet.memory == ceiling_origin::data_sheet);
  STATIC_CHECK(*sheet.inside_node == ceiling_origin::data_sheet);
  STATIC_CHECK(!on_imaginary(catalog::trainium1).origins().inside_node);
}

TEST_CASE("a roofline needs peaks of its formats, and links between its devices") {
  CONSTEXPR roofline_time known_links = on_imaginary(imaginary_device::imaginary);
  STATIC_CHECK(validate(known_links));
  CONSTEXPR auto with = [](auto change) {
    roofline_time changed = on_imaginary(imaginary_device::imaginary);
    change(changed);
    return validate(changed).why();
  };
  STATIC_CHECK(with([](roofline_time& of) { of.setup.precision.fp8_linears = true; }).code ==
               errc::unsupported_format);
  CONSTEXPR failure network = with([](roofline_time& of) { of.on.nodes = 2; });
  STATIC_CHECK(network.code == errc::not_known);
  STATIC_CHECK(network.at_fault() == fact::between_nodes);
  STATIC_CHECK(with([](roofline_time& of) { of.setup.parallelism.tensor_parallel = 0; }).code ==
               errc::not_positive);
  STATIC_CHECK(with([](roofline_time& of) { of.setup.model.num_hidden_layers = -1; }).code !=
               errc::none);
  STATIC_CHECK(with([](roofline_time& of) { of.on.gpus_per_node = 0; }).code != errc::none);
}

TEST_CASE("what a step is worked out from is checked") {
  CONSTEXPR auto refused = [](auto change) {
    roofline_time changed = replicated;
    change(changed);
    return validate(changed).why();
  };
  STATIC_CHECK(validate(replicated));
  STATIC_CHECK(refused([](roofline_time& of) { of.setup.sequence_length = 0; }) ==
               failure(errc::out_of_bounds,
                       named_fact{fact::sequence_length, 0},
                       named_fact{fact::at_least, 1},
                       named_fact{fact::at_most, std::int64_t{1} << 32}));
  STATIC_CHECK(refused([](roofline_time& of) {
                 of.setup.sequence_length = -512;
               })[fact::sequence_length] == -512);
  STATIC_CHECK(refused([](roofline_time& of) { of.setup.parallelism.context_parallel = 0; }).code ==
               errc::not_positive);
  STATIC_CHECK(refused([](roofline_time& of) { of.setup.recompute_period = 0; }).code ==
               errc::out_of_bounds);
  STATIC_CHECK(refused([](roofline_time& of) { of.setup.recompute_layers = -1; }).code ==
               errc::out_of_bounds);
  STATIC_CHECK(refused([](roofline_time& of) { of.setup.dropout = detail::not_a_number; }).code ==
               errc::out_of_bounds);
  STATIC_CHECK(refused([](roofline_time& of) { of.efficiency.products = 0; }).code ==
               errc::not_positive);
  STATIC_CHECK(refused([](roofline_time& of) {
                 of.efficiency.memory = detail::not_a_number;
               }).code == errc::not_finite);
  STATIC_CHECK(refused([](roofline_time& of) { of.on.gpu.sm_count = 0; }).code ==
               errc::not_positive);
  STATIC_CHECK(refused([](roofline_time& of) { of.setup.framework.costs.contention = -1; }).code ==
               errc::out_of_bounds);
  STATIC_CHECK(refused([](roofline_time& of) {
                 of.setup.framework.engine.bucket_bytes = 0;
               }).code == errc::not_positive);
}

TEST_CASE("what products reach falls with the cube root of the power for each FLOP") {
  const auto under = [](power limit) {
    gpu_spec gpu = catalog::h100_sxm5_80gb;
    gpu.tdp = limit;
    return clock_share(catalog::hopper, gpu);
  };
  STATIC_CHECK(near(under(700_W), 1));
  STATIC_CHECK(near(under(87.5_W), 0.5));
  STATIC_CHECK(near(under(800_W), detail::pow(800.0 / 700, 1.0 / 3)));
  STATIC_CHECK(under(7000_W) == 1.25);  // power bounds nothing
  STATIC_CHECK(clock_share(catalog::ampere, catalog::a100_sxm4_80gb) == 1);
  // Half the power for 0.765 of the peak, at 0.885 of the clock.
  STATIC_CHECK(
      near(clock_share(catalog::hopper, catalog::h100_pcie_80gb),
           detail::pow(0.5 * (989.4 / 756.5) * (1830.0 / 1620) * (1830.0 / 1620), 1 / 3.0)));
  // So slow a peak that power does not bound it.
  STATIC_CHECK(clock_share(catalog::hopper, catalog::h20) == 1.25);
  STATIC_CHECK(clock_share({}, catalog::h20) == 1);
  // What bounds products bounds attention.
  CONSTEXPR auto attention_under = [](power limit) {
    gpu_spec gpu = catalog::h100_sxm5_80gb;
    gpu.tdp = limit;
    return kernel_rates_of(replicated.setup, gpu, catalog::hopper).attention_backward;
  };
  STATIC_CHECK(near(attention_under(87.5_W), 0.5 * attention_under(700_W)));
  // Ada's cards for workstations are clocked so that none is bound more than the largest.
  CONSTEXPR device_efficiency of_rtx_6000_ada{
      .board_power = 300_W, .board_peak = 364.2_TFLOPS, .board_clock_MHz = 2505};
  STATIC_CHECK(clock_share(of_rtx_6000_ada, catalog::rtx_5000_ada) == 1);
  STATIC_CHECK(clock_share(of_rtx_6000_ada, catalog::rtx_4500_ada) == 1);
  STATIC_CHECK(clock_share(of_rtx_6000_ada, catalog::rtx_4000_ada) == 1);
  STATIC_CHECK(clock_share(of_rtx_6000_ada, catalog::rtx_2000_ada) == 1);
}

TEST_CASE("generations of devices") {
  STATIC_CHECK(catalog::efficiency_of(catalog::a100_sxm4_40gb).products ==
               catalog::ampere.products);
  STATIC_CHECK(catalog::efficiency_of(catalog::h200_sxm).products == catalog::hopper.products);
  STATIC_CHECK(catalog::efficiency_of(catalog::gb300).products == catalog::blackwell.products);
  STATIC_CHECK(catalog::efficiency_of(catalog::rtx_4090).products == catalog::geforce.products);
  // Stated at the rates of GeForce cards.
  STATIC_CHECK(catalog::efficiency_of(catalog::l40).products == catalog::geforce.products);
  STATIC_CHECK(catalog::efficiency_of(catalog::gb10).products == catalog::geforce.products);
  STATIC_CHECK(catalog::efficiency_of(catalog::l40s).products == catalog::workstation.products);
  STATIC_CHECK(catalog::efficiency_of(catalog::rtx_a6000).products ==
               catalog::workstation.products);
  STATIC_CHECK(catalog::efficiency_of(catalog::mi300x).products == catalog::cdna.products);
  STATIC_CHECK(catalog::efficiency_of(catalog::mi350p).products == catalog::cdna.products);
  STATIC_CHECK(catalog::efficiency_of(catalog::mi455x).products == catalog::cdna.products);
  STATIC_CHECK(*catalog::efficiency_of(catalog::rx_7900_xtx).name == '\0');
  STATIC_CHECK(catalog::efficiency_of(catalog::rtx_2000_ada).products ==
               catalog::workstation.products);
  STATIC_CHECK(catalog::efficiency_of(catalog::t4).products == catalog::turing.products);
  STATIC_CHECK(catalog::efficiency_of(catalog::rtx_2080_ti).products == catalog::geforce.products);
  STATIC_CHECK(*catalog::efficiency_of(catalog::p100_sxm2_16gb).name == '\0');
}

TEST_CASE("a range by stack holds the estimate") {
  CONSTEXPR range<duration> around = step_range(replicated, of_512);
  STATIC_CHECK(around.low() < replicated.step(of_512));
  STATIC_CHECK(replicated.step(of_512) < around.high());
  STATIC_CHECK(around.low() > 0.8 * replicated.step(of_512));
  CONSTEXPR stack_range known{
      .matmul_rate = {1, 1}, .element_rate = {1, 1}, .host = {1, 1}, .contention = {1, 1}};
  STATIC_CHECK(step_range(replicated, of_512, known).low() == replicated.step(of_512));
  STATIC_CHECK(step_range(replicated, of_512, known).high() == replicated.step(of_512));
}

TEST_CASE("each input of a stack alone has a part of its range") {
  CONSTEXPR step_ranges by = step_ranges_of(replicated, of_512);
  CONSTEXPR duration step = replicated.step(of_512);
  STATIC_CHECK(by.all == step_range(replicated, of_512));
  STATIC_CHECK(by.all.contains(by.matmul_rate) && by.matmul_rate.contains(step));
  STATIC_CHECK(by.all.contains(by.element_rate) && by.element_rate.contains(step));
  STATIC_CHECK(by.all.contains(by.host) && by.host.contains(step));
  STATIC_CHECK(by.all.contains(by.contention) && by.contention.contains(step));
  STATIC_CHECK(by.matmul_rate.high() > step);
  STATIC_CHECK(by.element_rate.low() < step);
  // It hides no exchange behind kernels, so that none contends.
  STATIC_CHECK(by.contention.is_point());
  CONSTEXPR stack_range slower_host{
      .matmul_rate = {1, 1}, .element_rate = {1, 1}, .host = {1, 3}, .contention = {1, 1}};
  STATIC_CHECK(step_range(replicated, of_512, slower_host) ==
               step_ranges_of(replicated, of_512, slower_host).host);
}

TEST_CASE("a link that nobody states has a part of the range") {
  CONSTEXPR auto on = [](const gpu_spec& gpu, known<bandwidth> stated) {
    roofline_time model = replicated;
    model.on = {.gpu = gpu, .gpus_per_node = 4, .inside_node = stated};
    return model;
  };
  CONSTEXPR batch_plan of_four{.data_parallel = 4};
  CONSTEXPR roofline_time unknown = on(catalog::rtx_4090, {});
  CONSTEXPR step_ranges by = step_ranges_of(unknown, of_four);
  STATIC_CHECK(by.all.contains(by.link) && by.link.contains(unknown.step(of_four)));
  STATIC_CHECK(by.link.high() == on(catalog::rtx_4090, 3_GBps).step(of_four));
  STATIC_CHECK(by.link.low() == on(catalog::rtx_4090, 22_GBps).step(of_four));
  STATIC_CHECK(link_range(unknown.on) == range<bandwidth>{3_GBps, 22_GBps});
  // What is stated, and what joins all, has none.
  STATIC_CHECK(step_ranges_of(on(catalog::rtx_4090, 12_GBps), of_four).link.is_point());
  STATIC_CHECK(step_ranges_of(on(catalog::h100_sxm5_80gb, {}), of_four).link.is_point());
  // A bridge may be missing; PCIe of generation 5 was measured at more.
  STATIC_CHECK(link_range({.gpu = catalog::rtx_a6000, .gpus_per_node = 2}) ==
               range<bandwidth>{3_GBps, catalog::rtx_a6000.peers->each_direction()});
  STATIC_CHECK(link_range({.gpu = catalog::rtx_5090, .gpus_per_node = 2}) ==
               range<bandwidth>{3_GBps, catalog::rtx_5090.pcie->each_direction()});
}

// Code of which no step was timed, and the most that it may cost the host; then a device likewise.
constexpr roofline_time untimed = [] {
  roofline_time model = replicated;
  model.setup.framework = catalog::torch_gpt;
  model.setup.framework.costs = {};
  return model;
}();
constexpr roofline_time with_costs = [] {
  roofline_time model = untimed;
  model.setup.framework.costs.host_per_operator = 97_us;
  model.setup.framework.costs.host_per_step = 60_ms;
  return model;
}();
constexpr roofline_time on_another = [] {
  roofline_time model = untimed;
  model.efficiency = {};
  return model;
}();
constexpr roofline_time reaches_least = [] {
  roofline_time model = on_another;
  model.efficiency.products = 0.58;
  return model;
}();

TEST_CASE("a stack that nobody timed has the range of others' costs") {
  CONSTEXPR step_ranges by = step_ranges_of(untimed, of_512);
  STATIC_CHECK(by.host.low() == untimed.step(of_512));
  STATIC_CHECK(by.host.high() == with_costs.step(of_512));
  STATIC_CHECK(by.contention.high() > untimed.step(of_512));
  STATIC_CHECK(step_ranges_of(untimed, of_512, {.untimed = {}}).host.is_point());
  constexpr stack_range contends{.matmul_rate = {1, 1},
                                 .element_rate = {1, 1},
                                 .host = {1, 1},
                                 .untimed = {.contention = 0.5}};
  CONSTEXPR range<duration> contended = step_range(untimed, of_512, contends);
  STATIC_CHECK(contended == step_ranges_of(untimed, of_512, contends).contention);
  STATIC_CHECK(contended.low() == untimed.step(of_512) && !contended.is_point());
  constexpr stack_range known{.matmul_rate = {1, 1}};
  STATIC_CHECK(step_ranges_of(on_another, of_512, known).matmul_rate ==
               range<duration>{on_another.step(of_512), reaches_least.step(of_512)});
}

constexpr auto checked_on(scaling_kind scaling, const gpu_spec& gpu) {
  roofline_time model = replicated;
  model.setup.framework = catalog::megatron_transformer_engine;
  model.setup.precision = bf16_megatron;
  model.setup.precision.fp8_linears = true;
  model.setup.precision.scaling = scaling;
  model.on.gpu = gpu;
  return validate(model);
}
TEST_CASE("scales of blocks are Hopper's, and those of MXFP8 Blackwell's") {
  STATIC_CHECK(checked_on(scaling_kind::tensor, catalog::rtx_4090));
  STATIC_CHECK(!checked_on(scaling_kind::blocks, catalog::rtx_4090));
  STATIC_CHECK(checked_on(scaling_kind::blocks, catalog::h100_sxm5_80gb));
  CONSTEXPR auto micro = checked_on(scaling_kind::micro, catalog::h100_sxm5_80gb);
  STATIC_CHECK(!micro);
  STATIC_CHECK(std::string_view(failure_text(micro.why()).c_str()) ==
               "scaling micro is not taken beside compute_capability 90; at least 100 is");
  STATIC_CHECK(checked_on(scaling_kind::micro, catalog::b200_sxm));
}

TEST_CASE("MX formats are of devices that have them") {
  constexpr auto on = [](const gpu_spec& gpu, scaling_kind scaling) {
    training_setup setup = replicated.setup;
    setup.precision = bf16_megatron;
    setup.precision.fp8_linears = true;
    setup.precision.scaling = scaling;
    return runs_on(gpu, setup);
  };
  STATIC_CHECK(on(catalog::mi355x, scaling_kind::micro));
  STATIC_CHECK(on(catalog::mi300x, scaling_kind::delayed));
  STATIC_CHECK(on(catalog::b200_sxm, scaling_kind::micro));
  STATIC_CHECK(!on(catalog::h100_sxm5_80gb, scaling_kind::micro));
  CONSTEXPR auto refused = on(catalog::mi300x, scaling_kind::micro);
  STATIC_CHECK(!refused);
  STATIC_CHECK(std::string_view(failure_text(refused.why()).c_str()).find("mi300x") !=
               std::string_view::npos);
}

// What exchanges of experts leave of a step, with as fast a network between nodes.
constexpr double exposed_experts(const framework& software,
                                 pipeline_schedule schedule,
                                 bandwidth network) {
  roofline_time model{.setup = {.model = catalog::qwen3_30b_a3b,
                                .sequence_length = 4096,
                                .precision = bf16_megatron,
                                .framework = software},
                      .on = {.gpu = catalog::h100_sxm5_80gb,
                             .nodes = 4,
                             .gpus_per_node = 8,
                             .between_nodes = network},
                      .efficiency = catalog::hopper};
  model.setup.parallelism.expert_parallel = 16;
  model.setup.parallelism.pipeline_parallel = 2;
  model.setup.parallelism.zero_stage = 1;
  model.setup.parallelism.schedule = schedule;
  return in(model.breakdown({1, 16, 8}).expert_communication, 1_s);
}

TEST_CASE("exchanges of experts hide behind kernels, in schedules that have some beside") {
  using schedule = pipeline_schedule;
  CONSTEXPR framework none = catalog::megatron_transformer_engine;
  CONSTEXPR framework both_ways = catalog::megatron_dual_pipe;
  CONSTEXPR double all = exposed_experts(none, schedule::one_f_one_b, 10_GBps);
  STATIC_CHECK(all > 0);
  STATIC_CHECK(near(exposed_experts(both_ways, schedule::one_f_one_b, 10_GBps), all));
  CONSTEXPR double left = exposed_experts(both_ways, schedule::dual_pipe, 10_GBps);
  STATIC_CHECK(left > 0);
  STATIC_CHECK(left < all);
  STATIC_CHECK(exposed_experts(both_ways, schedule::dual_pipe, 10000_GBps) == 0);
  // What is hidden does not grow as the network slows down.
  CONSTEXPR double slower = exposed_experts(none, schedule::one_f_one_b, 1_GBps) -
                            exposed_experts(both_ways, schedule::dual_pipe, 1_GBps);
  STATIC_CHECK(near(slower, all - left, 1e-9));
}

TEST_CASE("FlashAttention-2 is Ampere's") {
  constexpr auto on = [](const gpu_spec& gpu, attention_kernel attention) {
    training_setup setup = replicated.setup;
    setup.precision = fp16_mixed;
    setup.attention = attention;
    return runs_on(gpu, setup);
  };
  STATIC_CHECK(on(catalog::a100_sxm4_80gb, attention_kernel::flash));
  STATIC_CHECK(on(catalog::v100_sxm2_32gb, attention_kernel::automatic));
  CONSTEXPR auto refused = on(catalog::t4, attention_kernel::flash);
  STATIC_CHECK(!refused);
  STATIC_CHECK(std::string_view(failure_text(refused.why()).c_str()) ==
               "attention flash is not taken beside compute_capability 75; at least 80 is");
}

// Code that nobody timed may have costs of its kind, among them products faster than a device's.
constexpr roofline_time of_a_kind = [] {
  roofline_time model = untimed;
  model.setup.framework.costs = catalog::untimed_compiled;
  return model;
}();
TEST_CASE("a stack that nobody timed is around the costs of its kind") {
  CONSTEXPR step_ranges by = step_ranges_of(of_a_kind, of_512);
  CONSTEXPR duration step = of_a_kind.step(of_512);
  STATIC_CHECK(by.matmul_rate.low() < step && step < by.matmul_rate.high());
  STATIC_CHECK(by.element_rate.low() < step && step < by.element_rate.high());
  STATIC_CHECK(by.host.low() < step && step < by.host.high());
  STATIC_CHECK(by.contention.contains(step) && by.all.contains(step));
}

constexpr training_setup half_recomputed = [] {
  training_setup setup = replicated.setup;
  setup.recompute_layers = 15;
  return setup;
}();
constexpr training_setup in_fp8 = [] {
  training_setup setup = replicated.setup;
  setup.precision = bf16_mixed_with_fp8;
  return setup;
}();

// 10 layers of a stage, in one chunk and in five of two; 7, 8, 8 and 7 of four.
TEST_CASE("layers are recomputed in each chunk") {
  STATIC_CHECK(near(share_recomputed({.pipeline_parallel = 3}, 5), 0.5));
  STATIC_CHECK(near(share_recomputed({.pipeline_parallel = 3}, 11), 1));
  STATIC_CHECK(near(share_recomputed({.pipeline_parallel = 3, .virtual_pipeline = 5}, 1), 0.5));
  STATIC_CHECK(near(share_recomputed({.pipeline_parallel = 3, .virtual_pipeline = 5}, 2), 1));
  CONSTEXPR parallelism uneven{.pipeline_parallel = 4,
                               .split = {.embedding_layers = 1, .head_layers = 1}};
  STATIC_CHECK(near(share_recomputed(uneven, 7), 7 / 8.0));
  CONSTEXPR training_setup some = [] {
    training_setup setup = replicated.setup;
    setup.recompute_layers = 7;
    return setup;
  }();
  STATIC_CHECK(near(detail::recomputed_share(some, uneven), 28 / 30.0));
}

TEST_CASE("what a step achieves is its FLOPs over its time") {
  CONSTEXPR duration step = replicated.step(of_512);
  CONSTEXPR step_rates rates =
      rates_of(replicated.setup, replicated.on.gpu, of_512, step, attention_pairs::full);
  // Megatron-LM's own count: 96 b s l h^2 (1 + s / 6h + V / 16 l h), layers recomputed whole.
  CONSTEXPR double b = 512, s = 2048, l = 30, h = 3072, v = 51200;
  CONSTEXPR double hardware = 96 * b * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
  CONSTEXPR double layers = 72 * b * s * l * h * h * (1 + s / (6 * h));
  CONSTEXPR double model = layers + 6 * b * s * h * v;
  STATIC_CHECK(near(rates.hardware.value() * step.value() * 64, hardware, 1e-12));
  STATIC_CHECK(near(rates.model.value() * step.value() * 64, model, 1e-12));
  STATIC_CHECK(near(rates.hfu, rates.hardware.value() / 312e12));
  STATIC_CHECK(near(rates.mfu, rates.model.value() / 312e12));
  STATIC_CHECK(near(rates.tokens.value() * step.value(), b * s));
  // Half of the layers recomputed, half of what it adds.
  CONSTEXPR step_rates less = rates_of(half_recomputed, replicated.on.gpu, of_512, step);
  STATIC_CHECK(near(less.hfu - less.mfu, (rates.hfu - rates.mfu) / 2, 1e-9));
  // Of the peak of what linear layers multiply in.
  STATIC_CHECK(near(rates_of(in_fp8, catalog::h100_sxm5_80gb, of_512, step).mfu,
                    rates.model.value() / 1979e12,
                    1e-3));
}

// All schedules of equal stages take what their bubbles are published to take.
constexpr double bubble_of(pipeline_schedule schedule) {
  roofline_time model = on_a100({.pipeline_parallel = 3, .schedule = schedule}, 3);
  model.terms = {.ends = false, .pipeline_communication = false};
  return model.breakdown({.micro_batch = 2, .data_parallel = 8, .accumulation = 12}).bubble.value();
}

TEST_CASE("a step follows the schedule of its pipeline") {
  CONSTEXPR double one_by_one = bubble_of(pipeline_schedule::one_f_one_b);
  STATIC_CHECK(near(bubble_of(pipeline_schedule::gpipe), one_by_one));
  // (p - 1) (f + b - 2 w) instead of (p - 1) (f + b), with w of 10 layers of a stage
  CONSTEXPR double weights = [] {
    const roofline_time model = on_a100({.pipeline_parallel = 3}, 3);
    const kernel_rates on = kernel_rates_of(model.setup, model.on.gpu, model.efficiency);
    return 10 * cost_of_layer(model.setup, on, 2, layer_kind::dense, false).backward.weights;
  }();
  STATIC_CHECK(near(bubble_of(pipeline_schedule::zero_bubble), one_by_one - 2 * 2 * weights));
  STATIC_CHECK(validate(parallelism{.virtual_pipeline = 2}));
  STATIC_CHECK(validate(parallelism{.virtual_pipeline = 2, .schedule = pipeline_schedule::gpipe})
                   .why()
                   .code == errc::no_such_code);
}

constexpr roofline_time loading(bandwidth per_node, bool prefetches) {
  roofline_time model = replicated;
  model.loader = sample_loader{1_MB, per_node, prefetches};
  return model;
}

TEST_CASE("samples are read while the step is computed, or before it") {
  CONSTEXPR duration computed = replicated.step(of_512);
  // 64 samples of 1 MB a node
  CONSTEXPR step_breakdown quick = loading(1_GBps, true).breakdown(of_512);
  STATIC_CHECK(quick.data == 0_s);
  STATIC_CHECK(near(quick.total().value(), computed.value()));
  CONSTEXPR step_breakdown before = loading(1_GBps, false).breakdown(of_512);
  STATIC_CHECK(near(before.data.value(), 0.064));
  STATIC_CHECK(near(before.total().value(), computed.value() + 0.064));
  CONSTEXPR step_breakdown slow = loading(1_MBps, true).breakdown(of_512);
  // 32 samples to a half of a node, which reads as fast as a whole one
  STATIC_CHECK(
      near(loading(1_GBps, false).breakdown({.micro_batch = 8, .data_parallel = 4}).data.value(),
           0.032));
  STATIC_CHECK(near(slow.total().value(), 64));
  STATIC_CHECK(near(slow.data.value(), 64 - computed.value(), 1e-9));
  STATIC_CHECK(validate(loading(bandwidth{}, true)).why().code == errc::not_positive);
}

constexpr roofline_time straggler_slowdown(double by) {
  roofline_time model = replicated;
  model.straggler_slowdown = by;
  return model;
}

TEST_CASE("all wait for the slowest device") {
  CONSTEXPR step_breakdown even = replicated.breakdown(of_512);
  CONSTEXPR step_breakdown uneven = straggler_slowdown(1.1).breakdown(of_512);
  STATIC_CHECK(near(uneven.compute().value(), 1.1 * even.compute().value()));
  STATIC_CHECK(near(uneven.gradient_communication.value(), even.gradient_communication.value()));
  STATIC_CHECK(validate(straggler_slowdown(0.9)).why().code == errc::out_of_bounds);
  STATIC_CHECK(validate(straggler_slowdown(detail::infinity)).why().code == errc::not_finite);
}

// Of 1 GB among so many devices of a node.
constexpr double all_reduce_time(std::int64_t devices) {
  const training_setup setup{.model = catalog::gpt2, .sequence_length = 1024};
  const cluster on{.gpu = *measured_as(imaginary_device::imaginary, imaginary_device::in_full),
                   .gpus_per_node = 8};
  const time_terms terms{};
  return detail::layout_communication(setup, on, terms)
      .seconds(collective::all_reduce, 1e9, devices, 1);
}

TEST_CASE("an all-reduce that was measured is taken as it was") {
  STATIC_CHECK(near(all_reduce_time(2), 20e-6 + 1e9 / 200e9));
  STATIC_CHECK(near(all_reduce_time(8), 30e-6 + 1e9 / 120e9));
  // of four nobody measured it: by the link, whose ring sends 1.5 times the message
  STATIC_CHECK(all_reduce_time(4) > 1.5e9 / 300e9);
  STATIC_CHECK(all_reduce_time(4) < 1.5e9 / 200e9);
}

TEST_CASE("hidden gradients show by their last bucket") {
  CONSTEXPR step_breakdown step = [] {
    roofline_time model = replicated;
    model.setup.framework.costs.hides_gradients = true;
    model.terms.latency = false;
    return model.breakdown({.micro_batch = 8, .data_parallel = 64, .accumulation = 4});
  }();
  CONSTEXPR double all = replicated.breakdown({8, 64, 4}).gradient_communication.value();
  // 64 million of 3.6 billion gradients to a bucket, 57 of them, the last one not full
  STATIC_CHECK(step.gradient_communication.value() > 0);
  STATIC_CHECK(step.gradient_communication.value() < all / 56);
}

// A model's layers and head on one A10G, as LitGPT fine-tunes them.
constexpr roofline_time tuning(const trainable& trains) {
  return {.setup = {.model = catalog::mistral_7b_v0_1,
                    .trains = trains,
                    .sequence_length = 128,
                    .precision = bf16_pure,
                    .framework = catalog::lit_gpt},
          .on = {.gpu = catalog::a10g},
          .efficiency = catalog::efficiency_of(catalog::a10g)};
}
constexpr roofline_time with_adapters(const quantised_base& base) {
  return tuning({.what = training::adapters,
                 .adapters = {.rank = 32, .weights = number_format::bf16, .base = base}});
}
constexpr batch_plan of_two{.micro_batch = 2};

TEST_CASE("what does not train takes no gradient") {
  CONSTEXPR step_breakdown all = tuning({}).breakdown(of_two);
  CONSTEXPR step_breakdown none = tuning({.what = training::frozen}).breakdown(of_two);
  CONSTEXPR step_breakdown head = tuning({.what = training::head}).breakdown(of_two);
  CONSTEXPR step_breakdown last =
      tuning({.what = training::last_layers, .last_layers = 8}).breakdown(of_two);
  CONSTEXPR step_breakdown adapted = with_adapters({}).breakdown(of_two);
  STATIC_CHECK(none.forward == all.forward);
  STATIC_CHECK(none.backward == duration{} && none.optimizer == duration{});
  STATIC_CHECK(head.backward > duration{} && head.backward < 0.05 * all.backward);
  // a quarter of the layers, and the head
  STATIC_CHECK(last.backward > 0.25 * all.backward && last.backward < 0.35 * all.backward);
  // the product for the gradient of what was read is left, of two
  STATIC_CHECK(adapted.backward > 0.4 * all.backward && adapted.backward < 0.7 * all.backward);
  STATIC_CHECK(adapted.optimizer < 0.01 * all.optimizer);
  STATIC_CHECK(validate(tuning({.what = training::last_layers, .last_layers = 33})).why().code ==
               errc::out_of_bounds);
}

constexpr framework deepspeed = [] {
  framework made = catalog::hugging_face_llama;
  made.engine.is = &engine_classes::deepspeed;
  return made;
}();
constexpr roofline_time sharded_states(bool on_host) {
  return {.setup = {.model = catalog::llama_3_8b,
                    .sequence_length = 2048,
                    .precision = bf16_master,
                    .parallelism = {.zero_stage = 2, .optimizer_on_host = on_host},
                    .framework = deepspeed},
          .on = {.gpu = catalog::h100_sxm5_80gb, .gpus_per_node = 8},
          .efficiency = catalog::hopper};
}

// A rank's eighth: of AdamW 28 bytes for each parameter at the host's rate, and its gradient in
// fp32 and its weight in bf16 over PCIe 5 of 16 lanes.
TEST_CASE("a step on the host is bound by its memory and by PCIe") {
  CONSTEXPR batch_plan plan{.micro_batch = 1, .data_parallel = 8};
  CONSTEXPR step_breakdown on_device = sharded_states(false).breakdown(plan);
  CONSTEXPR step_breakdown on_host = sharded_states(true).breakdown(plan);
  CONSTEXPR double updated = 8'030'261'248 / 8.0;
  CONSTEXPR double copies = 6 / (32e9 * 16 / 8 * 128 / 130 * 0.877);
  STATIC_CHECK(near(on_host.optimizer.value(), updated * (28 / 40e9 + copies)));
  STATIC_CHECK(near((on_host.total() - on_host.optimizer).value(),
                    (on_device.total() - on_device.optimizer).value()));
  STATIC_CHECK(on_device.optimizer < 0.05 * on_host.optimizer);
  // what is on the host passes PCIe for every micro-batch
  CONSTEXPR auto offloaded = [](bool weights) {
    roofline_time made = sharded_states(weights);
    made.setup.precision = bf16_mixed;
    made.setup.parallelism.zero_stage = 3;
    made.setup.parallelism.weights_on_host = weights;
    made.setup.framework.engine.is = &engine_classes::fsdp2;
    return made.breakdown({.micro_batch = 1, .data_parallel = 8});
  };
  STATIC_CHECK(offloaded(true).parameter_communication > offloaded(false).parameter_communication);
  // a device whose link nobody knows
  CONSTEXPR auto refused = [] {
    roofline_time made = sharded_states(true);
    made.on.gpu.pcie = {};
    return validate(made).why().code;
  };
  STATIC_CHECK(refused() == errc::not_known);
}

// Of scales each rank has all, on the device.
TEST_CASE("of a base in four bits half a byte of each weight comes from the host") {
  const auto gathers = [](bool in_four_bits) {
    roofline_time made = sharded_states(true);
    made.on.gpu.pcie = pcie_link{.generation = 5, .lanes = 1};  // so that nothing hides the copies
    made.setup.precision = bf16_under_autocast;
    made.setup.trains.what = training::adapters;
    made.setup.trains.adapters.rank = 16;
    if (in_four_bits) made.setup.trains.adapters.base = double_quantised_base;
    made.setup.parallelism.zero_stage = 3;
    made.setup.parallelism.weights_on_host = true;
    made.setup.framework.engine.is = &engine_classes::fsdp2;
    return made.breakdown({.micro_batch = 1, .data_parallel = 8}).parameter_communication;
  };
  STATIC_CHECK(gathers(false) > 3 * gathers(true));
}

TEST_CASE("four-bit matrices are made whole for every product") {
  CONSTEXPR step_breakdown whole = with_adapters({}).breakdown(of_two);
  CONSTEXPR step_breakdown four_bit = with_adapters(four_bit_base).breakdown(of_two);
  CONSTEXPR step_breakdown twice = with_adapters(double_quantised_base).breakdown(of_two);
  // 32 layers of 218,103,808 weights are read in 4.5 bits and written in 16
  CONSTEXPR roofline_time on = with_adapters({});
  CONSTEXPR double rate =
      kernel_rates_of(on.setup, on.on.gpu, on.efficiency).elements * dequantising_share;
  CONSTEXPR double seconds = 32 * 218103808.0 * 20.5 / 8 / rate;
  STATIC_CHECK(near((four_bit.forward - whole.forward).value(), seconds, 1e-9));
  STATIC_CHECK(near((four_bit.backward - whole.backward).value(), seconds, 1e-9));
  STATIC_CHECK(twice.forward > four_bit.forward);
  // As published: 206 ms more of a micro-batch of two of up to 512 tokens. Launches hide some of it
  // where there are few tokens, and their number is not known.
  CONSTEXPR double longer = [] {
    const auto step = [](const quantised_base& base) {
      roofline_time model = with_adapters(base);
      model.setup.sequence_length = 256;
      return model.step(of_two);
    };
    return (step(four_bit_base) - step({})).value();
  }();
  STATIC_CHECK(near(longer, 0.206, 0.06));
  STATIC_CHECK(validate(with_adapters({.block = -64})).why()[fact::adapter_base_block] == -64);
  STATIC_CHECK(validate(with_adapters({.block = 64, .scale_block = -1})).why().code ==
               errc::out_of_bounds);
  // What is computed again makes them whole again.
  CONSTEXPR step_breakdown again = [] {
    roofline_time model = with_adapters(four_bit_base);
    model.setup.recompute = recompute_mode::full;
    return model.breakdown(of_two);
  }();
  STATIC_CHECK(again.recompute.value() > seconds);
}

constexpr roofline_time t5_with(std::int64_t length, std::int64_t target) {
  return {.setup = {.model = catalog::t5_base,
                    .sequence_length = length,
                    .target_length = target,
                    .precision = bf16_mixed,
                    .framework = catalog::hugging_face_t5},
          .on = {.gpu = catalog::a100_sxm4_80gb},
          .efficiency = catalog::ampere};
}

TEST_CASE("a decoder's layers see its own tokens, and its encoder's across") {
  const auto step = [](std::int64_t length, std::int64_t target) {
    return t5_with(length, target).step({.micro_batch = 8});
  };
  STATIC_CHECK(step(512, 0) == step(512, 512));
  STATIC_CHECK(step(512, 128) < step(512, 512));
  STATIC_CHECK(step(512, 2048) > step(512, 512));
  // What the decoder reads of its encoder grows with that.
  CONSTEXPR auto cross = [](std::int64_t length) {
    return cost_of_layer(t5_with(length, 128).setup, flops_alone, 1, layer_kind::cross, false);
  };
  STATIC_CHECK(cross(1024).forward.attention > cross(512).forward.attention);
  STATIC_CHECK(cross(1024).forward.products > cross(512).forward.products);
  // Twelve encoder layers of 512 tokens, as many of the decoder of 128.
  CONSTEXPR double encoder =
      cost_of_layer(t5_with(512, 128).setup, flops_alone, 1, layer_kind::dense, false)
          .forward.products;
  STATIC_CHECK(cross(512).forward.products < encoder);
}

TEST_CASE("ranks exchange what an image's tokens are, and every text of a sample is timed") {
  CONSTEXPR auto parts = [] {
    roofline_time model{.setup = {.model = catalog::vit_base_patch16_224,
                                  .precision = bf16_mixed,
                                  .framework = catalog::hugging_face_vit},
                        .on = {.gpu = catalog::h100_sxm5_80gb, .gpus_per_node = 2},
                        .efficiency = catalog::hopper};
    model.setup.parallelism.tensor_parallel = 2;
    return model.breakdown({.micro_batch = 32});
  }();
  STATIC_CHECK(parts.tensor_communication > 1_ms);
  CONSTEXPR auto texts = [](std::int64_t encodings) {
    const training_setup setup{.model = catalog::bert_base_uncased,
                               .sequence_length = 128,
                               .encodings = encodings,
                               .precision = bf16_mixed};
    return cost_of_layer(setup, flops_alone, 16, layer_kind::dense, false).forward.products;
  };
  STATIC_CHECK(near(texts(2), 2 * texts(1)));
}

TEST_CASE("code that nobody timed is as fast as its like that was") {
  CONSTEXPR auto step = [](framework by) {
    by.engine.is = &engine_classes::fsdp2;
    const roofline_time model{.setup = {.model = catalog::llama_3_1_8b,
                                        .sequence_length = 8192,
                                        .precision = bf16_mixed,
                                        .parallelism = {.zero_stage = 3},
                                        .framework = by},
                              .on = {.gpu = catalog::h100_sxm5_80gb,
                                     .nodes = 16,
                                     .gpus_per_node = 8,
                                     .between_nodes = 400_GBps},
                              .efficiency = catalog::hopper};
    return model.step({.data_parallel = 128});
  };
  STATIC_CHECK(near(step(catalog::hugging_face_llama) / step(catalog::torchtitan), 1, 0.01));
  STATIC_CHECK(is_timed(catalog::torchtitan) && is_timed(catalog::torch_llama));
  STATIC_CHECK(!is_timed(catalog::hugging_face_llama) && !is_timed(catalog::lit_gpt) &&
               !is_timed(catalog::megatron_core) && !is_timed(framework{}));
}

// What a step of a second achieves, in 64 copies of so many devices.
constexpr step_rates rates_in_a_second(const parallelism& layout, std::int64_t encodings) {
  training_setup setup = replicated.setup;
  setup.parallelism = layout;
  setup.encodings = encodings;
  return rates_of(setup, replicated.on.gpu, of_512, 1_s);
}

TEST_CASE("the devices of a copy share its work, and each text of a sample is work") {
  CONSTEXPR step_rates whole = rates_in_a_second({}, 1);
  CONSTEXPR step_rates divided =
      rates_in_a_second({.tensor_parallel = 2, .pipeline_parallel = 3, .context_parallel = 5}, 1);
  STATIC_CHECK(whole.tokens.value() == 512.0 * 2048 && divided.tokens == whole.tokens);
  STATIC_CHECK(near(30 * divided.model.value(), whole.model.value()));
  STATIC_CHECK(near(30 * divided.hardware.value(), whole.hardware.value()));
  STATIC_CHECK(near(30 * divided.mfu, whole.mfu) && near(30 * divided.hfu, whole.hfu));
  CONSTEXPR step_rates of_pairs = rates_in_a_second({}, 2);
  STATIC_CHECK(of_pairs.tokens.value() == 2 * whole.tokens.value());
  STATIC_CHECK(near(of_pairs.model.value(), 2 * whole.model.value()));
}
