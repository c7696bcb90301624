#include "check.hpp"

#include <gpuplan/catalog/models.hpp>
#include <gpuplan/model.hpp>
#include <gpuplan/parameters.hpp>
#include <gpuplan/result.hpp>

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

// Each check goes over the whole catalogue and returns the id of the first model that fails it, or
// nothing: the compiler prints it where it fails.
namespace {

using namespace gpuplan;
using catalog::published_model;
using std::string_view;
using namespace std::string_view_literals;

constexpr string_view none = "";

template <class Check>
constexpr string_view first_that_fails(Check passes) {
  for (const published_model& model : catalog::models)
    if (!passes(model)) return model.id;
  return none;
}

constexpr bool same(const char* a, const char* b) {
  while (*a != '\0' && *a == *b) {
    ++a;
    ++b;
  }
  return *a == *b;
}

TEST_CASE("models have ids of their own") {
  STATIC_CHECK(first_that_fails([](const published_model& model) {
                 for (const published_model* other = &model + 1; other != std::end(catalog::models);
                      ++other)
                   if (same(other->id, model.id)) return false;
                 return *model.id != '\0';
               }) == none);
  // The id is the name of the shape.
  STATIC_CHECK(first_that_fails([](const published_model& model) {
                 return (!model.has_shape || model.shape->name == string_view(model.id)) &&
                        (!model.has_parts || model.parts->name == string_view(model.id));
               }) == none);
}

TEST_CASE("every shape is valid") {
  STATIC_CHECK(first_that_fails([](const published_model& model) {
                 return !model.has_shape || static_cast<bool>(validate(*model.shape));
               }) == none);
  STATIC_CHECK(first_that_fails([](const published_model& model) {
                 return !model.has_parts || static_cast<bool>(validate(*model.parts));
               }) == none);
}

TEST_CASE("a model has a shape or parts; what has neither says why") {
  STATIC_CHECK(first_that_fails([](const published_model& model) {
                 const bool shapeless = !model.has_shape && !model.has_parts;
                 return !(model.has_shape && model.has_parts) &&
                        (!shapeless || *model.note != '\0');
               }) == none);
}

TEST_CASE("a total has a source, and is the model's parameters and what it counts besides") {
  STATIC_CHECK(first_that_fails([](const published_model& model) {
                 return (model.published_parameters != 0) == (*model.source != '\0') &&
                        (model.published_extra == 0 || *model.note != '\0');
               }) == none);
  STATIC_CHECK(first_that_fails([](const published_model& model) {
                 if (model.published_parameters == 0) return true;
                 const std::int64_t rest = model.published_parameters - model.published_extra;
                 return !model.has_shape || parameters(*model.shape).total() == rest;
               }) == none);
}

TEST_CASE("what no field describes hears, knows distances, leads on from images, or scales pairs") {
  STATIC_CHECK(first_that_fails([](const published_model& model) {
                 if (model.has_shape)
                   return model.shape->other_parameters == 0 ||
                          model.shape->audio != audio_input{} ||
                          model.shape->disentangled.distances != 0;
                 if (!model.has_parts) return true;
                 const composite_model& all = *model.parts;
                 if (all.parts[0].joined_patches != 1) return true;
                 std::int64_t of_actions = 0;
                 if (all.actions.num_hidden_layers != 0)
                   of_actions = all.actions.parameters(all.parts[all.size() - 1].model.hidden_size);
                 return all.other_parameters - of_actions <= 2;
               }) == none);
}

constexpr string_view id_of(string_view name) {
  const auto found = catalog::find_model(name);
  return found ? string_view(found->id) : none;
}

TEST_CASE("a model is found by its id, its identifier, and its name on the Hugging Face Hub") {
  STATIC_CHECK(id_of("gpt2") == "gpt2");
  STATIC_CHECK(id_of("llama-3.1-8b") == "llama-3.1-8b");
  STATIC_CHECK(id_of("llama_3_1_8b") == "llama-3.1-8b");
  STATIC_CHECK(id_of("meta-llama/Llama-3.1-8B") == "llama-3.1-8b");
  STATIC_CHECK(id_of("Llama 3.1 8B") == "llama-3.1-8b");
  STATIC_CHECK(id_of("llama3.1 8b") == "llama-3.1-8b");
  STATIC_CHECK(id_of("Qwen/Qwen2.5-7B") == "qwen2.5-7b");
  STATIC_CHECK(id_of("sentence-transformers/all-MiniLM-L6-v2") == "all-minilm-l6-v2");
  STATIC_CHECK(id_of("google/siglip-so400m-patch14-224") == "siglip-so400m-patch14-224");
  STATIC_CHECK(id_of("resnet50") == "resnet-50");
  // The one generation that Meta named after itself.
  STATIC_CHECK(id_of("llama_3_8b") == "meta-llama-3-8b");
  STATIC_CHECK(id_of("meta-llama/Meta-Llama-3-8B") == "meta-llama-3-8b");
  STATIC_CHECK(id_of("Meta-Llama-3.1-8B") == "llama-3.1-8b");
  // What is found is the entry.
  STATIC_CHECK(catalog::find_model("openvla/openvla-7b")->parts == &catalog::openvla_7b);
  STATIC_CHECK(catalog::find_model("llama-3-8b")->shape == &catalog::llama_3_8b);
}

TEST_CASE("where punctuation alone tells two models apart, it must be there") {
  STATIC_CHECK(id_of("opt_13b") == "opt-13b" && id_of("opt_1_3b") == "opt-1.3b");
  STATIC_CHECK(id_of("gpt3-13b") == "gpt3-13b" && id_of("gpt3 1.3b") == "gpt3-1.3b");
  STATIC_CHECK(id_of("opt13b") == none && id_of("gpt313b") == none);
}

TEST_CASE("an unknown name is a failure with the nearest id") {
  CONSTEXPR auto nearest = [](string_view name) {
    const auto found = catalog::find_model(name);
    return !found && found.why().code == errc::unknown_model ? found.why() : failure();
  };
  STATIC_CHECK(nearest("llama-3.1-9b").subject == "llama-3.1-8b"sv);
  STATIC_CHECK(nearest("mistral-7b").subject == "mistral-7b-v0.1"sv);
  STATIC_CHECK(nearest("bert-base").subject == "bert-base-uncased"sv);
  STATIC_CHECK(nearest("openai/gpt-oss-21b").subject == "gpt-oss-20b"sv);
  STATIC_CHECK(nearest("Qwen/Qwen2.5-7B-Instruct").subject == "qwen2.5-7b"sv);
  STATIC_CHECK(nearest("opt13b").subject == "opt-13b"sv);
  STATIC_CHECK(nearest("llama3").subject == "meta-llama-3-8b"sv);
  STATIC_CHECK(nearest("lama-3-8b").subject == "meta-llama-3-8b"sv);
  STATIC_CHECK(nearest("mixtral").subject == "mixtral-8x7b-v0.1"sv);
  STATIC_CHECK(nearest("").code == errc::unknown_model);
  STATIC_CHECK(nearest("meta-llama/").code == errc::unknown_model);
}

#ifndef GPUPLAN_TEST_AT_COMPILE_TIME
// Every name of every model: too many steps for one constant expression.
template <class Change>
std::string changed(string_view id, Change change) {
  std::string name;
  for (const char c : id) name += change(c);
  return name;
}

TEST_CASE("every model is found by its id, however it is written") {
  int ambiguous = 0;
  for (const published_model& model : catalog::models) {
    const string_view id = model.id;
    CHECK(id_of(id) == id);
    CHECK(id_of("somebody/" + std::string(id)) == id);
    CHECK(id_of(changed(id, [](char c) {
            return std::string(1, detail::letter_or_digit(c) ? c : '_');
          })) == id);
    CHECK(id_of(changed(id, [](char c) {
            return std::string(1, c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c);
          })) == id);
    const string_view found = id_of(
        changed(id, [](char c) { return std::string(detail::letter_or_digit(c) ? 1 : 0, c); }));
    ambiguous += found == none;
    CHECK((found == none || found == id));
  }
  CHECK(ambiguous == 4);  // OPT and GPT-3 of 1.3 and 13 billion
}

TEST_CASE("every id with a letter too many is unknown, and the id is the nearest") {
  for (const published_model& model : catalog::models) {
    const auto found = catalog::find_model(std::string(1, *model.id) + model.id);
    REQUIRE(!found);
    const string_view nearest = found.why().subject;  // cut to 31 characters
    CHECK(detail::plain_name(nearest) ==
          detail::plain_name(string_view(model.id).substr(0, nearest.size())));
  }
}
#endif

}  // namespace
