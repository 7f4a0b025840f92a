"""The first day of somebody who reads the guide and nothing else: what it has them type is typed, as it is there."""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.lab_cluster import Cluster
from tests.support.monitored import SETTINGS, monitor_host
from tests.support.queued_cluster import SLURM, queued

pytestmark = [pytest.mark.lab, pytest.mark.root]  # light hosts, which have GPUs
NODE = "node1"
#: A stand-in for PyTorch, which labs cannot fetch: whether a GPU can be used is whether its device can be opened.
TORCH = """
mkdir -p ~/wheels ~/.config/pip && cd ~/wheels && python3 - <<'end'
import zipfile
code = '''import glob
class cuda:
    @staticmethod
    def is_available():
        for path in glob.glob("/dev/nvidia[0-9]*"):
            try:
                open(path, "rb").close()
            except OSError:
                continue
            return True
        return False
'''
about = "Metadata-Version: 2.1\\nName: torch\\nVersion: 1\\n"
wheel = "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
files = {"torch/__init__.py": code, "torch-1.dist-info/METADATA": about, "torch-1.dist-info/WHEEL": wheel}
record = "".join(f"{name},,\\n" for name in (*files, "torch-1.dist-info/RECORD"))
with zipfile.ZipFile("torch-1-py3-none-any.whl", "w") as made:
    for name, text in {**files, "torch-1.dist-info/RECORD": record}.items():
        made.writestr(name, text)
end
printf '[global]\\nno-index = true\\nfind-links = %s\\n' ~/wheels > ~/.config/pip/pip.conf
"""
TRAIN = "import torch\nprint('GPU', torch.cuda.is_available())\n"


@pytest.fixture
def site(with_queue: Cluster) -> Iterator[Cluster]:
    """With a queue and a monitor host; minji and jiho are new."""
    with monitor_host(with_queue), queued(with_queue, f"{SLURM}\n{SETTINGS}") as found:
        yield found


class Guide:
    """The guide of a site: the blocks of each section, as lines without what is said beside them."""

    def __init__(self, text: str, name: str) -> None:
        self.blocks: dict[str, list[list[str]]] = {}
        for part in re.split(r"(?m)^##+ ", text.replace("NAME", name))[1:]:
            heading, _, body = part.partition("\n")
            found = re.findall(r"(?ms)^```\n(.*?)^```", body)
            self.blocks[heading] = [[re.sub(r"\s+# .*", "", line) for line in one.splitlines()] for one in found]
        self.places = re.findall(rf"(?m)^\| `(/[^`]*/{name}|/[^`]*tmp|/dev/shm)` \|", text.replace("NAME", name))

    def lines(self, *headings: str) -> list[str]:
        """All lines of all blocks of these sections."""
        return [line for heading in headings for block in self.blocks[heading] for line in block]


def read_guide(cluster: Cluster, name: str) -> Guide:
    """The guide as its person has it; the one in Korean has them type the same."""
    written = cluster.gpuadmin("user-guide")["result"]["pages"]
    pages = {language: Guide(text, name) for language, text in written.items()}
    typed = {
        language: [line for blocks in one.blocks.values() for block in blocks for line in block if line[:1] != "#"]
        for language, one in pages.items()
    }
    assert typed["en"] == typed["ko"]
    return pages["en"]


def own_machine(cluster: Cluster, guide: Guide, name: str, directory: Path, key: Path) -> dict[str, str]:
    """A laptop with the guide's ssh config, which knows the hosts. Returns the environment."""
    text = ssh_config(guide).replace("~/.ssh/id_ed25519", str(key))
    known = f"Host *\n    UserKnownHostsFile {cluster.site}/known_hosts\n    IdentitiesOnly yes\n"
    (directory / "config").write_text(f"{text}\n{known}")
    (directory / "bin").mkdir(exist_ok=True)
    program = directory / "bin/ssh"
    program.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {directory}/config "$@"\n')
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{directory}/bin:{os.environ['PATH']}"}


