"""The page without a login: which nodes are up, which are down since when, and what is announced. Nobody's name.

It is one file that needs nothing else, so that it can be copied to a web server outside of the cluster; it says by
itself when it is too old to be believed.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment

from ..common.cluster import Node, totals
from .announced import Announced
from .files import write_atomic
from .snapshot import Snapshot

#: Seconds after which the page calls itself old. It is written every minute.
OLD = 300
#: The one script of the page; its digest lets our own answer allow it and no other.
SCRIPT = (
    "(function(){var e=document.getElementById('when'),o=document.getElementById('old');"
    f"function f(){{o.hidden=Date.now()/1000-Number(e.getAttribute('data-when'))<{OLD};}}"
    "f();setInterval(f,10000);})();"
)
STYLE = """
:root{color-scheme:light dark}
body{word-break:keep-all;overflow-wrap:break-word}
body{font:16px/1.5 system-ui,sans-serif;margin:1.5rem auto;max-width:44rem;padding:0 1rem}
table{border-collapse:collapse;width:100%}
th,td{border-bottom:1px solid #8886;padding:.3rem .5rem;text-align:left;vertical-align:top}
tr:first-child th{white-space:nowrap}
.away{font-weight:bold}
.note,#old{border-left:.4rem solid #c60;padding:.3rem .8rem;margin:1rem 0;white-space:pre-line;overflow-wrap:anywhere}
small{opacity:.8}
"""


@dataclass(frozen=True)
class StatusPage:
    """The page's text, and the policy with which our own server sends it."""

    text: str

    @property
    def policy(self) -> str:
        """Content-Security-Policy: this script and this style, and nothing from anywhere."""
        script, style = (_digest(one) for one in (SCRIPT, STYLE))
        return (
            f"default-src 'none'; script-src '{script}'; style-src '{style}'; base-uri 'none'; form-action 'none';"
            " frame-ancestors 'none'"
        )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def status_page(
    templates: Environment, cluster: str, look: Snapshot | None, announced: Sequence[Announced], now: float
) -> StatusPage:
    """Given what is known now (None: Prometheus does not answer), return the page."""
    rows, sums = ([], None) if look is None else ([_row(node, look) for node in look.nodes], totals(look.nodes))
    text = templates.get_template("status.html").render(
        cluster=cluster, nodes=rows, totals=sums, known=look is not None, announced=announced, now=now,
        script=SCRIPT, style=STYLE, minutes=OLD // 60,
    )  # fmt: skip
    return StatusPage(text)


def _row(node: Node, look: Snapshot) -> dict[str, Any]:
    since = look.booted.get(node.name) if node.state == "up" else look.seen.get(node.name)
    lost = [device.index for device in node.devices if device.lost]
    answering = f"{node.answering}/{node.expected}" if (node.answering or 0) < (node.expected or 0) else ""
    return {"name": node.name, "state": node.state, "since": since, "lost": ", ".join(lost), "answering": answering}


def write_status(path: str, page: StatusPage) -> None:
    """Have the page in a file that everybody may read: whole, or as it was before. Raises OSError."""
    write_atomic(path, page.text.encode(), mode=0o644, sync=False)
