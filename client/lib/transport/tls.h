/* tls.h: TLS for a connection, with OpenSSL. It always verifies the server: the certificate, against the authorities
 * in a file or the system's, and the name or address of the host. No option turns this off.
 *
 * Why not mbedTLS: version 2.28 of Debian 12 has no TLS 1.3, does not verify IP addresses in certificates
 * (wss://127.0.0.1) and cannot use the system's authorities. The broker's libwebsockets uses OpenSSL too. */
#ifndef TARRY_TLS_H
#define TARRY_TLS_H

#include <stdbool.h>
#include <sys/types.h>

#define TLS_SAID_MAX 256u

/* Paths of PEM files; NULL: none. They are read at each connect, so they may be replaced. */
struct tls_files {
    const char *ca;   /* trusted authorities for the server's certificate; NULL: the system's */
    const char *cert; /* certificate of this client, followed by intermediate certificates */
    const char *key;  /* its private key; NULL: in `cert` */
};

struct tls;

/* Creates TLS for the non-blocking socket `fd`, which the caller keeps. NULL: `said` has the error. */
struct tls *tls_new(int fd, const char *host, const struct tls_files *files, char said[TLS_SAID_MAX]);
/* NULL is allowed. */
void tls_free(struct tls *tls);

enum tls_progress { TLS_DONE, TLS_WANTS_READ, TLS_WANTS_WRITE, TLS_FAILED };

enum tls_progress tls_handshake(struct tls *tls, char said[TLS_SAID_MAX]);
/* Return the number of bytes; 0: end of stream; -EAGAIN; -EPROTO. Only one thread at a time may call either.
 * *out_wants_write: set if a read returned -EAGAIN because TLS must write first. */
ssize_t tls_read(struct tls *tls, void *bytes, size_t size, bool *out_wants_write);
ssize_t tls_write(struct tls *tls, const void *bytes, size_t size);
/* True: received bytes are buffered in TLS, so the socket's events will not announce them. */
bool tls_has_pending(struct tls *tls);
/* True: all bytes of the socket have been read, so its next event announces new ones. */
bool tls_is_drained(struct tls *tls);
/* Sends the TLS close alert. */
void tls_say_end(struct tls *tls);

#endif
