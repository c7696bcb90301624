#pragma once

// The parameters of the time model that are fitted to measurements: what kernels reach of a device,
// one set for each architecture, and what a framework costs, one set for each.

#include <gpuplan/time/roofline.hpp>

#include <string>
#include <vector>

namespace accuracy {

/// Whose property a parameter is.
enum class parameter_owner { device, framework };

struct time_parameter {
  const char* name;
  const char* unit;  // "" for shares and factors
  parameter_owner owner;
  double low;  // what it can physically be
  double high;
  double (*get)(const gpuplan::roofline_time&);
  void (*set)(gpuplan::roofline_time&, double);
};

/// All of them, by the names of their members.
const std::vector<time_parameter>& time_parameters();

/// The name of what the model's device reaches, else its architecture; or the framework's name.
std::string owner_name(const gpuplan::roofline_time& model, parameter_owner owner);

/// A term of the model that can be switched off.
struct time_term {
  const char* name;
  bool gpuplan::time_terms::*is_on;
};
const std::vector<time_term>& time_terms_by_name();

}  // namespace accuracy
