"""Batch, layer and group normalisation: of y = weight xhat + bias, with sums over the positions of an example,

    contribution of example i to weight  sum_t dy xhat,    to bias  sum_t dy.
"""
from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor

from .._record import Delivery, Recorded
from ._operands import widened

Gradients = tuple[Optional[Tensor], ...]


def over_positions(values: Tensor) -> Tensor:
    """[M, C, ...] -> [M, C], in float32 at least."""
    dtype = torch.promote_types(values.dtype, torch.float32)
    return values.to(dtype) if values.dim() == 2 else values.flatten(2).sum(2, dtype=dtype)


def channels_of(values: Tensor, like: Tensor) -> Tensor:
    """[C] -> [1, C, 1, ...]."""
    return values.reshape(1, -1, *[1] * (like.dim() - 2))


class BatchNormFunction(torch.autograd.Function):
    """With batch statistics (`training`) or with the given running ones. Returns y, mean and 1/sqrt(var + eps)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, weight_leaf: Optional[Tensor],
                bias_leaf: Optional[Tensor], count: Tensor, running_mean: Optional[Tensor],
                running_var: Optional[Tensor], training: bool, eps: float, *plan: Any) -> tuple[Tensor, Tensor, Tensor]:
        if training:
            y, mean, rstd = torch.native_batch_norm(x, weight, bias, None, None, True, 0.0, eps)
            ctx.save_for_backward(x, weight, bias, mean, rstd)
        else:
            assert running_mean is not None and running_var is not None
            y = torch.native_batch_norm(x, weight, bias, running_mean, running_var, False, 0.0, eps)[0]
            mean, rstd = running_mean.clone(), (running_var + eps).rsqrt()
            ctx.save_for_backward(x, weight, bias, mean, rstd, running_var.clone())
        ctx.training, ctx.eps, ctx.plan = training, eps, plan
        ctx.mark_non_differentiable(mean, rstd)
        return y, mean, rstd

    @staticmethod
    def backward(ctx: Any, dy: Tensor, *_: Any) -> Gradients:
        x, weight, bias, mean, rstd, *running_var = ctx.saved_tensors
        delivery = Delivery(ctx.plan)
        statistics = (None, None, mean, rstd) if ctx.training else (mean, *running_var, None, None)
        dx, dweight, dbias = torch.ops.aten.native_batch_norm_backward(dy, x, weight, *statistics, ctx.training, ctx.eps,
                                                                       [True, True, True])
        of_bias = over_positions(dy)
        of_weight = (over_positions(dy * x) - mean * of_bias) * rstd
        weight_part = delivery.rows(weight, of_weight, dweight) if ctx.needs_input_grad[1] else (None, None)
        bias_part = delivery.rows(bias, of_bias, dbias, of_bias=True) if ctx.needs_input_grad[2] else (None, None)
        others = [None] * (4 + len(ctx.plan))
        return (dx, weight_part[0], bias_part[0], weight_part[1], bias_part[1], delivery.counts(dy), *others)


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
        y, mean, rstd = BatchNormFunction.apply(x, module.weight, module.bias, *call.leaves(), module.running_mean,
                                                module.running_var, training, module.eps, *call.plan())
        if module.training:
            update_running(module, mean, rstd, count)
        return y


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
        delivery = Delivery(ctx.plan)
        dx, dweight, dbias = torch.ops.aten.native_layer_norm_backward(
            dy.contiguous(), x, ctx.sizes, mean, rstd, weight, bias, [True, True, bias is not None])
        rows = (x.shape[0], -1, *ctx.sizes)
        weight_part = bias_part = (None, None)
        if ctx.needs_input_grad[1]:
            weight_part = delivery.rows(weight, (dy * (x - mean) * rstd).reshape(rows).sum(1), dweight)
        if bias is not None and ctx.needs_input_grad[2]:
            bias_part = delivery.rows(bias, dy.reshape(rows).sum(1), dbias, of_bias=True)
        others = [None] * (2 + len(ctx.plan))
        return (dx, weight_part[0], bias_part[0], weight_part[1], bias_part[1], delivery.counts(dy), *others)


class RecordedLayerNorm(Recorded):
    def record(self, x: Tensor) -> Any:
        module = self.module
        if x.dim() <= len(module.normalized_shape):
            raise RuntimeError(f"covnoise: '{self.name}' got an input without a batch dimension, {list(x.shape)}")
        call = self.start(x)
        if call is None:
            return self.plain(x)
        return LayerNormFunction.apply(widened(x), module.weight, module.bias, *call.leaves(),
                                       list(module.normalized_shape), module.eps, *call.plan())


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
        delivery = Delivery(ctx.plan)
        channels = x.shape[1]
        dx, dweight, dbias = torch.ops.aten.native_group_norm_backward(
            dy.contiguous(), x, mean, rstd, weight, x.shape[0], channels, x[0, 0].numel(), ctx.channel_groups,
            [True, True, True])
        repeats = channels // ctx.channel_groups
        of_bias = over_positions(dy)
        of_weight = (over_positions(dy * x) - mean.repeat_interleave(repeats, 1) * of_bias) \
            * rstd.repeat_interleave(repeats, 1)
        weight_part = delivery.rows(weight, of_weight, dweight) if ctx.needs_input_grad[1] else (None, None)
        bias_part = delivery.rows(bias, of_bias, dbias, of_bias=True) if ctx.needs_input_grad[2] else (None, None)
        others = [None] * (2 + len(ctx.plan))
        return (dx, weight_part[0], bias_part[0], weight_part[1], bias_part[1], delivery.counts(dy), *others)


class RecordedGroupNorm(Recorded):
    def record(self, x: Tensor) -> Any:
        call = self.start(x)
        if call is None:
            return self.plain(x)
        module = self.module
        return GroupNormFunction.apply(widened(x).contiguous(), module.weight, module.bias, *call.leaves(),
                                       module.num_groups, module.eps, *call.plan())
