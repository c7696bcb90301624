#pragma once

// Megatron-LM's flags, in both directions. Tested with the parser of megatron-core 0.19.2.

#include <gpuplan/io/trainer/command_words.hpp>
#include <gpuplan/io/trainer/launch.hpp>
#include <gpuplan/io/trainer/megatron_lm_flags.hpp>
#include <gpuplan/io/trainer/megatron_settings.hpp>
#include <gpuplan/io/trainer/megatron_shape.hpp>
#include <gpuplan/io/trainer/torchrun.hpp>
#include <gpuplan/io/trainer/words.hpp>
#include <gpuplan/known.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuplan::io {
namespace detail {

class megatron_lm_reader {
 public:
  megatron_lm_reader(const value& flags, read_config& to)
      : from_(flags, to), to_(to), core_(from_, to, megatron_dialect::flags) {}

  void read(const value& flags) {
    training_config& config = to_.config;
    config.trains = training::full;
    core_.read();
    read_precision();
    read_the_rest();
    megatron_shape_reader(from_, to_).read();
    const auto per_stage = from_.integer("--num-layers-per-virtual-pipeline-stage");
    if (per_stage && config.shape && config.pipeline_parallel) {
      std::int64_t layers = config.shape->num_hidden_layers;
      if (config.split) layers += config.split->embedding_layers + config.split->head_layers;
      if (*per_stage > layers || *config.pipeline_parallel > layers ||
          layers % (*per_stage * *config.pipeline_parallel) != 0)
        core_.remark_on(remark::kind::contradicts,
                        "--num-layers-per-virtual-pipeline-stage",
                        "is " + std::to_string(*per_stage) + "; " +
                            chunks_that_are_taken(layers, *config.pipeline_parallel));
      else
        config.virtual_pipeline = layers / (*per_stage * *config.pipeline_parallel);
    }
    core_.conclude();
    if (const std::string code = from_.text("--transformer-impl");
        !code.empty() && code != "transformer_engine")
      core_.remark_on(
          remark::kind::doubtful,
          "--transformer-impl",
          "is " + shown(value(code)) + "; the estimate is of Transformer Engine's layers");
    for (const auto& [name, is] : *flags.members())
      if (is_passed_over(name) ||
          (is_of_mixed_family(name) ? is_passed_of_family(name) : is_of_passed_family(name)))
        from_.find(name, true);
    from_.name_the_others();
  }

