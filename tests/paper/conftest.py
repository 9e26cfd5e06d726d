"""Small files in the formats of Fashion-MNIST and of Debian's fortunes."""

import gzip

import pytest
import torch

from taskfree.paper.streams import fashion, text


@pytest.fixture(scope="module")
def fashion_files(tmp_path_factory):
    """A folder of random images; what they show is not tested."""
    folder = tmp_path_factory.mktemp("fashion")
    generator = torch.Generator().manual_seed(0)
    for part, count in (("train", 2000), ("t10k", 400)):
        images = torch.randint(256, (count, 28, 28), dtype=torch.uint8, generator=generator)
        labels = torch.randint(10, (count,), dtype=torch.uint8, generator=generator)
        for name, header, content in (("images-idx3", 16, images), ("labels-idx1", 8, labels)):
            with gzip.open(folder / f"{part}-{name}-ubyte.gz", "wb", compresslevel=1) as file:
                file.write(bytes(header) + content.numpy().tobytes())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fashion, "FOLDERS", (folder,))
        yield folder


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """A folder of texts, each of its own words and some of its topic's."""
    folder = tmp_path_factory.mktemp("texts")
    for topic in text.TOPICS:
        lines = [f"{topic} number {count} about {topic} {count * 7}" for count in range(80)]
        (folder / topic).write_text("\n%\n".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "FOLDER", folder)
        yield folder
