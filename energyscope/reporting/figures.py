"""Every chart of a run with its title, its caption and the numbers behind it.

The report shows them side by side; written to files they are the figures.
"""

from __future__ import annotations

from dataclasses import replace

from energyscope.reporting.benchmark_figures import benchmark_figures
from energyscope.reporting.choices_figures import choices_figures
from energyscope.reporting.correlation_figures import correlation_figures
from energyscope.reporting.data import ReportData
from energyscope.reporting.data.scenes import SceneData
from energyscope.reporting.energy_figures import energy_figures, joules, scene_energy_figures
from energyscope.reporting.figure import Figure
from energyscope.reporting.generation_figures import generation_figures
from energyscope.reporting.impact_figures import impact_figures
from energyscope.reporting.launching_figures import launching_figures
from energyscope.reporting.scaling_figures import scaling_figures
from energyscope.reporting.scene_figures import growth_figure, intensity_figure
from energyscope.reporting.trust_figures import trust_figures


def figures(data: ReportData) -> list[Figure]:
    """Draw every chart for which the run has data, in the order of the report."""
    return [
        *benchmark_figures(data.benchmark),
        *generation_figures(data.generation),
        *energy_figures(data),
        *(figure for scene in data.further for figure in _of_scene(scene)),
        *launching_figures(data.launching, joules(data)),
        *_over_scenes(data),
        *scaling_figures(data.scaling),
        *choices_figures(data.choices),
        *impact_figures(data.impact),
        *correlation_figures(data.correlation, joules(data)),
        *trust_figures(data.trust, joules(data)),
    ]


def _of_scene(scene: SceneData) -> list[Figure]:
    """Draw a moment after the first, in its own section."""
    return [
        replace(one, name=f"{scene.anchor}-{one.name}", section=scene.anchor)
        for one in scene_energy_figures(scene)
    ]


def _over_scenes(data: ReportData) -> list[Figure]:
    found = [growth_figure(data.growth, joules(data))] if data.growth else []
    power = intensity_figure(data.intensity, joules(data), modelled=data.modelled)
    return found + ([power] if power else [])
