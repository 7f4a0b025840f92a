"""gpuadmin.node.image_store: the images on the storage host."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass

from ..answer import Answer
from ..errors import NodeError, in_words
from ..files import sync_directory
from ..images.manifest import digest, load
from ..images.places import check_name

#: A task of this role need not name a field that the role has a variable for.
ROLE = "image_store"


@dataclass(frozen=True)
class Document:
    """List, verify and delete images in the store.

    Reports the images that the store holds completely, with their manifests.
    Verifies signatures and digests, and deletes images by name.
    """

    #: The store.
    path: str
    #: Who may sign, in the format of allowed signers of ssh-keygen.
    signers: str = ""
    #: Names of images whose signature, digests and chain to verify.
    verify: Sequence[str] = ()
    #: Names of images to delete.
    delete: Sequence[str] = ()


def listing(path: str) -> dict[str, dict[str, object]]:
    """Name → what the store has; `problem` where it is not complete."""
    found: dict[str, dict[str, object]] = {}
    for name in sorted(os.listdir(path)) if os.path.isdir(path) else ():
        try:
            manifest = load(os.path.join(path, name), None)
            with open(os.path.join(path, name, "manifest.json"), encoding="utf-8") as stream:
                found[name] = {"manifest": dict(manifest.raw), "text": stream.read(), "problem": None}
        except NodeError as error:
            found[name] = {"manifest": None, "text": None, "problem": str(error)}
    return found


def verify(path: str, name: str, signers: str) -> list[str]:
    """What is wrong with an image in the store; an empty list where nothing is."""
    try:
        manifest = load(os.path.join(path, check_name(name)), signers)
    except NodeError as error:
        return [str(error)]
    problems = []
    for stream in manifest.streams:
        file = os.path.join(path, name, stream.file)
        if not os.path.exists(file):
            problems.append(f"{stream.file} is missing")
        elif os.path.getsize(file) != stream.bytes:
            problems.append(f"{stream.file} has {os.path.getsize(file)} bytes, its manifest says {stream.bytes}")
        elif digest(file) != stream.sha256:
            problems.append(f"{stream.file} has another sha256 than its manifest says")
        if stream.parent is None or any(other.parent is None for other in manifest.streams):
            continue
        if not os.path.exists(os.path.join(path, stream.parent[0], "manifest.json")):
            problems.append(
                f"its parent {stream.parent[0]} is not in the store: only nodes that hold it can receive {name}; "
                f"gpuadmin build-image {name} --full makes it complete"
            )
    return problems


def operate(document: Document, check: bool) -> Answer:
    path = document.path
    operations = []
    try:
        for name in document.delete:
            directory = os.path.join(path, check_name(name))
            if os.path.isdir(directory):
                operations.append(f"delete image {name} from the store")
                if not check:
                    delete(directory)
        verified = {name: verify(path, name, document.signers) for name in document.verify}
        return Answer(operations, {"store": listing(path), "verified": verified})
    except (NodeError, OSError) as error:
        return Answer(operations, problem=in_words(error), changed=False)


def delete(directory: str) -> None:
    # without its manifest it is no longer an image, whatever happens to the rest
    for file in ("manifest.json", "manifest.json.sig"):
        if os.path.exists(os.path.join(directory, file)):
            os.unlink(os.path.join(directory, file))
    sync_directory(directory)
    shutil.rmtree(directory)
