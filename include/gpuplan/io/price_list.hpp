#pragma once

// Prices of GPUs in clouds, from a list with the columns of SkyPilot's catalogues.

#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/skypilot_names.hpp>
#include <gpuplan/io/sweep/columns.hpp>
#include <gpuplan/known.hpp>
#include <gpuplan/units.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace gpuplan::io {

/// An instance with GPUs in a region.
struct listed_price {
  std::string instance{};     // "p5.48xlarge"
  std::string accelerator{};  // "H100"
  std::string region{};
  const gpu_spec* gpu = nullptr;  // of the catalogue; none where the name is no device's alone
  std::int64_t gpus = 0;
  known<price> on_demand{};  // of a GPU: the instance's over its GPUs
  known<price> spot{};       // likewise, where it may be reclaimed
};

/// The instances of a list in its order, or what is wrong with it: one of both.
struct read_prices {
  std::vector<listed_price> prices{};
  std::string why{};  // a sentence with the line; empty: nothing is wrong

  [[nodiscard]] explicit operator bool() const { return why.empty(); }
};

namespace detail {

// Of an instance, a dollar amount an hour; empty where there is no offer.
[[nodiscard]] inline bool read_amount(std::string_view text, double gpus, known<price>& to) {
  if (without_spaces_around(text).empty()) return true;
  double amount = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), amount);
  if (error != std::errc() || end != text.data() + text.size() || !(amount >= 0 && amount < 1e6))
    return false;
  to = amount / gpus * 1_usd_per_hour;
  return true;
}

}  // namespace detail

/// The lines of a list in CSV that have an accelerator. The first names the columns: InstanceType,
/// AcceleratorName and AcceleratorCount must be there, and Price or SpotPrice, in dollars an hour
/// of the instance; Region and the others may be. A byte order mark is passed over, and lines with
/// a part of a GPU are left out. Refused: a missing column, columns that other characters than
/// commas separate, a line that has other columns, a number that is none, a list without a GPU.
[[nodiscard]] inline read_prices read_price_list(std::string_view text) {
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  const detail::csv_record head = detail::take_csv_record(text);
  if (head.cells.size() == 1 && head.cells.front().find_first_of(";\t") != std::string::npos)
    return {.why = "its columns are not separated by commas"};
  const auto column = [&](std::string_view name) {
    return static_cast<std::size_t>(std::find(head.cells.begin(), head.cells.end(), name) -
                                    head.cells.begin());
  };
  const std::size_t none = head.cells.size();
  const std::size_t instance = column("InstanceType");
  const std::size_t accelerator = column("AcceleratorName");
  const std::size_t count = column("AcceleratorCount");
  const std::size_t on_demand = column("Price");
  const std::size_t spot = column("SpotPrice");
  const std::size_t region = column("Region");
  for (const auto& [at, name] : {std::pair{instance, "InstanceType"},
                                 std::pair{accelerator, "AcceleratorName"},
                                 std::pair{count, "AcceleratorCount"}})
    if (at == none) return {.why = std::string("column ") + name + " is missing"};
  if (on_demand == none && spot == none) return {.why = "column Price or SpotPrice is missing"};
  read_prices read;
  for (std::int64_t line = 1 + head.lines; !text.empty();) {
    const detail::csv_record record = detail::take_csv_record(text);
    const std::string where = "line " + std::to_string(line) + ": ";
    line += record.lines;
    if (record.cells.size() == 1 && record.cells[0].empty()) continue;
    if (record.cells.size() != none)
      return {.why = where + std::to_string(record.cells.size()) + " cells, and " +
                     std::to_string(none) + " columns"};
    const std::string& name = record.cells[accelerator];
    if (name.empty()) continue;
    const std::string& many = record.cells[count];
    double gpus = 0;
    const auto [end, error] = std::from_chars(many.data(), many.data() + many.size(), gpus);
    if (error != std::errc() || end != many.data() + many.size() || !(gpus > 0 && gpus <= 1e6))
      return {.why = where + "AcceleratorCount " + printable(many) + " is no number of GPUs"};
    if (gpus != static_cast<double>(static_cast<std::int64_t>(gpus))) continue;
    listed_price one{.instance = printable(record.cells[instance]),
                     .accelerator = printable(name),
                     .region = region == none ? std::string() : printable(record.cells[region]),
                     .gpus = static_cast<std::int64_t>(gpus)};
    for (const detail::skypilot_name& known : detail::skypilot_names)
      if (name == known.name)
        for (const gpu_spec* device : catalog::gpus)
          if (known.device == device->id) one.gpu = device;
    for (const auto& [at, price] :
         {std::pair{on_demand, &one.on_demand}, std::pair{spot, &one.spot}})
      if (at != none && !detail::read_amount(record.cells[at], gpus, *price))
        return {.why = where + head.cells[at] + " " + printable(record.cells[at]) +
                       " is no price in dollars an hour"};
    if (one.on_demand || one.spot) read.prices.push_back(one);
  }
  if (read.prices.empty()) return {.why = "no line has a GPU with a price"};
  return read;
}

}  // namespace gpuplan::io
