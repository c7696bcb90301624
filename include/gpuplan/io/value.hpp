#pragma once

// What files of settings hold, whichever notation they are written in: JSON, YAML, TOML, command
// lines.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace gpuplan::io {

/// Nothing, true or false, a whole number, another number, a text, a list, or an object whose
/// members keep their order.
class value {
 public:
  using list = std::vector<value>;
  using member = std::pair<std::string, value>;
  using object = std::vector<member>;

  // Conversions on purpose: {"bf16", {{"enabled", true}}} is an object in an object.
  value() = default;
  value(bool is) : is_(is) {}
  value(std::int64_t is) : is_(is) {}
  value(int is) : is_(std::int64_t{is}) {}
  value(double is) : is_(is) {}
  value(std::string is) : is_(std::move(is)) {}
  value(std::string_view is) : is_(std::string(is)) {}
  value(const char* is) : is_(std::string(is)) {}
  value(list is) : is_(std::move(is)) {}
  value(object is) : is_(std::move(is)) {}

  // The copy is made before a variant holds it: of libstdc++ 12, a variant whose own copy
  // throws is destroyed as what it never held.
  value(const value& other) {
    std::visit(
        [this](const auto& held) {
          auto copy = held;
          is_ = std::move(copy);
        },
        other.is_);
  }
  value(value&&) noexcept = default;
  value& operator=(const value& other) {
    value copy(other);
    is_ = std::move(copy.is_);
    return *this;
  }
  value& operator=(value&&) noexcept = default;
  ~value() = default;

  [[nodiscard]] bool is_nothing() const { return std::holds_alternative<std::monostate>(is_); }
  /// What it is, or nullptr where it is something else.
  [[nodiscard]] const bool* flag() const { return std::get_if<bool>(&is_); }
  [[nodiscard]] const std::int64_t* integer() const { return std::get_if<std::int64_t>(&is_); }
  [[nodiscard]] const double* number() const { return std::get_if<double>(&is_); }
  [[nodiscard]] const std::string* text() const { return std::get_if<std::string>(&is_); }
  [[nodiscard]] const list* items() const { return std::get_if<list>(&is_); }
  [[nodiscard]] list* items() { return std::get_if<list>(&is_); }
  [[nodiscard]] const object* members() const { return std::get_if<object>(&is_); }
  [[nodiscard]] object* members() { return std::get_if<object>(&is_); }

  /// The member of this name, the last of several; nullptr where there is none, or no object.
  [[nodiscard]] const value* find(std::string_view name) const {
    const object* const all = members();
    for (std::size_t at = all ? all->size() : 0; at > 0; --at)
      if ((*all)[at - 1].first == name) return &(*all)[at - 1].second;
    return nullptr;
  }
  /// The member of this name, added behind the others where there is none. What is no object
  /// becomes one.
  value& operator[](std::string_view name) {
    if (!members()) is_ = object();
    for (member& held : *members())
      if (held.first == name) return held.second;
    members()->emplace_back(std::string(name), value());
    return members()->back().second;
  }

  friend bool operator==(const value&, const value&) = default;

 private:
  std::variant<std::monostate, bool, std::int64_t, double, std::string, list, object> is_;
};

/// What was read of a text, or what is wrong with the text: one of both.
struct parsed_value {
  value is{};
  std::string why{};  // a sentence with the line; empty: nothing is wrong

  [[nodiscard]] explicit operator bool() const { return why.empty(); }
};

/// Of a file of settings: the most bytes, values, and depth of lists and objects that are read.
inline constexpr std::size_t most_of_settings = std::size_t{4} << 20;
inline constexpr std::size_t most_values = std::size_t{1} << 18;
inline constexpr int most_depth_of_settings = 32;

}  // namespace gpuplan::io
