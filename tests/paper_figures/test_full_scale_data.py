"""Full scale: the files are read as their formats say, damaged ones are refused, models are what they should be."""

from __future__ import annotations

import json
import math

import full_scale_support as support
import numpy as np
import pytest
import torch

from paper_figures.full_scale.bert import Bert
from paper_figures.full_scale.cifar10 import FOLDER, RECORD, Cifar10, shifted_and_mirrored
from paper_figures.full_scale.masked_text import IS_MASK, IS_RANDOM, NOT_PREDICTED, SHARE, MaskedText
from paper_figures.full_scale.recipes import BERT_BASE, BERT_LARGE, CIFAR10, RECIPES
from paper_figures.full_scale.resnet18 import ResNet18
from paper_figures.full_scale.task import samples_of_step
from paper_figures.full_scale.tokens import Bytes, WordPieces, read_tokens, text_files, write_tokens

# --- CIFAR-10 ---


@pytest.fixture
def data(tmp_path):
    return support.make_cifar10(tmp_path / "data")


def test_records_are_label_then_planes(data):
    task = Cifar10(data)
    raw = np.fromfile(data / FOLDER / "data_batch_2.bin", np.uint8)
    record = raw[5 * RECORD : 6 * RECORD]
    sample = support.STRIPES + 5
    assert task.labels[sample] == record[0]
    for channel in range(3):
        for row in (0, 17, 31):
            begin = 1 + channel * 1024 + row * 32
            assert np.array_equal(task.images[sample, channel, row], record[begin : begin + 32])
    assert (task.n_samples, task.n_held_out) == (5 * support.STRIPES, support.STRIPES)


def test_either_folder_will_do(data):
    assert np.array_equal(Cifar10(data).images, Cifar10(data / FOLDER).images)


def test_held_out_images_are_normalised_and_nothing_else(data):
    task = Cifar10(data)
    images, labels = task.batch(np.array([3, 1]), held_out=True)
    expected = (task.test_images[[3, 1]].astype(np.float32) - task.mean.numpy()) / task.spread.numpy()
    assert np.array_equal(images.numpy(), expected)
    assert labels.tolist() == task.test_labels[[3, 1]].tolist()
    pixels = task.images.transpose(1, 0, 2, 3).reshape(3, -1).astype(float)
    assert np.array_equal(task.mean.flatten().numpy(), pixels.mean(axis=1).astype(np.float32))


def test_augmentation_against_a_slow_one():
    images = torch.arange(1, 5 * 3 * 1024 + 1, dtype=torch.float32).reshape(5, 3, 32, 32)
    torch.manual_seed(7)
    found = shifted_and_mirrored(images)
    torch.manual_seed(7)
    row, column = torch.randint(0, 9, (2, 5, 1))
    mirrored = torch.rand(5, 1) < 0.5
    assert 0 < mirrored.sum() < 5
    for k in range(5):
        big = np.zeros((3, 40, 40), np.float32)
        big[:, 4:36, 4:36] = images[k]
        cut = big[:, row[k] : row[k] + 32, column[k] : column[k] + 32]
        assert np.array_equal(found[k].numpy(), cut[:, :, ::-1] if mirrored[k] else cut)


def truncate(folder):
    path = folder / "data_batch_3.bin"
    path.write_bytes(path.read_bytes()[:-1])


def remove(folder):
    (folder / "test_batch.bin").unlink()


def relabel(folder):
    path = folder / "data_batch_5.bin"
    path.write_bytes(b"\x0c" + path.read_bytes()[1:])


def empty(folder):
    (folder / "data_batch_1.bin").write_bytes(b"")


def blacken(folder):
    for path in folder.iterdir():
        path.write_bytes(bytes(RECORD))


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (truncate, "no multiple of 3073"), (remove, "is missing"), (relabel, "label 12"), (empty, "has 0 bytes"),
        (blacken, "of one colour"),
    ],
)  # fmt: skip
def test_damaged_files_are_refused(data, damage, says):
    damage(data / FOLDER)
    with pytest.raises(ValueError, match=says):
        Cifar10(data)


def test_the_pickled_version_is_refused(tmp_path):
    (tmp_path / "cifar-10-batches-py").mkdir()
    (tmp_path / "cifar-10-batches-py" / "data_batch_1").write_bytes(b"\x80\x04")
    with pytest.raises(ValueError, match="pickled and not read"):
        Cifar10(tmp_path)


def test_the_network_is_resnet18():
    assert sum(p.numel() for p in ResNet18().parameters()) == 11_173_962
    assert ResNet18(width=2)(torch.zeros(4, 3, 32, 32)).shape == (4, 10)
    last = ResNet18(width=2).stages(torch.zeros(1, 2, 32, 32))
    assert last.shape == (1, 16, 4, 4)


