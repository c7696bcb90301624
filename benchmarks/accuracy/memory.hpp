#pragma once

// The memory of training steps, by replay.

#include <gpuplan/replay.hpp>

#include <cstdint>
#include <string>

#include "csv.hpp"
#include "setups.hpp"

namespace accuracy {

/// Where predictions of memory come from: `replay` of three steps, or `memory_profile`, which knows
/// what is asked for; that stands for what is allocated too, and says nothing of what is reserved.
enum class memory_method { replay, closed_form };

struct predicted_memory {
  gpuplan::step_memory step{};
  std::int64_t beside = 0;  // bytes outside of PyTorch's allocator
  std::string why_not;      // blank where there is a prediction
};

/// The memory of the third step of a row of `torch_steps.csv`; replayed on the row's device, where
/// it says what that is: `workspace_bytes`, `multiprocessors`, and at most `usable_bytes`.
predicted_memory step_memory_of(const row& source, memory_method by);
/// Likewise of a framework's run, as `framework_options` describes it.
predicted_memory framework_memory_of(const row& source, memory_method by);

/// The setup of a run that somebody published without saying all of it in columns.
described_setup describe_published_run(const row& source);

/// What a described run takes from the row's `gpu`: the third step's memory on the fullest pipeline
/// stage; `beside` are the CUDA context and what the device needs beside tensors, which nvidia-smi
/// shows too.
predicted_memory device_memory_of(const row& source, const described_setup& described);

/// Likewise of the pipeline stage that the setup describes, without what is beside tensors.
predicted_memory stage_memory_of(const row& source, const described_setup& described);

/// Whether a run fits on its GPU.
struct predicted_fit {
  bool fits = false;         // into the usable memory of the device
  bool by_a_margin = false;  // of 5 %: into 95 % of it too
  std::string why_not;
};
predicted_fit fit_of(const row& source, const described_setup& described);

/// Whether nanotron ran the row.
bool runs_nanotron(const row& source);
/// What PyTorch reserves on rank 0 there, as `peak.reserved`: in this share of the memory of the
/// row's `gpu`, or, where it does not fit, of a larger one.
predicted_memory nanotron_memory_of(const row& source, double share = 1);
predicted_fit nanotron_fit_of(const row& source);

/// Whether three steps of a row of `torch_steps.csv` fit into its `usable_bytes`.
predicted_fit step_fit_of(const row& source);

struct predicted_batch {
  std::int64_t micro_batch = 0;
  std::string why_not;
};

/// The largest micro-batch whose three steps fit into the row's `usable_bytes`, looked for as the
/// measurements did; in closed form with the usual fragmentation.
predicted_batch largest_micro_batch_of(const row& source, memory_method by);

}  // namespace accuracy
