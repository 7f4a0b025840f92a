"""Programs and units of a host, and an operation's answer: what they say, and what is said when they fail."""

import errno
import json
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import unit
from ansible_collections.gpuadmin.node.plugins.module_utils.answer import Answer
from ansible_collections.gpuadmin.node.plugins.module_utils.answering import answer, shortened
from ansible_collections.gpuadmin.node.plugins.module_utils.detached import detach, forked
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import (
    NodeError,
    NothingBegun,
    in_words,
    nothing_begun,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.report import Reports, UserReport
from ansible_collections.gpuadmin.node.plugins.module_utils.run import Finished, LateError, program, run, run_command
from ansible_collections.gpuadmin.node.plugins.module_utils.unit_status import print_outcome


def test_what_a_program_complains_of() -> None:
    said = "printf 'W: old\\nE: no mirror\\nE: no index\\nsee above\\n' >&2; exit 100"
    with pytest.raises(NodeError, match="apt failed: E: no mirror; E: no index "):
        run(("sh", "-c", said), what="apt failed", complaints="E: ")
    with pytest.raises(NodeError, match="apt failed: see above "):
        run(("sh", "-c", said), what="apt failed")
    with pytest.raises(NodeError, match="a command failed: status 3 "):
        run(("sh", "-c", "exit 3"), complaints="E: ")
    with pytest.raises(NodeError, match=r"\(command: ls '/nonexistent/a b'\)"):
        run(("ls", "/nonexistent/a b"))
    with pytest.raises(NodeError, match="a command failed: no "):
        run(("sh", "-c", "echo no; echo ' ' >&2; exit 1"))


def test_input_output_and_whatever_the_end_is() -> None:
    assert run(("cat",), stdin=b"words") == "words"
    assert run(("cat",)) == "", "nobody is asked"
    assert run(("printf", "\\377")) == "\N{REPLACEMENT CHARACTER}"
    done = run_command(("sh", "-c", "echo $WORD; echo no >&2; exit 4"), environment={"WORD": "yes"})
    assert (done.returncode, done.stdout, done.stderr) == (4, "yes\n", "no\n")
    with pytest.raises(FileNotFoundError):
        run_command(("/nonexistent",))


def test_programs_of_systemd_wait_for_a_starved_host() -> None:
    done = run_command(("sh", "-c", "echo $SYSTEMD_BUS_TIMEOUT $HOME"), environment={"HOME": "/x"})
    assert done.stdout == "120 /x\n"


def test_a_program_or_a_question_that_hangs() -> None:
    with pytest.raises(LateError, match=r"no answer in 0\.5 s") as caught:
        run_command(("sh", "-c", "echo begun; exec sleep 100"), seconds=0.5)
    assert caught.value.output == "begun\n"
    with pytest.raises(NodeError, match=r"it is not known: no answer in 0\.2 s \(command: sleep 100\)"):
        run(("sleep", "100"), what="it is not known", seconds=0.2)


def test_a_program_as_a_job() -> None:
    words = {"command": ["sh", "-c", "echo $WORD; echo no >&2; exit 4"], "environment": {"WORD": "yes"}}
    assert program(words) == {"status": 4, "output": "yes\nno\n"}
    done = program({"command": ["sh", "-c", "echo begun; echo no >/dev/stderr; echo ended"]})
    assert done["output"] == "no\nended\n", "no bytes of zero where the file was emptied"


def test_what_a_job_leaves_behind_is_not_waited_for() -> None:
    """A package's script that starts a daemon: the daemon has the script's output, and does not end."""
    begun = time.monotonic()
    done = program({"command": ["sh", "-c", "echo E: no >&2; sleep 60 & echo $!"]})
    assert time.monotonic() - begun < 30
    os.kill(int(done["output"].splitlines()[-1]), signal.SIGKILL)
    assert done["output"].startswith("E: no\n"), "in the order in which it was printed"


@pytest.mark.parametrize(
    ("answer", "changed"),
    [(Answer([], {}), False), (Answer(["made a"], {}), True), (Answer(["looked at a"], {}, changed=False), False)],
)
def test_what_was_done_is_a_change_unless_it_says_otherwise(answer: Answer, changed: bool) -> None:
    assert answer.result() == {"changed": changed, "operations": answer.operations, "report": {}}


def test_a_conflict_fails_and_what_the_others_got_is_reported() -> None:
    reports = Reports({"minji": UserReport("ok", ["made"]), "jiho": UserReport("conflict", [], "uid 5 is root's")})
    result = Answer.of(reports, backup="one").result("users")
    assert (result["failed"], result["msg"]) == (True, "jiho: uid 5 is root's")
    assert (result["changed"], result["operations"], result["report"]["backup"]) == (True, ["minji: made"], "one")
    assert "users" not in result["report"], "Ansible walks it"
    jiho = json.loads(result["each"]["users"])["jiho"]
    assert jiho == {"status": "conflict", "operations": [], "problem": "uid 5 is root's"}


def test_a_failure_of_the_whole_is_said_before_conflicts() -> None:
    result = Answer(["made a"], conflicts=["jiho: no"], problem="no space", changed=True).result()
    assert (result["changed"], result["failed"], result["msg"]) == (True, True, "no space")
    assert result["conflicts"] == ["jiho: no"]


def test_what_a_command_answers() -> None:
    assert answer("echo out; echo err >&2; pwd; exit 3") == {"status": 3, "output": "out\n/\n", "errors": "err\n"}
    assert answer("cat; printf '\\377'") == {"status": 0, "output": "\ufffd", "errors": ""}
    assert shortened("abcdefgh", 8) == "abcdefgh"
    assert shortened("abcdefghij", 4) == "ab\n… 6 characters left out …\nij"


def test_what_it_leaves_in_the_background_keeps_nobody_waiting() -> None:
    begun = time.monotonic()
    found = answer("echo begun; sleep 60 & echo $!")
    first, process = str(found["output"]).split()
    os.kill(int(process), signal.SIGTERM)
    assert (found["status"], first) == (0, "begun")
    assert time.monotonic() - begun < 30


def test_it_keeps_what_it_was_told_to_and_nothing_else(tmp_path: Path) -> None:
    other = os.open(tmp_path, os.O_RDONLY)
    reader, writer = os.pipe()
    child = forked()
    if child == 0:
        try:
            detach(writer)
            names = [str(Path(f"/proc/self/fd/{one}").readlink()) for one in range(3)]
            there = other in {int(one.name) for one in Path("/proc/self/fd").iterdir()}
            os.write(writer, f"{names} {there} {os.getsid(0) == os.getpid()}".encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.close(other)
    with os.fdopen(reader, "rb") as stream:
        assert stream.read().decode() == f"{['/dev/null'] * 3} False True"
    os.waitpid(child, 0)


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


class Answers:
    """Answers each command of systemctl and systemd-run as it is told; other ones succeed."""

    def __init__(self, *answers: tuple[int, str]) -> None:
        self.answers, self.commands = list(answers), []

    def __call__(self, command: Sequence[str]) -> Finished:
        self.commands.append(tuple(command))
        if command[1] == "reset-failed":
            return subprocess.CompletedProcess(command, 1, "", "not loaded")
        status, text = self.answers.pop(0)
        return subprocess.CompletedProcess(command, status, text, text)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit, "POLL", 0.02)


def test_a_name_that_is_taken_for_a_moment_is_tried_again() -> None:
    systemd = Answers((1, "Unit x.service was already loaded"), (0, ""))
    unit.start("x.service", ("true",), "x", ("PrivateMounts=yes",), run=systemd)
    assert systemd.commands[-1] == (
        "systemd-run", "--unit=x.service", "--collect", "--quiet", "--description=x", "--property=PrivateMounts=yes",
        "--", "true",
    )  # fmt: skip
    with pytest.raises(NodeError, match="no such property"):
        unit.start("x.service", ("true",), "x", run=Answers((1, "no such property")))
    with pytest.raises(NodeError, match="already loaded"):
        unit.start("x.service", ("true",), "x", run=Answers((1, "it was already loaded")), patience=-1)


def test_systemd_that_is_being_replaced_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Installing packages may do that, and must not be taken for having ended."""
    monkeypatch.setattr(unit, "available", lambda: True)
    assert unit.working("x.service", Answers((1, "Connection reset by peer"), (0, "active\n")))
    monkeypatch.setattr(unit, "SILENCE", -1)
    with pytest.raises(NodeError, match=r"not known whether x\.service works: Connection refused"):
        unit.working("x.service", Answers((1, "Connection refused")))
    monkeypatch.setattr(unit, "available", lambda: False)
    assert not unit.working("x.service", Answers((1, "System has not been booted with systemd")))


def test_starved_systemd_that_answers_late_has_begun_it_or_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    late = (1, "Failed to start transient service unit: Connection timed out")
    begun = Answers(late, (0, "activating"))
    unit.start("x.service", ("true",), "x", run=begun)
    assert [command[0] for command in begun.commands] == ["systemctl", "systemd-run", "systemctl"]
    lost = Answers(late, (0, "inactive"), (0, ""))
    unit.start("x.service", ("true",), "x", run=lost, patience=0)
    assert [command[0] for command in lost.commands].count("systemd-run") == 2
    monkeypatch.setattr(unit, "SILENCE", -1)
    with pytest.raises(NodeError, match=r"x\.service could not be started: .*timed out"):
        unit.start("x.service", ("true",), "x", run=Answers(late))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("active", True), ("activating", True), ("deactivating", True), ("inactive", False), ("failed", False)],
)
def test_what_works(text: str, expected: bool) -> None:
    assert unit.working("x.service", Answers((0, text))) is expected


def test_a_unit_that_does_not_stop() -> None:
    unit.stop("x.service", Answers((0, "")))
    unit.stop("x.service", Answers((5, "not loaded")))
    unit.stop("x.service", Answers((1, "timed out"), (0, "inactive")))
    with pytest.raises(NodeError, match=r"x\.service does not stop: timed out"):
        unit.stop("x.service", Answers((1, "timed out"), (0, "active")))


def test_what_a_unit_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_outcome(["this", "that"], []) == 0
    assert capsys.readouterr() == ("this\nthat\n", "")
    assert print_outcome([], ["one is open"]) == 1
    assert capsys.readouterr() == ("", "Error: one is open\n")
