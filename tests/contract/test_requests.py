"""What a verb asks of hosts (`gpuadmin_NAME`) is what their documents read: nobody else would notice a wrong name."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = {
    path: path.read_text() for path in (ROOT / "gpuadmin").rglob("*.py") if "collections" not in path.parts
}  # fmt: skip
DESIRED = "\n".join(text for path, text in PACKAGE.items() if path.parent.name == "desired")
PLAYS = "\n".join(
    path.read_text() for top in ("playbooks", "roles", "inventory") for path in (ROOT / top).rglob("*.yml")
)
GIVEN = re.compile(r"[\"(, ]gpuadmin_(\w+)(?:\"|=)")


def asked() -> set[str]:
    """The names that documents read."""
    names = {*re.findall(r"asked\(\s*\"(\w+)\"", DESIRED)}
    for given in re.findall(r"\.only\(([^)]*)\)", DESIRED):
        names |= {*re.findall(r"=\"(\w+)\"", given)}
    return names


def said(*, everywhere: bool) -> set[str]:
    """The names that verbs write, or all of the package but the documents."""
    texts = (
        text
        for path, text in PACKAGE.items()
        if "actions" in path.parts or (everywhere and path.parent.name != "desired")
    )
    return {one for text in texts for one in GIVEN.findall(text)}


def test_documents_read_only_what_somebody_says() -> None:
    assert len(asked()) > 40
    assert asked() - said(everywhere=True) == set()


def test_what_verbs_say_is_read() -> None:
    assert said(everywhere=False) - asked() - {*re.findall(r"\bgpuadmin_(\w+)", PLAYS)} == set()
