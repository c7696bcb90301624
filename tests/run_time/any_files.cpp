// Trainers' files of whichever tool: as people write them, with what several tools share.

#include <doctest/doctest.h>

#include <gpuplan/catalog/models.hpp>
#include <gpuplan/io/trainer/any_file.hpp>
#include <gpuplan/io/trainer/configured_training.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace gpuplan;
using namespace gpuplan::io;

const remark* remark_of(const read_config& read, std::string_view key) {
  for (const remark& one : read.remarks)
    if (one.key == key) return &one;
  return nullptr;
}
configured_training configured_as_llama(const read_config& read) {
  return configured(merged({read}), {.shape = catalog::llama_3_8b, .called = "llama"});
}

TEST_CASE("torchtitan computes in bf16 where its file says nothing else") {
  const char* const toml =
      "[training]\nlocal_batch_size = 1\nseq_len = 8192\n[parallelism]\n"
      "data_parallel_shard_degree = 8\n";
  CHECK(says(read_training_file("a.toml", toml).config.precision, training_precision::bf16));
  const std::string fp32 =
      "[training]\nlocal_batch_size = 1\nmixed_precision_param = \"float32\"\n";
  CHECK(says(read_training_file("a.toml", fp32).config.precision, training_precision::fp32));
}

TEST_CASE("what FSDP offloads is weights, gradients and states") {
  for (const auto& [name, text] :
       {std::pair{"a.yaml",
                  "distributed_type: FSDP\nnum_processes: 8\nmixed_precision: bf16\nfsdp_config:\n"
                  "  fsdp_version: 2\n  fsdp_offload_params: true\n"
                  "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"},
        std::pair{
            "b.yaml",
            "per_device_train_batch_size: 1\nbf16: true\nfsdp: full_shard auto_wrap offload\n"},
        std::pair{"c.yaml",
                  "base_model: a/b\nmicro_batch_size: 1\nfsdp_version: 2\nfsdp_config:\n"
                  "  offload_params: true\n"}}) {
    CAPTURE(name);
    read_config read = read_training_file(name, text);
    REQUIRE(read);
    CHECK(says(read.config.weights_on_host, true));
    CHECK(says(read.config.optimizer_on_host, true));
    read.config.gpus = 8;
    const configured_training made = configured_as_llama(read);
    CHECK_MESSAGE(made, made.why);
  }
}

TEST_CASE("QLoRA has its weights on the host under either FSDP, as axolotl's examples do") {
  for (const std::string version : {"1", "2"}) {
    CAPTURE(version);
    const read_config read = read_training_file(
        "a.yaml",
        "base_model: a/b\nload_in_4bit: true\nadapter: qlora\nsequence_len: 512\n"
        "lora_r: 8\nlora_alpha: 16\nlora_dropout: 0.05\nlora_target_linear: true\n"
        "gradient_accumulation_steps: 4\nmicro_batch_size: 1\noptimizer: adamw_torch\n"
        "bf16: auto\ngradient_checkpointing: true\ngradient_checkpointing_kwargs:\n"
        "  use_reentrant: false\nflash_attention: true\nfsdp:\n  - full_shard\n  - auto_wrap\n"
        "fsdp_config:\n  fsdp_version: " +
            version +
            "\n  fsdp_limit_all_gathers: true\n  fsdp_offload_params: true\n"
            "  fsdp_use_orig_params: false\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
            "  fsdp_transformer_layer_cls_to_wrap: LlamaDecoderLayer\n"
            "  fsdp_sharding_strategy: FULL_SHARD\n");
    REQUIRE(read);
    read_config on_two = read;
    on_two.config.gpus = 2;
    const configured_training made =
        configured(merged({on_two}), {.shape = catalog::llama_3_70b, .called = "llama"});
    REQUIRE_MESSAGE(made, made.why);
    CHECK(made.setup.framework.engine.is->name->text == "fsdp" + version);
    CHECK(made.setup.parallelism.weights_on_host);
    CHECK(made.setup.parallelism.optimizer_on_host);
    CHECK(made.setup.trains.adapters.base.block != 0);
  }
}

