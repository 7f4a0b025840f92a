"""A role's variables: defaults, argument_specs, what the inventory gives it, and what its tasks use, agree."""

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpuadmin.node.plugins.module_utils.host import facts
from ansible_collections.gpuadmin.node.plugins.plugin_utils.documents import declared
from jinja2 import Environment

from gpuadmin.config.inventory import Host
from gpuadmin.config.schema import Settings
from gpuadmin.desired.cluster import Cluster
from gpuadmin.desired.hosts import ROLES as GIVEN
from gpuadmin.desired.hosts import variables
from tests.support.offenders import each_of
from tests.support.operations import find_operations
from tests.support.role_variables import rendered

ROOT = Path(__file__).resolve().parents[2]
ROLES = sorted(path.name for path in (ROOT / "roles").iterdir() if path.is_dir())

TYPES: dict[str, type | tuple[type, ...]] = {
    "str": str, "path": str, "raw": object, "int": int, "float": (int, float), "bool": bool, "list": list, "dict": dict,
    "json": (str, list),
}  # fmt: skip


@cache
def load(path: Path) -> Any:
    return yaml.load(path.read_text(), yaml.CSafeLoader) if path.exists() else None


def defaults(role: str) -> dict[str, Any]:
    return load(ROOT / "roles" / role / "defaults/main.yml") or {}


def entry_points(role: str) -> dict[str, Any]:
    found: dict[str, Any] = load(ROOT / "roles" / role / "meta/argument_specs.yml")["argument_specs"]
    return found


def options(role: str) -> dict[str, Any]:
    found: dict[str, Any] = entry_points(role)["main"]["options"]
    return found


