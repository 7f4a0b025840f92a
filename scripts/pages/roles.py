"""The README of each role, from its meta/argument_specs.yml and meta/main.yml."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from . import ROOT


def load(role: str, file: str) -> Any:
    path = ROOT / "roles" / role / file
    return yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}


def sentences(text: str | list[str]) -> str:
    """Given a description, which may be a list, return one line."""
    return " ".join([text] if isinstance(text, str) else text)


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def kind(option: dict[str, Any]) -> str:
    """The type in words, with the choices where there are some."""
    if "choices" in option:
        return " or ".join(f"`{choice}`" for choice in option["choices"])
    return f"list of {option['elements']}" if option["type"] == "list" else str(option["type"])


def default(name: str, option: dict[str, Any], given: dict[str, Any]) -> str:
    """What is in defaults/main.yml, or that there is none."""
    if option.get("required"):
        return "required"
    value = given.get(name, option.get("default"))
    if value is None:
        return ""
    text = value if isinstance(value, str) and value else yaml.safe_dump(value, default_flow_style=True, width=1000)
    return f"`{cell(text.removesuffix(chr(10)).removesuffix('...').strip())}`"


def rows(options: dict[str, Any], given: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name, option in options.items():
        columns = (
            f"`{prefix}{name}`",
            kind(option),
            default(name, option, given),
            cell(sentences(option["description"])),
        )
        yield f"| {' | '.join(columns)} |"
        if "options" in option:
            yield from rows(option["options"], {}, f"{prefix}{name}{'[]' if option['type'] == 'list' else ''}.")


def readme(role: str) -> str:
    """The README of one role, as Markdown."""
    points: dict[str, Any] = load(role, "meta/argument_specs.yml")["argument_specs"]
    galaxy = load(role, "meta/main.yml")["galaxy_info"]
    platforms = ", ".join(one["name"] for one in galaxy["platforms"])
    main = points["main"]
    lines = [
        f"# {role}", "", f"{galaxy['description'].rstrip('.')}. Made from `meta/argument_specs.yml`: `make docs`.", "",
        sentences(main.get("description", main["short_description"])), "", f"Platforms: {platforms}.", "",
    ]  # fmt: skip
    if len(points) > 1:
        lines += ["| entry point | what it does |", "| --- | --- |"]
        lines += [f"| `{name}` | {cell(spec['short_description'])} |" for name, spec in points.items()]
        lines.append("")
    for name, spec in points.items():
        if spec.get("options"):
            title = "Variables" if name == "main" else f"Variables of `{name}`"
            lines += [f"## {title}", "", "| variable | type | default | meaning |", "| --- | --- | --- | --- |"]
            lines += [*rows(spec["options"], load(role, "defaults/main.yml") or {}), ""]
    return "\n".join(lines)


def readmes() -> dict[str, str]:
    """Every role's README, by its path."""
    names = sorted(path.name for path in (ROOT / "roles").iterdir() if path.is_dir())
    return {f"roles/{name}/README.md": readme(name) for name in names}
