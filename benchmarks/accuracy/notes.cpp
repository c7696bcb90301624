#include "notes.hpp"

#include <algorithm>
#include <cctype>

namespace accuracy {
namespace {

// Calls `use` with each remark, without the blanks around it, until it returns true.
template <class Use>
void for_each_remark(std::string_view notes, Use use) {
  while (!notes.empty()) {
    const std::size_t end = std::min(notes.find(';'), notes.size());
    std::string_view remark = notes.substr(0, end);
    notes.remove_prefix(std::min(end + 1, notes.size()));
    remark.remove_prefix(std::min(remark.find_first_not_of(' '), remark.size()));
    remark = remark.substr(0, remark.find_last_not_of(' ') + 1);
    if (use(remark)) return;
  }
}

}  // namespace

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& letter : result)
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return result;
}

std::string_view value_in(std::string_view notes, std::string_view name) {
  std::string_view value;
  for_each_remark(notes, [&](std::string_view remark) {
    if (!remark.starts_with(name) || remark.substr(name.size(), 1) != "=") return false;
    value = remark.substr(name.size() + 1);
    return true;
  });
  return value;
}

bool is_flagged(std::string_view notes) {
  bool flagged = false;
  for_each_remark(notes, [&](std::string_view remark) {
    flagged = remark.starts_with("flag=") || remark.starts_with("flag:") ||
              remark.find(", flag=") != std::string_view::npos ||
              remark.find(": flag=") != std::string_view::npos;
    return flagged;
  });
  return flagged;
}

std::string_view repeated_id(std::string_view notes) {
  std::string_view id;
  for_each_remark(notes, [&](std::string_view remark) {
    const std::size_t of = remark.find(" of ");
    if (!remark.starts_with("repeat ") || of == std::string_view::npos) return false;
    const std::string_view name = remark.substr(of + 4);
    if (name.find(' ') != std::string_view::npos) return false;  // "repeat 2 of the same set-up"
    id = name;
    return true;
  });
  return id;
}

}  // namespace accuracy
