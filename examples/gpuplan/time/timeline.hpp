#pragma once

// A predicted step over its time: what the host, the device's streams or the stages of a pipeline
// do when, and the memory.

#include <gpuplan/memory/step_peaks.hpp>
#include <gpuplan/memory/step_trace.hpp>
#include <gpuplan/result.hpp>

#include <cstddef>
#include <string>
#include <vector>

#include "runs/stated_step.hpp"

namespace time_program {

/// A line along which one thing follows another.
struct track {
  std::size_t process = 0;
  std::string name{};
};

enum class work_kind {
  forward,
  backward,
  of_input,
  of_weights,
  recompute,
  optimizer,
  communication,
  host
};

struct timed_work {
  std::size_t track = 0;
  work_kind kind{};
  std::string name{};
  std::string where{};  // layer or micro-batch
  double begin = 0;     // s
  double end = 0;
  std::string label{};  // in a picture: as the name where there is none
  bool marked = false;  // as the timeline's `mark` says
};

/// From each time on, what is in use.
struct memory_curve {
  std::size_t process = 0;
  std::vector<double> times{};  // s
  std::vector<gpuplan::memory_sum> in_use{};
};

struct timeline {
  std::string title{};
  std::string clock{};  // what tells the times
  double end = 0;       // s
  std::vector<std::string> processes{};
  std::vector<track> tracks{};
  std::vector<timed_work> work{};  // of a track one after the other
  std::vector<memory_curve> memory{};
  // Of a pipeline, whose picture has one line for each stage.
  std::vector<std::string> stages{};
  std::string mark{};
};

/// The step of eager code, operator by operator; failure of any other. Throws
/// `guides::bad_request`, after the option, where there is too much of it.
[[nodiscard]] gpuplan::result<gpuplan::step_trace> eager_step(const std::string& option,
                                                              const runs::stated_step& of);

/// Of eager code the step that `replayed_time` runs, operator by operator; else the schedule of the
/// roofline's parts, a process for each stage. Throws `guides::bad_request`, after the option,
/// where there is too much of it.
[[nodiscard]] timeline timeline_of(const std::string& option, const runs::stated_step& of);

/// Trace Event Format (JSON), for Perfetto and chrome://tracing: complete events, counters of
/// memory in bytes, and names.
[[nodiscard]] std::string chrome_trace_of(const timeline& of);
/// A line for each track, of a pipeline for each stage; what is narrower than can be seen is drawn
/// with its neighbours.
[[nodiscard]] std::string svg_of(const timeline& of);

}  // namespace time_program
