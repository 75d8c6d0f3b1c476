"""The forward that takes the place of a module's own."""
from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Optional

import torch
from torch import Tensor

from ._accumulation import Witness
from ._compiled import CompiledCount
from ._delivery import Delivery
from ._groups import Groups
from ._record import ParameterRecord, compiling

if TYPE_CHECKING:
    from .statistics import Statistics

Leaves = tuple[Optional[Tensor], Optional[Tensor], Tensor]  # of weight, bias and, of a compiled pass, the counts


class Recorded:
    """Takes the place of `module.forward`; a subclass for each kind of layer says how to record it.

    Copies and pickles of the module have the module's own forward: they are not attached.
    """

    witness: Witness

    def __init__(self, statistics: Statistics, name: str, module: Any,
                 weight: Optional[ParameterRecord], bias: Optional[ParameterRecord]) -> None:
        self.statistics = statistics
        self.name = name
        self.module = module
        self.weight = weight
        self.bias = bias
        self._records = [record for record in (weight, bias) if record is not None]
        self.examples = self.groups = 0  # of the backward passes since the last reset
        self.refusal = ""  # why they cannot be measured
        self.count = CompiledCount(self)
        self._find_witness()
        self._usual_call: Optional[Call] = None  # that of a pass which calls the module once
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

    def _find_witness(self) -> None:
        self.witness = self.statistics.witness(next(self.module.parameters()).device)

    def add(self, weight: Optional[Tensor], bias: Optional[Tensor]) -> None:
        """Moments of a call, of the parameters that have some."""
        if weight is not None and self.weight is not None:
            self.weight.add(weight)
        if bias is not None and self.bias is not None:
            self.bias.add(bias)

    def has_counted(self) -> bool:
        return self.examples > 0

    def clear(self) -> None:
        self.examples, self.groups, self.refusal = 0, 0, ""

    def records(self) -> list[ParameterRecord]:
        return self._records

    def uses(self, parameters: set[int]) -> bool:
        """Whether it has one of the parameters with these ids."""
        return any(id(record.parameter) in parameters for record in self._records)

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
        if self.witness.leaf.device != x.device:
            self.check_device(x)
            self._find_witness()
            self._usual_call = None
        if compiling():
            return self._compiled_call(x)
        if not self.statistics.admits(self, x):
            return None
        if self.calls > 1:
            for record in self.records():
                record.shared = True
        if self.shares():
            return self._shared_call(x)
        if self._usual_call is None or self._usual_call.examples != x.shape[0]:
            delivery = Delivery(x.shape[0], self.statistics.group, False, 1.0, self)
            self._usual_call = Call(x.shape[0], (None, None, self.witness.leaf), (delivery,))
        return self._usual_call

    def _shared_call(self, x: Tensor) -> Call:
        delivery = Delivery(x.shape[0], self.statistics.group, True, 0.0 if self.calls > 1 else 1.0, self)
        return Call(x.shape[0], (*self._leaves(delivery.groups, True), self.witness.leaf), (delivery,))

    def _compiled_call(self, x: Tensor) -> Call:
        """With a plan of plain values, so that torch.compile can trace the backward pass."""
        self.statistics.compiled = True
        shared, size = self.shares(), self.statistics.group
        leaves = self._leaves(Groups(x.shape[0], size), shared)
        return Call(x.shape[0], (*leaves, self.count.leaf), (x.shape[0], size, shared, 1.0 / self.calls_per_pass))

    def _leaves(self, groups: Groups, shared: bool) -> tuple[Optional[Tensor], Optional[Tensor]]:
        weight = None if self.weight is None else self.weight.target(groups, shared)
        bias = None if self.bias is None else self.bias.target(groups, shared)
        return weight, bias

    def check_device(self, x: Tensor) -> None:
        parameter = next(self.module.parameters())
        if parameter.device != x.device:
            raise RuntimeError(f"covnoise: '{self.name}' is on {parameter.device} and its input on {x.device}; "
                               "nn.DataParallel copies modules, which covnoise cannot follow: use "
                               "DistributedDataParallel")


class Call:
    """One call of a recorded module: the leaves that autograd takes its statistics to, and what its backward pass needs
    (delivery_of)."""

    def __init__(self, examples: int, leaves: Leaves, plan: tuple[Any, ...]) -> None:
        self.examples, self.leaves, self.plan = examples, leaves, plan
