"""MIG devices in the queue: what Slurm numbers, and which device a number is."""

from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.mig import MigDevice
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm import divided, queue
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm.divided import Part
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm.nodes import Node, gres_conf, known, nodes_conf

from gpuadmin.config.fields import mig_layout

CAPS = [
    ["/dev/nvidia1", f"/dev/nvidia-caps/nvidia-cap{one}", f"/dev/nvidia-caps/nvidia-cap{one + 1}"] for one in (3, 5)
]
THERE = {
    "GPU-a": ["/dev/nvidia0", "/dev/dri/card0"], "GPU-b": ["/dev/nvidia1", *CAPS[0][1:], *CAPS[1][1:]],
    "MIG-x": CAPS[0], "MIG-y": CAPS[1],
}  # fmt: skip
DEVICES = [
    MigDevice("MIG-x", "GPU-b", "NVIDIA H100 MIG 3g.40gb", CAPS[0]),
    MigDevice("MIG-y", "GPU-b", "NVIDIA H100 MIG 4g.40gb", CAPS[1]),
    MigDevice("MIG-gone", "GPU-a", "NVIDIA H100 MIG 7g.80gb", ["/dev/nvidia0"]),
]
PARTS = [Part("", ["/dev/nvidia0"]), Part("3g.40gb", CAPS[0]), Part("4g.40gb", CAPS[1])]
SAID = [{"profile": one.profile, "files": one.files} for one in PARTS]
HAS = {"processors": 64, "memory": 100_000, "gpus": 2, "model": "NVIDIA H100", "parts": SAID}
LINES = [
    "NodeName=gpu1 Name=gpu Type=h100 File=/dev/nvidia0",
    f"NodeName=gpu1 Name=gpu Type=3g.40gb MultipleFiles={','.join(CAPS[0])}",
    f"NodeName=gpu1 Name=gpu Type=4g.40gb MultipleFiles={','.join(CAPS[1])}",
]


def node(has: dict[str, object], **declared: object) -> Node:
    (found,) = known([{"name": "gpu1", "address": "a", **declared}], {}, {"gpu1": has})
    return found


@pytest.mark.holds("a GPU that is divided is given to no job as a whole")
def test_what_jobs_can_have_of_a_host() -> None:
    assert divided.list_gpu_parts(THERE, DEVICES) == PARTS
    assert divided.list_gpu_parts({name: THERE[name] for name in ("GPU-a", "GPU-b")}, DEVICES) == []


@pytest.mark.parametrize("profile", ["1g.10gb+me", "1g.24gb-me", "1g.12gb+gfx", "2g.48gb+me.all", "4g.96gb+gfx.all"])
def test_every_profile_that_a_site_may_have_is_known_to_the_queue(profile: str) -> None:
    assert mig_layout({0: [profile]}) == {0: [profile]}
    said = [{"profile": profile, "files": CAPS[0]}]
    assert [one.profile for one in divided.parts(said)] == [profile]
    assert queue.PROFILE.match(profile)
    assert queue.kinds(f"gpu1{queue.BETWEEN}gpu:{profile}:2(S:0)") == {"gpu1": {profile: 2}}


def test_what_slurm_is_told() -> None:
    assert gres_conf([node(HAS)]).splitlines()[1:] == LINES
    text = nodes_conf([node(HAS)], 48, ("nas", "10.0.0.9"))
    assert " Gres=gpu:h100:1,gpu:3g.40gb:1,gpu:4g.40gb:1 State=" in text
    assert text.strip().endswith(" DefCpuPerGPU=21"), "a MIG device is one of what jobs share processors by"
    assert "Type=whole File=" in gres_conf([node({**HAS, "model": None})]), "Slurm takes types of all or of none"


@pytest.mark.holds(
    "no line for Slurm is made of a device's name", "MIG devices are given to jobs only where all GPUs are there"
)
@pytest.mark.parametrize(
    "odd",
    [
        [{"profile": "1g.10gb File=/dev/sda", "files": ["/dev/nvidia0"]}], [{"profile": "1g.10gb", "files": []}],
        [{"profile": "1g.10gb", "files": ["/dev/nvidia0\nNodeName=x"]}, SAID[0]],
        [{"profile": "", "files": ["/dev/sda"]}],
        [{"profile": None, "files": ["/dev/nvidia0"]}], ["x"], "x", SAID[:1],
        # beside what is there of the other GPU, so that nothing but its words keeps it out
        [{"profile": "1g.10gb File=/dev/sda", "files": ["/dev/nvidia0"]}, *SAID[1:]],
        [{"profile": "1g.10gb\nNodeName=x", "files": ["/dev/nvidia0"]}, *SAID[1:]],
        [{"profile": [], "files": ["/dev/nvidia0"]}, *SAID[1:]], [{"profile": 5, "files": ["/dev/nvidia0"]}, *SAID[1:]],
        [{"profile": "", "files": {"/dev/nvidia0": 1}}, *SAID[1:]], [{"profile": "", "files": 5}, *SAID[1:]],
        [{"profile": "", "files": ["/dev/nvidia0", 5]}, *SAID[1:]],
    ],
)  # fmt: skip
def test_what_is_not_understood_divides_nothing(odd: object) -> None:
    assert gres_conf([node({**HAS, "parts": odd})]).splitlines()[1:] == [
        "NodeName=gpu1 Name=gpu Type=h100 File=/dev/nvidia[0-1]"
    ]


def test_a_number_is_what_the_fetched_file_says(tmp_path: Path) -> None:
    assert divided.listed("gpu1", str(tmp_path)) is None
    path = tmp_path / divided.FETCHED
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(["NodeName=gpu2 Name=gpu File=/dev/nvidia[0-7]", *LINES, ""]))
    fetched = divided.listed("gpu1", str(tmp_path))
    assert fetched == [["/dev/nvidia0"], *CAPS]
    found = [divided.find_device(number, THERE, fetched) for number in range(4)]
    assert found == ["GPU-a", "MIG-x", "MIG-y", None]
    eight = divided.listed("gpu2", str(tmp_path))
    assert eight is not None
    assert (len(eight), eight[7]) == (8, ["/dev/nvidia7"])
    assert divided.listed("gpu3", str(tmp_path)) is None
    # divided otherwise since: no job is given what Slurm does not know
    swapped = {**THERE, "MIG-x": [CAPS[0][0], "/dev/nvidia-caps/nvidia-cap9", "/dev/nvidia-caps/nvidia-cap10"]}
    assert divided.find_device(1, swapped, fetched) is None


def test_a_gpu_with_one_mig_device_is_not_taken_for_it() -> None:
    """The same files open both."""
    one = {"GPU-b": CAPS[0], "MIG-x": CAPS[0]}
    assert divided.find_device(0, one, [CAPS[0]]) == "MIG-x"
    assert divided.find_device(0, one, [CAPS[0][:1]]) == "GPU-b"


@pytest.mark.holds("where GPUs are divided a number that nobody explains is not a GPU")
def test_where_nothing_was_fetched_a_number_is_that_of_its_file() -> None:
    whole = {"GPU-a": ["/dev/nvidia0"], "GPU-b": ["/dev/nvidia1"]}
    assert [divided.find_device(number, whole, None) for number in range(3)] == ["GPU-a", "GPU-b", None]
    assert divided.find_device(0, THERE, None) is None
