"""The documents of a run, of laws and of a server: what each key of their files holds.

One name is one object of a file. A key may be missing or null (unknown), unless it is `Required`. Keys that are
not declared are those of other versions. `energyscope.runs.checking` compares a file with its declaration.
"""

# ruff: noqa: UP013  a class has a line for each key, which makes this file four times as long
from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Required, TypedDict

from energyscope.runs.schema import BenchmarkRow

ValueWithLimits = TypedDict("ValueWithLimits", {
    "value": Required[float], "low": float, "high": float,
}, total=False)  # fmt: skip
Estimate = TypedDict("Estimate", {"value": Required[float | None], "low": float, "high": float}, total=False)


# run.json


SettingsOfBenchmark = TypedDict("SettingsOfBenchmark", {
    "precisions": list[str], "batch_sizes": list[int], "sequence_lengths": list[int], "num_iters": int,
    "warmup_steps": int, "trials": int, "trial_seconds": float, "power_sample_interval_s": float,
    "execution": str,
}, total=False)  # fmt: skip
Settings = TypedDict("Settings", {
    "model": str, "name": str, "root": str, "weights": str, "precision": str, "double_quant": bool,
    "skip_modules": list[str], "device": str, "device_map": str, "tensor_parallel": bool, "gpu_id": list[Any],
    "whole_gpu": bool, "granularity": str, "layers": str, "phase": str, "context_lengths": list[int],
    "kv_cache": str, "new_tokens": int | str, "execution": str, "sampling": str, "batch_size": int,
    "sequence_length": int, "meter": str, "watts": float, "sample_interval_s": float, "passes": int,
    "target_interval": float, "component_budget_s": float, "window_s": float, "methods": list[str], "joint": str,
    "heads": str, "adaptive": bool, "predict": bool, "data": str, "text_column": str, "label_column": str,
    "max_examples": int, "seed": int, "stages": list[str], "trust_remote_code": bool,
    "benchmark": SettingsOfBenchmark, "budget": str, "objective": str, "workloads": list[str], "levers": bool,
    "plan_precisions": list[str], "url": str, "prompt_tokens": str, "users": list[int], "rates": list[Any],
    "trace": str, "shared_prefix": int, "tokenizer": str, "api": str, "seconds": float, "timeout_s": float,
    "price": float, "carbon": float, "rate": float, "tags": list[Any], "note": str, "adapter": str,
    "compute_dtype": str, "stride": int, "export": str, "export_format": str, "locked_clock_mhz": float,
}, total=False)  # fmt: skip
Quantization = TypedDict("Quantization", {
    "method": int | str, "double_quant": bool, "compute_dtype": str, "skipped": list[str],
}, total=False)  # fmt: skip
Model = TypedDict("Model", {
    "name": str, "adapter": str, "model_type": str, "task": str, "metric": str, "source": str, "weights": str,
    "parameters": int, "size_bytes": int, "layers": int, "dtype": str, "precision": str,
    "quantization": Quantization, "attention": str, "device_map": dict[str, int | str], "offloaded": list[Any],
    "host_peak_bytes": int, "adapter_from": str, "weights_digest": str,
}, total=False)  # fmt: skip
Baseline = TypedDict("Baseline", {
    "examples": int, "tokens": float, "perplexity": float, "accuracy": float,
}, total=False)  # fmt: skip
Evaluation = TypedDict("Evaluation", {
    "source": str, "examples": int, "digest": str, "order": list[int], "baseline": Baseline,
}, total=False)  # fmt: skip
Workload = TypedDict("Workload", {
    "batch_size": int, "sequence_length": int, "tokens": str, "tokens_per_forward": int, "kv_cache": bool,
    "evaluation": Evaluation, "evaluation_reason": str, "source": str,
}, total=False)  # fmt: skip
Board = TypedDict("Board", {
    "place": str, "type": str, "name": str, "uuid": str, "index": int, "l2_bytes": int, "memory_bytes": int,
    "power_limit_w": float, "driver": str, "default_power_limit_w": float, "mig": bool, "persistence": int,
    "processes": list[int], "memory_used_bytes": int, "utilisation": float,
}, total=False)  # fmt: skip


class Device(Board, total=False):
    measured: list[str]
    spread: list[str | Board] | None
    min_power_limit_w: float


