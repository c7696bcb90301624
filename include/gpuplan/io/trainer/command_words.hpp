#pragma once

// Commands of a shell script as words, without running any: what launchers and trainers are told.

#include <gpuplan/io/trainer/shell_arithmetic.hpp>
#include <gpuplan/io/value.hpp>
#include <gpuplan/known.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuplan::io {

/// One command of a script: its words as the shell would hand them over, without redirections and
/// without the variables that are set for it alone.
struct shell_command {
  std::vector<std::string> words{};
  std::size_t line = 0;  // of the script, where it begins, counted from 1
};

/// The commands of a script, in its order.
struct shell_script {
  std::vector<shell_command> commands{};
  // What a script does not say, as it writes it, each once: "$1", "$(nproc)". It stands in the
  // words as it is. Also a variable that several branches set to different values.
  std::vector<std::string> unresolved{};
  std::string why{};  // why it was not read; empty: it was

  [[nodiscard]] explicit operator bool() const { return why.empty(); }
};

namespace detail {

[[nodiscard]] inline bool is_one_of(std::string_view word,
                                    std::initializer_list<const char*> words) {
  for (const char* const each : words)
    if (word == each) return true;
  return false;
}

/// Splits a script as POSIX sh does (IEEE 1003.1, chapter 2: quoting, token recognition, parameter
/// expansion, field splitting), with bash's arrays. Loops, conditions and functions are not
/// followed: each of their commands counts once.
class shell_reader {
 public:
  shell_reader(std::string_view text, shell_script& to) : text_(text), to_(to) {}

  void read() {
    while (at_ < text_.size() && to_.why.empty()) read_command();
  }

 private:
  using fields = std::vector<std::string>;
  struct variable {
    fields words{};
    bool is_array = false;
    bool is_sure = true;  // no branch gives it another value
  };
  // A word as it is read: finished fields, and the one that is being made.
  struct word {
    fields done{};
    std::string open{};
    bool has_open = false;
    bool is_quoted = false;  // some of it, so that it is no reserved word
    std::string plain{};     // the text before expansions
  };

  static constexpr int most_depth = 16;
  static constexpr std::size_t most_words = most_values;

