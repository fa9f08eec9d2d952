"""Hugging Face image classification: one encoded image in, labels with scores out, the best first."""

from dfml.serving.hosted import Hosted, to_lists
from dfml.serving.messages import JSON, HttpError, PredictionRequest, Request, Response, json_response
from dfml.serving.pictures import decode, from_base64

PREFIX = "/models/"
MOST = 5
"""labels of an answer where the client asks for no other number"""


def route(zoo: Hosted, request: Request) -> Response | PredictionRequest:
    """What `/models/NAME` asks for."""
    name = request.path.removeprefix(PREFIX)
    spec = zoo.spec(name)
    if request.method == "GET":
        return json_response({"id": name, "pipeline_tag": "image-classification", "labels": list(spec.classes)})
    if request.method != "POST":
        raise HttpError(405, f"{request.method} is not the way to ask for {request.path}")
    return PredictionRequest(name, lambda: classify(zoo, name, request))


def classify(zoo: Hosted, name: str, request: Request) -> Response:
    """The answer to one image, sent as it is or as base64 in JSON with parameters."""
    spec, file, most = zoo.spec(name), request.body, MOST
    if request.headers.get("Content-Type", "").partition(";")[0].strip() == JSON:
        message = request.json()
        file = from_base64(message.get("inputs"))
        parameters = message.get("parameters")
        wish = parameters.get("top_k") if isinstance(parameters, dict) else None
        if wish is not None:
            if type(wish) is not int or wish < 1:
                raise HttpError(400, f"top_k is a number of labels above 0, got {wish!r}")
            most = wish
    top, scores = zoo.ranked(name, decode(file, spec), most)
    labels = [spec.classes[column] for column in top[0].tolist()]
    answer = [{"label": label, "score": score} for label, score in zip(labels, to_lists(spec, scores)[0], strict=True)]
    return json_response(answer, images=1)