TEST_CASE("FSDP 1 stays FSDP 1 where its weights are on the host") {
  read_config read = read_training_file(
      "a.yaml",
      "distributed_type: FSDP\nnum_processes: 8\nmixed_precision: bf16\nfsdp_config:\n"
      "  fsdp_version: 1\n  fsdp_offload_params: true\n"
      "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n");
  REQUIRE(read);
  read.config.gpus = 8;
  const configured_training made = configured_as_llama(read);
  REQUIRE_MESSAGE(made, made.why);
  CHECK(made.setup.framework.engine.is == &engine_classes::fsdp1);
  CHECK(made.setup.parallelism.weights_on_host);
}

TEST_CASE("what is refused is named as the file names it") {
  read_config deepspeed = read_training_file(
      "a.json",
      R"({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true}, "zero_optimization":
          {"stage": 3, "offload_param": {"device": "cpu"}, "offload_optimizer": {"device": "cpu"}}})");
  CHECK(configured_as_llama(deepspeed).why.starts_with("offload_param: "));
  const read_config accelerate = read_training_file(
      "a.yaml",
      "distributed_type: DEEPSPEED\nnum_processes: 8\nmixed_precision: bf16\ndeepspeed_config:\n"
      "  zero_stage: 3\n  offload_param_device: cpu\n  offload_optimizer_device: cpu\n");
  CHECK(configured_as_llama(accelerate).why.starts_with("offload_param_device: "));
  const read_config left = read_training_file(
      "a.json",
      R"({"train_batch_size": "auto", "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 2}})");
  CHECK(configured_as_llama(left).why ==
        "no file states a mixed precision, as bf16 or fp16, or it is left to the trainer's "
        "arguments; give them too: of fp32 with deepspeed there is no estimate");
}

TEST_CASE("what is left to another, or is a class, contradicts nothing") {
  const read_config left = read_training_file(
      "a.yaml",
      "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n"
      "  gradient_accumulation_steps: auto\n  gradient_clipping: auto\n  zero_stage: 2\n");
  REQUIRE(left);
  CHECK(left.remarks.empty());
  CHECK_FALSE(left.config.accumulation);
  const std::string axolotl = "base_model: a/b\nmicro_batch_size: 1\ngradient_checkpointing: ";
  for (const char* const word : {"unsloth", "offload", "true"}) {
    CAPTURE(word);
    const read_config read = read_training_file("a.yaml", axolotl + word + "\n");
    CHECK(says(read.config.recompute, recompute_mode::full));
    for (const remark& one : read.remarks) CHECK(one.is == remark::kind::doubtful);
  }
  const read_config hydra = read_training_file(
      "a.yaml",
      "model:\n  tensor_model_parallel_size: 2\n  attention_backend:\n"
      "    _target_: megatron.core.transformer.enums.AttnBackend\n    _args_: [5]\n"
      "train:\n  micro_batch_size: 1\n");
  REQUIRE(hydra);
  CHECK(hydra.remarks.empty());
  CHECK(hydra.not_understood == std::vector<std::string>{"model.attention_backend"});
}

