// What layers take on one rank, against what flops.hpp counts and against what ranks, micro-batches
// and passes must have alike: whatever the model.

#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/flops.hpp>
#include <gpuplan/time/layers.hpp>

#include <cstdint>
#include <string>
#include <utility>

#include "check.hpp"

using namespace gpuplan;

namespace {

// Nothing but FLOPs takes time, one second each; each block of queries finds an SM.
constexpr kernel_rates flops_alone{.linear = 1,
                                   .linear_bytes = 2,
                                   .half = 1,
                                   .attention_forward = 1,
                                   .attention_backward = 1,
                                   .bytes = detail::infinity,
                                   .elements = detail::infinity,
                                   .in_waves = false,
                                   .sms = 1};

layer_cost of_layers(const training_setup& setup, std::int64_t micro_batch) {
  layer_cost sum;
  const transformer& model = setup.model;
  for (std::int64_t layer = 0; layer < model.num_hidden_layers; ++layer)
    sum =
        sum + cost_of_layer(
                  setup, flops_alone, micro_batch, model.kind_of(layer), model.is_windowed(layer));
  for (std::int64_t layer = 0; layer < model.num_decoder_layers; ++layer)
    sum = sum + cost_of_layer(setup, flops_alone, micro_batch, layer_kind::cross, false);
  return sum;
}
layer_cost of_all(const training_setup& setup, std::int64_t micro_batch) {
  return of_layers(setup, micro_batch) + cost_of_input(setup, flops_alone, micro_batch) +
         cost_of_output(setup, flops_alone, micro_batch);
}

training_setup setup_of(const transformer& model) {
  const std::int64_t positions = model.position_rows;
  return {.model = model,
          .sequence_length = model.kind == model_kind::vision    ? 0
                             : positions != 0 && positions < 512 ? 64
                                                                 : 512,
          .precision = bf16_pure};
}

bool near(double a, double b, double within = 1e-9) {
  return detail::abs(a - b) <= within * detail::abs(b);
}

// Models of one stack of layers without further predictions, whose shape is known.
template <class Visit>
void for_each_model(const Visit& visit) {
  for (const catalog::published_model& each : catalog::models) {
    if (!each.has_shape || each.shape->mtp_layers != 0) continue;
    CAPTURE(std::string(each.id));
    visit(setup_of(*each.shape));
  }
  transformer mixing = catalog::llama_3_8b;
  mixing.mamba = {.num_heads = 64, .head_dim = 64, .state_size = 128, .n_groups = 8};
  mixing.linear = {
      .num_key_heads = 16, .key_head_dim = 128, .num_value_heads = 32, .value_head_dim = 128};
  mixing.num_hidden_layers = 6;
  mixing.hybrid_pattern = {"M-*GM-"};
  visit(setup_of(mixing));
}

}  // namespace

TEST_CASE("a step over every model takes the operations that are counted, whatever trains") {
  trainable adapters{.what = training::adapters};
  adapters.adapters.targets = {.query = true, .value = true, .up = true, .down = true};
  adapters.adapters.rank = 8;
  int compared = 0;
  for (const trainable& trains : {trainable{},
                                  trainable{.what = training::head},
                                  trainable{.what = training::frozen},
                                  adapters})
    for_each_model([&](training_setup setup) {
      // Of a pooler, a dense layer before the head and images' patches one of both says more.
      const transformer& model = setup.model;
      if (trains.what != training::full &&
          (model.kind != model_kind::decoder || model.embedding_dim != 0 ||
           model.head != head_kind::language_model))
        return;
      setup.trains = trains;
      const flop_counts counted = flops(setup.model,
                                        {.sequence_length = setup.sequence_length,
                                         .trains = trains,
                                         .pairs = attention_pairs::visible,
                                         // of adapters one layer too many
                                         .input_requires_grad = trains.what == training::adapters});
      double between_tokens = 0;  // which the backward pass computes anew
      for (const operator_kind kind : {operator_kind::scores,
                                       operator_kind::weighted_values,
                                       operator_kind::recurrence,
                                       operator_kind::convolution})
        between_tokens += counted[kind].backward;
      const layer_cost whole = of_all(setup, 3);
      const int what = static_cast<int>(trains.what);
      CAPTURE(what);
      // Convolutions are read and written in the kernels of the state.
      const double forward =
          counted.forward().value() - counted[operator_kind::convolution].forward;
      CHECK(near(whole.forward.products + whole.forward.attention, 3 * forward));
      CHECK(near(whole.backward.products, 3 * (counted.backward().value() - between_tokens)));
      // Scores, three products for the gradients of what they are of, and values'.
      const double of_layers = between_tokens == 0 ? 0 : 2.5 * whole.forward.attention;
      CHECK(near(whole.backward.attention, of_layers));
      ++compared;
    });
  CHECK(compared > 500);
}

