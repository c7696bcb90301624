// gpuplan time, batch, lr and cost: what they print is what the library answers.

#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/implementations.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/checkpoint.hpp>
#include <gpuplan/goodput.hpp>
#include <gpuplan/io/format.hpp>
#include <gpuplan/io/hugging_face_config.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/job_chain.hpp>
#include <gpuplan/learning_rate.hpp>
#include <gpuplan/memory/layouts.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/replay/step_time.hpp>
#include <gpuplan/solver.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "check.hpp"
#include "gpuplan_runs.hpp"
#include "guides/front_end.hpp"
#include "guides/interruption.hpp"
#include "json_answer.hpp"
#include "temporary_file.hpp"

using nlohmann::json;

namespace {

using words = std::vector<std::string>;

auto command_named(const std::string& name) {
  return [name](const words& arguments) { return output_of_command(name, arguments); };
}
json rows_of(const std::string& command, const words& arguments) {
  return json_answer(command_named(command), arguments);
}
std::string refusal_of(const std::string& command, const words& arguments) {
  const outcome refused = output_of_command(command, arguments);
  CHECK(refused.status == 2);
  CHECK(refused.out.empty());
  return refused.err;
}
double number(const json& row, const char* name) { return row[name].get<double>(); }
const auto near = [](double value) { return doctest::Approx(value).epsilon(1e-9); };

}  // namespace

TEST_CASE("a step's time is that of its layout on its GPUs") {
  const words layout{"gpt2",
                     "--gpu",
                     "4090",
                     "--gpus",
                     "4",
                     "--batch",
                     "64",
                     "--micro-batch",
                     "8",
                     "--tokens",
                     "1e9",
                     "--price",
                     "2",
                     "--carbon",
                     "400",
                     "--power",
                     "500"};
  const json row = rows_of("time", layout)[0];
  CHECK(row["data_parallel"] == 4);
  CHECK(row["accumulation"] == 2);
  double parts = 0;
  for (const char* part : {"data_s",
                           "forward_s",
                           "backward_s",
                           "recompute_s",
                           "bubble_s",
                           "tensor_communication_s",
                           "context_communication_s",
                           "expert_communication_s",
                           "pipeline_communication_s",
                           "gradient_communication_s",
                           "parameter_communication_s",
                           "optimizer_s",
                           "host_s"})
    parts += number(row, part);
  CHECK(parts == near(number(row, "step_s")));
  CHECK(number(row, "tokens_per_s") == near(64 * 1024 / number(row, "step_s")));
  const double steps = 15259;  // of 64 x 1024 tokens
  CHECK(number(row, "hours") == near(steps * number(row, "step_s") / 3600));
  CHECK(number(row, "usd") == near(8 * number(row, "hours")));
  CHECK(number(row, "kWh") == near(2 * number(row, "hours")));
  CHECK(number(row, "CO2_kg") == near(0.4 * number(row, "kWh")));
  words slow = layout;
  slow.insert(slow.end(), {"--stragglers", "1.5"});
  const json slowed = rows_of("time", slow)[0];
  CHECK(number(slowed, "forward_s") ==
        doctest::Approx(1.5 * number(row, "forward_s")).epsilon(0.02));
  const std::string text = output_of_command("time", layout).out;
  for (const char* part :
       {"backward", "tokens/s of a GPU", "MFU", "memory of the fullest GPU", "kg CO2", "by stack"})
    CHECK_MESSAGE(has(text, part), part);
}

TEST_CASE("an explained step has its pieces, and what each resource bounds") {
  const words asked{"llama-3-8b", "--gpu", "h100-sxm", "--gpus", "16", "--zero", "3", "--explain"};
  const json plain = rows_of("time", words(asked.begin(), asked.end() - 1))[0];
  const json explained = rows_of("time", asked);
  CHECK(explained[0]["table"] == "step");
  for (const auto& [name, value] : plain.items()) CHECK_MESSAGE(explained[0][name] == value, name);
  double pieces = 0;
  double bound = 0;
  double host = 0;
  for (const json& row : explained) {
    if (row["table"] == "step") continue;
    if (row["table"] == "better") {
      bound += number(row, "s");
      continue;
    }
    CHECK(row["table"] == "pieces");
    CHECK(!row["formula"].get<std::string>().empty());
    pieces += number(row, "s");
    if (row["part"] == "host_s") host += number(row, "s");
    CHECK(number(row, "times") *
              (number(row, "amount") / number(row, "rate_per_s") +
               number(row, "calls") * number(row, "latency_s") - number(row, "hidden_s")) ==
          doctest::Approx(number(row, "s")).epsilon(1e-6));
  }
  CHECK(pieces == near(number(plain, "step_s")));
  CHECK(bound == near(number(plain, "step_s")));
  CHECK(host == near(number(plain, "host_s")));
  const std::string text = output_of_command("time", asked).out;
  for (const char* part : {"what the step is made of", "TFLOP/s", "10 % better", "matmul rate"})
    CHECK_MESSAGE(has(text, part), part);
}

TEST_CASE("what does not divide says what would") {
  CHECK(has(
      refusal_of("time", {"gpt2", "--gpus", "6", "--tensor-parallel", "4", "--gpus-per-node", "6"}),
      "so 4 or 8 are taken"));
  CHECK(has(refusal_of("time", {"gpt2", "--gpus", "8", "--batch", "100"}),
            "make 96 or 104; gpuplan batch finds other micro-batches"));
  CHECK(has(refusal_of("time", {"gpt2", "--gpu", "a100-80gb-sxm,4090"}), "one kind is taken here"));
}

TEST_CASE("of a batch all micro-batches that fit are listed, the largest first") {
  const json rows = rows_of(
      "batch", {"gpt2", "--gpu", "rtx_4090", "--gpus", "2", "--batch", "480-512", "--rows", "5"});
  CHECK(rows.size() == 5);
  using namespace gpuplan;
  const training_setup setup{.model = catalog::gpt2,
                             .sequence_length = 1024,
                             .precision = bf16_mixed,
                             .framework = catalog::implementation_of("gpt2")->framework};
  const fullest_stage_memory memory{{setup, usual_fragmentation, nccl_channels(catalog::rtx_4090)}};
  const auto best = solve_batch({.effective_batch = range<std::int64_t>{480, 512},
                                 .data_parallel = 2,
                                 .gpu = catalog::rtx_4090},
                                memory);
  REQUIRE(best);
  CHECK(rows[0]["micro_batch"] == best->micro_batch);
  CHECK(rows[0]["accumulation"] == best->accumulation);
  CHECK(number(rows[0], "memory_GiB") == near(in(memory.required(*best), 1_GiB)));
  for (const json& row : rows) {
    CHECK(row["fits"] == "yes");
    CHECK(row["batch"] >= 480);
    CHECK(row["batch"] <= 512);
    CHECK(row["micro_batch"] <= rows[0]["micro_batch"]);
  }
}

TEST_CASE("a batch that the replicas do not divide has neighbours, and an uneven deal") {
  const words asked{
      "gpt2", "--gpu", "4090", "--gpus", "3", "--gpus-per-node", "3", "--batch", "64"};
  const json rows = rows_of("batch", asked);
  CHECK(rows[0]["plan"] == "nearest");
  CHECK(rows[0]["batch"] == 63);
  CHECK(rows[1]["batch"] == 66);
  CHECK(has(output_of_command("batch", asked).out,
            "or exactly 64: 1 replica with 22 samples and the others with 21"));
}

