"""Name servers: whatever one answers, it is there; silence and refusal are not."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis import dns
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.subject import Subject


@contextmanager
def server(answers: bool, same: bool = True) -> Iterator[int]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        channel.bind(("127.0.0.1", 0))

        def serve() -> None:
            question, whose = channel.recvfrom(512)
            if answers:
                # SERVFAIL, without anything else
                channel.sendto((question[:2] if same else b"??") + b"\x80\x02" + bytes(8), whose)

        thread = threading.Thread(target=serve)
        thread.start()
        yield channel.getsockname()[1]
        thread.join()


def test_a_server_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns, "SECONDS", 0.3)
    with server(answers=True) as port:
        assert dns.find_problem("127.0.0.1", port) is None
    with server(answers=False) as port:
        assert dns.find_problem("127.0.0.1", port) == "no answer in 0.3 s"
    with server(answers=True, same=False) as port:
        assert dns.find_problem("127.0.0.1", port) == "says something else"
    assert dns.find_problem("127.0.0.1", port) == "Connection refused"
    assert dns.find_problem("no address") is not None


def test_who_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns, "find_problem", lambda one: "silent")
    (tmp_path / "etc").mkdir()
    subject = Subject(root=str(tmp_path))
    assert dns.dns(subject) == {"servers": [], "problems": {}}
    (tmp_path / "etc/resolv.conf").write_text(
        "search x\nnameserver\n" + "".join(f"nameserver 10.0.0.{n}\n" for n in range(9))
    )
    assert dns.dns(subject)["problems"] == {f"10.0.0.{n}": "silent" for n in range(3)}
    # systemd-resolved answers whatever is behind it
    (tmp_path / "run/systemd/resolve").mkdir(parents=True)
    (tmp_path / "run/systemd/resolve/resolv.conf").write_text("nameserver 10.1.1.1\n")
    (tmp_path / "etc/resolv.conf").write_text("nameserver 127.0.0.53\n")
    assert dns.dns(subject)["servers"] == ["10.1.1.1"]
