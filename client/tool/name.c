/* name.c: see name.h. */
#include "name.h"

#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

#define USER_SHOWN 24 /* bytes: 64 + 2 + 24 + 1 + 24 + 7 + 7 is at most 128 */
#define HOST_SHOWN 24

static bool is_plain(const char *text) {
    for (const char *at = text; *at != 0; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7F) return false;
    return is_utf8(text, strlen(text));
}

/* Names that are no UTF-8, or have control characters, would be refused by the broker. */
static void add(char *out, const char *text, size_t shown) {
    size_t size = strnlen(text, shown);
    while (size > 0 && ((unsigned char)text[size] & 0xC0) == 0x80) size--; /* no half character */
    for (size_t i = 0; i < size; i++) out[i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7F ? '?' : text[i];
    out[size] = 0;
}

int name_say(const char *as, char out_name[TOOL_NAME_SIZE]) {
    char user[USER_SHOWN + 1] = "", host[HOST_SHOWN + 1] = "", uid[24], node[256] = "", buffer[4096];
    struct passwd entry, *found = NULL;
    if (as != NULL && (as[0] == 0 || strlen(as) > AS_SIZE_MAX || !is_plain(as))) {
        tool_say("--as: '%s' is not 1 to %d bytes of UTF-8 without control characters", as, AS_SIZE_MAX);
        return EXIT_USAGE;
    }
    snprintf(uid, sizeof uid, "%u", (unsigned)geteuid());
    (void)getpwuid_r(geteuid(), &entry, buffer, sizeof buffer, &found);
    add(user, found != NULL && is_utf8(found->pw_name, strlen(found->pw_name)) ? found->pw_name : uid, USER_SHOWN);
    if (gethostname(node, sizeof node - 1) != 0 || !is_utf8(node, strlen(node))) node[0] = 0;
    add(host, node[0] != 0 ? node : "?", HOST_SHOWN);
    snprintf(out_name, TOOL_NAME_SIZE, "%s%s%s@%s tarry/%ld", as != NULL ? as : "", as != NULL ? ": " : "", user, host,
             (long)getpid());
    return EXIT_FINE;
}
