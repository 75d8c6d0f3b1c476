"""The groups of examples whose gradients are squared."""
from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Groups(NamedTuple):
    """`examples` consecutive examples in groups of `size`, the last one smaller where they are not a multiple.

    Group j of m_j examples has the summed contribution S_j. Both estimators of the diagonal follow from two sums that
    add up over micro-batches, whatever the sizes of the groups:

        moments = [sum_j S_j, sum_j S_j^2 / m_j]
    """

    examples: int
    size: int

    @property
    def whole(self) -> int:
        return self.examples // self.size

    @property
    def rest(self) -> int:
        return self.examples % self.size

    @property
    def number(self) -> int:
        return self.whole + (1 if self.rest else 0)

    @property
    def split(self) -> int:
        """Examples in whole groups."""
        return self.examples - self.rest

    def sums(self, rows: Tensor) -> Tensor:
        """[M, ...] -> S [G, ...]."""
        if self.size == 1:
            return rows
        parts = []
        if self.whole:
            parts.append(rows[:self.split].reshape(self.whole, self.size, *rows.shape[1:]).sum(1))
        if self.rest:
            parts.append(rows[self.split:].sum(0, keepdim=True))
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def sizes(self, like: Tensor) -> Tensor:
        """m [G, 1, ...], to divide S."""
        m = like.new_full((self.number,), self.size)
        if self.rest:
            m[-1] = self.rest
        return m.reshape(-1, *[1] * (like.dim() - 1))

    def moments(self, sums: Tensor) -> Tensor:
        """S [G, ...] -> [2, ...]."""
        squares = sums.square()
        return torch.stack((sums.sum(0), (squares if self.size == 1 else squares / self.sizes(sums)).sum(0)))
