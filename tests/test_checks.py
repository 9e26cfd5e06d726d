"""Every component meets its contract, and the checks find each way to break one."""

import math

import pytest
import torch

from taskfree import checks
from taskfree._core import batch
from taskfree.checks import triggers
from taskfree.how import MAS, Teacher
from taskfree.when import Every, Plateau
from taskfree.which import Hardest, Recent, Reservoir

COMPONENTS = checks.components()


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda component: component.name)
def test_every_component_meets_its_contract(component):
    component.check(component.make)


def test_no_component_is_left_out():
    names = {component.name.split("(")[0] for component in COMPONENTS}
    assert names == {
        "Plateau", "RelativePlateau", "Settled", "At", "Every", "Never", "Hardest", "ClassBalanced",
        "Recent", "Reservoir", "MAS", "Teacher",
    }  # fmt: skip
    assert len(COMPONENTS) == 6 + 4 + 2 + 2 + 6 + 36 + 1


def plateau():
    return Plateau(window=5, mean=0.5, variance=0.1)


class AnswersNothing(Plateau):
    def update(self, loss):
        return super().update(loss) or "nothing"


class Always(Plateau):
    def update(self, loss):
        super().update(loss)
        return "plateau"


class ForgetsToArm(Plateau):
    def update(self, loss):
        decision = super().update(loss)
        if decision == "peak":
            self.armed = False
        return decision


class Random(Every):
    def update(self, loss):
        return "plateau" if torch.rand(1) < 0.5 else None


class Grows(Every):
    def __init__(self, n):
        super().__init__(n)
        self.all = []

    def update(self, loss):
        self.all = [*self.all, loss]
        return super().update(loss)

    def state_dict(self):
        return super().state_dict() | {"all": torch.tensor(self.all, dtype=torch.float64)}

    def load_state_dict(self, state):
        super().load_state_dict(state)
        self.all = state["all"].tolist()


class ForgetsTheWindow(Plateau):
    def load_state_dict(self, state):
        super().load_state_dict(state)
        self.window = ()


class ChangesInPlace(Every):
    def __init__(self, n):
        super().__init__(n)
        self.count = torch.zeros(1)

    def update(self, loss):
        self.count += 1
        return super().update(loss)

    def state_dict(self):
        return super().state_dict() | {"count": self.count}

    def load_state_dict(self, state):
        super().load_state_dict(state)
        self.count = state["count"].clone()


class SavesNumbers(Every):
    def state_dict(self):
        return {"since": self.since}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: AnswersNothing(5, 0.5, 0.1),
            "must answer 'plateau', 'peak' or None, got 'nothing'",
        ),
        (lambda: Always(5, 0.5, 0.1), "only an armed trigger"),
        (lambda: ForgetsToArm(5, 0.5, 0.1), "a peak must leave the trigger armed"),
        (lambda: Random(3), "two new triggers must decide alike"),
        (lambda: Grows(3), "must not grow"),
        (lambda: ForgetsTheWindow(5, 0.5, 0.1), "a loaded state must be what was saved"),
        (lambda: ChangesInPlace(3), "must be replaced, not changed in place"),
        (lambda: SavesNumbers(3), "state_dict must map names to tensors, got 'since': int"),
    ],
)
def test_a_broken_trigger_is_found(make, message):
    with pytest.raises(AssertionError, match=message):
        checks.check_trigger(make)


class Overflows(Hardest):
    def update(self, losses):
        self.capacity += 1
        super().update(losses)
        self.capacity -= 1


class Doubles(Hardest):
    def update(self, losses):
        super().update(losses)
        for rows in (self._inputs, self._targets):
            for column in batch.tensors(rows):
                column[: len(self)] = column[:1].clone()


class MixesTargets(Hardest):
    def update(self, losses):
        super().update(losses)
        held = self._targets[: len(self)]
        held.copy_(held.roll(1))


class KeepsOldLosses(Recent):
    def update(self, losses):
        old = self.losses
        super().update(torch.cat([old, losses[len(old) :]]))


class Borrows(Recent):
    """Holds the caller's tensors instead of copies."""

    def join(self, inputs, targets):
        joint = super().join(inputs, targets)
        if len(self) == 0:
            self._inputs, self._targets = inputs, targets
        return joint


class NewFirst(Recent):
    def join(self, inputs, targets):
        joint = super().join(inputs, targets)
        return tuple(batch.apply(lambda column: column.flip(0), part) for part in joint)


class AcceptsAnything(Recent):
    def check(self, inputs, targets):
        pass


class LosesItsGenerator(Reservoir):
    def load_state_dict(self, state):
        super().load_state_dict(state)
        self._generator = torch.Generator().manual_seed(7).get_state()


class RemembersTheWrongRows(Reservoir):
    def remember(self, outputs, time):
        super().remember([part.flip(0) for part in outputs], time)


class ForgetsWhatWasSaid(Reservoir):
    def load_state_dict(self, state):
        super().load_state_dict(state)
        self._outputs = None


