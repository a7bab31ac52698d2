"""Meters, sources of cumulative joules, and the estimate of energy per call. Knows no torch."""
