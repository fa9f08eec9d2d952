"""What `dfml probe` says of APIs whose properties are known."""

import json

import numpy as np
import pytest

from dfml.apis.blackbox import ApiSpec, Terms
from dfml.apis.degrade import LabelOnly, Quantised, Rounded, TopK
from dfml.apis.local.function import FunctionApi
from dfml.cli import main
from dfml.errors import ConfigError
from dfml.probing import QUERIES, probe
from strangers import CLASSES, serving, v2

WEIGHTS = np.random.default_rng(0).normal(size=(3 * 16 * 16, 4)) * 0.3


def answer(images):
    scores = (images.reshape(len(images), -1) - 0.5) @ WEIGHTS
    scores = np.exp(scores - scores.max(1, keepdims=True))
    return scores / scores.sum(1, keepdims=True)


def api(function=answer, **terms):
    spec = ApiSpec(name="toy", classes=("a", "b", "c", "d"), image=(3, 16, 16), terms=Terms(**terms))
    return FunctionApi(function, spec)


def findings(box):
    (found,), _ = probe([box])
    return found


def test_an_exact_api_is_called_exact():
    found = findings(api())
    assert (found.output, found.named, found.decimals, found.deterministic) == ("probs", 4, None, True)
    assert (found.sees_paper_radius, found.visible_radius) == (True, 0.005)
    assert found.queries == QUERIES == 14


@pytest.mark.parametrize(
    ("wrap", "expected"),
    [
        (lambda box: Rounded(box, 2), {"output": "probs", "decimals": 2}),
        (lambda box: TopK(box, 2), {"output": "top-k", "named": 2}),
        (lambda box: Rounded(TopK(box, 2), 3), {"output": "top-k", "named": 2, "decimals": 3}),
        (LabelOnly, {"output": "label", "named": 1}),
        (Quantised, {"levels": 256, "sees_paper_radius": False}),
    ],
)
def test_what_is_lost_is_found(wrap, expected):
    found = findings(wrap(api()))
    assert {key: getattr(found, key) for key in expected} == expected


def test_an_api_that_calls_everything_the_same_is_named(monkeypatch, capsys):
    monkeypatch.setattr("dfml.apis.loading.load_apis", lambda path, only: [api(lambda x: np.eye(4)[[2] * len(x)])])
    assert findings(api()).label_entropy > 0
    assert findings(api(lambda x: np.eye(4)[[2] * len(x)])).label_entropy == 0
    main(["probe", "apis.toml"])
    assert "1 of 1 APIs call all pictures of this probe the same, toy among them" in capsys.readouterr().out


def test_through_8_bit_images_the_papers_probes_are_invisible_and_a_longer_one_is_named():
    found = findings(Quantised(api()))
    assert found.visible_radius in (0.05, 0.5, 2.0)
    assert found.queries < QUERIES, "a probe that rounds back to its image is no query"
    assert findings(LabelOnly(api(lambda images: np.eye(4)[[0] * len(images)]))).visible_radius is None


def test_an_api_that_changes_its_mind_is_caught():
    rng = np.random.default_rng(0)
    assert findings(api(lambda images: rng.dirichlet(np.ones(4), len(images)))).deterministic is False


def test_costs_follow_the_plans_and_the_price():
    _, costs = probe([api(price=1.5), FunctionApi(answer, api().spec.with_changes(name="free"))])
    chorus = next(cost for cost in costs if (cost.method, cost.preset) == ("chorus", "default"))
    assert (chorus.queries, chorus.usd) == (2000, 1.5)
    paper = next(cost for cost in costs if (cost.method, cost.preset) == ("bidf-mkd", "paper"))
    # 300 visits of two sets: 4 classes x 30 images x 200 steps x (1 + 100 directions).
    assert paper.queries == 300 * 2 * 4 * 30 * 200 * 101


def test_a_budget_below_what_it_takes_is_refused_or_reported():
    with pytest.raises(ConfigError, match="takes 14 queries"):
        probe([api()], budget=13)
    found = findings(api(budget=5))
    assert "would pass its budget" in (found.problem or "")
    assert found.queries <= 5


def test_a_server_is_probed_through_the_ledger(tmp_path, capsys):
    asked = []

    def respond(request):
        asked.append(request.json()["inputs"][0]["shape"][0])
        return (413, {}, b"") if asked[-1] > 4 else v2(request)

    with serving(respond) as server:
        (tmp_path / "apis.toml").write_text(
            f"[apis.m]\nprotocol = 'inference_v2'\nurl = '{server.url}'\nmodel = 'm'\nimage = [3, 4, 4]\n"
            f"classes = {list(CLASSES)}\nprice = 2.0\n[apis.dead]\nprotocol = 'inference_v2'\nurl = 'http://127.0.0.1:9'\n"
            "model = 'm'\nimage = [3, 4, 4]\nclasses = ['a', 'b']\nlimits.retries = 0\n"
        )
        assert main(["probe", str(tmp_path), "--json", "--out", str(tmp_path / "kept")]) == 1
        told = json.loads(capsys.readouterr().out)
        alive, dead = told["apis"]
        assert alive["problem"] is None
        assert told["queries"] == alive["queries"] == sum(count for count in asked if count <= 4) == QUERIES
        assert alive["images_per_request"] == 4
        assert "cannot be reached" in dead["problem"]
        assert main(["probe", str(tmp_path)]) == 1
        out = capsys.readouterr().out
        assert "28 queries" not in out
        assert "chorus" in out


def test_answers_that_cannot_be_used_are_among_the_queries_that_were_sent(tmp_path, capsys):
    asked = []

    def respond(request):
        asked.append(request.json()["inputs"][0]["shape"][0])
        return v2(request)

    with serving(respond) as server:
        (tmp_path / "apis.toml").write_text(
            f"[apis.m]\nprotocol = 'inference_v2'\nurl = '{server.url}'\nmodel = 'm'\nimage = [3, 4, 4]\n"
            "classes = ['a', 'b']\n"
        )
        assert main(["probe", str(tmp_path), "--json", "--out", str(tmp_path / "kept")]) == 1
        told = json.loads(capsys.readouterr().out)
        assert (told["queries"], told["unusable"], told["in_doubt"]) == (0, sum(asked), 0)
        assert told["unusable"] > 0
        assert main(["ledger", str(tmp_path / "kept"), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["unusable"] == sum(asked)
        assert main(["ledger", str(tmp_path / "kept")]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert "unusable" in said
        assert f"{sum(asked)} answers more were paid for and could not be used" in said
        asked.clear()
        assert main(["probe", str(tmp_path)]) == 1
        said = " ".join(capsys.readouterr().out.split())
        assert f"{sum(asked)} queries were sent ({sum(asked)} got answers that cannot be used)" in said
