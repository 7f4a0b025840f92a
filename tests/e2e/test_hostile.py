"""Hostile people logged in on the nodes, while an admin runs the verbs in turn, at random.

GPUADMIN_HOSTILE_MINUTES is how long (10), GPUADMIN_HOSTILE_SEED repeats an attack. What the honest have is held against
manifests that a program of its own makes on the storage host, before and after.
"""

import base64
import gzip
import json
import os
import random
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.imaging import Whole
from tests.support.independent import differences
from tests.support.lab_cluster import PATIENCE, REPOSITORY, Cluster
from tests.support.where import IMAGE

pytestmark = [pytest.mark.lab, pytest.mark.slow]

MINUTES = float(os.environ.get("GPUADMIN_HOSTILE_MINUTES", "10"))
SEED = int(os.environ.get("GPUADMIN_HOSTILE_SEED") or time.time_ns() % 10**8)
#: Seconds that a verb may take; alone it takes one minute or two on emulated machines.
BUDGET = float(os.environ.get("GPUADMIN_HOSTILE_BUDGET", "900"))
HOMES, BACKUPS, PLACE = "/srv/storage/homes", "/srv/storage/backups", "/run/hostile"
COPIES, ON = "/local/backups", "node2"  # the second copies, and the node that has them
NODES = ("node1", "node2")
HONEST, HOSTILE = ("jiho", "sora", "hana"), ("mallory", "trudy", "eve")
LEAVERS = ("hana", "trudy")  # at the end of the term
TOKEN = f"canary-{SEED:x}"
#: The honest homes' own content; a thesis holds what nobody else may read.
WORK = (
    f"echo {TOKEN} of $(id -un) > thesis; mkdir -p data notes; head -c 300000 /dev/urandom > data/set; "
    f"for n in $(seq 20); do echo {TOKEN} $n > notes/$n; done; ln -s thesis link; ln thesis too; truncate -s 1G sparse"
)


