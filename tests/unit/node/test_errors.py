"""Errors of the system, in the words that admins and people are shown."""

import errno
import os

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import (
    NodeError,
    NothingBegun,
    in_words,
    nothing_begun,
)

DENIED = (errno.EACCES, "Permission denied")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(*DENIED, "/home/minji"), "/home/minji: Permission denied"),
        (OSError(*DENIED, b"/home/minji"), "/home/minji: Permission denied"),
        (OSError(*DENIED, os.fsdecode(b"/home/\xff")), "'/home/\\udcff': Permission denied"),
        (OSError(*DENIED, "/home/\x1b[2J"), "'/home/\\x1b[2J': Permission denied"),
        (OSError(*DENIED, 7), "Permission denied"),
        (OSError(*DENIED), "Permission denied"),
        (TimeoutError("timed out"), "timed out"),
        (OSError(), "OSError"),
        (NodeError("there is no such home"), "there is no such home"),
        (ValueError("12 is not a number"), "12 is not a number"),
    ],
    ids=repr,
)
def test_in_words(error: Exception, words: str) -> None:
    assert in_words(error) == words


@pytest.mark.parametrize("error", [NodeError("no such backup"), OSError(*DENIED, "/srv")], ids=repr)
def test_what_ends_a_look_ends_it_before_anything_was_begun(error: Exception) -> None:
    with pytest.raises(NothingBegun, match=str(in_words(error))), nothing_begun():
        raise error
