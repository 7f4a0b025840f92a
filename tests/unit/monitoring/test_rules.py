"""The alerts: by promtool, with what is measured and what fires then; and what each says."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuadmin.common.metrics import METRICS

ROOT = Path(__file__).resolve().parents[3]
RULES = sorted((ROOT / "roles/monitoring/files/rules").glob("*.yml"))
TESTS = sorted((Path(__file__).parent / "rules").glob("*.yml"))


def alerts() -> dict[str, dict[str, Any]]:
    """Every alert, by its name."""
    groups = [group for path in RULES for group in yaml.safe_load(path.read_text())["groups"]]
    found = [rule for group in groups for rule in group["rules"] if "alert" in rule]  # others record something
    assert len({rule["alert"] for rule in found}) == len(found)
    return {rule["alert"]: rule for rule in found}


def promtool(*arguments: object) -> str:
    done = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.needs("promtool")
def test_rules_are_valid() -> None:
    assert f"{len(alerts())} rules found" in promtool("check", "rules", *RULES) or len(RULES) > 1


@pytest.mark.needs("promtool")
@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_what_fires(path: Path) -> None:
    assert "SUCCESS" in promtool("test", "rules", path)


@pytest.mark.needs("promtool")
def test_a_rule_that_does_not_fire_is_noticed(tmp_path: Path) -> None:
    """The tests would notice: with a threshold that nothing reaches they are red."""
    rules = tmp_path / "hosts.yml"
    rules.write_text((ROOT / "roles/monitoring/files/rules/hosts.yml").read_text().replace("< 0.05", "< 0.0005"))
    test = tmp_path / "test.yml"
    text = (Path(__file__).parent / "rules/hosts.yml").read_text()
    test.write_text(re.sub(r"rule_files: .*", f"rule_files: [{rules}]", text))
    done = subprocess.run(["promtool", "test", "rules", test], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "MemoryLow" in done.stdout + done.stderr


def test_every_alert_has_a_test_in_which_it_fires() -> None:
    fired = re.findall(r'alertname="?(\w+)"?,alertstate="firing"', "\n".join(path.read_text() for path in TESTS))
    assert set(fired) == set(alerts())


@pytest.mark.parametrize("name", alerts())
def test_an_alert_says_what_it_means_and_what_to_do(name: str) -> None:
    rule = alerts()[name]
    assert set(rule["annotations"]) == {"summary", "meaning", "todo", "page"}
    assert all(str(text).strip() for text in rule["annotations"].values())
    assert rule["labels"]["severity"] in ("critical", "warning", "info", "none")
    assert rule["annotations"]["page"] == f"monitoring.md#{name.lower()}"


def test_every_page_that_an_alert_names_is_there() -> None:
    """The section itself is made from the rules (make docs), and tests/contract holds that it is up to date."""
    page = (ROOT / "docs/monitoring.md").read_text(encoding="utf-8")
    anchors = {name.lower() for name in re.findall(r"(?m)^### (\w+)$", page)}
    assert {rule["annotations"]["page"].partition("#")[2] for rule in alerts().values()} == anchors


def test_metrics_of_ours_that_rules_and_code_name_are_measured() -> None:
    measured = {one.name for one in METRICS}
    kinds = "|".join({name.split("_")[1] for name in measured})
    files = (*(ROOT / "gpuadmin").rglob("*.py"), *(ROOT / "roles/monitoring/files").rglob("*.yml"))
    used = {name for path in files for name in re.findall(rf"\bgpuadmin_(?:{kinds})_\w+", path.read_text("utf-8"))}
    assert len(used) > 40
    assert used - measured == set()
