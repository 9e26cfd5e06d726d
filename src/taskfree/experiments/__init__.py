"""The paper's experiments: one file each, with a frozen `Config` and `run(config)`."""
