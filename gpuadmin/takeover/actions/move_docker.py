"""Carry what root's Docker has into a person's own, and remove it there when an admin says so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpuadmin.accounts.requests import known
from gpuadmin.answers import Answers
from gpuadmin.common.text import counted, listed, size_words
from gpuadmin.errors import ConfigError, ExitCode, RefusedError
from gpuadmin.options import Options
from gpuadmin.outcome import finish, nothing, report
from gpuadmin.plan import Plan, PlanBuilder
from gpuadmin.session import Session, opened
from gpuadmin.takeover.adoption import root_docker
from gpuadmin.takeover.adoption.root_docker import Chosen, Named

PLAYBOOK = "move-docker"
#: No package has a unit of this name: nothing is unmasked, and nothing is left of it once it has stopped.
START = (
    "start it there with 'systemd-run --unit=root-docker dockerd --group root', which unmasks nothing; containers that"
    " restart by themselves start, too. 'systemctl stop root-docker' ends it"
)


_NOBODY, _NOTHING = ("", 0), Chosen("", (), (), {})


def _document(session: Session, step: str, person: tuple[str, int], chosen: Chosen = _NOTHING) -> dict[str, Any]:
    return {
        "step": step, "data": session.site.settings.docker.data, "name": person[0], "uid": person[1],
        "images": list(chosen.images), "volumes": list(chosen.volumes), "containers": dict(chosen.containers),
    }  # fmt: skip


def _look(session: Session, person: tuple[str, int]) -> Answers:
    hosts = session.some("gpu")
    documents = {host: _document(session, "look", person) for host in hosts}
    found = session.look(PLAYBOOK, hosts, {"gpuadmin_move_docker": documents})
    return Answers.of(found.hosts, hosts, "root_docker")


def _person(session: Session, name: str) -> tuple[str, int]:
    user = known(session.site.registry, [name])[0]
    if user.uid is None:
        raise ConfigError(f"{name} has no uid in users.yml yet", hint="gpuadmin sync-users gives it to them")
    return user.name, user.uid


def list_docker(options: Options, name: str | None = None) -> int:
    """Show what root's Docker has on nodes. Returns the exit code."""
    with opened("move-docker", options, changes=False) as session:
        person = _NOBODY if name is None else _person(session, name)
        answers = _look(session, person)
        if answers.unknown:
            session.console.print(f"Not known: {answers.summary}")
        names = [user.name for user in session.site.registry.registry.users] if name is None else [name]
        for host, look in answers.known.items():
            for line in root_docker.lines(host, look, names, session.site.settings.homes.path):
                session.console.print(line, soft_wrap=True)
            for line in _moved(look):
                session.console.print(f"  {line}")
        if any(not look["running"] for look in answers.known.values()):
            session.console.print(f"Where root's Docker does not run: {START}")
        return finish(session, int(answers.code), {"docker": dict(answers.known), "unknown": dict(answers.unknown)})


def _moved(look: Mapping[str, Any]) -> Iterable[str]:
    moved = look["moved"]
    if moved is None:
        return
    done = [name for name, one in moved["volumes"].items() if one["step"] == "done"]
    for kind, names in (("volume", done), ("image", list(moved["images"]))):
        if names:
            yield f"carried to {moved['name']}: {counted(len(names), kind)} ({listed(names)})"


