#pragma once

// Inputs that a number makes, and the files that they are made of.

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

// In the order of their names, so that a number makes the same input everywhere.
inline std::vector<std::string> files_of(const std::vector<const char*>& folders) {
  std::vector<std::string> files;
  for (const char* const folder : folders) {
    std::error_code error;
    std::filesystem::directory_iterator entries(folder, error);
    if (error) {
      std::fprintf(stderr, "%s cannot be read: %s\n", folder, error.message().c_str());
      std::exit(1);
    }
    std::vector<std::filesystem::path> paths;
    for (const auto& entry : entries)
      if (entry.is_regular_file()) paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
    for (const std::filesystem::path& path : paths) {
      std::ifstream in(path, std::ios::binary);
      files.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
      if (!in) {
        std::fprintf(stderr, "%s cannot be read\n", path.c_str());
        std::exit(1);
      }
    }
  }
  return files;
}

// The number behind an option, or the end of the program.
inline std::int64_t number_of(const char* option, const char* word, std::int64_t least) {
  const std::string_view text = word == nullptr ? "" : word;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number >= least) return number;
  std::fprintf(stderr,
               "%s '%.*s' is refused: a whole number from %lld to 2^63 - 1 would be taken\n",
               option,
               static_cast<int>(text.size()),
               text.data(),
               static_cast<long long>(least));
  std::exit(2);
}

inline std::int64_t now = 0;               // the input that runs
inline const char* option_of_inputs = "";  // that says how many

inline void tell_which(int signal) {
  std::fprintf(stderr,
               "input %lld ended it; %s 1 --from %lld makes it again\n",
               static_cast<long long>(now),
               option_of_inputs,
               static_cast<long long>(now));
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

inline void tell_which_ends(const char* option) {
  option_of_inputs = option;
  for (const int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGILL, SIGINT, SIGTERM})
    std::signal(signal, tell_which);
}
