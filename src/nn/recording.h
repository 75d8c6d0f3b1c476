#pragma once
#include "covnoise/nn/accounting.h"
#include "covnoise/ops/internal/optional_tensor.h"

#include <torch/csrc/autograd/custom_function.h>

#include <functional>

// What the backward passes of the layers share.
namespace covnoise::recording {

using Record = c10::intrusive_ptr<LayerRecord>;

/// Whether a forward pass of this layer has to use its autograd function now.
bool wanted(const AccountedLayer& layer);

void save_record(torch::autograd::AutogradContext* context, const Record& record);

/// Null if none was saved. Its request is read during the backward pass: if it was cleared, nothing is recorded.
Record saved_record(const torch::autograd::AutogradContext* context);

/// Throws in a backward pass with create_graph, which these functions do not support.
void refuse_second_derivative(const char* layer);

void add_to(at::Tensor& sum, const at::Tensor& value);

/// The xi of a pass, shaped like dz, [M, I] or [M, I, H', W']: an example's are those of its index in the large batch.
at::Tensor normals_like(const at::Tensor& dz, const LayerRecord& record);

/// Consecutive examples whose contributions are summed before squaring: 1, or the request's group, which must divide
/// `examples`.
std::int64_t examples_per_group(const LayerRequest& request, std::int64_t examples);

/// Adds to the record the Gram matrix [M, M] and the fourth powers of vectors of `size` elements that `rows(begin,
/// end)` computes for a range of examples as [end - begin, size]: two blocks of examples at a time are in memory.
void add_gram_of_blocks(LayerRecord& record, std::int64_t examples, std::int64_t size,
                        const std::function<at::Tensor(std::int64_t, std::int64_t)>& rows);

/// The same for vectors [M, size] in memory.
void add_gram_of(LayerRecord& record, const at::Tensor& rows);

}  // namespace covnoise::recording
