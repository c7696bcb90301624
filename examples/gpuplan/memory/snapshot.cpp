#include "memory/snapshot.hpp"

#include <gpuplan/io/pickle.hpp>
#include <gpuplan/memory/step_peaks.hpp>
#include <gpuplan/memory/trace.hpp>
#include <gpuplan/replay/caching_allocator.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "guides/front_end.hpp"
#include "memory/kinds.hpp"
#include "setups/numbers.hpp"

namespace memory_timeline {
namespace {

namespace io = gpuplan::io;
using gpuplan::memory_block;
using gpuplan::memory_change;
using gpuplan::memory_trace;
using io::pickled;

// Where a device's memory seems to begin; any address would do.
constexpr std::int64_t first_address = 0x7f00'0000'0000;

std::string place_of(const memory_block& block) {
  std::string words = gpuplan::text(block.when);
  if (block.layer >= 0) words += ", layer " + std::to_string(block.layer);
  return words;
}

// One frame: a file's name, a line and a function, as viewers show them.
void write_frames(io::pickle_writer& to, const std::string& name) {
  to.text("frames");
  to.begin_list();
  to.begin_dict();
  to.member("name", name);
  to.member("filename", "gpuplan");
  to.member("line", 0);
  to.end_dict();
  to.end_list();
}

class snapshot_writer {
 public:
  explicit snapshot_writer(const timed_trace& step) : step_(step) {
    handles_.resize(step.trace.blocks.size(), gpuplan::caching_allocator::out_of_memory);
  }

  std::string text() {
    const memory_trace& trace = step_.trace;
    to_.begin_dict();
    to_.text("device_traces");
    to_.begin_list();
    to_.begin_list();
    for (std::size_t block = 0; block < trace.before; ++block)
      allocate(block, "there before the step", 0);
    for (std::size_t at = 0; at < trace.changes.size(); ++at) {
      const memory_change& change = trace.changes[at];
      const std::int64_t microseconds = std::llround(1e6 * step_.times[at]);
      if (change.comes)
        allocate(change.block, place_of(trace.blocks[change.block]), microseconds);
      else
        release(change.block, microseconds);
    }
    to_.end_list();
    to_.end_list();
    write_segments();
    to_.end_dict();
    return to_.finished();
  }

 private:
  struct live_block {
    std::int64_t size = 0;
    std::size_t block = 0;
  };
  struct segment {
    std::int64_t size = 0;
    int stream = 0;
    bool is_small = false;
  };

  void write(const char* action,
             std::int64_t address,
             std::int64_t size,
             int stream,
             const std::string& frame,
             std::int64_t microseconds) {
    to_.begin_dict();
    to_.member("action", action);
    to_.member("addr", address);
    to_.member("size", size);
    to_.member("stream", stream);
    to_.member("time_us", microseconds);
    write_frames(to_, frame);
    to_.end_dict();
  }
  void allocate(std::size_t block, const std::string& frame, std::int64_t microseconds) {
    const memory_block& asked = step_.trace.blocks[block];
    if (asked.bytes == 0) return;
    const std::int64_t reserved = allocator_.current().reserved;
    handles_[block] = allocator_.allocate(asked.bytes, asked.stream);
    const gpuplan::memory_place place = allocator_.place(handles_[block]);
    const std::int64_t more = allocator_.current().reserved - reserved;
    if (more > 0) {
      // A block of a new segment stands at its beginning.
      const bool is_small = asked.bytes <= std::int64_t{1} << 20;
      segments_[place.address] = {more, asked.stream, is_small};
      write(
          "segment_alloc", first_address + place.address, more, asked.stream, frame, microseconds);
    }
    live_[place.address] = {place.bytes, block};
    write("alloc", first_address + place.address, asked.bytes, asked.stream, frame, microseconds);
  }
  void release(std::size_t block, std::int64_t microseconds) {
    const memory_block& asked = step_.trace.blocks[block];
    if (asked.bytes == 0) return;
    const std::int64_t address = allocator_.place(handles_[block]).address;
    allocator_.release(handles_[block]);
    live_.erase(address);
    for (const char* action : {"free_requested", "free_completed"})
      write(action,
            first_address + address,
            asked.bytes,
            asked.stream,
            place_of(asked),
            microseconds);
  }