# --- text ---

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##aff", "##able", "the", ".", "##f", "a", "##a"]


@pytest.fixture
def vocabulary(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(PIECES) + "\n")
    return path


def test_word_pieces_are_the_longest_first(vocabulary):
    pieces = WordPieces(vocabulary)
    names = [PIECES[token] for token in pieces.encode("The unaffable, UNÁFFABLE unf dog.")]
    assert names == [
        "the", "un", "##aff", "##able", "[UNK]", "un", "##aff", "##able", "un", "##f", "[UNK]", ".",
    ]  # fmt: skip
    assert pieces.encode("un" * 80).tolist() == [PIECES.index("[UNK]")]
    assert pieces.n_special == 5


def test_a_vocabulary_with_capitals_keeps_them(vocabulary):
    vocabulary.write_text("\n".join([*PIECES, "The"]))
    assert WordPieces(vocabulary).encode("The the").tolist() == [len(PIECES), PIECES.index("the")]


def test_a_file_that_is_no_vocabulary_is_refused(vocabulary):
    vocabulary.write_text("hello\nworld\n")
    with pytest.raises(ValueError, match=r"has no \[CLS\]"):
        WordPieces(vocabulary)


def test_bytes_come_back():
    encoded = Bytes().encode("über\n")
    assert bytes((encoded - Bytes.n_special).astype(np.uint8)).decode() == "über\n"
    assert encoded.max() < Bytes.size


def test_the_stream_holds_all_documents(tmp_path):
    files = text_files(support.make_text(tmp_path / "text"))
    count = write_tokens(files, None, tmp_path / "tokens")
    stream = read_tokens(tmp_path / "tokens")
    assert len(stream.tokens) == count
    documents, text = [], b""
    for token in stream.tokens:
        if token == stream.separate:
            documents.append(text.decode())
            text = b""
        else:
            text += bytes([int(token) - stream.n_special])
    expected = support.TEXT.split("\n\n")
    expected = [part + "\n" for part in expected[:-1]] + [expected[-1]]
    assert [d for d in documents if d] == [*expected, "über die brücke\n" * 40]
    assert text == b""


def test_no_text_and_no_utf8_are_one_sentence(tmp_path):
    (tmp_path / "text").mkdir()
    with pytest.raises(ValueError, match=r"there is no \.txt file"):
        text_files(tmp_path / "text")
    (tmp_path / "text" / "a.txt").write_bytes(b"caf\xe9 ")
    with pytest.raises(ValueError, match=r"a\.txt is not UTF-8"):
        write_tokens(text_files(tmp_path / "text"), None, tmp_path / "tokens")
    with pytest.raises(ValueError, match="there are no tokens"):
        read_tokens(tmp_path / "tokens")


def shorten(folder):
    path = folder / "tokens.bin"
    path.write_bytes(path.read_bytes()[:-2])


def forget(folder):
    (folder / "tokens.bin").unlink()


def garble(folder):
    (folder / "tokens.json").write_text("{")


def strip(folder):
    (folder / "tokens.json").write_text(json.dumps({"count": 3, "ids": {}}))


@pytest.mark.parametrize("damage", [shorten, forget, garble, strip])
def test_damaged_tokens_are_refused(tmp_path, damage):
    write_tokens(text_files(support.make_text(tmp_path / "text")), None, tmp_path / "tokens")
    damage(tmp_path / "tokens")
    with pytest.raises(ValueError, match="again"):
        read_tokens(tmp_path / "tokens")


@pytest.fixture
def masked(tmp_path):
    write_tokens(text_files(support.make_text(tmp_path / "text")), None, tmp_path / "tokens")
    return MaskedText(tmp_path / "tokens", length=16, width=8, layers=1, heads=2)


def test_sequences_are_the_text_between_two_marks(masked):
    torch.manual_seed(0)
    inputs, targets = masked.batch(np.array([2, 0]))
    assert inputs.shape == targets.shape == (2, 16)
    assert (inputs[:, 0] == masked.stream.classify).all()
    assert (inputs[:, -1] == masked.stream.separate).all()
    text = torch.where(targets == NOT_PREDICTED, inputs, targets)
    for row, sample in enumerate((2, 0)):
        assert text[row, 1:-1].tolist() == masked.stream.tokens[14 * sample : 14 * sample + 14].tolist()


def test_held_out_text_is_the_end_and_hides_the_same(masked):
    first, second = (masked.batch(np.arange(masked.n_held_out), held_out=True) for _ in range(2))
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a, b)
    text = torch.where(first[1] == NOT_PREDICTED, *first)
    begin = 14 * masked.n_samples
    assert text[:, 1:-1].flatten().tolist() == masked.stream.tokens[begin : begin + 14 * masked.n_held_out].tolist()


