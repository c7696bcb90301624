#pragma once

// The operators of eager mode, by which a model's forward is written down. What an operator
// allocates and keeps for backward its comment says; where it says nothing, it allocates its result
// alone and keeps nothing. A view allocates nothing. Nothing is kept where no operand needs a
// gradient. How long operands live, `argument` says. Beside each stands what its backward makes.

#include <gpuplan/replay/eager/operators/attention.hpp>
#include <gpuplan/replay/eager/operators/casts.hpp>
#include <gpuplan/replay/eager/operators/elementwise.hpp>
#include <gpuplan/replay/eager/operators/embedding.hpp>
#include <gpuplan/replay/eager/operators/indexing.hpp>
#include <gpuplan/replay/eager/operators/norms.hpp>
#include <gpuplan/replay/eager/operators/placeholders.hpp>
#include <gpuplan/replay/eager/operators/products.hpp>
#include <gpuplan/replay/eager/operators/reductions.hpp>
#include <gpuplan/replay/eager/operators/views.hpp>
