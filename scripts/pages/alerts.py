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
                words = {name: _name_values(text) for name, text in notes.items()}
                when = f", after {after}" if after else ""
                lines += [
                    f"### {rule['alert']}",
                    f"“{words['summary']}” ({_URGENT[rule['labels']['severity']]}{when})",
                    "",
                    f"- What it means: {words['meaning']}",
                    f"- What to do: {words['todo']}",
                    "",
                ]
    return "\n".join(lines)


def _name_values(text: str) -> str:
    """Given a template of Prometheus, return it with names in place of values. For example, `{{ $labels.instance }} has
    {{ $value }}` becomes `HOST has N`.
    """
    text = re.sub(r"\{\{ with (\$labels\.\w+) \}\}(.*?)\{\{ \. \}\}(.*?)\{\{ end \}\}", r"\2{{ \1 }}\3", text)
    text = re.sub(r"\{\{ (?:with|range|end)\b.*?\}\}", "", text)
    text = re.sub(r"\{\{ \$labels\.(?:instance|node) \}\}", "HOST", text)
    text = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: found[1].upper(), text)
    return re.sub(r"\{\{ .*? \}\}", "N", text)
