#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/models/gpt.hpp>
#include <gpuplan/io/text.hpp>
#include <gpuplan/memory/timeline.hpp>
#include <gpuplan/memory/trace.hpp>
#include <gpuplan/replay/counts.hpp>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "check.hpp"
#include "gpuplan_runs.hpp"
#include "json_answer.hpp"
#include "memory/moments.hpp"
#include "setups/numbers.hpp"
#include "temporary_file.hpp"

using nlohmann::json;

namespace {

outcome ran(const std::vector<std::string>& arguments) {
  return output_of_command("memory", arguments);
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
  CHECK(bytes_of(value(rows, "peak", "all", "total")) == 8'619'549'484);
  CHECK(value(rows, "peak", "all", "moment") == "loss backward");
  CHECK(bytes_of(value(rows, "step", "loss backward", "total")) == 8'619'549'484);
  CHECK(bytes_of(value(rows, "step", "loss backward", "weights")) == 4 * 124'439'808);
  CHECK(bytes_of(value(rows, "step", "optimizer", "gradients")) == 4 * 124'439'808);
  std::int64_t pieces = 0;
  std::int64_t most = 0;
  for (const json& row : rows) {
    if (row["table"] == "pieces" && row["column"] == "bytes") pieces += row["value"].get<int64_t>();
    if (row["table"] == "step" && row["column"] == "total")
      most = std::max(most, bytes_of(row["value"]));
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
                           ">loss<",
                           ">backward<",
                           ">optimizer<",
                           "since that of GeForce RTX 2080 Ti is",
                           ">8.03 GiB, loss backward<",
                           ">GeForce RTX 2080 Ti: 10.4 GiB<"})
    CHECK_MESSAGE(has(svg, part), part);
  for (const char* none : {"<script", "href", "nan", "inf"}) CHECK_MESSAGE(!has(svg, none), none);
}

TEST_CASE("a trace has the timeline's points, and times in which nothing of the step is lost") {
  const gpuplan::training_setup setup{.model = gpuplan::catalog::gpt2,
                                      .sequence_length = 1024,
                                      .precision = gpuplan::bf16_mixed,
                                      .attention = gpuplan::attention_kernel::flash,
                                      .framework = gpuplan::catalog::torch_gpt};
  const gpuplan::batch_plan plan{.micro_batch = 8, .accumulation = 2};
  const gpuplan::memory_trace trace = *gpuplan::trace_of(setup, plan);
  const std::vector<gpuplan::memory_point> points = *gpuplan::timeline_of(setup, plan);
  std::size_t at = 0;
  std::vector<bool> is_there(trace.blocks.size(), false);
  std::fill_n(is_there.begin(), trace.before, true);
  std::int64_t in_use = trace.at_first.total;
  for (const gpuplan::memory_change& change : trace.changes) {
    REQUIRE(is_there[change.block] != change.comes);
    is_there[change.block] = change.comes;
    in_use += (change.comes ? 1 : -1) * trace.blocks[change.block].bytes;
    REQUIRE(change.in_use.total == in_use);
    if (!change.comes) continue;
    REQUIRE(at < points.size());
    REQUIRE(points[at].in_use.total == in_use);
    REQUIRE(points[at].when == change.when);
    ++at;
  }
  CHECK(at == points.size());
  CHECK(trace.changes.back().flops == gpuplan::counts_of(setup, plan)->hardware().value());

  const gpuplan::step_pace pace{.forward = gpuplan::duration::from_value(1),
                                .backward = gpuplan::duration::from_value(2),
                                .optimizer = gpuplan::duration::from_value(0.5),
                                .flops_per_s = 250e12,
                                .bytes_per_s = 1.6e12};
  const std::vector<double> times = gpuplan::times_of(trace, pace);
  CHECK(std::is_sorted(times.begin(), times.end()));
  CHECK(times.back() == doctest::Approx(2 * (1 + 2) + 0.5));
  // The head and the loss are a third of the forward's products: no spike of one column.
  double loss = 0;
  for (std::size_t i = 0; i < trace.changes.size(); ++i)
    if (trace.changes[i].when == gpuplan::step_moment::loss) loss += times[i + 1] - times[i];
  CHECK(loss > 0.2);
  CHECK(loss < 1.2);
}

TEST_CASE("a file's name stands in a picture as it is") {
  const temporary_file config(
      R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 1000,
         "n_positions": 128})",
      "a<b&c");
  const temporary_file file("");
  CHECK(ran({config.name(), "--svg", file.name()}).status == 0);
  CHECK(has(file.text(), "a&lt;b&amp;c"));
  CHECK(!has(file.text(), "a<b"));
}

