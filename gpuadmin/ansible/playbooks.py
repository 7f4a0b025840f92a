"""What a playbook of ours says of itself: which groups of hosts it is for."""

from __future__ import annotations

from pathlib import Path

import yaml

from gpuadmin.content import content_path


def read_groups(playbook: str | Path) -> tuple[str, ...]:
    """The groups whose hosts the plays of a playbook name, those that it imports included; ours name nothing else."""
    path = playbook if isinstance(playbook, Path) else content_path("playbooks", f"{playbook}.yml")
    found: dict[str, None] = {}
    for play in yaml.safe_load(path.read_text(encoding="utf-8")):
        imported = play.get("ansible.builtin.import_playbook")
        names = read_groups(path.with_name(imported)) if imported else str(play["hosts"]).split(":")
        found.update(dict.fromkeys(names))
    return tuple(found)
