"""Labs that are provisioned once for many tests; a virtual one is found again by what it was made from."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gpuadmin.lab import image, mirror, paths
from tests.support.lab_cluster import GPUADMIN, KEEP, REPOSITORY, Cluster

STATE = "provisioned"
#: What decides how a provisioned host looks: the node's side of gpuadmin, how it is asked, and the lab itself.
MADE_FROM = ("roles", "playbooks", "inventory", "templates", "gpuadmin/ansible", "gpuadmin/collections", "gpuadmin/lab")
OLDEST = 7 * 86400  # seconds; timers of a host that wakes after months do what no test is about


@contextmanager
def provisioned_lab(name: str, directory: Path, *options: str) -> Iterator[Cluster]:
    """A new lab, made with these options of `lab up`, provisioned and saved as `provisioned`; purged afterwards.

    With GPUADMIN_KEEP_LAB set, for people who write tests, the lab stays and the next session goes on with it.
    """
    cluster = Cluster(directory / "site", name, light="--light" in options)
    if KEEP and cluster.site.exists() and STATE in cluster.saved_states():
        yield cluster
        cluster.end_commands()
        return
    try:
        make(cluster, options)
        yield cluster
    finally:
        cluster.end_commands()
        if not KEEP:
            cluster.lab("down", "--purge")


@contextmanager
def remembered_lab(name: str, *options: str) -> Iterator[Cluster]:
    """As `provisioned_lab`, of virtual machines; switched off afterwards and kept beside the base images.

    The next session goes on with the saved state if it would be made from the same; otherwise it is made anew.
    """
    directory = paths.cache_directory().parent / "tests" / name
    if KEEP:
        with provisioned_lab(name, directory, *options) as found:
            yield found
        return
    cluster, made_from, key = Cluster(directory / "site", name), directory / "made-from", key_of((made_with(), options))
    try:
        if not (is_of(made_from, key) and brought_back(cluster)):
            make(cluster, options)
            made_from.write_text(key)
        yield cluster
    finally:
        cluster.end_commands()
        # a test that failed in the middle of making it, or saved more, leaves nothing for the next session
        if made_from.is_file() and cluster.saved_states() == [STATE]:
            for host in cluster.hosts():  # the saved state is all that counts: nobody waits for them to shut down
                cluster.lab("power-cut", host)
        else:
            made_from.unlink(missing_ok=True)
            cluster.lab("down", "--purge")


def make(cluster: Cluster, options: Sequence[str]) -> None:
    """Make a lab, provision it and save it; whatever had its name and its directory is gone."""
    directory = cluster.site.parent
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    subprocess.run([GPUADMIN, "lab", "down", "--purge", "--name", cluster.name], check=False, capture_output=True)
    cluster.lab("up", *options, "--site", str(cluster.site))
    document = cluster.gpuadmin("provision", "--yes")
    assert {host["status"] for host in document["hosts"].values()} == {"changed"}
    cluster.lab("save", STATE, "--replace")


def made_with() -> tuple[str, bytes]:
    """Return what virtual machines are made with on this machine: the base image's key, and the version of QEMU."""
    version = subprocess.run(["qemu-system-x86_64", "--version"], check=True, capture_output=True).stdout
    return image.image_key(mirror.mirror()), version


def key_of(how: object, root: Path = REPOSITORY) -> str:
    """Given what else decides it, return a key of all that a provisioned virtual lab is made from."""
    digest = hashlib.sha256(repr(how).encode())
    for base in MADE_FROM:
        for path in sorted((root / base).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def is_of(made_from: Path, key: str) -> bool:
    """Whether what a file stands beside was made from what has this key, and not too long ago."""
    return (
        made_from.is_file()
        and made_from.read_text() == key
        and 0 <= time.time() - made_from.stat().st_mtime < OLDEST
    )  # fmt: skip


def brought_back(cluster: Cluster) -> bool:
    """Whether the lab of an earlier session could be put back to how it was saved."""
    if cluster.saved_states() != [STATE]:
        return False
    try:
        cluster.lab("restore", STATE)
        cluster.lab("up", "--site", str(cluster.site))  # all run: its hosts answer, and the site has their ports
    except subprocess.SubprocessError as error:
        print(f"the lab of an earlier session cannot be used: {error}")
        return False
    return True
