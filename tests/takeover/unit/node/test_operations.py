"""What a verb of the take-over asks a host for: a check does nothing, and one person's trouble stays theirs."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import background
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.converge import Host
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

from gpuadmin.common.records.people import PersonEntry
from gpuadmin.takeover.node import operations
from gpuadmin.takeover.node.moving import aside, jobs, record
from gpuadmin.takeover.node.operations import DockerMove, HomesMove, RenumberOrder
from gpuadmin.takeover.node.renumbering import work
from gpuadmin.takeover.node.renumbering.decide import Wanted


def home(name: str, host: str = "gpu1", step: str = record.PLACED) -> record.Part:
    return record.Part(name, 1, host, True, False, 1, 1, step, "c", 0, 0, here=5)


HOMES = [home("minji"), home("jiho")]


@pytest.mark.parametrize("step", ["aside", "put-back", "take-back", "discard"])
def test_check_mode_moves_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: Any) -> None:
    monkeypatch.setattr(jobs, "take_back", lambda *_: pytest.fail("check mode"))
    for name in ("set_aside", "put_back", "discard"):
        monkeypatch.setattr(aside, name, lambda *_: pytest.fail("check mode"))
    answer = operations.move_homes(HomesMove(step, "/home", homes=HOMES, state_directory=str(tmp_path)), True)
    said = [one.split(":")[0] for one in answer.operations]
    assert said == (["minji", "jiho"] if step in ("aside", "discard") else [])


def test_one_persons_trouble_ends_nobody_elses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def odd(_path: str, _state: str, old: record.Part) -> None:
        if old.name == "minji":
            raise NodeError("has changed")

    monkeypatch.setattr(aside, "set_aside", odd)
    answer = operations.move_homes(HomesMove("aside", "/home", homes=HOMES, state_directory=str(tmp_path)), False)
    assert answer.report["moved"] == {"parts": [{"name": "jiho"}], "problems": {"minji": "has changed"}}
    assert answer.operations == ["jiho: the old home renamed"]


@pytest.mark.holds("what a node says leads to no file elsewhere")
@pytest.mark.root
def test_what_a_node_says_is_gone_leads_to_no_other_file(tmp_path: Path) -> None:
    """A person has put it into their home on the storage host, and a node says that it is done with that one."""
    record.make(str(tmp_path))
    homes = tmp_path / "homes"
    (homes / "evil@").mkdir(parents=True)
    (homes / "victim.gz").write_bytes(b"precious")
    part = home("../homes/evil", "/../victim")
    (homes / "evil@gpu1.json").write_text(json.dumps({"format": record.FORMAT, **asdict(part)}))
    document = HomesMove("forget", "/home", homes=[home("../homes/evil")], state_directory=str(tmp_path))
    with pytest.raises(NodeError, match="not the home of a person"):
        operations.move_homes(document, False)
    assert (homes / "victim.gz").read_bytes() == b"precious"


@pytest.mark.root
def test_a_home_that_had_its_name_when_the_run_was_cut_is_noted_as_well(tmp_path: Path) -> None:
    """Else each run would keep its person out once more, and none would ever discard the old one."""
    state = str(tmp_path)
    record.save(state, home("minji", step=record.CHANGING))
    document = HomesMove("noted", "/home", homes=[home("minji")], state_directory=state)
    operations.move_homes(document, False)
    part = record.load(state, "minji", "gpu1")
    assert part is not None
    assert part.step == record.ASIDE


@pytest.mark.holds("who is done is let in while others are waited for")
def test_taking_returns_when_there_is_news_of_somebody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the job goes on: with who was decided on since the last time, and once it has ended with all of it."""
    one = {"parts": [{"name": "jiho", "host": "gpu1"}], "problems": {}, "between": []}
    two = {**one, "problems": {"yuna": "is late"}}
    said = ["", json.dumps(one), json.dumps(one), json.dumps(one), json.dumps(two)]
    starts: list[str] = []
    ended: list[background.Result | None] = [None, None, None, None, None, background.Result({**two, "between": ["x"]})]

    def attend(_job: background.Job, begun: str, _wait: float) -> background.Result | None:
        starts.append(begun)
        return ended.pop(0)

    monkeypatch.setattr(background, "attend", attend)
    monkeypatch.setattr(background, "progress", lambda _job: said.pop(0))
    monkeypatch.setattr(operations, "available", lambda: True)

    def take(*done: str) -> Any:
        document = HomesMove("take", "/home", run_id="this", done=done, state_directory=str(tmp_path))
        return operations.move_homes(document, False)

    first = take()
    assert first.report["moved"] == {**one, "working": True}
    assert first.operations == ["jiho: here from gpu1"]
    second = take("jiho")
    assert second.report["moved"] == {**two, "working": True}
    assert second.operations == []
    assert take("jiho", "yuna").report["moved"] == {**two, "between": ["x"]}
    assert set(starts) == {"this"}
    ended.append(background.Result(None, "the disk is gone"))
    with pytest.raises(NodeError, match="the disk is gone"):
        take()


