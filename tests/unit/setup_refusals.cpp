#include "check.hpp"

#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/memory_model.hpp>
#include <gpuplan/solver.hpp>
#include <gpuplan/training_setup.hpp>

#include <cstdint>
#include <string_view>

using namespace gpuplan;

namespace {

constexpr training_setup llama{.model = {.num_hidden_layers = 4,
                                         .hidden_size = 256,
                                         .intermediate_size = 704,
                                         .num_attention_heads = 8,
                                         .num_key_value_heads = 4,
                                         .vocab_size = 4000},
                               .sequence_length = 256,
                               .precision = bf16_mixed,
                               .framework = catalog::torch_llama};

// Whether the changed setup is refused with a text that begins so; blank where it is accepted.
template <class Change>
constexpr bool refuses(const training_setup& setup, std::string_view what, Change change) {
  training_setup changed = setup;
  change(changed);
  const auto valid = validate(changed);
  if (what.empty()) return static_cast<bool>(valid);
  const failure why = valid.why();
  return std::string_view(failure_text(why).c_str()).starts_with(what);
}
template <class Change>
constexpr bool accepts(const training_setup& setup, Change change) {
  return refuses(setup, "", change);
}

constexpr training_setup with(training_setup setup, const framework& code) {
  setup.framework = code;
  return setup;
}
constexpr training_setup with(training_setup setup, const engine_class* sharding, int zero_stage) {
  setup.framework.engine.is = sharding;
  setup.parallelism.zero_stage = zero_stage;
  return setup;
}
constexpr training_setup with(training_setup setup, const precision_recipe& precision) {
  setup.precision = precision;
  return setup;
}

constexpr training_setup hugging_face = with(llama, catalog::hugging_face_llama);
constexpr training_setup fully_sharded = with(llama, &engine_classes::fsdp2, 3);
constexpr training_setup wrapped = [] {
  training_setup setup = with(hugging_face, &engine_classes::fsdp1, 3);
  setup.trains = {.what = training::adapters, .adapters = {.rank = 8}};
  return setup;
}();
constexpr training_setup deepspeed =
    with(with(hugging_face, &engine_classes::deepspeed, 2), bf16_master);
constexpr training_setup megatron = with(with(llama, catalog::megatron_core), bf16_master);
constexpr training_setup staged_deepspeed = [] {
  training_setup setup = with(with(megatron, catalog::megatron_deepspeed), bf16_master);
  setup.parallelism.zero_stage = 1;
  setup.parallelism.pipeline_parallel = 2;
  return setup;
}();
constexpr training_setup engine = with(megatron, catalog::megatron_transformer_engine);
constexpr training_setup torchtitan =
    with(with(llama, catalog::torchtitan), &engine_classes::fsdp2, 3);

TEST_CASE("what is there is accepted") {
  STATIC_CHECK(validate(llama));
  STATIC_CHECK(validate(hugging_face));
  STATIC_CHECK(validate(fully_sharded));
  STATIC_CHECK(validate(deepspeed));
  STATIC_CHECK(validate(megatron));
}

// As Megatron-Core and DeepSpeed take them: of four layers.
TEST_CASE("splits of stages that an engine has not") {
  STATIC_CHECK(accepts(megatron, [](training_setup& of) {
    of.parallelism.pipeline_parallel = 3;
    of.parallelism.split = {.embedding_layers = 1, .head_layers = 1};
  }));
  STATIC_CHECK(accepts(megatron, [](training_setup& of) {
    of.parallelism.pipeline_parallel = 2;
    of.parallelism.split = {.last_stage_layers = 1};
  }));
  STATIC_CHECK(refuses(megatron,
                       "pipeline_parallel 2 does not divide layers_and_ends 5; 1 or 5 do",
                       [](training_setup& of) {
                         of.parallelism.pipeline_parallel = 2;
                         of.parallelism.split = {.embedding_layers = 1};
                       }));
  STATIC_CHECK(refuses(megatron,
                       "head_layers 2 is not taken beside pipeline_parallel 2; 0 or 1 is",
                       [](training_setup& of) {
                         of.parallelism.pipeline_parallel = 2;
                         of.parallelism.split = {.head_layers = 2};
                       }));
  STATIC_CHECK(refuses(megatron,
                       "first_have_more true is not taken beside pipeline_parallel 2; false is",
                       [](training_setup& of) {
                         of.parallelism.pipeline_parallel = 2;
                         of.parallelism.split = {.first_have_more = true};
                       }));
  STATIC_CHECK(refuses(megatron,
                       "head_cost 1.5 is not taken beside pipeline_parallel 2; 0 is",
                       [](training_setup& of) {
                         of.parallelism.pipeline_parallel = 2;
                         of.parallelism.split = {.head_cost = 1.5};
                       }));
  STATIC_CHECK(accepts(staged_deepspeed, [](training_setup& of) {
    of.parallelism.split = {.embedding_layers = 1, .head_layers = 1};
  }));
  STATIC_CHECK(
      refuses(staged_deepspeed,
              "first_stage_layers 1 is not taken beside sharding deepspeed; 0 is",
              [](training_setup& of) { of.parallelism.split = {.first_stage_layers = 1}; }));
  STATIC_CHECK(
      refuses(staged_deepspeed,
              "embedding_layers 1 is not taken beside head_layers 0, sharding deepspeed; 0 is",
              [](training_setup& of) { of.parallelism.split = {.embedding_layers = 1}; }));
}

TEST_CASE("stages between the ends have a layer at least") {
  constexpr auto stages = [](std::int64_t count) {
    return [=](training_setup& of) {
      of.parallelism.zero_stage = 2;
      of.parallelism.pipeline_parallel = count;
    };
  };
  STATIC_CHECK(accepts(torchtitan, stages(4)));
  STATIC_CHECK(refuses(torchtitan,
                       "pipeline_parallel 8 is not taken beside stage 4, num_hidden_layers 4; 5 is",
                       stages(8)));
}

TEST_CASE("layouts that a code has not") {
  CONSTEXPR bool are_refused = [] {
    for (const training_setup& setup : {llama, hugging_face, fully_sharded, deepspeed}) {
      const bool all =
          refuses(setup,
                  "pipeline_parallel 2 is not taken beside layers ",
                  [](training_setup& of) { of.parallelism.pipeline_parallel = 2; }) &&
          refuses(setup,
                  "virtual_pipeline 2 is not taken beside layers ",
                  [](training_setup& of) { of.parallelism.virtual_pipeline = 2; }) &&
          refuses(setup,
                  "context_parallel 2 is not taken beside layers ",
                  [](training_setup& of) { of.parallelism.context_parallel = 2; }) &&
          refuses(setup,
                  "expert_parallel 2 is not taken beside layers ",
                  [](training_setup& of) { of.parallelism.expert_parallel = 2; }) &&
          refuses(setup,
                  "shares_kept_inputs true is not taken beside layers ",
                  [](training_setup& of) { of.parallelism.shares_kept_inputs = true; });
      if (!all) return false;
    }
    return true;
  }();
  STATIC_CHECK(are_refused);
  STATIC_CHECK(refuses(hugging_face,
                       "tensor_parallel 2 is not taken beside layers decoder; 1 is",
                       [](training_setup& of) { of.parallelism.tensor_parallel = 2; }));
  STATIC_CHECK(refuses(fully_sharded,
                       "sharding fsdp2 is not taken beside tensor_parallel 2; ddp is",
                       [](training_setup& of) { of.parallelism.tensor_parallel = 2; }));
  STATIC_CHECK(accepts(llama, [](training_setup& of) { of.parallelism.tensor_parallel = 2; }));
  STATIC_CHECK(refuses(llama,
                       "tensor_parallel 8 does not divide num_key_value_heads 4; 1, 2 or 4 do",
                       [](training_setup& of) { of.parallelism.tensor_parallel = 8; }));
  STATIC_CHECK(refuses(llama,
                       "attention_bias true is not taken beside tensor_parallel 2; false is",
                       [](training_setup& of) {
                         of.parallelism.tensor_parallel = 2;
                         of.model.attention_bias = true;
                       }));
  STATIC_CHECK(refuses(llama,
                       "clips_gradients true is not taken beside tensor_parallel 2, "
                       "sequence_parallel false; false is",
                       [](training_setup& of) {
                         of.parallelism.tensor_parallel = 2;
                         of.optimizer.clips_gradients = true;
                       }));
  STATIC_CHECK(accepts(llama, [](training_setup& of) {
    of.parallelism.tensor_parallel = 2;
    of.parallelism.sequence_parallel = true;
    of.optimizer.clips_gradients = true;
  }));
  STATIC_CHECK(
      accepts(llama, [](training_setup& of) { of.framework.implementation.loss_parallel = true; }));
  STATIC_CHECK(accepts(megatron, [](training_setup& of) {
    of.parallelism.pipeline_parallel = 2;
    of.parallelism.virtual_pipeline = 2;
  }));
  STATIC_CHECK(refuses(megatron,
                       "virtual_pipeline 2 is not taken beside pipeline_parallel 1; 1 is",
                       [](training_setup& of) { of.parallelism.virtual_pipeline = 2; }));
  STATIC_CHECK(accepts(staged_deepspeed, [](training_setup&) {}));
  STATIC_CHECK(refuses(staged_deepspeed,
                       "virtual_pipeline 2 is not taken beside sharding deepspeed; 1 is",
                       [](training_setup& of) { of.parallelism.virtual_pipeline = 2; }));
  STATIC_CHECK(
      refuses(megatron,
              "schedule gpipe is not taken beside pipeline_parallel 1; one_f_one_b is",
              [](training_setup& of) { of.parallelism.schedule = pipeline_schedule::gpipe; }));
  STATIC_CHECK(refuses(megatron,
                       "schedule zero_bubble is not taken beside sharding megatron; one_f_one_b is",
                       [](training_setup& of) {
                         of.parallelism.pipeline_parallel = 2;
                         of.parallelism.schedule = pipeline_schedule::zero_bubble;
                       }));
  STATIC_CHECK(refuses(megatron,
                       "schedule zero_bubble is not taken beside sharding megatron; one_f_one_b, "
                       "dual_pipe or dual_pipe_v is",
                       [](training_setup& of) {
                         of.framework.engine.schedules = {.dual_pipe = true, .dual_pipe_v = true};
                         of.parallelism.pipeline_parallel = 2;
                         of.parallelism.schedule = pipeline_schedule::zero_bubble;
                       }));
  STATIC_CHECK(accepts(megatron, [](training_setup& of) {
    of.framework.engine.schedules.dual_pipe = true;
    of.parallelism.pipeline_parallel = 2;
    of.parallelism.schedule = pipeline_schedule::dual_pipe;
  }));
  // Of several chunks only PyTorch's order is known.
  STATIC_CHECK(refuses(
      megatron,
      "virtual_pipeline 2 is not taken beside schedule zero_bubble, sharding megatron; 1 is",
      [](training_setup& of) {
        of.framework.engine.schedules.zero_bubble = true;
        of.parallelism.pipeline_parallel = 2;
        of.parallelism.virtual_pipeline = 2;
        of.parallelism.schedule = pipeline_schedule::zero_bubble;
      }));
  STATIC_CHECK(refuses(megatron,
                       "virtual_pipeline 1 is not taken beside schedule zero_bubble_v; 2 is",
                       [](training_setup& of) {
                         of.framework.engine.schedules.zero_bubble_v = true;
                         of.parallelism.pipeline_parallel = 2;
                         of.parallelism.schedule = pipeline_schedule::zero_bubble_v;
                       }));
  STATIC_CHECK(refuses(megatron,
                       "pipeline_parallel 3 does not divide num_hidden_layers 4; 1, 2 or 4 do",
                       [](training_setup& of) { of.parallelism.pipeline_parallel = 3; }));
  STATIC_CHECK(refuses(megatron,
                       "virtual_pipeline 4 does not divide layers_of_stage 2; 1 or 2 do",
                       [](training_setup& of) {
                         of.parallelism.pipeline_parallel = 2;
                         of.parallelism.virtual_pipeline = 4;
                       }));
  STATIC_CHECK(refuses(megatron,
                       "pipeline_parallel 8 is not taken beside num_hidden_layers 4; at most 4 is",
                       [](training_setup& of) { of.parallelism.pipeline_parallel = 8; }));
  STATIC_CHECK(refuses(megatron,
                       "tensor_parallel 3 does not divide num_attention_heads 8; 1, 2, 4 or 8 do",
                       [](training_setup& of) { of.parallelism.tensor_parallel = 3; }));
  STATIC_CHECK(accepts(megatron, [](training_setup& of) { of.parallelism.tensor_parallel = 8; }));
  STATIC_CHECK(refuses(megatron,
                       "this value must be greater than zero: virtual_pipeline 0",
                       [](training_setup& of) { of.parallelism.virtual_pipeline = 0; }));
  STATIC_CHECK(refuses(megatron, "tensor_rank 1 is not taken; 0 is", [](training_setup& of) {
    of.parallelism.tensor_parallel = 2;
    of.place.tensor_rank = 1;
  }));
  STATIC_CHECK(accepts(torchtitan, [](training_setup& of) {
    of.parallelism.tensor_parallel = 2;
    of.parallelism.context_parallel = 2;
  }));
  CONSTEXPR failure beyond = [] {
    training_setup of = megatron;
    of.place.stage = 1;
    return validate(of).why();
  }();
  STATIC_CHECK(beyond.code == errc::out_of_bounds);
}

TEST_CASE("context ranks have equal parts of the heads where these are exchanged") {
  struct degrees {
    std::int64_t tensor = 1;
    std::int64_t context = 1;
  };
  CONSTEXPR bool are_told_apart = [] {
    const auto divides = [](const training_setup& setup, degrees by) {
      return [&setup, by](std::string_view what) {
        return refuses(setup, what, [by](training_setup& of) {
          of.parallelism.tensor_parallel = by.tensor;
          of.parallelism.context_parallel = by.context;
          if (of.framework.implementation.transformer_engine)
            of.context_exchange = context_exchange::a2a;
        });
      };
    };
    // Of 8 heads, and 4 of keys and values.
    for (const degrees by : {degrees{1, 2}, degrees{1, 4}, degrees{2, 2}, degrees{8, 1}})
      if (!divides(engine, by)("")) return false;
    for (const degrees by :
         {degrees{1, 8}, degrees{1, 16}, degrees{2, 4}, degrees{4, 2}, degrees{8, 2}})
      if (!divides(engine, by)("context_parallel ")) return false;
    return divides(torchtitan, {4, 16})("");
  }();
  STATIC_CHECK(are_told_apart);
}

TEST_CASE("a ring of context ranks divides no heads, and has code for what all tokens see") {
  CONSTEXPR bool are_told_apart = [] {
    const auto in_ring = [](const auto& change) {
      return [&change](training_setup& of) {
        of.sequence_length = 1024;
        of.parallelism.context_parallel = 16;
        change(of);
      };
    };
    const auto nothing = [](training_setup&) {};
    const auto ring = [](training_setup& of) { of.context_exchange = context_exchange::p2p; };
    const auto heads = [](training_setup& of) { of.context_exchange = context_exchange::a2a; };
    const auto window = [](training_setup& of) {
      of.parallelism.context_parallel = 2;
      of.model.sliding_window = 128;
    };
    const auto sinks = [](training_setup& of) {
      of.parallelism.context_parallel = 2;
      of.model.attention_sinks = true;
    };
    const auto latent = [](training_setup& of) {
      of.model.mla = {128, 64, 64, 32, 64};
      of.model.num_key_value_heads = 0;
      of.parallelism.context_parallel = 2;
    };
    const auto both = [](const auto& one, const auto& other) {
      return [&](training_setup& of) {
        one(of);
        other(of);
      };
    };
    return refuses(engine, "", in_ring(nothing)) && refuses(engine, "", in_ring(ring)) &&
           refuses(engine, "context_parallel ", in_ring(heads)) &&
           refuses(engine, "", in_ring(window)) && refuses(engine, "", in_ring(sinks)) &&
           refuses(engine, "context_exchange p2p is not taken", in_ring(both(window, ring))) &&
           refuses(engine, "context_exchange p2p is not taken", in_ring(both(sinks, ring))) &&
           refuses(engine, "", in_ring(latent)) &&
           refuses(engine, "context_exchange a2a is not taken", in_ring(both(latent, heads))) &&
           refuses(megatron, "context_exchange p2p is not taken", ring) &&
           refuses(torchtitan, "context_exchange a2a is not taken", heads);
  }();
  STATIC_CHECK(are_told_apart);
}

TEST_CASE("ranks have equal parts of a sequence") {
  CONSTEXPR bool are_told_apart = [] {
    struct part {
      std::int64_t tokens = 0;
      std::int64_t tensor = 1;
      std::int64_t context = 1;
      bool along = false;
      bool is_equal = true;
    };
    const auto holds = [](const training_setup& setup, const part& of) {
      const char* what = of.is_equal                            ? ""
                         : of.context > 1 && of.tokens % 4 != 0 ? "sequence_length "
                                                                : "tensor_parallel ";
      return refuses(setup, what, [&of](training_setup& changed) {
        changed.sequence_length = of.tokens;
        changed.parallelism.tensor_parallel = of.tensor;
        changed.parallelism.context_parallel = of.context;
        changed.parallelism.sequence_parallel = of.along;
      });
    };
    for (const part& of : {part{.tokens = 1},
                           part{.tokens = 255},
                           part{.tokens = 4, .context = 2},
                           part{.tokens = 2, .context = 2, .is_equal = false},
                           part{.tokens = 255, .context = 2, .is_equal = false},
                           part{.tokens = 8, .tensor = 2, .context = 2, .along = true},
                           part{.tokens = 2, .tensor = 2, .along = true},
                           part{.tokens = 1, .tensor = 2, .along = true, .is_equal = false}})
      if (!holds(engine, of) || !holds(torchtitan, of)) return false;
    const part odd{.tokens = 255, .tensor = 2};
    const part odd_along{.tokens = 255, .tensor = 2, .along = true, .is_equal = false};
    const part odd_refused{.tokens = 255, .tensor = 2, .is_equal = false};
    return holds(engine, odd) && holds(llama, odd) && holds(torchtitan, odd_refused) &&
           holds(megatron, odd_along) && holds(llama, odd_along);
  }();
  STATIC_CHECK(are_told_apart);
}

TEST_CASE("ZeRO stages and what lies on the host") {
  CONSTEXPR bool are_refused = [] {
    for (const int stage : {2, 3, -1})
      if (!refuses(with(llama, &engine_classes::ddp, stage), "zero_stage ", [](auto&) {}))
        return false;
    for (const int stage : {0, 1, 4})
      if (!refuses(with(llama, &engine_classes::fsdp2, stage), "zero_stage ", [](auto&) {}))
        return false;
    return true;
  }();
  STATIC_CHECK(are_refused);
  STATIC_CHECK(refuses(with(megatron, &engine_classes::megatron, 2),
                       "zero_stage 2 is not taken beside sharding megatron; 0 or 1 is",
                       [](training_setup&) {}));
  STATIC_CHECK(
      refuses(staged_deepspeed,
              "zero_stage 2 is not taken beside sharding deepspeed, pipeline_parallel 2; 0 or 1 is",
              [](training_setup& of) { of.parallelism.zero_stage = 2; }));
  STATIC_CHECK(accepts(staged_deepspeed, [](training_setup& of) {
    of.parallelism.pipeline_parallel = 1;
    of.parallelism.zero_stage = 2;
  }));
  STATIC_CHECK(refuses(
      with(llama, &engine_classes::megatron, 1),
      "sharding megatron is not taken beside layers llama; ddp, fsdp1, fsdp2 or deepspeed is",
      [](training_setup&) {}));
  STATIC_CHECK(
      refuses(with(megatron, &engine_classes::fsdp2, 3),
              "sharding fsdp2 is not taken beside layers megatron_core; deepspeed, megatron or "
              "megatron_fsdp is",
              [](training_setup& of) { of.precision = bf16_mixed; }));
  STATIC_CHECK(refuses(deepspeed,
                       "shard_group 4 is not taken beside sharding deepspeed; 0 is",
                       [](training_setup& of) { of.parallelism.shard_group = 4; }));
  STATIC_CHECK(accepts(fully_sharded, [](training_setup& of) { of.parallelism.shard_group = 4; }));
  STATIC_CHECK(refuses(llama,
                       "optimizer_on_host true is not taken beside sharding ddp; false is",
                       [](training_setup& of) { of.parallelism.optimizer_on_host = true; }));
  STATIC_CHECK(refuses(
      fully_sharded,
      "optimizer_on_host true is not taken beside weights_on_host false, sharding fsdp2; false is",
      [](training_setup& of) { of.parallelism.optimizer_on_host = true; }));
  STATIC_CHECK(
      accepts(deepspeed, [](training_setup& of) { of.parallelism.optimizer_on_host = true; }));
  STATIC_CHECK(refuses(deepspeed,
                       "weights_on_host true is not taken beside sharding deepspeed; false is",
                       [](training_setup& of) { of.parallelism.weights_on_host = true; }));
  STATIC_CHECK(
      refuses(with(with(llama, &engine_classes::deepspeed, 3), bf16_master),
              "zero_stage 3 is not taken beside sharding deepspeed, layers llama; at most 2 is",
              [](training_setup&) {}));
  STATIC_CHECK(
      refuses(llama,
              "reduces_every_micro_batch false is not taken beside sharding ddp; true is",
              [](training_setup& of) { of.framework.engine.reduces_every_micro_batch = false; }));
}

TEST_CASE("adapters that FSDP 1 wraps") {
  STATIC_CHECK(validate(wrapped));
  STATIC_CHECK(validate(with(wrapped, fp32_precision)));
  STATIC_CHECK(validate(with(wrapped, bf16_pure)));
  STATIC_CHECK(validate(with(wrapped, bf16_under_autocast)));
  STATIC_CHECK(refuses(wrapped,
                       "adapter_magnitudes true is not taken beside sharding fsdp1; false is",
                       [](training_setup& of) { of.trains.adapters.magnitudes = true; }));
  STATIC_CHECK(refuses(wrapped,
                       "trains head is not taken beside sharding fsdp1; full or adapters is",
                       [](training_setup& of) { of.trains = {.what = training::head}; }));
  STATIC_CHECK(refuses(wrapped,
                       "original_parameters false is not taken beside trains full; true is",
                       [](training_setup& of) {
                         of.trains = {};
                         of.framework.engine.original_parameters = false;
                       }));
  STATIC_CHECK(
      refuses(with(llama, &engine_classes::fsdp2, 3),
              "original_parameters false is not taken beside sharding fsdp2; true is",
              [](training_setup& of) { of.framework.engine.original_parameters = false; }));
}

TEST_CASE("an engine that the replay has no code for") {
  STATIC_CHECK(refuses(llama,
                       "sharding of nobody is not taken; ddp, fsdp1, fsdp2, deepspeed, megatron or "
                       "megatron_fsdp is",
                       [](training_setup& of) { of.framework.engine.is = nullptr; }));
}

TEST_CASE("formats") {
  STATIC_CHECK(refuses(llama,
                       "precision_weights fp8 is not taken; fp32, bf16 or fp16 is",
                       [](training_setup& of) { of.precision.weights = number_format::fp8; }));
  STATIC_CHECK(refuses(llama,
                       "precision_compute fp8 is not taken; fp32, tf32, bf16 or fp16 is",
                       [](training_setup& of) { of.precision.compute = number_format::fp8; }));
  STATIC_CHECK(refuses(llama,
                       "precision_compute fp32 is not taken beside precision_weights bf16, "
                       "sharding ddp; bf16 or fp16 is",
                       [](training_setup& of) {
                         of.precision.weights = number_format::bf16;
                         of.precision.compute = number_format::fp32;
                       }));
  STATIC_CHECK(refuses(llama,
                       "fp32_gradients true is not taken beside sharding ddp; false is",
                       [](training_setup& of) { of.precision.fp32_gradients = true; }));
  STATIC_CHECK(refuses(llama,
                       "precision_reduced bf16 is not taken beside sharding ddp; fp32 is",
                       [](training_setup& of) { of.precision.reduced = number_format::bf16; }));
  STATIC_CHECK(refuses(llama,
                       "master_weights true is not taken beside precision_weights fp32; false is",
                       [](training_setup& of) { of.precision.master_weights = true; }));
  STATIC_CHECK(refuses(fully_sharded,
                       "master_weights true is not taken beside sharding fsdp2; false is",
                       [](training_setup& of) { of.precision = bf16_master; }));
  STATIC_CHECK(refuses(deepspeed,
                       "master_weights false is not taken beside sharding deepspeed; true is",
                       [](training_setup& of) { of.precision = bf16_pure; }));
  STATIC_CHECK(!precision_recipe{.compute = number_format::tf32}.autocast());
  STATIC_CHECK(accepts(llama, [](training_setup& of) { of.precision = bf16_with_fp8; }));
  STATIC_CHECK(
      accepts(hugging_face, [](training_setup& of) { of.precision = bf16_mixed_with_fp8; }));
  STATIC_CHECK(refuses(megatron,
                       "fp8_linears true is not taken beside layers megatron_core; false is",
                       [](training_setup& of) { of.precision.fp8_linears = true; }));
  STATIC_CHECK(refuses(llama,
                       "intermediate_size 706 is no multiple of fp8_block 16; 704 or 720 are",
                       [](training_setup& of) {
                         of.precision = bf16_with_fp8;
                         of.model.intermediate_size = 706;
                       }));
}

TEST_CASE("recomputation and attention") {
  STATIC_CHECK(refuses(hugging_face,
                       "recompute selective is not taken beside layers decoder; none or full is",
                       [](training_setup& of) { of.recompute = recompute_mode::selective; }));
  STATIC_CHECK(refuses(
      llama, "recompute_span 2 is not taken beside layers llama; 1 is", [](training_setup& of) {
        of.recompute = recompute_mode::full;
        of.recompute_span = 2;
      }));
  STATIC_CHECK(accepts(hugging_face, [](training_setup& of) {
    of.recompute = recompute_mode::full;
    of.recompute_period = 2;
    of.recompute_layers = 3;
  }));
  STATIC_CHECK(refuses(megatron,
                       "recompute_period 2 is not taken beside layers megatron_core; 1 is",
                       [](training_setup& of) {
                         of.recompute = recompute_mode::full;
                         of.recompute_period = 2;
                       }));
  STATIC_CHECK(refuses(
      llama,
      "precision_compute fp32 is not taken beside attention flash, layers llama; bf16 or fp16 is",
      [](training_setup& of) {
        of.precision = fp32_precision;
        of.attention = attention_kernel::flash;
      }));
  STATIC_CHECK(refuses(hugging_face,
                       "padding_mask true is not taken beside attention flash; false is",
                       [](training_setup& of) {
                         of.padding_mask = true;
                         of.attention = attention_kernel::flash;
                       }));
  STATIC_CHECK(accepts(hugging_face, [](training_setup& of) {
    of.model.sliding_window = 128;
    of.attention = attention_kernel::flash;
  }));
}

TEST_CASE("optimizers") {
  STATIC_CHECK(refuses(
      llama,
      "optimizer_loop fused is not taken beside optimizer_kind rmsprop; foreach or parameter is",
      [](training_setup& of) {
        of.optimizer = {.kind = optimizer_kind::rmsprop, .loop = optimizer_loop::fused};
      }));
  STATIC_CHECK(refuses(llama,
                       "optimizer_states int8 is not taken beside optimizer_library torch, "
                       "optimizer_kind adamw, optimizer_loop foreach; fp32 is",
                       [](training_setup& of) { of.optimizer.states = number_format::int8; }));
  STATIC_CHECK(refuses(llama,
                       "optimizer_states bf16 is not taken beside optimizer_library torch, "
                       "optimizer_kind adamw, optimizer_loop foreach; fp32 is",
                       [](training_setup& of) { of.optimizer.states = number_format::bf16; }));
  STATIC_CHECK(refuses(llama,
                       "pages_states true is not taken beside optimizer_library torch; false is",
                       [](training_setup& of) { of.optimizer.pages_states = true; }));
  STATIC_CHECK(refuses(
      llama,
      "optimizer_kind sgd is not taken beside optimizer_library bitsandbytes; adamw, lion or "
      "rmsprop is",
      [](training_setup& of) {
        of.optimizer = {.kind = optimizer_kind::sgd, .library = optimizer_library::bitsandbytes};
      }));
  STATIC_CHECK(
      refuses(fully_sharded,
              "optimizer_library bitsandbytes is not taken beside sharding fsdp2; torch is",
              [](training_setup& of) { of.optimizer.library = optimizer_library::bitsandbytes; }));
  STATIC_CHECK(refuses(fully_sharded,
                       "optimizer_kind muon is not taken beside sharding fsdp2; adamw is",
                       [](training_setup& of) { of.optimizer.kind = optimizer_kind::muon; }));
  STATIC_CHECK(refuses(fully_sharded,
                       "optimizer_loop fused is not taken beside optimizer_kind sgd, sharding "
                       "fsdp2; foreach or parameter is",
                       [](training_setup& of) {
                         of.optimizer = {.kind = optimizer_kind::sgd,
                                         .loop = optimizer_loop::fused};
                       }));
  STATIC_CHECK(refuses(deepspeed,
                       "optimizer_kind lion is not taken beside sharding deepspeed; adamw is",
                       [](training_setup& of) { of.optimizer.kind = optimizer_kind::lion; }));
  STATIC_CHECK(refuses(llama,
                       "optimizer_kind muon is not taken beside zero_stage 1; adamw is",
                       [](training_setup& of) {
                         of.parallelism.zero_stage = 1;
                         of.optimizer.kind = optimizer_kind::muon;
                       }));
}

TEST_CASE("frozen parameters and adapters") {
  STATIC_CHECK(refuses(deepspeed,
                       "trains head is not taken beside sharding deepspeed; full or adapters is",
                       [](training_setup& of) { of.trains.what = training::head; }));
  STATIC_CHECK(refuses(megatron,
                       "transformer_engine false is not taken beside trains adapters; true is",
                       [](training_setup& of) {
                         of.trains = {.what = training::adapters, .adapters = {.rank = 8}};
                       }));
  // One layer makes query, key and value, another gate and up.
  constexpr training_setup adapted = [] {
    training_setup of = engine;
    of.trains = {.what = training::adapters,
                 .adapters = {.rank = 8, .targets = {.query = true, .key = true, .value = true}}};
    return of;
  }();
  STATIC_CHECK(validate(adapted));
  STATIC_CHECK(refuses(adapted,
                       "adapter_key false is not taken beside adapter_query true; true is",
                       [](training_setup& of) { of.trains.adapters.targets.key = false; }));
  STATIC_CHECK(refuses(adapted,
                       "adapter_gate true is not taken beside adapter_up false; false is",
                       [](training_setup& of) { of.trains.adapters.targets.gate = true; }));
  STATIC_CHECK(refuses(adapted,
                       "adapter_head true is not taken beside layers megatron_core; false is",
                       [](training_setup& of) { of.trains.adapters.targets.head = true; }));
  STATIC_CHECK(refuses(adapted,
                       "trainable_biases true is not taken beside layers megatron_core; false is",
                       [](training_setup& of) { of.trains.adapters.bias = lora_bias::all; }));
  STATIC_CHECK(refuses(adapted,
                       "copies_head true is not taken beside layers megatron_core; false is",
                       [](training_setup& of) { of.trains.adapters.copy_head = true; }));
  STATIC_CHECK(refuses(fully_sharded,
                       "precision_weights fp32 is not taken beside adapter_base_block 64, "
                       "sharding fsdp2; bf16 is",
                       [](training_setup& of) {
                         of.trains = {.what = training::adapters,
                                      .adapters = {.rank = 8, .base = four_bit_base}};
                       }));
  // Without a policy each is gathered in its own format; a policy has one.
  STATIC_CHECK([] {
    training_setup of_two_formats = fully_sharded;
    of_two_formats.precision = bf16_pure;
    of_two_formats.trains = {.what = training::adapters, .adapters = {.rank = 8}};
    return static_cast<bool>(validate(of_two_formats));
  }());
  STATIC_CHECK(refuses(fully_sharded,
                       "adapter_weights bf16 is not taken beside sharding fsdp2; fp32 is",
                       [](training_setup& of) {
                         of.trains = {.what = training::adapters,
                                      .adapters = {.rank = 8, .weights = number_format::bf16}};
                       }));
}

TEST_CASE("a step trains something that the model has") {
  const auto trains = [](training what, std::int64_t last = 0) {
    return [=](training_setup& of) { of.trains = {.what = what, .last_layers = last}; };
  };
  STATIC_CHECK(refuses(llama,
                       "trains frozen is not taken; full, head, last_layers or adapters is",
                       trains(training::frozen)));
  STATIC_CHECK(accepts(llama, trains(training::last_layers, 1)));
  STATIC_CHECK(accepts(llama, trains(training::last_layers, 4)));
  STATIC_CHECK(!accepts(llama, trains(training::last_layers, 0)));
  STATIC_CHECK(!accepts(llama, trains(training::last_layers, 5)));
  constexpr training_setup lit = with(llama, catalog::lit_gpt);
  STATIC_CHECK(accepts(lit, [](training_setup&) {}));
  STATIC_CHECK(refuses(lit,
                       "trains last_layers is not taken beside layers lit_gpt; full or adapters is",
                       trains(training::last_layers, 1)));
}

TEST_CASE("models that plain codes have not") {
  STATIC_CHECK(refuses(llama,
                       "gated_mlp false is not taken beside layers llama; true is",
                       [](training_setup& of) { of.model.gated_mlp = false; }));
  STATIC_CHECK(refuses(llama,
                       "sliding_window 128 is not taken beside layers llama; 0 is",
                       [](training_setup& of) { of.model.sliding_window = 128; }));
  STATIC_CHECK(refuses(llama,
                       "parallel_attention true is not taken beside layers llama; false is",
                       [](training_setup& of) { of.model.parallel_attention = true; }));
  STATIC_CHECK(refuses(
      llama, "num_key_value_heads 4 is not taken beside layers gpt; 8 is", [](training_setup& of) {
        of.framework = catalog::torch_gpt;
        of.model.gated_mlp = false;
        of.model.fused_qkv = true;
      }));
}

TEST_CASE("batches that a layout has not") {
  CONSTEXPR training_setup in_groups = [] {
    training_setup of = fully_sharded;
    of.parallelism.shard_group = 4;
    return of;
  }();
  STATIC_CHECK(validate(in_groups, {.data_parallel = 8}));
  STATIC_CHECK(validate(in_groups, {.data_parallel = 6}).why().code == errc::does_not_divide);
  CONSTEXPR training_setup divided = [] {
    training_setup of = llama;
    of.parallelism.tensor_parallel = 2;
    return of;
  }();
  STATIC_CHECK(validate(divided, {}));
  STATIC_CHECK(validate(divided, {.data_parallel = 2}).why().code == errc::no_such_code);
  // Interleaved schedules go through as many micro-batches as stages at a time.
  CONSTEXPR training_setup interleaved = [] {
    training_setup of = megatron;
    of.parallelism.pipeline_parallel = 2;
    of.parallelism.virtual_pipeline = 2;
    return of;
  }();
  STATIC_CHECK(validate(interleaved, {.accumulation = 4}));
  STATIC_CHECK(validate(interleaved, {.accumulation = 3}).why()[fact::pipeline_parallel] == 2);
  // So do decisions.
  STATIC_CHECK(check({.data_parallel = 6}, 80_GiB, transformer_memory{in_groups}).why().code ==
               errc::does_not_divide);
  STATIC_CHECK(solve_batch({.effective_batch = 12, .data_parallel = 6, .gpu = 80_GiB},
                           transformer_memory{in_groups})
                   .why()
                   .code == errc::does_not_divide);
}

}  // namespace

