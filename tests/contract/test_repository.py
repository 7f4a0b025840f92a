"""What holds for the repository as a whole."""

import ast
import io
import re
import subprocess
import sys
import tokenize
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from pydantic import BaseModel

from gpuadmin.common.metrics import METRICS
from gpuadmin.config.schema import Settings
from gpuadmin.errors import ExitCode, GpuadminError
from tests.support.offenders import each_of
from tests.support.scripts import load

ROOT = Path(__file__).resolve().parents[2]
NODE_CODE = ROOT / "gpuadmin/collections/ansible_collections/gpuadmin/node/plugins/module_utils"
COMMON, DASHBOARD = ROOT / "gpuadmin/common", ROOT / "gpuadmin/dashboard"
NODE_PACKAGE = "ansible_collections.gpuadmin.node.plugins.module_utils"
TAKEOVER = ROOT / "gpuadmin/takeover/node"
SHIPPED = sorted(
    path for top in (NODE_CODE, NODE_CODE.parent / "modules", COMMON, DASHBOARD, TAKEOVER) for path in top.rglob("*.py")
)


def tracked() -> list[Path]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip("no git checkout")
    return [path for name in done.stdout.decode().split("\0") if name and (path := ROOT / name).is_file()]


def test_made_pages_are_up_to_date() -> None:
    assert load("pages").outdated() == [], "make docs"


def test_every_metric_is_written_by_node_code() -> None:
    text = "".join(path.read_text() for path in NODE_CODE.rglob("*.py"))
    unwritten = [one.name for one in METRICS if f'"{one.name}"' not in text]
    assert unwritten == [], "no samples.put(...) has these names of gpuadmin/common/metrics.py"


def test_every_setting_is_used_outside_of_the_schema() -> None:
    """By name, so it sees what was forgotten altogether, and no more. Its own test shows that it acts."""
    files = [
        path for top in ("gpuadmin", "roles", "templates") for path in (ROOT / top).rglob("*")
        if path.suffix in (".py", ".yml", ".j2") and ROOT / "gpuadmin/config/schema" not in path.parents
    ]  # fmt: skip
    words = set(re.findall(r"[a-z][a-z_]*", " ".join(path.read_text() for path in files)))
    used = words | {word[at + 1 :] for word in words for at, letter in enumerate(word) if letter == "_"}
    unused = [
        f"{model.__name__}.{name}" for model in models(Settings) for name in model.model_fields if name not in used
    ]
    assert unused == [], "nothing reads them: CONTRIBUTING.md, A setting of a site"


def models(of: Any) -> set[type[BaseModel]]:
    """The classes of a schema that a type is made of."""
    if isinstance(of, type) and issubclass(of, BaseModel):
        return {of}.union(*(models(field.annotation) for field in of.model_fields.values()))
    return set().union(*map(models, get_args(of)))


def test_every_exit_code_is_explained() -> None:
    rows = re.findall(r"^\| (\d+) \| ([a-z ]+) \|", (ROOT / "docs/exit-codes.md").read_text(), re.MULTILINE)
    codes = {int(code): name for code, name in rows}
    assert set(codes) == {int(code) for code in ExitCode}
    assert codes == {int(code): code.words for code in ExitCode}


def test_every_error_has_an_exit_code_of_the_list() -> None:
    def below(kind: type[GpuadminError]) -> list[type[GpuadminError]]:
        return [kind, *(found for child in kind.__subclasses__() for found in below(child))]

    for kind in below(GpuadminError):
        assert kind.exit_code in list(ExitCode)
        assert kind.exit_code != ExitCode.DONE