TEST_CASE("SkyPilot's ways to ask for GPUs are read, and of several kinds the first") {
  const auto of = [](const std::string& resources) {
    return read_training_file(
        "a.yaml", "resources:\n" + resources + "num_nodes: 2\nrun: torchrun train.py\n");
  };
  for (const char* const one : {"  accelerators: H100:8\n",
                                "  accelerators: {H100: 8}\n",
                                "  accelerators: [H100:8]\n",
                                "  any_of:\n    - accelerators: H100:8\n"}) {
    CAPTURE(one);
    const read_config read = of(one);
    REQUIRE_MESSAGE(read, read.why);
    CHECK(read.remarks.empty());
    CHECK(says(read.config.gpus_per_node, std::int64_t{8}));
    CHECK(says(read.config.nodes, std::int64_t{2}));
    CHECK(read.gpu == "H100");
  }
  for (const char* const several : {"  accelerators: {H100: 8, A100-80GB: 4}\n",
                                    "  accelerators: [H100:8, A100-80GB:4]\n",
                                    "  any_of:\n    - accelerators: {H100: 8}\n"
                                    "    - accelerators: A100-80GB:4\n",
                                    "  ordered:\n    - accelerators: H100:8\n"
                                    "    - accelerators: A100-80GB:4\n"}) {
    CAPTURE(several);
    const read_config read = of(several);
    CHECK(says(read.config.gpus_per_node, std::int64_t{8}));
    REQUIRE(read.remarks.size() == 1);
    CHECK(read.remarks[0].text == "allows several; the first, H100:8, is taken, not A100-80GB:4");
  }
  CHECK(of("  accelerators: H100:x\n").remarks.size() == 1);
  CHECK(of("  any_of: 3\n").remarks.size() == 1);
}

TEST_CASE("all documents of a file are looked at, and what is not read is named") {
  const std::string sets = "apiVersion: v1\nkind: ConfigMap\ndata: {a: b}\n";
  const std::string job =
      "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nspec:\n  trainer:\n"
      "    numNodes: 4\n    numProcPerNode: 8\n";
  const read_config read = read_training_file("a.yaml", sets + "---\n" + job + "---\n" + job);
  REQUIRE_MESSAGE(read, read.why);
  CHECK(says(read.config.nodes, std::int64_t{4}));
  CHECK(read.not_understood == std::vector<std::string>{"document 1, kind ConfigMap"});
  const remark* const second = remark_of(read, "document 3, kind TrainJob");
  REQUIRE(second != nullptr);
  CHECK(second->text == "is of Kubeflow too, and is not read: the first such document is");
  CHECK(read_training_file("a.yaml", "---\n" + job + "---\n").not_understood.empty());
  for (const char* const empty : {"", " \n\t\n", "---\n", "# nothing\n", "{}"}) {
    CAPTURE(empty);
    CHECK(read_training_file("a.yaml", empty).why == "it is empty");
  }
  CHECK(read_training_file("a.sh", "\n").why == "it is empty");
  for (const char* const odd : {", a", "] a", "a\n---\n, b\n", "%YAML 1.2\n---\na: 1\n"})
    CHECK_FALSE(read_training_file("a.yaml", odd));
  CHECK(read_training_file("a.yaml", "a: 1\n---\nb: 2\n--- \nc: [\n").why.starts_with("line "));
}

TEST_CASE("Kubeflow's GPUs are a number, or one in quotes") {
  const auto of = [](const std::string& amount) {
    return read_training_file(
        "a.yaml",
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nspec:\n  trainer:\n"
        "    numNodes: 4\n    resourcesPerNode:\n      limits:\n        nvidia.com/gpu: " +
            amount + "\n");
  };
  for (const char* const eight : {"8", "\"8\"", "'8'"}) {
    CAPTURE(eight);
    CHECK(says(of(eight).config.gpus_per_node, std::int64_t{8}));
    CHECK(of(eight).remarks.empty());
  }
  CHECK_FALSE(of("\"0\"").config.gpus_per_node);
  CHECK(of("0").remarks.empty());
  for (const char* const odd : {"8k", "-1", "0.5", "[8]"}) {
    CAPTURE(odd);
    CHECK_FALSE(of(odd).config.gpus_per_node);
    REQUIRE(of(odd).remarks.size() == 1);
    CHECK(of(odd).remarks[0].text.starts_with("nvidia.com/gpu is "));
  }
}

