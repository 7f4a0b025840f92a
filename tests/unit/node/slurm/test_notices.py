"""What people are told of their jobs: once each, in whole, whatever dies meanwhile and whatever a job is called."""

import http.server
import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm import (
    job_turns,
    mail_choice,
    notices,
    owned,
    partitions,
    queue,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm.gpu_jobs import build_use_command

from gpuadmin.common.waiting import LOST
from tests.support.mail_server import Server, StartServer, certificate, serve
from tests.support.queue_host import NOW, Host, host, job, over

__all__ = ["certificate", "host", "serve"]


def subjects(server: Server) -> list[str]:
    return [str(one["Subject"]).removeprefix("[GPU cluster] ") for one in server.messages]


def text(server: Server, which: int = -1) -> str:
    return server.messages[which].get_content()


def test_a_day_of_a_job(host: Host, serve: StartServer) -> None:
    server = serve()
    host.port = server.port
    host.look()
    host.jobs = [job(start=NOW + 61, end=NOW + 61 + 7200, asked=NOW)]
    for _ in range(3):
        host.look()
    assert subjects(server) == ["Your GPUs are ready: job 4 “train.sh”, on gpu1"]
    assert "your GPUs are ready until" in text(server)
    assert "ssh gpu1" in text(server)
    host.look(3600)
    assert subjects(server)[1:] == ["Less than an hour left: job 4 “train.sh”, on gpu1"]
    host.jobs = []
    host.rows = [over("4", end=NOW + 61 + 7200, Start=str(NOW + 61))]
    host.look(3600)
    host.look()
    assert subjects(server)[2:] == ["Ended: job 4 “train.sh”: its time was over"]
    assert "(GPUs: 2, on gpu1,gpu2). How well it used them was not measured." in text(server)
    assert server.recipients == ["minji@example.org"] * 3


WHYS = {
    "COMPLETED": "it is done", "DEADLINE": "its time was over", "OUT_OF_MEMORY": "it took more memory",
    "FAILED": "its program failed", "NODE_FAIL": "its node failed", "CANCELLED by 0": "an admin ended it",
    "SOMETHING_NEW": "its program failed",
}  # fmt: skip


@pytest.mark.parametrize(("state", "words"), WHYS.items())
def test_why_it_ended(state: str, words: str) -> None:
    (turn,) = job_turns.ended([over(state=state)])
    assert words in notices.turns.line(turn, "en")


def test_why_of_what_nobody_used_and_of_what_its_person_ended(host: Host, serve: StartServer) -> None:
    server = serve()
    host.port = server.port
    host.look()
    host.rows = [over("3", "CANCELLED by 0", NOW + 90, AdminComment='{"id": "", "ended": "idle"}'),
                 over("5", "CANCELLED by 20000", NOW + 90), over("6", "CANCELLED", NOW + 91)]  # fmt: skip
    host.look()
    assert subjects(server) == ["Ended: job 3 “train.sh”: its GPUs were not used"], "who ended it knows"
    recent = json.loads((host.directory / "noticed.json").read_text())["recent"]
    assert [(one[3], one[4]) for one in recent] == [("3", "idle"), ("5", "own"), ("6", "own")]


@pytest.mark.holds("what was before somebody could be told is told nobody")
def test_the_first_look_tells_nobody_about_the_past(host: Host, serve: StartServer) -> None:
    server = serve()
    host.port = server.port
    host.jobs, host.rows = [job(), job("6", start=NOW - 8000, asked=NOW - 9999, end=NOW + 1800)], [over()]
    host.closed = {"gpu1": f"{LOST} 0"}
    for _ in range(3):
        host.look()
    # the same where a site has begun to send mails, or a webhook, afterwards
    assert server.mails == []


@pytest.mark.holds("what was before somebody could be told is told nobody")
def test_a_site_that_begins_to_send_mails_later_tells_nobody_about_the_past(host: Host, serve: StartServer) -> None:
    server = serve()
    host.settings = {"kinds": [], "server": None, "head": None}
    host.look()
    host.jobs, host.rows = [job(start=NOW + 70)], [over(end=NOW + 100)]
    host.look()
    host.settings, host.port = {}, server.port
    host.look()
    host.look()
    assert server.mails == []


@pytest.mark.holds("who was told is not told again")
def test_killed_between_sending_and_noting(host: Host, serve: StartServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve()
    host.port = server.port
    host.look()
    host.jobs = [job(start=NOW + 70)]
    with monkeypatch.context() as patch:

        def die(*_: object) -> None:
            raise KeyboardInterrupt

        patch.setattr(notices.Ledger, "finish", die)
        with pytest.raises(KeyboardInterrupt):
            host.look()
    assert len(server.mails) == 1
    for _ in range(3):
        host.look()
    assert len(server.mails) == 1
    (host.directory / "noticed.json").unlink()  # what it knew is lost, as after a boot from an old copy
    host.look()
    assert len(server.mails) == 1


@pytest.mark.holds("an array is told once", "an array is told of when all of it has ended")
def test_an_array_of_a_thousand_is_one_mail(host: Host, serve: StartServer) -> None:
    server = serve()
    host.port = server.port
    host.look()
    host.jobs = [job(f"7_{task}", start=NOW + 70 + task, asked=NOW - 900) for task in range(4)]
    host.look()
    host.look()
    assert subjects(server) == ["Your GPUs are ready: job 7 “train.sh”, on gpu1"]
    ended = [over(f"7_{task}", "COMPLETED", NOW + 200 + task % 60, Submit=str(NOW - 900)) for task in range(998)]
    host.rows = [*ended, *(over(f"7_{task}", "OUT_OF_MEMORY", NOW + 250, Submit=str(NOW - 900)) for task in (998, 999))]
    host.look(120)
    assert len(server.mails) == 1, "some of it still runs"
    host.jobs = []
    host.look(600)
    host.look()
    assert len(server.mails) == 2
    assert "998 × it is done, 2 × it took more memory" in text(server)
    assert "(1000 tasks)" in text(server)


@pytest.mark.holds("ends that nobody could be told are looked at again")
def test_a_mail_server_that_is_down_loses_nothing_and_floods_nobody(
    host: Host, serve: StartServer, capsys: pytest.CaptureFixture[str]
) -> None:
    host.look()
    host.jobs = [job(str(one), start=NOW + 70 + one) for one in range(10, 30)]
    host.look(120)
    assert "refused" in capsys.readouterr().err
    host.jobs, host.rows = [], [over(str(one), end=NOW + 600, Start=str(NOW + 70 + one)) for one in range(10, 30)]
    for _ in range(8):
        host.look(3600)
    assert not (host.directory / "mails.jsonl").exists(), "what was not handed over is not in the ledger"
    server = serve()
    host.port = server.port
    host.look(600)
    host.look(600)
    (told,) = subjects(server)
    assert told == "Ended: job 10 “train.sh”: its time was over and 19 more"
    assert "your GPUs are ready" not in text(server)
    starts = [one for one in host.asked[-1] if one.startswith("--starttime=")]
    assert starts > [one for one in host.asked[0] if one.startswith("--starttime=")], "what is told is not looked at"


@pytest.mark.holds("one mailbox that takes nothing now is tried again later")
def test_one_mailbox_that_is_full_keeps_no_mail_of_others_waiting(host: Host, serve: StartServer) -> None:
    server = serve(answers={"minji@example.org": "452 mailbox full"})
    host.port = server.port
    host.look()
    host.rows = [over("3", end=NOW + 90)]
    host.look()
    host.rows.append(over("5", end=NOW + 150, User="jiho"))
    for _ in range(3):
        host.look()
    assert server.recipients == ["jiho@example.org"]
    tried = (host.directory / "mails.jsonl").read_text().count('"intent"')
    assert tried == 2, "who has a full mailbox is tried again some minutes later"


@pytest.mark.holds("an address that no mail can have keeps nobody else's mail back")
def test_an_address_that_no_mail_can_have_keeps_no_mail_of_others_back(host: Host, serve: StartServer) -> None:
    (host.directory / "people.json").write_text('{"minji": "=?utf-8?q?a?=@x.kr", "jiho": "jiho@example.org"}')
    server = serve()
    host.port = server.port
    host.look()
    host.rows = [over("3", end=NOW + 90), over("5", end=NOW + 90, User="jiho")]
    for _ in range(3):
        host.look()
    assert server.recipients == ["jiho@example.org"]


@pytest.mark.holds("who could not be told in time reads of the end alone")
def test_what_is_over_is_told_as_its_end_alone() -> None:
    begun, ends = job_turns.running([job(), job("5", start=NOW - 9000, asked=NOW - 9000, end=NOW + 60)], NOW)
    (over_of,) = job_turns.ended([over("4")])
    assert notices.most_urgent_first([over_of, ends, begun]) == [ends, over_of]
    assert notices.most_urgent_first([ends, begun]) == [begun, ends]


def test_many_short_jobs_are_a_mail_now_and_then(host: Host, serve: StartServer) -> None:
    server = serve()
    host.port = server.port
    host.now = time.time()  # the ledger has the clock of the machine
    host.look()
    for number in range(8):
        host.rows.append(over(str(number + 1), end=int(host.now) + 1))
        host.look(30)
    assert len(server.mails) == 1
    host.look(700)
    assert len(server.mails) == 2
    assert "and 6 more" in subjects(server)[1]


@pytest.mark.holds("who has other GPUs of the node is not told that theirs is lost")
def test_a_lost_gpu_is_told_to_whoever_has_it(host: Host, serve: StartServer) -> None:
    server = serve()
    host.port = server.port
    host.jobs = [job("4"), job("5", "jiho")]
    host.look()
    host.closed = {"gpu1": f"{LOST} 0"}
    of = {"4": "0", "5": "1"}
    answer = host.answer

    def detail(command: Sequence[str]) -> str:
        if command[0] == "sacct" or command[-1] == "partition":
            return answer(command)
        node = {"name": "gpu1", "memory": {"allocated": 1}, "cpus": {"count": 1}}
        resources = {"nodes": {"allocation": [node]}}
        found = {"job_resources": resources, "gres_detail": [f"gpu:h100:1(IDX:{of[command[-1]]})"]}
        return json.dumps({"jobs": [found]})

    queue.ask = detail  # type: ignore[assignment]  # the fixture puts it back
    host.look()
    host.look()
    assert server.recipients == ["minji@example.org"]
    assert "GPU 0 of gpu1 does not answer" in text(server)


def test_who_has_to_leave_a_group_s_node(host: Host, serve: StartServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve()
    host.port = server.port
    host.look()
    host.jobs = [job(), job("5", "jiho")]
    found = partitions.Owned({"gpu1": "phd"}, ["gpu1"], 300, True)
    until = {"4": NOW + 400, "5": 0}
    monkeypatch.setattr(owned, "look_guests", lambda jobs: [(one, until[one["id"]], found) for one in jobs])
    for _ in range(3):
        host.look()
    assert server.recipients == ["minji@example.org"]
    assert "preempted: phd comes first on gpu1 and needs it now. Your GPUs go back at" in text(server)
    host.jobs, host.rows = [], [over("4", "PREEMPTED", end=NOW + 400)]
    host.look(600)
    assert subjects(server)[1:] == [
        "Ended: job 4 “train.sh”: preempted: a group that comes first on its node needed it"
    ]


@pytest.mark.holds("who has turned mails off gets none")
def test_who_has_turned_mails_off(host: Host, serve: StartServer) -> None:
    server = serve()
    host.port, host.choices = server.port, {"minji": ("off", NOW), "jiho": ("ko", NOW)}
    host.look()
    host.jobs = [job(start=NOW + 70), job("5", "jiho", start=NOW + 70), job("6", "yuna", start=NOW + 70)]
    host.look()
    assert server.recipients == ["jiho@example.org"]
    assert subjects(server) == ["GPU를 받았습니다: 작업 5 “train.sh”, gpu1"]
    host.choices = {"minji": ("on", int(host.now))}
    host.look()
    assert server.recipients == ["jiho@example.org"], "what was before they turned them on is told nobody"


HOSTILE = ["x\nBcc: all@example.org", "=?utf-8?q?=0ABcc:_x?=", "{{ 7 * 7 }}", "\x1b[31m\u202e", "a" * 900, "\n.\n"]


@pytest.mark.parametrize("name", HOSTILE, ids=repr)
def test_no_name_of_a_job_breaks_a_mail(name: str, host: Host, serve: StartServer) -> None:
    server = serve()
    host.port = server.port
    host.look()
    host.jobs, host.rows = [job(start=NOW + 70, name=name)], [over("5", end=NOW + 90, JobName=name)]
    host.look()
    (message,) = server.messages
    assert set(message.keys()) == {"From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "Content-Type",
                                   "Content-Transfer-Encoding", "MIME-Version"}  # fmt: skip
    assert message["To"] == "minji@example.org"
    lines = [one for one in message.get_content().splitlines() if one.startswith("- ")]
    assert len(lines) == 2, "each in a line of its own"
    assert "\x1b" not in message.get_content()


@pytest.mark.holds("nobody writes a job that is not there into the accounting")
def test_a_name_is_no_row_of_sacct_s(host: Host) -> None:
    forged = "\x1f".join([*over("9", "NODE_FAIL").values(), ""])
    host.rows = [over("3", JobName=f"x\x1f\n{forged}")]
    assert [row["JobID"] for row in job_turns.ask_ended()] == ["3"]


class Chat:
    """Where a webhook leads: it answers with `status`, and keeps what it got."""

    def __init__(self) -> None:
        self.status, self.notes = 200, list[dict[str, Any]]()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                note = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if outer.status == 200:
                    outer.notes.append(note)
                self.send_response(outer.status)
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def chat() -> Iterator[Chat]:
    found = Chat()
    yield found
    found.server.shutdown()
    found.server.server_close()


@pytest.mark.holds("nothing in a note is a link or calls somebody")
def test_a_webhook_is_told_once(host: Host, chat: Chat, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"http://127.0.0.1:{chat.server.server_port}/secret"
    host.settings = {"server": None, "head": None, "webhook": url}
    host.look()
    # of somebody without an address, too; what a person has called a job is not for everybody
    host.jobs = [job(start=NOW + 70, name="<!channel> @all"), job("5", "yuna", start=NOW + 70, nodes="<gpu1>@all")]
    chat.status = 503
    host.look()
    chat.status = 200
    host.look()
    host.look(400)
    host.look(400)
    (note,) = chat.notes
    assert set(note) == {"text"}
    first, second = note["text"].splitlines()
    assert first.startswith("minji: Job 4: your GPUs are ready until")
    assert "&lt;gpu1&gt;@\u200ball" in second
    chat.status = 404
    host.rows = [over("5", end=int(host.now) + 1)]
    host.look()
    said = capsys.readouterr().err
    assert "webhook: webhook: refused: it answers 404" in said
    assert "secret" not in said


def test_how_well_it_was_used(host: Host, serve: StartServer) -> None:
    """As its node has told the accounting; of an array the mean."""
    server = serve()
    host.port = server.port
    host.look()
    use = [build_use_command("3", ratio, 4e10, 8e10)[-1].removeprefix("SystemComment=") for ratio in (0.5, 0.9)]
    host.rows = [over(f"3_{task}", end=NOW + 90, SystemComment=one) for task, one in enumerate([*use, ""])]
    host.rows.append(over("4", end=NOW + 90, SystemComment="gpuadmin x"))
    host.look()
    assert "Its GPUs were in use 70 % of the time on average, with 40.0 GB of 80.0 GB of memory at most." in text(
        server
    )
    assert text(server).count("was not measured") == 1


@pytest.mark.holds("what may be told again is not forgotten")
def test_a_ledger_that_has_grown_forgets_what_is_long_over(
    host: Host, serve: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve()
    host.port = server.port
    host.look()
    host.jobs = [job(start=NOW + 70)]
    host.look()
    path = host.directory / "mails.jsonl"
    old = path.read_text().replace('"time": "20', '"time": "10').replace("begun 4", "begun 1")
    path.write_text(old + path.read_text())
    monkeypatch.setattr(notices, "LARGEST", 100)
    host.now = time.time() + 60
    host.look()
    assert "begun 1" not in path.read_text()
    assert "begun 4" in path.read_text()
    assert len(server.mails) == 1


@pytest.mark.holds("what may be told again is not forgotten")
def test_who_has_many_short_jobs_makes_no_ledger_large(
    host: Host, serve: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve()
    host.port = server.port
    host.now = time.time()
    begin = int(host.now) - 3 * 86400
    at = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(begin + 60))
    keys = [f"mail {one}" for one in ("ended 1 9", "begun 2 9", f"begun 4 {begin}", "begun 5 4", "ended 6 7")]
    lines = [json.dumps({"time": at, "state": "sent", "id": "1", "keys": [one], "names": ["minji"],
                         "address": "minji@example.org", "detail": ""}) for one in keys]  # fmt: skip
    (host.directory / "mails.jsonl").write_text("".join(f"{one}\n" for one in lines))
    seen = {"since": {"mail": begin - 1}, "ended": host.now - 600}
    (host.directory / "noticed.json").write_text(json.dumps(seen))
    host.jobs = [job(start=begin, asked=begin - 90, end=begin + 10 * 86400),
                 job("5_[7]", waits=True, start=None, asked=4)]  # fmt: skip
    monkeypatch.setattr(notices, "LARGEST", 100)
    host.look()
    kept = (host.directory / "mails.jsonl").read_text().splitlines()
    assert [json.loads(one)["keys"][0] for one in kept] == keys[2:4]
    assert server.mails == []


def test_a_damaged_ledger_mails_nobody_and_slurm_that_is_away_waits(
    host: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    host.look()
    (host.directory / "mails.jsonl").write_text("{\n{}\n")
    with pytest.raises(NodeError, match="is damaged"):
        host.look()

    def away() -> None:
        raise queue.AwayError("slurmctld does not answer")

    monkeypatch.setattr(queue, "alive", away)
    host.look()
    assert "nobody is told anything now" in capsys.readouterr().err


def test_addresses_of_people(tmp_path: Path) -> None:
    notices.keep_people(["minji", "jiho"], {"minji": "m@example.org", "jiho": "j@example.org"}, str(tmp_path))
    notices.keep_people(["minji", "yuna"], {"yuna": "y@example.org"}, str(tmp_path))
    assert json.loads((tmp_path / "people.json").read_text()) == {"jiho": "j@example.org", "yuna": "y@example.org"}
    assert (tmp_path / "people.json").stat().st_mode & 0o777 == 0o600


NODES = "NodeName=gpu1 Arch=x86_64 State=IDLE {} MCS_label=N/A\nNodeName=gpu2 Arch=x86_64 State=IDLE\n"


@pytest.mark.holds("what an admin has noted of a node stays")
def test_what_somebody_chooses_is_kept_by_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    there, done = NODES.format("Extra=gpuadmin-mail:jiho=ko@17,minji=off@18"), list[Sequence[str]]()

    def answer(command: Sequence[str]) -> str:
        done.append(command)
        return there

    monkeypatch.setattr(queue, "alive", lambda: None)
    monkeypatch.setattr(queue, "ask", answer)
    assert mail_choice.read() == {"jiho": ("ko", 17), "minji": ("off", 18)}
    monkeypatch.setattr(socket, "gethostname", lambda: "gpu2")
    assert mail_choice.choose("minji", "on") == "mail-on"
    assert done[-1][:3] == ("scontrol", "update", "NodeName=gpu2")
    assert done[-1][3].startswith("Extra=gpuadmin-mail:minji=on@")
    with monkeypatch.context() as patch:
        patch.setattr(mail_choice, "MOST", 1)
        monkeypatch.setattr(socket, "gethostname", lambda: "gpu1")
        mail_choice.choose("jiho", "off")
    assert "minji" not in done[-1][3], "who chose first is forgotten first"
    assert "jiho=off@" in done[-1][3]
    done.pop(), done.pop()
    there += done[-1][3] and f"NodeName=gpu3 {done[-1][3]}\n"
    assert mail_choice.read()["minji"][0] == "on", "the last counts, wherever it was"
    monkeypatch.setattr(socket, "gethostname", lambda: "gpu1")
    for noted in ("Extra=rack=4", "Extra=x"):
        there = NODES.format(noted)
        with pytest.raises(NodeError, match="no choices of mails"):
            mail_choice.choose("minji", "off")
