"""Operations on images: on nodes, and in the store."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Optional

from gpuadmin.common.records.images import ChainLink, ImageOrder, ImageSettings
from gpuadmin.common.records.installs import InstallOrder, NetbootOrder, StickOrder

from .. import background
from ..answer import Answer
from ..code_cache import LINK
from ..documents import to_plain
from ..errors import NodeError, in_words
from ..files import sync_directory
from ..operation import operation
from ..paths import STATE
from . import chain_key, jobs, layout, netboot, relay, sticks
from .manifest import digest, load, parse
from .mounting import mounted
from .observe import observe
from .places import FORMAT, Places, check_name, load_settings, looking, read_json, write_json


@dataclass(frozen=True)
class ImageFacts:
    """Report a node's images and roots.

    Reports which root runs, what boots next, which images are there, and how the last switch ended.
    With a manifest it also says what the node would receive for that image. Changes nothing.
    """

    #: The text of a manifest, as the store has it.
    manifest: Optional[str] = None
    #: The full image is wanted, also where a difference is there.
    full: bool = False


@operation("image_facts", ImageFacts, looks=True)
def report_images(document: ImageFacts, check: bool) -> Answer:
    places = looking()
    settings = load_settings(places)
    manifest = parse(document.manifest.encode()) if document.manifest else None
    with mounted(places, settings, store=None):
        report = observe(places, settings, manifest, full=document.full)
    there = sorted({*report["people"], *report["gpu_work"]})
    return Answer(report={"node": report}, more={"progress": f"waits for {', '.join(there)}"})


@operation("image_job", ImageOrder)
def do_job(document: ImageOrder, check: bool) -> Answer:
    return attend(jobs.job(document), f"{document.run_id} {document.action}", check, document.wait)


def attend(job: background.Job, begun: str, check: bool, wait: int = 5) -> Answer:
    """Have a job done, and say how far it is where it goes on after some seconds."""
    if check:
        return Answer([job.title], more={"finished": True})
    done = background.attend(job, begun, wait)
    if done is None:
        return Answer(more={"finished": False, "progress": background.progress(job)})
    if done.problem is not None:
        return Answer(problem=done.problem)
    return Answer(done.value["operations"], done.value.get("report", {}), more={"finished": True})


@dataclass(frozen=True)
class ImageLayout:
    """Check and complete the layout that images need.

    Looks at how a node boots and where its root, ``/var`` and ``/local`` lie.
    Completes a node that is fit, and notes its identity. A node that is not is reported and not touched.
    """

    #: What ``images.json`` on the node should say.
    settings: ImageSettings


@operation("image_layout", ImageLayout)
def complete_layout(document: ImageLayout, check: bool) -> Answer:
    wanted = {"format": FORMAT, **to_plain(asdict(document.settings))}
    places = looking()
    found = layout.examine(places)
    if not found.problems:
        with mounted(places, document.settings, store=None):
            found = layout.prepare(places, document.settings, check=check)
    report = {"layout": {"problems": found.problems, **found.facts}}
    if found.problems:
        return Answer(report=report, problem=f"this node is not laid out for images: {'; '.join(found.problems)}")
    path = places.in_state("images.json")
    if read_json(path) != wanted:
        found.operations.append("note the site's settings for images")
        if not check:
            os.makedirs(places.state, mode=0o755, exist_ok=True)
            write_json(path, wanted)
    return Answer(found.operations, report)


@dataclass(frozen=True)
class ImageRelay:
    """Be ready to pass an image on along a chain of nodes.

    Keeps the key of this push for root, in ``/run/gpuadmin``, until the push is over.
    Where there is a node before, starts the unit ``gpuadmin-relay.service``, which takes a full stream from it
    and passes it to the next. Only who holds the key gets a byte or brings one.
    Where that does not work it says so and does not fail, because every node gets what it lacks from the store.
    """

    #: The image.
    name: str
    link: ChainLink
    #: The private key and the certificate of this push, in PEM.
    key: str
    #: Where the node-side code lies.
    code: str = f"{STATE}/lib/{LINK}"
    #: What runs it.
    python: str = "/usr/bin/python3"


@operation("image_relay", ImageRelay)
def prepare_relay(document: ImageRelay, check: bool) -> Answer:
    places, remarks = Places(), []
    if (
        not check  # guard: check mode writes no key
        and document.link.port
    ):
        try:
            chain_key.store(places, document.key)
            if document.link.previous:
                relay.start(document.name, document.link, places, document.code, document.python)
        except (NodeError, OSError) as error:
            remarks.append(f"the image comes from the store and not along the chain: {in_words(error)}")
    return Answer(more={"remarks": remarks})


@dataclass(frozen=True)
class ImageStore:
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


@operation("image_store", ImageStore, role="image_store")
def manage_store(document: ImageStore, check: bool) -> Answer:
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


@operation("stick", StickOrder)
def make_stick(document: StickOrder, check: bool) -> Answer:
    return attend(sticks.job(document), document.run_id, check)


@operation("install", InstallOrder)
def install(document: InstallOrder, check: bool) -> Answer:
    if not check:
        return attend(sticks.job(document), document.run_id, check)
    report: dict[str, object] = {"machine": asdict(sticks.look_at_machine())}
    try:
        done = sticks.install(document, check=True)["operations"] if document.disk else []
        return Answer(done, report, more={"finished": True})
    except NodeError as error:  # what the machine has is said all the same
        return Answer(report=report, problem=str(error))


@operation("netboot", NetbootOrder)
def serve_stick(document: NetbootOrder, check: bool) -> Answer:
    return Answer(netboot.serve(document, check=check))
