"""The role gpu_stack on Debian and Ubuntu: what it would install and write. No host of it is needed."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpuadmin.node.plugins.module_utils import unit
from ansible_collections.gpuadmin.node.plugins.module_utils.cgroups import JOB_SERVICES
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import operations

from tests.support import role_variables

ROOT = Path(__file__).resolve().parents[2]
KERNEL = "6.12.57+deb13-cloud-amd64"
REPOSITORY = {"url": "https://mirror.example.org/gpu", "suite": "/", "components": ["main"], "packages": []}
#: Host → its distribution, what it has, and what the site wants of it.
HOSTS: dict[str, dict[str, Any]] = {
    "debian": {"_packages": ["linux-image-cloud-amd64", f"linux-image-{KERNEL}"], "gpu_stack_driver": "distribution"},
    "debian_old": {
        "_packages": [f"linux-image-{KERNEL}"], "gpu_stack_driver": "distribution",
        "gpu_stack_modules": "proprietary", "gpu_stack_version": "550", "_root": True,
    },
    "debian_nvidia": {
        "gpu_stack_driver": "repository", "gpu_stack_repository": REPOSITORY,
        "gpu_stack_toolkit": "repository", "gpu_stack_toolkit_repository": REPOSITORY,
        "gpu_stack_hold": True, "_switches": 4,
    },
    "ubuntu": {
        "_distribution": "ubuntu", "_packages": ["linux-image-generic-hwe-24.04"],
        "gpu_stack_driver": "distribution", "gpu_stack_version": "570.172.08", "_switches": 4,
    },
}  # fmt: skip
#: Host → what it wants, and a part of the refusal.
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "without_a_source": ({"gpu_stack_driver": "repository"}, "gpuadmin.yml names none"),
    "without_a_toolkit": ({"gpu_stack_toolkit": "distribution"}, "(distribution) of a repository or from elsewhere"),
    "ubuntu_without_a_branch": (
        {"_distribution": "ubuntu", "gpu_stack_driver": "distribution"}, "a package for each branch",
    ),
    "a_slip": ({"gpu_stack_driver": "distributon"}, "The GPU driver (distributon)"),
    "switches": ({"gpu_stack_driver": "distribution", "_switches": 4}, "has NVSwitches"),
}  # fmt: skip
SHOWN = ("wanted", "toolkit_wanted", "fabric_packages", "repository_files", "repository_paths", "initramfs",
         "build_files", "build_directories", "hook_files")  # fmt: skip


def variables(name: str, given: dict[str, Any]) -> dict[str, Any]:
    facts = {
        "distribution": given.get("_distribution", "debian"), "name": name, "codename": "trixie",
        "packages": given.get("_packages", []), "kernels": [KERNEL], "nvswitches": given.get("_switches", 0),
        "read_only_root": given.get("_root", False),
    }  # fmt: skip
    wanted = {key: value for key, value in given.items() if key[0] != "_"}
    return {**role_variables.given("gpu_stack"), **wanted, "facts": facts}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Host → what the role's variables are there, or ``refusal``. One run of Ansible for all of them."""
    base = tmp_path_factory.mktemp("gpu_stack")
    known = {**HOSTS, **{name: given for name, (given, _) in REFUSED.items()}}
    (base / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": {k: variables(k, v) for k, v in known.items()}}}))
    (base / "templates").symlink_to(ROOT / "roles/gpu_stack/templates")  # lookups are made outside of the role here
    shown = "{" + ", ".join(f"'{one}': _gpu_stack_{one}" for one in SHOWN) + "}"
    own = yaml.safe_load((ROOT / "roles/gpu_stack/meta/preflight.yml").read_text())
    play = [
        {
            "hosts": "all", "gather_facts": False, "connection": "local",
            "tasks": [
                {"set_fact": {"gpuadmin": "{{ facts }}", "cacheable": True}},
                {
                    "block": [
                        {"include_role": {"name": "gpu_stack", "tasks_from": "preflight", "public": True}},
                        {"include_vars": {"file": f"{ROOT}/roles/gpu_stack/vars/{own['variables']}"}},
                        {"set_fact": {"answer": f"{{{{ {shown} }}}}"}},
                    ],
                    "rescue": [{"set_fact": {"answer": "{{ {'refusal': ansible_failed_result.msg} }}"}}],
                },
                {
                    # one module for all: each takes a process, of Ansible's and of Python's
                    "run_once": True,
                    "copy": {
                        "dest": f"{base}/answers",
                        "content": "{{ dict(ansible_play_hosts | zip(ansible_play_hosts | map('extract', hostvars, "
                        "'answer'))) | to_json }}",
                    },
                },
            ],
        }
    ]  # fmt: skip
    (base / "play.yml").write_text(yaml.safe_dump(play))
    environment = {
        **os.environ, "ANSIBLE_ROLES_PATH": str(ROOT / "roles"), "ANSIBLE_LOCALHOST_WARNING": "False",
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "gpuadmin/collections"), "ANSIBLE_HOME": str(base / "home"),
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
    }  # fmt: skip
    command = [Path(sys.executable).parent / "ansible-playbook", "-i", base / "hosts.yml", base / "play.yml",
               "-e", json.dumps({"ansible_python_interpreter": sys.executable})]  # fmt: skip
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, env=environment, cwd=base
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads((base / "answers").read_text())
    assert found.keys() == known.keys()
    return found


