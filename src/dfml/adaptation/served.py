"""A classifier as an API: whatever can ask an API can ask it."""

from dfml.adaptation.classifier import FewShotClassifier
from dfml.apis.blackbox import ApiSpec
from dfml.apis.local.function import FunctionApi


def classifier_api(classifier: FewShotClassifier, name: str) -> FunctionApi:
    """`classifier` behind the seam, under `name`; a live one asks its own APIs as its `ask` says."""
    classes = tuple(map(str, classifier.classes_.tolist()))
    spec = ApiSpec(name=name, classes=classes, image=classifier.image_shape)
    return FunctionApi(classifier.predict_proba, spec)
