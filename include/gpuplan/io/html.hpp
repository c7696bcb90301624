#pragma once

// Tables and pages as HTML: one file with all that it needs, light or dark as the reader's screen
// is, narrow or wide, on paper too.

#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/table.hpp>

#include <string>
#include <string_view>

namespace gpuplan::io {

/// `markup_escaped`, whose line ends are those of a page.
[[nodiscard]] inline std::string html_escaped(std::string_view text,
                                              line_ends ends = line_ends::are_kept) {
  std::string out;
  for (const char c : markup_escaped(text, ends))
    if (c == '\n')
      out += "<br>";
    else
      out += c;
  return out;
}

namespace detail {

// Texts have a contrast of 4.5 or more in both (WCAG 2.2), which a test works out.
inline constexpr const char* html_styles =
    ":root{color-scheme:light dark;--paper:#ffffff;--ink:#1a1a1a;--faint:#555555;--line:#d0d4da;"
    "--band:#f4f6f8;--good:#00684a;--fair:#7a5200;--bad:#b3261e}"
    "@media screen and (prefers-color-scheme:dark){:root{--paper:#15171c;--ink:#ededed;"
    "--faint:#b5b8bd;--line:#383c44;--band:#1d2027;--good:#5fd3a8;--fair:#f0b32e;--bad:#ff9d94}}"
    "*{box-sizing:border-box}"
    "body{margin:0 auto;max-width:62rem;padding:1rem;background:var(--paper);color:var(--ink);"
    "font:1rem/1.5 system-ui,Helvetica,Arial,sans-serif;overflow-wrap:break-word}"
    "h1{font-size:1.6rem;line-height:1.25;margin:.5rem 0}"
    "h2{font-size:1.2rem;margin:2.2rem 0 .4rem;border-bottom:1px solid var(--line);"
    "padding-bottom:.2rem}p{margin:.5rem 0;max-width:46rem}a{color:inherit}"
    "nav{font-size:.9rem}nav a{display:inline-block;margin-right:.9rem;padding:.2rem 0}"
    ".faint{color:var(--faint)}"
    ".table{overflow-x:auto;margin:.8rem 0}"
    "table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}"
    ".caption{font-weight:600;margin:.9rem 0 -.5rem}.short{white-space:nowrap}"
    "th,td{padding:.3rem .7rem .3rem 0;border-bottom:1px solid var(--line);text-align:left;"
    "vertical-align:top}thead th{white-space:nowrap}th[scope=row]{font-weight:400}"
    ".number{text-align:right;white-space:nowrap}tbody tr:nth-child(even){background:var(--band)}"
    ".good{color:var(--good)}.fair{color:var(--fair)}.bad,.alarm{color:var(--bad)}"
    ".alarm{font-weight:700}"
    ".keys{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:.6rem;"
    "margin:1rem 0}.keys div{border:1px solid var(--line);border-radius:.4rem;padding:.5rem .7rem}"
    ".keys dt{color:var(--faint);font-size:.85rem}.keys dd{margin:0;font-size:1.15rem;"
    "font-weight:600}"
    "figure{margin:.8rem 0}figure svg{display:block;max-width:100%;height:auto}"
    "figure .narrow{display:none}"
    "@media (max-width:640px){figure .wide{display:none}figure .narrow{display:block}}"
    "@media print{body{max-width:none;padding:0;font-size:10pt}nav{display:none}"
    "figure,tr{break-inside:avoid}h2,.caption{break-after:avoid}.table{overflow:visible}"
    "figure .wide{display:block}figure .narrow{display:none}}";

[[nodiscard]] inline const char* html_class(tone shade) {
  static constexpr const char* names[] = {"", "good", "fair", "bad", "alarm", "faint"};
  return names[static_cast<int>(shade)];
}

}  // namespace detail

/// The table as an element, of which `html_page` makes a page: its title, heads of columns, and
/// heads of rows where the first column holds texts. What is wider than its page scrolls by itself.
/// Throws as `validate` says.
[[nodiscard]] inline std::string to_html(const table& t) {
  static_cast<void>(validate(t).value_or_throw());
  const std::string name =
      html_escaped(t.title.empty() ? "table" : t.title, line_ends::become_spaces);
  std::string out;
  if (!t.title.empty()) out += "<p class=\"caption\">" + html_escaped(t.title) + "</p>\n";
  out += "<div class=\"table\" role=\"region\" tabindex=\"0\" aria-label=\"" + name +
         "\"><table aria-label=\"" + name + "\">\n";
  const auto classes = [&](std::size_t at, tone shade, bool is_short) {
    std::string all = t.columns[at].align != alignment::left ? "number" : is_short ? "short" : "";
    const std::string more = detail::html_class(shade);
    if (!more.empty()) all += (all.empty() ? "" : " ") + more;
    return all.empty() ? all : " class=\"" + all + '"';
  };
  out += "<thead><tr>";
  for (std::size_t at = 0; at < t.columns.size(); ++at)
    out += "<th scope=\"col\"" + classes(at, tone::plain, false) + ">" +
           html_escaped(heading(t.columns[at])) + "</th>";
  out += "</tr></thead>\n<tbody>\n";
  for (const auto& row : t.rows) {
    out += "<tr>";
    for (std::size_t at = 0; at < row.size(); ++at) {
      const bool is_head = at == 0 && row[at].what() == cell::kind::text;
      const std::string element = is_head ? "th" : "td";
      const std::string text = to_text(row[at]);
      constexpr std::size_t longest_on_a_line = 20;
      out += '<' + element + (is_head ? " scope=\"row\"" : "") +
             classes(at, row[at].shade(), text.size() <= longest_on_a_line) + '>' +
             html_escaped(text) + "</" + element + '>';
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

/// A picture in two widths, of which a page shows the one that fits. Both are SVG documents.
[[nodiscard]] inline std::string html_figure(const std::string& wide, const std::string& narrow) {
  return "<figure><div class=\"wide\">" + wide + "</div><div class=\"narrow\">" + narrow +
         "</div></figure>\n";
}

/// A page of this content, which is HTML: it asks no network for anything and runs no script.
[[nodiscard]] inline std::string html_page(const std::string& title, const std::string& content) {
  return "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
         "'unsafe-inline'; img-src data:\">\n<title>" +
         html_escaped(title) + "</title>\n<style>" + detail::html_styles +
         "</style>\n</head>\n<body>\n" + content + "</body>\n</html>\n";
}

}  // namespace gpuplan::io
