import shutil

import numpy as np
import pytest
from PIL import Image

from dfml.data import PARTS, open_dataset
from dfml.data.cifar_fs import find as find_cifar_fs
from dfml.data.cub import find as find_cub
from dfml.data.folder import by_fractions
from dfml.data.mini_imagenet import find as find_mini_imagenet
from dfml.errors import ConfigError, DataError


def greys(images, class_index):
    """The one grey of each image; every pixel of it must agree."""
    pixels = images.images(class_index)
    assert (pixels == pixels[:, :1, :1, :1]).all()
    return pixels[:, 0, 0, 0].tolist()


def test_cifar_fs_follows_its_split_files(cifar_fs):
    train, val, test = (open_dataset("cifar-fs", part, data=cifar_fs) for part in PARTS)
    assert (train.classes, val.classes, test.classes) == (("c2", "c0", "c1"), ("c3",), ("c4",))
    assert train.counts == (3, 3, 3)
    assert train.shape == (3, 32, 32)
    assert [greys(train, i) for i in range(3)] == [[20, 21, 22], [0, 1, 2], [10, 11, 12]]


def test_mini_imagenet_follows_its_tables(mini_imagenet):
    train = open_dataset("mini-imagenet", "train", data=mini_imagenet)
    assert train.classes == ("n0", "n1")
    assert train.shape == (3, 84, 84)
    assert [greys(train, i) for i in range(2)] == [[0, 1], [10, 11]]
    assert open_dataset("mini-imagenet", "test", data=mini_imagenet).classes == ("n3",)


def test_cub_is_split_by_class_order(cub):
    # Of every four classes in order: train, validation, train, test.
    train, val, test = (open_dataset("cub", part, data=cub) for part in PARTS)
    assert train.classes == ("001.Bird_0", "003.Bird_2", "005.Bird_4", "007.Bird_6")
    assert val.classes == ("002.Bird_1", "006.Bird_5")
    assert test.classes == ("004.Bird_3", "008.Bird_7")
    assert greys(test, 1) == [70, 71]
    assert open_dataset("cub", "val", data=cub / "CUB_200_2011") == val


def test_folder_with_a_split_file(make_folder):
    root = make_folder(4, split={"train": ["k3", "k1"], "val": ["k0"], "test": ["k2"]})
    train = open_dataset("folder", "train", data=root, size=16)
    assert train.classes == ("k3", "k1")
    assert train.shape == (3, 16, 16)
    assert greys(train, 0) == [30, 31]


@pytest.mark.parametrize(("classes", "sizes"), [(3, (1, 1, 1)), (10, (6, 2, 2)), (25, (16, 4, 5)), (100, (64, 16, 20))])
def test_folder_by_fractions_splits_every_class_once(tmp_path, classes, sizes):
    names = [f"k{c}" for c in range(classes)]
    split = by_fractions(names, tmp_path, seed=0)
    assert tuple(len(split[part]) for part in PARTS) == sizes
    assert sorted(name for names in split.values() for name in names) == sorted(names)
    assert by_fractions(names, tmp_path, seed=0) == split
    assert len({str(by_fractions(names, tmp_path, seed=seed)) for seed in range(20)}) > 1


def test_folder_without_a_split_file(make_folder):
    root = make_folder(10)
    parts = [open_dataset("folder", part, data=root).classes for part in PARTS]
    assert sorted(name for names in parts for name in names) == [f"k{c}" for c in range(10)]


def test_folder_keeps_the_proportions_of_photographs(make_folder):
    root = make_folder(1, split={"train": ["k0"], "val": [], "test": []})
    pixels = np.zeros((20, 60, 3), dtype=np.uint8)
    pixels[:, 20:40] = 255
    Image.fromarray(pixels).save(root / "k0" / "2.png")
    read = open_dataset("folder", "train", data=root).images(0)[2]
    assert (read[:, :, 5:-5] == 255).all()  # but for the seam, where the filter sees both sides


