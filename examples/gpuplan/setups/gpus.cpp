#include "setups/gpus.hpp"

#include <gpuplan/catalog/gpu_names.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/slurm_nodes.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/result.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "guides/front_end.hpp"
#include "setups/numbers.hpp"

namespace setups {
namespace {

using namespace gpuplan;
using guides::bad_request;

constexpr const char* list_hint = "gpuplan gpus lists all";

// A device with a number of them, "8xh100" or "h100:8"; empty of any other name.
std::pair<std::string, std::string> counted_device(const std::string& name) {
  const auto is_count = [](const std::string& text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  };
  const std::size_t times = name.find_first_of("xX*");
  if (times != std::string::npos && is_count(name.substr(0, times)))
    return {name.substr(times + 1), name.substr(0, times)};
  const std::size_t colon = name.find(':');
  if (colon != std::string::npos && is_count(name.substr(colon + 1)))
    return {name.substr(0, colon), name.substr(colon + 1)};
  return {};
}

[[noreturn]] void refuse(const std::string& name, const catalog::gpu_list& meant) {
  if (const auto [device, count] = counted_device(name);
      meant.count == 0 && catalog::gpus_named(device).count > 0)
    throw bad_request("--gpu " + name + ": --gpu " + device + " says which device, --gpus " +
                      count + " how many");
  if (meant.count == 0)
    throw bad_request("--gpu " + name + ": the catalogue has no such device; the nearest is " +
                      std::string(catalog::find_gpu(name).why().subject) + ", and " + list_hint);
  std::size_t width = 0;
  for (const gpu_spec* gpu : meant) width = std::max(width, std::string_view(gpu->id).size());
  std::string lines;
  for (const gpu_spec* gpu : meant) {
    std::string line = "\n  " + std::string(gpu->id);
    line.resize(width + 5, ' ');
    lines += line + in_words(*gpu);
  }
  throw bad_request("--gpu " + name + " may mean " + std::to_string(meant.count) +
                    " devices; name one of them:" + lines);
}

// Of what a driver calls so, the one with the memory that it reports.
gpu_spec gpu_seen(const seen_device& seen, const std::string& by) {
  const catalog::gpu_list meant = catalog::gpus_named(seen.name);
  if (meant.count == 0)
    throw bad_request("--gpu auto: " + by + " says " + io::printable(seen.name) +
                      ", which the catalogue has not; the nearest is " +
                      std::string(catalog::find_gpu(seen.name).why().subject) + ", and " +
                      list_hint);
  const auto off = [&](const gpu_spec& gpu) {
    const bytes has = gpu.memory ? *gpu.memory : gpu.memory_label_GB * 1_GB;
    return std::abs(has.value() - static_cast<double>(seen.memory));
  };
  const gpu_spec* nearest = *meant.begin();
  for (const gpu_spec* gpu : meant)
    if (off(*gpu) < off(*nearest)) nearest = gpu;
  return *nearest;
}

void add_once(const gpu_spec& gpu, std::vector<gpu_spec>& to) {
  for (const gpu_spec& other : to)
    if (std::string_view(other.id) == gpu.id && std::string_view(other.slice) == gpu.slice) return;
  to.push_back(gpu);
}

void say_what_was_found(const seen_machine& machine) {
  std::vector<std::pair<std::string, int>> kinds;
  for (const seen_device& one : machine.devices) {
    std::string words = one.name;
    if (one.memory != 0) words += " of " + readable_bytes(one.memory);
    words += ", which is " + std::string(gpu_seen(one, machine.by).id);
    const auto known =
        std::find_if(kinds.begin(), kinds.end(), [&](const auto& k) { return k.first == words; });
    if (known == kinds.end())
      kinds.emplace_back(words, 1);
    else
      ++known->second;
  }
  std::string text;
  for (const auto& [words, count] : kinds)
    text += (text.empty() ? "" : "; ") + std::to_string(count) + " x " + words;
  guides::remark("--gpu auto: " + machine.by + " says " + text);
}

}  // namespace

CLI::Option* add_gpu_option(CLI::App& app, std::vector<std::string>& to, const std::string& about) {
  return app
      .add_option(
          "--gpu",
          to,
          about + ": names as people write them (4090, a100-sxm-80gb), or auto: this machine's")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME,...");
}

gpu_spec gpu_named(const std::string& name) {
  if (detail::plain_name(name).size == 0)
    throw bad_request("--gpu says which device by its name, as 4090; " + std::string(list_hint));
  const auto exact = catalog::find_gpu(name);
  if (exact) return *exact;
  std::string whole = name;
  std::transform(whole.begin(), whole.end(), whole.begin(), detail::lower);
  const std::size_t slice = whole.find("mig");
  const catalog::gpu_list meant = catalog::gpus_named(name.substr(0, slice));
  if (meant.count != 1) refuse(name, meant);
  if (slice == std::string::npos) return **meant.begin();
  const auto part = mig(**meant.begin(), std::string_view(name).substr(slice + 3));
  if (!part)
    throw bad_request("--gpu " + name + ": " + failure_text(part.why()).c_str(), part.why());
  return slice_of(**meant.begin(), *part);
}

gpu_of_job gpu_of_files(const io::read_config& files) {
  if (files.gpu.empty()) return {};
  const catalog::gpu_list meant = io::slurm_nodes{.gres = files.gpu}.devices();
  const std::string asked = "the job asks for " + io::printable(files.gpu);
  if (meant.count == 0)
    return {.why = std::string(usual_gpu) + ": " + asked +
                   ", by which no device is known; --gpu NAME says which it is"};
  gpu_of_job made{.id = std::string((*meant.begin())->id)};
  if (meant.count == 1) return made;
  std::string names;
  for (const gpu_spec* const one : meant) {
    if (one->id == std::string(usual_gpu)) made.id = usual_gpu;
    names += (names.empty() ? "" : ", ") + std::string(one->id);
  }
  made.why = made.id + ": " + asked + ", which may be " + names + "; --gpu NAME says which it is";
  return made;
}

std::vector<gpu_spec> gpus_named(const std::vector<std::string>& names) {
  std::vector<gpu_spec> all;
  for (const std::string& name : names) {
    if (name == "auto") {
      const seen_machine machine = look_at_machine();
      const std::vector<gpu_spec> here = gpus_of(machine);
      say_what_was_found(machine);
      for (const gpu_spec& gpu : here) add_once(gpu, all);
      continue;
    }
    const gpu_spec gpu = gpu_named(name);
    const std::size_t before = all.size();
    add_once(gpu, all);
    if (all.size() == before) throw bad_request("--gpu names " + std::string(gpu.id) + " twice");
  }
  return all;
}

std::vector<gpu_spec> gpus_of(const seen_machine& machine) {
  if (machine.devices.empty()) {
    std::string tried;
    for (const std::string& one : machine.tried) tried += (tried.empty() ? "" : "; ") + one;
    throw bad_request("--gpu auto found no device: " + tried + "; --gpu NAME says which to take");
  }
  std::vector<gpu_spec> all;
  for (const seen_device& one : machine.devices) add_once(gpu_seen(one, machine.by), all);
  return all;
}

std::string in_words(const gpu_spec& gpu) {
  std::string words = std::to_string(gpu.memory_label_GB) + " GB";
  const auto best = peak(gpu, number_format::bf16);
  const auto other = peak(gpu, number_format::fp16);
  if (best || other)
    words += ", " + io::decimal((best ? *best : *other).value() / 1e12, 0) + " TFLOPS in " +
             (best ? "bf16" : "fp16");
  words += ", " + io::decimal(gpu.memory_bandwidth.value() / 1e9, 0) + " GB/s";
  return words;
}

}  // namespace setups
