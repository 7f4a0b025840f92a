"""An account on its host: lines of sshd about it, the files and the word of PAM, the host itself, its name servers."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis import (
    account,
    dns,
    home,
    host,
    pam_account,
    sessions,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.pam import (
    find_process_limit,
    list_missing_modules,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.subject import Subject
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.run import Finished


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("Failed publickey for minji from 10.0.0.1 port 1", True),
        ("User minji from 10.0.0.1 not allowed because account is locked", True),
        ("Authentication refused: bad ownership or modes for directory /home/minji", True),
        ("pam_unix(sshd:account): account minji has expired (account expired)", True),
        ("Failed publickey for minji2 from 10.0.0.1 port 1", False),
        ("Failed publickey for minji-2 from 10.0.0.1 port 1", False),
        ("Connection closed by 10.0.0.1", False),
        ("fatal: Access denied for user minji by PAM account configuration [preauth]", True),
        ("error: maximum authentication attempts exceeded for minji from 10.0.0.1 port 1 ssh2 [preauth]", True),
        ("Connection closed by authenticating user minji 10.0.0.1 port 1 [preauth]", True),
        ("Accepted publickey for minji from 10.0.0.1 port 1 ssh2: ED25519 SHA256:x", True),
        ("pam_unix(sshd:session): session opened for user minji(uid=20000) by (uid=0)", True),
        ("pam_sss(sshd:account): Access denied for user minji: 6 (Permission denied)", True),
        # what a client says
        ("Invalid user user minji not allowed because x from 10.0.0.1 port 1", False),
        ("Invalid user x from y: User minji from 10.0.0.1 not allowed because from 10.0.0.1 port 1", False),
        ("Failed publickey for invalid user user minji not allowed because from 10.0.0.1 port 1", False),
        ("Received disconnect from 10.0.0.1 port 1:11: user minji not allowed because x [preauth]", False),
        ("Bad protocol version identification 'user minji not allowed because x' from 10.0.0.1 port 1", False),
        ("Unable to negotiate with 10.0.0.1 port 1: no matching cipher found. Their offer: for minji", False),
    ],
)
def test_lines_about_somebody(line: str, named: bool) -> None:
    assert bool(account.pick_lines("minji", f"2026-11-23T01:00:00+0000 node1 sshd[1]: {line}")) is named


def test_the_last_lines_are_kept_and_cut() -> None:
    found = account.pick_lines("minji", "\n".join(f"{n} node1 sshd[1]: User minji {'x' * 1000}" for n in range(100)))
    assert len(found) == account.KEPT_LINES
    assert found[-1].startswith("99 ")
    assert all(len(line) <= 300 for line in found)


@pytest.mark.parametrize(
    "words", ["allowusers {}\nport 22\npubkeyauthentication", "AllowUsers {}\nPort 22\nPubkeyAuthentication"]
)
def test_sshd_settings(words: str) -> None:
    def run(_: object) -> Finished:
        return Finished((), 0, "allowusers jiho\n" + words.format("yuna") + " yes\n", "")

    assert account.ask_settings("minji", run) == {"allowusers": "jiho yuna", "pubkeyauthentication": "yes"}


def test_sshd_that_refuses_its_settings_and_nologin(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="line 3: Bad configuration option"):
        account.ask_settings("minji", lambda _: Finished((), 255, "", "x\nline 3: Bad configuration option\n"))
    subject = Subject(root=str(tmp_path))
    assert account.nologin(subject) is None
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/nologin").write_text("until \x1b[2JMonday\n")
    assert account.nologin(subject) == {"file": "/etc/nologin", "words": "until ?[2JMonday"}


@pytest.mark.parametrize(
    ("own", "listed", "files"),
    [
        (False, ".ssh/authorized_keys .ssh/authorized_keys2", [".ssh/authorized_keys", ".ssh/authorized_keys2"]),
        (False, "/var/lib/gpuadmin/keys/%u %h/k/%u /etc/keys/%u", ["k/minji"]),
        (False, "none", []),
        (True, "none", [".ssh/authorized_keys", ".ssh/authorized_keys2"]),  # sshd answers root alone
    ],
)
def test_where_in_a_home_keys_are(monkeypatch: pytest.MonkeyPatch, own: bool, listed: str, files: list[str]) -> None:
    monkeypatch.setattr(account, "ask_sshd", lambda *_: {"authorizedkeysfile": [listed]})
    assert account.home_key_files(Subject(name="minji", own=own)) == files


@pytest.mark.parametrize(("listed", "read"), [("/var/lib/gpuadmin/keys/%u .ssh/x", True), ("{}/%u", False)])
def test_keys_that_are_neither_the_sites_nor_in_a_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: str, read: bool
) -> None:
    (tmp_path / "root").write_text("ssh-ed25519 x\n")
    settings = {"authorizedkeysfile": listed.format(tmp_path)}
    monkeypatch.setattr(account, "ask_settings", lambda name: settings)
    found = account.sshd_keys(Subject(name="root"))
    assert found["site"]["read"] is read
    assert [one["path"] for one in found["elsewhere"]] == ([] if read else [f"{tmp_path}/root"])


@pytest.fixture
def pam(tmp_path: Path) -> Path:
    (tmp_path / "usr/lib64/security").mkdir(parents=True)
    (tmp_path / "usr/lib64/security/pam_unix.so").touch()
    (tmp_path / "etc/pam.d").mkdir(parents=True)
    (tmp_path / "etc/security/limits.d").mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "lacks"),
    [
        ("account required pam_unix.so nullok", []),
        ("account required pam_no.so", ["pam_no.so"]),
        ("auth required pam_no.so", []),
        ("session optional pam_no.so", []),
        ("session [default=1] pam_no.so", []),
        ("account [success=ok new_authtok_reqd=ok default=bad] pam_no.so", ["pam_no.so"]),
        ("session [success=ok module_unknown=ignore] pam_no.so", []),
        ("-account required pam_no.so", []),
        ("# account required pam_no.so", []),
        ("session required /usr/lib64/security/pam_unix.so", []),
        ("session required /opt/pam_no.so", ["/opt/pam_no.so"]),
        ("@include more", ["pam_more.so"]),
        ("account include more", ["pam_more.so"]),
        ("account substack ../../more", ["pam_more.so"]),
        ("@include sshd", []),
        ("@include", []),
        ("nonsense", []),
    ],
)
def test_modules(pam: Path, line: str, lacks: list[str]) -> None:
    (pam / "etc/pam.d/more").write_text("\naccount required pam_more.so\n")
    (pam / "etc/pam.d/sshd").write_text(f"# sshd\n{line}\n")
    found = list_missing_modules(Subject(name="minji", root=str(pam)))
    assert [one["module"] for one in found] == lacks
    assert all((one["file"], one["line"]) in (("/etc/pam.d/sshd", 2), ("/etc/pam.d/more", 2)) for one in found)


def test_where_no_module_is_known_to_be_none_is_missing(tmp_path: Path) -> None:
    (tmp_path / "etc/pam.d").mkdir(parents=True)
    (tmp_path / "etc/pam.d/sshd").write_text("account required pam_unix.so\n")
    assert list_missing_modules(Subject(name="minji", root=str(tmp_path))) == []


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("", None),
        ("* - nproc 100\n", 100),
        ("minji hard nproc 3\n* - nproc 100\n", 3),
        ("* - nproc 100\n* soft nproc 50 # people\n", 50),
        ("minji - nproc unlimited\n* - nproc 3\n", None),
        ("jiho - nproc 3\n", None),
        ("minji - nofile 3\n", None),
    ],
)
def test_limits(pam: Path, text: str, most: int | None) -> None:
    (pam / "etc/security/limits.conf").write_text("# none\n")
    (pam / "etc/security/limits.d/90.conf").write_text(text)
    found = find_process_limit(Subject(name="minji", root=str(pam)))
    assert (found and found["most"]) == most
    assert found is None or found["file"] == "/etc/security/limits.d/90.conf"


@pytest.mark.parametrize(
    ("rule", "refused", "aged"),
    [
        ("pam_permit.so", False, False),
        ("pam_deny.so", True, False),
        ("pam_debug.so acct=new_authtok_reqd", True, True),  # chage -M, and the password is older
        ("pam_debug.so acct=acct_expired", True, False),
        ("pam_access.so accessfile={}/access", True, False),
    ],
)
def test_a_verdict(tmp_path: Path, rule: str, refused: bool, aged: bool) -> None:
    (tmp_path / "access").write_text("-:root:ALL\n")
    (tmp_path / "sshd").write_text(f"account required {rule.format(tmp_path)}\n")
    found = pam_account.verdict("root", str(tmp_path))
    assert (found["refused"], found["aged"]) == (refused, aged)
    assert found["words"]


def test_where_pam_does_not_begin_it_has_said_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="cannot be asked"):
        pam_account.verdict("root", str(tmp_path / "missing"))
    assert pam_account.pam_account(Subject(name="root", root="/nowhere")) is None


def test_local_disks_once_each_and_no_file_server_or_disk_that_a_person_makes_up(tmp_path: Path) -> None:
    text = (
        "1 0 0:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:1 /var /var rw - ext4 /dev/sda1 rw\n"
        "3 1 0:3 / /proc rw - proc proc rw\n4 1 0:4 / /home rw - nfs4 storage1:/homes rw\n"
        "5 1 0:5 / /not/there rw - ext4 /dev/sdb1 rw\n"
    )
    assert [one["mount"] for one in host.disks(Subject(), text)] == ["/"]
    # FUSE: free space, source and place are theirs to choose, and so many of them hide the host's own
    theirs = "".join(f"{n} 1 0:{n} / {tmp_path} rw - fuse /dev/sd{n} rw\n" for n in range(10, 40))
    text = f"{theirs}1 0 0:1 / / rw - ext4 /dev/sda1 rw\n"
    assert [one["mount"] for one in host.disks(Subject(), text)] == ["/"]


def test_names_that_are_found_and_not() -> None:
    found = host.names(Subject(servers=("127.0.0.1", "nothing.invalid", "x" * 300)))
    assert found["127.0.0.1"]["problem"] is None
    assert found["nothing.invalid"]["problem"]
    assert found["x" * 300]["problem"]


@pytest.mark.parametrize(("asks", "name"), [(True, "run/reboot-required"), (False, "run/other")])
def test_a_reboot_that_is_due(tmp_path: Path, asks: bool, name: str) -> None:
    for one, text in ((name, ""), ("proc/uptime", "12.5 3\n")):
        (tmp_path / one).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / one).write_text(text)
    found = host.reboot(Subject(root=str(tmp_path)))
    assert (found["asked"], found["uptime"]) == (asks, 12)


def test_what_homes_are_on_is_known_without_asking_a_server() -> None:
    text = "1 0 0:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:2 / /home ro - nfs4 storage1:/homes ro,hard\n"
    found = home.mount(Subject(), text)
    assert (found["type"], found["network"], found["read_only"]) == ("nfs4", True, True)


def test_a_link_in_place_of_a_home_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/minji").symlink_to("/root")
    found = home.home(Subject(name="minji", root=str(tmp_path)))
    assert (found["kind"], "keys" in found) == ("link", False)


def test_what_the_kernel_counts_of_a_person(tmp_path: Path) -> None:
    directory = tmp_path / "user.slice/user-20000.slice"
    directory.mkdir(parents=True)
    for name, text in (("pids.current", "7\n"), ("pids.max", "max\n"), ("memory.events", "low 0\noom_kill 3\n")):
        (directory / name).write_text(text)
    assert sessions.count_slice(20000, str(tmp_path)) == {"tasks": 7, "memory_oom_kill": 3}
    assert not sessions.cgroup_alive(20000, "docker.service", str(tmp_path))


@pytest.mark.parametrize(
    ("files", "service"),
    [
        ((), None),
        (("usr/lib/systemd/system/systemd-timesyncd.service",), "systemd-timesyncd"),
        # systemd brings its own along; the one that starts, or runs, is what keeps the clock
        (("usr/lib/systemd/system/chronyd.service", "etc/systemd/system/sysinit.target.wants/systemd-timesyncd.service",
          "usr/lib/systemd/system/systemd-timesyncd.service"), "systemd-timesyncd"),
        (("etc/systemd/system/sysinit.target.wants/systemd-timesyncd.service",
          "sys/fs/cgroup/system.slice/chrony.service/cgroup.procs"), "chrony"),
    ],
)  # fmt: skip
def test_what_keeps_the_clock(tmp_path: Path, files: tuple[str, ...], service: str | None) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert host.time_service(str(tmp_path)) == service


@pytest.mark.root
def test_what_is_somebody_else_s_in_a_home(tmp_path: Path) -> None:
    (tmp_path / "its").mkdir()
    for name in (".cache", ".local", ".thesis"):
        (tmp_path / "its" / name).mkdir()
    (tmp_path / "its/.config").symlink_to("/etc")
    for name in ("", ".local", ".config"):
        os.chown(tmp_path / "its" / name, 20000, 20000, follow_symlinks=False)
    assert [one["name"] for one in home.list_foreign_files(str(tmp_path / "its"), 20000)] == [".cache"]
    assert home.list_foreign_files(str(tmp_path / "gone"), 20000) == []


def test_where_everybody_writes(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    assert host.temporary(Subject(root=str(tmp_path))) == {"/tmp": 0o1777, "/var/tmp": None}


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