 private:
  bool flag(const char* name) {
    const auto is = from_.flag(name);
    return is && *is;
  }
  [[nodiscard]] static std::string chunks_that_are_taken(std::int64_t layers, std::int64_t stages) {
    const std::string all = std::to_string(layers) + " layers";
    if (layers % stages != 0)
      return "with it " + all + " are to be a multiple of pipeline-model-parallel-size, " +
             std::to_string(stages);
    return "a divisor of " + std::to_string(layers / stages) + ", each stage's part of " + all +
           ", is taken";
  }
  void read_precision() {
    const bool is_bf16 = flag("--bf16");
    const bool is_fp16 = flag("--fp16");
    const std::string fp8 = from_.text("--fp8-format");
    const std::string fp4 = from_.text("--fp4-format");
    const bool is_fp4 = fp8.empty() && !fp4.empty();
    if (is_bf16 && is_fp16)
      core_.remark_on(remark::kind::contradicts, "--fp16", "stands beside --bf16");
    // Without a flag Megatron-LM computes in fp32.
    to_.config.precision = !fp8.empty()        ? training_precision::fp8
                           : is_bf16 || is_fp4 ? training_precision::bf16
                           : is_fp16           ? training_precision::fp16
                                               : training_precision::fp32;
    const std::string scaling = from_.text("--fp8-recipe");
    if (!fp8.empty()) to_.config.scaling = scaling_kind::delayed;  // where no flag is
    for (const megatron_scaling& one : megatron_scalings)
      if (scaling == one.flag && !fp8.empty()) to_.config.scaling = one.is;
    if (scaling_for_megatron(to_.config.scaling).flag != scaling && !scaling.empty())
      core_.remark_on(remark::kind::doubtful,
                      "--fp8-recipe",
                      fp8.empty() ? "stands without --fp8-format"
                                  : "is " + shown(value(scaling)) +
                                        "; delayed, tensorwise, blockwise or mxfp8 is taken");
    if (!fp8.empty() && fp8 != "e4m3" && fp8 != "hybrid")
      core_.remark_on(remark::kind::doubtful,
                      "--fp8-format",
                      "is " + shown(value(fp8)) + "; e4m3 or hybrid is taken");
    if (is_fp4) to_.config.fp4_linears = true;
    if (!fp4.empty() && !is_fp4)
      core_.remark_on(remark::kind::contradicts, "--fp4-format", "stands beside --fp8-format");
    if (is_fp4 && fp4 != "e2m1")
      core_.remark_on(
          remark::kind::doubtful, "--fp4-format", "is " + shown(value(fp4)) + "; e2m1 is taken");
    if (const std::string recipe = from_.text("--fp4-recipe");
        !recipe.empty() && (fp4.empty() || recipe != "nvfp4"))
      core_.remark_on(remark::kind::doubtful,
                      "--fp4-recipe",
                      fp4.empty() ? "stands without --fp4-format"
                                  : "is " + shown(value(recipe)) + "; nvfp4 is taken");
    if ((!fp8.empty() || is_fp4) && !is_bf16)
      core_.remark_on(remark::kind::doubtful,
                      is_fp4 ? "--fp4-format" : "--fp8-format",
                      "stands without --bf16; the estimate has it");
    core_.read_gathered_weights();
    const bool sums_in_fp32 = flag("--accumulate-allreduce-grads-in-fp32");
    if (flag("--grad-reduce-in-bf16") && half_of(to_.config) == number_format::bf16)
      to_.config.reduced = number_format::bf16;  // of fp16 it changes nothing
    else if (sums_in_fp32)
      to_.config.reduced = number_format::fp32;
    core_.read_formats();
  }
  void read_the_rest() {
    training_config& config = to_.config;
    const bool is_sft = flag("--sft");
    if (!is_sft) config.packing = true;  // documents follow each other in a sequence
    if (flag("--use-flash-attn") && !config.attention) config.attention = attention_kernel::flash;
    if (flag("--freeze-all-layers"))
      core_.remark_on(remark::kind::doubtful, "--freeze-all-layers", "leaves nothing to train");
    if (const auto samples = from_.number("--lr-warmup-samples")) {
      if (config.global_batch && !config.warm_up_steps)
        config.warm_up_steps = *samples / static_cast<double>(*config.global_batch);
      else if (config.warm_up_steps)
        core_.remark_on(
            remark::kind::contradicts, "--lr-warmup-samples", "stands beside --lr-warmup-iters");
    }
    if (config.steps && config.samples)
      core_.remark_on(remark::kind::contradicts, "--train-samples", "stands beside --train-iters");
    if (const auto layers = from_.integer("--encoder-num-layers"))
      if (!from_.has("--num-layers"))
        core_.remark_on(remark::kind::doubtful,
                        "--encoder-num-layers",
                        "is " + std::to_string(*layers) + "; --num-layers is read");
    const auto length = from_.integer("--encoder-seq-length");
    if (length && !config.sequence_length) config.sequence_length = length;
    core_.refuse_wrong_length("--encoder-seq-length");
    for (const auto& [old, now] :
         {std::pair{"--batch-size", "--micro-batch-size"},
          std::pair{"--model-parallel-size", "--tensor-model-parallel-size"},
          std::pair{"--warmup", "--lr-warmup-fraction"}})
      if (from_.find(old, true) != nullptr)
        core_.remark_on(remark::kind::outdated,
                        old,
                        std::string("is refused by newer versions; ") + now + " is taken");
    read_old_recomputation();
  }
  // Megatron-LM of 2021 and before: of so many layers at a time all is computed again.
  void read_old_recomputation() {
    training_config& config = to_.config;
    const auto span = from_.integer("--checkpoint-num-layers");
    if (!flag("--checkpoint-activations")) return;
    config.recompute = recompute_mode::full;
    config.recompute_span = span ? *span : 1;
    core_.remark_on(remark::kind::outdated,
                    "--checkpoint-activations",
                    "is refused by newer versions; --recompute-granularity full "
                    "--recompute-method uniform --recompute-num-layers " +
                        std::to_string(*config.recompute_span) + " is taken");
  }

