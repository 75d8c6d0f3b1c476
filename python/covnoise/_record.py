"""What is recorded of a parameter, and the forward that takes the place of a module's own."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Optional

import torch
from torch import Tensor, nn

from ._groups import Groups

if TYPE_CHECKING:
    from .statistics import Statistics


COMPILES = hasattr(getattr(torch, "compiler", None), "is_compiling")


def leaf(sizes: tuple[int, ...], like: Tensor, dtype: torch.dtype) -> Tensor:
    """A tensor without memory of its own whose .grad collects what a backward pass returns for it."""
    return torch.zeros((), dtype=dtype, device=like.device).expand(sizes).requires_grad_()


def statistics_dtype(parameter: Tensor) -> torch.dtype:
    return torch.promote_types(parameter.dtype, torch.float32)


def compiling() -> bool:
    """Whether torch.compile is tracing; PyTorch 1.13 has no torch.compile."""
    return bool(torch.compiler.is_compiling()) if COMPILES else False


class ParameterRecord:
    """Sums over the groups of a parameter's contributions, [2, *sizes], as _groups.Groups defines them.

    A parameter that is used by several calls of one pass (`shared`) first needs each group's sum over the calls,
    S [G, *sizes]; `finish` squares it.
    """

    def __init__(self, name: str, parameter: nn.Parameter, estimator: str) -> None:
        self.names = [name]
        self.parameter = parameter
        self.estimator = estimator
        self.shared = False
        self.moments = self._new_leaf()
        self.open: list[OpenPass] = []  # passes of a shared parameter that are not squared yet

    def _new_leaf(self) -> Tensor:
        return leaf((2, *self.parameter.shape), self.parameter, statistics_dtype(self.parameter))

    def target(self, groups: Groups, shared: bool) -> Optional[Tensor]:
        """The leaf that a call's statistics go to; nothing for a frozen parameter."""
        if not self.parameter.requires_grad:
            return None
        if self.moments.device != self.parameter.device or self.moments.dtype != statistics_dtype(self.parameter):
            self.moments = self._new_leaf()  # the model was moved
        if not shared:
            return self.moments
        return self.current_pass(groups).sums

    def current_pass(self, groups: Groups) -> OpenPass:
        if not self.open or self.open[-1].ended:
            self.open.append(OpenPass(self, groups))
        return self.open[-1]

    def end_pass(self) -> None:
        if self.open:
            self.open[-1].ended = True

    def finish(self) -> None:
        """Squares the sums over the calls of each pass whose backward pass has run."""
        for each in [each for each in self.open if each.sums.grad is not None]:
            total = each.groups.moments(each.sums.grad)
            self.moments.grad = total if self.moments.grad is None else self.moments.grad + total
            self.open.remove(each)

    def collected(self) -> Tensor:
        """[2, *sizes]."""
        return torch.zeros_like(self.moments).contiguous() if self.moments.grad is None else self.moments.grad

    def clear(self) -> None:
        self.moments.grad = None
        self.open = []


class OpenPass:
    """The groups' sums S [G, *sizes] of one pass, collected by a leaf."""

    def __init__(self, record: ParameterRecord, groups: Groups) -> None:
        self.groups = groups
        self.sums = leaf((groups.number, *record.parameter.shape), record.parameter, record.moments.dtype)
        self.ended = False

    def add(self, sums: Tensor) -> None:
        """Of a call that was made before the second one showed that the parameter is shared."""
        self.sums.grad = sums if self.sums.grad is None else self.sums.grad + sums


