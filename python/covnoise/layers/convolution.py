"""Convolutions of one and two dimensions: S_j = sum over the group of sum_t dz_t a_t^T, t the output positions."""
from __future__ import annotations

from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .._delivery import delivery_of
from .._recorded import Recorded
from ._operands import bias_sums, lowered, of_type, operand


class ConvolutionFunction(torch.autograd.Function):
    """x [M, C, H, W], weight [O, C / groups, kh, kw]; geometry is stride, padding, dilation, groups."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Optional[Tensor], weight_leaf: Optional[Tensor],
                bias_leaf: Optional[Tensor], count: Tensor, stride: tuple[int, ...], padding: tuple[int, ...],
                dilation: tuple[int, ...], groups: int, *plan: Any) -> Tensor:
        kernel = of_type(two_dimensional(weight), x.dtype)
        ctx.save_for_backward(x, weight, bias, None if weight.dtype == x.dtype and weight.dim() == 4 else kernel)
        ctx.geometry = (stride, padding, dilation, groups)
        ctx.plan = plan
        return F.conv2d(x, kernel, of_type(bias, x.dtype), stride, padding, dilation, groups)

    @staticmethod
    def backward(ctx: Any, dz: Tensor) -> tuple[Optional[Tensor], ...]:
        x, weight, bias, converted = ctx.saved_tensors
        kernel = weight if converted is None else converted
        stride, padding, dilation, channel_groups = ctx.geometry
        delivery = delivery_of(ctx.plan)
        groups = delivery.groups
        needs_input, needs_weight, needs_bias = ctx.needs_input_grad[:3]

        def plain(d: Tensor, a: Tensor, mask: list[bool]) -> Any:
            return torch.ops.aten.convolution_backward(d, a, of_type(kernel, a.dtype), None, stride, padding, dilation,
                                                       False, [0, 0], channel_groups, mask)

        dx = plain(dz, x, [True, False, False])[0] if needs_input else None

        def moments(of_weight: bool, of_bias: bool) -> Any:
            return torch.ops.covnoise.conv2d_moments(x, dz, weight.shape, stride, padding, dilation, channel_groups,
                                                     groups.size, of_weight, of_bias)

        def sums() -> Tensor:
            a, d = operand(x), operand(dz)
            starts = range(0, groups.examples, groups.size)
            each = [plain(d[i:i + groups.size], a[i:i + groups.size], [False, True, False])[1] for i in starts]
            return torch.stack(each).reshape(-1, *weight.shape)

        parts = delivery.layer(weight if needs_weight else None, bias if needs_bias else None, moments, sums,
                               lambda: bias_sums(groups, dz, range(2, 4)))
        return (dx, *parts, *[None] * (4 + len(ctx.plan)))


def two_dimensional(x: Tensor) -> Tensor:
    """[., ., L] -> [., ., 1, L]."""
    return x.unsqueeze(2) if x.dim() == 3 else x


class RecordedConvolution(Recorded):
    """Conv1d and Conv2d with any stride, dilation, groups and padding mode."""

    def record(self, x: Tensor) -> Any:
        module = self.module
        dimensions = 1 if isinstance(module, nn.Conv1d) else 2
        if x.dim() != dimensions + 2:
            raise RuntimeError(f"covnoise: '{self.name}' got an input without a batch dimension, {list(x.shape)}")
        call = self.start(x)
        if call is None:
            return self.plain(x)
        stride, padding, dilation = module.stride, module.padding, module.dilation
        if isinstance(padding, str) or module.padding_mode != "zeros":
            mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
            x, padding = F.pad(x, module._reversed_padding_repeated_twice, mode=mode), (0,) * dimensions
        if dimensions == 1:
            stride, padding, dilation = (1, *stride), (0, *padding), (1, *dilation)
        y = ConvolutionFunction.apply(two_dimensional(lowered(x)), module.weight, module.bias, *call.leaves, stride,
                                      padding, dilation, module.groups, *call.plan)
        return y.squeeze(2) if dimensions == 1 else y
