/* zookeeper_place.c: see zookeeper_place.h. */
#include "zookeeper_place.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int refuse(char message[COORDINATOR_MESSAGE_SIZE], const char *place, const char *why) {
    snprintf(message, COORDINATOR_MESSAGE_SIZE, "coordinator 'zk://%s': must be zk://host:port,host:port/path: %s",
             place, why);
    return 1;
}

/* One of the hosts: name:port, or [IPv6 address]:port, copied without the brackets, as ZooKeeper's client wants it.
 * NULL, or what is wrong. */
static const char *take_host(const char *text, size_t size, char **out) {
    const char *colon = memrchr(text, ':', size);
    if (colon == NULL) return "a host without a port (ZooKeeper's is 2181)";
    size_t host = (size_t)(colon - text);
    unsigned port = 0;
    for (const char *at = colon + 1; at < text + size; at++) {
        if (*at < '0' || *at > '9' || port > 65535) return "a port that is no number from 1 to 65535";
        port = port * 10 + (unsigned)(*at - '0');
    }
    if (port == 0 || port > 65535) return "a port that is no number from 1 to 65535";
    bool is_bracketed = host > 2 && text[0] == '[' && colon[-1] == ']';
    if (is_bracketed) {
        text++;
        host -= 2;
    }
    if (host == 0) return "a port without a host";
    if (!is_bracketed && memchr(text, ':', host) != NULL) return "an IPv6 address without brackets";
    for (size_t i = 0; i < host; i++)
        if (text[i] <= ' ' || strchr("[]@?#%\"'", text[i]) != NULL) return "a host with a character that none has";
    *out += sprintf(*out, "%.*s:%u", (int)host, text, port);
    return NULL;
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
    if (strncmp(path, "/zookeeper", 10) == 0 && (path[10] == '/' || path[10] == '\0'))
        return "/zookeeper is ZooKeeper's own";
    return NULL;
}

int zookeeper_take_place(const char *place, char hosts[COORDINATOR_URL_SIZE_MAX + 1], const char **out_path,
                         char message[COORDINATOR_MESSAGE_SIZE]) {
    const char *path = strchr(place, '/');
    const char *wrong = check_path(path);
    if (wrong != NULL) return refuse(message, place, wrong);
    char *out = hosts;
    for (const char *at = place; at <= path;) {
        size_t size = strcspn(at, ",/");
        if (out != hosts) *out++ = ',';
        wrong = take_host(at, size, &out);
        if (wrong != NULL) return refuse(message, place, wrong);
        at += size + 1;
    }
    *out_path = path;
    return 0;
}
