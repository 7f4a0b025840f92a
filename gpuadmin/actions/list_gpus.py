"""Show every GPU of the nodes, as many as the inventory expects or not, and what is missing or wrong."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

from gpuadmin.answers import Answers
from gpuadmin.common.text import counted, listed, size_words
from gpuadmin.display import has_room, make_console, make_table
from gpuadmin.options import Options
from gpuadmin.outcome import report
from gpuadmin.plan import PlanBuilder
from gpuadmin.session import opened
from gpuadmin.terminal import SafeConsole

COLUMNS = ("Node", "GPU", "Model", "Memory", "UUID", "Serial", "Driver", "CUDA", "MIG", "PCIe", "ECC")
#: In the line of each node as well.
OF_NODES = ("Driver", "CUDA")
#: What a narrower terminal leaves out: the first of these that fits, or the last.
NARROWER: tuple[tuple[str, ...], ...] = (
    (),
    OF_NODES,
    ("UUID", "Serial"),
    (*OF_NODES, "UUID", "Serial"),
    (*OF_NODES, "UUID", "Serial", "ECC"),
    (*OF_NODES, "UUID", "Serial", "ECC", "PCIe", "MIG"),
)
#: What may have several lines where nothing else helps; all else is short.
FOLDED = ("Node", "GPU", "Model")


def list_gpus(options: Options) -> int:
    """Look at the nodes once, and show what they say. Returns the exit code."""
    with opened("list-gpus", options, changes=False) as session:
        asked = session.some("gpu")
        builder = PlanBuilder("List GPUs")
        builder.add_all(asked, ["look at the GPUs"])
        session.planned(builder.build())
        run = session.run("list-gpus", None, {}, check=True, quiet=True)
        answers = Answers.of(run.hosts, asked, "gpus")
        expected = {host.name: host.gpus for host in session.hosts}
        nodes = {name: {"expected": expected[name], **answers.known[name]} for name in asked if name in answers.known}
        result = {"nodes": nodes, "unknown": dict(answers.unknown)}
        return report(
            session,
            run,
            result,
            show=lambda: show(nodes, answers.unknown, whole=bool(options.verbose)),
            unknown=[answers],
        )


def show(nodes: Mapping[str, Mapping[str, Any]], unknown: Mapping[str, str], *, whole: bool = False) -> None:
    """Print a row for each GPU, then a line for each node, and what there is to do. `whole`: what did not fit, too."""
    console = make_console(json=False)
    found = [(name, *row) for name, node in nodes.items() for row in rows(node)]
    if found:
        left_out = next(names for names in NARROWER if names is NARROWER[-1] or has_room(console, _table(found, names)))
        console.print(_table(found, left_out))
        names = [name for name in left_out if name not in OF_NODES]
        if whole:
            for part in _parts(console, found, names):
                console.print(_table(found, _others(part)))
        elif names:
            console.print(f"No room for {listed(names)}: -v shows them, and --json has everything.")
    for name, node in nodes.items():
        console.print(f"{name}: {node_words(node)}")
        known = [*node["broken"], *node["worse"]]
        for line in [*known, *(f"takes no work: {one}" for one in node["closed"] if one not in known)]:
            console.print(f"  {line}")
    for name, why in unknown.items():
        console.print(f"{name}: unknown: {why}")


def _table(found: Sequence[Sequence[str]], left_out: Collection[str]) -> Table:
    kept = [at for at, name in enumerate(COLUMNS) if name not in left_out]
    table = make_table(*(COLUMNS[at] for at in kept), fold=True)
    for column in table.columns:
        column.no_wrap = column.header not in FOLDED
    for row in found:
        cells = [row[at] for at in kept]
        table.add_row(*([one.removeprefix("NVIDIA ").removeprefix("0000:") for one in cells] if left_out else cells))
    return table


def _parts(console: SafeConsole, found: Sequence[Sequence[str]], names: Iterable[str]) -> list[list[str]]:
    """What has no room, in as few further tables as have room for it."""
    parts: list[list[str]] = []
    for name in names:
        if parts and has_room(console, _table(found, _others([*parts[-1], name]))):
            parts[-1].append(name)
        else:
            parts.append([name])
    return parts


def _others(names: Sequence[str]) -> list[str]:
    """What a table leaves out that has these columns, and which GPU it is."""
    return [name for name in COLUMNS if name not in ("Node", "GPU", *names)]


def rows(node: Mapping[str, Any]) -> Iterator[list[str]]:
    """What NVML says of each GPU and MIG device; where it says nothing, what the bus has."""
    nvml = node["nvml"]
    for gpu in (nvml or {}).get("gpus", ()):
        yield [*_row(gpu), nvml["driver"] or "unknown", nvml["cuda"] or "unknown", _mig(gpu), _pcie(gpu), _ecc(gpu)]
        for mig in gpu.get("mig_devices") or ():
            yield [
                f"{gpu['index']}.{mig['index']}", _mig_name(gpu, mig), _size(mig), _word(mig, "uuid"), "—", "", "", "",
                "", "",
            ]  # fmt: skip
    if nvml is None:
        for device in node["pci"]:
            driver = node["driver"]["module"] if device["driver"] == "nvidia" else device["driver"]
            model = device["name"] or f"{device['vendor']}:{device['device']}"
            lanes = {"pcie_width": device["width"], "pcie_width_max": device["width_max"], "unknown": {}}
            yield [
                device["address"], model, "unknown", "unknown", "unknown", driver or "none", "unknown", "unknown",
                _pcie(lanes), "unknown",
            ]  # fmt: skip


def _row(gpu: Mapping[str, Any]) -> list[str]:
    name = _word(gpu, "name")
    if gpu.get("problem") is not None:
        name = str(gpu["problem"]) if gpu.get("name") is None else f"{name}: {gpu['problem']}"
    return [str(gpu["index"]), name, _size(gpu), _word(gpu, "uuid"), _word(gpu, "serial")]


def _word(gpu: Mapping[str, Any], key: str) -> str:
    """A value; — where the GPU has no such thing, unknown where it does not say."""
    value = gpu.get(key)
    return str(value) if value is not None else "—" if key in gpu.get("lacks", ()) else "unknown"


def _mig_name(gpu: Mapping[str, Any], mig: Mapping[str, Any]) -> str:
    """`MIG 1g.10gb`: a MIG device's name begins with that of its GPU, which is the row above."""
    name, whole = _word(mig, "name"), f"{gpu.get('name')} "
    return name[len(whole) :] if name.startswith(whole) else name


