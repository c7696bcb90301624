#include "measured_rows.hpp"

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "notes.hpp"

namespace accuracy {
namespace {

// A row that grows by a column at a time.
class step_row {
 public:
  explicit step_row(const row& of) : from_(of) {
    file_.path = of.file().path;
    file_.rows.push_back({.line = of.line(), .cells = {}});
  }

  void add(std::string_view column, std::string_view cell) {
    file_.places.emplace(column, file_.columns.size());
    file_.columns.emplace_back(column);
    file_.rows[0].cells.emplace_back(cell);
  }
  void copy(std::string_view column) { add(column, from_.text(column)); }
  void note(std::string_view column) { add(column, value_in(from_.text("notes"), column)); }

  csv_file take() { return std::move(file_); }

 private:
  const row& from_;
  csv_file file_;
};

// What measure_torch.py never varies.
void add_usual(step_row& step) {
  for (const auto& [column, cell] : {std::pair{"qk_norm", "0"},
                                     {"decoder_seq_len", "0"},
                                     {"encodings", "1"},
                                     {"trainable", "all"},
                                     {"peft", "none"},
                                     {"parallel", "single"},
                                     {"world_size", "1"}})
    step.add(column, cell);
}

}  // namespace

csv_file step_of_run(const row& run) {
  step_row step(run);
  for (const char* column :
       {"id",          "gpu",  "layers",    "hidden",      "heads",           "kv_heads",
        "head_dim",    "ffn",  "gated_mlp", "vocab",       "tied_embeddings", "learned_positions",
        "linear_bias", "norm", "seq_len",   "micro_batch", "optimizer",       "recompute",
        "step_s",      "fits"})
    step.copy(column);
  for (const char* column : {"code",
                             "activation",
                             "dropout",
                             "attention",
                             "optimizer_impl",
                             "grad_clip",
                             "loss",
                             "usable_bytes",
                             "workspace_bytes",
                             "torch_version",
                             "multiprocessors"})
    step.note(column);
  step.add("accumulation", run.text("grad_accum"));
  step.add("precision", value_in(run.text("notes"), "precision_printed"));
  add_usual(step);
  return step.take();
}

csv_file step_of_layer(const row& layer) {
  step_row step(layer);
  for (const char* column : {"id",
                             "gpu",
                             "code",
                             "hidden",
                             "heads",
                             "kv_heads",
                             "head_dim",
                             "ffn",
                             "gated_mlp",
                             "activation",
                             "linear_bias",
                             "norm",
                             "seq_len",
                             "micro_batch",
                             "precision",
                             "attention",
                             "dropout"})
    step.copy(column);
  const std::int64_t tokens = layer.integer_or("seq_len", 0);
  const bool is_vision = layer.text("code") == "plain_vit";
  const bool has_table = layer.text("code") == "plain_gpt" || layer.text("code") == "plain_bert";
  const auto side = static_cast<std::int64_t>(std::sqrt(static_cast<double>(tokens)));
  const auto add = [&](std::string_view column, std::int64_t value) {
    step.add(column, std::to_string(value));
  };
  add("layers", 1);
  add("vocab", is_vision ? 0 : 1);
  add("learned_positions", has_table ? tokens : 0);
  add("patch_size", is_vision ? 1 : 0);
  add("image_size", is_vision ? side : 0);
  add("num_classes", is_vision ? 1 : 0);
  add("accumulation", 1);
  step.add("tied_embeddings", is_vision ? "0" : "1");
  step.add("optimizer", "sgd");
  step.add("optimizer_impl", "foreach");
  step.add("recompute", "none");
  step.add("loss", "cross_entropy");
  add_usual(step);
  return step.take();
}

}  // namespace accuracy
