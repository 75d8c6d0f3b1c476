"""Shapes, types and layouts of the operators' results: what torch.compile runs in place of an operator."""
from __future__ import annotations

from typing import Any, Callable, Optional

import torch
import torch.nn.functional as F
from torch import Tensor

SHAPES: dict[str, Callable[..., Any]] = {}
_library: list[Any] = []  # registrations live as long as this object


def shape_of(function: Callable[..., Any]) -> Callable[..., Any]:
    SHAPES[function.__name__] = function
    return function


def register() -> None:
    """With PyTorch 1.13 as a kernel of the Meta key, which does not know the device of a fake tensor."""
    if hasattr(torch.library, "register_fake"):
        for name, function in SHAPES.items():
            torch.library.register_fake(f"covnoise::{name}", function)
        return
    library = torch.library.Library("covnoise", "IMPL")
    for name, function in SHAPES.items():
        library.impl(name, function, "Meta")
    _library.append(library)


def images(x: Tensor) -> Tensor:
    """In the layout of the device's kernels: channels last on a GPU."""
    return x.contiguous(memory_format=torch.channels_last if x.device.type == "cuda" else torch.contiguous_format)


def like_images(x: Tensor, sizes: Any) -> Tensor:
    return images(x.new_empty(sizes))


@shape_of
def conv2d_weight_gradient_squares(x: Tensor, dz: Tensor, squares: Tensor, weight_sizes: list[int], stride: list[int],
                                   padding: list[int], dilation: list[int], groups: int, examples_per_group: int,
                                   spatial: bool) -> Tensor:
    return squares.new_empty(weight_sizes)


@shape_of
def linear_weight_gradient_squares(a: Tensor, dz: Tensor, squares: Tensor, examples_per_group: int) -> Tensor:
    return squares.new_empty((dz.shape[1], a.shape[1]))


@shape_of
def linear_weight_gradient(a: Tensor, dz: Tensor) -> Tensor:
    return a.new_empty((dz.shape[1], a.shape[1]), dtype=torch.promote_types(a.dtype, torch.float32))


@shape_of
def bias_gradient_squares(dz: Tensor, squares: Tensor, examples_per_group: int, spatial: bool) -> Tensor:
    return squares.new_empty((dz.shape[1],))


def gradients_and_moments(dz: Tensor, weight: Any, bias: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of parameters with these sizes; empty for one without."""
    like = dz.new_empty((0,), dtype=torch.float64 if dz.dtype == torch.float64 else torch.float32)
    sizes = [each for of in (weight, bias) for each in (((0,), (0,)) if of is None else (of, (2, *of)))]
    return like.new_empty(sizes[0]), like.new_empty(sizes[1]), like.new_empty(sizes[2]), like.new_empty(sizes[3])


@shape_of
def conv2d_moments(x: Tensor, dz: Tensor, weight_sizes: list[int], stride: list[int], padding: list[int],
                   dilation: list[int], groups: int, examples_per_group: int, weight: bool,
                   bias: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return gradients_and_moments(dz, weight_sizes if weight else None, (dz.shape[1],) if bias else None)


@shape_of
def linear_moments(a: Tensor, dz: Tensor, examples_per_group: int, weight: bool,
                   bias: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return gradients_and_moments(dz, (dz.shape[-1], a.shape[-1]) if weight else None,
                                 (dz.shape[-1],) if bias else None)


@shape_of
def convolution(x: Tensor, weight: Tensor, bias: Optional[Tensor], stride: list[int], padding: list[int],
                dilation: list[int], groups: int) -> Tensor:
    shift = None if bias is None else bias.to(x.dtype)
    return images(F.conv2d(x, weight.to(x.dtype), shift, stride, padding, dilation, groups))


@shape_of
def convolution_gradients(dz: Tensor, x: Tensor, weight: Tensor, stride: list[int], padding: list[int],
                          dilation: list[int], groups: int, input: bool, kernel: bool) -> tuple[Tensor, Tensor]:
    return (like_images(x, x.shape) if input else x.new_empty((0,)),
            weight.new_empty(weight.shape) if kernel else weight.new_empty((0,)))


@shape_of
def ghost_batch_norm(x: Tensor, residual: Optional[Tensor], weight: Tensor, bias: Tensor, running_mean: Tensor,
                     running_var: Tensor, ghost_batch: int, momentum: float, eps: float,
                     relu: bool) -> tuple[Tensor, Tensor]:
    return like_images(x, x.shape), weight.new_empty((5, x.shape[0] // ghost_batch, x.shape[1]))


@shape_of
def ghost_batch_norm_backward(dy: Tensor, x: Tensor, y: Optional[Tensor], weight: Tensor, statistics: Tensor,
                              ghost_batch: int, relu: bool, residual: bool, weight_squares: Optional[Tensor],
                              bias_squares: Optional[Tensor],
                              examples_per_group: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    dresidual = like_images(x, x.shape) if residual else x.new_empty((0,))
    return like_images(x, x.shape), dresidual, torch.empty_like(weight), torch.empty_like(weight)


@shape_of
def norm_group_sums(dy: Tensor, x: Tensor, mean: Tensor, rstd: Tensor,
                    examples_per_group: int) -> tuple[Tensor, Tensor, Tensor]:
    dtype = torch.promote_types(torch.promote_types(x.dtype, dy.dtype), torch.float32)
    groups = (x.shape[0] + examples_per_group - 1) // examples_per_group
    sizes = ((2, groups, x.shape[2]), (2, x.shape[2]), (2, 2, x.shape[2]))
    return x.new_empty(sizes[0], dtype=dtype), x.new_empty(sizes[1], dtype=dtype), x.new_empty(sizes[2], dtype=dtype)


@shape_of
def load_images(images: Tensor, indices: Tensor, mean: list[float], std: list[float], augment: bool, seed: int,
                epoch: int, type: torch.dtype) -> Tensor:
    return like_images(images.to(type), (indices.shape[0], *images.shape[1:]))


@shape_of
def group_variance(squares: Tensor, mean: Tensor, of_mean: float, factor: float) -> None:
    return None


@shape_of
def sgd_update(*_: Any) -> None:
    return None


@shape_of
def adamw_update(*_: Any) -> None:
    return None


@shape_of
def fill_random(out: Tensor, distribution: int, seed: int, purpose: int, step: int, first: int) -> None:
    return None


@shape_of
def fill_normal_of_variance(out: Tensor, variance: Tensor, seed: int, purpose: int, step: int, first: int) -> None:
    return None


@shape_of
def sample_diagonal(moments: list[Tensor], like: list[Tensor], of_sums: float, factor: float, scales: list[float],
                    seed: int, purpose: int, step: int, firsts: list[int]) -> list[Tensor]:
    return [torch.empty_like(each, dtype=of.dtype) for each, of in zip(like, moments)]


@shape_of
def moment_totals(moments: list[Tensor], weights: list[float]) -> Tensor:
    return moments[0].new_empty((len(weights) // 2,), dtype=torch.float64)
