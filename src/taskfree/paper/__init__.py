"""The paper's experiments, one package each, and their shared code; never imported by the rest."""
