#include "batch/command_line.hpp"

#include <gpuplan/batch.hpp>
#include <gpuplan/detail/integer.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/io/text.hpp>
#include <gpuplan/known.hpp>
#include <gpuplan/memory/transformer.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/solver.hpp>
#include <gpuplan/time/step_rates.hpp>
#include <gpuplan/units.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "guides/front_end.hpp"
#include "guides/render.hpp"
#include "runs/clusters.hpp"
#include "runs/ranges.hpp"
#include "runs/remedies.hpp"
#include "runs/stated_step.hpp"
#include "setups/numbers.hpp"
#include "setups/options.hpp"
#include "setups/replicas.hpp"

namespace batch_program {
namespace {

using namespace gpuplan;
namespace io = gpuplan::io;
using guides::bad_request;
using io::cell;

constexpr const char* about =
    "Micro-batch, GPUs and accumulation: the samples of an optimizer step that they make, and "
    "what\n"
    "makes the samples that one wants.\n"
    "\n"
    "With --batch N, or N-M, every micro-batch and accumulation that makes it and fits, by the\n"
    "replayed memory, the largest micro-batch first; where the replicas do not divide it, the\n"
    "nearest that they do, and how to deal it out unevenly. Without it the plan that is stated:\n"
    "whether it fits, the largest micro-batch, and where it does not fit the way back into "
    "memory.\n"
    "--on-gpus keeps the batch on other numbers of GPUs. --out-of-memory says what to try, step "
    "by\n"
    "step, once a run is out of memory, whatever the estimate.";
constexpr const char* examples =
    "Examples:\n"
    "  gpuplan batch llama-3-8b --gpu h100-sxm --gpus 8 --zero 3 --batch 512\n"
    "  gpuplan batch llama-3-8b --gpu h100-sxm --gpus 8 --zero 3 --batch 480-512 --on-gpus 4,16\n"
    "  gpuplan batch gpt2 --gpu 4090 --micro-batch 64 --accumulation 2";

struct request {
  runs::step_words step{};
  known<range<std::int64_t>> batch{};
  std::vector<std::int64_t> on_gpus{};
  bool is_out_of_memory = false;
  int most_rows = 10;
};

struct row {
  std::string what;
  std::int64_t gpus = 0;
  batch_plan plan{};
  bool recomputes = false;  // all layers, because memory is short
  std::string note{};
};

micro_batch_rule micro_batches_of(const fullest_stage_memory& of) {
  return gpuplan::micro_batches_of(of.of.setup.parallelism);
}

// What plans take whose micro-batches are as many as the schedule goes through next: those that it
// does not go through are left out later.
struct scheduled_memory {
  fullest_stage_memory of{};

  batch_plan taken(batch_plan plan) const {
    const micro_batch_rule rule = micro_batches_of(of);
    plan.accumulation =
        detail::ceil_div(std::max(plan.accumulation, rule.least), rule.multiple_of) *
        rule.multiple_of;
    return plan;
  }
  bytes required(const batch_plan& plan) const { return of.required(taken(plan)); }
};
result<fullest_stage_memory> validate(const scheduled_memory& memory) {
  return validate(memory.of);
}
result<batch_plan> validate(const scheduled_memory& memory, const batch_plan& plan) {
  return validate(memory.of, memory.taken(plan));
}

// One request, worked out: rows of plans, and sentences below them.
class answer {
 public:
  answer(const request& asked)
      : asked_(asked),
        on_(runs::cluster_of(asked.step.clusters, runs::defaults_of(asked.step.setup))),
        stated_(runs::step_of(without_batch(asked), on_)) {
    if (asked.is_out_of_memory)
      tell_what_to_try();
    else if (asked.batch)
      look_for(*asked.batch);
    else
      judge_stated();
    if (!rows_.empty()) keep_on_other_gpus(rows_.front().plan);
  }

  std::string text(const guides::output& as) const {
    if (!traits_of(as.format).for_people) return guides::render(for_programs(), as);
    std::string all = guides::render(for_people(), as);
    for (const std::string& sentence : below_)
      for (const std::string& line : io::wrap(sentence, as.width)) all += line + "\n";
    return all;
  }

 private:
  const request& asked_;
  runs::named_cluster on_;
  runs::stated_step stated_;
  std::vector<row> rows_{};
  std::vector<std::string> below_{};

