"""Float32 layers of 64 channels and more, whose squares on a GPU may come from rounded operands; the gradient is rounded
only as PyTorch's own would be."""
import contextlib

import pytest
import torch
from support import DEVICE, batch, diagonal_of, example_gradients, losses_of
from torch import nn

import covnoise

WIDE = {
    "convolution": (lambda: nn.Sequential(nn.Conv2d(64, 72, 3, padding=1), nn.Tanh(), nn.Conv2d(72, 64, 3, stride=2),
                                          nn.Tanh(), nn.Conv2d(64, 64, 1), nn.Flatten(), nn.Linear(576, 3)), (64, 8, 8)),
    "very wide convolution": (lambda: nn.Sequential(nn.Conv2d(256, 264, 3, padding=1), nn.Tanh(), nn.Conv2d(264, 256, 1),
                                                    nn.Flatten(), nn.Linear(256 * 16, 3)), (256, 4, 4)),
    "linear with positions": (lambda: nn.Sequential(nn.Linear(64, 96), nn.Tanh(), nn.Linear(96, 64), nn.Flatten(),
                                                    nn.Linear(65 * 64, 3)), (65, 64)),
}


@contextlib.contextmanager
def rounding(convolutions, products):
    """Whether PyTorch may round the factors of float32 convolutions and matrix products to tf32."""
    before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = convolutions, products
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = before


def errors(model, x, y, estimator, group):
    """Of diagonals and gradients, relative to the largest element of each parameter's."""
    gradients = example_gradients(model, x, y)
    expected = diagonal_of(gradients, estimator, group)
    stats = covnoise.attach(model.float(), estimator, group)
    losses_of(model, x.float(), y).mean().backward()

    def error(found, value):
        return float((found.double() - value).abs().max() / value.abs().max())

    diagonal = stats.diagonal()
    return (max(error(diagonal[name], expected[name]) for name in expected),
            max(error(p.grad, gradients[name].mean(0)) for name, p in model.named_parameters()))


@pytest.mark.parametrize("name", WIDE)
@pytest.mark.parametrize("estimator, group", [("exact", 1), ("ghost", 4)])
@pytest.mark.parametrize("rounded", [False, True])
def test_wide_layers(name, estimator, group, rounded):
    torch.manual_seed(1)
    make, sizes = WIDE[name]
    with rounding(rounded, rounded):
        of_diagonal, of_gradient = errors(make().double(), *batch(16, *sizes), estimator, group)
    rounds = rounded and DEVICE != "cpu"
    assert of_diagonal < (2e-2 if rounds else 1e-4) and of_gradient < (3e-3 if rounds else 1e-5)


@pytest.mark.parametrize("estimator, group", [("exact", 1), ("ghost", 4)])
def test_a_linear_layer_is_not_a_convolution(estimator, group):
    """PyTorch rounds convolutions and not matrix products unless it is told otherwise."""
    torch.manual_seed(1)
    make, sizes = WIDE["linear with positions"]
    with rounding(True, False):
        of_diagonal, of_gradient = errors(make().double(), *batch(16, *sizes), estimator, group)
    assert of_diagonal < 1e-4 and of_gradient < 1e-5
