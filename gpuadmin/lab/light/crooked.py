"""Gives a fresh light host of a twin what adopt saw on the original: a program that runs on the host, as root.

What was seen comes as JSON on standard input and is data: it becomes names of files, lines of tables whose fields are
looked at first, and never a command, a rule or a link that leads anywhere. What there is already is not touched, but
for the tables. Prints, as JSON, what could not be made.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

MARK = "/var/lib/gpuadmin-lab-twin"
FIRST, NOBODY = 1000, 65534
MOST = 5000
#: No hash is any of these.
PASSWORDS = {"set": "x", "none": "!", "locked": "!x", "empty": "", None: "*"}
#: Where homes are on no machine, and where a name can be an instruction.
NOT_OF_HOMES = (
    "/bin", "/boot", "/dev", "/etc", "/lib", "/proc", "/root", "/run", "/sbin", "/sys", "/usr", "/var/spool",
)  # fmt: skip
UNITS = frozenset(("docker", "containerd", "slurmctld", "slurmd", "k3s", "kubelet", "jupyterhub"))
#: Options of a key, with a value that does nothing.
OPTIONS = {
    **dict.fromkeys(("restrict", "no-pty", "no-port-forwarding", "no-agent-forwarding", "no-X11-forwarding"), ""),
    "from": '="*"', "command": '="true"', "environment": '="TWIN=1"', "permitopen": '="localhost:1"',
}  # fmt: skip
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def _is_field(*fields: object) -> bool:
    """Whether text can be a field of passwd and its kin."""
    return all(re.search(r"[:\x00-\x1f\x7f]", str(one)) is None for one in fields)


def simple(name: str) -> bool:
    """Whether text is the name of a directory's entry, and none that leads elsewhere."""
    return name not in ("", ".", "..") and not set("/\0") & set(name) and len(os.fsencode(name)) <= 255


def place_of_homes(path: str) -> bool:
    """Whether homes or what belongs to people can be made there."""
    inside = path.startswith("/") and os.path.normpath(path) == path and path != "/" and "\0" not in path
    return (
        inside
        # guard: what was seen of another host becomes no configuration of this one
        and not any(f"{path}/".startswith(f"{one}/") for one in NOT_OF_HOMES)
    )


