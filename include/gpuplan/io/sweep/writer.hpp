#pragma once

// Writes the results of a sweep as they come, so that a crash loses the setting in flight at most,
// and goes on where an earlier sweep ended. For systems with POSIX files.

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/sweep/columns.hpp>
#include <gpuplan/io/sweep/trials.hpp>
#include <gpuplan/measure/sweep/options.hpp>
#include <gpuplan/measure/sweep/trial.hpp>
#include <gpuplan/result.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuplan::io {

/// A file could not be opened, read or written; says which and why.
class file_error : public std::runtime_error {
 public:
  file_error(const std::string& what, const std::string& file, int error)
      : std::runtime_error("cannot " + what + ' ' + file + ": " + std::strerror(error)) {}
  using std::runtime_error::runtime_error;
};

/// Which lines a file of this name has: CSV where it ends in .csv, else JSON.
[[nodiscard]] inline sweep_format format_of_file(std::string_view file) {
  return file.ends_with(".csv") ? sweep_format::csv : sweep_format::json_lines;
}

/// Writes one line for each trial that ends, and hands each to the disk before the next begins.
/// Where it cannot, as on a full disk, it says so once, the sweep goes on, and with every later
/// trial it tries to write what is missing. A file that was removed or replaced meanwhile is such a
/// failure too.
class sweep_writer final : public measure::sweep_observer {
 public:
  enum class earlier { replaced, kept };

  /// Opens a file, made where there is none. What an earlier sweep wrote is replaced, or kept and
  /// in `trials()` then; half a line at its end is cut off. `tell` hears of a failure to write.
  /// Each line says of what and when it is, by `origin`. Throws `file_error` where the file cannot
  /// be opened, another sweep is writing it, or what is kept are no trials, or of another subject.
  sweep_writer(std::string file,
               sweep_format format,
               earlier results,
               std::function<void(const std::string&)> tell = {},
               trial_origin origin = {})
      : file_(std::move(file)),
        format_(format),
        tell_(std::move(tell)),
        origin_(std::move(origin)) {
    origin_.subject = printable(origin_.subject);
    descriptor_ = open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    // What cannot be read, such as a pipe's end, may still be written.
    if (descriptor_ < 0 && results == earlier::replaced)
      descriptor_ = open(file_.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0) throw file_error("open", file_, errno);
    try {
      begin(results);
    } catch (...) {
      close(descriptor_);
      throw;
    }
  }
  sweep_writer(const sweep_writer&) = delete;
  sweep_writer& operator=(const sweep_writer&) = delete;
  ~sweep_writer() override { close(descriptor_); }

  void ends(const measure::trial& t, const measure::sweep_progress&) override {
    pending_ += line_of(t, format_, origin_);
    write_pending();
  }

  /// What was in the file and kept: for `sweep_options::already_measured`.
  [[nodiscard]] const std::vector<measure::trial>& trials() const { return kept_.trials; }
  /// Of these, what and when they are of.
  [[nodiscard]] const std::vector<trial_origin>& origins() const { return kept_.origins; }
  /// Lines of that which could not be read.
  [[nodiscard]] const std::vector<bad_line>& bad_lines() const { return kept_.bad; }
  /// Why not all trials are in the file; empty where they are.
  [[nodiscard]] std::string problem() const {
    return problem_.empty() && is_gone() ? words_of_gone() : problem_;
  }

 private:
  static constexpr std::size_t most_kept = std::size_t{64} << 20;

  // Whether the name leads to another file by now, or to none.
  [[nodiscard]] bool is_gone() const {
    struct stat own {};
    struct stat named {};
    return is_regular_ && (fstat(descriptor_, &own) != 0 || stat(file_.c_str(), &named) != 0 ||
                           own.st_ino != named.st_ino || own.st_dev != named.st_dev);
  }
  [[nodiscard]] std::string words_of_gone() const {
    return "cannot write " + file_ + ": it was removed or replaced while the sweep ran";
  }

