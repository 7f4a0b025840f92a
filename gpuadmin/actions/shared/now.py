"""The screen of `gpuadmin top`: nodes, devices and who holds them, for people; and the same for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gpuadmin.common.cluster import Device, Granted, Holder, Node, find_earliest_answer, totals
from gpuadmin.common.text import counted, size_words
from gpuadmin.display import join_lines, make_table, show_table, styled
from gpuadmin.terminal import SafeConsole

_WIDE = 100  # columns: with fewer, bars and makers' names have no room
_STYLES = {"up": "green", "down": "bold red", "silent": "bold red", "unknown": "yellow"}


def document(nodes: Iterable[Node]) -> dict[str, Any]:
    """The nodes for programs: bytes, ratios, °C, watts, seconds since 1970; null is what nobody knows."""
    # not dataclasses.asdict, which copies every value
    found = {
        node.name: {key: value for key, value in vars(node).items() if key != "name"}
        | {"devices": [_plain(device) for device in node.devices]}
        for node in nodes
    }
    return {"nodes": found, "totals": totals(nodes)}


def _plain(device: Device) -> dict[str, Any]:
    held = None if device.holders is None else [vars(one) for one in device.holders]
    return vars(device) | {"holders": held, "granted": [vars(one) for one in device.granted], "free": device.free}


def show_screen(console: SafeConsole, cluster: str, nodes: Sequence[Node], now: float, user: str | None) -> None:
    """Print the whole screen once. `user`: only what this person holds."""
    for part in _parts(cluster, nodes, now, user, None, narrow=console.width < _WIDE):
        show_table(console, part) if isinstance(part, Table) else console.print(part)


def screen(
    cluster: str,
    nodes: Sequence[Node],
    now: float,
    user: str | None = None,
    most: int | None = None,
    width: int | None = None,
) -> RenderableType:
    """The whole screen, to be shown again and again. `most`, `width`: rows and columns that there is room for."""
    return Group(*_parts(cluster, nodes, now, user, most, narrow=width is not None and width < _WIDE))


def _parts(
    cluster: str, nodes: Sequence[Node], now: float, user: str | None, most: int | None, *, narrow: bool
) -> list[RenderableType]:
    parts: list[RenderableType] = [_headline(cluster, nodes, now)]
    titles = ("Node", "GPU", "Model", "Use", "Memory", "°C", "W", "Held by", "Since")
    table = make_table(*titles, right=("°C", "W"), fold=True)
    for node in nodes:
        if most is not None and table.row_count >= most:
            break
        rows = [one for one in node.devices if user is None or one.of(user)]
        for number, device in enumerate(rows):
            table.add_row("" if number else styled(node.name), *_cells(device, now, narrow=narrow))
        if not rows and user is None:
            table.add_row(node.name, *_silent(node))
    parts.append(table if table.row_count else Text("Nobody by that name holds a GPU." if user else "No node."))
    notes = [f"{node.name}: {node.problem}" for node in nodes if node.problem and (node.devices or node.state != "up")]
    if notes and user is None:
        parts.append(join_lines(notes))
    return parts


def _headline(cluster: str, nodes: Sequence[Node], now: float) -> Text:
    sums, then = totals(nodes), find_earliest_answer(nodes)
    when = "" if then is None else f" as of {age(now - then)} ago"
    words = [
        f"{sums['up']} of {counted(sums['nodes'], 'node')} up{when}",
        f"{sums['free']} of {counted(sums['devices'], 'GPU')} free",
    ]
    if sums["granted"]:
        words.append(f"{sums['granted']} granted and not held")
    if sums["unknown"]:
        words.append(f"{sums['unknown']} unknown")
    return styled((cluster, "bold"), "".join(f" · {word}" for word in words))


def _silent(node: Node) -> Iterator[RenderableType]:
    """The row of a node without known devices."""
    yield "—" if node.state == "up" and node.problem is None else "unknown"
    yield styled((node.state if node.state != "up" else node.problem or "no GPU", _STYLES[node.state]))
    for _ in range(6):
        yield ""


def _cells(device: Device, now: float, *, narrow: bool) -> Iterator[RenderableType]:
    yield device.index
    yield device.name.removeprefix("NVIDIA ") if narrow else device.name
    if not device.usable:
        yield styled(("does not answer", "bold red")) if device.lost else "divided"
    else:
        bar = "" if narrow or device.utilization is None else f"{_bar(device.utilization)} "
        yield "unknown" if device.utilization is None else f"{bar}{device.utilization:4.0%}"
    yield _memory_in_short(device) if narrow else memory_words(device)
    yield "" if device.temperature is None else f"{device.temperature:.0f}"
    yield "" if device.power is None else f"{device.power:.0f}"
    if device.holders is None:
        yield styled(("unknown", "yellow"))
        yield ""
    elif not device.holders and not device.granted:
        yield styled(("free", "green")) if device.usable else ""
        yield ""
    else:
        granted = [words for one in device.waiting for words in grant_words(one, now)]
        yield join_lines([*(holder_words(one) for one in device.holders), *granted])
        yield join_lines("" if one.since is None else age(now - one.since) for one in device.holders)


def holder_words(holder: Holder) -> str:
    """`minji in train`, `minji, no grant`."""
    where = f" in {holder.container}" if holder.container else ""
    without = ", no grant" if holder.ungranted is not None else ""
    return f"{holder.user}{where}{without}"


def grant_words(one: Granted, now: float) -> list[str]:
    """`granted to minji until 18:00`, and below it `by kim@ctl: paper`."""
    by = [f"by {one.who}: {one.reason}"] if one.reason else []
    return [f"granted to {one.user} until {until_words(one.until, now)}", *by]


def until_words(until: float, now: float) -> str:
    """A time in the admin's own zone: `18:00` today, else `2026-11-24 18:00`."""
    end = datetime.fromtimestamp(until)
    return end.strftime("%H:%M" if end.date() == datetime.fromtimestamp(now).date() else "%Y-%m-%d %H:%M")


def memory_words(device: Device) -> str:
    """`12.0 of 80.0 GB`"""
    if device.memory is None:
        return "unknown"
    if device.memory_used is None:
        return f"of {size_words(device.memory)}"
    return f"{size_words(device.memory_used)} of {size_words(device.memory)}"


def _memory_in_short(device: Device) -> str:
    """`12/80 GB`"""
    if device.memory is None or device.memory_used is None:
        return memory_words(device)
    return f"{device.memory_used / 1e9:.0f}/{device.memory / 1e9:.0f} GB"


def age(seconds: float) -> str:
    """Seconds as people read them at a glance: `3 min`, `5 h`, `2 d`."""
    for unit, span, most in (("s", 1, 60), ("min", 60, 120), ("h", 3600, 48)):
        if round(seconds / span) < most:  # as it is shown: never `60 s` or `120 min`
            return f"{max(seconds, 0) / span:.0f} {unit}"
    return f"{seconds / 86400:.0f} d"


def _bar(ratio: float, width: int = 8) -> str:
    full = round(min(max(ratio, 0.0), 1.0) * width)
    return "█" * full + "░" * (width - full)


def plain_table(titles: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[str] = ()) -> Table:
    """A table of texts."""
    table = make_table(*titles, right=right, fold=True)
    for row in rows:
        table.add_row(*row)
    return table
