"""Models of a zoo behind LitServe, a route each. It runs in an environment of its own, not in dfml's.

MODELS is a JSON object {name: {"file": ..., "classes": [...]}}, DIARY the file to count in, PORT where to listen.
"""

import base64
import io
import json
import os

import litserve
import numpy as np
import onnxruntime
from PIL import Image


class Classifier(litserve.LitAPI):
    def __init__(self, name, file, classes):
        super().__init__(api_path=f"/{name}")
        self.name, self.file, self.classes = name, file, classes

    def setup(self, device):
        self.session = onnxruntime.InferenceSession(self.file)

    def decode_request(self, request):
        image = Image.open(io.BytesIO(base64.b64decode(request["image"])))
        return np.asarray(image.convert("RGB"), np.float32).transpose(2, 0, 1)[None] / np.float32(255)

    def predict(self, pixels):
        with open(os.environ["DIARY"], "a") as diary:
            diary.write(f"{self.name} 1\n")
        return self.session.run(None, {"images": pixels})[0][0]

    def encode_response(self, scores):
        return {"output": {"labels": self.classes, "scores": scores.tolist()}}


if __name__ == "__main__":
    apis = [Classifier(name, **model) for name, model in json.loads(os.environ["MODELS"]).items()]
    server = litserve.LitServer(apis, accelerator="cpu")
    server.run(host="127.0.0.1", port=int(os.environ["PORT"]), generate_client_file=False, log_level="warning")
