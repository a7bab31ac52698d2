"""Comparison: how runs differ, whether that is shown, and what stands in the way of comparing them."""
