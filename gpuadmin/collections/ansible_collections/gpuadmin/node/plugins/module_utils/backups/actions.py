"""What the backup module does: each action's plan, which is what check mode shows, and its job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuadmin.common.text import counted

from .. import background
from ..errors import NodeError, nothing_begun
from . import making, pruning
from .jobs import budget_of, chosen, copy_backup, homes_of, make_backup, prune_backups, verify_backup


@dataclass
class Done:
    operations: list[str] = field(default_factory=list)
    report: dict[str, Any] = field(default_factory=lambda: {"problems": []})


def act(given: Mapping[str, Any], *, check: bool) -> Done:
    """Given the module's arguments, do it (unless ``check``); the operations are the same in both cases.

    What this very run has done is reported, and not done again.
    """
    # guard: what this run did to backups is not asked of it again -> None
    found = None if check else background.said(_job(given), given["run_id"])
    if found is not None:
        return _again(given["action"], found)
    return {"make": _make, "verify": _verify, "copy": _copy, "prune": _prune}[given["action"]](given, check)


def _job(given: Mapping[str, Any]) -> str:
    return f"backup-{given['action']}"


def _done(given: Mapping[str, Any], function: background.JobFunction, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Have it done, and return the report of it."""
    found = background.perform(_job(given), function, arguments, start=given["run_id"])
    return _report(given["action"], found)


def _report(action: str, found: Any) -> dict[str, Any]:
    if action == "prune":
        return {"pruned": found, "problems": []}
    lacks = {"make": making.missing, "copy": making.uncopied}.get(action)
    return {"backup": found, "problems": lacks(found) if lacks else []}


def _again(action: str, found: Any) -> Done:
    words = [f"delete the backup {name}" for name in found] if action == "prune" else [f"{action} {found['name']}"]
    return Done(words, _report(action, found))


def _required(given: Mapping[str, Any], *names: str) -> None:
    for name in names:
        if given.get(name) is None:
            raise NodeError(f"{name} is needed to {given['action']} a backup")


def _make(given: Mapping[str, Any], check: bool) -> Done:
    _required(given, "root", "name")
    arguments = {
        "root": given["root"], "directory": given["directory"], "name": given["name"],
        "mountpoint": given["mountpoint"], "verify": given["users"], "accounting": given["accounting"],
        **budget_of(given),
    }  # fmt: skip
    operations, other = making.plan(making.Request(**arguments))
    done = Done(operations)
    done.report["problems"] = [f"{name} {problem}: not backed up" for name, problem in sorted(other.items())]
    if not check:  # guard: check mode begins no backup -> True
        done.report = _done(given, make_backup, arguments)
    return done


def _verify(given: Mapping[str, Any], check: bool) -> Done:
    with nothing_begun():
        found = chosen(given["directory"], given["name"])
        wanted = homes_of(found, given["users"])
    done = Done([f"read {counted(len(wanted), 'home')} of {found.name}, and compare each file with what was backed up"])
    if not check:
        arguments = {
            "directory": given["directory"], "backup": found.name, "users": given["users"], **budget_of(given),
        }  # fmt: skip
        done.report = _done(given, verify_backup, arguments)
    return done


def _copy(given: Mapping[str, Any], check: bool) -> Done:
    _required(given, "remote")
    remote = given["remote"]
    operations = [f"backup {given['name'] or 'newest'}: copy to {remote['host']} and verify there"]
    if check:
        return Done(operations)  # guard: check mode sends no copy
    arguments = {
        "directory": given["directory"], "backup": given["name"], "host": remote["host"],
        "address": remote["address"], "port": int(remote["port"]), "key": remote["key"],
        "known_hosts": remote["known_hosts"], **budget_of(given),
    }  # fmt: skip
    return Done(operations, _done(given, copy_backup, arguments))


def _prune(given: Mapping[str, Any], check: bool) -> Done:
    arguments = {key: given[key] for key in ("directory", "days", "ordinary", "only")}
    gone = pruning.expired(given["directory"], given["days"], given["ordinary"], given["only"])
    done = Done([f"delete the backup {name}" for name in gone])
    done.report["pruned"] = gone
    if (
        not check and gone  # guard: check mode prunes nothing
    ):
        done.report = _done(
            given,
            prune_backups,
            {**arguments, "only": gone},  # guard: only what was shown is pruned -> arguments
        )
    return done
