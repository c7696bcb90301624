#pragma once

// The whole library but for memory/transformer.hpp and replay.hpp, which cost seconds to compile,
// and its edges, io/, measure/ and cuda/: these are included by name.

#include <gpuplan/batch.hpp>
#include <gpuplan/catalog/device_efficiencies.hpp>
#include <gpuplan/catalog/frameworks.hpp>
#include <gpuplan/catalog/gpus.hpp>
#include <gpuplan/catalog/models.hpp>
#include <gpuplan/checkpoint.hpp>
#include <gpuplan/cluster.hpp>
#include <gpuplan/communication.hpp>
#include <gpuplan/cost.hpp>
#include <gpuplan/device_efficiency.hpp>
#include <gpuplan/flops.hpp>
#include <gpuplan/framework.hpp>
#include <gpuplan/gpu.hpp>
#include <gpuplan/learning_rate.hpp>
#include <gpuplan/memory/affine.hpp>
#include <gpuplan/memory/device.hpp>
#include <gpuplan/memory_model.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/operators.hpp>
#include <gpuplan/optimizer.hpp>
#include <gpuplan/parallelism.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/planner.hpp>
#include <gpuplan/planner/request.hpp>
#include <gpuplan/precision.hpp>
#include <gpuplan/range.hpp>
#include <gpuplan/require.hpp>
#include <gpuplan/result.hpp>
#include <gpuplan/solver.hpp>
#include <gpuplan/speedup.hpp>
#include <gpuplan/sweep.hpp>
#include <gpuplan/time/affine.hpp>
#include <gpuplan/time/documented.hpp>
#include <gpuplan/time/measured.hpp>
#include <gpuplan/time/roofline.hpp>
#include <gpuplan/time/stack_range.hpp>
#include <gpuplan/time/step_time.hpp>
#include <gpuplan/time_model.hpp>
#include <gpuplan/trainable.hpp>
#include <gpuplan/training_run.hpp>
#include <gpuplan/training_setup.hpp>
#include <gpuplan/units.hpp>
#include <gpuplan/version.hpp>
