"""Covariance structures of the noise, one class each: samples s C^(1/2) xi by parameter."""
from __future__ import annotations

from typing import TYPE_CHECKING, Optional, Sequence

import torch
from torch import Tensor

from . import _philox

if TYPE_CHECKING:
    from ._measurement import Measurement
    from .optim import Noisy


class Draw:
    """The noise of one step, of a shard of its batch: which numbers, how strong. Without `measurement` the structure
    must not need one."""

    def __init__(self, optimizer: Noisy, measurement: Optional[Measurement], share: float = 1.0, shard: int = 0,
                 examples: int = 0) -> None:
        self.optimizer = optimizer
        self.measurement = measurement
        self.root_of_share = share**0.5
        self.shard = shard
        self.examples = examples or (measurement.examples if measurement else 0)
        self.offsets = optimizer.offsets()
        self.names = optimizer.names()

    def wanted(self, chosen: Optional[set[int]]) -> list[tuple[Tensor, float]]:
        """(parameter, s sqrt(share)) of the parameters that get noise."""
        result = []
        for group in self.optimizer.param_groups:
            scale = self.optimizer.noise_scale(self.examples, group) * self.root_of_share
            result += [(parameter, scale) for parameter in group["params"]
                       if scale != 0 and parameter.requires_grad and (chosen is None or id(parameter) in chosen)]
        return result

    def diagonal(self) -> dict[str, Tensor]:
        assert self.measurement is not None
        return self.measurement.diagonal()

    def _stream(self) -> tuple[int, int, int]:
        return self.optimizer.seed, _philox.purpose(_philox.NOISE, self.shard), self.optimizer.steps

    def normals(self, parameter: Tensor, like: Tensor) -> Tensor:
        return _philox.normals(like, *self._stream(), self.offsets[id(parameter)])

    def of_variances(self, wanted: list[tuple[Tensor, float]], variances: list[Tensor]) -> dict[int, Tensor]:
        """s sqrt(variance) xi."""
        return scaled(wanted, [_philox.normals_of_variance(variance, *self._stream(), self.offsets[id(parameter)])
                               for (parameter, _), variance in zip(wanted, variances)])

    def of_moments(self, wanted: list[tuple[Tensor, float]]) -> dict[int, Tensor]:
        """s sqrt(diagonal) xi for the parameters that the measurement has moments of, by one call for all of a device
        and type."""
        assert self.measurement is not None
        result: dict[int, Tensor] = {}
        for moments in self.measurement.by_kind():
            of_kind = [each for each in wanted if self.names[id(each[0])] in moments]
            if not of_kind:
                continue
            parameters = [parameter for parameter, _ in of_kind]
            keys = list(map(id, parameters))
            samples = torch.ops.covnoise.sample_diagonal(
                [moments[self.names[key]] for key in keys], parameters, *self.measurement.weights(),
                [scale for _, scale in of_kind], *self._stream(), [self.offsets[key] // _philox.BLOCK for key in keys])
            result.update(zip(keys, samples))
        return result


def scaled(wanted: list[tuple[Tensor, float]], samples: list[Tensor], factor: float = 1.0) -> dict[int, Tensor]:
    """The samples times their scales, by id of the parameter."""
    if samples:
        torch._foreach_mul_(samples, [scale * factor for _, scale in wanted])
    return {id(parameter): sample for (parameter, _), sample in zip(wanted, samples)}


class Structure:
    """One covariance C. `sample` gives s C^(1/2) xi by id of the parameter."""

    name = ""
    needs_statistics = False
    scaled_by_batch = True       # whether s applies; otherwise sigma is the strength
    of_examples = False          # whether C is a mean over the examples, which differ from rank to rank
    adds_up_over_shards = False  # whether samples of shards, parameter by parameter, add up to one of the batch

    def __init__(self, sigma: float) -> None:
        self.sigma = sigma

    def sample(self, draw: Draw, chosen: Optional[set[int]]) -> dict[int, Tensor]:
        return {}

    def add(self, parameters: Sequence[Tensor], gradients: Sequence[Optional[Tensor]], examples: int) -> None:
        """Of structures that are drawn by a backward pass."""

    def reset(self) -> None:
        """After each step."""

    def local_examples(self) -> int:
        """Of this process, that a draw by a backward pass has seen."""
        return 0


class NoNoise(Structure):
    """C = 0."""

    name = "none"


class DiagonalFisher(Structure):
    """C = diag(F), equation 6 and algorithm 1 of the paper; the diagonal is the statistics'."""

    name = "diag-fisher"
    needs_statistics = of_examples = adds_up_over_shards = True

    def sample(self, draw: Draw, chosen: Optional[set[int]]) -> dict[int, Tensor]:
        wanted = draw.wanted(chosen)
        if not wanted:
            return {}
        assert draw.measurement is not None
        between = draw.measurement.diagonal_between()
        others = [each for each in wanted if draw.names[id(each[0])] in between] if between else []
        with torch.no_grad():
            return {**draw.of_moments(wanted),
                    **draw.of_variances(others, [between[draw.names[id(parameter)]] for parameter, _ in others])}


class FisherTrace(Structure):
    """C = (Tr F / d) I: the diagonal's total variance without its structure (section 5.4 of the paper)."""

    name = "fisher-trace"
    needs_statistics = of_examples = True

    def sample(self, draw: Draw, chosen: Optional[set[int]]) -> dict[int, Tensor]:
        wanted = draw.wanted(chosen)
        if not wanted:
            return {}
        assert draw.measurement is not None
        diagonal = draw.diagonal()
        mean = float(draw.measurement.trace()) / sum(value.numel() for value in diagonal.values())
        return scaled(wanted, [draw.normals(parameter, diagonal[draw.names[id(parameter)]]) for parameter, _ in wanted],
                      max(mean, 0.0)**0.5)  # rounding may make that of equal examples negative


class FullFisher(Structure):
    """C = F = (1/M) sum_i g_i g_i^T, equation 5: the draw is (1/sqrt M) sum_i sigma_i g_i, sigma_i = +-1."""

    name = "full-fisher"
    of_examples = adds_up_over_shards = True

    def __init__(self, sigma: float) -> None:
        super().__init__(sigma)
        self.reset()

    def reset(self) -> None:
        self.sums: dict[int, Tensor] = {}
        self.examples = 0

    def local_examples(self) -> int:
        return self.examples

    def add(self, parameters: Sequence[Tensor], gradients: Sequence[Optional[Tensor]], examples: int) -> None:
        self.examples += examples
        for parameter, gradient in zip(parameters, gradients):
            if gradient is not None:
                old = self.sums.get(id(parameter))
                self.sums[id(parameter)] = gradient if old is None else old + gradient

    def sample(self, draw: Draw, chosen: Optional[set[int]]) -> dict[int, Tensor]:
        if self.examples == 0:
            raise RuntimeError("covnoise: full-fisher noise is drawn by a backward pass of its own; call opt.draw("
                               "losses) before loss.backward()")
        draw.examples = draw.examples or self.examples
        return {id(parameter): self.sums[id(parameter)] * (scale / self.examples**0.5)
                for parameter, scale in draw.wanted(chosen) if id(parameter) in self.sums}


class Isotropic(Structure):
    """C = sigma^2 I."""

    name = "isotropic"
    scaled_by_batch = False

    def sample(self, draw: Draw, chosen: Optional[set[int]]) -> dict[int, Tensor]:
        return {id(parameter): draw.normals(parameter, parameter).mul_(scale * self.sigma)
                for parameter, scale in draw.wanted(chosen)}


class Multiplicative(Structure):
    """C = sigma^2 diag(g)^2: the gradient becomes g (1 + sigma xi) (appendix A.8)."""

    name = "multiplicative"
    scaled_by_batch = False

    def sample(self, draw: Draw, chosen: Optional[set[int]]) -> dict[int, Tensor]:
        return {id(parameter): draw.normals(parameter, parameter.grad).mul_(parameter.grad).mul_(scale * self.sigma)
                for parameter, scale in draw.wanted(chosen) if parameter.grad is not None}


STRUCTURES: dict[str, type[Structure]] = {
    structure.name: structure
    for structure in (NoNoise, DiagonalFisher, FullFisher, FisherTrace, Isotropic, Multiplicative)
}
