"""Drawings of models: systems with customers away, states and their jumps, who returns when.

Each function draws on axes that it makes, in units of a box, and returns them, so that a chapter
can add what is its own.
"""

import matplotlib.pyplot as plt

from derivations.pages.figures import PALETTE

FONT = 10


def canvas(width, height, scale=0.8):
    """Return empty axes ``width`` by ``height`` units, each ``scale`` inches."""
    _, axes = plt.subplots(figsize=(width * scale, height * scale))
    axes.set(xlim=(0, width), ylim=(0, height), aspect="equal")
    axes.set_axis_off()
    return axes


def arrow(axes, start, end, label="", bend=0.0, away=(0.0, 0.2), color="#000000"):
    """Draw an arrow from ``start`` to ``end``, bent to the right by ``bend`` of its length.

    The label stands at the middle of the arrow, moved by ``away``.
    """
    style = {
        "arrowstyle": "-|>",
        "color": color,
        "linewidth": 1.2,
        "shrinkA": 0,
        "shrinkB": 0,
        "connectionstyle": f"arc3,rad={bend}",
    }
    axes.annotate("", end, start, arrowprops=style)
    (x, y), (to_x, to_y) = start, end
    # The middle of the curve lies half as far from the chord as its control point.
    middle = (
        (x + to_x + bend * (to_y - y)) / 2 + away[0],
        (y + to_y - bend * (to_x - x)) / 2 + away[1],
    )
    axes.text(*middle, label, ha="center", va="center", fontsize=FONT, color=color)


def words(axes, x, y, text, **how):
    """Write ``text`` around a point."""
    axes.text(x, y, text, **({"ha": "center", "va": "center", "fontsize": FONT} | how))


def circle(axes, x, y, label="", radius=0.3, filled=False):
    """Draw a state or a server."""
    if filled:
        colour = PALETTE["sky"]
        axes.add_patch(plt.Circle((x, y), radius, facecolor=colour, alpha=0.5))
    axes.add_patch(plt.Circle((x, y), radius, fill=False))
    words(axes, x, y, label)


def states(places, jumps, width, height, radius=0.36, scale=0.8):
    """Draw a Markov chain.

    Parameters
    ----------
    places : mapping
        The label of each state to the centre of its circle.
    jumps : sequence of (from, to, label, away)
        Labels of two states, what stands at the arrow and by how much it is moved. Arrows between
        the same two states, one each way, are bent apart.
    width, height : float
        Of the drawing.
    """
    axes = canvas(width, height, scale)
    for label, (x, y) in places.items():
        circle(axes, x, y, label, radius)
    pairs = {(start, end) for start, end, *_ in jumps}
    for start, end, label, away in jumps:
        (x, y), (to_x, to_y) = places[start], places[end]
        length = ((to_x - x) ** 2 + (to_y - y) ** 2) ** 0.5
        along = ((to_x - x) / length, (to_y - y) / length)
        aside = 0.12 if (end, start) in pairs else 0.0
        shift = (along[1] * aside, -along[0] * aside)
        near = (radius**2 - aside**2) ** 0.5
        arrow(
            axes,
            (x + shift[0] + near * along[0], y + shift[1] + near * along[1]),
            (to_x + shift[0] - near * along[0], to_y + shift[1] - near * along[1]),
            label,
            0.0,
            away,
        )
    return axes


def system_with_deferrals(servers, away, returns, lost="all busy,\nno slot left"):
    """Draw a loss system some of whose blocked customers come back.

    ``servers`` and ``away`` say how many there are, ``returns`` when the customers away return.
    """
    axes = canvas(9, 4.4, 0.72)
    arrow(axes, (0.1, 3.4), (2.4, 3.4), r"arrivals, rate $\lambda$")
    axes.add_patch(plt.Rectangle((2.4, 2.8), 3.2, 1.2, fill=False))
    for place in range(4):
        circle(axes, 2.9 + 0.73 * place, 3.4, filled=place < 3)
    words(axes, 4, 4.2, servers)
    arrow(axes, (5.6, 3.4), (7.6, 3.4), r"served, rate $\mu$ each", away=(0.35, 0.25))
    axes.add_patch(plt.Rectangle((2.4, 0.4), 3.2, 0.8, linestyle=":", fill=False))
    for place in range(2):
        circle(axes, 3.3 + 1.4 * place, 0.8, radius=0.22, filled=True)
    words(axes, 4, 0.15, away)
    arrow(axes, (3.0, 2.8), (3.0, 1.2), "all busy", away=(-0.75, 0.0))
    arrow(axes, (5.0, 1.2), (5.0, 2.8), returns, away=(1.3, 0.0))
    arrow(axes, (1.2, 3.3), (1.2, 1.5), color=PALETTE["vermilion"])
    words(axes, 1.2, 1.4, "lost:\n" + lost, color=PALETTE["vermilion"], va="top")
    return axes


