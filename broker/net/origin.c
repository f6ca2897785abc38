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
