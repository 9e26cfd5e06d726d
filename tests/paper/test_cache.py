"""Keys of cached results."""

from pathlib import Path

from taskfree.paper import cache


def test_a_key_depends_on_the_settings_and_not_on_their_order():
    key = cache.cache_key({"lr": 0.1, "seed": 0})
    assert key == cache.cache_key({"seed": 0, "lr": 0.1})
    assert key != cache.cache_key({"lr": 0.1, "seed": 1})
    assert cache.cache_key({"path": Path("a")}) != cache.cache_key({"path": Path("b")})


def test_a_file_is_named_by_its_run_and_its_key():
    file = cache.run_file(Path("out"), "online, no buffer 3", {"lr": 0.1})
    assert file.parent == Path("out/runs")
    assert file.name.startswith("online-no-buffer-3-")
    assert file.suffix == ".json"
    assert file == cache.run_file(Path("out"), "online, no buffer 3", {"lr": 0.1})
    assert file != cache.run_file(Path("out"), "online, no buffer 3", {"lr": 0.2})
    assert cache.run_file(Path("out"), "a", {}, suffix=".safetensors").suffix == ".safetensors"


def test_other_versions_are_other_files(monkeypatch):
    file = cache.run_file(Path("out"), "a", {})
    versions = cache.versions()
    assert set(versions) == {"python", "torch", "taskfree"}
    for name in versions:
        monkeypatch.setattr(cache, "versions", lambda changed=versions | {name: "0"}: changed)
        assert cache.run_file(Path("out"), "a", {}) != file, name
