"""All that the page shows, as plain data: what the template only has to lay out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from energyscope.reporting.data.headline import Banner, Metric
from energyscope.reporting.data.method import Fact
from energyscope.reporting.figure import Figure, Table
from energyscope.reporting.laws import head, names, sources
from energyscope.reporting.laws.contrast_figures import contrast_figures
from energyscope.reporting.laws.document import Found, main_group, measured_groups
from energyscope.reporting.laws.efficiency_figures import Block, efficiency_blocks
from energyscope.reporting.laws.findings import (
    contrast_said,
    contrasts_said,
    efficiency_said,
    findings,
    foretold_said,
    sizes_said,
    widest,
)
from energyscope.reporting.laws.held_out_figures import held_out_figure
from energyscope.reporting.laws.law_figures import law_figures
from energyscope.reporting.laws.law_tables import law_table, lawless, overview_table
from energyscope.reporting.laws.law_words import breaks_said, groups_said, held_out_said, law_said, ratio_said
from energyscope.reporting.laws.left_out_sizes import left_out_figures, left_out_said, left_out_table
from energyscope.reporting.laws.overview import overview_figure
from energyscope.reporting.laws.size_figures import SizeBlock, size_blocks
from energyscope.reporting.laws.weak_cells import invalid_shapes

_OPEN = 2  # groups, up to which all stand open
_UNIT = re.compile(r"(?<=\d) (?=(?:%|\u00d7|[\u00b5mpk]?J)(?:\W|$))")


@dataclass(frozen=True)
class GroupPart:
    """A group's place on the page: its name, sentences, charts and table; or why it has no law."""

    anchor: str
    label: str
    said: list[str]
    figures: list[Figure]
    table: Table | None
    lawless: list[str]
    reason: str | None
    held_said: list[str]
    held_figure: Figure | None
    folded: bool


@dataclass(frozen=True)
class LawsPage:
    """The whole page."""

    name: str
    models: list[str]
    modelled: bool
    banners: list[Banner]
    subtitle: str
    headline: list[Metric]
    findings: list[str]
    facts: list[Fact]
    leads: dict[str, str]
    groups: list[GroupPart]
    overview: Figure | None
    overview_table: Table | None
    contrasts: list[Figure]
    contrasts_said: list[str]
    efficiency: list[Block]
    sizes: list[SizeBlock]
    left_out: list[Figure]
    left_out_said: list[str]
    left_out_table: Table | None
    sources: list[sources.Source]
    not_measured: Table
    method: list[str]
    limits: list[str]
    notes: list[str]

    @property
    def figures(self) -> list[Figure]:
        """All charts, in the order of the page."""
        held = [part.held_figure for part in self.groups]
        several = [
            *(figure for part in self.groups for figure in part.figures),
            *self.contrasts,
            *(figure for block in self.efficiency for figure in block.figures),
            *(figure for block in self.sizes for figure in (*block.figures, *block.shares)),
            *self.left_out,
        ]
        return [figure for figure in (self.overview, *several, *held) if figure]


def laws_page(document: Found, folder: Path) -> LawsPage:
    """Lay a laws document out; ``folder`` is where the page will stand, for its links."""
    boards = names.boards(document)
    groups = list(document.get("groups") or ())
    labels = names.labels(groups, boards)
    several = len(measured_groups(document)) > 1
    leads = _leads(document)
    main = main_group(document) or max(groups, key=lambda one: len(one.get("cells") or ()), default=None)
    parts = [
        _part(document, group, labels[index], index, main=group is main) for index, group in enumerate(groups)
    ]
    return LawsPage(
        name=str(document.get("name") or folder.name),
        models=head.models(document),
        modelled=bool(document.get("modelled")),
        banners=head.banners(document),
        subtitle=head.subtitle(document),
        headline=head.metrics(document),
        findings=[bound(one) for one in findings(document)],
        facts=head.facts(document),
        leads=leads,
        groups=parts,
        overview=overview_figure(document, boards) if several else None,
        overview_table=overview_table(groups, labels) if len(groups) > 1 else None,
        contrasts=contrast_figures(document),
        contrasts_said=[one for one in contrasts_said(document) if one != leads["contrasts"]],
        efficiency=efficiency_blocks(document, boards),
        sizes=size_blocks(document, boards),
        left_out=left_out_figures(document),
        left_out_said=left_out_said(document),
        left_out_table=left_out_table(document, boards),
        sources=sources.sources(document, folder, boards),
        not_measured=sources.not_measured(document),
        method=sources.method(document),
        limits=sources.limits(document),
        notes=[str(note) for note in document.get("notes") or ()],
    )


def bound(sentence: str) -> str:
    """Keep a number and its unit on one line."""
    return _UNIT.sub("\u00a0", sentence)


def _leads(document: Found) -> dict[str, str]:
    """Return the sentence at the top of each section, empty where there is nothing to say."""
    group = main_group(document)
    return {
        "law": groups_said(document) or (law_said(document, group, named=False) if group else ""),
        "foretells": foretold_said(document),
        "contrasts": contrast_said(document, widest(document)),
        "efficiency": efficiency_said(document),
        "sizes": sizes_said(document),
    }


def _part(document: Found, group: Found, label: str, index: int, *, main: bool) -> GroupPart:
    place = f"law-{index}"
    several = len(measured_groups(document)) > 1
    said = [law_said(document, group, named=False)] if several else []  # of one group, it leads the section
    said += [ratio_said(document, group, named=False), breaks_said(group)]
    return GroupPart(
        anchor=place,
        label=label,
        said=[sentence for sentence in said if sentence],
        figures=law_figures(group, place, names.energy_word(document), invalid_shapes(document, group)),
        table=law_table(group) if group.get("subjects") else None,
        lawless=lawless(group) if not group.get("reason") else [],
        reason=str(group["reason"]) if group.get("reason") else None,
        held_said=held_out_said(group),
        held_figure=held_out_figure(group, place),
        folded=not main and len(document.get("groups") or ()) > _OPEN,
    )
