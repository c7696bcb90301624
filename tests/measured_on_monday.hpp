#pragma once

// What a sweep measured, as gpuplan wrote it.
// clang-format off

#include <gpuplan/sweep/measured.hpp>

inline constexpr gpuplan::measured_sweep monday{
    .origin = {
        .device = "NVIDIA A100-SXM4-80GB",
        .model = "depth 3, hidden 16",
        .date = "2026-11-23",
        .gpu_memory = gpuplan::bytes::from_value(8e+10),
    },
    .workers = 4,
    .mixed_precision = true,
    .pinned_memory = false,
    .memory = {
        .curve = {
            .rows = 13,
            .micro_batches = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096},
            .values = {gpuplan::bytes::from_value(1.5e+08),
                       gpuplan::bytes::from_value(1.8e+08),
                       gpuplan::bytes::from_value(2.2e+08),
                       gpuplan::bytes::from_value(2.8e+08),
                       gpuplan::bytes::from_value(3.5e+08),
                       gpuplan::bytes::from_value(4.8e+08),
                       gpuplan::bytes::from_value(7.2e+08),
                       gpuplan::bytes::from_value(1.15e+09),
                       gpuplan::bytes::from_value(2.05e+09),
                       gpuplan::bytes::from_value(3.85e+09),
                       gpuplan::bytes::from_value(7.45e+09),
                       gpuplan::bytes::from_value(1.425e+10),
                       gpuplan::bytes::from_value(2.785e+10)},
            .line_from = 16,
            .straight = true,
            .line = {
                .fixed = gpuplan::bytes::from_value(256547619.04761904),
                .per_sample = gpuplan::bytes::from_value(6982886.904761905),
            },
            .lower = {
                .fixed = gpuplan::bytes::from_value(335714285.7142856),
                .per_sample = gpuplan::bytes::from_value(6696428.571428572),
            },
            .upper = {
                .fixed = gpuplan::bytes::from_value(221428571.42857146),
                .per_sample = gpuplan::bytes::from_value(7142857.142857143),
            },
            .confidence = 0.9609375,
            .scatter = {-0.04962017132697599, 0.023523438822135808},
        },
        .ran_out_at = 8192,
        .ran_out_of = gpuplan::bytes::from_value(8e+10),
        .while_accumulating = gpuplan::bytes::from_value(0.0),
    },
    .time = {
        .micro_batch = {
            .rows = 13,
            .micro_batches = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096},
            .values = {gpuplan::duration::from_value(0.03635),
                       gpuplan::duration::from_value(0.0378),
                       gpuplan::duration::from_value(0.04035),
                       gpuplan::duration::from_value(0.04413),
                       gpuplan::duration::from_value(0.04979),
                       gpuplan::duration::from_value(0.05835),
                       gpuplan::duration::from_value(0.07146),
                       gpuplan::duration::from_value(0.09190999999999999),
                       gpuplan::duration::from_value(0.12757),
                       gpuplan::duration::from_value(0.18768),
                       gpuplan::duration::from_value(0.28735),
                       gpuplan::duration::from_value(0.49990999999999997),
                       gpuplan::duration::from_value(0.92201)},
            .line_from = 256,
            .straight = true,
            .line = {
                .fixed = gpuplan::duration::from_value(0.07564799999999999),
                .per_sample = gpuplan::duration::from_value(0.000206740234375),
            },
            .lower = {
                .fixed = gpuplan::duration::from_value(0.08801000000000003),
                .per_sample = gpuplan::duration::from_value(0.00019466796874999996),
            },
            .upper = {
                .fixed = gpuplan::duration::from_value(0.046909999999999896),
                .per_sample = gpuplan::duration::from_value(0.0002348046875000001),
            },
            .confidence = 0.875,
            .scatter = {-0.007804874254803814, 0.03405528405115191},
        },
        .once = gpuplan::duration::from_value(0.0),
    },
};
