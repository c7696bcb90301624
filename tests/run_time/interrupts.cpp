// Ctrl-C: how commands end, and what they leave.

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "check.hpp"
#include "guides/front_end.hpp"
#include "guides/interruption.hpp"
#include "program.hpp"

namespace {

namespace files = std::filesystem;
using words = std::vector<std::string>;

// A folder for a test's files.
class scratch {
 public:
  scratch() {
    std::string name = (files::temp_directory_path() / "gpuplan.XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  scratch(const scratch&) = delete;
  scratch& operator=(const scratch&) = delete;
  ~scratch() { files::remove_all(path_); }

  [[nodiscard]] std::string operator/(const char* name) const { return (path_ / name).string(); }

 private:
  files::path path_;
};

// A process that calls this with standard error going to `err`, and ends with what it returns; it
// is stopped where the test has gone.
template <class Call>
pid_t started(int err, Call call) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child != 0) return child;
  alarm(120);
  std::signal(SIGINT, SIG_DFL);
  const int nowhere = fileno(std::tmpfile());
  dup2(nowhere, STDOUT_FILENO);
  dup2(err >= 0 ? err : nowhere, STDERR_FILENO);
  _exit(call());
}
pid_t started_command(int err, words arguments) {
  return started(err, [&] {
    arguments.insert(arguments.begin(), "gpuplan");
    std::vector<char*> argv;
    for (std::string& word : arguments) argv.push_back(word.data());
    argv.push_back(nullptr);
    return gpuplan_program::run(static_cast<int>(arguments.size()), argv.data());
  });
}
// The exit status; below 0 of what a signal ended.
int status_of(pid_t child) {
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

std::string text_in(const files::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
std::map<std::string, std::string> all_in(const std::string& folder) {
  std::map<std::string, std::string> found;
  if (!files::exists(folder)) return found;
  for (const auto& one : files::recursive_directory_iterator(folder))
    if (one.is_regular_file())
      found[files::relative(one.path(), folder).string()] = text_in(one.path());
  return found;
}

}  // namespace

TEST_CASE("Ctrl-C ends a command that waits with 130, below what the terminal shows") {
  const scratch folder;
  const std::string waited_for = folder / "config.json";
  REQUIRE(mkfifo(waited_for.c_str(), 0600) == 0);
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  REQUIRE(terminal >= 0);
  REQUIRE(grantpt(terminal) == 0);
  REQUIRE(unlockpt(terminal) == 0);
  const int screen = open(ptsname(terminal), O_WRONLY | O_NOCTTY | O_CLOEXEC);
  REQUIRE(screen >= 0);
  const pid_t child = started_command(screen, {"check", waited_for});
  const int writer = open(waited_for.c_str(), O_WRONLY);  // returns once the command reads
  REQUIRE(writer >= 0);
  kill(child, SIGINT);
  CHECK(status_of(child) == 130);
  close(writer);
  close(screen);
  char seen[16]{};
  const ssize_t count = read(terminal, seen, sizeof seen);
  close(terminal);
  REQUIRE(count == 2);
  CHECK(std::string(seen) == "\r\n");
}

TEST_CASE("whenever Ctrl-C comes, the files of a plan are all there or none") {
  const scratch folder;
  const std::string from = folder / "deepspeed.json";
  const std::string into = folder / "plan";
  REQUIRE(mkfifo(from.c_str(), 0600) == 0);
  const auto begin = [&] {
    const pid_t child = started_command(-1,
                                        {"plan",
                                         "llama-3.2-1b",
                                         "--from",
                                         from,
                                         "--gpu",
                                         "h100_sxm5_80gb",
                                         "--gpus",
                                         "64",
                                         "--batch",
                                         "256",
                                         "--write",
                                         "hf,accelerate,torchrun,slurm",
                                         "--into",
                                         into});
    std::ofstream(from) << R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 2}})";
    return child;
  };
  const auto now = [] { return std::chrono::steady_clock::now(); };
  const auto at_first = now();
  REQUIRE(status_of(begin()) == 0);
  const auto lasts = now() - at_first;
  const std::map<std::string, std::string> whole = all_in(into);
  REQUIRE(whole.size() > 4);
  int ended = 0;
  constexpr int times = 24;
  for (int at = 0; at < times; ++at) {
    files::remove_all(into);
    const pid_t child = begin();
    std::this_thread::sleep_for(lasts * at / times);
    kill(child, SIGINT);
    const int status = status_of(child);
    CAPTURE(at);
    CHECK((status == 130 || status == 0));
    ended += status == 130 ? 1 : 0;
    const std::map<std::string, std::string> left = all_in(into);
    CHECK((left.empty() || left == whole));
    if (status == 0) CHECK(left == whole);
  }
  CHECK(ended > 0);
}

TEST_CASE("what may not be interrupted is done first") {
  const scratch folder;
  const std::string file = folder / "file";
  const std::string other = folder / "other";
  CHECK(status_of(started(-1, [&] {
          guides::end_on_interrupt();
          const guides::uninterrupted whole;
          {
            const guides::uninterrupted part;
            std::raise(SIGINT);
          }
          guides::write_file("-o", file, "all of it");
          return 0;
        })) == 130);
  CHECK(text_in(file) == "all of it");
  CHECK(status_of(started(-1, [&] {
          guides::end_on_interrupt();
          std::raise(SIGINT);
          guides::write_file("-o", other, "all of it");
          return 0;
        })) == 130);
  CHECK_FALSE(files::exists(other));
}

TEST_CASE("where Ctrl-C is ignored it stays so") {
  CHECK(status_of(started(-1, [] {
          std::signal(SIGINT, SIG_IGN);
          guides::end_on_interrupt();
          std::raise(SIGINT);
          return 3;
        })) == 3);
}
