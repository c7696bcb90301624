#include "command_line.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "check.hpp"
#include "files.hpp"
#include "program_output.hpp"

namespace {

outcome output(const std::vector<std::string>& arguments) {
  return output_of(accuracy::run, arguments, "accuracy");
}

// Nothing on standard output, the message on the other.
bool fails_with(const outcome& result, const std::string& message) {
  return result.status == 2 && result.out.empty() && has(result.err, message);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    if (!lines.back().empty() && lines.back().back() == '\r') lines.back().pop_back();
    begin = end + 1;
  }
  return lines;
}

bool has_line(const std::vector<std::string>& lines, const std::string& line) {
  return std::find(lines.begin(), lines.end(), line) != lines.end();
}

}  // namespace

TEST_CASE("--rows --format csv: one line per row and quantity, in these columns") {
  const outcome result =
      output({"--rows", "--format", "csv", data("published_models.csv"), data("runs.csv")});
  CHECK(result.status == 0);
  CHECK(result.err.empty());
  const auto lines = lines_of(result.out);
  CHECK(lines.front() == "file,id,quantity,unit,measured,predicted,error_pct,skipped");
  const std::string models = data("published_models.csv");
  CHECK(
      has_line(lines, models + ",deepseek-r1,parameters,parameters,684531386000,684531386000,0,"));
  CHECK(has_line(lines,
                 models + ",resnet-50,parameters,parameters,25557032,,,not a transformer: "
                          "resnet50"));
  CHECK(std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
          return has(line, ",megatron_2021_0004,hfu,%,43,") && line.back() == ',';
        }) == 1);
  CHECK(!has(result.out, "e+"));
}

TEST_CASE("--rows --format json: numbers are numbers, and what is not there is null") {
  const outcome result =
      output({"--rows", "--format", "json", data("published_models.csv"), data("runs.csv")});
  CHECK(result.status == 0);
  const auto rows = nlohmann::json::parse(result.out);
  int seen = 0;
  for (const auto& row : rows) {
    if (row["id"] == "deepseek-r1") {
      CHECK(row["predicted"] == 684531386000);
      CHECK(row["error_pct"] == 0);
      CHECK(row["skipped"].is_null());
      ++seen;
    }
    if (row["id"] == "resnet-50") {
      CHECK(row["predicted"].is_null());
      CHECK(row["error_pct"].is_null());
      CHECK(row["skipped"] == "not a transformer: resnet50");
      ++seen;
    }
    if (row["id"] == "torchtitan_0043" && row["quantity"] == "mfu") {
      CHECK(row["flagged"] == true);
      ++seen;
    }
  }
  CHECK(seen == 3);
}

TEST_CASE("summaries as text, CSV and JSON") {
  const std::vector<std::string> files{data("counted_steps.csv"), data("runs.csv")};
  const auto with = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), files.begin(), files.end());
    return output(arguments);
  };
  const outcome text = with({});
  CHECK(text.status == 0);
  CHECK(has(text.out, data("counted_steps.csv") + ": 83 rows of steps\n"));
  CHECK(has(text.out, "flops_total             83     83       0"));
  CHECK(has(text.out, "skipped 1 row: the row has no time of a step\n"));
  CHECK(has(text.out, "left out 2 rows: their notes flag them\n"));

  const auto lines = lines_of(with({"--format", "csv"}).out);
  CHECK(lines.front() ==
        "file,quantity,rows,exact,mean_abs_error_pct,median_abs_error_pct,p90_abs_error_pct,"
        "bias_pct,worst_error_pct,worst_id,skipped,flagged");
  CHECK(has_line(lines, data("counted_steps.csv") + ",parameters,83,83,0,0,0,0,0,,0,0"));

  const auto all = nlohmann::json::parse(with({"--format", "json"}).out);
  REQUIRE(all.size() == 2);
  CHECK(all[0]["kind"] == "steps");
  CHECK(all[0]["rows"] == 83);
  CHECK(all[0]["quantities"][3]["quantity"] == "flops_total");
  CHECK(all[0]["quantities"][3]["exact"] == 83);
  CHECK(all[0]["quantities"][3]["worst_id"].is_null());
  CHECK(all[1]["reasons_to_skip"]["the row has no time of a step"] == 1);

  CHECK(has(with({"--format", "markdown"}).out, "| file |"));
}

TEST_CASE("a file without anything that is predicted is mentioned") {
  const short_file runs(
      "id,gpus,throughput,baseline_gpus,baseline_throughput,efficiency\na,8,7.5,1,1,0.9375\n");
  const outcome result = output({runs.path()});
  CHECK(result.status == 0);
  CHECK(result.out ==
        "Nothing that is predicted was measured in\n  " + runs.path() + ": 1 row of scaling\n");
}

