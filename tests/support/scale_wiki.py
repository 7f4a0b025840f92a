"""The wiki's playbook, run on cheap hosts as its admins would run it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.scale_hosts import ADMIN, Cluster, SshHost
from tests.support.scale_people import people

HERE = Path(__file__).resolve().parents[2] / "benchmarks" / "wiki"

TUNED = {
    "ANSIBLE_PIPELINING": "True",
    "ANSIBLE_SSH_ARGS": "-o ControlMaster=auto -o ControlPersist=300s",
    "ANSIBLE_FORKS": "50",
}


def prepare(host: SshHost, number: int) -> None:
    """What the wiki takes for granted: the accounts are there, and so is its script."""
    etc = host.root / "etc"
    for file, line in (
        ("passwd", "{name}:x:{uid}:{uid}::/home/{name}:/bin/bash\n"),
        ("shadow", "{name}:*:20000:0:99999:7:::\n"),
        ("group", "{name}:x:{uid}:\n"),
    ):
        with (etc / file).open("a") as stream:
            stream.writelines(line.format(name=name, uid=uid) for name, uid in people(number))
    shutil.copy(HERE / "add-docker-user", host.root / "usr/local/sbin/add-docker-user")


def run(cluster: Cluster, number: int, place: Path, *, tuned: bool = False) -> None:
    """Run the wiki's playbook for that many people on every host that is not the storage host.

    With Ansible's default settings and host key checking off, as told; `tuned` is what can be had by settings.
    """
    place.mkdir(parents=True, exist_ok=True)
    lines = ["[nodes]"]
    for host in cluster.hosts:
        if host.name != "storage1":
            lines.append(f"{host.name} ansible_host={host.address} ansible_port={host.port}")
    names = ", ".join(f'"{name}"' for name, _ in people(number))
    lines += [
        "[nodes:vars]",
        f"ansible_user={ADMIN}",
        f"ansible_ssh_private_key_file={cluster.key}",
        "ansible_python_interpreter=/usr/bin/python3",
    ]
    (place / "hosts.ini").write_text("\n".join(lines) + "\n")
    (place / "users.yml").write_text(f"docker_users: [{names}]\n")
    (place / "ansible.cfg").write_text("")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")} | {
        "ANSIBLE_CONFIG": str(place / "ansible.cfg"),
        "ANSIBLE_HOST_KEY_CHECKING": "False",
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(cluster.directory / "cp"),
        "ANSIBLE_NOCOLOR": "1",
        **(TUNED if tuned else {}),
    }
    playbook = Path(sys.executable).parent / "ansible-playbook"
    line = (
        str(playbook), "-i", str(place / "hosts.ini"), "-e", f"@{place / 'users.yml'}",
        str(HERE / "add-docker-users.yml"),
    )  # fmt: skip
    done = subprocess.run(line, check=False, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise RuntimeError(f"the wiki's playbook failed:\n{done.stdout[-3000:]}\n{done.stderr[-1000:]}")
