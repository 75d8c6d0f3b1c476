"""The cost of covnoise.attach: a training step with per-example squares and noise over the plain step of the same network,
and of covnoise.sharp_backward.

python3 bench/peers/attach.py [cpu|cuda] [network,...] [precision,...] [examples] [mode,...]      JSON lines

networks   lenet, resnet18 (torchvision's, CIFAR stem), vit-tiny        precisions  fp32 (CPU), tf32, bf16 (autocast)
modes      eager, compiled (GPU; `over_eager_plain` compares it with the plain step that is not), peers

A step is forward, backward and SGD with momentum; `ghost` and `exact` are the same step with optim.Noisy around SGD, `sharp`
(eager only) is it with sharpness by micro-batches of 512 examples, or half of fewer than 1024, which is two passes. The
variants alternate, so that each round gives one ratio; medians of the rounds are printed, with the peak memory of a GPU.
On a GPU a round has at least 5 steps and ROUND seconds of them before it waits for the device, as training does: after
fewer, short steps much of the time would be the wait for the last one. Peers (BackPACK, Opacus, torch.func.vmap) are
measured where they can be imported: gradient and the sum of squared per-example gradients, without an update.
"""
import gc
import json
import os
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
if (ROOT / "build" / "libcovnoise_ops.so").exists():
    os.environ.setdefault("COVNOISE_OPS", str(ROOT / "build" / "libcovnoise_ops.so"))
    sys.path.insert(0, str(ROOT / "python"))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import covnoise  # noqa: E402

LIMITS = {"cpu": {"ghost": 1.15, "exact": 1.25}, "cuda": {"ghost": 1.10, "exact": 1.25}}
ROUND = 0.2  # seconds


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        m, t, k = x.shape
        q, key, value = self.qkv(x).reshape(m, t, 3, self.heads, k // self.heads).permute(2, 0, 3, 1, 4)
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(q, key, value)
        else:
            y = (q @ key.transpose(-1, -2) / (k // self.heads)**0.5).softmax(-1) @ value
        return self.out(y.transpose(1, 2).reshape(m, t, k))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.attention, self.norm2 = nn.LayerNorm(width), Attention(width, heads), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    """ViT-tiny on 32x32 images: patches of 4x4, 192 wide, 12 blocks of 3 heads, mean over positions."""

    def __init__(self, width=192, depth=12, heads=3):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.patches(x).flatten(2).transpose(1, 2))).mean(1))


def network(name):
    torch.manual_seed(0)
    if name == "lenet":
        return nn.Sequential(nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(20, 50, 5), nn.MaxPool2d(2),
                             nn.ReLU(), nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10))
    if name == "vit-tiny":
        return VisionTransformer()
    import torchvision
    model = torchvision.models.resnet18(num_classes=10)
    model.conv1, model.maxpool = nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.Identity()
    return model


def data(name, device, examples):
    channels, side = (1, 28) if name == "lenet" else (3, 32)
    x = torch.randn(examples, channels, side, side, device=device)
    x = x.to(memory_format=torch.channels_last) if device == "cuda" else x
    return x, torch.randint(0, 10, (examples,), device=device)


