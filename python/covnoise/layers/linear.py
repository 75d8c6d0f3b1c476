"""Linear layers on [M, K] and, with positions t, on [M, ..., K]: S_j = sum over the group of sum_t dz a^T."""
from __future__ import annotations

from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from .._delivery import delivery_of
from .._record import compiling
from .._recorded import Recorded
from ._operands import bias_sums, lowered, of_type, operand


class LinearFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Optional[Tensor], weight_leaf: Optional[Tensor],
                bias_leaf: Optional[Tensor], count: Tensor, *plan: Any) -> Tensor:
        matrix = of_type(weight, x.dtype)
        ctx.save_for_backward(x, weight, bias, None if weight.dtype == x.dtype else matrix)
        ctx.plan = plan
        y = F.linear(x, matrix, of_type(bias, x.dtype))
        if compiling() or not y._is_view():
            return y
        return torch.ops.aten._unsafe_view(y, y.shape)  # a view must not be changed in place

    @staticmethod
    def backward(ctx: Any, dz: Tensor) -> tuple[Optional[Tensor], ...]:
        x, weight, bias, converted = ctx.saved_tensors
        delivery = delivery_of(ctx.plan)
        groups = delivery.groups
        needs_input, needs_weight, needs_bias = ctx.needs_input_grad[:3]
        dx = None
        if needs_input:
            matrix = weight if converted is None else converted
            dx = dz.mm(matrix) if dz.dim() == 2 else dz.flatten(0, -2).mm(matrix).reshape(x.shape)

        def moments(of_weight: bool, of_bias: bool) -> Any:
            return torch.ops.covnoise.linear_moments(x, dz, groups.size, of_weight, of_bias)

        def sums() -> Tensor:
            """By a product for each size of groups."""
            d, a = (operand(value).reshape(groups.examples, -1, value.shape[-1]) for value in (dz, x))
            parts = []
            for examples, size in groups.parts():
                d_rows, a_rows = (value[examples].reshape(-1, size * value.shape[1], value.shape[2]) for value in (d, a))
                parts.append(torch.bmm(d_rows.transpose(1, 2), a_rows))
            return torch.cat(parts)

        parts = delivery.layer(weight if needs_weight else None, bias if needs_bias else None, moments, sums,
                               lambda: bias_sums(groups, dz, range(1, dz.dim() - 1)))
        return (dx, *parts, *[None] * len(ctx.plan))


class RecordedLinear(Recorded):
    def record(self, x: Tensor) -> Any:
        if x.dim() < 2:
            raise RuntimeError(f"covnoise: '{self.name}' got an input without a batch dimension, {list(x.shape)}")
        call = self.start(x)
        if call is None:
            return self.plain(x)
        return LinearFunction.apply(lowered(x), self.module.weight, self.module.bias, *call.leaves, *call.plan)
