"""Noise around any optimizer."""
from __future__ import annotations

import inspect
import warnings
import weakref
from typing import Any, Callable, Optional, Union

import torch
import torch.distributed as dist
from torch import Tensor

from . import _philox
from ._checks import check_factor, check_whole
from ._measurement import Measurement
from ._structures import STRUCTURES, Draw, Structure
from .statistics import NotMeasured, Statistics

PLACEMENTS = ("update", "gradient")


def add(parameters: list[Tensor], targets: list[Tensor], noise: dict[int, Tensor], factor: float) -> None:
    """targets += factor noise, for the parameters that have noise."""
    chosen = [(target, noise[id(parameter)]) for parameter, target in zip(parameters, targets) if id(parameter) in noise]
    if chosen:
        torch._foreach_add_([target for target, _ in chosen], [value if value.dtype == target.dtype
                            else value.to(target.dtype) for target, value in chosen], alpha=factor)


def rank_and_ranks() -> tuple[int, int]:
    """Of this process; (0, 1) without a process group."""
    return (dist.get_rank(), dist.get_world_size()) if dist.is_available() and dist.is_initialized() else (0, 1)


def check_optimizer(optimizer: Any) -> None:
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(f"covnoise: Noisy takes a torch.optim.Optimizer, not {type(optimizer).__name__}")
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    if closure is not None and closure.default is closure.empty:
        raise ValueError(f"covnoise: {type(optimizer).__name__} takes several gradients in a step, by a closure, and the "
                         "noise is that of one; use an optimizer without a closure")


def check_match(optimizer: torch.optim.Optimizer, match_lr: Optional[float], match_momentum: float) -> None:
    """Of scale "match"."""
    if match_lr is None or not match_lr > 0:
        raise ValueError('covnoise: scale="match" needs match_lr, the small batch\'s learning rate, above 0')
    if not 0 <= match_momentum < 1:
        raise ValueError(f"covnoise: match_momentum = {match_momentum} must be at least 0 and below 1")
    if not isinstance(optimizer, torch.optim.SGD):
        raise ValueError('covnoise: scale="match" matches the temperature of torch.optim.SGD, and that of '
                         f"{type(optimizer).__name__} is not known; give scale a number")


