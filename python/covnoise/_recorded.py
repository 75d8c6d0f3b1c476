"""The forward that takes the place of a module's own."""
from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Optional

import torch
from torch import Tensor

from ._accumulation import accumulation_node
from ._groups import Groups
from ._record import ParameterRecord, compiling, leaf

if TYPE_CHECKING:
    from .statistics import Statistics


class Recorded:
    """Takes the place of `module.forward`; a subclass for each kind of layer says how to record it.

    Copies and pickles of the module have the module's own forward: they are not attached.
    """

    def __init__(self, statistics: Statistics, name: str, module: Any,
                 weight: Optional[ParameterRecord], bias: Optional[ParameterRecord]) -> None:
        self.statistics = statistics
        self.name = name
        self.module = module
        self.weight = weight
        self.bias = bias
        self._records = [record for record in (weight, bias) if record is not None]
        self.examples = self.groups = 0  # of the backward passes that were not compiled
        self._start_counting()
        self.calls = 0  # in this pass
        self.calls_per_pass = 1
        self.backward_seen = False
        self.measured_elsewhere = False  # between passes, because its batch is not the model's

    def record(self, x: Tensor) -> Any:
        """The module's output, with statistics in its backward pass."""
        raise NotImplementedError

    def plain(self, *args: Any, **kwargs: Any) -> Any:
        """The module's own forward."""
        return type(self.module).forward(self.module, *args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.statistics.recording() or self.measured_elsewhere or not self.trains():
            return self.plain(*args, **kwargs)
        return self.record(*args, *kwargs.values())  # a layer has one argument, which may be given by its name

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self.module, "forward")

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        copied = copy.deepcopy(self.module, memo)
        return type(copied).forward.__get__(copied)

    def _start_counting(self) -> None:
        self.count = leaf((2,), next(self.module.parameters()), torch.float64)  # .grad: of compiled backward passes
        self._accumulates = accumulation_node(self.count)

    def add_counts(self, examples: int, groups: int) -> None:
        """In a backward pass: adds what it records, unless, as in torch.autograd.grad, nothing is accumulated."""
        if torch._C._will_engine_execute_node(self._accumulates):
            self.examples += examples
            self.groups += groups

    def has_counted(self) -> bool:
        return self.examples > 0 or self.count.grad is not None

    def clear(self) -> None:
        self.examples = self.groups = 0
        self.count.grad = None

    def records(self) -> list[ParameterRecord]:
        return self._records

    def trains(self) -> bool:
        for record in self._records:
            if record.parameter.requires_grad:
                return True
        return False

    def shares(self) -> bool:
        """Whether a parameter is used by several calls of a pass."""
        for record in self._records:
            if record.shared:
                return True
        return False

    def start(self, x: Tensor) -> Optional[Call]:
        """Registers a call with the input x [M, ...]; nothing where the module must be measured otherwise."""
        shared = self.shares()
        groups = Groups(x.shape[0], self.statistics.group)
        if self.count.device != x.device:
            self.check_device(x)
            self._start_counting()
        part, owner = 1.0 / self.calls_per_pass, None
        if not compiling():
            if not self.statistics.admits(self, x):
                return None
            if self.calls > 1:
                for record in self.records():
                    record.shared = True
                shared = True
            part, owner = 0.0 if self.calls > 1 else 1.0, self
        weight = None if self.weight is None else self.weight.target(groups, shared)
        bias = None if self.bias is None else self.bias.target(groups, shared)
        return Call(weight, bias, self.count, groups, shared, part, owner)

    def check_device(self, x: Tensor) -> None:
        parameter = next(self.module.parameters())
        if parameter.device != x.device:
            raise RuntimeError(f"covnoise: '{self.name}' is on {parameter.device} and its input on {x.device}; "
                               "nn.DataParallel copies modules, which covnoise cannot follow: use "
                               "DistributedDataParallel")


class Call:
    """One call of a recorded module: where its statistics go."""

    def __init__(self, weight: Optional[Tensor], bias: Optional[Tensor], count: Tensor, groups: Groups, shared: bool,
                 part: float, owner: Optional[Recorded]) -> None:
        self.weight, self.bias, self.count = weight, bias, count
        self.groups, self.shared, self.part, self.owner = groups, shared, part, owner

    def leaves(self) -> tuple[Optional[Tensor], Optional[Tensor], Tensor]:
        return self.weight, self.bias, self.count

    def plan(self) -> tuple[int, int, bool, float, Optional[Recorded]]:
        """What a backward pass needs, as plain values, so that torch.compile can trace it."""
        return self.groups.examples, self.groups.size, self.shared, self.part, self.owner