TEST_CASE("files that a file names are asked for") {
  struct naming {
    const char* name;
    const char* text;
    const char* key;
    const char* file;
  };
  for (const naming& one :
       {naming{"a.sh", "llamafactory-cli train a/b.yaml", "llamafactory-cli train", "a/b.yaml"},
        naming{"a.sh", "axolotl train b.yml", "axolotl train", "b.yml"},
        naming{
            "a.sh", "accelerate launch -m axolotl.cli.train b.yml", "axolotl.cli.train", "b.yml"},
        naming{"a.sh", "trl sft --config b.yaml", "--config", "b.yaml"},
        naming{"a.sh",
               "accelerate launch --config_file=b.yaml t.py --num_train_epochs 3",
               "--config_file",
               "b.yaml"},
        naming{"a.sh",
               "deepspeed --num_gpus 8 t.py --num_train_epochs 3 --deepspeed ds.json",
               "deepspeed",
               "ds.json"},
        naming{"a.yaml",
               "distributed_type: DEEPSPEED\ndeepspeed_config: {deepspeed_config_file: ds.json}\n",
               "deepspeed_config.deepspeed_config_file",
               "ds.json"},
        naming{"a.yaml",
               "base_model: a/b\ndatasets: []\ndeepspeed: ds.json\n",
               "deepspeed",
               "ds.json"}}) {
    CAPTURE(one.text);
    const read_config read = read_training_file(one.name, one.text);
    REQUIRE_MESSAGE(read, read.why);
    const remark* const found = remark_of(read, one.key);
    REQUIRE(found != nullptr);
    CHECK(found->is == remark::kind::missing);
    CHECK(found->file == one.file);
    CHECK(found->text ==
          "is \"" + std::string(one.file) + "\", another file: give it too, beside this one");
  }
}

TEST_CASE("accelerate launch's options say what its file says") {
  const read_config read = read_training_file(
      "a.sh",
      "accelerate launch --multi_gpu --use_fsdp --fsdp_version=2 --fsdp_offload_params true "
      "--fsdp_auto_wrap_policy TRANSFORMER_BASED_WRAP --mixed_precision bf16 --num_processes 8 "
      "--main_process_port 29501 t.py --per_device_train_batch_size 2\n");
  REQUIRE(read);
  CHECK(read.remarks.empty());
  CHECK(read.not_understood.empty());
  CHECK(says(read.config.gpus, std::int64_t{8}));
  CHECK(says(read.config.micro_batch, std::int64_t{2}));
  CHECK(read.config.engine == "fsdp2");
  CHECK(says(read.config.zero_stage, 3));
  CHECK(says(read.config.weights_on_host, true));
  CHECK(says(read.config.precision, training_precision::bf16));
  const read_config states = read_training_file(
      "a.sh",
      "accelerate launch --use_deepspeed --zero_stage=2 --offload_optimizer_device cpu "
      "--num_machines 2 --num_processes 16 t.py --per_device_train_batch_size 2 --bf16\n");
  CHECK(states.config.engine == "deepspeed");
  CHECK(says(states.config.zero_stage, 2));
  CHECK(says(states.config.optimizer_on_host, true));
  CHECK(says(states.config.nodes, std::int64_t{2}));
  const read_config module = read_training_file(
      "a.sh",
      "accelerate launch --use_fsdp --fsdp_sharding_strategy FULL_SHARD -m trl.scripts.sft "
      "--model_name_or_path gpt2 --per_device_train_batch_size 4\n");
  for (const remark& one : module.remarks) CHECK(one.text.find("a list") == std::string::npos);
  CHECK(says(module.config.zero_stage, 3));
}

TEST_CASE("flags of argparse are read in all their forms") {
  const read_config read = read_training_file(
      "a.sh",
      "trl sft --model_name_or_path=a/b --use_peft --lora_target_modules q_proj v_proj "
      "--bf16=False "
      "--no_gradient_checkpointing --no_remove_unused_columns --per_device_train_batch_size=$B\n");
  REQUIRE(read);
  CHECK(read.tool == "trl");
  CHECK(read.config.model == "a/b");
  REQUIRE(read.config.adapters);
  CHECK(read.config.adapters->targets == lora_targets{.query = true, .value = true});
  CHECK(says(read.config.recompute, recompute_mode::none));
  CHECK(says(read.config.precision, training_precision::fp32));
  CHECK(read.not_understood.empty());
  const remark* const open = remark_of(read, "per_device_train_batch_size");
  REQUIRE(open != nullptr);
  CHECK(open->is == remark::kind::doubtful);
  CHECK(open->text == "is \"$B\", which the file does not say; a whole number is taken");
}

