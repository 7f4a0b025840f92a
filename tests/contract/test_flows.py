"""What one host says reaches another only parsed: each such flow has its line in docs/security.md."""

import re
from pathlib import Path

from tests.support.offenders import each_of

ROOT = Path(__file__).resolve().parents[2]
FILES = {
    str(path.relative_to(ROOT)): path.read_text()
    for top in ("roles", "playbooks", "inventory")
    for path in sorted((ROOT / top).rglob("*"))
    if path.suffix in (".yml", ".j2")
}
SECTION = (
    (ROOT / "docs/security.md")
    .read_text()
    .partition("### What one host says and another is given\n")[2]
    .partition("\n### ")[0]
)
#: What another host's variables are asked for. The first is the inventory's own: no host has a say in it.
HEARD = {
    "gpuadmin_address": "",
    "__homes_server_homes": "gpuadmin.node.refusals",
    "ansible_facts": "'hardware'",  # numbers, a model and MIG devices, each checked: slurm/nodes.py, slurm/divided.py
    "__image_store_found": "",  # a text, of which the node that gets it checks the signature
}
#: Where something is done on another host than the play's, with what the play's host said.
ELSEWHERE = {
    ("roles/backups/tasks/remote.yml", "{{ backups_remote.host }}"), ("roles/image_build/tasks/seal.yml", "localhost"),
    ("roles/power/tasks/main.yml", "localhost"),  # waiting alone
    # the node's name is the inventory's; of the node itself is the release of its slurmd, which is numbers or refused,
    # and what it has, as in provision
    *(
        (f"roles/slurm_node/tasks/{name}.yml", "{{ slurm_node_away.host | default(inventory_hostname) }}")
        for name in ("away", "back", "divided", "empty")
    ),
    ("roles/slurm_node/tasks/order.yml", "{{ slurm_node_host }}"),
}  # fmt: skip
TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)


def templates(pattern: str) -> list[tuple[str, str]]:
    """File and expression, of those that have the pattern in them."""
    return [(name, one) for name, text in FILES.items() for one in TEMPLATE.findall(text) if re.search(pattern, one)]


def test_there_is_something_to_look_at() -> None:
    assert len(FILES) > 100
    assert SECTION.count("\n| ") > 10


@each_of(templates(r"\bhostvars\b"))
def test_what_is_taken_of_another_host_is_parsed(place: tuple[str, str]) -> None:
    name, expression = place
    found = re.findall(r"hostvars\[.*?\]\.(\w+)|hostvars, \[?'(\w+)'", expression)
    names = {one for pair in found for one in pair if one}
    assert names, f"{name}: {expression}: say here how it is parsed"
    assert names <= HEARD.keys()
    for one in names:
        assert HEARD[one] in expression
        assert one == "gpuadmin_address" or name in SECTION


@each_of(templates(r"b64decode"))
def test_what_is_read_from_a_file_of_a_host_is_parsed(place: tuple[str, str]) -> None:
    """`slurp` brings bytes of the host's choice: as many lines as it likes."""
    name, expression = place
    assert re.search(r"\| b64decode \| gpuadmin\.node\.ssh_key\b", expression)
    assert name in SECTION


def test_what_is_read_is_used_nowhere_else() -> None:
    read = set()
    for text in FILES.values():
        read |= set(re.findall(r"ansible\.builtin\.slurp:(?:\n[^-]*?)register: (\w+)", text))
    assert read == {"__backups_key", "__backups_host_key"}
    assert all("b64decode" in one for name in read for _, one in templates(rf"\b{name}\b"))


def test_what_is_done_on_another_host_is_known() -> None:
    found = {(name, one) for name, text in FILES.items() for one in re.findall(r'delegate_to: "?([^"\n]+)', text)}
    assert found == ELSEWHERE
    assert not [
        name
        for name, text in FILES.items()
        if re.search(r"delegate_facts|ansible\.builtin\.(?:add_host|group_by|fetch)", text)
    ]


def test_a_role_hears_of_another_host_by_the_inventory_alone() -> None:
    """A registered variable of another role, in group_vars, is this host's own; hostvars are above."""
    own = {name: re.findall(r"\b__\w+", text) for name, text in FILES.items() if name.startswith("inventory/")}
    assert {one for found in own.values() for one in found} <= {*HEARD, "__image_build_finished"}


@each_of(re.findall(r"`(tests/[\w/.]+?\.py)(?:::(\w+))?`", SECTION))
def test_the_tests_that_hold_a_flow_are_there(path: tuple[str, str]) -> None:
    text = (ROOT / path[0]).read_text()
    assert not path[1] or f"def {path[1]}(" in text
