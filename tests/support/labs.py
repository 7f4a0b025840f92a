"""Labs that are provisioned once for many tests; a virtual one is kept for the next session."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gpuadmin.lab import image, mirror, paths
from tests.support.lab_cluster import GPUADMIN, KEEP, PROVISIONED, REPOSITORY, Cluster

#: What decides how a provisioned host looks: the node's side of gpuadmin, how it is asked, and the lab itself.
MADE_FROM = ("roles", "playbooks", "inventory", "templates", "gpuadmin/ansible", "gpuadmin/collections", "gpuadmin/lab")
OLDEST = 7 * 86400  # seconds; timers of a host that wakes after months do what no test is about


@contextmanager
def provisioned_lab(name: str, directory: Path, *options: str, images: bool = False) -> Iterator[Cluster]:
    """A new lab, made with these options of `lab up`, provisioned and saved as `provisioned`; purged afterwards.

    With GPUADMIN_KEEP_LAB set, for people who write tests, the lab stays and the next session goes on with it.
    """
    cluster = Cluster(directory / "site", name, light="--light" in options)
    if KEEP and cluster.site.exists() and PROVISIONED in cluster.saved_states():
        yield cluster
        cluster.end_commands()
        return
    try:
        make(cluster, options, images=images)
        yield cluster
    finally:
        cluster.end_commands()
        if not KEEP:
            cluster.lab("down", "--purge")


@contextmanager
def remembered_lab(name: str, *options: str) -> Iterator[Cluster]:
    """As `provisioned_lab`, of virtual machines; switched off afterwards and kept beside the base images.

    Its nodes are ready for images. The next session goes on with the saved state, which is provisioned
    once more if gpuadmin has changed since: an upgrade as sites have it, and a quarter of the time. Where the machines
    would be others, it is made anew.
    """
    directory = paths.cache_directory().parent / "tests" / name
    if KEEP:
        with provisioned_lab(name, directory, *options, images=True) as found:
            yield found
        return
    cluster, made_from = Cluster(directory / "site", name), directory / "made-from"
    machines, code = digest_of((made_with(), options)), key_of()
    try:
        found = known(made_from, machines)
        if not (found and brought_back(cluster) and (found == code or upgraded(cluster))):
            make(cluster, options, images=True)
        remember(made_from, machines, code)
        yield cluster
    finally:
        cluster.end_commands()
        # a test that failed in the middle of making it, or saved more, leaves nothing for the next session
        if made_from.is_file() and cluster.saved_states() == [PROVISIONED]:
            for host in cluster.hosts():  # the saved state is all that counts: nobody waits for them to shut down
                cluster.lab("power-cut", host)
        else:
            made_from.unlink(missing_ok=True)
            cluster.lab("down", "--purge")


def nothing_left(name: str) -> None:
    """Nothing of a lab of light hosts that was purged is on this machine: no disk in use, no network, no process."""

    def output(*command: str) -> str:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    assert f"lab/{name}/hosts" not in output("losetup", "-a")
    assert f"gpuadmin-lab-{name}-" not in output("ip", "netns")
    assert list(Path("/sys/fs/cgroup").rglob(f"gpuadmin-lab-{name}-*")) == []


def make(cluster: Cluster, options: Sequence[str], *, images: bool = False) -> None:
    """Make a lab, provision it and save it; whatever had its name and its directory is gone."""
    directory = cluster.site.parent
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    subprocess.run([GPUADMIN, "lab", "down", "--purge", "--name", cluster.name], check=False, capture_output=True)
    cluster.lab("up", *options, "--site", str(cluster.site))
    if "--light" not in options:
        leave_packages_out(cluster)
    document = cluster.gpuadmin("provision", "--yes")
    assert {host["status"] for host in document["hosts"].values()} == {"changed"}
    if images:
        cluster.gpuadmin("prepare-root", "--yes")
    cluster.lab("save", PROVISIONED, "--replace")


def leave_packages_out(cluster: Cluster) -> None:
    """Have no programs for people installed: apt takes minutes on an emulated machine. Light hosts have them."""
    settings = cluster.site / "gpuadmin.yml"
    if "\nnodes:" not in settings.read_text():
        settings.write_text(f"{settings.read_text()}\nnodes: {{packages: []}}\n")


def made_with() -> tuple[str, bytes]:
    """Return what virtual machines are made with on this machine: the base image's key, and the version of QEMU."""
    version = subprocess.run(["qemu-system-x86_64", "--version"], check=True, capture_output=True).stdout
    return image.image_key(mirror.mirror(), machines=True), version


def digest_of(how: object) -> str:
    """Return a key of what is given."""
    return hashlib.sha256(repr(how).encode()).hexdigest()


def key_of(root: Path = REPOSITORY) -> str:
    """Return a key of all of gpuadmin that a provisioned host is made from."""
    digest = hashlib.sha256()
    for base in MADE_FROM:
        for path in sorted((root / base).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def remember(made_from: Path, machines: str, code: str) -> None:
    """Write down what the lab beside is made from; how old its machines are stays as it was."""
    since = made_from.stat().st_mtime if made_from.is_file() else time.time()
    made_from.write_text(f"{machines}\n{code}\n")
    os.utime(made_from, (since, since))


def known(made_from: Path, machines: str) -> str:
    """Return the key of the code that the lab beside was provisioned with; nothing if it is another lab or too old."""
    if not (made_from.is_file() and 0 <= time.time() - made_from.stat().st_mtime < OLDEST):
        return ""
    before, _, code = made_from.read_text().strip().partition("\n")
    return code if before == machines else ""


def upgraded(cluster: Cluster) -> bool:
    """Provision a lab of an earlier session with what gpuadmin is now, and save it."""
    leave_packages_out(cluster)
    try:
        cluster.gpuadmin("provision", "--yes")
        cluster.gpuadmin("prepare-root", "--yes")
    except AssertionError as error:  # what no site has had, between two commits, need not lead on
        print(f"the lab of an earlier session cannot be upgraded: {error}")
        return False
    cluster.lab("save", PROVISIONED, "--replace")
    return True


def brought_back(cluster: Cluster) -> bool:
    """Whether the lab of an earlier session could be put back to how it was saved."""
    if cluster.saved_states() != [PROVISIONED]:
        return False
    try:
        cluster.restore(PROVISIONED)
        cluster.empty()  # the site is as the last test left it
        cluster.lab("up", "--site", str(cluster.site))  # all run: its hosts answer, and the site has their ports
    except subprocess.SubprocessError as error:
        print(f"the lab of an earlier session cannot be used: {error}")
        return False
    return True
