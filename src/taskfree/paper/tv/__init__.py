"""Section 4.2: an AlexNet learns to recognize the actors of a TV series while watching it."""

from taskfree.paper.tv.alexnet import AlexNet
from taskfree.paper.tv.templates import Templates
from taskfree.paper.tv.triplets import FaceMAS, Faces, Pair, triplet_loss, triplets

__all__ = ["AlexNet", "FaceMAS", "Faces", "Pair", "Templates", "triplet_loss", "triplets"]