Stage = TypedDict("Stage", {"state": str, "reason": str, "seconds": float}, total=False)
SensorOfDevice = TypedDict("SensorOfDevice", {
    "device": str, "meter": str, "modelled": bool, "choice": str, "tick_period_s": float, "tick_jitter_s": float,
    "energy_quantum_mj": float, "tick_uncertainty_s": float, "read_cost_s": float, "notes": list[str],
    "idle_w": float, "host_domains": list[str], "host_reason": str, "host_idle_w": float,
}, total=False)  # fmt: skip


class Sensor(SensorOfDevice, total=False):
    watts: float
    devices: list[SensorOfDevice]


Closure = TypedDict("Closure", {
    "energy": float, "energy_low": float, "energy_high": float, "time": float, "time_low": float,
    "time_high": float, "static": float, "static_low": float, "static_high": float, "dynamic": float,
    "dynamic_low": float, "dynamic_high": float, "with_glue": bool, "state": str, "decides": str,
}, total=False)  # fmt: skip
SharesOfLayers = TypedDict("SharesOfLayers", {"replayed": Estimate, "saved": Estimate}, total=False)
Differential = TypedDict("Differential", {
    "energy_mj": float, "low": float, "high": float, "replayed_mj": float, "ratio": float, "ratio_low": float,
    "ratio_high": float, "shares": dict[str, SharesOfLayers], "quality": str, "reasons": str,
}, total=False)  # fmt: skip
Pass = TypedDict("Pass", {
    "index": int, "idle_w": float, "anchor_mj": float, "begin_s": float, "clock_mhz": float,
    "temperature_c": float, "anchor_low_mj": float, "anchor_high_mj": float,
}, total=False)  # fmt: skip
Drift = TypedDict("Drift", {"change": float, "low": float, "high": float, "significant": bool}, total=False)
Scene = TypedDict("Scene", {
    "name": Required[str], "phase": Required[str], "context_length": Required[int | None], "kv_cache": str,
    "layers": str, "in_model": bool, "closure": dict[str, Closure], "differential": dict[str, Differential],
    "passes": list[Pass],
    "drift": Drift, "execution": str,
}, total=False)  # fmt: skip
Endpoint = TypedDict("Endpoint", {
    "url": str, "model": str, "api": str, "context_tokens": int, "owner": str, "fields": list[str],
    "tokens_per_word": float, "overhead_tokens": float,
}, total=False)  # fmt: skip
Resumed = TypedDict("Resumed", {"at": str, "command": str}, total=False)
Serving = TypedDict("Serving", {
    "endpoint": Endpoint, "gpus": list[str], "notes": list[str], "client_cpu_s": float,
}, total=False)  # fmt: skip
RunDocument = TypedDict("RunDocument", {
    "schema": Required[int], "name": str, "energyscope": str, "created": str, "command": str, "fingerprint": str,
    "settings": Settings, "model": Model, "workload": Workload, "environment": dict[str, int | str],
    "device": Device, "warnings": list[str], "stages": dict[str, Stage], "sensor": Sensor,
    "closure": dict[str, Closure], "differential": dict[str, Differential], "passes": list[Pass], "drift": Drift,
    "scenes": list[Scene], "trace_origin_s": float, "method": int | str, "serving": Serving, "boot": str,
    "tags": list[str], "note": str, "resumed": list[Resumed],
}, total=False)  # fmt: skip

# generation.json

GenerationSettings = TypedDict("GenerationSettings", {
    "prompt_tokens": Required[int | None], "new_tokens": Required[int], "batch_size": Required[int],
    "kv_cache": str, "generations": int, "seed": Required[int],
}, total=False)  # fmt: skip
Phase = TypedDict("Phase", {
    "phase": Required[str], "method": Required[str | None], "seconds": Required[Estimate | None],
    "energy_j": Required[Estimate | None], "static_j": float, "dynamic_j": float,
    "power_w": Required[Estimate | None], "tokens": Required[int | None],
    "joules_per_token": Required[Estimate | None], "devices_j": list[float], "reason": Required[str | None],
}, total=False)  # fmt: skip
LoopOfGenerate = TypedDict("LoopOfGenerate", {
    "per_token": Required[dict[str, Estimate] | None], "per_call": dict[str, Estimate], "windows": Required[int],
    "reason": str,
}, total=False)  # fmt: skip
DecodeSteps = TypedDict("DecodeSteps", {
    "first": Required[int], "last": int, "seconds": Required[Estimate | None],
    "energy_mj": Required[Estimate | None], "power_w": Required[Estimate | None],
}, total=False)  # fmt: skip
Mark = TypedDict("Mark", {
    "begin_s": Required[float | None], "prefill_end_s": float, "end_s": Required[float | None],
    "tokens_s": Required[list[float]],
}, total=False)  # fmt: skip
MiddleStep = TypedDict("MiddleStep", {
    "context_length": Required[int | None], "seconds": Required[Estimate | None],
    "energy_mj": Required[Estimate | None], "dynamic_mj": Estimate, "static_mj": float, "windows": Required[int],
    "reason": str,
}, total=False)  # fmt: skip
GenerationDocument = TypedDict("GenerationDocument", {
    "settings": Required[GenerationSettings], "phases": Required[list[Phase]], "loop": Required[LoopOfGenerate],
    "steps": Required[list[DecodeSteps]], "rates": dict[str, Estimate], "marks": list[Mark],
    "idle_w": Required[float | None], "modelled": Required[bool], "notes": Required[list[str]],
    "step": MiddleStep, "host": dict[str, Estimate],
}, total=False)  # fmt: skip

