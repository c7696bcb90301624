#pragma once

// Reads the keys of a trainer's file, and remembers which of them were asked for.

#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/io/trainer/training_config.hpp>
#include <gpuplan/io/value.hpp>
#include <gpuplan/known.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gpuplan::io::detail {

/// A value as a message shows it.
[[nodiscard]] inline std::string shown(const value& is) {
  if (const bool* const flag = is.flag()) return *flag ? "true" : "false";
  if (const std::int64_t* const integer = is.integer()) return std::to_string(*integer);
  if (const double* const number = is.number()) return decimal(*number, cell::shortest);
  if (const std::string* const text = is.text())
    return "\"" + printable(text->size() > 80 ? text->substr(0, 80) + "..." : *text) + "\"";
  if (is.items()) return "a list";
  return is.members() ? "an object" : "nothing";
}

/// That a key names a file, of which the training is told more.
[[nodiscard]] inline remark other_file(std::string_view key, const std::string& name) {
  return {remark::kind::missing,
          printable(std::string(key)),
          "is " + shown(value(name)) + ", another file: give it too, beside this one",
          name};
}

/// One file's settings. Paths are written with points: "zero_optimization.stage". A key that is
/// null is absent. What has another type than is asked for is a remark, and absent then.
class settings_reader {
 public:
  settings_reader(const value& settings, read_config& to) : settings_(settings), to_(to) {}

  /// The value of a key, or nullptr; from now on it is understood, with all below it where
  /// `with_all_below`.
  const value* find(std::string_view path, bool with_all_below = false) {
    const value* at = &settings_;
    while (at != nullptr && !path.empty()) {
      const std::size_t end = path.find('.');
      if (at != &settings_) mark(*at).asks_below = true;
      at = at->find(path.substr(0, end));
      path = end == std::string_view::npos ? std::string_view() : path.substr(end + 1);
    }
    if (at == nullptr) return nullptr;
    asked& found = mark(*at);
    found.is_asked = true;
    found.with_all_below = found.with_all_below || with_all_below;
    return at->is_nothing() ? nullptr : at;
  }
  [[nodiscard]] bool has(std::string_view path) { return find(path) != nullptr; }

  /// A whole number of at least `least`; 5e7 is one too.
  known<std::int64_t> integer(std::string_view path, std::int64_t least = 1) {
    const value* const found = find(path);
    if (found == nullptr) return {};
    std::int64_t whole = 0;
    const double* const number = found->number();
    if (found->integer() != nullptr)
      whole = *found->integer();
    else if (number != nullptr && std::trunc(*number) == *number && std::abs(*number) < 0x1p53)
      whole = static_cast<std::int64_t>(*number);
    else
      return wrong(path, *found, "a whole number"), known<std::int64_t>();
    if (whole < least || whole > most)
      return wrong(path,
                   *found,
                   "a whole number from " + std::to_string(least) + " to " + std::to_string(most)),
             known<std::int64_t>();
    return whole;
  }
  /// A finite number of at least `least`.
  known<double> number(std::string_view path, double least = 0) {
    const value* const found = find(path);
    if (found == nullptr) return {};
    double is = std::nan("");
    if (const std::int64_t* const whole = found->integer()) is = static_cast<double>(*whole);
    if (const double* const number = found->number()) is = *number;
    if (!std::isfinite(is)) return wrong(path, *found, "a number"), known<double>();
    if (is < least)
      return wrong(path, *found, "a number of at least " + decimal(least, cell::shortest)),
             known<double>();
    return is;
  }
  known<bool> flag(std::string_view path) {
    const value* const found = find(path);
    if (found == nullptr) return {};
    if (const bool* const is = found->flag()) return *is;
    if (const std::string* const word = found->text()) {
      if (*word == "true" || *word == "True") return true;
      if (*word == "false" || *word == "False") return false;
    }
    return wrong(path, *found, "true or false"), known<bool>();
  }
  /// Empty where it is absent.
  std::string text(std::string_view path) {
    const value* const found = find(path);
    if (found == nullptr) return "";
    if (const std::string* const is = found->text()) return *is;
    return wrong(path, *found, "a text"), "";
  }
  /// What a word stands for; a word that is none of them is a remark with all of them.
  template <class T>
  known<T> word(std::string_view path, std::initializer_list<std::pair<const char*, T>> words) {
    const std::string is = text(path);
    if (is.empty()) return {};
    std::string all;
    for (const auto& [name, meaning] : words) {
      if (is == name) return meaning;
      all += (all.empty() ? "" : ", ") + std::string(name);
    }
    return wrong(path, value(is), "one of " + all), known<T>();
  }