TEST_CASE("adapters are folded into the matrices of all experts once for a forward") {
  training_setup setup = setup_of(catalog::mixtral_8x7b_v0_1);
  setup.trains.what = training::adapters;
  setup.trains.adapters.rank = 8;
  setup.trains.adapters.targets = {.query = true, .expert_gate_up = true, .expert_down = true};
  const flop_counts counted = flops(setup.model,
                                    {.sequence_length = setup.sequence_length,
                                     .trains = setup.trains,
                                     .pairs = attention_pairs::visible,
                                     .input_requires_grad = true});
  const double between_tokens =
      counted[operator_kind::scores].backward + counted[operator_kind::weighted_values].backward;
  const layer_cost one = of_all(setup, 1);
  CHECK(near(one.forward.products + one.forward.attention, counted.forward().value()));
  CHECK(near(one.backward.products, counted.backward().value() - between_tokens));
  // Twice: to be checked, and to be read. Three matrices of 4096 x 14336 for each of 8 experts.
  const double once = 2 * 8.0 * 3 * 4096 * 14336 * 8 * 32;
  const trainable folded = setup.trains;
  setup.trains.adapters.targets = {.query = true};
  const double forward_of_one = one.forward.products - of_all(setup, 1).forward.products;
  CHECK(near(forward_of_one, 2 * once));
  const double without = of_all(setup, 3).forward.products;
  setup.trains = folded;
  CHECK(near(of_all(setup, 3).forward.products - without, 2 * once));
}

namespace {

// As Transformer Engine does it; without biases, whose gradients each rank sums.
void fuse(training_setup& setup) {
  setup.framework = catalog::megatron_transformer_engine;
  setup.framework.costs.element_rate = 1;
  transformer& model = setup.model;
  model.attention_bias = model.attention_out_bias = model.mlp_bias = model.fused_qkv = false;
  model.moe.router_bias = false;
}

}  // namespace

