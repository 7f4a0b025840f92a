"""Who is root on hosts, or could be, and what differs from packages: from answers to findings. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

ROOT, DIFFERS = "root", "differs"
#: sshd's lists of who may log in. gpuadmin writes none of them.
_LISTS = ("denyusers", "allowusers", "denygroups", "allowgroups")


#: What a host says, as gpuadmin/ansible/reports.py parsed it.
Answer = Mapping[str, Any]


@dataclass(frozen=True)
class Finding:
    """`key`: what it is about, `words`: what is so of it, on `hosts`. `rank`: ROOT where somebody is root by it, or
    could be; else DIFFERS.
    """

    key: str
    words: str
    rank: str
    hosts: tuple[str, ...]

    @property
    def line(self) -> str:
        return f"{self.key}: {self.words}"

    def document(self) -> dict[str, Any]:
        return asdict(self) | {"hosts": list(self.hosts)}


def findings(answers: Mapping[str, Answer], groups: Mapping[str, Collection[str]]) -> list[Finding]:
    """The findings about hosts, first those that make somebody root. `groups`: the hosts of each group."""
    hosts: dict[tuple[str, str, str], list[str]] = {}
    for host, answer in answers.items():
        for item in answer["found"]:
            hosts.setdefault((item["rank"], item["key"], item["words"]), []).append(host)
    found = [Finding(key, words, rank, tuple(names)) for (rank, key, words), names in hosts.items()]
    found += _of_sshd(answers)
    for members in groups.values():
        found += compared({host: answers[host]["sshd"] for host in answers if host in members})
    found += _of_keys(answers)
    return sorted(dict.fromkeys(found), key=lambda one: one.rank != ROOT)


def ignored(found: Iterable[Finding], ignore: Collection[str]) -> tuple[list[Finding], int]:
    """Given findings and a site's `drift.ignore`, return the findings that it does not hide, and how many it hides."""
    found = list(found)
    trees = tuple(
        one
        for one in ignore
        # guard: what a site ignores is named whole -> one.startswith('/') and one
        if one.startswith("/") and one.endswith("/") and one != "/"
    )
    left = [
        one
        for one in found
        if one.key not in ignore and one.line not in ignore and not (trees and one.key.startswith(trees))
    ]
    return left, len(found) - len(left)


def compared(settings: Mapping[str, Mapping[str, Sequence[str]]]) -> Iterator[Finding]:
    """Given sshd's settings of hosts that should be alike, yield what is not the same on all: for the hosts in the
    minority, or for all if there is none.
    """
    # channeltimeout: sshd before 9.2 has none, and `audit` judges it
    for keyword in sorted({name for one in settings.values() for name in one} - {*_LISTS, "channeltimeout"}):
        values = {host: ", ".join(one.get(keyword, ())) or "not set" for host, one in settings.items()}
        count = Counter(values.values()).most_common()
        if len(count) < 2:
            continue
        usual = count[0][0] if count[0][1] > count[1][1] else None
        parts = [f"{value} on {_names(values, value)}" for value, _ in reversed(count)]
        hosts = tuple(host for host, value in values.items() if value != usual)
        yield Finding(f"sshd {keyword}", "; ".join(parts), DIFFERS, hosts)


def _names(values: Mapping[str, str], value: str) -> str:
    return ", ".join(host for host, one in values.items() if one == value)


def _of_sshd(answers: Mapping[str, Answer]) -> Iterator[Finding]:
    """Settings that keep people out, or let somebody in as root."""
    for host, answer in answers.items():
        for keyword in _LISTS:
            names = ", ".join(answer["sshd"].get(keyword, ()))
            if names:
                does = f"keeps {names} out" if keyword.startswith("deny") else f"lets nobody in but {names}"
                yield Finding(f"sshd {keyword}", f"{does}; gpuadmin sets no such list", DIFFERS, (host,))

        def says(keyword: str, value: str, sshd: Mapping[str, Sequence[str]] = answer["sshd"]) -> bool:
            return value in sshd.get(keyword, ())

        passwords = says("passwordauthentication", "yes") or says("kbdinteractiveauthentication", "yes")
        if says("permitrootlogin", "yes") and passwords:
            yield Finding("sshd permitrootlogin", "yes: root logs in with a password", ROOT, (host,))
        if says("permitemptypasswords", "yes"):
            yield Finding("sshd permitemptypasswords", "yes: an empty password is enough", ROOT, (host,))


def _of_keys(answers: Mapping[str, Answer]) -> Iterator[Finding]:
    """Keys of the admin's account, which has sudo, that half of the hosts or fewer have."""
    everywhere = {host: answer["keys"] for host, answer in answers.items()}
    for account in sorted({name for keys in everywhere.values() for name in keys}):
        having: dict[str, list[str]] = {}
        for host, keys in everywhere.items():
            for key in keys.get(account, ()):
                having.setdefault(key, []).append(host)
        for key, hosts in having.items():
            if 2 * len(hosts) <= len(everywhere):
                words = f"logs in as {account}, which has sudo, there and on no other host"
                yield Finding(f"key {key} of {account}", words, ROOT, tuple(hosts))
