#pragma once

// Random trainings that do not contradict themselves, to write into files of trainers; files with
// random faults; and whether two configs say the same.

#include <gpuplan/io/trainer/config_members.hpp>
#include <gpuplan/io/trainer/training_config.hpp>
#include <gpuplan/io/value.hpp>
#include <gpuplan/known.hpp>

#include "random_numbers.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace random_config {

using namespace gpuplan;

/// One of these.
template <class T>
T one_of(random_numbers& random, std::initializer_list<T> from) {
  return from.begin()[random.below(static_cast<std::int64_t>(from.size()))];
}

inline optimizer any_optimizer(random_numbers& random) {
  optimizer made;
  made.kind = one_of(random,
                     {optimizer_kind::adamw,
                      optimizer_kind::adamw,
                      optimizer_kind::adamw,
                      optimizer_kind::sgd,
                      optimizer_kind::sgd_momentum,
                      optimizer_kind::adafactor,
                      optimizer_kind::lion,
                      optimizer_kind::muon,
                      optimizer_kind::rmsprop,
                      optimizer_kind::adagrad});
  made.library = one_of(random,
                        {optimizer_library::torch,
                         optimizer_library::torch,
                         optimizer_library::bitsandbytes,
                         optimizer_library::torchao});
  if (made.library == optimizer_library::torch)
    made.loop =
        one_of(random, {optimizer_loop::foreach, optimizer_loop::fused, optimizer_loop::parameter});
  else
    made.states = one_of(random, {number_format::fp32, number_format::int8});
  made.pages_states = made.library == optimizer_library::bitsandbytes && random.below(2) == 0;
  made.widens_embeddings = made.library == optimizer_library::bitsandbytes &&
                           made.states == number_format::int8 && random.below(4) != 0;
  return made;
}

inline lora any_adapters(random_numbers& random) {
  lora made{.rank = 1 + random.below(256), .targets = {}};
  for (bool lora_targets::*const target : {&lora_targets::query,
                                           &lora_targets::key,
                                           &lora_targets::value,
                                           &lora_targets::attention_out,
                                           &lora_targets::gate,
                                           &lora_targets::up,
                                           &lora_targets::down})
    made.targets.*target = random.below(2) == 0;
  if (random.below(3) == 0) made.targets = all_linear;
  if (made.targets == lora_targets{}) made.targets = query_and_value;
  if (random.below(2) == 0) made.dropout = 0.01 * static_cast<double>(random.below(101));
  made.magnitudes = random.below(4) == 0;
  made.copy_embedding = random.below(4) == 0;
  made.copy_head = random.below(4) == 0;
  made.base = one_of(random, {quantised_base{}, four_bit_base, double_quantised_base});
  return made;
}