TEST_CASE("ranks share a layer's work, and exchange nothing where they are alone") {
  int divided = 0;
  for_each_model([&](training_setup setup) {
    fuse(setup);
    setup.framework = {};  // whose rings add nothing up
    setup.framework.implementation.compiles_layers = true;
    const transformer& model = setup.model;
    const layer_cost whole = of_layers(setup, 2);
    CHECK(whole.forward.reductions + whole.backward.reductions == 0);
    CHECK(whole.forward.routings + whole.backward.routings == 0);
    CHECK(whole.forward.passed_on + whole.backward.passed_on == 0);
    const auto layers = static_cast<double>(model.layers());
    const bool has_experts = model.moe.num_experts != 0;
    for (const std::int64_t tensor : {1, 2})
      for (const std::int64_t context : {1, 2, 4}) {
        if (model.num_attention_heads % tensor != 0 || model.key_value_heads() % tensor != 0 ||
            (tensor > 1 && model.mamba.num_heads != 0))
          continue;
        setup.parallelism = {.tensor_parallel = tensor,
                             .expert_parallel = has_experts ? tensor : 1,
                             .context_parallel = context,
                             .sequence_parallel = true};
        const layer_cost part = of_layers(setup, 2);
        const auto ranks = static_cast<double>(tensor * context);
        CAPTURE(tensor);
        CAPTURE(context);
        CHECK(near(ranks * part.forward.products, whole.forward.products));
        CHECK(near(ranks * part.backward.products, whole.backward.products));
        CHECK(near(ranks * part.backward.weights, whole.backward.weights));
        CHECK(near(ranks * part.forward.attention, whole.forward.attention));
        if (!model.is_latent()) {  // each rank norms all that heads share
          CHECK(near(ranks * part.forward.elements, whole.forward.elements));
          CHECK(near(ranks * part.backward.elements, whole.backward.elements));
        }
        CHECK(part.forward.operators == whole.forward.operators);
        CHECK(part.backward.operators == whole.backward.operators);
        CHECK(part.forward.reductions == part.backward.reductions);
        CHECK((part.forward.reductions > 0) == (tensor > 1));
        CHECK(part.forward.reductions <= 3 * layers);
        CHECK(part.forward.routings == part.backward.routings);
        CHECK((part.forward.routings > 0) == (tensor > 1 && has_experts));
        CHECK(part.forward.routings <= 2 * layers);
        CHECK((part.forward.passed_on + part.forward.exchanged > 0) == (context > 1));
        ++divided;
      }
  });
  CHECK(divided > 900);
}

TEST_CASE(
    "a ring passes on the keys and values of all other ranks, and with them their gradients") {
  for (const transformer& model : {catalog::gpt2, catalog::llama_3_8b, catalog::mixtral_8x7b_v0_1})
    for (const std::int64_t ranks : {2, 4, 8}) {
      training_setup setup = setup_of(model);
      setup.parallelism.context_parallel = ranks;
      // Of two bytes each, of a micro-batch of 3.
      const std::int64_t of_token = 2 * 2 * model.key_value_heads() * model.query_dim();
      const std::int64_t others = 3 * setup.sequence_length / ranks * (ranks - 1);
      const pass_cost forward = of_layers(setup, 3).forward;
      const pass_cost backward = of_layers(setup, 3).backward;
      const auto expected = static_cast<double>(others * of_token * model.num_hidden_layers);
      CHECK(near(forward.passed_on, expected));
      CHECK(near(backward.passed_on, 2 * expected));
    }
}

TEST_CASE("ranks that gather keys and values get those of all others") {
  const transformer& model = catalog::llama_3_8b;
  training_setup setup = setup_of(model);
  setup.framework = catalog::torchtitan_2026;
  for (const std::int64_t ranks : {2, 4}) {
    setup.parallelism.context_parallel = ranks;
    const layer_cost cost = of_layers(setup, 3);
    CHECK(cost.forward.passed_on == 0);
    CHECK(cost.forward.exchanges == 2 * model.num_hidden_layers);
    // Of two bytes each, of all tokens; an all-to-all leaves a rank's own part where it is.
    const std::int64_t all = 3 * setup.sequence_length * model.num_hidden_layers * 2 *
                             model.key_value_heads() * model.query_dim();
    CHECK(near(cost.forward.exchanged, static_cast<double>(2 * all)));
    CHECK(cost.backward.exchanged == cost.forward.exchanged);
  }
}