def all_options(given: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    for name, option in given.items():
        yield f"{path}{name}", option
        yield from all_options(option.get("options", {}), f"{path}{name}.")


def templated(value: object) -> bool:
    return isinstance(value, str) and "{{" in value


@each_of(ROLES)
def test_the_anatomy_of_a_role(role: str) -> None:
    base = ROOT / "roles" / role
    for part in ("meta/argument_specs.yml", "tasks/main.yml"):
        assert (base / part).exists(), part
    if role not in BEFORE_PYTHON:
        assert "gpuadmin.node.preflight" in tasks_of(role, "main")[0], "the preflight comes first"


#: What looks, and changes nothing. On a machine to be made ready there is nothing yet that more could be asked of.
LOOKS = {"ansible.builtin.assert"}
OPERATIONS = find_operations()
BEFORE_PYTHON = {"bootstrap": {"ansible.builtin.raw", "ansible.builtin.set_fact"}}


def tasks_of(role: str, file: str) -> list[dict[str, Any]]:
    """The tasks of a file of a role's, and of those that it imports."""
    found: list[dict[str, Any]] = []
    for task in load(ROOT / "roles" / role / "tasks" / f"{file}.yml"):
        imported = task.get("ansible.builtin.import_tasks") or task.get("ansible.builtin.include_tasks")
        found += tasks_of(role, Path(imported).stem) if imported and "{{" not in imported else [task]
    return found


def looks(role: str, task: dict[str, Any]) -> bool:
    """Whether a task changes nothing, whatever it finds."""
    (action,) = [key for key in task if "." in key] or ["block"]
    if action in BEFORE_PYTHON.get(role, set()):
        return action != "ansible.builtin.raw" or task["changed_when"] is False
    if action.startswith("gpuadmin.node."):
        name = action.rpartition(".")[2]
        return name == "preflight" or OPERATIONS[name].looks
    return action in LOOKS


def run_by(path: Path) -> list[tuple[str, str]]:
    """Roles and their files of tasks, in the order in which a playbook runs them."""
    found = []
    for play in load(path):
        if "ansible.builtin.import_playbook" in play:
            found += run_by(path.with_name(play["ansible.builtin.import_playbook"]))
        found += [(one["role"], "main") for one in play.get("roles", ())]
        for task in play.get("tasks", ()):
            for call in (task[key] for key in task if key.endswith("_role")):
                found.append((call["name"], call.get("tasks_from", "main")))
    return found


@each_of(ROLES)
def test_a_preflight_changes_nothing(role: str) -> None:
    if role in BEFORE_PYTHON:
        assert load(ROOT / "roles" / role / "tasks/main.yml")[0]["ansible.builtin.import_tasks"] == "preflight.yml"
        assert all(looks(role, task) for task in tasks_of(role, "preflight"))
    own = load(ROOT / "roles" / role / "meta/preflight.yml")
    assert (own is None) == (role in BEFORE_PYTHON), "what must hold is in meta/preflight.yml"


@each_of(ROLES)
def test_an_obstacle_says_what_the_action_reads(role: str) -> None:
    """The action reads no other key: a slip in `when` or `stops` would be no error, and the obstacle another one."""
    own = load(ROOT / "roles" / role / "meta/preflight.yml") or {}
    for file in (*own.get("look", ()), *own.get("look_when_held", ())):
        assert (ROOT / "roles" / role / "tasks" / file).exists(), file
    for obstacle in own.get("obstacles", ()):
        assert {"that", "say"} <= set(obstacle) <= {"that", "say", "when", "loop", "stops"}, obstacle


@each_of(sorted((ROOT / "playbooks").glob("*.yml")))
def test_no_task_that_changes_comes_before_a_preflight(path: Path) -> None:
    """Whoever reads that a host is not ready for one role reads it before another has changed the host."""
    changed: list[str] = []
    before: set[str] = set()
    for role, file in run_by(path):
        if (role, file) == ("node_state", "before"):
            before = {name for name, _ in run_by(path)}  # the action reads the same list
            continue
        if "{{" in file:  # what a verb asks of one role
            continue
        for task in tasks_of(role, file):
            if "gpuadmin.node.preflight" in task:
                assert not changed, f"{role} looks what is in the way after {changed[0]}"
                before.add(role)
            elif not looks(role, task):
                changed.append(f"{role}: {task['name']}")
        if file == "converge":
            assert role in before, f"nobody has looked what is in {role}'s way"


def test_what_a_playbook_runs_is_read_by_the_action_as_by_this_test() -> None:
    from ansible_collections.gpuadmin.node.plugins.plugin_utils.roles import called_by

    path = ROOT / "playbooks/provision.yml"
    assert [one.name for one in called_by(load(path))] == [name for name, file in run_by(path) if file == "converge"]
    assert [one.when for one in called_by(load(path)) if one.name == "homes_client"] == [("'gpu' in group_names",)]


SAID = re.compile(r"(?i)nothing (was|has been|is) (changed|touched|done)")


def test_what_is_to_start_at_boot_is_enabled_where_it_is_installed() -> None:
    """Debian enables what it installs, so no lab misses it: homes would be away after a boot of the storage host."""
    found = {}
    for path in sorted((ROOT / "roles").glob("*/tasks/*.yml")):
        for task in load(path) or []:
            units = re.findall(r"or (\w+) (?:not in|is not subset).*enabled_units", str(task.get("when")))
            if "gpuadmin.node.packages" in task and units:
                found[path.parts[-3]] = (units, re.findall(r"\w+", str(task["gpuadmin.node.packages"].get("enable"))))
    assert found.keys() == {"homes_server", "monitoring", "node_metrics"}
    assert all(units == enabled for units, enabled in found.values()), found


@each_of(ROLES)
def test_that_nothing_was_changed_is_said_from_what_happened(role: str) -> None:
    said = [str(path) for path in (ROOT / "roles" / role).rglob("*.yml") if SAID.search(path.read_text())]
    assert said == []


@each_of(ROLES)
def test_every_default_has_a_spec_and_every_spec_a_default(role: str) -> None:
    specs, given = options(role), defaults(role)
    assert set(given) - set(specs) == set()
    required = {name for name, option in specs.items() if option.get("required")}
    assert set(specs) - set(given) - required == set()
    assert all(name.startswith(f"{role}_") for name in specs)


@each_of(ROLES)
def test_defaults_are_of_the_type_that_the_specs_say(role: str) -> None:
    for name, value in defaults(role).items():
        option = options(role)[name]
        assert "default" not in option, f"{name}: defaults/main.yml alone has the value"
        if value is None or templated(value):
            continue
        assert isinstance(value, TYPES[option["type"]]), name
        assert not (option["type"] == "int" and isinstance(value, bool)), name
        if "choices" in option:
            assert value in option["choices"], name


@each_of(ROLES)
def test_every_option_has_a_type_and_is_described(role: str) -> None:
    for point, spec in entry_points(role).items():
        assert spec.get("short_description"), point
        for name, option in all_options(spec["options"]):
            assert option.get("description"), name
            assert option.get("type") in TYPES, name
            assert (option["type"] == "list") == ("elements" in option), name


@each_of(ROLES)
def test_every_entry_point_is_a_file_of_tasks(role: str) -> None:
    for point in entry_points(role):
        assert (ROOT / "roles" / role / "tasks" / f"{point}.yml").exists()


def given() -> dict[str, Any]:
    """What each host is given, whatever its groups are."""
    request = {f"gpuadmin_{name}": "[]" for name in ("users", "image", "signers")}
    cluster = Cluster(Settings(name="x"), (Host("gpu1", ("gpu",)),), request)
    return variables(cluster, cluster.hosts[0])


def test_what_hosts_are_given_is_for_roles_that_are_there() -> None:
    assert set(GIVEN) <= set(ROLES)
    assert len(given()) > 150


@each_of(ROLES)
def test_what_a_role_is_given_it_does_not_have_a_second_time(role: str) -> None:
    """A default would hide that a run went on without what hosts are meant to be."""
    assert set(given()) & (set(defaults(role)) | set(options(role))) == set()


def find_conditions(tasks: Any) -> Iterator[str]:
    """Given tasks, yield each expression that decides something: `when: [a, b]` gives a and b."""
    for task in tasks or ():
        for key in ("when", "changed_when", "failed_when", "until"):
            found = task.get(key, [])
            yield from map(str, found if isinstance(found, list) else [found])
        for key in ("block", "rescue", "always"):
            yield from find_conditions(task.get(key))


@each_of(ROLES)
def test_a_condition_is_true_or_false(role: str) -> None:
    """Ansible ends a run where `when: NAME` is a list or a text: `when: NAME | length > 0`."""
    values = {**given(), **defaults(role)}
    operands = {
        operand.strip()
        for path in sorted((ROOT / "roles" / role).glob("*/*.yml"))
        if path.parent.name in ("tasks", "handlers")
        for condition in find_conditions(load(path))
        for operand in re.split(r"\band\b|\bor\b|\bnot\b|[()]", condition)
    }
    assert [
        name
        for name in sorted(operands & set(values))
        if not isinstance(values[name], bool) and not templated(values[name])
    ] == []


def test_every_site_key_that_the_inventory_reads_is_in_the_schema() -> None:
    site = Settings(name="x").model_dump()
    texts = [(ROOT / "inventory/groups.yml").read_text()]
    texts += [path.read_text() for path in (ROOT / "playbooks").glob("*.yml")]
    used = set(re.findall(r"gpuadmin_site\.([a-z_.]+)", "\n".join(texts)))
    assert used
    for name in used:
        value: Any = site
        for step in name.split("."):
            assert step in value, f"gpuadmin_site.{name}"
            value = value[step]


def test_roles_do_not_know_the_site() -> None:
    """gpuadmin.desired is the one place where a site's key becomes a role's variable."""
    knowing = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "roles").rglob("*")
        if path.is_file() and re.search(r"gpuadmin_(site|users|absent|archive_homes)\b", path.read_text())
    ]
    assert knowing == []