  settings_reader from_;
  read_config& to_;
  megatron_reader core_;
};

}  // namespace detail

/// What Megatron-LM's words say: those behind pretrain_gpt.py. `known` is what is known before,
/// such as the number of GPUs, and stays. A flag's values are all words up to the next flag.
/// Megatron-LM's own defaults are taken where it states them and they matter: fp32, Adam, dropout
/// of 0.1, LayerNorm, biases, tied embeddings, a multiple of 128 for the vocabulary, no
/// distributed optimizer, nothing computed again. Tested with megatron-core 0.19.2.
[[nodiscard]] inline read_config read_megatron_lm_words(const std::vector<std::string>& words,
                                                        read_config known = {}) {
  known.tool = "megatron-lm";
  if (words.size() > detail::most_flag_words) {
    known.why = "it has more than " + std::to_string(detail::most_flag_words) + " words";
    return known;
  }
  const value flags = detail::flags_of_words(words, known);
  detail::megatron_lm_reader(flags, known).read(flags);
  return known;
}

/// What a script that starts Megatron-LM says, or a file of its flags alone; the GPUs by torchrun.
[[nodiscard]] inline read_config read_megatron_lm(std::string_view text) {
  const shell_script script = read_shell_script(text);
  if (script && !script.commands.empty() && script.commands[0].words[0].substr(0, 2) == "--")
    return read_megatron_lm_words(script.commands[0].words);
  read_launch started = read_torchrun_words(script);
  if (!started.read) {
    started.read.tool = "megatron-lm";
    return started.read;
  }
  return read_megatron_lm_words(started.words, std::move(started.read));
}

[[nodiscard]] inline bool looks_like_megatron_lm(std::string_view text) {
  int found = 0;
  for (const char* const flag : {"--tensor-model-parallel-size",
                                 "--num-attention-heads",
                                 "--micro-batch-size",
                                 "--pipeline-model-parallel-size",
                                 "--num-layers",
                                 "--lr-decay-style"})
    if (text.find(flag) != std::string_view::npos) ++found;
  return found >= 2;
}

