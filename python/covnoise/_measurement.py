"""From the sums of some backward passes to the diagonal."""
from __future__ import annotations

from typing import TYPE_CHECKING, Optional

import torch
from torch import Tensor

from ._recorded import Recorded

if TYPE_CHECKING:
    from .statistics import Statistics


class Measurement:
    """The sums of some backward passes over M examples in G groups, whose contributions are c g_i; c = 1/M for a mean
    loss and 1 for a sum, times the GradScaler's scale. With moments = [sum_j S_j, sum_j (m / m_j) S_j^2]:

        g      = moments[0] / (c M)
        exact  = moments[1] / (c^2 M)                                      where m = 1
        ghost  = (moments[1] / m - moments[0]^2 / M) / (c^2 (G - 1))
    """

    def __init__(self, statistics: Statistics, only: Optional[set[int]] = None) -> None:
        self.estimator, self.group = statistics.estimator, statistics.group
        self.between = {each.names[0]: each.measured() for each in statistics.between
                        if each.parameter.requires_grad and (only is None or id(each.parameter) in only)}
        layers = [layer for layer in statistics.layers if layer.has_counted() and (only is None or layer.uses(only))]
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
        self._kinds: Optional[list[dict[str, Tensor]]] = None
        self._diagonal: Optional[dict[str, Tensor]] = None
        self._between: Optional[dict[str, Tensor]] = None

    def complete(self) -> bool:
        """Whether it has a diagonal."""
        return self.estimator != "ghost" or not self.moments or self.groups > 1

    def by_kind(self) -> list[dict[str, Tensor]]:
        """The moments of one device and type together."""
        if self._kinds is None:
            kinds: dict[tuple[torch.device, torch.dtype], dict[str, Tensor]] = {}
            for name, value in self.moments.items():
                kinds.setdefault((value.device, value.dtype), {})[name] = value
            self._kinds = list(kinds.values())
        return self._kinds

    def weights(self) -> tuple[float, float]:
        """a and b of diagonal = b max(moments[1] - a moments[0]^2, 0)."""
        if self.estimator == "exact":
            return 0.0, 1.0 / (self.scale**2 * self.examples)
        if self.groups < 2:
            raise RuntimeError(f"covnoise: the ghost estimator needs at least two groups, and {self.examples} examples "
                               "are one; use a smaller group, a larger batch, more backward passes or, for the last batch "
                               "of an epoch, drop_last=True in the DataLoader")
        return self.group / self.examples, 1.0 / (self.group * self.scale**2 * (self.groups - 1))

    def diagonal(self) -> dict[str, Tensor]:
        if self._diagonal is None:
            weights = self.weights() if self.moments else (0.0, 1.0)
            self._diagonal = {name: _variance(moments, *weights) for name, moments in self.moments.items()}
            self._diagonal.update(self.diagonal_between())
        return self._diagonal

    def diagonal_between(self) -> dict[str, Tensor]:
        """Of the parameters that are measured between backward passes."""
        if self._between is None:
            weight = self.scale * self.examples
            self._between = {name: each.diagonal(weight) for name, each in self.between.items()}
        return self._between

    def mean(self) -> dict[str, Tensor]:
        factor = 1.0 / (self.scale * self.examples)
        totals = {**{name: moments[0] for name, moments in self.moments.items()},
                  **{name: each.total for name, each in self.between.items()}}
        return {name: total * factor for name, total in totals.items()}

    def trace(self) -> Tensor:
        """The sum of the diagonal, from sums of the moments: elements that rounding made negative count as such."""
        return self._combined((1.0, 0.0))[0]

    def trace_and_square(self) -> Tensor:
        """Tr S of the covariance, and |G|^2 = |g|^2 - Tr S / M."""
        m = self.examples
        centred = m / max(m - 1, 1)
        trace = (centred, -centred) if self.estimator == "exact" else (1.0, 0.0)  # F is not centred
        return self._combined(trace, (-trace[0] / m, 1.0 - trace[1] / m))

    def _combined(self, *factors: tuple[float, float]) -> Tensor:
        """x Tr + y |g|^2 for each (x, y), Tr the sum of the diagonal."""
        of_mean = 1.0 / (self.scale * self.examples)**2
        terms = []
        if self.moments:
            a, b = self.weights()
            weights = [weight for x, y in factors for weight in (x * b, y * of_mean - x * a * b)]
            terms += [torch.ops.covnoise.moment_totals(list(each.values()), weights) for each in self.by_kind()]
        if self.between:
            trace = _norms(list(self.diagonal_between().values()), 1).sum()
            square = _norms([each.total for each in self.between.values()], 2).square().sum() * of_mean
            terms.append(torch.stack([x * trace + y * square for x, y in factors]))
        total = terms[0]
        for other in terms[1:]:
            total = total + other.to(total.device)
        return total


def _variance(moments: Tensor, a: float, b: float) -> Tensor:
    """b max(moments[1] - a moments[0]^2, 0)."""
    result = moments[1].clone()
    torch.ops.covnoise.group_variance(result, moments[0], a, b)
    return result


def _norms(values: list[Tensor], order: int) -> Tensor:
    """Of all tensors, in float64 on the first one's device."""
    return torch.stack([norm.double().to(values[0].device) for norm in torch._foreach_norm(values, order)])


def _counted(layers: list[Recorded]) -> tuple[int, int]:
    """Examples and groups that all layers agree on."""
    if not layers:
        return 0, 0
    counts = [(layer.examples, layer.groups) for layer in layers]
    for layer, count in zip(layers, counts):
        if layer.refusal:
            raise RuntimeError(layer.refusal)
        if count != counts[0]:
            raise RuntimeError(f"covnoise: '{layers[0].name}' saw {counts[0][0]} examples and '{layer.name}' {count[0]}; "
                               "a module that is called several times, or on a batch folded with another dimension, must "
                               "run once without torch.compile so that covnoise notices")
    return counts[0]
