// torchtitan's settings, read and written.

#include <doctest/doctest.h>

#include <gpuplan/catalog/models.hpp>
#include <gpuplan/io/toml.hpp>
#include <gpuplan/io/trainer/configured_training.hpp>
#include <gpuplan/io/trainer/torchtitan.hpp>

#include <random_config.hpp>
#include <random_numbers.hpp>

#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace gpuplan;
using namespace gpuplan::io;

const char* const titan_sample = R"(
[job]
dump_folder = "./outputs"
[model]
name = "llama3"
flavor = "8B"
[optimizer]
name = "AdamW"
lr = 3e-4
[lr_scheduler]
warmup_steps = 200
[training]
local_batch_size = 2
global_batch_size = 64
seq_len = 8192
max_norm = 1.0
steps = 1000
dataset = "c4"
[parallelism]
data_parallel_replicate_degree = 2
data_parallel_shard_degree = 4
tensor_parallel_degree = 2
pipeline_parallel_degree = 1
fsdp_reshard_after_forward = "default"
[activation_checkpoint]
mode = "selective"
selective_ac_option = "op"
[checkpoint]
enable = false
)";

TEST_CASE("a rate that stays is a decay of no steps to torchtitan") {
  std::string stays = titan_sample;
  const std::string at = "warmup_steps = 200\n";
  stays.insert(stays.find(at) + at.size(), "decay_ratio = 0.0\n");
  const read_config read = read_torchtitan(parse_toml(stays).is);
  REQUIRE(read);
  CHECK(says(read.config.schedule, rate_schedule::constant));
  training_config config = read.config;
  const value written = io::detail::torchtitan_settings_of(config).settings;
  const value* const schedule = written.find("lr_scheduler");
  REQUIRE(schedule != nullptr);
  REQUIRE(schedule->find("decay_ratio") != nullptr);
  CHECK(*schedule->find("decay_ratio")->number() == 0);
}

TEST_CASE("torchtitan's TOML says its layout and batch") {
  const value settings = parse_toml(titan_sample).is;
  CHECK(looks_like_torchtitan(settings));
  const read_config read = read_torchtitan(settings);
  REQUIRE(read);
  CHECK(read.not_understood.empty());
  CHECK(read.remarks.empty());
  const training_config& is = read.config;
  CHECK(is.model == "meta-llama/Llama-3.1-8B");
  CHECK(*is.data_parallel == 8);
  CHECK(*is.shard_group == 4);
  CHECK(*is.zero_stage == 3);
  CHECK(is.engine == "fsdp2");
  CHECK(*is.micro_batch == 2);
  CHECK(*is.accumulation == 4);
  CHECK(*is.recompute == recompute_mode::full);
  CHECK(*is.saves_costly_results);
  CHECK(*is.learning_rate == 3e-4);
}

TEST_CASE("torchtitan's loss is in as many chunks as flags and plans say") {
  const read_config flags = read_torchtitan_words({"--config", "llama3_8b", "--loss.num-chunks=4"});
  CHECK(says(flags.config.loss_chunks, std::int64_t{4}));
  CHECK(says(read_torchtitan_words({"--config", "llama3_8b"}).config.loss_chunks, std::int64_t{8}));
  training_config config{.model = "meta-llama/Llama-3.1-8B"};
  config.nodes = 1;
  config.gpus_per_node = 8;
  const auto written = [&] {
    const written_config made = write_torchtitan(config);
    REQUIRE(made);
    CHECK(made.files[0].text.find("    c.training.disable_cuda_graphs = True\n") !=
          std::string::npos);
    return made.files[0].text;
  };
  CHECK(written().find("loss") == std::string::npos);
  config.cuda_graphs = true;
  const written_config graphs = write_torchtitan(config);
  CHECK(graphs.files[0].text.find("    c.training.disable_cuda_graphs = False\n") !=
        std::string::npos);
  CHECK(graphs.not_written.empty());
  config.cuda_graphs = {};
  config.loss_chunks = 4;
  CHECK(written().find("    c.loss = ChunkedLossWrapper.Config(num_chunks=4, loss_fn=") !=
        std::string::npos);
  CHECK(write_torchtitan(config).not_written.empty());
  config.loss_chunks = 0;
  CHECK(written().find("    c.loss = getattr(c.loss, \"loss_fn\", c.loss)\n") != std::string::npos);
  config.loss_chunks = -1;
  CHECK(write_torchtitan(config).why.starts_with("loss_chunks is -1"));
}

