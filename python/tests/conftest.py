import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
if "COVNOISE_INSTALLED" not in os.environ:  # the package of this repository with the operators of its build folder
    sys.path.insert(0, str(ROOT / "python"))
    os.environ.setdefault("COVNOISE_OPS", str(ROOT / "build" / "libcovnoise_ops.so"))

import torch  # noqa: E402

if os.environ.get("COVNOISE_TEST_DEVICE", "cpu") != "cpu":
    torch.set_default_device(os.environ["COVNOISE_TEST_DEVICE"])
