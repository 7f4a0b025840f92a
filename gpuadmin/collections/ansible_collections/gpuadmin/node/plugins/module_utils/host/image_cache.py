"""The site's cache of container images: the declared ones are fetched once, and what nobody asks for makes room.

It runs as the registry's own user. A blob that is deleted here the registry fetches again when somebody asks for it.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import sys
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpuadmin.common.amounts import disk_amount
from gpuadmin.common.records.mirror import DockerMirror
from gpuadmin.common.text import size_words

from ..errors import NodeError, in_words
from ..limits.records import load
from ..paths import STATE

RECORD = "docker-mirror.json"
_BLOBS = "docker/registry/v2/blobs/sha256"
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})\Z")
_KINDS = ", ".join(
    f"application/vnd.{one}+json"
    for one in (
        "oci.image.index.v1", "docker.distribution.manifest.list.v2", "oci.image.manifest.v1",
        "docker.distribution.manifest.v2",
    )
)  # fmt: skip
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_LARGEST = 4 << 20  # bytes of a manifest
#: Answers of the registry: a manifest whole, a blob read to its end.
Ask = Callable[[str], Iterator[bytes]]


@dataclass(frozen=True)
class Blob:
    path: str
    bytes: int
    used: float


def main(state: str = STATE, ask: Ask | None = None) -> int:
    """Exit 1 where an image could not be fetched; the others are."""
    wanted = load(DockerMirror, os.path.join(state, RECORD))
    if wanted is None:
        return 0
    kept, failed = set(), False
    for image in wanted.images:
        try:
            kept |= fetch(image, wanted, ask or _open)
        except (OSError, ValueError, KeyError, TypeError, NodeError) as error:  # guard: an image keeps no other away
            print(f"Error: {image}: {in_words(error) if isinstance(error, OSError) else error}", file=sys.stderr)
            failed = True
    for line in prune(wanted, kept):
        print(line)
    return int(failed)


def fetch(image: str, wanted: DockerMirror, ask: Ask) -> set[str]:
    """Have the registry fetch what it lacks of an image; return the digests of its parts, in hex."""
    name, _, tag = image.partition(":")
    where = f"{wanted.url}/v2/{name if '/' in name else f'library/{name}'}"
    document = _manifest(ask, f"{where}/manifests/{tag or 'latest'}")
    found = set()
    if "manifests" in document:
        kin = _ARCHITECTURES.get(platform.machine(), platform.machine())
        digests = [one["digest"] for one in document["manifests"] if one["platform"]["architecture"] == kin]
        found.add(_hex(digests[0]))
        document = _manifest(ask, f"{where}/manifests/{digests[0]}")
    for part in (document["config"], *document["layers"]):
        digest = _hex(part["digest"])
        found.add(digest)
        if not os.path.exists(_blob(wanted.directory, digest)):
            for _ in ask(f"{where}/blobs/sha256:{digest}"):
                pass
    return found


def prune(wanted: DockerMirror, kept: set[str]) -> list[str]:
    """Delete what was longest not asked for, until the rest is as small as it may be. ``kept``: goes last."""
    usage = shutil.disk_usage(wanted.directory)
    blobs = sorted(_list(wanted.directory), key=lambda one: (_name(one.path) in kept, one.used))
    used = sum(one.bytes for one in blobs)
    amount = disk_amount(wanted.most)
    # a fifth is for what is just being fetched, which nginx keeps for a while
    most = min(
        used if amount is None else amount * 4 // 5,
        max(used + usage.free - usage.total // 10, 0),  # guard: the cache leaves a tenth of its disk to others -> used
    )
    gone = 0
    for one in blobs:
        if used - gone <= most:  # guard: the cache is no larger than it may be
            break
        shutil.rmtree(os.path.dirname(one.path), ignore_errors=True)
        gone += one.bytes
    return [f"deleted {size_words(gone)} that nobody asked for lately, of {size_words(used)}"] if gone else []


def _list(directory: str) -> Iterator[Blob]:
    for above, _names, files in os.walk(os.path.join(directory, _BLOBS)):
        path = os.path.join(above, "data")
        if "data" in files and _DIGEST.match(f"sha256:{_name(path)}"):
            facts = os.lstat(path)
            yield Blob(path, facts.st_size, max(facts.st_atime, facts.st_mtime))


def _name(path: str) -> str:
    return os.path.basename(os.path.dirname(path))


def _blob(directory: str, digest: str) -> str:
    return os.path.join(directory, _BLOBS, digest[:2], digest, "data")


def _hex(text: str) -> str:
    found = _DIGEST.match(text)
    if found is None:  # guard: what a registry calls a digest is one before it is a path
        raise NodeError("the registry answers with what is no digest")
    return found.group(1)


def _manifest(ask: Ask, url: str) -> dict:  # type: ignore[type-arg]
    data = b""
    for piece in ask(url):
        data += piece
        if len(data) > _LARGEST:
            raise NodeError("the registry answers with a manifest that is too large")
    document = json.loads(data)
    if not isinstance(document, dict):
        raise NodeError("the registry answers with what is no manifest")
    return document


def _open(url: str) -> Iterator[bytes]:
    request = urllib.request.Request(url, headers={"Accept": _KINDS})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the registry is this host
    with opener.open(request, timeout=600) as answer:
        while piece := answer.read(1 << 20):
            yield piece
