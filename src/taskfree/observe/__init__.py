"""What the learner does, and why: reports, events, advice, logs, TensorBoard and a live page."""
