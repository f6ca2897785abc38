/* tls_stream.c: see tls_stream.h. It has its own socket BIO, because OpenSSL's would raise SIGPIPE in the sending
 * thread. */
#include "tls_stream.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define AHEAD_SIZE 4096u

struct tls_stream {
    SSL *ssl;
    int fd;
    bool is_broken;  /* OpenSSL reported a fatal error and must not be called again */
    bool is_drained; /* the last receive took all bytes of the socket */
    /* OpenSSL reads a record's header and then its body. Short reads come from this buffer, so one system call is
     * enough. */
    size_t at; /* start and end of the buffered bytes */
    size_t end;
    uint8_t ahead[AHEAD_SIZE];
};

/* ---- the socket */

static int socket_write(BIO *bio, const char *bytes, int size) {
    ssize_t gave;
    const struct tls_stream *tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    do gave = send(tls->fd, bytes, (size_t)size, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (gave < 0 && errno == EINTR);
    if (gave < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) BIO_set_retry_write(bio);
    return (int)gave;
}

static ssize_t receive(struct tls_stream *tls, void *bytes, size_t size) {
    ssize_t took;
    do took = recv(tls->fd, bytes, size, MSG_DONTWAIT);
    while (took < 0 && errno == EINTR);
    tls->is_drained = took < (ssize_t)size;
    return took;
}

static int socket_read(BIO *bio, char *bytes, int size) {
    struct tls_stream *tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (size <= 0) return 0;
    if (tls->at == tls->end) {
        const bool is_long = (size_t)size >= AHEAD_SIZE;
        const ssize_t took = is_long ? receive(tls, bytes, (size_t)size) : receive(tls, tls->ahead, AHEAD_SIZE);
        if (took < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) BIO_set_retry_read(bio);
        if (took <= 0 || is_long) return (int)took;
        tls->at = 0;
        tls->end = (size_t)took;
    }
    const size_t left = tls->end - tls->at, part = left < (size_t)size ? left : (size_t)size;
    memcpy(bytes, tls->ahead + tls->at, part);
    tls->at += part;
    return (int)part;
}

static long socket_control(BIO *bio, int command, long number, void *pointer) {
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

static int socket_begin(BIO *bio) {
    BIO_set_init(bio, 1);
    return 1;
}

static BIO_METHOD *method; /* allocated at first use, and never freed */

static void method_make(void) {
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tarry socket");
    if (method == NULL) return;
    BIO_meth_set_write(method, socket_write);
    BIO_meth_set_read(method, socket_read);
    BIO_meth_set_ctrl(method, socket_control);
    BIO_meth_set_create(method, socket_begin);
}

static BIO *socket_new(struct tls_stream *tls) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, method_make);
    BIO *bio = method != NULL ? BIO_new(method) : NULL;
    if (bio != NULL) BIO_set_data(bio, tls);
    return bio;
}

/* ---- a connection */

