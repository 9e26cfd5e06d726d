"""The tables in README and docs, made from the committed results."""