TEST_CASE("Transformer Engine adds up what a ring's parts give") {
  const transformer& model = catalog::llama_3_8b;
  training_setup setup = setup_of(model);
  setup.framework = catalog::megatron_transformer_engine;
  const layer_cost whole = of_layers(setup, 3);
  for (const std::int64_t ranks : {2, 4, 8}) {
    setup.parallelism.context_parallel = ranks;
    const layer_cost part = of_layers(setup, 3);
    const std::int64_t tokens = 3 * setup.sequence_length * model.num_hidden_layers;
    const std::int64_t results = tokens * model.num_attention_heads * model.query_dim();
    const std::int64_t passed_on = tokens * 2 * model.key_value_heads() * model.query_dim();
    // A copy, and for each further part two that are read and one that is written, of 2 bytes each;
    // keys and values are copied once, their gradients added for each part.
    const std::int64_t added = 2 * (2 + 3 * (ranks - 1)) * results;
    const auto all = static_cast<double>(ranks);
    const double rate = setup.framework.costs.element_rate;
    CHECK(near(rate * (all * part.forward.elements - whole.forward.elements),
               static_cast<double>(added + 2 * 2 * passed_on)));
    CHECK(near(rate * (all * part.backward.elements - whole.backward.elements),
               static_cast<double>(added + 2 * 3 * ranks * passed_on)));
    CHECK(part.forward.operators - whole.forward.operators ==
          3 * all * static_cast<double>(model.num_hidden_layers));
  }
}

TEST_CASE("ranks that share a sequence hand each other an equal part of what a state space mixes") {
  transformer model = catalog::llama_3_8b;
  model.mamba = {.num_heads = 64, .head_dim = 64, .state_size = 128, .n_groups = 8};
  model.num_hidden_layers = 1;
  model.hybrid_pattern = {"M"};
  training_setup setup = setup_of(model);
  const auto exchanged = [&](std::int64_t ranks) {
    setup.parallelism.context_parallel = ranks;
    const layer_cost cost = of_layers(setup, 3);
    CHECK(cost.forward.passed_on == 0);
    CHECK(cost.forward.exchanges == (ranks == 1 ? 0 : 6));
    CHECK(cost.forward.exchanges == cost.backward.exchanges);
    CHECK(cost.forward.exchanged == cost.backward.exchanged);
    return cost.forward.exchanged;
  };
  CHECK(exchanged(1) == 0);
  const double of_two = exchanged(2);
  CHECK(of_two > 0);
  for (const std::int64_t ranks : {4, 8})
    CHECK(near(exchanged(ranks), 2 * of_two / static_cast<double>(ranks)));
}

TEST_CASE("ranks that exchange heads give each query, key and value, and each result") {
  for (const transformer& model : {catalog::gpt2, catalog::llama_3_8b})
    for (const std::int64_t ranks : {1, 2, 4}) {
      training_setup setup = setup_of(model);
      setup.framework = catalog::megatron_transformer_engine;
      setup.parallelism.context_parallel = ranks;
      setup.context_exchange = context_exchange::a2a;
      const layer_cost cost = of_layers(setup, 3);
      CHECK(cost.forward.passed_on == 0);
      CHECK(cost.forward.exchanges == (ranks == 1 ? 0 : 4 * model.num_hidden_layers));
      const std::int64_t heads = 2 * (model.num_attention_heads + model.key_value_heads());
      const auto expected = static_cast<double>(2 * 3 * setup.sequence_length / ranks * heads *
                                                model.query_dim() * model.num_hidden_layers);
      CHECK(near(cost.forward.exchanged, ranks == 1 ? 0 : expected));
      CHECK(cost.backward.exchanged == cost.forward.exchanged);
    }
}

TEST_CASE("dropout of a fused layer writes a mask of a byte for each element of the stream") {
  for_each_model([&](training_setup setup) {
    fuse(setup);
    const layer_cost without = of_layers(setup, 2);
    setup.dropout = 0.1;
    const layer_cost with = of_layers(setup, 2);
    const double masks = with.forward.elements - without.forward.elements;
    const double stream = 2 * static_cast<double>(setup.model.hidden_size) *
                          static_cast<double>(tokens_of_sequence(setup, false));
    // Once or twice a layer, of decoders that read an encoder three times.
    const double each = masks / stream / static_cast<double>(setup.model.layers());
    CHECK((each >= 1 - 1e-9 && each <= 3 + 1e-9));
    CHECK(near(masks / stream, detail::floor(masks / stream + 0.5)));
    CHECK(with.backward.elements >= without.backward.elements + masks);
    CHECK(with.forward.operators == without.forward.operators);
  });
}

