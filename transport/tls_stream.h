/* tls_stream.h: TLS on a client's non-blocking socket, with OpenSSL. It always verifies the server: the certificate,
 * against the authorities of its context, and the name or address of the host. No option turns this off. */
#ifndef TARRY_TLS_STREAM_H
#define TARRY_TLS_STREAM_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <sys/types.h>

#define TLS_SAID_MAX 256u

/* Gives the OpenSSL context of a connection: trusted authorities, and the client's certificate. */
struct tls_source {
    /* Returns a reference to a context, which the caller frees. NULL: `said` has the error. Called for each connection,
     * so certificates may be replaced while the program runs. */
    SSL_CTX *(*context)(void *argument, char said[TLS_SAID_MAX]);
    void *argument;
};

struct tls_stream;

/* Creates TLS for the non-blocking socket `fd`, which the caller keeps. `host`: the name or address that the server's
 * certificate must have. NULL: `said` has the error. */
struct tls_stream *tls_stream_new(int fd, const char *host, const struct tls_source *source, char said[TLS_SAID_MAX]);
/* Frees the stream; `tls` may be NULL. */
void tls_stream_free(struct tls_stream *tls);

enum tls_progress { TLS_DONE, TLS_WANTS_READ, TLS_WANTS_WRITE, TLS_FAILED };

enum tls_progress tls_stream_handshake(struct tls_stream *tls, char said[TLS_SAID_MAX]);
/* Return the number of bytes; 0: end of stream; -EAGAIN: not now; -EPROTO: error. Only one thread at a time may call
 * one of these two functions. *out_wants_write: set if a read returned -EAGAIN because TLS must write first. */
ssize_t tls_stream_read(struct tls_stream *tls, void *bytes, size_t size, bool *out_wants_write);
ssize_t tls_stream_write(struct tls_stream *tls, const void *bytes, size_t size);
/* True: received bytes are buffered in TLS, so the socket's events will not announce them. */
bool tls_stream_has_pending(struct tls_stream *tls);
/* True: TLS has read all bytes from the socket, so the socket's next event announces new bytes. */
bool tls_stream_is_drained(struct tls_stream *tls);
/* Sends the TLS close alert. */
void tls_stream_say_end(struct tls_stream *tls);

#endif
