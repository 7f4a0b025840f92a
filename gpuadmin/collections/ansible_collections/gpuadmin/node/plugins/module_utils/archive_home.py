"""Archives one home, verifies the archive, and only then deletes the home. Stands alone: it is run as a program.

Every step can be cut and run again: .part → fsync → tar --compare → rename → the home is renamed → deleted. A home is
deleted only after its archive was read back and compared.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import stat
import subprocess
import sys
import time

NAME = re.compile(r"[a-z_][a-z0-9_-]{0,31}\Z")


class ArchiveError(Exception):
    """The home is kept; the text says why."""


def _sync_directory(path: str) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def home_state(path: str, uid: int) -> str:
    """``absent`` or ``present``; anything that is not this uid's own directory is an error."""
    try:
        facts = os.lstat(path)
    except FileNotFoundError:
        return "absent"
    if not stat.S_ISDIR(facts.st_mode):
        raise ArchiveError(f"{path} is not a directory (a symbolic link is not followed): kept")
    if facts.st_uid != uid:
        raise ArchiveError(f"{path} belongs to uid {facts.st_uid}, not {uid}: kept")
    return "present"


def removed_path(homes: str, name: str) -> str:
    return os.path.join(homes, f".{name}.gpuadmin-removed")


def archives(directory: str, name: str, uid: int) -> list[str]:
    """Finished archives of this account, oldest first."""
    pattern = re.compile(rf"{re.escape(name)}-{uid}-[0-9]{{8}}T[0-9]{{6}}Z\.tar\.(zst|gz)\Z")
    try:
        return sorted(entry for entry in os.listdir(directory) if pattern.match(entry))
    except FileNotFoundError:
        return []


def tar_command(action: str, archive: str, homes: str, name: str, zstd: bool) -> tuple[str, ...]:
    """Given ``--create`` or ``--compare``, return the command; the name cannot begin with a dash."""
    keep = ("--acls", "--xattrs", "--one-file-system") if action == "--create" else ("--acls", "--xattrs")
    compressor = "--zstd" if zstd else "--gzip"
    return ("tar", action, compressor, "--numeric-owner", *keep, f"--file={archive}", f"--directory={homes}", name)


def _run(command: tuple[str, ...]) -> None:
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        text = (result.stderr or result.stdout).strip()[-500:]
        raise ArchiveError(f"'{' '.join(command)}' ended with {result.returncode}: {text}")


def mounts_below(path: str) -> list[str]:
    found = []
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as stream:
        for line in stream:
            point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), line.split(" ")[4])
            if (point + "/").startswith(path + "/"):
                found.append(point)
    return found


def _delete(homes: str, name: str, uid: int) -> None:
    removed = removed_path(homes, name)
    if home_state(removed, uid) == "absent":
        return
    inside = mounts_below(os.path.realpath(removed))
    if inside:
        raise ArchiveError(f"{inside[0]} is mounted inside the home: kept")
    shutil.rmtree(removed)
    _sync_directory(homes)


def archive(homes: str, name: str, uid: int, directory: str) -> str | None:
    """Archive and delete one home; return the archive's path, None where there was no home and no archive."""
    if not NAME.match(name):
        raise ArchiveError("not a user name")
    done = archives(directory, name, uid)
    if done:
        _delete(homes, name, uid)  # what a cut left: it was archived before it got this name
    home = os.path.join(homes, name)
    if home_state(home, uid) == "absent":
        return os.path.join(directory, done[-1]) if done else None
    inside = mounts_below(os.path.realpath(home))
    if inside:
        raise ArchiveError(f"{inside[0]} is mounted inside the home: kept")
    os.makedirs(directory, mode=0o700, exist_ok=True)
    zstd = shutil.which("zstd") is not None
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    final = os.path.join(directory, f"{name}-{uid}-{stamp}.tar.{'zst' if zstd else 'gz'}")
    for entry in os.listdir(directory):
        if entry.startswith(f"{name}-{uid}-") and entry.endswith(".part"):
            os.unlink(os.path.join(directory, entry))
    part = final + ".part"
    os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    _run(tar_command("--create", part, homes, name, zstd))
    handle = os.open(part, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    try:
        _run(tar_command("--compare", part, homes, name, zstd))
    except ArchiveError as error:
        raise ArchiveError(f"the archive is not the home (is somebody still writing in it?): kept. {error}") from error
    os.rename(part, final)
    _sync_directory(directory)
    if home_state(removed_path(homes, name), uid) == "present":
        raise ArchiveError(f"{removed_path(homes, name)} is in the way: kept")
    os.rename(home, removed_path(homes, name))
    _sync_directory(homes)
    _delete(homes, name, uid)
    return final


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="archive a home, verify, delete the home")
    for option in ("--homes", "--name", "--directory"):
        parser.add_argument(option, required=True)
    parser.add_argument("--uid", required=True, type=int)
    options = parser.parse_args(arguments)
    try:
        print(archive(options.homes, options.name, options.uid, options.directory) or "no home")
    except (ArchiveError, OSError, shutil.Error) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
