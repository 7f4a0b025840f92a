"""A good site, and random edits of it: bytes, lines, fields, modes, kinds of file. What an admin's slip, a bad disk, an
editor or a copy from another system leaves.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.sites import make_site, public_key

KEY, OTHER = public_key("minji"), public_key("jiho")
USERS = f"""# People.
users:
  - name: minji  # first
    uid: 20000
    email: minji@example.org
    keys:
      - {KEY}
    expires: 2097-02-28
  - name: jiho
    uid: 20001
    email: jiho@example.org
    keys: [{OTHER}]
    locked: true
    note: "조교"
retired:
  - {{name: old, uid: 20002, removed: 2026-02-01}}
"""
SETTINGS = {
    "term": {"name": "2026-2", "deadline": "2097-01-31", "next": {"name": "2027-1", "deadline": "2097-07-31"}},
    "mail": {"host": "smtp.example.org", "sender": "gpu@example.org", "security": "none"},
    "protected": ["jiho"],
    "backups": {"schedule": "daily"},
    "gpus": {"mig": {"0": ["3g.20gb"]}},
}
RUN: dict[str, Any] = {
    "id": "20261101T010203-sync-users-0001", "verb": "sync-users", "arguments": ["--yes"], "check": False, "who": "a@b",
    "started": "2026-11-01T01:02:03+00:00",
    "plan": {"title": "x", "steps": [{"host": "node1", "action": "y"}], "warnings": []},
}  # fmt: skip
RESULT = {
    "status": "ok", "exit_code": 0, "ended": "2026-11-01T01:03:03+00:00",
    "hosts": {"node1": {"status": "ok", "changed": ["x"], "message": None}},
}  # fmt: skip
MAILED = {
    "state": "sent", "keys": ["welcome:minji"], "names": ["minji"], "address": "minji@example.org",
    "time": "2026-11-01T01:03:03+00:00", "detail": "",
}  # fmt: skip

#: What is edited: everything that a verb reads of a site, and what is handed over with it.
FILES = (
    *("gpuadmin.yml",) * 5, *("users.yml",) * 6, *("inventory/hosts.yml",) * 3, "inventory/group_vars/gpu.yml",
    "inventory/host_vars/node1.yml", *("known_hosts",) * 2, "runs/uids.json", f"runs/{RUN['id']}/run.json",
    f"runs/{RUN['id']}/result.json", "mails.jsonl", "runs/term-2026-2/journal.jsonl",
    "templates/mail/notice.en.j2", "image_signing_key.pub", "people.csv", "people.yml", "form.csv", "members.csv",
)  # fmt: skip
DIRECTORIES = (
    ".",
    "runs",
    "inventory",
    "inventory/group_vars",
    "templates/mail",
    "runs/term-2026-2",
    f"runs/{RUN['id']}",
)


def good_site(directory: Path) -> Path:
    """Write a site that has everything that a verb reads, and return it."""
    make_site(directory, USERS, SETTINGS)
    texts = {
        "inventory/group_vars/gpu.yml": "---\n# of all nodes\nslurm: false\nlist: [1, 2]\n",
        "inventory/host_vars/node1.yml": "gpuadmin_address: 10.0.0.1\n",
        "known_hosts": "".join(
            f"[127.0.0.1]:{port} {public_key(str(port)).rpartition(' ')[0]}\n" for port in (1, 2, 3)
        ),
        "runs/uids.json": json.dumps({"uids": {"20000": "minji", "20001": "jiho", "20002": "old"}}),
        f"runs/{RUN['id']}/run.json": json.dumps(RUN),
        f"runs/{RUN['id']}/result.json": json.dumps(RESULT),
        f"runs/{RUN['id']}/log.txt": "=== x\n",
        "mails.jsonl": json.dumps(MAILED) + "\n",
        "runs/term-2026-2/journal.jsonl": '{"at": "2026-11-01T01:03:03+00:00", "who": "a@b", "event": "aborted"}\n',
        "templates/mail/notice.en.j2": "Subject: The end\n\nDear {{ items[0].account }},\n{{ days }} days\n",
        "image_signing_key": "x\n",
        "image_signing_key.pub": f"{public_key('images')}\n",
        "people.csv": f"name,email,key,expires\nyuna,yuna@example.org,{public_key('yuna')},2097-02-28\n",
        "people.yml": f"- name: yuna\n  email: yuna@example.org\n  keys:\n    - {public_key('yuna')}\n",
        "form.csv": (
            "타임스탬프,이름,학번,이메일,SSH 공개키,동의\n"
            f"2026. 11. 1 오후 1:02:03,김유나,2026123456,yuna@example.org,{public_key('yuna')},동의\n"
        ),
        "members.csv": "이름,학번,이메일\n김유나,2026123456,yuna@example.org\n",
    }
    for name, text in texts.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return directory


# What stands in place of a value, or of anything: what editors, spreadsheets and slips leave, and what breaks parsers.
_TOKENS = (
    "", "~", "null", "[]", "{}", "-1", "0", "1", "0o17", "0x1F", "017", "1_000", "99999999999999999999", "1e400",
    ".nan", "yes", "on", "true", "2027-02-30", "2027-13-01", "2027-02-28", "25:00:00", "2027-02-28T25:61:61",
    "2027-02-28 10:00", "2027-02-28T10:00:00+99:99", "0000-00-00", "12:30", "[1, [2, [3]]]", "{a: {b: c}}", "'", '"',
    "\t", "a\tb", "x: y", "- x", "*a", "&a b", "!x y", "!!python/object:os.system x", "!!timestamp x", "!!int x",
    "!!binary x", "!vault |", "|", ">-", "%", "@", "`", "{{ x }}", "{% x %}", "# x", "---", "...", "? x", "<<: 1",
    "조교", "\u202e", "\ufeff", "\x00", "\x1b[2J", "\x85", "\u2028", "\ud7ff", "node1", "gpu", "minji", "20000",
    "a" * 5000, "/", "../..", "~/x", "localhost", "a@b", "a b", "1" * 5000, "9" * 400+".5", "-0.0", "[", "{", "]",
    "&a [*a]", "0b101", "1.0", "20000.0", "'20000'",
)  # fmt: skip
_BYTES = (
    b"\xff", b"\x00", b"\xc0\xaf", "김민지".encode("cp949"), b"\xef\xbb\xbf", "x".encode("utf-16"), b"\r", b"\r\n",
    b"\t", b"\x1b", b"\xed\xa0\x80", b"\x80", b'"', b"'", b":", b"-", b" ", b"\n", b"{", b"}", b"[", b"]", b"#", b"&",
    b"*", b"!", b"|", b",", b"%", b"\xc2\x85",
)  # fmt: skip


def edit(site: Path, chance: random.Random) -> str:
    """Edit a site once; return what was done, for whoever has to find out why something fell."""
    kind = chance.choices((_bytes, _lines, _fields, _kind_of_file, _mode), weights=(3, 3, 8, 2, 2))[0]
    return kind(site, chance)


def _bytes(site: Path, chance: random.Random) -> str:
    name = chance.choice(FILES)
    raw = bytearray((site / name).read_bytes())
    for _ in range(chance.choice((1, 1, 1, 3, 20))):
        place = chance.randrange(len(raw) + 1)
        match chance.randrange(4):
            case 0:
                raw[place:place] = chance.choice(_BYTES)
            case 1:
                raw[place : place + 1] = bytes((chance.randrange(256),))
            case 2:
                del raw[place : place + chance.choice((1, 2, 10, 100))]
            case 3:
                del raw[place:]
    (site / name).write_bytes(raw)
    return f"bytes of {name}"


def _lines(site: Path, chance: random.Random) -> str:
    name = chance.choice(FILES)
    lines = (site / name).read_bytes().splitlines(keepends=True)
    at, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    match chance.randrange(6):
        case 0:
            lines.insert(at, lines[other])
        case 1:
            del lines[at]
        case 2:
            lines[at], lines[other] = lines[other], lines[at]
        case 3:
            lines[at] = b" " * chance.choice((1, 2, 4, 7)) + lines[at]
        case 4:
            lines[at] = lines[at].lstrip()
        case 5:
            lines[at] = b"\t" + lines[at]
    (site / name).write_bytes(b"".join(lines))
    return f"line {at + 1} of {name}"


def _fields(site: Path, chance: random.Random) -> str:
    name = chance.choice(FILES)
    text = (site / name).read_text()
    token = chance.choice(_TOKENS)
    if name.endswith((".csv", ".j2", "known_hosts", ".pub")):
        places = list(re.finditer(r"[^\s,]+", text))
    elif name.endswith((".json", ".jsonl")):
        places = list(re.finditer(r'"[^"]*"|\d+|\{\}|\[\]', text))
    else:
        # values, whole lists and names of fields
        places = [*re.finditer(r"(?<=: )\S.*$", text, re.M), *re.finditer(r"(?<=- )\S.*$", text, re.M)]
        places += list(re.finditer(r"\b\w+(?=:(\s|$))", text)) if chance.random() < 0.3 else []
    place = chance.choice(places)
    (site / name).write_text(text[: place.start()] + token + text[place.end() :], errors="surrogatepass")
    return f"{text[place.start() : place.end()][:60]!r} of {name} becomes {token[:60]!r}"


def _kind_of_file(site: Path, chance: random.Random) -> str:
    name = chance.choice((*dict.fromkeys(FILES), *DIRECTORIES[1:], "runs/.lock", "image_signing_key"))
    path = site / name
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    kind = chance.choice(tuple(_KINDS))
    _KINDS[kind](path)
    return f"{name} is {kind}"


def _socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the name of a socket may have a hundred characters
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(path.name)
    os.chdir(here)


def _large(path: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(17 * 1024 * 1024)


_KINDS: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: None,
    "empty": lambda path: path.write_text(""),
    "a directory": lambda path: path.mkdir(),
    "a link to nowhere": lambda path: path.symlink_to("nowhere"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to /dev/full": lambda path: path.symlink_to("/dev/full"),
    "a pipe": os.mkfifo,
    "a socket": _socket,
    "large": _large,
}


def _mode(site: Path, chance: random.Random) -> str:
    name = chance.choice((*dict.fromkeys(FILES), *DIRECTORIES))
    mode = chance.choice((0o000, 0o500, 0o400, 0o200, 0o300))
    (site / name).chmod(mode)
    return f"mode of {name} is {mode:03o}"


#: verb → the arguments with which it looks and changes nothing; {site} is the site's directory
CALLS: dict[str, tuple[str, ...]] = {
    "check": (),
    "trust": ("--all",),
    "status": (),
    "diagnose": ("minji",),
    "list-gpus": (),
    "logs": (),
    "mig": ("--check",),
    "grant": ("minji", "node1", "--hours", "1", "--check"),
    "report": (),
    "revoke": ("minji", "--check"),
    "grants": (),
    "queue": (),
    "drain": ("node2", "--check"),
    "resume": ("node2", "--check"),
    "burn-in": ("node2", "--check"),
    "disk": ("minji",),
    "top": ("--once",),
    "top of what is free": ("--free",),
    "usage": (),
    "idle": (),
    "dashboard": ("--check",),
    "adopt": ("--check",),
    "install": ("--stick", "{site}/stick.img", "--check"),
    "bootstrap": ("node1", "--check"),
    "provision": ("--check",),
    "drift": (),
    "compare": ("--section", "ssh"),
    "audit": (),
    "hand-over": (),
    "ssh": ("node1",),
    "run": ("--check", "all", "--", "uptime"),
    "upgrade": ("node1", "--check"),
    "reboot": ("node1", "--check"),
    "shutdown": ("node1", "--check"),
    "power": ("off", "node1", "--check"),
    "user-guide": (),
    "call-for-applications": (),
    "announce": ("--list",),
    "maintain": (),
    "add-user": ("yuna", "--check"),
    "add-user from a table": ("--from", "{site}/people.csv", "--check"),
    "add-user from a list": ("--from", "{site}/people.yml", "--check"),
    "change-user": ("minji", "--note", "lab 3", "--check"),
    "remove-user": ("minji", "--check"),
    "renumber": ("--check",),
    "move-homes": ("--check",),
    "move-docker": (),
    "lock-user": ("minji", "--check"),
    "unlock-user": ("jiho", "--check"),
    "extend-user": ("minji", "--expires", "2098-02-28", "--check"),
    "list-users": (),
    "sync-users": ("--check",),
    "import-applications": ("{site}/form.csv", "--members", "{site}/members.csv", "--check"),
    "notify": ("--check",),
    "notify in full": ("--preview",),
    "extend-term": ("minji", "--check"),
    "semester-reset": ("--check",),
    "backup": ("--check",),
    "list-backups": (),
    "verify-backup": ("--check",),
    "restore-home": ("minji", "--check"),
    "promote": ("node2", "--check"),
    "clear-leftovers": ("--check",),
    "prepare-root": ("--check",),
    "build-image": ("2027-01", "--check"),
    "push-image": ("2027-01", "--check"),
    "rollback-image": ("--check",),
    "list-images": (),
    "list-images of one": ("2027-01",),
    "list-images to verify": ("2027-01", "--verify"),
    "prune-images": ("--check",),
    "rehearse": ("--twin-only", "add-user", "yuna"),
    "runs": (),
    "runs of one": (RUN["id"],),
}
