"""More time for a job: one's own, within the site's policy; a service decides that knows from the kernel who asks."""

import json
import os
import pwd
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import peercred_service
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.desired import DesiredState, Settings, save
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm import extend_service, gpu
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm.policy import read_policy

from gpuadmin.common.records.queue import Bookable, Policy
from tests.support.fake_slurm import NO_RESERVATIONS, reservation, row, slurm

HOUR = 3600
START = 1_900_000_000
ME = pwd.getpwuid(os.getuid()).pw_name
POLICY = Policy("free", {"people": 4})
NONE = f"echo '{NO_RESERVATIONS}'"


def reserved(users: str, nodes: str, until: int = START + 18000) -> str:
    at = {"number": START + 9000}
    at = START + 9000
    return f"echo '{reservation('x', users, nodes, at).replace(f'EndTime={at + 3600}', f'EndTime={until}')}'"


@pytest.fixture
def short_tmp() -> Iterator[Path]:
    """The address of a socket has 107 bytes at most."""
    with tempfile.TemporaryDirectory(dir="/tmp") as path:
        yield Path(path)


@contextmanager
def cluster(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *waiting: str,
    reserved: str = NONE,
    user: str = ME,
    qos: str = "people",
) -> Iterator[Path]:
    """A job that began an hour ago and ends in one; who waits; what is booked. scontrol's changes are written down."""
    rows = [
        row("4", user, "RUNNING", start=START, end=START + 2 * HOUR, nodes="gpu1", name="x UserId=root(0)", qos=qos),
        *waiting,
    ]
    (tmp_path / "said").write_text("\n".join(rows))
    done = tmp_path / "done"
    done.write_text("")
    script = (
        f'case "$*" in ping) echo "at nas1 is UP";; *reservation) {reserved};; '
        f'*) echo "$*" >> {done};; esac'
    )  # fmt: skip
    noted = f'case "$*" in *admin_comment*) cat {tmp_path}/noted;; *) cat {tmp_path}/said;; esac'
    slurm(tmp_path, monkeypatch, scontrol=script, squeue=noted)
    yield done


def answer(request: str, policy: extend_service.Policy = POLICY) -> tuple[int, str]:
    return extend_service.answered(os.getuid(), request, policy, START + HOUR)


def test_more_time_up_to_the_longest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with cluster(tmp_path, monkeypatch) as done:
        assert answer("extend 4 2") == (0, f"extended 4 {START + 4 * HOUR}")
        assert done.read_text() == "update JobId=4 TimeLimit=240\n"


@pytest.mark.holds(
    "no job gets longer than its group's longest",
    "nobody gets more time where the site says never",
    "nobody keeps a GPU longer that others wait for",
    "nobody keeps a GPU into somebody else's reservation",
    "more time is given for a job of one's own alone",
    "what is not a request of ours is not understood as one",
)
@pytest.mark.parametrize(
    ("request_", "policy", "waits", "reserved", "user", "why"),
    [
        ("extend 4 3", POLICY, "", NONE, ME, f"too-long 4 {START + 4 * HOUR}"),
        ("extend 4 1", Policy("never", {"people": 4}), "", NONE, ME, "never"),
        ("extend 4 1", Policy("always", {"phd": 4}), "", NONE, ME, "unknown"),
        ("extend 4 1", POLICY, "jiho Priority", NONE, ME, "others 1"),
        ("extend 4 1", POLICY, "", reserved("jiho", "gpu[1-2]"), ME, f"taken-from {START + 9000}"),
        ("extend 4 1", POLICY, "", NONE, "jiho", "not-running 4"),
        ("extend 5 1", POLICY, f"{ME} Priority", NONE, ME, "not-running 5"),
        ("extend 4 1 TimeLimit=9999", POLICY, "", NONE, ME, "not-understood"),
        ("extend 4 0", POLICY, "", NONE, ME, "not-understood"),
        ("extend 4,5 1", POLICY, "", NONE, ME, "not-understood"),
        ("extend 4 9999", POLICY, "", NONE, ME, "not-understood"),
        ("", POLICY, "", NONE, ME, "not-understood"),
    ],
)  # fmt: skip
def test_what_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request_: str, policy: extend_service.Policy,
    waits: str, reserved: str,
    user: str, why: str,
) -> None:  # fmt: skip
    waiting = [row("5", waits.split(maxsplit=1)[0], "PENDING", reason=waits.split()[1])] if waits else []
    with cluster(tmp_path, monkeypatch, *waiting, reserved=reserved, user=user) as done:
        assert answer(request_, policy) == (1, why)
        assert done.read_text() == ""