def ssh_config(guide: Guide) -> str:
    (config,) = [block for block in guide.blocks["Logging in"] if block[0].startswith("Host ")]
    return "\n".join(config)


def here(command: str, directory: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a line of the guide on the person's own machine, by a shell, as somebody types it."""
    return subprocess.run(
        command, shell=True, cwd=directory, env=environment, text=True, stdin=subprocess.DEVNULL, capture_output=True,
        timeout=300, check=False,
    )  # fmt: skip


def test_the_first_day(site: Cluster, tmp_path: Path) -> None:
    first_day(site, "minji", tmp_path)


def first_day(cluster: Cluster, name: str, directory: Path) -> None:
    guide = read_guide(cluster, name)
    log_in(cluster, guide, name, directory)
    copy_data(cluster, guide, name)
    run_first(cluster, guide, name)
    ask_the_queue(cluster, guide, name)
    submit(cluster, guide, name)
    look_around(cluster, guide, name)
    keep_files(cluster, guide, name)


def log_in(cluster: Cluster, guide: Guide, name: str, directory: Path) -> None:
    environment = own_machine(cluster, guide, name, directory, cluster.keys / name)
    (direct,) = next(block for block in guide.blocks["Logging in"] if block[0].startswith("ssh "))
    direct = direct.replace("~/.ssh/id_ed25519", str(cluster.keys / name))
    for command in (f"{direct} id -un", f"ssh {NODE} id -un"):
        done = here(command, directory, environment)
        assert done.stdout == f"{name}\n", f"{command}\n{done.stderr}"
    # with a wrong key nobody is asked for a password that they do not have
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / "wrong")], check=True)
    environment = own_machine(cluster, guide, name, directory, directory / "wrong")
    done = here(f"ssh -v {NODE} true", directory, environment)
    assert done.returncode == 255
    assert "Permission denied (publickey" in done.stderr
    assert not re.search("Next authentication method: (password|keyboard)", done.stderr)


def copy_data(cluster: Cluster, guide: Guide, name: str) -> None:
    """From a new laptop, whose key they add by themselves: another node stands in for it."""
    own = re.sub(r"HostName .*\n    Port .*", "HostName 10.77.0.11", ssh_config(guide))
    cluster.person(name, "node2", "rm -f ~/.ssh/id_ed25519; ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519")
    cluster.person(name, "node2", "cat ~/.ssh/id_ed25519.pub >> ~/.ssh/authorized_keys")
    cluster.person(name, "node2", f"printf %s {shlex.quote(own)} > ~/.ssh/config && chmod 600 ~/.ssh/*")
    cluster.person(name, "node2", "ssh -o StrictHostKeyChecking=accept-new node1 true")
    cluster.person(name, NODE, "mkdir -p ~/results && echo 5 > ~/results/loss")
    there = "cd $(mktemp -d) && mkdir data && echo 1 > data/one && echo weights > model.pt && {} && pwd"
    copy_in, copy_out, copy_one = guide.blocks["Copying data in and out"][0]
    for command in (copy_in, copy_one):
        cluster.person(name, "node2", there.format(command))
    assert cluster.person(name, NODE, "cat ~/data/one ~/model.pt") == "1\nweights\n"
    laptop = cluster.person(name, "node2", there.format(copy_out)).split()[-1]
    assert cluster.person(name, "node2", f"cat {laptop}/results/loss") == "5\n"


def run_first(cluster: Cluster, guide: Guide, name: str) -> None:
    cluster.person(name, NODE, TORCH)
    login, *commands = guide.lines("A first run")
    assert login.startswith("ssh ")
    install, run = commands
    cluster.person(name, NODE, install)
    alone = run.partition(" -- ")[2]
    assert cluster.person(name, NODE, alone) == "False\n", "it is not theirs"
    assert "True" in cluster.person(name, NODE, run).splitlines()
    cluster.wait(lambda: cluster.ssh(name, NODE, alone), differs="True\n", seconds=60)  # nor any longer


