"""The random numbers of the C++ program: pure functions of (seed, purpose, step, index), by Philox 4x32-10."""
from __future__ import annotations

import torch
from torch import Tensor

NOISE, SIGNS = 4, 5  # Purpose of include/covnoise/ops/philox.h
NORMAL, SIGN = 0, 1  # distributions of fill_random
BLOCK = 4            # numbers per block of a stream
ALIGNMENT = 16       # elements to which the program aligns each parameter of its flat buffer


def purpose(kind: int, shard: int = 0) -> int:
    """The stream of a shard of the batch; that of shard 0 is the whole batch's."""
    return kind + (shard << 8)


def offsets(sizes: list[int]) -> list[int]:
    """Where parameters of these sizes begin in the program's flat buffer."""
    result, end = [], 0
    for size in sizes:
        result.append(end)
        end = -(-(end + size) // ALIGNMENT) * ALIGNMENT
    return result


def normals(like: Tensor, seed: int, stream: int, step: int, offset: int) -> Tensor:
    """Standard normals offset, offset + 1, ... of the stream, as `like`."""
    out = torch.empty_like(like, memory_format=torch.contiguous_format)
    torch.ops.covnoise.fill_random(out, NORMAL, seed, stream, step, offset // BLOCK)
    return out


def normals_of_variance(variance: Tensor, seed: int, stream: int, step: int, offset: int) -> Tensor:
    """sqrt(variance) times the normals."""
    variance = variance.contiguous()
    out = torch.empty_like(variance)
    torch.ops.covnoise.fill_normal_of_variance(out, variance, seed, stream, step, offset // BLOCK)
    return out


def signs(count: int, like: Tensor, seed: int, step: int, first: int, shard: int = 0) -> Tensor:
    """+1 or -1 for the examples first, first + 1, ... of the large batch, or of a shard of it."""
    begin = first // BLOCK
    out = like.new_empty(first - begin * BLOCK + count)
    torch.ops.covnoise.fill_random(out, SIGN, seed, purpose(SIGNS, shard), step, begin)
    return out[first - begin * BLOCK:]
