#include "csv.hpp"

#include <string>
#include <vector>

#include "check.hpp"
#include "files.hpp"

using namespace accuracy;

namespace {

std::vector<std::vector<std::string>> cells_of(const csv_file& file) {
  std::vector<std::vector<std::string>> all;
  for (const csv_file::row_of_cells& row : file.rows) all.push_back(row.cells);
  return all;
}

csv_file read(std::string_view text) { return read_csv(short_file(text).path()); }

// What is said of a bad file, behind its path.
std::string complaint(std::string_view text) {
  const short_file file(text);
  try {
    static_cast<void>(read_csv(file.path()));
  } catch (const bad_file& error) {
    const std::string what = error.what();
    CHECK(what.starts_with(file.path()));
    return what.substr(file.path().size());
  }
  return "nothing";
}

}  // namespace

TEST_CASE("cells, quoted or not, with commas, quotes and line ends in them") {
  using rows = std::vector<std::vector<std::string>>;
  CHECK(cells_of(read("a,b\n1,2\n")) == rows{{"1", "2"}});
  CHECK(cells_of(read("a,b\n1,2")) == rows{{"1", "2"}});
  CHECK(cells_of(read("a,b\n,\n")) == rows{{"", ""}});
  CHECK(cells_of(read("a,b\n\"1,5\",\"say \"\"hi\"\"\"\n")) == rows{{"1,5", "say \"hi\""}});
  CHECK(cells_of(read("a,b\n\"two\nlines\",2\n3,4\n")) == rows{{"two\nlines", "2"}, {"3", "4"}});
  CHECK(cells_of(read("a,b\n\"\",2\n")) == rows{{"", "2"}});
  CHECK(cells_of(read("a,b\n5\" disk,2\n")) == rows{{"5\" disk", "2"}});
}

TEST_CASE("a byte order mark, CR LF, and blank lines") {
  using rows = std::vector<std::vector<std::string>>;
  const csv_file file = read(
      "\xEF\xBB\xBF"
      "a,b\r\n1,2\r\n\r\n3,4\r\n\n");
  CHECK(file.columns == std::vector<std::string>{"a", "b"});
  CHECK(cells_of(file) == rows{{"1", "2"}, {"3", "4"}});
  CHECK(file.rows[0].line == 2);
  CHECK(file.rows[1].line == 4);
  CHECK(read("a,b\n").rows.empty());
}

TEST_CASE("lines are those of the file, also behind a cell of several lines") {
  const csv_file file = read("a,b\n\"1\n2\n3\",x\n4,y\n");
  CHECK(file.rows[0].line == 2);
  CHECK(file.rows[1].line == 5);
}

TEST_CASE("bad files are named with line and column") {
  CHECK(complaint("") == ":1: is empty: the first line names the columns");
  CHECK(complaint("\n\n") == ":1: is empty: the first line names the columns");
  CHECK(complaint("a,b,a\n1,2,3\n") == ":1:3: there are two columns a");
  CHECK(complaint("a,b\n1,2\n1,2,3\n") == ":3:3: 3 cells, where the header has 2");
  CHECK(complaint("a,b,c\n1,2\n") == ":2:3: 2 cells, where the header has 3");
  CHECK(complaint("a,b\n1,\"2\n3,4\n") == ":2:2: a quote that does not end");
  CHECK(complaint("a,b\n\"1\" ,2\n") == ":2:1: text behind a closing quote");
  CHECK(complaint("a,b\n1,2\r3,4\n") == ":2:2: a carriage return without a line feed");
}

TEST_CASE("files that are not there, or directories") {
  const auto complains = [](const std::string& path, const std::string& what) {
    try {
      static_cast<void>(read_csv(path));
    } catch (const bad_file& error) {
      return std::string(error.what()) == path + ": " + what;
    }
    return false;
  };
  CHECK(complains("/nowhere/runs.csv", "cannot be opened: No such file or directory"));
  CHECK(complains("/tmp", "is a directory"));
}

TEST_CASE("numbers, blank cells, and columns that are not there") {
  const csv_file file = read("i,x,blank\n12,1.5e3,\n-3,8.0,\n9007199254740993,1e12,\n");
  const row first(file, file.rows[0]);
  CHECK(first.integer("i") == 12);
  CHECK(first.number("x") == 1500.0);
  CHECK(first.integer("x") == 1500);
  CHECK(!first.number("blank"));
  CHECK(!first.number("nowhere"));
  CHECK(first.integer_or("blank", 7) == 7);
  CHECK(!first.flag("blank"));
  CHECK(first.flag("i"));
  CHECK(row(file, file.rows[1]).integer("i") == -3);
  CHECK(row(file, file.rows[1]).integer("x") == 8);
  CHECK(row(file, file.rows[2]).integer("i") == 9007199254740993);
  CHECK(row(file, file.rows[2]).integer("x") == 1'000'000'000'000);
}

TEST_CASE("cells that are no numbers are named with line and column") {
  const csv_file file = read("id,count\na,12x\nb,1.5\nc,nan\nd,99999999999999999999\ne, 3\n");
  const auto complaint_of = [&](std::size_t index) {
    try {
      static_cast<void>(row(file, file.rows[index]).integer("count"));
    } catch (const bad_file& error) {
      return std::string(error.what()).substr(file.path.size());
    }
    return std::string("nothing");
  };
  CHECK(complaint_of(0) == ":2:2: count is not a number: 12x");
  CHECK(complaint_of(1) == ":3:2: count is not a whole number: 1.5");
  CHECK(complaint_of(2) == ":4:2: count is not a number: nan");
  CHECK(complaint_of(3) == ":5:2: count does not fit into 64 bits: 99999999999999999999");
  CHECK(complaint_of(4) == ":6:2: count is not a number:  3");
}
