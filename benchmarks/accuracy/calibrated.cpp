#include "calibrated.hpp"

#include <gpuplan/time/calibrated.hpp>

#include <string>

#include "timed_rows.hpp"

namespace accuracy {
namespace {

constexpr std::size_t enough_of_a_size = 6;
// By how much a step's time is off: one that is composed has the digits that its source prints.
constexpr double scatter_of_timed = 0.005;
constexpr double scatter_of_composed = 5e-5;

std::vector<gpuplan::timed_step> others_of(const std::vector<timed_row>& rows, std::size_t which) {
  std::vector<gpuplan::timed_step> all;
  std::vector<gpuplan::timed_step> alike;
  const timed_row& row = rows[which];
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i == which || rows[i].cell != row.cell) continue;
    all.push_back({rows[i].model, rows[i].batch, gpuplan::duration::from_value(rows[i].seconds)});
    if (rows[i].batch.data_parallel == row.batch.data_parallel) alike.push_back(all.back());
  }
  return alike.size() >= enough_of_a_size ? alike : all;
}

prediction calibrated_step(const std::vector<timed_row>& rows, std::size_t which) {
  const std::vector<gpuplan::timed_step> others = others_of(rows, which);
  if (others.empty())
    return std::string("no other row has its width, its micro-batch and its tensor degree");
  const timed_row& row = rows[which];
  const auto factors =
      gpuplan::calibrate(others, row.is_composed ? scatter_of_composed : scatter_of_timed);
  if (!factors) return std::string(gpuplan::failure_text(factors.why()).c_str());
  return number(gpuplan::calibrated_time{row.model, *factors}.step(row.batch).value());
}

}  // namespace

std::vector<file_comparison> compare_calibrated(const std::vector<csv_file>& files) {
  std::vector<file_comparison> compared;
  for (const csv_file& file : files) {
    const std::vector<timed_row> rows = timed_rows({file});
    file_comparison one{.path = file.path, .kind = "runs", .rows = file.rows.size()};
    for (std::size_t i = 0; i < rows.size(); ++i)
      one.comparisons.push_back({.id = rows[i].id,
                                 .what = quantity::step_time,
                                 .measured = rows[i].seconds,
                                 .predicted = calibrated_step(rows, i)});
    compared.push_back(std::move(one));
  }
  return compared;
}

}  // namespace accuracy
