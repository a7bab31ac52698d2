"""How energy grows with length, batch and model: laws, where they break, and what they predict. Pure functions."""
