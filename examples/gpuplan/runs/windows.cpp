#include "runs/windows.hpp"

#include <gpuplan/detail/text.hpp>
#include <gpuplan/io/characters.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "guides/front_end.hpp"

namespace runs {
namespace {

using namespace gpuplan;
using guides::bad_request;

constexpr int minutes_of_day = 24 * 60;
constexpr int minutes_of_week = 7 * minutes_of_day;
constexpr int none = -1;
constexpr std::string_view days[] = {
    "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"};

std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// "18:00", "18", to "24:00".
int minute_of_day(std::string_view text) {
  const auto number = [](std::string_view digits) {
    if (digits.empty() || digits.size() > 2) return none;
    int value = 0;
    for (const char digit : digits) {
      if (digit < '0' || digit > '9') return none;
      value = 10 * value + (digit - '0');
    }
    return value;
  };
  const std::size_t colon = text.find(':');
  const int hour = number(text.substr(0, colon));
  const int minute = colon == std::string_view::npos ? 0 : number(text.substr(colon + 1));
  if (hour == none || minute == none || minute > 59 || 60 * hour + minute > minutes_of_day)
    return none;
  return 60 * hour + minute;
}

struct moment {
  int day = none;
  int minute = none;  // of the day

  [[nodiscard]] int of_week() const { return day * minutes_of_day + minute; }
};

// "fri 18:00", or without a day.
moment moment_of(std::string_view text) {
  text = without_blanks(text);
  const std::size_t blank = text.find(' ');
  if (blank == std::string_view::npos) return {.minute = minute_of_day(text)};
  const std::string_view day = text.substr(0, blank);
  for (int at = 0; at < 7 && day.size() >= 3; ++at)
    if (days[at].substr(0, day.size()) == day)
      return {at, minute_of_day(without_blanks(text.substr(blank)))};
  return {};
}

class week {
 public:
  void add(int begin, int end) {
    if (end <= begin) end += minutes_of_week;
    for (int minute = begin; minute < end; ++minute) is_in_[place_of(minute)] = true;
  }
  void add_daily(int begin, int end) {
    if (end <= begin) end += minutes_of_day;
    for (int day = 0; day < 7; ++day) add(day * minutes_of_day + begin, day * minutes_of_day + end);
  }
  [[nodiscard]] bool is_in(int minute) const { return is_in_[place_of(minute)]; }
  // A minute with which a window begins.
  [[nodiscard]] int first() const {
    for (int minute = 0; minute < minutes_of_week; ++minute)
      if (is_in(minute) && !is_in(minute + minutes_of_week - 1)) return minute;
    return none;
  }

 private:
  static std::size_t place_of(int minute) {
    return static_cast<std::size_t>(minute % minutes_of_week);
  }

  std::vector<bool> is_in_ = std::vector<bool>(minutes_of_week);
};

void add(week& to, const std::string& text) {
  std::string lower(without_blanks(text));
  std::transform(lower.begin(), lower.end(), lower.begin(), detail::lower);
  if (lower == "nights") return to.add_daily(20 * 60, 8 * 60);
  if (lower == "weekends") return to.add(moment{4, 18 * 60}.of_week(), moment{0, 8 * 60}.of_week());
  const std::size_t dash = lower.find('-');
  if (dash != std::string::npos) {
    const moment begin = moment_of(std::string_view(lower).substr(0, dash));
    const moment end = moment_of(std::string_view(lower).substr(dash + 1));
    const bool has_days = begin.day != none && end.day != none;
    const bool has_none = begin.day == none && end.day == none;
    if (begin.minute != none && end.minute != none && (has_days || has_none))
      return has_days ? to.add(begin.of_week(), end.of_week())
                      : to.add_daily(begin.minute, end.minute);
  }
  throw bad_request("--windows " + io::printable(text) +
                    ": nights, weekends, times with days (fri 18:00-mon 8:00) and times of every "
                    "day (20:00-8:00) are taken");
}

duration minutes(int count) { return count * 1_min; }

}  // namespace

run_windows windows_of(const std::vector<std::string>& texts, const std::string& starts) {
  week all;
  for (const std::string& text : texts) add(all, text);
  std::string lower = starts;
  std::transform(lower.begin(), lower.end(), lower.begin(), detail::lower);
  const moment start = moment_of(lower);
  if (start.day == none || start.minute == none)
    throw bad_request("--starts " + io::printable(starts) +
                      ": a day and a time are taken, as mon 9:00");
  const int first = all.first();
  if (first == none) throw bad_request("--windows has all hours of the week: leave it out");
  run_windows found;
  for (int minute = 0; minute < minutes_of_week; ++minute) {
    if (!all.is_in(first + minute)) continue;
    if (minute == 0 || !all.is_in(first + minute - 1))
      found.each.push_back({minutes(minute), minutes(minute)});
    found.each.back().end = minutes(minute + 1);
  }
  found.now = minutes((start.of_week() - first + minutes_of_week) % minutes_of_week);
  return found;
}

}  // namespace runs
