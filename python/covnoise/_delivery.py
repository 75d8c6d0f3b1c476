"""The backward pass' side of a recorded call."""
from __future__ import annotations

from typing import Callable, Optional, Sequence

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
        if self.shared or self._is_late(record):
            return self._deliver_sums(record, parameter, sums)
        gradient, both = moments()
        return in_type_of(parameter, gradient), both

    def _deliver_sums(self, record: Optional[ParameterRecord], parameter: Tensor,
                      sums: Callable[[], Tensor]) -> tuple[Tensor, Optional[Tensor]]:
        by_group = sums().to(statistics_dtype(parameter))
        late = self._is_late(record)
        if late:
            assert record is not None
            record.current_pass(self.groups).add(by_group)
        return by_group.sum(0).to(parameter.dtype), None if late else by_group

    def layer(self, weight: Optional[Tensor], bias: Optional[Tensor],
              moments: Callable[[bool, bool], Sequence[Tensor]], weight_sums: Callable[[], Tensor],
              bias_sums: Callable[[], Tensor]) -> tuple[Optional[Tensor], ...]:
        """The gradients of weight, bias and their leaves; nothing for a parameter that is not given. One operator,
        moments(weight, bias), gives gradient and moments of those that it is asked for."""
        owner = self.owner
        records = (None, None) if owner is None else (owner.weight, owner.bias)
        by_moments = [parameter is not None and not self.shared and not self._is_late(record)
                      for parameter, record in zip((weight, bias), records)]
        values = moments(by_moments[0], by_moments[1]) if any(by_moments) else ()
        both: list[tuple[Optional[Tensor], Optional[Tensor]]] = []
        for i, (parameter, sums) in enumerate(((weight, weight_sums), (bias, bias_sums))):
            if parameter is None:
                both.append((None, None))
            elif by_moments[i]:
                both.append((in_type_of(parameter, values[2 * i]), values[2 * i + 1]))
            else:
                both.append(self._deliver_sums(records[i], parameter, sums))
        return both[0][0], both[1][0], both[0][1], both[1][1]

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