TEST_CASE("the batch is kept on other GPUs, and where memory is short") {
  const json rows = rows_of("batch",
                            {"gpt2",
                             "--gpu",
                             "4090",
                             "--gpus",
                             "4",
                             "--batch",
                             "64",
                             "--rows",
                             "1",
                             "--on-gpus",
                             "1,8,6"});
  REQUIRE(rows.size() == 4);
  CHECK(rows[1]["gpus"] == 1);
  CHECK(rows[1]["batch"] == 64);
  CHECK(rows[2]["batch"] == 64);
  CHECK(rows[3]["batch"] == 66);
  const json back = rows_of("batch", {"gpt2", "--gpu", "4090", "--micro-batch", "256"});
  CHECK(back[0]["fits"] == "no");
  CHECK(back[1]["fits"] == "yes");
  CHECK(back[1]["batch"] == 256);
  const json tried =
      rows_of("batch", {"gpt2", "--gpu", "4090", "--micro-batch", "4", "--out-of-memory"});
  CHECK(tried[1]["micro_batch"] == 2);
  CHECK(tried[2]["micro_batch"] == 1);
  CHECK(tried[3]["recompute"] == "full");
}

TEST_CASE("GPUs on which the batch does not fit stand beside those on which it does") {
  const std::vector<std::string> asked = {"llama-3-8b",
                                          "--gpu",
                                          "h100-sxm",
                                          "--gpus",
                                          "8",
                                          "--zero",
                                          "3",
                                          "--batch",
                                          "512",
                                          "--on-gpus"};
  const auto on = [&](const char* gpus) {
    std::vector<std::string> words = asked;
    words.emplace_back(gpus);
    return words;
  };
  const json rows = rows_of("batch", on("3,12"));
  CHECK(rows[1]["fits"] == "no");
  CHECK(rows[1]["note"] == "does not fit");
  CHECK(rows[1]["batch"] == 513);
  CHECK(rows[2]["fits"] == "yes");
  CHECK(has(refusal_of("batch", on("3")), "each of these would do: "));
}

TEST_CASE("where nothing fits, what would do does") {
  const std::string why = refusal_of("batch", {"llama-3-8b", "--gpu", "4090", "--batch", "8"});
  CHECK(has(why, "each of these would do: "));
  CHECK(has(why, "--qlora 16 --precision bf16-autocast"));
  CHECK(output_of_command("batch",
                          {"llama-3-8b",
                           "--gpu",
                           "4090",
                           "--batch",
                           "8",
                           "--qlora",
                           "16",
                           "--precision",
                           "bf16-autocast",
                           "--recompute",
                           "full"})
            .status == 0);
}