TEST_CASE("dropout of an eager layer is an operator more for each mask that it writes") {
  for_each_model([&](training_setup setup) {
    setup.framework = catalog::torch_gpt;
    setup.attention = attention_kernel::flash;
    const layer_cost without = of_layers(setup, 2);
    setup.dropout = 0.1;
    const layer_cost with = of_layers(setup, 2);
    const double stream = 2 * static_cast<double>(setup.model.hidden_size) *
                          static_cast<double>(tokens_of_sequence(setup, false));
    // A value is read and written, and a mask of a byte.
    const double masks = (with.forward.elements - without.forward.elements) / stream / (2 * 2 + 1);
    const double each = masks / static_cast<double>(setup.model.layers());
    CHECK((each >= 1 - 1e-9 && each <= 3 + 1e-9));
    CHECK(near(with.forward.operators - without.forward.operators, masks));
  });
}

TEST_CASE("dropout of adapters is an operator each way for what each of them reads") {
  training_setup setup = setup_of(catalog::llama_3_8b);
  setup.framework = catalog::hugging_face_llama;
  setup.trains.what = training::adapters;
  setup.trains.adapters = {.rank = 8, .targets = {.query = true, .down = true}};
  const auto cost = [&](double dropout) {
    setup.trains.adapters.dropout = dropout;
    return cost_of_layer(setup, flops_alone, 2, layer_kind::dense, false);
  };
  const layer_cost without = cost(0);
  const layer_cost with = cost(0.1);
  const double read = 2 * static_cast<double>(setup.sequence_length) * (4096 + 14336);
  for (const auto& [more, less] :
       {std::pair{with.forward, without.forward}, std::pair{with.backward, without.backward}}) {
    CHECK(near(more.elements - less.elements, read * (2 + 2 + 1)));
    CHECK(near(more.operators - less.operators, 2));
  }
}

TEST_CASE("gate and up of experts that are clamped are read and written once more, each way") {
  training_setup setup = setup_of(catalog::gpt_oss_120b);
  setup.framework = catalog::megatron_transformer_engine;
  REQUIRE(setup.model.clamped_gate_up);
  const auto cost = [&](bool clamps, const framework& code = catalog::megatron_transformer_engine) {
    setup.framework = code;
    setup.model.clamped_gate_up = clamps;
    return cost_of_layer(setup, flops_alone, 2, layer_kind::experts, false);
  };
  // Of both halves, of four experts a token.
  const double each = 2 * static_cast<double>(setup.sequence_length) * 4 * 2 * 2880;
  const auto more = [&](const framework& code, pass_cost layer_cost::*of) {
    return (cost(true, code).*of).elements - (cost(false, code).*of).elements;
  };
  // Clamped, and put together: read and written twice.
  CHECK(near(more(catalog::megatron_transformer_engine, &layer_cost::forward), each * 4 * 2));
  // Compared with three bounds, which makes a byte each; a choice by these; and one tensor again.
  const double compared = 3 * (2 + 1) / 2.0 + 3 / 2.0;
  CHECK(near(more(catalog::megatron_transformer_engine, &layer_cost::backward),
             each * (compared + (1 + 2 + 2) + 2 * 2)));
  CHECK(near(more(catalog::hugging_face_gpt_oss, &layer_cost::forward), each * 2 * 2));
}