TEST_CASE("flags of scripts of one's own are read, or named") {
  const read_config lora = read_training_file(
      "a.sh",
      "deepspeed train_lora.py --model_name_or_path a/b --lora_r 8 --q_lora True "
      "--model_max_length 1024 --per_device_train_batch_size 2\n");
  CHECK(says(lora.config.sequence_length, std::int64_t{1024}));
  CHECK_FALSE(lora.config.adapters);
  const remark* const adapters = remark_of(lora, "use_peft");
  REQUIRE(adapters != nullptr);
  CHECK(adapters->is == remark::kind::missing);
  CHECK(lora.not_understood == std::vector<std::string>{"q_lora"});
  const read_config own = read_training_file(
      "a.sh", "accelerate launch --num_processes 4 nlp.py --mixed_precision fp16 --out x --fast\n");
  CHECK(says(own.config.gpus, std::int64_t{4}));
  CHECK(own.not_understood == std::vector<std::string>{"--mixed_precision", "--out", "--fast"});
}

TEST_CASE("what a trainer takes where no file says it is taken beside DeepSpeed's file too") {
  const char* const states =
      R"({"bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 3}, "gradient_clipping": 0.5,
          "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
          "gradient_accumulation_steps": "auto"})";
  const auto both = [&](const char* trainer) {
    return merged({read_training_file("a.yaml", trainer), read_training_file("z3.json", states)})
        .config;
  };
  const training_config trl =
      both("model_name_or_path: a/b\ndataset_name: c\ndeepspeed: z3.json\nmax_steps: 10\n");
  CHECK(says(trl.micro_batch, std::int64_t{8}));
  CHECK(says(trl.accumulation, std::int64_t{1}));
  CHECK(says(trl.sequence_length, std::int64_t{1024}));
  CHECK(says(trl.precision, training_precision::bf16));
  CHECK(says(trl.recompute, recompute_mode::full));
  CHECK(says(trl.clip_norm, 0.5));  // of DeepSpeed's file
  CHECK(says(trl.zero_stage, 3));
  CHECK_FALSE(trl.epochs);
  REQUIRE(trl.optimizer);
  CHECK(trl.optimizer->loop == optimizer_loop::fused);
  const training_config factory =
      both("model_name_or_path: a/b\nstage: sft\ndo_train: true\ndeepspeed: z3.json\n");
  CHECK(says(factory.micro_batch, std::int64_t{8}));
  CHECK(says(factory.learning_rate, 5e-5));
}

TEST_CASE("of two optimizers DeepSpeed's counts, and on the host it has its own") {
  const auto both = [&](const char* optimizer, const char* states) {
    const std::string trainer =
        "model_name_or_path: a/b\noutput_dir: c\ndeepspeed: z.json\noptim: ";
    return merged({read_training_file("a.yaml", trainer + optimizer + "\n"),
                   read_training_file("z.json", states)});
  };
  const char* const shared = R"({"zero_optimization": {"stage": 2}})";
  const char* const named =
      R"({"zero_optimization": {"stage": 2}, "optimizer": {"type": "Lion", "params": {}}})";
  const char* const on_host =
      R"({"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}})";
  const read_config trainers = both("paged_adamw_8bit", shared);
  REQUIRE(trainers.config.optimizer);
  CHECK(trainers.config.optimizer->library == optimizer_library::bitsandbytes);
  CHECK(trainers.config.optimizer->pages_states);
  CHECK(remark_of(trainers, "optimizer") == nullptr);
  const read_config deepspeeds = both("paged_adamw_8bit", named);
  CHECK(says(deepspeeds.config.optimizer,
             optimizer{.kind = optimizer_kind::lion, .loop = optimizer_loop::fused}));
  CHECK(remark_of(deepspeeds, "optimizer") != nullptr);
  const read_config hosted = both("lion_8bit", on_host);
  CHECK(says(hosted.config.optimizer, optimizer{.loop = optimizer_loop::fused}));
  CHECK(remark_of(hosted, "optimizer") != nullptr);
  CHECK(
      says(both("lion_32bit", on_host).config.optimizer, optimizer{.kind = optimizer_kind::lion}));
  CHECK(says(both("adamw_torch", on_host).config.optimizer, optimizer{}));
}

