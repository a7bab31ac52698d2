"""The command line: one file a command. Commands parse, call and print; they decide nothing."""

from __future__ import annotations

from energyscope.cli.app import main

__all__ = ["main"]
