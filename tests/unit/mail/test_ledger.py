"""The ledger: no crash, at whatever byte, makes a second mail."""

import contextlib
import json
import stat
from collections.abc import Callable
from email.message import EmailMessage
from pathlib import Path
from typing import Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuadmin.common import appending
from gpuadmin.common.mail import ledger as module
from gpuadmin.common.mail.deliver import deliver
from gpuadmin.common.mail.ledger import State, fold
from gpuadmin.common.mail.letter import Letter
from gpuadmin.common.mail.transport import Answer, TransportDown
from gpuadmin.errors import ConfigError, GpuadminError
from gpuadmin.mail.ledger import Ledger
from gpuadmin.mail.render import Renderer
from tests.support.closing_mail import letter, settings

pytestmark = pytest.mark.holds(
    "a ledger's line is on the disk",
    "a mail is in the ledger before it is handed over",
    "a damaged line of the mails' ledger stops",
    "sent stays sent, whatever the order of the lines",
    "what was refused is not sent there again",
    "what is uncertain is not sent again by itself",
    "no mail without its record",
)


def line(state: str, *keys: str, address: str = "a@example.org") -> str:
    return json.dumps({"time": "t", "state": state, "keys": keys, "names": ["a"], "address": address})


FOLDED = {
    "nothing": ("", {}),
    "an intent alone is uncertain": (line("intent", "a"), {"a": "intent"}),
    "sent": (f"{line('intent', 'a')}\n{line('sent', 'a')}\n", {"a": "sent"}),
    "a digest": (line("sent", "a", "b"), {"a": "sent", "b": "sent"}),
    "failed, then tried again": (f"{line('failed', 'a')}\n{line('intent', 'a')}", {"a": "intent"}),
    "sent stays sent, in whatever order two branches were merged": (
        f"{line('sent', 'a')}\n\n{line('intent', 'a')}\n",
        {"a": "sent"},
    ),
    "torn": (f"{line('intent', 'a')}\n{line('sent', 'a')[:30]}", {"a": "intent"}),
    "torn within a letter": (f"{line('intent', 'a')}\n".encode() + '{"detail": "예'.encode()[:-1], {"a": "intent"}),
    "torn, and zeros": (f"{line('intent', 'a')}\n\0\0\0\0", {"a": "intent"}),
}


@pytest.mark.parametrize(("text", "states"), FOLDED.values(), ids=FOLDED.keys())
def test_reading(text: str | bytes, states: dict[str, str]) -> None:
    entries = fold(text.encode() if isinstance(text, str) else text, Path("mails.jsonl"))
    assert {key: entry.state.value for key, entry in entries.items()} == states


DAMAGE = ["<<<<<<< HEAD", "\0\0", "[]", '{"state": "sent"}', '{"state": "gone", "keys": []}', "3", "null", "[" * 5000,
          line("sent", "a")[:30], line("sent", "a") * 2, '"x"']  # fmt: skip


@pytest.mark.parametrize("damage", [*(text.encode() for text in DAMAGE), b'{"state": "sent", "keys": ["\xff"]}'])
def test_any_other_damaged_line_is_an_error_and_nobody_is_mailed(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "mails.jsonl"
    path.write_bytes(line("sent", "a").encode() + b"\n" + damage + b"\n" + line("sent", "b").encode() + b"\n")
    before = path.read_bytes()
    sent: list[str] = []
    with pytest.raises(ConfigError, match=r"mails\.jsonl:2: is damaged") as caught:
        run(tmp_path, ["c"], Recorder(sent.append))
    assert "delete it" in str(caught.value.hint)
    assert sent == []
    assert path.read_bytes() == before


@pytest.mark.holds("a torn line of the ledger is cut off before the next")
@pytest.mark.parametrize("kept", [30, None], ids=["a torn line goes", "what lacks only its end stays"])
def test_a_last_line_without_its_end(tmp_path: Path, kept: int | None) -> None:
    """Else the next intent would be a part of it, and nobody would know of that mail."""
    path = tmp_path / "mails.jsonl"
    path.write_text(f"{line('sent', 'a')}\n{line('sent', 'b')[:kept]}")
    run(tmp_path, ["c"], Recorder(lambda _: None))
    whole = 1 if kept else 2
    lines = path.read_text().splitlines()
    assert lines[:whole] == [line("sent", "a"), line("sent", "b")][:whole]
    assert [json.loads(text)["state"] for text in lines[whole:]] == ["intent", "sent"]


def test_a_link_that_leads_nowhere_is_not_an_empty_ledger(tmp_path: Path) -> None:
    (tmp_path / "mails.jsonl").symlink_to("gone/mails.jsonl")
    with pytest.raises(GpuadminError, match="No such file"):
        Ledger.of(tmp_path)


OPEN = [
    # state, same address, again -> is it still to be sent?
    (None, True, False, True),
    ("owed", True, False, True),
    ("failed", True, False, True),
    ("sent", True, False, False),
    ("sent", False, False, False),
    ("sent", False, True, False),
    ("intent", True, False, False),
    ("intent", False, False, False),
    ("intent", True, True, True),
    ("unknown", True, False, False),
    ("unknown", True, True, True),
    ("refused", True, False, False),
    ("refused", False, False, True),
    ("refused", True, True, True),
]


@pytest.mark.parametrize(("state", "same", "again", "expected"), OPEN)
def test_what_is_still_to_be_told(tmp_path: Path, state: str | None, same: bool, again: bool, expected: bool) -> None:
    if state is not None:
        (tmp_path / "mails.jsonl").write_text(line(state, "k") + "\n")
    address = "A@example.org" if same else "b@example.org"
    assert bool(Ledger.of(tmp_path).open_keys(["k"], address, again)) == expected


def test_it_is_private_and_grows(tmp_path: Path) -> None:
    ledger = Ledger.of(tmp_path)
    ledger.owe([letter("a")])
    attempt = ledger.begin(letter("a"), "smtp")
    ledger.finish(letter("a"), attempt, State.SENT)
    ledger.owe([letter("a")])
    path = tmp_path / "mails.jsonl"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [json.loads(text)["state"] for text in path.read_text().splitlines()] == ["owed", "intent", "sent"]
    assert not [entry for entry in Ledger.of(tmp_path) if entry.uncertain]


def test_each_line_is_on_the_disk_before_the_mail_is_handed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    real = appending.os.fsync
    monkeypatch.setattr(appending.os, "fsync", lambda handle: (order.append("sync"), real(handle))[1])
    run(tmp_path, ["a"], Recorder(order.append))
    handed = order.index("a@example.org")
    assert "sync" in order[:handed]
    assert "sync" in order[handed + 1 :]


def test_a_disk_that_is_full_sends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, text: str, **_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "append_synced", full)
    sent: list[str] = []
    with pytest.raises(GpuadminError, match="No space left"):
        run(tmp_path, ["a"], Recorder(sent.append))
    assert sent == []


