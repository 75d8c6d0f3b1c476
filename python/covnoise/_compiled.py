"""What compiled backward passes count."""
from __future__ import annotations

from typing import TYPE_CHECKING, Optional

import torch
from torch import Tensor

from ._accumulation import on_accumulation
from ._groups import Groups
from ._record import leaf

if TYPE_CHECKING:
    from ._recorded import Recorded

Counts = tuple[tuple[int, int], ...]  # examples and groups of each module


class CompiledCount:
    """Examples and groups of a module's compiled backward passes. Such a pass runs none of our Python code: what it counts
    is the gradient of `leaf`, on the device. The host counts as well, when that gradient is accumulated, by the examples of
    the module's last compiled forward pass, so that no step has to wait for the device; CountCheck compares the two."""

    def __init__(self, like: Tensor, group: int) -> None:
        self.leaf = leaf((2,), like, torch.float64)
        self.group = group
        self.batch = 0  # examples of the last compiled forward pass, which sets it
        self.clear()
        self._end = on_accumulation(self.leaf, self._see)

    def _see(self, _: Tensor) -> None:
        self.examples += self.batch
        self.groups += Groups(self.batch, self.group).number

    def clear(self) -> None:
        self.examples = self.groups = 0
        self.leaf.grad = None


class CountCheck:
    """Compares what host and device counted: at once where the host's counts are new, otherwise when the next step asks,
    by which time the device has got there."""

    def __init__(self) -> None:
        self._known: set[Counts] = set()
        self._open: dict[tuple[str, ...], Comparison] = {}  # by the modules: ranks ask for some at a time

    def check(self, modules: list[Recorded]) -> None:
        counted = [module for module in modules if module.count.leaf.grad is not None]
        if not counted:
            return
        comparison = Comparison(counted)
        before = self._open.pop(comparison.names, None)
        if before is not None:
            before.finish()
        if comparison.expected in self._known:
            self._open[comparison.names] = comparison
        else:
            comparison.finish()
            self._known.add(comparison.expected)


class Comparison:
    """Of some modules' counts; copies the device's to the host without waiting."""

    def __init__(self, modules: list[Recorded]) -> None:
        self.names: tuple[str, ...] = tuple(module.name for module in modules)
        self.expected: Counts = tuple((module.count.examples, module.count.groups) for module in modules)
        gradients = [module.count.leaf.grad for module in modules]
        found = torch.stack([each.to(gradients[0].device) for each in gradients])
        self._copied: Optional[torch.cuda.Event] = None
        if found.is_cuda:
            self._found = torch.empty(found.shape, dtype=found.dtype, pin_memory=True).copy_(found, non_blocking=True)
            self._copied = torch.cuda.Event()
            self._copied.record()
        else:
            self._found = found

    def finish(self) -> None:
        if self._copied is not None:
            self._copied.synchronize()
        for name, expected, found in zip(self.names, self.expected, self._found.round().long().tolist()):
            if tuple(found) != expected:
                raise RuntimeError(f"covnoise: compiled backward passes of '{name}' had {found[0]} examples, not the "
                                   f"{expected[0]} of its forward passes; a module that is called several times must run "
                                   "once without torch.compile so that covnoise notices, and a backward pass must come "
                                   "before the next forward pass with another number of examples")
