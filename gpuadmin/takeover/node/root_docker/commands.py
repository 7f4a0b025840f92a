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
#: Docker's API: keys of HostConfig, and the option that each is for ``docker create``. With one value;
_VALUES = {
    "Memory": "--memory", "MemorySwap": "--memory-swap", "MemoryReservation": "--memory-reservation",
    "CpuShares": "--cpu-shares", "CpuPeriod": "--cpu-period", "CpuQuota": "--cpu-quota", "CpusetCpus": "--cpuset-cpus",
    "CpusetMems": "--cpuset-mems", "PidsLimit": "--pids-limit", "ShmSize": "--shm-size",
    "OomScoreAdj": "--oom-score-adj",
}  # fmt: skip
#: with none;
_FLAGS = {
    "Init": "--init", "ReadonlyRootfs": "--read-only", "AutoRemove": "--rm", "Privileged": "--privileged",
    "PublishAllPorts": "--publish-all", "OomKillDisable": "--oom-kill-disable",
}  # fmt: skip
#: with any number of values.
_LISTS = {
    "ExtraHosts": "--add-host", "Dns": "--dns", "DnsSearch": "--dns-search", "DnsOptions": "--dns-option",
    "CapAdd": "--cap-add", "CapDrop": "--cap-drop", "GroupAdd": "--group-add",
}  # fmt: skip
#: Options that take the name of a namespace, and the names that say the same elsewhere.
_NAMESPACES = {"NetworkMode": ("--network", "host", "none"), "PidMode": ("--pid", "host"), "UTSMode": ("--uts", "host"),
               "IpcMode": ("--ipc", "host", "none")}  # fmt: skip
#: Values with which the command has nothing to say.
_USUAL: Mapping[str, tuple[object, ...]] = {
    "ShmSize": (64 << 20,), "NetworkMode": ("default", "bridge"), "IpcMode": ("private", "shareable"),
    "CgroupnsMode": ("private", "host"), "Runtime": ("runc", "nvidia"), "MemorySwappiness": (-1,), "PidsLimit": (-1,),
}  # fmt: skip
#: Keys that are said in other words (`_differs`, `_mounts`), that follow from others, or that an image has.
_SAID = frozenset(
    """
    Binds Mounts Tmpfs PortBindings RestartPolicy DeviceRequests NanoCpus Ulimits Devices VolumesFrom LogConfig
    ContainerIDFile ConsoleSize MaskedPaths ReadonlyPaths
    """.split()  # noqa: SIM905  a list of thirty quoted words hides what is in it
)
_SAID_OF_IMAGE = frozenset(
    """
    Image Cmd Entrypoint Env Labels Hostname User WorkingDir Tty OpenStdin StdinOnce AttachStdin AttachStdout
    AttachStderr Volumes ExposedPorts StopSignal StopTimeout Domainname ArgsEscaped OnBuild
    """.split()  # noqa: SIM905  a list of twenty quoted words hides what is in it
)


def command(told: Mapping[str, Any], image: Mapping[str, Any]) -> str:
    """Given what a daemon says of a container and of its image, return a ``docker create``, quoted for a shell."""
    config, host = _part(told, "Config"), _part(told, "HostConfig")
    own = _part(image, "Config")
    words = ["docker", "create", "--name", str(told.get("Name", "")).lstrip("/")]
    words += _of_image(told, config, own, host)
    for one in config.get("Env") or []:
        # guard: values of variables are not told
        if one not in (own.get("Env") or []) and not one.startswith(_LATER):
            words += ["-e", str(one).partition("=")[0]]
    words += [*_mounts(told, host), *_ports(host)]
    restart, times = (_part(host, "RestartPolicy").get(key) for key in ("Name", "MaximumRetryCount"))
    words += ["--restart", f"{restart}:{times}" if times else str(restart)] if restart not in (None, "", "no") else []
    words += [*_limits(host), *_options(host)]
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
    return " ".join(_quoted(str(word)) for word in (*words, tags, *arguments))


def _quoted(word: str) -> str:
    """A word for a shell, on one line and as it is shown: bash(1), QUOTING, has escapes for what is not printed."""
    # guard: a word that is shown otherwise than it is would be pasted otherwise -> True
    if word.isprintable():
        return shlex.quote(word)
    letters = (
        one
        if one.isprintable() and one not in "\\'"
        else "".join(f"\\x{byte:02x}" for byte in one.encode("utf-8", "replace"))
        for one in word
    )
    return f"$'{''.join(letters)}'"