# Documentation, examples (RFC 2606), and the defaults that a user is told of. No mirror, no machine of anybody's.
HOSTS = {
    "systemd.io", "semver.org", "yaml-language-server", "json-schema.org", "no-color.org", "docs.ansible.com",
    "docs.docker.com", "download.docker.com", "man7.org", "manpages.debian.org", "www.debian.org", "wiki.debian.org",
    "wiki.archlinux.org", "www.kernel.org", "docs.kernel.org", "btrfs.readthedocs.io", "www.freedesktop.org",
    "github.com", "raw.githubusercontent.com", "keepachangelog.com", "python.org", "docs.python.org", "peps.python.org",
    "pypi.org", "www.apache.org", "spdx.org", "rootlesscontaine.rs", "www.rfc-editor.org", "datatracker.ietf.org",
    "specifications.freedesktop.org", "www.gnu.org", "docs.nvidia.com", "bugs.debian.org",
    "lists.debian.org", "packages.debian.org", "packages.ubuntu.com", "ubuntu.com", "git.savannah.gnu.org",
    "gitlab.com", "en.wikipedia.org", "www.qemu.org", "wiki.qemu.org", "pre-commit.com", "conda-forge.org",
    "docs.conda.io", "anaconda.org", "repo.anaconda.com", "conda.anaconda.org", "nvidia.github.io",
    "nfs.sourceforge.net", "www.w3.org", "age-encryption.org", "archive.ubuntu.com", "docs.astral.sh",
    "registry-1.docker.io",  # where Docker asks for images of Docker Hub: the default of docker.upstream
}  # fmt: skip
EXAMPLE = re.compile(
    r"(^|\.)(example(\.(org|com|net|ac\.kr))?|invalid|test|localhost)$|^127\.|^10\.|^192\.0\.2\.|^[a-z0-9-]+$"
)


def test_no_host_of_anybodys_is_written_down() -> None:
    found = {}
    for path in tracked():
        for host in re.findall(r"(?:https?|ftp|git|ssh)://([A-Za-z0-9.-]+)", path.read_text(errors="replace")):
            if host.lower().rstrip(".") not in HOSTS and not EXAMPLE.search(host.lower()):
                found[host] = str(path.relative_to(ROOT))
    assert found == {}


def test_nothing_of_this_machine_is_written_down() -> None:
    """Where this checkout lies, and where pip and apt of this machine look for packages."""
    pip = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    places = set(re.findall(r"(?:file|https?)://[^\s'\"]+|(?<=[' ])/[a-z]+/[\w./-]+", pip.stdout))
    own = {place.removeprefix("file://") for place in places if "/etc/ssl/" not in place} | {f"{ROOT}/"}
    found = []
    for path in tracked():
        text = path.read_text(errors="replace")
        found += [f"{path.relative_to(ROOT)}: {place}" for place in own if place in text]
    assert found == []


@each_of(SHIPPED)
def test_node_side_code_needs_python_alone(path: Path) -> None:
    """Node code runs at boot, on Python 3.9: the standard library, its own files and what is common to all, no more.

    The role dashboard installs what the pages need besides, on the monitor host alone (decision 158).
    """
    tops = [*(top for top in (NODE_CODE, DASHBOARD, TAKEOVER) if path.is_relative_to(top)), COMMON]
    known = sys.stdlib_module_names | ({"jinja2", "starlette", "uvicorn"} if DASHBOARD in tops else set())
    for node in ast.walk(ast.parse(path.read_text(), feature_version=(3, 9))):
        if isinstance(node, ast.Import):
            assert {name.name.partition(".")[0] for name in node.names} <= known
        elif TAKEOVER in tops and isinstance(node, ast.ImportFrom) and str(node.module).startswith(NODE_PACKAGE):
            place = NODE_CODE.joinpath(*str(node.module)[len(NODE_PACKAGE) :].split("."))
            for name in node.names:
                files = place.with_suffix(".py"), place / f"{name.name}.py", place / name.name / "__init__.py"
                assert any(file.exists() for file in files), name.name
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and not str(node.module).startswith("gpuadmin."):
            assert str(node.module).partition(".")[0] in known, node.module
        elif isinstance(node, ast.ImportFrom):
            place = (path.parents[node.level - 1] if node.level else ROOT).joinpath(*(node.module or "").split("."))
            assert any(place.is_relative_to(top) for top in tops), "an import that leads to what is not shipped"
            for name in node.names:
                files = place.with_suffix(".py"), place / f"{name.name}.py", place / name.name / "__init__.py"
                assert any(file.exists() for file in files), name.name


def test_the_lock_names_versions_of_all_that_is_needed_and_nothing_else() -> None:
    import tomllib

    lines = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if not line.startswith("#")]
    pattern = r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*(; python_version(<|>=)'3\.14')?"
    assert all(re.fullmatch(pattern, line) for line in lines)
    locked = {re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower() for line in lines}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for requirement in chain(project["dependencies"], *project["optional-dependencies"].values()):
        name = re.match(r"[A-Za-z0-9._-]+", requirement)
        assert name is not None
        assert re.sub(r"[-_.]+", "-", name.group()).lower() in locked


