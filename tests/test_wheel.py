"""A wheel, built as a release is, in an environment with nothing else: learn, adapt and predict without any extra."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import dfml

ROOT = Path(__file__).parent.parent
APIS = """
[apis.lamp]
protocol = "python"
function = "lamp:light"
classes = ["light", "dark"]
image = [3, 8, 8]
"""
LAMP = '''
def light(images):
    """Bright pictures are light."""
    return [[float(mean), 1 - float(mean)] for mean in images.mean((1, 2, 3))]
'''


def run(*command: str | Path, cwd: Path) -> str:
    """What a command prints; without our own source on its path."""
    variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--outdir", out, ROOT, cwd=ROOT)
    (built,) = out.glob("*.whl")
    return built


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    assert wheel.name == f"dfml-{dfml.__version__}-py3-none-any.whl"
    names = zipfile.ZipFile(wheel).namelist()
    assert {"dfml/py.typed", "dfml/report/page.html", "dfml/report/page.css"} <= set(names)
    assert all(name.startswith(("dfml/", "dfml-")) for name in names)
    modules = {name for name in names if name.endswith(".py")}
    ours = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src" / "dfml").rglob("*.py")}
    assert modules == ours


@pytest.mark.slow
def test_from_an_empty_environment_to_a_prediction(wheel, tmp_path):
    run(sys.executable, "-m", "venv", tmp_path / "env", cwd=tmp_path)
    bin_ = tmp_path / "env" / "bin"
    run(bin_ / "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", wheel, cwd=tmp_path)
    assert dfml.__version__ in run(bin_ / "python", "-c", "import dfml; print(dfml.__version__)", cwd=tmp_path)
    (tmp_path / "apis.toml").write_text(APIS)
    (tmp_path / "lamp.py").write_text(LAMP)
    for name, value in (("night", 20), ("day", 230)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(2):
            Image.fromarray(np.full((16, 16, 3), value + number, np.uint8)).save(
                tmp_path / "photos" / name / f"{number}.png"
            )
    Image.fromarray(np.full((16, 16, 3), 228, np.uint8)).save(tmp_path / "new.png")
    run(bin_ / "dfml", "learn", "apis.toml", "--budget", "60", "--set", "distil.steps=5", "--out", "run", cwd=tmp_path)
    run(bin_ / "dfml", "adapt", "run", "--support", "photos", "--out", "classifier", cwd=tmp_path)
    (answer,) = json.loads(run(bin_ / "dfml", "predict", "classifier", "new.png", "--json", cwd=tmp_path))
    assert answer["label"] in ("night", "day")
    for extra in ("onnx", "sklearn"):
        found = f"import importlib.util; print(importlib.util.find_spec({extra!r}))"
        assert run(bin_ / "python", "-c", found, cwd=tmp_path).strip() == "None", "the environment was not empty"
    refused = subprocess.run([bin_ / "dfml", "demo"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "pip install 'dfml[onnx,report]'" in refused.stderr
