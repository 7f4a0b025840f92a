"""People read in a mail what becomes of their jobs: the turn, the end, and nothing twice."""

import json
import time
from collections.abc import Iterator

import pytest

from tests.support.gated_cluster import NODE
from tests.support.lab_cluster import Cluster
from tests.support.mail_sink import Sink
from tests.support.queued_cluster import CONTROLLER, queued

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]  # light hosts, which have GPUs
MAIL = {"host": "127.0.0.1", "port": 2525, "security": "none", "sender": "gpu@example.org", "languages": ["en", "ko"]}
#: A unit is started five times in ten seconds at most, unless it is forgotten how often.
LOOK = "systemctl reset-failed gpuadmin-queue-notices.service; systemctl start gpuadmin-queue-notices.service"
RECORDS = "/var/lib/gpuadmin/slurm"


@pytest.fixture
def mailed(with_queue: Cluster) -> Iterator[Cluster]:
    """A queue that mails; minji and jiho have addresses."""
    with with_queue.settings(lambda text: f"{text}\nmail: {json.dumps(MAIL)}\n"), queued(with_queue) as found:
        for name in ("minji", "jiho"):
            found.gpuadmin("change-user", name, "--email", f"{name}@example.org", "--yes")
        found.admin(CONTROLLER, LOOK)  # it looks once without telling anybody
        found.admin(CONTROLLER, "systemctl stop gpuadmin-queue-notices.timer")  # this test says when it looks
        yield found


def look(cluster: Cluster, sink: Sink, number: int) -> list[tuple[str, str]]:
    """Look, until so many mails have come; and once more, which sends none again."""
    end = time.monotonic() + 120
    while True:
        cluster.admin(CONTROLLER, LOOK)
        found = sink.mails()
        if len(found) >= number or time.monotonic() > end:
            break
        time.sleep(3)  # the accounting hears of an end a little later
    cluster.admin(CONTROLLER, LOOK)
    assert len(sink.mails()) == number, sink.mails()
    return found


def quiet(cluster: Cluster) -> None:
    """As after ten minutes: mere ends are mailed again."""
    cluster.admin(CONTROLLER, f'sed -i \'s/"time": "20[0-9][0-9]/"time": "2020/\' {RECORDS}/mails.jsonl')


def test_a_turn_is_told_by_mail(mailed: Cluster) -> None:
    sink = Sink(mailed)
    mailed.person("jiho", NODE, f"gpu get 2 --node {NODE}")
    mailed.person("minji", NODE, f"gpu get 2 --node {NODE} --no-wait")
    mine = mailed.person("minji", NODE, "squeue --me --noheader --format=%i").strip()
    why = mailed.wait(lambda: mailed.ssh("minji", NODE, "gpu why | grep -A9 'Not before'"), seconds=120)
    assert "by what jobs have asked for" in why
    assert f"Next to end: jiho (2 GPUs of {NODE})" in why
    time.sleep(61)  # who waited for less reads it in their terminal
    mailed.person("jiho", NODE, "gpu release")
    mailed.wait(lambda: mailed.ssh("minji", NODE, "squeue --me --noheader --states=R --format=%i | grep ."))
    ((subject, text),) = look(mailed, sink, 1)
    assert f"Your GPUs are ready: job {mine}, on {NODE} / " in subject
    assert f"GPU를 받았습니다: 작업 {mine}" in subject
    assert f"ssh {NODE}" in text
    # nobody is told again: not after a reboot, nor where what it has noted is lost
    mailed.admin(CONTROLLER, f"rm {RECORDS}/noticed.json")
    look(mailed, sink, 1)
    # the mail server is away when an admin ends it, and nothing is lost
    mailed.admin(CONTROLLER, "systemctl stop sink")
    mailed.admin(CONTROLLER, f"scancel {mine}")
    mailed.wait(lambda: mailed.ssh("admin", CONTROLLER, f"sudo sacct -nXj {mine} -o end | grep -v Unknown"))
    for _ in range(3):
        mailed.admin(CONTROLLER, LOOK)
    quiet(mailed)
    Sink(mailed)
    mailed.admin(CONTROLLER, f'sed -i \'s/"retry": {{[^}}]*}}/"retry": {{}}/\' {RECORDS}/noticed.json')
    subject, text = look(mailed, sink, 2)[1]
    assert "Ended: job" in subject
    assert "an admin ended it" in text
    assert "was not measured" in text
    # of an array one mail, however its tasks are called
    quiet(mailed)
    name = "x\\nBcc: all@example.org"
    ask = "sbatch --parsable -D / -o /dev/null --gres=gpu:1 --array=0-5"
    task = f"{ask} -J $'{name}' --wrap 'exit $((SLURM_ARRAY_TASK_ID / 5))'"
    mailed.person("minji", NODE, task)
    mailed.wait(lambda: mailed.ssh("minji", NODE, '[ -z "$(squeue --me --noheader)" ] && echo so'), seconds=120)
    subject, text = look(mailed, sink, 3)[2]
    assert "5 × it is done, 1 × its program failed" in text
    assert "(6 tasks)" in subject
    assert "Bcc" in subject, "in the subject, and nowhere else"
    # turned off by its person, and this stays so when Slurm reads its settings again
    assert "no mails" in mailed.person("minji", "node2", "gpu mail off")
    mailed.admin(CONTROLLER, "scontrol reconfigure")
    mailed.admin(CONTROLLER, "systemctl restart slurmctld")
    mailed.wait(lambda: mailed.ssh("minji", NODE, "gpu mail | grep 'no mails'"), seconds=60)
    quiet(mailed)
    mailed.wait(lambda: mailed.ssh("minji", NODE, "sbatch -D / -o /dev/null --gres=gpu:1 --wrap false && echo so"))
    mailed.wait(lambda: mailed.ssh("minji", NODE, '[ -z "$(squeue --me --noheader)" ] && echo so'), seconds=120)
    time.sleep(5)  # for the accounting
    look(mailed, sink, 3)
    # on the node they read of it at log-in
    mailed.admin(NODE, "systemctl start gpuadmin-queue.service")
    assert "its program failed" in mailed.person("minji", NODE, "bash -lic : 2>/dev/null")
