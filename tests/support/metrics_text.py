"""The text for Prometheus, read back."""

from __future__ import annotations


def values(text: str) -> dict[str, float]:
    """By metric and labels, as they are written."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    found = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}
    assert len(found) == len(lines), "nothing is written twice"
    return found
