"""What a profile's journal says: stalls, other users of the device, contamination."""

from __future__ import annotations

from energyscope.stages.records import bystanders_of, slow_windows


def test_other_users_are_listed_once():
    """Bystanders of several passes are named once."""
    entries = [{"stage": "profile", "pass": 0, "bystanders": ["process 7"]}] * 2
    assert bystanders_of(entries) == ["process 7"]


def test_stalled_windows_are_found_slowest_first():
    """Windows over 25 % slower than their subject's median are taken again, the slowest first, up to a limit."""

    def entry(subject, number, time_us):
        return {"subject": subject, "pass": number, "window": {"time_us": time_us}}

    entries = [entry("a", number, time_us) for number, time_us in enumerate((100, 101, 100, 130, 104))]
    entries += [entry("b", number, time_us) for number, time_us in enumerate((50, 50, 50, 51, 70))]
    assert slow_windows(entries, limit=10, slow=1.25) == [("b", 4), ("a", 3)]
    assert slow_windows(entries[:3] + entries[4:], limit=10, slow=1.25) == [("b", 4)]
    assert slow_windows(entries, limit=1, slow=1.25) == [("b", 4)]
