"""The journal of a reset: a torn line is none, a damaged one decides nothing, and what is written is on the disk."""

import json
from pathlib import Path

import pytest

from gpuadmin.common import appending
from gpuadmin.errors import GpuadminError, RefusedError
from gpuadmin.semester.journal import Journal
from gpuadmin.semester.machine import PHASES, State

pytestmark = pytest.mark.holds("a torn line is cut off before the next")


DECISION = {"term": "2026-2", "backup": "b", "at": "2026-12-31T12:00:00+00:00", "leaving": [], "scratch": {}}


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """A reset in which `announce` was begun."""
    made = Journal(tmp_path, "2026-2")
    made.write("decided", decision=DECISION)
    made.write("begin", phase="announce", plan={})
    return made


@pytest.mark.holds("a value of another type in the journal decides nothing")
@pytest.mark.parametrize(
    "damage",
    [
        *(b"\0\0\0\0\n", b"{\n", b"\n", b'{"event": "begin", "phase": "lo\n', b"7\n", b'{"event": 7}\n'),
        b'{"event": "beg1n", "phase": "wipe"}\n',
        b'{"event": "begin", "phase": "w1pe"}\n',
        b'{"event": "begin", "phase": ["wipe"]}\n',
        b'{"event": "unlocked-before", "names": 5}\n',
        b'{"event": "done", "phase": "lock", "result": 7, "pending": [1]}\n',
        b'{"event": "decided", "decision": {"term": "2026-2", "backup": "b", "at": "x", "leaving": [7]}}\n',
        *(
            json.dumps({"event": "decided", "decision": {**DECISION, **odd}}).encode() + b"\n"
            for odd in (
                {"at": 3},
                {"staying": ["jiho"]},
                {"kept": {"a": None}},
                {"more": "x"},
                {"scratch": {"node1": [{}]}},
                {"scratch": {"node1": [{"user": 3, "uid": 1}]}},
                {"leaving": [{"name": "minji", "uid": "20000", "subid_start": 1, "subid_count": 1}]},
                {"leaving": [{"name": "minji", "uid": True, "subid_start": 1, "subid_count": 1}]},
            )
        ),
    ],
)
def test_a_line_that_is_damaged_decides_nothing(journal: Journal, damage: bytes) -> None:
    """It may be the one that says that homes are being wiped."""
    first, second = journal.path.read_bytes().splitlines(keepends=True)
    journal.path.write_bytes(first + damage + second)
    for look in (journal.entries, journal.state):
        with pytest.raises(GpuadminError, match=r"journal.jsonl:2: is damaged; nothing is done"):
            look()


def test_a_file_whose_name_is_no_unicode_stops_no_reset(journal: Journal) -> None:
    """Anybody can make one in /tmp: the decision could be written, and never read again."""
    item = {"user": "minji", "uid": 20000, "name": "\udcff"}
    decision = {**DECISION, "kept": {"\udcff": "x"}, "scratch": {"node1": [item]}}
    journal.write("decided", decision=decision)
    found = journal.state().decision
    assert found is not None
    assert (found.kept, found.scratch) == ({"\udcff": "x"}, {"node1": (item,)})


def test_a_line_that_was_torn_off_is_none_and_is_cut_off_before_the_next(journal: Journal) -> None:
    with journal.path.open("ab") as stream:
        stream.write(b'{"at": "2026-12')
    assert [entry["event"] for entry in journal.entries()] == ["decided", "begin"]
    journal.write("done", phase="announce", result={}, pending={})
    assert [entry["event"] for entry in journal.entries()] == ["decided", "begin", "done"]
    assert journal.state().next_phase() == "lock"