  memory_budget budget() const { return on_.on.gpu; }
  fullest_stage_memory recomputing() const {
    fullest_stage_memory model = stated_.memory;
    model.of.setup.recompute = recompute_mode::full;
    return model;
  }
  std::int64_t in_replica() const { return setups::gpus_of_replica(asked_.step.setup); }
  void add(const std::string& what, const batch_plan& plan) {
    rows_.push_back({what, plan.data_parallel * in_replica(), plan});
  }
  // What files say of the batch counts where no batch is wanted.
  static runs::step_words without_batch(const request& asked) {
    runs::step_words stated = asked.step;
    if (!asked.batch) return stated;
    stated.setup.files.config.global_batch = {};
    // As few micro-batches as the schedule goes through, while they are looked for.
    const micro_batch_rule taken = gpuplan::micro_batches_of(stated.setup.setup.parallelism);
    stated.setup.plan.accumulation =
        detail::ceil_div(taken.least, taken.multiple_of) * taken.multiple_of;
    return stated;
  }
  bool runs(const batch_plan& plan) const {
    const micro_batch_rule taken = micro_batches_of(stated_.memory);
    return plan.accumulation >= taken.least && plan.accumulation % taken.multiple_of == 0;
  }
  std::string micro_batches_in_words() const {
    const micro_batch_rule taken = micro_batches_of(stated_.memory);
    return "the pipeline's schedule goes through " +
           (taken.multiple_of > 1
                ? "multiples of " + setups::grouped(taken.multiple_of) + " micro-batches"
                : "at least " + setups::grouped(taken.least) + " micro-batches");
  }
  [[noreturn]] void refuse(const failure& why) const {
    std::string text = setups::sentence_of(why);
    if (why.code == errc::exceeds_gpu_memory) text += remedies(plan_in(why));
    throw bad_request(text, why);
  }

  // That a failure is of, as far as it says so.
  batch_plan plan_in(const failure& why) const {
    batch_plan plan = stated_.plan;
    for (unsigned at = 0; at < why.count; ++at) {
      const named_fact& one = why.facts[at];
      if (one.name == fact::micro_batch) plan.micro_batch = one.value;
      if (one.name == fact::accumulation) plan.accumulation = one.value;
      if (one.name == fact::data_parallel) plan.data_parallel = one.value;
    }
    // One sample at a time needs least, and as many of them as the batch has.
    if (asked_.batch && plan.data_parallel > 0)
      plan.accumulation = std::max(plan.accumulation, asked_.batch->low() / plan.data_parallel);
    return plan;
  }

  // "; each of these would do: ..."
  std::string remedies(const batch_plan& plan) const {
    std::string text;
    for (const runs::remedy& one :
         runs::remedies_of(stated_.named.setup, plan, on_.on.gpu, asked_.step.fragmentation / 100))
      text += (text.empty() ? "; each of these would do: " : ", or ") + one.options + " (" +
              io::decimal(in(one.needed, 1_GiB), 1) + " GiB)";
    return text;
  }

  void look_for(range<std::int64_t> batch) {
    const std::int64_t replicas = stated_.plan.data_parallel;
    const batch_request wanted{
        .effective_batch = batch, .data_parallel = replicas, .gpu = budget()};
    const scheduled_memory memory{stated_.memory};
    const batch_options options(wanted, memory);
    if (detail::failed(options.why()) && options.why().code != errc::no_such_batch)
      refuse(options.why());
    if (!detail::failed(options.why())) {
      for (const batch_plan& plan : options) {
        if (!runs(plan)) continue;
        if (static_cast<int>(rows_.size()) == asked_.most_rows) {
          below_.push_back("there are more; --rows lists them");
          break;
        }
        add(rows_.empty() ? "best" : "", plan);
      }
      if (rows_.empty())
        throw bad_request(micro_batches_in_words() + ", of which none makes a batch of " +
                          in_words(batch) + " on " + setups::grouped(replicas) +
                          (replicas == 1 ? " replica" : " replicas"));
      return;
    }
    const auto nearest = solve_nearest_batch(wanted, memory);
    if (!nearest) refuse(nearest.why());
    if (!runs(*nearest))
      throw bad_request(setups::grouped(replicas) + " replicas divide no batch of " +
                        in_words(batch) + ", and " + micro_batches_in_words());
    add("nearest", *nearest);
    const auto other = nearest->effective_batch() > batch.high()
                           ? nearest->effective_batch() - replicas
                           : nearest->effective_batch() + replicas;
    if (other > 0)
      if (const auto plan = solve_batch(
              {.effective_batch = other, .data_parallel = replicas, .gpu = budget()}, memory))
        add("other side", *plan);
    below_.push_back(setups::grouped(replicas) + " replicas divide no batch of " + in_words(batch) +
                     "; those above are the nearest that they divide");
    const auto uneven = solve_uneven_batch(batch.high(), replicas, budget(), memory);
    if (!uneven) return;
    below_.push_back("or exactly " + setups::grouped(uneven->effective_batch) + ": " +
                     setups::grouped(uneven->gpus_with_larger_share) +
                     (uneven->gpus_with_larger_share == 1 ? " replica with " : " replicas with ") +
                     setups::grouped(uneven->larger_share) + " samples and the others with " +
                     setups::grouped(uneven->smaller_share) + ", in " +
                     setups::grouped(uneven->accumulation) + " micro-batches of at most " +
                     setups::grouped(uneven->micro_batch) +
                     "; each replica's mean gradient then counts by its share of the samples");
  }

