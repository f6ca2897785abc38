/* clock_shim.c: preloaded into tarryd by clock.py: a test sets CLOCK_REALTIME and CLOCK_BOOTTIME, also while the broker
 * runs. CLOCK_MONOTONIC is not changed.
 *
 * libfaketime is not used because it moves BOOTTIME together with MONOTONIC or not at all. So it cannot simulate a
 * suspend, during which BOOTTIME advances and MONOTONIC does not. It also changes how long waits take, which only the
 * kernel may decide here.
 *
 * The file that $TARRY_CLOCK_SHIM names is mapped; `version` is odd while the test writes. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S INT64_C(1000000000)

struct shim {
    _Atomic uint64_t version;
    _Atomic int64_t real_offset_ns;
    _Atomic int64_t boot_offset_ns;
    _Atomic int64_t rate_ppm;       /* how much faster REALTIME runs, in ppm */
    _Atomic int64_t rate_anchor_ns; /* MONOTONIC time from which rate_ppm applies */
};

static const struct shim *shim;

__attribute__((constructor)) static void shim_open(void) {
    const char *path = getenv("TARRY_CLOCK_SHIM");
    int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    void *map = mmap(NULL, sizeof(struct shim), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED) abort();
    shim = map;
}

static int kernel_gettime(clockid_t id, struct timespec *out) {
    return (int)syscall(SYS_clock_gettime, id, out);
}

static int64_t monotonic_ns(void) {
    struct timespec now;
    kernel_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static int64_t offset_ns(clockid_t id) {
    for (;;) {
        uint64_t version = shim->version;
        int64_t offset = id == CLOCK_BOOTTIME ? shim->boot_offset_ns : shim->real_offset_ns;
        int64_t rate_ppm = id == CLOCK_BOOTTIME ? 0 : shim->rate_ppm;
        int64_t anchor_ns = shim->rate_anchor_ns;
        if (version % 2 != 0 || version != shim->version) continue;
        return offset + (rate_ppm == 0 ? 0 : (monotonic_ns() - anchor_ns) / 1000 * rate_ppm / 1000);
    }
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *out) {
    int result = kernel_gettime(id, out);
    if (result != 0 || shim == NULL || (id != CLOCK_REALTIME && id != CLOCK_BOOTTIME)) return result;
    int64_t ns = out->tv_sec * NS_PER_S + out->tv_nsec + offset_ns(id);
    out->tv_sec = ns / NS_PER_S;
    out->tv_nsec = ns % NS_PER_S;
    return 0;
}
