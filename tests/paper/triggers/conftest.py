"""Small files in the format of Fashion-MNIST."""

import gzip

import pytest
import torch

from taskfree.paper.triggers import fashion


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
