#pragma once

// A value that may not be known.

#include <gpuplan/result.hpp>

namespace gpuplan {

/// A value that may not be known, and then is none that one could compute with: `if (x)`, and `*x`,
/// whose precondition is that it is known; else a compile error, at run time a `plan_error`.
/// (`std::optional` would double the template instantiations of what describes a device.)
template <class T>
class known {
 public:
  constexpr known() = default;
  constexpr known(T value)
      : value_(value), is_known_(true) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] constexpr explicit operator bool() const { return is_known_; }
  [[nodiscard]] constexpr const T& operator*() const {
    if (!is_known_) detail::precondition_violated(failure(errc::not_known));
    return value_;
  }
  [[nodiscard]] constexpr const T* operator->() const { return &**this; }

 private:
  T value_{};
  bool is_known_ = false;
};

}  // namespace gpuplan
