#pragma once

// What the backward of a node is told, and makes. Private.

#include <gpuplan/replay/eager/tape.hpp>

namespace gpuplan::eager {

struct gradients {
  value of[most_inputs]{};
};

/// One node's backward.
struct node_backward {
  tape& t;
  const node& by;
  int index;              // of the node
  const value* incoming;  // gradients of the results,
  const tensor& g;        // of the first,
  value* out;             // and of the inputs, to be made

  /// Whether the input needs a gradient,
  [[nodiscard]] constexpr bool needs(int which) const { return by.leads_back(which); }
  /// and now.
  [[nodiscard]] constexpr bool wants(int which) const { return by.goes_to(which); }
  [[nodiscard]] constexpr const tensor& kept(int which) const { return t.kept_by(index, which); }
  [[nodiscard]] constexpr value like_gradient() const { return t.make_like(g.size, g.format, g); }
};

/// The backward of a torch.autograd.Function: it may make a graph of its own and follow it.
class own_backward {
 public:
  /// `incoming`: the gradients of the results, which the caller holds.
  constexpr virtual void run(tape& t, int node, const value* incoming, gradients& out) const = 0;
  /// Likewise, where the function is handed the gradients to let go of.
  constexpr virtual void consume(tape& t, int node, value* incoming, gradients& out) const {
    run(t, node, incoming, out);
  }

 protected:
  constexpr ~own_backward() = default;
};

}  // namespace gpuplan::eager
