"""Settings from a file: every key counts, and what cannot be read is one sentence."""

import pytest

from dfml.errors import ConfigError
from dfml.learning import learn, settings_from
from outcomes import events_of


def test_keys_of_the_top_and_of_groups_are_settings(tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text('queries = 50\n[net]\nwidth = 8\narch = "conv4"\n')
    assert settings_from(file) == ["queries=50", "net.width=8", 'net.arch="conv4"']


def test_a_folder_is_no_file_of_settings(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot be read as settings .* name a TOML file"):
        settings_from(tmp_path)


def test_a_white_box_run_goes_by_its_own_name(tiny_zoo, tmp_path):
    small = [
        "net.width=4",
        "recovery.steps=1",
        "recovery.images_per_class=6",
        "recovery.filters=4",
        "recovery.latent=8",
    ]
    replay = ["replay.shot=1", "replay.query=2", "replay.batch=1", "memory.require_agreement=false"]
    schedule = ["schedule.visits=1", "schedule.iterations=2"]
    learn(tiny_zoo, tmp_path / "run", method="white-box", settings=[*small, *replay, *schedule])
    assert [event["method"] for event in events_of(tmp_path / "run", "LearningStarted")] == ["white-box"]
