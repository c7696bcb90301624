#include <cstdint>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/io/text.hpp>
#include <gpuplan/parameters.hpp>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "check.hpp"
#include "gpuplan_runs.hpp"
#include "json_answer.hpp"
#include "model/render.hpp"
#include "temporary_file.hpp"

using nlohmann::json;
namespace catalog = gpuplan::catalog;

namespace {

outcome ran(const std::vector<std::string>& arguments) {
  return output_of_command("model", arguments);
}

json answer(const std::vector<std::string>& arguments) { return json_answer(ran, arguments); }

std::int64_t parameters_in_all(const json& rows, const std::string& which = "total") {
  const json found = value(rows, "totals", which, "parameters");
  REQUIRE(found.is_number_integer());
  return found.get<std::int64_t>();
}

double flop(const json& rows, const std::string& operation, const std::string& column) {
  const json found = value(rows, "flops", operation, column);
  REQUIRE(found.is_number());
  return found.get<double>();
}

double counted(const json& rows, const std::string& convention, const std::string& column) {
  const json found = value(rows, "conventions", convention, column);
  REQUIRE(found.is_number());
  return found.get<double>();
}

void check_lines(const std::string& text, int width) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(gpuplan::io::display_width(line) <= width);
  }
}

}  // namespace

TEST_CASE("every model of the catalogue is described, in lines of a terminal") {
  for (const catalog::published_model& model : catalog::models) {
    CAPTURE(model.id);
    const outcome o = ran({model.id});
    if (model.shape == nullptr && model.parts == nullptr) {
      CHECK(o.status == 2);
      CHECK(has(o.err, std::string(model.id) + " has no shape"));
      continue;
    }
    CHECK(o.status == 0);
    CHECK(o.err.empty());
    check_lines(o.out, 100);
    const json rows = answer({model.id});
    const std::int64_t total = parameters_in_all(rows);
    if (model.published_parameters != 0) {
      CHECK(total == model.published_parameters - model.published_extra);
      CHECK(parameters_in_all(rows, "published") == model.published_parameters);
    }
    std::int64_t sum = 0;
    for (const json& row : rows)
      if (row["table"] == "parameters" && row["column"] == "parameters")
        sum += row["value"].get<std::int64_t>();
    CHECK(sum == total);
  }
}

TEST_CASE("the text has a name, tables, exact and rounded numbers, and bars") {
  const outcome o = ran({"llama-3-8b"});
  for (const char* part : {"meta-llama-3-8b\n═══",
                           "32 layers, hidden size 4096",
                           "32 heads of 128, 8 key-value heads",
                           "total              8,030,261,248  8.03 B",
                           "published          8,030,261,248  8.03 B",
                           "per token (GFLOP)  per sequence (TFLOP)  of the first (%)",
                           "█"})
    CHECK_MESSAGE(has(o.out, part), part);
  CHECK(!has(o.out, "\033"));
  CHECK(has(ran({"llama-3-8b", "--color", "always"}).out, "\033[1m"));
}

