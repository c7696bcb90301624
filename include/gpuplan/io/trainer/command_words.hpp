#pragma once

// Commands of a shell script as words, without running any: what launchers and trainers are told.

#include <gpuplan/io/characters.hpp>
#include <gpuplan/io/trainer/shell_arithmetic.hpp>
#include <gpuplan/io/trainer/shell_condition.hpp>
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

/// What was taken for a variable of a script, and may be otherwise where it runs: the first value
/// of a loop, what is set in a branch of which the script does not say whether it runs.
struct shell_guess {
  std::string variable{};
  std::string text{};  // a sentence without the variable's name

  friend bool operator==(const shell_guess&, const shell_guess&) = default;
};

/// One command of a script: its words as the shell would hand them over, without redirections and
/// without the variables that are set for it alone.
struct shell_command {
  std::vector<std::string> words{};
  std::size_t line = 0;                // of the script, where it begins, counted from 1
  std::vector<shell_guess> guesses{};  // in its words
  // What the script sets of CUDA_VISIBLE_DEVICES, NNODES and NPROC_PER_NODE, which launchers take
  // where their words do not say it.
  std::map<std::string, std::string> environment{};
};

/// The commands of a script, in its order.
struct shell_script {
  std::vector<shell_command> commands{};
  // What a script does not say, as it writes it, each once: "$1", "$(nproc)". It stands in the
  // words as it is. Also a variable that several branches set to different values, where the script
  // does not say which of them runs.
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
/// expansion, field splitting), with bash's arrays. Where the script itself decides a condition,
/// the branch that runs counts, else each. A loop counts once, a function's commands where they
/// stand.
class shell_reader {
 public:
  using variables_of_script = std::map<std::string, std::string>;

  shell_reader(std::string_view text, shell_script& to, const variables_of_script& set = {})
      : text_(text), to_(to) {
    for (const auto& [name, is] : set) variables_[name].words = {is};
  }

  void read() {
    while (at_ < text_.size() && to_.why.empty()) read_command();
  }

 private:
  using fields = std::vector<std::string>;
  struct variable {
    fields words{};
    bool is_array = false;
    bool is_sure = true;  // no branch gives it another value
    std::vector<shell_guess> guesses{};
  };
  // An if, a case, a loop or a group of commands, and whether what stands there now runs: absent
  // where the script does not say it.
  struct branch {
    std::string kind{};
    known<bool> runs = true;
    known<bool> has_run = false;  // one of those before, so that no other does
    std::string subject{};        // of a case
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
  static constexpr std::size_t most_branches = 64;
  static constexpr std::size_t most_guesses = 8;  // of one variable or command

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
    if (skips()) return;
    for (const std::string& known : to_.unresolved)
      if (known == what) return;
    if (to_.unresolved.size() < 1000) to_.unresolved.push_back(what);
  }
  void guess(std::vector<shell_guess>& all, const shell_guess& one) {
    for (const shell_guess& known : all)
      if (known == one) return;
    if (all.size() < most_guesses && spend(one.variable.size() + one.text.size()))
      all.push_back(one);
  }

