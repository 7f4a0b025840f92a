"""ssh, run and bootstrap: what ssh and Ansible are asked, what is shown, recorded and refused."""

import json
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gpuadmin.ansible.connections import command_line
from gpuadmin.ansible.invocation import Invocation
from gpuadmin.config.inventory import Host
from gpuadmin.config.load import load_site
from gpuadmin.errors import ConfigError
from gpuadmin.host_keys import HostKey
from gpuadmin.lock import site_lock
from gpuadmin.options import Options
from gpuadmin.results import BY_KEY, HostResult, RunResult
from gpuadmin.session import opened
from tests.support.sites import make_site, public_key

pytestmark = pytest.mark.holds(
    "a check pins no host key",
    "a host whose key is not pinned gets no password",
    "a machine is ready when the admin account has been in",
    "an address that ssh takes for an option is refused",
    "bootstrap asks before it makes something",
    "run does not run in check mode",
    "run keeps words apart",
    "run takes no host beside the groups",
    "the proof is of a new connection",
    "the proof uses no password",
)


Cli = Callable[..., tuple[int, str, str]]


@dataclass
class Ansible:
    """Answers each run in turn, the last one again and again; a host that an answer lacks is `ok`."""

    answers: list[dict[str, HostResult]] = field(default_factory=list)
    asked: list[Invocation] = field(default_factory=list)

    def run(self, invocation: Invocation, **_: object) -> RunResult:
        self.asked.append(invocation)
        given = self.answers[min(len(self.asked), len(self.answers)) - 1] if self.answers else {}
        names = (invocation.limit or "").split(",")
        return RunResult({name: given.get(name, HostResult("ok")) for name in names})


@pytest.fixture
def ansible(monkeypatch: pytest.MonkeyPatch, site: Path) -> Ansible:
    fake = Ansible()
    monkeypatch.setattr("gpuadmin.ansible.runner.run", fake.run)
    monkeypatch.setenv("GPUADMIN_SITE", str(site))
    return fake


def inventory(site: Path, **variables: str) -> None:
    hosts = site / "inventory" / "host_vars"
    hosts.mkdir()
    (hosts / "node1.yml").write_text(json.dumps(variables))


def test_ssh_goes_as_a_run_goes(tmp_path: Path) -> None:
    site = load_site(str(make_site(tmp_path / "site", settings={"admin": {"user": "ops", "ssh_key": "~/k"}})))
    line = command_line(site, "node1", ["-L", "1:localhost:1", "df", "-h"])
    assert line[-5:] == ["127.0.0.1", "-L", "1:localhost:1", "df", "-h"]
    words = " ".join(line)
    assert words.startswith("ssh -o StrictHostKeyChecking=yes ")
    assert f"-o UserKnownHostsFile={site.known_hosts} " in words
    assert f" -p 2 -o IdentityFile={Path.home()}/k -l ops 127.0.0.1 -L " in words


def test_ssh_hears_what_the_inventory_says_of_a_host(site: Path) -> None:
    inventory(site, ansible_user="me", ansible_ssh_common_args="-J 'gate way'", ansible_ssh_private_key_file="/k")
    line = command_line(load_site(str(site)), "node1", [])
    assert line[line.index("-J") :] == ["-J", "gate way", "-p", "2", "-o", "IdentityFile=/k", "-l", "me", "127.0.0.1"]


def test_ssh_takes_the_path_of_a_key_as_it_is(tmp_path: Path) -> None:
    site = load_site(str(make_site(tmp_path / "site", settings={"admin": {"ssh_key": "/a/50% lab/k"}})))
    assert 'IdentityFile="/a/50%% lab/k"' in command_line(site, "node1", [])


def test_ssh_reads_templates_as_ansible_does(site: Path) -> None:
    inventory(site, ansible_host="{{ inventory_hostname }}.example.org", ansible_port="{{ 2200 + 22 }}")
    line = command_line(load_site(str(site)), "node1", [])
    assert (line[-1], line[line.index("-p") + 1]) == ("node1.example.org", "2222")


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"ansible_host": "{{ '-oProxyCommand=x' }}"}, "is not a host.s address"),
        ({"ansible_connection": "local"}, "not reached over ssh"),
        ({"ansible_user": "{{ nobody }}"}, "ansible_user"),
    ],
)
def test_ssh_to_what_cannot_be_reached_so(site: Path, variables: dict[str, str], words: str) -> None:
    inventory(site, **variables)
    with pytest.raises(ConfigError, match=words):
        command_line(load_site(str(site)), "node1", [])


