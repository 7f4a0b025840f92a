"""Causes in a person's home (missing, somebody else's, read-only), and in their amounts of disks."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from functools import partial

from ..records.diagnosis import RegisteredPerson as Person
from ..text import size_words
from .cause import HINDERS, NOTE, STOPS, Cause, Facts, Row, Table, Text, Thing, tell_admins, type_command

FULL = 16 << 20  # bytes: with less nobody logs in to a desktop, saves a checkpoint, or writes a lock
SLOW = 500.0  # milliseconds for one question to a file server
AMOUNT_FULL = 99  # percent of an amount that is held: from there on nothing of any size can be written
_SERVER, _HOME = Thing("what homes are on", "homes"), Thing("home", "home")
_AMOUNTS = Thing("what they may have of disks", "amounts")
_STORAGE, _PROVISION = "look at the storage host: gpuadmin status", "gpuadmin provision --limit HOSTS"
_UNMOUNT = "gpuadmin run HOSTS -- umount -l {point}"
_DELETES = "{name} deletes something: gpuadmin-me disk; or more in limits.people: gpuadmin.yml"
ROWS = Table(
    Row("homes-late", STOPS, _SERVER, "the homes do not answer: {where} has said nothing for 3 seconds", _STORAGE,
        Text("Wait; nothing is lost. If it lasts longer than ten minutes, tell your admins", "the homes do not answer",
             "기다려 주세요. 데이터는 사라지지 않습니다. 10분이 넘으면 관리자에게 알려 주세요",
             "홈 디렉터리가 응답하지 않습니다")),
    Row("homes-stale", STOPS, _SERVER, "the homes are stale: {where} is no longer what was mounted", _UNMOUNT,
        tell_admins("the homes have to be mounted again", "홈 디렉터리를 다시 마운트해야 합니다"),
        {"home": ("{name}'s home cannot be looked at: {error}", _UNMOUNT)}),
    Row("homes-not-mounted", STOPS, _SERVER, "the homes are not mounted: their place is on {where}", _PROVISION,
        tell_admins("the homes are not mounted on this node; what you save now is not in your home",
                    "이 노드에 홈 디렉터리가 마운트되어 있지 않습니다. 지금 저장하는 파일은 홈에 남지 않습니다"),
        {"gone": ("the homes are not there", _PROVISION)}),
    Row("home-missing", STOPS, _HOME, "{name} has no home: {path} is missing",
        "gpuadmin restore-home {name} --in-place brings it back; or gpuadmin sync-users makes an empty one",
        tell_admins("your home {path} is missing", "홈 디렉터리 {path}: 없습니다")),
    Row("home-kind", STOPS, _HOME, "{name}'s home is {kind}: {path}", "gpuadmin ssh STORAGE",
        tell_admins("your home {path} is not a directory", "홈 {path}: 디렉터리가 아닙니다")),
    Row("home-owner", STOPS, _HOME, "{name}'s home belongs to {owner}, not to uid {uid}",
        "gpuadmin run STORAGE -- chown {uid}:{uid} {place}",
        tell_admins("your home {path} does not belong to you", "홈 디렉터리 {path}의 소유자가 본인이 아닙니다")),
    Row("home-passwd", STOPS, _HOME, "{name}'s home is {passwd} there by passwd, and not {path}",
        "gpuadmin sync-users --limit HOSTS",
        tell_admins("this node takes {passwd} for your home, and not {path}",
                    "이 노드가 아는 홈 디렉터리: {passwd}({path} 아님)")),
    Row("home-mode", STOPS, _HOME, "{name} may not use their own home: it has mode {mode:04o}",
        "gpuadmin run STORAGE -- chmod u+rwx {place}",
        type_command("chmod u+rwx {path}", "you took your own rights to your home away",
                     "홈 디렉터리에 본인의 권한이 없습니다")),
    Row("homes-full", STOPS, _SERVER, "the disk of the homes is full: {left} of {most} free",
        "make room on the storage host, or ask people to: gpuadmin list-backups",
        Text("Delete what you do not need, and tell your admins",
             "the disk of the homes is full: {left} of {most} left",
             "필요 없는 파일을 지우고 관리자에게 알려 주세요", "홈 디스크가 가득 찼습니다: {most} 중 {left} 남음")),
    Row("homes-inodes", STOPS, _SERVER, "the file system of the homes has no inode left: no new file can be made",
        "delete many small files on the storage host",
        Text("Delete directories of many small files, and tell your admins",
             "no more files fit on the disk of the homes",
             "작은 파일이 많은 디렉터리를 지우고 관리자에게 알려 주세요",
             "홈 디스크에 더 이상 파일을 만들 수 없습니다")),
    Row("homes-read-only", STOPS, _SERVER, "the homes are read-only", _STORAGE,
        tell_admins("the homes are read-only", "홈 디렉터리에 쓸 수 없습니다(읽기 전용)")),
    Row("amount-full", STOPS, _AMOUNTS,
        "{name}'s Docker data is full: {has} of {most}; what writes there fails (Disk quota exceeded)",
        "{name}: docker rmi, docker rm, docker builder prune; where their daemon no longer starts, give them more "
        "(limits.people)",
        Text("docker rmi and docker rm what you no longer need; docker builder prune; if Docker "
             "no longer starts, delete a large file of yours in your place for its data",
             "your Docker data on this node is full: {has} of {most}; "
             "what writes there fails with 'Disk quota exceeded'",
             "필요 없는 이미지와 컨테이너를 docker rmi, docker rm, docker builder prune으로 지우세요. "
             "Docker가 시작되지 않으면 Docker 데이터 디렉터리에서 큰 파일을 지우세요",
             "이 노드의 Docker 데이터가 가득 찼습니다: {most} 중 {has} 사용. "
             "더 쓰면 'Disk quota exceeded' 오류가 납니다")),
    Row("amount-home-full", STOPS, _AMOUNTS,
        "{name}'s home is full: {has} of {most}; what writes there fails (Disk quota exceeded)",
        "{name}: gpuadmin-me disk says what is large; or give them more (limits.people)",
        Text("delete what you do not need (gpuadmin-me disk says what is large), or ask your admins for more",
             "your home is full: {has} of {most}; what writes there fails with 'Disk quota exceeded'",
             "필요 없는 파일을 지우거나(큰 파일: gpuadmin-me disk) 관리자에게 용량을 늘려 달라고 하세요",
             "홈 디렉터리가 가득 찼습니다: {most} 중 {has} 사용. 더 쓰면 'Disk quota exceeded' 오류가 납니다")),
    Row("amount-scratch-full", STOPS, _AMOUNTS,
        "{name}'s scratch is full: {has} of {most}; what writes there fails (Disk quota exceeded)",
        "{name} deletes what is not needed; or give them more (limits.people)",
        Text("delete what you do not need there, or ask your admins for more",
             "your scratch on this node is full: {has} of {most}; what writes there fails with 'Disk quota exceeded'",
             "필요 없는 파일을 지우거나 관리자에게 용량을 늘려 달라고 하세요",
             "이 노드의 임시 공간이 가득 찼습니다: {most} 중 {has} 사용. 더 쓰면 'Disk quota exceeded' 오류가 납니다")),
    Row("amount-over", HINDERS, _AMOUNTS,
        "{name}'s home is more than they may have: {has} of {most}; nothing refuses more", _DELETES,
        Text("Delete what you do not need: gpuadmin-me disk", "your home is larger than it may be: {has} of {most}",
             "필요 없는 파일을 지우세요: gpuadmin-me disk",
             "홈 디렉터리가 한도를 넘었습니다: {most} 중 {has} 사용")),
    Row("amount-docker-over", HINDERS, _AMOUNTS,
        "{name}'s Docker data is more than they may have: {has} of {most}; nothing refuses more", _DELETES,
        type_command("docker rmi, docker builder prune",
                     "your Docker data on this node is more than it may be: {has} of {most}",
                     "이 노드의 Docker 데이터가 한도를 넘었습니다: {most} 중 {has} 사용")),
    Row("home-others", HINDERS, _HOME, "{name}'s ~/{file} belongs to {owner}",
        "gpuadmin run STORAGE -- chown -h {uid}:{uid} {place}/{file}",
        tell_admins("your ~/{file} belongs to somebody else", "~/{file}의 소유자가 본인이 아닙니다")),
    Row("home-open", NOTE, _HOME, "others can read {name}'s home: it has mode {mode:04o}", "{name}: chmod 700 {path}",
        type_command("chmod 700 {path}", "others can read your home", "다른 사람이 홈 디렉터리를 읽을 수 있습니다")),
    # slow homes explain less than all else that hinders now
    Row("homes-slow", HINDERS, _SERVER, "the homes are slow: one question took {took} ms", _STORAGE,
        Text("Read data from the node's own disk", "the homes are slow: {took} ms for one question",
             "데이터를 노드의 로컬 디스크에서 읽으세요", "홈 디렉터리가 느립니다: 요청 한 번에 {took} ms"),
        before="refused-key"),
)  # fmt: skip
_found = ROWS.find


def judge(facts: Facts, person: Person | None) -> Iterator[Cause]:
    """The causes that lie in the homes of a host, in a person's own, or in their amounts of disks."""
    yield from _judge_server(facts)
    if person is not None:
        yield from _judge_home(facts, person)
        yield from _judge_amounts(facts, person)