TEST_CASE("a whole TOML leaves torchtitan's defaults, flags leave what the configuration says") {
  const training_config is = read_torchtitan(parse_toml("[training]\nsteps = 9\n").is).config;
  CHECK(says(is.micro_batch, std::int64_t{8}));
  CHECK(says(is.sequence_length, std::int64_t{2048}));
  CHECK(says(is.clip_norm, 1.0));
  CHECK(says(is.optimizer, optimizer{.loop = optimizer_loop::fused}));
  CHECK(says(is.recompute, recompute_mode::full));
  CHECK(says(is.recompute_period, std::int64_t{2}));
  CHECK_FALSE(is.saves_costly_results);
  const training_config flags =
      read_torchtitan_words({"--config", "own_8b", "--training.steps=9"}).config;
  CHECK_FALSE(flags.micro_batch);
  CHECK_FALSE(flags.sequence_length);
  CHECK_FALSE(flags.optimizer);
  CHECK_FALSE(flags.recompute);
  CHECK_FALSE(read_torchtitan_words({"--job.config_file=a.toml"}).config.micro_batch);
}

TEST_CASE("flags change what torchtitan's registry sets") {
  const auto of = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"--module", "llama3", "--config"});
    return read_torchtitan_words(words);
  };
  const read_config read = of({"llama3_70b", "--training.local_batch_size", "2"});
  REQUIRE(read);
  const training_config& is = read.config;
  CHECK(is.model == "meta-llama/Llama-3.1-70B");
  CHECK(says(is.sequence_length, std::int64_t{8192}));
  CHECK(says(is.micro_batch, std::int64_t{2}));
  CHECK(says(is.tensor_parallel, std::int64_t{8}));
  CHECK(says(is.steps, std::int64_t{1000}));
  CHECK(says(is.recompute, recompute_mode::full));
  CHECK_FALSE(is.saves_costly_results);
  CHECK(says(is.learning_rate, 1.5e-4));
  CHECK(says(is.loss_chunks, std::int64_t{8}));
  CHECK(says(is.optimizer, optimizer{.loop = optimizer_loop::fused}));
  CHECK(read.remarks.empty());
  CHECK(says(is.cuda_graphs, true));
  CHECK(says(of({"llama3_8b", "--training.disable_cuda_graphs"}).config.cuda_graphs, false));

  const read_config smaller =
      of({"llama3_8b", "--training.num_tokens_per_microbatch_per_dp_rank", "24576"});
  CHECK(says(smaller.config.micro_batch, std::int64_t{3}));
  CHECK(says(smaller.config.saves_costly_results, true));

  const training_config mixture = of({"deepseek_v3_671b"}).config;
  CHECK(says(mixture.expert_parallel, std::int64_t{2}));
  CHECK(says(mixture.schedule, rate_schedule::cosine));
  CHECK(*mixture.least_learning_rate == doctest::Approx(2.2e-5));
  CHECK(says(mixture.cuda_graphs, false));
  const training_config largest = of({"llama3_405b"}).config;
  CHECK(says(largest.precision, training_precision::fp8));
  CHECK(says(largest.cuda_graphs, true));

  const read_config unknown = of({"my_8b"});
  REQUIRE(unknown.remarks.size() == 1);
  CHECK(unknown.remarks[0].is == remark::kind::missing);
  CHECK(unknown.remarks[0].text.find("my_8b") != std::string::npos);
}

