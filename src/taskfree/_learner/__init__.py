"""What a learner is made of besides Algorithm 1: its objective and its state."""
