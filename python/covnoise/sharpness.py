"""Sharpness-aware gradients by micro-batch."""
from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Callable, Iterator

import torch
from torch import Tensor, nn

from ._checks import check_whole
from .attach import attached_module


def sharp_backward(model: nn.Module, loss_of: Callable[..., Tensor], *tensors: Tensor, radius: float,
                   micro_batch: int) -> Tensor:
    """Adds to p.grad, in the place of loss_of(*tensors).backward(), the gradient of each micro-batch j where its loss has
    risen most within the distance `radius` (m-sharpness, Foret et al. 2021):

        g = mean_j grad L_j(theta + radius g_j / |g_j|),    g_j = grad L_j(theta)

    by two passes over each micro-batch. Returns mean_j L_j(theta). Clip and step afterwards as usual.

    loss_of      the mean loss of a micro-batch, which gets slices of `tensors`: lambda x, y: criterion(model(x), y).
    tensors      [M, ...], of the whole batch; inputs and labels, say.
    radius       of the step in all parameters together.
    micro_batch  examples in a micro-batch; a last, smaller one counts as it is.

    The weights are restored from a copy, bit for bit. Running statistics (all buffers) are those of the first passes, and
    dropout drops the same units in both.
    """
    _check(model, tensors, radius, micro_batch)
    parameters = [p for p in model.parameters() if p.requires_grad]
    weights = [p.detach().clone() for p in parameters]
    examples = tensors[0].shape[0]
    losses = []
    for part in zip(*(tensor.split(micro_batch) for tensor in tensors)):
        share = part[0].shape[0] / examples
        random = _random_state(parameters)
        loss = loss_of(*part)
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
        losses.append(loss.detach() * share)
        with _moved(model, parameters, weights, gradients, radius):
            _set_random_state(random)
            (loss_of(*part) * share).backward()
    return torch.stack(losses).sum()


@contextmanager
def _moved(model: nn.Module, parameters: list[nn.Parameter], weights: list[Tensor],
           gradients: tuple[Any, ...], radius: float) -> Iterator[None]:
    """The parameters at theta + radius g / |g|. Parameters and buffers are as they were afterwards."""
    buffers = [(module, key, buffer, buffer.clone()) for module in model.modules()
               for key, buffer in module._buffers.items() if buffer is not None]
    try:
        with torch.no_grad():
            _move([(p, g) for p, g in zip(parameters, gradients) if g is not None], radius)
        torch.clear_autocast_cache()  # an autocast region around us has copies of the weights in low precision
        yield
    finally:
        with torch.no_grad():
            for p, weight in zip(parameters, weights):
                p.copy_(weight)
            for module, key, buffer, value in buffers:
                module._buffers[key] = buffer.copy_(value)  # a forward may put another tensor in its place
        torch.clear_autocast_cache()


def _move(used: list[tuple[nn.Parameter, Tensor]], radius: float) -> None:
    if not used:
        return
    norms = [torch.linalg.vector_norm(g, dtype=torch.promote_types(g.dtype, torch.float32)) for _, g in used]
    norm = torch.stack([value.to(norms[0].device) for value in norms]).norm()
    factor = torch.where(norm > 0, radius / norm, torch.zeros_like(norm))  # a zero gradient has no way up: no move
    for p, g in used:
        p.add_(g * factor.to(p.device, p.dtype))


def _random_state(parameters: list[nn.Parameter]) -> dict[Any, Tensor]:
    """Of the generators that dropout draws from, without waiting for a device."""
    devices = {p.device for p in parameters if p.is_cuda}
    return {"cpu": torch.get_rng_state(), **{device: torch.cuda.get_rng_state(device) for device in devices}}


def _set_random_state(states: dict[Any, Tensor]) -> None:
    for device, state in states.items():
        if device == "cpu":
            torch.set_rng_state(state)
        else:
            torch.cuda.set_rng_state(state, device)


def _check(model: nn.Module, tensors: tuple[Tensor, ...], radius: float, micro_batch: int) -> None:
    if not radius > 0:
        raise ValueError(f"covnoise: radius = {radius} must be above 0")
    check_whole("micro_batch", micro_batch)
    sizes = [tensor.shape[0] if tensor.dim() > 0 else 0 for tensor in tensors]
    if not sizes or min(sizes) != max(sizes) or sizes[0] == 0:
        raise ValueError(f"covnoise: sharp_backward takes tensors of the same examples, [M, ...]; here M is {sizes}")
    if isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
        raise ValueError(f"covnoise: {type(model).__name__} would take part in the first passes as well; give "
                         "sharp_backward its .module, and average p.grad over the ranks afterwards")
    strange = {p.device.type for p in model.parameters()} - {"cpu", "cuda"}
    if strange:
        raise ValueError(f"covnoise: sharp_backward cannot repeat the random numbers of {', '.join(sorted(strange))}; known: "
                         "cpu, cuda")
    name = attached_module(model)
    if name is not None:
        raise ValueError(f"covnoise: '{name}' is attached, and its statistics would count both passes; detach() first")
