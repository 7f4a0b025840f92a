"""The alerts in docs/monitoring.md, from the rules of the role monitoring."""

from __future__ import annotations

import re

import yaml

from . import ROOT

RULES = ROOT / "roles/monitoring/files/rules"
BEGIN, END = "<!-- made from roles/monitoring/files/rules: make docs -->\n", "<!-- end -->"
_URGENT = {
    "critical": "critical: now",
    "warning": "warning: today",
    "info": "info: when you get to it",
    "none": "always",
}


def page(text: str) -> str:
    """Given the page, return it with the alerts as the rules have them."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + _alerts() + END + after


def _alerts() -> str:
    lines = []
    for path in sorted(RULES.glob("*.yml")):
        for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]:
            for rule in (one for one in group["rules"] if "alert" in one):
                notes, after = rule["annotations"], rule.get("for")
                # what the rule fills in is an ellipsis here
                summary = re.sub(r"\{\{.*?\}\}", "…", notes["summary"])
                when = f", after {after}" if after else ""
                lines += [
                    f"### {rule['alert']}",
                    f"“{summary}” ({_URGENT[rule['labels']['severity']]}{when})",
                    "",
                    f"- What it means: {notes['meaning']}",
                    f"- What to do: {notes['todo']}",
                    "",
                ]
    return "\n".join(lines)
