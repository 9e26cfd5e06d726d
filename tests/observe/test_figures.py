import numpy as np
from PIL import Image

from observed import make, stream
from taskfree.observe import figures


def test_the_figure_of_the_loss_shows_every_step_plateau_peak_and_change(tmp_path):
    learner = make()
    reports = [learner.learn(x, y) for x, y in stream()]
    figure = figures.figure_loss(
        reports, title="A run", changes=[50, 100], thresholds={"threshold": 0.7}
    )
    lines = {line.get_label(): line for line in figure.axes[0].get_lines()}
    losses = [report.window_loss for report in reports]
    assert np.array_equal(lines["loss"].get_ydata(), losses)
    means = [report.window_mean for report in reports]
    assert np.array_equal(lines["window mean"].get_ydata(), means, equal_nan=True)
    plateaus = [report.step for report in reports if report.consolidated]
    peaks = [report.step for report in reports if report.peak]
    assert plateaus
    assert peaks
    shown = lines[f"plateau: consolidated ({len(plateaus)})"]
    assert list(shown.get_xdata()) == plateaus
    shown = lines[f"peak: trigger armed again ({len(peaks)})"]
    assert list(shown.get_xdata()) == peaks
    assert set(lines["threshold"].get_ydata()) == {0.7}
    assert set(lines["stream changes"].get_xdata()) == {50}
    assert figure.axes[0].get_title() == "A run"
    figures.save(figure, tmp_path / "loss.png")
    with Image.open(tmp_path / "loss.png") as image:
        assert image.format == "PNG"
        assert min(image.size) > 400


def test_the_colours_differ():
    assert len(set(figures.COLOURS)) == len(figures.COLOURS) == 7
