"""`make demo`: a cluster, two people on it, a container, the dashboard, the end of a semester, and an image pushed.

Every step is a command that you could have typed; it is printed before it is run, and what it shows is checked.
`make demo PARTS=accounts` does only that part. Where virtual machines are slow, without KVM, and root may be used,
only images are shown on them: they need machines that boot. The rest is then shown on light hosts (docs/lab.md). A
machine that can have neither shows what needs no host: a site, its check, plans.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import demo_grown
from demo_steps import BOLD, CYAN, GPUADMIN, GREEN, RESET, behind, expect, run, title, until

from gpuadmin.cli import signals_interrupt
from gpuadmin.errors import GpuadminError
from gpuadmin.lab import accel, image, probe, state
from gpuadmin.lab.light import gpus as light_gpus
from gpuadmin.lab.progress import Progress
from gpuadmin.lock import site_lock

SITE = Path(os.environ.get("GPUADMIN_DEMO_SITE", "demo-site")).absolute()
LAB = os.environ.get("GPUADMIN_DEMO_LAB", "demo")
#: Images need machines that boot: where the rest is shown on light hosts, these have a lab and a site of their own.
GROWN_LAB = f"{LAB}-grown"
INSTALL_LAB = f"{LAB}-install"
MACHINES_LAB, MACHINES_SITE = f"{LAB}-images", SITE.with_name(f"{SITE.name}-images")
#: A site of no lab's, where this machine can have none.
PLANS_SITE = SITE.with_name(f"{SITE.name}-plans")


@dataclass(frozen=True)
class Part:
    """What a part shows, and its minutes on two cores where it did not run yet: on light hosts, and without KVM.

    0: it is not shown on virtual machines. `more`: what only light hosts show of it.
    """

    shows: str
    light: int
    virtual: int
    more: str = ""


PARTS = {
    "accounts": Part("a cluster, two accounts, a container, the dashboard", 2, 18, "a GPU given and taken back"),
    "slurm": Part(
        "a fair queue: GPUs by `gpu get`, `gpu run` and `gpu jupyter`, a place in it, and all of it taken away", 5, 0
    ),
    "semester": Part("the end of a semester, and somebody who comes back", 2, 5),
    "adopt": Part("a cluster that people have set up by hand: read, put in order, taken over", 4, 0),
    "images": Part("an image on all nodes, and one that is broken", 18, 18),
    "install": Part("an empty machine becomes a node, from a stick", 5, 5),
}
#: Those that light hosts can show.
ON_LIGHT = frozenset({"accounts", "slurm", "semester", "adopt"})
#: Those that have a cluster of their own there, and need none of what `accounts` makes.
OWN_CLUSTER = frozenset({"adopt", "images", "install"})
TIMES = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "gpuadmin" / "demo.json"
#: What is being shown: it is there after a demo that was stopped, too.
SHOWING = TIMES.parent / LAB / "showing"
PEOPLE = ("minji", "jiho")
#: A file more in the inventory: the group of the host that has Prometheus.
MONITOR = "monitor: {hosts: {storage1: {}}}"
MONITOR_FILE = Path("inventory/monitor.yml")
#: The queue's host, in a file of the inventory, and what gpuadmin.yml has of it. Light hosts limit no memory of jobs.
QUEUE, QUEUE_FILE = "slurm: {hosts: {storage1: {}}}", Path("inventory/queue.yml")
SLURM = "slurm: {constrain: [], gpus: 2}"
GRANTED = "gpus: {access: granted}"

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

# What a program that wants a GPU does first: it opens its file.
OPEN_GPUS = "for gpu in /dev/nvidia[0-9]; do head -c 16 $gpu >/dev/null && echo opened $gpu; done"

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


def person(name: str, host: str, command: str, *, check: bool = True) -> str:
    """Run a command as a person on a host, over ssh with their own key, as a login shell would."""
    login = ("lab", "ssh", "--name", LAB, "--login", name, "--identity", os.path.relpath(key(name)), host)
    return run(
        *(GPUADMIN, *login, shlex.join(["bash", "-lc", command])),
        check=check,
        capture=True,
        typed=f"$ gpuadmin {shlex.join(login)}\n{name}@{host}:~$ {command}",
    )


def admin(lab: str, host: str, command: str) -> str:
    """Run a command on a host of a lab as its admin."""
    return run(GPUADMIN, "lab", "ssh", "--name", lab, host, command, capture=True)


def key(name: str) -> Path:
    return SITE / "keys" / name


def all_measured() -> bool:
    """Wait until every node is measured: one that has just booted is asked again in a moment."""
    end = time.monotonic() + 180
    while True:
        done = subprocess.run([GPUADMIN, "top", "--once", "--json"], check=False, text=True, capture_output=True)
        nodes = json.loads(done.stdout)["result"]["nodes"].values() if done.returncode == 0 else ()
        if nodes and all(node["state"] == "up" for node in nodes):
            return True
        if time.monotonic() > end:
            return False
        time.sleep(5)  # Prometheus asks every half minute


def end_the_term() -> str:
    """A term whose last day has come, with a name of its own: a term ends once."""
    term = time.strftime("demo-%Y%m%d-%H%M%S")
    settings = SITE / "gpuadmin.yml"
    text = re.sub(r"^term: .*\n", "", settings.read_text(), flags=re.MULTILINE)
    settings.write_text(f"{text.rstrip()}\nterm: {{name: {term}, deadline: 2026-01-31}}\n")
    return term


def semester(light: bool) -> None:
    """The term ends for one of the two, who then comes back, and finds what she wrote into hello.txt."""
    os.chdir(SITE)
    minji, jiho = PEOPLE
    written = person(minji, "node2", "cat hello.txt")
    title(f"The semester ends: {minji} leaves, {jiho} was extended")
    term = end_the_term()
    run(GPUADMIN, "extend-term", jiho, "--yes")
    run(GPUADMIN, "semester-reset", "--yes", "--term", term, "--grace", "5")
    homes = admin(LAB, "storage1", "ls -I '_*' /srv/storage/homes")  # _slurm: the queue's accounting, not a home
    expect(homes.split() == [jiho], f"of the homes only {jiho}'s is left")
    refused = person(minji, "node1", "true", check=False)
    expect("Permission denied" in refused or "closed" in refused, f"{minji} cannot log in any more")
    run(GPUADMIN, "list-backups", minji)

    title(f"{minji} comes back, and so does her home")
    run(GPUADMIN, "add-user", minji, "--key", f"{key(minji)}.pub", "--yes")
    run(GPUADMIN, "restore-home", minji, "--in-place", "--yes")
    back = person(minji, "node2", "cat hello.txt")
    expect(back == written, "the file from the beginning is there again")


def slurm(light: bool) -> None:
    """Two people share the GPUs of two nodes by a queue, with the shells and containers that they had before."""
    os.chdir(SITE)
    minji, jiho = PEOPLE
    title("A fair queue for GPUs: Slurm decides whose turn it is, and ssh stays open")
    notebooks = can_show_notebooks()
    more = f"{SLURM}\n{notebooks}".rstrip()
    print(f"{CYAN}$ echo '{QUEUE}' > {QUEUE_FILE}; echo '{more}' >> gpuadmin.yml{RESET}", flush=True)
    QUEUE_FILE.write_text(f"{QUEUE}\n")
    settings = SITE / "gpuadmin.yml"
    settings.write_text(f"{without_queue(settings.read_text())}\n{more}\n")
    run(GPUADMIN, "provision", "--yes")

    title(f"{minji} asks for a GPU, and uses it from her shell; {jiho} has a job over both nodes")
    expect("opened" not in person(minji, "node1", OPEN_GPUS, check=False), f"{minji} opens no GPU")
    person(minji, "node1", "gpu get 1 --node node1 --hours 2")
    expect(person(minji, "node1", OPEN_GPUS, check=False).count("opened") == 1, f"{minji} opens one")
    person(jiho, "node1", "sbatch -N2 --gres=gpu:1 -D / -o /dev/null --wrap 'srun sleep 600'")
    until(lambda: person(jiho, "node2", OPEN_GPUS, check=False).count("opened") == 1, f"{jiho}'s job has begun")
    expect(person(jiho, "node1", OPEN_GPUS, check=False).count("opened") == 1, f"{jiho} opens the other one")

    title(f"{minji} asks for more than there is: she waits, with her place, and an admin sees why")
    person(minji, "node1", "gpu get 1 --node node1 --no-wait; sleep 2; gpu list; gpu why")
    run(GPUADMIN, "queue")
    run(GPUADMIN, "backup", "--yes")  # what everybody has used is in it
    run(GPUADMIN, "list-backups", "_slurm")

    title("Given back, it is closed")
    person(minji, "node1", "gpu release")
    person(jiho, "node1", "scancel --me")
    until(lambda: "opened" not in person(minji, "node1", OPEN_GPUS, check=False), f"{minji}'s GPU is closed")
    until(lambda: "opened" not in person(jiho, "node2", OPEN_GPUS, check=False), "nobody opens one any more")
    if notebooks:
        notebook(minji)
    title("One command has a GPU for as long as it runs; then the queue is taken away again")
    opened = person(minji, "node1", f"gpu run --node node1 -- sh -c {shlex.quote(OPEN_GPUS)}", check=False)
    expect(opened.count("opened") == 1, f"{minji}'s command opens one")
    until(lambda: not person(minji, "node1", "squeue --noheader").strip(), "no job is left")
    settings.write_text(f"{without_queue(settings.read_text())}\n")
    run(GPUADMIN, "provision", "--yes")
    QUEUE_FILE.unlink()


def without_queue(text: str) -> str:
    """gpuadmin.yml without what the queue has in it."""
    return re.sub(r"^(slurm|notebooks): .*\n", "", text, flags=re.MULTILINE).rstrip()


def can_show_notebooks() -> str:
    """What gpuadmin.yml has of notebooks, where a browser, a dashboard and JupyterLab's packages can be had."""
    if not (MONITOR_FILE.exists() and shutil.which("chromium")):
        print("A machine with chromium would show a notebook here.")
        return ""
    import demo_notebook

    if demo_notebook.bring_packages(SITE, LAB):
        return demo_notebook.SETTINGS
    print("A machine that reaches a package index would show a notebook here.")
    return ""


