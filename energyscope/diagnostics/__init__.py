"""How good a sensor is: its ticks, its lag and averaging, the cost of polling it, and what to change."""