/// Each member is absent in two of five cases.
inline io::training_config any(random_numbers& random) {
  io::training_config made;
  const auto power = [&](std::int64_t most) { return std::int64_t{1} << random.below(most); };
  const auto number = [&](double unit) {
    return unit * static_cast<double>(1 + random.below(999));
  };
  made.model = one_of<const char*>(
      random, {"meta-llama/Llama-3.1-8B", "Qwen/Qwen3-0.6B", "openai-community/gpt2", "/data/m-1"});
  made.sequence_length = 128 * (1 + random.below(256));
  made.packing = random.below(2) == 0;
  made.padding_free = random.below(2) == 0;
  made.trains = one_of(random, {training::full, training::full, training::adapters});
  if (*made.trains == training::adapters) made.adapters = any_adapters(random);
  made.micro_batch = 1 + random.below(64);
  made.accumulation = 1 + random.below(32);
  const std::int64_t replicas = power(6);
  made.data_parallel = replicas;
  made.global_batch = *made.micro_batch * *made.accumulation * replicas;
  made.shard_group = power(3) < replicas ? power(2) : replicas;
  if (replicas % *made.shard_group != 0) made.shard_group = replicas;
  made.tensor_parallel = power(4);
  made.pipeline_parallel = random.below(4) == 0 ? power(3) : 1;
  made.virtual_pipeline = *made.pipeline_parallel > 1 ? power(3) : 1;
  made.context_parallel = random.below(4) == 0 ? power(3) : 1;
  made.expert_parallel = random.below(4) == 0 ? power(3) : 1;
  made.gpus = replicas * *made.tensor_parallel * *made.pipeline_parallel * *made.context_parallel;
  made.gpus_per_node = std::min<std::int64_t>(*made.gpus, 8);
  made.nodes = *made.gpus / *made.gpus_per_node;
  made.sequence_parallel = random.below(2) == 0;
  made.zero_stage = static_cast<int>(random.below(4));
  made.optimizer_on_host = random.below(4) == 0;
  made.weights_on_host = random.below(4) == 0;
  made.engine = one_of<const char*>(random, {"ddp", "fsdp2", "deepspeed", "megatron"});
  made.precision = one_of(random,
                          {io::training_precision::fp32,
                           io::training_precision::tf32,
                           io::training_precision::fp16,
                           io::training_precision::bf16,
                           io::training_precision::bf16,
                           io::training_precision::fp8,
                           io::training_precision::pure_bf16});
  if (*made.precision == io::training_precision::bf16)
    made.weights = one_of(random, {number_format::fp32, number_format::bf16});
  made.optimizer = any_optimizer(random);
  made.recompute = one_of(random,
                          {recompute_mode::none,
                           recompute_mode::none,
                           recompute_mode::selective,
                           recompute_mode::full});
  made.attention = one_of(random,
                          {attention_kernel::automatic,
                           attention_kernel::flash,
                           attention_kernel::efficient,
                           attention_kernel::math,
                           attention_kernel::eager});
  made.dropout = number(1e-3);
  made.clip_norm = one_of(random, {0.0, 1.0, 0.5});
  made.learning_rate = number(1e-6);
  made.least_learning_rate = *made.learning_rate * 0.125;
  if (random.below(2) == 0)
    made.warm_up_steps = static_cast<double>(random.below(2000));
  else
    made.warm_up_share = number(1e-3);
  made.schedule = one_of(random,
                         {io::rate_schedule::constant,
                          io::rate_schedule::linear,
                          io::rate_schedule::cosine,
                          io::rate_schedule::wsd});
  if (*made.schedule == io::rate_schedule::wsd) made.decay_steps = 1 + random.below(1000);
  made.weight_decay = number(1e-3);
  if (random.below(2) == 0)
    made.steps = 1 + random.below(100'000);
  else
    made.epochs = number(0.01);
  made.samples = 1 + random.below(1'000'000);
  const bool has_adapters = *made.trains == training::adapters;
  io::for_each_member(made, [&](const std::string& name, auto& member) {
    const bool stays = has_adapters && (name == "trains" || name == "adapters");
    if (!stays && random.below(5) < 2) member = {};
  });
  return made;
}

inline bool is_same(double a, double b) { return std::abs(a - b) <= 1e-12 * std::abs(a); }
template <class T>
bool is_same(const T& a, const T& b) {
  return a == b;
}

/// The names of members that two configs do not say alike: absent in one, or another value, of
/// numbers with a point by more than 1e-12.
inline std::vector<std::string> differences(const io::training_config& a,
                                            const io::training_config& b) {
  std::vector<std::string> found;
  io::for_each_member(a, [&](const char* name, const auto& member) {
    io::for_each_member(b, [&](const char* other_name, const auto& other) {
      if constexpr (std::is_same_v<decltype(member), decltype(other)>) {
        if (std::string(name) != other_name) return;
        if (io::is_said(member) != io::is_said(other)) {
          found.emplace_back(name);
        } else if (io::is_said(member)) {
          if constexpr (std::is_same_v<std::remove_cvref_t<decltype(member)>, std::string>) {
            if (member != other) found.emplace_back(name);
          } else if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(member)>,
                                               known<transformer>>) {
            if (!is_same(*member, *other)) found.emplace_back(name);
          }
        }
      }
    });
  });
  return found;
}

/// Forgets these members.
inline void forget(io::training_config& config, const std::vector<std::string>& names) {
  io::for_each_member(config, [&](const char* name, auto& member) {
    if (std::find(names.begin(), names.end(), name) != names.end()) member = {};
  });
}

