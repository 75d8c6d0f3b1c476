#include "nn/recording.h"

#include "covnoise/ops/random.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace covnoise::recording {
namespace {

constexpr std::int64_t kGramBlockElements = std::int64_t{1} << 24;  // 64 MiB of float32

}  // namespace

bool wanted(const AccountedLayer& layer) {
  return layer.record() && layer.record()->request.any() && at::GradMode::is_enabled();
}

void save_record(torch::autograd::AutogradContext* context, const Record& record) {
  if (record) context->saved_data["record"] = c10::IValue::make_capsule(record);
}

Record saved_record(const torch::autograd::AutogradContext* context) {
  const auto found = context->saved_data.find("record");
  if (found == context->saved_data.end()) return {};
  return c10::static_intrusive_pointer_cast<LayerRecord>(found->second.toCapsule());
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
  const std::int64_t examples = dz.size(0), outputs = dz.size(1), count = dz[0].numel();
  const std::int64_t blocks = (count + kWordsOfBlock - 1) / kWordsOfBlock;  // an example begins with a new block
  auto stream = record.request.normals;
  stream.first += static_cast<std::uint64_t>(record.first * blocks);
  const auto filled = at::empty({examples, blocks * kWordsOfBlock}, dz.options());
  fill_normal(filled, stream);
  auto normals = filled.narrow(1, 0, count).contiguous();
  if (dz.dim() == 2) return normals;
  return normals.view({examples, dz.size(2), dz.size(3), outputs})
      .permute({0, 3, 1, 2})
      .contiguous(dz.suggest_memory_format());
}

std::int64_t examples_per_group(const LayerRequest& request, std::int64_t examples) {
  if (request.squares != Squares::kGhost) return 1;
  TORCH_CHECK(request.group > 0 && examples % request.group == 0, "a batch of ", examples,
              " examples is not a whole number of groups of ", request.group);
  return request.group;
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
