"""Series read from folders of tracks."""

import numpy as np
import pytest
import torch
from footage import folder_of_tracks
from PIL import Image
from torch import nn

from taskfree.paper.tv import compose, series, tables
from taskfree.paper.tv.alexnet import AlexNet, preprocess
from taskfree.paper.tv.triplets import Faces, TVTrack, triplet_loss


def test_a_folder_of_tracks_becomes_a_series(tmp_path):
    found = series.from_folder(folder_of_tracks(tmp_path), held_out=5, size=32)
    assert len(found.tracks) == 20
    assert sum(map(len, found.held_out.values())) == 4 * 3
    assert found.gallery.shape == (72, 32, 32, 3)
    assert found.tracks[0].co_occurring == frozenset([1])
    learned = {face for track in found.tracks for face in track.faces}
    assert not learned & {face for faces in found.held_out.values() for face in faces}
    for track in found.tracks:
        assert {found.episode_of[face] for face in track.faces} == {track.episode}
    assert len(found.episode_of) == len(found.gallery)
    means = series.from_folder(
        tmp_path, held_out=5, size=32, features=lambda image: image.float().mean((0, 1))
    )
    assert torch.equal(means.gallery, found.gallery.float().mean((1, 2)))


def test_only_the_first_episodes_are_read(tmp_path):
    found = series.from_folder(folder_of_tracks(tmp_path), held_out=5, size=8, episodes=1)
    assert len(found.gallery) == 36
    assert found.episodes == [1]


def test_tracks_without_labels_say_what_to_do(tmp_path):
    folder_of_tracks(tmp_path)
    (tmp_path / "labels.csv").unlink()
    with pytest.raises(ValueError, match="has no labelled track; name them with taskfree label"):
        series.from_folder(tmp_path)


def test_a_folder_without_tracks_says_what_to_do(tmp_path):
    with pytest.raises(ValueError, match=r"has no tracks .*see taskfree tracks"):
        series.from_folder(tmp_path)


def test_features_of_frozen_convolutions_give_exactly_the_gradients_of_the_whole_network():
    torch.manual_seed(0)
    gallery = torch.randint(0, 255, (6, 32, 32, 3), dtype=torch.uint8)
    whole = AlexNet(10, dropout=0.0)
    whole.features.requires_grad_(False)
    features = torch.stack([series.extract_features(whole.convolutions, one) for one in gallery])

    class OneByOne(nn.Module):
        """The convolutions get one image at a time, as for the features."""

        def forward(self, images):
            rows = [whole.convolutions(image[None]) for image in images]
            return whole.classifier(torch.cat(rows))

    indices = torch.tensor([[0, 1, 2], [3, 4, 0]])
    gradients = []
    for faces in (Faces(whole.classifier, features), Faces(OneByOne(), gallery, preprocess)):
        whole.zero_grad()
        triplet_loss(faces(indices), indices).sum().backward()
        gradients.append([p.grad.clone() for p in whole.classifier.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))


