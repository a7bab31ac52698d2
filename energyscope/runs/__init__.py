"""Run directories: what is written, how it is read back, and how two of them differ."""
