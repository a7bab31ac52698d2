"""Reading a counter twice, with how often it may have ticked between the two reads."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def read_twice(read: Callable[[], T], period_s: float) -> tuple[T, T, range]:
    """Read now and five periods later; return both answers and how many ticks can lie between them.

    A machine that is busy reads later than asked: the possible numbers are of the times at which it did read.
    """
    begin_s = time.monotonic()
    first = read()
    first_end_s = time.monotonic()
    time.sleep(5 * period_s)
    second_begin_s = time.monotonic()
    second = read()
    fewest = math.floor((second_begin_s - first_end_s) / period_s)
    most = math.ceil((time.monotonic() - begin_s) / period_s)
    return first, second, range(fewest, most + 1)