TEST_CASE("a file of DeepSpeed that is not there is its name's stage, or no verdict") {
  const auto stage = [](const std::string& name) {
    const read_config read = merged({read_training_file(
        "a.yaml", "base_model: a/b\nmicro_batch_size: 1\ndeepspeed: " + name + "\n")});
    return read.config.zero_stage ? *read.config.zero_stage : -1;
  };
  CHECK(stage("examples/deepspeed/ds_z3_config.json") == 3);
  CHECK(stage("deepspeed_configs/zero2.json") == 2);
  CHECK(stage("zero1_torch_compile.json") == 1);
  CHECK(stage("ds_config_stage_3.json") == 3);
  CHECK(stage("ds_Zero-0.json") == 0);
  CHECK(stage("ds_config.json") == -1);
  CHECK(stage("zero30.json") == -1);
  CHECK(stage("zero3/ds_config.json") == -1);
  const read_config offloads = merged({read_training_file(
      "a.yaml", "base_model: a/b\nmicro_batch_size: 1\ndeepspeed: ds_z2_offload.json\n")});
  CHECK(says(offloads.config.optimizer_on_host, true));
  CHECK(says(offloads.config.weights_on_host, false));
  REQUIRE(remark_of(offloads, "deepspeed") != nullptr);
  CHECK(remark_of(offloads, "deepspeed")->text.find("ZeRO-2 is taken") != std::string::npos);
  const configured_training unknown = configured_as_llama(read_training_file(
      "a.yaml", "base_model: a/b\nmicro_batch_size: 1\ndeepspeed: ds_config.json\n"));
  CHECK(unknown.why.find("deepspeed is \"ds_config.json\"") == 0);
}

TEST_CASE(
    "checkpoints re-enter beside ZeRO-3 as TRL and axolotl have them, and TRL casts adapters") {
  const std::string text =
      "model_name_or_path: a/b\ndataset_name: c\nuse_peft: true\nlora_r: 8\nload_in_4bit: true\n"
      "deepspeed: ";
  const auto merged_of = [&](const char* file) {
    return merged({read_training_file("a.yaml", text + file + "\n")}).config;
  };
  const training_config third = merged_of("zero3.json");
  REQUIRE(third.adapters);
  CHECK(third.adapters->weights == number_format::bf16);
  CHECK(says(third.checkpoints_reenter, true));
  CHECK_FALSE(merged_of("zero2.json").checkpoints_reenter);
  const auto of_axolotl = [](const std::string& more) {
    return merged({read_training_file("a.yml",
                                      "base_model: a/b\nmicro_batch_size: 1\n"
                                      "gradient_checkpointing: true\ndeepspeed: zero3.json\n" +
                                          more)})
        .config.checkpoints_reenter;
  };
  CHECK(says(of_axolotl(""), true));
  CHECK(says(of_axolotl("gradient_checkpointing_kwargs: {use_reentrant: false}\n"), false));
  CHECK(says(of_axolotl("rl: dpo\n"), false));
}

