"""Where rows come from: CSV, JSON lines, Parquet, Arrow, standard input and image folders."""

from taskfree.tabular.sources.opening import open_source
from taskfree.tabular.sources.source import START, Picker, Position, Row, Source

__all__ = ["START", "Picker", "Position", "Row", "Source", "open_source"]
