"""A container of root's Docker as a command of its person's, and what is said to be different."""

import shlex
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.run import run

from gpuadmin.takeover.node.root_docker import commands

IMAGE: dict[str, Any] = {
    "Config": {"Env": ["PATH=/bin"], "Entrypoint": None, "Cmd": ["sh"], "User": "", "Labels": {"of": "image"}}
}


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
    (told(None, {"Ulimits": [{"Name": "memlock", "Hard": -1, "Soft": -1}], "NanoCpus": 1_500_000_000,
                 "ExtraHosts": ["lic:10.1.2.3"], "RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": 3}}),
     "docker create --name train --restart on-failure:3 --cpus 1.5 --ulimit memlock=-1:-1 "
     "--add-host lic:10.1.2.3 tiny"),
    (told({"Hostname": "dl-minji", "Labels": {"a b": "c", "of": "image"}}, Id="0123456789ab"),
     "docker create --name train --hostname dl-minji --label 'a b=c' tiny"),
    (told({"Hostname": "0123456789ab"}, Id="0123456789abcdef"), "docker create --name train tiny"),
    (told(None, {"Tmpfs": {"/run": "size=1m"}, "Mounts": [{"Type": "tmpfs", "Target": "/t", "TmpfsOptions":
                 {"SizeBytes": 9, "Mode": 0o1777}}]}, Mounts=[{"Type": "tmpfs", "Destination": "/cache"}]),
     "docker create --name train --tmpfs /cache --tmpfs /run:size=1m --tmpfs /t:size=9,mode=1777 tiny"),
    (told(Mounts=[{"Type": "bind", "Source": '/a:b,"c', "Destination": "/h", "RW": False}]),
     """docker create --name train --mount 'type=bind,"source=/a:b,""c",target=/h,readonly' tiny"""),
    (told(None, {"NetworkMode": "host", "IpcMode": "host", "Memory": 5, "MemorySwap": 10, "CapAdd": ["SYS_PTRACE"],
                 "Init": True, "Sysctls": {"net.a": "1"}, "SecurityOpt": ["seccomp=unconfined", "apparmor=x"]}),
     "docker create --name train --memory 5 --init --cap-add SYS_PTRACE --sysctl net.a=1 --network=host --ipc=host "
     "--security-opt seccomp=unconfined tiny"),
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


@pytest.mark.holds("a word that is shown otherwise than it is would be pasted otherwise")
@pytest.mark.parametrize("word", ["a\nrm -rf ~", "\x1b[2J", "it's \t\\n", "\u202eevil"])
def test_a_word_that_no_terminal_shows_is_the_same_when_it_is_pasted(word: str) -> None:
    found = commands.command(told({"Cmd": [word]}), IMAGE)
    assert found.isprintable()
    said = f"docker() {{ printf '%s' \"${{@: -1}}\"; }}; {found}"
    assert run(("bash", "-c", said)) == word


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ({"Privileged": True}, "--privileged"),
        ({"NetworkMode": "host"}, "--network host"),
        ({"NetworkMode": "lab"}, "the network lab"),
        ({"NetworkMode": "container:0123"}, "of another container is not carried"),
        ({"PidMode": "host"}, "--pid host"),
        ({"CapAdd": ["SYS_ADMIN"]}, "capabilities (SYS_ADMIN)"),
        ({"PortBindings": {"80/tcp": [{"HostPort": "80"}]}}, "ports below 1024"),
        ({"Devices": [{"PathOnHost": "/dev/fuse"}]}, "devices of the host (/dev/fuse) are left out"),
        ({"Ulimits": [{"Name": "memlock", "Hard": -1, "Soft": -1}]}, "--ulimit"),
        (
            {"CgroupParent": "x", "Isolation": "", "IpcMode": "container:y", "Runtime": "kata"},
            "left out: CgroupParent, IpcMode, Runtime",
        ),
        (
            {"SecurityOpt": ["seccomp={}"], "LogConfig": {"Type": "syslog", "Config": {"a": "b"}}},
            "left out: LogConfig, SecurityOpt",
        ),
    ],
)
def test_what_differs(host: dict[str, Any], words: str) -> None:
    assert any(words in one for one in commands.differs(told({"Env": []}, host), IMAGE))
    assert commands.differs(told({"Env": []}), IMAGE) == []


def test_what_only_the_container_has_is_named() -> None:
    container = told({"Env": [], "Healthcheck": {"Test": ["CMD", "x"]}}, Mounts=[{"Type": "npipe"}])
    assert commands.differs(container, IMAGE) == [
        "left out: Healthcheck, mounts of type npipe (docker inspect has them)"
    ]
    image = {"Config": {**IMAGE["Config"], "Healthcheck": {"Test": ["CMD", "x"]}}}
    assert commands.differs(told({"Env": [], "Healthcheck": {"Test": ["CMD", "x"]}}), image) == []