/// Settings with one to four faults: other types, extreme numbers, other texts, keys that are lost,
/// doubled or spelled otherwise.
inline io::value odd_value(random_numbers& random) {
  switch (random.below(14)) {
    case 0:
      return {};
    case 1:
      return random.below(2) == 0;
    case 2:
      return std::int64_t{-1};
    case 3:
      return std::int64_t{0};
    case 4:
      return INT64_MIN;
    case 5:
      return INT64_MAX;
    case 6:
      return std::nan("");
    case 7:
      return 1e308;
    case 8:
      return -0.5;
    case 9:
      return "auto";
    case 10:
      return std::string(static_cast<std::size_t>(random.below(300)), '\xff');
    case 11:
      return "";
    case 12:
      return io::value::list{1, "q_proj", io::value(io::value::object{})};
    default:
      return io::value::object{{"enabled", true}, {"", 1}, {".", io::value::object{}}};
  }
}

inline io::value& anywhere_in(io::value& settings, random_numbers& random) {
  io::value* at = &settings;
  while (random.below(4) != 0) {
    if (auto* const members = at->members(); members != nullptr && !members->empty())
      at = &(*members)[static_cast<std::size_t>(
                           random.below(static_cast<std::int64_t>(members->size())))]
                .second;
    else if (auto* const items = at->items(); items != nullptr && !items->empty())
      at = &(
          *items)[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(items->size())))];
    else
      break;
  }
  return *at;
}

inline io::value with_faults(io::value settings, random_numbers& random) {
  for (std::int64_t left = 1 + random.below(4); left > 0; --left) {
    io::value& at = anywhere_in(settings, random);
    auto* const members = at.members();
    const std::int64_t kind = random.below(6);
    if (members == nullptr || members->empty() || kind < 2) {
      at = odd_value(random);
      continue;
    }
    const auto which =
        static_cast<std::size_t>(random.below(static_cast<std::int64_t>(members->size())));
    if (kind == 2)
      members->erase(members->begin() + static_cast<std::ptrdiff_t>(which));
    else if (kind == 3)
      members->emplace_back((*members)[which].first, odd_value(random));
    else if (kind == 4)
      (*members)[which].first += one_of<const char*>(random, {".", "x", "\n", ".enabled"});
    else
      (*members)[which].second = anywhere_in(settings, random).is_nothing()
                                     ? odd_value(random)
                                     : io::value((*members)[(which + 1) % members->size()].second);
  }
  return settings;
}

/// What becomes of `cases` random configs, which `write` writes and `read` reads.
struct round_trips {
  int written = 0;
  int refused = 0;
  // Members of one that came back otherwise, and what else should not be, each with an end of line.
  std::string different{};
};

/// Writes random configs and reads them back. Members that are not written, and those of
/// `elsewhere` (in the command, or in no file), are not compared; nor are those of `filled_in`,
/// where the config does not say them.
template <class Write, class Read>
round_trips make_round_trips(int cases,
                             const std::vector<std::string>& elsewhere,
                             const std::vector<std::string>& filled_in,
                             Write write,
                             Read read) {
  random_numbers random(2026);
  round_trips made;
  for (int left = cases; left > 0; --left) {
    io::training_config config = any(random);
    const io::written_config written = write(config);
    if (!written) {
      ++made.refused;
      continue;
    }
    ++made.written;
    const io::read_config back = read(written);
    io::training_config again = back.config;
    io::for_each_member(config, [&](const std::string& name, const auto& member) {
      if (!io::is_said(member) &&
          std::find(filled_in.begin(), filled_in.end(), name) != filled_in.end())
        forget(again, {name});
    });
    for (io::training_config* one : {&config, &again}) {
      forget(*one, written.not_written);
      forget(*one, elsewhere);
    }
    for (const std::string& name : differences(config, again)) made.different += name + "\n";
    for (const io::remark& said : back.remarks)
      if (said.is == io::remark::kind::contradicts)
        made.different += said.key + " " + said.text + "\n";
    for (const std::string& key : back.not_understood) made.different += key + "\n";
    if (!back) made.different += back.why;
    if (!made.different.empty()) return made;
  }
  return made;
}

}  // namespace random_config
