"""Small servers of other people's protocols, in threads, that do as a test tells them; not a test itself."""

import base64
import io
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
from PIL import Image

from dfml.apis.loading import load_apis

CLASSES = ("ant", "bee", "cat")
WEIGHTS = np.random.default_rng(3).normal(size=(3 * 4 * 4, 3))


def model(images):
    """Probabilities (n, 3) for images (n, 3, 4, 4) in [0, 1], in float64 and without torch."""
    scores = images.reshape(len(images), -1).astype(np.float64) @ WEIGHTS
    scores = np.exp(scores - scores.max(1, keepdims=True))
    return scores / scores.sum(1, keepdims=True)


def decoded(file):
    """An encoded image as (3, h, w) in [0, 1]."""
    return np.asarray(Image.open(io.BytesIO(file)).convert("RGB")).transpose(2, 0, 1) / 255


class Stranger:
    """What a handler sees: `respond(request) -> (status, headers, body)`, and every request that came."""

    server: ThreadingHTTPServer

    def __init__(self, respond):
        self.respond, self.requests, self.lock = respond, [], threading.Lock()
        self.url = ""


class Request:
    def __init__(self, handler, body):
        self.method, self.path, self.body, self.handler = handler.command, handler.path, body, handler
        self.headers = {name.lower(): value for name, value in handler.headers.items()}
        self.number = 0

    def json(self):
        length = self.headers.get("inference-header-content-length")
        return json.loads(self.body[: int(length)] if length else self.body)

    @property
    def tail(self):
        return self.body[int(self.headers["inference-header-content-length"]) :]


@contextmanager
def serving(respond):
    """A server whose every request goes to `respond`, which may also write to the socket itself and return None."""
    stranger = Stranger(respond)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # or the client's late acknowledgement holds every body up for 40 ms

        def do_GET(self):
            request = Request(self, self.rfile.read(int(self.headers.get("content-length") or 0)))
            with stranger.lock:
                request.number = len(stranger.requests)
                stranger.requests.append(request)
            try:
                reply = stranger.respond(request)
                if reply is None:
                    self.close_connection = True
                    return
                status, headers, body = reply
                body = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)
            except OSError:  # the client has gone
                self.close_connection = True

        do_POST = do_GET

        def log_message(self, *_):
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

        def handle_error(self, *_):
            pass

    server = Server(("127.0.0.1", 0), Handler)
    stranger.server = server
    stranger.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield stranger
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def v2(request):
    """An honest V2 server: FP32, UINT8 and BYTES, JSON and binary."""
    if request.method == "GET":
        return 200, {}, {}
    told = request.json()
    (tensor,) = told["inputs"]
    binary = "binary_data_size" in tensor.get("parameters", {})
    shape = tensor["shape"]
    if tensor["datatype"] == "BYTES":
        if binary:
            data, files = request.tail, []
            while data:
                size = int.from_bytes(data[:4], "little")
                files.append(data[4 : 4 + size])
                data = data[4 + size :]
        else:
            files = [base64.b64decode(text) for text in tensor["data"]]
        images = np.stack([decoded(file) for file in files])
        assert shape == [len(images)]
    else:
        dtype = {"FP32": "<f4", "UINT8": "u1"}[tensor["datatype"]]
        flat = np.frombuffer(request.tail, dtype) if binary else np.array(tensor["data"], dtype)
        images = flat.reshape(shape) / (255 if dtype == "u1" else 1)
    probs = model(images)
    output: dict[str, Any] = {"name": "probabilities", "datatype": "FP32", "shape": list(probs.shape)}
    if binary and told.get("parameters", {}).get("binary_data_output"):
        raw = probs.astype("<f4").tobytes()
        output["parameters"] = {"binary_data_size": len(raw)}
        header = json.dumps({"outputs": [output]}).encode()
        return 200, {"Inference-Header-Content-Length": str(len(header))}, header + raw
    return 200, {}, {"outputs": [{**output, "data": probs.ravel().tolist()}]}


def tf(request):
    """An honest TF Serving: numbers or base64, in the form of the request."""
    told = request.json()

    def image(item):
        if isinstance(item, dict) and "b64" not in item:
            (item,) = item.values()
        return decoded(base64.b64decode(item["b64"])) if isinstance(item, dict) else np.array(item)

    items = told.get("instances") or told["inputs"]
    items = next(iter(items.values())) if isinstance(items, dict) else items
    probs = model(np.stack([image(item) for item in items])).tolist()
    return 200, {}, {"predictions": probs} if "instances" in told else {"outputs": probs}


def hf(request):
    """An honest Hugging Face server: raw bytes or JSON, sorted by score, the top 5 unless told otherwise."""
    if request.headers["content-type"] == "application/json":
        told = request.json()
        file, top = base64.b64decode(told["inputs"]), told.get("parameters", {}).get("top_k", 5)
    else:
        file, top = request.body, 5
    (probs,) = model(decoded(file)[None])
    ranked = sorted(zip(CLASSES, probs.tolist(), strict=True), key=lambda pair: -pair[1])
    return 200, {}, [{"label": label, "score": score} for label, score in ranked[:top]]


def manifest(folder, url, protocol, *lines, name="zoo", classes=CLASSES):
    """A manifest with one API at `url`."""
    path = folder / "apis.toml"
    path.write_text(
        f"[apis.{name}]\nprotocol = '{protocol}'\nurl = '{url}'\nmodel = 'm'\nclasses = {list(classes)}\n"
        "image = [3, 4, 4]\n" + "\n".join(lines)
    )
    return path


def load(*args, **kwargs):
    """The API of that manifest."""
    (api,) = load_apis(manifest(*args, **kwargs))
    return api
