"""Every layer that attach knows, against one backward pass per example."""
import copy

import pytest
import torch
from support import DEVICE, assert_same, batch, check, diagonal_of, example_gradients, losses_of, small_network
from torch import nn

import covnoise


class Tokens(nn.Module):
    """An embedding of tokens [M, T], and a head."""

    def __init__(self, padding=None):
        super().__init__()
        self.embedding = nn.Embedding(5, 4, padding_idx=padding)
        self.head = nn.Linear(4, 3)

    def forward(self, tokens):
        return self.head(self.embedding(tokens).tanh().mean(1))


LAYERS = {
    "linear": (lambda: nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3, bias=False)), (6,)),
    "linear with positions": (lambda: nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3)), (2, 3, 6)),
    "conv1d": (lambda: nn.Sequential(nn.Conv1d(2, 4, 3, stride=2, padding=1), nn.Tanh(),
                                     nn.Conv1d(4, 3, 2, dilation=2, groups=1)), (2, 9)),
    "conv2d with groups": (lambda: nn.Sequential(nn.Conv2d(4, 6, 3, stride=(2, 1), padding=(1, 0), groups=2), nn.Tanh(),
                                                 nn.Conv2d(6, 3, 2, dilation=2, bias=False)), (4, 6, 6)),
    "conv2d padded in other ways": (lambda: nn.Sequential(
        nn.Conv2d(2, 3, 3, padding="same", padding_mode="reflect"), nn.Tanh(),
        nn.Conv2d(3, 3, (2, 3), padding="same")), (2, 5, 5)),
    "layer norm": (lambda: nn.Sequential(nn.Linear(6, 4), nn.LayerNorm(4), nn.Tanh(), nn.Linear(4, 3)), (3, 6)),
    "group norm": (lambda: nn.Sequential(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.Tanh(), nn.Conv2d(4, 3, 2)),
                   (2, 4, 4)),
    "batch norm that is frozen": (lambda: frozen_norm(), (2, 4, 4)),
}


def frozen_norm():
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Tanh(), nn.Conv2d(4, 3, 2))
    model[1].running_mean.normal_()
    model[1].running_var.uniform_(0.5, 2)
    model[1].eval()
    return model


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("estimator, group", [("exact", 1), ("ghost", 2), ("ghost", 3)])
def test_layer(name, estimator, group):
    torch.manual_seed(1)
    make, sizes = LAYERS[name]
    model = make()
    classes = model.double()(batch(8, *sizes)[0]).flatten(1).shape[1]
    check(model, *batch(8, *sizes, classes=classes), estimator, group)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("estimator, group", [("exact", 1), ("ghost", 4)])
def test_single_precision(name, estimator, group):
    """By the kernels for float32, which on a GPU may round to tf32."""
    torch.manual_seed(1)
    make, sizes = LAYERS[name]
    model = make().double()
    classes = model(batch(8, *sizes)[0]).flatten(1).shape[1]
    x, y = batch(8, *sizes, classes=classes)
    expected = diagonal_of(example_gradients(model, x, y), estimator, group)
    stats = covnoise.attach(model.float(), estimator, group)
    losses_of(model, x.float(), y).mean().backward()
    assert_same({key: value.double() for key, value in stats.diagonal().items()}, expected,
                1e-4 if DEVICE == "cpu" else 3e-2)


@pytest.mark.parametrize("padding", [None, 1])
@pytest.mark.parametrize("estimator, group", [("exact", 1), ("ghost", 3)])
def test_embedding(padding, estimator, group):
    torch.manual_seed(1)
    tokens, y = torch.randint(0, 5, (8, 6)), torch.randint(0, 3, (8,))
    check(Tokens(padding), tokens, y, estimator, group)


def ghost_network(dimensions):
    convolution = {0: lambda: nn.Linear(3, 4), 1: lambda: nn.Conv1d(3, 4, 2), 2: lambda: nn.Conv2d(3, 4, 2)}[dimensions]()
    return nn.Sequential(convolution, covnoise.GhostBatchNorm(4, 4), nn.Tanh(), nn.Flatten(), nn.LazyLinear(3)).double()


