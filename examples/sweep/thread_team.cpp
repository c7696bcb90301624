#include "sweep/thread_team.hpp"

#include <cstddef>
#include <exception>
#include <functional>

namespace sweep_examples {

thread_team::thread_team(int threads)
    : threads_(threads), errors_(static_cast<std::size_t>(threads)), gate_(threads) {
  try {
    for (int thread = 1; thread < threads; ++thread)
      others_.emplace_back([this, thread] {
        while (true) {
          gate_.arrive_and_wait();
          if (work_ == nullptr) return;
          do_share(thread);
          gate_.arrive_and_wait();
        }
      });
  } catch (...) {  // no thread for the rest of them: their places at the gate are given up
    for (std::size_t missing = others_.size() + 1; missing < errors_.size(); ++missing)
      gate_.arrive_and_drop();
    gate_.arrive_and_wait();
    for (std::thread& other : others_) other.join();
    throw;
  }
}

thread_team::~thread_team() {
  work_ = nullptr;
  gate_.arrive_and_wait();
  for (std::thread& other : others_) other.join();
}

void thread_team::do_share(int thread) {
  try {
    (*work_)(thread);
  } catch (...) {
    errors_[static_cast<std::size_t>(thread)] = std::current_exception();
  }
}

void thread_team::run(const std::function<void(int)>& work) {
  work_ = &work;
  gate_.arrive_and_wait();
  do_share(0);
  gate_.arrive_and_wait();
  for (std::exception_ptr& error : errors_)
    if (error) {
      const std::exception_ptr first = error;
      for (std::exception_ptr& each : errors_) each = nullptr;
      std::rethrow_exception(first);
    }
}

}  // namespace sweep_examples
