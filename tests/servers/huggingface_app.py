"""Models of a zoo behind api-inference-community, one app each. It runs in an environment of its own, not in dfml's.

MODELS is a JSON object {name: {"file": ..., "classes": [...]}}, DIARY the file to count in.
"""

import json
import os

import numpy as np
import onnxruntime
from api_inference_community.routes import pipeline_route, status_ok
from starlette.applications import Starlette
from starlette.routing import Route


def pipeline(name, file, classes):
    session = onnxruntime.InferenceSession(file)

    def classify(image, top_k=5):
        pixels = np.asarray(image.convert("RGB"), np.float32).transpose(2, 0, 1)[None] / np.float32(255)
        scores = session.run(None, {"images": pixels})[0][0].tolist()
        with open(os.environ["DIARY"], "a") as diary:
            diary.write(f"{name} 1\n")
        best = sorted(zip(scores, classes, strict=True), reverse=True)[:top_k]
        return [{"label": label, "score": score} for score, label in best]

    return classify


def app_of(name, file, classes):
    answer = pipeline(name, file, classes)
    routes = [Route("/{path:path}", status_ok), Route("/{path:path}", pipeline_route, methods=["POST"])]
    inner = Starlette(routes=routes)
    inner.get_pipeline = lambda: answer
    return inner


APPS = {name: app_of(name, **model) for name, model in json.loads(os.environ["MODELS"]).items()}


async def app(scope, receive, send):
    """`/models/NAME` is the app of that model; the server's own beginning and end go to the first."""
    name = scope["path"].removeprefix("/models/") if scope["type"] == "http" else next(iter(APPS))
    await APPS.get(name, next(iter(APPS.values())))(scope, receive, send)
