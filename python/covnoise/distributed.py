"""Noise of several ranks: each adds its own before the reduction, so that nothing else has to be sent."""
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ._structures import Draw
from .optim import Noisy, add


def add_noise_to(ddp: Any, optimizer: Noisy) -> None:
    """Makes a DistributedDataParallel model add each rank's noise to its gradient before the all-reduce.

    Rank r of R has M_r = M_L / R examples and its own statistics. With independent xi_r,

        (1/R) sum_r n_r,    n_r = s sqrt(R) C_r^(1/2) xi_r

    has the covariance s^2 mean_r C_r of the whole batch. The reduction sends what it sends without noise. The model
    must be DistributedDataParallel over the module that the optimizer's statistics are attached to, and the noise is then in
    the gradient (placement "gradient"). Structures without statistics of examples (isotropic, multiplicative) are drawn
    after the reduction, the same on all ranks, as without this function.
    """
    if not optimizer.structure.of_examples:
        return
    if not optimizer.structure.adds_up_over_shards:
        raise ValueError(f"covnoise: {optimizer.structure.name} noise of several ranks needs the trace of all of them, "
                         "which the reduction does not send; use diag-fisher or full-fisher")
    if optimizer.placement != "gradient":
        raise ValueError("covnoise: noise that is added before the reduction is in the gradient; use "
                         'placement="gradient"')
    if optimizer.clip_norm is not None:
        raise ValueError("covnoise: clip_norm is of the noise of all parameters, and the reduction adds it bucket by "
                         "bucket; leave clip_norm out")
    if optimizer.stats is not None and ddp.module is not optimizer.stats.model:
        raise ValueError("covnoise: attach to the module inside of DistributedDataParallel: attach(model), then "
                         "DistributedDataParallel(model)")
    optimizer.noise_by_hook = True
    ddp.register_comm_hook(NoiseHook(optimizer, ddp.process_group), communicate)


class NoiseHook:
    """The buckets of one backward pass. The statistics of a bucket's last parameter may be accumulated only after the
    bucket is ready, so each bucket waits for the next one, and the last for the end of the backward pass. Of a compiled pass
    all wait for it: autograd accumulates its statistics in any order, and its counts on another thread."""

    def __init__(self, optimizer: Noisy, group: Any) -> None:
        self.optimizer, self.group = optimizer, group
        self.waiting: list[tuple[Any, torch.futures.Future[Tensor]]] = []

    def add(self, bucket: Any) -> torch.futures.Future[Tensor]:
        if self.optimizer.stats is None or not self.optimizer.stats.compiled:
            self.send()
        future: torch.futures.Future[Tensor] = torch.futures.Future()
        self.waiting.append((bucket, future))
        if bucket.is_last():
            torch.autograd.Variable._execution_engine.queue_callback(self.send)
        return future

    def send(self) -> None:
        waiting, self.waiting = self.waiting, []
        for bucket, future in waiting:
            self._send(bucket, future)

    def _send(self, bucket: Any, future: torch.futures.Future[Tensor]) -> None:
        buffer = bucket.buffer()
        ranks = dist.get_world_size(self.group)
        add_noise(self.optimizer, bucket, dist.get_rank(self.group), ranks)
        buffer.div_(ranks)
        work = dist.all_reduce(buffer, group=self.group, async_op=True)
        work.get_future().then(lambda done: future.set_result(done.value()[0]))


def communicate(state: NoiseHook, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    return state.add(bucket)


@torch.no_grad()
def add_noise(optimizer: Noisy, bucket: Any, rank: int, ranks: int) -> None:
    """n_r, to the gradients in the bucket."""
    if not optimizer.on():
        return
    parameters = bucket.parameters()
    chosen = {id(parameter) for parameter in parameters}
    measurement = None
    if optimizer.structure.needs_statistics:
        assert optimizer.stats is not None
        measurement = optimizer.stats.measured(chosen, fresh=True)
    local = measurement.examples if measurement is not None else optimizer.structure.local_examples()
    draw = Draw(optimizer, measurement, share=float(ranks), shard=rank, examples=local * ranks)
    noise = optimizer.structure.sample(draw, chosen)
    add(parameters, bucket.gradients(), noise, 1.0)
