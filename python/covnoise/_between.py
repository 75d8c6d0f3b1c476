"""The variance between backward passes, for modules that covnoise does not know."""
from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Callable, NamedTuple, Optional

import torch
from torch import Tensor, nn

from ._accumulation import on_accumulation

if TYPE_CHECKING:
    from .statistics import Statistics


class Pass(NamedTuple):
    mean: Tensor
    examples: int


class BetweenPasses:
    """diag = sum_k m_k (g_k - g)^2 / (K - 1) over the K backward passes of a step, g_k the mean gradient of pass k of
    m_k examples. A step of one pass is compared with the pass of the step before."""

    def __init__(self, names: list[str], parameter: nn.Parameter, statistics: Statistics) -> None:
        self.names, self.parameter, self.statistics = names, parameter, statistics
        self.passes = 0
        self.examples = 0
        self.total: Optional[Tensor] = None
        self.squares: Optional[Tensor] = None  # sum_k S_k^2 / m_k
        self.previous: Optional[Pass] = None
        self._end: Optional[Callable[[], None]] = None
        self.watch()

    def watch(self) -> None:
        """Sees the parameter's gradients, from the moment on that it has some."""
        if self._end is None and self.parameter.requires_grad:
            self._end = on_accumulation(self.parameter, self._see)

    def _see(self, gradient: Tensor) -> None:
        if self.statistics.recording_backward():
            self.statistics.backward_seen = True
            self.add(gradient, self.statistics.batch_size)

    def detach(self) -> None:
        if self._end is not None:
            self._end()

    def add(self, gradient: Tensor, examples: Optional[int]) -> None:
        if not examples:
            raise RuntimeError(f"covnoise: '{self.names[0]}' got a gradient, but no module that covnoise follows was called "
                               "with a tensor [M, ...]; attach to the module that gets the batch")
        sums = gradient.to_dense() if gradient.is_sparse else gradient
        sums = sums.to(torch.promote_types(sums.dtype, torch.float32))
        square = sums.square() / examples
        self.total = sums.clone() if self.total is None else self.total + sums
        self.squares = square if self.squares is None else self.squares + square
        self.passes += 1
        self.examples += examples

    def keep(self, weight: float) -> None:
        """The only pass of a step, for the next step; `weight` as for MeasuredBetween.diagonal."""
        if self.passes == 1 and self.total is not None:
            self.previous = Pass(self.total / weight, self.examples)

    def clear(self) -> None:
        self.passes = self.examples = 0
        self.total = self.squares = None

    def measured(self) -> MeasuredBetween:
        return MeasuredBetween(self)


class MeasuredBetween:
    """What BetweenPasses had at one moment."""

    def __init__(self, source: BetweenPasses) -> None:
        self.name = source.names[0]
        self.passes, self.examples = source.passes, source.examples
        zero = torch.zeros_like(source.parameter, dtype=torch.promote_types(source.parameter.dtype, torch.float32))
        self.total = zero if source.total is None else source.total
        self.squares = zero if source.squares is None else source.squares
        self.previous = source.previous

    def diagonal(self, weight: float) -> Tensor:
        """`weight` is c M, by which the summed gradient differs from the mean."""
        examples = max(self.examples, 1)
        if self.passes >= 2:
            variance = (self.squares - self.total.square() / examples).clamp_min(0)
            return variance * (examples / weight) ** 2 / (self.passes - 1)
        if self.passes == 1 and self.previous is not None:
            m, n = examples, self.previous.examples
            return (self.total / weight - self.previous.mean).square() * (m * n / (m + n))
        warnings.warn(f"covnoise: '{self.name}' has no diagonal before its second backward pass; it is 0 until then",
                      stacklevel=2)
        return torch.zeros_like(self.total)
