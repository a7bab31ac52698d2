"""AMD SMI as energyscope calls it: its names, its answers' fields and its errors, of boards in a scene.

``boards`` is a list of ``bdf``, ``serial``, ``hip_uuid`` (None: it is not told), ``watts``,
``processes`` and ``busy``; ``errors`` are codes by function; ``old`` is a version before 6.3; ``library`` is False
without libamd_smi.so.
"""

from __future__ import annotations

from enum import IntEnum

from fake_scene import lost, scene, seconds

RESOLUTION_UJ = 15.259  # of an MI300X
WORDS = {
    2: "AMDSMI_STATUS_NOT_SUPPORTED - Feature not supported",
    10: "AMDSMI_STATUS_NO_PERM - Permission Denied",
    34: "AMDSMI_STATUS_DRIVER_NOT_LOADED - Driver not loaded",
    49: "AMDSMI_STATUS_UNKNOWN_ERROR - An unknown error occurred",
}

if not scene().get("library", True):
    print("Unable to find libamd_smi.so library try installing amd-smi-lib from your package manager")  # noqa: T201 - as it does
    raise KeyError("libamd_smi.so")


class AmdSmiException(Exception):  # noqa: N818 - its name there
    pass


class AmdSmiLibraryException(AmdSmiException):
    def __init__(self, err_code):
        super().__init__(err_code)
        self.err_code, self.err_info = err_code, WORDS[err_code]

    def __str__(self):
        return f"Error code:\n\t{self.err_code} | {self.err_info}"


class AmdSmiMemoryType(IntEnum):
    VRAM = 0


def _check(call):
    now = scene()
    code = now.get("errors", {}).get(call) or (49 if lost(now) else 0)
    if code:
        raise AmdSmiLibraryException(code)
    return now


def amdsmi_init():
    _check("init")


def amdsmi_get_processor_handles():
    return list(range(len(_check("handles")["boards"])))


def amdsmi_get_gpu_device_bdf(handle):
    return _check("bdf")["boards"][handle]["bdf"]


def amdsmi_get_gpu_asic_info(handle):
    return {"market_name": "AMD Instinct MI300X", "asic_serial": _check("asic")["boards"][handle]["serial"]}


def amdsmi_get_gpu_enumeration_info(handle):
    return {"hip_id": 7, "hip_uuid": _check("enumeration")["boards"][handle].get("hip_uuid") or ""}


def amdsmi_get_energy_count(handle):
    now = _check("energy")
    joules = seconds(now) * now["boards"][handle]["watts"]
    name = "power" if now.get("old") else "energy_accumulator"
    return {name: int(joules * 1e6 / RESOLUTION_UJ), "counter_resolution": RESOLUTION_UJ, "timestamp": 0}


def amdsmi_get_gpu_process_list(handle):
    board = _check("processes")["boards"][handle]
    return [{"name": "N/A", "pid": pid, "mem": 0} for pid in board.get("processes", [])]


def amdsmi_get_gpu_activity(handle):
    return {"gfx_activity": _check("activity")["boards"][handle].get("busy", "N/A"), "umc_activity": "N/A"}


def amdsmi_get_gpu_memory_usage(handle, mem_type):
    assert isinstance(mem_type, AmdSmiMemoryType)
    return _check("memory") and 1 << 30


if scene().get("old"):
    del amdsmi_get_gpu_enumeration_info
