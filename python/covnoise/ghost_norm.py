"""Batch normalisation with statistics over ghost batches."""
from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.lazy import LazyModuleMixin

from ._checks import check_whole
from ._delivery import delivery_of, refuse_second_derivative
from ._record import compiling
from .layers._operands import autocast_dtype, operand
from .layers.normalisation import Contributions, RecordedBatchNorm, as_rows


class GhostBatchNorm(_BatchNorm):
    """Batch normalisation of [M, C, ...] whose ghost batches of `ghost_batch` consecutive examples have statistics of
    their own, as if each had been a batch: y = weight (x - mean_j) / sqrt(var_j + eps) + bias. A last, smaller ghost
    batch is one of its own. In eval mode it is ordinary batch normalisation with the running statistics."""

    name = "GhostBatchNorm"  # for errors; convert_ghost_batch_norm knows that in the model

    def __init__(self, num_features: int, ghost_batch: int, eps: float = 1e-5, momentum: float = 0.1,
                 device: Any = None, dtype: Any = None) -> None:
        check_whole("ghost_batch", ghost_batch)
        super().__init__(num_features, eps, momentum, affine=True, track_running_stats=True, device=device, dtype=dtype)
        self.ghost_batch = ghost_batch

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"covnoise: ghost batch normalisation takes [M, C, ...], not {list(input.shape)}")

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return super().forward(x)
        return self.normalise(x, (None, None, None), ())

    def normalise(self, x: Tensor, leaves: tuple[Optional[Tensor], ...], plan: tuple[Any, ...]) -> Tensor:
        """In training mode; leaves and plan are those of a recorded call."""
        self._check_input_dim(x)
        self._check_values(x)
        y, mean, var = GhostNormFunction.apply(self.operand(x), self.weight, self.bias, *leaves, self.running_mean,
                                               self.running_var, self.ghost_batch, self.momentum, self.eps, *plan)
        with torch.no_grad():
            if mean is not None:
                self.running_mean.copy_(mean)
                self.running_var.copy_(var)
            self.num_batches_tracked.add_(1)
        return (y if x.dim() == 4 else y.reshape(x.shape)).to(x.dtype)

    def _check_values(self, x: Tensor) -> None:
        if compiling():  # it would guard such a size for every layer; the operator checks it as well
            return
        smallest = x.shape[0] % self.ghost_batch or self.ghost_batch  # examples of the last ghost batch
        if smallest * x.numel() <= x.shape[0] * x.shape[1]:
            raise ValueError(f"covnoise: '{self.name}' got {list(x.shape)}, whose last ghost batch (of {self.ghost_batch}) "
                             "has fewer than two values per channel; use drop_last=True in the DataLoader or another "
                             "ghost batch")

    def operand(self, x: Tensor) -> Tensor:
        """[M, C, H, W] in a type that the operator takes."""
        four = x.reshape(x.shape[0], x.shape[1], *x.shape[2:], *[1] * (4 - x.dim())) if x.dim() <= 4 else x.flatten(3)
        low = four.dtype == torch.bfloat16 and four.is_cuda
        return operand(four) if low or autocast_dtype(x) is None else four.float()

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, ghost_batch={self.ghost_batch}"


def parts_of(examples: int, ghost_batch: int) -> list[tuple[int, int, int]]:
    """(begin, end, ghost batch) of the whole ghost batches, and of a smaller one behind them."""
    rest = examples % ghost_batch
    if rest == 0:  # said so plainly for torch.compile, which would take minutes for sizes like M - M % m of many layers
        return [(0, examples, ghost_batch)]
    whole = [(0, examples - rest, ghost_batch)] if rest < examples else []
    return [*whole, (examples - rest, examples, rest)]


def total(values: list[Tensor]) -> Tensor:
    result = values[0]
    for value in values[1:]:
        result = result + value
    return result