TEST_CASE("counts of layers and of channels have bounds, and products are checked") {
  constexpr auto code_of = [](auto change) {
    training_setup of = hugging_face;
    of.recompute = recompute_mode::full;
    change(of);
    return validate(of).why().code;
  };
  STATIC_CHECK(code_of([](training_setup& of) { of.recompute_layers = INT64_MAX; }) ==
               errc::out_of_bounds);
  STATIC_CHECK(code_of([](training_setup& of) { of.recompute_period = std::int64_t{1} << 32; }) ==
               errc::out_of_bounds);
  STATIC_CHECK(code_of([](training_setup& of) { of.recompute_period = 1 << 16; }) == errc::none);
  // Periods whose product leaves 64 bits.
  constexpr training_setup windows = [] {
    training_setup of = with(hugging_face, catalog::hugging_face_qwen);
    of.recompute = recompute_mode::full;
    of.recompute_period = 1 << 16;
    of.model.sliding_window = 8;
    of.model.global_layer_step = std::int64_t{1} << 40;
    return of;
  }();
  STATIC_CHECK(validate(windows));
  STATIC_CHECK(detail::layer_period(windows) == 4);
  constexpr auto pipeline = [] {
    training_setup of = megatron;
    of.parallelism.pipeline_parallel = 4;
    of.parallelism.virtual_pipeline = std::int64_t{1} << 62;
    return validate(of).why().code;
  }();
  STATIC_CHECK(pipeline == errc::out_of_bounds);
  constexpr batch_plan many{.data_parallel = std::int64_t{1} << 62};
  constexpr auto ranks = [] {
    training_setup of = with(llama, catalog::torchtitan);
    of.parallelism.zero_stage = 3;
    of.parallelism.context_parallel = 2;
    return of;
  }();
  STATIC_CHECK(validate(ranks));
  STATIC_CHECK(validate(ranks, many).why().code == errc::overflow);
  constexpr auto channels = [](std::int64_t count) {
    return validate(transformer_memory{.setup = llama, .channels = count}).why().code;
  };
  STATIC_CHECK(channels(1024) == errc::none);
  STATIC_CHECK(channels(-1000) == errc::out_of_bounds);
  STATIC_CHECK(channels(0) == errc::out_of_bounds);
  STATIC_CHECK(channels(1025) == errc::out_of_bounds);
}

