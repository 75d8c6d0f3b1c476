#pragma once
#include "covnoise/nn/accounting.h"
#include "covnoise/ops/internal/optional_tensor.h"

#include <torch/csrc/autograd/custom_function.h>

#include <functional>

// What the backward passes of the layers share.
namespace covnoise::statistics {

using Record = c10::intrusive_ptr<LayerRecord>;

/// Whether a forward pass of this layer now has to go through its autograd function.
bool wanted(const AccountedLayer& layer);

void save_record(torch::autograd::AutogradContext* context, const Record& record);

/// Null where none was saved. Its request is read in the backward: cleared in between, nothing is collected.
Record saved_record(const torch::autograd::AutogradContext* context);

/// Throws in a backward that builds a graph of itself, which these functions cannot.
void refuse_second_derivative(const char* layer);

void add_to(at::Tensor& sum, const at::Tensor& value);

/// The xi of a pass, like dz, which is [M, I] or [M, I, H', W']: those of an example are those of its place.
at::Tensor normals_like(const at::Tensor& dz, const LayerRecord& record);

/// Consecutive examples whose contributions are summed before squaring: 1, or the ghost batch, which must divide
/// `examples`.
std::int64_t examples_per_group(const Request& request, std::int64_t examples);

/// Adds to the record the Gram matrix [M, M] and the fourth powers of vectors of `size` elements that `rows(begin,
/// end)` computes for a range of examples as [end - begin, size]: two blocks of examples at a time are in memory.
void add_gram_of_blocks(LayerRecord& record, std::int64_t examples, std::int64_t size,
                        const std::function<at::Tensor(std::int64_t, std::int64_t)>& rows);

/// The same for vectors [M, size] that are there.
void add_gram_of(LayerRecord& record, const at::Tensor& rows);

}  // namespace covnoise::statistics