TEST_CASE("a batch of DeepSpeed's is shared out as it shares it") {
  const auto plan_of = [](const std::string& batch) {
    read_config read = read_training_file(
        "ds.json",
        "{" + batch + R"(, "bf16": {"enabled": true}, "zero_optimization": {"stage": 2}})");
    read.config.gpus = 8;
    return configured_as_llama(read).plan;
  };
  CHECK(plan_of(R"("train_batch_size": 32)") == batch_plan{4, 8, 1});
  CHECK(plan_of(R"("train_batch_size": 32, "gradient_accumulation_steps": 2)") ==
        batch_plan{2, 8, 2});
  CHECK(plan_of(R"("train_batch_size": 32, "train_micro_batch_size_per_gpu": 1)") ==
        batch_plan{1, 8, 4});
}

TEST_CASE("a list of FSDP's words is the words") {
  const training_config is =
      read_training_file("a.yaml",
                         "per_device_train_batch_size: 1\nfsdp:\n  - shard_grad_op\n"
                         "  - auto_wrap\n  - offload\n")
          .config;
  CHECK(is.engine == "fsdp2");
  CHECK(says(is.zero_stage, 2));
  CHECK(says(is.weights_on_host, true));
}

TEST_CASE("frozen weights have the format of the products in fp16 too") {
  const auto weights = [](const std::string& text) {
    return read_training_file("a.yaml", text).config.weights;
  };
  const std::string factory = "model_name_or_path: a/b\nstage: sft\ndo_train: true\nfp16: true\n";
  CHECK(says(weights(factory + "finetuning_type: lora\n"), number_format::fp16));
  CHECK(says(weights(factory + "finetuning_type: full\n"), number_format::fp32));
  CHECK(says(weights("base_model: a/b\nmicro_batch_size: 1\nadapter: lora\nlora_r: 8\n"
                     "bf16: false\nfp16: true\n"),
             number_format::fp16));
}

TEST_CASE("a program of TRL's or transformers' is known by its name, with few words") {
  const auto read = [](const std::string& command) {
    return read_training_file("a.sh", "#!/bin/sh\n" + command + "\n");
  };
  const std::string words = " --model_name_or_path Qwen/Qwen2.5-0.5B --dataset_name a/b";
  const read_config quick = read("trl sft" + words + " --output_dir x");
  CHECK(quick.config.model == "Qwen/Qwen2.5-0.5B");
  CHECK(says(quick.config.micro_batch, std::int64_t{8}));
  CHECK(says(quick.config.sequence_length, std::int64_t{1024}));
  CHECK(quick.not_understood.empty());
  CHECK(says(read("python examples/sft.py" + words).config.recompute, recompute_mode::full));
  CHECK_FALSE(read("python run_clm.py" + words + " --do_train").config.recompute);
  const read_config processes = read("trl sft" + words + " --num_processes 4");
  CHECK(says(processes.config.gpus, std::int64_t{4}));
  const read_config named = read("trl dpo" + words + " --accelerate_config zero2");
  CHECK(named.config.engine == "deepspeed");
  CHECK(says(named.config.zero_stage, 2));
  CHECK(says(named.config.gpus, std::int64_t{8}));
  CHECK(remark_of(named, "--accelerate_config") == nullptr);
  CHECK(remark_of(read("trl sft" + words + " --accelerate_config a.yaml"), "--accelerate_config") !=
        nullptr);
  CHECK(remark_of(read("llamafactory-cli train a.yaml lora_rank=64"), "lora_rank=64") != nullptr);
  CHECK(
      read_training_file("a.yaml", "model_name_or_path: a/b\ndataset_name: c\nload_in_8bit: true\n")
          .why.find("load_in_8bit is true") == 0);
}

TEST_CASE("what FSDP 1 does to gradients of weights on the host is said") {
  const auto says_it = [](int version, const char* each) {
    const configured_training made = configured_as_llama(read_training_file(
        "a.yaml",
        "per_device_train_batch_size: 1\ngradient_accumulation_steps: 4\nbf16: true\nfsdp: true\n"
        "num_train_epochs: 1\nfsdp_config: {version: " +
            std::to_string(version) +
            ", offload_params: true}\naccelerator_config: {gradient_accumulation_kwargs: "
            "{sync_each_batch: " +
            each + "}}\n"));
    return std::any_of(made.remarks.begin(), made.remarks.end(), [](const remark& one) {
      return one.key == "sync_each_batch" && one.is == remark::kind::contradicts;
    });
  };
  CHECK(says_it(1, "true"));
  CHECK_FALSE(says_it(1, "false"));
  CHECK_FALSE(says_it(2, "true"));
}

