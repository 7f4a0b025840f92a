"""All causes that a host's facts hold, whoever asks: the one place that says which rules there are."""

from __future__ import annotations

from collections.abc import Mapping

from . import amounts, homes, machine, people, running, trial
from .cause import Cause, Facts, Person

#: Parts whose failure another cause explains, by its code.
_EXPLAINED: Mapping[str, frozenset[str]] = {
    "homes-late": frozenset({"homes", "home", "trial"}), "homes-stale": frozenset({"homes", "home", "trial"}),
    "homes-not-mounted": frozenset({"homes", "home", "trial"}), "docker-daemon": frozenset({"containers"}),
    "names": frozenset({"names"}), "account-missing": frozenset({"trial"}), "other-uid": frozenset({"trial"}),
}  # fmt: skip
#: What merely follows from another cause: PAM that refuses somebody gives them no session and no manager, either.
_FOLLOWS: Mapping[str, frozenset[str]] = dict.fromkeys(
    ("manager", "session-pam"), frozenset({"password-aged", "pam-account"})
)


def judge(facts: Facts, person: Person | None = None) -> list[Cause]:
    """Given what diagnosis/collect.py found on a host, return what that means, in no order."""
    found = [*homes.server(facts)]
    if person is not None:
        found += people.account(person, facts)
        found += homes.home(person, facts)
        found += amounts.amounts(person, facts)
    if person is not None and facts["node"]:
        found += people.pam_account(person, facts)
        found += people.keys(person, facts)
        found += running.sessions(person, facts)
        found += running.docker(person, facts)
        found += people.pam(facts)
        found += trial.session(person, facts)
        found += running.containers(person, facts)
        found += running.granted(person, facts)
    found += running.gpus(person, facts)
    found += running.kernels(facts)
    found += machine.machine(facts)
    codes = {one.code for one in found}
    found = [one for one in found if not _FOLLOWS.get(one.code, frozenset()) & codes]
    explained: frozenset[str] = frozenset().union(*(_EXPLAINED.get(one.code, frozenset()) for one in found))
    return [*found, *machine.unknown(facts, explained)]