def test_ssh_to_a_host_that_is_none(ansible: Ansible, cli: Cli) -> None:
    code, _, err = cli("ssh", "node9", "--", "true")
    assert code == 2
    assert "Error: no such host: node9" in err


def answered(status: int = 0, output: str = "", errors: str = "") -> HostResult:
    report = {"command": {"status": status, "output": output, "errors": errors}}
    return HostResult("failed" if status else "changed", ["run: x"], f"ended with {status}" if status else None, report)


def test_run_shows_the_same_answers_together_and_records_all(ansible: Ansible, cli: Cli, site: Path) -> None:
    ansible.answers = [
        {"node1": answered(output="up\n"), "node2": answered(output="up\n"), "storage1": answered(3, "", "no\x1b[2J\n")}
    ]
    code, out, _ = cli("run", "all", "--", "echo", "a b")
    assert code == 3
    assert "1 of 3 hosts did not succeed: storage1" in out
    assert "node1, node2\n  up\n" in out
    assert "storage1 ended with 3\n" in out
    assert "\x1b" not in out
    (invocation,) = ansible.asked
    assert (invocation.playbook, invocation.check) == ("run", False)
    assert invocation.variables["command_line"] == "echo 'a b'"
    (record,) = [path for path in (site / "runs").iterdir() if path.is_dir()]
    result = json.loads((record / "result.json").read_text())
    assert result["result"]["answers"]["storage1"]["errors"] == "no\x1b[2J\n"
    assert json.loads((record / "run.json").read_text())["check"] is False


def test_run_takes_one_word_as_a_line_for_the_shell(ansible: Ansible, cli: Cli) -> None:
    cli("run", "gpu", "df -h | tail -1")
    assert ansible.asked[0].variables["command_line"] == "df -h | tail -1"
    assert ansible.asked[0].limit == "node1,node2"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("gpu", "--site", "{site}", "--", "git", "log", "--", "x"), "git log -- x"),
        (("--json", "gpu", "-v", "--site={site}", "--", "ls", "--site"), "ls --site"),
        (("--site", "{site}", "gpu", "git", "log", "--", "x"), "git log -- x"),
        (("--site", "{site}", "gpu", "ls", "--site", "--", "x"), "ls --site -- x"),
    ],
)
def test_options_may_come_between_hosts_and_the_command(
    ansible: Ansible, cli: Cli, site: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], line: str
) -> None:
    monkeypatch.chdir("/")
    assert cli("run", *(one.format(site=site) for one in words))[0] == 0
    assert ansible.asked[-1].variables["command_line"] == line


@pytest.mark.parametrize("words", [("--sit", "x", "--", "true"), ("--site", "x", "true"), ("--site", "x")])
@pytest.mark.parametrize("verb", [("run",), ("ssh",), ("lab", "ssh", "--name", "x")])
def test_an_option_after_the_host_is_no_command(
    ansible: Ansible, cli: Cli, verb: tuple[str, ...], words: tuple[str, ...]
) -> None:
    code, _, err = cli(*verb, "node1", *words)
    assert (code, ansible.asked) == (2, [])
    assert f"{words[0]} comes before" in err


def test_run_goes_on_beside_another_verb(ansible: Ansible, cli: Cli, site: Path) -> None:
    with site_lock(site / "runs", "provision"):
        assert cli("run", "gpu", "--", "true")[0] == 0
    assert len(ansible.asked) == 1


def test_run_in_check_mode_runs_nothing(ansible: Ansible, cli: Cli) -> None:
    code, _, _ = cli("run", "--check", "gpu", "--", "true")
    assert code == 0
    assert [one.check for one in ansible.asked] == [True]


def test_run_as_a_document(ansible: Ansible, cli: Cli) -> None:
    ansible.answers = [{"node1": answered(output="up\n"), "node2": HostResult("unreachable", message="timed out")}]
    code, out, _ = cli("run", "--json", "gpu", "--", "uptime")
    assert code == 4
    document = json.loads(out)
    assert document["result"]["answers"] == {"node1": {"status": 0, "output": "up\n", "errors": ""}}
    assert document["hosts"]["node2"]["message"] == "timed out"


