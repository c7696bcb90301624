#include <sys/stat.h>
#include <gpuplan/io/trainer/hugging_face_words.hpp>
#include <gpuplan/optimizer.hpp>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.hpp"
#include "gpuplan_runs.hpp"
#include "setups/gpus.hpp"
#include "setups/machine.hpp"
#include "setups/options.hpp"
#include "temporary_file.hpp"

namespace {

namespace files = std::filesystem;

// A folder that goes with this.
class temporary_folder {
 public:
  temporary_folder() {
    std::string name = (files::temp_directory_path() / "gpuplanXXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;
  ~temporary_folder() {
    std::error_code none;
    files::remove_all(path_, none);
  }
  [[nodiscard]] const files::path& path() const { return path_; }
  void write(const std::string& name, const std::string& text) const {
    files::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
  }

 private:
  files::path path_;
};

// A program nvidia-smi, first on the PATH as long as this is there.
class made_nvidia_smi {
 public:
  explicit made_nvidia_smi(const std::string& script) {
    folder_.write("nvidia-smi", "#!/bin/sh\n" + script);
    chmod((folder_.path() / "nvidia-smi").c_str(), 0755);
    setenv("PATH", (folder_.path().string() + ":" + before_).c_str(), 1);
  }
  made_nvidia_smi(const made_nvidia_smi&) = delete;
  made_nvidia_smi& operator=(const made_nvidia_smi&) = delete;
  ~made_nvidia_smi() { setenv("PATH", before_.c_str(), 1); }

 private:
  temporary_folder folder_{};
  std::string before_ = std::getenv("PATH");
};

const char* const config =
    R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 1000,
        "n_positions": 128})";

void fails(const std::string& command,
           const std::vector<std::string>& arguments,
           const std::string& words) {
  CAPTURE(words);
  const outcome o = output_of_command(command, arguments);
  CHECK(o.status == 2);
  CHECK(o.out.empty());
  CAPTURE(o.err);
  CHECK(has(o.err, words));
}

}  // namespace

TEST_CASE("a model is a name, a part of one, a file, a folder, or options") {
  const auto shape = [](const std::string& text) { return setups::model_named({.text = text}); };
  CHECK(shape("gpt2 xl").name == "gpt2-xl");
  CHECK(shape("mixtral-8x7b").known_as == "mixtral-8x7b-v0.1");
  CHECK(shape("openvla/openvla-7b").parts != nullptr);
  const temporary_folder folder;
  folder.write("config.json", config);
  CHECK(shape(folder.path().string()).shape.hidden_size == 64);
  CHECK(shape((folder.path() / "config.json").string()).known_as == "gpt2");
  const temporary_folder empty;
  fails("model", {empty.path().string()}, "the folder has no config.json");
  fails("model", {"mistral-7b"}, "  mistral-7b-v0.3  7.25 B parameters");
  fails("model", {"lama-2-7b"}, "the nearest is llama-2-7b, and gpuplan models lists all");
  fails("model",
        {"xgen-7b"},
        "nor a model of the catalogue; gpuplan models lists all; a config.json of a known type is "
        "taken, by its path");
  CHECK_THROWS_WITH(static_cast<void>(setups::model_named({.text = "xgen-7b", .is_of_file = true})),
                    doctest::Contains("a config.json of a known type is taken, as one more file"));
  CHECK(shape("HuggingFaceH4/zephyr-7b-beta").assumed.empty());
  const setups::named_model tuned = shape("NousResearch/Hermes-3-Llama-3.1-8B");
  CHECK(tuned.known_as == "llama-3.1-8b");
  CHECK(tuned.assumed ==
        "NousResearch/Hermes-3-Llama-3.1-8B has the shape of llama-3.1-8b by its name; its "
        "config.json would say it");
  setups::model_words changed{.text = "gpt2"};
  changed.edits.emplace_back([](gpuplan::transformer& model) { model.num_hidden_layers = 3; });
  changed.changed.emplace_back("--num-hidden-layers 3");
  CHECK(setups::model_named(changed).name == "gpt2, changed");
  CHECK(setups::model_named(changed).shape.num_hidden_layers == 3);
}