class Attack:
    """What hostile people do on the nodes; where their programs lie, and what they have got."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.dice = random.Random(SEED)
        self.before: dict[str, Any] = {}
        self.rounds: Counter[str] = Counter()
        self.took: dict[str, float] = {}
        self.started = 0
        #: On no account is a process of sora's ended: (node, pid).
        self.sleeper = ""

    def prepare(self) -> None:
        """Put the programs on the hosts. /run is gone with a boot, and belongs to no image."""
        for host in ("storage1", *NODES):
            self.install(host, ["independent.py", *(["hostile_person.py"] if host in NODES else [])])
        self.cluster.admin("storage1", f"umask 077; echo {TOKEN} > /srv/storage/canary; echo {TOKEN} > /root/canary")
        for name in HONEST:
            self.before[name] = self.manifest(f"{HOMES}/{name}")
        self.sleeper = self.cluster.person(
            "sora", "node1", "setsid nohup sleep 100000 >/dev/null 2>&1 & echo $!"
        ).strip()

    def install(self, host: str, names: list[str]) -> None:
        self.cluster.admin(host, f"mkdir -p {PLACE}/log; chmod 755 {PLACE}; chmod 1777 {PLACE}/log")
        for name in names:
            packed = base64.b64encode(gzip.compress((REPOSITORY / "tests/support" / name).read_bytes())).decode()
            self.cluster.admin(host, f"echo {packed} | base64 -d | gzip -d > {PLACE}/{name}; chmod 644 {PLACE}/{name}")

    def start(self, name: str, node: str) -> None:
        """Log in as one of them, and leave the program behind."""
        self.started += 1
        seed = SEED * 100 + self.started
        others = " ".join(f"/home/{one}" for one in (*HONEST, *HOSTILE) if one != name)
        # more than one at a time of one person on one node would only slow each other down
        self.cluster.person(
            name,
            node,
            "pgrep -u $(id -u) -x python3 >/dev/null && exit 0; "
            f"setsid nohup python3 -I -B {PLACE}/hostile_person.py --seed {seed} --seconds {MINUTES * 60 + 3600:.0f} "
            f"--home /home/{name} --scratch /tmp /var/tmp /dev/shm --neighbour {others} "
            f"--peek /root /var/lib/gpuadmin /run/gpuadmin /srv /local --token {TOKEN} --loot {PLACE}/log/{name}.loot "
            f"--bytes {16 << 20} --workers 2 --processes 4 --most-processes 80 --pause 0.2 "
            f"> {PLACE}/log/{name}.log 2>&1 < /dev/null & true",
        )

    def start_all(self) -> None:
        for name in HOSTILE:
            self.start(name, self.dice.choice(NODES))

    def manifest(self, path: str, host: str = "storage1") -> dict[str, Any]:
        """A tree on a host, as the independent program sees it."""
        found: dict[str, Any] = json.loads(self.cluster.admin(host, f"python3 -I -B {PLACE}/independent.py {path}"))
        return found

    def same(self, what: str, want: dict[str, Any], path: str, host: str = "storage1") -> None:
        words = differences(want, self.manifest(path, host))
        assert not words, f"{what}: {words}"

    def verb(self, *arguments: str, codes: tuple[int, ...] = (0,)) -> dict[str, Any]:
        """Run a verb within its time; what it says is wrong must be about the hostile alone."""
        begun = time.monotonic()
        process = self.cluster.start(*arguments, "--json")
        out, err = process.communicate(timeout=min(BUDGET, PATIENCE))
        self.took[arguments[0]] = max(self.took.get(arguments[0], 0), time.monotonic() - begun)
        self.rounds[arguments[0]] += 1
        message = f"seed {SEED}: {arguments} ended with {process.returncode}\n{out[-3000:]}\n{err[-3000:]}"
        assert process.returncode in codes, message
        assert "Traceback" not in err, message
        assert "\x1b" not in out + err, message
        document: dict[str, Any] = json.loads(out)
        for words in problems(document):
            assert not any(name in words for name in HONEST), f"{words}\n{message}"
            if process.returncode:
                assert any(name in words for name in HOSTILE), f"{words}\n{message}"
        return document

    # one round is one of these

    def back_up(self) -> None:
        document = self.verb("backup", "--yes")
        homes = document["result"]["backup"]["homes"]
        for name in HONEST:
            assert homes[name]["verified"], name

    def verify(self) -> None:
        self.verb("verify-backup", "--yes")

    def list_users(self) -> None:
        rows = self.verb("list-users")["result"]["users"]
        assert {*HONEST, "mallory", "trudy"} <= {row["name"] for row in rows}

    def add_user(self) -> None:
        """Somebody new comes and can log in at once."""
        name = f"new{self.rounds['add-user']}"
        self.verb("add-user", name, "--key", self.cluster.key(name), "--yes")
        assert self.cluster.person(name, self.dice.choice(NODES), "id -un").strip() == name
        self.verb("remove-user", name, "--yes")

    def lock_and_unlock(self) -> None:
        """Whoever is locked stays out, whatever they had begun before."""
        node = self.dice.choice(NODES)
        # asks for Docker, and stops what they can stop of it
        stop = "add-me-to-docker-user & pid=$!; sleep 0.3; kill -STOP $pid; sleep 90; kill -CONT $pid"
        self.cluster.ssh("mallory", node, f"({stop}) >/dev/null 2>&1 < /dev/null &")
        self.verb("lock-user", "mallory", "--yes")
        time.sleep(self.dice.choice([0, 5]))  # at once, or after what was under way
        for one in NODES:
            assert self.cluster.ssh("mallory", one, "true").returncode == 255, f"seed {SEED}: mallory got in on {one}"
            shadow = self.cluster.admin(one, "getent shadow mallory").split(":")
            assert shadow[1].startswith("!"), shadow
        assert self.cluster.root_is_read_only(node)
        self.verb("unlock-user", "mallory", "--yes")
        self.start("mallory", node)

    def restore(self) -> None:
        """An honest home beside, compared; then away with it. Parts of a hostile one in place may be refused."""
        document = self.verb("restore-home", "jiho", "--yes")
        target = document["result"]["restored"]["target"]
        self.same("jiho's home, restored beside", self.before["jiho"], target)
        self.cluster.admin("storage1", f"rm -r {target}")
        place = f"/srv/storage/out{self.rounds['restore-home']}"
        self.verb("restore-home", "mallory", "--to", place, "--yes", codes=(0, 3))
        self.verb("restore-home", "mallory", "--in-place", "--path", "thesis", "--yes", codes=(0, 3))
        self.cluster.admin("storage1", f"rm -rf {place}")

    # what the timer does, and second copies

    def timed(self) -> None:
        """The timer's backup ends well and in time, whoever and whatever hinders second copies."""
        begun = time.monotonic()
        self.cluster.admin("storage1", "systemctl start gpuadmin-backup.service")
        assert time.monotonic() - begun < BUDGET, f"seed {SEED}: the timer's backup took {time.monotonic() - begun} s"
        self.rounds["timed"] += 1

    def newest(self, host: str, directory: str) -> str:
        """The name of the newest complete set on a host; empty if there is none."""
        return self.cluster.admin(
            host, f"for one in {directory}/2*; do test -e $one/backup.json && basename $one; done | tail -1"
        ).strip()

    def copied(self) -> bool:
        """Have the newest set copied; whether that ended well within its time. A copy that waits for nobody is over."""
        start = "systemctl reset-failed gpuadmin-second-copy.service; systemctl start gpuadmin-second-copy.service"
        begun = time.monotonic()
        ended = self.cluster.ssh("admin", "storage1", f"sudo bash -c '{start}'").returncode == 0
        assert time.monotonic() - begun < BUDGET, f"seed {SEED}: the copy took {time.monotonic() - begun} s"
        self.rounds["copied"] += 1
        return ended

    def copy(self) -> None:
        """The copy that is made has every honest home, as it was, whatever is in the hostile ones."""
        self.timed()
        self.copied()  # what is odd about hostile homes may make it end with a warning
        name = self.newest("storage1", BACKUPS)
        assert self.newest(ON, COPIES) == name, f"seed {SEED}: {self.journal()}"
        for one in HONEST:
            self.same(f"seed {SEED}: the copy of {one}'s home", self.before[one], f"{COPIES}/{name}/homes/{one}", ON)

    def journal(self) -> str:
        """The end of what the copy said."""
        return self.cluster.admin("storage1", "journalctl -u gpuadmin-second-copy.service -n 30 --no-pager")

    def restore_beside_a_backup(self) -> None:
        """Who needs a home does not wait for the backup of all."""
        self.cluster.admin("storage1", "systemctl start --no-block gpuadmin-backup.service")
        self.restore()

    def full_backup_disk(self) -> None:
        """A backup disk without room: the primary backup is made, the copy says so, and heals once there is room."""
        fill = "for size in 1G 100M 10M; do while fallocate -l $size /local/full/$((++n)) 2>/dev/null; do :; done; done"
        # a subvolume, since what root keeps free of /local is for copies
        self.cluster.admin(ON, f"btrfs subvolume create /local/full; {fill}")
        # what is left would do for homes of which a copy is there already
        self.cluster.admin("storage1", f"head -c 50M /dev/urandom >$(mktemp -p {HOMES}/mallory)")
        try:
            self.timed()
            assert not self.copied(), f"seed {SEED}: {self.journal()}"
            assert "free" in self.journal()
        finally:
            self.cluster.admin(ON, "btrfs subvolume delete --commit-after /local/full")
        self.copy()

    def hanging_backup_host(self) -> None:
        """A backup host that takes connections and says nothing."""
        self.cluster.admin(
            ON, "systemd-run --quiet --unit hang sh -c 'pkill -STOP -x sshd; sleep 90; pkill -CONT -x sshd'"
        )
        self.timed()
        self.copied()
        self.cluster.wait(lambda: self.cluster.ssh("admin", ON, "echo here"))
        self.copy()

    def archive(self) -> None:
        """Somebody hostile is removed while their programs are at work in the home; and comes back."""
        self.verb("remove-user", "eve", "--archive-home", "--yes", codes=(0, 3))
        for node in NODES:
            assert self.cluster.ssh("eve", node, "true").returncode == 255, f"seed {SEED}: eve got in on {node}"
        self.cluster.add("eve")
        self.cluster.person("eve", "node1", "true")
        self.start("eve", self.dice.choice(NODES))

    def check(self) -> None:
        """What must hold at any time."""
        for name in HONEST:
            self.same(f"seed {SEED}, after {dict(self.rounds)}: {name}'s home", self.before[name], f"{HOMES}/{name}")
        for node in NODES:
            loot = self.cluster.admin(node, f"cat {PLACE}/log/*.loot 2>/dev/null || true")
            assert loot == "", f"seed {SEED}: read on {node}: {loot}"
            assert self.cluster.root_is_read_only(node)
        self.cluster.admin("node1", f"test -d /proc/{self.sleeper}")