def fields_of(role: str) -> set[str]:
    """Fields that operations take from a role's variables."""
    found = map(declared, OPERATIONS)
    return {field for whose, fields in found if whose == role for field in fields}


@each_of(ROLES)
def test_a_role_uses_variables_of_its_own_and_all_that_it_has(role: str) -> None:
    base = ROOT / "roles" / role
    text = "\n".join(
        path.read_text()
        for part in ("defaults", "tasks", "handlers", "templates", "vars", "meta")
        for path in sorted((base / part).rglob("*"))
        if path.is_file() and (part != "meta" or path.name == "preflight.yml")
    )
    names = set(re.findall(r"\b_{0,2}" + role + r"_[a-z_]+", text))
    others = [other for other in ROLES if other != role]
    foreign = {name for other in others for name in re.findall(r"(?<![\w.])_{0,2}" + other + r"_[a-z_]+", text)}
    assert foreign == set()
    used = set(re.findall(r"\b" + role + r"_[a-z_]+", re.sub(r"(?m)^" + role + r"_[a-z_]+:", "", text)))
    used |= {f"{role}_{field}" for field in fields_of(role)}
    assert set(options(role)) - used == set(), "variables that nothing uses"
    assert {name for name in names if not name.startswith("_")} - set(options(role)) - set(given()) == set(), (
        "variables without a spec"
    )


