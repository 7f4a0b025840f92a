"""Whoever mistypes a name is told which one was meant."""

from datetime import date

from gpuadmin.config.schema import Registry
from gpuadmin.diagnosis.verdict import Asked, judge_registry
from gpuadmin.similar import did_you_mean
from tests.support.sites import public_key


def test_a_name_that_is_like_another_one() -> None:
    assert did_you_mean("minij", iter(["jiho", "minji"])) == "did you mean 'minji'?"
    assert did_you_mean("zzz", ["jiho", "minji"]) == ""
    assert did_you_mean("minji", []) == ""


def test_a_diagnosis_of_somebody_who_was_mistyped() -> None:
    people = Registry.model_validate({"users": [{"name": "minji", "uid": 20000, "keys": [public_key("minji")]}]})

    def remedies(name: str) -> list[str]:
        return [one.remedy for one in judge_registry(Asked(name, people, date(2026, 12, 21), "nas", "/srv"))]

    assert remedies("minij") == ["did you mean 'minji'? Otherwise: gpuadmin add-user minij"]
    assert remedies("sora") == ["gpuadmin add-user sora"]
