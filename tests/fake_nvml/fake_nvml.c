/* A stand-in for libnvidia-ml.so.1, driven by a script; README.md in this folder has its format.
 *
 * It is loaded by the real binding, in the measuring process and in the sampler's. All values are functions of
 * CLOCK_MONOTONIC and of the script alone, so that several processes see the same board. The script is read
 * again whenever it changes.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_GPUS = 8, MAX_EVENTS = 512, MAX_PROCESSES = 16, MAX_KEYS = 64 };
enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, NO_DRIVER = 9 };
enum { VERSION_MISMATCH = 25, UNKNOWN = 999 };

typedef struct { int gpu; double at; char key[MAX_KEYS]; double value; } Event;
typedef struct { int gpu; unsigned pid; double mib; } Process;
typedef struct { char uuid[96]; char name[96]; int parent; } Device; /* parent: of a MIG slice, else -1 */

typedef struct { unsigned pid; unsigned long long bytes; unsigned gpu_instance, compute_instance; } ProcessInfo;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned gpu, memory; } Utilization;
typedef union { double d; unsigned ui; unsigned long ul; unsigned long long ull; long long sll; } Value;
typedef struct {
    uint32_t field, scope;
    int64_t timestamp, latency_us;
    uint32_t type, result;
    Value value;
} FieldValue;

typedef struct { unsigned version, supported; } GpmSupport;
typedef struct { int gpu; double time; } GpmSample; /* opaque to the binding */
typedef struct { unsigned number; uint32_t result; double value; const char *names[3]; } GpmMetric;
typedef struct { unsigned version, count; GpmSample *first, *second; GpmMetric metrics[]; } GpmMetrics;

static Device devices[MAX_GPUS];
static Event events[MAX_EVENTS];
static Process processes[MAX_PROCESSES];
static int device_count, event_count, process_count, users;
static double origin_s;
static char driver[80];
static char seen_path[4096];
static struct timespec seen_change;
static off_t seen_size;

static double now_s(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec - origin_s;
}

/* ---- the script ---- */

static void read_line(char *line) {
    char word[16], key[MAX_KEYS] = "", second[MAX_KEYS - 1] = "";
    double at = 0, value = 0;
    int gpu = device_count - 1;
    if (sscanf(line, "%15s", word) != 1 || word[0] == '#') return;
    if (!strcmp(word, "origin")) {
        sscanf(line, "%*s %lf", &origin_s);
    } else if (!strcmp(word, "driver")) {
        sscanf(line, "%*s %79s", driver);
    } else if ((!strcmp(word, "gpu") || !strcmp(word, "mig")) && device_count < MAX_GPUS) {
        Device *device = &devices[device_count++];
        strcpy(device->name, "Fake GPU");
        sscanf(line, "%*s %95s %95[^\n]", device->uuid, device->name);
        device->parent = -1;
        if (word[0] == 'm')
            for (int other = 0; other < device_count - 1; other++)
                if (devices[other].parent < 0) device->parent = other;
    } else if (!strcmp(word, "process") && process_count < MAX_PROCESSES) {
        sscanf(line, "%*s %63s %lf", key, &value);
        unsigned pid = !strcmp(key, "self") ? (unsigned)getpid() : (unsigned)strtoul(key, NULL, 10);
        processes[process_count++] = (Process){gpu, pid, value};
    } else if (!strcmp(word, "at") && event_count < MAX_EVENTS) {
        int words = sscanf(line, "%*s %lf %63s %62s %lf", &at, key, second, &value);
        Event *event = &events[event_count++];
        *event = (Event){.gpu = gpu, .at = at};
        if (words == 4 && !strcmp(key, "fail")) {
            snprintf(event->key, MAX_KEYS, "!%s", second);
            event->value = value;
        } else {
            snprintf(event->key, MAX_KEYS, "%s", key);
            event->value = strtod(second, NULL);
        }
    } else {
        fprintf(stderr, "fake NVML: this line of the script means nothing: %s\n", line);
        abort();
    }
}

