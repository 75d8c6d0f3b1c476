"""The operators as citizens of PyTorch: shapes, autograd, autocast, torch.compile."""
import gc
import weakref

import pytest
import torch
import torch.nn.functional as F
from support import DEVICE, assert_same, batch, ghost_diagonal, example_gradients, losses_of, small_network
from torch import nn

import covnoise
from covnoise import _shapes

OPS = torch.ops.covnoise


def normal(*sizes, **options):
    return torch.randn(*sizes, **options)


def calls():
    """(operator, arguments) with every operator of the library."""
    x, dz, weight = normal(4, 3, 5, 5), normal(4, 2, 3, 3), normal(2, 3, 3, 3)
    geometry = ([1, 1], [0, 0], [1, 1], 1)
    scale, shift = normal(3), normal(3)
    statistics = OPS.ghost_batch_norm(x, None, scale, shift, torch.zeros(3), torch.ones(3), 2, 0.1, 1e-5, False)[1]
    pixels = torch.randint(0, 255, (6, 3, 8, 8), dtype=torch.uint8)
    yield "conv2d_weight_gradient_squares", (x, dz, torch.zeros(2, 3, 3, 3), [2, 3, 3, 3], *geometry, 2, False)
    yield "linear_weight_gradient_squares", (normal(4, 3), normal(4, 2), torch.zeros(2, 3), 2)
    yield "linear_weight_gradient", (normal(4, 3), normal(4, 2))
    yield "bias_gradient_squares", (dz, torch.zeros(2), 2, False)
    yield "conv2d_moments", (x, dz, [2, 3, 3, 3], *geometry, 3, True, True)
    yield "conv2d_moments", (normal(4, 3, 1, 5), normal(4, 2, 1, 3), [2, 3, 3], *geometry, 1, True, False)
    yield "linear_moments", (normal(4, 5, 3), normal(4, 5, 2), 3, True, True)
    yield "linear_moments", (normal(4, 3), normal(4, 2), 2, False, True)
    yield "convolution", (x, weight, normal(2), *geometry)
    yield "convolution_gradients", (dz, x, weight, *geometry, True, True)
    yield "convolution_gradients", (dz, x, weight, *geometry, False, True)
    yield "ghost_batch_norm", (x, None, scale, shift, torch.zeros(3), torch.ones(3), 2, 0.1, 1e-5, False)
    yield "ghost_batch_norm", (x, normal(4, 3, 5, 5), scale, shift, torch.zeros(3), torch.ones(3), 2, 0.1, 1e-5, True)
    yield "ghost_batch_norm_backward", (x, x, None, scale, statistics, 2, False, False, torch.zeros(3), torch.zeros(3), 2)
    yield "ghost_batch_norm_backward", (x, x, x, scale, statistics, 2, True, True, None, None, 1)
    rows = x.flatten(2).transpose(1, 2)
    yield "norm_group_sums", (rows, rows, normal(1, 3), torch.rand(1, 3), 3)
    yield "norm_group_sums", (rows.contiguous(), rows, normal(100, 1), torch.rand(100, 1), 1)
    yield "group_variance", (torch.rand(5), normal(5), 0.1, 2.0)
    yield "sgd_update", (normal(5), normal(5), normal(5), None, torch.rand(5), 0.1, 1, 2, 0.1, 0.9, 0.0, None, False, False)
    yield "adamw_update", (normal(5), normal(5), normal(5), torch.rand(5), None, torch.rand(5), 0.1, 1, 2,
                           [0.1, 0.9, 0.99, 1e-8, 0.0, 0.1, 0.1], None, None, False)
    yield "fill_random", (torch.empty(5), 0, 1, 4, 2, 0)
    yield "fill_normal_of_variance", (torch.empty(5), torch.rand(5), 1, 4, 2, 0)
    yield "sample_diagonal", ([torch.rand(2, 3, 2, 2, 2), torch.rand(2, 5)],
                              [normal(3, 2, 2, 2).contiguous(memory_format=torch.channels_last), normal(5)], 0.1, 2.0,
                              [0.5, 2.0], 1, 4, 2, [0, 8])
    yield "moment_totals", ([torch.rand(2, 3, 2), torch.rand(2, 5)], [1.0, -0.5, 0.0, 2.0])
    yield "load_images", (pixels, torch.arange(3), [0.5] * 3, [0.5] * 3, True, 1, 2, torch.float32)


