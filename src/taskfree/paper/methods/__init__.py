"""Methods of continual learning on the same streams: ours, the paper's and those of other code."""