@pytest.mark.holds("one person's home that stays keeps nobody else's there")
@pytest.mark.root
def test_one_home_that_cannot_be_taken_back_keeps_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state, asked = str(tmp_path), []
    for name in ("minji", "jiho"):
        record.save(state, home(name))

    def take_back(_root: str, parts: list[record.Part], _state: str) -> None:
        asked.append([(one.name, one.host) for one in parts])
        if parts[0].name == "minji":
            raise NodeError("has others in it")

    monkeypatch.setattr(jobs, "take_back", take_back)
    homes = [home(name, host) for name in ("minji", "jiho") for host in ("gpu1", "unknown")]
    answer = operations.move_homes(HomesMove("take-back", "/home", homes=homes, state_directory=state), False)
    assert answer.report["moved"] == {"parts": [{"name": "jiho"}], "problems": {"minji": "has others in it"}}
    assert asked == [[("minji", "gpu1")], [("jiho", "gpu1")]]


@pytest.mark.root
def test_letting_in_says_who_is_kept_out_yet(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "Host", lambda **_: host)
    with Path(host.path("etc/passwd")).open("a") as stream:
        stream.write("minji:x:31191:31191::/home/minji:/bin/sh\njiho:x:31192:31192::/home/jiho:/bin/sh\n")
    with Path(host.path("etc/shadow")).open("a") as stream:
        stream.write("minji:$y$h:20000:0:99999:7:::\njiho:$y$h:20000:0:99999:7:::\n")
    people = [PersonEntry("minji", 31191), PersonEntry("jiho", 31192)]
    assert operations.move_homes(HomesMove("close", "/home", people=people), False).report["moved"]["problems"] == {}
    answer = operations.move_homes(HomesMove("open", "/home", people=people[:1]), False)
    assert answer.operations == ["minji: let in"]
    assert answer.report["moved"] == {"parts": [], "problems": {}, "closed": ["jiho"]}


@pytest.mark.holds("check mode carries nothing and removes nothing")
@pytest.mark.parametrize(
    ("step", "words"),
    [("carry", ["carry volume data"]), ("discard", ["remove volume data", "remove container train"])],
)
def test_check_mode(monkeypatch: pytest.MonkeyPatch, step: Any, words: list[str]) -> None:
    monkeypatch.setattr(background, "perform", lambda *_, **__: pytest.fail("check mode"))
    document = DockerMove(step, "/data", "minji", 20000, volumes=["data"], containers={"c1": "train"})
    assert list(operations.move_docker(document, True).operations) == words


@pytest.mark.parametrize("step", ["close", "arm", "open", "give-up"])
def test_check_mode_renumbers_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: Any) -> None:
    for name in ("close", "arm", "reopen", "give_up"):
        monkeypatch.setattr(work, name, lambda *_: pytest.fail("check mode"))
    document = RenumberOrder(
        [Wanted("minji", 20001)], step, expected={"minji": [1001, 20001]}, state_directory=str(tmp_path / "state")
    )
    answer = operations.renumber(document, True)
    assert list(answer.operations) == (["minji: uid 1001 becomes 20001"] if step == "arm" else [])
    assert list(tmp_path.iterdir()) == []
