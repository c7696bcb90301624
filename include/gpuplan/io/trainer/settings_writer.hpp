#pragma once

// Tables of keys from which files of settings are both read and written, and what is left.

#include <gpuplan/io/trainer/config_members.hpp>
#include <gpuplan/io/trainer/settings_reader.hpp>
#include <gpuplan/io/trainer/training_config.hpp>
#include <gpuplan/io/value.hpp>
#include <gpuplan/known.hpp>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace gpuplan::io::detail {

/// A member of `training_config` that a key holds as it stands there.
using plain_member = std::variant<known<std::int64_t> training_config::*,
                                  known<double> training_config::*,
                                  known<bool> training_config::*,
                                  std::string training_config::*>;

struct plain_key {
  const char* path;
  plain_member member;
  std::int64_t least = 1;  // of whole numbers
};

/// A word of a file, and what it stands for.
template <class T>
struct word {
  const char* name;
  T is;
};

/// The members that these keys hold; a later key of a member counts only where it has none yet.
template <class Keys>
void read_plain(settings_reader& from, const Keys& keys, training_config& to) {
  for (const plain_key& key : keys)
    std::visit(
        [&](const auto member) {
          auto& is = to.*member;
          using type = std::remove_reference_t<decltype(is)>;
          type found{};
          if constexpr (std::is_same_v<type, known<std::int64_t>>)
            found = from.integer(key.path, key.least);
          else if constexpr (std::is_same_v<type, known<double>>)
            found = from.number(key.path);
          else if constexpr (std::is_same_v<type, known<bool>>)
            found = from.flag(key.path);
          else
            found = from.text(key.path);
          if (!is_said(is)) is = found;
        },
        key.member);
}

/// Makes settings of a config, and remembers which of its members they say.
class settings_writer {
 public:
  explicit settings_writer(const training_config& config) : config_(config) {}

  /// The member; from now on it is said.
  template <class T>
  const T& take(T training_config::*member) {
    taken_.insert(&(config_.*member));
    return config_.*member;
  }
  /// Sets a key by its path, written with points.
  void put(std::string_view path, value is) {
    value* at = &settings;
    for (std::size_t end = path.find('.'); end != std::string_view::npos; end = path.find('.')) {
      at = &(*at)[path.substr(0, end)];
      path.remove_prefix(end + 1);
    }
    (*at)[path] = std::move(is);
  }
  /// Sets the keys of members that the config says, each at the first key that holds it.
  template <class Keys>
  void put_plain(const Keys& keys) {
    for (const plain_key& key : keys)
      std::visit(
          [&](const auto member) {
            const auto& is = config_.*member;
            if (!is_said(is) || taken_.count(&is) > 0) return;
            taken_.insert(&is);
            if constexpr (std::is_same_v<std::remove_cvref_t<decltype(is)>, std::string>)
              put(key.path, is);
            else
              put(key.path, *is);
          },
          key.member);
  }
  /// Sets a key to the word for a member that the config says, and is then said; false where there
  /// is no word for it.
  template <class T, class Words>
  bool put_word(std::string_view path, known<T> training_config::*member, const Words& words) {
    if (!(config_.*member)) return true;
    for (const auto& one : words)
      if (one.is == *(config_.*member)) {
        put(path, one.name);
        take(member);
        return true;
      }
    return false;
  }
  /// A part of a member that is said otherwise: "adapters.weights".
  void leave(std::string part) { parts_left_.push_back(std::move(part)); }

  /// What the config says and was not taken, and what was left.
  [[nodiscard]] std::vector<std::string> not_written() const {
    std::vector<std::string> left;
    for_each_member(config_, [&](const char* name, const auto& member) {
      if (is_said(member) && taken_.count(&member) == 0) left.emplace_back(name);
    });
    left.insert(left.end(), parts_left_.begin(), parts_left_.end());
    return left;
  }

  value settings = value(value::object());

 private:
  const training_config& config_;
  std::set<const void*> taken_{};
  std::vector<std::string> parts_left_{};
};

/// Why no file is written of a config that no reader could obey, whichever format; empty: it can.
[[nodiscard]] inline std::string flaw_of(const training_config& config) {
  for (const contradiction& one : contradictions_in(config)) return one.text;
  return "";
}

/// Says what a config that was read contradicts itself in; `key_of` gives a member's key.
template <class KeyOf>
void remark_on_contradictions(settings_reader& to, const training_config& config, KeyOf key_of) {
  for (const contradiction& one : contradictions_in(config))
    to.remark_on(remark::kind::contradicts, key_of(std::string_view(one.member)), one.text);
}

/// A copy in which a text is nothing: DeepSpeed's "auto", which is left to another file.
[[nodiscard]] inline value without_word(const value& is, std::string_view word) {
  if (const std::string* const text = is.text(); text != nullptr && *text == word) return {};
  if (const value::list* const items = is.items()) {
    value::list made;
    for (const value& item : *items) made.push_back(without_word(item, word));
    return made;
  }
  if (const value::object* const members = is.members()) {
    value::object made;
    for (const auto& [name, member] : *members) made.emplace_back(name, without_word(member, word));
    return made;
  }
  return is;
}

}  // namespace gpuplan::io::detail
