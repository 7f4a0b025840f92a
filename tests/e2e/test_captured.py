"""A node that was taken over lies in every field of every answer, while an admin runs the verbs in turn, at random.

What is odd is that node's failure, in words; the other hosts are done, and nothing that it said is run, printed or
believed of anybody else. GPUADMIN_HOSTILE_MINUTES is how long (3), GPUADMIN_HOSTILE_SEED repeats it.
"""

import base64
import json
import os
import random
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.support.lab_cluster import PATIENCE, REPOSITORY, Cluster

pytestmark = [pytest.mark.lab, pytest.mark.slow]

MINUTES = float(os.environ.get("GPUADMIN_HOSTILE_MINUTES", "3"))
SEED = int(os.environ.get("GPUADMIN_HOSTILE_SEED") or time.time_ns() % 10**8)
LIAR, HONEST = "node2", ("storage1", "node1")
PLACE = "/var/lib/liar"  # of the node's state: its root is read-only
OWNED = Path("/tmp/owned")  # what a template in an answer would make here
#: The longest that a document of three hosts may be, in characters, whatever one of them says.
LONGEST = 4_000_000
VERBS: tuple[tuple[str, ...], ...] = (
    ("status",), ("list-users",), ("diagnose", "minji"), ("diagnose", "--host", LIAR), ("list-gpus",), ("drift",),
    ("provision", "--check"), ("sync-users", "--yes"), ("sync-users", "--check"), ("list-backups",),
    ("backup", "--yes"), ("verify-backup", "--check"), ("lock-user", "minji", "--yes"),
    ("extend-user", "minji", "--expires", "2099-01-31", "--check"), ("unlock-user", "minji", "--yes"),
    ("run", "--yes", f"node1,{LIAR}", "--", "id"), ("announce", "--list"), ("add-user", "newbie", "--check"),
    ("reboot", "--check", "node1", LIAR), ("remove-user", "minji", "--check"),
)  # fmt: skip


@pytest.fixture
def captured(cluster: Cluster) -> Cluster:
    """The cluster with one person on it, whose node2 answers with lies."""
    cluster.add("minji")
    program = base64.b64encode((REPOSITORY / "tests/support/liar.py").read_bytes()).decode()
    stand_in = f'#!/bin/sh\\nexec $real -I {PLACE}/liar.py $real {SEED} {PLACE} \\"\\$@\\"\\n'
    cluster.admin(
        LIAR,
        f"set -e; mkdir -p {PLACE}; echo {program} | base64 -d > {PLACE}/liar.py; "
        "real=$(readlink -f /usr/bin/python3); btrfs property set -ts / ro false; rm /usr/bin/python3; "
        f'printf "{stand_in}" > /usr/bin/python3; chmod 755 /usr/bin/python3; btrfs property set -ts / ro true',
    )
    OWNED.unlink(missing_ok=True)
    return cluster


def wrong(cluster: Cluster, arguments: tuple[str, ...], *, document: bool) -> list[str]:
    """Run a verb; return what must not be in how it ends."""
    verb, *rest = arguments
    process = cluster.start(verb, *(["--json"] if document else []), *rest)
    out, err = process.communicate(timeout=PATIENCE)
    found = []
    if process.returncode not in (0, 3, 4, 6):
        found.append(f"it ended with {process.returncode}")
    for words in ("Traceback", "\x1b", "object has no attribute", "not subscriptable", "validation error"):
        if words in out + err:
            found.append(f"it says {words!r}")
    if len(out) + len(err) > LONGEST:
        found.append(f"it says {len(out) + len(err)} characters")
    if OWNED.exists():
        found.append("what the node said was run here")
    if document:
        try:
            hosts = json.loads(out)["hosts"]
        except (ValueError, KeyError, TypeError):
            found.append("what it prints is not a document")
        else:
            bad = {
                name: hosts[name] for name in HONEST if name in hosts and hosts[name]["status"] in ("failed", "not run")
            }
            if bad:
                found.append(f"others failed, too: {bad}")
    return [f"{' '.join(arguments)}: {words}\n{out[-1500:]}\n{err[-1500:]}" for words in found]


def test_a_node_that_lies_in_every_field(captured: Cluster) -> None:
    print(f"\nGPUADMIN_HOSTILE_SEED={SEED}", file=sys.stderr, flush=True)
    dice, rounds, failures = random.Random(SEED), Counter[str](), list[str]()
    end = time.monotonic() + MINUTES * 60
    verbs = list(VERBS)
    dice.shuffle(verbs)
    while verbs or time.monotonic() < end:
        arguments = verbs.pop() if verbs else dice.choice(VERBS)
        rounds[arguments[0]] += 1
        failures += wrong(captured, arguments, document=dice.random() < 0.7)
        assert len(failures) < 10, f"GPUADMIN_HOSTILE_SEED={SEED}\n" + "\n\n".join(failures)
    print(f"{sum(rounds.values())} verbs, {dict(rounds)}", file=sys.stderr, flush=True)
    told = int(captured.admin(LIAR, f"wc -c < {PLACE}/count"))
    assert told > len(VERBS), "it has hardly lied"
    assert not failures, f"GPUADMIN_HOSTILE_SEED={SEED}\n" + "\n\n".join(failures)
