#pragma once

// Options whose values are words.

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace setups {

template <class Value>
using choices = std::vector<std::pair<const char*, Value>>;

/// `--precision bf16` and the like: calls `set` with what the word means.
template <class Value>
CLI::Option* add_choice(CLI::App& app,
                        const std::string& option,
                        const std::string& about,
                        const choices<Value>& words,
                        std::function<void(const Value&)> set) {
  std::vector<std::string> known;
  for (const auto& one : words) known.emplace_back(one.first);
  return app
      .add_option_function<std::string>(
          option,
          [words, set](const std::string& name) {
            for (const auto& one : words)
              if (name == one.first) set(one.second);
          },
          about)
      ->check(CLI::IsMember(known))
      ->type_name("");
}

}  // namespace setups
