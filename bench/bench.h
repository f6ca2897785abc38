/* bench.h: shared by the end-to-end benches. They use only the public client.
 *
 * Every bench prints one line of name=value pairs to standard output, and prints the reason of a failure. */
#ifndef TARRY_BENCH_H
#define TARRY_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tarry.h"

/* An option `--name value`. If `text` is not NULL, the value is text; otherwise it is a whole number. */
struct bench_option {
    const char *name;
    const char *help;
    uint64_t *number;
    const char **text;
};

/* Parses the command line, or prints help and exits. An option without a name ends the array. */
void bench_options(int argc, char **argv, const char *purpose, const struct bench_option *options);

/* Prints the reason and exits with status 1. */
_Noreturn void bench_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

uint64_t bench_now_ns(void);  /* CLOCK_MONOTONIC */
uint64_t bench_wall_ms(void); /* CLOCK_REALTIME */
uint64_t bench_wall_us(void);
void bench_sleep_until_ns(uint64_t then_ns);

/* Returns a socket to 127.0.0.1, without Nagle's delay; exits on failure. */
int bench_dial(uint16_t port);

/* Returns a client for `urls` (NULL: $TARRY_BROKER, else the default). The caller closes it. */
tarry_client *bench_client(const char *urls, uint32_t commits_in_flight);

/* xorshift64*, whose numbers are good enough to scatter keys and times. The state must not be 0. */
uint64_t bench_random(uint64_t *state);

/* Writes hexadecimal digits; returns where they end. */
char *bench_hex(char *out, uint64_t value, int digits);
/* Writes a scattered key that contains the number: hexadecimal, "scattered-number". Returns its size. (With printf
 * it took more instructions than everything that libtarry does with the task.) */
#define BENCH_KEY_SIZE 40
size_t bench_key(char key[BENCH_KEY_SIZE], uint64_t scattered, uint64_t number);

/* bench_sort sorts the samples. bench_quantile returns the q-quantile (q from 0 to 1) of sorted samples; 0 if there are
 * no samples. */
void bench_sort(uint64_t *samples, size_t count);
uint64_t bench_quantile(const uint64_t *sorted, size_t count, double q);

/* Waits until the index has absorbed the whole log, or exits after wait_s seconds. */
void bench_wait_indexed(tarry_client *client, uint64_t wait_s);

#endif