# alternatives.json

BaseShape = TypedDict("BaseShape", {
    "precision": str, "execution": str, "batch_size": Required[int], "context_length": int, "kv_cache": str,
    "attention": str, "prompt_tokens": int,
}, total=False)  # fmt: skip
Acceptance = TypedDict("Acceptance", {
    "tokens_per_step": Estimate, "proposed_share": float, "texts": int, "same": int, "largest_gap": float,
}, total=False)  # fmt: skip
Alternative = TypedDict("Alternative", {
    "what": Required[str], "value": Required[str], "phase": Required[str], "batch_size": Required[int],
    "context_length": int, "execution": str, "kv_cache": str, "attention": str, "energy_mj": Estimate,
    "static_mj": float, "time_us": Estimate, "power_w": Estimate, "joules_per_token": Estimate,
    "tokens_per_s": Estimate, "ratio": Required[Estimate | None], "setup_s": float, "windows": Required[int],
    "quality": Required[str], "guards": list[Any], "reasons": str, "proposed": int, "acceptance": Acceptance,
    "at_power_limit": bool, "limited_by": str,
}, total=False)  # fmt: skip
AlternativesDocument = TypedDict("AlternativesDocument", {
    "base": Required[BaseShape], "rows": Required[list[Alternative]], "skipped": Required[list[dict[str, str]]],
    "idle_w": float, "modelled": Required[bool], "notes": list[str],
}, total=False)  # fmt: skip

# correlation.json

