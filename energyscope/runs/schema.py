"""The columns and files of a run directory, in one place. Units live in names; unknown is None.

One row of ``per_layer_energy.csv`` is one (component, phase, precision, execution, batch_size,
context_length). Its ``*_mj`` values are per forward pass of the model; ``energy_mj / calls`` is per call.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

SCHEMA_VERSION = 2  # since 2, reasons, notes and warnings are codes (`energyscope.reasons`); in 1, texts

RUN_FILE = "run.json"
JOURNAL_FILE = "journal.jsonl"  # while the run is measured, and after it broke off
FINISHED_JOURNAL_FILE = "journal.jsonl.gz"
ENERGY_FILE = "per_layer_energy.csv"
IMPACT_FILE = "prediction_impact.csv"
EXAMPLES_FILE = "impact_examples.parquet"
MERGED_FILE = "energy_impact_merged.csv"
TRACE_FILE = "power_trace.csv"
CORRELATION_FILE = "correlation.json"
BENCHMARK_FILE = "benchmark_results.csv"
BENCHMARK_JSON = "benchmark.json"
GENERATION_JSON = "generation.json"
SWEEP_FILE = "sweep.json"
ALTERNATIVES_JSON = "alternatives.json"
PLAN_JSON = "plan.json"
LAWS_JSON = "laws.json"
SERVING_JSON = "serving.json"
SERVING_FILE = "serving.csv"
REQUESTS_FILE = "requests.parquet"
REPORT_FILE = "report.html"

BEGUN_AGAIN = "begun_again"  # of a journal's entry: those of its stage (and scene) before it count no more
KEPT_BEFORE = "kept_before"  # of such an entry: those of passes before this one still count


@dataclass(kw_only=True)
class EnergyRow:
    """One component's energy. The order of the fields is the order of the columns.

    ``share_of_total`` is of the measured model node, ``share_of_parent`` of the measured parent.
    ``glue_mj`` was measured by bypassing the children; ``unexplained_mj`` is node - children - glue;
    ``self_mj`` node - children. ``reused`` marks a value that was not measured on that very layer.
    ``reasons`` are those of `energyscope.reasons`, separated by ``"; "``. ``time_us``, ``energy_ci_*`` and
    ``static_mj`` are per forward pass too; ``power_w`` is the mean over the replay windows.

    ``flops`` is nominal matrix work, attention over the full square of scores, ``executed_flops`` without what
    causal kernels skip (`energyscope.replay.flops`; None: unknown, or recorded before there was this column).
    ``bytes`` is the least traffic to memory. ``proportional_mj`` is what attribution by
    time, and ``naive_mj`` what the counter's plain difference, would have said. ``differential_mj`` is what the
    model saves without the component's kind, shared among its components by calls. ``host_bound``: launching from
    the host set the pace. ``devices_mj`` lists the energy on each of several devices, separated by ``";"``.
    ``measured_on`` names the component of another layer that stands in for this one (``--layers sample``).
    ``context_length`` of a decode step is the tokens in its KV cache, which is ``dynamic`` or ``static``
    (``kv_cache``; None: a pass without). ``waiting_mj`` is the part of ``energy_mj`` that devices took on which
    the component does not run.

    ``sm_activity`` is the share of SMs (0 to 1) that had work while it was replayed; ``tensor_activity``,
    ``cuda_core_activity`` (the busiest of the SMs' other pipes) and ``dram_activity`` are shares of each part's
    peak, and ``memory_power_w`` is the power of the memory. ``limited_by`` is the part nearest to its peak
    (``tensor cores``, ``CUDA cores`` or ``memory``), or ``waiting`` where none is at 40 %. All are None where the
    board has no such counters; the notes of ``sensor`` in ``run.json`` say why. ``at_power_limit``: the power
    limit slowed the board meanwhile (None: it does not say).

    ``dynamic_*`` and ``static_*`` have 95 % intervals, with the error of the idle power in them, and dynamic
    energy a grade of its own (``dynamic_quality``). ``dynamic_share`` is of the model's dynamic energy;
    ``share_ci_*`` and ``share_quality`` belong to ``share_of_total``, ``time_share`` is of the model's time. In
    eager execution, time and so static energy are compared in short blocks of component and model in turn, since
    the host's pace wanders between windows. ``host_energy_mj`` is what the processors and memory of the whole host
    drew meanwhile, whatever ran there, with a grade of its own; it is in no other column. None: recorded before
    there were these columns, or unknown.
    """

    component: str
    kind: str
    layer: int | None
    level: str  # model, layer, block or sub-component
    parent: str | None
    phase: str
    precision: str
    execution: str
    batch_size: int
    context_length: int | None
    device: str
    meter: str
    calls: float | None
    energy_mj: float | None
    energy_ci_low_mj: float | None
    energy_ci_high_mj: float | None
    static_mj: float | None
    dynamic_mj: float | None
    time_us: float | None
    power_w: float | None
    flops: float | None = None
    bytes: float | None = None
    share_of_total: float | None = None
    share_of_parent: float | None = None
    self_mj: float | None = None
    glue_mj: float | None = None
    unexplained_mj: float | None = None
    proportional_mj: float | None = None
    naive_mj: float | None = None
    differential_mj: float | None = None
    reused: bool = False
    ticks: int | None = None
    windows: int | None = None
    passes: int | None = None
    quality: str = "invalid"
    reasons: str = ""
    # columns after this one may change
    glue_ci_low_mj: float | None = None
    glue_ci_high_mj: float | None = None
    glue_time_us: float | None = None
    glue_static_mj: float | None = None
    spread_between_passes: float | None = None
    parameters: int | None = None
    weight_bytes: int | None = None
    host_bound: bool | None = None
    clock_mhz: float | None = None
    devices_mj: str | None = None
    measured_on: str | None = None
    kv_cache: str | None = None
    waiting_mj: float | None = None
    executed_flops: float | None = None
    sm_activity: float | None = None
    tensor_activity: float | None = None
    cuda_core_activity: float | None = None
    dram_activity: float | None = None
    memory_power_w: float | None = None
    limited_by: str | None = None
    at_power_limit: bool | None = None
    dynamic_ci_low_mj: float | None = None
    dynamic_ci_high_mj: float | None = None
    dynamic_quality: str | None = None
    static_ci_low_mj: float | None = None
    static_ci_high_mj: float | None = None
    dynamic_share: float | None = None
    dynamic_share_ci_low: float | None = None
    dynamic_share_ci_high: float | None = None
    dynamic_share_quality: str | None = None
    share_ci_low: float | None = None
    share_ci_high: float | None = None
    share_quality: str | None = None
    time_share: float | None = None
    time_share_ci_low: float | None = None
    time_share_ci_high: float | None = None
    glue_dynamic_mj: float | None = None
    glue_dynamic_ci_low_mj: float | None = None
    glue_dynamic_ci_high_mj: float | None = None
    host_energy_mj: float | None = None
    host_ci_low_mj: float | None = None
    host_ci_high_mj: float | None = None
    host_quality: str | None = None


@dataclass(kw_only=True)
class ImpactRow:
    """What one change (``method``) of one component did to the predictions, by one ``metric``.

    Methods are those of `energyscope.impact.methods`. Metrics: ``kl`` (nats, mean KL(original || changed) of the
    outputs), ``js`` (nats, Jensen-Shannon divergence), ``loss_difference`` (nats per prediction),
    ``accuracy_difference`` or ``perplexity_difference`` (changed - original), ``top1_agreement`` (share of
    predictions that stay the same), ``logit_difference`` (of the target's margin), ``output_change`` (relative
    change of the component's own output). With the method ``predict``, the metric is a predictor's name.
    ``component`` may name several that are changed together ("h.{layer}.mlp", "h.0+h.1"), or a head.
    """

    component: str
    kind: str
    layer: int | None
    method: str
    metric: str
    value: float | None
    ci_low: float | None
    ci_high: float | None
    examples: int
    valid: bool
    reasons: str = ""


@dataclass(kw_only=True)
class BenchmarkRow:
    """One trial of the whole model at one precision, batch size and length. The order is that of the columns.

    An inference is one forward pass over ``batch_size`` sequences of ``sequence_length`` tokens. Latencies and
    their percentiles are in seconds, each pass timed with the device synchronised around it; ``throughput`` is
    sequences a second. Power statistics are over ``num_power_samples`` mean powers between readings of the energy
    counter at least the sample interval apart. Energies are from the counter's ticks and the passes completed
    between them; ``total_energy_j`` is that of all timed ``iterations``. ``accuracy``, ``perplexity`` and the
    numbers behind them, and sizes and memory (10^9 and 10^6 bytes), are the precision's and repeat in each trial.
    """

    precision: str
    batch_size: int
    sequence_length: int
    trial: int
    mean_latency: float
    std_latency: float | None
    min_latency: float
    max_latency: float
    median_latency: float
    throughput: float
    mean_power_w: float | None
    std_power_w: float | None
    min_power_w: float | None
    max_power_w: float | None
    median_power_w: float | None
    num_power_samples: int
    total_energy_j: float | None
    energy_per_inference_j: float | None
    energy_per_inference_mj: float | None
    inferences_per_joule: float | None
    accuracy: float | None
    num_correct: int | None
    num_samples_accuracy: int | None
    perplexity: float | None
    allocated_gb: float | None
    peak_allocated_gb: float | None
    reserved_gb: float | None
    num_parameters: int
    model_size_mb: float
    dtype: str
    # columns after this one may change; those above are common to such harnesses
    implementation: str
    execution: str = "eager"
    device: str
    meter: str
    iterations: int
    warmup_iterations: int
    stable: bool | None
    p50_latency: float
    p95_latency: float | None
    p99_latency: float | None
    tokens_per_s: float | None
    tokens_per_joule: float | None
    energy_delay_product_js: float | None
    energy_ci_low_mj: float | None
    energy_ci_high_mj: float | None
    idle_w: float | None
    static_energy_per_inference_mj: float | None
    dynamic_energy_per_inference_mj: float | None
    naive_energy_per_inference_mj: float | None
    ticks: int
    clock_mhz: float | None
    temperature_c: float | None
    reasons: str = ""


@dataclass(kw_only=True)
class TraceRow:
    """A board at a tick of its counter.

    ``time_s`` is when the tick's value was first seen, ``before_s`` when the value before it was last seen, both
    since ``trace_origin_s`` (run.json) on the journal's clock; ``window`` is a name of `energyscope.runs.windows`,
    or empty.
    """

    time_s: float
    device: str | None
    energy_mj: float
    power_w: float | None
    phase: str | None
    token: int | None
    sm_clock_mhz: float | None
    temperature_c: float | None
    window: str | None = None
    before_s: float | None = None


BENCHMARK_COLUMNS = tuple(field.name for field in fields(BenchmarkRow))
STABLE_BENCHMARK_COLUMNS = BENCHMARK_COLUMNS[: BENCHMARK_COLUMNS.index("dtype") + 1]
ENERGY_COLUMNS = tuple(field.name for field in fields(EnergyRow))
STABLE_ENERGY_COLUMNS = ENERGY_COLUMNS[: ENERGY_COLUMNS.index("reasons") + 1]
IMPACT_COLUMNS = tuple(field.name for field in fields(ImpactRow))
TRACE_COLUMNS = tuple(field.name for field in fields(TraceRow))
STABLE_TRACE_COLUMNS = TRACE_COLUMNS[: TRACE_COLUMNS.index("temperature_c") + 1]
KEY_COLUMNS = (
    "component", "kind", "layer", "level", "parent", "phase", "precision", "execution", "batch_size",
    "context_length",
)  # fmt: skip
