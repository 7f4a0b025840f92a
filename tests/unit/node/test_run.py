"""Programs of the host: what they print, and what they say when they fail."""

import os
import signal
import time

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.run import LateError, program, run, run_command


def test_what_a_program_complains_of() -> None:
    said = "printf 'W: old\\nE: no mirror\\nE: no index\\nsee above\\n' >&2; exit 100"
    with pytest.raises(NodeError, match="apt failed: E: no mirror; E: no index "):
        run(("sh", "-c", said), what="apt failed", complaints="E: ")
    with pytest.raises(NodeError, match="apt failed: see above "):
        run(("sh", "-c", said), what="apt failed")
    with pytest.raises(NodeError, match="a command failed: status 3 "):
        run(("sh", "-c", "exit 3"), complaints="E: ")


def test_a_failure_can_be_pasted() -> None:
    with pytest.raises(NodeError, match=r"\(command: ls '/nonexistent/a b'\)"):
        run(("ls", "/nonexistent/a b"))


def test_words_on_the_other_stream() -> None:
    with pytest.raises(NodeError, match="a command failed: no "):
        run(("sh", "-c", "echo no; echo ' ' >&2; exit 1"))


def test_input_and_output() -> None:
    assert run(("cat",), stdin=b"words") == "words"
    assert run(("cat",)) == "", "nobody is asked"
    assert run(("printf", "\\377")) == "\N{REPLACEMENT CHARACTER}"


def test_whatever_the_end_is() -> None:
    done = run_command(("sh", "-c", "echo $WORD; echo no >&2; exit 4"), environment={"WORD": "yes"})
    assert (done.returncode, done.stdout, done.stderr) == (4, "yes\n", "no\n")
    with pytest.raises(FileNotFoundError):
        run_command(("/nonexistent",))


def test_programs_of_systemd_wait_for_a_starved_host() -> None:
    done = run_command(("sh", "-c", "echo $SYSTEMD_BUS_TIMEOUT $HOME"), environment={"HOME": "/x"})
    assert done.stdout == "120 /x\n"


def test_a_program_that_hangs() -> None:
    with pytest.raises(LateError, match=r"no answer in 0\.5 s") as caught:
        run_command(("sh", "-c", "echo begun; exec sleep 100"), seconds=0.5)
    assert caught.value.output == "begun\n"


def test_a_question_that_hangs_is_said_in_words() -> None:
    with pytest.raises(NodeError, match=r"it is not known: no answer in 0\.2 s \(command: sleep 100\)"):
        run(("sleep", "100"), what="it is not known", seconds=0.2)


def test_a_program_as_a_job() -> None:
    words = {"command": ["sh", "-c", "echo $WORD; echo no >&2; exit 4"], "environment": {"WORD": "yes"}}
    assert program(words) == {"status": 4, "output": "yes\nno\n"}


def test_what_a_job_leaves_behind_is_not_waited_for() -> None:
    """A package's script that starts a daemon: the daemon has the script's output, and does not end."""
    begun = time.monotonic()
    done = program({"command": ["sh", "-c", "echo E: no >&2; sleep 60 & echo $!"]})
    assert time.monotonic() - begun < 30
    os.kill(int(done["output"].splitlines()[-1]), signal.SIGKILL)
    assert done["output"].startswith("E: no\n"), "in the order in which it was printed"


def test_a_job_that_opens_its_output_once_more() -> None:
    done = program({"command": ["sh", "-c", "echo begun; echo no >/dev/stderr; echo ended"]})
    assert done["output"] == "no\nended\n", "no bytes of zero where the file was emptied"