TEST_CASE("torchtitan recomputes every so many layers, or all but costly results") {
  const auto of = [](const std::string& option) {
    return read_torchtitan(parse_toml("[activation_checkpoint]\nmode = \"selective\"\n"
                                      "selective_ac_option = \"" +
                                      option + "\"\n")
                               .is);
  };
  CHECK(says(of("3").config.recompute_period, std::int64_t{3}));
  CHECK_FALSE(of("3").config.saves_costly_results);
  CHECK(of("3").remarks.empty());
  CHECK(says(of("op").config.saves_costly_results, true));
  CHECK_FALSE(of("op").config.recompute_period);
  for (const char* const odd : {"0", "-2", "2x", "99999999999999999999"}) {
    CAPTURE(odd);
    REQUIRE(of(odd).remarks.size() == 1);
    CHECK(of(odd).remarks[0].key == "activation_checkpoint.selective_ac_option");
  }
}

TEST_CASE("what changes a step of torchtitan and is not estimated is said") {
  // A section, a key, a value that changes the step, and one that does not
  struct asked {
    const char* section;
    const char* key;
    const char* changes;
    const char* usual;
  };
  for (const asked& one :
       {asked{"optimizer", "early_step_in_backward", "true", "false"},
        asked{"training", "deterministic", "true", "false"},
        asked{"training", "mixed_precision_reduce", "\"bfloat16\"", "\"float32\""},
        asked{"debug", "detect_anomaly", "true", "false"},
        asked{"parallelism", "disable_loss_parallel", "true", "false"},
        asked{"parallelism", "enable_async_tensor_parallel", "true", "false"},
        asked{"parallelism", "enable_compiled_autograd", "true", "false"},
        asked{"parallelism", "expert_tensor_parallel_degree", "2", "1"},
        asked{"parallelism", "pipeline_parallel_schedule_csv", "\"a.csv\"", "\"\""},
        asked{"fault_tolerance", "enable", "true", "false"}}) {
    const std::string key = one.section + ('.' + std::string(one.key));
    const auto doubts = [&](const char* is) {
      const std::string text = '[' + std::string(one.section) + "]\n" + one.key + " = " + is + '\n';
      for (const remark& said : read_torchtitan(parse_toml(text).is).remarks)
        if (said.is == remark::kind::doubtful && said.key == key) return true;
      return false;
    };
    CAPTURE(key);
    CHECK(doubts(one.changes));
    CHECK_FALSE(doubts(one.usual));
  }
  const auto loop = [](const char* name) {
    return read_torchtitan(
               parse_toml("[optimizer]\nimplementation = \"" + std::string(name) + "\"\n").is)
        .config.optimizer->loop;
  };
  CHECK(loop("for-loop") == optimizer_loop::parameter);
  CHECK(loop("foreach") == optimizer_loop::foreach);
  for (const char* const section :
       {"optimizer", "lr_scheduler", "compile", "activation_checkpoint", "debug"})
    CHECK(read_torchtitan(parse_toml('[' + std::string(section) + "]\nodd = 1\n").is)
              .not_understood == std::vector<std::string>{section + std::string(".odd")});
}

