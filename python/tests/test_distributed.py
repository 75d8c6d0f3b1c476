"""Several Gloo ranks on the CPU: the noise of the whole batch, from what each rank has, with the same bytes sent."""
import math
import os
import sys

import pytest
import torch
import torch.distributed as dist
from support import batch, exact_diagonal, example_gradients, losses_of, small_network

import covnoise
from covnoise import _philox, distributed

LARGE, SMALL = 16, 4
STEP = 6


def noisy(model, structure="diag-fisher", **options):
    stats = covnoise.attach(model, "exact") if structure == "diag-fisher" else None
    inner = torch.optim.SGD(model.parameters(), lr=0.5)
    opt = covnoise.optim.Noisy(inner, stats, SMALL, structure=structure, **{"placement": "gradient", **options})
    opt.steps = STEP
    return opt


def noisy_ranks(structure="diag-fisher"):
    """Model, optimizer and DDP with noise, in several buckets from the second backward pass on."""
    model = small_network()
    opt = noisy(model, structure)
    dist._DEFAULT_FIRST_BUCKET_BYTES = 64
    ddp = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.001)
    distributed.add_noise_to(ddp, opt)
    return model, opt, ddp


def reduced_gradient(rank, ranks, structure, passes, sent, numbered=True):
    """This rank's gradient after the reduction, for its shard of the batch, in some passes, whose examples are `numbered`
    over all ranks or not."""
    model, opt, ddp = noisy_ranks(structure)
    x, y = (value.chunk(ranks)[rank] for value in batch(LARGE, 2, 6, 6))
    losses = losses_of(ddp, x, y)
    opt.draw(losses)
    losses.mean().backward()
    opt._finish(None)
    opt.zero_grad()
    opt.steps = STEP
    plain = dist.all_reduce
    dist.all_reduce = lambda tensor, **options: (sent.append(tensor.numel()), plain(tensor, **options))[1]
    try:
        for i, (images, labels) in enumerate(zip(x.chunk(passes), y.chunk(passes))):
            with ddp.no_sync() if i + 1 < passes else _nothing():
                losses = losses_of(ddp, images, labels)
                opt.draw(losses, first=rank * len(y) + i * len(labels) if numbered else None)
                (losses.mean() / passes).backward()
    finally:
        dist.all_reduce = plain
    return torch.cat([p.grad.flatten() for p in model.parameters()])


class _nothing:
    def __enter__(self):
        return None

    def __exit__(self, *_):
        return None


def expected_gradient(ranks, structure, numbered=True):
    """g + (1/R) sum_r s sqrt(R) C_r^(1/2) xi_r, in one process."""
    model = small_network()
    gradients = example_gradients(model, *batch(LARGE, 2, 6, 6))
    s = math.sqrt(1 / SMALL - 1 / LARGE)
    result = torch.cat([g.mean(0).flatten() for g in gradients.values()])
    if structure == "full-fisher":
        like, own = torch.empty((), dtype=torch.float64), LARGE // ranks
        signs = _philox.signs(LARGE, like, 0, STEP, 0) if numbered else torch.cat(
            [_philox.signs(own, like, 0, STEP, 0, rank) for rank in range(ranks)])
        return result + s / math.sqrt(LARGE) * torch.cat([torch.tensordot(signs, g, 1).flatten() for g in gradients.values()])
    offsets = _philox.offsets([p.numel() for p in model.parameters()])
    for rank in range(ranks):
        diagonal = exact_diagonal({name: g.chunk(ranks)[rank] for name, g in gradients.items()})
        noise = [_philox.normals_of_variance(d, 0, _philox.purpose(_philox.NOISE, rank), STEP, offset).flatten()
                 for d, offset in zip(diagonal.values(), offsets)]
        result = result + s / math.sqrt(ranks) * torch.cat(noise)
    return result


