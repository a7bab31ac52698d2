"""Imports between the package's rooms run one way only, so that each can be read with those below it."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import energyscope

ROOT = Path(energyscope.__file__).parent


def imported(path: Path) -> set[str]:
    """Return the modules of the package that a file imports when it is imported; not those for types alone."""
    found: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("energyscope"):
            found |= {f"{node.module}.{one.name}" for one in node.names}
        elif not isinstance(node, ast.FunctionDef) and not (
            isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        ):
            waiting += ast.iter_child_nodes(node)
    return found


def test_rooms_import_one_way() -> None:
    """GIVEN every import between folders (and modules beside them), THEN no circle, which graphlib would name."""
    below: dict[str, set[str]] = {}
    for path in ROOT.rglob("*.py"):
        room = path.relative_to(ROOT).with_suffix("").parts[0]
        below.setdefault(room, set()).update(one.split(".")[1] for one in imported(path) if "." in one)
    below.pop("__init__")
    names = {room: {one for one in others if one in below and one != room} for room, others in below.items()}
    order = list(TopologicalSorter(names).static_order())
    assert order.index("intervals") < order.index("format") < order.index("reasons") < order.index("reporting")
    assert order.index("settings") < min(order.index("stages"), order.index("cli"))  # which imports stages late
    assert "cli" not in names["stages"]
