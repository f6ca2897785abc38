/* bench.c: see bench.h. */
#include "bench.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

static void print_help(const char *program, const char *purpose, const struct bench_option *options) {
    printf("usage: %s [--OPTION VALUE]...\n\n%s\n\n", program, purpose);
    for (; options->name != NULL; options++) {
        if (options->number != NULL)
            printf("  --%-16s %s [%llu]\n", options->name, options->help, (unsigned long long)*options->number);
        else
            printf("  --%-16s %s\n", options->name, options->help);
    }
}

static uint64_t parse_number(const char *name, const char *text) {
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0)
        bench_die("--%s wants a whole number, not '%s'", name, text);
    return value;
}

void bench_options(int argc, char **argv, const char *purpose, const struct bench_option *options) {
    for (int i = 1; i < argc; i += 2) {
        if (strcmp(argv[i], "--help") == 0) {
            print_help(argv[0], purpose, options);
            exit(0);
        }
        const struct bench_option *option = options;
        while (option->name != NULL && (strncmp(argv[i], "--", 2) != 0 || strcmp(argv[i] + 2, option->name) != 0))
            option++;
        if (option->name == NULL) bench_die("unknown option '%s'; try --help", argv[i]);
        if (i + 1 == argc) bench_die("%s needs a value", argv[i]);
        if (option->text != NULL)
            *option->text = argv[i + 1];
        else
            *option->number = parse_number(option->name, argv[i + 1]);
    }
}

void bench_die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("bench: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

static uint64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t bench_now_ns(void) {
    return clock_ns(CLOCK_MONOTONIC);
}

uint64_t bench_wall_ms(void) {
    return clock_ns(CLOCK_REALTIME) / 1000000u;
}

uint64_t bench_wall_us(void) {
    return clock_ns(CLOCK_REALTIME) / 1000u;
}

void bench_sleep_until_ns(uint64_t then_ns) {
    struct timespec then = {.tv_sec = (time_t)(then_ns / 1000000000u), .tv_nsec = (long)(then_ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &then, NULL) == EINTR) continue;
}

int bench_dial(uint16_t port) {
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons(port),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0)
        bench_die("cannot connect to 127.0.0.1:%u", port);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

tarry_client *bench_client(const char *urls, uint32_t commits_in_flight) {
    if (urls == NULL) urls = getenv("TARRY_BROKER");
    struct tarry_options options = {.urls = urls,
                                    .name = "bench",
                                    .commits_in_flight = commits_in_flight,
                                    .queued_size_max = 256u << 20};
    tarry_client *client = NULL;
    int rc = tarry_open(&options, &client);
    if (rc == TARRY_OK) rc = tarry_ping(client, NULL);
    if (rc != TARRY_OK) bench_die("no broker: %s", tarry_code_sentence(rc));
    return client;
}

uint64_t bench_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 2685821657736338717u;
}

char *bench_hex(char *out, uint64_t value, int digits) {
    for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) *out++ = "0123456789abcdef"[value >> shift & 15];
    return out;
}

size_t bench_key(char key[BENCH_KEY_SIZE], uint64_t scattered, uint64_t number) {
    char *end = bench_hex(key, scattered, 16);
    *end++ = '-';
    end = bench_hex(end, number, (67 - __builtin_clzll(number | 1)) / 4);
    *end = '\0';
    return (size_t)(end - key);
}

static int compare(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

void bench_sort(uint64_t *samples, size_t count) {
    if (count > 0) qsort(samples, count, sizeof *samples, compare);
}

uint64_t bench_quantile(const uint64_t *sorted, size_t count, double q) {
    if (count == 0) return 0;
    size_t at = (size_t)(q * (double)(count - 1) + 0.5);
    return sorted[at];
}

void bench_wait_indexed(tarry_client *client, uint64_t wait_s) {
    uint64_t end_ns = bench_now_ns() + wait_s * 1000000000u, appended = 0;
    for (;;) {
        struct tarry_stats_view *stats = NULL;
        char message[TARRY_MESSAGE_SIZE];
        int rc = tarry_stats(client, NULL, NULL, &stats, message);
        if (rc != TARRY_OK) bench_die("stats: %s %s", tarry_code_sentence(rc), message);
        /* Wait only for the frames that are appended now. The broker may append further frames (seals) when it is
         * idle. */
        if (appended == 0) appended = stats->broker->appended;
        bool is_caught_up = stats->broker->indexed >= appended;
        uint64_t indexed = stats->broker->indexed;
        tarry_stats_free(stats);
        if (is_caught_up) return;
        if (bench_now_ns() > end_ns)
            bench_die("the index stands at %llu of %llu after %llu s", (unsigned long long)indexed,
                      (unsigned long long)appended, (unsigned long long)wait_s);
        bench_sleep_until_ns(bench_now_ns() + 2000000u);
    }
}