TEST_CASE("setups are as the options say") {
  const auto peak = [](const std::vector<std::string>& arguments) {
    return bytes_of(value(answer(arguments), "peak", "all", "total"));
  };
  const std::int64_t one = peak({"llama-3.2-1b"});
  CHECK(peak({"llama-3.2-1b", "--recompute", "full"}) < one);
  CHECK(peak({"llama-3.2-1b", "--data-parallel", "8", "--zero", "3"}) < one);
  CHECK(peak({"llama-3.2-1b", "--data-parallel", "8", "--zero", "1"}) < one);
  CHECK(peak({"llama-3.2-1b", "--optimizer", "sgd"}) < one);
  CHECK(peak({"llama-3.2-1b", "--precision", "bf16-pure"}) < one);
  const std::int64_t lora = peak({"llama-3.2-1b", "--precision", "bf16-autocast", "--lora", "8"});
  CHECK(peak({"llama-3.2-1b", "--lora", "8"}) == lora);
  CHECK(peak({"llama-3.2-1b", "--dora", "8"}) > lora);
  CHECK(peak({"llama-3.2-1b", "--last-layers", "1"}) < one);
  CHECK(lora < one);
  CHECK(peak({"llama-3.2-1b", "--qlora", "8", "--recompute", "full"}) <
        peak({"llama-3.2-1b", "--lora", "8", "--recompute", "full"}));
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

TEST_CASE("a config.json drops as its class does, in its class's code") {
  const std::string shape =
      R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 1000,
         "n_positions": 128)";
  const temporary_file silent(shape + "}");
  const temporary_file none(shape + R"(, "attn_pdrop": 0, "embd_pdrop": 0, "resid_pdrop": 0})");
  const auto peak = [](const temporary_file& file, const std::vector<std::string>& more) {
    std::vector<std::string> all{file.name(), "--sequence-length", "128"};
    all.insert(all.end(), more.begin(), more.end());
    return bytes_of(value(answer(all), "peak", "all", "total"));
  };
  CHECK(peak(silent, {}) > peak(none, {}));
  CHECK(peak(silent, {}) == peak(none, {"--dropout", "0.1"}));  // GPT2Config has 0.1 for all
  CHECK(peak(silent, {"--dropout", "0"}) == peak(none, {}));
  const std::vector<std::string> other{"--framework", "torch-gpt"};
  CHECK(peak(silent, other) == peak(none, other));
}

TEST_CASE("all GPUs say how many replicas there are") {
  const std::vector<std::string> shared{"gpt2", "--zero", "3", "--format", "csv"};
  const auto with = [&](std::initializer_list<const char*> more) {
    std::vector<std::string> arguments = shared;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return ran(arguments);
  };
  CHECK(with({"--gpus", "8"}).status == 0);
  CHECK(with({"--gpus", "8"}).out == with({"--data-parallel", "8"}).out);
  CHECK(with({"--gpus", "8"}).out != with({"--data-parallel", "4"}).out);
  CHECK(with({"--gpus", "8", "--data-parallel", "8"}).status == 2);
}

TEST_CASE("of a pipeline the peak of each stage is told, and one stage is drawn") {
  const std::vector<std::string> pipeline{
      "gpt2", "--framework", "megatron-core", "--pipeline-parallel", "2", "--accumulation", "4"};
  const auto at = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = pipeline;
    all.insert(all.end(), more.begin(), more.end());
    return answer(all);
  };
  const json highest = at({});
  const json first = at({"--stage", "0"});
  const json last = at({"--stage", "1"});
  CHECK(value(first, "stages", "0", "total") == value(first, "peak", "all", "total"));
  CHECK(value(last, "stages", "1", "total") == value(last, "peak", "all", "total"));
  CHECK(value(first, "stages", "1", "first layer") == 6);
  CHECK(bytes_of(value(highest, "peak", "all", "total")) ==
        std::max(bytes_of(value(first, "peak", "all", "total")),
                 bytes_of(value(last, "peak", "all", "total"))));
  std::vector<std::string> wrong = pipeline;
  wrong.insert(wrong.end(), {"--stage", "2"});
  CHECK(has(ran(wrong).err, "--stage 2: --pipeline-parallel is 2, so they are 0 to 1"));
}