def work(rank, ranks, file):
    sys.stderr = open(os.devnull, "w")
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=ranks)
    parameters = sum(p.numel() for p in small_network().parameters())
    for structure, numbered in (("diag-fisher", False), ("full-fisher", False), ("full-fisher", True)):
        for passes in (1, 2):
            sent = []
            found = reduced_gradient(rank, ranks, structure, passes, sent, numbered)
            expected = expected_gradient(ranks, structure, numbered)
            torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)
            if ranks > 1:
                with pytest.raises(RuntimeError, match="add_noise_to"):
                    model = small_network()
                    noisy(model, structure).step()
            assert len(sent) > 1 and sum(sent) == parameters, f"{sent} elements were sent for {parameters} parameters"
    dist.destroy_process_group()


GLOO = pytest.mark.skipif(
    not dist.is_available() or not dist.is_gloo_available() if hasattr(dist, "is_gloo_available") else False,
    reason="this PyTorch has no Gloo")


@GLOO
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_the_noise_of_the_batch(ranks, tmp_path):
    torch.multiprocessing.spawn(work, (ranks, tmp_path / "store"), nprocs=ranks)


def compiled_work(rank, ranks, file):
    sys.stderr = open(os.devnull, "w")
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=ranks)
    x, y = (value.chunk(ranks)[rank] for value in batch(LARGE, 2, 6, 6))
    for split in (True, False):  # a graph for each bucket, or one, whose gradients come in any order
        torch._dynamo.reset()
        torch._dynamo.config.optimize_ddp = split
        model, opt, ddp = noisy_ranks()
        compiled = torch.compile(ddp, backend="aot_eager")
        for _ in range(3):  # DDP makes its buckets anew after the first
            opt.zero_grad()
            opt.steps = STEP
            losses_of(compiled, x, y).mean().backward()
            found = torch.cat([p.grad.flatten() for p in model.parameters()])
            torch.testing.assert_close(found, expected_gradient(ranks, "diag-fisher"), rtol=1e-9, atol=1e-12)
            opt._finish(None)
    dist.destroy_process_group()


@GLOO
@pytest.mark.skipif(not hasattr(torch, "compile"), reason="this PyTorch has no torch.compile")
def test_the_noise_of_compiled_ranks(tmp_path):
    torch.multiprocessing.spawn(compiled_work, (2, tmp_path / "store"), nprocs=2)


def test_the_covariance_does_not_depend_on_the_ranks():
    """s^2 / R sum_r C_r, what the samples of the test above have by their formula."""
    model = small_network()
    gradients = example_gradients(model, *batch(LARGE, 2, 6, 6))
    whole = exact_diagonal(gradients)
    for ranks in (2, 4):
        shards = [exact_diagonal({name: g.chunk(ranks)[rank] for name, g in gradients.items()}) for rank in range(ranks)]
        for name, value in whole.items():
            torch.testing.assert_close(sum(shard[name] for shard in shards) / ranks, value, rtol=1e-12, atol=0)


def test_noise_in_the_update_is_refused():
    model = small_network()
    with pytest.raises(ValueError, match='placement="gradient"'):
        distributed.add_noise_to(model, noisy(model, placement="update"))


def test_the_trace_is_not_known_to_the_ranks():
    model = small_network()
    inner = torch.optim.SGD(model.parameters(), lr=0.5)
    opt = covnoise.optim.Noisy(inner, covnoise.attach(model), structure="fisher-trace", placement="gradient")
    with pytest.raises(ValueError, match="trace of all"):
        distributed.add_noise_to(model, opt)


def test_a_norm_of_all_parameters_is_not_known_to_the_buckets():
    model = small_network()
    with pytest.raises(ValueError, match="clip_norm is of the noise of all parameters"):
        distributed.add_noise_to(model, noisy(model, placement="gradient", clip_norm=1))


def test_the_statistics_must_be_those_of_the_module_inside():
    class Wrapped:
        module = small_network()

    with pytest.raises(ValueError, match="attach to the module inside"):
        distributed.add_noise_to(Wrapped(), noisy(small_network()))
