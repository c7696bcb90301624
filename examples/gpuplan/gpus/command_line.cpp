#include "gpus/command_line.hpp"

#include <gpuplan/catalog/gpu_names.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/systems.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/measured_device.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/known.hpp>
#include <gpuplan/measured_device.hpp>
#include <gpuplan/result.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "guides/front_end.hpp"
#include "guides/render.hpp"
#include "setups/gpus.hpp"
#include "setups/numbers.hpp"

namespace list_gpus {
namespace {

using namespace gpuplan;
using io::cell;

constexpr const char* about =
    "The devices of the catalogue, or those named: one in detail, several side by side, with "
    "every\n"
    "number that is known and its source. Rates are dense, without structured sparsity.";
constexpr const char* examples =
    "Examples:\n"
    "  gpuplan gpus h100\n"
    "  gpuplan gpus 4090,a6000\n"
    "  gpuplan gpus auto\n"
    "  gpuplan gpus --systems\n"
    "  gpuplan gpus h100-sxm --measured benchmarks/results/h100_sxm5_80gb.json";

struct request {
  bool systems = false;
  std::vector<std::string> names{};
  std::string measured_file{};
};

// One number or word about a device. Its name has its unit, as programs read it.
struct number_of {
  const char* name;
  cell (*of)(const gpu_spec&);
};

template <class Quantity>
cell scaled(const known<Quantity>& value, double unit) {
  return value ? cell(value->value() / unit) : cell();
}
cell word(const char* text) { return *text == '\0' ? cell() : cell(text); }

const char* text_of(gpu_vendor vendor) {
  switch (vendor) {
    case gpu_vendor::nvidia:
      return "NVIDIA";
    case gpu_vendor::amd:
      return "AMD";
    case gpu_vendor::intel:
      return "Intel";
    case gpu_vendor::google:
      return "Google";
    case gpu_vendor::aws:
      break;
  }
  return "AWS";
}
const char* text_of(confidence trust) {
  switch (trust) {
    case confidence::two_sources:
      return "the vendor's table, or two sources that agree";
    case confidence::one_source:
      return "one good source";
    case confidence::formula:
      return "by the rate of its generation's SM, SM count and clock";
    case confidence::unverified:
      break;
  }
  return "some numbers were not found in a source";
}

std::string driver_names(const gpu_spec& gpu) {
  std::string names;
  for (const char* name : gpu.driver_names)
    if (name != nullptr) names += (names.empty() ? "" : "; ") + std::string(name);
  return names;
}
std::string slices_of(const gpu_spec& gpu) {
  std::string names;
  for (const mig_slice& slice : gpu.mig)
    names += (names.empty() ? "" : ", ") + std::string(slice.name);
  return names;
}

#define RATE(field) [](const gpu_spec& gpu) { return scaled(gpu.dense.field, 1e12); }
constexpr number_of numbers[] = {
    {"gpu", [](const gpu_spec& gpu) { return cell(gpu.id); }},
    {"name", [](const gpu_spec& gpu) { return cell(gpu.name); }},
    {"driver_names", [](const gpu_spec& gpu) { return word(driver_names(gpu).c_str()); }},
    {"vendor", [](const gpu_spec& gpu) { return cell(text_of(gpu.vendor)); }},
    {"architecture", [](const gpu_spec& gpu) { return word(gpu.architecture); }},
    {"compute_capability",
     [](const gpu_spec& gpu) {
       return gpu.compute_capability ? cell(*gpu.compute_capability / 10.0, 1) : cell();
     }},
    {"year", [](const gpu_spec& gpu) { return cell(gpu.year); }},
    {"slice", [](const gpu_spec& gpu) { return word(gpu.slice); }},
    {"SMs", [](const gpu_spec& gpu) { return cell(gpu.sm_count); }},
    {"clock_MHz",
     [](const gpu_spec& gpu) { return gpu.clock_MHz ? cell(*gpu.clock_MHz) : cell(); }},
    {"memory_as_sold_GB", [](const gpu_spec& gpu) { return cell(gpu.memory_label_GB); }},
    {"memory_by_driver_GiB",
     [](const gpu_spec& gpu) {
       return gpu.memory ? cell(gpu.memory->value() / setups::gibibyte, 2) : cell();
     }},
    {"memory_for_training_GiB",
     [](const gpu_spec& gpu) { return cell(usable_memory(gpu).value() / setups::gibibyte, 2); }},
    {"memory_bandwidth_GBps",
     [](const gpu_spec& gpu) { return cell(gpu.memory_bandwidth.value() / 1e9); }},
    {"fp64_TFLOPS", RATE(fp64)},
    {"fp64_matrix_TFLOPS", RATE(fp64_matrix)},
    {"fp32_TFLOPS", RATE(fp32)},
    {"tf32_TFLOPS", RATE(tf32)},
    {"bf16_TFLOPS", RATE(bf16)},
    {"fp16_TFLOPS", RATE(fp16)},
    {"fp16_sum_fp16_TFLOPS", RATE(fp16_sum_fp16)},
    {"fp8_TFLOPS", RATE(fp8)},
    {"fp4_TFLOPS", RATE(fp4)},
    {"int8_TOPS", RATE(int8)},
    {"peer_link", [](const gpu_spec& gpu) { return gpu.peers ? cell(gpu.peers->name) : cell(); }},
    {"peer_link_each_direction_GBps",
     [](const gpu_spec& gpu) {
       return gpu.peers ? cell(gpu.peers->each_direction().value() / 1e9, 1) : cell();
     }},
    {"host_link",
     [](const gpu_spec& gpu) {
       return gpu.pcie ? cell("PCIe " + std::to_string(gpu.pcie->generation) + " x" +
                              std::to_string(gpu.pcie->lanes))
                       : cell();
     }},
    {"host_link_each_direction_GBps",
     [](const gpu_spec& gpu) {
       return gpu.pcie ? cell(gpu.pcie->each_direction().value() / 1e9, 1) : cell();
     }},
    {"power_W", [](const gpu_spec& gpu) { return scaled(gpu.tdp, 1); }},
    {"MIG_profiles", [](const gpu_spec& gpu) { return word(slices_of(gpu).c_str()); }},
    {"source", [](const gpu_spec& gpu) { return word(gpu.source); }},
    {"trust", [](const gpu_spec& gpu) { return cell(text_of(gpu.trust)); }},
};
#undef RATE

std::vector<gpu_spec> all_devices() {
  std::vector<gpu_spec> all;
  for (const gpu_spec* gpu : catalog::gpus) all.push_back(*gpu);
  return all;
}

// Those named; where a name may mean several, all of them, since to compare them is to ask which.
std::vector<gpu_spec> devices_of(const std::vector<std::string>& names) {
  std::vector<std::string> ids;
  for (const std::string& name : names) {
    const catalog::gpu_list meant = catalog::gpus_named(name);
    if (meant.count < 2 || catalog::find_gpu(name)) {
      ids.push_back(name);
      continue;
    }
    for (const gpu_spec* gpu : meant)
      if (std::find(ids.begin(), ids.end(), gpu->id) == ids.end()) ids.emplace_back(gpu->id);
  }
  return setups::gpus_named(ids);
}

// ---- tables

// A row for each device.
io::table rows_of(const std::vector<gpu_spec>& gpus) {
  io::table table;
  for (const number_of& one : numbers) table.columns.push_back({.name = one.name});
  for (const gpu_spec& gpu : gpus) {
    std::vector<cell> row;
    for (const number_of& one : numbers) row.push_back(one.of(gpu));
    table.rows.push_back(std::move(row));
  }
  return table;
}

io::table short_list(const std::vector<gpu_spec>& gpus) {
  io::table table{.title =
                      "Memory in GB as sold, bandwidth in GB/s, dense rates in TFLOPS, power in W"};
  table.columns = {{.name = "GPU"}};
  for (const char* name : {"year", "memory", "bandwidth", "bf16", "fp16", "fp8", "power"})
    table.columns.push_back({.name = name, .align = io::alignment::right});
  table.columns.push_back({.name = "link"});
  const auto rate = [](const known<compute_rate>& of) {
    return of ? cell(of->value() / 1e12, 0) : cell();
  };
  for (const gpu_spec& gpu : gpus)
    table.rows.push_back({gpu.id,
                          gpu.year,
                          gpu.memory_label_GB,
                          cell(gpu.memory_bandwidth.value() / 1e9, 0),
                          rate(gpu.dense.bf16),
                          rate(gpu.dense.fp16),
                          rate(gpu.dense.fp8),
                          gpu.tdp ? cell(gpu.tdp->value(), 0) : cell(),
                          gpu.peers ? cell(gpu.peers->name) : cell()});
  return table;
}

// What is too wide for a column.
bool is_sentence(std::string_view name) {
  return name == "driver_names" || name == "MIG_profiles" || name == "source" || name == "trust";
}

io::table sources_of(const std::vector<gpu_spec>& gpus) {
  io::table table{.title = "Where the numbers come from"};
  table.columns = {{.name = "GPU"}, {.name = "source"}};
  for (const gpu_spec& gpu : gpus)
    table.rows.push_back({gpu.id, std::string(gpu.source) + " (" + text_of(gpu.trust) + ")"});
  return table;
}

// A column for each device, and a row for each number that one of them has.
io::table side_by_side(const std::vector<gpu_spec>& gpus) {
  io::table table{.title = gpus.size() == 1 ? gpus[0].name : "Side by side"};
  table.columns = {{.name = "what"}};
  for (const gpu_spec& gpu : gpus) table.columns.push_back({.name = gpu.id});
  const std::size_t first = gpus.size() == 1 ? 0 : 1;  // their ids are the columns' names
  for (std::size_t at = first; at < std::size(numbers); ++at) {
    if (gpus.size() > 1 && is_sentence(numbers[at].name)) continue;
    std::string name = numbers[at].name;
    std::replace(name.begin(), name.end(), '_', ' ');
    std::vector<cell> row{name};
    bool is_known = false;
    for (const gpu_spec& gpu : gpus) {
      row.push_back(numbers[at].of(gpu));
      is_known = is_known || row.back().what() != cell::kind::nothing;
    }
    if (is_known) table.rows.push_back(std::move(row));
  }
  return table;
}

io::table systems_of_catalogue() {
  io::table table{.title = "Nodes by name, as --system takes them; GB/s of a node, each direction"};
  table.columns = {{.name = "system"},
                   {.name = "GPU"},
                   {.name = "GPUs", .align = io::alignment::right},
                   {.name = "link_domain", .align = io::alignment::right},
                   {.name = "network_GBps", .align = io::alignment::right},
                   {.name = "host_memory_GB", .align = io::alignment::right},
                   {.name = "source"}};
  for (const catalog::node_system& one : catalog::systems)
    table.rows.push_back({one.id,
                          one.gpu->id,
                          one.gpus_per_node,
                          one.gpus_per_link_domain == 0 ? cell() : cell(one.gpus_per_link_domain),
                          cell(one.between_nodes.value() / 1e9, 1),
                          cell(one.host_memory.value() / 1e9, 0),
                          one.source});
  return table;
}

// ---- measured

// What was measured beside what the data sheet says.
io::table measured(const gpu_spec& gpu, const measured_device& by) {
  io::table table{.title = "Measured on " + std::string(by.date) + ": " + by.name};
  table.columns = {{.name = "what"},
                   {.name = "measured", .align = io::alignment::right},
                   {.name = "data_sheet", .align = io::alignment::right},
                   {.name = "unit"},
                   {.name = "share_percent", .align = io::alignment::right}};
  const auto add = [&](const std::string& what, double value, double stated, const char* unit) {
    table.rows.push_back({what,
                          cell(value, value < 10 ? 2 : 0),
                          stated > 0 ? cell(stated, stated < 10 ? 2 : 0) : cell(),
                          unit,
                          stated > 0 ? cell(100 * value / stated, 1) : cell()});
  };
  for (const measured_matmul& one : by.matmuls) {
    const auto stated = peak(gpu, one.format, one.sum);
    const double peak_rate = stated ? stated->value() / 1e12 : 0;
    const std::string name = std::string("products in ") + text(one.format) +
                             (one.sum == accumulator::fp16 ? ", sums in fp16" : "");
    if (one.sustained)
      add(name + ", sustained", one.sustained->median.value() / 1e12, peak_rate, "TFLOPS");
    if (one.burst) add(name + ", burst", one.burst->median.value() / 1e12, peak_rate, "TFLOPS");
  }
  const double stated = gpu.memory_bandwidth.value() / 1e9;
  const auto add_bandwidth = [&](const char* name, const known<reading<bandwidth>>& of) {
    if (of) add(name, of->median.value() / 1e9, stated, "GB/s");
  };
  add_bandwidth("memory, copied", by.copy);
  add_bandwidth("memory, triad", by.triad);
  add_bandwidth("memory, read", by.read);
  add_bandwidth("memory, written", by.write);
  if (by.l2) add("L2 cache, read", by.l2->median.value() / 1e9, 0, "GB/s");
  if (by.memory)
    add("memory by CUDA",
        by.memory->value() / setups::gibibyte,
        gpu.memory ? gpu.memory->value() / setups::gibibyte : 0,
        "GiB");
  if (by.context_memory)
    add("context of the program that measured",
        by.context_memory->value() / setups::gibibyte,
        0,
        "GiB");
  if (by.kernel_launch)
    add("launch of an empty kernel", by.kernel_launch->median.value() * 1e6, 0, "us");
  return table;
}

std::string answer_to(const request& asked, const guides::output& as) {
  if (asked.systems) return guides::render(systems_of_catalogue(), as);
  const bool is_for_people = traits_of(as.format).for_people;
  if (asked.measured_file.empty() && asked.names.empty())
    return guides::render(is_for_people ? short_list(all_devices()) : rows_of(all_devices()), as);
  std::vector<gpu_spec> gpus =
      asked.names.empty() ? std::vector<gpu_spec>{} : devices_of(asked.names);
  if (asked.measured_file.empty()) {
    if (!is_for_people) return guides::render(rows_of(gpus), as);
    const std::string table = guides::render(side_by_side(gpus), as);
    return gpus.size() == 1 ? table : table + "\n" + guides::render(sources_of(gpus), as);
  }
  const auto record = io::read_measurement(guides::read_file("--measured", asked.measured_file));
  if (!record)
    throw guides::bad_request("--measured " + io::printable(asked.measured_file) + ": " +
                              failure_text(record.why()).c_str());
  const measured_device by = record->view();
  if (gpus.empty()) {
    const auto found = catalog::find_gpu(*by.id != '\0' ? by.id : by.name);
    if (!found)
      throw guides::bad_request("--measured " + io::printable(asked.measured_file) + " is of " +
                                io::printable(by.name) +
                                ", which the catalogue has not; name the GPU to hold it against");
    gpus.push_back(*found);
  }
  if (gpus.size() > 1)
    throw guides::bad_request("--measured holds one device; " + std::to_string(gpus.size()) +
                              " are named");
  if (*by.id != '\0' && gpus.front().id != std::string_view(by.id))
    throw guides::bad_request("--measured " + io::printable(asked.measured_file) + " is of " +
                              io::printable(by.id) + ", not of " + gpus.front().id);
  return guides::render(measured(gpus.front(), by), as);
}

}  // namespace

guides::program command() {
  const auto asked = std::make_shared<request>();
  return {.name = "gpuplan gpus",
          .about = about,
          .examples = examples,
          .add =
              [=](CLI::App& app) {
                CLI::Option* const names =
                    app.add_option(
                           "NAME",
                           asked->names,
                           "Devices, as people write them, with commas between them, or auto")
                        ->delimiter(',')
                        ->type_name("");
                CLI::Option* const systems =
                    app.add_flag("--systems",
                                 asked->systems,
                                 "Nodes by name instead: of makers and of clouds")
                        ->excludes(names);
                app.add_option("--measured",
                               asked->measured_file,
                               "What measure_gpu wrote of a device, held against its data sheet")
                    ->type_name("FILE")
                    ->excludes(systems);
              },
          .make = [=](const guides::output& as) { return answer_to(*asked, as); }};
}

}  // namespace list_gpus