def test_stray_files_and_folders_are_ignored(cifar_fs, make_folder):
    clean = open_dataset("cifar-fs", "train", data=cifar_fs)
    for stray in (".DS_Store", "Thumbs.db", "._0.png", "notes.txt"):
        (cifar_fs / "data" / stray).write_bytes(b"\0")
        (cifar_fs / "data" / "c0" / stray).write_bytes(b"\0")
    (cifar_fs / "data" / "c0" / "more.png").mkdir()
    assert open_dataset("cifar-fs", "train", data=cifar_fs).path == clean.path
    root = make_folder(3)
    for stray in (".git", "__MACOSX"):
        (root / stray).mkdir()
    (root / ".DS_Store").write_bytes(b"\0")
    assert sum(len(open_dataset("folder", part, data=root).classes) for part in PARTS) == 3


def test_a_folder_that_holds_several_data_sets_will_do(cifar_fs, mini_imagenet, cub):
    for name, inner in (("cifar-fs", cifar_fs), ("mini-imagenet", mini_imagenet), ("cub", cub)):
        assert open_dataset(name, "val", data=inner.parent) == open_dataset(name, "val", data=inner)


def test_windows_line_ends_and_byte_order_marks(cifar_fs, mini_imagenet):
    for file in (cifar_fs / "splits" / "bertinetto" / "train.txt", mini_imagenet / "train.csv"):
        file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n"))
    assert open_dataset("cifar-fs", "train", data=cifar_fs).classes == ("c2", "c0", "c1")
    assert open_dataset("mini-imagenet", "train", data=mini_imagenet).classes == ("n0", "n1")


def refused(name, part, data, match, error=DataError):
    with pytest.raises(error, match=match) as caught:
        open_dataset(name, part, data=data)
    assert "\n" not in str(caught.value)


def test_names_and_parts_that_do_not_exist():
    refused("cifarfs", "train", None, "unknown data set 'cifarfs'; did you mean 'cifar-fs'", ConfigError)
    refused(
        "glyphs", "training", None, "unknown part 'training' of glyphs; choose one of train, val, test", ConfigError
    )
    with pytest.raises(ConfigError, match="at least 8"):
        open_dataset("glyphs", "train", size=0)


@pytest.mark.parametrize("name", ["cifar-fs", "mini-imagenet", "cub", "folder"])
def test_a_data_folder_that_is_missing_or_empty_tells_the_layout(tmp_path, name):
    refused(name, "train", None, f"{name} needs a data folder.*DIR/", ConfigError)
    refused(name, "train", tmp_path / "nowhere", "nowhere does not exist; expected DIR/")
    (tmp_path / "empty").mkdir()
    refused(name, "train", tmp_path / "empty", "empty has .*; expected DIR/")


def test_a_missing_split_file(cifar_fs, mini_imagenet, cub):
    (cifar_fs / "splits" / "bertinetto" / "val.txt").unlink()
    refused("cifar-fs", "train", cifar_fs, "has no splits/bertinetto/val.txt")
    refused("cifar-fs", "train", cifar_fs.parent, "cifar-fs has no splits/bertinetto/val.txt")
    (mini_imagenet / "test.csv").unlink()
    refused("mini-imagenet", "train", mini_imagenet, "has no test.csv")
    (cub / "CUB_200_2011" / "classes.txt").unlink()
    refused("cub", "train", cub, "has no classes.txt")


def test_a_class_in_two_parts(cifar_fs, mini_imagenet, make_folder):
    with (cifar_fs / "splits" / "bertinetto" / "test.txt").open("a") as file:
        file.write("c1\n")
    refused("cifar-fs", "val", cifar_fs, "class 'c1' is in both train and test; list it once")
    shutil.copy(mini_imagenet / "images" / "n0_0.png", mini_imagenet / "images" / "new.png")
    with (mini_imagenet / "val.csv").open("a") as file:
        file.write("new.png,n0\n")
    refused("mini-imagenet", "train", mini_imagenet, "class 'n0' is in both train and val")
    root = make_folder(3, split={"train": ["k0", "k1"], "val": ["k2", "k2"], "test": []})
    refused("folder", "train", root, "class 'k2' is in val twice")


def test_an_image_listed_twice(mini_imagenet):
    with (mini_imagenet / "val.csv").open("a") as file:
        file.write("n0_0.png,n2\n")
    refused("mini-imagenet", "train", mini_imagenet, r"the image n0_0\.png is listed twice")


