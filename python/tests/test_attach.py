"""What people do to a model keeps working, or is refused by name."""
import copy
import io
import math
import pickle
import warnings

import pytest
import torch
from support import (DEVICE, assert_same, batch, diagonal_of, exact_diagonal, example_gradients, ghost_diagonal, losses_of,
                     small_network)
from torch import nn
from torch.utils.checkpoint import checkpoint

import covnoise

GROUP = 3


@pytest.fixture
def model():
    return small_network()


@pytest.fixture
def data():
    return batch(12, 2, 6, 6)


@pytest.fixture
def gradients(model, data):
    return example_gradients(model, *data)


@pytest.mark.parametrize("estimator", ["exact", "ghost"])
class TestTheSameDiagonal:
    """Whatever way the gradient of the batch is computed."""

    def expected(self, gradients, estimator):
        return diagonal_of(gradients, estimator, GROUP)

    def test_mean_and_sum(self, model, data, gradients, estimator):
        for loss in ("mean", "sum"):
            stats = covnoise.attach(model, estimator, GROUP, loss=loss)
            getattr(losses_of(model, *data), loss)().backward()
            assert_same(stats.diagonal(), self.expected(gradients, estimator), gradients=gradients)
            stats.detach()

    @pytest.mark.parametrize("micro_batch", [3, 6])
    def test_gradient_accumulation(self, model, data, gradients, estimator, micro_batch):
        stats = covnoise.attach(model, estimator, GROUP)
        for x, y in zip(data[0].split(micro_batch), data[1].split(micro_batch)):
            (losses_of(model, x, y).mean() * micro_batch / 12).backward()
        assert stats.examples == 12
        assert_same(stats.diagonal(), self.expected(gradients, estimator), gradients=gradients)

    def test_two_forwards_before_two_backwards(self, model, data, gradients, estimator):
        stats = covnoise.attach(model, estimator, GROUP, loss="sum")
        losses = [losses_of(model, x, y).sum() for x, y in zip(data[0].split(6), data[1].split(6))]
        for loss in losses:
            loss.backward()
        assert_same(stats.diagonal(), self.expected(gradients, estimator), gradients=gradients)

    def test_grad_scaler(self, model, data, gradients, estimator):
        class Scaler:
            def get_scale(self):
                return 1024.0

        stats = covnoise.attach(model, estimator, GROUP, scaler=Scaler())
        (losses_of(model, *data).mean() * 1024).backward()
        assert_same(stats.diagonal(), self.expected(gradients, estimator), gradients=gradients)

    def test_whatever_happens_to_the_gradients(self, model, data, gradients, estimator):
        stats = covnoise.attach(model, estimator, GROUP)
        losses_of(model, *data).mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
        model.zero_grad(set_to_none=False)
        assert_same(stats.diagonal(), self.expected(gradients, estimator), gradients=gradients)

    def test_after_reset(self, model, data, gradients, estimator):
        stats = covnoise.attach(model, estimator, GROUP)
        for _ in range(3):
            losses_of(model, *data).mean().backward()
            stats.reset()
        assert_same(stats.diagonal(), self.expected(gradients, estimator), gradients=gradients)


@pytest.mark.parametrize("estimator", ["exact", "ghost"])
def test_one_backward_of_two_forwards(model, data, gradients, estimator):
    stats = covnoise.attach(model, estimator, GROUP)
    sum(losses_of(model, x, y).sum() / 12 for x, y in zip(data[0].split(6), data[1].split(6))).backward()
    assert stats.examples == 12
    assert_same(stats.diagonal(), diagonal_of(gradients, estimator, GROUP), gradients=gradients)


def test_passes_smaller_than_a_group(model, data, gradients):
    stats = covnoise.attach(model, "ghost", 5, loss="sum")
    for x, y in zip(data[0].split(2), data[1].split(2)):
        losses_of(model, x, y).sum().backward()
    assert_same(stats.diagonal(), ghost_diagonal(gradients, 2), gradients=gradients)