def problems(document: dict[str, Any]) -> list[str]:
    """All that a verb says is wrong: with hosts, with homes, what is pending."""
    found = [str(host.get("message") or "") for host in document.get("hosts", {}).values()]
    result = document.get("result") or {}
    for words in (result.get("problems") or {}).values():
        found += [str(one) for one in words]
    for phase in (result.get("phases") or {}).values():
        found += [str(one) for one in (phase.get("pending") or {}).values()]
    return [words for words in found if words]


@pytest.fixture
def attack(cluster: Cluster) -> Iterator[Attack]:
    """A cluster with honest people at work and hostile ones logged in."""
    settings, inventory = cluster.site / "gpuadmin.yml", cluster.site / "inventory/hosts.yml"
    before, hosts = settings.read_text(), inventory.read_text()
    settings.write_text(
        f"{before}\nterm:\n  name: 2026-2\n  deadline: 2026-01-31\n  next: {{name: 2027-1, deadline: 2099-06-30}}\n"
        f"backups: {{copies: {COPIES}}}\n"
    )
    inventory.write_text(hosts.replace("    backup: {hosts: {}}", f"    backup:\n      hosts:\n        {ON}: {{}}"))
    try:
        cluster.gpuadmin("provision", "--yes", "--limit", f"storage1,{ON}")
        for name in (*HONEST, *HOSTILE):
            cluster.add(name)
        for name in HONEST:
            cluster.person(name, "node1", WORK)
        for name in HOSTILE:
            cluster.person(name, "node1", "echo mine > thesis")
        for name in (*HONEST, *HOSTILE):
            if name not in LEAVERS:
                cluster.gpuadmin("extend-term", name, "--yes")
        made = Attack(cluster)
        made.prepare()
        yield made
    finally:
        settings.write_text(before)
        inventory.write_text(hosts)
        for left in (cluster.site / "runs").glob("term-*"):
            shutil.rmtree(left)


