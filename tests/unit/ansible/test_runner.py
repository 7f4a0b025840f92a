"""The run layer: what ansible-playbook is told, what it may see, and that nothing of it is left."""

import gc
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.callback import shared_memory

from gpuadmin.ansible import interrupt, invocation
from gpuadmin.ansible import runner as layer
from gpuadmin.ansible.invocation import Invocation, Secrets, command_line, environment, extra_variables, unsafe
from gpuadmin.config.load import load_site
from gpuadmin.errors import GpuadminError
from gpuadmin.results import RunResult
from tests.support.sites import make_local_site, stubbed, write_playbook

pytestmark = pytest.mark.holds(
    "Ansible checks host keys",
    "a run's settings are ours alone",
    "check mode is check mode on the hosts",
    "host keys are checked",
)


BASE = Invocation(playbook="x", inventory=(Path("/i"),), known_hosts=Path("/s/known_hosts"), hosts=3)

COMMAND_LINES: list[tuple[dict[str, Any], str, list[str]]] = [
    # what is asked for, how many hosts at a time, what else is on the command line
    ({}, "5", []),
    ({"hosts": 40}, "40", []),
    ({"hosts": 5000}, "200", []),
    ({"check": True}, "5", ["--check"]),
    ({"verbosity": 1}, "5", []),
    ({"verbosity": 3}, "5", ["-vv"]),
    ({"secrets": Secrets(ssh="s3cret", become="s3cret")}, "5", ["--ask-pass", "--ask-become-pass"]),
    ({"variables": {"a": "s3cret"}}, "5", []),
]


@pytest.mark.parametrize(("change", "forks", "more"), COMMAND_LINES)
def test_the_command_line(change: dict[str, Any], forks: str, more: list[str]) -> None:
    found = command_line(Invocation(**{**vars(BASE), **change}), Path("/w/v.json"))
    assert found == ["--diff", "--forks", forks, "--extra-vars", "@/w/v.json", *more]


def test_secrets_do_not_show() -> None:
    assert "s3cret" not in repr(Invocation(**{**vars(BASE), "secrets": Secrets(ssh="s3cret", become="s3cret")}))


@pytest.mark.holds("a run's environment is ours alone", "what modules are given is not in hosts' journals")
def test_the_environment_is_ours_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AWS_SECRET_ACCESS_KEY": "s3cret",
        "ANSIBLE_HOST_KEY_CHECKING": "False",
        "ANSIBLE_CONFIG": "/elsewhere/ansible.cfg",
        "ANSIBLE_STRATEGY_PLUGINS": "/elsewhere",
        "PYTHONPATH": "/elsewhere",
        "LD_PRELOAD": "/elsewhere.so",
        "HOME": "/home/admin",
        "SSH_AUTH_SOCK": "/run/agent",
    }.items():
        monkeypatch.setenv(name, value)
    seen = environment(BASE, Path("/w"), Path("/c"))
    assert seen["ANSIBLE_NO_TARGET_SYSLOG"] == "True"
    assert "s3cret" not in "".join(seen.values())
    assert "elsewhere" not in "".join(seen.values())
    assert seen["ANSIBLE_HOST_KEY_CHECKING"] == "True"
    assert "StrictHostKeyChecking=yes" in seen["ANSIBLE_SSH_ARGS"]
    assert seen["ANSIBLE_CONFIG"] == "/w/ansible.cfg"
    assert seen["ANSIBLE_INJECT_FACT_VARS"] == "False"
    assert seen["SSH_AUTH_SOCK"] == "/run/agent"
    assert seen["PATH"].split(":")[2:] == [
        "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin",
    ]  # fmt: skip


