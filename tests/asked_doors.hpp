#pragma once

// Asks public functions about a description, of which each field takes each edge value in turn, and
// random pairs and triples of fields do: what comes out is sound, or is refused with a reason. What
// fails is made smaller, to the fewest fields that still fail, and printed with its seed.

#include <gpuplan/result.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "fields.hpp"
#include "random_numbers.hpp"

/// How many random descriptions are tried, over what a run on every change tries.
inline std::int64_t doors_effort() {
  const char* stated = std::getenv("GPUPLAN_EFFORT");
  return stated == nullptr ? 1 : std::atoll(stated);
}

/// What functions answered about one description.
class door_log {
 public:
  /// An answer, or a reason.
  template <class T>
  void operator()(const char* door, const gpuplan::result<T>& answer) {
    if (answer)
      (*this)(door, *answer);
    else if (answer.why().code == gpuplan::errc::none)
      complain(door, "refuses without a reason");
    else
      refuse(answer.why());
  }
  template <class T>
  void operator()(const char* door, const T& answer) {
    ++answers_;
    if (!fields::is_sound(answer)) complain(door, "answers with a number that is none");
  }
  /// Whether a description is taken, whatever its fields that nothing reads are.
  template <class T>
  bool takes(const gpuplan::result<T>& valid) {
    if (!valid && valid.why().code == gpuplan::errc::none)
      complain("validate", "refuses without a reason");
    if (!valid) refuse(valid.why());
    return static_cast<bool>(valid);
  }
  /// What has to hold of an answer.
  void holds(const char* door, bool condition, const char* what) {
    if (!condition) complain(door, what);
  }

  [[nodiscard]] const std::string& complaint() const { return complaint_; }
  [[nodiscard]] const std::string& last_refusal() const { return last_refusal_; }
  [[nodiscard]] std::int64_t answers() const { return answers_; }
  [[nodiscard]] std::int64_t refusals() const { return refusals_; }

 private:
  void refuse(const gpuplan::failure& why) {
    ++refusals_;
    last_refusal_ = gpuplan::failure_text(why).c_str();
  }
  void complain(const char* door, const char* what) {
    if (complaint_.empty()) complaint_ = std::string(door) + " " + what;
  }

  std::string complaint_;
  std::string last_refusal_;
  std::int64_t answers_ = 0;
  std::int64_t refusals_ = 0;
};

struct set_field {
  std::size_t field;
  std::size_t edge;
};

template <class Description, class Ask>
class asked_doors {
 public:
  asked_doors(std::string name, const Description& base, const Ask& ask)
      : name_(std::move(name)), base_(base), ask_(ask) {}

  /// About the description as it is, which has to have an answer; each field with each edge value,
  /// one of `share` of them; and so many random descriptions of two or three such fields.
  void run(std::int64_t share, std::int64_t random) {
    CHECK_MESSAGE(complaint_about({}).empty(), name_ << ": as it is: " << complaint_about({}));
    CHECK_MESSAGE(answers_ > 0, name_ << " has no answer: " << last_refusal_);
    const std::uint64_t seed = 977;
    random_numbers numbers(seed);
    const std::size_t count = fields::fields_of(base_);
    std::vector<std::size_t> edges(count);
    for (std::size_t field = 0; field < count; ++field)
      for (std::size_t edge = 0; has(field, edge); ++edge) {
        edges[field] = edge + 1;
        if (share == 1 || numbers.below(share) == 0) try_out({{field, edge}});
      }
    const auto any_field = [&] {
      for (;;) {
        const auto field =
            static_cast<std::size_t>(numbers.below(static_cast<std::int64_t>(count)));
        if (edges[field] != 0)
          return set_field{
              field,
              static_cast<std::size_t>(numbers.below(static_cast<std::int64_t>(edges[field])))};
      }
    };
    for (std::int64_t i = 0; i < random; ++i) {
      std::vector<set_field> set{any_field(), any_field()};
      if (numbers.below(2) == 0) set.push_back(any_field());
      try_out(set);
    }
    CHECK_MESSAGE(refusals_ > 0, name_ << " refuses nothing");
    MESSAGE(name_ << ": " << count << " fields, " << tried_ << " descriptions, " << answers_
                  << " answers, " << refusals_ << " refusals, seed " << seed);
  }

 private:
  bool has(std::size_t field, std::size_t edge) const {
    Description changed = base_;
    return fields::set(changed, field, edge);
  }
  std::string complaint_about(const std::vector<set_field>& set) {
    Description changed = base_;
    for (const set_field& each : set) fields::set(changed, each.field, each.edge);
    door_log log;
    const bool traces = std::getenv("GPUPLAN_TRACE_DOORS") != nullptr;
    if (traces) MESSAGE(name_ << in_words(set));
    try {
      ask_(changed, log);
    } catch (const std::exception& thrown) {
      return std::string("throws: ") + thrown.what();
    }
    answers_ += log.answers();
    refusals_ += log.refusals();
    last_refusal_ = log.last_refusal();
    return log.complaint();
  }
  void try_out(std::vector<set_field> set) {
    ++tried_;
    std::string complaint = complaint_about(set);
    if (complaint.empty()) return;
    for (std::size_t at = 0; at < set.size();) {
      std::vector<set_field> fewer = set;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(at));
      const std::string still = complaint_about(fewer);
      if (still.empty()) {
        ++at;
      } else {
        set = fewer;
        complaint = still;
      }
    }
    if (++failures_ > 20) return;
    CHECK_MESSAGE(false, name_ << in_words(set) << ": " << complaint);
  }
  std::string in_words(const std::vector<set_field>& set) const {
    std::string words;
    for (const set_field& each : set)
      words += "; " + fields::path_of(base_, each.field) + " (field " + std::to_string(each.field) +
               ") to edge " + std::to_string(each.edge);
    return words;
  }

  std::string name_;
  std::string last_refusal_;
  Description base_;
  const Ask& ask_;
  std::int64_t tried_ = 0;
  std::int64_t answers_ = 0;
  std::int64_t refusals_ = 0;
  int failures_ = 0;
};

/// `ask(description, log)` calls functions, and gives `log` their names and answers.
template <class Description, class Ask>
void ask_doors(const std::string& name,
               const Description& base,
               std::int64_t share,
               std::int64_t random,
               const Ask& ask) {
  const std::int64_t effort = doors_effort();
  asked_doors<Description, Ask>(name, base, ask).run(effort > 1 ? 1 : share, random * effort);
}
