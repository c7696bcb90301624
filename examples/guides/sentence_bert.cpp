#include "guides/sentence_bert.hpp"

#include <iterator>
#include <string>

#include "guides/sentence_bert/tables.hpp"

namespace guides::sentence_bert {
namespace {

using gpuplan::last_batch;

constexpr range<double> percent(range<double> share) { return 100.0 * share; }
constexpr range<double> in_hours(range<duration> time) {
  return {in(time.low(), 1_h), in(time.high(), 1_h)};
}
// Learning rates as multiples of 10^-5, as the guide writes them.
constexpr const char* rate_unit = "1e-5";
constexpr double rate_of(double rate) { return rate / 1e-5; }
constexpr range<double> rate_of(range<double> rate) { return rate / 1e-5; }

// The guide's hours.
constexpr shown ddp_hours = span_of({1.5, 2}, 1);
constexpr shown dp_hours = span_of({2, 3}, 0);

struct reading {
  const char* row;
  work whose;
  amp where;
};

// The first is the one kept.
constexpr reading readings[] = {
    {"same run, AMP on both sides or neither", work::of_each_strategy, amp::not_counted},
    {"same run, 10 h without AMP", work::of_each_strategy, amp::not_in_the_10_h},
    {"same run, 10 h with AMP", work::of_each_strategy, amp::in_the_10_h},
    {"10 h of DDP's run, AMP not counted", work::of_the_ddp_run, amp::not_counted},
    {"10 h of DDP's run, without AMP", work::of_the_ddp_run, amp::not_in_the_10_h},
    {"10 h of DDP's run, with AMP", work::of_the_ddp_run, amp::in_the_10_h},
    {"10 h of DP's run, AMP not counted", work::of_the_dp_run, amp::not_counted},
    {"10 h of DP's run, without AMP", work::of_the_dp_run, amp::not_in_the_10_h},
    {"10 h of DP's run, with AMP", work::of_the_dp_run, amp::in_the_10_h},
};

constexpr shown hours_shown(const inputs& in, const strategy& how, const reading& r) {
  return span_of(in_hours(hours(in, how, r.whose, r.where)), 2);
}

// Whether a reading gives the guide's hours for both strategies.
constexpr bool reproduces(const inputs& in, const reading& r) {
  return judge(ddp_hours, hours_shown(in, in.ddp, r)) == verdict::agrees &&
         judge(dp_hours, hours_shown(in, in.dp, r)) == verdict::agrees;
}

// The results, at compile time.
constexpr inputs guide;

// T3.1
static_assert(efficiency(guide, guide.ddp) == range(0.75, 0.875));
static_assert(near(serial_fraction(guide, guide.dp).low(), 3.0 / 35) &&
              near(serial_fraction(guide, guide.dp).high(), 1.0 / 7));
static_assert(communication(guide, guide.dp) == range(0.375, 0.5));

// T3.2
static_assert(effective_batch(guide, guide.ddp) == range(512, 1024));
static_assert(effective_batch(guide, guide.dp) == range(256, 512));

// T3.3: 16 times the batch is 16 times the rate, a warm-up as long as the training, and out of
// reach of Adam's rule.
static_assert(near(1e5 * learning_rate(guide, 512, gpuplan::linear_rule{})->low(), 32));
static_assert(near(1e5 * learning_rate(guide, 512, gpuplan::square_root_rule{})->low(), 8));
static_assert(warm_up_share(guide, guide.ddp) == 1 && warm_up_share(guide, guide.dp) > 1.6);
static_assert(adam(guide, 512).why().code == gpuplan::errc::batch_too_far_for_adam);
static_assert(near(adam(guide, 256)->beta1.low(), 0.2));

// T3.4: the reading kept gives both hours, and two others do, each the commands as they stand.
static_assert(reproduces(guide, readings[0]) && reproduces(guide, readings[5]) &&
              reproduces(guide, readings[7]));
static_assert(!reproduces(guide, readings[1]) && !reproduces(guide, readings[3]));
static_assert(product_with_amp(guide) == range(9.0, 14.0));

// T3.5
static_assert(total_steps(guide, guide.ddp) == range(490, 980));
static_assert(total_steps(guide, guide.ddp, last_batch::dropped) == range(485, 975));
static_assert(total_steps(guide, guide.dp) == range(588, 1173));
static_assert(goyal_warm_up(guide, guide.ddp, 1024).steps == 490);

std::string span_text(range<double> value, int digits) { return text(span_of(value, digits)); }

table strategies(const inputs& in) {
  table t{.id = "T3.1", .title = "strategies", .inputs = "the stated speed-ups of 8 GPUs over one"};
  t.compare("DDP", "ideal speed-up", "x", number(8), number(in.gpus));
  for (const strategy* how : {&in.ddp, &in.dp}) {
    t.compare(how->name,
              "speed-up",
              "x",
              how == &in.ddp ? span_of({6, 7}, 0) : span_of({4, 5}, 0),
              span_of(how->speedup, 0),
              "stated twice: expected effects against the strategy's section");
    t.also(how->name, "efficiency", "%", span_of(percent(efficiency(in, *how)), 1));
    t.also(how->name,
           "Amdahl serial fraction",
           "%",
           span_of(percent(serial_fraction(in, *how)), 1),
           "Karp-Flatt: (N/S - 1) / (N - 1)");
    t.also(how->name,
           "communication share",
           "%",
           span_of(percent(communication(in, *how)), 1),
           "1 - S/N: all that is lost, if communication loses it");
  }
  t.also("DP",
         "host share of a step",
         "%",
         span_of(percent(host_share(in.dp)), 1),
         "that explains it if one process launches in turn for all GPUs");
  t.compare("DDP",
            "scaling",
            "",
            word("linear"),
            word(efficiency(in, in.ddp).high() < 1 ? "sublinear" : "linear"),
            "6-7x on 8 GPUs");
  t.not_computable("DDP",
                   "GPU utilisation",
                   "%",
                   span_of({95, 100}, 0),
                   "a measurement: a GPU that waits in NCCL counts as utilised");
  t.compare("DDP",
            "GPU utilisation as useful work",
            "%",
            span_of({95, 100}, 0),
            span_of(percent(efficiency(in, in.ddp)), 1),
            "\"95 %+\", against the efficiency that the speed-up implies");
  return t;
}

table effective_batches(const inputs& in) {
  table t{
      .id = "T3.2", .title = "effective batch", .inputs = "micro-batch x GPUs, no accumulation"};
  t.compare("DDP",
            "effective batch",
            "samples",
            span_of({512, 1024}),
            span_of(effective_batch(in, in.ddp)));
  t.compare(
      "DP", "effective batch", "samples", span_of({256, 512}), span_of(effective_batch(in, in.dp)));
  t.compare("DP command as PyTorch reads it",
            "effective batch",
            "samples",
            number(256),
            number(in.dp.micro_batch.low()),
            "nn.DataParallel splits a loader's batch over the GPUs: --batch_size 32 is 32 in all");
  t.also("DP command as PyTorch reads it",
         "micro-batch",
         "samples",
         number(static_cast<double>(in.dp.micro_batch.low()) / static_cast<double>(in.gpus), 1));
  t.compare("DDP",
            "micro-batch",
            "samples",
            span_of({64, 128}),
            span_of(micro_batch_with_amp(in, in.dp), 0),
            "DP's 32-64 with AMP's half of the memory, if all of it scales");
  return t;
}

table learning_rates(const inputs& in) {
  table t{.id = "T3.3",
          .title = "learning rate at the effective batch",
          .inputs = "base rate 2e-5 at batch 32, as the guide's rule has it"};
  for (const strategy* how : {&in.ddp, &in.dp}) {
    const auto batch = effective_batch(in, *how);
    t.also(how->name, "batch growth", "x", span_of(batch / in.base_batch, 0));
    t.also(how->name,
           "linear, the guide's rule",
           rate_unit,
           span_of(rate_of(*learning_rate(in, batch, gpuplan::linear_rule{})), 1),
           "for SGD (Goyal et al. 2017); BERT is trained with Adam");
    t.also(how->name,
           "square root",
           rate_unit,
           span_of(rate_of(*learning_rate(in, batch, gpuplan::square_root_rule{})), 1));
    for (const std::int64_t end : {batch.low(), batch.high()}) {
      const std::string row = std::string(how->name) + " at " + std::to_string(end);
      const auto settings = adam(in, end);
      const auto cell = [&](const char* name, const char* unit, double value, int digits) {
        t.also(row, name, unit, settings ? number(value, digits) : word("none"));
      };
      const gpuplan::adam_settings s = settings ? *settings : gpuplan::adam_settings{};
      cell("Adam's rule, rate", rate_unit, rate_of(s.learning_rate.low()), 1);
      t.also(row,
             "Adam's rule, beta1",
             "",
             settings ? number(s.beta1.low(), 2) : word("none"),
             settings ? "Malladi et al. 2022"
                      : "beta1 would not stay above 0: the batch grows too far");
      cell("Adam's rule, beta2", "", s.beta2.low(), 3);
    }
    for (const std::int64_t end : {batch.low(), batch.high()})
      t.also(std::string(how->name) + " at " + std::to_string(end),
             "warm-up for the linear rule",
             "steps",
             number(goyal_warm_up(in, *how, end).steps),
             "five epochs (Goyal et al. 2017), from the base rate");
    t.also(how->name,
           "that warm-up of all training",
           "%",
           number(100 * warm_up_share(in, *how), 0),
           warm_up_share(in, *how) >= 1 ? "the full rate is never used" : "");
    t.also(how->name,
           "warm-up of Sentence-BERT",
           "steps",
           number(in.paper_warm_up * static_cast<double>(total_steps(in, *how).high()), 0),
           "10 % of the training (Reimers and Gurevych 2019), at the smaller batch");
  }
  t.compare("DDP command",
            "--lr as the base rate",
            rate_unit,
            number(2, 0),
            number(rate_of(in.base_rate), 1));
  t.breaks("DP command",
           "--lr as the base rate",
           rate_unit,
           number(1, 0),
           number(rate_of(in.base_rate), 1),
           "one rule, one base rate: 1e-5 halves what the rule gives");
  const auto as_it_is = [&](const char* row, double documented, const strategy& how) {
    t.compare(
        row,
        "--lr as the rate itself",
        rate_unit,
        number(documented, 0),
        number(
            rate_of(
                learning_rate(in, effective_batch(in, how).low(), gpuplan::linear_rule{})->low()),
            1),
        "if the script does not scale it");
  };
  as_it_is("DDP command", 2, in.ddp);
  as_it_is("DP command", 1, in.dp);
  return t;
}

table training_hours(const inputs& in) {
  table t{.id = "T3.4",
          .title = "hours",
          .inputs = "10 h on one GPU, the speed-ups, and each command's epochs and AMP"};
  for (const reading& r : readings) {
    const char* note = &r == &readings[0]  ? "kept: 10 h over the hours is the printed speed-up"
                       : reproduces(in, r) ? "gives both hours too"
                                           : "";
    t.compare(r.row, "DDP, hours", "h", ddp_hours, hours_shown(in, in.ddp, r), note);
    t.compare(r.row, "DP, hours", "h", dp_hours, hours_shown(in, in.dp, r), note);
  }
  t.compare("DDP, AMP in the 6-7x",
            "speed-up with AMP, at most",
            "x",
            number(7),
            number(in.ddp.speedup.high(), 0),
            "the upper end of DDP alone: nothing is left for AMP");
  t.compare("DDP x AMP",
            "speed-up with AMP, at most",
            "x",
            number(7),
            number(product_with_amp(in).high(), 0),
            "the guide's own factors, on the whole step");
  t.also("DDP x AMP", "speed-up with AMP", "x", span_of(product_with_amp(in), 1));
  t.also("DDP x AMP per phase",
         "speed-up with AMP",
         "x",
         span_of(phases_with_amp(in), 1),
         "AMP on forward and backward only, any shares of the step");
  add_likely_hours(t, in);
  return t;
}

table optimizer_steps(const inputs& in) {
  table t{
      .id = "T3.5",
      .title = "optimizer steps",
      .inputs = "100,000 samples; epochs and batches of each strategy; for DP the same samples"};
  for (const strategy* how : {&in.ddp, &in.dp}) {
    const auto batch = effective_batch(in, *how);
    for (const std::int64_t end : {batch.low(), batch.high()}) {
      const std::string row = std::string(how->name) + " at " + std::to_string(end);
      for (const last_batch last : {last_batch::kept, last_batch::dropped}) {
        const std::string suffix = last == last_batch::kept ? ", last batch kept" : ", dropped";
        const auto r = run(in, *how, end, last);
        t.also(row, "steps per epoch" + suffix, "steps", number(*gpuplan::steps_per_epoch(r)));
        t.also(row,
               "steps in all" + suffix,
               "steps",
               number(*gpuplan::total_steps(r)),
               std::to_string(how->epochs) + " epochs");
      }
      t.also(row,
             "samples that dropping leaves out of an epoch",
             "samples",
             number(in.samples -
                    end * *gpuplan::steps_per_epoch(run(in, *how, end, last_batch::dropped))));
    }
  }
  return t;
}

std::vector<std::string> findings(const inputs& in) {
  std::vector<std::string> found;
  const reading& kept = readings[0];
  int reproducing = 0;
  for (const reading& r : readings) reproducing += reproduces(in, r) ? 1 : 0;
  found.push_back("Which training the " + decimal(gpuplan::in(in.single_gpu, 1_h), 0) +
                  " h on one GPU are, and whether with AMP, is not said. " +
                  std::to_string(reproducing) + " of " + std::to_string(std::size(readings)) +
                  " readings give both strategies' hours. Kept: the " +
                  decimal(gpuplan::in(in.single_gpu, 1_h), 0) +
                  " h are each strategy's own run, with AMP on both sides or on neither, DDP " +
                  text(hours_shown(in, in.ddp, kept)) + " h and DP " +
                  text(hours_shown(in, in.dp, kept)) +
                  " h: only there are both exactly as much faster as printed.");
  found.push_back("With AMP's factor on top of the " + span_text(in.ddp.speedup, 0) +
                  "x, DDP takes " + text(hours_shown(in, in.ddp, readings[1])) +
                  " h, not the 1.5-2 h of the guide.");
  found.push_back("\"Up to 7x\" with AMP leaves nothing for AMP: the guide's own factors give " +
                  span_text(product_with_amp(in), 0) + "x.");
  found.push_back("The speed-ups are not linear: DDP works at " +
                  span_text(percent(efficiency(in, in.ddp)), 1) + " % and DP at " +
                  span_text(percent(efficiency(in, in.dp)), 1) + " %.");
  const auto linear = *learning_rate(in, effective_batch(in, in.ddp), gpuplan::linear_rule{});
  const auto root = *learning_rate(in, effective_batch(in, in.ddp), gpuplan::square_root_rule{});
  found.push_back("The linear rule gives DDP " + span_text(rate_of(linear), 0) +
                  "e-5. It is a rule for SGD, with a warm-up of " +
                  std::to_string(gpuplan::goyal_warm_up_epochs) + " epochs, which is " +
                  decimal(100 * warm_up_share(in, in.ddp), 0) + " % of DDP's training and " +
                  decimal(100 * warm_up_share(in, in.dp), 0) +
                  " % of DP's. For Adam run the square root, " + span_text(rate_of(root), 1) +
                  "e-5, with a warm-up of " + decimal(100 * in.paper_warm_up, 0) +
                  " % of the steps.");
  const auto ddp_batch = effective_batch(in, in.ddp);
  if (!adam(in, ddp_batch.low()))
    found.push_back(
        "Adam's own rule does not reach DDP's batch: " + std::to_string(ddp_batch.low()) + " is " +
        decimal((ddp_batch / in.base_batch).low(), 0) + " times " + std::to_string(in.base_batch) +
        ", and with beta1 " + decimal(in.adam_beta1, 2) + " it ends below " +
        decimal(1 / (1 - in.adam_beta1), 0) + " times. Tune at a larger batch first.");
  found.push_back(
      "torch.nn.DataParallel splits the loader's batch: --batch_size " +
      std::to_string(in.dp.micro_batch.low()) + " is " +
      decimal(static_cast<double>(in.dp.micro_batch.low()) / static_cast<double>(in.gpus), 0) +
      " samples a GPU. For the guide's effective batch run --batch_size " +
      std::to_string(effective_batch(in, in.dp).low()) + ".");
  found.push_back(finding_of_the_model(in));
  found.push_back(finding_of_the_hours(in));
  found.push_back(finding_of_the_memory(in));
  return found;
}

}  // namespace

report make_report(const inputs& in) {
  return {.guide = "003",
          .title = "Sentence-BERT on 8 GPUs",
          .tables = {strategies(in),
                     effective_batches(in),
                     learning_rates(in),
                     training_hours(in),
                     optimizer_steps(in),
                     the_model(in),
                     the_memory(in)},
          .findings = findings(in)};
}

}  // namespace guides::sentence_bert