  static bool is_name_start(char c) {
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  }
  static bool is_name(char c) { return is_name_start(c) || (c >= '0' && c <= '9'); }
  static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
  static bool is_operator(char c) {
    return std::string_view("\n;&|()<>").find(c) != std::string_view::npos;
  }
  [[nodiscard]] char here(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  // Counts what is made, since "$A$A" in each line doubles a text.
  bool spend(std::size_t bytes) {
    spent_ += bytes + 1;
    if (spent_ <= most_of_settings && to_.commands.size() <= most_words) return true;
    to_.why = "its words, with variables replaced, have more than " +
              std::to_string(most_of_settings >> 20) + " MiB";
    return false;
  }
  void leave(const std::string& what, std::string& out) {
    out += what;
    for (const std::string& known : to_.unresolved)
      if (known == what) return;
    if (to_.unresolved.size() < 1000) to_.unresolved.push_back(what);
  }

  // Blanks, continued lines and comments; line ends too inside an array.
  void skip_blanks(bool line_ends) {
    while (at_ < text_.size()) {
      if (is_blank(here()) || (line_ends && here() == '\n'))
        ++at_;
      else if (here() == '\\' && (here(1) == '\n' || (here(1) == '\r' && here(2) == '\n')))
        at_ += here(1) == '\n' ? std::size_t{2} : std::size_t{3};
      else if (here() == '#')
        while (at_ < text_.size() && here() != '\n') ++at_;
      else
        return;
    }
  }

  void read_command() {
    skip_blanks(true);
    shell_command made;
    made.line = line();
    bool is_first = true;
    bool declares = false;
    while (to_.why.empty()) {
      skip_blanks(false);
      if (at_ >= text_.size()) break;
      if (here() == '<' || here() == '>' || (here() == '&' && here(1) == '>')) {
        redirect();
        continue;
      }
      if (is_operator(here())) {
        end_command();
        break;
      }
      if ((is_first || declares) && assign()) continue;
      const std::size_t from = at_;
      word read = read_word();
      // 2>&1: the number belongs to the redirection
      if ((here() == '<' || here() == '>') &&
          text_.substr(from, at_ - from).find_first_not_of("0123456789") == std::string_view::npos)
        continue;
      if (is_first && !read.is_quoted && is_reserved(read)) {
        made.line = line();
        continue;
      }
      if (is_first && read.done.size() == 1 &&
          is_one_of(read.done[0], {"export", "declare", "local", "readonly", "typeset"}))
        declares = true;
      if (!read.done.empty()) is_first = false;
      for (std::string& field : read.done) made.words.push_back(std::move(field));
    }
    if (made.words.empty() || !to_.why.empty() || declares) return;
    if (!runs_text(made)) to_.commands.push_back(std::move(made));
  }

  // eval TEXT, bash -c TEXT, also behind other words: the text's own commands stand in its place,
  // with the words before it (srun and its options).
  bool runs_text(const shell_command& is) {
    std::size_t text_from = 0;
    std::size_t before = 0;
    if (is.words[0] == "eval") {
      text_from = 1;
    } else {
      for (std::size_t i = 0; i + 2 < is.words.size() && text_from == 0; ++i) {
        const std::string shell = is.words[i].substr(is.words[i].find_last_of('/') + 1);
        const std::string& option = is.words[i + 1];
        if (is_one_of(shell, {"bash", "sh"}) && is_one_of(option, {"-c", "-lc", "-ec", "-xc"})) {
          text_from = i + 2;
          before = i;
        }
      }
    }
    if (text_from == 0 || text_from >= is.words.size() || depth_ >= most_depth) return false;
    std::string inner = is.words[text_from];
    for (std::size_t i = text_from + 1; is.words[0] == "eval" && i < is.words.size(); ++i)
      inner += " " + is.words[i];
    if (!spend(inner.size())) return true;
    shell_reader reader(inner, to_);
    reader.variables_ = variables_;
    reader.depth_ = depth_ + 1;
    reader.spent_ = spent_;
    const std::size_t first = to_.commands.size();
    reader.read();
    spent_ = reader.spent_;
    for (std::size_t i = first; i < to_.commands.size(); ++i) {
      shell_command& one = to_.commands[i];
      one.line = is.line;
      for (std::size_t at = 0; at < before; ++at)
        if (!spend(is.words[at].size())) return true;
      one.words.insert(one.words.begin(),
                       is.words.begin(),
                       is.words.begin() + static_cast<std::ptrdiff_t>(before));
    }
    return true;
  }

  // What only groups commands; branches are counted, so that an assignment in one is not taken for
  // certain.
  bool is_reserved(const word& read) {
    if (read.done.size() != 1) return false;
    const std::string& is = read.done[0];
    if (is_one_of(is, {"if", "for", "while", "until", "case", "select"})) {
      ++branches_;
      if (is == "case") skip_line();
      if (is_one_of(is, {"for", "select"})) {
        skip_blanks(false);
        std::size_t end = at_;
        while (end < text_.size() && is_name(text_[end])) ++end;
        // another value each time
        if (end > at_) variables_[std::string(text_.substr(at_, end - at_))].is_sure = false;
        skip_line();
      }
      return true;
    }
    if (is_one_of(is, {"fi", "done", "esac"})) {
      if (branches_ > 0) --branches_;
      return true;
    }
    return is_one_of(is, {"then", "else", "elif", "do", "{", "}", "!", "time", "function", "exec"});
  }
  void skip_line() {
    while (at_ < text_.size() && here() != '\n' && here() != ';') {
      if (is_operator(here())) {
        ++at_;
        continue;
      }
      const std::size_t before = at_;
      read_word();
      if (at_ == before) ++at_;
      skip_blanks(false);
    }
  }

  void end_command() {
    if (here() != '\n') {
      ++at_;
      return;
    }
    ++at_;
    for (const std::string& end : documents_) skip_document(end);
    documents_.clear();
  }
  void redirect() {
    const bool is_document = here() == '<' && here(1) == '<' && here(2) != '<';
    while (here() == '<' || here() == '>' || here() == '&' || here() == '|' ||
           (is_document && here() == '-'))
      ++at_;
    skip_blanks(false);
    if (at_ >= text_.size() || is_operator(here())) return;
    const word read = read_word();
    if (is_document) documents_.push_back(read.plain);
  }
  void skip_document(const std::string& end) {
    while (at_ < text_.size()) {
      const std::size_t stop = text_.find('\n', at_);
      std::string_view row = text_.substr(at_, stop - at_);
      at_ = stop == std::string_view::npos ? text_.size() : stop + 1;
      while (!row.empty() && row.front() == '\t') row.remove_prefix(1);
      if (row == end) return;
    }
  }

  // NAME=word, NAME+=word, NAME=( words ).
  bool assign() {
    std::size_t end = at_;
    if (!is_name_start(here())) return false;
    while (end < text_.size() && is_name(text_[end])) ++end;
    const bool adds = end + 1 < text_.size() && text_[end] == '+';
    const std::size_t equals = end + (adds ? 1 : 0);
    if (equals >= text_.size() || text_[equals] != '=') return false;
    const std::string name(text_.substr(at_, end - at_));
    at_ = equals + 1;
    variable made;
    if (here() == '(') {
      ++at_;
      made.is_array = true;
      while (to_.why.empty()) {
        skip_blanks(true);
        if (at_ >= text_.size()) break;
        if (here() == ')') {
          ++at_;
          break;
        }
        if (is_operator(here())) {
          ++at_;
          continue;
        }
        for (std::string& field : read_word().done) made.words.push_back(std::move(field));
      }
    } else {
      made.words = {""};
      if (at_ < text_.size() && !is_blank(here()) && !is_operator(here()))
        made.words[0] = joined(read_word(false).done);
    }
    set(name, std::move(made), adds);
    return true;
  }
  void set(const std::string& name, variable made, bool adds) {
    const auto before = variables_.find(name);
    if (adds && before != variables_.end()) {
      variable all = before->second;
      if (made.is_array || all.is_array)
        all.words.insert(all.words.end(), made.words.begin(), made.words.end());
      else
        all.words[0] += made.words[0];
      all.is_array = all.is_array || made.is_array;
      all.is_sure = all.is_sure && branches_ == 0;
      made = std::move(all);
    } else if (branches_ > 0 && before != variables_.end()) {
      made.is_sure = before->second.is_sure && before->second.words == made.words;
    }
    for (const std::string& field : made.words)
      if (!spend(field.size())) return;
    variables_[name] = std::move(made);
  }
  static std::string joined(const fields& all) {
    std::string out;
    for (const std::string& one : all) out += (&one == all.data() ? "" : " ") + one;
    return out;
  }

  // One word with all its expansions, as fields. `splits`: what is not quoted becomes several at
  // blanks.
  word read_word(bool splits = true) {
    word made;
    const std::size_t from = at_;
    while (at_ < text_.size() && !is_blank(here()) && !is_operator(here()) && to_.why.empty()) {
      const char c = here();
      if (c == '\'') {
        made.is_quoted = made.has_open = true;
        const std::size_t stop = text_.find('\'', at_ + 1);
        const std::size_t end = stop == std::string_view::npos ? text_.size() : stop;
        add(made, text_.substr(at_ + 1, end - at_ - 1));
        at_ = end + (end < text_.size() ? 1 : 0);
      } else if (c == '"') {
        quoted(made);
      } else if (c == '\\') {
        if (here(1) != '\n') {
          add(made, text_.substr(at_ + 1, 1));
          made.is_quoted = made.has_open = true;
        }
        at_ = at_ + 2 < text_.size() ? at_ + 2 : text_.size();
      } else if (c == '$' || c == '`') {
        expand(made, false, splits);
      } else {
        made.has_open = true;
        add(made, text_.substr(at_, 1));
        ++at_;
      }
    }
    if (made.has_open) {
      if (spend(made.open.size())) made.done.push_back(std::move(made.open));
    }
    made.plain = made.done.empty() ? std::string(text_.substr(from, at_ - from)) : made.done[0];
    return made;
  }
  void quoted(word& made) {
    made.is_quoted = made.has_open = true;
    ++at_;
    while (at_ < text_.size() && here() != '"' && to_.why.empty()) {
      if (here() == '\\' && at_ + 1 < text_.size()) {
        const char next = here(1);
        if (next != '\n') {
          if (std::string_view("$`\"\\").find(next) == std::string_view::npos) made.open += '\\';
          made.open += next;
        }
        at_ += 2;
      } else if (here() == '$' || here() == '`') {
        expand(made, true, false);
      } else {
        made.open += here();
        ++at_;
      }
    }
    if (at_ < text_.size()) ++at_;
  }
  static void add(word& made, std::string_view text) { made.open += text; }

  // What a $ or a ` begins.
  void expand(word& made, bool is_quoted, bool splits) {
    const std::size_t from = at_;
    if (here() == '`') {
      const std::size_t stop = text_.find('`', at_ + 1);
      at_ = stop == std::string_view::npos ? text_.size() : stop + 1;
      made.has_open = true;
      leave(std::string(text_.substr(from, at_ - from)), made.open);
      return;
    }
    if (here(1) == '(') {
      const bool counts = here(2) == '(';
      at_ = end_of_brackets(at_ + 1, '(', ')');
      made.has_open = true;
      const std::string whole(text_.substr(from, at_ - from));
      if (counts && whole.size() > 4) {
        const auto number = arithmetic(whole.substr(3, whole.size() - 5));
        if (number) {
          made.open += std::to_string(*number);
          return;
        }
      }
      leave(whole, made.open);
      return;
    }
    std::string name;
    std::string otherwise;
    bool has_default = false;
    bool all = false;
    bool is_list = false;  // each element a field of its own, also in quotes
    bool is_plain = true;
    bool is_kept = false;  // quotes in the default keep its blanks
    if (here(1) == '{') {
      at_ = end_of_brackets(at_ + 1, '{', '}');
      std::string_view inner = text_.substr(from + 2, at_ - from - 2);
      if (!inner.empty() && inner.back() == '}') inner.remove_suffix(1);
      std::size_t end = 0;
      while (end < inner.size() && is_name(inner[end])) ++end;
      name = inner.substr(0, end);
      inner.remove_prefix(end);
      if (inner == "[@]" || inner == "[*]") {
        all = true;
        is_list = inner == "[@]";
      } else if (!inner.empty()) {
        if (inner.front() == ':') inner.remove_prefix(1);
        has_default = !inner.empty() && (inner.front() == '-' || inner.front() == '=');
        is_plain = has_default;
        is_kept = has_default && inner.front() == '-' &&
                  inner.find_first_of("'\"") != std::string_view::npos;
        if (has_default) otherwise = inner.substr(1);
      }
    } else {
      std::size_t end = at_ + 1;
      while (end < text_.size() && is_name(text_[end])) ++end;
      if (end > at_ + 1 && !is_name_start(text_[at_ + 1])) end = at_ + 2;  // $1
      name = text_.substr(at_ + 1, end - at_ - 1);
      if (name.empty()) {
        // $@, $#, $?; a $ alone is itself
        const bool is_special = at_ + 1 < text_.size() &&
                                std::string_view("@*#?$!-").find(here(1)) != std::string_view::npos;
        made.has_open = true;
        at_ += is_special ? 2 : 1;
        if (is_special)
          leave(std::string(text_.substr(from, 2)), made.open);
        else
          made.open += '$';
        return;
      }
      at_ = end;
    }
    const auto found = variables_.find(name);
    const bool is_known = is_plain && found != variables_.end() && found->second.is_sure;
    if (is_known) {
      const variable& is = found->second;
      if (is_quoted && is_list) {
        for (std::size_t i = 0; i < is.words.size(); ++i) {
          if (i > 0) next_field(made);
          if (!spend(is.words[i].size())) return;
          made.open += is.words[i];
        }
        // "${NONE[@]}" is no word at all
        if (is.words.empty() && made.open.empty()) made.has_open = false;
        return;
      }
      // of an array $NAME is the first
      const std::string text = all                ? joined(is.words)
                               : is.words.empty() ? std::string()
                                                  : is.words[0];
      if (!(text.empty() && has_default)) return put(made, text, is_quoted, splits);
    }
    if (has_default && (is_known || found == variables_.end()) && depth_ < most_depth) {
      shell_script inner;
      shell_reader reader(otherwise, inner);
      reader.variables_ = variables_;
      reader.depth_ = depth_ + 1;
      reader.spent_ = spent_;
      std::string text;
      while (reader.at_ < otherwise.size() && inner.why.empty()) {
        const std::size_t before = reader.at_;
        text += joined(reader.read_word(false).done);
        if (reader.at_ == before || reader.at_ < otherwise.size()) text += otherwise[reader.at_++];
      }
      spent_ = reader.spent_;
      to_.why = inner.why;
      std::string ignored;
      for (const std::string& each : inner.unresolved) leave(each, ignored);
      return put(made, text, is_quoted, splits && !is_kept);
    }
    made.has_open = true;
    leave(std::string(text_.substr(from, at_ - from)), made.open);
  }
  void next_field(word& made) {
    if (spend(made.open.size())) made.done.push_back(std::move(made.open));
    made.open.clear();
  }
  void put(word& made, const std::string& text, bool is_quoted, bool splits) {
    if (!spend(text.size())) return;
    if (is_quoted || !splits) {
      made.has_open = made.has_open || is_quoted || !text.empty();
      made.open += text;
      return;
    }
    int depth = 0;  // in what stays as it is: a blank in $(...) is none of this command's
    for (const char c : text) {
      if (c == '(' && (depth > 0 || (!made.open.empty() && made.open.back() == '$'))) ++depth;
      if (c == ')' && depth > 0) --depth;
      if (depth > 0) {
        made.open += c;
      } else if (c == ' ' || c == '\t' || c == '\n') {
        if (made.has_open) next_field(made);
        made.has_open = false;
      } else {
        made.open += c;
        made.has_open = true;
      }
    }
  }
  // Behind the bracket that closes the one at `from`, or the end of the text.
  [[nodiscard]] std::size_t end_of_brackets(std::size_t from, char open, char close) const {
    int depth = 0;
    for (std::size_t i = from; i < text_.size(); ++i) {
      if (text_[i] == '\\') {
        ++i;
      } else if (text_[i] == open) {
        ++depth;
      } else if (text_[i] == close && --depth == 0) {
        return i + 1;
      }
    }
    return text_.size();
  }
  [[nodiscard]] known<std::int64_t> arithmetic(std::string_view expression) const {
    return shell_arithmetic(expression, [this](std::string_view name) {
      const auto found = variables_.find(std::string(name));
      const bool is_known =
          found != variables_.end() && found->second.is_sure && !found->second.words.empty();
      return is_known ? found->second.words[0] : std::string();
    });
  }
  std::size_t line() {
    for (; counted_ < at_ && counted_ < text_.size(); ++counted_)
      if (text_[counted_] == '\n') ++line_;
    return line_;
  }

  std::string_view text_;
  shell_script& to_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
  std::size_t counted_ = 0;
  std::size_t spent_ = 0;
  int depth_ = 0;
  int branches_ = 0;
  std::map<std::string, variable> variables_{};
  std::vector<std::string> documents_{};
};

}  // namespace detail

/// The commands of a script for POSIX sh or bash. Nothing is run. Quotes, continued lines,
/// comments, here-documents, `NAME=text`, `$NAME`, `${NAME:-default}`, `$((2 * N))`, arrays,
/// `eval` and `bash -c` are what they are to the shell; a file whose first word is an option
/// (`--lr 1e-4`) is one command whatever its lines. Refused: texts longer than `most_of_settings`,
/// before or after variables are replaced, and of zero bytes.
[[nodiscard]] inline shell_script read_shell_script(std::string_view text) {
  shell_script made;
  if (text.size() > most_of_settings) {
    made.why = "it has more than " + std::to_string(most_of_settings >> 20) + " MiB";
    return made;
  }
  if (text.find('\0') != std::string_view::npos) {
    made.why = "it is no text: it has bytes of zero";
    return made;
  }
  detail::shell_reader(text, made).read();
  if (made && !made.commands.empty() && made.commands[0].words[0].substr(0, 2) == "--") {
    shell_command all = std::move(made.commands[0]);
    for (std::size_t i = 1; i < made.commands.size(); ++i)
      all.words.insert(
          all.words.end(), made.commands[i].words.begin(), made.commands[i].words.end());
    made.commands = {std::move(all)};
  }
  return made;
}

}  // namespace gpuplan::io
