"""The page and the terminal text of a measured server."""