def notebook(name: str) -> None:
    """Somebody opens JupyterLab on a GPU, and gives it back."""
    import demo_notebook

    title(f"{name} opens a notebook on a GPU, in a browser as wide as a phone")
    asked = person(name, "node1", "gpu jupyter --node node1")
    path = SITE / "notebook.png"
    at = demo_notebook.picture(LAB, name, key(name), asked, path)
    expect(f"/node1/{name}/" in at, f"the page of {name}'s own JupyterLab: {path}")
    person(name, "node1", "gpu release")
    until(lambda: "opened" not in person(name, "node1", OPEN_GPUS, check=False), f"{name}'s GPU is closed")


def adopt(light: bool) -> None:
    """A cluster that is there already; hosts without gpuadmin's part are light ones."""
    demo_grown.show(GROWN_LAB, SITE.with_name(GROWN_LAB), min(1, possible_gpus()))


def images(light: bool) -> None:
    """Ship a system with a package more to all nodes, then one that is broken."""
    lab, site = (MACHINES_LAB, MACHINES_SITE) if light else (LAB, SITE)
    if light:
        title("Virtual machines, which boot: a storage host and two nodes")
        run(GPUADMIN, "lab", "up", "--name", lab, "--site", str(site))
    os.chdir(site)
    if light:
        run(GPUADMIN, "provision", "--limit", "storage1", "--yes")  # images are kept beside the homes
    title("Build an image with one package more, boot it on the golden node, and push it to the others")
    run(GPUADMIN, "prepare-root", "--yes")
    run(GPUADMIN, "build-image", "with-rsync", "--install", "rsync", "--yes")
    run(GPUADMIN, "push-image", "with-rsync", "--yes")
    for host in ("node1", "node2"):
        output = admin(lab, host, "findmnt -no FSROOT /; rsync --version")
        expect("/roots/with-rsync" in output and "rsync  version" in output, f"{host} runs it")

    title("Push one whose sshd is broken: the node tries it, and comes back by itself")
    playbook = site / "break-sshd.yml"
    playbook.write_text(BREAK_SSHD)
    run(GPUADMIN, "build-image", "broken", "--run", str(playbook), "--no-trial", "--yes")
    run(GPUADMIN, "push-image", "broken", "--limit", "node2", "--yes", check=False)
    output = admin(lab, "node2", "findmnt -no FSROOT /")
    expect("/roots/with-rsync" in output, "node2 is back on the system that it ran before")
    run(GPUADMIN, "list-images")


