"""`make demo`: a virtual cluster, two people on it, a container, an image pushed, and the end of a semester.

Every step is a command that you could have typed; it is printed before it is run, and what it shows is checked.
`make demo PARTS=accounts` does only that part.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

GPUADMIN = str(Path(sys.executable).parent / "gpuadmin")
SITE = Path(os.environ.get("GPUADMIN_DEMO_SITE", "demo-site")).absolute()
LAB = "demo"
#: The parts in their order: what each shows, and its minutes without KVM on two cores, where it did not run here yet.
PARTS = {
    "accounts": ("a cluster, two accounts, a container", 15),
    "images": ("an image on all nodes, and one that is broken", 20),
    "semester": ("the end of a semester, and somebody who comes back", 5),
}
TIMES = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "gpuadmin" / "demo.json"
PEOPLE = ("minji", "jiho")
#: A file more in the inventory: the group of the host that has Prometheus.
MONITOR = "monitor: {hosts: {storage1: {}}}"
MONITOR_FILE = Path("inventory/monitor.yml")
BOLD, CYAN, GREEN, RESET = ("\033[1m", "\033[36m", "\033[32m", "\033[0m")
if not sys.stdout.isatty() or "NO_COLOR" in os.environ:
    BOLD = CYAN = GREEN = RESET = ""

# The image is made of what the node has: a shell, a few small programs and the libraries they need.
MAKE_IMAGE = (
    "tar --dereference --create --file=- /bin/sh /bin/id /bin/cat /bin/sleep "
    "$(ldd /bin/sh /bin/id /bin/cat /bin/sleep | grep -o '/[^ ]*' | grep -v : | sort -u) 2>/dev/null "
    "| docker import - tiny >/dev/null && docker run --rm tiny /bin/id"
)
CONTAINER_UID = (
    "docker run --detach --rm --user 1000 --name demo tiny /bin/sleep 60 >/dev/null && "
    "stat --format %u /proc/$(docker inspect --format '{{.State.Pid}}' demo) && docker kill demo >/dev/null"
)

BREAK_SSHD = """---
- name: Make an image that nobody can log in to
  hosts: golden
  gather_facts: false
  tasks:
    - name: Break sshd's settings
      ansible.builtin.copy:
        content: "NoSuchOption yes"
        dest: /etc/ssh/sshd_config.d/00-broken.conf
        mode: "0644"