TEST_CASE("options of a shape work in all commands") {
  const std::vector<std::string> shape{"--layers",
                                       "2",
                                       "--hidden-size",
                                       "64",
                                       "--num-attention-heads",
                                       "4",
                                       "--intermediate-size",
                                       "128",
                                       "--vocab-size",
                                       "1k"};
  for (const char* command : {"fits", "memory", "model"}) {
    CAPTURE(command);
    const outcome o = output_of_command(command, shape);
    CAPTURE(o.err);
    CHECK(o.status == 0);
    CHECK(has(o.out, "a model of these options"));
  }
  CHECK(output_of_command("memory", {"gpt2", "--layers", "3"}).status == 0);
  // Help shows them once.
  CHECK(has(output_of_command("model", {"--help"}).out, "--num-key-value-heads"));
  CHECK(!has(output_of_command("memory", {"--help"}).out, "--num-key-value-heads"));
}

TEST_CASE("what trains is said once") {
  fails("memory", {"gpt2", "--lora", "4", "--last-layers", "1"}, "both say what trains");
  fails("model", {"gpt2", "--dora", "4", "--qlora", "4"}, "both say what trains");
  // As PEFT does, a fused layer is adapted whole.
  CHECK(output_of_command("memory", {"gpt2", "--lora", "4"}).status == 0);
}

TEST_CASE("formats are what the engine mixes") {
  using namespace gpuplan;
  CHECK(*setups::recipe_named("bf16", &engine_classes::ddp) == bf16_mixed);
  CHECK(*setups::recipe_named("bf16", &engine_classes::megatron) == bf16_megatron);
  CHECK(*setups::recipe_named("bf16", &engine_classes::deepspeed) == bf16_master);
  CHECK(*setups::recipe_named("fp16", &engine_classes::megatron) == fp16_master);
  CHECK(*setups::recipe_named("fp8", &engine_classes::fsdp2) == bf16_mixed_with_fp8);
  CHECK(!setups::recipe_named("fp16", &engine_classes::fsdp2));
  CHECK(!setups::recipe_named("fp32", &engine_classes::deepspeed));
  CHECK(!setups::recipe_named("fp64", &engine_classes::ddp));
  for (const std::string& name : setups::precision_names())
    CHECK((setups::recipe_named(name, &engine_classes::ddp) ||
           setups::recipe_named(name, &engine_classes::megatron)));
  CHECK(!setups::recipe_named("mxfp8", &engine_classes::ddp));
}

