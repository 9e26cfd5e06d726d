"""Any robot with a camera and a laser, simulated or real, as a Gymnasium environment.

A robot is whatever has `picture`, `scan` and `drive`. `RobotEnv` makes an environment of it that
`taskfree.onpolicy.OnPolicy` can learn with: it labels what is seen by the laser's expert, and knows
a collision and how to get free of it. `Recorder` keeps what a robot saw in a log; `Player` is a
robot that plays one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save_file

from taskfree import arguments
from taskfree.robots.camera import SIZE
from taskfree.robots.laser import BEAMS, MISS, Action, expert
from taskfree.robots.textures import Picture

__all__ = ["Player", "Recorder", "Robot", "RobotEnv", "Scan"]

Scan = NDArray[np.float64]

SPEED, TURN = 0.22, 0.6
"""Metres a second, in turns too; radians a second in a turn."""
NEAR = 0.2
"""Metres: what is nearer than this in front is a collision."""
VIEW, FRONT = 140, 60
"""Degrees that the expert looks at, and how much of that is straight ahead."""


@runtime_checkable
class Robot(Protocol):
    """Frame and scan in, command out. This is all that a robot of your own has to do."""

    def picture(self) -> Picture:
        """The newest picture of the camera: bytes, [height, width, 3], red first."""

    def scan(self) -> Scan:
        """The newest scan: 360 distances in metres, from straight ahead to the left.

        Where a beam met nothing: 0, inf or nan, as scanners say it.
        """

    def drive(self, speed: float, turn: float) -> None:
        """Drive for one control step, and return when it is over.

        Metres a second forward, radians a second to the left. A feed that has come to its end
        raises `EOFError`.
        """


class RobotEnv(gymnasium.Env[NDArray[np.uint8], Any]):
    """A robot sees a picture and turns left, drives on, or turns right.

    `info` has `scan`, `expert` (what the laser's expert would do now) and `collision`. After a
    collision call `recover`, which backs off and turns until what was nearest is behind. An episode
    ends only where the robot's feed does.

    Args:
        robot: has `picture`, `scan` and `drive`: see `Robot`.
        size: pictures of another size are made so many pixels high and wide.
        speed: metres a second, straight on and in turns.
        turn: radians a second in a turn.
        near: metres; what is nearer than this in front is a collision.
        render_mode: `"rgb_array"`.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 5}  # noqa: RUF012

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
                f"robot must have picture(), scan() and drive(speed, turn), got "
                f"{type(robot).__name__}"
            )
        if render_mode is not None:
            arguments.one_of("render_mode", render_mode, ("rgb_array",))
        self.robot, self.render_mode = robot, render_mode
        self.size = arguments.whole("size", size, least=1)
        self.near = arguments.number("near", near, above=0)
        speed = arguments.number("speed", speed, above=0)
        turn = arguments.number("turn", turn, above=0)
        self.commands = {
            Action.LEFT: (speed, turn),
            Action.STRAIGHT: (speed, 0.0),
            Action.RIGHT: (speed, -turn),
        }
        self.observation_space = spaces.Box(0, 255, (size, size, 3), np.uint8)
        self.action_space = spaces.Discrete(len(Action))
        self._picture: Picture | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Picture, dict[str, Any]]:
        """Begin, and look."""
        super().reset(seed=seed, options=options)
        self._begin()
        return self._look()

    def _begin(self) -> None:
        """A robot begins where it is; one that can `begin` again, like a log's player, does."""
        if (begin := getattr(self.robot, "begin", None)) is not None:
            begin()

    def step(self, action: int) -> tuple[Picture, float, bool, bool, dict[str, Any]]:
        """Drive for a control step. The reward of a collision is -1."""
        try:
            self.robot.drive(*self.commands[Action(action)])
            over = False
        except EOFError:
            over = True
        picture, info = self._look()
        return picture, -float(info["collision"]), False, over, info

    def recover(self) -> tuple[Picture, dict[str, Any]]:
        """After a collision: back a little, then turn until what is nearest is behind."""
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
            pass  # the next step says so
        return self._look()

    def _scan(self) -> Scan:
        scan = np.asarray(self.robot.scan(), dtype=np.float64)
        if scan.shape != (BEAMS,):
            raise ValueError(
                f"scan() must give {BEAMS} distances, one a degree from straight ahead to the "
                f"left, got shape {scan.shape}; for another scanner, use numpy.interp"
            )
        return np.where(np.isfinite(scan) & (scan > 0), scan, MISS)

    def _look(self) -> tuple[Picture, dict[str, Any]]:
        self._picture = self._sized(np.asarray(self.robot.picture()))
        scan = self._scan()
        return self._picture, {
            "scan": scan,
            "expert": int(expert(scan, VIEW, FRONT)),
            "collision": self._touches(scan),
        }

    def _sized(self, picture: Picture) -> Picture:
        if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3:
            raise ValueError(
                f"picture() must give bytes, [height, width, 3], got {picture.dtype} of shape "
                f"{picture.shape}"
            )
        if picture.shape[:2] == (self.size, self.size):
            return picture.copy()  # it is the caller's; a robot may write to its own again
        from PIL import Image

        return np.asarray(Image.fromarray(picture).resize((self.size, self.size)))

    def _touches(self, scan: Scan) -> bool:
        """Whether something is near in front: the least mean of four beams within 45 degrees."""
        front = np.concatenate([scan[-44:], scan[:44]]).reshape(-1, 4).mean(1)
        return bool(front.min() < self.near)

    def render(self) -> Any:
        """The picture of the camera."""
        return self._picture


