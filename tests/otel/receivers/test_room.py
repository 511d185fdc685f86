"""Room for requests: it comes back whole, whoever took it and however they leave."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quiver.otel.receivers.room import Budget, Room, Ticket

STEPS = st.lists(
    st.tuples(
        st.integers(0, 5), st.sampled_from(["claim", "give", "begin", "leave"]), st.integers(0, 60)
    ),
    max_size=60,
)


@given(STEPS)
def test_no_more_is_taken_than_there_is_and_all_comes_back(steps) -> None:
    room = Room(2, 100)
    tickets = [Ticket(room) for _ in range(6)]
    held, working = [0] * 6, [False] * 6
    for who, act, size in steps:
        ticket = tickets[who]
        if act == "claim":
            fits = sum(held) + size <= 100
            assert ticket.claim(size) == (fits or size == 0)
            held[who] += size if fits else 0
        elif act == "give":
            ticket.give_back(min(size, held[who]))
            held[who] -= min(size, held[who])
        elif act == "begin":
            working[who] = working[who] or sum(working) < 2
            assert ticket.begin() == working[who]
        else:
            ticket.leave()
            held[who], working[who] = 0, False
        assert (room.held_bytes, room.working) == (sum(held), sum(working))
        assert room.is_full == (sum(working) == 2 or sum(held) == 100)
    for ticket in tickets:
        ticket.leave()
    assert (room.held_bytes, room.working) == (0, 0)


SHARED = st.lists(st.tuples(st.integers(0, 3), st.integers(-40, 60)), max_size=60)


@given(SHARED)
def test_rooms_that_share_a_budget_hold_no_more_than_it_together(steps) -> None:
    budget = Budget(150)
    rooms = [Room(9, 100, budget), Room(9, 100, budget)]
    tickets = [Ticket(rooms[number % 2]) for number in range(4)]
    held = [0] * 4
    for who, size in steps:
        if size < 0:
            tickets[who].give_back(min(-size, held[who]))
            held[who] -= min(-size, held[who])
            continue
        fits = held[who] + held[(who + 2) % 4] + size <= 100 and sum(held) + size <= 150
        assert tickets[who].claim(size) == (fits or size == 0)
        held[who] += size if fits else 0
        assert [room.held_bytes for room in rooms] == [held[0] + held[2], held[1] + held[3]]
        assert budget.held_bytes == sum(held) <= 150
        full = [held[0] + held[2] == 100, held[1] + held[3] == 100]
        assert [room.is_full for room in rooms] == [each or sum(held) == 150 for each in full]
    for ticket in tickets:
        ticket.leave()
    assert budget.held_bytes == 0
