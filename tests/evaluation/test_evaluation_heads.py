"""Heads against independent truths: distances on the sphere, and torch's own SGD."""

import pytest
import torch
import torch.nn.functional as F

from dfml.adaptation.heads import class_means, cosine_scores, prototype_layer
from dfml.episode import Episode
from dfml.evaluation.transductive import HeadConfig, task_accuracy, task_scores
from dfml.nets import NetSpec
from dfml.nets.functional import Net, normalise


@pytest.fixture
def episode(rng):
    """Three classes that differ in colour, so that even an untrained network tells them apart."""
    tints = torch.eye(3).repeat_interleave(6, 0).view(18, 3, 1, 1) * 0.5
    images = (tints + 0.5 * torch.rand(18, 3, 16, 16, generator=rng)).view(3, 6, 3, 16, 16)
    labels = torch.arange(3)
    return Episode(
        images[:, :2].flatten(0, 1),
        labels.repeat_interleave(2),
        images[:, 2:].flatten(0, 1),
        labels.repeat_interleave(4),
        ("r", "g", "b"),
    )


@pytest.fixture
def net():
    return Net(NetSpec(width=8, size=16, way=3))


def test_fine_tuning_is_plain_sgd_with_batch_statistics(net, episode, rng):
    params = net.init(rng)
    module = net.spec.outline(batch_norm="batch")
    module.load_state_dict(params)
    optimiser = torch.optim.SGD(module.parameters(), lr=0.01)
    for _ in range(10):
        optimiser.zero_grad()
        F.cross_entropy(module(normalise(episode.support)), episode.support_labels).backward()
        optimiser.step()
    with torch.no_grad():
        expected = module(normalise(episode.query))
    assert torch.allclose(task_scores(net, params, episode, HeadConfig()), expected, atol=1e-4)


def test_prototype_is_the_nearest_centroid_of_directions(net, episode, rng):
    params = net.init(rng)
    with torch.no_grad():
        features = F.normalize(net.features(params, torch.cat([episode.support, episode.query])), dim=1)
    centroids = torch.stack([F.normalize(features[2 * k : 2 * k + 2].mean(0), dim=0) for k in range(3)])
    expected = torch.cdist(features[6:], centroids).argmin(1)  # on the sphere, nearest and most alike are the same
    scores = task_scores(net, params, episode, HeadConfig(head="prototype"))
    assert scores.argmax(1).tolist() == expected.tolist()


def test_centring_makes_scores_blind_to_a_common_offset(rng):
    features, labels = torch.randn(9, 5, generator=rng), torch.tensor([0, 1, 2])
    shifted = features + 7
    assert torch.allclose(
        cosine_scores(features, labels, 3, centre=True), cosine_scores(shifted, labels, 3, centre=True), atol=1e-4
    )
    assert not torch.allclose(
        cosine_scores(features, labels, 3, centre=False), cosine_scores(shifted, labels, 3, centre=False), atol=1e-1
    )


def test_the_prototype_layer_ranks_classes_by_distance(rng):
    features, labels = torch.randn(6, 5, generator=rng), torch.tensor([0, 0, 1, 1, 2, 2])
    layer = prototype_layer(features, labels, 3)
    queries = torch.randn(20, 5, generator=rng)
    logits = queries @ layer["head.weight"].T + layer["head.bias"]
    means = torch.stack([features[2 * k : 2 * k + 2].mean(0) for k in range(3)])
    assert torch.equal(logits.argmax(1), torch.cdist(queries, means).argmin(1))


def test_class_means_take_unequal_shots():
    features, labels = torch.tensor([[1.0], [3.0], [10.0]]), torch.tensor([0, 0, 1])
    assert class_means(features, labels, 2).tolist() == [[2.0], [10.0]]


@pytest.mark.parametrize("head", ["finetune", "prototype", "prototype+finetune"])
def test_every_head_solves_an_easy_task(net, episode, rng, head):
    assert task_accuracy(net, net.init(rng), episode, HeadConfig(head=head, lr=0.1)) > 0.9


@pytest.mark.parametrize("head", ["finetune", "prototype+finetune"])
def test_the_tasks_way_decides_whatever_head_was_learned(episode, rng, head):
    net = Net(NetSpec(width=8, size=16, way=1001))
    params = net.init(rng)
    assert task_scores(net, params, episode, HeadConfig(head=head)).shape == (12, 3)
    assert task_accuracy(net, params, episode, HeadConfig(head=head, lr=0.1)) > 0.9