LeftOut = TypedDict("LeftOut", {"reason": Required[str], "components": int}, total=False)
Compared = TypedDict("Compared", {
    "phase": Required[str], "precision": Required[str], "execution": Required[str], "batch_size": Required[int],
    "context_length": Required[int | None], "modelled": Required[bool], "model_energy_mj": float,
    "components": int, "left_out": Required[list[LeftOut]], "other_rows": int,
}, total=False)  # fmt: skip
Point = TypedDict("Point", {
    "component": Required[str], "kind": Required[str], "layer": Required[int | None],
    "energy_mj": Required[float | None], "energy_ci_low_mj": Required[float | None],
    "energy_ci_high_mj": Required[float | None], "impact": Required[float | None], "impact_ci_low": float,
    "impact_ci_high": float, "quadrant": Required[str], "quality": str, "stands_for_parts": bool,
    "likely_quadrant": str, "stability": float, "energy_rank_low": float, "energy_rank_high": float,
    "impact_rank_low": float, "impact_rank_high": float,
}, total=False)  # fmt: skip
Correlation = TypedDict("Correlation", {
    "x": Required[str], "y": Required[str], "method": int | str, "n": int, "value": Required[float | None],
    "ci_low": Required[float | None], "ci_high": Required[float | None], "p_value": Required[float | None],
    "reason": Required[str | None],
}, total=False)  # fmt: skip
Quadrants = TypedDict("Quadrants", {
    "energy_threshold_mj": float, "impact_threshold": float, "rule": str,
}, total=False)  # fmt: skip
Heterogeneity = TypedDict("Heterogeneity", {
    "q": float, "df": int, "p_value": Required[float | None], "variance_ratio": float, "differ": Required[bool],
    "reason": Required[str | None],
}, total=False)  # fmt: skip
WithinKind = TypedDict("WithinKind", {
    "method": int | str, "n": int, "value": Required[float | None], "ci_low": Required[float | None],
    "ci_high": Required[float | None], "p_value": Required[float | None], "p_holm": Required[float | None],
}, total=False)  # fmt: skip
KindStatistics = TypedDict("KindStatistics", {
    "kind": Required[str], "n": int, "tested": Required[bool], "reason": Required[str | None],
    "energy": Required[Heterogeneity], "impact": Required[Heterogeneity],
    "correlations": Required[list[WithinKind]],
}, total=False)  # fmt: skip
WithinKinds = TypedDict("WithinKinds", {"rule": str, "kinds": Required[list[KindStatistics]]}, total=False)
NullModel = TypedDict("NullModel", {
    "predictor": str, "target": str, "n": int, "value": Required[float | None], "ci_low": Required[float | None],
    "ci_high": Required[float | None], "measured": Required[float | None], "measured_ci_low": float,
    "measured_ci_high": float, "difference": float, "difference_ci_low": float, "difference_ci_high": float,
    "better": str, "reason": Required[str | None],
}, total=False)  # fmt: skip
Matrix = TypedDict("Matrix", {
    "method": int | str, "columns": list[str], "energy_columns": list[str],
    "value": Required[list[list[float | None]]], "n": list[list[int]], "reasons": Required[dict[str, str]],
    "left_out": Required[dict[str, str]],
}, total=False)  # fmt: skip
Predictor = TypedDict("Predictor", {
    "predictor": str, "impact": Required[str], "n": int, "expected": str, "value": Required[float | None],
    "ci_low": Required[float | None], "ci_high": Required[float | None], "reason": Required[str | None],
    "within_kinds": float, "within_kinds_reason": str,
}, total=False)  # fmt: skip
JointRemoval = TypedDict("JointRemoval", {
    "component": Required[str], "method": int | str, "parts": Required[list[str]], "joint": float,
    "joint_ci_low": float, "joint_ci_high": float, "single_sum": float, "sum_ci_low": float,
    "sum_ci_high": float, "verdict": Required[str | None], "reason": Required[str | None],
}, total=False)  # fmt: skip
Advice = TypedDict("Advice", {
    "component": Required[str], "quadrant": Required[str], "advice": Required[str | None],
    "why": Required[str | None], "withheld_because": str, "unsure": str, "warning": str, "energy_mj": float,
    "impact": float, "stability": float,
}, total=False)  # fmt: skip
CorrelationDocument = TypedDict("CorrelationDocument", {
    "impact": Required[str], "compared": Compared, "points": Required[list[Point]], "unrelated": str,
    "correlations": Required[list[Correlation]], "quadrants": Quadrants, "adjusted": list[Correlation],
    "within_kinds": WithinKinds, "nulls": list[NullModel], "matrix": Matrix, "predictors": list[Predictor],
    "joint": list[JointRemoval], "advice": list[Advice], "advice_column": str, "findings": list[str],
}, total=False)  # fmt: skip

# benchmark.json

BenchmarkSettings = TypedDict("BenchmarkSettings", {
    "precisions": Required[list[str]], "batch_sizes": list[int], "sequence_lengths": list[int], "num_iters": int,
    "warmup_steps": int, "trials": int, "trial_seconds": float, "power_sample_interval_s": float,
    "execution": str, "seed": Required[int],
}, total=False)  # fmt: skip
BenchmarkedModel = TypedDict("BenchmarkedModel", {
    "precision": Required[str], "implementation": str, "num_parameters": int, "model_size_mb": float,
    "dtype": str, "load_seconds": float, "notes": Required[list[str]],
}, total=False)  # fmt: skip
BenchmarkedCell = TypedDict("BenchmarkedCell", {
    "precision": Required[str], "batch_size": Required[int], "sequence_length": Required[int], "trials": int,
    "latency_s": Estimate, "median_latency_s": Estimate, "p95_latency_s": Estimate, "p99_latency_s": Estimate,
    "throughput": Estimate, "tokens_per_s": Estimate, "power_w": Required[Estimate | None],
    "energy_mj": Required[Estimate | None], "dynamic_energy_mj": Estimate, "inferences_per_joule": Estimate,
    "tokens_per_joule": Estimate, "energy_delay_product_js": Estimate,
    "peak_allocated_gb": Required[float | None], "energy_spread": float, "quality": Required[str],
    "reasons": Required[str], "speedup": Estimate, "energy_ratio": Required[Estimate | None],
}, total=False)  # fmt: skip
Prediction = TypedDict("Prediction", {
    "precision": Required[str], "metric": Required[str], "value": Required[Estimate | None],
    "examples": Required[int], "correct": int, "against": str, "difference": Estimate,
    "kl": Required[Estimate | None], "agreement": Required[Estimate | None],
}, total=False)  # fmt: skip
BenchmarkDocument = TypedDict("BenchmarkDocument", {
    "settings": Required[BenchmarkSettings], "baseline": Required[str | None],
    "models": Required[list[BenchmarkedModel]], "skipped": Required[list[dict[str, str]]],
    "cells": Required[list[BenchmarkedCell]], "predictions": list[Prediction], "idle_w": float,
    "notes": Required[list[str]], "trials": list[BenchmarkRow], "predictions_reason": str,
}, total=False)  # fmt: skip

