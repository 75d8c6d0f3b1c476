"""What a step measured: the per-example statistics of every parameter."""
from __future__ import annotations

import math
import warnings
import weakref
from typing import Any, Callable, Optional

import torch
from torch import Tensor, nn

from ._accumulation import Witness, on_accumulation
from ._between import BetweenPasses
from ._measurement import Measurement
from ._record import ParameterRecord, compiling
from ._recorded import Recorded

LOSSES = ("mean", "sum")


def first_batch_size(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Optional[int]:
    """Examples of the first tensor that a module is called with; not of those in lists, which may be single images."""
    for value in (*arguments, *keywords.values()):
        if isinstance(value, Tensor) and value.dim() > 0:
            return int(value.shape[0])
    return None


class NotMeasured(RuntimeError):
    """No backward pass was recorded."""


class Statistics:
    """Per-example statistics of a model's gradient, recorded by its own backward passes.

    With g_i the gradient of example i's loss, g their mean, M examples since the last `reset` (optim.Noisy resets after
    each step), and g_j the mean gradient of group j of m consecutive examples:

        exact   diag(F)_k = (1/M) sum_i g_ik^2                 g_i is example i's contribution to the gradient
        ghost   m/(G-1) sum_j (g_jk - g_k)^2                   of G groups: unbiased for the covariance's diagonal
        micro   the same between the backward passes           for any module; needs two passes
    """

    def __init__(self, model: nn.Module, estimator: str, group: int, loss: str, scaler: Any) -> None:
        self.model = model
        self.estimator = estimator
        self.group = group if estimator == "ghost" else 1
        self.loss = loss
        self.scaler = scaler
        self.layers: list[Recorded] = []
        self.recorded: list[ParameterRecord] = []
        self.between: list[BetweenPasses] = []
        self.batch_size: Optional[int] = None
        self.backward_seen = False  # of this batch, by a parameter that is measured between backward passes
        self.paused = False
        self.driver: Optional[weakref.ref[Any]] = None  # the optim.Noisy that resets these statistics
        self.compiled = False  # some call was: its statistics are complete only at the end of a backward pass
        self._averages: Optional[Tensor] = None
        self._last: Optional[Measurement] = None
        self._witnesses: dict[torch.device, Witness] = {}
        self._undo: list[Callable[[], None]] = []
        self._checks: list[Callable[[], None]] = []  # remove the hooks of the first pass
        self._unverified: dict[int, tuple[Tensor, int]] = {}  # gradients of how many examples
        self._verified = False

    # -- called by the recorded modules -------------------------------------------------------------------------------

    def recording(self) -> bool:
        return torch.is_grad_enabled() and self.model.training and not self.paused and not torch.jit.is_tracing()

    def witness(self, device: torch.device) -> Witness:
        """One for all modules of a device."""
        if device not in self._witnesses:
            self._witnesses[device] = Witness(device)
        return self._witnesses[device]

    def begin_pass(self, batch_size: Optional[int]) -> None:
        """A new batch of examples; what follows until the next one belongs to it."""
        if not compiling():
            if self._were_dropped():
                self.discard()
            self._end_pass()
        self.batch_size, self.backward_seen = batch_size, False

    def _were_dropped(self) -> bool:
        """Whether gradients since the last reset were set to None without a step, as where a GradScaler skips one."""
        noisy = None if self.driver is None else self.driver()
        if noisy is None:
            return False
        counted = any(layer.has_counted() for layer in self.layers) or any(each.passes for each in self.between)
        return counted and all(parameter.grad is None for group in noisy.param_groups for parameter in group["params"])

    def _end_pass(self) -> None:
        for layer in self.layers:
            layer.calls_per_pass = max(layer.calls, 1) if layer.calls else layer.calls_per_pass
            layer.calls, layer.backward_seen = 0, False
        for record in self.recorded:
            if record.open:
                record.end_pass()
                record.finish()
        for each in self.between:
            each.watch()
        self._verify()

    def admits(self, layer: Recorded, x: Tensor) -> bool:
        """Counts a call of the layer; false if its batch is not that of the model."""
        if _inside_backward():  # activation checkpointing calls the layer again
            return True
        if layer.backward_seen:  # the model's own forward is not used
            self.begin_pass(None)
        if self.batch_size is None:
            self.batch_size = x.shape[0]
        if x.shape[0] != self.batch_size:
            self.measure_between(layer.records(), f"'{layer.name}' got {x.shape[0]} examples of a batch of "
                                 f"{self.batch_size}")
            layer.measured_elsewhere = True
            return False
        layer.calls += 1
        return True

    def meets(self, batch_size: Optional[int]) -> None:
        """A part of a model without recorded layers was called with these examples. They are the batch where the model's
        own forward is not called, or is called without a tensor."""
        if batch_size is None or (not compiling() and _inside_backward()):
            return
        if self.batch_size is None or self.backward_seen:
            self.begin_pass(batch_size)

    def measure_between(self, records: list[ParameterRecord], reason: str) -> None:
        """Measures these parameters by the variance between backward passes from now on."""
        for record in records:
            if record.estimator == "micro":
                continue
            record.estimator = "micro"
            self.between.append(BetweenPasses(record.names, record.parameter, self))
            warnings.warn(f"covnoise: {reason}: '{record.names[0]}' is measured between backward passes (micro)",
                          stacklevel=2)

    # -- the first pass checks that the layers account for the whole gradient -----------------------------------------

    def expect(self, record: ParameterRecord) -> None:
        """Compares the first gradient of a parameter with what its layers recorded."""
        key = id(record)

        def keep(gradient: Tensor) -> None:
            if not self.recording_backward():
                return
            total, examples = self._unverified.get(key, (None, 0))
            total = gradient.clone() if total is None else total + gradient
            self._unverified[key] = total, examples + (self.batch_size or 0)

        self._checks.append(on_accumulation(record.parameter, keep))

    def recording_backward(self) -> bool:
        return self.model.training and not self.paused

    def _verify(self) -> None:
        if self._verified or not self._unverified:
            return
        recorded = any(layer.has_counted() for layer in self.layers)  # else the forward pass was made before attach
        if not recorded or not all(bool(torch.isfinite(seen).all()) for seen, _ in self._unverified.values()):
            self._unverified = {}  # the next pass tells more
            return
        self._verified = True
        for record in self.recorded:
            if id(record) not in self._unverified or record.estimator == "micro":
                continue
            seen, examples = self._unverified[id(record)]
            ours = record.collected()[0].to(seen.dtype)
            if not torch.allclose(ours, seen, rtol=0.05, atol=0.02 * float(seen.abs().max())):
                self.measure_between([record], "its layer is not the only user of this parameter")
                self.between[-1].add(seen, examples)
        self._end_checks()

    def _end_checks(self) -> None:
        for remove in self._checks:
            remove()
        self._checks, self._unverified = [], {}

    # -- what a step measured -----------------------------------------------------------------------------------------

    def measured(self, only: Optional[set[int]] = None, fresh: bool = False) -> Measurement:
        """Of the backward passes since the last reset, or, unless it must be `fresh`, of those before it if there were
        none; for the parameters with these ids, or for all."""
        for record in self.recorded:
            if record.open:
                record.finish()
        self._verify()
        measurement = Measurement(self, only)
        if measurement.examples:
            return measurement
        if fresh or self._last is None:
            raise NotMeasured("covnoise: nothing was measured; call model.train(), then forward and backward, with "
                              "gradients enabled, after attach")
        return self._last

    def diagonal(self) -> dict[str, Tensor]:
        """The estimate of the diagonal, by parameter name."""
        return self.measured().diagonal()

    def mean(self) -> dict[str, Tensor]:
        """g, the mean gradient that the statistics belong to, whatever became of p.grad."""
        return self.measured().mean()

    def trace(self) -> float:
        """The sum of the diagonal over all parameters."""
        return float(self.measured().trace())

    def noise_scale(self) -> float:
        """Tr S / |G|^2, the critical batch size of McCandlish et al. (2018), S the covariance of one example.

        Numerator and denominator, |g|^2 - Tr S / M, are averaged over the measured steps with a decay of 0.95; a step
        that is not finite does not count.
        """
        trace, square = (float(value) for value in self._averaged(self.measured()))
        return trace / square if square > 0 else math.inf

    def estimators(self) -> dict[str, str]:
        """By which estimator each parameter is measured."""
        found = {name: each.estimator for each in self.recorded for name in each.names}
        return {**found, **{name: "micro" for each in self.between for name in each.names}}

    def names(self) -> dict[int, str]:
        """The name under which a parameter is measured, by its id."""
        found = {id(each.parameter): each.names[0] for each in self.recorded}
        return {**found, **{id(each.parameter): each.names[0] for each in self.between}}

    def parameters(self) -> list[Tensor]:
        """The model's, in its own order."""
        return list(self.model.parameters())

    @property
    def examples(self) -> int:
        """M, the examples of this process since the last reset."""
        return self.measured().examples

    def reset(self, measurement: Optional[Measurement] = None) -> None:
        """Starts a new measurement; the old one (`measurement`, if the caller has it) stays readable until the next
        backward pass."""
        self._end_pass()
        self.batch_size = None
        try:
            last = measurement or self.measured(fresh=True)
            self._averages = self._averaged(last) if last.complete() else self._averages
            self._last = last
            for each in self.between:
                each.keep(last.scale * last.examples)
        except NotMeasured:
            pass
        finally:
            self.discard()
            for record in self.recorded:
                record.open.clear()

    def discard(self) -> None:
        """Forgets the backward passes since the last reset, as zero_grad forgets their gradients."""
        for record in self.recorded:
            record.clear()
        for layer in self.layers:
            layer.clear()
        for each in self.between:
            each.clear()
        self._unverified = {}

    def _averaged(self, last: Measurement) -> Tensor:
        """Averages of Tr S and |G|^2 over the steps up to this measurement."""
        if last is self._last and self._averages is not None:
            return self._averages
        now, before = last.trace_and_square(), self._averages
        if before is None:
            return now
        before = before if before.device == now.device else before.to(now.device)
        average = torch.where(torch.isfinite(before).all(), before.lerp(now, 0.05), now)
        return torch.where(torch.isfinite(now).all(), average, before)  # without waiting for the device

    def detach(self) -> None:
        """Gives the model its own forwards back; the last measurement stays readable."""
        try:
            self.reset()
        except RuntimeError:  # a backward pass that was interrupted, say, cannot be measured
            pass
        self._end_checks()
        for each in self.between:
            each.detach()
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()


_current_graph_task = getattr(torch._C, "_current_graph_task_id", None)


def _inside_backward() -> bool:
    return _current_graph_task is not None and _current_graph_task() != -1
