"""Noisy in a training loop: other optimizers, states, skipped steps, accumulation, and what is refused."""
import copy
import math
import os

import pytest
import torch
from support import DEVICE, GROUP, LARGE, SMALL, batch, losses_of, noisy, small_network, step, values
from torch import nn

import covnoise
from covnoise._structures import STRUCTURES


@pytest.fixture
def data():
    return batch(LARGE, 2, 6, 6)


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
