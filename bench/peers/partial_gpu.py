#!/usr/bin/env python3
"""Counts the matrix products in bfloat16 that PyTorch computes wrongly on a part of a GPU's multiprocessors.

    nvidia-cuda-mps-control -d
    for part in 16 20 30 40 60 100; do CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=$part python3 bench/peers/partial_gpu.py; done

Not a benchmark: it is why covnoise refuses such a part (docs/paper.md). Linear layers of our networks, with 8 to 4096
examples: forward products, input gradients and weight gradients, the second factor in either layout, against products in
float32 on the CPU. Freed memory is filled with NaN before each product, so that one which reads what nobody wrote shows.
"""
import math
import os

import torch

EXAMPLES = (8, 32, 64, 128, 512, 1024, 4096)
LAYERS = ((784, 512), (512, 512), (512, 10), (3136, 384), (384, 192), (192, 100), (800, 500), (500, 10), (64, 10),
          (512, 100), (128, 100))
WRONG = 0.02  # relative error; rounding to bfloat16 gives 0.002


def error(a, b):
    """The largest relative error of three products; infinite if one of them is not finite."""
    expected = a.cpu().float() @ b.cpu().float()
    worst = 0.0
    for _ in range(3):
        poison = torch.full((1 << 22,), float("nan"), device="cuda")
        del poison
        relative = (((a @ b).cpu().float() - expected).norm() / expected.norm()).item()
        worst = max(worst, relative if math.isfinite(relative) else math.inf)
    return worst


def main():
    torch.manual_seed(0)
    wrong, products = [], 0
    for m in EXAMPLES:
        for inputs, outputs in LAYERS:
            shapes = {"forward": ((m, inputs), (inputs, outputs)), "input gradient": ((m, outputs), (outputs, inputs)),
                      "weight gradient": ((outputs, m), (m, inputs))}
            for name, (left, right) in shapes.items():
                for transposed in (False, True):
                    a = torch.randn(left, device="cuda").bfloat16()
                    b = torch.randn(right[::-1] if transposed else right, device="cuda").bfloat16()
                    relative = error(a, b.t() if transposed else b)
                    products += 1
                    if relative > WRONG:
                        layout = ", transposed" if transposed else ""
                        wrong.append(f"{name} of {m} examples, {inputs} to {outputs}{layout}: {relative:.1g}")
    part = os.environ.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "100")
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    print(f"{part} %, {processors} multiprocessors: {len(wrong)} of {products} products are wrong", *wrong, sep="\n    ")


if __name__ == "__main__":
    main()
