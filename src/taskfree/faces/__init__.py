"""Learning people's faces by watching: from video to tracks, triplets and names."""

from taskfree.faces.alexnet import AlexNet
from taskfree.faces.templates import Templates
from taskfree.faces.triplets import FaceMAS, Faces, Pair, triplet_loss, triplets

__all__ = ["AlexNet", "FaceMAS", "Faces", "Pair", "Templates", "triplet_loss", "triplets"]
