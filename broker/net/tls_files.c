/* tls_files.c: reads certificates and keys from PEM files. A file that is incomplete or does not match gives a message.
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tls_parts.h"

#define FILE_SIZE_MAX (1 << 20)

static const char option_certificate[] = "--tls-cert", option_key[] = "--tls-key",
                  option_client_ca[] = "--tls-client-ca", option_peer_ca[] = "--tls-peer-ca";

__attribute__((format(printf, 2, 3))) static int complain(char message[TLS_SENTENCE_SIZE], const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, TLS_SENTENCE_SIZE, format, arguments);
    va_end(arguments);
    ERR_clear_error();
    return 1;
}

/* Refuses a key that needs a password, instead of asking for one on the terminal. */
static int no_password(char *out, int size, int is_written, void *argument) {
    return -1;
}

/* Opens a file. Returns NULL with a message if that fails. A secret file that all users can read is refused. */
static BIO *read_file(const char *option, const char *path, bool is_secret, char message[TLS_SENTENCE_SIZE]) {
    struct stat status;
    BIO *content = NULL;
    char *bytes = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &status) != 0)
        (void)complain(message, "%s %s cannot be read: %s", option, path, strerror(errno));
    else if (!S_ISREG(status.st_mode) || status.st_size > FILE_SIZE_MAX)
        (void)complain(message, "%s %s is not a PEM file of at most 1 MiB", option, path);
    else if (is_secret && (status.st_mode & S_IRWXO) != 0)
        (void)complain(message, "%s %s can be read by all users: run chmod o-rwx on it", option, path);
    else if ((bytes = malloc((size_t)status.st_size + 1)) == NULL || (content = BIO_new(BIO_s_mem())) == NULL)
        (void)complain(message, "%s %s: out of memory", option, path);
    ssize_t size = content != NULL ? read(fd, bytes, (size_t)status.st_size) : 0;
    if (content != NULL && (size < 0 || BIO_write(content, bytes, (int)size) != size)) {
        (void)complain(message, "%s %s cannot be read: %s", option, path, strerror(errno));
        BIO_free(content);
        content = NULL;
    }
    if (is_secret && bytes != NULL && size > 0) OPENSSL_cleanse(bytes, (size_t)size);
    free(bytes);
    if (fd >= 0) close(fd);
    return content;
}

/* Reads all certificates of a file. Returns NULL with a message if that fails. */
static STACK_OF(X509) * read_certificates(const char *option, const char *path, char message[TLS_SENTENCE_SIZE]) {
    BIO *content = read_file(option, path, false, message);
    if (content == NULL) return NULL;
    STACK_OF(X509) *all = sk_X509_new_null();
    X509 *next;
    bool is_kept = all != NULL;
    while (is_kept && (next = PEM_read_bio_X509(content, NULL, no_password, NULL)) != NULL) {
        is_kept = sk_X509_push(all, next) > 0;
        if (!is_kept) X509_free(next);
    }
    bool is_whole = is_kept && ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
    BIO_free(content);
    ERR_clear_error();
    if (is_whole && sk_X509_num(all) > 0) return all;
    (void)complain(message,
                   is_whole ? "%s %s contains no certificate in PEM format" : "%s %s contains a damaged certificate",
                   option, path);
    sk_X509_pop_free(all, X509_free);
    return NULL;
}

static int read_own(struct tls_identity *out, const struct tls_files *files, char message[TLS_SENTENCE_SIZE]) {
    out->chain = read_certificates(option_certificate, files->certificate, message);
    if (out->chain == NULL) return 1;
    out->leaf = sk_X509_shift(out->chain);
    BIO *content = read_file(option_key, files->key, true, message);
    if (content == NULL) return 1;
    out->key = PEM_read_bio_PrivateKey(content, NULL, no_password, NULL);
    BIO_free(content); /* clears the memory of a secret */
    if (out->key == NULL)
        return complain(message, "%s %s contains no private key in PEM format without a password", option_key,
                        files->key);
    if (X509_check_private_key(out->leaf, out->key) != 1)
        return complain(message, "the key %s %s does not belong to the certificate %s %s", option_key, files->key,
                        option_certificate, files->certificate);
    if (X509_cmp_current_time(X509_get0_notAfter(out->leaf)) < 0)
        return complain(message, "the certificate %s %s has expired: replace it", option_certificate,
                        files->certificate);
    if (X509_cmp_current_time(X509_get0_notBefore(out->leaf)) > 0)
        return complain(message,
                        "the certificate %s %s is not valid yet: check the certificate and this machine's clock",
                        option_certificate, files->certificate);
    return 0;
}