class Recorded:
    """Takes the place of `module.forward`; a subclass for each kind of layer says how to record it.

    Copies and pickles of the module have the module's own forward: they are not attached.
    """

    def __init__(self, statistics: Statistics, name: str, module: Any,
                 weight: Optional[ParameterRecord], bias: Optional[ParameterRecord]) -> None:
        self.statistics = statistics
        self.name = name
        self.module = module
        self.plain: Callable[..., Any] = module.forward
        self.weight = weight
        self.bias = bias
        self.count = self._new_count()  # .grad: examples, groups
        self.calls = 0  # in this pass
        self.calls_per_pass = 1
        self.backward_seen = False
        self.measured_elsewhere = False  # between passes, because its batch is not the model's

    def record(self, x: Tensor) -> Any:
        """The module's output, with statistics in its backward pass."""
        raise NotImplementedError

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.statistics.recording() or self.measured_elsewhere or not self.trains():
            return self.plain(*args, **kwargs)
        return self.record(*args, *kwargs.values())  # a layer has one argument, which may be given by its name

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self.module, "forward")

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        import copy
        copied = copy.deepcopy(self.module, memo)
        return type(copied).forward.__get__(copied)

    def _new_count(self) -> Tensor:
        like = next(self.module.parameters())
        return leaf((2,), like, torch.float64)

    def records(self) -> list[ParameterRecord]:
        return [record for record in (self.weight, self.bias) if record is not None]

    def trains(self) -> bool:
        return any(record.parameter.requires_grad for record in self.records())

    def start(self, x: Tensor) -> Optional[Call]:
        """Registers a call with the input x [M, ...]; nothing where the module must be measured otherwise."""
        shared = any([record.shared for record in self.records()])
        groups = Groups(x.shape[0], self.statistics.group)
        if self.count.device != x.device:
            self.check_device(x)
            self.count = self._new_count()
        part = 1.0 / self.calls_per_pass
        if not compiling():
            if not self.statistics.admits(self, x):
                return None
            if self.calls > 1:
                for record in self.records():
                    record.shared = True
                shared = True
            part = 0.0 if self.calls > 1 else 1.0
        targets = [None if record is None else record.target(groups, shared) for record in (self.weight, self.bias)]
        return Call(targets[0], targets[1], self.count, groups, shared, part, None if compiling() else self)

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


def refuse_second_derivative() -> None:
    """In a backward pass."""
    if torch.is_grad_enabled():
        raise RuntimeError("covnoise: the backward pass of a recorded layer cannot be differentiated again; detach() the "
                           "statistics for second derivatives")


class Delivery:
    """The backward pass' side of a call: turns contributions into the gradients of parameter and leaf."""

    def __init__(self, plan: tuple[int, int, bool, float, Optional[Recorded]]) -> None:
        refuse_second_derivative()
        self.examples, size, self.shared, self.part, self.owner = plan
        self.groups = Groups(self.examples, size)
        if self.owner is not None:
            self.owner.backward_seen = True

    def by_group(self) -> bool:
        """Whether a leaf wants each group's sum instead of moments."""
        owner = self.owner
        return self.shared or (owner is not None and any(record.shared for record in owner.records()))

    def _is_late(self, record: Optional[ParameterRecord]) -> bool:
        return record is not None and record.shared and not self.shared

    def weight(self, parameter: Tensor, moments: Callable[[], tuple[Tensor, Tensor]],
               sums: Callable[[], Tensor]) -> tuple[Tensor, Optional[Tensor]]:
        return self._deliver(None if self.owner is None else self.owner.weight, parameter, moments, sums)

    def bias(self, parameter: Tensor, moments: Callable[[], tuple[Tensor, Tensor]],
             sums: Callable[[], Tensor]) -> tuple[Tensor, Optional[Tensor]]:
        return self._deliver(None if self.owner is None else self.owner.bias, parameter, moments, sums)

    def _deliver(self, record: Optional[ParameterRecord], parameter: Tensor,
                 moments: Callable[[], tuple[Tensor, Tensor]],
                 sums: Callable[[], Tensor]) -> tuple[Tensor, Optional[Tensor]]:
        late = self._is_late(record)
        if not self.shared and not late:
            gradient, both = moments()
            return gradient.to(parameter.dtype), both
        by_group = sums().to(statistics_dtype(parameter))
        if late:
            assert record is not None
            record.current_pass(self.groups).add(by_group)
        return by_group.sum(0).to(parameter.dtype), None if late else by_group

    def counts(self, like: Tensor) -> Tensor:
        result = torch.full((2,), self.part * self.examples, dtype=torch.float64, device=like.device)
        result[1] = self.part * self.groups.number
        return result

    def rows(self, parameter: Tensor, rows: Tensor, gradient: Optional[Tensor] = None,
             of_bias: bool = False) -> tuple[Tensor, Optional[Tensor]]:
        """Of contributions by example, [M, *sizes of the parameter]; their sum is `gradient`, where it is known."""
        rows = rows.to(statistics_dtype(parameter))

        def moments() -> tuple[Tensor, Tensor]:
            both = self.groups.moments(self.groups.sums(rows))
            return both[0].clone() if gradient is None else gradient, both

        deliver = self.bias if of_bias else self.weight
        return deliver(parameter, moments, lambda: self.groups.sums(rows).clone())