TEST_CASE("what torchtitan compiles is read, and estimated by its code that compiles") {
  const auto compiles = [](const std::string& text) {
    const training_config of = read_torchtitan(parse_toml(text).is).config;
    return std::pair{says(of.compiles_layers, true), says(of.compiles_loss, true)};
  };
  using parts = std::pair<bool, bool>;
  CHECK(compiles("[compile]\nenable = true\n") == parts{true, true});
  CHECK(compiles("[compile]\nenable = true\ncomponents = [\"loss\"]\n") == parts{false, true});
  CHECK(compiles("[compile]\nenable = true\ncomponents = [\"model\"]\n") == parts{true, false});
  CHECK(compiles("[compile]\nenable = false\ncomponents = [\"model\"]\n") == parts{});
  CHECK(compiles("[training]\ncompile = true\n") == parts{true, false});
  CHECK(compiles("[training]\nseq_len = 4096\n") == parts{});

  const auto compiled = [](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"--model.name", "llama3", "--model.flavor", "8B"};
    words.insert(words.end(), more.begin(), more.end());
    return configured(read_torchtitan_words(words),
                      {.shape = catalog::llama_3_8b, .called = "llama"});
  };
  const configured_training made = compiled({"--compile.enable"});
  REQUIRE(made);
  CHECK(made.setup.framework.implementation.compiles_layers);
  CHECK(made.setup.framework.implementation.compiles_loss);
  const auto left_out = [](const configured_training& of) {
    std::string members;
    for (const assumption& one : of.assumed)
      if (one.member.find("compiles") == 0) members += one.member + ' ';
    return members;
  };
  CHECK(left_out(made).empty());
  const configured_training divided =
      compiled({"--compile.enable", "--parallelism.tensor_parallel_degree", "2"});
  REQUIRE(divided);
  CHECK_FALSE(divided.setup.framework.implementation.compiles_layers);
  CHECK(divided.setup.framework.implementation.compiles_loss);
  CHECK(left_out(divided) == "compiles_layers ");
  // A default recomputation that the newer code has not, so that the older one compiles
  const configured_training older =
      configured(read_torchtitan(parse_toml("[model]\nname = \"llama3\"\nflavor = \"8B\"\n[loss]\n"
                                            "num_chunks = 8\n[compile]\nenable = true\n")
                                     .is),
                 {.shape = catalog::llama_3_8b, .called = "llama"});
  REQUIRE(older);
  CHECK(older.setup.framework.implementation.compiles_layers);
  CHECK(older.setup.framework.implementation.compiles_loss);
  CHECK(left_out(older).empty());
  // torchtitan 0.3's code, which is kept
  const configured_training later = compiled({"--compile.enable", "--loss.num_chunks", "8"});
  REQUIRE(later);
  CHECK(later.setup.framework.implementation.loss_chunks == 8);
  CHECK(left_out(later) == "compiles_layers compiles_loss ");
}

TEST_CASE("torchtitan's flavors are models of the Hub where these have the shape") {
  const auto model = [](const std::string& name, const std::string& flavor) {
    return read_torchtitan(parse_toml("[model]\nname = \"" + name + "\"\nflavor = \"" + flavor +
                                      "\"\n[training]\nlocal_batch_size = 1\n")
                               .is)
        .config.model;
  };
  CHECK(model("qwen3", "30B-A3B") == "Qwen/Qwen3-30B-A3B");
  CHECK(model("qwen3", "0.6B") == "Qwen/Qwen3-0.6B");
  CHECK(model("deepseek_v3", "671B") == "deepseek-ai/DeepSeek-V3");
  CHECK(model("llama3", "debugmodel").empty());
  const read_config unknown = read_torchtitan(
      parse_toml("[model]\nname = \"llama3\"\nflavor = \"71B\"\n[training]\nlocal_batch_size = 1\n")
          .is);
  REQUIRE(unknown.remarks.size() == 1);
  CHECK(unknown.remarks[0].key == "model.flavor");
  CHECK(unknown.remarks[0].text.find("llama3_70b") != std::string::npos);
}

TEST_CASE("torchtitan's fp8 is read of a flag as of a list") {
  const read_config flags = read_torchtitan_words(
      {"--model.name", "llama3", "--model.flavor", "8B", "--model.converters", "float8"}, {});
  CHECK(says(flags.config.precision, training_precision::fp8));
}

