#pragma once

// Reads a batch-size sweep: measured rows in; picks, fitted lines and diagnoses out.

#include <gpuplan/sweep/diagnosis.hpp>
#include <gpuplan/sweep/fit.hpp>
#include <gpuplan/sweep/pick.hpp>
#include <gpuplan/sweep/rows.hpp>
