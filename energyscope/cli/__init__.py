"""The command line: one file a command. Commands parse, call and print; they decide nothing."""

from __future__ import annotations

from energyscope.cli.interrupts import exit_on_signals


def main() -> None:
    """Run the command line, as the console script does: a signal has its exit code at every moment."""
    exit_on_signals()
    from energyscope.cli.app import main as run

    try:
        run()
    finally:
        exit_on_signals()


__all__ = ["main"]
