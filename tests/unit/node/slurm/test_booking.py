"""A node for one person from a time on, as the site allows it; nobody keeps others from the queue by it."""

import os
import pwd
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm import booking, extend_service, gpu

from gpuadmin.common.records.queue import Bookable, Policy
from tests.support.fake_slurm import NO_RESERVATIONS, reservation, row, slurm

HOUR, DAY = 3600, 86400
NOW = 1_900_000_000
ME = pwd.getpwuid(os.getuid()).pw_name
POLICY = Policy("free", {"people": 24}, {"people": Bookable(gpus=4, hours=8, days=7, standing=2)}, booked=50)
NODES = (("gpu1", "gpu:h100:4(S:0-1)"), ("gpu2", "gpu:4"), ("gpu3", "gpu:a100:2,gpu:h100:2"), ("gpu4", "gpu:8"))


class Controller:
    """slurmctld, which keeps the reservations that it is told to make."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place, self.monkeypatch = place, monkeypatch
        (place / "types").write_text("".join(f"{node:<64}\x1f{gres:<256}\x1f\n" for node, gres in NODES))
        self.reserved()
        self.jobs()
        self.answers("true")

    def reserved(self, *found: str) -> None:
        (self.place / "reserved").write_text("".join(found) or NO_RESERVATIONS)

    def jobs(self, *rows: str) -> None:
        (self.place / "jobs").write_text("".join(f"{one}\n" for one in rows))

    def answers(self, create: str, *, account: str = f"UserName={ME}(1) DefAccount=people DefWckey=") -> None:
        """What `scontrol create` does."""
        done = self.place / "done"
        done.write_text("")
        script = (
            f'case "$*" in ping) echo "at nas1 is UP";; "--oneliner show reservation") cat {self.place}/reserved;; '
            f'*assoc_mgr*) printf "%s\\n" "{account}";; create*) echo "$*" >> {done}; {create};; '
            f'*) echo "$*" >> {done};; esac'
        )  # fmt: skip
        slurm(
            self.place, self.monkeypatch, scontrol=script, sinfo=f"cat {self.place}/types",
            squeue=f"cat {self.place}/jobs", sbatch=f'echo "sbatch $*" >> {done}; echo 12',
        )  # fmt: skip

    def done(self) -> list[str]:
        return (self.place / "done").read_text().splitlines()


@pytest.fixture
def controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Controller:
    return Controller(tmp_path, monkeypatch)


def answer(request: str, policy: Policy = POLICY) -> tuple[int, str]:
    return extend_service.answered(os.getuid(), request, policy, NOW)


@pytest.mark.holds("nobody books a node that another group comes first on")
def test_a_node_of_another_group_is_not_booked(controller: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    owners = {"gpu1": "phd", "gpu3": "people"}
    monkeypatch.setattr(booking.partitions, "look_owned", lambda: booking.partitions.Owned(owners))
    assert answer(f"book 1 1 {NOW + DAY} gpu1") == (1, "book-many 4")
    assert answer(f"book 1 1 {NOW + DAY} gpu3")[0] == 0, "it is their own group's"


def test_a_node_is_booked_for_that_person_alone(controller: Controller) -> None:
    begin = NOW + DAY
    assert answer(f"book 2 8 {begin}") == (0, f"booked 1 gpu1 4 {begin} {begin + 8 * HOUR}")
    (made,) = controller.done()
    assert f"ReservationName=gpu-book-{ME}-1 Users={ME} Nodes=gpu1 StartTime=" in made
    assert made.endswith(f"EndTime=uts{begin + 8 * HOUR} Flags=PURGE_COMP=30:00")
    controller.reserved(reservation(f"gpu-book-{ME}-1", ME, "gpu1", begin))
    assert answer(f"book 2 1 {begin + 2 * HOUR} gpu3")[1].startswith("booked 2 gpu3 4 ")


@pytest.mark.holds(
    "no booking is longer than the site allows",
    "nobody books further ahead than the site allows",
    "nobody has more bookings than the site allows",
    "only a node that Slurm has named is booked",
    "nobody books a node with more GPUs than the site allows",
    "bookings leave others the part of the queue that the site says",
    "what is not a request of ours is not understood as one",
)
@pytest.mark.parametrize(
    ("request_", "there", "why"),
    [
        (f"book 1 9 {NOW + DAY}", [], "book-long 8"),
        (f"book 1 8 {NOW - 1}", [], "past"),
        (f"book 1 8 {NOW + 8 * DAY}", [], "ahead 7"),
        (f"book 8 8 {NOW + DAY}", [], "book-many 4"),
        (f"book 1 8 {NOW + DAY} gpu4", [], "book-many 4"),
        (f"book 1 8 {NOW + DAY} gpu9", [], "no-node gpu9"),
        (f"book 1 8 {NOW + DAY} gpu1,gpu2", [], "not-understood"),
        (f"book 1 8 {NOW + DAY} gpu1 Flags=IGNORE_JOBS", [], "not-understood"),
        ("book 1 8 tomorrow", [], "not-understood"),
        ("book 1 9999 1", [], "not-understood"),
        (
            f"book 1 8 {NOW + DAY}",
            [(f"gpu-book-{ME}-1", ME, "gpu1", NOW + 4 * DAY), (f"gpu-book-{ME}-7", ME, "gpu2", NOW + 5 * DAY)],
            "standing 2",
        ),
        (
            f"book 1 8 {NOW + DAY}",
            [("gpu-book-a-1", "a", "gpu1", NOW + DAY + HOUR), ("gpu-book-b-1", "b", "gpu[2-3]", NOW + DAY + HOUR)],
            "full 50",
        ),
    ],
)
def test_what_is_refused(controller: Controller, request_: str, there: list[str], why: str) -> None:
    controller.reserved(*(reservation(*one) for one in there))
    assert answer(request_) == (1, why)
    assert controller.done() == []


@pytest.mark.holds("nobody books where the site says nothing of it")
def test_where_the_site_says_nothing(controller: Controller) -> None:
    assert answer(f"book 1 1 {NOW + DAY}", Policy("free", {"people": 24})) == (1, "no-booking")
    controller.answers("true", account="")
    assert answer(f"book 1 1 {NOW + DAY}") == (1, "unknown")
    controller.answers("true", account=f"UserName=x{ME}(1) DefAccount=people DefWckey=")
    assert answer(f"book 1 1 {NOW + DAY}") == (1, "unknown")


def test_what_is_booked_at_other_times_keeps_nobody_from_it(controller: Controller) -> None:
    """Those of one after the other add up to no more than one of them; what an admin reserved is not a booking."""
    controller.reserved(
        reservation("gpu-book-a-1", "a", "gpu1", NOW + DAY - HOUR),
        reservation("gpu-book-b-1", "b", "gpu1", NOW + DAY),
        reservation("gpu-book-c-1", "c", "gpu1", NOW + DAY + HOUR),
        reservation("course", "d", "gpu4", NOW + DAY, 8),
        reservation("gpu-book-e-1", "e,f", "gpu4", NOW + DAY, 8),
    )
    assert answer(f"book 1 8 {NOW + DAY} gpu2")[0] == 0


def test_the_next_node_where_one_is_taken(controller: Controller) -> None:
    busy = "echo 'Error creating the reservation: Requested nodes are busy' >&2; exit 1"
    controller.answers(f'case "$*" in *Nodes=gpu3*) ;; *) {busy};; esac')
    assert answer(f"book 1 1 {NOW + DAY}")[1].startswith("booked 1 gpu3 4 ")
    controller.answers(busy)
    assert answer(f"book 1 1 {NOW + DAY}") == (1, "taken")
    controller.answers("echo 'Error creating the reservation: Duplicate reservation name' >&2; exit 1")
    assert answer(f"book 1 1 {NOW + DAY}") == (1, "taken"), "two nodes were asked at once"
    controller.answers("echo 'Error creating the reservation: Invalid user id' >&2; exit 1")
    assert answer(f"book 1 1 {NOW + DAY}") == (1, "failed")


@pytest.mark.holds("bookings that are made at once leave others as much")
def test_bookings_that_are_made_at_once(controller: Controller) -> None:
    at = NOW + DAY
    others = [reservation("gpu-book-a-1", "a", "gpu2", at), reservation("gpu-book-b-1", "b", "gpu3", at)]
    made = "".join([*others, reservation(f"gpu-book-{ME}-1", ME, "gpu1", at)])
    (controller.place / "after").write_text(made)
    controller.answers(f"cp {controller.place}/after {controller.place}/reserved")
    assert answer(f"book 1 1 {at}") == (1, "full 50")
    assert controller.done()[1:] == [f"delete ReservationName=gpu-book-{ME}-1"]


@pytest.mark.holds("a booking is given back by whoever has it alone")
def test_giving_a_booking_back(controller: Controller) -> None:
    controller.reserved(
        reservation("gpu-book-jiho-3", "jiho", "gpu1", NOW), reservation(f"gpu-book-{ME}-4", f"{ME},jiho", "gpu1", NOW),
        reservation(f"gpu-book-{ME}-2", ME, "gpu2", NOW),
    )  # fmt: skip
    assert answer("cancel 3") == (1, "not-booked 3")
    assert answer("cancel 4") == (1, "not-booked 4"), "it is not theirs alone"
    controller.jobs(row("4", ME, "RUNNING", end=NOW + HOUR, nodes="gpu2", booking=f"gpu-book-{ME}-2"))
    assert answer("cancel 2") == (1, "in-use 2")
    controller.jobs()
    assert answer("cancel 2") == (0, "unbooked 2")
    assert controller.done() == [f"delete ReservationName=gpu-book-{ME}-2"]


@pytest.mark.holds("a reservation that is not understood is not left out")
@pytest.mark.parametrize(
    "said",
    [
        "",
        "{}",
        "ReservationName=a StartTime=1 EndTime=2026-11-29T12:00:00 Nodes=gpu1 Users=(null)\n",
        f"{reservation('a', '', 'gpu1', 5)}and more\n",
    ],
)
def test_reservations_that_are_not_understood(controller: Controller, said: str) -> None:
    (controller.place / "reserved").write_text(said)
    with pytest.raises(NodeError, match="not understood"):
        booking.reservations()
    assert answer(f"book 1 1 {NOW + DAY}") == (1, "failed")


@pytest.mark.holds("a job gets no time beyond the booking that it runs in")
def test_more_time_ends_with_the_booking(controller: Controller) -> None:
    name = f"gpu-book-{ME}-1"
    controller.reserved(reservation(name, ME, "gpu1", NOW, 2))
    controller.jobs(row("4", ME, "RUNNING", start=NOW, end=NOW + HOUR, nodes="gpu1", booking=name))
    assert answer("extend 4 2") == (1, f"booked-until {NOW + 2 * HOUR}")
    assert answer("extend 4 1")[0] == 0


def test_get_uses_what_was_booked(controller: Controller, capsys: pytest.CaptureFixture[str]) -> None:
    now = int(time.time())
    mine = reservation(f"gpu-book-{ME}-1", ME, "gpu1", now - 60, 3)
    controller.reserved(mine, reservation("gpu-book-jiho-1", "jiho", "gpu2", now - 60, 3))

    def given(*arguments: str) -> str:
        assert gpu.main(["get", *arguments, "--no-wait"]) == 0
        return controller.done()[-1]

    for arguments, minutes in (((), "2:58"), (("2", "--hours", "1"), "1:00"), (("--hours", "9"), "2:58")):
        asked_for = given(*arguments)
        assert f"--reservation=gpu-book-{ME}-1 " in asked_for
        assert f"--time={minutes}:00" in asked_for
    assert "of what you have booked, until" in capsys.readouterr().out
    for arguments in (("5",), ("--node", "gpu2"), ("--type", "a100")):
        (controller.place / "types").write_text(
            "".join(f"{node:<64}\x1f{gres:<256}\x1f\n" for node, gres in (*NODES, ("gpu5", "gpu:a100:2")))
        )
        assert "--reservation" not in given(*arguments)
    controller.jobs(row("4", ME, "RUNNING", end=now, nodes="gpu1", tres="gres/gpu=3", booking=f"gpu-book-{ME}-1"))
    assert "--reservation" in given("1")
    assert "--reservation" not in given("2"), "the others are in use"
    controller.reserved(reservation(f"gpu-book-{ME}-1", ME, "gpu1", now + 60))
    assert "--reservation" not in given(), "it has not begun"
    controller.reserved(reservation(f"gpu-book-{ME}-1", ME, "gpu1", now - HOUR + 60))
    assert "--reservation" not in given(), "it is as good as over"


def test_what_people_read(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sent: list[str] = []
    answers = iter([(0, ["booked", "1", "gpu1", "4", str(NOW), str(NOW + HOUR)]), (1, ["standing", "2"]), None])

    def ask(request: str) -> Any:
        sent.append(request)
        return next(answers)

    monkeypatch.setattr(gpu.gpu_book, "ask", ask)
    assert gpu.main(["book", "2", "--at", "2030-03-18 02:40", "--hours", "8", "--node", "gpu1"]) == 0
    at = int(time.mktime((2030, 3, 18, 2, 40, 0, 0, 0, -1)))
    assert sent == [f"book 2 8 {at} gpu1"]
    assert "Booking 1: gpu1 with its GPUs (4) is yours from 2030-03-1" in capsys.readouterr().out
    assert gpu.main(["book", "--at=23:59", "--language=ko"]) == 1
    assert "예약은 한 번에 2개까지입니다" in capsys.readouterr().err
    assert gpu.main(["book", "--cancel", "2"]) == 1
    assert sent[2] == "cancel 2"
    assert "The node does not answer" in capsys.readouterr().err
    assert gpu.main(["book", "--at", "nine"]) == 2
    assert "'nine' is not a time" in capsys.readouterr().err
    controller.reserved(
        reservation(f"gpu-book-{ME}-1", ME, "gpu1", NOW), reservation("course", "", "gpu[2-3]", NOW),
        reservation("gpu-book-jiho-1", "jiho", "gpu4", NOW),
    )  # fmt: skip
    for words, lines in ((["book"], 1), (["why"], 1), (["list"], 3)):
        assert gpu.main(words) == 0
        out = capsys.readouterr().out
        assert out.count("Booked: ") == lines
        assert "Booked: You (booking 1): gpu1 from 2030-03-1" in out
    assert "Booked: course: gpu2, gpu3 from" in out
    assert "Booked: jiho: gpu4 from" in out


@pytest.mark.holds("who does not use a booking cannot have the next one at once")
def test_who_never_uses_a_booking_keeps_a_node_from_nobody_for_long(controller: Controller) -> None:
    """Slurm ends each after half an hour, and their person asks for the next one every minute, for two days."""
    policy = Policy("free", {"people": 24}, {"people": Bookable(gpus=8, hours=8, days=7, standing=1, lead=12)}, 50)
    made: list[int] = []
    kept = 0
    for now in range(NOW, NOW + 2 * DAY, 900):
        there = [one for one in made if now < one + booking.UNUSED * 60]
        controller.reserved(*(reservation(f"gpu-book-{ME}-1", ME, "gpu4", one, 8) for one in there))
        kept += any(one <= now for one in there)
        for begin in (now, now + 12 * HOUR - 1, now + 12 * HOUR):
            status, said = extend_service.answered(os.getuid(), f"book 8 8 {begin} gpu4", policy, now)
            if status == 0:
                made.append(begin)
                break
            assert there or said == "soon 12"
    assert len(made) >= 2
    assert kept * 900 <= 2 * DAY * 0.05
