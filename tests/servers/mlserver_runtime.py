"""A custom runtime for MLServer: an ONNX file of a zoo. It runs in MLServer's own environment, not in dfml's."""

import os

import numpy as np
import onnxruntime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse


class Onnx(MLModel):
    async def load(self) -> bool:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(self.settings.parameters.uri, options)
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        images = NumpyCodec.decode_input(payload.inputs[0]).astype(np.float32)
        scores = self._session.run(None, {"images": images})[0]
        with open(os.environ["DIARY"], "a") as diary:  # the server's own count, for the test
            diary.write(f"{self.name} {len(images)}\n")
        return InferenceResponse(
            id=payload.id, model_name=self.name, outputs=[NumpyCodec.encode_output("probabilities", scores)]
        )
