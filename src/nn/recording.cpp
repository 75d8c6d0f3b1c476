#include "nn/recording.h"

#include "covnoise/ops/internal/group_squares.h"
#include "covnoise/ops/random.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace covnoise::recording {
namespace {

constexpr std::int64_t kGramBlockElements = std::int64_t{1} << 24;  // 64 MiB of float32

const char* name_of(const LayerRecord& record) { return record.name.empty() ? "(unnamed)" : record.name.c_str(); }

template <class T>
c10::intrusive_ptr<T> saved(const torch::autograd::AutogradContext* context, const char* key) {
  const auto found = context->saved_data.find(key);
  if (found == context->saved_data.end()) return {};
  return c10::static_intrusive_pointer_cast<T>(found->second.toCapsule());
}

/// Whether this is the last of the layer's calls.
bool receive(LayerCalls& calls) {
  calls.received = (calls.received + 1) % calls.count;
  return calls.received == 0;
}

/// [rows, ...] -> [examples, rows of an example, ...].
at::Tensor by_example(const LayerRecord& record, const at::Tensor& rows) {
  return rows.unflatten(0, {-1, rows_per_example(record, rows.size(0))});
}

/// Kept tensors [examples, rows, ...] -> [all rows, ...], those of an example side by side.
at::Tensor side_by_side(std::vector<at::Tensor>& kept, const at::Tensor& like) {
  const auto all = at::cat(kept, 1).flatten(0, 1);
  kept.clear();
  return like.dim() == 4 ? all.contiguous(like.suggest_memory_format()) : all;
}

}  // namespace

bool wanted(const AccountedLayer& layer) {
  return layer.record() && layer.record()->request.any() && at::GradMode::is_enabled();
}

Record wanted_record(const AccountedLayer& layer) { return wanted(layer) ? layer.record() : Record(); }

void save_call(torch::autograd::AutogradContext* context, const Record& record, std::int64_t rows) {
  if (!record) return;
  const std::int64_t each = rows_per_example(*record, rows);
  TORCH_CHECK(each == 1 || !record->request.gram, "layer '", name_of(*record), "' gets ", each,
              " rows of each example: it has squares, but no Gram matrix");
  if (!record->calls || record->calls->backward_began) record->calls = c10::make_intrusive<LayerCalls>();
  ++record->calls->count;
  context->saved_data["record"] = c10::IValue::make_capsule(record);
  context->saved_data["calls"] = c10::IValue::make_capsule(record->calls);
}

Call saved_call(const torch::autograd::AutogradContext* context) {
  Call call{saved<LayerRecord>(context, "record"), saved<LayerCalls>(context, "calls")};
  if (call.calls) call.calls->backward_began = true;
  const LayerRequest request = call.request();
  TORCH_CHECK(!(call.several() && (request.kronecker || request.gram)), "layer '", name_of(*call.record),
              "' is called ", call.calls->count,
              " times in one pass: it has squares, but no Kronecker factors and no Gram matrix");
  return call;
}

std::int64_t rows_per_example(const LayerRecord& record, std::int64_t rows) {
  if (record.examples == 0) return 1;
  TORCH_CHECK(rows >= record.examples && rows % record.examples == 0, "layer '", name_of(record), "' gets ", rows,
              " rows for ", record.examples,
              " examples: squares need the same number of rows of each example, one after the other");
  return rows / record.examples;
}

std::optional<Operands> add_operands(const Call& call, const at::Tensor& x, const at::Tensor& dz) {
  auto& calls = *call.calls;
  const auto& first = calls.kept.empty() ? x : calls.kept[0];
  TORCH_CHECK(first.sizes().slice(first.dim() - x.dim() + 1) == x.sizes().slice(1), "layer '", name_of(*call.record),
              "' is called with inputs of different shapes in one pass, for which there are no squares: use "
              "noise.estimator = \"micro\" or \"signs\"");
  calls.kept.push_back(by_example(*call.record, x));
  calls.more.push_back(by_example(*call.record, dz));
  if (!receive(calls)) return std::nullopt;
  const std::int64_t examples = calls.kept[0].size(0);
  Operands all{side_by_side(calls.kept, x), side_by_side(calls.more, dz), 0};
  const std::int64_t group = rows_per_group(*call.record, x.size(0)) / rows_per_example(*call.record, x.size(0));
  all.rows_per_group = group * (all.x.size(0) / examples);
  return all;
}