def test_run_without_a_command(ansible: Ansible, cli: Cli) -> None:
    code, _, err = cli("run", "gpu", "--")
    assert code == 2
    assert "which command?" in err


def test_run_on_a_host_that_no_playbook_is_for(ansible: Ansible, cli: Cli, site: Path) -> None:
    """Nobody would be asked there, and that is not a command that succeeded."""
    (site / "inventory" / "more.yml").write_text(json.dumps({"all": {"hosts": {"desk": {}}}}))
    code, _, err = cli("run", "desk,node1", "--", "true")
    assert code == 2
    assert "desk: in none of the groups" in err
    assert ansible.asked == []


def test_run_where_the_limit_leaves_nobody(ansible: Ansible, cli: Cli) -> None:
    code, _, err = cli("run", "--limit", "storage", "gpu", "--", "true")
    assert code == 2
    assert "leaves none" in err


MISSING = ["make the account gpuadmin (uid 900, home /var/home/gpuadmin)"]


@pytest.fixture
def keys(site: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Host → the key that it shows; the site's own key is there, too."""
    shown = {"node1": "one", "node2": "two"}

    def fetch(hosts: Iterable[Host]) -> list[HostKey]:
        found = []
        for host in hosts:
            kind, blob, _ = public_key(shown.get(host.name, "none")).split(" ")
            problem = None if host.name in shown else "timed out"
            found.append(HostKey(host.name, host.address, host.port, kind, blob, problem))
        return found

    monkeypatch.setattr("gpuadmin.actions.trust.fetch_host_keys", fetch)
    (site / "key.pub").write_text(public_key("admin") + "\n")
    settings = site / "gpuadmin.yml"
    text = settings.read_text()
    assert text.count("  user: gpuadmin\n") == 1
    settings.write_text(text.replace("  user: gpuadmin\n", f"  user: gpuadmin\n  ssh_key: {site}/key\n"))
    return shown


def connection(invocation: Invocation) -> dict[str, Any]:
    return {name: value for name, value in invocation.variables.items() if name.startswith("ansible_")}


def test_bootstrap_looks_asks_makes_and_proves(ansible: Ansible, cli: Cli, keys: dict[str, str], site: Path) -> None:
    there = HostResult("changed", MISSING)
    ansible.answers = [{"node1": there}, {"node1": there}, {}]
    code, out, err = cli("bootstrap", "node1", "--as", "ubuntu", "--identity", "/k", "--yes")
    assert code == 0, err
    assert "make the account gpuadmin" in out
    look, run, proof = ansible.asked
    assert (look.check, run.check, proof.check) == (True, False, True)
    entered = {"ansible_user": "ubuntu", "ansible_become": True, "ansible_ssh_private_key_file": "/k"}
    assert connection(look) == connection(run) == entered
    assert connection(proof) == {}
    assert look.variables["bootstrap_key"] == public_key("admin")
    assert "[127.0.0.1]:2 ssh-ed25519" in (site / "known_hosts").read_text()


def test_bootstrap_proves_without_a_password_and_over_a_new_connection(
    ansible: Ansible, cli: Cli, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the password, or over a connection that it opened, every machine would be ready."""
    closed: list[int] = []
    monkeypatch.setattr("gpuadmin.session.ask", lambda *_, **__: "secret")
    monkeypatch.setattr("gpuadmin.ansible.connections.close", lambda *_, **__: closed.append(len(ansible.asked)))
    assert cli("bootstrap", "node1", "--ask-pass", "--yes")[0] == 0
    look, proof = ansible.asked
    assert (look.secrets.ssh, proof.secrets.ssh, proof.secrets.become) == ("secret", None, None)
    assert closed == [1]


def test_bootstrap_asks_before_it_makes_something(
    ansible: Ansible, cli: Cli, keys: dict[str, str], site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (site / "known_hosts").write_text(f"[127.0.0.1]:2 {public_key('one')}\n")
    ansible.answers = [{"node1": HostResult("changed", MISSING)}]
    monkeypatch.setattr("gpuadmin.session.Session.require_confirmation_possible", lambda session: None)
    monkeypatch.setattr("gpuadmin.session.agree", lambda question: False)
    code, _, err = cli("bootstrap", "node1")
    assert (code, [one.check for one in ansible.asked]) == (5, [True])
    assert "nothing was changed" in err


def test_a_key_that_ssh_does_not_use_is_not_the_host_s_fault(site: Path) -> None:
    """What the run is told of the keys that it logs in with: the site's, one host's own, one given to bootstrap."""
    inventory(site, ansible_ssh_private_key_file="/own")
    settings = site / "gpuadmin.yml"
    settings.write_text(
        settings.read_text().replace("  user: gpuadmin\n", f"  user: gpuadmin\n  ssh_key: {site}/key\n")
    )
    for variables, expected in (
        ({}, {"storage1": f"{site}/key", "node1": "/own", "node2": f"{site}/key"}),
        ({"ansible_ssh_private_key_file": "/given"}, dict.fromkeys(("storage1", "node1", "node2"), "/given")),
    ):
        asked: list[Invocation] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                "gpuadmin.ansible.runner.run", lambda one, asked=asked, **_: asked.append(one) or RunResult({})
            )
            with opened("status", Options(site=str(site)), changes=False) as session:
                session.run("status", None, variables, check=True)
        assert asked[0].keys.keys == expected
        assert all(problem.message == "is not a file" for problem in asked[0].keys.problems.values())


def test_where_the_key_is_the_cause_the_hint_is_of_the_key(ansible: Ansible, cli: Cli) -> None:
    """The same again would be refused again, and another login is not a way out."""
    message = f"{BY_KEY} /k of this machine is open to others (mode 0644), so ssh does not use it"
    ansible.answers = [{"node1": HostResult("unreachable", message=message)}]
    code, _, err = cli("list-users", "--limit", "node1")
    assert (code, "Hint: gpuadmin check says what to do about the key; then run it again" in err) == (4, True), err


def test_bootstrap_without_a_terminal_shows_the_plan(
    ansible: Ansible, cli: Cli, keys: dict[str, str], site: Path
) -> None:
    (site / "known_hosts").write_text(f"[127.0.0.1]:2 {public_key('one')}\n")
    ansible.answers = [{"node1": HostResult("changed", MISSING)}]
    code, out, err = cli("bootstrap", "node1")
    assert (code, [one.check for one in ansible.asked]) == (5, [True])
    assert MISSING[0] in out
    assert "Hint: give --yes" in err


def test_bootstrap_again_proves_and_changes_nothing(ansible: Ansible, cli: Cli, keys: dict[str, str]) -> None:
    assert cli("bootstrap", "node1", "--yes")[0] == 0
    assert [one.check for one in ansible.asked] == [True, True]
    assert connection(ansible.asked[0]) == {"ansible_user": "root", "ansible_become": False}


@pytest.mark.parametrize("what", ["no login", "something is missing"])
def test_bootstrap_without_a_proof_has_failed(ansible: Ansible, cli: Cli, keys: dict[str, str], what: str) -> None:
    there = HostResult("changed", MISSING)
    last = (
        HostResult("unreachable", message="refuses our login") if what == "no login" else HostResult("changed", ["x"])
    )
    ansible.answers = [{"node1": there}, {"node1": there}, {"node1": last}]
    code, out, _ = cli("bootstrap", "node1", "--yes")
    assert code == (4 if what == "no login" else 3)
    assert "it was made ready, " in out


def test_bootstrap_in_check_mode_pins_nothing_and_asks_no_host_without_a_key(
    ansible: Ansible, cli: Cli, keys: dict[str, str], site: Path
) -> None:
    code, out, err = cli("bootstrap", "node1", "--check")
    assert code == 4
    assert "not pinned yet" in out
    assert "SHA256:" in err
    assert "Hint: gpuadmin trust HOST pins a key" in err
    assert ansible.asked == []
    (record,) = [path for path in (site / "runs").iterdir() if path.is_dir()]
    assert json.loads((record / "result.json").read_text())["exit_code"] == 4
    assert not (site / "known_hosts").exists() or "ssh-ed25519" not in (site / "known_hosts").read_text()


def test_bootstrap_does_the_others_where_one_does_not_answer(ansible: Ansible, cli: Cli, keys: dict[str, str]) -> None:
    ansible.answers = [{"node1": HostResult("failed", message="uid 900 is taken")}, {}]
    code, out, _ = cli("bootstrap", "node1", "node2", "storage1", "--yes")
    assert code == 3
    assert [one.limit for one in ansible.asked] == ["node1,node2", "node2"]
    assert "uid 900 is taken" in out
    assert "timed out" in out


@pytest.mark.parametrize(
    ("host", "message", "hint"),
    [
        ("storage1", None, "Hint: when they answer: run it again"),
        ("node1", "refuses our login (permission denied)", "Hint: another login is --as USER"),
    ],
)
def test_bootstrap_of_a_host_that_lets_nobody_in(
    ansible: Ansible, cli: Cli, keys: dict[str, str], host: str, message: str | None, hint: str
) -> None:
    ansible.answers = [{host: HostResult("unreachable", message=message)}] if message else []
    code, out, err = cli("bootstrap", host, "--yes")
    assert code == 4
    assert hint in err
    assert "hosts that answered" not in out
    assert "Logging in" not in out
    assert len(ansible.asked) == (1 if message else 0)


@pytest.mark.parametrize("which", ["Missing", "Incorrect"])
def test_bootstrap_says_which_option_asks_for_the_sudo_password(
    ansible: Ansible, cli: Cli, keys: dict[str, str], which: str
) -> None:
    ansible.answers = [{"node1": HostResult("failed", message=f"Task failed: {which} sudo password")}]
    code, _, err = cli("bootstrap", "node1", "--as", "ubuntu", "--yes")
    assert code == 3
    assert "Hint: --ask-become-pass asks for the sudo password" in err


def test_trust_without_a_terminal_names_no_option_that_it_lacks(
    ansible: Ansible, cli: Cli, keys: dict[str, str]
) -> None:
    code, _, err = cli("trust", "node1")
    assert code == 5
    assert "Hint: give --yes\n" in err


def test_bootstrap_with_another_key_than_the_pinned_one(
    ansible: Ansible, cli: Cli, keys: dict[str, str], site: Path
) -> None:
    other = public_key("another").rsplit(" ", 1)[0]
    (site / "known_hosts").write_text(f"[127.0.0.1]:2 {other}\n")
    code, _, err = cli("bootstrap", "node1", "--yes")
    assert code == 5
    assert "another key is known" in err
    assert ansible.asked == []


def test_bootstrap_without_a_confirmation(ansible: Ansible, cli: Cli, keys: dict[str, str], site: Path) -> None:
    assert cli("bootstrap", "node1")[0] == 5
    assert ansible.asked == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "is not a file\nHint: "),
        ("hello", "key.pub"),
        (f"{public_key('a')}\n{public_key('b')}\n", "key.pub"),
    ],
    ids=["none", "no key", "two keys"],
)
def test_bootstrap_without_a_public_key(
    ansible: Ansible, cli: Cli, keys: dict[str, str], site: Path, text: str | None, words: str
) -> None:
    (site / "key.pub").unlink()
    if text is not None:
        (site / "key.pub").write_text(text)
    code, _, err = cli("bootstrap", "node1", "--yes")
    assert code == 2
    assert words in err
    assert ansible.asked == []


def test_bootstrap_wants_the_public_key_of_a_private_one(
    ansible: Ansible, cli: Cli, keys: dict[str, str], site: Path
) -> None:
    (site / "key.pub").unlink()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", site / "key"], check=True)
    (site / "key.pub").unlink()
    code, _, err = cli("bootstrap", "node1", "--yes")
    assert code == 2
    assert "key.pub: no such file" in err
    assert "ssh-keygen -y -f KEY" in err
    assert ansible.asked == []


def test_bootstrap_makes_no_root(ansible: Ansible, cli: Cli, keys: dict[str, str], site: Path) -> None:
    settings = site / "gpuadmin.yml"
    settings.write_text(settings.read_text().replace("user: gpuadmin", "user: root"))
    code, _, err = cli("bootstrap", "node1", "--yes")
    assert code == 2
    assert "admin.user" in err
