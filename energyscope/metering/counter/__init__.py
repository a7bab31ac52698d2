"""Energy counters that are read by a call, and watched by a process of their own."""
