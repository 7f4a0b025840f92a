"""Run on a node, as root: grants that begin and end in a row. Prints how long each reconciliation took, as JSON."""

import json
import os
import sys
import time

# on a node the code is where this leads to; its own entry (cli.py) does the same
sys.path.insert(0, os.path.realpath("/var/lib/gpuadmin/lib/gpuadmin_node").rpartition("/ansible_collections/")[0])

from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import grants, reconcile


def rounds(uid: int, number: int) -> list[float]:
    """Milliseconds of each reconciliation, trial included. Raises AssertionError where one finds something wrong."""
    places, took = reconcile.Places(), []
    for one in range(number):
        now = int(time.time())
        grants.write(grants.Grant(f"round-{one}", "minji", uid, ["0"], now - 1, now + 600, "a test"))
        for end in (False, True):
            if end:
                grants.delete([f"round-{one}"])
            begin = time.perf_counter()
            outcome = reconcile.reconcile(places)
            took.append(1000 * (time.perf_counter() - begin))
            assert outcome.problems == [], outcome.problems
            (done,) = outcome.done
            assert ("/dev/gpu-a" in done) is not end, done
    assert reconcile.reconcile(places).done == [], "what is there is what was told"
    return took


if __name__ == "__main__":
    print(json.dumps(rounds(int(sys.argv[1]), int(sys.argv[2]))))
