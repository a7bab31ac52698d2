"""The comparison of runs: its page, and what the terminal says of it."""