static void refresh(void) {
    const char *path = getenv("FAKE_NVML");
    struct stat facts;
    if (!path || stat(path, &facts)) {
        fprintf(stderr, "fake NVML: FAKE_NVML names no script\n");
        abort();
    }
    if (!strcmp(path, seen_path) && facts.st_size == seen_size && facts.st_mtim.tv_sec == seen_change.tv_sec &&
        facts.st_mtim.tv_nsec == seen_change.tv_nsec)
        return;
    snprintf(seen_path, sizeof seen_path, "%s", path);
    seen_change = facts.st_mtim;
    seen_size = facts.st_size;
    device_count = event_count = process_count = 0;
    strcpy(driver, "580.00");
    FILE *file = fopen(path, "r");
    char line[512];
    while (file && fgets(line, sizeof line, file)) read_line(line);
    if (file) fclose(file);
}

/* The value of a key at a time: that of the last event up to then; else `otherwise`. */
static double value_at(int gpu, const char *key, double time, double otherwise) {
    double best = -INFINITY;
    for (int i = 0; i < event_count; i++)
        if (events[i].gpu == gpu && events[i].at <= time && events[i].at >= best && !strcmp(events[i].key, key)) {
            best = events[i].at;
            otherwise = events[i].value;
        }
    return otherwise;
}

static double value_now(int gpu, const char *key, double otherwise) {
    return value_at(gpu, key, now_s(), otherwise);
}

static int failing(int gpu, const char *call) {
    char key[MAX_KEYS];
    snprintf(key, sizeof key, "!%s", call);
    return (int)value_now(gpu, key, value_now(gpu, "!*", 0));
}

/* ---- physics: power is constant between events, and what the first one says before it ---- */

static double power_at(int gpu, double time) {
    double first = INFINITY, watts = 100;
    for (int i = 0; i < event_count; i++)
        if (events[i].gpu == gpu && !strcmp(events[i].key, "power_w") && events[i].at < first) {
            first = events[i].at;
            watts = events[i].value;
        }
    return value_at(gpu, "power_w", time, watts);
}

static double energy_j(int gpu, double begin, double end) {
    double joules = 0;
    while (begin < end) {
        double next = end;
        for (int i = 0; i < event_count; i++)
            if (events[i].gpu == gpu && events[i].at > begin && events[i].at < next) next = events[i].at;
        joules += power_at(gpu, begin) * (next - begin);
        begin = next;
    }
    return joules;
}

static double last_tick(int gpu, const char *key) {
    double period = value_at(gpu, key, 0, 0.1);
    return floor(now_s() / period) * period;
}

/* `counter_mj` sets the counter at a time, which is how it is reset; `frozen` stops it. */
static unsigned long long counter_mj(int gpu) {
    double tick = last_tick(gpu, "period_s"), set = 0, base = 5e6, stop = INFINITY;
    for (int i = 0; i < event_count; i++) {
        if (events[i].gpu != gpu) continue;
        if (!strcmp(events[i].key, "counter_mj") && events[i].at <= tick && events[i].at >= set) {
            set = events[i].at;
            base = events[i].value;
        }
        if (!strcmp(events[i].key, "frozen")) stop = events[i].at;
    }
    if (tick > stop) tick = stop;
    double quantum = value_at(gpu, "quantum_mj", 0, 1);
    double total = base + 1e3 * (tick >= set ? energy_j(gpu, set, tick) : -energy_j(gpu, tick, set));
    return total > 0 ? (unsigned long long)(floor(total / quantum) * quantum) : 0;
}

static double mean_power_mw(int gpu, const char *window_key, double window) {
    double tick = last_tick(gpu, "refresh_s");
    window = value_at(gpu, window_key, 0, window);
    return 1e3 * energy_j(gpu, tick - window, tick) / window;
}

/* ---- the library ---- */

static int index_of(const void *handle) {
    refresh();
    long index = (long)handle - 1;
    return index >= 0 && index < device_count ? (int)index : -1;
}

static void *handle_of(int index) { return (void *)(long)(index + 1); }

