"""A diagnosis as an archive for somebody who helps. Only what is named here goes into it.

No keys or fingerprints, no addresses, no names of people, no command lines, nothing that a person's daemon or journal
says. Of all text only gpuadmin's own words and the system's stay, so nobody has to know what is a name.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from gpuadmin.common.causes.cause import Cause
from gpuadmin.diagnosis.finding import weigh_cause
from gpuadmin.diagnosis.wording import Wording, vocabulary

PERSON = "PERSON"
README = """A diagnosis by gpuadmin.

Left out: ssh keys and fingerprints, mail and network addresses, names of people, command lines, names and messages of
containers, what journals say. The person who was asked about is called PERSON, others of the site SOMEBODY; any other
word that is neither gpuadmin's nor the system's is NAME1, NAME2 and so on, the same one wherever it stands.
"""
#: Of each part of a host's facts, the keys that are taken; None: all of it, which is numbers and the host's own words.
TAKEN: Mapping[str, tuple[str, ...] | None] = {
    "node": None, "late": None, "unknown": None, "mount": None, "homes": None, "disks": None, "clock": None,
    "names": None, "units": None, "reboot": None, "image": None, "gpus": None, "kernels": None,
    "granted": ("gpus",),
    "pam_account": ("refused", "aged"),
    "memory": ("total", "available", "swap", "swap_free"),
    "account": ("passwd", "shadow", "today", "nologin", "wanted", "groups"),
    "home": ("path", "kind", "uid", "owner", "mode", "milliseconds", "error"),
    "sessions": ("manager", "sessions", "linger", "runtime", "slice"),
    "docker": ("place", "data", "subids", "socket", "installed", "daemon", "free", "bytes", "inodes_free"),
    "containers": ("asked",),
}  # fmt: skip
#: Findings that quote a person's daemon, journal or container: only their code goes in.
QUOTING = ("container", "docker-daemon", "session", "sshd", "unknown")
#: Parts about a person's own things: the reason why one is not known may be in their daemon's or journal's own words.
PERSONS = ("keys", "sshd", "sessions", "docker", "containers", "trial")
#: Keys whose text the kernel, the driver or an admin chose, and their part (None: any).
FREE = (
    (None, "kernel"), (None, "service"), (None, "image"), ("gpus", "name"), ("gpus", "differ"), ("image", "running"),
    ("image", "current"), ("image", "trial"), ("image", "root"),
)  # fmt: skip
#: English words that people are called, too.
_SMALL = frozenset((
    "a", "i", "s", "x", "am", "an", "as", "at", "be", "by", "do", "eg", "gb", "go", "he", "hi", "id", "if", "in", "is",
    "it", "kb", "mb", "me", "ms", "my", "no", "of", "ok", "on", "or", "os", "so", "tb", "to", "up", "us", "vs", "we",
))  # fmt: skip
_MAIL = re.compile(r"[^\s@<>\"']+@[^\s@<>\"']+\.[A-Za-z]{2,}")
_KEY = re.compile(r"(?:ssh-[a-z0-9-]+|ecdsa-[a-z0-9-]+|sk-[a-z0-9@.-]+) AAAA[A-Za-z0-9+/=]*|SHA256:[A-Za-z0-9+/]+")
_ADDRESS = re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}\b|\b(?:[0-9a-f]{1,4}:){3,7}[0-9a-f:]*")


def make_files(
    name: str | None, found: Sequence[Cause], facts: Mapping[str, Mapping[str, Any]], people: Iterable[str]
) -> dict[str, str]:
    """Given a diagnosis, return the files of its archive by name. `people`: names that must not be in it."""
    others = [one for one in people if one != name]
    hide = partial(redact, name=name, others=_match_names(others))
    wording = Wording([*facts, *(host for one in found for host in one.hosts)])
    findings = [_hide_all(_take_cause(one), wording, hide, None, top=True) for one in found]
    files = {"README.txt": README, "findings.json": json.dumps(findings, indent=1, ensure_ascii=False)}
    for host, parts in facts.items():
        taken = _hide_all(_take_host(parts), wording, hide, None, top=True)
        files[f"hosts/{host}.json"] = json.dumps(taken, indent=1, ensure_ascii=False)
    return files


def _hide_all(value: Any, wording: Wording, hide: Callable[[str], str], part: str | None, *, top: bool = False) -> Any:
    """Hide every text in a value, and every key that is not one of gpuadmin's words. `part`: of the facts, or a
    key."""
    if isinstance(value, Mapping):
        return {
            wording.hide(str(key))
            if _is_own_word(key)  # guard: an archive keeps its own words
            else wording.hide(hide(str(key))): hide(inner)
            if isinstance(inner, str) and ((None, key) in FREE or (part, key) in FREE)
            else _hide_all(inner, wording, hide, str(key) if top or part is None else part)
            for key, inner in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_hide_all(inner, wording, hide, part) for inner in value]
    return wording.hide(hide(value)) if isinstance(value, str) else value


def _is_own_word(key: object) -> bool:
    """Whether a key is a word of gpuadmin's own: somebody called `mode` is not in it."""
    return set(str(key).split("_")) <= vocabulary()


