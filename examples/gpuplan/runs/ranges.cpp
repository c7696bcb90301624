#include "runs/ranges.hpp"

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <string>

#include "guides/front_end.hpp"

namespace runs {

CLI::Option* add_range(CLI::App& app,
                       const std::string& name,
                       gpuplan::known<gpuplan::range<std::int64_t>>& to,
                       std::int64_t least,
                       std::int64_t most,
                       const std::string& what) {
  const auto read = [=, &to](const std::string& text) {
    const std::size_t dash = text.find('-', 1);
    std::string ends[] = {text.substr(0, dash),
                          dash == std::string::npos ? text : text.substr(dash + 1)};
    const CLI::Validator is_number = guides::whole_number(least, most);
    std::int64_t numbers[] = {0, -1};
    if (is_number(ends[0]).empty() && is_number(ends[1]).empty())
      for (const int at : {0, 1}) numbers[at] = std::stoll(ends[at]);
    if (numbers[1] < numbers[0])
      throw CLI::ValidationError(name,
                                 text + " is no number from " + std::to_string(least) + " to " +
                                     std::to_string(most) + ", and no two of them as 2-8");
    to = gpuplan::range<std::int64_t>{numbers[0], numbers[1]};
  };
  return app.add_option_function<std::string>(name, read, what)->type_name("N|N-N");
}

}  // namespace runs
