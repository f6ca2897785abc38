/* clock.c: see clock.h. It does not log: the caller logs changes of `held`. */
#include "clock.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- clocks that cannot be set */

void monotonic_cond_init(pthread_cond_t *cond) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    int error = pthread_cond_init(cond, &attributes);
    assert(error == 0);
    pthread_condattr_destroy(&attributes);
}

uint64_t boottime_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_BOOTTIME, &time);
    return (uint64_t)time.tv_sec * 1000000000ull + (uint64_t)time.tv_nsec;
}

uint64_t monotonic_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000ull + (uint64_t)time.tv_nsec;
}

struct timespec monotonic_after(uint64_t wait_ns) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    uint64_t ns = (uint64_t)time.tv_nsec + wait_ns % 1000000000ull;
    time.tv_sec += (time_t)(wait_ns / 1000000000ull + ns / 1000000000ull);
    time.tv_nsec = (long)(ns % 1000000000ull);
    return time;
}

/* ---- logical time */

#define SAMPLES 16

static uint64_t max_u64(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* Returns whether `sample` is further ahead of the expected wall time than allowed. The expected wall time is the last
 * time at which wall time advanced, plus the BOOTTIME since. A clock that was set back and then corrected is no jump. A
 * wrong clock stays unbelieved, however long it runs. For a backward jump no check is needed, because wall time stands
 * still until the machine's clock reaches it again. */
static bool clock_jumps(const struct clock_state *state, struct sample sample) {
    uint64_t line_ns = state->high.real_ns + (sample.boot_ns - state->high.boot_ns);
    return sample.real_ns > line_ns && sample.real_ns - line_ns > state->jump_max_ns;
}

void clock_begin(struct clock_state *state, struct clock_origin origin, struct sample first) {
    struct instant last = origin.last;
    if (last.steady_ns == 0 && last.wall_ns == 0) last = (struct instant){first.real_ns, first.real_ns};
    *state = (struct clock_state){
        .now = last,
        .boot_from = first.boot_ns,
        .high = {.real_ns = last.wall_ns, .boot_ns = first.boot_ns},
        .jump_max_ns = CLOCK_JUMP_START_MS * NS_PER_MS,
    };
    bool jumps = clock_jumps(state, first);
    state->accepted = jumps && origin.accept_jump;
    state->held = jumps && !origin.accept_jump;
    if (state->accepted) state->jump_max_ns = UINT64_MAX;
    /* Steady time advances by the time that has passed since the last run. If the machine has not rebooted, BOOTTIME
     * gives this time. After a reboot it is the difference of the wall clocks, unless the difference is too large to be
     * believed. If steady time is ahead of wall time, wall time stood still for a while (held, or set back). Steady
     * time already contains this time, so it is not added again (TIME-1). */
    uint64_t counted_ns = max_u64(last.wall_ns, last.steady_ns);
    if (origin.boot_steady_ns != 0)
        state->now.steady_ns = max_u64(last.steady_ns, origin.boot_steady_ns + first.boot_ns);
    else if (!state->held && first.real_ns > counted_ns)
        state->now.steady_ns += first.real_ns - counted_ns;
    state->steady_from = state->now.steady_ns;
    clock_advance(state, first);
}

struct instant clock_advance(struct clock_state *state, struct sample sample) {
    /* BOOTTIME does not go back, but samples of two threads may arrive in reverse order. */
    sample.boot_ns = max_u64(sample.boot_ns, state->high.boot_ns);
    uint64_t steady_ns = state->steady_from;
    if (sample.boot_ns > state->boot_from) steady_ns += sample.boot_ns - state->boot_from;
    state->now.steady_ns = max_u64(state->now.steady_ns, steady_ns);
    state->held = clock_jumps(state, sample);
    if (!state->held) {
        state->jump_max_ns = CLOCK_JUMP_RUN_MS * NS_PER_MS;
        if (sample.real_ns >= state->now.wall_ns) {
            state->now.wall_ns = sample.real_ns;
            state->high = sample;
        }
    }
    return state->now; /* steady and wall time only grow (TIME-2) */
}

static uint64_t read_ns(clockid_t id) {
    struct timespec time;
    int error = clock_gettime(id, &time);
    assert(error == 0);
    return (uint64_t)time.tv_sec * 1000000000ull + (uint64_t)time.tv_nsec;
}

uint64_t clock_host_ms(void) {
    return read_ns(CLOCK_REALTIME) / NS_PER_MS;
}

static struct sample sample_now(void) {
    struct sample sample;
    sample.real_ns = read_ns(CLOCK_REALTIME);
    sample.boot_ns = read_ns(CLOCK_BOOTTIME);
    return sample;
}

/* The first sample sets steady time for the whole run. So take several samples, and use the one whose two clocks were
 * read with the shortest delay between them. */
static struct sample sample_closest(void) {
    struct sample best = sample_now();
    for (int i = 1; i < SAMPLES; i++) {
        struct sample sample = sample_now();
        if (sample.real_ns - sample.boot_ns + best.boot_ns > best.real_ns) best = sample;
    }
    return best;
}

void clock_init(struct clock *clock, struct clock_origin origin) {
    pthread_mutex_init(&clock->mutex, NULL);
    clock_begin(&clock->state, origin, sample_closest());
    clock->stopped = false;
}

void clock_restart(struct clock *clock, struct clock_origin origin) {
    struct sample first = sample_closest();
    pthread_mutex_lock(&clock->mutex);
    clock_begin(&clock->state, origin, first);
    pthread_mutex_unlock(&clock->mutex);
}

void clock_init_stopped(struct clock *clock, struct instant at) {
    pthread_mutex_init(&clock->mutex, NULL);
    clock->state = (struct clock_state){.now = at};
    clock->stopped = true;
}

uint64_t clock_boot_steady(const struct clock *clock) {
    const struct clock_state *state = &clock->state; /* steady_from and boot_from are constant after the start */
    return state->steady_from > state->boot_from ? state->steady_from - state->boot_from : 0;
}

struct instant clock_now(struct clock *clock, bool *out_held) {
    pthread_mutex_lock(&clock->mutex);
    struct instant now = clock->stopped ? clock->state.now : clock_advance(&clock->state, sample_now());
    if (out_held != NULL) *out_held = clock->state.held;
    pthread_mutex_unlock(&clock->mutex);
    return now;
}

/* ---- this boot of the machine */

#define BOOT_ID_PATH "/proc/sys/kernel/random/boot_id"
#define TIME_NAMESPACE_PATH "/proc/self/ns/time"
#define BOOT_ID_SIZE 36
#define NAME_SIZE 128
#define NOTE_SIZE (NAME_SIZE + 32)
#define PATH_SIZE 1200

/* Reads a file as a string; empty if it cannot be read. */
static void read_text(const char *path, char *out, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, out, size - 1);
    if (fd >= 0) close(fd);
    out[got > 0 ? got : 0] = '\0';
}

