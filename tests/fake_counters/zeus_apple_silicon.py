"""zeus-apple-silicon as energyscope calls it, of a chip in a scene.

Its powers are ``cpu_w``, ``gpu_w``, ``dram_w`` and so on, None without a counter; ``refuses`` is what
making a monitor ends with.
"""

from __future__ import annotations

from fake_scene import lost, scene, seconds

FIELDS = {
    "cpu_total_mj": "cpu_w",
    "gpu_mj": "gpu_w",
    "dram_mj": "dram_w",
    "gpu_sram_mj": "sram_w",
    "ane_mj": "ane_w",
}


class AppleEnergyMetrics:
    """Whole millijoules since some moment, None without a counter."""

    def __init__(self):
        now = scene()
        for field, name in FIELDS.items():
            watts = now.get(name)
            setattr(self, field, None if watts is None else int(seconds(now) * watts * 1e3))


class AppleEnergyMonitor:
    def __init__(self):
        if refuses := scene().get("refuses"):
            raise RuntimeError(refuses)

    def get_cumulative_energy(self):
        if lost(scene()):
            raise RuntimeError("no sample")
        return AppleEnergyMetrics()
