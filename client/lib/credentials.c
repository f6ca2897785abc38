/* credentials.c: file names of the client's credentials and of the authorities that it trusts. The files are read at
 * each connect, so they may be replaced while the program runs (private.c, tls_context.c). */
#include <stdlib.h>
#include <string.h>

#include "client.h"

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