TEST_CASE("replicas of adapters may share their base, or have it in four bits") {
  const words stated{"llama-3-8b", "--gpu", "4090", "--gpus", "4", "--batch", "64"};
  const auto with = [&](const words& more) {
    words all = stated;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const std::string why = refusal_of("batch", with({"--lora", "16"}));
  CHECK(has(why, "--zero 3 --precision bf16 --recompute full (19.4 GiB), "));
  CHECK(rows_of("batch",
                with({"--lora", "16", "--zero", "3", "--precision", "bf16", "--recompute", "full"}))
            [0]["micro_batch"] == 1);
  CHECK(has(why, "--qlora 16 --recompute full instead of --lora 16 (14.3 GiB)"));
  CHECK(rows_of("batch", with({"--qlora", "16", "--recompute", "full"}))[0]["micro_batch"] == 2);
}

TEST_CASE("a learning rate has the rules of its optimizer") {
  using namespace gpuplan;
  const words adam{"--tuned", "64:3e-4", "--batch", "256,1024"};
  const json rows = rows_of("lr", adam);
  REQUIRE(rows.size() == 4);
  const auto settings = adam_sde_rule{}.settings({3e-4, 64}, 256);
  CHECK(number(rows[0], "learning_rate") == near(settings->learning_rate.low()));
  CHECK(number(rows[0], "beta1") == near(settings->beta1.low()));
  CHECK(number(rows[0], "beta2") == near(settings->beta2.low()));
  CHECK(number(rows[0], "epsilon") == near(settings->epsilon.low()));
  CHECK(number(rows[1], "learning_rate") == 3e-4);
  CHECK(rows[2]["learning_rate"].is_null());  // beta1 would be below 0
  CHECK(has(rows[2]["note"], "holds up to a batch of 640"));
  CHECK_FALSE(
      rows_of("lr", {"--tuned", "64:3e-4", "--batch", "640"})[0]["learning_rate"].is_null());
  CHECK(rows_of("lr", {"--tuned", "64:3e-4", "--batch", "641"})[0]["learning_rate"].is_null());
  const json without = rows_of("lr", {"--tuned", "1:3e-4", "--batch", "2,2000", "--beta1", "0"});
  CHECK(number(without[0], "beta1") == 0);
  CHECK(has(without[2]["note"], "holds up to a batch of 999"));

  // The optimizer stands among the other options, and none is of a group of its own.
  const std::string help = output_of_command("lr", {"--help"}).out;
  CHECK(help.find("--optimizer NAME") < help.find("--beta1 N"));
  CHECK(help.find("\n\n\n") == std::string::npos);

  const json sgd = rows_of("lr",
                           {"--tuned",
                            "256:0.1",
                            "--batch",
                            "1k",
                            "--optimizer",
                            "momentum",
                            "--samples",
                            "1281167",
                            "--noise-scale",
                            "5000",
                            "--warm-up",
                            "400"});
  REQUIRE(sgd.size() == 4);
  CHECK(number(sgd[0], "learning_rate") == near(0.1 * 1000 / 256));
  CHECK(sgd[0]["warm_up_of_five_epochs_steps"] == 5 * 1281);
  CHECK(sgd[0]["warm_up_steps"] == 102);
  CHECK(number(sgd[2], "learning_rate") < number(sgd[0], "learning_rate"));
  CHECK(has(refusal_of("lr", {"--tuned", "64", "--batch", "8"}), "64 is no BATCH:RATE such as"));
  CHECK(has(refusal_of("lr", {"--tuned", "64:1e-4", "--batch", "8", "--noise-scale", "9"}),
            "--noise-scale: its rule is for sgd and momentum"));
  CHECK(has(refusal_of("lr", {"--from", "64:1e-4", "--batch", "8"}), "--tuned"));
}

TEST_CASE("a run costs what its GPUs cost, and has so many checkpoints") {
  const json rows = rows_of("cost",
                            {"--step",
                             "10,6,4",
                             "--batch",
                             "512",
                             "--samples",
                             "1e6",
                             "--epochs",
                             "2",
                             "--gpu",
                             "h100_sxm5_80gb",
                             "--gpus",
                             "8,16,32",
                             "--price",
                             "3",
                             "--power",
                             "1000",
                             "--carbon",
                             "100",
                             "--save-every",
                             "500",
                             "--checkpoint",
                             "100GB",
                             "--storage",
                             "1TB",
                             "--stall",
                             "60s",
                             "--between-failures",
                             "24h"});
  REQUIRE(rows.size() == 3);
  const double steps = 3907;  // of 2,000,000 samples
  for (const auto& [at, gpus, step] :
       {std::tuple{0, 8, 10.0}, std::tuple{1, 16, 6.0}, std::tuple{2, 32, 4.0}}) {
    const json& row = rows[static_cast<std::size_t>(at)];
    CHECK(row["gpus"] == gpus);
    CHECK(number(row, "steps") == steps);
    CHECK(number(row, "hours") == near(steps * step / 3600));
    CHECK(number(row, "usd") == near(3 * gpus * steps * step / 3600));
    CHECK(number(row, "kWh") == near(gpus * steps * step / 3600));
    CHECK(number(row, "CO2_kg") == near(0.1 * number(row, "kWh")));
    CHECK(row["checkpoints"] == 7);
    CHECK(row["save_every_within_storage_steps"] == 3907 / 11 + 1);
    using namespace gpuplan;
    CHECK(number(row, "save_every_for_failures_s") ==
          near(in(*save_interval_for_failures(60_s, 24_h), 1_s)));
  }
  CHECK(rows[0]["note"] == "cheapest");
  CHECK(rows[1]["note"] == "worth choosing");
  CHECK(rows[2]["note"] == "fastest");
  const json model = rows_of(
      "cost", {"gpt2", "--gpu", "4090", "--gpus", "1,2", "--batch", "16", "--tokens", "1e9"});
  REQUIRE(model.size() == 2);
  CHECK(number(model[0], "hours") > number(model[1], "hours"));
  CHECK(number(model[0], "hours_low") < number(model[0], "hours"));
  CHECK(has(refusal_of("cost", {"gpt2"}), "--tokens N, or --samples N"));
  CHECK(has(refusal_of("cost", {"--samples", "9"}), "--step SECONDS says it, or a MODEL"));
  CHECK(has(refusal_of("cost", {"--samples", "9", "--step", "1", "--batch", "8"}), "--gpu NAME"));
}

TEST_CASE("a whole run takes what the library simulates") {
  using namespace gpuplan;
  const words measured{"--step",      "10",           "--off",     "25",         "--batch",
                       "2048",        "--samples",    "2e8",       "--gpu",      "h100_sxm5_80gb",
                       "--gpus",      "1024",         "--price",   "2",          "--checkpoint",
                       "1TB",         "--write-rate", "100",       "--failures", "llama_3_405b",
                       "--detection", "5m",           "--restart", "10m",        "--replacement",
                       "24h",         "--replaced",   "50",        "--spares",   "2",
                       "--deadline",  "12",           "--sure",    "80",         "--keep",
                       "3",           "--storage",    "2TB"};
  const json row = rows_of("run", measured)[0];
  interrupted_run run{.work = 976'570_s,  // of 97,657 steps
                      .mean_time_between_failures = 54_d * (16'384.0 / 419 / 1024),
                      .stall = 10_s,
                      .detection = 5_min,
                      .restart = 10_min,
                      .replaced = 0.5,
                      .replacement = 24_h,
                      .spare_nodes = 2};
  const double best = in(*best_interval(run), 10_s);
  CHECK(number(row, "save_every_steps") == std::round(best));
  run.interval = std::round(best) * 10_s;
  std::vector<duration> times(20'000);
  const run_times tenths = *simulate(run, {.work = {0.8, 1.25}}, times);
  CHECK(number(row, "days_low") == near(in(tenths.low, 1_d)));
  CHECK(number(row, "days") == near(in(tenths.median, 1_d)));
  CHECK(number(row, "days_high") == near(in(tenths.high, 1_d)));
  CHECK(number(row, "days_sure") == near(in(times[15'999], 1_d)));
  CHECK(number(row, "on_time_share") == near(share_within(times, 12_d)));
  CHECK(number(row, "usd") == near(2 * (1024 + 2 * 8) * in(tenths.median, 1_h)));
  const run_time_parts parts = *expected_time(run);
  CHECK(number(row, "goodput") == near(parts.goodput()));
  CHECK(number(row, "failures") == near(parts.failures));
  double days = 0;
  for (const char* part : {"training_days",
                           "saving_days",
                           "lost_days",
                           "detection_days",
                           "restart_days",
                           "waiting_days"})
    days += number(row, part);
  CHECK(days == near(in(parts.total(), 1_d)));
  CHECK(number(row, "disk_GiB") == near(3e12 / 0x1p30));
  CHECK(row["note"] == "reserve " + io::decimal(in(times[15'999], 1_d), 1) + " days");
  CHECK(has(output_of_command("run", measured).out, "holds 2: --keep 2"));

  const words model{"gpt2", "--gpu", "4090", "--gpus", "8,16", "--batch", "16", "--tokens", "1e9"};
  const json estimated = rows_of("run", model);
  CHECK(number(estimated[0], "days_low") < number(estimated[0], "days"));
  CHECK(number(estimated[0], "between_failures_h") ==
        near(2 * number(estimated[1], "between_failures_h")));
  words in_background = model;
  in_background.insert(in_background.end(), {"--async", "--deadline", "30"});
  const json beside = rows_of("run", in_background);
  CHECK(number(beside[0], "stall_s") < number(estimated[0], "stall_s"));
  CHECK(number(beside[0], "write_s") == near(number(estimated[0], "stall_s")));
  CHECK(beside[0]["note"] == "fewest GPUs on time");
  CHECK(beside[1]["note"] == "on time");
}

TEST_CASE("jobs behind one another, and nodes that are taken back") {
  using namespace gpuplan;
  const auto with = [](const words& more) {
    words asked{"--step",
                "10",
                "--batch",
                "64",
                "--samples",
                "1e6",
                "--gpu",
                "a100_sxm4_80gb",
                "--gpus",
                "32",
                "--price",
                "1",
                "--failures",
                "none",
                "--stall",
                "1m",
                "--restart",
                "10m"};
    asked.insert(asked.end(), more.begin(), more.end());
    return rows_of("run", asked)[0];
  };
  // 156,250 s in jobs of 24 hours, of which the first ones save at their end.
  const json chain = with({"--time-limit", "24h", "--queue", "6h"});
  const job_chain expected = *chain_of(
      156'250_s + 1_min, {.time_limit = 24_h, .queue = 6_h, .start = 10_min, .lost = 1_min});
  CHECK(chain["jobs"] == expected.jobs);
  CHECK(expected.jobs == 2);
  CHECK(number(chain, "queue_days") == near(in(expected.queue, 1_d)));
  CHECK(number(chain, "days") == near(in(expected.time(), 1_d)));
  CHECK(number(chain, "usd") == near(32 * in(expected.held(), 1_h)));
  CHECK(number(with({}), "jobs") == 1);
  // One of four nodes every 100 hours.
  const json spot = with({"--reclaimed", "100h"});
  CHECK(number(spot, "between_failures_h") == near(25));
  // How often nodes fail is known to a factor of 3.9, how often they are taken back as it is said.
  const auto spread = [](const std::string& failures) {
    const json row = rows_of("run",
                             {"--step",
                              "10",
                              "--batch",
                              "64",
                              "--samples",
                              "1e6",
                              "--gpu",
                              "a100_sxm4_80gb",
                              "--gpus",
                              "32",
                              "--stall",
                              "1m",
                              "--restart",
                              "30m",
                              "--failures",
                              failures,
                              "--reclaimed",
                              "8h"})[0];
    return number(row, "days_high") / number(row, "days_low");
  };
  CHECK(spread("none") > 1.05);
  CHECK(spread("usual") == doctest::Approx(spread("none")).epsilon(0.02));
  CHECK(has(refusal_of("run",
                       {"--step",
                        "10",
                        "--batch",
                        "64",
                        "--samples",
                        "1e6",
                        "--gpu",
                        "4090",
                        "--failures",
                        "none",
                        "--time-limit",
                        "5m"}),
            "--time-limit: a job of 5 min has no time for work: it takes "));
}

TEST_CASE("the request of an answer is the text as it was given") {
  const outcome o = output_of_command(
      "cost",
      {"llama-3-8b", "--gpu", "h100-sxm,a100-sxm-80gb", "--tokens", "1B", "--format", "json"});
  REQUIRE(o.status == 0);
  const json request = json::parse(o.out)["request"];
  CHECK(request["tokens"] == "1B");
  CHECK(request["gpu"] == json::array({"h100-sxm", "a100-sxm-80gb"}));
}

TEST_CASE("whether a run fits is a field of its own, with the micro-batch") {
  const words run{"llama-3-8b", "--tokens", "1B", "--gpu", "h100-sxm"};
  for (const char* command : {"cost", "run"}) {
    words eight = run;
    eight.insert(eight.end(), {"--gpus", "8", "--zero", "3", "--batch", "32"});
    const json shared = rows_of(command, eight)[0];
    CHECK(shared["fits"] == "yes");
    CHECK(number(shared, "micro_batch") == 1);
    const json alone = rows_of(command, run)[0];
    CHECK(alone["fits"] == "no");
    CHECK(has(alone["note"].get<std::string>(), " GiB a GPU at a micro-batch of 1, has "));
  }
  CHECK(rows_of("time", {"llama-3-8b", "--gpu", "4090"})[0]["fits"] == "no");
  const words measured{"--step", "10", "--batch", "8", "--samples", "1e6", "--gpu", "4090"};
  CHECK(rows_of("cost", measured)[0]["fits"].is_null());
}

TEST_CASE("a run that cannot be told is refused with what would be taken") {
  const words measured{
      "--step", "10", "--batch", "8", "--samples", "1e6", "--gpu", "4090", "--gpus", "8"};
  const auto with = [&](words more) {
    more.insert(more.begin(), measured.begin(), measured.end());
    return more;
  };
  CHECK(has(refusal_of("run", {"gpt2"}), "--tokens N, or --samples N"));
  CHECK(has(refusal_of("run", measured), "--checkpoint SIZE or --stall TIME"));
  CHECK(output_of_command("run", with({"--failures", "none"})).status == 0);
  CHECK(has(refusal_of("run", with({"--failures", "nobody"})), "llama_3_405b"));
  CHECK(has(refusal_of("run", with({"--spares", "2"})), "--replacement"));
  CHECK(has(refusal_of("run", with({"--stall", "1m", "--storage", "1TB"})), "--checkpoint SIZE"));
  CHECK(has(refusal_of("run", with({"--stall", "1m", "--between-failures", "0.01"})),
            "mean_time_between_failures"));
}

TEST_CASE("no sequence is longer than the learned positions of its model") {
  for (const char* command : {"time", "fits", "memory", "batch"}) {
    CAPTURE(command);
    CHECK(has(refusal_of(command, {"gpt2", "--sequence-length", "1025"}),
              "--sequence-length 1025: the model has 1024 learned positions"));
    CHECK(output_of_command(command, {"gpt2", "--sequence-length", "1024"}).status == 0);
    CHECK(
        output_of_command(command, {"gpt2", "--sequence-length", "1025", "--position-rows", "1025"})
            .status == 0);
  }
}

TEST_CASE("packed samples are as many sequences as they fill") {
  const auto steps = [](const words& more) {
    words asked{"--step", "2s", "--batch", "8", "--gpu", "4090", "--samples", "1000"};
    asked.insert(asked.end(), more.begin(), more.end());
    return number(rows_of("cost", asked)[0], "steps");
  };
  const words packed{"--sequence-length", "4096", "--packing", "--average-tokens", "400"};
  CHECK(steps({}) == 125);
  CHECK(steps(packed) == 13);  // 97.7 sequences
  words again = packed;
  again.insert(again.end(), {"--epochs", "3"});
  CHECK(steps(again) == 37);  // 293
  const words model{"gpt2", "--gpu", "4090", "--batch", "8", "--samples", "1000"};
  const auto with = [&](const words& more) {
    words asked = model;
    asked.insert(asked.end(), more.begin(), more.end());
    return asked;
  };
  const words some = with({"--packing", "--average-tokens", "256", "--sequence-length", "1024"});
  const json stated = rows_of("time", some)[0];
  CHECK(number(stated, "hours") == near(number(stated, "step_s") * 32 / 3600));  // 250 sequences
  const json planned = rows_of("plan", some)[0];
  CHECK(number(planned, "hours") == near(number(planned, "step_s") * 32 / 3600));
  CHECK(has(output_of_command("time", some).out, "1,000 samples of 256 tokens on average, packed"));
  for (const char* command : {"time", "cost", "plan"}) {
    CAPTURE(command);
    CHECK(has(refusal_of(command, with({"--packing"})), "--packing: --average-tokens says how"));
    CHECK(has(refusal_of(command, with({"--average-tokens", "9"})), "--packing says that they do"));
    CHECK(has(refusal_of(command, with({"--packing", "--average-tokens", "9", "--padding-mask"})),
              "no --padding-mask"));
    CHECK(has(
        refusal_of(command,
                   {"gpt2", "--batch", "8", "--tokens", "9", "--packing", "--average-tokens", "9"}),
        "--packing: --tokens are those of full sequences"));
  }
  CHECK(has(
      refusal_of("time",
                 {"vit-base-patch16-224", "--samples", "9", "--packing", "--average-tokens", "9"}),
      "no several images"));
  CHECK(has(refusal_of("time", {"gpt2", "--packing", "--average-tokens", "9"}),
            "--packing: --samples says how many are packed"));
  // Files that pack say not how long samples are, which then fill a sequence each.
  const temporary_file packing(
      "base_model: meta-llama/Meta-Llama-3-8B\nadapter: lora\nlora_r: 8\nlora_target_linear: true\n"
      "sequence_len: 2048\nsample_packing: true\nmicro_batch_size: 1\n");
  const auto told = [&](words asked) {
    asked.insert(asked.begin(), {"--from", packing.name(), "--gpu", "h200"});
    return has(output_of_command("cost", asked).err, "packing: each sample is taken to fill");
  };
  CHECK(told({"--samples", "1000"}));
  CHECK_FALSE(told({"--samples", "1000", "--average-tokens", "300"}));
  CHECK_FALSE(told({"--tokens", "1M"}));
  // What has no run has no packing.
  CHECK(has(refusal_of("memory", {"gpt2", "--packing"}), "--packing"));
  CHECK(has(refusal_of("batch", {"gpt2", "--packing"}), "--packing"));
}

TEST_CASE(
    "what transformers' code runs is run by it, and experts that it cannot share by another") {
  const words model{"gpt-oss-20b"};
  for (const char* command : {"memory", "fits"})
    CHECK(has(output_of_command(command, model).out, "GptOssForCausalLM"));
  const words layout{"mixtral-8x7b",
                     "--gpu",
                     "h200-sxm",
                     "--gpus",
                     "64",
                     "--zero",
                     "1",
                     "--expert-parallel",
                     "8",
                     "--recompute",
                     "full"};
  for (const char* command : {"time", "batch", "cost", "plan"}) {
    CAPTURE(command);
    words asked = layout;
    if (command != std::string("batch"))
      asked.insert(asked.end(), {"--batch", "64", "--tokens", "1e9"});
    // A search has ranges of degrees, and takes them as the code has them.
    if (command == std::string("plan")) asked.insert(asked.end(), {"--framework", "megatron-te"});
    const outcome o = output_of_command(command, asked);
    CAPTURE(o.err);
    CHECK(o.status == 0);
    CHECK(has(o.out, "(Megatron-Core, Transformer Engine"));
  }
  CHECK(has(refusal_of("memory", {"mixtral-8x7b", "--framework", "llama"}),
            "transformers, LlamaForCausalLM: "));
}

TEST_CASE("a config.json of several models trains all of them in one step") {
  const std::string text = R"({"model_type": "llava",
    "architectures": ["LlavaForConditionalGeneration"], "image_token_index": 7,
    "text_config": {"model_type": "llama", "hidden_size": 64, "intermediate_size": 200,
                    "num_attention_heads": 1, "num_hidden_layers": 2, "vocab_size": 5597},
    "vision_config": {"model_type": "clip_vision_model", "hidden_size": 64, "image_size": 56,
                      "intermediate_size": 192, "num_attention_heads": 2, "num_hidden_layers": 4,
                      "patch_size": 14, "projection_dim": 512}})";
  const temporary_file file(text, "llava.json");
  const auto read = gpuplan::io::read_hugging_face_config(text);
  REQUIRE(read.composite.size() == 2);
  gpuplan::training_setup setup{.model = *read.shape,
                                .composite = &read.composite,
                                .sequence_length = 512,
                                .precision = gpuplan::bf16_mixed,
                                .framework = gpuplan::catalog::hugging_face_llava};
  const gpuplan::batch_plan plan{.micro_batch = 2};
  REQUIRE(validate(setup, plan));
  const words asked{file.name(), "--sequence-length", "512"};
  words of_two = asked;
  of_two.insert(of_two.end(), {"--micro-batch", "2"});
  CHECK(bytes_of(value(rows_of("memory", of_two), "peak", "all", "total")) ==
        gpuplan::peaks_of(setup, plan).peak().total);
  const std::string name = "transformers, LlavaForConditionalGeneration";
  for (const char* command : {"memory", "fits", "frameworks"}) {
    const outcome o = output_of_command(
        command, command == std::string("frameworks") ? words{file.name()} : asked);
    CAPTURE(o.err);
    CHECK(o.status == 0);
    CHECK(has(o.out, command == std::string("frameworks") ? "framework      llava" : name.c_str()));
  }
  CHECK(has(output_of_command("model", {file.name()}).out, "connector of 2 layers"));
  CHECK(output_of_command("plan", {file.name(), "--gpu", "h100-sxm", "--batch", "8"}).status == 0);
  for (const char* command : {"memory", "fits"}) {
    CHECK(has(refusal_of(command, {file.name(), "--lora", "16", "--lora-targets", "q_proj"}),
              "--lora-targets q_proj: of a model of several parts adapters are beside every linear "
              "layer, all-linear"));
    CHECK(has(refusal_of(command, {"clip-vit-large-patch14", "--lora", "16"}),
              "--lora: of a model of several parts, as of this one, what is estimated is a step "
              "that trains all weights; a share"));
    // An image of 56 pixels has 16 patches, each a token of the text.
    CHECK(has(refusal_of(command, {file.name(), "--sequence-length", "15"}),
              "sequence_length 15, at_least 16"));
    CHECK(output_of_command(command, {file.name(), "--sequence-length", "16"}).status == 0);
  }
  const gpuplan::composite_model adapted =
      gpuplan::with_adapters(read.composite, {.rank = 8, .targets = gpuplan::all_linear});
  setup.composite = &adapted;
  setup.precision = gpuplan::bf16_under_autocast;
  setup.sequence_length = 64;
  REQUIRE(validate(setup, {.micro_batch = 2}));
  CHECK(bytes_of(value(
            rows_of("memory",
                    {file.name(), "--lora", "8", "--sequence-length", "64", "--micro-batch", "2"}),
            "peak",
            "all",
            "total")) == peaks_of(setup, {.micro_batch = 2}).peak().total);
  CHECK(has(output_of_command("fits", {file.name(), "--lora", "8"}).out, "LoRA 8"));
  CHECK(has(output_of_command("memory", {file.name(), "--lora", "8"}).out, "LoRA of rank 8"));
  CHECK(has(refusal_of("memory", {"gr00t-n1.5-3b-backbone"}),
            "whose training step is not known; it is of "));
  CHECK(
      has(refusal_of("memory", {"gr00t-n1.5-3b-backbone"}), "gr00t-n1.5-3b, and of a config.json"));
  const std::string horizon = R"({"model_type": "vla_composite", "architectures": ["LlamaModel"],
    "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 1, "num_hidden_layers": 1,
    "vocab_size": 500, "vla_composite": {"vision": {"hidden_size": 64, "num_hidden_layers": 1,
    "num_attention_heads": 1, "intermediate_size": 128, "image_size": 64, "patch_size": 16},
    "dit": {"hidden": 64, "heads": 1, "layers": 1}, "state_dim": 4, "action_dim": 4,
    "horizon": 0, "tune": ["head"]}})";
  const temporary_file no_actions(horizon, "vla.json");
  CHECK(has(refusal_of("memory", {no_actions.name()}), "horizon"));
}

TEST_CASE("a model of several parts of the catalogue has its training step's memory") {
  using namespace gpuplan;
  const auto robots = catalog::as_trained(catalog::gr00t_n1_5_3b);
  REQUIRE(robots);
  const training_setup setup{.model = robots->parts[1].model,
                             .composite = &*robots,
                             .sequence_length = 1024,
                             .precision = bf16_mixed,
                             .framework = catalog::gr00t_n1_5};
  const batch_plan plan{.micro_batch = 8};
  REQUIRE(validate(setup, plan));
  const words asked{"gr00t-n1.5-3b", "--sequence-length", "1024", "--micro-batch", "8"};
  CHECK(bytes_of(value(rows_of("memory", asked), "peak", "all", "total")) ==
        peaks_of(setup, plan).peak().total);
  // Its operators say how long a step takes, and a run of them.
  words on_node = asked;
  on_node.insert(on_node.end(), {"--gpu", "h100-sxm", "--gpus", "8"});
  const replayed_time by{.setup = setup,
                         .on = {.gpu = catalog::h100_sxm5_80gb, .gpus_per_node = 8}};
  const time_interval expected = *by.interval({.micro_batch = 8, .data_parallel = 8});
  const json timed = rows_of("time", on_node)[0];
  CHECK(number(timed, "step_s") == doctest::Approx(expected.median.value()));
  CHECK(number(timed, "step_s_low") == doctest::Approx(expected.low.value()));
  CHECK(number(timed, "step_s_high") == doctest::Approx(expected.high.value()));
  CHECK(timed["step_s_low_by_host"].is_null());  // no other software is told apart
  CHECK(number(timed, "mfu_pct") > 5);
  CHECK(number(timed, "mfu_pct") < 80);
  const outcome explained = output_of_command("time", on_node);
  CHECK(has(explained.out, "80 % of such steps take"));
  CHECK(has(explained.out, "exposed: gradients"));
  words of_run = on_node;
  of_run.insert(of_run.end(), {"--samples", "64000"});
  CHECK(number(rows_of("cost", of_run)[0], "hours") ==
        doctest::Approx(1000 * expected.median.value() / 3600));
  of_run.insert(of_run.end(), {"--failures", "none"});
  CHECK(output_of_command("run", of_run).status == 0);
  words of_batch{"gr00t-n1.5-3b", "--sequence-length", "1024", "--gpu", "h100-sxm", "--gpus", "8"};
  of_batch.insert(of_batch.end(), {"--batch", "128"});
  CHECK(output_of_command("batch", of_batch).status == 0);
  CHECK(
      has(refusal_of("time", {"gr00t-n1.5-3b", "--zero", "3", "--gpu", "h100-sxm", "--gpus", "8"}),
          "sharding fsdp2 is not taken beside layers flow_matching; ddp is"));
  CHECK(has(refusal_of("memory", {"gr00t-n1.5-3b", "--train", "full"}),
            "--train full: parts of this model are frozen"));
  for (const auto& [option, value] :
       {std::pair{"--stragglers", "1.5"}, std::pair{"--explain", ""}}) {
    words more = on_node;
    more.emplace_back(option);
    if (*value != '\0') more.emplace_back(value);
    CHECK(has(refusal_of("time", more), "is made of several models, whose steps are replayed"));
  }
  for (const char* name : {"clip-vit-large-patch14", "siglip-so400m-patch14-224"}) {
    CAPTURE(name);
    CHECK(output_of_command("memory", {name}).status == 0);
    CHECK(output_of_command("time", {name, "--gpu", "h100-sxm"}).status == 0);
  }
  CHECK(has(refusal_of("memory", {"gr00t-n1.5-3b-backbone"}), "training step is not known"));
  // Which of two heads a file means, its type says.
  const std::string file = R"("architectures": ["LlamaModel"], "hidden_size": 64,
    "intermediate_size": 128, "num_attention_heads": 1, "num_hidden_layers": 1, "vocab_size": 500,
    "vla_composite": {"vision": {"hidden_size": 64, "num_hidden_layers": 1,
    "num_attention_heads": 1, "intermediate_size": 128, "image_size": 64, "patch_size": 16},
    "dit": {"hidden": 64, "heads": 1, "layers": 1}, "state_dim": 4, "action_dim": 4,
    "tune": ["head"])";
  const auto refused = [&](const std::string& type, const std::string& more) {
    return refusal_of("memory", {R"({"model_type": ")" + type + "\", " + file + more + "}}"});
  };
  CHECK(has(refused("gr00t_composite", ""), "embodiments, one or more; the model_type without"));
  CHECK(
      has(refused("vla_composite", R"(, "embodiments": 2)"), "are of model_type gr00t_composite"));
  CHECK(has(refused("gr00t_composite", R"(, "embodiments": 0)"), "must be 1 or more"));
  const std::string but_for_heads = R"(, "embodiments": 2, "encoded": 8, "context_layers": 1,
    "future_tokens": 2, "positions": 16)";
  CHECK(has(refused("gr00t_composite", but_for_heads), "has no context_heads"));
}

TEST_CASE("GPUs that share a model are said, and how many replicas there are") {
  const auto said = [](const words& more) {
    words asked{"gpt3-6.7b", "--framework", "megatron-te", "--micro-batch", "2"};
    asked.insert(asked.end(), more.begin(), more.end());
    std::string text = output_of_command("memory", asked).out;
    for (std::size_t at = 0; (at = text.find("\n  ", at)) != std::string::npos;)
      text.replace(at, 3, " ");
    return text;
  };
  CHECK(has(said({"--data-parallel", "4"}), "2 samples of 2,048 tokens on each of 4 GPUs, bf16"));
  CHECK(has(said({"--data-parallel", "4", "--tensor-parallel", "8", "--pipeline-parallel", "2"}),
            "2 samples of 2,048 tokens on each of 4 replicas, tensor-parallel 8, "
            "pipeline-parallel 2, bf16"));
  CHECK(
      has(said({"--tensor-parallel", "8"}), "2 samples of 2,048 tokens, tensor-parallel 8, bf16"));
}

TEST_CASE("what does not fit is told in the unit of what would") {
  const std::string why =
      refusal_of("batch", {"llama-3-8b", "--gpu", "4090", "--gpus", "2", "--batch", "16"});
  CAPTURE(why);
  CHECK(has(why, "needed "));
  CHECK(has(why, " GiB"));
  CHECK(!has(why, "MB"));
}

TEST_CASE("where the model's own code has no pipeline, those that have are named") {
  const std::string why = refusal_of(
      "time", {"llama-3-8b", "--gpu", "h100-sxm", "--gpus", "16", "--pipeline-parallel", "16"});
  CHECK(
      has(why, "LlamaForCausalLM: pipeline_parallel 16 is not taken beside layers decoder; 1 is"));
  CHECK(has(why, "--framework megatron-core, "));
  CHECK(has(why, " can divide it so"));
}

TEST_CASE("ranks that have parts of sequences share weights by fully_shard") {
  const words asked{"llama-3-8b",
                    "--framework",
                    "torchtitan",
                    "--gpu",
                    "h100-sxm",
                    "--gpus",
                    "8",
                    "--zero",
                    "3",
                    "--sequence-length",
                    "8192"};
  words divided = asked;
  divided.insert(divided.end(), {"--context-parallel", "8"});
  CHECK(rows_of("time", divided).size() == 1);
  words alone = asked;
  alone[6] = "1";
  CHECK(has(refusal_of("time", alone), "one GPU shares with nobody"));
}

TEST_CASE("a network is of the kind that an option or a file states") {
  const auto hours = [](std::vector<std::string> words) {
    for (const char* word : {"gpt2", "--batch", "64", "--tokens", "1e9"}) words.emplace_back(word);
    return number(rows_of("time", words)[0], "hours");
  };
  const std::vector<std::string> nodes{"--gpu", "a100-sxm", "--gpus", "16", "--network", "10"};
  const auto by = [&](const char* kind) {
    std::vector<std::string> words = nodes;
    words.insert(words.end(), {"--network-kind", kind});
    return words;
  };
  CHECK(hours(by("infiniband")) == near(hours(nodes)));
  CHECK(hours(by("roce")) == near(hours(nodes)));
  CHECK(hours(by("omni-path")) > 1.1 * hours(nodes));
  const temporary_file file(
      "[there]\ngpu = 'a100-sxm'\ngpus_per_node = 8\nnodes = 2\nnetwork_GBps = 10\n"
      "network = 'omni-path'\n");
  CHECK(hours({"--prices", file.name()}) == near(hours(by("omni-path"))));
  CHECK(hours({"--prices", file.name(), "--network-kind", "infiniband"}) == near(hours(nodes)));
  CHECK(has(refusal_of("time", by("token-ring")), "omni-path"));
}

TEST_CASE("a link inside a node is as fast as an option states") {
  const auto step = [](words more) {
    more.insert(more.begin(),
                {"gpt2-xl", "--gpu", "3090", "--gpus", "2", "--batch", "8", "--zero", "3"});
    more.insert(more.end(), {"--tokens", "1e9"});
    return number(rows_of("time", more)[0], "step_s");
  };
  CHECK(step({"--link", "12"}) > 1.5 * step({}));
  CHECK(step({"--link", "56.25"}) == near(step({})));  // of its NVLink
}

TEST_CASE("a decoder reads no more than it has positions for") {
  const words whisper{"whisper-small", "--gpu", "3090", "--batch", "16"};
  const auto with = [&](const char* target) {
    words more = whisper;
    more.insert(more.end(), {"--target-length", target, "--tokens", "1e9"});
    return more;
  };
  const auto step = [&](const words& given) { return number(rows_of("time", given)[0], "step_s"); };
  words usual = whisper;
  usual.insert(usual.end(), {"--tokens", "1e9"});
  CHECK(step(usual) == near(step(with("448"))));
  CHECK(step(with("64")) < 0.9 * step(usual));
  CHECK(has(refusal_of("time", with("449")), "the decoder has 448 learned positions"));
  CHECK(has(refusal_of("time", {"gpt2", "--batch", "8", "--target-length", "64"}),
            "no encoder beside a decoder"));
  CHECK(step({"t5-base", "--batch", "8", "--tokens", "1e9", "--target-length", "64"}) <
        step({"t5-base", "--batch", "8", "--tokens", "1e9"}));
}

TEST_CASE("Megatron's checkpoints have weights and what its optimizer keeps") {
  const words asked{"llama-3-8b",
                    "--framework",
                    "megatron-te",
                    "--gpu",
                    "h100-sxm",
                    "--gpus",
                    "32",
                    "--zero",
                    "1",
                    "--batch",
                    "1024",
                    "--tokens",
                    "1e12",
                    "--price",
                    "3"};
  words kept = asked;
  kept.insert(kept.end(), {"--save-every", "1000", "--storage", "1TB"});
  // 14 bytes of each parameter
  const outcome answer = output_of_command("cost", kept);
  CHECK(answer.status == 0);
  CHECK(has(answer.out, "checkpoints of 105 GiB"));
}

TEST_CASE("stages that do not divide the layers are refused with a split that does") {
  CHECK(has(refusal_of("time",
                       {"llama-3.1-405b",
                        "--framework",
                        "megatron-te",
                        "--pipeline-parallel",
                        "16",
                        "--batch",
                        "64",
                        "--tokens",
                        "1e9"}),
            "with --pipeline-split EL it does"));
}

TEST_CASE("clusters of a file have as many GPUs in a node as the option has") {
  const temporary_file file("[cloud]\ngpu = 'h100-sxm'\nnodes = 2\n");
  CHECK(rows_of("time", {"gpt2", "--prices", file.name()})[0]["gpus"] == 16);
}

TEST_CASE("clusters of a file have their GPUs, network, price, power and carbon") {
  const temporary_file file(
      "[cloud]\ngpu = 'h100-sxm'\ngpus_per_node = 8\nnodes = 2\nprice_per_gpu_hour = 3\n"
      "date = '2026-08-27'\n"
      "[lab]\ngpu = '4090'\ngpus_per_node = 4\nnetwork_GBps = 1.25\npower_W = 500\n"
      "carbon_g_per_kWh = 400\nprice_per_gpu_hour = 0.5\ndate = '2026-08-27'\n");
  const std::string name = file.name();
  const json run = rows_of(
      "time",
      {"gpt2", "--prices", name, "--cluster", "lab", "--batch", "16", "--tokens", "1e9"})[0];
  CHECK(run["gpu"] == "rtx_4090");
  CHECK(run["gpus"] == 4);
  CHECK(number(run, "usd") == near(2 * number(run, "hours")));
  CHECK(number(run, "CO2_kg") == near(0.8 * number(run, "hours")));
  const json fewer = rows_of("time",
                             {"gpt2",
                              "--prices",
                              name,
                              "--cluster",
                              "lab",
                              "--gpus",
                              "2",
                              "--price",
                              "1",
                              "--tokens",
                              "1e9"})[0];
  CHECK(fewer["gpus"] == 2);
  CHECK(number(fewer, "usd") == near(2 * number(fewer, "hours")));
  const json plans = rows_of("plan",
                             {"gpt2",
                              "--prices",
                              name,
                              "--batch",
                              "64",
                              "--tokens",
                              "1e9",
                              "--goal",
                              "money",
                              "--plans",
                              "3"});
  CHECK(plans[0]["gpu"] == "rtx_4090");
  CHECK(has(refusal_of("time", {"gpt2", "--prices", name}), "one is taken here of cloud, lab"));
  CHECK(has(refusal_of("time", {"gpt2", "--prices", name, "--cluster", "den"}), "has cloud, lab"));
  CHECK(has(refusal_of("time", {"gpt2", "--cluster", "lab"}), "--prices FILE names the file"));
  CHECK(has(refusal_of("time", {"gpt2", "--prices", name, "--gpu", "4090"}), "say their GPUs"));
  const temporary_file wrong("[a]\nnodes = -1\n");
  CHECK(has(refusal_of("time", {"gpt2", "--prices", wrong.name()}),
            "a.nodes is -1; a whole number from 1 to 65536 is taken"));
}

TEST_CASE("a plan is of the method asked for, and has its run's costs") {
  const words asked{"llama-3-8b",
                    "--gpu",
                    "4090",
                    "--gpus",
                    "1",
                    "--batch",
                    "8",
                    "--sequence-length",
                    "1024",
                    "--qlora",
                    "16",
                    "--tokens",
                    "1e6",
                    "--price",
                    "1",
                    "--carbon",
                    "400"};
  const json best = rows_of("plan", asked)[0];
  CHECK(number(best, "CO2_kg") == near(0.4 * number(best, "kWh")));
  const outcome text = output_of_command("plan", asked);
  CHECK(has(text.out, "QLoRA of rank 16"));
  CHECK(has(text.out, "the best plan, 1 million tokens"));
  words whole = asked;
  whole.erase(whole.begin() + 9, whole.begin() + 11);
  CHECK(has(refusal_of("plan", whole), "--qlora 16"));
  words slow = asked;
  slow.insert(slow.end(), {"--stragglers", "2"});
  CHECK(number(rows_of("plan", slow)[0], "step_s") > 1.5 * number(best, "step_s"));
}

TEST_CASE("the code of a plan is what runs the model, and the answer says which") {
  CHECK(has(output_of_command("plan",
                              {"bloom-7b1", "--gpu", "h100-sxm", "--gpus", "64", "--batch", "512"})
                .out,
            "BloomForCausalLM"));
  const json large = rows_of(
      "plan",
      {"llama-3-70b", "--gpu", "h100-sxm", "--gpus", "64", "--batch", "512", "--plans", "1"});
  CHECK(large[0]["sharding"] == "megatron");
  CHECK(has(output_of_command("plan", {"llama-3-8b", "--gpu", "h100-sxm", "--batch", "64"}).out,
            "fsdp2"));
}

TEST_CASE("who shows an answer in another way gets what the program prints") {
  const auto program_called = [](const std::string& name) {
    for (const gpuplan_program::command& one : gpuplan_program::commands())
      if (name == one.name) return gpuplan_program::program_of(one);
    FAIL("no command " << name);
    return guides::program{};
  };
  const auto answered = [&](const std::string& name, const words& asked, gpuplan::io::format as) {
    return guides::answer(program_called(name), asked, {.format = as}).text;
  };
  using gpuplan::io::format;
  const words asked{"--gpu=4090", "--micro-batch=8", "--", "gpt2"};
  CHECK(answered("time", asked, format::text) == output_of_command("time", asked).out);
  words as_json = asked;
  as_json.insert(as_json.begin(), {"--format", "json"});
  CHECK(answered("time", asked, format::json) == output_of_command("time", as_json).out);

  const auto refused = [&](const std::string& name, const words& wrong) {
    try {
      answered(name, wrong, format::text);
    } catch (const guides::bad_request& error) {
      return error;
    }
    FAIL("it is answered");
    return guides::bad_request("");
  };
  const guides::bad_request divides =
      refused("memory", {"llama-3-8b", "--framework=megatron-core", "--tensor-parallel=6"});
  CHECK(divides.why().code == gpuplan::errc::does_not_divide);
  CHECK(divides.why()[gpuplan::fact::num_attention_heads] == 32);
  CHECK(refused("batch", {"llama-3-8b", "--gpu=4090", "--batch=8"}).why().code ==
        gpuplan::errc::exceeds_gpu_memory);
  const guides::bad_request unknown = refused("time", {"gpt2", "--micro-bach=8"});
  CHECK(unknown.why().code == gpuplan::errc::none);
  CHECK(unknown.what() ==
        std::string("there is no option --micro-bach; the nearest is --micro-batch"));

  // What standard error is told is heard instead, by this thread alone.
  const temporary_file file("base_model: gpt2\nmicro_batch_size: 2\n");
  words heard;
  const outcome silent = redirected(STDOUT_FILENO, [&] {
    guides::heard_remarks remarks;
    answered("time", {"--gpu=4090", "--from=" + file.name()}, format::csv);
    heard = remarks.lines;
    return 0;
  });
  CHECK(silent.err.empty());
  const outcome told = output_of_command("time", {"--gpu=4090", "--from=" + file.name()});
  std::string lines;
  for (const std::string& line : heard) lines += "gpuplan: " + line + "\n";
  CHECK(!heard.empty());
  CHECK(told.err == lines);
}

TEST_CASE("a search that nobody waits for any more ends") {
  const guides::program plan = [] {
    for (const gpuplan_program::command& one : gpuplan_program::commands())
      if (one.name == std::string("plan")) return gpuplan_program::program_of(one);
    return guides::program{};
  }();
  const words asked{"gpt2", "--gpu=4090", "--batch=8"};
  std::atomic<bool> wanted = false;
  const guides::stoppable here(wanted);
  CHECK(!guides::answer(plan, asked, {}).text.empty());
  wanted = true;
  CHECK_THROWS_AS(static_cast<void>(guides::answer(plan, asked, {})), guides::stopped);
}

TEST_CASE("plans without a price that go by money are said to go by GPU-hours") {
  const words search{"gpt2", "--gpu", "4090", "--gpus", "2", "--batch", "8", "--goal", "money"};
  CHECK(has(output_of_command("plan", search).err, "--goal money: no --price is known"));
  words priced = search;
  priced.insert(priced.end(), {"--price", "1"});
  CHECK_FALSE(has(output_of_command("plan", priced).err, "--goal money"));
}

TEST_CASE("operators that are costly stay where a command asks for that") {
  const auto kept = [](const char* recompute) {
    double most = 0;
    for (const json& row : rows_of("memory",
                                   {"llama-3-8b",
                                    "--framework",
                                    "torchtitan-2026",
                                    "--zero",
                                    "3",
                                    "--data-parallel",
                                    "8",
                                    "--sequence-length",
                                    "8192",
                                    "--recompute",
                                    recompute}))
      if (row["table"] == "step" && row["column"] == "total")
        most = std::max(most, number(row, "value"));
    return most;
  };
  CHECK(kept("full") < kept("operators"));
  CHECK(kept("operators") < kept("none"));
}

TEST_CASE("a job's kind of GPU is the one that is judged") {
  const auto checked = [](const std::string& gres, const words& more) {
    const temporary_file file("#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --gres=gpu:" + gres +
                              ":4\nsrun torchrun --nproc-per-node 4 -m trl.scripts.sft "
                              "--model_name_or_path Qwen/Qwen2.5-1.5B --max_length 1024 "
                              "--per_device_train_batch_size 1 --bf16 true\n");
    words asked{file.name()};
    asked.insert(asked.end(), more.begin(), more.end());
    const outcome o = output_of_command("check", asked);
    CHECK(o.status == 0);
    return o.out;
  };
  CHECK(has(checked("rtx_4090", {}), "RTX 4090"));
  CHECK_FALSE(has(checked("rtx_4090", {}), "the job asks for"));
  CHECK(has(checked("rtx_4090", {"--gpu", "l40s"}), "L40S"));
  CHECK(has(checked("a100", {}), "the job asks for a100, which may be"));
  CHECK(has(checked("big", {}), "the job asks for big, by which no device is known"));
}

TEST_CASE("files that ask for more tokens than a model has positions are refused") {
  const temporary_file file(
      "model_name_or_path: gpt2\nmax_length: 8192\nper_device_train_batch_size: 2\nbf16: true\n");
  CHECK(has(refusal_of("check", {file.name()}),
            "sequence_length 8192: the model has 1024 learned positions"));
}

TEST_CASE("files of an encoder are checked") {
  const temporary_file file("output_dir: o\nper_device_train_batch_size: 32\nbf16: true\n");
  const outcome o = output_of_command("check", {file.name(), "--model", "bert-base-uncased"});
  CAPTURE(o.err);
  CHECK(o.status == 0);
}

TEST_CASE("a batch is divided as a pipeline's schedule goes through it") {
  const words layout{"llama-3.1-8b",
                     "--framework",
                     "megatron-te",
                     "--gpu",
                     "h100-sxm",
                     "--gpus",
                     "8",
                     "--pipeline-parallel",
                     "4",
                     "--virtual-pipeline",
                     "2",
                     "--batch"};
  words asked = layout;
  asked.emplace_back("64");
  for (const json& row : rows_of("batch", asked)) CHECK(row["accumulation"].get<int>() % 4 == 0);
  asked.back() = "2";
  CHECK(has(refusal_of("batch", asked), "multiples of 4 micro-batches"));
}

TEST_CASE("ranks of one sequence share an optimizer's states") {
  CHECK(output_of_command("time",
                          {"llama-3.1-8b",
                           "--framework",
                           "megatron-te",
                           "--gpu",
                           "h100-sxm",
                           "--gpus",
                           "8",
                           "--context-parallel",
                           "8",
                           "--zero",
                           "1",
                           "--sequence-length",
                           "32768"})
            .status == 0);
}

TEST_CASE("more than all of a peak is explained by windows") {
  CHECK(has(
      output_of_command(
          "time",
          {"mistral-7b-v0.1", "--gpu", "4090", "--sequence-length", "81920", "--recompute", "full"})
          .err,
      "of which windows skip most"));
}