constexpr training_setup experts = [] {
  training_setup of = with(llama, catalog::hugging_face_qwen3_moe);
  of.model.moe = {.num_experts = 8, .num_experts_per_tok = 2, .moe_intermediate_size = 64};
  of.trains = {.what = training::adapters, .adapters = {.rank = 8}};
  return of;
}();

TEST_CASE("adapters of routed experts, which no code has") {
  STATIC_CHECK(validate(experts));
  CONSTEXPR bool are_refused = [] {
    for (bool lora_targets::*which :
         {&lora_targets::gate, &lora_targets::down, &lora_targets::router})
      if (!refuses(experts,
                   "adapter_experts true is not taken beside layers ",
                   [&](training_setup& of) { of.trains.adapters.targets.*which = true; }))
        return false;
    return true;
  }();
  STATIC_CHECK(are_refused);
  // Tensors of all experts, by target_parameters
  CONSTEXPR auto folds = [](training_setup& of) {
    of.trains.adapters.targets.expert_gate_up = of.trains.adapters.targets.expert_down = true;
  };
  STATIC_CHECK(accepts(experts, folds));
  STATIC_CHECK(refuses(experts,
                       "adapter_experts true is not taken beside layers granite_moe; false is",
                       [](training_setup& of) {
                         of.framework = catalog::hugging_face_granite_moe;
                         of.trains.adapters.targets.expert_down = true;
                       }));
  STATIC_CHECK(refuses(experts,
                       "adapter_dropout true is not taken beside adapter_experts true; false is",
                       [](training_setup& of) {
                         of.trains.adapters.targets.expert_down = true;
                         of.trains.adapters.dropout = 0.1;
                       }));
  STATIC_CHECK(refuses(experts,
                       "adapter_magnitudes true is not taken beside adapter_experts true; false is",
                       [](training_setup& of) {
                         of.trains.adapters.targets.expert_down = true;
                         of.trains.adapters.magnitudes = true;
                       }));
  STATIC_CHECK(refuses(experts,
                       "num_experts 1 is not taken beside adapter_experts true; at least 2 is",
                       [](training_setup& of) {
                         of.trains.adapters.targets.expert_down = true;
                         of.model.moe.num_experts = of.model.moe.num_experts_per_tok = 1;
                       }));
  // Classes whose experts PEFT passes over
  STATIC_CHECK(accepts(experts, [](training_setup& of) {
    of.framework = catalog::hugging_face_qwen2_moe;
    of.trains.adapters.targets = all_linear;
  }));
}

