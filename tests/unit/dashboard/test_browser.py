"""The pages in a browser: on a phone, with the keyboard, in both colour schemes, with nothing that is refused."""

import contextlib
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from gpuadmin.common.pressed import VERBS
from gpuadmin.dashboard.guard import Guard
from gpuadmin.pages.guide import RULES
from gpuadmin.pages.render import fragment
from gpuadmin.reading import read_text
from tests.support.browser import Browser, browser
from tests.support.dashboard_app import FILES, OneViewer, Scene, board, scene, settings
from tests.support.prometheus import blocks, free_port, prometheus
from tests.support.queue_series import queue_lines, usage_lines

__all__ = ["scene"]
pytestmark = pytest.mark.needs("chromium", "prometheus", "promtool")
PATHS = ("/", "/nodes/gpu01", "/nodes/gpu02", "/nodes/gpu03", "/people", "/people/minji", "/free", "/nowhere")


@pytest.fixture(scope="module")
def address(scene: Scene) -> Iterator[str]:
    """The pages as the service gives them, guard and all, without TLS."""
    with served(scene) as found:
        yield found


@pytest.fixture(scope="module")
def queued(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The same of a site with a queue and its buttons, a year of use, and its rules."""
    when, directory = time.time(), tmp_path_factory.mktemp("queued")
    guide = {one: read_text(FILES.parents[1] / f"docs/user-guide{end}.md") for one, end in (("en", ""), ("ko", ".ko"))}
    rules = tuple(fragment(re.sub(r"!\[.*?\)", "", text), RULES[one]) for one, text in guide.items())  # no picture
    lines = [*queue_lines(when), *(line for moment in (240, 480) for line in queue_lines(when + moment))]
    lines += usage_lines(when, days=60)
    more = {"buttons": tuple(VERBS), "rules": rules, "nodes": ("gpu01",), "price": "150", "currency": "KRW"}
    with contextlib.ExitStack() as stack:
        port = stack.enter_context(prometheus(directory, blocks(directory, lines, days=60)))
        yield stack.enter_context(served(Scene(port, when, directory), door=object(), **more))


@contextlib.contextmanager
def served(scene: Scene, door: object = None, **more: Any) -> Iterator[str]:
    access, port = OneViewer("minji"), free_port()
    pages = board(scene.port, access, settings(scene.directory, scene.when, **more), door)
    guard = Guard(pages, access, frozenset({"127.0.0.1"}))  # type: ignore[arg-type]  # they let in the same person always
    server = uvicorn.Server(uvicorn.Config(guard, port=port, log_level="warning", lifespan="on"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)  # until it listens
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(20)


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize("width", [320, 390, 1280])
@pytest.mark.parametrize("path", ["/", "/queue", "/usage", "/usage?by=account", "/usage?span=7&by=node", "/rules"])
def test_pages_of_a_queue_fit(page: Browser, queued: str, path: str, width: int, language: str, tmp_path: Path) -> None:
    page.complaints.clear()
    page.screen(width, 740)
    page.go(f"{queued}{path}{'&' if '?' in path else '?'}lang={language}")
    assert page.ask("document.documentElement.lang") == language
    assert page.ask("document.documentElement.scrollWidth") <= width, "nothing is beside the window"
    assert page.ask("document.querySelector('header').offsetHeight") < (110 if width > 320 else 150)
    assert page.ask(BROKEN) == []
    assert page.complaints == []
    page.ask("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    page.screen(width, min(page.ask("document.documentElement.scrollHeight"), 4000))
    page.picture(tmp_path / "page.png")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize("path", PATHS)
def test_a_phone_shows_all_of_a_page(page: Browser, address: str, path: str, language: str) -> None:
    page.screen(360, 740)
    page.go(f"{address}{path}?lang={language}")
    assert page.ask("document.documentElement.lang") == language
    assert page.ask("document.documentElement.scrollWidth") <= 360, "nothing is beside the window"
    cut = "[...document.querySelectorAll('.cards td, .cards th, li, p')].filter(one => one.scrollWidth > 361).length"
    assert page.ask(cut) == 0
    assert page.ask("document.querySelector('header').offsetHeight") < 110, "a phone shows the page, not its head"


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize("width", [320, 390, 700, 1100])
@pytest.mark.parametrize("path", [*PATHS, "/status"])
def test_no_word_of_a_head_is_broken(page: Browser, address: str, path: str, width: int, language: str) -> None:
    """Neither a column's head nor a label of a card; Korean breaks between words, as English does."""
    page.screen(width, 740)
    page.go(f"{address}{path}?lang={language}")
    assert page.ask(BROKEN) == []
    if path == "/status":
        heights = "[...document.querySelectorAll('th[scope=col]')].map((one) => one.getClientRects()[0].height)"
        assert max(page.ask(heights)) < 40, "a head is one line"


#: The words of heads whose letters are on more than one line. A label is drawn by the style: a copy is measured.
BROKEN = """(() => {
  const broken = [];
  const look = (node) => {
    for (const word of node.data.matchAll(/\\S+/g)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].map((one) => Math.round(one.top)));
      if (lines.size > 1) broken.push(word[0]);
    }
  };
  const texts = (element) => {
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) look(walker.currentNode);
  };
  for (const head of document.querySelectorAll("th[scope=col]"))
    if (getComputedStyle(head.closest("tr").parentElement).position !== "absolute") texts(head);  // as cards have it
  for (const cell of document.querySelectorAll("[data-label]")) {
    const style = getComputedStyle(cell, "::before");
    if (style.content === "none") continue;
    const copy = document.createElement("span"), height = cell.getBoundingClientRect().height;
    copy.style.position = "absolute";
    for (const name of ["width", "fontSize", "wordBreak", "overflowWrap", "lineHeight"])
      copy.style[name] = style[name];
    copy.textContent = cell.dataset.label;
    cell.append(copy);
    texts(copy);
    if (copy.offsetHeight > height) broken.push(`${cell.dataset.label} runs into what is below it`);
    copy.remove();
  }
  return broken;
})()"""


def test_plots_are_drawn_and_nothing_is_refused(page: Browser, address: str, tmp_path: Path) -> None:
    page.complaints.clear()
    for path, plots in (("/nodes/gpu01", 8), ("/people/minji", 1), ("/", 1)):
        for dark in (False, True):
            page.screen(1280, 900, dark=dark)
            page.go(f"{address}{path}?lang=en")
            page.wait(f"document.querySelectorAll('.plot canvas').length === {plots}")
            page.ask("document.querySelector('[data-span=\"1h\"]').click()")
            page.wait("document.querySelector('[data-span=\"1h\"]').getAttribute('aria-pressed') === 'true'")
            page.wait(f"document.querySelectorAll('.plot canvas').length === {plots}")
    assert page.ask("document.querySelector('.plot .key').textContent").count("mean") == 2
    labels = page.ask("[...document.querySelectorAll('canvas')].map((one) => one.getAttribute('aria-label'))")
    assert labels == ["GPUs held, and how many of them worked, held, worked"]
    assert page.complaints == [], "no script and no style was refused, and none failed"
    page.picture(tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 20_000, "something is on it"


def test_a_policy_that_refuses_is_noticed(page: Browser, address: str) -> None:
    """What the test before relies on: the page's policy holds, and the browser says so."""
    page.go(f"{address}/?lang=en")
    page.complaints.clear()
    page.ask("document.body.insertAdjacentHTML('beforeend', '<b style=\"color: red\">x</b>')")
    page.ask("1")
    assert any("Content Security Policy" in one for one in page.complaints)


def test_the_keyboard_alone(page: Browser, address: str) -> None:
    page.screen(1280, 900)
    page.go(f"{address}/?lang=en")
    page.press("Tab")
    assert page.ask("document.activeElement.textContent") == "Skip to the content"
    assert page.ask("document.activeElement.getBoundingClientRect().left") >= 0, "it is seen while it has the focus"
    focused = []
    for _ in range(12):
        page.press("Tab")
        focused.append(page.ask("document.activeElement.textContent.trim()"))
        assert page.ask("getComputedStyle(document.activeElement).outlineStyle") == "solid", focused[-1]
    assert focused[:5] == ["Department GPUs", "All nodes", "Where can I run now?", "My use", "People"]
    assert "gpu01" in focused
    assert page.ask("[...document.querySelectorAll('th')].every(one => one.hasAttribute('scope'))")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("path", ["/", "/nodes/gpu02", "/people/jiho"])
def test_text_stands_out(page: Browser, address: str, path: str, dark: bool) -> None:
    """A contrast of 4.5 at least (WCAG 2.1, 1.4.3), for all text in both colour schemes."""
    page.screen(1280, 900, dark=dark)
    page.go(f"{address}{path}?lang=en")
    weak = page.ask(
        """(() => {
        const parse = (text) => text.match(/[0-9.]+/g).map(Number);
        const light = ([r, g, b]) => [r, g, b].map((one) => one / 255)
          .map((one) => one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4)
          .reduce((sum, one, at) => sum + one * [0.2126, 0.7152, 0.0722][at], 0);
        const behind = (one) => {
          for (; one; one = one.parentElement) {
            const found = parse(getComputedStyle(one).backgroundColor);
            if (found.length < 4 || found[3] > 0) return found;
          }
          return [255, 255, 255];
        };
        return [...document.querySelectorAll('body *')].filter((one) => [...one.childNodes]
          .some((part) => part.nodeType === 3 && part.textContent.trim() !== '')).filter((one) => {
            const [a, b] = [light(parse(getComputedStyle(one).color)), light(behind(one))].sort((x, y) => y - x);
            return (a + 0.05) / (b + 0.05) < 4.5;
          }).map((one) => one.className + ': ' + one.textContent.trim().slice(0, 40));
        })()"""
    )
    assert weak == []
