"""Brute force: one backward pass per example, in float64."""
import os

import torch
import torch.nn.functional as F
from torch import nn

import covnoise

GROUP, SMALL, LARGE = 3, 4, 12  # examples of a group, and of both batches, in the tests of Noisy
DEVICE = os.environ.get("COVNOISE_TEST_DEVICE", "cpu")  # conftest.py makes it PyTorch's default


def losses_of(model, x, y):
    return F.cross_entropy(model(x).flatten(1), y, reduction="none")


def example_gradients(model, x, y, loss=losses_of):
    """{name: [M, *sizes]}, the gradient of each example's loss alone. Leaves p.grad as it was."""
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    rows = {name: [] for name in parameters}
    for i in range(len(y)):
        gradients = torch.autograd.grad(loss(model, x[i:i + 1], y[i:i + 1]).sum(), list(parameters.values()),
                                        allow_unused=True)
        for (name, p), gradient in zip(parameters.items(), gradients):
            rows[name].append(torch.zeros_like(p) if gradient is None else gradient)
    return {name: torch.stack(value) for name, value in rows.items()}


def exact_diagonal(gradients):
    return {name: g.square().mean(0) for name, g in gradients.items()}


def ghost_diagonal(gradients, group):
    """sum_j m_j (g_j - g)^2 / (G - 1)."""
    result = {}
    for name, g in gradients.items():
        parts = g.split(group)
        result[name] = sum(len(part) * (part.mean(0) - g.mean(0)).square() for part in parts) / (len(parts) - 1)
    return result


def diagonal_of(gradients, estimator, group):
    return exact_diagonal(gradients) if estimator == "exact" else ghost_diagonal(gradients, group)


def assert_same(found, expected, tolerance=1e-12, gradients=None):
    """Relative to the largest element. The ghost estimator subtracts M g^2: with the examples' gradients given, the error
    is relative to that as well."""
    assert set(found) == set(expected)
    largest = max(float(value.abs().max()) for value in expected.values())
    for name, value in expected.items():
        size = max(float(value.abs().max()), 1e-3 * largest)
        if gradients is not None:
            size = max(size, len(gradients[name]) * float(gradients[name].mean(0).square().max()))
        error = float((found[name] - value).abs().max()) / size
        assert error < tolerance, f"{name}: relative error {error:.2e}"


def batch(examples, *sizes, classes=3, seed=0):
    generator = torch.Generator("cpu").manual_seed(seed)
    x = torch.randn(examples, *sizes, generator=generator, dtype=torch.float64, device="cpu")
    y = torch.randint(0, classes, (examples,), generator=generator, device="cpu")
    device = torch.empty(()).device
    return x.to(device), y.to(device)


def check(model, x, y, estimator, group):
    """The diagonal of one backward pass of the mean loss."""
    model = model.double()
    gradients = example_gradients(model, x, y)
    stats = covnoise.attach(model, estimator, group)
    losses_of(model, x, y).mean().backward()
    assert_same(stats.diagonal(), diagonal_of(gradients, estimator, group), gradients=gradients)
    stats.detach()


def small_network():
    """Convolutions, group normalisation and linear layers, for inputs [M, 2, 6, 6]."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.GroupNorm(2, 4), nn.Conv2d(4, 3, 3, stride=2),
                         nn.ReLU(), nn.Flatten(), nn.Linear(12, 5), nn.Tanh(), nn.Linear(5, 3)).double()


def noisy(model, structure="diag-fisher", lr=0.5, momentum=0.0, **options):
    stats = covnoise.attach(model, "ghost", GROUP)
    inner = torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum)
    return covnoise.optim.Noisy(inner, stats, SMALL, structure=structure, **options)


def step(model, opt, data):
    opt.zero_grad()
    losses = losses_of(model, *data)
    opt.draw(losses)
    losses.mean().backward()
    opt.step()


def values(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])
