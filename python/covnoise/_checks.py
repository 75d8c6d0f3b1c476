"""What callers' numbers must be."""
from __future__ import annotations

import math
from numbers import Integral
from typing import Any


def check_whole(name: str, value: Any) -> None:
    if not isinstance(value, Integral) or int(value) < 1:
        raise ValueError(f"covnoise: {name} = {value} must be a whole number of at least 1")


def check_factor(name: str, value: Any) -> None:
    if not (value >= 0 and math.isfinite(value)):
        raise ValueError(f"covnoise: {name} = {value} must be finite and at least 0")