class Grower:
    """`root`: what stands for / (for tests)."""

    def __init__(self, wanted: dict[str, Any], root: str = "") -> None:
        self.wanted, self.root = wanted, root
        self.left: list[str] = []

    def path(self, path: str) -> Path:
        return Path(self.root + path)

    def listed(self, name: str) -> list[Any]:
        return list(self.wanted.get(name) or ())

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Replace a file of root's, whole; one that is there keeps its owner and mode."""
        place = self.path(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        new = self.path(f"{path}.twin")
        with new.open("w", encoding="utf-8") as file:
            if place.exists():
                facts = place.stat()
                os.fchown(file.fileno(), facts.st_uid, facts.st_gid)
                mode = facts.st_mode & 0o7777
            os.fchmod(file.fileno(), mode)
            file.write(text)
        new.rename(place)

    def directory(self, path: str) -> bool:
        """Make a directory of root's where there is none. False where something else is in its way."""
        try:
            self.path(path).mkdir(parents=True, exist_ok=True)
        except (OSError, UnicodeError):
            self.left.append(f"directory {path}")
            return False
        return True

    def table(self, name: str) -> dict[str, list[str]]:
        try:
            text = self.path(f"/etc/{name}").read_text(encoding="utf-8")
        except FileNotFoundError:
            return {}
        return {line.split(":")[0]: line.split(":") for line in text.split("\n") if line.strip()}

    def write_table(self, name: str, table: dict[str, list[str]], mode: int = 0o644) -> None:
        self.write(f"/etc/{name}", "".join(":".join(one) + "\n" for one in table.values()), mode)

    def accounts(self) -> None:
        passwd, shadow = self.table("passwd"), self.table("shadow")
        for one in self.listed("accounts"):
            name, uid = one["name"], one["uid"]
            if uid is None or not (uid == 0 or (FIRST <= uid < 2**32 - 1 and uid != NOBODY)) or name == "root":
                continue
            gid = uid if one["gid"] is None else one["gid"]
            there = passwd.get(name)
            # guard: no account of the twin's own becomes somebody's
            if there is not None and int(there[2]) < FIRST and there[2] != str(uid):
                self.left.append(f"account {name}")
                continue
            if not name or name.startswith(("#", "+", "-")) or not _is_field(name, one["home"], one["shell"]):
                self.left.append(f"account {name}")
                continue
            passwd[name] = [name, "x", str(uid), str(gid), "", one["home"], one["shell"]]
            shadow.pop(name, None)
            if one["password"] != "missing":
                end = "" if one["expires"] is None else str(one["expires"])
                shadow[name] = [name, PASSWORDS.get(one["password"], "*"), "19000", "0", "99999", "7", "", end, ""]
        self.write_table("passwd", passwd)
        self.write_table("shadow", shadow, 0o640)

    def groups(self) -> None:
        group, gshadow = self.table("group"), self.table("gshadow")
        for one in self.listed("groups"):
            name, gid = one["name"], one["gid"]
            members = [who for who in one["members"] if who and _is_field(who) and "," not in who]
            if not name or name.startswith(("#", "+", "-")) or not _is_field(name) or gid is None:
                self.left.append(f"group {name}")
                continue
            taken = {int(fields[2]) for fields in group.values()}
            if name in group:
                number = group[name][2]
                members = list(dict.fromkeys([who for who in group[name][3].split(",") if who] + members))
            elif gid < FIRST and gid in taken:
                number = str(next(free for free in range(999, 100, -1) if free not in taken))
            else:
                number = str(gid)
            group[name] = [name, "x", number, ",".join(members)]
            gshadow[name] = [name, "!", "", ",".join(members)]
        self.write_table("group", group)
        self.write_table("gshadow", gshadow, 0o640)

    def subids(self) -> None:
        for kind, ranges in (self.wanted.get("subids") or {}).items():
            if kind not in ("subuid", "subgid"):
                continue
            lines = []
            for one in ranges:
                damaged = one["start"] is None or one["count"] is None
                line = one["name"] if damaged else f"{one['name']}:{one['start']}:{one['count']}"
                if re.search(r"[\x00-\x1f\x7f]", line):
                    self.left.append(f"line of /etc/{kind}")
                else:
                    lines.append(f"{line}\n")
            self.write(f"/etc/{kind}", "".join(lines))

    def sources(self) -> None:
        words = [one for one in self.listed("sources") if re.fullmatch(r"[a-z][a-z0-9_]{0,30}", one)]
        if not words:
            return
        text = self.path("/etc/nsswitch.conf").read_text(encoding="utf-8")
        self.write(
            "/etc/nsswitch.conf",
            re.sub(r"(?m)^(passwd:.*)$", lambda line: " ".join([line.group(1), *words]), text, count=1),
        )

    def sshd(self) -> None:
        if self.wanted.get("include") is False:
            text = self.path("/etc/ssh/sshd_config").read_text(encoding="utf-8")
            self.write("/etc/ssh/sshd_config", re.sub(r"(?im)^[ \t]*include\b.*\n", "", text))

    def sudo(self) -> None:
        """A rule that allows nothing for each of those who have one."""
        names = [
            one
            for one in self.listed("sudo")
            # guard: no word of what was seen becomes a rule of sudo's
            if re.fullmatch(r"%?[A-Za-z_][A-Za-z0-9_-]*", one)
        ]
        self.left += [f"rule of sudo's for {one}" for one in self.listed("sudo") if one not in names]
        if names:
            rules = "".join(f"{one} ALL=(ALL) /bin/true\n" for one in dict.fromkeys(names))
            self.write("/etc/sudoers.d/twin", rules, 0o440)

    def exports(self) -> None:
        paths = [one["path"] for one in self.listed("exports") if place_of_homes(one["path"])]
        paths = [one for one in paths if self.directory(one)]
        if paths:
            self.write("/etc/exports", "".join(f"{octal(one)} *(rw,no_subtree_check)\n" for one in paths))

    def mounts(self) -> Iterator[tuple[str, str]]:
        """Source and point of what is to be mounted from the twin's storage host; they are in fstab as well."""
        found = [(one["source"], one["point"]) for one in self.listed("mounts") if place_of_homes(one["point"])]
        if found:
            try:
                before = self.path("/etc/fstab").read_text(encoding="utf-8")
            except FileNotFoundError:
                before = ""
            lines = (f"{octal(source)} {octal(point)} nfs4 defaults 0 0\n" for source, point in found)
            self.write("/etc/fstab", before + "".join(one for one in lines if one not in before))
        for source, point in found:
            if self.directory(point):
                yield source, point

    def homes(self) -> None:
        for one in self.listed("homes"):
            if one["network"]:
                continue
            if not place_of_homes(one["path"]):
                self.left.append(f"homes in {one['path']}")
                continue
            if not self.directory(one["path"]):
                continue
            top = os.open(self.path(one["path"]), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            for entry in one["entries"][:MOST]:
                self.entry(top, entry)
            os.close(top)

    def entry(self, top: int, entry: dict[str, Any]) -> None:
        name, uid = entry["name"], entry["uid"]
        try:
            if not simple(name):
                self.left.append(f"home {name}")
                return
            if entry["kind"] == "link":
                os.symlink("nowhere", name, dir_fd=top)
            elif entry["kind"] == "file":
                os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600, dir_fd=top))
            elif entry["kind"] == "other":
                os.mkfifo(name, 0o600, dir_fd=top)
            else:
                os.mkdir(name, 0o700, dir_fd=top)
        except FileExistsError:
            return
        except (OSError, UnicodeError):
            self.left.append(f"home {name}")
            return
        os.chown(name, owner(uid), owner(self.gids.get(uid, uid)), dir_fd=top, follow_symlinks=False)
        if entry["kind"] in ("directory", "file") and entry["mode"] is not None:
            os.chmod(name, entry["mode"] & 0o1777, dir_fd=top)

    @property
    def gids(self) -> dict[int | None, int | None]:
        """uid → the gid of the first account that has it."""
        return {one["uid"]: one["gid"] for one in reversed(self.listed("accounts"))}

    def keys(self) -> None:
        """Keys of the twin's own in the homes that people own."""
        for one in self.listed("accounts"):
            told = (self.wanted.get("keys") or {}).get(one["name"])
            if told is None or not place_of_homes(one["home"]):
                continue
            lines = [*told["plain"]]
            for number, names in enumerate(told["options"]):
                words = ",".join(f"{word}{OPTIONS[word]}" for word in names if word in OPTIONS) or "restrict"
                lines.append(f"{words} {told['spare'][number]}")
            lines += ["no key"] * min(told["odd"], 50)
            if lines:
                self.authorize(one, "".join(f"{line}\n" for line in lines))

    def authorize(self, account: dict[str, Any], text: str) -> None:
        opened: list[int] = []
        try:
            opened.append(os.open(self.path(account["home"]), DIRECTORY))
            # guard: keys go into nobody's home but their own
            if os.fstat(opened[0]).st_uid != account["uid"]:
                raise PermissionError
            os.mkdir(".ssh", 0o700, dir_fd=opened[0])
            opened.append(os.open(".ssh", DIRECTORY, dir_fd=opened[0]))
            opened.append(os.open("authorized_keys", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600, dir_fd=opened[1]))
            os.write(opened[2], text.encode())
            for one in opened[1:]:
                os.fchown(one, account["uid"], account["uid"] if account["gid"] is None else account["gid"])
        except FileExistsError:
            return
        except OSError:
            self.left.append(f"keys of {account['name']}")
        finally:
            for one in opened:
                os.close(one)

    def docker(self) -> None:
        """Directories as root's Docker has them: a container and a volume are no more than a name here."""
        told = self.wanted.get("docker")
        if not told or not place_of_homes(told["data"]):
            return
        volumes = [one for one in told["volumes"] or () if simple(one)]
        unnamed = max(0, min((told["volume_count"] or 0), MOST) - len(told["volumes"] or ()))
        names = [f"containers/{digest(number)}" for number in range(min(told["containers"] or 0, MOST))]
        names += [f"volumes/{one}/_data" for one in (*volumes, *(digest(number) for number in range(unnamed)))]
        for name in names:
            self.directory(f"{told['data']}/{name}")

    def units(self) -> list[str]:
        """Services of the names that were active, which do nothing."""
        names = [one for one in self.listed("active") if one.removesuffix(".service") in UNITS]
        for one in names:
            self.write(f"/etc/systemd/system/{one}", "[Service]\nExecStart=/bin/sleep infinity\n")
        return names


