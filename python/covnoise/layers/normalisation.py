"""Batch, layer and group normalisation: of y = weight xhat + bias, with sums over the positions of an example,

    contribution of example i to weight  sum_t dy xhat,    to bias  sum_t dy.
"""
from __future__ import annotations

import functools
from typing import Any, Optional

import torch
from torch import Tensor

from .._delivery import Delivery, delivery_of
from .._record import compiling, statistics_dtype
from .._recorded import Recorded
from ._operands import widened

Gradients = tuple[Optional[Tensor], ...]


def as_rows(values: Tensor) -> Tensor:
    """[M, C, ...] -> [M, P, C]; contiguous where `values` is channels-last."""
    return (values.unsqueeze(2) if values.dim() == 2 else values.flatten(2)).transpose(1, 2)


@functools.lru_cache(maxsize=64)
def number_on(device: torch.device, number: int) -> Tensor:
    """[1]; filled once, because each step would fill it again for every layer."""
    return torch.full((1,), number, dtype=torch.int32, device=device)


class Contributions:
    """Those of the rows dy, x [M, P, C] to weight and bias, for their leaves and gradients."""

    def __init__(self, delivery: Delivery, dy: Tensor, x: Tensor, mean: Tensor, rstd: Tensor) -> None:
        self.delivery = delivery
        self.sums, gradients, self.moments = torch.ops.covnoise.norm_group_sums(dy, x, mean, rstd, delivery.groups.size)
        self.dweight, self.dbias = gradients.unbind()

    def parts(self, weight: Optional[Tensor], bias: Optional[Tensor]) -> Gradients:
        """The gradients of weight, bias and of all leaves; nothing for a parameter that is not given."""
        given = weight if weight is not None else bias
        if given is None:
            return None, None, *self.delivery.leaves(None, None)
        sizes, dtype = given.shape, statistics_dtype(given)  # equal for both

        def moments(of_weight: bool, of_bias: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
            of = self.moments.reshape(2, 2, *sizes).to(dtype).unbind()
            return self.dweight.reshape(sizes), of[0], self.dbias.reshape(sizes), of[1]

        return self.delivery.layer(weight, bias, moments, lambda: self.sums[0].reshape(-1, *sizes),
                                   lambda: self.sums[1].reshape(-1, *sizes))


class BatchNormFunction(torch.autograd.Function):
    """With batch statistics (`training`) or with the given running ones. Returns y, and mean and 1/sqrt(var + eps)
    unless there is a momentum, with which the running ones are updated in place. `fused`: by the operator of ghost batch
    normalisation, for one ghost batch."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, weight_leaf: Optional[Tensor],
                bias_leaf: Optional[Tensor], count: Tensor, running_mean: Optional[Tensor],
                running_var: Optional[Tensor], training: bool, momentum: Optional[float], eps: float, fused: bool,
                *plan: Any) -> tuple[Tensor, Optional[Tensor], Optional[Tensor]]:
        if fused:
            images = x if x.dim() == 4 else as_rows(x).transpose(1, 2).unsqueeze(3)
            y, statistics = torch.ops.covnoise.ghost_batch_norm(images, None, weight, bias, running_mean, running_var,
                                                                x.shape[0], momentum, eps, False)
            y = y if x.dim() == 4 else torch.ops.aten._unsafe_view(y, x.shape)  # a view must not be changed in place
            mean, rstd = statistics[0, 0], statistics[1, 0]
        elif momentum is not None:
            y, mean, rstd = torch.native_batch_norm(x, weight, bias, running_mean, running_var, True, momentum, eps)
        elif training:
            y, mean, rstd = torch.native_batch_norm(x, weight, bias, None, None, True, 0.0, eps)
        else:
            assert running_mean is not None and running_var is not None
            y = torch.native_batch_norm(x, weight, bias, running_mean, running_var, False, 0.0, eps)[0]
            mean, rstd = running_mean.clone(), (running_var + eps).rsqrt()
        ctx.save_for_backward(x, weight, bias, mean, rstd)
        ctx.training, ctx.eps, ctx.plan = training, eps, plan
        if momentum is not None:
            return y, None, None
        ctx.mark_non_differentiable(mean, rstd)
        return y, mean, rstd

    @staticmethod
    def backward(ctx: Any, dy: Tensor, dmean: None, drstd: None) -> Gradients:
        x, weight, bias, mean, rstd = ctx.saved_tensors
        delivery = delivery_of(ctx.plan)
        rows, d_rows = as_rows(x), as_rows(dy)
        if not compiling() and rows.is_contiguous() and not d_rows.is_contiguous():
            d_rows = d_rows.contiguous()
            dy = d_rows.transpose(1, 2).reshape(x.shape)
        contributions = Contributions(delivery, d_rows, rows, mean.unsqueeze(0), rstd.unsqueeze(0))
        if not ctx.training:
            dx = (dy * (weight * rstd).reshape(1, -1, *[1] * (dy.dim() - 2))).to(dy.dtype)
        elif not compiling() and dy.is_cuda:  # the reductions are done already
            count = number_on(dy.device, dy.numel() // dy.shape[1])
            dx = torch.batch_norm_backward_elemt(dy, x, mean, rstd, weight, contributions.dbias,
                                                 contributions.dweight / rstd, count)
        else:
            dx = torch.ops.aten.native_batch_norm_backward(dy, x, weight, None, None, mean, rstd, True, ctx.eps,
                                                           [True, False, False])[0]
        parts = contributions.parts(weight if ctx.needs_input_grad[1] else None,
                                    bias if ctx.needs_input_grad[2] else None)
        others = [None] * (6 + len(ctx.plan))
        return (dx, *parts, *others)


def update_running(module: Any, mean: Tensor, rstd: Tensor, count: int) -> None:
    """As torch.nn.BatchNorm does, with the unbiased variance of `count` values per channel."""
    if not module.track_running_stats or module.running_mean is None:
        return
    with torch.no_grad():
        if module.num_batches_tracked is not None:
            module.num_batches_tracked.add_(1)
        factor = 1.0 / float(module.num_batches_tracked) if module.momentum is None else module.momentum
        variance = (rstd.double().pow(-2) - module.eps) * (count / (count - 1))
        module.running_mean.add_((mean - module.running_mean) * factor)
        module.running_var.add_((variance.to(rstd.dtype) - module.running_var) * factor)


class RecordedBatchNorm(Recorded):
    def record(self, x: Tensor) -> Any:
        module = self.module
        module._check_input_dim(x)
        count = x.numel() // x.shape[1]
        training = module.training or module.running_mean is None
        if training and count < 2:
            return self.plain(x)  # raises PyTorch's own error
        call = self.start(x)
        if call is None:
            return self.plain(x)
        updates = self.updates_in_place()
        y, mean, rstd = BatchNormFunction.apply(x, module.weight, module.bias, *call.leaves, module.running_mean,
                                                module.running_var, training, module.momentum if updates else None,
                                                module.eps, updates and self.fuses(x), *call.plan)
        if updates:
            module.num_batches_tracked.add_(1)
        elif module.training:
            update_running(module, mean, rstd, count)
        return y

    def updates_in_place(self) -> bool:
        """Whether the operator that normalises updates the running statistics, too, which torch.compile cannot follow."""
        module = self.module
        if not (module.training and module.track_running_stats) or compiling():
            return False
        return module.momentum is not None and module.num_batches_tracked is not None

    def fuses(self, x: Tensor) -> bool:
        """Whether our own operator normalises: on a GPU, channels-last."""
        if not x.is_cuda:
            return False
        module = self.module
        tensors = (module.weight, module.bias, module.running_mean, module.running_var)
        floats = all(tensor is not None and tensor.dtype == torch.float32 for tensor in tensors)
        return floats and x.dtype in (torch.float32, torch.bfloat16) and as_rows(x).is_contiguous()


class LayerNormFunction(torch.autograd.Function):
    """x [M, ..., *sizes]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Optional[Tensor], weight_leaf: Optional[Tensor],
                bias_leaf: Optional[Tensor], count: Tensor, sizes: list[int], eps: float, *plan: Any) -> Tensor:
        y, mean, rstd = torch.native_layer_norm(x, sizes, weight, bias, eps)
        ctx.save_for_backward(x, weight, bias, mean, rstd)
        ctx.sizes, ctx.plan = sizes, plan
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Gradients:
        x, weight, bias, mean, rstd = ctx.saved_tensors
        delivery = delivery_of(ctx.plan)
        x, dy = x.contiguous(), dy.contiguous()
        dx = torch.ops.aten.native_layer_norm_backward(dy, x, ctx.sizes, mean, rstd, weight, bias,
                                                       [True, False, False])[0]
        rows = (x.shape[0], -1, weight.numel())
        contributions = Contributions(delivery, dy.reshape(rows), x.reshape(rows), mean.reshape(-1, 1),
                                      rstd.reshape(-1, 1))
        parts = contributions.parts(weight if ctx.needs_input_grad[1] else None,
                                    bias if ctx.needs_input_grad[2] else None)
        others = [None] * (2 + len(ctx.plan))
        return (dx, *parts, *others)


