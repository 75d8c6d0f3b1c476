"""Types of operands: what autocast asks for, and what the operators take."""
from __future__ import annotations

from typing import Callable, Optional

import torch
from torch import Tensor

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


def moments_by_operator(groups: Groups, parameter: Tensor,
                        gradient: Callable[[slice, Tensor, int], Tensor]) -> tuple[Tensor, Tensor]:
    """Gradient and moments [2, *sizes] by an operator: gradient(examples, squares, size) adds sum_j S_j^2 over the
    groups of `size` of these examples to `squares` and returns sum_j S_j."""
    moments = parameter.new_zeros((2, *parameter.shape), dtype=statistics_dtype(parameter))
    total: Optional[Tensor] = None
    for begin, end, size in ((0, groups.split, groups.size), (groups.split, groups.examples, groups.rest)):
        if begin == end:
            continue
        squares = torch.zeros_like(moments[1])
        part = gradient(slice(begin, end), squares, size).reshape(parameter.shape)
        moments[1].add_(squares, alpha=1.0 / size)
        total = part if total is None else total + part
    assert total is not None
    moments[0].copy_(total)
    return total, moments
