"""GPUs are divided where nobody is on them: a library and an nvidia-smi that stand in, real processes and grants."""

import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.files import flocked
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import gate, grants, mig, reconcile
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.grants import Grant
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics import dividing
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.dividing import Divider, Places, recorded
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.owners import Owners

from tests.support import fake_nvml
from tests.support.gpu_sampling import FIRST, NAMES, SECOND, Cluster, cluster

__all__ = ["cluster"]
pytestmark = [pytest.mark.needs("cc"), pytest.mark.root]
HALVES = ["3g.40gb", "4g.40gb"]


class Host:
    """A node whose first GPU is whole and whose second is in MIG mode, without instances; and what was run on it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        before, _, after = fake_nvml.TWO.read_text().partition("[process]")
        self.text = before + after[after.index("[gpu]") : after.index("[mig]")]
        self.capabilities = cluster.at / "capabilities"
        for minor in "01":
            (self.capabilities / f"gpu{minor}").mkdir(parents=True)
        for name in ("run", "state"):
            (cluster.at / name).mkdir(exist_ok=True)
        self.describe()
        self.failing: Mapping[str, str] = {}
        self.sampling = True
        self.made: list[str] = []
        self.ran: list[str] = []
        self.places = Places(
            str(cluster.at / "state"), str(cluster.node.root), None, cluster.node.places.lock, self.run,
            gate.Places(state=str(cluster.at / "state"), run=str(cluster.at / "run")),
            replace(cluster.places, capabilities=str(self.capabilities)),
        )  # fmt: skip

    def describe(self, *changes: tuple[str, str]) -> None:
        text = self.text
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        self.cluster.node.description.write_text(text)

    def run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        words = " ".join(command).replace(mig.TOOL, "smi").replace(FIRST, "A").replace(SECOND, "B")
        if command[0] == "nvidia-modprobe":
            self.made.append(words.partition("capabilities/")[2])
            return subprocess.CompletedProcess(command, 0, "", "")
        self.ran.append(words)
        if command[0] != mig.TOOL:
            return subprocess.CompletedProcess(command, 0 if self.sampling else 3, "", "")
        for part, answer in self.failing.items():
            if part in words:
                return subprocess.CompletedProcess(command, 19, f"{answer}\n", "")
        environment = {**os.environ, "GPUADMIN_FAKE_CAPABILITIES": str(self.capabilities)}
        tool = [str(fake_nvml.HERE / "nvidia-smi"), *command[1:]]
        return subprocess.run(tool, env=environment, capture_output=True, text=True, check=False)

    def divider(self, wanted: Mapping[int, Sequence[str]]) -> Divider:
        known = {name: uid for uid, name in NAMES.items()}
        subuid = str(self.cluster.at / "subuid")
        owners = Owners(subuid, NAMES.get, lambda name: (known[name],) * 2 if name in known else None)
        return Divider(wanted, self.places, owners)

    def go(self, wanted: Mapping[int, Sequence[str]]) -> list[tuple[int, str, str]]:
        self.ran.clear()
        return [(one.gpu, one.state, one.words) for one in self.divider(wanted).run()]

    def smi(self) -> list[str]:
        return [one for one in self.ran if one.startswith("smi")]

    def boot(self) -> None:
        """Instances are gone, and MIG with them on the first GPU: newer ones keep no mode either."""
        self.describe()
        for one in self.capabilities.glob("gpu*/mig/gi*"):
            subprocess.run(["rm", "-r", str(one)], check=True)

    def grant(self, gpu: str) -> None:
        now = int(time.time())
        grants.write(Grant("a1", "bob", 47002, [gpu], now, now + 3600, "root@nas"), self.places.state)


@pytest.fixture
def host(cluster: Cluster) -> Host:
    return Host(cluster)


def test_gpus_are_divided_and_made_whole_again(host: Host) -> None:
    looked = host.divider({0: HALVES, 1: []}).look()
    assert [(one.gpu, one.state, one.words) for one in looked] == [
        (0, mig.CHANGE, "3g.40gb, 4g.40gb (now whole)"), (1, mig.CHANGE, "whole (now MIG without devices)"),
    ]  # fmt: skip
    assert (host.ran, recorded(host.places.state)) == ([], {}), "a look changes nothing"
    assert host.go({0: HALVES, 1: []}) == [(0, mig.AS_WANTED, "3g.40gb, 4g.40gb"), (1, mig.AS_WANTED, "whole")]
    assert host.smi() == ["smi -i A -mig 1", "smi -i B -mig 0", "smi mig -i A -cgi 9:4,5:0 -C"]
    sampler = "gpuadmin-metrics-sampler.service"
    assert host.ran[1] == f"systemctl stop {sampler}", "it has the GPUs open"
    assert host.ran[-2:] == [
        f"systemctl start --no-block {sampler}", "systemctl start --no-block gpuadmin-gpu-devices.service",
    ]  # fmt: skip
    assert recorded(host.places.state) == {0: HALVES, 1: []}
    made = [(one.gpu, one.profile, one.files) for one in mig.read(str(host.cluster.at / "run"))]
    assert host.made == [f"gpu0/mig/{of}/access" for of in ("gi1", "gi1/ci0", "gi2", "gi2/ci0")]
    caps = [[f"/dev/nvidia-caps/nvidia-cap{number}" for number in of] for of in ((9, 10), (18, 19))]
    assert made == [(FIRST, "3g.40gb", ["/dev/nvidia0", *caps[0]]), (FIRST, "4g.40gb", ["/dev/nvidia0", *caps[1]])]
    assert host.go({0: HALVES}) == [(0, mig.AS_WANTED, "3g.40gb, 4g.40gb"), (1, mig.AS_WANTED, "whole")]
    assert host.ran == [], "twice changes nothing"
    assert host.go({0: ["7g.80gb"]})[0] == (0, mig.AS_WANTED, "7g.80gb")
    assert host.smi() == ["smi mig -i A -dci", "smi mig -i A -dgi", "smi mig -i A -cgi 0:0 -C"]
    assert not any("stop" in one for one in host.ran), "MIG is on already, and the collector goes on"
    assert host.go({}) == [(0, mig.AS_WANTED, "whole"), (1, mig.AS_WANTED, "whole")]


@pytest.mark.holds("a GPU that somebody holds or was granted is not divided anew")
def test_whoever_is_on_a_gpu_keeps_it_and_is_named(host: Host) -> None:
    host.grant(SECOND)
    with host.cluster.process(47001, "nvidia0") as pid:
        host.describe(("\n[gpu]\nname = NVIDIA H100 80GB HBM3\nuuid = GPU-6", f"\n[process]\npid = {pid}\n"
                       "[gpu]\nname = NVIDIA H100 80GB HBM3\nuuid = GPU-6"))  # fmt: skip
        divider = host.divider({0: HALVES, 1: HALVES})
        first, second = divider.run()
        assert (first.state, first.people) == (mig.WAITS, ["alice holds it"])
        assert (second.state, second.people[0][:20]) == (mig.WAITS, "granted to bob until")
        assert sorted(divider.uids.values()) == [47001, 47002]
        assert (host.smi(), recorded(host.places.state)) == ([], {})
    grants.delete(["a1"], host.places.state)
    host.describe()
    with host.cluster.process(47001, "nvidia0"):  # it watches
        assert {state for _, state, _ in host.go({0: HALVES, 1: HALVES})} == {mig.AS_WANTED}


@pytest.mark.holds("a GPU that somebody holds or was granted is not divided anew")
def test_a_part_that_is_granted_keeps_the_whole_gpu(host: Host) -> None:
    host.go({1: HALVES})
    uuid = next(line for line in host.cluster.node.description.read_text().splitlines() if "uuid = MIG" in line)
    host.grant(uuid.split()[-1])
    assert host.go({1: []})[1][1] == mig.WAITS


@pytest.mark.holds("who has more open files than are looked at may hold any GPU")
def test_of_whom_not_all_is_known_may_hold_what_the_driver_does_not_tell(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has very many processes keeps no GPU by them of which the driver says who is on it."""

    class Incomplete(dividing.Scanner):
        def step(self, *given: object) -> None:
            self.rounds += 1
            self.incomplete = frozenset({47001})

    monkeypatch.setattr(dividing, "Scanner", Incomplete)
    assert [one.state for one in host.divider({0: HALVES}).look()] == [mig.CHANGE, mig.CHANGE]
    name = f"uuid = {SECOND}\n"
    host.describe((name, f"{name}fault.nvmlDeviceGetComputeRunningProcesses = UNKNOWN\n"))
    first, second = host.divider({0: HALVES}).look()
    words = "alice may hold it: not all their processes can be looked at"
    assert (first.state, second.state, second.people) == (mig.CHANGE, mig.WAITS, [words])


