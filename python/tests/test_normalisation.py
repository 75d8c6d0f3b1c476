"""Recorded normalisations of any shape and layout, against the definition of their contributions."""
import copy

import pytest
import torch
from support import assert_same, batch, check, diagonal_of
from torch import nn

import covnoise
from covnoise.layers.normalisation import RecordedBatchNorm, as_rows

pytest.importorskip("hypothesis")
from hypothesis import given, settings, strategies as st  # noqa: E402


def channels_last(x):
    """The same values, with the channels innermost in memory."""
    return x.movedim(1, -1).contiguous().movedim(-1, 1)


def fuse(monkeypatch):
    """The operator that normalises on a GPU has the same results on a CPU."""
    monkeypatch.setattr(RecordedBatchNorm, "fuses", lambda self, x: self.module.training)


def check_contributions(module, x, dy, xhat, group, axes):
    """`module` alone, its loss sum(y dy); contributions are summed over `axes`, to [M, *sizes of the parameters]."""
    plain = copy.deepcopy(module)
    inputs = [x.clone(memory_format=torch.preserve_format).requires_grad_() for _ in range(2)]
    (plain(inputs[0]) * dy).sum().backward()
    model = nn.Sequential(module)
    estimator = "exact" if group == 1 else "ghost"
    stats = covnoise.attach(model, estimator, group, loss="sum")
    y = model(inputs[1])
    (y * dy).sum().backward()
    torch.testing.assert_close(inputs[1].grad, inputs[0].grad, rtol=1e-10, atol=1e-11)
    for p, q in zip(module.parameters(), plain.parameters()):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-10, atol=1e-11)
        p.grad.zero_()  # must not change the statistics
    for name, value in plain.state_dict().items():
        torch.testing.assert_close(module.state_dict()[name], value, rtol=1e-12, atol=1e-12)
    sizes = (len(x), *module.weight.shape)
    total = lambda values: (values.sum(axes) if axes else values).reshape(sizes)  # noqa: E731
    rows = {"0.weight": total(dy * xhat), "0.bias": total(dy)}
    assert_same(stats.diagonal(), diagonal_of(rows, estimator, group), 1e-10, rows)
    stats.detach()


SHAPES = dict(examples=st.integers(2, 9), group=st.integers(1, 4), channels=st.integers(1, 9), last=st.booleans(),
              positions=st.lists(st.integers(1, 4), max_size=3))


@given(training=st.booleans(), fused=st.booleans(), **SHAPES)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_batch_norm_of_any_shape(examples, group, channels, positions, last, training, fused):
    torch.manual_seed(0)
    examples = max(examples, group + 1)
    kind = [nn.BatchNorm1d, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d][len(positions)]
    module = kind(channels).double().train(training)
    for tensor in (module.weight.data, module.bias.data, module.running_mean):
        tensor.normal_()
    x, dy = (torch.randn(examples, channels, *positions).double() for _ in range(2))
    x, dy = (channels_last(value) if last else value for value in (2 * x + 1, dy))
    assert not last or as_rows(x).is_contiguous()
    axes = [axis for axis in range(x.dim()) if axis != 1]
    mean, var = x.mean(axes), x.var(axes, unbiased=False)
    if not training:
        mean, var = module.running_mean.clone(), module.running_var.clone()
    shape = (1, -1, *[1] * len(positions))
    xhat = (x - mean.reshape(shape)) / (var.reshape(shape) + module.eps).sqrt()
    with pytest.MonkeyPatch.context() as patch:
        if fused:
            fuse(patch)
        check_contributions(module, x, dy, xhat, group, axes[1:])


@given(depth=st.integers(1, 2), **SHAPES)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_layer_norm_of_any_shape(examples, group, channels, positions, last, depth):
    torch.manual_seed(0)
    examples = max(examples, group + 1)
    sizes = [channels + 1, 2][:depth]
    module = nn.LayerNorm(sizes).double()
    module.weight.data.normal_()
    x, dy = (torch.randn(examples, *positions, *sizes).double() for _ in range(2))
    x = channels_last(x) if last else x
    over = tuple(range(x.dim() - depth, x.dim()))
    xhat = (x - x.mean(over, keepdim=True)) / (x.var(over, unbiased=False, keepdim=True) + module.eps).sqrt()
    check_contributions(module, x, dy, xhat, group, tuple(range(1, x.dim() - depth)))


