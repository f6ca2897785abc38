/* origin.c: see origin.h. */
#include "origin.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

static bool is_made_of(const char *from, const char *to, const char *others) {
    for (const char *at = from; at < to; at++) {
        bool is_alphanumeric = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9');
        if (!is_alphanumeric && strchr(others, *at) == NULL) return false;
    }
    return from < to;
}

bool origin_is_valid(const char *text) {
    if (strcmp(text, "null") == 0) return true;
    const char *host = strstr(text, "://");
    if (host == NULL) return false;
    return is_made_of(text, host, "+-.") && is_made_of(host + 3, text + strlen(text), ".-_:[]");
}

bool origin_is_allowed(const char *origin, const char *allowed) {
    size_t length = strlen(origin);
    while (*allowed != '\0') {
        size_t size = strcspn(allowed, " ");
        if (size > 0 && size == length && strncasecmp(origin, allowed, size) == 0) return true;
        allowed += size + (allowed[size] == ' ');
    }
    return false;
}

/* Returns the size of the name in "name:port" or "[::1]:port", without the port. */
static size_t name_size(const char *host) {
    return host[0] == '[' ? strcspn(host, "]") : strcspn(host, ":");
}

bool origin_is_own(const char *origin, bool over_tls, const char *host, bool shows_token, const char *allowed) {
    const char *scheme = over_tls ? "https://" : "http://";
    if (host[0] == '\0' || strncasecmp(origin, scheme, strlen(scheme)) != 0) return false;
    if (strcasecmp(origin + strlen(scheme), host) != 0) return false;
    return shows_token || over_tls || origin_host_is_ours(host, allowed);
}

bool origin_host_is_ours(const char *host, const char *allowed) {
    static const char local[] = ".localhost";
    size_t size = name_size(host), end = sizeof(local) - 1;
    if (host[0] == '[' || memchr(host, '.', size) == NULL || strspn(host, "0123456789.") >= size) return true;
    if (size > end && strncasecmp(host + size - end, local, end) == 0) return true;
    while (*allowed != '\0') {
        size_t origin_size = strcspn(allowed, " ");
        const char *name = strstr(allowed, "://");
        if (name != NULL && name < allowed + origin_size && name_size(name + 3) >= size &&
            strncasecmp(name + 3, host, size) == 0 && strchr(": ", name[3 + size]) != NULL)
            return true; /* strchr also matches the final 0 byte */
        allowed += origin_size + (allowed[origin_size] == ' ');
    }
    return false;
}
