"""Parameters that are used several times in one pass, and modules that attach does not know."""
import pytest
import torch
import torch.nn.functional as F
from support import assert_same, batch, diagonal_of, example_gradients, ghost_diagonal, losses_of
from torch import nn

import covnoise

ESTIMATORS = pytest.mark.parametrize("estimator, group", [("exact", 1), ("ghost", 3)])


class SharedModule(nn.Module):
    """One linear layer and one convolution, called twice each."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.convolution, self.linear, self.head = nn.Conv2d(2, 2, 3, padding=1), nn.Linear(18, 18), nn.Linear(18, 3)

    def forward(self, x):
        x = self.convolution(self.convolution(x).tanh()).tanh().flatten(1)
        return self.head(self.linear(self.linear(x).tanh()).tanh())


class TiedHead(nn.Module):
    """Embedding and head share their weight, as in language models."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.inner, self.head = nn.Embedding(5, 4), nn.Linear(4, 4), nn.Linear(4, 5, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        return self.head(self.inner(self.embedding(tokens)).tanh()).mean(1)


@ESTIMATORS
def test_a_module_that_is_called_twice(estimator, group):
    model, (x, y) = SharedModule().double(), batch(8, 2, 3, 3)
    gradients = example_gradients(model, x, y)
    stats = covnoise.attach(model, estimator, group)
    for _ in range(3):  # the first pass finds out that the layers are shared
        losses_of(model, x, y).mean().backward()
        assert_same(stats.diagonal(), diagonal_of(gradients, estimator, group), gradients=gradients)
        stats.reset()
    for part in (slice(0, 6), slice(6, 8)):
        losses_of(model, x[part], y[part]).sum().div(8).backward()
    assert_same(stats.diagonal(), diagonal_of(gradients, estimator, group), gradients=gradients)


@pytest.mark.parametrize("tied", [False, True])
def test_compiled_passes_that_share_parameters_are_not_squared_together(tied, monkeypatch):
    """As a compiled model runs: its forward tells nobody that a new batch begins, and its calls have compiled plans."""
    model = TiedHead().double() if tied else SharedModule().double()
    x = torch.randint(0, 5, (8, 6)) if tied else batch(8, 2, 3, 3)[0]
    y = torch.randint(0, 5 if tied else 3, (8,))
    gradients = example_gradients(model, x, y)
    stats = covnoise.attach(model, "ghost", 2)
    losses_of(model, x, y).mean().backward()  # finds out what is shared
    stats.reset()
    for module in ("_recorded", "statistics", "ghost_norm", "layers.linear"):
        monkeypatch.setattr(f"covnoise.{module}.compiling", lambda: True)
    for _ in range(2):
        losses_of(model, x, y).mean().backward()
        assert_same(stats.diagonal(), diagonal_of(gradients, "ghost", 2), gradients=gradients)
        stats.reset()
    for part in (slice(0, 4), slice(4, 8)):
        losses_of(model, x[part], y[part]).sum().div(8).backward()
    with pytest.raises(RuntimeError, match="shares parameters in a compiled model, whose backward passes cannot be told"):
        stats.diagonal()


@ESTIMATORS
def test_a_head_tied_to_the_embedding(estimator, group):
    model = TiedHead().double()
    tokens, y = torch.randint(0, 5, (8, 6)), torch.randint(0, 5, (8,))
    gradients = example_gradients(model, tokens, y)
    stats = covnoise.attach(model, estimator, group)
    losses_of(model, tokens, y).mean().backward()
    assert_same(stats.diagonal(), diagonal_of(gradients, estimator, group), gradients=gradients)


@ESTIMATORS
def test_zero_grad_between_forward_and_backward(estimator, group):
    """The passes that it finds open are still to come, also those of two forwards."""
    model, (x, y) = SharedModule().double(), batch(12, 2, 3, 3)
    gradients = example_gradients(model, x, y)
    stats = covnoise.attach(model, estimator, group)
    opt = covnoise.optim.Noisy(torch.optim.SGD(model.parameters(), lr=0.0), stats, 4)
    for parts in (12, 12, 6):
        losses = [losses_of(model, *part).sum() / 12 for part in zip(x.split(parts), y.split(parts))]
        opt.zero_grad()
        sum(losses).backward()
        opt.step()
        assert_same(stats.diagonal(), diagonal_of(gradients, estimator, group), gradients=gradients)
    assert set(stats.estimators().values()) == {estimator}


