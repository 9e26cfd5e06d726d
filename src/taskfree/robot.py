"""Any robot with a camera and a laser scanner, real or simulated, as a Gymnasium environment.

A robot is anything with `image`, `scan` and `drive`. `RobotEnv` turns it into an environment for
`taskfree.onpolicy.OnPolicy`: it labels each frame by an expert that uses the laser, detects
collisions and recovers from them. `Recorder` writes a log of what a robot saw; `Player` is a robot
that replays one.
"""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save_file

from taskfree._core import validation
from taskfree._core.files import atomic_write

__all__ = ["Action", "Image", "Player", "Recorder", "Robot", "RobotEnv", "Scan", "expert"]

Image: TypeAlias = NDArray[np.uint8]
Scan: TypeAlias = NDArray[np.float64]

SIZE = 128
"""Default height and width of an image, in pixels."""
SPEED, TURN = 0.22, 0.6
"""Metres per second, also in turns; radians per second in a turn."""
NEAR = 0.2
"""Metres: anything closer than this in front is a collision."""
VIEW, FRONT = 140, 60
"""Degrees that the expert looks at, and how many of them are straight ahead."""
BEAMS, MISS = 360, 5.0
"""Beams of a scan, one per degree; metres assumed where a beam met nothing."""


class Action(IntEnum):
    """What the expert and the network choose from.

    >>> list(Action)
    [<Action.LEFT: 0>, <Action.STRAIGHT: 1>, <Action.RIGHT: 2>]
    """

    LEFT = 0
    STRAIGHT = 1
    RIGHT = 2


def expert(scan: Scan, view: int = 100, front: int = 40) -> Action:
    """The expert's action: towards the greatest depth, straight on if all are equal.

    Like the authors' expert, it divides its view of 100 degrees into parts of 30, 40 and 30, takes
    the smallest depth in each, and turns to the part where that is largest. It has no memory.

    Args:
        scan: 360 distances in metres, from straight ahead counter-clockwise.
        view: how many degrees it looks at ...
        front: ... and how many of them are straight ahead.

    >>> free = np.full(360, 5.0)
    >>> expert(free).name
    'STRAIGHT'
    >>> blocked = free.copy()
    >>> blocked[:20] = blocked[-60:] = 0.5
    >>> expert(blocked).name
    'LEFT'
    """
    side, half = (view - front) // 2, front // 2
    ahead = min(scan[:half].min(), scan[-half:].min())
    left, right = scan[half : half + side].min(), scan[-half - side : -half].min()
    if ahead >= max(left, right):
        return Action.STRAIGHT
    return Action.LEFT if left > right else Action.RIGHT


@runtime_checkable
class Robot(Protocol):
    """Frame and scan in, command out: all that your own robot has to implement.

    >>> class Still:
    ...     def image(self):
    ...         return np.zeros((128, 128, 3), np.uint8)
    ...     def scan(self):
    ...         return np.full(360, 2.0)
    ...     def drive(self, speed, turn):
    ...         pass
    >>> isinstance(Still(), Robot)
    True
    """

    def image(self) -> Image:
        """The newest camera image: RGB bytes, [height, width, 3]."""

    def scan(self) -> Scan:
        """The newest scan: 360 distances in metres, from straight ahead counter-clockwise.

        0, inf or nan where a beam met nothing.
        """

    def drive(self, speed: float, turn: float) -> None:
        """Drive for one control step, and return when it is over.

        Metres per second forward, radians per second to the left. A feed that has ended raises
        `EOFError`.
        """


