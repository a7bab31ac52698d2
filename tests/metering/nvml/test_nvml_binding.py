"""The binding is loaded once, and whatever is wrong with it is one clear line."""

from __future__ import annotations

import builtins
import os
import subprocess
import sys
import types

import pytest

from energyscope.errors import MeterError
from energyscope.metering.nvml import binding

LOAD = """
from energyscope.metering.nvml.binding import load_nvml
try:
    load_nvml()
except Exception as error:
    print(type(error).__name__, error)
"""
NO_LIBRARY = """
import ctypes
def missing(name):
    raise OSError(name)
ctypes.CDLL = missing
"""


def loaded(script, path=""):
    """Return what a fresh process says when it loads NVML."""
    env = {**os.environ, "PYTHONPATH": str(path)}
    command = [sys.executable, "-c", script]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout


def test_a_missing_driver_is_one_clear_line(fake_nvml):
    """WHEN NVML cannot be initialised THEN the error names NVML's reason and asks for the driver."""
    fake_nvml("at 0 fail nvmlInit 9")
    with pytest.raises(MeterError, match=r"NVMLError_DriverNotLoaded.*install one"):
        binding.load_nvml()


def test_a_missing_library_is_one_clear_line():
    """GIVEN a machine without libnvidia-ml THEN the error asks for a driver."""
    message = loaded(NO_LIBRARY + LOAD)
    assert message.startswith("MeterError NVML cannot be used (NVMLError_LibraryNotFound)")
    assert "driver installed?" in message


def test_a_missing_binding_is_one_clear_line(monkeypatch):
    """WHEN nvidia-ml-py is not installed THEN the error says what to install."""
    real = builtins.__import__

    def without(name, *arguments, **named):
        if name == "pynvml":
            raise ImportError(name)
        return real(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MeterError, match="pip install nvidia-ml-py"):
        binding.load_nvml()
    assert binding.binding_problem().code == "nvml-missing"


def test_the_deprecated_package_is_told_from_the_maintained_one(tmp_path):
    """GIVEN an old package `pynvml` that shadows nvidia-ml-py THEN the error says what to uninstall."""
    (tmp_path / "pynvml").mkdir()
    (tmp_path / "pynvml" / "__init__.py").write_text("def nvmlInit(): pass\n")
    assert "uninstall pynvml" in loaded(LOAD, tmp_path)


def test_the_maintained_binding_is_not_called_deprecated():
    """The binding that is installed here has no problem; a package folder of the same name has."""
    import pynvml

    folder = types.ModuleType("pynvml")
    folder.__path__ = ["somewhere"]
    assert binding.shadowed(pynvml) is None
    assert binding.binding_problem() is None
    assert binding.shadowed(folder).code == "nvml-shadowed"


def test_a_lost_gpu_is_told_from_a_failed_read():
    """Only errors after which asking again is of no use are of the kind that ends a meter."""
    import pynvml

    lost = binding.explained("reading", pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST))
    failed = binding.explained("reading", pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN))
    assert isinstance(lost, binding.LostGpuError)
    assert not isinstance(failed, binding.LostGpuError)
    assert "Unknown Error" in str(failed)
