"""Gradients of micro-batches where their loss has risen most."""
import copy
from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from support import DEVICE, batch, small_network
from torch import nn

import covnoise

RADIUS = 0.3


def loss_with(model):
    return lambda x, y: F.cross_entropy(model(x).flatten(1), y)


def gradient_at_top(model, part, radius=RADIUS):
    """By the formula, in a copy of the model."""
    model = copy.deepcopy(model)
    loss_with(model)(*part).backward()
    parameters = [p for p in model.parameters() if p.grad is not None]
    norm = torch.cat([p.grad.flatten() for p in parameters]).norm()
    with torch.no_grad():
        for p in parameters:
            p += radius * p.grad / norm
    model.zero_grad()
    loss_with(model)(*part).backward()
    return [p.grad for p in model.parameters()]


@pytest.mark.parametrize("examples, sizes", [(12, [4, 4, 4]), (10, [4, 4, 2]), (3, [3])])
def test_is_the_formula(examples, sizes):
    model, data = small_network(), batch(examples, 2, 6, 6)
    before = copy.deepcopy(model.state_dict())
    expected = [0.0] * len(list(model.parameters()))
    for part in zip(*(tensor.split(4) for tensor in data)):
        top = gradient_at_top(model, part)
        expected = [total + len(part[1]) / examples * value for total, value in zip(expected, top)]
    assert [len(part) for part in data[1].split(4)] == sizes
    loss = covnoise.sharp_backward(model, loss_with(model), *data, radius=RADIUS, micro_batch=4)
    assert not loss.requires_grad
    torch.testing.assert_close(loss, loss_with(model)(*data).detach(), rtol=1e-12, atol=0)
    for p, value in zip(model.parameters(), expected):
        torch.testing.assert_close(p.grad, value, rtol=1e-10, atol=1e-13)
    for key, value in model.state_dict().items():
        assert torch.equal(value, before[key]), f"{key} is restored bit for bit"


def test_differs_from_the_plain_gradient_and_adds_to_it():
    model, data = small_network(), batch(8, 2, 6, 6)
    loss_with(model)(*data).backward()
    plain = [p.grad.clone() for p in model.parameters()]
    covnoise.sharp_backward(model, loss_with(model), *data, radius=RADIUS, micro_batch=8)
    top = gradient_at_top(model, data)
    assert any((a - b).abs().max() > 0.01 * a.abs().max() for a, b in zip(plain, top))
    for p, a, b in zip(model.parameters(), plain, top):
        torch.testing.assert_close(p.grad, a + b, rtol=1e-10, atol=1e-13)


def test_running_statistics_are_those_of_the_first_passes():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)).double()
    covnoise.convert_ghost_batch_norm(model, 2)
    plain, data = copy.deepcopy(model), batch(8, 2, 6, 6)
    covnoise.sharp_backward(model, loss_with(model), *data, radius=RADIUS, micro_batch=4)
    for part in data[0].split(4):
        plain(part)
    assert all(torch.equal(a, b) for a, b in zip(model.buffers(), plain.buffers()))
    assert not torch.equal(model[1].running_mean, torch.zeros_like(model[1].running_mean))


def test_a_buffer_that_is_replaced_moves_once():
    class Average(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 3).double()
            self.register_buffer("mean", torch.zeros((), dtype=torch.float64))

        def forward(self, x):
            self.mean = 0.9 * self.mean + 0.1 * x.mean()
            return self.linear(x)

    model, (x, y) = Average(), batch(8, 4)
    covnoise.sharp_backward(model, loss_with(model), x, y, radius=RADIUS, micro_batch=8)
    torch.testing.assert_close(model.mean, 0.1 * x.mean(), rtol=1e-12, atol=0)


def test_dropout_drops_the_same_units_in_both_passes():
    model, masks = nn.Sequential(nn.Dropout(0.5), nn.Linear(64, 1)), []
    model[0].register_forward_hook(lambda module, inputs, left: masks.append(left))
    torch.manual_seed(3)
    covnoise.sharp_backward(model, lambda x: model(x).sum(), torch.ones(2, 64), radius=RADIUS, micro_batch=1)
    first, first_again, second, second_again = masks
    assert torch.equal(first, first_again) and torch.equal(second, second_again)
    assert not torch.equal(first, second) and 0 < (first == 0).sum() < 64


def test_autocast_around_both_passes_is_autocast_in_the_loss():
    """Autocast keeps copies of the weights, which the second pass must not get from the first."""
    gradients = []
    for outside in (True, False):
        torch.manual_seed(0)
        model, (x, y) = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)), batch(8, 4)

        def loss_of(x, y):
            with torch.autocast(DEVICE, torch.bfloat16):
                return F.cross_entropy(model(x).float(), y)

        with torch.autocast(DEVICE, torch.bfloat16) if outside else nullcontext():
            covnoise.sharp_backward(model, loss_of, x.float(), y, radius=RADIUS, micro_batch=4)
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    assert torch.equal(*gradients)


def test_a_zero_gradient_moves_nothing_and_unused_parameters_have_none():
    model = nn.Module()
    model.used, model.unused = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.ones(2))
    covnoise.sharp_backward(model, lambda x: (x * model.used).square().sum(), torch.ones(3, 2), radius=RADIUS, micro_batch=3)
    assert torch.equal(model.used.grad, torch.zeros(2)) and model.unused.grad is None


def test_an_exception_leaves_the_model_as_it_was():
    model, data = small_network(), batch(8, 2, 6, 6)
    before, calls = copy.deepcopy(model.state_dict()), []

    def loss_of(x, y):
        calls.append(len(y))
        if len(calls) == 2:
            raise RuntimeError("out of memory")
        return loss_with(model)(x, y)

    with pytest.raises(RuntimeError, match="out of memory"):
        covnoise.sharp_backward(model, loss_of, *data, radius=RADIUS, micro_batch=4)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_what_it_cannot_do_is_refused():
    model, (x, y) = small_network(), batch(8, 2, 6, 6)
    for options, why in (({"radius": 0.0}, "radius = 0.0 must be above 0"), ({"radius": float("nan")}, "radius = nan must"),
                         ({"micro_batch": 0}, "at least 1")):
        with pytest.raises(ValueError, match=why):
            covnoise.sharp_backward(model, loss_with(model), x, y, **{"radius": RADIUS, "micro_batch": 4, **options})
    for tensors in ((x, y[:4]), (), (x[:0], y[:0])):
        with pytest.raises(ValueError, match="the same examples"):
            covnoise.sharp_backward(model, loss_with(model), *tensors, radius=RADIUS, micro_batch=4)
    with pytest.raises(ValueError, match="DataParallel would take part"):
        covnoise.sharp_backward(nn.DataParallel(model), loss_with(model), x, y, radius=RADIUS, micro_batch=4)
    with pytest.raises(ValueError, match="random numbers of meta"):
        covnoise.sharp_backward(nn.Linear(2, 2, device="meta"), loss_with(model), x, y, radius=RADIUS, micro_batch=4)
    stats = covnoise.attach(model)
    with pytest.raises(ValueError, match="'Sequential' is attached"):
        covnoise.sharp_backward(model, loss_with(model), x, y, radius=RADIUS, micro_batch=4)
    stats.detach()
