"""Lightning: one callback. Points from one quadrant, then from another; tested on the first."""

import lightning.pytorch as lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from taskfree.adapters.lightning import Consolidate
from taskfree.paper.streams import ball


class Network(lightning.LightningModule):
    """Any LightningModule whose forward returns the outputs."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 100), nn.ReLU(), nn.Linear(100, 2))

    def forward(self, x):
        """The outputs."""
        return self.layers(x)

    def training_step(self, batch, number):
        """The loss, as usual."""
        x, y = batch
        return nn.functional.cross_entropy(self(x), y)

    def configure_optimizers(self):
        """As usual."""
        return torch.optim.SGD(self.parameters(), lr=0.2)


generator = torch.Generator().manual_seed(0)
points, labels = zip(*(ball.quadrant(q, 4000, generator) for q in (1, 2)), strict=True)
samples = TensorDataset(torch.cat(points), torch.cat(labels))
stream = DataLoader(samples, batch_size=20)  # in this order, not shuffled
tests, answers = ball.quadrant(1, 1000, generator)

for name, callbacks in {
    "plain": [],
    "taskfree": [Consolidate()],
    "taskfree with a buffer": [Consolidate(nn.CrossEntropyLoss(reduction="none"))],
}.items():
    torch.manual_seed(0)
    network = Network()
    trainer = lightning.Trainer(
        max_epochs=1, callbacks=callbacks, accelerator="cpu", logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(network, stream)
    accuracy = (network.eval()(tests).argmax(1) == answers).float().mean()
    print(f"{name}: {100 * accuracy:.0f} % in the first quadrant")
