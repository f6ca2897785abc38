/* dial.h: a connection to a port on loopback. */
#ifndef TARRY_TESTS_FUZZ_BROKER_DIAL_H
#define TARRY_TESTS_FUZZ_BROKER_DIAL_H

#include <stdbool.h>
#include <stdint.h>

/* -1: nobody listens. */
int dial(uint16_t port);
/* With a reset, what the other side has not read is lost. */
void dial_close(int fd, bool reset);

#endif