@each_of(ROLES)
def test_own_names_are_defined(role: str) -> None:
    """What a role calls `_ROLE_name` is nobody else's; Ansible says that it is undefined only on a host."""
    text = "\n".join(path.read_text() for path in (ROOT / "roles" / role).rglob("*") if path.is_file())
    used = set(re.findall(rf"(?<!\w)_{role}_[a-z0-9_]+", text))
    assert used - set(re.findall(rf"(?m)(?:^[ -]*|set )(_{role}_[a-z0-9_]+)(?: =|:)", text)) == set()


@each_of(ROLES)
def test_debian_and_ubuntu_have_the_same_variables(role: str) -> None:
    files = {path.stem: load(path) for path in (ROOT / "roles" / role / "vars").glob("*.yml") if path.stem != "main"}
    if files:
        assert set(files) == {"debian", "ubuntu"}
        assert len({frozenset(variables) for variables in files.values()}) == 1


FACT = re.compile(r"ansible_facts\['gpuadmin'\](?:\.|\[')([a-z_]+)")
NEEDS = re.compile(r"Needs of the fact gpuadmin, which the role node_state sets before it: ([a-z_, ]+)\.")


def facts_used(role: str) -> set[str]:
    return {
        name for path in (ROOT / "roles" / role).rglob("*") if path.is_file() for name in FACT.findall(path.read_text())
    }


@each_of([role for role in ROLES if role != "node_state"])
def test_a_role_declares_the_facts_that_another_role_sets(role: str) -> None:
    description = entry_points(role)["main"]["description"]
    declared = NEEDS.findall("\n".join([description] if isinstance(description, str) else description))
    assert declared == ([", ".join(sorted(facts_used(role)))] if facts_used(role) else [])


def test_facts_that_roles_use_are_found() -> None:
    found = facts.facts([])
    assert set().union(*map(facts_used, ROLES)) <= set(found)


@each_of(sorted((ROOT / "playbooks").glob("*.yml")))
def test_facts_are_there_before_a_role_needs_them(path: Path) -> None:
    """In each play node_state comes before a role whose main tasks need what it found."""
    for play in load(path) or []:
        order = [role["role"] for role in play.get("roles", [])]
        for task in play.get("tasks", []):
            for verb in ("ansible.builtin.include_role", "ansible.builtin.import_role"):
                if verb in task and "tasks_from" not in task[verb]:
                    order.append(task[verb]["name"])
        needing = [number for number, role in enumerate(order) if role != "node_state" and facts_used(role)]
        if needing:
            assert "node_state" in order[: needing[0]], order


