#pragma once

// Files for the accuracy program: those kept beside the tests, and short ones of a test's own.

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

/// The path of a file in tests/accuracy/data.
inline std::string data(const std::string& name) {
  return std::string(GPUPLAN_ACCURACY_DATA "/") + name;
}

/// A file that lives as long as this object.
class short_file {
 public:
  explicit short_file(std::string_view text, const std::string& name = "short") {
    static int count = 0;
    path_ = (std::filesystem::temp_directory_path() /
             (name + "_" + std::to_string(getpid()) + "_" + std::to_string(++count) + ".csv"))
                .string();
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~short_file() { std::remove(path_.c_str()); }
  short_file(const short_file&) = delete;
  short_file& operator=(const short_file&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};