# plan.json

Budget = TypedDict("Budget", {
    "metric": Required[str], "amount": float, "relative": Required[bool], "text": Required[str],
    "harm": Required[float],
}, total=False)  # fmt: skip
PlannedGroup = TypedDict("PlannedGroup", {
    "name": Required[str], "kind": Required[str], "layer": Required[int | None], "paths": Required[list[str]],
    "parameters": Required[int], "family": Required[str], "precision": Required[str],
    "harm": Required[dict[str, float]],
}, total=False)  # fmt: skip
Family = TypedDict("Family", {
    "family": Required[str], "kind": Required[str], "groups": Required[int], "precision": Required[str],
    "energy_mj": Required[Estimate | None], "time_us": Required[Estimate | None], "bytes": Required[int | None],
    "quality": Required[str], "reasons": Required[list[str]],
}, total=False)  # fmt: skip
Predicted = TypedDict("Predicted", {
    "energy": Required[Estimate | None], "dynamic": Estimate, "time": Required[Estimate | None],
    "memory": Required[Estimate | None],
}, total=False)  # fmt: skip
HeldOutHarm = TypedDict("HeldOutHarm", {
    "harm": Required[dict[str, float] | None], "baseline": Required[float | None], "value": Required[float | None],
    "holds": Required[bool], "shown": bool, "kl": Required[float | None], "agreement": Required[float | None],
}, total=False)  # fmt: skip
Choice = TypedDict("Choice", {
    "name": Required[str], "changes": Required[bool], "comparison": bool, "groups": Required[dict[str, int]],
    "predicted": Required[Predicted], "measured": Required[Predicted | None],
    "saves": Required[dict[str, Estimate]], "quality": Required[str | None], "reasons": Required[list[str]],
    "expected_harm": Required[float | None], "harm": Required[float | None], "bound": float,
    "within": Required[bool | None], "held_out": Required[HeldOutHarm | None],
}, total=False)  # fmt: skip
Levers = TypedDict("Levers", {
    "base": Required[dict[str, Any]], "rows": Required[list[Alternative]],
    "skipped": Required[list[dict[str, str]]], "modelled": Required[bool],
}, total=False)  # fmt: skip
WholeModel = TypedDict("WholeModel", {
    "energy_mj": Required[Estimate], "time_us": Required[Estimate], "host_bound": bool,
}, total=False)  # fmt: skip
PlannedWorkload = TypedDict("PlannedWorkload", {
    "key": Required[str], "phase": Required[str], "batch_size": Required[int], "tokens": Required[int | None],
    "adopted": Required[str], "verdict": Required[str], "nearest": dict[str, Any],
    "groups": Required[list[PlannedGroup]], "families": Required[list[Family]],
    "choices": Required[list[Choice]], "front": Required[list[dict[str, float | None]]],
    "factor": Required[float | None], "whole": Required[WholeModel | None], "levers": Levers,
    "notes": Required[list[Any]],
}, total=False)  # fmt: skip
PlanDocument = TypedDict("PlanDocument", {
    "schema": Required[int], "model": Required[str], "weights": Required[str], "objective": Required[str],
    "precisions": Required[list[str]], "execution": Required[str], "data": Required[str],
    "examples": Required[list[int]], "baseline": Required[float | None], "weight_bytes": Required[int],
    "modelled": Required[bool], "budget": Required[Budget], "left_out": Required[list[Any]],
    "held_out_baseline": float, "workloads": Required[list[PlannedWorkload]], "elsewhere": Required[list[Any]],
}, total=False)  # fmt: skip

# laws.json

