"""A training step of ResNet44 with PyTorch: ordinary batch normalisation, no noise, SGD with momentum, bf16.

python3 bench/peers/step.py [eager,compiled,autotune,graph,overhead]     milliseconds, medians; one JSON object per line

eager      4096 images
compiled   4096 images, torch.compile
autotune   4096 images, torch.compile(mode="max-autotune")
graph      128 images, one captured CUDA graph, channels-last
overhead   128 images, torch.compile(mode="reduce-overhead")
"""
import json
import sys
import time

import torch
from torch import nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.stride, self.pad = stride, (outputs - inputs) // 2

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.stride > 1:
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.pad, self.pad))
        return F.relu(x + y)


def resnet(n):
    layers, inputs = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()], 16
    for stage in range(3):
        for i in range(n):
            layers.append(Block(inputs, 16 << stage, 2 if stage > 0 and i == 0 else 1))
            inputs = 16 << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def median(values):
    return sorted(values)[len(values) // 2]


def rounds(step, number=7, steps=10):
    times = []
    for _ in range(number):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
        times.append(1000 * (time.perf_counter() - begin) / steps)
    return median(times)


def measure(kind):
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    batch = 128 if kind in ("graph", "overhead") else 4096
    model = resnet(7).cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    x = torch.randn(batch, 3, 32, 32, device="cuda").to(memory_format=torch.channels_last)
    y = torch.randint(0, 10, (batch,), device="cuda")

    def loss_of(x, y):
        with torch.autocast("cuda", torch.bfloat16):
            return F.cross_entropy(model(x), y)

    modes = {"compiled": None, "autotune": "max-autotune", "overhead": "reduce-overhead"}
    compiled = torch.compile(loss_of, mode=modes[kind]) if kind in modes else loss_of

    def step():
        torch.compiler.cudagraph_mark_step_begin()  # outputs of compiled graphs may be overwritten from here on
        optimizer.zero_grad(set_to_none=kind in modes)
        compiled(x, y).backward()
        optimizer.step()

    begin = time.perf_counter()
    if kind == "graph":
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                step()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            step()
        result = rounds(graph.replay)
    else:
        for _ in range(5):
            step()
        result = rounds(step)
    print(json.dumps({"peer": kind, "batch": batch, "ms": round(result, 3),
                      "seconds": round(time.perf_counter() - begin, 1)}), flush=True)


if __name__ == "__main__":
    for name in (sys.argv[1] if len(sys.argv) > 1 else "compiled,autotune,graph,overhead").split(","):
        measure(name)
