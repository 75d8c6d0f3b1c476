"""The groups of examples whose gradients are squared."""
from __future__ import annotations

import torch
from torch import Tensor


class Groups:
    """`examples` consecutive examples in groups of `size`, the last one smaller where they are not a multiple.

    Group j of m_j examples has the summed contribution S_j. Both estimators of the diagonal follow from two sums that
    add up over micro-batches, whatever the sizes of the groups:

        moments = [sum_j S_j, sum_j S_j^2 / m_j]
    """

    def __init__(self, examples: int, size: int) -> None:
        self.examples, self.size = examples, size
        self.whole, self.rest = examples // size, examples % size
        self.split = examples - self.rest  # examples in whole groups
        self.number = self.whole + (1 if self.rest else 0)

    def parts(self) -> list[tuple[slice, int]]:
        """Examples of groups of one size, and that size: of the whole groups, and of the smaller one."""
        parts = [(slice(0, self.split), self.size), (slice(self.split, self.examples), self.rest)]
        return [part for part in parts if part[0].start < part[0].stop]

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
        if self.rest:
            return torch.stack((sums.sum(0), (squares / self.sizes(sums)).sum(0)))
        total = squares.sum(0)
        return torch.stack((sums.sum(0), total if self.size == 1 else total / self.size))
