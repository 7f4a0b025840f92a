"""top --local, from its command line to what people and programs see of it."""

import json
import time

from gpuadmin.results import HostResult, RunResult
from tests.support.fake_ansible import Ansible, Cli
from tests.support.measured_site import ansible, bare
from tests.support.metrics_cluster import node

__all__ = ["ansible", "bare"]


def written(name: str) -> HostResult:
    """As a node's collector writes it: without the time of each line, and without what Prometheus adds."""
    lines = (line.rpartition(" ")[0] for line in node(name, time.time(), held={0: ("minji", "train")}))
    own = (line for line in lines if not line.startswith(("up{", "probe_success{")))
    return HostResult("ok", reports={"measured": {"text": "\n".join(own) + "\n"}})


def test_one_look_in_check_mode(ansible: Ansible, cli: Cli) -> None:
    gone = HostResult("unreachable", message="does not answer (timed out)")
    ansible.answer = RunResult({"node1": written("node1"), "node2": gone})
    code, out, err = cli("top", "--local")
    assert code == 4, err
    assert [call.check for call in ansible.asked] == [True]
    assert "1 of 2 nodes up · 1 of 2 GPUs free" in out
    assert "minji in train" in out
    assert "node2: does not answer (timed out)" in out
    code, out, _ = cli("top", "--local", "--json")
    result = json.loads(out)["result"]
    assert result["nodes"]["node1"]["devices"][1]["free"] is True
    assert result["nodes"]["node2"]["state"] == "silent"
    assert result["nodes"]["node2"]["devices"] == []


def test_what_a_person_holds(ansible: Ansible, cli: Cli) -> None:
    ansible.answer = RunResult({name: written(name) for name in ("node1", "node2")})
    code, out, _ = cli("top", "--local", "--user", "minji")
    assert code == 0
    assert "minji in train" in out
    assert ansible.site is not None
    (ansible.site / "users.yml").write_text("users: [{name: jiho, uid: 20000}]\n")
    code, out, _ = cli("top", "--local", "--user", "jiho")
    assert code == 0
    assert "Nobody by that name holds a GPU." in out


def test_a_node_cannot_speak_for_another(ansible: Ansible, cli: Cli) -> None:
    text = 'gpuadmin_gpus_expected{instance="node2"} 99\n'
    ansible.answer = RunResult({
        "node1": HostResult("ok", reports={"measured": {"text": text}}), "node2": written("node2"),
    })  # fmt: skip
    _, out, _ = cli("top", "--local", "--json")
    assert json.loads(out)["result"]["nodes"]["node2"]["expected"] == 2


def test_a_name_that_nobody_has_is_no_answer(ansible: Ansible, cli: Cli) -> None:
    ansible.answer = RunResult({name: written(name) for name in ("node1", "node2")})
    code, out, err = cli("top", "--local", "--user", "nobody-of-us")
    assert (code, out) == (2, ""), out
    assert "not registered: 'nobody-of-us'" in err