def test_gradients_that_are_not_accumulated_do_not_count(model, data, gradients):
    stats = covnoise.attach(model, "ghost", GROUP)
    losses = losses_of(model, *data)
    torch.autograd.grad(losses.sum(), list(model.parameters()), retain_graph=True)
    with pytest.raises(RuntimeError, match="nothing was measured"):
        stats.examples
    losses.mean().backward()
    assert stats.examples == 12
    assert_same(stats.diagonal(), ghost_diagonal(gradients, GROUP), gradients=gradients)


def test_attach_without_gradients_enabled(model, data, gradients):
    with torch.no_grad():
        stats = covnoise.attach(model, "ghost", GROUP)
    losses_of(model, *data).mean().backward()
    assert_same(stats.diagonal(), ghost_diagonal(gradients, GROUP), gradients=gradients)


def test_activation_checkpointing(data):
    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = small_network()

        def forward(self, x):
            return self.inner[5:](checkpoint(self.inner[:5], x.requires_grad_()))

    model = Checkpointed()
    gradients = {f"inner.{name}": g for name, g in example_gradients(model.inner, *data).items()}
    stats = covnoise.attach(model, "ghost", GROUP)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about use_reentrant
        losses_of(model, *data).mean().backward()
    assert_same(stats.diagonal(), ghost_diagonal(gradients, GROUP), gradients=gradients)


def test_trace_mean_and_noise_scale(model, data):
    data = data[0], torch.zeros_like(data[1])
    gradients = example_gradients(model, *data)
    stats = covnoise.attach(model, "exact")
    losses_of(model, *data).mean().backward()
    mean = {name: g.mean(0) for name, g in gradients.items()}
    assert_same(stats.mean(), mean)
    trace = sum(float(value.sum()) for value in exact_diagonal(gradients).values())
    assert stats.trace() == pytest.approx(trace, rel=1e-12)
    square = sum(float(value.square().sum()) for value in mean.values())
    covariance = (trace - square) * 12 / 11
    assert stats.noise_scale() == pytest.approx(covariance / (square - covariance / 12), rel=1e-9)


@pytest.mark.parametrize("overflow", [0, 1])
def test_a_step_that_is_not_finite_does_not_count_in_the_noise_scale(model, data, overflow):
    data = data[0], torch.zeros_like(data[1])
    stats = covnoise.attach(model, "ghost", GROUP)
    for step in range(3):
        (losses_of(model, *data).mean() * (math.inf if step == overflow else 1.0)).backward()
        stats.reset()
    averaged = stats.noise_scale()
    stats.detach()
    stats = covnoise.attach(model, "ghost", GROUP)
    losses_of(model, *data).mean().backward()
    assert 0 < averaged < math.inf and averaged == pytest.approx(stats.noise_scale(), rel=1e-9)


def test_a_copy_is_not_attached(model, data):
    stats = covnoise.attach(model, "ghost", GROUP)
    copied = copy.deepcopy(model)
    loaded = pickle.loads(pickle.dumps(model))
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for other in (copied, loaded, torch.load(file, **({"weights_only": False} if hasattr(torch, "compile") else {}))):
        losses_of(other, *data).mean().backward()
        with pytest.raises(RuntimeError, match="nothing was measured"):
            stats.diagonal()
        with torch.no_grad():
            other[0].weight.add_(1)  # its forward uses its own weights
        assert not torch.allclose(other(data[0]), model(data[0]))
        covnoise.attach(other, "exact").detach()


def test_state_dict_and_classes_stay(model):
    names, values = list(model.state_dict()), [value.clone() for value in model.state_dict().values()]
    classes, text = [type(module) for module in model.modules()], repr(model)
    stats = covnoise.attach(model, "ghost", GROUP)
    assert list(model.state_dict()) == names
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), values))
    assert [type(module) for module in model.modules()] == classes and repr(model) == text
    stats.detach()
    assert all("forward" not in module.__dict__ for module in model.modules())