TEST_CASE("a lookup reads a row of each token and writes it, and dropout once more") {
  training_setup setup = setup_of(catalog::llama_3_8b);
  const double row = 2 * 512 * 4096 * 2.0;  // of two sequences, in bytes
  CHECK(cost_of_input(setup, flops_alone, 2).forward.elements == 2 * row);
  setup.dropout = 0.1;
  CHECK(cost_of_input(setup, flops_alone, 2).forward.elements == 4 * row);
  // Each gradient is read, and added to its row, whose sum is of four bytes.
  CHECK(cost_of_input(setup, flops_alone, 2).backward.elements == 3 * row + row / 2 * 4);
  CHECK(cost_of_input(setup, flops_alone, 2).forward.reductions == 0);
  setup.parallelism.tensor_parallel = 2;  // of which each has a part of the table
  CHECK(cost_of_input(setup, flops_alone, 2).forward.reductions == 1);
  CHECK(cost_of_input(setup, flops_alone, 2).backward.reductions == 0);
  setup.trains.what = training::frozen;
  CHECK(cost_of_input(setup, flops_alone, 2).backward.elements == 0);
}

namespace {

// What a layer of LLaMA moves however few its tokens.
double moved_of_weights(const training_setup& setup) {
  const auto moved = [&](std::int64_t micro_batch) {
    return cost_of_layer(setup, flops_alone, micro_batch, layer_kind::dense, false)
        .forward.elements;
  };
  return 2 * moved(1) - moved(2);
}

}  // namespace

TEST_CASE("weights are cast for each micro-batch under autocast, and four-bit ones made whole") {
  const double weights = 4096.0 * (4096 + 1024 + 1024 + 4096) + 3 * 4096.0 * 14336;
  training_setup setup = setup_of(catalog::llama_3_8b);
  setup.framework = catalog::torch_gpt;
  const double rounding = 1e-6 * weights;
  CHECK(detail::abs(moved_of_weights(setup)) < rounding);
  setup.precision = bf16_mixed;
  CHECK(near(moved_of_weights(setup), weights * (4 + 2)));
  setup.trains.what = training::adapters;
  CHECK(near(moved_of_weights(setup), weights * (4 + 2)));
  // Codes of half a byte, a scale of four bytes for 64 of them, and the matrix in bf16.
  setup.trains.adapters.base = {.block = 64};
  CHECK(near(moved_of_weights(setup), weights * (0.5 + 4.0 / 64 + 2) / dequantising_share));
  setup.precision = bf16_pure;
  CHECK(near(moved_of_weights(setup), weights * (0.5 + 4.0 / 64 + 2) / dequantising_share));

  // Of each pass one kernel for each of seven matrices.
  setup.trains.adapters.rank = 8;
  training_setup whole = setup;
  whole.trains.adapters.base = {};
  const auto cost = [](const training_setup& of) {
    return cost_of_layer(of, flops_alone, 2, layer_kind::dense, false);
  };
  CHECK(cost(setup).forward.operators - cost(whole).forward.operators == 7);
  CHECK(cost(setup).backward.operators - cost(whole).backward.operators == 7);
}

TEST_CASE("an adapter's result is scaled, and added to its layer's") {
  training_setup setup = setup_of(catalog::llama_3_8b);
  setup.framework.costs.element_rate = 1;
  setup.trains.what = training::adapters;
  setup.trains.adapters = {.rank = 8, .targets = {.query = true}};
  training_setup more = setup;
  more.trains.adapters.targets.value = true;
  const auto cost = [](const training_setup& of) {
    return cost_of_layer(of, flops_alone, 2, layer_kind::dense, false).forward.elements;
  };
  // Of eight heads of 128: a product is read, scaled and written, and added to what stands there.
  const double values = 2 * 512 * 8 * 128;
  CHECK(cost(more) - cost(setup) == (2 + 3) * 2 * values);
}