static int add_ca(const char *option, const char *path, X509_STORE *store, STACK_OF(X509_NAME) * names,
                  char message[TLS_SENTENCE_SIZE]) {
    STACK_OF(X509) *all = read_certificates(option, path, message);
    if (all == NULL) return 1;
    bool is_fine = true;
    for (int i = 0; is_fine && i < sk_X509_num(all); i++) {
        X509_NAME *name = X509_NAME_dup(X509_get_subject_name(sk_X509_value(all, i)));
        is_fine = name != NULL && X509_STORE_add_cert(store, sk_X509_value(all, i)) == 1;
        if (!is_fine || names == NULL || sk_X509_NAME_push(names, name) <= 0) X509_NAME_free(name);
    }
    sk_X509_pop_free(all, X509_free);
    return is_fine ? 0 : complain(message, "%s %s: out of memory", option, path);
}

static int read_cas(struct tls_identity *out, const struct tls_files *files, char message[TLS_SENTENCE_SIZE]) {
    bool has_client = files->client_ca[0] != '\0', has_peer = files->peer_ca[0] != '\0';
    if (!has_client && !has_peer) return 0;
    out->client_store = X509_STORE_new();
    out->peer_store = X509_STORE_new();
    out->client_names = sk_X509_NAME_new_null();
    if (out->client_store == NULL || out->peer_store == NULL || out->client_names == NULL)
        return complain(message, "out of memory while reading certificates");
    if (has_client && add_ca(option_client_ca, files->client_ca, out->client_store, out->client_names, message) != 0)
        return 1;
    if (has_peer && add_ca(option_peer_ca, files->peer_ca, out->client_store, out->client_names, message) != 0)
        return 1;
    return has_peer ? add_ca(option_peer_ca, files->peer_ca, out->peer_store, NULL, message)
                    : add_ca(option_client_ca, files->client_ca, out->peer_store, NULL, message);
}

int tls_identity_read(struct tls_identity *out, const struct tls_files *files, char message[TLS_SENTENCE_SIZE]) {
    struct tls_identity identity = {0};
    bool has_own = files->certificate[0] != '\0';
    if ((has_own && read_own(&identity, files, message) != 0) || read_cas(&identity, files, message) != 0) {
        tls_identity_free(&identity);
        return 1;
    }
    *out = identity;
    return 0;
}

void tls_identity_free(struct tls_identity *identity) {
    X509_free(identity->leaf);
    sk_X509_pop_free(identity->chain, X509_free);
    EVP_PKEY_free(identity->key);
    X509_STORE_free(identity->client_store);
    X509_STORE_free(identity->peer_store);
    sk_X509_NAME_pop_free(identity->client_names, X509_NAME_free);
}

struct tls_stamps tls_stamps(const struct tls_files *files) {
    const char *const paths[] = {files->certificate, files->key, files->client_ca, files->peer_ca};
    struct tls_stamps stamps;
    memset(&stamps, 0, sizeof(stamps)); /* set the padding to 0, because file_stamps are compared byte by byte */
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        struct stat status;
        if (paths[i][0] == '\0' || stat(paths[i], &status) != 0) continue;
        stamps.of[i].device = status.st_dev;
        stamps.of[i].inode = status.st_ino;
        stamps.of[i].size = status.st_size;
        stamps.of[i].changed = status.st_ctim;
    }
    return stamps;
}