  static bool is_no(const known<bool>& is) { return is && !*is; }
  // Whether what stands here does not run, or may not.
  [[nodiscard]] bool skips() const {
    for (const branch& one : branches_)
      if (is_no(one.runs)) return true;
    return is_no(next_);
  }
  [[nodiscard]] bool may_not_run() const {
    for (const branch& one : branches_)
      if (!one.runs) return true;
    return !next_;
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
    if (awaits_pattern_) return read_pattern();
    shell_command made;
    made.line = line();
    used_.clear();
    is_opposite_ = false;
    bool is_first = true;
    bool declares = false;
    bool is_odd = false;  // [[ a > b ]] is no redirection
    while (to_.why.empty()) {
      skip_blanks(false);
      if (at_ >= text_.size()) break;
      if (is_first && here() == '(' && here(1) == '(') {
        at_ = end_of_brackets(at_, '(', ')');
        made.words = {"(("};
        is_first = false;
        continue;
      }
      if (here() == '<' || here() == '>' || (here() == '&' && here(1) == '>')) {
        is_odd = true;
        redirect();
        continue;
      }
      if (is_operator(here())) break;
      if ((is_first || declares) && assign()) continue;
      const std::size_t from = at_;
      word read = read_word();
      // 2>&1: the number belongs to the redirection
      if ((here() == '<' || here() == '>') &&
          text_.substr(from, at_ - from).find_first_not_of("0123456789") == std::string_view::npos)
        continue;
      if (is_first && !read.is_quoted && is_reserved(read)) {
        made.line = line();
        if (awaits_pattern_) return;
        continue;
      }
      if (is_first && read.done.size() == 1 &&
          is_one_of(read.done[0], {"export", "declare", "local", "readonly", "typeset"}))
        declares = true;
      if (!read.done.empty()) is_first = false;
      for (std::string& field : read.done) made.words.push_back(std::move(field));
    }
    const bool is_skipped = skips();
    if (!is_skipped && !made.words.empty()) find_status(made.words, is_odd);
    if (at_ < text_.size()) end_command();
    if (made.words.empty() || !to_.why.empty() || declares || is_skipped) return;
    if (made.words[0] == "((") return;
    made.guesses = std::move(used_);
    for (const char* const name : {"CUDA_VISIBLE_DEVICES", "NNODES", "NPROC_PER_NODE"})
      if (const auto set = variables_.find(name); set != variables_.end() && set->second.is_sure &&
                                                  set->second.words.size() == 1 &&
                                                  spend(set->second.words[0].size()))
        made.environment[name] = set->second.words[0];
    if (!runs_text(made)) to_.commands.push_back(std::move(made));
  }

  // What the last command found, for if, && and ||.
  void find_status(const std::vector<std::string>& words, bool is_odd) {
    tests_ = !next_ || is_one_of(words[0], {"[", "[[", "test", "((", "true", "false", ":"});
    status_ = {};
    if (!next_) return;
    if (!is_odd || words[0] != "[[")
      status_ = shell_condition(words, [this](const std::string& is) { return is_unset(is); });
    if (status_ && is_opposite_) status_ = !*status_;
  }
  // $NAME or ${NAME}, of which the script says nothing; Slurm sets its own.
  [[nodiscard]] bool is_unset(std::string_view is) const {
    if (is.size() < 2 || is[0] != '$') return false;
    is.remove_prefix(1);
    if (is.front() == '{' && is.back() == '}') is = is.substr(1, is.size() - 2);
    if (is.empty() || !is_name_start(is[0])) return false;
    for (const char c : is)
      if (!is_name(c)) return false;
    return is.substr(0, 6) != "SLURM_" && variables_.count(std::string(is)) == 0;
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
    if (may_not_run()) reader.branches_.push_back({.kind = "{", .runs = {}});
    reader.depth_ = depth_ + 1;
    reader.spent_ = spent_;
    const std::size_t first = to_.commands.size();
    reader.read();
    spent_ = reader.spent_;
    for (std::size_t i = first; i < to_.commands.size(); ++i) {
      shell_command& one = to_.commands[i];
      one.line = is.line;
      for (const shell_guess& each : is.guesses) guess(one.guesses, each);
      for (std::size_t at = 0; at < before; ++at)
        if (!spend(is.words[at].size())) return true;
      one.words.insert(one.words.begin(),
                       is.words.begin(),
                       is.words.begin() + static_cast<std::ptrdiff_t>(before));
    }
    return true;
  }

  // What only groups commands.
  bool is_reserved(const word& read) {
    if (read.done.size() != 1) return false;
    const std::string& is = read.done[0];
    if (is_one_of(is, {"if", "while", "until", "for", "select", "case", "{"})) {
      if (branches_.size() >= most_branches) {
        to_.why = "its conditions and loops nest deeper than " + std::to_string(most_branches);
        return true;
      }
      // what stands before && or || counts for all that stands in it
      branch made{.kind = is, .runs = next_};
      if (is_one_of(is, {"while", "until"}) && made.runs && *made.runs) made.runs = {};
      next_ = true;
      branches_.push_back(std::move(made));
      if (is == "case") begin_case();
      if (is_one_of(is, {"for", "select"})) begin_loop();
      return true;
    }
    if (is_one_of(is, {"fi", "done", "esac", "}"})) {
      if (!branches_.empty() && (branches_.back().kind == "{") == (is == "}")) branches_.pop_back();
      status_ = {};
      tests_ = false;
      return true;
    }
    if (is_one_of(is, {"then", "elif", "else"})) {
      if (branches_.empty() || branches_.back().kind != "if") return true;
      branch& in = branches_.back();
      if (is == "then")
        choose(in, status_);
      else if (is == "else")
        choose(in, true);
      else
        in.runs = in.has_run ? known<bool>(!*in.has_run) : known<bool>();
      return true;
    }
    if (is == "!") is_opposite_ = !is_opposite_;
    return is_one_of(is, {"do", "!", "time", "function", "exec"});
  }
  // Goes into the next of several branches, whose condition is this.
  void choose(branch& in, const known<bool>& condition) {
    if (says_yes(in.has_run) || is_no(condition)) {
      in.runs = false;
      return;
    }
    in.runs = in.has_run ? condition : known<bool>();
    in.has_run = condition;
  }
  static bool says_yes(const known<bool>& is) { return is && *is; }

