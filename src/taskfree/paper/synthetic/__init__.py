"""Section 4.1: points in 4-D, two quadrants one after the other."""
