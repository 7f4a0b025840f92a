"""What is not a regular file is refused with a sentence wherever gpuadmin reads one: it waits at no named pipe."""

import errno
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpuadmin.config.find import find_site
from gpuadmin.errors import ConfigError
from gpuadmin.mail.ledger import Ledger
from gpuadmin.reading import expanded, open_regular, read_limited, read_record, read_text
from gpuadmin.records import list_runs, show_run
from gpuadmin.semester.journal import Journal
from tests.support.verbs import fail

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def no_waiting() -> Iterator[None]:
    """What waits at a pipe ends in a failed test, not in one that never ends."""

    def ended(*_: object) -> None:
        pytest.fail("it waited")  # no Exception: nobody who handles errors takes it for one

    before = signal.signal(signal.SIGALRM, ended)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def pipe(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    return path


def test_kinds(tmp_path: Path) -> None:
    pipe(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").write_bytes(b"x")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        for path, kind in ((tmp_path / "pipe", "a named pipe"), (tmp_path / "link", "a named pipe"),
                           (tmp_path / "directory", "a directory"), (tmp_path / "socket", "a socket"),
                           (Path("/dev/zero"), "a device")):  # fmt: skip
            for read in (open_regular, read_limited, read_record):
                with pytest.raises(OSError, match=f"is {kind}, where a regular file has to be"):
                    read(path)
            with pytest.raises(ConfigError, match=f"{path}: is {kind}"):
                read_text(path)
    assert (read_limited(tmp_path / "file"), read_record(tmp_path / "file")) == (b"x", b"x")
    assert (read_text(tmp_path / "file"), read_text(tmp_path / "nothing")) == ("x", "")
    with pytest.raises(FileNotFoundError):
        read_record(tmp_path / "nothing")
    (tmp_path / "file").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        read_text(tmp_path / "file")


def test_a_socket_has_other_words_on_macos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(path: Path, *_more: int) -> int:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported on socket", str(path))

    monkeypatch.setattr("os.open", refuses)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        with pytest.raises(OSError, match="is a socket, where a regular file has to be"):
            open_regular(tmp_path / "socket")


@pytest.mark.holds("an inventory holds regular files")
@pytest.mark.parametrize(
    "name",
    ["gpuadmin.yml", "users.yml", "inventory/hosts.yml", "inventory/more", "inventory/group_vars/gpu.yml",
     "inventory/host_vars/node1/secrets.yml", "known_hosts", "runs/uids.json"],
)  # fmt: skip
def test_a_pipe_among_a_site_s_files_is_named_by_check(site: Path, cli: Cli, name: str) -> None:
    pipe(site / name)
    err = fail(cli, 2, "check", "--site", str(site))
    assert f"{site / name}: is a named pipe, where a regular file has to be" in err


@pytest.mark.holds("a site's known_hosts is looked at before ssh reads it")
def test_a_pipe_for_ssh_is_refused_by_every_verb(site: Path, cli: Cli) -> None:
    """A pipe as known_hosts, where ssh would wait: not only `check` looks."""
    path = pipe(site / "known_hosts")
    code, _out, err = cli("extend-user", "nobody", "--expires", "2099-01-01", "--site", str(site))
    assert (code, f"{path}: is a named pipe" in err) == (2, True)


def test_a_circle_of_links_in_an_inventory_is_walked_once(site: Path, cli: Cli) -> None:
    (site / "inventory/group_vars").mkdir()
    (site / "inventory/group_vars/again").symlink_to("..")
    (site / "inventory/gone.yml").symlink_to("nowhere")
    pipe(site / "inventory/group_vars/z")
    assert "is a named pipe" in cli("check", "--site", str(site))[2]


def test_a_site_whose_file_is_none_is_not_the_one_above_it(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe(site / "inner/gpuadmin.yml")
    monkeypatch.chdir(site / "inner")
    monkeypatch.delenv("GPUADMIN_SITE", raising=False)
    assert find_site(None) == site / "inner"


def test_a_pipe_for_the_records(tmp_path: Path) -> None:
    """A run is damaged, and the others are listed; what the ledger and the journal say is not known."""
    run = tmp_path / "runs/20261221T010203-check-0001"
    for name in ("run.json", "result.json", "log.txt"):
        pipe(run / name)
    assert [one["status"] for one in list_runs(tmp_path / "runs")] == ["damaged"]
    with pytest.raises(ConfigError, match="is damaged"):
        show_run(tmp_path / "runs", run.name)
    pipe(tmp_path / "mails.jsonl")
    with pytest.raises(ConfigError, match="is a named pipe"):
        Ledger.of(tmp_path)
    journal = Journal(tmp_path / "runs", "2026-2")
    pipe(journal.path)
    with pytest.raises(ConfigError, match="is a named pipe"):
        journal.entries()


@pytest.mark.parametrize("verb", ["add-user", "import-applications"])
def test_a_pipe_for_what_is_handed_over(site: Path, cli: Cli, verb: str) -> None:
    path = str(pipe(site / "given.csv"))
    given = ["--from", path] if verb == "add-user" else [path]
    assert "is a named pipe" in fail(cli, 2, verb, *given, "--site", str(site), "--check")


def test_the_home_of_somebody_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """pathlib raises a RuntimeError, which is a traceback wherever nobody thinks of it."""
    monkeypatch.setenv("HOME", "/home/admin")
    assert expanded("~/x") == Path("/home/admin/x")
    assert expanded("a/~b") == Path("a/~b")
    with pytest.raises(ConfigError, match=r"^~nobody-of-that-name/x: this machine has no such account"):
        expanded("~nobody-of-that-name/x")