class SaysItIsNew(Reservoir):
    def recall(self, time):
        recalled = super().recall(time)
        return recalled._replace(ages=torch.zeros(recalled.here))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Overflows(7), "must hold 1 to `capacity` samples"),
        (lambda: Doubles(7), "must not hold a sample twice"),
        (lambda: MixesTargets(7), "keep inputs and targets together"),
        (lambda: KeepsOldLosses(7), "take over the fresh losses"),
        (lambda: Borrows(7), "each once, followed by the new ones"),
        (
            lambda: NewFirst(7),
            "join and redraw must give held samples, each once, followed by the new",
        ),
        (lambda: AcceptsAnything(7), "check must refuse"),
        (lambda: LosesItsGenerator(7), "a loaded state must be what was saved"),
        (lambda: RemembersTheWrongRows(7), "what was remembered of each sample"),
        (lambda: ForgetsWhatWasSaid(7), "a loaded state must be what was saved|the age of what"),
        (lambda: SaysItIsNew(7), "the age of what is remembered"),
    ],
)
def test_a_broken_buffer_is_found(make, message):
    with pytest.raises(AssertionError, match=message):
        checks.check_buffer(make)


class AnchorsByReference(MAS):
    def consolidate(self, model, inputs):
        super().consolidate(model, inputs)
        self.anchor = {name: value.detach() for name, value in model.named_parameters() if value.requires_grad}  # fmt: skip


class HoldsFrozen(MAS):
    def consolidate(self, model, inputs):
        super().consolidate(model, inputs)
        for name, value in model.named_parameters():
            self.importance.setdefault(name, torch.ones_like(value))


class LeavesEval(MAS):
    def consolidate(self, model, inputs):
        super().consolidate(model, inputs)
        model.eval()


class MovesTheModel(MAS):
    def consolidate(self, model, inputs):
        model(inputs)
        super().consolidate(model, inputs)


class PushesAway(MAS):
    def after_step(self, model, optimizer):
        self.strength = -abs(self.strength)
        super().after_step(model, optimizer)


class ForgetsTheCount(MAS):
    def load_state_dict(self, state):
        super().load_state_dict(state)
        self.consolidations = 0


class Negative(MAS):
    def consolidate(self, model, inputs):
        super().consolidate(model, inputs)
        for value in self.importance.values():
            value.neg_()


class PullsNewSamples(Teacher):
    def before_backward(self, outputs, losses, recalled):
        outputs.register_hook(lambda gradient: gradient + 1)
        return super().before_backward(outputs, losses, recalled)


class PullsWhatItDoesNotKnow(Teacher):
    def before_backward(self, outputs, losses, recalled):
        ages = recalled.ages.clamp(max=100)
        return super().before_backward(outputs, losses, recalled._replace(ages=ages))


class PushesOutputsAway(Teacher):
    def _pull(self, number):
        return -super()._pull(number)


class ForgetsTheScales(Teacher):
    def state_dict(self):
        return super().state_dict() | {"scales": torch.zeros(0, dtype=torch.float64)}


class MovesTheStudent(Teacher):
    def after_time_step(self, model, loss, buffer_loss):
        super().after_time_step(model, loss, buffer_loss)
        with torch.no_grad():
            next(model.parameters()).add_(1)


class DoesNothing(Teacher):
    def before_backward(self, outputs, losses, recalled):
        return None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (PullsNewSamples, "only the outputs of replayed samples"),
        (PullsWhatItDoesNotKnow, "of what is not remembered nothing is held"),
        (PushesOutputsAway, "pulled towards what is remembered"),
        (ForgetsTheScales, "must continue alike"),
        (MovesTheStudent, "must leave the model as it is"),
        (DoesNothing, "must hold parameters or outputs"),
        (lambda: AnchorsByReference(1.0), "the anchor must be a copy"),
        (lambda: HoldsFrozen(1.0), "frozen ones are not"),
        (lambda: LeavesEval(1.0), "must keep the mode"),
        (lambda: MovesTheModel(1.0), "must leave the model as it is"),
        (lambda: PushesAway(1.0), "the penalty must go back towards it"),
        (lambda: ForgetsTheCount(1.0), "a loaded state must be what was saved"),
        (lambda: Negative(1.0), "importance must be 0 or more"),
        (lambda: MAS(0.0), "the penalty must go back towards it"),
    ],
)
def test_a_broken_regularizer_is_found(make, message):
    with pytest.raises(AssertionError, match=message):
        checks.check_regularizer(make)


def test_a_long_window_meets_the_contract():
    checks.check_trigger(lambda: Plateau(window=150, mean=0.5, variance=0.1))


def test_checks_do_not_change_the_random_generator():
    before = torch.get_rng_state()
    checks.check_regularizer(lambda: MAS(1.0))
    assert torch.equal(before, torch.get_rng_state())


def test_the_losses_of_the_trigger_check_find_plateaus_and_peaks():
    trigger = plateau()
    decisions = [trigger.update(loss) for loss in triggers._losses(300)]
    assert {"plateau", "peak"} < set(decisions)
    assert not any(math.isnan(loss) for loss in triggers._losses(300))