def _judge_server(facts: Facts) -> Iterator[Cause]:
    """The causes that lie in the file system of all homes on one host."""
    mount, homes = facts.get("mount"), facts.get("homes")
    where = f"{mount['source']} ({mount['type']})" if mount and mount["source"] else "nothing"
    why = str(facts["unknown"].get("homes", ""))
    seen = (f"homes: {why}",) if why else ()
    if "homes" in facts["late"]:
        yield _found("homes-late", *seen, where=where)
        return
    if homes is None:
        if "tale" in why:
            yield _found("homes-stale", *seen, where=where, point=shlex.quote(str((mount or {}).get("point"))))
        elif why:
            yield _found("homes-not-mounted/gone", *seen)
        return
    mount = homes["mount"]
    where = f"{mount['source']} ({mount['type']})"
    if facts["node"] and not mount["network"] and mount["type"] != "autofs":
        yield _found("homes-not-mounted", where=where)
        return
    if homes["free"] < FULL:
        yield _found("homes-full", where, left=size_words(homes["free"]), most=size_words(homes["bytes"]))
    if homes["inodes"] and not homes["inodes_free"]:
        yield _found("homes-inodes", where)
    if mount["read_only"] and facts["node"]:
        yield _found("homes-read-only", where)
    if homes["milliseconds"] > SLOW:
        yield _found("homes-slow", where, took=f"{homes['milliseconds']:.0f}")


