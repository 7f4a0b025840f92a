"""What a verb takes, it reads: an option that changes nothing is a promise that is not kept."""

import ast
import inspect
import io
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import pytest

from gpuadmin.ansible.invocation import Invocation
from gpuadmin.cli import VERBS, cli
from gpuadmin.cli._manual import commands
from gpuadmin.monitoring.certificates import SECRET_BYTES
from gpuadmin.options import MailOptions, Options
from gpuadmin.results import HostResult, RunResult
from tests.support.offenders import each_of
from tests.support.site_edits import CALLS, good_site
from tests.support.sites import UIDS, public_key

HOSTS = ("storage1", "node1", "node2")
#: An option's parameter → the field that has it; --yes is read where there is something to ask.
SHARED = {"as_json": "json", **{name: name for name in Options.__dataclass_fields__ if name not in ("json", "yes")}}
MAIL = {"mail_dir": "directory", "preview": "preview", "again": "again"}
#: verb → more arguments with which it is called, besides CALLS and those without --check
MORE: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "announce": (("--en", "Tomorrow", "--ko", "내일", "--until", "2099-01-01"),),
    "maintain": (("--from", "2099-01-01", "--until", "2099-01-02", "--reason", "x", "node1"),),
    "add-user": (("yuna", "--email", "yuna@example.org", "--key", public_key("yuna"), "--mail"),),
    "change-user": (("minji", "--no-docker"),),
    "idle": (("--act",),),
    "import-applications": (("{site}/form.csv", "--members", "{site}/members.csv", "--apply"),),
    "report": ((),),
    "restore-home": (("minji", "--in-place"),),
    "top": (("--local",),),
}
#: What is read only where there is something to end, or when mails go out.
LATER = {"idle": {"verbose"}, "import-applications": {"again"}, "report": {"limit"}}
MORE_SETTINGS = "metrics: {mail_to: []}\nslurm: {}\n"
#: What a host says that was asked for images.
STORE = {"2027-01": {"problem": None, "manifest": {"name": "2027-01", "parent": None, "uuid": "1", "streams": {}}}}


def with_shared() -> list[str]:
    """The verbs that take the shared options."""
    context = click.Context(cli)
    commands = {verb: cli.get_command(context, verb) for verb in VERBS}
    return [verb for verb, one in commands.items() if one and {"site", "check", "yes"} <= {p.name for p in one.params}]


class Reads:
    """Which fields of options were read, and so which options have an effect."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fields: set[str] = set()
        monkeypatch.setattr(Options, "__getattribute__", self._noting(Options))
        monkeypatch.setattr(MailOptions, "__getattribute__", self._noting(MailOptions))

    def _noting(self, kind: type) -> Callable[[Any, str], Any]:
        def get(one: Any, name: str) -> Any:
            if name in kind.__dataclass_fields__:
                self.fields.add(name)
            return object.__getattribute__(one, name)

        return get


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site that has everything, with hosts that answer, and nobody who could confirm."""
    found = good_site(tmp_path / "site")
    (found / "inventory/monitor.yml").write_text("monitor: {hosts: {storage1: {}}}\n")
    # an admin grants GPUs where the queue has none
    queue = "slurm: {hosts: {storage1: {}}}\ngpu: {hosts: {node1: {slurm_node: false}}}\n"
    bmc = "gpu: {hosts: {node1: {bmc: {kind: wol, mac: '02:00:5e:00:53:01'}}}}\n"
    (found / "inventory/bmc.yml").write_text(bmc)
    (found / "inventory/queue.yml").write_text(queue)
    (found / "inventory/backup.yml").write_text("backup: {hosts: {node2: {}}}\n")
    (found / "metrics_secret").write_text("00" * SECRET_BYTES)
    (found / "metrics_secret").chmod(0o600)
    with (found / "gpuadmin.yml").open("a", encoding="utf-8") as stream:
        stream.write(MORE_SETTINGS)
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/id_ed25519.pub").write_text(public_key("admin"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GPUADMIN_SITE", str(found))
    monkeypatch.setattr("sys.stdin", io.StringIO())
    bmcs = {"node1": {"state": "on", "answers": True, "problem": ""}}
    reports = {"uids": dict(UIDS), "store": STORE, "bmcs": bmcs}

    def run(_invocation: Invocation, **_callbacks: object) -> RunResult:
        return RunResult({name: HostResult("ok", reports=reports) for name in HOSTS})

    monkeypatch.setattr("gpuadmin.ansible.runner.run", run)
    monkeypatch.setattr("gpuadmin.actions.shared.prometheus.Prometheus.ask", lambda _self, _query, _at=None: [])
    monkeypatch.setattr("gpuadmin.actions.shared.prometheus.Prometheus.over_time", lambda _self, *_all: [])
    monkeypatch.setattr("gpuadmin.actions.shared.forward.Forward.__enter__", lambda self: self)
    monkeypatch.setattr("gpuadmin.actions.shared.forward.Forward.look", lambda _self: "AA:BB")
    monkeypatch.setattr("gpuadmin.actions.dashboard._stay", lambda *_all, **_more: 0)
    monkeypatch.setattr(
        "gpuadmin.actions.bootstrap.pin", lambda _session, hosts: {one.name: {"state": "pinned"} for one in hosts}
    )
    monkeypatch.setattr(
        "gpuadmin.takeover.actions.shared.outside.pin",
        lambda _session, hosts, **_more: {one.name: {"state": "pinned"} for one in hosts},
    )
    return found