/* Every call on a device begins so: the script may make it fail; a MIG slice knows only a few questions. */
#define ON_DEVICE(gpu, handle)                                  \
    int gpu = index_of(handle);                                 \
    if (users == 0) return UNINITIALIZED;                       \
    if (gpu < 0) return INVALID;                                \
    int failure = failing(gpu, __func__);                       \
    if (failure) return failure

#define ON_GPU(gpu, handle)                                     \
    ON_DEVICE(gpu, handle);                                     \
    if (devices[gpu].parent >= 0) return NOT_SUPPORTED

#define ANSWER(name, type, expression)                          \
    int name(void *handle, type *answer) {                      \
        ON_GPU(gpu, handle);                                    \
        *answer = (type)(expression);                           \
        return OK;                                              \
    }

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    if (!getenv("FAKE_NVML")) return NO_DRIVER; /* a process keeps the library that an earlier test put under it */
    refresh();
    int failure = failing(-1, "nvmlInit");
    if (!failure) users++;
    return failure;
}

int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

int nvmlShutdown(void) {
    if (users == 0) return UNINITIALIZED;
    users--;
    return OK;
}

const char *nvmlErrorString(int result) {
    static char text[40];
    snprintf(text, sizeof text, "fake error %d", result);
    return text;
}

int nvmlSystemGetDriverVersion(char *text, unsigned length) {
    refresh();
    snprintf(text, length, "%s", driver);
    return OK;
}

int nvmlSystemGetCudaDriverVersion_v2(int *version) {
    *version = 13000;
    return OK;
}

static int gpu_at(unsigned index) { /* the index counts GPUs, not their slices */
    for (int i = 0; i < device_count; i++)
        if (devices[i].parent < 0 && index-- == 0) return i;
    return -1;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    refresh();
    for (*count = 0; gpu_at(*count) >= 0;) ++*count;
    return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    refresh();
    int gpu = gpu_at(index);
    if (gpu < 0) return INVALID;
    *handle = handle_of(gpu);
    return failing(gpu, __func__);
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
    refresh();
    for (int i = 0; i < device_count; i++)
        if (!strcmp(devices[i].uuid, uuid)) {
            *handle = handle_of(i);
            return failing(i, __func__);
        }
    return NOT_FOUND;
}

static int text_answer(char *text, unsigned length, const char *answer) {
    if (strlen(answer) >= length) return TOO_SMALL;
    strcpy(text, answer);
    return OK;
}

int nvmlDeviceGetUUID(void *handle, char *text, unsigned length) {
    ON_DEVICE(gpu, handle);
    return text_answer(text, length, devices[gpu].uuid);
}

int nvmlDeviceGetName(void *handle, char *text, unsigned length) {
    ON_DEVICE(gpu, handle);
    return text_answer(text, length, devices[gpu].name);
}

int nvmlDeviceGetIndex(void *handle, unsigned *index) {
    ON_GPU(gpu, handle);
    for (*index = 0; gpu_at(*index) != gpu;) ++*index;
    return OK;
}

int nvmlDeviceGetTotalEnergyConsumption(void *handle, unsigned long long *answer) {
    ON_GPU(gpu, handle);
    double read_s = value_now(gpu, "read_s", 0);
    if (read_s > 0) usleep((useconds_t)(1e6 * read_s));
    *answer = counter_mj(gpu);
    return OK;
}

ANSWER(nvmlDeviceGetPowerUsage, unsigned, mean_power_mw(gpu, "average_s", 1.0))
ANSWER(nvmlDeviceGetEnforcedPowerLimit, unsigned, 1e3 * value_now(gpu, "limit_w", 700))
ANSWER(nvmlDeviceGetPowerManagementLimit, unsigned, 1e3 * value_now(gpu, "limit_w", 700))
ANSWER(nvmlDeviceGetPowerManagementDefaultLimit, unsigned, 1e3 * value_now(gpu, "default_limit_w", 700))
static double most_w(int gpu) { return value_now(gpu, "max_limit_w", value_now(gpu, "default_limit_w", 700)); }

