"""The steps on images: one table, from which operation and unit take what they need."""

import typing
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import background, documents
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.images import jobs

from gpuadmin.common.records.images import ChainLink, ImageOptions, ImageOrder
from tests.support.operations import ask


def push(*, check: bool = False, **more: object) -> dict[str, Any]:
    document = {"action": "push", "name": "one", "options": {"full": True}, "run_id": "5b1f", **more}
    return ask("image_job", document, check=check)


def test_the_operation_knows_the_table() -> None:
    (kind, _needed) = documents.find_fields(ImageOrder)["action"]
    assert list(typing.get_args(kind)) == list(jobs.STEPS)


@pytest.mark.parametrize("action", jobs.STEPS)
def test_the_unit_of_a_step(action: Any) -> None:
    """A build's mounts are seen by the admin's own commands; those of other work end with it."""
    job = jobs.job(ImageOrder(action, "5b1f", "one", options=ImageOptions(full=True)))
    shared = action in ("build", "finish")
    assert (job.unit, job.title) == ("gpuadmin-image.service", f"{action} one")
    assert job.properties == ("PrivateMounts=no" if shared else "PrivateMounts=yes",)
    assert (job.module, job.function.__name__) == ("images.jobs", "step")
    assert job.identity == jobs.job(ImageOrder(action, "", "one")).identity
    assert job.identity != jobs.job(ImageOrder(action, "", "two")).identity


def test_the_store_is_written_to_by_two_steps_alone() -> None:
    assert {name: step.store for name, step in jobs.STEPS.items() if step.store} == {
        "push": "ro", "seal": "rw", "publish": "rw",
    }  # fmt: skip


def test_check_mode_begins_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "attend", lambda *_: pytest.fail("it was begun"))
    result = push(check=True)
    assert (result["changed"], result["finished"], result["operations"]) == (True, True, ["push one"])


def test_the_module_says_how_far_it_is_and_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, object]] = []
    found: list[background.Result | None] = [
        None, background.Result({"operations": ["received it"], "report": {"switch": {}}}),
        background.Result({"operations": []}), background.Result(None, "no space"),
    ]  # fmt: skip

    def attend(job: background.Job, begun: str, wait: float) -> background.Result | None:
        asked.append((begun, job.order.options.full))
        return found.pop(0)

    monkeypatch.setattr(background, "attend", attend)
    monkeypatch.setattr(background, "progress", lambda _: "fetching")
    working, done, again, failed = push(), push(), push(), push()
    assert (working["changed"], working["finished"], working["progress"]) == (False, False, "fetching")
    assert (done["changed"], done["finished"], done["operations"]) == (True, True, ["received it"])
    assert done["report"] == {"switch": {}}
    assert (again["changed"], again["report"]) == (False, {})
    assert (failed["failed"], failed["msg"], failed["operations"]) == (True, "no space", [])
    assert set(asked) == {("5b1f push", True)}


def test_a_push_has_the_place_in_the_chain_that_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(
        background, "attend", lambda job, *_: asked.append(job.order) or background.Result({"operations": []})
    )
    push(link={"port": 7370, "previous": "10.0.0.11"})
    push()
    assert asked[0].link == ChainLink(7370, "10.0.0.11")
    assert asked[1] == ImageOrder("push", "5b1f", "one", options=ImageOptions(full=True))


def test_other_work_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def attend(*_: object) -> None:
        raise NodeError("other work")

    monkeypatch.setattr(background, "attend", attend)
    result = push()
    assert (result["failed"], result["msg"]) == (True, "other work")
