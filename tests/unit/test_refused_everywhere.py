"""Whom the storage host refuses a home, the nodes are told of in the same run: by the inventory that every site has."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
# stands for the module `homes`, and for `accounts`: it fails with the report that it was given
MODULE = """
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule({"report": {"type": "dict"}, "fail": {"type": "bool"}})
(module.fail_json if module.params["fail"] else module.exit_json)(msg="x", report=module.params["report"])
"""
WHY = "uid 20005 was given to {{ alice }}"  # what a host says is data


@pytest.mark.parametrize(
    ("away", "report", "refused"),
    [
        (False, {"refused": {"bob": WHY}}, [{"name": "bob", "reason": WHY}]),
        (False, {"homes": {}, "problems": ["not mounted"]}, []),
        (True, {}, []),
        (False, {"refused": {"bob": 5, "../etc": "x"}}, []),
        (False, {"refused": 5}, []),
    ],
    ids=["refused", "the storage host failed", "the storage host is away", "it lies of somebody", "it lies"],
)
def test_the_nodes_are_told(
    tmp_path: Path, away: bool, report: dict[str, object], refused: list[dict[str, str]]
) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library/speak.py").write_text(MODULE)
    connection = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 9} if away else {}
    inventory = {
        "storage": {"hosts": {"nas": connection}},
        "gpu": {"hosts": {"node1": {}}},
        "all": {"vars": {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}},
    }
    (tmp_path / "inventory.yml").write_text(yaml.safe_dump(inventory))
    given = yaml.safe_load((ROOT / "inventory/groups.yml").read_text())["all"]["vars"]
    (tmp_path / "report.yml").write_text(yaml.safe_dump({"report": report}))
    # the plays of sync-users.yml, whose roles need a host
    first, second = yaml.safe_load((ROOT / "playbooks/sync-users.yml").read_text())
    first["tasks"][1] = {
        "speak": {"report": "{{ (lookup('ansible.builtin.file', 'report.yml') | from_yaml).report }}", "fail": True},
        "register": "__homes_server_homes",
    }
    play = {
        **second,
        "vars": {"accounts_refused": given["accounts_refused"]},
        "tasks": [
            {"speak": {"report": {"refused": "{{ accounts_refused }}"}}, "register": "told"},
            {"copy": {"content": "{{ told.report.refused | to_json }}", "dest": str(tmp_path / "told")}},
        ],
    }  # fmt: skip
    (tmp_path / "play.yml").write_text(yaml.safe_dump([first, play]))
    apply = yaml.safe_load((ROOT / "roles/homes_server/tasks/apply.yml").read_text())
    assert apply[0]["register"] == "__homes_server_homes"
    done = subprocess.run(
        [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "inventory.yml", "play.yml"],
        cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "gpuadmin/collections")},
    )  # fmt: skip
    assert (tmp_path / "told").exists(), done.stdout + done.stderr
    assert yaml.safe_load((tmp_path / "told").read_text()) == refused
