#include "setups/machine.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

extern char** environ;

namespace setups {
namespace {

constexpr std::int64_t mebibyte = 1 << 20;
// What a machine's devices take to list, and no more is read.
constexpr std::size_t most_of_an_answer = 1 << 16;

struct said {
  std::string text{};
  std::string why_not{};  // empty: the program ended well
};

// What a program prints, if it ends well within the time.
said answer_of(std::vector<std::string> words, double seconds) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {.why_not = std::strerror(errno)};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  const int refused = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  said made;
  if (refused != 0) {
    close(ends[0]);
    return {.why_not = refused == ENOENT ? "is not on the PATH" : std::strerror(refused)};
  }
  using clock = std::chrono::steady_clock;
  const auto end = clock::now() + std::chrono::duration<double>(seconds);
  const auto left = [&] {
    const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(end - clock::now());
    return static_cast<int>(std::max<std::int64_t>(0, rest.count()));
  };
  bool is_late = false;
  while (!is_late && made.text.size() < most_of_an_answer) {
    pollfd waits{.fd = ends[0], .events = POLLIN, .revents = 0};
    const int ready = poll(&waits, 1, left());
    if (ready < 0 && errno == EINTR) continue;
    is_late = ready <= 0;
    char some[4096];
    const ssize_t more = is_late ? 0 : read(ends[0], some, sizeof some);
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) break;
    made.text.append(some, static_cast<std::size_t>(more));
  }
  close(ends[0]);
  int status = 0;
  pid_t ended = 0;
  // Who closed its output may still run.
  while (!is_late && (ended = waitpid(child, &status, WNOHANG)) == 0) {
    is_late = left() == 0;
    poll(nullptr, 0, 5);
  }
  if (ended == 0) {
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return {.why_not = "did not answer in time"};
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    made.why_not = WIFEXITED(status) ? "ends with status " + std::to_string(WEXITSTATUS(status))
                                     : "was ended by a signal";
  return made;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blank = " \t\r\n";
  while (!text.empty() && blank.find(text.front()) != blank.npos) text.remove_prefix(1);
  while (!text.empty() && blank.find(text.back()) != blank.npos) text.remove_suffix(1);
  return text;
}

std::int64_t number_in(std::string_view text, int base = 10) {
  std::int64_t value = 0;
  if (base == 16 && text.starts_with("0x")) text.remove_prefix(2);
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return read.ec == std::errc{} && value >= 0 ? value : 0;
}

// ---- NVIDIA

// "NVIDIA H100 80GB HBM3, 81559": the last comma parts name and MiB.
bool ask_nvidia_smi(double seconds, seen_machine& to) {
  const said answer = answer_of(
      {"nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"}, seconds);
  std::istringstream lines(answer.text);
  std::string line;
  if (answer.why_not.empty())
    while (std::getline(lines, line)) {
      const std::size_t comma = line.rfind(',');
      const std::string_view name = trimmed(std::string_view(line).substr(0, comma));
      if (comma == std::string::npos || name.empty()) continue;
      const std::string_view memory = trimmed(std::string_view(line).substr(comma + 1));
      to.devices.push_back({std::string(name), number_in(memory) * mebibyte});
    }
  if (to.devices.empty())
    to.tried.push_back("nvidia-smi " +
                       (answer.why_not.empty() ? std::string("lists none") : answer.why_not));
  to.by = "nvidia-smi";
  return !to.devices.empty();
}

// As nvml.h of NVIDIA's driver has them, whose functions keep their meaning.
struct nvml_memory {
  unsigned long long total, free, used;
};
using nvml_device = void*;

bool ask_nvml(seen_machine& to) {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    to.tried.emplace_back("NVML (libnvidia-ml.so.1) is not there");
    return false;
  }
  const auto found = [&](auto& function, const char* name) {
    void* address = dlsym(library, name);
    static_assert(sizeof address == sizeof function);
    std::memcpy(&function, &address, sizeof address);
    return address != nullptr;
  };
  int (*start)() = nullptr;
  int (*stop)() = nullptr;
  int (*count_devices)(unsigned*) = nullptr;
  int (*device_at)(unsigned, nvml_device*) = nullptr;
  int (*name_of)(nvml_device, char*, unsigned) = nullptr;
  int (*memory_of)(nvml_device, nvml_memory*) = nullptr;
  const bool is_whole = found(start, "nvmlInit_v2") && found(stop, "nvmlShutdown") &&
                        found(count_devices, "nvmlDeviceGetCount_v2") &&
                        found(device_at, "nvmlDeviceGetHandleByIndex_v2") &&
                        found(name_of, "nvmlDeviceGetName") &&
                        found(memory_of, "nvmlDeviceGetMemoryInfo");
  if (is_whole && start() == 0) {
    unsigned count = 0;
    if (count_devices(&count) != 0) count = 0;
    for (unsigned at = 0; at < count; ++at) {
      nvml_device device = nullptr;
      char name[96] = {};
      nvml_memory memory{};
      if (device_at(at, &device) != 0 || name_of(device, name, sizeof name) != 0) continue;
      if (memory_of(device, &memory) != 0) memory.total = 0;
      to.devices.push_back({name, static_cast<std::int64_t>(memory.total)});
    }
    stop();
  }
  dlclose(library);
  if (to.devices.empty()) to.tried.emplace_back("NVML lists none");
  to.by = "NVML";
  return !to.devices.empty();
}

// ---- AMD

std::string first_line(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return std::string(trimmed(line));
}

// By PCI's list of ids (pci-ids.ucw.cz); a MI250's two devices and a MI250X's share theirs.
const char* name_of_amd(std::int64_t device) {
  switch (device) {
    case 0x738c:
      return "Instinct MI100";
    case 0x7408:
    case 0x740c:
      return "Instinct MI250X";
    case 0x740f:
      return "Instinct MI210";
    case 0x74a1:
      return "Instinct MI300X";
    case 0x74a5:
      return "Instinct MI325X";
    case 0x75a0:
      return "Instinct MI350X";
    case 0x75a3:
      return "Instinct MI355X";
    default:
      return nullptr;
  }
}

bool read_sysfs(const std::string& root, seen_machine& to) {
  const std::filesystem::path drm = std::filesystem::path(root) / "class" / "drm";
  std::vector<std::filesystem::path> cards;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(drm, none)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("card") && name.find('-') == std::string::npos)
      cards.push_back(entry.path() / "device");
  }
  std::sort(cards.begin(), cards.end());
  for (const std::filesystem::path& card : cards) {
    if (number_in(first_line(card / "vendor"), 16) != 0x1002) continue;
    const std::string id = first_line(card / "device");
    const char* known = name_of_amd(number_in(id, 16));
    std::string name = known != nullptr ? known : first_line(card / "product_name");
    if (name.empty()) name = "AMD device " + id;
    to.devices.push_back({name, number_in(first_line(card / "mem_info_vram_total"))});
  }
  if (to.devices.empty()) to.tried.push_back(drm.string() + " has no card of AMD's");
  to.by = drm.string();
  return !to.devices.empty();
}

}  // namespace

seen_machine look_at_machine(const std::string& sysfs, double seconds) {
  seen_machine made;
  if (ask_nvidia_smi(seconds, made) || ask_nvml(made) || read_sysfs(sysfs, made)) return made;
  made.by.clear();
  return made;
}

}  // namespace setups