  void begin(earlier results) {
    struct stat about {};
    if (fstat(descriptor_, &about) != 0) throw file_error("open", file_, errno);
    is_regular_ = S_ISREG(about.st_mode);
    if (is_regular_) {
      if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0)
        throw file_error("write " + file_ + ": another sweep is writing it");
      if (results == earlier::kept) keep(static_cast<std::size_t>(about.st_size));
      if (ftruncate(descriptor_, static_cast<off_t>(size_)) != 0)
        throw file_error("write", file_, errno);
    }
    if (size_ == 0 && format_ == sweep_format::csv) pending_ = csv_head_of_trials();
  }

  void keep(std::size_t size) {
    if (size > most_kept)
      throw file_error("cannot go on with " + file_ + ": it has " + std::to_string(size) +
                       " bytes, and at most " + std::to_string(most_kept) + " are read");
    std::string text(size, '\0');
    std::size_t have = 0;
    while (have < size) {
      const ssize_t more =
          pread(descriptor_, text.data() + have, size - have, static_cast<off_t>(have));
      if (more < 0 && errno == EINTR) continue;
      if (more < 0) throw file_error("read", file_, errno);
      if (more == 0) break;
      have += static_cast<std::size_t>(more);
    }
    text.resize(have);
    // Of half a first line, its beginning tells whose it is.
    const std::string first =
        format_ == sweep_format::csv ? csv_head_of_trials() : line_of(measure::trial{}, format_);
    const std::size_t known = std::min({text.size(), first.size(), std::size_t{14}});
    const auto read = read_trials(text, format_);
    if (text.compare(0, known, first, 0, known) != 0 || !read ||
        (read->trials.empty() && !read->bad.empty()))
      throw file_error("cannot go on with " + file_ +
                       ": what it holds are no trials of a sweep in this format");
    for (const trial_origin& origin : read->origins)
      if (origin.subject != origin_.subject)
        throw file_error(
            "cannot go on with " + file_ + ": its results are of " +
            (origin.subject.empty() ? "what it does not say" : detail::shown(origin.subject)) +
            ", and this sweep is of " +
            (origin_.subject.empty() ? "what is not said" : origin_.subject));
    kept_ = *read;
    size_ = kept_.whole_size;
  }

  // What was written in part is written again over itself: the file never holds a line twice.
  void write_pending() {
    if (is_gone()) return fail(words_of_gone(), 0);
    std::size_t done = 0;
    while (done < pending_.size()) {
      const char* const from = pending_.data() + done;
      const std::size_t left = pending_.size() - done;
      const ssize_t more = is_regular_
                               ? pwrite(descriptor_, from, left, static_cast<off_t>(size_ + done))
                               : ::write(descriptor_, from, left);
      if (more < 0 && errno == EINTR) continue;
      if (more <= 0) return fail(more < 0 ? errno : EIO, done);
      done += static_cast<std::size_t>(more);
    }
    // Only files of a disk have something to wait for.
    if (is_regular_ && fsync(descriptor_) != 0 && errno != EINVAL && errno != EROFS)
      return fail(errno, 0);
    size_ += done;
    pending_.clear();
    problem_.clear();
  }
  void fail(int error, std::size_t written) {
    fail("cannot write " + file_ + ": " + std::strerror(error), written);
  }
  void fail(const std::string& why, std::size_t written) {
    // What cannot be written over must not be written again.
    if (!is_regular_) pending_.erase(0, written);
    const bool is_new = problem_.empty();
    problem_ = why;
    if (is_new && tell_) tell_(problem_);
  }

  std::string file_;
  sweep_format format_;
  std::function<void(const std::string&)> tell_;
  trial_origin origin_;
  int descriptor_ = -1;
  bool is_regular_ = false;
  trials_file kept_{};
  std::size_t size_ = 0;   // of what is written for good
  std::string pending_{};  // what follows it
  std::string problem_{};
};

}  // namespace gpuplan::io
