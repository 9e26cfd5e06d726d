import torch

from taskfree._learner.state import load_optimizer


def test_an_optimizer_loads_copies_in_their_saved_dtypes():
    def make():
        weight = torch.nn.Parameter(torch.ones(2, dtype=torch.bfloat16))
        return weight, torch.optim.SGD([weight], lr=0.1, momentum=0.9)

    (weight, optimizer), (other, loaded) = make(), make()
    momentum = torch.tensor([1.0, 1 / 3])  # in another dtype than the parameter
    optimizer.state[weight] = {"momentum_buffer": momentum, "history": [momentum.clone()]}
    optimizer.param_groups[0]["lr"] = 0.7
    load_optimizer(loaded, optimizer.state_dict())
    found = loaded.state[other]
    assert found["momentum_buffer"].dtype == torch.float32
    assert torch.equal(found["momentum_buffer"], momentum)
    assert found["momentum_buffer"].data_ptr() != momentum.data_ptr()
    assert torch.equal(found["history"][0], momentum)
    assert loaded.param_groups[0]["lr"] == 0.7