TEST_CASE("an engine that generates leaves less of the GPU, or nothing") {
  const std::vector<std::string> grpo{"llama-3-8b",
                                      "--lora",
                                      "16",
                                      "--recompute",
                                      "full",
                                      "--gpu",
                                      "h100-sxm",
                                      "--objective",
                                      "grpo",
                                      "--generates-apart"};
  const auto beside = [&](const char* held) {
    std::vector<std::string> all = grpo;
    all.insert(all.end(), {"--inference-memory", held});
    return all;
  };
  const auto capacity = [](const std::vector<std::string>& arguments) {
    for (const json& row : answer(arguments))
      if (row["table"] == "peak" && row["column"] == "capacity") return row["value"].get<double>();
    FAIL("no capacity");
    return 0.0;
  };
  CHECK(capacity(grpo) - capacity(beside("10GiB")) == doctest::Approx(10));  // GiB
  CHECK(capacity(beside("200GiB")) == 0);
  CHECK(has(ran(beside("10GiB")).out, "68.7 GiB for PyTorch beside 10.0 GiB of an inference"));
  CHECK(has(ran(beside("200GiB")).out, "has nothing for PyTorch beside 200 GiB of an inference"));
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
  fails({}, "which MODEL?");
  fails({"gpt9"}, "MODEL gpt9: neither a file or folder, nor a model");
  fails({"dbrx"},
        "no code of transformers is known for dbrx; none of --framework runs it: num_experts 16 is "
        "in the way of ");
  fails({"mixtral-8x7b", "--framework", "llama"}, "of --framework these run it: mixtral, ");
  fails({"gr00t-n1.5-3b-backbone"}, "made of several models");
  fails({"/nowhere"}, "cannot read /nowhere");
  fails({"gpt2", "--gpu", "rtx_9999"}, "the nearest");
  fails({"gpt2", "--tensor-parallel", "2"}, "tensor_parallel");
  fails({"llama-3.2-1b", "--pipeline-parallel", "2"}, "pipeline_parallel");
  fails({"gpt2", "--zero", "2"}, "one GPU shares with nobody");
  fails({"gpt2", "--zero", "2", "--data-parallel", "2", "--sharding", "ddp"}, "no ZeRO stage 2");
  fails({"gpt2", "--sharding", "fsdp2", "--data-parallel", "2", "--zero", "1"}, "stages 2 and 3");
  fails({"llama-3.2-1b", "--framework", "torchtitan-2026", "--zero", "1", "--data-parallel", "2"},
        "--zero 1: fsdp2, which alone runs this code, has the ZeRO stages 2 and 3");
  fails({"gpt2", "--sharding", "megatron"}, "only of Megatron's code");
  fails({"gpt2", "--lora", "4", "--lora-targets", "z"}, "no layers are called z");
  fails({"gpt2", "--micro-batch", "0"}, "--micro-batch");
  fails({"gpt2", "--lora-targets", "q"}, "--lora");
  fails({"gpt2", "--lora-dropout", "0.1"}, "--lora");
  fails({"gpt2", "--lora", "4", "--lora-dropout", "2"}, "--lora-dropout");
  fails({"gpt2", "--gpu", "4090,4080"}, "--gpu names 2 devices");
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
  const gpuplan::training_setup deep{.model = {.num_hidden_layers = 20}};
  const std::vector<memory_timeline::line> lines = memory_timeline::lines_of(points, deep);
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

TEST_CASE("layers of several models stand in groups of their part, in the order of the step") {
  const std::string config = R"({"model_type": "paligemma", "image_token_index": 7,
    "projection_dim": 64,
    "text_config": {"model_type": "gemma", "hidden_size": 64, "intermediate_size": 128,
                    "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32,
                    "num_hidden_layers": 3, "vocab_size": 500},
    "vision_config": {"model_type": "siglip_vision_model", "hidden_size": 64, "image_size": 56,
                      "intermediate_size": 128, "num_attention_heads": 2, "num_hidden_layers": 5,
                      "patch_size": 14, "vision_use_head": false}})";
  const temporary_file file(config, "paligemma.json");
  const outcome o = output_of_command("memory", {file.name(), "--sequence-length", "32"});
  REQUIRE(o.status == 0);
  const std::vector<std::string> names{"forward, vision tower, layers 0 to 1",
                                       "forward, vision tower, layers 2 to 3",
                                       "forward, vision tower, layer 4",
                                       "forward, language model, layer 0",
                                       "forward, language model, layer 1",
                                       "forward, language model, layer 2",
                                       "loss",
                                       "backward, language model, layer 2",
                                       "backward, language model, layer 1",
                                       "backward, language model, layer 0",
                                       "backward, vision tower, layer 4",
                                       "backward, vision tower, layers 2 to 3",
                                       "backward, vision tower, layers 0 to 1",
                                       "optimizer"};
  std::size_t before = 0;
  for (const std::string& name : names) {
    CAPTURE(name);
    const std::size_t at = o.out.find("\n  " + name + "  ");
    REQUIRE(at != std::string::npos);
    CHECK(at > before);
    before = at;
  }
}
