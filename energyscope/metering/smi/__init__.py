"""The ``nvidia-smi`` command as a meter."""
