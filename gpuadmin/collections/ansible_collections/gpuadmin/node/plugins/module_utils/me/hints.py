"""The GPUs of a person on this node, and hints about them: from what the node's collector has written.

Only what is theirs is looked at: the file has everybody's, since Prometheus asks for it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from gpuadmin.common.cluster import Device, of_samples
from gpuadmin.common.samples import Sample, of_text
from gpuadmin.common.text import size_words

from ..bounded import read_small
from ..diagnosis.subject import Subject
from ..metrics.measured import measured

IDLE = 7200.0  # seconds held without being used until it is said
SLOW, BUSY = 0.4, 0.8  # a GPU that computes less than that, while so much of the processors is in use
_LOOK = 1.0  # seconds over which processors are counted


def held(subject: Subject, seconds: float = _LOOK) -> list[dict[str, Any]]:
    """The GPUs that the person holds on this node. Raises NodeError or OSError if that is not known."""
    before, began = count_processor_seconds(subject), time.monotonic()
    samples = [Sample("up", {"instance": "", "job": "node"}, 1), *of_text(measured(), {"instance": ""})]
    mine = pick_own_gpus(samples, str(subject.name), time.time())
    if not mine:
        return []
    # the figure is a difference over that time
    time.sleep(max(seconds - (time.monotonic() - began), 0.0))
    after = count_processor_seconds(subject)
    busy = None
    if before is not None and after is not None:
        busy = (after - before) / (time.monotonic() - began) / len(os.sched_getaffinity(0))
    return [{**one, "processors": busy} for one in mine]


def pick_own_gpus(samples: list[Sample], name: str, now: float) -> list[dict[str, Any]]:
    """Given a node's samples, return the GPUs that a person holds there."""
    (node,) = of_samples(samples, [""], now)
    unused = {
        one.labels.get("uuid"): now - one.value
        for one in samples
        if one.name == "gpuadmin_gpu_unused_since_timestamp_seconds" and one.labels.get("user") == name
    }
    mine = [device for device in node.devices if any(one.user == name for one in device.holders or ())]
    return [_describe_gpu(device, name, unused) for device in mine]


def _describe_gpu(device: Device, name: str, unused: Mapping[str | None, float]) -> dict[str, Any]:
    own = [one for one in device.holders or () if one.user == name]
    known = [one.memory for one in own if one.memory is not None]
    return {
        "index": device.index,
        "name": device.name,
        "utilization": device.utilization,
        "memory": sum(known) if len(known) == len(own) else None,
        "containers": sorted({one.container for one in own if one.container}),
        "alone": len({one.user for one in device.holders or ()}) == 1,
        "unused": unused.get(device.uuid),
    }


def count_processor_seconds(subject: Subject) -> float | None:
    """The seconds of processors that the person has used on this node, as the kernel counts; None if it does not."""
    try:
        text = read_small(subject.path(f"sys/fs/cgroup/user.slice/user-{subject.uid}.slice/cpu.stat"))
        facts = dict(line.split() for line in text.decode("ascii").splitlines())
        return int(facts["usage_usec"]) / 1e6
    except (OSError, ValueError, KeyError):
        return None


def lines(found: list[Mapping[str, Any]], korean: bool) -> list[str]:
    """The lines to print: one for each GPU, and its hints below."""
    output = []
    for one in found:
        output.append(_line(one, korean))
        output += [f"    {hint}" for hint in hints(one, korean)]
    return output


def _line(one: Mapping[str, Any], korean: bool) -> str:
    where = f" ({', '.join(one['containers'])})" if one["containers"] else ""
    use, memory = one["utilization"], one["memory"]
    if korean:
        busy = "사용률 알 수 없음" if use is None else f"사용률 {use:.0%}"
        words = f"{busy}, 메모리 {'알 수 없음' if memory is None else size_words(memory)}"
    else:
        busy = "use not known" if use is None else f"{use:.0%} busy"
        words = f"{busy}, {'memory not known' if memory is None else f'{size_words(memory)} of memory'}"
    return f"GPU {one['index']} {one['name']}{where}: {words}"


def hints(one: Mapping[str, Any], korean: bool) -> list[str]:
    """The hints about a GPU: what its person may want to change. A figure that is not known gives none."""
    if one["unused"] is not None and one["unused"] >= IDLE:
        hours = int(one["unused"] // 3600)
        if korean:
            return [
                f"점유한 지 {hours}시간이 지났지만 한 번도 사용하지 않았습니다. 다른 사람이 기다릴 수 있으니 "
                "필요 없는 Jupyter 노트북이나 컨테이너는 종료해 주세요."
            ]
        return [
            f"held for {hours} hours and not used once. Others may wait for it: please stop the notebook or container "
            "if you do not need it."
        ]
    use, processors = one["utilization"], one.get("processors")
    if one["alone"] and use is not None and use < SLOW and processors is not None and processors > BUSY:
        if korean:
            return [
                f"지금 GPU는 데이터를 기다리는 것 같습니다. CPU는 {processors:.0%} 사용 중인데 GPU 사용률은 "
                f"{use:.0%}입니다. 전처리를 미리 해 두거나 데이터 로더의 워커 수를 조정해 보세요."
            ]
        return [
            f"it seems to wait for your data loader now: the processors are {processors:.0%} busy, and the GPU "
            f"{use:.0%}. Preprocess once, or try another number of workers."
        ]
    return []