class Noisy(torch.optim.Optimizer):
    """Adds the noise that a batch of `small_batch` (M_S) would have had in addition to one of M_L:

        n = s C^(1/2) xi,    s = sqrt(1/M_S - 1/M_L),    xi ~ N(0, I)

    placement "update":   theta <- (the optimizer's step) - lr n       as in algorithm 1 of the paper
    placement "gradient": the optimizer gets g + n

    structure    C: "none" 0; "diag-fisher" diag(F), the statistics' diagonal; "fisher-trace" (Tr F / d) I; "full-fisher"
                 F, drawn by `draw`; "isotropic" sigma^2 I and "multiplicative" sigma^2 diag(g)^2, which s does not scale.
    scale        a factor of s, or, for SGD, "match": s such that the temperature lr / ((1 - momentum) M) is that of a small
                 batch with learning rate `match_lr` and momentum `match_momentum` (docs/noise.md). With a scheduler set the
                 attribute `match_factor` (1.0) before each step: the small batch's schedule at this moment, warm-up
                 included, as a factor of `match_lr`.
    clip_norm    the largest norm of n over all parameters, None: any. Noise grows with the squares of the gradients, so where
                 the gradients are clipped, bound it as well: clip them before step(), which clips the noise apart.
    stop         the number of steps after which there is no noise any more; None: never.
    seed         of xi, which is a pure function of (seed, step, parameter): the numbers of the C++ program.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, stats: Optional[Statistics] = None, small_batch: int = 128, *,
                 structure: str = "diag-fisher", scale: Union[float, str] = 1.0, placement: str = "update",
                 stop: Optional[int] = None, seed: int = 0, sigma: float = 0.1, match_lr: Optional[float] = None,
                 match_momentum: float = 0.9, clip_norm: Optional[float] = None) -> None:
        check_optimizer(optimizer)
        if stats is not None and not isinstance(stats, Statistics):
            raise TypeError(f"covnoise: stats must be what covnoise.attach returns, not {type(stats).__name__}")
        if structure not in STRUCTURES:
            raise ValueError(f"covnoise: structure '{structure}' is not known; known: {', '.join(STRUCTURES)}")
        if placement not in PLACEMENTS:
            raise ValueError(f"covnoise: placement '{placement}' is not known; known: {', '.join(PLACEMENTS)}")
        if scale == "match":
            check_match(optimizer, match_lr, match_momentum)
        elif isinstance(scale, str):
            raise ValueError(f"covnoise: scale '{scale}' must be a number, or \"match\" with match_lr")
        else:
            check_factor("scale", scale)
        check_factor("sigma", sigma)
        if clip_norm is not None and not clip_norm > 0:
            raise ValueError(f"covnoise: clip_norm = {clip_norm} must be above 0, or None")
        if clip_norm is not None and scale == "match":
            raise ValueError('covnoise: clip_norm would miss the temperature of scale "match"; leave one of them out')
        check_whole("small_batch", small_batch)
        self.structure: Structure = STRUCTURES[structure](sigma)
        if self.structure.needs_statistics and stats is None:
            raise ValueError(f"covnoise: structure '{structure}' needs the statistics of covnoise.attach(model)")
        self.optimizer, self.stats = optimizer, stats
        self.small_batch, self.scale, self.placement, self.stop, self.seed = small_batch, scale, placement, stop, seed
        self.match_lr, self.match_momentum, self.match_factor = match_lr, match_momentum, 1.0
        self.clip_norm = clip_norm
        self._check_parameters(optimizer.param_groups)
        self.steps = 0
        self._batch_seen = False
        self.noise_by_hook = False  # distributed.add_noise_to adds the noise instead
        self._names: Optional[dict[int, str]] = None  # known after the first step, because a model's modules are many
        self._offsets: Optional[dict[int, int]] = None
        super().__init__(optimizer.param_groups, optimizer.defaults)
        self._initialised = True
        if stats is not None:
            stats.driver = weakref.ref(self)

    # Parameters and state are the inner optimizer's at any time, so that schedulers and GradScaler see one optimizer. Only
    # Optimizer.__init__ sets them; inner optimizers replace theirs in load_state_dict.

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        groups: list[dict[str, Any]] = self.optimizer.param_groups
        return groups

    @param_groups.setter
    def param_groups(self, _: Any) -> None:
        pass

    @property
    def state(self) -> Any:
        return self.optimizer.state

    @state.setter
    def state(self, _: Any) -> None:
        pass

    def _check_parameters(self, groups: list[dict[str, Any]]) -> None:
        """Statistics must be those of the parameters that are trained."""
        if self.stats is None:
            return
        known = self.stats.names()
        for group in groups:
            for parameter in group["params"]:
                if id(parameter) not in known:
                    raise ValueError(f"covnoise: the optimizer has a parameter of sizes {list(parameter.shape)} that "
                                     "the attached model does not have")

    def _parameters(self) -> list[Tensor]:
        return [parameter for group in self.param_groups for parameter in group["params"]]

    def names(self) -> dict[int, str]:
        """The statistics' name of each parameter, by id."""
        if self._names is None:
            self._names = {} if self.stats is None else self.stats.names()
        return self._names

    def offsets(self) -> dict[int, int]:
        """Where each parameter begins in the program's flat buffer."""
        if self._offsets is None:
            order = self._parameters() if self.stats is None else self.stats.parameters()
            self._offsets = dict(zip(map(id, order), _philox.offsets([parameter.numel() for parameter in order])))
        return self._offsets

    def noise_scale(self, examples: int, group: dict[str, Any]) -> float:
        """s of this step for a batch of M_L examples."""
        if not self.structure.scaled_by_batch:
            return 1.0 if isinstance(self.scale, str) else float(self.scale)
        self._warn_of_a_small_batch(examples)
        missing = max(0.0, 1.0 / self.small_batch - 1.0 / max(examples, 1))
        if not isinstance(self.scale, str) or missing == 0:
            return float(missing**0.5 * (1.0 if isinstance(self.scale, str) else self.scale))
        assert self.match_lr is not None
        momentum = group["momentum"]
        small = self.match_lr * self.match_factor / (1 - self.match_momentum)
        large = float(group["lr"]) / (1 - momentum)
        if large == 0:  # nothing moves
            return 0.0 if self.placement == "update" else float(missing**0.5)
        squared = max(0.0, small / large / self.small_batch - 1.0 / examples)
        return float((squared / (1 - momentum)**2 if self.placement == "update" else min(squared, missing))**0.5)

    def _warn_of_a_small_batch(self, examples: int) -> None:
        """Only of the first batch: the last one of an epoch may be smaller than the others."""
        if examples <= self.small_batch and not self._batch_seen:
            warnings.warn(f"covnoise: there is no noise, because the batch size, {examples}, is not larger than small_batch = "
                          f"{self.small_batch}; raise the batch size or lower small_batch", stacklevel=2)
        self._batch_seen = True

    def on(self) -> bool:
        """Whether the next step has noise."""
        return self.structure.name != "none" and (self.stop is None or self.steps < self.stop)

    def draw(self, losses: Tensor, first: Optional[int] = None) -> None:
        """Full Fisher noise: adds (1/sqrt M) sum_i sigma_i g_i with sigma_i = +-1 to this step's draw, by another
        backward pass. `losses` [M] are those of the examples, before their mean is taken; `first` is the index of the
        first one in the large batch, which seeds their signs. None: behind the examples that this step has drawn, with
        signs of each rank's own. Call it before loss.backward(). Does nothing for other structures."""
        if self.structure.name != "full-fisher" or not self.on():
            return
        if losses.dim() != 1:
            raise ValueError(f"covnoise: draw takes the losses of the examples, [M], not {list(losses.shape)}")
        parameters = [parameter for parameter in self._parameters() if parameter.requires_grad]
        place = (self.structure.local_examples(), rank_and_ranks()[0]) if first is None else (first, 0)
        signs = _philox.signs(len(losses), losses.detach(), self.seed, self.steps, *place)
        gradients = torch.autograd.grad(losses, parameters, signs, retain_graph=True, allow_unused=True)
        self.structure.add(parameters, gradients, len(losses))

    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        result = None
        if closure is not None:
            with torch.enable_grad():
                result = closure()
        self._check_ranks()
        measurement = self.measured()
        noise = {} if self.noise_by_hook else self.sample(measurement)
        if self.placement == "gradient":
            self._add(noise)
        self.optimizer.step()
        if self.placement == "update":
            for group in self.param_groups:
                add(group["params"], group["params"], noise, -float(group["lr"]))
        self._finish(measurement)
        return result

    @torch.no_grad()
    def add_to_gradients(self) -> None:
        """The noise of a step whose update somebody else makes."""
        self._check_ranks()
        measurement = self.measured()
        self._add(self.sample(measurement))
        self._finish(measurement)

    def _check_ranks(self) -> None:
        """Noise from each rank's own examples, added after the reduction, would let their parameters drift apart."""
        ranks = rank_and_ranks()[1]
        if ranks > 1 and self.structure.of_examples and self.on() and not self.noise_by_hook:
            raise RuntimeError(f"covnoise: {ranks} ranks train together; call covnoise.distributed.add_noise_to(ddp, "
                               "opt) after DistributedDataParallel")

    def _add(self, noise: dict[int, Tensor]) -> None:
        parameters = [parameter for parameter in self._parameters() if parameter.grad is not None]
        add(parameters, [parameter.grad for parameter in parameters], noise, 1.0)

    def _finish(self, measurement: Optional[Measurement]) -> None:
        self.steps += 1
        self.structure.reset()
        if self.stats is not None:
            self.stats.reset(measurement)
            self.stats.driver = weakref.ref(self)

    def measured(self) -> Optional[Measurement]:
        """What the step needs from the statistics."""
        if not self.structure.needs_statistics or not self.on() or self.stats is None:
            return None
        try:
            return self.stats.measured(fresh=True)
        except NotMeasured:
            if self.stats.driver is None or self.stats.driver() in (self, None):
                raise
            raise RuntimeError("covnoise: another Noisy has used the statistics of this step; put the parameters into "
                               "groups of one optimizer, or attach to each part of the model") from None

    def sample(self, measurement: Optional[Measurement] = None) -> dict[int, Tensor]:
        """n of this step by id of the parameter."""
        if not self.on():
            return {}
        return self._clipped(self.structure.sample(Draw(self, measurement or self.measured()), None))

    def _clipped(self, noise: dict[int, Tensor]) -> dict[int, Tensor]:
        """n min(1, clip_norm / |n|); the host does not wait for the device."""
        if self.clip_norm is None or not noise:
            return noise
        values = list(noise.values())
        # In float64, so that a clipped norm is at most clip_norm up to the rounding of the values.
        norms = torch.stack([torch.linalg.vector_norm(value, dtype=torch.float64).to(values[0].device)
                             for value in values])
        factor = (self.clip_norm / norms.norm()).clamp(max=1)
        return {key: value * factor.to(value.device, value.dtype) for key, value in noise.items()}

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Gradients that no step has used (a GradScaler skips steps) take their statistics and draws with them."""
        self.optimizer.zero_grad(set_to_none)
        self.structure.reset()
        if self.stats is not None:
            self.stats.discard()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        if not hasattr(self, "_initialised"):  # by Optimizer.__init__
            return
        parameters = param_group["params"]
        group = {**param_group, "params": [parameters] if isinstance(parameters, Tensor) else list(parameters)}
        self._check_parameters([group])
        self._offsets = None
        self.optimizer.add_param_group(group)

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("covnoise: Noisy belongs to a model and its statistics and cannot be copied or pickled; save "
                        "its state_dict()")

    def state_dict(self) -> dict[str, Any]:
        """The inner optimizer's, with the counters of the noise."""
        return {**self.optimizer.state_dict(), "noise": {"steps": self.steps, "seed": self.seed}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        state = dict(state_dict)
        noise = state.pop("noise", None)
        if noise is None:
            raise ValueError("covnoise: this state_dict is not one of Noisy; load it into the inner optimizer")
        self.optimizer.load_state_dict(state)
        self.steps, self.seed = noise["steps"], noise["seed"]
