"""What is recorded of a parameter."""
from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor, nn

from ._groups import Groups


COMPILES = hasattr(getattr(torch, "compiler", None), "is_compiling")


def leaf(sizes: tuple[int, ...], like: Tensor, dtype: torch.dtype) -> Tensor:
    """A tensor without memory of its own whose .grad collects what a backward pass returns for it."""
    return torch.zeros((), dtype=dtype, device=like.device).expand(sizes).requires_grad_()


def statistics_dtype(parameter: Tensor) -> torch.dtype:
    """At least float32; without torch.promote_types, which costs as much as an operator."""
    return torch.float32 if parameter.dtype in (torch.bfloat16, torch.float16) else parameter.dtype


def compiling() -> bool:
    """Whether torch.compile is tracing; PyTorch 1.13 has no torch.compile."""
    return bool(torch.compiler.is_compiling()) if COMPILES else False


class ParameterRecord:
    """Sums over the groups of a parameter's contributions, [2, *sizes], as _groups.Groups defines them.

    A parameter that is used by several calls of one pass (`shared`) first needs each group's sum over the calls,
    S [G, *sizes]; `finish` squares it.

    `total` is what backward passes gave without autograd's help, and `leaf.grad` what compiled ones gave.
    """

    def __init__(self, name: str, parameter: nn.Parameter, estimator: str) -> None:
        self.names = [name]
        self.parameter = parameter
        self.estimator = estimator
        self.shared = False
        self.leaf = self._new_leaf()
        self.total: Optional[Tensor] = None
        self.open: list[OpenPass] = []  # passes of a shared parameter that are not squared yet

    def _new_leaf(self) -> Tensor:
        return leaf((2, *self.parameter.shape), self.parameter, statistics_dtype(self.parameter))

    def _zeros(self) -> Tensor:
        return torch.zeros((2, *self.parameter.shape), dtype=statistics_dtype(self.parameter),
                           device=self.parameter.device)

    def target(self, groups: Groups, shared: bool) -> Optional[Tensor]:
        """The leaf that a call's statistics go to, by autograd; nothing for a frozen parameter."""
        if not self.parameter.requires_grad:
            return None
        if self.leaf.device != self.parameter.device or self.leaf.dtype != statistics_dtype(self.parameter):
            self.leaf = self._new_leaf()  # the model was moved
        if not shared:
            return self.leaf
        return self.current_pass(groups).sums

    def current_pass(self, groups: Groups) -> OpenPass:
        if not self.open or self.open[-1].ended:
            self.open.append(OpenPass(self, groups))
        return self.open[-1]

    def belongs_to_one_pass(self, module: object) -> bool:
        """Whether a compiled backward pass of the module is the first one of an open pass. A compiled model does not begin
        another one by itself, so the sums of two would be squared together."""
        for each in self.open:
            if id(module) not in each.backward_of:
                each.backward_of.add(id(module))
                return True
        return not self.open

    def end_pass(self) -> None:
        if self.open:
            self.open[-1].ended = True

    def add(self, moments: Tensor) -> None:
        """Those of a call; the tensor is the record's own from now on."""
        self.total = moments if self.total is None else self.total.add_(moments)

    def finish(self) -> None:
        """Squares the sums over the calls of each pass whose backward pass has run."""
        for each in [each for each in self.open if each.sums.grad is not None]:
            self.add(each.groups.moments(each.sums.grad))
            self.open.remove(each)

    def collected(self) -> Tensor:
        """[2, *sizes]."""
        compiled = self.leaf.grad
        if compiled is not None:
            return compiled if self.total is None else self.total + compiled
        return self._zeros() if self.total is None else self.total

    def clear(self) -> None:
        """Passes whose backward pass has not run stay open: zero_grad may be called between the two."""
        self.total = self.leaf.grad = None
        self.open = [each for each in self.open if each.sums.grad is None]


class OpenPass:
    """The groups' sums S [G, *sizes] of one pass, collected by a leaf."""

    def __init__(self, record: ParameterRecord, groups: Groups) -> None:
        self.groups = groups
        self.sums = leaf((groups.number, *record.parameter.shape), record.parameter,
                         statistics_dtype(record.parameter))
        self.ended = False
        self.backward_of: set[int] = set()  # modules, in compiled backward passes

    def add(self, sums: Tensor) -> None:
        """Of a call that was made before the second one showed that the parameter is shared."""
        self.sums.grad = sums if self.sums.grad is None else self.sums.grad + sums
