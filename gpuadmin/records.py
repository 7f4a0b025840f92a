"""The record of runs: `runs/<id>/` with run.json, result.json and log.txt; readable by its owner only.

While a run goes on it holds a lock on `runs/<id>/running`, so that another one, which tidies up, leaves its record.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any, TypeGuard

from gpuadmin.config.yamlfile import write_atomically
from gpuadmin.errors import ConfigError
from gpuadmin.jsontext import json_text
from gpuadmin.reading import read_record
from gpuadmin.who import who

_ID = re.compile(r"\d{8}T\d{6}-[a-z-]+-[0-9a-f]{4}")
_VERB = slice(len("20261231T235959-"), None)  # what of an id begins with the verb
_OFTEN, _OFTEN_KEPT = "status-", 5
_RUN = {"id": str, "verb": str, "arguments": list, "check": bool, "who": str, "started": str, "plan": dict}
_RESULT = {"status": str, "exit_code": int, "ended": str}
_RUNNING = "running"
_DISMISSED = "dismissed.json"
#: What of a record other machines have; and in a copy of one of theirs, a mark that it is one.
_SHARED = ("run.json", "log.txt", "result.json", _DISMISSED)
_COPY = "copy"
_LARGEST = 16 * 1024 * 1024  # bytes of a file that other machines get
#: How far a run came, as it recorded itself: it only looked, it was about to begin, or it wrote or sent something.
NOTHING, CONFIRMED, SENT = "nothing", "confirmed", "sent"
_PLAN = {"title": str, "steps": list, "warnings": list}


@dataclass(frozen=True)
class Record:
    """One run's directory."""

    id: str
    directory: Path
    started: str
    _running: IO[str] = field(repr=False, compare=False)

    @classmethod
    def begin(
        cls, runs: Path, verb: str, *, arguments: Sequence[str], check: bool, plan: Mapping[str, Any],
        account: str | None = None,
    ) -> Record:  # fmt: skip
        """Make a run's directory and write who runs what, when, with which plan. `account`: who that is declared as."""
        now = datetime.now(UTC)
        # guard: a run is newer than those before it, whatever the clock says -> f'{now:%Y%m%dT%H%M%S}'
        stamp = _stamp(now, runs)
        identity = f"{stamp}-{verb}-{secrets.token_hex(2)}"
        directory = runs / identity
        try:
            runs.mkdir(mode=0o700, exist_ok=True)
            directory.mkdir(mode=0o700)
        except (PermissionError, FileExistsError, FileNotFoundError, NotADirectoryError) as error:
            raise ConfigError(
                f"{error.filename}: {error.strerror}, so nothing can be recorded",
                hint="runs/ must be a directory that whoever runs gpuadmin can write into",
            ) from None
        running = open(directory / _RUNNING, "x", encoding="ascii", opener=_private)  # noqa: SIM115 - held while it runs
        fcntl.flock(running, fcntl.LOCK_EX)
        record = cls(identity, directory, now.isoformat(timespec="seconds"), running)
        record._write(
            "run.json",
            {
                "id": identity,
                "verb": verb,
                "arguments": list(arguments),
                "check": check,
                "who": who(),
                "account": account,
                "started": record.started,
                "plan": dict(plan),
            },
        )
        return record

    def plan(self, plan: Mapping[str, Any]) -> None:
        """Replace the plan, for a verb that knows it only when it has looked at the hosts, or makes it in parts."""
        run = _read(self.directory / "run.json")
        assert run is not None
        self._write("run.json", {**run, "plan": dict(plan)})

    def finish(self, document: Mapping[str, Any], exit_code: int, *, reached: str = SENT) -> None:
        """Write the outcome. The run is over then; its record may be deleted when it is old enough."""
        ended = datetime.now(UTC).isoformat(timespec="seconds")
        self._write("result.json", {**document, "exit_code": exit_code, "ended": ended, "reached": reached})
        (self.directory / _RUNNING).unlink(missing_ok=True)
        self._running.close()

    @property
    def log(self) -> Path:
        """Where Ansible's output goes."""
        return self.directory / "log.txt"

    def heading(self, text: str) -> None:
        """Begin a part of the log: the output of a playbook follows."""
        with open(self.log, "a", encoding="utf-8", opener=_private) as stream:
            stream.write(f"=== {text}\n")

    def note(self, line: str) -> None:
        """Add a line to the log, while the playbook whose output it will hold still runs."""
        with open(self.log, "a", encoding="utf-8", opener=_private) as stream:
            stream.write(f"{line}\n")

    def _write(self, name: str, value: Mapping[str, Any]) -> None:
        text = json_text(value) + "\n"
        write_atomically(self.directory / name, text, mode=0o600)


