"""Models spread over several devices: what the map says, whether it can be, and the hooks that make it run."""
