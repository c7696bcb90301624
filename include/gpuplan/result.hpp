#pragma once

// A value, or the failure that explains why there is none: one list of errors and one list of facts
// for the whole library, with one text each, which compile errors (require.hpp) and run-time
// messages share.

#include <concepts>
#include <cstdint>
#include <exception>
#include <initializer_list>

namespace gpuplan {

// Enumerations of the descriptions that a fact's value can be of, declared here since facts come
// first, and how their enumerators are spelled, in order.
#define GPUPLAN_FACT_ENUMERATIONS(X)                                                \
  X(number_format, "fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "int8")    \
  X(accumulator, "fp32", "fp16")                                                    \
  X(scaling_kind, "tensor", "row", "delayed", "blocks", "micro")                    \
  X(model_kind, "decoder", "encoder", "encoder_decoder", "vision")                  \
  X(norm_kind, "rms_norm", "layer_norm")                                            \
  X(norm_position, "before", "after_residual", "after_sublayer", "around")          \
  X(qk_norm_scope, "none", "head", "full_width")                                    \
  X(activation_function,                                                            \
    "silu",                                                                         \
    "gelu",                                                                         \
    "gelu_tanh",                                                                    \
    "gelu_new",                                                                     \
    "relu",                                                                         \
    "quick_gelu",                                                                   \
    "relu_squared")                                                                 \
  X(head_kind, "none", "language_model", "classifier")                              \
  X(pipeline_schedule,                                                              \
    "one_f_one_b",                                                                  \
    "gpipe",                                                                        \
    "zero_bubble",                                                                  \
    "zero_bubble_v",                                                                \
    "dual_pipe",                                                                    \
    "dual_pipe_v")                                                                  \
  X(recompute_mode, "none", "selective", "full")                                    \
  X(training, "full", "frozen", "head", "last_layers", "adapters")                  \
  X(attention_kernel, "automatic", "flash", "efficient", "math", "eager")           \
  X(token_dispatcher, "all_to_all", "deepep", "hybridep")                           \
  X(context_exchange, "automatic", "p2p", "a2a")                                    \
  X(training_objective, "next_token", "supervised", "preference", "group_relative") \
  X(reference_model, "separate", "without_adapters", "precomputed", "none")         \
  X(optimizer_kind,                                                                 \
    "sgd",                                                                          \
    "sgd_momentum",                                                                 \
    "adamw",                                                                        \
    "adafactor",                                                                    \
    "lion",                                                                         \
    "muon",                                                                         \
    "rmsprop",                                                                      \
    "adagrad")                                                                      \
  X(optimizer_library, "torch", "bitsandbytes", "torchao")                          \
  X(optimizer_loop, "foreach", "fused", "parameter")                                \
  X(non_finite, "nan", "infinity", "minus_infinity")

#define GPUPLAN_DECLARED(enumeration, ...) enum class enumeration;
GPUPLAN_FACT_ENUMERATIONS(GPUPLAN_DECLARED)
#undef GPUPLAN_DECLARED

/// What a fact's value is where it is no finite number.
enum class non_finite { nan, infinity, minus_infinity };

/// What a compile error shows of a number with a fraction.
struct millionths {
  std::int64_t count = 0;
};

/// What went wrong.
enum class errc {
  none,
#define GPUPLAN_ERROR(name, sentence) name,
#include <gpuplan/detail/errors.inc>
};

/// What code is called, which is told apart by the address of its name: that is what a compile
/// error shows.
struct code_name {
  const char* text = "";
};
namespace code_names {
inline constexpr code_name nobody{"of nobody"};
}

/// What a number in a failure means.
enum class fact {
#define GPUPLAN_FACT(name) name,
#include <gpuplan/detail/facts.inc>
};

/// The sentence of an error: what is wrong and what to change.
[[nodiscard]] constexpr const char* text(errc code) {
  switch (code) {
#define GPUPLAN_ERROR(name, sentence) \
  case errc::name:                    \
    return sentence;
#include <gpuplan/detail/errors.inc>
    case errc::none:
      break;
  }
  return "no error";
}

/// The name of a fact, as the enumerator is spelled.
[[nodiscard]] constexpr const char* text(fact name) {
  switch (name) {
#define GPUPLAN_FACT(enumerator) \
  case fact::enumerator:         \
    return #enumerator;
#include <gpuplan/detail/facts.inc>
  }
  return "";
}

/// What a fact's value is.
enum class fact_kind {
  number,
  fraction,  // counted in millionths
  yes_no,
  code,
#define GPUPLAN_ENUMERATOR(enumeration, ...) enumeration,
  GPUPLAN_FACT_ENUMERATIONS(GPUPLAN_ENUMERATOR)
#undef GPUPLAN_ENUMERATOR
};

namespace detail {

template <class Enumeration>
inline constexpr fact_kind kind_of = fact_kind::number;
#define GPUPLAN_KIND(enumeration, ...) \
  template <>                          \
  inline constexpr fact_kind kind_of<enumeration> = fact_kind::enumeration;
GPUPLAN_FACT_ENUMERATIONS(GPUPLAN_KIND)
#undef GPUPLAN_KIND

}  // namespace detail

/// A fact and its value: a number, yes or no, code, or an enumerator of a description. A number
/// with a fraction is rounded to millionths, from 10^12 on to integers, and cut to 64 bits.
struct named_fact {
  fact name{};
  fact_kind kind = fact_kind::number;
  std::int64_t value = 0;
  const code_name* code = nullptr;

  constexpr named_fact() = default;
  constexpr named_fact(fact of, std::int64_t number) : name(of), value(number) {}
  constexpr named_fact(fact about, std::same_as<const code_name*> auto called)
      : name(about), kind(fact_kind::code), code(called) {}
  constexpr named_fact(fact about, std::same_as<bool> auto holds)
      : name(about), kind(fact_kind::yes_no), value(holds) {}
  constexpr named_fact(fact about, std::same_as<double> auto number) : name(about) {
    const double most = __builtin_inf();
    if (!(number < most && number > -most)) {
      *this = {about,
               number > 0   ? non_finite::infinity
               : number < 0 ? non_finite::minus_infinity
                            : non_finite::nan};
      return;
    }
    const double size = number < 0 ? -number : number;
    const bool has_fraction = size < 1e12;
    kind = has_fraction ? fact_kind::fraction : fact_kind::number;
    const double scaled = has_fraction ? size * 1e6 + 0.5 : size < 9e18 ? size : 9e18;
    value = static_cast<std::int64_t>(scaled);
    if (number < 0) value = -value;
  }
  template <class Enumeration>
  requires(detail::kind_of<Enumeration> !=
           fact_kind::number) constexpr named_fact(fact about, Enumeration enumerator)
      : name(about),
        kind(detail::kind_of<Enumeration>),
        value(static_cast<std::int64_t>(enumerator)) {}

  friend constexpr bool operator==(const named_fact&, const named_fact&) = default;
};

/// The value of a fact that is no number, as it is spelled in code.
[[nodiscard]] constexpr const char* word_of(const named_fact& known) {
  switch (known.kind) {
    case fact_kind::number:
    case fact_kind::fraction:
      break;
    case fact_kind::yes_no:
      return known.value != 0 ? "true" : "false";
    case fact_kind::code:
      return known.code->text;
#define GPUPLAN_CASE(enumeration, ...)                                        \
  case fact_kind::enumeration: {                                              \
    constexpr const char* words[] = {__VA_ARGS__};                            \
    constexpr std::int64_t count = sizeof(words) / sizeof(words[0]);          \
    return known.value >= 0 && known.value < count ? words[known.value] : ""; \
  }
      GPUPLAN_FACT_ENUMERATIONS(GPUPLAN_CASE)
#undef GPUPLAN_CASE
  }
  return "";
}

/// An error with its facts. All members are public so that it can be a template argument, which is
/// how the facts get into a compile error.
struct failure {
  static constexpr int most_facts = 8;

  errc code = errc::none;
  unsigned count = 0;  // of the facts in use
  named_fact facts[most_facts]{};
  fact field = fact::none;  // what the facts are of, where they do not name it
  char subject[32]{};       // a name of the caller's, cut to 31 characters

  constexpr failure() = default;
  template <class... Facts>
  constexpr explicit failure(errc error, Facts... known)
      : code(error), count(sizeof...(known)), facts{known...} {
    static_assert(sizeof...(known) <= most_facts);
  }
  /// Precondition: there is room for the facts.
  constexpr failure(errc error, std::initializer_list<named_fact> known) : code(error) {
    for (const named_fact& each : known) facts[count++] = each;
  }

  /// Adds a fact. Precondition: there is room for it.
  constexpr void add(fact name, std::int64_t value) { facts[count++] = {name, value}; }

  /// The same failure about this field.
  [[nodiscard]] constexpr failure about(fact what) const {
    failure named = *this;
    named.field = what;
    return named;
  }
  /// The same failure about the caller's thing of this name.
  [[nodiscard]] constexpr failure about(const char* name) const {
    failure named(code);
    named.field = field;
    named.count = count;
    for (unsigned i = 0; i < count; ++i) named.facts[i] = facts[i];
    for (int i = 0; name[i] != '\0' && i < 31; ++i) named.subject[i] = name[i];
    return named;
  }

  /// What is at fault: the field, or the first fact; `fact::none` where there is neither.
  [[nodiscard]] constexpr fact at_fault() const {
    return field == fact::none && count > 0 ? facts[0].name : field;
  }

  /// The number of characters of `subject`.
  [[nodiscard]] constexpr unsigned subject_size() const {
    unsigned size = 0;
    while (subject[size] != '\0') ++size;
    return size;
  }

  /// The value of a fact that this failure has; 0 where it has not.
  [[nodiscard]] constexpr std::int64_t operator[](fact wanted) const {
    for (unsigned i = 0; i < count; ++i)
      if (facts[i].name == wanted) return facts[i].value;
    return 0;
  }

  friend constexpr bool operator==(const failure&, const failure&) = default;
};

namespace detail {

[[nodiscard]] constexpr bool failed(const failure& why) { return why.code != errc::none; }

}  // namespace detail

namespace detail {

// Up to eight values, smallest first, that would be taken where a number was refused for what it
// has to divide or to be a multiple of.
struct numbers_taken {
  static constexpr int most = 8;

  std::int64_t numbers[most]{};
  unsigned count = 0;

  constexpr explicit numbers_taken(const failure& why) {
    const std::int64_t refused = why.facts[0].value;
    const std::int64_t other = why.facts[1].value;
    if (other < 1) return;
    if (why.code == errc::not_a_multiple) {
      const std::int64_t below = refused / other * other;
      if (below > 0) add(below);
      if (below <= INT64_MAX - other) add(below + other);
    } else if (why.code == errc::does_not_divide) {
      add_divisors(other, refused);
    }
  }

 private:
  // Of all divisors below 2^12, and what they leave: the four nearest to the number on either side.
  constexpr void add_divisors(std::int64_t whole, std::int64_t number) {
    std::int64_t below[4]{};  // nearest first
    std::int64_t above[4]{};
    const auto offer = [number](std::int64_t(&nearest)[4], std::int64_t divisor) {
      for (std::int64_t& held : nearest) {
        if (held == divisor) return;
        const std::int64_t distance = divisor < number ? number - divisor : divisor - number;
        const std::int64_t of_held = held < number ? number - held : held - number;
        if (held != 0 && of_held < distance) continue;
        const std::int64_t pushed = held;
        held = divisor;
        divisor = pushed;
        if (divisor == 0) return;
      }
    };
    for (std::int64_t divisor = 1; divisor < 4096 && divisor <= whole / divisor; ++divisor) {
      if (whole % divisor != 0) continue;
      for (const std::int64_t each : {divisor, whole / divisor})
        offer(each < number ? below : above, each);
    }
    for (int i = 4; i > 0; --i)
      if (below[i - 1] != 0) add(below[i - 1]);
    for (const std::int64_t divisor : above)
      if (divisor != 0) add(divisor);
  }
  constexpr void add(std::int64_t number) { numbers[count++] = number; }
};

}  // namespace detail

/// A failure as one line of text: `sentence: fact value, fact value`; where a value was refused for
/// what stands beside it, a sentence with the value and with what would be taken.
class failure_text {
 public:
  constexpr explicit failure_text(const failure& why) {
    const bool has_facts = why.subject[0] == '\0' && why.count > 0;
    if (has_facts && why.code == errc::no_such_code)
      append_not_taken(why);
    else if (has_facts && why.code == errc::does_not_divide)
      append_with_numbers(why, " does not divide ");
    else if (has_facts && why.code == errc::not_a_multiple)
      append_with_numbers(why, " is no multiple of ");
    else
      append_sentence(why);
  }

  [[nodiscard]] constexpr const char* c_str() const { return characters_; }

 private:
  // Longest sentence, longest subject, and six facts with their separators: below 512.
  char characters_[512]{};
  int size_ = 0;

  constexpr void append_sentence(const failure& why) {
    append(text(why.code));
    const char* separator = ": ";
    if (why.field != fact::none) {
      append(separator);
      append(text(why.field));
      separator = ", ";
    }
    if (why.subject[0] != '\0') {
      append(separator);
      append(why.subject);
      separator = ", ";
    }
    for (unsigned i = 0; i < why.count; ++i) {
      append(separator);
      append(why.facts[i]);
      separator = ", ";
    }
  }
  static constexpr bool says_what_is_taken(fact name) {
    return name == fact::takes || name == fact::at_least || name == fact::at_most;
  }
  // "zero_stage 7 is not taken beside sharding fsdp2; 2 or 3 is"
  constexpr void append_not_taken(const failure& why) {
    append(why.facts[0]);
    append(" is not taken");
    const char* separator = " beside ";
    unsigned taken = 0;
    for (unsigned i = 1; i < why.count; ++i) {
      taken += says_what_is_taken(why.facts[i].name);
      if (says_what_is_taken(why.facts[i].name)) continue;
      append(separator);
      append(why.facts[i]);
      separator = ", ";
    }
    for (unsigned i = 1, listed = 0; i < why.count; ++i) {
      const named_fact& each = why.facts[i];
      if (!says_what_is_taken(each.name)) continue;
      append(separator_in_list(listed++, taken));
      append(each.name == fact::at_least  ? "at least "
             : each.name == fact::at_most ? "at most "
                                          : "");
      append_value(each);
    }
    if (taken != 0) append(" is");
  }
  // "tensor_parallel 6 does not divide num_attention_heads 32; 1, 2, 4, 8, 16 or 32 do"
  constexpr void append_with_numbers(const failure& why, const char* relation) {
    append(why.facts[0]);
    append(relation);
    append(why.facts[1]);
    const detail::numbers_taken taken(why);
    for (unsigned i = 0; i < taken.count; ++i) {
      append(separator_in_list(i, taken.count));
      append(taken.numbers[i]);
    }
    const bool divides = why.code == errc::does_not_divide;
    if (taken.count != 0)
      append(taken.count > 1 ? (divides ? " do" : " are") : (divides ? " does" : " is"));
  }
  static constexpr const char* separator_in_list(unsigned listed, unsigned count) {
    return listed == 0 ? "; " : listed + 1 == count ? " or " : ", ";
  }

  constexpr void append(const named_fact& known) {
    append(text(known.name));
    append(" ");
    append_value(known);
  }
  constexpr void append_value(const named_fact& known) {
    if (known.kind == fact_kind::number) return append(known.value);
    if (known.kind != fact_kind::fraction) return append(word_of(known));
    constexpr std::int64_t million = 1'000'000;
    std::int64_t rest = known.value % million;
    if (rest < 0) rest = -rest;
    if (known.value < 0 && known.value > -million) append("-");
    append(known.value / million);
    if (rest != 0) append(".");
    for (std::int64_t place = million / 10; rest != 0; rest %= place, place /= 10)
      append(rest / place);
  }
  constexpr void append(const char* more) {
    for (; *more != '\0' && size_ < 511; ++more) characters_[size_++] = *more;
  }
  constexpr void append(std::int64_t number) {
    char digits[21]{};
    int first = 20;
    // Towards minus infinity there is one more number than towards plus infinity.
    for (std::int64_t rest = number;; rest /= 10) {
      digits[--first] = static_cast<char>('0' + (rest < 0 ? -(rest % 10) : rest % 10));
      if (rest / 10 == 0) break;
    }
    if (number < 0) append("-");
    append(digits + first);
  }
};

/// The exception of `value_or_throw`, and of a broken precondition at run time.
class plan_error : public std::exception {
 public:
  explicit plan_error(const failure& why) : why_(why), text_(why) {}

  [[nodiscard]] const failure& why() const noexcept { return why_; }
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

 private:
  failure why_;
  failure_text text_;
};

namespace detail {

// Not constexpr on purpose: reached in a constant expression, it is the compile error.
[[noreturn]] inline void precondition_violated(const failure& why) {
#if defined(__cpp_exceptions)
  throw plan_error(why);
#else
  static_cast<void>(why);
  std::terminate();
#endif
}

}  // namespace detail

template <class T>
class result;

namespace detail {

inline constexpr failure no_failure;

// For `require` alone: a second error about the missing value would only hide the first.
template <class T>
constexpr const T& value_or_default(const result<T>& r) {
  return r.value_;
}

}  // namespace detail

/// A value of type T, or the failure that explains why there is none. T is default constructible.
template <class T>
class result {
 public:
  constexpr result(T value)
      : value_(value), failed_(false), nothing_() {}  // NOLINT(google-explicit-constructor)
  constexpr result(const failure& why)
      : failed_(why.code != errc::none), why_(why) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] constexpr explicit operator bool() const { return !failed_; }

  /// The value. Precondition: there is one; else a compile error, at run time a `plan_error`.
  [[nodiscard]] constexpr const T& operator*() const {
    if (failed_) detail::precondition_violated(why_);
    return value_;
  }
  [[nodiscard]] constexpr const T* operator->() const { return &**this; }

  /// Why there is no value; `errc::none` where there is one.
  [[nodiscard]] constexpr const failure& why() const { return failed_ ? why_ : detail::no_failure; }

  /// The value; throws `plan_error` where there is none.
  [[nodiscard]] constexpr const T& value_or_throw() const { return **this; }

 private:
  template <class U>
  friend constexpr const U& detail::value_or_default(const result<U>&);

  T value_{};
  bool failed_;
  // A failure is large beside most values: where there is none, none is written.
  union {
    char nothing_;
    failure why_;
  };
};

}  // namespace gpuplan