class Variant:
    """One way to make a step: plain, ghost, exact or sharp."""

    def __init__(self, kind, name, device, precision, examples, mode):
        self.device = device
        model = network(name).to(device)
        model = model.to(memory_format=torch.channels_last) if device == "cuda" else model
        x, y = data(name, device, examples)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        if kind in ("ghost", "exact"):
            stats = covnoise.attach(model, kind, min(128, examples // 2))
            optimizer = covnoise.optim.Noisy(optimizer, stats, min(128, examples // 2))

        def loss_of(x, y):
            if precision != "bf16":
                return F.cross_entropy(model(x), y)
            with torch.autocast(device, torch.bfloat16):
                return F.cross_entropy(model(x), y)

        def loss():
            return loss_of(x, y)

        # Every variant has a `loss` of its own with the same code: sizes must not become symbols because of that.
        run = torch.compile(loss, dynamic=False) if mode == "compiled" else loss

        def step():
            optimizer.zero_grad(set_to_none=True)
            if kind == "sharp":
                covnoise.sharp_backward(model, loss_of, x, y, radius=0.1, micro_batch=min(512, examples // 2))
            else:
                run().backward()
            optimizer.step()

        self.step = step

    def seconds(self, steps=1):
        """Of wall time and, for all threads together, of processor time, which other programs disturb less."""
        begin = time.perf_counter(), time.process_time()
        for _ in range(steps):
            self.step()
        if self.device == "cuda":
            torch.cuda.synchronize()
        return (time.perf_counter() - begin[0]) / steps, (time.process_time() - begin[1]) / steps


def built(kind, name, device, precision, examples, mode):
    """A variant after its first steps, and its peak memory: that of the device less what others hold."""
    gc.collect()  # what earlier variants left must not be freed while this one is measured
    others = torch.cuda.memory_allocated() if device == "cuda" else 0
    variant = Variant(kind, name, device, precision, examples, mode)
    if device == "cpu":
        variant.seconds(1)
        return variant, None
    variant.seconds(3)
    torch.cuda.reset_peak_memory_stats()
    variant.seconds()
    return variant, torch.cuda.max_memory_allocated() - others


def median(values):
    return sorted(values)[len(values) // 2]


def measure(name, device, precision, examples, mode, eager=None, kinds=("plain", "ghost", "exact")):
    """Prints a row for each variant; the seconds of a plain step. `eager` are those of one that is not compiled."""
    memory, variants = {}, {}
    if mode == "compiled":
        torch._dynamo.reset()  # else the variants measured before count against the limit of recompilations
    for kind in kinds:
        variants[kind], memory[kind] = built(kind, name, device, precision, examples, mode)
    steps = max(5, round(ROUND / variants["plain"].seconds(5)[0])) if device == "cuda" else 1
    rounds = [{kind: variants[kind].seconds(steps) for kind in kinds} for _ in range(9 if device == "cuda" else 3)]
    for kind in kinds:
        row = {"bench": "attach", "network": name, "device": device, "precision": precision, "mode": mode, "kind": kind,
               "examples": examples, "ms": round(1000 * median([each[kind][0] for each in rounds]), 3)}
        if kind != "plain":
            row["over_plain"] = round(median([each[kind][0] / each["plain"][0] for each in rounds]), 3)
            if device == "cpu":
                row["processor_time_over_plain"] = round(median([each[kind][1] / each["plain"][1] for each in rounds]), 3)
            row |= {"limit": LIMITS[device][kind]} if kind in LIMITS[device] else {}
        if eager:
            row["over_eager_plain"] = round(row["ms"] / 1000 / eager, 3)
        if memory[kind]:
            row |= {"peak_gb": round(memory[kind] / 1e9, 3), "memory_over_plain": round(memory[kind] / memory["plain"], 3)}
        print(json.dumps(row), flush=True)
    return median([each["plain"][0] for each in rounds])


def squares_by_vmap(name, device, examples):
    from torch.func import functional_call, grad, vmap
    model, (x, y) = network(name).to(device), data(name, device, examples)
    parameters = {key: value.detach() for key, value in model.named_parameters()}

    def loss(p, image, label):
        return F.cross_entropy(functional_call(model, p, (image.unsqueeze(0),)), label.unsqueeze(0))

    def step():
        rows = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, y)
        return {key: (g.mean(0), g.square().mean(0)) for key, g in rows.items()}

    return step


def squares_by_backpack(name, device, examples):
    from backpack import backpack, extend
    from backpack.extensions import SumGradSquared
    model, (x, y) = extend(network(name).to(device)), data(name, device, examples)
    criterion = extend(nn.CrossEntropyLoss())

    def step():
        model.zero_grad()
        with backpack(SumGradSquared()):
            criterion(model(x), y).backward()

    return step


def squares_by_opacus(name, device, examples):
    from opacus import GradSampleModule
    model, (x, y) = GradSampleModule(network(name).to(device)), data(name, device, examples)

    def step():
        model.zero_grad()
        F.cross_entropy(model(x), y).backward()
        return [p.grad_sample.square().mean(0) for p in model.parameters()]

    return step


def measure_peers(name, device, precision, examples):
    for peer in (squares_by_vmap, squares_by_backpack, squares_by_opacus):
        row = {"bench": "attach", "peer": peer.__name__.split("_")[-1], "network": name, "device": device,
               "precision": precision, "examples": examples}
        try:
            step = peer(name, device, examples)
            step()
            times = []
            for _ in range(3):
                begin = time.perf_counter()
                step()
                torch.cuda.synchronize() if device == "cuda" else None
                times.append(time.perf_counter() - begin)
            row["ms"] = round(1000 * median(times), 3)
        except Exception as error:  # not installed, refuses the network, or out of memory: the row says which
            row["refused"] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200]
        print(json.dumps(row), flush=True)
        gc.collect()
        torch.cuda.empty_cache() if device == "cuda" else None


def main():
    device = sys.argv[1] if len(sys.argv) > 1 else ("cuda" if torch.cuda.is_available() else "cpu")
    defaults = [device, "lenet,resnet18,vit-tiny", "tf32,bf16" if device == "cuda" else "fp32",
                "4096" if device == "cuda" else "256", "eager,compiled,peers" if device == "cuda" else "eager,peers"]
    _, networks, precisions, examples, modes = sys.argv[1:] + defaults[len(sys.argv) - 1:]
    wanted = modes.split(",")
    if unknown := set(wanted) - {"eager", "compiled", "peers"}:
        sys.exit(f"attach.py: mode '{min(unknown)}' is not known; known: eager, compiled, peers")
    if device == "cuda":
        torch.backends.cudnn.benchmark = True
    for name in networks.split(","):
        for precision in precisions.split(","):
            if device == "cuda":
                torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
            eager = None
            if "eager" in wanted:
                eager = measure(name, device, precision, int(examples), "eager", kinds=("plain", "ghost", "exact", "sharp"))
            if "compiled" in wanted:
                measure(name, device, precision, int(examples), "compiled", eager)
            if "peers" in wanted:
                measure_peers(name, device, precision, int(examples))


if __name__ == "__main__":
    main()
