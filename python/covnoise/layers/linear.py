"""Linear layers on [M, K] and, with positions t, on [M, ..., K]: S_j = sum over the group of sum_t dz a^T."""
from __future__ import annotations

from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from .._delivery import Delivery
from .._recorded import Recorded
from ._operands import bias_by_operator, lowered, moments_by_operator, operand, part_of


def rows_of(x: Tensor) -> Tensor:
    """[M, ..., K] -> [M T, K]."""
    return (x if x.dim() == 2 else x.reshape(-1, x.shape[-1])).contiguous()


def as_pixels(rows: Tensor, positions: int) -> Tensor:
    """[M T, K] -> [M, K, T, 1] with channels last: a linear layer over positions is a 1x1 convolution."""
    return rows.reshape(-1, positions, rows.shape[1]).transpose(1, 2).unsqueeze(3)


class LinearFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Optional[Tensor], weight_leaf: Optional[Tensor],
                bias_leaf: Optional[Tensor], count: Tensor, *plan: Any) -> Tensor:
        matrix = weight.to(x.dtype)
        ctx.save_for_backward(x, weight, bias, matrix)
        ctx.plan = plan
        return F.linear(x, matrix, None if bias is None else bias.to(x.dtype))

    @staticmethod
    def backward(ctx: Any, dz: Tensor) -> tuple[Optional[Tensor], ...]:
        x, weight, bias, matrix = ctx.saved_tensors
        delivery = Delivery(ctx.plan)
        groups = delivery.groups
        positions = x.numel() // (x.shape[0] * x.shape[-1])
        rows_of_dz = rows_of(dz)
        dx = rows_of_dz.mm(matrix).reshape(x.shape) if ctx.needs_input_grad[0] else None
        dweight = weight_statistics = dbias = bias_statistics = None
        if ctx.needs_input_grad[1]:
            a, d = rows_of(operand(x)), operand(rows_of_dz)

            def gradient(examples: slice, squares: Tensor, size: int) -> Tensor:
                rows = slice(examples.start * positions, examples.stop * positions)
                if size == 1 and positions > 1 and x.is_cuda:  # squares in registers instead of gradients in memory
                    pixels = (as_pixels(part_of(value, rows), positions) for value in (a, d))
                    return torch.ops.covnoise.conv2d_weight_gradient_squares(*pixels, squares, [*weight.shape, 1, 1],
                                                                             [1], [0], [1], 1, 1, False)
                return torch.ops.covnoise.linear_weight_gradient_squares(part_of(a, rows), part_of(d, rows), squares,
                                                                         size * positions)

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
            pixels = rows_of_dz if positions == 1 else as_pixels(rows_of_dz, positions)
            dbias, bias_statistics = bias_by_operator(delivery, bias, pixels)
        return (dx, dweight, dbias, weight_statistics, bias_statistics, delivery.counts(dz), *[None] * len(ctx.plan))


class RecordedLinear(Recorded):
    def record(self, x: Tensor) -> Any:
        if x.dim() < 2:
            raise RuntimeError(f"covnoise: '{self.name}' got an input without a batch dimension, {list(x.shape)}")
        call = self.start(x)
        if call is None:
            return self.plain(x)
        return LinearFunction.apply(lowered(x), self.module.weight, self.module.bias, *call.leaves(), *call.plan())
