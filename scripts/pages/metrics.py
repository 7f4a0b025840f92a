"""The reference of the metrics that nodes write, from the table in the node code."""

from __future__ import annotations

import runpy
from typing import Any

from . import ROOT

TABLE = ROOT / "gpuadmin/common/metrics.py"


def page() -> str:
    """The page, as Markdown."""
    table: dict[str, Any] = runpy.run_path(str(TABLE))  # node code: the controller's environment does not import it
    lines = [
        "# Reference of the metrics",
        "",
        "Made from the collector's table: `make docs`. What a node's collector writes for Prometheus, besides what",
        "prometheus-node-exporter measures itself. Units are in the names; ratios are from 0 to 1.",
        "A value that is not known is absent. [GPUs](gpus.md#measured-all-the-time) has how it is measured.",
        "",
        "| metric | type | labels | meaning |",
        "| --- | --- | --- | --- |",
    ]
    for one in table["METRICS"]:
        lines.append(f"| `{one.name}` | {one.kind} | {', '.join(f'`{label}`' for label in one.labels)} | {one.help} |")
    lines += ["", "## Values of labels", "", "| label | value | meaning |", "| --- | --- | --- |"]
    lines += [f"| `source` | `{value}` | {meaning} |" for value, meaning in table["SOURCES"].items()]
    lines += [f"| `state` | `{value}` | {meaning} |" for value, meaning in table["DRIVER_STATES"].items()]
    lines += [
        f"| `user` | `{table['UNKNOWN']}` | a process that cannot be attributed to one person without doubt |",
        f"| `container` | `{table['OTHERS']}` | more containers of one person than are shown one by one |",
    ]
    return "\n".join(lines) + "\n"