def test_eval_and_no_grad_record_nothing(model, data):
    stats = covnoise.attach(model, "ghost", GROUP)
    assert "LinearFunction" in type(model(data[0]).grad_fn).__name__
    with torch.no_grad():
        model(data[0])
    model.eval()
    assert "Addmm" in type(model(data[0]).grad_fn).__name__
    losses_of(model, *data).mean().backward()
    with pytest.raises(RuntimeError, match=r"model.train\(\)"):
        stats.diagonal()


def test_a_second_attach_is_refused(model):
    stats = covnoise.attach(model)
    with pytest.raises(ValueError, match="already attached; detach"):
        covnoise.attach(model)
    with pytest.raises(ValueError, match="'0' is already attached"):
        covnoise.attach(nn.Sequential(model[0]))
    stats.detach()
    covnoise.attach(model)


def test_frozen_parameters_have_no_diagonal(model, data):
    model[0].weight.requires_grad_(False)
    model[3].requires_grad_(False)
    gradients = example_gradients(model, *data)
    stats = covnoise.attach(model, "ghost", GROUP)
    losses_of(model, *data).mean().backward()
    assert "0.weight" not in stats.diagonal() and "0.bias" in stats.diagonal()
    assert_same(stats.diagonal(), ghost_diagonal(gradients, GROUP), gradients=gradients)


