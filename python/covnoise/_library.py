"""Loads the operators, torch.ops.covnoise.*, and teaches PyTorch their shapes."""
from __future__ import annotations

import os
import pathlib

import torch

NAME = "libcovnoise_ops.so"


def library_path() -> pathlib.Path:
    """The library beside this file (an installed package), or the one that COVNOISE_OPS names (a build folder)."""
    beside = pathlib.Path(__file__).with_name(NAME)
    named = os.environ.get("COVNOISE_OPS")
    path = pathlib.Path(named) if named else beside
    if not path.is_file():
        raise ImportError(f"covnoise: {path} does not exist; run `pip install .` in covnoise's repository, or set "
                          f"COVNOISE_OPS to the {NAME} of a build")
    return path


def load() -> None:
    path = library_path()
    try:
        torch.ops.load_library(str(path))
    except OSError as error:
        raise ImportError(f"covnoise: {path} was built for another PyTorch than {torch.__version__} "
                          f"({torch.__file__}); run `pip install .` again with this one: {error}") from error
    _register_shapes()


def _weight_gradient(x: torch.Tensor, dz: torch.Tensor, squares: torch.Tensor, weight_sizes: list[int],
                     *_: object) -> torch.Tensor:
    return x.new_empty(weight_sizes, dtype=squares.dtype)


def _linear_gradient_squares(a: torch.Tensor, dz: torch.Tensor, squares: torch.Tensor, _: int) -> torch.Tensor:
    return a.new_empty((dz.shape[1], a.shape[1]), dtype=squares.dtype)


def _linear_gradient(a: torch.Tensor, dz: torch.Tensor) -> torch.Tensor:
    return a.new_empty((dz.shape[1], a.shape[1]), dtype=torch.promote_types(a.dtype, torch.float32))


def _bias_gradient(dz: torch.Tensor, squares: torch.Tensor, *_: object) -> torch.Tensor:
    return dz.new_empty((dz.shape[1],), dtype=squares.dtype)


def _nothing(*_: object) -> None:
    return None


def _register_shapes() -> None:
    """Kernels of the Meta key: what FakeTensor, and so torch.compile, runs in place of an operator."""
    global _shapes
    _shapes = torch.library.Library("covnoise", "IMPL")
    for name, shape in {
        "conv2d_weight_gradient_squares": _weight_gradient,
        "linear_weight_gradient_squares": _linear_gradient_squares,
        "linear_weight_gradient": _linear_gradient,
        "bias_gradient_squares": _bias_gradient,
        "fill_random": _nothing,
        "fill_normal_of_variance": _nothing,
        "group_variance": _nothing,
    }.items():
        _shapes.impl(name, shape, "Meta")


_shapes: torch.library.Library
