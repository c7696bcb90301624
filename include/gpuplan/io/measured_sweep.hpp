#pragma once

// What a sweep measured as a header of constants, which `require` can plan from.

#include <gpuplan/io/header.hpp>
#include <gpuplan/sweep/measured.hpp>
#include <gpuplan/units.hpp>

#include <algorithm>
#include <cstdint>
#include <string>

namespace gpuplan::io {

namespace detail {

[[nodiscard]] inline std::string initialiser(bool value) { return value ? "true" : "false"; }
[[nodiscard]] inline std::string initialiser(std::int64_t value) { return std::to_string(value); }
template <any_quantity Quantity>
[[nodiscard]] std::string initialiser(Quantity value) {
  return std::string("gpuplan::") + type_of(value) + "::from_value(" + literal(value.value()) + ')';
}

// One field of a struct, on a line of its own.
[[nodiscard]] inline std::string field(const std::string& indent,
                                       const char* name,
                                       const std::string& value) {
  return indent + '.' + name + " = " + value + ",\n";
}

// The first `count` of an array; `separator` stands behind each comma.
template <class T>
[[nodiscard]] std::string initialisers(const T* first, std::int64_t count, const char* separator) {
  std::string out;
  for (std::int64_t i = 0; i < count; ++i)
    out += (i == 0 ? std::string() : std::string(",") + separator) + initialiser(first[i]);
  return '{' + out + '}';
}

template <any_quantity Quantity>
[[nodiscard]] std::string initialiser(const straight_line<Quantity>& line,
                                      const std::string& indent) {
  return "{\n" + field(indent + "    ", "fixed", initialiser(line.fixed)) +
         field(indent + "    ", "per_sample", initialiser(line.per_sample)) + indent + '}';
}

template <any_quantity Quantity>
[[nodiscard]] std::string initialiser(const measured_curve<Quantity>& curve,
                                      const std::string& indent) {
  const std::string in = indent + "    ";
  const std::string next = '\n' + in + "           ";
  return "{\n" + field(in, "rows", initialiser(curve.rows)) +
         field(in, "micro_batches", initialisers(curve.micro_batches, curve.rows, " ")) +
         field(in, "values", initialisers(curve.values, curve.rows, next.c_str())) +
         (std::find(curve.outliers, curve.outliers + curve.rows, true) ==
                  curve.outliers + curve.rows
              ? std::string()
              : field(in, "outliers", initialisers(curve.outliers, curve.rows, " "))) +
         field(in, "line_from", initialiser(curve.line_from)) +
         field(in, "straight", initialiser(curve.straight)) +
         field(in, "line", initialiser(curve.line, in)) +
         field(in, "lower", initialiser(curve.lower, in)) +
         field(in, "upper", initialiser(curve.upper, in)) +
         field(in, "confidence", literal(curve.confidence)) +
         field(in,
               "scatter",
               '{' + literal(curve.scatter.low()) + ", " + literal(curve.scatter.high()) + '}') +
         indent + '}';
}

}  // namespace detail

/// The sweep as a header that needs `gpuplan/sweep/measured.hpp` alone and defines
/// `inline constexpr gpuplan::measured_sweep NAME`, whose numbers are the same bit for bit:
/// `require([] { return check(plan, *NAME.origin.gpu_memory, NAME.memory); })` is a compile error
/// where the plan runs out of memory by what was measured. Throws as `validate` of the sweep says,
/// and `malformed_name` where NAME is no identifier.
[[nodiscard]] inline std::string to_header(const measured_sweep& sweep, const std::string& name) {
  static_cast<void>(validate(sweep).value_or_throw());
  detail::require_identifier(name);
  using detail::field;
  using detail::initialiser;
  const std::string indent(4, ' ');
  const std::string two(8, ' ');
  std::string out =
      "#pragma once\n\n// What a sweep measured, as gpuplan wrote it.\n// clang-format off\n\n"
      "#include <gpuplan/sweep/measured.hpp>\n\ninline constexpr gpuplan::measured_sweep " +
      name + "{\n" + indent + ".origin = {\n" +
      field(two, "device", detail::literal(sweep.origin.device)) +
      field(two, "model", detail::literal(sweep.origin.model)) +
      field(two, "date", detail::literal(sweep.origin.date));
  if (sweep.origin.gpu_memory)
    out += field(two, "gpu_memory", initialiser(*sweep.origin.gpu_memory));
  out += indent + "},\n" + field(indent, "workers", initialiser(sweep.workers)) +
         field(indent, "mixed_precision", initialiser(sweep.mixed_precision)) +
         field(indent, "pinned_memory", initialiser(sweep.pinned_memory)) + indent +
         ".memory = {\n" + field(two, "curve", initialiser(sweep.memory.curve, two));
  if (sweep.memory.ran_out_at)
    out += field(two, "ran_out_at", initialiser(*sweep.memory.ran_out_at));
  if (sweep.memory.ran_out_of)
    out += field(two, "ran_out_of", initialiser(*sweep.memory.ran_out_of));
  out += field(two, "while_accumulating", initialiser(sweep.memory.while_accumulating)) + indent +
         "},\n" + indent + ".time = {\n" +
         field(two, "micro_batch", initialiser(sweep.time.micro_batch, two)) +
         field(two, "once", initialiser(sweep.time.once)) + indent + "},\n};\n";
  return out;
}

}  // namespace gpuplan::io
