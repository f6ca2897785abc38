/* tls.c: see tls.h. It has its own socket BIO, because OpenSSL's would raise SIGPIPE in the sending thread. */
#include "tls.h"

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

#include "private.h"

#define AHEAD_SIZE 4096u

struct tls {
    SSL_CTX *context;
    SSL *ssl;
    int fd;
    bool is_broken;  /* OpenSSL must not be called again */
    bool is_drained; /* the last receive emptied the socket */
    /* OpenSSL reads a record's header and then its body. Short reads come from this buffer, so one system call is
     * enough. */
    size_t at; /* start and end of the buffered bytes */
    size_t end;
    uint8_t ahead[AHEAD_SIZE];
};

/* ---- the socket */

static int socket_write(BIO *bio, const char *bytes, int size) {
    ssize_t gave;
    const struct tls *tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    do gave = send(tls->fd, bytes, (size_t)size, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (gave < 0 && errno == EINTR);
    if (gave < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) BIO_set_retry_write(bio);
    return (int)gave;
}

static ssize_t receive(struct tls *tls, void *bytes, size_t size) {
    ssize_t took;
    do took = recv(tls->fd, bytes, size, MSG_DONTWAIT);
    while (took < 0 && errno == EINTR);
    tls->is_drained = took < (ssize_t)size;
    return took;
}

static int socket_read(BIO *bio, char *bytes, int size) {
    struct tls *tls = BIO_get_data(bio);
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

static BIO_METHOD *method; /* lives as long as the process */

static void method_make(void) {
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tarry socket");
    if (method == NULL) return;
    BIO_meth_set_write(method, socket_write);
    BIO_meth_set_read(method, socket_read);
    BIO_meth_set_ctrl(method, socket_control);
    BIO_meth_set_create(method, socket_begin);
}

static BIO *socket_new(struct tls *tls) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, method_make);
    BIO *bio = method != NULL ? BIO_new(method) : NULL;
    if (bio != NULL) BIO_set_data(bio, tls);
    return bio;
}

/* ---- files */

/* Writes our message followed by OpenSSL's last error. */
static bool say(char said[TLS_SAID_MAX], const char *what, const char *path) {
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    snprintf(said, TLS_SAID_MAX, "%s %s: %s", what, path, reason != NULL ? reason : "it cannot be used");
    ERR_clear_error();
    return false;
}

static bool use_ca(SSL_CTX *context, const char *path, char said[TLS_SAID_MAX]) {
    if (path == NULL) {
        if (SSL_CTX_set_default_verify_paths(context) == 1) return true;
        return say(said, "the system's certificate authorities", "");
    }
    if (!pem_check(path, "the authorities' certificates in", said, TLS_SAID_MAX)) return false;
    return SSL_CTX_load_verify_file(context, path) == 1 || say(said, "the authorities' certificates in", path);
}

