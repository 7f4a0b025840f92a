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
    """Given the module's arguments, do it (unless ``check``); the operations are the same in both cases."""
    return {"make": _make, "verify": _verify, "copy": _copy, "prune": _prune}[given["action"]](given, check)


def _required(given: Mapping[str, Any], *names: str) -> None:
    for name in names:
        if given.get(name) is None:
            raise NodeError(f"{name} is needed to {given['action']} a backup")


def _make(given: Mapping[str, Any], check: bool) -> Done:
    _required(given, "root", "name")
    arguments = {
        "root": given["root"], "directory": given["directory"], "name": given["name"],
        "mountpoint": given["mountpoint"], "verify": given["users"], **budget_of(given),
    }  # fmt: skip
    operations, other = making.plan(making.Request(**arguments))
    done = Done(operations)
    done.report["problems"] = [f"{name} {problem}: not backed up" for name, problem in sorted(other.items())]
    if not check:  # guard: check mode begins no backup -> True
        done.report["backup"] = background.perform("backup-make", make_backup, arguments)
        done.report["problems"] = making.missing(done.report["backup"])
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
        done.report["backup"] = background.perform("backup-verify", verify_backup, arguments)
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
    done = Done(operations)
    done.report["backup"] = background.perform("backup-copy", copy_backup, arguments)
    done.report["problems"] = making.uncopied(done.report["backup"])
    return done


def _prune(given: Mapping[str, Any], check: bool) -> Done:
    arguments = {key: given[key] for key in ("directory", "days", "ordinary", "only")}
    gone = pruning.expired(given["directory"], given["days"], given["ordinary"], given["only"])
    done = Done([f"delete the backup {name}" for name in gone])
    done.report["pruned"] = gone
    if (
        not check and gone  # guard: check mode prunes nothing
    ):
        done.report["pruned"] = background.perform(
            "backup-prune",
            prune_backups,
            {**arguments, "only": gone},  # guard: only what was shown is pruned -> arguments
        )
    return done
