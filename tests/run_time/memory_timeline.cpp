#include <cstdint>
#include <gpuplan/io/text.hpp>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "check.hpp"
#include "json_answer.hpp"
#include "memory_timeline/command_line.hpp"
#include "memory_timeline/moments.hpp"
#include "program_output.hpp"
#include "setups/numbers.hpp"
#include "temporary_file.hpp"

using nlohmann::json;

namespace {

outcome ran(const std::vector<std::string>& arguments) {
  return output_of(memory_timeline::run, arguments, "memory_timeline");
}

json answer(const std::vector<std::string>& arguments) { return json_answer(ran, arguments); }

std::int64_t count_of(const std::string& text, const std::string& part) {
  std::int64_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

// GPT-2 small with torch.nn, whose peak PyTorch 2.15 measured.
const std::vector<std::string> measured{"gpt2",
                                        "--framework",
                                        "torch-gpt",
                                        "--micro-batch",
                                        "8",
                                        "--sequence-length",
                                        "1024",
                                        "--attention",
                                        "flash"};

std::vector<std::string> measured_and(const std::vector<std::string>& more) {
  std::vector<std::string> all = measured;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

TEST_CASE("micro-batches between the first and the last are drawn once") {
  const std::vector<std::string> asked{"gpt2", "--format", "csv", "--accumulation"};
  const auto with = [&](const char* count) {
    std::vector<std::string> arguments = asked;
    arguments.emplace_back(count);
    return ran(arguments);
  };
  CHECK(with("3").out == with("1000000").out);
  CHECK(has(ran({"gpt2", "--accumulation", "1000000"}).out, "3 of\n  the 1,000,000"));
  const outcome o = ran({"gpt2", "--framework", "megatron-core", "--accumulation", "1000"});
  CHECK(o.status == 2);
  CHECK(has(o.err, "at most 256 are drawn"));
}

TEST_CASE("a measured peak is in the tables for programs, and its pieces add up to it") {
  const json rows = answer(measured);
  CHECK(value(rows, "peak", "all", "bytes") == 8'619'549'484);
  CHECK(value(rows, "peak", "all", "moment") == "loss backward");
  CHECK(value(rows, "step", "loss backward", "total") == 8'619'549'484);
  CHECK(value(rows, "step", "loss backward", "weights") == 4 * 124'439'808);
  CHECK(value(rows, "step", "optimizer", "gradients") == 4 * 124'439'808);
  std::int64_t pieces = 0;
  std::int64_t most = 0;
  for (const json& row : rows) {
    if (row["table"] == "pieces" && row["column"] == "bytes") pieces += row["value"].get<int64_t>();
    if (row["table"] == "step" && row["column"] == "total")
      most = std::max(most, row["value"].get<std::int64_t>());
  }
  CHECK(pieces == 8'619'549'484);
  CHECK(most == 8'619'549'484);
}

TEST_CASE("the text has moments with bars, kinds, and the peak's formulas") {
  const outcome o = ran(measured_and({"--gpu", "rtx_2080_ti"}));
  CHECK(o.status == 0);
  for (const char* part :
       {"gpt2: the memory of a training step\n═══",
        "8 samples of 1,024 tokens, bf16 mixed, AdamW",
        "GeForce RTX 2080 Ti has 10.4 GiB",
        "forward, layers 0 to 1 ",
        "backward, layers 10 to 11 ",
        "embedding's backward ",
        "8.03 GiB  WWWOOOOOO",
        "A activations 5.10 GiB",
        "The peak: 8,619,549,484 B, loss backward",
        "layer: up: output, kept for activation",
        "12 layers x 8 samples x 1024 tokens x 3072 intermediate x 2 B = 603,979,776",
        "others"})
    CHECK_MESSAGE(has(o.out, part), part);
  std::istringstream lines(o.out);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(gpuplan::io::display_width(line) <= 100);
    CHECK((line.empty() || line.back() != ' '));
  }
  CHECK(!has(o.out, "\033"));
  CHECK(has(ran(measured_and({"--color", "always"})).out, "\033[38;5;25m█"));
  CHECK(!has(ran(measured_and({"--all"})).out, "others"));
  CHECK(has(ran(measured_and({"--format", "markdown"})).out, "| loss backward | 8.03 |"));
  CHECK(has(ran({"gpt2", "--micro-batch", "32", "--gpu", "rtx_2080_ti"}).out, "too little"));
}

TEST_CASE("the picture is one document, with its names and without scripts") {
  const temporary_file file("", "a<b&c");
  const outcome o = ran(measured_and({"--svg", file.name(), "--gpu", "rtx_2080_ti"}));
  CHECK(o.status == 0);
  const std::string svg = file.text();
  CHECK(svg.rfind("<svg xmlns=\"http://www.w3.org/2000/svg\"", 0) == 0);
  CHECK(svg.substr(svg.size() - 7) == "</svg>\n");
  CHECK(count_of(svg, "<text ") == count_of(svg, "</text>"));
  CHECK(count_of(svg, "<path ") >= 5);  // weights, states, gradients, activations, temporaries
  CHECK(count_of(svg, "\"") % 2 == 0);
  for (const char* part : {">GiB<",
                           ">activations<",
                           ">optimizer states<",
                           ">forward<",
                           ">backward<",
                           ">8.03 GiB, loss backward<",
                           ">GeForce RTX 2080 Ti: 10.4 GiB<"})
    CHECK_MESSAGE(has(svg, part), part);
  for (const char* none : {"<script", "href", "nan", "inf"}) CHECK_MESSAGE(!has(svg, none), none);
}

TEST_CASE("a file's name stands in a picture as it is") {
  const temporary_file config(
      R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 1000,
         "n_positions": 128})",
      "a<b&c");
  const temporary_file file("");
  CHECK(ran({"--config", config.name(), "--svg", file.name()}).status == 0);
  CHECK(has(file.text(), "a&lt;b&amp;c"));
  CHECK(!has(file.text(), "a<b"));
}

TEST_CASE("setups are as the options say") {
  const auto peak = [](const std::vector<std::string>& arguments) {
    const json found = value(answer(arguments), "peak", "all", "bytes");
    REQUIRE(found.is_number_integer());
    return found.get<std::int64_t>();
  };
  const std::int64_t one = peak({"llama-3.2-1b"});
  CHECK(peak({"llama-3.2-1b", "--recompute", "full"}) < one);
  CHECK(peak({"llama-3.2-1b", "--data-parallel", "8", "--zero", "3"}) < one);
  CHECK(peak({"llama-3.2-1b", "--data-parallel", "8", "--zero", "1"}) < one);
  CHECK(peak({"llama-3.2-1b", "--optimizer", "sgd"}) < one);
  CHECK(peak({"llama-3.2-1b", "--precision", "bf16-pure"}) < one);
  const std::int64_t lora =
      peak({"llama-3.2-1b", "--precision", "bf16-autocast", "--lora-rank", "8"});
  CHECK(lora < one);
  CHECK(peak({"llama-3.2-1b", "--precision", "bf16-autocast", "--lora-rank", "8", "--four-bits"}) <
        lora);
  CHECK(peak({"llama-3.2-1b", "--framework", "torch-llama", "--tensor-parallel", "2"}) < one);
  const json pipeline = answer({"gpt2",
                                "--framework",
                                "megatron-core",
                                "--precision",
                                "bf16-master",
                                "--attention",
                                "eager",
                                "--pipeline-parallel",
                                "2",
                                "--accumulation",
                                "4"});
  CHECK(has(pipeline.dump(), "2 micro-batches"));
}

TEST_CASE("what cannot be done is said in a sentence") {
  const auto fails = [](const std::vector<std::string>& arguments, const std::string& words) {
    CAPTURE(words);
    const outcome o = ran(arguments);
    CHECK(o.status == 2);
    CHECK(o.out.empty());
    CAPTURE(o.err);
    CHECK(has(o.err, words));
  };
  fails({}, "which model?");
  fails({"gpt9"}, "the catalogue has no model gpt9");
  fails({"deepseek-v3"}, "no code is known for deepseek-v3: --framework names one of");
  fails({"mixtral-8x7b-v0.1", "--framework", "llama"}, "experts");
  fails({"openvla-7b"}, "made of several models");
  fails({"gpt2", "--config", "x"}, "the model is gpt2 already");
  fails({"--config", "/nowhere"}, "cannot read /nowhere");
  fails({"gpt2", "--gpu", "rtx_9999"}, "the nearest");
  fails({"gpt2", "--tensor-parallel", "2"}, "tensor_parallel");
  fails({"llama-3.2-1b", "--pipeline-parallel", "2"}, "pipeline_parallel");
  fails({"gpt2", "--zero", "2"}, "one GPU shares with nobody");
  fails({"gpt2", "--zero", "2", "--data-parallel", "2", "--sharding", "ddp"}, "no ZeRO stage 2");
  fails({"gpt2", "--sharding", "fsdp2", "--data-parallel", "2"}, "stages 2 and 3");
  fails({"gpt2", "--sharding", "megatron"}, "only of Megatron's code");
  fails({"gpt2", "--lora-rank", "4", "--lora-targets", "z"}, "no layers are called z");
  fails({"gpt2", "--micro-batch", "0"}, "--micro-batch");
  fails({"gpt2", "--four-bits"}, "--lora-rank");
  fails({"gpt2", "--dropout", "2"}, "dropout");
  const outcome o = ran({"gpt2", "--svg", "/nowhere/step.svg"});
  CHECK(o.status == 1);
  CHECK(o.out.empty());
  CHECK(has(o.err, "--svg: cannot write /nowhere/step.svg: No such file"));
}

TEST_CASE("layers of a deep model stand in groups, each with its most") {
  using gpuplan::memory_point;
  using gpuplan::step_moment;
  std::vector<memory_point> points;
  for (int layer = 0; layer < 20; ++layer) {
    memory_point point{.when = step_moment::forward, .layer = layer};
    point.in_use.total = 100 + layer;
    points.push_back(point);
  }
  memory_point last{.when = step_moment::last_layer, .layer = 19};
  last.in_use.total = 7;
  points.push_back(last);
  const std::vector<memory_timeline::line> lines = memory_timeline::lines_of(points, 20);
  REQUIRE(lines.size() == 8);
  CHECK(lines[0].name == "forward, layers 0 to 2");
  CHECK(lines[0].most.total == 102);
  CHECK(lines[6].name == "forward, layers 18 to 19");
  CHECK(lines[6].most.total == 119);
  CHECK(lines[7].name == "backward, layers 18 to 19");
  CHECK(lines[7].most.total == 7);
}

TEST_CASE("bytes for people have three digits") {
  using setups::readable_bytes;
  CHECK(readable_bytes(0) == "0 B");
  CHECK(readable_bytes(999) == "999 B");
  CHECK(readable_bytes(1000) == "0.98 KiB");
  CHECK(readable_bytes(1024 * 1024) == "1.00 MiB");
  CHECK(readable_bytes(8'619'549'484) == "8.03 GiB");
  CHECK(readable_bytes(103'079'215'104) == "96.0 GiB");
}