class RobotEnv(gymnasium.Env[NDArray[np.uint8], Any]):
    """A robot observes an image and turns left, drives straight on, or turns right.

    `info` has `scan`, `expert` (the expert's action) and `collision`. After a collision, call
    `recover`, which backs off and turns until the nearest obstacle is behind. An episode ends only
    when the robot's feed does.

    Args:
        robot: has `image`, `scan` and `drive`: see `Robot`.
        size: images are resized to this height and width.
        speed: metres per second, straight on and in turns.
        turn: radians per second in a turn.
        near: metres; anything closer than this in front is a collision.
        render_mode: `"rgb_array"`.

    An example is in `Recorder`.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 5}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(
        self,
        robot: Robot,
        *,
        size: int = SIZE,
        speed: float = SPEED,
        turn: float = TURN,
        near: float = NEAR,
        render_mode: str | None = None,
    ) -> None:
        if not isinstance(robot, Robot):
            raise TypeError(
                f"robot must have image(), scan() and drive(speed, turn), got "
                f"{type(robot).__name__}"
            )
        if render_mode is not None:
            validation.choice("render_mode", render_mode, ("rgb_array",))
        self.robot, self.render_mode = robot, render_mode
        self.size = validation.integer("size", size, least=1)
        self.near = validation.number("near", near, above=0)
        speed = validation.number("speed", speed, above=0)
        turn = validation.number("turn", turn, above=0)
        self.commands = {
            Action.LEFT: (speed, turn),
            Action.STRAIGHT: (speed, 0.0),
            Action.RIGHT: (speed, -turn),
        }
        self.observation_space = spaces.Box(0, 255, (size, size, 3), np.uint8)
        self.action_space = spaces.Discrete(len(Action))
        self._image: Image | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Image, dict[str, Any]]:
        """Start, and observe."""
        super().reset(seed=seed, options=options)
        self._start()
        return self._observe()

    def _start(self) -> None:
        """A robot starts where it is; one with `begin`, like the player of a log, starts over."""
        if (begin := getattr(self.robot, "begin", None)) is not None:
            begin()

    def step(self, action: int) -> tuple[Image, float, bool, bool, dict[str, Any]]:
        """Drive for one control step. The reward of a collision is -1."""
        try:
            self.robot.drive(*self.commands[Action(action)])
            over = False
        except EOFError:
            over = True
        image, info = self._observe()
        return image, -float(info["collision"]), False, over, info

    def recover(self) -> tuple[Image, dict[str, Any]]:
        """After a collision: back off, then turn until the nearest obstacle is behind."""
        turn = 1.0 if self.np_random.integers(2) else -1.0
        try:
            self.robot.drive(-self.commands[Action.STRAIGHT][0], 0.0)
            for _ in range(60):
                scan = self._scan()
                nearest = int(scan.reshape(36, -1).mean(1).argmin())
                if 36 * 3 // 8 <= nearest < 36 * 5 // 8 and not self._touches(scan):
                    break
                self.robot.drive(0.0, turn)  # on the spot
        except EOFError:
            pass  # the next step reports it
        return self._observe()

    def _scan(self) -> Scan:
        scan = np.asarray(self.robot.scan(), dtype=np.float64)
        if scan.shape != (BEAMS,):
            raise ValueError(
                f"scan() must return {BEAMS} distances, one per degree from straight ahead "
                f"counter-clockwise, got shape {scan.shape}; for another scanner, use numpy.interp"
            )
        return np.where(np.isfinite(scan) & (scan > 0), scan, MISS)

    def _observe(self) -> tuple[Image, dict[str, Any]]:
        self._image = self._resized(np.asarray(self.robot.image()))
        scan = self._scan()
        return self._image, {
            "scan": scan,
            "expert": int(expert(scan, VIEW, FRONT)),
            "collision": self._touches(scan),
        }

    def _resized(self, image: Image) -> Image:
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
            raise ValueError(
                f"image() must return bytes, [height, width, 3], got {image.dtype} of shape "
                f"{image.shape}"
            )
        if image.shape[:2] == (self.size, self.size):
            return image.copy()  # a robot may reuse its array
        from PIL import Image as Pillow

        return np.asarray(Pillow.fromarray(image).resize((self.size, self.size)))

    def _touches(self, scan: Scan) -> bool:
        """Whether something is near in front: the smallest mean of four beams within 45 degrees."""
        front = np.concatenate([scan[-44:], scan[:44]]).reshape(-1, 4).mean(1)
        return bool(front.min() < self.near)

    def render(self) -> Any:
        """The camera image."""
        return self._image


class Recorder:
    """Wraps a robot and records its images, scans and commands in memory.

    Args:
        robot: the robot that drives.

    >>> class Still:
    ...     def image(self):
    ...         return np.zeros((128, 128, 3), np.uint8)
    ...     def scan(self):
    ...         return np.full(360, 2.0)
    ...     def drive(self, speed, turn):
    ...         pass
    >>> recorder = Recorder(Still())
    >>> env = RobotEnv(recorder)
    >>> _, info = env.reset()
    >>> for action in (0, 1, 1):
    ...     _ = env.step(action)
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     recorder.save(f"{folder}/log")
    ...     len(Player(f"{folder}/log"))
    3
    """

    def __init__(self, robot: Robot) -> None:
        self.robot = robot
        self._images: list[Image] = []
        self._scans: list[Scan] = []
        self._commands: list[tuple[float, float]] = []

    def image(self) -> Image:
        """The robot's image; the same until it has driven on."""
        if len(self._images) == len(self._commands):
            self._images.append(np.array(self.robot.image()))
        return self._images[-1]

    def scan(self) -> Scan:
        """The robot's scan; the same until it has driven on."""
        if len(self._scans) == len(self._commands):
            self._scans.append(np.array(self.robot.scan(), dtype=np.float64))
        return self._scans[-1]

    def drive(self, speed: float, turn: float) -> None:
        """Drive, and record the command."""
        self.image()
        self.scan()
        self.robot.drive(speed, turn)
        self._commands.append((speed, turn))

    def save(self, file: str | Path) -> None:
        """Write the log: one image, scan and command per control step."""
        if not self._commands:
            raise ValueError("there is nothing to save: the robot has not driven yet")
        self.image()  # what the last command led to
        self.scan()
        content: dict[str, NDArray[Any]] = {
            "images": np.stack(self._images),
            "scans": np.stack(self._scans),
            "commands": np.array(self._commands),
        }
        with atomic_write(Path(file)) as unfinished:
            save_file(content, unfinished)


class Player:
    """A robot that replays a log: it sees what was recorded, wherever it is told to drive.

    `given` holds the commands it got, to compare with those of the log in `commands`. An example is
    in `Recorder`.

    Args:
        file: the log that a `Recorder` saved.
    """

    def __init__(self, file: str | Path) -> None:
        with safe_open(str(file), "np") as log:
            names = ("images", "scans", "commands")
            if missing := [name for name in names if name not in log.keys()]:  # noqa: SIM118 - it has no __contains__
                raise ValueError(f"{file} is not a robot's log: it has no {', '.join(missing)}")
            self._images: NDArray[np.uint8] = log.get_tensor("images")
            self._scans: NDArray[np.float64] = log.get_tensor("scans")
            self.commands: NDArray[np.float64] = log.get_tensor("commands")
        self.begin()

    def __len__(self) -> int:
        return len(self.commands)

    def begin(self) -> None:
        """Go back to the start of the log."""
        self.given: list[tuple[float, float]] = []

    def image(self) -> Image:
        """The image at this point of the log."""
        image: Image = self._images[len(self.given)]
        return image

    def scan(self) -> Scan:
        """The scan at this point of the log."""
        scan: Scan = self._scans[len(self.given)]
        return scan

    def drive(self, speed: float, turn: float) -> None:
        """Advance by one control step."""
        if len(self.given) == len(self):
            raise EOFError("the log has ended")
        self.given.append((speed, turn))
