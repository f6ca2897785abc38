/* server_link.h: a connection to a server that is not ours, read in lines and counted bytes.
 *
 * Whatever it sends is hostile: a line has a limit, a count is refused before anything is allocated for it, and a
 * server that falls silent is given up after timeout_ms. A link that has failed says why in `error` and stays failed.
 * One thread. */
#ifndef TARRY_TOOL_IMPORT_LINK_H
#define TARRY_TOOL_IMPORT_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SERVER_LINK_ERROR_SIZE 256u
#define SERVER_LINK_ADDRESS_SIZE 300u

struct server_link {
    int fd;              /* -1: not open, or failed */
    uint64_t timeout_ms; /* without a byte in either direction */
    char *data;          /* owned; what has arrived and is not taken yet lies from start to end */
    size_t start;
    size_t end;
    size_t capacity;
    char error[SERVER_LINK_ERROR_SIZE]; /* what is wrong, in words; "": nothing */
};

/* Connects to "host", "host:port", "[v6]:port". False: see `error`; also for what is no such address. */
bool server_link_open(struct server_link *link, const char *address, const char *default_port, uint64_t timeout_ms);
/* A link that has received these bytes already, and whose server then hung up: for tests. */
void server_link_over(struct server_link *link, const void *bytes, size_t size);
void server_link_close(struct server_link *link);

/* Each is false after a failure, at once if there was one before. What is handed out is valid until the next call. */
bool server_link_send(struct server_link *link, const void *data, size_t size);
/* A line without its CR LF; a lone LF ends none. `size_max`: a longer one is a failure. Terminated. */
bool server_link_line(struct server_link *link, size_t size_max, const char **out_line, size_t *out_size);
/* Exactly `size` bytes. The caller has compared `size` with a limit. */
bool server_link_bytes(struct server_link *link, size_t size, const char **out_bytes);
/* The same, thrown away as they come: of any size. */
bool server_link_skip(struct server_link *link, uint64_t size);
/* Remembers what is wrong, if nothing is yet, and closes; returns false. */
bool server_link_fail(struct server_link *link, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
