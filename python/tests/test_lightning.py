"""Callbacks of Lightning."""
import pytest
import torch
import torch.nn.functional as F
from support import batch
from torch import nn

try:
    import lightning.pytorch as pl
except ImportError:
    pl = pytest.importorskip("pytorch_lightning")

from covnoise.lightning import NoiseScale, StructuredNoise  # noqa: E402


class Classifier(pl.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))

    def training_step(self, data, _):
        return F.cross_entropy(self.network(data[0]), data[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fit(*callbacks, **options):
    torch.set_default_device("cpu")
    x, y = batch(32, 4)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x.float(), y), 16)
    model = Classifier()
    trainer = pl.Trainer(max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False,
                         enable_progress_bar=False, enable_model_summary=False, callbacks=list(callbacks), **options)
    trainer.fit(model, loader)
    return trainer, torch.cat([p.detach().flatten() for p in model.parameters()])


def test_noise_scale_is_logged():
    trainer, _ = fit(NoiseScale(group=4, every_n_steps=2))
    assert trainer.logged_metrics["gradient_variance"] > 0 and "noise_scale" in trainer.logged_metrics


def test_noise_changes_the_training():
    plain, noisy, again = fit()[1], fit(StructuredNoise(4, group=4))[1], fit(StructuredNoise(4, group=4))[1]
    assert not torch.allclose(plain, noisy) and torch.equal(noisy, again)
    assert torch.allclose(plain, fit(StructuredNoise(16, group=4))[1])


def test_gradient_accumulation():
    assert torch.isfinite(fit(StructuredNoise(4, group=4), accumulate_grad_batches=2)[1]).all()
