"""Callbacks of Lightning: measure, or train with noise, without a change of the LightningModule."""
from __future__ import annotations

from typing import Any, Optional

try:
    from lightning.pytorch import Callback
except ImportError:
    try:
        from pytorch_lightning import Callback
    except ImportError as error:
        raise ImportError("covnoise.lightning needs the package lightning or pytorch_lightning") from error

from .attach import attach
from .optim import Noisy
from .statistics import Statistics


class NoiseScale(Callback):
    """Logs `noise_scale` (Tr S / |G|^2, the critical batch size) and `gradient_variance` (Tr S) of every
    `every_n_steps`-th step."""

    def __init__(self, estimator: str = "ghost", group: int = 128, every_n_steps: int = 50) -> None:
        self.estimator, self.group, self.every_n_steps = estimator, group, every_n_steps
        self.stats: Optional[Statistics] = None

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        self.stats = attach(pl_module, self.estimator, self.group)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        assert self.stats is not None
        self.stats.paused = trainer.global_step % self.every_n_steps != 0

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any, *_: Any) -> None:
        assert self.stats is not None
        if self.stats.paused:
            return
        pl_module.log("gradient_variance", self.stats.trace())
        pl_module.log("noise_scale", self.stats.noise_scale())
        self.stats.reset()

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        if self.stats is not None:
            self.stats.detach()


class StructuredNoise(Callback):
    """Adds noise of covnoise.optim.Noisy to the gradient of every step; `options` are Noisy's."""

    def __init__(self, small_batch: int = 128, estimator: str = "ghost", group: int = 128, **options: Any) -> None:
        if options.setdefault("placement", "gradient") != "gradient":
            raise ValueError('covnoise: the callback adds noise to the gradient; leave out placement')
        self.small_batch, self.estimator, self.group, self.options = small_batch, estimator, group, options
        self.stats: Optional[Statistics] = None
        self.noise: Optional[Noisy] = None

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        self.stats = attach(pl_module, self.estimator, self.group)

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any, *_: Any) -> None:
        """After clipping would be too late in Lightning's order, so the noise is clipped with the gradient."""
        inner = getattr(optimizer, "optimizer", optimizer)
        if self.noise is None:
            self.noise = Noisy(inner, self.stats, self.small_batch, **self.options)
        self.noise.add_to_gradients()

    def state_dict(self) -> dict[str, Any]:
        return {} if self.noise is None else {"steps": self.noise.steps}

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        if self.stats is not None:
            self.stats.detach()