def install(light: bool) -> None:
    """An empty machine; its storage host, which boots nothing, is a light one."""
    import demo_install

    demo_install.show(INSTALL_LAB, SITE.with_name(INSTALL_LAB))


def light_hosts() -> bool:
    """Whether what light hosts can show is shown on them: as root, where virtual machines are slow.

    A demo that has begun goes on where it is.
    """
    begun = state.load(LAB)
    if begun is not None:
        return begun.light
    machine = probe.look()
    return not machine.why_no_light() and (bool(machine.why_no_machines()) or not fast_machines())


def fast_machines() -> bool:
    """Whether virtual machines have KVM. A /dev/kvm that opens proves nothing: a kernel is started to find out."""
    if probe.look().lacks["/dev/kvm"]:
        return False
    return accel.choose(image.ensure_root(Progress()) / "vmlinuz") == "kvm"


def where(part: str, light: bool) -> str:
    """What a part runs on, in words."""
    return "light hosts" if light and part in ON_LIGHT else "virtual machines"


def known_times() -> dict[str, float]:
    """How many seconds each part took the last time on this machine, by `PART on WHERE`."""
    try:
        return {str(part): float(seconds) for part, seconds in json.loads(TIMES.read_text()).items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def announce(parts: list[str], light: bool) -> None:
    """Say what comes, where each part runs, and how long it takes here."""
    times = known_times()
    fast = not light and fast_machines()
    print(f"{BOLD}The demo has {'one part' if len(parts) == 1 else f'{len(parts)} parts'}:{RESET}")
    for name in parts:
        part, on = PARTS[name], where(name, light)
        before = times.get(f"{name} on {on}")
        if before is not None:
            takes = f"{before / 60:.0f} min the last time" if before >= 90 else "a minute the last time"
        elif on == "light hosts":
            takes = f"some {part.light} min"
        else:
            takes = f"much less than {part.virtual} min with KVM" if fast else f"some {part.virtual} min without KVM"
        more = f", {part.more}" if part.more and on == "light hosts" else ""
        print(f"  {name:<9} on {on}: {part.shows}{more}: {takes}")
    if light:
        print("Light hosts are parts of this machine, quick without KVM (docs/lab.md); images need machines that boot.")
        if "images" in parts[2:]:
            print(f"Those boot and build while the other parts are shown, after {parts[0]}.")
    elif not fast and os.geteuid() != 0:
        print("As root, where this machine allows light hosts, most parts take minutes: sudo make demo")
    labs = sorted({_lab(name, light) for name in parts})
    print("Ctrl-C stops it. To remove what is there then:", " and ".join(map(purge, labs)), flush=True)


def _lab(part: str, light: bool) -> str:
    if light and part in OWN_CLUSTER:
        return {"adopt": GROWN_LAB, "images": MACHINES_LAB, "install": INSTALL_LAB}[part]
    return LAB


def finished(part: str, light: bool, seconds: float, rest: list[str]) -> None:
    """Remember how long a part took; say how to stop before the next one."""
    TIMES.parent.mkdir(parents=True, exist_ok=True)
    TIMES.write_text(json.dumps({**known_times(), f"{part} on {where(part, light)}": round(seconds)}))
    print(f"\n{GREEN}✓ {part}: done in {seconds:.0f} seconds{RESET}", flush=True)
    if rest:
        print(
            f"Next: {', '.join(rest)}. To stop here: Ctrl-C. The cluster stays up, with its site in {SITE}; "
            f"make demo PARTS={','.join(rest)} goes on later, "
            "on new hosts if a part was stopped in its middle.",
            flush=True,
        )


def chosen(given: list[str]) -> list[str]:
    """The parts that were asked for, in their order; where none was, all but `install`, which takes long."""
    names = [name for word in given for name in word.split(",") if name]
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        raise SystemExit(
            f"make demo PARTS={','.join(names)}: there is no {', '.join(unknown)}; there is {', '.join(PARTS)}"
        )
    return [part for part in PARTS if part in names or (not names and part != "install")]


def main() -> None:
    started = time.monotonic()
    parts = chosen(sys.argv[1:])
    # what a demo that goes on has taken itself is not missing
    if state.load(LAB) is None and (why := probe.look().why_no_lab()):
        without_hosts(why)
        return
    light = light_hosts()
    parts, left_out = possible(parts, light)
    if not parts:
        raise SystemExit(left_out)
    begins = "accounts" in parts or (light and {*parts} <= OWN_CLUSTER)
    if not begins and not key(PEOPLE[0]).exists():
        parts = ["accounts", *parts]  # the others go on with what it makes
    print(left_out, end="\n" if left_out else "")
    announce(parts, light)
    shows: dict[str, Callable[[], None]] = {part: partial(SHOWS[part], light) for part in parts}
    begun: dict[str, float] = {}
    with ExitStack() as stack:
        for index, part in enumerate(parts):
            begun.setdefault(part, time.monotonic())
            SHOWING.parent.mkdir(parents=True, exist_ok=True)  # a cache, which anybody may empty meanwhile
            SHOWING.write_text(part)
            shows[part]()
            SHOWING.unlink(missing_ok=True)
            rest = parts[index + 1 :]
            finished(part, light, time.monotonic() - begun[part], rest)
            if light and "images" in rest[1:] and "images" not in begun:
                begun["images"] = time.monotonic()
                shows["images"] = stack.enter_context(behind(partial(in_words, shows["images"])))
    farewell(time.monotonic() - started)
    print(left_out, end="\n" if left_out else "")


def run_alone() -> None:
    """Show it while no other demo of this person does: from another checkout, too, it would set up the same hosts."""
    chosen(sys.argv[1:])  # a slip ends before any host does
    state.check_name(LAB)
    SHOWING.parent.mkdir(parents=True, exist_ok=True)
    with site_lock(SHOWING.parent, "make demo"), signals_interrupt():
        refuse_others_hosts()
        leave_stopped()
        main()


def refuse_others_hosts() -> None:
    """Raise GpuadminError for hosts that another checkout has set up: they know people whom this one does not."""
    grown = demo_grown.find_own(SITE.with_name(GROWN_LAB))
    for name, site in ((LAB, SITE), (MACHINES_LAB, MACHINES_SITE), (GROWN_LAB, grown)):
        lab = state.load(name)
        if lab and lab.site and (Path(lab.site).resolve() != site.resolve() or not site.exists()):
            raise GpuadminError(
                f"the hosts of lab {name} belong to {lab.site}, which is another demo's or is gone",
                hint=f"go on there, or remove them: {purge(name)}",
            )


def leave_stopped() -> None:
    """Remove the hosts of a part that was stopped in its middle, where it cannot go on; its sites are kept."""
    part = SHOWING.read_text(errors="replace") if SHOWING.exists() else ""
    grown = SITE.with_name(GROWN_LAB)
    halves = {"slurm": (LAB, SITE), "semester": (LAB, SITE), "adopt": (GROWN_LAB, grown, demo_grown.find_own(grown))}
    lab, *sites = halves.get(part, ("",))
    if lab and state.load(lab):
        title(f"The last demo was stopped while it showed {part}: its hosts are made anew")
        run(GPUADMIN, "lab", "down", "--name", lab, "--purge")
    for site in filter(Path.exists, sites):  # also where somebody has removed the hosts: its settings are halves, too
        aside = site.with_name(f"{site.name}-{time.strftime('%Y%m%d-%H%M%S')}")
        site.rename(aside)
        print(f"The site of the demo that was stopped is kept: {aside}", flush=True)


def possible(parts: list[str], light: bool) -> tuple[list[str], str]:
    """Return the parts that this machine can show, and in words why the others are left out."""
    machine = probe.look()
    boots = machine.why_no_machines(sized=state.load(MACHINES_LAB) is None)
    quick = machine.why_no_light() or "virtual machines are fast here, and have the demo"
    why = {}
    for part in parts:
        if PARTS[part].more and not light:
            why[PARTS[part].more] = f"no light hosts: {quick}"
        if light and part in ON_LIGHT:
            if part == "slurm" and (known_gpus() if state.load(LAB) else possible_gpus()) < 2:
                why[part] = "a light node has fewer than two GPUs here"
        elif boots:
            why[part] = f"no virtual machines: {boots}"
        elif not PARTS[part].virtual or (part == "install" and not light):  # its storage host is a light one
            why[part] = f"no light hosts: {quick}"
    reasons = {reason: [part for part in why if why[part] == reason] for reason in why.values()}
    words = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in reasons.items())
    return [part for part in parts if part not in why], f"Left out: {words}" if why else ""


