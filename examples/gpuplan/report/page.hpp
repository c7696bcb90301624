#pragma once

// A report as a page.

#include <string>
#include <vector>

#include "report/findings.hpp"
#include "report/pictures.hpp"

namespace report_program {

/// One HTML file: what was asked, the plans, the pictures, and what is assumed.
[[nodiscard]] std::string page_of(const findings& of, const std::vector<picture>& pictures);

}  // namespace report_program
