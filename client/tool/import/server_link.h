/* server_link.h: connection to a foreign server, read in lines and counted bytes.
 *
 * The server is not trusted: lines have a maximum size, counts are checked before memory is allocated for them, and a
 * silent server fails the link after timeout_ms. A failed link has its error in `error`, and stays failed. One
 * thread. */
#ifndef TARRY_TOOL_IMPORT_LINK_H
#define TARRY_TOOL_IMPORT_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SERVER_LINK_ERROR_SIZE 256u
#define SERVER_LINK_ADDRESS_SIZE 300u

struct server_link {
    int fd;              /* descriptor of the socket; -1: not open, or failed */
    uint64_t timeout_ms; /* the link fails if no byte is sent or received for this time */
    char *data;          /* owned; received bytes that are not read yet are between start and end */
    size_t start;
    size_t end;
    size_t capacity;
    char error[SERVER_LINK_ERROR_SIZE]; /* error message; empty: none */
};

/* Connects to "host", "host:port" or "[v6]:port". False: see `error`; also for an invalid address. */
bool server_link_open(struct server_link *link, const char *address, const char *default_port, uint64_t timeout_ms);
/* Makes a link that has received these bytes and was closed by its server: for tests. */
void server_link_over(struct server_link *link, const void *bytes, size_t size);
void server_link_close(struct server_link *link);

/* Each of these functions returns false if it fails, or if the link has failed before. Returned memory is valid until
 * the next call. */
bool server_link_send(struct server_link *link, const void *data, size_t size);
/* Reads a line, terminated, without its CR LF; a single LF does not end a line. A line longer than `size_max` is a
 * failure. */
bool server_link_line(struct server_link *link, size_t size_max, const char **out_line, size_t *out_size);
/* Reads exactly `size` bytes. The caller has checked `size` against a limit. */
bool server_link_bytes(struct server_link *link, size_t size, const char **out_bytes);
/* Reads and discards `size` bytes; any size is allowed. */
bool server_link_skip(struct server_link *link, uint64_t size);
/* Closes the link with an error message, unless it has one already. Returns false. */
bool server_link_fail(struct server_link *link, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