/// A script that starts Megatron-LM's pretrain_gpt.py with a plan, by torchrun: on each node, with
/// HEAD_NODE set to the first's name where there are several. Refused: a plan without the model's
/// sizes, sequence length, micro-batch or precision, and what Megatron-LM would train otherwise.
[[nodiscard]] inline written_config write_megatron_lm(const training_config& config) {
  written_config made;
  const std::pair<bool, const char*> needed[] = {
      {!!config.shape, "shape"},
      {!!config.sequence_length, "sequence_length"},
      {!!config.micro_batch, "micro_batch"},
      {!!config.precision, "precision"},
  };
  for (const auto& [is_known, name] : needed)
    if (!is_known)
      return made.why = std::string(name) + " is not known; Megatron-LM needs it", made;
  const detail::megatron_plan plan = detail::megatron_settings_of(config);
  made.why = plan.why;
  if (!made) return made;
  constexpr std::int64_t most = std::int64_t{1} << 20;
  std::int64_t ranks = 1;
  for (const auto& degree : {config.tensor_parallel,
                             config.pipeline_parallel,
                             config.context_parallel,
                             config.data_parallel}) {
    if (degree && (*degree > most || *degree < 1)) return made.why = "a degree is too large", made;
    if (degree) ranks *= *degree;
    if (ranks > most) return made.why = "the degrees make more than 2^20 GPUs", made;
  }
  training_config placed = config;
  if (!placed.gpus && config.data_parallel) placed.gpus = ranks;
  const detail::machines on = detail::machines_of(placed);
  made.why = on.why.empty() ? detail::flaw_of_shape_for_megatron(*config.shape, config) : on.why;
  if (made && (config.data_parallel ? on.gpus() != ranks : on.gpus() % ranks != 0))
    made.why = "gpus is " + std::to_string(on.gpus()) + "; the product of the degrees, " +
               std::to_string(ranks) + ", is taken";
  if (!made) return made;

  detail::megatron_words words;
  detail::put_shape(*config.shape, *config.sequence_length, words);
  for (const auto& [key, is] : plan.settings) {
    if (is.is_nothing() || (is.flag() != nullptr && !*is.flag())) continue;
    // a layout says how many chunks there are
    if (key.flag == std::string_view(detail::megatron_chunks.flag) && config.split &&
        config.split->listed.count != 0)
      continue;
    std::string text = is.flag() != nullptr || is.items() != nullptr ? "" : detail::plain_word(is);
    if (is.items() != nullptr)
      for (const value& one : *is.items())
        text += (text.empty() ? "" : " ") + detail::plain_word(one);
    words.emplace_back(key.flag, std::move(text));
  }
  const bool is_fp8 = *config.precision == training_precision::fp8;
  const auto put = [&words](const char* flag, const char* word) { words.emplace_back(flag, word); };
  if (is_fp8 || *config.precision == training_precision::bf16) put("--bf16", "");
  if (*config.precision == training_precision::fp16) put("--fp16", "");
  if (is_fp8) {
    put("--fp8-format", "hybrid");
    put("--fp8-recipe", detail::scaling_for_megatron(config.scaling).flag);
  }
  if (config.fp4_linears && *config.fp4_linears) {
    put("--fp4-format", "e2m1");
    put("--fp4-recipe", "nvfp4");
  }
  if (config.cuda_graphs && *config.cuda_graphs) {
    put(detail::megatron_graphs.flag, "full_iteration");
    put("--no-check-for-nan-in-loss-and-grad", "");  // it stops with that check
  }
  if (detail::has_other_sums(config))
    put(*config.reduced == number_format::fp32 ? "--accumulate-allreduce-grads-in-fp32"
                                               : "--grad-reduce-in-bf16",
        "");
  // Offloading is in the optimizer with states of chosen formats alone.
  if (config.optimizer_on_host && *config.optimizer_on_host &&
      !(config.optimizer && config.optimizer->reads_narrow_gradients))
    put(detail::megatron_aware.flag, "");
  // Its size is the model's own, so that the table has exactly these rows.
  put("--tokenizer-type", "NullTokenizer");
  // It stops without these.
  if (!config.learning_rate) put("--lr", learning_rate_placeholder);
  if (!config.steps && !config.samples) put("--train-iters", steps_placeholder);
  put("--data-path", data_set_placeholder);
  put("--save", output_placeholder);
  put("--save-interval", "1000");

  launch how;
  how.command = "pretrain_gpt.py";
  training_config gpus;
  gpus.nodes = on.nodes;
  gpus.gpus_per_node = on.gpus_per_node;
  made = write_torchrun(gpus, how);
  if (!made) return made;
  std::string text = std::move(made.files[0].text);
  text.pop_back();
  for (const auto& [flag, is] : words) {
    text += " \\\n  " + flag;
    const bool is_quoted = is.find_first_of("[(|*") != std::string::npos;
    if (!is.empty()) text += is_quoted ? " '" + is + "'" : " " + is;
  }
  text.insert(text.find('\n') + 1,
              "# written for Megatron-LM of megatron-core 0.19.2; put your tokenizer in the place "
              "of NullTokenizer\n# Beside published weights: --rotary-base and --norm-epsilon as "
              "the model's config.json has them; Megatron's are 10000 and 1e-5\n");
  made.files = {{"megatron_lm.sh", text + "\n"}};
  made.command = "bash megatron_lm.sh";
  made.not_written = detail::not_said_to_megatron(
      config,
      {"shape", "cuda_graphs", "reduced", "gpus", "nodes", "gpus_per_node", "data_parallel"});
  return made;
}

}  // namespace gpuplan::io
