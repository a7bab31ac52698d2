"""What each format of checkpoints stores for a quantized linear, and the configuration that names it."""
