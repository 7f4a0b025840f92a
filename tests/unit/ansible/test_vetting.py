"""A host that lies to Ansible itself: what it says of a module is held to its form, and the run goes on."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.json_utils import _filter_non_json_lines
from ansible_collections.gpuadmin.node.plugins.plugin_utils import vetting
from hypothesis import given
from hypothesis import strategies as st

from gpuadmin.ansible.invocation import Invocation, environment

GOOD = {
    "changed": True,
    "operations": ["add minji"],
    "report": {"users": {"minji": {"status": "ok"}}},
    "rc": 0,
    "msg": "",
}
ODD: dict[str, Any] = {
    "ansible_stats": 5, "ansible_facts": 5, "changed": "yes", "failed": [1], "rc": "x", "msg": {"a": 1},
    "stdout": 7, "deep": json.loads("[" * 60 + "]" * 60), "finished": 1, "unreachable": "no", "skipped": 0,
}  # fmt: skip


def read(output: bytes) -> Any:
    """What Ansible takes from it, in its own way."""
    return json.loads(_filter_non_json_lines(output.decode(), objects_only=True)[0])


@pytest.mark.parametrize("before", ["", "Welcome\n", "\n  "])
@pytest.mark.parametrize("after", ["", "\n", "\nbye\n"])
def test_an_honest_answer_stays_as_it_is(before: str, after: str) -> None:
    assert read(vetting.vetted(f"{before}{json.dumps(GOOD)}{after}".encode())) == GOOD


@pytest.mark.holds("an answer that ends Ansible is that host's failure")
@pytest.mark.parametrize(("key", "value"), ODD.items(), ids=ODD)
def test_an_odd_one_is_a_failure_in_words(key: str, value: object) -> None:
    found = read(vetting.vetted(json.dumps({**GOOD, "changed": True, key: value}).encode()))
    assert found["failed"] is True
    assert found["msg"].startswith("its answer is not understood: ")
    assert found["changed"] is (key != "changed")


@pytest.mark.parametrize(
    "text", ["{", '{"a": NaN}', '{"a": 1e999}', '{"n": ' + "9" * 5000 + "}", '{"a": ' + "[" * 5000 + "]" * 5000 + "}"]
)
def test_what_is_no_json_of_numbers_and_texts(text: str) -> None:
    assert read(vetting.vetted(text.encode()))["failed"] is True


def test_what_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vetting, "LONGEST", 1 << 20)
    assert "longer than 1 MiB" in read(vetting.vetted(b"{" + b"\n" * (1 << 20)))["msg"]
    monkeypatch.setattr(vetting, "MOST_VALUES", 100)
    assert "more than 100 values" in read(vetting.vetted(json.dumps({"a": [0] * 101}).encode()))["msg"]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
keys = st.sampled_from([*ODD, "report", "operations", "warnings", "diff", "x"])


@given(st.dictionaries(keys, values, max_size=4) | values, st.text(max_size=20), st.text(max_size=20))
def test_whatever_a_host_prints_ansible_reads_nothing_odd(answer: Any, before: str, after: str) -> None:
    output = vetting.vetted(f"{before}{json.dumps(answer)}{after}".encode("utf-8", "replace"))
    try:
        found = read(output)
    except ValueError:
        return  # to Ansible that is a module that failed
    assert vetting.problem(found) is None


_SSH = """#!/usr/bin/env -S "{python}"
# stands for ssh: an honest host is this machine, a lying one prints what the test says
import os, subprocess, sys
host, command = [word for word in sys.argv if word in ("liar", "honest")][-1], sys.argv[-1]
if host == "liar" and "/usr/bin/env lie" in command:
    sys.stdin.buffer.read()
    print(open("{lie}").read())
    sys.exit(0)
sys.exit(subprocess.run(["sh", "-c", command]).returncode)
"""
_PLAY = """
- hosts: [liar, honest]
  gather_facts: false
  tasks:
    - ansible.builtin.stat: {path: /etc}
    - ansible.builtin.stat: {path: /usr}
      register: last
    - ansible.builtin.copy: {dest: "{{ here }}/done", content: "{{ last.stat.path }}"}
      delegate_to: localhost
      vars: {ansible_connection: local, ansible_python_interpreter: "{{ ansible_playbook_python }}"}
"""


@pytest.mark.holds("what hosts answer goes through the vetting")
@pytest.mark.parametrize("lie", ['{"ansible_stats": 5}', '{"changed": "x", "add_host": 5}', "[1]"])
def test_a_run_goes_on_without_a_host_that_lies(tmp_path: Path, lie: str) -> None:
    """`ansible_stats` that is a number ended ansible-playbook, and with it the run of every other host."""
    (tmp_path / "lie").write_text(lie)
    ssh = tmp_path / "ssh"
    ssh.write_text(_SSH.format(python=sys.executable, lie=tmp_path / "lie"))
    ssh.chmod(0o755)
    hosts = {"liar": {"ansible_python_interpreter": "/usr/bin/env lie"}, "honest": {}}
    inventory = {"all": {"hosts": hosts, "vars": {"ansible_ssh_executable": str(ssh), "here": str(tmp_path),
                                                  "ansible_python_interpreter": sys.executable}}}  # fmt: skip
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(inventory))
    (tmp_path / "play.yml").write_text(_PLAY)
    (tmp_path / "ansible.cfg").touch()
    call = Invocation(playbook="x", inventory=(tmp_path,), known_hosts=tmp_path / "known_hosts", hosts=2)
    given_ = {**environment(call, tmp_path, tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(
        [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "hosts.yml", "play.yml"],
        cwd=tmp_path, env=given_, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stdout + done.stderr
    assert (tmp_path / "done").read_text() == "/usr", done.stdout + done.stderr
    assert "liar" in done.stdout
    assert "failed=1" in done.stdout


_ENDLESS = """
import sys
from pathlib import Path
from ansible.playbook.play_context import PlayContext
from ansible.plugins.loader import connection_loader, init_plugin_loader
init_plugin_loader([])
context = PlayContext()
context.remote_addr = "liar"
connection = connection_loader.get("gpuadmin.node.ssh", context, "/dev/null")
sys.modules[type(connection).__module__].ROOM = 200 << 20
connection.set_options(direct={"host": "liar", "ssh_executable": sys.argv[1], "pipelining": True, "ssh_args": "",
                               "control_path_dir": sys.argv[2], "retries": 0, "reconnection_retries": 0})
if sys.argv[3] == "module":
    print(connection.exec_command("python3", in_data=b"x", sudoable=False)[1].decode())
else:
    try:
        connection.exec_command("true", sudoable=False)
    except Exception as error:
        print(type(error).__name__, error)
print(int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) >> 10)
"""


@pytest.mark.holds("an answer without an end takes only so much memory")
@pytest.mark.parametrize(("kind", "words"), [("module", "it is longer than 64 MiB"), ("command", "does not end")])
def test_an_answer_without_an_end_takes_only_so_much_memory(tmp_path: Path, kind: str, words: str) -> None:
    """Ansible keeps all of it, several times over, before anybody can look: that is the process of one host's task."""
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\nexec head -c 700000000 /dev/zero\n")
    ssh.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", _ENDLESS, str(ssh), str(tmp_path), kind],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    answer, _, memory = done.stdout.strip().rpartition("\n")
    assert words in answer, done.stderr
    assert int(memory) < 600, "MiB; ru_maxrss would count what the process was forked from"