class Functional(nn.Module):
    """Uses the weight of a layer also without calling the layer."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        return self.second(F.linear(self.first(x).tanh(), self.first.weight).tanh())


def in_passes(model, stats, x, y, size):
    for part in range(0, len(y), size):
        losses_of(model, x[part:part + size], y[part:part + size]).sum().backward()


def test_a_weight_that_is_also_used_outside_of_its_layer():
    model, (x, y) = Functional().double(), batch(9, 4)
    gradients = example_gradients(model, x, y)
    stats = covnoise.attach(model, "ghost", 3, loss="sum")
    with pytest.warns(UserWarning, match="'first.weight' is measured between backward passes"):
        in_passes(model, stats, x, y, 3)
        found = stats.diagonal()
    assert stats.estimators() == {"first.weight": "micro", "first.bias": "ghost", "second.weight": "ghost",
                                  "second.bias": "ghost"}
    assert_same(found, ghost_diagonal(gradients, 3), gradients=gradients)


def test_a_weight_used_elsewhere_in_passes_of_different_sizes():
    model, (x, y) = Functional().double(), batch(8, 4)
    stats = covnoise.attach(model, "ghost", 2)
    with pytest.warns(UserWarning, match="'first.weight' is measured between"):
        for part in (slice(0, 6), slice(6, 8)):
            (losses_of(model, x[part], y[part]).sum() / 8).backward()
        mean = stats.mean()["first.weight"]
    torch.testing.assert_close(mean, model.first.weight.grad, rtol=1e-9, atol=1e-12)
    assert [(each.passes, each.examples) for each in stats.between] == [(2, 8)]


@pytest.mark.parametrize("structure", ["none", "isotropic"])
def test_a_weight_used_elsewhere_is_found_in_a_step_that_measures_nothing(structure):
    model, (x, y) = Functional().double(), batch(8, 4)
    opt = covnoise.optim.Noisy(torch.optim.SGD(model.parameters(), lr=0.1), covnoise.attach(model, "ghost", 2), 2,
                               structure=structure)
    with pytest.warns(UserWarning, match="'first.weight' is measured between"):
        losses_of(model, x, y).mean().backward()
        opt.step()
    assert opt.stats.examples == 8


class Attention(nn.Module):
    """A module that attach does not know, a parameter of the model itself, and a recurrent layer."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.token = nn.Parameter(torch.randn(1, 1, 4))
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.recurrent = nn.GRU(4, 4, batch_first=True)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        x = torch.cat((self.token.expand(len(x), -1, -1), x), 1)
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return self.head(self.recurrent(x)[0][:, -1])


def test_unknown_modules_are_measured_between_passes():
    model, (x, y) = Attention().double(), batch(9, 5, 4)
    gradients = example_gradients(model, x, y)
    stats = covnoise.attach(model, "ghost", 3, loss="sum")
    in_passes(model, stats, x, y, 3)
    assert_same(stats.diagonal(), ghost_diagonal(gradients, 3), gradients=gradients)
    known = {name for name, estimator in stats.estimators().items() if estimator == "ghost"}
    assert known == {"head.weight", "head.bias"}


def test_trace_and_noise_scale_of_both_kinds_of_parameters():
    model, (x, y) = Attention().double(), batch(9, 5, 4, classes=1)
    gradients = example_gradients(model, x, y)
    stats = covnoise.attach(model, "ghost", 3, loss="sum")
    in_passes(model, stats, x, y, 3)
    trace = sum(float(value.sum()) for value in ghost_diagonal(gradients, 3).values())
    square = sum(float(g.mean(0).square().sum()) for g in gradients.values()) - trace / 9
    assert stats.trace() == pytest.approx(trace, rel=1e-12)
    assert square > 0 and stats.noise_scale() == pytest.approx(trace / square, rel=1e-9)


def test_unknown_modules_may_be_frozen_for_a_while():
    model, (x, y) = Attention().double(), batch(9, 5, 4)
    model.attention.requires_grad_(False)
    stats = covnoise.attach(model, "ghost", 3, loss="sum")
    in_passes(model, stats, x, y, 3)
    assert not any(name.startswith("attention") for name in stats.diagonal())
    stats.reset()
    model.attention.requires_grad_(True)
    gradients = example_gradients(model, x, y)
    in_passes(model, stats, x, y, 3)
    assert_same(stats.diagonal(), ghost_diagonal(gradients, 3), gradients=gradients)


