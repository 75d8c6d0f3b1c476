"""Ghost batch normalisation, and the conversion to it."""
import pytest
import torch
from support import batch
from torch import nn

import covnoise


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 5), nn.BatchNorm1d(5),
                         nn.Linear(5, 3)).double()


def test_conversion_keeps_parameters_and_buffers():
    model = network()
    model(batch(8, 2, 4, 4)[0])
    names, objects = list(model.state_dict()), [id(p) for p in model.parameters()]
    values = [value.clone() for value in model.state_dict().values()]
    assert covnoise.convert_ghost_batch_norm(model, 4) is model
    assert [type(module).__name__ for module in model].count("GhostBatchNorm") == 2
    assert list(model.state_dict()) == names and [id(p) for p in model.parameters()] == objects
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), values))
    assert isinstance(covnoise.convert_ghost_batch_norm(nn.BatchNorm2d(3), 2), covnoise.GhostBatchNorm)


@pytest.mark.parametrize("examples", [8, 11])
def test_each_ghost_batch_is_a_batch(examples):
    """Outputs, gradients and running statistics are those of the ghost batches one after another."""
    ghost, plain = network(), network()
    covnoise.convert_ghost_batch_norm(ghost, 4)
    x, y = batch(examples, 2, 4, 4)
    outputs = torch.cat([plain(part) for part in x.split(4)])
    torch.testing.assert_close(ghost(x), outputs, rtol=1e-10, atol=1e-12)
    for model, result in ((ghost, ghost(x)), (plain, torch.cat([plain(part) for part in x.split(4)]))):
        nn.functional.cross_entropy(result, y).backward()
    for (name, p), q in zip(ghost.named_parameters(), plain.parameters()):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-9, atol=1e-12, msg=name)
    for key in ("running_mean", "running_var"):
        torch.testing.assert_close(getattr(ghost[1], key), getattr(plain[1], key), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(ghost.eval()(x), plain.eval()(x), rtol=1e-10, atol=1e-12)


def test_what_cannot_be_converted_is_named():
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3, affine=False))
    with pytest.raises(ValueError, match="'1' cannot become ghost batch normalisation"):
        covnoise.convert_ghost_batch_norm(model, 4)
    attached = network()
    covnoise.attach(attached)
    with pytest.raises(ValueError, match="'1' is attached"):
        covnoise.convert_ghost_batch_norm(attached, 4)
    for ghost_batch in (0, 2.5):
        with pytest.raises(ValueError, match=f"ghost_batch = {ghost_batch} must be a whole number of at least 1"):
            covnoise.GhostBatchNorm(3, ghost_batch)


class Activated(nn.BatchNorm1d):
    def forward(self, x):
        return super().forward(x).relu()


@pytest.mark.parametrize("norm, message", [
    (Activated(3), r"'2' \(Activated\) has a forward of its own"),
    (nn.SyncBatchNorm(3), r"'2' \(SyncBatchNorm\) has"),
    (nn.LazyBatchNorm1d(), "'2' does not know its channels yet"),
    (nn.BatchNorm1d(3, momentum=None), "'2' cannot become"),
])
def test_what_is_refused_leaves_the_model_as_it_was(norm, message):
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 3), norm)
    with pytest.raises(ValueError, match=message):
        covnoise.convert_ghost_batch_norm(model, 4)
    assert type(model[0]) is nn.BatchNorm1d


def test_a_layer_with_two_names_stays_one():
    norm = nn.BatchNorm1d(3)
    model = covnoise.convert_ghost_batch_norm(nn.Sequential(norm, nn.Linear(3, 3), norm, nn.Sequential(norm)), 4)
    assert type(model[0]) is covnoise.GhostBatchNorm
    assert model[0] is model[2] is model[3][0]


def test_hooks_stay():
    model, seen = nn.Sequential(nn.BatchNorm1d(3)), []
    handle = model[0].register_forward_hook(lambda *_: seen.append("forward"))
    model[0].register_full_backward_hook(lambda *_: seen.append("backward"))
    covnoise.convert_ghost_batch_norm(model, 4)
    model(torch.randn(8, 3, requires_grad=True)).sum().backward()
    handle.remove()
    model(torch.randn(8, 3))
    assert seen == ["forward", "backward"]


@pytest.mark.parametrize("sizes", [(9, 3), (1, 3), (9, 3, 1), (0, 3)])
def test_a_ghost_batch_without_a_variance_is_refused(sizes):
    model = nn.Sequential(nn.Identity(), covnoise.convert_ghost_batch_norm(nn.Sequential(nn.BatchNorm1d(3)), 4))
    with pytest.raises(ValueError, match=r"covnoise: '0' got .*\(of 4\) has fewer than two values per channel; use drop_last"):
        model(torch.randn(sizes))
    assert model.eval()(torch.randn(sizes)).shape == sizes
    model.train()(torch.randn(9, 3, 2))
