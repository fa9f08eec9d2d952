"""The zoo: reproducible bits, resuming, refusing, and APIs that really are classifiers."""

import json
import shutil

import numpy as np
import onnxruntime
import pytest
import torch
from safetensors.torch import load_file

from dfml.apis.loading import load_apis, load_white_boxes
from dfml.apis.manifest import read_manifest
from dfml.data import open_dataset
from dfml.errors import ConfigError, DfmlError
from dfml.nets import NetSpec
from dfml.zoo import building as zoos
from dfml.zoo.building import ApiTrained, ZooConfig, ZooStarted, build_zoo
from dfml.zoo.training import TrainConfig, accuracy, train

SMALL = ZooConfig(dataset="glyphs", apis=3, way=3, width=8, epochs=2, images_per_class=40)


def build(folder, config=SMALL, **arguments):
    return list(build_zoo(folder, config, **arguments))


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("zoo") / "zoo"
    build(folder, workers=2)
    return folder


def test_the_number_of_workers_does_not_change_a_bit(zoo, tmp_path):
    build(tmp_path / "one", workers=1)
    assert (tmp_path / "one" / "zoo.toml").read_text() == (zoo / "zoo.toml").read_text()
    for name in read_manifest(zoo).entries:
        ours, theirs = (load_file(folder / "apis" / f"{name}.safetensors") for folder in (zoo, tmp_path / "one"))
        assert all(torch.equal(ours[key], theirs[key]) for key in ours)


def test_running_it_again_trains_only_what_is_missing(zoo, tmp_path):
    again = tmp_path / "again"
    shutil.copytree(zoo, again)
    manifest = (again / "zoo.toml").read_text()
    cut = manifest[: manifest.index("[apis.glyphs-001]")]
    (again / "zoo.toml").write_text(cut)
    events = build(again)
    assert isinstance(events[0], ZooStarted)
    assert events[0].names == ("glyphs-001", "glyphs-002")
    assert (again / "zoo.toml").read_text() == manifest
    assert not [event for event in build(again) if isinstance(event, ApiTrained)]


def test_another_config_in_the_same_folder_is_refused(zoo):
    other = ZooConfig(**{**vars(SMALL), "seed": 1})
    with pytest.raises(ConfigError, match=r"built with other settings \(seed = 0\)"):
        build(zoo, other)


def test_the_onnx_file_is_self_contained(zoo):
    entries = read_manifest(zoo).entries
    for name, entry in entries.items():
        session = onnxruntime.InferenceSession(zoo / entry.file)
        (taken,), (given,) = session.get_inputs(), session.get_outputs()
        assert taken.type == "tensor(float)"
        assert taken.shape[1:] == [3, 32, 32]
        assert not isinstance(taken.shape[0], int)
        for count in (1, 7):
            (answer,) = session.run(None, {taken.name: np.random.default_rng(0).random((count, 3, 32, 32), np.float32)})
            assert answer.shape == (count, 3)
            assert np.allclose(answer.sum(1), 1, atol=1e-5)
        assert given.shape[1:] == [3] or given.shape[-1] == 3, name


def test_black_and_white_boxes_of_one_zoo_agree(zoo, rng):
    images = torch.rand(9, 3, 32, 32, generator=rng)
    for black, white in zip(load_apis(zoo), load_white_boxes(zoo), strict=True):
        assert black.spec == white.spec
        assert (black(images) - white(images)).abs().max() < 1e-5


def test_the_reported_accuracy_is_that_of_the_held_out_images(zoo):
    part = open_dataset("glyphs", "train")
    for api, (_, entry) in zip(load_apis(zoo), read_manifest(zoo).entries.items(), strict=True):
        hits = []
        for label, name in enumerate(entry.classes):
            images = part.tensor(part.classes.index(name))[:40][-8:]  # the last fifth of 40
            hits += (api(images).argmax(1) == label).tolist()
        assert entry.accuracy == pytest.approx(sum(hits) / len(hits), abs=1e-4)