  /// These change neither memory nor time, or gpuplan does not plan them: understood, and passed
  /// over with all below them.
  void pass_over(std::initializer_list<const char*> paths) {
    for (const char* const path : paths) find(path, true);
  }
  /// The same for many keys: words with a space between them, each behind `prefix`.
  void pass_over_words(std::string_view prefix, std::string_view words) {
    std::string path(prefix);
    while (!words.empty()) {
      const std::size_t end = words.find(' ');
      path.resize(prefix.size());
      find(path += words.substr(0, end), true);
      words = end == std::string_view::npos ? std::string_view() : words.substr(end + 1);
    }
  }
  void remark_on(remark::kind is, std::string_view key, std::string text) {
    to_.remarks.push_back({is, std::string(key), std::move(text)});
  }

  /// A doubt that goes where the estimate is of the file's own loss.
  void remark_on_objective(std::string_view key, std::string text) {
    to_.remarks.push_back(
        {.key = std::string(key), .text = std::move(text), .is_of_objective = true});
  }

  /// A key that names another file of the training. No path in a file is followed.
  void remark_on_file(std::string_view key, const std::string& name) {
    to_.remarks.push_back(other_file(key, name));
  }

  /// Puts all keys that nobody asked for into `not_understood`. To call at the end.
  void name_the_others() { name_the_others(settings_, ""); }

 private:
  static constexpr std::int64_t most = std::int64_t{1} << 40;

  void wrong(std::string_view path, const value& found, const std::string& takes) {
    // A class of its own, as Hydra writes it, is no wrong value.
    if (found.find("_target_") != nullptr)
      return to_.not_understood.push_back(printable(std::string(path)));
    const std::string* const text = found.text();
    if (text != nullptr && text->find_first_of("$`") != std::string::npos)
      return remark_on(
          remark::kind::doubtful,
          path,
          "is " + shown(found) + ", which the file does not say; " + takes + " is taken");
    remark_on(remark::kind::contradicts, path, "is " + shown(found) + "; " + takes + " is taken");
  }
  // What was asked of a value that is there.
  struct asked {
    bool is_asked = false;
    bool with_all_below = false;
    bool asks_below = false;
  };
  asked& mark(const value& of) { return asked_[&of]; }
  void name_the_others(const value& in, const std::string& path) {
    if (in.members() == nullptr) return;
    // Of several of a name the last is asked for.
    std::unordered_map<std::string_view, const value*> last;
    for (const auto& [name, member] : *in.members()) last[name] = &member;
    for (const auto& [name, member] : *in.members()) {
      const auto found = asked_.find(last[name]);
      const asked is = found == asked_.end() ? asked() : found->second;
      if (is.is_asked && (is.with_all_below || !is.asks_below)) continue;
      const std::string here = path.empty() ? name : path + "." + name;
      if (is.asks_below && member.members() != nullptr)
        name_the_others(member, here);
      else if (!is.is_asked)
        to_.not_understood.push_back(printable(here));
    }
  }

  const value& settings_;
  read_config& to_;
  std::unordered_map<const value*, asked> asked_{};
};

}  // namespace gpuplan::io::detail
