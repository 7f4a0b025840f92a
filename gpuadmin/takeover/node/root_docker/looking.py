"""What root's Docker has on a host: containers, images, volumes, and what of them can be carried to a person's own.

Names and labels are data of whoever made them. Nothing is changed, and a daemon that does not run is not started.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from ansible_collections.gpuadmin.node.plugins.module_utils.bounded import short
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

from gpuadmin.common.records.root_docker import Container, Image, RootDocker, Volume

from . import api, commands, images, survey
from .api import Daemon

MOST = 500  # of each kind
MOST_OF_ONE = 50  # mounts or labels of a container
LONGEST = 8000  # characters of a command


def look(root: Daemon | None) -> RootDocker:
    """``root``: root's daemon; None: it does not run."""
    found = RootDocker(root is not None, "", [], [], [], None)
    if root is None:
        return found
    info = root.find("/info") or {}
    # guard: a daemon whose ids are shifted is left alone
    if any("userns" in str(one) for one in info.get("SecurityOptions") or []):
        found.problem = "root's Docker shifts ids (userns-remap): its volumes cannot be read by their ids"
        return found
    sizes = _sizes(root)
    kinds = {str(one.get("Id")): one for one in root.listed("/images/json")[:MOST]}
    for ident, one in kinds.items():
        if images.ID.fullmatch(ident):
            tags = [short(tag, 300) for tag in images.list_image_tags(one)][:MOST_OF_ONE]
            found.images.append(Image(ident, tags, int(one.get("Size") or 0)))
    for one in root.listed("/containers/json", all="1")[:MOST]:
        container = root.find(f"/containers/{quote(str(one.get('Id')))}/json") or {}
        image = root.find(f"/images/{quote(str(container.get('Image')))}/json") or {}
        found.containers.append(_container(root, container, image))
    for one in ((root.find("/volumes") or {}).get("Volumes") or [])[:MOST]:
        name = str(one.get("Name"))
        found.volumes.append(Volume(short(name, 255), sizes.get(name, -1), short(survey.cannot(one), 300)))
    return found


def _sizes(root: Daemon) -> dict[str, int]:
    """Bytes of volumes, as far as the daemon tells them within its time."""
    try:
        told = Daemon(root.path, root.person, seconds=60.0).find("/system/df") or {}
    except NodeError:
        return {}
    usage = ((str(one.get("Name")), (one.get("UsageData") or {}).get("Size")) for one in told.get("Volumes") or [])
    return {name: size for name, size in usage if isinstance(size, int)}


def _container(root: Daemon, told: Mapping[str, Any], image: Mapping[str, Any]) -> Container:
    labels = (told.get("Config") or {}).get("Labels") or {}
    mounts = [one for one in told.get("Mounts") or [] if isinstance(one, dict)][:MOST_OF_ONE]
    command, differs = commands.command(told, image), [short(one, 2000) for one in commands.differs(told, image)]
    if len(command) > LONGEST:  # guard: a command that was cut off in the middle is not there to be pasted
        command, differs = "", [*differs, "its command is too long to be printed: docker inspect has it"]
    volumes = [short(str(one.get("Name")), 255) for one in mounts if one.get("Type") == "volume"]
    binds = [short(str(one.get("Source")), 1000) for one in mounts if one.get("Type") != "volume"]
    pairs = [short(f"{key}={value}", 200) for key, value in list(labels.items())[:MOST_OF_ONE]]
    ident, name, image_id = str(told.get("Id")), short(str(told.get("Name")).lstrip("/"), 255), str(told.get("Image"))
    running, changes = (told.get("State") or {}).get("Running") is True, _changes(root, ident)
    return Container(ident, name, image_id, running, volumes, binds, pairs, changes, command, differs)


def _changes(root: Daemon, ident: str) -> int:
    """How many files a container has of its own, which are in no volume; -1: more than its daemon can say."""
    try:
        return len(root.listed(f"/containers/{quote(ident)}/changes"))
    except NodeError:
        return -1


def daemon(path: str = api.SOCKET) -> Daemon | None:
    return Daemon(path) if api.running(path) else None
