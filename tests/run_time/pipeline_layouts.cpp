// Megatron-Core's layouts of pipelines: as NVIDIA's recipes have them, and random ones beside
// another reading of what they mean.

#include "check.hpp"
#include "random_numbers.hpp"

#include <gpuplan/io/trainer/pipeline_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

using namespace gpuplan;

namespace {

std::vector<int> chunks_in(const std::string& text) {
  const io::read_pipeline_layout read = io::pipeline_layout_of(text);
  INFO(text, " ", read.why);
  REQUIRE(read);
  return {read.chunks.layers, read.chunks.layers + read.chunks.count};
}
std::vector<int> repeated(int count, int each) {
  return std::vector<int>(static_cast<std::size_t>(count), each);
}
int sum(const std::vector<int>& of) { return std::accumulate(of.begin(), of.end(), 0); }

// By its meaning: the innermost bracket, or the first letter before a star, is written out until
// there is none; then the letters t between strokes are counted.
std::string written_out(std::string text) {
  for (std::size_t at = text.find(','); at != std::string::npos; at = text.find(','))
    text.erase(at, 1);
  for (std::size_t star = text.find('*'); star != std::string::npos; star = text.find('*')) {
    std::size_t end = star + 1;
    int times = 0;
    for (; end < text.size() && std::string("0123456789").find(text[end]) != std::string::npos;
         ++end)
      times = 10 * times + (text[end] - '0');
    std::size_t begin = star - 1;
    std::string one = text.substr(begin, 1);
    if (text[begin] == ')') {
      begin = text.rfind('(', begin);
      one = text.substr(begin + 1, star - begin - 2);
    }
    std::string all;
    for (int time = 0; time < times; ++time) all += one;
    text = text.substr(0, begin) + all + text.substr(end);
  }
  return text;
}
std::vector<int> counted(const std::string& text) {
  std::vector<int> found{0};
  for (const char letter : written_out(text)) {
    if (letter == '|') found.push_back(0);
    if (letter == 't') ++found.back();
  }
  return found;
}

std::string random_layout(random_numbers& random) {
  std::string text = "E";
  const auto letters = [&] {
    const auto count = random.below(4);
    if (random.below(2) == 0) return "t*" + std::to_string(count + 1);
    return std::string(static_cast<std::size_t>(count), 't');
  };
  for (auto parts = 1 + random.below(5); parts > 0; --parts) {
    if (random.below(2) == 0) {
      text += letters() + "|";
    } else {
      // within brackets no stars: the other reading writes out the first star first
      std::string inside(static_cast<std::size_t>(random.below(3)), 't');
      text += "(" + inside + "|" + (random.below(2) == 0 ? "t|" : "") + ")*" +
              std::to_string(1 + random.below(6));
    }
    if (random.below(3) == 0) text += ",";
  }
  return text + letters() + (random.below(2) == 0 ? "m" : "") + "L";
}

}  // namespace

TEST_CASE("layouts of NVIDIA's recipes") {
  // DeepSeek-V3, 61 layers, on 16 stages, or on 8 in two chunks, 4 in four, 2 in eight
  std::vector<int> deepseek = repeated(15, 4);
  deepseek.push_back(1);
  CHECK(chunks_in("Et*4|(tttt|)*14tmL") == deepseek);
  CHECK(chunks_in("Et*4|(t*4|)*14tmL") == deepseek);
  CHECK(sum(deepseek) == 61);
  CHECK(io::pipeline_layout_of("Et*4|(t*4|)*14tmL").mtp_layers == 1);
  // on 8 stages in four chunks
  const std::vector<int> in_four = chunks_in("Et|(tt|)*30mL");
  CHECK(in_four.size() == 32);
  CHECK(in_four.front() == 1);
  CHECK(in_four.back() == 0);
  CHECK(sum(in_four) == 61);
  // Llama 3 70B on 8 stages in five chunks
  const std::vector<int> llama = chunks_in("Et*2|(t*2|)*34,t*3|(t*2|)*3,tL");
  CHECK(llama.size() == 40);
  CHECK(sum(llama) == 80);
  CHECK(llama[35] == 3);
  CHECK(llama.back() == 1);
  // Megatron-Core's documentation: multi-token prediction before the loss, on 16 stages in two
  const io::read_pipeline_layout apart = io::pipeline_layout_of("Et*3|(tt|)*29,m|L");
  REQUIRE(apart);
  CHECK(apart.mtp_is_apart);
  CHECK(apart.chunks.count == 32);
  CHECK(apart.chunks.layers_before(32) == 61);
}

TEST_CASE("layouts mean what is written out, and are written as they are read") {
  random_numbers random(17);
  for (int round = 0; round < 5'000; ++round) {
    const std::string text = random_layout(random);
    const io::read_pipeline_layout read = io::pipeline_layout_of(text);
    INFO(text, " ", read.why);
    REQUIRE(read);
    CHECK(chunks_in(text) == counted(text));
    const std::string again = io::text_of(read.chunks, read.mtp_layers);
    INFO(again);
    CHECK(io::pipeline_layout_of(again).chunks == read.chunks);
    CHECK(io::pipeline_layout_of(again).mtp_layers == read.mtp_layers);
    CHECK(counted(again) == counted(text));
    CHECK(again.size() <= written_out(text).size() + 3 * counted(text).size());
  }
  CHECK(io::text_of(io::pipeline_layout_of("Et*4|(tttt|)*14tmL").chunks, 1) == "Et*4|(t*4|)*14tmL");
}

TEST_CASE("what is no layout is refused with what is wrong") {
  for (const char* const wrong : {"",
                                  "E",
                                  "tL",
                                  "Et",
                                  "E(tL",
                                  "Et)L",
                                  "Et*L",
                                  "E*tL",
                                  "EtxL",
                                  "EmtL",
                                  "Et|EtL",
                                  "EtL|tL",
                                  "E(t*99999999999)L",
                                  "E((((((((((t))))))))))L",
                                  "Et*256L",
                                  "E(t|)*128L"})
    CHECK_MESSAGE(!io::pipeline_layout_of(wrong), wrong);
  CHECK(io::pipeline_layout_of("EmtL").why == "has t behind m; before it, it is taken");
  CHECK(io::pipeline_layout_of("Et*255|(t|)*126L"));
}
