"""The manifest of an image: what it is, its streams and their digests, in JSON, signed with an ssh key.

``{"format": 1, "name", "uuid", "parent": {"name", "uuid"} | null, "created": seconds since 1970, "by", "distribution",
"version", "machine", "kernel", "size": bytes, "packages": {NAME: VERSION}, "changes": {"added", "removed", "changed"},
"streams": [{"file", "parent": {"name", "uuid"} | null, "bytes", "stream_bytes", "sha256", "protocol"}]}``
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import NodeError, in_words
from ..fields import UUID
from ..files import read_bytes
from ..run import run_command
from .places import FORMAT, check_name

NAMESPACE = "gpuadmin-image"
PRINCIPAL = "gpuadmin"
FILE = re.compile(r"[a-z0-9._-]+\.btrfs\.zst")


@dataclass(frozen=True)
class Stream:
    """One way to send an image: whole (``parent`` None), or as the difference to a parent (name, uuid)."""

    file: str
    parent: tuple[str, str] | None
    bytes: int
    stream_bytes: int
    sha256: str
    protocol: int = 1


@dataclass(frozen=True)
class Manifest:
    name: str
    uuid: str
    parent: tuple[str, str] | None
    created: float
    distribution: str
    machine: str
    kernel: str
    size: int
    streams: tuple[Stream, ...]
    raw: Mapping[str, Any]


def _parent(value: object) -> tuple[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, dict) or not UUID.fullmatch(str(value.get("uuid"))):  # guard: a parent has a uuid
        raise ValueError("a parent without a name and a uuid")
    return check_name(value.get("name")), str(value["uuid"])


def parse(text: bytes, where: str = "the manifest") -> Manifest:
    """Given the bytes, return the manifest. Raises NodeError that says what is wrong with it."""
    try:
        raw = json.loads(text.decode("utf-8"))
        if raw["format"] != FORMAT:  # guard: a manifest of another format is not read
            raise NodeError(f"{where} has format {raw['format']!r}; this gpuadmin knows {FORMAT}")
        streams = []
        for item in raw["streams"]:
            if (
                not FILE.fullmatch(item["file"])  # guard: a manifest names no file outside
                or not re.fullmatch("[0-9a-f]{64}", item["sha256"])  # guard: a manifest's digests are digests
            ):
                raise ValueError(f"stream {item['file']!r}")
            streams.append(
                Stream(
                    item["file"],
                    _parent(item["parent"]),
                    int(item["bytes"]),
                    int(item["stream_bytes"]),
                    item["sha256"],
                    int(item.get("protocol", 1)),
                )
            )
        if not UUID.fullmatch(raw["uuid"]) or not streams:  # guard: a manifest has a uuid and a stream
            raise ValueError("no uuid, or no stream")
        return Manifest(
            check_name(raw["name"]), raw["uuid"], _parent(raw["parent"]), float(raw["created"]),
            str(raw["distribution"]), str(raw["machine"]), str(raw["kernel"]), int(raw["size"]), tuple(streams), raw,
        )  # fmt: skip
    except NodeError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise NodeError(f"{where} is damaged: {error!r}") from error


def render(raw: Mapping[str, object]) -> bytes:
    """The bytes that are signed."""
    return (json.dumps(raw, indent=1, sort_keys=True, ensure_ascii=True) + "\n").encode()


def choose_stream(manifest: Manifest, held: Mapping[str, str], *, full: bool = False, protocol: int = 2) -> Stream:
    """Given what a node holds (image name → uuid), return the cheapest stream that it can receive.

    ``protocol``: the highest version of a stream that it knows.

    Raises NodeError that names what is missing.
    """
    usable = [
        stream
        for stream in manifest.streams
        if stream.protocol <= protocol  # guard: a stream is of a version that the node knows
        and (
            stream.parent is None
            or (
                not full
                # guard: a difference is to a parent of its very uuid -> stream.parent[0] in held
                and held.get(stream.parent[0]) == stream.parent[1]
            )
        )
    ]
    if usable:
        return min(usable, key=lambda stream: (stream.bytes, stream.file))
    if all(stream.protocol > protocol for stream in manifest.streams):
        raise NodeError(
            f"{manifest.name} was sent in version {manifest.streams[0].protocol} of btrfs streams, and this node knows "
            f"{protocol}; a newer kernel and btrfs-progs are needed here"
        )
    wanted = [stream.parent for stream in manifest.streams if stream.parent is not None]
    for name, uuid in wanted:
        if name in held:
            raise NodeError(
                f"its image {name} is another one (uuid {held[name]}) than the parent of {manifest.name} "
                f"(uuid {uuid}); make a full stream: gpuadmin build-image {manifest.name} --full"
            )
    names = ", ".join(name for name, _ in wanted) or "none"
    raise NodeError(
        f"the parent of {manifest.name} ({names}) is not on this node; push it first, "
        f"or make a full stream: gpuadmin build-image {manifest.name} --full"
    )


def verify(text: bytes, signature: bytes, signers: str) -> None:
    """Check the signature of a manifest against allowed signers (text as in ssh-keygen(1)). Raises NodeError."""
    with tempfile.TemporaryDirectory(prefix="gpuadmin-verify-") as scratch:
        allowed, signed = os.path.join(scratch, "allowed_signers"), os.path.join(scratch, "manifest.sig")
        with open(allowed, "w", encoding="utf-8") as stream:
            stream.write(signers)
        with open(signed, "wb") as binary:
            binary.write(signature)
        command = ("ssh-keygen", "-Y", "verify", "-f", allowed, "-I", PRINCIPAL, "-n", NAMESPACE, "-s", signed)
        done = run_command(command, stdin=text)
    if done.returncode != 0:
        output = (done.stderr or done.stdout).strip().splitlines()
        raise NodeError(
            "the image's signature is not by one of this site's keys; it is not used "
            f"({output[-1] if output else 'ssh-keygen refused it'}). Somebody changed it, or the site's key is another "
            "one now: gpuadmin list-images NAME --verify, then gpuadmin prepare-root"
        )


def _verify_any(text: bytes, signatures: Sequence[bytes], signers: str) -> None:
    """Check that one of the signatures is of a manifest. Raises NodeError with what is wrong with the first."""
    for other in signatures[1:]:
        try:
            return verify(text, other, signers)
        except NodeError:
            continue
    verify(text, signatures[0], signers)


def _read(path: str, name: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except FileNotFoundError:
        raise NodeError(f"the store has no complete image {name}: gpuadmin list-images shows what it has") from None
    except OSError as error:
        raise NodeError(f"the image store cannot be read: {in_words(error)}") from error


def _check(path: str, text: bytes, signers: str) -> None:
    # the second: of a manifest that a cut left without its name (publish)
    found = [data for end in (".sig", ".sig.new") if (data := read_bytes(path + end)) is not None]
    if not found:
        raise NodeError(f"image {os.path.basename(os.path.dirname(path))} is not signed; it is not used")
    _verify_any(text, found, signers)


def load(directory: str, signers: str | None) -> Manifest:
    """Read and verify the manifest in an image's directory; ``signers`` None: without verifying."""
    return load_text(directory, signers)[0]


