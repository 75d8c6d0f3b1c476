"""attach(model): statistics of an unchanged nn.Module."""
from __future__ import annotations

from typing import Any, Callable, Optional

import torch
from torch import nn

from ._between import BetweenPasses
from ._checks import check_whole
from ._record import ParameterRecord
from ._recorded import Recorded
from .ghost_norm import GhostBatchNorm, RecordedGhostBatchNorm
from .layers.convolution import RecordedConvolution
from .layers.embedding import RecordedEmbedding
from .layers.linear import RecordedLinear
from .layers.normalisation import RecordedBatchNorm, RecordedGroupNorm, RecordedLayerNorm
from .statistics import LOSSES, Statistics, first_batch_size

ESTIMATORS = ("exact", "ghost", "micro")

# How a layer is recorded. A subclass counts as its base if it has the same forward.
LAYERS: list[tuple[type[nn.Module], type[Recorded]]] = [
    (nn.Linear, RecordedLinear),
    (nn.Conv1d, RecordedConvolution),
    (nn.Conv2d, RecordedConvolution),
    (nn.BatchNorm1d, RecordedBatchNorm),
    (nn.BatchNorm2d, RecordedBatchNorm),
    (nn.BatchNorm3d, RecordedBatchNorm),
    (GhostBatchNorm, RecordedGhostBatchNorm),
    (nn.LayerNorm, RecordedLayerNorm),
    (nn.GroupNorm, RecordedGroupNorm),
    (nn.Embedding, RecordedEmbedding),
]

# Modules that use the parameters of their children without calling them.
OPAQUE: tuple[type[nn.Module], ...] = (nn.MultiheadAttention,)


