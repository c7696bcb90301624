#pragma once

// A table in the format that is asked for. Needs nlohmann/json, as json.hpp does.

#include <gpuplan/io/csv.hpp>
#include <gpuplan/io/html.hpp>
#include <gpuplan/io/json.hpp>
#include <gpuplan/io/markdown.hpp>
#include <gpuplan/io/table.hpp>
#include <gpuplan/io/text.hpp>
#include <gpuplan/known.hpp>

#include <concepts>
#include <cstddef>
#include <ostream>
#include <string>
#include <string_view>

namespace gpuplan::io {

/// How a table is written.
enum class format { text, markdown, csv, json, html };

/// What there is to say of a format.
struct format_traits {
  const char* name;  // on command lines
  bool for_people;   // who see a title, and round numbers; programs take all digits
  std::string (*write)(const table& t, const text_layout& layout);
};

/// All formats, in the order of the enumeration: the one place that says what a format is.
inline constexpr format_traits formats[] = {
    {"text", true, [](const table& t, const text_layout& layout) { return to_text(t, layout); }},
    {"markdown", true, [](const table& t, const text_layout&) { return to_markdown(t); }},
    {"csv", false, [](const table& t, const text_layout&) { return to_csv(t); }},
    {"json", false, [](const table& t, const text_layout&) { return to_json(t); }},
    {"html", true, [](const table& t, const text_layout&) { return to_html(t); }},
};

/// What `formats` says of one.
[[nodiscard]] constexpr const format_traits& traits_of(format f) {
  return formats[static_cast<std::size_t>(f)];
}

/// The format of this name, if there is one.
[[nodiscard]] constexpr known<format> format_named(std::string_view name) {
  for (const format_traits& traits : formats)
    if (name == traits.name) return static_cast<format>(&traits - formats);
  return {};
}

/// The table in this format, as `to_text`, `to_markdown`, `to_csv`, `to_json` and `to_html` have
/// it; the layout is that of text. Throws as they do.
[[nodiscard]] inline std::string write(const table& t, format f, const text_layout& layout = {}) {
  return traits_of(f).write(t, layout);
}

/// The same of a report of several tables, such as `sweep_report`: formats but text and Markdown
/// have it as one table, `flat`.
template <class Report>
requires requires(const Report& report) {
  { flat(report) } -> std::same_as<table>;
}
[[nodiscard]] std::string write(const Report& report, format f, const text_layout& layout = {}) {
  if (f == format::text) return to_text(report, layout);
  if (f == format::markdown) return to_markdown(report);
  return write(flat(report), f, layout);
}

/// Writes it to a stream; failures to write show in the state of `out`.
void write(std::ostream& out, const auto& answer, format f, const text_layout& layout = {}) {
  const std::string text = write(answer, f, layout);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
}

}  // namespace gpuplan::io
