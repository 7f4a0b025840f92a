"""The demo's part `install`: an empty machine, a stick, and the node that comes of it.

The stick's image is made here, of the root that the lab's virtual machines have; a cluster has its own (`build-image`).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

from demo_steps import GPUADMIN, expect, run, title

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "gpuadmin/collections"))

from gpuadmin.actions.shared.images import signing_key
from gpuadmin.config.load import load_site
from tests.support.bare_machine import DISK, KERNEL, MAC, fill_store, machine, make_image, wait_for_stick
from tests.support.lab_cluster import Cluster

NODE = "node9"


def show(lab: str, site: Path) -> None:
    """Run the part, given the names of its lab, which has a light storage host alone, and of its site."""
    place = site.with_name(f"{site.name}-files")
    title("A storage host, whose store has an image")
    run(GPUADMIN, "lab", "up", "--name", lab, "--light", "--nodes", "0", "--site", str(site))
    os.chdir(site)
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    fill_store(Cluster(site, lab, light=True), make_image(place, signing_key(load_site(str(site)), make=True), "one"))

    title("The site's stick: once")
    stick = place / "site.img"
    run(GPUADMIN, "install", "--stick", str(stick), "--kernel", KERNEL, "--yes")

    title("An empty machine boots from it; its disk is asked about, and named")
    with machine(place / "machine", stick, "uefi") as bare:
        reached = {"ansible_host": "127.0.0.1", "ansible_port": bare.port}
        (site / "inventory/bare.yml").write_text(json.dumps({"gpu": {"hosts": {NODE: reached}}}))
        wait_for_stick(site, NODE)
        shown = run(GPUADMIN, "install", NODE, "--mac", MAC, check=False, capture=True)
        expect(DISK in shown and "nothing is on it" in shown, "its disks are shown, and nothing is written")
        bare.boot_from_disk()
        run(GPUADMIN, "install", NODE, "--mac", MAC, "--disk", DISK, "--yes")

        title("It is a node: its own name, its own key, a read-only root")
        output = run(
            GPUADMIN, "ssh", NODE, "hostname; findmnt -no FSROOT /; sudo btrfs property get -ts / ro", capture=True
        )
        expect(output.split() == [NODE, "/roots/one", "ro=true"], f"{NODE} runs the image from its own disk")
    shutil.rmtree(place)  # gigabytes, which lab down does not know of
    print("The machine is switched off with the demo's end. `provision` and `prepare-root` would make it one of many.")