def calls_of(run):
    """Names of the operators that are called and of the nodes that accumulate gradients, in their order."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        run()
    prefixes = ("aten::", "covnoise::", "torch::autograd::")
    return [event.name for event in profile.events() if event.name.startswith(prefixes)]


@pytest.mark.skipif(DEVICE != "cpu", reason="counts the calls of the CPU's operators")
def test_what_attach_adds_to_a_pass():
    """Nothing to the forward pass. To the backward pass one call per layer, which copies the moments of a parameter once,
    and one node for all layers. Each costs more than a small kernel."""
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5), nn.ReLU(), nn.Linear(5, 3))
    x, y = batch(12, 2, 6, 6)
    plain = calls_of(lambda: model(x.float()))
    stats = covnoise.attach(model, "ghost", GROUP)
    for _ in range(2):  # the first pass checks that the layers account for the whole gradient
        losses_of(model, x.float(), y).mean().backward()
        stats.reset()
    assert len(calls_of(lambda: model(x.float()))) <= len(plain)
    loss = losses_of(model, x.float(), y).mean()
    calls = calls_of(loss.backward)
    moments = [name for name in calls if name.endswith("_moments")]
    assert moments == ["covnoise::linear_moments", "covnoise::linear_moments", "covnoise::conv2d_moments"]
    parameters = len(list(model.parameters()))
    assert calls.count("torch::autograd::AccumulateGrad") == parameters + 1
    assert calls.count("aten::cat") == parameters and "aten::clone" not in calls


def test_data_parallel_and_scripts_are_refused(model):
    with pytest.raises(ValueError, match="DistributedDataParallel"):
        covnoise.attach(nn.DataParallel(model))
    with pytest.raises(ValueError, match="before torch.jit.script"):
        covnoise.attach(torch.jit.script(model))


def test_a_scripted_layer_is_measured_between_passes(model, data, gradients):
    model[6] = torch.jit.script(model[6])
    stats = covnoise.attach(model, "ghost", GROUP, loss="sum")
    assert stats.estimators()["6.weight"] == "micro" and stats.estimators()["8.weight"] == "ghost"
    for x, y in zip(data[0].split(GROUP), data[1].split(GROUP)):
        losses_of(model, x, y).sum().backward()
    assert_same(stats.diagonal(), ghost_diagonal(gradients, GROUP), gradients=gradients)


def test_tracing_gives_the_plain_model(model, data):
    covnoise.attach(model, "ghost", GROUP)
    traced = torch.jit.trace(model, data[0])
    torch.testing.assert_close(traced(data[0]), model(data[0]))


def test_a_backward_without_a_recorded_forward(model, data, gradients):
    """The forward pass was made before attach: nothing is measured, and the next pass is."""
    losses = losses_of(model, *data)
    stats = covnoise.attach(model, "ghost", GROUP)
    losses.mean().backward()
    with pytest.raises(RuntimeError, match="nothing was measured"):
        stats.diagonal()
    losses_of(model, *data).mean().backward()
    assert_same(stats.diagonal(), ghost_diagonal(gradients, GROUP), gradients=gradients)
    assert set(stats.estimators().values()) == {"ghost"}


def test_second_derivatives_are_refused(model, data):
    covnoise.attach(model, "ghost", GROUP)
    with pytest.raises(RuntimeError, match="cannot be differentiated again; detach"):
        torch.autograd.grad(losses_of(model, *data).sum(), list(model.parameters()), create_graph=True)


def test_a_batch_without_gradients_between(model, data):
    """A forward pass without a backward pass leaves no trace."""
    stats = covnoise.attach(model, "ghost", GROUP)
    losses_of(model, data[0][:6], data[1][:6])
    losses_of(model, *data).mean().backward()
    assert stats.examples == 12


@pytest.mark.parametrize("arguments, message", [
    ({"estimator": "kfac"}, "known: exact, ghost, micro"),
    ({"loss": "none"}, "known: mean, sum"),
    ({"group": 0}, "at least 1"),
    ({"group": 2.5}, "group = 2.5 must be a whole number"),
])
def test_wrong_arguments(model, arguments, message):
    with pytest.raises(ValueError, match=message):
        covnoise.attach(model, **arguments)


def test_parameters_are_not_a_model(model):
    with pytest.raises(TypeError, match="attach takes an nn.Module, not generator"):
        covnoise.attach(model.parameters())


def test_one_group_is_refused(model, data):
    stats = covnoise.attach(model, "ghost", 12)
    losses_of(model, *data).mean().backward()
    with pytest.raises(RuntimeError, match="at least two groups.*drop_last=True"):
        stats.diagonal()


def test_mixed_dtypes(data):
    """A layer in float32 between layers in float64, and one in bfloat16."""
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.first, self.second, self.third = nn.Linear(72, 8).double(), nn.Linear(8, 6), nn.Linear(6, 3).bfloat16()

        def forward(self, x):
            x = self.first(x.flatten(1)).tanh()
            return self.third(self.second(x.float()).tanh().bfloat16()).double()

    model = Mixed()
    gradients = example_gradients(model, *data)
    stats = covnoise.attach(model, "exact")
    losses_of(model, *data).mean().backward()
    found = stats.diagonal()
    assert {name: value.dtype for name, value in found.items() if name.endswith("weight")} == {
        "first.weight": torch.float64, "second.weight": torch.float32, "third.weight": torch.float32}
    for name, expected in exact_diagonal({n: g.double() for n, g in gradients.items()}).items():
        assert float((found[name].double() - expected).abs().max() / expected.max()) < 0.03, name


def test_autocast(data):
    model = small_network().float()
    x, y = data[0].float(), data[1]
    stats = covnoise.attach(model, "ghost", GROUP)
    with torch.autocast(DEVICE, torch.bfloat16):
        losses = losses_of(model, x, y)
    losses.mean().backward()
    low = stats.diagonal()
    stats.reset()
    losses_of(model, x, y).mean().backward()
    for name, value in stats.diagonal().items():
        assert low[name].dtype == torch.float32
        assert float((low[name] - value).abs().max() / value.max()) < 0.1, name


def test_the_model_may_move(data):
    model = small_network().float()
    stats = covnoise.attach(model, "ghost", GROUP)
    losses_of(model, data[0].float(), data[1]).mean().backward()
    stats.reset()
    model.double()
    model.zero_grad()
    losses_of(model, *data).mean().backward()
    gradients = example_gradients(model, *data)
    assert_same(stats.diagonal(), ghost_diagonal(gradients, GROUP), gradients=gradients)