  // NAME in WORDS: the first counts.
  void begin_loop() {
    skip_blanks(false);
    std::size_t end = at_;
    while (end < text_.size() && is_name(text_[end])) ++end;
    const std::string name(text_.substr(at_, end - at_));
    at_ = end;
    fields values;
    bool is_known = !name.empty();
    skip_blanks(false);
    const bool has_values = text_.substr(at_, 2) == "in" && !is_name(here(2));
    if (has_values) at_ += 2;
    used_.clear();
    while (at_ < text_.size() && here() != '\n' && here() != ';' && to_.why.empty()) {
      if (is_operator(here())) {  // ((i = 0; ...))
        is_known = false;
        at_ = here() == '(' ? end_of_brackets(at_, '(', ')') : at_ + 1;
        continue;
      }
      const std::size_t before = at_;
      for (std::string& field : read_word().done) values.push_back(std::move(field));
      if (at_ == before) ++at_;
      skip_blanks(false);
    }
    if (name.empty() || skips()) return;
    for (const std::string& each : values)
      is_known = is_known && !has_expansion(each) && each.find('{') == std::string::npos;
    variable made;
    made.is_sure = is_known && has_values && !values.empty();
    made.guesses = std::move(used_);
    used_.clear();
    if (is_known && has_values && values.empty()) branches_.back().runs = false;
    if (made.is_sure) made.words = {values[0]};
    if (made.is_sure && values.size() > 1) {
      std::string all;
      for (std::size_t i = 0; i < values.size() && i < 8; ++i)
        all += (i == 0 ? "" : ", ") + values[i].substr(0, 40);
      guess(made.guesses,
            {name,
             "is " + all + (values.size() > 8 ? ", ..." : "") +
                 " in a loop, so that several trainings are meant; this is the first"});
    }
    variables_[name] = std::move(made);
  }

  void begin_case() {
    skip_blanks(false);
    std::string subject = joined(read_word(false).done);
    skip_blanks(true);
    if (text_.substr(at_, 2) == "in") at_ += 2;
    branches_.back().subject = std::move(subject);
    awaits_pattern_ = true;
  }
  // One | OTHER ), or esac.
  void read_pattern() {
    awaits_pattern_ = false;
    if (branches_.empty() || branches_.back().kind != "case") return;
    if (text_.substr(at_, 4) == "esac" && !is_name(here(4))) {
      at_ += 4;
      branches_.pop_back();
      return;
    }
    if (here() == '(') ++at_;
    const std::string subject = branches_.back().subject;
    known<bool> matches = false;
    while (at_ < text_.size() && to_.why.empty()) {
      skip_blanks(false);
      const std::size_t before = at_;
      const std::string pattern = joined(read_word(false).done);
      known<bool> one;
      if (!has_expansion(subject) && !has_expansion(pattern)) one = shell_matches(subject, pattern);
      if (pattern == "*") one = true;
      if (!says_yes(matches)) matches = says_yes(one) ? one : is_no(matches) ? one : matches;
      skip_blanks(false);
      const char stop = here();
      if (stop == '|' || stop == ')') ++at_;
      if (stop != '|' || at_ == before) break;
    }
    choose(branches_.back(), matches);
  }

