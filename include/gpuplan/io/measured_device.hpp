#pragma once

// What was measured of a device as JSON, out and in, and as a header of constants. Needs
// nlohmann/json, as json.hpp does.

#include <gpuplan/gpu.hpp>
#include <gpuplan/io/header.hpp>
#include <gpuplan/io/json_depth.hpp>
#include <gpuplan/io/measurement_record.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/measured_device.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/units.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace gpuplan::io {

namespace detail {

// What has fields, by the name that JSON and headers give its type.
template <class T>
inline constexpr const char* struct_name = nullptr;
template <>
inline constexpr const char* struct_name<measurement_record> = "measured_device";
template <>
inline constexpr const char* struct_name<measured_matmul> = "measured_matmul";
template <>
inline constexpr const char* struct_name<measured_issue> = "measured_issue";
template <>
inline constexpr const char* struct_name<measured_point> = "measured_point";
template <>
inline constexpr const char* struct_name<measured_footprint> = "measured_footprint";
template <>
inline constexpr const char* struct_name<measured_all_reduce> = "measured_all_reduce";
template <>
inline constexpr const char* struct_name<measured_host_link> = "measured_host_link";
template <>
inline constexpr const char* struct_name<matmul_shape> = "matmul_shape";
template <>
inline constexpr const char* struct_name<reading<compute_rate>> = "reading<gpuplan::compute_rate>";
template <>
inline constexpr const char* struct_name<reading<bandwidth>> = "reading<gpuplan::bandwidth>";
template <>
inline constexpr const char* struct_name<reading<duration>> = "reading<gpuplan::duration>";

template <class T>
concept with_fields = struct_name<T>
!= nullptr;

// Calls `visit(name, field)` for each field of a struct in the order of its declaration: the one
// list of them for both ways.
template <class Struct, class Visit>
void visit_fields(Struct& fields, Visit visit) {
  using type = std::remove_const_t<Struct>;
  if constexpr (std::same_as<type, measurement_record>) {
    visit("id", fields.id);
    visit("slice", fields.slice);
    visit("name", fields.name);
    visit("date", fields.date);
    visit("driver", fields.driver);
    visit("runtime", fields.runtime);
    visit("library", fields.library);
    visit("sm_count", fields.values.sm_count);
    visit("memory", fields.values.memory);
    visit("free_memory", fields.values.free_memory);
    visit("context_memory", fields.values.context_memory);
    visit("power_limit", fields.values.power_limit);
    visit("error_correction", fields.values.error_correction);
    visit("matmuls", fields.matmuls);
    visit("issue", fields.issue);
    visit("surface", fields.surface);
    visit("copy", fields.values.copy);
    visit("triad", fields.values.triad);
    visit("read", fields.values.read);
    visit("write", fields.values.write);
    visit("l2", fields.values.l2);
    visit("l2_knee", fields.values.l2_knee);
    visit("footprints", fields.footprints);
    visit("pinned", fields.values.pinned);
    visit("pageable", fields.values.pageable);
    visit("kernel_launch", fields.values.kernel_launch);
    visit("kernel_enqueue", fields.values.kernel_enqueue);
    visit("empty_kernel", fields.values.empty_kernel);
    visit("graph_node", fields.values.graph_node);
    visit("peer_copy", fields.values.peer_copy);
    visit("all_reduces", fields.all_reduces);
  } else if constexpr (std::same_as<type, measured_matmul>) {
    visit("format", fields.format);
    visit("sum", fields.sum);
    visit("shape", fields.shape);
    visit("sustained", fields.sustained);
    visit("burst", fields.burst);
    visit("zeros", fields.zeros);
    visit("own_kernel", fields.own_kernel);
  } else if constexpr (std::same_as<type, measured_issue>) {
    visit("probe", fields.probe);
    visit("format", fields.format);
    visit("sum", fields.sum);
    visit("rate", fields.rate);
    visit("flop_per_clock_per_sm", fields.flop_per_clock_per_sm);
  } else if constexpr (std::same_as<type, measured_point>) {
    visit("format", fields.format);
    visit("sum", fields.sum);
    visit("shape", fields.shape);
    visit("rate", fields.rate);
  } else if constexpr (std::same_as<type, measured_footprint>) {
    visit("footprint", fields.footprint);
    visit("rate", fields.rate);
  } else if constexpr (std::same_as<type, measured_all_reduce>) {
    visit("devices", fields.devices);
    visit("latency", fields.latency);
    visit("rate", fields.rate);
  } else if constexpr (std::same_as<type, measured_host_link>) {
    visit("to_device", fields.to_device);
    visit("from_device", fields.from_device);
    visit("both_ways", fields.both_ways);
  } else if constexpr (std::same_as<type, matmul_shape>) {
    visit("m", fields.m);
    visit("n", fields.n);
    visit("k", fields.k);
  } else {
    visit("median", fields.median);
    visit("lower_quartile", fields.lower_quartile);
    visit("upper_quartile", fields.upper_quartile);
    visit("samples", fields.samples);
    visit("clock_MHz", fields.clock_MHz);
    visit("draw", fields.draw);
  }
}

inline constexpr number_format every_format[] = {number_format::fp64,
                                                 number_format::fp32,
                                                 number_format::tf32,
                                                 number_format::bf16,
                                                 number_format::fp16,
                                                 number_format::fp8,
                                                 number_format::fp4,
                                                 number_format::int8};
inline constexpr accumulator every_accumulator[] = {accumulator::fp32, accumulator::fp16};
inline constexpr issue_probe every_probe[] = {
    issue_probe::mma_sync, issue_probe::wgmma, issue_probe::fma};

[[nodiscard]] inline auto& every(number_format) { return every_format; }
[[nodiscard]] inline auto& every(accumulator) { return every_accumulator; }
[[nodiscard]] inline auto& every(issue_probe) { return every_probe; }

template <class T>
inline constexpr bool is_known = false;
template <class T>
inline constexpr bool is_known<known<T>> = true;
template <class T>
inline constexpr bool is_rows = false;
template <class T>
inline constexpr bool is_rows<std::vector<T>> = true;

// Whether there is nothing to write.
template <class T>
[[nodiscard]] bool is_absent(const T& value) {
  if constexpr (is_known<T>)
    return !value;
  else if constexpr (is_rows<T> || std::same_as<T, std::string>)
    return value.empty();
  else if constexpr (std::same_as<T, measured_host_link>)
    return !value.to_device && !value.from_device && !value.both_ways;
  else
    return false;
}

// ---- JSON

template <class T>
[[nodiscard]] nlohmann::ordered_json as_json(const T& value) {
  if constexpr (any_quantity<T>) {
    return value.value();
  } else if constexpr (std::is_enum_v<T>) {
    return text(value);
  } else if constexpr (is_known<T>) {
    return as_json(*value);
  } else if constexpr (is_rows<T>) {
    auto array = nlohmann::ordered_json::array();
    for (const auto& row : value) array.push_back(as_json(row));
    return array;
  } else if constexpr (with_fields<T>) {
    auto object = nlohmann::ordered_json::object();
    visit_fields(value, [&](const char* name, const auto& field) {
      if (!is_absent(field)) object[name] = as_json(field);
    });
    return object;
  } else {
    return value;
  }
}

// Where a text that is read is wrong: the key, empty for all of it.
struct malformed_at {
  std::string key;
};

template <class T>
void read_json(const nlohmann::json& from, const std::string& key, T& to) {
  const auto insist = [&key](bool holds) {
    if (!holds) throw malformed_at{key};
  };
  if constexpr (any_quantity<T>) {
    insist(from.is_number());
    to = T::from_value(from.get<double>());
  } else if constexpr (std::is_enum_v<T>) {
    for (const T known : every(T{}))
      if (from == text(known)) return static_cast<void>(to = known);
    insist(false);
  } else if constexpr (is_known<T>) {
    std::remove_cvref_t<decltype(*to)> value{};
    read_json(from, key, value);
    to = value;
  } else if constexpr (is_rows<T>) {
    insist(from.is_array());
    for (const nlohmann::json& row : from) read_json(row, key, to.emplace_back());
  } else if constexpr (with_fields<T>) {
    insist(from.is_object());
    for (const auto& [name, unused] : from.items()) {
      bool has_it = false;
      visit_fields(to, [&, &wanted = name](const char* field, auto&) {
        has_it = has_it || wanted == field;
      });
      if (!has_it) throw malformed_at{name};
    }
    visit_fields(to, [&](const char* name, auto& field) {
      const auto found = from.find(name);
      if (found != from.end()) return read_json(*found, name, field);
      // Only what is not written where it is absent may be.
      if (!is_absent(std::remove_reference_t<decltype(field)>{})) throw malformed_at{name};
    });
  } else if constexpr (std::same_as<T, std::string>) {
    insist(from.is_string());
    to = from.get<std::string>();
  } else if constexpr (std::same_as<T, bool>) {
    insist(from.is_boolean());
    to = from.get<bool>();
  } else if constexpr (std::same_as<T, double>) {
    insist(from.is_number());
    to = from.get<double>();
  } else {
    insist(from.is_number_integer());
    // What 64 bits with a sign do not hold would come back as another number.
    insist(from.is_number_unsigned() ? std::in_range<T>(from.get<std::uint64_t>())
                                     : std::in_range<T>(from.get<std::int64_t>()));
    to = static_cast<T>(from.get<std::int64_t>());
  }
}

// ---- a header

[[nodiscard]] inline const char* type_of(bandwidth) { return "bandwidth"; }
[[nodiscard]] inline const char* type_of(compute_rate) { return "compute_rate"; }
[[nodiscard]] inline const char* type_of(power) { return "power"; }
[[nodiscard]] inline const char* type_of(number_format) { return "number_format"; }
[[nodiscard]] inline const char* type_of(accumulator) { return "accumulator"; }
[[nodiscard]] inline const char* enumerator(issue_probe probe) {
  return probe == issue_probe::mma_sync ? "mma_sync" : text(probe);
}

// A value as an initialiser; rows are the name of an array, which stands above.
template <class T>
[[nodiscard]] std::string initialiser(const T& value, const std::string& rows) {
  const std::string here = "gpuplan::";
  if constexpr (any_quantity<T>) {
    return here + type_of(value) + "::from_value(" + literal(value.value()) + ')';
  } else if constexpr (std::same_as<T, issue_probe>) {
    return here + "issue_probe::" + enumerator(value);
  } else if constexpr (std::is_enum_v<T>) {
    return here + type_of(value) + "::" + text(value);
  } else if constexpr (is_known<T>) {
    return initialiser(*value, rows);
  } else if constexpr (is_rows<T>) {
    return rows;
  } else if constexpr (with_fields<T>) {
    std::string out = here + struct_name<T> + '{';
    const char* separator = "";
    visit_fields(value, [&](const char* name, const auto& field) {
      if (is_absent(field)) return;
      out += std::string(separator) + '.' + name + " = " + initialiser(field, rows + '_' + name);
      separator = ", ";
    });
    return out + '}';
  } else if constexpr (std::same_as<T, std::string> || std::same_as<T, double>) {
    return literal(value);
  } else if constexpr (std::same_as<T, bool>) {
    return value ? "true" : "false";
  } else {
    return std::to_string(value);
  }
}

inline constexpr int measurement_version = 1;
inline constexpr const char* version_key = "gpuplan_measured_device";

// The measurement that an object is.
[[nodiscard]] inline result<measurement_record> measurement_of(nlohmann::json from) {
  if (!from.is_object()) return failure(errc::malformed_measurement);
  const auto version = from.find(version_key);
  if (version == from.end() || *version != measurement_version)
    return failure(errc::malformed_measurement).about(version_key);
  from.erase(version);
  measurement_record record;
  try {
    read_json(from, "", record);
  } catch (const malformed_at& where) {
    return failure(errc::malformed_measurement).about(where.key.c_str());
  }
  if (const auto valid = validate(record.view()); !valid) return valid.why();
  return record;
}

}  // namespace detail

