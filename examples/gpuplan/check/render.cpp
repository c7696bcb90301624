#include "check/render.hpp"

#include <gpuplan/io/format.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/units.hpp>

#include <string>
#include <vector>

#include "plan/options.hpp"
#include "plan/report.hpp"
#include "setups/options.hpp"

namespace check_program {
namespace {

using namespace gpuplan;
namespace io = gpuplan::io;

std::string number(double value, int figures = 3) {
  return io::decimal(value, plan_program::digits_of(value, figures));
}
std::string GiB(bytes size) { return io::decimal(in(size, 1_GiB), 1) + " GiB"; }

const char* word_of(io::remark::kind kind) {
  switch (kind) {
    case io::remark::kind::contradicts:
      return "contradicts";
    case io::remark::kind::outdated:
      return "outdated";
    case io::remark::kind::missing:
      return "missing";
    case io::remark::kind::doubtful:
      break;
  }
  return "doubtful";
}

// One line for each thing that is said: what, and which value.
io::table lines_of(const std::string& title, const answer& made, const judged_cluster& judged) {
  const verdict& says = judged.says;
  io::table table{.title = title, .columns = {{.name = "question"}, {.name = "answer"}}};
  const auto add = [&](const char* what, const std::string& text) {
    table.rows.push_back({what, text});
  };
  const std::string of = " of " + GiB(says.usable) + " on " + judged.on.gpu.name;
  add("does it fit",
      (says.fits()           ? "yes: "
       : says.is_uncountable ? "no: more than "
                             : "no: ") +
          GiB(says.memory.total()) + of);
  if (!says.why_it_cannot_run.empty()) add("does it run", "no: " + says.why_it_cannot_run);
  const memory_breakdown_part& most = largest_part_of(says.memory);
  add("peak",
      std::string(text(says.memory.when)) + "; most of it " + most.name + ", " +
          GiB(says.memory.*most.size));
  add("largest micro-batch",
      says.largest_micro_batch == 0 ? "none fits" : std::to_string(says.largest_micro_batch));
  const std::int64_t samples = made.training.plan.effective_batch();
  add("effective batch", std::to_string(samples) + (samples == 1 ? " sample" : " samples"));
  if (says.step) {
    add("a step takes",
        number(in(*says.step, 1_s)) + " s (" + number(in(says.step_by_stack.low(), 1_s)) + " to " +
            number(in(says.step_by_stack.high(), 1_s)) +
            (made.training.setup.composite != nullptr ? " for 80 % of such steps)"
                                                      : " by other software)"));
    add("throughput",
        io::decimal(in(says.rates.tokens, 1_tokens_per_s), 0) + " tokens/s, MFU " +
            io::decimal(100 * says.rates.mfu, 1) + " %");
  } else if (says.why_it_cannot_run.empty()) {
    add("a step takes", "not known: " + says.why_no_time);
  }
  return table;
}

io::table better_ways(const verdict& says) {
  io::table table{.title = "better, with the same batch on the same GPUs",
                  .columns = {{.name = "change"},
                              {.name = "memory", .unit = "GiB", .align = io::alignment::point},
                              {.name = "step", .unit = "s", .align = io::alignment::point}}};
  for (const alternative& one : says.better)
    table.rows.push_back({one.change,
                          io::cell(in(one.plan.required, 1_GiB), 1),
                          io::cell(in(one.plan.step, 1_s), 3)});
  return table;
}

io::table other_methods(const verdict& says) {
  io::table table{.title = "what would fit, at a micro-batch of 1",
                  .columns = {{.name = "method"},
                              {.name = "memory", .unit = "GiB", .align = io::alignment::point}}};
  for (const runs::remedy& one : says.remedies)
    table.rows.push_back({one.in_words, io::cell(in(one.needed, 1_GiB), 1)});
  return table;
}

io::table remarks_of(const answer& made) {
  io::table table{.title = "what is wrong in the files",
                  .columns = {{.name = "key"}, {.name = "is"}, {.name = "why"}}};
  for (const io::remark& one : made.training.remarks)
    table.rows.push_back({one.key, word_of(one.is), one.text});
  return table;
}

io::table list(const char* title, const char* column, const std::vector<std::string>& texts) {
  io::table table{.title = title, .columns = {{.name = column}}};
  for (const std::string& text : texts) table.rows.push_back({text});
  return table;
}

// For programs: everything as rows of one table, those of a GPU with its id.
io::table flat(const answer& made) {
  io::table table{
      .columns = {
          {.name = "gpu"}, {.name = "what"}, {.name = "key"}, {.name = "value"}, {.name = "unit"}}};
  std::string gpu;
  // Without a unit where the key says it.
  const auto add =
      [&](const char* what, const std::string& key, const io::cell& value, const char* unit = "") {
        table.rows.push_back({gpu.empty() ? io::cell() : io::cell(gpu), what, key, value, unit});
      };
  const batch_plan& plan = made.training.plan;
  const parallelism& layout = made.training.setup.parallelism;
  add("training", "model", made.model);
  add("training", "tool", made.read.tool);
  for (const auto& [key, value] :
       {std::pair{"gpus", made.training.gpus},
        std::pair{"micro_batch", plan.micro_batch},
        std::pair{"accumulation", plan.accumulation},
        std::pair{"data_parallel", plan.data_parallel},
        std::pair{"effective_batch", plan.effective_batch()},
        std::pair{"sequence_length", made.training.setup.sequence_length},
        std::pair{"tensor_parallel", layout.tensor_parallel},
        std::pair{"pipeline_parallel", layout.pipeline_parallel},
        std::pair{"context_parallel", layout.context_parallel},
        std::pair{"expert_parallel", layout.expert_parallel},
        std::pair{"zero_stage", std::int64_t{layout.zero_stage}}})
    add("training", key, io::cell(value));
  if (layout.expert_tensor_parallel > 1)
    add("training", "expert_tensor_parallel", io::cell(layout.expert_tensor_parallel));
  for (const judged_cluster& judged : made.clusters) {
    const verdict& says = judged.says;
    gpu = judged.on.gpu.id;
    add("verdict", "fits", says.fits() ? "yes" : "no");
    if (!says.why_it_cannot_run.empty()) add("verdict", "cannot_run", says.why_it_cannot_run);
    add("verdict", "memory_GiB", io::cell(in(says.memory.total(), 1_GiB)));
    add("verdict", "usable_GiB", io::cell(in(says.usable, 1_GiB)));
    add("verdict", "peak", std::string(text(says.memory.when)));
    const memory_breakdown_part& most = largest_part_of(says.memory);
    add("verdict", "largest_part", most.name);
    add("verdict", "largest_part_GiB", io::cell(in(says.memory.*most.size, 1_GiB)));
    add("verdict", "largest_micro_batch", io::cell(says.largest_micro_batch));
    if (says.step) {
      add("verdict", "step_s", io::cell(in(*says.step, 1_s)));
      add("verdict", "step_s_low", io::cell(in(says.step_by_stack.low(), 1_s)));
      add("verdict", "step_s_high", io::cell(in(says.step_by_stack.high(), 1_s)));
      add("verdict", "tokens_per_s", io::cell(in(says.rates.tokens, 1_tokens_per_s)));
      add("verdict", "mfu_pct", io::cell(100 * says.rates.mfu));
    }
    for (const alternative& one : says.better)
      add("better", one.change, io::cell(in(one.plan.step, 1_s)), "s");
    for (const runs::remedy& one : says.remedies)
      add("would fit", one.in_words, io::cell(in(one.needed, 1_GiB)), "GiB");
  }
  gpu.clear();
  for (const io::remark& one : made.training.remarks) add(word_of(one.is), one.key, one.text);
  for (const io::assumption& one : made.training.assumed) add("assumed", one.member, one.text);
  for (const std::string& key : made.read.not_understood) add("not understood", key, "");
  return table;
}

}  // namespace

std::string render(const answer& made, const guides::output& as) {
  if (!plan_program::is_for_people(as)) return guides::render(flat(made), as);
  std::string text;
  const auto add = [&](const io::table& table) {
    if (!table.rows.empty()) text += (text.empty() ? "" : "\n") + guides::render(table, as);
  };
  const io::configured_training& training = made.training;
  std::string title =
      made.model + " by " + made.read.tool + ": " + setups::in_words(training.setup, training.plan);
  for (const judged_cluster& judged : made.clusters) {
    const bool is_first = text.empty();
    if (!is_first) title = std::string("on ") + judged.on.gpu.name;
    add(lines_of(title, made, judged));
    if (is_first) add(remarks_of(made));
    add(better_ways(judged.says));
    add(other_methods(judged.says));
  }
  std::vector<std::string> assumed;
  for (const io::assumption& one : training.assumed) assumed.push_back(one.text);
  add(list("what no file says is taken as", "assumption", assumed));
  add(list("keys that were not understood, and are left out", "key", made.read.not_understood));
  return text;
}

}  // namespace check_program
