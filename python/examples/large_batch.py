"""A batch of 4096 that is well: MNIST, fully connected, 8 epochs, with batches of 128 and of 4096 examples as one would
write them at first, and of 4096 with all that docs/large-batches.md recommends.   python3 large_batch.py [FOLDER for MNIST]

    batch of 128, as usual           98.2 %
    batch of 4096, as usual          94.3 %
    batch of 4096, healthy           97.6 %
"""
import math
import sys

import torch
import torch.nn.functional as F
import torchvision
from torch import nn

import covnoise

EPOCHS = 8
folder = sys.argv[1] if len(sys.argv) > 1 else "data"
train, test = (torchvision.datasets.MNIST(folder, train=part, download=True) for part in (True, False))
images, labels = train.data.flatten(1) / 255, train.targets


def network():
    torch.manual_seed(0)
    hidden = [[nn.Linear(size, 512), nn.BatchNorm1d(512), nn.ReLU()] for size in (784, 512, 512)]
    return nn.Sequential(*(layer for layers in hidden for layer in layers), nn.Linear(512, 10))


def accuracy(model):
    with torch.no_grad():
        return 100 * (model.eval()(test.data.flatten(1) / 255).argmax(1) == test.targets).float().mean()


def train_as_usual(batch, lr):
    model = network()
    opt = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=1e-4)
    for _ in range(EPOCHS):
        for part in torch.randperm(len(images)).split(batch)[:len(images) // batch]:
            opt.zero_grad()
            F.cross_entropy(model(images[part]), labels[part]).backward()
            opt.step()
    return accuracy(model)


def train_healthy(batch, lr):
    model = covnoise.convert_ghost_batch_norm(network(), 32)  # groups of 32 examples, as if each were a batch
    opt = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=1e-4)
    steps, step = EPOCHS * (len(images) // batch), 0
    warmup, sharp_from = 0.1 * steps, 0.75 * steps

    def loss_of(x, y):
        return F.cross_entropy(model(x), y)

    for _ in range(EPOCHS):
        for part in torch.randperm(len(images)).split(batch)[:len(images) // batch]:
            x, y = images[part], labels[part]
            for group in opt.param_groups:  # a linear warm-up, then a cosine
                group["lr"] = lr * min((step + 1) / warmup, (1 + math.cos(math.pi * step / steps)) / 2)
            opt.zero_grad()
            if step >= sharp_from:
                covnoise.sharp_backward(model, loss_of, x, y, radius=0.1, micro_batch=512)
            else:
                loss_of(x, y).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            step += 1
    return accuracy(model)


print(f"batch of 128, as usual           {train_as_usual(128, 0.1):.1f} %")
print(f"batch of 4096, as usual          {train_as_usual(4096, 1.6):.1f} %")
print(f"batch of 4096, healthy           {train_healthy(4096, 1.6):.1f} %")
