"""What compiled backward passes count."""
from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ._accumulation import on_accumulation
from ._groups import Groups

if TYPE_CHECKING:
    from ._recorded import Recorded


def count_of_call(examples: int, groups: Groups, part: float) -> Tensor:
    """[M, G, M^2] of a module's call with M examples in G groups, times the part of them that it counts: the gradient of
    CompiledCount's leaf. On the host, so that nobody has to wait for a device to read it."""
    values = (part * examples, part * groups.number, part * examples * examples)
    return torch.stack([torch.full((), value, dtype=torch.float64, device="cpu") for value in values])


class CompiledCount:
    """Adds up a module's examples and groups over its compiled backward passes. Such a pass runs none of our Python code:
    what it counts reaches us as the gradient of `leaf`, the sum of count_of_call over the calls of one pass."""

    def __init__(self, module: Recorded) -> None:
        self.leaf = torch.zeros((), dtype=torch.float64, device="cpu").expand(3).requires_grad_()
        owner = weakref.ref(module)  # autograd keeps the hook: with the module in it, neither would ever be freed

        def see(count: Tensor) -> None:
            counted = owner()
            if counted is not None:
                _add(counted, *count.tolist())

        self._hook = on_accumulation(self.leaf, see)  # lives as long as this


def _add(module: Recorded, examples: float, groups: float, squares: float) -> None:
    """Calls that together do not count the examples of one, whose sum of M^2 is not (sum of M)^2, are refused by the next
    measurement: here, inside of a backward pass, an error would leave half of it. So is a second pass of parameters that
    several calls share."""
    module.examples += round(examples)
    module.groups += round(groups)
    apart = [record.belongs_to_one_pass(module) for record in module.records() if record.shared]
    if not all(apart):
        module.refusal = (f"covnoise: '{module.name}' shares parameters in a compiled model, whose backward passes cannot be "
                          "told apart; make one before each step, or do not compile the model's own forward")
    if round(squares) != round(examples)**2:
        module.refusal = (f"covnoise: a compiled backward pass of '{module.name}' had {round(examples)} examples in calls of "
                          f"{round(squares / examples)}; a module that is called several times must run once without "
                          "torch.compile so that covnoise notices")