def test_an_entry_is_on_the_disk_when_it_is_written(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also its name, with the first entry: a power cut after it must find it."""
    synced: list[str] = []
    monkeypatch.setattr(
        appending.os, "fsync", lambda handle: synced.append(Path(f"/proc/self/fd/{handle}").resolve().name)
    )
    journal.write("begin", phase="lock", plan={})
    assert synced == ["journal.jsonl"]
    synced.clear()
    Journal(journal.directory.parent, "other").write("decided", decision=DECISION)
    assert synced == ["journal.jsonl", "term-other", journal.directory.parent.name]


@pytest.mark.holds("what was taken back is not done in the next reset")
def test_what_was_taken_back_is_not_done_in_the_next_reset(journal: Journal) -> None:
    journal.write("unlocked-before", names=["minji"])
    for phase in ("announce", "lock", "end-sessions", "backup"):
        journal.write("begin", phase=phase, plan={})
        journal.write("done", phase=phase, result={}, pending={"node2": "was away"} if phase == "lock" else {})
    assert journal.state().phases("wipe", check=False) == ("wipe",)
    journal.write("aborted", mailed=["minji"])
    state = journal.state()
    assert (state.aborted, state.open, state.closed_before, bool(state.since)) == (True, False, 1, True)
    assert {state.word(phase) for phase in PHASES} == {"not begun"}
    assert (state.pending, state.unlocked_before) == ({}, ())
    for phase in PHASES[1:]:
        with pytest.raises(RefusedError, match="announce comes before it"):
            state.phases(phase, check=False)
    journal.write("decided", decision=DECISION)
    assert journal.state().closed_before == 1
    assert journal.state().phases("announce", check=False) == ("announce",)


def test_what_a_wipe_was_begun_for_may_be_gone(journal: Journal) -> None:
    leaver = {"name": "minji", "uid": 20000, "subid_start": 2**31, "subid_count": 65536}
    journal.write("narrowed", decision={**DECISION, "leaving": [leaver]})
    assert journal.state().wiped == frozenset()
    journal.write("begin", phase="wipe", plan={})
    assert journal.state().wiped == {"minji"}
    journal.write("decided", decision={**DECISION, "leaving": [leaver]})
    assert journal.state().wiped == frozenset(), "a new reset has wiped nobody"


def read(tmp_path: Path, name: str, lines: int) -> State:
    """What the first lines of a journal come to that was written before phases were objects."""
    journal = Journal(tmp_path, "2026-2")
    journal.directory.mkdir(parents=True, exist_ok=True)
    old = (Path(__file__).parent / "journals" / f"{name}.jsonl").read_text().splitlines(keepends=True)
    journal.path.write_text("".join(old[:lines]))
    assert len(journal.entries()) == lines
    return journal.state()


NODE2 = {"node2": "does not answer (timed out)"}

# the journal, its first lines -> what is next, what is pending
OLD: dict[str, tuple[str, int, str | None, dict[str, dict[str, str]]]] = {
    "decided": ("pending", 1, "announce", {}),
    "announced": ("pending", 3, "lock", {"announce": {}}),
    "lock begun": ("pending", 6, "lock", {"announce": {}}),
    "lock failed": ("pending", 7, "lock", {"announce": {}}),
    "lock pending": ("pending", 10, "lock", {"announce": {}, "lock": NODE2}),
    "backup done": ("pending", 14, "lock", {"announce": {}, "lock": NODE2, "end-sessions": NODE2, "backup": {}}),
    "all done": ("pending", 32, None, {phase: {} for phase in PHASES}),
    "released": ("aborted", 13, "backup", {"announce": {}, "lock": {}, "end-sessions": {}}),
}  # fmt: skip


@pytest.mark.holds("a reset that was begun before goes on where it was")
@pytest.mark.parametrize(("name", "lines", "following", "pending"), OLD.values(), ids=OLD.keys())
def test_a_journal_of_an_older_version(
    tmp_path: Path, name: str, lines: int, following: str | None, pending: dict[str, dict[str, str]]
) -> None:
    state = read(tmp_path, name, lines)
    assert state.next_phase() == following
    assert state.pending == pending
    assert state.finished == (following is None)
    assert state.open == (following is not None)
    assert state.decision is not None
    assert state.decision.names == (("minji",) if name == "aborted" else ("minji", "jiho"))
    assert state.unlocked_before == (("minji", "jiho") if lines > 5 else ())


def test_a_journal_of_an_older_version_that_was_aborted(tmp_path: Path) -> None:
    lines = (Path(__file__).parent / "journals/aborted.jsonl").read_text().count("\n")
    assert not read(tmp_path, "aborted", lines - 1).aborted
    assert read(tmp_path, "aborted", lines).aborted
