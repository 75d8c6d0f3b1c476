"""From the sums of some backward passes to the diagonal."""
from __future__ import annotations

from typing import TYPE_CHECKING, Optional

import torch
from torch import Tensor

from ._record import Recorded

if TYPE_CHECKING:
    from .statistics import Statistics


class Measurement:
    """The sums of some backward passes over M examples in G groups, whose contributions are c g_i; c = 1/M for a mean
    loss and 1 for a sum, times the GradScaler's scale. With moments = [sum_j S_j, sum_j S_j^2 / m_j]:

        g      = moments[0] / (c M)
        exact  = moments[1] / (c^2 M)
        ghost  = (moments[1] - moments[0]^2 / M) / (c^2 (G - 1))
    """

    def __init__(self, statistics: Statistics, only: Optional[set[int]] = None) -> None:
        self.estimator = statistics.estimator
        self.between = {each.names[0]: each.measured() for each in statistics.between
                        if only is None or id(each.parameter) in only}
        layers = [layer for layer in statistics.layers if layer.count.grad is not None
                  and (only is None or any(id(record.parameter) in only for record in layer.records()))]
        self.examples, self.groups = _counted(layers)
        self.examples = self.examples or max((each.examples for each in self.between.values()), default=0)
        self.scale = 1.0 / max(self.examples, 1) if statistics.loss == "mean" else 1.0
        if statistics.scaler is not None:
            self.scale *= statistics.scaler.get_scale()
        self.moments: dict[str, Tensor] = {}
        for record in statistics.recorded:
            if record.estimator == "micro" or not record.parameter.requires_grad:
                continue
            if only is None or id(record.parameter) in only:
                self.moments[record.names[0]] = record.collected()
        self._diagonal: Optional[dict[str, Tensor]] = None

    def complete(self) -> bool:
        """Whether it has a diagonal."""
        return self.estimator != "ghost" or not self.moments or self.groups > 1

    def diagonal(self) -> dict[str, Tensor]:
        if self._diagonal is None:
            self._diagonal = {name: self._of(moments) for name, moments in self.moments.items()}
            weight = self.scale * self.examples
            self._diagonal.update({name: each.diagonal(weight) for name, each in self.between.items()})
        return self._diagonal

    def _of(self, moments: Tensor) -> Tensor:
        if self.estimator == "exact":
            return moments[1] / (self.scale**2 * self.examples)
        if self.groups < 2:
            raise RuntimeError(f"covnoise: the ghost estimator needs at least two groups, and {self.examples} examples "
                               "are one; use a smaller group, a larger batch or more backward passes")
        variance = moments[1].clone()
        torch.ops.covnoise.group_variance(variance, moments[0].contiguous(), 1.0 / self.examples,
                                          1.0 / (self.scale**2 * (self.groups - 1)))
        return variance

    def mean(self) -> dict[str, Tensor]:
        factor = 1.0 / (self.scale * self.examples)
        return {name: total * factor for name, total in self._totals().items()}

    def _totals(self) -> dict[str, Tensor]:
        return {**{name: moments[0] for name, moments in self.moments.items()},
                **{name: each.total for name, each in self.between.items()}}

    def trace(self) -> Tensor:
        """The sum of the diagonal."""
        return _norms(list(self.diagonal().values()), 1).sum()

    def trace_and_square(self) -> Tensor:
        """Tr S of the covariance, and |G|^2 = |g|^2 - Tr S / M."""
        square = _norms(list(self._totals().values()), 2).square().sum() / (self.scale * self.examples)**2
        trace = self.trace()
        if self.estimator == "exact":  # F is not centred
            trace = (trace - square) * (self.examples / max(self.examples - 1, 1))
        return torch.stack((trace, square - trace / self.examples))


def _norms(values: list[Tensor], order: int) -> Tensor:
    """Of all tensors, in float64 on the first one's device."""
    return torch.stack([norm.double().to(values[0].device) for norm in torch._foreach_norm(values, order)])


def _counted(layers: list[Recorded]) -> tuple[int, int]:
    """Examples and groups that all layers agree on."""
    if not layers:
        return 0, 0
    device = layers[0].count.device
    counts = torch.stack([_count(layer).to(device) for layer in layers]).round().long().tolist()
    for layer, count in zip(layers, counts):
        if count != counts[0]:
            raise RuntimeError(f"covnoise: '{layers[0].name}' saw {counts[0][0]} examples and '{layer.name}' {count[0]}; a "
                               "module that is called several times, or on a batch folded with another dimension, must "
                               "run once without torch.compile so that covnoise notices")
    return counts[0][0], counts[0][1]


def _count(layer: Recorded) -> Tensor:
    assert layer.count.grad is not None
    return layer.count.grad
