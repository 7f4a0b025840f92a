"""The phases of a reset are one list: command line, journal, playbook, role and docs have the same ones."""

import re
from pathlib import Path
from typing import Any

import click
import yaml

from gpuadmin.actions.semester.hosts import DOING, FACTS
from gpuadmin.actions.semester.people import Abort, Release
from gpuadmin.actions.semester.phases import OBJECTS
from gpuadmin.cli import cli
from gpuadmin.semester.machine import PHASES

ROOT = Path(__file__).resolve().parents[2]
ROLE = ROOT / "roles" / "semester"
#: What playbooks/semester-reset.yml is asked for, by all that asks it.
PARTS = {FACTS, *(part for phase in (*OBJECTS.values(), Release, Abort) for part in phase.plays)}


def tasks() -> list[tuple[dict[str, Any], set[str]]]:
    """Each task of the playbook, with the parts that it is for."""
    (play,) = yaml.safe_load((ROOT / "playbooks/semester-reset.yml").read_text())
    found = []
    for task in play["tasks"]:
        (role,) = (task[kind] for kind in task if kind.endswith("_role"))
        if role.get("tasks_from") == "preflight":  # of all parts of the role that has it, before the first
            continue
        condition = re.search(r"gpuadmin_phase (?:== '([a-z-]+)'|in \[([^]]+)\])", task["when"])
        assert condition, task
        found.append((role, set(re.findall(r"[a-z-]+", condition[1] or condition[2]))))
    return found


def test_every_phase_has_its_object() -> None:
    assert set(OBJECTS) == set(PHASES)


def test_every_part_has_a_sentence_that_is_shown_meanwhile() -> None:
    assert set(DOING) == PARTS


def test_the_command_line_offers_every_phase() -> None:
    command = cli.get_command(click.Context(cli), "semester-reset")
    assert command is not None
    (option,) = [option for option in command.params if option.name == "phase"]
    assert isinstance(option.type, click.Choice)
    assert tuple(option.type.choices) == PHASES


def test_the_playbook_does_what_it_is_asked_for_and_nothing_else() -> None:
    assert {part for _, parts in tasks() for part in parts} == PARTS


def test_the_role_does_the_parts_that_the_playbook_gives_it() -> None:
    (given,) = [parts for role, parts in tasks() if role["name"] == "semester"]
    # what has the name of a part of the accounts' or the backups' alone is not its business
    files = {path.stem for path in (ROLE / "tasks").glob("*.yml")} - {"main", "phase", "preflight"}
    assert given == files


def test_the_docs_say_what_each_phase_does() -> None:
    section = (ROOT / "docs/semester.md").read_text().partition("\n## The phases\n")[2].partition("\n## ")[0]
    rows = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in section.splitlines() if "|" in line]
    assert rows[2:] == [(f"`{phase.name}`", phase.does, phase.proof) for phase in (OBJECTS[name] for name in PHASES)]
