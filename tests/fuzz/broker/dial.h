/* dial.h: a connection to a port on loopback. */
#ifndef TARRY_TESTS_FUZZ_BROKER_DIAL_H
#define TARRY_TESTS_FUZZ_BROKER_DIAL_H

#include <stdbool.h>
#include <stdint.h>

/* Returns the connected socket; -1: no process listens. */
int dial(uint16_t port);
/* Closes the connection. `reset`: data that the other side has not read is lost. */
void dial_close(int fd, bool reset);

#endif
