/* place.c: see place.h; and the error messages of all kinds of coordinator. */
#include "place.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "coordinator_backend.h"

int coordinator_refuse(char message[COORDINATOR_MESSAGE_SIZE], const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, COORDINATOR_MESSAGE_SIZE, format, arguments);
    va_end(arguments);
    return 1;
}

#define WHY_SIZE 128

static int refuse(char message[COORDINATOR_MESSAGE_SIZE], const struct place_kind *kind, const char *place,
                  const char *why) {
    snprintf(message, COORDINATOR_MESSAGE_SIZE, "coordinator '%s%s': must be %shost:port,host:port/path: %s",
             kind->scheme, place, kind->scheme, why);
    return 1;
}

/* Parses one host: name:port, or [IPv6 address]:port. Returns false with an error message. */
static bool take_host(const struct place_kind *kind, const char *text, size_t size, char **out, char why[WHY_SIZE]) {
    const char *colon = memrchr(text, ':', size);
    if (colon == NULL) {
        snprintf(why, WHY_SIZE, "a host without a port (%s's is %u)", kind->server, kind->port);
        return false;
    }
    size_t host = (size_t)(colon - text);
    bool is_bracketed = host > 2 && text[0] == '[' && colon[-1] == ']';
    const char *bare = is_bracketed ? text + 1 : text;
    size_t bare_size = is_bracketed ? host - 2 : host;
    const char *wrong = NULL;
    unsigned port = 0;
    for (const char *at = colon + 1; at < text + size && port <= 65535; at++)
        port = *at < '0' || *at > '9' ? 65536 : port * 10 + (unsigned)(*at - '0');
    for (size_t i = 0; i < bare_size; i++)
        if (bare[i] <= ' ' || bare[i] > '~' || strchr("[]@?#%\"'\\", bare[i]) != NULL)
            wrong = "a host name must not contain blanks, control characters or any of []@?#%\"'\\";
    if (!is_bracketed && memchr(text, ':', host) != NULL) wrong = "an IPv6 address without brackets";
    if (host == 0) wrong = "a port without a host";
    if (port == 0 || port > 65535) wrong = "a port must be a number from 1 to 65535";
    if (wrong != NULL) {
        snprintf(why, WHY_SIZE, "%s", wrong);
        return false;
    }
    const char *kept = kind->drops_brackets ? bare : text;
    *out += sprintf(*out, "%.*s:%u", (int)(kind->drops_brackets ? bare_size : host), kept, port);
    return true;
}

static const char *check_path(const char *path) {
    if (path == NULL || path[1] == '\0') return "no path";
    for (const char *at = path; *at != '\0'; at++) {
        if (*at <= ' ' || *at > '~') return "a path with a blank or a character that is not ASCII";
        if (*at != '/') continue;
        if (at[1] == '/' || at[1] == '\0') return "a path with an empty part";
        if (at[1] == '.' && (at[2] == '/' || at[2] == '\0' || (at[2] == '.' && (at[3] == '/' || at[3] == '\0'))))
            return "a path with '.' or '..'";
    }
    return NULL;
}

static bool is_reserved(const struct place_kind *kind, const char *path) {
    size_t size = kind->reserved == NULL ? 0 : strlen(kind->reserved);
    return size > 0 && strncmp(path, kind->reserved, size) == 0 && (path[size] == '/' || path[size] == '\0');
}

int place_take(const struct place_kind *kind, const char *place, char hosts[COORDINATOR_URL_SIZE_MAX + 1],
               const char **out_path, char message[COORDINATOR_MESSAGE_SIZE]) {
    const char *path = strchr(place, '/');
    const char *wrong = check_path(path);
    char *out = hosts, why[WHY_SIZE];
    unsigned count = 0;
    if (wrong != NULL) return refuse(message, kind, place, wrong);
    if (is_reserved(kind, path)) {
        snprintf(why, sizeof why, "%s is %s's own", kind->reserved, kind->server);
        return refuse(message, kind, place, why);
    }
    for (const char *at = place; at <= path; count++) {
        size_t size = strcspn(at, ",/");
        if (out != hosts) *out++ = ',';
        if (!take_host(kind, at, size, &out, why)) return refuse(message, kind, place, why);
        at += size + 1;
    }
    if (kind->hosts_max > 0 && count > kind->hosts_max) {
        snprintf(why, sizeof why, "%u hosts, but at most %u are allowed", count, kind->hosts_max);
        return refuse(message, kind, place, why);
    }
    *out_path = path;
    return 0;
}
