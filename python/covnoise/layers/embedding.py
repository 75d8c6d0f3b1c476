"""Embeddings of tokens [M, ...]: an example's contribution to a row is the sum of dy over its tokens of that row."""
from __future__ import annotations

from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from .._groups import Groups
from .._delivery import delivery_of
from .._record import compiling, statistics_dtype
from .._recorded import Recorded


def group_sums(tokens: Tensor, dy: Tensor, groups: Groups, rows: int) -> tuple[Tensor, Tensor, Tensor]:
    """Adds dy over equal (group, token). Returns the sums [N, D] (N tokens; unused ones are zero), the token [N] of
    each, and its group [N]. All shapes are known beforehand."""
    positions = tokens[0].numel()
    group = torch.arange(groups.examples, device=tokens.device).div(groups.size, rounding_mode="floor")
    keys = (group.repeat_interleave(positions) * rows + tokens.reshape(-1))
    keys, order = keys.sort()
    starts = torch.ones_like(keys)
    starts[1:] = (keys[1:] != keys[:-1]).to(keys.dtype)
    segment = starts.cumsum(0) - 1
    sums = torch.zeros_like(dy).index_add_(0, segment, dy[order])
    key_of = torch.zeros_like(keys).scatter_(0, segment, keys)
    return sums, key_of % rows, key_of.div(rows, rounding_mode="floor")


class EmbeddingFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tokens: Tensor, weight: Tensor, weight_leaf: Optional[Tensor], bias_leaf: None, count: Tensor,
                padding: int, *plan: Any) -> Tensor:
        ctx.save_for_backward(tokens, weight)
        ctx.padding, ctx.plan = padding, plan
        return F.embedding(tokens, weight)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Optional[Tensor], ...]:
        tokens, weight = ctx.saved_tensors
        delivery = delivery_of(ctx.plan)
        groups, rows = delivery.groups, weight.shape[0]
        flat = dy.reshape(-1, weight.shape[1]).to(statistics_dtype(weight))
        if ctx.padding >= 0:
            flat = flat * (tokens.reshape(-1, 1) != ctx.padding)
        by_group, token, group = group_sums(tokens, flat, groups, rows)

        def moments() -> tuple[Tensor, Tensor]:
            both = flat.new_zeros((2, *weight.shape))
            both[0].index_add_(0, token, by_group)
            both[1].index_add_(0, token, by_group.square() * groups.weights(by_group)[group])
            return both[0].clone(), both

        def sums() -> Tensor:
            result = flat.new_zeros((groups.number * rows, weight.shape[1]))
            return result.index_add_(0, group * rows + token, by_group).reshape(groups.number, *weight.shape)

        dweight, statistics = delivery.weight(weight, moments, sums)
        return (None, dweight, *delivery.leaves(statistics, None), *[None] * (1 + len(ctx.plan)))


def are_positions(tokens: Tensor) -> bool:
    """Whether a vector is 0, 1, 2, ...: positions that all examples share, not one token of each example."""
    if tokens.dim() != 1 or len(tokens) < 2:
        return False
    return bool((tokens == torch.arange(len(tokens), device=tokens.device)).all())


class RecordedEmbedding(Recorded):
    def record(self, tokens: Tensor) -> Any:
        if not compiling() and are_positions(tokens):
            self.statistics.measure_between(self.records(), f"'{self.name}' is called with the positions 0, 1, 2, ... "
                                            "of all examples")
            self.measured_elsewhere = True
            return self.plain(tokens)
        call = self.start(tokens)
        if call is None:
            return self.plain(tokens)
        padding = -1 if self.module.padding_idx is None else self.module.padding_idx
        return EmbeddingFunction.apply(tokens, self.module.weight, *call.leaves, padding, *call.plan)
