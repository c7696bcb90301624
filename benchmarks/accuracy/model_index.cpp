#include "model_index.hpp"

#include <gpuplan/detail/integer.hpp>

#include <cctype>
#include <cmath>

namespace accuracy {
namespace {

std::string letters_and_digits(std::string_view name) {
  std::string plain;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return plain;
}

// "falcon-40b" for "40000000000".
bool is_about(std::int64_t parameters, double printed) {
  return std::abs(static_cast<double>(parameters) - printed) <= 0.1 * printed;
}

}  // namespace

void model_index::add(const csv_file& file) {
  for (const csv_file::row_of_cells& cells : file.rows) {
    const row source(file, cells);
    static_cast<void>(describe_model(source));  // so that a bad file is found whoever names it
    std::vector<row>& same = models_[std::string(source.text("id"))];
    bool is_new = true;
    for (const row& other : same) is_new = is_new && !other.says_the_same(source);
    if (is_new) same.push_back(source);
  }
}

const row* model_index::only_one(std::string_view id, std::string& why_not) const {
  const auto found = models_.find(id);
  if (found == models_.end()) {
    why_not = "model " + std::string(id) + " is in none of the files";
    return nullptr;
  }
  if (found->second.size() > 1) {
    why_not = "the files have several models " + std::string(id);
    return nullptr;
  }
  return &found->second.front();
}

counted_model model_index::count(const row& source) const { return count(source, 0); }

counted_model model_index::count(const row& source, int depth) const {
  counted_model counted;
  if (source.blank("sum_of")) {
    const described_model described = describe_model(source);
    counted.why_not = described.why_not;
    if (!counted.why_not.empty()) return counted;
    const gpuplan::parameter_counts counts = gpuplan::parameters(described.shape);
    counted.total = counts.total();
    counted.active = counts.active();
    return counted;
  }
  if (depth == 8) return {.why_not = "sum_of leads back to the model itself"};
  gpuplan::detail::checked_integer total = source.integer_or("extra_params", 0);
  gpuplan::detail::checked_integer active = total;
  for (const std::string& id : parts_of_sum(source)) {
    const row* const part = only_one(id, counted.why_not);
    if (part == nullptr) return counted;
    const counted_model one = count(*part, depth + 1);
    if (!one.why_not.empty()) return {.why_not = id + ": " + one.why_not};
    total = checked_sum(total, one.total);
    active = checked_sum(active, one.active);
  }
  if (!total.ok || !active.ok) return {.why_not = "its parts are too many for 64 bits"};
  counted.total = total.value;
  counted.active = active.value;
  return counted;
}

found_model model_index::find(std::string_view id) const {
  found_model found;
  const row* const source = only_one(id, found.why_not);
  if (source == nullptr) return found;
  if (!source->blank("sum_of")) return {.why_not = std::string(id) + " is a sum of models"};
  found.model = describe_model(*source);
  if (!found.model.why_not.empty()) found.why_not = std::string(id) + ": " + found.model.why_not;
  return found;
}

found_model model_index::find_by_name(std::string_view name, double printed_parameters) const {
  const std::string wanted = letters_and_digits(name);
  std::string match;
  int matches = 0;
  for (const auto& [id, rows] : models_) {
    const std::string plain = letters_and_digits(id);
    if (plain == wanted) return find(id);
    if (wanted.empty() || !plain.starts_with(wanted)) continue;
    const counted_model counted = count(rows.front());
    if (!counted.why_not.empty() || !is_about(counted.total, printed_parameters)) continue;
    match = id;
    ++matches;
  }
  if (matches == 1) return find(match);
  return {.why_not = (matches == 0 ? "no model of the files is called " : "several models are ") +
                     std::string(name)};
}

}  // namespace accuracy
