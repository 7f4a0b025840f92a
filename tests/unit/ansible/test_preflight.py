"""All obstacles of all roles of a playbook are found on all hosts before the first change."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpuadmin.node.plugins.action.preflight import LONGEST, MOST, Found

from gpuadmin.ansible import invocation
from gpuadmin.ansible import runner as layer
from gpuadmin.ansible.invocation import Invocation
from gpuadmin.config.load import load_site
from gpuadmin.results import RunResult
from tests.support.sites import make_local_site

pytestmark = pytest.mark.holds(
    "a host with an obstacle is not changed", "obstacles of all roles are found before the first one changes a host"
)


PLAYBOOK = """
- name: Look for what is in the way
  hosts: all
  gather_facts: false
  tasks:
    - name: Look for what is in the way
      ansible.builtin.import_role: {name: first, tasks_from: before}
- name: Change things
  hosts: all
  gather_facts: false
  strategy: ansible.builtin.free
  tasks:
    - name: First
      ansible.builtin.include_role: {name: first, tasks_from: converge}
    - name: Second
      ansible.builtin.include_role: {name: second, tasks_from: converge}
      when: inventory_hostname != 'node2'
"""
CONVERGE = """
- name: Change
  ansible.builtin.command: touch {{ mark }}/{{ inventory_hostname }}-{{ role_name }}
  changed_when: true
"""


@dataclass(frozen=True)
class Go:
    """`go(first, second, check=…)`: two roles with these meta/preflight.yml, in a playbook over three hosts."""

    run: Callable[..., RunResult]
    roles: Path

    def __call__(self, first: str, second: str, **more: object) -> RunResult:
        return self.run(first, second, **more)

    def content(self, name: str, text: str) -> None:
        """Give a role another file."""
        write(self.roles / name, text)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Go:
    site = load_site(str(make_local_site(tmp_path / "site")))
    content = tmp_path / "content"
    for module in (layer, invocation):
        monkeypatch.setattr(module, "content_path", content.joinpath)
    write(content / "playbooks/test.yml", PLAYBOOK)
    (tmp_path / "marks").mkdir()

    def run(first: str, second: str, *, check: bool = False, word: str = "str") -> RunResult:
        for name, text in {"first": first, "second": second}.items():
            role = content / "roles" / name
            write(role / "meta/preflight.yml", text)
            options = {f"{name}_count": {"type": "int"}, f"{name}_word": {"type": word}}
            spec = {"argument_specs": {"main": {"short_description": name, "options": options}}}
            write(role / "meta/argument_specs.yml", yaml.safe_dump(spec))
            write(role / "defaults/main.yml", f"{name}_count: '{{{{ 1 + 1 }}}}'\n{name}_word: default\n")
            write(role / "vars/main.yml", f"_{name}_sentence: '{{{{ {name}_word }}}} of {name}'\n")
            write(role / "vars/debian.yml", f"_{name}_family: debian\n")
            write(role / "tasks/converge.yml", CONVERGE)
        write(
            content / "roles/first/tasks/before.yml", "- name: Look\n  gpuadmin.node.preflight:\n    playbook: true\n"
        )
        return layer.run(
            Invocation(
                playbook="test",
                inventory=site.inventory.sources,
                known_hosts=site.known_hosts,
                hosts=3,
                check=check,
                variables={"gpuadmin_site": site.settings.model_dump(mode="json"), "mark": str(tmp_path / "marks")},
                log=tmp_path / "log.txt",
            )
        )

    return Go(run, content / "roles")


def marks(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "marks").iterdir())


OBSTACLE = """
obstacles:
  - that: "'{host}' not in inventory_hostname"
    say: "{text}"