@pytest.mark.holds("GPUs whose holders are not known are not divided")
def test_a_look_at_all_processes_that_does_not_end(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dividing, "SCAN", -1.0)
    with pytest.raises(NodeError, match="no GPU is divided"):
        host.go({0: HALVES})
    assert host.ran == []


def test_what_fails_with_one_gpu_is_told_and_the_other_is_divided(host: Host) -> None:
    host.failing = {"smi -i A": "Unable to enable MIG Mode for GPU: Unknown Error"}
    (_, state, words), second = host.go({0: HALVES, 1: HALVES})
    assert (state, words.partition(": ")[2]) == (mig.REFUSED, "Unable to enable MIG Mode for GPU: Unknown Error")
    assert second[1] == mig.AS_WANTED
    assert recorded(host.places.state) == {1: HALVES}, "a boot does not try again what was not done"
    host.sampling = False
    host.go({0: HALVES, 1: HALVES})
    assert not any("start" in one and "sampler" in one for one in host.ran), "what did not run is not started"


@pytest.mark.holds("a boot goes on with what was begun")
def test_a_boot_goes_on_with_what_was_begun(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    real = host.run

    def cut(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        if command[0] == mig.TOOL:
            raise KeyboardInterrupt
        return real(command)

    divider = host.divider({0: HALVES})
    divider._places = replace(host.places, command=cut)
    with pytest.raises(KeyboardInterrupt):
        divider.run()
    assert recorded(host.places.state)[0] == HALVES


@pytest.mark.holds("a MIG device whose files nobody says is not a name for its whole GPU")
def test_a_mig_device_whose_files_nobody_says_opens_nothing(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dividing.mapper, "find_capability_device", lambda *_: None)
    host.go({0: HALVES})
    assert mig.read(str(host.cluster.at / "run")) == []


def test_a_mode_that_waits_for_a_reset_is_told_and_a_boot_goes_on(host: Host) -> None:
    host.describe((f"uuid = {FIRST}", f"uuid = {FIRST}\nreset = needed"))
    (_, state, words), _ = host.go({0: HALVES, 1: HALVES})
    assert (state, "reboot the node" in words) == (mig.REFUSED, True)
    assert recorded(host.places.state) == {0: HALVES, 1: HALVES}


def test_what_turns_out_not_to_fit_leaves_the_gpu_whole(host: Host) -> None:
    (_, state, words), second = host.go({0: ["7g.80gb", "1g.10gb"], 1: HALVES})
    assert (state, "do not fit" in words) == (mig.REFUSED, True)
    assert host.smi()[-1] == "smi -i A -mig 0"
    assert (second[1], recorded(host.places.state)) == (mig.AS_WANTED, {1: HALVES})


@pytest.mark.holds("a boot divides no GPU that was not divided before")
def test_a_boot_makes_again_what_there_was_and_nothing_else(host: Host) -> None:
    host.go({0: HALVES, 1: HALVES})
    (Path(host.places.state) / dividing.FILE).write_text(json.dumps({"0": HALVES}))
    host.boot()
    host.grant(FIRST)  # of what there was
    host.ran.clear()
    assert dividing.main(host.places) == 0
    assert host.smi() == ["smi -i A -mig 1", "smi mig -i A -cgi 9:4,5:0 -C"]


def test_a_boot_without_a_record_asks_nothing(host: Host, tmp_path: Path) -> None:
    assert dividing.main(replace(host.places, root=str(tmp_path / "none"))) == 0
    (Path(host.places.state) / dividing.FILE).write_text("[]")
    with pytest.raises(NodeError, match="is damaged"):
        dividing.main(host.places)


def test_without_a_driver_nothing_is_known(host: Host) -> None:
    host.describe(("driver = ", "fault.nvmlInit = DRIVER_NOT_LOADED\ndriver = "))
    with pytest.raises(NodeError, match="the driver is not loaded"):
        host.go({0: HALVES})
    with pytest.raises(NodeError, match="is not installed"):
        Divider({}, replace(host.places, root="/nonexistent")).look()


@pytest.mark.holds("where a grant cannot be read no GPU is divided")
def test_where_a_grant_cannot_be_read_no_gpu_is_divided(host: Host) -> None:
    host.grant(SECOND)
    (path,) = Path(host.places.state, grants.DIRECTORY).glob("*.json")
    path.write_text("{")
    found = host.divider({0: HALVES, 1: HALVES}).run()
    assert [one.state for one in found] == [mig.WAITS, mig.WAITS]
    assert "it may be granted: " in found[0].people[0]
    assert host.smi() == []


@pytest.mark.holds("what is divided is granted to nobody meanwhile")
def test_nobody_is_granted_a_gpu_while_it_is_divided(host: Host) -> None:
    real, free = host.run, set()

    def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        for path in (reconcile.adding_path(host.places.gate), reconcile.lock_path(host.places.gate)):
            try:
                with flocked(path, 0):
                    free.add((Path(path).name, command[0] == mig.TOOL))
            except NodeError:
                pass
        return real(command)

    host.places = replace(host.places, command=run)
    host.go({0: HALVES})
    assert ("gpu-grants", True) not in free
    assert ("gpu-gate", True) in free, "what has ended is closed meanwhile"