def _take_cause(one: Cause) -> dict[str, Any]:
    known: dict[str, Any] = {"code": one.code, "severity": weigh_cause(one), "hosts": list(one.hosts)}
    return known if one.code.startswith(QUOTING) else {**known, "cause": one.cause}


def _take_host(parts: Mapping[str, Any]) -> dict[str, Any]:
    taken: dict[str, Any] = {}
    for part, keys in TAKEN.items():
        known = parts.get(part)
        # guard: an archive has only what is named
        if part in parts and keys is not None and isinstance(known, Mapping):
            taken[part] = {key: known[key] for key in keys if key in known}
        elif part in parts:
            taken[part] = known
    if isinstance(parts.get("unknown"), Mapping):
        taken["unknown"] = {
            part: "(left out)"
            if part in PERSONS  # guard: why a person's part is not known stays out of the bundle -> False
            else why
            for part, why in parts["unknown"].items()
        }
    site = (parts.get("keys") or {}).get("site")
    if site:
        taken["keys"] = [{"kind": key["kind"], "problem": key["problem"]} for key in site["keys"]]
    return taken


def redact(text: str, name: str | None, others: re.Pattern[str] | None) -> str:
    """Given a text, return it without mail addresses, keys, network addresses and names of people."""
    for pattern, word in ((_MAIL, "MAIL"), (_KEY, "KEY"), (_ADDRESS, "ADDRESS")):
        text = pattern.sub(word, text)
    own = _match_names([] if name is None else [name])
    for names, word in ((own, PERSON), (others, "SOMEBODY")):
        text = text if names is None else names.sub(word, text)  # guard: an archive has no names of people
    return text


def _match_names(names: Iterable[str]) -> re.Pattern[str] | None:
    """Given names, return the pattern that finds them; None for no names.

    A name that is an English word of two letters is found only where it can be nothing else: as the whole text, in a
    path, before `'s` or a uid. Else there would be little left to read.
    """
    listed = sorted(set(names))
    words = [re.escape(one) for one in listed if one not in _SMALL]
    small = [re.escape(one) for one in listed if one in _SMALL]
    parts = [rf"(?<![\w-])(?:{'|'.join(words)})(?![\w-])"] if words else []
    if small:  # guard: an archive has no names of two letters
        one = f"(?:{'|'.join(small)})"
        parts += [rf"\A{one}\Z", rf"(?<=/){one}(?=[/:,]|\s|\Z)", rf"(?<![\w-]){one}(?='s\b| \(uid \d)"]
    return re.compile("|".join(parts)) if parts else None


def pack_archive(files: Mapping[str, str]) -> bytes:
    """Pack files as a .tar.gz, in which nothing says who made it or where."""
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as squeezed, tarfile.open(fileobj=squeezed, mode="w") as tar:
        for name, text in files.items():
            data = text.encode()
            entry = tarfile.TarInfo(f"diagnosis/{name}")
            entry.size, entry.mode = len(data), 0o600
            tar.addfile(entry, io.BytesIO(data))
    return packed.getvalue()
