"""Puts an image with one large layer into a registry, which a test has started: ADDRESS NAME TAG MEGABYTES.

It runs on a host of the lab, and needs nothing but Python.
"""

import gzip
import hashlib
import io
import json
import os
import sys
import tarfile
import urllib.request

TYPES = "application/vnd.docker."


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def send(method: str, url: str, data: bytes, kind: str) -> str:
    """Returns where the registry says that it goes on."""
    request = urllib.request.Request(url, data, {"Content-Type": kind}, method=method)
    with urllib.request.urlopen(request) as answer:
        return str(answer.headers.get("Location") or "")


def put_blob(where: str, data: bytes) -> str:
    place = send("POST", f"{where}/blobs/uploads/", b"", "text/plain")
    send("PUT", f"{place}{'&' if '?' in place else '?'}digest={digest(data)}", data, "application/octet-stream")
    return digest(data)


def main(address: str, name: str, tag: str, megabytes: int) -> None:
    where = f"http://{address}/v2/{name}"
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        entry = tarfile.TarInfo("payload")
        entry.size = megabytes << 20
        archive.addfile(entry, io.BytesIO(os.urandom(entry.size)))
    layer = gzip.compress(raw.getvalue(), compresslevel=1)
    config = {"architecture": "amd64", "os": "linux", "config": {"Cmd": ["/payload"]},
              "rootfs": {"type": "layers", "diff_ids": [digest(raw.getvalue())]}}  # fmt: skip
    settings = json.dumps(config).encode()
    manifest = {
        "schemaVersion": 2, "mediaType": f"{TYPES}distribution.manifest.v2+json",
        "config": {"mediaType": f"{TYPES}container.image.v1+json", "size": len(settings),
                   "digest": put_blob(where, settings)},
        "layers": [{"mediaType": f"{TYPES}image.rootfs.diff.tar.gzip", "size": len(layer),
                    "digest": put_blob(where, layer)}],
    }  # fmt: skip
    send("PUT", f"{where}/manifests/{tag}", json.dumps(manifest).encode(), manifest["mediaType"])
    print(len(layer) + len(settings))


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]))
