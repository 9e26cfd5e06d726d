"""On-policy learning: the network acts, and an expert labels what it should have done.

For any Gymnasium environment whose `info` holds the expert's action as `expert`. This module needs
only torch: an environment is anything with `reset` and `step`.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any, NamedTuple

import torch
from torch import Tensor

from taskfree._core import validation
from taskfree.learner import Learner
from taskfree.observe.advice import Advice
from taskfree.observe.events import Report

__all__ = ["Moment", "OnPolicy"]


class Moment(NamedTuple):
    """What happened in one control step.

    >>> Moment(action=1, expert=0, collision=False, report=None, info={}).expert
    0
    """

    action: int
    expert: int
    """What the expert would have done."""
    collision: bool
    report: Report | None
    """The report of the time step learned after it, if there was one."""
    info: dict[str, Any]
    """The environment's info after the step."""


class OnPolicy:
    """Act with the network, label the newest frames by the expert, and learn from them.

    Iterating over it acts forever, one control step at a time. After a `collision` in `info`
    nothing is learned from that step: the environment's own `recover` is called if it has one,
    otherwise `reset`. `reset` is also called when an episode ends. `observation` and `info` are
    the current ones.

    Args:
        env: a Gymnasium environment whose `info` has `expert`, the expert's action.
        learner: learns to act like the expert; None, with a policy, only acts.
        prepare: converts a stack of observations to inputs of the model.
        recent: how many of the newest frames a time step learns from.
        every: frames per time step.
        budget: seconds that a control step may take. Learning that would exceed it, judged by the
            last time, is postponed to a later step and counted in `postponed`. None: simulated
            time stands still while it learns.
        policy: acts instead of the network: a function of the observation and `info`.
        seed: of the environment.

    >>> class Line:
    ...     def reset(self, *, seed=None, options=None):
    ...         self.x = 5.5
    ...         return [self.x], {"expert": 0}
    ...     def step(self, action):
    ...         self.x += 1 if action else -1
    ...         return [self.x], 0.0, abs(self.x) > 9, False, {"expert": int(self.x < 0)}
    >>> _ = torch.manual_seed(0)
    >>> model = torch.nn.Linear(1, 2)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    >>> learner = Learner(model, optimizer, loss=torch.nn.CrossEntropyLoss(reduction="none"))
    >>> acting = OnPolicy(Line(), learner)
    >>> moments = [moment for moment, _ in zip(acting, range(300))]
    >>> [sum(m.action == m.expert for m in part) for part in (moments[:20], moments[-20:])]
    [10, 20]
    """

    def __init__(
        self,
        env: Any,
        learner: Learner | None,
        *,
        prepare: Callable[[Tensor], Tensor] = lambda observations: observations,
        recent: int = 40,
        every: int = 10,
        budget: float | None = None,
        policy: Callable[[Any, dict[str, Any]], int] | None = None,
        seed: int | None = None,
    ) -> None:
        self.env, self.learner, self.prepare = env, learner, prepare
        self.every = validation.integer("every", every, least=1)
        self.budget = budget if budget is None else validation.number("budget", budget, above=0)
        if learner is None and policy is None:
            raise ValueError("nothing acts: pass a learner, a policy or both")
        self.policy = self._act if policy is None else policy
        self.frames = self.collisions = self.postponed = 0
        self._recent: deque[tuple[Tensor, int]] = deque(
            maxlen=validation.integer("recent", recent, least=1)
        )
        self._due, self._cost = 0, 0.0
        self.observation, self.info = env.reset(seed=seed)
        self._expert(self.info)

    def __iter__(self) -> Iterator[Moment]:
        """Act and learn, a control step at a time."""
        while True:
            yield self.step()

    def step(self) -> Moment:
        """One control step: act, store the frame, and learn if it is due."""
        started = perf_counter()
        expert = self._expert(self.info)
        action = int(self.policy(self.observation, self.info))
        self._recent.append((torch.as_tensor(self.observation).clone(), expert))
        self.observation, _, ended, cut, self.info = self.env.step(action)
        info, collision = self.info, bool(self.info.get("collision", False))
        self.frames, self._due = self.frames + 1, self._due + 1
        report = None
        if collision:
            self.collisions += 1
            self._recover()
        elif self.learner is not None and self._due >= self.every:
            report = self._learn_in_time(self.learner, started)
        if (ended or cut) and not collision:
            self.observation, self.info = self.env.reset()
        return Moment(action, expert, collision, report, info)

    def _act(self, observation: Any, _: dict[str, Any]) -> int:
        inputs = self.prepare(torch.as_tensor(observation)[None])
        assert self.learner is not None
        return int(self.learner.predict(inputs).argmax())

    def _recover(self) -> None:
        recover = getattr(getattr(self.env, "unwrapped", self.env), "recover", None)
        self.observation, self.info = recover() if recover is not None else self.env.reset()

    def _learn_in_time(self, learner: Learner, started: float) -> Report | None:
        """Learn, unless that would exceed the budget."""
        begun = perf_counter()
        if self.budget is not None and begun - started + self._cost > self.budget:
            self.postponed += 1
            if self.postponed == 10 * self.every and learner.step <= 1:
                warnings.warn(
                    f"learning takes {self._cost:.3g} s and a control step may take "
                    f"{self.budget:.3g} s, so it never learns; use a smaller network, fewer "
                    "repeats, fewer recent frames or a larger budget",
                    Advice, stacklevel=4,
                )  # fmt: skip
            return None
        observations, labels = zip(*self._recent, strict=True)
        report = learner.learn(self.prepare(torch.stack(observations)), torch.tensor(labels))
        self._due, self._cost = 0, perf_counter() - begun
        return report

    @staticmethod
    def _expert(info: dict[str, Any]) -> int:
        if "expert" not in info:
            raise ValueError(
                f"the environment's info must hold the expert's action as 'expert'; it has "
                f"{', '.join(map(str, info)) or 'nothing'}"
            )
        return int(info["expert"])