"""


@pytest.mark.parametrize("check", [False, True])
def test_an_obstacle_of_the_last_role_comes_before_the_change_of_the_first(go: Go, tmp_path: Path, check: bool) -> None:
    first = "obstacles:\n" + "".join(
        f"  - {{that: inventory_hostname != 'node1', say: 'in the way {number}'}}\n" for number in (1, 2)
    )
    second = "variables: debian.yml\n" + OBSTACLE.format(
        host="node", text="{{ _second_sentence }} ({{ _second_family }})"
    )
    result = go(first, second, check=check)
    node = result.hosts["node1"]
    assert (node.status, node.changed) == ("failed", [])
    assert node.obstacles == ["in the way 1", "in the way 2", "default of second (debian)"]
    assert node.message == "in the way 1; in the way 2; default of second (debian)"
    assert result.hosts["node2"].status != "failed", "the second role is not for it"
    assert marks(tmp_path) == ([] if check else ["node2-first", "storage1-first", "storage1-second"])


CASES = {
    "what cannot be told does not hold": ("obstacles: [{that: nobody.knows > 1, say: x}]", "nobody"),
    "a variable that its spec does not allow": (
        "obstacles: [{that: first_count is undefined, when: false, say: x}]\n", None
    ),
    "each of a loop": (
        "obstacles: [{loop: '{{ [1, 7, 9] }}', that: item < 5, say: 'not {{ item }}'}]", "not 7; not 9"
    ),
    "one that does not concern the host": (
        "obstacles: [{that: false, when: inventory_hostname == 'other', say: x}]", None
    ),
    "after one that stops nothing is asked": ("obstacles: [{that: false, stops: true, say: alone}]", "alone"),
    "one that stops may not be the last": (
        "obstacles: [{that: false, stops: true, say: this}, {that: false, say: that}]", "this; that"
    ),
    "a role's files have what is known, and nothing else": ("obstacle: [{that: true, say: x}]", "may have"),
    "a role's file is a mapping": ("[{that: true, say: x}]", "may have"),
}  # fmt: skip


@pytest.mark.holds("what cannot be told of a host does not hold there")
@pytest.mark.parametrize("name", CASES)
def test_what_an_obstacle_is(go: Go, name: str) -> None:
    first, message = CASES[name]
    second = "obstacles: [{that: false, say: second}]" if "stops" in name else "{}"
    found = go(first, second, check=True).hosts["storage1"].message
    if "stops" in name:
        assert found == message
    else:
        assert (message in found) if message and found else found is message


def test_arguments_are_checked_before_anything_is_changed(go: Go, tmp_path: Path) -> None:
    result = go("{}", "{}", word="int")
    message = result.hosts["node1"].message or ""
    assert "first_word" in message
    assert "second_word" in message
    assert marks(tmp_path) == []


@pytest.mark.holds("a look for obstacles changes nothing")
def test_modules_that_look_change_nothing(go: Go, tmp_path: Path) -> None:
    mark = tmp_path / "marks/written"
    task = f"- name: Write\n  gpuadmin.node.files:\n    files: [{{path: {mark}, content: x}}]\n"
    go.content("first/tasks/write.yml", task)
    result = go("look: [write.yml]", "{}")
    assert {host.status for host in result.hosts.values()} == {"changed"}, "nothing is in the way"
    assert "written" not in marks(tmp_path)


def test_what_looks_fails_is_in_the_way(go: Go, tmp_path: Path) -> None:
    """And one that looks only where something else is in the way is not asked before."""
    go.content("first/tasks/odd.yml", "- name: Ask\n  gpuadmin.node.accounts:\n    nonsense: 1\n")
    odd = "accounts has 'nonsense', which is not one of"
    assert odd in (go("look: [odd.yml]", "{}").hosts["node1"].message or "")
    held = "look_when_held: [odd.yml]\n"
    found = go(f"{held}obstacles: [{{that: false, say: in the way}}]", "{}").hosts["node1"].obstacles
    assert (found[0], odd in found[1]) == ("in the way", True)
    assert marks(tmp_path) == []
    assert go(held, "{}").hosts["node1"].status == "changed"


def test_facts_of_a_host_are_asked_for_once_and_no_role_is_looked_at_without(go: Go, tmp_path: Path) -> None:
    facts = "- name: Look\n  gpuadmin.node.host_facts:\n    paths: {paths}\n"
    go.content("first/tasks/facts.yml", facts.format(paths="[/]"))
    known = "obstacles: [{that: 'ansible_facts.gpuadmin.name is undefined', say: this is known}]"
    assert go("look: [facts.yml]", known).hosts["node1"].obstacles == ["this is known"]
    go.content("first/tasks/facts.yml", facts.format(paths="7"))
    (alone,) = go("look: [facts.yml]", "obstacles: [{that: false, say: nobody asks}]").hosts["node1"].obstacles
    assert "host_facts.paths is 7, not a list" in alone
    assert marks(tmp_path) == ["node2-first"], "which the second role is not for, at first"


def test_what_is_told_of_a_host_has_an_end() -> None:
    found = Found([f"{number} {'x' * 1000}" for number in range(MOST)], ["0 " + "x" * 1000])
    assert (len(found.lines()), {len(line) for line in found.lines()}) == (MOST, {LONGEST})
    found.people.append("and one of a person's")
    assert found.lines()[MOST:] == ["and 1 more"]
    assert Found(["a\n  b", "a b"]).lines() == ["a b"], "each once, on a line"


PEOPLE = """
- name: Apply the accounts
  gpuadmin.node.accounts:
    users: '[{"name": "nobody", "uid": 20000}]'
    state_directory: /nonexistent/gpuadmin
"""


@pytest.mark.holds("one person's conflict holds nobody else")
@pytest.mark.root
@pytest.mark.parametrize("obstacle", [False, True])
def test_one_persons_conflict_is_told_and_holds_nobody(go: Go, obstacle: bool) -> None:
    go.content("first/tasks/people.yml", PEOPLE)
    held = f"obstacles: [{{that: {str(not obstacle).lower()}, say: in the way}}]"
    host = go("look: [people.yml]", held).hosts["node1"]
    if obstacle:
        assert host.obstacles[0] == "in the way"
        assert "user nobody" in host.obstacles[1]
    else:
        assert (host.status, host.obstacles) == ("changed", [])