def _stamp(now: datetime, runs: Path) -> str:
    """What the id of a run that begins now begins with: ids sort as runs began, also when the clock was set back."""
    stamp = f"{now:%Y%m%dT%H%M%S}"
    newest = max((directory.name[: len(stamp)] for directory in _directories(runs)), default="")
    if newest > stamp:
        with suppress(ValueError, OverflowError):  # it is not a time, or the last one that there is
            stamp = f"{datetime.strptime(newest, '%Y%m%dT%H%M%S') + timedelta(seconds=1):%Y%m%dT%H%M%S}"
    return stamp


def list_runs(runs: Path) -> list[dict[str, Any]]:
    """All recorded runs, newest first. A run without a result was cut off or is still going on."""
    return [run for run, _ in history(runs)]


def history(runs: Path, verbs: Collection[str] = ()) -> Iterator[tuple[dict[str, Any], dict[str, Any] | None]]:
    """Yield all recorded runs, or those of these verbs, newest first, each with its result where that is whole."""
    for directory in sorted(_directories(runs), reverse=True):
        if verbs and directory.name[_VERB].rpartition("-")[0] not in verbs:
            continue
        run = _read(directory / "run.json")
        if not _is_run(run):
            yield _damaged(directory.name) | {"dismissed": _dismissed(directory)}, None
            continue
        run["dismissed"] = _dismissed(directory)
        result = _read(directory / "result.json")
        there = os.path.lexists(directory / "result.json")
        if _is_result(result):
            yield run | {key: result[key] for key in ("status", "exit_code", "ended")}, result
        else:
            yield run | {"status": "damaged" if there else "unfinished", "exit_code": None, "ended": None}, None


def _dismissed(directory: Path) -> dict[str, str] | None:
    """Who dismissed what a run left undone, and when; None if nobody did."""
    found = _read(directory / _DISMISSED)
    return {"who": found["who"], "at": found["at"]} if _has(found, {"who": str, "at": str}) else None


def dismiss(runs: Path, identity: str) -> dict[str, str]:
    """Dismiss what a run left undone. Returns who did so, and when. Raises ConfigError."""
    entry = {"who": who(), "at": datetime.now(UTC).isoformat(timespec="seconds")}
    path = runs / identity / _DISMISSED
    try:
        write_atomically(path, json_text(entry) + "\n", mode=0o600)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}, so it is not dismissed") from None
    return entry


def _damaged(identity: str) -> dict[str, Any]:
    """A run that shows only its directory's name."""
    stamp, _, rest = identity.partition("-")
    try:
        started = datetime.strptime(stamp, "%Y%m%dT%H%M%S").replace(tzinfo=UTC).isoformat(timespec="seconds")
    except ValueError:
        started = "1970-01-01T00:00:00+00:00"
    return {
        "id": identity, "verb": rest.rpartition("-")[0], "arguments": [], "check": False, "who": "?",
        "started": started, "plan": {}, "status": "damaged", "exit_code": None, "ended": None,
    }  # fmt: skip


def show_run(runs: Path, identity: str) -> tuple[dict[str, Any], dict[str, Any] | None, str]:
    """Given a run's id, the beginning of one or its last part, return its run.json, its result and its log."""
    matching = [
        directory
        for directory in _directories(runs)
        if directory.name.startswith(identity) or directory.name.endswith(f"-{identity}")
    ]
    if len(matching) != 1:
        many = "more than one run matches" if matching else "there is no such run"
        raise ConfigError(f"{identity}: {many}", hint="gpuadmin runs lists them")
    directory = matching[0]
    log = directory / "log.txt"
    run = _read(directory / "run.json")
    if not _is_run(run):
        raise ConfigError(f"{directory / 'run.json'}: is damaged", hint="log.txt beside it may tell more")
    run["dismissed"] = _dismissed(directory)
    result = _read(directory / "result.json")
    if os.path.lexists(directory / "result.json") and not _is_result(result):
        raise ConfigError(f"{directory / 'result.json'}: is damaged", hint="log.txt beside it may tell more")
    return run, result, _log(log)


def _log(path: Path) -> str:
    try:
        return read_record(path).decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None