TEST_CASE("torchtitan's flags say the same, also in tokens and with a pipeline") {
  const read_config tokens =
      read_torchtitan_words({"--module",
                             "llama3",
                             "--config=llama3_8b",
                             "--training.seq-len",
                             "4096",
                             "--training.num_tokens_per_microbatch_per_dp_rank",
                             "8192",
                             "--training.num_tokens_per_train_step",
                             "262144",
                             "--parallelism.data-parallel-shard-degree",
                             "8",
                             "--parallelism.no-enable-sequence-parallel"});
  CHECK(tokens.config.model == "meta-llama/Llama-3.1-8B");
  CHECK(*tokens.config.micro_batch == 2);
  CHECK(*tokens.config.accumulation == 4);
  CHECK_FALSE(*tokens.config.sequence_parallel);
  CHECK(tokens.not_understood.empty());
  const read_config pipeline = read_torchtitan_words({"--training.local_batch_size=8",
                                                      "--parallelism.pipeline_parallel_degree=4",
                                                      "--parallelism.data_parallel_shard_degree=2",
                                                      "--odd.key=1"});
  CHECK(*pipeline.config.micro_batch == 1);
  CHECK(*pipeline.config.accumulation == 8);
  CHECK(*pipeline.config.zero_stage == 2);
  CHECK(pipeline.not_understood == std::vector<std::string>{"odd"});
  const read_config of_all_gpus =
      read_torchtitan_words({"--training.local_batch_size=8",
                             "--parallelism.pipeline_parallel_degree=4",
                             "--parallelism.pipeline_parallel_microbatch_size=2"});
  CHECK_FALSE(of_all_gpus.config.data_parallel);
  CHECK(*of_all_gpus.config.micro_batch == 2);
  CHECK(*of_all_gpus.config.accumulation == 4);
  REQUIRE(pipeline.config.split);
  CHECK(*pipeline.config.split ==
        pipeline_split{.embedding_layers = 1, .head_layers = 1, .first_have_more = true});
  const read_config shorter =
      read_torchtitan_words({"--parallelism.pipeline_parallel_degree=4",
                             "--parallelism.pipeline_parallel_first_stage_less_layers=0",
                             "--parallelism.pipeline_parallel_last_stage_less_layers=2"});
  REQUIRE(shorter.config.split);
  CHECK(*shorter.config.split == pipeline_split{.head_layers = 2, .first_have_more = true});
  CHECK(shorter.not_understood.empty());
  CHECK_FALSE(tokens.config.split);
}

TEST_CASE("what torchtitan's settings contradict themselves in is said") {
  const auto only_remark = [](std::vector<std::string> words) {
    const read_config read = read_torchtitan_words(words);
    REQUIRE(read.remarks.size() == 1);
    return read.remarks[0].is;
  };
  CHECK(only_remark({"--training.batch_size=2"}) == remark::kind::outdated);
  CHECK(only_remark({"--training.local_batch_size=3",
                     "--training.global_batch_size=8",
                     "--parallelism.data_parallel_shard_degree=2"}) == remark::kind::contradicts);
  const auto pipelined = [&](const char* global) {
    return std::vector<std::string>{"--training.local_batch_size=4",
                                    std::string("--training.global_batch_size=") + global,
                                    "--parallelism.data_parallel_shard_degree=2",
                                    "--parallelism.pipeline_parallel_degree=2"};
  };
  CHECK(only_remark(pipelined("16")) == remark::kind::doubtful);
  std::vector<std::string> once = pipelined("8");
  CHECK(read_torchtitan_words(once).remarks.empty());
  CHECK(only_remark({"--training.seq_len=5", "--training.num_tokens_per_train_step=7"}) ==
        remark::kind::contradicts);
  CHECK(only_remark({"--parallelism.fsdp_reshard_after_forward=x"}) == remark::kind::contradicts);
  CHECK(only_remark({"--parallelism.pipeline_parallel_schedule=LoopedBFS"}) ==
        remark::kind::doubtful);
  CHECK(only_remark({"--compile.enable", "--compile.components", "model", "optimizer"}) ==
        remark::kind::contradicts);
  CHECK(read_torchtitan_words({"--quantize.linear.float8.emulate"}).remarks.empty());
  CHECK(only_remark({"--training.mixed_precision_param=float16"}) == remark::kind::contradicts);
  CHECK(says(read_torchtitan_words({"--training.mixed_precision_param=float16"}).config.precision,
             training_precision::bf16));
  // 2^25 samples for each of 2^40 replicas are 2^65.
  CHECK(only_remark({"--training.local_batch_size=33554432",
                     "--parallelism.data_parallel_shard_degree=1048576",
                     "--parallelism.data_parallel_replicate_degree=1048576"}) ==
        remark::kind::contradicts);
}

