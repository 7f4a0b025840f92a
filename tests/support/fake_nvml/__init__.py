"""NVIDIA's NVML without hardware: a library of our own, built once, and the files that say what it answers."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
NAME = "libnvidia-ml.so.1"
#: The variable that names the file; without it /etc/gpuadmin-fake-nvml.
VARIABLE = "GPUADMIN_FAKE_NVML"
TWO = HERE / "examples/two.txt"
#: What NVIDIA's `nvidia-ctk cdi generate` 1.18.0 wrote on a host that had the library and TWO, by index and by UUID.
SPEC = HERE / "examples/nvidia-ctk-1.18.0.json"


def library() -> Path:
    """The library, built by the machine's C compiler where it is not there yet; one for each state of its source."""
    sources = sorted([*HERE.glob("*.c"), *HERE.glob("*.h")])
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpuadmin-tests"
    built = cache / f"fake-nvml-{digest}" / NAME
    if not built.is_file():
        built.parent.mkdir(parents=True, exist_ok=True)
        part = built.with_name(f"{NAME}.{os.getpid()}")
        command = ["cc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden"]
        command += [f"-Wl,-soname,{NAME}", "-o", str(part), *(str(path) for path in sources if path.suffix == ".c")]
        subprocess.run([*command, "-lpthread"], check=True)
        part.rename(built)  # whole or not at all: several test processes may build it
    return built


def described(*changes: tuple[str, str | None], gpu: int | None = None, base: Path = TWO) -> str:
    """An example with keys set, or taken out (None): of the system, or of the ``gpu`` of this index."""
    head, *sections = re.split(r"(?m)^(?=\[gpu\]$)", base.read_text())
    parts = [head, *sections]
    place = 0 if gpu is None else gpu + 1
    lines = [line for line in parts[place].splitlines() if line.partition("=")[0].strip() not in dict(changes)]
    at = 1 if gpu is not None else len(lines)
    lines[at:at] = [f"{key} = {value}" for key, value in changes if value is not None]
    parts[place] = "\n".join(lines) + "\n"
    return "".join(parts)