def test_what_is_hidden(masked):
    """Shares within Hoeffding's bound, which n draws leave with a chance below 1e-9."""
    text = torch.randint(0, masked.stream.vocabulary, (500, 400), generator=torch.Generator().manual_seed(1))
    inputs, targets = masked.hide(text, torch.Generator().manual_seed(2))
    chosen = targets != NOT_PREDICTED
    special = text < masked.stream.n_special
    assert not (chosen & special).any()
    assert torch.equal(inputs[~chosen], text[~chosen])
    assert torch.equal(targets[chosen], text[chosen])

    def near(share, expected, n):
        return abs(float(share) - expected) < math.sqrt(math.log(2e9) / (2 * n))

    n = int(chosen.sum())
    assert near(chosen[~special].float().mean(), SHARE, int((~special).sum()))
    shown = inputs[chosen]
    assert near((shown == masked.stream.mask).float().mean(), IS_MASK, n)
    same = float((shown == text[chosen]).float().mean())
    by_chance = IS_RANDOM / (masked.stream.vocabulary - masked.stream.n_special)
    assert near(same, 1 - IS_MASK - IS_RANDOM + by_chance, n)
    assert (shown[shown != masked.stream.mask] >= masked.stream.n_special).all()


def test_too_little_text_is_refused(masked, tmp_path):
    with pytest.raises(ValueError, match="two sequences of 9998 are needed"):
        MaskedText(tmp_path / "tokens", length=10_000, width=8, layers=1, heads=2)


@pytest.mark.parametrize(("width", "layers", "heads"), [(8, 1, 2), (16, 3, 4)])
def test_the_encoder_has_berts_parameters(width, layers, heads):
    """Embeddings, blocks of 12 w^2 + 13 w, the head's transformation and bias; the output layer is shared."""
    model = Bert(50, 20, width=width, layers=layers, heads=heads)
    block = 12 * width**2 + 13 * width
    head = width**2 + width + 2 * width + 50
    expected = (50 + 20) * width + 2 * width + layers * block + head
    assert sum(p.numel() for p in model.parameters()) == expected
    predicted = torch.zeros(2, 20, dtype=torch.bool)
    predicted[1, 3] = predicted[0, 7] = True
    assert model(torch.zeros(2, 20, dtype=torch.long), predicted).shape == (2, 50)


# --- order and recipes ---


def test_an_epoch_shows_every_sample_once():
    steps = [samples_of_step(10, 3, 5, t) for t in range(1, 7)]
    for epoch in (steps[:3], steps[3:]):
        assert len(set(np.concatenate(epoch))) == 9
    assert not np.array_equal(np.concatenate(steps[:3]), np.concatenate(steps[3:]))
    assert not np.array_equal(steps[0], samples_of_step(10, 3, 6, 1))
    assert np.array_equal(steps[4], samples_of_step(10, 3, 5, 5))
    with pytest.raises(ValueError, match="a batch of 11 needs as many"):
        samples_of_step(10, 11, 0, 1)


def test_recipes_are_the_published_ones():
    for recipe in (BERT_BASE, BERT_LARGE):
        assert (recipe.batch, recipe.weight_decay, recipe.max_grad_norm) == (4096, 0.01, 1.0)
        assert set(recipe.lr.values()) == {4e-4}
        assert recipe.shape["length"] == 128
        assert recipe.shape["width"] == 64 * recipe.shape["heads"]
    assert (BERT_BASE.freeze_step, BERT_LARGE.freeze_step) == (16_000, 23_000)
    assert round(BERT_LARGE.freeze_step / BERT_LARGE.steps, 2) == 0.15, "the published share of warm-up"
    assert CIFAR10.freeze_step / CIFAR10.steps == 13 / 200
    assert BERT_BASE.schedule(6250) == 0.5
    assert [BERT_BASE.schedule(12_500 + k) for k in (0, 519, 520)] == [1, 1, 0.99]
    epoch = CIFAR10.steps // 200
    assert [CIFAR10.schedule(t) for t in (1, 100 * epoch, 100 * epoch + 1)] == [1, 1, 0.1]
    json.dumps([recipe.settings() for recipe in RECIPES.values()])


@pytest.mark.parametrize(
    ("text", "says"),
    [("colour=3", "NAME of batch"), ("steps", "whole number from 1, got ''"), ("steps=0", "got '0'"),
     ("width=x", "got 'x'"), ("seeds=-1", "got '-1'")],
)  # fmt: skip
def test_a_change_of_a_recipe_is_checked(text, says):
    with pytest.raises(ValueError, match=says):
        CIFAR10.changed([text])
    changed = CIFAR10.changed(["steps=8", "width=4"])
    assert (changed.steps, changed.shape, CIFAR10.shape) == (8, {"width": 4}, {"width": 64})
