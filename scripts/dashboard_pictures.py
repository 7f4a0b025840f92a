"""Make the two pictures of the dashboard that docs/ has, from measurements of a cluster that is made up.

    .venv/bin/python scripts/dashboard_pictures.py

Needs chromium, prometheus and promtool.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import uvicorn

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "gpuadmin/collections")]

from tests.support import dashboard_scene as scene  # noqa: E402  from the checkout
from tests.support.browser import browser  # noqa: E402  from the checkout
from tests.support.dashboard_app import OneViewer, board, settings  # noqa: E402  from the checkout
from tests.support.prometheus import blocks, free_port, prometheus  # noqa: E402  from the checkout


def main() -> int:
    held = scene.HELD["gpu02", 1]
    scene.HELD["gpu02", 1] = ("haneul", "finetune", *held[2:])
    scene.HELD["gpu02", 3] = ("haneul", "finetune", *held[2:])
    with tempfile.TemporaryDirectory(prefix="gpuadmin-pictures-") as temporary:
        base, now = Path(temporary), time.time()
        lines = [*scene.before(now), *scene.now(now), *scene.now(now + 240)]
        with prometheus(base, blocks(base, lines)) as port:
            site = replace(settings(base, now, announcements=""), nodes=scene.NODES)
            at = free_port()
            server = uvicorn.Server(uvicorn.Config(board(port, OneViewer("minji"), site), port=at, log_level="warning"))
            threading.Thread(target=server.run, daemon=True).start()
            while not server.started:
                time.sleep(0.05)  # until it listens
            with browser(base / "profile") as page:
                page.screen(1100, 640)
                page.go(f"http://127.0.0.1:{at}/?lang=en")
                page.picture(ROOT / "docs/dashboard.png")
                page.screen(360, 640, dark=True)
                page.go(f"http://127.0.0.1:{at}/nodes/gpu01?lang=ko")
                page.picture(ROOT / "docs/dashboard-phone.png")
            server.should_exit = True
    return 0


if __name__ == "__main__":
    sys.exit(main())
