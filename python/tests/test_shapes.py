"""Layers of any shape, against one backward pass per example."""
import pytest
import torch
from support import batch, check
from torch import nn

pytest.importorskip("hypothesis")
from hypothesis import given, settings, strategies as st  # noqa: E402


@given(examples=st.integers(2, 7), group=st.integers(1, 4), channels=st.sampled_from([2, 4]), outputs=st.sampled_from([2, 4]),
       kernel=st.integers(1, 3), stride=st.integers(1, 2), padding=st.integers(0, 2), dilation=st.integers(1, 2),
       groups=st.sampled_from([1, 2]), bias=st.booleans())
@settings(max_examples=40, deadline=None, derandomize=True)
def test_convolution_of_any_shape(examples, group, channels, outputs, kernel, stride, padding, dilation, groups, bias):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(channels, outputs, kernel, stride, padding, dilation, groups, bias), nn.Tanh(),
                          nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(outputs, 3))
    estimator = "exact" if group == 1 else "ghost"
    if estimator == "ghost" and examples <= group:
        examples = group + 1
    check(model, *batch(examples, channels, 6, 5), estimator, group)


@given(examples=st.integers(2, 9), group=st.integers(1, 4), inputs=st.integers(1, 20), outputs=st.integers(2, 20),
       positions=st.lists(st.integers(1, 3), max_size=2))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_linear_of_any_shape(examples, group, inputs, outputs, positions):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(inputs, outputs), nn.Tanh(), nn.LayerNorm(outputs))
    estimator = "exact" if group == 1 else "ghost"
    examples = max(examples, group + 1)
    classes = outputs
    for size in positions:
        classes *= size
    check(model, *batch(examples, *positions, inputs, classes=classes), estimator, group)
