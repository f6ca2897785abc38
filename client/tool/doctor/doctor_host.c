/* doctor_host.c: checks this host's clock, and the limits of the broker's process. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/timex.h>

#include "findings.h"
#include "tarry_limits.h"
#include "units.h"

/* Number of connections that tarryd serves at once if it has enough descriptors (net/door.h). */
#define DESCRIPTORS_WANTED (16384u + 256u)
#define DESCRIPTORS_LEAST 1024u
#define LOCKED_LEAST (64u << 10) /* bytes; the broker locks keys in memory, to keep them out of swap */
#define YEAR_2024_MS 1704067200000ull
#define OFFSET_WARN_US 100000 /* the kernel never reports more than half a second */

static void look_at_clock(struct findings *findings) {
    struct timex clock = {0};
    if (wall_ms() < YEAR_2024_MS) {
        finding_add(findings, FOUND_FAIL, "clock", "set the clock: absolute times depend on it",
                    "this host's clock is years in the past");
        return;
    }
    int state = adjtimex(&clock);
    if (state < 0) return;
    if (state == TIME_ERROR || (clock.status & STA_UNSYNC)) {
        finding_add(findings, FOUND_WARN, "clock",
                    "run chrony, ntpd or systemd-timesyncd (in a container: on its host)",
                    "no program synchronizes this host's clock");
        return;
    }
    long long offset_us = clock.status & STA_NANO ? clock.offset / 1000 : clock.offset;
    bool is_off = offset_us > OFFSET_WARN_US || offset_us < -OFFSET_WARN_US;
    finding_add(findings, is_off ? FOUND_WARN : FOUND_FINE, "clock",
                is_off ? "check the program that synchronizes the clock: chronyc tracking" : NULL,
                "the clock is synchronized, with an error of about %lld µs", offset_us);
}

/* Process whose limits are checked: the broker, if it runs and may be inspected; else this process, which has the
 * limits of a process that is started from here. */
struct subject {
    char proc[32]; /* "/proc/123" */
    char name[48]; /* name in messages */
};

/* Gets the hard limit of the line that begins with `line` in /proc/N/limits; RLIM_INFINITY: no limit. False: it
 * cannot be read. */
static bool read_limit(const struct subject *subject, const char *line, rlim_t *out) {
    char path[64], text[256];
    bool is_found = false;
    snprintf(path, sizeof path, "%s/limits", subject->proc);
    FILE *file = fopen(path, "re");
    if (file == NULL) return false;
    while (!is_found && fgets(text, sizeof text, file) != NULL) {
        char hard[32];
        if (strncmp(text, line, strlen(line)) != 0 || sscanf(text + strlen(line), "%*s %31s", hard) != 1) continue;
        *out = strcmp(hard, "unlimited") == 0 ? RLIM_INFINITY : strtoull(hard, NULL, 10);
        is_found = true;
    }
    fclose(file);
    return is_found;
}

static enum found judge(rlim_t limit, rlim_t least, rlim_t wanted) {
    return limit < least ? FOUND_FAIL : limit < wanted ? FOUND_WARN : FOUND_FINE;
}

static void look_at_descriptors(struct findings *findings, const struct subject *subject) {
    rlim_t limit;
    if (!read_limit(subject, "Max open files", &limit)) return;
    enum found found = judge(limit, DESCRIPTORS_LEAST, DESCRIPTORS_WANTED);
    if (limit == RLIM_INFINITY)
        finding_add(findings, FOUND_FINE, "limits", NULL, "%s may open any number of file descriptors", subject->name);
    else
        finding_add(findings, found, "limits",
                    found == FOUND_FINE ? NULL
                                        : "set LimitNOFILE=65536 in the unit, or run `ulimit -Hn 65536` before the "
                                          "broker: each connection uses one",
                    "%s may open %llu file descriptors", subject->name, (unsigned long long)limit);
}

static void look_at_locked_memory(struct findings *findings, const struct subject *subject) {
    rlim_t limit;
    char size[UNITS_TEXT_SIZE];
    if (!read_limit(subject, "Max locked memory", &limit)) return;
    enum found found = judge(limit, LOCKED_LEAST, LOCKED_LEAST);
    if (limit == RLIM_INFINITY)
        finding_add(findings, FOUND_FINE, "limits", NULL, "%s may lock any amount of memory", subject->name);
    else
        finding_add(findings, found, "limits",
                    found == FOUND_FINE ? NULL
                                        : "set LimitMEMLOCK=1M in the unit: locked memory keeps keys out of swap space",
                    "%s may lock %s of memory", subject->name, size_format(limit, size));
}

/* Reads the text of a small file, without its line end. False: it cannot be read. */
static bool read_line(const char *path, char *out, size_t size) {
    FILE *file = fopen(path, "re");
    if (file == NULL) return false;
    bool is_read = fgets(out, (int)size, file) != NULL;
    fclose(file);
    if (is_read) out[strcspn(out, "\n")] = 0;
    return is_read;
}

/* Checks the memory limit of cgroup v2: the lowest one of the process's group and its parent groups. */
static void look_at_cgroup(struct findings *findings, const struct subject *subject) {
    char line[1024] = "", path[2048], value[64];
    unsigned long long least = UINT64_MAX;
    snprintf(path, sizeof path, "%s/cgroup", subject->proc);
    if (!read_line(path, line, sizeof line) || strncmp(line, "0::", 3) != 0) return;
    char *group = line + 3;
    for (;;) {
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", strcmp(group, "/") == 0 ? "" : group);
        if (read_line(path, value, sizeof value) && strcmp(value, "max") != 0) {
            unsigned long long bytes = strtoull(value, NULL, 10);
            if (bytes < least) least = bytes;
        }
        char *slash = strrchr(group, '/');
        if (slash == NULL || slash == group) break;
        *slash = 0;
    }
    if (least == UINT64_MAX) {
        finding_add(findings, FOUND_FINE, "memory", NULL, "no cgroup limits the memory of %s", subject->name);
        return;
    }
    bool is_small = least < 2 * MEMORY_DEFAULT;
    finding_add(findings, is_small ? FOUND_WARN : FOUND_FINE, "memory",
                is_small
                    ? "give the group more memory (MemoryMax=), or tarryd less (--memory): tarryd uses up to twice that"
                    : NULL,
                "the cgroup of %s may use %llu MiB", subject->name, least >> 20);
}

void doctor_host(struct findings *findings, const char *directory, bool is_running) {
    struct subject subject = {.proc = "/proc/self", .name = "a process started here"};
    long process = is_running ? doctor_broker_process(directory) : 0;
    look_at_clock(findings);
    if (is_running && process == 0) {
        finding_add(findings, FOUND_WARN, "limits", "run this command as the broker's user or root, on its host",
                    "the broker's process is not visible, so its limits cannot be checked");
        return;
    }
    if (process != 0) {
        snprintf(subject.proc, sizeof subject.proc, "/proc/%ld", process);
        snprintf(subject.name, sizeof subject.name, "the broker (process %ld)", process);
    }
    look_at_descriptors(findings, &subject);
    look_at_locked_memory(findings, &subject);
    look_at_cgroup(findings, &subject);
}
