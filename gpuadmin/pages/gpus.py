"""The GPUs of a site as its last looks found them, and which CUDA images their drivers run. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuadmin.common.text import as_fields

#: CUDA version → images that have it, newest first. Each of the tags exists.
IMAGES: Mapping[tuple[int, int], tuple[str, ...]] = {
    (12, 8): ("nvidia/cuda:12.8.1-runtime-ubuntu22.04", "pytorch/pytorch:2.7.0-cuda12.8-cudnn9-runtime"),
    (12, 6): ("nvidia/cuda:12.6.3-runtime-ubuntu22.04", "pytorch/pytorch:2.7.0-cuda12.6-cudnn9-runtime"),
    (12, 4): ("nvidia/cuda:12.4.1-runtime-ubuntu22.04", "pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime"),
    (12, 1): ("nvidia/cuda:12.1.1-runtime-ubuntu22.04", "pytorch/pytorch:2.5.1-cuda12.1-cudnn9-runtime"),
    (11, 8): ("nvidia/cuda:11.8.0-runtime-ubuntu22.04", "pytorch/pytorch:2.5.1-cuda11.8-cudnn9-runtime"),
}
_EXAMPLE = "12.4"  # for a site about which nothing is known


@dataclass(frozen=True)
class Gpus:
    """What is known of a node's GPUs. `what`: number and model; `cuda`: the newest version that the driver runs."""

    node: str
    what: str
    driver: str | None = None
    cuda: str | None = None


def seen(
    records: Iterable[tuple[Mapping[str, Any], Mapping[str, Any] | None]], nodes: Sequence[str]
) -> tuple[tuple[Gpus, ...], tuple[str, ...]]:
    """Given the records of runs, newest first, and names of nodes, return what `list-gpus` last found on each of them.

    Nodes without a GPU are left out. The second are those that it never saw.
    """
    found: dict[str, Mapping[str, Any]] = {}
    for run, result in records:
        looked = as_fields((result or {}).get("result"))
        answers = as_fields(looked.get("nodes")) if run["verb"] == "list-gpus" else {}
        found |= {name: as_fields(one) for name, one in answers.items() if name in nodes and name not in found}
        if len(found) == len(nodes):
            break
    here = [_gpus(name, found[name]) for name in nodes if name in found]
    return tuple(one for one in here if one is not None), tuple(name for name in nodes if name not in found)


def _gpus(node: str, answer: Mapping[str, Any]) -> Gpus | None:
    """A node's GPUs, as its driver names them; if none answers, as the bus does. None: it has none."""
    nvml = as_fields(answer.get("nvml"))
    words = Counter(map(_words, _rows(nvml.get("gpus")) or _rows(answer.get("pci"))))
    if not words:
        return None
    what = ", ".join(f"{number} × {name}" for name, number in words.items())
    driver, cuda = (one if isinstance(one := nvml.get(name), str) else None for name in ("driver", "cuda"))
    return Gpus(node, what, driver, cuda)


def _rows(value: object) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _words(gpu: Mapping[str, Any]) -> str:
    memory = gpu.get("memory")
    return str(gpu.get("name") or "GPU") + (f" ({round(memory / 2**30)} GiB)" if isinstance(memory, int) else "")


def cuda_values(gpus: Sequence[Gpus]) -> dict[str, Any]:
    """What the guide says of CUDA: `least`, the newest version that all drivers run, by what is known; and `images`.

    `each`: the versions by node, where they differ. `example`: the version of `images`, which may be none.
    """
    known = {one.node: version for one in gpus if (version := _version(one.cuda)) is not None}
    least = min(known.values()) if known else None
    most = least or _version(_EXAMPLE)
    fitting = [version for version in IMAGES if most is not None and version <= most]
    return {
        "least": None if least is None else _text(least),
        "each": [(node, _text(version)) for node, version in known.items()] if len(set(known.values())) > 1 else [],
        "example": _text(fitting[0]) if fitting else None,
        "images": IMAGES[fitting[0]] if fitting else (),
    }


def _version(text: str | None) -> tuple[int, int] | None:
    major, _, minor = (text or "").partition(".")
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