class GhostNormFunction(torch.autograd.Function):
    """Returns y. Changes the running statistics in place; torch.compile, which cannot follow that here, gets the new ones.
    Records where it has leaves."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, weight_leaf: Optional[Tensor],
                bias_leaf: Optional[Tensor], count: Optional[Tensor], running_mean: Tensor, running_var: Tensor,
                ghost_batch: int, momentum: float, eps: float,
                *plan: Any) -> tuple[Tensor, Optional[Tensor], Optional[Tensor]]:
        new = compiling()
        mean, var = (running_mean.clone(), running_var.clone()) if new else (running_mean, running_var)
        outputs, statistics = [], []
        for begin, end, size in parts_of(x.shape[0], ghost_batch):
            y, moments = torch.ops.covnoise.ghost_batch_norm(x[begin:end], None, weight, bias, mean, var, size,
                                                             momentum, eps, False)
            outputs.append(y)
            statistics.append(moments)
        ctx.save_for_backward(x, weight, bias, *statistics)
        ctx.ghost_batch, ctx.plan = ghost_batch, plan
        y = outputs[0] if len(outputs) == 1 else torch.cat(outputs)
        if not new:
            return y, None, None
        ctx.mark_non_differentiable(mean, var)
        return y, mean, var

    @staticmethod
    def backward(ctx: Any, dy: Tensor, dmean: None, dvar: None) -> tuple[Optional[Tensor], ...]:
        refuse_second_derivative()
        x, weight, bias, *statistics = ctx.saved_tensors
        delivery = delivery_of(ctx.plan) if ctx.plan else None
        size = delivery.groups.size if delivery else 0
        fast = delivery is not None and not delivery.by_group() and size in (1, ctx.ghost_batch)
        gradients, dweights, dbiases, squares = [], [], [], []
        for (begin, end, ghost), moments in zip(parts_of(x.shape[0], ctx.ghost_batch), statistics):
            group = 1 if size == 1 else ghost
            part = weight.new_zeros((2, weight.shape[0])) if fast else (None, None)  # [weight, bias]
            dx, _, dweight, dbias = torch.ops.covnoise.ghost_batch_norm_backward(
                dy[begin:end], x[begin:end], None, weight, moments, ghost, False, False, part[0], part[1], group)
            gradients.append(dx)
            dweights.append(dweight)
            dbiases.append(dbias)
            if fast:
                squares.append(part if group == size else part * (size / group))
        dx = gradients[0] if len(gradients) == 1 else torch.cat(gradients)
        dweight, dbias = total(dweights), total(dbiases)
        others = [None] * (5 + len(ctx.plan))
        if delivery is None:
            return (dx, dweight, dbias, None, None, None, *others)
        given = [parameter if needed else None for parameter, needed in zip((weight, bias), ctx.needs_input_grad[1:3])]
        if fast:
            of_weight, of_bias = total(squares)
            of_both = torch.stack((dweight, of_weight)), torch.stack((dbias, of_bias))
            kept = [None if parameter is None else moments for parameter, moments in zip(given, of_both)]
            parts = (dweight, dbias, *delivery.leaves(*kept))
        else:
            mean, rstd = means_of(statistics, x.shape[0], ctx.ghost_batch)
            parts = Contributions(delivery, as_rows(dy), as_rows(x), mean, rstd).parts(*given)
        return (dx, *parts, *others)


def means_of(statistics: list[Tensor], examples: int, ghost_batch: int) -> Tensor:
    """mean and rstd, one row per ghost batch; one per example where the last ghost batch is smaller."""
    if len(statistics) == 1:
        return statistics[0][:2]
    parts = zip(parts_of(examples, ghost_batch), statistics)
    return torch.cat([moments[:2].repeat_interleave(ghost, 1) for (_, _, ghost), moments in parts], 1)


class RecordedGhostBatchNorm(RecordedBatchNorm):
    def record(self, x: Tensor) -> Any:
        if not self.module.training:
            return super().record(x)
        call = self.start(x)
        return self.plain(x) if call is None else self.module.normalise(x, call.leaves, call.plan)


def convert_ghost_batch_norm(model: nn.Module, ghost_batch: int) -> nn.Module:
    """Replaces every BatchNorm1d, 2d and 3d by GhostBatchNorm with the same parameters, buffers and hooks (the same
    objects, so that an optimizer keeps working). Returns the model, or the new module if the model itself is a
    normalisation. A layer that cannot be converted is refused by name, before any is replaced."""
    converted = {id(norm): _converted(name or "model", norm, ghost_batch) for name, norm in model.named_modules()
                 if isinstance(norm, _BatchNorm) and not isinstance(norm, GhostBatchNorm)}
    for parent in list(model.modules()):
        for key, child in parent._modules.items():  # also where one object has several names
            parent._modules[key] = converted.get(id(child), child)
    return converted.get(id(model), model)


def _converted(name: str, norm: Any, ghost_batch: int) -> GhostBatchNorm:
    if type(norm).forward is not _BatchNorm.forward:
        raise ValueError(f"covnoise: '{name}' ({type(norm).__name__}) has a forward of its own, which the conversion would "
                         "lose; replace it by an ordinary BatchNorm and modules for the rest")
    if "forward" in norm.__dict__:
        raise ValueError(f"covnoise: '{name}' is attached, or has a forward of its own; convert before attach")
    if isinstance(norm, LazyModuleMixin):
        raise ValueError(f"covnoise: '{name}' does not know its channels yet; call the model once, then convert")
    affine = isinstance(norm._parameters.get("weight"), nn.Parameter)  # and not the result of a parametrization
    if not affine or not norm.track_running_stats or norm.momentum is None:
        raise ValueError(f"covnoise: '{name}' cannot become ghost batch normalisation: it needs affine, "
                         "track_running_stats and a momentum")
    result = GhostBatchNorm(norm.num_features, ghost_batch, norm.eps, norm.momentum)
    result.name = name
    result._parameters, result._buffers = norm._parameters, norm._buffers
    result.__dict__.update({key: value for key, value in vars(norm).items() if "hook" in key})
    result.train(norm.training)
    return result
