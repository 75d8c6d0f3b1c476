#pragma once
#include "covnoise/nn/accounting.h"
#include "covnoise/ops/internal/optional_tensor.h"

#include <torch/csrc/autograd/custom_function.h>

#include <functional>
#include <optional>

// What the backward passes of the layers share.
namespace covnoise::recording {

using Record = c10::intrusive_ptr<LayerRecord>;
using Calls = c10::intrusive_ptr<LayerCalls>;

/// What a backward pass needs of a call: both are null if nothing was to be recorded in its forward pass.
struct Call {
  Record record;
  Calls calls;
  /// The request, read during the backward pass: if it was cleared, nothing is recorded.
  LayerRequest request() const { return record ? record->request : LayerRequest{}; }
  /// Whether squares have to wait for other calls of the layer.
  bool several() const { return calls && calls->count > 1; }
};

/// Whether a forward pass of this layer has to use its autograd function now.
bool wanted(const AccountedLayer& layer);

/// The layer's record if this forward pass has to record, else null.
Record wanted_record(const AccountedLayer& layer);

/// Counts the call, and keeps the record for its backward. `rows` of the input must be as many for each example.
void save_call(torch::autograd::AutogradContext* context, const Record& record, std::int64_t rows);

/// In the backward. Kronecker factors and Gram matrices of a layer that is called several times are refused by name.
Call saved_call(const torch::autograd::AutogradContext* context);

/// Rows of the layer's input that belong to one example; an Error that names the layer if the examples do not divide
/// them.
std::int64_t rows_per_example(const LayerRecord& record, std::int64_t rows);

/// Throws in a backward pass with create_graph, which these functions do not support.
void refuse_second_derivative(const char* layer);

void add_to(at::Tensor& sum, const at::Tensor& value);

/// The xi of a pass, shaped like dz, [M, I] or [M, I, H', W']: an example's are those of its index in the large batch.
at::Tensor normals_like(const at::Tensor& dz, const LayerRecord& record);

/// Consecutive rows whose contributions are summed before squaring: those of an example, or of the request's group of
/// examples, which must divide the pass.
std::int64_t rows_per_group(const LayerRecord& record, std::int64_t rows);

/// The operands of all calls of a layer as those of one.
struct Operands {
  at::Tensor x, dz;
  std::int64_t rows_per_group;
};

/// Keeps the operands of one of several calls, [rows, ...] each. With the last call: those of all calls, the rows of an
/// example side by side. Their shapes must agree; a layer where they do not is refused by name.
std::optional<Operands> add_operands(const Call& call, const at::Tensor& x, const at::Tensor& dz);

/// Adds the squares of a layer whose contributions [rows, n] are at hand, with those of the layer's other calls.
void add_squares_of_rows(const Call& call, const at::Tensor& weight, const at::Tensor& bias);

/// Adds to the record the Gram matrix [M, M] and the fourth powers of vectors of `size` elements that `rows(begin,
/// end)` computes for a range of examples as [end - begin, size]: two blocks of examples at a time are in memory.
void add_gram_of_blocks(LayerRecord& record, std::int64_t examples, std::int64_t size,
                        const std::function<at::Tensor(std::int64_t, std::int64_t)>& rows);

/// The same for vectors [M, size] in memory.
void add_gram_of(LayerRecord& record, const at::Tensor& rows);

}  // namespace covnoise::recording
