"""Times the layers of bench/cuda/kernels_bench with PyTorch: cuDNN's convolutions and a compiled normalisation.

python3 bench/peers/layers.py [examples]      channels-last bf16, milliseconds, medians of captured graphs
"""
import sys

import torch
import torch.nn.functional as F

EXAMPLES = int(sys.argv[1]) if len(sys.argv) > 1 else 4096
LAYERS = [(32, 16, 16, 1), (32, 16, 32, 2), (16, 32, 32, 1), (16, 32, 64, 2), (8, 64, 64, 1), (32, 3, 16, 1),
          (32, 64, 64, 1), (16, 64, 128, 1), (16, 128, 128, 1), (8, 256, 256, 1), (4, 512, 512, 1), (2, 512, 512, 1)]


def milliseconds(call, calls=5, replays=7):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(2):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(calls):
            call()
    times = []
    for _ in range(replays):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / calls)
    return sorted(times)[len(times) // 2]


def tensor(channels, side):
    return torch.randn(EXAMPLES, channels, side, side, device="cuda").to(
        dtype=torch.bfloat16, memory_format=torch.channels_last)


def convolution(side, channels, outputs, stride):
    x, dz = tensor(channels, side), tensor(outputs, side // stride)
    weight = torch.randn(outputs, channels, 3, 3, device="cuda").to(dtype=torch.bfloat16, memory_format=torch.channels_last)

    def backward(mask):
        return torch.ops.aten.convolution_backward(dz, x, weight, None, [stride] * 2, [1, 1], [1, 1], False, [0, 0], 1, mask)

    name = f"{EXAMPLES}x{side}x{side} {channels}->{outputs}" + (" s2" if stride > 1 else "")
    forward = milliseconds(lambda: F.conv2d(x, weight, stride=stride, padding=1))
    weights = milliseconds(lambda: backward([False, True, False]))
    inputs = milliseconds(lambda: backward([True, False, False])) if channels > 3 else float("nan")
    print(f"cuDNN  {name:34} forward {forward:8.4f}  input gradient {inputs:8.4f}  weight gradient {weights:8.4f}", flush=True)


def normalisation(side, channels, residual):
    weight, bias = (torch.randn(channels, device="cuda", requires_grad=True) for _ in range(2))
    x, r, dy = (tensor(channels, side) for _ in range(3))
    x.requires_grad_()
    r.requires_grad_()

    def layer(x, r):
        y = F.batch_norm(x, None, None, weight, bias, training=True)
        return F.relu(y + r if residual else y)

    compiled = torch.compile(layer)
    inputs = [x, weight, bias] + ([r] if residual else [])
    both = milliseconds(lambda: torch.autograd.grad(compiled(x, r), inputs, dy))
    with torch.no_grad():
        forward = milliseconds(lambda: compiled(x, r))
    name = f"{EXAMPLES}x{side}x{side}x{channels} relu" + (" add" if residual else "")
    print(f"compiled norm  {name:34} forward {forward:8.4f}  forward and backward {both:8.4f}", flush=True)


if __name__ == "__main__":
    torch.backends.cudnn.benchmark = True
    print(torch.cuda.get_device_name(), torch.__version__)
    for layer in LAYERS:
        convolution(*layer)
    for side, channels in ((32, 16), (16, 32), (8, 64)):
        for residual in (False, True):
            normalisation(side, channels, residual)
