"""What the pages say: in both languages, with the same values, and for all that can be wrong."""

import inspect
import re
import string
from pathlib import Path

import pytest
import yaml

from gpuadmin.common import cluster, hints
from gpuadmin.dashboard import texts
from gpuadmin.dashboard.texts import ALERTS, TEXTS, choose, problem
from tests.support.dashboard_app import FILES

RULES = FILES.parents[1] / "roles/monitoring/files/rules"


@pytest.mark.parametrize("key", TEXTS)
def test_both_languages_have_the_same_values(key: str) -> None:
    fields = [sorted(name for _, name, _, _ in string.Formatter().parse(text) if name) for text in TEXTS[key]]
    assert fields[0] == fields[1]
    assert not re.search("[가-힣]", TEXTS[key][0])
    assert re.search("[가-힣]", TEXTS[key][1]) or TEXTS[key][1] in ("GPU", "CPU")


def test_no_text_is_missing_and_none_is_left_over() -> None:
    """What templates and code ask for, by the beginning of a key where the rest is a value."""
    code = "".join(path.read_text() for path in FILES.glob("templates/*.html"))
    code += "".join(path.read_text() for path in Path(texts.__file__).parent.glob("*.py"))
    asked = set(re.findall(r"""["']([a-z][a-z0-9-]+)["']""", code))
    beginnings = tuple(set(re.findall(r"""["'](queue-why-|queue-end-|hint-|count-|span-|need-|series-)""", code)))
    assert [key for key in TEXTS if key not in asked and not key.startswith(beginnings)] == []
    for key in re.findall(r"""\bt\(["']([a-z-]+)["'][,)]""", code):
        assert key in TEXTS
    source = inspect.getsource(hints)
    for code_of_hint in re.findall(r'Hint\("([a-z-]+)"', source):
        assert f"hint-{code_of_hint}" in TEXTS


def test_each_problem_of_a_node_is_said_in_korean() -> None:
    source = inspect.getsource(cluster)
    said = [
        *re.findall(r'return "(?:down|silent|unknown)", "([^"]+)"', source),
        *re.findall(r'^        return f?"([^"]+)"$', source, re.MULTILINE),
    ]
    assert len(said) >= 7, said
    for part in said:
        text = part.replace("{state}", "missing").replace("{int(answering)}", "3").replace("{int(expected)}", "4")
        assert "{" not in text
        assert re.search("[가-힣]", problem("ko", text)), text
        assert problem("en", text) == text
    assert problem("ko", "3 of 4 GPUs answer") == "GPU 4개 중 3개만 응답합니다"
    assert problem("ko", "something new") == "something new"


def test_each_alert_is_said_in_both_languages() -> None:
    """Those that pages show: of hosts and GPUs, not of the monitor itself; who is idle is said by the verb's rule."""
    names = {
        rule["alert"]
        for path in (RULES / "hosts.yml", RULES / "gpus.yml")
        for group in yaml.safe_load(path.read_text())["groups"]
        for rule in group["rules"]
    }
    assert names - {"GpuHeldIdle"} <= set(ALERTS)
    assert texts.alert("ko", "GpuHot") == "GPU 과열"
    assert texts.alert("ko", "OfTheSite") == "OfTheSite"


@pytest.mark.parametrize(
    "odd",
    [
        r"[은을이]\([는를가]\)|\(으\)로|와\(과\)",  # a name comes first, with a colon
        "십시오|주시기 바랍",  # one register: -세요
        "프로세서|작업자|도움말|놓아 주|핑에|이 서버",  # CPU, 워커, 알림, 비워 주세요, 노드
        r"(?<!Jupyter )노트북",  # alone it is a laptop
    ],
)
def test_korean_is_as_its_people_write_it(odd: str) -> None:
    root = FILES.parents[1]
    paths = [*(root / "gpuadmin").rglob("*.py"), *root.glob("templates/*/*.ko.*"), *FILES.glob("templates/*.html")]
    found = [path.name for path in paths if re.search(odd, path.read_text())]
    assert found == []


@pytest.mark.parametrize(
    ("languages", "wanted", "accepted", "chosen"),
    [
        (("en", "ko"), "", "", "en"),
        (("ko", "en"), "", "fr, de", "ko"),
        (("en", "ko"), "ko", "en", "ko"),
        (("en", "ko"), "xx", "ko-KR,ko;q=0.9,en;q=0.8", "ko"),
        (("en", "ko"), "", "ko;q=0.1, en;q=0.9", "en"),
        (("en", "ko"), "", "ko;q=x, en;q=", "en"),
        (("ko",), "en", "en", "ko"),
        (("en", "ko"), "", "," * 100_000 + "ko", "en"),
    ],
)
def test_the_language(languages: tuple[str, ...], wanted: str, accepted: str, chosen: str) -> None:
    assert choose(languages, wanted, accepted) == chosen
