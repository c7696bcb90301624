// What files of settings hold, in the three notations, and what is refused.

#include <doctest/doctest.h>

#include <gpuplan/io/json_value.hpp>
#include <gpuplan/io/toml.hpp>
#include <gpuplan/io/trainer/settings_reader.hpp>
#include <gpuplan/io/value.hpp>
#include <gpuplan/io/yaml.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace {

using namespace gpuplan::io;

// Of every kind, nested, with texts that look like something else.
value sample() {
  value made;
  made["flag"] = true;
  made["whole"] = -12;
  made["large"] = std::int64_t{1} << 60;
  made["number"] = 2.0;
  made["small"] = 1e-5;
  made["text"] = "LlamaDecoderLayer";
  for (const char* const word : {"yes", "12", "1e-4", "null", "", "a: b", "- x", "\n", "é", "#"})
    made["words"][std::string("is ") + word] = word;
  made["list"] = value::list{1, "q_proj", value(value::object{{"in", false}})};
  made["nothing"] = value();
  made["empty list"] = value::list{};
  made["empty object"] = value::object{};
  return made;
}

TEST_CASE("JSON and YAML read what they wrote") {
  CHECK(parse_json(to_json(sample())).is == sample());
  CHECK(parse_yaml(to_yaml(sample())).is == sample());
  CHECK(parse_yaml(to_json(sample())).is == sample());  // JSON is YAML
}

TEST_CASE("the same settings in three notations are the same value") {
  const value json = parse_json(R"({"a": {"b": [1, 2.5, "x"], "c": true}})").is;
  CHECK(json == parse_yaml("a:\n  b: [1, 2.5, x]\n  c: yes\n").is);
  CHECK(json == parse_toml("[a]\nb = [1, 2.5, 'x']\nc = true\n").is);
}

TEST_CASE("words without quotes are what trainers take them for") {
  const value is = parse_yaml("a: 2e-5\nb: '2e-5'\nc: on\nd: ~\ne: 1_000\nf: 1.5.2\ng: 08:30\n").is;
  CHECK(*is.find("a")->number() == 2e-5);
  CHECK(*is.find("b")->text() == "2e-5");
  CHECK(*is.find("c")->flag());
  CHECK(is.find("d")->is_nothing());
  CHECK(*is.find("e")->integer() == 1000);
  CHECK(*is.find("f")->text() == "1.5.2");
  CHECK(*is.find("g")->text() == "08:30");
}

TEST_CASE("merge keys bring what a map does not say itself") {
  const std::string start = "a: &a {x: 1, y: 1}\nb: &b {<<: *a, y: 2, z: 2}\nc: ";
  const auto of = [&](const std::string& text) { return *parse_yaml(start + text).is.find("c"); };
  CHECK(of("{y: 3, <<: *a}") == value(value::object{{"x", 1}, {"y", 3}}));
  CHECK(of("{<<: *b}") == value(value::object{{"x", 1}, {"y", 2}, {"z", 2}}));
  CHECK(of("{<<: [*a, *b]}") == value(value::object{{"z", 2}, {"x", 1}, {"y", 1}}));
  CHECK(of("{<<: *a, <<: *b}") == of("{<<: *b}"));
  CHECK(of("{<<: [], w: 1}") == value(value::object{{"w", 1}}));
  CHECK(of("{'<<': *a}").find("x") == nullptr);  // a key of that name
  const std::string why = "; a map or a list of maps is taken";
  CHECK(parse_yaml("a: 1\n<<: odd\n").why == "line 2: << is \"odd\"" + why);
  CHECK(parse_yaml("<<:\n").why == "line 1: << is \"\"" + why);
  CHECK(parse_yaml("<<: [{a: 1}, b]\n").why == "line 1: << is a list with more than maps" + why);
  std::string many = "a: &a {x: 1}\nb:\n  <<: *a\n";
  for (int at = 0; at < 1023; ++at) many += "  k" + std::to_string(at) + ": 1\n";
  CHECK(parse_yaml(many));
  CHECK(parse_yaml(many + "  more: 1\n").why == "a map with << has more than 1024 keys");
  CHECK(parse_yaml("a: &a {<<: *a}\n").why == "it nests deeper than 32 levels");
}