def test_a_missing_class_folder(cifar_fs, cub, make_folder):
    shutil.rmtree(cifar_fs / "data" / "c1")
    refused("cifar-fs", "train", cifar_fs, "lists class 'c1' but .*c1 does not exist")
    assert open_dataset("cifar-fs", "val", data=cifar_fs).classes == ("c3",)
    shutil.rmtree(cub / "CUB_200_2011" / "images" / "003.Bird_2")
    refused("cub", "train", cub, r"lists 003\.Bird_2 but")
    root = make_folder(3, split={"train": ["k0", "k9"], "val": ["k1"], "test": ["k2"]})
    refused("folder", "train", root, "lists class 'k9' but .*k9 does not exist")


def test_a_missing_image(mini_imagenet, cub):
    (mini_imagenet / "images" / "n1_0.png").unlink()
    refused("mini-imagenet", "train", mini_imagenet, r"train\.csv lists n1_0\.png of class 'n1' but it is not in")
    (cub / "CUB_200_2011" / "images" / "002.Bird_1" / "Bird_1_0.png").unlink()
    refused("cub", "val", cub, r"Bird_1_0\.png belongs to class '002.Bird_1' but cannot be read \(No such file")


def test_an_empty_class_and_an_empty_part(cifar_fs, make_folder):
    for file in (cifar_fs / "data" / "c0").iterdir():
        file.unlink()
    refused("cifar-fs", "train", cifar_fs, "class 'c0' of train has no images")
    root = make_folder(3, split={"train": ["k0", "k1", "k2"], "val": [], "test": []})
    refused("folder", "val", root, "the val part has no classes")


def test_an_unreadable_image(cifar_fs, cache):
    (cifar_fs / "data" / "c0" / "1.png").write_bytes(b"rubbish")
    refused("cifar-fs", "train", cifar_fs, r"c0/1\.png cannot be read as an image .*; replace or remove it")
    assert list(cache.iterdir()) == []


def test_too_few_folders_to_split(make_folder):
    refused("folder", "train", make_folder(2), "2 class folders but train, val and test need 3 or more")


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"train": ["k0"], "val": ["k1"]}', '{"train": [1], "val": [], "test": []}']
)
def test_a_split_file_of_another_shape(make_folder, content):
    root = make_folder(3)
    (root / "split.json").write_text(content)
    refused("folder", "train", root, r"split\.json .*; expected DIR/")


def test_tables_of_another_shape(mini_imagenet, cub):
    (mini_imagenet / "val.csv").write_text("file,class\na,b\n")
    refused("mini-imagenet", "train", mini_imagenet, r"line 2 of .*val\.csv has no filename and label")
    lists = cub / "CUB_200_2011"
    (lists / "image_class_labels.txt").write_text("1 1\n2 99\n")
    refused("cub", "train", cub, r"image 2 \(001\.Bird_0/Bird_0_1\.png\) has no class")
    (lists / "images.txt").write_text("one a.png\n")
    refused("cub", "train", cub, "has the line 'one a.png'")


def test_the_real_downloads_have_their_published_splits(real_data):
    published = {"cifar-fs": (64, 16, 20), "mini-imagenet": (64, 16, 20), "cub": (100, 50, 50)}
    finders = {"cifar-fs": find_cifar_fs, "mini-imagenet": find_mini_imagenet, "cub": find_cub}
    for name, sizes in published.items():
        parts = [finders[name](real_data / name, part) for part in PARTS]
        assert tuple(map(len, parts)) == sizes
        assert len(set().union(*parts)) == sum(sizes)


def test_the_real_cub_classes_are_where_the_literature_has_them(real_data):
    # Chen et al. (2019): classes 0, 2, 4, ... are base, 1, 5, 9, ... validation, 3, 7, 11, ... novel.
    assert {int(name[:3]) % 2 for name in find_cub(real_data / "cub", "train")} == {1}
    assert {int(name[:3]) % 4 for name in find_cub(real_data / "cub", "val")} == {2}
    assert {int(name[:3]) % 4 for name in find_cub(real_data / "cub", "test")} == {0}


@pytest.mark.parametrize(("name", "size"), [("cifar-fs", 32), ("mini-imagenet", 84), ("cub", 84)])
def test_real_images_decode(real_data, name, size):
    images = open_dataset(name, "val", data=real_data / name)
    assert images.shape == (3, size, size)
    first = images.tensor(0)
    assert 0.2 < first.mean() < 0.8
    assert first.std() > 0.1