def possible_gpus() -> int:
    """Return how many GPUs each light node can have here, at most two; say why where it can have none."""
    count = min(2, os.cpu_count() or 1)
    try:
        light_gpus.require(count)
    except GpuadminError as error:
        print(f"Left out: GPUs, and the queue for them: {error.message}")
        return 0
    return count


def without_hosts(why: str) -> None:
    """Show what needs no host, where this machine can have none: a site, its check, and plans."""
    minji, jiho = PEOPLE
    print(f"{BOLD}This machine can have no cluster of the lab's: {why}.{RESET}")
    print("What needs no host follows: a site, its check, plans. All of the demo: as root on a machine of its own.")
    title("A site: what a cluster is meant to be, in text files")
    if not PLANS_SITE.exists():
        run(GPUADMIN, "init", str(PLANS_SITE), "--storage", "storage1", "--node", "node1", "--node", "node2")
        last = datetime.date.today() + datetime.timedelta(days=7)
        settings = PLANS_SITE / "gpuadmin.yml"
        mail = "mail: {host: smtp.example.org, sender: gpu@example.org}"
        settings.write_text(f"{settings.read_text().rstrip()}\nterm: {{name: demo, deadline: {last}}}\n{mail}\n")
        people = (f"{{name: {name}, uid: {uid}, email: {name}@example.org, expires: {last}}}"
                  for uid, name in enumerate(PEOPLE, 20001))  # fmt: skip
        (PLANS_SITE / "users.yml").write_text("users:\n" + "".join(f"  - {one}\n" for one in people))
    os.chdir(PLANS_SITE)
    run(GPUADMIN, "check")
    title("Plans: each verb shows what it would do before it does it; the hosts of this site do not exist")
    run(GPUADMIN, "change-user", minji, "--note", "thesis until spring", "--check")
    run(GPUADMIN, "lock-user", jiho, "--check", check=False)  # no host answers, and it says so
    run(GPUADMIN, "notify", "--check")
    removed = shlex.quote(str(PLANS_SITE))
    print(f"\n{BOLD}The rest of the demo was left out: {why}.{RESET} To remove what is there: rm -r {removed}")


