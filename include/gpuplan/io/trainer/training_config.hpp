#pragma once

// What trainers' files of settings say, in gpuplan's words: what every reader makes, and every
// writer takes.

#include <gpuplan/framework.hpp>
#include <gpuplan/known.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/optimizer.hpp>
#include <gpuplan/parallelism.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/trainable.hpp>
#include <gpuplan/training_setup.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace gpuplan::io {

/// Number formats as trainers call them; which recipe that is depends on the engine.
enum class training_precision {
  fp32,
  tf32,
  fp16,       // mixed, or with masters in fp32
  bf16,       // likewise
  fp8,        // of linear layers, beside bf16
  pure_bf16,  // weights, gradients and states
};

/// How the learning rate goes after its warm-up; `wsd` stays, and falls in a line in the last
/// `decay_steps`.
enum class rate_schedule { constant, linear, cosine, wsd };

/// What a file says of DeepSpeed's buffers.
struct said_zero_settings {
  zero_settings is{};  // DeepSpeed's defaults where nothing is said
  // "auto", for which transformers and Accelerate put numbers of the model's hidden size h
  bool reduce_bucket_of_width = false;          // h * h
  bool prefetch_bucket_of_width = false;        // 0.9 h * h
  bool persistence_threshold_of_width = false;  // 10 h

  // Of what files say.
  friend constexpr bool operator==(const said_zero_settings& a, const said_zero_settings& b) {
    const auto sizes = [](const said_zero_settings& of) {
      return std::array{of.is.reduce_bucket,
                        of.is.prefetch_bucket,
                        of.is.persistence_threshold,
                        of.is.max_live_parameters,
                        of.is.max_reuse_distance,
                        of.is.sub_group};
    };
    const auto flags = [](const said_zero_settings& of) {
      return std::array{of.is.contiguous_gradients,
                        of.is.reduce_scatter,
                        of.is.round_robin_gradients,
                        of.reduce_bucket_of_width,
                        of.prefetch_bucket_of_width,
                        of.persistence_threshold_of_width};
    };
    return sizes(a) == sizes(b) && flags(a) == flags(b);
  }
};

/// What a file says of a training. What is absent, or empty, it does not say: readers never fill in
/// a default, but those that a file's own format states in its documentation.
struct training_config {
  // What is trained
  std::string model{};         // a name of the Hub, or a folder with a config.json
  known<transformer> shape{};  // where the file itself says it, as Megatron's flags do
  known<std::int64_t> sequence_length{};
  known<bool> packing{};                // several texts in a sequence, so that none is padded
  known<bool> padding_free{};           // the samples of a micro-batch are one row
  known<bool> pairs_of_answers{};       // TRL's DPOTrainer trains on them, beside a reference,
  known<bool> precomputed_reference{};  // whose log-probabilities were computed before
  known<training> trains{};
  known<std::int64_t> last_layers{};  // where only these train
  known<lora> adapters{};             // with the base in four bits, where it is
  // Of a model of several parts; without a word all do, or have adapters
  known<bool> towers_train{};      // what reads images
  known<bool> connectors_train{};  // what is between parts
  known<bool> language_trains{};   // the others

  // The batch: samples
  known<std::int64_t> micro_batch{};  // of one forward on one replica
  known<std::int64_t> accumulation{};
  known<std::int64_t>
      global_batch{};  // of an optimizer step: micro-batch x replicas x accumulation

  // The GPUs
  known<std::int64_t> gpus{};  // all of them
  known<std::int64_t> nodes{};
  known<std::int64_t> gpus_per_node{};

  // The layout. Absent degrees are not 1: a file may leave them to another one.
  known<std::int64_t> data_parallel{};  // replicas, sharded or not
  known<std::int64_t> shard_group{};    // ranks that share (dp_shard); replicas of it: the rest
  known<std::int64_t> tensor_parallel{};
  known<std::int64_t> pipeline_parallel{};
  known<std::int64_t> virtual_pipeline{};
  known<pipeline_schedule> schedule_of_pipeline{};
  known<pipeline_split> split{};  // of the pipeline, as `parallelism` has it
  known<std::int64_t> context_parallel{};
  known<std::int64_t> expert_parallel{};
  known<std::int64_t> expert_tensor_parallel{};  // where it is more than 1
  known<double> expert_capacity{};               // as `training_setup` has it, and the next two
  known<token_dispatcher> dispatcher{};
  known<gpuplan::context_exchange> context_exchange{};
  known<bool> sequence_parallel{};
  known<int> zero_stage{};
  known<bool> optimizer_on_host{};
  known<bool> weights_on_host{};
  std::string engine{};  // "ddp", "fsdp1", "fsdp2", "deepspeed", "megatron": `engine_class::name`

