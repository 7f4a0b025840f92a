"""What a host is given stays out of its journal, where admins, and whoever gets it forwarded, read.

Our operations write nothing there; modules of Ansible's own would write their arguments.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuadmin.ansible.invocation import Invocation, environment

PLAY = """
- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - gpuadmin.node.files:
        files: [{path: DIRECTORY/exporter.key, content: PRIVATE, mode: "0600", show_diff: false}]
    - ansible.builtin.lineinfile: {path: DIRECTORY/other.key, line: PRIVATE, mode: "0600", create: true}
"""
# what AnsibleModule.log() calls where Python has no binding of the journal's
SPY = """
import syslog
def said(priority, text): open('DIRECTORY/said', 'a').write(f'{text}\\n')
syslog.syslog = said
"""


@pytest.mark.parametrize("ours", [True, False])
def test_a_key_is_not_in_it(tmp_path: Path, ours: bool) -> None:
    play, spy = tmp_path / "play.yml", tmp_path / "spy"
    play.write_text(PLAY.replace("DIRECTORY", str(tmp_path)))
    spy.mkdir()
    (spy / "sitecustomize.py").write_text(SPY.replace("DIRECTORY", str(tmp_path)))
    variables = environment(Invocation("x", (), tmp_path / "known", 1), tmp_path, tmp_path)
    if not ours:
        del variables["ANSIBLE_NO_TARGET_SYSLOG"]  # the spy does see it
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "--check", "-i", "localhost,", str(play)]
    given = json.dumps({"ansible_python_interpreter": sys.executable, "ansible_remote_tmp": str(tmp_path / "remote")})
    done = subprocess.run(
        [*command, "-e", given],
        env={"HOME": os.environ.get("HOME", "/root"), **variables, "PYTHONPATH": str(spy)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    said = tmp_path / "said"
    assert ("PRIVATE" in said.read_text() if said.exists() else False) is not ours
