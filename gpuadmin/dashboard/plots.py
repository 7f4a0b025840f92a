"""The plots' numbers, as the pages' JavaScript takes them: moments, and for each series a value or null at each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..common.cluster import Node
from ..common.prometheus import Series
from .texts import say

_PERCENT = ("utilization", "gpu-memory", "cpu", "memory")
_UNITS = {"power": "W", "temperature": "°C", "network": "MB/s", "disk-throughput": "MB/s"}
#: Plots with more than one answer in them.
_TOGETHER = {"network": ("received", "sent"), "disk-throughput": ("read", "written")}


def node_plots(
    node: Node, found: Mapping[str, Sequence[Series]], end: float, span: int, step: int, language: str
) -> list[dict[str, Any]]:
    """Given how a node was (queries.of_node), return its plots; those without any value are left out."""
    indices = {device.uuid: device.index for device in node.devices if not device.lost}
    lost = [device.index for device in node.devices if device.lost]
    uuids = {one.labels["uuid"] for series in found.values() for one in series if "uuid" in one.labels}
    if len(lost) == len(nameless := uuids - indices.keys()) == 1:  # the curve of before, in its place and colour
        indices[nameless.pop()] = lost[0]
    within = {one for parts in _TOGETHER.values() for one in parts}
    plots = []
    for what, series in found.items():
        if what in within:
            continue
        named = sorted(
            ((_name_curve(one, indices, what, language), one) for one in series),
            key=lambda pair: (len(pair[0]), pair[0]),
        )
        factor = 100.0 if what in _PERCENT else 1.0
        unit = "%" if what in _PERCENT else _UNITS[what]
        plots.append(_plot(what, say(language, what), unit, named, end, span, step, factor))
    for what, parts in _TOGETHER.items():
        named = [(say(language, part), one) for part in parts for one in found[part]]
        plots.append(_plot(what, say(language, what), _UNITS[what], named, end, span, step, 1e-6))
    return [plot for plot in plots if plot["series"]]


def _name_curve(one: Series, indices: Mapping[str, str], what: str, language: str) -> str:
    uuid = one.labels.get("uuid")
    if uuid is None:
        return say(language, what)
    return f"GPU {indices.get(uuid, uuid[:12])}"


def use_plot(
    found: Mapping[str, Sequence[Series]], end: float, span: int, step: int, language: str
) -> list[dict[str, Any]]:
    """Given how many devices were held and worked (queries.of_person, of_cluster), return the plot of both."""
    named = [(say(language, f"series-{what}"), one) for what, series in found.items() for one in series]
    plot = _plot("held", say(language, "plot-held"), "", named, end, span, step, 1.0)
    return [plot] if plot["series"] else []


def _plot(
    what: str,
    title: str,
    unit: str,
    named: Sequence[tuple[str, Series]],
    end: float,
    span: int,
    step: int,
    factor: float,
) -> dict[str, Any]:
    times = [int(end - span + number * step) for number in range(span // step + 1)]
    rows = []
    for name, one in named:
        values = {int(when): round(value * factor, 2) for when, value in one.values}
        if values:
            rows.append({"name": name, "values": [values.get(when) for when in times]})
    return {"id": what, "title": title, "unit": unit, "times": times, "series": rows}
