// gpuplan run in phases, within budgets and windows, with energy; and lists of nodes and prices
// that other programs wrote.

#include <gpuplan/catalog/energy.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/cost.hpp>
#include <gpuplan/energy.hpp>
#include <gpuplan/goodput.hpp>
#include <gpuplan/job_chain.hpp>
#include <gpuplan/token_budget.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "check.hpp"
#include "gpuplan_runs.hpp"
#include "json_answer.hpp"
#include "temporary_file.hpp"

using nlohmann::json;
using namespace gpuplan;

namespace {

using words = std::vector<std::string>;

json rows_of(const std::string& command, const words& arguments) {
  return json_answer([&](const words& given) { return output_of_command(command, given); },
                     arguments);
}
std::string text_of(const std::string& command, const words& arguments) {
  const outcome answered = output_of_command(command, arguments);
  CHECK_MESSAGE(answered.status == 0, answered.err);
  return answered.out;
}
std::string refusal_of(const std::string& command, const words& arguments) {
  const outcome refused = output_of_command(command, arguments);
  CHECK(refused.status == 2);
  CHECK(refused.out.empty());
  return refused.err;
}
words operator+(words a, const words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
double number(const json& row, const char* name) { return row[name].get<double>(); }
const auto near = [](double value) { return doctest::Approx(value).epsilon(1e-9); };

// 10,000 steps of 10 s on 32 A100, of which nothing fails.
const words of_32{"--step",
                  "10",
                  "--batch",
                  "64",
                  "--gpu",
                  "a100_sxm4_80gb",
                  "--gpus",
                  "32",
                  "--failures",
                  "none",
                  "--stall",
                  "1m"};
const words measured = of_32 + words{"--samples", "640000"};

const std::string nodes =
    "NodeName=gn1 Gres=gpu:a100:8 State=IDLE\n"
    "NodeName=gn2 Gres=gpu:a100:8 State=MIXED\n"
    "NodeName=gn3 Gres=gpu:a100:8 State=DOWN\n"
    "NodeName=gn4 Gres=gpu:h100:4 State=IDLE\n"
    "NodeName=cn1 State=IDLE\n";
const std::string prices =
    "InstanceType,AcceleratorName,AcceleratorCount,Price,SpotPrice,Region\n"
    "p4de,A100-80GB,8,40,16,us-east-1\n"
    "p4de,A100-80GB,8,44,12,eu-west-1\n"
    "g6,L4,1,0.8,,eu-west-1\n";

}  // namespace

TEST_CASE("phases are a run one after another, with evaluation") {
  const words phases{"--phase",
                     "samples=640000",
                     "--phase",
                     "tokens=1e9,batch=128,sequence-length=8192,step=30s",
                     "--evaluate-every",
                     "1000",
                     "--evaluation",
                     "2m"};
  const json row = rows_of("run", of_32 + words{"--sequence-length", "2048"} + phases)[0];
  // 122,071 samples in 954 steps; 10 evaluations.
  CHECK(row["steps"] == 10'954);
  CHECK(number(row, "training_days") * 86'400 == near(100'000 + 954 * 30));
  CHECK(number(row, "evaluation_days") * 86'400 == near(10 * 120));
  CHECK(number(row, "step_s") * 10'954 == near(100'000 + 954 * 30));
  CHECK(number(row, "goodput") * number(row, "days") == near(number(row, "training_days")));
  CHECK(number(row, "tokens") == near(640'000 * 2048.0 + 122'071 * 8192.0));
  const std::string text = text_of("run", of_32 + words{"--sequence-length", "2048"} + phases);
  for (const char* part : {"2 phases", "8192", "evaluation", "goodput is training alone"})
    CHECK_MESSAGE(has(text, part), part);

  // Of a model each phase has its own plan, and the run is their sum.
  const words model{"gpt2",
                    "--gpu",
                    "4090",
                    "--gpus",
                    "8",
                    "--batch",
                    "64",
                    "--failures",
                    "none",
                    "--price",
                    "1"};
  const json whole = rows_of(
      "run",
      model + words{"--phase", "tokens=1e9", "--phase", "tokens=1e8,batch=32,sequence-length=512"});
  const json first = rows_of("run", model + words{"--tokens", "1e9"});
  const json second = rows_of("run",
                              {"gpt2",
                               "--gpu",
                               "4090",
                               "--gpus",
                               "8",
                               "--batch",
                               "32",
                               "--sequence-length",
                               "512",
                               "--failures",
                               "none",
                               "--tokens",
                               "1e8"});
  CHECK(number(whole[0], "training_days") ==
        near(number(first[0], "training_days") + number(second[0], "training_days")));
  // All of one stack, so that neither end is nearer than a phase's alone.
  CHECK(number(whole[0], "days_high") ==
        doctest::Approx(number(first[0], "days_high") + number(second[0], "days_high"))
            .epsilon(0.01));

  // And its own layout.
  const json layouts = rows_of("run",
                               model + words{"--phase",
                                             "tokens=1e9",
                                             "--phase",
                                             "tokens=1e8,micro-batch=4,zero=1,recompute=full"})[0];
  const words other{"--tokens", "1e8", "--micro-batch", "4", "--zero", "1", "--recompute", "full"};
  const json last = rows_of("run", model + other)[0];
  CHECK(number(layouts, "training_days") ==
        near(number(first[0], "training_days") + number(last, "training_days")));
  CHECK(layouts["micro_batch"].is_null());
  const json too_large = rows_of(
      "run",
      model + words{"--phase", "tokens=1e9", "--phase", "tokens=1e8,micro-batch=64,batch=512"})[0];
  CHECK(too_large["fits"] == "no");
  CHECK(has(too_large["note"].get<std::string>(), "phase 2 needs "));
  // A frozen model beneath its head or its last layers.
  const auto days_of = [&](const char* phase) {
    return number(rows_of("run", model + words{"--phase", phase})[0], "training_days");
  };
  for (const auto& [key, value] :
       {std::pair{"train", "head"}, std::pair{"last-layers", "2"}, std::pair{"lora", "8"}}) {
    const std::string phase = std::string("tokens=1e9,") + key + "=" + value;
    const words alone{"--tokens", "1e9", std::string("--") + key, value};
    CAPTURE(phase);
    CHECK(days_of(phase.c_str()) ==
          near(number(rows_of("run", model + alone)[0], "training_days")));
    CHECK(days_of(phase.c_str()) < days_of("tokens=1e9"));
  }
  const auto why = [&](const char* phase) {
    return refusal_of("run", model + words{"--phase", phase});
  };
  CHECK(has(why("tokens=1e9,train=nobody"), "train=nobody: "));
  CHECK(has(why("tokens=1e9,zero=4"), "zero=4: "));
  CHECK(has(why("tokens=1e9,recompute=often"), "recompute=often: "));
  CHECK(has(why("tokens=1e9,tensor-parallel=3"), "a replica of the model has 3"));
}

TEST_CASE("phases that say too little, or what is none, are refused with the phase") {
  const auto why = [](const char* phase) {
    return refusal_of("run", of_32 + words{"--phase", phase});
  };
  CHECK(has(why("batch=64"), "--phase batch=64: tokens=N or samples=N"));
  CHECK(has(why("samples=1e6,width=3"), "width=3: tokens, samples, batch"));
  CHECK(has(why("samples=1e6,zero=3"), "zero=3: a step that was measured has its layout"));
  CHECK(has(why("samples=many"), "samples=many"));
  CHECK(has(why("tokens=1e9"), "--sequence-length"));
  CHECK(has(refusal_of("run", measured + words{"--phase", "samples=10"}), "excludes"));
  CHECK(has(refusal_of("run", measured + words{"--evaluation", "1m"}), "--evaluate-every"));
}

TEST_CASE("packed samples of a phase fill as many sequences as of a run") {
  const words packed =
      of_32 + words{"--sequence-length", "4096", "--packing", "--average-tokens", "400"};
  const json whole = rows_of("run", packed + words{"--samples", "1e6"})[0];
  const json phase = rows_of("run", packed + words{"--phase", "samples=1000000"})[0];
  CHECK(phase["steps"] == whole["steps"]);
  CHECK(phase["steps"] == (97'657 + 63) / 64);
  // The samples of a ramp are sequences already.
  const words gpt2{"gpt2",
                   "--gpu",
                   "4090",
                   "--gpus",
                   "8",
                   "--batch",
                   "64",
                   "--sequence-length",
                   "1024",
                   "--packing",
                   "--average-tokens",
                   "100",
                   "--failures",
                   "none",
                   "--samples",
                   "1e6"};
  const json ramped = rows_of("run", gpt2 + words{"--batch-ramp", "32:32:6400"})[0];
  CHECK(ramped["steps"] == 200 + (97'657 - 6'400 + 63) / 64);
}

TEST_CASE("what a budget buys is less where there are evaluations") {
  const auto steps_of = [](const words& more) {
    return rows_of("run", of_32 + words{"--budget", "$1000", "--price", "1"} + more)[0]["steps"]
        .get<double>();
  };
  const double alone = steps_of({});
  // a step of 10 s, and an evaluation as long as a hundred of them behind each hundredth
  const words evaluated{"--evaluate-every", "100", "--evaluation", "1000s"};
  CHECK(steps_of(evaluated) / alone == doctest::Approx(0.5).epsilon(0.01));
}

TEST_CASE("a run in windows ends when the calendar says") {
  const json row = rows_of("run",
                           measured + words{"--windows",
                                            "nights,weekends",
                                            "--starts",
                                            "tue 9:00",
                                            "--restart",
                                            "1h",
                                            "--deadline",
                                            "10"})[0];
  // From Monday 0:00, the windows and Tuesday at 9:00; work of 100,000 s, and a checkpoint.
  const week_window week[] = {
      {0_h, 8_h}, {20_h, 32_h}, {44_h, 56_h}, {68_h, 80_h}, {92_h, 104_h}, {114_h, 168_h}};
  const duration expected = *calendar_time(100'060_s, week, 33_h, {.start = 1_h, .lost = 1_min});
  CHECK(number(row, "days") == near(in(expected, 1_d)));
  CHECK(row["on_time_share"] == 1);
  // Paid are the starts and saves in each window; the table's parts are all days.
  const words priced = measured + words{"--price",
                                        "1",
                                        "--windows",
                                        "nights,weekends",
                                        "--starts",
                                        "tue 9:00",
                                        "--restart",
                                        "1h"};
  const job_chain chain = *chain_of(100'060_s, week, 33_h, {.start = 1_h, .lost = 1_min});
  CHECK(chain.jobs == 3);
  const json paid = rows_of("run", priced)[0];
  CHECK(paid["jobs"] == 3);
  CHECK(number(paid, "usd") == near(32 * (100'060 + 3 * 3600 + 2 * 60) / 3600.0));
  const std::string where = text_of("run", priced);
  CHECK(has(where, "where the days go, at the middle rates"));
  CHECK(!has(where, "waits in queues"));
  for (const char* row_of : {"starts of jobs", "closed windows", "saves at their ends"})
    CHECK_MESSAGE(has(where, row_of), row_of);
  double sum = 0;
  double all = 0;
  for (std::size_t at = where.find("\ntraining "); at != std::string::npos && all == 0;) {
    const std::size_t end = where.find('\n', at + 1);
    const std::string line = where.substr(at + 1, end - at - 1);
    const double days = std::stod(line.substr(line.find("  ")));
    (line.starts_with("the run ") ? all : sum) += days;
    at = end;
  }
  CHECK(std::abs(sum - all) < 0.03);
  CHECK(all == doctest::Approx(number(row, "days")).epsilon(0.01));
  // Friday night to Monday, across the end of a week: one window of 62 hours.
  const json weekend = rows_of("run",
                               of_32 + words{"--samples",
                                             "1280000",
                                             "--windows",
                                             "fri 18:00-mon 8:00",
                                             "--starts",
                                             "fri 18:00",
                                             "--restart",
                                             "0"})[0];
  CHECK(number(weekend, "days") * 86'400 == near(200'060));
  CHECK(has(refusal_of("run", measured + words{"--windows", "20:00-20:05"}),
            "--windows 20:00-20:05: 5 min have no time for work: it takes 15 min to start "
            "(--restart) and 1 min to save"));
  for (const char* wrong : {"mon", "8-", "fri 18:00-9:00", "25:00-8:00", "8:61-9", "0-24"})
    CHECK(has(refusal_of("run", measured + words{"--windows", wrong}), "--windows"));
  CHECK(has(refusal_of("run", measured + words{"--windows", "nights", "--starts", "noon"}),
            "mon 9:00"));
}

TEST_CASE(
    "of several runs the cheapest that keeps to its limits is chosen, and what an hour less "
    "costs") {
  // A day's work on 32 GPUs, 10 % off either way, and nothing fails.
  const auto asked = [](const words& more) {
    return words{"--step",
                 "10,6",
                 "--off",
                 "10",
                 "--samples",
                 "552960",
                 "--batch",
                 "64",
                 "--gpu",
                 "a100_sxm4_80gb",
                 "--gpus",
                 "32,64",
                 "--price",
                 "2",
                 "--failures",
                 "none"} +
           more;
  };
  const json rows = rows_of("run", asked({"--deadline", "1", "--dollars", "1600"}));
  CHECK(number(rows[0], "days") == doctest::Approx(1).epsilon(0.005));
  // Half of them within the day, and for $1536 in the median on 32; $1843 on 64.
  CHECK(number(rows[0], "kept_share") == doctest::Approx(0.5).epsilon(0.05));
  CHECK(number(rows[1], "on_time_share") == 1);
  CHECK(number(rows[1], "kept_share") < 0.1);
  CHECK(rows[0]["note"] == "reserve 1.10 days and $1,690");

  const std::string late = text_of("run", asked({"--deadline", "1"}));
  CHECK(has(late, "64 x a100_sxm4_80gb: done within 1.00 day"));
  CHECK(has(late, "in 100.0 % of cases, and 90 %"));
  CHECK(has(late, "which to choose"));
  CHECK(has(late, "32.0   100.0  worth choosing"));  // $307 more for 9.6 hours less
  const std::string loose = text_of("run", asked({"--deadline", "1.2"}));
  CHECK(has(loose, "32 x a100_sxm4_80gb: done within 1.20 days"));
  CHECK(rows_of("run", asked({"--deadline", "1.2"}))[0]["note"] == "cheapest that keeps to it");

  // What would be enough is enough: the tokens of nine in ten end in time.
  const words one{"--step",
                  "10",
                  "--off",
                  "10",
                  "--batch",
                  "64",
                  "--gpu",
                  "a100_sxm4_80gb",
                  "--gpus",
                  "32",
                  "--failures",
                  "none",
                  "--deadline",
                  "1"};
  const std::string short_of = text_of("run", one + words{"--samples", "552960"});
  CHECK(has(short_of, "but 90 % are asked for"));
  CHECK(has(short_of, "seconds of a step"));
  const json enough = rows_of("run", one + words{"--samples", "502000"})[0];
  CHECK(number(enough, "kept_share") == doctest::Approx(0.9).epsilon(0.02));
  CHECK(has(refusal_of("run", one + words{"--samples", "552960", "--dollars", "100"}),
            "--dollars: what does a a100_sxm4_80gb cost? --price N says it"));
}

TEST_CASE("what is said to be enough for two limits is enough for both") {
  const auto asked = [](const std::string& days, const std::string& dollars) {
    return words{"--step", "10",         "--off",   "10",        "--samples",
                 "552960", "--batch",    "64",      "--gpu",     "a100_sxm4_80gb",
                 "--gpus", "32",         "--price", "2",         "--failures",
                 "none",   "--deadline", days,      "--dollars", dollars};
  };
  const auto kept = [&](const std::string& days, const std::string& dollars) {
    return number(rows_of("run", asked(days, dollars))[0], "kept_share");
  };
  // A day and $1536 in the middle, 1.1 days and $1690 in nine of ten cases.
  const std::string both = text_of("run", asked("1", "1600"));
  CHECK(has(both, "reserve 1.10 days and $1,690"));
  CHECK(has(both, "within 1.00 day and for at most $1,600"));
  CHECK(has(both, "for 90 % it needs the days and the dollars both, or one of the"));
  CHECK(!has(both, "alone is enough"));
  CHECK(kept("1.11", "1600") < 0.9);
  CHECK(kept("1", "1700") < 0.9);
  CHECK(kept("1.11", "1700") >= 0.9);

  const std::string late = text_of("run", asked("1", "300000"));
  CHECK(has(late, "and for at most $300,000"));
  CHECK(has(late, "the dollars are enough as asked, and each of these"));
  CHECK(!has(late, "\ndollars  "));
  CHECK(kept("1.11", "300000") >= 0.9);
  const std::string dear = text_of("run", asked("3", "1600.50"));
  CHECK(has(dear, "for at most $1,600.50"));
  CHECK(has(dear, "the days are enough as asked, and each of these"));
  CHECK(!has(dear, "\ndays  "));
  CHECK(has(dear, "$1,690 are needed"));
  CHECK(has(text_of("run", asked("3", "3000")), "just enough for 90 %"));
}

TEST_CASE("a batch that grows takes the steps that Megatron's counter gives it") {
  const words model{"gpt2",
                    "--gpu",
                    "4090",
                    "--gpus",
                    "4",
                    "--zero",
                    "1",
                    "--failures",
                    "none",
                    "--stall",
                    "1m",
                    "--micro-batch",
                    "4",
                    "--sequence-length",
                    "1024"};
  const json grown = rows_of(
      "run",
      model + words{"--batch", "128", "--samples", "100000", "--batch-ramp", "32:32:20000"})[0];
  // Step by step, as get_num_microbatches is asked.
  std::int64_t steps = 0;
  std::int64_t of_batch[5] = {};
  for (std::int64_t consumed = 0; consumed < 100'000; ++steps) {
    const std::int64_t batch =
        consumed > 20'000 ? 128 : 32 + 32 * std::min<std::int64_t>(3, consumed * 3 / 20'000);
    consumed += batch;
    ++of_batch[batch / 32];
  }
  CHECK(number(grown, "steps") == doctest::Approx(static_cast<double>(steps)).epsilon(2e-3));
  double days = 0;
  for (const std::int64_t batch : {1, 2, 3, 4}) {
    const json one = rows_of("run",
                             model + words{"--batch",
                                           std::to_string(32 * batch),
                                           "--samples",
                                           std::to_string(32 * batch * of_batch[batch])})[0];
    days += number(one, "training_days");
  }
  CHECK(number(grown, "training_days") == doctest::Approx(days).epsilon(2e-3));
  const auto why = [&](const char* ramp) {
    return refusal_of("run",
                      model + words{"--batch", "128", "--samples", "100000", "--batch-ramp", ramp});
  };
  CHECK(has(why("32:32"), "START:INCREMENT:SAMPLES"));
  CHECK(has(why("32:32:20000:1"), "START:INCREMENT:SAMPLES"));
  CHECK(has(why("32:40:20000"), "--batch-ramp 32:40:20000: "));
  CHECK(has(why("32:32:200000"), "100,000 samples"));
  CHECK(has(why("30:2:20000"), "--batch-ramp 30:2:20000"));
  CHECK(has(refusal_of("run", measured + words{"--batch-ramp", "32:32:20000"}), "step="));
}

TEST_CASE("a batch away from the tuned one, and tokens that are read again, have their price") {
  const words run = of_32 + words{"--sequence-length", "1000", "--tokens", "640e6"};
  const json tuned =
      rows_of("run", run + words{"--critical-batch", "128", "--tuned-batch", "32"})[0];
  CHECK(number(tuned, "of_least_steps") == near(3));
  CHECK(number(tuned, "of_least_samples") == near(1.5));
  // 640e6 (1 + 64 / 128) / (1 + 32 / 128) tokens, 64,000 a step.
  CHECK(number(tuned, "tokens") == near(768e6));
  CHECK(number(tuned, "steps") == 12'000);
  const json again = rows_of("run", run + words{"--unique-tokens", "160e6"})[0];
  CHECK(number(again, "epochs") == near(4));
  CHECK(number(again, "worth_unique_tokens") / 160e6 ==
        near(1 + 15.39 * (1 - std::exp(-3 / 15.39))));
  CHECK(again["of_least_steps"].is_null());
  const std::string text =
      text_of("run", run + words{"--critical-batch", "128", "--unique-tokens", "160e6"});
  for (const char* part : {"3.00 times", "McCandlish", "Muennighoff", "4.00"})
    CHECK_MESSAGE(has(text, part), part);
  CHECK(has(refusal_of("run", run + words{"--tuned-batch", "32"}), "--critical-batch"));
  CHECK(has(refusal_of("run", measured + words{"--unique-tokens", "1e6"}), "--sequence-length"));
}

TEST_CASE("a budget buys as many steps as it pays for") {
  const words step = of_32 + words{"--price", "2", "--sequence-length", "1000"};
  // 32 GPUs at 2 dollars for the checkpoint's minute and 10 s a step.
  const json money = rows_of("run", step + words{"--budget", "$6400"})[0];
  CHECK(number(money, "steps") == doctest::Approx((100 * 3600 - 60) / 10.0).epsilon(2e-4));
  CHECK(number(money, "usd") <= 6400);
  CHECK(number(money, "tokens") == near(64'000 * number(money, "steps")));
  const json time = rows_of("run", step + words{"--budget", "100h"})[0];
  CHECK(number(time, "steps") == number(money, "steps"));
  const double kW = (h100_draws.computing * 400 +
                     in(*catalog::host_power_per_gpu(catalog::a100_sxm4_80gb), 1_W)) *
                    32 / 1000;
  const json energy = rows_of("run", step + words{"--budget", "1MWh"})[0];
  CHECK(number(energy, "steps") == doctest::Approx(1000 / kW * 360).epsilon(1e-3));
  // With what is not known, 90 % of runs keep to it.
  const json sure = rows_of("run", step + words{"--budget", "100h", "--off", "25"})[0];
  CHECK(number(sure, "days_high") * 24 <= 100);
  CHECK(number(sure, "days_high") * 24 == doctest::Approx(100).epsilon(1e-3));
  CHECK(number(sure, "steps") == doctest::Approx(number(time, "steps") / 1.25).epsilon(1e-2));

  const std::string model = text_of("run",
                                    {"gpt2",
                                     "--gpu",
                                     "4090",
                                     "--gpus",
                                     "8",
                                     "--batch",
                                     "64",
                                     "--failures",
                                     "none",
                                     "--budget",
                                     "1d"});
  for (const char* part : {"what 1d buys, 90 % sure", "20 tokens a parameter", "Besiroglu"})
    CHECK_MESSAGE(has(model, part), part);
  const auto why = [&](const char* budget) {
    return refusal_of("run", of_32 + words{"--budget", budget});
  };
  CHECK(has(why("5"), "money ($1e6), time (30d) or energy (500MWh)"));
  CHECK(has(why("$5"), "--price N"));
  CHECK(has(why("30s"), "pays for no step"));
  CHECK(has(why("3TWh"), "kWh, MWh or GWh"));
  CHECK(has(refusal_of("run", measured + words{"--budget", "1d"}), "excludes"));
}

TEST_CASE("energy is of GPUs by what they do, hosts, building and grid") {
  const json plain = rows_of("run", measured)[0];
  const power host = *catalog::host_power_per_gpu(catalog::a100_sxm4_80gb);
  const run_draw draw{.training = h100_draws.computing * 400_W,
                      .waiting = h100_draws.waiting * 400_W,
                      .host = host};
  const run_time_parts parts{.training = 100'000_s, .saving = 60_s};
  const double kWh = in(*energy_used(parts, 32, draw), 1_kWh);
  CHECK(number(plain, "kWh") == near(kWh));
  CHECK(number(plain, "draw_W") == near(388));
  CHECK(plain["CO2_kg"].is_null());
  const json green = rows_of("run", measured + words{"--pue", "survey", "--carbon", "France"})[0];
  CHECK(number(green, "kWh") == near(1.56 * kWh));
  CHECK(number(green, "CO2_kg") == near(0.056 * 1.56 * kWh));
  // A power that is stated is all of it.
  const json stated = rows_of("run", measured + words{"--power", "500"})[0];
  CHECK(number(stated, "kWh") == near(0.5 * 32 * 100'060 / 3600));
  const json bare = rows_of("run", measured + words{"--host-power", "0"})[0];
  CHECK(number(bare, "kWh") < kWh);
  const std::string text =
      text_of("run", measured + words{"--energy", "--carbon", "400", "--sequence-length", "2048"});
  for (const char* part : {"W of a GPU", "kWh a million tokens", "kg CO2"})
    CHECK_MESSAGE(has(text, part), part);
  CHECK(has(text_of("run",
                    {"--step",
                     "1",
                     "--batch",
                     "8",
                     "--samples",
                     "1e6",
                     "--gpu",
                     "4090",
                     "--failures",
                     "none",
                     "--energy"}),
            "without hosts"));
  CHECK(has(refusal_of("run", measured + words{"--pue", "0.5"}), "--pue"));
  CHECK(has(refusal_of("run", measured + words{"--carbon", "atlantis"}), "norway"));
  // A host-bound step draws less than one that computes.
  const words small{"gpt2", "--gpu", "h100-sxm", "--tokens", "1e9", "--failures", "none"};
  CHECK(number(rows_of("run", small + words{"--micro-batch", "1"})[0], "draw_W") <
        number(rows_of("run", small + words{"--micro-batch", "16"})[0], "draw_W"));
}

TEST_CASE("nodes are those that Slurm lists and somebody could use") {
  const temporary_file file(nodes);
  const words run{"--step",
                  "10",
                  "--batch",
                  "64",
                  "--samples",
                  "640000",
                  "--stall",
                  "1m",
                  "--failures",
                  "none",
                  "--slurm-nodes",
                  file.name()};
  const json one = rows_of("run", run + words{"--gpu", "a100_sxm4_80gb"});
  REQUIRE(one.size() == 1);
  CHECK(one[0]["gpus"] == 16);  // of three nodes one is down
  CHECK(rows_of("run", run + words{"--gpu", "h100-sxm"})[0]["gpus"] == 4);
  CHECK(rows_of("run", run + words{"--gpu", "a100_sxm4_80gb", "--gpus", "8"})[0]["gpus"] == 8);
  CHECK(rows_of("run", run + words{"--gpu", "a100_sxm4_80gb,h100-sxm"}).size() == 2);
  CHECK(has(refusal_of("run", run), "nodes have a100, which may be"));
  CHECK(has(refusal_of("run", run + words{"--gpu", "4090"}), "2 of 3 nodes with a100 usable"));
  CHECK(has(refusal_of("run", run + words{"--gpu", "a100_sxm4_80gb", "--gpus", "24"}),
            "2 nodes of 8 a100_sxm4_80gb could be used"));
  const temporary_file none("NodeName=a Gres=gpu:v100:4 State=DOWN\n");
  CHECK(has(
      refusal_of("run",
                 {"--step", "1", "--batch", "8", "--samples", "1e6", "--slurm-nodes", none.name()}),
      "no node could be used"));
}

TEST_CASE("nodes on demand and preemptible ones stand side by side") {
  const std::string alike = "gpu = 'h100-sxm'\ngpus_per_node = 8\nnodes = 4\ndate = '2026-11-01'\n";
  const temporary_file file("[on_demand]\n" + alike + "price_per_gpu_hour = 3.0\n[spot]\n" + alike +
                            "price_per_gpu_hour = 1.4\nreclaimed_hours = 24\n");
  const words run{"--step",
                  "10",
                  "--batch",
                  "512",
                  "--samples",
                  "20000000",
                  "--checkpoint",
                  "90GB",
                  "--restart",
                  "30m",
                  "--off",
                  "20",
                  "--deadline",
                  "7",
                  "--dollars",
                  "12000"};
  const json both = rows_of("run", run + words{"--prices", file.name()});
  REQUIRE(both.size() == 2);
  // As the command line says it for each alone.
  const words alone{"--gpu", "h100-sxm", "--gpus", "32", "--price"};
  const json expected[] = {rows_of("run", run + alone + words{"3"})[0],
                           rows_of("run", run + alone + words{"1.4", "--reclaimed", "24h"})[0]};
  for (std::size_t at = 0; at < 2; ++at)
    for (const char* what :
         {"days", "days_high", "usd", "usd_high", "goodput", "failures", "kept_share"}) {
      CAPTURE(what);
      CHECK(number(both[at], what) == number(expected[at], what));
    }
  // Spot is taken back four times a day or so: longer, and for half the money.
  CHECK(number(both[1], "days") > number(both[0], "days"));
  CHECK(number(both[1], "usd") < number(both[0], "usd"));
  CHECK(number(both[1], "failures") > 10 * number(both[0], "failures"));
  // The command line goes before the file, for both.
  const json taken = rows_of("run", run + words{"--prices", file.name(), "--reclaimed", "24h"});
  CHECK(number(taken[0], "failures") == number(both[1], "failures"));
}

TEST_CASE("a checkpoint of adapters is theirs, without the model beneath them") {
  const words run{"llama-2-7b",
                  "--lora-targets",
                  "all-linear",
                  "--gpu",
                  "h100-sxm",
                  "--gpus",
                  "1",
                  "--batch",
                  "16",
                  "--sequence-length",
                  "2048",
                  "--samples",
                  "100000"};
  const json row = rows_of("run", run + words{"--lora", "128"})[0];
  // 319,815,680 in fp32, as PEFT counts them, and AdamW's two moments of each.
  CHECK(number(row, "checkpoint_GiB") == near(319'815'680 * 12.0 / std::pow(2, 30)));
}

TEST_CASE("what a spot price leaves out is told, and a title says what a GPU takes at once") {
  const temporary_file file(prices);
  const words spot{"gpt2",
                   "--gpu",
                   "a100_sxm4_80gb",
                   "--gpus",
                   "8",
                   "--batch",
                   "64",
                   "--tokens",
                   "1e9",
                   "--price-list",
                   file.name(),
                   "--spot"};
  const auto in_one_line = [](std::string text) {
    for (char& letter : text)
      if (letter == '\n') letter = ' ';
    return text;
  };
  const outcome silent = output_of_command("run", spot);
  CHECK(has(silent.err, "--spot: no node is taken back in these runs; --reclaimed TIME says"));
  CHECK(has(in_one_line(silent.out), "1 sample of 1,024 tokens 8 times on each of 8 GPUs"));
  const outcome told = output_of_command("run", spot + words{"--reclaimed", "24h"});
  CHECK(told.err.empty());
  CHECK(has(in_one_line(told.out), "; nodes are taken back after 24 h on average"));
  const words two{"gpt2",
                  "--gpu",
                  "4090",
                  "--gpus",
                  "4,8",
                  "--batch",
                  "64",
                  "--micro-batch",
                  "2",
                  "--tokens",
                  "1e9"};
  const std::string cost = in_one_line(text_of("cost", two));
  CHECK(has(cost, "2 samples of 1,024 tokens, "));
  CHECK(!has(cost, " on each of "));
}

TEST_CASE("checkpoints that come too soon or too late are refused by their option") {
  const words often = measured + words{"--checkpoint", "1TB", "--async", "--save-every", "1"};
  CHECK(
      has(refusal_of("run", often), "--save-every 1: a checkpoint is written for 3.47 min, and "));
  CHECK(has(refusal_of("run", often), " steps or more are taken"));
  const std::string late = refusal_of("run",
                                      {"--step",
                                       "10",
                                       "--batch",
                                       "64",
                                       "--samples",
                                       "64e6",
                                       "--gpu",
                                       "a100_sxm4_80gb",
                                       "--gpus",
                                       "32",
                                       "--stall",
                                       "1m",
                                       "--between-failures",
                                       "1h",
                                       "--save-every",
                                       "100000"});
  CHECK(has(late, "--save-every 100000: something fails every 1 h on average"));
  CHECK(has(late, "; 7,194 steps or fewer are taken"));
}

TEST_CASE("prices are the least that a cloud lists") {
  const temporary_file file(prices);
  const words cost{"--step",
                   "10",
                   "--batch",
                   "64",
                   "--samples",
                   "640000",
                   "--gpu",
                   "a100_sxm4_80gb",
                   "--gpus",
                   "8",
                   "--price-list",
                   file.name()};
  const double hours = 100'000.0 / 3600;
  CHECK(number(rows_of("cost", cost)[0], "usd") == near(40 * hours));
  CHECK(number(rows_of("cost", cost + words{"--region", "eu-west-1"})[0], "usd") ==
        near(44 * hours));
  CHECK(number(rows_of("cost", cost + words{"--spot"})[0], "usd") == near(12 * hours));
  CHECK(has(refusal_of("cost", cost + words{"--region", "moon"}),
            "no price of a100_sxm4_80gb in moon; --region takes "));
  CHECK(has(refusal_of("cost",
                       {"--step",
                        "10",
                        "--batch",
                        "64",
                        "--samples",
                        "1e6",
                        "--gpu",
                        "l4",
                        "--price-list",
                        file.name(),
                        "--spot"}),
            "no spot price of l4"));
}

TEST_CASE("a schedule has the rates that transformers' schedulers have") {
  const auto rates = [](const words& more) {
    return rows_of("lr",
                   words{"--tuned", "64:3e-4", "--batch", "64", "--optimizer", "lion"} + more);
  };
  // get_cosine_schedule_with_warmup, of two rules with one rate.
  const json cosine = rates({"--warm-up",
                             "100",
                             "--schedule",
                             "cosine",
                             "--steps",
                             "1100",
                             "--at",
                             "0,50,100,350,600,1100"});
  REQUIRE(cosine.size() == 12);
  for (const json& row : cosine) {
    const double step = number(row, "step");
    const double expected =
        step < 100 ? step / 100 : 0.5 * (1 + std::cos(std::acos(-1.0) * (step - 100) / 1000));
    CHECK(number(row, "learning_rate") == doctest::Approx(3e-4 * expected).epsilon(1e-9).scale(1));
  }
  // get_wsd_schedule with a linear decay, to a tenth of the peak.
  const json wsd = rates(
      {"--schedule", "wsd", "--steps", "1000", "--least", "3e-5", "--at", "0,899,900,950,999"});
  const double expected[] = {1, 1, 1, 0.55, 0.109};
  for (std::size_t at = 0; at < 5; ++at)
    CHECK(number(wsd[at], "learning_rate") == near(3e-4 * expected[at]));
  // With twice the batch a warm-up has half the steps, and each schedule ends where it should.
  const std::string text = text_of("lr",
                                   {"--tuned",
                                    "64:3e-4",
                                    "--batch",
                                    "128",
                                    "--warm-up",
                                    "100",
                                    "--schedule",
                                    "linear",
                                    "--steps",
                                    "1050"});
  for (const char* part : {"counted from 0, linear", "1049", "50"})
    CHECK_MESSAGE(has(text, part), part);
  const auto refusal = [](const words& asked) {
    return refusal_of("lr", words{"--tuned", "64:3e-4", "--batch", "64", "--schedule"} + asked);
  };
  CHECK(has(refusal({"wsd"}), "--steps"));
  CHECK(has(refusal({"wsd", "--steps", "100", "--decay-steps", "101"}),
            "behind the warm-up there are 100"));
  CHECK(has(refusal({"cosine", "--steps", "100", "--warm-up", "100"}), "the warm-up takes 100"));
  CHECK(has(refusal({"cosine", "--steps", "100", "--least", "1"}),
            "--least 1: the rate falls to it from 0.0003, so 0 to that is taken"));
  CHECK(has(refusal({"constant", "--steps", "100", "--least", "1e-5"}), "constant never falls"));
  CHECK(has(refusal({"cosine", "--steps", "100", "--decay-steps", "10"}),
            "--decay-steps 10: cosine falls from the warm-up to the end"));
  CHECK(has(refusal({"constant", "--steps", "100", "--decay-steps", "10"}), "never falls"));
  CHECK(has(refusal({"linear", "--steps", "100", "--at", "5,101"}),
            "--at 101: the run has --steps 100, so 0 to that is taken"));
  CHECK(!has(text, "and then it stays"));
  CHECK(has(text_of("lr", {"--tuned", "64:3e-4", "--batch", "128", "--warm-up", "100"}),
            "and then it stays"));
}
