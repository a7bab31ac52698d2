"""The page of laws: how energy grows with work, batch and model size, and the same in the terminal."""