def _part(of: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = of.get(name)
    return found if isinstance(found, dict) else {}


def _of_image(
    told: Mapping[str, Any], config: Mapping[str, Any], own: Mapping[str, Any], host: Mapping[str, Any]
) -> Iterator[str]:
    """What an image says as well: where the container says the same, nothing."""
    yield from (word for word, wanted in (("-t", config.get("Tty")), ("-i", config.get("OpenStdin"))) if wanted)
    for option, key in (
        ("--user", "User"), ("--workdir", "WorkingDir"), ("--stop-signal", "StopSignal"),
        ("--stop-timeout", "StopTimeout"), ("--domainname", "Domainname"),
    ):  # fmt: skip
        if config.get(key) and config[key] != own.get(key):
            yield from (option, str(config[key]))
    name = str(config.get("Hostname") or "")
    # without one a container has the beginning of its id; with the host's network it has the host's
    if name and not str(told.get("Id", "")).startswith(name) and host.get("NetworkMode") != "host":
        yield from ("--hostname", name)
    for key, value in _part(config, "Labels").items():
        if _part(own, "Labels").get(key) != value:
            yield from ("--label", f"{key}={value}")


def _mounts(told: Mapping[str, Any], host: Mapping[str, Any]) -> Iterator[str]:
    options = dict(_part(host, "Tmpfs"))
    for one in host.get("Mounts") or []:
        if one.get("Type") == "tmpfs":
            given = _part(one, "TmpfsOptions")
            size, mode = given.get("SizeBytes"), given.get("Mode")
            words = [
                *([f"size={size}"] if size else ()),
                *([f"mode={mode:o}"] if isinstance(mode, int) and mode else ()),
            ]
            options.setdefault(str(one.get("Target")), ",".join(words))
    for one in told.get("Mounts") or []:
        kind, place = one.get("Type"), str(one.get("Destination"))
        if kind == "tmpfs":
            options.setdefault(place, "")
        elif kind in ("volume", "bind"):
            from_ = str(one.get("Name") if kind == "volume" else one.get("Source"))
            reads = not one.get("RW", True)
            if ":" in from_ + place:  # -v has no way to quote it
                fields = [f"type={kind}", f"source={from_}", f"target={place}", *(["readonly"] if reads else ())]
                yield from ("--mount", ",".join(map(_field, fields)))
            else:
                yield from ("-v", f"{from_}:{place}{':ro' if reads else ''}")
    for place, text in sorted(options.items()):
        yield from ("--tmpfs", f"{place}:{text}" if text else place)


def _field(text: str) -> str:
    """A field of --mount, which is CSV."""
    return '"{}"'.format(text.replace('"', '""')) if re.search(r'[",\n\r]', text) else text


def _ports(host: Mapping[str, Any]) -> Iterator[str]:
    for port, given in sorted((host.get("PortBindings") or {}).items()):
        for one in given or []:
            address = str(one.get("HostIp") or "")
            address = f"[{address}]:" if ":" in address else f"{address}:" if address else ""
            yield from ("-p", f"{address}{one.get('HostPort', '')}:{port}")


def _limits(host: Mapping[str, Any]) -> Iterator[str]:
    if host.get("NanoCpus"):
        yield from ("--cpus", f"{host['NanoCpus'] / 10**9:.9f}".rstrip("0").rstrip("."))
    for one in host.get("Ulimits") or []:
        yield from ("--ulimit", f"{one.get('Name')}={one.get('Soft')}:{one.get('Hard')}")


def _has(host: Mapping[str, Any], key: str) -> bool:
    """Whether a container has more there than one that was made without options."""
    value = host.get(key)
    if key == "MemorySwap" and value == 2 * (host.get("Memory") or 0):
        return False
    return bool(value) and value not in _USUAL.get(key, ())


def _options(host: Mapping[str, Any]) -> Iterator[str]:
    for key, option in _VALUES.items():
        if _has(host, key):
            yield from (option, str(host[key]))
    yield from (option for key, option in _FLAGS.items() if host.get(key))
    for key, option in _LISTS.items():
        for one in host.get(key) or []:
            yield from (option, str(one))
    for key, value in sorted(_part(host, "Sysctls").items()):
        yield from ("--sysctl", f"{key}={value}")
    for key, (option, *names) in _NAMESPACES.items():
        if host.get(key) in names:
            yield f"{option}={host[key]}"
    for one in host.get("SecurityOpt") or []:
        if _carried(one):
            yield from ("--security-opt", str(one))


def _carried(security: object) -> bool:
    """Whether an option of security says the same in a person's own Docker. A profile is a file of root's."""
    return re.fullmatch(r"no-new-privileges([:=]\w+)?|seccomp[:=]unconfined", str(security)) is not None


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


def differs(told: Mapping[str, Any], image: Mapping[str, Any]) -> list[str]:
    """What is otherwise in a person's own Docker, or cannot be, and what the command leaves out."""
    config, host = _part(told, "Config"), _part(told, "HostConfig")
    return [*_differs(config, host, told), *_left(config, _part(image, "Config"), host, told)]


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
        paths = ", ".join(str(one.get("PathOnHost")) for one in host["Devices"])
        yield f"devices of the host ({paths}) are left out: --device, for those that the person may open"
    if host.get("Ulimits"):
        yield "limits (--ulimit) are theirs at the most: a higher one does not start"
    mode = str(host.get("NetworkMode") or "")
    if mode.startswith("container:"):
        yield "the network of another container is not carried: --network container:NAME"
    elif mode not in ("", "default", "bridge", "host", "none"):
        yield f"the network {mode} is not carried: docker network create"
    if config.get("Env"):
        yield "values of variables (-e) are left out: docker inspect has them"


def _left(
    config: Mapping[str, Any], own: Mapping[str, Any], host: Mapping[str, Any], told: Mapping[str, Any]
) -> Iterator[str]:
    """Whatever else a container has, by the name that Docker has for it."""
    carried = {*_VALUES, *_FLAGS, *_LISTS, "Sysctls", *_SAID}
    names = []
    for key in host:
        if key == "SecurityOpt":
            names += [key] if not all(map(_carried, host[key] or ())) else []
        elif key in _NAMESPACES:
            # a network of its own is named before
            names += [key] if _has(host, key) and host[key] not in _NAMESPACES[key] and key != "NetworkMode" else []
        elif key not in carried and _has(host, key):
            names.append(key)
    if _part(host, "LogConfig").get("Config"):
        names.append("LogConfig")
    names += [key for key, value in config.items() if key not in _SAID_OF_IMAGE and value and value != own.get(key)]
    if config.get("Hostname") and host.get("NetworkMode") == "host":
        names += [] if str(told.get("Id", "")).startswith(str(config["Hostname"])) else ["Hostname"]
    kinds = {str(one.get("Type")) for one in told.get("Mounts") or []} - {"bind", "volume", "tmpfs"}
    names += [f"mounts of type {one}" for one in sorted(kinds)]
    if names:
        yield f"left out: {', '.join(sorted(names))} (docker inspect has them)"
