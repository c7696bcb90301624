#pragma once

// The command lines of plan_training and how_many_gpus.

namespace plan_program {

/// Each runs its program; the exit status is as of `guides::run_program`.
int plan_training(int argc, char** argv);
int how_many_gpus(int argc, char** argv);

}  // namespace plan_program