void add_squares_of_rows(const Call& call, const at::Tensor& weight, const at::Tensor& bias) {
  auto& record = *call.record;
  auto weights = weight, biases = bias;
  std::int64_t group = rows_per_group(record, weight.size(0));
  if (call.several()) {
    auto& calls = *call.calls;
    group /= rows_per_example(record, weight.size(0));
    calls.kept.push_back(by_example(record, weight).sum(1));
    calls.more.push_back(by_example(record, bias).sum(1));
    if (!receive(calls)) return;
    weights = at::stack(calls.kept).sum(0);
    biases = at::stack(calls.more).sum(0);
    calls.kept.clear();
    calls.more.clear();
  }
  add_to(record.weight_squares, group_squares(weights, group));
  add_to(record.bias_squares, group_squares(biases, group));
}

void refuse_second_derivative(const char* layer) {
  TORCH_CHECK(!at::GradMode::is_enabled(), "the backward pass of ", layer,
              " cannot be differentiated again: use evaluation mode, and a forward pass that collects no statistics");
}

void add_to(at::Tensor& sum, const at::Tensor& value) {
  if (sum.defined()) {
    sum.add_(value);
  } else {
    sum = value;
  }
}

at::Tensor normals_like(const at::Tensor& dz, const LayerRecord& record) {
  const std::int64_t rows = dz.size(0), outputs = dz.size(1), count = dz[0].numel();
  const std::int64_t blocks = (count + kWordsOfBlock - 1) / kWordsOfBlock;  // a row begins with a new block
  auto stream = record.request.normals;
  stream.first += static_cast<std::uint64_t>(record.first * rows_per_example(record, rows) * blocks);
  const auto filled = at::empty({rows, blocks * kWordsOfBlock}, dz.options());
  fill_normal(filled, stream);
  auto normals = filled.narrow(1, 0, count).contiguous();
  if (dz.dim() == 2) return normals;
  return normals.view({rows, dz.size(2), dz.size(3), outputs})
      .permute({0, 3, 1, 2})
      .contiguous(dz.suggest_memory_format());
}

std::int64_t rows_per_group(const LayerRecord& record, std::int64_t rows) {
  const LayerRequest& request = record.request;
  const std::int64_t each = rows_per_example(record, rows), examples = rows / each;
  if (request.squares != Squares::kGhost) return each;
  TORCH_CHECK(request.group > 0 && examples % request.group == 0, "a batch of ", examples,
              " examples is not a whole number of groups of ", request.group);
  return request.group * each;
}

void add_gram_of_blocks(LayerRecord& record, std::int64_t examples, std::int64_t size,
                        const std::function<at::Tensor(std::int64_t, std::int64_t)>& rows) {
  const std::int64_t block =
      std::clamp<std::int64_t>(kGramBlockElements / std::max<std::int64_t>(1, size), 1, examples);
  at::Tensor gram;
  for (std::int64_t i = 0; i < examples; i += block) {
    const std::int64_t i_end = std::min(i + block, examples);
    const auto left = rows(i, i_end);
    if (!gram.defined()) gram = at::empty({examples, examples}, left.options());
    add_to(record.fourth_powers, left.pow(4).sum());
    gram.slice(0, i, i_end).slice(1, i, i_end).copy_(left.mm(left.t()));
    for (std::int64_t j = 0; j < i; j += block) {
      const auto product = left.mm(rows(j, j + block).t());
      gram.slice(0, i, i_end).slice(1, j, j + block).copy_(product);
      gram.slice(0, j, j + block).slice(1, i, i_end).copy_(product.t());
    }
  }
  add_to(record.gram, gram);
}

void add_gram_of(LayerRecord& record, const at::Tensor& rows) {
  add_gram_of_blocks(record, rows.size(0), rows.size(1),
                     [&](std::int64_t begin, std::int64_t end) { return rows.slice(0, begin, end); });
}

}  // namespace covnoise::recording
