"""Causes in the GPUs of a node: the driver, broken GPUs, names for containers, holders, grants."""

from __future__ import annotations

from collections.abc import Iterator

from ..records.diagnosis import RegisteredPerson as Person
from ..text import clock, counted
from .cause import HINDERS, NOTE, STOPS, Cause, Facts, Row, Table, Text, Thing, tell_admins

_LIST = "gpuadmin list-gpus --limit HOSTS"
_GPUS, _GRANTS = Thing("GPUs", "gpus"), Thing("grants of GPUs", "granted")
_ASK = "gpuadmin grants; gpuadmin grant {name} HOSTS --hours 8 --reason …"
_CLOSED = "GPUs are given on request there, and opening {which} fails with EPERM (gpus.access)"
ROWS = Table(
    Row("gpu-versions", STOPS, _GPUS,
        "the GPU driver's module is {module}, its libraries are {libraries}: nothing can use a GPU",
        "gpuadmin reboot HOSTS --when-idle",
        tell_admins("the node has to be rebooted: its GPU driver is of two versions",
                    "노드를 재부팅해야 합니다. GPU 드라이버 버전이 서로 다릅니다")),
    Row("gpu-driver", STOPS, _GPUS, "the GPUs cannot be used: {words}", f"{_LIST} says what is missing",
        tell_admins("the GPUs of this node have no driver", "이 노드의 GPU에 드라이버가 없습니다")),
    Row("gpu-silent", STOPS, _GPUS, "the GPU driver does not answer: {words}", _LIST,
        tell_admins("the GPU driver of this node does not answer", "이 노드의 GPU 드라이버가 응답하지 않습니다")),
    Row("gpu-broken", STOPS, _GPUS, "{words}", f"gpuadmin reboot HOSTS --when-idle; {_LIST}",
        tell_admins("a GPU is broken; do not trust its results: {words}",
                    "GPU가 고장 났습니다. 결과를 믿지 마세요: {words}")),
    Row("gpu-lost", HINDERS, _GPUS, "{words}", _LIST,
        Text("Use another GPU, and tell your admins", "{many} of this node does not answer",
             "다른 GPU를 쓰고 관리자에게 알려 주세요", "이 노드에서 응답하지 않음: {many}"),
        {"more": ("{many} of {number} do not answer: {words}", _LIST)}),
    Row("gpu-cdi", HINDERS, _GPUS, "{words}",
        f"gpuadmin run HOSTS -- systemctl start gpuadmin-gpu-devices.service; {_LIST}",
        tell_admins("containers do not get all GPUs of this node by name",
                    "이 노드에서 컨테이너가 일부 GPU를 이름으로 쓸 수 없습니다")),
    Row("gpu-full", HINDERS, _GPUS, "all GPUs are held by others: {words}",
        "gpuadmin top --free says where GPUs are free",
        Text("Use another node, or wait", "the {number} GPUs of this node are all used by others",
             "다른 노드를 쓰거나 기다려 주세요", "이 노드의 GPU {number}개를 모두 다른 사람이 쓰고 있습니다")),
    Row("gpu-grant", HINDERS, _GRANTS, "{name} was granted no GPU: " + _CLOSED.format(which="one"), _ASK,
        Text("To get one: {way}",
             "GPUs are given on request here, and you have none: opening one fails with 'Operation not permitted'",
             "{way} 신청하세요",
             "이 노드의 GPU는 신청해야 쓸 수 있습니다. "
             "지금은 배정된 GPU가 없어 GPU를 열면 'Operation not permitted' 오류가 납니다")),
    Row("gpu-worse", NOTE, _GPUS, "{words}", _LIST,
        tell_admins("a GPU is not as it should be: {words}", "GPU 상태가 정상이 아닙니다: {words}")),
    Row("gpu-held", NOTE, _GPUS, "GPUs are held: {words}", "gpuadmin status",
        Text("{look} shows which are free", "others use GPUs of this node",
             "비어 있는 GPU는 {look}로 확인하세요", "다른 사람이 이 노드의 GPU를 쓰고 있습니다")),
    Row("gpu-granted", NOTE, _GRANTS, "{name} was granted {gpus} until {until}: " + _CLOSED.format(which="another one"),
        _ASK,
        Text("Use {gpus}. If you need more: {way}",
             "GPUs are given on request here. "
             "{gpus} is yours until {until}; opening others fails: 'Operation not permitted'",
             "{gpus}: 이것만 쓰고, 더 필요하면 {way} 신청하세요",
             "이 노드의 GPU는 신청해야 쓸 수 있습니다. {gpus}: {until}까지 쓸 수 있습니다. "
             "다른 GPU를 열면 'Operation not permitted' 오류가 납니다")),
)  # fmt: skip
_found = ROWS.find


def judge(facts: Facts, person: Person | None) -> Iterator[Cause]:
    """The causes that lie in the GPUs of a node, or in their holders."""
    if person is not None and facts["node"]:
        yield from _judge_grants(facts, person)
    found = facts.get("gpus")
    if not found:
        return
    if found["differ"]:
        yield _found("gpu-versions", *found["missing"], module=found["differ"][0], libraries=found["differ"][1])
    elif found["missing"]:
        yield _found("gpu-driver", *found["missing"], words=found["missing"][0])
    elif found["problem"]:
        yield _found("gpu-silent", words=found["problem"])
    for words in found["broken"]:
        if not (found["differ"] or found["problem"]):
            yield _found("gpu-broken", words=words)
    if found["lost"]:
        many, first = counted(len(found["lost"]), "GPU"), found["lost"][0]
        which = "gpu-lost" if len(found["lost"]) == 1 else "gpu-lost/more"
        yield _found(which, *found["lost"], words=first, many=many, number=found["number"])
    for words in found["worse"]:
        yield _found("gpu-worse", words=words)
    for words in found["containers"]:
        yield _found("gpu-cdi", words=words)
    yield from _judge_holders(found, person)


def _judge_grants(facts: Facts, person: Person) -> Iterator[Cause]:
    """The causes that lie in grants, where GPUs are given on request."""
    found = facts.get("granted")
    if found is None:
        return
    theirs = [one for one in found["grants"] if one["user"] == person.name]
    places = [place for one in theirs for place in one["gpus"]]
    if not theirs:
        yield _found("gpu-grant", name=person.name)
    elif len(places) < found["gpus"]:
        until = clock(min(one["until"] for one in theirs))
        yield _found("gpu-granted", name=person.name, gpus=f"GPU {', '.join(places)}", until=until)


def _judge_holders(found: Facts, person: Person | None) -> Iterator[Cause]:
    """The holders of GPUs. They are the cause only if nothing is left for anybody else."""
    holders: dict[str, list[str]] = {}
    for gpu in found["gpus"]:
        for who in gpu["holders"]:
            holders.setdefault(who, []).append(str(gpu["index"]))
    mine = None if person is None else person.name
    if not [who for who in holders if who != mine]:
        return
    words = "; ".join(f"{who}: GPU {', '.join(places)}" for who, places in sorted(holders.items()))
    free = [gpu for gpu in found["gpus"] if mine in gpu["holders"] or not gpu["holders"] or not gpu["full"]]
    yield _found("gpu-held" if free or person is None else "gpu-full", words=words, number=len(found["gpus"]))