TEST_CASE("a table without a name is refused, whatever else begins a line with a bracket") {
  const std::string why = ": a name is letters from a to z, digits, - and _, or in quotes";
  CHECK(parse_toml("[.a]").why == "line 1" + why);
  CHECK(parse_toml("a = 1\n [[ .b]]\n").why == "line 2" + why);
  CHECK(parse_toml("a = \"\"\"\\\n[.b]\n\"\"\"\n[\n").why == "line 4" + why);
  CHECK(parse_toml("a = '[.b]' # [\n['.a']\nb = [\n[1],\n[{x = 1}],\n[+1], [\n2]\n]\n[[c]]\n"));
  CHECK(parse_toml("[\xef\xbb\xbe b]").why == "line 1" + why);
  CHECK(parse_toml("a = 1\nh\xc3\xb6he = 2").why == "line 2" + why);
  CHECK(parse_toml("a =\xc2\xa0 1").why == "line 1" + why);
  CHECK(parse_toml("\xef\xbb\xbf'h\xc3\xb6he' = '\xc3\xb6' # \xc3\xb6\n"));
}

TEST_CASE("what cannot be read says where") {
  CHECK(parse_json("{\"a\": }").why.find("line 1") != std::string::npos);
  CHECK(parse_yaml("a: [1,\nb: 2").why.find("line 2") != std::string::npos);
  CHECK(parse_toml("a = 1\nb = ").why.find("line 2") != std::string::npos);
  CHECK(parse_toml("a = 1979-05-27").why.find("dates") != std::string::npos);
  CHECK(parse_yaml("[1]: x").why == "a key of it is no word");
}

TEST_CASE("texts that would exhaust the stack or the memory are refused") {
  const std::string deep(100'000, '[');
  CHECK_FALSE(parse_json(deep));
  CHECK_FALSE(parse_yaml(deep));
  CHECK_FALSE(parse_toml("a = " + deep));
  const auto bomb = [](const char* first, const char* open, const char* close) {
    std::string text = std::string("a0: &a0 ") + first + "\n";
    for (int at = 1; at < 10; ++at) {
      const std::string before = "*a" + std::to_string(at - 1);
      text += "a" + std::to_string(at) + ": &a" + std::to_string(at) + " " + open + before;
      for (int more = 1; more < 10; ++more) text += ", " + before;
      text += std::string(close) + "\n";
    }
    return text;
  };
  for (const std::string& text :
       {bomb("[x, x, x, x, x, x, x, x, x, x]", "[", "]"), bomb("{x: 1}", "{<<: [", "]}")})
    CHECK(parse_yaml(text).why == "it holds more than 262144 values");
  const std::string long_text(most_of_settings + 1, ' ');
  CHECK(parse_json(long_text).why == "it has more than 4 MiB");
  CHECK(parse_yaml(long_text).why == "it has more than 4 MiB");
  CHECK(parse_toml(long_text).why == "it has more than 4 MiB");
  // Minutes of work where each name is looked for among the earlier ones.
  std::string wide = "{";
  for (int at = 0; at < 250'000; ++at) wide += "\"k" + std::to_string(at) + "\": 1,";
  const value read = parse_json(wide + "\"last\": 2}").is;
  REQUIRE(read.members());
  CHECK(read.members()->size() == 250'001);
  CHECK(*read.members()->back().second.integer() == 2);
  std::string many(600'000, ',');
  for (std::size_t at = 0; at < many.size(); at += 2) many[at] = '1';
  CHECK(parse_json("[" + many + "1]").why == "it holds more than 262144 values");
}

TEST_CASE("keys that nobody asked for are named, and wrong types are said") {
  const value is = parse_json(R"({"bf16": {"enabled": 3, "other": 1},
                                  "zero": {"stage": 2, "sub": {"x": 1, "y": 2}},
                                  "passed": {"over": 1}, "large": 5e7, "odd": 1.5, "null": null})")
                       .is;
  read_config to;
  gpuplan::io::detail::settings_reader reader(is, to);
  CHECK_FALSE(reader.flag("bf16.enabled"));
  CHECK(*reader.integer("zero.stage") == 2);
  CHECK(*reader.integer("zero.sub.x") == 1);
  CHECK(*reader.integer("large") == 50'000'000);
  CHECK_FALSE(reader.integer("odd"));
  CHECK_FALSE(reader.integer("null"));
  CHECK_FALSE(reader.has("zero.sub.x.deeper"));
  reader.pass_over({"passed"});
  reader.name_the_others();
  CHECK(to.not_understood == std::vector<std::string>{"bf16.other", "zero.sub.y"});
  REQUIRE(to.remarks.size() == 2);
  CHECK(to.remarks[0].key == "bf16.enabled");
  CHECK(to.remarks[0].text == "is 3; true or false is taken");
  CHECK(to.remarks[1].text == "is 1.5; a whole number is taken");
}

}  // namespace