TEST_CASE("what is compiled is an option of torchtitan's code") {
  const auto memory = [](const std::vector<std::string>& more) {
    std::vector<std::string> words{
        "llama-3-8b", "--sequence-length", "1024", "--gpu", "h100_sxm5_80gb"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const outcome both =
      output_of_command("memory", memory({"--framework", "torchtitan", "--compile", "model,loss"}));
  CHECK(both.status == 0);
  CHECK(has(both.out, "compiled layers, compiled loss"));
  fails("memory", memory({"--compile", "model"}), "compiles_layers true is not taken beside");
  fails("memory", memory({"--compile", "modle"}), "the nearest is model");
}

TEST_CASE("devices are known by what people write, and each once") {
  using setups::gpus_named;
  CHECK(gpus_named({"4090", "a100-sxm-40gb"}).size() == 2);
  CHECK(std::string(setups::gpu_named("H100 NVL MIG 1g.12gb").slice) == "1g.12gb");
  CHECK(std::string(setups::gpu_named("h100nvl mig 1g.12gb").slice) == "1g.12gb");
  CHECK_THROWS_WITH(static_cast<void>(gpus_named({"4090", "rtx_4090"})),
                    "--gpu names rtx_4090 twice");
  CHECK_THROWS_WITH(static_cast<void>(setups::gpu_named("a100 80gb")),
                    "--gpu a100 80gb may mean 2 devices; name one of them:\n"
                    "  a100_sxm4_80gb  80 GB, 312 TFLOPS in bf16, 2039 GB/s\n"
                    "  a100_pcie_80gb  80 GB, 312 TFLOPS in bf16, 1935 GB/s");
  CHECK_THROWS_WITH(static_cast<void>(setups::gpu_named("h900")),
                    doctest::Contains("the nearest is"));
}

TEST_CASE("nvidia-smi says which devices there are") {
  const made_nvidia_smi smi(
      "echo 'NVIDIA A100-SXM4-80GB, 81920'\necho 'NVIDIA A100-SXM4-80GB, 81920'\n"
      "echo 'NVIDIA GeForce RTX 4090, 24564'\n");
  const setups::seen_machine machine = setups::look_at_machine("/nowhere");
  REQUIRE(machine.devices.size() == 3);
  CHECK(machine.by == "nvidia-smi");
  CHECK(machine.devices[0].memory == std::int64_t{81920} << 20);
  const auto gpus = setups::gpus_of(machine);
  REQUIRE(gpus.size() == 2);
  CHECK(std::string(gpus[0].id) == "a100_sxm4_80gb");
  const outcome o = output_of_command("memory", {"gpt2", "--gpu", "auto"});
  CHECK(o.status == 2);  // two kinds, and a timeline is held against one
  CHECK(has(o.err,
            "--gpu auto: nvidia-smi says 2 x NVIDIA A100-SXM4-80GB of 80.0 GiB, which is "
            "a100_sxm4_80gb; 1 x NVIDIA GeForce RTX 4090 of 24.0 GiB, which is rtx_4090\n"));
  CHECK(output_of_command("fits", {"gpt2", "--gpu", "auto", "--gpus", "1"}).status == 0);
}

TEST_CASE("every optimizer that a trainer's file can name has words") {
  using namespace gpuplan;
  for (const auto& [name, is] : io::detail::hugging_face::optimizer_words) {
    CAPTURE(name);
    const std::string words = setups::in_words(is);
    const std::string of = name;
    CHECK(has(words,
              of.find("adamw") != std::string::npos       ? "AdamW"
              : of.find("lion") != std::string::npos      ? "Lion"
              : of.find("rmsprop") != std::string::npos   ? "RMSprop"
              : of.find("adafactor") != std::string::npos ? "Adafactor"
              : of == "adagrad"                           ? "Adagrad"
                                                          : "SGD"));
    CHECK(has(words, "paged ") == (of.find("paged") != std::string::npos));
    CHECK(has(words, "8-bit ") == (of.find("8bit") != std::string::npos));
  }
  CHECK(setups::in_words(optimizer{.library = optimizer_library::bitsandbytes,
                                   .states = number_format::int8,
                                   .pages_states = true,
                                   .widens_embeddings = true}) ==
        "paged 8-bit AdamW of bitsandbytes");
}

TEST_CASE("a device that the catalogue has not is said") {
  const made_nvidia_smi smi("echo 'NVIDIA GeForce GTX 1080 Ti, 11264'\n");
  fails("memory", {"gpt2", "--gpu", "auto"}, "nvidia-smi says NVIDIA GeForce GTX 1080 Ti, which");
}

TEST_CASE("a program that fails or hangs is left, and what was tried is said") {
  {
    const made_nvidia_smi smi("echo 'NVIDIA A30, 24576'\nexit 9\n");
    const auto machine = setups::look_at_machine("/nowhere");
    CHECK(machine.devices.empty());
    REQUIRE(!machine.tried.empty());
    CHECK(machine.tried[0] == "nvidia-smi ends with status 9");
  }
  {
    const made_nvidia_smi smi("sleep 30\n");
    const auto machine = setups::look_at_machine("/nowhere", 0.2);
    REQUIRE(!machine.tried.empty());
    CHECK(machine.tried[0] == "nvidia-smi did not answer in time");
    CHECK_THROWS_WITH(static_cast<void>(setups::gpus_of(machine)),
                      doctest::Contains("--gpu auto found no device: nvidia-smi did not answer"));
  }
}

TEST_CASE("AMD's devices are read from sysfs") {
  const temporary_folder sysfs;
  for (const char* card : {"card0", "card1"}) {
    const std::string device = std::string("class/drm/") + card + "/device/";
    sysfs.write(device + "vendor", "0x1002\n");
    sysfs.write(device + "device", "0x74a1\n");
    sysfs.write(device + "mem_info_vram_total", "206141652992\n");
  }
  sysfs.write("class/drm/card2/device/vendor", "0x10de\n");
  sysfs.write("class/drm/card0-DP-1/device/vendor", "0x1002\n");
  const made_nvidia_smi smi("exit 1\n");
  const auto machine = setups::look_at_machine(sysfs.path().string());
  REQUIRE(machine.devices.size() == 2);
  CHECK(machine.devices[0].memory == 206141652992);
  const auto gpus = setups::gpus_of(machine);
  REQUIRE(gpus.size() == 1);
  CHECK(std::string(gpus[0].id) == "mi300x");
  sysfs.write("class/drm/card0/device/device", "0xffff\n");
  CHECK_THROWS_WITH(
      static_cast<void>(setups::gpus_of(setups::look_at_machine(sysfs.path().string()))),
      doctest::Contains("AMD device 0xffff"));
}
