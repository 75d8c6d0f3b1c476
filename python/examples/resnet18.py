"""torchvision's ResNet-18 with ghost batch normalisation on Fashion-MNIST.   python3 resnet18.py [FOLDER for the data]"""
import sys

import torch
import torch.nn.functional as F
import torchvision

import covnoise

folder = sys.argv[1] if len(sys.argv) > 1 else "data"
device = "cuda" if torch.cuda.is_available() else "cpu"
data = torchvision.datasets.FashionMNIST(folder, download=True)
images = data.data[:, None].expand(-1, 3, -1, -1).to(device), data.targets.to(device)

torch.manual_seed(0)
model = torchvision.models.resnet18(num_classes=10)
model.conv1, model.maxpool = torch.nn.Conv2d(3, 64, 3, padding=1, bias=False), torch.nn.Identity()
covnoise.convert_ghost_batch_norm(model, 32).to(device)
stats = covnoise.attach(model, estimator="ghost", group=32)
opt = covnoise.optim.Noisy(torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9), stats, small_batch=32)

for step in range(1, 7):
    x, y = (value[256 * step:256 * (step + 1)] for value in images)
    loss = F.cross_entropy(model(x.float() / 255), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step}  loss {loss:.2f}  Tr C {stats.trace():.0f}  noise scale {stats.noise_scale():.0f}")
