"""The driver, the gate and grants as roles and verbs ask for them: a check does nothing, and what is refused."""

import json
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import background, followed, health
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError, NothingBegun
from ansible_collections.gpuadmin.node.plugins.module_utils.files import flocked
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import (
    burning,
    gate,
    grants,
    kernels,
    mig,
    operations,
    pci,
    reconcile,
    trials,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.kernels import Installed
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.look import Sick
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.mig import MigDevice, Waiting
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.operations import WantedGrant
from ansible_collections.gpuadmin.node.plugins.module_utils.logins import occupants
from ansible_collections.gpuadmin.node.plugins.module_utils.root import operations as root_operations
from ansible_collections.gpuadmin.node.plugins.module_utils.root import session

from gpuadmin.common.waiting import BURN_IN, SICK
from tests.support.gated_host import GatedHost, gated_host, read_only
from tests.support.operations import ask

SOON = int(time.time()) + 86400  # all tests together may take more than an hour


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GatedHost:
    monkeypatch.setattr(root_operations, "run_after", lambda commands: None)
    monkeypatch.setattr(followed, "RUN", str(tmp_path / "run"))
    return gated_host(tmp_path, monkeypatch)


def wanted(**other: Any) -> WantedGrant:
    return WantedGrant(
        **{"id": "a1", "user": "minji", "uid": 20000, "until": SOON, "who": "root@nas", "number": 1, **other}
    )


def closed(host: GatedHost, tmp_path: Path, *, check: bool = False) -> Any:
    devices = {name: [str(tmp_path / f"gpu{name}")] for name in "01"}
    return operations.set_gate(operations.GateOrder("granted", devices=devices), check, host.places)


@pytest.mark.root
def test_the_gate_is_written_and_taken_back(host: GatedHost, tmp_path: Path) -> None:
    Path(host.places.settings).unlink()
    shutil.rmtree(host.places.units)
    looked = closed(host, tmp_path, check=True).result()
    assert looked["changed"] is True
    files = len([host.places.settings, gate.SLICES, *gate.SERVICES])
    assert looked["operations"] == [f"write {files} files of the gate (gpus.access: granted)"]
    assert not Path(host.places.units).exists()
    closed(host, tmp_path)
    drop_ins = sorted(path.parent.name for path in Path(host.places.units).glob(f"*/{gate.DROP_IN}"))
    assert drop_ins == sorted(f"{unit}.d" for unit in (gate.SLICES, *gate.SERVICES))
    assert "user-20000.slice" in host.units(), "what runs is brought to it, too"
    assert closed(host, tmp_path).result()["changed"] is False
    opened = operations.set_gate(operations.GateOrder("open"), False, host.places).result()["operations"]
    # and that systemd has read them
    assert opened == [f"remove {files + 1} files of the gate (gpus.access: open)"]
    assert [path for path in Path(host.places.units).rglob("*") if path.is_file()] == []
    assert not Path(host.places.settings).exists()


@pytest.mark.root
def test_a_gate_that_is_not_in_force_fails(host: GatedHost, tmp_path: Path) -> None:
    host.lies = [str(tmp_path / "gpu1")]
    with pytest.raises(NodeError, match="gpu1 can be opened, and is not granted"):
        closed(host, tmp_path)


@pytest.mark.root
def test_a_gate_that_was_found_open_is_a_difference(
    host: GatedHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So drift says it, and a run that closes it says what it did."""
    closed(host, tmp_path)
    monkeypatch.setattr(gate, "problems", lambda root: ["ssh.service: /dev/gpu1 can be opened, and is not granted"])
    for check in (True, False):
        done = closed(host, tmp_path, check=check).result()
        assert done["operations"] == ["close the gate: ssh.service: /dev/gpu1 can be opened, and is not granted"]
        assert done["changed"] is True
    operations.set_gate(operations.GateOrder("open"), False, host.places)
    assert operations.set_gate(operations.GateOrder("open"), True, host.places).result()["operations"] == []


@pytest.mark.root
def test_a_grant_begins_and_ends(host: GatedHost, tmp_path: Path) -> None:
    looked = operations.change_grants(operations.GrantsOrder(wanted()), True, host.places)
    assert looked.result()["changed"] is True
    assert grants.read(host.places.state) == ([], []), "a check writes nothing"
    done = operations.change_grants(operations.GrantsOrder(wanted()), False, host.places).result()
    assert done["report"]["grants"]["grants"][0]["gpus"] == ["0"]
    assert host.units()["user-20000.slice"] == [str(tmp_path / "gpu0")]
    again = operations.change_grants(operations.GrantsOrder(wanted()), False, host.places)
    assert again.result()["changed"] is False, "asked again because ssh broke"
    host.told.clear()
    operations.change_grants(operations.GrantsOrder(end=["a1", "gone"]), False, host.places)
    assert host.units() == {"user-20000.slice": []}
    assert grants.read(host.places.state) == ([], [])


@pytest.mark.holds("an admin grants nothing into a window unseen")
def test_nothing_is_granted_into_a_window(host: GatedHost) -> None:
    now = int(time.time())
    window = {"closed_from": now + 60, "closed_until": 2**31}
    text = json.dumps([{"id": "x", "begin": 0, "end": 1, "text": "x", **window}])
    (Path(host.places.state) / "announcements.json").write_text(text)
    with pytest.raises(NodeError, match="this node is maintained from"):
        operations.change_grants(operations.GrantsOrder(wanted()), True, host.places)


@pytest.mark.root
def test_a_look_says_who_has_the_gpu_open_now(host: GatedHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is open when a grant begins stays open; of the person of the grant nobody needs to hear it."""
    for pid, uid, gpu in (("41", 48211, "gpu0"), ("42", 48212, "gpu1"), ("43", 0, "gpu0"), ("44", 20000, "gpu0")):
        process = Path(host.places.proc, pid)
        (process / "fd").mkdir(parents=True)
        (process / "fd/3").symlink_to(tmp_path / gpu)
        (process / "cgroup").write_text(f"0::/user.slice/user-{uid}.slice/session-1.scope\n")
        os.chown(process, uid, uid)
    monkeypatch.setattr(occupants, "find_name", {20000: "minji", 48211: "jiho"}.get)
    looked = operations.change_grants(operations.GrantsOrder(wanted()), True, host.places)
    assert looked.result()["report"]["grants"]["held"] == {"0": ["jiho"]}


@pytest.mark.root
def test_a_grant_tries_what_it_changes(host: GatedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a hundred people on a node nobody waits for the trial of all; what is known of the host stays as it was."""
    host.go()
    record = Path(host.places.run) / gate.RECORD
    before = record.read_text()
    asked = []
    monkeypatch.setattr(
        trials, "opens", lambda cgroup, paths, seconds: asked.append(Path(cgroup).name) or host.opens(cgroup, paths)
    )
    operations.change_grants(operations.GrantsOrder(wanted()), False, host.places)
    assert set(asked) == {"user-20000.slice"}
    assert record.read_text() == before
    host.lies = [host.places.root + "/gpu1"]
    said: Any = operations.change_grants(operations.GrantsOrder(end=["a1"]), False, host.places)
    assert "gpu1 can be opened, and is not granted" in said.result()["msg"]
    host.go()
    assert "ssh.service" in asked, "the timer tries all"


def test_a_place_is_a_gpu_s_number(host: GatedHost) -> None:
    settings = json.loads(Path(host.places.settings).read_text())
    settings["gpus"] = {"GPU-a": ["/dev/a"], "GPU-b": ["/dev/b"]}
    Path(host.places.settings).write_text(json.dumps(settings))
    answer = operations.change_grants(operations.GrantsOrder(wanted(number=0, gpus=["1"])), True, host.places)
    assert answer.result()["report"]["grants"]["grants"][0]["gpus"] == ["GPU-b"]


def divided(host: GatedHost, tmp_path: Path) -> None:
    """GPU b has two MIG devices; a is whole."""
    parts = {name: ["/dev/nvidia1", f"/dev/nvidia-caps/nvidia-cap{at}"] for at, name in ((9, "MIG-1"), (18, "MIG-2"))}
    settings = json.loads(Path(host.places.settings).read_text())
    settings["gpus"] = {"GPU-a": ["/dev/nvidia0"], "GPU-b": ["/dev/nvidia1"], **parts}
    Path(host.places.settings).write_text(json.dumps(settings))
    mig.write([MigDevice(name, "GPU-b", "1g.10gb", files) for name, files in parts.items()], host.places.run)


def granted(host: GatedHost, who: int, **other: Any) -> list[str]:
    document = operations.GrantsOrder(wanted(id=f"a{who}", user=f"user{who}", uid=20000 + who, **other))
    operations.change_grants(document, False, host.places)
    return list({one.id: one.gpus for one in grants.read(host.places.state)[0]}[f"a{who}"])


@pytest.mark.root
@pytest.mark.holds("a GPU and a MIG device of it are not granted to two")
def test_a_mig_device_and_its_gpu_are_not_two_people_s(host: GatedHost, tmp_path: Path) -> None:
    divided(host, tmp_path)
    assert granted(host, 1, number=0, mig="1g.10gb") == ["MIG-1"]
    assert host.units()["user-20001.slice"] == ["/dev/nvidia-caps/nvidia-cap9", "/dev/nvidia1"]
    with pytest.raises(NodeError, match=r"GPU GPU-b is granted to user1 \(grant a1\)"):
        granted(host, 2, number=0, gpus=["1"])
    assert granted(host, 2, number=0, mig="1g.10gb") == ["MIG-2"], "its neighbour"
    with pytest.raises(NodeError, match=r"all 2 MIG devices of the profile 1g\.10gb are granted"):
        granted(host, 3, number=0, mig="1g.10gb")
    with pytest.raises(NodeError, match=r"no MIG device of the profile 9g\.90gb; there are: 1g\.10gb"):
        granted(host, 3, number=0, mig="9g.90gb")
    operations.change_grants(operations.GrantsOrder(end=["a1", "a2"]), False, host.places)
    assert granted(host, 4, number=0, gpus=["GPU-b"]) == ["GPU-b"]
    with pytest.raises(NodeError, match="MIG-1 is granted to user4"):
        granted(host, 5, number=0, gpus=["MIG-1"])


@pytest.mark.root
def test_who_asks_for_a_number_gets_whole_gpus(host: GatedHost, tmp_path: Path) -> None:
    divided(host, tmp_path)
    with pytest.raises(NothingBegun, match="asked for: 2; granted to nobody: 1 of 1"):
        granted(host, 1, number=2)
    assert granted(host, 1, number=1) == ["GPU-a"]
    answer = operations.change_grants(operations.GrantsOrder(), True, host.places)
    assert answer.result()["report"]["grants"]["gpus"] == ["GPU-a", "GPU-b"], "places are those of GPUs"


@pytest.mark.root
@pytest.mark.holds("a GPU that waits to be divided is granted to nobody")
def test_what_waits_to_be_divided_is_granted_to_nobody(host: GatedHost, tmp_path: Path) -> None:
    divided(host, tmp_path)
    mig.wait(Waiting(["GPU-a", "GPU-b"]), host.places.run)
    for request in ({"number": 0, "gpus": ["0"]}, {"number": 0, "gpus": ["MIG-1"]}):
        with pytest.raises(NodeError, match="nobody is granted it until that is done"):
            granted(host, 1, **request)
    with pytest.raises(NodeError, match="granted to nobody: 0 of 0"):
        granted(host, 1, number=1)
    with pytest.raises(NodeError, match="there is no MIG device"):
        granted(host, 1, number=0, mig="1g.10gb")
    mig.wait(Waiting(), host.places.run)
    assert granted(host, 1, number=1) == ["GPU-a"]


def test_where_everybody_may_open_them_nothing_is_granted(host: GatedHost) -> None:
    Path(host.places.settings).unlink()
    with pytest.raises(NothingBegun, match="open to everybody"):
        operations.change_grants(operations.GrantsOrder(wanted()), True, host.places)


@pytest.mark.holds("a GPU that is sick is granted to nobody")
@pytest.mark.parametrize(
    ("sick", "answering", "given"),
    [
        ([], None, {"number": ["0"], "name": ["1"]}),
        ([Sick("GPU 0: Xid 48", "0")], None, {"number": ["1"], "name": ["1"]}),
        ([Sick("GPU 1: Xid 48", "1")], None, {"number": ["0"]}),
        ([Sick("10-fan: fan 3 stands still")], None, {}),
        # a full file server takes no GPU from anybody on a node without a queue
        ([Sick("the homes are away", passes=True)], None, {"number": ["0"], "name": ["1"]}),
        ([], ["0"], {"number": ["0"]}),
    ],
)
def test_what_is_sick_is_granted_to_nobody(
    host: GatedHost, monkeypatch: pytest.MonkeyPatch, sick: list[Sick], answering: list[str] | None,
    given: dict[str, Any],
) -> None:  # fmt: skip
    node = health.Health(sick, ["/"], False, answering or [], [], 0)
    monkeypatch.setattr(health, "look_at_node", lambda *_: node)
    if answering is not None:  # not as stand-ins do
        monkeypatch.setattr(health.Health, "working", lambda _, gpus, settings: set(gpus) & set(answering))
    for how, more in (("number", {}), ("name", {"number": 0, "gpus": ["1"]})):
        order = operations.GrantsOrder(wanted(**more))
        if how in given:
            granted = operations.change_grants(order, True, host.places).result()["report"]["grants"]["grants"]
            assert granted[0]["gpus"] == given[how]
            continue
        with pytest.raises(NodeError) as refused:
            operations.change_grants(order, True, host.places)
        assert all(one.words in str(refused.value) for one in sick if not one.passes)


BURN = operations.BurnInOrder(["burn", "-a"], "root@nas", "gpu1")


class Burning:
    """A node that is burnt in: what Slurm is told, and what is known of the burn-in meanwhile."""

    def __init__(self, host: GatedHost, monkeypatch: pytest.MonkeyPatch, status: int = 0) -> None:
        self.host, self.status, self.told = host, status, list[str]()
        self.jobs: list[dict[str, Any]] = []
        monkeypatch.setattr(operations, "gpu_users", lambda *_: [])
        monkeypatch.setattr(operations.shutil, "which", lambda name: f"/usr/bin/{name}")
        monkeypatch.setattr(operations.queue, "ask_jobs", lambda: self.jobs)
        monkeypatch.setattr(operations.draining, "bring", self._bring)
        monkeypatch.setattr(burning.background, "perform", self._perform)
        monkeypatch.setattr(health, "_look_at_homes", lambda *_: [])

    def _bring(self, wanted: Any, **_: object) -> list[str]:
        self.told.append(f"resume {wanted.mark}" if wanted.resume else f"{wanted.mark} {wanted.reason}")
        return []

    def _perform(self, _unit: str, _function: object, order: object, properties: object) -> dict[str, Any]:
        assert (order, properties) == ({"command": ["burn", "-a"]}, ("RuntimeMaxSec=1d",))
        # who asks for a GPU meanwhile is refused, and a job's prolog as well
        (why,) = health.look_at_node(self.host.places).lasting
        assert why.words.endswith(": it has not ended")
        return {"status": self.status, "output": "GPU 0 OK\n\nGPU 1 is 94 C\n"}


@pytest.mark.parametrize(("status", "why"), [(0, ""), (3, "GPU 0 OK GPU 1 is 94 C (status 3)")])
def test_a_burn_in(host: GatedHost, monkeypatch: pytest.MonkeyPatch, status: int, why: str) -> None:
    node = Burning(host, monkeypatch, status)
    assert operations.burn_in(BURN, True, host.places).result()["operations"] == ["burn in: burn -a"]
    assert (node.told, burning.read(host.places.state)) == ([], None), "a check does nothing"
    done = operations.burn_in(BURN, False, host.places).result()
    record = burning.read(host.places.state)
    assert record is not None
    assert (record.problem, record.by, record.ended >= record.begun) == (why, "root@nas", True)
    assert (done.get("failed", False), why in str(done.get("msg", ""))) == (bool(why), True)
    # what it has drained itself it lets take jobs again, or it is sick
    begun, back, *closed = node.told
    assert (begun, back) == (f"{BURN_IN} by root@nas", f"resume {BURN_IN}")
    assert [one.startswith(f"{SICK} burn-in of 20") for one in closed if why] == [True] * bool(why)


@pytest.mark.root
@pytest.mark.parametrize("who", ["job", "holds", "granted"])
@pytest.mark.holds("nobody's work is burnt in")
def test_nobody_s_work_is_burnt_in(host: GatedHost, monkeypatch: pytest.MonkeyPatch, who: str) -> None:
    node, order = Burning(host, monkeypatch), BURN
    if who == "job":
        node.jobs = [{"id": "4", "user": "jiho", "nodes": "gpu1"}]
    elif who == "holds":
        monkeypatch.setattr(operations, "gpu_users", lambda *_: ["jiho"])
    else:
        grants.write(grants.Grant("a1", "jiho", 20001, ["0"], 1000, SOON, "root@nas"), host.places.state)
        order = replace(BURN, node="")
    done = operations.burn_in(order, False, host.places).result()
    assert str(done["msg"]).startswith("in use by jiho")
    assert (node.told, burning.read(host.places.state)) == ([], None)


def test_a_node_that_joins_has_no_queue_yet_and_may_have_no_program(
    host: GatedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Burning(host, monkeypatch)
    monkeypatch.setattr(operations.shutil, "which", lambda _: None)
    assert not operations.burn_in(BURN, False, host.places).result().get("failed")
    assert node.told == []
    monkeypatch.setattr(burning, "DCGM", ("/bin/true", "-a"))
    assert burning.choose_program(()) == ("/bin/true", "-a")
    assert burning.choose_program(("/opt/burn",)) == ("/opt/burn",)
    for path in ("/no/such", "/etc/passwd"):
        monkeypatch.setattr(burning, "DCGM", (path, "-a"))
        with pytest.raises(NodeError, match=rf"{path} is not here: .* gpus\.health\.burn_in"):
            burning.choose_program(())


@pytest.mark.root
def test_what_another_has_is_refused(host: GatedHost) -> None:
    operations.change_grants(operations.GrantsOrder(wanted(number=2)), False, host.places)
    with pytest.raises(NodeError, match="granted to nobody: 0 of 2"):
        operations.change_grants(operations.GrantsOrder(wanted(id="b2", user="jiho", uid=20001)), False, host.places)
    other = wanted(id="b2", user="jiho", uid=20001, number=0, gpus=["0"])
    with pytest.raises(NodeError, match="granted to minji"):
        operations.change_grants(operations.GrantsOrder(other), False, host.places)
    operations.change_grants(operations.GrantsOrder(other, end=["a1"]), False, host.places)
    assert [one.user for one in grants.read(host.places.state)[0]] == ["jiho"], "what ends with it is free"


@pytest.mark.root
@pytest.mark.holds("where a grant cannot be read no GPU is known to be free")
def test_where_a_grant_cannot_be_read_nothing_is_granted(host: GatedHost) -> None:
    """It would be said to have failed, and be in force; and the GPU may be somebody's."""
    operations.change_grants(operations.GrantsOrder(wanted(id="b2", number=0, gpus=["1"])), False, host.places)
    (Path(host.places.state) / grants.DIRECTORY / "c3.json").write_text("{")
    for check in (True, False):
        with pytest.raises(NodeError, match=r"c3\.json opens nothing: .*; remove it"):
            operations.change_grants(operations.GrantsOrder(wanted()), check, host.places)
    ended = operations.change_grants(operations.GrantsOrder(end=["b2"]), False, host.places).result()
    assert host.units()["user-20000.slice"] == [], "an end needs no other grant"
    assert "c3.json" in str(ended["msg"])


@pytest.mark.holds("a grant is of whoever has the uid on this host")
@pytest.mark.parametrize("uid", [None, 20007])
def test_who_is_another_on_the_host_is_granted_nothing(host: GatedHost, uid: int | None) -> None:
    host.people.pop("minji")
    if uid is not None:
        host.people["minji"] = uid
    with pytest.raises(NodeError, match="minji does not have the uid 20000 on this host"):
        operations.change_grants(operations.GrantsOrder(wanted()), True, host.places)


@pytest.mark.root
def test_a_grant_that_begins_later_by_a_clock_that_was_put_back_can_be_revoked(
    host: GatedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps others from the GPU, so it is shown."""
    operations.change_grants(operations.GrantsOrder(wanted(until=SOON + 7200)), False, host.places)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() - 3600)
    answer: Any = operations.change_grants(operations.GrantsOrder(), True, host.places)
    (shown,) = answer.result()["report"]["grants"]["grants"]
    assert shown["id"] == "a1"


@pytest.mark.root
def test_an_end_on_a_disk_that_takes_no_change(host: GatedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    operations.change_grants(operations.GrantsOrder(wanted()), False, host.places)
    with monkeypatch.context() as patch:
        read_only(patch)
        answer: Any = operations.change_grants(operations.GrantsOrder(end=["a1"]), False, host.places)
        done = answer.result()
        assert host.units()["user-20000.slice"] == []
        assert "a1.json has ended and cannot be removed" in str(done["msg"])
        assert done["report"]["grants"]["grants"] == []
        host.go(time.time())
        assert host.units() == {}, "the timer opens nothing again"


def test_a_gpu_by_its_place_and_by_its_name_is_one(host: GatedHost) -> None:
    settings = json.loads(Path(host.places.settings).read_text())
    settings["gpus"] = {"GPU-a": ["/dev/a"], "GPU-b": ["/dev/b"]}
    Path(host.places.settings).write_text(json.dumps(settings))
    answer: Any = operations.change_grants(
        operations.GrantsOrder(wanted(number=0, gpus=["1", "GPU-b"])), True, host.places
    )
    assert answer.result()["report"]["grants"]["grants"][0]["gpus"] == ["GPU-b"]


@pytest.mark.root
def test_grants_end_while_gpus_are_divided_and_the_driver_hangs(
    host: GatedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    operations.change_grants(operations.GrantsOrder(wanted()), False, host.places)
    monkeypatch.setattr(operations, "flocked", partial(flocked, seconds=0.1))
    with flocked(reconcile.adding_path(host.places)):
        with pytest.raises(NodeError, match="has been held for"):
            operations.change_grants(operations.GrantsOrder(wanted(id="b2")), False, host.places)
        operations.change_grants(operations.GrantsOrder(end=["a1"]), False, host.places)
        assert host.units()["user-20000.slice"] == []
        assert host.go().problems == []


@pytest.mark.root
@pytest.mark.holds("grants are changed by one at a time")
def test_grants_are_changed_by_one_at_a_time(host: GatedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    operations.change_grants(operations.GrantsOrder(wanted()), False, host.places)
    host.told.clear()
    monkeypatch.setattr(operations, "flocked", partial(flocked, seconds=0.1))
    with flocked(reconcile.lock_path(host.places)):
        for document in (operations.GrantsOrder(wanted(id="b2")), operations.GrantsOrder(end=["a1"])):
            with pytest.raises(NodeError, match="has been held for"):
                operations.change_grants(document, False, host.places)
    assert host.told == []
    assert [one.id for one in grants.read(host.places.state)[0]] == ["a1"]


@pytest.mark.root
def test_of_two_admins_at_once_one_gets_the_last_gpu(host: GatedHost) -> None:
    operations.change_grants(operations.GrantsOrder(wanted()), False, host.places)

    def last(number: int) -> str:
        try:
            return str(granted(host, number, number=1))
        except NodeError as error:
            return str(error)

    with ThreadPoolExecutor(4) as pool:
        said = list(pool.map(last, range(2, 6)))
    assert sum(one == "['1']" for one in said) == 1, said
    assert sum("granted to nobody: 0 of 2" in one for one in said) == 3, said
    found, _ = grants.read(host.places.state)
    assert sorted(gpu for one in found for gpu in one.gpus) == ["0", "1"]


KERNEL = "6.12.57+deb13-amd64"
LIBRARIES = {"/usr/lib/libnvidia-ml.so.1": "550.163.01"}
BARE = Installed({KERNEL: {}}, LIBRARIES)
WHOLE = Installed({KERNEL: {"/x/nvidia.ko": "550.163.01"}}, LIBRARIES)
STATUS = f"nvidia-current/550.163.01, {KERNEL}, x86_64: installed (Differences between built and installed modules)\n"


class DriverHost:
    """A host on which DKMS runs. ``after``: how many of its commands make the driver whole; None: none does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen, self.after, self.status = BARE, 1, 0
        self.commands: list[tuple[str, ...]] = []
        self.sessions: list[str] = []
        monkeypatch.setattr(kernels, "look", lambda: self.seen)
        monkeypatch.setattr(pci, "devices", lambda names: [])
        self.kept: list[Installed] = []  # what was there when the check was made that others are told of
        monkeypatch.setattr(kernels, "check", lambda: self.kept.append(self.seen))
        # two of DKMS's programs for each kernel, of an hour at most
        monkeypatch.setattr(
            session, "open_session", lambda lease: self.sessions.append("open" if lease > 2 * 3600 else "too short")
        )
        monkeypatch.setattr(session, "close_session", lambda: self.sessions.append("closed"))
        monkeypatch.setattr(background, "perform", self.perform)

    def perform(self, name: str, _: object, arguments: dict[str, Any], **__: object) -> dict[str, Any]:
        self.commands.append(tuple(arguments["command"]))
        if len(self.commands) == self.after:
            self.seen = WHOLE
        return {"status": self.status, "output": STATUS}


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> DriverHost:
    return DriverHost(monkeypatch)


def build(*, check: bool = False, **document: object) -> dict[str, Any]:
    return ask("gpu_driver", document, check=check)


def test_a_driver_that_is_whole_is_left_alone(driver: DriverHost) -> None:
    driver.seen = WHOLE
    assert not build(build=True, version="550")["changed"]
    assert (driver.commands, driver.sessions) == ([], [])


def test_a_missing_module_is_built(driver: DriverHost) -> None:
    words = [f"build the GPU driver's module for kernel {KERNEL}"]
    said = build(build=True, check=True)
    assert (said["changed"], said["operations"], driver.commands) == (True, words, [])
    done = build(build=True)
    assert (done["changed"], done["operations"]) == (True, words)
    assert driver.commands == [("dkms", "autoinstall", "-k", KERNEL)]
    assert driver.sessions == ["open", "closed"]
    assert driver.kept == [WHOLE], "not in a check, and after the building"


def test_a_module_that_somebody_deleted_is_installed_again(driver: DriverHost) -> None:
    """DKMS believes its records, and autoinstall does nothing (seen with 3.2.2)."""
    driver.after = 3
    assert build(build=True)["changed"]
    assert driver.commands[1:] == [
        ("dkms", "status", "-k", KERNEL),
        ("dkms", "install", "nvidia-current/550.163.01", "-k", KERNEL, "--force"),
    ]


def test_a_build_that_does_not_help_is_a_failure(driver: DriverHost) -> None:
    driver.after = 0
    answer = build(build=True)
    assert answer["failed"]
    assert f"kernel {KERNEL} has no module nvidia" in answer["msg"]


def test_a_build_that_fails_says_why_and_closes_the_root(driver: DriverHost) -> None:
    driver.status = 10
    answer = build(build=True)
    assert answer["failed"]
    assert answer["msg"].startswith(f"`dkms autoinstall -k {KERNEL}` failed: nvidia-current/")
    assert driver.sessions == ["open", "closed"]


def test_a_driver_from_elsewhere_is_only_looked_at(driver: DriverHost) -> None:
    done = build()
    assert not done["changed"]
    assert "failed" not in done
    assert done["report"]["problems"][0].startswith(f"kernel {KERNEL} has no module nvidia")
    said = build(check=True)
    assert said["changed"], "drift says it"
    assert said["operations"][0].startswith(f"wrong with the GPU driver: kernel {KERNEL}")
    assert driver.commands == []
