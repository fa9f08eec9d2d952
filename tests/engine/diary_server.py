"""A slow V2 server that keeps a diary, and looks into the ledger while it is asked; not a test itself."""

import sqlite3
import threading
import time
from collections import Counter
from contextlib import contextmanager

import numpy as np
import torch

import strangers
from dfml.apis.blackbox import ApiSpec
from dfml.apis.ledger import ledger_path
from dfml.apis.ledger.fingerprint import KEY_BYTES, fingerprints

SPEC = ApiSpec(name="any", classes=strangers.CLASSES, image=(3, 16, 16))


class Diary:
    """What the server was asked, when, by whom, and how often it was asked for what was on file already."""

    def __init__(self, latency, run=None):
        self.latency, self.run = latency, run
        self.asked = {}
        """API -> how often it answered about each image"""
        self.times, self.keys, self.twice = [], [], []
        self.lock = threading.Lock()
        self.on_request = lambda number: None

    def respond(self, request):
        if request.method == "GET":
            return 200, {}, {}
        now = time.monotonic()
        name = request.path.split("/")[3]
        (tensor,) = request.json()["inputs"]
        images = np.frombuffer(request.tail, "<f4").reshape(tensor["shape"])
        keys = fingerprints(SPEC, torch.from_numpy(images.copy()))
        with self.lock:
            if self.run is not None:
                self.twice += sorted(set(keys) & journalled(self.run, name))
            self.asked.setdefault(name, Counter()).update(keys)
            self.times.append(now)
            self.keys.append(request.headers.get("key"))
            number = len(self.times)
        self.on_request(number)
        time.sleep(self.latency)
        probs = strangers.model(images.reshape(len(images), 3, 4, 4, 4, 4).mean((3, 5)))
        output = {"name": "p", "datatype": "FP32", "shape": [*probs.shape], "data": probs.ravel().tolist()}
        return 200, {}, {"outputs": [output]}

    def answered(self, name):
        return sum(self.asked[name].values())


@contextmanager
def serving(latency=0.0, run=None):
    """A diary that is being written, and the address."""
    diary = Diary(latency, run)
    with strangers.serving(diary.respond) as server:
        yield diary, server.url


def journalled(run, name):
    """The keys of the answers on file, read without any code of the ledger."""
    path = ledger_path(run, name)
    if not path.exists():
        return set()
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)
    try:
        blobs = [keys for (keys,) in db.execute("SELECT keys FROM answers")]
    finally:
        db.close()
    return {blob[at : at + KEY_BYTES] for blob in blobs for at in range(0, len(blob), KEY_BYTES)}


def manifest(folder, url, apis, *lines):
    """So many APIs at `url`; `lines` hold for all."""
    text = f"[defaults]\nprotocol = 'inference_v2'\nurl = '{url}'\nimage = [3, 16, 16]\n"
    text += f"classes = {list(strangers.CLASSES)}\n" + "\n".join(lines) + "\n"
    text += "".join(f"[apis.api-{number}]\nmodel = 'api-{number}'\n" for number in range(apis))
    (folder / "apis.toml").write_text(text)
    return folder / "apis.toml"
