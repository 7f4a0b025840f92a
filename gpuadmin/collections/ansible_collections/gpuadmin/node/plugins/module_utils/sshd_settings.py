"""What `sshd -T` prints."""

from __future__ import annotations

from collections.abc import Iterator


def printed(text: str) -> Iterator[tuple[str, str]]:
    """Each keyword with its value. In lower case: OpenSSH 10.6 has keywords as its manual does, older ones do not."""
    for line in text.splitlines():
        keyword, _, value = line.partition(" ")
        yield keyword.lower(), value
