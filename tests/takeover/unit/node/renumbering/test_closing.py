"""Kept out for another verb by what renumbering has: each verb lets in only those whom it has closed."""

from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.converge import Host
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

from gpuadmin.takeover.node.renumbering import accounts, closing, journal, work
from gpuadmin.takeover.node.renumbering.decide import Numbers, Wanted

pytestmark = pytest.mark.root
MINJI, JIHO = 31181, 31182  # of no other file: they run at the same time
VERB = "move-homes"


@pytest.fixture
def people(host: Host) -> Host:
    etc = Path(host.path("etc"))
    for name, text in {
        "passwd": f"minji:x:{MINJI}:{MINJI}::/home/minji:/bin/sh\njiho:x:{JIHO}:{JIHO}::/home/jiho:/bin/sh\n",
        "shadow": "minji:$y$hers:20000:0:99999:7:::\njiho:!$y$his:20000:0:99999:7::20999:\n",
        "group": f"minji:x:{MINJI}:\njiho:x:{JIHO}:\n",
    }.items():
        with (etc / name).open("a") as stream:
            stream.write(text)
    return host


def shadow(host: Host, name: str) -> list[str]:
    lines = Path(host.path("etc/shadow")).read_text().splitlines()
    return next(line.split(":") for line in lines if line.startswith(f"{name}:"))


def test_closed_and_opened_as_they_were(people: Host) -> None:
    before = {name: shadow(people, name) for name in ("minji", "jiho")}
    assert closing.keep_out({"minji": MINJI, "jiho": JIHO, "nobody-here": 31003}, people, VERB) == {}
    assert [shadow(people, name)[7] for name in before] == ["1", "1"]
    assert shadow(people, "minji")[1] == "!$y$hers"
    assert closing.who(people, VERB) == ["jiho", "minji"]
    # again: nobody is let in for a moment, and what they were is not forgotten
    assert closing.keep_out({"minji": MINJI}, people, VERB) == {}
    assert closing.reopen(["minji"], people, VERB) == ["minji"]
    assert shadow(people, "minji") == before["minji"]
    assert closing.who(people, VERB) == ["jiho"]
    assert closing.reopen(["minji", "jiho"], people, VERB) == ["jiho"]
    assert {name: shadow(people, name) for name in before} == before
    assert closing.reopen(["jiho"], people, VERB) == []


def test_a_cut_forgets_nobody_s_password_and_expiry(people: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they were is written down before an account is closed, and until it is open again."""

    def cut(*_: object) -> None:
        raise OSError("a power cut")

    before = {name: shadow(people, name) for name in ("minji", "jiho")}
    wanted = {"minji": MINJI, "jiho": JIHO}
    for call, step in (
        (lambda: closing.keep_out(wanted, people, VERB), "close"),
        (lambda: closing.reopen(["jiho"], people, VERB), "reopen"),
        (lambda: closing.reopen(list(wanted), people, VERB), "reopen"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(accounts, step, cut)
            with pytest.raises(OSError, match="power cut"):
                call()
        assert closing.who(people, VERB) == ["jiho", "minji"]
        closing.keep_out(wanted, people, VERB)
    closing.reopen(list(wanted), people, VERB)
    assert {name: shadow(people, name) for name in before} == before


def test_a_cut_of_a_renumbering_forgets_nobody_s_password_and_expiry(
    people: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = shadow(people, "jiho")

    def close() -> object:
        new = {"jiho": [JIHO, JIHO + 1000]}
        return work.close([Wanted("jiho", JIHO + 1000)], new, Numbers(30000, 39999), people)

    def reopen() -> list[str]:
        found = journal.load(people.path(people.state))
        assert found is not None
        journal.save(people.path(people.state), replace(found, step=journal.WHOLE))
        return work.reopen(people)

    def cut(*_: object) -> None:
        raise OSError("a power cut")

    for call, step, opens in (
        (close, "close", lambda: work.give_up(people)),
        (lambda: work.give_up(people), "reopen", lambda: work.give_up(people)),
        (reopen, "reopen", reopen),
    ):
        if step == "reopen":
            close()
        with monkeypatch.context() as patch:
            patch.setattr(accounts, step, cut)
            with pytest.raises(OSError, match="power cut"):
                call()
        assert opens() == ["jiho"]
        assert shadow(people, "jiho") == before


@pytest.mark.holds("nobody is taken for another who has their name")
def test_somebody_with_another_uid_is_not_closed(people: Host) -> None:
    assert "gpuadmin renumber minji" in closing.keep_out({"minji": 9999}, people, VERB)["minji"]
    assert shadow(people, "minji")[7] == ""


@pytest.mark.holds("nobody's home is moved while they run something")
def test_who_runs_something_is_let_in_again_at_once(people: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        closing, "busy", lambda people, host: {one.name: "runs sleep" for one in people if one.name == "minji"}
    )
    assert closing.keep_out({"minji": MINJI, "jiho": JIHO}, people, VERB) == {"minji": "runs sleep"}
    assert shadow(people, "minji")[7] == ""
    assert shadow(people, "jiho")[7] == "1"


@pytest.mark.holds("who is kept out for another verb is not let in by this one")
def test_no_verb_opens_what_another_has_closed(people: Host) -> None:
    closing.keep_out({"minji": MINJI}, people, VERB)
    numbers = Numbers(30000, 39999)
    for call in (
        lambda: work.close([Wanted("minji", MINJI)], {"minji": [MINJI, MINJI]}, numbers, people),
        lambda: work.give_up(people),
        lambda: work.reopen(people),
        lambda: work.arm(people),
    ):
        with pytest.raises(NodeError, match="gpuadmin move-homes, which has not ended"):
            call()
    assert shadow(people, "minji")[7] == "1"
    closing.reopen(["minji"], people, VERB)
    work.close([Wanted("minji", MINJI)], {"minji": [MINJI, MINJI]}, numbers, people)
    for call in (
        lambda: closing.keep_out({"jiho": JIHO}, people, VERB),
        lambda: closing.reopen(["minji"], people, VERB),
    ):
        with pytest.raises(NodeError, match="gpuadmin renumber, which has not ended"):
            call()
    assert shadow(people, "minji")[7] == "1"


@pytest.mark.holds("who was kept out before stays so, whatever goes on in their name")
def test_who_was_kept_out_already_is_not_let_in_because_something_of_theirs_runs(
    people: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Since a cut they may be between two homes: a container that goes on opens neither."""
    closing.keep_out({"minji": MINJI}, people, VERB)
    monkeypatch.setattr(closing, "busy", lambda people, host: {one.name: "runs sleep" for one in people})
    found = closing.keep_out({"minji": MINJI, "jiho": JIHO}, people, VERB)
    assert found == {"minji": "runs sleep", "jiho": "runs sleep"}
    assert shadow(people, "minji")[7] == "1"
    assert shadow(people, "jiho")[7] == "20999"
    assert closing.who(people, VERB) == ["minji"]
