"""The package as pip installs it, and its types."""
import importlib.util
import itertools
import os
import subprocess
import sys
import tarfile

import pytest
import torch
from conftest import ROOT

import covnoise

BUILT = os.environ.get("COVNOISE_OPS", "")

USE = """
import torch, covnoise
assert covnoise.__file__.startswith({folder!r}), covnoise.__file__
model = torch.nn.Linear(3, 2)
stats = covnoise.attach(model, "exact")
model(torch.randn(4, 3)).sum().backward()
print(sorted(stats.diagonal()), covnoise.__version__)
"""


@pytest.fixture(scope="module")
def backend():
    spec = importlib.util.spec_from_file_location("build", ROOT / "python" / "packaging" / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="pip is not installed")
def test_pip_installs_it_without_a_network(tmp_path, backend):
    """With the library of this build, which COVNOISE_BUILT_OPS names, so that it is not compiled again."""
    environment = {**os.environ, "COVNOISE_BUILT_OPS": BUILT, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", tmp_path, "--no-deps", ROOT], check=True,
                   env=environment)
    assert (tmp_path / "covnoise" / "py.typed").is_file() and (tmp_path / "covnoise" / "layers" / "linear.py").is_file()
    plain = {key: value for key, value in os.environ.items() if key != "COVNOISE_OPS"}
    done = subprocess.run([sys.executable, "-c", USE.format(folder=str(tmp_path))], check=True, text=True, cwd=tmp_path,
                          capture_output=True, env={**plain, "PYTHONPATH": str(tmp_path)})
    assert done.stdout == f"['bias', 'weight'] {backend.VERSION}\n"


def test_the_source_distribution_is_complete(tmp_path, backend):
    name = backend.build_sdist(tmp_path)
    with tarfile.open(tmp_path / name) as archive:
        found = set(archive.getnames())
    for path in ("CMakeLists.txt", "cmake/Dependencies.cmake", "src/ops/random.cpp", "src/cuda/update.cu", "PKG-INFO",
                 "include/covnoise/ops/random.h", "include/covnoise/core/error.h", "python/covnoise/attach.py",
                 "python/packaging/build.py", "pyproject.toml"):
        assert f"{backend.NAME}/{path}" in found, path
    assert not any("__pycache__" in path for path in found)


def test_a_missing_library_is_named(tmp_path):
    environment = {**os.environ, "COVNOISE_OPS": str(tmp_path / "missing.so"), "PYTHONPATH": str(ROOT / "python")}
    done = subprocess.run([sys.executable, "-c", "import covnoise"], capture_output=True, text=True, env=environment)
    assert done.returncode != 0 and "missing.so does not exist; run `pip install .`" in done.stderr


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
def test_types(tmp_path):
    done = subprocess.run([sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", "--cache-dir", tmp_path],
                          cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def code_blocks(path, section):
    """The indented lines of a section, one list for each block."""
    lines = (ROOT / path).read_text().split(f"\n## {section}\n")[1].split("\n## ")[0].splitlines()
    parts = itertools.groupby(lines, key=lambda line: line.startswith("    "))
    return [[line[4:] for line in block] for indented, block in parts if indented]


def test_the_readme_runs_from_top_to_bottom():
    programs = ["\n".join(block) for block in code_blocks("README.md", "In Python")]
    assert len(programs) == 2
    for program in programs:
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3))
        x, y = torch.randn(512, 4), torch.randint(0, 3, (512,))
        names = {"covnoise": covnoise, "torch": torch, "model": model, "x": x, "y": y,
                 "loss_of": lambda x, y: torch.nn.functional.cross_entropy(model(x), y)}
        exec(program, names)
        assert all(torch.isfinite(p).all() for p in model.parameters())


def test_one_version(backend):
    assert covnoise.__version__ == backend.VERSION


def test_examples_are_short():
    for path in (ROOT / "python" / "examples").glob("*.py"):
        assert len(path.read_text().splitlines()) < 40, path.name

