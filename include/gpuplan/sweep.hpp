#pragma once

// Reads a batch-size sweep: measured rows in; picks, fitted lines, diagnoses, and a memory model
// and a time model out.

#include <gpuplan/sweep/curve.hpp>
#include <gpuplan/sweep/diagnosis.hpp>
#include <gpuplan/sweep/fit.hpp>
#include <gpuplan/sweep/measured.hpp>
#include <gpuplan/sweep/measured_memory.hpp>
#include <gpuplan/sweep/measured_time.hpp>
#include <gpuplan/sweep/pick.hpp>
#include <gpuplan/sweep/rows.hpp>