class RecordedLayerNorm(Recorded):
    def record(self, x: Tensor) -> Any:
        module = self.module
        if x.dim() <= len(module.normalized_shape):
            raise RuntimeError(f"covnoise: '{self.name}' got an input without a batch dimension, {list(x.shape)}")
        call = self.start(x)
        if call is None:
            return self.plain(x)
        return LayerNormFunction.apply(widened(x), module.weight, module.bias, *call.leaves,
                                       list(module.normalized_shape), module.eps, *call.plan)


class GroupNormFunction(torch.autograd.Function):
    """x [M, C, ...]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, weight_leaf: Optional[Tensor],
                bias_leaf: Optional[Tensor], count: Tensor, channel_groups: int, eps: float, *plan: Any) -> Tensor:
        positions = x[0, 0].numel()
        y, mean, rstd = torch.native_group_norm(x, weight, bias, x.shape[0], x.shape[1], positions, channel_groups, eps)
        ctx.save_for_backward(x, weight, bias, mean, rstd)
        ctx.channel_groups, ctx.plan = channel_groups, plan
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Gradients:
        x, weight, bias, mean, rstd = ctx.saved_tensors
        delivery = delivery_of(ctx.plan)
        dy = dy.contiguous()
        dx = torch.ops.aten.native_group_norm_backward(dy, x, mean, rstd, weight, x.shape[0], x.shape[1],
                                                       x[0, 0].numel(), ctx.channel_groups, [True, False, False])[0]
        contributions = Contributions(delivery, as_rows(dy), as_rows(x), mean, rstd)
        parts = contributions.parts(weight if ctx.needs_input_grad[1] else None,
                                    bias if ctx.needs_input_grad[2] else None)
        others = [None] * (2 + len(ctx.plan))
        return (dx, *parts, *others)


class RecordedGroupNorm(Recorded):
    def record(self, x: Tensor) -> Any:
        call = self.start(x)
        if call is None:
            return self.plain(x)
        module = self.module
        return GroupNormFunction.apply(widened(x).contiguous(), module.weight, module.bias, *call.leaves,
                                       module.num_groups, module.eps, *call.plan)
