"""MNIST, 8 epochs with batches of 4096, written as usual and with what docs/large-batches.md adds.   large_batch.py [FOLDER]

    as usual 94.3 %
    healthy 98.4 %
"""
import sys

import torch
import torchvision
from torch import nn

import covnoise

folder = sys.argv[1] if len(sys.argv) > 1 else "data"
train, test = (torchvision.datasets.MNIST(folder, train=part, download=True) for part in (True, False))
images, labels, criterion = train.data.flatten(1) / 255, train.targets, nn.CrossEntropyLoss()

for healthy in (False, True):
    torch.manual_seed(0)
    hidden = [layer for size in (784, 512, 512) for layer in (nn.Linear(size, 512), nn.BatchNorm1d(512), nn.ReLU())]
    model = nn.Sequential(*hidden, nn.Linear(512, 10))
    opt = torch.optim.SGD(model.parameters(), lr=1.6, momentum=0.9, weight_decay=1e-4)
    batches = [part for _ in range(8) for part in torch.randperm(len(images)).split(4096) if len(part) == 4096]
    if healthy:  # groups of 32; a warm-up, then a cosine
        covnoise.convert_ghost_batch_norm(model, 32)
        schedule = torch.optim.lr_scheduler.OneCycleLR(opt, 1.6, len(batches), cycle_momentum=False)
    for step, part in enumerate(batches):
        opt.zero_grad()
        if healthy and step >= 0.75 * len(batches):
            covnoise.sharp_backward(model, lambda x, y: criterion(model(x), y), images[part], labels[part], radius=0.2,
                                    micro_batch=512)
        else:
            criterion(model(images[part]), labels[part]).backward()
        if healthy:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        schedule.step() if healthy else None
    accuracy = (model.eval()(test.data.flatten(1) / 255).argmax(1) == test.targets).float().mean()
    print(f"{'healthy' if healthy else 'as usual'} {100 * accuracy:.1f} %")
