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


def scaler_of(trainer: Any) -> Any:
    """The GradScaler of 16-bit training, if there is one."""
    return getattr(getattr(trainer, "precision_plugin", None), "scaler", None)


class AttachedForFit(Callback):
    """Statistics of a fit, which end with it, also where an exception ends it."""

    stats: Optional[Statistics] = None

    def detach(self) -> None:
        if self.stats is not None:
            self.stats.detach()

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        self.detach()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self.detach()

    def teardown(self, trainer: Any, pl_module: Any, stage: Optional[str] = None) -> None:
        self.detach()


class NoiseScale(AttachedForFit):
    """Logs `noise_scale` (Tr S / |G|^2, the critical batch size) and `gradient_variance` (Tr S) of every
    `every_n_steps`-th step."""

    def __init__(self, estimator: str = "ghost", group: int = 128, every_n_steps: int = 50) -> None:
        self.estimator, self.group, self.every_n_steps = estimator, group, every_n_steps

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        self.stats = attach(pl_module, self.estimator, self.group, scaler=scaler_of(trainer))

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


class StructuredNoise(AttachedForFit):
    """Adds the noise of covnoise.optim.Noisy to the gradient of every step, before it is clipped; `options` are
    Noisy's, and so is the attribute `match_factor`. For one process and one optimizer."""

    def __init__(self, small_batch: int = 128, estimator: str = "ghost", group: int = 128, **options: Any) -> None:
        if options.setdefault("placement", "gradient") != "gradient":
            raise ValueError("covnoise: the callback adds noise to the gradient; leave out placement")
        self.small_batch, self.estimator, self.group, self.options = small_batch, estimator, group, options
        self.noise: Optional[Noisy] = None
        self.steps = 0
        self.match_factor = 1.0

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        if trainer.world_size > 1 or len(trainer.optimizers) > 1:
            raise ValueError("covnoise: StructuredNoise works with one process and one optimizer; with several "
                             "processes use covnoise.distributed.add_noise_to")
        self.stats = attach(pl_module, self.estimator, self.group, scaler=scaler_of(trainer))
        self.noise = None

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any, *_: Any) -> None:
        if self.noise is None:
            self.noise = Noisy(getattr(optimizer, "optimizer", optimizer), self.stats, self.small_batch, **self.options)
            self.noise.steps = self.steps
        self.noise.match_factor = self.match_factor
        self.noise.add_to_gradients()
        self.steps = self.noise.steps

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self.steps}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.steps = state_dict["steps"]