  static std::string in_words(range<std::int64_t> batch) {
    const std::string low = setups::grouped(batch.low());
    return batch.low() == batch.high() ? low : low + " to " + setups::grouped(batch.high());
  }

  void judge_stated() {
    const auto way =
        recover_from_out_of_memory(stated_.plan, budget(), stated_.memory, recomputing());
    if (!way && way.why().code != errc::exceeds_gpu_memory) refuse(way.why());
    add("stated", stated_.plan);
    if (way && way->count == 0) {
      if (const auto most = max_micro_batch(budget(), stated_.memory, stated_.plan);
          most && *most > stated_.plan.micro_batch) {
        batch_plan largest = stated_.plan;
        largest.micro_batch = *most;
        add("largest micro-batch", largest);
      }
      return;
    }
    if (!way) refuse(way.why());
    rows_.front().note = "does not fit";
    row back{"way back",
             rows_.front().gpus,
             way->plan,
             way->recompute && stated_.named.setup.recompute != recompute_mode::full,
             ""};
    rows_.push_back(back);
    rows_.back().note = "fits, of the same batch";
  }

  void tell_what_to_try() {
    batch_plan plan = stated_.plan;
    bool recompute = stated_.named.setup.recompute == recompute_mode::full;
    const bool recomputes_already = recompute;
    add("out of memory", plan);
    for (auto next = after_out_of_memory(plan, recompute); next;
         next = after_out_of_memory(plan, recompute)) {
      plan = next->plan;
      recompute = next->recompute;
      rows_.push_back({"then", rows_.front().gpus, plan, recompute && !recomputes_already, ""});
    }
    below_.push_back("each keeps the batch" + remedies(stated_.plan));
  }

  void keep_on_other_gpus(batch_plan plan) {  // by value: rows are added below
    for (const std::int64_t gpus : asked_.on_gpus) {
      const std::string what = "on " + setups::grouped(gpus) + (gpus == 1 ? " GPU" : " GPUs");
      if (gpus % in_replica() != 0)
        throw bad_request("--on-gpus " + std::to_string(gpus) + ": a replica has " +
                          std::to_string(in_replica()) + " GPUs, of which a multiple is taken");
      const scheduled_memory memory{stated_.memory};
      const auto kept = keep_effective_batch(plan, gpus / in_replica(), budget(), memory);
      if (kept) {
        add(what, *kept);
        if (!runs(*kept)) rows_.back().note = micro_batches_in_words();
        continue;
      }
      const auto nearest = solve_nearest_batch({.effective_batch = plan.effective_batch(),
                                                .data_parallel = gpus / in_replica(),
                                                .gpu = budget()},
                                               memory);
      if (nearest) {
        add(what, *nearest);
        rows_.back().note = "the nearest batch";
        continue;
      }
      // That it does not fit on some is an answer, beside those on which it does.
      const std::int64_t replicas = gpus / in_replica();
      if (nearest.why().code != errc::exceeds_gpu_memory || asked_.on_gpus.size() == 1)
        refuse(nearest.why());
      add(what,
          {.micro_batch = 1,
           .data_parallel = replicas,
           .accumulation = detail::ceil_div(plan.effective_batch(), replicas)});
      rows_.back().note = "does not fit";
    }
  }

  bytes memory_of(const row& one) const {
    return (one.recomputes ? recomputing() : stated_.memory).required(one.plan);
  }
  // On as many nodes as the GPUs fill.
  known<duration> time_of(const row& one) const {
    if (stated_.replayed) {
      replayed_time by = *stated_.replayed;
      by.on.nodes = std::max(by.on.nodes, detail::ceil_div(one.gpus, by.on.gpus_per_node));
      if (one.recomputes) by.setup.recompute = recompute_mode::full;
      const auto step = by.step(one.plan);
      return step ? known<duration>(*step) : known<duration>();
    }
    roofline_time model = stated_.time;
    model.on.nodes = std::max(model.on.nodes, detail::ceil_div(one.gpus, model.on.gpus_per_node));
    if (one.recomputes) model.setup.recompute = recompute_mode::full;
    if (!validate(model, one.plan)) return {};
    return model.step(one.plan);
  }

