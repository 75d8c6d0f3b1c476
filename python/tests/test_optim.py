"""Noise around an optimizer: its strength, its numbers, its place."""
import copy
import math
import os

import pytest
import torch
from support import DEVICE, batch, example_gradients, ghost_diagonal, losses_of, small_network
from torch import nn

import covnoise
from covnoise import _philox
from covnoise._structures import STRUCTURES

GROUP, SMALL, LARGE = 3, 4, 12


@pytest.fixture
def data():
    return batch(LARGE, 2, 6, 6)


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


def test_state_dict_round_trip(data):
    model = small_network()
    opt = noisy(model, momentum=0.9, seed=3)
    step(model, opt, data)
    saved, saved_model = copy.deepcopy(opt.state_dict()), copy.deepcopy(model.state_dict())
    step(model, opt, data)
    other = small_network()
    resumed = noisy(other, momentum=0.9)
    other.load_state_dict(saved_model)
    resumed.load_state_dict(saved)
    step(other, resumed, data)
    assert torch.equal(values(model), values(other))
    with pytest.raises(ValueError, match="not one of Noisy"):
        resumed.load_state_dict(torch.optim.SGD(model.parameters(), lr=1).state_dict())


@pytest.mark.parametrize("make", [lambda p: torch.optim.Adam(p, lr=0.01), lambda p: torch.optim.RMSprop(p, lr=0.01)])
def test_any_optimizer_with_a_scheduler(make, data):
    model = small_network()
    opt = covnoise.optim.Noisy(make(model.parameters()), covnoise.attach(model, "ghost", GROUP), SMALL)
    scheduler = torch.optim.lr_scheduler.StepLR(opt, 1, 0.5)
    for _ in range(3):
        step(model, opt, data)
        scheduler.step()
    assert opt.optimizer.param_groups[0]["lr"] == pytest.approx(0.01 / 8)
    assert torch.isfinite(values(model)).all() and opt.steps == 3


def test_a_state_of_the_inner_optimizer_leaves_one_learning_rate():
    model = small_network()
    opt = noisy(model, lr=1.0)
    opt.optimizer.load_state_dict(opt.optimizer.state_dict())  # replaces its groups
    torch.optim.lr_scheduler.LambdaLR(opt, lambda epoch: 0.25)
    assert opt.optimizer.param_groups[0]["lr"] == opt.param_groups[0]["lr"] == 0.25
    assert opt.state is opt.optimizer.state


@pytest.mark.skipif(not hasattr(torch.amp, "GradScaler"), reason="this PyTorch scales gradients on GPUs only")
def test_grad_scaler(data):
    results = []
    for scale in (None, 1024.0):
        model = small_network().float()
        scaler = None if scale is None else torch.amp.GradScaler(DEVICE, init_scale=scale)
        stats = covnoise.attach(model, "ghost", GROUP, scaler=scaler)
        opt = covnoise.optim.Noisy(torch.optim.SGD(model.parameters(), lr=0.5), stats, SMALL)
        loss = losses_of(model, data[0].float(), data[1]).mean()
        if scaler is None:
            loss.backward()
            opt.step()
        else:
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
        results.append(values(model))
    torch.testing.assert_close(results[1], results[0], rtol=1e-3, atol=1e-5)


@pytest.mark.skipif(os.environ.get("COVNOISE_KERNELS") == "portable", reason="the host makes these random numbers")
@pytest.mark.parametrize("estimator", ["exact", "ghost"])
def test_a_step_does_not_wait_for_the_device(estimator, data, monkeypatch):
    """Nor, on a CPU, read a tensor's values; after the first passes, which check the layers."""
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)).double()
    opt = covnoise.optim.Noisy(torch.optim.SGD(model.parameters(), lr=0.1), covnoise.attach(model, estimator, GROUP), SMALL)
    for _ in range(2):
        step(model, opt, data)
    monkeypatch.setattr(torch.Tensor, "tolist", None)
    if DEVICE != "cpu":
        torch.cuda.set_sync_debug_mode("error")
    try:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            opt.zero_grad()
            losses_of(model, *data).mean().backward()
            opt.step()
    finally:
        if DEVICE != "cpu":
            torch.cuda.set_sync_debug_mode("default")
    assert "aten::_local_scalar_dense" not in {event.name for event in profile.events()}  # of float(), bool(), item()


