#include "configured_steps.hpp"

#include <gpuplan/catalog/implementations.hpp>
#include <gpuplan/io/hugging_face_config.hpp>
#include <gpuplan/replay/counts.hpp>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "adapters.hpp"
#include "compare_steps.hpp"
#include "step_predictions.hpp"

namespace accuracy {
namespace {

using nlohmann::json;

// The configuration itself, or that in the file that the cell names.
std::string config_of(const row& source) {
  if (source.text("config_file").starts_with('{')) return std::string(source.text("config_file"));
  const std::filesystem::path name(source.text("config_file"));
  const bool leads_away =
      name.is_absolute() || std::find(name.begin(), name.end(), "..") != name.end();
  if (leads_away) source.fail("config_file", "is not beside the table");
  std::ifstream file(std::filesystem::path(source.file().path).parent_path() / name);
  if (!file) source.fail("config_file", "cannot be read");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

json inputs_of(const row& source) {
  json inputs = json::parse(source.text("inputs"), nullptr, false);
  if (!inputs.is_object()) source.fail("inputs", "is not a JSON object");
  return inputs;
}

// Of these names the ones that modules of such a part have, joined by commas.
std::string names_within(std::string_view names, const gpuplan::transformer& part) {
  // CLIP's texts have a tower of the same modules.
  const bool is_tower = part.kind == gpuplan::model_kind::vision || !part.gated_mlp;
  constexpr std::string_view of_towers[] = {
      "out_proj", "fc1", "fc2", "linear_fc1", "linear_fc2", "qkv", "proj"};
  constexpr std::string_view of_language[] = {"o_proj", "lm_head"};
  constexpr std::string_view of_gated[] = {"gate_proj", "up_proj", "down_proj"};
  constexpr std::string_view apart[] = {"q_proj", "k_proj", "v_proj"};
  std::string within;
  while (!names.empty()) {
    const std::size_t end = std::min(names.find_first_of(",+"), names.size());
    std::string_view name = names.substr(0, end);
    names.remove_prefix(std::min(end + 1, names.size()));
    if (name == "projector" || name == "fc3" || name == "patches") continue;  // between parts
    name = name.substr(name.rfind('.') + 1);                                  // mlp.fc1
    const auto is_of = [&](const auto& list) {
      return std::find(std::begin(list), std::end(list), name) != std::end(list);
    };
    if (is_tower ? is_of(of_language) : is_of(of_towers)) continue;
    if (!part.gated_mlp && is_of(of_gated)) continue;
    if (part.fused_qkv && is_of(apart)) continue;
    within.append(within.empty() ? "" : ",").append(name);
  }
  return within;
}

// Whether adapters are beside the layers between parts: all of them are meant by the word
// projector, and by the names that OpenVLA's have.
bool adapts_connector(std::string_view names) {
  for (const std::string_view name : {"all-linear", "projector", "fc3"})
    if (names.find(name) != std::string_view::npos) return true;
  return false;
}

std::string read_adapters_of_parts(std::int64_t rank,
                                   std::string_view names,
                                   gpuplan::composite_model& model) {
  model.others_train = false;
  for (int at = 0; at < model.size(); ++at) {
    gpuplan::component& part = model.parts[at];
    part.trains.what = gpuplan::training::frozen;
    part.next.trains = false;
    if (part.next.layers() != 0 && adapts_connector(names)) part.next.adapters.rank = rank;
    const std::string within = names_within(names, part.model);
    if (within.empty()) continue;
    const described_adapters adapters = describe_adapters("lora", rank, within, part.model);
    if (!adapters.why_not.empty()) return adapters.why_not;
    part.trains = adapters.trains;
    const bool has_patches = names.find("patches") != std::string_view::npos;
    part.trains.adapters.targets.patches =
        has_patches && part.model.kind == gpuplan::model_kind::vision;
  }
  return {};
}

// "none", or "r=4;targets=query_key_value".
std::string read_adapters(const row& source,
                          gpuplan::training_setup& setup,
                          gpuplan::composite_model* composite) {
  const std::string_view text = source.text("lora");
  if (text.empty() || text == "none") return {};
  constexpr std::string_view rank_is = "r=", targets_are = ";targets=";
  const std::size_t end = text.find(targets_are);
  std::int64_t rank = 0;
  if (!text.starts_with(rank_is) || end == std::string_view::npos ||
      std::from_chars(text.data() + rank_is.size(), text.data() + end, rank).ptr !=
          text.data() + end)
    source.fail("lora", "is not like r=4;targets=q_proj,v_proj: " + std::string(text));
  const std::string_view names = text.substr(end + targets_are.size());
  if (composite != nullptr) return read_adapters_of_parts(rank, names, *composite);
  const described_adapters adapters = describe_adapters("lora", rank, names, setup.model);
  setup.trains = adapters.trains;
  return adapters.why_not;
}

// The parts of a composite that do not train, where none has adapters: "vision", "projector" and
// "language", joined by commas.
void freeze_parts(const row& source, gpuplan::composite_model& model) {
  const std::string_view frozen = source.text("frozen");
  constexpr std::string_view names[] = {"vision", "language"};
  for (int at = 0; at < model.size() && at < 2; ++at)
    if (frozen.find(names[at]) != std::string_view::npos)
      model.parts[at].trains.what = gpuplan::training::frozen;
  if (frozen.find("projector") != std::string_view::npos) model.parts[0].next.trains = false;
}

// Images of any size: rows of patches, and how many of them each image has above and beside each
// other (`values`; else all are as square as they can be).
std::string read_grids(const row& source, const json& inputs, gpuplan::composite_model& model) {
  gpuplan::component& tower = model.parts[0];
  const json& of_grids = inputs.at("image_grid_thw");
  const json grids = of_grids.value("shape", json::array());
  const json pixels = inputs.at("pixel_values").value("shape", json::array());
  if (inputs.contains("pixel_values_videos")) return "videos are not described";
  const std::int64_t samples = source.integer_or("micro_batch", 1);
  if (grids.size() != 2 || pixels.size() != 2 || !grids[0].is_number_integer() ||
      !pixels[0].is_number_integer())
    return "image_grid_thw and pixel_values are not rows";
  const auto images = grids[0].get<std::int64_t>();
  const auto patches = pixels[0].get<std::int64_t>();
  if (images < 1 || samples < 1 || images % samples != 0 || patches % images != 0)
    return "images of different sizes are not described";
  std::int64_t side = 1;
  while (side * side < tower.joined_patches) ++side;
  const std::int64_t of_one = patches / images / tower.joined_patches;
  std::int64_t height = 1;
  for (std::int64_t one = 1; one * one <= of_one; ++one)
    if (of_one % one == 0) height = one;
  std::int64_t width = of_one / height * side;
  height *= side;
  if (of_grids.contains("values")) {
    const json& first = of_grids.at("values").at(0);
    for (const json& each : of_grids.at("values"))
      if (each != first || each.at(0) != 1) return "images of different sizes are not described";
    height = first.at(1).get<std::int64_t>();
    width = first.at(2).get<std::int64_t>();
  }
  tower.sequences = images / samples;
  tower.model.image.grid_height = height;
  tower.model.image.grid_width = width;
  tower.next.tokens = height * width / tower.joined_patches;
  tower.masks_text = inputs.contains("attention_mask");
  return {};
}

// How many images of a sample the first tower sees: pixel_values are (images, channels, height,
// width) of all samples, or (samples, images, ...).
void read_images(const row& source, const json& inputs, gpuplan::composite_model& model) {
  if (inputs.contains("actions")) {  // (samples, actions, width)
    const json actions = inputs.at("actions").value("shape", json::array());
    if (actions.size() == 3 && actions[1].is_number_integer())
      model.actions.horizon = actions[1].get<std::int64_t>();
  }
  if (!inputs.contains("pixel_values")) return;
  const json shape = inputs.at("pixel_values").value("shape", json::array());
  const std::int64_t samples = source.integer_or("micro_batch", 1);
  if (shape.size() == 5 && shape[1].is_number_integer())
    model.parts[0].sequences = shape[1].get<std::int64_t>();
  else if (shape.size() == 4 && shape[0].is_number_integer())
    model.parts[0].sequences = shape[0].get<std::int64_t>() / samples;
}

std::string read_model(const row& source, const std::string& config, described_setup& described) {
  gpuplan::training_setup& setup = described.setup;
  const auto read = gpuplan::io::read_hugging_face_config(config);
  if (!read.shape) return read.reason;
  setup.model = *read.shape;
  gpuplan::set_dropouts(read.dropouts, setup);
  // What is wrapped has another class around it.
  auto by = gpuplan::catalog::implementation_of(
      read.composite.size() != 0 ? read.model_type : source.text("model_class"));
  if (!by) by = gpuplan::catalog::implementation_of(read.model_type);
  if (!by) return gpuplan::failure_text(by.why()).c_str();
  setup.framework = by->framework;
  read_version(source, setup);
  if (read.composite.size() == 0) return {};
  described.composite = std::make_shared<gpuplan::composite_model>(read.composite);
  setup.composite = described.composite.get();
  const json inputs = inputs_of(source);
  if (inputs.contains("image_grid_thw") && inputs.contains("pixel_values"))
    return read_grids(source, inputs, *described.composite);
  read_images(source, inputs, *described.composite);
  return {};
}

std::string read_recomputation(const row& source, gpuplan::training_setup& setup) {
  const std::string_view recompute = source.text("recompute");
  if (recompute == "full")
    setup.recompute = gpuplan::recompute_mode::full;
  else if (recompute != "none" && !recompute.empty())
    return "what recomputation '" + std::string(recompute) + "' repeats is not known";
  return {};
}

// Samples of a waveform, and labels that are aligned with it.
void read_waveforms(const json& inputs, gpuplan::training_setup& setup) {
  const auto length = [&](const char* name) -> std::int64_t {
    if (!inputs.contains(name)) return 0;
    const json& shape = inputs.at(name).value("shape", json::array());
    return shape.size() == 2 && shape[1].is_number_unsigned() ? shape[1].get<std::int64_t>() : 0;
  };
  setup.sequence_length = length("input_values");
  setup.target_length = length("labels");
}

}  // namespace

described_setup describe_configured_step(const row& source) {
  described_setup described;
  gpuplan::training_setup& setup = described.setup;
  described.why_not = read_model(source, config_of(source), described);
  if (!described.why_not.empty()) return described;
  const std::string_view wrap = source.text("wrap");
  constexpr std::string_view known[] = {"", "Classifier", "MeanPool", "VLA", "Gr00t"};
  if (std::find(std::begin(known), std::end(known), wrap) == std::end(known)) {
    described.why_not = "what loss '" + std::string(wrap) + "' puts around the model is not known";
    return described;
  }
  setup.sequence_length = source.integer_or("sequence_length", 0);
  setup.target_length = source.integer_or("decoder_seq_len", 0);
  if (setup.model.audio.convolutions() != 0) read_waveforms(inputs_of(source), setup);
  if (wrap == "MeanPool") {  // ids0, mask0, ids1, ...
    setup.encodings = static_cast<std::int64_t>(inputs_of(source).size() / 2);
    setup.model.head = gpuplan::head_kind::none;
  }
  setup.framework.implementation.liger_kernels = source.flag("liger_kernels");
  setup.padding_mask = source.flag("padding_mask");
  if (source.text("attention") == "eager") setup.attention = gpuplan::attention_kernel::eager;
  if (source.text("attention") == "math") setup.attention = gpuplan::attention_kernel::math;
  for (const auto& read : {read_numerics(source, setup),
                           read_recomputation(source, setup),
                           read_adapters(source, setup, described.composite.get())})
    if (!read.empty()) {
      described.why_not = read;
      return described;
    }
  if (!source.blank("parallel")) described.why_not = read_parallel(source, setup);
  if (!described.why_not.empty()) return described;
  if (described.composite) freeze_parts(source, *described.composite);
  described.plan = {.micro_batch = source.integer_or("micro_batch", 1),
                    .data_parallel = source.integer_or("world_size", 1),
                    .accumulation = source.integer_or("accumulation", 1)};
  if (const auto valid = validate(setup, described.plan); !valid)
    described.why_not = gpuplan::failure_text(valid.why()).c_str();
  return described;
}

void compare_configured_step(row_comparisons& row) {
  const described_setup described = describe_configured_step(row.source);
  std::string why_not = described.why_not;
  gpuplan::step_counts counts;
  if (why_not.empty()) {
    const auto counted = gpuplan::counts_of(described.setup, described.plan);
    if (counted)
      counts = *counted;
    else
      why_not = gpuplan::failure_text(counted.why()).c_str();
  }
  const auto compare = [&](quantity what, const char* column, std::int64_t counted) {
    row.count(what, column, [&]() -> prediction {
      if (!why_not.empty()) return why_not;
      return number(counted);
    });
  };
  compare(quantity::parameters, "params_total", counts.parameters);
  compare(quantity::trainable_parameters, "params_trainable", counts.trainable);
  compare(quantity::flops_total,
          "matmul_flops_forward_backward",
          static_cast<std::int64_t>(counts.hardware().value()));
  compare_work(row, counts, why_not);
  compare_step_memory(row);
  compare_step_time(row);
}

}  // namespace accuracy
