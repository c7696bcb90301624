#include "sweep_cpu/description.hpp"

#include <unistd.h>
#include <gpuplan/io/table.hpp>

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace sweep_cpu_program {
std::string name_of_processor() {
  const unsigned threads = std::max(1U, std::thread::hardware_concurrency());
  std::string name = "processor";
  std::ifstream about_it("/proc/cpuinfo");
  for (std::string line; std::getline(about_it, line);)
    if (line.starts_with("model name")) {
      name = line.substr(std::min(line.find(':') + 2, line.size()));
      break;
    }
  return name + (threads == 1 ? ", 1 thread" : ", " + std::to_string(threads) + " threads");
}

double memory_of_machine() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

std::string remark_on_loss(const training& trained) {
  const std::vector<learning>& all = trained.learned();
  if (all.empty()) return {};
  const auto seen = [](const learning& one) { return one.steps * one.setting.micro_batch; };
  const auto fell = std::count_if(
      all.begin(), all.end(), [](const learning& one) { return one.last_loss < one.first_loss; });
  const learning& most = *std::max_element(
      all.begin(), all.end(), [&](const auto& a, const auto& b) { return seen(a) < seen(b); });
  return "The loss fell in " + std::to_string(fell) + " of " + std::to_string(all.size()) +
         " settings; with batch " + std::to_string(most.setting.micro_batch) +
         ", which saw most samples (" + std::to_string(seen(most)) + "), from " +
         gpuplan::io::decimal(most.first_loss, 3) + " to " +
         gpuplan::io::decimal(most.last_loss, 3) + '.';
}

}  // namespace sweep_cpu_program
