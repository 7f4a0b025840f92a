"""A verb is one line of help, one command, and one playbook of the same name."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from gpuadmin.cli import VERBS, cli
from gpuadmin.cli._manual import commands
from gpuadmin.options import Options
from tests.support.offenders import each_of

ROOT = Path(__file__).resolve().parents[2]

# These work on this machine alone, or ask Prometheus.
LOCAL = {
    "init", "check", "trust", "notify", "runs", "ssh", "lab", "schema", "completion", "man", "user-guide",
    "call-for-applications", "usage", "report", "dashboard", "rehearse",
}  # fmt: skip
# These bring accounts to what users.yml says then: all of them run the playbook of sync-users.
OF_ACCOUNTS = {
    "add-user", "change-user", "extend-term", "extend-user", "import-applications", "list-users", "lock-user",
    "remove-user", "unlock-user",
}  # fmt: skip
# the playbooks of grant, of drain, of announce, of run, of shutdown
OF_GRANT = {"revoke", "resume", "maintain", "logs", "power"}
#: Beside their verb's own: of `diagnose --restart-docker`, of `install --stick` and `--serve`.
STEPS = {"restart-docker", "make-stick", "serve-stick"}
#: Whatever --limit says: on those that are named, the golden node, the one of the group slurm, or all (promote).
ON_ONE_HOST = {"adopt", "build-image", "grant", "install", "promote", "queue", "drain", "resume"}
READ_ONLY = {"compare", "drift", "list-users", "status", "top"}
PLAYBOOKS = sorted((ROOT / "playbooks").glob("*.yml"))


def command(verb: str) -> click.Command:
    found = cli.get_command(click.Context(cli), verb)
    assert found is not None
    return found


def test_every_verb_that_is_not_local_has_a_playbook_and_the_other_way_round() -> None:
    assert {path.stem for path in PLAYBOOKS} == (set(VERBS) - LOCAL - OF_ACCOUNTS - OF_GRANT) | STEPS


@each_of(VERBS)
def test_a_verb_is_called_as_it_is_listed(verb: str) -> None:
    assert command(verb).name in (verb, None, "command")
    assert command(verb).help, "it explains itself"


@each_of(VERBS)
def test_what_help_speaks_of_is_among_its_options(verb: str) -> None:
    one = command(verb)
    shown = {name for option in one.params if not getattr(option, "hidden", False) for name in option.opts}
    below = set(one.commands) if isinstance(one, click.Group) else set()
    spoken = {name for line in (one.help or "").splitlines() for name in re.findall(r"(?<![\w-])--[a-z][a-z-]*", line)}
    assert below or spoken <= shown, f"gpuadmin {verb} --help does not list {sorted(spoken - shown)}"


@each_of(sorted(set(VERBS) - LOCAL))
def test_the_options_that_all_verbs_share(verb: str) -> None:
    options = {option for parameter in command(verb).params for option in parameter.opts}
    expected = {"--site", "--limit", "--json", "-v", "--ask-pass", "--ask-become-pass"}
    expected |= set() if verb in READ_ONLY else {"--check", "--yes"}
    expected -= {"--limit"} if verb in ON_ONE_HOST else set()
    assert expected <= options
    assert set(Options.__dataclass_fields__) == {
        "site", "limit", "check", "yes", "json", "verbose", "ask_pass", "ask_become_pass",
    }  # fmt: skip


@each_of(sorted({*VERBS} - {"run"}))  # run says itself that it needs a command
def test_what_may_be_left_out_is_in_brackets(verb: str) -> None:
    context = click.Context(cli)
    command = cli.get_command(context, verb)
    assert command is not None
    for argument in command.params:
        if isinstance(argument, click.Argument) and argument.metavar is not None:  # else click does it
            assert argument.required != argument.metavar.startswith("["), argument.metavar


def test_every_option_says_what_it_does() -> None:
    silent = [
        f"{path} {parameter.opts[0]}"
        for path, found, _ in commands(cli, "gpuadmin")
        for parameter in found.params
        if isinstance(parameter, click.Option) and not parameter.help
    ]
    assert silent == []


PLAY_KEYS = {
    "max_fail_percentage",
    "name",
    "hosts",
    "gather_facts",
    "gather_subset",
    "roles",
    "tasks",
    "any_errors_fatal",
    "serial",
    "strategy",
}
ROLE_TASKS = {"ansible.builtin.include_role", "ansible.builtin.import_role"}


def plays(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(path.read_text())
    return found


@each_of(PLAYBOOKS)
def test_playbooks_hold_hosts_and_roles_and_nothing_else(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 60
    for play in plays(path):
        if "ansible.builtin.import_playbook" in play:
            assert set(play) == {"name", "ansible.builtin.import_playbook"}
            assert (path.parent / play["ansible.builtin.import_playbook"]).exists()
            continue
        assert set(play) <= PLAY_KEYS
        for task in play.get("tasks", []):
            if set(task) == {"name", "when", "ansible.builtin.meta"}:  # costs nothing on a host, as a skipped role does
                assert task["ansible.builtin.meta"] == "end_host"
                continue
            (action,) = set(task) & ROLE_TASKS
            assert set(task) <= {"name", "when", action}
            assert (ROOT / "roles" / task[action]["name"]).is_dir()


@each_of(PLAYBOOKS)
def test_playbooks_are_for_groups_that_every_site_has(path: Path) -> None:
    from gpuadmin.config.groups import GROUPS

    for play in plays(path):
        if "hosts" in play:
            assert set(str(play["hosts"]).split(":")) <= set(GROUPS)


HEAVY = ("ansible", "ansible_runner", "rich", "pydantic", "paramiko", "yaml", "ruamel", "jinja2", "json", "subprocess")


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["sync-users", "--help"], ["completion", "bash"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    """What start-up time comes from; benchmarks/startup.py measures the time itself."""
    code = (
        "import sys\nimport click\nbefore = set(sys.modules)\nfrom gpuadmin.cli import main\n"
        "try:\n    main()\nfinally:\n"
        "    loaded = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "    print('\\n'.join(loaded), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    # click looks for bash's version itself, and a checkout asks git for its commit
    if arguments not in (["completion", "bash"], ["--version"]):
        assert loaded & set(HEAVY) == set()
    assert loaded & set(HEAVY[:7]) == set()


def test_a_file_of_verbs_leaves_the_others_alone() -> None:
    code = "import sys\nimport gpuadmin.cli.people\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    verbs = {name for name in done.stdout.split() if name.startswith("gpuadmin.cli.") and "._" not in name}
    assert verbs == {"gpuadmin.cli.people"}
