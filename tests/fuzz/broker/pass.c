/* pass.c: see pass.h. */
#include "pass.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define NS_PER_S INT64_C(1000000000)
#define PAUSE_MIN_MS 500u /* minimum time between two jumps */
#define PAUSE_MAX_MS 3500u

#define MINUTE_S 60u
#define HOUR_S (60 * MINUTE_S)
#define DAY_S (24 * HOUR_S)

/* Jumps of the clock in seconds. Each jump is a little longer than one of the product's timeouts (tests/README.md,
 * Every timer fires). */
static const uint32_t jumps_s[] = {11,          MINUTE_S + 1, 11 * MINUTE_S, HOUR_S + 1,
                                   13 * HOUR_S, DAY_S,        DAY_S + 61,    DAY_S + HOUR_S};
#define JUMPS (sizeof(jumps_s) / sizeof(*jumps_s))

void pass_open(struct pass *pass, const char *path) {
    int fd = open(path, O_RDWR | O_CLOEXEC);
    void *map = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*pass->passed_ns), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        perror(path);
        exit(2);
    }
    close(fd);
    pass->passed_ns = map;
}

void pass_seconds(struct pass *pass, uint32_t seconds) {
    if (pass->passed_ns == NULL) return;
    *pass->passed_ns += seconds * NS_PER_S;
    pass->jumps++;
}

uint32_t pass_choose(struct pass *pass, struct random *random, uint64_t now_ms) {
    if (pass->passed_ns == NULL || now_ms < pass->next_ms) return 0;
    if (pass->next_ms ==
        0) { /* the first jump comes soon, so that a life of a few seconds has one, on a slow machine too */
        pass->next_ms = now_ms + PAUSE_MIN_MS;
        return 0;
    }
    pass->next_ms = now_ms + PAUSE_MIN_MS + random_below(random, PAUSE_MAX_MS - PAUSE_MIN_MS);
    return jumps_s[random_below(random, JUMPS)];
}
