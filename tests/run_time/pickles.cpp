#include <cstdint>
#include <gpuplan/io/pickle.hpp>
#include <string>

#include "check.hpp"

using namespace gpuplan::io;

namespace {

// With the bytes of which a pickle's text in C++ may have zeros.
std::string bytes(const char* text, std::size_t size) { return {text, size}; }

}  // namespace

TEST_CASE("what is written is read") {
  pickle_writer to;
  to.begin_dict();
  to.member("size", std::int64_t{1} << 40);
  to.member("less", -7);
  to.member("name", "a\nb");
  to.text("list");
  to.begin_list();
  to.integer(INT64_MIN);
  to.none();
  to.end_list();
  to.end_dict();
  const parsed_pickle read = read_pickle(to.finished());
  REQUIRE(read);
  CHECK(read.integer(read.top(), "size") == std::int64_t{1} << 40);
  CHECK(read.integer(read.top(), "less") == -7);
  CHECK(!read.integer(read.top(), "name"));
  CHECK(read.find(read.top(), "name")->words == "a\nb");
  const pickled& list = *read.find(read.top(), "list");
  REQUIRE(list.items.size() == 2);
  CHECK(read.values[list.items[0]].whole == INT64_MIN);
  CHECK(read.values[list.items[1]].is == pickled::kind::none);
  CHECK(read.find(read.top(), "nothing") == nullptr);
}

TEST_CASE("what Python writes in its newest protocol is read") {
  // pickle.dumps({"a": (1, 2.5, True), "b": [-300, 2**40]}, 5)
  const std::string text = bytes(
      "\x80\x05\x95\x2b\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01"
      "a\x94K\x01G@\x04\x00\x00\x00"
      "\x00\x00\x00\x88\x87\x94\x8c\x01"
      "b\x94]\x94(J\xd4\xfe\xff\xff\x8a\x06\x00\x00\x00\x00\x00"
      "\x01"
      "eu.",
      55);
  const parsed_pickle read = read_pickle(text);
  INFO(read.why);
  REQUIRE(read);
  const pickled& a = *read.find(read.top(), "a");
  REQUIRE(a.items.size() == 3);
  CHECK(read.values[a.items[1]].real == 2.5);
  CHECK(read.values[a.items[2]].is == pickled::kind::flag);
  const pickled& b = *read.find(read.top(), "b");
  REQUIRE(b.items.size() == 2);
  CHECK(read.values[b.items[0]].whole == -300);
  CHECK(read.values[b.items[1]].whole == std::int64_t{1} << 40);
  for (std::size_t size = 0; size < text.size(); ++size) CHECK(!read_pickle(text.substr(0, size)));
}

TEST_CASE("what would run something is refused, and so is what is no pickle") {
  const auto refused = [](const std::string& text, const char* words) {
    const parsed_pickle read = read_pickle(text);
    CAPTURE(read.why);
    CHECK(!read);
    CHECK(read.why.find(words) != std::string::npos);
  };
  refused("cos\nsystem\n(S'true'\ntR.", "never run");
  refused(bytes("\x80\x02"
                "cos\nsystem\n.",
                14),
          "never run");
  refused("\x80\x09.", "protocol");
  refused("", "cut off");
  refused(".", "without a value");
  refused("e.", "without a beginning");
  refused("]u.", "without a beginning");
  refused("](Ku.", "without a value");
  refused("N(NNu.", "no list");
  refused("h\x01.", "did not remember");
  refused("q\x01.", "remembers nothing");
  refused("\x87.", "more than there is");
  refused(
      "\x8a\x09"
      "123456789.",
      "64 bits");
  refused("X\xff\xff\xff\xff.", "cut off");
  refused("(N(0.", "plain data");
}

TEST_CASE("a value may be in itself") {
  // l = []; l.append(l)
  const parsed_pickle read =
      read_pickle(bytes("\x80\x02]q\x00h\x00"
                        "a.",
                        9));
  REQUIRE(read);
  CHECK(read.top().items.size() == 1);
  CHECK(read.top().items[0] == read.root);
}
