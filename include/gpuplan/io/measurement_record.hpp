#pragma once

// What was measured of a device, with texts and rows of its own.

#include <gpuplan/measured_device.hpp>

#include <string>
#include <vector>

namespace gpuplan::io {

/// A measurement with the texts and rows that a `measured_device` refers to.
struct measurement_record {
  std::string id{};  // the texts are those of measured_device
  std::string slice{};
  std::string name{};
  std::string date{};
  std::string driver{};
  std::string runtime{};
  std::string library{};
  measured_device values{};  // but for texts and rows
  std::vector<measured_matmul> matmuls{};
  std::vector<measured_issue> issue{};
  std::vector<measured_point> surface{};
  std::vector<measured_footprint> footprints{};
  std::vector<measured_all_reduce> all_reduces{};

  /// All of it; refers to this record, and is good until this record changes.
  [[nodiscard]] measured_device view() const {
    measured_device all = values;
    all.id = id.c_str();
    all.slice = slice.c_str();
    all.name = name.c_str();
    all.date = date.c_str();
    all.driver = driver.c_str();
    all.runtime = runtime.c_str();
    all.library = library.c_str();
    all.matmuls = matmuls;
    all.issue = issue;
    all.surface = surface;
    all.footprints = footprints;
    all.all_reduces = all_reduces;
    return all;
  }
};

/// The record of a measurement, with texts and rows of its own.
[[nodiscard]] inline measurement_record record_of(const measured_device& device) {
  return {.id = device.id,
          .slice = device.slice,
          .name = device.name,
          .date = device.date,
          .driver = device.driver,
          .runtime = device.runtime,
          .library = device.library,
          .values = device,
          .matmuls = {device.matmuls.begin(), device.matmuls.end()},
          .issue = {device.issue.begin(), device.issue.end()},
          .surface = {device.surface.begin(), device.surface.end()},
          .footprints = {device.footprints.begin(), device.footprints.end()},
          .all_reduces = {device.all_reduces.begin(), device.all_reduces.end()}};
}

}  // namespace gpuplan::io