TEST_CASE("a bad file: its name, line and column, and nothing on standard output") {
  const std::string good = data("runs.csv");
  const short_file empty("");
  CHECK(fails_with(output({good, empty.path()}), empty.path() + ":1: is empty"));
  const std::string columns = "gpu,nodes,gpus,link,collective,algo,bytes,busbw_GBps\n";
  const short_file cells(columns + "h200_sxm,1\n");
  CHECK(fails_with(output({good, cells.path()}), cells.path() + ":2:3: 2 cells"));
  const short_file words(columns + "h200_sxm,1,8,NVLink4,all_reduce,auto,1 kB,12.5\n");
  CHECK(fails_with(output({words.path(), good}), words.path() + ":2:7: bytes is not a number"));
  CHECK(fails_with(output({good, "/nowhere.csv"}), "/nowhere.csv: cannot be opened"));
  CHECK(fails_with(output({good, "/tmp"}), "/tmp: is a directory"));
}

TEST_CASE("a file of unknown columns is passed over with a warning, unless there is no other") {
  const short_file stranger("colour,taste\nred,sweet\n");
  const std::string warning = stranger.path() + ":1: its columns are those of no known kind\n";
  const outcome beside = output({stranger.path(), data("runs.csv")});
  CHECK(beside.status == 0);
  CHECK(beside.err == warning);
  CHECK(has(beside.out, stranger.path() + ": 1 row of no known kind\n"));
  CHECK(fails_with(output({stranger.path()}), "its columns are those of no known kind"));
}

TEST_CASE("bad usage, help and version") {
  CHECK(fails_with(output({}), "file is required"));
  CHECK(fails_with(output({"--format", "xml", data("runs.csv")}), "xml"));
  CHECK(fails_with(output({"--row", data("runs.csv")}), "--row"));
  const outcome help = output({"--help"});
  CHECK(help.status == 0);
  for (const char* part : {"Usage: accuracy", "flops_total (FLOP)", "--rows", "Exit status"})
    CHECK(has(help.out, part));
  CHECK(output({"--version"}).out.starts_with("gpuplan "));
}

TEST_CASE("plans, terms, sources and calibrated steps of timed runs") {
  const std::string runs = data("timed_runs.csv");
  const outcome plans = output({"--plans", "--format", "csv", runs});
  CHECK(plans.status == 0);
  CHECK(has(plans.out, "source,questions,plans,fastest_chosen,mean_regret_pct,worst_regret_pct"));
  CHECK(has(plans.out, "vtrain_multi,2,5,"));
  const outcome each = output({"--plans", "--rows", "--format", "csv", runs});
  CHECK(lines_of(each.out).size() == 3);

  const outcome terms = output({"--ablation", "--format", "csv", runs});
  CHECK(terms.status == 0);
  CHECK(has(terms.out, "\nnone,vtrain_multi,5,"));
  CHECK(has(terms.out, "\nrecompute,vtrain_multi,5,"));
  CHECK(has(terms.out, "\nbubble,all,"));
  CHECK(has(output({"--ablation", runs}).out, "without"));

  // Of each source and GPU that has three rows or more, the others by three of them.
  const outcome few = output({"--calibrate", "3", "--seed", "1", "--format", "csv", runs});
  CHECK(few.status == 0);
  CHECK(has(few.out, "\nvtrain_multi,a100_sxm4_80gb,3,2,"));
  CHECK(has(few.out, "\nmegascale,a100_sxm4_80gb,1,0,"));
  CHECK(has(few.out, "three timed steps"));
  CHECK(few.out == output({"--calibrate", "3", "--format", "csv", runs}).out);
  CHECK(few.out != output({"--calibrate", "3", "--seed", "2", "--format", "csv", runs}).out);
  const outcome each_one = output({"--calibrate", "3", "--rows", "--format", "csv", runs});
  CHECK(has(each_one.out, ",step_time,"));
  CHECK(has(each_one.out, ",step_time_low,"));
  CHECK(output({"--calibrate", "2", runs}).status == 2);
  CHECK(output({"--seed", "2", runs}).status == 2);

  const outcome sources = output({"--by-source", "--format", "csv", runs});
  CHECK(sources.status == 0);
  CHECK(has(sources.out, "source,rows,predicted,refused,flagged,mean_abs_error_pct"));
  CHECK(has(sources.out, "\nvtrain_multi,5,5,0,0,"));
  CHECK(has(sources.out, "\nall,25,25,0,"));
  const outcome left_out = output({"--by-source", "--leave-out", "--format", "csv", runs});
  CHECK(has(left_out.out, "\nvtrain_multi,5,5,0,0,"));
  CHECK(left_out.out != sources.out);

  const auto seen =
      nlohmann::json::parse(output({"--seen", "--format", "json", "--time", runs}).out);
  const auto unseen =
      nlohmann::json::parse(output({"--unseen", "--format", "json", "--time", runs}).out);
  const auto rows = [](const nlohmann::json& of) {
    return of[0]["quantities"][0]["rows"].get<int>();
  };
  CHECK(rows(seen) + rows(unseen) == 25);
}
