"""The demo's part `adopt`: hosts that people have set up by hand are read, compared, put in order and taken over."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

from demo_steps import CYAN, GPUADMIN, RESET, expect, run, title

from gpuadmin.config.load import load_site
from gpuadmin.lab import state

PEOPLE = ("minji", "jiho")
NODES = ("plain1", "plain2", "plain3")
#: What adopt cannot see of hosts that are reached by a port of this machine, and whose GPUs are files.
OF_A_LAB = ("gpuadmin_address", "gpu_stack_groups", "gpu_stack_devices")
#: What an admin typed on each host over the years, by the wiki. The second one numbered people again.
BY_HAND = {
    "storage1": "mkdir -p /srv/storage/homes; echo '/srv/storage/homes *(rw,no_subtree_check)' >> /etc/exports",
    "plain1": "useradd -m -s /bin/bash -u 1001 minji; useradd -m -s /bin/bash -u 1002 jiho; "
    "groupadd docker; gpasswd -a minji docker",
    "plain2": "useradd -m -s /bin/bash -u 1002 minji; useradd -m -s /bin/bash -u 1001 jiho",
    "plain3": "useradd -m -s /bin/bash -u 1001 minji; "
    "echo 'ClientAliveInterval 15' > /etc/ssh/sshd_config.d/old.conf; systemctl reload ssh",
}


def find_own(site: Path) -> Path:
    """The site that the lab makes of itself: only its login is used."""
    return site.with_name(f"{site.name}-lab")


def show(lab: str, site: Path, gpus: int) -> None:
    """Run the part, given the names of its lab and of the site that `adopt` makes, and how many GPUs each node has."""
    own = find_own(site)
    grown = state.load(lab) is None

    def admin(host: str, command: str, typed: str = "") -> str:
        line = (GPUADMIN, "lab", "ssh", "--name", lab, host, f"sudo bash -c {shlex.quote(command)}")
        return run(*line, capture=True, typed=f"root@{host}:~# {typed or command}")

    def person(name: str, host: str, command: str) -> str:
        login = ("lab", "ssh", "--name", lab, "--login", name, "--identity", str(own / "keys" / name), host)
        line = (GPUADMIN, *login, shlex.join(["bash", "-lc", command]))
        return run(*line, capture=True, typed=f"{name}@{host}:~$ {command}")

    title("Four hosts as people have set them up by hand, without gpuadmin")
    run(
        GPUADMIN,
        "lab",
        "up",
        "--name",
        lab,
        "--light",
        "--nodes",
        "0",
        "--ordinary",
        "3",
        "--gpus",
        str(gpus),
        "--site",
        str(own),
    )
    if grown:
        admin("storage1", "btrfs property set -ts / ro false")  # the lab made that one for gpuadmin
        for host, command in BY_HAND.items():
            admin(host, f"set -e; {command}", command)
        for name in PEOPLE:
            public = _key(own / "keys" / name)
            for host in NODES:
                if f" {name};" in f"{BY_HAND[host]};":
                    admin(host, _with_key(name, public), f"ssh-copy-id {name}@{host}")
        person("minji", "plain1", "echo 'chapter one' > thesis")
        person("minji", "plain2", "echo 'run 17' > results")
        person("jiho", "plain2", "echo his > notes")

    _adopt(lab, own, site)

    title("Which host is not like the others?")
    odd = run(GPUADMIN, "compare", "--section", "ssh", check=False, capture=True)
    expect("plain3" in odd and "clientaliveinterval" in odd.lower(), "plain3 ends idle sessions after 45 seconds")

    title("One uid for each person, on every host: seen first, then done")
    run(GPUADMIN, "provision", "--limit", "storage1", "--yes")  # who has no account there yet gets one
    run(GPUADMIN, "renumber", "--check")
    run(GPUADMIN, "renumber", "--yes", "--force")
    expect(admin("plain2", "stat -c %U /home/minji/results") == "minji\n", "minji's file is still hers")

    title("Homes go to the storage host: nothing is deleted, what was there twice is there twice")
    admin("plain1", "gpasswd -d minji docker")  # as the report says: whoever is in it is as good as root
    run(GPUADMIN, "move-homes", "--main", "minji=plain1", "--yes")

    title("The nodes are set up, and everybody finds what they had, on all of them, with the key that they had")
    run(GPUADMIN, "provision", "--yes")
    found = person("minji", "plain3", "cat thesis before-plain2/results; id -u")
    expect(found.split("\n")[:2] == ["chapter one", "run 17"], "minji has her files of both nodes on the third")
    expect(person("jiho", "plain1", "cat notes") == "his\n", "jiho has his")
    run(GPUADMIN, "audit", check=False)
    again = run(GPUADMIN, "adopt", "--yes", capture=True)
    expect("nothing new" in again.lower(), "a second adopt finds nothing new")


def _adopt(lab: str, own: Path, site: Path) -> None:
    """Read the hosts by their ports on this machine, and go into the site that comes of it."""
    title("gpuadmin adopt looks, changes nothing there, and writes a site and a report")
    made = load_site(str(own))
    identity = str(made.settings.admin.ssh_key)
    hosts = json.loads(subprocess.check_output([GPUADMIN, "lab", "status", "--name", lab, "--json"]))["hosts"]
    addresses = [f"{host['name']}=127.0.0.1:{host['ssh_port']}" for host in hosts]
    shutil.rmtree(site, ignore_errors=True)
    run(GPUADMIN, "adopt", *addresses, "--admin", "gpuadmin", "--identity", identity, "--site", str(site), "--yes")
    os.chdir(site)
    report = Path("adoption.md").read_text()
    print(f"{CYAN}$ head -n 40 adoption.md{RESET}\n" + "\n".join(report.splitlines()[:40]), flush=True)
    expect("Uid swapped" in report and "Several homes" in report, "the report names what is crooked")

    print(f"{CYAN}$ edit inventory/lab.yml   # the addresses among the hosts, and that no driver is there{RESET}")
    variables = {one.name: {name: one.variables[name] for name in OF_A_LAB if name in one.variables}
                 for one in made.inventory.hosts}  # fmt: skip
    Path("inventory/lab.yml").write_text(json.dumps({"all": {"hosts": variables}}) + "\n")


def _key(path: Path) -> str:
    """The public key of a pair, which is made."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    if not path.exists():
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", path.name, "-f", str(path))
    return path.with_suffix(".pub").read_text().strip()


def _with_key(name: str, public: str) -> str:
    """The command that lets somebody log in by that key, as ssh-copy-id would."""
    keys = f"/home/{name}/.ssh/authorized_keys"
    return (
        f"set -e; install -d -m 700 -o {name} /home/{name}/.ssh; echo {shlex.quote(public)} > {keys}; "
        f"chown {name}: {keys}; chmod 600 {keys}"
    )
