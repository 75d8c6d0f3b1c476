"""The backward pass' side of a recorded call."""
from __future__ import annotations

from typing import Callable, Optional

import torch
from torch import Tensor

from ._groups import Groups
from ._record import ParameterRecord, statistics_dtype
from ._recorded import Recorded


def refuse_second_derivative() -> None:
    """In a backward pass."""
    if torch.is_grad_enabled():
        raise RuntimeError("covnoise: the backward pass of a recorded layer cannot be differentiated again; detach() "
                           "the statistics for second derivatives")


def in_type_of(parameter: Tensor, gradient: Tensor) -> Tensor:
    return gradient if gradient.dtype == parameter.dtype else gradient.to(parameter.dtype)


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
        """The gradients of weight, bias and their leaves; nothing for a parameter that is not given. moments(weight,
        bias) calls an operator that gives gradient and moments of those that it is asked for."""
        none = (None, None)
        if self.by_group():  # perhaps only one of them
            of_weight = none if weight is None else self.weight(weight, lambda: moments(True, False)[:2], weight_sums)
            of_bias = none if bias is None else self.bias(bias, lambda: moments(False, True)[2:], bias_sums)
            return of_weight[0], of_bias[0], of_weight[1], of_bias[1]
        values = moments(weight is not None, bias is not None)
        of_weight = none if weight is None else (in_type_of(weight, values[0]), values[1])
        of_bias = none if bias is None else (in_type_of(bias, values[2]), values[3])
        return of_weight[0], of_bias[0], of_weight[1], of_bias[1]

    def counts(self, like: Tensor) -> Optional[Tensor]:
        """The gradient of the count's leaf: examples and groups. Nothing if the host counts them, which costs no launch
        and no waiting; a compiled backward pass cannot."""
        if self.owner is not None:
            if self.part:
                self.owner.add_counts(self.examples, self.groups.number)
            return None
        result = torch.full((2,), self.part * self.examples, dtype=torch.float64, device=like.device)
        result[1] = self.part * self.groups.number
        return result

    def group_sums(self, parameter: Tensor, sums: Tensor, moments: Tensor, gradient: Tensor,
                   of_bias: bool = False) -> tuple[Tensor, Optional[Tensor]]:
        """Of the groups' sums S [G, n], their moments [2, n] and their sum, a tensor of its own, as an operator gives
        them."""
        def by_operator() -> tuple[Tensor, Tensor]:
            both = moments.reshape(2, *parameter.shape).to(statistics_dtype(parameter))
            return gradient.reshape(parameter.shape), both

        deliver = self.bias if of_bias else self.weight
        return deliver(parameter, by_operator, lambda: sums.reshape(-1, *parameter.shape))
