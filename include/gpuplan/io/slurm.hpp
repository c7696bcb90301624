#pragma once

// Plans as job scripts for Slurm.

#include <gpuplan/batch.hpp>
#include <gpuplan/detail/integer.hpp>
#include <gpuplan/detail/math.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/units.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpuplan::io {

/// What a Slurm job asks for. Names go into a shell script and onto a command line, so they are
/// single words of the characters stated.
struct slurm_job {
  std::string gres{};  // type of the GPU as the cluster names it, "a100"; letters, digits and ._-;
                       // empty: any
  std::int64_t gpus_per_node = 1;
  std::int64_t nodes = 1;
  std::string node_list{};  // "node[01-04],node07"; as gres, and [], too; empty: anywhere
  duration wall_time{};     // after which Slurm ends the job
  std::string script{};     // file name of the job script; letters, digits and ._-/+=@
  std::string log{};        // file for the output; as script, and % too ("logs/%j.out"); empty:
                            // Slurm's default. Slurm does not expand ~
  std::string command{};    // one line, without the batch: "srun torchrun --nproc-per-node=4 t.py"
};

namespace detail {

constexpr failure flaw_of_name(fact field, std::string_view name, std::string_view also) {
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool usual = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       also.find(c) != std::string_view::npos;
    if (!usual || (i == 0 && c == '-'))
      return failure(errc::malformed_name, named_fact{fact::position, static_cast<std::int64_t>(i)})
          .about(field);
  }
  return {};
}

constexpr failure flaw_of_wall_time(duration limit) {
  // Slurm counts the seconds of a limit in 32 bits with sign (time_str2secs of its parse_time.c),
  // and rounds them up to minutes.
  constexpr std::int64_t most_days = 24'854;
  if (!gpuplan::detail::is_finite(limit.value()))
    return failure(errc::not_finite, named_fact{fact::wall_time, limit.value()});
  if (!(limit > 0_s)) return failure(errc::not_positive).about(fact::wall_time);
  if (limit > most_days * 1_d)
    return failure(errc::out_of_bounds, named_fact{fact::at_most_days, most_days})
        .about(fact::wall_time);
  return {};
}

}  // namespace detail

/// The job itself where its names are as `slurm_job` says, its script and its command not empty,
/// its counts at least 1 and its wall time positive, finite and at most 24,854 days; else
/// `malformed_name`, `not_positive`, `not_finite`, `out_of_bounds` or `overflow`.
[[nodiscard]] inline result<slurm_job> validate(const slurm_job& job) {
  if (job.gpus_per_node < 1)
    return failure(errc::not_positive, named_fact{fact::gpus_per_node, job.gpus_per_node});
  if (job.nodes < 1) return failure(errc::not_positive, named_fact{fact::nodes, job.nodes});
  if (!gpuplan::detail::checked_product(job.gpus_per_node, job.nodes).ok)
    return failure(errc::overflow,
                   named_fact{fact::gpus_per_node, job.gpus_per_node},
                   named_fact{fact::nodes, job.nodes});
  if (job.script.empty()) return failure(errc::malformed_name).about(fact::script);
  if (job.command.empty()) return failure(errc::malformed_name).about(fact::command);
  for (const failure& flaw : {detail::flaw_of_name(fact::gres, job.gres, "._-"),
                              detail::flaw_of_name(fact::node_list, job.node_list, "._-[],"),
                              detail::flaw_of_name(fact::script, job.script, "._-/+=@"),
                              detail::flaw_of_name(fact::log, job.log, "._-/+=@%"),
                              detail::flaw_of_wall_time(job.wall_time)})
    if (gpuplan::detail::failed(flaw)) return flaw;
  for (std::size_t i = 0; i < job.command.size(); ++i)
    if (static_cast<unsigned char>(job.command[i]) < ' ' || job.command[i] == '\x7f')
      return failure(errc::malformed_name, named_fact{fact::position, static_cast<std::int64_t>(i)})
          .about(fact::command);
  return job;
}

/// A time limit as Slurm reads it, `D-HH:MM:SS`, rounded up to whole seconds; what lies less than a
/// millisecond above one is rounding of the caller's. Errors: a time that is not positive, finite
/// and at most 24,854 days.
[[nodiscard]] inline result<std::string> slurm_time(duration limit) {
  if (const failure flaw = detail::flaw_of_wall_time(limit); gpuplan::detail::failed(flaw))
    return flaw;
  auto seconds = static_cast<std::int64_t>(gpuplan::detail::ceil(limit.value() - 1e-3));
  if (seconds < 1) seconds = 1;  // zero would mean without limit
  const auto two_digits = [](std::int64_t n) { return (n < 10 ? "0" : "") + std::to_string(n); };
  return std::to_string(seconds / 86400) + "-" + two_digits(seconds / 3600 % 24) + ":" +
         two_digits(seconds / 60 % 60) + ":" + two_digits(seconds % 60);
}

/// The batch as launchers take it: `--batch-size` is the micro-batch, per GPU, as Hugging Face's
/// `per_device_train_batch_size`. Errors as `validate(plan)`.
[[nodiscard]] inline result<std::string> launcher_flags(const batch_plan& plan) {
  if (const auto valid = validate(plan); !valid) return valid.why();
  return "--batch-size " + std::to_string(plan.micro_batch) + " --gradient-accumulation-steps " +
         std::to_string(plan.accumulation);
}

/// A job script: the `#SBATCH` lines of the job, then its command with the plan's batch. Errors: a
/// plan or a job that `validate` rejects; `gpus_left_over` where the job's GPUs are no multiple of
/// the plan's `data_parallel`. Nothing is escaped: what would need it is refused.
[[nodiscard]] inline result<std::string> slurm_script(const batch_plan& plan,
                                                      const slurm_job& job) {
  const auto flags = launcher_flags(plan);
  if (!flags) return flags.why();
  if (const auto valid = validate(job); !valid) return valid.why();
  if (job.nodes * job.gpus_per_node % plan.data_parallel != 0)
    return failure(errc::gpus_left_over,
                   named_fact{fact::nodes, job.nodes},
                   named_fact{fact::gpus_per_node, job.gpus_per_node},
                   named_fact{fact::data_parallel, plan.data_parallel});
  std::string out = "#!/bin/bash\n";
  const auto option = [&](const char* name, const std::string& value) {
    out += "#SBATCH --" + (name + ("=" + value)) + "\n";
  };
  option("nodes", std::to_string(job.nodes));
  option("gres",
         "gpu:" + (job.gres.empty() ? "" : job.gres + ":") + std::to_string(job.gpus_per_node));
  if (!job.node_list.empty()) option("nodelist", job.node_list);
  option("time", *slurm_time(job.wall_time));
  if (!job.log.empty()) option("output", job.log);
  return out + "\n" + job.command + " " + *flags + "\n";
}

/// The line that submits the job's script: `sbatch SCRIPT`. Errors as `validate(job)`.
[[nodiscard]] inline result<std::string> slurm_submit(const slurm_job& job) {
  if (const auto valid = validate(job); !valid) return valid.why();
  return "sbatch " + job.script;
}

}  // namespace gpuplan::io
