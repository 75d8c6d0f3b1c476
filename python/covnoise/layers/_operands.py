"""Types of operands: what autocast asks for, and what the operators take."""
from __future__ import annotations

from typing import Callable, Optional

import torch
from torch import Tensor

from .._delivery import Delivery
from .._groups import Groups
from .._record import statistics_dtype


def autocast_dtype(x: Tensor) -> Optional[torch.dtype]:
    """The low precision of an active autocast region on x's device, or nothing."""
    kind = x.device.type
    if hasattr(torch, "get_autocast_dtype"):
        return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
    if kind == "cpu":
        return torch.get_autocast_cpu_dtype() if torch.is_autocast_cpu_enabled() else None
    return torch.get_autocast_gpu_dtype() if torch.is_autocast_enabled() else None


def lowered(x: Tensor) -> Tensor:
    """As autocast gives x to a matrix product."""
    dtype = autocast_dtype(x)
    return x if dtype is None or x.dtype == torch.float64 else x.to(dtype)


def widened(x: Tensor) -> Tensor:
    """As autocast gives x to a normalisation."""
    return x if autocast_dtype(x) is None or x.dtype == torch.float64 else x.float()


def operand(x: Tensor) -> Tensor:
    """In a type that the operators take: double, float, on a GPU bfloat16."""
    takes = x.dtype in (torch.float32, torch.float64) or (x.dtype == torch.bfloat16 and x.is_cuda)
    return x if takes else x.float()


def part_of(x: Tensor, rows: slice) -> Tensor:
    return x if rows.stop - rows.start == x.shape[0] else x[rows]


def moments_by_operator(groups: Groups, parameter: Tensor,
                        gradient: Callable[[slice, Tensor, int], Tensor]) -> tuple[Tensor, Tensor]:
    """Gradient and moments [2, *sizes] by an operator: gradient(examples, squares, size) adds sum_j S_j^2 over the
    groups of `size` of these examples to `squares` and returns sum_j S_j."""
    moments = parameter.new_empty((2, *parameter.shape), dtype=statistics_dtype(parameter))
    sums, squares = moments[0], moments[1]
    squares.zero_()
    total: Optional[Tensor] = None
    for examples, size in groups.parts():
        own = squares if total is None else torch.zeros_like(squares)
        part = gradient(examples, own, size)
        if part.dim() != parameter.dim():  # of a Conv1d, or of a linear layer as a 1x1 convolution
            part = part.reshape(parameter.shape)
        if size > 1:
            own.div_(size)
        if total is not None:
            squares.add_(own)
        total = part if total is None else total + part
    assert total is not None
    sums.copy_(total)
    return total, moments


def bias_by_operator(delivery: Delivery, bias: Tensor, dz: Tensor) -> tuple[Tensor, Optional[Tensor]]:
    """Gradient and statistics of a bias from dz [M, K] or [M, K, H, W]."""
    groups, d = delivery.groups, operand(dz)

    def gradient(examples: slice, squares: Tensor, size: int) -> Tensor:
        return torch.ops.covnoise.bias_gradient_squares(part_of(d, examples), squares, size, False)

    def sums() -> Tensor:
        rows = dz if dz.dim() == 2 else dz.sum((2, 3), dtype=statistics_dtype(dz))
        return groups.sums(rows.to(statistics_dtype(bias))).clone()  # never dz itself, which others may have

    return delivery.bias(bias, lambda: moments_by_operator(groups, bias, gradient), sums)
