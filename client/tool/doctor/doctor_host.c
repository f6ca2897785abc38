/* doctor_host.c: this host: clocks, and the limits of processes as this one has them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/timex.h>

#include "findings.h"
#include "tarry_limits.h"

/* tarryd serves so many connections at once if it may have the descriptors (net/door.h). */
#define DESCRIPTORS_WANTED (16384u + 256u)
#define DESCRIPTORS_LEAST 1024u
#define LOCKED_LEAST (64u << 10) /* keys are kept out of swap */
#define YEAR_2024_MS 1704067200000ull
#define OFFSET_WARN_US 500000

static void look_at_clock(struct findings *findings) {
    struct timex clock = {0};
    if (wall_ms() < YEAR_2024_MS) {
        finding_add(findings, FOUND_FAIL, "clock", "set the clock: absolute times depend on it",
                    "this host's clock is years behind");
        return;
    }
    int state = adjtimex(&clock);
    if (state < 0) return;
    if (state == TIME_ERROR || (clock.status & STA_UNSYNC)) {
        finding_add(findings, FOUND_WARN, "clock",
                    "run chrony, ntpd or systemd-timesyncd (in a container: on its host)",
                    "nobody keeps this host's clock right");
        return;
    }
    long long offset_us = clock.status & STA_NANO ? clock.offset / 1000 : clock.offset;
    bool is_off = offset_us > OFFSET_WARN_US || offset_us < -OFFSET_WARN_US;
    finding_add(findings, is_off ? FOUND_WARN : FOUND_FINE, "clock",
                is_off ? "look at what keeps the clock: chronyc tracking" : NULL,
                "the clock is kept right, and off by about %lld µs", offset_us);
}

static void look_at_limit(struct findings *findings, int resource, const char *what, rlim_t least, rlim_t wanted,
                          const char *mend) {
    struct rlimit limit;
    if (getrlimit((__rlimit_resource_t)resource, &limit) != 0) return;
    enum found found = limit.rlim_max < least ? FOUND_FAIL : limit.rlim_max < wanted ? FOUND_WARN : FOUND_FINE;
    if (limit.rlim_max == RLIM_INFINITY)
        finding_add(findings, FOUND_FINE, "limits", NULL, "%s: no limit", what);
    else
        finding_add(findings, found, "limits", found == FOUND_FINE ? NULL : mend, "%s: %llu at most", what,
                    (unsigned long long)limit.rlim_max);
}

/* The whole text of a small file, without the line's end. False: it cannot be read. */
static bool read_line(const char *path, char *out, size_t size) {
    FILE *file = fopen(path, "re");
    if (file == NULL) return false;
    bool is_read = fgets(out, (int)size, file) != NULL;
    fclose(file);
    if (is_read) out[strcspn(out, "\n")] = 0;
    return is_read;
}

/* cgroup v2: of this process's group and of those above it, the least. */
static void look_at_cgroup(struct findings *findings) {
    char line[1024] = "", path[2048], value[64];
    unsigned long long least = UINT64_MAX;
    if (!read_line("/proc/self/cgroup", line, sizeof line) || strncmp(line, "0::", 3) != 0) return;
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
        finding_add(findings, FOUND_FINE, "memory", NULL, "no cgroup limits this host's processes");
        return;
    }
    bool is_small = least < 2 * MEMORY_DEFAULT;
    finding_add(findings, is_small ? FOUND_WARN : FOUND_FINE, "memory",
                is_small ? "give the group more (MemoryMax=), or tarryd less (--memory): it takes up to twice that"
                         : NULL,
                "the cgroup may have %llu MiB", least >> 20);
}

void doctor_host(struct findings *findings) {
    look_at_clock(findings);
    look_at_limit(findings, RLIMIT_NOFILE, "descriptors", DESCRIPTORS_LEAST, DESCRIPTORS_WANTED,
                  "LimitNOFILE=65536 in the unit, or ulimit -Hn: each connection is one");
    look_at_limit(findings, RLIMIT_MEMLOCK, "locked memory, in bytes", LOCKED_LEAST, LOCKED_LEAST,
                  "LimitMEMLOCK=1M in the unit: keys are kept out of swap");
    look_at_cgroup(findings);
}
