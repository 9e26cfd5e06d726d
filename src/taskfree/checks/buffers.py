"""The contract of a buffer."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from taskfree._core import batch
from taskfree._core.batch import Batch, Recalled
from taskfree.checks.comparison import require, same, snapshot
from taskfree.which import Buffer


def _offer(step: int, samples: int, shape: str) -> tuple[Batch, Tensor]:
    """New samples whose inputs are their numbers, with targets that follow from them."""
    number = torch.arange(step * samples, (step + 1) * samples)
    return _inputs(number, shape), _target(number)


def _inputs(number: Tensor, shape: str) -> Batch:
    column = number.double().unsqueeze(1).expand(-1, 2).contiguous()
    whole: dict[str, Batch] = {
        "tensor": column,
        "tuple": (column, column[:, 0].float()),
        "dict": {"image": column, "number": number},
    }
    return whole[shape]


def _target(number: Tensor) -> Tensor:
    return (number * 7919 % 13).div(5, rounding_mode="floor")


def _loss(number: Tensor, step: int) -> Tensor:
    """Fresh losses: they change with the step, and some are equal."""
    return ((number * 31 + step * 17) % 23).double()


def check_buffer(make: Callable[[], Buffer]) -> None:
    """Check a buffer; `make` creates a new, empty one.

    >>> from taskfree import which
    >>> check_buffer(lambda: which.Hardest(5))
    """
    for shape, samples in itertools.product(("tensor", "tuple", "dict"), (1, 4, 50)):
        buffer, twin = make(), make()
        require(len(buffer) == 0, "a new buffer must be empty")
        require(isinstance(getattr(buffer, "rescore", None), bool), "rescore must be a bool")
        require(
            getattr(buffer, "balanced", None) in (True, False, "auto"),
            "balanced must be a bool or 'auto'",
        )
        last_seen: dict[int, float] = {}
        said: dict[int, tuple[float, int]] = {}
        for step in range(12):
            for one in (buffer, twin):
                given, remembered = _update(one, step, samples, shape, said)
            last_seen, said = last_seen | given, said | remembered
            _check_rows(buffer, shape, last_seen)
            saved = snapshot(buffer.state_dict())
            require(same(saved, twin.state_dict()), "two new buffers must choose alike")
            twin = make()
            twin.load_state_dict(saved)
            require(same(saved, twin.state_dict()), "a loaded state must be what was saved")
        _check_refusals(buffer, shape)


def _update(
    buffer: Buffer, step: int, samples: int, shape: str, said: Mapping[int, tuple[float, int]]
) -> tuple[dict[int, float], dict[int, tuple[float, int]]]:
    """Offer new samples; the losses and outputs that the buffer was given, by their numbers."""
    inputs, targets = _offer(step, samples, shape)
    new = set(_numbers(inputs))
    buffer.check(inputs, targets)
    before, held = _contents(buffer), set(_numbers(buffer.inputs)) if len(buffer) else set()
    joined = [batch.apply(Tensor.clone, part) for part in buffer.join(inputs, targets)]
    for tensor in (*batch.tensors(inputs), targets):
        tensor.zero_()  # what was offered is the caller's: the buffer must have copied it
    drawn = buffer.redraw()
    require(same(before, _contents(buffer)), "join and redraw must not change what is held")
    for x, y in (joined, drawn):
        number, replayed = _numbers(x), batch.rows(x) - samples
        require(
            set(number[:replayed]) <= held
            and set(number[replayed:]) == new
            and len(set(number)) == len(number)
            and bool(replayed) == bool(held),
            "join and redraw must give held samples, each once, followed by the new ones",
        )
        _check_samples(x, y, number, shape)
    require(batch.rows(joined[0]) == batch.rows(drawn[0]), "redraw must replay as many as join")
    _check_recalled(buffer.recall(step), number[:-samples], step, said)
    outputs = torch.tensor([10.0 * one + step for one in number[:-samples]])
    buffer.remember([outputs], step)
    losses = _loss(torch.tensor(number), step)
    given = dict(zip(number, losses.tolist(), strict=True))
    buffer.update(losses)
    losses.zero_()
    now = zip(number, outputs.tolist(), strict=False)
    return given, {one: (output, step) for one, output in now}


def _check_recalled(
    recalled: Recalled, number: list[int], step: int, said: Mapping[int, tuple[float, int]]
) -> None:
    require(recalled.here == recalled.total == len(number), "recall must count what is replayed")
    ages = [math.inf] * len(number) if recalled.ages is None else recalled.ages.tolist()
    require(
        ages == [step - said[one][1] if one in said else math.inf for one in number],
        "recall must give the age of what is remembered, and inf where nothing is",
    )
    values = [None] * len(number) if recalled.outputs is None else recalled.outputs[0].tolist()
    require(
        all(
            value == said[one][0] for one, value in zip(number, values, strict=True) if one in said
        ),
        "recall must give what was remembered of each sample",
    )


def _numbers(inputs: Batch) -> list[int]:
    return [int(number) for number in batch.tensors(inputs)[0][:, 0].tolist()]


def _contents(buffer: Buffer) -> dict[str, Tensor]:
    if not len(buffer):
        return {}
    columns = (*batch.tensors(buffer.inputs), *batch.tensors(buffer.targets), buffer.losses)
    return snapshot({str(number): column for number, column in enumerate(columns)})


def _check_samples(inputs: Batch, targets: Batch, number: list[int], shape: str) -> None:
    expected = batch.tensors(_inputs(torch.tensor(number), shape))
    require(
        all(map(torch.equal, batch.tensors(inputs), expected)),
        "a buffer must keep the parts of an input together",
    )
    require(
        isinstance(targets, Tensor) and torch.equal(targets, _target(torch.tensor(number))),
        "a buffer must keep inputs and targets together",
    )


def _check_rows(buffer: Buffer, shape: str, last_seen: Mapping[int, float]) -> None:
    require(0 < len(buffer) <= buffer.capacity, "a buffer must hold 1 to `capacity` samples")
    number = _numbers(buffer.inputs)
    require(len(number) == len(buffer), "a buffer must hold as many inputs as it says")
    require(len(set(number)) == len(number), "a buffer must not hold a sample twice")
    require(set(number) <= last_seen.keys(), "a buffer must hold only what it was offered")
    _check_samples(buffer.inputs, buffer.targets, number, shape)
    expected = [last_seen[one] for one in number]
    require(buffer.losses.tolist() == expected, "a buffer must take over the fresh losses")


def _check_refusals(buffer: Buffer, shape: str) -> None:
    before = snapshot(buffer.state_dict())
    inputs, targets = _offer(0, 3, shape)
    wider = batch.apply(lambda column: torch.stack([column, column], dim=1), inputs)
    other = batch.apply(lambda column: column.to(torch.int16), inputs)
    for wrong in (wider, other):
        try:
            buffer.check(wrong, targets)
        except ValueError:
            continue
        raise AssertionError("check must refuse samples of another shape or dtype by ValueError")
    require(same(before, buffer.state_dict()), "check must change nothing")