class RootForward:
    """Takes the place of the model's forward: tells the statistics that a new batch begins."""

    def __init__(self, statistics: Statistics, module: nn.Module) -> None:
        self.statistics = statistics
        self.module = module
        self.before: Optional[Callable[..., Any]] = module.__dict__.get("forward")

    def begin(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.statistics.begin_pass(first_batch_size(args, kwargs))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.statistics.recording():
            self.begin(args, kwargs)
        if self.before is not None:  # a recorded layer, or what somebody has set on the instance
            return self.before(*args, **kwargs)
        return type(self.module).forward(self.module, *args, **kwargs)

    __reduce__ = Recorded.__reduce__
    __deepcopy__ = Recorded.__deepcopy__


class PartForward(RootForward):
    """The same for a module inside of a model without recorded layers, whose batch may be the model's."""

    def begin(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.statistics.meets(first_batch_size(args, kwargs))


def recorder_of(module: nn.Module) -> Optional[type[Recorded]]:
    """How to record the module's parameters; nothing for one that covnoise does not know."""
    if isinstance(module, torch.jit.ScriptModule) or not _has_own_forward(module):
        return None
    for base, recorder in LAYERS:
        if isinstance(module, base) and type(module).forward is base.forward:
            return recorder if _is_plain(module) else None
    return None


def _has_own_forward(module: nn.Module) -> bool:
    """Whether the class's forward is used, not one that somebody has set on the instance."""
    set_on_instance = module.__dict__.get("forward")
    return set_on_instance is None or getattr(set_on_instance, "__func__", None) is type(module).forward


def _is_plain(module: nn.Module) -> bool:
    """Whether the weight is a parameter (not the result of a parametrization) with an ordinary gradient."""
    if not isinstance(module._parameters.get("weight"), nn.Parameter):
        return False
    if isinstance(module, nn.Embedding):
        return not (module.sparse or module.scale_grad_by_freq or module.max_norm is not None)
    return True


def _owners(model: nn.Module) -> list[tuple[str, nn.Module, Optional[type[Recorded]]]]:
    """(name, module, how to record it) of every module, parents first."""
    found = []
    opaque: tuple[str, ...] = ()
    for name, module in model.named_modules():
        inside = any(name.startswith(prefix) for prefix in opaque)
        if isinstance(module, OPAQUE):
            opaque += (f"{name}." if name else "",)
        found.append((name, module, None if inside else recorder_of(module)))
    return found


def attach(model: nn.Module, estimator: str = "ghost", group: int = 128, *, loss: str = "mean",
           scaler: Any = None) -> Statistics:
    """Makes the model's backward passes record per-example statistics; nothing else about the model changes.

    estimator  "ghost": variance between groups of `group` consecutive examples, unbiased also with batch normalisation;
               "exact": mean_i g_i^2 of the examples' contributions; "micro": variance between backward passes.
    group      examples per group of the ghost estimator; a last, smaller group counts as it is.
    loss       whether the gradient that reaches the optimizer is the "mean" or the "sum" over the examples of all
               backward passes of a step (divide the loss by the number of passes when accumulating means).
    scaler     the GradScaler that scales the losses, if there is one.

    The first dimension of every layer's input is the batch; consecutive examples form groups. Parameters of modules
    that covnoise does not know are measured between backward passes. `stats.estimators()` says how each one is measured.
    """
    _check(model, estimator, group, loss)
    statistics = Statistics(model, estimator, group, loss, scaler)
    records: dict[int, ParameterRecord] = {}
    unknown: dict[int, tuple[list[str], nn.Parameter]] = {}
    for prefix, module, recorder in _owners(model):
        named = {key: (f"{prefix}.{key}" if prefix else key, value)
                 for key, value in module._parameters.items() if value is not None}
        if not named:
            continue
        if recorder is None or estimator == "micro":
            for name, parameter in named.values():
                unknown.setdefault(id(parameter), ([], parameter))[0].append(name)
            continue
        for name, parameter in named.values():
            record = records.get(id(parameter))
            if record is None:
                records[id(parameter)] = ParameterRecord(name, parameter, estimator)
            else:
                record.names.append(name)
                record.shared = True
        weight, bias = (records.get(id(module._parameters.get(key))) for key in ("weight", "bias"))
        statistics.layers.append(recorder(statistics, prefix, module, weight, bias))
    for key, (names, parameter) in unknown.items():
        if key in records:  # also used by a layer that could be recorded
            names += records.pop(key).names
        statistics.between.append(BetweenPasses(names, parameter, statistics))
    statistics.recorded = list(records.values())
    _install(statistics)
    return statistics


def _install(statistics: Statistics) -> None:
    for record in statistics.recorded:
        if record.parameter.requires_grad:
            statistics.expect(record)
    known = {id(record) for record in statistics.recorded}
    for layer in statistics.layers:
        if any(id(record) in known for record in layer.records()):
            _replace_forward(layer.module, layer, statistics)
    if not statistics.layers:
        for module in _parts(statistics):
            _replace_forward(module, PartForward(statistics, module), statistics)
    _replace_forward(statistics.model, RootForward(statistics, statistics.model), statistics)


def _parts(statistics: Statistics) -> list[nn.Module]:
    """The modules inside of the model that have parameters and whose forward can be replaced."""
    return [module for module in statistics.model.modules() if module is not statistics.model
            and not isinstance(module, torch.jit.ScriptModule) and any(True for _ in module.parameters(recurse=False))]


def _replace_forward(module: nn.Module, forward: Any, statistics: Statistics) -> None:
    before = module.__dict__.get("forward")

    def undo() -> None:
        if before is None:
            module.__dict__.pop("forward", None)
        else:
            module.__dict__["forward"] = before

    module.__dict__["forward"] = forward
    statistics._undo.append(undo)


def _check(model: nn.Module, estimator: str, group: int, loss: str) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"covnoise: attach takes an nn.Module, not {type(model).__name__}")
    if estimator not in ESTIMATORS:
        raise ValueError(f"covnoise: estimator '{estimator}' is not known; known: {', '.join(ESTIMATORS)}")
    if loss not in LOSSES:
        raise ValueError(f"covnoise: loss '{loss}' is not known; known: {', '.join(LOSSES)}")
    check_whole("group", group)
    if isinstance(model, nn.DataParallel):
        raise ValueError("covnoise: nn.DataParallel copies modules, which covnoise cannot follow; use "
                         "DistributedDataParallel")
    if isinstance(model, torch.jit.ScriptModule):
        raise ValueError("covnoise: a scripted model has no Python modules; attach before torch.jit.script")
    if isinstance(getattr(model, "_orig_mod", None), nn.Module):
        raise ValueError("covnoise: attach to the model that torch.compile was given, before or after it: attach(model), "
                         "torch.compile(model)")
    name = attached_module(model)
    if name is not None:
        raise ValueError(f"covnoise: '{name}' is already attached; detach() first")


def attached_module(model: nn.Module) -> Optional[str]:
    """The name of a module that statistics are attached to; None if there is none."""
    for name, module in model.named_modules():
        if isinstance(module.__dict__.get("forward"), (Recorded, RootForward)):
            return name or type(model).__name__
    return None