  void end_command() {
    const char c = here();
    const char other = here(1);
    if ((c == '&' || c == '|') && other == c) {
      at_ += 2;
      // A command that is no test is taken to succeed.
      known<bool> is = status_;
      if (!tests_ && !is) is = true;
      next_ = !is ? is : known<bool>(*is == (c == '&'));
      return;
    }
    if (c == ';' && other == ';' && !branches_.empty() && branches_.back().kind == "case") {
      at_ += here(2) == '&' ? std::size_t{3} : std::size_t{2};
      awaits_pattern_ = true;
      next_ = true;
      return;
    }
    ++at_;
    if (c == ';' || c == '&' || c == '\n') next_ = true;
    if (c != '\n') return;
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
    std::vector<shell_guess> of_others = std::move(used_);
    used_.clear();
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
    made.guesses = std::move(used_);
    used_ = std::move(of_others);
    set(name, std::move(made), adds);
    if (skips()) return true;
    status_ = next_ ? known<bool>(true) : known<bool>();
    tests_ = true;
    return true;
  }
  void set(const std::string& name, variable made, bool adds) {
    if (skips()) return;
    const auto before = variables_.find(name);
    const bool is_set = before != variables_.end();
    if (adds && is_set) {
      variable all = before->second;
      if (made.is_array || all.is_array)
        all.words.insert(all.words.end(), made.words.begin(), made.words.end());
      else
        all.words[0] += made.words[0];
      all.is_array = all.is_array || made.is_array;
      for (const shell_guess& each : made.guesses) guess(all.guesses, each);
      made = std::move(all);
    }
    if (may_not_run() && !(is_set && before->second.words == made.words)) {
      const std::string where =
          "in line " + std::to_string(line()) + ", which runs only where a condition holds; ";
      if (is_set && before->second.is_sure && is_unknown(made.words)) {
        // Of an argument or of what a command prints; what it was before is a default.
        guess(before->second.guesses,
              {name, "is set otherwise " + where + "the value before it is taken"});
        return;
      }
      made.is_sure =
          made.is_sure &&
          (!is_set || (before->second.is_sure && extends(before->second.words, made.words)));
      guess(made.guesses,
            {name, (is_set ? "is added to " : "is set ") + where + "it is taken to hold"});
    }
    for (const std::string& field : made.words)
      if (!spend(field.size())) return;
    variables_[name] = std::move(made);
  }
  static bool is_unknown(const fields& words) {
    return words.size() == 1 && has_expansion(words[0]) && words[0].find(' ') == std::string::npos;
  }
  // Whether words begin as these do: what was there stays.
  static bool extends(const fields& before, const fields& now) {
    if (before.empty() || before.size() > now.size()) return before.empty();
    for (std::size_t i = 0; i + 1 < before.size(); ++i)
      if (before[i] != now[i]) return false;
    const std::size_t last = before.size() - 1;
    return now.size() > before.size() ? now[last] == before[last]
                                      : now[last].find(before[last]) != std::string::npos;
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
      for (const shell_guess& each : is.guesses) guess(used_, each);
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
      for (const shell_guess& each : reader.used_) guess(used_, each);
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
  std::vector<branch> branches_{};
  known<bool> next_ = true;  // whether the next command runs, by what && and || stand behind
  known<bool> status_{};     // whether the last command found what it tests
  bool tests_ = false;       // whether the last command tests
  bool is_opposite_ = false;
  bool awaits_pattern_ = false;
  std::map<std::string, variable> variables_{};
  std::vector<std::string> documents_{};
  std::vector<shell_guess> used_{};  // in the words that are read
};

}  // namespace detail

/// The commands of a script for POSIX sh or bash. Nothing is run. Quotes, continued lines,
/// comments, here-documents, `NAME=text`, `$NAME`, `${NAME:-default}`, `$((2 * N))`, arrays,
/// `[ ... ]`, `&&`, `eval` and `bash -c` are what they are to the shell; a file whose first word is
/// an option (`--lr 1e-4`) is one command whatever its lines. `environment`: variables that are set
/// before it. Refused: texts longer than `most_of_settings`, before or after variables are
/// replaced, of zero bytes, and with more than 64 conditions and loops in each other.
[[nodiscard]] inline shell_script read_shell_script(
    std::string_view text, const std::map<std::string, std::string>& environment = {}) {
  shell_script made;
  if (text.size() > most_of_settings) {
    made.why = "it has more than " + std::to_string(most_of_settings >> 20) + " MiB";
    return made;
  }
  if (text.find('\0') != std::string_view::npos) {
    made.why = "it is no text: it has bytes of zero";
    return made;
  }
  detail::shell_reader(text, made, environment).read();
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
