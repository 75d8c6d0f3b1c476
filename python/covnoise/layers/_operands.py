"""Types of operands: what autocast asks for, and what the operators take."""
from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor

from .._groups import Groups
from .._record import statistics_dtype


BY_DEVICE = hasattr(torch, "get_autocast_dtype")  # since PyTorch 2.4


def autocast_dtype(x: Tensor) -> Optional[torch.dtype]:
    """The low precision of an active autocast region on x's device, or nothing."""
    kind = x.device.type
    if BY_DEVICE:
        return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
    if kind == "cpu":
        return torch.get_autocast_cpu_dtype() if torch.is_autocast_cpu_enabled() else None
    return torch.get_autocast_gpu_dtype() if torch.is_autocast_enabled() else None


def lowered(x: Tensor) -> Tensor:
    """As autocast gives x to a matrix product."""
    dtype = autocast_dtype(x)
    return x if dtype is None or x.dtype in (dtype, torch.float64) else x.to(dtype)


def widened(x: Tensor) -> Tensor:
    """As autocast gives x to a normalisation."""
    return x if autocast_dtype(x) is None or x.dtype == torch.float64 else x.float()


def operand(x: Tensor) -> Tensor:
    """In a type that the operators take: double, float, on a GPU bfloat16."""
    takes = x.dtype in (torch.float32, torch.float64) or (x.dtype == torch.bfloat16 and x.is_cuda)
    return x if takes else x.float()


def of_type(x: Optional[Tensor], dtype: torch.dtype) -> Optional[Tensor]:
    """x.to(dtype), without a call where x has it already."""
    return x if x is None or x.dtype == dtype else x.to(dtype)


def bias_sums(groups: Groups, dz: Tensor, positions: range) -> Tensor:
    """Each group's sum [G, K] of dz, which has the examples first and positions in these dimensions."""
    dtype = statistics_dtype(dz)
    rows = dz.sum(list(positions), dtype=dtype) if positions else dz.to(dtype)
    return groups.sums(rows).clone()  # never dz itself, which others may have
