"""All code that an operation needs on a host, as one text whose digest names it there."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

from ansible_collections.gpuadmin.node.plugins.module_utils.operation import TAKEOVER, find_room

_PLUGINS = Path(__file__).parents[1]
_PACKAGE = PurePosixPath("ansible_collections/gpuadmin/node/plugins")
_CONTENT = _PLUGINS.parents[3]
_TAKEOVER = _CONTENT.parent / "takeover/node"
#: What a host runs with the text of a Code, deflated, as its input. Arguments: digest, state directory.
ARRIVE = f"""import json, sys, zlib
text = zlib.decompress(sys.stdin.buffer.read()).decode()
names = {{"__name__": "arriving"}}
exec(json.loads(text)["{_PACKAGE}/module_utils/arriving.py"], names)
sys.exit(names["keep"](sys.argv[1], text, sys.argv[2]))"""


@dataclass(frozen=True)
class Code:
    """``text``: JSON of a mapping from path to source. ``digest``: its sha256, in hex."""

    text: str
    digest: str


def code(takeover: bool = False) -> Code:
    """The code of this installation, with that of the take-over or without. Read once in a process and in those that
    are forked from it.
    """
    return _read(takeover)


def belongs_to_takeover(operation: str) -> bool:
    """Whether an operation is the take-over's: its code goes with its calls alone (docs/decisions/0199)."""
    return find_room(operation.rpartition(".")[2]) == TAKEOVER


@cache
def _read(takeover: bool) -> Code:
    files = dict(_sources(takeover))
    packages = {str(parent / "__init__.py") for path in files for parent in PurePosixPath(path).parents if parent.name}
    text = json.dumps({**dict.fromkeys(packages, ""), **files}, sort_keys=True)
    return Code(text, hashlib.sha256(text.encode()).hexdigest())


def packed(text: str) -> str:
    """A text as few ASCII characters, which any quoting leaves alone."""
    return base64.b64encode(zlib.compress(text.encode(), 1)).decode()


def _sources(takeover: bool) -> Iterator[tuple[str, str]]:
    outside = _CONTENT.parents[1]
    places = [(_PLUGINS / "module_utils", _CONTENT), (_CONTENT.parent / "common", outside)]
    if takeover:  # guard: a host that is not taken over has nothing of the take-over -> True
        places.append((_TAKEOVER, outside))
    for top, above in places:
        for path in sorted(top.rglob("*.py")):
            if not any(part.startswith(".") for part in path.relative_to(top).parts):
                yield path.relative_to(above).as_posix(), path.read_text("utf-8")
