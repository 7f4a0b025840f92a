"""passwd, shadow, group and gshadow of one root as one thing that can be asked and edited in memory."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import NodeError
from ..textdb import Table, members, number

NAMES = ("passwd", "shadow", "group", "gshadow", "subuid", "subgid")
# A cut between two renames must leave nothing that the next run cannot finish: an account exists once passwd names it.
RENAME_ORDER = ("shadow", "gshadow", "group", "subgid", "subuid", "passwd")
NEW_FILE_MODES = {
    "passwd": 0o644,
    "shadow": 0o640,
    "group": 0o644,
    "gshadow": 0o640,
    "subuid": 0o644,
    "subgid": 0o644,
}


def real_hash(value: str) -> str | None:
    """The password hash of a shadow field without lock marks, or None when there is none that could match."""
    plain = value.lstrip("!")
    return None if plain in ("", "*", "x") else plain


class Databases:
    """Observed texts in, edited texts out. Lookups are dictionaries: thousands of users stay one pass."""

    def __init__(self, texts: Mapping[str, str | None]):
        for needed in ("passwd", "shadow", "group"):
            if texts.get(needed) is None:
                raise NodeError(f"/etc/{needed} is missing; nothing was changed")
        self.passwd = Table.parse("passwd", texts["passwd"] or "")
        self.shadow = Table.parse("shadow", texts["shadow"] or "")
        self.group = Table.parse("group", texts["group"] or "")
        gshadow = texts.get("gshadow")
        self.gshadow = None if gshadow is None else Table.parse("gshadow", gshadow)
        self.names_by_uid: dict[int, list[str]] = {}
        self.groups_by_gid: dict[int, list[str]] = {}
        self.primary: dict[int, set[str]] = {}
        for fields in self.passwd.entries():
            uid, gid = number(fields[2]), number(fields[3])
            if uid is not None:
                self.names_by_uid.setdefault(uid, []).append(fields[0])
            if gid is not None:
                self.primary.setdefault(gid, set()).add(fields[0])
        self._members: dict[str, list[str]] = {}
        self._groups_by_member: dict[str, list[str]] = {}
        self._changed: dict[str, None] = {}
        for fields in self.group.entries():
            gid = number(fields[2])
            if gid is not None:
                self.groups_by_gid.setdefault(gid, []).append(fields[0])
            if fields[0] not in self._members:
                self._members[fields[0]] = members(fields[3])
                for name in dict.fromkeys(self._members[fields[0]]):
                    self._groups_by_member.setdefault(name, []).append(fields[0])

    def uid(self, name: str) -> int | None:
        fields = self.passwd.get(name)
        return None if fields is None else number(fields[2])

    def gid(self, group: str) -> int | None:
        fields = self.group.get(group)
        return None if fields is None else number(fields[2])

    def has_group(self, group: str) -> bool:
        return self.group.get(group) is not None

    def find_groups(self, name: str) -> list[str]:
        return list(self._groups_by_member.get(name, ()))

    def members(self, group: str) -> set[str]:
        """Who may have the group beside those whose primary one it is, by either file."""
        shadow = None if self.gshadow is None else self.gshadow.get(group)
        return {*self._members.get(group, []), *(members(shadow[3]) if shadow is not None and len(shadow) > 3 else ())}

    def real_ids(self) -> set[int]:
        return set(self.names_by_uid) | set(self.groups_by_gid)

    def add_group(self, group: str, gid: int) -> None:
        self.group.set(group, [group, "x", str(gid), ""])
        if self.gshadow is not None:
            self.gshadow.set(group, [group, "!", "", ""])
        self.groups_by_gid.setdefault(gid, []).append(group)
        self._members.setdefault(group, [])

    def remove_group(self, group: str) -> None:
        gid = self.gid(group)
        self.group.remove(group)
        if self.gshadow is not None:
            self.gshadow.remove(group)
        if gid is not None:
            self.groups_by_gid[gid] = [name for name in self.groups_by_gid.get(gid, []) if name != group]
            if not self.groups_by_gid[gid]:
                del self.groups_by_gid[gid]
        for name in self._members.pop(group, []):
            self._groups_by_member[name] = [one for one in self._groups_by_member.get(name, []) if one != group]
        self._changed.pop(group, None)

    def set_passwd(self, name: str, fields: list[str]) -> None:
        self.passwd.set(name, fields)
        names = self.names_by_uid.setdefault(int(fields[2]), [])
        if name not in names:
            names.append(name)

    def remove_passwd(self, name: str) -> None:
        uid = self.uid(name)
        self.passwd.remove(name)
        self.shadow.remove(name)
        if uid is not None:
            self.names_by_uid[uid] = [one for one in self.names_by_uid.get(uid, []) if one != name]
            if not self.names_by_uid[uid]:
                del self.names_by_uid[uid]
        for names in self.primary.values():
            names.discard(name)

    def join(self, name: str, group: str) -> None:
        self._members[group].append(name)
        self._groups_by_member.setdefault(name, []).append(group)
        self._changed[group] = None

    def leave(self, name: str, group: str) -> None:
        self._members[group] = [one for one in self._members[group] if one != name]
        self._groups_by_member[name] = [one for one in self._groups_by_member[name] if one != group]
        self._changed[group] = None

    def texts(self) -> dict[str, str]:
        """All texts after the edits; a file that was not edited comes out byte for byte."""
        for group in self._changed:
            fields = self.group.get(group)
            if fields is None:
                continue
            before = set(members(fields[3]))
            now = self._members[group]
            self.group.set(group, [*fields[:3], ",".join(now)])
            shadow = None if self.gshadow is None else self.gshadow.get(group)
            if self.gshadow is None or shadow is None:
                continue
            gone = before - set(now)
            kept = [one for one in members(shadow[3]) if one not in gone]
            fresh = [one for one in now if one not in before and one not in set(kept)]
            admins = [one for one in members(shadow[2]) if one not in gone]
            self.gshadow.set(group, [shadow[0], shadow[1], ",".join(admins), ",".join(kept + fresh)])
        self._changed.clear()
        result = {"passwd": self.passwd.text(), "shadow": self.shadow.text(), "group": self.group.text()}
        if self.gshadow is not None:
            result["gshadow"] = self.gshadow.text()
        return result
