"""What is replayed: a call without arguments, whose result nobody needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Call = Callable[[], Any]