  io::table for_people() const {
    io::table table{.title = stated_.named.name + " (" + stated_.named.setup.framework.name +
                             ") on " + runs::in_words(on_.on) + ", which have " +
                             io::decimal(in(usable_memory(on_.on.gpu), 1_GiB), 1) +
                             " GiB for PyTorch"};
    table.columns = {{.name = "plan"}};
    for (const char* name : {"gpus", "micro-batch", "accumulation", "batch"})
      table.columns.push_back({.name = name, .align = io::alignment::right});
    table.columns.push_back({.name = "recompute"});
    for (const char* name : {"GiB", "step_s", "tokens/s"})
      table.columns.push_back({.name = name, .align = io::alignment::point});
    table.columns.push_back({.name = "note"});
    for (const row& one : rows_) {
      const known<duration> step = time_of(one);
      const bytes memory = memory_of(one);
      table.rows.push_back({one.what,
                            one.gpus,
                            one.plan.micro_batch,
                            one.plan.accumulation,
                            one.plan.effective_batch(),
                            recompute_of(one),
                            {in(memory, 1_GiB), 1},
                            step ? cell{in(*step, 1_s), 2} : cell(),
                            step ? cell{tokens_of(one, *step), 0} : cell(),
                            one.note});
    }
    return table;
  }
  io::table for_programs() const {
    io::table table;
    for (const char* name : {"plan",
                             "gpu",
                             "gpus",
                             "data_parallel",
                             "micro_batch",
                             "accumulation",
                             "batch",
                             "recompute",
                             "memory_GiB",
                             "usable_GiB",
                             "fits",
                             "step_s",
                             "tokens_per_s",
                             "note"})
      table.columns.push_back({.name = name});
    for (const row& one : rows_) {
      const known<duration> step = time_of(one);
      const bytes memory = memory_of(one);
      const bytes usable = usable_memory(on_.on.gpu);
      table.rows.push_back({one.what,
                            on_.on.gpu.id,
                            one.gpus,
                            one.plan.data_parallel,
                            one.plan.micro_batch,
                            one.plan.accumulation,
                            one.plan.effective_batch(),
                            recompute_of(one),
                            in(memory, 1_GiB),
                            in(usable, 1_GiB),
                            memory <= usable ? "yes" : "no",
                            step ? cell{in(*step, 1_s)} : cell(),
                            step ? cell{tokens_of(one, *step)} : cell(),
                            one.note});
    }
    return table;
  }
  const char* recompute_of(const row& one) const {
    return setups::word_of(one.recomputes ? setups::recomputation{recompute_mode::full}
                                          : setups::recomputation::of(stated_.named.setup));
  }
  double tokens_of(const row& one, duration step) const {
    const step_rates rates = rates_of(stated_.named.setup, on_.on.gpu, one.plan, step);
    return in(rates.tokens, 1_tokens_per_s);
  }
};

}  // namespace

guides::program command() {
  const auto asked = std::make_shared<request>();
  return {.name = "gpuplan batch",
          .about = about,
          .examples = examples,
          .add =
              [=](CLI::App& app) {
                runs::add_step_options(app, asked->step);
                runs::add_range(app,
                                "--batch",
                                asked->batch,
                                1,
                                std::int64_t{1} << 40,
                                "Samples of an optimizer step that are wanted")
                    ->group("Training")
                    ->excludes("--accumulation")
                    ->excludes("--micro-batch");
                app.add_option(
                       "--on-gpus", asked->on_gpus, "The same batch on other numbers of GPUs")
                    ->transform(guides::whole_number(1, 1 << 20))
                    ->delimiter(',')
                    ->allow_extra_args(false)
                    ->type_name("N,...");
                app.add_flag("--out-of-memory",
                             asked->is_out_of_memory,
                             "The stated plan ran out of memory: what to try, in order")
                    ->excludes("--batch");
                app.add_option("--rows", asked->most_rows, "Plans of --batch to list at most")
                    ->transform(guides::whole_number(1, 1000))
                    ->type_name("N")
                    ->capture_default_str();
              },
          .make = [=](const guides::output& as) { return answer(*asked).text(as); }};
}

}  // namespace batch_program
