"""Shared by all tests; its being here puts this folder on the import path (``run_builder``)."""
