"""GPUs that nobody has, by the site's rule, for as long as a program of theirs runs."""

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import (
    followed,
    health,
    peercred_service,
    web_links,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.desired import (
    DesiredState,
    Record,
    Settings,
    parse_user,
    save,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.files import flocked
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import grants, reconcile
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.grants import Grant
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.look import Sick
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.mig import Waiting
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm import gpu, gpu_here, self_service

from gpuadmin.common.records.gpus import SelfService
from tests.support.gated_host import GatedHost, gated_host

RULE = SelfService(1, 8)
TWO = SelfService(2, 8)
MINJI, JIHO = 20000, 20001


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GatedHost:
    monkeypatch.setattr(followed, "RUN", str(tmp_path / "run"))
    found = gated_host(tmp_path, monkeypatch)
    people(tmp_path)
    found.places = replace(found.places, proc="/proc")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/shadow").write_text("".join(f"{name}:*:1:0:99999:7:::\n" for name in ("minji", "jiho")))
    monkeypatch.setattr(web_links, "find_name", {MINJI: "minji", JIHO: "jiho"}.get)
    monkeypatch.setattr(self_service, "holders", lambda *_: {})
    return found


def people(place: Path, *locked: str, source: str = "registry", expires: int | None = None) -> None:
    records = {}
    for name, uid in (("minji", MINJI), ("jiho", JIHO), ("gone", 20009)):
        user, problem = parse_user({"name": name, "uid": uid, "locked": name in locked, "expires": expires})
        assert user is not None, problem
        records[name] = Record(user)
    settings = Settings(uid_first=20000, uid_last=29999, source=source)
    save(str(place / "state"), DesiredState(settings, {} if source == "directory" else records))


def ask(host: GatedHost, uid: int, request: str, rule: SelfService = RULE, pid: int = 0) -> tuple[int, list[str]]:
    status, text = self_service.answered(uid, f"{pid or os.getpid()} {request}", rule, host.places)
    return status, text.split(" ")


def admin_grants(host: GatedHost, gpu: str = "0") -> None:
    now = int(time.time())
    grants.write(Grant("a1", "jiho", JIHO, [gpu], now, now + 3600, "root@nas"), host.places.state)


@pytest.mark.root
@pytest.mark.holds(
    "what somebody was granted is not taken", "nobody takes more GPUs than the rule allows",
    "nobody gives back what another has",
)  # fmt: skip
def test_free_gpus_are_taken_and_given_back(host: GatedHost) -> None:
    status, (word, id, until, place, *names) = ask(host, MINJI, "take 1 2 run")
    assert (status, word, place, names) == (0, "taken", "0", ["0"])
    assert 7190 < int(until) - time.time() <= 7200
    assert host.allow["user-20000.slice"][-1].endswith("gpu0")
    (grant,) = grants.read(host.places.state, host.places.run)[0]
    assert (grant.user, grant.source, grant.who, grant.process) == ("minji", "self", "gpu run", os.getpid())
    assert ask(host, MINJI, "take 1 2 run") == (1, ["too-many", "1"])
    assert ask(host, JIHO, "take 1 1 get")[1][3] == "1"
    assert ask(host, MINJI, "list")[1][1:] == [f"0|granted|minji|{until}", ask(host, MINJI, "list")[1][2]]
    assert ask(host, JIHO, "take 1 1 run", TWO) == (1, ["none-free", "0", "2", "0", "0"])
    assert ask(host, JIHO, f"release {id}") == (1, ["nothing"])
    assert ask(host, MINJI, "release all") == (0, ["released"])
    assert not [one for one in host.allow["user-20000.slice"] if "gpu0" in one]
    assert ask(host, MINJI, "release all") == (1, ["nothing"])
    assert ask(host, JIHO, "take 1 1 run", TWO)[0] == 0


@pytest.mark.root
@pytest.mark.holds("nobody takes a GPU of a node that is maintained")
def test_a_window_of_maintenance(host: GatedHost) -> None:
    """What is taken ends before it, and is said to; while it lasts nothing is taken."""
    file, now = Path(host.places.state) / "announcements.json", int(time.time())
    shown = {"id": "x", "begin": 0, "end": now, "text": "x", "closed_until": now + 9000}
    file.write_text(json.dumps([{**shown, "closed_from": now + 1800}]))
    status, (word, _, until, *_) = ask(host, MINJI, "take 1 2 run")
    assert (status, word, int(until)) == (0, "taken-window", now + 1800)
    file.write_text(json.dumps([{**shown, "closed_from": now - 60}]))
    assert ask(host, JIHO, "take 1 1 run") == (1, ["maintained"])


@pytest.mark.root
@pytest.mark.holds("nobody takes a GPU for longer than the rule allows")
@pytest.mark.parametrize(
    ("request_", "word"),
    [
        ("take 1 9 run", "too-long"), ("take 3 1 run", "too-many"), ("take 0 1 run", "failed"), ("take 1 1", "failed"),
        ("take 1 1 run; reboot", "failed"), ("release ../../x", "failed"), ("", "failed"),
        ("take 1 99999 run", "failed"),
    ],
)  # fmt: skip
def test_what_is_refused(host: GatedHost, request_: str, word: str) -> None:
    assert ask(host, MINJI, request_, TWO)[1][0] == word
    assert grants.read(host.places.state, host.places.run) == ([], [])


@pytest.mark.root
@pytest.mark.holds("GPUs are people's of the site, whose accounts are not over")
def test_who_gets_none(host: GatedHost, tmp_path: Path) -> None:
    people(tmp_path, "minji")
    for uid in (MINJI, 0, 33, 20009, 20555, 2**31):  # locked; root; a daemon; without an account here; nobody
        assert ask(host, uid, "take 1 1 run") == (1, ["unknown"])
    today = int(time.time() // 86400)
    people(tmp_path, expires=today)  # and is still logged in
    assert ask(host, MINJI, "take 1 1 run") == (1, ["unknown"])
    people(tmp_path, expires=today + 1)
    assert ask(host, MINJI, "take 1 1 run")[0] == 0


@pytest.mark.root
def test_an_account_of_a_directory(host: GatedHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    people(tmp_path, source="directory")
    monkeypatch.setattr(web_links, "member_name", lambda uid, _group: {MINJI: "minji"}.get(uid))
    assert ask(host, MINJI, "take 1 1 run")[0] == 0
    assert ask(host, JIHO, "take 1 1 run") == (1, ["unknown"])


@pytest.mark.root
@pytest.mark.holds(
    "a GPU that somebody's program has open is granted to nobody",
    "a GPU that is sick, or that the driver has lost, is granted to nobody",
    "a GPU of which the driver says nothing is granted to nobody", "where GPUs are everybody's nothing is granted",
    "where a grant cannot be read no GPU is free",
)  # fmt: skip
def test_a_gpu_that_is_not_free(host: GatedHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    admin_grants(host)
    monkeypatch.setattr(self_service, "holders", lambda *_: {"haneul": {str(tmp_path / "gpu1")}})
    assert ask(host, MINJI, "take 1 1 run") == (1, ["none-free", "0", "1", "1", "0"])
    assert [one.split("|")[:3] for one in ask(host, MINJI, "list")[1][1:]] == [
        ["0", "granted", "jiho"], ["1", "held", "haneul"],
    ]  # fmt: skip
    monkeypatch.setattr(self_service, "holders", lambda *_: {})
    with monkeypatch.context() as divided:
        divided.setattr(self_service.mig, "waiting", lambda run: Waiting(["1"], 0))
        assert ask(host, MINJI, "take 1 1 run") == (1, ["none-free", "0", "1", "0", "0"]), "it waits to be divided"
        divided.setattr(self_service.mig, "waiting", lambda run: Waiting(["0"], 0))
        assert ask(host, MINJI, "list")[1][1:] == ["1|free|-|0"], "by the number that nvidia-smi gives it"
        assert ask(host, MINJI, "take 1 1 get")[1][3] == "1"
        assert ask(host, MINJI, "release all") == (0, ["released"])
    # a real driver: GPU-1 is lost
    settings = Path(host.places.settings)
    before = settings.read_text()
    settings.write_text('{"access": "granted"}')
    for name in "01":
        place = tmp_path / f"proc/driver/nvidia/gpus/0000:0{name}:00.0/information"
        place.parent.mkdir(parents=True)
        place.write_text(f"GPU UUID:\t GPU-0000000{name}-0000-0000-0000-000000000000\nDevice Minor: \t {name}\n")
    good = "GPU-00000000-0000-0000-0000-000000000000"
    node = health.Health([], ["/"], False, None, [], 0)
    monkeypatch.setattr(health, "look_at_node", lambda *_: node)
    assert ask(host, MINJI, "take 1 1 run") == (1, ["silent-driver"])
    node = replace(node, answering=[good])
    assert [one.split("|")[1] for one in ask(host, MINJI, "list")[1][1:]] == ["free", "lost"]
    assert ask(host, MINJI, "take 2 1 run", TWO) == (1, ["none-free", "1", "0", "0", "1"])
    for sick, states in (
        (Sick("GPU 0: Xid 48", good), ["lost", "lost"]), (Sick("module and libraries differ"), ["lost", "lost"]),
        (Sick("the homes are away", passes=True), ["free", "lost"]),
    ):  # fmt: skip
        node = replace(node, sick=[sick])
        assert [one.split("|")[1] for one in ask(host, MINJI, "list")[1][1:]] == states
    settings.write_text('{"access": "open"}')
    assert ask(host, MINJI, "take 1 1 run") == (1, ["open"])
    settings.write_text(before)
    (Path(host.places.state) / grants.DIRECTORY / "z.json").write_text("{")
    host.told.clear()
    assert ask(host, MINJI, "take 1 1 run") == (1, ["failed"])
    assert host.told == [], "nothing was opened meanwhile"


@pytest.mark.root
@pytest.mark.holds(
    "a grant does not outlive the process that it was given to, nor go to one that has its number now",
    "a process of which nobody knows keeps its grant",
)
def test_a_grant_ends_with_its_process(host: GatedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert ask(host, MINJI, "take 1 1 run", pid=process.pid)[0] == 0
    assert ask(host, JIHO, "take 1 1 get")[0] == 0
    assert [one.user for one in host.go(time.time()).grants] == ["jiho", "minji"] or len(
        host.go(time.time()).grants
    ) == 2
    real = grants.start_time
    monkeypatch.setattr(grants, "start_time", lambda *_: (_ for _ in ()).throw(PermissionError()))
    assert len(host.go(time.time()).grants) == 2
    monkeypatch.setattr(grants, "start_time", lambda pid, proc: (real(pid, proc) or 0) + 1)
    assert [one.user for one in host.go(time.time()).grants] == ["jiho"], "its number is another's"
    monkeypatch.setattr(grants, "start_time", real)
    process.communicate(b"\n")
    assert ask(host, MINJI, "take 1 1 run", pid=process.pid) == (1, ["failed"]), "it has ended"


@pytest.mark.root
@pytest.mark.holds("a GPU that could not be opened for somebody is not called theirs")
def test_a_gpu_that_could_not_be_opened_is_nobodys(host: GatedHost) -> None:
    host.refuses = "user-20000.slice"
    assert ask(host, MINJI, "take 1 1 run") == (1, ["failed"])
    assert grants.read(host.places.state, host.places.run)[0] == []


@pytest.mark.root
def test_of_two_who_ask_at_once_one_gets_it(host: GatedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    admin_grants(host, "1")
    found: list[tuple[int, list[str]]] = []
    real = self_service.look_at_gpus

    def slowly(*words: object) -> self_service.States:
        seen = real(*words)  # type: ignore[arg-type]  # whatever it is called with
        time.sleep(0.2)  # as long as the driver takes
        return seen

    monkeypatch.setattr(self_service, "look_at_gpus", slowly)
    threads = [
        threading.Thread(target=lambda uid=uid: found.append(ask(host, uid, "take 1 1 get"))) for uid in (MINJI, JIHO)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(status for status, _ in found) == [0, 1]


@pytest.mark.root
@pytest.mark.holds("a GPU is taken while nobody else grants or takes one")
def test_who_changes_grants_is_waited_for(host: GatedHost) -> None:
    found: list[tuple[int, list[str]]] = []
    taking = threading.Thread(target=lambda: found.append(ask(host, MINJI, "take 1 1 get")))
    with flocked(reconcile.lock_path(host.places)):
        taking.start()
        time.sleep(0.5)  # it would have taken one by then
        assert found == []
    taking.join()
    assert found[0][0] == 0


@pytest.fixture
def rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A node with a rule, whose service answers what is in `answers`; what it was asked is in there first."""
    (tmp_path / "rule").write_text('{"gpus": 1, "hours": 8}')
    monkeypatch.setattr(gpu_here, "read_rule", lambda: SelfService(1, 8))
    monkeypatch.setattr(gpu_here, "RUN", str(tmp_path / "run"))
    monkeypatch.setenv("LANG", "C")
    asked: list[str] = []

    def answer(request: str, seconds: float = 60.0) -> tuple[int, list[str]]:
        asked.append(request)
        return {
            "take": (0, ["taken", "run-1", "1795608428", "0", "GPU-1"]),
            "list": (0, ["listed", "0|held|jiho|0"]),
        }.get(request.split(" ", maxsplit=1)[0], (0, ["released"]))

    monkeypatch.setattr(gpu_here, "ask", answer)
    (tmp_path / "run-grants").mkdir()
    (tmp_path / "run-grants/run-1.json").touch()
    return asked


def test_what_people_type(rule: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert gpu.main(["run", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; exit 5"]) == 5
    out, err = capfd.readouterr()
    assert out == "GPU-1\n"
    assert err.splitlines()[0].startswith("GPU 0 of this node is yours until 2026-11-25")
    assert err.splitlines()[1] == "The GPUs are given back."
    assert gpu.main(["get", "--hours", "2"]) == 0
    assert gpu.main(["list"]) == 0
    assert gpu.main(["release"]) == 0
    assert rule == ["take 1 8 run", "release run-1", "take 1 2 get", "list", "release all"]
    assert "GPU 0: a program of jiho has it open" in capfd.readouterr().out
    assert gpu.main(["why"]) == 2
    assert gpu.main(["run", "--node", "gpu2", "--", "true"]) == 2
    assert "There is no queue here" in capfd.readouterr().err
    assert gpu.main(["run", "--", "no-such-program"]) == 127
    assert gpu.main(["--help", "--language", "ko"]) == gpu.main(["--help"]) == 0
    shown = capfd.readouterr().out
    assert ("대기열이 없습니다" in shown, "no queue here" in shown, "gpu book" in shown) == (True, True, False)


@pytest.mark.holds("nobody keeps others from GPUs by subordinate ids")
def test_subordinate_ids_are_nobody(host: GatedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    class Given:
        def __enter__(self) -> None:
            pass

        def __exit__(self, *_: object) -> None:
            pass

    refused: list[object] = []
    monkeypatch.setattr(peercred_service, "given_socket", Given)
    monkeypatch.setattr(
        peercred_service, "serve_requests",
        lambda _listener, refusals, *_, **__: refused.extend(refusals()(uid) for uid in (MINJI, 2**31)),
    )  # fmt: skip
    assert self_service.main(host.places, lambda: RULE) == 0
    assert refused == [None, "unknown"]
    monkeypatch.setattr(peercred_service, "given_socket", lambda: None)
    assert self_service.main(host.places, lambda: RULE) == 2


def test_the_kernel_says_which_process_asks(tmp_path: Path) -> None:
    here, there = peercred_service.socket.socketpair()
    with here, there:
        there.sendall(b"list\n")
        assert peercred_service.lines_with_process({1: here}) == {1: f"{os.getpid()} list"}


def test_a_rule_that_is_not_there_or_damaged(tmp_path: Path) -> None:
    assert gpu_here.read_rule(str(tmp_path / "none")) is None
    (tmp_path / "rule").write_text("{")
    assert gpu_here.read_rule(str(tmp_path / "rule")) is None
    (tmp_path / "rule").write_text('{"gpus": 2, "hours": 8, "new": 1}')
    assert gpu_here.read_rule(str(tmp_path / "rule")) == SelfService(2, 8)
