#pragma once

// What timed runs say of the time model beside errors: as text for a terminal, or as data.

#include <string>
#include <vector>

#include "calibrated_rows.hpp"
#include "comparison.hpp"
#include "guides/render.hpp"
#include "timed_rows.hpp"

namespace accuracy {

/// For each source, how often the fastest of plans that differ in nothing else is chosen, and what
/// is lost where it is not; with `each`, a line for each question.
std::string plans_report(const std::vector<timed_row>& rows, bool each, const guides::output& as);

/// For each term of the model the errors of all sources without it.
std::string ablation_report(const std::vector<timed_row>& rows, const guides::output& as);

/// Errors of the times of steps by source, and how many lie in their ranges.
std::string sources_report(const std::vector<file_comparison>& files, const guides::output& as);

/// Errors of rows by the numbers that others of their group give, and whether plans are chosen
/// well; with `each` a line for each row.
std::string calibration_report(const std::vector<calibrated_group>& groups,
                               bool each,
                               const guides::output& as);

}  // namespace accuracy
