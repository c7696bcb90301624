// Guide 000: the model, and what the batch formula leaves out of it.

#include <gpuplan/catalog/models/vla.hpp>
#include <gpuplan/flops.hpp>
#include <gpuplan/parameters.hpp>

#include "guides/gr00t_cluster/tables.hpp"
#include "guides/model_cells.hpp"

namespace guides::gr00t_cluster {
namespace {

/// Vision and language, both frozen. SigLIP's pooling and the head of the language model are in the
/// checkpoint but lead to nothing.
constexpr composite_model backbone(const inputs& given, std::int64_t cameras) {
  composite_model model = catalog::gr00t_n1_5_3b_backbone;
  component& vision = model.parts[0];
  component& language = model.parts[1];
  vision.model.attention_pooling = false;
  vision.sequences = cameras;
  vision.next.tokens *= cameras;
  vision.next.trains = false;
  language.model.head = head_kind::none;
  language.sequence_length = vision.next.tokens + given.model.text_tokens;
  vision.trains.what = language.trains.what = training::frozen;
  return model;
}

/// The work of one sample, over the numbers of cameras.
constexpr range<flop_count> of_a_sample(const inputs& given) {
  const auto work = [&](std::int64_t cameras) {
    return flops(backbone(given, cameras), {}).model();
  };
  return {work(given.model.cameras.low()), work(given.model.cameras.high())};
}

constexpr range<flop_count> of_a_step(const inputs& given, const strategy& s) {
  return static_cast<double>(plan_of(given, s).effective_batch()) * of_a_sample(given);
}

/// What each GPU does while the guide's hours pass.
constexpr range<compute_rate> implied_rate(const inputs& given, const strategy& s) {
  const range<flop_count> work = static_cast<double>(given.steps) * of_a_step(given, s);
  const std::int64_t gpus = plan_of(given, s).data_parallel;
  return {achieved_rate(work.low(), s.hours.high(), gpus),
          achieved_rate(work.high(), s.hours.low(), gpus)};
}

// What holds the first sample up: weights, gradients, Adam's two moments.
constexpr bytes weights(const inputs& given) {
  const trained_model& m = given.model;
  return ((m.parameters - m.trainable) * m.frozen_bytes + m.trainable * m.trained_bytes) * 1_B;
}
constexpr bytes gradients(const inputs& given) {
  return given.model.trainable * given.model.gradient_bytes * 1_B;
}
constexpr bytes moments(const inputs& given) {
  return given.model.trainable * given.model.adam_bytes * 1_B;
}

constexpr bytes states(const inputs& given) {
  return weights(given) + gradients(given) + moments(given);
}

constexpr affine_memory with_states(const inputs& given) {
  return {.fixed = states(given) + given.overhead, .per_sample = given.per_sample};
}

// What a report has of the frozen part is the shape's, whose vocabulary was chosen for it; of the
// rest the shape has it too. A run's two files of weights are 7,586,072,344 bytes with their
// headers.
static_assert(parameters(catalog::gr00t_n1_5_3b_backbone).total() ==
              guide.model.parameters - guide.model.trainable);
static_assert(parameters(catalog::gr00t_n1_5_3b).total() == guide.model.parameters);
static_assert(weights(guide) == 7585.939328_MB);
static_assert(flops(backbone(guide, 2), {}).backward() == 0_FLOP);

}  // namespace

bytes states_of(const inputs& given) { return states(given); }

range<bytes> saved_weights(const inputs& given) {
  return {given.model.parameters * 2_B, weights(given)};
}
bytes saved_states(const inputs& given) { return weights(given) + moments(given); }

shown largest_with_states(const inputs& given, card gpu) {
  return largest(printed(given, gpu), with_states(given));
}

table the_model(const inputs& given) {
  const trained_model& m = given.model;
  table t{.id = "T0.10",
          .title = "the model: GR00T N1.5 3B",
          .inputs = "its public fine-tunes; its shape, as far as recalled; 1 to 3 cameras"};
  const char* row = "GR00T N1.5 3B";
  const bytes in_bf16 = m.parameters * 2_B;
  t.also(row,
         "parameters",
         parameter_unit,
         millions(m.parameters),
         "by date, and checkpoints of 5–8 GB: N1, 2192.58 M, would write 4.4");
  t.also(row,
         "parameters of the frozen part",
         parameter_unit,
         millions(parameters(catalog::gr00t_n1_5_3b_backbone).total()),
         "SigLIP so400m, a linear layer, 12 layers of Qwen3 1.7B");
  t.also(row,
         "parameters that train",
         parameter_unit,
         millions(m.trainable),
         "the action head, as fine-tunes print it; the shape replayed here has as many");
  t.compare(row, "model weights", "GB", number(5), number(GB(in_bf16), 2), "all in BF16");
  t.compare(row,
            "a checkpoint",
            "GB",
            span_of({5, 8}),
            span_of(GB({in_bf16, weights(given)}), 2),
            "all in BF16, or what trains in FP32");
  t.compare(row,
            "memory before the first sample",
            "GB",
            number(7),
            number(GB(states(given) + given.overhead), 1),
            "weights " + decimal(GB(weights(given)), 2) + ", gradients " +
                decimal(GB(gradients(given)), 2) + ", Adam " + decimal(GB(moments(given)), 2) +
                ", and the guide's overhead");
  t.also(row,
         "work of a sample, frozen part",
         "TFLOP",
         span_of(in_TFLOP(of_a_sample(given)), 2),
         "forward alone: nothing before the action head trains");
  t.also(row,
         "work of a sample, with the action head",
         "TFLOP",
         span_of(in_TFLOP(sample_work(given)), 2),
         "of which the head goes back too");
  t.compare(row,
            "memory of a sample, replayed",
            "GB",
            number(1.2, 1),
            span_of(GB(sample_memory(given)), 2),
            "where the micro-batch makes the peak, and not AdamW");
  for (int i = 0; i < 3; ++i) {
    const strategy& s = given.strategies[i];
    t.also(strategy_name(i),
           "work of a step, frozen part",
           "TFLOP",
           span_of(in_TFLOP(of_a_step(given, s)), 0));
    t.also(strategy_name(i),
           "rate per GPU that the hours imply",
           "TFLOPS",
           span_of(in_TFLOPS(implied_rate(given, s)), 1),
           "at least: without the action head");
    t.also(strategy_name(i),
           "largest micro-batch beside that memory",
           "samples",
           largest_with_states(given, s.gpu),
           "GB printed; the guide runs " + std::to_string(s.micro_batch));
    t.also(strategy_name(i),
           "memory of a step, replayed",
           "GB",
           span_of(GB(step_memory(given, s)), 1),
           "AdamW over lists of tensors; the formula says " +
               decimal(GB(formula(given).required(plan_of(given, s))), 1));
    t.also(strategy_name(i),
           "largest micro-batch, replayed",
           "samples",
           largest_step(given, s),
           "on one GPU, beside the context and what fragments");
  }
  return t;
}

}  // namespace guides::gr00t_cluster
