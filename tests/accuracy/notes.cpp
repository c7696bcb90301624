#include "notes.hpp"

#include "check.hpp"

using namespace accuracy;

TEST_CASE("values in remarks") {
  CHECK(value_in("container=26.08; model=GPT OSS 120B; mtp=1", "model") == "GPT OSS 120B");
  CHECK(value_in("a=1;b=2", "b") == "2");
  CHECK(value_in("a=1; b=", "b").empty());
  CHECK(value_in("submodel=x", "model").empty());
  CHECK(value_in("", "model").empty());
}

TEST_CASE("flags begin a remark") {
  CHECK(is_flagged("step derived; flag=superseded"));
  CHECK(is_flagged("flag: read as GiB"));
  CHECK(is_flagged("its step has more work, flag=exotic optimizer"));
  CHECK(is_flagged("FP8 in the name: flag=precision unsure"));
  CHECK(!is_flagged("flags=packed,compile"));
  CHECK(!is_flagged("no flag= in the middle"));
  CHECK(!is_flagged(""));
}

TEST_CASE("repeats name their configuration") {
  CHECK(repeated_id("raw=x.csv:3; repeat 2/3 of run_0007; more") == "run_0007");
  CHECK(repeated_id("repeat 2 of the same system and set-up").empty());
  CHECK(repeated_id("same row reprinted").empty());
}