TEST_CASE(
    "operands of products in fp8 are read once and written in two layouts, of gradients too") {
  training_setup setup = setup_of(catalog::llama_3_8b);
  setup.framework = catalog::torch_gpt;
  const auto cost = [](const training_setup& of) {
    kernel_rates on = flops_alone;
    on.linear_bytes = of.precision.fp8_linears ? 1 : 2;
    return cost_of_layer(of, on, 2, layer_kind::dense, false);
  };
  training_setup cast = setup;
  cast.precision = bf16_with_fp8;
  const double bytes = 2 + 2 * 1;
  const double tokens = 2 * 512;
  const double weights = 4096.0 * (4096 + 1024 + 1024 + 4096) + 3 * 4096.0 * 14336;
  // Query, key and value, attention's output, gate and up, and down.
  const double inputs = 3 * 4096 + 4096 + 2 * 4096 + 14336;
  const double outputs = 4096 + 1024 + 1024 + 4096 + 2 * 14336 + 4096;
  const auto forward = [&](const training_setup& of) { return cost(of).forward.elements; };
  const auto backward = [&](const training_setup& of) { return cost(of).backward.elements; };
  CHECK(near(forward(cast) - forward(setup), bytes * (tokens * inputs + weights)));
  CHECK(near(backward(cast) - backward(setup), bytes * tokens * outputs));
  // Transformer Engine keeps the weights that it has cast.
  setup.framework.implementation.transformer_engine = true;
  cast.framework = setup.framework;
  CHECK(near(forward(cast) - forward(setup), bytes * tokens * inputs));
}

TEST_CASE("biases' gradients are sums, which take as many times as long as a device's sums do") {
  training_setup setup = setup_of(catalog::gpt2);
  setup.framework = catalog::torch_gpt;
  const auto moved = [&](double sums) {
    kernel_rates on = flops_alone;
    on.sums = sums;
    return cost_of_layer(setup, on, 2, layer_kind::dense, false).backward.elements;
  };
  // Of queries, keys and values, of attention's output, and of the MLP's two.
  const double biases = 2 * 512 * 768 * (3 + 1 + 4 + 1.0) * 2;
  CHECK(near(moved(3) - moved(1), 2 * biases));
  CHECK(moved(0.5) == moved(1));
}

TEST_CASE("scores in memory are scaled, masked, cast and made a softmax, each by itself") {
  // What is moved of each score of GPT-2's.
  struct moved {
    double forward, backward;
  };
  const auto of_score = [](const precision_recipe& recipe, double dropout) {
    training_setup setup = setup_of(catalog::gpt2);
    setup.framework = catalog::torch_gpt;
    setup.framework.costs.score_traffic = 1;
    setup.attention = attention_kernel::eager;
    setup.precision = recipe;
    setup.dropout = dropout;
    setup.sequence_length = 128;
    layer_kernels kernels;
    static_cast<void>(
        cost_of_layer(setup, flops_alone, 2, layer_kind::dense, false, true, &kernels));
    const double scores = 2 * 12 * 128 * 128;
    return moved{kernels.forward.score_bytes / scores, kernels.backward.score_bytes / scores};
  };
  // Scale and mask read and write 2 bytes, the softmax too, and its gradient reads what it wrote.
  const moved pure = of_score(bf16_pure, 0);
  CHECK(pure.forward == 2 * (2 + 2) + (2 + 2));
  CHECK(pure.backward == 2 * (2 + 2) + (2 + 2 * 2));
  CHECK(of_score(fp32_precision, 0).forward == 2 * (4 + 4) + (4 + 4));
  // Under autocast the softmax is of 4 bytes, which 2 are made before, and then 2 again.
  const moved mixed = of_score(bf16_mixed, 0);
  CHECK(mixed.forward == 2 * (2 + 2) + (4 + 2) + (4 + 4) + (4 + 2));
  CHECK(mixed.backward == 2 * (2 + 2) + (4 + 2) + (4 + 2 * 4) + (4 + 2));
  // Dropout reads and writes, and has a mask of a byte.
  CHECK(of_score(bf16_pure, 0.1).forward - pure.forward == 2 + 2 + 1);
  CHECK(of_score(bf16_mixed, 0.1).backward - mixed.backward == 4 + 4 + 1);
}

