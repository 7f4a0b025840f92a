"""A queue, and what its people have used, as OpenMetrics samples for the dashboard's pages."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.metrics_cluster import line, node

HOST = {"instance": "nas1", "kind": "storage", "job": "node"}


def queue_lines(now: float) -> Iterator[str]:
    yield from node("gpu01", now, gpus=2)
    job = HOST | {"account": "people", "gpus": "2"}
    yield line("gpuadmin_queue_up", HOST, 1, now)
    yield line("gpuadmin_collector_sample_timestamp_seconds", HOST | {"source": "queue"}, now, now)
    has = job | {"id": "4", "user": "minji", "nodes": "gpu01"}
    yield line("gpuadmin_queue_until_timestamp_seconds", has, now + 3600, now)
    yield line("gpuadmin_queue_until_timestamp_seconds", has | {"id": "7", "user": "seoyeon"}, now + 3600, now)
    made = HOST | {"id": "7", "who": "kim@ctl", "reason": "<b>paper"}
    yield line("gpuadmin_queue_exception", made, 1, now)
    yield line("gpuadmin_queue_place", job | {"id": "5", "user": "jiho", "why": "priority"}, 1, now)
    yield line("gpuadmin_queue_place", job | {"id": "6_[0-5]", "user": "haeun", "why": "something-new"}, 2, now)
    yield line(
        "gpuadmin_queue_waiting_since_timestamp_seconds", HOST | {"id": "6_[0-5]", "user": "haeun"}, now - 60, now
    )
    expected = "gpuadmin_queue_expected_start_timestamp_seconds"
    yield line(expected, HOST | {"id": "6_[0-5]", "user": "haeun"}, now + 7200, now)
    for user, why in (("haeun", "memory"), ("jiho", "own"), ("haeun", "<b>new")):
        ended = HOST | {"id": "3", "user": user, "why": why}
        yield line("gpuadmin_queue_ended_timestamp_seconds", ended, now - 90, now)
    closed = HOST | {"node": "gpu01", "state": "drained", "reason": "<b>new image"}
    yield line("gpuadmin_queue_node_closed", closed, 1, now)


def usage_lines(now: float, days: int) -> list[str]:
    """What the rules have written."""
    lines = []
    for number in reversed(range(days * 12)):
        when, own = now // 300 * 300 - 60 - number * 7200, {"instance": "gpu01"}
        for kind, value in (("held", 7200), ("measured", 7200), ("active", 3600), ("joules", 3.6e6)):
            lines.append(line("gpuadmin:use:2h", own | {"kind": kind, "user": "minji"}, value, when))
            if number < 5:
                lines.append(line("gpuadmin:use:2h", own | {"kind": kind, "user": "jiho"}, value, when))
        lines.append(line("gpuadmin:use:2h", own | {"kind": "available"}, 14400, when))
        lines.append(line("gpuadmin:use:2h", {"kind": "allocated", "user": "minji", "account": "phd"}, 7200, when))
        for bucket, count in (("60", 5), ("300", 10), ("900", 10), ("+Inf", 10)):
            lines.append(line("gpuadmin:waits:2h", {"le": bucket}, count, when))
    return lines