@pytest.mark.holds("an exception gets more time from an admin alone")
def test_an_exception_is_an_admin_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may be shorter than what its person may have: an admin has said until when."""
    monkeypatch.setattr(gpu, "ask", lambda request: (answer(request)[0], answer(request)[1].split(" ")))
    with cluster(tmp_path, monkeypatch, qos="exception") as done:
        (tmp_path / "noted").write_text(f"{'4':<32}\x1f{json.dumps({'who': 'root @ctl'}):<4096}\x1f\n")
        assert answer("extend 4 1") == (1, f"exception 4 {START + 2 * HOUR} root@ctl")
        assert gpu.main(["extend"]) == 1
        said = capsys.readouterr().err
        assert "Job 4 is an exception: an admin (root@ctl) gave it to you until 2030-03-1" in said
        assert "Only an admin can extend it" in said
        (tmp_path / "noted").unlink()
        assert answer("extend 4 1") == (1, f"exception 4 {START + 2 * HOUR} ?")
        assert done.read_text() == ""


@pytest.mark.parametrize("waits", [f"{ME} Priority", "jiho QOSMaxGRESPerUser", "jiho JobHeldUser"])
def test_who_waits_for_no_gpu_of_others_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits: str
) -> None:
    name, reason = waits.split()
    mine = reserved(ME, "gpu1")
    with cluster(tmp_path, monkeypatch, row("5", name, "PENDING", reason=reason), reserved=mine):
        assert answer("extend 4 1")[0] == 0
    with cluster(tmp_path, monkeypatch, row("5", "jiho", "PENDING", reason="Priority")):
        assert answer("extend 4 1", Policy("always", {"people": 4}))[0] == 0
    with cluster(
        tmp_path, monkeypatch, reserved=reserved("jiho", "gpu1").replace(str(START + 9000), str(START + 3 * HOUR))
    ):
        assert answer("extend 4 1")[0] == 0, "it is over when that begins"
    with cluster(tmp_path, monkeypatch, reserved=reserved("jiho", "gpu2")):
        assert answer("extend 4 1")[0] == 0, "that is of another node"
    with cluster(tmp_path, monkeypatch, reserved=reserved(ME, "gpu1", START + 9060)):
        assert answer("extend 4 1")[0] == 0, "their job does not run in what they have booked"
    with cluster(tmp_path, monkeypatch, row("5", "jiho", "PENDING", reason="Priority", tres="cpu=1,mem=1G")):
        assert answer("extend 4 1")[0] == 0, "they want no GPU"


@pytest.mark.parametrize("request_", ["extend 4 1", f"book 1 1 {START}", "cancel 1"])
def test_who_has_no_account_here_is_nobody(request_: str) -> None:
    assert extend_service.answered(2**31 - 2, request_, POLICY, START) == (1, "unknown")


def test_a_controller_that_is_away_or_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm(tmp_path, monkeypatch, scontrol="echo down")
    assert answer("extend 4 1") == (1, "away")
    with cluster(tmp_path, monkeypatch, reserved="echo 'slurm_load: error: no' >&2; exit 1"):
        assert answer("extend 4 1") == (1, "failed")
        assert "extend 4 1: no" in capsys.readouterr().err


def test_a_policy_that_nobody_wrote() -> None:
    assert read_policy(b'{"extend": "free", "hours": {"people": 24}}') == Policy("free", {"people": 24})
    later = b'{"extend": "free", "hours": {"people": 24}, "later": 1}'  # the root went back to an older one
    assert read_policy(later) == Policy("free", {"people": 24})
    one = b'{"gpus": 1, "hours": 2, "days": 3, "standing": 4}'
    book = b'{"extend": "free", "hours": {}, "booked": 50, "book": {"a": %s}}' % one
    assert read_policy(book) == Policy("free", {}, {"a": Bookable(1, 2, 3, 4)}, 50)
    for text in (None, b"{}", b"[]", b"5", b'{"extend": "free", "hours": 3}', book.replace(b"standing", b"stand")):
        with pytest.raises(NodeError, match="is not what gpuadmin provision writes"):
            read_policy(text)


def test_only_systemd_starts_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert extend_service.main() == 2
    assert "people run gpu extend and gpu book" in capsys.readouterr().err


@pytest.mark.holds("who sends nothing holds nobody else up")
def test_who_sends_nothing_holds_nobody_else_up() -> None:
    """A line of each: whole, in two parts, without an end, too long, of several lines, none at all."""
    pairs = {uid: socket.socketpair() for uid in range(6)}
    texts = (b"extend 4 1\n", b"extend ", b"extend 4 1", b"x" * 500 + b"\n", b"a\nb\n", b"")
    for (_ours, theirs), text in zip(pairs.values(), texts, strict=True):
        theirs.sendall(text)
    pairs[1][1].sendall(b"4 2\n")
    result: dict[int, str] = {}
    looking = threading.Thread(
        target=lambda: result.update(peercred_service.lines({uid: one[0] for uid, one in pairs.items()}, 0.3)),
        daemon=True,
    )
    looking.start()
    looking.join(5)
    assert not looking.is_alive()
    assert (result[0], result[1]) == ("extend 4 1", "extend 4 2")
    assert [result[uid] for uid in range(2, 6)] == ["", "", "", ""]
    for one in pairs.values():
        one[0].close()
        one[1].close()


@pytest.mark.holds("nobody keeps others from the queue by subordinate ids")
def test_who_comes_with_many_ids_is_refused_before_their_turn(
    tmp_path: Path, short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has subordinate ids can connect as each of them; held until their turn they take all descriptors."""
    save(str(tmp_path), DesiredState(Settings(uid_first=20000, uid_last=29999)))
    monkeypatch.setattr(peercred_service.signal, "signal", lambda *_: None)
    monkeypatch.setattr(peercred_service, "IDLE", 0.5)
    several = iter([2**31 + 1, 0, 2**31 + 2, 29999, 30000])
    monkeypatch.setattr(peercred_service, "peer_uid", lambda _connection: next(several))
    served: list[int] = []
    monkeypatch.setattr(extend_service, "answered", lambda uid, *_: (served.append(uid), (0, "done"))[1])
    (tmp_path / "policy").write_text('{"extend": "free", "hours": {}}')
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(short_tmp / "s"))
        listener.listen()
        channels = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(5)]
        for channel in channels:
            channel.connect(str(short_tmp / "s"))
            channel.sendall(b"extend 4 1\n")
        monkeypatch.setattr(peercred_service, "given_socket", lambda: listener)
        assert extend_service.main(str(tmp_path / "policy"), state=str(tmp_path)) == 0
        said = [channel.recv(99).decode() for channel in channels]
    assert served == [0, 29999]
    assert said == ["1 unknown\n", "0 done\n", "1 unknown\n", "0 done\n", "1 unknown\n"]


