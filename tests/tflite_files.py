"""TFLite files made by hand: softmax(x W) for images of 4 x 4 x 3, as floats or 8-bit numbers; not a test itself."""

from pathlib import Path

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

UINT8, INT8, FLOAT = schema.TensorType.UINT8, schema.TensorType.INT8, schema.TensorType.FLOAT32


def weights(classes: int = 3) -> np.ndarray:
    """W (48, classes); rows follow the pixels of an image (height, width, channels)."""
    return np.random.default_rng(1).normal(size=(48, classes)).astype(np.float32)


def write(path: Path, *, kind: int = FLOAT, classes: int = 3, softmax: bool = True, first: bool = False) -> None:
    """Floats: in [0, 1] in and probabilities out. 8 bits: of the image goes in what `quantised` says, multiples of
    1/256 come out. `first`: channels before rows and columns."""
    model = schema.ModelT()
    model.version, model.operatorCodes, model.buffers = 3, [], [schema.BufferT()]
    graph = schema.SubGraphT()
    graph.tensors, graph.operators = [], []

    def tensor(name, shape, type, data=None, scale=None, zero=0):
        made = schema.TensorT()
        made.name, made.shape, made.type = name, list(shape), type
        if scale is not None:
            made.quantization = schema.QuantizationParametersT()
            made.quantization.scale, made.quantization.zeroPoint = [scale], [zero]
        if data is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(data.tobytes(), np.uint8)
            model.buffers.append(buffer)
            made.buffer = len(model.buffers) - 1
        graph.tensors.append(made)
        return len(graph.tensors) - 1

    def operator(code, inputs, outputs, kind_of_options=None, options=None):
        known = schema.OperatorCodeT()
        known.builtinCode, known.deprecatedBuiltinCode, known.version = code, code, 1
        model.operatorCodes.append(known)
        made = schema.OperatorT()
        made.opcodeIndex, made.inputs, made.outputs = len(model.operatorCodes) - 1, inputs, outputs
        if options is not None:
            made.builtinOptionsType, made.builtinOptions = kind_of_options, options
        graph.operators.append(made)

    shape = (1, 3, 4, 4) if first else (1, 4, 4, 3)
    zero = -128 if kind == INT8 else 0
    stored = {} if kind == FLOAT else {"scale": 1 / 255, "zero": zero}
    taken = tensor("image", shape, kind, **stored)
    flat = tensor("flat", (1, 48), kind, **stored)
    size = tensor("size", (2,), schema.TensorType.INT32, np.array([1, 48], np.int32))
    operator(schema.BuiltinOperator.RESHAPE, [taken, size], [flat])
    if kind != FLOAT:
        number = tensor("number", (1, 48), FLOAT)
        operator(schema.BuiltinOperator.DEQUANTIZE, [flat], [number])
        flat = number
    matrix = tensor("W", (classes, 48), FLOAT, np.ascontiguousarray(weights(classes).T))
    result = tensor("scores", (1, classes), FLOAT)
    options = schema.BuiltinOptions
    operator(
        schema.BuiltinOperator.FULLY_CONNECTED,
        [flat, matrix, -1],
        [result],
        options.FullyConnectedOptions,
        schema.FullyConnectedOptionsT(),
    )
    if softmax:
        sharp = schema.SoftmaxOptionsT()
        sharp.beta = 1.0
        probs = tensor("probs", (1, classes), FLOAT)
        operator(schema.BuiltinOperator.SOFTMAX, [result], [probs], options.SoftmaxOptions, sharp)
        result = probs
    if kind != FLOAT:
        bytes_out = tensor("bytes", (1, classes), kind, scale=1 / 256, zero=zero)
        operator(schema.BuiltinOperator.QUANTIZE, [result], [bytes_out], options.QuantizeOptions)
        result = bytes_out
    graph.inputs, graph.outputs, model.subgraphs = [taken], [result], [graph]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    path.write_bytes(bytes(builder.Output()))
