// The tests of a file, with the mutant that GPUPLAN_MUTANT names. To GPUPLAN_REACHED goes for each
// test case a line: seconds of a processor, its name, and the mutants that it came by, behind tabs.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <mutation/switches.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

namespace {

const bool is_chosen = [] {
  if (const char* which = std::getenv("GPUPLAN_MUTANT")) mutation::chosen = std::atoi(which);
  return true;
}();

struct notes : doctest::IReporter {
  explicit notes(const doctest::ContextOptions&) {
    if (const char* path = std::getenv("GPUPLAN_REACHED")) to_ = std::fopen(path, "w");
  }
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override { note(0, "*"); }
  void test_run_end(const doctest::TestRunStats&) override {
    if (to_ != nullptr) std::fclose(to_);
  }
  void test_case_start(const doctest::TestCaseData& one) override {
    name_ = one.m_name;
    start_ = std::clock();
  }
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {
    note(static_cast<double>(std::clock() - start_) / CLOCKS_PER_SEC, name_);
  }
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}

 private:
  void note(double seconds, const std::string& name) {
    if (to_ == nullptr) return;
    std::fprintf(to_, "%.4f\t%s", seconds, name.c_str());
    for (int which = 0; which < mutation::most; ++which) {
      if (mutation::reached[which] == 2) std::fprintf(to_, "\t-%d", which);
      if (mutation::asked[which]) std::fprintf(to_, "\t%d", which);
    }
    std::fputc('\n', to_);
    std::fill_n(mutation::asked, mutation::most, false);
    std::fill_n(mutation::reached, mutation::most, 0);
  }

  std::FILE* to_ = nullptr;
  std::string name_;
  std::clock_t start_ = 0;
};
REGISTER_LISTENER("notes", 1, notes);

}  // namespace
