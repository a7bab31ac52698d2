"""The words of reasons about energies: windows and their rows, sensors and meters."""

from __future__ import annotations

WORDS: dict[str, str] = {
    # how far a mean over windows can be relied on
    "few-windows": "measured only {windows:count time} (grade A needs 5)",
    "no-interval": "no 95 % interval from {windows:count usable measurement}",
    "wide-interval": "95 % interval of ± {half_width:percent}",
    # why a window gives no energy
    "counter-jumped": "the energy counter jumped by {kj:in kJ} in {seconds:in s}",
    "counter-reset": "the energy counter was reset, or its readings were interrupted",
    "counter-silent": "the energy counter did not answer",
    "host-counter-began-again": "the host's counter may have begun again at 0 within {seconds:in s}",
    "in-stage": "{stage}: {why:reason}",
    "few-ticks": "only {ticks:count usable tick} in {seconds:in s}: use a longer window",
    "no-call-between-ticks": "no call was completed between two ticks",
    "no-tick-between-reads": "no tick of the counter fell between the two reads",
    "nothing-left": "nothing is left after pauses or restored inputs are subtracted",
    "shorter-than-tick": "shorter than the counter's tick ({tick_s:in s})",
    # what disturbed a window
    "other-clocks": "the power cap made it run at clocks {change:change} from the model's",
    "power-limit-changed": "the power limit changed from {before_w:in W} to {now_w:in W}",
    "two-values": "windows take two values, {low_mj:in mJ} and {high_mj:in mJ} a call, and the mean is of both",
    "two-speeds": "a call takes {us:in us} or {other_us:in us}, by the state that the device was in; the figures "
    "are of the former",
    "other-speed": "measured only while the device started kernels at another speed than mostly",
    "idle-changed": "idle power changed by {change:change} during the profile",
    "unsettled": "power still changes by {trend:change} within a window: energies may be off by as much",
    "beats-with-sensor": "runs in step with the sensor's samples in {windows} windows, which may be off by much",
    "slowed-by-heat": "the GPU slowed down because of heat or a hardware limit",
    # who else used the device
    "busy-without-us": "the GPU was {share:percent} busy while nothing of this run was on it",
    "measured-by-another-run": "{run} measures on {gpu} too: each one's joules hold the other's; stop one of them",
    "memory-grew": "memory of other programs on this GPU grew by {mib:in MiB}",
    "on-device": "{device}: {what:reason}",
    "other-process": "process {pid} also uses this GPU",
    "busy-host": "load {load:number} on {cores} cores before the run began: times are noisier than on a quiet "
    "machine; what a change does to the predictions is not affected",
    "processor-shared": "other processes used up to {cores:count core} of the processor",
    "own-process-hidden": "the GPU's process list hides this process (a container?): "
    "other users are detected by load and memory",
    # why it is not known what the GPU was busy with
    "activity-not-sampled": "what the GPU was busy with is unknown: no two samples in {seconds:in s} of replay",
    "activity-unknown": "what the GPU was busy with is unknown: {why}",
    "memory-power-unknown": "the power of the GPU's memory is unknown: {why}",
    # what to know of a row
    "kind-mean": "mean of its kind over {layers:count layer}",
    "launches-nothing": "launches no work on the device",
    "measured-on": "measured on {component}",
    "no-memory-for-replay": "no device memory was left to replay it",
    "not-capturable": "{error}",
    "causal-kernel-unknown": "{operation} may skip scores that its causal mask hides",
    "executed-flops-missing": "executed FLOPs not recorded: no energy per FLOP; "
    "rates and FLOP/byte are of nominal ones, with causal attention's full square",
    "outputs-are-nan": "outputs hold NaN from {component} on: energies of such values may differ from those of "
    "real ones; use another --precision, or weights that are whole",
    "operation-unknown": "the matrix work of {operation} is unknown",
    "power-without-energy": "the energy is unknown; power is the mean of the readings before and after",
    "replay-failed": "it cannot be replayed by itself: {error}",
    "replayed-with-pauses": "replayed with pauses, which are subtracted, to stay below the power cap or out of "
    "step with the sensor's samples",
    "retaken-windows": "{windows:count window} measured again",
    "throttling-unknown": "the board does not report throttling",
    "triggered-sampling": "triggered sampling, without amplification",
    "varying-inputs": "its calls have inputs of different shapes; only the first is replayed",
    "work-unknown": "FLOPs, executed FLOPs or bytes unknown: {why:reason}",
    # how a profile was set up
    "components-not-called": "{components:count component} missing: this pass does not call {function}",
    "device-reads-repeated": "the model reads {reads:count value} from the GPU in a pass and goes on by them; in "
    "the CUDA graph they are what they were before it",
    "eager-inputs": "inputs of the components are those of eager execution: {why:reason}",
    "no-memory-for-graph": "no memory was left for a CUDA graph of the whole model with all inputs",
    "read-around-components": "the meter was read once before and once after each component of ordinary passes; "
    "nested components in passes of their own",
    # which meter was taken, and what it reads
    "amd-counter": "AMD SMI's energy counter, polled by a separate process",
    "apple-counters": "macOS's energy counters of {domains:list}, polled by a separate process: they count "
    "whatever runs on the chip, not this process alone; of an Ultra chip they may be those of one of its two dies",
    "asked-for": "asked for",
    "averaged-power": "this GPU reports only averaged power (over about {seconds:in s}); the averaging is undone",
    "counter-ticks": "the energy counter answers and ticks about every {period_s:in s}",
    "cpu-not-metered": "the model runs on the CPU, whose power is not measured",
    "energy-counter": "NVML's total-energy counter, polled by a separate process",
    "meter-unusable": "{error}",
    "modelled-joules": "MODELLED: every joule is time x {watts:in W}, as stated; no power was measured",
    "nvml-missing": "the NVML binding is missing: pip install nvidia-ml-py",
    "nvml-shadowed": "the deprecated package `pynvml` hides the maintained binding: "
    "pip uninstall pynvml, then pip install --force-reinstall nvidia-ml-py",
    "no-dram-counter": "this processor has no counter of its memory: DRAM's energy is not in the joules",
    "others-not-watched": "what else runs on the processor is not watched here: its energy counts too",
    "played-back": "played back from {trace}",
    "power-answers": "{field} answers",
    "processor-counters": "RAPL's counters of {domains:list}, polled by a separate process: they count "
    "whatever runs on the processor, not this process alone",
    "sampled-by-nvidia-smi": "nvidia-smi's {field} every {interval_s:in s}, time-stamped on arrival, integrated",
    "sampled-power": "NVML's {field} power, sampled by a separate process and integrated",
    "simulated-meter": "simulated: its true joules are known",
    "whole-gpu": "the whole GPU in MIG mode: all of its slices count",
    "whole-gpu-of-slice": "the whole GPU of a MIG slice: other slices count too",
    # why a sensor's character is unknown
    "field-silent": "this GPU does not answer this field",
    "field-shows-no-power": "the field shows no power",
    "load-power-not-reached": "the field did not reach the power of the load",
    "no-energy-counter": "this GPU has no readable energy counter",
    "no-power-field": "no power field answers",
    "no-two-ticks": "the counter has no two ticks in a row to compare",
    "power-not-sampled": "power was not sampled over the whole interval",
    "small-power-step": "power only went from {before_w:in W} to {after_w:in W}",
    "step-not-watched": "the field was not watched from before the step",
    # what the doctor finds
    "energy-measurable": "Energy can be measured here.",
    "energy-measurable-with-advice": "Energy can be measured here, with the limits listed above.",
    "energy-from-power": "Energy can be measured here, from sampled power alone ({meter}).",
    "energy-not-measurable": "Energy cannot be measured here: {error}",
    "processor-measurable": "Energy can be measured here: that of the processor, whatever runs on it.",
    "energy-only-modelled": "No GPU: energy would be MODELLED as time x stated watts, and says no more than time.",
    # what the doctor advises
    "counter-disagrees": "the counter reads {share:percent} of the integrated {field} power: one of them is wrong "
    "or includes more (memory, a module); compare --meter nvml with --meter nvml-power",
    "counter-unused": "the energy counter is not used ({why:reason}): intervals will be wider",
    "gpu-unused-by-torch": "NVML finds {gpus:count GPU} ({first}), but torch can use none: "
    "install torch with CUDA, and check that CUDA_VISIBLE_DEVICES is not empty",
    "gpu-used-by-others": "{who:reason}: its energy would be counted; end it, or wait until it is done",
    "mig-on": "MIG is on: energy is read for the whole GPU and includes all slices; "
    "use --whole-gpu for that, or turn MIG off (nvidia-smi -mig 0)",
    "persistence-off": "persistence mode is off: the driver may unload between programs, and idle power then "
    "jumps; turn it on as root (nvidia-smi -pm 1)",
    "polling-alone-changes-energy": "reading the counter without a pause, as some tools do, changes its energy by "
    "{change:change}: run no other monitor beside energyscope",
    "polling-changes-energy": "reading the counter as energyscope does changes its energy by {change:change}: "
    "use --meter nvml-power",
    "polling-changes-time": "polling the sensor changes the time of calls by {change:change}: "
    "look for a busy host; leave two cores free",
    "power-limit-lowered": "the power limit is {limit_w:in W}, below this board's default of {default_w:in W}: "
    "costly components run at lower clocks; reset it as root (nvidia-smi -pl {default_w:.0f}), or report it",
    "slow-ticks": "the sensor ticks only every {period_s:in s}: use longer windows, --window {window_s:.1f}",
}