def test_which_pythons_there_can_be_is_said_alike() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", project["requires-python"])
    assert found is not None
    oldest, newest = int(found[1]), int(found[2]) - 1
    for name in ("docs/install.md", "CONTRIBUTING.md", "requirements.lock", "scripts/bootstrap"):
        assert f"Python 3.{oldest} to 3.{newest}" in (ROOT / name).read_text(), name
    bootstrap = (ROOT / "scripts/bootstrap").read_text()
    assert bootstrap.count(f"(3, {oldest}) <= sys.version_info[:2] <= (3, {newest})") == 2
    assert all(f" python3.{minor} " in bootstrap for minor in range(oldest, newest + 1))
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())
    assert workflow["jobs"]["fast"]["strategy"]["matrix"]["python"] == [f"3.{oldest}", f"3.{newest}"]


def test_ci_runs_what_people_run() -> None:
    assert "make test" in (ROOT / ".ci/run").read_text()
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())
    steps = [step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"]]
    assert ".ci/run" in steps
    assert {"make lint test-fast", "make test-root", "make test-mutants", "make site"} <= set(steps)
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    assert hooks["repos"][0]["hooks"][0]["entry"] == "make lint"


def test_links_between_pages_lead_somewhere() -> None:
    dead = []
    for page in [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target and not (page.parent / target).exists():
                dead.append(f"{page.relative_to(ROOT)}: {target}")
    assert dead == []


def test_the_steps_of_the_switch_are_in_the_docs() -> None:
    import sys

    sys.path.insert(0, str(ROOT / "gpuadmin" / "collections"))
    from ansible_collections.gpuadmin.node.plugins.module_utils.images.switch import STEPS

    page = (ROOT / "docs/images.md").read_text()
    rows = [
        tuple(cell.strip() for cell in line.strip("|").split("|"))
        for line in page.splitlines()
        if (line.count("|") == 4 and "unit" in line) or "gpuadmin, GRUB" in line
    ]
    documented = [(row[0], row[2]) for row in rows if row[0] in {step.name for step in STEPS}]
    assert documented == [(step.name, step.cut_leaves) for step in STEPS]


def test_the_places_of_a_node_are_written_down_once() -> None:
    """Guard, which stands alone, has them a second time: a root that one opens, the other must find."""
    found: dict[str, list[str]] = {}
    for path in sorted(NODE_CODE.parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and re.match(r"(/var/lib|/run)/gpuadmin(/|$)", str(node.value)):
                found.setdefault(path.relative_to(NODE_CODE.parent).as_posix(), []).append(str(node.value))
    both = ["/var/lib/gpuadmin", "/run/gpuadmin"]
    assert found == {"module_utils/paths.py": both, "module_utils/root/guard.py": both}


MARK = re.compile(r"#\s*(noqa\b(: *[A-Z]+[0-9]+(, *[A-Z]+[0-9]+)*)?|type: *ignore(\[[a-z, -]*\])?|pragma: *no cover)")


def without_reason(text: str) -> list[int]:
    """The lines that switch a check off, or sleep, without a reason: a comment after the code, or in the line above."""
    if not MARK.search(text) and "sleep" not in text:
        return []  # most files have neither, and need not be parsed
    comments = {
        token.start[0]: token.string
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    }
    lines = text.splitlines()
    marked = {number for number, comment in comments.items() if MARK.search(comment)}
    marked |= {node.lineno for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call) and sleeps(node.func)}
    found = []
    for number in sorted(marked):
        above = comments.get(number - 1, "") if lines[number - 2].lstrip().startswith("#") else ""
        reasons = MARK.sub("", comments.get(number, "")) + MARK.sub("", above)
        if not re.search(r"\w", reasons):
            found.append(number)
    return found


def sleeps(called: ast.expr) -> bool:
    return isinstance(called, ast.Attribute) and ast.unparse(called) == "time.sleep"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("x = 1  # noqa: E501\n", [1]),
        ("x = 1  # noqa: E501  why\n", []),
        ("x = 1  # type: ignore[a, b-c]  # why\n", []),
        ("# why\nx = 1  # type: ignore[misc]\n", []),
        ("y = 1  # why\nx = 1  # type: ignore\n", [2]),
        ("import time\n\ntime.sleep(1)\ntime.sleep(2)  # why\n", [3]),
        ("x = 'time.sleep(1)  # noqa'\n", []),
    ],
)
def test_an_exception_without_a_reason_is_found(text: str, lines: list[int]) -> None:
    assert without_reason(text) == lines


def test_each_exception_and_each_sleep_has_its_reason_beside_it() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in tracked()
        if path.suffix == ".py"
        for number in without_reason(path.read_text())
    ]
    assert found == []