TEST_CASE("numbers for people have three digits") {
  using describe_model::rounded;
  CHECK(rounded(8'030'261'248) == "8.03 B");
  CHECK(rounded(22'713'216) == "22.7 M");
  CHECK(rounded(405'853'388'800) == "406 B");
  CHECK(rounded(1'026'408'232'448) == "1.03 T");
  CHECK(rounded(999) == "999  ");
  CHECK(rounded(999'499) == "999 K");
  CHECK(rounded(999'500) == "1.00 M");
  CHECK(rounded(9'994'999) == "9.99 M");
  CHECK(rounded(9'995'000) == "10.0 M");
  CHECK(rounded(0) == "0  ");
  using describe_model::grouped;
  CHECK(grouped(8'030'261'248) == "8,030,261,248");
  CHECK(grouped(999) == "999");
  CHECK(grouped(1000) == "1,000");
  CHECK(grouped(-123'456) == "-123,456");
}

TEST_CASE("FLOPs follow the closed form of a decoder") {
  // LLaMA 3 8B: products of all but the token table and the norms, and attention.
  const double tokens = 8192;
  const json rows = answer({"llama-3-8b", "--sequence-length", "8192"});
  const double linear = 2.0 * (8'030'261'248 - 525'336'576 - 266'240);
  const double attention = 2 * 2 * 32 * tokens * 4096;
  CHECK(flop(rows, "all", "forward") == linear + attention);
  CHECK(flop(rows, "all", "backward") == 2 * (linear + attention));
  CHECK(flop(rows, "scores", "forward") == attention / 2);
  CHECK(flop(rows, "head", "forward") == 2.0 * 4096 * 128256);
  CHECK(counted(rows, "model FLOP, attention in full", "per token") == 3 * (linear + attention));
  CHECK(counted(rows, "model FLOP, attention in full", "per sequence") ==
        3 * (linear + attention) * tokens);
  CHECK(counted(rows, "model FLOP, half of causal attention", "per token") ==
        3 * (linear + attention / 2));
  CHECK(counted(rows, "6 N: per active parameter, if all train", "per token") ==
        6.0 * 8'030'261'248);
  CHECK(counted(rows, "6 N, and attention in full", "per token") ==
        6.0 * 8'030'261'248 + 3 * attention);
  // Every layer once more, and FlashAttention's scores.
  const double head = 2.0 * 4096 * 128256;
  CHECK(counted(rows, "hardware FLOP, layers recomputed", "per token") ==
        doctest::Approx(4 * (linear + attention) - head + attention / 2).epsilon(1e-12));
  const json again = answer({"llama-3-8b", "--sequence-length", "8192", "--recompute", "full"});
  CHECK(flop(again, "gate", "recomputed") == flop(again, "gate", "forward"));
  CHECK(flop(rows, "gate", "recomputed") == 0);
  const json half =
      answer({"llama-3-8b", "--sequence-length", "8192", "--attention-flops", "causal-half"});
  CHECK(flop(half, "scores", "forward") == attention / 4);
}

TEST_CASE("adapters, frozen parts and heads train what they say") {
  // 32 layers of rank 16 beside 4096 x 4096 and 4096 x 1024; PEFT prints this number.
  const json lora = answer({"llama-3-8b", "--lora", "16"});
  CHECK(parameters_in_all(lora, "trainable") == 6'815'744);
  CHECK(flop(lora, "adapters", "forward") == 2.0 * 6'815'744);
  CHECK(flop(lora, "gate", "backward") == flop(lora, "gate", "forward"));
  CHECK(answer({"llama-3-8b", "--lora", "16", "--lora-targets", "q_proj,v_proj"}) == lora);
  CHECK(answer({"llama-3-8b", "--lora", "16", "--lora-targets", "q,v"}) == lora);
  CHECK(parameters_in_all(answer({"llama-3-8b", "--lora", "16", "--lora-targets", "all-linear"}),
                          "trainable") == 41'943'040);
  const json frozen = answer({"llama-3-8b", "--train", "frozen"});
  CHECK(parameters_in_all(frozen, "trainable") == 0);
  CHECK(flop(frozen, "all", "backward") == 0);
  CHECK(parameters_in_all(answer({"llama-3-8b", "--train", "head"}), "trainable") == 4096 * 128256);
  CHECK(parameters_in_all(answer({"llama-3-8b", "--last-layers", "1"}), "trainable") ==
        218'112'000 + 4096 + 4096 * 128256);
}

TEST_CASE("a shape can be given, or changed, option by option") {
  const json given = answer({"--num-hidden-layers",
                             "32",
                             "--hidden-size",
                             "4096",
                             "--intermediate-size",
                             "14336",
                             "--num-attention-heads",
                             "32",
                             "--num-key-value-heads",
                             "8",
                             "--vocab-size",
                             "128256"});
  CHECK(parameters_in_all(given) == 8'030'261'248);
  CHECK(has(value(given, "model", "shape", "it is"), "--num-key-value-heads 8"));
  const json changed = answer({"llama-3-8b", "--layers", "16", "--tie-word-embeddings"});
  CHECK(parameters_in_all(changed) == 8'030'261'248 - 16 * 218'112'000LL - 4096 * 128256);
  CHECK(value(changed, "model", "shape", "it is") ==
        "changed by --num-hidden-layers 16 --tie-word-embeddings");
  CHECK(value(changed, "totals", "published", "parameters").is_null());
  const json moe = answer({"llama-3-8b",
                           "--num-experts",
                           "8",
                           "--num-experts-per-tok",
                           "2",
                           "--moe-intermediate-size",
                           "14336"});
  CHECK(value(moe, "layers", "router", "parameters") == 4096 * 8);
  CHECK(parameters_in_all(moe, "active for a token") ==
        parameters_in_all(moe) - 6 * 3 * 32 * 4096LL * 14336);
  const json bare = answer({"gpt2", "--no-mlp-bias", "--no-attention-bias"});
  CHECK(parameters_in_all(bare) == 124'439'808 - 12 * (3072 + 768 + 3 * 768));
  const json bert = answer({"bert-base-uncased", "--head", "classifier", "--num-classes", "3"});
  CHECK(parameters_in_all(bert) == 109'482'240 + 3 * 769);
}

TEST_CASE("a config.json is read") {
  const std::string config =
      R"({"model_type":"llama","hidden_size":4096,"intermediate_size":14336,)"
      R"("num_attention_heads":32,"num_hidden_layers":32,"num_key_value_heads":8,)"
      R"("vocab_size":128256,"novel_key":1})";
  const temporary_file file(config);
  const json rows = answer({file.name()});
  CHECK(parameters_in_all(rows) == 8'030'261'248);
  bool said = false;
  for (const json& row : rows)
    said = said || (row["table"] == "model" && has(row["value"].dump(), "novel_key"));
  CHECK(said);
  CHECK(parameters_in_all(answer({file.name(), "--layers", "16"})) ==
        8'030'261'248 - 16 * 218'112'000LL);
  // Or its text.
  CHECK(answer({config}) == rows);
  CHECK(has(ran({config}).out, "a model of type llama\n"));
  CHECK(has(ran({R"({"_name_or_path":"me/mine",)" + config.substr(1)}).out, "me/mine\n"));
  CHECK(has(ran({"{}"}).err, "MODEL of this text: "));
  const temporary_file unknown(R"({"model_type":"rwkv"})");
  const outcome o = ran({unknown.name()});
  CHECK(o.status == 2);
  CHECK(o.out.empty());
  CHECK(has(o.err, "does not know rwkv"));
}

TEST_CASE("ranks hold the model together") {
  const json rows = answer({"llama-3-8b", "--tensor-parallel", "2", "--pipeline-parallel", "4"});
  std::int64_t sum = 0;
  for (int stage = 0; stage < 4; ++stage) {
    const json largest = value(rows, "ranks", std::to_string(stage), "largest rank");
    CHECK(largest == value(rows, "ranks", std::to_string(stage), "smallest rank"));
    CHECK(value(rows, "ranks", std::to_string(stage), "first layer") == 8 * stage);
    sum += 2 * largest.get<std::int64_t>();
  }
  // Norms are on both ranks of a stage.
  CHECK(sum == 8'030'261'248 + 65 * 4096);
  CHECK(value(answer({"llama-3-8b"}), "ranks", "0", "largest rank").is_null());
  const json experts = answer({"mixtral-8x7b-v0.1", "--expert-parallel", "8"});
  CHECK(value(experts, "ranks", "0", "largest rank") ==
        46'702'792'704 - 7 * 32 * 3 * 4096LL * 14336);
  // Of two experts of a rank half, where they are in two parts.
  const auto largest = [](const std::string& parts) {
    return value(answer({"mixtral-8x7b-v0.1",
                         "--tensor-parallel",
                         "2",
                         "--expert-parallel",
                         "4",
                         "--expert-tensor-parallel",
                         parts}),
                 "ranks",
                 "0",
                 "largest rank")
        .get<std::int64_t>();
  };
  CHECK(largest("1") - largest("2") == 32 * 3 * 4096LL * 14336);
}

TEST_CASE("models of other kinds have tables of theirs") {
  const json t5 = answer({"t5-small", "--decoder-sequence-length", "128"});
  CHECK(value(t5, "layers", "layers", "decoder") == 6);
  CHECK(flop(t5, "head", "forward") == 2.0 * 128 * 512 * 32128);
  const json vit = answer({"vit-base-patch16-224"});
  CHECK(flop(vit, "patch embedding", "forward") == 2.0 * 196 * 768 * 768);
  const json vla = answer({"openvla-7b", "--sequence-length", "300"});
  CHECK(value(vla, "parts", "llama-2-7b-vocab32064", "tokens of one") == 300);
  CHECK(value(vla, "parts", "connector of 3 layers", "parameters") == 71'385'600);
  CHECK(flop(vla, "head", "forward") == 2.0 * 300 * 4096 * 32064);
  const json v3 = answer({"deepseek-v3"});
  CHECK(value(v3, "layers", "layers", "with experts") == 58);
  CHECK(value(v3, "layers", "layers", "multi-token prediction") == 1);
  // Usual lengths: positions end at 512 and 1024, images have their own.
  CHECK(value(answer({"bert-base-uncased"}),
              "conventions",
              "model FLOP, attention in full",
              "per sequence")
            .get<double>() == doctest::Approx(512 * counted(answer({"bert-base-uncased"}),
                                                            "model FLOP, attention in full",
                                                            "per token")));
}

TEST_CASE("csv and markdown hold the numbers of json") {
  const json rows = answer({"llama-3-8b"});
  const std::string csv = ran({"llama-3-8b", "--format", "csv"}).out;
  CHECK(csv.rfind("table,row,column,value,unit\r\n", 0) == 0);
  std::size_t lines = 0;
  for (const char c : csv) lines += c == '\n' ? 1 : 0;
  CHECK(lines == rows.size() + 1);
  CHECK(has(csv, "\r\nparameters,MLP,parameters,5637144576,\r\n"));
  CHECK(has(csv, "\r\nflops,head,forward,1050673152,FLOP\r\n"));
  const std::string markdown = ran({"llama-3-8b", "--format", "markdown"}).out;
  CHECK(has(markdown, "### Parameters\n"));
  CHECK(has(markdown, "| MLP | 5,637,144,576 | 5.64 B | 70.2 |"));
  CHECK(!has(markdown, "█"));
}

TEST_CASE("a wrong question is told with option and value, and prints nothing") {
  struct wrong {
    std::vector<std::string> arguments;
    std::vector<std::string> said;
  };
  const wrong cases[] = {
      {{}, {"which MODEL", "gpuplan models"}},
      {{"lama-3-8b"}, {"lama-3-8b", "nearest is meta-llama-3-8b"}},
      {{"llama-3-8b", "mistral-7b"}, {"mistral-7b"}},
      {{"gr00t-n1.6-3b"}, {"gr00t-n1.6-3b", "no shape"}},
      {{"llama-3-8b", "--format", "xml"}, {"--format", "xml"}},
      {{"llama-3-8b", "--sequence-length", "0"}, {"sequence_length 0"}},
      {{"llama-3-8b", "--sequence-length", "-5"}, {"--sequence-length: -5"}},
      {{"llama-3-8b", "--sequence-length", "much"}, {"--sequence-length", "much"}},
      {{"bert-base-uncased", "--sequence-length", "513"}, {"sequence_length 513", "512"}},
      {{"vit-base-patch16-224", "--sequence-length", "300"}, {"--sequence-length 300", "197"}},
      {{"llama-3-8b", "--decoder-sequence-length", "8"}, {"--decoder-sequence-length 8"}},
      {{"llama-3-8b", "--num-attention-heads", "31"}, {"num_attention_heads 31"}},
      {{"llama-3-8b", "--hidden-size", "abc"}, {"--hidden-size", "abc"}},
      {{"llama-3-8b", "--hidden-size", "-1"}, {"--hidden-size: -1"}},
      {{"llama-3-8b", "--kind", "rnn"}, {"--kind", "rnn", "vision"}},
      {{"llama-3-8b", "--lora", "0"}, {"--lora: 0 is no"}},
      {{"llama-3-8b", "--lora-targets", "q"}, {"--lora"}},
      {{"llama-3-8b", "--lora", "4", "--lora-targets", "q,z_proj"}, {"z_proj"}},
      {{"llama-3-8b", "--lora", "4", "--lora-targets", "router"}, {"lora_rank 4"}},
      {{"llama-3-8b", "--lora", "4", "--train", "head"}, {"--lora and --train both"}},
      {{"phi-3-mini-4k", "--lora", "4", "--lora-targets", "q"}, {"fused_qkv"}},
      {{"llama-3-8b", "--lora", "4", "--qlora", "4"}, {"--lora and --qlora both"}},
      {{"llama-3-8b", "--last-layers", "33"}, {"last_layers 33"}},
      {{"llama-3-8b", "--train", "lora"}, {"--train", "lora"}},
      {{"llama-3-8b", "--tensor-parallel", "0"}, {"tensor_parallel 0"}},
      {{"llama-3-8b", "--tensor-parallel", "33"}, {"--tensor-parallel 33", "32 attention heads"}},
      {{"llama-3-8b", "--pipeline-parallel", "33"}, {"--pipeline-parallel 33", "32 layers"}},
      {{"llama-3-8b", "--expert-parallel", "2"}, {"--expert-parallel 2", "0 experts"}},
      {{"llama-3-8b", "--expert-tensor-parallel", "2"},
       {"--expert-tensor-parallel 2", "0 columns of an expert"}},
      {{"mixtral-8x7b-v0.1", "--expert-tensor-parallel", "2"},
       {"--expert-tensor-parallel 2", "as many parts as other weights, 1"}},
      {{"openvla-7b", "--train", "frozen"}, {"openvla-7b"}},
      {{"openvla-7b", "--lora", "8"}, {"openvla-7b"}},
      {{"openvla-7b", "--layers", "8"}, {"--num-hidden-layers 8", "openvla-7b"}},
      {{"openvla-7b", "--tensor-parallel", "2"}, {"--tensor-parallel", "openvla-7b"}},
      {{"openvla-7b", "--sequence-length", "0"}, {"sequence_length 0"}},
      {{"/no/such/config.json"}, {"MODEL", "/no/such/config.json"}},
      {{"llama-70b"}, {"MODEL llama-70b", "3 models"}},
      {{"--layers", "2"}, {"hidden_size 0"}},
  };
  for (const wrong& w : cases) {
    const outcome o = ran(w.arguments);
    CAPTURE(o.err);
    CHECK(o.status == 2);
    CHECK(o.out.empty());
    const std::string message = o.err.substr(0, o.err.find('\n'));
    CHECK(message.rfind("gpuplan model: ", 0) == 0);
    for (const std::string& part : w.said) CHECK_MESSAGE(has(message, part), part);
  }
}

TEST_CASE("help says what can be asked") {
  const outcome o = ran({"--help"});
  CHECK(o.status == 0);
  CHECK(o.err.empty());
  CHECK(!has(o.out, "{"));  // as CLI11 says what a flag sets
  for (const char* part : {"config.json",
                           "--num-key-value-heads",
                           "--lora-targets",
                           "--tensor-parallel",
                           "--sequence-length",
                           "--format",
                           "gpuplan model llama-3-8b"})
    CHECK_MESSAGE(has(o.out, part), part);
}

TEST_CASE("the parts of a model of several have names, and add up to it") {
  const std::string config = R"({"model_type":"qwen3_vl","text_config":{"hidden_size":64,
    "intermediate_size":128,"num_attention_heads":2,"num_hidden_layers":4,"num_key_value_heads":1,
    "vocab_size":500},"vision_config":{"depth":3,"hidden_size":32,"intermediate_size":64,
    "num_heads":2,"out_hidden_size":64,"deepstack_visual_indexes":[0,1]}})";
  const outcome o = output_of_command("model", {config, "--format", "json"});
  REQUIRE(o.status == 0);
  double sum = 0;
  double total = 0;
  std::vector<std::string> names;
  const nlohmann::json answered = nlohmann::json::parse(o.out);
  for (const auto& row : answered["answer"]) {
    if (row["table"] == "parts" && row["column"] == "parameters") {
      sum += row["value"].get<double>();
      names.push_back(row["row"]);
    }
    if (row["table"] == "totals" && row["column"] == "parameters" && row["row"] == "total")
      total = row["value"];
    if (row["table"] == "totals" && row["column"] == "parameters" && row["row"] == "trainable")
      CHECK(row["value"].get<double>() == total);
  }
  CHECK(names == std::vector<std::string>{"vision tower",
                                          "connector of 2 layers",
                                          "language model",
                                          "2 deepstack mergers and norms"});
  CHECK(sum == total);
}