Source = TypedDict("Source", {
    "run": Required[str], "path": Required[str], "model": Required[str], "phase": Required[str],
    "precision": Required[str], "execution": Required[str], "kv_cache": str, "board": str, "meter": str,
    "weights": Required[str], "method": int | str, "batch_size": Required[int], "tokens": Required[int],
    "device": Required[str | None], "quality": Required[str | None], "limit": str,
}, total=False)  # fmt: skip
LawCell = TypedDict("LawCell", {
    "run": Required[str], "path": Required[str], "batch_size": Required[int], "tokens": Required[int],
}, total=False)  # fmt: skip
LawPoint = TypedDict("LawPoint", {
    "batch_size": Required[int], "tokens": Required[int], "flops": Required[float | None],
    "nominal_flops": float, "bytes": Required[float | None], "calls": int,
    "energy_mj": Required[Estimate | None], "time_us": Required[float | None], "static_mj": float,
    "pj_per_flop": Estimate,
}, total=False)  # fmt: skip
TwoTerm = TypedDict("TwoTerm", {
    "fixed_mj": Required[ValueWithLimits], "marginal_pj_per_flop": Required[ValueWithLimits], "r2": float,
    "residuals": list[float], "flags": Required[list[str]],
}, total=False)  # fmt: skip
Constant = TypedDict("Constant", {
    "energy_mj": Required[ValueWithLimits], "r2": float, "flags": Required[list[str]],
}, total=False)  # fmt: skip
WithoutLaw = TypedDict("WithoutLaw", {"reason": Required[str]}, total=False)
BatchAndTokens = TypedDict("BatchAndTokens", {"batch_size": Required[int], "tokens": Required[int]}, total=False)
Reach = TypedDict("Reach", {
    "tolerance": float, "holds": Required[bool], "within": Required[int], "cells": Required[int],
    "to_flops": float, "first_beyond": BatchAndTokens, "reason": Required[str | None],
}, total=False)  # fmt: skip
Trend = TypedDict("Trend", {
    "verdict": Required[str], "change": Estimate, "reason": Required[str | None],
}, total=False)  # fmt: skip
Quotient = TypedDict("Quotient", {"from_flops": float, "to_flops": float, "pj_per_flop": Estimate}, total=False)
Roofline = TypedDict("Roofline", {
    "law": str, "static_w": float, "call_mj": Estimate, "pj_per_flop": Estimate, "pj_per_byte": Estimate,
    "launch_us": Estimate, "tflops": Estimate, "gb_per_s": Estimate, "residuals": list[float],
    "regimes": list[str], "flags": Required[list[str]], "r2": float,
}, total=False)  # fmt: skip
HeldOutLaw = TypedDict("HeldOutLaw", {
    "law": Required[str], "by": Required[str], "median": Required[float | None], "worst": Required[float | None],
    "cells": Required[int], "reason": Required[str | None],
}, total=False)  # fmt: skip
ByBytes = TypedDict("ByBytes", {
    "fixed_mj": Required[ValueWithLimits], "pj_per_byte": Required[ValueWithLimits], "r2": float,
    "residuals": list[float], "flags": Required[list[str]],
}, total=False)  # fmt: skip
Subject = TypedDict("Subject", {
    "subject": Required[str], "role": str, "points": Required[list[LawPoint]], "two_term": TwoTerm | WithoutLaw,
    "reach": Required[Reach], "trend": Trend, "quotients": list[Quotient], "roofline": Roofline | WithoutLaw,
    "held_out": Required[list[HeldOutLaw]], "best": Required[str | None], "by_bytes": ByBytes | WithoutLaw,
    "constant": Constant | WithoutLaw,
}, total=False)  # fmt: skip
Errors = TypedDict("Errors", {
    "median": Required[float | None], "worst": Required[float | None], "cells": Required[int],
    "by": Required[str],
}, total=False)  # fmt: skip
LeftOutBy = TypedDict("LeftOutBy", {
    "by": Required[str], "components": Errors, "whole": Required[Errors | None],
}, total=False)  # fmt: skip
LeftOutCells = TypedDict("LeftOutCells", {
    "components": Errors, "whole": Required[Errors | None], "reason": Required[str | None],
    "ways": list[LeftOutBy],
}, total=False)  # fmt: skip
RatioAt = TypedDict("RatioAt", {
    "batch_size": Required[int], "tokens": Required[int], "ratio": Required[Estimate | None],
}, total=False)  # fmt: skip
Ratio = TypedDict("Ratio", {
    "first": Required[str], "second": Required[str], "marginal": Estimate, "reason": Required[str | None],
    "at": Required[list[RatioAt]],
}, total=False)  # fmt: skip
GroupOfCells = TypedDict("GroupOfCells", {
    "model": Required[str], "phase": Required[str], "precision": Required[str], "execution": Required[str],
    "kv_cache": str, "board": str, "meter": str, "weights": Required[str], "method": int | str,
    "device": Required[str | None], "cells": Required[list[LawCell]], "reason": Required[str | None],
    "subjects": Required[list[Subject]], "held_out": Required[LeftOutCells], "ratios": Required[list[Ratio]],
    "limit": str,
}, total=False)  # fmt: skip
Contrast = TypedDict("Contrast", {
    "field": Required[str], "first": Required[str | None], "second": Required[str | None],
    "model": Required[str], "phase": Required[str], "precision": str, "board": str, "subject": Required[str],
    "batch_size": Required[int], "tokens": Required[int], "ratio": Required[Estimate | None],
    "lacking": dict[str, Any], "execution": str,
}, total=False)  # fmt: skip
EfficiencyRow = TypedDict("EfficiencyRow", {
    "batch_size": Required[int], "tokens": Required[int], "latency_us": Required[float | None],
    "energy_mj": Required[Estimate | None], "tokens_per_j": Required[Estimate | None], "tokens_per_s": float,
    "energy_per_token_mj": Required[Estimate | None], "edp_mj_s": Required[Estimate | None],
    "power_w": Required[float | None],
}, total=False)  # fmt: skip
Knee = TypedDict("Knee", {"tokens": int, "words": str, "half_at": float}, total=False)
Efficiency = TypedDict("Efficiency", {
    "model": Required[str], "phase": Required[str], "precision": Required[str], "execution": Required[str],
    "kv_cache": str, "board": str, "meter": str, "weights": Required[str], "method": int | str,
    "along": Required[str], "fixed": Required[int], "rows": Required[list[EfficiencyRow]],
    "knee": Required[Knee | None], "reason": Required[str | None], "least_edp": Required[int | None],
    "limit": str,
}, total=False)  # fmt: skip
SizeRow = TypedDict("SizeRow", {
    "model": Required[str], "parameters": Required[int | None], "layers": int, "weights": Required[str],
    "energy_mj": Required[Estimate | None], "energy_per_token_mj": Required[Estimate | None],
    "pj_per_parameter_token": Estimate, "pj_per_flop": Estimate, "time_us": Required[float | None],
    "power_w": Required[float | None], "shares": dict[str, Estimate],
}, total=False)  # fmt: skip
Size = TypedDict("Size", {
    "phase": Required[str], "precision": Required[str], "execution": Required[str], "kv_cache": str,
    "board": str, "meter": str, "method": int | str, "batch_size": Required[int], "tokens": Required[int],
    "rows": Required[list[SizeRow]], "exponent": Required[Estimate | None],
}, total=False)  # fmt: skip
CellError = TypedDict("CellError", {
    "batch_size": Required[int], "tokens": Required[int], "relative": Required[float | None],
}, total=False)  # fmt: skip
SizesHeldOut = TypedDict("SizesHeldOut", {
    "phase": Required[str], "precision": Required[str], "execution": Required[str], "kv_cache": str,
    "board": str, "meter": str, "method": int | str, "left_out": Required[str], "subject": Required[str],
    "law": Required[str], "median": Required[float | None], "worst": Required[float | None],
    "cells": Required[int], "extrapolated": Required[bool], "errors": list[CellError],
}, total=False)  # fmt: skip
PartAtLimit = TypedDict("PartAtLimit", {
    "subject": Required[str], "energy_ratio": Required[Estimate | None], "time_ratio": Required[float],
}, total=False)  # fmt: skip
LimitRow = TypedDict("LimitRow", {
    "limit": Required[str], "energy_ratio": Required[Estimate | None], "time_ratio": Required[float],
    "latency_us": Required[float], "energy_mj": Required[ValueWithLimits], "tokens_per_j": Estimate,
    "tokens_per_s": float, "energy_per_token_mj": Estimate, "edp_mj_s": Required[Estimate | None],
    "power_w": float,
}, total=False)  # fmt: skip
PassByLimit = TypedDict("PassByLimit", {
    "model": Required[str], "phase": Required[str], "precision": Required[str], "execution": Required[str],
    "kv_cache": str, "board": str, "meter": str, "weights": str, "method": int | str,
    "batch_size": Required[int], "tokens": Required[int], "rows": Required[list[LimitRow]],
    "least_energy": Required[str | None], "least_edp": Required[str | None],
    "parts": Required[list[PartAtLimit]],
}, total=False)  # fmt: skip
LawsDocument = TypedDict("LawsDocument", {
    "schema": Required[int], "name": Required[str], "created": str, "command": str, "energyscope": str,
    "modelled": bool,
    "weights": Required[list[str]], "sources": Required[list[Source]], "flops": str,
    "notes": Required[list[str]], "groups": Required[list[GroupOfCells]], "contrasts": Required[list[Contrast]],
    "efficiency": Required[list[Efficiency]], "sizes": Required[list[Size]],
    "sizes_held_out": Required[list[SizesHeldOut]], "not_measured": Required[list[Any]],
    "limits": list[PassByLimit],
}, total=False)  # fmt: skip

