"""Run directories: what is written, and how it is read back."""
