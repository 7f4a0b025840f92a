"""A notebook on a GPU of the queue, as a browser as wide as a phone shows it: the demo's."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gpuadmin.config.schema.notebooks import Notebooks
from gpuadmin.lab import ssh, state
from tests.support.browser import browser  # from the checkout
from tests.support.lab_cluster import Cluster
from tests.support.notebook_wheels import INDEX, bring

#: What gpuadmin.yml has of it.
SETTINGS = f"notebooks: {{index: '{INDEX}'}}"
_PHONE = "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Mobile"


def bring_packages(site: Path, lab: str) -> bool:
    """Have JupyterLab's packages on the nodes; False where this machine reaches no package index."""
    try:
        bring(Cluster(site, lab, light=True), Notebooks().packages, "node1", "node2")
    except (subprocess.SubprocessError, OSError):
        return False
    return True


def picture(lab: str, name: str, key: Path, asked: str, path: Path) -> str:
    """Given what `gpu jupyter` printed, go to its link through ssh, press the one button, and keep the page as PNG.
    Returns the page's address."""
    (link,), there = re.findall(r"https://localhost:\S+", asked), state.existing(lab)
    *line, who = ssh.ssh_command(there, there.host("node1"), login=name, identity=key)
    ways = [word for one in re.findall(r"-L (\S+)", asked) for word in ("-L", one)]
    forward = subprocess.Popen([*line, "-N", *ways, who])
    try:
        time.sleep(2)  # ssh says nothing once it listens
        trusted = "--ignore-certificate-errors"  # it was made a moment ago, on this machine
        with (
            tempfile.TemporaryDirectory(prefix="gpuadmin-demo-", ignore_cleanup_errors=True) as profile,
            browser(Path(profile), trusted) as page,
        ):
            page.screen(390, 844)
            page.order("Emulation.setUserAgentOverride", userAgent=_PHONE)
            page.go(link)
            page.ask("document.querySelector('button').click()")
            page.wait("!!document.querySelector('.jp-DirListing')", 120)
            page.picture(path)
            return str(page.ask("location.pathname"))
    finally:
        forward.terminate()
        forward.wait(30)