def accounts(light: bool) -> None:
    """A cluster, two people with accounts on it, a container of one of them, and the page that shows who uses what."""
    begun = time.monotonic()
    minji, jiho = PEOPLE
    title("A virtual cluster on this machine: a storage host and two GPU nodes")
    hosts = ["--light"] if light else []
    if light and state.load(LAB) is None:
        hosts += ["--gpus", str(possible_gpus())]
    run(GPUADMIN, "lab", "up", "--name", LAB, *hosts, "--site", str(SITE))
    os.chdir(SITE)
    gpus = known_gpus()
    run(GPUADMIN, "check")

    title("Set its hosts up: NFS homes, rootless Docker, what accounts need; storage1 measures what all of them do")
    print(f"{CYAN}$ echo '{MONITOR}' > {MONITOR_FILE}{RESET}", flush=True)
    MONITOR_FILE.write_text(f"{MONITOR}\n")
    settings = SITE / "gpuadmin.yml"
    if gpus and GRANTED not in settings.read_text():
        print(f"{CYAN}$ echo '{GRANTED}' >> gpuadmin.yml   # nobody opens one who was not given it{RESET}", flush=True)
        settings.write_text(f"{settings.read_text().rstrip()}\n{GRANTED}\n")
    run(GPUADMIN, "provision", "--yes")

    title("Give two people an account")
    for name in PEOPLE:
        if not key(name).exists():
            key(name).parent.mkdir(mode=0o700, exist_ok=True)
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(key(name)))
        run(GPUADMIN, "add-user", name, "--email", f"{name}@example.org", "--key", f"{key(name)}.pub", "--yes")

    title(f"{minji} logs in: one home on every node")
    nfs = "fuse.mergerfs" if light else "nfs4"  # a light host has no NFS; that stands in for it
    home = person(minji, "node1", f"date > hello.txt; findmnt -nt {nfs} -o FSTYPE,SOURCE -T ~; cat hello.txt")
    there = person(minji, "node2", "cat hello.txt")
    expect(home.startswith(nfs) and "storage" in home, "the home is the storage host's")
    expect(bool(there.strip()) and there.strip() in home, "a file written on node1 is read on node2")
    denied = person(jiho, "node1", f"cat ~{minji}/hello.txt", check=False)
    expect("Permission denied" in denied, f"{jiho} cannot read {minji}'s home")

    title(f"{minji} runs a container: root inside, nobody outside")
    inside = person(minji, "node1", MAKE_IMAGE)
    expect("uid=0" in inside, "inside the container it is root")
    outside = person(minji, "node1", CONTAINER_UID)
    uid = int(re.findall(r"^\s*(\d+)\s*$", outside, re.MULTILINE)[-1])
    expect(uid >= 2**31, f"uid 1000 of the container is {uid} on the node, out of {minji}'s subids")
    print(f"The first container ran {time.monotonic() - begun:.0f} seconds after the cluster was begun.", flush=True)

    if gpus:
        granting(minji)
    title("What was opened is closed again")
    for host in ("node1", "node2"):
        root = admin(LAB, host, "sudo btrfs property get -ts / ro")
        expect("ro=true" in root, f"the root of {host} is read-only")
    run(GPUADMIN, "list-users")

    title(f"Who uses what is on a page: {minji} gets a link on a node, the admin through ssh")
    expect("https://" in person(minji, "node1", "gpuadmin-me web"), f"{minji} has a link, good once")
    expect(all_measured(), "every node is measured")
    dashboard()