def test_a_closure(data):
    model = small_network()
    opt = noisy(model)

    def closure():
        opt.zero_grad()
        loss = losses_of(model, *data).mean()
        loss.backward()
        return loss

    first = float(opt.step(closure))
    assert float(opt.step(closure)) != first


def test_the_noise_of_accumulated_passes_is_that_of_the_batch(data):
    results = []
    for micro_batch in (12, 6, 3):
        model = small_network()
        opt = noisy(model)
        for x, y in zip(data[0].split(micro_batch), data[1].split(micro_batch)):
            (losses_of(model, x, y).mean() * micro_batch / LARGE).backward()
        opt.step()
        results.append(values(model))
    torch.testing.assert_close(results[1], results[0], rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(results[2], results[0], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("options, message", [
    ({"structure": "kfac"}, "known: none, diag-fisher, full-fisher, fisher-trace, isotropic, multiplicative"),
    ({"placement": "weights"}, "known: update, gradient"),
    ({"scale": "match"}, "covnoise: scale=\"match\" needs match_lr, the small batch's learning rate"),
    ({"scale": "large"}, "must be a number"),
    ({"scale": math.nan}, "scale = nan must be finite"),
    ({"scale": -1.0}, "scale = -1.0 must be finite and at least 0"),
    ({"sigma": math.inf}, "sigma = inf must be finite"),
    ({"clip_norm": math.nan}, "clip_norm = nan must be above 0"),
])
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        noisy(small_network(), **options)


def test_a_step_without_statistics_is_refused(data):
    model = small_network()
    opt = noisy(model)
    step(model, opt, data)
    model.eval()
    with pytest.raises(RuntimeError, match="nothing was measured"):
        step(model, opt, data)


def test_what_zero_grad_forgets_is_not_measured(data):
    """A step that a GradScaler skips leaves nothing behind."""
    model, other = small_network(), small_network()
    opt, expected = noisy(model), noisy(other)
    (losses_of(model, *data).mean() * float("inf")).backward()
    for each, optimizer in ((model, opt), (other, expected)):
        step(each, optimizer, data)
    assert torch.equal(values(model), values(other)) and torch.isfinite(values(model)).all()


@pytest.mark.parametrize("drop", [lambda model, opt: model.zero_grad(set_to_none=True),
                                  lambda model, opt: opt.optimizer.zero_grad(set_to_none=True)])
@pytest.mark.parametrize("steps_before", [0, 2])
@pytest.mark.parametrize("estimator", ["ghost", "micro"])
@pytest.mark.filterwarnings("ignore:.*no diagonal before its second")
def test_what_the_model_forgets_is_not_measured(estimator, steps_before, drop, data):
    models = small_network(), small_network()
    for model, overflow in zip(models, (math.inf, None)):
        opt = covnoise.optim.Noisy(torch.optim.SGD(model.parameters(), lr=0.5), covnoise.attach(model, estimator, GROUP),
                                   SMALL)
        for _ in range(steps_before):
            step(model, opt, data)
        if overflow:
            opt.zero_grad()
            (losses_of(model, *data).mean() * overflow).backward()
        drop(model, opt)
        for part in zip(*(value.split(6) for value in data)):
            (losses_of(model, *part).mean() / 2).backward()
        opt.step()
        assert opt.stats.examples == LARGE
    assert torch.equal(values(models[0]), values(models[1])) and torch.isfinite(values(model)).all()


def test_gradients_of_parameters_that_it_does_not_train_may_stay(data):
    model = small_network()
    opt = covnoise.optim.Noisy(torch.optim.SGD(model[0].parameters(), lr=0.5), covnoise.attach(model, "ghost", GROUP), SMALL)
    (losses_of(model, *data).mean() * math.inf).backward()
    opt.optimizer.zero_grad(set_to_none=True)
    losses_of(model, *data).mean().backward()
    opt.step()
    assert opt.stats.examples == LARGE and torch.isfinite(values(model)).all()


def test_statistics_without_noise_outlive_zero_grad(data):
    model = small_network()
    stats = covnoise.attach(model, "ghost", GROUP)
    for part in zip(*(value.split(6) for value in data)):
        model.zero_grad(set_to_none=True)
        losses_of(model, *part).mean().backward()
    assert stats.examples == LARGE


@pytest.mark.parametrize("structure", ["diag-fisher", "full-fisher", "isotropic"])
def test_the_noise_is_clipped_apart_from_the_gradient(data, structure):
    """The largest norm over all parameters; noise that is shorter stays as it is."""
    free = added(structure, data) / 0.5  # the learning rate
    length = free.norm()
    for limit in (0.25 * length.item(), 2 * length.item()):
        clipped = added(structure, data, clip_norm=limit) / 0.5
        torch.testing.assert_close(clipped, free * min(1, limit / length), rtol=1e-9, atol=1e-12)


def test_what_is_no_optimizer_or_no_statistics_is_refused():
    model = small_network()
    sgd = torch.optim.SGD(model.parameters(), lr=1)
    with pytest.raises(TypeError, match="Noisy takes a torch.optim.Optimizer, not generator"):
        covnoise.optim.Noisy(model.parameters(), covnoise.attach(model))
    with pytest.raises(TypeError, match="what covnoise.attach returns, not int"):
        covnoise.optim.Noisy(sgd, 128)
    with pytest.raises(ValueError, match="LBFGS takes several gradients in a step"):
        covnoise.optim.Noisy(torch.optim.LBFGS(model.parameters()), structure="isotropic")
    with pytest.raises(ValueError, match="small_batch = 2.5 must be a whole number of at least 1"):
        covnoise.optim.Noisy(sgd, None, 2.5, structure="isotropic")


def test_clipping_that_cannot_be_right_is_refused():
    with pytest.raises(ValueError, match="clip_norm = 0 must be above 0"):
        noisy(small_network(), clip_norm=0)
    with pytest.raises(ValueError, match="clip_norm would miss the temperature"):
        noisy(small_network(), scale="match", match_lr=0.1, clip_norm=1)


def test_copies_of_the_optimizer_are_refused():
    with pytest.raises(TypeError, match="state_dict"):
        copy.deepcopy(noisy(small_network()))


def test_parameters_of_another_model_are_refused():
    with pytest.raises(ValueError, match=r"sizes \[3, 2\] that the attached model does not have"):
        covnoise.optim.Noisy(torch.optim.SGD(nn.Linear(2, 3).parameters(), lr=1), covnoise.attach(small_network()))


def test_groups_may_be_added_later(data):
    model = small_network()
    opt = covnoise.optim.Noisy(torch.optim.SGD(model[0].parameters(), lr=0.5), covnoise.attach(model, "ghost", GROUP), SMALL)
    step(model, opt, data)
    opt.add_param_group({"params": model[3].parameters()})
    opt.add_param_group({"params": model[6].weight, "lr": 0.25})
    step(model, opt, data)
    assert len(opt.param_groups) == len(opt.optimizer.param_groups) == 3
    with pytest.raises(ValueError, match=r"sizes \[3\] that the attached model does not have"):
        opt.add_param_group({"params": [nn.Parameter(torch.zeros(3))]})
    assert len(opt.param_groups) == 3


def test_one_noisy_resets_the_statistics(data):
    model = small_network()
    stats = covnoise.attach(model, "ghost", GROUP)
    first, second = (covnoise.optim.Noisy(torch.optim.SGD(part.parameters(), lr=0.5), stats, SMALL)
                     for part in (model[0], model[3]))
    losses_of(model, *data).mean().backward()
    first.step()
    with pytest.raises(RuntimeError, match="another Noisy has used the statistics of this step"):
        second.step()


def test_statistics_are_asked_for():
    parameters = nn.Linear(2, 2).parameters()
    with pytest.raises(ValueError, match="needs the statistics"):
        covnoise.optim.Noisy(torch.optim.SGD(parameters, lr=1))
    assert set(STRUCTURES) == {"none", "diag-fisher", "full-fisher", "fisher-trace", "isotropic", "multiplicative"}
