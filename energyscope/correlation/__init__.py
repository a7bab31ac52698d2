"""Energy against impact: what goes together, how surely, and what follows. Pure functions over tables."""
