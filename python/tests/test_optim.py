"""Noise around an optimizer: its strength, its numbers, its place."""
import copy
import math

import pytest
import torch
from support import (GROUP, LARGE, SMALL, batch, example_gradients, ghost_diagonal, losses_of, noisy, small_network,
                     step, values)
from torch import nn

import covnoise
from covnoise import _philox


@pytest.fixture
def data():
    return batch(LARGE, 2, 6, 6)


def added(structure, data, steps=1, **options):
    """What noise of this structure adds to the parameters."""
    model = small_network()
    plain = copy.deepcopy(model)
    opt, other = noisy(model, structure, **options), torch.optim.SGD(plain.parameters(), lr=0.5)
    step(model, opt, data)
    losses_of(plain, *data).mean().backward()
    other.step()
    return values(model) - values(plain)


def test_the_numbers_are_those_of_the_program(data):
    """The program's update, whose noise is laid out in one buffer with every parameter at a multiple of 16."""
    model = small_network()
    opt = noisy(model, seed=7)
    opt.steps = 5
    losses_of(model, *data).mean().backward()
    found, diagonal = opt.sample(), opt.stats.diagonal()
    offsets = _philox.offsets([p.numel() for p in model.parameters()])
    assert offsets == [0, 80, 96, 112, 128, 240, 256, 320, 336, 352]
    variance = torch.zeros(400, dtype=torch.float64)
    for (name, _), offset in zip(model.named_parameters(), offsets):
        variance[offset:offset + diagonal[name].numel()] = diagonal[name].flatten()
    noise, zero = torch.zeros_like(variance), torch.zeros_like(variance)
    torch.ops.covnoise.sgd_update(noise, zero, zero.clone(), None, variance, math.sqrt(1 / SMALL - 1 / LARGE), 7, 5, -1.0,
                                  0.0, 0.0, None, False, False)
    for p, offset in zip(model.parameters(), offsets):
        mine, theirs = found[id(p)].flatten(), noise[offset:offset + p.numel()]
        if mine.is_cuda:  # the variance is rounded differently there
            torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=0)
        else:
            assert torch.equal(mine, theirs)
    assert noise.any()


def test_philox_is_the_published_function():
    """Known answer of Philox 4x32-10 with key 0: the words of counter (0, 0, step 0, purpose 4), by a scalar program."""
    def philox(counter, key):
        for _ in range(10):
            p0, p1 = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
            counter = [(p1 >> 32) ^ counter[1] ^ key[0], p1 & 0xFFFFFFFF, (p0 >> 32) ^ counter[3] ^ key[1], p0 & 0xFFFFFFFF]
            key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
        return counter

    assert philox([0, 0, 0, 0], [0, 0]) == [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]  # Salmon et al., kat_vectors
    words = [word for block in range(3) for word in philox([block, 0, 9, _philox.SIGNS], [3, 0])]
    found = _philox.signs(7, torch.zeros(()), seed=3, step=9, first=5)
    assert found.tolist() == [1.0 if word >> 31 else -1.0 for word in words[5:12]]


