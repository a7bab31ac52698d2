"""The energy counters of processors and their memory (RAPL), in Linux's powercap tree."""