def load_text(directory: str, signers: str | None) -> tuple[Manifest, bytes]:
    """The same, with the bytes that were verified: reading the file again could give others."""
    path = os.path.join(directory, "manifest.json")
    name = os.path.basename(directory)
    text = _read(path, name)
    if signers is not None:
        try:
            _check(path, text, signers)  # guard: a manifest's signature is checked
        except NodeError:  # guard: an image that is published again just now is not called changed -> ()
            text = _read(path, name)
            _check(path, text, signers)
    manifest = parse(text, path)
    if manifest.name != name:  # guard: a manifest is under its own name
        raise NodeError(f"{path} is the manifest of {manifest.name}; the store was changed by hand")
    return manifest, text


def digest(path: str) -> str:
    """The sha256 of a file, in hexadecimal."""
    total = hashlib.sha256()
    with open(path, "rb") as stream:
        while True:
            block = stream.read(1 << 20)
            if not block:
                return total.hexdigest()
            total.update(block)


def package_changes(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, dict[str, object]]:
    """Given two package lists (name → version), return what was added, removed and changed."""
    return {
        "added": {name: after[name] for name in sorted(after) if name not in before},
        "removed": {name: before[name] for name in sorted(before) if name not in after},
        "changed": {
            name: [before[name], after[name]]
            for name in sorted(after)
            if name in before and before[name] != after[name]
        },
    }