def test_diagonal_noise_in_the_update(data):
    model = small_network()
    diagonal = ghost_diagonal(example_gradients(model, *data), GROUP)
    offsets = _philox.offsets([p.numel() for p in model.parameters()])
    xi = torch.cat([_philox.normals(p, 0, _philox.NOISE, 0, offset).flatten()
                    for p, offset in zip(model.parameters(), offsets)])
    expected = -0.5 * math.sqrt(1 / SMALL - 1 / LARGE) * torch.cat([d.sqrt().flatten() for d in diagonal.values()]) * xi
    torch.testing.assert_close(added("diag-fisher", data), expected, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(added("diag-fisher", data, placement="gradient"), expected, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(added("diag-fisher", data, scale=2.0), 2 * expected, rtol=1e-6, atol=1e-9)


def test_the_trace_is_spread_evenly(data):
    model = small_network()
    diagonal = torch.cat([d.flatten() for d in ghost_diagonal(example_gradients(model, *data), GROUP).values()])
    offsets = _philox.offsets([p.numel() for p in model.parameters()])
    xi = torch.cat([_philox.normals(p, 0, _philox.NOISE, 0, offset).flatten()
                    for p, offset in zip(model.parameters(), offsets)])
    expected = -0.5 * math.sqrt((1 / SMALL - 1 / LARGE) * diagonal.mean()) * xi
    torch.testing.assert_close(added("fisher-trace", data), expected, rtol=1e-6, atol=1e-9)


def test_equal_examples_have_no_trace_to_spread():
    model = nn.Linear(4, 3)
    opt = covnoise.optim.Noisy(torch.optim.SGD(model.parameters(), lr=0.1), covnoise.attach(model, "ghost", 4), SMALL,
                               structure="fisher-trace")
    for seed in range(8):  # some traces are rounded to below zero
        x, y = batch(1, 4, seed=seed)
        step(model, opt, (x.float().repeat(16, 1), y.repeat(16)))
    assert torch.isfinite(values(model)).all()


def test_full_fisher_noise_is_a_signed_sum(data):
    gradients = example_gradients(small_network(), *data)
    signs = _philox.signs(LARGE, data[0].new_empty(()), 0, 0, 0)
    draw = torch.cat([torch.tensordot(signs, g, 1).flatten() for g in gradients.values()]) / math.sqrt(LARGE)
    expected = -0.5 * math.sqrt(1 / SMALL - 1 / LARGE) * draw
    torch.testing.assert_close(added("full-fisher", data), expected, rtol=1e-9, atol=1e-12)


def test_the_signs_of_accumulated_draws_are_those_of_the_batch(data):
    samples = []
    for micro_batch in (12, 6, 3):
        model = small_network()
        opt = noisy(model, "full-fisher")
        for part in zip(*(value.split(micro_batch) for value in data)):
            opt.draw(losses_of(model, *part))
        samples.append(torch.cat([value.flatten() for value in opt.sample().values()]))
    torch.testing.assert_close(samples[1], samples[0], rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(samples[2], samples[0], rtol=1e-9, atol=1e-12)


def test_full_fisher_noise_needs_a_draw(data):
    model = small_network()
    opt = noisy(model, "full-fisher")
    losses_of(model, *data).mean().backward()
    with pytest.raises(RuntimeError, match="opt.draw"):
        opt.step()


def test_isotropic_and_multiplicative_noise(data):
    model = small_network()
    losses_of(model, *data).mean().backward()
    gradient = torch.cat([p.grad.flatten() for p in model.parameters()])
    isotropic = added("isotropic", data, sigma=0.25)
    assert float(isotropic.std()) == pytest.approx(0.125, rel=0.15)
    torch.testing.assert_close(added("multiplicative", data, sigma=0.25), isotropic * gradient, rtol=1e-9, atol=1e-12)
    assert float(added("none", data).abs().max()) < 1e-15


@pytest.mark.parametrize("structure", ["diag-fisher", "fisher-trace"])
def test_the_samples_have_the_covariance(structure, data):
    """Mean zero and variance s^2 C over the steps of the stream."""
    model = small_network()
    opt = noisy(model, structure)
    losses_of(model, *data).mean().backward()
    draws = 2000
    samples = []
    for opt.steps in range(draws):
        samples.append(opt.sample()[id(model[8].weight)])
    samples = torch.stack(samples)
    diagonal = opt.stats.diagonal()
    mean = opt.stats.trace() / sum(d.numel() for d in diagonal.values())
    variance = (diagonal["8.weight"] if structure == "diag-fisher" else torch.full((3, 5), mean)) * (1 / SMALL - 1 / LARGE)
    assert float((samples.mean(0) / variance.sqrt()).abs().max()) < 4.5 / math.sqrt(draws)
    assert float((samples.var(0) / variance - 1).abs().max()) < 4.5 * math.sqrt(2 / draws)


def test_small_batches_and_stopped_noise_change_nothing(data):
    assert float(added("diag-fisher", data, stop=0).abs().max()) < 1e-15
    model, plain = small_network(), small_network()
    opt, other = noisy(model), torch.optim.SGD(plain.parameters(), lr=0.5)
    opt.small_batch = LARGE
    with pytest.warns(UserWarning, match="batch size, 12, is not larger than small_batch = 12; raise"):
        step(model, opt, data)
    losses_of(plain, *data).mean().backward()
    other.step()
    torch.testing.assert_close(values(model), values(plain), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("structure", ["diag-fisher", "full-fisher"])
def test_a_smaller_batch_after_the_first_is_no_mistake(structure, data, recwarn):
    model = small_network()
    opt = noisy(model, structure)
    step(model, opt, data)
    for _ in range(2):
        step(model, opt, [part[:SMALL] for part in data])
    assert not recwarn
    model = small_network()
    opt = noisy(model, structure)
    for _ in range(2):
        step(model, opt, [part[:SMALL] for part in data])
    assert len(recwarn) == 1


@pytest.mark.parametrize("placement", ["update", "gradient"])
def test_matched_temperature(placement, data):
    """lr/(1 - mu) (1/M_L + s^2) = match_lr/(1 - match_momentum) / M_S; in the update s^2 counts (1 - mu)^2."""
    opt = noisy(small_network(), momentum=0.5, scale="match", match_lr=0.15, match_momentum=0.7, placement=placement)
    s = opt.noise_scale(LARGE, opt.param_groups[0])
    kept = (1 - 0.5)**2 if placement == "update" else 1
    assert 0.5 / (1 - 0.5) * (1 / LARGE + s**2 * kept) == pytest.approx(0.15 / (1 - 0.7) / SMALL)


@pytest.mark.parametrize("placement", ["update", "gradient"])
def test_matched_temperature_follows_both_schedules(placement, data):
    """With a scheduler's warm-up of both batches."""
    model = small_network()
    opt = noisy(model, momentum=0.5, scale="match", match_lr=0.15, match_momentum=0.7, placement=placement)
    scheduler = torch.optim.lr_scheduler.LambdaLR(opt, lambda epoch: min(1.0, (epoch + 1) / 4))
    kept = (1 - 0.5)**2 if placement == "update" else 1
    for epoch in range(6):
        opt.match_factor = min(1.0, (epoch + 1) / 4)
        group = opt.param_groups[0]
        s = opt.noise_scale(LARGE, group)
        wanted = opt.match_factor * 0.15 / (1 - 0.7) / SMALL
        assert group["lr"] / (1 - 0.5) * (1 / LARGE + s**2 * kept) == pytest.approx(wanted)
        step(model, opt, data)
        scheduler.step()


@pytest.mark.parametrize("placement", ["update", "gradient"])
def test_matched_temperature_at_a_learning_rate_of_zero(placement, data):
    model = small_network()
    before = values(model)
    step(model, noisy(model, lr=0.0, momentum=0.5, scale="match", match_lr=0.15, placement=placement), data)
    assert torch.equal(values(model), before)


@pytest.mark.parametrize("options, message", [
    ({"match_lr": -1.0}, "needs match_lr, the small batch's learning rate, above 0"),
    ({"match_lr": 0.1, "match_momentum": 1.0}, "match_momentum = 1.0 must be"),
    ({"match_lr": 0.1, "match_momentum": math.nan}, "match_momentum = nan must be"),
])
def test_a_temperature_that_cannot_be_matched_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        noisy(small_network(), scale="match", **options)


def test_the_matched_temperature_is_that_of_sgd():
    model = small_network()
    inner = torch.optim.AdamW(model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match="torch.optim.SGD, and that of AdamW is not known; give scale a number"):
        covnoise.optim.Noisy(inner, covnoise.attach(model), SMALL, scale="match", match_lr=0.1)


@pytest.mark.parametrize("structure", ["diag-fisher", "full-fisher", "isotropic"])
def test_the_noise_is_clipped_apart_from_the_gradient(data, structure):
    """The largest norm over all parameters; noise that is shorter stays as it is."""
    free = added(structure, data) / 0.5  # the learning rate
    length = free.norm()
    for limit in (0.25 * length.item(), 2 * length.item()):
        clipped = added(structure, data, clip_norm=limit) / 0.5
        torch.testing.assert_close(clipped, free * min(1, limit / length), rtol=1e-9, atol=1e-12)
