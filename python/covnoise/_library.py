"""Loads the operators, torch.ops.covnoise.*, for this PyTorch."""
from __future__ import annotations

import os
import pathlib

import torch

from . import _shapes

NAME = "libcovnoise_ops.so"


def library_path() -> pathlib.Path:
    """The library that COVNOISE_OPS names (of a build folder), or the one beside this file (of an installed package)."""
    named = os.environ.get("COVNOISE_OPS")
    path = pathlib.Path(named) if named else pathlib.Path(__file__).with_name(NAME)
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
    _shapes.register()