TEST_CASE("a bias of the head beside TRL's losses") {
  STATIC_CHECK(refuses(hugging_face,
                       "lm_head_bias true is not taken beside objective supervised",
                       [](training_setup& of) {
                         of.objective = training_objective::supervised;
                         of.model.lm_head_bias = true;
                       }));
}

TEST_CASE("windows of classes that have none") {
  CONSTEXPR bool are_refused = [] {
    const auto is_refused = [](const transformer& model, const framework& code) {
      const training_setup setup{
          .model = model, .sequence_length = 256, .precision = bf16_mixed, .framework = code};
      const auto with_window = [&](std::int64_t window) {
        return refuses(setup,
                       "sliding_window 64 is not taken beside layers ",
                       [&](training_setup& of) { of.model.sliding_window = window; });
      };
      return with_window(64) && !with_window(0);
    };
    return is_refused(catalog::gpt2, catalog::hugging_face_gpt2) &&
           is_refused(catalog::llama_2_7b, catalog::lit_gpt) &&
           is_refused(catalog::bert_base_uncased, catalog::hugging_face_bert) &&
           is_refused(catalog::t5_small, catalog::hugging_face_t5) &&
           is_refused(catalog::bart_base, catalog::hugging_face_bart);
  }();
  STATIC_CHECK(are_refused);
  STATIC_CHECK(refuses(torchtitan,
                       "sliding_window 64 is not taken beside layers torchtitan; 0 is",
                       [](training_setup& of) { of.model.sliding_window = 64; }));
}
