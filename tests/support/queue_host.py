"""The queue's host for tests: squeue and sacct say what a test wants, mails go to a real server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm import job_turns, mail_choice, notices, queue

NOW = 4_000_000_000  # in 2096: the ledger has the clock of this machine, which is before it
FIELDS = job_turns._FIELDS


def job(id: str = "4", user: str = "minji", **fields: Any) -> dict[str, Any]:
    start = NOW - 600
    return {
        "id": id, "user": user, "waits": False, "gpus": 1, "asked": start - 900, "start": start, "end": start + 7200,
        "nodes": "gpu1", "name": "train.sh", **fields,
    }  # fmt: skip


def over(id: str = "3", state: str = "TIMEOUT", end: int = NOW - 60, **fields: Any) -> dict[str, str]:
    """A row of sacct's."""
    values = {
        "JobID": id, "User": "minji", "UID": "20000", "State": state,
        "Submit": str(end - 9000), "Start": str(end - 7200), "End": str(end), "ReqTRES": "cpu=1,gres/gpu=2",
        "NodeList": "gpu[1-2]", "AdminComment": "", "SystemComment": "", "JobName": "train.sh", **fields,
    }  # fmt: skip
    return {name: values[name] for name in FIELDS}


@dataclass
class Host:
    """The queue's host. ``jobs``: as squeue says; ``rows``: as sacct does."""

    directory: Path
    port: int = 9
    jobs: list[dict[str, Any]] = field(default_factory=list)
    rows: list[dict[str, str]] = field(default_factory=list)
    closed: dict[str, str] = field(default_factory=dict)
    choices: dict[str, tuple[str, int]] = field(default_factory=dict)
    details: str = "{}"
    settings: dict[str, Any] = field(default_factory=dict)
    asked: list[Sequence[str]] = field(default_factory=list)
    now: float = NOW

    def look(self, seconds: float = 60) -> None:
        """The timer's next run."""
        self.now += seconds
        given: dict[str, Any] = {
            "languages": ["en"], "kinds": ["begun", "ends", "ended", "lost"],
            "server": {"host": "127.0.0.1", "port": self.port, "security": "none"},
            "head": {"name": "GPU cluster", "sender": "gpu@example.org"}, **self.settings,
        }  # fmt: skip
        (self.directory / "mail.json").write_text(json.dumps(given))
        assert notices.main(str(self.directory), lambda: self.now, str(self.directory)) == 0

    def answer(self, command: Sequence[str]) -> str:
        self.asked.append(command)
        if command[0] != "sacct":
            return "" if command[-1] == "partition" else self.details
        token = next(one for one in command if one.startswith("--delimiter="))[12:]
        named = [one[7:].split(",") for one in command if one.startswith("--jobs=")]
        rows = [row for row in self.rows if not named or row["JobID"].partition("_")[0] in named[0]]
        return "".join("".join(f"{row[name]}{token}" for name in FIELDS) + "\n" for row in rows)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """It has looked once."""
    directory = tmp_path / "slurm"
    (directory / "locks").mkdir(parents=True)
    (directory / "people.json").write_text('{"minji": "minji@example.org", "jiho": "jiho@example.org"}')
    found = Host(directory)
    monkeypatch.setattr(queue, "alive", lambda: None)
    monkeypatch.setattr(queue, "ask_jobs", lambda: found.jobs)
    monkeypatch.setattr(queue, "closed", lambda: found.closed)
    monkeypatch.setattr(queue, "ask", found.answer)
    monkeypatch.setattr(mail_choice, "read", lambda: found.choices)
    return found