CALLS = pytest.mark.parametrize("call", range(25))


def call_number(i):
    torch.manual_seed(0)
    name, arguments = list(calls())[i]
    return name, arguments


def test_every_operator_is_checked():
    names = {name for name, _ in calls()}
    assert names == set(_shapes.SHAPES) and len(list(calls())) == 25
    registered = {schema.name for schema in torch._C._jit_get_all_schemas()}
    assert names == {name.split("::")[1] for name in registered if name.startswith("covnoise::")}


def on_meta(value):
    if isinstance(value, list):
        return [on_meta(each) for each in value]
    return value.to("meta") if isinstance(value, torch.Tensor) else value


@CALLS
def test_shapes(call):
    """The result on meta tensors has the shape and type of the real one."""
    name, arguments = call_number(call)
    meta = [on_meta(value) for value in arguments]
    real, fake = getattr(OPS, name)(*arguments), getattr(OPS, name)(*meta)
    real, fake = ((value,) if isinstance(value, torch.Tensor) else value or () for value in (real, fake))
    assert len(real) == len(fake)
    for a, b in zip(real, fake):
        assert a is not None and a.shape == b.shape and a.dtype == b.dtype


@pytest.mark.skipif(not hasattr(torch.library, "opcheck"), reason="this PyTorch has no torch.library.opcheck")
@CALLS
def test_opcheck(call):
    name, arguments = call_number(call)
    torch.library.opcheck(getattr(OPS, name).default, arguments)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_noise_of_many_parameters_is_that_of_each(dtype):
    """In any layout, and of more parameters than one launch takes."""
    torch.manual_seed(0)
    sizes = [(4, 3, 3, 5), (7,), (), (2, 0), (2, 3, 4)] + [(5,)] * 70
    moments = [torch.randn(2, *each, dtype=dtype) for each in sizes]  # some variances are negative
    like = [torch.zeros(each) for each in sizes]
    like[0], like[4] = like[0].contiguous(memory_format=torch.channels_last), like[4].transpose(1, 2).contiguous().transpose(1, 2)
    scales, firsts = [0.5 + i for i in range(len(sizes))], [100 * i for i in range(len(sizes))]
    samples = OPS.sample_diagonal(moments, like, 0.5, 2.0, scales, 3, 4, 9, firsts)
    assert len(samples) == len(sizes)
    for sample, each, other, scale, first in zip(samples, moments, like, scales, firsts):
        variance = (2 * (each[1] - 0.5 * each[0].square())).clamp_min(0)
        expected = torch.empty_like(variance)
        OPS.fill_normal_of_variance(expected, variance, 3, 4, 9, first)
        assert sample.stride() == other.stride() and sample.dtype == dtype
        torch.testing.assert_close(sample, expected * scale, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_totals_of_moments(dtype):
    """Of more parameters than one launch takes."""
    torch.manual_seed(0)
    moments = [torch.rand(2, *each, dtype=dtype) for each in [(130, 70), (7,), (), (2, 0)] + [(5,)] * 150]
    squares = sum(float(each[1].double().sum()) for each in moments)
    sums = sum(float(each[0].double().square().sum()) for each in moments)
    found = OPS.moment_totals(moments, [1.0, -0.5, 0.0, 2.0])
    expected = torch.tensor([squares - 0.5 * sums, 2 * sums], dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=1e-12 if dtype == torch.float64 else 1e-6, atol=0)


def test_noise_of_other_sizes_is_refused():
    with pytest.raises(RuntimeError, match="two of"):
        OPS.sample_diagonal([torch.zeros(2, 3)], [torch.zeros(4)], 0.0, 1.0, [1.0], 0, 4, 0, [0])
    with pytest.raises(RuntimeError, match="2 scales"):
        OPS.sample_diagonal([torch.zeros(2, 3)], [torch.zeros(3)], 0.0, 1.0, [1.0, 1.0], 0, 4, 0, [0])


def test_no_derivative_is_an_error():
    a = normal(4, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="linear_weight_gradient"):
        OPS.linear_weight_gradient(a, normal(4, 2)).sum().backward()


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("relu", [False, True])
def test_ghost_norm_has_a_derivative(residual, relu):
    torch.manual_seed(0)
    inputs = [normal(4, 3, 2, 2).double().requires_grad_(), normal(4, 3, 2, 2).double().requires_grad_() if residual else None,
              normal(3).double().requires_grad_(), normal(3).double().requires_grad_()]

    def function(*given):
        x, weight, bias = given[0], given[-2], given[-1]
        return OPS.ghost_batch_norm(x, given[1] if residual else None, weight, bias, torch.zeros(3).double(),
                                    torch.ones(3).double(), 2, 0.1, 1e-5, relu)[0]

    assert torch.autograd.gradcheck(function, tuple(value for value in inputs if value is not None))


def test_ghost_norm_takes_what_autocast_gives():
    model = nn.Sequential(nn.Conv2d(2, 4, 3), covnoise.GhostBatchNorm(4, 4))
    x = batch(8, 2, 5, 5)[0].float()
    plain = OPS.ghost_batch_norm(model[0](x), None, model[1].weight, model[1].bias, torch.zeros(4), torch.ones(4), 4, 0.1,
                                 1e-5, False)[0]
    with torch.autocast(DEVICE, torch.bfloat16):
        low = model[0](x)
        assert low.dtype == torch.bfloat16
        direct = OPS.ghost_batch_norm(low, None, model[1].weight, model[1].bias, torch.zeros(4), torch.ones(4), 4, 0.1, 1e-5,
                                      False)[0]
        through = model(x)
    assert direct.dtype == (torch.float32 if DEVICE == "cpu" else torch.bfloat16)
    for y in (direct, through):
        assert float((y.float() - plain).abs().max()) < 0.1


def test_statistics_have_one_shape():
    x, weight, bias = normal(6, 3, 2, 2), normal(3), normal(3)
    y, statistics = OPS.ghost_batch_norm(x, None, weight, bias, torch.zeros(3), torch.ones(3), 2, 0.1, 1e-5, False)
    assert statistics.shape == (5, 3, 3)
    by_ghost = x.reshape(3, 2, 3, 4).transpose(1, 2).reshape(3, 3, 8)
    torch.testing.assert_close(statistics[0], by_ghost.mean(2))
    torch.testing.assert_close(statistics[2], by_ghost.var(2, unbiased=False), rtol=1e-4, atol=1e-5)
    scale, shift = (value.repeat_interleave(2, 0)[..., None, None] for value in statistics[3:])
    torch.testing.assert_close(y, x * scale + shift, rtol=1e-4, atol=1e-5)


@pytest.fixture(autouse=True)
def nothing_compiled():
    """What other tests have compiled would make sizes symbols."""
    if hasattr(torch, "_dynamo"):
        torch._dynamo.reset()


COMPILE = pytest.mark.skipif(not hasattr(torch, "compile"), reason="this PyTorch has no torch.compile")


@COMPILE
@pytest.mark.parametrize("estimator", ["exact", "ghost"])
def test_compile_has_no_graph_break(estimator):
    model = small_network().double()
    x, y = batch(12, 2, 6, 6)
    gradients = example_gradients(model, x, y)
    stats = covnoise.attach(model, estimator, 3)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for _ in range(3):
        F.cross_entropy(compiled(x), y).backward()
        stats.reset()
    expected = {name: g.square().mean(0) for name, g in gradients.items()} if estimator == "exact" \
        else ghost_diagonal(gradients, 3)
    assert_same(stats.diagonal(), expected, gradients=gradients)


@COMPILE
@pytest.mark.parametrize("converted", [False, True])
def test_compile_a_resnet(converted):
    pytest.importorskip("torchvision")
    from torchvision.models.resnet import BasicBlock, ResNet
    torch.manual_seed(0)
    model = ResNet(BasicBlock, [1, 1, 1, 1], num_classes=10).double()  # one block a stage: tracing 18 layers takes minutes
    if converted:
        covnoise.convert_ghost_batch_norm(model, 4)
    x, y = batch(8, 3, 32, 32, classes=10)
    stats = covnoise.attach(model, "ghost", 4)
    F.cross_entropy(model(x), y).backward()
    stats.reset()
    eager = stats.diagonal()
    model.zero_grad()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    F.cross_entropy(compiled(x), y).backward()
    assert_same(stats.diagonal(), eager, 1e-6)


@COMPILE
def test_parts_of_a_model_may_be_compiled():
    model = small_network().double()
    x, y = batch(12, 2, 6, 6)
    gradients = example_gradients(model, x, y)
    for name, module in model.named_children():
        if isinstance(module, nn.Linear):
            setattr(model, name, torch.compile(module, backend="aot_eager"))
    stats = covnoise.attach(model, "ghost", 3)
    F.cross_entropy(model(x), y).backward()
    diagonal = {name.replace("._orig_mod", ""): value for name, value in stats.diagonal().items()}
    assert_same(diagonal, ghost_diagonal(gradients, 3), gradients=gradients)


@COMPILE
def test_what_torch_compile_returns_is_refused():
    with pytest.raises(ValueError, match="attach to the model that torch.compile was given"):
        covnoise.attach(torch.compile(small_network()))


@COMPILE
def test_compile_says_what_it_could_not_notice():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 3)

        def forward(self, x):
            return self.second(self.first(self.first(x)))

    model, (x, y) = Twice().double(), batch(6, 4)
    gradients = example_gradients(model, x, y)
    stats = covnoise.attach(model, "exact")
    compiled = torch.compile(model, backend="aot_eager")
    F.cross_entropy(compiled(x), y).backward()
    with pytest.raises(RuntimeError, match="'first' had 12 examples in calls of 6.*run once without torch.compile"):
        stats.diagonal()
    stats.discard()
    F.cross_entropy(model(x), y).backward()
    stats.reset()
    torch._dynamo.reset()
    F.cross_entropy(compiled(x), y).backward()
    assert_same(stats.diagonal(), {name: g.square().mean(0) for name, g in gradients.items()}, gradients=gradients)