def granting(name: str) -> None:
    """Somebody is given a GPU, and it is taken back; on light hosts, whose GPUs can be opened and compute nothing."""
    begun = time.monotonic()
    title(f"GPUs are given, not grabbed: {name} opens none, gets one for eight hours, and it is taken back")
    expect("opened" not in person(name, "node1", OPEN_GPUS, check=False), f"{name} opens no GPU")
    run(GPUADMIN, "grant", name, "node1", "--gpus", "1", "--hours", "8", "--reason", "to try it", "--yes")
    try:
        expect(person(name, "node1", OPEN_GPUS, check=False).count("opened") == 1, f"{name} opens one")
        run(GPUADMIN, "grants")
    finally:
        run(GPUADMIN, "revoke", name, "--yes")
    expect("opened" not in person(name, "node1", OPEN_GPUS, check=False), f"{name} opens no GPU")
    print(f"That took {time.monotonic() - begun:.0f} seconds.", flush=True)


def dashboard() -> None:
    """Open the dashboard as an admin does, and keep a picture of it where there is a browser."""
    print(f"{CYAN}$ gpuadmin dashboard{RESET}", flush=True)
    with subprocess.Popen([GPUADMIN, "dashboard"], stdout=subprocess.PIPE, text=True) as opened:
        link = fingerprint = ""
        try:
            for line in opened.stdout or ():
                print(line, end="", flush=True)
                text = line.strip()
                link = text if text.startswith("https://") else link
                fingerprint = text if re.fullmatch("([0-9A-F]{2}:){31}[0-9A-F]{2}", text) else fingerprint
                if text.startswith("Ctrl-C"):
                    break
            expect(bool(link and fingerprint), "the admin has a link, good once")
            if shutil.which("chromium"):
                from demo_page import picture

                path = SITE / "dashboard.png"
                picture(link, fingerprint, path)
                expect(path.stat().st_size > 0, f"the page as a browser shows it: {path}")
            else:
                print("A machine with chromium would have a picture of the page here.")
        finally:
            opened.terminate()  # Ctrl-C does not reach what a script left in the background


