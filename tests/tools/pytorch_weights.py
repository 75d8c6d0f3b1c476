"""PyTorch's side of PytorchWeights: `write FILE` saves the state_dict of a network as safetensors, `compare FILE OTHER`
loads OTHER into that network and compares it with FILE, bit by bit. The format is read and written by hand."""
import json
import struct
import sys

import torch
from torch import nn


def save(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.contiguous().numpy().tobytes()
        kind = {torch.float32: "F32", torch.int64: "I64"}[tensor.dtype]
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def load(path):
    with open(path, "rb") as file:
        raw = file.read()
    length = struct.unpack("<Q", raw[:8])[0]
    tensors = {}
    for name, entry in json.loads(raw[8 : 8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        kind = {"F32": torch.float32, "I64": torch.int64}[entry["dtype"]]
        tensors[name] = torch.frombuffer(bytearray(raw[begin:end]), dtype=kind).reshape(entry["shape"])
    return tensors


class Block(nn.Module):
    def __init__(self, channels_in, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)


class ResNet8(nn.Module):  # covnoise's resnet8, parameter by parameter
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(Block(16, 16))
        self.layer2 = nn.Sequential(Block(16, 32))
        self.layer3 = nn.Sequential(Block(32, 64))
        self.fc = nn.Linear(64, 10)


torch.manual_seed(1)
network = ResNet8()
for norm in network.modules():
    if isinstance(norm, nn.BatchNorm2d):
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.5, 2)
if sys.argv[1] == "write":
    save(sys.argv[2], network.state_dict())
else:
    network.load_state_dict(load(sys.argv[3]), strict=True)
    expected = {name: tensor for name, tensor in load(sys.argv[2]).items() if not name.endswith("num_batches_tracked")}
    for name, tensor in expected.items():
        if not torch.equal(network.state_dict()[name], tensor):
            sys.exit(f"{name} differs")
    print(f"{len(expected)} tensors are the same")
