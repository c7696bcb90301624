// Every refusal of a setup: it names a field with its value and what would be taken, in a sentence.
// Setups are made at random: a model of the catalogue, a framework's code, and a few fields that
// are other than usual.

#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/training_setup.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "check.hpp"

using namespace gpuplan;

namespace {

constexpr const auto& frameworks = catalog::all_frameworks;

constexpr composite_model several{};

class random_setups {
 public:
  training_setup next() {
    const catalog::published_model* model = nullptr;
    do model = &catalog::models[any(std::size(catalog::models))];
    while (!model->has_shape);
    training_setup setup{.model = *model->shape, .sequence_length = 1024, .precision = bf16_mixed};
    setup.framework = *frameworks[any(std::size(frameworks))];
    if (setup.framework.implementation.layers == &layer_classes::megatron_core ||
        setup.framework.engine.is == &engine_classes::deepspeed)
      setup.precision = bf16_master;
    if (setup.framework.implementation.layers == &layer_classes::bert &&
        setup.model.head == head_kind::none)
      setup.encodings = 2;
    if (setup.framework.engine.is == &engine_classes::fsdp2) setup.parallelism.zero_stage = 3;
    for (std::uint64_t changes = any(4); changes > 0; --changes) change(setup);
    return setup;
  }
  batch_plan batch() { return {one_of({1, 2, 3}), one_of({1, 2, 3, 6, 8}), one_of({1, 3, 4})}; }

 private:
  std::mt19937_64 random_{20'261'122};

  std::uint64_t any(std::uint64_t count) { return random_() % count; }
  std::int64_t one_of(const std::vector<std::int64_t>& values) {
    return values[any(values.size())];
  }
  std::int64_t degree() { return one_of({0, 1, 2, 3, 4, 6, 8, 16, 128, std::int64_t{1} << 21}); }
  template <class Enumeration>
  Enumeration enumerator(int count) {
    return static_cast<Enumeration>(any(static_cast<std::uint64_t>(count)));
  }
  void change(training_setup& of) {
    parallelism& layout = of.parallelism;
    precision_recipe& precision = of.precision;
    transformer& model = of.model;
    const std::function<void()> changes[] = {
        [&] { layout.tensor_parallel = degree(); },
        [&] { layout.pipeline_parallel = degree(); },
        [&] { layout.virtual_pipeline = degree(); },
        [&] { layout.context_parallel = degree(); },
        [&] { layout.expert_parallel = degree(); },
        [&] { layout.expert_tensor_parallel = degree(); },
        [&] {
          layout.zero_stage = static_cast<int>(one_of({-1, 0, 1, 2, 3, 7}));
        },
        [&] {
          layout.shard_group = one_of({-1, 0, 4});
        },
        [&] { layout.sequence_parallel = true; },
        [&] { layout.shares_kept_inputs = true; },
        [&] { layout.optimizer_on_host = true; },
        [&] { layout.weights_on_host = true; },
        [&] { layout.schedule = enumerator<pipeline_schedule>(6); },
        [&] {
          of.place = {one_of({-1, 0, 1, 4}), one_of({0, 1}), one_of({0, 1})};
        },
        [&] { of.framework.engine.is = engine_classes::all[any(5)]; },
        [&] { of.framework.implementation.loss_parallel = true; },
        [&] { of.framework.implementation.compiles_layers = true; },
        [&] { of.framework.implementation.compiles_loss = true; },
        [&] {
          of.framework.implementation.loss_chunks = one_of({-1, 3, 8});
        },
        [&] { of.framework.engine.reduces_every_micro_batch = false; },
        [&] { of.framework.implementation.checkpoints_reenter = true; },
        [&] { precision = any(2) == 0 ? bf16_with_fp8 : bf16_megatron; },
        [&] { precision.weights = enumerator<number_format>(8); },
        [&] { precision.compute = enumerator<number_format>(8); },
        [&] { precision.reduced = enumerator<number_format>(8); },
        [&] { precision.master_weights = !precision.master_weights; },
        [&] { precision.fp4_linears = true; },
        [&] { precision.under_autocast = true; },
        [&] { of.optimizer.kind = enumerator<optimizer_kind>(8); },
        [&] { of.optimizer.library = enumerator<optimizer_library>(3); },
        [&] { of.optimizer.loop = enumerator<optimizer_loop>(3); },
        [&] { of.optimizer.states = enumerator<number_format>(8); },
        [&] { of.optimizer.pages_states = true; },
        [&] { of.optimizer.widens_embeddings = true; },
        [&] { of.optimizer.clips_gradients = true; },
        [&] { of.trains = {.what = enumerator<training>(5), .last_layers = 1}; },
        [&] { of.trains = {.what = training::adapters, .adapters = {.rank = 8}}; },
        [&] { of.trains.adapters.base = four_bit_base; },
        [&] { of.framework.engine.original_parameters = false; },
        [&] { of.recompute = enumerator<recompute_mode>(3); },
        [&] {
          of.recompute_span = one_of({0, 2});
        },
        [&] {
          of.recompute_period = one_of({0, 2});
        },
        [&] {
          of.recompute_layers = one_of({-1, 2});
        },
        [&] { of.saves_costly_results = true; },
        [&] { of.frozen_parameters = 64; },
        [&] { of.offloads.layers = 1; },
        [&] { of.offloads.core_attention = true; },
        [&] { of.offloads.attention_output = true; },
        [&] { of.offloads.expert_input = true; },
        [&] { precision.quantised_weights = true; },
        [&] { of.composite = &several; },
        [&] { of.framework.implementation.liger_kernels = true; },
        [&] { of.framework.implementation.cut_cross_entropy = true; },
        [&] { of.generates_apart = true; },
        [&] { of.inference_bytes = static_cast<std::int64_t>(any(3)) - 1; },
        [&] { of.attention = enumerator<attention_kernel>(5); },
        [&] { of.padding_mask = true; },
        [&] { of.padding_free = true; },
        [&] { of.objective = enumerator<training_objective>(4); },
        [&] { of.reference = enumerator<reference_model>(4); },
        [&] {
          of.scored_tokens = one_of({-1, 64});
        },
        [&] { of.dropout = any(2) == 0 ? -0.5 : __builtin_nan(""); },
        [&] {
          of.sequence_length = one_of({0, 255, 1023});
        },
        [&] {
          of.target_length = one_of({-1, 64});
        },
        [&] {
          of.encodings = one_of({0, 1, 3, 9});
        },
        [&] { model.gated_mlp = !model.gated_mlp; },
        [&] { model.fused_qkv = !model.fused_qkv; },
        [&] { model.attention_bias = true; },
        [&] {
          model.num_attention_heads = one_of({-1, 0, 3, 12, 32});
        },
        [&] {
          model.num_key_value_heads = one_of({1, 5});
        },
        [&] { model.head_dim = 512; },
        [&] { model.norm_at = enumerator<norm_position>(4); },
        [&] {
          model.norms_per_layer = one_of({1, 4});
        },
        [&] { model.norm_affine = false; },
        [&] { model.head = enumerator<head_kind>(3); },
        [&] {
          model.hidden_size = one_of({-1, 0, 777, std::int64_t{1} << 41});
        },
        [&] {
          model.intermediate_size = one_of({0, 706});
        },
        [&] { model.num_decoder_layers = 2; },
        [&] { model.sliding_window = 128; },
        [&] {
          model.moe.num_experts = one_of({-1, 8});
        },
        [&] { model.mtp_layers = 1; },
        [&] { model.attention_sinks = true; },
        [&] { model.qk_norm = qk_norm_scope::head; }};
    changes[any(std::size(changes))]();
  }
};

// What a refusal lacks; empty where it lacks nothing.
std::string lack_of(const failure& why) {
  const auto has = [&](fact name) {
    return std::any_of(why.facts, why.facts + why.count, [&](const named_fact& each) {
      return each.name == name;
    });
  };
  const auto says_limit = [](fact name) {
    return name == fact::takes || name == fact::at_least || name == fact::at_most;
  };
  if (why.count == 0 || says_limit(why.facts[0].name)) return "a field with its value";
  const bool is_named_model = why.code == errc::overflow || why.code == errc::no_such_target;
  if (why.subject[0] != '\0' && !is_named_model) return "a field that is an enumerator";
  if ((why.code == errc::no_such_code || why.code == errc::out_of_bounds) && !has(fact::takes) &&
      !has(fact::at_least) && !has(fact::at_most))
    return "what would be taken";
  const bool has_numbers = why.code == errc::does_not_divide || why.code == errc::not_a_multiple;
  if (has_numbers && detail::numbers_taken(why).count == 0) return "numbers that would do";
  const failure_text said(why);
  const std::string_view line = said.c_str();
  if (line.find(text(why.facts[0].name)) == std::string_view::npos) return "its field";
  return std::count(line.begin(), line.end(), ' ') < 6 ? "words" : "";
}

}  // namespace