def compiled_linear():
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    stats = covnoise.attach(model, "ghost", 2)
    return model, stats, torch.compile(model, backend="aot_eager")


@COMPILE
def test_compiled_passes_are_counted():
    _, stats, compiled = compiled_linear()
    for sizes in ([8], [8], [6, 6], [8, 3], [8]):
        for size in sizes:
            x, y = batch(size, 4)
            F.cross_entropy(compiled(x), y).backward()
        assert stats.examples == sum(sizes)
        assert stats.measured().groups == sum((size + 1) // 2 for size in sizes)
        stats.reset()


@COMPILE
def test_a_backward_pass_out_of_turn_is_counted_as_it_is():
    model, stats, compiled = compiled_linear()
    small, large = batch(6, 4), batch(8, 4)
    gradients = example_gradients(model, *large)
    loss = F.cross_entropy(compiled(large[0]), large[1])
    compiled(small[0])
    loss.backward()
    assert stats.examples == 8
    assert_same(stats.diagonal(), ghost_diagonal(gradients, 2), gradients=gradients)


@COMPILE
def test_gradients_that_are_not_accumulated_are_not_counted():
    model, stats, compiled = compiled_linear()
    x, y = batch(6, 4)
    torch.autograd.grad(F.cross_entropy(compiled(x), y), list(model.parameters()))
    with pytest.raises(RuntimeError, match="nothing was measured"):
        stats.diagonal()


@COMPILE
def test_compiled_modules_are_freed():
    model, stats, compiled = compiled_linear()
    x, y = batch(6, 4)
    F.cross_entropy(compiled(x), y).backward()
    layers = [weakref.ref(layer) for layer in stats.layers]
    stats.detach()
    torch._dynamo.reset()
    del model, stats, compiled
    gc.collect()
    assert [layer() for layer in layers] == [None, None]


@pytest.mark.skipif(DEVICE == "cpu" or not hasattr(getattr(torch.backends.cudnn, "conv", None), "fp32_precision"),
                    reason="no GPU, or no fp32_precision")
def test_fp32_precision_does_not_disturb():
    before = torch.backends.cudnn.conv.fp32_precision
    torch.backends.cudnn.conv.fp32_precision = "tf32" if before != "tf32" else "ieee"
    try:
        model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 64, 3))
        x, y = batch(8, 3, 8, 8)
        stats = covnoise.attach(model, "ghost", 4)
        F.cross_entropy(model(x.float()), y).backward()
        assert all(torch.isfinite(value).all() for value in stats.diagonal().values())
    finally:
        torch.backends.cudnn.conv.fp32_precision = before
