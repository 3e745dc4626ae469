"""`armswing topic pub` on a live launch: what it says of itself, and how it ends."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

TOPIC = "rotary_pendulum/command"


@pytest.fixture
def server(ground: Any) -> Iterator[Any]:
    """A launch of the simulation server alone."""
    launch = ground.start("launch", ground.launch_file())
    ground.wait_until_running(launch, 1)
    yield launch
    if launch.poll() is None:
        launch.send_signal(signal.SIGINT)
        launch.wait(10.0)


def test_it_says_what_it_says_and_ends_in_one_line_with_the_launch(ground: Any, server: Any) -> None:
    speaker = ground.start("topic", "pub", "rotary_pendulum/cmd_vel", '{"linear": [0.0, 0.2, 0.0]}', "--rate", "20")
    assert speaker.stdout.readline() == (
        'rotary_pendulum/cmd_vel: Twist {"linear":[0.0,0.2,0.0]} at 20 Hz until Ctrl-C; no node subscribes\n'
    )
    server.send_signal(signal.SIGINT)
    out, err = speaker.communicate(timeout=20.0)
    assert (speaker.returncode, out) == (1, "")
    assert err.startswith("armswing: the launch in domain 0 has ended, after ")
    assert err.count("\n") == 1


def test_a_position_that_no_servo_can_follow_is_refused_once_to_the_sender(ground: Any, server: Any) -> None:
    """Without -n it would go on until Ctrl-C: the refusal ends it."""
    done = ground.run("topic", "pub", TOPIC, '{"mode": "position", "name": ["arm"], "value": [0.1]}')
    assert done.returncode == 1
    assert done.stdout.endswith(" at 50 Hz until Ctrl-C; sim subscribes\n")
    assert done.stderr == (
        "armswing: the simulation rejects 'rotary_pendulum/command': mode 'position': actuator 'arm' of "
        "'rotary_pendulum' has no servo gains; use mode 'effort'\n"
    )


def test_a_command_that_is_followed_is_counted(ground: Any, server: Any) -> None:
    done = ground.run("topic", "pub", TOPIC, '{"name": ["arm"], "value": [0.001]}', "-n", "3")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        'rotary_pendulum/command: JointCommand {"name":["arm"],"value":[0.001]} at 50 Hz 3 times; sim subscribes\n'
        "published 3 messages on rotary_pendulum/command\n"
    )


def test_a_command_for_no_actuator_is_refused_with_its_name(ground: Any, server: Any) -> None:
    done = ground.run("topic", "pub", TOPIC, '{"name": ["amr"], "value": [0.01]}', "-n", "2")
    assert done.returncode == 1
    assert "'rotary_pendulum' has no actuator 'amr'; its actuators are arm" in done.stderr
