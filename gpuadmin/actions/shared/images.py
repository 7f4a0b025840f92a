"""What the verbs about images share: the signing key, the playbook's variables, and looking at store and nodes."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpuadmin.answers import Answers
from gpuadmin.common import ssh_key
from gpuadmin.config.load import Site
from gpuadmin.config.skeleton import keep_out_of_git
from gpuadmin.errors import ConfigError
from gpuadmin.images.facts import Facts
from gpuadmin.reading import expanded, read_text
from gpuadmin.results import RunResult
from gpuadmin.session import Session

#: What people on a node read before it reboots.
NOTICE = (
    "This node reboots now into another system ({name}). Your home stays as it is; /tmp may be emptied.\n"
    "이 노드는 지금 다른 시스템({name})으로 재부팅됩니다. 홈은 그대로 유지되지만 /tmp는 지워질 수 있습니다."
)
#: What people who log in read while a node waits for them to go.
WAITING = (
    "This node reboots into another system ({name}) as soon as nobody uses it: please finish and log out.\n"
    "이 노드는 사용자가 없어지는 대로 다른 시스템({name})으로 재부팅됩니다. 작업을 마치고 로그아웃해 주세요."
)


def signing_key(site: Site, *, make: bool = False) -> Path:
    """The private key that signs the site's images; with `make` it is made if there is none."""
    named = site.settings.images.signing_key
    path = expanded(named) if named else Path("image_signing_key")
    path = path if path.is_absolute() else site.directory / path
    if not path.exists() and make:
        if path.parent == site.directory:  # first: there is no moment in which it could be added by mistake
            for one in (path.name, f"{path.name}.new"):
                keep_out_of_git(site.directory, one)
        ssh_key.make(
            path,
            f"images of {site.settings.name}",
            lambda command: subprocess.run(command, check=True, stdin=subprocess.DEVNULL),
        )
    return path


def signers(site: Site) -> str:
    """Who may sign, as ssh-keygen's allowed signers: the site's own key, and those that it names."""
    public = signing_key(site).with_name(signing_key(site).name + ".pub")
    keys = [own] if (own := read_text(public).strip()) else []
    keys += list(site.settings.images.signers)
    lines = [f'gpuadmin namespaces="gpuadmin-image" {" ".join(key.split()[:2])}' for key in keys]
    return "".join(f"{line}\n" for line in lines)


def variables(site: Site, **more: Any) -> dict[str, Any]:
    """What every playbook about images is given."""
    checks = site.directory / "checks"
    return {
        "gpuadmin_run_id": secrets.token_hex(8),
        "gpuadmin_signers": signers(site),
        "gpuadmin_site_checks": str(checks) if checks.is_dir() else "",
        **more,
    }


def look(session: Session, image: str = "", *, full: bool = False) -> Facts:
    """Ask the storage host and the nodes. `image`: also ask what each node would receive for it (or all of it)."""
    inventory = session.site.inventory
    storage, gpu = ([host.name for host in inventory.group(group)] for group in ("storage", "gpu"))
    asked = list(dict.fromkeys((*storage, *gpu)))
    return facts(
        session.look("list-images", asked, variables(session.site, gpuadmin_image=image, gpuadmin_full=full)),
        storage,
        gpu,
    )


def facts(result: RunResult, storage: Sequence[str], gpu: Sequence[str]) -> Facts:
    """Given a run of list-images and the hosts that were asked, return what it found."""
    stores = Answers.of(result.hosts, storage, "store")
    nodes = Answers.of(result.hosts, gpu, "node")
    store: dict[str, Any] = {}
    for found in stores.known.values():
        store.update(found)
    return Facts(store, nodes.known, {**stores.unknown, **nodes.unknown}, stores, nodes)


def in_store(found: Facts, name: str) -> dict[str, Any]:
    """The manifest of an image in the store. Raises ConfigError with the names there are, or UnreachableError."""
    found.store_known.require(f"whether the store has {name}")  # guard: a store that did not answer is not an empty one
    entry = found.store.get(name)
    if entry is None or entry["manifest"] is None:
        there = ", ".join(found.complete) or "none"
        why = f": {entry['problem']}" if entry else ""
        raise ConfigError(f"the store has no complete image {name}{why}", hint=f"it has: {there}")
    manifest: dict[str, Any] = entry["manifest"]
    return manifest


def require_storage(session: Session) -> None:
    """Images need a storage host."""
    if not session.site.inventory.group("storage"):
        raise ConfigError(
            "this site has no storage host, which keeps the images", hint="put one into the group storage"
        )