@pytest.mark.parametrize("check", [True, False])
def test_a_check_says_that_a_host_is_switched_off_and_only_the_run_does_it(check: bool) -> None:
    """Ansible skips a command in check mode: another task of that name says the change."""
    tasks = [one for one in load(ROOT / "roles/power/tasks/main.yml") if one["name"] == "Switch it off"]
    known = {"ansible_check_mode": check, "power_step": "switch", "power_action": "shutdown"}
    (one,) = [task for task in tasks if Environment().compile_expression(task["when"])(**known)]
    assert one["changed_when"] is True
    assert ("ansible.builtin.command" in one) is not check


@each_of(["image_switch", "power"])
def test_before_a_reboot_a_role_reports_how_long_it_may_take(role: str) -> None:
    """`gpuadmin.progress` shows until when a host may take."""
    files = (ROOT / "roles" / role / "tasks").glob("*.yml")
    blocks = [one["block"] for path in files for one in load(path) if "block" in one]
    (pair,) = [pair for block in blocks for pair in pairwise(block) if "ansible.builtin.reboot" in pair[1]]
    report, reboot = pair
    limit = reboot["ansible.builtin.reboot"]["reboot_timeout"]
    assert report["ansible.builtin.set_stats"]["data"] == {"gpuadmin_seconds": limit}


def all_tasks_of(role: str) -> list[dict[str, Any]]:
    paths = [path for name in ("tasks", "handlers") for path in sorted((ROOT / "roles" / role / name).glob("*.yml"))]
    return [task for path in paths for task in load(path) or []]


def followed_by_a_task(role: str) -> list[dict[str, Any]]:
    """The tasks whose change others of the role follow: handlers, and those that ask whether it is one."""
    tasks = all_tasks_of(role)
    asked = {name for task in tasks for name in re.findall(r"(\w+) is changed", str(task.get("when", "")))}
    return [task for task in tasks if "notify" in task or task.get("register") in asked]


def named(role: str) -> list[str]:
    """What a role's tasks say in `follows`."""
    values = [value for task in all_tasks_of(role) for value in task.values() if isinstance(value, dict)]
    return [value["follows"] for value in values if "follows" in value]


@each_of([role for role in ROLES if followed_by_a_task(role) or named(role)])
def test_what_has_to_follow_a_change_does_so_until_it_has(role: str) -> None:
    """A run that is killed in between has changed everything: the next one would follow nothing."""
    for task in followed_by_a_task(role):
        assert any("follows" in value for name, value in task.items() if "gpuadmin.node" in name), task["name"]
    done = [name for task in all_tasks_of(role) for name in (task.get("gpuadmin.node.files") or {}).get("followed", ())]
    assert sorted(done) == sorted(named(role))


def test_whatever_tells_slurm_of_nodes_makes_good_what_another_left() -> None:
    """`mig` writes the same files as provision does: cut off before Slurm has read them, both find nothing to write."""
    tasks = [task for role in ("slurm_controller", "slurm_node") for task in all_tasks_of(role)]
    said = [task["gpuadmin.node.slurm_nodes"]["follows"] for task in tasks if "gpuadmin.node.slurm_nodes" in task]
    assert said == ["slurm-nodes"] * 2


def test_an_image_store_is_exported_to_nobody_where_there_is_no_node() -> None:
    """A path without a client is one that everybody may mount."""
    values = {"image_store_path": "/srv/images", "_image_store_options": ["sync"], "image_store_writers": []}
    nobody, one = (
        rendered("image_store", "gpuadmin-images.exports.j2", values | {"image_store_readers": some}).splitlines()[1:]
        for some in ([], ["10.0.0.2"])
    )
    assert nobody == []
    assert one[0] == "/srv/images \\"
    assert one[1].startswith("    10.0.0.2(ro,sync,fsid=")
