#pragma once

// A value, or the failure that explains why there is none: one list of errors and one list of facts
// for the whole library, with one text each, which compile errors (require.hpp) and run-time
// messages share.

#include <cstdint>
#include <exception>

namespace gpuplan {

// Facts are integers; where they have a unit, it ends the name.
#define GPUPLAN_FACTS(X)             \
  X(micro_batch)                     \
  X(data_parallel)                   \
  X(nodes)                           \
  X(gpus_per_node)                   \
  X(position)                        \
  X(at_most_days)                    \
  X(devices)                         \
  X(accumulation)                    \
  X(effective_batch)                 \
  X(effective_batch_low)             \
  X(effective_batch_high)            \
  X(nearest_below)                   \
  X(nearest_above)                   \
  X(largest_micro_batch)             \
  X(needed_MB)                       \
  X(low_MB)                          \
  X(high_MB)                         \
  X(gpu_has_MB)                      \
  X(fixed_MB)                        \
  X(per_sample_KB)                   \
  X(different_batches)               \
  X(row)                             \
  X(line)                            \
  X(bad_lines)                       \
  X(rows_that_ran)                   \
  X(rows_in_memory_band)             \
  X(rows_in_utilisation_band)        \
  X(band_low_MB)                     \
  X(band_high_MB)                    \
  X(largest_row_MB)                  \
  X(workers)                         \
  X(time_us)                         \
  X(samples)                         \
  X(epochs)                          \
  X(steps)                           \
  X(step)                            \
  X(steps_per_epoch)                 \
  X(stage)                           \
  X(days)                            \
  X(minutes)                         \
  X(at_most_minutes)                 \
  X(cents)                           \
  X(at_most_cents)                   \
  X(plans)                           \
  X(cents_per_hour)                  \
  X(milliwatts)                      \
  X(MBps)                            \
  X(parameters)                      \
  X(checkpoints)                     \
  X(checkpoint_MB)                   \
  X(free_MB)                         \
  X(num_hidden_layers)               \
  X(num_decoder_layers)              \
  X(hidden_size)                     \
  X(intermediate_size)               \
  X(num_attention_heads)             \
  X(num_key_value_heads)             \
  X(head_dim)                        \
  X(vocab_size)                      \
  X(q_lora_rank)                     \
  X(kv_lora_rank)                    \
  X(qk_nope_head_dim)                \
  X(qk_rope_head_dim)                \
  X(v_head_dim)                      \
  X(sliding_window)                  \
  X(global_layer_step)               \
  X(num_experts)                     \
  X(num_experts_per_tok)             \
  X(moe_intermediate_size)           \
  X(shared_expert_intermediate_size) \
  X(first_k_dense_layers)            \
  X(moe_layer_step)                  \
  X(norms_per_layer)                 \
  X(position_rows)                   \
  X(relative_attention_buckets)      \
  X(type_vocab_size)                 \
  X(embedding_dim)                   \
  X(image_size)                      \
  X(patch_size)                      \
  X(num_channels)                    \
  X(class_tokens)                    \
  X(register_tokens)                 \
  X(num_classes)                     \
  X(classifier_inputs)               \
  X(projection_dim)                  \
  X(mtp_layers)                      \
  X(other_parameters)                \
  X(sequences)                       \
  X(sequence_length)                 \
  X(decoder_sequence_length)         \
  X(encodings)                       \
  X(recompute_span)                  \
  X(recompute_period)                \
  X(recompute_layers)                \
  X(lora_rank)                       \
  X(last_layers)                     \
  X(tensor_parallel)                 \
  X(pipeline_parallel)               \
  X(expert_parallel)                 \
  X(context_parallel)                \
  X(virtual_pipeline)                \
  X(zero_stage)                      \
  X(shard_group)                     \
  X(percent)                         \
  X(low_thousandths)                 \
  X(high_thousandths)                \
  X(at_least)                        \
  X(at_most)                         \
  X(request_bytes)                   \
  X(stream)                          \
  X(handle)                          \
  X(cells)                           \
  X(columns)                         \
  X(element_bits)                    \
  X(accumulator_bits)

/// What went wrong.
enum class errc {
  none,
#define GPUPLAN_ERROR(name, sentence) name,
#include <gpuplan/detail/errors.inc>
};

/// What a number in a failure means.
enum class fact {
#define GPUPLAN_ENUMERATOR(name) name,
  GPUPLAN_FACTS(GPUPLAN_ENUMERATOR)
#undef GPUPLAN_ENUMERATOR
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
#define GPUPLAN_CASE(enumerator) \
  case fact::enumerator:         \
    return #enumerator;
    GPUPLAN_FACTS(GPUPLAN_CASE)
#undef GPUPLAN_CASE
  }
  return "";
}

struct named_fact {
  fact name{};
  std::int64_t value = 0;

  friend constexpr bool operator==(const named_fact&, const named_fact&) = default;
};

/// An error with its facts. All members are public so that it can be a template argument, which is
/// how the facts get into a compile error.
struct failure {
  static constexpr int most_facts = 6;

  errc code = errc::none;
  unsigned count = 0;  // of the facts in use
  named_fact facts[most_facts]{};
  char subject[32]{};  // a name that the facts cannot hold, cut to 31 characters

  constexpr failure() = default;
  template <class... Facts>
  constexpr explicit failure(errc error, Facts... known)
      : code(error), count(sizeof...(known)), facts{known...} {
    static_assert(sizeof...(known) <= most_facts);
  }

  /// Adds a fact. Precondition: there is room for it.
  constexpr void add(fact name, std::int64_t value) { facts[count++] = {name, value}; }

  /// The same failure about the thing of this name.
  [[nodiscard]] constexpr failure about(const char* name) const {
    failure named(code);
    named.count = count;
    for (unsigned i = 0; i < count; ++i) named.facts[i] = facts[i];
    for (int i = 0; name[i] != '\0' && i < 31; ++i) named.subject[i] = name[i];
    return named;
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

/// A failure as one line of text: `sentence: fact value, fact value`.
class failure_text {
 public:
  constexpr explicit failure_text(const failure& why) {
    append(text(why.code));
    const char* separator = ": ";
    if (why.subject[0] != '\0') {
      append(separator);
      append(why.subject);
      separator = ", ";
    }
    for (unsigned i = 0; i < why.count; ++i) {
      append(separator);
      append(text(why.facts[i].name));
      append(" ");
      append(why.facts[i].value);
      separator = ", ";
    }
  }

  [[nodiscard]] constexpr const char* c_str() const { return characters_; }

 private:
  // Longest sentence, longest subject, and six facts with their separators: below 512.
  char characters_[512]{};
  int size_ = 0;

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