def say(words: str) -> None:
    """To whoever waits for these minutes."""
    print(words, file=sys.stderr, flush=True)


def test_verbs_while_hostile_people_are_logged_in(attack: Attack) -> None:
    say(f"\nGPUADMIN_HOSTILE_SEED={SEED}")
    attack.start_all()
    attack.back_up()  # for what is restored
    steps: list[Callable[[], None]] = [
        attack.back_up, attack.verify, attack.list_users, attack.add_user, attack.lock_and_unlock, attack.restore,
        attack.archive, attack.copy, attack.restore_beside_a_backup, attack.full_backup_disk,
        attack.hanging_backup_host,
    ]  # fmt: skip
    attack.dice.shuffle(steps)
    end, number = time.monotonic() + MINUTES * 60, 0
    while number < len(steps) or time.monotonic() < end:
        step = steps[number] if number < len(steps) else attack.dice.choice(steps)
        say(f"round {number}: {step.__name__}")
        step()
        attack.check()
        attack.start_all()  # those that are at it go on as they are
        number += 1
    reset(attack)
    say(f"GPUADMIN_HOSTILE_SEED={SEED}: {number} rounds, {dict(attack.rounds)}")
    say(f"longest: { {verb: round(seconds) for verb, seconds in attack.took.items()} }")


def reset(attack: Attack) -> None:
    """The semester's end, with an honest and a hostile leaver, while the others go on."""
    cluster = attack.cluster
    cluster.ssh("trudy", "node2", "(crontab -; loginctl enable-linger) < /dev/null; true")
    attack.start("trudy", "node2")
    options = ("semester-reset", "--yes", "--term", "2026-2", "--grace", "5")
    document = attack.verb(*options, codes=(0, 3))
    for _ in range(2):
        if "wipe" in document["result"]["phases"] and document["status"] == "ok":
            break
        document = attack.verb(*options, "--resume", "--leave-pending", codes=(0, 3))
    rows = {one["name"]: one for one in document["result"]["report"]["leaving"]}
    say(f"the reset: {json.dumps(rows)} {json.dumps(document['result']['report']['pending'])}")
    assert rows["hana"]["home"] == "wiped"
    homes = cluster.admin("storage1", f"ls {HOMES}").split()
    assert "hana" not in homes
    assert "trudy" not in homes or rows["trudy"]["home"] != "wiped"
    for node in NODES:
        assert cluster.admin(node, "ps -eo user= | grep -cx trudy || true").strip() == "0"
        assert cluster.ssh("trudy", node, "true").returncode == 255
    want = attack.before.pop("hana")
    for name in ("jiho", "sora"):
        attack.same(f"seed {SEED}: {name}'s home after the reset", attack.before[name], f"{HOMES}/{name}")
    # what was wiped comes back, as it was
    attack.verb("restore-home", "hana", "--to", "/srv/storage/hana", "--yes")
    attack.same(f"seed {SEED}: hana's home, restored", want, "/srv/storage/hana")
    # a hostile home, too, once its owner has gone
    attack.verb("lock-user", "mallory", "--yes")
    for node in NODES:
        cluster.admin(node, "pkill -KILL -u mallory; sleep 1; pkill -KILL -u mallory; true")
    backup = attack.verb("backup", "--yes")["result"]["backup"]
    assert "mallory" in backup["homes"], backup["problems"]
    now = attack.manifest(f"{HOMES}/mallory")
    attack.verb("restore-home", "mallory", "--to", "/srv/storage/mallory", "--yes")
    attack.same(f"seed {SEED}: mallory's home, restored", now, "/srv/storage/mallory")


@pytest.mark.virtual(IMAGE)
def test_push_image_while_somebody_hostile_is_logged_in(imaged: Cluster) -> None:
    """Ports, failed units, deaf and stopped processes: the trial succeeds, and what boots is whole."""
    say(f"\nGPUADMIN_HOSTILE_SEED={SEED}")
    whole = Whole(imaged)
    attack = Attack(imaged)
    for node in NODES:
        attack.install(node, ["hostile_person.py"])
        attack.start("minji", node)
    time.sleep(20)  # the attack is in full swing
    imaged.gpuadmin("push-image", "one", "--force", "--yes")  # people are logged in
    whole.check("one")
