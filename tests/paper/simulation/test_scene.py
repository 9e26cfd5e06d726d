from xml.etree import ElementTree as Xml

import mujoco
import numpy as np
import pytest

from taskfree.paper.simulation.scene import TIMESTEP, Scene, panel


def test_a_scene_becomes_a_model_with_light_textures_geoms_and_a_robot():
    scene = Scene("room", light=0.5, headlight=0.25)
    scene.add_texture("bricks", repeat=2.0)
    scene.add_geom(panel((1, 2, 3), (0, 0, 1), "bricks", (4, 5), 0.1))
    robot = Xml.Element("robot")
    body = Xml.SubElement(robot, "body", name="robot")
    Xml.SubElement(body, "joint", name="joint")
    Xml.SubElement(body, "geom", type="sphere", size="0.1")
    motors = Xml.SubElement(robot, "actuator")
    Xml.SubElement(motors, "motor", joint="joint")
    scene.add_robot(robot)
    model = scene.model()
    assert (model.ngeom, model.ntex, model.nu) == (2, 1, 1)
    assert model.opt.timestep == TIMESTEP
    assert model.vis.headlight.ambient == pytest.approx([0.5] * 3)
    assert model.vis.headlight.diffuse == pytest.approx([0.25] * 3)
    assert model.mat_texrepeat[0] == pytest.approx([4, 4]), "per half size"
    assert model.geom_pos[0] == pytest.approx([1, 2, 3])
    assert model.geom_size[0] == pytest.approx([4, 5, 0.1])


@pytest.mark.parametrize("normal", [(1, 0, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1), (0.6, 0.8, 0)])
def test_a_panel_faces_its_normal(normal):
    scene = Scene("room", light=0.5, headlight=0.25)
    scene.add_texture("bricks")
    scene.add_geom(panel((0, 0, 0), normal, "bricks", (1, 1), 0.1))
    model = scene.model()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    assert np.abs(data.geom_xmat[0].reshape(3, 3)[:, 2] @ normal) == pytest.approx(1)