// The module's assignments as flags.
std::vector<std::string> flags_of_module(const std::string& text, training_config& to) {
  std::vector<std::string> words;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find(" = ");
    if (line.compare(0, 6, "    c.") != 0 || equals == std::string::npos) continue;
    const std::string name = line.substr(6, equals - 6);
    std::string is = line.substr(equals + 3);
    if (name == "activation_checkpoint") {
      to.recompute = is == "None" ? recompute_mode::none : recompute_mode::full;
      if (is == "SelectiveAC.Config()") to.saves_costly_results = true;
      continue;
    }
    if (name == "optimizer") {
      const std::size_t decay = is.find(", weight_decay=");
      words.push_back("--optimizer.lr=" + is.substr(17, is.find_first_of(",)") - 17));
      if (decay != std::string::npos)
        words.push_back("--optimizer.weight_decay=" +
                        is.substr(decay + 15, is.size() - decay - 16));
      continue;
    }
    if (is.front() == '[') {
      words.push_back("--" + name);
      for (std::size_t at = 0; (at = is.find('"', at)) != std::string::npos;) {
        const std::size_t end = is.find('"', at + 1);
        words.push_back(is.substr(at + 1, end - at - 1));
        at = end + 1;
      }
      continue;
    }
    if (is.front() == '"') is = is.substr(1, is.size() - 2);
    words.push_back("--" + name + "=" + is);
  }
  return words;
}

TEST_CASE("torchtitan's modules say what was written into them") {
  random_numbers random(23);
  int written_ones = 0;
  for (int round = 0; round < 6'000; ++round) {
    training_config config = random_config::any(random);
    config.model = random.below(2) == 0 ? "Qwen/Qwen3-14B" : "meta-llama/Llama-3.1-8B";
    if (config.zero_stage && *config.zero_stage < 2) config.zero_stage = 3;
    if (config.engine != "fsdp2") config.engine.clear();
    if (config.recompute && *config.recompute == recompute_mode::selective)
      config.saves_costly_results = true, config.recompute = recompute_mode::full;
    for (auto* const compiles : {&config.compiles_layers, &config.compiles_loss})
      if (random.below(2) == 0) *compiles = random.below(2) == 0;
    const written_config written = write_torchtitan(config);
    if (!written) continue;
    ++written_ones;
    read_config from;
    const auto words = flags_of_module(written.files[0].text, from.config);
    const read_config back = read_torchtitan_words(words, from);
    CHECK(back.not_understood.empty());
    training_config again = back.config;
    // In the command, in the imports, or torchtitan's alone.
    std::vector<std::string> elsewhere = {"model",
                                          "gpus",
                                          "nodes",
                                          "gpus_per_node",
                                          "trains",
                                          "virtual_pipeline",
                                          "optimizer",
                                          "engine"};
    for (const std::string& name : written.not_written) elsewhere.push_back(name);
    // Absent ones are what torchtitan takes then.
    io::for_each_member(config, [&](const char* name, const auto& member) {
      if (!io::is_said(member)) elsewhere.emplace_back(name);
    });
    const bool is_whole = config.micro_batch && config.accumulation && config.data_parallel;
    if (!is_whole) elsewhere.insert(elsewhere.end(), {"accumulation", "global_batch"});
    // both or none; reading takes them together
    if (!config.weights_on_host || !config.optimizer_on_host)
      elsewhere.insert(elsewhere.end(), {"weights_on_host", "optimizer_on_host"});
    // alone, a rank shares with nobody
    if (config.data_parallel && *config.data_parallel == 1) elsewhere.emplace_back("zero_stage");
    for (training_config* one : {&config, &again}) random_config::forget(*one, elsewhere);
    const auto differ = random_config::differences(config, again);
    CHECK_MESSAGE(differ.empty(), (differ.empty() ? "" : differ[0]), "\n", written.files[0].text);
    if (!differ.empty()) break;
  }
  CHECK(written_ones > 200);
}

