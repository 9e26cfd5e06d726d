"""Algorithm 1, implemented literally, slowly and in float64: the reference for the library.

No code is shared with the library. Losses are recomputed where the paper writes them, the penalty
is a term of the objective that autograd differentiates, importance is one backward pass per sample,
the buffer is a Python list of samples and every choice in it is made by a loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass
class Sample:
    x: Tensor
    y: Tensor
    loss: float


@dataclass
class Algorithm1:
    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    loss: object
    repeats: int
    window: int
    delta_mu: float
    delta_sigma: float
    capacity: int
    strength: float
    accumulate: str
    balanced: bool
    rescore: bool
    output: str
    penalty: str
    keep_buffer: bool = True

    W: list[float] = field(default_factory=list)
    B: list[Sample] = field(default_factory=list)
    mu_old: float = 0.0
    sigma_old: float = 0.0
    P: int = 0
    updates: int = 0
    events: list[str] = field(default_factory=list)

    def __post_init__(self):
        self.theta = dict(self.model.named_parameters())
        self.omega = {name: torch.zeros_like(value) for name, value in self.theta.items()}
        self.theta_star = {name: value.detach().clone() for name, value in self.theta.items()}

    def L(self, samples):
        """The mean loss, one sample after the other; 0 for no samples."""
        total = torch.zeros((), dtype=torch.float64)
        for x, y in samples:
            total = total + self.loss(self.model(x[None]), y[None])[0] / len(samples)
        return total

    @torch.no_grad()
    def scores(self, samples):
        return [float(self.loss(self.model(x[None]), y[None])[0]) for x, y in samples]

    def step(self, X, Y):
        new = list(zip(X, Y, strict=True))
        buffered = [(sample.x, sample.y) for sample in self.B]
        for n in range(1, self.repeats + 1):
            scores = self.scores(new + buffered)
            data = self.L(new) + self.L(buffered)
            objective = data
            if self.penalty == "gradient":
                for name, value in self.theta.items():
                    distance = value - self.theta_star[name]
                    objective = (
                        objective + self.strength / 2 * (self.omega[name] * distance**2).sum()
                    )
            self.optimizer.zero_grad()
            objective.backward()
            self.optimizer.step()
            if self.penalty == "proximal":
                self.proximal_formula()
            if n == 1:
                self.W = [*self.W, data.item()][-self.window :]
        event = ""
        if len(self.W) == self.window:
            mu = sum(self.W) / len(self.W)
            variance = sum((loss - mu) ** 2 for loss in self.W) / len(self.W)
            if not self.P and mu < self.delta_mu and variance < self.delta_sigma:
                self.update_omega([x for x, _ in buffered] or [x for x, _ in new])
                self.theta_star = {
                    name: value.detach().clone() for name, value in self.theta.items()
                }
                self.mu_old, self.sigma_old = mu, variance**0.5
                self.W, self.P, event = [], 1, "plateau"
            elif self.P and mu > self.mu_old + self.sigma_old:
                self.P, event = 0, "peak"
        self.events.append(event)
        if self.rescore:
            scores = self.scores(new + buffered)
        if self.keep_buffer:
            self.update_buffer(
                [Sample(x, y, s) for (x, y), s in zip(new + buffered, scores, strict=True)]
            )

    @torch.no_grad()
    def proximal_formula(self):
        for group in self.optimizer.param_groups:
            for value in group["params"]:
                name = next(name for name, other in self.theta.items() if other is value)
                a = group["lr"] * self.strength * self.omega[name]
                value += a / (1 + a) * (self.theta_star[name] - value)

    def update_omega(self, inputs):
        estimate = {name: torch.zeros_like(value) for name, value in self.theta.items()}
        self.model.eval()
        for x in inputs:
            out = self.model(x[None])
            size = (out**2).sum() if self.output == "squared" else (out**2).sum().sqrt()
            gradients = torch.autograd.grad(size, list(self.theta.values()))
            for name, gradient in zip(self.theta, gradients, strict=True):
                estimate[name] += gradient.abs() / len(inputs)
        self.model.train()
        self.updates += 1
        for name, new in estimate.items():
            old = self.omega[name]
            if self.accumulate == "mean":
                self.omega[name] = (old * (self.updates - 1) + new) / self.updates
            elif self.accumulate == "decay":
                self.omega[name] = (old + new) / 2
            else:
                self.omega[name] = old + new

    def update_buffer(self, candidates):
        if not self.balanced:
            self.B = sorted(candidates, key=lambda sample: -sample.loss)[: self.capacity]
            return
        of_label: dict[int, list[Sample]] = {}
        for sample in sorted(candidates, key=lambda sample: -sample.loss):
            of_label.setdefault(int(sample.y), []).append(sample)
        chosen: list[Sample] = []
        while len(chosen) < self.capacity and any(of_label.values()):
            # one more from every label that still has any, the hardest of those first
            heads = sorted(
                (samples for samples in of_label.values() if samples), key=lambda s: -s[0].loss
            )
            chosen += [samples.pop(0) for samples in heads[: self.capacity - len(chosen)]]
        self.B = chosen