# serving.json

Cost = TypedDict("Cost", {
    "cause": Required[str], "unit": Required[str], "value": Required[float | None],
    "low": Required[float | None], "high": Required[float | None], "quality": Required[str],
    "reasons": Required[str],
}, total=False)  # fmt: skip
ServedPhase = TypedDict("ServedPhase", {
    "phase": Required[str], "load": Required[str], "users": Required[int | None],
    "prompt_tokens": Required[float | None], "context": Required[float | None], "together": float,
    "tokens": Required[float | None], "value": Required[float | None], "low": Required[float | None],
    "high": Required[float | None], "quality": Required[str], "reasons": Required[str],
}, total=False)  # fmt: skip
HeldOutLoad = TypedDict("HeldOutLoad", {
    "load": Required[str], "measured_j": Required[float | None], "predicted_j": Required[float | None],
    "seconds": Required[float | None], "error": Required[float | None],
}, total=False)  # fmt: skip
ServingDocument = TypedDict("ServingDocument", {
    "schema": Required[int], "idle_w": Required[Estimate | None], "costs": Required[list[Cost]],
    "phases": Required[list[ServedPhase]], "left_out_error": float, "held_out": Required[list[HeldOutLoad]],
    "knee": Required[str | None], "million_tokens": dict[str, dict[str, float]], "notes": Required[list[str]],
}, total=False)  # fmt: skip


