"""LeNet on MNIST: a batch of 2048 with the noise of a batch of 128.   python3 mnist.py [FOLDER for MNIST]"""
import sys

import torch
import torch.nn.functional as F
import torchvision
from torch import nn

import covnoise

folder = sys.argv[1] if len(sys.argv) > 1 else "data"
train, test = (torchvision.datasets.MNIST(folder, train=part, download=True) for part in (True, False))
images, labels = train.data[:, None] / 255, train.targets

torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(20, 50, 5), nn.MaxPool2d(2), nn.ReLU(),
                      nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10))
stats = covnoise.attach(model, estimator="exact")
opt = covnoise.optim.Noisy(torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9), stats, small_batch=128, stop=15)

for step in range(1, 31):
    batch = torch.randint(len(images), (2048,))
    loss = F.cross_entropy(model(images[batch]), labels[batch])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 10 == 0:
        print(f"step {step}  loss {loss:.3f}  Tr F {stats.trace():.1f}  noise scale {stats.noise_scale():.0f}")

with torch.no_grad():
    accuracy = (model.eval()(test.data[:, None] / 255).argmax(1) == test.targets).float().mean()
print(f"test accuracy {100 * accuracy:.1f} %")
