"""A container as the command that makes it again in a person's own Docker, and what is different there. Pure.

Values of variables are no part of it: they are often secrets, and a run's record is kept.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

_GPU = "nvidia.com/gpu="
_LATER = "NVIDIA_VISIBLE_DEVICES="


def command(told: Mapping[str, Any], image: Mapping[str, Any]) -> str:
    """Given what a daemon says of a container and of its image, return a ``docker create``, quoted for a shell."""
    config, host = _part(told, "Config"), _part(told, "HostConfig")
    own = _part(image, "Config")
    words = ["docker", "create", "--name", str(told.get("Name", "")).lstrip("/")]
    words += [word for word, wanted in (("-t", config.get("Tty")), ("-i", config.get("OpenStdin"))) if wanted]
    for option, value in (("--user", "User"), ("--workdir", "WorkingDir")):
        if config.get(value) and config[value] != own.get(value):
            words += [option, str(config[value])]
    for one in config.get("Env") or []:
        # guard: values of variables are not told
        if one not in (own.get("Env") or []) and not one.startswith(_LATER):
            words += ["-e", str(one).partition("=")[0]]
    for one in told.get("Mounts") or []:
        from_ = one.get("Name") if one.get("Type") == "volume" else one.get("Source")
        end = "" if one.get("RW", True) else ":ro"
        words += ["-v", f"{from_}:{one.get('Destination')}{end}"]
    for port, given in sorted((host.get("PortBindings") or {}).items()):
        for one in given or []:
            address = f"{one['HostIp']}:" if one.get("HostIp") else ""
            words += ["-p", f"{address}{one.get('HostPort', '')}:{port}"]
    restart = str(_part(host, "RestartPolicy").get("Name") or "no")
    words += ["--restart", restart] if restart != "no" else []
    for option, key in (("--memory", "Memory"), ("--shm-size", "ShmSize")):
        if host.get(key) and not (key == "ShmSize" and host[key] == 64 << 20):
            words += [option, str(host[key])]
    words += ["--ipc=host"] if host.get("IpcMode") == "host" else []
    for one in _gpus(config, host):
        words += ["--device", f"{_GPU}{one}"]
    entry = config.get("Entrypoint")
    arguments = list(config.get("Cmd") or [])
    if entry != own.get("Entrypoint"):
        words += ["--entrypoint", (entry or [""])[0]]
        arguments = [*(entry or [])[1:], *arguments]
    elif arguments == own.get("Cmd"):
        arguments = []
    tags = str(config.get("Image") or told.get("Image") or "")
    return shlex.join([str(word) for word in (*words, tags, *arguments)])


def _part(of: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = of.get(name)
    return found if isinstance(found, dict) else {}


def _gpus(config: Mapping[str, Any], host: Mapping[str, Any]) -> list[str]:
    """GPUs as CDI names them. Root's Docker has them by --gpus, or by a runtime and a variable."""
    for one in host.get("DeviceRequests") or []:
        if any("gpu" in kinds for kinds in one.get("Capabilities") or []) or one.get("Driver") == "nvidia":
            if one.get("DeviceIDs"):
                return [str(ident) for ident in one["DeviceIDs"]]
            count = one.get("Count") or 0
            return ["all"] if count < 0 else [str(number) for number in range(min(count, 64))]
    for variable in config.get("Env") or []:
        if host.get("Runtime") == "nvidia" and variable.startswith(_LATER):
            return [one for one in variable[len(_LATER) :].split(",") if re.fullmatch(r"[\w:.-]+", one)]
    return []


def differs(told: Mapping[str, Any]) -> list[str]:
    """What is otherwise in a person's own Docker, or cannot be."""
    return list(_differs(_part(told, "Config"), _part(told, "HostConfig"), told))


def _differs(config: Mapping[str, Any], host: Mapping[str, Any], told: Mapping[str, Any]) -> Iterator[str]:
    if any(one.get("Type") == "bind" for one in told.get("Mounts") or []):
        yield "directories of the host are not carried; root in the container is the person there"
    if host.get("Privileged"):
        yield "--privileged gives no power over the host"
    if host.get("CapAdd"):
        yield f"capabilities ({', '.join(map(str, host['CapAdd']))}) hold only within their own containers"
    for key, word in (("NetworkMode", "--network host"), ("PidMode", "--pid host")):
        if host.get(key) == "host":
            yield f"{word} is their daemon's own, not the host's"
    ports = [one.get("HostPort") for given in (host.get("PortBindings") or {}).values() for one in given or []]
    if any(str(port).isdigit() and 0 < int(port) < 1024 for port in ports):
        yield "ports below 1024 are root's: take a higher one"
    if host.get("Devices"):
        yield "devices of the host: only those that the person may open"
    mode = str(host.get("NetworkMode") or "")
    if mode not in ("", "default", "bridge", "host", "none"):
        yield f"the network {mode} is not carried: docker network create"
    if config.get("Env"):
        yield "values of variables (-e) are left out: docker inspect has them"
