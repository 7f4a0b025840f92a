"""GRUB's environment block: the two variables that say what boots.

1024 bytes: a fixed first line, NAME=VALUE lines, then # to the end (grub-editenv(1); GRUB manual, "Environment block").
GRUB itself writes single blocks in place and replays no journal, so this does the same: the file's blocks stay where
they are, and their content is on the disk before this returns.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ..errors import NodeError, in_words
from ..run import run

HEADER = b"# GRUB Environment Block\n"
SIZE = 1024


def parse(block: bytes) -> dict[str, str]:
    """Given the block, return its variables. Raises NodeError if it is not one."""
    if len(block) != SIZE or not block.startswith(HEADER):  # guard: grubenv is a block of GRUB's
        raise NodeError("grubenv is damaged: not an environment block of 1024 bytes; make it again with grub-editenv")
    variables = {}
    for line in block[len(HEADER) :].split(b"\n"):
        name, equals, value = line.partition(b"=")
        if equals and not name.startswith(b"#"):
            variables[os.fsdecode(name)] = os.fsdecode(value)
    return variables


def render(variables: Mapping[str, str]) -> bytes:
    """Given variables, return the block."""
    lines = os.fsencode("".join(f"{name}={value}\n" for name, value in variables.items()))
    block = (HEADER + lines).ljust(SIZE, b"#")
    if len(block) != SIZE:  # guard: grubenv stays a block of 1024 bytes
        raise NodeError("the variables do not fit into grubenv")
    return block


def read(boot: str) -> dict[str, str]:
    """The variables in BOOT/grubenv."""
    try:
        with open(os.path.join(boot, "grubenv"), "rb") as stream:
            return parse(stream.read())
    except OSError as error:
        raise NodeError(f"grubenv cannot be read: {in_words(error)}") from error


def write(boot: str, **changes: str) -> None:
    """Change variables in BOOT/grubenv, in place, and read them back from the disk."""
    with _writable(boot):
        variables = {**read(boot), **changes}
        path = os.path.join(boot, "grubenv")
        handle = os.open(path, os.O_RDWR | os.O_SYNC | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.pwrite(handle, render(variables), 0)
            os.fsync(handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            again = parse(os.pread(handle, SIZE, 0))
        finally:
            os.close(handle)
    if again != variables:  # guard: grubenv is read back
        raise NodeError(f"{path} does not read back as it was written; nothing boots from this disk reliably")


@contextmanager
def _writable(boot: str) -> Iterator[None]:
    """The boot partition is mounted read-only; it is writable for the block."""
    read_only = bool(os.statvfs(boot).f_flag & os.ST_RDONLY)
    if read_only:
        run(("mount", "-o", "remount,rw", boot), what="the boot partition cannot be written")
    try:
        yield
    finally:
        if read_only:
            try:
                run(("mount", "-o", "remount,ro", boot), what="the boot partition stays writable")
            except NodeError as error:  # what had to be written is written
                print(f"Warning: {error}", file=sys.stderr)
