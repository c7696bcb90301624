#pragma once

// The processes of one MPI program. The only header here that includes MPI's.

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>

namespace sweep_mpi {

/// MPI from its start to its end, and the ranks that it started. What is collective here, all ranks
/// call in the same order, and wait for each other. Where MPI fails, it says so and ends them all.
class ranks {
 public:
  /// Starts MPI for calls of this thread. A process that no mpirun started is the only rank.
  ranks(int& argc, char**& argv) {
    int granted = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &granted);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    MPI_Comm machine = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &machine);
    MPI_Comm_size(machine, &on_this_machine_);
    MPI_Comm_free(&machine);
  }
  ~ranks() { MPI_Finalize(); }
  ranks(const ranks&) = delete;
  ranks& operator=(const ranks&) = delete;

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  /// How many of them share this one's memory.
  [[nodiscard]] int on_this_machine() const noexcept { return on_this_machine_; }
  [[nodiscard]] bool is_first() const noexcept { return rank_ == 0; }

  /// Waits until all ranks are here. Collective.
  void meet() const { MPI_Barrier(MPI_COMM_WORLD); }

  /// Each number becomes its sum over the ranks. Collective.
  void sum(std::span<float> values) const {
    while (!values.empty()) {
      const std::size_t now = std::min(values.size(), most);
      MPI_Allreduce(
          MPI_IN_PLACE, values.data(), static_cast<int>(now), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      values = values.subspan(now);
    }
  }

  /// The largest that any rank has. Collective.
  [[nodiscard]] double largest(double value) const {
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return value;
  }
  [[nodiscard]] int largest(int value) const {
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return value;
  }

  /// What the first rank has. Collective. Throws std::length_error, on all ranks, for 2 GiB.
  [[nodiscard]] std::string of_first(std::string text) const {
    auto size = static_cast<std::uint64_t>(text.size());
    MPI_Bcast(&size, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    if (size > most) throw std::length_error("sweep_mpi: more than MPI counts at once");
    text.resize(size);
    MPI_Bcast(text.data(), static_cast<int>(size), MPI_CHAR, 0, MPI_COMM_WORLD);
    return text;
  }

 private:
  static constexpr std::size_t most = std::numeric_limits<int>::max();  // that MPI counts at once

  int rank_ = 0;
  int size_ = 1;
  int on_this_machine_ = 1;
};

}  // namespace sweep_mpi
