"""Quantization of one component: simulated, or by the kernels that a user would deploy."""