# Logs


class Recorder:
    """A robot that keeps what another one saw and was told, in memory, to be played again.

    Args:
        robot: the one that drives.

    >>> class Still:
    ...     def picture(self):
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
        self._pictures: list[Picture] = []
        self._scans: list[Scan] = []
        self._commands: list[tuple[float, float]] = []

    def picture(self) -> Picture:
        """What the robot sees; the same until it has driven on."""
        if len(self._pictures) == len(self._commands):
            self._pictures.append(np.array(self.robot.picture()))
        return self._pictures[-1]

    def scan(self) -> Scan:
        """The robot's scan; the same until it has driven on."""
        if len(self._scans) == len(self._commands):
            self._scans.append(np.array(self.robot.scan(), dtype=np.float64))
        return self._scans[-1]

    def drive(self, speed: float, turn: float) -> None:
        """Drive, and remember the command."""
        self.picture()
        self.scan()
        self.robot.drive(speed, turn)
        self._commands.append((speed, turn))

    def save(self, file: str | Path) -> None:
        """Write the log: pictures, scans and commands, one of each a control step."""
        if not self._commands:
            raise ValueError("there is nothing to save: the robot has not driven yet")
        self.picture()  # what the last command led to
        self.scan()
        save_file(
            {
                "pictures": np.stack(self._pictures),
                "scans": np.stack(self._scans),
                "commands": np.array(self._commands),
            },
            file,
        )


class Player:
    """A robot that plays a log: it sees what was seen, wherever it is told to drive.

    `given` holds the commands it was told, to be compared with those of the log in `commands`.

    Args:
        file: the log that a `Recorder` saved.
    """

    def __init__(self, file: str | Path) -> None:
        with safe_open(str(file), "np") as log:
            names = ("pictures", "scans", "commands")
            if missing := [name for name in names if name not in log.keys()]:  # noqa: SIM118
                raise ValueError(f"{file} is not a robot's log: it has no {', '.join(missing)}")
            self._pictures: NDArray[np.uint8] = log.get_tensor("pictures")
            self._scans: NDArray[np.float64] = log.get_tensor("scans")
            self.commands: NDArray[np.float64] = log.get_tensor("commands")
        self.begin()

    def __len__(self) -> int:
        return len(self.commands)

    def begin(self) -> None:
        """Go back to the log's beginning."""
        self.given: list[tuple[float, float]] = []

    def picture(self) -> Picture:
        """What was seen at this moment."""
        picture: Picture = self._pictures[len(self.given)]
        return picture

    def scan(self) -> Scan:
        """What the laser said at this moment."""
        scan: Scan = self._scans[len(self.given)]
        return scan

    def drive(self, speed: float, turn: float) -> None:
        """Go on to the next moment."""
        if len(self.given) == len(self):
            raise EOFError("the log has come to its end")
        self.given.append((speed, turn))
