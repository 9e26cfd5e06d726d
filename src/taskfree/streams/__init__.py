"""Sources of samples, one after the other, as a learner meets them."""
