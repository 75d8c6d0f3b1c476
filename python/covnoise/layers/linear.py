"""Linear layers on [M, K] and, with positions t, on [M, ..., K]: S_j = sum over the group of sum_t dz a^T."""
from __future__ import annotations

from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from .._record import Delivery, Recorded
from ._operands import lowered, moments_by_operator, operand


def rows_of(x: Tensor) -> Tensor:
    """[M, ..., K] -> [M T, K]."""
    return x.reshape(-1, x.shape[-1]).contiguous()


class LinearFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Optional[Tensor], weight_leaf: Optional[Tensor],
                bias_leaf: Optional[Tensor], count: Tensor, *plan: Any) -> Tensor:
        ctx.save_for_backward(x, weight, bias)
        ctx.plan = plan
        return F.linear(x, weight.to(x.dtype), None if bias is None else bias.to(x.dtype))

    @staticmethod
    def backward(ctx: Any, dz: Tensor) -> tuple[Optional[Tensor], ...]:
        x, weight, bias = ctx.saved_tensors
        delivery = Delivery(ctx.plan)
        groups = delivery.groups
        positions = x[..., 0].numel() // x.shape[0]
        dx = dz.matmul(weight.to(dz.dtype)) if ctx.needs_input_grad[0] else None
        dweight = weight_statistics = dbias = bias_statistics = None
        if ctx.needs_input_grad[1]:
            a, d = rows_of(operand(x)), rows_of(operand(dz))

            def gradient(examples: slice, squares: Tensor, size: int) -> Tensor:
                rows = slice(examples.start * positions, examples.stop * positions)
                return torch.ops.covnoise.linear_weight_gradient_squares(a[rows], d[rows], squares, size * positions)

            def sums() -> Tensor:
                examples = groups.examples
                whole = groups.split
                parts = []
                for first, last, size in ((0, whole, groups.size), (whole, examples, groups.rest)):
                    if first < last:
                        rows = slice(first * positions, last * positions)
                        shape = ((last - first) // size, size * positions, -1)
                        parts.append(torch.bmm(d[rows].reshape(shape).transpose(1, 2), a[rows].reshape(shape)))
                return torch.cat(parts)

            dweight, weight_statistics = delivery.weight(weight, lambda: moments_by_operator(groups, weight, gradient),
                                                         sums)
        if bias is not None and ctx.needs_input_grad[2]:
            rows = dz.reshape(dz.shape[0], positions, -1).sum(1, dtype=bias_dtype(dz))
            dbias, bias_statistics = delivery.rows(bias, rows, of_bias=True)
        return (dx, dweight, dbias, weight_statistics, bias_statistics, delivery.counts(dz), *[None] * len(ctx.plan))


def bias_dtype(dz: Tensor) -> torch.dtype:
    return torch.promote_types(dz.dtype, torch.float32)


class RecordedLinear(Recorded):
    def record(self, x: Tensor) -> Any:
        if x.dim() < 2:
            raise RuntimeError(f"covnoise: '{self.name}' got an input without a batch dimension, {list(x.shape)}")
        call = self.start(x)
        if call is None:
            return self.plain(x)
        return LinearFunction.apply(lowered(x), self.module.weight, self.module.bias, *call.leaves(), *call.plan())