  // What the allocator holds in the end, with what is free in it.
  void write_segments() {
    to_.text("segments");
    to_.begin_list();
    for (const auto& [begin, held] : segments_) {
      const std::int64_t end = begin + held.size;
      std::int64_t used = 0;
      for (auto at = live_.lower_bound(begin); at != live_.end() && at->first < end; ++at)
        used += at->second.size;
      to_.begin_dict();
      to_.member("address", first_address + begin);
      to_.member("total_size", held.size);
      to_.member("stream", held.stream);
      to_.member("segment_type", held.is_small ? "small" : "large");
      to_.member("device", 0);
      to_.member("allocated_size", used);
      to_.member("active_size", used);
      to_.text("blocks");
      to_.begin_list();
      std::int64_t address = begin;
      for (auto at = live_.lower_bound(begin); at != live_.end() && at->first < end; ++at) {
        write_block(address, at->first - address, nullptr);
        write_block(at->first, at->second.size, &step_.trace.blocks[at->second.block]);
        address = at->first + at->second.size;
      }
      write_block(address, end - address, nullptr);
      to_.end_list();
      to_.end_dict();
    }
    to_.end_list();
  }
  void write_block(std::int64_t address, std::int64_t size, const memory_block* held) {
    if (size == 0) return;
    to_.begin_dict();
    to_.member("address", first_address + address);
    to_.member("size", size);
    to_.member("requested_size", held != nullptr ? held->bytes : 0);
    to_.member("state", held != nullptr ? "active_allocated" : "inactive");
    write_frames(to_, held != nullptr ? place_of(*held) : "free");
    to_.end_dict();
  }