  // How a step is done
  known<training_precision> precision{};
  known<scaling_kind> scaling{};  // of fp8, by Transformer Engine
  known<bool> fp4_linears{};      // beside bf16, as `precision_recipe` has it, and the next
  known<bool> quantised_weights{};
  known<number_format> weights{};  // as they are held where autocast casts them; frozen ones too
  known<number_format> reduced{};  // gradients, while FSDP sums them; default: the products', of
                                   // Megatron, which holds them so, fp32, and fp16 beside fp16
  known<gpuplan::optimizer> optimizer{};
  known<recompute_mode> recompute{};
  known<std::int64_t> recompute_span{};    // as `training_setup` has it, and the next
  known<std::int64_t> recompute_layers{};  // 0: all
  known<std::int64_t> recompute_period{};
  known<std::int64_t> offloaded_layers{};  // as `offloaded_activations` has it
  known<recomputed_modules> modules{};     // that selective recomputation computes again
  known<bool> saves_costly_results{};      // as `training_setup` has it
  known<bool> checkpoints_reenter{};       // as `implementation` has it
  known<bool> shares_kept_inputs{};        // as `parallelism` has it
  known<attention_kernel> attention{};
  known<bool> fuses_loss{};           // of Megatron, as `implementation` has it
  known<bool> cut_cross_entropy{};    // likewise as `liger_kernels`
  known<bool> liger_kernels{};        // as `implementation` has it
  known<std::int64_t> loss_chunks{};  // likewise, torchtitan's
  known<bool> compiles_layers{};      // likewise, by torch.compile, and the next
  known<bool> compiles_loss{};
  known<bool> cuda_graphs{};  // one of the passes of a step, as `captured_parts::iteration`
  known<said_zero_settings> zero{};
  known<bool> overlaps_reduction{};         // of DeepSpeed and Megatron, as `engine` has it
  known<bool> overlaps_gathers{};           // Megatron's of weights, with the forward pass
  known<bool> reduces_every_micro_batch{};  // as `engine` has it; default: false (Accelerate's)
  known<bool> original_parameters{};        // as `engine` has it
  known<double> dropout{};
  known<double> clip_norm{};  // gradients' norm, at most; 0: they are not clipped

  // The run
  known<double> learning_rate{};
  known<double> least_learning_rate{};  // where the schedule ends
  known<double> warm_up_steps{};        // either these
  known<double> warm_up_share{};        // or a share of all steps
  known<rate_schedule> schedule{};
  known<std::int64_t> decay_steps{};  // of wsd
  known<double> weight_decay{};
  known<std::int64_t> steps{};
  known<double> epochs{};
  known<std::int64_t> samples{};
};

/// What is to be said of a key.
struct remark {
  enum class kind {
    contradicts,  // another key, so that no trainer could obey both
    outdated,     // a name that newer versions refuse
    missing,      // without which the trainer stops, or does not do what it seems to
    doubtful,     // allowed, and rarely meant
  };
  kind is = kind::doubtful;
  std::string key{};        // as the file writes it
  std::string text{};       // a sentence: what is wrong, and what would be taken
  std::string file{};       // that the key names, where the training is not whole without it
  bool is_of_gpus = false;  // it holds for as many GPUs as the file says, and may not for others
  bool is_of_objective = false;  // and where the estimate is not of the file's own loss
};

/// What was read of one file.
struct read_config {
  std::string tool{};  // whose file it is: "axolotl"
  training_config config{};
  training_config usual{};  // what the tool takes where none of a training's files says it
  std::vector<remark> remarks{};
  std::vector<std::string> not_understood{};  // keys, "fsdp_config.forward_prefetch"
  std::string gpu{};  // the kind that a job asks for, by its cluster's name of it: "a100", "H100"
  std::string why{};  // why nothing was read; empty: it was

  [[nodiscard]] explicit operator bool() const { return why.empty(); }
};

/// A file that a trainer or a launcher takes.
struct written_file {
  std::string name{};  // "deepspeed.json"
  std::string text{};
};

/// What a writer makes of a plan.
struct written_config {
  std::vector<written_file> files{};
  std::string command{};  // that starts the training; one line
  // What the plan says and the format cannot, by the names of `training_config`: never silently.
  std::vector<std::string> not_written{};
  std::string why{};  // why nothing was written; empty: it was

  [[nodiscard]] explicit operator bool() const { return why.empty(); }
};

/// What a plan does not determine, and a person puts in its place.
inline constexpr const char* model_placeholder = "YOUR_MODEL";
inline constexpr const char* data_set_placeholder = "YOUR_DATA_SET";
inline constexpr const char* output_placeholder = "YOUR_OUTPUT_FOLDER";
inline constexpr const char* learning_rate_placeholder = "YOUR_LEARNING_RATE";
inline constexpr const char* steps_placeholder = "YOUR_STEPS";
inline constexpr const char* script_placeholder = "YOUR_TRAINING_SCRIPT.py";

}  // namespace gpuplan::io