#: What shows each part, given whether there are light hosts.
SHOWS: Mapping[str, Callable[[bool], None]] = {
    "accounts": accounts, "slurm": slurm, "semester": semester, "adopt": adopt, "images": images, "install": install,
}  # fmt: skip


def known_gpus() -> int:
    """How many GPUs each node of the demo has."""
    lab = state.load(LAB)
    return lab.gpus if lab else 0


def purge(lab: str) -> str:
    """The command that removes a lab, as it can be typed: `make` alone has the environment in its PATH."""
    return f"{shlex.quote(GPUADMIN)} lab down --name {lab} --purge"


def removing() -> list[str]:
    """The commands that remove the labs of the demo that are there."""
    return [purge(lab) for lab in (LAB, GROWN_LAB, MACHINES_LAB, INSTALL_LAB) if state.load(lab)]


def ways_out() -> str:
    """What to type where the same again does not go on, as after a full disk."""
    return "".join(f"\nTo begin anew: {line}" for line in removing())


def farewell(seconds: float) -> None:
    """Show what the cluster does now, and say what one can try on it: it is still up."""
    minji, jiho = PEOPLE
    if not SITE.exists():  # only what has a cluster of its own was shown
        print(f"\n{BOLD}Done in {seconds:.0f} seconds.{RESET} To remove what is there: {' and '.join(removing())}")
        return
    os.chdir(SITE)
    measured = MONITOR_FILE.exists()
    if measured:
        print(f"\n{BOLD}What every GPU does, and who holds it (as a driver says; there is none){RESET}", flush=True)
        everywhere = all_measured()
        run(GPUADMIN, "top", "--once")
        expect(everywhere, "every node is measured, whatever image it runs")
    else:  # its accounts are from an older demo
        print("\nNothing is measured on this site, and it has no web page: PARTS=accounts sets that up.")
    print(f"\n{BOLD}Done in {seconds:.0f} seconds. The cluster is still up; try next:{RESET}")
    relative = os.path.relpath(SITE, os.environ.get("PWD", SITE.parent))
    for command in (
        f". {shlex.quote(str(Path(GPUADMIN).with_name('activate')))}; cd {shlex.quote(relative)}",
        *(["gpuadmin dashboard   # the cluster's web page, through ssh; Ctrl-C ends it"] if measured else []),
        "gpuadmin add-user YOURNAME --key ~/.ssh/id_ed25519.pub",
        f"gpuadmin lab ssh --name {LAB} --login {minji} --identity keys/{minji} node1",
        *([f"gpuadmin grant {minji} node1 --gpus 1 --until tonight"] if known_gpus() else []),
        f"gpuadmin lock-user {jiho}",
        f"gpuadmin lab power-cut --name {LAB} node2   # and then: gpuadmin list-users",
        "gpuadmin runs",
        *removing(),
    ):
        print(f"  {command}")


def in_words(show: Callable[[], None]) -> None:
    """Run it; end with a sentence where it failed or was interrupted."""
    try:
        show()
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"the demo stopped: that command ended with {error.returncode}{ways_out()}") from None
    except GpuadminError as error:
        raise SystemExit(
            f"the demo stopped: {error.message}" + (f"\nHint: {error.hint}" if error.hint else "")
        ) from None
    except OSError as error:
        raise SystemExit(f"the demo stopped: {error.filename or 'this machine'}: {error.strerror}") from None
    except KeyboardInterrupt:
        raise SystemExit(f"\nstopped{ways_out()}") from None


if __name__ == "__main__":
    in_words(run_alone)