  const timed_trace& step_;
  io::pickle_writer to_{};
  gpuplan::caching_allocator allocator_{};
  std::vector<int> handles_{};
  std::map<std::int64_t, live_block> live_{};   // by address
  std::map<std::int64_t, segment> segments_{};  // likewise
};

// What is in use at the end of a snapshot, on one device.
std::int64_t left_in(const io::parsed_pickle& read, std::int64_t device) {
  std::int64_t sum = 0;
  const pickled* const segments = read.find(read.top(), "segments");
  if (segments == nullptr) return 0;
  for (const std::size_t at : segments->items) {
    const pickled& segment = read.values[at];
    if (read.integer(segment, "device").value_or(0) != device) continue;
    const pickled* const blocks = read.find(segment, "blocks");
    if (blocks == nullptr) continue;
    for (const std::size_t which : blocks->items) {
      const pickled& block = read.values[which];
      const pickled* const state = read.find(block, "state");
      if (state == nullptr || state->words != "active_allocated") continue;
      const auto requested = read.integer(block, "requested_size");
      sum += requested ? *requested : read.integer(block, "size").value_or(0);
    }
  }
  return sum;
}

std::string size_in_words(std::int64_t bytes) {
  return setups::grouped(bytes) + " B (" + setups::readable_bytes(bytes) + ")";
}

}  // namespace

std::string snapshot_of(const timed_trace& step) { return snapshot_writer(step).text(); }

measured_step measured_in(const std::string& option, const std::string& bytes) {
  const auto refuse = [&](const std::string& why) {
    return guides::bad_request(option + ": " + why);
  };
  const io::parsed_pickle read = io::read_pickle(bytes);
  if (!read) throw refuse("no snapshot of PyTorch: " + read.why);
  const pickled* const traces = read.find(read.top(), "device_traces");
  if (traces == nullptr || traces->is != pickled::kind::list)
    throw refuse("no snapshot of PyTorch, which has device_traces");
  const pickled* busiest = nullptr;
  std::int64_t device = 0;
  for (std::size_t at = 0; at < traces->items.size(); ++at) {
    const pickled& one = read.values[traces->items[at]];
    if (busiest != nullptr && one.items.size() <= busiest->items.size()) continue;
    busiest = &one;
    device = static_cast<std::int64_t>(at);
  }
  measured_step found{};
  std::int64_t in_use = 0;
  double last = 0;
  bool has_first = false;
  std::int64_t first = 0;
  if (busiest != nullptr)
    for (const std::size_t at : busiest->items) {
      const pickled& event = read.values[at];
      const pickled* const action = read.find(event, "action");
      const auto size = read.integer(event, "size");
      if (action == nullptr || !size || *size < 0) continue;
      const bool comes = action->words == "alloc";
      if (!comes && action->words != "free_completed") continue;
      const auto microseconds = read.integer(event, "time_us");
      if (microseconds && !has_first) first = *microseconds;
      has_first = has_first || microseconds;
      // without times, events stand one behind the other
      const double now = microseconds ? static_cast<double>(*microseconds - first) * 1e-6
                                      : static_cast<double>(found.in_use.size()) * 1e-6;
      last = std::max(last, now);
      in_use += comes ? *size : -*size;
      found.times.push_back(last);
      found.in_use.push_back(in_use);
      if (comes) found.asked.push_back(*size);
    }
  if (found.in_use.empty())
    throw refuse(
        "the snapshot has no history of allocations: torch.cuda.memory._record_memory_history() "
        "before the step keeps one");
  found.times.push_back(last);
  const std::int64_t before = std::max<std::int64_t>(0, left_in(read, device) - in_use);
  for (std::int64_t& sum : found.in_use) sum += before;
  return found;
}

io::stacked_areas::outline outline_of(const measured_step& measured,
                                      const std::string& name,
                                      double units_of_second) {
  io::stacked_areas::outline line{.name = name};
  for (const double time : measured.times) line.times.push_back(time * units_of_second);
  for (const std::int64_t bytes : measured.in_use)
    line.values.push_back(static_cast<double>(bytes) / setups::gibibyte);
  return line;
}

std::string comparison(const timed_trace& predicted, const measured_step& measured) {
  const memory_trace& trace = predicted.trace;
  std::vector<const memory_block*> asked;
  std::int64_t most = trace.at_first.total;
  for (const memory_change& change : trace.changes) {
    most = std::max(most, change.in_use.total);
    if (change.comes && trace.blocks[change.block].bytes > 0)
      asked.push_back(&trace.blocks[change.block]);
  }
  // The measured history may begin before the step: where most of it is alike, the step begins.
  std::size_t longest = 0;
  std::size_t begins = 0;
  for (std::size_t from = 0; from < measured.asked.size() && longest < asked.size(); ++from) {
    std::size_t alike = 0;
    while (alike < asked.size() && from + alike < measured.asked.size() &&
           asked[alike]->bytes == measured.asked[from + alike])
      ++alike;
    if (alike <= longest) continue;
    longest = alike;
    begins = from;
  }
  std::string words =
      "Peaks: predicted " + size_in_words(most) + ", measured " +
      size_in_words(*std::max_element(measured.in_use.begin(), measured.in_use.end())) + ". ";
  if (longest == asked.size())
    return words + "All " + setups::grouped(static_cast<std::int64_t>(longest)) +
           " allocations of the predicted step are measured ones, one after the other.";
  words += setups::grouped(static_cast<std::int64_t>(longest)) + " of " +
           setups::grouped(static_cast<std::int64_t>(asked.size())) +
           " allocations are alike one after the other; then the step predicted asks for " +
           size_in_words(asked[longest]->bytes) + " in " + place_of(*asked[longest]);
  if (begins + longest < measured.asked.size())
    return words + ", and the one measured for " + size_in_words(measured.asked[begins + longest]) +
           ".";
  return words + ", and the one measured ends.";
}

std::string chrome_trace_of(const timed_trace& step) {
  const memory_trace& trace = step.trace;
  nlohmann::ordered_json events = nlohmann::ordered_json::array();
  const auto add_span = [&](const std::string& name, int line, double begin, double end) {
    events.push_back({{"name", name},
                      {"ph", "X"},
                      {"pid", 0},
                      {"tid", line},
                      {"ts", 1e6 * begin},
                      {"dur", 1e6 * (end - begin)}});
  };
  // Neighbours of one name are one span: of moments, and of their layers below.
  for (const bool of_layers : {false, true})
    for (std::size_t first = 0; first < trace.changes.size();) {
      const auto name_of = [&](const memory_change& change) -> std::string {
        if (!of_layers) return gpuplan::text(change.when);
        return change.layer < 0 ? "" : "layer " + std::to_string(change.layer);
      };
      const std::string name = name_of(trace.changes[first]);
      std::size_t end = first + 1;
      while (end < trace.changes.size() && name_of(trace.changes[end]) == name) ++end;
      if (!name.empty()) add_span(name, of_layers ? 1 : 0, step.times[first], step.times[end]);
      first = end;
    }
  for (std::size_t at = 0; at < trace.changes.size(); ++at) {
    nlohmann::ordered_json parts = nlohmann::ordered_json::object();
    for (const kind& one : kinds())
      parts[one.of_picture] = memory_timeline::of(trace.changes[at].in_use, one);
    events.push_back({{"name", "memory in bytes"},
                      {"ph", "C"},
                      {"pid", 0},
                      {"ts", 1e6 * step.times[at]},
                      {"args", parts}});
  }
  const nlohmann::ordered_json document{
      {"displayTimeUnit", "ms"}, {"otherData", {{"time", step.clock}}}, {"traceEvents", events}};
  return document.dump() + "\n";
}

}  // namespace memory_timeline