TEST_CASE("a fragment is no refusal") {
  CHECK(lack_of(failure(errc::no_such_code).about("such an embedding")) ==
        "a field with its value");
  CHECK(lack_of(failure(errc::no_such_code, named_fact{fact::zero_stage, 7})) ==
        "what would be taken");
  CHECK(lack_of(failure(errc::out_of_bounds, named_fact{fact::at_least, 0})) ==
        "a field with its value");
  CHECK(lack_of(failure(errc::not_positive, named_fact{fact::hidden_size, 0}).about("model")) ==
        "a field that is an enumerator");
}

TEST_CASE("every refusal of a setup names its field, the value and what would be taken") {
  random_setups setups;
  std::set<std::string> kinds;              // of refusals: the error and its first two facts
  std::set<std::pair<fact, fact>> missing;  // properties: of whom, and what asks for them
  int accepted = 0;
  for (int i = 0; i < 200'000; ++i) {
    const training_setup setup = setups.next();
    const auto valid = validate(setup, setups.batch());
    accepted += static_cast<bool>(valid);
    const layer_class& layers = setup.framework.layers();
    const engine_class& engine = *setup.framework.engine.is;
    const auto note = [&](const auto& properties, named_fact beside) {
      for (const auto& asked : properties)
        if (detail::failed(detail::flaw_of_asked(asked, beside))) {
          REQUIRE(!valid);
          missing.insert({beside.name, asked.field.name});
        }
    };
    note(detail::asked_of_layers(layers, setup), {fact::layers, layers.name});
    note(detail::asked_of_engine(engine, setup), {fact::sharding, engine.name});
    if (valid) continue;
    const failure& why = valid.why();
    kinds.insert(std::to_string(static_cast<int>(why.code)) + text(why.at_fault()) +
                 (why.count > 1 ? text(why.facts[1].name) : ""));
    CAPTURE(failure_text(why).c_str());
    REQUIRE(lack_of(why) == "");
  }
  CHECK(missing.size() == detail::asked_of_layers({}, training_setup{}).size() +
                              detail::asked_of_engine({}, training_setup{}).size());
  CHECK(accepted > 1000);
  CHECK(kinds.size() > 120);
}