"""


def title(number: int, text: str) -> None:
    print(f"\n{BOLD}{number}. {text}{RESET}", flush=True)


def run(*command: str, check: bool = True, capture: bool = False, typed: str = "") -> str:
    """Print a command as it would be typed, run it, and return what it printed."""
    line = [Path(word).name if word == GPUADMIN else word for word in command]
    print(f"{CYAN}{typed or f'$ {shlex.join(line)}'}{RESET}", flush=True)
    if not capture:
        subprocess.run(command, check=check)
        return ""
    done = subprocess.run(command, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(done.stdout, end="", flush=True)
    if check and done.returncode != 0:
        raise SystemExit(f"the demo stopped: that command ended with {done.returncode}")
    return done.stdout


def person(name: str, host: str, command: str, *, check: bool = True) -> str:
    """Run a command as a person on a host, over ssh with their own key, as a login shell would."""
    login = ("lab", "ssh", "--name", LAB, "--login", name, "--identity", os.path.relpath(key(name)), host)
    return run(
        *(GPUADMIN, *login, shlex.join(["bash", "-lc", command])),
        check=check,
        capture=True,
        typed=f"$ gpuadmin {shlex.join(login)}\n{name}@{host}:~$ {command}",
    )


def key(name: str) -> Path:
    return SITE / "keys" / name


def expect(condition: bool, text: str) -> None:
    if not condition:
        raise SystemExit(f"the demo stopped: expected that {text}")
    print(f"{GREEN}✓ {text}{RESET}", flush=True)


def all_measured(seconds: float = 180) -> bool:
    """Wait until every node is measured: one that has just booted is asked again in a moment."""
    end = time.monotonic() + seconds
    while True:
        done = subprocess.run([GPUADMIN, "top", "--once", "--json"], check=False, text=True, capture_output=True)
        nodes = json.loads(done.stdout)["result"]["nodes"].values() if done.returncode == 0 else ()
        if nodes and all(node["state"] == "up" for node in nodes):
            return True
        if time.monotonic() > end:
            return False
        time.sleep(5)  # Prometheus asks every half minute


def images() -> None:
    """Ship a system with a package more to all nodes, then one that is broken."""
    title(7, "Build an image with one package more, boot it on the golden node, and push it to the others")
    run(GPUADMIN, "prepare-root", "--yes")
    run(GPUADMIN, "build-image", "with-rsync", "--install", "rsync", "--yes")
    run(GPUADMIN, "push-image", "with-rsync", "--yes")
    for host in ("node1", "node2"):
        output = run(GPUADMIN, "lab", "ssh", "--name", LAB, host, "findmnt -no FSROOT /; rsync --version", capture=True)
        expect("/roots/with-rsync" in output and "rsync  version" in output, f"{host} runs it")

    title(8, "Push one whose sshd is broken: the node tries it, and comes back by itself")
    playbook = SITE / "break-sshd.yml"
    playbook.write_text(BREAK_SSHD)
    run(GPUADMIN, "build-image", "broken", "--run", str(playbook), "--no-trial", "--yes")
    run(GPUADMIN, "push-image", "broken", "--limit", "node2", "--yes", check=False)
    output = run(GPUADMIN, "lab", "ssh", "--name", LAB, "node2", "findmnt -no FSROOT /", capture=True)
    expect("/roots/with-rsync" in output, "node2 is back on the system that it ran before")
    run(GPUADMIN, "list-images")


def end_the_term() -> str:
    """A term whose last day has come, with a name of its own: a term ends once."""
    term = time.strftime("demo-%Y%m%d-%H%M%S")
    settings = SITE / "gpuadmin.yml"
    text = re.sub(r"^term: .*\n", "", settings.read_text(), flags=re.MULTILINE)
    settings.write_text(f"{text.rstrip()}\nterm: {{name: {term}, deadline: 2026-01-31}}\n")
    return term


def semester() -> None:
    """The term ends for one of the two, who then comes back, and finds what she wrote into hello.txt."""
    minji, jiho = PEOPLE
    written = person(minji, "node2", "cat hello.txt")
    title(9, f"The semester ends: {minji} leaves, {jiho} was extended")
    term = end_the_term()
    run(GPUADMIN, "extend-term", jiho, "--yes")
    run(GPUADMIN, "semester-reset", "--yes", "--term", term, "--grace", "5")
    homes = run(GPUADMIN, "lab", "ssh", "--name", LAB, "storage1", "ls /srv/storage/homes", capture=True)
    expect(homes.split() == [jiho], f"of the homes only {jiho}'s is left")
    refused = person(minji, "node1", "true", check=False)
    expect("Permission denied" in refused or "closed" in refused, f"{minji} cannot log in any more")
    run(GPUADMIN, "list-backups", minji)

    title(10, f"{minji} comes back, and so does her home")
    run(GPUADMIN, "add-user", minji, "--key", f"{key(minji)}.pub", "--yes")
    run(GPUADMIN, "restore-home", minji, "--in-place", "--yes")
    back = person(minji, "node2", "cat hello.txt")
    expect(back == written, "the file from the beginning is there again")


def known_times() -> dict[str, float]:
    """How many seconds each part took the last time on this machine."""
    try:
        return {str(part): float(seconds) for part, seconds in json.loads(TIMES.read_text()).items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def announce(parts: list[str]) -> None:
    """Say what comes, and how long each part takes here."""
    times = known_times()
    kvm = os.access("/dev/kvm", os.R_OK | os.W_OK)
    print(f"{BOLD}The demo has {'one part' if len(parts) == 1 else f'{len(parts)} parts'}:{RESET}")
    for part in parts:
        shows, minutes = PARTS[part]
        if part in times:
            takes = f"{times[part] / 60:.0f} min the last time" if times[part] >= 90 else "a minute the last time"
        else:
            takes = f"some {minutes} min without KVM, much less with it" if kvm else f"some {minutes} min without KVM"
        print(f"  {part:<9} {shows}: {takes}")
    print(f"Ctrl-C stops it; gpuadmin lab down --name {LAB} --purge removes what is there.", flush=True)


def finished(part: str, seconds: float, rest: list[str]) -> None:
    """Remember how long a part took; say how to stop before the next one."""
    TIMES.parent.mkdir(parents=True, exist_ok=True)
    TIMES.write_text(json.dumps({**known_times(), part: round(seconds)}))
    print(f"\n{GREEN}✓ {part}: done in {seconds:.0f} seconds{RESET}", flush=True)
    if rest:
        print(
            f"Next: {', '.join(rest)}. To stop here: Ctrl-C. The cluster stays up, with its site in {SITE}; "
            f"make demo PARTS={','.join(rest)} goes on later.",
            flush=True,
        )


def chosen(given: list[str]) -> list[str]:
    """The parts that were asked for, in their order; all where none was."""
    names = [name for word in given for name in word.split(",") if name]
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        raise SystemExit(
            f"make demo PARTS={','.join(names)}: there is no {', '.join(unknown)}; there is {', '.join(PARTS)}"
        )
    parts = [part for part in PARTS if part in names or not names]
    if "accounts" not in parts and not key(PEOPLE[0]).exists():
        raise SystemExit(
            f"make demo PARTS={','.join(names)}: needs what the part accounts makes: make demo PARTS=accounts"
        )
    return parts


def main() -> None:
    started = time.monotonic()
    parts = chosen(sys.argv[1:])
    announce(parts)
    if "accounts" not in parts:
        os.chdir(SITE)
    for index, part in enumerate(parts):
        begun = time.monotonic()
        {"accounts": accounts, "images": images, "semester": semester}[part]()
        finished(part, time.monotonic() - begun, parts[index + 1 :])
    farewell(time.monotonic() - started)


def accounts() -> None:
    """A cluster, two people with accounts on it, and a container of one of them."""
    minji, jiho = PEOPLE
    title(1, "A virtual cluster on this machine: a storage host and two GPU nodes")
    run(GPUADMIN, "lab", "up", "--name", LAB, "--site", str(SITE))
    os.chdir(SITE)
    run(GPUADMIN, "check")

    title(2, "Set its hosts up: NFS homes, rootless Docker, what accounts need; storage1 measures what all of them do")
    print(f"{CYAN}$ echo '{MONITOR}' > {MONITOR_FILE}{RESET}", flush=True)
    MONITOR_FILE.write_text(f"{MONITOR}\n")
    run(GPUADMIN, "provision", "--yes")

    title(3, "Give two people an account")
    for name in PEOPLE:
        if not key(name).exists():
            key(name).parent.mkdir(mode=0o700, exist_ok=True)
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(key(name)))
        run(GPUADMIN, "add-user", name, "--email", f"{name}@example.org", "--key", f"{key(name)}.pub", "--yes")

    title(4, f"{minji} logs in: one home on every node")
    home = person(minji, "node1", "date > hello.txt; findmnt -nt nfs4 -o FSTYPE,SOURCE -T ~; cat hello.txt")
    there = person(minji, "node2", "cat hello.txt")
    expect(home.startswith("nfs4"), "the home is NFS")
    expect(bool(there.strip()) and there.strip() in home, "a file written on node1 is read on node2")
    denied = person(jiho, "node1", f"cat ~{minji}/hello.txt", check=False)
    expect("Permission denied" in denied, f"{jiho} cannot read {minji}'s home")

    title(5, f"{minji} runs a container: root inside, nobody outside")
    inside = person(minji, "node1", MAKE_IMAGE)
    expect("uid=0" in inside, "inside the container it is root")
    outside = person(minji, "node1", CONTAINER_UID)
    uid = int(re.findall(r"^\s*(\d+)\s*$", outside, re.MULTILINE)[-1])
    expect(uid >= 2**31, f"uid 1000 of the container is {uid} on the node, out of {minji}'s subids")

    title(6, "What was opened is closed again")
    for host in ("node1", "node2"):
        root = run(GPUADMIN, "lab", "ssh", "--name", LAB, host, "sudo btrfs property get -ts / ro", capture=True)
        expect("ro=true" in root, f"the root of {host} is read-only")
    run(GPUADMIN, "list-users")


def farewell(seconds: float) -> None:
    """Show what the cluster does now, and say what one can try on it: it is still up."""
    minji, jiho = PEOPLE
    measured = MONITOR_FILE.exists()
    if measured:
        print(f"\n{BOLD}What every GPU does, and who holds it (these nodes have none){RESET}", flush=True)
        everywhere = all_measured()
        run(GPUADMIN, "top", "--once")
        expect(everywhere, "every node is measured, whatever image it runs")
    else:  # its accounts are from an older demo
        print("\nNothing is measured on this site, and it has no web page: PARTS=accounts sets that up.")
    print(f"\n{BOLD}Done in {seconds:.0f} seconds. The cluster is still up; try next:{RESET}")
    relative = os.path.relpath(SITE, os.environ.get("PWD", SITE.parent))
    for command in (
        f"cd {relative}",
        *(["gpuadmin dashboard   # the cluster's web page, through ssh; Ctrl-C ends it"] if measured else []),
        "gpuadmin add-user YOURNAME --key ~/.ssh/id_ed25519.pub",
        f"gpuadmin lab ssh --name {LAB} --login {minji} --identity keys/{minji} node1",
        f"gpuadmin lock-user {jiho}",
        f"gpuadmin lab power-cut --name {LAB} node2   # and then: gpuadmin list-users",
        "gpuadmin runs",
        f"gpuadmin lab down --name {LAB} --purge",
    ):
        print(f"  {command}")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"the demo stopped: that command ended with {error.returncode}") from None
    except KeyboardInterrupt:
        raise SystemExit(f"\nstopped; gpuadmin lab down --name {LAB} --purge removes what is there") from None