def owner(number: int | None) -> int:
    """An id as chown takes it."""
    return number if number is not None and number < 2**32 - 1 else 0


def digest(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


def octal(text: str) -> str:
    """A path as fstab and exports have it."""
    return re.sub(r'[\s\\#"]', lambda one: "".join(f"\\{byte:03o}" for byte in one.group().encode()), text)


def grow(wanted: dict[str, Any], root: str = "", run: Callable[[list[str]], object] | None = None) -> list[str]:
    """Make everything. Returns what could not be made, in words."""
    grower = Grower(wanted, root)
    run = run or command
    for make in (grower.accounts, grower.groups, grower.subids, grower.sources, grower.sudo, grower.exports):
        make()
    grower.homes()
    for source, point in grower.mounts():
        if not os.path.ismount(grower.path(point)) and not run(["mount", "-t", "nfs4", source, point]):
            grower.left.append(f"mount of {source}")
    grower.keys()
    grower.docker()
    grower.sshd()
    if wanted.get("include") is False:
        run(["systemctl", "reload", "ssh"])
    units = grower.units()
    if units:
        run(["systemctl", "daemon-reload"])
        run(["systemctl", "start", *units])
    return grower.left


def command(words: list[str]) -> bool:
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0


def main() -> None:
    wanted = json.loads(sys.stdin.buffer.read())
    left: list[str] = []
    mark = Path(MARK)
    if not mark.exists():  # what an admin has done on the twin since is theirs
        left = grow(wanted)
        mark.touch()
    json.dump(left, sys.stdout)


if __name__ == "__main__":
    main()
