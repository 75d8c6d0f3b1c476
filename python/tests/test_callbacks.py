"""Lightning's callbacks where they are called as Lightning does, also without the package."""
import importlib
import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch
from support import batch, losses_of, small_network


@pytest.fixture
def callbacks(monkeypatch):
    stand_in = ModuleType("pytorch_lightning")
    stand_in.Callback = object
    monkeypatch.setitem(sys.modules, "lightning", None)
    monkeypatch.setitem(sys.modules, "pytorch_lightning", stand_in)
    monkeypatch.delitem(sys.modules, "covnoise.lightning", raising=False)
    yield importlib.import_module("covnoise.lightning")
    del sys.modules["covnoise.lightning"]


def trainer_of(model):
    return SimpleNamespace(world_size=1, optimizers=[torch.optim.SGD(model.parameters(), lr=0.5)], global_step=0)


@pytest.mark.parametrize("name, options", [("NoiseScale", {"group": 3, "every_n_steps": 1}),
                                           ("StructuredNoise", {"small_batch": 4, "group": 3})])
@pytest.mark.parametrize("end", [lambda callback, *args: callback.on_exception(*args, KeyboardInterrupt()),
                                 lambda callback, *args: callback.teardown(*args, stage="fit"),
                                 lambda callback, *args: callback.on_fit_end(*args)])
def test_a_second_fit_after_any_end_of_the_first(callbacks, name, options, end):
    model, (x, y) = small_network(), batch(12, 2, 6, 6)
    callback, trainer = getattr(callbacks, name)(**options), trainer_of(model)
    model.log = lambda *_: None
    for _ in range(2):
        callback.on_fit_start(trainer, model)
        losses_of(model, x, y).mean().backward()
        callback.on_before_optimizer_step(trainer, model, trainer.optimizers[0])
        losses_of(model, x, y)[0].backward()
        end(callback, trainer, model)
        assert all("forward" not in module.__dict__ for module in model.modules())


def test_an_interrupted_backward_pass_does_not_keep_the_model_attached(callbacks):
    model, (x, y) = small_network(), batch(12, 2, 6, 6)
    callback, trainer = callbacks.NoiseScale(group=3), trainer_of(model)
    callback.on_fit_start(trainer, model)
    losses_of(model, x, y).mean().backward()

    def interrupt(*_):
        raise KeyboardInterrupt

    model[3].register_full_backward_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        losses_of(model, x, y).mean().backward()
    callback.on_exception(trainer, model, KeyboardInterrupt())
    assert all("forward" not in module.__dict__ for module in model.modules())