@pytest.mark.parametrize("dimensions", [0, 1, 2])
@pytest.mark.parametrize("group", [4, 2])
def test_ghost_norm_is_a_batch_norm_for_each_group(dimensions, group):
    """Groups of whole ghost batches are independent, so that they have gradients of their own."""
    torch.manual_seed(0)
    model = ghost_network(dimensions)
    x, y = batch(14, 3, *[5] * dimensions)
    model(x)
    stats = covnoise.attach(model, "ghost", group)
    losses_of(model, x, y).sum().backward()
    scale = stats.diagonal()  # as if the loss were a mean
    if group == 4:
        by_ghost = []
        plain = nn.Sequential(model[0], nn.BatchNorm1d(4).double() if dimensions < 2 else nn.BatchNorm2d(4).double(), *model[2:])
        plain[1].weight, plain[1].bias = model[1].weight, model[1].bias
        stats.paused = True
        for part in range(0, 14, 4):
            model.zero_grad()
            losses_of(plain, x[part:part + 4], y[part:part + 4]).sum().backward()
            by_ghost.append((len(y[part:part + 4]), {n: p.grad.clone() for n, p in model.named_parameters()}))
        total = {n: sum(s[n] for _, s in by_ghost) for n in scale}
        expected = {n: (sum(s[n].square() / m for m, s in by_ghost) - total[n].square() / 14) * 14**2 / 3 for n in scale}
        assert_same(scale, expected, 1e-11)
    else:
        assert all(torch.isfinite(value).all() for value in scale.values())
    stats.detach()


@pytest.mark.parametrize("estimator, group", [("exact", 1), ("ghost", 4)])
@pytest.mark.parametrize("converted", [False, True])
def test_batch_norm_contributions(estimator, group, converted):
    """Of a normalisation in training mode: the contribution of example i is sum_t dy xhat, sum_t dy."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Tanh(), nn.Flatten(), nn.Linear(16, 3)).double()
    x, y = batch(12, 2, 4, 4)
    if converted:
        covnoise.convert_ghost_batch_norm(model, 12)
    inner = model[0](x).detach()
    xhat = (inner - inner.mean((0, 2, 3), keepdim=True)) / (inner.var((0, 2, 3), unbiased=False, keepdim=True) + 1e-5).sqrt()
    z = (xhat * model[1].weight.view(1, -1, 1, 1) + model[1].bias.view(1, -1, 1, 1)).detach().requires_grad_()
    dy, = torch.autograd.grad(losses_of(model[2:], z, y).sum(), z)
    rows = {"1.weight": (dy * xhat).sum((2, 3)), "1.bias": dy.sum((2, 3))}
    stats = covnoise.attach(model, estimator, group, loss="sum")
    losses_of(model, x, y).sum().backward()
    expected = diagonal_of(rows, estimator, group)
    found = stats.diagonal()
    assert_same({name: found[name] for name in expected}, expected, 1e-11)


@pytest.mark.parametrize("make", [lambda: nn.BatchNorm1d(3), lambda: nn.BatchNorm2d(3),
                                  lambda: nn.BatchNorm1d(3, momentum=None),
                                  lambda: nn.BatchNorm2d(3, track_running_stats=False)])
def test_batch_norm_keeps_its_running_statistics(make):
    torch.manual_seed(0)
    module = make().double()
    plain = copy.deepcopy(module)
    covnoise.attach(module, "ghost", 4)
    for seed in range(3):
        x, _ = batch(8, 3, *[4] * (2 if isinstance(module, nn.BatchNorm2d) else 1), seed=seed)
        torch.testing.assert_close(module(x), plain(x), rtol=1e-12, atol=1e-12)
    for name, value in plain.state_dict().items():
        torch.testing.assert_close(module.state_dict()[name], value, rtol=1e-12, atol=1e-12)


def test_gradients_are_the_plain_ones():
    model = small_network()
    x, y = batch(9, 2, 6, 6)
    losses_of(model, x, y).mean().backward()
    plain = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    x.requires_grad_()
    covnoise.attach(model, "ghost", 2)
    losses_of(model, x, y).mean().backward()
    for p, gradient in zip(model.parameters(), plain):
        torch.testing.assert_close(p.grad, gradient, rtol=1e-11, atol=1e-13)
    assert x.grad is not None


@pytest.mark.parametrize("name", LAYERS)
def test_an_operation_in_place_may_follow(name):
    make, sizes = LAYERS[name]
    model = make().double()
    x, _ = batch(6, *sizes)
    covnoise.attach(model, "ghost", 3)
    model(x).add_(1).sum().backward()