/// The measurement as one JSON object, in bytes, seconds, FLOP and watts and their ratios: what
/// `read_measurement` reads back as the same numbers. What is absent has no key. Throws as
/// `validate` of the measurement says.
[[nodiscard]] inline std::string to_json(const measurement_record& record) {
  static_cast<void>(validate(record.view()).value_or_throw());
  nlohmann::ordered_json out;
  out[detail::version_key] = detail::measurement_version;
  out.update(detail::as_json(record));
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

/// What `to_json` wrote. Errors: `malformed_measurement` with the key that is missing, unknown, or
/// not of its kind, and as `validate` of the measurement.
[[nodiscard]] inline result<measurement_record> read_measurement(std::string_view json) {
  if (is_too_deep(json)) return failure(errc::malformed_measurement).about("its nesting");
  return detail::measurement_of(nlohmann::json::parse(json, nullptr, false));
}

/// The measurement as a header that needs `gpuplan/measured_device.hpp` alone and defines
/// `inline constexpr gpuplan::measured_device NAME`, for `measured_as`, and an array `NAME_matmuls`
/// and so on of each kind of rows. Throws as `validate` of the measurement says, and
/// `malformed_name` where NAME is no identifier.
[[nodiscard]] inline std::string to_header(const measurement_record& record,
                                           const std::string& name) {
  static_cast<void>(validate(record.view()).value_or_throw());
  detail::require_identifier(name);
  std::string arrays;
  std::string fields;
  detail::visit_fields(record, [&](const char* field, const auto& value) {
    if (detail::is_absent(value)) return;
    const std::string array = name + '_' + field;
    if constexpr (detail::is_rows<std::remove_cvref_t<decltype(value)>>) {
      using row = typename std::remove_cvref_t<decltype(value)>::value_type;
      arrays += std::string("inline constexpr gpuplan::") + detail::struct_name<row> + ' ' + array +
                "[] = {\n";
      for (const row& one : value) arrays += "    " + detail::initialiser(one, "") + ",\n";
      arrays += "};\n";
    }
    fields += std::string("    .") + field + " = " + detail::initialiser(value, array) + ",\n";
  });
  return "#pragma once\n\n// What was measured of one device, as gpuplan wrote it.\n\n"
         "#include <gpuplan/measured_device.hpp>\n\n" +
         arrays + "inline constexpr gpuplan::measured_device " + name + "{\n" + fields + "};\n";
}

}  // namespace gpuplan::io
