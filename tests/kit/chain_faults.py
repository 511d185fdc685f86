"""What may fail in a world of ``chain_world``, each as the lot has it."""

from __future__ import annotations

__all__ = ["FAULTS"]


def nothing(world):
    del world


def kill(world):
    machine = world.lot.random.choice(list(world.machines.values()))
    if machine.is_dead:
        machine.start()
    else:
        machine.die()


def power(world):
    machine = world.lot.random.choice(list(world.machines.values()))
    if machine.is_dead:
        machine.start()
    else:
        machine.lose_power()


def kill_at_an_act(world, *, is_cabled=True):
    machine = world.lot.random.choice(list(world.machines.values()))
    if machine.is_dead:
        machine.start()
    else:
        machine.disk.fail(machine.disk.act_count + world.lot.random.randrange(12), error="kill")
        machine.is_cabled = is_cabled


def power_at_an_act(world):
    kill_at_an_act(world, is_cabled=False)


def refuse(world):
    machine = world.lot.random.choice(list(world.machines.values()))
    kind = world.lot.random.choice(["EIO", "ENOSPC", "short"])
    machine.disk.fail(machine.disk.act_count + world.lot.random.randrange(12), error=kind)


def cut(world):
    if world.cut:
        world.cut.clear()
    else:
        one, other = world.lot.random.sample(
            [*world.machines, *{loader.client.name: 0 for loader in world.loaders}], 2
        )
        world.cut_link(one, other)


def lose(world):
    world.lost, world.late = world.lot.random.choice([(0.0, 0.0), (0.2, 0.0), (0.1, 0.2)])


def away(world):
    world.metadata.is_away = not world.metadata.is_away


FAULTS = {
    "none": [nothing],
    "kills": [kill, nothing],
    "power": [power, nothing],
    "kills at an act": [kill_at_an_act, kill, nothing],
    "power at an act": [power_at_an_act, power_at_an_act, nothing],
    "disks that refuse": [refuse, nothing, kill],
    "links": [cut, nothing],
    "answers": [lose, nothing],
    "metadata": [away, nothing],
    "all": [kill, power, kill_at_an_act, power_at_an_act, refuse, cut, lose, away, nothing],
}