class Crash(BaseException):
    """The controller is killed."""


class Recorder:
    """A transport that tells whom it delivered to."""

    name = "test"

    def __init__(self, deliver_to: Callable[[str], None], answers: dict[str, State | None] | None = None) -> None:
        self.deliver_to = deliver_to
        self.answers = answers or {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def send(self, message: EmailMessage) -> Answer:
        address = str(message["To"])
        state = self.answers.get(address, State.SENT)
        if state is None:
            raise TransportDown("gone")
        if state in (State.SENT, State.UNKNOWN):
            self.deliver_to(address)
        return Answer(state)


def run(site: Path, names: list[str], transport: Recorder) -> None:
    """A run as a verb does it: what is open is sent."""
    chosen = settings(25)
    ledger = Ledger.of(site)
    letters: list[Letter] = [
        found for found in map(letter, names) if ledger.open_keys(found.keys, found.address)
    ]  # fmt: skip
    deliver(letters, ledger, Renderer(chosen, site).message, lambda: transport)


ANSWERS = st.sampled_from([State.SENT, State.REFUSED, State.FAILED, State.UNKNOWN, None])


@given(data=st.data())
def test_nobody_is_mailed_twice_whatever_is_cut(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Runs that are killed at any write (with any part of the line written) or any delivery, one after another."""
    site = tmp_path_factory.mktemp("site")
    delivered: list[str] = []
    names = data.draw(st.lists(st.sampled_from("abcdef"), unique=True))
    for _ in range(data.draw(st.integers(1, 4))):
        answers = {f"{name}@example.org": data.draw(ANSWERS) for name in names}
        steps = data.draw(st.integers(0, 20))
        part = data.draw(st.floats(0, 1))
        count = 0

        def alive() -> bool:
            nonlocal count
            count += 1
            return count <= steps  # noqa: B023  used within this round only

        def append(path: Path, text: str, **options: Any) -> None:
            if not alive():
                REAL_APPEND(path, text[: int(part * len(text))], **options)  # noqa: B023  # used within this round only
                raise Crash
            REAL_APPEND(path, text, **options)

        def deliver_to(address: str) -> None:
            if not alive():
                raise Crash
            delivered.append(address)
            if not alive():
                raise Crash

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "append_synced", append)
            with contextlib.suppress(Crash):
                run(site, names, Recorder(deliver_to, answers))
    # and at last an undisturbed one
    run(site, names, Recorder(delivered.append))
    assert len(delivered) == len(set(delivered))
    # whoever got none is named: refused, or uncertain
    ledger = Ledger.of(site)
    for name in names:
        entry = ledger.entry(letter(name).keys[0])
        assert entry is not None
        if entry.address not in delivered:
            assert entry.uncertain or entry.state is State.REFUSED


REAL_APPEND = module.append_synced


@given(text=st.text())
def test_no_text_is_a_traceback(text: str) -> None:
    with contextlib.suppress(module.MailError):
        assert not fold(text.encode(errors="surrogatepass"), Path("mails.jsonl"))