int nvmlDeviceGetPowerManagementLimitConstraints(void *handle, unsigned *least, unsigned *most) {
    ON_GPU(gpu, handle);
    *least = (unsigned)(1e3 * value_now(gpu, "min_limit_w", 200));
    *most = (unsigned)(1e3 * most_w(gpu));
    return OK;
}

/* What is set is one more line of the script, which every process sees; lines are of the script's last device. */
static int set(int gpu, const char *key, double value) {
    FILE *file = gpu == device_count - 1 ? fopen(getenv("FAKE_NVML"), "a") : NULL;
    if (!file) return UNKNOWN;
    fprintf(file, "at %.6f %s %g\n", now_s(), key, value);
    return fclose(file) ? UNKNOWN : OK;
}

int nvmlDeviceSetPowerManagementLimit(void *handle, unsigned milliwatts) {
    ON_GPU(gpu, handle);
    double watts = milliwatts / 1e3;
    if (watts < value_now(gpu, "min_limit_w", 200) || watts > most_w(gpu)) return INVALID;
    return set(gpu, "limit_w", watts);
}

int nvmlDeviceSetGpuLockedClocks(void *handle, unsigned least, unsigned most) {
    ON_GPU(gpu, handle);
    return least == most ? set(gpu, "locked_mhz", most) : INVALID;
}

int nvmlDeviceResetGpuLockedClocks(void *handle) {
    ON_GPU(gpu, handle);
    return set(gpu, "locked_mhz", 0);
}

int nvmlDeviceGetMaxClockInfo(void *handle, unsigned type, unsigned *answer) {
    ON_GPU(gpu, handle);
    if (type > 3) return INVALID;
    *answer = (unsigned)value_now(gpu, "top_clock_mhz", 1980);
    return OK;
}

ANSWER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, value_now(gpu, "throttle", 0))
ANSWER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, value_now(gpu, "throttle", 0))
ANSWER(nvmlDeviceGetPersistenceMode, unsigned, value_now(gpu, "persistence", 1))

int nvmlDeviceGetClockInfo(void *handle, unsigned type, unsigned *answer) {
    ON_GPU(gpu, handle);
    if (type > 3) return INVALID;
    double locked = value_now(gpu, "locked_mhz", 0);
    *answer = (unsigned)(locked > 0 ? locked : value_now(gpu, "clock_mhz", 1980));
    return OK;
}

int nvmlDeviceGetTemperature(void *handle, unsigned sensor, unsigned *answer) {
    ON_GPU(gpu, handle);
    if (sensor != 0) return INVALID;
    *answer = (unsigned)value_now(gpu, "temperature_c", 45);
    return OK;
}

int nvmlDeviceGetMemoryInfo(void *handle, Memory *memory) {
    ON_DEVICE(gpu, handle);
    double mib = 1048576.0, total = value_now(gpu, "total_mib", 81920), used = value_now(gpu, "used_mib", 500);
    *memory = (Memory){(unsigned long long)(total * mib), (unsigned long long)((total - used) * mib),
                       (unsigned long long)(used * mib)};
    return OK;
}

int nvmlDeviceGetUtilizationRates(void *handle, Utilization *answer) {
    ON_GPU(gpu, handle);
    *answer = (Utilization){(unsigned)value_now(gpu, "utilisation", 0), 0};
    return OK;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, ProcessInfo *infos) {
    ON_DEVICE(gpu, handle);
    unsigned found = 0, room = *count;
    for (int i = 0; i < process_count; i++) {
        if (processes[i].gpu != gpu) continue;
        if (infos && found < room)
            infos[found] = (ProcessInfo){processes[i].pid, (unsigned long long)(processes[i].mib * 1048576.0), 0, 0};
        found++;
    }
    *count = found;
    return found > (infos ? room : 0) ? TOO_SMALL : OK;
}

int nvmlDeviceGetMigMode(void *handle, unsigned *current, unsigned *pending) {
    ON_GPU(gpu, handle);
    *current = *pending = (unsigned)value_now(gpu, "mig_mode", 0);
    return OK;
}

