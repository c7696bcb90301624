#include "guides/gr00t_cluster.hpp"

#include <gpuplan/io/slurm.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "guides/gr00t_cluster/tables.hpp"

namespace guides::gr00t_cluster {

// ---- T0.5

// The second strategy's hours follow, the third's do not.
static_assert(time_of(guide, guide.strategies[1], printed_rate).high() < 9_h);
static_assert(time_of(guide, third, printed_rate).low() > 2 * 24_h);
static_assert(time_of(guide, third, dense_rate).low() > 24_h);

table training_hours(const inputs& given) {
  table t{"T0.5",
          "Hours, from strategy 1's",
          "10–12 h x samples / node TFLOPS, both relative to strategy 1"};
  const shown documented[] = {nothing(), span_of({7, 9}), span_of({18, 24})};
  for (int i = 1; i < 3; ++i)
    t.compare(strategy_name(i),
              "hours by the TFLOPS printed",
              "h",
              documented[i],
              span_of(hours(time_of(given, given.strategies[i], printed_rate)), 1));
  for (int i = 1; i < 3; ++i)
    t.compare(strategy_name(i),
              "hours by dense peaks",
              "h",
              documented[i],
              span_of(hours(time_of(given, given.strategies[i], dense_rate)), 1));
  for (int i = 1; i < 3; ++i) {
    const char* note =
        i == 1 ? "of its peak, as a multiple of strategy 1's, for the guide's hours" : "";
    const strategy& s = given.strategies[i];
    t.also(strategy_name(i),
           "implied fraction, TFLOPS printed",
           "x",
           span_of(implied_fraction(given, s, printed_rate), 2),
           note);
    t.also(strategy_name(i),
           "implied fraction, dense peaks",
           "x",
           span_of(implied_fraction(given, s, dense_rate), 2),
           note);
  }

  const card test_node = given.strategies[2].gpu;
  const std::int64_t accumulation = given.strategies[2].accumulation;
  const auto test = [&](const char* row, range<duration> time, const char* note) {
    t.compare(
        row, "100 steps on 4 x RTX 2080 Ti", "min", number(30), span_of(minutes(time), 1), note);
  };
  test("accumulation 1, from strategy 1",
       time_on(given, test_node, test_samples(given, 1), printed_rate),
       "the guide names no accumulation");
  test("accumulation of strategy 3, from strategy 1",
       time_on(given, test_node, test_samples(given, accumulation), printed_rate),
       "the reading that gives the guide's half hour");
  test("accumulation of strategy 3, from its hours",
       test_time_by_last_strategy(given, accumulation),
       "18–24 h for strategy 3 contradict the half hour");
  for (const std::int64_t accumulations : {std::int64_t{1}, accumulation})
    t.compare(accumulations == 1 ? "accumulation 1" : "accumulation of strategy 3",
              "100 steps, the GPUs' work, 80 %",
              "min",
              number(30),
              span_of(minutes(gpus_work(given,
                                        test_node,
                                        {.micro_batch = given.test_micro_batch,
                                         .data_parallel = given.nodes[test_node].gpus,
                                         .accumulation = accumulations},
                                        given.test_steps)),
                      1));
  const auto test_fraction = [&](const char* row, std::int64_t accumulations) {
    const std::int64_t samples = test_samples(given, accumulations);
    const range<duration> time = time_on(given, test_node, samples, printed_rate);
    t.also(row,
           "implied fraction, TFLOPS printed",
           "x",
           span_of(time / range<duration>(given.test_time), 2),
           "for the half hour");
  };
  test_fraction("test, accumulation 1", 1);
  test_fraction("test, accumulation of strategy 3", accumulation);

  for (const card gpu : cards) {
    const char* quantity = "FP16 over FP32, as printed";
    t.compare(name(gpu),
              quantity,
              "x",
              number(2),
              number(in(given.nodes[gpu].fp16, given.nodes[gpu].fp32), 2),
              gpu == h100_nvl ? "a sparse rate over another card's" : "");
  }
  for (const card gpu : cards) {
    const gpu_spec d = whole_card(gpu);
    t.compare(name(gpu),
              "FP16 over FP32, dense tensor over CUDA cores",
              "x",
              number(2),
              number(in(*peak(d, number_format::fp16), *peak(d, number_format::fp32)), 2),
              gpu == rtx_4090 ? "the most that mixed precision can gain in computing" : "");
  }
  t.compare("gradient checkpointing",
            "speed lost",
            "%",
            number(20),
            span_of({0, 100 * recomputation_slows_at_most(given)}, 0),
            "at most one more forward beside 3 units of computing; less where less is recomputed");
  t.not_computable("torch.compile()",
                   "speed gained",
                   "%",
                   span_of({30, 40}),
                   "the share of a step that launches and unfused kernels take");
  const range<duration> first = given.strategies[0].hours;
  t.also("gradient checkpointing",
         "strategy 1 with the guide's claim",
         "h",
         span_of(hours(first / (1 - given.checkpointing_slows)), 1));
  t.also("torch.compile()",
         "strategy 1 with the guide's claim",
         "h",
         span_of(hours(first / (1.0 + given.compilation_speeds_up)), 1));
  return t;
}

// ---- T0.6

static_assert(*checkpoints_saved(guide.steps, guide.save_every) == 5);
static_assert(*checkpoints_that_fit(home(guide)) == range<std::int64_t>{1, 3});

table storage(const inputs& given) {
  table t{"T0.6",
          "Checkpoints in the home quota",
          "quota 23.8 GB, about 1 GB used; a checkpoint and the final model 5–8 GB each"};
  const checkpoint_storage with_model = home(given);
  checkpoint_storage checkpoints_alone = with_model;
  checkpoints_alone.final_model = bytes{};
  const std::int64_t saved = *checkpoints_saved(given.steps, given.save_every);
  const char* every = "--save-steps 2000";
  t.compare(every, "checkpoints saved", "", number(5), number(saved));
  t.also(every, "all of them", "GB", span_of(GB(static_cast<double>(saved) * given.checkpoint), 0));
  t.also(every,
         "with the final model and what is there",
         "GB",
         span_of(GB(*storage_needed(with_model, saved)), 0),
         "of a quota of " + decimal(GB(given.quota), 1));
  t.compare("10 checkpoints",
            "all of them",
            "GB",
            span_of({50, 80}),
            span_of(GB(10.0 * given.checkpoint), 0));
  // By T0.10's model; sizes are exact, and what is saved is the trainer's choice.
  const range<bytes> weights = saved_weights(given);
  const bytes states = saved_states(given);
  t.compare("a checkpoint",
            "weights alone",
            "GB",
            span_of({5, 8}),
            span_of(GB(weights), 2),
            "all in BF16, or what trains in FP32: --save_only_model True");
  t.compare("a checkpoint",
            "to resume from",
            "GB",
            span_of({5, 8}),
            number(GB(states), 2),
            "with AdamW's moments, as Trainer saves it");
  t.compare("final model", "weights alone", "GB", span_of({5, 8}), span_of(GB(weights), 2));
  t.compare(
      "10 checkpoints", "weights alone", "GB", span_of({50, 80}), span_of(GB(10.0 * weights), 0));
  t.compare(
      "10 checkpoints", "to resume from", "GB", span_of({50, 80}), number(GB(10 * states), 0));
  t.also("home", "free", "GB", number(GB(given.quota - given.used), 1));
  t.compare("home",
            "checkpoints that fit",
            "",
            number(5),
            within(checkpoints_that_fit(checkpoints_alone)),
            "all that are saved are copied home when the run is done");
  t.compare("home",
            "that fit beside the final model",
            "",
            number(5),
            within(checkpoints_that_fit(with_model)));
  const auto interval = [&](const char* row, checkpoint_storage s) {
    const auto shortest = [&] {
      const auto steps = save_interval_within(s, given.steps);
      return steps ? number(*steps) : word("none");
    };
    t.compare(row,
              "save interval that the quota holds",
              "steps",
              number(2000),
              shortest(),
              "at the largest sizes");
    s.checkpoint = s.checkpoint.low();
    s.final_model = s.final_model.low();
    t.also(row, "the same at the smallest sizes", "steps", shortest());
  };
  interval("checkpoints alone", checkpoints_alone);
  interval("checkpoints and final model", with_model);
  return t;
}

// ---- T0.8

static_assert(choice_for_test(guide) == 2 && choice_for_training(guide, true) == 0 &&
              choice_for_training(guide, false) == 1);

table choices(const inputs& given) {
  table t{
      "T0.8",
      "What to run when",
      "waiting + running, by the middle of each range; the words for waiting as hours are ours"};
  for (int i = 0; i < 3; ++i) {
    const strategy& s = given.strategies[i];
    const char* const words[] = {"almost none", "low", "medium", "high"};
    const range<duration> wait = wait_for(given, s);
    const range<duration> run = time_of(given, s, printed_rate);
    t.also(strategy_name(i),
           "waiting",
           "h",
           span_of(hours(wait), 1),
           s.from == s.to ? words[s.from] : std::string(words[s.from]) + " to " + words[s.to]);
    t.also(strategy_name(i), "running all steps", "h", span_of(hours(run), 1));
    t.also(strategy_name(i), "done after", "h", span_of(hours(wait + run), 1));
  }
  const auto node = [&](int s) { return word(node_name(given.strategies[s].gpu)); };
  t.compare("quick test", "node", "", word("4 x RTX 2080 Ti"), node(choice_for_test(given)));
  t.compare("balanced",
            "node",
            "",
            word("4 x RTX 4090"),
            node(choice_for_training(given, true)),
            "done first, waiting counted");
  t.compare("fastest",
            "node",
            "",
            word("6 x L40S"),
            node(choice_for_training(given, false)),
            "fewest hours, once it runs");
  t.also("balanced",
         "node, by dense peaks",
         "",
         node(choice_for_training(given, true, dense_rate)),
         "done first, waiting counted");
  t.also("balanced",
         "wait the L40S are worth",
         "h",
         number(in(waiting_worth(given, printed_rate), 1_h), 1),
         "longer than for strategy 1, by TFLOPS printed");
  t.also("balanced",
         "the same, by dense peaks",
         "h",
         number(in(waiting_worth(given, dense_rate), 1_h), 1));
  const affine_memory model = formula(given);
  const card test_node = given.strategies[2].gpu;
  const batch_plan test{.micro_batch = given.test_micro_batch};
  const shown most = largest(printed(given, test_node), model);
  if (fits(test, printed(given, test_node), model)) {
    t.compare("quick test", "micro-batch", "", number(4), number(given.test_micro_batch));
  } else {
    t.breaks("quick test",
             "micro-batch",
             "",
             number(4),
             most,
             "needs " + decimal(GB(model.required(test)), 1) + " GB");
  }
  const std::int64_t test_run = test_samples(given, given.strategies[2].accumulation);
  t.compare("quick test",
            "running",
            "min",
            number(30),
            span_of(minutes(time_on(given, test_node, test_run, printed_rate)), 1),
            "with strategy 3's accumulation; T0.5 has the other readings");
  t.compare("balanced",
            "running",
            "h",
            number(10),
            span_of(hours(time_of(given, given.strategies[0], printed_rate)), 1));
  t.compare("fastest",
            "running",
            "h",
            number(7),
            span_of(hours(time_of(given, given.strategies[1], printed_rate)), 1));
  const auto work_of = [&](int which) {
    const strategy& s = given.strategies[which];
    return span_of(hours(gpus_work(given, s.gpu, plan_of(given, s), given.steps)), 1);
  };
  t.compare("balanced", "the GPUs' work, 80 %", "h", number(10), work_of(0));
  t.compare("fastest", "the GPUs' work, 80 %", "h", number(7), work_of(1));
  return t;
}

// ---- T0.9

namespace {

io::slurm_job job_of(const inputs& given, const strategy& s) {
  return {.gres = s.gres,
          .gpus_per_node = given.nodes[s.gpu].gpus,
          .node_list = s.node_list,
          .wall_time = time_of(given, s, printed_rate).high() * (1 + given.wall_time_margin),
          .script = s.script,
          .log = given.log,
          .command = given.command};
}

// The rest of the line from `part` on; empty where no line holds it.
std::string line_from(const std::string& part, const std::string& text) {
  const std::size_t at = text.find(part);
  return at == std::string::npos ? "" : text.substr(at, text.find('\n', at) - at);
}

}  // namespace

table job_scripts(const inputs& given) {
  struct line {
    const char* gres;
    const char* node_list;
    const char* micro_batch;
    const char* accumulation;
    const char* script;
  };
  const line lines[] = {{"--gres=gpu:gpu4090:4",
                         "--nodelist=classt25",
                         "--batch-size 10",
                         "--gradient-accumulation-steps 3",
                         "finetune_gr00t.slurm"},
                        {"--gres=gpu:gpul40s:6",
                         "--nodelist=classt21",
                         "--batch-size 12",
                         "--gradient-accumulation-steps 2",
                         "finetune_gr00t_l40s.slurm"},
                        {"--gres=gpu:gpu2080:4",
                         "",
                         "--batch-size 5",
                         "--gradient-accumulation-steps 6",
                         "finetune_gr00t_2080.slurm"}};
  table t{"T0.9",
          "Job scripts, line by line",
          "the plans of T0.2; wall time: the upper hours of T0.5 and a fifth more (ours)"};
  for (int i = 0; i < 3; ++i) {
    const strategy& s = given.strategies[i];
    const line& l = lines[i];
    const io::slurm_job job = job_of(given, s);
    const std::string script = io::slurm_script(plan_of(given, s), job).value_or_throw();
    const std::string flags = line_from("--batch-size ", script);
    const std::size_t second = flags.find(" --gradient");
    const auto text_or_nothing = [](const std::string& text) {
      return text.empty() ? nothing() : word(text);
    };
    const char* row = strategy_name(i);
    t.compare(row, "#SBATCH: GPUs", "", word(l.gres), word(line_from("--gres=", script)));
    if (*l.node_list != '\0' || *s.node_list != '\0')
      t.compare(row,
                "#SBATCH: node",
                "",
                text_or_nothing(l.node_list),
                text_or_nothing(line_from("--nodelist=", script)));
    t.compare(row, "micro-batch", "", word(l.micro_batch), word(flags.substr(0, second)));
    t.compare(row, "accumulation", "", word(l.accumulation), word(flags.substr(second + 1)));
    t.also(
        row, "#SBATCH: wall time", "", word(line_from("--time=", script)), "the guide sets none");
    t.also(row, "#SBATCH: log", "", word(line_from("--output=", script)));
    t.also(row, "command", "", word(job.command), "Isaac-GR00T's; the guide names none");
    const std::string submit = io::slurm_submit(job).value_or_throw();
    t.compare(row, "script", "", word(l.script), word(submit.substr(submit.rfind(' ') + 1)));
    t.also(row,
           "submitted with",
           "",
           word(submit),
           i == 0 ? "" : "the guide repeats the script's #SBATCH options here");
    t.also(row,
           "run instead",
           "",
           plan_or_not(best_plan(given, s.gpu, usable(given, s.gpu))),
           "micro-batch x GPUs x accumulation; by usable bytes");
  }
  return t;
}

// ---- findings

namespace {

std::vector<std::string> findings(const inputs& given) {
  const affine_memory model = formula(given);
  const strategy& s2 = given.strategies[1];
  const strategy& s3 = given.strategies[2];
  const batch_plan p3 = plan_of(given, s3);
  const auto most_on = [&](card gpu) { return text(largest(printed(given, gpu), model)); };
  const auto usable_plan = [&](card gpu) {
    return text(plan_or_not(best_plan(given, gpu, usable(given, gpu))));
  };
  const auto printed_plan = [&](card gpu) {
    return text(plan_or_not(best_plan(given, gpu, printed(given, gpu))));
  };
  const auto node_TFLOPS = [&](card gpu) { return decimal(TFLOPS(dense_rate(given, gpu)), 0); };
  const auto time = [&](const strategy& s, node_rate rate) {
    return between(hours(time_of(given, s, rate)), 1) + " h";
  };
  const bytes third_with_checkpointing = with_checkpointing(given).required(p3);
  const batch_plan literal = halved_and_doubled(p3);
  const checkpoint_storage quota = home(given);
  const std::int64_t saved = *checkpoints_saved(given.steps, given.save_every);
  const range<double> all_checkpoints = GB(static_cast<double>(saved) * given.checkpoint);
  const auto fitting = checkpoints_that_fit(quota);
  const auto interval = save_interval_within(quota, given.steps);

  const bytes reported = *catalog::rtx_2080_ti.memory;
  const bytes lost = reported - usable_memory(catalog::rtx_2080_ti);
  const auto test = [&](range<duration> t) { return between(minutes(t), 0) + " min"; };
  const auto saved_by_checkpointing =
      memory_saved(given, given.strategies[0], checkpointing(given.checkpointing_saves));

  const auto best = best_plan(given, rtx_4090, usable(given, rtx_4090));
  const double to_spare = best ? GB(usable(given, rtx_4090).size() - model.required(*best)) : 0;

  std::vector<std::string> found;
  found.push_back("Strategy 3 breaks the guide's formula: micro-batch " +
                  std::to_string(p3.micro_batch) + " needs " + decimal(GB(model.required(p3)), 1) +
                  " GB of " + decimal(GB(printed(given, s3.gpu).size()), 0) + "; at most " +
                  most_on(s3.gpu) + " fits. Run " + usable_plan(s3.gpu) + ", or keep " + of(p3) +
                  " with gradient checkpointing (" + decimal(GB(third_with_checkpointing), 1) +
                  " GB).");
  found.push_back("Nor does its whole range of 4–6 fit, nor the quick test's " +
                  std::to_string(given.test_micro_batch) +
                  ", nor 4 and 6 on 11 GB and 5 and 7 on 12 GB in the table by memory (at most " +
                  most_on(s3.gpu) + " and " + most_on(rtx_4070) + "). 4 needs " +
                  decimal(GB(model.required({.micro_batch = 4})), 1) + " of the " +
                  decimal(GB(reported), 2) +
                  " GB that the RTX 2080 Ti's driver reports; driver and CUDA context take " +
                  decimal(GB(lost), 2) + ", unless the overhead of 2 GB holds these already.");
  found.push_back(
      "The FP16 column mixes another card's sparse rate (1979), twice the FP32 of CUDA "
      "cores (183.2, 58.2), a dense tensor rate (165.2) and one without tensor cores "
      "(26.9). By dense tensor rates a job gets " +
      node_TFLOPS(l40s) + " TFLOPS from 6 x L40S, " + node_TFLOPS(rtx_4090) +
      " from 4 x RTX 4090, " + node_TFLOPS(rtx_4070) + " from 4 x RTX 4070, " +
      node_TFLOPS(rtx_2080_ti) + " from 4 x RTX 2080 Ti and " + node_TFLOPS(h100_nvl) +
      " from a slice of the H100 NVL: the guide's first is last.");
  found.push_back("Strategies 1 and 2 leave memory unused: run " + usable_plan(rtx_4090) +
                  " on the RTX 4090 (" + decimal(to_spare, 2) + " GB to spare; by the GB printed " +
                  printed_plan(rtx_4090) + ") and " + usable_plan(l40s) + " on the L40S.");
  found.push_back("Strategy 3's 18–24 h do not follow from strategy 1's hours: " +
                  time(s3, printed_rate) + " by the TFLOPS printed, " + time(s3, dense_rate) +
                  " by dense peaks. Strategy 2's 7–9 h do (" + time(s2, printed_rate) +
                  "), but they take 183.2 for the " +
                  decimal(TFLOPS(*peak(catalog::l40s, number_format::fp16)), 0) +
                  " TFLOPS of an L40S: " + time(s2, dense_rate) + " by dense peaks.");
  found.push_back(
      "The half hour for 100 steps follows from strategy 1's hours with strategy 3's accumulation "
      "(" +
      test(time_on(given, s3.gpu, test_samples(given, s3.accumulation), printed_rate)) +
      "), and contradicts strategy 3's own hours (" +
      test(test_time_by_last_strategy(given, s3.accumulation)) + ").");
  found.push_back("The home quota does not hold what --save-steps " +
                  std::to_string(given.save_every) +
                  " leaves on scratch to be copied there: " + std::to_string(saved) +
                  " checkpoints are " + between(all_checkpoints, 0) + " GB, " +
                  decimal(GB(given.quota - given.used), 1) + " are free. Beside the final model " +
                  text(within(fitting)) + " fit: copy no more than that, or save every " +
                  (interval ? std::to_string(*interval) : std::string("-")) + " steps or more.");
  checkpoint_storage resumable = quota;
  resumable.checkpoint = saved_states(given);
  resumable.final_model = saved_weights(given);
  found.push_back(
      "The guide's 5–8 GB are the weights alone, " + between(GB(saved_weights(given)), 2) +
      " GB. Trainer saves AdamW's moments with them, " + decimal(GB(saved_states(given)), 1) +
      " GB a checkpoint, of which the quota holds " +
      text(within(checkpoints_that_fit(resumable))) +
      ": pass --save_only_model True, or leave them on scratch.");
  found.push_back(finding_of_the_hours(given));
  found.push_back("Checkpointing halves the activations, not all memory: it saves " +
                  decimal(100 * saved_by_checkpointing, 0) +
                  " % on strategy 1, not 50 %. The 20 % of speed can be: one more forward costs " +
                  decimal(100 * recomputation_slows_at_most(given), 0) + " % at most.");
  found.push_back(
      "\"Halve the batch, double the accumulation\" loses samples where the micro-batch "
      "is odd: strategy 3 becomes " +
      of(literal) + "; " + of(after_out_of_memory(p3)->plan) + " keeps them.");
  found.push_back("No strategy uses the RTX 4070 node, which is called available, has " +
                  decimal(in(printed_rate(given, rtx_4070), printed_rate(given, rtx_2080_ti)), 1) +
                  " times the printed TFLOPS of strategy 3's and holds one sample more: run " +
                  usable_plan(rtx_4070) + ".");
  found.push_back(
      "The formula counts gradients by the sample, and no optimizer. Where GR00T N1.5's action "
      "head "
      "trains, weights, gradients and Adam's moments take " +
      decimal(GB(states_of(given)), 1) + " GB before the first sample, not " +
      decimal(GB(given.base), 0) + ": with its other numbers the largest micro-batch is then " +
      text(largest_with_states(given, rtx_4090)) + " on 24 GB and " +
      text(largest_with_states(given, l40s)) + " on 48 GB; on 11 GB " +
      text(largest_with_states(given, rtx_2080_ti)) + ". Train less of it, or shard it.");
  const strategy& s1 = given.strategies[0];
  found.push_back("Replayed, a step of strategy 1's micro-batch takes " +
                  between(GB(step_memory(given, s1)), 1) +
                  " GB where AdamW goes over lists of tensors, and a sample " +
                  between(GB(sample_memory(given)), 2) + " GB, not " +
                  decimal(GB(given.per_sample), 1) + ": the largest micro-batch is " +
                  text(largest_step(given, s2)) + " on an L40S, on an RTX 4090 " +
                  text(largest_step(given, s1)) + ", on an RTX 2080 Ti " +
                  text(largest_step(given, s3)) + ".");
  return found;
}

}  // namespace

report make_report(const inputs& given) {
  return {"000",
          "GR00T fine-tuning on a shared Slurm cluster",
          {nodes(given),
           strategies(given),
           batch_by_memory(given),
           effective_batches(given),
           training_hours(given),
           storage(given),
           out_of_memory(given),
           choices(given),
           job_scripts(given),
           the_model(given)},
          findings(given)};
}

}  // namespace guides::gr00t_cluster