def test_steps_of_one_pass_are_compared_with_the_step_before():
    model, (x, y) = Attention().double(), batch(8, 5, 4)
    gradients = example_gradients(model, x, y)
    stats = covnoise.attach(model, "micro")
    with pytest.warns(UserWarning, match="no diagonal before its second backward pass"):
        losses_of(model, x[:4], y[:4]).mean().backward()
        assert not any(value.any() for value in stats.diagonal().values())
        stats.reset()
    losses_of(model, x[4:], y[4:]).mean().backward()
    assert_same(stats.diagonal(), ghost_diagonal(gradients, 4), gradients=gradients)


def test_examples_folded_into_the_batch_are_not_taken_for_examples():
    class Folded(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.first, self.folded, self.last = nn.Linear(4, 6), nn.Linear(3, 3), nn.Linear(6, 3)

        def forward(self, x):
            return self.last(self.folded(self.first(x).reshape(-1, 3)).tanh().reshape(len(x), 6))

    model, (x, y) = Folded().double(), batch(9, 4)
    gradients = example_gradients(model, x, y)
    stats = covnoise.attach(model, "ghost", 3, loss="sum")
    with pytest.warns(UserWarning, match="'folded' got 6 examples of a batch of 3"):
        in_passes(model, stats, x, y, 3)
    assert stats.estimators()["folded.weight"] == "micro"
    assert_same(stats.diagonal(), ghost_diagonal(gradients, 3), gradients=gradients)


@pytest.mark.parametrize("positions", [3, 4])
def test_an_embedding_of_positions(positions):
    """Of as many positions as examples, and of more: nothing says which of its rows belong to which example."""
    class Language(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.tokens, self.positions, self.head = nn.Embedding(5, 4), nn.Embedding(4, 4), nn.Linear(4, 3)

        def forward(self, tokens):
            where = torch.arange(tokens.shape[1], device=tokens.device)
            return self.head((self.tokens(tokens) + self.positions(where)).tanh().mean(1))

    model, tokens, y = Language().double(), torch.randint(0, 5, (9, positions)), torch.randint(0, 3, (9,))
    gradients = example_gradients(model, tokens, y)
    stats = covnoise.attach(model, "ghost", 3, loss="sum")
    with pytest.warns(UserWarning, match="'positions.weight' is measured between backward passes"):
        in_passes(model, stats, tokens, y, 3)
    assert stats.estimators()["positions.weight"] == "micro"
    assert_same(stats.diagonal(), ghost_diagonal(gradients, 3), gradients=gradients)


def test_the_models_own_forward_need_not_be_called():
    model, (x, y) = nn.ModuleDict({"body": nn.Linear(4, 5), "head": nn.Linear(5, 3)}).double(), batch(8, 4)

    def loss(module, x, y):
        return F.cross_entropy(model["head"](model["body"](x).tanh()), y, reduction="none")

    gradients = example_gradients(model, x, y, loss)
    stats = covnoise.attach(model, "exact")
    for _ in range(3):
        loss(model, x, y).mean().backward()
        assert_same(stats.diagonal(), diagonal_of(gradients, "exact", 1))
        stats.reset()


class Step(nn.Module):
    """Calls its network in a method of its own, or with a dictionary."""

    def __init__(self):
        super().__init__()
        self.network = Attention()

    def training_step(self, x):
        return self.network(x)

    def forward(self, inputs):
        return self.network(inputs["x"])


@pytest.mark.parametrize("call", [lambda model, x: model.training_step(x), lambda model, x: model({"x": x})])
def test_the_batch_of_a_part_is_the_models(call):
    model, (x, y) = Step().double(), batch(9, 5, 4)

    def loss(module, x, y):
        return F.cross_entropy(call(module, x), y, reduction="none")

    gradients = example_gradients(model, x, y, loss)
    stats = covnoise.attach(model, "micro", loss="sum")
    for _ in range(2):
        for part in (slice(0, 4), slice(4, 8), slice(8, 9)):
            loss(model, x[part], y[part]).sum().backward()
        assert stats.examples == 9
        assert_same(stats.diagonal(), ghost_diagonal(gradients, 4), gradients=gradients)
        stats.reset()
    stats.detach()
    assert all("forward" not in module.__dict__ for module in model.modules())


def test_gradients_that_are_not_accumulated_do_not_count():
    model, (x, y) = Attention().double(), batch(9, 5, 4)
    gradients = example_gradients(model, x, y)
    stats = covnoise.attach(model, "ghost", 3, loss="sum")
    for part in range(0, 9, 3):
        losses = losses_of(model, x[part:part + 3], y[part:part + 3])
        torch.autograd.grad(losses.square().sum(), list(model.parameters()), retain_graph=True)
        losses.sum().backward()
    assert_same(stats.diagonal(), ghost_diagonal(gradients, 3), gradients=gradients)
