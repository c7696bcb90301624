#pragma once

// What gpuplan run is asked for, and its options.

#include <cstdint>
#include <string>
#include <vector>

#include "runs/phases.hpp"
#include "runs/timed_steps.hpp"

namespace CLI {
class App;
}

namespace run_program {

struct request {
  runs::timed_words timed{};
  runs::phase_words phases{};
  double off = 0;  // percent of a measured step
  std::string failures = "usual";
  double between_failures = 0;  // hours, of the whole job
  double detection = 600;       // seconds
  double restart = 900;         // seconds
  double replaced = 100;        // percent
  double replacement = 0;       // hours
  std::int64_t spares = 0;
  std::int64_t save_every = 0;  // steps
  std::int64_t keep = 2;        // checkpoints
  std::int64_t storage = 0;     // bytes
  double write_rate = 0;        // GB/s of all; 0: of the nodes
  double stall = 0;             // seconds
  bool is_async = false;
  double reclaimed = 0;   // hours until a cloud takes a node back
  double time_limit = 0;  // hours of a job
  double queue = 0;       // hours before a job
  std::vector<std::string> windows{};
  std::string starts = "mon 0:00";
  std::string budget{};          // what --tokens follow from
  double deadline = 0;           // days
  double dollars = 0;            // that it may cost; 0: any sum
  double sure = 90;              // percent
  bool energy = false;           // printed
  double pue = 1;                // of the building
  double host_power = -1;        // watts of a node beside its GPUs; below 0: of the catalogue
  double critical_batch = 0;     // samples
  std::int64_t tuned_batch = 0;  // at which --tokens are enough
  double unique_tokens = 0;
  std::string svg_file{};
};

void add_options(CLI::App& app, request& to);

}  // namespace run_program
