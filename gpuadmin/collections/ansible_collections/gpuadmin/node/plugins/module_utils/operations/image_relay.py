"""gpuadmin.node.image_relay: a node is ready to pass an image on."""

from __future__ import annotations

from dataclasses import dataclass

from gpuadmin.common.records.images import ChainLink

from ..answer import Answer
from ..code_cache import LINK
from ..errors import NodeError, in_words
from ..images import chain_key, relay
from ..images.places import Places
from ..paths import STATE


@dataclass(frozen=True)
class Document:
    """Be ready to pass an image on along a chain of nodes.

    Keeps the key of this push for root, in ``/run/gpuadmin``, until the push is over.
    Where there is a node before, starts the unit ``gpuadmin-relay.service``, which takes a full stream from it
    and passes it to the next. Only who holds the key gets a byte or brings one.
    Where that does not work it says so and does not fail, because every node gets what it lacks from the store.
    """

    #: The image.
    name: str
    link: ChainLink
    #: The private key and the certificate of this push, in PEM.
    key: str
    #: Where the node-side code lies.
    code: str = f"{STATE}/lib/{LINK}"
    #: What runs it.
    python: str = "/usr/bin/python3"


def operate(document: Document, check: bool) -> Answer:
    places, remarks = Places(), []
    if (
        not check  # guard: check mode writes no key
        and document.link.port
    ):
        try:
            chain_key.store(places, document.key)
            if document.link.previous:
                relay.start(document.name, document.link, places, document.code, document.python)
        except (NodeError, OSError) as error:
            remarks.append(f"the image comes from the store and not along the chain: {in_words(error)}")
    return Answer(more={"remarks": remarks})