def _running(looks: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The hosts whose root's Docker can be worked with. Raises RefusedError if there is none."""
    found = {host: one for host, one in looks.items() if one["running"] and not one["problem"]}
    if not found:
        words = [f"{host}: {one['problem'] or 'it does not run'}" for host, one in looks.items()]
        raise RefusedError(f"root's Docker cannot be asked ({listed(words)})", hint=START)
    return found


def move_docker(options: Options, name: str, named: Named) -> int:
    """Carry what is named to a person. Returns the exit code."""
    with opened("move-docker", options) as session:
        person = _person(session, name)
        answers = _look(session, person)
        answers.require("what root's Docker has")
        looks = _running(answers.known)
        chosen = root_docker.choose(looks, named)
        look = looks[chosen.host]
        # guard: what cannot be carried is said before anything is
        if problems := list(root_docker.obstacles(look, chosen)):
            raise RefusedError("; ".join(problems))
        builder = PlanBuilder(f"Carry images and volumes of root's Docker to {name}")
        builder.add_all([chosen.host], root_docker.steps(look, chosen, name))
        containers = [one for one in look["containers"] if one["id"] in chosen.containers]
        for one in containers:
            for words in root_docker.stays(one):
                builder.warn(f"container {one['name']}: {words}")
        if not session.plan(builder.build()):
            return nothing(session)
        session.confirm()  # guard: move-docker asks before it does something
        result = {
            "host": chosen.host,
            "commands": {one["name"]: one["command"] for one in containers if one["command"]},
        }
        return _done(session, chosen, "carry", person, result)


def discard_docker(options: Options, name: str, named: Named) -> int:
    """Remove from root's Docker what was carried to a person. Returns the exit code."""
    with opened("move-docker", options) as session:
        person = _person(session, name)
        answers = _look(session, person)
        answers.require("what was carried")
        carried = {host: one for host, one in answers.known.items() if one["moved"]}
        going = {host: _going(host, one, named) for host, one in carried.items()}
        hosts = [host for host, one in going.items() if one.images or one.volumes or one.containers]
        if not hosts:
            session.plan(Plan("Remove what was carried"))
            return nothing(session)
        if len(hosts) > 1:
            raise ConfigError(f"things were carried on several hosts: {listed(hosts)}", hint="name one with --limit")
        look, chosen = _running({hosts[0]: carried[hosts[0]]})[hosts[0]], going[hosts[0]]
        builder = PlanBuilder(f"Remove from root's Docker what was carried to {name}", destroys=True)
        builder.add_all(hosts, _removals(look, chosen))
        session.plan(builder.build(question="Remove it?"))
        session.confirm()  # guard: what root's Docker has goes when that was confirmed
        return _done(session, chosen, "discard", person, {"host": chosen.host})


def _going(host: str, look: Mapping[str, Any], named: Named) -> Chosen:
    """Of what was carried, what is named; all of it, where nothing is."""
    moved = look["moved"]
    containers, volumes, images = named
    everything = not any(named)
    names = {one["id"]: root_docker.image_name(one) for one in look["images"]}
    found = Chosen(
        host,
        tuple(one for one in moved["images"] if everything or {one, names.get(one, one)} & set(images)),
        tuple(one for one, of in moved["volumes"].items() if of["step"] == "done" and (everything or one in volumes)),
        {ident: one for ident, one in moved["containers"].items() if everything or one in containers},
    )
    return found


def _removals(look: Mapping[str, Any], chosen: Chosen) -> Iterable[str]:
    changes = {one["id"]: one["changes"] for one in look["containers"]}
    for ident, name in chosen.containers.items():
        lost = changes.get(ident, 0)
        yield f"remove container {name}{'; its own changes (docker diff) are lost' if lost else ''}"
    for name in chosen.volumes:
        one = look["moved"]["volumes"][name]
        yield f"remove volume {name}, carried with {counted(one['files'], 'file')}, {size_words(one['bytes'])}"
    names = {one["id"]: root_docker.image_name(one) for one in look["images"]}
    for ident in chosen.images:
        yield f"remove image {names.get(ident, ident)}"


def _done(session: Session, chosen: Chosen, step: str, person: tuple[str, int], result: Mapping[str, Any]) -> int:
    documents = {chosen.host: _document(session, step, person, chosen)}
    run = session.run(PLAYBOOK, [chosen.host], {"gpuadmin_move_docker": documents}, check=session.check)
    told = run.reported("docker_moved").get(chosen.host) or {"parts": [], "problems": {}, "notes": []}
    said: Sequence[str] = [f"{what}: {why}" for what, why in sorted(told["problems"].items())] + list(told["notes"])
    for line in said:
        session.console.print(line, soft_wrap=True)
    for line in result.get("commands", {}).values() if not session.check else ():
        session.console.print(f"To make it again, as {person[0]} on {chosen.host}:")
        session.console.print(line, soft_wrap=True)
    code = ExitCode.HOST_FAILED if told["problems"] and not run.code else None
    body = {**result, "parts": told["parts"], "left": told["problems"], "notes": told["notes"]}
    return report(session, run, body, code=code, advice="gpuadmin move-docker continues where it stopped")