@pytest.mark.parametrize(
    ("host", "packages"),
    [
        ("debian", "linux-headers-cloud-amd64 nvidia-open-kernel-dkms nvidia-smi libcuda1 nvidia-persistenced"),
        ("debian_old", f"linux-headers-{KERNEL} nvidia-kernel-dkms nvidia-smi libcuda1 nvidia-persistenced"),
        ("debian_nvidia", f"linux-headers-{KERNEL} nvidia-kernel-open-dkms nvidia-driver-cuda nvidia-persistenced"),
        ("ubuntu", "linux-headers-generic-hwe-24.04 nvidia-headless-570-server-open nvidia-utils-570-server"),
    ],
)
def test_packages(answers: dict[str, Any], host: str, packages: str) -> None:
    assert answers[host]["wanted"] == packages.split()


def test_the_fabric_manager_and_the_toolkit(answers: dict[str, Any]) -> None:
    assert answers["ubuntu"]["fabric_packages"] == ["nvidia-fabricmanager-570"]
    assert answers["debian_nvidia"]["fabric_packages"] == ["nvidia-fabricmanager"]
    assert answers["debian_nvidia"]["toolkit_wanted"] == ["nvidia-container-toolkit"]


def test_repositories(answers: dict[str, Any]) -> None:
    source, preferences = answers["debian_nvidia"]["repository_files"]
    assert source["path"] == "/etc/apt/sources.list.d/gpuadmin-gpu.sources", "once, though both come from it"
    assert source["content"].splitlines()[1:] == ["Types: deb", "URIs: https://mirror.example.org/gpu", "Suites: /"]
    assert "Pin: release a=now\nPin-Priority: 1001" in preferences["content"]
    (preferences,) = answers["debian_old"]["repository_files"]
    pins = [line for line in preferences["content"].splitlines() if line.startswith("Pin")]
    assert pins == [
        "Pin: version 550.*", "Pin-Priority: 1000", "Pin: version 550-*", "Pin-Priority: 1000",
        "Pin: version *", "Pin-Priority: -1",
    ]  # fmt: skip


def test_what_is_built_belongs_to_a_read_only_root(answers: dict[str, Any]) -> None:
    assert (answers["debian"]["build_files"], answers["debian"]["build_directories"]) == ([], [])
    link, settings = answers["debian_old"]["build_files"]
    assert link["content"] == "L /var/lib/dkms - - - - /usr/lib/sysimage/dkms\n"
    assert 'dkms_tree="/usr/lib/sysimage/dkms"' in settings["content"]
    assert 'mok_signing_key="/var/lib/gpuadmin/dkms/mok.key"' in settings["content"]


def test_each_initramfs(answers: dict[str, Any]) -> None:
    assert answers["debian"]["initramfs"] == [f"/boot/initrd.img-{KERNEL}"]


@pytest.mark.parametrize("host", ["debian", "ubuntu"])
def test_dpkg_starts_the_check_and_waits_for_nothing(answers: dict[str, Any], host: str) -> None:
    (hook,) = answers[host]["hook_files"]
    (line,) = [one for one in hook["content"].splitlines() if "systemctl" in one]
    # restarted: one that runs already has looked at what was there before
    assert "systemctl --no-block restart gpuadmin-gpu-check.service" in line
    assert line.rstrip("'").endswith("|| true")
    assert "[ ! -d /run/systemd/system ] ||" in line


def test_no_unit_of_the_role_has_the_name_of_a_job() -> None:
    """systemd starts no job by a name that a unit file has: DKMS could build nothing."""
    files = {path.name.removesuffix(".j2") for path in (ROOT / "roles/gpu_stack/templates").glob("*.service.j2")}
    assert unit.unit_name(operations.UNIT) not in files
    assert files >= {"gpuadmin-gpu-check.service", "gpuadmin-gpu-devices.service"}


@pytest.mark.parametrize("host", REFUSED)
def test_what_cannot_be_is_refused_before_anything_is_changed(answers: dict[str, Any], host: str) -> None:
    assert REFUSED[host][1] in answers[host].get("refusal", "it was not refused")


#: What starts programs for people, beside sshd: nobody but root logs in before systemd-user-sessions.service.
FOR_PEOPLE = {"systemd-logind.service", *JOB_SERVICES}


@pytest.mark.parametrize(
    ("template", "word", "others"),
    [
        ("gpu_stack/templates/gpuadmin-gpu-closed.service.j2", "Before", {*FOR_PEOPLE, "gpuadmin-gpu-gate.service"}),
        ("gpu_stack/templates/gpuadmin-gpu-gate.service.j2", "Before", {"systemd-user-sessions.service"}),
        ("gpu_stack/templates/gpuadmin-gpu-gate.service.j2", "After", {"gpuadmin-accounts.service"}),
        ("gpu_stack/templates/gpuadmin-gpu-mig.service.j2", "Before",
         {"gpuadmin-gpu-gate.service", "systemd-user-sessions.service"}),
        ("limits/templates/gpuadmin-limits.service.j2", "Before", {*JOB_SERVICES, "systemd-user-sessions.service"}),
        ("slurm_node/templates/slurmd.service.j2", "After", {"gpuadmin-gpu-gate.service", "gpuadmin-gpu-mig.service"}),
    ],
)  # fmt: skip
def test_what_keeps_people_out_comes_before_whatever_acts_for_them(
    template: str, word: str, others: set[str]
) -> None:  # fmt: skip
    lines = (ROOT / "roles" / template).read_text(encoding="utf-8").splitlines()
    found = {one for line in lines if line.startswith(f"{word}=") for one in line.partition("=")[2].split()}
    assert others <= found