@given(channel_groups=st.integers(1, 3), **SHAPES)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_group_norm_of_any_shape(examples, group, channels, positions, last, channel_groups):
    torch.manual_seed(0)
    examples, positions = max(examples, group + 1), positions or [3]
    module = nn.GroupNorm(channel_groups, channel_groups * channels).double()
    module.weight.data.normal_()
    x, dy = (torch.randn(examples, channel_groups * channels, *positions).double() for _ in range(2))
    x = channels_last(x) if last else x
    blocks = x.reshape(examples, channel_groups, -1)
    centred = blocks - blocks.mean(2, keepdim=True)
    xhat = (centred / (blocks.var(2, unbiased=False, keepdim=True) + module.eps).sqrt()).reshape(x.shape)
    check_contributions(module, x, dy, xhat, group, tuple(range(2, x.dim())))


@pytest.mark.parametrize("sizes", [(8, 4), (8, 4, 3), (8, 4, 3, 2), (8, 4, 3, 2, 2)])
def test_fused_batch_norm_can_be_changed_in_place(sizes, monkeypatch):
    fuse(monkeypatch)
    kind = [nn.BatchNorm1d, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d][len(sizes) - 2]
    model = nn.Sequential(kind(4), nn.ReLU(inplace=True))
    covnoise.attach(model, "ghost", 4)
    y = model(channels_last(torch.randn(sizes)).requires_grad_())
    assert y.shape == sizes
    y.sum().backward()


@pytest.mark.parametrize("estimator, group", [("exact", 1), ("ghost", 2)])
def test_a_layer_norm_that_is_called_twice(estimator, group):
    """Its groups' sums are added up over the calls before they are squared."""
    torch.manual_seed(0)

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm, self.second = nn.Linear(5, 4), nn.LayerNorm(4), nn.Linear(4, 4)

        def forward(self, x):
            return self.norm(self.second(self.norm(self.first(x)).tanh()))

    check(Twice(), *batch(7, 3, 5), estimator, group)


@pytest.mark.parametrize("sizes", [(64, 8), (64, 8, 5, 5), (64, 5, 3, 3), (64, 16, 4, 4)])
@pytest.mark.parametrize("estimator, group", [("exact", 1), ("ghost", 24)])
@pytest.mark.parametrize("layout", [channels_last, torch.clone])
def test_single_precision(sizes, estimator, group, layout):
    """What a GPU does with its own kernels."""
    torch.manual_seed(0)
    module = (nn.BatchNorm1d if len(sizes) == 2 else nn.BatchNorm2d)(sizes[1])
    plain = copy.deepcopy(module).double()
    x, dy = (layout(torch.randn(sizes)) for _ in range(2))
    model = nn.Sequential(module)
    stats = covnoise.attach(model, estimator, group, loss="sum")
    inputs = [x.clone().requires_grad_(), x.double().requires_grad_()]
    outputs = [each(value) for each, value in zip((model, plain), inputs)]
    for y in outputs:
        (y * dy).sum().backward()
    close = lambda a, b: torch.testing.assert_close(a.double(), b.double(), rtol=1e-4, atol=1e-4)  # noqa: E731
    close(outputs[0], outputs[1])
    close(inputs[0].grad, inputs[1].grad)
    for p, q in zip(module.parameters(), plain.parameters()):
        close(p.grad, q.grad)
    for name, value in plain.state_dict().items():
        close(module.state_dict()[name], value)
    by_example = lambda values: values.reshape(*sizes[:2], -1).sum(2)  # noqa: E731
    rows = {"0.weight": by_example(dy * outputs[1].detach()), "0.bias": by_example(dy.double())}  # weight 1, bias 0
    assert_same(stats.diagonal(), diagonal_of(rows, estimator, group), 1e-4, rows)
