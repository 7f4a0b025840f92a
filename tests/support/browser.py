"""A headless Chromium, told what to do by its debugging protocol over a pair of pipes: no port, no driver."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import select
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Browser:
    """One page. `complaints`: what it wrote to its console, and scripts or styles that were refused."""

    def __init__(self, orders: int, answers: int) -> None:
        self._orders, self._answers, self._numbers = orders, answers, itertools.count(1)
        self._rest, self._session, self.complaints = b"", "", list[str]()
        target = self.order("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.order("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for part in ("Page", "Runtime", "Log"):
            self.order(f"{part}.enable")

    def order(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One order, and its answer."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._orders, json.dumps(message).encode() + b"\0")
        while True:
            found = self._message()
            if found.get("id") == number:
                assert "error" not in found, found
                answer: dict[str, Any] = found["result"]
                return answer
            self._heard(found)

    def _message(self, seconds: float = 60) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._answers], [], [], max(deadline - time.monotonic(), 0))
            assert ready, "the browser does not answer"
            part = os.read(self._answers, 1 << 20)
            assert part, "the browser has ended"
            self._rest += part
        text, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(text)
        return found

    def _heard(self, event: dict[str, Any]) -> None:
        if event.get("method") == "Page.javascriptDialogOpening":  # a page that asks whether one wants to leave it
            answer = {"id": next(self._numbers), "method": "Page.handleJavaScriptDialog", "params": {"accept": True}}
            os.write(self._orders, json.dumps(answer | {"sessionId": self._session}).encode() + b"\0")
        if event.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"):
            self.complaints.append(json.dumps(event["params"])[:500])

    def screen(self, width: int, height: int, *, dark: bool = False) -> None:
        """How large the window is, in CSS pixels, and what the person prefers."""
        self.order("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                   mobile=width < 600)  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.order("Emulation.setEmulatedMedia", features=[scheme])

    def go(self, url: str) -> None:
        """Open a page, and wait until it is there."""
        self.order("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def ask(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self.order("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, script: str, seconds: float = 30) -> None:
        """Until that is true in the page."""
        deadline = time.monotonic() + seconds
        while not self.ask(script):
            assert time.monotonic() < deadline, f"never: {script}"
            time.sleep(0.05)  # the page says nothing by itself

    def press(self, key: str) -> None:
        """A key."""
        for kind in ("rawKeyDown", "keyUp"):
            code = {"Tab": 9, "Enter": 13}[key]
            self.order("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def picture(self, path: Path) -> None:
        """The window, as PNG."""
        path.write_bytes(base64.b64decode(self.order("Page.captureScreenshot", format="png")["data"]))


@contextlib.contextmanager
def browser(directory: Path, *options: str) -> Iterator[Browser]:
    """A browser with a profile of its own, for as long as the block."""
    theirs_in, orders = os.pipe()
    answers, theirs_out = os.pipe()

    line = [
        "chromium", "--headless", "--disable-gpu", "--no-first-run", "--disable-extensions", "--hide-scrollbars",
        "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update",
        "--remote-debugging-pipe", f"--user-data-dir={directory}", *options,
    ]  # fmt: skip
    line += ["--no-sandbox"] if os.geteuid() == 0 else []  # it refuses root otherwise
    # it reads orders from 3 and answers on 4
    process = subprocess.Popen(
        ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "bash", *line], pass_fds=(theirs_in, theirs_out),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        yield Browser(orders, answers)
    finally:
        os.close(orders)
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(answers)