def prune_runs(runs: Path, keep: int) -> list[str]:
    """Delete the oldest run directories beyond `keep`, and as many copies of other machines' records; return the ids
    deleted. Other files in runs/ stay.

    Of status, which somebody may run every minute, few are kept: they would push out the records of what was done.

    So does the record of a run that goes on, and what cannot be deleted, because it is somebody else's or another run
    deletes it, too: the next run tries again.
    """
    newest = sorted(_directories(runs), reverse=True)
    often = [
        one
        for one in newest
        # guard: looks at the status do not push out the records of what was done -> False
        if one.name[_VERB].startswith(_OFTEN)
    ][_OFTEN_KEPT:]
    rest = [one for one in newest if one not in set(often)]
    # guard: records of other machines push out none of this one -> []
    copies = [one for one in rest if (one / _COPY).exists()]
    own = [one for one in rest if one not in set(copies)]
    old = [
        one
        for one in (*often, *own[keep:], *copies[keep:])
        if not goes_on(one)  # guard: the record of a run that goes on is not deleted
    ]
    for directory in old:
        shutil.rmtree(directory, ignore_errors=True)
    return [directory.name for directory in old if not directory.exists()]


def is_id(text: str) -> bool:
    """Whether a text is a record's id, which other machines may know."""
    return _ID.fullmatch(text) is not None and not text[_VERB].startswith(_OFTEN)


def shared_files(runs: Path) -> dict[str, set[str]]:
    """The ids of the records that are here, and which of the files that other machines have are there."""
    found = [one for one in _directories(runs) if is_id(one.name)]
    return {one.name: {path.name for path in one.iterdir()} & {*_SHARED} for one in found}


def files(runs: Path, identity: str) -> dict[str, str]:
    """What other machines are given of a record: text by name, that of its result after its log."""
    names = [name for name in _SHARED if (runs / identity / name).exists()]
    return {name: read_record(runs / identity / name)[:_LARGEST].decode("utf-8", "replace") for name in names}


def receive(runs: Path, identity: str, found: Mapping[str, str]) -> None:
    """Write a record of another machine, or what somebody there dismissed of one of ours."""
    assert is_id(identity)  # guard: what another machine calls a record is no path
    directory = runs / identity
    if not directory.exists():
        directory.mkdir(mode=0o700, parents=True)
        (directory / _COPY).touch(mode=0o600)
    # guard: a record of this machine is not replaced -> _SHARED
    for name in _SHARED if (directory / _COPY).exists() else (_DISMISSED,):
        if name in found:
            write_atomically(directory / name, str(found[name]), mode=0o600)


def moment(text: str) -> str:
    """Given a time as records have it, return it as people here read it; nothing for what is none."""
    return f"{datetime.fromisoformat(text).astimezone():%Y-%m-%d %H:%M:%S}" if _is_time(text) else ""


def goes_on(directory: Path) -> bool:
    """Whether the run of a record has not ended; the lock of one that was killed went with it."""
    try:
        with (directory / _RUNNING).open("r+", encoding="ascii") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _private(path: str, flags: int) -> int:
    return os.open(
        path,
        flags,
        0o600,  # guard: a run's log is its owner's alone -> 0o644
    )


def _directories(runs: Path) -> list[Path]:
    if not runs.is_dir():
        return []
    try:
        return [
            runs / entry.name
            for entry in os.scandir(runs)
            if _ID.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
        ]
    except OSError as error:
        raise ConfigError(
            f"{runs}: {error.strerror}, so what ran before is not known",
            hint="whoever runs gpuadmin must be able to read it",
        ) from None


def _is_run(value: dict[str, Any] | None) -> TypeGuard[dict[str, Any]]:
    """Whether a run.json is whole: what shows it takes it as it is."""
    return (
        _has(value, _RUN)
        and _is_time(value["started"])
        and _has(value["plan"], _PLAN)
        and all(_has(step, {"host": str, "action": str}) for step in value["plan"]["steps"])
    )


def _is_result(value: dict[str, Any] | None) -> TypeGuard[dict[str, Any]]:
    """Whether a result.json is whole."""
    return (
        _has(value, _RESULT)
        and _is_time(value["ended"])
        and isinstance(hosts := value.get("hosts", {}), dict)
        and all(map(_is_host, hosts.values()))
    )


def _is_host(value: object) -> bool:
    return (
        _has(value, {"status": str, "changed": list})
        and all(isinstance(one, str) for one in value["changed"])
        and isinstance(value.get("message", 0), str | None)
    )


def _has(value: object, fields: Mapping[str, type]) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict) and all(isinstance(value.get(name), kind) for name, kind in fields.items())


def _is_time(text: str) -> bool:
    """Whether it is a time here, too: the first and the last day of all are none in some zones."""
    try:
        datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        return False
    return True


def _read(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(read_record(path))
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
