"""The last step on the storage host: homes that are here whole get their names, which nothing had before.

Further homes of a person go into the main one while that is still where root alone can enter. Each step can be told
from what is on the disk: which directory has which name. Done again it goes on.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import replace

from ansible_collections.gpuadmin.node.plugins.module_utils.btrfs import open_directory
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError, in_words
from ansible_collections.gpuadmin.node.plugins.module_utils.files import sync_filesystem
from ansible_collections.gpuadmin.node.plugins.module_utils.homes.creating import is_untouched
from ansible_collections.gpuadmin.node.plugins.module_utils.purge import gone
from ansible_collections.gpuadmin.node.plugins.module_utils.renaming import exchange, rename_new

from . import place, record
from .record import PLACED, Part


def placed(homes: int, one: Part, main: Part | None) -> bool:
    """Whether a part is where it belongs, by which directory has the name."""
    if one.step in (PLACED, record.ASIDE):
        return True
    if not one.here:
        return False
    if one.main:
        return place.inode_at(homes, one.name) == one.here
    if main is not None and place.inode_at(homes, one.name) != main.here:
        return False
    try:
        top = open_directory(one.name, homes)
    except OSError:
        return False
    try:
        return place.inode_at(top, one.before) == one.here
    finally:
        os.close(top)


def any_placed(root: str, parts: Sequence[Part]) -> bool:
    """Whether one of a person's homes has its name after their step has failed. What cannot be told may have it."""
    try:
        with place.opened(root) as homes:
            main = next((one for one in parts if one.main), None)
            return any(placed(homes, one, main) for one in parts)
    except (NodeError, OSError):
        return True  # guard: what cannot be told may have its name -> False


def _is_in_place(at: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def settle(root: str, state: str, parts: Sequence[Part], skeleton: str, at: int) -> list[Part]:
    """Give a person's homes, which were all compared just now, their names. ``at``: where they arrived, open.

    Raises NodeError where something else has such a name; nothing was replaced then.
    """
    main = next((one for one in parts if one.main), None)
    with place.opened(root) as homes:
        if main is None:
            with place.home(homes, parts[0].name, parts[0].uid) as top:
                taken = [one.before for one in parts if _is_in_place(top, one.before)]
                if taken:
                    raise NodeError(f"their home has a {taken[0]} already: nothing was replaced")
                for one in parts:
                    rename_new(one.host, at, one.before, top)
        else:
            top = open_directory(main.host, at)
            try:
                for one in parts:
                    if not one.main:
                        rename_new(one.host, at, one.before, top)
            finally:
                os.close(top)
            sync_filesystem(root)
            _name(root, homes, at, main, skeleton)
        sync_filesystem(root)  # guard: a home has its name on the disk before the old one is set aside
    return [record.save(state, replace(one, step=PLACED)) for one in parts]


def _name(root: str, homes: int, at: int, main: Part, skeleton: str) -> None:
    """Give the main home its name. The untouched home that provisioning made changes places with it."""
    if not place.inode_at(homes, main.name):
        rename_new(main.host, at, main.name, homes)
        return
    with place.home(homes, main.name, main.uid) as made:
        if not is_untouched(made, skeleton, main.uid):  # guard: a home that somebody has used stays theirs
            raise NodeError("their home on the storage host is not empty any more: run it again")
    one = os.path.join(root, place.MOVING, main.name, main.host)
    exchange(one, os.path.join(root, main.name))
    with place.home(at, main.host, main.uid) as made:
        if not is_untouched(made, skeleton, main.uid):  # guard: what came out is looked at again -> False
            exchange(one, os.path.join(root, main.name))
            raise NodeError("their home on the storage host was just used: run it again")


def unsettle(root: str, state: str, parts: Sequence[Part], at: int) -> None:
    """Take a person's homes back to where they arrived, since an old one cannot be set aside: what is on the nodes is
    their home then, as before. The untouched one that provisioning made gets its name again.

    ``parts`` were placed while their person was kept out, which they are yet. Raises NodeError.
    """
    name, main = parts[0].name, next((one for one in parts if one.main), None)
    mine = {one.host for one in parts}
    with place.opened(root) as homes:
        others = [
            one
            for one in record.known(state)
            if one.name == name  # guard: the home of one keeps nobody else's in its place
            and one.host not in mine
        ]
        if main is not None and any(placed(homes, one, main) for one in others):
            # guard: a home that others were set aside for stays
            raise NodeError(f"homes of other nodes are in their home on the storage host: {others[0].host}")
        for one in parts:
            # guard: what is taken back is known by the disk from here on, whatever cuts it off
            record.save(state, replace(one, step=record.CHANGING))
        if main is None or place.inode_at(homes, name) == main.here:
            with place.home(homes, name, parts[0].uid) as top:
                for one in parts:
                    if not one.main and place.inode_at(top, one.before) == one.here:
                        rename_new(one.before, top, one.host, at)
            if main is not None and place.inode_at(at, main.host):
                exchange(os.path.join(root, place.MOVING, name, main.host), os.path.join(root, name))
            elif main is not None:
                rename_new(name, homes, main.host, at)
        sync_filesystem(root)  # guard: nobody is let in before it is on the disk


def tidy(at: int, parts: Sequence[Part], skeleton: str) -> None:
    """Delete the untouched home that a main one has replaced. ``parts`` have their names."""
    for main in (one for one in parts if one.main):
        inode = place.inode_at(at, main.host)
        if inode and inode != main.here:
            with place.home(at, main.host, main.uid) as made:
                # guard: a home that was replaced is deleted only if nobody has used it
                if not is_untouched(made, skeleton, main.uid):
                    raise NodeError(f"{place.MOVING}/{main.name}/{main.host} is kept: it is not an untouched home")
            gone(at, main.host)


def leave(root: str, state: str, skeleton: str) -> None:
    """Remove what is empty of the directory in which homes arrive, and untouched homes that a cut has left there."""
    with place.opened(root) as homes:
        try:
            above = open_directory(place.MOVING, homes)
        except FileNotFoundError:
            return
        try:
            known = record.known(state)
            problems = []
            for name in sorted(os.listdir(above)):
                theirs = [one for one in known if one.name == name and one.main and placed(homes, one, None)]
                try:
                    at = open_directory(name, above)
                    try:
                        tidy(at, theirs, skeleton)
                    finally:
                        os.close(at)
                    _remove(name, above)
                except (NodeError, OSError) as error:  # guard: what is kept of one person keeps nothing of others
                    problems.append(in_words(error))
        finally:
            os.close(above)
        if problems:
            raise NodeError("; ".join(problems))
        _remove(place.MOVING, homes)


def _remove(name: str, at: int) -> None:
    try:
        os.rmdir(name, dir_fd=at)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.ENOENT):
            raise