def ask_the_queue(cluster: Cluster, guide: Guide, name: str) -> None:
    """Each line by itself, and given back; more time is asked for while there is a GPU."""
    lines = guide.blocks["GPUs: ask the queue"][0]
    more = [line for line in lines if line.startswith("gpu extend")]
    gets = [line for line in lines if line.startswith("gpu get")]
    cluster.person(name, NODE, f"printf %s {shlex.quote(TRAIN)} > ~/train.py")
    for line in lines:
        if line in more or line.startswith("gpu release") or "IMAGE" in line:  # an image is fetched from elsewhere
            continue
        done = cluster.person(name, NODE, f"cd && source ~/first/bin/activate && {line}")
        if line.startswith("gpu run --"):
            assert "--detach" in line or "GPU True" in done.splitlines()
        if line in gets:
            for extend in more if line == gets[0] else []:
                cluster.person(name, NODE, extend)
            cluster.person(name, NODE, "gpu release")
    assert len(lines) > 5


def submit(cluster: Cluster, guide: Guide, name: str) -> None:
    script = next(block for block in guide.blocks["A job instead of a session"] if block[0] == "#!/bin/bash")
    for path, text in (("train.sh", "\n".join(script)), ("train.py", TRAIN)):
        cluster.person(name, NODE, f"printf %s {shlex.quote(text)} > ~/{path}")
    number = cluster.person(name, NODE, "cd && sbatch train.sh").split()[-1]
    cluster.wait(lambda: cluster.ssh(name, NODE, f'test -z "$(squeue --me --noheader)" && cat ~/vae-{number}.log'))
    log = cluster.person(name, NODE, f"cat ~/vae-{number}.log")
    assert log == "GPU True\n"


def look_around(cluster: Cluster, guide: Guide, name: str) -> None:
    cluster.admin(NODE, "systemctl start gpuadmin-cluster.service")
    asked = guide.lines("Who uses which GPU: the dashboard", "When it does not work")
    assert {line.split()[-1] for line in asked} == {"free", "top", "check", "gpuadmin-me", "disk", "limits"}
    for line in asked:
        done = cluster.ssh(name, NODE, f"LANG=C.UTF-8 {line}")
        # what keeps somebody without a GPU from one is said by `check`, with 1
        assert done.returncode in ((0, 1) if line.endswith("check") else (0,)), f"{line}\n{done.stdout}{done.stderr}"
        assert done.stderr == ""
    assert all(node in cluster.person(name, NODE, "gpuadmin-me top") for node in ("node1", "node2"))
    assert "https://" in cluster.person(name, NODE, "gpuadmin-me web")
    assert cluster.ssh(name, NODE, "cat /var/lib/gpuadmin/dashboard/link.key").returncode != 0
    # what the guide names is there
    cluster.person(name, NODE, "for one in tmux git curl wget crontab at pip3; do command -v $one || exit 1; done")
    cluster.person(name, NODE, "docker compose version")


def keep_files(cluster: Cluster, guide: Guide, name: str) -> None:
    """Each place of the guide is there, and theirs where it has their name."""
    assert f"/local/{name}" in guide.places
    for path in guide.places:
        cluster.person(name, NODE, f"touch {path}/{name}.first-day && rm {path}/{name}.first-day")
        if path.endswith(f"/{name}"):
            assert cluster.person(name, NODE, f"stat -c '%U %a' {path}").split() == [name, "700"]
            assert cluster.ssh("jiho", NODE, f"ls {path}").returncode != 0, "nobody else looks into it"
    # the account's place comes again where it went, and what is somebody else's stays
    cluster.admin(NODE, f"rmdir /local/{name} && mkdir /local/{name}")
    done = cluster.gpuadmin("sync-users", "--yes")
    assert "stays as it is" in str(done)
    assert cluster.admin(NODE, f"stat -c %U /local/{name}").strip() == "root"
    cluster.admin(NODE, f"rmdir /local/{name}")
    cluster.gpuadmin("sync-users", "--yes")
    assert cluster.admin(NODE, f"stat -c '%U %a' /local/{name}").split() == [name, "700"]