@pytest.mark.parametrize(("system", "locale"), [("linux", "C.UTF-8"), ("darwin", "en_US.UTF-8")])
def test_ansible_starts_on_macos_as_well(system: str, locale: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older macOS has no C.UTF-8, without which Ansible ends; and it ends workers that fork without a word."""
    monkeypatch.setattr("sys.platform", system)
    seen = environment(BASE, Path("/w"), Path("/c"))
    assert (seen["LANG"], seen["LC_ALL"]) == (locale, locale)
    assert seen["OBJC_DISABLE_INITIALIZE_FORK_SAFETY"] == "YES"


@pytest.mark.parametrize("directory", ["/s", "/with a blank", "/한글"])
def test_the_sites_host_keys_are_the_ones_that_ssh_reads(directory: str, tmp_path: Path) -> None:
    """Asked of ssh itself, which has its own way of reading quotes."""
    known = Path(directory) / "known_hosts"
    invocation = Invocation(playbook="x", inventory=(), known_hosts=known, hosts=1)
    arguments = environment(invocation, tmp_path, tmp_path)["ANSIBLE_SSH_ARGS"]
    import shlex

    output = subprocess.run(
        ["ssh", "-G", "-F", "/dev/null", *shlex.split(arguments), "node1"], check=True, capture_output=True, text=True
    ).stdout
    (line,) = [line for line in output.splitlines() if line.startswith("userknownhostsfile")]
    assert str(known) in line
    assert "stricthostkeychecking true" in output


@pytest.mark.holds("user data is not a template")
def test_user_data_is_marked() -> None:
    x, y, z = ({"__ansible_unsafe": text} for text in ("{{ x }}", "y", "z"))
    assert unsafe({"a": ["{{ x }}", {"b": "y"}, 3, None, True, ("z",)]}) == {"a": [x, {"b": y}, 3, None, True, [z]]}


Runner = Callable[..., RunResult]


@pytest.fixture
def playbook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    """Run tasks for real, on this machine: `playbook(tasks, variables=…, secrets=…)`."""
    site = load_site(str(make_local_site(tmp_path / "site")))
    content = tmp_path / "content"
    monkeypatch.setattr(layer, "content_path", content.joinpath)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", None)

    def go(tasks: str, on_host: Callable[[str, str, str], None] = lambda *words: None, **fields: Any) -> RunResult:
        write_playbook(content, "test", tasks)
        variables = {"gpuadmin_site": site.settings.model_dump(mode="json"), **fields.pop("variables", {})}
        invocation = Invocation(
            playbook="test", inventory=site.inventory.sources, known_hosts=site.known_hosts, hosts=3,
            variables=variables, log=tmp_path / "log.txt", **fields,
        )  # fmt: skip
        result = layer.run(invocation, on_host=on_host)
        # of an interrupted run a module that was ended in the middle may leave its own directory
        own = "ansible_ansible.legacy.command_payload_"
        left = [one for one in temporary.iterdir() if not (result.interrupted and one.name.startswith(own))]
        assert left == [], "the run left something behind"
        return result

    return go


HOSTILE = "{{ lookup('pipe', 'touch MARK') }} \"'$(touch MARK)`touch MARK`; 한글\n%{#"


@pytest.mark.holds("people as one text are no template")
def test_people_are_one_text_that_is_no_template() -> None:
    people = [{"name": "minji", "gecos": "{{ lookup('pipe', 'id') }} 민지"}]
    found = extra_variables({"gpuadmin_users": people, "gpuadmin_absent": [], "people": people})
    assert json.loads(found["gpuadmin_users"]["__ansible_unsafe"]) == people
    assert found["gpuadmin_absent"] == {"__ansible_unsafe": "[]"}
    assert found["people"] == unsafe(people)


@pytest.mark.holds("user data is not a template")
def test_a_run_and_hostile_data(playbook: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    mark = tmp_path / "MARK"
    text = HOSTILE.replace("MARK", str(mark))
    result = playbook(
        f"""
- name: Write it
  ansible.builtin.copy:
    content: "{{{{ users[0].note }}}}"
    dest: {tmp_path}/{{{{ inventory_hostname }}}}
    mode: "0600"
- name: Fail on one
  ansible.builtin.fail:
    msg: "not here: {{{{ users[0].note }}}}"
  when: inventory_hostname == 'node2'
""",
        variables={"users": [{"note": text}]},
    )
    assert {name: host.status for name, host in result.hosts.items()} == {
        "storage1": "changed", "node1": "changed", "node2": "failed",
    }  # fmt: skip
    assert (tmp_path / "node1").read_text() == text
    assert not mark.exists()
    assert result.hosts["node1"].changed == ["Write it"]
    assert "not here: {{ lookup" in str(result.hosts["node2"].message)
    assert result.error is None
    assert (tmp_path / "log.txt").stat().st_mode & 0o777 == 0o600


def test_workers_share_the_memory_of_the_process_that_forks_them(tmp_path: Path) -> None:
    begun = shared_memory.CallbackModule()
    gc.unfreeze()
    begun.v2_playbook_on_task_start(SimpleNamespace(action="gpuadmin.node.accounts"), False)
    try:
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
    assert environment(BASE, tmp_path, tmp_path)["ANSIBLE_CALLBACKS_ENABLED"] == begun.CALLBACK_NAME


def test_check_mode_and_the_real_run_say_the_same(playbook: Runner, tmp_path: Path) -> None:
    tasks = f"""
- name: Make a directory
  ansible.builtin.file:
    path: {tmp_path}/made-{{{{ inventory_hostname }}}}
    state: directory
    mode: "0700"
"""
    predicted = playbook(tasks, check=True)
    assert not list(tmp_path.glob("made-*"))
    assert playbook(tasks).hosts == predicted.hosts
    assert {host.status for host in playbook(tasks).hosts.values()} == {"ok"}


def test_a_role_reports_how_long_its_next_task_may_take(playbook: Runner) -> None:
    told: list[tuple[str, str, str]] = []
    playbook(
        """
- name: Report how long it may take
  ansible.builtin.set_stats:
    data:
      gpuadmin_seconds: "{{ 600 + 300 }}"
    per_host: true
- name: Do it
  ansible.builtin.debug:
    msg: done
""",
        on_host=lambda *words: told.append(words),
    )
    of_node = [(outcome, detail) for host, outcome, detail in told if host == "node1"]
    assert of_node.index(("limit", "900")) < of_node.index(("begun", "Do it"))


def test_a_result_of_any_size_counts(playbook: Runner) -> None:
    result = playbook("- name: Say much\n  ansible.builtin.command: head --bytes=900000 /dev/zero\n")
    assert {host.status for host in result.hosts.values()} == {"changed"}


def test_a_machine_without_ps_runs_nothing(playbook: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupt, "_LIST", ("no-such-ps",))
    with pytest.raises(GpuadminError, match="could not be interrupted"):
        playbook("- name: Nothing\n  ansible.builtin.command: 'true'")


@pytest.mark.holds("nobody can put another run in the place of ours")
def test_a_run_is_not_made_where_others_could_replace_it(playbook: Runner, tmp_path: Path) -> None:
    """TMPDIR on a scratch disk of mode 777: whoever renamed the run's directory had their ansible.cfg taken."""
    (tmp_path / "tmp").chmod(0o777)
    with pytest.raises(GpuadminError, match=f"{tmp_path}/tmp: others can replace what is in it"):
        playbook("- name: Say it\n  ansible.builtin.command: 'true'")
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_limit(playbook: Runner) -> None:
    tasks = "- name: Look\n  ansible.builtin.debug:\n    msg: x\n"
    assert list(playbook(tasks, limit="golden").hosts) == ["node1"]


def test_ansible_does_not_look_all_the_time_whether_a_host_is_done(playbook: Runner) -> None:
    seconds = "lookup('ansible.builtin.config', 'DEFAULT_INTERNAL_POLL_INTERVAL')"
    result = playbook(f"- name: Look\n  ansible.builtin.assert:\n    that: {seconds} >= 0.01\n")
    assert {host.status for host in result.hosts.values()} == {"ok"}, result


def test_a_playbook_that_ansible_cannot_read(playbook: Runner) -> None:
    result = playbook("- name: Nothing\n  no.such.module:\n")
    assert result.hosts == {}
    assert "no.such.module" in str(result.error)


def test_passwords_are_in_no_command_line_environment_or_file(playbook: Runner, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    result = playbook(
        f"""
- name: Look at every process, and at every file of the run
  ansible.builtin.shell: |
    cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | grep -a -c 's3cre[t]' >> {seen}
    grep -r -l 's3cre[t]' "$TMPDIR" >> {seen}
    true
  when: inventory_hostname == 'node1'
""",
        secrets=Secrets(ssh="s3cret-ssh", become="s3cret-become"),
    )
    assert result.hosts["node1"].status == "changed", result
    assert seen.read_text() == "0\n"
    assert "s3cret" not in (tmp_path / "log.txt").read_text()


def ours(marker: Path) -> list[str]:
    """The command lines of all processes that were started with TMPDIR below the marker."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and str(marker).encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


@pytest.fixture
def sleeping(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """`gpuadmin sync-users --yes --json` in the middle of a task that takes long on every host."""
    content = tmp_path / "content"
    write_playbook(
        content,
        "sync-users",
        f"""
- name: Change something
  ansible.builtin.command: "true"
- name: Take long
  ansible.builtin.command: sh -c 'touch {tmp_path}/begun-{{{{ inventory_hostname }}}}; exec sleep 600'
""",
    )
    make_local_site(tmp_path / "site")
    (tmp_path / "tmp").mkdir()
    process = subprocess.Popen(
        stubbed(content, "sync-users", "--yes", "--json", "--site", str(tmp_path / "site")),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp"), "TEST_GRACE": "3"}, start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while len(list(tmp_path.glob("begun-*"))) < 3:
        assert time.monotonic() < deadline, "the playbook did not start"
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)  # the playbook makes files: nothing tells of one
    yield process
    if process.poll() is None:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("group", [False, True], ids=["kill", "Ctrl-C on a terminal"])
def test_an_interrupted_run_leaves_no_process(sleeping: subprocess.Popen[str], tmp_path: Path, group: bool) -> None:
    assert any("ansible-playbook" in line for line in ours(tmp_path / "tmp"))
    begun = time.monotonic()
    if group:
        os.killpg(sleeping.pid, signal.SIGINT)
    else:
        os.kill(sleeping.pid, signal.SIGINT)
    out, err = sleeping.communicate(timeout=300)
    assert time.monotonic() - begun < 300, "it waited for what was going on"
    assert sleeping.returncode == 130, err
    assert "Traceback" not in err
    assert "Interrupted" in err
    assert [line for line in ours(tmp_path / "tmp") if "ansible" in line] == []
    # a module that was ended in the middle may leave its own directory; what a run is made from is gone
    assert list((tmp_path / "tmp").glob("gpuadmin-*")) == []
    document = json.loads(out)
    # one word, whoever is asked: the document, its hosts, the list of runs, and what pends
    assert document["status"] == "interrupted"
    words = {host["status"] for host in document["hosts"].values()}
    assert words == {"interrupted"}, "the first task was done on each, the second was not"
    assert document["hosts"]["node1"]["changed"] == ["Change something"]
    for verb, asked in (("runs", "runs"), ("status", "pending")):
        shown = subprocess.run(
            stubbed(tmp_path / "content", verb, "--json", "--site", str(tmp_path / "site")),
            check=False, capture_output=True, text=True,
        )  # fmt: skip
        found = json.loads(shown.stdout)["result"][asked]
        (one,) = [run for run in (found if verb == "runs" else found["runs"]) if "sync-users" in json.dumps(run)]
        assert one["status"] == "interrupted"
        if verb == "status":
            assert set(one["hosts"]) == {"storage1", "node1", "node2"}
    (directory,) = (tmp_path / "site/runs").glob("*-sync-users-*")
    result = json.loads((directory / "result.json").read_text())
    assert result["exit_code"] == 130


def test_an_ansible_that_hangs_is_ended_all_the_same(sleeping: subprocess.Popen[str], tmp_path: Path) -> None:
    """Stopped, it hears neither INT nor TERM; neither do its workers."""
    for process in interrupt._children(sleeping.pid):
        os.kill(process, signal.SIGSTOP)
    os.kill(sleeping.pid, signal.SIGINT)
    _, err = sleeping.communicate(timeout=300)
    assert sleeping.returncode == 130, err
    assert [line for line in ours(tmp_path / "tmp") if "ansible" in line] == []


@pytest.mark.holds("a verb that changes things holds the lock")
def test_a_second_admin_is_told_who_is_at_it(sleeping: subprocess.Popen[str], tmp_path: Path) -> None:
    other = subprocess.run(
        stubbed(tmp_path / "content", "add-user", "minji", "--yes", "--json", "--site", str(tmp_path / "site")),
        check=False, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert other.returncode == 5
    document = json.loads(other.stdout)
    assert document["status"] == "refused"
    assert f"runs sync-users since {time.strftime('%Y-')}" in document["result"]["error"]
    assert f"process {sleeping.pid}" in document["result"]["error"]
    assert (tmp_path / "site/users.yml").read_text() == "users: []\n"
    os.kill(sleeping.pid, signal.SIGINT)
    sleeping.communicate(timeout=300)


def test_a_killed_controller_takes_ansible_with_it_and_can_be_run_again(
    sleeping: subprocess.Popen[str], tmp_path: Path
) -> None:
    sleeping.kill()
    sleeping.communicate()
    deadline = time.monotonic() + 60
    while [line for line in ours(tmp_path / "tmp") if "ansible" in line] and time.monotonic() < deadline:
        time.sleep(0.2)  # no children of this process: nothing tells of their end
    assert [line for line in ours(tmp_path / "tmp") if "ansible" in line] == []
    write_playbook(tmp_path / "content", "sync-users", "- name: Look\n  ansible.builtin.debug:\n    msg: x\n")
    again = subprocess.run(
        stubbed(tmp_path / "content", "sync-users", "--yes", "--json", "--site", str(tmp_path / "site")),
        check=False, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert again.returncode == 0, again.stderr
    runs = subprocess.run(
        stubbed(tmp_path / "content", "runs", "--json", "--site", str(tmp_path / "site")),
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert [run["status"] for run in json.loads(runs.stdout)["result"]["runs"]] == ["ok", "unfinished"]


@pytest.fixture
def other_run() -> Iterator[subprocess.Popen[bytes]]:
    """A process of ours that looks like another run's ansible-playbook; it is not a child of this process."""
    starts = subprocess.Popen(
        ["sh", "-c", 'sh -c "$LONG" & echo $!; wait'],
        env={"PATH": os.environ["PATH"], "LONG": "sleep 600; : ansible-playbook"},
        stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert starts.stdout is not None
    int(starts.stdout.readline())
    yield starts
    with suppress(ProcessLookupError):
        os.killpg(starts.pid, signal.SIGKILL)
    starts.communicate()


@pytest.mark.holds("a signal ends no other run of this machine")
def test_only_our_own_ansible_playbook_is_ended(other_run: subprocess.Popen[bytes]) -> None:
    assert len(interrupt._children(other_run.pid)) == 1
    assert interrupt._children(os.getpid()) == []


@pytest.mark.holds("no process is ended that came after ansible-playbook and got its number")
@pytest.mark.parametrize("fails", [False, True])
def test_what_looks_after_a_run_hears_how_it_ended(
    fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interrupt, "_GRACE", 0.05)  # this very process reads, and does not end
    reader = None
    with suppress(MemoryError), layer._told_when_over(tmp_path) as alive:
        reader = os.open(alive, os.O_RDONLY | os.O_NONBLOCK)
        if fails:
            raise MemoryError
    assert reader is not None
    assert os.read(reader, 10) == (b"" if fails else b"\n")
    os.close(reader)


def test_without_what_looks_after_it_no_run_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A zip keeps no modes, and the ansible-playbook behind it in PATH would run on without the site's lock."""
    (tmp_path / "ansible-playbook").write_text("#!/bin/sh\n")
    monkeypatch.setattr(layer, "LIBEXEC", tmp_path)
    with (
        pytest.raises(GpuadminError, match="may not be run") as caught,
        layer._told_when_over(tmp_path),
    ):
        pass
    assert f"chmod +x {tmp_path}/ansible-playbook" in str(caught.value.hint)


@pytest.mark.holds(
    "nothing of a run goes on when it has ended here",
    "a run that ended ends no other run of this machine",
    "a run whose ansible-playbook was killed is not whole",
)
@pytest.mark.parametrize(
    "what", ["gpuadmin fails", "gpuadmin fails, ansible-playbook hangs", "ansible-playbook is killed"]
)
def test_nothing_of_a_run_goes_on_without_the_lock(
    what: str,
    playbook: Runner,
    other_run: subprocess.Popen[bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A full disk, or no memory: gpuadmin let the site's lock go, and Ansible went on with the hosts."""
    monkeypatch.setattr(interrupt, "_GRACE", 3.0)
    begun: list[str] = []

    def happens(host: str, word: str, detail: str) -> None:
        begun.extend([host] if (word, detail) == ("begun", "Take long") else [])
        if len(begun) < 3:
            return
        deadline = time.monotonic() + 60
        while len(list(tmp_path.glob("begun-*"))) < 3 and time.monotonic() < deadline:
            time.sleep(0.1)  # the playbook makes files: nothing tells of one
        for process in interrupt._children(os.getpid()):
            if what != "gpuadmin fails":
                os.kill(process, signal.SIGKILL if "killed" in what else signal.SIGSTOP)
        if what != "ansible-playbook is killed":
            raise MemoryError

    tasks = f"""
- name: Take long
  ansible.builtin.command: sh -c 'touch {tmp_path}/begun-{{{{ inventory_hostname }}}}; exec sleep 600'
"""
    failed = result = None
    try:
        result = playbook(tasks, on_host=happens)
    except MemoryError as error:
        failed = error  # what it holds is closed only at the end
    assert [line for line in ours(tmp_path / "tmp") if "ansible" in line] == []
    assert (failed is None) == ("killed" in what)
    if result is not None:
        assert result.interrupted
        assert "was killed on this machine" in str(result.error)
    assert len(interrupt._children(other_run.pid)) == 1


def workers_at(directory: Path, begun: str) -> tuple[int, list[int]]:
    """The ansible-playbook of this process, and its workers, once their playbook has made a file of that name."""
    (ansible,) = interrupt._children(os.getpid())
    workers: list[int] = []
    deadline = time.monotonic() + 60
    while not workers and time.monotonic() < deadline:
        workers = interrupt._children(ansible) if list(directory.glob(begun)) else []
        time.sleep(0.05)  # the playbook makes a file: nothing tells of one
    return ansible, workers


@pytest.mark.holds("of whom no task was heard, one may have been done in part")
def test_nothing_of_a_run_goes_on_after_ctrl_c_while_its_end_is_waited_for(
    playbook: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ansible-playbook was killed, its workers hang: nothing is to be seen, and somebody presses Ctrl-C."""
    monkeypatch.setattr(interrupt, "_GRACE", 1.0)
    workers: list[int] = []

    def happens(host: str, word: str, detail: str) -> None:
        if (word, detail) != ("begun", "Take long") or workers:
            return
        ansible, found = workers_at(tmp_path, "begun-*")
        workers.extend(found)
        for process in workers:
            os.kill(process, signal.SIGSTOP)
        os.kill(ansible, signal.SIGKILL)

    def waits(alive: Path) -> None:
        signal.raise_signal(signal.SIGINT)
        interrupt.until_ended(alive)

    monkeypatch.setattr(layer, "until_ended", waits)
    result = None
    with suppress(KeyboardInterrupt):
        result = playbook(
            f"""
- name: Take long
  ansible.builtin.command: sh -c 'touch {tmp_path}/begun-{{{{ inventory_hostname }}}}; exec sleep 600'
""",
            on_host=happens,
        )
    left = [line for line in ours(tmp_path / "tmp") if "ansible" in line]
    for process in workers if left else ():
        os.kill(process, signal.SIGKILL)
    assert (bool(workers), left) == (True, [])
    assert result is not None
    assert result.interrupted
    assert {host.status for host in result.hosts.values()} == {"interrupted"}, "in their first task, which did things"


@pytest.mark.holds("a run that Ansible did not bring to its end is not whole")
def test_a_run_whose_workers_were_killed_says_of_no_host_that_it_is_done(playbook: Runner, tmp_path: Path) -> None:
    """One host had failed before: that was all that was told, and the others passed for done."""
    killed: list[int] = []

    def happens(host: str, word: str, detail: str) -> None:
        if (host, word, detail) != ("node2", "begun", "Go on"):
            return
        _ansible, found = workers_at(tmp_path, "begun-node2")
        killed.extend(found)
        for worker in killed:
            os.kill(worker, signal.SIGKILL)

    result = playbook(
        f"""
- name: Change something
  ansible.builtin.command: "true"
- name: One fails
  ansible.builtin.command: "false"
  when: inventory_hostname == 'node1'
- name: Go on
  ansible.builtin.command: sh -c 'touch {tmp_path}/begun-{{{{ inventory_hostname }}}}; exec sleep 5'
- name: The end
  ansible.builtin.command: "true"
""",
        on_host=happens,
    )
    assert killed
    assert {name: host.status for name, host in result.hosts.items()} == {
        "node1": "failed", "node2": "interrupted", "storage1": "interrupted",
    }  # fmt: skip
    assert result.interrupted
    assert result.error == "[ERROR]: A worker was found in a dead state"


@pytest.mark.holds("a signal is not forgotten where no process can be started")
def test_a_signal_that_finds_no_room_for_a_process_is_handed_on_later(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def full(*_given: object, **more: object) -> None:
        asked.append(more["start_new_session"])  # so that the next Ctrl-C does not end it
        raise BlockingIOError

    monkeypatch.setattr(subprocess, "run", full)
    monkeypatch.setattr(interrupt, "_GRACE", 0.1)
    with interrupt.handed_on() as received:
        signal.raise_signal(signal.SIGTERM)
        deadline = time.monotonic() + 60
        while len(asked) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)  # timers tell of nothing
    assert (received, asked) == ([signal.SIGTERM], [True, True, True])


@pytest.fixture
def wrapped(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Our ansible-playbook: the process that started it, in gpuadmin's place, and its own number."""
    alive, programs = tmp_path / "alive", tmp_path / "bin"
    os.mkfifo(alive)
    programs.mkdir()
    for name in ("dirname", "sh", "sleep"):
        (programs / name).symlink_to(str(shutil.which(name)))
    (programs / "ansible-playbook").write_text(f"#!/bin/sh\necho $$ >{tmp_path}/number\nexec sleep 600\n")
    (programs / "ansible-playbook").chmod(0o755)
    starts = subprocess.Popen(
        ["/bin/sh", "-c", f"exec 8<>{alive}; '{invocation.LIBEXEC}/ansible-playbook' 8>&- & wait"],
        env={"PATH": str(programs), "TMPDIR": str(tmp_path), "GPUADMIN_ALIVE": str(alive)}, start_new_session=True,
    )  # fmt: skip
    number = tmp_path / "number"
    deadline = time.monotonic() + 60
    while not (number.exists() and number.read_text().endswith("\n")) and time.monotonic() < deadline:
        time.sleep(0.05)  # nothing tells of a file
    yield starts, int(number.read_text())
    with suppress(ProcessLookupError):
        os.killpg(starts.pid, signal.SIGKILL)
    starts.wait()


def test_a_run_that_is_over_ends_nothing(wrapped: tuple[subprocess.Popen[bytes], int], tmp_path: Path) -> None:
    starts, own = wrapped
    there = len(ours(tmp_path))
    (tmp_path / "alive").write_bytes(b"\n")
    deadline = time.monotonic() + 60
    while len(ours(tmp_path)) == there and time.monotonic() < deadline:
        time.sleep(0.05)  # no child of this process: nothing tells of its end
    starts.kill()
    starts.wait()
    os.kill(own, 0)


@pytest.mark.parametrize("ends", ["gpuadmin", "ansible-playbook"])
def test_nothing_outlives_gpuadmin_or_ansible(
    ends: str, wrapped: tuple[subprocess.Popen[bytes], int], tmp_path: Path
) -> None:
    """ansible-runner has it ignore SIGHUP: by that alone it went on through the whole playbook."""
    starts, own = wrapped
    assert len(ours(tmp_path)) >= 3, "it, what started it, and what looks after it"
    if ends == "gpuadmin":
        starts.kill()
        starts.wait()
    else:
        os.kill(own, signal.SIGKILL)
        assert starts.wait(60) is not None
    deadline = time.monotonic() + 60
    while ours(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.1)  # no children of this process: nothing tells of their end
    assert ours(tmp_path) == []