def _judge_home(facts: Facts, person: Person) -> Iterator[Cause]:
    """The causes that lie in one home, where all of them can be looked at."""
    found, uid = facts.get("home"), person.uid
    if uid is None:
        uid = ((facts.get("account") or {}).get("passwd") or {}).get("uid")
    if found is None or not person.registered or facts.get("homes") is None:
        return
    mount = facts["homes"]["mount"]
    if facts["node"] and not mount["network"]:
        return  # what is below an empty mount point proves nothing
    path = found["path"]
    tell = partial(_found, name=person.name, uid=uid, path=path, place=f"EXPORT/{shlex.quote(path.rpartition('/')[2])}")
    if found["kind"] is None:
        yield tell("home-missing")
    elif facts["node"] and found.get("passwd"):
        yield tell("home-passwd", passwd=found["passwd"])
    elif found["kind"] in ("stale", "error"):
        yield tell("homes-stale/home", error=found["error"], point=shlex.quote(str(mount["point"])))
    elif found["kind"] != "directory":
        yield tell("home-kind", kind="a symbolic link" if found["kind"] == "link" else "a file")
    elif uid is not None and found["uid"] != uid:
        yield tell("home-owner", path, owner=found["owner"])
    elif found["mode"] & 0o700 != 0o700:
        yield tell("home-mode", path, mode=found["mode"])
    else:
        if found["mode"] & 0o004:
            yield tell("home-open", mode=found["mode"])
        for other in found.get("others") or ():
            yield tell("home-others", file=other["name"], owner=other["owner"])


def _judge_amounts(facts: Facts, person: Person) -> Iterator[Cause]:
    """The causes that lie in amounts: a full one, where the kernel refuses more, or one that is only told."""
    for place, used in (facts.get("amounts") or {}).items():
        tell = partial(_found, name=person.name, has=size_words(used["bytes"]), most=size_words(used["most"]))
        if used["held"] and used["bytes"] * 100 >= used["most"] * AMOUNT_FULL:
            yield tell({"docker": "amount-full", "home": "amount-home-full"}.get(place, "amount-scratch-full"))
        elif not used["held"] and used["bytes"] >= used["most"]:
            yield tell("amount-over" if place == "home" else "amount-docker-over")
