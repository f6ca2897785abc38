/* tls.h: TLS below a connection, by OpenSSL. It checks the server: its certificate against the authorities in a file,
 * or the system's, and the name or address that was dialled. There is no way to leave that out.
 *
 * OpenSSL and not mbedTLS: 2.28, Debian 12's, has no TLS 1.3, does not check a certificate's addresses
 * (wss://127.0.0.1), and knows no system store; and libwebsockets, the other end, is OpenSSL too. */
#ifndef TARRY_TLS_H
#define TARRY_TLS_H

#include <stdbool.h>
#include <sys/types.h>

#define TLS_SAID_MAX 256u

/* Files; NULL: none. Read at each connect, so that they may be replaced. */
struct tls_files {
    const char *ca;   /* PEM: authorities that the server's certificate may be of; NULL: the system's */
    const char *cert; /* PEM: this client's certificate, and those between it and its authority … */
    const char *key;  /* … and its key; NULL: in `cert` */
};

struct tls;

/* For the socket `fd`, which does not block and stays the caller's. NULL: `said` says why. */
struct tls *tls_new(int fd, const char *host, const struct tls_files *files, char said[TLS_SAID_MAX]);
/* NULL is fine. */
void tls_free(struct tls *tls);

enum tls_progress { TLS_DONE, TLS_WANTS_READ, TLS_WANTS_WRITE, TLS_FAILED };

enum tls_progress tls_handshake(struct tls *tls, char said[TLS_SAID_MAX]);
/* Bytes; 0: the end; -EAGAIN; -EPROTO. One thread at a time for both. *out_wants_write, with -EAGAIN of a read: it
 * waits for room to write. */
ssize_t tls_read(struct tls *tls, void *bytes, size_t size, bool *out_wants_write);
ssize_t tls_write(struct tls *tls, const void *bytes, size_t size);
/* Something was received that has not been read: no news of the socket will tell so. */
bool tls_has_pending(struct tls *tls);
/* Everything that the socket had has been read: its next news tells of more. */
bool tls_is_drained(struct tls *tls);
/* Says that the end is meant. */
void tls_say_end(struct tls *tls);

#endif
