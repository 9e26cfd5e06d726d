"""Checkpoints crafted with a valid digest: each is refused, and for the right reason."""

import hashlib
import io
import json
import zipfile

import pytest
import torch
from torch import nn

from same import assert_same, snapshot
from taskfree.checkpoint import CheckpointError, resume, save
from taskfree.checkpoint.format import FORMAT, UNKNOWN


def parse(content):
    """A file's header, as Python objects, and its body."""
    length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def sign(header, body, length=None):
    """A file with the right digest, whatever its header says."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    start = (len(text) if length is None else length).to_bytes(8, "little")
    digest = hashlib.sha256(start + text + body).hexdigest()
    return start + text.replace(UNKNOWN.encode(), digest.encode(), 1) + body


def manifest(header, **changes):
    """The same header with another manifest."""
    old = json.loads(header["__metadata__"]["manifest"]) | {"digest": UNKNOWN} | changes
    new = {name: value for name, value in old.items() if value is not None}
    return header | {"__metadata__": {"manifest": json.dumps(new)}}


def tensor(header, name, **changes):
    """The same header with another entry of a tensor."""
    return header | {name: header[name] | changes}


def layout(header, body, text):
    """The same file with another layout of the model, at the end."""
    old = header["model.layout"]
    rest = {name: dict(entry) for name, entry in header.items() if name != "model.layout"}
    start, end = old["data_offsets"]
    for name, entry in rest.items():
        if name != "__metadata__" and entry["data_offsets"][0] >= end:
            entry["data_offsets"] = [place - (end - start) for place in entry["data_offsets"]]
    body = body[:start] + body[end:]
    where = [len(body), len(body) + len(text)]
    rest["model.layout"] = {"dtype": "U8", "shape": [len(text)], "data_offsets": where}
    return rest, body + text


DEEP = 200_000
W = "model.weight"


def swap(name, other):
    return lambda h, b: sign({other if key == name else key: value for key, value in h.items()}, b)


def described(**changes):
    return lambda h, b: sign(tensor(h, W, **changes), b)


def declared(**changes):
    return lambda h, b: sign(manifest(h, **changes), b)


def laid_out(text):
    return lambda h, b: sign(*layout(h, b, text))


def pickled():
    out = io.BytesIO()
    torch.save({"weight": torch.ones(1)}, out)  # noqa: TID251
    return out.getvalue()


def zipped():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("../../evil", "x")
    return out.getvalue()


def raw(h):
    return json.dumps(h).encode()


CASES = {
    "empty": (lambda h, b: b"", "is truncated, or not a safetensors file"),
    "seven bytes": (lambda h, b: b"1234567", "is truncated, or not a safetensors file"),
    "huge header": (lambda h, b: sign(h, b, 2**63), "is truncated, or not a safetensors file"),
    "header beyond the end": (lambda h, b: sign(h, b, 10**6), "is truncated, or not a safetensors file"),
    "header of nothing": (lambda h, b: sign(b"", raw(h) + b), "has no manifest"),
    "header longer than the file by one": (lambda h, b: sign(raw(h), b, length=len(raw(h)) + len(b) + 1), "is truncated"),
    "header as long as the file": (lambda h, b: sign(raw(h), b, length=len(raw(h)) + len(b)), "has no manifest"),
    "header not JSON": (lambda h, b: sign(b"hello", b), "has no manifest"),
    "header not text": (lambda h, b: sign(b"\xff\xfe" * 20, b), "has no manifest"),
    "header in UTF-32": (lambda h, b: sign(raw(h).decode().encode("utf-32-be"), b), "has no manifest"),
    "header a list": (lambda h, b: sign([h], b), "has no manifest"),
    "header nested deep": (lambda h, b: sign(b"[" * DEEP + b"]" * DEEP, b), "has no manifest"),
    "header nested deep in dicts": (lambda h, b: sign(b'{"a":' * DEEP + b"1" + b"}" * DEEP, b), "has no manifest"),
    "no metadata": (lambda h, b: sign({k: v for k, v in h.items() if k != "__metadata__"}, b), "has no manifest"),
    "metadata a number": (lambda h, b: sign(h | {"__metadata__": 3}, b), "has no manifest"),
    "manifest not JSON": (lambda h, b: sign(h | {"__metadata__": {"manifest": "{"}}, b), "has no manifest"),
    "manifest nested deep": (lambda h, b: sign(h | {"__metadata__": {"manifest": "[" * DEEP}}, b), "has no manifest"),
    "manifest a list": (lambda h, b: sign(h | {"__metadata__": {"manifest": "[1]"}}, b), "has no manifest"),
    "format missing": (declared(format=None), "has no manifest"),
    "format a string": (declared(format="1"), "has an invalid manifest"),
    "format a bool": (declared(format=True), "has an invalid manifest"),
    "format 0": (declared(format=0), "has an invalid manifest"),
    "format newer": (declared(format=99), "has format 99, and this version of taskfree reads up to 1"),
    "digest missing": (declared(digest=None), "has no manifest"),
    "digest a number": (declared(digest=5), "has an invalid manifest"),
    "digest short": (declared(digest="0" * 63), "has no SHA-256"),
    "digest in capitals": (declared(digest="A" * 64), "has no SHA-256"),
    "digest of something else": (declared(digest=hashlib.sha256(b"x").hexdigest()), "does not match its SHA-256"),
    "dtype unknown": (described(dtype="F1024"), "cannot be read"),
    "dtype of another size": (described(dtype="F64"), "cannot be read"),
    "dtype of the same size": (described(dtype="I32"), "does not fit model"),
    "shape huge": (described(shape=[2**40, 2**40]), "cannot be read"),
    "shape too huge for 64 bits": (described(shape=[2**70]), "cannot be read"),
    "shape negative": (described(shape=[-2, -3]), "cannot be read"),
    "shape of fractions": (described(shape=[1.5, 4]), "cannot be read"),
    "shape another": (described(shape=[3, 2]), "does not fit model"),
    "offsets beyond the end": (described(data_offsets=[0, 10**9]), "cannot be read"),
    "offsets reversed": (described(data_offsets=[24, 0]), "cannot be read"),
    "offsets negative": (described(data_offsets=[-24, 0]), "cannot be read"),
    "offsets overlapping": (lambda h, b: sign(tensor(h, "model.bias", data_offsets=h[W]["data_offsets"][:1] * 2), b), "cannot be read"),
    "a hole": (lambda h, b: sign({k: v for k, v in h.items() if k != W}, b), "cannot be read"),
    "more at the end": (lambda h, b: sign(h, b + b"\0" * 8), "cannot be read"),
    "name out of the folder": (swap(W, "model.../../weight"), "invalid layout of model"),
    "name an absolute path": (swap(W, "/etc/passwd"), "holds /etc/passwd"),
    "name with a zero byte": (swap(W, "model.we\0ight"), "invalid layout of model"),
    "another part": (swap(W, "other.weight"), "holds model, other, random"),
    "layout missing": (swap("model.layout", "model.lay"), "invalid layout of model"),
    "layout not JSON": (laid_out(b"{"), "invalid layout of model"),
    "layout nested deep": (laid_out(b"[" * DEEP), "invalid layout of model"),
    "layout of a kind that is not there": (laid_out(b'["code", ["os.system", "true"]]'), "invalid layout of model"),
    "layout without the tensors": (laid_out(b'["dict", []]'), "tensors that its layout of model does not name"),
    "layout with a list as a key": (laid_out(b'["dict", [[[1], ["value", 1]]]]'), "invalid layout of model"),
    "layout that names a tensor twice": (laid_out(b'["list", [["tensor", "weight"], ["tensor", "weight"]]]'), "layout of model|does not fit"),
    "layout as a number": (laid_out(b"7"), "invalid layout of model"),
    "layout of another model": (laid_out(b'["dict", [["weight", ["tensor", "weight"]], ["b", ["tensor", "bias"]]]]'), "layout of model|does not fit model"),
    "a pickle": (lambda h, b: pickled(), "is truncated, or not a safetensors file|has no manifest"),
    "a zip archive": (lambda h, b: zipped(), "is truncated, or not a safetensors file|has no manifest"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_crafted_file_is_refused(tmp_path, case):
    make, reason = CASES[case]
    file = save(tmp_path, model=nn.Linear(3, 2)).file
    header, body = parse(file.read_bytes())
    header = manifest(header)
    file.write_bytes(sign(header, body))
    resume(tmp_path, model=nn.Linear(3, 2))  # a file signed here is accepted
    file.write_bytes(make(header, body))
    model = nn.Linear(3, 2)
    before = snapshot(model)
    with pytest.raises(CheckpointError, match=reason):
        resume(tmp_path, model=model)
    assert_same(snapshot(model), before)


def test_there_are_at_least_40_cases():
    assert len(CASES) >= 40
    assert FORMAT == 1