def calls(verb: str) -> Iterator[tuple[str, ...]]:
    for name, arguments in CALLS.items():
        if name.split(" ")[0] == verb:
            yield arguments
            yield tuple(one for one in arguments if one != "--check")
    for arguments in MORE.get(verb, ()):
        yield arguments
        yield (*arguments, "--check")


@pytest.mark.parametrize("verb", with_shared())
def test_every_option_is_read(verb: str, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = cli.get_command(click.Context(cli), verb)
    assert command is not None
    shown = {one.name for one in command.params if isinstance(one, click.Option) and not one.hidden}
    expected = {field for name, field in {**SHARED, **(MAIL if set(MAIL) <= shown else {})}.items() if name in shown}
    reads = Reads(monkeypatch)
    ends = []
    for arguments in calls(verb):
        try:
            cli.main([verb, *(one.format(site=site) for one in arguments)], standalone_mode=False)
        except Exception as error:  # what hosts say here is not all that a verb needs
            ends.append(f"{type(error).__name__}: {error}")
    ignored = expected - reads.fields - LATER.get(verb, set())
    assert not ignored, f"{verb} takes and ignores {sorted(ignored)}\n{ends}"


def callbacks() -> list[tuple[str, Callable[..., Any]]]:
    return [(path, inspect.unwrap(one.callback)) for path, one, _ in commands(cli, "gpuadmin") if one.callback]


@each_of(callbacks())
def test_every_parameter_is_used(called: tuple[str, Callable[..., Any]]) -> None:
    path, callback = called
    (function,) = ast.parse(textwrap.dedent(inspect.getsource(callback))).body
    assert isinstance(function, ast.FunctionDef)
    used = {node.id for statement in function.body for node in ast.walk(statement) if isinstance(node, ast.Name)}
    assert set(inspect.signature(callback).parameters) <= used, path


@pytest.mark.parametrize(
    "arguments",
    [
        ("dashboard", "--limit", "node1"),
        ("dashboard", "--ask-pass"),
        ("top", "--free", "--ask-pass"),
        ("top", "--free", "--user", "minji"),
        ("top", "--free", "--every", "5"),
        ("top", "--gpus", "2"),
        ("list-images", "--verify"),
        ("usage", "--ask-become-pass"),
        ("build-image", "--limit", "node1"),
        ("top", "--once", "--ask-pass"),
        ("idle", "--ask-become-pass"),
        ("announce", "--list", "--limit", "node1"),
        ("announce", "--list", "--preview"),
        ("announce", "--take-back", "1f2e3d4c", "--preview"),
        ("announce", "--take-back", "1f2e3d4c", "--on", "node1"),
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("site")
def test_what_a_verb_would_not_heed_it_refuses(arguments: tuple[str, ...]) -> None:
    with pytest.raises(click.UsageError):
        cli.main([*arguments], standalone_mode=False)
