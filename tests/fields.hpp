#pragma once

// What a description is made of, down to its numbers, enumerators and switches, without a list of
// its fields: so that a test can set each of them to whatever there is, and a new field is not
// forgotten. The same walk tells whether an answer is one.

#include <gpuplan/known.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/units.hpp>

#include <boost/preprocessor/repetition/enum.hpp>
#include <boost/preprocessor/repetition/enum_params.hpp>
#include <boost/preprocessor/repetition/repeat.hpp>
#include <boost/preprocessor/repetition/repeat_from_to.hpp>

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace fields {

/// The members of an aggregate: as many as `{}` can be given for.
template <class T>
constexpr std::size_t count_of() {
  std::size_t count = 0;
#define GPUPLAN_NOTHING(z, at, unused) \
  {}
#define GPUPLAN_COUNT(z, many, unused) \
  if constexpr (requires { T{BOOST_PP_ENUM(many, GPUPLAN_NOTHING, unused)}; }) count = many;
  BOOST_PP_REPEAT_FROM_TO(1, 97, GPUPLAN_COUNT, unused)
#undef GPUPLAN_COUNT
#undef GPUPLAN_NOTHING
  return count;
}

/// Calls `visit` with each member. Structured bindings need one case for each number of them.
template <class T, class Visit>
void for_each_member(T& object, Visit visit) {
  constexpr std::size_t count = count_of<std::remove_const_t<T>>();
  if constexpr (count == 0) {
    static_cast<void>(object);
  }
#define GPUPLAN_VISIT(z, at, unused) visit(m##at);
#define GPUPLAN_MEMBERS(z, many, unused)             \
  else if constexpr (count == many) {                \
    auto& [BOOST_PP_ENUM_PARAMS(many, m)] = object;  \
    BOOST_PP_REPEAT_##z(many, GPUPLAN_VISIT, unused) \
  }
  BOOST_PP_REPEAT_FROM_TO(1, 96, GPUPLAN_MEMBERS, unused)
#undef GPUPLAN_MEMBERS
#undef GPUPLAN_VISIT
  else static_assert(count < 96, "more cases are needed");
}

template <class T>
struct is_known : std::false_type {};
template <class T>
struct is_known<gpuplan::known<T>> : std::true_type {};
template <class T>
struct is_range : std::false_type {};
template <class T>
struct is_range<gpuplan::range<T>> : std::true_type {};

/// A number, a switch, an enumerator: what one value is enough for.
template <class T>
concept plain = std::is_arithmetic_v<T> || std::is_enum_v<T> || gpuplan::any_quantity<T>;

// Whether an enumeration names this value, by what the compiler calls it.
template <auto Value>
constexpr bool is_named() {
  const std::string_view name = __PRETTY_FUNCTION__;
  const std::size_t at = name.find("Value = ") + 8;
  return at < name.size() && name[at] != '(' && (name[at] < '0' || name[at] > '9');
}
template <class T, int Value = 0>
constexpr int enumerators() {
  if constexpr (Value < 32 && is_named<static_cast<T>(Value)>())
    return enumerators<T, Value + 1>();
  else
    return Value;
}

inline const std::vector<double>& edge_numbers() {
  using limits = std::numeric_limits<double>;
  static const std::vector<double> edges{0,
                                         -0.0,
                                         -1,
                                         1,
                                         0.5,
                                         2,
                                         1e9,
                                         limits::denorm_min(),
                                         limits::min(),
                                         limits::max(),
                                         limits::lowest(),
                                         limits::infinity(),
                                         -limits::infinity(),
                                         limits::quiet_NaN()};
  return edges;
}
inline const std::vector<std::int64_t>& edge_integers() {
  using limits = std::numeric_limits<std::int64_t>;
  static const std::vector<std::int64_t> edges{0,
                                               -1,
                                               1,
                                               2,
                                               3,
                                               64,
                                               1 << 20,
                                               std::int64_t{1} << 31,
                                               std::int64_t{1} << 40,
                                               std::int64_t{1} << 62,
                                               limits::max(),
                                               limits::min()};
  return edges;
}

/// As the compiler spells the type.
template <class T>
std::string_view name_of() {
  const std::string_view name = __PRETTY_FUNCTION__;
  const std::size_t at = name.find("T = ") + 4;
  return name.substr(at, name.find_first_of(";]", at) - at);
}

/// All values that a field of this type is given.
template <plain T>
std::vector<T> edges_of() {
  std::vector<T> edges;
  if constexpr (std::is_same_v<T, bool>) {
    edges = {false, true};
  } else if constexpr (std::is_enum_v<T>) {
    for (int at = 0; at < enumerators<T>(); ++at) edges.push_back(static_cast<T>(at));
  } else if constexpr (std::is_integral_v<T>) {
    for (const std::int64_t each : edge_integers())
      if (std::in_range<T>(each)) edges.push_back(static_cast<T>(each));
    if (sizeof(T) < 8) {
      edges.push_back(std::numeric_limits<T>::max());
      edges.push_back(std::numeric_limits<T>::min());
    }
  } else if constexpr (std::is_floating_point_v<T>) {
    for (const double each : edge_numbers()) edges.push_back(each);
  } else {
    for (const double each : edge_numbers()) edges.push_back(T::from_value(each));
  }
  return edges;
}

/// Counts fields, and sets one of them.
class setter {
 public:
  /// The field of this number, to the edge of that number.
  setter(std::size_t field, std::size_t edge) : field_(field), edge_(edge) {}

  template <class T>
  void walk(T& object) {
    if constexpr (plain<T>) {
      if (here()) object = edge_in(edges_of<T>());
    } else if constexpr (is_range<T>::value) {
      if (here()) object = edge_in(ranges_of(object.low()));
    } else if constexpr (is_known<T>::value) {
      walk_known(object);
    } else if constexpr (std::is_array_v<T>) {
      // Its elements are alike.
      for (std::size_t at = 0; at < std::extent_v<T> && at < 3; ++at) walk(object[at]);
    } else if constexpr (std::is_aggregate_v<T>) {
      int number = 0;
      for_each_member(object, [&](auto& member) {
        const bool is_here = at_ <= field_;
        walk(member);
        if (is_here && at_ > field_)
          path_ = std::string(name_of<T>()) + "[" + std::to_string(number) + "]" +
                  (path_.empty() ? "" : ", ") + path_;
        ++number;
      });
    }
    // what is pointed to is data of the library's
  }

  [[nodiscard]] std::size_t fields() const { return at_; }
  /// Whether there is such a field with such an edge.
  [[nodiscard]] bool has_set() const { return has_set_; }
  /// Where it is: "cluster[1], gpu_spec[10]", of the members of each, counted from 0.
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  [[nodiscard]] bool here() { return at_++ == field_; }
  template <class T>
  T edge_in(const std::vector<T>& edges) {
    has_set_ = edge_ < edges.size();
    return has_set_ ? edges[edge_] : edges.front();
  }
  template <class T>
  static std::vector<gpuplan::range<T>> ranges_of(T) {
    std::vector<gpuplan::range<T>> ranges;
    const std::vector<T> edges = edges_of<T>();
    for (const T& low : edges)
      for (const T& high : edges)
        if (low <= high) ranges.push_back({low, high});
    return ranges;
  }
  // Absent, and where its value is one number, each of these.
  template <class T>
  void walk_known(gpuplan::known<T>& object) {
    if constexpr (std::is_pointer_v<T>) return;
    if (here()) {
      std::vector<gpuplan::known<T>> edges{{}, {T{}}};
      if constexpr (plain<T>)
        for (const T& each : edges_of<T>()) edges.push_back(each);
      if constexpr (is_range<T>::value)
        for (const T& each : ranges_of(T{}.low())) edges.push_back(each);
      object = edge_in(edges);
    } else if (object) {
      if constexpr (!plain<T> && !is_range<T>::value) {
        T value = *object;
        walk(value);
        object = value;
      }
    }
  }

  std::size_t field_;
  std::size_t edge_;
  std::size_t at_ = 0;
  bool has_set_ = false;
  std::string path_;
};

/// Sets a field to an edge; false where there is none.
template <class T>
bool set(T& object, std::size_t field, std::size_t edge) {
  setter walks(field, edge);
  walks.walk(object);
  return walks.has_set();
}
/// Where the field is.
template <class T>
std::string path_of(T object, std::size_t field) {
  setter walks(field, 0);
  walks.walk(object);
  return walks.path();
}
/// How many fields it has.
template <class T>
std::size_t fields_of(T object) {
  setter walks(std::numeric_limits<std::size_t>::max(), 0);
  walks.walk(object);
  return walks.fields();
}

/// Whether all numbers of an answer are finite, and none is negative.
template <class T>
bool is_sound(const T& answer) {
  if constexpr (std::is_floating_point_v<T>)
    return std::isfinite(answer) && answer >= 0;
  else if constexpr (std::is_integral_v<T>)
    return !(answer < T{});
  else if constexpr (std::is_enum_v<T>)
    return true;
  else if constexpr (gpuplan::any_quantity<T>)
    return is_sound(answer.value());
  else if constexpr (is_range<T>::value)
    return is_sound(answer.low()) && is_sound(answer.high()) && answer.low() <= answer.high();
  else if constexpr (is_known<T>::value)
    return !answer || is_sound(*answer);
  else if constexpr (std::is_array_v<T> || requires { answer.begin() != answer.end(); }) {
    bool sound = true;
    for (const auto& each : answer) sound = sound && is_sound(each);
    return sound;
  } else if constexpr (std::is_aggregate_v<T>) {
    bool sound = true;
    for_each_member(answer, [&](const auto& member) { sound = sound && is_sound(member); });
    return sound;
  } else {
    return true;
  }
}

}  // namespace fields