def many_servers(
    servers="$s$ servers",
    admitted=None,
    refused="turned away",
    waiting="in order of arrival",
    abandons=None,
    rests=None,
    arrivals=r"rate $\lambda$",
):
    """Draw a queue before many servers, with what may happen to its customers.

    Parameters
    ----------
    servers, waiting, arrivals : str
        What stands at the servers, the places where customers wait, and the arrivals.
    admitted : str, optional
        Who passes the gate before the queue; there is none by default.
    refused : str
        What becomes of the others.
    abandons : str, optional
        When a waiting customer leaves.
    rests : str, optional
        How long a server rests after a service.
    """
    axes = canvas(10.6, 3.7, 0.64)
    loss = PALETTE["vermilion"]
    entrance = 3.9
    if admitted is None:
        arrow(axes, (0.1, 2), (entrance, 2), arrivals)
    else:
        arrow(axes, (0.1, 2), (1.9, 2), arrivals)
        gate = plt.Polygon([(1.9, 2), (2.3, 2.4), (2.7, 2), (2.3, 1.6)], fill=False)
        axes.add_patch(gate)
        words(axes, 2.3, 2.75, admitted)
        arrow(axes, (2.7, 2), (entrance, 2))
        arrow(axes, (2.3, 1.6), (2.3, 0.75), color=loss)
        words(axes, 2.3, 0.45, refused, color=loss)
    for place in range(4):
        left = entrance + 0.6 * place
        axes.add_patch(plt.Rectangle((left, 1.7), 0.6, 0.6, fill=False))
        if place:
            circle(axes, left + 0.3, 2, radius=0.2, filled=True)
    words(axes, entrance + 1.2, 2.6, waiting)
    if abandons is not None:
        arrow(axes, (entrance + 1.2, 1.7), (entrance + 1.2, 0.75), color=loss)
        words(axes, entrance + 1.2, 0.45, abandons, color=loss)
    arrow(axes, (entrance + 2.4, 2), (7.5, 2))
    for place in range(3):
        circle(
            axes, 7.9, 1.1 + 0.9 * place, radius=0.34, filled=place < 2 or rests is None
        )
    words(axes, 7.9, 3.5, servers)
    arrow(axes, (8.4, 2), (10.4, 2), "served")
    if rests is not None:
        words(axes, 8.3, 0.1, rests)
    return axes


def returns_in_time(arrivals, returns, lost, until, spacing=None):
    """Draw who returns when: a line of time, an arc from each deferral to its return.

    Parameters
    ----------
    arrivals, returns : sequences of float
        When blocked customers are sent away, and when each comes back.
    lost : collection of int
        The places of those who find all servers busy again.
    until : float
        The end of the line, which starts at 0.
    spacing : str, optional
        What stands between one return and the next.
    """
    axes = canvas(until + 0.6, 2.9, 0.72)
    arrow(axes, (0, 1), (until + 0.5, 1), "time", away=(until / 2 + 0.1, 0.25))
    for number, (leaves, back) in enumerate(zip(arrivals, returns, strict=True)):
        accepted = number not in lost
        color = PALETTE["blue"] if accepted else PALETTE["vermilion"]
        arrow(axes, (leaves, 1.08), (back, 1.08), bend=-0.45, color=color)
        axes.plot(leaves, 1, "ko", markersize=5)
        axes.plot(back, 1, "s" if accepted else "X", color=color, markersize=7)
        words(axes, leaves, 0.72, str(number + 1))
    for before, after in zip([arrivals[0], *returns], returns, strict=False):
        if spacing is not None:
            axes.annotate(
                "", (after, 0.4), (before, 0.4), arrowprops={"arrowstyle": "<->"}
            )
            words(axes, (before + after) / 2, 0.18, spacing)
    return axes


def walk_of_idle_servers(services, arrivals, returns, until):
    """Draw the number of idle servers over a phase, which begins at time 0 with a deferral.

    Parameters
    ----------
    services, arrivals, returns : sequences of float
        Times. An arrival or a return takes an idle server; without one an arrival touches
        (another customer is deferred, a dot) and a return is lost (a cross).
    until : float
        The end of the line of time.
    """
    axes = canvas(until + 0.9, 4.3, 0.66)
    arrow(axes, (0, 1), (until + 0.6, 1), "time", away=(until / 2 + 0.25, -0.25))
    arrow(axes, (0, 1), (0, 4.1), "idle $W$", away=(0.6, 1.3))
    kinds = [(services, 1), (arrivals, -1), (returns, -1)]
    events = sorted(
        (at, move, times is returns) for times, move in kinds for at in times
    )
    idle, since, unit = 0, 0.0, 0.6
    touches = [0.0]
    for at, move, comes_back in [*events, (until, 0, False)]:
        height = 1 + unit * idle
        axes.plot([since, at], [height, height], "k-", linewidth=1.6)
        found = idle
        idle = max(idle + move, 0)
        axes.plot([at, at], [height, 1 + unit * idle], "k-", linewidth=1.6)
        if comes_back:
            axes.plot([at, at], [0.75, 4.0], ":", color=PALETTE["blue"], linewidth=1.2)
            mark, color = (
                ("s", PALETTE["blue"]) if found else ("X", PALETTE["vermilion"])
            )
            axes.plot(at, height, mark, color=color, markersize=7)
        elif move < 0 and not found:
            touches.append(at)
        since = at
    axes.plot(touches, [1] * len(touches), "ko", markersize=6, clip_on=False)
    for before, after in zip([0.0, *returns], returns, strict=False):
        axes.annotate("", (after, 0.5), (before, 0.5), arrowprops={"arrowstyle": "<->"})
        words(axes, (before + after) / 2, 0.22, "a stage")
    return axes
