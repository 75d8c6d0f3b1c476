"""The groups of examples whose gradients are squared."""
from __future__ import annotations

import torch
from torch import Tensor


class Groups:
    """`examples` consecutive examples in groups of `size` (m), the last one smaller where they are not a multiple.

    Group j of m_j examples has the summed contribution S_j. Both estimators of the diagonal follow from two sums that
    add up over micro-batches, whatever the sizes of the groups:

        moments = [sum_j S_j, sum_j (m / m_j) S_j^2]

    Only a smaller group needs a scaling.
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

    def weights(self, like: Tensor) -> Tensor:
        """m / m_j [G, 1, ...], for S."""
        weights = like.new_ones((self.number,))
        if self.rest:
            weights[-1] = self.size / self.rest
        return weights.reshape(-1, *[1] * (like.dim() - 1))

    def moments(self, sums: Tensor) -> Tensor:
        """S [G, ...] -> [2, ...]."""
        squares = sums.square() * self.weights(sums) if self.rest else sums.square()
        return torch.stack((sums.sum(0), squares.sum(0)))
