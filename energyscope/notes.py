"""Words in a run's notes that whoever reads the run looks for: written in one place, found by the same words."""

from __future__ import annotations

NOT_ITS_KERNELS = "their time and energy are not those of its kernels"  # of layers that bitsandbytes does not run
