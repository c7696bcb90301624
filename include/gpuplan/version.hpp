#pragma once

/// The version of gpuplan. This is its only source: CMakeLists.txt reads these three lines.
#define GPUPLAN_VERSION_MAJOR 0
#define GPUPLAN_VERSION_MINOR 1
#define GPUPLAN_VERSION_PATCH 0