def test_classes_come_from_train_only_and_differ_between_apis(zoo):
    manifest = read_manifest(zoo)
    entries, about = manifest.entries, manifest.zoo
    train_classes = set(open_dataset("glyphs", "train").classes)
    tasks = [entry.classes for entry in entries.values()]
    assert all(set(classes) <= train_classes for classes in tasks)
    assert len(set(tasks)) == 3
    assert about["train_classes"] == {"glyphs": len(train_classes)}


def test_heterogeneous_scenarios_take_turns(tmp_path):
    config = ZooConfig(dataset="glyphs", scenario="sh", apis=3, way=2, width=4, epochs=1, images_per_class=10)
    build(tmp_path / "sh", config)
    assert [entry.arch for entry in read_manifest(tmp_path / "sh").entries.values()] == [
        "conv4",
        "resnet10",
        "resnet18",
    ]
    with pytest.raises(ConfigError, match="mh needs --data"):
        build(tmp_path / "mh", ZooConfig(scenario="mh"))


def test_the_multiple_scenario_keeps_each_resolution(tmp_path, real_data):
    config = ZooConfig(scenario="mh", apis=3, way=2, width=4, epochs=1, images_per_class=10)
    build(tmp_path / "mh", config, data=real_data)
    shapes = {entry.dataset: entry.image for entry in read_manifest(tmp_path / "mh").entries.values()}
    assert shapes == {"cifar-fs": (3, 32, 32), "mini-imagenet": (3, 84, 84), "cub": (3, 84, 84)}
    images = torch.rand(2, 3, 84, 84)
    assert all(api(images).shape == (2, 2) for api in load_apis(tmp_path / "mh"))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"way": 500}, "too few for 500-way APIs; lower --way"),
        ({"way": 1}, "way >= 2"),
        ({"apis": 0}, "apis >= 1"),
        ({"dataset": "gliphs"}, "unknown data set 'gliphs'; did you mean 'glyphs'"),
        ({"dataset": "cifar-fs"}, "needs a data folder"),
    ],
)
def test_what_cannot_be_built_is_refused_before_anything_is_written(tmp_path, changes, complaint):
    with pytest.raises(DfmlError, match=complaint):
        build(tmp_path / "zoo", ZooConfig(**{**vars(SMALL), **changes}))
    assert not (tmp_path / "zoo").exists()


def test_training_separates_what_is_separable(rng):
    labels = torch.arange(2).repeat_interleave(40)
    images = torch.randn(80, 3, 16, 16, generator=rng) + labels.view(-1, 1, 1, 1) * 2 - 1
    net = train(
        NetSpec(way=2, width=4, size=16), images, labels, TrainConfig(epochs=4), seed=0, on_epoch=lambda epoch: None
    )
    assert accuracy(net, images, labels) == 1.0
    assert not any(p.requires_grad for p in net.parameters())


def test_the_summary_is_plain_json(zoo, capsys):
    from dfml.cli import main

    assert main(["zoo", "show", str(zoo), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert [set(api) >= {"name", "classes", "accuracy", "arch"} for api in summary["apis"]] == [True] * 3
    assert 0 < summary["cover_rate"] < 1
    assert all(0 <= api["accuracy"] <= 1 for api in summary["apis"])


def test_an_equipped_job_needs_no_data_and_trains_the_same(monkeypatch):
    config = ZooConfig(apis=1, way=3, width=4, epochs=1, images_per_class=10)
    (job,) = zoos._plan(config, None)
    expected = zoos.train_api(job, lambda done: None)
    away = zoos.equip(job)

    def no_data(*_, **__):
        raise AssertionError("another machine has no data")

    monkeypatch.setattr(zoos, "open_dataset", no_data)
    assert zoos.train_api(away, lambda done: None) == expected
    assert away.lesson is not None
    assert sum(pixels.nbytes for pixels in away.lesson.pixels) == 3 * 10 * 3 * 32 * 32
