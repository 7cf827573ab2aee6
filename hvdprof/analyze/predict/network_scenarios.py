"""The networks between hosts under which a forecast is made.

A run on one host says nothing on the network between hosts, so its forecasts are for stated speeds,
one band each.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hvdprof.analyze.predict.cost_draws import CostDraws
from hvdprof.analyze.predict.link_text import StatedLink, parse_intra, parse_link
from hvdprof.analyze.predict.stated_links import SCENARIOS, with_intra, with_network
from hvdprof.model.forecast import MEASURED


@dataclass(frozen=True, slots=True)
class Scenario:
    """A network by its name in tables; a link that is None is that of the run.

    ``intra_is_measured`` says whether the links inside a host were measured.
    """

    name: str
    inter: StatedLink | None = None
    intra: StatedLink | None = None
    intra_is_measured: bool = False

    def __call__(self, costs: CostDraws, rng: np.random.Generator) -> CostDraws:
        """Costs on these links, draw by draw."""
        if self.intra is not None:
            costs = with_intra(costs, self.intra, rng)
        if self.inter is None:
            return costs
        is_measured = self.intra_is_measured and self.intra is None
        return with_network(costs, self.inter, rng, intra_is_measured=is_measured)


@dataclass(frozen=True, slots=True)
class KnownLinks:
    """Which links the run holds."""

    intra: bool = False
    inter: bool = False


def scenarios(
    links: Sequence[str], intra: str, known: KnownLinks, *, is_one_host: bool
) -> tuple[Scenario, ...]:
    """The scenarios of a question.

    Args:
        links: Stated links between hosts.
        intra: Stated link inside a host, or empty.
        known: What the run holds.
        is_one_host: Whether all predicted sizes fit on one host.

    Raises:
        UsageError: A link cannot be parsed.
    """
    inside = parse_intra(intra) if intra else None
    if not links and (known.inter or is_one_host):
        return (Scenario(MEASURED, None, inside, known.intra),)
    stated = tuple(parse_link(text) for text in links) or SCENARIOS
    return tuple(Scenario(link.text, link, inside, known.intra) for link in stated)
