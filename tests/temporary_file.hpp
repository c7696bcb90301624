#pragma once

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

/// A file in the system's folder for such files that is there as long as this is.
class temporary_file {
 public:
  /// `name` ends the file's name but for what makes it unique.
  explicit temporary_file(const std::string& text, const std::string& name = "gpuplan")
      : name_((std::filesystem::temp_directory_path() / name).string() + '.' + unique) {
    const int file = mkstemp(name_.data());
    if (file >= 0) close(file);
    std::ofstream(name_) << text;
  }
  temporary_file(const temporary_file&) = delete;
  temporary_file& operator=(const temporary_file&) = delete;
  ~temporary_file() { std::remove(name_.c_str()); }

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::string text() const {
    std::ifstream file(name_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  // What mkstemp replaces.
  static inline const std::string unique = std::string(6, 'X');

  std::string name_;
};
