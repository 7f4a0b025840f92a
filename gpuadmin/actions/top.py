"""Show what every GPU does now and who holds it, or where somebody can run now."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TypedDict

from rich.live import Live

from gpuadmin.actions.shared.accounts import require_known_name
from gpuadmin.actions.shared.now import document, memory_words, plain_table, screen, show_screen
from gpuadmin.actions.shared.prometheus import Prometheus, find_monitor
from gpuadmin.answers import Answers
from gpuadmin.common.cluster import Node, of_samples, of_texts
from gpuadmin.common.free import Room, rooms
from gpuadmin.common.queries import now as query_now
from gpuadmin.common.text import counted, listed
from gpuadmin.config.schema import Settings
from gpuadmin.display import make_console
from gpuadmin.errors import GpuadminError
from gpuadmin.options import Options
from gpuadmin.outcome import finish, report
from gpuadmin.plan import PlanBuilder
from gpuadmin.session import Session, opened


class Power(TypedDict):
    """Of a place, in watts; None: not known."""

    watts: float | None
    budget: int


def top(options: Options, *, once: bool, user: str | None, local: bool, every: int) -> int:
    """Ask Prometheus, or once the nodes (`local`), and show it; on a terminal again and again. Returns the code."""
    with opened("top", options, changes=False) as session:
        names = session.some("gpu")
        if local:
            find_monitor(session.site)  # without one no node has a collector: say it once, not for each of them
            return _local(session, names, user)
        with Prometheus(session.site) as prometheus:
            if options.json or once or not sys.stdout.isatty():
                nodes = look(prometheus, names)
                _require_somebody(session, nodes, user)
                power = look_at_power(prometheus, session.site.settings)
                if not options.json:
                    title = session.site.settings.name + describe_power(power)
                    show_screen(make_console(json=False), title, nodes, time.time(), user)
                return finish(session, 0, document(of_user(nodes, user)) | {"power": power})
            return _live(session, prometheus, names, user, every)


def show_free(options: Options, *, gpus: int, memory: int) -> int:
    """Ask Prometheus on which nodes somebody can run now: with `gpus` devices that nobody holds, and `memory` GiB left
    on each. Returns the exit code.
    """
    with opened("top", options, changes=False) as session:
        names = session.some("gpu")
        with Prometheus(session.site) as prometheus:
            nodes = look(prometheus, names)
        found = rooms(nodes, gpus, memory)
        unknown = {node.name: node.problem for node in nodes if node.problem is not None}
        if not options.json:
            _show_rooms(found, gpus, memory, list(unknown))
        result = {
            "nodes": {room.node.name: [asdict(device) for device in room.devices] for room in found},
            "unknown": unknown,
        }
        return finish(session, 0, result)


def _show_rooms(found: list[Room], gpus: int, memory: int, unknown: list[str]) -> None:
    console = make_console(json=False)
    if found:
        rows = [
            (room.node.name, str(len(room.devices)), device.index, device.name, memory_words(device))
            for room in found
            for device in room.devices
        ]
        console.print(plain_table(("Node", "Free", "GPU", "Model", "Memory in use"), rows, right=("Free",)))
    else:
        asked = counted(gpus, "free GPU") + (f" of {memory} GiB" if memory else "")
        console.print(f"No node has {asked}.")
    if unknown:
        console.print(f"Partly unknown because of a problem: {listed(unknown)} (gpuadmin top)")


def look(prometheus: Prometheus, names: Sequence[str]) -> tuple[Node, ...]:
    """What the nodes of these names do now."""
    return of_samples(prometheus.ask(query_now()), names, time.time())


def look_at_power(prometheus: Prometheus, settings: Settings) -> dict[str, Power]:
    """What each place that has a budget draws, and may draw."""
    budgets = settings.metrics.power_budgets
    drawn = {one.labels.get("place"): one.value for one in prometheus.ask("place:power_watts")} if budgets else {}
    return {place: Power(watts=drawn.get(place), budget=watts) for place, watts in budgets.items()}


def describe_power(power: Mapping[str, Power]) -> str:
    """For example ` · room 301: 11.2 of 12 kW`."""
    shown = {place: "?" if one["watts"] is None else f"{one['watts'] / 1000:.1f}" for place, one in power.items()}
    return "".join(f" · {place}: {watts} of {power[place]['budget'] / 1000:g} kW" for place, watts in shown.items())


def _local(session: Session, names: Sequence[str], user: str | None) -> int:
    """One look at every node by the run layer: what its collector has written just now."""
    builder = PlanBuilder("Show what every GPU does")
    builder.add_all(names, ["look at what is measured"])
    session.planned(builder.build())
    run = session.run("top", None, {}, check=True, quiet=True)
    answers = Answers.of(run.hosts, names, "measured")
    nodes = of_texts({name: one["text"] for name, one in answers.known.items()}, answers.unknown, names, time.time())

    _require_somebody(session, nodes, user)

    def show() -> None:
        show_screen(make_console(json=False), session.site.settings.name, nodes, time.time(), user)

    return report(session, run, document(of_user(nodes, user)), show=show, unknown=[answers])


def _require_somebody(session: Session, nodes: Sequence[Node], user: str | None) -> None:
    """Raise ConfigError if somebody is named who holds nothing and is nobody: a slip is not an answer."""
    held = {one.user for node in nodes for device in node.devices for one in device.holders or ()}
    if user is not None and user not in held:
        require_known_name(session.site, user)


def of_user(nodes: Sequence[Node], user: str | None) -> tuple[Node, ...]:
    """The nodes with only those devices that somebody holds; all of them where nobody is named."""
    if user is None:
        return tuple(nodes)
    return tuple(node.held_by(user) for node in nodes)


def _live(session: Session, prometheus: Prometheus, names: Sequence[str], user: str | None, every: int) -> int:
    settings, problem = session.site.settings, ""
    nodes = look(prometheus, names)  # an error of the first look ends the verb; later ones are shown
    _require_somebody(session, nodes, user)
    power = look_at_power(prometheus, settings)
    console = make_console(json=False)
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live, _keys():
            while True:
                title = f"{settings.name}{describe_power(power)}{problem}"
                live.update(screen(title, nodes, time.time(), user, console.height, console.width), refresh=True)
                if _quits(every):  # the screen is at most this old
                    return finish(session, 0, {})
                try:
                    nodes, power, problem = look(prometheus, names), look_at_power(prometheus, settings), ""
                except GpuadminError as error:
                    problem = f" (as of {time.strftime('%H:%M:%S')}; {error.message})"
    except KeyboardInterrupt:
        return finish(session, 0, {})


@contextmanager
def _keys() -> Iterator[None]:
    """Keys come as they are pressed, and are not shown; the terminal is as it was afterwards."""
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _quits(seconds: int) -> bool:
    """Wait for so long, or for a key. Returns whether it was q."""
    if not sys.stdin.isatty():
        time.sleep(seconds)  # until the next look
        return False
    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    return bool(ready) and os.read(sys.stdin.fileno(), 64)[:1] in (b"q", b"Q", b"")
