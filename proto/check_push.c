/* check_push.c: checks the form of a push URL; see check.h. The address that a host name resolves to is checked when
 * a connection is made. */
#include "check.h"

#include <stdbool.h>
#include <string.h>

#include "tarry_limits.h"

#define PORT_DIGITS_MAX 5u
#define PORT_MAX 65535u

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_hex(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Returns the text after the scheme; NULL: neither http:// nor https://. */
static const char *after_scheme(const char *url) {
    if (strncmp(url, "https://", 8) == 0) return url + 8;
    if (strncmp(url, "http://", 7) == 0) return url + 7;
    return NULL;
}

/* Returns the text after the host; NULL: the host is invalid. */
static const char *after_host(const char *at) {
    const char *from = at;
    if (*at == '[') {
        for (at++; is_hex(*at) || *at == ':' || *at == '.'; at++) {
        }
        return *at == ']' && at > from + 2 ? at + 1 : NULL;
    }
    while (is_letter(*at) || is_digit(*at) || *at == '-' || *at == '.' || *at == '_') at++;
    return at > from ? at : NULL;
}

/* Returns the text after the optional port; NULL: the port is invalid. */
static const char *after_port(const char *at) {
    unsigned port = 0, digits = 0;
    if (*at != ':') return at;
    for (at++; is_digit(*at) && digits < PORT_DIGITS_MAX; at++, digits++) port = port * 10 + (unsigned)(*at - '0');
    return digits > 0 && !is_digit(*at) && port >= 1 && port <= PORT_MAX ? at : NULL;
}

size_t push_url_origin(const char *url) {
    const char *at = after_scheme(url);
    return at != NULL ? (size_t)(at - url) + strcspn(at, "/?") : strlen(url);
}

const char *check_push_url(const char *url) {
    size_t size = strnlen(url, PUSH_URL_SIZE_MAX + 1);
    if (size == 0) return NULL;
    if (size > PUSH_URL_SIZE_MAX) return "push is longer than 512 bytes (PUSH_URL_SIZE_MAX)";
    for (size_t i = 0; i < size; i++) {
        if (url[i] <= ' ' || url[i] > '~')
            return "push contains a space or a byte that is not printable ASCII: write it as %XX";
        if (strchr("\"<>\\^`{|}", url[i]) != NULL) return "push contains a character that a URL must escape as %XX";
    }
    const char *host = after_scheme(url);
    if (host == NULL) return "push must be a URL at http:// or https://";
    if (memchr(host, '@', strcspn(host, "/?#")) != NULL)
        return "push must not contain a user or password, because policies are readable: the broker signs requests "
               "instead";
    const char *at = after_host(host);
    if (at == NULL) return "push has no host";
    at = after_port(at);
    if (at == NULL) return "the port in push must be from 1 to 65535";
    if (*at != '\0' && *at != '/' && *at != '?') return "push has no host";
    if (strchr(at, '#') != NULL) return "push must not have a fragment (#), because HTTP requests do not contain it";
    return NULL;
}
