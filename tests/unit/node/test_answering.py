"""An admin's own command: its status and output, and no more of it than a report may have."""

import os
import signal
import time

from ansible_collections.gpuadmin.node.plugins.module_utils.answering import answer, shortened


def test_what_a_command_answers() -> None:
    assert answer("echo out; echo err >&2; pwd; exit 3") == {"status": 3, "output": "out\n/\n", "errors": "err\n"}


def test_it_reads_nothing_and_bytes_that_are_no_text_are_marked() -> None:
    assert answer("cat; printf '\\377'") == {"status": 0, "output": "\ufffd", "errors": ""}


def test_of_long_output_the_beginning_and_the_end_stay() -> None:
    assert shortened("abcdefgh", 8) == "abcdefgh"
    assert shortened("abcdefghij", 4) == "ab\n… 6 characters left out …\nij"


def test_what_it_leaves_in_the_background_keeps_nobody_waiting() -> None:
    begun = time.monotonic()
    found = answer("echo begun; sleep 60 & echo $!")
    first, process = str(found["output"]).split()
    os.kill(int(process), signal.SIGTERM)
    assert (found["status"], first) == (0, "begun")
    assert time.monotonic() - begun < 30
