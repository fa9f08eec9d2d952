"""A node of a Ray cluster dies in the middle of learning from slow servers."""

import diary_server
import pytest
import torch
from engine_cluster import cluster_of

import dfml
from dfml.apis.ledger import spending

pytestmark = pytest.mark.ray
SMALL = ["queries=60", "net.width=4", "distil.steps=3"]


def test_a_node_dies_in_the_middle_and_nothing_on_file_is_asked_again(tmp_path):
    apis = 4
    with diary_server.serving() as (_, url):
        path = diary_server.manifest(tmp_path, url, apis, "limits.images_per_request = 2")
        calm = dfml.learn(path, tmp_path / "local", settings=SMALL, budget=60 * apis)
    with cluster_of(2) as cluster, diary_server.serving(0.1, tmp_path / "run") as (diary, url):
        path = diary_server.manifest(tmp_path, url, apis, "limits.images_per_request = 2", "limits.concurrency = 2")

        def kill(number):
            if number == 30:
                cluster.remove_node(cluster.workers[0], allow_graceful=False)

        diary.on_request = kill
        away = dfml.learn(path, tmp_path / "run", settings=SMALL, budget=60 * apis, engine="ray", forgive_doubt=True)
    assert all(torch.equal(calm.params[name], away.params[name]) for name in calm.params)
    assert diary.twice == [], "an answer on file was asked for again"
    doubt = 0
    for name, api in spending(tmp_path / "run")["apis"].items():
        queries, in_doubt = api["queries"], api["in_doubt"]
        assert queries == 60 == len(diary.asked[name])
        assert diary.answered(name) - queries <= in_doubt <= 60, "answers were lost that are not in doubt"
        doubt += in_doubt
    assert doubt > 0, "the node had requests under way"