/* Makes a name that is unique to this boot and time namespace: BOOTTIME differs between time namespaces. */
static bool boot_name(char out[NAME_SIZE]) {
    char id[BOOT_ID_SIZE + 1], space[64];
    read_text(BOOT_ID_PATH, id, sizeof(id));
    ssize_t got = readlink(TIME_NAMESPACE_PATH, space, sizeof(space) - 1);
    space[got > 0 ? got : 0] = '\0';
    snprintf(out, NAME_SIZE, "%s %s", id, space);
    return strlen(id) == BOOT_ID_SIZE;
}

uint64_t boot_recall(const char *directory) {
    char path[PATH_SIZE], name[NAME_SIZE], note[NOTE_SIZE], expected[NOTE_SIZE];
    uint64_t steady_ns;
    snprintf(path, sizeof(path), "%s/boot", directory);
    read_text(path, note, sizeof(note));
    if (!boot_name(name) || strncmp(note, name, strlen(name)) != 0) return 0;
    if (sscanf(note + strlen(name), " %" SCNu64, &steady_ns) != 1) return 0;
    snprintf(expected, sizeof(expected), "%s %" PRIu64 "\n", name, steady_ns);
    return strcmp(note, expected) == 0 ? steady_ns : 0;
}

int boot_note(const char *directory, uint64_t steady_ns) {
    char path[PATH_SIZE], fresh[PATH_SIZE], name[NAME_SIZE];
    if (!boot_name(name)) return 0;
    snprintf(path, sizeof(path), "%s/boot", directory);
    snprintf(fresh, sizeof(fresh), "%s/boot.new", directory);
    int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int error = fd < 0 ? errno : 0;
    if (error == 0 && dprintf(fd, "%s %" PRIu64 "\n", name, steady_ns) < 0) error = errno;
    if (fd >= 0 && close(fd) != 0 && error == 0) error = errno;
    if (error == 0 && rename(fresh, path) != 0) error = errno;
    if (error != 0) (void)unlink(path);
    return error;
}
