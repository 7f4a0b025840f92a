"""A session that is tried, as root sees it: what it says is the person's word, and nobody waits for them."""

import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis import trial
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.subject import Subject
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

ASKED = {"home": "/", "shell": "/bin/sh", "docker": None}


def spoken(script: str) -> dict[str, object]:
    """What comes of a process that says what a script says, in place of trying.py."""
    line = ["/bin/sh", "-c", script]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            return trial.run_steps(process, None, 20000, ASKED)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, 9)


def begun(script: str) -> str:
    return f"""echo '{{"step": "begun"}}'; read asked; {script}"""


def test_what_is_said_is_taken_as_data() -> None:
    found = spoken(
        begun(r"""
        echo '{"step": "home", "code": "", "words": ""}'
        echo '{"step": "home", "code": "EIO", "words": "the first counts"}'
        printf '{"step": "tmp", "code": "EIO", "words": "\\u001b[2J\\n%0999d"}\n' 1
        echo '{"step": "process", "code": 5}'
        echo '{"step": "command", "code": "no such code"}'
        echo '{"step": ["login"], "code": ""}'
        echo '{"step": "sudo", "code": ""}'
        echo '[[[[['; echo 1e999999; echo; echo '{}'
        echo '{"step": "done"}'; echo '{"step": "login", "code": ""}'""")
    )
    steps = found["steps"]
    assert isinstance(steps, dict)
    assert steps["home"] == {"code": "", "words": ""}
    assert steps["tmp"]["words"].startswith("?[2J")
    assert len(steps["tmp"]["words"]) == 200
    assert set(steps) == {"home", "tmp"}
    assert (found["done"], found["late"], found["pam"]) == (True, False, None)


@pytest.mark.parametrize(
    "script",
    [
        begun('yes \'{"step": "begun"}\''),
        begun("head -c 100000000 /dev/zero; sleep 60"),
        begun("sleep 60"),
        begun("exec 0<&- 1>&-; sleep 60"),
        "sleep 60",
        "yes",
    ],
)
def test_nobody_waits_for_what_goes_on(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    monkeypatch.setattr(trial, "SECONDS", 0.7)
    monkeypatch.setattr(trial, "CLEANING", 0.3)
    before = time.monotonic()
    found = spoken(script)
    assert time.monotonic() - before < 30
    assert (found["done"], found["steps"]) == (False, {})


def test_what_is_read_has_a_bound() -> None:
    with subprocess.Popen(["/bin/sh", "-c", "yes | head -c 1000000"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        found = list(trial.read_lines(process.stdout.fileno(), time.monotonic() + 20))
        process.kill()
    assert trial.MOST - 4096 <= len(found) * 2 <= trial.MOST + 4096


def test_what_ends_before_it_begins_says_why() -> None:
    assert spoken("exit 224")["pam"] == "no session begins (status 224)"


def test_that_a_session_was_opened_is_not_why_there_is_none() -> None:
    opened = "(python3)[9]: pam_unix(sshd:session): session opened for user minji(uid=20000) by (uid=0)"
    failed = "systemd[1]: x.service: Failed at step EXEC spawning /usr/bin/python3: Resource temporarily unavailable"
    assert trial.pick_refusals(f"{opened}\n{failed}\nother\n") == [failed]
    assert trial.pick_refusals(f"{opened}\n{opened.replace('opened', 'closed')}\n") == []
    assert trial.pick_refusals("pam_time(sshd:account): not allowed\n") == ["pam_time(sshd:account): not allowed"]


def test_only_a_scope_of_the_person_s_own_is_killed() -> None:
    assert trial.find_scope("/user.slice/user-20000.slice/session-c9.scope", 20000) == "session-c9.scope"
    for path in (
        "/user.slice/user-20001.slice/session-c9.scope",
        "/user.slice/user-20000.slice/session-c9.scope/x",
        "/user.slice/user-20000.slice/user@20000.service/session-c9.scope",
        "/user.slice/user-20000.slice/session-c9.scope\n",
        "/system.slice/ssh.service",
        "/",
    ):
        assert trial.find_scope(path, 20000) is None, path


def test_how_many_processes_may_run() -> None:
    text = "Limit            Soft Limit           Hard Limit  Units\nMax processes    {}   3           processes\n"
    assert trial.parse_process_limit(text.format("3               ")) == 3
    assert trial.parse_process_limit(text.format("unlimited       ")) is None


def test_the_unit_is_the_person_s_and_has_its_bounds() -> None:
    found = dict(one.split("=", 1) for one in trial.list_properties("minji", True))
    assert (found["User"], found["PAMName"], found["KillSignal"]) == ("minji", "sshd", "SIGKILL")
    assert found["Environment"] == "XDG_SESSION_CLASS=background", "others do not see them come in"
    light = "Environment=XDG_SESSION_CLASS=background-light"
    assert light in trial.list_properties("minji", False), "and nothing begins"
    assert float(found["RuntimeMaxSec"]) <= 10
    assert float(found["TimeoutStartSec"]) <= 10


@pytest.mark.parametrize(
    ("name", "uid"), [("root", None), ("root", 0), ("daemon", None), ("nobody1", 20000), (None, None)]
)
def test_who_is_not_tried(name: str | None, uid: int | None) -> None:
    with pytest.raises(NodeError, match="nobody has this name"):
        trial.trial(Subject(name=name, uid=uid))


@pytest.mark.parametrize(("uid", "words"), [(20000, "no rules for sshd"), (1007, "nobody has this name")])
def test_where_pam_has_no_rules_for_sshd_and_for_another_uid_nobody_is_tried(
    tmp_path: Path, uid: int, words: str
) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text(f"minji:x:{uid}:{uid}::/home/minji:/bin/bash\n")
    with pytest.raises(NodeError, match=words):
        trial.trial(Subject(name="minji", uid=20000, root=str(tmp_path)))
