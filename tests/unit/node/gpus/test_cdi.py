"""What containers can ask for: read as NVIDIA's toolkit 1.18.0 wrote it (on the fake NVML's two GPUs), and judged."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import cdi

from tests.support import fake_nvml

WRITTEN = fake_nvml.SPEC.read_bytes()
FIRST, DIVIDED = "GPU-11111111-2222-3333-4444-555555555555", "GPU-66666666-7777-8888-9999-aaaaaaaaaaaa"
MIG = "MIG-aaaaaaaa-1111-2222-3333-444444444444"
NAMES = frozenset({"0", "1:0", FIRST, MIG})


def gpu(index: int, uuid: str, **other: Any) -> dict[str, Any]:
    return {"index": index, "uuid": uuid, "problem": None, "mig": False, **other}


TWO = (gpu(0, FIRST), gpu(1, DIVIDED, mig=True, mig_devices=[{"index": 0, "uuid": MIG}]))


def host(root: Path, spec: bytes | None = WRITTEN) -> Path:
    """A host whose containers are to have GPUs."""
    for name in (cdi.UNIT, cdi.SPEC, cdi.RECORD):
        (root / name).parent.mkdir(parents=True)
    (root / "etc/cdi").mkdir()
    (root / cdi.UNIT).touch()
    if spec is not None:
        (root / cdi.SPEC).write_bytes(spec)
    return root


def sentences(root: Path, gpus: tuple[dict[str, Any], ...] = TWO) -> list[str]:
    spec = cdi.look(str(root))
    assert spec is not None
    # no test here may make device files: what is wrong with them is tested apart
    return [one for one in cdi.wrong(spec, gpus) if "/dev/" not in one]


def test_what_the_toolkit_wrote() -> None:
    spec = cdi.parse(WRITTEN)
    assert cdi.names(spec) == NAMES | {"all"}
    assert cdi.device_nodes(spec) == (
        "/dev/nvidia-caps/nvidia-cap66", "/dev/nvidia-caps/nvidia-cap67", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools",
        "/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl",
    )  # fmt: skip


def test_the_toolkit_names_what_is_wanted() -> None:
    assert cdi.wanted(TWO) == NAMES
    assert cdi.wanted([gpu(0, FIRST, problem="GPU_IS_LOST")]) == frozenset()
    assert cdi.wanted([{"index": 3, "problem": None}]) == {"3"}


@pytest.mark.parametrize(
    "data",
    [b"", b"kind: nvidia.com/gpu\ndevices: []\n", b"[]", b'{"kind": "example.com/gpu", "devices": []}',
     b'{"kind": "nvidia.com/gpu", "devices": [{"name": 0}]}', b'{"kind": "nvidia.com/gpu"}', b"[" * 100_000,
     b'{"kind": "nvidia.com/gpu", "devices": [{"name": "0", "containerEdits": {"deviceNodes": [{}]}}]}', b"\xff"],
)  # fmt: skip
def test_what_is_no_specification(data: bytes) -> None:
    with pytest.raises(NodeError, match=r"/run/cdi/nvidia\.yaml is not as gpuadmin writes it"):
        cdi.parse(data)


def test_nobody_wants_names(tmp_path: Path) -> None:
    assert cdi.look(str(tmp_path)) is None
    assert list(cdi.wrong(None, TWO)) == []


def test_all_is_well(tmp_path: Path) -> None:
    assert sentences(host(tmp_path)) == []


def test_there_is_none(tmp_path: Path) -> None:
    root = host(tmp_path, None)
    assert sentences(root) == ["containers get no GPU: there is no /run/cdi/nvidia.yaml: " + cdi.REFRESH]
    (root / cdi.RECORD).write_text(json.dumps({"problem": "nvidia-ctk is missing"}))
    assert sentences(root) == ["containers get no GPU: nvidia-ctk is missing"]
    assert sentences(root, ()) == []


def test_it_is_a_link(tmp_path: Path) -> None:
    root = host(tmp_path, None)
    (root / cdi.SPEC).symlink_to("/etc/shadow")
    assert "is a symbolic link" in sentences(root)[0]


def test_a_gpu_that_came(tmp_path: Path) -> None:
    new = gpu(2, "GPU-2")
    expected = "containers cannot ask for nvidia.com/gpu=2, nvidia.com/gpu=GPU-2: " + cdi.REFRESH
    assert sentences(host(tmp_path), (*TWO, new)) == [expected]


def test_a_gpu_that_went(tmp_path: Path) -> None:
    found = sentences(host(tmp_path), (TWO[0],))
    assert found == [
        f"containers can ask for nvidia.com/gpu=1:0, nvidia.com/gpu={MIG}, which do not answer: {cdi.REFRESH}"
    ]


def test_others_name_gpus_as_well(tmp_path: Path) -> None:
    root = host(tmp_path)
    (root / "etc/cdi/nvidia.yaml").write_text('---\ncdiVersion: 0.5.0\nkind: "nvidia.com/gpu"\ndevices: []\n')
    (root / "run/cdi/hand.json").write_bytes(WRITTEN)
    (root / "run/cdi/other.json").write_text('{"kind": "nvidia.com/gpu.coherent"}')
    (root / "run/cdi/more.yaml").write_text("kind: example.com/gpu\n")
    (root / "run/cdi/none.txt").write_text("kind: nvidia.com/gpu\n")
    assert [one.split()[0] for one in sentences(root)] == ["/etc/cdi/nvidia.yaml", "/run/cdi/hand.json"]


@pytest.mark.root
def test_everybody_can_open_what_computing_needs(tmp_path: Path) -> None:
    device = os.makedev(1, 3)
    for name, mode in {
        "nvidia0": 0o666, "nvidia1": 0o660, "nvidia-caps/nvidia-cap1": 0o444, "nvidia-caps/nvidia-cap2": 0o400,
        "dri/card0": 0o660,
    }.items():  # fmt: skip
        path = tmp_path / "dev" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mknod(path, 0o020000, device)
        path.chmod(mode)
    (tmp_path / "dev/nvidia2").touch()
    names = [f"nvidia{number}" for number in range(4)]
    names += ["nvidia-caps/nvidia-cap1", "nvidia-caps/nvidia-cap2", "dri/card0"]
    assert list(cdi.closed([f"/dev/{name}" for name in names], str(tmp_path))) == [
        "/dev/nvidia1 has mode 0660, and people cannot open it",
        "/dev/nvidia2 is not a device",
        "/dev/nvidia3 is missing",
        "/dev/nvidia-caps/nvidia-cap2 has mode 0400, and people cannot open it",
    ]
