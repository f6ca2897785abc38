/* credentials.c: files with the client's identity and the CAs that it trusts: which ones, whether other users can
 * read them, and the TLS context made from them. The files are read at each connect, so they may be replaced while the
 * program runs. */
#include "client.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- files that other users must not read */

#define OTHERS 077u
#define PEM_FILE_MAX (1u << 20) /* size limit of a file with certificates or keys, in bytes */

static_assert(PEM_FILE_MAX == 1048576, "the message below states this limit");

/* Returns NULL if the file may be read, otherwise an error phrase that follows the file's name ("is …"). */
static const char *judge(const struct stat *status) {
    if (!S_ISREG(status->st_mode)) return "is not a regular file";
    return status->st_size > (off_t)PEM_FILE_MAX ? "is larger than 1 MiB" : NULL;
}

/* Returns true if the path is a regular file of at most PEM_FILE_MAX bytes. Otherwise `said` has an error message that
 * calls the file `what`. Reason: the client reads the file for each connection. A FIFO could be read only once, and
 * /dev/zero never ends. */
static bool pem_check(const char *path, const char *what, char *said, size_t size) {
    struct stat status;
    if (stat(path, &status) != 0) {
        snprintf(said, size, "%s %s cannot be read: %s", what, path, strerror(errno));
        return false;
    }
    const char *problem = judge(&status);
    if (problem != NULL) snprintf(said, size, "%s %s %s", what, path, problem);
    return problem == NULL;
}

/* Returns a descriptor of the file, or -1. */
static int open_private(const char *path, const char *what, char *said, size_t size) {
    struct stat status;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &status) != 0) {
        snprintf(said, size, "%s %s cannot be read: %s", what, path, strerror(errno));
    } else if (judge(&status) != NULL) {
        snprintf(said, size, "%s %s %s", what, path, judge(&status));
    } else if ((status.st_mode & OTHERS) != 0) {
        snprintf(said, size, "%s %s can be read by other users (mode %04o): run chmod 600 on it", what, path,
                 (unsigned)(status.st_mode & 07777));
    } else if (status.st_size == 0) {
        snprintf(said, size, "%s %s is empty", what, path);
    } else {
        return fd;
    }
    if (fd >= 0) close(fd);
    return -1;
}

/* True: only the owner may read the file. False: `said` has the error about `what`. */
static bool private_check(const char *path, const char *what, char *said, size_t size) {
    const int fd = open_private(path, what, said, size);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

bool private_read_token(const char *path, char out[TOKEN_SIZE_MAX + 1], char *said, size_t size) {
    static const char what[] = "the token file";
    char text[TOKEN_SIZE_MAX + 3];
    const int fd = open_private(path, what, said, size);
    if (fd < 0) return false;
    const ssize_t took = read(fd, text, sizeof(text));
    close(fd);
    size_t length = took > 0 ? (size_t)took : 0;
    while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == '\r')) length--;
    bool is_word = length > 0 && length <= TOKEN_SIZE_MAX;
    for (size_t i = 0; i < length && is_word; i++) is_word = text[i] > ' ' && text[i] < 127;
    if (is_word) {
        memcpy(out, text, length);
        out[length] = 0;
    } else {
        snprintf(said, size, "%s %s contains no token: it must have one word of at most %u characters", what, path,
                 TOKEN_SIZE_MAX);
    }
    explicit_bzero(text, sizeof(text));
    return is_word;
}

/* ---- names of the files */

/* An option that is NULL is taken from the environment. An empty option means none, whatever the environment says. */
static int take(char **out, const char *given, const char *variable) {
    const char *value = given != NULL ? given : secure_getenv(variable);
    if (value == NULL || value[0] == 0) return TARRY_OK;
    *out = strdup(value);
    return *out != NULL ? TARRY_OK : TARRY_E_NOMEM;
}

int credentials_take(struct credentials *credentials, const struct tarry_options *options) {
    int rv = take(&credentials->token_file, options->token_file, "TARRY_TOKEN_FILE");
    if (rv == TARRY_OK) rv = take(&credentials->tls_ca, options->tls_ca, "TARRY_TLS_CA");
    if (rv == TARRY_OK) rv = take(&credentials->tls_cert, options->tls_cert, "TARRY_TLS_CERT");
    if (rv == TARRY_OK) rv = take(&credentials->tls_key, options->tls_key, "TARRY_TLS_KEY");
    const char *plain = secure_getenv("TARRY_UNSAFE_PLAIN_TOKEN");
    credentials->unsafe_plain_token = options->unsafe_plain_token || (plain != NULL && strcmp(plain, "1") == 0);
    return rv;
}

void credentials_drop(struct credentials *credentials) {
    free(credentials->token_file);
    free(credentials->tls_ca);
    free(credentials->tls_cert);
    free(credentials->tls_key);
    *credentials = (struct credentials){.token_file = NULL};
}

/* ---- TLS */

/* Writes our message followed by OpenSSL's last error. */
static bool say(char said[TLS_SAID_MAX], const char *what, const char *path) {
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    snprintf(said, TLS_SAID_MAX, "%s %s: %s", what, path, reason != NULL ? reason : "the file cannot be used");
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

static bool use_cert(SSL_CTX *context, const struct credentials *files, char said[TLS_SAID_MAX]) {
    if (files->tls_cert == NULL && files->tls_key == NULL) return true;
    if (files->tls_cert == NULL) {
        snprintf(said, TLS_SAID_MAX, "the key %s is given without a certificate: give both", files->tls_key);
        return false;
    }
    const char *key = files->tls_key != NULL ? files->tls_key : files->tls_cert;
    if (!private_check(key, "the key's file", said, TLS_SAID_MAX)) return false;
    if (!pem_check(files->tls_cert, "the client's certificate in", said, TLS_SAID_MAX)) return false;
    if (SSL_CTX_use_certificate_chain_file(context, files->tls_cert) != 1)
        return say(said, "the client's certificate in", files->tls_cert);
    if (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1) return say(said, "the client's key in", key);
    return SSL_CTX_check_private_key(context) == 1 ||
           say(said, "the client's key does not belong to its certificate:", key);
}

SSL_CTX *credentials_tls_context(void *argument, char said[TLS_SAID_MAX]) {
    const struct credentials *credentials = argument;
    ERR_clear_error();
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    if (context == NULL) {
        (void)say(said, "TLS", "cannot begin");
        return NULL;
    }
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    const bool is_modern = SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 || say(said, "TLS", "1.2");
    if (is_modern && use_ca(context, credentials->tls_ca, said) && use_cert(context, credentials, said)) return context;
    SSL_CTX_free(context);
    return NULL;
}
