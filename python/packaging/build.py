"""Builds wheel and sdist: the hooks of PEP 517, with the standard library alone."""
import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import tomllib
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSION = re.search(r"project\(covnoise VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
NAME = f"{PROJECT['name']}-{VERSION}"
LIBRARY = "libcovnoise_ops.so"
# What builds the operators and the package; the rest of the repository is the C++ program.
SOURCES = ["CMakeLists.txt", "CMakePresets.json", "LICENSE", "README.md", "pyproject.toml", "cmake", "docs/python.md",
           "include/covnoise/core", "include/covnoise/ops", "python", "src/cuda", "src/ops", "src/pch.h"]


def get_requires_for_build_wheel(config_settings=None):
    return []


def get_requires_for_build_sdist(config_settings=None):
    return []


def metadata():
    return "\n".join([
        "Metadata-Version: 2.1", f"Name: {PROJECT['name']}", f"Version: {VERSION}", f"Summary: {PROJECT['description']}",
        f"License: {PROJECT['license']}", f"Requires-Python: {PROJECT['requires-python']}",
        "Description-Content-Type: text/markdown", "", (ROOT / PROJECT["readme"]).read_text()])


def build_library():
    """Compiles the operators for the PyTorch of this Python, whatever environment pip has made for the build, unless
    COVNOISE_BUILT_OPS names a library that was compiled for it."""
    if os.environ.get("COVNOISE_BUILT_OPS"):
        return pathlib.Path(os.environ["COVNOISE_BUILT_OPS"]).resolve()
    folder = ROOT / "build" / "python"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    subprocess.run([sys.executable, "-c", "import torch"], env=environment, check=True)
    generator = ["-G", "Ninja"] if subprocess.run(["ninja", "--version"], capture_output=True).returncode == 0 else []
    subprocess.run(["cmake", "-S", ROOT, "-B", folder, *generator, "-DCMAKE_BUILD_TYPE=Release", "-DCOVNOISE_OPS_ONLY=ON",
                    "-DCMAKE_SKIP_RPATH=ON", f"-DPython3_EXECUTABLE={sys.executable}"], env=environment, check=True)
    subprocess.run(["cmake", "--build", folder, "--target", "covnoise_ops", "--parallel",
                    os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count()))], env=environment, check=True)
    return (folder / LIBRARY).resolve()


def package_files():
    package = ROOT / "python" / "covnoise"
    return sorted(path for path in package.rglob("*") if path.suffix == ".py" or path.name == "py.typed")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    tag = "py3-none-" + re.sub(r"[-.]", "_", sysconfig.get_platform())
    info = f"{NAME}.dist-info"
    files = {str(path.relative_to(ROOT / "python")): path.read_bytes() for path in package_files()}
    files[f"covnoise/{LIBRARY}"] = build_library().read_bytes()
    files[f"{info}/METADATA"] = metadata().encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: covnoise\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    files[f"{info}/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    lines = []
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(content)}")
    files[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,", ""]).encode()
    wheel = f"{NAME}-{tag}.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return wheel


def build_sdist(sdist_directory, config_settings=None):
    def wanted(member):
        return None if pathlib.PurePath(member.name).name in ("__pycache__", ".mypy_cache", LIBRARY) else member

    sdist = f"{NAME}.tar.gz"
    with tarfile.open(pathlib.Path(sdist_directory) / sdist, "w:gz") as archive, tempfile.TemporaryDirectory() as folder:
        information = pathlib.Path(folder) / "PKG-INFO"
        information.write_text(metadata())
        archive.add(information, f"{NAME}/PKG-INFO")
        for name in SOURCES:
            archive.add(ROOT / name, f"{NAME}/{name}", filter=wanted)
    return sdist