TEST_CASE("torchtitan's schedules of pipelines are read, and written as they were") {
  struct named {
    const char* name;
    pipeline_schedule is;
    std::int64_t chunks;
  };
  for (const auto& [name, is, chunks] :
       {named{"1F1B", pipeline_schedule::one_f_one_b, 1},
        {"GPipe", pipeline_schedule::gpipe, 1},
        {"Interleaved1F1B", pipeline_schedule::one_f_one_b, 2},
        {"InterleavedZeroBubble", pipeline_schedule::zero_bubble, 2},
        {"ZBVZeroBubble", pipeline_schedule::zero_bubble_v, 2},
        {"DualPipeV", pipeline_schedule::dual_pipe_v, 2}}) {
    CAPTURE(name);
    const read_config read =
        read_torchtitan_words({"--parallelism.pipeline_parallel_degree=4",
                               "--parallelism.pipeline_parallel_schedule=" + std::string(name)});
    CHECK(read.remarks.empty());
    CHECK(says(read.config.schedule_of_pipeline, is));
    CHECK((read.config.virtual_pipeline ? *read.config.virtual_pipeline : 1) == chunks);
    training_config config = read.config;
    config.model = "meta-llama/Llama-3.1-8B";
    config.gpus = 8;
    const written_config written = write_torchtitan(config);
    REQUIRE(written);
    CHECK(written.files[0].text.find("pipeline_parallel_schedule = \"" + std::string(name) +
                                     "\"\n") != std::string::npos);
    config.virtual_pipeline = 3;
    CHECK_FALSE(write_torchtitan(config));
  }
  // A schedule counts in a pipeline alone.
  const read_config alone =
      read_torchtitan_words({"--parallelism.pipeline_parallel_degree=1",
                             "--parallelism.pipeline_parallel_schedule=Interleaved1F1B"});
  CHECK(alone.remarks.empty());
  CHECK(alone.not_understood.empty());
  CHECK_FALSE(alone.config.schedule_of_pipeline);
  CHECK_FALSE(alone.config.virtual_pipeline);
  const read_config looped =
      read_torchtitan_words({"--parallelism.pipeline_parallel_schedule=LoopedBFS"});
  REQUIRE(looped.remarks.size() == 1);
  CHECK(looped.remarks[0].text.find("ZBVZeroBubble, DualPipeV are known") != std::string::npos);
  training_config both;
  both.model = "meta-llama/Llama-3.1-8B";
  both.gpus = 8;
  both.schedule_of_pipeline = pipeline_schedule::dual_pipe;
  CHECK_FALSE(write_torchtitan(both));
}

TEST_CASE("torchtitan's writer refuses what it would train otherwise") {
  training_config right;
  right.model = "meta-llama/Llama-3.1-8B";
  right.gpus = 8;
  CHECK(write_torchtitan(right));
  // Equal stages: by default it would count the ends as a layer each.
  right.pipeline_parallel = 4;
  right.split = {};
  const written_config equal = write_torchtitan(right);
  REQUIRE(equal);
  for (const char* end : {"first", "last"})
    CHECK(equal.files[0].text.find("pipeline_parallel_" + std::string(end) +
                                   "_stage_less_layers = 0") != std::string::npos);
  const auto refuses = [&right](auto change) {
    training_config config = right;
    change(config);
    return !write_torchtitan(config);
  };
  using c = training_config;
  CHECK(refuses([](c& is) { is.model = "a/b"; }));
  CHECK(refuses([](c& is) { is.engine = "deepspeed"; }));
  CHECK(refuses([](c& is) { is.zero_stage = 1; }));
  CHECK(refuses([](c& is) { is.precision = training_precision::fp16; }));
  CHECK(refuses([](c& is) { is.trains = training::adapters; }));
  CHECK(refuses([](c& is) { is.recompute = recompute_mode::selective; }));
  CHECK(refuses([](c& is) { is.weights_on_host = true; }));
  CHECK(refuses([](c& is) { is.micro_batch = std::int64_t{1} << 50; }));
}

TEST_CASE("faulty settings of torchtitan's are read without a fault") {
  random_numbers random(29);
  const value sample = parse_toml(titan_sample).is;
  int remarks = 0;
  for (int round = 0; round < 10'000; ++round)
    remarks += read_torchtitan(random_config::with_faults(sample, random)).remarks.empty() ? 0 : 1;
  CHECK(remarks > 1000);
}

}  // namespace
