"""The backward pass' side of a recorded call."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Optional

import torch
from torch import Tensor

from ._compiled import count_of_call
from ._groups import Groups
from ._record import ParameterRecord, statistics_dtype

if TYPE_CHECKING:
    from ._recorded import Recorded


def refuse_second_derivative() -> None:
    """In a backward pass."""
    if torch.is_grad_enabled():
        raise RuntimeError("covnoise: the backward pass of a recorded layer cannot be differentiated again; detach() "
                           "the statistics for second derivatives")


def in_type_of(parameter: Tensor, gradient: Tensor) -> Tensor:
    return gradient if gradient.dtype == parameter.dtype else gradient.to(parameter.dtype)


def delivery_of(plan: tuple[Any, ...]) -> Delivery:
    """At the beginning of a backward pass: the plan's, or, of a compiled pass, one made from its values."""
    refuse_second_derivative()
    delivery: Delivery = plan[0] if len(plan) == 1 else Delivery(*plan)
    if delivery.owner is not None:
        delivery.owner.backward_seen = True
    return delivery


class Delivery:
    """The backward pass' side of a call: turns contributions into the gradients of parameter and leaf.

    `part` is the share of the examples that this call counts, so that the calls of a pass count them once. A compiled
    pass has no `owner`: autograd takes what it records to leaves. So it does with the sums of a `shared` parameter.
    All else goes to the owner's records directly, which costs less."""

    def __init__(self, examples: int, size: int, shared: bool, part: float, owner: Optional[Recorded] = None) -> None:
        self.examples, self.shared, self.part, self.owner = examples, shared, part, owner
        self.groups = Groups(examples, size)

    def by_group(self) -> bool:
        """Whether a leaf wants each group's sum instead of moments."""
        return self.shared or (self.owner is not None and self.owner.shares())

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
            return in_type_of(parameter, gradient), both
        by_group = sums().to(statistics_dtype(parameter))
        if late:
            assert record is not None
            record.current_pass(self.groups).add(by_group)
        return by_group.sum(0).to(parameter.dtype), None if late else by_group

    def layer(self, weight: Optional[Tensor], bias: Optional[Tensor],
              moments: Callable[[bool, bool], tuple[Tensor, Tensor, Tensor, Tensor]], weight_sums: Callable[[], Tensor],
              bias_sums: Callable[[], Tensor]) -> tuple[Optional[Tensor], ...]:
        """The gradients of weight, bias and of all leaves; nothing for a parameter that is not given. moments(weight,
        bias) calls an operator that gives gradient and moments of those that it is asked for."""
        if self.by_group():  # perhaps only one of them
            none = (None, None)
            of_weight = none if weight is None else self.weight(weight, lambda: moments(True, False)[:2], weight_sums)
            of_bias = none if bias is None else self.bias(bias, lambda: moments(False, True)[2:], bias_sums)
            return of_weight[0], of_bias[0], *self.leaves(of_weight[1], of_bias[1])
        dweight, weight_moments, dbias, bias_moments = moments(weight is not None, bias is not None)
        leaves = self.leaves(None if weight is None else weight_moments, None if bias is None else bias_moments)
        return (None if weight is None else in_type_of(weight, dweight),
                None if bias is None else in_type_of(bias, dbias), *leaves)

    def leaves(self, weight: Optional[Tensor], bias: Optional[Tensor]) -> tuple[Optional[Tensor], ...]:
        """The gradients of the leaves of weight, bias and counts, from what is recorded of weight and bias."""
        if self.owner is None:
            return weight, bias, count_of_call(self.examples, self.groups, self.part)
        accumulates = self.owner.witness.accumulates()
        if accumulates and self.part:
            self.owner.examples += self.examples
            self.owner.groups += self.groups.number
        if self.shared:
            return weight, bias, None
        if accumulates:
            self.owner.add(weight, bias)
        return None, None, None
