"""The whole model at several precisions: timed loops, power, and what follows from the trials."""