TEST_CASE("kernels that more than bytes bound take longer, but those that a compiler writes") {
  training_setup setup = setup_of(catalog::llama_3_8b);
  fuse(setup);
  kernel_rates slow = flops_alone;
  slow.rms_norms = 3;
  slow.norm_gradients = 2;
  const auto cost = [&](const kernel_rates& on) {
    return cost_of_layer(setup, on, 2, layer_kind::dense, false);
  };
  const auto elements = static_cast<double>(2 * setup.sequence_length * setup.model.hidden_size);
  const double width = 2;  // bytes
  const double norms = 2;
  CHECK(cost(slow).forward.elements - cost(flops_alone).forward.elements ==
        doctest::Approx((3 - 1) * norms * elements * 2 * width));
  CHECK(cost(slow).backward.elements - cost(flops_alone).backward.elements ==
        doctest::Approx((2 - 1) * norms * elements * 3 * width));
  setup.framework.implementation.compiles_layers = true;
  CHECK(cost(slow).forward.elements == cost(flops_alone).forward.elements);
  CHECK(cost(slow).backward.elements == cost(flops_alone).backward.elements);
}

TEST_CASE("tokens of experts are moved as often as the software says, and have biases added") {
  training_setup setup = setup_of(catalog::gpt_oss_20b);
  setup.framework = catalog::megatron_transformer_engine;
  const transformer& model = setup.model;
  const auto cost = [&] {
    return cost_of_layer(setup, flops_alone, 2, layer_kind::experts, false).forward.elements;
  };
  const double width = 2;  // bytes
  const auto sent = static_cast<double>(2 * setup.sequence_length * model.moe.num_experts_per_tok *
                                        model.hidden_size);
  setup.framework.costs.routed_moves = 2;
  const double twice = cost();
  setup.framework.costs.routed_moves = 5;
  CHECK(cost() - twice == doctest::Approx((5 - 2) * 2 * width * sent));
  // The bias of each result: weighed in fp32, added, put beside the others and cast.
  const double with = cost();
  setup.model.mlp_bias = false;
  CHECK(with - cost() == doctest::Approx((5 * 4 + 2 * width + 4) * sent));
}

TEST_CASE("heads are moved beside each other where scores are in memory, eight times an element") {
  for (const std::int64_t length : {64, 128, 256}) {
    const auto moved = [&](attention_kernel kernel) {
      training_setup setup = setup_of(catalog::gpt2);
      setup.framework = catalog::torch_gpt;
      setup.framework.costs.element_rate = 1;
      setup.attention = kernel;
      setup.sequence_length = length;
      return cost_of_layer(setup, flops_alone, 2, layer_kind::dense, false).forward.elements;
    };
    CAPTURE(length);
    const auto elements = static_cast<double>(2 * length * 768);
    CHECK(moved(attention_kernel::eager) - moved(attention_kernel::flash) == 8 * 2 * elements);
  }
}

TEST_CASE("Megatron-LM's fused softmax takes multiples of four heads") {
  training_setup setup = setup_of(catalog::gpt2);
  setup.attention = attention_kernel::eager;
  setup.model.num_attention_heads = 6;
  const auto operators = [&](std::int64_t micro_batch) {
    return cost_of_layer(setup, flops_alone, micro_batch, layer_kind::dense, false)
        .forward.operators;
  };
  for (const framework* software : {&catalog::megatron_lm, &catalog::llm_foundry}) {
    setup.framework = *software;
    const bool fuses = software->implementation.fuses_softmax;
    CHECK(fuses == (software == &catalog::megatron_lm));
    CHECK(operators(4) == operators(2));
    CHECK((operators(2) < operators(1)) == fuses);
    CHECK((operators(2) == operators(1)) == !fuses);
  }
}
