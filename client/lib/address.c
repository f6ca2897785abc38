/* address.c: the addresses of brokers: what a url may look like, which of them a broker means, and what each said last.
 *
 * What an address said is for people: the sentence that a call ends with when nobody answered it names all of them. */
#include "client.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCHEME "ws://"

/* One address, `size` bytes, into `out`, with the default port if it names none. */
static int parse_address(const char *text, size_t size, char out[ADDRESS_SIZE_MAX]) {
    size_t scheme_size = strlen(SCHEME);
    if (size > scheme_size && text[size - 1] == '/') size--;
    if (size <= scheme_size || size >= ADDRESS_SIZE_MAX - 8 || strncmp(text, SCHEME, scheme_size) != 0)
        return TARRY_E_ADDRESS;
    const char *host = text + scheme_size, *end = text + size, *port = NULL, *host_end = end;
    for (const char *at = host; at < end; at++) {
        if (*at <= ' ' || *at == '/' || *at == '?' || *at == '#' || *at == '@' || *at == 127) return TARRY_E_ADDRESS;
    }
    if (*host == '[') {
        const char *bracket = memchr(host, ']', (size_t)(end - host));
        if (bracket == NULL) return TARRY_E_ADDRESS;
        host_end = bracket + 1;
    } else {
        const char *colon = memchr(host, ':', (size_t)(end - host));
        if (colon != NULL) host_end = colon;
    }
    if (host_end == host) return TARRY_E_ADDRESS;
    if (host_end < end) {
        if (*host_end != ':') return TARRY_E_ADDRESS;
        port = host_end + 1;
        char digits[6] = {0};
        size_t digit_count = (size_t)(end - port);
        if (digit_count == 0 || digit_count > 5) return TARRY_E_ADDRESS;
        memcpy(digits, port, digit_count);
        if (strspn(digits, "0123456789") != digit_count) return TARRY_E_ADDRESS;
        int number = atoi(digits);
        if (number < 1 || number > 65535) return TARRY_E_ADDRESS;
        snprintf(out, ADDRESS_SIZE_MAX, "%.*s", (int)size, text);
    } else {
        snprintf(out, ADDRESS_SIZE_MAX, "%.*s:%d", (int)size, text, DEFAULT_PORT);
    }
    return TARRY_OK;
}

size_t addresses_find(const struct addresses *addresses, const char *url) {
    char normal[ADDRESS_SIZE_MAX];
    size_t at = 0;
    if (parse_address(url, strnlen(url, ADDRESS_SIZE_MAX), normal) != TARRY_OK) return addresses->count;
    while (at < addresses->count && strcmp(addresses->items[at].url, normal) != 0) at++;
    return at;
}

int addresses_parse(struct addresses *addresses, const char *urls) {
    const char *at = urls != NULL ? urls : DEFAULT_URL;
    for (;;) {
        size_t size = strcspn(at, ",");
        const char *end = at + size;
        while (size > 0 && *at == ' ') at++, size--;
        while (size > 0 && at[size - 1] == ' ') size--;
        if (addresses->count == ADDRESSES_MAX) return TARRY_E_ADDRESS;
        struct address *address = &addresses->items[addresses->count];
        int rv = parse_address(at, size, address->url);
        if (rv != TARRY_OK) return rv;
        address->said[0] = 0;
        if (addresses_find(addresses, address->url) == addresses->count) addresses->count++; /* not twice the same */
        if (*end == 0) return TARRY_OK;
        at = end + 1;
    }
}

void address_say(struct address *address, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(address->said, sizeof(address->said), format, list);
    va_end(list);
}

void addresses_tell(const struct addresses *addresses, char *out, size_t size) {
    size_t used = 0;
    out[0] = 0;
    for (size_t i = 0; i < addresses->count && used < size; i++) {
        const struct address *address = &addresses->items[i];
        const char *said = address->said[0] != 0 ? address->said : "not tried yet";
        int added = snprintf(out + used, size - used, "%s%s: %s", i > 0 ? "; " : "", address->url, said);
        used += added > 0 ? (size_t)added : 0;
    }
}
