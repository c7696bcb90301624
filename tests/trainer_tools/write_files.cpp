// Writes files of a trainer for random configs, each into a folder of its own, and beside them
// expected.json: the members that are written, as the trainer's own parser should find them.
//   write_files <tool> <folder> <cases>

#include <gpuplan/io/json_value.hpp>
#include <gpuplan/io/trainer/any_writer.hpp>
#include <gpuplan/io/trainer/config_members.hpp>
#include <gpuplan/io/trainer/launch.hpp>
#include <gpuplan/io/trainer/skypilot.hpp>
#include <gpuplan/io/trainer/training_config.hpp>
#include <gpuplan/units.hpp>

#include "random_config.hpp"
#include "random_megatron_config.hpp"
#include "random_numbers.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <utility>

namespace {

using namespace gpuplan;

io::training_config any_config(const std::string& tool, random_numbers& random) {
  if (tool == "megatron" || tool == "bridge") return random_config::random_megatron_config(random);
  io::training_config config = random_config::any(random);
  if (tool == "torchtitan") {
    const bool has_experts = config.expert_parallel && *config.expert_parallel > 1;
    config.model = has_experts            ? "Qwen/Qwen3-30B-A3B"
                   : random.below(2) == 0 ? "Qwen/Qwen3-14B"
                                          : "meta-llama/Llama-3.1-8B";
  }
  return config;
}

io::launch any_launch(random_numbers& random) {
  using random_config::one_of;
  constexpr std::int64_t devices = std::size(io::detail::skypilot_names);
  return {.name = one_of<const char*>(random, {"training", "run-7", "a"}),
          .gpu = one_of<const char*>(random, {"", "H100", "A100-80GB", "L4"}),
          .device = std::string(io::detail::skypilot_names[random.below(devices)].device),
          .wall_time = static_cast<double>(one_of(random, {0, 1, 3'600}) * random.below(700)) * 1_s,
          .image = one_of<const char*>(random, {"", "nvcr.io/nvidia/pytorch:26.10-py3", "a/b@c"}),
          .command = one_of<const char*>(
              random, {io::script_placeholder, "t.py --lr=1e-4 a=b", "/a/t.py a.yaml --x @y"})};
}

io::value member_value(const std::string& is) { return is; }
io::value member_value(const known<std::int64_t>& is) { return *is; }
io::value member_value(const known<int>& is) { return *is; }
io::value member_value(const known<double>& is) { return *is; }
io::value member_value(const known<bool>& is) { return *is; }
io::value member_value(const known<io::training_precision>& is) {
  static constexpr const char* words[] = {"fp32", "tf32", "fp16", "bf16", "fp8", "pure_bf16"};
  return words[static_cast<int>(*is)];
}
io::value member_value(const known<number_format>& is) { return text(*is); }
io::value member_value(const known<io::rate_schedule>& is) {
  static constexpr const char* words[] = {"constant", "linear", "cosine", "wsd"};
  return words[static_cast<int>(*is)];
}
io::value member_value(const known<recompute_mode>& is) {
  static constexpr const char* words[] = {"none", "selective", "full"};
  return words[static_cast<int>(*is)];
}
io::value member_value(const known<optimizer>& is) {
  static constexpr const char* words[] = {
      "sgd", "sgd_momentum", "adamw", "adafactor", "lion", "muon", "rmsprop", "adagrad"};
  return words[static_cast<int>(is->kind)];
}
io::value member_value(const known<lora>& is) {
  io::value made;
  made["rank"] = is->rank;
  made["magnitudes"] = is->magnitudes;
  made["four_bits"] = is->base.block != 0;
  return made;
}
io::value member_value(const known<pipeline_split>& is) {
  io::value made;
  made["embedding"] = is->embedding_layers;
  made["head"] = is->head_layers;
  made["first"] = is->first_stage_layers;
  made["last"] = is->last_stage_layers;
  io::value::list listed;
  for (int at = 0; at < is->listed.count; ++at)
    listed.emplace_back(static_cast<std::int64_t>(is->listed.layers[at]));
  made["listed"] = listed;
  return made;
}
// What no parser of these shows.
template <class T>
io::value member_value(const T&) {
  return true;
}

io::value expected_of(const io::training_config& config,
                      const io::launch& how,
                      const io::written_config& written) {
  io::value expected = io::value(io::value::object());
  const auto is_left = [&left = written.not_written](const char* name) {
    return std::find(left.begin(), left.end(), name) != left.end();
  };
  io::for_each_member(config, [&](const char* name, const auto& member) {
    if (io::is_said(member) && !is_left(name)) expected[name] = member_value(member);
  });
  io::value launch = io::value(io::value::object());
  launch["name"] = how.name;
  launch["device"] = how.device;
  if (!is_left("gpu")) launch["gpu"] = how.gpu;
  if (!is_left("image")) launch["image"] = how.image;
  if (!is_left("command")) launch["command"] = how.command;
  if (!is_left("wall_time")) launch["wall_time"] = in(how.wall_time, 1_s);
  expected["launch"] = std::move(launch);
  return expected;
}

int write_all(const io::plan_writer& by, const std::filesystem::path& folder, int cases) {
  random_numbers random(11);
  random_numbers launches(12);
  for (int at = 0; at < cases;) {
    const io::training_config config = any_config(by.name, random);
    const io::launch how = any_launch(launches);
    const io::written_config written = by.write(config, how);
    if (!written) continue;
    const std::filesystem::path place = folder / std::to_string(at++);
    std::filesystem::create_directories(place);
    for (const io::written_file& file : written.files)
      std::ofstream(place / file.name) << file.text;
    std::ofstream(place / "expected.json") << io::to_json(expected_of(config, how, written));
    std::ofstream(place / "command.txt") << written.command << "\n";
  }
  return EXIT_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4)
    for (const io::plan_writer& one : io::plan_writers)
      if (one.name == std::string(argv[1])) return write_all(one, argv[2], std::atoi(argv[3]));
  std::cerr << "write_files <tool> <folder> <cases>\n";
  return EXIT_FAILURE;
}
