"""The contract of a buffer."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
from torch import Tensor

from taskfree._core import batch
from taskfree._core.batch import Batch
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
        for name in ("rescore", "balanced"):
            require(isinstance(getattr(buffer, name, None), bool), f"{name} must be a bool")
        for step in range(12):
            for one in (buffer, twin):
                _update(one, step, samples, shape)
            _check_rows(buffer, (step + 1) * samples, step, shape)
            saved = snapshot(buffer.state_dict())
            require(same(saved, twin.state_dict()), "two new buffers must choose alike")
            twin = make()
            twin.load_state_dict(saved)
            require(same(saved, twin.state_dict()), "a loaded state must be what was saved")
        _check_refusals(buffer, shape)


def _update(buffer: Buffer, step: int, samples: int, shape: str) -> None:
    inputs, targets = _offer(step, samples, shape)
    buffer.check(inputs, targets)
    before = snapshot(buffer.state_dict())
    given = batch.tensors(batch.apply(Tensor.clone, inputs))
    joint_inputs, joint_targets = buffer.join(inputs, targets)
    require(same(before, buffer.state_dict()), "join must not change what is held")
    held = len(buffer)
    number = batch.tensors(joint_inputs)[0][:, 0].long()
    require(
        number.shape[0] == held + samples == batch.rows(joint_targets)
        and all(map(torch.equal, given, (c[held:] for c in batch.tensors(joint_inputs))))
        and (not held or torch.equal(number[:held], _numbers(buffer))),
        "join must give the samples held, followed by the new ones",
    )
    for tensor in (*batch.tensors(inputs), targets):
        tensor.zero_()  # what was offered is the caller's: the buffer must have copied it
    losses = _loss(number, step)
    buffer.update(losses)
    losses.zero_()


def _numbers(buffer: Buffer) -> Tensor:
    return batch.tensors(buffer.inputs)[0][:, 0].long()


def _check_rows(buffer: Buffer, seen: int, step: int, shape: str) -> None:
    require(0 < len(buffer) <= buffer.capacity, "a buffer must hold 1 to `capacity` samples")
    number = _numbers(buffer)
    require(len(number) == len(buffer), "a buffer must hold as many inputs as it says")
    require(len(set(number.tolist())) == len(number), "a buffer must not hold a sample twice")
    require(int(number.max()) < seen, "a buffer must hold only what it was offered")
    expected = batch.tensors(_inputs(number, shape))
    require(
        all(map(torch.equal, batch.tensors(buffer.inputs), expected)),
        "a buffer must keep the parts of an input together",
    )
    targets = buffer.targets
    require(
        isinstance(targets, Tensor) and torch.equal(targets, _target(number)),
        "a buffer must keep inputs and targets together",
    )
    require(
        torch.equal(buffer.losses, _loss(number, step)), "a buffer must take over the fresh losses"
    )


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