# Entries of journal.jsonl, told apart by what they hold. Keys that stages keep for themselves are not declared.

Activity = TypedDict("Activity", {
    "sm": float, "tensor": float, "cuda_cores": float, "dram": float, "memory_w": float, "reason": str,
}, total=False)  # fmt: skip
Window = TypedDict("Window", {
    "energy_mj": Required[float | None], "time_us": Required[float | None], "power_w": float, "naive_mj": float,
    "ticks": int, "calls": float, "seconds": float, "reason": str, "timing_share": float, "power_spread": float,
    "power_trend": float, "activity": Activity,
}, total=False)  # fmt: skip
Overhead = TypedDict("Overhead", {"ran_s": Required[list[float]], "window": Required[Window]}, total=False)
TracedTimes = TypedDict("TracedTimes", {
    "begin_s": Required[float], "tokens_s": Required[list[float]], "end_s": Required[float],
}, total=False)  # fmt: skip
COMMON: dict[str, Any] = {
    "stage": str, "scene": str, "pass": int, "subject": str, "begin_s": float, "ran_s": list[float],
    "end_s": float, "phase": str, "ticks": list[list[list[float]]],
    "part": str, "trace_part": int, "step_context": int, "loop_tokens": int,
    "idle_w": float, "host_idle_w": float, "host_mj": float, "begun_again": bool, "kept_before": int,
    "header": dict[str, Any], "overhead": Overhead,
}  # fmt: skip
ENTRIES: dict[str, dict[str, Any]] = {  # and what an entry must have that holds one of these
    "generation": {"generation": Required[TracedTimes]},
    "row": {"row": Required[BenchmarkRow]},
    "window": {"subject": Required[str], "pass": Required[int], "window": Required[Window]},
    "windows": {"pass": Required[int], "windows": Required[list[Window]]},
}
JOURNAL: dict[str, Any] = {
    name: TypedDict("JournalEntry", {**COMMON, **ENTRIES.get(name, {})}, total=False)  # type: ignore[operator]
    for name in (*ENTRIES, "")
}


def of_entry(entry: Mapping[str, Any]) -> Any:
    """Return the declaration of a journal's entry."""
    return JOURNAL[next((name for name in ENTRIES if name in entry), "")]