static bool use_cert(SSL_CTX *context, const struct tls_files *files, char said[TLS_SAID_MAX]) {
    if (files->cert == NULL && files->key == NULL) return true;
    if (files->cert == NULL) {
        snprintf(said, TLS_SAID_MAX, "there is a key (%s) and no certificate: name both", files->key);
        return false;
    }
    const char *key = files->key != NULL ? files->key : files->cert;
    if (!private_check(key, "the key's file", said, TLS_SAID_MAX)) return false;
    if (!pem_check(files->cert, "the client's certificate in", said, TLS_SAID_MAX)) return false;
    if (SSL_CTX_use_certificate_chain_file(context, files->cert) != 1)
        return say(said, "the client's certificate in", files->cert);
    if (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1) return say(said, "the client's key in", key);
    return SSL_CTX_check_private_key(context) == 1 || say(said, "the client's key is not its certificate's:", key);
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

static bool begin(struct tls *tls, int fd, const char *host, const struct tls_files *files, char said[TLS_SAID_MAX]) {
    tls->context = SSL_CTX_new(TLS_client_method());
    if (tls->context == NULL) return say(said, "TLS", "cannot begin");
    SSL_CTX_set_verify(tls->context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_mode(tls->context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_options(tls->context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    if (SSL_CTX_set_min_proto_version(tls->context, TLS1_2_VERSION) != 1) return say(said, "TLS", "1.2");
    if (!use_ca(tls->context, files->ca, said) || !use_cert(tls->context, files, said)) return false;
    tls->ssl = SSL_new(tls->context);
    tls->fd = fd;
    BIO *bio = tls->ssl != NULL ? socket_new(tls) : NULL;
    if (bio == NULL) return say(said, "TLS", "cannot begin");
    SSL_set_bio(tls->ssl, bio, bio);
    SSL_set_connect_state(tls->ssl);
    return expect_host(tls->ssl, host) || say(said, "TLS cannot check the name", host);
}

struct tls *tls_new(int fd, const char *host, const struct tls_files *files, char said[TLS_SAID_MAX]) {
    struct tls *tls = calloc(1, sizeof(*tls));
    if (tls == NULL) {
        snprintf(said, TLS_SAID_MAX, "out of memory");
        return NULL;
    }
    ERR_clear_error();
    if (begin(tls, fd, host, files, said)) return tls;
    tls_free(tls);
    return NULL;
}

void tls_free(struct tls *tls) {
    if (tls == NULL) return;
    SSL_free(tls->ssl);
    SSL_CTX_free(tls->context);
    free(tls);
}

enum tls_progress tls_handshake(struct tls *tls, char said[TLS_SAID_MAX]) {
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
        snprintf(said, TLS_SAID_MAX, "its certificate is not to be trusted: %s",
                 X509_verify_cert_error_string(verdict));
    else
        snprintf(said, TLS_SAID_MAX, "TLS failed: %s",
                 reason != NULL ? reason : "the connection was closed: does it speak TLS, or want a certificate?");
    ERR_clear_error();
    return TLS_FAILED;
}

/* Converts an OpenSSL result that is not a number of bytes. */
static ssize_t result_of(struct tls *tls, int rv, bool *out_wants_write) {
    const int system_error = errno; /* of SSL_ERROR_SYSCALL */
    const int error = SSL_get_error(tls->ssl, rv);
    *out_wants_write = error == SSL_ERROR_WANT_WRITE;
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return -EAGAIN;
    if (error == SSL_ERROR_ZERO_RETURN) return 0;
    tls->is_broken = true;
    ERR_clear_error();
    const bool is_dead = system_error == ETIMEDOUT || system_error == EHOSTUNREACH;
    return error == SSL_ERROR_SYSCALL && is_dead ? -system_error : -EPROTO;
}

ssize_t tls_read(struct tls *tls, void *bytes, size_t size, bool *out_wants_write) {
    *out_wants_write = false;
    if (tls->is_broken) return -EPROTO;
    ERR_clear_error();
    const int rv = SSL_read(tls->ssl, bytes, size < INT32_MAX ? (int)size : INT32_MAX);
    return rv > 0 ? rv : result_of(tls, rv, out_wants_write);
}

ssize_t tls_write(struct tls *tls, const void *bytes, size_t size) {
    bool wants_write;
    if (tls->is_broken) return -EPROTO;
    ERR_clear_error();
    const int rv = SSL_write(tls->ssl, bytes, size < INT32_MAX ? (int)size : INT32_MAX);
    if (rv > 0) return rv;
    const ssize_t result = result_of(tls, rv, &wants_write);
    return result == 0 ? -EPROTO : result;
}

bool tls_has_pending(struct tls *tls) {
    return SSL_pending(tls->ssl) > 0 || tls->at < tls->end;
}

bool tls_is_drained(struct tls *tls) {
    return tls->is_drained && !tls_has_pending(tls);
}

void tls_say_end(struct tls *tls) {
    if (tls->is_broken || SSL_in_init(tls->ssl)) return;
    (void)SSL_shutdown(tls->ssl);
    ERR_clear_error();
}
