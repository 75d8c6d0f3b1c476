"""Gradient and sum of squared per-example gradients with torch.func's vmap, of the networks of bench_gpu_examples.

python3 bench/peers/examples.py [network,...] [precision] [examples]     milliseconds and peak memory; JSON lines
"""
import json
import sys
import time

import torch
from torch import nn
from torch.func import functional_call, grad, vmap
import torch.nn.functional as F


class Chain(nn.Module):
    def __init__(self, plan, stride_at_change):
        super().__init__()
        inputs, layers = 3, []
        for channels in plan:
            if channels == 0:
                layers.append(nn.MaxPool2d(2))
                continue
            stride = stride_at_change if inputs > 3 and channels != inputs else 1
            layers += [nn.Conv2d(inputs, channels, 3, stride, 1, bias=False), nn.ReLU()]
            inputs = channels
        self.layers, self.fc = nn.Sequential(*layers), nn.Linear(inputs, 10)

    def forward(self, x):
        return self.fc(self.layers(x).mean((2, 3)))


def network(name):
    if name == "lenet":
        return nn.Sequential(nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(20, 50, 5), nn.MaxPool2d(2),
                             nn.ReLU(), nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10))
    if name == "chain44":
        return Chain([16] + [c for c in (16, 32, 64) for _ in range(14)], 2)
    return Chain([64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0], 1)


def measure(name, precision, examples):
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision != "fp32"
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    model = network(name).cuda().to(dtype)
    parameters = {key: value.detach() for key, value in model.named_parameters()}
    side, channels = (28, 1) if name == "lenet" else (32, 3)
    x = torch.randn(examples, channels, side, side, device="cuda", dtype=dtype)
    y = torch.randint(0, 10, (examples,), device="cuda")

    def loss(p, image, label):
        return F.cross_entropy(functional_call(model, p, (image.unsqueeze(0),)).float(), label.unsqueeze(0))

    def step():
        rows = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, y)
        return {key: (g.float().mean(0), g.float().square().mean(0)) for key, g in rows.items()}

    row = {"peer": "vmap", "network": name, "precision": precision, "examples": examples}
    try:
        for _ in range(2):
            step()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        times = []
        for _ in range(5):
            begin = time.perf_counter()
            step()
            torch.cuda.synchronize()
            times.append(1000 * (time.perf_counter() - begin))
        row |= {"ms": round(sorted(times)[2], 3), "peak_gb": round(torch.cuda.max_memory_allocated() / 1e9, 3)}
    except torch.OutOfMemoryError:
        row["ms"] = "out of memory"
    print(json.dumps(row), flush=True)
    torch.cuda.empty_cache()


if __name__ == "__main__":
    arguments = sys.argv[1:] + ["lenet,chain44,vgg16-plain", "tf32", "4096"][len(sys.argv) - 1:]
    for network_name in arguments[0].split(","):
        measure(network_name, arguments[1], int(arguments[2]))