def test_frames_faces_and_labels_become_a_series(tmp_path):
    """The layout of the dataset that the paper uses."""
    episode = tmp_path / "bbt01"
    (episode / "frames").mkdir(parents=True)
    values = np.zeros((60, 90, 3), np.uint8)
    values[:, :45], values[:, 45:] = (250, 0, 0), (0, 0, 250)  # one person red, the other blue
    lines = ["frame,left,top,right,bottom,track"]
    for frame in range(1, 41):
        Image.fromarray(values).save(episode / "frames" / f"frame{frame:04d}.jpg")
        for track, left in ((2 * (frame // 21), 10), (2 * (frame // 21) + 1, 60)):
            lines.append(f"{frame},{left},20,{left + 20},40,{track}")
    (episode / "faces.csv").write_text("\n".join(lines) + "\n")
    names = ["red", "blue", "red", "blue"]
    labels = [f"bbt01/{track:05d},{name}" for track, name in enumerate(names)]
    (tmp_path / "labels.csv").write_text("\n".join(["track,name", *labels]) + "\n")
    found = series.from_folder(tmp_path, held_out=0, size=16)
    assert [track.actor for track in found.tracks] == names
    learned = {face for track in found.tracks for face in track.faces}
    templates = {face for faces in found.templates.values() for face in faces}
    assert len(found.gallery) == 16, "every fifth face"
    assert learned | templates == set(range(16))
    assert not learned & templates
    for track in found.tracks:
        colour = found.gallery[list(track.faces)].float().mean((0, 1, 2))
        assert colour.argmax() == (0 if track.actor == "red" else 2)
    assert found.tracks[0].co_occurring == frozenset([1])


def test_a_missing_or_unreadable_frame_is_named_every_time(tmp_path):
    frames = tmp_path / "e1" / "frames"
    frames.mkdir(parents=True)
    rows = ["frame,left,top,right,bottom,track", "3,0,0,9,9,0", "7,0,0,9,9,1"]
    (tmp_path / "e1" / "faces.csv").write_text("\n".join(rows))
    (tmp_path / "labels.csv").write_text("track,name\ne1/00000,amy\n")
    Image.new("RGB", (20, 20)).save(frames / "bbt_s01e01_000003.jpg")
    for _ in range(2):
        with pytest.raises(ValueError, match="no frame 7"):
            series.from_folder(tmp_path)
    (frames / "bbt_s01e01_000007.jpg").write_text("not an image")
    with pytest.raises(ValueError, match=r"000007\.jpg cannot be read as an image"):
        series.from_folder(tmp_path)
    Image.new("RGB", (20, 20)).save(frames / "bbt_s01e01_000007.jpg")
    with pytest.raises(ValueError, match=r"has 1 labelled tracks, too few.*--held-out 0"):
        series.from_folder(tmp_path)
    assert len(list((tmp_path / "e1" / "crops").iterdir())) == 2


def test_frames_without_labels_can_be_labelled_next(tmp_path):
    frames = tmp_path / "e1" / "frames"
    frames.mkdir(parents=True)
    Image.new("RGB", (20, 20)).save(frames / "1.jpg")
    (tmp_path / "e1" / "faces.csv").write_text("frame,left,top,right,bottom,track\n1,0,0,9,9,0")
    with pytest.raises(ValueError, match="taskfree label"):
        series.from_folder(tmp_path)
    assert [track.name for track in tables.read(tmp_path)] == ["e1/00000"]


def test_labels_of_a_spreadsheet_are_accepted(tmp_path):
    folder = folder_of_tracks(tmp_path)
    text = (tmp_path / "labels.csv").read_text().replace("amy", " amy ")
    (tmp_path / "labels.csv").write_text(text, encoding="utf-8-sig")
    assert set(series.from_folder(folder, held_out=5, size=8).templates) == {"amy", "leo"}


def test_a_track_without_crops_is_left_out(tmp_path):
    folder = folder_of_tracks(tmp_path)
    for file in (folder / "01-first" / "crops" / "00000").iterdir():
        file.unlink()
    assert len(series.from_folder(folder, held_out=5, size=8).gallery) == 69


def test_templates_are_from_different_episodes_and_tracks_and_never_learned(tmp_path):
    long = [TVTrack(1, "amy", (2 * at, 2 * at + 1)) for at in range(50)]
    short = [TVTrack(at, "amy", (100 * at,)) for at in (2, 3, 4, 5)]
    assert series.choose_templates(long + short) == {"amy": [0, 200, 300, 400, 500]}
    many = [TVTrack(at, "leo", (at,)) for at in range(1, 10)]
    assert series.choose_templates(many) == {"leo": [1, 3, 5, 7, 9]}
    found = series.from_folder(folder_of_tracks(tmp_path), held_out=0, size=8)
    templates = {face for faces in found.templates.values() for face in faces}
    assert len(templates) == 10
    assert not templates & {face for track in found.tracks for face in track.faces}
    assert not templates & {face for faces in found.held_out.values() for face in faces}


def test_a_saved_series_is_loaded_completely(photographs, order, tmp_path):
    people, roles = compose.people(photographs), compose.read_order(order)
    found = compose.compose(people, roles, tracks_per_episode=4, length=2)
    found.save(tmp_path / "series.safetensors")
    again = series.Series.load(tmp_path / "series.safetensors")
    assert torch.equal(again.gallery, found.gallery)
    assert again.tracks == found.tracks
    assert any(track.co_occurring for track in found.tracks)
    assert again.templates == found.templates
    assert again.held_out == found.held_out
    assert again.episode_of == found.episode_of


def test_the_centre_of_an_image_is_loaded(tmp_path):
    values = np.zeros((20, 60, 3), np.uint8)
    values[:, 20:40] = 255
    Image.fromarray(values).save(tmp_path / "wide.png")
    assert (series.load(tmp_path / "wide.png", 20) == 255).all()
    assert series.load(tmp_path / "wide.png", 8).shape == (8, 8, 3)