def _size(gpu: Mapping[str, Any]) -> str:
    return _word(gpu, "memory") if gpu.get("memory") is None else size_words(gpu["memory"])


def _switch(gpu: Mapping[str, Any], key: str) -> str:
    value, later = gpu.get(key), gpu.get(f"{key}_pending")
    if value is None:
        return _word(gpu, key)
    words = "on" if value else "off"
    return words if later in (value, None) else f"{words}, {'on' if later else 'off'} after a reset"


def _mig(gpu: Mapping[str, Any]) -> str:
    words = _switch(gpu, "mig")
    devices = gpu.get("mig_devices") if gpu.get("mig") else None
    return words if devices is None else f"{words}: {counted(len(devices), 'device')}"


def _pcie(gpu: Mapping[str, Any]) -> str:
    width, most = gpu.get("pcie_width"), gpu.get("pcie_width_max")
    if width is None:
        return _word(gpu, "pcie_width")
    return f"×{width}" if most in (width, None) else f"×{width} of ×{most}"


def _ecc(gpu: Mapping[str, Any]) -> str:
    words = _switch(gpu, "ecc")
    bad = gpu.get("ecc_uncorrected")
    return f"{words}, {bad} uncorrected" if bad else words


def node_words(node: Mapping[str, Any]) -> str:
    """`7 of 8 GPUs answer, driver 550.163.01`, or what the bus has where no driver answers."""
    expected, number = node["expected"], node["answering"]
    of = "" if expected is None else f" of {expected}"
    seen = len(node["pci"])
    if not number and not seen and not expected:
        return "no GPU" + ("" if expected is None else ", and none is expected")
    words = f"{number}{of} {'GPU answers' if number == 1 and not of else 'GPUs answer'}"
    if expected is None:
        words += ", the inventory does not say how many it should have"
    words += f"; {seen} on the PCI bus" if seen != number else ""
    nvml = node["nvml"]
    return words if nvml is None else f"{words}; driver {nvml['driver'] or 'unknown'}, CUDA {nvml['cuda'] or 'unknown'}"
