"""What happens to each GPU: from the profiles that are wanted, what NVML says is there, and who is on it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import mig
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.mig import Gpu, Profile

#: An A100 of 40 GB: NVIDIA's guide, "Supported MIG Profiles" (ids, and the places that -lgipp shows).
A100 = (
    Profile(19, "1g.5gb", 7, (0, 1, 2, 3, 4, 5, 6), 1),
    Profile(20, "1g.5gb+me", 1, (0, 1, 2, 3, 4, 5, 6), 1),
    Profile(14, "2g.10gb", 3, (0, 2, 4), 2),
    Profile(9, "3g.20gb", 2, (0, 4), 4),
    Profile(5, "4g.20gb", 1, (0,), 4),
    Profile(0, "7g.40gb", 1, (0,), 8),
)
WHOLE = Gpu(0, "GPU-a", False, False, (), 0, None)
ON = Gpu(0, "GPU-a", True, True, (), 0, A100)
HALVES = replace(ON, devices=("4g.20gb", "3g.20gb"), instances=2)
SMI = "/usr/bin/nvidia-smi"
DESTROY = (f"{SMI} mig -i GPU-a -dci", f"{SMI} mig -i GPU-a -dgi")


def step(wanted: Sequence[str], gpu: Gpu, *people: str) -> mig.Division:
    (one,) = mig.decide({0: wanted}, [gpu], {"GPU-a": people})
    return one


@pytest.mark.parametrize(
    ("wanted", "gpu", "state", "words", "commands"),
    [
        ([], WHOLE, mig.AS_WANTED, "whole", ()),
        ([], replace(WHOLE, on=None), mig.AS_WANTED, "whole", ()),
        (["3g.20gb", "4g.20gb"], HALVES, mig.AS_WANTED, "3g.20gb, 4g.20gb", ()),
        (["3g.20gb", "4g.20gb"], replace(HALVES, instances=None), mig.AS_WANTED, "3g.20gb, 4g.20gb", ()),
        # MIG is switched on first: until then the driver may not say which profiles there are
        (["7g.40gb"], WHOLE, mig.CHANGE, "7g.40gb (now whole)", (f"{SMI} -i GPU-a -mig 1",)),
        (["3g.20gb"], ON, mig.CHANGE, "3g.20gb (now MIG without devices)", (f"{SMI} mig -i GPU-a -cgi 9:0 -C",)),
        # the order in which they are written would leave no room for 4g.20gb
        (["3g.20gb", "4g.20gb"], ON, mig.CHANGE, "3g.20gb, 4g.20gb", (f"{SMI} mig -i GPU-a -cgi 9:4,5:0 -C",)),
        (["1g.5gb", "2g.10gb", "3g.20gb"], ON, mig.CHANGE, "", (f"{SMI} mig -i GPU-a -cgi 9:0,14:4,19:6 -C",)),
        (["7g.40gb"], HALVES, mig.CHANGE, "7g.40gb (now 3g.20gb, 4g.20gb)",
         (*DESTROY, f"{SMI} mig -i GPU-a -cgi 0:0 -C")),
        ([], HALVES, mig.CHANGE, "whole (now 3g.20gb, 4g.20gb)", (*DESTROY, f"{SMI} -i GPU-a -mig 0")),
        # made by hand: an instance without a device, another device in one, the same with one more
        (["7g.40gb"], replace(ON, instances=1), mig.CHANGE, "", (DESTROY[1], f"{SMI} mig -i GPU-a -cgi 0:0 -C")),
        (["3g.20gb", "4g.20gb"], replace(HALVES, instances=3), mig.CHANGE, "",
         (*DESTROY, f"{SMI} mig -i GPU-a -cgi 9:4,5:0 -C")),
        (["7g.40gb"], replace(ON, devices=("1c.7g.40gb",), instances=1), mig.CHANGE, "now 1c.7g.40gb",
         (*DESTROY, f"{SMI} mig -i GPU-a -cgi 0:0 -C")),
        # a mode that waits for a reset is asked for again, and created is nothing until it is there
        (["7g.40gb"], replace(WHOLE, pending=True), mig.CHANGE, "", (f"{SMI} -i GPU-a -mig 1",)),
        ([], replace(WHOLE, pending=True), mig.CHANGE, "", (f"{SMI} -i GPU-a -mig 0",)),
        (["9g.90gb"], HALVES, mig.REFUSED, "it has no profile 9g.90gb: it has 1g.5gb, ", ()),
        (["4g.20gb", "4g.20gb"], HALVES, mig.REFUSED, "4g.20gb, 4g.20gb do not fit on it together", ()),
        (["1g.5gb+me", "1g.5gb+me"], HALVES, mig.REFUSED, "do not fit", ()),
        (["3g.20gb", "3g.20gb", "1g.5gb"], HALVES, mig.REFUSED, "do not fit", ()),
        (["1g.5gb"] * 8, HALVES, mig.REFUSED, "do not fit", ()),
        (["3g.20gb"], replace(WHOLE, on=None), mig.REFUSED, "it has no MIG", ()),
    ],
)  # fmt: skip
def test_of_a_gpu_that_nobody_is_on(
    wanted: list[str], gpu: Gpu, state: str, words: str, commands: tuple[str, ...]
) -> None:
    found = step(wanted, gpu)
    assert found.state == state
    assert words in found.words
    assert tuple(" ".join(one) for one in found.commands) == commands


@pytest.mark.parametrize(
    ("wanted", "gpu", "state"),
    [
        (["7g.40gb"], HALVES, mig.WAITS),
        ([], HALVES, mig.WAITS),
        (["7g.40gb"], WHOLE, mig.WAITS),
        # nothing is to be done, or nothing can be: nobody is waited for
        (["4g.20gb", "3g.20gb"], HALVES, mig.AS_WANTED),
        (["9g.90gb"], HALVES, mig.REFUSED),
    ],
)
@pytest.mark.holds("a GPU that somebody holds or was granted is not divided anew")
def test_who_is_on_a_gpu_is_named_and_waited_for(wanted: list[str], gpu: Gpu, state: str) -> None:
    found = step(wanted, gpu, "minji holds it")
    assert found.state == state
    assert found.commands == ()
    assert found.people == (["minji holds it"] if state == mig.WAITS else ())


def test_every_gpu_has_a_step_and_neighbours_are_none_of_its_business() -> None:
    second = replace(HALVES, index=1, uuid="GPU-b")
    wanted: Mapping[int, Sequence[str]] = {0: ["7g.40gb"], 5: ["7g.40gb"], 6: []}
    found = mig.decide(wanted, [second, ON], {"GPU-b": ["minji holds it"]})
    assert [(one.gpu, one.state) for one in found] == [(0, mig.CHANGE), (1, mig.WAITS), (5, mig.REFUSED)]
    assert found[1].words == "whole (now 3g.20gb, 4g.20gb)", "what is not listed is whole"
    assert found[2].words == "no such GPU answers"


def test_what_nvml_says() -> None:
    profile = {"id": 19, "name": "1g.10gb", "most": 7, "starts": [0, 1], "size": 1}
    device = {"name": "NVIDIA H100 80GB HBM3 MIG 1g.10gb"}
    found = {
        "index": 1, "uuid": "GPU-b", "problem": None, "mig": True, "mig_pending": True, "mig_devices": [device],
        "mig_profiles": [profile],
    }  # fmt: skip
    gpu = Gpu.of(found, 1)
    assert gpu == Gpu(1, "GPU-b", True, True, ["1g.10gb"], 1, [Profile(19, "1g.10gb", 7, [0, 1], 1)])
    assert Gpu.of({**found, "problem": "GPU_IS_LOST"}, 1) is None
    lacks = Gpu.of({**found, "mig": None, "mig_pending": None, "mig_devices": [], "mig_profiles": None}, None)
    assert lacks == Gpu(1, "GPU-b", None, False, [], None, None)
