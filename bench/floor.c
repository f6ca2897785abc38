/* floor.c: the limits of the machine without a broker: how long a small write takes until it is on disk, how many
 * bytes per second can be written in large writes, how long a message takes to and fro over a loopback socket, and
 * how many can be sent one way. */
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"

#define SAMPLES_MAX 1000000u
#define SMALL 4096u
#define LARGE (1u << 20)
#define FILE_SIZE (256u << 20)
/* Size in bytes of a message that is sent and returned: about a schedule of 128 bytes with its frame. */
#define MESSAGE_SIZE 200u
#define ONE_WAY_SIZE 65536u /* size in bytes of a message that is only sent: about a batch */

static uint64_t samples_ns[SAMPLES_MAX];

static size_t write_all(int fd, size_t size, uint64_t seconds, double *out_mb_per_s) {
    static char block[LARGE];
    memset(block, 'x', sizeof(block));
    const uint64_t start_ns = bench_now_ns(), end_ns = start_ns + seconds * 1000000000u;
    size_t count = 0;
    off_t at = 0;
    while (count < SAMPLES_MAX && bench_now_ns() < end_ns) {
        const uint64_t before_ns = bench_now_ns();
        if (pwrite(fd, block, size, at) != (ssize_t)size || fdatasync(fd) != 0) bench_die("cannot write");
        samples_ns[count++] = bench_now_ns() - before_ns;
        at = (at + (off_t)size) % (off_t)FILE_SIZE;
    }
    *out_mb_per_s = (double)count * (double)size / ((double)(bench_now_ns() - start_ns) / 1e9) / 1e6;
    bench_sort(samples_ns, count);
    return count;
}

/* Makes a file on the measured disk. Returns its descriptor, or -1 if it cannot be made. */
static int make_file(const char *path) {
    static const char zeroes[LARGE];
    const int fd = open(path, O_CREAT | O_RDWR | O_TRUNC | O_CLOEXEC, 0600);
    bool is_good = fd >= 0;
    for (off_t at = 0; is_good && at < (off_t)FILE_SIZE; at += LARGE) is_good = pwrite(fd, zeroes, LARGE, at) == LARGE;
    return is_good && fsync(fd) == 0 ? fd : -1;
}

/* The file exists already, as the segments of the log do. */
static bool measure_disk(const char *directory, uint64_t seconds) {
    char path[512];
    double mb_per_s = 0;
    snprintf(path, sizeof(path), "%s/floor.dat", directory);
    const int fd = make_file(path);
    if (fd < 0) return false;
    size_t count = write_all(fd, SMALL, seconds, &mb_per_s);
    printf(" sync_p50_us=%.0f sync_p99_us=%.0f sync_p999_us=%.0f", (double)bench_quantile(samples_ns, count, 0.5) / 1e3,
           (double)bench_quantile(samples_ns, count, 0.99) / 1e3,
           (double)bench_quantile(samples_ns, count, 0.999) / 1e3);
    write_all(fd, LARGE, seconds, &mb_per_s);
    printf(" disk_mb_per_s=%.0f", mb_per_s);
    close(fd);
    return unlink(path) == 0;
}

static void *echo(void *arg) {
    const int fd = *(int *)arg;
    char block[ONE_WAY_SIZE];
    for (;;) { /* send messages of MESSAGE_SIZE back, and drop larger ones */
        ssize_t size = read(fd, block, sizeof(block));
        if (size <= 0) return NULL;
        if (size == (ssize_t)MESSAGE_SIZE && write(fd, block, (size_t)size) != size) return NULL;
    }
}

/* Connects two sockets. Returns one of them; -1: there is no socket. */
static int connect_pair(int *out_other) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), near = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
        on = 1;
    if (door < 0 || near < 0 || bind(door, (struct sockaddr *)&address, size) != 0 || listen(door, 1) != 0 ||
        getsockname(door, (struct sockaddr *)&address, &size) != 0 ||
        connect(near, (struct sockaddr *)&address, size) != 0 || (*out_other = accept(door, NULL, NULL)) < 0)
        return -1;
    setsockopt(near, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(*out_other, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    close(door);
    return near;
}

static bool measure_socket(uint64_t seconds) {
    static char block[ONE_WAY_SIZE];
    int far = -1, near = connect_pair(&far);
    pthread_t other;
    if (near < 0) return false;
    if (pthread_create(&other, NULL, echo, &far) != 0) bench_die("no thread");
    size_t count = 0;
    uint64_t end_ns = bench_now_ns() + seconds * 1000000000u, sent = 0;
    while (count < SAMPLES_MAX && bench_now_ns() < end_ns) {
        const uint64_t before_ns = bench_now_ns();
        if (write(near, block, MESSAGE_SIZE) != (ssize_t)MESSAGE_SIZE) bench_die("the socket broke");
        if (read(near, block, MESSAGE_SIZE) != (ssize_t)MESSAGE_SIZE) bench_die("the socket broke");
        samples_ns[count++] = bench_now_ns() - before_ns;
    }
    bench_sort(samples_ns, count);
    printf(" turn_p50_us=%.1f turn_p99_us=%.1f", (double)bench_quantile(samples_ns, count, 0.5) / 1e3,
           (double)bench_quantile(samples_ns, count, 0.99) / 1e3);
    const uint64_t start_ns = bench_now_ns();
    for (end_ns = start_ns + seconds * 1000000000u; bench_now_ns() < end_ns; sent += ONE_WAY_SIZE)
        if (write(near, block, ONE_WAY_SIZE) != (ssize_t)ONE_WAY_SIZE) bench_die("the socket broke");
    printf(" socket_mb_per_s=%.0f", (double)sent / ((double)(bench_now_ns() - start_ns) / 1e9) / 1e6);
    shutdown(near, SHUT_RDWR);
    pthread_join(other, NULL);
    close(near);
    close(far);
    return true;
}

int main(int argc, char **argv) {
    const char *directory = ".";
    uint64_t seconds = 2;
    const struct bench_option options[] = {
        {"directory", "on which disk [.]", NULL, &directory},
        {"seconds", "for each of four figures", &seconds, NULL},
        {0},
    };
    bench_options(argc, argv, "The disk's and the socket's own speed.", options);
    if (seconds == 0) bench_die("out of range");
    printf("bench=floor");
    if (!measure_disk(directory, seconds)) bench_die("cannot write a file in %s", directory);
    if (!measure_socket(seconds)) bench_die("no socket");
    printf("\n");
    return 0;
}
