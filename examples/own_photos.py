"""A classifier for one's own photographs: a folder a class with a few pictures each, and a folder of new ones.

python examples/own_photos.py apis.toml photos/ new/
"""

import sys
from pathlib import Path

import dfml
from dfml.data.support import find_images, read_files, read_support

APIS, PHOTOS, NEW = map(Path, sys.argv[1:4])

# Without pictures of your own leaving the machine: the APIs are asked about drawn ones.
init = dfml.learn(APIS, "run-photos/", budget=3000, resume=True)

shape = {"size": init.net.size, "channels": init.net.channels}
images, names = read_support(PHOTOS, **shape)  # of any size and format that Pillow reads
classifier = init.adapt(images, names)
classifier.save("photo-classifier/")  # for `dfml predict photo-classifier/ new/`, and as model.onnx

files = find_images([NEW])
for file, row in zip(files, classifier.predict_proba(read_files(files, **shape)), strict=True):
    best = row.argmax()
    print(f"{file.name}: {classifier.classes_[best]} ({100 * row[best]:.0f} %)")
