"""Gradients as backward passes accumulate them."""
from __future__ import annotations

from typing import Any, Callable

import torch
from torch import Tensor, nn


def accumulation_node(leaf: Tensor) -> Any:
    """The node of a backward pass that adds to `leaf.grad`; autograd keeps it only as long as somebody else does."""
    with torch.enable_grad():
        return leaf.expand_as(leaf).grad_fn.next_functions[0][0]


class Witness:
    """A leaf that takes part in backward passes and gets no gradient: says whether they accumulate any."""

    def __init__(self, device: torch.device) -> None:
        self.leaf = torch.zeros((), device=device).requires_grad_()
        self._node = accumulation_node(self.leaf)

    def accumulates(self) -> bool:
        """In a backward pass; the gradients of torch.autograd.grad are not accumulated."""
        return bool(torch._C._will_engine_execute_node(self._node))


def on_accumulation(parameter: nn.Parameter, see: Callable[[Tensor], None]) -> Callable[[], None]:
    """Calls `see` with what each backward pass adds to `parameter.grad`; the result ends that.

    A hook of the parameter itself would, since torch 2.0, also see the gradients of torch.autograd.grad. Those never
    reach the node that accumulates."""
    node = accumulation_node(parameter)

    def hook(_: Any, gradients: tuple[Tensor, ...]) -> None:
        see(gradients[0].detach())

    handle = node.register_hook(hook)

    def remove(_: Any = node) -> None:  # keeps the node, and with it the hook, alive
        handle.remove()

    return remove