TEST_CASE("a file of DPOTrainer means pairs of answers, with their reference") {
  const auto of = [](const std::string& more) {
    const std::string text =
        "beta: 0.1\nmax_length: 512\nper_device_train_batch_size: 1\nbf16: true\n"
        "deepspeed: {bf16: {enabled: true}, zero_optimization: {stage: 2}}\n";
    return configured_as_llama(read_training_file("a.yaml", text + more));
  };
  const auto doubts = [](const configured_training& made) {
    return std::any_of(made.remarks.begin(), made.remarks.end(), [](const remark& one) {
      return one.text.find("--objective dpo") != std::string::npos;
    });
  };
  const configured_training whole = of("");
  REQUIRE(whole.why == "");
  CHECK(whole.setup.objective == training_objective::preference);
  CHECK(whole.setup.reference == reference_model::separate);
  CHECK_FALSE(doubts(whole));
  const configured_training adapted = of("use_peft: true\n");
  REQUIRE(adapted.why == "");
  CHECK(adapted.setup.reference == reference_model::without_adapters);
  CHECK(of("precompute_ref_log_probs: true\n").setup.reference == reference_model::precomputed);
  // What is not estimated so has the loss of one answer, and says it.
  const configured_training kernels = of("use_liger_kernel: true\n");
  REQUIRE(kernels.why == "");
  CHECK(kernels.setup.objective == training_objective::next_token);
  CHECK(doubts(kernels));
}

TEST_CASE("the precision of Accelerate's file counts where the trainer's arguments say none") {
  const read_config arguments =
      read_training_file("a.yaml", "per_device_train_batch_size: 1\nnum_train_epochs: 3\n");
  const read_config launched = read_training_file(
      "b.yaml",
      "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\nfsdp_config:\n"
      "  fsdp_version: 2\n  fsdp_activation_checkpointing: true\n  fsdp_auto_wrap_policy: "
      "TRANSFORMER_BASED_WRAP\n");
  const read_config both = merged({arguments, launched});
  CHECK(both.remarks.empty());
  CHECK(says(both.config.precision, training_precision::bf16));
  CHECK(says(both.config.recompute, recompute_mode::full));
}

}  // namespace

TEST_CASE("files say that Liger's kernels run") {
  const auto has_liger = [](const io::read_config& read) {
    return read.config.liger_kernels && *read.config.liger_kernels;
  };
  const auto said = [](const char* name, const std::string& text) {
    const io::read_config read = io::read_training_file(name, text);
    CAPTURE(text);
    REQUIRE(read.why == "");
    return read;
  };
  const std::string batch = "per_device_train_batch_size: 2\noutput_dir: out\n";
  CHECK(has_liger(said("arguments.yaml", batch + "use_liger_kernel: true\n")));
  CHECK_FALSE(has_liger(said("arguments.yaml", batch)));
  const std::string axolotl =
      "base_model: NousResearch/Llama-3.2-1B\nmicro_batch_size: 2\ndatasets: []\n"
      "liger_fused_linear_cross_entropy: true\nliger_rope: true\nliger_rms_norm: true\n";
  CHECK(has_liger(said("axolotl.yml", axolotl + "liger_glu_activation: true\n")));
  const io::read_config some = said("axolotl.yml", axolotl);
  CHECK_FALSE(has_liger(some));
  bool is_said = false;
  for (const io::remark& one : some.remarks)
    is_said = is_said || one.key == "liger_fused_linear_cross_entropy";
  CHECK(is_said);
}
