"""The table of all causes in the order in which they are named, and the one function that finds them. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ..records.diagnosis import RegisteredPerson as Person
from . import account, docker, gpus, homes, keys, machine, running, session
from .cause import SEVERITIES, Cause, Facts, Table

#: Files of rules in the order in which their rows are named, if as bad: a locked account comes before missing Docker.
_FILES = (account, keys, homes, running, session, docker, gpus, machine)
#: Parts whose failure another cause explains, by its code.
_EXPLAINED: Mapping[str, frozenset[str]] = {
    "homes-late": frozenset({"homes", "home", "trial"}), "homes-stale": frozenset({"homes", "home", "trial"}),
    "homes-not-mounted": frozenset({"homes", "home", "trial"}), "docker-daemon": frozenset({"containers"}),
    "names": frozenset({"names"}), "account-missing": frozenset({"trial"}), "other-uid": frozenset({"trial"}),
}  # fmt: skip
#: Causes that merely follow where PAM refuses an account, and the causes that are named instead of them.
FOLLOWS = frozenset({"manager", "session-pam"})
REFUSALS = frozenset({"password-aged", "pam-account"})


def _order_rows() -> Table:
    rows = [row for file in _FILES for row in file.ROWS.values()]
    for row in [row for row in rows if row.before]:
        rows.remove(row)
        rows.insert([one.code for one in rows].index(row.before), row)
    return Table(*(row for severity in SEVERITIES for row in rows if row.severity == severity))


#: Code → row, the most decisive first.
CAUSES = _order_rows()


def judge(facts: Facts, person: Person | None = None) -> list[Cause]:
    """Given what module_utils/diagnosis/collect.py found on a host, return what that means, in no order."""
    found = [cause for file in _FILES for cause in file.judge(facts, person)]
    codes = {cause.code for cause in found}
    found = [cause for cause in found if not (cause.code in FOLLOWS and REFUSALS & codes)]
    explained: frozenset[str] = frozenset().union(*(_EXPLAINED.get(cause.code, frozenset()) for cause in found))
    return [*found, *machine.judge_unknown(facts, explained)]
