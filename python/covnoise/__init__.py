"""Per-example statistics of gradients and structured gradient noise for any torch.nn.Module.

    stats = covnoise.attach(model, estimator="ghost", group=128)
    opt = covnoise.optim.Noisy(torch.optim.SGD(model.parameters(), lr=1.6, momentum=0.9), stats, small_batch=128)
    loss.backward(); opt.step()
    stats.diagonal(), stats.trace(), stats.noise_scale()
"""
from . import _library

_library.load()

from . import optim  # noqa: E402
from .attach import attach  # noqa: E402
from .ghost_norm import GhostBatchNorm, convert_ghost_batch_norm  # noqa: E402
from .sharpness import sharp_backward  # noqa: E402
from .statistics import Statistics  # noqa: E402

__version__ = "0.2.0"
__all__ = ["GhostBatchNorm", "Statistics", "attach", "convert_ghost_batch_norm", "optim", "sharp_backward"]
