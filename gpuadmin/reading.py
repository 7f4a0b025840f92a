"""Reading files that people hand over, and those of a site: only regular ones, and only up to a limit."""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from shlex import quote

from gpuadmin.errors import ConfigError

LARGEST = 16 * 1024 * 1024  # bytes; ten thousand people with a key each are a quarter of that

#: Byte order marks of what Windows calls Unicode.
UTF16 = (b"\xff\xfe", b"\xfe\xff")
_SEPARATORS = ",;\t"
_KINDS = {
    stat.S_IFDIR: "a directory", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
}  # fmt: skip


def expanded(path: str | Path) -> Path:
    """Given a path as people write it, return it with a home in place of ``~`` and ``~NAME``. Raises ConfigError."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise ConfigError(f"{path}: this machine has no such account", hint="write the whole path, from /") from None


def ours(path: Path) -> bool:
    """Whether a file is root's or our own, or that of whoever called us by sudo. Anybody else's would speak for us."""
    caller = os.environ.get("SUDO_UID", "") if os.geteuid() == 0 else ""
    return path.lstat().st_uid in (0, os.geteuid(), int(caller) if caller.isdecimal() else 0)


def open_regular(path: Path) -> int:
    """Given a path, return a descriptor that reads the file. Anything but a regular file raises OSError: nobody may
    ever write into a named pipe, and nobody means a device or a directory.
    """
    # O_NONBLOCK: to open a named pipe would wait for somebody who writes into it
    try:
        descriptor = os.open(
            path,
            os.O_RDONLY
            | os.O_NONBLOCK  # guard: nobody waits at a named pipe
            | os.O_NOCTTY
            | os.O_CLOEXEC,
        )
    except OSError as error:
        # a socket (macOS: EOPNOTSUPP), or a device that is not there
        if error.errno in (errno.ENXIO, errno.EOPNOTSUPP):
            refuse_irregular(path.stat(), path)
        raise
    try:
        refuse_irregular(os.fstat(descriptor), path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def refuse_irregular(facts: os.stat_result, path: Path) -> None:
    """Raise OSError, whose `strerror` ends a sentence, if it is not a regular file."""
    if not stat.S_ISREG(facts.st_mode):  # guard: what is read is a regular file
        kind = _KINDS.get(stat.S_IFMT(facts.st_mode), "something else")
        raise OSError(errno.EINVAL, f"is {kind}, where a regular file has to be", str(path))


def read_limited(path: Path, most: int = LARGEST) -> bytes:
    """Given a path, return the file's bytes. Raises ConfigError if there are more than `most`; FileNotFoundError and
    other OSErrors are the caller's.
    """
    with os.fdopen(open_regular(path), "rb") as stream:
        raw = stream.read(most + 1)
    if len(raw) > most:  # guard: a file is read to a bound
        raise ConfigError(f"{path}: is larger than {most // 1024 // 1024} MiB", hint="is it the right file?")
    return raw


def read_record(path: Path) -> bytes:
    """Given the path of a record of our own, which may grow, return its bytes. OSErrors are the caller's."""
    with os.fdopen(open_regular(path), "rb") as stream:
        return stream.read()


def read_text(path: Path) -> str:
    """Given the path of a small file of a site, return its text; empty if there is none. Raises ConfigError."""
    try:
        return "" if is_absent(path) else decoded(read_limited(path), path)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", hint="it must be a file that you can read") from None


def decoded(raw: bytes, path: Path) -> str:
    """Given a file's bytes, return its text; a byte order mark is left out. Raises ConfigError naming the line."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: is not UTF-8", hint=not_utf8(raw, path)) from None


def not_utf8(raw: bytes, path: Path) -> str:
    """What to do about a file that is not UTF-8: Korean Windows writes CP949, and UTF-16 is what it calls Unicode."""
    name = quote(str(path))
    for encoding in ("UTF-16",) if raw.startswith(UTF16) else ("CP949",):
        try:
            raw.decode(encoding)
        except UnicodeDecodeError:
            continue
        return f"it may be {encoding}; save it as UTF-8, or: iconv -f {encoding} -t UTF-8 {name} > {name}.utf-8"
    return "save the file as UTF-8"


def decode_table(name: str, raw: bytes, encodings: Sequence[str]) -> str:
    """Given the bytes of a CSV file, return its text by the first encoding that fits. A byte order mark decides."""
    if raw.startswith(UTF16) or b"\0" in raw:
        raise ConfigError(f"{name}: is not CSV text", hint="export it as CSV (UTF-8), not as Unicode text or .xlsx")
    if raw.startswith(b"PK\x03\x04"):
        raise ConfigError(f"{name}: is a spreadsheet or an archive", hint="export the sheet as CSV (UTF-8)")
    for encoding in encodings:
        try:
            # some systems write Hangul in its parts; it shall read as what people type
            return unicodedata.normalize("NFC", raw.decode("utf-8-sig" if encoding == "utf-8" else encoding))
        except UnicodeDecodeError:
            continue
    raise ConfigError(f"{name}: is neither of {', '.join(encodings)}", hint="export it as CSV (UTF-8)")


def separator(text: str) -> str:
    """Given the text of a table, return what its first line has between the cells: a comma, or what spreadsheets of
    other countries write in its place.
    """
    counts, quoted = dict.fromkeys(_SEPARATORS, 0), False
    for character in text.lstrip():
        if character == '"':
            quoted = not quoted
        elif character == "\n" and not quoted:
            break
        elif character in counts and not quoted:
            counts[character] += 1
    return max(_SEPARATORS, key=lambda one: counts[one])  # of two that are as frequent the first


def is_absent(path: Path) -> bool:
    """Whether there certainly is nothing at `path`. Raises OSError if that cannot be seen (a closed directory, a broken
    link): what cannot be looked at does not count as missing.
    """
    try:
        os.lstat(path)
    except FileNotFoundError:  # guard: what cannot be looked at is not absent -> OSError
        if path.parent.is_symlink():
            path.parent.stat()  # guard: what lies behind a link that leads nowhere is not absent
        return True
    return False


def read_secret(variable: str, file: str | None, setting: str) -> str | None:
    """A password: from the environment, else from the file; None where neither is named.

    Raises ConfigError where others can read the file, and for what no protocol carries.
    """
    if given := os.environ.get(variable):
        return _usable(given, variable)
    if file is None:
        return None
    path = expanded(file)
    try:
        if path.stat().st_mode & 0o077:
            raise ConfigError(f"{setting}: {path}: others can read the password", hint=f"chmod 600 {path}")
        lines = read_limited(path).decode("utf-8").splitlines()
    except OSError as error:
        hint = f"write the password there (chmod 600), or set {variable}"
        raise ConfigError(f"{setting}: {path}: {error.strerror}", hint=hint) from None
    except UnicodeDecodeError:
        raise ConfigError(f"{setting}: {path}: is not UTF-8") from None
    if len(lines) != 1 or not lines[0]:
        raise ConfigError(f"{setting}: {path}: must hold one line, the password")
    return _usable(lines[0], f"{setting}: {path}")


def _usable(password: str, source: str) -> str:
    if not (password.isascii() and password.isprintable()):
        raise ConfigError(f"{source}: the password holds a character that is not sent; it must be ASCII")
    return password