static bool expect_host(SSL *ssl, const char *host) {
    struct in6_addr address;
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (inet_pton(AF_INET, host, &address) == 1 || inet_pton(AF_INET6, host, &address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(param, host) == 1;
    return SSL_set_tlsext_host_name(ssl, host) == 1 && SSL_set1_host(ssl, host) == 1;
}

static bool begin(struct tls_stream *tls, int fd, const char *host, SSL_CTX *context) {
    tls->ssl = SSL_new(context);
    tls->fd = fd;
    BIO *bio = tls->ssl != NULL ? socket_new(tls) : NULL;
    if (bio == NULL) return false;
    SSL_set_bio(tls->ssl, bio, bio);
    SSL_set_connect_state(tls->ssl);
    SSL_set_mode(tls->ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_set_verify(tls->ssl, SSL_VERIFY_PEER, NULL);
    return expect_host(tls->ssl, host);
}

struct tls_stream *tls_stream_new(int fd, const char *host, const struct tls_source *source, char said[TLS_SAID_MAX]) {
    SSL_CTX *context = source->context(source->argument, said);
    if (context == NULL) return NULL;
    struct tls_stream *tls = calloc(1, sizeof(*tls));
    const bool has_begun = tls != NULL && begin(tls, fd, host, context);
    SSL_CTX_free(context); /* SSL_new took its own reference to the context */
    ERR_clear_error();
    if (has_begun) return tls;
    snprintf(said, TLS_SAID_MAX, "TLS cannot be initialized for %s: out of memory", host);
    tls_stream_free(tls);
    return NULL;
}

void tls_stream_free(struct tls_stream *tls) {
    if (tls == NULL) return;
    SSL_free(tls->ssl);
    free(tls);
}

enum tls_progress tls_stream_handshake(struct tls_stream *tls, char said[TLS_SAID_MAX]) {
    ERR_clear_error();
    const int rv = SSL_do_handshake(tls->ssl);
    if (rv == 1) return TLS_DONE;
    const int error = SSL_get_error(tls->ssl, rv);
    if (error == SSL_ERROR_WANT_READ) return TLS_WANTS_READ;
    if (error == SSL_ERROR_WANT_WRITE) return TLS_WANTS_WRITE;
    const long verdict = SSL_get_verify_result(tls->ssl);
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    tls->is_broken = true;
    if (verdict != X509_V_OK)
        snprintf(said, TLS_SAID_MAX, "its certificate is not trusted: %s", X509_verify_cert_error_string(verdict));
    else
        snprintf(said, TLS_SAID_MAX, "TLS failed: %s",
                 reason != NULL
                     ? reason
                     : "the server closed the connection: it may not use TLS, or may require a client certificate");
    ERR_clear_error();
    return TLS_FAILED;
}

/* Converts an OpenSSL result that is not a number of bytes. */
static ssize_t result_of(struct tls_stream *tls, int rv, bool *out_wants_write) {
    const int system_error = errno; /* saved at once, because SSL_ERROR_SYSCALL refers to errno */
    const int error = SSL_get_error(tls->ssl, rv);
    *out_wants_write = error == SSL_ERROR_WANT_WRITE;
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return -EAGAIN;
    if (error == SSL_ERROR_ZERO_RETURN) return 0;
    tls->is_broken = true;
    ERR_clear_error();
    const bool is_dead = system_error == ETIMEDOUT || system_error == EHOSTUNREACH;
    return error == SSL_ERROR_SYSCALL && is_dead ? -system_error : -EPROTO;
}

ssize_t tls_stream_read(struct tls_stream *tls, void *bytes, size_t size, bool *out_wants_write) {
    *out_wants_write = false;
    if (tls->is_broken) return -EPROTO;
    ERR_clear_error();
    const int rv = SSL_read(tls->ssl, bytes, size < INT32_MAX ? (int)size : INT32_MAX);
    return rv > 0 ? rv : result_of(tls, rv, out_wants_write);
}

ssize_t tls_stream_write(struct tls_stream *tls, const void *bytes, size_t size) {
    bool wants_write;
    if (tls->is_broken) return -EPROTO;
    ERR_clear_error();
    const int rv = SSL_write(tls->ssl, bytes, size < INT32_MAX ? (int)size : INT32_MAX);
    if (rv > 0) return rv;
    const ssize_t result = result_of(tls, rv, &wants_write);
    return result == 0 ? -EPROTO : result;
}

bool tls_stream_has_pending(struct tls_stream *tls) {
    return SSL_pending(tls->ssl) > 0 || tls->at < tls->end;
}

bool tls_stream_is_drained(struct tls_stream *tls) {
    return tls->is_drained && !tls_stream_has_pending(tls);
}

void tls_stream_say_end(struct tls_stream *tls) {
    if (tls->is_broken || SSL_in_init(tls->ssl)) return;
    (void)SSL_shutdown(tls->ssl);
    ERR_clear_error();
}
