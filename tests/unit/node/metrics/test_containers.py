"""Names of containers: what a person's daemon says names that person's containers, and costs nobody else anything."""

import itertools
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.docker import _body
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.containers import (
    AGAIN,
    RARELY,
    Names,
    parse_container_pid,
    read_container_names,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.owners import Process
from hypothesis import given, settings
from hypothesis import strategies as st

HOST, OWN = "pid:[1]", "pid:[2]"
ONE, TWO = "a1" * 32, "b2" * 32


def process(uid: int = 1001, container: str = ONE, namespace: str = OWN, pid: int = 7) -> Process:
    return Process(pid, 1.0, uid, "alice", container, namespace)


class Daemons:
    """People's daemons: an answer for each question, or what is raised."""

    def __init__(self, answers: dict[int, Any], proc: str = "/proc") -> None:
        self.answers, self.asked, self.now = answers, list[tuple[int, str]](), 0.0
        self.names = Names(self.ask, lambda uid: answers.get(uid) is not None, lambda: self.now, proc)

    def ask(self, path: str, uid: int, question: str, seconds: float) -> Any:
        assert path == f"/run/user/{uid}/docker.sock"
        self.asked.append((uid, question))
        self.now += 0.1
        answer = self.answers[uid]
        if isinstance(answer, Exception):
            self.now += seconds
            raise answer
        return answer(question) if callable(answer) else answer

    def name(self, *processes: Process) -> list[str]:
        self.names.learn(processes, HOST)
        return [self.names.of(one, HOST) for one in processes]


def listed(**names: str) -> list[dict[str, Any]]:
    return [{"Id": ident, "Names": [f"/{name}"]} for name, ident in names.items()]


def test_a_name_is_asked_for_once_and_only_of_its_persons_daemon() -> None:
    daemons = Daemons({1001: listed(train=ONE)})
    assert daemons.name(process()) == ["train"]
    daemons.now += 1000
    assert daemons.name(process()) == ["train"]
    assert len(daemons.asked) == 1
    daemons = Daemons({})
    assert daemons.name(process()) == [ONE[:12]]
    assert daemons.asked == []
    daemons = Daemons({1001: listed(mine=ONE), 1002: listed(evil=ONE)})
    assert daemons.name(process(1001), process(1002)) == ["mine", "evil"]


@pytest.mark.parametrize(
    "answer",
    [
        NodeError("did not answer"), OSError("refused"), None, [], {}, "x", 7, [None, 7, []],
        [{"Id": ONE}], [{"Id": ONE, "Names": []}], [{"Id": ONE, "Names": [None]}], [{"Id": [], "Names": ["/x"]}],
        listed(**{'x"} evil 1\n': ONE}), listed(**{"\x1b[2J": ONE}), listed(**{"n" * 65: ONE}), listed(**{"": ONE}),
        [{"Id": TWO, "Names": ["/other"]}],
    ],
)  # fmt: skip
def test_what_is_no_name_is_the_beginning_of_the_id(answer: Any) -> None:
    daemons = Daemons({1001: answer if answer is not None else (lambda _: None)})
    assert daemons.name(process()) == [ONE[:12]]


def test_who_does_not_answer_is_asked_ever_more_rarely_and_named() -> None:
    daemons = Daemons({1001: NodeError("did not answer")})
    times = []
    while daemons.now < 4000:
        before = len(daemons.asked)
        daemons.name(process())
        if len(daemons.asked) > before:
            times.append(daemons.now)
        daemons.now += 10
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert AGAIN <= gaps[0] < 2 * AGAIN
    assert RARELY <= gaps[-1] < 1.1 * RARELY
    assert daemons.names.silent == {1001}
    daemons.name()
    assert daemons.names.silent == set(), "somebody who holds nothing any more"


def test_a_pass_ends_and_the_next_one_asks_the_others() -> None:
    daemons = Daemons({uid: NodeError("slow") for uid in range(1001, 1021)})
    everybody = [process(uid) for uid in range(1001, 1021)]
    daemons.name(*everybody)
    assert daemons.now < 2.0
    for _ in range(20):
        daemons.name(*everybody)
    assert {uid for uid, _ in daemons.asked} == set(range(1001, 1021))


def test_without_a_cgroup_of_its_own_a_container_is_known_by_its_namespace(tmp_path: Path) -> None:
    """Rootless Docker without systemd's cgroup driver: all of its processes are in the daemon's cgroup."""
    for pid, space in ((50, OWN), (60, "pid:[3]")):
        (tmp_path / f"{pid}/ns").mkdir(parents=True)
        (tmp_path / f"{pid}/ns/pid").symlink_to(space)

    def answer(question: str) -> Any:
        if question.startswith("/containers/json"):
            return listed(train=ONE, other=TWO)
        return {"State": {"Pid": 50 if ONE in question else 60}}

    daemons = Daemons({1001: answer}, str(tmp_path))
    assert daemons.name(process(container=""), process(container="", namespace=HOST)) == ["train", ""]
    count = len(daemons.asked)
    assert daemons.name(process(container="")) == ["train"]
    assert len(daemons.asked) == count


@pytest.mark.parametrize("pid", [0, -1, "7", None, True, 1 << 40, {}])
def test_what_is_no_pid_is_none(pid: object) -> None:
    assert parse_container_pid({"State": {"Pid": pid}}) == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=70) | st.sampled_from([ONE, "/train", "Id", "Names"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["Id", "Names", "State", "Pid"]), inner)
    ),
    max_leaves=20,
)


@settings(max_examples=300, deadline=None)
@given(JSON)
def test_whatever_a_daemon_answers_names_are_plain(answer: object) -> None:
    for ident, name in read_container_names(answer).items():
        assert len(ident) == 64
        assert 0 < len(name) <= 64
        assert name.isascii()
        assert name.isprintable()
        assert not set(name) & set(' "\\{}\n')
    assert parse_container_pid(answer) >= 0


@settings(max_examples=300, deadline=None)
@given(
    st.binary(max_size=300)
    | st.lists(
        st.sampled_from(
            [b"HTTP/1.0 200 OK\r\n", b"Transfer-Encoding: chunked\r\n", b"\r\n\r\n", b"5\r\n", b"-1\r\n", b"f" * 5000,
             b"[" * 3000, b"{}", b"[]", b"\r\n", b"1" * 5000, b"\xff"]
        ),
        max_size=12,
    ).map(b"".join)
)  # fmt: skip
def test_whatever_bytes_a_daemon_answers_it_is_an_answer_or_none(answer: bytes) -> None:
    with suppress(NodeError):
        read_container_names(_body(answer))