@pytest.mark.holds("it is not guessed which job somebody means")
def test_what_a_person_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], short_tmp: Path
) -> None:
    """Through the socket, as whoever runs it; in their language."""
    path = str(short_tmp / "s")
    (tmp_path / "policy").write_text(json.dumps({"extend": "free", "hours": {"people": 4}}))
    monkeypatch.setattr(gpu, "ask", lambda request: extend_service.ask(request, 10, path))
    monkeypatch.setattr(peercred_service, "IDLE", 1.0)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen()
    monkeypatch.setattr(peercred_service, "given_socket", lambda: listener)
    monkeypatch.setattr(peercred_service.signal, "signal", lambda *_: None)
    followed: list[bool] = []

    def follow() -> None:
        followed.append(True)
        raise NodeError("no room")

    with cluster(tmp_path, monkeypatch):
        serving = threading.Thread(
            target=lambda: extend_service.main(str(tmp_path / "policy"), lambda: START + HOUR, follow=follow),
            daemon=True,
        )
        serving.start()
        assert gpu.main(["extend", "--hours", "2"]) == 0
        said = capsys.readouterr()
        assert "Job 4: yours until 2030-03-1" in said.out
        assert (followed, "extend 4 2: no room" in said.err) == ([True], True), "before the person reads of it"
        assert gpu.main(["extend", "4", "--hours", "3", "--language", "ko"]) == 1
        assert "작업 하나는 최대 4시간입니다. 2030-03-1" in capsys.readouterr().err
        serving.join(20)
    assert gpu.main(["extend"]) == 1
    assert "The node does not answer" in capsys.readouterr().err
    more = row("7", ME, "RUNNING", start=START, end=START + HOUR, nodes="gpu2")
    with cluster(tmp_path, monkeypatch, more):
        assert gpu.main(["extend"]) == 2
        assert "You have several: name one of 4 7." in capsys.readouterr().err
