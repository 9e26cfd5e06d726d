import lightning.pytorch as lightning
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from taskfree import MAS, Plateau, Reservoir
from taskfree.adapters.lightning import Consolidate
from taskfree.paper.streams import ball

pytestmark = pytest.mark.filterwarnings("ignore")  # Lightning warns about workers and speed
LOSS = nn.CrossEntropyLoss(reduction="none")


class Network(lightning.LightningModule):
    def __init__(self, manual=False):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(4, 20), nn.ReLU(), nn.Linear(20, 2))
        self.automatic_optimization = not manual

    def forward(self, x):
        return self.layers(x)

    def training_step(self, batch, number):
        x, y = batch
        loss = nn.functional.cross_entropy(self(x), y)
        if self.automatic_optimization:
            return loss
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(loss)
        optimizer.step()
        return loss if self.returns else None

    returns = True

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.2)


def stream():
    generator = torch.Generator().manual_seed(0)
    points = zip(*(ball.quadrant(q, 1000, generator) for q in (1, 2)), strict=True)
    return DataLoader(TensorDataset(*map(torch.cat, points)), batch_size=20)


def trainer(callback, folder, **options):
    return lightning.Trainer(
        callbacks=[callback], accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder,
        **{"max_epochs": 1, **options},
    )  # fmt: skip


def fit(callback, folder, network=None, **options):
    network = network or Network()
    trainer(callback, folder, **options).fit(network, stream())
    return network


def settled():
    return Plateau(5, 1.6, 0.5)


@pytest.mark.parametrize("loss", [None, LOSS], ids=["no buffer", "buffer"])
def test_it_continues_from_lightnings_checkpoints(loss, tmp_path):
    whole = fit(Consolidate(loss, when=settled()), tmp_path, max_epochs=2)
    first = Consolidate(loss, when=settled())
    half = trainer(first, tmp_path)
    half.fit(Network(), stream())
    half.save_checkpoint(tmp_path / "half.ckpt")
    second = Consolidate(loss, when=settled())
    resumed = Network()
    trainer(second, tmp_path, max_epochs=2).fit(
        resumed, stream(), ckpt_path=tmp_path / "half.ckpt", weights_only=True
    )
    assert second.consolidator.consolidations >= first.consolidator.consolidations > 0
    for ours, expected in zip(resumed.parameters(), whole.parameters(), strict=True):
        assert torch.equal(ours, expected)


def test_manual_optimization_is_the_same(tmp_path):
    automatic = fit(Consolidate(when=settled()), tmp_path)
    callback = Consolidate(when=settled())
    manual = fit(callback, tmp_path, Network(manual=True))
    assert callback.consolidator.consolidations
    for ours, expected in zip(manual.parameters(), automatic.parameters(), strict=True):
        assert torch.equal(ours, expected)


def test_a_step_that_returns_no_loss_raises(tmp_path):
    network = Network(manual=True)
    network.returns = False
    with pytest.raises(ValueError, match="return it from training_step"):
        fit(Consolidate(), tmp_path, network)


def test_accumulated_gradients(tmp_path):
    losses = []

    class Watch(Plateau):
        def update(self, loss):
            losses.append(loss)
            return super().update(loss)

    plain, several = Watch(5, 1e-9, 0.1), Watch(5, 1e-9, 0.1)
    fit(Consolidate(when=plain), tmp_path, limit_train_batches=1)
    fit(Consolidate(when=several), tmp_path, limit_train_batches=1, accumulate_grad_batches=4)
    assert losses[0] == pytest.approx(losses[1])


class CountingMAS(MAS):
    def __init__(self, strength, **options):
        super().__init__(strength, **options)
        self.gradients = self.proximal = 0

    def after_backward(self, model):
        self.gradients += 1
        super().after_backward(model)

    def after_step(self, model, optimizer):
        self.proximal += 1
        super().after_step(model, optimizer)


def test_the_penalty_counts_once_per_step(tmp_path):
    how = CountingMAS(0.1, penalty="gradient")
    fit(Consolidate(how=how), tmp_path, limit_train_batches=10, accumulate_grad_batches=5)
    assert (how.gradients, how.proximal) == (2, 2)


def test_lbfgs_takes_one_proximal_step_per_step(tmp_path, monkeypatch):
    def lbfgs(self):
        return torch.optim.LBFGS(self.parameters(), lr=0.1, max_iter=5)

    monkeypatch.setattr(Network, "configure_optimizers", lbfgs)
    how = CountingMAS(0.1)
    fit(Consolidate(how=how), tmp_path, limit_train_batches=10)
    assert how.proximal == 10
    with pytest.raises(ValueError, match="LBFGS does not find"):
        fit(Consolidate(LOSS), tmp_path)


def test_skipped_batches_are_not_stored(tmp_path):
    class Skips(Network):
        def training_step(self, batch, number):
            return None if number == 3 else super().training_step(batch, number)

    callback = Consolidate(LOSS, which=Reservoir(1000))
    fit(callback, tmp_path, Skips(), limit_train_batches=10)
    stored = len(callback.consolidator.which)
    whole = Consolidate(LOSS, which=Reservoir(1000))
    fit(whole, tmp_path, limit_train_batches=10)
    assert stored == len(whole.consolidator.which) * 9 / 10


@pytest.mark.parametrize("batch", [{"x": 1}, (1, 2, 3)])
def test_a_batch_that_cannot_be_unpacked(batch):
    with pytest.raises(ValueError, match="unpack"):
        Consolidate().unpack(batch)


def test_the_number_of_consolidations_is_logged(tmp_path):
    callback = Consolidate(when=settled())
    run = trainer(callback, tmp_path)
    run.fit(Network(), stream())
    assert run.callback_metrics["consolidations"] == callback.consolidator.consolidations > 0


def test_several_processes_are_refused(tmp_path):
    callback = Consolidate()
    run = trainer(callback, tmp_path, strategy="ddp", devices=1, num_nodes=2)
    with pytest.raises(ValueError, match="works in one process, not in 2"):
        callback.setup(run, Network(), "fit")
