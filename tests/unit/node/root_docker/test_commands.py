"""A container of root's Docker as a command of its person's, and what is said to be different."""

import shlex
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.root_docker import commands

IMAGE: dict[str, Any] = {"Config": {"Env": ["PATH=/bin"], "Entrypoint": None, "Cmd": ["sh"], "User": ""}}


def told(config: dict[str, Any] | None = None, host: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    own = {"Image": "tiny", "Env": ["PATH=/bin"], "Cmd": ["sh"], "Entrypoint": None, **(config or {})}
    return {"Name": "/train", "Config": own, "HostConfig": host or {}, **more}


CASES = [
    (told(), "docker create --name train tiny"),
    (told({"Cmd": ["python", "a b; rm"]}), "docker create --name train tiny python 'a b; rm'"),
    (told({"Tty": True, "User": "1000", "WorkingDir": "/w"}),
     "docker create --name train -t --user 1000 --workdir /w tiny"),
    (told({"Entrypoint": ["run", "--fast"]}), "docker create --name train --entrypoint run tiny --fast sh"),
    (told(Mounts=[{"Type": "volume", "Name": "data", "Destination": "/d", "RW": False},
                  {"Type": "bind", "Source": "/home/a b", "Destination": "/h"}]),
     "docker create --name train -v data:/d:ro -v '/home/a b:/h' tiny"),
    (told(None, {"PortBindings": {"80/tcp": [{"HostIp": "", "HostPort": "8080"}]}, "Memory": 5, "ShmSize": 64 << 20}),
     "docker create --name train -p 8080:80/tcp --memory 5 tiny"),
    (told(None, {"DeviceRequests": [{"Driver": "", "Count": -1, "Capabilities": [["gpu"]]}]}),
     "docker create --name train --device nvidia.com/gpu=all tiny"),
    (told(None, {"DeviceRequests": [{"DeviceIDs": ["1", "2"], "Capabilities": [["gpu"]]}]}),
     "docker create --name train --device nvidia.com/gpu=1 --device nvidia.com/gpu=2 tiny"),
    (told({"Env": ["NVIDIA_VISIBLE_DEVICES=0,x;y"]}, {"Runtime": "nvidia"}),
     "docker create --name train --device nvidia.com/gpu=0 tiny"),
    (told(None, {"RestartPolicy": {"Name": "always"}}), "docker create --name train --restart always tiny"),
]  # fmt: skip


@pytest.mark.parametrize(("container", "words"), CASES)
def test_the_command(container: dict[str, Any], words: str) -> None:
    found = commands.command(container, IMAGE)
    assert found == words
    assert shlex.join(shlex.split(found)) == found


@pytest.mark.holds("values of variables are not told")
def test_no_value_of_a_variable() -> None:
    found = commands.command(told({"Env": ["PATH=/bin", "TOKEN=secret"]}), IMAGE)
    assert "-e TOKEN tiny" in found
    assert "secret" not in found


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ({"Privileged": True}, "--privileged"),
        ({"NetworkMode": "host"}, "--network host"),
        ({"NetworkMode": "lab"}, "the network lab"),
        ({"PidMode": "host"}, "--pid host"),
        ({"CapAdd": ["SYS_ADMIN"]}, "capabilities (SYS_ADMIN)"),
        ({"PortBindings": {"80/tcp": [{"HostPort": "80"}]}}, "ports below 1024"),
        ({"Devices": [{"PathOnHost": "/dev/fuse"}]}, "devices"),
    ],
)
def test_what_differs(host: dict[str, Any], words: str) -> None:
    assert any(words in one for one in commands.differs(told({"Env": []}, host)))
    assert commands.differs(told({"Env": []})) == []
