"""Your own training loop, without a framework: `when` and `how` in five lines."""

import torch
from torch import nn

from taskfree import MAS, Settled
from taskfree.paper.streams import ball

generator = torch.Generator().manual_seed(0)
stream = [
    batch for q in (1, 2) for batch in ball.batches(*ball.quadrant(q, 4000, generator), size=20)
]
tests, answers = ball.quadrant(1, 1000, generator)

for name, strength in {"plain": 0.0, "taskfree": 0.01}.items():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 100), nn.ReLU(), nn.Linear(100, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    when = Settled()  # 1
    how = MAS(strength, penalty="relative")  # 2
    for x, y in stream:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        how.after_step(model, optimizer)  # 3
        if when.update(loss.item()) == "plateau":  # 4
            how.consolidate(model, x)  # 5
    accuracy = (model(tests).argmax(1) == answers).float().mean()
    print(f"{name}: {100 * accuracy:.0f} % in the first quadrant")