int nvmlDeviceGetMaxMigDeviceCount(void *handle, unsigned *count) {
    ON_GPU(gpu, handle);
    *count = 7;
    return OK;
}

int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned index, void **slice) {
    ON_GPU(gpu, handle);
    for (int i = 0; i < device_count; i++)
        if (devices[i].parent == gpu && index-- == 0) {
            *slice = handle_of(i);
            return OK;
        }
    return NOT_FOUND;
}

int nvmlDeviceIsMigDeviceHandle(void *handle, unsigned *answer) {
    ON_DEVICE(gpu, handle);
    *answer = devices[gpu].parent >= 0;
    return OK;
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void *slice, void **handle) {
    ON_DEVICE(gpu, slice);
    if (devices[gpu].parent < 0) return INVALID;
    *handle = handle_of(devices[gpu].parent);
    return OK;
}

/* `memory_w` is the memory's part of the power; `ignores_scope` is a driver that answers with the whole of it. */
static double field_mw(int gpu, const FieldValue *value) {
    const char *window_key = value->field == 186 ? "instant_s" : "average_s";
    double whole = mean_power_mw(gpu, window_key, value->field == 186 ? 0.1 : 1.0);
    if (value->scope != 2 || value_now(gpu, "ignores_scope", 0) > 0) return whole;
    return 1e3 * value_now(gpu, "memory_w", -1);
}

int nvmlDeviceGetFieldValues(void *handle, int count, FieldValue *values) {
    ON_GPU(gpu, handle);
    for (int i = 0; i < count; i++) {
        char key[MAX_KEYS];
        snprintf(key, sizeof key, "field%u", values[i].field);
        values[i].result = (uint32_t)failing(gpu, key);
        values[i].type = 1; /* unsigned int */
        double milliwatts = values[i].field == 185 || values[i].field == 186 ? field_mw(gpu, &values[i]) : -1;
        if (milliwatts < 0) values[i].result = NOT_SUPPORTED;
        else values[i].value.ui = (unsigned)milliwatts;
    }
    return OK;
}

/* ---- GPM: a sample is its time; a metric is the mean of `gpmN` (percent) between two of them ---- */

int nvmlGpmQueryDeviceSupport(void *handle, GpmSupport *support) {
    ON_DEVICE(gpu, handle);
    if (support->version != 1) return VERSION_MISMATCH;
    support->supported = value_now(gpu, "gpm", 0) > 0;
    return OK;
}

int nvmlGpmSampleAlloc(GpmSample **sample) {
    *sample = calloc(1, sizeof **sample);
    return *sample ? OK : UNKNOWN;
}

int nvmlGpmSampleFree(GpmSample *sample) {
    free(sample);
    return OK;
}

int nvmlGpmSampleGet(void *handle, GpmSample *sample) {
    ON_GPU(gpu, handle);
    if (value_now(gpu, "gpm", 0) <= 0) return NOT_SUPPORTED;
    *sample = (GpmSample){gpu, now_s()};
    return OK;
}

static double mean_value(int gpu, const char *key, double begin, double end) {
    double sum = 0, from = begin;
    while (from < end) {
        double next = end;
        for (int i = 0; i < event_count; i++)
            if (events[i].gpu == gpu && events[i].at > from && events[i].at < next) next = events[i].at;
        sum += value_at(gpu, key, from, 0) * (next - from);
        from = next;
    }
    return sum / (end - begin);
}

int nvmlGpmMetricsGet(GpmMetrics *query) {
    refresh();
    if (query->version != 1) return VERSION_MISMATCH;
    const GpmSample *first = query->first, *second = query->second;
    int failure = failing(first->gpu, __func__);
    if (failure) return failure;
    if (first->gpu != second->gpu || second->time - first->time < 0.1) return INVALID;
    for (unsigned i = 0; i < query->count; i++) {
        char key[MAX_KEYS];
        snprintf(key, sizeof key, "gpm%u", query->metrics[i].number);
        query->metrics[i].result = (uint32_t)failing(first->gpu, key);
        query->metrics[i].value = mean_value(first->gpu, key, first->time, second->time);
    }
    return OK;
}
